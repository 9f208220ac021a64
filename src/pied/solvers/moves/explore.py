"""Explore: the maximum of the upper bound, line 5 of Algorithm 1. It always applies, so it comes last."""

from pied.records import Why
from pied.solvers.moves.base import Found, Move
from pied.solvers.turn import Turn


class Explore(Move):
    """The most optimistic point."""

    name = "explore"
    evidence = "the method of the paper"

    def propose(self, turn: Turn) -> Found | None:
        """Return the maximum of the upper bound."""
        best = turn.best
        return best, Why("explore", optimistic=turn.top(best), multipliers=best.multipliers)
