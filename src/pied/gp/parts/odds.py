"""The evidence of given covariances: how likely told values are, whatever their linear trend and their variance."""

import math

import numpy as np
from numpy import ndarray

from pied.gp.factors import add_to_diagonal, log_determinants, roots
from pied.gp.kernels import KERNELS, radial
from pied.shapes import Float64

EXPONENTIAL = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0)
"""Coefficients of exp(-r), of functions that are continuous and nowhere smooth; no belief has it, and its slope at 0 is
not defined."""
LEAST = 1e-13
"""Added to the diagonals, so that rounding errors are not explained."""


def kernel_of(name: str, distances: Float64[ndarray, "*B n n"]) -> Float64[ndarray, "*B n n"]:
    """Return a kernel at scaled distances: one of the belief's, or "exponential"."""
    coefficients = EXPONENTIAL if name == "exponential" else KERNELS[name]
    squares = np.square(distances).reshape(-1, *distances.shape[-2:])
    return radial(squares, np.array([coefficients] * len(squares)), slopes=False)[0].reshape(distances.shape)


@np.errstate(all="ignore")
def evidence(
    K: Float64[ndarray, "B n n"], trend: Float64[ndarray, "n p"], y: Float64[ndarray, "n"]
) -> tuple[Float64[ndarray, "B"], Float64[ndarray, "B"]]:
    """Return the restricted log likelihood of each covariance, but for a constant, and its best variance.

    -(log|K| + log|F'K^-1 F| + (n - p) log s2) / 2, with s2 = Q / (n - p) and Q the square of the rest after the trend.
    """
    K = K.copy()
    add_to_diagonal(K, np.full(K.shape[:2], LEAST))
    R, failed = roots(K)
    half = R @ trend
    RA, failed_trend = roots(half.swapaxes(1, 2) @ half)
    columns = half @ RA.swapaxes(1, 2)
    rest = R @ y[:, None]
    rest = rest - columns @ (columns.swapaxes(1, 2) @ rest)
    freedom = len(y) - trend.shape[1]
    variance = np.square(rest).sum((1, 2)) / freedom
    value = -0.5 * (log_determinants(R) + log_determinants(RA) + freedom * np.log(variance))
    return np.where(failed | failed_trend | ~np.isfinite(value), -math.inf, value), variance
