"""Questions to a belief about blocks and campaigns: what one block reads, whether and how campaigns are related."""

import math
from dataclasses import replace

import numpy as np
from numpy import ndarray

from pied.gp.kernels import KERNELS, radial
from pied.gp.kriging import Kriging
from pied.gp.process import GP
from pied.shapes import Float64


@np.errstate(all="ignore")
def foretold(gp: GP, Y: Float64[ndarray, "n m"]) -> Float64[ndarray, "m"]:
    """Return the leave-one-out log density, natural units, of the values told last; minus infinite where unknown."""
    found = np.full(gp.m, -np.inf)
    slopes = gp.log_slopes(Y)
    for block in gp.blocks:
        first = block.tasks.y.shape[1] - len(Y)
        for i, group in enumerate(block.groups):
            one = slice(i, i + 1)
            tasks = block.hard.at(one)
            kept = tasks.rows[0] > 0
            places = np.flatnonzero(kept)
            own = places >= first
            rows = places[own] - first
            for place, j in enumerate(group):
                kriging = Kriging.of(replace(tasks, y=tasks.y[:, :, place : place + 1]), block.theta[one], kept)
                if kriging is None:
                    continue
                error, variance = (each[own] for each in kriging.left_out())
                density = -0.5 * (math.log(2 * math.pi) + np.log(variance) + error**2 / variance)
                density -= math.log(gp.deviation[j]) + slopes[rows, j]
                found[j] = density.sum() if np.isfinite(density).all() else -np.inf
    return found


def alike(gp: GP) -> Float64[ndarray, "m q"]:
    """Return the correlation of every output's values in each earlier campaign with those at the same settings here."""
    if gp.coding is None or not gp.coding.campaigns:
        return np.zeros((gp.m, 0))
    e, q = len(gp.coding.origin), gp.coding.campaigns
    inverse = np.exp(-np.array([choice.theta[e - q : e] for choice in gp.choices]))
    kernels = np.array([KERNELS[choice.kernel] for choice in gp.choices])
    return np.asarray(radial(inverse[:, None] ** 2, kernels, slopes=False)[0][:, 0])


def in_block(gp: GP, name: str) -> GP:
    """Return the belief about what one block reads; the same if nothing was measured in it: about an average one."""
    if name not in gp.block_names:
        return gp
    asked = np.zeros(len(gp.block_names) + (0 if gp.coding is None else gp.coding.campaigns))
    asked[: len(gp.block_names)] = -1.0 / len(gp.block_names)
    asked[gp.block_names.index(name)] += 1.0
    mixture = gp.mixture and replace(gp.mixture, parts=tuple(in_block(each, name) for each in gp.mixture.parts))
    return replace(gp, blocks=tuple(replace(each, asked=asked, known=None) for each in gp.blocks), mixture=mixture)
