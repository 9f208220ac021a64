"""The space of a problem and its evaluations, for libraries with words of their own."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy import ndarray

from pied.problem import Problem
from pied.problem.variables import Box

Point = dict[str, Any]


@dataclass(frozen=True)
class Told:
    """One evaluation."""

    x: Point
    """By name; choices by their labels."""
    y: list[float]
    """The outputs."""
    f: list[float]
    """Objective, to be maximized, and constraints, met when >= 0."""


@dataclass(frozen=True, eq=False)
class Space:
    """The coordinates of a problem, for a library with words of its own."""

    problem: Problem

    @property
    def axes(self) -> Mapping[str, Any]:
        """The variables that no equality determines."""
        return self.problem.axes

    def unit(self, told: Sequence[Told]) -> ndarray:
        """Return the coordinates of evaluated points in the unit cube."""
        rows = [[each.code(t.x[n]) if each.is_choice else t.x[n] for n, each in self.axes.items()] for t in told]
        return Box.of(self.axes.values()).to_unit(np.array(rows, dtype=float))

    def completed(self, given: Point) -> Point:
        """Return a whole point from the values of the coordinates: what an equality determines is computed."""
        return given | {
            name: offset + sum(weight * given[each] for each, weight in weights.items())
            for name, (weights, offset) in self.determined.items()
        }

    @cached_property
    def determined(self) -> dict[str, tuple[dict[str, float], float]]:
        """The other variables: weights by coordinate, natural units, and an offset."""
        names = list(self.axes)
        corners = np.concatenate([np.zeros((1, len(names))), np.eye(len(names))])
        at = dict(zip(self.problem.variables, self.problem.from_unit(corners).T, strict=True))
        made = {}
        for name in at.keys() - self.axes.keys():
            slopes = [(at[name][1 + i] - at[name][0]) / (v.hi - v.lo) for i, v in enumerate(self.axes.values())]
            weights = {n: float(s) for n, s in zip(names, slopes, strict=True) if abs(s) > 1e-12}
            made[name] = weights, float(at[name][0]) - sum(w * self.axes[n].lo for n, w in weights.items())
        return made

    @property
    def sums(self) -> list[tuple[dict[str, float], float]]:
        """What keeps the determined variables within their bounds: weights w by coordinate and c, with w x <= c."""
        rows = []
        for name, (weights, offset) in self.determined.items():
            variable = self.problem.variables[name]
            rows.append((weights, float(variable.hi) - offset))
            rows.append(({n: -w for n, w in weights.items()}, offset - float(variable.lo)))
        return rows
