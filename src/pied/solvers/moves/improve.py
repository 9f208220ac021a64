"""Improve: with noise, half of the trials go to the point of the largest expected improvement.

Upper bounds of noisy outputs fall slowly where they are measured: they would measure one point again and again before
they look elsewhere. Some told point has to meet all limits in the median: bounds are then met there as well, and no
verdict waits.
"""

from pied.records import Why
from pied.search import Search
from pied.solvers.acquisition import incumbent
from pied.solvers.calendar import IMPROVE
from pied.solvers.moves.base import Found, Move
from pied.solvers.moves.expected import expected
from pied.solvers.turn import Turn

SETTLED_GAIN = 1e-3  # of the objective's scale: an optimum whose bounds differ by less is known


class Improve(Move):
    """Expected improvement by turns."""

    name = "improve"
    evidence = "random problems with noise: best point better in 15 and worse in 2 of 45 runs, recommended 9 and 5"

    def propose(self, turn: Turn) -> Found | None:
        """Return the point of the largest expected improvement, unless it is known already."""
        if not self.is_due(turn):
            return None
        found = expected(turn)
        return None if turn.is_certain(found.u, SETTLED_GAIN) else (found, Why("improve"))

    def is_due(self, turn: Turn) -> bool:
        """Whether it is its turn."""
        scene = turn.scene
        if turn.problem.is_exact or not isinstance(scene.search, Search):
            return False
        is_turn = float(scene.stream.at("turn").uniform(1)[0]) >= IMPROVE
        return is_turn and not scene.has_regimes and incumbent(scene) is not None
