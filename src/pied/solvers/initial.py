"""The initial design: the points that every solver with the same seed begins with."""

import torch
from jaxtyping import Float64
from torch import Tensor

from pied.errors import SolverDone
from pied.problem import SAME, Problem
from pied.rng import Stream

DESIGN_POOL = 10_000  # points among which an initial design that honours white constraints is looked for


def initial_point(problem: Problem, stream: Stream, index: int, *known: Float64[Tensor, "_ d"]) -> Float64[Tensor, "d"]:
    """Return one point of the design: in a box the index-th, of a list the first that is not known yet.

    Args:
        problem: The statement.
        stream: Of the study.
        index: How many points of the design have been asked.
        known: Points that were asked or added; a candidate is not measured again while others are left.

    Raises:
        SolverDone: When every candidate is known.
    """
    U = initial_design(problem, stream)
    if problem.candidates is None:
        return U[index]
    left = (torch.cdist(U, torch.cat(known), p=torch.inf) > SAME).all(1)
    if not bool(left.any()):
        raise SolverDone("every candidate has been measured")
    return U[int(left.to(torch.int8).argmax())]


def initial_design(problem: Problem, stream: Stream) -> Float64[Tensor, "s d"]:
    """Return uniform points of the unit cube, or candidates in random order; first those that honour white constraints.

    They are the same each time, so that a design has no state.
    """
    stream = stream.at("initial")
    if problem.candidates is None:
        U = stream.uniform(DESIGN_POOL, problem.d)
    else:
        order = stream.generator().permutation(len(problem.candidates))
        U = problem.candidates.U[torch.from_numpy(order[:DESIGN_POOL])]
    white = problem.white
    if not white:
        return U
    Y = torch.zeros(1, len(U), problem.m, dtype=torch.float64)
    G = torch.stack(problem.g(problem.from_unit(U), Y, which=white), -1)
    fine = (G >= 0).all(1)
    return torch.cat([U[fine], U[~fine]])
