"""Kriging against three oracles: GPyTorch, linear algebra with 40 digits, and finite differences."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import norm

from beliefs import numeric_slope
from oracles import Kriging
from pied.gp import descent, kernels, likelihood
from pied.gp.kernels import KERNELS, TRENDS
from pied.gp.likelihood import Tasks
from pied.rng import Stream

SCALES = (0.4, 0.9, 0.6)
MODES = {"exact": (0.0, False), "learned": (0.0, True), "known": (0.02, True)}


def data(n: int = 11, d: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Points and standardized observations of a function that no trend explains."""
    U = Stream(4).at("points").sobol(n, d)
    y = np.sin(4 * U[:, 0]) + U[:, 1] * U[:, -1] + 0.3 * np.cos(9 * U[:, -1])
    return U, (y - y.mean()) / y.std(ddof=1)


def task(U, y, kernel="matern 5/2", trend="constant", *, noise=0.0, nugget=(1e-8, 1e-8), prior=0.0, **masks) -> Tasks:
    """One regression; masks default to everything."""
    degree = TRENDS[trend]
    active = masks.get("active", np.ones(U.shape[1], dtype=bool))
    rows = masks.get("rows", np.ones(len(U), dtype=bool)).astype(float)
    return Tasks(
        U=U,
        basis=kernels.polynomial(U, degree),
        y=(y * rows)[None, :, None],
        rows=rows[None],
        active=active.astype(float)[None],
        columns=likelihood.columns_of(trend, active, degree).astype(float)[None],
        kernel=np.array([KERNELS[kernel]]),
        noise=np.array([[noise]]),
        nugget=np.log([nugget]),
        prior=prior,
    )


def at(nugget: float, scales=SCALES) -> np.ndarray:
    """Hyperparameters of one task."""
    return np.array([[*map(math.log, scales), math.log(nugget)]])


def batch(*tasks: Tasks) -> Tasks:
    """Several tasks on the same points and basis as one."""
    names = ("y", "rows", "active", "columns", "kernel", "noise", "nugget")
    return replace(tasks[0], **{name: np.concatenate([getattr(each, name) for each in tasks]) for name in names})


# ------------------------------------------------------------------------------------------------ kernels and trends


@pytest.mark.parametrize("name", KERNELS)
def test_kernels_are_the_textbook_ones(name):
    r = np.linspace(0, 5, 200)
    theirs = {
        "squared exponential": np.exp(-(r**2) / 2),
        "matern 5/2": (1 + math.sqrt(5) * r + 5 * r**2 / 3) * np.exp(-math.sqrt(5) * r),
        "matern 3/2": (1 + math.sqrt(3) * r) * np.exp(-math.sqrt(3) * r),
    }[name]
    ours, _ = kernels.radial((r**2)[None, None], np.array([KERNELS[name]]))
    np.testing.assert_allclose(ours[0, 0], theirs, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", KERNELS)
def test_slope_of_a_kernel_is_its_derivative_by_half_the_squared_distance(name):
    half = np.linspace(0.01, 8, 100)
    coefficients = np.array([KERNELS[name]])
    step = 1e-6 * half
    _, w = kernels.radial((2 * half)[None, None], coefficients)
    above, below = (kernels.radial(2 * each[None, None], coefficients)[0] for each in (half + step, half - step))
    np.testing.assert_allclose(w, (below - above) / (2 * step), rtol=1e-6, atol=1e-9)  # differences at 1e-6


def test_kernels_do_not_change_in_mixed_company():
    squares = Stream(0).uniform(1, 5, 5) * 4
    every = np.array(list(KERNELS.values()))
    together = kernels.radial(np.tile(squares, (3, 1, 1)), every)
    for i in range(3):
        alone = kernels.radial(squares, every[i : i + 1])
        for ours, theirs in zip(together, alone, strict=True):
            np.testing.assert_allclose(ours[i], theirs[0], rtol=0, atol=1e-12)


def test_squared_distances_equal_the_sum_over_inputs():
    left, right = Stream(1).uniform(4, 3), Stream(2).uniform(6, 3)
    inverse = 5 * Stream(3).uniform(2, 3)
    direct = (((left[:, None] - right[None])[None] * inverse[:, None, None]) ** 2).sum(-1)
    np.testing.assert_allclose(likelihood.squared_distances(left, right, inverse), direct, rtol=0, atol=1e-13)
    assert (likelihood.squared_distances(left, left, 1e4 * inverse) >= 0).all()


def test_a_trend_uses_only_the_columns_of_its_inputs():
    active = np.array([True, False, True])
    used = {trend: likelihood.columns_of(trend, active, 2).astype(int).tolist() for trend in TRENDS}
    assert used["none"] == [0] * 10
    assert used["constant"] == [1] + [0] * 9
    assert used["linear"] == [1, 1, 0, 1] + [0] * 6
    assert used["quadratic"] == [1, 1, 0, 1, 1, 0, 1, 0, 0, 1]  # v1 v1, v1 v3 and v3 v3 of the six products


# --------------------------------------------------------------------------------------- restricted likelihood: values


@pytest.mark.parametrize(("kernel", "trend"), [*itertools.product(KERNELS, TRENDS)])
@pytest.mark.parametrize(
    ("nugget", "tolerance"), [(1e-3, 1e-9), (1e-8, 1e-6)]
)  # nugget 1e-8: condition 1e9 times 1e-16
def test_restricted_likelihood_and_leave_one_out_equal_brute_force(kernel, trend, nugget, tolerance):
    U, y = data(13 if trend == "quadratic" else 9)
    fit = likelihood.evaluate(task(U, y, kernel, trend), at(nugget))
    exact = Kriging(U, y, kernel, trend, SCALES, math.exp(math.log(nugget)))
    assert float(fit.loss[0]) == pytest.approx(float(exact.loss), rel=tolerance)
    assert float(fit.variance[0, 0]) == pytest.approx(float(exact.s2), rel=tolerance)
    if len(U) < 10 and trend != "none":
        assert float(fit.density[0]) == pytest.approx(float(exact.leave_one_out()), rel=tolerance)


def test_known_noise_ties_the_variance_to_the_nugget():
    U, y = data()
    fit = likelihood.evaluate(task(U, y, noise=0.02, nugget=(1e-8, 1e3)), at(0.1))
    exact = Kriging(U, y, "matern 5/2", "constant", SCALES, 0.1, variance=0.2)
    assert float(fit.variance[0, 0]) == pytest.approx(0.2, rel=1e-12)
    assert float(fit.loss[0]) == pytest.approx(float(exact.loss), rel=1e-9)
    assert float(fit.density[0]) == pytest.approx(float(exact.leave_one_out()), rel=1e-9)


def test_prior_adds_its_log_density_up_to_a_constant():
    U, y = data()
    thetas = [at(1e-3, (0.3, 0.5, 2.0)), at(1e-1, (1.0, 4.0, 0.1))]
    for noise in (0.0, 0.02):
        tasks = task(U, y, noise=noise, nugget=(1e-8, 1e3), prior=1.0)
        extra = []
        for theta in thetas:
            fit = likelihood.evaluate(tasks, theta)
            plain = likelihood.evaluate(replace(tasks, prior=0.0), theta)
            density = norm(math.sqrt(2) + 0.5 * math.log(3), math.sqrt(3)).logpdf(theta[0, :3]).sum()
            if noise:
                density += norm(0.0, 2.0).logpdf(math.log(fit.variance[0, 0]))
            else:
                density += norm(-6.0, 3.0).logpdf(float(theta[0, 3]))
            extra.append(float((fit.loss - plain.loss)[0]) + density)
        assert extra[0] == pytest.approx(extra[1], abs=1e-9)


# -------------------------------------------------------------------------------------------------------- and slopes


@pytest.mark.parametrize(("kernel", "trend", "mode"), [*itertools.product(KERNELS, TRENDS, MODES)])
def test_slope_of_the_loss_equals_finite_differences(kernel, trend, mode):
    U, y = data(13)
    noise, learns = MODES[mode]
    tasks = task(U, y, kernel, trend, noise=noise, nugget=(1e-8, 1e3) if learns else (1e-3, 1e-3), prior=1.0)
    theta = at(1e-3)
    fit = likelihood.evaluate(tasks, theta)
    slope = numeric_slope(lambda t: likelihood.evaluate(tasks, t[None], with_slope=False).loss[0], theta[0])
    if not learns:
        assert float(fit.slope[0, -1]) == 0.0
        slope[-1] = 0.0
    np.testing.assert_allclose(fit.slope[0], slope, rtol=1e-6, atol=1e-6)  # central differences at 1e-5


def test_inputs_an_output_does_not_see_have_no_slope():
    U, y = data()
    tasks = task(U, y, active=np.array([True, False, True]), prior=1.0)
    assert float(likelihood.evaluate(tasks, at(1e-3)).slope[0, 1]) == 0.0


# ------------------------------------------------------------------------------------------------------------ GPyTorch


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("nugget", [1e-4, 1e-2])
def test_likelihood_and_its_slopes_equal_gpytorch(kernel, nugget):
    Exact = pytest.importorskip("gpytorch_oracle").Exact
    U, y = data(20)
    fit = likelihood.evaluate(task(U, y, kernel, "none", nugget=(1e-8, 1e3)), at(nugget))
    variance = float(fit.variance[0, 0])
    model = Exact(U, y, kernel, variance, SCALES, variance * nugget)
    assert float(fit.loss[0]) == pytest.approx(model.minus_log_likelihood().item(), rel=1e-8)
    # the profiled variance is a maximum: slopes at fixed variance are slopes of the profile
    np.testing.assert_allclose(fit.slope[0], model.slopes(), rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("kernel", KERNELS)
def test_likelihood_around_a_constant_mean_equals_gpytorch(kernel):
    Exact = pytest.importorskip("gpytorch_oracle").Exact
    U, y = data(20)
    nugget, variance = 1e-4, 0.7
    fit = likelihood.evaluate(task(U, y, kernel, "constant", noise=variance * nugget, nugget=(1e-8, 1e3)), at(nugget))
    exact = Kriging(U, y, kernel, "constant", SCALES, nugget, variance)
    model = Exact(U, y, kernel, variance, SCALES, variance * nugget, mean=float(exact.beta[0]))
    restriction = 0.5 * (
        float(exact.logdet_A) - math.log(variance)
    )  # what REML adds to the likelihood at the best mean
    assert float(fit.loss[0]) == pytest.approx(model.minus_log_likelihood().item() + restriction, rel=1e-8)


# --------------------------------------------------------------------------------------------------------------- masks


@pytest.mark.parametrize(("kernel", "trend"), [*itertools.product(KERNELS, TRENDS)])
def test_masked_rows_and_inputs_equal_removed_ones(kernel, trend):
    U, y = data(24)
    rows = np.ones(24, dtype=bool)
    rows[[0, 5, 23]] = False
    active = np.array([True, False, True])
    masked = likelihood.evaluate(task(U, y, kernel, trend, rows=rows, active=active, prior=1.0), at(1e-4))
    removed = likelihood.evaluate(task(U[rows][:, active], y[rows], kernel, trend, prior=1.0), at(1e-4, (0.4, 0.6)))
    for name in ("loss", "variance", "density"):
        np.testing.assert_allclose(getattr(masked, name), getattr(removed, name), rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(masked.slope[:, [0, 2, 3]], removed.slope, rtol=1e-9, atol=1e-9)


def test_masked_trend_columns_equal_removed_ones():
    U, y = data(20)
    wide = task(U, y, trend="quadratic")
    masked = replace(wide, columns=likelihood.columns_of("linear", np.ones(3, dtype=bool), 2).astype(float)[None])
    plain = likelihood.evaluate(task(U, y, trend="linear"), at(1e-4))
    ours = likelihood.evaluate(masked, at(1e-4))
    np.testing.assert_allclose(ours.loss, plain.loss, rtol=1e-12, atol=0)
    np.testing.assert_allclose(ours.slope, plain.slope, rtol=1e-10, atol=1e-12)


def test_a_batch_equals_its_members_and_its_pieces(monkeypatch):
    U, y = data(20)
    members = [
        task(U, y * scale, kernel, "linear", prior=1.0) for scale, kernel in zip((1.0, 1e3, 1.0), KERNELS, strict=True)
    ]
    theta = np.concatenate([at(1e-4), at(1e-3), at(1e-2)])
    together = likelihood.evaluate(batch(*members), theta)
    monkeypatch.setattr(likelihood, "ENTRIES_AT_ONCE", 20 * 20 * 2)
    pieces = likelihood.evaluate(batch(*members), theta)
    for i, member in enumerate(members):
        alone = likelihood.evaluate(member, theta[i : i + 1])
        for name in ("loss", "slope", "variance", "density"):
            expected = getattr(alone, name)[0]
            np.testing.assert_allclose(getattr(together, name)[i], expected, rtol=1e-9, atol=1e-9)
            np.testing.assert_allclose(getattr(pieces, name)[i], expected, rtol=1e-9, atol=1e-9)


# ---------------------------------------------------------------------------------------------------------- optimizing


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kernel", KERNELS)
def test_optimized_hyperparameters_cannot_be_improved_by_scipy(kernel, mode):
    U, y = data(25)
    noise, learns = MODES[mode]
    tasks = task(U, y, kernel, noise=noise, nugget=(1e-8, 1e3) if learns else (1e-6, 1e-6), prior=1.0)
    start = at(1e-2 if learns else 1e-6, (1.0, 1.0, 1.0))
    ours, fit = descent.optimize(tasks, start, 100)

    def scipy_loss(theta):
        each = likelihood.evaluate(tasks, theta[None])
        return float(each.loss[0]), each.slope[0]

    low, high = tasks.nugget[0].tolist()
    bounds = [(likelihood.SHORTEST, likelihood.LONGEST)] * 3 + [(low, high)]
    theirs = minimize(scipy_loss, ours[0], jac=True, bounds=bounds, method="L-BFGS-B")
    assert float(fit.loss[0]) <= theirs.fun + 0.01  # nats
    assert float(fit.loss[0]) < float(likelihood.evaluate(tasks, start).loss[0])


def test_optimizing_never_loses_and_stays_within_bounds():
    U, y = data(15)
    tasks = batch(*(task(U, y, kernel, nugget=(1e-8, 1e3), prior=0.0) for kernel in KERNELS))
    for start in (at(1e-8, (0.005,) * 3), at(1e3, (100.0,) * 3), at(1e-4, (1e-5, 1e5, 1.0))):
        begin = np.tile(start, (3, 1))
        theta, fit = descent.optimize(tasks, begin, 30)
        assert (theta[:, :3] >= likelihood.SHORTEST).all()
        assert (theta[:, :3] <= likelihood.LONGEST).all()
        inside = begin.copy()
        inside[:, :3] = begin[:, :3].clip(likelihood.SHORTEST, likelihood.LONGEST)
        assert (fit.loss <= likelihood.evaluate(tasks, inside).loss).all()
        again = likelihood.evaluate(tasks, theta)
        np.testing.assert_allclose(again.loss, fit.loss, rtol=1e-9, atol=1e-9)


def test_optimizing_leaves_what_is_not_free_where_it_is():
    U, y = data(15)
    start = at(1e-6, (0.5, 0.123, 0.5))
    theta, _ = descent.optimize(task(U, y, nugget=(1e-6, 1e-6), active=np.array([True, False, True])), start, 30)
    assert float(theta[0, 1]) == float(start[0, 1])
    assert float(theta[0, 3]) == pytest.approx(math.log(1e-6))
    assert float(theta[0, 0]) != float(start[0, 0])


def test_a_task_is_optimized_alike_in_any_company():
    U, y = data(20)
    others = [task(U, np.cos(7 * U[:, 1]), kernel, prior=1.0) for kernel in KERNELS]
    mine = task(U, y, prior=1.0)
    alone, _ = descent.optimize(mine, at(1e-8), 40)
    together, _ = descent.optimize(batch(mine, *others), np.tile(at(1e-8), (4, 1)), 40)
    # the company may only keep it going after its own gain fell below STOP_BELOW_GAIN
    gain = likelihood.evaluate(mine, alone).loss - likelihood.evaluate(mine, together[:1]).loss
    assert -1e-9 <= float(gain[0]) < 10 * descent.STOP_BELOW_GAIN


def test_a_covariance_that_cannot_be_factorized_gives_an_infinite_loss():
    U, y = data(12)
    doubled = np.concatenate([U, U])
    tasks = task(doubled, np.concatenate([y, y + 1.0]), "squared exponential", nugget=(1e-30, 1e-30))
    fit = likelihood.evaluate(tasks, at(1e-30))
    assert float(fit.loss[0]) == math.inf
    assert float(fit.density[0]) == -math.inf
    assert (fit.slope == 0).all()
    theta, after = descent.optimize(tasks, at(1e-30), 5)
    assert np.isfinite(theta).all()
    assert float(after.loss[0]) == math.inf


def test_a_fit_that_passes_by_what_was_told_is_worse_than_any_that_does_not():
    """A jump within a thousandth: long length scales need a variance of which 1e-12 is a noise."""
    U = np.array([[0.1], [0.499], [0.5], [0.501], [0.9]])
    y = np.array([-1.0, -1.0, -1.0, 1.0, 1.0])
    tasks = task(U, y, "squared exponential", nugget=(1e-12, 1e-12))
    long, short = (likelihood.evaluate(tasks, at(1e-12, [scale])) for scale in (3.0, 0.001))
    assert float(long.loss[0]) > 0.9 * likelihood.MISS_PENALTY
    assert float(long.density[0]) < -0.9 * likelihood.MISS_PENALTY
    assert abs(float(short.loss[0])) < 100
    assert abs(float(short.density[0])) < 100
    noisy = task(U, y, "squared exponential", nugget=(1e-8, 1e-8))
    assert float(likelihood.evaluate(noisy, at(1e-8, [3.0])).loss[0]) < 0.1 * likelihood.MISS_PENALTY


def test_values_that_contradict_each_other_are_fitted_as_well_as_they_can_be():
    U, y = data(12)
    doubled, contrary = np.concatenate([U, U]), np.concatenate([y, y + 0.5])
    tasks = task(doubled, contrary, nugget=(1e-12, 1e-12))
    theta, fit = descent.optimize(tasks, at(1e-12), 20)
    assert likelihood.MISS_PENALTY < float(fit.loss[0]) < likelihood.evaluate(tasks, at(1e-12)).loss[0]
    assert np.isfinite(theta).all()
