"""Checks of shapes at a price that every test can pay.

jaxtyping checks every call of every function, and makes a function defined within another anew each time: a study under
it takes some twenty times as long. Yet the thousandth call of a function seldom differs in kind from the first ones,
and functions that state no array are left to mypy. So in each test the first calls of a function of arrays are checked,
and of the later ones the 16th, the 32nd, the 64th, ...; of a function within another, given its checks anew, the first.
"""

import functools
import os
from collections import Counter
from collections.abc import Callable
from dataclasses import is_dataclass
from types import CodeType, FunctionType
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

import jaxtyping

FIRST = 2
"""Calls of a function that are checked in each test before it is only looked at now and then."""

_thorough = jaxtyping.jaxtyped


class _Kept:
    """What changes from call to call; in a class, because functions are recognized by the values that they read."""

    calls: ClassVar[Counter[FunctionType | CodeType]] = Counter()
    checked: ClassVar[WeakKeyDictionary[FunctionType, Callable[..., Any]]] = WeakKeyDictionary()
    """Functions with their checks."""


def is_looked_at(call: int) -> bool:
    """Whether the so-many-th call of a function is checked: the first ones, then at every doubling from the 16th."""
    return call <= FIRST or (call >= 16 and call & (call - 1) == 0)


def states_arrays(function: FunctionType) -> bool:
    """Whether a function says which shapes it takes or returns. `PIED_SHAPES=1` checks the others' types as well."""
    return "PIED_SHAPES" in os.environ or any("jaxtyping" in repr(said) for said in function.__annotations__.values())


def sparingly(*, typechecker: Callable[..., Any]) -> Callable[[Any], Any]:
    """`jaxtyping.jaxtyped`, for functions and for what makes data classes, now and then."""

    def decorated(stated: Any) -> Any:
        if is_dataclass(stated) and "__init__" in vars(stated):
            stated.__init__ = decorated(stated.__init__)  # type: ignore[misc]
        if not isinstance(stated, FunctionType) or not states_arrays(stated):
            return stated
        if "<locals>" in stated.__qualname__:
            _Kept.calls[stated.__code__] += 1
            is_checked = _Kept.calls[stated.__code__] == 1 and not jaxtyping.config.jaxtyping_disable
            return _thorough(typechecker=typechecker)(stated) if is_checked else stated

        @functools.wraps(stated)
        def called(*args: Any, **words: Any) -> Any:
            if jaxtyping.config.jaxtyping_disable:
                return stated(*args, **words)
            _Kept.calls[stated] += 1
            if not is_looked_at(_Kept.calls[stated]):
                return stated(*args, **words)
            if stated not in _Kept.checked:
                _Kept.checked[stated] = _thorough(typechecker=typechecker)(stated)
            return _Kept.checked[stated](*args, **words)

        return called

    return decorated


def install() -> None:
    """Take the place of jaxtyping's own decorator in every module that is loaded from here on."""
    jaxtyping.jaxtyped = sparingly


def begin() -> None:
    """Count the calls of every function from zero: at the beginning of each test."""
    _Kept.calls.clear()
