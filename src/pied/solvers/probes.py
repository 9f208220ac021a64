"""Probes: points a small step off the box bounds that the best point lies on.

If the belief improves towards a bound, the search proposes points on that bound only. The slope there is then
extrapolated from distant points, and no proposal can refute it. A probe tests it.
"""

import numpy as np
from numpy import ndarray

from pied.shapes import Bool, Float64

PROBE_STEP = 2.0**-7  # unit cube, off the bound: far enough to measure a slope, near enough to belong to the best point
NEAR_BEST = 2.0 * PROBE_STEP  # in every coordinate: a nearer point, half a step off the bound, serves as the probe
ON_BOUND = PROBE_STEP / 4  # a nearer coordinate lies on its bound


def off_bounds(
    u: Float64[ndarray, "d"], proposed: Float64[ndarray, "N d"], seen: Bool[ndarray, "d"]
) -> Float64[ndarray, "p d"]:
    """Return the missing probes of u: each is one step off a bound on which u and all points near u lie.

    Args:
        u: A point of the unit cube.
        proposed: Points that were told, are pending, or failed.
        seen: Which variables some output depends on; the others need no probe.
    """
    near = proposed[(np.abs(proposed - u) <= NEAR_BEST).all(1)]
    is_on_bound = np.minimum(u, 1.0 - u) < ON_BOUND
    is_varied = (np.abs(near - u) >= PROBE_STEP / 2).any(0)
    which = (is_on_bound & ~is_varied & seen).nonzero()[0]
    moved = np.tile(u, (len(which), 1))
    moved[np.arange(len(which)), which] += np.where(u[which] < 0.5, PROBE_STEP, -PROBE_STEP)
    return moved
