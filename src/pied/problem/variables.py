"""Variables, and the box they span: the map between natural units and the unit cube."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy import ndarray

from pied.errors import StatementError
from pied.problem.values import number
from pied.shapes import Bool, Float64

NARROWEST = 1e-9
"""Smallest width of a variable, relative to its size: rounding would merge the points of a narrower one."""


@dataclass(frozen=True)
class Variable:
    """One decision and its box, lo <= x <= hi."""

    lo: float | int
    """Lower end, natural units."""
    hi: float | int
    """Upper end, natural units."""
    log: bool = field(default=False, kw_only=True)
    """Whether to search on a logarithmic scale: for quantities that vary over powers of ten."""
    unit: str = field(default="", kw_only=True)
    """Shown beside values; nothing is converted."""

    def __post_init__(self) -> None:
        for end in ("lo", "hi"):
            object.__setattr__(self, end, number(getattr(self, end), f"the bound {end}", StatementError))
        if not self.lo < self.hi:
            raise StatementError(f"The lower bound {self.lo:g} must be below the upper bound {self.hi:g}.")
        if not self.hi - self.lo > NARROWEST * max(abs(self.lo), abs(self.hi)):
            raise StatementError(
                f"The box from {self.lo!r} to {self.hi!r} is too narrow to search: make the variable a constant, "
                "or let it be the distance from its lower end."
            )
        if not math.isfinite(self.hi - self.lo):
            raise StatementError(f"The box from {self.lo!r} to {self.hi!r} is too wide for a computer's numbers.")
        if self.log and self.lo <= 0:
            raise StatementError(f"A logarithmic scale needs a lower bound above 0, got {self.lo:g}.")


@dataclass(frozen=True)
class Box:
    """The box of all variables, and its map to and from the unit cube; some variables are mapped by logarithms."""

    bounds: Float64[ndarray, "d 2"]
    """Lower and upper end of each variable, natural units."""
    is_log: Bool[ndarray, "d"]
    """Which variables are searched on a logarithmic scale."""
    has_log: bool
    """Whether any of them is."""

    @classmethod
    def of(cls, variables: Iterable[Variable]) -> "Box":
        """Return the box of some variables."""
        every = list(variables)
        bounds = np.array([[each.lo, each.hi] for each in every], dtype=float)
        return cls(bounds, np.array([each.log for each in every], dtype=bool), any(each.log for each in every))

    def to_unit(self, X: Float64[ndarray, "*b d"]) -> Float64[ndarray, "*b d"]:
        """Map natural units to the unit cube."""
        lo, hi = self.bounds.T
        U = (X - lo) / (hi - lo)
        if not self.has_log:
            return U
        safe_X, safe_lo, safe_hi = (np.where(self.is_log, each, 1.0) for each in (X, lo, hi))
        ratio = np.log(safe_X / safe_lo) / np.where(self.is_log, np.log(safe_hi / safe_lo), 1.0)
        return np.where(self.is_log, ratio, U)

    def from_unit(self, U: Float64[ndarray, "*b d"]) -> Float64[ndarray, "*b d"]:
        """Map the unit cube to natural units: 0 gives exactly the lower end, 1 exactly the upper end.

        Rounding may leave the box by a last bit, which is corrected; points outside of the cube stay outside.
        """
        lo, hi = self.bounds.T
        X = lo * (1 - U) + hi * U
        if self.has_log:
            low, high = (np.where(self.is_log, each, 1.0) for each in (lo, hi))
            X = np.where(self.is_log, low ** (1 - U) * high**U, X)
        outside = (U < 0.0) | (U > 1.0)
        inside = np.maximum(np.minimum(X, hi), lo)
        return np.where(outside, X, inside) if outside.any() else inside

    def unit_slopes(self, X: Float64[ndarray, "*b d"]) -> Float64[ndarray, "*b d"]:
        """Return the derivatives of `from_unit`, at points in natural units."""
        lo, hi = self.bounds.T
        width = np.broadcast_to(hi - lo, X.shape)
        if not self.has_log:
            return width
        return np.where(self.is_log, X * np.log(np.where(self.is_log, hi / np.where(self.is_log, lo, 1.0), 1.0)), width)
