"""Call a black box with what its signature asks for: the whole point, or variables as arguments, and a warm start."""

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pied.errors import StatementError, closest, did_you_mean
from pied.problem.named import Named, canonical
from pied.problem.values import listed

_BY_PLACE = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
OFFERED = ("near", "state")
"""Arguments for warm starts: the nearest told point, and a folder for the state; the second only beside the first."""


@dataclass(frozen=True)
class Warm:
    """A function of a point that can also start from what is known nearby."""

    function: Callable[..., Any]
    offered: frozenset[str]
    """Which of `OFFERED` it takes."""

    def __call__(self, x: Named, near: Any = None, state: Any = None) -> Any:
        given = {"near": near, "state": state}
        return self.function(x, **{word: given[word] for word in OFFERED if word in self.offered})


@dataclass(frozen=True)
class Unpacked:
    """A function of single variables as a function of a point."""

    function: Callable[..., Any]
    by_place: tuple[str, ...]
    """Variables that are passed by their place, in order."""
    by_name: tuple[tuple[str, str], ...]
    """Arguments that are passed by name, each with its variable."""

    def __call__(self, x: Named, **warm: Any) -> Any:
        named = {word: x[name] for word, name in self.by_name}
        return self.function(*(x[name] for name in self.by_place), **named, **warm)


@dataclass(frozen=True)
class OfOne:
    """A function of the only variable, by its name, as a function of a point.

    The number also answers to its name, because `lambda x: x.x` is as common as `lambda x: x`.
    """

    function: Callable[..., Any]
    variable: str

    def __call__(self, x: Named, **warm: Any) -> Any:
        answer = self.function(_answering(x[self.variable], self.variable), **warm)
        return x[self.variable] if isinstance(answer, _Answering) else answer  # it came back as it was


class _Answering:
    """A value that has its own name: `x.x` and `x["x"]` are x."""

    _own = ""

    def __getattr__(self, name: str) -> Any:
        if name == self._own and name:
            return self
        raise AttributeError(f"The only variable is '{self._own}': there is no '{name}'.")

    def __getitem__(self, name: Any) -> Any:
        if name == self._own or (name == 0 and not isinstance(self, str)):
            return self
        return super().__getitem__(name)  # type: ignore[misc]

    def keys(self) -> list[str]:
        """Return the name, so that `dict(x)` and `**x` work as with several variables."""
        return [self._own]

    def values(self) -> list[Any]:
        """Return the value alone."""
        return [self]

    def items(self) -> list[tuple[str, Any]]:
        """Return the name and the value."""
        return [(self._own, self)]


class _Number(_Answering, float):
    """The number of the only variable."""


class _Count(_Answering, int):
    """The whole number of the only variable."""


class _Label(_Answering, str):
    """The label of the only variable."""


def _answering(value: Any, name: str) -> Any:
    """Return a value that answers to its own name."""
    made = (_Label if isinstance(value, str) else _Count if isinstance(value, int) else _Number)(value)
    made._own = name
    return made


def plain(blackbox: Any) -> Any:
    """Return the function that a user gave from what `of_point` made of it."""
    while isinstance(blackbox, Warm | OfOne | Unpacked):
        blackbox = blackbox.function
    return blackbox


def of_point(given: Callable[..., Any], variables: Mapping[str, Any]) -> Callable[..., Any]:
    """Return a black box as a function of one point.

    A function of one positional argument gets the point, unless that is the name of the only variable. Any other
    function gets the variables that it names. One that takes `near` is also given warm starts.
    """
    if isinstance(getattr(given, "offered", None), frozenset):  # a command, or read before
        return given
    try:
        arguments = list(inspect.signature(given).parameters.values())
    except (TypeError, ValueError):  # a built-in function without a signature: the first call will show
        return given
    known = {canonical(name): name for name in variables}
    asked = [each for each in arguments if each.kind in _BY_NAME and each.name in OFFERED and each.name not in known]
    takes_near = any(each.name == "near" for each in asked)
    if not takes_near or arguments[0] in asked:  # the second: a function of one point that calls it so
        return _of_point(given, arguments, known)
    rest = [each for each in arguments if each not in asked]
    return Warm(_of_point(given, rest, known), frozenset(each.name for each in asked))


def _of_point(
    given: Callable[..., Any], arguments: list[inspect.Parameter], known: Mapping[str, str]
) -> Callable[..., Any]:
    """Return a function with these arguments, those of warm starts left out, as a function of one point."""
    named = [each for each in arguments if each.kind in (*_BY_PLACE, *_BY_NAME) and canonical(each.name) in known]
    takes_all = any(each.kind is inspect.Parameter.VAR_KEYWORD for each in arguments)
    placed = [each for each in arguments if each.kind in _BY_PLACE]
    needed = [
        each
        for each in arguments
        if each.default is inspect.Parameter.empty and each.kind in (*_BY_PLACE, inspect.Parameter.KEYWORD_ONLY)
    ]
    takes_any = any(each.kind is inspect.Parameter.VAR_POSITIONAL for each in arguments)
    first = placed[0] if placed else None
    is_named = first is not None and first in named
    if len(known) == 1 and is_named and needed in ([], [first]):
        is_plain = inspect.isroutine(given) or isinstance(given, functools.partial)
        return (
            OfOne(given, next(iter(known.values()))) if is_plain else given
        )  # an object with __call__ was written for x
    of_one = needed == [first] or (not needed and (bool(placed) or takes_any))
    if of_one and (not is_named or (len(named) == 1 and not takes_all)):
        return given
    return _unpacked(given, arguments, named, takes_all, known)


def _unpacked(
    given: Callable[..., Any],
    arguments: list[inspect.Parameter],
    named: list[inspect.Parameter],
    takes_all: bool,
    known: Mapping[str, str],
) -> Unpacked:
    """Return a function of single variables as one of a point, or say which argument is not a variable."""
    called = getattr(given, "__name__", "function")
    variables = list(known.values())
    if not named and not takes_all:
        asked = ", ".join(each.name for each in arguments)
        raise StatementError(
            f"blackbox should be a function of one argument x, or of variables by their names, {listed(variables)}; "
            f"{called}({asked}) is neither." + (_meant(arguments, variables) if arguments else "")
        )
    for each in arguments:
        is_free = each.kind in (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
        if each not in named and each.default is inspect.Parameter.empty and not is_free:
            raise StatementError(
                f"{called}() of blackbox= needs '{each.name}', which is not a variable."
                f"{did_you_mean(each.name, variables)} Other arguments need a default."
            )
    taken = {canonical(each.name) for each in named}
    left = [] if takes_all else [name for word, name in known.items() if word not in taken]
    spare = [each.name for each in arguments if each not in named]
    for name in left:
        near = closest(name, spare)
        if near is not None:
            raise StatementError(
                f"{called}() of blackbox= takes '{near}', and there is a variable '{name}': give both the same name, "
                f"else '{name}' would never reach it."
            )
    by_place = []
    for each in arguments:
        if each.kind is not inspect.Parameter.POSITIONAL_ONLY or each not in named:
            break
        by_place.append(known[canonical(each.name)])
    by_name = [
        (each.name, known[canonical(each.name)]) for each in named if each.kind is not inspect.Parameter.POSITIONAL_ONLY
    ]
    by_name += [(name, name) for word, name in known.items() if takes_all and word not in taken]
    return Unpacked(given, tuple(by_place), tuple(by_name))


def _meant(arguments: list[inspect.Parameter], variables: list[str]) -> str:
    """Return a hint if an argument is almost a variable's name."""
    pairs = ((each.name, closest(each.name, variables)) for each in arguments)
    return next((f" Is '{name}' the variable '{near}'?" for name, near in pairs if near), "")
