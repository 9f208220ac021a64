"""Convert database rows to plain data of the record, or report which trial is damaged.

A store may be truncated, edited by hand or made by a stranger, so every cell is checked before it is used.
"""

import json
import math
from collections.abc import Iterable, Mapping
from importlib import metadata
from typing import Any

from pied.errors import StoreError
from pied.measured import SIGNS, Measured, checked
from pied.records.complaints import REMEDY
from pied.records.event import STORED, Event
from pied.records.plain import from_plain, to_plain
from pied.records.record import (
    ASKED,
    FAILED,
    PARTIAL,
    TOLD,
    WITHDRAWN,
    About,
    Question,
    Row,
    Value,
)

DEEPEST_NESTING = 64
"""Levels of nesting in stored data. Ours have about a dozen; a thousand would exhaust the interpreter's stack."""
LARGEST_COUNT = 2**53
"""Largest accepted number of a trial, question or change: all are counted from 1, and doubles are exact up to here."""
TRIALS_NAMED = 10
"""Trials that a message lists by number; the rest are counted."""


def broken(said: str) -> StoreError:
    """Return the error for a cell that cannot be used, with the remedy."""
    return StoreError(f"the store is damaged: {said}; {REMEDY}")


def text(data: Any) -> str:
    """Convert plain data to text."""
    return json.dumps(to_plain(data), allow_nan=False, ensure_ascii=False)


def about(row: Any) -> About:
    """Read the description of a study."""
    label = f"study {_shown(row.name)}"
    return About(
        _text(row.name, label, "name"),
        data(row.statement, f"the problem of {label}"),
        _seed(row.seed, label),
        data(row.solver, f"the solver of {label}"),
        whole(row.initial, label, "initial"),
        whole(row.revision, label, "revision"),
        _time(row.created, label, "created"),
        _text(row.version, label, "version"),
    )


def trial(row: Any, y: Mapping[str, float]) -> Row:
    """Read a trial, given its values that count."""
    label = f"trial {_shown(row.number)}"
    state = _text(row.state, label, "state")
    if state not in (ASKED, PARTIAL, TOLD, FAILED, WITHDRAWN):
        raise broken(f"{label} of the store cannot be read: its state is {_shown(state)}")
    return Row(
        whole(row.number, label, "number"),
        _point(row.x, label),
        state,
        y,
        _flag(row.is_added, label, "is_added"),
        _text(row.reason, label, "reason"),
        data(row.why, f"'why' of {label}"),
        _text(row.summary, label, "summary"),
        whole(row.revision, label, "revision"),
        _text(row.worker, label, "worker"),
        _time(row.leased, label, "leased"),
        None if row.expires is None else _time(row.expires, label, "expires"),
        whole(row.offers, label, "offers"),
        _time(row.asked, label, "asked"),
        None if row.settled is None else _time(row.settled, label, "settled"),
        None if row.run is None else _point(row.run, label),
        whole(row.corrected, label, "corrected"),
    )


def value(row: Any) -> Value:
    """Read a told value."""
    label = f"trial {_shown(row.number)}"
    return Value(
        whole(row.number, label, "number"),
        _text(row.output, label, "output"),
        _measured(row, label),
        _flag(row.counts, label, "counts"),
        _text(row.worker, label, "worker"),
        _time(row.told, label, "told"),
    )


def _measured(row: Any, label: str) -> float:
    """Read a told number, with its error if it has one, or a limit with its side."""
    told = number(row.exact, label)
    if row.deviation is None:
        return told
    if row.deviation in SIGNS.values():
        return Measured(told, side=-1 if row.deviation == SIGNS[-1] else 1)
    try:
        return checked(told, number(row.deviation, label), whole(row.repetitions, label, "repetitions"))
    except ValueError as error:
        raise broken(f"{label}: {error}") from error


def event(row: Any) -> Event:
    """Read an event."""
    label = f"an event of trial {_shown(row.number)}"
    found = data(row.data, f"the data of {label}")
    parts = [found.get(word, {}) for word in ("before", "after", "names")]
    if not all(
        isinstance(each, dict) and not any(isinstance(one, dict | list) for one in each.values()) for each in parts
    ):
        raise broken(f"the data of {label} cannot be read ({_shown(row.data)})")
    if row.kind not in STORED:
        raise broken(f"{label} is of an unknown kind ({_shown(row.kind)})")
    return Event(
        whole(row.number, label, "number"), row.kind, _text(row.worker, label, "worker"),
        _time(row.made, label, "made"), _text(row.why, label, "why"), found,
    )  # fmt: skip


def question(row: Any) -> Question:
    """Read a question."""
    label = f"question {_shown(row.number)}"
    return Question(
        whole(row.number, label, "number"), data(row.statement, f"the problem of {label}"),
        _time(row.asked, label, "asked"),
    )  # fmt: skip


def number(exact: Any, label: str) -> float:
    """Read a number that was written in full precision."""
    try:
        return float.fromhex(exact)
    except (TypeError, ValueError, OverflowError) as error:
        raise broken(f"{label}: {_shown(exact)} is not a number") from error


def data(cell: Any, label: str) -> dict[str, Any]:
    """Read an object of plain data."""
    try:
        raw = json.loads(cell) if isinstance(cell, str) else None
        if _depth(raw) > DEEPEST_NESTING:
            raise ValueError(f"nested more than {DEEPEST_NESTING} deep")
        found = from_plain(raw)
    except (ValueError, RecursionError) as error:
        raise broken(f"{label} cannot be read ({_shown(cell)})") from error
    if not isinstance(found, dict):
        raise broken(f"{label} is not an object ({_shown(cell)})")
    return found


def whole(cell: Any, label: str, name: str) -> int:
    """Read a whole number."""
    if not isinstance(cell, int) or isinstance(cell, bool) or not 0 <= cell <= LARGEST_COUNT:
        raise broken(f"'{name}' of {label} should be a whole number, got {_shown(cell)}")
    return cell


def missing(outputs: Iterable[str], rows: Iterable[Row]) -> dict[int, list[str]]:
    """Return the outputs whose values are missing, by number of the trial; a partial trial needs at least one value."""
    wanted, found = [each for each in outputs if isinstance(each, str)], {}
    for row in rows:
        absent = [name for name in wanted if name not in row.y]
        if (row.state == TOLD and absent) or (row.state == PARTIAL and not row.y):
            found[row.number] = absent
    return found


def gone(outputs: Any, states: Iterable[tuple[Any, Any]], told: Iterable[tuple[Any, Any]]) -> list[int]:
    """Return the numbers of told trials that are missing, or whose values are missing.

    Args:
        outputs: Names of the outputs; a told trial has a value of each.
        states: Number and state of every trial.
        told: Number and output of every value that counts.
    """
    wanted = {each for each in outputs if isinstance(each, str)} if isinstance(outputs, list | tuple) else set()
    known = dict(states)
    found: dict[Any, set[Any]] = {}
    for number, output in told:
        found.setdefault(number, set()).add(output)
    lost = found.keys() - known.keys()
    for number, state in known.items():
        has = found.get(number, set())
        if (state == TOLD and not wanted <= has) or (state in (TOLD, PARTIAL) and not has):
            lost.add(number)
    return [each for each in lost if isinstance(each, int)]


def version_of_pied() -> str:
    """Return the version of this library, or an empty text where it is not installed."""
    try:
        return metadata.version("pied")
    except metadata.PackageNotFoundError:
        return ""


def damage(where: str, numbers: Iterable[int]) -> str:
    """Say which trials have lost their values, and what to do."""
    listed = sorted(numbers)
    more = len(listed) - TRIALS_NAMED
    named = ", ".join(map(str, listed[:TRIALS_NAMED])) + (f" and {more} more" if more > 0 else "")
    which = f"trial {named} was" if len(listed) == 1 else f"trials {named} were"
    return (
        f"{where} is damaged: {which} told, but the values are gone (a truncated or edited file). It can be read, and "
        "results use the data that are left; nothing more is written to it. Restore a backup, or add what `export` "
        "still shows to a new study"
    )


def _shown(cell: Any) -> str:
    said = repr(cell) if isinstance(cell, str | bytes | float | int | None) else type(cell).__name__
    return said if len(said) <= 40 else f"{said[:40]}..."


def _text(cell: Any, label: str, name: str) -> str:
    if not isinstance(cell, str):
        raise broken(f"'{name}' of {label} should be text, got {_shown(cell)}")
    return cell


def _flag(cell: Any, label: str, name: str) -> bool:
    if not isinstance(cell, int) or cell not in (0, 1):
        raise broken(f"'{name}' of {label} should be 0 or 1, got {_shown(cell)}")
    return bool(cell)


def _time(cell: Any, label: str, name: str) -> float:
    if not isinstance(cell, int | float) or isinstance(cell, bool) or not math.isfinite(cell):
        raise broken(f"'{name}' of {label} should be a time, got {_shown(cell)}")
    return float(cell)


def _seed(cell: Any, label: str) -> int:
    try:
        return int(_text(cell, label, "seed"))
    except ValueError as error:
        raise broken(f"{label} cannot be read (its seed is {_shown(cell)})") from error


def _point(cell: Any, label: str) -> dict[str, Any]:
    found = data(cell, f"the point of {label}")
    for each in found.values():
        if not isinstance(each, int | float | str) or isinstance(each, bool):
            raise broken(f"{label}: {_shown(cell)} is not a point")
    try:
        return {name: each if isinstance(each, str) else float(each) for name, each in found.items()}
    except OverflowError as error:
        raise broken(f"{label}: {_shown(cell)} is not a point") from error


def _depth(raw: Any) -> int:
    """Return the levels of nested lists and objects; a loop, because a recursion could exhaust the stack."""
    deepest, level = 0, [raw]
    while level and deepest <= DEEPEST_NESTING:
        inner: list[Any] = []
        for each in level:
            if isinstance(each, dict):
                inner += each.values()
            elif isinstance(each, list):
                inner += each
        deepest += 1
        level = inner
    return deepest - 1
