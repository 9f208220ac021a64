"""What the pictures of a study show, as data for JSON."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from pied.plots import Region, cuts, importance, predictions, region
from pied.problem import Problem
from pied.study import Snapshot, short
from pied.web.data import number, numbers

MOST_LIMITS = 8
"""Limits that are drawn over a map."""
MAP_POINTS = 41
"""Points per side of a map: it follows a slider within a tenth of a second."""


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
                "objective": numbers(shown.objective), "limits": _limited(problem, shown)}  # fmt: skip
    if kind == "predictions":
        return _predicted(problem, snapshot)
    outputs, functions = importance(snapshot)
    return {"variables": list(problem.axes), "outputs": dict(zip(problem.outputs, numbers(outputs), strict=True)),
            "functions": dict(zip(_called(problem), numbers(functions), strict=True))}  # fmt: skip


def _limited(problem: Problem, shown: Region) -> list[dict[str, Any]]:
    """Return the limited quantities over a map, so that their limits can be moved there."""
    assert shown.slack is not None
    known = problem.limits()
    return [
        {
            "name": name,
            "values": numbers(known[name].value + (-slack if known[name].is_upper else slack)),
        }
        for name, slack in zip(problem.constraints, shown.slack, strict=True)
        if name in known
    ][:MOST_LIMITS]


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
