"""How well a belief explains what was told: an output that it explains badly is rough, or has regimes."""

import numpy as np
from numpy import ndarray

from pied.bounds import Believer
from pied.gp import GP
from pied.problem import Problem
from pied.records import Dataset, deviations
from pied.shapes import Bool, Float64

ROUGH_BELOW = 2.5  # nats a row, standardized (errors of 3 %): an output that is explained better is smooth enough
DOUBTED_BELOW = 5.0  # the same for an output beside a rough one, which may have the same regimes
SHOWN_ABOVE = 6.0  # the same (errors of 0.06 %): an output that is explained better has shown that it is smooth
ROUGHEST = "matern 3/2"  # the kernel that assumes least


def rough_limits(problem: Problem, believer: Believer, data: Dataset, belief: GP) -> Bool[ndarray, "m"]:
    """Tell which outputs of limits the belief about what was told explains badly."""
    limited = np.isin(np.arange(problem.m), [j for each in problem.structure[1:] for j in each.outputs])
    return limited & (explained(problem, believer, data, belief) < ROUGH_BELOW)


def assumes_smooth(problem: Problem, believer: Believer, data: Dataset, belief: GP) -> bool:
    """Whether some exact output that g uses is taken for smoother than the told values show.

    A ridge or a basin that no measurement came near leaves no trace in the others: they are then explained quite well
    by a smooth belief, which excludes it. Where the rest is explained to the last digits, that is to be believed.
    """
    used = np.isin(np.arange(problem.m), [j for each in problem.structure for j in each.outputs])
    is_smooth = np.array([choice.kernel != ROUGHEST for choice in belief.choices])
    doubted = used & is_smooth & problem.exact
    return bool((explained(problem, believer, data, belief)[doubted] < SHOWN_ABOVE).any())


def explained(problem: Problem, believer: Believer, data: Dataset, belief: GP) -> Float64[ndarray, "m"]:
    """Return the leave-one-out log density of each output on its scale, nats a row, in units of its deviation.

    A constant is explained.
    """
    belief = believer.of_told(problem, data, belief)
    deviation = deviations(belief.warped(data.Y))
    density = belief.density / np.maximum(belief.counted, 1) + np.log(np.where(deviation > 0, deviation, 1.0))
    return np.where(np.isfinite(density) & (deviation > 0), density, np.inf)
