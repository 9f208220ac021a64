"""What a regression is made of: kernels, trend columns, scales of the inputs, waves."""

import math
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy import ndarray

from pied.shapes import Float64

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
    squares: Float64[ndarray, "B b N"], kernel: Float64[ndarray, "B 6"], *, slopes: bool = True
) -> tuple[Float64[ndarray, "B b N"], Float64[ndarray, "B b N"]]:
    """Return k(r) and w(r) = -dk/d(r^2/2) for squared scaled distances; without slopes k twice."""
    if (kernel == kernel[0]).all():
        return _radial_of_one_kernel(squares, tuple(kernel[0].tolist()), slopes)
    s, q, c1, c2, w0, w1 = (kernel[:, i, None, None] for i in range(6))
    a = np.sqrt(squares)
    a *= s
    E = np.exp(-(a + q * squares))
    k = c2 * a
    k += c1
    k *= a
    k += 1.0
    k *= E
    if not slopes:
        return k, k
    a *= w0 * w1
    a += w0
    a *= E
    return k, a


def _radial_of_one_kernel(
    squares: Float64[ndarray, "*B b N"], coefficients: tuple[float, ...], slopes: bool
) -> tuple[Float64[ndarray, "*B b N"], Float64[ndarray, "*B b N"]]:
    """`radial` where all tasks have the same kernel: terms that are zero are left out, which halves its time."""
    s, q, c1, c2, w0, w1 = coefficients
    if s == 0.0:
        E = np.exp(-q * squares)
        return E, E
    a = np.sqrt(squares)
    a *= s
    E = np.exp(-a)
    k = c2 * a + c1 if c2 else c1
    k = k * a + 1.0
    k *= E
    if not slopes:
        return k, k
    if not w1:
        E *= w0
        return k, E
    a *= w0 * w1
    a += w0
    a *= E
    return k, a


def matern(
    A: Float64[ndarray, "a d"], B: Float64[ndarray, "b d"], scale: float
) -> tuple[Float64[ndarray, "a b"], Float64[ndarray, "a b"]]:
    """Return Matern 5/2 covariances of one length scale, in units of sqrt(inputs), and their slopes by the squares."""
    inverse = 1.0 / (A.shape[1] * scale**2)
    squares = np.maximum((A**2).sum(1)[:, None] + (B**2).sum(1)[None] - 2.0 * A @ B.T, 0.0)
    k, w = _radial_of_one_kernel(inverse * squares, KERNELS["matern 5/2"], True)
    return k, -0.5 * inverse * w


@cache
def pairs(d: int) -> tuple[list[int], list[int]]:
    """Return the places (i, j) with i <= j, as the products of a quadratic trend are ordered."""
    first, second = np.triu_indices(d)
    return first.tolist(), second.tolist()


def polynomial(U: Float64[ndarray, "*B b d"], degree: int) -> Float64[ndarray, "*B b p"]:
    """Return the columns 1, v_i, v_i v_j (i <= j) with v = 2u - 1, up to the degree (0, 1, 2)."""
    columns = [np.ones_like(U[..., :1])]
    if degree >= 1:
        V = 2.0 * U - 1.0
        columns.append(V)
        if degree >= 2:
            first, second = pairs(U.shape[-1])
            columns.append(V[..., first] * V[..., second])
    return np.concatenate(columns, -1)


def polynomial_slope(
    coefficients: Float64[ndarray, "*#b p"], U: Float64[ndarray, "*#b d"], degree: int
) -> Float64[ndarray, "*#b d"]:
    """Return the slope of a combination of the columns of `polynomial`."""
    d = U.shape[-1]
    slope = coefficients[..., 1 : 1 + d]
    if degree >= 2:
        first, second = pairs(d)
        quadratic, V = coefficients[..., 1 + d :], 2.0 * U - 1.0
        slope = slope + (quadratic * V[..., second]) @ _one_hot(d, 0)
        slope = slope + (quadratic * V[..., first]) @ _one_hot(d, 1)
    return 2.0 * slope


@cache
def _one_hot(d: int, which: int) -> Float64[ndarray, "p d"]:
    """Return a matrix that adds up products by their first (0) or second (1) factor."""
    return np.eye(d)[pairs(d)[which]]


def stretched(U: Float64[ndarray, "b d"], ratios: Float64[ndarray, "B d"]) -> Float64[ndarray, "*B b d"]:
    """Return points on the scales of each task: log(1 + (r - 1) u) / log r; one copy when none is stretched."""
    if not bool((ratios > 1.0).any()):
        return U
    r = ratios[:, None, :]
    safe = r.clip(1.0 + 1e-9, None)
    return np.where(r > 1.0, np.log1p((safe - 1.0) * U) / np.log(safe), U)


def stretched_slopes(U: Float64[ndarray, "b d"], ratios: Float64[ndarray, "B d"]) -> Float64[ndarray, "B b d"]:
    """Return the derivatives of `stretched`."""
    r = ratios[:, None, :]
    safe = r.clip(1.0 + 1e-9, None)
    slope = (safe - 1.0) / ((1.0 + (safe - 1.0) * U) * np.log(safe))
    return np.where(r > 1.0, slope, np.ones_like(slope))


def waved(U: Float64[ndarray, "b d"], waves: Float64[ndarray, "B d"]) -> Float64[ndarray, "B b 2"]:
    """Return where each point lies on the wave of each task, (1 + cos, 1 + sin) / 2 of its phase waves'u.

    With these as further inputs a radial kernel is locally periodic: points whole periods apart are alike.
    """
    phase = waves @ U.T
    return 0.5 + 0.5 * np.stack([np.cos(phase), np.sin(phase)], -1)


def waved_slopes(U: Float64[ndarray, "b d"], waves: Float64[ndarray, "B d"]) -> Float64[ndarray, "B b 2 d"]:
    """Return the derivatives of `waved`."""
    phase = waves @ U.T
    return 0.5 * np.stack([-np.sin(phase), np.cos(phase)], -1)[..., None] * waves[:, None, None, :]


class View(NamedTuple):
    """How B tasks see the points of the unit cube."""

    ratios: Float64[ndarray, "B d"]
    """Upper over lower bound of inputs that are seen on a logarithmic scale; 1: as they are."""
    waves: Float64[ndarray, "B d"] | None
    """Angular frequencies of the wave that is a further input, zeros for a task without; None: no task has one."""

    def scaled(self, U: Float64[ndarray, "b d"]) -> Float64[ndarray, "*B b d"]:
        """Return the inputs on the scales of the tasks, as trends see them; one copy when all are plain."""
        return stretched(U, self.ratios)

    def whole(self, U: Float64[ndarray, "b d"], V: Float64[ndarray, "*B b d"]) -> Float64[ndarray, "*C b e"]:
        """Return what kernels see of points and their scaled inputs: these, then the place on the wave."""
        if self.waves is None:
            return V
        return np.concatenate([np.broadcast_to(V, (len(self.waves), *U.shape)), waved(U, self.waves)], -1)
