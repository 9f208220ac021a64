"""Functions drawn from a belief have its moments, hang together, and pass through what was told."""

import numpy as np
import pytest

from beliefs import V, fixed, numeric_slope, points, wavy
from pied.gp import GP, Coding, Labels, Paths
from pied.gp.kernels import KERNELS
from pied.gp.paths import DEGREES
from pied.rng import Stream

COUNT = 400
"""Draws: a deviation then has a standard error of 3.5 %."""


def drawn(gp, U, count=COUNT):
    """The draws at points: count b m."""
    paths = Paths.of(gp, count, Stream(1).at("paths"))
    return paths.values(U)


def test_every_kernel_has_a_spectral_density():
    assert DEGREES.keys() == KERNELS.keys()


def test_a_kernel_without_a_spectral_density_is_not_drawn_from_that_of_another(monkeypatch):
    gp = fixed(points(), wavy(points()))
    monkeypatch.setitem(KERNELS, "another", (1.0, 0.0, 0.0, 0.0, 1.0, 0.0))
    with pytest.raises(KeyError, match="another"):
        drawn(gp, V, 2)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("trend", ["constant", "quadratic"])
def test_draws_have_the_moments_of_the_belief(kernel, trend):
    gp = fixed(points(), wavy(points()), kernel=kernel, trend=trend)
    mean, deviation = gp.moments(V)
    W = drawn(gp, V)
    assert (np.abs(W.mean(0) - mean) < 0.25 * deviation + 1e-6).all()  # 400 draws: 5 standard errors
    assert W.std(0) == pytest.approx(deviation, rel=0.25)  # 400 draws, each of a prior of some waves


def test_draws_pass_through_exact_values_and_not_through_noisy_ones():
    U, y = points(), wavy(points())
    assert drawn(fixed(U, y, nugget=1e-10), U, 20)[..., 0] == pytest.approx(np.tile(y, (20, 1)), abs=1e-3)
    noisy = fixed(U, y, nugget=0.1)
    assert drawn(noisy, U)[..., 0].std(0) == pytest.approx(noisy.moments(U)[1][:, 0], rel=0.25)


def test_neighbouring_points_move_together():
    gp = fixed(points(), wavy(points()))
    W = drawn(gp, np.array([[0.97, 0.97], [0.972, 0.97], [0.1, 0.5]]))[..., 0]
    together = np.corrcoef(W.T)
    assert together[0, 1] > 0.9
    assert abs(together[0, 2]) < 0.5


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("trend", ["constant", "quadratic"])
def test_draws_at_a_few_points_have_the_deviations_of_the_belief_and_what_imagining_one_tells_of_another(kernel, trend):
    gp = fixed(points(), wavy(points()), kernel=kernel, trend=trend, nugget=1e-10)
    U = np.array([[0.97, 0.97], [0.9, 0.95], [0.1, 0.5]])
    mean, deviation = gp.moments(U)
    assert gp.drawn(U, np.zeros((1, 3, 1)))[0] == pytest.approx(mean)
    root = (gp.drawn(U, np.eye(3)[:, :, None]) - mean)[..., 0]
    covariance = root.T @ root
    assert np.sqrt(np.diag(covariance)) == pytest.approx(deviation[:, 0], rel=1e-6)
    left = gp.imagine(U[:1]).moments(U)[1][:, 0] ** 2
    told = covariance[0] ** 2 / covariance[0, 0]
    assert left[1:] == pytest.approx((np.diag(covariance) - told)[1:], rel=1e-3)  # the nugget of what is imagined


def test_slopes_of_draws_are_those_of_their_values():
    U = points(14, 2)
    outputs = np.stack([wavy(U), np.exp(U[:, 0]), np.sin(12 * U[:, 0])], 1)
    gp = GP.fit(U, outputs, ratios=np.array([20.0, 1.0]))
    paths = Paths.of(gp, 3, Stream(2))
    for which in range(3):
        number = np.array([which])
        _, slope = paths.values_and_slopes(V[:1], number)
        numeric = numeric_slope(lambda u, n=number: paths.values_and_slopes(u[None], n)[0][0], V[0])
        assert slope[0] == pytest.approx(numeric, rel=1e-4, abs=1e-5)


def test_all_functions_at_all_points_are_those_found_one_at_a_time():
    U = points(14, 2)
    gp = GP.fit(U, np.stack([wavy(U), np.exp(U[:, 0]), np.sin(12 * U[:, 0])], 1), ratios=np.array([20.0, 1.0]))
    paths = Paths.of(gp, 3, Stream(2))
    rows = np.repeat(np.arange(3), len(V))
    singly, _ = paths.values_and_slopes(np.tile(V, (3, 1)), rows)
    assert paths.values(V) == pytest.approx(singly.reshape(3, len(V), 3), rel=1e-9, abs=1e-9)


def test_labels_are_drawn_each_as_one_value():
    U = np.stack([np.tile([0.0, 0.5, 1.0], 4), np.linspace(0, 1, 12)], 1)
    y = (U[:, :1] > 0.3) * 2.0 + U[:, 1:] ** 2
    gp = GP.fit(U, y, coding=Coding(2, (Labels(0, 3, np.zeros((3, 0))),)))
    W = drawn(gp, np.array([[0.5, 0.4], [0.51, 0.4]]), 30)
    assert W[:, 0] == pytest.approx(W[:, 1])


def test_a_factor_moves_functions_away_from_the_mean_and_their_slopes_with_them():
    U = points(14, 2)
    gp = GP.fit(U, np.stack([wavy(U), np.sin(12 * U[:, 0])], 1))
    factor, which = np.array([4.0, 1.5]), np.array([1])
    plain, wide = (Paths.of(each, 3, Stream(2)) for each in (gp, gp.widened(factor, factor)))
    mean = gp.moments(V[:1])[0]
    (values, _), (wider, slope) = (each.values_and_slopes(V[:1], which) for each in (plain, wide))
    assert wider - mean == pytest.approx(factor * (values - mean), rel=1e-6, abs=1e-9)
    numeric = numeric_slope(lambda u: wide.values_and_slopes(u[None], which)[0][0], V[0])
    assert slope[0] == pytest.approx(numeric, rel=1e-4, abs=1e-5)
