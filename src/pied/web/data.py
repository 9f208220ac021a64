"""Studies, trials, answers and pictures as data for JSON, in the user's names, units and words."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pied.address import masked
from pied.errors import PiedError
from pied.plots import cuts, gaps, importance, predictions, region, trade_offs
from pied.problem import Problem, Variable
from pied.records import State, Trial, feasible, to_plain
from pied.shell.laboratory import errors_data, told_data
from pied.shell.pages import missing, sense_of, statement_lines
from pied.study import AIMS, FrontPoint, Result, Scenario, Snapshot, Words, about, counted, short
from pied.web.room import Room, View

MAP_POINTS = 41
"""Points per side of a map: it follows a slider within a tenth of a second."""
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


def _functions(view: View) -> dict[int, tuple[list[float], bool]]:
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
    fine = {n: row[0] for n, (row, ok) in _functions(view).items() if ok and math.isfinite(row[0])}
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
        "minimizes": problem.minimizes,
        "objectives": list(problem.objectives),
        "formula": problem.statement()["objective"].get("formula"),
        "file": room.file,
        "store": masked(room.place),
        "seed": view.seed,
        "solver": view.solver,
        "variables": [_variable(problem, name, each) for name, each in problem.variables.items()],
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
        "name": name, "lo": each.lo, "hi": each.hi, "unit": each.unit, "log": each.log, "labels": list(each.labels),
        "levels": list(each.levels()) if each.is_stepped and not each.labels and len(each.levels()) <= 1000 else [],
        "free": name in problem.axes,
    }  # fmt: skip


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
    functions = _functions(view)
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
    ends = sorted(problem.user_value(each) for each in (*current.why.lower[:1], *current.why.upper[:1]))
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
        **({"block": trial.block} if trial.block else {}),
        "missing": missing(problem, trial) if is_data or trial.state is State.ASKED else [],
        "value": value if is_data else None,
        "margins": [number(each) for each in f[1:]] if is_data else [],
        "feasible": is_met if is_data and value is not None and trial.state is State.TOLD else None,
        "expected": ends if len(ends) == 2 else None,
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


# ------------------------------------------------------------------------------------------------------------- answers


def result_data(view: View, result: Result) -> dict[str, Any]:
    """Return a recommendation: as data, and in the words of the shell."""
    problem = view.stated.problem if result.words is None else None
    words = result.words or Words.of(problem or view.stated.problem)
    plain = {word: each for word, each in result.to_dict().items() if word != "trials"}
    told = int(view.believed().record.complete.sum())
    plain |= {
        "text": str(result),
        "care": "",
        "settings": [],
        "limits": [],
        "value_text": "",
        "gap_text": "",
        "worth": [],
        "remarks": [] if result.blame is None else [result.blame.sentence(_on_page)],
    }
    if 0 < told < view.believed().initial:
        plain["care"] = f"Take this with care: it rests on {told} complete measurement{'s' * (told != 1)}."
    if result.x is None:
        return to_plain(plain)
    is_measured = result.rule == "observed"
    plain["value_text"] = words.worth(result.value, result.bounds[result.objective], is_measured=is_measured)
    if result.front is not None and len(result.front):
        plain["front"] |= _front(view.believed(), result)
        plain["value_text"] = result.front.pick().summary
    plain["settings"] = [{"name": name, "text": words.setting(name, each)} for name, each in result.x.items()]
    plain["limits"] = [
        {"name": each.name, "text": each.text, "met": each.is_met or result.is_feasible} for each in result.limit_lines
    ]
    plain["worth"] = [] if result.sensitivities is None else result.sensitivities.lines(briefly=True)
    plain["gap_text"] = result.still
    return to_plain(plain)


def _on_page(word: str, number: int) -> str:
    """Return how to "fail" a trial for another reason than its settings."""
    return f"choose trial {number} under \u201cWork\u201d and tick \u201cnot because of the settings\u201d"


def _front(snapshot: Snapshot, result: Result) -> dict[str, Any]:
    """Return what the picture of a front shows, and each of its points in words."""
    front = result.front
    assert front is not None
    shown, balanced = trade_offs(snapshot), front.pick()
    best = {point.trial for point in front}
    return {
        "points": [_front_point(point) for point in front],
        "balanced": balanced.trial,
        "steps": numbers(shown.steps),
        "possible": numbers(shown.possible),
        "others": [
            {"trial": trial, "values": numbers(row), "met": met}
            for trial, row, met in zip(shown.trials.tolist(), shown.values, shown.met.tolist(), strict=True)
            if trial not in best and np.isfinite(row).all()
        ],
        "still": " ".join(front.still()),
    }


def _front_point(point: FrontPoint) -> dict[str, Any]:
    return point.to_dict() | {
        "text": point.summary,
        "shown": {name: point.shown(name) for name in point.values},
        "settings": [{"name": name, "text": point.words.setting(name, each)} for name, each in point.x.items()],
        # all points of a front count as meeting their limits; how probably they do is in the text
        "limits": [{"name": each.name, "text": each.text, "met": True} for each in point.limit_lines],
    }


def scenario_data(view: View, found: Scenario) -> dict[str, Any]:
    """Return the answer to a question that was not recorded."""
    problem = found.snapshot.problem
    per = [
        {"name": name, "price": number(rate), "bounds": [number(each) for each in ends],
         "text": _price(problem, name, rate, ends)}
        for name, (rate, ends) in found.prices.items()
    ]  # fmt: skip
    return result_data(view, found.result) | {
        "trust": found.answer.trust,
        "prices": per,
        "prices_remark": found.remark,
        "constraints": list(problem.constraints),
    }


def _price(problem: Problem, name: str, rate: float, ends: tuple[float, float]) -> str:
    """Return what a limit costs in words: the gain per unit that it is relaxed, and where this probably lies."""
    if rate <= 0 and ends[1] <= 0:
        return "brings nothing"
    limit = problem.limits().get(name)
    way = "" if limit is None else " higher" if limit.is_upper else " lower"
    step = problem.units.get(limit.quantity, "") if limit is not None else ""
    unit = f" {problem.unit}" if problem.unit else ""
    low, high = (about(each) for each in ends)
    gain = f"{about(rate)}{unit} better per {step or 'unit'}{way}"
    return gain if low == high else f"{gain} (probably {low} to {high})"


def pictured(snapshot: Snapshot, kind: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a picture shows.

    Args:
        snapshot: The data, perhaps under another question.
        kind: "slices", "map", "predictions" or "importance".
        given: `at`, a point in natural units, and for a map `across` and `up`.
    """
    problem = snapshot.problem
    at = None
    if given.get("at"):
        at = np.clip(problem.to_unit(np.array(problem.point(given["at"], anywhere=True))), 0.0, 1.0)
    if kind == "slices":
        return {"functions": _called(problem), "outputs": list(problem.outputs),
                "slices": [_slice(each) for each in cuts(snapshot, at=at, with_outputs=True)]}  # fmt: skip
    if kind == "map":
        names = list(problem.axes)
        pair = (str(given.get("across") or names[0]), str(given.get("up") or names[-1]))
        shown = region(snapshot, pair=pair, at=at, size=MAP_POINTS)
        return {"across": {"name": pair[0], "values": numbers(shown.across)},
                "up": {"name": pair[1], "values": numbers(shown.up)},
                "certain": (shown.pessimistic >= 0).astype(int).tolist(),
                "possible": (shown.optimistic >= 0).astype(int).tolist(),
                "objective": numbers(shown.objective)}  # fmt: skip
    if kind == "predictions":
        return _predicted(problem, snapshot)
    outputs, functions = importance(snapshot)
    return {"variables": list(problem.axes), "outputs": dict(zip(problem.outputs, numbers(outputs), strict=True)),
            "functions": dict(zip(_called(problem), numbers(functions), strict=True))}  # fmt: skip


def _slice(cut: Any) -> dict[str, Any]:
    low, middle, high = cut.outputs
    return {
        "name": cut.name, "at": number(cut.at), "along": numbers(cut.along), "labels": list(cut.labels),
        "stepped": cut.is_stepped, "follows": list(cut.follows),
        "functions": {"low": numbers(cut.lower.T), "middle": numbers(cut.median.T), "high": numbers(cut.upper.T)},
        "outputs": {"low": numbers(low.T), "middle": numbers(middle.T), "high": numbers(high.T)},
    }  # fmt: skip


def _predicted(problem: Problem, snapshot: Snapshot) -> dict[str, Any]:
    shown = predictions(snapshot)
    return {
        "trials": shown.numbers.tolist(),
        "outputs": [
            {"name": name, "unit": problem.units.get(name, ""), "measured": numbers(shown.measured[:, j]),
             "low": numbers(shown.lower[:, j]), "middle": numbers(shown.middle[:, j]),
             "high": numbers(shown.upper[:, j]), "inside": list(shown.inside(j)), "error": number(shown.error(j))}
            for j, name in enumerate(problem.outputs)
        ],
    }  # fmt: skip


def _called(problem: Problem) -> list[str]:
    """Return what the functions of a slice are: the objective, and of each limit its quantity."""
    limits = problem.limits()
    return [short(problem.objective), *(limits[n].quantity if n in limits else n for n in problem.constraints)]


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
