"""Folding: g moves into the black box, whose outputs are then the values of the functions themselves.

Stored studies recognize a function by a hash of its class's name and of its source: keep both as they are.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from jaxtyping import Float64
from torch import Tensor

from pied.problem.named import Function, Named
from pied.problem.white_box import WhiteBox


@runtime_checkable
class Evaluable(Protocol):
    """What the folded black box needs of a problem."""

    def point(self, x: Any) -> Tensor: ...

    def evaluate(self, x: Any) -> Tensor: ...

    def g(self, X: Tensor, Y: Tensor, which: Sequence[int] | None = None) -> list[Tensor]: ...


def folded_functions(white_box: WhiteBox, outputs: Mapping[int, str]) -> list[Function]:
    """Return the functions of a folded problem: those at the given places read an output, the others stay white."""
    functions = [
        _Column(outputs[place], white_box.sign(place)) if place in outputs else function
        for place, function in enumerate(white_box.functions)
    ]
    return [_Renamed(functions[0], white_box.names[0]), *functions[1:]]


def folded_black_box(problem: Evaluable, places: Sequence[int]) -> Callable[[Named], list[float]]:
    """Return the black box of a folded problem: the functions at some places, after the black box of the problem."""
    return _Folded(problem, tuple(places))


@dataclass(frozen=True)
class _Column:
    """One output, times a sign."""

    name: str
    sign: float = 1.0

    def __call__(self, x: Named, y: Named) -> Float64[Tensor, "L b"]:
        return self.sign * y[self.name]


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
