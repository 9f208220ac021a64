"""What a regression is made of: kernels, trend columns, scales of the inputs, waves; for NumPy and torch alike.

Learning (`kriging`) works on torch tensors, predicting (`posterior`) on NumPy arrays where it can. Both need the same
formulas, so these are written once, in the operators and methods that the two libraries share.
"""

import math
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float64
from numpy import ndarray

from pied.arrays import Array, library

# With r the scaled distance and E = exp(-(s r + q r^2)):
# k(r) = (1 + s r (c1 + c2 s r)) E and w(r) = -dk/d(r^2/2) = w0 (1 + w1 s r) E.
#                         s               q    c1   c2       w0       w1
KERNELS = {
    "squared exponential": (0.0, 0.5, 0.0, 0.0, 1.0, 0.0),
    "matern 5/2": (math.sqrt(5.0), 0.0, 1.0, 1.0 / 3.0, 5.0 / 3.0, 1.0),
    "matern 3/2": (math.sqrt(3.0), 0.0, 1.0, 0.0, 3.0, 0.0),
}
TRENDS = {"none": 0, "constant": 0, "linear": 1, "quadratic": 2}  # and their degrees


def radial(
    squares: Float64[Array, "B b N"], kernel: Float64[Array, "B 6"], *, slopes: bool = True
) -> tuple[Float64[Array, "B b N"], Float64[Array, "B b N"]]:
    """Return k(r) and w(r) = -dk/d(r^2/2) for squared scaled distances; without slopes k twice."""
    xp = library(squares)
    if not kernel[:, 0].any():  # squared exponential throughout: no root needed
        E = xp.exp(-0.5 * squares)
        return E, E
    s, q, c1, c2, w0, w1 = (kernel[:, i, None, None] for i in range(6))
    a = s * xp.sqrt(squares.clip(1e-30, None))
    E = xp.exp(-(a + q * squares))
    k = (1.0 + a * (c1 + c2 * a)) * E
    return k, w0 * (1.0 + w1 * a) * E if slopes else k


@cache
def pairs(d: int) -> tuple[list[int], list[int]]:
    """Return the places (i, j) with i <= j, as the products of a quadratic trend are ordered."""
    first, second = np.triu_indices(d)
    return first.tolist(), second.tolist()


def polynomial(U: Float64[Array, "*B b d"], degree: int) -> Float64[Array, "*B b p"]:
    """Return the columns 1, v_i, v_i v_j (i <= j) with v = 2u - 1, up to the degree (0, 1, 2)."""
    xp = library(U)
    columns = [xp.ones_like(U[..., :1])]
    if degree >= 1:
        V = 2.0 * U - 1.0
        columns.append(V)
        if degree >= 2:
            first, second = pairs(U.shape[-1])
            columns.append(V[..., first] * V[..., second])
    return xp.concatenate(columns, -1)


def polynomial_slope(
    coefficients: Float64[Array, "*#b p"], U: Float64[Array, "*#b d"], degree: int
) -> Float64[Array, "*#b d"]:
    """Return the slope of a combination of the columns of `polynomial`."""
    d = U.shape[-1]
    slope = coefficients[..., 1 : 1 + d]
    if degree >= 2:
        first, second = pairs(d)
        quadratic, V = coefficients[..., 1 + d :], 2.0 * U - 1.0
        slope = slope + (quadratic * V[..., second]) @ _places(d, 0, library(U), U)
        slope = slope + (quadratic * V[..., first]) @ _places(d, 1, library(U), U)
    return 2.0 * slope


def _places(d: int, which: int, xp: Any, like: Array) -> Array:
    """Return a matrix that adds up products by their first (0) or second (1) factor."""
    matrix = _one_hot(d, which)
    return matrix if xp is np else torch.from_numpy(matrix).to(like.device)


@cache
def _one_hot(d: int, which: int) -> Float64[ndarray, "p d"]:
    return np.eye(d)[pairs(d)[which]]


def stretched(U: Float64[Array, "b d"], ratios: Float64[Array, "B d"]) -> Float64[Array, "*B b d"]:
    """Return points on the scales of each task: log(1 + (r - 1) u) / log r; one copy when none is stretched."""
    if not bool((ratios > 1.0).any()):
        return U
    xp, r = library(U), ratios[:, None, :]
    safe = r.clip(1.0 + 1e-9, None)
    return xp.where(r > 1.0, xp.log1p((safe - 1.0) * U) / xp.log(safe), U)


def stretched_slopes(U: Float64[Array, "b d"], ratios: Float64[Array, "B d"]) -> Float64[Array, "B b d"]:
    """Return the derivatives of `stretched`."""
    xp, r = library(U), ratios[:, None, :]
    safe = r.clip(1.0 + 1e-9, None)
    slope = (safe - 1.0) / ((1.0 + (safe - 1.0) * U) * xp.log(safe))
    return xp.where(r > 1.0, slope, xp.ones_like(slope))


def waved(U: Float64[Array, "b d"], waves: Float64[Array, "B d"]) -> Float64[Array, "B b 2"]:
    """Return where each point lies on the wave of each task, (1 + cos, 1 + sin) / 2 of its phase waves'u.

    Seen beside the inputs, they make a radial kernel locally periodic: points whole periods apart are alike.
    """
    xp, phase = library(U), waves @ U.T
    return 0.5 + 0.5 * xp.stack([xp.cos(phase), xp.sin(phase)], -1)


def waved_slopes(U: Float64[Array, "b d"], waves: Float64[Array, "B d"]) -> Float64[Array, "B b 2 d"]:
    """Return the derivatives of `waved`."""
    xp, phase = library(U), waves @ U.T
    return 0.5 * xp.stack([-xp.sin(phase), xp.cos(phase)], -1)[..., None] * waves[:, None, None, :]


class View(NamedTuple):
    """How B tasks see the points of the unit cube."""

    ratios: Float64[Array, "B d"]
    """By which an input is seen on a logarithmic scale; 1: as it is."""
    waves: Float64[Array, "B d"] | None
    """Angular frequencies of the wave that is seen beside the inputs, zeros for a task without; None: no task has."""

    def scaled(self, U: Float64[Array, "b d"]) -> Float64[Array, "*B b d"]:
        """Return the inputs on the scales of the tasks, as trends see them; one copy when all are plain."""
        return stretched(U, self.ratios)

    def whole(self, U: Float64[Array, "b d"], V: Float64[Array, "*B b d"]) -> Float64[Array, "*C b e"]:
        """Return what kernels see of points and their scaled inputs: these, then the place on the wave."""
        if self.waves is None:
            return V
        xp, place = library(U), waved(U, self.waves)
        return xp.concatenate([xp.broadcast_to(V, (len(place), *U.shape)), place], -1)
