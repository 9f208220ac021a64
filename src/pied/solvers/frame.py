"""The frame of every solver with a belief: fit, screen, verify, never repeat a point, never fail.

One iteration is `BayesRun._propose`. What a solver seeks when it does not verify is its `_explore`.
"""

import logging
import time
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy import ndarray

from pied.bounds import (
    Believer,
    Composite,
    Level,
    White,
    Widened,
    assumes_smooth,
    from_memory,
    level_at,
    levels_at,
    misjudged,
    optimistic,
    pessimistic,
    predicted,
    telling,
    to_memory,
)
from pied.distances import to_nearest
from pied.errors import SolverDone
from pied.gp import GP, MOST_TOLD, ModelChoice
from pied.problem import Problem
from pied.records import Dataset, Why, feasible, spread
from pied.rng import Stream
from pied.search import Enumeration, Mixed, Optimum, PenaltySearch, Search, search_of, solve_locally
from pied.shapes import Bool, Float64
from pied.solvers import batches
from pied.solvers.base import BREAKDOWNS, Proposal, Run
from pied.solvers.calendar import is_turn
from pied.solvers.digits import written
from pied.solvers.initial import design_size
from pied.solvers.scene import Scene

logger = logging.getLogger(__name__)

REPEATED = 1e-7  # unit cube, every coordinate: a point this near to a known one repeats it
FRESH_DISTANCE = 1e-4  # unit cube: a pool point this far from all known points teaches something new
VERIFIED_GAIN = 1e-5  # of the objective's scale: on a grid, a point that promises less is not worth a verification
BATCH_WIDENINGS = (2.0, 3.0)  # factors of the deviations with which a batch searches on beside pending points
SETTLED_WIDTH = 1e-3  # of a function's scale: a told candidate with bounds this near to each other is known
MOST_REPAIRED = 8  # points moved onto the white constraints when a whole pool breaks them
HEAVY_TAIL = 100.0  # a function whose spread is so many times what it changes by near the best points has a long tail
SMALLEST_SCALE = 1e-8  # of the spread of a constraint: its scale is not below this
SCALE_POINTS = 2048  # points of the pool, at most, from which the scale of a function is taken, ...
SAMPLED_SCALE_POINTS = 512  # ... if some function is sampled there
TOP_POINTS = 128  # of these, at most, at which what settings may reach is computed by more than a few samples
TOP_STARTS, TOP_ROUNDS = 3, 20  # local solves from the best of them: a pool ends below the optimum
HELD = 1e-9  # of a constraint's scale: a local solve ends so near to its limit
DIGITS_COST = 3e-3  # of the width of a bound: what may be lost for fewer digits where people set them, ...
WHITE_WIDTH = 0.1  # ... of a function without uncertainty as if its width were this much of its scale
USUAL_POINTS = 256  # points of the pool, spread over the box, at which deviations are usual
INCUMBENTS = 3  # told points that clouds and local solves start from
FILL_POINTS = 1024  # Sobol points among which the last rung looks for the most distant one
WHITE_BROKEN_DISTANCE = 10.0  # taken off the distance of a point that breaks a white constraint; above any distance
INFEASIBLE_VALUE = -1e6  # scaled: ranks every infeasible told point behind every feasible one
SOME = f"part of the points: the belief rests on {MOST_TOLD} of {{}}, the last told and others far apart"
"""What is written down where all points would take too long."""
UNKNOWN_VALUE = -1e300  # ranks a point whose functions are not all told behind every other


@runtime_checkable
class Settings(Protocol):
    """What the frame needs of the settings of a solver with a belief; the words are those of `CUQB`."""

    @property
    def level(self) -> Level:
        """p of the bounds that verify and that are written down."""

    @property
    def verify_every(self) -> int | None:
        """Every so-many-th trial verifies."""

    @property
    def believer(self) -> Believer:
        """How beliefs are made."""

    @property
    def search(self) -> Search | PenaltySearch:
        """How subproblems are solved."""

    @property
    def strict(self) -> bool:
        """Raise instead of climbing the numerical ladder."""


class BayesRun(Run):
    """One run of a solver with a belief: the frame around what it seeks."""

    def __init__(self, settings: Settings, problem: Problem, stream: Stream) -> None:
        self.settings, self.problem, self.stream = settings, problem, stream
        self.initial = design_size(problem.chosen)
        self._at(0)

    def _at(self, told: int) -> None:
        """Set the levels after so many told points."""
        self.level = level_at(self.settings.level, told)
        self.levels = levels_at(self.settings.level, told, self.problem.k)

    @abstractmethod
    def _explore(self, scene: Scene) -> tuple[Optimum, Why]:
        """Seek the next point; the optimum has the functions of the problem, or of its own, objective first."""

    def ask(self, number: int, data: Dataset) -> Proposal:
        """Propose the next point; never fails for numerical reasons unless `strict`.

        After an error of linear algebra, a space-filling point is proposed. Every other exception is a mistake, here or
        in the user's functions, and is raised.
        """
        began = time.perf_counter()
        data = data.distinct(self.problem)
        self._at(len(data.U))
        stream = self.stream.at("trial", number)
        previous = from_memory(data.last.memory) if data.last else None
        if len(data.U) > MOST_TOLD:
            logger.warning("trial %d: %s", number, SOME.format(len(data.U)))
        try:
            with np.errstate(all="ignore"):
                proposal = self._propose(number, data, previous, stream)
        except BREAKDOWNS as error:
            if self.settings.strict:
                raise
            logger.warning("trial %d: the search failed (%s); a space-filling point is proposed", number, error)
            proposal = self._fill(data, stream, str(error), previous)
        return replace(proposal, why=replace(proposal.why, seconds=time.perf_counter() - began))

    def _propose(
        self, number: int, data: Dataset, previous: tuple[ModelChoice, ...] | None, stream: Stream
    ) -> Proposal:
        """Fit, screen and search; verify every so often."""
        everything = self.scene(number, data, previous, stream)
        scene, kept = self._staged(everything)
        best, why = self._chosen(scene, kept)
        u = self._written(scene, self.problem.onto(self._on_grid(scene, best.u)))
        u, why = self._called(scene, u, why)
        if why.repeats is None and self.repeats(scene, u):
            other = self._narrow(scene) if len(data.pending) else None
            u = self._written(scene, self.spread_out(scene) if other is None else other)
            why = replace(why, aim="spread" if other is None else "narrow")
            if other is None and self.repeats(scene, u):
                u, why = self._once_more(scene, u, why)
        why = replace(why, active=tuple(self.problem.functions[i] for i in best.active))
        if scene is not everything:
            why = replace(why, optimistic=None)  # it knows nothing of the rest of the box
        described = self._described(replace(everything, regimes=scene.regimes), u, why)
        return Proposal(u, replace(described, memory={**described.memory, **why.memory, **kept}))

    def _written(self, scene: Scene, u: Float64[ndarray, "d"]) -> Float64[ndarray, "d"]:
        """Return the point with the fewest digits that cost hardly any of a bound's width and break no limit."""

        def fine(U: Float64[ndarray, "c d"]) -> Bool[ndarray, "c"]:
            bounds = np.stack(scene.composite.bounds(np.concatenate([u[None], U]), self.level))  # 3 c k
            width = bounds[2, 0] - bounds[0, 0]
            loss = DIGITS_COST * np.where(width > 0, width, WHITE_WIDTH * scene.scales)
            is_near = (np.abs(bounds[:, 1:] - bounds[:, :1]) <= loss).all((0, 2))
            held = np.minimum(bounds[:, :1, 1:], 0.0)
            return is_near & (bounds[:, 1:, 1:] >= held - HELD * scene.scales[1:]).all((0, 2))

        return written(self.problem, u, fine) if self.settings.believer.cautious else u

    def _staged(self, scene: Scene) -> tuple[Scene, Mapping[str, Any]]:
        """Return the scene in which the next point is sought, and what is to be remembered of it."""
        return scene, {}

    def _chosen(self, scene: Scene, memory: Mapping[str, Any]) -> tuple[Optimum, Why]:
        """Return the point to propose: verify if it is the turn, else explore."""
        return self.verification(scene) or self._explore(scene)

    def verification(self, scene: Scene) -> tuple[Optimum, Why] | None:
        """Return the point to verify; None if it is not the turn of one, or it would teach nothing."""
        if not self._verifies(scene.number):
            return None
        best = self._verify(scene, rescue=not bool(scene.is_feasible.any()))
        if not best.satisfied or self._is_pending(scene, best.u) or self._is_verified(scene, best):
            return None
        return best, Why("verify", multipliers=best.multipliers)

    def _verify(self, scene: Scene, *, rescue: bool) -> Optimum:
        """Return the best point by medians that meets all constraints by their lower bounds."""
        bounds, stream = pessimistic(self._of_told(scene), self.levels), scene.stream.at("verify")
        return scene.surely_within.solve(bounds, scene.scales, scene.pool, scene.known, stream, rescue=rescue)

    def scene(
        self,
        number: int,
        data: Dataset,
        previous: tuple[ModelChoice, ...] | None,
        stream: Stream,
        believer: Believer | None = None,
    ) -> Scene:
        """Fit the belief, choose the search and draw the pool."""
        problem, believer = self.problem, believer or self.settings.believer
        told = believer.fit(problem, data.settled, previous)
        belief = told.imagine(data.pending)
        composite = believer.bound(problem, data, belief, stream)
        f = data.functions(problem)
        is_feasible = feasible(problem, f)
        known = self._incumbents(data, f, is_feasible)
        search: Search | PenaltySearch | Enumeration | Mixed = self.settings.search
        if isinstance(search, Search) or problem.listing is not None:
            search = search_of(problem, search if isinstance(search, Search) else Search())
        pool = problem.within(search.screen(stream, problem.d, known), stream.at("within"))
        count = SAMPLED_SCALE_POINTS if composite.is_costly else SCALE_POINTS
        rough = composite.fewer or composite
        scales = spread(rough.values(pool[:count], [0.5] * problem.k, screening=True))
        if not isinstance(search, PenaltySearch):
            scales = _tamed(scales, composite, known)
            scales[0] = min(scales[0], self._known_range(f[is_feasible, 0]))
        pool = problem.on_equalities(pool)  # afterwards: there, the scale of an equality would be nothing
        if isinstance(search, Enumeration) and problem.listing is not None:
            search = search.without(problem.listing.same(self._settled(data, composite, scales)))
        elif isinstance(search, Mixed) and self.is_finite:
            search = replace(search, taken=self._settled(data, composite, scales))
        return Scene(number, data, told, belief, composite, f, is_feasible, known, pool, scales, search, stream)

    def _incumbents(
        self, data: Dataset, f: Float64[ndarray, "N k"], is_feasible: Bool[ndarray, "N"]
    ) -> Float64[ndarray, "s d"]:
        """Return the best told points: feasible ones by value, then the least violated; moved onto a slice."""
        if not len(f):
            return data.U[:0]
        scale = spread(f[np.isfinite(f).all(1)])
        violation = np.maximum(-f[:, 1:] / scale[1:], 0.0).sum(1)
        value = np.where(is_feasible, f[:, 0] / scale[0], INFEASIBLE_VALUE - violation)
        order = (-np.nan_to_num(value, nan=UNKNOWN_VALUE)).argsort(kind="stable")
        return self.problem.onto(np.clip(data.U[order[:INCUMBENTS]], 0.0, 1.0))

    def _known_range(self, values: Float64[ndarray, "p"]) -> float:
        """Return the largest scale of the objective that what is known of it near the best told points allows.

        A sum of squares ranges over ten powers of ten. By its spread over the box, every point near the optimum would
        count as converged, and a gain there as none. So the scale shrinks with the range of the best values told, down
        to their size: smaller differences are none.
        """
        finite = np.sort(values[np.isfinite(values)])[-INCUMBENTS:]
        if len(finite) < INCUMBENTS or not self.problem.is_exact or self.problem.has_front:
            return np.inf
        known = max(HEAVY_TAIL * (finite[-1] - finite[0]), np.abs(finite).max())
        return float(known or np.inf)

    def _of_told(self, scene: Scene) -> Composite:
        """What was told composed with g: a pending point is no evidence that its neighbours meet the constraints."""
        if not len(scene.data.pending):
            return scene.composite
        return self.settings.believer.bound(self.problem, scene.data, scene.told, scene.stream)

    def _described(self, scene: Scene, u: Float64[ndarray, "d"], why: Why) -> Why:
        """Write the bounds at the proposed point and the choices of the belief into its origin."""
        believer, level = self.settings.believer, self.level
        factor = believer.trust(self.problem, scene.data, level).stated
        belief = believer.of_told(self.problem, scene.data, scene.belief)
        belief = believer.mixed(self.problem, scene.data, belief)
        wide = Widened(belief, factor)  # nothing was measured at a new point itself
        said = scene.regimes or believer.bound(self.problem, scene.data, wide, scene.stream)
        lower, _, upper = said.bounds(u[None], level)
        if scene.regimes is None:
            ends = predicted(self.problem, belief, u[None], level, factor)
        else:
            ends = scene.regimes.predicted(u[None], level)
        has_gap = believer.cautious and not self.problem.has_front and not self.is_young(scene.data)
        alone = believer.alone(self.problem, scene.data, belief) if has_gap else belief
        is_assumed = has_gap and assumes_smooth(self.problem, alone, scene.data.Y)
        wrong = misjudged(scene.composite, u[None], self.level)
        if wrong:
            logger.warning("the closed form of %s does not hold at %s: it is not affine there", wrong, u.tolist())
        return replace(
            why,
            lower=tuple(lower[0].tolist()),
            upper=tuple(upper[0].tolist()),
            optimistic=None if self.is_young(scene.data) else why.optimistic,
            possible=self._doubted_top(scene, alone, u, is_shown=not is_assumed) if has_gap else None,
            assumes_smooth=is_assumed,
            expected=tuple(zip(*(each[0].tolist() for each in ends), strict=True)),
            telling=tuple(telling(self.problem, belief, u[None], scene.pool[:USUAL_POINTS])[0].tolist()),
            widened=float(factor.max()),
            rung=SOME.format(len(scene.data.U)) if len(scene.data.U) > MOST_TOLD else scene.belief.rung,
            memory=to_memory(scene.belief.choices),
        )

    def is_young(self, data: Dataset) -> bool:
        """Whether an earlier campaign stands in for present points, which are too few for a gap or a verdict."""
        return data.earlier_campaigns is not None and int(data.complete.sum()) < self.initial

    def _doubted_top(self, scene: Scene, belief: GP, u: Float64[ndarray, "d"], *, is_shown: bool) -> float | None:
        """Return what settings may reach as far as the belief is to be doubted; None: none may meet all limits.

        A bound that is not shown to be smooth is hardly ever told: it is not searched to the end.
        """
        level, problem = self.level, self.problem
        doubted = self.settings.believer.doubted(problem, scene.data, belief, scene.stream, level)
        bounds, pool = optimistic(doubted, level), scene.pool[:SCALE_POINTS]
        best = pool[bounds.promising(pool, scene.scales, TOP_POINTS)]
        U = np.concatenate([u[None], scene.known, best])
        f = bounds.values(U)
        if is_shown and problem.listing is None:
            value = np.where((f[:, 1:] >= 0).all(1), f[:, 0], -np.inf)
            starts = U[(-value).argsort(kind="stable")[:TOP_STARTS]]
            ends = solve_locally(bounds.coarse() or bounds, scene.scales, starts, TOP_ROUNDS)
            f = np.concatenate([f, bounds.values(ends.u)])
        top = f[(f[:, 1:] >= -HELD * scene.scales[1:]).all(1), 0].max(initial=-np.inf)
        return float(min(top, np.finfo(float).max)) if top > -np.inf else None

    def _verifies(self, number: int) -> bool:
        """Whether a trial verifies: by its number alone, so that a resumed run goes on as if uninterrupted."""
        every = self.settings.verify_every
        return every is not None and number > self.initial and is_turn(every, number - self.initial)

    def _is_verified(self, scene: Scene, best: Optimum) -> bool:
        """Whether a verification would teach nothing, so that other settings are worth more.

        On a grid, what was told of an exact black box may be as good as what can be verified. With noise, the objective
        may be certain there, while no limit on an output keeps the point from a better one.
        """
        if not self.problem.is_exact:
            is_held = any(i not in self.problem.white for i in best.active)
            return not is_held and bool(scene.composite.widths(best.u)[0] <= SETTLED_WIDTH * scene.scales[0])
        if self.problem.grid is None:
            return False
        told = scene.f[scene.is_feasible_here, 0].max(initial=-np.inf)
        return bool(best.f[0] - told <= VERIFIED_GAIN * scene.scales[0])

    def _settled(self, data: Dataset, composite: Composite, scales: Float64[ndarray, "k"]) -> Float64[ndarray, "p d"]:
        """Return the points at which a measurement would teach nothing: pending, failed, or told well enough."""
        if self.problem.is_exact or not len(data.U):
            return np.concatenate([data.U, data.imagined])
        lower, _, upper = composite.bounds(data.U, self.level)
        is_known = ((upper - lower) <= SETTLED_WIDTH * scales).all(1)
        return np.concatenate([data.U[is_known], data.imagined])

    def repeats(self, scene: Scene, u: Float64[ndarray, "d"]) -> bool:
        """Whether an evaluation here would teach nothing: h is exact and told here, it failed here, or is pending."""
        data = scene.data
        points = np.concatenate([data.U, data.imagined]) if self.problem.is_exact else data.failed
        is_known = bool(len(points)) and bool((np.abs(points - u).max(1) < REPEATED).any())
        return is_known or self._is_pending(scene, u)

    def _is_pending(self, scene: Scene, u: Float64[ndarray, "d"]) -> bool:
        """Whether the point is the same as a pending one that is not worth repeating."""
        twin = self._twin(scene, u)
        return twin is not None and not self._is_worth_repeating(scene, twin)

    def _called(self, scene: Scene, u: Float64[ndarray, "d"], why: Why) -> tuple[Float64[ndarray, "d"], Why]:
        """Call a repetition one: of a pending point, onto which u is moved if that is worth it, or of a told one."""
        twin, data = self._twin(scene, u), scene.data
        if twin is not None and self._is_worth_repeating(scene, twin):
            return data.imagined[twin], replace(why, repeats=data.away[twin])
        told = (np.abs(data.U - u) < REPEATED).all(1)
        if self.problem.is_exact or twin is not None or not told.any():
            return u, why
        return u, replace(why, repeats=data.numbers[int(told.argmax())])

    def _once_more(self, scene: Scene, u: Float64[ndarray, "d"], why: Why) -> tuple[Float64[ndarray, "d"], Why]:
        """Repeat settings where no others are left: with noise, and to confirm that limits cannot be met.

        Raises:
            SolverDone: If that would teach nothing.
        """
        twin, data = self._twin(scene, u), scene.data
        if self.problem.is_exact and why.margin is None:
            raise SolverDone("every setting that can be chosen has been measured")
        if self.problem.is_exact or twin is None:
            return u, why
        return data.imagined[twin], replace(why, repeats=data.away[twin] if data.away else None)

    def _twin(self, scene: Scene, u: Float64[ndarray, "d"]) -> int | None:
        """The row of the pending point that is the same as u, if there is one."""
        pending = scene.data.pending
        found = batches.same(self.problem, scene.told, u[None], pending)[0] & self.problem.lies_on(pending)
        nearest = np.where(found, np.abs(pending - u).max(1), np.inf)
        return scene.data.waiting[int(nearest.argmin())] if found.any() else None

    def _is_worth_repeating(self, scene: Scene, row: int) -> bool:
        at = scene.data.imagined[row]
        return bool(scene.data.away) and batches.is_worth_repeating(
            self.problem, scene.belief, scene.composite, scene.scales, at
        )

    @property
    def is_finite(self) -> bool:
        """Whether there are finitely many points: those that are known exactly are then not searched again."""
        grid = self.problem.grid
        return self.problem.candidates is not None or (grid is not None and bool(grid.is_discrete.all()))

    def _on_grid(self, scene: Scene, u: Float64[ndarray, "d"]) -> Float64[ndarray, "d"]:
        """Return the best point of the grid around a point that a search found off it."""
        grid = self.problem.grid
        if grid is None or bool(grid.has(u[None]).all()):
            return u if grid is None else grid.snapped(u)
        taken = self._settled(scene.data, scene.composite, scene.scales) if self.is_finite else scene.data.U[:0]
        mixed = Mixed(Search(), grid, taken)
        bounds = optimistic(scene.composite, self.levels)
        return mixed.near(bounds, scene.scales, u, grid.snapped(u)[None]).u

    def _narrow(self, scene: Scene) -> Float64[ndarray, "d"] | None:
        """Return the pool point with the best wider upper bound, of those that differ from all pending points.

        Where the belief expects the best, an outcome is awaited already. Wider bounds say where the best may lie if
        the belief is wrong. None without a point that promises a gain.
        """
        problem = self.problem
        around = np.concatenate([scene.known[:1], scene.data.pending])
        more = problem.settled(
            scene.search.screen(scene.stream.at("batch"), problem.d, around), scene.stream.at("more")
        )
        pool = np.concatenate([scene.pool, more])
        likely = np.ones(len(pool), dtype=bool) if scene.success is None else scene.success.is_likely(pool)
        best = scene.f[scene.is_feasible_here, 0].max(initial=-np.inf)
        reach = [self._reach(scene, pool, factor) for factor in BATCH_WIDENINGS]
        for least in (batches.NEAR_SETTINGS, self._least_distance):
            allowed = likely & self._is_fresh(scene, pool, least)
            for f in reach:
                promising = allowed & (f[:, 1:] >= 0).all(1) & (f[:, 0] > best)
                if promising.any():
                    return pool[np.where(promising, f[:, 0], -np.inf).argmax()]
        return None

    def _reach(self, scene: Scene, U: Float64[ndarray, "b d"], factor: float) -> Float64[ndarray, "b k"]:
        """Return the upper bounds of all functions with deviations wider by a factor."""
        wide = self.settings.believer.bound(self.problem, scene.data, Widened(scene.belief, factor), scene.stream)
        return optimistic(wide, self.levels).values(U)

    def spread_out(self, scene: Scene) -> Float64[ndarray, "d"]:
        """Return the most uncertain pool point that could be feasible, instead of repeating a known one."""
        composite, pool = scene.composite, scene.pool
        fresh = self._is_fresh(scene, pool, self._least_distance)
        if not (fresh & meets_white(self.problem, pool)).any():
            pool = np.stack([self._honoured(u) for u in pool[:MOST_REPAIRED]])
            fresh = self._is_fresh(scene, pool, self._least_distance)
        levels = (1.0 - self.level, self.level)
        lower, upper = (composite.values(pool, [level] * composite.problem.k, screening=True) for level in levels)
        width = ((upper - lower) / scene.scales).sum(1)
        possible, white = (upper[:, 1:] >= 0).all(1), meets_white(self.problem, pool)
        likely = np.ones_like(fresh) if scene.success is None else scene.success.is_likely(pool)
        known = np.concatenate([scene.data.U, scene.data.imagined])
        is_new = to_nearest(pool, known, "chebyshev") > REPEATED
        wishes = (fresh & possible & likely, fresh & white & likely, fresh & white, is_new & white, white)
        allowed = next((wish for wish in wishes if wish.any()), np.ones_like(fresh))
        return pool[np.where(allowed, width, -np.inf).argmax()]

    @property
    def _least_distance(self) -> float:
        """How far a point is at least from all pending ones, in some coordinate of the unit cube."""
        return batches.SAME_SETTINGS if self.problem.is_exact else batches.NEAR_SETTINGS

    def _is_fresh(self, scene: Scene, U: Float64[ndarray, "b d"], least: float) -> Bool[ndarray, "b"]:
        """Tell which points are away from all known ones, and at least so far from the pending ones."""
        known = np.concatenate([scene.data.U, scene.data.imagined])
        fresh = to_nearest(U, known) > FRESH_DISTANCE
        fresh &= to_nearest(U, scene.data.pending, "chebyshev") >= least
        return fresh & ~batches.same(self.problem, scene.told, U, scene.data.pending).any(1)

    def _honoured(self, u: Float64[ndarray, "d"]) -> Float64[ndarray, "d"]:
        """Move a point that breaks white constraints to a near one that meets them."""
        if self.problem.listing is not None or bool(meets_white(self.problem, u[None]).all()):
            return u
        white = White(self.problem, self.problem.white, near=u)
        stream = Stream(0).at("honoured")
        search = search_of(self.problem, Search(pool=256, generations=0, starts=2))
        pool = search.screen(stream, self.problem.d, u[None])
        return search.solve(white, spread(white.values(pool)), pool, u[None], stream).u

    def _fill(self, data: Dataset, stream: Stream, reason: str, previous: tuple[ModelChoice, ...] | None) -> Proposal:
        """The last rung: the point of a Sobol pool that is farthest from all known ones and meets white constraints."""
        known = np.concatenate([data.U, data.imagined])
        pool = self.problem.drawn(stream.at("fill").sobol(FILL_POINTS, self.problem.d))
        if self.problem.listing is not None:
            pool = Enumeration.of(self.problem.listing).screen(stream.at("fill"), self.problem.d, known[:0])
        elif self.problem.grid is not None:
            pool = self.problem.grid.snapped(pool)
        pool = self.problem.settled(pool, stream.at("settled"))
        distance = to_nearest(pool, known) if len(known) else np.ones(len(pool))
        distance = np.where(meets_white(self.problem, pool), distance, distance - WHITE_BROKEN_DISTANCE)
        memory = to_memory(previous) if previous else {}
        u = self._honoured(pool[distance.argmax()])
        return Proposal(u, Why("fill", rung=f"space-filling: {reason}", memory=memory))


def _tamed(
    scales: Float64[ndarray, "k"], composite: Composite, known: Float64[ndarray, "s d"]
) -> Float64[ndarray, "k"]:
    """Return scales that are not far above what constraints change by around the best told points.

    Where an output ranges over many powers of ten, the spread of a constraint is that of its largest values, and a
    violation that matters near the optimum would count as rounding error.
    """
    if not len(known):
        return scales
    _, slopes = composite.values_and_slopes(known, [0.5] * composite.problem.k, screening=True)
    local = np.abs(slopes).max((0, 2))
    wild = (local > 0) & (local * HEAVY_TAIL < scales)
    wild[0] = False
    return np.where(wild, np.maximum(local, SMALLEST_SCALE * scales), scales)


def meets_white(problem: Problem, U: Float64[ndarray, "b d"]) -> Bool[ndarray, "b"]:
    """Tell which points meet every white constraint."""
    return np.asarray((White(problem, problem.white).values(U)[:, 1:] >= 0).all(1))
