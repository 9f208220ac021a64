"""Connections to SQLite files: for writers with a write-ahead log, for readers without a trace.

A reader that may not write, or is not the owner of the file, reads an image of it in memory. SQLite itself would make
the files `-wal` and `-shm` in the reader's name and leave them there, which locks the owner out, or fail where the
folder cannot be written.
"""

import os
import random
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pied.errors import StoreAway, StoreError
from pied.records.complaints import LOCK_WAIT

SIDE_FILES = ("-wal", "-journal")
"""Files beside a database that hold a part of its content; `-shm` holds none."""
CLOCK_TICK = 2.0
"""Seconds: a file that changed so shortly before it was read may have changed again within one tick of its clock."""
IMAGE_ATTEMPTS = 100
"""How often an image is taken again because the file changed meanwhile."""


class Image(sqlite3.Connection):
    """A database in memory, as a file was at one moment."""

    file: Path
    signature: tuple[Any, ...]
    """Times and sizes of the files, before they were read."""
    is_certain: bool
    """Whether the same times and sizes mean the same content."""

    def is_stale(self) -> bool:
        """Whether the file may have changed since."""
        return not self.is_certain or _signature(self.file) != self.signature


def is_guest(file: Path) -> bool:
    """Whether this process should read a file without touching it: it is another user's, or cannot be written."""
    if not (os.access(file, os.W_OK) and os.access(file.parent, os.W_OK | os.X_OK)):
        return True
    user = getattr(os, "geteuid", lambda: 0)()
    return user not in (0, file.stat().st_uid)  # what root makes here, SQLite hands to the owner of the file


def connect(file: Path, *, read_only: bool) -> sqlite3.Connection:
    """Open a database; a reader of one's own file looks at it, a guest gets an image.

    A reader of its own files opens them like a writer, and is kept from writing by SQLite: only so its last connection
    takes `-wal` and `-shm` away again.
    """
    if read_only and is_guest(file):
        return image(file)
    place = f"{file.as_uri()}?mode={'rw' if read_only else 'rwc'}"
    connection = sqlite3.connect(place, timeout=LOCK_WAIT, isolation_level=None, check_same_thread=False, uri=True)
    try:
        _settle(connection)
        if read_only:
            connection.execute("PRAGMA query_only=ON")
            return connection
        queue(lambda: connection.execute("PRAGMA journal_mode=WAL"))  # does not wait for others by itself
        connection.execute("PRAGMA synchronous=FULL")
    except BaseException:
        connection.close()
        raise
    return connection


def begin(connection: sqlite3.Connection, *, write: bool) -> None:
    """Begin a transaction; writers queue."""
    if not write:
        connection.execute("BEGIN")
        return
    connection.execute("PRAGMA busy_timeout=0")
    try:
        queue(lambda: connection.execute("BEGIN IMMEDIATE"))
    finally:
        connection.execute(f"PRAGMA busy_timeout={LOCK_WAIT * 1000:.0f}")


def queue(attempt: Callable[[], object]) -> None:
    """Try until the others have finished: at random moments, because SQLite's own waits get long and unfair."""
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
    """Read a database into memory, whole and consistent, whatever its owner writes meanwhile.

    The file is read twice with the files beside it in between. Owners change the database itself only when they move
    the write-ahead log into it, so two equal readings are one state of it; a log with the same first bytes before and
    after was not begun anew, and what was appended meanwhile is a transaction that is there or is not.

    Raises:
        StoreError: When it cannot be read.
        StoreAway: When it changes all the time.
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
    raise StoreAway(f"{file} is written all the time: try again")


def _load(content: bytes, sides: dict[str, bytes]) -> Image:
    """Make a database in memory from the content of its files."""
    base = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False, factory=Image)
    try:
        if sides:  # SQLite itself reads a log, in a folder of our own
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
            base.deserialize(content[:18] + b"\1\1" + content[20:])  # a database in memory has no write-ahead log
        _settle(base)
        base.execute("PRAGMA query_only=ON")
    except BaseException:
        base.close()
        raise
    return base


def _settle(connection: sqlite3.Connection) -> None:
    """What every connection needs against the files of strangers."""
    connection.execute("PRAGMA trusted_schema=OFF")  # what a stranger's file defines may not call anything
    connection.text_factory = lambda raw: raw.decode("utf-8", "backslashreplace")


def _signature(file: Path) -> tuple[Any, ...]:
    """Times, sizes and identities of a database's files; None where there is none."""
    found: list[tuple[int, int, int] | None] = []
    for side in ("", *SIDE_FILES):
        try:
            seen = file.with_name(file.name + side).stat()
            found.append((seen.st_mtime_ns, seen.st_size, seen.st_ino))
        except FileNotFoundError:
            found.append(None)
    return tuple(found)


def _read(file: Path, side: str, most: int = -1) -> bytes:
    """Return the bytes of a file beside the database, empty when there is none."""
    try:
        with file.with_name(file.name + side).open("rb") as source:
            return source.read(most)
    except FileNotFoundError:
        return b""
