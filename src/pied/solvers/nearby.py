"""The surroundings of the best point: searched by themselves where one belief explains the output of a limit badly.

The optimum then often lies at an edge, the border of a dead zone or of a saturation, and has to be followed along it. A
belief about the whole box is unsure everywhere, and its bounds promise gains far away for ever. A belief about the
points around the best one shows the way on. There is no state: with points told nearby the surroundings shrink, with
each better one they move. Where only the objective is rough, a ridge has to be found first: the whole box is searched.
"""

from dataclasses import dataclass

import numpy as np
from numpy import ndarray

from pied.records import Dataset
from pied.shapes import Bool, Float64

EVERY = 2  # every so-many-th trial looks everywhere, the others around the best point
LEAST_RADIUS = 0.06  # unit cube: points told closer to each other do not make the surroundings smaller


@dataclass(frozen=True, eq=False)
class Ball:
    """The surroundings: positive within some distance of the best point."""

    centre: Float64[ndarray, "d"]
    radius: float
    size: float = 1.0
    """The scale of what is positive inside."""

    def moments(self, U: Float64[ndarray, "b d"]) -> tuple[Float64[ndarray, "b"], Float64[ndarray, "b"]]:
        """Return how far inside points are, and that this is certain."""
        return 1.0 - ((U - self.centre) ** 2).sum(1) / self.radius**2, np.zeros(len(U))

    def moments_and_slopes(
        self, U: Float64[ndarray, "b d"]
    ) -> tuple[Float64[ndarray, "b"], Float64[ndarray, "b"], Float64[ndarray, "b d"], Float64[ndarray, "b d"]]:
        """Return the same with derivatives with respect to the point."""
        mean, deviation = self.moments(U)
        return mean, deviation, -2.0 * (U - self.centre) / self.radius**2, np.zeros_like(U)

    def points(self, pool: Float64[ndarray, "b d"]) -> Float64[ndarray, "b d"]:
        """Return points of the cube around the centre, from points over the cube."""
        return np.clip(self.centre + 2.0 * self.radius * (pool - 0.5), 0.0, 1.0)


def around(data: Dataset, best: Float64[ndarray, "d"]) -> tuple[Ball, Bool[ndarray, "N"]] | None:
    """Return the surroundings of a told point, and which told points are too far away to count; None if none are.

    They reach to the point with d + 1 others before it, the point itself included; 4d + 4 points count, of at least 8d.
    Points with missing outputs do not.
    """
    d = data.U.shape[1]
    away = np.where(data.complete, np.sqrt(((data.U - best) ** 2).sum(1)), np.inf)
    nearest = np.sort(away[np.isfinite(away)])
    if len(nearest) <= max(8 * d, 4 * d + 4):
        return None
    return Ball(best, max(float(nearest[d + 1]), LEAST_RADIUS)), away > nearest[4 * d + 3]
