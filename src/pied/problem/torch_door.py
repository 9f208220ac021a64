"""White-box functions written in torch: called on tensors, with slopes by torch's own differentiation."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy import ndarray

from pied.errors import WhiteBoxError
from pied.problem.named import Function, Named
from pied.problem.program import Back
from pied.problem.trace import Places
from pied.shapes import Float64

_SINGLE = "turns tensors into single numbers (float, math.exp): use torch functions (torch.exp instead of math.exp)."
_CHOICE = "decides on tensors (if, and, or, min, max): use torch.where, torch.minimum or torch.maximum."
_NUMPY = (
    "applies NumPy to tensors: use torch functions for all of it, torch.as_tensor(...) around arrays of data, or NumPy "
    "for all of it."
)
_DTYPE = "mixes float32 and float64: make constants with dtype=torch.float64, and leave the dtype of x and y as it is."
_IN_PLACE = (
    "changes x or y in place (y.array[...] = ..., +=, .clamp_() and the like): make a new tensor, y.a + 1, torch.where "
    "or .clamp(), or change a copy, y.array.clone()."
)
_REMEDIES = (
    ("in-place operation", _IN_PLACE),
    ("inplace operation", _IN_PLACE),
    ("numpy", _NUMPY),
    ("boolean value of tensor", _CHOICE),
    ("one element tensors can be converted", _SINGLE),
    ("cannot be converted to scalar", _SINGLE),
    ("same dtype", _DTYPE),
    ("expected scalar type", _DTYPE),
    (
        "must match the size of tensor",
        "combines tensors that do not fit: x.name is one number per point, y.name one per sample and point, "
        "and y.array has all outputs on a further last axis.",
    ),
)
"""Part of an error message of torch, NumPy or math, and what to do about it."""


@dataclass(frozen=True, eq=False)
class TorchFunction:
    """A function of (x, y) on tensors, one number per point and sample."""

    name: str
    """What it is called in messages."""
    function: Function
    index: Places

    def values(self, X: Float64[ndarray, "b d"], Y: Float64[ndarray, "L b m"]) -> Float64[ndarray, "*L b"]:
        """Return the value, `L b` or `b`."""
        with torch.no_grad():
            return np.asarray(self._called(*_tensors(X, Y)).numpy())

    def traced(self, X: Float64[ndarray, "b d"], Y: Float64[ndarray, "L b m"]) -> tuple[Float64[ndarray, "*L b"], Back]:
        """Return the value, and the way back from weights of the value to slopes by x and y."""
        x, y = (each.requires_grad_() for each in _tensors(X, Y))
        with torch.enable_grad():
            value = self._called(x, y)

        def back(weight: Float64[ndarray, "*L b"]) -> tuple[Float64[ndarray, "b d"], Float64[ndarray, "L b m"]]:
            if not value.requires_grad:
                return np.zeros(X.shape), np.zeros(Y.shape)
            given = torch.from_numpy(np.ascontiguousarray(weight))
            try:
                by_x, by_y = torch.autograd.grad(
                    value, (x, y), given, retain_graph=True, allow_unused=True, materialize_grads=True
                )
            except Exception as error:
                raise WhiteBoxError(f"The derivative of '{self.name}' failed: {error}") from error
            return by_x.numpy(), by_y.numpy()

        return np.asarray(value.detach().numpy()), back

    def try_out(self, X: Float64[ndarray, "b d"], Y: Float64[ndarray, "L b m"]) -> None:
        """Call it on a tiny batch, and explain what cannot work."""
        value, _ = self.traced(X, Y)
        alone = self.values(X[1:2], Y[1:2, 1:2])
        fine = value[np.isfinite(value)]
        noise = 1e-9 * float(np.abs(fine).max(initial=0.0)) + 1e-12 * float(np.abs(Y).max())
        one = value[..., 1:2] if value.ndim == 1 else value[1:2, 1:2]
        if not np.allclose(one, alone, rtol=1e-6, atol=noise, equal_nan=True):
            raise WhiteBoxError(
                f"'{self.name}' mixes points or samples, each must be computed for itself: reduce over the last axis "
                "of x.array and y.array only, .sum(-1)."
            )
        x, y = (each.requires_grad_() for each in _tensors(X, Y))
        with torch.enable_grad():
            has_slopes = self._called(x, y).requires_grad
        if not has_slopes and np.ptp(value) > noise:
            raise WhiteBoxError(
                f"'{self.name}' changes with its inputs but has no derivative: compute with torch functions on the "
                "tensors themselves, without .detach(), .numpy(), .item() or steps such as (a > b)."
            )

    def _called(self, X: Any, Y: Any) -> Any:
        """Call the function, and explain the error if it raises one or returns something else."""
        before = X._version, Y._version
        try:
            value = self.function(Named(self.index[0], X), Named(self.index[1], Y))
        except WhiteBoxError:
            raise
        except Exception as error:
            raise WhiteBoxError(f"'{self.name}' {_remedy(error)}") from error
        if (X._version, Y._version) != before:
            raise WhiteBoxError(f"'{self.name}' {_IN_PLACE}")
        self._check(value, tuple(Y.shape[:2]))
        return value

    def _check(self, value: Any, shape: tuple[int, ...]) -> None:
        """Refuse a result that is not one real double per point and sample."""
        wanted = f"'{self.name}' should return one number per point and sample (shape {shape} or {shape[1:]}), got "
        if value is None:
            raise WhiteBoxError(f"{wanted}nothing: is a 'return' missing?")
        if not isinstance(value, torch.Tensor):
            if type(value).__module__ == "numpy":
                raise WhiteBoxError(f"'{self.name}' {_NUMPY}")
            raise WhiteBoxError(f"{wanted}{type(value).__name__}.")
        if tuple(value.shape) not in (shape, shape[1:]):
            hint = ": reduce over the last axis of y.array only, .sum(-1)"
            if shape == (1, 1):
                hint = ": it must work for any number of points, without squeeze or fixed lengths"
            raise WhiteBoxError(f"{wanted}shape {tuple(value.shape)}{hint}.")
        if value.dtype != torch.float64:
            kind = str(value.dtype).removeprefix("torch.")
            raise WhiteBoxError(
                f"'{self.name}' should return real numbers of dtype float64, got {kind}: make constants with "
                "dtype=torch.float64, and leave the dtype of x and y as it is."
            )


def _tensors(*arrays: ndarray) -> tuple[torch.Tensor, ...]:
    return tuple(torch.from_numpy(np.array(each)) for each in arrays)


def _remedy(error: Exception) -> str:
    """Return what to do about an error that torch, NumPy or math raised inside a function."""
    text = str(error).lower()
    for sign, remedy in _REMEDIES:
        if sign in text:
            return remedy
    first = (str(error).splitlines() or [""])[0][:1000]
    return f"raised {type(error).__name__} when tried on tensors: {first}"
