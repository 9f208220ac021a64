"""What a subproblem is made of: functions on the unit cube, objective first; some of them, or of their coordinates."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from jaxtyping import Bool, Float64
from torch import Tensor


@runtime_checkable
class Functions(Protocol):
    """Bound functions on the unit cube, objective first; `white` lists the constraints that are known exactly."""

    @property
    def k(self) -> int:
        """Number of functions."""

    @property
    def white(self) -> Sequence[int]:
        """Positions of the constraints that are known exactly."""

    def values(self, U: Float64[Tensor, "b d"]) -> Float64[Tensor, "b k"]:
        """Return all functions, quickly: for screening."""

    def values_and_slopes(self, U: Float64[Tensor, "b d"]) -> tuple[Float64[Tensor, "b k"], Float64[Tensor, "b k d"]]:
        """Return all functions and their slopes, as precisely as they come."""


@runtime_checkable
class Refined(Protocol):
    """Functions of which a cheaper version tells where to look."""

    def coarse(self) -> Functions | None:
        """Return the cheaper version; None when it would not be cheaper."""


@runtime_checkable
class Uncertain(Protocol):
    """Functions that are bounds of something unknown."""

    @property
    def seen(self) -> Bool[Tensor, "d"]:
        """Which coordinates of a point the unknown depends on; what a search adds to points comes behind them."""

    def doubt(self, u: Float64[Tensor, "w"]) -> Float64[Tensor, "i"]:
        """Return how far apart lower and upper bounds are at a point, for the first functions."""


@dataclass(frozen=True, eq=False)
class Picked:
    """Some of the functions, in another order: the first becomes the objective."""

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

    def values(self, U: Float64[Tensor, "b d"]) -> Float64[Tensor, "b k"]:
        """Return them for screening."""
        return self.functions.values(U)[:, list(self.which)]

    def values_and_slopes(self, U: Float64[Tensor, "b d"]) -> tuple[Float64[Tensor, "b k"], Float64[Tensor, "b k d"]]:
        """Return them and their slopes."""
        f, J = self.functions.values_and_slopes(U)
        return f[:, list(self.which)], J[:, list(self.which)]


@dataclass(frozen=True, eq=False)
class Slice:
    """Functions of some coordinates, the others as they are at a point."""

    functions: Functions
    u: Float64[Tensor, "w"]
    free: Bool[Tensor, "w"]

    @property
    def k(self) -> int:
        """Number of functions."""
        return self.functions.k

    @property
    def white(self) -> Sequence[int]:
        """Positions of the constraints that are known exactly."""
        return self.functions.white

    def whole(self, Z: Float64[Tensor, "b z"]) -> Float64[Tensor, "b w"]:
        """Return the points of some of their coordinates."""
        points = self.u.repeat(len(Z), 1)
        points[:, self.free] = Z
        return points

    def values(self, Z: Float64[Tensor, "b z"]) -> Float64[Tensor, "b k"]:
        """Return them for screening."""
        return self.functions.values(self.whole(Z))

    def values_and_slopes(self, Z: Float64[Tensor, "b z"]) -> tuple[Float64[Tensor, "b k"], Float64[Tensor, "b k z"]]:
        """Return them and their slopes."""
        f, J = self.functions.values_and_slopes(self.whole(Z))
        return f, J[:, :, self.free]
