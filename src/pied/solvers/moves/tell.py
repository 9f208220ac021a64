"""Tell: with noise, a point that is known already is left for one whose measurement tells something.

An objective that is known exactly, at a point where all limits surely hold, is such an optimum. To measure there again
and again would teach nothing, and a belief that is wrong elsewhere would never be refuted.
"""

from dataclasses import replace

import numpy as np
from numpy import ndarray

from pied.bounds import telling
from pied.distances import to_nearest
from pied.records import Why
from pied.search import Optimum, Search
from pied.shapes import Float64
from pied.solvers.calendar import LOOK, is_turn
from pied.solvers.frame import USUAL_POINTS
from pied.solvers.moves.base import Found, Move
from pied.solvers.moves.improve import SETTLED_GAIN
from pied.solvers.moves.widen import WIDENINGS
from pied.solvers.turn import Turn

SETTLED_DISTANCE = 0.03  # unit cube: nothing is known, however sure the belief is, if no told point is this near
EXACT_WIDTH = 1e-9  # of the objective's scale: bounds that differ by less are one value
TELLING = 0.5  # what the belief leaves open has to be this share of a measurement's deviation
TELLING_WIDENINGS = (3.0, 10.0)  # factors of the deviations, tried in turn until such a measurement promises more


class Tell(Move):
    """Another point than the best one, where that is known."""

    name = "tell"
    evidence = "rough problems with noise: 20, 17 and 8 of 32 runs to 1e-2, 1e-3 and 1e-4, 18, 16 and 8 without"

    def propose(self, turn: Turn) -> Found | None:
        """Look where wider bounds promise a gain if the optimum found is certain, noise or not.

        One that is known well is measured on by turns: of a sum of squares, a thousandth of its range may be a poor
        fit. Nothing is certain at an edge beyond which there may be another regime, or where nothing was measured. This
        is left by turns, too: along a setting without influence, the optimum is anywhere.
        """
        best, scene = turn.best, turn.scene
        if turn.problem.is_exact or turn.is_waiting or not best.satisfied or not scene.is_surely_within(best.u):
            return None
        is_look = is_turn(LOOK, scene.number)
        if not is_look and not is_measured(turn, best.u):
            return None
        why = Why("widen", optimistic=turn.top(best), multipliers=best.multipliers)
        lower = scene.composite.values(best.u[None], [1.0 - turn.level] * turn.problem.k)[0]
        scale = float(scene.scales[0])
        least, width = SETTLED_GAIN * scale, float(best.f[0] - lower[0])
        if not width <= least or (lower[1:] < 0).any():
            other = where_it_tells(turn, best)
            return None if other is None else (other, why)
        if width > EXACT_WIDTH * scale and not is_look:
            return None
        for factor in WIDENINGS:
            other = turn.optimum(turn.widened(factor))
            if other.satisfied and other.f[0] - lower[0] > least:
                return other, why
        return replace(best, u=turn.run.spread_out(scene), active=()), replace(why, aim="spread")


def is_measured(turn: Turn, u: Float64[ndarray, "d"]) -> bool:
    """Whether something was measured at a point, or near to it in all that some output depends on."""
    seen = turn.problem.active.any(0)
    return not seen.any() or bool(to_nearest(u[None, seen], turn.scene.data.U[:, seen]).item() <= SETTLED_DISTANCE)


def where_it_tells(turn: Turn, best: Optimum) -> Optimum | None:
    """Return another point if a measurement would tell little but its noise, where wider bounds promise more than here.

    Verifications measure the best point anyway. Upper bounds that do so, too, leave no trial for what a belief that
    is too sure of itself overlooks. At an edge between regimes, measurements beside each other tell where it is.
    """
    scene, problem = turn.scene, turn.problem
    if not isinstance(scene.search, Search) or scene.has_regimes:
        return None
    pool = np.concatenate([best.u[None], scene.pool])
    used = sorted({output for function in problem.structure for output in function.outputs})
    share = telling(problem, scene.belief, pool, scene.pool[:USUAL_POINTS])[:, used]
    tells = share.max(1, initial=0.0) >= TELLING
    if tells[0]:
        return None
    if scene.success is not None:
        tells &= scene.success.is_likely(pool)
    for factor in TELLING_WIDENINGS:
        reach = turn.reach(pool, factor)
        promised = np.where(tells & (reach[:, 1:] >= 0).all(1), np.nan_to_num(reach[:, 0], nan=-np.inf), -np.inf)
        if promised.max() > reach[0, 0]:
            return replace(best, u=pool[promised.argmax()], active=())
    return None
