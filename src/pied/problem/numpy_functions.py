"""What each function of NumPy writes while a function is traced.

A function that is not here, or arguments that are not, cannot be traced.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy import ndarray

from pied.problem.operations import BINARY, UNARY
from pied.problem.symbols import Symbol, Tracer, Untraceable, Writers, needs_values

# ----------------------------------------------------------------------------------------------------------- operands


def _tracer(parts: Sequence[Any]) -> Tracer:
    """Return the tracer of the first symbol, after a look at all operands."""
    found = None
    for part in parts:
        if isinstance(part, Symbol):
            found = found or part.tracer
        elif not _is_plain(part):
            raise Untraceable(f"it combines x and y with {type(part).__name__}")
    if found is None:
        raise Untraceable("it uses neither x nor y")
    return found


def _is_plain(part: Any) -> bool:
    if isinstance(part, ndarray):
        return part.dtype.kind in "biuf"
    return isinstance(part, bool | int | float | np.integer | np.floating | np.bool_) or (
        isinstance(part, list | tuple) and all(_is_plain(each) for each in part)
    )


def _gathered(part: Any) -> Any:
    """Return an array or list with symbols among its elements as one symbol."""
    if isinstance(part, list | tuple) and any(isinstance(each, Symbol | list | tuple) for each in part):
        part = np.array(part, dtype=object)
    if isinstance(part, ndarray) and part.dtype == object:
        each = part.ravel().tolist()
        return _joined(each).reshape(part.shape) if part.shape else each[0]
    return part


def _number(part: Any) -> Any:
    """Return the answer to a comparison as 0 or 1, so that sums count."""
    return part.tracer.put("number", (part,), part.shape) if isinstance(part, Symbol) and part.is_bool else part


def _shape(parts: Sequence[Any]) -> tuple[int, ...]:
    try:
        return np.broadcast_shapes(*(np.shape(part) for part in parts))
    except ValueError as error:
        raise Untraceable(str(error)) from None


# ------------------------------------------------------------------------------------------- element by element


def _single(kind: str, a: Any) -> Any:
    a = _gathered(a)
    return _tracer((a,)).put(kind, (_number(a),) if kind != "logical_not" else (a,), a.shape)


def _pair(kind: str, value: Any, a: Any, b: Any) -> Any:
    parts = _gathered(a), _gathered(b)
    tracer = _tracer(parts)
    if kind in ("sum", "product", "power"):
        parts = _number(parts[0]), _number(parts[1])
    return tracer.put(kind, parts, _shape(parts), value)


def _clip(a: Any, low: Any = None, high: Any = None, **words: Any) -> Any:
    low, high = words.pop("min", low), words.pop("max", high)
    low, high = words.pop("a_min", low), words.pop("a_max", high)
    if words:
        raise Untraceable(f"it uses {', '.join(words)}")
    a = a if low is None else np.maximum(a, low)
    return a if high is None else np.minimum(a, high)


def _where(condition: Any, a: Any, b: Any) -> Any:
    parts = tuple(_gathered(each) for each in (condition, a, b))
    return _tracer(parts).put("where", (parts[0], _number(parts[1]), _number(parts[2])), _shape(parts))


def _interp(x: Any, xp: Any, fp: Any) -> Any:
    if any(isinstance(each, Symbol) for each in (xp, fp)):
        raise Untraceable("its table changes with x and y")
    knots = tuple(np.asarray(each, dtype=float) for each in (xp, fp))
    if np.any(np.diff(knots[0]) <= 0):
        raise Untraceable("its table does not rise")
    return x.tracer.put("table", (x,), x.shape, knots)


def _polyval(p: Any, x: Any) -> Any:
    found: Any = 0.0
    for each in p:
        found = found * x + each
    return found


# ----------------------------------------------------------------------------------------------------- reductions


def _axis(axis: Any, rank: int) -> int:
    """Return an axis counted from the end."""
    if isinstance(axis, tuple) and len(axis) == 1:
        axis = axis[0]
    if not isinstance(axis, int | np.integer) or not -rank <= axis < rank:
        raise Untraceable(f"axis {axis} is not one of its axes")
    return int(axis) if axis < 0 else int(axis) - rank


def _reduced(kind: str, a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """Write a step that takes all elements along an axis, or all of them, to one."""
    a = _number(_gathered(a))
    if not a.shape:
        return a
    if axis is None:
        found = a.tracer.put(kind, (a.ravel(),), (), -1)
        return found.reshape((1,) * a.ndim) if keepdims else found
    at = _axis(axis, a.ndim)
    found = a.tracer.put(kind, (a,), (*a.shape[:at], *a.shape[a.ndim + at + 1 :]), at)
    return found.reshape((*a.shape[:at], 1, *a.shape[a.ndim + at + 1 :])) if keepdims else found


_sum, _min, _max = (partial(_reduced, kind) for kind in ("total", "min", "max"))


def _count(a: Any, axis: Any) -> int:
    return a.size if axis is None else a.shape[_axis(axis, a.ndim)]


def _mean(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    a = _gathered(a)
    return _sum(a, axis, keepdims=keepdims) / float(_count(a, axis))


def _average(a: Any, axis: Any = None, weights: Any = None) -> Any:
    return _mean(a, axis) if weights is None else _matmul(a, weights) / np.sum(weights)


def _var(a: Any, axis: Any = None, *, ddof: Any = 0, keepdims: bool = False) -> Any:
    a = _gathered(a)
    away = a - _mean(a, axis, keepdims=True)
    return _sum(away * away, axis, keepdims=keepdims) / float(_count(a, axis) - ddof)


def _prod(a: Any, axis: Any = None) -> Any:
    a = _vector(a)
    found = a[0]
    for place in range(1, len(a)):
        found = found * a[place]
    return found


def _norm(a: Any, ord: Any = None, axis: Any = None) -> Any:
    if ord not in (None, 2):
        raise Untraceable("this norm is not traced")
    a = _vector(a)
    return np.sqrt(_sum(a * a, axis))


def _cumsum(a: Any, axis: Any = None) -> Any:
    a = _vector(a)
    return _matmul(np.tril(np.ones((len(a), len(a)))), a)


def _diff(a: Any, n: int = 1, axis: int = -1) -> Any:
    a = _vector(a)
    return a[1:] - a[:-1] if n == 1 else needs_values()


def _trapezoid(y: Any, x: Any = None, dx: float = 1.0, axis: int = -1) -> Any:
    y = _vector(y)
    steps = np.full(len(y) - 1, dx) if x is None else np.diff(np.asarray(x, dtype=float))
    weights = np.zeros(len(y))
    weights[:-1] += 0.5 * steps
    weights[1:] += 0.5 * steps
    return _matmul(y, weights)


def _vector(a: Any) -> Any:
    a = _gathered(a)
    if not isinstance(a, Symbol) or a.ndim != 1:
        raise Untraceable("this function is traced for vectors alone")
    return a


def _matmul(a: Any, b: Any) -> Any:
    """Write the product of vectors, or of a vector and a matrix."""
    a, b = _gathered(a), _gathered(b)
    tracer = _tracer((a, b))
    a, b = (each if isinstance(each, Symbol) else np.asarray(each, dtype=float) for each in (a, b))
    if not a.shape or not b.shape:
        return a * b
    if a.ndim > 2 or b.ndim > 2 or a.ndim + b.ndim > 3 or a.shape[-1] != b.shape[0]:
        raise Untraceable(f"products of shapes {a.shape} and {b.shape} are not traced")
    if isinstance(b, ndarray) and a.ndim == 1:
        return tracer.put("dot", (a,), b.shape[1:], np.ascontiguousarray(b.T))
    if isinstance(a, ndarray) and b.ndim == 1:
        return tracer.put("dot", (b,), a.shape[:-1], a)
    return _sum(a * b, -1) if b.ndim == 1 else _sum(np.reshape(a, (-1, 1)) * b, 0)


# --------------------------------------------------------------------------------------------------------- shapes


def _joined(parts: Sequence[Any], axis: Any = 0) -> Any:
    """Write numbers and vectors one after the other."""
    parts = [_number(_gathered(part)) for part in parts]
    tracer = _tracer(parts)
    if any(np.ndim(part) > 1 for part in parts):
        raise Untraceable("tables are not joined")
    rows = [part.ravel() if isinstance(part, Symbol) else np.ravel(np.asarray(part, dtype=float)) for part in parts]
    sizes = tuple(row.size for row in rows)
    return tracer.put("join", rows, (sum(sizes),), sizes)


def _stacked(parts: Sequence[Any], axis: Any = 0) -> Any:
    """Write numbers, or vectors of one length, as a vector or a table."""
    parts = [_gathered(part) for part in parts]
    shapes = {np.shape(part) for part in parts}
    if len(shapes) != 1:
        raise Untraceable("it stacks shapes that differ")
    (shape,) = shapes
    whole = _joined(parts).reshape((len(parts), *shape))
    if axis not in (0, len(shape), -1):
        raise Untraceable("it stacks along an axis inside")
    return whole if axis == 0 or not shape else whole.T


def _outer(a: Any, b: Any) -> Any:
    return np.reshape(a, (-1, 1)) * np.reshape(b, (1, -1))


def _filled(value: float, a: Any) -> Any:
    return np.full(a.shape, value) if a.shape else value


# ------------------------------------------------------------------------------------------------------ the tables


def _ufuncs() -> dict[Any, Callable[..., Any]]:
    """Return what each function of one or two numbers writes."""
    single = {name: partial(_single, name) for name in UNARY}
    return {
        **single,
        **{getattr(np, name): partial(_pair, name, None) for name in BINARY},
        np.add: partial(_pair, "sum", (False, False)),
        np.subtract: partial(_pair, "sum", (False, True)),
        np.multiply: partial(_pair, "product", (False, False)),
        np.divide: partial(_pair, "product", (False, True)),
        np.float_power: partial(_pair, "power", None),
        np.maximum: partial(_pair, "max", None),
        np.minimum: partial(_pair, "min", None),
        np.bitwise_and: partial(_pair, "logical_and", None),
        np.bitwise_or: partial(_pair, "logical_or", None),
        np.bitwise_xor: partial(_pair, "logical_xor", None),
        np.invert: single["logical_not"],
        np.negative: single["minus"],
        np.absolute: single["abs"],
        np.fabs: single["abs"],
        np.positive: lambda a: a,
        np.deg2rad: lambda a: a * (np.pi / 180.0),
        np.radians: lambda a: a * (np.pi / 180.0),
        np.rad2deg: lambda a: a * (180.0 / np.pi),
        np.degrees: lambda a: a * (180.0 / np.pi),
        np.matmul: _matmul,
        (np.add, "reduce"): lambda a, axis=0, **words: _sum(a, axis, **words),
        (np.minimum, "reduce"): lambda a, axis=0, **words: _min(a, axis, **words),
        (np.maximum, "reduce"): lambda a, axis=0, **words: _max(a, axis, **words),
        (np.multiply, "reduce"): _prod,
    }


_OTHERS: dict[Any, Callable[..., Any]] = {
    np.sum: _sum,
    np.mean: _mean,
    np.average: _average,
    np.min: _min,
    np.amin: _min,
    np.max: _max,
    np.amax: _max,
    np.prod: _prod,
    np.var: _var,
    np.std: lambda a, axis=None, **words: np.sqrt(_var(a, axis, **words)),
    np.clip: _clip,
    np.where: _where,
    np.interp: _interp,
    np.polyval: _polyval,
    np.linalg.norm: _norm,
    np.cumsum: _cumsum,
    np.diff: _diff,
    getattr(np, "trapezoid", None) or np.trapz: _trapezoid,  # type: ignore[attr-defined]  # NumPy 1 has the other
    np.dot: _matmul,
    np.inner: _matmul,
    np.vdot: _matmul,
    np.outer: _outer,
    np.concatenate: _joined,
    np.hstack: _joined,
    np.stack: _stacked,
    np.vstack: _stacked,
    np.column_stack: partial(_stacked, axis=-1),
    np.reshape: lambda a, shape: a.reshape(shape),
    np.ravel: lambda a: a.ravel(),
    np.squeeze: lambda a: a.squeeze(),
    np.transpose: lambda a: a.T,
    np.atleast_1d: lambda a: a if a.shape else a.reshape(1),
    np.zeros_like: partial(_filled, 0.0),
    np.ones_like: partial(_filled, 1.0),
    np.full_like: lambda a, value: value + _filled(0.0, a),
    np.shape: lambda a: a.shape,
    np.ndim: lambda a: a.ndim,
    np.size: lambda a: a.size,
    np.real: lambda a: a,
    np.copy: lambda a: a,
}
WRITERS: Writers = _ufuncs() | _OTHERS
"""What each function writes."""
