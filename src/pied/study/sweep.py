"""The optimum as a function of one or two constants or limits, from the record as it is."""

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy import ndarray

from pied.bounds import Composite
from pied.errors import SettingError
from pied.problem import Named
from pied.records import Why
from pied.shapes import Float64
from pied.solvers.base import Proposal
from pied.study.outlook import Answer, Outlook, plain
from pied.study.words import Words, aligned, figure, short

MOST_POINTS = 2500
"""Points of a sweep: each takes some hundredths of a second."""
MOST_SWEPT = 2
"""Constants and limits that are swept together: more cannot be drawn or read."""
CANDIDATES = 6
"""Settings that are compared as the next measurement: where the curve is least known."""


@dataclass(frozen=True, eq=False)
class Sweep:
    """The best settings, value and bounds at each point of a sweep; rows follow the last name fastest."""

    names: tuple[str, ...]
    """The constants or limits that are swept."""
    answers: tuple[Answer, ...]
    """The answer at each point."""
    objective: str
    """Name of the objective."""
    unit: str
    """Unit of the objective."""
    next_x: Named
    """Settings whose measurement would sharpen the curve most."""
    next_u: Float64[ndarray, "d"]
    """The same in the unit cube."""
    still: str
    """Why it is not known how much better is possible; empty where the bounds tell it."""
    gain: float
    """By which share that measurement would narrow the bounds, on average over the sweep, by the belief."""

    @property
    def values(self) -> Float64[ndarray, "b"]:
        """Objective of the best settings at each point, NaN where none are known to meet all limits."""
        return np.array([each.value for each in self.answers])

    @property
    def lower(self) -> Float64[ndarray, "b"]:
        """Lower bound of the best objective at each point."""
        return np.array([each.bounds[0] for each in self.answers])

    @property
    def upper(self) -> Float64[ndarray, "b"]:
        """Upper bound of the best objective at each point."""
        return np.array([each.bounds[1] for each in self.answers])

    @property
    def trust(self) -> tuple[str, ...]:
        """How far each point can be trusted: "good", "fair", "poor" or "none"."""
        return tuple(each.trust for each in self.answers)

    def at(self, name: str) -> Float64[ndarray, "b"]:
        """Return what a swept constant or limit was at each point."""
        return np.array([each.changes[name] for each in self.answers])

    @property
    def columns(self) -> list[str]:
        """The headings of its table."""
        settings = list(self.next_x)
        value = short(self.objective)
        return [*self.names, value, f"{value} at least", f"{value} at most", *settings, "limits met", "trust"]

    def rows(self) -> list[dict[str, Any]]:
        """Return its table, a dictionary for each point; what is not known is None."""
        table = []
        for each in self.answers:
            x = dict.fromkeys(self.next_x) if each.x is None else dict(each.x)
            known = [plain(each.value), *(plain(end) for end in each.bounds)]
            values = [*(each.changes[name] for name in self.names), *known, *x.values(), plain(each.probability)]
            table.append(dict(zip(self.columns, [*values, each.trust], strict=True)))
        return table

    def to_csv(self) -> str:
        """Return its table as CSV."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self.columns)
        for row in self.rows():
            writer.writerow(["" if each is None else each for each in row.values()])
        return text.getvalue()

    def to_dict(self) -> dict[str, Any]:
        """Return the sweep as data for JSON."""
        return {
            "names": list(self.names),
            "objective": self.objective,
            "unit": self.unit,
            "still": self.still,
            "points": [each.to_dict() for each in self.answers],
            "next": {"x": dict(self.next_x), "gain": plain(self.gain)},
        }

    def __str__(self) -> str:
        """Return its table, with no more digits than the bounds leave a meaning."""
        value = short(self.objective) + (f" [{self.unit}]" if self.unit else "")
        heads = [*self.names, value, "probably", *self.next_x, "trust"]
        lines = [heads, *(self._line(each) for each in self.answers)]
        text = aligned(lines)
        settings = ", ".join(f"{name} = {_brief(each)}" for name, each in self.next_x.items())
        text += f"\nThe upper ends rest on the belief alone: {self.still}." if self.still else ""
        return f"{text}\nThe curve would be sharpened most by a measurement at {settings}" + (
            f" (bounds narrower by about {100 * self.gain:.0f} %)." if self.gain >= 0.005 else ", but hardly."
        )

    def _line(self, answer: Answer) -> list[str]:
        swept = [f"{answer.changes[name]:g}" for name in self.names]
        low, high = answer.bounds
        if answer.x is None:
            return [*swept, "-", "no settings known", *("-" for _ in self.next_x), answer.trust]
        width = high - low
        ends = f"{figure(low, width)} to {figure(high, width)}" if width > 0 else "exact"
        return [*swept, figure(answer.value, width), ends, *(_brief(each) for each in answer.x.values()), answer.trust]


def _brief(value: Any) -> str:
    return value if isinstance(value, str) else f"{value:.5g}"


def swept(outlook: Outlook, values: Mapping[str, Any]) -> Sweep:
    """Return the optimum as a function of one or two constants or limits.

    Args:
        outlook: What is believed.
        values: The values of each, by name.
    """
    axes = _axes(outlook, values)
    answers: dict[tuple[int, ...], Answer] = {}
    lengths = [len(axis) for axis in axes.values()]
    for place in np.ndindex(*lengths):
        before = _neighbour(place)
        near = answers.get(before) if before is not None else None
        changes = {name: axis[i] for (name, axis), i in zip(axes.items(), place, strict=True)}
        answers[place] = outlook.answer(changes, near)
    found = tuple(answers.values())
    u, gain = _sharpest(outlook, found)
    problem = outlook.problem
    told = outlook.still(outlook.base)
    still = Words.of(problem).still(told.width, told.why) if told.why else ""
    x = problem.named_x(problem.natural(u))
    return Sweep(tuple(axes), found, problem.objective, problem.unit, x, u, still, gain)


def proposal(outlook: Outlook, sweep: Sweep) -> Proposal:
    """Return the point that sharpens a sweep most, with its bounds under the question as it stands."""
    last = outlook.data.last
    lower, _, upper = outlook.composite(outlook.problem).bounds(sweep.next_u[None], outlook.level)
    memory = {} if last is None else last.memory  # the chosen models stay known to the next proposal
    why = Why("sweep", lower=tuple(lower[0].tolist()), upper=tuple(upper[0].tolist()), memory=memory)
    return Proposal(sweep.next_u, why)


def _neighbour(place: Sequence[int]) -> tuple[int, ...] | None:
    """Return the point before this one, along the last axis, else along the first."""
    for axis in reversed(range(len(place))):
        if place[axis]:
            return (*place[:axis], place[axis] - 1, *place[axis + 1 :])
    return None


def _axes(outlook: Outlook, values: Mapping[str, Any]) -> dict[str, list[float]]:
    """Check what is to be swept."""
    if not values:
        known = ", ".join(f"'{name}'" for name in outlook.parameters)
        raise SettingError(f"nothing is swept: give values for one or two of {known or 'the constants and limits'}")
    if len(values) > MOST_SWEPT:
        raise SettingError(f"{MOST_SWEPT} constants or limits can be swept together, got {len(values)}")
    axes = {}
    for name, given in values.items():
        numbers = np.atleast_1d(np.asarray(given, dtype=float)).ravel()
        if not len(numbers):
            raise SettingError(f"no values are given for '{name}'")
        axes[name] = [outlook.read({name: each})[name] for each in numbers.tolist()]
    count = math.prod(len(axis) for axis in axes.values())
    if count > MOST_POINTS:
        raise SettingError(f"a sweep has at most {MOST_POINTS} points, got {count}: take fewer values")
    return axes


def _sharpest(outlook: Outlook, answers: Sequence[Answer]) -> tuple[Float64[ndarray, "d"], float]:
    """Return the settings whose measurement would narrow the bounds along the sweep most, and by which share.

    Candidates are the settings where the upper bounds are reached at the points that are known least, and the best
    settings there. A candidate is imagined as measured at its mean; the widths of objective and limits at the
    settings of all points are compared, limits by what a unit of them is worth.
    """
    order = sorted(range(len(answers)), key=lambda i: -_width(answers[i]))
    wanted = [u for i in order for u in (answers[i].optimistic, answers[i].u) if u is not None]
    candidates: list[ndarray] = []
    for u in wanted:
        if all(np.abs(u - other).max() > 1e-3 for other in candidates):
            candidates.append(u)
        if len(candidates) == CANDIDATES:
            break
    belief = outlook.snapshot.belief
    stream, told = outlook.snapshot.stream.at("outlook"), outlook.data.Y
    before, *after = [
        _spreads(outlook, Composite(outlook.problem, each, stream, told=told), answers)
        for each in (belief, *(belief.imagine(u[None]) for u in candidates))
    ]
    best = int(np.argmin(after))
    return candidates[best], max(0.0, 1.0 - after[best] / before) if before > 0 else 0.0


def _width(answer: Answer) -> float:
    width = answer.bounds[1] - answer.bounds[0]
    return width if math.isfinite(width) else math.inf


def _spreads(outlook: Outlook, composite: Composite, answers: Sequence[Answer]) -> float:
    """Return the sum of the widths that matter at the settings of a sweep, under one belief."""
    points = [u for each in answers for u in (each.u, each.optimistic) if u is not None]
    weights = [np.append(1.0, each.weights) for each in answers for u in (each.u, each.optimistic) if u is not None]
    level, k = outlook.level, outlook.problem.k
    lower, upper = (composite.values(np.stack(points), [each] * k, screening=True) for each in (1 - level, level))
    return float(((upper - lower) * np.stack(weights)).sum())
