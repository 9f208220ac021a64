"""The values that a variable can take, where these are listed: the discrete coordinates of the unit cube.

Steps and rounded settings are grids; whatever else is discrete can use the same description. Below `problem`, a search
sees the unit cube and this.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy import ndarray

from pied.problem.candidates import SAME, Listing
from pied.problem.variables import Box, Variable
from pied.shapes import Bool, Float64, Int64

MOST_LISTED = 4096
"""Points of a grid that are all compared in each search; larger grids are searched near the best points."""


@dataclass(frozen=True, eq=False)
class Grid:
    """Which coordinates are discrete, and their values."""

    levels: tuple[Float64[ndarray, "_"] | None, ...]
    """Natural units, rising, exactly as they are to be set; None: any value of the box."""
    places: tuple[Float64[ndarray, "_"] | None, ...]
    """The same in the unit cube."""
    is_choice: Bool[ndarray, "d"]
    """Which coordinates are labels: no value is nearer to one of them than to another."""

    @classmethod
    def of(cls, variables: Sequence[Variable]) -> "Grid | None":
        """Return the grid of some variables; None if all of them are continuous."""
        if not any(each.is_stepped for each in variables):
            return None
        levels = tuple(np.array(each.levels()) if each.is_stepped else None for each in variables)
        places = tuple(
            None if each is None else np.clip(Box.of([variable]).to_unit(each[:, None])[:, 0], 0.0, 1.0)
            for each, variable in zip(levels, variables, strict=True)
        )
        return cls(levels, places, np.array([each.is_choice for each in variables]))

    @cached_property
    def is_discrete(self) -> Bool[ndarray, "d"]:
        """Which coordinates take listed values only."""
        return np.array([each is not None for each in self.places])

    @property
    def points(self) -> float:
        """The number of points; infinite if a coordinate is continuous."""
        return math.prod(math.inf if each is None else float(len(each)) for each in self.places)

    def rows(self, U: Float64[ndarray, "*b d"]) -> Int64[ndarray, "*b d"]:
        """Return the index of the nearest value of each coordinate, 0 where it is continuous."""
        found = np.zeros(U.shape, dtype=np.int64)
        for j, middles in enumerate(self._middles):
            if middles is not None:
                found[..., j] = np.searchsorted(middles, U[..., j])
        return found

    def snapped(self, U: Float64[ndarray, "*b d"]) -> Float64[ndarray, "*b d"]:
        """Move points of the unit cube to the nearest values."""
        return self.at(self.rows(U), U)

    def at(self, rows: Int64[ndarray, "*b d"], U: Float64[ndarray, "*b d"]) -> Float64[ndarray, "*b d"]:
        """Return points with the values of these indices (moved into their range), elsewhere like U."""
        return _taken(self.places, rows, U)

    def natural(self, u: Float64[ndarray, "d"], X: Float64[ndarray, "d"]) -> Float64[ndarray, "d"]:
        """Return a point in natural units: X, where discrete the nearest value to u, as it was written."""
        return _taken(self.levels, self.rows(u), X)

    def has(self, U: Float64[ndarray, "b d"]) -> Bool[ndarray, "b"]:
        """Tell which points lie on the grid."""
        return (np.abs(self.snapped(U) - U) <= SAME).all(1)

    @cached_property
    def listing(self) -> Listing | None:
        """All points, if there are few; None if there are too many to compare them all."""
        if self.points > MOST_LISTED:
            return None
        return Listing(_every(self.levels), _every(self.places))

    @cached_property
    def _middles(self) -> tuple[Float64[ndarray, "_"] | None, ...]:
        return tuple(None if each is None else 0.5 * (each[1:] + each[:-1]) for each in self.places)


def _taken(values: Sequence[ndarray | None], rows: Int64[ndarray, "*b d"], other: ndarray) -> ndarray:
    """Return the values of these indices, and those of another array where there are none."""
    made = other.copy()
    for j, each in enumerate(values):
        if each is not None:
            made[..., j] = each[np.clip(rows[..., j], 0, len(each) - 1)]
    return made


def _every(axes: Sequence[Any]) -> Float64[ndarray, "c d"]:
    """Return every combination of values, one for each coordinate."""
    grids: list[ndarray] = list(np.meshgrid(*axes, indexing="ij"))
    return np.stack([each.ravel() for each in grids], 1)
