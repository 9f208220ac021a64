"""The operations of a program: what each computes from its operands, and the slopes by each of them.

A value has axes for samples and points first (none, `b` or `L b`) and the axes of a vector or a table last. Operations
act on those last axes, counted from the end, or element by element.
"""

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

Value = Any
"""A float or an array."""
By = Callable[[Sequence[Value], Value, Value], Value]
"""From the operands of an operation, its value and the slope by its value: the slope by one operand, before it is
summed over the axes along which the operand was repeated."""

LOG_2, LOG_10 = float(np.log(2.0)), float(np.log(10.0))
TWO_OVER_ROOT_PI = 2.0 / float(np.sqrt(np.pi))
ROOT_TWO_PI = float(np.sqrt(2.0 * np.pi))


@dataclass(frozen=True)
class Operation:
    """A function of the values of the operands, and the slopes by each of them; None: it has no slope there."""

    run: Callable[..., Value]
    back: tuple[By | None, ...]


def _of_one(run: Callable[[Value], Value], by: Callable[[Value, Value], Value]) -> Operation:
    """Return an operation on one number, given its derivative as a function of operand and value."""
    return Operation(run, (lambda parts, f, slope: slope * by(parts[0], f),))


def _flat(run: Callable[[Value], Value]) -> Operation:
    """Return an operation on one number whose slope is 0 almost everywhere."""
    return Operation(run, (None,))


def _special(name: str) -> Callable[[Value], Value]:
    """Return a function of SciPy, which is loaded when it is first used."""

    def run(a: Value) -> Value:
        from scipy import special

        return getattr(special, name)(a)

    return run


UNARY: Mapping[str, Operation] = {
    "exp": _of_one(np.exp, lambda a, f: f),
    "exp2": _of_one(np.exp2, lambda a, f: f * LOG_2),
    "expm1": _of_one(np.expm1, lambda a, f: f + 1.0),
    "log": Operation(np.log, (lambda parts, f, slope: slope / parts[0],)),
    "log2": _of_one(np.log2, lambda a, f: 1.0 / (a * LOG_2)),
    "log10": Operation(np.log10, (lambda parts, f, slope: slope / (parts[0] * LOG_10),)),
    "log1p": _of_one(np.log1p, lambda a, f: 1.0 / (1.0 + a)),
    "sqrt": Operation(np.sqrt, (lambda parts, f, slope: slope * 0.5 / f,)),
    "cbrt": _of_one(np.cbrt, lambda a, f: 1.0 / (3.0 * f * f)),
    "square": _of_one(lambda a: a * a, lambda a, f: 2.0 * a),
    "reciprocal": _of_one(lambda a: 1.0 / a, lambda a, f: -f * f),
    "abs": _of_one(np.abs, lambda a, f: np.sign(a)),
    "sin": _of_one(np.sin, lambda a, f: np.cos(a)),
    "cos": _of_one(np.cos, lambda a, f: -np.sin(a)),
    "tan": _of_one(np.tan, lambda a, f: 1.0 + f * f),
    "arcsin": _of_one(np.arcsin, lambda a, f: 1.0 / np.sqrt(1.0 - a * a)),
    "arccos": _of_one(np.arccos, lambda a, f: -1.0 / np.sqrt(1.0 - a * a)),
    "arctan": _of_one(np.arctan, lambda a, f: 1.0 / (1.0 + a * a)),
    "sinh": _of_one(np.sinh, lambda a, f: np.cosh(a)),
    "cosh": _of_one(np.cosh, lambda a, f: np.sinh(a)),
    "tanh": _of_one(np.tanh, lambda a, f: 1.0 - f * f),
    "arcsinh": _of_one(np.arcsinh, lambda a, f: 1.0 / np.sqrt(a * a + 1.0)),
    "arccosh": _of_one(np.arccosh, lambda a, f: 1.0 / np.sqrt(a * a - 1.0)),
    "arctanh": _of_one(np.arctanh, lambda a, f: 1.0 / (1.0 - a * a)),
    "expit": _of_one(_special("expit"), lambda a, f: f * (1.0 - f)),
    "erf": _of_one(_special("erf"), lambda a, f: TWO_OVER_ROOT_PI * np.exp(-a * a)),
    "erfc": _of_one(_special("erfc"), lambda a, f: -TWO_OVER_ROOT_PI * np.exp(-a * a)),
    "ndtr": _of_one(_special("ndtr"), lambda a, f: np.exp(-0.5 * a * a) / ROOT_TWO_PI),
    "sign": _flat(np.sign),
    "floor": _flat(np.floor),
    "ceil": _flat(np.ceil),
    "rint": _flat(np.rint),
    "trunc": _flat(np.trunc),
    "isfinite": _flat(np.isfinite),
    "isnan": _flat(np.isnan),
    "logical_not": _flat(np.logical_not),
    "number": _flat(lambda a: np.asarray(a, dtype=float)),
    "minus": Operation(operator.neg, (lambda parts, f, slope: -slope,)),
}
"""Operations on one number, by name."""

SUM = Operation(operator.add, (lambda parts, f, slope: slope, lambda parts, f, slope: slope))
DIFFERENCE = Operation(operator.sub, (lambda parts, f, slope: slope, lambda parts, f, slope: -slope))
PRODUCT = Operation(operator.mul, (lambda parts, f, slope: slope * parts[1], lambda parts, f, slope: slope * parts[0]))
RATIO = Operation(
    operator.truediv, (lambda parts, f, slope: slope / parts[1], lambda parts, f, slope: -slope * f / parts[1])
)


def _by_base(parts: Sequence[Value], f: Value, slope: Value) -> Value:
    """Return the slope of a^p by a; 0 where p = 0, because a^0 is 1 for every a, also at 0."""
    by = slope * parts[1] * np.power(parts[0], parts[1] - 1.0)
    return by if isinstance(parts[1], float) and parts[1] != 0.0 else np.where(parts[1] == 0.0, 0.0, by)


def _by_exponent(parts: Sequence[Value], f: Value, slope: Value) -> Value:
    """Return the slope of a^p by p; 0 where a = 0 and p >= 0, because 0^p is 0 for every p > 0."""
    by = slope * f * np.log(parts[0])
    is_zero = parts[0] == 0.0
    return np.where(is_zero & (parts[1] >= 0.0), 0.0, by) if np.any(is_zero) else by


def _by_picked(which: int, parts: Sequence[Value], f: Value, slope: Value) -> Value:
    """Return the slope of the smallest or largest value by one of the values; equal ones share it."""
    ties = sum(np.asarray(part == f, dtype=float) for part in parts)
    return slope * (parts[which] == f) / ties


def _picked(pick: Callable[[Value, Value], Value], *parts: Value) -> Value:
    """Return the smallest or largest of some values."""
    best = parts[0]
    for part in parts[1:]:
        best = pick(best, part)
    return best


def _by_arctan2(which: int, parts: Sequence[Value], f: Value, slope: Value) -> Value:
    a, b = parts
    size = a * a + b * b
    return slope * (b if which == 0 else -a) / size


COMPARISONS = (
    "greater",
    "greater_equal",
    "less",
    "less_equal",
    "equal",
    "not_equal",
    "logical_and",
    "logical_or",
    "logical_xor",
)
"""Operations on two values that answer true or false."""
BINARY: Mapping[str, Operation] = {
    "power": Operation(np.power, (_by_base, _by_exponent)),
    "arctan2": Operation(np.arctan2, (partial(_by_arctan2, 0), partial(_by_arctan2, 1))),
    "hypot": Operation(
        np.hypot, (lambda parts, f, slope: slope * parts[0] / f, lambda parts, f, slope: slope * parts[1] / f)
    ),
    "logaddexp": Operation(
        np.logaddexp,
        (lambda parts, f, slope: slope * np.exp(parts[0] - f), lambda parts, f, slope: slope * np.exp(parts[1] - f)),
    ),
    "remainder": Operation(
        np.remainder, (lambda parts, f, slope: slope, lambda parts, f, slope: -slope * np.floor(parts[0] / parts[1]))
    ),
    **{name: Operation(getattr(np, name), (None, None)) for name in (*COMPARISONS, "floor_divide", "heaviside")},
}
"""Operations on two numbers, by name, besides sums and products."""

WHERE = Operation(
    np.where,
    (
        None,
        lambda parts, f, slope: np.where(parts[0], slope, 0.0),
        lambda parts, f, slope: np.where(parts[0], 0.0, slope),
    ),
)
_POWER_OF_TWO = Operation(lambda a, _: a * a, (lambda parts, f, slope: slope * (2.0 * parts[0]),))


def _lift(axes: tuple[int, int]) -> Operation:
    """Return a value with further axes of length 1; `axes` says before how many of the last ones, and how many."""
    kept, count = axes

    def run(a: Value) -> Value:
        shape = np.shape(a)
        at = len(shape) - kept
        return np.reshape(a, (*shape[:at], *(1,) * count, *shape[at:]))

    def back(parts: Sequence[Value], f: Value, slope: Value) -> Value:
        return slope.reshape(parts[0].shape)

    return Operation(run, (back,))


def _total(axis: int) -> Operation:
    """Return the sum over one of the last axes, counted from the end (-1, -2, ...)."""
    return Operation(
        lambda a: a.sum(axis),
        (lambda parts, f, slope: np.broadcast_to(np.expand_dims(slope, axis), parts[0].shape),),
    )


def _extreme(kind: str, axis: int) -> Operation:
    """Return the smallest or largest element along one of the last axes; equal ones share the slope."""

    def back(parts: Sequence[Value], f: Value, slope: Value) -> Value:
        chosen = parts[0] == np.expand_dims(f, axis)
        return np.expand_dims(slope, axis) * chosen / chosen.sum(axis, keepdims=True)

    return Operation(partial(getattr(np, kind), axis=axis), (back,))


def _take(index: tuple[Any, ...]) -> Operation:
    """Return the elements at an index of the last axes."""
    repeats = any(isinstance(each, np.ndarray) for each in index)

    def back(parts: Sequence[Value], f: Value, slope: Value) -> Value:
        whole = np.zeros(parts[0].shape)
        if repeats:
            np.add.at(whole, (..., *index), slope)
        else:
            whole[(..., *index)] = slope
        return whole

    return Operation(lambda a: a[(..., *index)], (back,))


def _dot(matrix: Value) -> Operation:
    """Return the product of a vector with a known vector or, from the left, with a known matrix."""
    if matrix.ndim == 1:
        return Operation(lambda a: a @ matrix, (lambda parts, f, slope: slope[..., None] * matrix,))
    return Operation(lambda a: a @ matrix.T, (lambda parts, f, slope: slope @ matrix,))


def _shaped(shapes: tuple[int, tuple[int, ...]]) -> Operation:
    """Return the last axes in another shape; `shapes` says how many there are, and the new lengths."""
    rank, after = shapes
    return Operation(
        lambda a: a.reshape(a.shape[: a.ndim - rank] + after),
        (lambda parts, f, slope: slope.reshape(parts[0].shape),),
    )


def _joined(sizes: tuple[int, ...]) -> Operation:
    """Return vectors one after the other on the last axis; `sizes` are their lengths."""
    ends = np.cumsum(sizes)

    def run(*parts: Value) -> Value:
        lead = np.broadcast_shapes(*(np.shape(part)[:-1] for part in parts))
        whole = np.empty((*lead, int(ends[-1])))
        for part, size, end in zip(parts, sizes, ends, strict=True):
            whole[..., end - size : end] = part
        return whole

    def by(start: int, end: int) -> By:
        return lambda parts, f, slope: slope[..., start:end]

    return Operation(run, tuple(by(int(end - size), int(end)) for size, end in zip(sizes, ends, strict=True)))


def _table(knots: tuple[Value, Value]) -> Operation:
    """Return straight lines between the knots of a table, constant beyond its ends."""
    places, values = knots
    slopes = np.concatenate([[0.0], np.diff(values) / np.diff(places), [0.0]])
    return _of_one(
        lambda a: np.interp(a, places, values), lambda a, f: slopes[np.searchsorted(places, a, side="right")]
    )


_WITH_VALUE: Mapping[str, Callable[[Any], Operation]] = {
    "lift": _lift,
    "total": _total,
    "take": _take,
    "dot": _dot,
    "shape": _shaped,
    "join": _joined,
    "table": _table,
}
"""Operations on one or several values that need to know more than their operands."""


def operation(kind: str, value: Any, parts: Sequence[Value]) -> Operation:
    """Return an operation by its name.

    Args:
        kind: Its name.
        value: What it needs to know besides its operands.
        parts: The operands that are numbers, None for the others.
    """
    if kind == "power" and isinstance(parts[1], float) and parts[1] == 2.0:
        return _POWER_OF_TWO
    if kind in ("min", "max"):
        if len(parts) == 1:
            return _extreme(kind, -1 if value is None else value)
        pick = np.minimum if kind == "min" else np.maximum
        return Operation(partial(_picked, pick), tuple(partial(_by_picked, i) for i in range(len(parts))))
    if kind in _WITH_VALUE:
        return _WITH_VALUE[kind](value)
    return WHERE if kind == "where" else (UNARY if kind in UNARY else BINARY)[kind]
