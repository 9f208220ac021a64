"""What a point is worth for a front: the hypervolume by which it grows, or how far the point goes beyond its end."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy import ndarray

from pied.hypervolume import cells, growth, growth_and_slopes, hypervolume, nondominated
from pied.shapes import Float64

BELOW_WORST = 0.1  # of the front's extent: how far the reference point lies below the worst values on the front
LEAST_EXTENT = 1e-3  # of an objective's search scale: the extent of a front that is nearly one point
LEAST_GROWTH = 1e-10  # added to a growth before its root is taken, whose slope would be infinite at 0
OTHERS_AT_END = 1e-2  # weight of the other objectives at an end of the front: of equal ends, the better in them


@dataclass(frozen=True, eq=False)
class Frontier:
    """A front, and a reference point below it; values are in the paper's form, better if larger."""

    F: Float64[ndarray, "N r"]
    """The points of the front."""
    reference: Float64[ndarray, "r"]
    extent: Float64[ndarray, "r"]
    """How far the front reaches along each objective; values are divided by it, so units do not matter."""

    @classmethod
    def of(
        cls,
        told: Float64[ndarray, "N r"],
        expected: Float64[ndarray, "b r"],
        scales: Float64[ndarray, "r"],
    ) -> "Frontier":
        """Choose the reference point: below the worst values on the best front that is told or expected.

        Args:
            told: Values at feasible told points.
            expected: Medians elsewhere, where the constraints are met in the median.
            scales: One search scale per objective.
        """
        front = told[nondominated(told)]
        both = np.concatenate([front, expected])
        both = both[nondominated(both)]
        if not len(both):
            both = np.zeros((1, len(scales)))
        worst, best = both.min(0), both.max(0)
        extent = best - worst
        extent = np.where(extent > LEAST_EXTENT * scales, extent, scales)
        return cls(front, worst - BELOW_WORST * extent, extent)

    def scaled(self, P: Float64[ndarray, "b r"]) -> Float64[ndarray, "b r"]:
        """Return values with the reference point at 0, in extents."""
        return (P - self.reference) / self.extent

    def with_points(self, P: Float64[ndarray, "b r"]) -> "Frontier":
        """Return the front with further points and the same reference point."""
        both = np.concatenate([self.F, P])
        return replace(self, F=both[nondominated(both)])

    @property
    def volume(self) -> float:
        """The hypervolume, in extents."""
        return hypervolume(self.scaled(self.F), np.zeros(len(self.extent)))

    @cached_property
    def boxes(self) -> tuple[Float64[ndarray, "c r"], Float64[ndarray, "c r"]]:
        """What lies above the front, cut into boxes."""
        return cells(self.scaled(self.F), np.zeros(len(self.extent)))

    def worth(self, P: Float64[ndarray, "b r"]) -> Float64[ndarray, "b"]:
        """Return what points are worth: a root of the growth of the volume, or how far they are below the front.

        The root makes it grow in proportion to the distance from the front. Below the front it is the distance, in
        the objective in which least is missing to the nearest corner, so that searches find their way up.
        """
        P = self.scaled(P)
        volume = growth(P, self.boxes)
        return np.where(volume > 0, _root(volume, P.shape[1]), self._below(P)[0])

    def worth_and_slopes(self, P: Float64[ndarray, "b r"]) -> tuple[Float64[ndarray, "b"], Float64[ndarray, "b r"]]:
        """Return the same, and its slopes by the values."""
        P, r = self.scaled(P), P.shape[1]
        volume, slopes = growth_and_slopes(P, self.boxes)
        slopes = slopes * ((volume + LEAST_GROWTH) ** (1.0 / r - 1.0) / r)[:, None]
        below, place = self._below(P)
        is_above = volume > 0
        slopes = np.where(is_above[:, None], slopes, np.eye(r)[place])
        return np.where(is_above, _root(volume, r), below), slopes / self.extent

    def _below(self, P: Float64[ndarray, "b r"]) -> tuple[Float64[ndarray, "b"], ndarray]:
        """Return minus the distance to the region above the front, and the objective in which it is."""
        missing = P[:, None] - self.boxes[0]
        place = missing.argmin(2)
        least = missing.min(2)
        corner = least.argmax(1)
        rows = np.arange(len(P))
        return np.minimum(least[rows, corner], 0.0), place[rows, corner]


def _root(volume: Float64[ndarray, "b"], r: int) -> Float64[ndarray, "b"]:
    return (volume + LEAST_GROWTH) ** (1.0 / r) - LEAST_GROWTH ** (1.0 / r)


@dataclass(frozen=True, eq=False)
class End:
    """One end of a front: what a point is worth is one objective, and a little of the others."""

    extent: Float64[ndarray, "r"]
    """Of the front, by which values are divided."""
    weights: Float64[ndarray, "r"]

    @classmethod
    def of(cls, frontier: Frontier, place: int) -> "End":
        """Return the end at which one objective is the best."""
        weights = np.full(len(frontier.extent), OTHERS_AT_END)
        weights[place] = 1.0
        return cls(frontier.extent, weights)

    def worth(self, P: Float64[ndarray, "b r"]) -> Float64[ndarray, "b"]:
        """Return what points are worth."""
        return (P / self.extent) @ self.weights

    def worth_and_slopes(self, P: Float64[ndarray, "b r"]) -> tuple[Float64[ndarray, "b"], Float64[ndarray, "b r"]]:
        """Return the same, and its slopes by the values."""
        return self.worth(P), np.tile(self.weights / self.extent, (len(P), 1))
