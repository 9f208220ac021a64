"""Widen: where bounds promise no gain over the best told value of an exact black box, they are widened.

Such a belief is either right or over-confident.
"""

from dataclasses import replace

from pied.records import Why
from pied.solvers.moves.base import Found, Move
from pied.solvers.turn import Turn

LEAST_GAIN = 1e-7  # of the objective's scale: below this promised gain, search with wider bounds
WIDENINGS = (2.0, 3.0)  # factors of the deviations, tried in turn until the bounds promise a gain


class Widen(Move):
    """Wider bounds, by factors in turn."""

    name = "widen"
    evidence = "4 of 120 random runs need fewer evaluations, 2 more"

    def propose(self, turn: Turn) -> Found | None:
        """Return the best point by wider bounds, where those at the level promise nothing."""
        if not turn.problem.is_exact or not turn.is_known or turn.is_waiting:
            return None
        best, gain, why = turn.best, turn.gain, None
        for factor in WIDENINGS:
            if not best.satisfied or (gain > LEAST_GAIN * turn.scene.scales[0] and not turn.repeats(best.u)):
                break
            best = turn.optimum(turn.widened(factor))
            gain, why = turn.promised(best), Why("widen", optimistic=turn.top(turn.best))
        return None if why is None else (best, replace(why, multipliers=turn.best.multipliers))
