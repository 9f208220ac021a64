"""What is expected of measurements at points, and what they can tell about a belief."""

import numpy as np
from numpy import ndarray

from pied.bounds import quantile
from pied.gp import GP
from pied.problem import Problem
from pied.shapes import Float64

Ends = tuple[Float64[ndarray, "b m"], Float64[ndarray, "b m"], Float64[ndarray, "b m"]]
"""Lower end, median and upper end of each output at each point."""


def predicted(
    problem: Problem, gp: GP, U: Float64[ndarray, "b d"], level: float, factor: Float64[ndarray, "m"] | float = 1.0
) -> Ends:
    """Return where measurements at points lie with the probability of the bounds, their noise included.

    Noise may carry a measurement out of the range that its output has, and nothing else may.
    """
    mean, deviation = gp.marginals(U)
    z, noise = quantile.normal(level) * factor, deviation_of_noise(problem, gp, U)
    away = z * np.hypot(deviation, noise)
    lowest, highest = problem.ranges.T
    middle = np.clip(gp.unwarp(mean), lowest, highest)
    beyond = np.nan_to_num(z * noise * np.abs(gp.unwarp_slopes(middle)))
    ends = [np.clip(gp.unwarp(mean + side * away), lowest - beyond, highest + beyond) for side in (-1.0, 1.0)]
    return np.minimum.reduce([*ends, middle]), middle, np.maximum.reduce([*ends, middle])


def telling(
    problem: Problem, gp: GP, U: Float64[ndarray, "b d"], pool: Float64[ndarray, "p d"]
) -> Float64[ndarray, "b m"]:
    """Return how much measurements at points can tell about the belief, from 0 to 1.

    Of a noisy output it is the share of the belief in their deviation, the rest being noise. Of an exact one it is the
    deviation in units of that at a usual point: beside told points a measurement tells nothing.

    Args:
        problem: The statement.
        gp: The belief.
        U: The points.
        pool: Points over the box.
    """
    deviation, noise = gp.marginals(U)[1], deviation_of_noise(problem, gp, U)
    usual = np.median(gp.marginals(pool)[1], 0) if problem.exact.any() else deviation
    whole = np.where(problem.exact, np.maximum(deviation, usual), np.hypot(deviation, noise))
    return np.where(whole > 0, deviation / np.where(whole > 0, whole, 1.0), 1.0)


def deviation_of_noise(problem: Problem, gp: GP, U: Float64[ndarray, "b d"]) -> Float64[ndarray, "b m"]:
    """Return the deviation of each output's noise at points on its warped scale: as stated, else as learned.

    Where readings are rounded it is that of rounding, or more.
    """
    stated = np.array([np.nan if each is None else each for each in problem.noise])
    is_rounded = np.zeros(problem.m, dtype=bool) if gp.steps is None else gp.steps > 0
    return np.where(np.isnan(stated) | is_rounded, gp.noise_deviation(U), stated)  # what has a stated one has no warp
