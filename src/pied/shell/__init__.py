"""The commands of the shell, a file for each kind; `pied.shell.main` has the table of them."""
