"""The best point where some coordinates take listed values only: a search of the cube, then moves on the grid.

The cube is searched first as if every value could be set. Around its best point and the best points of the pool, points
of the grid are compared, by steps of one or two values in one or two coordinates, until none is better; continuous
coordinates are solved for again. Points on the grid are compared as a list (`enumeration`), so constraints known
exactly hold at the point that is chosen if they hold at any that was compared.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import combinations, product

import numpy as np
from numpy import ndarray

from pied.problem import SAME, Grid
from pied.rng import Stream
from pied.search.enumeration import Enumeration
from pied.search.functions import Functions, Slice
from pied.search.local import best_feasible, best_first, ranked, solve_locally, tied
from pied.search.multistart import Search
from pied.search.optimum import Optimum
from pied.shapes import Bool, Float64, Int64

MOVES = 40  # comparisons of a point with its neighbours, at most
SOLVED_MOVES = 3  # the same where continuous coordinates are solved for each time
LEAST_GAIN = 1e-9  # scaled: a smaller gain is rounding error
PAIRED = 8  # discrete coordinates up to which steps in two of them at once are tried
CORNERS = 6  # discrete coordinates up to which a point is rounded down and up in all combinations
COMBINATIONS = 12  # combinations of labels from which local solves start
SETTINGS = 2  # neighbouring settings of the discrete coordinates for which the continuous ones are solved


@dataclass(frozen=True, eq=False)
class Mixed:
    """A search over the unit cube that ends on a grid."""

    inner: Search
    """The search that takes every coordinate as continuous."""
    grid: Grid
    taken: Float64[ndarray, "p d"]
    """Points that are not to be chosen."""
    allowed: Callable[[Float64[ndarray, "b d"]], Bool[ndarray, "b"]] | None = None
    """Which points may be chosen; None: all but the taken ones."""

    def screen(self, stream: Stream, d: int, known: Float64[ndarray, "s d"]) -> Float64[ndarray, "b d"]:
        """Return the pool, on the grid."""
        return _unique(self.grid.snapped(self.inner.screen(stream, d, known)))

    def solve(
        self,
        functions: Functions,
        scales: Float64[ndarray, "k"],
        pool: Float64[ndarray, "b d"],
        known: Float64[ndarray, "s d"],
        stream: Stream,
        *,
        rescue: bool = True,
    ) -> Optimum:
        """Maximize the first function subject to the others, on the grid."""
        starts = np.concatenate([known, self._of_each_label(functions, scales, pool)])
        relaxed = self.inner.solve(functions, scales, pool, starts, stream, rescue=rescue)
        return self.near(functions, scales, relaxed.u, np.concatenate([known, pool]))

    def _of_each_label(
        self, functions: Functions, scales: Float64[ndarray, "k"], pool: Float64[ndarray, "b d"]
    ) -> Float64[ndarray, "s d"]:
        """Return the best point of the pool for each combination of labels, of the best combinations if many.

        Local solves move numbers only, so each combination needs a start of its own.
        """
        which = self.grid.is_choice
        if not which.any():
            return pool[:0]
        order = best_first(tied(ranked(functions.values(pool) / scales)[0]), len(pool))
        rows = self.grid.rows(pool[order])[:, which]
        _, first = np.unique(rows, axis=0, return_index=True)
        return pool[order[np.sort(first)[:COMBINATIONS]]]

    def rescue(self, functions: Functions, scales: Float64[ndarray, "k"], starts: Float64[ndarray, "s d"]) -> Optimum:
        """Maximize the smallest scaled constraint, off the grid: a verdict must hold for every value."""
        return self.inner.rescue(functions, scales, starts)

    @np.errstate(all="ignore")
    def near(
        self, functions: Functions, scales: Float64[ndarray, "k"], u: Float64[ndarray, "d"], also: ndarray
    ) -> Optimum:
        """Return the best point of the grid around u and among some others."""
        best = self._best_of(functions, scales, np.concatenate([self._rounded(u), self.grid.snapped(also)]))
        is_whole = bool(self.grid.is_discrete.all())
        for _ in range(MOVES if is_whole else SOLVED_MOVES):
            around = self._neighbours(best.u)
            if not is_whole:
                around = self._solved(functions, scales, best.u, around)
            better = self._best_of(functions, scales, np.concatenate([best.u[None], around]))
            is_better = _is_better(better, best, float(scales[0]))
            best = better if is_better else best
            if not is_better:
                break
        return best

    def _best_of(self, functions: Functions, scales: ndarray, points: Float64[ndarray, "b d"]) -> Optimum:
        """Return the best of some points; of taken ones only if there is no other."""
        points = _unique(points)
        free = np.ones(len(points), dtype=bool)
        if len(self.taken):
            free = (np.abs(points[:, None] - self.taken[None]).max(2) > SAME).all(1)
        for wish in (free if self.allowed is None else free & self.allowed(points), free):
            if wish.any():
                return Enumeration(points, wish).solve(functions, scales)
        return Enumeration(points, ~free).solve(functions, scales)

    def _rounded(self, u: Float64[ndarray, "d"]) -> Float64[ndarray, "b d"]:
        """Return the nearest point of the grid and, in few dimensions, all corners of the cell around u."""
        rows, which = self.grid.rows(u), self.grid.is_discrete.nonzero()[0]
        if len(which) > CORNERS:
            return self.grid.at(rows, u)[None]
        side = (np.sign(u - self.grid.at(rows, u)) * ~self.grid.is_choice).astype(np.int64)[which]
        steps = np.zeros((2 ** len(which), len(u)), dtype=np.int64)
        steps[:, which] = np.array(list(product((0, 1), repeat=len(which)))) * side
        return self.grid.at(rows + steps, np.repeat(u[None], len(steps), 0))

    def _neighbours(self, u: Float64[ndarray, "d"]) -> Float64[ndarray, "b d"]:
        """Return the points with another label, one or two values away in one coordinate, or one value away in two."""
        is_ordered = self.grid.is_discrete & ~self.grid.is_choice
        steps, rows = _steps(is_ordered), self.grid.rows(u)
        around = [self.grid.at(rows + steps, np.repeat(u[None], len(steps), 0))]
        for j in self.grid.is_choice.nonzero()[0].tolist():
            places = self.grid.places[j]
            others = np.repeat(u[None], 0 if places is None else len(places), 0)
            others[:, j] = places
            around.append(np.delete(others, rows[j], 0))
        return np.concatenate(around)

    def _solved(
        self, functions: Functions, scales: ndarray, u: Float64[ndarray, "d"], around: Float64[ndarray, "b d"]
    ) -> Float64[ndarray, "c d"]:
        """Solve for the continuous coordinates at u and at its best neighbours; return these and all neighbours."""
        is_discrete = self.grid.is_discrete
        chosen, left = [u], around
        while len(chosen) <= SETTINGS and len(left):
            chosen.append(self._best_of(functions, scales, left).u)
            left = left[(left[:, is_discrete] != chosen[-1][is_discrete]).any(1)]
        made = []
        for point in chosen:
            part = Slice(functions, point, ~is_discrete)
            found = best_feasible(
                part, scales, [solve_locally(part, scales, point[None, ~is_discrete], self.inner.rounds)]
            )
            if found is not None:
                made.append(part.whole(found.u[None]))
        return np.concatenate([*made, around])


def searching(search: Search, grid: Grid | None, taken: Float64[ndarray, "p d"]) -> Search | Mixed:
    """Return the search for a problem with this grid, if it has one."""
    return search if grid is None else Mixed(replace(search, brevity=0.0), grid, taken)


def _is_better(one: Optimum, other: Optimum, scale: float) -> bool:
    """Whether one point is better than another by more than rounding error."""
    if one.satisfied != other.satisfied:
        return one.satisfied
    gain = (one.f[0] - other.f[0]) / scale if one.satisfied else one.margin - other.margin
    return bool(gain > LEAST_GAIN)


def _steps(is_discrete: Bool[ndarray, "d"]) -> Int64[ndarray, "b d"]:
    """Return the steps to all neighbours, in values."""
    d, which = len(is_discrete), is_discrete.nonzero()[0].tolist()
    moves = [{j: by} for j in which for by in (-1, 1, -2, 2)]
    if len(which) <= PAIRED:
        moves += [{i: a, j: b} for i, j in combinations(which, 2) for a in (-1, 1) for b in (-1, 1)]
    steps = np.zeros((len(moves), d), dtype=np.int64)
    for row, move in enumerate(moves):
        for j, by in move.items():
            steps[row, j] = by
    return steps


def _unique(points: Float64[ndarray, "b d"]) -> Float64[ndarray, "c d"]:
    """Return each point once, in the order of its first appearance."""
    _, first = np.unique(points, axis=0, return_index=True)
    return points[np.sort(first)]
