"""The documented path of `pied.shell.statement_file`: statements in files."""

from pied.shell.statement_file import *  # noqa: F403
