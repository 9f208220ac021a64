"""Shrink: less optimism where optimism has failed, after explorations that broke limits by far.

Where a limit is broken, its objective is often far better, and a rough output leaves room for hope everywhere. The most
optimistic point is then at some corner of the box that breaks the limit as all others there did, again and again. So
the deviations with which points are sought are halved by each exploration that broke a limit by far, and doubled again
by each that did not. With small deviations the search follows the edge that the median shows.
"""

import numpy as np

from pied.records import Dataset, Why
from pied.shapes import Float64
from pied.solvers.moves.base import Found, Move
from pied.solvers.moves.probe import LEAST_GAIN
from pied.solvers.turn import Turn

AIMS = ("explore", "improve", "widen")
"""Of the trials that count: verifications are careful anyway."""
FAR = 0.1
"""Of a limit's search scale: an accurate optimistic search breaks limits by less."""
LEAST = 0.125
"""Of the deviations of the belief."""


class Shrink(Move):
    """Smaller deviations, as long as they promise a gain."""

    name = "shrink"
    evidence = "problems of others: 29 of 64 rough runs to 1e-2, 24 without"

    def propose(self, turn: Turn) -> Found | None:
        """Return the best point by smaller deviations. Where there are regimes, their border is looked for instead.

        Nothing is recorded as reachable: smaller bounds say nothing of other points.
        """
        scene = turn.scene
        whole = scene.whole or scene
        if not (turn.problem.is_exact and turn.is_known) or scene.is_simple or scene.has_regimes or whole.has_regimes:
            return None
        by = factor(whole.data, whole.f, whole.scales)
        if by == 1.0:
            return None
        best = turn.optimum(turn.widened(by))
        if not best.satisfied or turn.promised(best) <= LEAST_GAIN * scene.scales[0] or turn.repeats(best.u):
            return None
        return best, Why("explore", multipliers=best.multipliers)


def factor(data: Dataset, f: Float64[np.ndarray, "N k"], scales: Float64[np.ndarray, "k"]) -> float:
    """Return by which factor deviations are multiplied where points are sought.

    Args:
        data: What was told. Points for an earlier question, or that were run elsewhere, do not count.
        f: Functions told there; NaN where they were not.
        scales: One search scale for each function.
    """
    broken, found = (-f[:, 1:] / scales[1:]).max(1, initial=0.0), 1.0
    others = {*data.moved, *data.earlier}
    for row, why in enumerate(data.whys):
        if why.aim in AIMS and np.isfinite(broken[row]) and data.numbers[row] not in others:
            found = max(0.5 * found, LEAST) if broken[row] > FAR else min(2.0 * found, 1.0)
    return found
