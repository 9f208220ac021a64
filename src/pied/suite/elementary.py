"""Elementary functions that take a number or a tensor, so that one statement of h serves one point and a million."""

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

import torch
from jaxtyping import Float64
from torch import Tensor

Number: TypeAlias = float | Float64[Tensor, "..."]
"""One value, or the values at many points at once."""


def _either(of_float: Callable[[float], float], of_tensor: Callable[[Tensor], Tensor]) -> Callable[[Number], Number]:
    """Return the function that looks at what it was given."""

    def function(value: Number) -> Number:
        return of_tensor(value) if isinstance(value, Tensor) else of_float(value)

    return function


sin = _either(math.sin, torch.sin)
cos = _either(math.cos, torch.cos)
exp = _either(math.exp, torch.exp)
sqrt = _either(math.sqrt, torch.sqrt)


def on_tensors(h: Callable[[list[Tensor]], Sequence[Tensor]], x: Sequence[Number]) -> Sequence[Number]:
    """Run a black box that is written for tensors; numbers become tensors of one point, its values numbers again."""
    columns = [each if isinstance(each, Tensor) else torch.tensor([float(each)], dtype=torch.float64) for each in x]
    values = h(columns)
    return values if isinstance(x[0], Tensor) else [float(value) for value in values]
