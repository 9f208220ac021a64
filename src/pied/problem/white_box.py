"""The white box g of a problem: its functions, called with checks, and their slopes by x and y."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float64
from numpy import ndarray
from torch import Tensor

from pied.errors import WhiteBoxError
from pied.problem.formula import Formula
from pied.problem.named import Function, Named
from pied.problem.structure import Places, Structure, called, found, probes, tried

Back = Callable[[Any], tuple[Any, Any]]
"""From weights of functions' values to the slopes of their weighted sums by x and y: f L b -> f b d, f L b m."""


@dataclass(frozen=True)
class WhiteBox:
    """The objective and the constraints as functions of (x, y): the objective is maximized, constraints are >= 0."""

    names: tuple[str, ...]
    """The objective's name, then the constraints'."""
    functions: tuple[Function, ...]
    """As the user stated them, in the same order."""
    is_white: tuple[bool, ...]
    """Which functions do not use the outputs."""
    minimizes: bool
    """Whether the objective's sign is changed."""
    index: Places
    """The places of the names of x and of y."""

    @classmethod
    def tried(
        cls,
        names: tuple[str, ...],
        functions: Sequence[Function],
        X: Float64[Tensor, "b d"],
        ranges: Float64[Tensor, "m 2"],
        minimizes: bool,
        index: Places,
    ) -> tuple["WhiteBox", tuple[Structure, ...]]:
        """Call each function at some points, find its structure, and return the white box and all structures."""
        pair = probes(ranges, 1), probes(ranges, 2)
        kept, structures = [], []
        for name, function in zip(names, functions, strict=True):
            has_derivative = tried(name, function, X, ranges, index)
            structures.append(found(name, function, X, pair, index))
            kept.append(function if has_derivative else _Constant(function))
        is_white = tuple(each.kind == "white" for each in structures)
        return cls(names, tuple(kept), is_white, minimizes, index), tuple(structures)

    def values(
        self, X: Float64[Tensor, "b d"], Y: Float64[Tensor, "L b m"], which: Sequence[int] | None = None
    ) -> list[Tensor]:
        """Evaluate functions, see `Problem.g`."""
        x, y = Named(self.index[0], X), Named(self.index[1], Y)
        values = []
        for place in range(len(self.names)) if which is None else which:
            function = self.functions[place]
            value = function(x, y) if isinstance(function, Formula) else self._checked(place, X, Y)
            if self.is_white[place] and value.ndim == 2:
                value = value[0]
            values.append(-value if self.sign(place) < 0 else value)
        return values

    def sign(self, place: int) -> float:
        """Return -1 for an objective that is minimized, else 1."""
        return -1.0 if place == 0 and self.minimizes else 1.0

    def _checked(self, place: int, X: Tensor, Y: Tensor) -> Tensor:
        """Evaluate a function of the user's, which may misbehave at points where it was not tried."""
        name = self.names[place]
        value = called(name, self.functions[place], X, Y, self.index)
        needs_slopes = X.requires_grad and (Y.requires_grad or self.is_white[place]) and torch.is_grad_enabled()
        if needs_slopes and not value.requires_grad:
            raise WhiteBoxError(
                f"'{name}' has no derivative any more, which it had when it was tried: compute with torch functions on "
                "the tensors themselves, without .detach(), .numpy() or .item(), in every branch."
            )
        return value

    def traced(
        self, X: Float64[Tensor | ndarray, "b d"], Y: Float64[Tensor | ndarray, "L b m"], which: Sequence[int]
    ) -> tuple[Float64[Tensor | ndarray, "f L b"], Back]:
        """Evaluate functions, and return the way back, see `Problem.traced`."""
        traces = [self._traced(X, Y, place) for place in which]

        def back(weights: Any) -> tuple[Any, Any]:
            pairs = zip(traces, weights, strict=True)
            slopes = [way(weight if g.ndim == 2 else weight.sum(0)) for (g, way), weight in pairs]
            by_x, by_Y = zip(*slopes, strict=True)
            return _stacked(by_x, X.shape), _stacked(by_Y, Y.shape)

        return _stacked([g for g, _ in traces], Y.shape[:2]), back

    def _traced(self, X: Any, Y: Any, place: int) -> tuple[Any, Back]:
        """Evaluate one function, and return its way back."""
        function, is_array = self.functions[place], isinstance(X, ndarray)
        if is_array and isinstance(function, Formula):
            return function.tape.traced(X, Y, self.sign(place))
        X, Y = (torch.from_numpy(each) if is_array else each.detach() for each in (X, Y))
        X, Y = X.requires_grad_(), Y.requires_grad_()
        with torch.enable_grad():
            (g,) = self.values(X, Y, which=(place,))

        def back(weight: Any) -> tuple[Any, Any]:
            by_x, by_Y = torch.zeros_like(X), torch.zeros_like(Y)
            if g.requires_grad:
                weight = torch.from_numpy(weight) if is_array else weight
                try:
                    by_x, by_Y = torch.autograd.grad(g, (X, Y), weight, allow_unused=True, materialize_grads=True)
                except Exception as error:
                    raise WhiteBoxError(f"The derivative of '{self.names[place]}' failed: {error}") from error
            return (by_x.numpy(), by_Y.numpy()) if is_array else (by_x, by_Y)

        return g.detach().numpy() if is_array else g.detach(), back


@dataclass(frozen=True)
class _Constant:
    """A function that ignores its inputs, tied to x so that it has a derivative (zero).

    Stored studies know it by a hash of its name and source: keep both.
    """

    function: Function

    def __call__(self, x: Named, y: Named) -> Any:
        value = self.function(x, y)
        return value + 0.0 * x.array[..., 0] if isinstance(value, Tensor) else value


def _stacked(parts: Sequence[Any], shape: Sequence[int]) -> Any:
    """Stack arrays after broadcasting each to a shape; a single one that has this shape is not copied."""
    if len(parts) == 1 and parts[0].shape == shape:
        return parts[0][None]
    size = (len(parts), *shape)
    stack = np.empty(size) if isinstance(parts[0], ndarray) else parts[0].new_empty(size)
    for row, part in enumerate(parts):
        stack[row] = part
    return stack
