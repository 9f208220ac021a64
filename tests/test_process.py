"""Beliefs against GPyTorch and brute force, and the claims a belief makes: units, masks, choices, never raising."""

import itertools
import logging
import math

import numpy as np
import pytest

from beliefs import PLAIN, SCALES, V, chosen, fixed, numeric_slope, points, scales_of, wavy
from oracles import Kriging
from pied.gp import GP, MOST_TOLD
from pied.gp.choices import Model
from pied.gp.kernels import KERNELS, TRENDS
from pied.rng import Stream


def standardized(gp: GP, y, j=0):
    return (gp.warps[j].forward(y) - gp.location[j]) / gp.deviation[j]


def natural(gp: GP, mean, variance, j=0):
    """Moments of a standardized oracle on the scale of the belief."""
    return gp.location[j] + gp.deviation[j] * mean, gp.deviation[j] * np.sqrt(variance)


# --------------------------------------------------------------------------------------------------- moments, oracles


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("nugget", [1e-4, 1e-2])
def test_moments_around_a_zero_mean_equal_gpytorch(kernel, nugget):
    Exact = pytest.importorskip("gpytorch_oracle").Exact
    U = points(20)
    y = wavy(U)
    gp = fixed(U, y, kernel, "none", nugget=nugget)
    variance = float(gp.variance[0])
    model = Exact(U, standardized(gp, y), kernel, variance, SCALES, variance * nugget)
    mean, deviation = natural(gp, *model.moments(V))
    ours, our_deviation = gp.moments(V)
    np.testing.assert_allclose(ours[:, 0], mean, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(our_deviation[:, 0], deviation, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("kernel", KERNELS)
def test_mean_around_a_constant_equals_gpytorch_at_the_best_constant(kernel):
    Exact = pytest.importorskip("gpytorch_oracle").Exact
    U = points(20)
    y = wavy(U)
    gp = fixed(U, y, kernel, "constant", nugget=1e-4)
    z = standardized(gp, y)
    best = float(Kriging(U, z, kernel, "constant", SCALES, 1e-4).beta[0])
    variance = float(gp.variance[0])
    theirs, known = Exact(U, z, kernel, variance, SCALES, variance * 1e-4, mean=best).moments(V)
    mean, deviation = natural(gp, theirs, known)
    ours, our_deviation = gp.moments(V)
    np.testing.assert_allclose(ours[:, 0], mean, rtol=1e-8, atol=1e-8)
    assert (our_deviation[:, 0] >= deviation - 1e-9).all()  # not knowing the constant can only add


# standardized data are rounded to 1e-12; with a nugget of 1e-8 the covariance matrix multiplies that by up to 1e8
@pytest.mark.parametrize(("kernel", "trend"), [*itertools.product(KERNELS, TRENDS)])
@pytest.mark.parametrize(("nugget", "tolerance"), [(1e-3, 1e-8), (1e-8, 1e-5)])
def test_moments_equal_brute_force_with_the_uncertainty_of_the_trend(kernel, trend, nugget, tolerance):
    U = points(12)
    y = wavy(U)
    gp = fixed(U, y, kernel, trend, nugget=nugget)
    exact = Kriging(U, standardized(gp, y), kernel, trend, SCALES, nugget)
    assert float(gp.variance[0]) == pytest.approx(float(exact.s2), rel=tolerance)
    pairs = [exact.moments(u) for u in V]
    mean, deviation = natural(gp, *(np.array([float(p[i]) for p in pairs]) for i in range(2)))
    ours, our_deviation = gp.moments(V)
    np.testing.assert_allclose(ours[:, 0], mean, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(our_deviation[:, 0], deviation, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(("kernel", "trend"), [*itertools.product(KERNELS, TRENDS)])
def test_slopes_of_the_moments_equal_finite_differences(kernel, trend):
    U = points(14)
    gp = fixed(U, wavy(U), kernel, trend, nugget=1e-4)
    mean, deviation, mean_slope, deviation_slope = gp.moments_and_slopes(V)
    for ours, theirs in zip((mean, deviation), gp.moments(V), strict=True):
        assert np.array_equal(ours, theirs)
    for i, u in enumerate(V):
        for part, slope in enumerate((mean_slope, deviation_slope)):
            theirs = numeric_slope(lambda v, part=part: gp.moments(v[None])[part][0], u, 1e-5)
            np.testing.assert_allclose(slope[i], theirs, rtol=1e-5, atol=1e-6)


def test_exact_outputs_are_reproduced_where_they_were_told():
    U = points(25)
    y = np.stack([wavy(U), 1e6 * wavy(U) - 1e9, np.exp(5 * U[:, 0])], -1)
    gp = GP.fit(U, y)
    mean, deviation = gp.moments(U)
    np.testing.assert_allclose(gp.unwarp(mean), y, rtol=1e-4, atol=1e-3)
    assert (deviation / gp.deviation < 1e-2).all()


@pytest.mark.slow
def test_nine_of_ten_intervals_hold_what_they_should():
    held, total = 0, 0
    for k in range(20):  # functions drawn from a process of known length scale
        U, W = Stream(k).at("told").sobol(32, 2), Stream(k).at("new").sobol(16, 2)
        every = np.concatenate([U, W])
        r2 = ((every[:, None] - every) ** 2).sum(2) / 0.35**2
        root = np.linalg.cholesky(np.exp(-0.5 * r2) + 1e-9 * np.eye(48))
        y = root @ Stream(k).at("path").normal(48)
        gp = GP.fit(U, y[:32, None])
        mean, deviation = gp.moments(W)
        lower, upper = (gp.unwarp(mean + z * deviation)[:, 0] for z in (-1.645, 1.645))
        held += int(((lower <= y[32:]) & (y[32:] <= upper)).sum())
        total += 16
    assert 0.8 < held / total < 0.98  # 320 points of 20 functions, not independent within one


# --------------------------------------------------------------------------------------------------------------- masks


def test_rows_not_told_equal_rows_not_there():
    U = points(20)
    y = wavy(U)
    partial = y.copy()
    partial[[1, 7, 19]] = math.nan
    told = np.isfinite(partial)
    alone, masked = GP.fit(U[told], y[told][:, None]), GP.fit(U, partial[:, None])
    fitted = {"theta": None, "others": None}
    assert alone.choices[0].to_dict() | fitted == masked.choices[0].to_dict() | fitted
    for ours, theirs in zip(masked.moments(V), alone.moments(V), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-7)


def test_inputs_not_seen_equal_inputs_not_there():
    U = points(15)
    y = 2 + np.sin(5 * U[:, 1])
    smooth = Model(nugget=(1e-8, 1e-8))  # a smaller one lets rounding show
    seeing = GP.fit(U, y[:, None], active=np.array([[False, True]]), model=smooth)
    alone = GP.fit(U[:, 1:], y[:, None], model=smooth)
    for ours, theirs in zip(seeing.moments(V), alone.moments(V[:, 1:]), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-8)
    moved = V.copy()
    moved[:, 0] = 1 - moved[:, 0]
    assert np.array_equal(seeing.moments(V)[0], seeing.moments(moved)[0])
    _, _, mean_slope, deviation_slope = seeing.moments_and_slopes(V)
    assert (mean_slope[..., 0] == 0).all()
    assert (deviation_slope[..., 0] == 0).all()


def test_outputs_have_their_own_inputs_rows_and_noise():
    U = points(20)
    Y = np.stack([wavy(U), np.sin(3 * U[:, 0]), U[:, 1] ** 2], -1)
    Y[3, 0] = Y[8, 2] = math.nan
    active = np.array([[True, True], [True, False], [False, True]])
    together = GP.fit(U, Y, active=active, noise=[0.0, None, 0.01])
    for j, noise in enumerate([0.0, None, 0.01]):
        previous = [together.choices[j]]
        alone = GP.fit(U, Y[:, j : j + 1], active=active[j : j + 1], noise=[noise], previous=previous)
        for ours, theirs in zip(together.moments(V), alone.moments(V), strict=True):
            np.testing.assert_allclose(ours[:, j : j + 1], theirs, rtol=1e-7, atol=1e-9)


# ----------------------------------------------------------------------------------------------------------- imagining


@pytest.mark.parametrize("trend", TRENDS)
@pytest.mark.parametrize("nugget", [1e-2, 1e-8])
def test_imagined_points_keep_the_mean_and_shrink_the_variance(trend, nugget):
    U = points(14)
    gp = fixed(U, wavy(U), trend=trend, nugget=nugget)
    pending = Stream(5).sobol(3, 2)
    after = gp.imagine(pending)
    (mean, deviation), (new_mean, new_deviation) = gp.moments(V), after.moments(V)
    np.testing.assert_allclose(new_mean, mean, rtol=1e-6, atol=1e-6)
    assert (new_deviation <= deviation * (1 + 1e-9)).all()
    assert (after.moments(pending)[1] < 0.5 * gp.moments(pending)[1]).all() or nugget > 1e-3
    assert np.array_equal(gp.moments(V)[1], deviation)  # the belief itself has not changed


def test_imagining_is_conditioning_on_the_mean():
    U, pending = points(10), Stream(5).sobol(2, 2)
    y = wavy(U)
    gp = fixed(U, y, trend="linear", nugget=1e-4)
    more = np.concatenate([y, gp.moments(pending)[0][:, 0]])
    exact = Kriging(
        np.concatenate([U, pending]),
        standardized(gp, more),
        "matern 5/2",
        "linear",
        SCALES,
        1e-4,
        variance=float(gp.variance[0]),
    )
    pairs = [exact.moments(u) for u in V]
    mean, deviation = natural(gp, *(np.array([float(p[i]) for p in pairs]) for i in range(2)))
    ours, our_deviation = gp.imagine(pending).moments(V)
    np.testing.assert_allclose(ours[:, 0], mean, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(our_deviation[:, 0], deviation, rtol=1e-8, atol=1e-8)


def test_imagining_concerns_only_the_outputs_that_are_missing():
    U = points(14)
    gp = GP.fit(U, np.stack([wavy(U), np.cos(4 * U[:, 1])], -1))
    pending = Stream(5).sobol(2, 2)
    after = gp.imagine(pending, np.array([[True, False], [True, False]]))
    np.testing.assert_allclose(after.moments(V)[1][:, 1], gp.moments(V)[1][:, 1], rtol=1e-3, atol=1e-8)
    assert (after.moments(pending)[1][:, 0] < gp.moments(pending)[1][:, 0]).all()
    assert gp.imagine(pending[:0]) is gp


# -------------------------------------------------------------------------------------------------------- never raises

ODD = {
    "constant": lambda U: np.full_like(U[:, 0], 5.0),
    "zero": lambda U: np.zeros_like(U[:, 0]),
    "constant, large": lambda U: np.full_like(U[:, 0], 1e12 / 3),
    "one step": lambda U: (U[:, 0] > 0.9).astype(float),
    "1e12": lambda U: 1e12 * wavy(U),
    "1e12 apart": lambda U: 1e12 + wavy(U),
    "1e-300": lambda U: 1e-300 * wavy(U),
    "1e308": lambda U: 5e307 * (wavy(U) - 2),
    "largest": lambda U: 1.7e308 * np.where(U[:, 0] > 0.8, np.ones_like(U[:, 0]), -1.0),
    "subnormal": lambda U: 1e-310 * wavy(U),
    "both ends": lambda U: 10.0 ** (600 * (U[:, 0] - 0.5)),
    "noise": lambda U: Stream(8).normal(len(U)),
    "told a little": lambda U: np.where(np.arange(len(U)) < 2, wavy(U), math.nan),
    "never told": lambda U: np.full_like(U[:, 0], math.nan),
    "infinite once": lambda U: np.where(np.arange(len(U)) == 3, math.inf, wavy(U)),
}


@pytest.mark.parametrize("noise", [0.0, None, 0.01])
@pytest.mark.parametrize("name", ODD)
def test_odd_outputs_give_a_finite_belief(name, noise):
    U = points(12)
    gp = GP.fit(U, ODD[name](U)[:, None], noise=[noise])
    mean, deviation, mean_slope, deviation_slope = gp.moments_and_slopes(V)
    assert (deviation > 0).all()
    if name == "largest":  # what lies between the largest numbers may lie beyond them
        assert not np.isnan(mean).any()
        return
    assert np.isfinite(mean).all()
    assert np.isfinite(deviation).all()
    if name not in ("1e308", "both ends"):  # slopes are up to a hundred times the values
        assert np.isfinite(mean_slope).all()
        assert np.isfinite(deviation_slope).all()
    assert np.isfinite(gp.imagine(V).moments(U)[0]).all()


@pytest.mark.parametrize("n", [0, 1, 2, 3])
@pytest.mark.parametrize("noise", [0.0, None, 0.1])
def test_few_points_give_a_finite_belief(n, noise):
    U = points(12)[:n]
    mean, deviation = GP.fit(U, wavy(U)[:, None], noise=[noise]).moments(V)
    assert np.isfinite(mean).all()
    assert (deviation > 0).all()


@pytest.mark.parametrize("noise", [0.0, None, 0.1])
@pytest.mark.parametrize("shift", [0.0, 1e-9, 1.0])
def test_duplicates_even_contradicting_ones_give_a_finite_belief(noise, shift):
    U = points(12)
    gp = GP.fit(np.concatenate([U, U, U]), np.concatenate([wavy(U), wavy(U) + shift, wavy(U)])[:, None], noise=[noise])
    mean, deviation = gp.moments(V)
    assert np.isfinite(mean).all()
    assert (deviation > 0).all()
    same = GP.fit(np.tile(U[:1], (8, 1)), wavy(points(8))[:, None], noise=[noise])
    assert np.isfinite(same.moments(V)[0]).all()


def test_the_rung_says_what_was_needed(caplog):
    U = points(12)
    assert GP.fit(U, wavy(U)[:, None]).rung == "plain"
    doubled, y = np.concatenate([U, U]), np.concatenate([wavy(U), wavy(U)])
    with caplog.at_level(logging.INFO, "pied"):
        gp = fixed(doubled, y, "squared exponential", nugget=1e-30)
        assert gp.rung == "jitter 1e-10"
    assert [record.levelname for record in caplog.records if "needed a jitter" in record.message] == ["INFO"]
    assert np.isfinite(gp.moments(V)[0]).all()


def test_one_output_in_trouble_leaves_the_others_alone():
    U = points(12)
    doubled = np.concatenate([U, U])
    active = np.array([[True, True], [False, True]])
    y = np.concatenate([wavy(U), wavy(U)])
    Y = np.stack([np.where(np.arange(24) < 12, y, math.nan), y], -1)  # duplicates for the second one only
    choices = [chosen("matern 3/2", "constant", "none", theta=scales_of(SCALES, 1e-13), n=n) for n in (12, 24)]
    model = Model(("matern 3/2",), ("constant",), ("none",), nugget=(1e-30, 1e-30), declustering=None)
    together = GP.fit(doubled, Y, active=active, model=model, previous=choices)
    alone = GP.fit(U, Y[:12, :1], model=model, previous=choices[:1])
    np.testing.assert_allclose(together.moments(V)[0][:, 0], alone.moments(V)[0][:, 0], rtol=1e-9, atol=1e-9)


def test_what_was_never_told_is_uncertain():
    U = points(12)
    Y = np.stack([wavy(U), np.full_like(U[:, 0], math.nan)], -1)
    assert (GP.fit(U, Y).moments(V)[1][:, 1] >= 1.0).all()
    once = GP.fit(U[:1], np.full((1, 1), 50.0))
    assert (once.moments(V)[1] > 0.1).all()  # one value says nothing about how far the output moves
    assert once.moments(U[:1])[0][0, 0] == pytest.approx(50.0)


@pytest.mark.parametrize("noise", [1e-300, 1e-9, 1e300])
def test_known_noise_of_any_size_gives_a_finite_belief(noise):
    U = points(12)
    mean, deviation = GP.fit(U, wavy(U)[:, None], noise=[noise]).moments(V)
    assert np.isfinite(mean).all()
    assert (deviation > 0).all()


def test_noise_too_small_to_matter_is_no_noise():
    U = points(15)
    exact = GP.fit(U, wavy(U)[:, None], model=PLAIN).moments(V)
    quiet = GP.fit(U, wavy(U)[:, None], noise=[1e-7], model=PLAIN).moments(V)
    for ours, theirs in zip(quiet, exact, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-7, atol=1e-7)


# --------------------------------------------------------------------------------------------------------------- units


@pytest.mark.parametrize("noise", [0.0, None, 0.02])
@pytest.mark.parametrize("scale", [1e-9, 1e3, 1e6, -1.0])
def test_rescaling_an_output_changes_nothing_but_units(scale, noise):
    U = points(18)
    y = wavy(U) - 2.5
    plain = GP.fit(U, y[:, None], noise=[noise], model=PLAIN)
    scaled = GP.fit(U, scale * y[:, None], noise=[noise and noise * abs(scale)], model=PLAIN)
    ours, theirs = plain.choices[0], scaled.choices[0]
    assert (ours.kernel, ours.trend, ours.warp) == (theirs.kernel, theirs.trend, theirs.warp)
    assert ours.theta == pytest.approx(theirs.theta, abs=1e-9)
    for a, b in zip(plain.moments(V), scaled.moments(V), strict=True):
        sign = 1.0 if (b > 0).all() and (a > 0).all() else math.copysign(1.0, scale)
        np.testing.assert_allclose(sign * b / abs(scale), a, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("scale", [1e-9, 1e-3, 1e6])
def test_rescaling_a_positive_output_changes_no_choice_among_all_warps(scale):
    U = points(18)
    y = np.exp(4 * U[:, 0]) + U[:, 1]
    plain, scaled = GP.fit(U, y[:, None]), GP.fit(U, scale * y[:, None])
    ours, theirs = plain.choices[0], scaled.choices[0]
    assert (ours.kernel, ours.trend, ours.warp) == (theirs.kernel, theirs.trend, theirs.warp)
    assert ours.theta == pytest.approx(theirs.theta, abs=1e-6)  # logarithms of other units round differently
    for z in (-2.0, 0.0, 2.0):
        a, b = (gp.unwarp(gp.moments(V)[0] + z * gp.moments(V)[1]) for gp in (plain, scaled))
        np.testing.assert_allclose(b / scale, a, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("shift", [273.15, -1000.0])
def test_shifting_an_output_changes_nothing_but_units(shift):
    U = points(18)
    plain, shifted = GP.fit(U, wavy(U)[:, None], model=PLAIN), GP.fit(U, wavy(U)[:, None] + shift, model=PLAIN)
    assert plain.choices[0].theta == pytest.approx(shifted.choices[0].theta, abs=1e-6)
    np.testing.assert_allclose(shifted.moments(V)[0] - shift, plain.moments(V)[0], rtol=0, atol=1e-8)
    np.testing.assert_allclose(shifted.moments(V)[1], plain.moments(V)[1], rtol=1e-6, atol=0)


# --------------------------------------------------------------------------------------------------- variance and noise


def test_many_near_duplicates_do_not_shrink_the_variance():
    U = np.concatenate([points(14), np.array([[0.5, 0.5]])])
    crowd = np.concatenate([U, 0.5 + 1e-3 * (Stream(7).uniform(40, 2) - 0.5)])
    process = []
    for told, declustering in ((U, 0.03), (crowd, 0.03), (crowd, None)):
        gp = fixed(told, wavy(told), "squared exponential", scales=(0.4, 0.4), declustering=declustering)
        process.append(float((gp.variance * gp.deviation**2)[0]))
    assert process[2] < 0.5 * process[0]
    assert process[1] == pytest.approx(process[0], rel=1e-4)


def test_learned_noise_recovers_its_level():
    U = Stream(1).sobol(300, 2)
    noisy = wavy(U) + 0.1 * Stream(2).normal(300)
    model = Model(kernels=("squared exponential",), trends=("constant",), warps=("none",))
    gp = GP.fit(U, noisy[:, None], noise=[None], model=model)
    level = math.sqrt(float(gp.variance[0]) * math.exp(gp.theta[0, -1])) * float(gp.deviation[0])
    assert level == pytest.approx(
        0.1, rel=4 / math.sqrt(2 * 270)
    )  # four standard errors, some 30 degrees of freedom used
    error = gp.moments(V)[0][:, 0] - wavy(V)
    assert np.abs(error).max() < 0.1


def test_known_noise_is_kept():
    U = Stream(1).sobol(100, 2)
    noisy = wavy(U) + 0.1 * Stream(2).normal(100)
    gp = GP.fit(U, noisy[:, None], noise=[0.1])
    level = math.sqrt(float(gp.variance[0]) * math.exp(gp.theta[0, -1])) * float(gp.deviation[0])
    assert level == pytest.approx(0.1, rel=1e-9)
    error = (gp.moments(V)[0] - wavy(V)[:, None]) / gp.moments(V)[1]
    assert np.abs(error).max() < 4
    assert gp.choices[0].warp == "none"  # noise of known size is additive


def test_repeated_measurements_tell_the_noise():
    U = np.tile(points(10), (6, 1))
    noisy = wavy(U) + 0.05 * Stream(9).normal(60)
    model = Model(warps=("none",))
    gp = GP.fit(U, noisy[:, None], noise=[None], model=model)
    level = math.sqrt(float(gp.variance[0]) * math.exp(gp.theta[0, -1])) * float(gp.deviation[0])
    assert level == pytest.approx(0.05, rel=0.4)  # 50 degrees of freedom: four standard errors


def test_a_belief_of_fewer_points_is_as_near_to_the_truth_as_its_wider_deviations_say():
    """What it is looked at for, it shows: the means agree within deviations, which leaving points out never narrows."""
    U = Stream(3).sobol(500, 2)
    gp = fixed(U, wavy(U), nugget=1e-6)
    assert fixed(U[:300], wavy(U[:300]), nugget=1e-6).fewer is None
    fewer = gp.fewer
    assert fewer is not None
    assert fewer.fewer is None
    (mean, deviation), (rough, wide) = gp.moments(V), fewer.moments(V)
    assert (wide >= deviation * (1 - 1e-6)).all()
    assert (np.abs(mean - rough) <= 4 * wide + 1e-3 * gp.deviation).all()


def test_of_more_points_than_can_be_worked_with_the_last_and_some_everywhere_count():
    U = Stream(4).sobol(MOST_TOLD + 500, 2)
    y, seldom = wavy(U), np.full(len(U), np.nan)
    seldom[:40] = np.exp(U[:40, 0])
    gp = GP.fit(U, np.column_stack([y, seldom]), model=PLAIN)
    assert gp.counted == pytest.approx([MOST_TOLD, 40])  # every value of what was told seldom
    mean, deviation = gp.moments(U[-200:])
    assert mean[:, 0] == pytest.approx(np.ravel(y[-200:]), abs=1e-3)  # the last told are reproduced
    away = np.abs(gp.moments(U)[0][:, 0] - np.ravel(y))
    assert away.max() < 0.05 * np.ptp(y)
    assert (deviation > 0).all()
