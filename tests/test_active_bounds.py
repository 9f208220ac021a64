"""A search that ends at a bound ends exactly there; a last bit beside it would differ from machine to machine."""

import numpy as np
import pytest
from numpy import ndarray

from pied.search import sqp


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (-0.3, 0.7)])
def test_a_search_that_ends_at_a_bound_ends_exactly_there(low: float, high: float) -> None:
    """Quadratic functions of correlated variables, whose steps to a bound are sums of several products."""
    at_bound = 0
    for seed in range(12):
        draw, d = np.random.default_rng(seed), 3
        A, g = draw.normal(size=(d, d)), 4 * draw.normal(size=d)
        H = A @ A.T + 0.1 * np.eye(d)

        def evaluate(Z: ndarray, H: ndarray = H, g: ndarray = g) -> sqp.Evaluated:
            phi = 0.5 * ((Z @ H) * Z).sum(1) + Z @ g
            return phi[:, None], (Z @ H + g)[:, None]

        box = np.full(d, low), np.full(d, high)
        found = sqp.minimize(evaluate, draw.uniform(low, high, (3, d)), *box, 60, patience=None)
        away = np.minimum(found.z - low, high - found.z)
        assert (away[away < 5e-11] == 0.0).all()
        at_bound += int((away == 0.0).sum())
    assert at_bound >= 36  # one variable of three in the mean, or nothing was tested


def test_what_lies_within_rounding_of_a_bound_lies_on_it_and_nothing_else_moves() -> None:
    low, high = np.array([0.0, -1.0, 2.0]), np.array([1.0, 1.0, 4.0])
    z = np.array([[1.0 - 2.0**-52, -1.0 + 2.0**-51, 4.5], [1e-12, 0.3, 2.0 - 1e-9]])
    assert sqp.within(z, low, high).tolist() == [[1.0, -1.0, 4.0], [1e-12, 0.3, 2.0]]
