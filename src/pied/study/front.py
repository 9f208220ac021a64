"""The front of a problem of several objectives: the best trade-offs, each with all that is known about it."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from html import escape
from typing import Any

import numpy as np
from numpy import ndarray

from pied.errors import SettingError, UnknownName, did_you_mean
from pied.hypervolume import nondominated
from pied.measured import is_sided
from pied.problem import Named, Problem
from pied.records import Dataset, feasible
from pied.shapes import Float64
from pied.study.words import Margin, Told, Words, about, figure, titled

MOST_SHOWN = 12
"""Points of a front that are printed; of a longer one, so many spread over it."""
SHOWN_DIGITS = 5
"""Significant digits of exact numbers in the table of a front."""
KNOWN_WIDTH = 1e-4
"""Of a value: narrower bounds are not shown beside it."""


@dataclass(frozen=True, eq=False)
class FrontPoint:
    """One of the best trade-offs: better in one objective than any other known point that is as good in the others.

    Example: `docs/guide-decisions.md`.
    """

    x: Named
    """The settings, natural units."""
    y: Named | None
    """The outputs there, as told."""
    values: dict[str, float]
    """The objectives: told if evaluations are exact, else medians."""
    bounds: dict[str, tuple[float, float]]
    """Lower and upper bound of objectives and constraints, by name."""
    slack: dict[str, float]
    """Value of each constraint, its margin: met when >= 0."""
    probability: dict[str, float]
    """Probability that each constraint holds, by the belief."""
    trial: int
    """Number of the trial."""
    words: Words = field(default_factory=Words, repr=False)
    """Names, units and limits with which it prints."""
    units: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Of the objectives."""

    def __str__(self) -> str:
        lines = [self.summary]
        lines += [f"    {name} = {self.words.setting(name, value)}" for name, value in self.x.items()]
        lines += [f"  {each.text}" for each in self.limit_lines]
        return "\n".join([*lines, f"  trial {self.trial}"])

    @property
    def summary(self) -> str:
        """All objectives with their units, as one line."""
        return ", ".join(f"{titled(name)} {self.shown(name)}{_space(self.units.get(name, ''))}" for name in self.values)

    def shown(self, name: str) -> str:
        """Return an objective, with the range in which it probably is unless it is known exactly."""
        low, high = self.bounds[name]
        if self.words.is_exact or not high - low > KNOWN_WIDTH * abs(self.values[name]):
            return f"{self.values[name]:.{SHOWN_DIGITS}g}"
        width = high - low
        return f"{figure(self.values[name], width)} ({figure(low, width)} to {figure(high, width)})"

    def limit_line(self, name: str) -> str:
        """Return what is known about a constraint, as a line."""
        return self.words.limit(self._margin(name))

    @property
    def limit_lines(self) -> list[Told]:
        """What is known about the limits, see `Result.limit_lines`."""
        return self.words.limit_lines(self._margin(name) for name in self.slack)

    def _margin(self, name: str) -> Margin:
        slack, (low, high) = self.slack[name], self.bounds[name]
        is_known = self.words.is_exact or not low < high
        probability = None if is_known else self.probability.get(name)
        return Margin(name, slack, 0.0 if is_known else high - low, probability, is_known and slack < 0)

    def to_dict(self) -> dict[str, Any]:
        """Return it as data for JSON."""
        return {
            "trial": self.trial,
            "x": dict(self.x),
            "y": {name: str(each) if is_sided(each) else float(each) for name, each in self.y.items()}
            if self.y is not None
            else None,
            "values": self.values,
            "bounds": {name: [_plain(low), _plain(high)] for name, (low, high) in self.bounds.items()},
            "slack": self.slack,
            "probability": self.probability,
        }


@dataclass(frozen=True, eq=False)
class Front:
    """The best trade-offs between several objectives, the best in the first objective first.

    Example: `docs/guide-decisions.md`.
    """

    points: tuple[FrontPoint, ...]
    objectives: tuple[str, ...]
    """Names of the objectives."""
    minimized: tuple[bool, ...]
    """Which of them are minimized."""
    units: tuple[str, ...]
    """Their units."""
    growth: float | None
    """How much larger the hypervolume of the front could still become, relative to what it is, by the upper bounds;
    infinite while no point is feasible, None without a belief."""
    hypervolume: float
    """Volume between the front and the reference point, in units of the objectives."""
    reference: dict[str, float]
    """The reference point: somewhat worse, in each objective, than the worst value on the front."""
    possible: Float64[ndarray, "p r"] = field(repr=False)
    """Where the front could lie at best, by the upper bounds, for pictures; with the user's signs."""

    def __len__(self) -> int:
        return len(self.points)

    def __iter__(self) -> Iterator[FrontPoint]:
        return iter(self.points)

    def __getitem__(self, place: int) -> FrontPoint:
        return self.points[place]

    @property
    def _signs(self) -> Float64[ndarray, "r"]:
        return np.where(self.minimized, -1.0, 1.0)

    def _values(self) -> Float64[ndarray, "N r"]:
        """The objectives of all points, better if larger."""
        rows = [[point.values[name] for name in self.objectives] for point in self.points]
        return np.array(rows, dtype=float).reshape(len(rows), len(self.objectives)) * self._signs

    def pick(self, **wishes: float) -> FrontPoint:
        """Return one point: the best in the other objectives that is at least as good as wished in the named ones.

        Where several objectives, or all, are left open, it is the balanced point (the knee): the one whose worst
        objective, each counted from the worst (0) to the best (1) on the front, is the best.

        Args:
            wishes: Least acceptable values by the names of objectives (largest ones where the objective is minimized).

        Raises:
            SettingError: When no point of the front is as good.
        """
        if not self.points:
            raise SettingError("the front has no point yet: no settings are known to meet all limits")
        F, allowed = self._values(), np.ones(len(self.points), dtype=bool)
        for name, wish in wishes.items():
            if name not in self.objectives:
                raise UnknownName(f"'{name}' is not an objective.{did_you_mean(name, self.objectives)}", name)
            place = self.objectives.index(name)
            fine = F[:, place] >= float(wish) * self._signs[place]
            if not (allowed & fine).any():
                best = f"{F[:, place].max() * self._signs[place]:.{SHOWN_DIGITS}g}"
                word = "at most" if self.minimized[place] else "at least"
                also = " together with the other wishes" if fine.any() else f"; the best is {best}"
                raise SettingError(f"no point of the front has {name} {word} {float(wish):g}{also}")
            allowed &= fine
        low, high = F.min(0), F.max(0)
        share = (F - low) / np.where(high > low, high - low, 1.0)
        open_ones = [place for place, name in enumerate(self.objectives) if name not in wishes]
        score = share[:, open_ones or list(range(len(self.objectives)))]
        worst = score.min(1) + 1e-3 * score.mean(1)  # of equally bad ones the better on the whole
        return self.points[int(np.where(allowed, worst, -np.inf).argmax())]

    def lines(self) -> list[str]:
        """Return the front as lines of a table, with what is still possible."""
        if not self.points:
            return []
        shown = self.points
        if len(shown) > MOST_SHOWN:
            chosen = np.linspace(0, len(shown) - 1, MOST_SHOWN).round().astype(int)
            shown = tuple(shown[place] for place in chosen.tolist())
        heads, rows = self.table(shown)
        widths = [max(len(row[place]) for row in [heads, *rows]) for place in range(len(heads))]
        count = f"{len(self.points)} best trade-off{'s' * (len(self.points) != 1)}"
        more = f", {len(shown)} of them shown" if len(shown) < len(self.points) else ""
        lines = [f"{count} of {' and '.join(self.objectives)}{more}:"]
        lines += ["  " + "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
                  for row in [heads, *rows]]  # fmt: skip
        return [*lines, *self.still()]

    def table(self, points: tuple[FrontPoint, ...] | None = None) -> tuple[list[str], list[list[str]]]:
        """Return headings and rows: the objectives, the settings and the trial of each point."""
        points = self.points if points is None else points
        heads = [name + (f" [{unit}]" if unit else "") for name, unit in zip(self.objectives, self.units, strict=True)]
        heads += [*(list(points[0].x) if points else []), "trial"]
        rows = [
            [
                *(point.shown(name) for name in self.objectives),
                *(f"{value:.{SHOWN_DIGITS}g}" if isinstance(value, float) else str(value)
                  for value in point.x.values()),
                str(point.trial),
            ]
            for point in points
        ]  # fmt: skip
        return heads, rows

    def still(self) -> list[str]:
        """Return how much the front could still grow, as a line, if that is known."""
        if self.growth is None or not math.isfinite(self.growth):
            return []
        return [f"more points could enlarge the dominated area by at most about {about(100 * self.growth)} %"]

    def html(self) -> str:
        """Return the front as a table of HTML."""
        heads, rows = self.table()
        head = "".join(f"<th>{escape(cell)}</th>" for cell in heads)
        body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
        return f"<table><tr>{head}</tr>{body}</table>"

    def to_dict(self) -> dict[str, Any]:
        """Return the front as data for JSON."""
        return {
            "objectives": {
                name: {"sense": "minimize" if is_min else "maximize", "unit": unit}
                for name, is_min, unit in zip(self.objectives, self.minimized, self.units, strict=True)
            },
            "points": [point.to_dict() for point in self.points],
            "growth": _plain(self.growth),
            "hypervolume": _plain(self.hypervolume),
            "reference": self.reference,
        }


def told_rows(problem: Problem, data: Dataset) -> tuple[ndarray, Float64[ndarray, "N r"]]:
    """Return the rows of the told points on the front, by told values alone, and the objectives of all rows."""
    f = data.functions(problem.side_by_side)
    P = f[:, problem.goal_places]
    fine = feasible(problem, f[:, : problem.k])
    return np.flatnonzero(nondominated(np.where(fine[:, None], P, np.nan))), P * problem.goal_signs


def _space(unit: str) -> str:
    return f" {unit}" if unit else ""


def _plain(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(value)
