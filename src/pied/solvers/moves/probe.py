"""Probe: where an exact black box promises hardly any gain, the belief is tested beside the best point.

If the belief improves towards a bound of the box, the search proposes points on that bound only. The slope there is
then extrapolated from distant points, and no proposal can refute it: a point a small step off the bound tests it. On a
grid no gradual step leads to the next setting: one that the belief is wrongly certain about is never proposed.
"""

from dataclasses import replace

import numpy as np
from numpy import ndarray

from pied.bounds import White, optimistic
from pied.records import Why
from pied.search import Mixed
from pied.shapes import Bool, Float64
from pied.solvers.frame import meets_white
from pied.solvers.moves.base import Found, Move
from pied.solvers.turn import Turn

LEAST_GAIN = 1e-5  # of the objective's scale: a smaller promised gain is hardly any
PROBE_STEP = 2.0**-7  # unit cube, off the bound: far enough to measure a slope, near enough to belong to the best point
NEAR_BEST = 2.0 * PROBE_STEP  # in every coordinate: a nearer point, half a step off the bound, serves as the probe
ON_BOUND = PROBE_STEP / 4  # a nearer coordinate lies on its bound


class Probe(Move):
    """A step off the box bounds that the best point lies on, or the settings beside its own."""

    name = "probe"
    evidence = "Dolan: 7 of ten runs to 1e-6, 2 without; a hundred random problems: 3 better, 17 worse"

    def propose(self, turn: Turn) -> Found | None:
        """Return the missing probe that is best by its median; the upper bound is not recorded before it is tested."""
        problem = turn.problem
        if not problem.is_exact or turn.is_waiting:
            return None
        is_stuck = problem.grid is not None and turn.repeats(turn.best.u)
        if turn.gain > LEAST_GAIN * turn.scene.scales[0] and not is_stuck:
            return None
        u = _off_bounds(turn)
        u = _beside(turn) if u is None else u
        if u is None:
            return None
        return replace(turn.best, u=u, active=()), Why("probe", multipliers=turn.best.multipliers)


def _off_bounds(turn: Turn) -> Float64[ndarray, "d"] | None:
    """Return the best probe off a box bound that the best told point and all points near it lie on."""
    scene, problem = turn.scene, turn.problem
    if problem.listing is not None:
        return None
    proposed = np.concatenate([scene.data.U, scene.data.imagined])
    best = scene.known[:1]
    seen, grid = np.asarray(problem.active.any(0)) & problem.is_free, problem.grid
    if grid is not None:
        seen, best = seen & ~grid.is_discrete, grid.snapped(best)
    points = off_bounds(best[0], proposed, seen)
    white = White(problem, problem.white).values(np.concatenate([best, points]))[:, 1:]
    points = points[(white[1:] >= np.minimum(white[0], 0.0)).all(1)]  # rounding may put the best point just outside
    if scene.success is not None and len(points):
        points = points[scene.success.is_likely(points)]
    if not len(points):
        return None
    return points[scene.composite.values(points, [0.5] * problem.k)[:, 0].argmax()]


def _beside(turn: Turn) -> Float64[ndarray, "d"] | None:
    """Return the best point by median of a setting next to that of the best told point, if nothing was told there."""
    scene, problem = turn.scene, turn.problem
    if not isinstance(scene.within, Mixed):
        return None
    search = scene.within

    def is_allowed(U: Float64[ndarray, "b d"]) -> Bool[ndarray, "b"]:
        fine = meets_white(problem, U)
        return fine if search.allowed is None else fine & search.allowed(U)

    best = search.grid.snapped(scene.known[0])
    tried = np.concatenate([scene.data.U, scene.data.imagined])
    median = optimistic(scene.composite, 0.5)
    seen = np.asarray(problem.active.any(0)) & problem.is_free
    found = replace(search, allowed=is_allowed).beside(median, scene.scales, best, tried, seen)
    return found.u if found is not None and bool(is_allowed(found.u[None]).all()) else None


def off_bounds(
    u: Float64[ndarray, "d"], proposed: Float64[ndarray, "N d"], seen: Bool[ndarray, "d"]
) -> Float64[ndarray, "p d"]:
    """Return the missing probes of u: each is one step off a bound on which u and all points near u lie.

    Args:
        u: A point of the unit cube.
        proposed: Points that were told, are pending, or failed.
        seen: Which variables some output depends on; the others need no probe.
    """
    near = proposed[(np.abs(proposed - u) <= NEAR_BEST).all(1)]
    is_on_bound = np.minimum(u, 1.0 - u) < ON_BOUND
    is_varied = (np.abs(near - u) >= PROBE_STEP / 2).any(0)
    which = (is_on_bound & ~is_varied & seen).nonzero()[0]
    moved = np.tile(u, (len(which), 1))
    moved[np.arange(len(which)), which] += np.where(u[which] < 0.5, PROBE_STEP, -PROBE_STEP)
    return moved
