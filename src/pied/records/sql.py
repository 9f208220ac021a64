"""Studies in a database: SQLite files and PostgreSQL servers, through SQLAlchemy Core.

Every write is one transaction that first increases the study's change number. This locks the study's row, so writers of
one study queue, and readers ask for the changes after the number they know. Values are also stored as text of full
precision, because a database may round or refuse some doubles (NaN, -0.0).
"""

import os
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import sqlalchemy as sql
from sqlalchemy.exc import (
    ArgumentError,
    DBAPIError,
    DisconnectionError,
    IntegrityError,
    NoSuchModuleError,
    OperationalError,
)

from pied.address import masked
from pied.errors import MissingExtra, StoreError, did_you_mean
from pied.records import journal, rows, sqlite
from pied.records.complaints import IDLE_LIMIT, LOCK_WAIT, translated
from pied.records.event import Event
from pied.records.names import renamed
from pied.records.plain import cleaned, key
from pied.records.record import ASKED, FAILED, PARTIAL, About, Clock, Pen, Question, Record, Row, Taken, Value
from pied.records.rows import text
from pied.records.schema import (
    VERSION,
    as_stored,
    events,
    refuse_programs,
    revisions,
    studies,
    told_values,
    trials,
    unusable,
    upgrade,
    version_of,
)


class Store:
    """A database with studies, found by name."""

    def __init__(
        self, engine: sql.Engine, shown: str, *, read_only: bool, clock: Clock, file: Path | None = None
    ) -> None:
        self._engine = engine
        self.url = shown
        """The address, without a password."""
        self._secrets: tuple[str, ...] = ()
        self.is_read_only = read_only
        self._version = VERSION
        self._file = file
        self.clock = clock
        self.fallbacks = journal.places(file)
        """Path prefixes of the files for results that could not be written (see `journal`)."""

    @classmethod
    def connect(cls, url: str | Path, *, read_only: bool = False, clock: Clock = time.time) -> "Store":
        """Open a store; create or upgrade its tables, unless it is only read.

        Args:
            url: "sqlite:///file.db", "postgresql+psycopg://user@host/base", or a file's path; `?mode=ro` only reads.
            read_only: Write nothing: no tables, and no files beside the database.
            clock: Seconds since 1970.

        Raises:
            StoreError: When it cannot be opened, or is not a store.
        """
        place, is_for_reading = _url(url)
        read_only = read_only or is_for_reading
        file = Path(str(place.database)).absolute() if place.get_backend_name() == "sqlite" else None
        engine = _engine(place, read_only) if file is None else _sqlite(file, read_only)
        named = place if place.database is None else place.set(database=cleaned(place.database))
        shown = masked(named.render_as_string(), _secrets(place))
        store = cls(engine, shown, read_only=read_only, clock=clock, file=file)
        store._secrets = _secrets(place)
        try:
            with store._begin(write=False) as tx:
                refuse_programs(tx, store.url)
                version = version_of(tx, store.url)
            if version < VERSION and not read_only:
                with store._begin(write=True) as tx:
                    upgrade(tx, store.url)
            elif not 0 < version <= VERSION:
                raise StoreError(unusable(version, store.url))
            store._version = version if read_only else VERSION
        except BaseException:
            store.close()
            raise
        return store

    def version(self, tx: sql.Connection) -> int:
        """Return the version of the tables; who only reads an old store may see it upgraded by a writer."""
        if self._version < VERSION:
            self._version = version_of(tx, self.url)
        return self._version

    def backup(self, target: str | Path, *, replace: bool = False) -> None:
        """Write all studies as they are at this moment into another SQLite file, also while others write.

        Args:
            target: The new file.
            replace: Whether a file that is there already is replaced.

        Raises:
            StoreError: When the file is there already or cannot be written, or this is a server.
        """
        if self._file is None:
            raise StoreError(f"{self.url} is kept by a server, which copies it itself: use pg_dump")
        sqlite.backup(self._file, Path(target).absolute(), replace=replace)

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Store({self.url!r}{', read_only=True' if self.is_read_only else ''})"

    # ------------------------------------------------------------------------------------------------ studies

    def studies(self) -> list[About]:
        """Return the descriptions of all studies, the oldest first."""
        with self._begin(write=False) as tx:
            return [rows.about(row) for row in tx.execute(as_stored(studies).order_by(studies.c.id))]

    def find(self, name: str) -> "Record | None":
        """Return the record of a study, or None when there is none of this name."""
        name = cleaned(name)
        with self._begin(write=False) as tx:
            row = tx.execute(as_stored(studies).where(studies.c.name == name).limit(1)).one_or_none()
            if row is None:
                return None
            study, about = rows.whole(row.id, f"study '{name}'", "id"), rows.about(row)
            gone = _gone(tx, study, about)
        return _Kept(self, study, about, rows.damage(f"study '{name}' of {self.url}", gone) if gone else "")

    def record(self, name: str) -> "Record":
        """Return the record of a study; raise `StoreError` when there is none of this name."""
        found = self.find(name)
        if found is None:
            known = [about.name for about in self.studies()]
            raise StoreError(f"{self.url} has no study '{name}'.{did_you_mean(name, known)}")
        return found

    def create(self, about: About) -> "Record":
        """Write a new study, or return the one of this name that another process has just written."""
        now, statement = self.clock(), text(about.statement)
        made = {
            "name": cleaned(about.name), "statement": statement, "seed": str(about.seed), "solver": text(about.solver),
            "initial": about.initial, "revision": 1, "change": 0, "created": now, "version": rows.version_of_pied(),
        }  # fmt: skip
        try:
            with self._begin(write=True) as tx:
                place = tx.execute(sql.insert(studies).values(made)).inserted_primary_key
                first = {"number": 1, "key": key(about.statement), "statement": statement, "asked": now}
                tx.execute(sql.insert(revisions).values(study=place[0] if place else None, **first))
        except IntegrityError:
            pass
        return self.record(about.name)

    # ------------------------------------------------------------------------------------------------ transactions

    @contextmanager
    def _begin(self, *, write: bool) -> Iterator[sql.Connection]:
        """Begin a transaction; errors of the database become a `StoreError`."""
        if write and self.is_read_only:
            raise StoreError(f"{self.url} was opened to be read only: nothing can be asked, told or changed")
        level = {} if write or self._engine.dialect.name == "sqlite" else {"isolation_level": "REPEATABLE READ"}
        try:
            connecting = self._engine.connect().execution_options(pied_write=write, **level)
            with connecting as connection, connection.begin():
                yield connection
        except IntegrityError:
            raise
        except (DBAPIError, sqlite3.Error) as error:
            is_operational = isinstance(error, OperationalError | sqlite3.OperationalError)
            said = getattr(error, "orig", None) or error
            raise translated(self.url, said, self._secrets, is_operational=is_operational) from error
        except OverflowError as error:  # from counting on with a number that was edited into the file
            raise StoreError(f"{self.url} is damaged: {error}") from error


class _Kept(Record):
    """The record of one study in a database."""

    is_shared = True

    def __init__(self, store: Store, study: int, about: About, damage: str = "") -> None:
        self._store, self._study, self.about, self.clock = store, study, about, store.clock
        self.damage, self.fallbacks = damage, store.fallbacks

    @contextmanager
    def _writing(self) -> Iterator[Pen]:
        if self.damage:
            raise StoreError(self.damage)
        mine = studies.c.id == self._study
        with self._store._begin(write=True) as tx:
            tx.execute(sql.update(studies).where(mine).values(change=studies.c.change + 1))
            if _count(tx, sql.select(studies.c.revision).where(mine)) != self.about.revision:
                self.about = rows.about(tx.execute(as_stored(studies).where(mine)).one())  # somebody has revised it
            yield _Pen(tx, self._study, _count(tx, sql.select(studies.c.change).where(mine)))

    def changes(self, since: int) -> tuple[int, list[Row]]:
        """Return the number of the last change, and the trials changed after `since`."""
        with self._store._begin(write=False) as tx:
            change = _count(tx, sql.select(studies.c.change).where(studies.c.id == self._study))
            found = [] if change == since else _rows(tx, self._study, trials.c.change > since, self._store.version(tx))
        return change, found if not found else self._checked(found)

    def _checked(self, found: list[Row]) -> list[Row]:
        """Correct the state of trials whose values are missing, and mark the record as damaged."""
        gone = rows.missing(self.about.statement.get("outputs") or (), found)
        if not gone:
            return found
        self.damage = self.damage or rows.damage(f"study '{self.about.name}' of {self._store.url}", gone)
        return [replace(row, state=PARTIAL if row.y else ASKED) if row.number in gone else row for row in found]

    def values(self) -> list[Value]:
        """Return all values ever told."""
        wanted = as_stored(told_values).where(told_values.c.study == self._study).order_by(told_values.c.id)
        with self._store._begin(write=False) as tx:
            return [rows.value(row) for row in tx.execute(wanted)]

    def events(self) -> list[Event]:
        """Return the stored events."""
        with self._store._begin(write=False) as tx:
            return _events(tx, self._study) if self._store.version(tx) >= events.info["since"] else []

    def questions(self) -> list[Question]:
        """Return all questions of this study."""
        wanted = as_stored(revisions).where(revisions.c.study == self._study).order_by(revisions.c.number)
        with self._store._begin(write=False) as tx:
            return [rows.question(row) for row in tx.execute(wanted)]

    def revise(
        self,
        statement: Mapping[str, Any],
        *,
        is_new: bool = False,
        names: Mapping[str, str] | None = None,
        worker: str = "",
    ) -> int:
        """Make this the current question and return its number."""
        now = self.clock()
        mine = revisions.c.study == self._study
        same = sql.select(sql.func.max(revisions.c.number)).where(mine, revisions.c.key == key(statement))
        with self._writing() as pen:
            assert isinstance(pen, _Pen)
            number = None if is_new else pen.tx.scalar(same)
            if number is None:
                number = _count(pen.tx, sql.select(sql.func.max(revisions.c.number)).where(mine)) + 1
                made = {"number": number, "key": key(statement), "statement": text(statement), "asked": now}
                pen.tx.execute(sql.insert(revisions).values(study=self._study, **made))
            current = sql.update(studies).where(studies.c.id == self._study)
            pen.tx.execute(current.values(statement=text(statement), revision=number))
            self._rename(pen, names, worker, now)
            self._restate(pen, statement)
        found = self._store.record(self.about.name)
        self.about = found.about
        return int(number)

    def close(self) -> None:
        """Close the store's connections."""
        self._store.close()


class _Pen(Pen):
    """One transaction for one study."""

    def __init__(self, tx: sql.Connection, study: int, change: int) -> None:
        self.tx, self._study, self._change = tx, study, change

    def last(self) -> int:
        return _count(self.tx, sql.select(sql.func.max(trials.c.number)).where(trials.c.study == self._study))

    def row(self, number: int) -> Row | None:
        return next(iter(_rows(self.tx, self._study, trials.c.number == number)), None)

    def pending(self) -> list[Row]:
        return _rows(self.tx, self._study, trials.c.state == ASKED)

    def changed(self, since: int) -> list[Row]:
        return _rows(self.tx, self._study, trials.c.change > since)

    def insert(self, rows: Sequence[Row]) -> None:
        made = [
            {
                "study": self._study, "number": row.number, "is_added": row.is_added, "x": text(row.x),
                "why": text(row.why), "summary": row.summary, "revision": row.revision, "asked": row.asked,
                **self._changing(row),
            }
            for row in rows
        ]  # fmt: skip
        try:
            if made:
                self.tx.execute(sql.insert(trials), made)
        except IntegrityError as error:
            raise Taken from error

    def replace(self, row: Row) -> None:
        mine = (trials.c.study == self._study) & (trials.c.number == row.number)
        self.tx.execute(sql.update(trials).where(mine).values(**self._changing(row)))

    def note(self, values: Iterable[Value]) -> None:
        rows = [
            {
                "study": self._study, "number": each.number, "output": each.output, "exact": each.value.hex(),
                "value": each.value if each.value - each.value == 0 else None, "counts": each.counts,
                "worker": each.worker, "told": each.told,
            }
            for each in values
        ]  # fmt: skip
        if rows:
            self.tx.execute(sql.insert(told_values), rows)

    def strike(self, number: int, outputs: Iterable[str]) -> None:
        mine = (told_values.c.study == self._study) & (told_values.c.number == number)
        struck = mine & told_values.c.output.in_(list(outputs)) & told_values.c.counts
        self.tx.execute(sql.update(told_values).where(struck).values(counts=False))

    def rename(self, names: Mapping[str, str]) -> None:
        for row in _rows(self.tx, self._study, sql.true()):
            mine = (trials.c.study == self._study) & (trials.c.number == row.number)
            run = None if row.run is None else text(renamed(names, row.run))
            points = {"x": text(renamed(names, row.x)), "run": run, "change": self._change}
            self.tx.execute(sql.update(trials).where(mine).values(**points))
        output = sql.case(dict(names), value=told_values.c.output, else_=told_values.c.output)
        mine = (told_values.c.study == self._study) & told_values.c.output.in_(list(names))
        self.tx.execute(sql.update(told_values).where(mine).values(output=output))

    def log(self, happened: Event) -> None:
        made = {"number": happened.number, "kind": happened.kind, "worker": happened.worker, "made": happened.made}
        made |= {"why": happened.why, "data": text(happened.data)}
        self.tx.execute(sql.insert(events).values(study=self._study, **made))

    def events(self) -> list[Event]:
        return _events(self.tx, self._study)

    def corrections(self) -> int:
        return _count(self.tx, sql.select(sql.func.max(trials.c.corrected)).where(trials.c.study == self._study))

    def _changing(self, row: Row) -> dict[str, Any]:
        return {
            "change": self._change, "state": row.state, "reason": row.reason, "worker": row.worker,
            "leased": row.leased, "expires": row.expires, "settled": row.settled, "offers": row.offers,
            "run": None if row.run is None else text(row.run), "corrected": row.corrected,
            **({"why": text(row.why)} if row.state == FAILED else {}),
        }  # fmt: skip


def _rows(tx: sql.Connection, study: int, which: sql.ColumnElement[bool], version: int = VERSION) -> list[Row]:
    """Read trials with their values that count."""
    mine = (trials.c.study == study) & which
    numbers = sql.select(trials.c.number).where(mine)
    told: dict[int, dict[str, float]] = {}
    counting = (told_values.c.study == study) & told_values.c.counts & told_values.c.number.in_(numbers)
    for row in tx.execute(as_stored(told_values).where(counting).order_by(told_values.c.id)):
        value = rows.value(row)
        told.setdefault(value.number, {}).setdefault(value.output, value.value)
    found = tx.execute(as_stored(trials, version).where(mine).order_by(trials.c.number))
    return [rows.trial(row, told.get(row.number, {})) for row in found]


def _events(tx: sql.Connection, study: int) -> list[Event]:
    """Read the events of a study, in order."""
    return [
        rows.event(row) for row in tx.execute(as_stored(events).where(events.c.study == study).order_by(events.c.id))
    ]


def _gone(tx: sql.Connection, study: int, about: About) -> list[int]:
    """Return the numbers of told trials that are missing, or whose values are missing."""
    states = sql.select(trials.c.number, trials.c.state).where(trials.c.study == study)
    counting = (told_values.c.study == study) & told_values.c.counts
    told = sql.select(told_values.c.number, told_values.c.output).where(counting)
    outputs = about.statement.get("outputs") or ()
    return rows.gone(outputs, [tuple(each) for each in tx.execute(states)], [tuple(each) for each in tx.execute(told)])


def _count(tx: sql.Connection, wanted: Any) -> int:
    """Read one number; 0 for NULL."""
    return rows.whole(tx.scalar(wanted) or 0, "the study", "change or number")


# ------------------------------------------------------------------------------------------------------- connections


def _url(given: str | Path) -> tuple[sql.URL, bool]:
    """Parse the address of a store, a URL or the path of a SQLite file; also return whether it is read-only."""
    address = str(given)
    if "://" not in address and not os.path.exists(address):
        path, _, words = address.rpartition("?")
        address = f"sqlite:///{address}" if path and words.startswith("mode=") else address
    try:
        url = sql.make_url(address) if "://" in address else sql.URL.create("sqlite", database=address)
    except (ArgumentError, ValueError):  # not chained, because both may quote the address with its password
        shown = address.partition("://")[0]
        raise StoreError(
            f"'{shown}://...' is not the address of a store: write sqlite:///file.db, or postgresql+psycopg://user@host:5432/base"
        ) from None
    kind = url.get_backend_name()
    if kind == "postgres" or (kind == "postgresql" and url.drivername == "postgresql"):
        url = url.set(drivername="postgresql+psycopg")
    elif kind not in ("sqlite", "postgresql"):
        raise StoreError(f"'{kind}' is not a supported store: write sqlite:///file.db, or postgresql+psycopg://...")
    mode = url.query.get("mode", "rwc")
    if mode not in ("ro", "rw", "rwc"):
        raise StoreError(f"mode={mode} is not supported: write ?mode=ro to read one, or leave it out")
    if kind == "sqlite":
        if url.query.get("uri") == "true" and url.database:
            url = url.set(database=url.database.removeprefix("file:"))
        if url.database in (None, "", ":memory:"):
            raise StoreError("a store needs a file: sqlite:///file.db; leave store= out to work in memory")
    return url.difference_update_query(["mode"]), mode == "ro" or url.query.get("immutable") == "1"


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


def _sqlite(file: Path, read_only: bool) -> sql.Engine:
    """Open SQLite with a write-ahead log and full sync: a told value is on disk when `tell` returns."""
    if read_only and not file.is_file():
        raise StoreError(f"there is no store at {file}")
    if not file.parent.is_dir():
        raise StoreError(f"there is no folder {file.parent} to keep a store in")
    engine = sql.create_engine(
        "sqlite://", creator=lambda: sqlite.connect(file, read_only=read_only), poolclass=sql.QueuePool
    )

    @sql.event.listens_for(engine, "begin")
    def begin(connection: sql.Connection) -> None:
        write = bool(connection.get_execution_options().get("pied_write", False))
        raw: Any = connection.connection.dbapi_connection
        sqlite.begin(raw, write=write)

    @sql.event.listens_for(engine, "close")
    def collect(connection: Any, _: Any) -> None:
        if not isinstance(connection, sqlite.Image):
            sqlite.collect(connection)

    @sql.event.listens_for(engine, "checkout")
    def renew(connection: Any, kept: Any, _: Any) -> None:
        if isinstance(connection, sqlite.Image) and kept.info.get("was used") and connection.is_stale():
            raise DisconnectionError  # the pool opens another one
        kept.info["was used"] = True

    return engine
