"""What the tests of white-box functions share: values at single points, and slopes from differences."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy import ndarray

from pied.problem.called import Called
from pied.problem.doors import Door

Places = tuple[dict[str, int], dict[str, int]]


def places(variables: str, outputs: str) -> Places:
    """The places of names that are given in one line."""
    return tuple({name: place for place, name in enumerate(names.split())} for names in (variables, outputs))  # type: ignore[return-value]


def alone(function: Callable[..., Any], index: Places, X: ndarray, Y: ndarray) -> ndarray:
    """The values of a Python function, called at each point and sample by itself."""
    ends = [np.tile([-np.inf, np.inf], (len(names), 1)) for names in index]
    called = Called("f", function, index, *ends)
    return np.array([[called.alone(x, y) for x, y in zip(X, row, strict=True)] for row in Y])


def differences(door: Door, X: ndarray, Y: ndarray, weight: ndarray, step: float = 1e-6) -> tuple[ndarray, ndarray]:
    """Slopes of the weighted sum of values by x and y, from central differences."""
    by_x, by_Y = np.zeros(X.shape), np.zeros(Y.shape)
    for columns, slopes in ((X, by_x), (Y, by_Y)):
        for place in range(columns.shape[-1]):
            up, down = columns.copy(), columns.copy()
            up[..., place] += step
            down[..., place] -= step
            ends = [door.values(each, Y) if columns is X else door.values(X, each) for each in (up, down)]
            change = weight * (ends[0] - ends[1]) / (2 * step)
            slopes[..., place] = change.reshape(-1, len(X)).sum(0) if columns is X else change
    return by_x, by_Y
