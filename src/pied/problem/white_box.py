"""The white box g of a problem: its functions, their values and their slopes by x and y."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy import ndarray

from pied.problem.called import Called
from pied.problem.doors import Door, opened, way
from pied.problem.named import Function
from pied.problem.program import Program
from pied.problem.structure import Structure, found, probes
from pied.problem.trace import Places
from pied.problem.unknowns import Unknowns, wrapped
from pied.shapes import Float64

SLOW = 2e-6
"""Seconds that a point of a function on arrays may take: with 512 samples, a millisecond."""

Backs = Callable[[Any], tuple[Any, Any]]
"""From weights of functions' values to the slopes of their weighted sums by x and y: f L b -> f b d, f L b m."""


@dataclass(frozen=True)
class WhiteBox:
    """The objective and the constraints as functions of (x, y): the objective is maximized, constraints are >= 0."""

    names: tuple[str, ...]
    """The objective's name, then the constraints'."""
    functions: tuple[Function, ...]
    """As the user stated them, in the same order."""
    doors: tuple[Door, ...]
    """How each is computed."""
    is_white: tuple[bool, ...]
    """Which functions do not use the outputs."""
    negated: tuple[int, ...]
    """Places of the objectives whose sign is changed, because they are minimized."""

    @classmethod
    def tried(
        cls,
        names: tuple[str, ...],
        functions: Sequence[Function],
        X: Float64[ndarray, "b d"],
        bounds: Float64[ndarray, "d 2"],
        ranges: Float64[ndarray, "m 2"],
        negated: tuple[int, ...],
        index: Places,
        unknowns: Unknowns | None = None,
    ) -> tuple["WhiteBox", tuple[Structure, ...]]:
        """Try each function at some points, find its structure, and return the white box and all structures."""
        pair = probes(ranges, 1), probes(ranges, 2)
        every = ranges if unknowns is None else np.concatenate([ranges, unknowns.bounds])
        opens = [
            wrapped(opened(name, function, index, X, bounds, every), unknowns, index)
            for name, function in zip(names, functions, strict=True)
        ]
        tried = [found(name, door, X, pair) for name, door in zip(names, opens, strict=True)]
        doors, structures = zip(*tried, strict=True)
        is_white = tuple(each.kind == "white" for each in structures)
        return cls(names, tuple(functions), doors, is_white, negated), structures

    def values(
        self, X: Float64[ndarray, "b d"], Y: Float64[ndarray, "L b m"], which: Sequence[int] | None = None
    ) -> list[ndarray]:
        """Evaluate functions, see `Problem.g`."""
        values = []
        for place in range(len(self.names)) if which is None else which:
            value = self.doors[place].values(X, Y)
            if self.is_white[place] and value.ndim == 2:
                value = value[0]
            values.append(-value if self.sign(place) < 0 else value)
        return values

    def sign(self, place: int) -> float:
        """Return -1 for an objective that is minimized, else 1."""
        return -1.0 if place in self.negated else 1.0

    def of_first(self, k: int) -> "WhiteBox":
        """Return the white box of the first k functions alone."""
        if k == len(self.names):
            return self
        negated = tuple(place for place in self.negated if place < k)
        return WhiteBox(self.names[:k], self.functions[:k], self.doors[:k], self.is_white[:k], negated)

    def traced(
        self, X: Float64[ndarray, "b d"], Y: Float64[ndarray, "L b m"], which: Sequence[int]
    ) -> tuple[Float64[ndarray, "f L b"], Backs]:
        """Evaluate functions, and return the way back, see `Problem.traced`."""
        traces = [(self.sign(place), *self.doors[place].traced(X, Y)) for place in which]

        def back(weights: Any) -> tuple[Any, Any]:
            slopes = []
            for (sign, g, way_back), weight in zip(traces, weights, strict=True):
                weight = weight if sign > 0 else -weight
                slopes.append(way_back(weight if g.ndim == 2 else weight.sum(0)))
            by_x, by_Y = zip(*slopes, strict=True)
            return _stacked(by_x, X.shape), _stacked(by_Y, Y.shape)

        return _stacked([g if sign > 0 else -g for sign, g, _ in traces], Y.shape[:2]), back

    def ways(self) -> dict[str, str]:
        """Return how each function is computed, in words."""
        return {name: way(door) for name, door in zip(self.names, self.doors, strict=True)}

    @property
    def programs(self) -> set[str]:
        """Names of the functions that became programs."""
        return {name for name, door in zip(self.names, self.doors, strict=True) if isinstance(door, Program)}

    @cached_property
    def slow(self) -> tuple[int, ...]:
        """Places of the functions that take long for many points and samples."""
        return tuple(
            place
            for place, door in enumerate(self.doors)
            if isinstance(door, Called) and not (door.on_arrays and door.seconds < SLOW)
        )


def _stacked(parts: Sequence[ndarray], shape: tuple[int, ...]) -> Any:
    """Stack arrays after broadcasting each to a shape; a single one that has this shape is not copied."""
    if len(parts) == 1 and parts[0].shape == shape:
        return parts[0][None]
    stack = np.empty((len(parts), *shape))
    for row, part in enumerate(parts):
        stack[row] = part
    return stack
