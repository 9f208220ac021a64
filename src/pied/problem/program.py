"""The slopes of a formula, in NumPy: reverse-mode differentiation of its tree as a list of instructions.

Torch differentiates functions written in Python. A formula has about a dozen operations on a hundred numbers, and the
search for the next point needs its slopes some hundred times. Torch would spend most of that time on building a graph
that is known beforehand. Values have the shapes of `formula`: one number per point (and sample), or a vector on a
further last axis.
"""

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

Value = Any
"""A float or an array."""


@dataclass(frozen=True)
class Step:
    """One instruction: an operation on the values of earlier steps."""

    kind: str
    """"number", "x", "y", "lift", "minus", "sum", "product", "power", "min", "max", "total" or a function's name."""
    parts: tuple[int, ...] = ()
    """Places of the operands."""
    value: Any = None
    """The number, the column of x or y, or which parts are subtracted or divided by."""


By = Callable[[Sequence[Value], Value, Value], Value]
"""From the operands of an operation, its value and the slope by its value: the slope by one operand, before
`_summed`."""

_FUNCTIONS: Mapping[str, tuple[Callable[[Value], Value], By]] = {
    "exp": (np.exp, lambda parts, f, slope: slope * f),
    "log": (np.log, lambda parts, f, slope: slope / parts[0]),
    "log10": (np.log10, lambda parts, f, slope: slope / (parts[0] * np.log(10.0))),
    "sqrt": (np.sqrt, lambda parts, f, slope: slope * 0.5 / f),
    "abs": (np.abs, lambda parts, f, slope: slope * np.sign(parts[0])),
    "sin": (np.sin, lambda parts, f, slope: slope * np.cos(parts[0])),
    "cos": (np.cos, lambda parts, f, slope: slope * -np.sin(parts[0])),
    "tan": (np.tan, lambda parts, f, slope: slope * (1.0 + f * f)),
    "tanh": (np.tanh, lambda parts, f, slope: slope * (1.0 - f * f)),
}
"""By name: the function and its derivative."""

FUNCTIONS = tuple(_FUNCTIONS)
"""Names of the functions of one number."""


@dataclass(frozen=True)
class _Operation:
    """A function of the values of the operands, and the slopes by each of them."""

    run: Callable[..., Value]
    back: tuple[By, ...]


_SUM = _Operation(operator.add, (lambda parts, f, slope: slope, lambda parts, f, slope: slope))
_DIFFERENCE = _Operation(operator.sub, (lambda parts, f, slope: slope, lambda parts, f, slope: -slope))
_PRODUCT = _Operation(
    operator.mul, (lambda parts, f, slope: slope * parts[1], lambda parts, f, slope: slope * parts[0])
)
_RATIO = _Operation(
    operator.truediv, (lambda parts, f, slope: slope / parts[1], lambda parts, f, slope: -slope * f / parts[1])
)
_SQUARE = _Operation(lambda a, _: a * a, (lambda parts, f, slope: slope * (2.0 * parts[0]),))


def _by_base(parts: Sequence[Value], f: Value, slope: Value) -> Value:
    """Return the slope of a^p by a; 0 where p = 0, as in torch, because a^0 is 1 for every a, also at 0."""
    by = slope * parts[1] * np.power(parts[0], parts[1] - 1.0)
    return by if isinstance(parts[1], float) and parts[1] != 0.0 else np.where(parts[1] == 0.0, 0.0, by)


def _by_exponent(parts: Sequence[Value], f: Value, slope: Value) -> Value:
    """Return the slope of a^p by p; 0 where a = 0 and p >= 0, as in torch, because 0^p is 0 for every p > 0."""
    by = slope * f * np.log(parts[0])
    is_zero = parts[0] == 0.0
    return np.where(is_zero & (parts[1] >= 0.0), 0.0, by) if np.any(is_zero) else by


_POWER = _Operation(np.power, (_by_base, _by_exponent))
_MINUS = _Operation(operator.neg, (lambda parts, f, slope: -slope,))
_LIFT = _Operation(lambda a: a[..., None], (lambda parts, f, slope: slope[..., 0],))
_TOTAL = _Operation(lambda a: a.sum(-1), (lambda parts, f, slope: np.broadcast_to(slope[..., None], parts[0].shape),))


@dataclass(frozen=True)
class _Program:
    """A tape ready to run: numbers in their places, then columns to load, then operations on a few values each."""

    values: tuple[Value, ...]
    """The value at every place; None if it is not a number."""
    x: tuple[tuple[int, Any], ...]
    """Place and column of each part of x that is loaded: first single columns, each once, then vectors of them."""
    y: tuple[tuple[int, Any], ...]
    """The same for y."""
    operations: tuple[tuple[int, Callable[..., Value], tuple[int, ...]], ...]
    """Place, function and places of the operands."""
    backwards: tuple[tuple[int, tuple[int, ...], tuple[tuple[int, By], ...]], ...]
    """Place, places of the operands, and the slope by each operand that is not a number; the last operation first."""


@dataclass(frozen=True)
class Tape:
    """The instructions of a formula; the last one is its value."""

    steps: tuple[Step, ...]
    at_once: int | None = None
    """Most points times samples that are computed at once, since long vectors take much memory; None: all."""

    @cached_property
    def _program(self) -> _Program:
        return _written(self.steps)

    def traced(
        self, X: Float64[ndarray, "b d"], Y: Float64[ndarray, "L b m"], sign: float = 1.0
    ) -> tuple[Float64[ndarray, "*L b"], Callable[[Any], tuple[Any, Any]]]:
        """Return the value times a sign, and the way back from weights of the value to slopes by x and y.

        If all values would take too much memory, a few points are computed at a time, and again on the way back.
        """
        size = len(X) if self.at_once is None else max(1, self.at_once // len(Y))
        if size >= len(X):
            values = self.forward(X, Y)
            return sign * values[-1], lambda weight: self.back(values, sign * weight, X, Y)
        pieces = [slice(start, start + size) for start in range(0, len(X), size)]

        def back(weight: Float64[ndarray, "*L b"]) -> tuple[Float64[ndarray, "b d"], Float64[ndarray, "L b m"]]:
            by_x, by_Y = np.empty(X.shape), np.empty(Y.shape)
            for piece in pieces:
                inside = X[piece], Y[:, piece]
                by_x[piece], by_Y[:, piece] = self.back(self.forward(*inside), sign * weight[..., piece], *inside)
            return by_x, by_Y

        return sign * np.concatenate([self.forward(X[each], Y[:, each])[-1] for each in pieces], -1), back

    def forward(self, X: Float64[ndarray, "b d"], Y: Float64[ndarray, "L b m"]) -> list[Value]:
        """Return the value at every place of the program; the last one is the formula's."""
        program = self._program
        values = list(program.values)
        for place, column in program.x:
            values[place] = X[:, column]
        for place, column in program.y:
            values[place] = Y[..., column]
        with np.errstate(all="ignore"):
            for place, run, parts in program.operations:
                values[place] = run(*[values[i] for i in parts])
        return values

    def back(
        self,
        values: list[Value],
        weight: Float64[ndarray, "*L b"],
        X: Float64[ndarray, "b d"],
        Y: Float64[ndarray, "L b m"],
    ) -> tuple[Float64[ndarray, "b d"], Float64[ndarray, "L b m"]]:
        """Return the slopes of the weighted sum of the formula's values by x and y."""
        slopes = _slopes(self._program, values, weight)
        return _unloaded(self._program.x, slopes, X.shape), _unloaded(self._program.y, slopes, Y.shape)


def _slopes(program: _Program, values: Sequence[Value], weight: Float64[ndarray, "*L b"]) -> list[Value]:
    """Return the slope of the weighted sum by the value at every place; None for numbers."""
    slopes: list[Value] = [None] * len(values)
    slopes[-1] = weight
    last = last_sum = weight  # the terms of a sum share one slope array, which is then summed only once
    with np.errstate(all="ignore"):
        for place, parts, back in program.backwards:
            operands = [values[i] for i in parts]
            for i, by in back:
                slope, shape = by(operands, values[place], slopes[place]), values[i].shape
                if slope.shape != shape:
                    if slope is not last or last_sum.shape != shape:
                        last, last_sum = slope, _summed(slope, shape)
                    slope = last_sum
                slopes[i] = slope if slopes[i] is None else slopes[i] + slope
    return slopes


def _unloaded(
    loads: Sequence[tuple[int, Any]], slopes: Sequence[Value], shape: tuple[int, ...]
) -> Float64[ndarray, "..."]:
    """Gather the slopes of loaded columns into an array with the shape of x or y."""
    by_columns = np.zeros(shape)
    for place, column in loads:
        if isinstance(column, int):
            by_columns[..., column] = slopes[place]
        else:
            by_columns[..., column] += slopes[place]
    return by_columns


def _written(steps: Sequence[Step]) -> _Program:
    """Write steps as a program: sums and products are joined pairwise, and constant expressions computed beforehand."""
    values: list[Value] = []
    loads: dict[str, list[tuple[int, Any]]] = {"x": [], "y": []}
    operations: list[tuple[int, Callable[..., Value], tuple[int, ...]]] = []
    backwards = []

    def put(operation: _Operation, *parts: int) -> int:
        place, live = len(values), [values[i] is None for i in parts]
        if not any(live):
            with np.errstate(all="ignore"):
                values.append(operation.run(*[values[i] for i in parts]))
            return place
        values.append(None)
        operations.append((place, operation.run, parts))
        back = zip(parts, operation.back, live, strict=False)
        backwards.append((place, parts, tuple((i, by) for i, by, is_live in back if is_live)))
        return place

    places: list[int] = []
    for step in steps:
        parts = [places[i] for i in step.parts]
        if step.kind == "number":
            values.append(step.value)
            places.append(len(values) - 1)
        elif step.kind in loads:
            loads[step.kind].append((len(values), step.value))
            values.append(None)
            places.append(len(values) - 1)
        elif step.kind == "sum" or step.kind == "product":
            plain, inverse = (_SUM, _DIFFERENCE) if step.kind == "sum" else (_PRODUCT, _RATIO)
            place = parts[0]
            for part, is_inverse in zip(parts[1:], step.value[1:], strict=True):
                place = put(inverse if is_inverse else plain, place, part)
            places.append(place)
        else:
            places.append(put(_operation(step.kind, [values[i] for i in parts]), *parts))
    x, y = (tuple(sorted(each, key=lambda load: not isinstance(load[1], int))) for each in loads.values())
    return _Program(tuple(values), x, y, tuple(operations), tuple(backwards[::-1]))


def _operation(kind: str, parts: Sequence[Value]) -> _Operation:
    """Return the operation of a step; its operands are given if they are numbers, else None."""
    if kind == "power":
        return _SQUARE if isinstance(parts[1], float) and parts[1] == 2.0 else _POWER
    if kind in ("min", "max"):
        if len(parts) == 1:
            return _Operation(partial(getattr(np, kind), axis=-1), (_by_elements,))
        pick = np.minimum if kind == "min" else np.maximum
        return _Operation(partial(_picked, pick), tuple(partial(_by_picked, i) for i in range(len(parts))))
    if kind in _FUNCTIONS:
        run, back = _FUNCTIONS[kind]
        return _Operation(run, (back,))
    return {"minus": _MINUS, "lift": _LIFT, "total": _TOTAL}[kind]


def _picked(pick: Callable[[Value, Value], Value], *parts: Value) -> Value:
    """Return the smallest or largest of some values."""
    best = parts[0]
    for part in parts[1:]:
        best = pick(best, part)
    return best


def _by_picked(which: int, parts: Sequence[Value], f: Value, slope: Value) -> Value:
    """Return the slope of the smallest or largest value by one of the values; equal ones share it."""
    ties = sum(np.asarray(part == f, dtype=float) for part in parts)
    return slope * (parts[which] == f) / ties


def _by_elements(parts: Sequence[Value], f: Value, slope: Value) -> Value:
    """Return the slope of the smallest or largest element of a vector by its elements; equal ones share it."""
    chosen = parts[0] == f[..., None]
    return slope[..., None] * chosen / chosen.sum(-1, keepdims=True)


def _summed(slope: Value, shape: tuple[int, ...]) -> Value:
    """Sum a slope over the axes along which a value was broadcast."""
    have = slope.shape
    if have[1:] == shape:
        return slope.sum(0)
    slope = np.sum(slope, tuple(range(len(have) - len(shape)))) if len(have) > len(shape) else slope
    repeated = tuple(i for i, (a, b) in enumerate(zip(np.shape(slope), shape, strict=True)) if a != b and b == 1)
    return np.sum(slope, repeated, keepdims=True) if repeated else slope
