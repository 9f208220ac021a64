"""Studies in a database: SQLite files and PostgreSQL servers, through SQLAlchemy Core.

Every write is one transaction that first raises the study's change number: it holds the study's row, so writers of one
study come one after the other, and readers ask for what changed after the number they know. Values are kept as text of
full precision beside the number, because a database may round or refuse what a double can be (NaN, -0.0).
"""

import json
import random
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any

import sqlalchemy as sql
from sqlalchemy.exc import ArgumentError, DBAPIError, IntegrityError, NoSuchModuleError

from pied.errors import MissingExtra, StoreError, did_you_mean
from pied.records.record import ASKED, About, Clock, Pen, Question, Record, Row, Taken, Value, from_plain, key, to_plain

BUSY = 60.0
"""Seconds that a writer waits for the others before it gives up."""
LOCK = 0x70696564
"""Number of the advisory lock under which a server's tables are made ("pied")."""

tables = sql.MetaData()
schema = sql.Table("schema", tables, sql.Column("version", sql.Integer, nullable=False))
studies = sql.Table(
    "studies",
    tables,
    sql.Column("id", sql.Integer, primary_key=True),
    sql.Column("name", sql.Text, nullable=False, unique=True),
    sql.Column("statement", sql.Text, nullable=False),
    sql.Column("seed", sql.Text, nullable=False),
    sql.Column("solver", sql.Text, nullable=False),
    sql.Column("initial", sql.Integer, nullable=False),
    sql.Column("revision", sql.Integer, nullable=False),
    sql.Column("change", sql.Integer, nullable=False),
    sql.Column("created", sql.Double, nullable=False),
    sql.Column("version", sql.Text, nullable=False),
)
revisions = sql.Table(
    "revisions",
    tables,
    sql.Column("study", sql.ForeignKey("studies.id"), primary_key=True),
    sql.Column("number", sql.Integer, primary_key=True, autoincrement=False),
    sql.Column("key", sql.Text, nullable=False),
    sql.Column("statement", sql.Text, nullable=False),
    sql.Column("asked", sql.Double, nullable=False),
)
trials = sql.Table(
    "trials",
    tables,
    sql.Column("study", sql.ForeignKey("studies.id"), primary_key=True),
    sql.Column("number", sql.Integer, primary_key=True, autoincrement=False),
    sql.Column("change", sql.Integer, nullable=False),
    sql.Column("state", sql.Text, nullable=False),
    sql.Column("is_added", sql.Boolean, nullable=False),
    sql.Column("x", sql.Text, nullable=False),
    sql.Column("why", sql.Text, nullable=False),
    sql.Column("summary", sql.Text, nullable=False),
    sql.Column("reason", sql.Text, nullable=False),
    sql.Column("revision", sql.Integer, nullable=False),
    sql.Column("worker", sql.Text, nullable=False),
    sql.Column("leased", sql.Double, nullable=False),
    sql.Column("expires", sql.Double),
    sql.Column("asked", sql.Double, nullable=False),
    sql.Column("settled", sql.Double),
    sql.Column("offers", sql.Integer, nullable=False, server_default="1"),
    sql.Index("trials_by_change", "study", "change"),
    sql.Index("trials_by_state", "study", "state"),
)
observed = sql.Table(
    "values",
    tables,
    sql.Column("id", sql.Integer, primary_key=True),
    sql.Column("study", sql.ForeignKey("studies.id"), nullable=False),
    sql.Column("number", sql.Integer, nullable=False),
    sql.Column("output", sql.Text, nullable=False),
    sql.Column("value", sql.Double),
    sql.Column("exact", sql.Text, nullable=False),
    sql.Column("counts", sql.Boolean, nullable=False),
    sql.Column("worker", sql.Text, nullable=False),
    sql.Column("told", sql.Double, nullable=False),
    sql.Index("values_by_trial", "study", "number"),
)


def _count_offers(tx: sql.Connection) -> None:
    """1 to 2: how often a trial was handed out."""
    tx.exec_driver_sql("ALTER TABLE trials ADD COLUMN offers INTEGER NOT NULL DEFAULT 1")


STEPS: list[Callable[[sql.Connection], None]] = [_count_offers]
"""How a store of version 1, 2, ... becomes one of the next version."""
VERSION = len(STEPS) + 1


class Store:
    """A place that holds studies, by name."""

    def __init__(self, engine: sql.Engine, shown: str, *, read_only: bool, clock: Clock) -> None:
        self._engine = engine
        self.url = shown
        """Where it is, without a password."""
        self.is_read_only = read_only
        self.clock = clock

    @classmethod
    def connect(cls, url: str | Path, *, read_only: bool = False, clock: Clock = time.time) -> "Store":
        """Open a store; make its tables, or bring them up to date, unless it is only read.

        Args:
            url: "sqlite:///file.db", "postgresql+psycopg://user@host/base", or a file's path.
            read_only: Never write, not even tables.
            clock: Seconds since 1970.

        Raises:
            StoreError: When it cannot be opened, or is something else.
        """
        place = _url(url)
        store = cls(_engine(place, read_only), place.render_as_string(), read_only=read_only, clock=clock)
        try:
            with store._begin(write=False) as tx:
                version = store._version(tx)
            if version < VERSION and not read_only:
                with store._begin(write=True) as tx:
                    store._upgrade(tx)
            elif not 0 < version <= VERSION or (read_only and version < VERSION):
                raise StoreError(store._wrong(version))
        except BaseException:
            store.close()
            raise
        return store

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
        """Return what studies there are, the oldest first."""
        with self._begin(write=False) as tx:
            return [_about(row) for row in tx.execute(sql.select(studies).order_by(studies.c.id))]

    def find(self, name: str) -> "Record | None":
        """Return the record of a study, or None."""
        with self._begin(write=False) as tx:
            row = tx.execute(sql.select(studies).where(studies.c.name == name)).one_or_none()
        return None if row is None else _Kept(self, row.id, _about(row))

    def record(self, name: str) -> "Record":
        """Return the record of a study that must be there."""
        found = self.find(name)
        if found is None:
            known = [about.name for about in self.studies()]
            raise StoreError(f"{self.url} has no study '{name}'.{did_you_mean(name, known)}")
        return found

    def create(self, about: About) -> "Record":
        """Write a new study, or return the one of this name that someone else has just written."""
        now, statement = self.clock(), _text(about.statement)
        made = {
            "name": about.name, "statement": statement, "seed": str(about.seed), "solver": _text(about.solver),
            "initial": about.initial, "revision": 1, "change": 0, "created": now, "version": _version_of_pied(),
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
        """Begin a transaction; what the database says is turned into a sentence."""
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
            raise StoreError(_sentence(self.url, getattr(error, "orig", None) or error)) from error

    # ------------------------------------------------------------------------------------------------ the schema

    def _version(self, tx: sql.Connection) -> int:
        """Return the version of the tables: 0 when there are none; refuse what is not ours."""
        names = set(sql.inspect(tx).get_table_names())
        if "schema" not in names:
            foreign = names if self._engine.dialect.name == "sqlite" else names & set(tables.tables)
            if foreign:
                raise StoreError(f"{self.url} is a database, but no store of pied's: name another one")
            return 0
        if not {"studies", "trials", "values"} <= names:
            raise StoreError(f"{self.url} is a database, but no store of pied's: name another one")
        return int(tx.scalar(sql.select(schema.c.version)) or 0)

    def _upgrade(self, tx: sql.Connection) -> None:
        """Make the tables, or take one step after the other, in one transaction."""
        if self._engine.dialect.name == "postgresql":
            tx.execute(sql.select(sql.func.pg_advisory_xact_lock(LOCK)))
        version = self._version(tx)
        if version == 0:
            tables.create_all(tx)
            tx.execute(sql.insert(schema).values(version=VERSION))
            return
        for step in STEPS[version - 1 :]:
            step(tx)
        tx.execute(sql.update(schema).values(version=VERSION))

    def _wrong(self, version: int) -> str:
        if version == 0:
            return f"{self.url} is empty: nothing was stored there yet"
        if version > VERSION:
            return f"{self.url} was written by a newer pied (schema {version}, this one knows {VERSION}): upgrade pied"
        return f"{self.url} has the old schema {version}: open it once for writing, which brings it to {VERSION}"


class _Kept(Record):
    """The record of one study in a database."""

    is_shared = True

    def __init__(self, store: Store, study: int, about: About) -> None:
        self._store, self._study, self.about, self.clock = store, study, about, store.clock

    @contextmanager
    def _writing(self) -> Iterator[Pen]:
        mine = studies.c.id == self._study
        with self._store._begin(write=True) as tx:
            tx.execute(sql.update(studies).where(mine).values(change=studies.c.change + 1))
            yield _Pen(tx, self._study, int(tx.scalar(sql.select(studies.c.change).where(mine)) or 0))

    def changes(self, since: int) -> tuple[int, list[Row]]:
        """Return the number of the last change, and what changed since."""
        with self._store._begin(write=False) as tx:
            change = int(tx.scalar(sql.select(studies.c.change).where(studies.c.id == self._study)) or 0)
            if change == since:
                return change, []
            return change, _rows(tx, self._study, trials.c.change > since)

    def values(self) -> list[Value]:
        """Return everything that was ever told."""
        wanted = sql.select(observed).where(observed.c.study == self._study).order_by(observed.c.id)
        with self._store._begin(write=False) as tx:
            return [
                Value(row.number, row.output, _number(row.exact), row.counts, row.worker, row.told)
                for row in tx.execute(wanted)
            ]

    def questions(self) -> list[Question]:
        """Return every question this study was asked."""
        wanted = sql.select(revisions).where(revisions.c.study == self._study).order_by(revisions.c.number)
        with self._store._begin(write=False) as tx:
            return [Question(row.number, _data(row.statement), row.asked) for row in tx.execute(wanted)]

    def revise(self, statement: Mapping[str, Any]) -> int:
        """Make this the question, and return its number."""
        mine = revisions.c.study == self._study
        same = sql.select(revisions.c.number).where(mine, revisions.c.key == key(statement))
        with self._writing() as pen:
            assert isinstance(pen, _Pen)
            number = pen.tx.scalar(same)
            if number is None:
                number = int(pen.tx.scalar(sql.select(sql.func.max(revisions.c.number)).where(mine)) or 0) + 1
                made = {"number": number, "key": key(statement), "statement": _text(statement), "asked": self.clock()}
                pen.tx.execute(sql.insert(revisions).values(study=self._study, **made))
            current = sql.update(studies).where(studies.c.id == self._study)
            pen.tx.execute(current.values(statement=_text(statement), revision=number))
        found = self._store.record(self.about.name)
        self.about = found.about
        return int(number)

    def close(self) -> None:
        """Close the store's connections."""
        self._store.close()


class _Pen(Pen):
    """One transaction on one study."""

    def __init__(self, tx: sql.Connection, study: int, change: int) -> None:
        self.tx, self._study, self._change = tx, study, change

    def last(self) -> int:
        return int(self.tx.scalar(sql.select(sql.func.max(trials.c.number)).where(trials.c.study == self._study)) or 0)

    def row(self, number: int) -> Row | None:
        return next(iter(_rows(self.tx, self._study, trials.c.number == number)), None)

    def pending(self) -> list[Row]:
        return _rows(self.tx, self._study, trials.c.state == ASKED)

    def insert(self, row: Row) -> None:
        fixed = {"number": row.number, "is_added": row.is_added, "x": _text(row.x), "why": _text(row.why)}
        fixed |= {"summary": row.summary, "revision": row.revision, "asked": row.asked}
        try:
            self.tx.execute(sql.insert(trials).values(study=self._study, **fixed, **self._changing(row)))
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
            self.tx.execute(sql.insert(observed), rows)

    def _changing(self, row: Row) -> dict[str, Any]:
        return {
            "change": self._change, "state": row.state, "reason": row.reason, "worker": row.worker,
            "leased": row.leased, "expires": row.expires, "settled": row.settled, "offers": row.offers,
        }  # fmt: skip


def _rows(tx: sql.Connection, study: int, which: sql.ColumnElement[bool]) -> list[Row]:
    """Read trials with the values that count."""
    mine = (trials.c.study == study) & which
    numbers = sql.select(trials.c.number).where(mine)
    told: dict[int, dict[str, float]] = {}
    counting = (observed.c.study == study) & observed.c.counts & observed.c.number.in_(numbers)
    wanted = sql.select(observed.c.number, observed.c.output, observed.c.exact).where(counting).order_by(observed.c.id)
    for number, output, exact in tx.execute(wanted):
        told.setdefault(number, {}).setdefault(output, _number(exact))
    return [
        Row(
            row.number, _point(row.x), row.state, told.get(row.number, {}), row.is_added, row.reason, _data(row.why),
            row.summary, row.revision, row.worker, row.leased, row.expires, row.offers, row.asked, row.settled,
        )
        for row in tx.execute(sql.select(trials).where(mine).order_by(trials.c.number))
    ]  # fmt: skip


def _about(row: Any) -> About:
    try:
        return About(
            row.name, _data(row.statement), int(row.seed), _data(row.solver), int(row.initial), int(row.revision),
            row.created, row.version,
        )  # fmt: skip
    except (TypeError, ValueError) as error:
        raise StoreError(f"the store is damaged: study '{row.name}' cannot be read ({error})") from error


def _version_of_pied() -> str:
    try:
        return metadata.version("pied")
    except metadata.PackageNotFoundError:
        return ""


def _text(data: Any) -> str:
    return json.dumps(to_plain(data), allow_nan=False, ensure_ascii=False)


def _data(text: str) -> dict[str, Any]:
    try:
        found = from_plain(json.loads(text))
    except (ValueError, RecursionError) as error:
        raise StoreError(f"the store is damaged: {text[:40]!r} cannot be read") from error
    if not isinstance(found, dict):
        raise StoreError(f"the store is damaged: {text[:40]!r} is no object")
    return found


def _point(text: str) -> dict[str, float]:
    try:
        return {name: float(value) for name, value in _data(text).items()}
    except (TypeError, ValueError) as error:
        raise StoreError(f"the store is damaged: {text[:40]!r} is no point") from error


def _number(exact: str) -> float:
    try:
        return float.fromhex(exact)
    except ValueError as error:
        raise StoreError(f"the store is damaged: {exact[:40]!r} is no number") from error


# ------------------------------------------------------------------------------------------------------- connections


def _url(given: str | Path) -> sql.URL:
    """Read where a store is: a URL, or the path of a SQLite file."""
    text = str(given)
    try:
        url = sql.make_url(text) if "://" in text else sql.URL.create("sqlite", database=text)
    except ArgumentError as error:
        raise StoreError(f"'{text}' names no store: write sqlite:///file.db, or postgresql+psycopg://...") from error
    kind = url.get_backend_name()
    if kind == "postgres" or (kind == "postgresql" and url.drivername == "postgresql"):
        url = url.set(drivername="postgresql+psycopg")
    elif kind not in ("sqlite", "postgresql"):
        raise StoreError(f"'{kind}' is no kind of store: write sqlite:///file.db, or postgresql+psycopg://...")
    if kind == "sqlite" and url.database in (None, "", ":memory:"):
        raise StoreError("a store needs a file: sqlite:///file.db; leave store= out to work in memory")
    return url


def _engine(url: sql.URL, read_only: bool) -> sql.Engine:
    if url.get_backend_name() == "sqlite":
        return _sqlite(url, read_only)
    try:
        options = {"options": "-c default_transaction_read_only=on"} if read_only else {}
        return sql.create_engine(url, pool_pre_ping=True, connect_args={"connect_timeout": 10, **options})
    except (ModuleNotFoundError, NoSuchModuleError) as error:
        raise MissingExtra("a PostgreSQL store", "psycopg", "postgres") from error


def _sqlite(url: sql.URL, read_only: bool) -> sql.Engine:
    """SQLite with a write-ahead log and full sync: a told value is on the disk when `tell` returns."""
    file = Path(str(url.database)).absolute()
    if read_only and not file.is_file():
        raise StoreError(f"there is no store at {file}")
    if not file.parent.is_dir():
        raise StoreError(f"there is no folder {file.parent} to keep a store in")

    def connect() -> sqlite3.Connection:
        place = f"{file.as_uri()}?mode={'ro' if read_only else 'rwc'}"
        connection = sqlite3.connect(place, timeout=BUSY, isolation_level=None, check_same_thread=False, uri=True)
        connection.execute("PRAGMA trusted_schema=OFF")  # what a stranger's file defines may not call anything
        if read_only:
            connection.execute("PRAGMA query_only=ON")
            return connection
        _queue(lambda: connection.execute("PRAGMA journal_mode=WAL"))  # does not wait for others by itself
        connection.execute("PRAGMA synchronous=FULL")
        return connection

    engine = sql.create_engine("sqlite://", creator=connect, poolclass=sql.QueuePool)

    @sql.event.listens_for(engine, "begin")
    def begin(connection: sql.Connection) -> None:
        if not connection.get_execution_options().get("pied_write", False):
            connection.exec_driver_sql("BEGIN")
            return
        connection.exec_driver_sql("PRAGMA busy_timeout=0")
        _queue(lambda: connection.connection.cursor().execute("BEGIN IMMEDIATE"))
        connection.exec_driver_sql(f"PRAGMA busy_timeout={BUSY * 1000:.0f}")

    return engine


def _queue(attempt: Callable[[], object]) -> None:
    """Try until the others have finished: at random moments, because SQLite's own waits get long and unfair."""
    began = time.monotonic()
    while True:
        try:
            attempt()
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() - began > BUSY:
                raise
        time.sleep(random.uniform(0.0005, 0.005))


def _sentence(url: str, error: BaseException) -> str:
    """What a database says, in the user's words."""
    said = next(iter(str(error).strip().splitlines()), type(error).__name__)
    if "full" in said or "No space left" in said:
        return f"the disk of {url} is full ({said}): nothing of this call was written, what was told before is kept"
    if "not a database" in said or "malformed" in said:
        return f"{url} is no store of pied's, or is damaged ({said})"
    if "locked" in said:
        return f"{url} was kept busy by others for {BUSY:.0f} s ({said}): try again"
    return f"{url} cannot be used: {said}"
