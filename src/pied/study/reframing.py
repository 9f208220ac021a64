"""Change the frame of a study and keep its data: bounds, steps, units, further outputs."""

import math
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import replace
from difflib import get_close_matches
from typing import Any

import numpy as np

from pied.errors import StatementError, StoreError, StudyMismatch, UnknownName, did_you_mean, ways
from pied.measured import kept
from pied.problem import Named, Problem, element_names, renamed_formula, renamed_words
from pied.records import Record, Row, Trial, cleaned_name, former_names, renamed
from pied.study.opening import has_code, variable_text


def frame_of(statement: Mapping[str, Any]) -> Any:
    """Return the part of a statement that beliefs depend on: box, scales, labels, equalities, outputs, models."""
    boxes = {
        name: (each["lo"], each["hi"], each["log"], each.get("choices"), each.get("properties"))
        for name, each in statement["variables"].items()
    }
    return list(boxes.items()), list(statement["outputs"]), statement.get("equalities"), statement.get("models")


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


def revised(
    problem: Problem, renamed: Mapping[str, str], words: Mapping[str, Any]
) -> tuple[Problem, dict[str, str], bool]:
    """Return a changed question, the new names by the old ones, and whether it is a new one in any case.

    Constants that are not named keep their values; a new one needs a new formula that may use it. Code always makes a
    new question, because two functions cannot be compared.
    """
    given = dict(words)
    if isinstance(changed := words.get("constants"), Mapping):
        if not words.keys() & {"maximize", "minimize", "subject_to"}:
            for name in changed:
                if name not in problem.constants:
                    raise UnknownName(
                        f"There is no constant '{name}'.{did_you_mean(str(name), problem.constants)}", name
                    )
        given["constants"] = {**problem.constants, **changed}
    new = problem.revised(**renamed_words(problem, renamed, given))
    return new, element_names(list(problem.outputs), renamed), has_code(given)


def reframe(
    record: Record,
    problem: Problem,
    *,
    is_new: bool = False,
    names: Mapping[str, str] | None = None,
    worker: str = "",
) -> int:
    """Make this problem the current question, also with another frame, and return the question's number.

    Args:
        record: The record.
        problem: The new question.
        is_new: Whether it counts as a new one in any case.
        names: New names of variables, outputs and constraints by their old ones.
        worker: Who asks.

    Raises:
        StudyMismatch: If the data would mean something else, with the reason.
    """
    given, kept = problem.statement(), record.about.statement
    _check_sound(kept)
    names = element_names(list(kept["outputs"]), names or {})
    done = former_names(record.events(), [*kept["variables"], *kept["outputs"]])
    names = {old: new for old, new in names.items() if done.get(old) != new}  # said twice is fine
    _check_names(kept, given, names)
    rows = _renamed_rows(record, names)
    reasons = obstacles(renamed_statement(kept, names), given, rows) or _misfits(problem, rows)
    if reasons:
        raise StudyMismatch(f"the data cannot be kept like this: {'; '.join(reasons)}")
    named = {old: new for old, new in names.items() if old in kept["variables"] or old in kept["outputs"]}
    return record.revise(given, is_new=is_new, names=named, worker=cleaned_name(worker))


def _renamed_rows(record: Record, names: Mapping[str, str]) -> list[Row]:
    """Return the trials with new names."""
    return [
        replace(row, x=renamed(names, row.x), run=None if row.run is None else renamed(names, row.run))
        for row in record.changes(0)[1]
    ]


def _points(row: Row) -> list[Mapping[str, Any]]:
    """Return where a trial was proposed, and where it was run instead."""
    return [row.x] if row.run is None else [row.x, row.run]


def _misfits(problem: Problem, rows: Iterable[Row]) -> list[str]:
    """Return why a trial cannot be one of the new problem, which counts in whole numbers or has other equalities."""
    for number, x in [(row.number, x) for row in rows for x in _points(row)]:
        try:
            problem.point(x, anywhere=problem.candidates is None)
        except StatementError as error:
            return [f"trial {number} does not fit: {str(error).removesuffix('.')}"]
    return []


def _check_names(kept: Mapping[str, Any], given: Mapping[str, Any], names: Mapping[str, str]) -> None:
    """Refuse to rename what is not there, or to a name that the new question does not have."""
    kinds = [(word, _names(kept, word), _names(given, word)) for word in ("variable", "output", "limit")]
    for old, new in names.items():
        mine = [(word, now) for word, before, now in kinds if old in before]
        if not mine:
            known = [name for _, before, _ in kinds for name in before]
            raise StudyMismatch(f"'{old}' cannot be renamed, because there is none.{did_you_mean(old, known)}")
        if not any(new in now for _, now in mine):
            words = " or ".join(word for word, _ in mine)
            known = [name for _, now in mine for name in now]
            raise StudyMismatch(
                f"'{old}' cannot become '{new}': the new question has no {words} of this name."
                f"{did_you_mean(new, known)}"
            )
        if new != old and any(new in before and new not in names for _, before, now in kinds if new in now):
            raise StudyMismatch(f"'{old}' cannot become '{new}': something else is called so already")
    if len(set(names.values())) < len(names):
        raise StudyMismatch("two names cannot become one: give each a name of its own")


def _names(statement: Mapping[str, Any], word: str) -> list[str]:
    if word == "limit":
        return [each["name"] for each in statement["subject_to"]]
    return list(statement[f"{word}s"])


def renamed_statement(statement: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Return a stored statement with other names, also in its formulas."""
    if not names:
        return dict(statement)

    def by_name(given: Any) -> Any:
        return {names.get(name, name): each for name, each in given.items()} if isinstance(given, Mapping) else given

    made = {word: by_name(each) if word in _BY_NAME else each for word, each in statement.items()}
    made["outputs"] = [names.get(name, name) for name in statement["outputs"]]
    made["inputs"] = {
        name: [names.get(each, each) for each in listed] for name, listed in dict(made.get("inputs") or {}).items()
    }
    made["objective"] = _renamed_function(statement.get("objective"), names)
    made["subject_to"] = [_renamed_function(each, names) for each in statement["subject_to"]]
    return made


_BY_NAME = ("variables", "inputs", "noise", "ranges", "units", "lods", "resolutions", "tolerance")
"""Parts of a statement that are sorted by name."""


def _renamed_function(function: Any, names: Mapping[str, str]) -> Any:
    if not isinstance(function, Mapping) or not isinstance(function.get("formula"), str):
        return {**function, "name": names.get(function["name"], function["name"])} if function else function
    formula = renamed_formula(function["formula"], names)
    is_unnamed = function.get("name") == function["formula"]
    return {
        **function,
        "formula": formula,
        "name": formula if is_unnamed else names.get(function["name"], function["name"]),
    }


def obstacles(kept: Mapping[str, Any], given: Mapping[str, Any], rows: Iterable[Row]) -> list[str]:
    """Return why data of one statement cannot be used for another one; nothing if they can."""
    _check_sound(kept)
    before, now = kept.get("variables", {}), given["variables"]
    pairs = _paired(before, now)
    found = [
        f"variable '{name}' cannot be removed, because the data depend on it: "
        + (_is_renamed(name, pairs[name]) if name in pairs else "keep it, perhaps with a narrow range")
        for name in before
        if name not in now
    ]
    found += [
        f"variable '{name}' cannot be added, because nobody knows what it was so far: begin another study and add the "
        "export with its value written in"
        for name in now
        if name not in before and name not in pairs.values()
    ]
    outputs = (dict.fromkeys(statement.get("outputs", [])) for statement in (kept, given))
    pairs = _paired(*outputs)
    found += [
        f"output '{name}' cannot be removed, because its values would be lost: "
        + (_is_renamed(name, pairs[name]) if name in pairs else "keep it, no formula needs to use it")
        for name in kept.get("outputs", [])
        if name not in given["outputs"]
    ]
    if kept.get("candidates") != given.get("candidates"):
        found.append("a list of candidates cannot be changed: begin another study and add the export")
    scaled = [name for name, each in now.items() if each["log"] and name in before]
    rows = list(rows)
    found += [said for name in now if name in before for said in _label_obstacles(name, before[name], now[name], rows)]
    for name in scaled:
        if any(not isinstance(row.x.get(name), str) and row.x.get(name, 1.0) <= 0 for row in rows):
            found.append(f"variable '{name}' cannot have a logarithmic scale, because it was 0 or below in the data")
    return found


def _label_obstacles(name: str, kept: Mapping[str, Any], given: Mapping[str, Any], rows: list[Row]) -> list[str]:
    """Return why the labels of a choice cannot change like this: those with data stay."""
    before, now = kept.get("choices"), given.get("choices")
    if (before is None) != (now is None):
        if not rows:
            return []
        kinds = ("numbers", "labels") if before is None else ("labels", "numbers")
        return [f"variable '{name}' cannot have {kinds[1]} now, because its data are {kinds[0]}: begin another study"]
    used: dict[str, list[int]] = {}
    for row in rows:
        for x in _points(row):
            used.setdefault(str(x.get(name)), []).append(row.number)
    return [
        f"label '{label}' of '{name}' cannot be removed, because trial {used[label][0]} has it: keep it (a limit on a "
        "property can exclude it), or begin another study"
        for label in before or ()
        if label not in (now or ()) and label in used
    ]


def _paired(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, str]:
    """Return for each name that is gone the new one that probably replaces it: an equal thing first."""
    gone, new = ([name for name in these if name not in others] for these, others in ((before, now), (now, before)))
    pairs: dict[str, str] = {}
    for is_same in (True, False):
        for name in gone:
            left = [each for each in new if each not in pairs.values()]
            like = [each for each in left if not is_same or before[name] == now[each]]
            if name not in pairs and like:
                pairs[name] = next(iter(get_close_matches(name, like, 1)), like[0])
    return pairs


def _is_renamed(old: str, new: str) -> str:
    """Return how to say that a thing has another name."""
    how = ways().rename.format(old=old, new=new, pair=shlex.quote(f"{old}={new}"))
    return f"'{new}' is new; if '{old}' was only renamed, say so: {how}"


def frame_changes(
    kept: Mapping[str, Any], given: Mapping[str, Any], names: Mapping[str, str] | None = None
) -> list[str]:
    """Return what changes of the frame, in words."""
    _check_sound(kept)
    lines = [f"{old} is called {new} now; its data are kept" for old, new in (names or {}).items()]
    kept = renamed_statement(kept, element_names(kept["outputs"], names or {}))
    before, now = kept.get("variables", {}), given["variables"]
    for name in now:
        old, new = before.get(name), now[name]
        if old is not None and variable_text(old) != variable_text(new):
            lines.append(f"{name}: {variable_text(old)} becomes {variable_text(new)}")
    lines += [
        f"new output {name}: the older trials lack it" for name in given["outputs"] if name not in kept["outputs"]
    ]
    limits = [{each["name"]: each.get("formula") for each in stated["subject_to"]} for stated in (kept, given)]
    gone, new = ([name for name in limits[i] if name not in limits[1 - i]] for i in (0, 1))
    same = {old: each for old in gone for each in new if limits[0][old] and limits[0][old] == limits[1][each]}
    lines += [f"limit '{old}' is called '{each}' now" for old, each in same.items()]
    lines += [f"limit '{name}' is gone" for name in gone if name not in same]
    lines += [f"limit '{name}' is new" for name in new if name not in same.values()]
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
        raise StoreError("the stored question cannot be read: the store is damaged")


def for_question(trial: Trial, old: Problem, names: Mapping[str, str]) -> Trial | None:
    """Return a trial with the variables and outputs of another question, by the names and in the order there.

    None if it has a label that the other question does not know.
    """

    def there(point: Named) -> Named:
        return old.named_x(np.array(old.codes({name: point[names.get(name, name)] for name in old.variables})))

    try:
        x = there(trial.x)
        proposed = None if trial.proposed is None else there(trial.proposed)
    except UnknownName:
        return None
    is_same = tuple(trial.x) == tuple(old.variables) and tuple(x.array) == tuple(trial.x.array)
    if is_same and (trial.y is None or tuple(trial.y) == old.outputs):
        return trial

    def told(y: Named) -> Named:
        now = {name: names.get(name, name) for name in old.outputs}
        return Named(list(now), tuple(kept(y[new]) if new in y else math.nan for new in now.values()))

    return replace(
        trial,
        x=x,
        proposed=proposed,
        y=None if trial.y is None else told(trial.y),
        why=replace(trial.why, memory={}),
    )
