"""Studies on a PostgreSQL server, through SQLAlchemy, which is loaded only here."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import sqlalchemy as sql
from sqlalchemy.exc import ArgumentError, DBAPIError, IntegrityError, NoSuchModuleError, OperationalError

from pied.address import masked
from pied.errors import MissingExtra, StoreError
from pied.records.complaints import IDLE_LIMIT, LOCK_WAIT, translated
from pied.records.transaction import FORMS, Base, Clash, Transaction, only_reads


class Server(Base):
    """A database of a PostgreSQL server.

    Args:
        address: "postgresql+psycopg://user@host:5432/base"; `?mode=ro` only reads.
        read_only: Write nothing.
    """

    def __init__(self, address: str, *, read_only: bool) -> None:
        url = _url(address)
        self.is_read_only = only_reads(url.query) or read_only
        url = url.difference_update_query(["mode"])
        self._secrets = _secrets(url)
        self.shown = masked(url.render_as_string(), self._secrets)
        self._engine = _engine(url, self.is_read_only)

    @contextmanager
    def begin(self, *, write: bool) -> Iterator[Transaction]:
        """Begin a transaction; one that only reads sees the record at one moment."""
        level: dict[str, Any] = {} if write else {"isolation_level": "REPEATABLE READ"}
        try:
            with self._engine.connect().execution_options(**level) as connection, connection.begin():
                yield _Transaction(connection)
        except DBAPIError as error:
            is_operational = isinstance(error, OperationalError)
            said = getattr(error, "orig", None) or error
            raise translated(self.shown, said, self._secrets, is_operational=is_operational) from error

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()


class _Transaction(Transaction):
    is_server = True

    def __init__(self, connection: sql.Connection) -> None:
        self._connection = connection

    def read(self, statement: str, **values: Any) -> list[Any]:
        found = self._connection.execute(sql.text(statement), values)
        return [SimpleNamespace(**row) for row in found.mappings()]

    def write(self, statement: str, *rows: Mapping[str, Any]) -> None:
        try:
            self._connection.execute(sql.text(statement), [dict(row) for row in rows] or None)
        except IntegrityError as error:
            raise Clash from error


def _url(address: str) -> sql.URL:
    try:
        url = sql.make_url(address)
    except (ArgumentError, ValueError):  # not chained, because both may quote the address with its password
        shown = address.partition("://")[0]
        raise StoreError(f"'{shown}://...' is not the address of a store: {FORMS}") from None
    is_open = url.drivername == "postgresql" or url.get_backend_name() == "postgres"
    return url.set(drivername="postgresql+psycopg") if is_open else url


def _secrets(url: sql.URL) -> tuple[str, ...]:
    """Return the passwords in an address."""
    words = [value for name, value in url.query.items() if name.lower() in ("password", "sslpassword")]
    values = [each for value in words for each in ([value] if isinstance(value, str) else value)]
    return (str(url.password or ""), *values)


def _engine(url: sql.URL, read_only: bool) -> sql.Engine:
    try:
        options = {"options": "-c default_transaction_read_only=on"} if read_only else {}
        engine = sql.create_engine(url, pool_pre_ping=True, connect_args={"connect_timeout": 10, **options})
    except (ModuleNotFoundError, NoSuchModuleError) as error:
        raise MissingExtra("a PostgreSQL store", "psycopg", "postgres") from error

    @sql.event.listens_for(engine, "connect")
    def limit(connection: Any, _: Any) -> None:
        with connection.cursor() as cursor:
            cursor.execute(f"SET lock_timeout = '{LOCK_WAIT:.0f}s'")
            cursor.execute(f"SET idle_in_transaction_session_timeout = '{IDLE_LIMIT:.0f}s'")
        connection.commit()

    return engine
