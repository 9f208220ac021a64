"""Change the frame of a study and keep its data: bounds, steps, units, further outputs."""

from collections.abc import Iterable, Mapping
from typing import Any

from pied.errors import StoreError, StudyMismatch
from pied.problem import Problem
from pied.records import Record, Row
from pied.study.opening import variable_text


def frame_of(statement: Mapping[str, Any]) -> Any:
    """Return the part of a statement that beliefs depend on: the box, its scales, and the outputs."""
    boxes = {name: (each["lo"], each["hi"], each["log"]) for name, each in statement["variables"].items()}
    return list(boxes.items()), list(statement["outputs"])


def same_frame(record: Record, statement: Mapping[str, Any]) -> set[int]:
    """Return the numbers of the questions whose beliefs can be continued under this statement."""
    frame = frame_of(statement)
    found = set()
    for question in record.questions():
        try:
            if frame_of(question.statement) == frame:
                found.add(question.number)
        except (AttributeError, KeyError, TypeError):  # an edited store: its beliefs are made anew
            continue
    return found


def reframe(record: Record, problem: Problem, *, is_new: bool = False) -> int:
    """Make this problem the current question, also with another frame, and return the question's number.

    Raises:
        StudyMismatch: If the data would mean something else, with the reason.
    """
    given = problem.statement()
    reasons = obstacles(record.about.statement, given, record.changes(0)[1])
    if reasons:
        raise StudyMismatch(f"the data cannot be kept like this: {'; '.join(reasons)}")
    return record.revise(given, is_new=is_new)


def obstacles(kept: Mapping[str, Any], given: Mapping[str, Any], rows: Iterable[Row]) -> list[str]:
    """Return why data of one statement cannot be used for another one; nothing if they can."""
    _check_sound(kept)
    before, now = kept.get("variables", {}), given["variables"]
    found = [
        f"variable '{name}' cannot be removed, because the data depend on it: keep it, perhaps with a narrow range"
        for name in before
        if name not in now
    ]
    found += [
        f"variable '{name}' cannot be added, because nobody knows what it was so far: begin another study and add the "
        "export with its value written in"
        for name in now
        if name not in before
    ]
    found += [
        f"output '{name}' cannot be removed, because its values would be lost: keep it, no formula needs to use it"
        for name in kept.get("outputs", [])
        if name not in given["outputs"]
    ]
    if kept.get("candidates") != given.get("candidates"):
        found.append("a list of candidates cannot be changed: begin another study and add the export")
    scaled = [name for name, each in now.items() if each["log"] and name in before]
    rows = list(rows)
    for name in scaled:
        if any(row.x.get(name, 1.0) <= 0 for row in rows):
            found.append(f"variable '{name}' cannot have a logarithmic scale, because it was 0 or below in the data")
    return found


def frame_changes(kept: Mapping[str, Any], given: Mapping[str, Any]) -> list[str]:
    """Return what changes of the frame, in words."""
    _check_sound(kept)
    lines = []
    before, now = kept.get("variables", {}), given["variables"]
    for name in now:
        old, new = before.get(name), now[name]
        if old is not None and variable_text(old) != variable_text(new):
            lines.append(f"{name}: {variable_text(old)} becomes {variable_text(new)}")
    lines += [
        f"new output {name}: the older trials lack it" for name in given["outputs"] if name not in kept["outputs"]
    ]
    limits = [[each["name"] for each in statement.get("subject_to", [])] for statement in (kept, given)]
    lines += [f"limit '{name}' is gone" for name in limits[0] if name not in limits[1]]
    lines += [f"limit '{name}' is new" for name in limits[1] if name not in limits[0]]
    return lines


def _check_sound(kept: Mapping[str, Any]) -> None:
    """Refuse a stored statement that was damaged or forged."""
    variables, outputs, limits = (kept.get(word) for word in ("variables", "outputs", "subject_to"))
    is_sound = (
        isinstance(variables, Mapping)
        and all(isinstance(each, Mapping) and {"lo", "hi", "log"} <= set(each) for each in variables.values())
        and all(isinstance(each[end], int | float) for each in variables.values() for end in ("lo", "hi"))
        and isinstance(outputs, list)
        and isinstance(limits, list)
        and all(isinstance(each, Mapping) and "name" in each for each in limits)
    )
    if not is_sound:
        raise StoreError("the stored statement of the problem cannot be read: the store is damaged")
