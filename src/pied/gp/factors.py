"""Inverse Cholesky factors of many small matrices at once; NumPy has no batched triangular solve."""

import numpy as np
from numpy import ndarray

from pied.shapes import Bool, Float64


def roots(K: Float64[ndarray, "B n n"]) -> tuple[Float64[ndarray, "B n n"], Bool[ndarray, "B"]]:
    """Return R = L^-1 with K = L L', so that K^-1 = R'R, and which matrices are not positive definite.

    R is the identity for those. LAPACK works in place on the transposes of C-ordered matrices: no copies are made.
    """
    from scipy.linalg import lapack  # not before it is needed: it takes long to load

    if not K.shape[1]:  # LAPACK complains on the terminal
        return np.array(K), np.zeros(len(K), dtype=bool)
    R, eye = np.array(K, order="C"), np.eye(K.shape[1])
    failed = np.array([lapack.dpotrf(each.T, 0, 1, 1)[1] != 0 for each in R], dtype=bool)
    failed |= ~np.isfinite(np.diagonal(R, axis1=1, axis2=2)).all(1)
    if failed.any():
        R[failed] = eye
    for each in R:
        lapack.dtrtri(each.T, 0, 0, 1)
    overflown = ~np.isfinite(R.sum((1, 2)))
    if overflown.any():
        R[overflown] = eye
    return R, failed | overflown


def log_determinants(R: Float64[ndarray, "B n n"]) -> Float64[ndarray, "B"]:
    """Return log|K| from its inverse Cholesky factor."""
    return -2.0 * np.log(np.diagonal(R, axis1=1, axis2=2)).sum(1)


def add_to_diagonal(A: Float64[ndarray, "B n n"], values: Float64[ndarray, "B n"]) -> None:
    """Add numbers to the diagonals of C-ordered matrices, in place."""
    n = A.shape[1]
    A.reshape(len(A), n * n)[:, :: n + 1] += values
