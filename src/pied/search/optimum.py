"""The best point that a search found, and how its constraints are judged."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy import ndarray

from pied.shapes import Bool, Float64

SATISFIED = 1e-7  # scaled: a bound this far below zero still counts as satisfied
WHITE_SATISFIED = 1e-9  # scaled: white constraints are exact and held more strictly
ACTIVE = 1e-6  # scaled: a constraint this near to zero holds with equality


@dataclass(frozen=True, eq=False)
class Optimum:
    """The best point found."""

    u: Float64[ndarray, "d"]
    f: Float64[ndarray, "k"]
    """All functions there, in natural units."""
    satisfied: bool
    """Whether every constraint holds there; if not, u maximizes the smallest scaled constraint."""
    margin: float
    """Smallest scaled constraint at u; infinite without constraints."""
    active: tuple[int, ...] = ()
    """Constraints (1..n) that hold with equality."""
    multipliers: tuple[float, ...] = ()
    """Per constraint, in natural units: the gain per unit of relaxation."""

    def of_first(self, k: int) -> "Optimum":
        """Return the optimum without the functions after the first k, which only constrained the search."""
        active = tuple(i for i in self.active if i < k)
        return replace(self, f=self.f[:k], active=active, multipliers=self.multipliers[: k - 1])


def optimum_at(
    u: Float64[ndarray, "d"],
    f: Float64[ndarray, "k"],
    scales: Float64[ndarray, "k"],
    satisfied: bool,
    multipliers: Sequence[float] | None = None,
) -> Optimum:
    """Assemble an optimum in natural units.

    Args:
        u: The point.
        f: All functions there.
        scales: One search scale per function.
        satisfied: Whether every constraint holds.
        multipliers: Of the scaled constraints; none by default, which means zeros.
    """
    scaled = (f / scales)[1:]
    units = (scales[0] / scales[1:]).tolist()
    weights = [0.0] * len(units) if multipliers is None else multipliers
    return Optimum(
        u=u,
        f=f,
        satisfied=satisfied,
        margin=float(scaled.min()) if len(scaled) else float("inf"),
        active=tuple(((np.abs(scaled) < ACTIVE).nonzero()[0] + 1).tolist()),
        multipliers=tuple(float(weight) * unit for weight, unit in zip(weights, units, strict=True)),
    )


def meets_white(f: Float64[ndarray, "b k"], scales: Float64[ndarray, "k"], white: Sequence[int]) -> Bool[ndarray, "b"]:
    """Tell whether the white constraints hold, per point."""
    index = list(white)
    return np.all(f[:, index] >= -WHITE_SATISFIED * scales[index], 1)
