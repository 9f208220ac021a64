"""The initial design: the points that every solver with the same seed begins with."""

import torch
from jaxtyping import Float64
from torch import Tensor

from pied.problem import Problem
from pied.rng import Stream

DESIGN_POOL = 10_000  # uniform points among which an initial design that honours white constraints is looked for


def initial_design(problem: Problem, stream: Stream, size: int) -> Float64[Tensor, "size d"]:
    """Return uniform points of the unit cube that honour the white constraints, as far as such points are found."""
    U = stream.at("initial").uniform(DESIGN_POOL, problem.d)
    white = tuple(i for i in range(1, problem.k) if problem.structure[i].kind == "white")
    if not white:
        return U[:size]
    Y = torch.zeros(1, len(U), problem.m, dtype=torch.float64)
    G = torch.stack(problem.g(problem.from_unit(U), Y, which=white), -1)
    fine = (G >= 0).all(1)
    return torch.cat([U[fine], U[~fine]])[:size]
