"""Folding: g moves into the black box, whose outputs are then the values of the functions themselves.

Stored studies recognize a function by a hash of its class's name and of its source: keep both as they are.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy import ndarray

from pied.problem.casadi_door import Given
from pied.problem.doors import Door
from pied.problem.named import Function, Named
from pied.problem.white_box import WhiteBox


@runtime_checkable
class Evaluable(Protocol):
    """What the folded black box needs of a problem."""

    def point(self, x: Any) -> ndarray: ...

    def evaluate(self, x: Any) -> ndarray: ...

    def g(self, X: ndarray, Y: ndarray, which: Sequence[int] | None = None) -> list[ndarray]: ...


def folded_functions(white_box: WhiteBox, outputs: Mapping[int, str], m: int) -> list[Function]:
    """Return the functions of a folded problem: those at the given places read an output, the others stay white.

    Args:
        white_box: The functions.
        outputs: For places of functions, the name of the output that is their value.
        m: Number of outputs before.
    """
    functions: list[Function] = []
    for place, (function, door) in enumerate(zip(white_box.functions, white_box.doors, strict=True)):
        if place in outputs:
            functions.append(_Column(outputs[place], white_box.sign(place)))
        else:
            functions.append(_Known(function, door, m) if isinstance(function, Given) else function)
    return [_Renamed(functions[0], white_box.names[0]), *functions[1:]]


def folded_black_box(problem: Evaluable, places: Sequence[int]) -> Callable[[Named], list[float]]:
    """Return the black box of a folded problem: the functions at some places, after the black box of the problem."""
    return _Folded(problem, tuple(places))


@dataclass(frozen=True)
class _Column:
    """One output, times a sign."""

    name: str
    sign: float = 1.0

    def __call__(self, x: Named, y: Named) -> Any:
        return self.sign * y[self.name]


@dataclass(frozen=True)
class _Known:
    """A function of CasADi that uses x alone, though its arguments may be more."""

    given: Any
    door: Door = field(compare=False)
    m: int

    def __call__(self, x: Named, y: Named) -> Any:
        X = np.atleast_2d(x.array)
        return self.door.values(X, np.zeros((1, len(X), self.m))).reshape(x.array.shape[:-1])


@dataclass(frozen=True)
class _Renamed:
    """A function under another name."""

    function: Function
    __name__: str

    def __call__(self, x: Named, y: Named) -> Any:
        return self.function(x, y)


@dataclass(frozen=True)
class _Folded:
    """g after h, without the functions that are white."""

    problem: Evaluable
    kept: tuple[int, ...]

    def __call__(self, x: Named) -> list[float]:
        point, y = self.problem.point(x), self.problem.evaluate(x)
        return [value.reshape(-1)[0].item() for value in self.problem.g(point[None], y[None, None], self.kept)]
