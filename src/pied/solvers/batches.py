"""Batches: which points a laboratory would call the same as a pending one, and when such a repetition is worth it.

Pending points are imagined at their mean (`bounds.believer`), so the search finds hardly any uncertainty beside them.
If their mean promises the most, it nevertheless ends there again: a few hundredths of a per cent away, where nothing is
left to learn.
"""

import numpy as np
from numpy import ndarray

from pied.bounds import Composite
from pied.gp import GP
from pied.problem import Problem
from pied.shapes import Bool, Float64

SAME_SETTINGS = 1e-3  # unit cube, every coordinate: nobody sets two points this near to each other on purpose
NEAR_SETTINGS = 1e-2  # such points are the same if the noise hides their difference
WORTH_REPEATING = 0.25  # share of an output's variance that a repetition must take away: at most three equal points
VISIBLE_WIDTH = 1e-3  # of a function's scale: bounds nearer to each other than this need no repetition


def same(
    problem: Problem, belief: GP, u: Float64[ndarray, "d"], pending: Float64[ndarray, "p d"]
) -> Bool[ndarray, "p"]:
    """Tell which pending points a laboratory would call the same as u.

    All settings are nearly equal, or they are near to each other and the outputs differ by less than the noise. Values
    of a grid differ if they are not equal, however small the step is: who states a step can set it.

    Args:
        problem: The statement.
        belief: With the pending points imagined, so that its deviation at u is what they leave open.
        u: A point of the unit cube.
        pending: Points that are being measured.
    """
    away, grid = np.abs(pending - u), problem.grid
    if problem.listing is not None or not len(pending):
        return (away < SAME_SETTINGS**2).all(1)
    if grid is not None:
        away = np.where(grid.is_discrete, np.where(grid.rows(pending) == grid.rows(u), 0.0, 1.0), away)
    near = (away < NEAR_SETTINGS).all(1)
    if near.any():
        noise = np.where(_is_noisy(problem), belief.noise_deviation(u[None])[0], 0.0)
        mean, deviation = belief.moments(np.concatenate([u[None], pending]))
        near &= ((np.abs(mean[1:] - mean[0]) < noise) & (deviation[0] < noise)).all(1)
    return near | (away < SAME_SETTINGS).all(1)


def is_worth_repeating(
    problem: Problem, belief: GP, composite: Composite, scales: Float64[ndarray, "k"], u: Float64[ndarray, "d"]
) -> bool:
    """Tell whether a pending point should be measured once more, to average out the noise.

    The bounds there stay visibly wide after the pending measurement, and a repetition would narrow them well.

    Args:
        problem: The statement.
        belief: With the pending points imagined.
        composite: The belief composed with g.
        scales: One scale per function.
        u: The pending point.
    """
    is_noisy = _is_noisy(problem)
    if not is_noisy.any() or not (composite.widths(u) > VISIBLE_WIDTH * scales).any():
        return False
    _, before = belief.moments(u[None])
    _, after = belief.imagine(u[None]).moments(u[None])
    taken = 1.0 - np.square(after[0] / before[0])
    return bool((taken[is_noisy] >= WORTH_REPEATING).any())


def _is_noisy(problem: Problem) -> Bool[ndarray, "m"]:
    """Which outputs are not exact."""
    return np.array([noise != 0 for noise in problem.noise])
