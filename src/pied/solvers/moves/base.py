"""What a move is."""

from abc import ABC
from typing import ClassVar

from pied.records import Why
from pied.search import Optimum
from pied.solvers.turn import Turn

Found = tuple[Optimum, Why]
"""The point to propose, and why."""


class Move(ABC):
    """One way to choose the next point.

    First each move may choose the part of what is known in which the next point is sought (`stage`); then the moves are
    asked for a point, in their order, and the first that has one proposes it (`propose`).
    """

    name: ClassVar[str]
    """By which `CUQB.moves` lists it."""
    evidence: ClassVar[str]
    """Where it pays, in a line."""

    def stage(self, turn: Turn) -> Turn:
        """Return the turn with the part of what is known in which points are sought; by default all of it."""
        return turn

    def propose(self, turn: Turn) -> Found | None:
        """Return a point, or None where the move does not apply."""
        return None
