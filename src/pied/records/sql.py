"""Studies in a database: SQLite files by Python's own driver, PostgreSQL servers through SQLAlchemy.

Every write is one transaction that first increases the study's change number. This locks the study's row, so writers of
one study queue, and readers ask for the changes after the number they know. Values are also stored as text of full
precision, because a database may round or refuse some doubles (NaN, -0.0).
"""

import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode

from pied.address import masked
from pied.errors import MissingExtra, StoreError, did_you_mean
from pied.measured import SIGNS, Measured
from pied.records import journal, rows, sqlite
from pied.records.event import GROUPS, Event
from pied.records.names import renamed
from pied.records.plain import cleaned, key
from pied.records.record import ASKED, FAILED, PARTIAL, About, Clock, Pen, Question, Record, Row, Taken, Value
from pied.records.rows import text
from pied.records.schema import VERSION, refuse_programs, select, tables, unusable, upgrade, version_of
from pied.records.transaction import FORMS, Base, Clash, Transaction, only_reads


class Store:
    """A database with studies, found by name."""

    def __init__(self, base: Base, *, clock: Clock) -> None:
        self._base = base
        self.url = base.shown
        """The address, without a password."""
        self.is_read_only = base.is_read_only
        self._version = VERSION
        self._file = base.file if isinstance(base, sqlite.File) else None
        self.clock = clock
        self.fallbacks = journal.places(self._file)
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
        base = _opened(str(url), read_only)
        store, read_only = cls(base, clock=clock), base.is_read_only
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

    def version(self, tx: Transaction) -> int:
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
        self._base.close()

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
            return [rows.about(row) for row in tx.read(f"{select('studies')} ORDER BY id")]

    def find(self, name: str) -> "Record | None":
        """Return the record of a study, or None when there is none of this name."""
        name = cleaned(name)
        with self._begin(write=False) as tx:
            found = tx.read(f"{select('studies')} WHERE name = :name LIMIT 1", name=name)
            if not found:
                return None
            (row,) = found
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
                tx.insert("studies", made)
                study = _count(tx, "SELECT id AS n FROM studies WHERE name = :name", name=made["name"])
                first = {"number": 1, "key": key(about.statement), "statement": statement, "asked": now}
                tx.insert("revisions", {"study": study, **first})
        except Clash:
            pass
        return self.record(about.name)

    # ------------------------------------------------------------------------------------------------ transactions

    @contextmanager
    def _begin(self, *, write: bool) -> Iterator[Transaction]:
        """Begin a transaction; errors of the database become a `StoreError`."""
        if write and self.is_read_only:
            raise StoreError(f"{self.url} was opened to be read only: nothing can be asked, told or changed")
        try:
            with self._base.begin(write=write) as tx:
                yield tx
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
        with self._store._begin(write=True) as tx:
            tx.write("UPDATE studies SET change = change + 1 WHERE id = :study", {"study": self._study})
            revision = _count(tx, "SELECT revision AS n FROM studies WHERE id = :study", study=self._study)
            if revision != self.about.revision:  # somebody has revised it
                self.about = rows.about(tx.read(f"{select('studies')} WHERE id = :study", study=self._study)[0])
            yield _Pen(tx, self._study, _change(tx, self._study))

    def changes(self, since: int) -> tuple[int, list[Row]]:
        """Return the number of the last change, and the trials changed after `since`."""
        with self._store._begin(write=False) as tx:
            change, version = _change(tx, self._study), self._store.version(tx)
            found = [] if change == since else _rows(tx, self._study, "change > :since", version, since=since)
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
        with self._store._begin(write=False) as tx:
            version = self._store.version(tx)
            found = tx.read(f"{select('values', version)} WHERE study = :study ORDER BY id", study=self._study)
            return [rows.value(row) for row in found]

    def events(self) -> list[Event]:
        """Return the stored events."""
        with self._store._begin(write=False) as tx:
            return _events(tx, self._study) if self._store.version(tx) >= tables["events"].since else []

    def questions(self) -> list[Question]:
        """Return all questions of this study."""
        with self._store._begin(write=False) as tx:
            found = tx.read(f"{select('revisions')} WHERE study = :study ORDER BY number", study=self._study)
            return [rows.question(row) for row in found]

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
        last = "SELECT max(number) AS n FROM revisions WHERE study = :study"
        stated = {"study": self._study, "statement": text(statement)}
        with self._writing() as pen:
            assert isinstance(pen, _Pen)
            same = 0 if is_new else _count(pen.tx, f"{last} AND key = :key", study=self._study, key=key(statement))
            number = same or _count(pen.tx, last, study=self._study) + 1
            if not same:
                pen.tx.insert("revisions", {**stated, "number": number, "key": key(statement), "asked": now})
            current = "UPDATE studies SET statement = :statement, revision = :number WHERE id = :study"
            pen.tx.write(current, {**stated, "number": number})
            self._rename(pen, names, worker, now)
            self._restate(pen, statement)
        found = self._store.record(self.about.name)
        self.about = found.about
        return number

    def close(self) -> None:
        """Close the store's connections."""
        self._store.close()


class _Pen(Pen):
    """One transaction for one study."""

    def __init__(self, tx: Transaction, study: int, change: int) -> None:
        self.tx, self._study, self._change = tx, study, change

    def last(self) -> int:
        return _count(self.tx, "SELECT max(number) AS n FROM trials WHERE study = :study", study=self._study)

    def row(self, number: int) -> Row | None:
        return next(iter(_rows(self.tx, self._study, "number = :number", number=number)), None)

    def pending(self) -> list[Row]:
        return _rows(self.tx, self._study, "state = :state", state=ASKED)

    def changed(self, since: int) -> list[Row]:
        return _rows(self.tx, self._study, "change > :since", since=since)

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
            self.tx.insert("trials", *made)
        except Clash as error:
            raise Taken from error

    def replace(self, row: Row) -> None:
        self._update(row.number, self._changing(row))

    def note(self, values: Iterable[Value]) -> None:
        made = [
            {
                "study": self._study, "number": each.number, "output": each.output, **_written(each.value),
                "value": float(each.value) if each.value - each.value == 0 else None, "counts": each.counts,
                "worker": each.worker, "told": each.told,
            }
            for each in values
        ]  # fmt: skip
        self.tx.insert("values", *made)

    def strike(self, number: int, outputs: Iterable[str]) -> None:
        struck = (
            'UPDATE "values" SET counts = FALSE '
            "WHERE study = :study AND number = :number AND output = :output AND counts = TRUE"
        )
        self._each(struck, [{"study": self._study, "number": number, "output": output} for output in outputs])

    def rename(self, names: Mapping[str, str]) -> None:
        for row in _rows(self.tx, self._study, "TRUE"):
            run = None if row.run is None else text(renamed(names, row.run))
            self._update(row.number, {"x": text(renamed(names, row.x)), "run": run, "change": self._change})
        told = self.tx.read('SELECT id, output FROM "values" WHERE study = :study', study=self._study)
        new = [{"id": row.id, "output": names[row.output]} for row in told if row.output in names]
        self._each('UPDATE "values" SET output = :output WHERE id = :id', new)

    def log(self, happened: Event) -> None:
        made = {"number": happened.number, "kind": happened.kind, "worker": happened.worker, "made": happened.made}
        self.tx.insert("events", {"study": self._study, **made, "why": happened.why, "data": text(happened.data)})

    def _update(self, number: int, cells: Mapping[str, Any]) -> None:
        """Change some cells of a trial."""
        changed = ", ".join(f"{column} = :{column}" for column in cells)
        mine = {"study": self._study, "number": number}
        self.tx.write(f"UPDATE trials SET {changed} WHERE study = :study AND number = :number", {**cells, **mine})

    def _each(self, statement: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Run a statement with each of these values, not at all with none."""
        if rows:
            self.tx.write(statement, *rows)

    def events(self) -> list[Event]:
        return _events(self.tx, self._study)

    def corrections(self) -> int:
        return _count(self.tx, "SELECT max(corrected) AS n FROM trials WHERE study = :study", study=self._study)

    def _changing(self, row: Row) -> dict[str, Any]:
        return {
            "change": self._change, "state": row.state, "reason": row.reason, "worker": row.worker,
            "leased": row.leased, "expires": row.expires, "settled": row.settled, "offers": row.offers,
            "run": None if row.run is None else text(row.run), "corrected": row.corrected,
            **({"why": text(row.why)} if row.state == FAILED or any(each in row.why for each in GROUPS) else {}),
        }  # fmt: skip


def _rows(tx: Transaction, study: int, which: str, version: int = VERSION, **values: Any) -> list[Row]:
    """Read trials with their values that count."""
    mine = f"study = :study AND {which}"
    told: dict[int, dict[str, float]] = {}
    numbers = f"SELECT number FROM trials WHERE {mine}"
    counting = f"study = :study AND counts = TRUE AND number IN ({numbers})"
    for row in tx.read(f"{select('values', version)} WHERE {counting} ORDER BY id", study=study, **values):
        value = rows.value(row)
        told.setdefault(value.number, {}).setdefault(value.output, value.value)
    found = tx.read(f"{select('trials', version)} WHERE {mine} ORDER BY number", study=study, **values)
    return [rows.trial(row, told.get(row.number, {})) for row in found]


def _events(tx: Transaction, study: int) -> list[Event]:
    """Read the events of a study, in order."""
    return [rows.event(row) for row in tx.read(f"{select('events')} WHERE study = :study ORDER BY id", study=study)]


def _gone(tx: Transaction, study: int, about: About) -> list[int]:
    """Return the numbers of told trials that are missing, or whose values are missing."""
    states = tx.read("SELECT number, state FROM trials WHERE study = :study", study=study)
    counting = 'SELECT number, output FROM "values" WHERE study = :study AND counts = TRUE'
    told = tx.read(counting, study=study)
    outputs = about.statement.get("outputs") or ()
    return rows.gone(outputs, [(row.number, row.state) for row in states], [(row.number, row.output) for row in told])


def _change(tx: Transaction, study: int) -> int:
    """Return the number of the last change of a study."""
    return _count(tx, "SELECT change AS n FROM studies WHERE id = :study", study=study)


def _count(tx: Transaction, statement: str, **values: Any) -> int:
    """Read one number, called n; 0 for NULL."""
    found = tx.read(statement, **values)
    return rows.whole((found[0].n if found else 0) or 0, "the study", "change or number")


def _server(kind: str, address: str, read_only: bool) -> Base:
    """Open the database of a server."""
    if not kind:
        raise StoreError(f"'{kind}://...' is not the address of a store: {FORMS}")
    if kind.partition("+")[0] not in ("postgres", "postgresql"):
        raise StoreError(f"'{cleaned(kind)}' is not a supported store: {FORMS}")
    try:
        from pied.records.server import Server
    except ModuleNotFoundError as error:
        raise MissingExtra("a PostgreSQL store", "SQLAlchemy", "postgres") from error
    return Server(address, read_only=read_only)


def _opened(address: str, read_only: bool) -> Base:
    """Open the database of an address, a URL or the path of a SQLite file."""
    kind, sign, rest = address.partition("://")
    login = ""
    if not sign:
        file, _, words = address.rpartition("?")
        if not (file and words.startswith("mode=")) or os.path.exists(address):
            file, words = address, ""
    elif kind.partition("+")[0] != "sqlite":
        return _server(kind, address, read_only)
    else:
        login, at, place = ("", "", rest) if rest.startswith("/") else rest.rpartition("@")
        host, _, file = place.partition("/")
        login += at + host
        file, _, words = file.partition("?")
    query = dict(parse_qsl(words))
    read_only = only_reads(query) or read_only
    if query.get("uri") == "true":
        file = file.removeprefix("file:")
    if file in ("", ":memory:"):
        raise StoreError("a store needs a file: sqlite:///file.db; leave store= out to work in memory")
    query.pop("mode", None)
    shown = f"sqlite://{login}/{cleaned(file)}" + (f"?{urlencode(query)}" if query else "")
    secrets = [login.partition(":")[2].rpartition("@")[0]]
    secrets += [value for name, value in query.items() if name.lower() in ("password", "sslpassword")]
    return sqlite.File(Path(file).absolute(), masked(shown, secrets), secrets, read_only=read_only)


def _written(value: float) -> dict[str, Any]:
    """Return a told number as cells: its error, or the sign of a limit, stands under "deviation"."""
    if not isinstance(value, Measured):
        return {"exact": value.hex(), "deviation": None, "repetitions": None}
    own = SIGNS[value.side] if value.side else value.deviation.hex()
    return {"exact": value.said.hex(), "deviation": own, "repetitions": value.count}
