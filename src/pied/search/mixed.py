"""The best point where some coordinates take listed values only: a search of the cube, then moves on the grid.

The cube is searched first as if every number could be set, then with one number after the other fixed. From there and
from the pool, several of the best *settings* (what the discrete coordinates are) move on the grid at once: all their
neighbours, by another label and by steps in one or two coordinates, are compared in one batch, and where other
coordinates are continuous, these are solved for in the best neighbours, until no setting is better. If there are few
settings, these are solved for in all of them. Points are compared as a list (`enumeration`), so constraints known
exactly hold at the point that is chosen if they hold at any that was compared.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations, product

import numpy as np
from numpy import ndarray

from pied.distances import to_nearest
from pied.problem import SAME, Grid
from pied.rng import Stream
from pied.search.enumeration import Enumeration, margin_of, satisfied
from pied.search.functions import Functions, Held, Refined
from pied.search.local import best_first, ranked, solve_locally, tied
from pied.search.multistart import Search
from pied.search.optimum import Optimum
from pied.shapes import Bool, Float64, Int64

MOVES = 40  # rounds of moves, at most
SOLVED_MOVES = 4  # the same where continuous coordinates are solved for each time
LEADERS = 8  # settings whose neighbours are compared at once
LEAST_GAIN = 1e-9  # scaled: a smaller gain is rounding error
PAIRED = 8  # discrete coordinates up to which steps in two of them at once are tried
CORNERS = 6  # discrete coordinates up to which a point is rounded down and up in all combinations
COMBINATIONS = 12  # combinations of labels from which local solves start
SETTINGS = 16  # settings for which the continuous coordinates are solved at once
EVERY_SETTING = 48  # settings up to which all of them are solved
ROUNDS = 25  # of these solves
DIVED = 4  # numbers that are fixed in turn, while the rest is solved for
DIVE = 3  # values to either side at which each of them is fixed
REFINED = 2  # next best points that are compared with the best precisely
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
        rough = _cheaper(functions)
        starts = np.concatenate([known, self._of_each_label(rough, scales, pool)])
        relaxed = self._brief.solve(rough, scales, pool, starts, stream, rescue=rescue)
        return self.near(functions, scales, relaxed.u, np.concatenate([known, pool]))

    @property
    def _brief(self) -> Search:
        """The search for a first point: the moves go on from there, so that nothing is searched twice."""
        return replace(self.inner, relays=0, afar=0, rounds=min(ROUNDS, self.inner.rounds))

    def _of_each_label(
        self, functions: Functions, scales: Float64[ndarray, "k"], pool: Float64[ndarray, "b d"]
    ) -> Float64[ndarray, "s d"]:
        """Return the best point of the pool for each combination of labels, of the best combinations if many.

        Local solves move numbers only, so each combination needs a start of its own.
        """
        which = self.grid.is_choice
        return (
            self._best_of_each(pool, functions.values(pool) / scales, which, COMBINATIONS) if which.any() else pool[:0]
        )

    def _best_of_each(
        self, points: Float64[ndarray, "b d"], scaled: Float64[ndarray, "b k"], which: Bool[ndarray, "d"], most: int
    ) -> Float64[ndarray, "s d"]:
        """Return the best of some points for each combination of values of some coordinates, best first."""
        order = best_first(tied(ranked(scaled)[0]), len(points))
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
        rough = _cheaper(functions)
        first = np.concatenate([self._rounded(u), self._dives(rough, scales, u), self.grid.snapped(also)])
        found = self._moved(rough, scales, first)
        last = found[: 1 + REFINED]
        if rough is not functions and not self._is_whole:
            last, _ = self._solved(functions, scales, last)
        return self._best_of(functions, scales, last)

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
        return self._best_of(functions, scales, self._ended(functions, scales, starts, each_to_its_end=True)[0])

    @property
    def _is_whole(self) -> bool:
        """Whether every coordinate is discrete."""
        return bool(self.grid.is_discrete.all())

    def _moved(
        self, functions: Functions, scales: Float64[ndarray, "k"], first: Float64[ndarray, "b d"]
    ) -> Float64[ndarray, "e d"]:
        """Return the best point in each setting that moves on the grid lead to, best first."""
        if self._has_few:
            first = np.concatenate([first, self._in_every_setting(first[0])])
        points, f = self._solved(functions, scales, first)
        order = self._order(functions, scales, points, f)
        for _ in range(0 if self._has_few else MOVES if self._is_whole else SOLVED_MOVES):
            best = f[order[0]]
            leaders = self._distinct(points[self._order(functions, scales, points, f, also_taken=True)])[:LEADERS]
            ended = satisfied(functions, scales, f) | self._is_whole  # where a solve failed, another start may not
            met = self._keys(points[ended])
            groups = (self._neighbours(leaders[:1]), SETTINGS), (self._neighbours(leaders[1:]), SETTINGS // 2)
            fresh = [(each[~np.isin(self._keys(each), met)], most) for each, most in groups]
            around = np.concatenate([self._promising(functions, scales, each, most) for each, most in fresh])
            if not len(around):
                break
            more, more_f = self._ended(functions, scales, around)
            points, f = np.concatenate([points, more]), np.concatenate([f, more_f])
            order = self._order(functions, scales, points, f)
            if not self._is_better(functions, scales, f[order[0]], best):
                break
        return self._distinct(points[order])

    def _distinct(self, points: Float64[ndarray, "b d"]) -> Float64[ndarray, "s d"]:
        """Return the first point of each setting."""
        return points[np.sort(np.unique(self._keys(points), return_index=True)[1])]

    def _order(
        self,
        functions: Functions,
        scales: Float64[ndarray, "k"],
        points: Float64[ndarray, "b d"],
        f: Float64[ndarray, "b k"],
        *,
        also_taken: bool = False,
    ) -> Int64[ndarray, "b"]:
        """Return the order of points: those that may be chosen, that meet all constraints, and are best come first."""
        fine = satisfied(functions, scales, f)
        key = np.where(fine, f[:, 0] / scales[0], margin_of(functions, scales, f))
        free = np.ones(len(points), dtype=bool) if also_taken else self._is_free(points)
        allowed = free if self.allowed is None else self.allowed(points)
        return np.lexsort((-tied(key), ~fine, ~allowed, ~free))

    @staticmethod
    def _is_better(
        functions: Functions, scales: Float64[ndarray, "k"], one: Float64[ndarray, "k"], other: Float64[ndarray, "k"]
    ) -> bool:
        """Whether functions at one point are better than at another by more than rounding error."""
        f = np.stack([one, other])
        is_fine, other_is_fine = satisfied(functions, scales, f).tolist()
        if is_fine != other_is_fine:
            return bool(is_fine)
        gained = f[:, 0] / scales[0] if is_fine else margin_of(functions, scales, f)
        return bool(gained[0] - gained[1] > LEAST_GAIN)

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
        free = self._is_free(points)
        for wish in (free if self.allowed is None else free & self.allowed(points), free):
            if wish.any():
                return Enumeration(points, wish).solve(functions, scales)
        return Enumeration(points, ~free).solve(functions, scales)

    def _is_free(self, points: Float64[ndarray, "b d"]) -> Bool[ndarray, "b"]:
        """Tell which points are not taken."""
        if not len(self.taken):
            return np.ones(len(points), dtype=bool)
        return to_nearest(points, self.taken, "chebyshev") > SAME

    def _rounded(self, u: Float64[ndarray, "d"]) -> Float64[ndarray, "b d"]:
        """Return the nearest point of the grid and, in few dimensions, all corners of the cell around u."""
        rows, which = self.grid.rows(u), self.grid.is_discrete.nonzero()[0]
        if len(which) > CORNERS:
            return self.grid.at(rows, u)[None]
        side = (np.sign(u - self.grid.at(rows, u)) * ~self.grid.is_choice).astype(np.int64)[which]
        steps = np.zeros((2 ** len(which), len(u)), dtype=np.int64)
        steps[:, which] = np.array(list(product((0, 1), repeat=len(which)))) * side
        return self.grid.at(rows + steps, np.repeat(u[None], len(steps), 0))

    def _neighbours(self, points: Float64[ndarray, "s d"]) -> Float64[ndarray, "b d"]:
        """Return the points beside some points: with another label, or steps away in one or two coordinates."""
        rows = self.grid.rows(points)[:, None] + self._steps
        sizes = np.array([1 if each is None else len(each) for each in self.grid.places])
        rows = np.where(self.grid.is_choice, rows % sizes, np.clip(rows, 0, sizes - 1)).reshape(-1, len(sizes))
        return _unique(self.grid.at(rows, np.repeat(points, len(self._steps), 0)))

    @cached_property
    def _steps(self) -> Int64[ndarray, "b d"]:
        """The steps to all neighbours, in values; those of labels go round."""
        sizes = [0 if each is None else len(each) for each in self.grid.places]
        numbers = (self.grid.is_discrete & ~self.grid.is_choice).nonzero()[0].tolist()
        moves = [{j: by} for j in self.grid.is_choice.nonzero()[0].tolist() for by in range(1, sizes[j])]
        moves += [{j: sign * by} for j in numbers for by in _doublings(sizes[j]) for sign in (-1, 1)]
        if len(numbers) <= PAIRED:
            moves += [{i: a, j: b} for i, j in combinations(numbers, 2) for a in (-1, 1) for b in (-1, 1)]
        steps = np.zeros((len(moves), len(sizes)), dtype=np.int64)
        for row, move in enumerate(moves):
            steps[row, list(move)] = list(move.values())
        return steps

    def _keys(self, points: Float64[ndarray, "b d"]) -> Int64[ndarray, "b"]:
        """Return a number for the setting of each point, so that settings are compared as numbers."""
        weights = Stream(0).at("keys").generator().integers(2**62, size=points.shape[1])
        return (self.grid.rows(points) * weights).sum(1)

    def _solved(
        self, functions: Functions, scales: Float64[ndarray, "k"], points: Float64[ndarray, "b d"]
    ) -> tuple[Float64[ndarray, "c d"], Float64[ndarray, "c k"]]:
        """Solve for the continuous coordinates in the best settings of some points; return starts, ends and functions.

        Without continuous coordinates, that is every point.
        """
        most = EVERY_SETTING if self._has_few else SETTINGS
        return self._ended(functions, scales, self._promising(functions, scales, points, most))

    def _promising(
        self, functions: Functions, scales: Float64[ndarray, "k"], points: Float64[ndarray, "b d"], most: int
    ) -> Float64[ndarray, "s d"]:
        """Return the best points of the best settings, and the one that meets the constraints most surely."""
        points = _unique(points)
        if self._is_whole or not len(points):
            return points
        f = functions.values(points)
        surest = points[self._order(functions, scales, points, f)[:1]]  # the only one, perhaps, that meets them all
        return np.concatenate([surest, self._best_of_each(points, f / scales, self.grid.is_discrete, most)])

    def _ended(
        self,
        functions: Functions,
        scales: Float64[ndarray, "k"],
        starts: Float64[ndarray, "s d"],
        *,
        each_to_its_end: bool = False,
    ) -> tuple[Float64[ndarray, "c d"], Float64[ndarray, "c k"]]:
        """Solve for the continuous coordinates from some points; return these, the ends, and functions there."""
        found = starts = _unique(starts)
        if not self._is_whole:
            held = self._held(functions, scales, self.grid.is_discrete)
            ends = solve_locally(held, scales, starts, ROUNDS, each_to_its_end=each_to_its_end)
            found = np.concatenate([ends.u, starts])
        return found, functions.values(found)


def searching(search: Search, grid: Grid | None, taken: Float64[ndarray, "p d"]) -> Search | Mixed:
    """Return the search for a problem with this grid, if it has one."""
    return search if grid is None else Mixed(search, grid, taken)


def _cheaper(functions: Functions) -> Functions:
    """Return the cheaper version of functions, or themselves."""
    return (functions.coarse() if isinstance(functions, Refined) else None) or functions


def _doublings(size: int) -> list[int]:
    """Return 1, 2, 4 and so on, below a number of values."""
    return [2**power for power in range((size - 1).bit_length())]


def _unique(points: Float64[ndarray, "b d"]) -> Float64[ndarray, "c d"]:
    """Return each point once, in the order of its first appearance."""
    _, first = np.unique(points, axis=0, return_index=True)
    return points[np.sort(first)]
