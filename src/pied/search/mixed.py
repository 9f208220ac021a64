"""The best point where some coordinates take listed values only: a search of the cube, then moves on the grid.

The cube is searched first as if every number could be set. Around its best point and the best points of the pool,
points of the grid are compared, by other labels and by steps of one or two values in one or two coordinates, until none
is better. A *setting* is what the discrete coordinates are; where others are continuous, these are solved for in many
settings at once, in all settings if there are few. Points are compared as a list (`enumeration`), so constraints known
exactly hold at the point that is chosen if they hold at any that was compared.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import combinations, product

import numpy as np
from numpy import ndarray

from pied.problem import SAME, Grid
from pied.rng import Stream
from pied.search.enumeration import Enumeration
from pied.search.functions import Functions, Held, Refined
from pied.search.local import best_first, ranked, solve_locally, tied
from pied.search.multistart import Search
from pied.search.optimum import Optimum
from pied.shapes import Bool, Float64, Int64

MOVES = 40  # comparisons of a point with its neighbours, at most
SOLVED_MOVES = 4  # the same where continuous coordinates are solved for each time
LEAST_GAIN = 1e-9  # scaled: a smaller gain is rounding error
PAIRED = 8  # discrete coordinates up to which steps in two of them at once are tried
CORNERS = 6  # discrete coordinates up to which a point is rounded down and up in all combinations
COMBINATIONS = 12  # combinations of labels from which local solves start
SETTINGS = 16  # settings for which the continuous coordinates are solved at once
EVERY_SETTING = 48  # settings up to which all of them are solved
ROUNDS = 25  # of these solves
DIVED = 4  # numbers that are fixed in turn, while the rest is solved for
DIVE = 3  # values to either side at which each of them is fixed
REFINED = 2  # neighbours of the best point that are compared with it precisely
INSIDE = 3e-8  # scaled: how far inside the constraints they aim


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
        return self._best_of_each(functions, scales, pool, which, COMBINATIONS) if which.any() else pool[:0]

    def _best_of_each(
        self,
        functions: Functions,
        scales: Float64[ndarray, "k"],
        points: Float64[ndarray, "b d"],
        which: Bool[ndarray, "d"],
        most: int,
    ) -> Float64[ndarray, "s d"]:
        """Return the best of some points for each combination of values of some coordinates, best first."""
        order = best_first(tied(ranked(functions.values(points) / scales)[0]), len(points))
        _, first = np.unique(self.grid.rows(points[order])[:, which], axis=0, return_index=True)
        return points[order[np.sort(first)[:most]]]

    def rescue(self, functions: Functions, scales: Float64[ndarray, "k"], starts: Float64[ndarray, "s d"]) -> Optimum:
        """Maximize the smallest scaled constraint, off the grid: a verdict must hold for every value."""
        return self.inner.rescue(functions, scales, starts)

    @np.errstate(all="ignore")
    def near(
        self, functions: Functions, scales: Float64[ndarray, "k"], u: Float64[ndarray, "d"], also: ndarray
    ) -> Optimum:
        """Return the best point of the grid around u and among some others."""
        rough = (functions.coarse() if isinstance(functions, Refined) else None) or functions
        first = np.concatenate([self._rounded(u), self._dives(rough, scales, u), self.grid.snapped(also)])
        best = self._moved(rough, scales, first)
        if rough is functions:
            return best
        around = self._neighbours(best.u)
        around = around[best_first(tied(ranked(rough.values(around) / scales)[0]), REFINED)]
        last = np.concatenate([best.u[None], around])
        return self._best_of(functions, scales, last if self._is_whole else self._solved(functions, scales, last))

    @np.errstate(all="ignore")
    def beside(
        self,
        functions: Functions,
        scales: Float64[ndarray, "k"],
        u: Float64[ndarray, "d"],
        told: Float64[ndarray, "N d"],
        seen: Bool[ndarray, "d"],
    ) -> Optimum | None:
        """Return the best point among the settings next to that of u in which nothing was told; None if there are none.

        Args:
            functions: To be maximized, and the constraints.
            scales: Of the functions.
            u: A point of the grid.
            told: Points that were told, are pending, or failed.
            seen: In which coordinates another value makes a setting worth telling.
        """
        rows, which = self.grid.rows(u), self.grid.is_discrete
        tried = {tuple(row) for row in self.grid.rows(told)[:, which].tolist()}
        fresh = []
        for j in (which & seen).nonzero()[0].tolist():
            places = self.grid.places[j]
            size = 0 if places is None else len(places)
            others = range(size) if self.grid.is_choice[j] else (rows[j] - 1, rows[j] + 1)
            for value in others:
                setting = rows.copy()
                setting[j] = value
                if 0 <= value < size and tuple(setting[which].tolist()) not in tried:
                    fresh.append(setting)
        if not fresh:
            return None
        starts = self.grid.at(np.array(fresh), np.repeat(u[None], len(fresh), 0))
        return self._best_of(functions, scales, starts if self._is_whole else self._solved(functions, scales, starts))

    @property
    def _is_whole(self) -> bool:
        """Whether every coordinate is discrete."""
        return bool(self.grid.is_discrete.all())

    def _moved(self, functions: Functions, scales: Float64[ndarray, "k"], first: Float64[ndarray, "b d"]) -> Optimum:
        """Return the best of some points, and of what can be reached from it by moves that gain."""
        if not self._is_whole:
            return self._near_settings(functions, scales, first)
        best = self._best_of(functions, scales, first)
        for _ in range(MOVES):
            better = self._best_of(functions, scales, np.concatenate([best.u[None], self._neighbours(best.u)]))
            if not _is_better(better, best, float(scales[0])):
                break
            best = better
        return best

    def _dives(
        self, functions: Functions, scales: Float64[ndarray, "k"], u: Float64[ndarray, "d"]
    ) -> Float64[ndarray, "b d"]:
        """Fix one number after the other at each of its nearest values, solve for the rest, and round that.

        The best values of two coordinates may both lie far from those of the search that takes numbers as continuous,
        and then no step in one of them is a gain.
        """
        ordered = (self.grid.is_discrete & ~self.grid.is_choice).nonzero()[0].tolist()
        if len(ordered) < 2:
            return self.grid.snapped(u[None])
        found = []
        for j in ordered[:DIVED]:
            rows = np.repeat(self.grid.rows(u)[None], 2 * DIVE + 1, 0)
            rows[:, j] += np.arange(-DIVE, DIVE + 1)
            starts = np.repeat(u[None], len(rows), 0)
            starts[:, j] = self.grid.at(rows, starts)[:, j]
            held = self.grid.is_choice.copy()
            held[j] = True
            ends = solve_locally(self._held(functions, scales, held), scales, _unique(starts), ROUNDS)
            found += [self._rounded(each) for each in ends.u]
        return np.concatenate(found)

    def _held(self, functions: Functions, scales: Float64[ndarray, "k"], held: Bool[ndarray, "d"]) -> Held:
        """Return the functions for local solves that leave some coordinates as they are."""
        inside = INSIDE * scales
        inside[0] = 0.0
        return Held(functions, held, inside)

    def _near_settings(
        self, functions: Functions, scales: Float64[ndarray, "k"], points: Float64[ndarray, "b d"]
    ) -> Optimum:
        """Return the best point in the best settings among some points and around them."""
        if self._has_few:
            points = np.concatenate([points, self._in_every_setting(points[0])])
        best = self._best_of(functions, scales, self._solved(functions, scales, points))
        for _ in range(0 if self._has_few else SOLVED_MOVES):
            around = self._solved(functions, scales, self._neighbours(best.u))
            better = self._best_of(functions, scales, np.concatenate([best.u[None], around]))
            if not _is_better(better, best, float(scales[0])):
                break
            best = better
        return best

    @property
    def _has_few(self) -> bool:
        """Whether there are few enough settings to solve in all of them."""
        return math.prod(1 if each is None else len(each) for each in self.grid.places) <= EVERY_SETTING

    def _in_every_setting(self, u: Float64[ndarray, "d"]) -> Float64[ndarray, "b d"]:
        """Return a point in every setting: a pool seldom has a value that lies close to another one."""
        sizes = [1 if each is None else len(each) for each in self.grid.places]
        rows = np.array(list(product(*map(range, sizes))), dtype=np.int64)
        return self.grid.at(rows, np.repeat(u[None], len(rows), 0))

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
        self, functions: Functions, scales: Float64[ndarray, "k"], points: Float64[ndarray, "b d"]
    ) -> Float64[ndarray, "c d"]:
        """Solve for the continuous coordinates in the best settings of some points; return the ends and all points."""
        points = _unique(points)
        which = self.grid.is_discrete
        starts = self._best_of_each(functions, scales, points, which, EVERY_SETTING if self._has_few else SETTINGS)
        held = self._held(functions, scales, which)
        ends = solve_locally(held, scales, starts, ROUNDS, each_to_its_end=True)
        return np.concatenate([ends.u, points])


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
