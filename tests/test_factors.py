"""Inverse Cholesky factors: against NumPy's own, and what happens where there are none."""

import numpy as np
import pytest

from pied.gp import factors


def matrices(count: int, n: int) -> np.ndarray:
    """Symmetric positive definite matrices."""
    A = np.random.default_rng(n).normal(size=(count, n, n))
    return A @ A.swapaxes(1, 2) + 0.1 * np.eye(n)


@pytest.mark.parametrize("n", [0, 1, 2, 10, 70])
def test_roots_are_inverse_cholesky_factors(n):
    K = matrices(5, n)
    kept = K.copy()
    R, failed = factors.roots(K)
    assert not failed.any()
    np.testing.assert_allclose(R @ np.linalg.cholesky(K), np.tile(np.eye(n), (5, 1, 1)), atol=1e-9)
    np.testing.assert_allclose(factors.log_determinants(R), np.linalg.slogdet(K)[1], rtol=1e-10, atol=1e-10)
    assert (np.triu(R, 1) == 0).all()
    assert np.array_equal(K, kept)


@pytest.mark.parametrize("wrong", [-1.0, 0.0, np.nan, np.inf])
def test_a_matrix_that_has_no_factor_leaves_the_others_alone(wrong):
    K = matrices(4, 6)
    alone, _ = factors.roots(K)
    K[2, 3, 3] = wrong
    R, failed = factors.roots(K)
    assert failed.tolist() == [False, False, True, False]
    assert np.array_equal(R[2], np.eye(6))
    assert np.array_equal(R[[0, 1, 3]], alone[[0, 1, 3]])


def test_numbers_are_added_to_the_diagonals():
    A, values = matrices(3, 4), np.arange(12.0).reshape(3, 4)
    expected = A + np.stack([np.diag(each) for each in values])
    factors.add_to_diagonal(A, values)
    assert np.array_equal(A, expected)
