"""The record of a study as plain data: its rules, and the record that lives in memory.

Nothing here knows tensors or databases: a worker can take part in a study with this floor and a store alone. The rules
stand once, in `Record`; where the rows are kept is decided by a `Pen` (here in memory, in `store` in a database).
"""

import hashlib
import json
import math
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from pied.errors import TellError

ASKED, PARTIAL, TOLD, FAILED = "asked", "partial", "told", "failed"
"""States of a trial, as they are written."""
LONGEST_REMAINDER = 2.0
"""A lease with more than this many times its length to go was written by a clock that has been set back since."""
LONGEST_REASON = 4000
"""Characters of a failure's text that are kept: its beginning and its end, where programs say what went wrong."""

Clock = Callable[[], float]


@dataclass(frozen=True)
class Row:
    """One trial as it is written down."""

    number: int
    x: Mapping[str, float]
    """Where, natural units."""
    state: str
    y: Mapping[str, float] = field(default_factory=dict)
    """The first told value of each output that has one."""
    is_added: bool = False
    reason: str = ""
    why: Mapping[str, Any] = field(default_factory=dict)
    """Why the point was proposed, as plain data."""
    summary: str = ""
    revision: int = 1
    """Number of the question under which it was asked."""
    worker: str = ""
    """Who evaluates it, or did."""
    leased: float = 0.0
    """When it was handed out last, seconds since 1970."""
    expires: float | None = None
    """When it may be handed out again; None: never."""
    offers: int = 1
    """How often it was handed out."""
    asked: float = 0.0
    """When it was asked or added."""
    settled: float | None = None
    """When it was told completely, or failed."""

    def is_expired(self, now: float) -> bool:
        """Whether its lease has run out, or was written by a clock that cannot be right."""
        if self.expires is None:
            return False
        return now >= self.expires or self.expires - now > LONGEST_REMAINDER * (self.expires - self.leased)


@dataclass(frozen=True)
class Value:
    """One observed value, as someone told it; none is ever changed or deleted."""

    number: int
    """Of the trial."""
    output: str
    value: float
    counts: bool
    """Whether it is the value of the trial: the first one told is; repeated, contradicting and refused ones are not."""
    worker: str
    told: float
    """When, seconds since 1970."""


@dataclass(frozen=True)
class Question:
    """One statement of a study's problem: the data stay, g and constants may change."""

    number: int
    """Counted from 1."""
    statement: Mapping[str, Any]
    asked: float
    """When it was first put."""


@dataclass(frozen=True)
class About:
    """What a study is, beside its trials."""

    name: str
    statement: Mapping[str, Any]
    """The question as it stands."""
    seed: int
    solver: Mapping[str, Any]
    """Name and settings."""
    initial: int
    """Size of the initial design."""
    revision: int = 1
    """Number of the question as it stands."""
    created: float = 0.0
    version: str = ""
    """Of the library that made it."""


class Taken(Exception):
    """Someone else has it: undo the transaction."""


class Pen(ABC):
    """What the rules need to write: used inside of one transaction, which has the study for itself."""

    @abstractmethod
    def last(self) -> int:
        """Return the largest number, 0 in an empty record."""

    @abstractmethod
    def row(self, number: int) -> Row | None:
        """Return one trial."""

    @abstractmethod
    def pending(self) -> list[Row]:
        """Return the trials of which nothing was told yet, by number."""

    @abstractmethod
    def insert(self, row: Row) -> None:
        """Write a new trial under its number; raise `Taken` when someone else has it."""

    @abstractmethod
    def replace(self, row: Row) -> None:
        """Write the changed state of a trial (not its values)."""

    @abstractmethod
    def note(self, values: Iterable[Value]) -> None:
        """Append observed values."""


class Record(ABC):
    """A study's record: numbers are taken once, told values stay, leases run out."""

    about: About
    clock: Clock
    is_shared: bool
    """Whether other processes may see and change it."""
    damage: str = ""
    """What is wrong with the kept record, as a sentence; then it can be read, and nothing more is written."""
    beside: tuple[str, ...] = ()
    """How files begin that keep results which could not be written, the first choice first (see `journal`)."""

    @abstractmethod
    def _writing(self) -> AbstractContextManager[Pen]:
        """Begin a transaction that has the study for itself; it counts when it ends without an exception."""

    @abstractmethod
    def changes(self, since: int) -> tuple[int, list[Row]]:
        """Return the number of the last change, and the trials changed after change `since`, by number."""

    @abstractmethod
    def values(self) -> list[Value]:
        """Return everything that was ever told, in order, whether it counts or not."""

    @abstractmethod
    def questions(self) -> list[Question]:
        """Return every question this study was asked, in order."""

    @abstractmethod
    def revise(self, statement: Mapping[str, Any], *, is_new: bool = False) -> int:
        """Make this the question, and return its number; a question asked before keeps its number, unless it is new."""

    def take(
        self,
        number: int,
        x: Mapping[str, float],
        *,
        why: Mapping[str, Any] | None = None,
        summary: str = "",
        revision: int = 1,
        worker: str = "",
        lease: float = math.inf,
    ) -> Row | None:
        """Write the asked trial `number` with a lease of so many seconds; None when the number is not the next one."""
        now = self.clock()
        row = Row(
            number, dict(x), ASKED, why=why or {}, summary=summary, revision=revision, worker=worker, leased=now,
            expires=now + lease if math.isfinite(lease) else None, asked=now,
        )  # fmt: skip
        try:
            with self._writing() as pen:
                if pen.last() != number - 1:
                    raise Taken
                pen.insert(row)
        except Taken:
            return None
        return row

    def claim(
        self, worker: str, lease: float = math.inf, *, resume: bool = True, but: Iterable[int] = ()
    ) -> Row | None:
        """Hand out a pending trial again: the worker's own when it resumes, else one whose lease has run out.

        Args:
            worker: Who asks.
            lease: Seconds.
            resume: Whether the worker's own pending trial is handed out, expired or not.
            but: Numbers that are not to be handed out.
        """
        now, excluded = self.clock(), set(but)
        try:
            with self._writing() as pen:
                open_rows = [row for row in pen.pending() if row.number not in excluded]
                own = [row for row in open_rows if resume and row.worker == worker]
                found = next(iter(own + [row for row in open_rows if row.is_expired(now)]), None)
                if found is None:
                    raise Taken
                expires = now + lease if math.isfinite(lease) else None
                again = replace(found, worker=worker, leased=now, expires=expires, offers=found.offers + 1)
                pen.replace(again)
        except Taken:
            return None
        return again

    def renew(self, numbers: Iterable[int], worker: str, lease: float) -> list[int]:
        """Extend the leases of trials that this worker is still evaluating; return those it holds.

        A lease that has run out is renewed too, unless someone else has taken the trial meanwhile.
        """
        held = []
        with self._writing() as pen:
            now = self.clock()
            for number in numbers:
                row = pen.row(number)
                if row is not None and row.state == ASKED and row.worker == worker:
                    held.append(number)
                    if row.expires is not None and math.isfinite(lease):
                        pen.replace(replace(row, leased=now, expires=now + lease))
        return held

    def tell(self, number: int, values: Mapping[str, float], *, worker: str = "", again: bool = True) -> Row:
        """Write observed values; the first one of each output counts, and whatever else is told is kept beside it.

        Args:
            number: Of the trial.
            values: By output.
            worker: Who tells.
            again: Whether values that stand there already are kept once more; False when a call is repeated because
                nobody knows whether it got through.

        Raises:
            TellError: When a value contradicts an earlier one (the other values of the call count all the same), the
                trial has failed, or there is no such trial.
        """
        with self._writing() as pen:
            row, now = self._known(pen, number), self.clock()
            if not again:
                values = {name: value for name, value in values.items() if row.y.get(name) != value}
            fresh = {name: value for name, value in values.items() if name not in row.y and row.state != FAILED}
            refusal = _refusal(row, values, fresh)
            pen.note(Value(number, name, float(each), name in fresh, worker, now) for name, each in values.items())
            if fresh or refusal is None:
                row = self._settled(replace(row, y={**row.y, **fresh}), now)
                pen.replace(row)
        if refusal is not None:
            raise TellError(refusal)
        return row

    def add(self, x: Mapping[str, float], values: Mapping[str, float], *, revision: int = 1, worker: str = "") -> Row:
        """Write old data as a trial of its own."""
        with self._writing() as pen:
            now = self.clock()
            row = Row(pen.last() + 1, dict(x), ASKED, is_added=True, revision=revision, worker=worker, asked=now)
            row = self._settled(replace(row, y={name: float(value) for name, value in values.items()}), now)
            pen.insert(row)
            pen.note(Value(row.number, name, value, True, worker, now) for name, value in row.y.items())
        return row

    def fail(self, number: int, reason: str, *, worker: str = "") -> Row:
        """Mark a trial as failed; one that has failed already keeps its first reason.

        Raises:
            TellError: When it was told already, was handed out again to someone else, or is not there.
        """
        with self._writing() as pen:
            row = self._known(pen, number)
            if row.state in (TOLD, PARTIAL):
                raise TellError(f"trial {number} has been told already and cannot fail")
            if row.state == FAILED:
                return row
            if row.offers > 1 and worker != row.worker:
                raise TellError(
                    f"trial {number} was handed out again and '{row.worker}' is evaluating it now, so this failure of "
                    f"'{worker}' changes nothing; if nobody is, ask for the trial, or fail it as '{row.worker}'"
                )
            row = replace(row, state=FAILED, reason=cleaned(reason), settled=self.clock())
            pen.replace(row)
        return row

    def close(self) -> None:  # noqa: B027  a record in memory has nothing to close
        """Release what the record holds."""

    def _known(self, pen: Pen, number: int) -> Row:
        row = pen.row(number)
        if row is None:
            raise TellError(f"there is no trial {number}; the record has trials 1 to {pen.last()}")
        return row

    def _settled(self, row: Row, now: float) -> Row:
        """Give a trial the state that its values have."""
        if all(name in row.y for name in self.about.statement["outputs"]):
            return replace(row, state=TOLD, settled=now if row.settled is None else row.settled)
        return replace(row, state=PARTIAL if row.y else ASKED)


def _refusal(row: Row, values: Mapping[str, float], fresh: Mapping[str, float]) -> str | None:
    """Why values cannot be told of a trial, or not all of them; None when they can."""
    if row.state == FAILED:
        return f"trial {row.number} was marked as failed ('{row.reason}'); add the result as old data instead"
    refused = [
        f"'{name}' was told as {row.y[name]!r} and cannot become {value!r}; the first value is kept"
        for name, value in values.items()
        if name not in fresh and row.y[name] != value and not (math.isnan(row.y[name]) and math.isnan(value))
    ]
    if not refused:
        return None
    recorded = ", ".join(f"'{name}' = {value!r}" for name, value in fresh.items())
    return f"trial {row.number}: {'; '.join(refused)}" + (f". Recorded: {recorded}" if recorded else "")


class Memory(Record, Pen):
    """A record that lives as long as its process."""

    is_shared = False

    def __init__(self, about: About, clock: Clock = time.time) -> None:
        self.about, self.clock = about, clock
        self._lock = threading.RLock()
        self._rows: dict[int, Row] = {}
        self._log: list[int] = []
        self._told: list[Value] = []
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
        """Return the trials of which nothing was told yet."""
        return [row for row in self._rows.values() if row.state == ASKED]

    def insert(self, row: Row) -> None:
        """Write a new trial."""
        if row.number in self._rows:
            raise Taken
        self.replace(row)

    def replace(self, row: Row) -> None:
        """Write the changed state of a trial."""
        self._rows[row.number] = row
        self._log.append(row.number)

    def note(self, values: Iterable[Value]) -> None:
        """Append observed values."""
        self._told.extend(values)

    def changes(self, since: int) -> tuple[int, list[Row]]:
        """Return the number of the last change, and what changed since."""
        return len(self._log), [self._rows[number] for number in sorted(set(self._log[since:]))]

    def values(self) -> list[Value]:
        """Return everything that was ever told."""
        return list(self._told)

    def questions(self) -> list[Question]:
        """Return every question this study was asked."""
        return list(self._questions)

    def revise(self, statement: Mapping[str, Any], *, is_new: bool = False) -> int:
        """Make this the question, and return its number."""
        for question in reversed(self._questions):
            if not is_new and key(question.statement) == key(statement):
                break
        else:
            question = Question(len(self._questions) + 1, statement, self.clock())
            self._questions.append(question)
        self.about = replace(self.about, statement=statement, revision=question.number)
        return question.number


def cleaned(text: str) -> str:
    """Return a text that every database can keep: no NUL, no lone surrogates, not longer than `LONGEST_REASON`."""
    if len(text) > LONGEST_REASON:
        half = LONGEST_REASON // 2 - 50
        left_out = len(text) - 2 * half
        text = f"{text[:half]} ... ({left_out} characters left out) ... {text[-half:]}"
    return text.replace("\0", "\\0").encode("utf-8", "backslashreplace").decode("utf-8")


def key(statement: Mapping[str, Any]) -> str:
    """Return a text that two statements share when they ask the same: who evaluates h is no part of the question."""
    asked = {name: value for name, value in statement.items() if name != "blackbox"}
    return hashlib.sha256(json.dumps(to_plain(asked), sort_keys=True).encode()).hexdigest()[:32]


def to_plain(data: Any) -> Any:
    """Make data that JSON can hold, without loss: a number that is not finite becomes `{"float": "nan"}`, say."""
    if isinstance(data, float) and not math.isfinite(data):
        return {"float": repr(data)}
    if isinstance(data, Mapping):
        return {str(name): to_plain(value) for name, value in data.items()}
    if isinstance(data, list | tuple):
        return [to_plain(each) for each in data]
    return data


def from_plain(data: Any) -> Any:
    """Undo `to_plain`; tuples come back as lists."""
    if isinstance(data, dict):
        if data.keys() == {"float"} and isinstance(data["float"], str):
            return float(data["float"])
        return {name: from_plain(value) for name, value in data.items()}
    return [from_plain(each) for each in data] if isinstance(data, list) else data
