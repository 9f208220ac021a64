"""Kernels, trends and scales of the inputs: slopes are derivatives."""

import numpy as np
import pytest

from beliefs import numeric_slope
from pied.gp import kernels
from pied.gp.features import view
from pied.rng import Stream

U = Stream(5).uniform(4, 3)
RATIOS = np.array([[1000.0, 1.0, 7.0], [1.0, 1.0, 1.0]])


@pytest.mark.parametrize("degree", [1, 2])
def test_trend_slopes_are_the_derivatives_of_the_trend(degree):
    coefficients = Stream(6).normal(4, kernels.polynomial(U, degree).shape[1])
    ours = kernels.polynomial_slope(coefficients, U, degree=degree)
    for u, c, slope in zip(U, coefficients, ours, strict=True):
        theirs = numeric_slope(lambda v, c=c: c @ kernels.polynomial(v[None], degree)[0], u)
        np.testing.assert_allclose(slope, theirs, rtol=1e-8, atol=1e-8)  # central differences at 1e-5


def test_slopes_of_a_logarithmic_scale_are_its_derivatives():
    ours = view.stretched_slopes(U, RATIOS)
    for i, u in enumerate(U):
        theirs = numeric_slope(lambda v: view.stretched(v[None], RATIOS)[:, 0], u, 1e-6)
        np.testing.assert_allclose(ours[:, i], np.diagonal(theirs, axis1=1, axis2=2), rtol=1e-5)  # differences at 1e-6
