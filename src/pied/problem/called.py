"""White-box functions that are called as they are: what cannot be traced (`if`, a root search, a property library).

A function is called on arrays where that gives the same as point by point, else point by point. Its slopes are taken
from differences, only where a value has a weight and only by the inputs that it uses.
"""

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy import ndarray

from pied.errors import WhiteBoxError
from pied.problem.named import Function, Named
from pied.problem.program import Back
from pied.problem.symbols import TRUE_OR_FALSE
from pied.problem.trace import Places
from pied.shapes import Float64

logger = logging.getLogger(__name__)

STEP = 6e-6
"""Step of a central difference, relative to the size of its input: the cube root of rounding. The size of a variable is
its own, for boxes over powers of ten, or the width of its box, if that is smaller or contains zero."""
LEAST_SHARE = 1e-3
"""An input smaller than this share of its largest value counts as this large: steps must not vanish near zero."""


@dataclass(eq=False)
class Called:
    """A function of (x, y) that is called, with slopes from differences."""

    name: str
    """What it is called in messages."""
    function: Function
    index: Places
    bounds: Float64[ndarray, "d 2"]
    """Ends of the variables: differences stay inside."""
    ranges: Float64[ndarray, "m 2"]
    """Ends of the outputs, infinite where open."""
    takes_number: bool = False
    """Whether it could not be traced because of `float`, or of a function of the module math."""
    on_arrays: bool = False
    """Whether it is called with all points at once."""
    uses_x: tuple[int, ...] = ()
    """Variables that change it."""
    uses_y: tuple[int, ...] = ()
    """Outputs that change it."""
    seconds: float = 0.0
    """What one point takes."""
    warned: set[str] = field(default_factory=set)
    """What was warned about: each failure is told once."""

    def values(self, X: Float64[ndarray, "b d"], Y: Float64[ndarray, "L b m"]) -> Float64[ndarray, "*L b"]:
        """Return the value, `L b`, or `b` if no output is used; NaN where the function fails."""
        if not self.uses_y:
            return self.at(X, Y[0])
        L, b, m = Y.shape
        return self.at(np.tile(X, (L, 1)), Y.reshape(L * b, m)).reshape(L, b)

    def traced(self, X: Float64[ndarray, "b d"], Y: Float64[ndarray, "L b m"]) -> tuple[Float64[ndarray, "*L b"], Back]:
        """Return the value, and the way back from weights of the value to slopes by x and y."""

        def back(weight: Float64[ndarray, "*L b"]) -> tuple[Float64[ndarray, "b d"], Float64[ndarray, "L b m"]]:
            by_x, by_Y = np.zeros(X.shape), np.zeros(Y.shape)
            samples, points = np.nonzero(np.atleast_2d(weight))
            if not len(points):
                return by_x, by_Y
            weights = np.atleast_2d(weight)[samples, points]
            for kind, place, slope in self._slopes(X[points], Y[samples, points], X, Y):
                if kind == "x":
                    by_x[:, place] = np.bincount(points, weights * slope, len(X))
                else:
                    by_Y[samples, points, place] = weights * slope
            return by_x, by_Y

        return self.values(X, Y), back

    def _slopes(
        self, X: Float64[ndarray, "n d"], Y: Float64[ndarray, "n m"], every_X: ndarray, every_Y: ndarray
    ) -> Iterator[tuple[str, int, Float64[ndarray, "n"]]]:
        """Yield the slope by each input that is used, from differences; the steps follow the size of the input."""
        moves = []
        for place in self.uses_x:
            lo, hi = self.bounds[place].tolist()
            size = np.minimum(hi - lo, np.abs(X[:, place])) if lo * hi > 0 else np.full(len(X), hi - lo)
            moves.append(("x", place, *_ends(X[:, place], STEP * size, lo, hi)))
        for place in self.uses_y:
            largest = LEAST_SHARE * float(np.abs(every_Y[..., place]).max()) or 1.0
            steps = STEP * np.maximum(np.abs(Y[:, place]), largest)
            moves.append(("y", place, *_ends(Y[:, place], steps, *self.ranges[place].tolist())))
        if not moves:
            return
        n, sides = len(X), 2 * len(moves)
        every_x, every_y = np.tile(X, (sides, 1)), np.tile(Y, (sides, 1))
        for turn, (kind, place, low, high) in enumerate(moves):
            moved = every_x if kind == "x" else every_y
            moved[2 * turn * n : (2 * turn + 1) * n, place] = low
            moved[(2 * turn + 1) * n : (2 * turn + 2) * n, place] = high
        f = self.at(every_x, every_y).reshape(sides, n)
        with np.errstate(all="ignore"):
            for turn, (kind, place, low, high) in enumerate(moves):
                yield kind, place, (f[2 * turn + 1] - f[2 * turn]) / (high - low)

    def at(self, X: Float64[ndarray, "n d"], Y: Float64[ndarray, "n m"]) -> Float64[ndarray, "n"]:
        """Return the value at pairs of points and outputs; NaN where the function fails."""
        if self.on_arrays:
            try:
                return self.together(X, Y[None])[0]
            except Exception as error:  # some of the points are outside of its domain: one at a time shows which
                self._warn(error)
        return np.array([self._one(x, y) for x, y in zip(X, Y, strict=True)])

    def together(self, X: Float64[ndarray, "b d"], Y: Float64[ndarray, "L b m"]) -> Float64[ndarray, "L b"]:
        """Call the function with arrays."""
        with np.errstate(all="ignore"):
            value = self.function(Named(self.index[0], locked(X)), Named(self.index[1], locked(Y)))
        if not isinstance(value, ndarray | float | int) or np.asarray(value).dtype.kind not in "fiu":
            raise TypeError(f"it returned {type(value).__name__}")
        return np.broadcast_to(np.asarray(value, dtype=float), Y.shape[:2])

    def alone(self, x: Float64[ndarray, "d"], y: Float64[ndarray, "m"]) -> float:
        """Call the function at one point; what it raises is raised."""
        with np.errstate(all="ignore"):
            value = self.function(Named(self.index[0], locked(x)), Named(self.index[1], locked(y)))
        return one_number(value)

    def _one(self, x: Float64[ndarray, "d"], y: Float64[ndarray, "m"]) -> float:
        try:
            return self.alone(x, y)
        except Exception as error:  # the function is the user's: it may raise anything where it was not tried
            self._warn(error)
            return float("nan")

    def _warn(self, error: Exception) -> None:
        kind = type(error).__name__
        if kind not in self.warned:
            self.warned.add(kind)
            logger.warning("'%s' raised %s (%s) at some points: they count as worst", self.name, kind, error)


def _ends(values: ndarray, steps: ndarray, lo: float, hi: float) -> tuple[ndarray, ndarray]:
    """Return values a step below and above, inside of the range."""
    return np.maximum(values - steps, lo), np.minimum(values + steps, hi)


def locked(array: ndarray) -> ndarray:
    """Return an array that cannot be changed in place."""
    view = array.view()
    view.setflags(write=False)
    return view


def one_number(value: Any) -> float:
    """Read what a function returned at one point, or say why it is not one real number."""
    if value is None:
        raise WhiteBoxError("returned nothing: is a 'return' missing?")
    if isinstance(value, bool | np.bool_) or (isinstance(value, ndarray) and value.dtype == np.bool_):
        raise WhiteBoxError(TRUE_OR_FALSE)
    kind = np.asarray(value).dtype.kind if isinstance(value, int | float | np.number | ndarray | complex) else "O"
    if kind == "c":
        raise WhiteBoxError("returned a complex number: functions of the white box are real.")
    if kind not in "fiu":
        raise WhiteBoxError(f"returned {type(value).__name__} instead of a number.")
    if np.size(value) != 1:
        raise WhiteBoxError(f"returned {np.size(value)} numbers for one point instead of one: reduce them, .sum(-1).")
    return float(np.asarray(value).reshape(-1)[0])
