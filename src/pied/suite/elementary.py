"""Elementary functions of a number or a tensor, so that h is written once for one point and for many."""

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

import torch
from jaxtyping import Float64
from torch import Tensor

Number: TypeAlias = float | Float64[Tensor, "..."]
"""One value, or the values at many points at once."""


def _either(of_float: Callable[[float], float], of_tensor: Callable[[Tensor], Tensor]) -> Callable[[Number], Number]:
    """Return a function that accepts either type."""

    def function(value: Number) -> Number:
        return of_tensor(value) if isinstance(value, Tensor) else of_float(value)

    return function


sin = _either(math.sin, torch.sin)
cos = _either(math.cos, torch.cos)
exp = _either(math.exp, torch.exp)
sqrt = _either(math.sqrt, torch.sqrt)


def on_tensors(h: Callable[[list[Tensor]], Sequence[Tensor]], x: Sequence[Number]) -> Sequence[Number]:
    """Call a black box that is written for tensors; for numbers as arguments it returns numbers."""
    columns = [each if isinstance(each, Tensor) else torch.tensor([float(each)], dtype=torch.float64) for each in x]
    values = h(columns)
    return values if isinstance(x[0], Tensor) else [float(value) for value in values]
