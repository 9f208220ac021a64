"""Kernels, trends and scales: slopes are derivatives, and NumPy and torch agree."""

import pytest
import torch

from pied.gp import kernels
from pied.gp.kernels import KERNELS
from pied.rng import Stream

U = Stream(5).uniform(4, 3)
RATIOS = torch.tensor([[1000.0, 1.0, 7.0], [1.0, 1.0, 1.0]], dtype=torch.float64)


def both(function, *tensors, **words):
    """The same by torch and by NumPy."""
    return function(*tensors, **words), function(*(each.numpy() for each in tensors), **words)


@pytest.mark.parametrize("degree", [1, 2])
def test_trend_slopes_are_the_derivatives_of_the_trend(degree):
    p = kernels.polynomial(U, degree).shape[1]
    coefficients = Stream(6).normal(4, p)
    ours, numpys = both(kernels.polynomial_slope, coefficients, U, degree=degree)
    theirs = torch.func.vmap(torch.func.grad(lambda u, c: (c * kernels.polynomial(u[None], degree)[0]).sum()))
    torch.testing.assert_close(ours, theirs(U, coefficients))
    torch.testing.assert_close(torch.from_numpy(numpys), ours, rtol=1e-15, atol=1e-15)


def test_slopes_of_a_logarithmic_scale_are_its_derivatives():
    ours, numpys = both(kernels.stretched_slopes, U, RATIOS)
    for task, ratios in enumerate(RATIOS):
        theirs = torch.func.vmap(
            torch.func.jacrev(lambda u, r=ratios: kernels.stretched(u[None], r[None]).reshape(-1))
        )(U)
        torch.testing.assert_close(ours[task], theirs.diagonal(dim1=1, dim2=2))
    torch.testing.assert_close(torch.from_numpy(numpys), ours, rtol=1e-15, atol=1e-15)


def test_numpy_and_torch_agree():
    kernels = torch.tensor(list(KERNELS.values()), dtype=torch.float64)
    squares = 4.0 * Stream(7).uniform(3, 5, 6)
    for degree in (0, 1, 2):
        ours, numpys = both(kernels.polynomial, U, degree=degree)
        assert torch.equal(torch.from_numpy(numpys), ours)
    for ours, numpys in zip(*both(kernels.radial, squares, kernels), strict=True):
        torch.testing.assert_close(torch.from_numpy(numpys), ours, rtol=1e-14, atol=1e-15)
    ours, numpys = both(kernels.stretched, U, RATIOS)
    torch.testing.assert_close(torch.from_numpy(numpys), ours, rtol=1e-14, atol=1e-15)
