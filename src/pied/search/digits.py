"""Proposals with no more digits than their promised gain justifies.

The bounds of an exact black box are smooth to about ten digits, and a flat optimum to half as many. Digits beyond that
are decided by rounding errors, and differently in other units. So a proposal is moved to the coarsest grid of the unit
cube that costs only a small share of the gain it promises.
"""

from dataclasses import replace

import numpy as np
from numpy import ndarray

from pied.search.functions import Functions, Part, Sliced, Uncertain
from pied.search.local import best_feasible, ranked, solve_locally
from pied.search.optimum import Optimum
from pied.shapes import Bool, Float64, Int64

GRIDS = tuple(0.25**step for step in range(2, 16))  # spacings in the unit cube, coarse ones first
COST_LIMITS = (1e-8, 1e-4)  # scaled: what dropping digits may cost when nothing is uncertain, and at most


def with_fewer_digits(
    functions: Functions,
    scales: Float64[ndarray, "k"],
    best: Optimum,
    known: Float64[ndarray, "s d"],
    share: float,
    rounds: int,
) -> Optimum:
    """Return the optimum moved to the coarsest grid that costs at most a share of its gain.

    The coordinates that the black box depends on are moved; the others are then solved for again. A constraint that
    held still holds.

    Args:
        functions: The bounds; other functions keep all digits.
        scales: One search scale per function.
        best: The optimum with all digits.
        known: The points over which the gain is counted.
        share: Of the gain, and of the width of the bounds, that may be lost.
        rounds: Batched evaluations of the second solve at most.
    """
    if not isinstance(functions, Uncertain):
        return best
    f, slopes = functions.values_and_slopes(np.concatenate([best.u[None], known]))
    merit, _ = ranked(f / scales)
    cost = _affordable(functions, scales, best, float(merit[0] - merit[1:].max()), share)
    seen = functions.seen.nonzero()[0]
    if not cost > 0 or not len(seen):
        return best
    points = _on_grids(best, seen, _inward(best, slopes[0], scales)[seen])
    f, _ = functions.values_and_slopes(points)
    held = np.minimum(best.f[1:], 0.0)
    fine = (f[:, 1:] >= held).all(1) & (ranked(f / scales)[0] >= merit[0] - cost)
    if not fine.any():
        return best
    point = points[fine.argmax()]
    if len(seen) < len(functions.seen):
        point = _solve_the_rest(functions, scales, point, seen, rounds)
    return replace(best, u=point)


def _affordable(functions: Uncertain, scales: ndarray, best: Optimum, gain: float, share: float) -> float:
    """Return how much merit may be given up: a share of the gain, and of the width of the bounds within limits."""
    widths = functions.widths(best.u)
    width = float((widths / scales[: len(widths)]).max())
    least, most = COST_LIMITS
    return min(share * gain, max(share * width, least), most)


def _inward(best: Optimum, slopes: Float64[ndarray, "k d"], scales: ndarray) -> Float64[ndarray, "d"]:
    """Return, per coordinate, the sign of the direction that leads away from the active constraints."""
    tight = list(best.active)
    return np.sign((slopes[tight] / scales[tight, None]).sum(0))


def _on_grids(best: Optimum, seen: Int64[ndarray, "i"], inward: Float64[ndarray, "i"]) -> Float64[ndarray, "c d"]:
    """Return candidates, coarse ones first: on each grid the nearest point, and the next one inside the constraints."""
    u, grids = best.u[seen], np.array(GRIDS)[:, None]
    inside = np.where(inward > 0, np.ceil(u / grids), np.floor(u / grids))
    nearest = np.rint(u / grids)
    places = np.stack([nearest, np.where(inward == 0, nearest, inside)], 1) * grids[:, None]
    points = np.repeat(best.u[None], 2 * len(GRIDS), 0)
    points[:, seen] = np.clip(places.reshape(-1, len(seen)), 0.0, 1.0)
    return points


def _solve_the_rest(
    functions: Functions, scales: ndarray, u: Float64[ndarray, "w"], fixed: Int64[ndarray, "i"], rounds: int
) -> Float64[ndarray, "w"]:
    """Solve for all coordinates but the fixed ones."""
    free: Bool[ndarray, "w"] = np.ones(len(u), dtype=bool)
    free[fixed] = False
    part = Part(np.where(free, 0.0, u), np.where(free, 1.0, u))
    rest = Sliced(functions, part)
    found = best_feasible(rest, scales, [solve_locally(rest, scales, u[None, free], rounds)])
    return u if found is None else part.whole(found.u[None])[0]
