"""Distances between points of the unit cube."""

import numpy as np
from numpy import ndarray

from pied.shapes import Float64


def to_nearest(
    points: Float64[ndarray, "b d"], others: Float64[ndarray, "n d"], metric: str = "euclidean"
) -> Float64[ndarray, "b"]:
    """Return the distance of each point to the nearest of some others, infinite if there is none.

    The metric has the name that SciPy gives it.
    """
    from scipy.spatial.distance import cdist  # not before it is needed: it takes long to load

    return cdist(points, others, metric).min(1, initial=np.inf)
