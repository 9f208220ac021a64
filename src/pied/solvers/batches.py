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
NEAR_SETTINGS = 1e-2  # how far apart exact points are, if that leaves any
FAR_SETTINGS = 0.1  # points that differ by more in some coordinate are two, whatever the noise hides
TOLD_APART = 1.0  # of the noise: what two points differ by, as far as is known, so that a measurement shows it
KNOWN = 1e-6  # of the noise variance: what is left of it at a pending point for the question what another one adds
WORTH_REPEATING = 0.25  # share of an output's variance that a repetition must take away: at most three equal points
VISIBLE_WIDTH = 1e-3  # of a function's scale: bounds nearer to each other than this need no repetition


def same(
    problem: Problem, told: GP, U: Float64[ndarray, "b d"], pending: Float64[ndarray, "p d"]
) -> Bool[ndarray, "b p"]:
    """Tell which points a laboratory would call the same as which pending ones.

    All settings are nearly equal, or they are not far from each other and noise hides the difference: of every output,
    the means differ by less, and so does what is open at the one once the other is known. Labels differ if they are not
    equal, and values of a list or a step of exact outputs, however small the step is: who states it can set it.

    Args:
        problem: The statement.
        told: The belief from what was told.
        U: Points of the unit cube.
        pending: Points that are being measured.
    """
    away, grid = np.abs(U[:, None] - pending), problem.grid
    if problem.listing is not None or not len(pending):
        equal = (away < SAME_SETTINGS**2).all(2)
    elif grid is not None:
        is_other = grid.is_discrete & (grid.rows(U)[:, None] != grid.rows(pending))
        equal = np.where(is_other, False, away < SAME_SETTINGS).all(2)
    else:
        equal = (away < SAME_SETTINGS).all(2)
    is_label = np.array([axis.is_choice for axis in problem.axes.values()])
    near = (np.where(is_label, np.where(away > 0, np.inf, 0.0), away) < FAR_SETTINGS).all(2)
    rows = np.flatnonzero(np.any(near, 1))
    if not len(rows) or problem.is_exact:
        return equal
    hidden = np.zeros_like(equal)
    hidden[rows] = _is_hidden(problem, told, U[rows], pending)
    return equal | (near & hidden)


def _is_hidden(
    problem: Problem, told: GP, U: Float64[ndarray, "b d"], pending: Float64[ndarray, "p d"]
) -> Bool[ndarray, "b p"]:
    """Tell between which points and pending ones the noise of every output hides the difference."""
    least = TOLD_APART * np.where(problem.exact, 0.0, told.noise_deviation(U))
    mean, expected = told.moments(U)[0], told.moments(pending)[0]
    _, left = told.imagine(pending, noise=KNOWN).marginals(U)
    return ((np.abs(mean[:, None] - expected) < least[:, None]) & (left < least)[:, None]).all(2)


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
    if problem.is_exact or not (composite.widths(u) > VISIBLE_WIDTH * scales).any():
        return False
    _, before = belief.marginals(u[None])
    _, after = belief.imagine(u[None]).marginals(u[None])
    taken = 1.0 - np.square(after[0] / before[0])
    return bool((taken[~problem.exact] >= WORTH_REPEATING).any())
