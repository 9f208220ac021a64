"""A record in memory, lost at the end of the process."""

import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from pied.records.event import Event
from pied.records.names import renamed
from pied.records.plain import key
from pied.records.record import ASKED, About, Clock, Pen, Question, Record, Row, Taken, Value


class Memory(Record, Pen):
    """A record in memory, lost at the end of the process."""

    is_shared = False

    def __init__(self, about: About, clock: Clock = time.time) -> None:
        self.about, self.clock = about, clock
        self._lock = threading.RLock()
        self._rows: dict[int, Row] = {}
        self._log: list[int] = []
        self._told: list[Value] = []
        self._events: list[Event] = []
        self._questions = [Question(1, about.statement, clock())]

    @contextmanager
    def _writing(self) -> Iterator[Pen]:
        with self._lock:
            yield self

    def last(self) -> int:
        """Return the largest number."""
        return len(self._rows)

    def row(self, number: int) -> Row | None:
        """Return one trial."""
        return self._rows.get(number)

    def pending(self) -> list[Row]:
        """Return the trials without told values."""
        return [row for row in self._rows.values() if row.state == ASKED]

    def changed(self, since: int) -> list[Row]:
        """Return the trials changed after `since`."""
        return [self._rows[number] for number in sorted(set(self._log[since:]))]

    def insert(self, rows: Sequence[Row]) -> None:
        """Write new trials."""
        if any(row.number in self._rows for row in rows):
            raise Taken
        for row in rows:
            self.replace(row)

    def replace(self, row: Row) -> None:
        """Write the changed state of a trial."""
        self._rows[row.number] = row
        self._log.append(row.number)

    def note(self, values: Iterable[Value]) -> None:
        """Append told values."""
        self._told.extend(values)

    def strike(self, number: int, outputs: Iterable[str]) -> None:
        """Let values no longer count."""
        struck = {(number, output) for output in outputs}
        self._told = [
            replace(each, counts=False) if (each.number, each.output) in struck else each for each in self._told
        ]

    def rename(self, names: Mapping[str, str]) -> None:
        """Give variables and outputs new names."""
        self._told = [replace(each, output=names.get(each.output, each.output)) for each in self._told]
        for row in list(self._rows.values()):
            run = None if row.run is None else renamed(names, row.run)
            self.replace(replace(row, x=renamed(names, row.x), y=renamed(names, row.y), run=run))

    def log(self, happened: Event) -> None:
        """Append an event."""
        self._events.append(happened)

    def events(self) -> list[Event]:
        """Return the stored events."""
        return list(self._events)

    def corrections(self) -> int:
        """Return the number of the last correction."""
        return max((row.corrected for row in self._rows.values()), default=0)

    def changes(self, since: int) -> tuple[int, list[Row]]:
        """Return the number of the last change, and the trials changed after `since`."""
        return len(self._log), self.changed(since)

    def values(self) -> list[Value]:
        """Return all values ever told."""
        return list(self._told)

    def questions(self) -> list[Question]:
        """Return all questions of this study."""
        return list(self._questions)

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
        for question in reversed(self._questions):
            if not is_new and key(question.statement) == key(statement):
                break
        else:
            question = Question(len(self._questions) + 1, statement, now)
            self._questions.append(question)
        with self._writing() as pen:
            self._rename(pen, names, worker, now)
            self._restate(pen, statement)
        self.about = replace(self.about, statement=statement, revision=question.number)
        return question.number
