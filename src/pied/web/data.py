"""Studies and trials as data for JSON, in the user's names, units and words."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pied.address import masked
from pied.errors import PiedError
from pied.plots import gaps
from pied.problem import Problem, Variable
from pied.records import State, Trial, feasible
from pied.shell.laboratory import errors_data, told_data
from pied.shell.pages import missing, sense_of, statement_lines
from pied.study import AIMS, at_present, counted, short
from pied.web.room import Room, View

MOST_SHOWN = 8
"""Levels of a setting that are listed."""
MOST_FORETOLD = 24
"""Outputs of which the list of trials says what was expected."""
DIGITS = 7
"""Significant digits of computed numbers that are only drawn."""


def number(value: Any) -> Any:
    """Return a number, or None where JSON has no such number."""
    return value if isinstance(value, str | int) or value is None else float(value) if math.isfinite(value) else None


def numbers(values: Any) -> list[Any]:
    """Return an array as nested lists, rounded for drawing; None where a value is not finite."""
    if isinstance(values, np.ndarray) and values.ndim > 1:
        return [numbers(each) for each in values]
    return [float(f"{each:.{DIGITS}g}") if math.isfinite(each) else None for each in np.asarray(values).tolist()]


# ------------------------------------------------------------------------------------------------------------- studies


def card(room: Room) -> dict[str, Any]:
    """Return one line of the list of studies; a study that cannot be read says why."""
    try:
        return summary(room, room.view())
    except PiedError as error:
        return {"id": room.key, "name": room.called, "error": masked(str(error))}


def summary(room: Room, view: View) -> dict[str, Any]:
    """Return where a study stands, from told values alone, so that it is quick."""
    problem, snapshot = view.stated.problem, view.snapshot
    told = {
        "id": room.key,
        "name": view.stated.name,
        "question": _question(problem),
        "objective": short(problem.objective),
        "unit": problem.unit,
        "change": view.change,
        "questions": view.questions,
        "damage": masked(view.damage),
        "changed": max((row.settled or row.asked for row in view.rows.values()), default=None),
    }
    if snapshot is None:
        return told | {"status": "NEW", "message": "Nothing is recorded yet.", "counted": "0 proposed", "trials": 0,
                       "best": None, "gap": None, "gap_text": ""}  # fmt: skip
    status = snapshot.status
    return told | {
        "status": status.name,
        "message": snapshot.message(status, snapshot.relaxation() if snapshot.white is not None else None),
        "counted": counted(snapshot.trials),
        "trials": len(snapshot.trials),
        "best": _best(view),
        "gap": _gaps(view)[-1] if view.trials else None,
        "gap_text": "" if (answer := view.answer()) is None else answer.still,
    }


def _question(problem: Problem) -> str:
    """Return what is sought, in a few words."""
    if not problem.has_front:
        return f"{sense_of(problem)} {short(problem.objective)}"
    return ", ".join(f"{goal.sense} {short(goal.name)}" for goal in problem.goals)


def _gaps(view: View) -> list[Any]:
    """Return the gap after each trial, from the record; the last one is that of the answer, None until it is known."""
    assert view.snapshot is not None
    snapshot = view.snapshot
    past = view.kept("gaps", lambda: numbers(gaps(snapshot.problem, snapshot.current).gap))
    answer = view.answer()
    return [*past[:-1], None if answer is None else number(answer.gap)]


def functions_of(view: View) -> dict[int, tuple[list[float], bool]]:
    """Return objective and constraints of each told trial, and whether it is feasible."""
    snapshot = view.believed()

    def compute() -> dict[int, tuple[list[float], bool]]:
        data = snapshot.record
        f = data.functions(snapshot.problem)
        fine = feasible(snapshot.problem, f).tolist()
        return {n: (row, ok) for n, row, ok in zip(data.numbers, f.tolist(), fine, strict=True)}

    return view.kept("functions", compute)


def _best(view: View) -> dict[str, Any] | None:
    """Return the best told trial that meets all limits."""
    problem = view.stated.problem
    fine = {n: row[0] for n, (row, ok) in functions_of(view).items() if ok and math.isfinite(row[0])}
    if not fine:
        return None
    best = max(fine, key=lambda n: fine[n])
    trial = next(trial for trial in view.trials if trial.number == best)
    ends = trial.why.lower[:1] + trial.why.upper[:1]
    bounds = sorted(problem.user_value(each) for each in ends) if len(ends) == 2 else None
    return {"trial": best, "value": problem.user_value(fine[best]), "expected": bounds}


def detail(room: Room, view: View) -> dict[str, Any]:
    """Return everything about a study but its trials and answers."""
    problem = view.stated.problem
    movable = problem.movable_limits()
    return summary(room, view) | {
        "statement": statement_lines(problem, why=False),
        "sense": sense_of(problem),
        "goals": _goals(problem),
        "minimizes": problem.minimizes,
        "objectives": list(problem.objectives),
        "formula": problem.statement()["objective"].get("formula"),
        "file": room.file,
        "store": masked(room.place),
        "seed": view.seed,
        "solver": view.solver,
        "variables": [_variable(problem, name, each) for name, each in problem.variables.items()],
        "present": at_present(problem, view.trials, None),
        "outputs": [
            {"name": name, "unit": problem.units.get(name, ""), "noise": problem.noise[j],
             "range": [number(each) for each in problem.ranges[j].tolist()]}
            for j, name in enumerate(problem.outputs)
        ],
        "constants": [
            {"name": name, "value": each} for name, each in problem.constants.items() if isinstance(each, float)
        ],
        "limits": [_limit(problem, name, name in movable) for name in problem.constraints],
        "trials_told": 0 if view.snapshot is None else int(view.snapshot.record.complete.sum()),
        "notes": [event.why for event in view.events.get(0, []) if event.kind == "noted"],
    }  # fmt: skip


def _variable(problem: Problem, name: str, each: Variable) -> dict[str, Any]:
    return {
        "name": name, "lo": each.lo, "hi": each.hi, "unit": each.unit, "log": each.log and each.lo > 0,
        "labels": list(each.labels),
        "levels": list(each.levels()) if each.is_stepped and not each.labels and len(each.levels()) <= 1000 else [],
        "free": name in problem.axes, "observed": each.observed, "text": _span(each, name in problem.axes),
    }  # fmt: skip


def _span(each: Variable, is_free: bool) -> str:
    """Return what can be set, in words: "40 to 110 degC, in steps of 5"."""
    unit, end = f" {each.unit}" if each.unit else "", ", measured, not chosen" if each.observed else ""
    if each.labels:
        known = [f"{name} {', '.join(f'{value:g}' for value in row.values())}" for name, row in each.properties.items()]
        return ", ".join(each.labels) + (f" ({'; '.join(known)})" if known else "") + end
    if each.only is not None:
        more = ", ..." if len(each.only) > MOST_SHOWN else ""
        return ", ".join(f"{value:g}" for value in each.only[:MOST_SHOWN]) + more + unit + end
    step = each.step if each.round is None else 10.0**-each.round
    way = ", whole numbers" if each.whole or step == 1 else f", in steps of {step:g}" if step else ""
    words = f"{way}{', logarithmic' if each.log else ''}{'' if is_free or end else ', follows from the others'}"
    return f"{each.lo:g} to {each.hi:g}{unit}{words}{end}"


def _goals(problem: Problem) -> list[dict[str, Any]]:
    """Return the objectives with their formulas, where they have one."""
    stated = problem.statement()
    first = {"sense": sense_of(problem), "name": short(problem.objective), "unit": problem.unit,
             "formula": stated["objective"].get("formula")}  # fmt: skip
    more = [{"sense": each["sense"], "name": each["called"], "unit": each.get("unit", ""),
             "formula": each.get("formula")} for each in stated.get("further", ())]  # fmt: skip
    return [first, *more]


def _limit(problem: Problem, name: str, is_movable: bool) -> dict[str, Any]:
    known = problem.limits().get(name)
    if known is None:
        return {"name": name, "movable": False}
    return {
        "name": name, "quantity": known.quantity, "value": known.value, "sign": known.sign, "movable": is_movable,
        "unit": problem.units.get(known.quantity, ""),
    }  # fmt: skip


# -------------------------------------------------------------------------------------------------------------- trials


def trial_list(view: View, only: set[int] | None = None) -> list[dict[str, Any]]:
    """Return trials as rows of the table: all, or those of some numbers."""
    if view.snapshot is None:
        return []
    current = {trial.number: trial for trial in view.snapshot.current}
    gap_of = dict(zip((trial.number for trial in view.trials), _gaps(view), strict=True))
    functions = functions_of(view)
    return [
        _trial(view, trial, current[trial.number], functions.get(trial.number, ([], False)), gap_of.get(trial.number))
        for trial in view.trials
        if only is None or trial.number in only
    ]


def _trial(view: View, trial: Trial, current: Trial, told: tuple[list[float], bool], gap: Any) -> dict[str, Any]:
    problem, row = view.stated.problem, view.rows.get(trial.number)
    f, is_met = told
    value = problem.user_value(f[0]) if f and math.isfinite(f[0]) else None
    happened = view.events.get(trial.number, [])
    why = trial.why if trial.revision == view.believed().revision else current.why  # what was said when it was asked
    ends = sorted(problem.user_value(each) for each in (*why.lower[:1], *why.upper[:1]))
    foretold = dict(zip(problem.outputs, trial.why.expected, strict=False)) if problem.m <= MOST_FORETOLD else {}
    is_data = trial.state in (State.TOLD, State.PARTIAL)
    return {
        "trial": trial.number,
        "state": trial.state.value,
        "added": trial.is_added,
        "x": dict(trial.x),
        **({} if trial.proposed is None else {"asked": dict(trial.proposed)}),
        "y": {}
        if trial.y is None
        else {name: y for name, each in trial.y.items() if (y := told_data(each)) is not None},
        **({"errors": each} if (each := errors_data(trial)) else {}),
        **trial.grouped,
        "missing": missing(problem, trial) if is_data or trial.state is State.ASKED else [],
        "value": value if is_data else None,
        "margins": [number(each) for each in f[1:]] if is_data else [],
        "feasible": is_met if is_data and value is not None and trial.state is State.TOLD else None,
        "expected": ends if len(ends) == 2 else None,
        **({"foretold": {name: numbers(np.array(each)) for name, each in foretold.items()}} if foretold else {}),
        "why": "added" if trial.is_added else trial.summary or AIMS.get(trial.why.aim, trial.why.aim),
        "aim": "added" if trial.is_added else trial.why.aim,
        "reason": trial.reason,
        "not_the_settings": trial.not_the_settings,
        "worker": trial.worker,
        "asked_at": trial.asked,
        "settled_at": trial.settled,
        "until": None if row is None else row.expires,
        "gap": gap,
        "notes": [event.why for event in happened if event.kind == "noted"],
        "amended": [event.what for event in happened if event.kind in ("corrected", "run elsewhere")],
    }


def words_of(values: Mapping[str, Any]) -> Sequence[str]:
    """Return NAME=VALUE words as the shell takes them; empty fields are left out, lists are vectors."""
    made = []
    for name, each in values.items():
        if isinstance(each, Mapping) and {"value", "deviation"} <= set(each) <= {"value", "deviation", "n"}:
            each = f"{each['value']} ± {each['deviation']} (n={each.get('n', 1)})"
        text = ",".join(map(str, each)) if isinstance(each, list) else "" if each is None else str(each)
        if text.strip():
            made.append(f"{name}={text.strip()}")
    return made
