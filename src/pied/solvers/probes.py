"""Points beside the best one, off the bounds it lies on, where nothing was asked.

A search whose belief slopes towards a bound asks for points on it and for no others. How functions change away from the
bound is then guessed from afar, and no point that is asked for can prove the guess wrong.
"""

import torch
from jaxtyping import Bool, Float64
from torch import Tensor

STEP = 2.0**-7  # off a bound
NEAR = 2.0 * STEP  # every coordinate: a point so near, and half a step off the bound, shows what the variable does


def off_bounds(
    u: Float64[Tensor, "d"], asked: Float64[Tensor, "N d"], seen: Bool[Tensor, "d"]
) -> Float64[Tensor, "p d"]:
    """Return points beside u, each a step off one bound that no point asked near u is off.

    Args:
        u: A point of the unit cube.
        asked: Points that were told, are pending, or failed.
        seen: Which variables an output depends on; of the others everything is known.
    """
    near = asked[((asked - u).abs() <= NEAR).all(1)]
    is_on_bound = torch.minimum(u, 1.0 - u) < STEP / 4
    is_varied = ((near - u).abs() >= STEP / 2).any(0)
    which = (is_on_bound & ~is_varied & seen).nonzero()[:, 0]
    moved = u.repeat(len(which), 1)
    moved[torch.arange(len(which)), which] += torch.where(u[which] < 0.5, STEP, -STEP)
    return moved
