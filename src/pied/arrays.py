"""NumPy arrays and torch tensors alike: formulas that both are needed for are written once.

On the CPU a call into NumPy costs a third of one into torch, and small numbers of points are nothing but calls; on
another device there is torch alone.
"""

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy import ndarray
from torch import Tensor

if TYPE_CHECKING:
    Array = Any
else:
    Array = Tensor | ndarray


def library(array: Array) -> Any:
    """Return the module whose functions take this array."""
    return np if isinstance(array, ndarray) else torch


def quick(values: Tensor) -> Any:
    """Return numbers as they are quickest to compute with: NumPy on the CPU."""
    return values.detach().numpy() if values.is_cpu else values.detach()


def tensor(values: Array) -> Tensor:
    """Return an array as a tensor."""
    return values if isinstance(values, Tensor) else torch.from_numpy(values)


def like(values: Tensor, other: Array) -> Any:
    """Return the same numbers as an array, or on the device of the other."""
    return values.numpy() if isinstance(other, ndarray) else values.to(other.device)
