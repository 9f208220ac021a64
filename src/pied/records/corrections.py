"""Change what counts in a record, and keep what was: correct, withdraw, restore, annotate.

Every change is an event with its author, time and reason. A change of data takes the next number of a correction, which
the trial carries: what was computed from an earlier state of the record is recognized by its smaller number.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pied.errors import TellError
from pied.measured import identity, kept
from pied.records import event
from pied.records.event import Event
from pied.records.plain import cleaned
from pied.records.record import ASKED, FAILED, PARTIAL, TOLD, WITHDRAWN, Record, Row, Value, grouped, moved

DATA = (TOLD, PARTIAL, FAILED)
"""States in which a trial has told the belief something."""


_STATES = {
    ASKED: "it is open", PARTIAL: "it counts, measured in part", TOLD: "it counts as measured", FAILED: "it failed",
}  # fmt: skip
"""States of trials that were not withdrawn, as sentences."""


def correct(
    record: Record,
    number: int,
    values: Mapping[str, float],
    *,
    why: str,
    worker: str = "",
    at: Mapping[str, Any] | None = None,
    groups: Mapping[str, str | None] | None = None,
) -> Row:
    """Replace told values, or the point at which a trial was run; the earlier ones stay in the record.

    A failed trial that is given values counts again.

    Args:
        record: The record.
        number: Number of the trial.
        values: The right values by output.
        why: The reason.
        worker: Who corrects.
        at: The right point, all variables; None leaves it.
        groups: The right block and campaign (`event.GROUPS`), "" for none; None leaves it.

    Raises:
        TellError: When nothing was told yet, the trial was withdrawn, or it does not exist.
    """
    with record._writing() as pen:
        row, now = record.known(pen, number), record.clock()
        if row.state == WITHDRAWN:
            raise TellError(f"trial {number} was withdrawn ('{row.reason}'): restore it first, then correct it")
        if row.state == ASKED:
            raise TellError(f"trial {number} has no values that could be corrected: tell them")
        happened = Event(number, event.CORRECTED, worker, now, cleaned(why))
        new = {
            name: kept(value)
            for name, value in values.items()
            if name not in row.y or identity(value) != identity(row.y[name])
        }
        if at is not None and dict(at) != dict(row.x if row.run is None else row.run):
            row = moved(pen, row, at, replace(happened, kind=event.MOVED))
            pen.replace(row)
        for kind, name in (groups or {}).items():
            if name is not None and name != row.group(kind):
                row = grouped(pen, row, replace(happened, kind=kind), name)
                row = replace(row, corrected=pen.corrections() + 1)
                pen.replace(row)
        if new:
            before = {name: row.y[name] for name in new if name in row.y}
            pen.strike(number, new)
            pen.note(Value(number, name, value, True, worker, now) for name, value in new.items())
            pen.log(replace(happened, data={"before": before, "after": new}))
            row = replace(row, y={**row.y, **new})
            row = replace(row, reason="", settled=None) if row.state == FAILED else row
            row = record.settled(replace(row, corrected=pen.corrections() + 1), now)
            pen.replace(row)
    return row


def withdraw(record: Record, number: int, *, why: str, worker: str = "") -> Row:
    """Let a trial no longer count; it stays in the record and can be restored. To repeat it changes nothing.

    Raises:
        TellError: When it was withdrawn before for another reason, or does not exist.
    """
    with record._writing() as pen:
        row = record.known(pen, number)
        if row.state == WITHDRAWN and row.reason == cleaned(why):
            return row
        if row.state == WITHDRAWN:
            raise TellError(f"trial {number} was withdrawn before ('{row.reason}'): write another reason as a note")
        data = {"state": row.state, "reason": row.reason}
        pen.log(Event(number, event.WITHDRAWN, worker, record.clock(), cleaned(why), data))
        correction = pen.corrections() + 1 if row.state in DATA else row.corrected
        row = replace(row, state=WITHDRAWN, reason=cleaned(why), corrected=correction)
        pen.replace(row)
    return row


def restore(record: Record, number: int, *, why: str = "", worker: str = "") -> Row:
    """Let a withdrawn trial count again, as it did before. To repeat it changes nothing.

    Raises:
        TellError: When it was never withdrawn, or does not exist.
    """
    with record._writing() as pen:
        row = record.known(pen, number)
        if row.state != WITHDRAWN and any(
            (each.number, each.kind) == (number, event.RESTORED) for each in pen.events()
        ):
            return row
        if row.state != WITHDRAWN:
            raise TellError(f"trial {number} was not withdrawn, there is nothing to restore: {_STATES[row.state]}")
        past = [each.data for each in pen.events() if each.number == number and each.kind == event.WITHDRAWN]
        before = past[-1] if past else {}
        pen.log(Event(number, event.RESTORED, worker, record.clock(), cleaned(why)))
        row = replace(row, reason=str(before.get("reason", "")))
        row = replace(row, state=FAILED) if before.get("state") == FAILED else record.settled(row, record.clock())
        row = replace(row, corrected=pen.corrections() + 1 if row.state in DATA else row.corrected)
        pen.replace(row)
    return row


def annotate(
    record: Record, number: int, text: str, *, worker: str = "", data: Mapping[str, Any] | None = None
) -> Event:
    """Write a note about a trial, or about the study as a whole (number 0); who repeats a note gets the first one.

    Args:
        record: The record.
        number: Number of the trial.
        text: The note.
        worker: Who writes it.
        data: The same as data for programs.
    """
    with record._writing() as pen:
        if number:
            record.known(pen, number)
        mine = [each for each in pen.events() if (each.number, each.kind, each.worker) == (number, event.NOTED, worker)]
        if mine and mine[-1].why == cleaned(text):
            return mine[-1]
        made = Event(number, event.NOTED, worker, record.clock(), cleaned(text), data or {})
        pen.log(made)
    return made
