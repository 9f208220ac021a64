"""The commands of the shell, a file for each kind; `pied.cli` has the table of them."""
