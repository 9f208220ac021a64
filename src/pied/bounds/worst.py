"""What stands for minus infinity where a function is not finite.

A search needs finite values. A function that is not finite gets its worst value: one range below its values elsewhere
in the box. It is found from fixed points, so that a value depends neither on earlier calls nor on other points of the
batch.
"""

import logging
from collections.abc import Callable
from weakref import WeakKeyDictionary

import numpy as np
from numpy import ndarray

from pied.problem import Problem
from pied.rng import Stream
from pied.shapes import Bool, Float64

logger = logging.getLogger(__name__)

WORST_POINTS = 64  # points of the box from which the range of a function is taken

_WARNED: WeakKeyDictionary[Problem, set[str]] = WeakKeyDictionary()
"""Functions that were warned about, per problem: a study makes many beliefs and should warn once."""


def points(d: int) -> Float64[ndarray, "p d"]:
    """Return the points from which worst values are found, always the same."""
    return Stream(0).at("worst").sobol(WORST_POINTS, d)


def value(problem: Problem, i: int, U: Float64[ndarray, "p d"], Y: Float64[ndarray, "L p m"]) -> float:
    """Return the worst value of a function, below zero for a constraint; warn once per problem and function.

    Args:
        problem: The white box.
        i: Place of the function.
        U: Points of the unit cube.
        Y: Plausible outputs there.
    """
    _warn_once(problem, problem.functions[i])
    (G,) = problem.g(problem.from_unit(U), Y, which=(i,))
    finite = G[np.isfinite(G)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    return (low if i == 0 else min(low, -abs(high), 0.0)) - (high - low)


def _warn_once(problem: Problem, name: str) -> None:
    warned = _WARNED.setdefault(problem, set())
    if name not in warned:
        warned.add(name)
        logger.warning("'%s' is not finite for some plausible outputs: those count as worst", name)


def filled(f: Float64[ndarray, "b k"], worst: Callable[[int], float]) -> Float64[ndarray, "b k"]:
    """Replace values that are not finite by the worst one of their function, which is computed only if needed."""
    fine = np.isfinite(f)
    if fine.all():
        return f
    return np.where(fine, f, [0.0 if ok.all() else worst(i) for i, ok in enumerate(fine.T)])


def replaced(Y: Float64[ndarray, "L b m"], fine: Bool[ndarray, "L b"]) -> Float64[ndarray, "L b m"]:
    """Replace outputs whose sample is not finite by those of a finite sample at the same point."""
    return np.where(fine[:, :, None], Y, Y[fine.argmax(0), np.arange(Y.shape[1])])
