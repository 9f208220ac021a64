"""Likely: while no told point meets all limits, the point that is most likely to.

Bounds of a limit that is badly known are met everywhere, and the most optimistic of all points is at some corner of the
box, again and again. That no point can meet the limits is tested before.
"""

from pied.records import Why
from pied.search import Search
from pied.solvers.acquisition import incumbent
from pied.solvers.moves.base import Found, Move
from pied.solvers.moves.expected import expected
from pied.solvers.turn import Turn


class Likely(Move):
    """The largest probability that all limits hold: with noise, and by a simple belief."""

    name = "likely"
    evidence = "random problems with noise: better in 8 and worse in 2 of 36 runs at half of the budget"

    def propose(self, turn: Turn) -> Found | None:
        """Return the point most likely to meet all limits, where bounds are met and no point is known to."""
        if not self.is_due(turn) or (turn.problem.n and not turn.best.satisfied):
            return None
        return expected(turn), Why("feasibility")

    def is_due(self, turn: Turn) -> bool:
        """Whether no told point meets all limits, with noise in the median."""
        if turn.scene.is_simple:
            return not turn.is_known
        if turn.problem.is_exact or not isinstance(turn.scene.search, Search) or turn.is_waiting:
            return False
        return incumbent(turn.scene) is None
