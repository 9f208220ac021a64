"""White-box functions given as functions of CasADi, with CasADi's own derivatives."""

import sys
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy import ndarray

from pied.errors import WhiteBoxError, did_you_mean
from pied.problem.named import Named
from pied.problem.program import Back
from pied.problem.trace import Places
from pied.shapes import Float64


@dataclass(frozen=True)
class Given:
    """A function as the user gave it."""

    text: str
    """By which stored studies recognize it."""
    function: Any = field(compare=False)

    def __call__(self, x: Named, y: Named) -> Any:
        """Evaluate at one point or many."""
        index = {name: place for place, name in enumerate(x)}, {name: place for place, name in enumerate(y)}
        X, Y = np.atleast_2d(x.array), y.array.reshape(-1, x.array.size // len(x), len(y))
        return opened("the function", self.function, index).values(X, Y).reshape(y.array.shape[:-1])


def is_casadi(given: Any) -> bool:
    """Tell whether something is a function of CasADi; CasADi is not loaded for it."""
    casadi = sys.modules.get("casadi")
    return casadi is not None and isinstance(given, casadi.Function)


@dataclass(frozen=True, eq=False)
class CasadiFunction:
    """A function whose arguments are columns of x and y."""

    function: Any
    arguments: tuple[tuple[str, list[int]], ...]
    """For each argument: of x or y, and its columns."""

    def values(self, X: Float64[ndarray, "b d"], Y: Float64[ndarray, "L b m"]) -> Float64[ndarray, "*L b"]:
        """Return the value, `L b`, or `b` if no output is used."""
        return np.asarray(self.function(*self._columns(X, Y))).reshape(self._shape(Y))

    def traced(self, X: Float64[ndarray, "b d"], Y: Float64[ndarray, "L b m"]) -> tuple[Float64[ndarray, "*L b"], Back]:
        """Return the value, and the way back from weights of the value to slopes by x and y."""
        columns, shape = self._columns(X, Y), self._shape(Y)
        value = np.asarray(self.function(*columns))

        def back(weight: Float64[ndarray, "*L b"]) -> tuple[Float64[ndarray, "b d"], Float64[ndarray, "L b m"]]:
            by_x, by_Y = np.zeros(X.shape), np.zeros(Y.shape)
            found = self._reverse(*columns, value, weight.reshape(1, -1))
            found = found if isinstance(found, tuple | list) else (found,)
            for (kind, places), slope in zip(self.arguments, found, strict=True):
                slopes = np.moveaxis(np.asarray(slope).reshape(len(places), *shape), 0, -1)
                if kind == "y":
                    by_Y[..., places] += slopes
                else:
                    by_x[:, places] += slopes.reshape(-1, *X.shape[:1], len(places)).sum(0)
            return by_x, by_Y

        return value.reshape(shape), back

    @cached_property
    def _reverse(self) -> Any:
        return self.function.reverse(1)

    @cached_property
    def _uses_y(self) -> bool:
        return any(kind == "y" for kind, _ in self.arguments)

    def _shape(self, Y: ndarray) -> tuple[int, ...]:
        return Y.shape[:2] if self._uses_y else Y.shape[1:2]

    def _columns(self, X: ndarray, Y: ndarray) -> list[ndarray]:
        """Return the arguments with one column for each pair of a point and a sample."""
        L, b, m = Y.shape
        x = np.tile(X, (L, 1)) if self._uses_y else X
        every = {"x": x.T, "y": Y.reshape(L * b, m).T}
        return [np.ascontiguousarray(every[kind][places]) for kind, places in self.arguments]


def opened(name: str, function: Any, index: Places) -> CasadiFunction:
    """Return how a function of CasADi is computed; its arguments are found by name.

    An argument called x or y, if nothing else has that name, is all variables or all outputs in order.
    """
    if function.n_out() != 1 or function.size_out(0) != (1, 1):
        sizes = [function.size_out(i) for i in range(function.n_out())]
        raise WhiteBoxError(f"'{name}' should return one number, this CasADi function has results of shapes {sizes}.")
    known = {each: (kind, [place]) for kind, names in zip("xy", index, strict=True) for each, place in names.items()}
    known = {kind: (kind, list(range(len(names)))) for kind, names in zip("xy", index, strict=True)} | known
    arguments = []
    for i in range(function.n_in()):
        argument = function.name_in(i)
        if argument not in known:
            near = did_you_mean(argument, known)
            raise WhiteBoxError(
                f"'{name}' has an argument '{argument}', which is neither a variable nor an output, nor x or y for all "
                f"of them.{near} Name them: casadi.Function('f', [...], [...], ['x', 'y'], ['f'])."
            )
        kind, places = known[argument]
        if function.size_in(i) != (len(places), 1):
            raise WhiteBoxError(
                f"'{name}': argument '{argument}' has shape {function.size_in(i)} and should have {(len(places), 1)}."
            )
        arguments.append((kind, places))
    return CasadiFunction(function, tuple(arguments))
