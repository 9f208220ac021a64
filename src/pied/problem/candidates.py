"""A finite list of points to choose from instead of a box, such as a catalogue, machine settings or recipes."""

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy import ndarray

from pied.shapes import Float64, Int64

SAME = 1e-7
"""Largest difference in any coordinate of the unit cube at which two points are one candidate."""


@dataclass(frozen=True, eq=False)
class Listing:
    """The candidates of a problem, in order."""

    X: Float64[ndarray, "c d"]
    """Natural units, as given."""
    U: Float64[ndarray, "c d"]
    """The same in the unit cube."""

    def __len__(self) -> int:
        return len(self.X)

    def nearest(self, u: Float64[ndarray, "d"]) -> int:
        """Return the row of the candidate nearest to a point of the unit cube, the first of equally near ones."""
        distance, row = self._tree.query(u, p=np.inf)
        equal = self._tree.query_ball_point(u, distance, p=np.inf)
        return int(min([int(row), *equal]))

    def same(self, U: Float64[ndarray, "p d"]) -> Int64[ndarray, "e"]:
        """Return the rows of all candidates that coincide with one of these points."""
        found = self._tree.query_ball_point(U, SAME, p=np.inf)
        rows = sorted({int(row) for each in found for row in each})
        return np.array(rows, dtype=np.int64)

    @cached_property
    def digest(self) -> str:
        """A hash by which a stored study recognizes its list."""
        return hashlib.sha256(np.ascontiguousarray(self.X).tobytes()).hexdigest()[:16]

    @cached_property
    def _tree(self) -> Any:
        from scipy.spatial import KDTree  # for lists alone

        return KDTree(self.U, balanced_tree=False)  # a grid has many equal coordinates
