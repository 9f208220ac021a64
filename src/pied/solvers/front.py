"""CUQB for several objectives: propose where the optimistic front exceeds the told one by the largest volume.

All objectives have the same bounds as one objective has. A point is worth the hypervolume by which its upper bounds
would let the front of the told feasible points grow, subject to the upper bounds of the constraints. Every so-many-th
trial uses medians of the objectives and lower bounds of the constraints instead, and so verifies; so does every trial
for which that promises nearly as much.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import numpy as np
from numpy import ndarray

from pied.bounds import Bounds, Composite, Joint, Widened, is_shared, quantile
from pied.errors import SettingError
from pied.hypervolume import nondominated
from pied.problem import Problem
from pied.records import Dataset, Why, feasible, spread
from pied.rng import Stream
from pied.search import VIOLATION_WEIGHT, Enumeration, Functions, Mixed, Optimum, PenaltySearch, Refined, Search
from pied.shapes import Bool, Float64
from pied.solvers.calendar import FRONT_END, is_turn
from pied.solvers.frame import INCUMBENTS, VERIFIED_GAIN, BayesRun, Settings
from pied.solvers.frontier import End, Frontier
from pied.solvers.infeasibility import JointTest, single_margin
from pied.solvers.scene import Scene

WIDEN_BELOW_WORTH = 1e-3  # of the extent of the front: a smaller promise than this is looked for with wider bounds
WIDENINGS = (2.0, 3.0)  # factors of the deviations, tried in turn until the bounds promise a growth
STARTS = 2 * INCUMBENTS  # points of the front that clouds and local solves start from
WORTHWHILE_END = 0.01  # of the front's extent: an end that promises less is not sought
NEARLY = 0.9  # of the worth that upper bounds promise: with so much of it for sure, nothing has to be explored
POOL_POINTS = 2048  # points of the pool, at most, that show how far the front reaches
LEAST_NORM = 1e-300  # avoids division by zero


@dataclass(frozen=True, eq=False)
class Growing:
    """Functions of a search: what a point is worth for a front, then the constraints."""

    functions: Functions
    """Bounds of all functions of `Problem.side_by_side`, or all of them over points and outcomes."""
    frontier: Frontier | End
    goals: tuple[int, ...]
    """Places of the objectives among them."""
    limits: tuple[int, ...]
    """Places of the constraints."""

    @property
    def k(self) -> int:
        """Number of functions."""
        return 1 + len(self.limits)

    @property
    def white(self) -> tuple[int, ...]:
        """Positions of the constraints that are known exactly."""
        return tuple(place for place, i in enumerate(self.limits, 1) if i in self.functions.white)

    def coarse(self) -> "Growing | None":
        """Return the same from cheaper bounds, if there are any."""
        cheaper = self.functions.coarse() if isinstance(self.functions, Refined) else None
        return None if cheaper is None else replace(self, functions=cheaper)

    def values(self, U: Float64[ndarray, "b d"]) -> Float64[ndarray, "b k"]:
        """Return all functions, fast, for screening."""
        f = self.functions.values(U)
        return np.column_stack([self.frontier.worth(f[:, list(self.goals)]), f[:, list(self.limits)]])

    def values_and_slopes(
        self, U: Float64[ndarray, "b d"]
    ) -> tuple[Float64[ndarray, "b k"], Float64[ndarray, "b k d"]]:
        """Return all functions and their slopes."""
        f, J = self.functions.values_and_slopes(U)
        worth, slopes = self.frontier.worth_and_slopes(f[:, list(self.goals)])
        by_u = (slopes[:, None] @ J[:, list(self.goals)])[:, 0]
        return (
            np.column_stack([worth, f[:, list(self.limits)]]),
            np.concatenate([by_u[:, None], J[:, list(self.limits)]], 1),
        )


@dataclass(frozen=True, eq=False)
class Sight:
    """What is known of the front at the start of one iteration."""

    composite: Composite
    """Bounds of all objectives and constraints."""
    frontier: Frontier | End
    scales: Float64[ndarray, "k"]
    """Of the constraints after a 1, which is the scale of what a point is worth."""


def told_front(
    problem: Problem, data: Dataset, composite: Composite
) -> tuple[Float64[ndarray, "N r"], Bool[ndarray, "N"]]:
    """Return the objectives at the told points, and which of the points are feasible.

    With noise these are medians, because the best told values are biased by luck.

    Args:
        problem: The statement.
        data: The told values.
        composite: Bounds of `problem.side_by_side`.
    """
    whole = problem.side_by_side
    if problem.is_exact or not len(data.U):
        f = data.functions(whole)
        fine = feasible(problem, f[:, : problem.k]) & np.isfinite(f).all(1)
    else:
        f = composite.values(data.U, [0.5] * whole.k)
        fine = (f[:, 1 : problem.k] >= 0).all(1) & np.isfinite(f).all(1) & data.complete
    return f[:, problem.goal_places], fine


def expected_front(
    problem: Problem, composite: Composite, pool: Float64[ndarray, "b d"]
) -> tuple[Float64[ndarray, "e r"], Float64[ndarray, "r"]]:
    """Return the best medians over a pool where the constraints are met in the median, and the objectives' scales."""
    f = composite.values(pool[-POOL_POINTS:], [0.5] * composite.problem.k, screening=True)
    P = f[:, problem.goal_places]
    fine = (f[:, 1 : problem.k] >= 0).all(1) & np.isfinite(P).all(1)
    P = P[fine]
    return P[nondominated(P)], spread(f)[problem.goal_places]


@runtime_checkable
class FrontSettings(Settings, Protocol):
    """What a run needs of the settings of `CUQB`."""

    @property
    def verdict(self) -> str:
        """How feasibility is tested."""

    @property
    def moves(self) -> tuple[str, ...]:
        """The moves, of which a run for a front has "verify", "widen" and "feasible"."""

    @property
    def joint(self) -> bool:
        """Whether functions share one outcome."""


class FrontRun(BayesRun):
    """One run of CUQB on a problem of several objectives."""

    def __init__(self, settings: FrontSettings, problem: Problem, stream: Stream) -> None:
        if isinstance(settings.search, PenaltySearch):
            raise SettingError("the method as published has one objective: take solver 'cuqb' for several")
        super().__init__(settings, problem, stream)
        self._own = settings

    def _incumbents(
        self, data: Dataset, f: Float64[ndarray, "N k"], is_feasible: Bool[ndarray, "N"]
    ) -> Float64[ndarray, "s d"]:
        """Return points spread over the told front; while there is none, the least violated ones."""
        goals = data.functions(self.problem.side_by_side)[:, self.problem.goal_places]
        front = np.flatnonzero(nondominated(np.where(is_feasible[:, None], goals, np.nan)))
        if not len(front):
            return super()._incumbents(data, f, is_feasible)
        order = front[goals[front, 0].argsort(kind="stable")]
        chosen = np.unique(np.linspace(0, len(order) - 1, min(STARTS, len(order))).round().astype(int))
        return np.clip(data.U[order[chosen]], 0.0, 1.0)

    def _beyond(self, scene: Scene, sight: Sight) -> Optimum | None:
        """Return the point at which one objective could be better than at the front's end; None if hardly better.

        The reference point lies just below the told front, so what a point far beyond its end would add is hardly
        counted in hypervolume, and an end that the pool misses would never be found.
        """
        turn = scene.number - self.initial - 1
        frontier = sight.frontier
        if turn < 0 or not is_turn(FRONT_END, turn) or not isinstance(frontier, Frontier) or not len(frontier.F):
            return None
        place = turn // FRONT_END % len(self.problem.objectives)
        end = replace(sight, frontier=End.of(frontier, place))
        best, hoped = largest_growth(
            self.problem, end, self.level, scene.within, scene.pool, scene.known, scene.stream.at("end"),
            joint=self._own.joint,
        )  # fmt: skip
        gain = (hoped[place] - frontier.F[:, place].max()) / frontier.extent[place]
        if not best.satisfied or gain <= WORTHWHILE_END:
            return None
        sure = self._surely(scene, best, end)
        if sure is not None:
            found = sight.composite.values(sure.u[None], [0.5] * sight.composite.problem.k)[0, self.problem.goal_places]
            is_as_good = found[place] - frontier.F[:, place].max() >= NEARLY * gain * frontier.extent[place]
            best = sure if is_as_good else best
        return None if self.repeats(scene, best.u) else best

    def _sight(self, scene: Scene, *, of_told: bool = False) -> Sight:
        """Look at the front: what was told, what is pending at its median, and how far it reaches."""
        problem, believer = self.problem, self._own.believer
        belief = scene.told if of_told else scene.belief
        composite = believer.bound(problem.side_by_side, scene.data, belief, scene.stream)
        values, fine = told_front(problem, scene.data, composite)
        expected, scales = expected_front(problem, composite, scene.pool)
        frontier = Frontier.of(values[fine], expected, scales)
        if len(scene.data.pending):
            f = composite.values(scene.data.pending, [0.5] * composite.problem.k)
            hoped = (f[:, 1 : problem.k] >= 0).all(1) & np.isfinite(f).all(1)
            frontier = frontier.with_points(f[hoped][:, problem.goal_places])
        return Sight(composite, frontier, np.concatenate([[1.0], scene.scales[1:]]))

    def _verifies(self, number: int) -> bool:
        return "verify" in self._own.moves and super()._verifies(number)

    def _verify(self, scene: Scene, *, rescue: bool) -> Optimum:
        return self._verified(scene, self._sight(scene, of_told=True), rescue=rescue)

    def _verified(self, scene: Scene, sight: Sight, *, rescue: bool) -> Optimum:
        """Return the point with the best worth by medians that meets all constraints by their lower bounds."""
        k = self.problem.k
        levels: list[float | None] = [0.5] * sight.composite.problem.k
        levels[1:k] = [1.0 - self.level] * (k - 1)
        functions = growing(self.problem, Bounds(sight.composite, tuple(levels)), sight)
        stream = scene.stream.at("verify")
        return scene.within.solve(functions, sight.scales, scene.pool, scene.known, stream, rescue=rescue)

    def _is_verified(self, scene: Scene, best: Optimum) -> bool:
        return self.problem.grid is not None and self.problem.is_exact and bool(best.f[0] <= VERIFIED_GAIN)

    def _narrow(self, scene: Scene) -> Float64[ndarray, "d"] | None:
        return None  # pending points are on the front already, at their medians

    def _explore(self, scene: Scene) -> tuple[Optimum, Why]:
        sight = self._sight(scene)
        beyond = self._beyond(scene, sight)
        if beyond is not None:
            return beyond, Why("explore")
        best, why = self._optimistic(scene, sight), Why("explore")
        can_widen = "widen" in self._own.moves and self.problem.is_exact and bool(scene.is_feasible.any())
        for factor in WIDENINGS if can_widen and not len(scene.data.pending) else ():
            if not best.satisfied or (best.f[0] > WIDEN_BELOW_WORTH and not self.repeats(scene, best.u)):
                break
            wide = self._own.believer.bound(
                self.problem.side_by_side, scene.data, Widened(scene.belief, factor), scene.stream
            )
            best, why = self._optimistic(scene, replace(sight, composite=wide)), Why("widen")
        if bool(scene.is_feasible.any()) or self.problem.n == 0:
            sure = self._surely(scene, best, self._sight(scene, of_told=True))
            is_as_good = sure is not None and sure.f[0] >= NEARLY * best.f[0]
            return (sure, Why("verify")) if sure is not None and is_as_good else (best, why)
        if "feasible" not in self._own.moves:
            return best, why
        if self._own.verdict == "single":
            margin = single_margin(scene, self.levels)
            return best, replace(why, margin=margin if margin < 0 else None)
        test = JointTest(self.problem, self._own.believer, self.level, scene, self.stream)
        return test.judge(best, why) or (best, why)

    def _surely(self, scene: Scene, best: Optimum, sight: Sight) -> Optimum | None:
        """Return the best point that surely meets the limits, where the best one lies at their upper bounds; else None.

        There most measurements just break a limit. One best point is verified once in a while; of a front every point
        has to be, and no limit is in doubt where the sure growth is nearly the hoped one.
        """
        is_at_limit = any(i not in self.problem.white for i in best.active)
        if not (self.problem.is_exact and best.satisfied and is_at_limit):
            return None
        sure = self._verified(scene, sight, rescue=False)
        return sure if sure.satisfied and not self.repeats(scene, sure.u) else None

    def _optimistic(self, scene: Scene, sight: Sight) -> Optimum:
        """Maximize the growth that the upper bounds promise: over joint outcomes if possible, else each alone."""
        best, _ = largest_growth(
            self.problem, sight, self.level, scene.within, scene.pool, scene.known, scene.stream.at("explore"),
            joint=self._own.joint,
        )  # fmt: skip
        return best


def growing(problem: Problem, functions: Functions, sight: Sight) -> Growing:
    """Return what points are worth, and the constraints, from bounds of all functions."""
    return Growing(functions, sight.frontier, tuple(problem.goal_places), tuple(range(1, problem.k)))


def largest_growth(
    problem: Problem,
    sight: Sight,
    level: float,
    search: Search | Enumeration | Mixed | PenaltySearch,
    pool: Float64[ndarray, "b d"],
    known: Float64[ndarray, "s d"],
    stream: Stream,
    *,
    joint: bool = True,
) -> tuple[Optimum, Float64[ndarray, "r"]]:
    """Search the point for which the front grows most by the upper bounds; return it and the objectives hoped for.

    Args:
        problem: The statement.
        sight: Bounds and front.
        level: p of the bounds.
        search: How the subproblem is solved.
        pool: Points to screen.
        known: Good points to start from.
        stream: Randomness of the search.
        joint: Whether functions of the same outputs share one outcome.
    """
    if joint and is_shared(sight.composite) and isinstance(search, Search):
        best, hoped = _over_outcomes(problem, sight, level, search, pool, known, stream)
        if best.satisfied or not sight.composite.offers(level):
            return best, hoped
    bounds = Bounds(sight.composite, (level,) * sight.composite.problem.k)
    best = search.solve(growing(problem, bounds, sight), sight.scales, pool, known, stream)
    return best, sight.composite.values(best.u[None], bounds.levels)[0, problem.goal_places]


def _over_outcomes(
    problem: Problem,
    sight: Sight,
    level: float,
    search: Search,
    pool: Float64[ndarray, "b d"],
    known: Float64[ndarray, "s d"],
    stream: Stream,
) -> tuple[Optimum, Float64[ndarray, "r"]]:
    """Search a point and one outcome that is plausible there.

    Points of the pool are paired with the outcomes that improve all objectives together, and with outcomes that improve
    a random mixture of them.
    """
    joint, d, k = Joint(sight.composite, quantile.normal(level)), problem.d, problem.k
    limits = (*range(1, k), joint.k - 1)
    functions = Growing(joint, sight.frontier, tuple(problem.goal_places), limits)
    r = len(problem.objectives)
    drawn = stream.at("mixtures").uniform(len(pool), r)
    pairs = np.concatenate(
        [
            lifted(problem, sight, joint, pool, np.ones((len(pool), r))),
            lifted(problem, sight, joint, pool, drawn / drawn.sum(1, keepdims=True)),
        ]
    )
    starts = lifted(problem, sight, joint, known, np.ones((len(known), r))) if len(known) else pairs[:0]
    scales = np.concatenate([sight.scales, [1.0]])
    best = search.solve(functions, scales, pairs, starts, stream, rescue=False)
    hoped = joint.values(best.u[None])[0, problem.goal_places]
    return replace(best.of_first(k), u=best.u[:d]), hoped


@np.errstate(all="ignore")
def lifted(
    problem: Problem,
    sight: Sight,
    joint: Joint,
    U: Float64[ndarray, "b d"],
    weights: Float64[ndarray, "b r"],
) -> Float64[ndarray, "b w"]:
    """Pair points with the boundary outcome that most improves a mixture of the objectives and broken constraints."""
    m, k = problem.m, problem.k
    f, _, by_xi = sight.composite.outcomes_and_slopes(U, np.zeros((len(U), m)))
    broken = (f[:, 1:k] < 0) / sight.scales[1:]
    goals = by_xi[:, problem.goal_places] / sight.frontier.extent[:, None]
    merit = (weights[:, :, None] * goals).sum(1)
    merit = merit + VIOLATION_WEIGHT * (broken[:, :, None] * by_xi[:, 1:k]).sum(1)
    xi = merit / np.maximum(np.sqrt((merit * merit).sum(1, keepdims=True)), LEAST_NORM)
    return np.concatenate([U, 0.5 + 0.5 * xi], 1)


def possible_front(
    problem: Problem,
    sight: Sight,
    level: float,
    pool: Float64[ndarray, "b d"],
) -> Float64[ndarray, "p r"]:
    """Return the front of what points of a pool could reach at the upper bounds where limits may be met."""
    composite = sight.composite
    if is_shared(composite):
        joint = Joint(composite, quantile.normal(level))
        r = len(problem.objectives)
        corners: Sequence[ndarray] = [np.ones(r), *(np.eye(r) + 1e-3)]
        pairs = [lifted(problem, sight, joint, pool, np.tile(corner, (len(pool), 1))) for corner in corners]
        f = np.concatenate([joint.values(each) for each in pairs])
    else:
        f = composite.values(pool, [level] * composite.problem.k, screening=True)
    P = f[:, problem.goal_places]
    P = P[(f[:, 1 : problem.k] >= 0).all(1) & np.isfinite(P).all(1)]
    return P[nondominated(P)]
