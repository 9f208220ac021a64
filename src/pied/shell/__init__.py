"""The command line: a file for each kind of command; `shell.main` lists them all."""
