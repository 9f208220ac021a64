"""What a store needs of a database: transactions, in which statements run.

A statement names its values, `:number`. It is written once for SQLite (`sqlite`) and for servers (`server`).
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

from pied.errors import StoreError

FORMS = "write sqlite:///file.db, or postgresql+psycopg://user@host:5432/base"
"""The addresses of stores, for messages."""


class Clash(Exception):
    """A row of this key is there already: undo the transaction."""


class Transaction(ABC):
    """One transaction."""

    is_server: bool
    """Whether the database is kept by a server."""

    @abstractmethod
    def read(self, statement: str, **values: Any) -> list[Any]:
        """Return the rows that a statement finds: their columns are attributes, their cells unconverted."""

    @abstractmethod
    def write(self, statement: str, *rows: Mapping[str, Any]) -> None:
        """Run a statement, once with each of these values; raise `Clash` when a row of this key is there already."""

    def insert(self, table: str, *rows: Mapping[str, Any]) -> None:
        """Write new rows of the same columns; none when there are none."""
        if rows:
            places = ", ".join(f":{name}" for name in rows[0])
            self.write(f'INSERT INTO "{table}" ({", ".join(rows[0])}) VALUES ({places})', *rows)


class Base(ABC):
    """A database."""

    shown: str
    """Its address, without a password."""
    is_read_only: bool

    @abstractmethod
    def begin(self, *, write: bool) -> AbstractContextManager[Transaction]:
        """Begin a transaction; errors of the database become a `StoreError`."""

    @abstractmethod
    def close(self) -> None:
        """Close all connections; what is begun later opens new ones."""


def only_reads(words: Mapping[str, Any]) -> bool:
    """Return whether the words behind the question mark of an address say that it is only read."""
    mode = words.get("mode", "rwc")
    if mode not in ("ro", "rw", "rwc"):
        raise StoreError(f"mode={mode} is not supported: write ?mode=ro to read one, or leave it out")
    return bool(mode == "ro" or words.get("immutable") == "1")
