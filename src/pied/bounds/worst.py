"""What stands for minus infinity where a function is not finite.

A search needs finite values. A function that is not finite gets its worst value: one range below its values elsewhere
in the box. It is found from fixed points, so that a value depends neither on earlier calls nor on other points of the
batch.
"""

import logging
from collections.abc import Callable
from weakref import WeakKeyDictionary

import torch
from jaxtyping import Bool, Float64
from torch import Tensor

from pied.arrays import Array, library
from pied.problem import Problem
from pied.rng import Stream

logger = logging.getLogger(__name__)

WORST_POINTS = 64  # points of the box from which the range of a function is taken

_WARNED: WeakKeyDictionary[Problem, set[str]] = WeakKeyDictionary()
"""Functions that were warned about, per problem: a study makes many beliefs and should warn once."""


def points(d: int) -> Float64[Tensor, "p d"]:
    """Return the points from which worst values are found, always the same."""
    return Stream(0).at("worst").sobol(WORST_POINTS, d)


def value(problem: Problem, i: int, U: Float64[Tensor, "p d"], Y: Float64[Tensor, "L p m"]) -> float:
    """Return the worst value of a function, below zero for a constraint; warn once per problem and function.

    Args:
        problem: The white box.
        i: Place of the function.
        U: Points of the unit cube.
        Y: Plausible outputs there.
    """
    _warn_once(problem, problem.functions[i])
    (G,) = problem.g(problem.from_unit(U), Y, which=(i,))
    finite = G[torch.isfinite(G)]
    low, high = (float(finite.min()), float(finite.max())) if finite.numel() else (0.0, 1.0)
    return (low if i == 0 else min(low, -abs(high), 0.0)) - (high - low)


def _warn_once(problem: Problem, name: str) -> None:
    warned = _WARNED.setdefault(problem, set())
    if name not in warned:
        warned.add(name)
        logger.warning("'%s' is not finite for some plausible outputs: those count as worst", name)


def filled(f: Float64[Array, "b k"], worst: Callable[[int], float]) -> Float64[Array, "b k"]:
    """Replace values that are not finite by the worst one of their function, which is computed only if needed."""
    xp = library(f)
    fine = xp.isfinite(f)
    if bool(fine.all()):
        return f
    columns = enumerate(zip(f.T, fine.T, strict=True))
    return xp.stack([each if bool(ok.all()) else xp.where(ok, each, worst(i)) for i, (each, ok) in columns], -1)


def replaced(Y: Float64[Tensor, "L b m"], fine: Bool[Tensor, "L b"]) -> Float64[Tensor, "L b m"]:
    """Replace outputs whose sample is not finite by those of a finite sample at the same point."""
    chosen = fine.to(torch.int8).argmax(0)
    return torch.where(fine[:, :, None], Y, Y[chosen, torch.arange(Y.shape[1], device=Y.device)])
