"""Probes: points a small step off the box bounds that the best point lies on.

If the belief improves towards a bound, the search proposes points on that bound only. The slope there is then
extrapolated from distant points, and no proposal can refute it. A probe tests it.
"""

import torch
from jaxtyping import Bool, Float64
from torch import Tensor

PROBE_STEP = 2.0**-7  # unit cube, off the bound: far enough to measure a slope, near enough to belong to the best point
NEAR_BEST = 2.0 * PROBE_STEP  # in every coordinate: a nearer point, half a step off the bound, serves as the probe
ON_BOUND = PROBE_STEP / 4  # a nearer coordinate lies on its bound


def off_bounds(
    u: Float64[Tensor, "d"], proposed: Float64[Tensor, "N d"], seen: Bool[Tensor, "d"]
) -> Float64[Tensor, "p d"]:
    """Return the missing probes of u: each is one step off a bound on which u and all points near u lie.

    Args:
        u: A point of the unit cube.
        proposed: Points that were told, are pending, or failed.
        seen: Which variables some output depends on; the others need no probe.
    """
    near = proposed[((proposed - u).abs() <= NEAR_BEST).all(1)]
    is_on_bound = torch.minimum(u, 1.0 - u) < ON_BOUND
    is_varied = ((near - u).abs() >= PROBE_STEP / 2).any(0)
    which = (is_on_bound & ~is_varied & seen).nonzero()[:, 0]
    moved = u.repeat(len(which), 1)
    moved[torch.arange(len(which)), which] += torch.where(u[which] < 0.5, PROBE_STEP, -PROBE_STEP)
    return moved
