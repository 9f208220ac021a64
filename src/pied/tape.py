"""The slopes of a formula, in NumPy: its tree as a list of instructions, run forward and then back.

Automatic differentiation by torch would do, and does for functions written in Python. But a formula has some dozen
operations on a hundred numbers, the search for the next point needs its slopes some hundred times, and there the time
of torch goes into building a graph that is known beforehand. Values have the shapes of `formula`: one number per point
(and sample), or a vector on a further last axis.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

Value = Any
"""A float or an array."""


@dataclass(frozen=True)
class Step:
    """One instruction: what to do, with the values of which earlier steps."""

    kind: str
    """"number", "x", "y", "lift", "minus", "sum", "product", "power", "min", "max", "total" or a function's name."""
    parts: tuple[int, ...] = ()
    value: Any = None
    """The number, the column of x or y, or which parts are subtracted or divided by."""


_FUNCTIONS: Mapping[str, tuple[Callable[[Value], Value], Callable[[Value, Value], Value]]] = {
    "exp": (np.exp, lambda a, f: f),
    "log": (np.log, lambda a, f: 1.0 / a),
    "log10": (np.log10, lambda a, f: 1.0 / (a * np.log(10.0))),
    "sqrt": (np.sqrt, lambda a, f: 0.5 / f),
    "abs": (np.abs, lambda a, f: np.sign(a)),
    "sin": (np.sin, lambda a, f: np.cos(a)),
    "cos": (np.cos, lambda a, f: -np.sin(a)),
    "tan": (np.tan, lambda a, f: 1.0 + f * f),
    "tanh": (np.tanh, lambda a, f: 1.0 - f * f),
}
"""By name: the function, and its derivative at a where it has the value f."""

FUNCTIONS = tuple(_FUNCTIONS)


@dataclass(frozen=True)
class Tape:
    """The instructions of a formula; the last one is its value."""

    steps: tuple[Step, ...]

    def forward(self, X: Float64[ndarray, "b d"], Y: Float64[ndarray, "L b m"]) -> list[Value]:
        """Return the value of every step."""
        values: list[Value] = []
        with np.errstate(all="ignore"):
            for step in self.steps:
                values.append(_run(step, [values[i] for i in step.parts], X, Y))
        return values

    @cached_property
    def _backwards(self) -> tuple[tuple[int, Step, tuple[bool, ...]], ...]:
        """The steps that depend on x or y, last one first, and which of their parts do."""
        lives: list[bool] = []
        for step in self.steps:
            lives.append(step.kind in ("x", "y") or any(lives[i] for i in step.parts))
        found = [(i, step, tuple(lives[part] for part in step.parts)) for i, step in enumerate(self.steps) if lives[i]]
        return tuple(reversed(found))

    def back(
        self,
        values: list[Value],
        weight: Float64[ndarray, "*L b"],
        X: Float64[ndarray, "b d"],
        Y: Float64[ndarray, "L b m"],
    ) -> tuple[Float64[ndarray, "b d"], Float64[ndarray, "L b m"]]:
        """Return the slopes of the weighted sum of the formula's values by x and y."""
        by_x, by_Y = np.zeros_like(X), np.zeros_like(Y)
        slopes: list[Value] = [None] * len(self.steps)
        slopes[-1] = weight
        with np.errstate(all="ignore"):
            for place, step, lives in self._backwards:
                slope = slopes[place]
                if step.kind == "x":
                    by_x[:, step.value] += slope if slope.ndim == 1 else _summed(slope, X.shape[:1])
                elif step.kind == "y":
                    by_Y[..., step.value] += slope
                else:
                    parts = [values[i] for i in step.parts]
                    each = _back(step, parts, values[place], slope)
                    for i, is_live, own in zip(step.parts, lives, each, strict=True):
                        if is_live:
                            own = own if own.shape == values[i].shape else _summed(own, values[i].shape)
                            slopes[i] = own if slopes[i] is None else slopes[i] + own
        return by_x, by_Y


def _run(step: Step, parts: Sequence[Value], X: ndarray, Y: ndarray) -> Value:
    """Return the value of one step."""
    kind = step.kind
    if kind == "number":
        return step.value
    if kind == "x":
        return X[:, step.value]
    if kind == "y":
        return Y[..., step.value]
    if kind == "lift":
        return parts[0][..., None]
    if kind == "minus":
        return -parts[0]
    if kind == "product" and len(parts) == 2 and not step.value[1]:
        return parts[0] * parts[1]
    if kind == "sum" or kind == "product":
        total = parts[0]
        for part, is_inverse in zip(parts[1:], step.value[1:], strict=True):
            if kind == "sum":
                total = total - part if is_inverse else total + part
            else:
                total = total / part if is_inverse else total * part
        return total
    if kind == "power":
        return parts[0] * parts[0] if _is_square(parts[1]) else np.power(parts[0], parts[1])
    if kind == "total":
        return np.sum(parts[0], -1)
    if kind == "min" or kind == "max":
        if len(parts) == 1:
            return np.min(parts[0], -1) if kind == "min" else np.max(parts[0], -1)
        pick = np.minimum if kind == "min" else np.maximum
        best = parts[0]
        for part in parts[1:]:
            best = pick(best, part)
        return best
    return _FUNCTIONS[kind][0](parts[0])


def _back(step: Step, parts: Sequence[Value], value: Value, slope: Value) -> list[Value]:
    """Return the slopes by the parts of one step, not yet summed to their shapes."""
    kind = step.kind
    if kind == "lift":
        return [_summed(slope, (*np.shape(slope)[:-1], 1))[..., 0]]
    if kind == "minus":
        return [-slope]
    if kind == "sum":
        return [-slope if is_inverse else slope for is_inverse in step.value]
    if kind == "product":
        return _back_product(parts, step.value, slope)
    if kind == "power":
        base, exponent = parts
        if _is_square(exponent):
            return [slope * (2.0 * base), None]
        by_base = slope * exponent * np.power(base, exponent - 1.0)
        return [by_base, slope * value * np.log(base) if isinstance(exponent, ndarray) else None]
    if kind == "total":
        return [np.broadcast_to(slope[..., None], parts[0].shape)]
    if kind == "min" or kind == "max":
        if len(parts) == 1:
            chosen = parts[0] == value[..., None]
            return [slope[..., None] * chosen / chosen.sum(-1, keepdims=True)]
        chosen = [part == value for part in parts]
        ties = sum(np.asarray(each, dtype=float) for each in chosen)
        return [slope * each / ties for each in chosen]
    return [slope * _FUNCTIONS[kind][1](parts[0], value)]


def _back_product(parts: Sequence[Value], is_inverse: Sequence[bool], slope: Value) -> list[Value]:
    """Return the slopes by the factors and divisors: no factor is divided out, it may be zero."""
    if len(parts) == 2 and not is_inverse[1]:
        return [slope * parts[1], slope * parts[0]]
    before: list[Value] = [1.0]
    for part, inverse in zip(parts[:-1], is_inverse[:-1], strict=True):
        before.append(before[-1] / part if inverse else before[-1] * part)
    slopes: list[Value] = [None] * len(parts)
    after: Value = slope
    for place in range(len(parts) - 1, -1, -1):
        part = parts[place]
        if is_inverse[place]:
            after = after / part
            slopes[place] = -before[place] * after / part
        else:
            slopes[place] = before[place] * after
            after = after * part
    return slopes


def _is_square(exponent: Value) -> bool:
    return isinstance(exponent, float) and exponent == 2.0


def _summed(slope: Value, shape: tuple[int, ...]) -> Value:
    """Sum a slope over the axes along which a value was repeated."""
    have = np.shape(slope)
    if have == shape:
        return slope
    slope = np.sum(slope, tuple(range(len(have) - len(shape)))) if len(have) > len(shape) else slope
    repeated = tuple(i for i, (a, b) in enumerate(zip(np.shape(slope), shape, strict=True)) if a != b and b == 1)
    return np.sum(slope, repeated, keepdims=True) if repeated else slope
