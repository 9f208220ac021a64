"""Interval arithmetic: bounds of a program's value over whole boxes of x and y, which no point inside can leave.

They may be wider than the true range, never narrower. A program with an operation that is not listed here has none.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy import ndarray

from pied.problem.operations import COMPARISONS, UNARY, operation
from pied.problem.program import Program, Step
from pied.shapes import Float64

OUTWARD = 1e-13
"""Relative amount by which every bound is moved outwards: more than the rounding error of one operation."""

Interval = tuple[Any, Any]
"""Lower and upper end: arrays, or numbers."""

RISING = {
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "cbrt", "arcsin", "arctan", "sinh", "tanh",
    "arcsinh", "arccosh", "arctanh", "expit", "erf", "ndtr", "sign", "floor", "ceil", "rint", "trunc", "number",
}  # fmt: skip
"""Functions of one number that never fall."""
FALLING = {"arccos", "erfc"}
"""Functions of one number that never rise."""
ELEMENTWISE = {"lift", "total", "take", "shape", "join", "min", "max", "logaddexp"}
"""Operations on vectors that never fall with any of their elements."""


class NoBounds(Exception):
    """The program has an operation whose bounds are not known."""


def bounds(
    program: Program, x: tuple[Float64[ndarray, "b d"], Float64[ndarray, "b d"]], y: tuple[ndarray, ndarray]
) -> tuple[Float64[ndarray, "b"], Float64[ndarray, "b"]]:
    """Return bounds of the program's value over boxes.

    Args:
        program: The function.
        x: Lower and upper ends of the variables, natural units.
        y: Lower and upper ends of the outputs, `b m`, infinite where open.

    Raises:
        NoBounds: If an operation is not listed.
    """
    found: list[Interval] = []
    with np.errstate(all="ignore"):
        for step in program.steps:
            low, high = _step(step, [found[i] for i in step.parts], x, y)
            found.append((_outward(low, -1.0), _outward(high, 1.0)))
    low, high = (np.broadcast_to(np.asarray(each, dtype=float), (len(x[0]),)) for each in found[-1])
    return low, high


def _outward(end: Any, side: float) -> Any:
    """Move an end outwards by rounding error; an end that is not known is open."""
    moved = end + side * OUTWARD * np.abs(end)
    return np.where(np.isnan(moved), side * np.inf, moved)


def _step(step: Step, parts: list[Interval], x: tuple[ndarray, ndarray], y: tuple[ndarray, ndarray]) -> Interval:
    """Return the interval of one instruction."""
    kind = step.kind
    if kind == "constant":
        return step.value, step.value
    if kind in ("x", "y"):
        low, high = x if kind == "x" else y
        return low[..., step.value], high[..., step.value]
    if kind in ("sum", "product"):
        return _joined(kind, parts, step.value)
    if kind in RISING:
        (low, high), run = parts[0], UNARY[kind].run
        return run(low), run(high)
    if kind in FALLING:
        (low, high), run = parts[0], UNARY[kind].run
        return run(high), run(low)
    if kind in COMPARISONS:  # true or false
        shape = np.broadcast_shapes(*(np.shape(low) for low, _ in parts))
        return np.zeros(shape), np.ones(shape)
    if kind == "dot":
        return _dot(parts[0], step.value)
    if kind in ELEMENTWISE:
        run = operation(kind, step.value, [None] * len(parts)).run
        lows, highs = zip(*parts, strict=True)
        return run(*map(np.asarray, lows)), run(*map(np.asarray, highs))
    if kind in _OTHERS:
        return _OTHERS[kind](*parts)
    raise NoBounds(kind)


def _joined(kind: str, parts: list[Interval], inverse: Any) -> Interval:
    """Return a sum or a product; `inverse` says which parts are subtracted or divided by."""
    whole = parts[0]
    for part, is_inverse in zip(parts[1:], inverse[1:], strict=True):
        if kind == "sum":
            part = (-part[1], -part[0]) if is_inverse else part
            whole = whole[0] + part[0], whole[1] + part[1]
        else:
            whole = _product(whole, _reciprocal(part) if is_inverse else part)
    return whole


def _product(a: Interval, b: Interval) -> Interval:
    every = np.stack(np.broadcast_arrays(*(np.multiply(one, other) for one in a for other in b)))
    every = np.where(np.isnan(every), 0.0, every)  # 0 times an open end
    return every.min(0), every.max(0)


def _reciprocal(a: Interval) -> Interval:
    has_zero = (np.asarray(a[0]) <= 0) & (np.asarray(a[1]) >= 0)
    return np.where(has_zero, -np.inf, 1.0 / np.asarray(a[1])), np.where(has_zero, np.inf, 1.0 / np.asarray(a[0]))


def _absolute(a: Interval) -> Interval:
    low, high = np.abs(a[0]), np.abs(a[1])
    has_zero = (np.asarray(a[0]) <= 0) & (np.asarray(a[1]) >= 0)
    return np.where(has_zero, 0.0, np.minimum(low, high)), np.maximum(low, high)


def _power(a: Interval, p: Interval) -> Interval:
    """Return a^p for a constant p, or for a above 0."""
    exponent = np.unique(np.concatenate([np.ravel(p[0]), np.ravel(p[1])]))
    if np.ptp(exponent) > 4 * OUTWARD * np.abs(exponent).max():
        if not (np.asarray(a[0]) > 0).all():
            raise NoBounds("power")
        low, high = _product((np.log(a[0]), np.log(a[1])), p)
        return np.exp(low), np.exp(high)
    size = float(np.rint(exponent[0])) if abs(exponent[0] - np.rint(exponent[0])) < 1e-12 else float(exponent[0])
    if size < 0:
        return _reciprocal(_power(a, (-size, -size)))
    if size % 2 == 0:
        a = _absolute(a)
    elif size % 1 != 0:
        a = np.maximum(a[0], 0.0), np.maximum(a[1], 0.0)
    return np.power(a[0], size), np.power(a[1], size)


def _dot(a: Interval, matrix: Any) -> Interval:
    """Return the product of a vector with a known vector or matrix: the sign of each factor says which end counts."""
    up, down = np.maximum(matrix, 0.0).T, np.minimum(matrix, 0.0).T

    def part(ends: Any, factors: Any) -> Any:
        is_open = (~np.isfinite(ends)).astype(float) @ (factors != 0.0)
        return np.where(is_open > 0, np.nan, np.where(np.isfinite(ends), ends, 0.0) @ factors)

    low, high = map(np.asarray, a)
    return part(low, up) + part(high, down), part(high, up) + part(low, down)


def _hypot(a: Interval, b: Interval) -> Interval:
    one, other = _absolute(a), _absolute(b)
    return np.hypot(one[0], other[0]), np.hypot(one[1], other[1])


def _either(condition: Interval, a: Interval, b: Interval) -> Interval:
    """Return the interval that contains both cases, whatever the condition says."""
    return np.minimum(a[0], b[0]), np.maximum(a[1], b[1])


def _within(*ends: float) -> Callable[..., Interval]:
    return lambda *parts: (np.full(np.shape(parts[0][0]), ends[0]), np.full(np.shape(parts[0][0]), ends[1]))


_OTHERS: Mapping[str, Callable[..., Interval]] = {
    "minus": lambda a: (-np.asarray(a[1]), -np.asarray(a[0])),
    "abs": _absolute,
    "square": lambda a: tuple(np.square(each) for each in _absolute(a)),
    "reciprocal": _reciprocal,
    "power": _power,
    "cosh": lambda a: tuple(np.cosh(each) for each in _absolute(a)),
    "hypot": _hypot,
    "where": _either,
    "arctan2": _within(-np.pi, np.pi),
    "sin": _within(-1.0, 1.0),
    "cos": _within(-1.0, 1.0),
}
"""Operations with bounds of their own."""
