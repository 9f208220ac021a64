"""Clipped outputs: the edge of a plateau, followed from the side on which the output varies.

A slip that is nothing until the bed is spent, an overflow, a demand that is not met: such an output has one and the
same value in a part of the box, and a limit on it is often reached just beyond the edge of that part. No smooth belief
spans the edge, and a border between regimes says on which side points are and nothing more. But the values beside a
plateau lead up to it: a belief about them alone, near the best point, says where they reach the limit. Points on the
plateau are left out of it and test it: there it has to be beyond the value of the plateau, or nearly so. An output that
drops to its plateau from a cliff does not pass.
"""

import itertools
from typing import NamedTuple

import numpy as np
from numpy import ndarray

from pied.gp import GP
from pied.records import Dataset
from pied.shapes import Bool, Float64
from pied.solvers.nearby import LEAST_RADIUS, Ball

SAME = 3  # points with the same least or largest value are on a plateau, if every variable has so many values there
BEYOND = 0.5  # share of the nearest points of a plateau that have to pass the test
NEARLY = 2.0  # deviations within which the value of a plateau counts as reached


class Clipped(NamedTuple):
    """What was told beside the plateaus, near the best point."""

    data: Dataset
    """Clipped outputs count as not told on their plateaus and far from the best point; others stay."""
    ball: Ball
    """The surroundings of the best point."""
    sides: Float64[ndarray, "N m"]
    """-1 where a clipped output is on the plateau of its least value, 1 on that of its largest, else 0."""


def beside_plateaus(data: Dataset, best: Float64[ndarray, "d"], limited: Bool[ndarray, "m"]) -> Clipped | None:
    """Return what was told beside plateaus; None where no output has one, or too little was told beside it.

    Of each clipped output the nearest 3d + 3 points count, of at least 2d + 2, and the surroundings reach to the one
    with d others before it.

    Args:
        data: What was told.
        best: The best told point.
        limited: The outputs that may be clipped.
    """
    d = data.U.shape[1]
    sides = _sides(data, limited)
    away = np.sqrt(((data.U - best) ** 2).sum(1))
    radius = LEAST_RADIUS
    for j in np.flatnonzero(sides.any(0)):
        varies = np.isfinite(data.Y[:, j]) & (sides[:, j] == 0)
        nearest = np.sort(away[varies])
        if len(nearest) < 2 * d + 2:
            sides[:, j] = 0.0
            continue
        data = data.without(~varies | (away > nearest[: 3 * d + 3][-1]), np.arange(data.Y.shape[1]) == j)
        radius = max(radius, float(nearest[d]))
    return Clipped(data, Ball(best, radius), sides) if sides.any() else None


def leads_up(found: Clipped, belief: GP, told: Dataset) -> bool:
    """Whether what varies leads up to each plateau: at most of its nearest points it is beyond it, or nearly so.

    Args:
        found: What was told beside the plateaus.
        belief: The belief about it, and about nothing that is imagined.
        told: Everything that was told.
    """
    away = ((told.U - found.ball.centre) ** 2).sum(1)
    for j, side in itertools.product(np.flatnonzero(found.sides.any(0)), (-1.0, 1.0)):
        rows = np.flatnonzero(found.sides[:, j] == side)
        rows = rows[away[rows].argsort(kind="stable")[: 2 * told.U.shape[1]]]
        mean, deviation = belief.moments(told.U[rows])
        reached = belief.unwarp(mean + NEARLY * side * deviation)[:, j]
        if len(rows) and (side * (reached - told.Y[rows, j]) >= 0).mean() < BEYOND:
            return False
    return True


def _sides(data: Dataset, limited: Bool[ndarray, "m"]) -> Float64[ndarray, "N m"]:
    """Return on which plateau outputs are: -1 on that of the least value, 1 on that of the largest, 0 on none."""
    found = np.zeros_like(data.Y)
    for j in np.flatnonzero(limited & np.isfinite(data.Y).any(0)):
        y = data.Y[:, j]
        for side, end in ((1.0, np.nanmax(y)), (-1.0, np.nanmin(y))):
            is_same = y == end
            if not is_same[np.isfinite(y)].all() and _extends(data.U[is_same]):
                found[is_same, j] = side
    return found


def _extends(U: Float64[ndarray, "b d"]) -> bool:
    """Whether points are a part of the box: an output that a variable does not change is the same along it, as well."""
    return min(len(np.unique(values)) for values in U.T) >= SAME
