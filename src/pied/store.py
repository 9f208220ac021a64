"""The documented path of `pied.records.sql`: records in SQLite and PostgreSQL."""

from pied.records.sql import *  # noqa: F403
