"""What a regression is made of: kernels and trend columns."""

import math
from functools import cache

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
EVERY_TREND = {**TRENDS, "model": 0, "model, linear": 1, "scaled model": 0, "stated": 0}  # also with a model (`drift`)


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
