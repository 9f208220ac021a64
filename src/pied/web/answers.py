"""Recommendations and answers to other questions as data for JSON: numbers, and the words of the shell."""

import math
from typing import Any

import numpy as np

from pied.plots import trade_offs
from pied.problem import Problem
from pied.records import to_plain
from pied.study import SIDES, FrontPoint, Result, Scenario, Snapshot, Words, about
from pied.web.data import functions_of, number, numbers
from pied.web.room import View

USUAL = (0.1, 0.9)
"""Quantiles of what was measured that a bar of a limit spans: a single gross value would squash it."""


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
        "remarks": [*([] if result.blame is None else [result.blame.sentence(_on_page)]), *result.group_lines],
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
        {"name": each.name, "text": each.text, "met": each.is_met or result.is_feasible,
         "bar": _bar(view, result, words, each.name)}
        for each in result.limit_lines
    ]  # fmt: skip
    plain["worth"] = [] if result.sensitivities is None else result.sensitivities.lines(briefly=True)
    plain["gap_text"] = result.still
    return to_plain(plain)


def _bar(view: View, result: Result, words: Words, name: str) -> dict[str, Any] | None:
    """Return a limit as a picture needs it: the quantity, where it probably lies, its limits, and what was measured."""
    sides = {each: words.limits[each] for each in (name, *(f"{name}{end}" for end in SIDES)) if each in words.limits}
    if not sides:
        return None
    first, known = next(iter(sides.items()))
    measured = _measured(view, first)
    usual = np.quantile(measured, USUAL).tolist() if measured else []
    ends = sorted(known.quantity_at(each) for each in result.bounds[first])
    return {
        "quantity": known.quantity, "unit": words.units.get(known.quantity, ""),
        "value": number(known.quantity_at(result.slack[first])), "ends": [number(each) for each in ends],
        "limits": [{"value": each.value, "sign": each.sign} for each in sides.values()],
        "usual": [number(each) for each in usual],
    }  # fmt: skip


def _measured(view: View, name: str) -> list[float]:
    """Return the measured values of a limited quantity."""
    problem = view.stated.problem
    known, place = problem.limits().get(name), problem.constraints.index(name) if name in problem.constraints else None
    if known is None or place is None:
        return []
    values = [known.quantity_at(f[1 + place]) for f, _ in functions_of(view).values()]
    return [each for each in values if math.isfinite(each)]


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
