"""Programs: a function of the white box as a list of instructions, its values and its slopes, in NumPy.

Formulas are parsed into programs, Python functions are traced into them. The search for the next point needs the slopes
of a program some hundred times, on a hundred numbers: what costs is the number of calls into NumPy, so everything that
can be known beforehand is. Values have the shapes of `operations`.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy import ndarray

from pied.problem.operations import DIFFERENCE, PRODUCT, RATIO, SUM, By, Operation, Value, operation
from pied.shapes import Float64

NUMBERS_AT_ONCE = 1_000_000
"""Numbers in one array while a program runs (8 MB): a vector is repeated for each point and sample."""

Back = Callable[[Any], tuple[Any, Any]]
"""From weights of a function's values to the slopes of their weighted sum by x and y."""


@dataclass(frozen=True)
class Step:
    """One instruction: an operation on the values of earlier steps."""

    kind: str
    """"constant", "x", "y", "sum", "product" or the name of an operation."""
    parts: tuple[int, ...] = ()
    """Places of the operands."""
    value: Any = None
    """The constant, the column of x or y, which parts are subtracted or divided by, or what the operation needs."""


@dataclass
class Writer:
    """Writes steps; one that occurs twice is written once."""

    steps: list[Step] = field(default_factory=list)
    places: dict[Any, int] = field(default_factory=dict)

    def write(self, kind: str, parts: tuple[int, ...] = (), value: Any = None) -> int:
        """Write a step and return its place."""
        key = (kind, parts, _key(value))
        if key not in self.places:
            self.steps.append(Step(kind, parts, value))
            self.places[key] = len(self.steps) - 1
        return self.places[key]


def ending(steps: Sequence[Step], last: int) -> tuple[Step, ...]:
    """Return the steps that one of them needs, which comes last."""
    needed = {last}
    for place in range(last, -1, -1):
        if place in needed:
            needed.update(steps[place].parts)
    writer = Writer()
    moved: dict[int, int] = {}
    for place in sorted(needed):
        step = steps[place]
        moved[place] = writer.write(step.kind, tuple(moved[i] for i in step.parts), step.value)
    return tuple(writer.steps)


def _key(value: Any) -> Any:
    """Return what two values have in common if they are the same."""
    if isinstance(value, ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, list | tuple):
        return type(value), *map(_key, value)
    return type(value), repr(value)


@dataclass(frozen=True)
class _Compiled:
    """A program ready to run: constants in their places, then columns to load, then operations on a few values each."""

    values: tuple[Value, ...]
    """The value at every place; None if it is not a constant."""
    x: tuple[tuple[int, Any], ...]
    """Place and column of each part of x that is loaded: first single columns, each once, then vectors of them."""
    y: tuple[tuple[int, Any], ...]
    """The same for y."""
    operations: tuple[tuple[int, Callable[..., Value], tuple[int, ...]], ...]
    """Place, function and places of the operands."""
    backwards: tuple[tuple[int, tuple[int, ...], tuple[tuple[int, By], ...]], ...]
    """Place, places of the operands, and the slope by each operand that has one; the last operation first."""


@dataclass(frozen=True)
class Program:
    """The instructions of a function; the last one is its value."""

    steps: tuple[Step, ...]
    width: int = 1
    """Length of the longest vector inside, 1 without one: how many numbers each point and sample takes."""

    @cached_property
    def _compiled(self) -> _Compiled:
        return _compiled(self.steps)

    def values(self, X: Float64[ndarray, "b d"], Y: Float64[ndarray, "L b m"]) -> Float64[ndarray, "*L b"]:
        """Return the value, `L b`, or `b` if no output is used.

        If all values would take too much memory, a few points are computed at a time.
        """
        pieces = self._pieces(X, Y)
        if len(pieces) == 1:
            return self._whole(self.forward(X, Y)[-1], X)
        parts = [self._whole(self.forward(X[each], Y[:, each])[-1], X[each]) for each in pieces]
        return np.concatenate(parts, -1)

    def traced(self, X: Float64[ndarray, "b d"], Y: Float64[ndarray, "L b m"]) -> tuple[Float64[ndarray, "*L b"], Back]:
        """Return the value, and the way back from weights of the value to slopes by x and y."""
        pieces = self._pieces(X, Y)
        if len(pieces) == 1:
            values = self.forward(X, Y)
            return self._whole(values[-1], X), lambda weight: self.back(values, weight, X, Y)

        def back(weight: Float64[ndarray, "*L b"]) -> tuple[Float64[ndarray, "b d"], Float64[ndarray, "L b m"]]:
            by_x, by_Y = np.empty(X.shape), np.empty(Y.shape)
            for piece in pieces:
                inside = X[piece], Y[:, piece]
                by_x[piece], by_Y[:, piece] = self.back(self.forward(*inside), weight[..., piece], *inside)
            return by_x, by_Y

        return self.values(X, Y), back

    def __reduce__(self) -> tuple[Any, ...]:
        return Program, (self.steps, self.width)

    def _pieces(self, X: ndarray, Y: ndarray) -> list[slice]:
        """Return the points that are computed together."""
        size = max(1, NUMBERS_AT_ONCE // (self.width * max(1, len(Y))))
        return [slice(start, start + size) for start in range(0, len(X), size)] if size < len(X) else [slice(None)]

    def _whole(self, value: Value, X: ndarray) -> Any:
        """Return the last value with one number per point, also if it uses nothing."""
        return value if np.ndim(value) else np.full(len(X), float(value))

    def forward(self, X: Float64[ndarray, "b d"], Y: Float64[ndarray, "L b m"]) -> list[Value]:
        """Return the value at every place of the program; the last one is the function's."""
        program = self._compiled
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
        weight: Float64[ndarray, "..."],
        X: Float64[ndarray, "b d"],
        Y: Float64[ndarray, "L b m"],
    ) -> tuple[Float64[ndarray, "b d"], Float64[ndarray, "L b m"]]:
        """Return the slopes of the weighted sum of the last value, whose shape the weights have, by x and y."""
        by_x, by_Y = self._back(values, weight, X, Y, is_careful=False)
        if self._has_choice and not math.isfinite(by_x.sum() + by_Y.sum()):
            by_x, by_Y = self._back(values, weight, X, Y, is_careful=True)
        return by_x, by_Y

    def _back(
        self, values: list[Value], weight: ndarray, X: ndarray, Y: ndarray, is_careful: bool
    ) -> tuple[Float64[ndarray, "b d"], Float64[ndarray, "L b m"]]:
        slopes = _slopes(self._compiled, values, weight, is_careful)
        return _unloaded(self._compiled.x, slopes, X.shape), _unloaded(self._compiled.y, slopes, Y.shape)

    @cached_property
    def _has_choice(self) -> bool:
        """Whether a branch that is not taken may have no slope: where(y > 1, sqrt(y - 1), 0)."""
        return any(step.kind == "where" for step in self.steps)


def _slopes(
    program: _Compiled, values: Sequence[Value], weight: Float64[ndarray, "..."], is_careful: bool
) -> list[Value]:
    """Return the slope of the weighted sum by the value at every place; None for constants and what has no slope.

    With `is_careful`, what has no weight has no slope either, even if it is not finite.
    """
    slopes: list[Value] = [None] * len(values)
    slopes[-1] = weight
    last = last_sum = weight  # the terms of a sum share one slope array, which is then summed only once
    with np.errstate(all="ignore"):
        for place, parts, back in program.backwards:
            if slopes[place] is None:
                continue
            operands = [values[i] for i in parts]
            for i, by in back:
                slope, shape = by(operands, values[place], slopes[place]), values[i].shape
                if is_careful and slope.shape == slopes[place].shape:
                    slope = np.where(slopes[place] == 0.0, 0.0, slope)
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
    *points, columns = shape
    by_columns = np.moveaxis(np.zeros((columns, *points)), 0, -1)  # each column in one piece of memory, as those of y
    for place, column in loads:
        if slopes[place] is None:
            continue
        if isinstance(column, int):
            by_columns[..., column] = slopes[place]
        else:
            by_columns[..., column] += slopes[place]
    return by_columns


def _compiled(steps: Sequence[Step]) -> _Compiled:
    """Prepare steps: sums and products are joined pairwise, and constant expressions computed beforehand."""
    values: list[Value] = []
    loads: dict[str, list[tuple[int, Any]]] = {"x": [], "y": []}
    operations: list[tuple[int, Callable[..., Value], tuple[int, ...]]] = []
    backwards = []

    def put(made: Operation, *parts: int) -> int:
        place, live = len(values), [values[i] is None for i in parts]
        if not any(live):
            with np.errstate(all="ignore"):
                values.append(made.run(*[values[i] for i in parts]))
            return place
        values.append(None)
        operations.append((place, made.run, parts))
        back = zip(parts, made.back, live, strict=False)
        backwards.append((place, parts, tuple((i, by) for i, by, is_live in back if is_live and by is not None)))
        return place

    places: list[int] = []
    for step in steps:
        parts = [places[i] for i in step.parts]
        if step.kind == "constant":
            values.append(step.value)
            places.append(len(values) - 1)
        elif step.kind in loads:
            loads[step.kind].append((len(values), step.value))
            values.append(None)
            places.append(len(values) - 1)
        elif step.kind == "sum" or step.kind == "product":
            plain, inverse = (SUM, DIFFERENCE) if step.kind == "sum" else (PRODUCT, RATIO)
            place = parts[0]
            for part, is_inverse in zip(parts[1:], step.value[1:], strict=True):
                place = put(inverse if is_inverse else plain, place, part)
            places.append(place)
        else:
            places.append(put(operation(step.kind, step.value, [values[i] for i in parts]), *parts))
    if places[-1] != len(values) - 1:  # the last instruction repeats an earlier one: its value is wanted last
        put(Operation(lambda a: a, (lambda parts, f, slope: slope,)), places[-1])
    x, y = (tuple(sorted(each, key=lambda load: not isinstance(load[1], int))) for each in loads.values())
    return _Compiled(tuple(values), x, y, tuple(operations), tuple(backwards[::-1]))


def _summed(slope: Value, shape: tuple[int, ...]) -> Value:
    """Sum a slope over the axes along which a value was broadcast."""
    have = slope.shape
    if have[1:] == shape:
        return slope.sum(0)
    slope = np.sum(slope, tuple(range(len(have) - len(shape)))) if len(have) > len(shape) else slope
    repeated = tuple(i for i, (a, b) in enumerate(zip(np.shape(slope), shape, strict=True)) if a != b and b == 1)
    return np.sum(slope, repeated, keepdims=True) if repeated else slope
