"""Checks of shapes at a price that every test can pay.

jaxtyping checks every call of every function, and makes a function defined within another anew each time: a study under
it takes some twenty times as long. Yet the thousandth call of a function seldom differs in kind from the first ones. So
in each test the first calls of a function are checked, and of the later ones the 16th, the 32nd, the 64th, ...
"""

import functools
from collections import Counter
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

import jaxtyping

FIRST = 8
"""Calls of a function that are checked in each test before it is only looked at now and then."""

_thorough = jaxtyping.jaxtyped


class _Kept:
    """What changes from call to call; in a class, because functions are recognized by the values that they read."""

    calls: ClassVar[Counter[CodeType]] = Counter()
    checked: ClassVar[WeakKeyDictionary[FunctionType, Callable[..., Any]]] = WeakKeyDictionary()
    """Functions with their checks."""


def is_looked_at(call: int) -> bool:
    """Whether the so-many-th call of a function is checked: the first ones, then at every doubling."""
    return call <= FIRST or call & (call - 1) == 0


def sparingly(*, typechecker: Callable[..., Any]) -> Callable[[Any], Any]:
    """`jaxtyping.jaxtyped`, for functions now and then, for classes always."""

    def decorated(stated: Any) -> Any:
        if not isinstance(stated, FunctionType):
            return _thorough(typechecker=typechecker)(stated)

        @functools.wraps(stated)
        def called(*args: Any, **words: Any) -> Any:
            _Kept.calls[stated.__code__] += 1
            if not is_looked_at(_Kept.calls[stated.__code__]):
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
