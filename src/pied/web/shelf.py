"""All studies of the dashboard: of the named files, of a store, and those made by the form."""

import re
import threading
from collections.abc import Sequence
from pathlib import Path

from pied.errors import PiedError, StatementError, did_you_mean
from pied.records.sql import Store
from pied.shell.opening import is_there
from pied.shell.speech import NoAnswer
from pied.web.room import Room


class Missing(NoAnswer):
    """There is no such study or trial."""


class Shelf:
    """The studies that can be looked at.

    Args:
        files: Problem files; with none and without a store, those of the folder.
        store: A store, whose studies are shown too.
        folder: Where new problem files are written.
    """

    def __init__(self, files: Sequence[str], *, store: str | None, folder: Path) -> None:
        self.store, self.folder = store, folder
        self._lock = threading.Lock()
        self._rooms: dict[str, Room] = {}
        self._seen: set[str] = set()
        self._scans = not files and store is None
        for file in files:
            self.add(file)
        self.rooms()

    def add(self, file: str) -> Room:
        """Add the study of a problem file; it is read when it is looked at."""
        with self._lock:
            for room in self._rooms.values():
                if room.file == file:
                    return room
            stem = Path(file.rpartition(":")[0] or file).stem
            room = Room(self._key(stem), file=file, store=self.store)
            self._rooms[room.key] = room
            return room

    def _key(self, name: str) -> str:
        """Return a name for addresses that is not taken."""
        plain = re.sub(r"[^A-Za-z0-9_.-]+", "-", name).strip("-.") or "study"
        keys = (plain if count == 1 else f"{plain}-{count}" for count in range(1, len(self._rooms) + 2))
        return next(key for key in keys if key not in self._rooms)

    def rooms(self) -> list[Room]:
        """Return all studies, with those that were made since."""
        if self._scans:
            for file in sorted(self.folder.glob("*.toml")):
                if str(file) not in self._seen and _is_problem(file):
                    self._seen.add(str(file))
                    self.add(str(file))
        if self.store is not None and is_there(self.store):
            with Store.connect(self.store, read_only=True) as base:
                names = [about.name for about in base.studies()]
            named = set()
            for room in list(self._rooms.values()):
                try:
                    named.add(room.stated().name)
                except PiedError:
                    continue
            with self._lock:
                for name in names:
                    if name not in named:
                        room = Room(self._key(name), file=None, store=self.store, name=name)
                        self._rooms[room.key] = room
        return list(self._rooms.values())

    def room(self, key: str) -> Room:
        """Return a study by its name in addresses."""
        if key not in self._rooms:
            self.rooms()
        if key not in self._rooms:
            raise Missing(f"there is no study '{key}'.{did_you_mean(key, self._rooms)}")
        return self._rooms[key]

    def close(self) -> None:
        """Close all stores for good."""
        for room in list(self._rooms.values()):
            room.close()


def _is_problem(file: Path) -> bool:
    """Tell whether a file of a folder is meant as a problem: others, such as pyproject.toml, are passed over."""
    from pied.shell.statement_file import from_toml

    try:
        from_toml(file)
    except StatementError as error:
        text = file.read_text(encoding="utf-8", errors="replace")
        return "[variables" in text and "[outputs" in text and error.path != ()
    return True
