"""The slopes of a formula, in NumPy: its tree as a list of instructions, run forward and then back.

Automatic differentiation by torch would do, and does for functions written in Python. But a formula has some dozen
operations on a hundred numbers, the search for the next point needs its slopes some hundred times, and there the time
of torch goes into building a graph that is known beforehand. Values have the shapes of `formula`: one number per point
(and sample), or a vector on a further last axis.
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
    """One instruction: what to do, with the values of which earlier steps."""

    kind: str
    """"number", "x", "y", "lift", "minus", "sum", "product", "power", "min", "max", "total" or a function's name."""
    parts: tuple[int, ...] = ()
    value: Any = None
    """The number, the column of x or y, or which parts are subtracted or divided by."""


By = Callable[[Sequence[Value], Value, Value], Value]
"""From the parts of an operation, its value and the slope by its value: the slope by one part, not yet summed."""

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
"""By name: the function, and its way back."""

FUNCTIONS = tuple(_FUNCTIONS)


@dataclass(frozen=True)
class _Operation:
    """What a step does, as a function of the values of its parts, and the slopes by each of them."""

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
_POWER = _Operation(
    np.power,
    (
        lambda parts, f, slope: slope * parts[1] * np.power(parts[0], parts[1] - 1.0),
        lambda parts, f, slope: slope * f * np.log(parts[0]),
    ),
)
_MINUS = _Operation(operator.neg, (lambda parts, f, slope: -slope,))
_LIFT = _Operation(lambda a: a[..., None], (lambda parts, f, slope: slope[..., 0],))
_TOTAL = _Operation(lambda a: a.sum(-1), (lambda parts, f, slope: np.broadcast_to(slope[..., None], parts[0].shape),))


@dataclass(frozen=True)
class _Program:
    """A tape made ready: numbers in their places, then columns to load, then operations on at most a few values."""

    values: tuple[Value, ...]
    """Of every place; None where it is not a number."""
    x: tuple[tuple[int, Any], ...]
    """Places of columns of x: single ones, each once, then vectors of them."""
    y: tuple[tuple[int, Any], ...]
    operations: tuple[tuple[int, Callable[..., Value], tuple[int, ...]], ...]
    """Place, function, places of the parts."""
    backwards: tuple[tuple[int, tuple[int, ...], tuple[tuple[int, By], ...]], ...]
    """Place, places of the parts, and the way back to those that are not numbers; the last operation first."""


@dataclass(frozen=True)
class Tape:
    """The instructions of a formula; the last one is its value."""

    steps: tuple[Step, ...]

    @cached_property
    def _program(self) -> _Program:
        return _written(self.steps)

    def forward(self, X: Float64[ndarray, "b d"], Y: Float64[ndarray, "L b m"]) -> list[Value]:
        """Return the value of every place of the program; the last one is the formula's."""
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
        program = self._program
        by_x, by_Y = np.zeros(X.shape), np.zeros(Y.shape)
        slopes: list[Value] = [None] * len(values)
        slopes[-1] = weight
        repeated = total = weight  # the parts of a sum have one slope, which is summed once
        with np.errstate(all="ignore"):
            for place, parts, back in program.backwards:
                given, value, slope = [values[i] for i in parts], values[place], slopes[place]
                for i, by in back:
                    own, shape = by(given, value, slope), values[i].shape
                    if own.shape != shape:
                        if own is not repeated or total.shape != shape:
                            repeated, total = own, _summed(own, shape)
                        own = total
                    slopes[i] = own if slopes[i] is None else slopes[i] + own
        for slope, loads in ((by_x, program.x), (by_Y, program.y)):
            for place, column in loads:
                if isinstance(column, int):
                    slope[..., column] = slopes[place]
                else:
                    slope[..., column] += slopes[place]
        return by_x, by_Y


def _written(steps: Sequence[Step]) -> _Program:
    """Write steps as a program: sums and products two by two, and what depends on numbers alone done beforehand."""
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
    """Return what a step does; the values of its parts are given where they are numbers."""
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
    """Return the slope by one of the values of which the best was picked; those that tie share it."""
    ties = sum(np.asarray(part == f, dtype=float) for part in parts)
    return slope * (parts[which] == f) / ties


def _by_elements(parts: Sequence[Value], f: Value, slope: Value) -> Value:
    """Return the slope by the elements of a vector of which the best was picked."""
    chosen = parts[0] == f[..., None]
    return slope[..., None] * chosen / chosen.sum(-1, keepdims=True)


def _summed(slope: Value, shape: tuple[int, ...]) -> Value:
    """Sum a slope over the axes along which a value was repeated."""
    have = slope.shape
    if have[1:] == shape:
        return slope.sum(0)
    slope = np.sum(slope, tuple(range(len(have) - len(shape)))) if len(have) > len(shape) else slope
    repeated = tuple(i for i, (a, b) in enumerate(zip(np.shape(slope), shape, strict=True)) if a != b and b == 1)
    return np.sum(slope, repeated, keepdims=True) if repeated else slope
