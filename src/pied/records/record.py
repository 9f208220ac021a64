"""The record of a study as plain data, and its rules.

This module uses neither arrays nor databases, so a worker needs only it and a store. `Record` has the rules; a `Pen`
stores the rows, in `memory` or in a database (`sql`).
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any

from pied.errors import Contradiction, TellError
from pied.measured import kept, says_no_more
from pied.records import event
from pied.records.event import NOT_THE_SETTINGS, Event
from pied.records.names import former_names, renamed
from pied.records.plain import cleaned

ASKED, PARTIAL, TOLD, FAILED, WITHDRAWN = "asked", "partial", "told", "failed", "withdrawn"
"""States of a trial, as they are stored."""
LONGEST_REMAINDER = 2.0
"""In lengths of the lease: if more time than this remains, the clock has been set back since the lease was written."""

Clock = Callable[[], float]


@dataclass(frozen=True)
class Row:
    """One trial as it is stored."""

    number: int
    x: Mapping[str, Any]
    """The proposed point, natural units."""
    state: str
    y: Mapping[str, float] = field(default_factory=dict)
    """The value of each output that has one: the first told, or the corrected one, `Measured` if it has an error."""
    is_added: bool = False
    reason: str = ""
    why: Mapping[str, Any] = field(default_factory=dict)
    """Why the point was proposed, as plain data; with `NOT_THE_SETTINGS` where that is why it failed."""
    summary: str = ""
    revision: int = 1
    """Number of the question for which it was proposed."""
    worker: str = ""
    """Who evaluates or evaluated it."""
    leased: float = 0.0
    """When it was last handed out, seconds since 1970."""
    expires: float | None = None
    """When it may be handed out again; None: never."""
    offers: int = 1
    """How many times it was handed out."""
    asked: float = 0.0
    """When it was proposed or added."""
    settled: float | None = None
    """When it was told completely, or failed."""
    run: Mapping[str, Any] | None = None
    """The point at which it was really run, all variables; None: the proposed one."""
    corrected: int = 0
    """Number of the study's last correction that changed this trial as data; corrections are counted from 1."""

    @property
    def block(self) -> str:
        """With what else it is measured together; empty if nothing was said."""
        return self.group(event.BLOCKED)

    @property
    def campaign(self) -> str:
        """The earlier campaign or other equipment that it is of; empty: the present one."""
        return self.group(event.CAMPAIGN)

    def group(self, kind: str) -> str:
        """Return what it belongs to of a kind (`event.GROUPS`); empty if nothing was said."""
        return str(self.why.get(kind, ""))

    @property
    def is_not_the_settings(self) -> bool:
        """Whether someone said that its failure had nothing to do with the settings."""
        return self.why.get(NOT_THE_SETTINGS) is True

    def is_expired(self, now: float) -> bool:
        """Return whether its lease has expired, or was written by a wrong clock."""
        if self.expires is None:
            return False
        return now >= self.expires or self.expires - now > LONGEST_REMAINDER * (self.expires - self.leased)


@dataclass(frozen=True)
class Value:
    """One value as it was told; values are never deleted."""

    number: int
    """Number of the trial."""
    output: str
    value: float
    counts: bool
    """Whether it is the value of the trial: the first or the corrected one is; repeated, refused and replaced ones are
    not."""
    worker: str
    told: float
    """When it was told, seconds since 1970."""


@dataclass(frozen=True)
class Question:
    """One statement of a study's problem: g and its constants may change, the data stay valid."""

    number: int
    """Counted from 1."""
    statement: Mapping[str, Any]
    asked: float
    """When it was first asked."""


@dataclass(frozen=True)
class About:
    """The description of a study, without its trials."""

    name: str
    statement: Mapping[str, Any]
    """The current question."""
    seed: int
    solver: Mapping[str, Any]
    """Name and settings."""
    initial: int
    """Size of the initial design."""
    revision: int = 1
    """Number of the current question."""
    created: float = 0.0
    version: str = ""
    """Version of the library that created it."""


class Taken(Exception):
    """The trial belongs to another worker: undo the transaction."""


class Pen(ABC):
    """The write operations that the rules need, inside one transaction with exclusive access to the study."""

    @abstractmethod
    def last(self) -> int:
        """Return the largest number of a trial, 0 in an empty record."""

    @abstractmethod
    def row(self, number: int) -> Row | None:
        """Return one trial."""

    @abstractmethod
    def pending(self) -> list[Row]:
        """Return the trials without told values, by number."""

    @abstractmethod
    def changed(self, since: int) -> list[Row]:
        """Return the trials changed after change `since`, by number."""

    @abstractmethod
    def insert(self, rows: Sequence[Row]) -> None:
        """Write new trials; raise `Taken` when a number is in use."""

    @abstractmethod
    def replace(self, row: Row) -> None:
        """Write the changed state of a trial, without its values."""

    @abstractmethod
    def note(self, values: Iterable[Value]) -> None:
        """Append told values."""

    @abstractmethod
    def strike(self, number: int, outputs: Iterable[str]) -> None:
        """Let the values of these outputs of a trial no longer count; they stay in the record."""

    @abstractmethod
    def rename(self, names: Mapping[str, str]) -> None:
        """Give variables and outputs new names, by the old ones, in all trials and values."""

    @abstractmethod
    def log(self, happened: Event) -> None:
        """Append an event."""

    @abstractmethod
    def events(self) -> list[Event]:
        """Return the stored events, in order."""

    @abstractmethod
    def corrections(self) -> int:
        """Return the number of the last correction, 0 if there is none."""


class Record(ABC):
    """Everything stored about a study: a number is taken once, told values stay, leases expire."""

    about: About
    clock: Clock
    is_shared: bool
    """Whether other processes can read and change it."""
    damage: str = ""
    """What is damaged, as a sentence; a damaged record can be read but not written."""
    fallbacks: tuple[str, ...] = ()
    """Path prefixes of the files for results that could not be written, in order of preference (see `journal`)."""

    @abstractmethod
    def _writing(self) -> AbstractContextManager[Pen]:
        """Begin a transaction with exclusive access to the study; commit it unless an exception is raised."""

    @abstractmethod
    def changes(self, since: int) -> tuple[int, list[Row]]:
        """Return the number of the last change, and the trials changed after change `since`, by number."""

    @abstractmethod
    def values(self) -> list[Value]:
        """Return all values ever told, in order, whether they count or not."""

    @abstractmethod
    def events(self) -> list[Event]:
        """Return the stored events, in order: corrections, withdrawals, notes and the like."""

    @abstractmethod
    def questions(self) -> list[Question]:
        """Return all questions of this study, in order."""

    @abstractmethod
    def revise(
        self,
        statement: Mapping[str, Any],
        *,
        is_new: bool = False,
        names: Mapping[str, str] | None = None,
        worker: str = "",
    ) -> int:
        """Make this the current question and return its number; a repeated one keeps its number unless `is_new`.

        Args:
            statement: The question.
            is_new: Whether it counts as a new one in any case.
            names: New names of variables and outputs by their old ones: the data are kept under the new ones.
            worker: Who renames.
        """

    def take(
        self,
        number: int,
        x: Mapping[str, Any],
        *,
        why: Mapping[str, Any] | None = None,
        summary: str = "",
        revision: int = 1,
        worker: str = "",
        lease: float = math.inf,
        most: int | None = None,
    ) -> Row | None:
        """Write a proposed trial; return None when `number` is not the next one, or the worker has enough open ones.

        Args:
            number: Its number.
            x: The proposed point.
            why: Why it was proposed, as plain data.
            summary: The same as a sentence.
            revision: Number of the question.
            worker: Who evaluates it.
            lease: Seconds after which it may be handed out again.
            most: Open trials that the worker may have, this one included; None: any number.
        """
        now = self.clock()
        row = Row(
            number, dict(x), ASKED, why=why or {}, summary=summary, revision=revision, worker=worker, leased=now,
            expires=now + lease if math.isfinite(lease) else None, asked=now,
        )  # fmt: skip
        try:
            with self._writing() as pen:
                if pen.last() != number - 1:
                    raise Taken
                if most is not None and sum(each.worker == worker for each in pen.pending()) >= most:
                    raise Taken
                pen.insert([row])
        except Taken:
            return None
        return row

    def claim(
        self, worker: str, lease: float = math.inf, *, resume: bool = True, but: Iterable[int] = ()
    ) -> Row | None:
        """Hand out a pending trial again: the worker's own when it resumes, else one with an expired lease.

        Args:
            worker: Who asks.
            lease: Length of the new lease in seconds.
            resume: Whether to hand out the worker's own pending trial, expired or not.
            but: Numbers that must not be handed out.
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
                if found.worker and worker != found.worker:
                    pen.log(Event(found.number, event.HANDED, worker, now, data={"from": found.worker}))
        except Taken:
            return None
        return again

    def renew(self, numbers: Iterable[int], worker: str, lease: float) -> list[int]:
        """Extend the leases of trials that this worker is evaluating; return those it still holds.

        An expired lease is renewed too, unless another worker has taken the trial.
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

    def tell(
        self,
        number: int,
        values: Mapping[str, float],
        *,
        worker: str = "",
        again: bool = True,
        at: Mapping[str, Any] | None = None,
        groups: Mapping[str, str] | None = None,
    ) -> Row:
        """Write told values; the first one of each output counts, and later ones are stored without counting.

        Args:
            number: Number of the trial.
            values: Values by output.
            worker: Who tells.
            again: Whether to store a value that equals the recorded one once more; False when a call is repeated
                because its success is unknown.
            at: The point at which it was really run, all variables, if not the proposed one; of a complete trial only
                that which is recorded.
            groups: The block and the campaign that it belongs to (`event.GROUPS`); empty: nothing is said of that.

        Raises:
            Contradiction: When a value or point contradicts an earlier one; the other values of the call are recorded.
            TellError: When the trial has failed or was withdrawn, or does not exist.
        """
        with self._writing() as pen:
            row, now = self.known(pen, number), self.clock()
            values = self._by_present_names(pen, values)
            if not again:
                values = {name: value for name, value in values.items() if not says_no_more(value, row.y.get(name))}
            is_open = row.state not in (FAILED, WITHDRAWN)
            fresh = {name: value for name, value in values.items() if name not in row.y and is_open}
            refusal = _refusal(row, values, fresh, at)
            pen.note(Value(number, name, kept(each), name in fresh, worker, now) for name, each in values.items())
            is_moved = at is not None and row.run is None and dict(at) != dict(row.x) and row.state in (ASKED, PARTIAL)
            if at is not None and is_moved:
                row = moved(pen, row, at, Event(number, event.MOVED, worker, now))
            for kind, name in (groups or {}).items():
                row = _in_group(pen, row, Event(number, kind, worker, now), name)
            if fresh or is_moved or refusal is None:
                row = self.settled(replace(row, y={**row.y, **fresh}), now)
                pen.replace(row)
        if refusal is not None:
            raise refusal
        return row

    def add(
        self,
        choose: Callable[[list[Row]], Iterable[tuple[Any, ...]]],
        *,
        since: int = 0,
        revision: int = 1,
        worker: str = "",
    ) -> list[Row]:
        """Write old data as new trials, all or none of them.

        Args:
            choose: Returns points, values and, if any, groups (`event.GROUPS`), given the trials changed after
                `since`. Nobody else writes between this look and the end of writing, so what two programs add at
                once is there once.
            since: Number of the last change that the caller knows.
            revision: Number of the current question.
            worker: Who adds.
        """
        with self._writing() as pen:
            now, first = self.clock(), pen.last() + 1
            added = []
            for number, (x, values, *groups) in enumerate(choose(pen.changed(since)), first):
                row = Row(number, dict(x), ASKED, is_added=True, revision=revision, worker=worker, asked=now)
                row = replace(row, why={kind: name for each in groups for kind, name in each.items() if name})
                y = {name: kept(value) for name, value in values.items()}
                added.append(self.settled(replace(row, y=y), now))
            pen.insert(added)
            pen.note(
                Value(row.number, name, value, True, worker, now) for row in added for name, value in row.y.items()
            )
        return added

    def fail(
        self,
        number: int,
        reason: str,
        *,
        worker: str = "",
        anyway: bool = False,
        not_the_settings: bool | None = None,
    ) -> Row:
        """Mark a trial as failed; if it already is, its first reason stays.

        Args:
            number: Number of the trial.
            reason: Why it failed.
            worker: Who says so.
            anyway: Whether a told trial may fail, too: its values then no longer count.
            not_the_settings: Whether the failure had nothing to do with the settings; of a failed trial this may be
                said later, and taken back. None: what was said, and at first that it may have had.

        Raises:
            TellError: When it has been told, was withdrawn or handed out again to another worker, or does not exist.
        """
        with self._writing() as pen:
            row = self.known(pen, number)
            if row.state in (TOLD, PARTIAL) and not anyway:
                raise TellError(
                    f"trial {number} has been told already and cannot fail; if its values are wrong, "
                    "withdraw it, or fail it with anyway=True (pied fail --anyway)"
                )
            if row.state == WITHDRAWN:
                raise TellError(f"trial {number} was withdrawn ('{row.reason}') and does not count anyway")
            was_luck = row.state == FAILED and row.is_not_the_settings
            is_luck = was_luck if not_the_settings is None else not_the_settings
            said = {NOT_THE_SETTINGS: is_luck} if is_luck != was_luck else {}
            why = {**{word: each for word, each in row.why.items() if word != NOT_THE_SETTINGS}, **said}
            if row.state == FAILED:
                if said:  # what was computed with the failure as it was no longer counts
                    pen.log(Event(number, event.FAILED, worker, self.clock(), row.reason, said))
                    row = replace(row, why=why, corrected=pen.corrections() + 1)
                    pen.replace(row)
                return row
            if row.offers > 1 and worker != row.worker:
                raise TellError(
                    f"trial {number} was handed out again and '{row.worker}' is evaluating it now, so this failure of "
                    f"'{worker}' changes nothing; if nobody is, ask for the trial, or fail it as '{row.worker}'"
                )
            now, before = self.clock(), dict(row.y)
            pen.strike(number, before)
            known = {"before": before} if before else {}
            pen.log(Event(number, event.FAILED, worker, now, cleaned(reason), {**known, **said}))
            correction = pen.corrections() + 1 if before else row.corrected
            row = replace(row, state=FAILED, y={}, reason=cleaned(reason), why=why, settled=now, corrected=correction)
            pen.replace(row)
        return row

    def _by_present_names(self, pen: Pen, values: Mapping[str, float]) -> Mapping[str, float]:
        """Return values by the present names of outputs: whoever opened the study earlier may tell former ones."""
        outputs = self.about.statement.get("outputs") or ()
        if all(name in outputs for name in values):
            return values
        return renamed(former_names(pen.events(), outputs), values)

    def _rename(self, pen: Pen, names: Mapping[str, str] | None, worker: str, now: float) -> None:
        """Give variables and outputs new names, and log it."""
        if names:
            pen.rename(names)
            pen.log(Event(0, event.RENAMED, worker, now, data={"names": dict(names)}))

    def _restate(self, pen: Pen, statement: Mapping[str, Any]) -> None:
        """Correct the states of told trials after the outputs have changed: one without a new output is partial."""
        if set(statement["outputs"]) == set(self.about.statement.get("outputs") or ()):
            return
        for row in pen.changed(0):
            if row.state not in (TOLD, PARTIAL):
                continue
            is_told = all(name in row.y for name in statement["outputs"])
            if (row.state == TOLD) != is_told:
                settled = self.clock() if is_told else None
                pen.replace(replace(row, state=TOLD if is_told else PARTIAL, settled=settled))

    def close(self) -> None:  # noqa: B027  a record in memory has nothing to close
        """Release the record's resources."""

    def known(self, pen: Pen, number: int) -> Row:
        """Return a trial, or say that there is none."""
        row = pen.row(number)
        if row is None:
            raise TellError(f"there is no trial {number}; the record has trials 1 to {pen.last()}")
        return row

    def settled(self, row: Row, now: float) -> Row:
        """Return a trial with the state that follows from its values."""
        if all(name in row.y for name in self.about.statement["outputs"]):
            return replace(row, state=TOLD, settled=now if row.settled is None else row.settled)
        return replace(row, state=PARTIAL if row.y else ASKED)


def moved(pen: Pen, row: Row, at: Mapping[str, Any], happened: Event) -> Row:
    """Return a trial with the point at which it was really run, and log the move; a correction unless pending."""
    was = row.x if row.run is None else row.run
    changed = [name for name in at if at[name] != was[name]]
    before, after = ({name: point[name] for name in changed} for point in (was, at))
    pen.log(replace(happened, data={"before": before, "after": after}))
    return replace(row, run=dict(at), corrected=pen.corrections() + 1 if row.state != ASKED else row.corrected)


def _plain(value: Any) -> str:
    """Return a setting for a message."""
    return f"{value:.9g}" if isinstance(value, float) else str(value)


def _in_group(pen: Pen, row: Row, happened: Event, name: str) -> Row:
    """Write to which group a trial belongs that was in none; empty: nothing is said of that."""
    was = row.group(happened.kind)
    if not name or name == was:
        return row
    if was or row.state not in (ASKED, PARTIAL):
        here = f"in {happened.kind} '{was}'" if was else f"without a {happened.kind}"
        raise TellError(f"trial {row.number} counts as measured {here}, not in '{name}': correct it to change that")
    row = grouped(pen, row, happened, name)
    pen.replace(row)
    return row


def grouped(pen: Pen, row: Row, happened: Event, name: str) -> Row:
    """Return a trial in another block or campaign, which is in the history."""
    pen.log(replace(happened, data={"from": row.group(happened.kind), "to": name}))
    return replace(row, why={**row.why, happened.kind: name})


def _refusal(
    row: Row, values: Mapping[str, float], fresh: Mapping[str, float], at: Mapping[str, Any] | None
) -> TellError | None:
    """Return why some or all values cannot be told; None when all can."""
    if row.state == WITHDRAWN:
        return TellError(f"trial {row.number} was withdrawn ('{row.reason}'): restore it first, then tell")
    if row.state == FAILED:
        return Contradiction(f"trial {row.number} was marked as failed ('{row.reason}')", row.number, values)
    others = {
        name: value
        for name, value in values.items()
        if name not in fresh
        and not says_no_more(value, row.y[name])
        and not (math.isnan(row.y[name]) and math.isnan(value))
    }
    was, is_placed = (row.x if row.run is None else row.run), row.run is not None or row.state == TOLD
    points = {name: value for name, value in (at or {}).items() if is_placed and was[name] != value}
    refused = [
        f"'{name}' was told as {row.y[name]} and cannot become {value}; the first value is kept"
        for name, value in others.items()
    ] + [
        f"it counts as run at {name} = {_plain(was[name])}, not at {_plain(value)}; the first point is kept"
        for name, value in points.items()
    ]
    if not refused:
        return None
    recorded = ", ".join(f"'{name}' = {value}" for name, value in fresh.items())
    said = f"trial {row.number}: {'; '.join(refused)}" + (f". Recorded: {recorded}" if recorded else "")
    return Contradiction(said, row.number, others, points)
