"""Simple: a simple belief, and expectation instead of bounds, where the run's own predictions have been far off.

From few points of rough outputs the best of many models is an accident: it explains what was told and predicts nothing.
That shows at proposals, which are predicted before they are measured. Where objective and limits were both predicted
badly, upper bounds promise most at some corner of the box, again and again. There, points are sought by a simple
belief, which has little to be wrong about, and by what is to be expected of it. Where the objective is known, bounds
only guess whether limits hold, and one measurement answers that: they stay.
"""

from dataclasses import replace

import numpy as np

from pied.bounds import Believer, errors, rough_limits
from pied.problem import Problem
from pied.records import Dataset, Why
from pied.search import Search
from pied.solvers.moves.base import Found, Move
from pied.solvers.moves.expected import expected
from pied.solvers.turn import Turn

MISSED = 0.05  # deviations of an output over all that was told: predictions that miss by more in the median say little
LAST = 5  # predictions that count; verifications do not: they are made beside told points, where any belief is right


class Simple(Move):
    """One kernel, nothing but length scales to learn, and expected improvement."""

    name = "simple"
    evidence = "simulated batteries end 7.4 % and networks 0.5 % above the best, 15.9 and 1.4 without"

    def stage(self, turn: Turn) -> Turn:
        """Return the turn with a simple belief, in a box without regimes where predictions have been far off."""
        scene, problem, believer = turn.scene, turn.problem, turn.run.settings.believer
        if turn.is_in_regimes or not problem.is_exact or not isinstance(scene.search, Search):
            return turn
        told = believer.of_told(problem, scene.data, scene.told)
        if not rough_limits(problem, told, scene.data.Y).any() or not is_misled(problem, scene.data):
            return turn
        other = turn.run.scene(scene.number, scene.data, None, scene.stream, simple(believer))
        return replace(turn, scene=replace(other, whole=scene, is_simple=True))

    def propose(self, turn: Turn) -> Found | None:
        """Return the point of the largest expected improvement by the simple belief."""
        return (expected(turn), Why("improve")) if turn.scene.is_simple and turn.is_known else None


def is_misled(problem: Problem, data: Dataset) -> bool:
    """Whether the last predictions of outputs of the objective, and of outputs of limits, were far off."""
    missed = [error for row, error in errors(problem, data).items() if data.whys[row].aim != "verify"][-LAST:]
    objective, *limits = problem.structure
    groups = [sorted(objective.outputs), sorted({j for each in limits for j in each.outputs})]
    if not missed or not all(groups):
        return False
    return all(np.median([error[group].max() for error in missed]) > MISSED for group in groups)


def simple(usual: Believer) -> Believer:
    """Return how a simple belief is made: one kernel, and nothing but length scales to learn."""
    model = replace(
        usual.model,
        kernels=("matern 5/2",),
        trends=("constant",),
        warps=("none",),
        scales=("plain",),
        waves=False,
        plateaus=False,
    )
    return replace(usual, model=model)
