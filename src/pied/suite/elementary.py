"""Elementary functions of a number or an array, so that h is written once for one point and for many."""

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
from numpy import ndarray

from pied.shapes import Float64

Number: TypeAlias = float | Float64[ndarray, "..."]
"""One value, or the values at many points at once."""


def _either(of_float: Callable[[float], float], of_array: Callable[[ndarray], ndarray]) -> Callable[[Number], Number]:
    """Return a function that accepts either type."""

    def function(value: Number) -> Number:
        return of_array(value) if isinstance(value, ndarray) else of_float(value)

    return function


sin = _either(math.sin, np.sin)
cos = _either(math.cos, np.cos)
exp = _either(math.exp, np.exp)
sqrt = _either(math.sqrt, np.sqrt)


def on_arrays(h: Callable[[list[ndarray]], Sequence[ndarray]], x: Sequence[Number]) -> Sequence[Number]:
    """Call a black box that is written for arrays; for numbers as arguments it returns numbers."""
    columns = [each if isinstance(each, ndarray) else np.array([float(each)]) for each in x]
    values = h(columns)
    return values if isinstance(x[0], ndarray) else [float(value[0]) for value in values]


def median(values: Float64[ndarray, "p *q"]) -> Float64[ndarray, "*q"]:
    """Return the median over the first axis; of an even number of values, the lower one of the two in the middle."""
    return np.asarray(np.quantile(values, 0.5, 0, method="lower"))
