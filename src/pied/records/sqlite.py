"""Studies in a SQLite file: writers use a write-ahead log, readers leave no files behind.

A reader without write permission, or who does not own the file, gets a copy of it in memory. SQLite itself would create
the files `-wal` and `-shm` as the reader's and leave them there, which locks the owner out, or it would fail in a
folder that cannot be written.
"""

import os
import random
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

from pied.errors import StoreAway, StoreError
from pied.records.complaints import LOCK_WAIT, translated
from pied.records.transaction import Base, Clash, Transaction

SIDE_FILES = ("-wal", "-journal")
"""Suffixes of the files beside a database that hold part of its content; `-shm` holds none."""
CLOCK_TICK = 2.0
"""Seconds, the coarsest time stamp of a file system: a file changed more recently may change again unnoticed."""
READ_WAIT = 0.5
"""Seconds that who closes a store waits for those who read it."""
IMAGE_ATTEMPTS = 100
"""Attempts to copy a file that changes while it is read."""
MOST_KEPT = 5
"""Connections that a store keeps for its next transactions; threads that use it at the same time have one each."""


class File(Base):
    """A database in a file. A told value is on the disk when its transaction ends.

    Args:
        file: Its absolute path.
        shown: Its address, without a password.
        secrets: Passwords in the address, which are never shown.
        read_only: Write nothing, and leave no files beside it.
    """

    def __init__(self, file: Path, shown: str, secrets: Iterable[str], *, read_only: bool) -> None:
        if read_only and not file.is_file():
            raise StoreError(f"there is no store at {file}")
        if not file.parent.is_dir():
            raise StoreError(f"there is no folder {file.parent} to keep a store in")
        self.file, self.shown, self._secrets, self.is_read_only = file, shown, tuple(secrets), read_only
        self._kept: list[sqlite3.Connection] = []

    @contextmanager
    def begin(self, *, write: bool) -> Iterator[Transaction]:
        """Begin a transaction; a writer waits for its turn."""
        try:
            with legible():
                connection = self._connection()
                try:
                    begin(connection, write=write)
                    yield _Transaction(connection)
                    connection.commit()
                except BaseException:
                    with suppress(sqlite3.Error):
                        connection.rollback()
                    raise
                finally:
                    self._put_back(connection)
        except sqlite3.Error as error:
            is_operational = isinstance(error, sqlite3.OperationalError)
            raise translated(self.shown, error, self._secrets, is_operational=is_operational) from error

    def close(self) -> None:
        """Close all connections."""
        while self._kept:
            _close(self._kept.pop())

    def _connection(self) -> sqlite3.Connection:
        with suppress(IndexError):  # another thread may take the last one
            while self._kept:
                connection = self._kept.pop()
                if not isinstance(connection, Image) or not connection.is_stale():
                    return connection
                connection.close()
        return connect(self.file, read_only=self.is_read_only)

    def _put_back(self, connection: sqlite3.Connection) -> None:
        if len(self._kept) < MOST_KEPT and not connection.in_transaction:
            self._kept.append(connection)
        else:
            _close(connection)


class _Transaction(Transaction):
    is_server = False

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def read(self, statement: str, **values: Any) -> list[Any]:
        found = self._connection.execute(statement, values)
        names = [column[0] for column in found.description]
        return [SimpleNamespace(**dict(zip(names, row, strict=True))) for row in found]

    def write(self, statement: str, *rows: Mapping[str, Any]) -> None:
        try:
            self._connection.executemany(statement, rows) if rows else self._connection.execute(statement)
        except sqlite3.IntegrityError as error:
            raise Clash from error


@contextmanager
def legible() -> Iterator[None]:
    """Raise what SQLite says as its error, also of a file so damaged that what it says is no text.

    Python raises that it cannot decode the message, and nothing else.
    """
    try:
        yield
    except UnicodeDecodeError as error:
        raise sqlite3.DatabaseError(error.object.decode(errors="replace")) from error


class Image(sqlite3.Connection):
    """A copy in memory of a database file at one moment."""

    file: Path
    signature: tuple[Any, ...]
    """Times and sizes of the files before they were read."""
    is_certain: bool
    """Whether equal times and sizes imply equal content."""

    def is_stale(self) -> bool:
        """Return whether the file may have changed since."""
        return not self.is_certain or _signature(self.file) != self.signature


def is_guest(file: Path) -> bool:
    """Return whether this process must not touch the file: another user owns it, or it cannot be written."""
    if not (os.access(file, os.W_OK) and os.access(file.parent, os.W_OK | os.X_OK)):
        return True
    user = getattr(os, "geteuid", lambda: 0)()
    return user not in (0, file.stat().st_uid)  # SQLite gives files that root creates to the owner of the database


def connect(file: Path, *, read_only: bool) -> sqlite3.Connection:
    """Open a database; a guest gets an image of it.

    The owner who only reads opens the file like a writer, and SQLite forbids writing: otherwise the last connection
    would not remove `-wal` and `-shm`.
    """
    if read_only and is_guest(file):
        return image(file)
    place = f"{file.as_uri()}?mode={'rw' if read_only else 'rwc'}"
    connection = sqlite3.connect(place, timeout=LOCK_WAIT, isolation_level=None, check_same_thread=False, uri=True)
    try:
        _settle(connection)
        if read_only:
            connection.execute("PRAGMA query_only=ON")
            connection.execute("PRAGMA schema_version").fetchone()
            return connection
        queue(lambda: connection.execute("PRAGMA journal_mode=WAL"))  # SQLite does not wait for other connections here
        connection.execute("PRAGMA synchronous=FULL")
    except BaseException as error:
        connection.close()
        if read_only and isinstance(error, sqlite3.OperationalError) and "disk I/O" in str(error):
            return image(file)  # a full disk has no room for the index of the log
        raise
    return connection


def _close(connection: sqlite3.Connection) -> None:
    if not isinstance(connection, Image):
        collect(connection)
    connection.close()


def collect(connection: sqlite3.Connection) -> None:
    """Move the log into the file, so that the file alone has everything; who reads an earlier state is waited for."""
    began = time.monotonic()
    with suppress(sqlite3.Error):  # it is safe in the log, too
        while True:
            _, length, moved = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
            if moved == length or time.monotonic() - began > READ_WAIT:
                return
            time.sleep(random.uniform(0.0005, 0.005))


def backup(file: Path, target: Path, *, replace: bool) -> None:
    """Write what a database has at this moment into another file, complete and consistent, while others write.

    Args:
        file: The database.
        target: The new file; it appears when it is complete.
        replace: Whether a file that is there already is replaced.

    Raises:
        StoreError: When the target is there or cannot be written, or the database is damaged.
    """
    _check_target(file, target, replace=replace)
    part = target.with_name(f"{target.name}.part-{os.getpid()}")
    try:
        with legible(), closing(connect(file, read_only=True)) as source, closing(sqlite3.connect(part)) as copy:
            source.backup(copy)
            copy.execute("PRAGMA journal_mode=DELETE")  # one file without a log
            if (found := copy.execute("PRAGMA quick_check(1)").fetchone()[0]) != "ok":
                raise StoreError(
                    f"{file} is damaged ({' '.join(str(found).split())}) and was not copied: 'pied export --json' "
                    "writes what can still be read"
                )
        with part.open("rb+") as whole:
            os.fsync(whole.fileno())
        if not replace:
            target.touch(exist_ok=False)  # nobody else writes there now
        part.replace(target)
    except FileExistsError:
        raise StoreError(_IS_THERE.format(target)) from None
    except (OSError, sqlite3.Error) as error:
        if isinstance(error, StoreError):
            raise
        said = getattr(error, "strerror", None) or str(error)
        raise StoreError(f"{file} was not copied to {target}: {said}") from error
    finally:
        part.unlink(missing_ok=True)


_IS_THERE = "{} exists already and was not changed: name another file, or say --replace"


def _check_target(file: Path, target: Path, *, replace: bool) -> None:
    """Refuse a place where a copy would overwrite something, or would be read together with another file's log."""
    if not target.parent.is_dir():
        raise StoreError(f"there is no folder {target.parent} to write a copy into")
    if target.is_dir():
        raise StoreError(f"{target} is a folder: name a file in it")
    if target.exists() and target.samefile(file):
        raise StoreError(f"{target} is the store itself: name another file for the copy")
    if target.exists() and not replace:
        raise StoreError(_IS_THERE.format(target))
    for side in SIDE_FILES:
        if target.with_name(target.name + side).exists():
            raise StoreError(f"{target} is in use, or was not closed ({target.name}{side} is there): name another file")


def begin(connection: sqlite3.Connection, *, write: bool) -> None:
    """Begin a transaction; a writer waits for its turn."""
    if not write:
        connection.execute("BEGIN")
        return
    connection.execute("PRAGMA busy_timeout=0")
    try:
        queue(lambda: connection.execute("BEGIN IMMEDIATE"))
    finally:
        connection.execute(f"PRAGMA busy_timeout={LOCK_WAIT * 1000:.0f}")


def queue(attempt: Callable[[], object]) -> None:
    """Retry while the database is locked, at random intervals: SQLite's own waiting is slow and unfair."""
    began = time.monotonic()
    while True:
        try:
            attempt()
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() - began > LOCK_WAIT:
                raise
        time.sleep(random.uniform(0.0005, 0.005))


def image(file: Path) -> Image:
    """Copy a database into memory, complete and consistent, even while its owner writes.

    The database is read before and after the files beside it. It changes only when the write-ahead log is moved into
    it, so two equal readings show one state. A log whose first bytes have not changed was not restarted; a transaction
    that was appended in the meantime is either complete in the copy or ignored by SQLite.

    Raises:
        StoreError: When it cannot be read.
        StoreAway: When it kept changing during all attempts.
    """
    try:
        for attempt in range(IMAGE_ATTEMPTS):
            signature, now = _signature(file), time.time()
            heads = [_read(file, side, 32) for side in SIDE_FILES]
            content = file.read_bytes()
            sides = {side: _read(file, side) for side in SIDE_FILES}
            same = [_read(file, side, 32) for side in SIDE_FILES] == heads == [each[:32] for each in sides.values()]
            if same and file.read_bytes() == content:
                found = _load(content, {side: text for side, text in sides.items() if text})
                changed = max((each[0] for each in signature if each), default=0) / 1e9
                found.file, found.signature, found.is_certain = file, signature, now - changed > CLOCK_TICK
                return found
            time.sleep(random.uniform(0.0, 0.002) * (attempt + 1))
    except OSError as error:
        if isinstance(error, StoreError):
            raise
        raise StoreError(f"{file} cannot be read: {error.strerror or error}") from error
    raise StoreAway(f"{file} is being written all the time: try again")


def _load(content: bytes, sides: dict[str, bytes]) -> Image:
    """Make a database in memory from the content of its files."""
    base = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False, factory=Image)
    try:
        if sides:  # SQLite reads the log itself, in a temporary folder
            with TemporaryDirectory(prefix="pied-") as folder:
                copy = Path(folder) / "store.db"
                copy.write_bytes(content)
                for side, text in sides.items():
                    copy.with_name(copy.name + side).write_bytes(text)
                whole = sqlite3.connect(copy)
                try:
                    whole.backup(base)
                finally:
                    whole.close()
        elif content:
            base.deserialize(
                content[:18] + b"\1\1" + content[20:]
            )  # in the header: no write-ahead log, which memory does not support
        _settle(base)
        base.execute("PRAGMA query_only=ON")
    except BaseException:
        base.close()
        raise
    return base


def _settle(connection: sqlite3.Connection) -> None:
    """Make a connection safe for files from strangers."""
    connection.execute("PRAGMA trusted_schema=OFF")  # definitions in the file cannot call functions with side effects
    connection.text_factory = lambda raw: raw.decode("utf-8", "backslashreplace")


def _signature(file: Path) -> tuple[Any, ...]:
    """Return times, sizes and inode numbers of a database's files; None for a missing file."""
    found: list[tuple[int, int, int] | None] = []
    for side in ("", *SIDE_FILES):
        try:
            seen = file.with_name(file.name + side).stat()
            found.append((seen.st_mtime_ns, seen.st_size, seen.st_ino))
        except FileNotFoundError:
            found.append(None)
    return tuple(found)


def _read(file: Path, side: str, most: int = -1) -> bytes:
    """Return the first bytes, by default all, of a file beside the database; empty when it is missing."""
    try:
        with file.with_name(file.name + side).open("rb") as source:
            return source.read(most)
    except FileNotFoundError:
        return b""
