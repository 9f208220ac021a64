"""The test of feasibility: can any point still meet the constraints (line 2 of Algorithm 1)?

It is made while no told point is feasible. A negative margin says that none can; `study.moment` counts such tests and
reaches the verdict.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy import ndarray

from pied.bounds import (
    ROUGHEST,
    VERDICT_LEVEL,
    Believer,
    Bounds,
    SuccessModel,
    Widened,
    WithSuccess,
    coding_of,
    is_young,
    optimistic,
    possible,
)
from pied.distances import to_nearest
from pied.gp import GP
from pied.problem import Problem
from pied.records import Why, met
from pied.rng import Stream
from pied.search import Enumeration, Functions, Mixed, Optimum, Picked, Refined, Search, distinct
from pied.shapes import Float64
from pied.solvers.calendar import UNCLEAR, is_turn
from pied.solvers.frame import FRESH_DISTANCE, meets_white
from pied.solvers.scene import Scene
from pied.solvers.untried import Untried

DENSE_POINTS = 4096  # Sobol points added to the pool for the thorough search that a verdict rests on
MOST_SCREENED = 1024  # of these: the best ones as far as a rough look tells
THOROUGH_STARTS = 32  # starts of that search
QUICK_STARTS = 8  # starts of the first search, which only decides whether the thorough one is needed
CONFIRMING_DISTANCE = 0.03  # unit cube: a point nearer to a told one would confirm nothing, ...
CONFIRMING_SHARE = 0.5  # ... nor would one nearer than this share of the distance that other points have
REGIME_POINTS = 2  # told points for each variable: a regime with no more shows nothing
REGIME_DEVIATIONS = 3.0  # a regime may be where its border is within so many deviations


@dataclass(frozen=True, eq=False)
class JointTest:
    """All constraints together, three standard deviations out."""

    problem: Problem
    believer: Believer
    level: float
    """Of the bounds that are written down with proposals."""
    scene: Scene
    stream: Stream
    """Of the run, so that every iteration tests with the same samples."""

    @property
    def _is_exact(self) -> bool:
        return self.problem.is_exact

    def judge(self, best: Optimum, why: Why) -> tuple[Optimum, Why] | None:
        """Return the point to propose, and the margin that was found; None if `best` meets all upper bounds.

        The margin ignores where evaluations fail, because failures prove nothing about the constraints. The proposed
        point does not.
        """
        look = self._look(best)
        if best.satisfied and look.is_open:
            return None
        if not look.is_open:
            untried = self._untried(look)
            if untried is not None:
                return replace(best, u=untried, active=()), replace(why, aim="feasibility", margin=0.0)
        margin = max(look.found.margin, 0.0) if look.is_open else look.found.margin
        why = replace(why, aim="feasibility", margin=margin, memory={} if look.is_open else look.test.scene.apart)
        return best if best.satisfied else look.test._proposed(look.found, best), why

    def _untried(self, look: "_Look") -> Float64[ndarray, "d"] | None:
        """Return a point of which nothing was seen that says that it breaks a limit; None without one.

        Points with labels or levels that were never tried come first, others than those that are pending and with as
        many of them as possible: by turns the one that comes nearest to the limits, and the one farthest from all that
        were tried, for where others come nearest a label that works elsewhere may not. Then the farthest point.
        """
        scene = self.scene.whole or self.scene
        data = scene.data.settled
        untried = Untried(self.problem, self.believer, data, self.believer.of_told(self.problem, data, scene.told))
        if not untried.may_matter:
            return None
        stream = scene.stream.at("untried")
        nearest, grid = look.found.u[None], self.problem.grid
        nearest = nearest if grid is None else grid.snapped(nearest)  # between two counts there is nothing to try
        pool = np.concatenate([nearest, untried.pool(stream)])
        test = replace(self, scene=replace(scene, data=data))
        upper = test._possible(test.scene, self.believer, untried.belief, test._doubt(test.scene)).values(pool)
        could, new = untried.undecided(pool, upper)
        known = np.concatenate([data.U, scene.data.imagined])
        could &= to_nearest(pool, known, "chebyshev") > FRESH_DISTANCE
        if not could.any():
            return None
        if scene.success is not None and (could & scene.success.is_likely(pool)).any():
            could &= scene.success.is_likely(pool)
        margin = np.nan_to_num((upper / scene.scales)[:, 1:].min(1), nan=-np.inf)
        away = to_nearest(pool, known)
        is_other = ~untried.alike(pool, scene.data.pending).any(1)
        by_margin = (new > 0) & is_other & bool(scene.number % 2)
        order = np.lexsort((np.where(by_margin, margin, away), new, is_other, could))
        return pool[order[-1]]

    def _look(self, best: Optimum) -> "_Look":
        """Look for a point that could meet all constraints, by the belief about everything that was told, then by
        those of regimes: no point can if none can in any of them. A cliff makes the former unsure everywhere.
        """
        scene = self.scene
        whole = replace(self, scene=scene.whole or scene)
        is_met = best.satisfied and scene.whole is None
        look = _Look(self, best, True) if is_met else whole._look_once(best.u)
        if not look.is_open or (best.satisfied and scene.whole is not None):
            return look
        sides = scene.sides()
        if any(side.told_here <= REGIME_POINTS * self.problem.d for side in sides):
            return look
        looks = [replace(self, scene=side)._look_once(best.u) for side in sides]
        if scene.whole is None and is_turn(UNCLEAR, scene.number) and any(each.is_open for each in looks):
            return look  # regimes that are not clear propose every other point
        return max(looks, key=lambda each: (each.is_open, each.found.margin), default=look)

    def _look_once(self, u: Float64[ndarray, "d"]) -> "_Look":
        """Look for a point that could meet all constraints by one belief."""
        scene = self.scene
        search = scene.search.inner if isinstance(scene.search, Mixed) else scene.search
        search = search if isinstance(search, Search | Enumeration) else Search()
        bounds = possible(scene.composite, VERDICT_LEVEL)
        found = self._nearest(search, bounds, scene.pool, u, QUICK_STARTS)
        if not found.satisfied:
            found = self._refuted(search, found) or found
        return _Look(self, found, found.satisfied or self._depends_on_pending(search, found))

    def _proposed(self, found: Optimum, best: Optimum) -> Optimum:
        """Return the point to propose, given the one that comes nearest to the constraints."""
        chosen = found if found.satisfied else self._lucky(found) or self._away_from_known(found)
        success = self.scene.success
        may_succeed = success is None or bool(success.is_likely(chosen.u[None]).all())
        return chosen if may_succeed else best

    def _refuted(self, search: Search | Enumeration, found: Optimum) -> Optimum | None:
        """Return a point that could meet all constraints under one of the cautious bounds; None without one."""
        for bounds in self._cautious(self.scene):
            other = self._thorough(search, bounds, found)
            if other.satisfied:
                return other
        return None

    def _depends_on_pending(self, search: Search | Enumeration, found: Optimum) -> bool:
        """Whether a failed test depends on the values imagined of pending points: without them it would pass.

        Pending points are imagined at their mean, as if there were no uncertainty about them, and pending candidates
        are not offered again. That spreads proposals out, but only told values may decide a verdict.
        """
        data, candidates = self.scene.data, self.problem.listing
        if not len(data.pending):
            return False
        if isinstance(search, Enumeration) and candidates is not None:
            search = search.also(candidates.same(data.pending))
        bounds = next(self._cautious(replace(self.scene, data=data.settled, belief=self.scene.told)))
        return self._thorough(search, bounds, found).satisfied

    def _lucky(self, found: Optimum) -> Optimum | None:
        """Return the told point that meets all constraints by its noisy values though the test fails, to repeat it.

        No verdict falls before the mean of the measurements there breaks a limit, too. None without such a point.
        """
        f = self.scene.f / self.scene.scales
        is_met = met(self.problem, self.scene.data)
        if not is_met.any():
            return None
        row = int(np.where(is_met, f[:, 1:].min(1), -np.inf).argmax())
        return replace(found, u=np.clip(self.scene.data.U[row], 0.0, 1.0))

    def _away_from_known(self, found: Optimum) -> Optimum:
        """Return the least excluded pool point away from all told and awaited ones, where the found one is beside one.

        The point that comes nearest to the constraints is often beside a told one. A measurement there could not refute
        the verdict; one where little was measured can.
        """
        known, pool = np.concatenate([self.scene.data.U, self.scene.data.imagined]), self.scene.pool
        if self.problem.listing is not None:
            return found
        away = np.where(meets_white(self.problem, pool), to_nearest(pool, known), 0.0)
        least = max(CONFIRMING_DISTANCE, CONFIRMING_SHARE * float(away.max()))
        if to_nearest(found.u[None], known).item() >= least or not (away >= least).any():
            return found
        bounds = next(self._cautious(self.scene))
        margin = margins(bounds.coarse() or bounds, self.scene.scales, pool)
        return replace(found, u=pool[np.where(away >= least, margin, -np.inf).argmax()])

    def _thorough(self, search: Search | Enumeration, bounds: Bounds, found: Optimum) -> Optimum:
        """Search from a dense pool and many starts: a point that is missed here is a problem wrongly given up."""
        pool = self.scene.pool
        if self.problem.listing is None:
            dense = self.scene.stream.at("dense").sobol(DENSE_POINTS, self.problem.d)
            pool = np.concatenate([pool, self.problem.drawn(dense)])
            pool = pool[bounds.promising(pool, self.scene.scales, MOST_SCREENED)]
        return self._nearest(search, bounds, pool, found.u, THOROUGH_STARTS)

    def _nearest(
        self,
        search: Search | Enumeration,
        bounds: Bounds,
        pool: Float64[ndarray, "b d"],
        u: Float64[ndarray, "d"],
        starts: int,
    ) -> Optimum:
        """Return the point that comes nearest to the constraints; in a regime, where its border may be."""
        if self._region is None:
            return largest_margin(search, bounds, self.scene.scales, pool, u, starts)
        whole, scales = WithSuccess(bounds, self._region, is_hard=True), np.append(self.scene.scales, 1.0)
        return largest_margin(search, whole, scales, pool, u, starts).of_first(bounds.k)

    @cached_property
    def _region(self) -> SuccessModel | None:
        """Where the regime may be; None: anywhere."""
        U, out = self.scene.data.U, self.scene.elsewhere
        if out is None:
            return None
        found = SuccessModel.fit(U[~out], U[out], coding_of(self.problem), is_exact=self._is_exact)
        return None if found is None else replace(found, z=REGIME_DEVIATIONS)

    def _cautious(self, scene: Scene) -> Iterator[Bounds]:
        """Yield the bounds under which a verdict must hold as well.

        The belief may be over-confident: its deviations are widened by as much as it was wrong lately. It may have
        chosen a wrong warp, because a logarithm has an end that nobody measured, or too smooth a kernel for a kink that
        no point shows: beliefs without warps and with the roughest kernel are fitted. From few points these are as
        over-confident. An earlier campaign may mislead, and blocks differ: the others are about an average block of the
        present campaign alone.
        """
        factor, choices = self._doubt(scene), scene.belief.choices
        yield self._possible(scene, self.believer, scene.belief, factor)
        model, others = self.believer.model, []
        if scene.belief.is_warped:
            others.append(replace(model, warps=("none",), plateaus=False))
        if ROUGHEST in model.kernels and any(each.kernel != ROUGHEST for each in choices):
            others.append(replace(model, kernels=(ROUGHEST,)))
        data = replace(scene.data, earlier_campaigns=None, block="")
        others += [model] if scene.data.block or any(each.campaigns for each in choices) else []
        for other in others:
            believer = replace(self.believer, model=other)
            belief = believer.fit(self.problem, data)
            yield self._possible(
                scene, believer, belief, factor if is_young(len(scene.data.U), self.problem.d) else 1.0
            )

    def _possible(self, scene: Scene, believer: Believer, belief: GP, factor: Float64[ndarray, "m"] | float) -> Bounds:
        """Return the bounds of a test by a belief with wider deviations."""
        widened = Widened(belief, factor)
        bounds = believer.bound(self.problem, scene.data, widened, self.stream.at("verdict"))
        return possible(bounds, VERDICT_LEVEL)

    def _doubt(self, scene: Scene) -> Float64[ndarray, "m"]:
        """Return by how much the deviations of each output are widened."""
        trust = self.believer.trust(self.problem, scene.data, self.level)
        return trust.for_verdict(scene.told_here, scene.f, scene.scales)


class _Look(NamedTuple):
    """What a test found."""

    test: JointTest
    found: Optimum
    """The point that comes nearest to the constraints."""
    is_open: bool
    """Whether they could be met there."""


def margins(bounds: Functions, scales: Float64[ndarray, "k"], pool: Float64[ndarray, "b d"]) -> Float64[ndarray, "b"]:
    """Return the smallest scaled constraint at each point; minus infinity where it is not known."""
    return np.nan_to_num((bounds.values(pool) / scales)[:, 1:].min(1), nan=-np.inf)


def largest_margin(
    search: Search | Enumeration,
    bounds: Functions,
    scales: Float64[ndarray, "k"],
    pool: Float64[ndarray, "b d"],
    u: Float64[ndarray, "d"],
    starts: int,
) -> Optimum:
    """Maximize the smallest scaled constraint over the box, from the best pool points and a given one."""
    rough = (bounds.coarse() if isinstance(bounds, Refined) else None) or bounds
    best = distinct(pool, margins(rough, scales, pool), starts)
    return search.rescue(bounds, scales, np.concatenate([u[None], best]))


def single_margin(scene: Scene, level: float | tuple[float, ...]) -> float:
    """Return min over i of max over x of the scaled upper bound: line 2 of Algorithm 1, constraints one at a time."""
    bounds, scales, pool = optimistic(scene.composite, level), scene.scales, scene.pool
    if isinstance(scene.search, Enumeration):
        return float(scene.search.largest(bounds, scales).min())
    best = (bounds.values(pool) / scales)[:, 1:].max(0)
    for i in (best < 0).nonzero()[0].tolist():
        one = Picked(bounds, (i + 1,))
        start = pool[(-one.values(pool)[:, 0]).argsort(kind="stable")[:3]]
        found = Search(pool=1, starts=3).solve(one, scales[i + 1 : i + 2], pool, start, Stream(0))
        best[i] = found.f[0] / scales[i + 1]
    return float(best.min())
