"""Variables, and the box they span: the map between natural units and the unit cube."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

import torch
from jaxtyping import Bool, Float64
from torch import Tensor

from pied.errors import StatementError
from pied.problem.values import number

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

    bounds: Float64[Tensor, "d 2"]
    """Lower and upper end of each variable, natural units."""
    is_log: Bool[Tensor, "d"]
    """Which variables are searched on a logarithmic scale."""
    has_log: bool
    """Whether any of them is."""

    @classmethod
    def of(cls, variables: Iterable[Variable]) -> "Box":
        """Return the box of some variables."""
        every = list(variables)
        bounds = torch.tensor([[each.lo, each.hi] for each in every], dtype=torch.float64)
        return cls(bounds, torch.tensor([each.log for each in every]), any(each.log for each in every))

    def to_unit(self, X: Float64[Tensor, "*b d"]) -> Float64[Tensor, "*b d"]:
        """Map natural units to the unit cube."""
        lo, hi = self.bounds.to(X.device).unbind(-1)
        U = (X - lo) / (hi - lo)
        if not self.has_log:
            return U
        is_log = self.is_log.to(X.device)
        safe_X, safe_lo, safe_hi = (torch.where(is_log, each, each.new_ones(())) for each in (X, lo, hi))
        ratio = (safe_X / safe_lo).log() / torch.where(is_log, (safe_hi / safe_lo).log(), 1.0)
        return torch.where(is_log, ratio, U)

    def from_unit(self, U: Float64[Tensor, "*b d"]) -> Float64[Tensor, "*b d"]:
        """Map the unit cube to natural units: 0 gives exactly the lower end, 1 exactly the upper end.

        Rounding may leave the box by a last bit; this is corrected without changing the derivative.
        """
        lo, hi = self.bounds.to(U.device).unbind(-1)
        X = lo * (1 - U) + hi * U
        if self.has_log:
            is_log = self.is_log.to(U.device)
            one = lo.new_ones(())
            X = torch.where(is_log, torch.where(is_log, lo, one) ** (1 - U) * torch.where(is_log, hi, one) ** U, X)
        with torch.no_grad():
            inside = torch.maximum(torch.minimum(X, hi), lo)
            correction = torch.where((U < 0.0) | (U > 1.0), 0.0, inside - X)
        return X + correction

    def unit_slopes(self, X: Float64[Tensor, "*b d"]) -> Float64[Tensor, "*b d"]:
        """Return the derivatives of `from_unit`, at points in natural units."""
        lo, hi = self.bounds.to(X.device).unbind(-1)
        width = (hi - lo).expand_as(X)
        if not self.has_log:
            return width
        is_log = self.is_log.to(X.device)
        return torch.where(is_log, X * torch.where(is_log, hi / lo, 1.0).log(), width)
