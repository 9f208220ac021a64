"""The doors by which a function of (x, y) comes in: how its values and slopes are computed.

| what the user gives | how it is computed | slopes |
| --- | --- | --- |
| a text formula, a SymPy expression | as a program | exact |
| a Python function | traced to a program, if it can be | exact |
| a CasADi function | by CasADi | its own |
| a function written in torch | on tensors | torch's own |
| any other function | called, on arrays or point by point | differences |

A function is meant for one point: `x.a` is a number, `y.array` a vector. What a program or an array computes for many
points at once is compared with the function at single points before it is believed.
"""

import logging
import sys
import time
from contextlib import suppress
from dataclasses import replace
from types import ModuleType
from typing import Any, NoReturn, Protocol, runtime_checkable

import numpy as np
from numpy import ndarray

from pied.errors import UnknownName, WhiteBoxError
from pied.problem import casadi_door, sympy_door
from pied.problem.called import Called
from pied.problem.formula import Formula
from pied.problem.named import Function
from pied.problem.program import Back, Program
from pied.problem.symbols import TakesNumber
from pied.problem.trace import Places, trace
from pied.rng import Stream
from pied.shapes import Float64

logger = logging.getLogger(__name__)

SAMPLES, POINTS = 2, 6
"""Size of the tiny batch on which functions are tried: L and b differ, so that swapped axes are noticed."""
SAME = 1e-9
"""Relative difference of two ways to compute a function that counts as rounding."""
REPEATED = 1e-6
"""Relative difference of two calls at one point that a root search may leave; more is told."""
LONGEST_REASON = 1000
"""Characters kept of an error message that a function raised."""


@runtime_checkable
class Door(Protocol):
    """A function of (x, y) for many points and samples."""

    def values(self, X: Float64[ndarray, "b d"], Y: Float64[ndarray, "L b m"]) -> Float64[ndarray, "*L b"]:
        """Return the value, `L b`, or `b` if no output is used."""

    def traced(self, X: Float64[ndarray, "b d"], Y: Float64[ndarray, "L b m"]) -> tuple[Float64[ndarray, "*L b"], Back]:
        """Return the value, and the way back from weights of the value to slopes by x and y."""


def opened(
    name: str,
    function: Function,
    index: Places,
    X: Float64[ndarray, "b d"],
    bounds: Float64[ndarray, "d 2"],
    ranges: Float64[ndarray, "m 2"],
) -> Door:
    """Return how a function is computed, or explain why it cannot be.

    Args:
        name: What it is called in messages.
        function: What the user gave.
        index: The places of the names of x and of y.
        X: Some points of the box, natural units.
        bounds: Ends of the variables.
        ranges: Ends of the outputs, infinite where open.
    """
    if isinstance(function, Formula):
        return function.program
    if isinstance(function, casadi_door.Given):
        return casadi_door.opened(name, function.function, index)
    if isinstance(function, sympy_door.Given):
        return sympy_door.program(name, function, index)
    X = X[:POINTS]
    part = 0.25 + 0.5 * Stream(0).at("tiny batch").uniform(SAMPLES, len(X), len(ranges))
    Y = inside(ranges, part)
    called = Called(name, function, index, bounds, ranges)
    try:
        program = trace(function, index)
        alone = _alone(called, X, Y)
        if _agree(program.values(X, Y), alone):
            return program
    except UnknownName as error:
        _explain_name(name, error, index)
    except Exception as error:
        return _not_traced(called, error, X, Y)
    return _not_traced(called, None, X, Y)


def way(door: Door) -> str:
    """Say in words how a function is computed and what it costs."""
    inner = getattr(door, "inner", None)
    if inner is not None:
        return f"{way(inner)}, after its unknowns are solved for"
    if isinstance(door, Program):
        return f"a program of {len(door.steps)} steps with exact slopes"
    if isinstance(door, Called):
        inputs = len(door.uses_x) + len(door.uses_y)
        how = "called on arrays" if door.on_arrays else "called point by point"
        return f"{how}, {_time(door.seconds)} a point, slopes by differences ({2 * inputs} calls)"
    return "by CasADi with its own slopes" if isinstance(door, casadi_door.CasadiFunction) else "on tensors of torch"


def _time(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.2g} {unit}"
    return f"{seconds / 1e-6:.2g} us"


def inside(ranges: Float64[ndarray, "m 2"], part: Float64[ndarray, "*b m"]) -> Float64[ndarray, "*b m"]:
    """Return the values at a fraction of the way from the lower to the upper end; an open end is taken to be 1 away."""
    lo, hi = ranges.T
    lo = np.where(np.isfinite(lo), lo, np.where(np.isfinite(hi), hi - 1, 0.0))
    hi = np.where(np.isfinite(hi), hi, lo + 1)
    return lo * (1 - part) + hi * part


def _alone(called: Called, X: Float64[ndarray, "b d"], Y: Float64[ndarray, "L b m"]) -> Float64[ndarray, "L b"]:
    """Return the values of a function at single points; one point that fails is enough to raise."""
    return np.array([[called.alone(x, y) for x, y in zip(X, row, strict=True)] for row in Y])


def _agree(a: ndarray, b: Float64[ndarray, "L b"]) -> bool:
    """Tell whether two ways to compute a function give the same, but for rounding."""
    size = np.abs(b[np.isfinite(b)]).max(initial=0.0)
    return bool(np.allclose(np.broadcast_to(a, b.shape), b, rtol=SAME, atol=1e-12 * size, equal_nan=True))


def _not_traced(called: Called, error: Exception | None, X: ndarray, Y: ndarray) -> Door:
    """Return the door of a function that cannot be traced: torch, arrays or single points."""
    if error is not None and _uses_torch(called.function, error):
        return _on_tensors(called, X, Y)
    alone, failure = _tried(called, X, Y)
    try:
        together = called.together(X, Y)
        one = called.together(X[1:2], Y[1:2, 1:2])
        on_arrays = _agree(together[1:2, 1:2], one) and (alone is None or _agree(together, alone))
    except Exception:  # not written for arrays: no reason to refuse it
        on_arrays = False
    if alone is None and not on_arrays:
        assert failure is not None
        is_known = isinstance(failure, UnknownName | WhiteBoxError)
        if "torch" in sys.modules and isinstance(failure, AttributeError | TypeError) and not is_known:
            with suppress(WhiteBoxError):  # written in torch, though that did not show
                return _on_tensors(called, X, Y)
        _explain(called.name, failure, called.index)
    made = replace(called, on_arrays=on_arrays, takes_number=isinstance(error, TakesNumber))
    start = time.perf_counter()
    again = made.at(np.tile(X, (len(Y), 1)), Y.reshape(-1, Y.shape[-1]))
    seconds = (time.perf_counter() - start) / len(again)
    if alone is not None and not np.allclose(again, alone.ravel(), rtol=REPEATED, equal_nan=True):
        logger.warning("'%s' has another value when it is called again at the same point: is it random?", called.name)
    return replace(made, seconds=seconds, warned=set())


def _on_tensors(called: Called, X: ndarray, Y: ndarray) -> Door:
    """Return the door of a function written in torch, or explain what it does wrong."""
    from pied.problem.torch_door import TorchFunction

    door = TorchFunction(called.name, called.function, called.index)
    door.try_out(X, Y)
    return door


def _tried(called: Called, X: ndarray, Y: ndarray) -> tuple[Float64[ndarray, "L b"] | None, Exception | None]:
    """Call a function at single points: values, NaN where it fails; None, and the error, if it fails everywhere."""
    values, failure = np.full(Y.shape[:2], np.nan), None
    fails = 0
    for sample in range(len(Y)):
        for point in range(len(X)):
            try:
                values[sample, point] = called.alone(X[point], Y[sample, point])
            except (UnknownName, WhiteBoxError) as error:
                return None, error
            except Exception as error:  # the function is the user's: it may raise anything
                failure, fails = failure or error, fails + 1
                if "read-only" in str(error):
                    return None, error
    return (None, failure) if fails == values.size else (values, failure)


def _uses_torch(function: Any, error: Exception) -> bool:
    """Tell whether a function is written in torch, from what it names and from what it raised on symbols."""
    if "torch" not in sys.modules:
        return False
    if "Tensor" in str(error) or "torch" in str(error):
        return True
    names, code = getattr(function, "__globals__", {}), getattr(function, "__code__", None)
    used = [names.get(each) for each in code.co_names] if code is not None else []
    with suppress(ValueError):  # a cell that is not bound yet
        used += [each.cell_contents for each in getattr(function, "__closure__", None) or ()]
    homes = (each.__name__ if isinstance(each, ModuleType) else type(each).__module__ for each in used)
    return any(home.partition(".")[0] == "torch" for home in homes)


def _explain(name: str, error: Exception, index: Places) -> NoReturn:
    """Raise an error that says what a function did."""
    if isinstance(error, UnknownName):
        _explain_name(name, error, index)
    if isinstance(error, WhiteBoxError):
        raise WhiteBoxError(f"'{name}' {error}") from error
    if "read-only" in str(error) or "'Named' object" in str(error):
        raise WhiteBoxError(
            f"'{name}' changes x or y in place (y.array[...] = ..., y.a += 1 and the like): make a new one, y.a + 1, "
            "np.where or np.clip, or change a copy, y.array.copy()."
        ) from error
    if "'method'" in str(error) or "'function'" in str(error):
        raise WhiteBoxError(
            f"'{name}' uses a name that is also a method of x and y: write it as an item, y['values'] instead of "
            "y.values."
        ) from error
    first = (str(error).splitlines() or [""])[0][:LONGEST_REASON]
    raise WhiteBoxError(f"'{name}' raised {type(error).__name__} wherever it was tried: {first}") from error


def _explain_name(name: str, error: UnknownName, index: Places) -> NoReturn:
    """Raise an error that says where a name belongs, or that it does not exist."""
    asked = error.args[1] if len(error.args) > 1 else None
    for letter, word, names in (("x", "a variable", index[0]), ("y", "an output", index[1])):
        if asked in names:
            raise WhiteBoxError(
                f"'{name}' looks for '{asked}' in the wrong place: it is {word}, write {letter}[{asked!r}]."
            ) from error
    raise WhiteBoxError(f"'{name}' uses a name that does not exist. {error}") from error
