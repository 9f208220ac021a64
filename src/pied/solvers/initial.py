"""The initial design: the first points of a study, the same for every solver with the same seed."""

import numpy as np
from numpy import ndarray

from pied.distances import to_nearest
from pied.errors import SolverDone
from pied.problem import SAME, Problem
from pied.rng import Stream
from pied.shapes import Float64

DESIGN_POOL = 10_000  # uniform points from which an initial design that meets the white constraints is taken
SETTLED_POOL = 512  # the same where equalities are met by moving points


def design_size(d: int) -> int:
    """Return the default size of the initial design of d variables, 2d + 1 (paper, table 3)."""
    return 2 * d + 1


def initial_point(
    problem: Problem, stream: Stream, index: int, *known: Float64[ndarray, "_ d"]
) -> Float64[ndarray, "d"]:
    """Return one point of the design: the one with this index, or the first candidate that is not known yet.

    Args:
        problem: The statement.
        stream: Randomness of the study.
        index: How many points of the design have been proposed.
        known: Points that were proposed or added; no candidate is repeated while others are left.

    Raises:
        SolverDone: If every candidate is known.
    """
    U = initial_design(problem, stream)
    if problem.listing is None:
        return U[index % len(U)]
    left = to_nearest(U, np.concatenate(known), "chebyshev") > SAME
    if not left.any():
        raise SolverDone("every point that can be set has been measured")
    return U[int(left.argmax())]


def initial_design(problem: Problem, stream: Stream) -> Float64[ndarray, "s d"]:
    """Return uniform points, or candidates in random order; those that meet the white constraints come first.

    A small grid is a list of candidates, and points are moved onto a large one. They are the same each time, so a
    design needs no state.
    """
    stream = stream.at("initial")
    if problem.listing is None:
        U = stream.uniform(SETTLED_POOL if problem.has_equalities else DESIGN_POOL, problem.d)
        U = problem.settled(U, stream.at("settled"))
        if problem.grid is not None:
            U = problem.grid.snapped(U)
            U = U[np.sort(np.unique(U, axis=0, return_index=True)[1])]
    else:
        order = stream.generator().permutation(len(problem.listing))
        U = problem.listing.U[order[:DESIGN_POOL]]
    white = problem.white
    if not white:
        return U
    G = np.stack(problem.g(problem.from_unit(U), np.zeros((1, len(U), problem.m)), which=white), -1)
    fine = (G >= 0).all(1)
    return np.concatenate([U[fine], U[~fine]])
