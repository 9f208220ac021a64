"""The functions of a subproblem: what a search asks of them, and views of some functions or some coordinates."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, runtime_checkable

import numpy as np
from numpy import ndarray

from pied.shapes import Bool, Float64


@runtime_checkable
class Functions(Protocol):
    """Bound functions on the unit cube, objective first; `white` lists the constraints that are known exactly."""

    @property
    def k(self) -> int:
        """Number of functions."""

    @property
    def white(self) -> Sequence[int]:
        """Positions of the constraints that are known exactly."""

    def values(self, U: Float64[ndarray, "b d"]) -> Float64[ndarray, "b k"]:
        """Return all functions, fast, for screening."""

    def values_and_slopes(
        self, U: Float64[ndarray, "b d"]
    ) -> tuple[Float64[ndarray, "b k"], Float64[ndarray, "b k d"]]:
        """Return all functions and their slopes at full precision."""


@runtime_checkable
class Refined(Protocol):
    """Functions that have a cheaper version, good enough to find where to look."""

    def coarse(self) -> Functions | None:
        """Return the cheaper version; None when it would not be cheaper."""


@dataclass(frozen=True, eq=False)
class Picked:
    """A selection of functions; the first one selected becomes the objective."""

    functions: Functions
    which: tuple[int, ...]

    @property
    def k(self) -> int:
        """Number of functions picked."""
        return len(self.which)

    @property
    def white(self) -> tuple[int, ...]:
        """Positions of the white constraints among them."""
        return tuple(position for position, i in enumerate(self.which) if position and i in self.functions.white)

    def coarse(self) -> "Picked | None":
        """Return the cheaper version of the functions."""
        cheaper = self.functions.coarse() if isinstance(self.functions, Refined) else None
        return None if cheaper is None else Picked(cheaper, self.which)

    def values(self, U: Float64[ndarray, "b d"]) -> Float64[ndarray, "b k"]:
        """Return them for screening."""
        return self.functions.values(U)[:, list(self.which)]

    def values_and_slopes(
        self, U: Float64[ndarray, "b d"]
    ) -> tuple[Float64[ndarray, "b k"], Float64[ndarray, "b k d"]]:
        """Return them and their slopes."""
        f, J = self.functions.values_and_slopes(U)
        return f[:, list(self.which)], J[:, list(self.which)]


@dataclass(frozen=True, eq=False)
class Held:
    """Functions whose slopes by some coordinates are 0, so that local solves leave these as they are."""

    functions: Functions
    held: Bool[ndarray, "d"]
    inside: Float64[ndarray, "k"]
    """Taken off each function that the others change: so far inside its constraints a solve ends, which stops a little
    before or behind."""

    @property
    def k(self) -> int:
        """Number of functions."""
        return self.functions.k

    @property
    def white(self) -> Sequence[int]:
        """Positions of the constraints that are known exactly."""
        return self.functions.white

    def values(self, U: Float64[ndarray, "b d"]) -> Float64[ndarray, "b k"]:
        """Return them for screening."""
        return self.functions.values(U)

    def values_and_slopes(
        self, U: Float64[ndarray, "b d"]
    ) -> tuple[Float64[ndarray, "b k"], Float64[ndarray, "b k d"]]:
        """Return them, and their slopes by the coordinates that may move."""
        f, J = self.functions.values_and_slopes(U)
        J = np.where(self.held, 0.0, J)
        return f - self.inside * (J != 0).any(2), J


@dataclass(frozen=True, eq=False)
class Part:
    """A box inside of a cube, and its free coordinates, each from 0 to 1 over its range; the others have one value."""

    low: Float64[ndarray, "w"]
    high: Float64[ndarray, "w"]
    """Ends of the box; equal where a coordinate has one value."""

    @cached_property
    def free(self) -> Bool[ndarray, "w"]:
        """Which coordinates are free."""
        return np.asarray(self.low < self.high)

    def whole(self, Z: Float64[ndarray, "b z"]) -> Float64[ndarray, "b w"]:
        """Return complete points from their free coordinates."""
        points = np.repeat(self.low[None], len(Z), 0)
        points[:, self.free] += Z * self.width
        return np.minimum(points, self.high)

    def reduced(self, W: Float64[ndarray, "b w"]) -> Float64[ndarray, "b z"]:
        """Return the free coordinates of points, of the nearest ones in the box."""
        return np.clip((W[:, self.free] - self.low[self.free]) / self.width, 0.0, 1.0)

    @cached_property
    def width(self) -> Float64[ndarray, "z"]:
        """How wide the box is along the free coordinates."""
        return (self.high - self.low)[self.free]


@dataclass(frozen=True, eq=False)
class Sliced:
    """Functions of the free coordinates of a part of the cube."""

    functions: Functions
    part: Part

    @property
    def k(self) -> int:
        """Number of functions."""
        return self.functions.k

    @property
    def white(self) -> Sequence[int]:
        """Positions of the constraints that are known exactly."""
        return self.functions.white

    def coarse(self) -> "Sliced | None":
        """Return the cheaper version of the functions, if there is one."""
        cheaper = self.functions.coarse() if isinstance(self.functions, Refined) else None
        return None if cheaper is None else Sliced(cheaper, self.part)

    def values(self, Z: Float64[ndarray, "b z"]) -> Float64[ndarray, "b k"]:
        """Return them for screening."""
        return self.functions.values(self.part.whole(Z))

    def values_and_slopes(
        self, Z: Float64[ndarray, "b z"]
    ) -> tuple[Float64[ndarray, "b k"], Float64[ndarray, "b k z"]]:
        """Return them and their slopes."""
        f, J = self.functions.values_and_slopes(self.part.whole(Z))
        return f, J[:, :, self.part.free] * self.part.width
