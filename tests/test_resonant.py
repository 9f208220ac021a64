"""Resonances: narrow ridges are found from few points and told from cliffs and chance; slopes are derivatives."""

import math
from dataclasses import replace

import numpy as np
import pytest

from beliefs import V, numeric_slope, wavy
from pied.bounds.believer import from_memory, to_memory
from pied.gp import GP, Paths, kernels, likelihood, misfits, resonant, turns
from pied.gp.choices import Candidate, Choice, Model
from pied.gp.observations import Observations
from pied.gp.regressions import RESONANCE_PRICE, regressions, resonance_price
from pied.rng import Stream

PLAIN = Model(resonances=False)
RIDGE = np.array([[70.0, -50.0, 0.0, 30.0, -14.0]])
"""Slopes, bends and offset of a ridge through the middle of the square, bent, about a hundredth of it wide."""
PLACES = np.array([RIDGE[0], [0.0] * 5])


def ridged(U, height=4.0):
    """A smooth function with a ridge."""
    return wavy(U) + height * kernels.crossed(U, RIDGE)[0, :, 0] / (1 + U[:, 1])


def told(n, d=2, seed=3):
    return Stream(seed).at("told").uniform(n, d)


def beside(n, seed=4, width=2.0):
    """Points near the ridge, so many widths off it."""
    y, s = Stream(seed).at("along").uniform(n), width * Stream(seed).at("widths").normal(n)
    return np.stack([(s + 14.0 + 50.0 * y - 30.0 * y**2) / 70.0, y], 1)


def observed(U, y, model=None, noise=0.0):
    d = U.shape[1]
    return Observations.of(U, y[:, None], np.ones((1, d), dtype=bool), np.ones(d), [noise], model or Model())


def error(gp, U):
    return float(np.sqrt(((gp.unwarp(gp.moments(U)[0])[:, 0] - ridged(U)) ** 2).mean()))


def off(gp):
    """How many widths the ridge of a belief is off, at most; infinite if it has none."""
    place = np.array([gp.choices[0].resonance])
    return float(np.abs(kernels.across(beside(40, width=0.0), place)).max()) if place.size else math.inf


def test_the_place_across_a_resonance_has_its_derivatives():
    U = np.concatenate([told(3), beside(3)])
    ours = kernels.crossed_slopes(U, PLACES)
    for i, u in enumerate(U):
        theirs = numeric_slope(lambda v: kernels.crossed(v[None], PLACES)[:, 0], u, 1e-6)
        np.testing.assert_allclose(ours[:, i], theirs, rtol=1e-5, atol=1e-6)  # central differences at 1e-6


def test_both_sides_of_a_resonance_are_alike_far_from_it():
    near, left, right = np.array([[0.2, 0.0], [0.0, 1.0], [1.0, 0.0]])
    assert kernels.across(near[None], RIDGE)[0, 0] == pytest.approx(0.0, abs=1e-9)
    far = kernels.crossed(np.stack([left, right]), RIDGE)[0]
    np.testing.assert_allclose(far[0], far[1], atol=0.06)  # s of about -34 and 56
    assert kernels.crossed(near[None], RIDGE)[0, 0].tolist() == pytest.approx([1.0, 0.5])


def test_the_loss_has_slopes_by_what_kernels_see():
    data = observed(told(9), ridged(told(9)))
    task, _ = regressions(data, [Candidate((0,), "matern 5/2", "linear", "none", "plain", (), tuple(RIDGE[0]))])
    theta = np.array([[0.1, -0.2, 0.3, 0.0, math.log(1e-3)]])
    ours = likelihood.evaluate(task, theta).by_inputs[0]

    def loss(flat):
        moved = replace(task, U=flat.reshape(task.U.shape))
        return likelihood.evaluate(moved, theta, with_slope=False).loss[0]

    theirs = numeric_slope(loss, task.U.ravel(), 1e-5).reshape(ours.shape)
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)  # central differences at 1e-5


@pytest.mark.parametrize("seed", [4, 5, 6])
def test_a_ridge_is_found_from_a_few_points_near_it(seed):
    U = np.concatenate([told(22), beside(9, seed)])
    gp, smooth = (GP.fit(U, ridged(U)[:, None], noise=[0.0], model=model) for model in (Model(), PLAIN))
    assert not smooth.choices[0].resonance
    assert off(gp) < 1.0
    others = beside(60, seed=9)
    assert error(gp, others) < 0.5 * error(smooth, others)


def test_a_ridge_stays_as_points_come():
    U = np.concatenate([told(22), beside(12, 5)])
    y = ridged(U)[:, None]
    first = GP.fit(U[:31], y[:31], noise=[0.0])
    later = GP.fit(U, y, noise=[0.0], model=Model(reselect=100), previous=first.choices)  # fitted again, not sought
    assert off(first) < 1.0
    assert off(later) < 1.0
    assert later.choices[0].resonance != first.choices[0].resonance


OTHERS = {
    "smooth": wavy,
    "kink": lambda U: np.abs(U[:, 0] - 0.4) + U[:, 1],
    "oblique cliff": lambda U: np.sign(U[:, 0] - 0.52 + 0.3 * U[:, 1]) + 0.3 * U.sum(1),
    "bent cliff": lambda U: np.where(U[:, 0] > 0.3 + 0.4 * U[:, 1] ** 2, 1.0 + U[:, 1], np.sin(3.0 * U[:, 0])),
}


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("n", [25, 40])
def test_other_outputs_have_no_resonance(name, n):
    U = told(n)
    assert not GP.fit(U, OTHERS[name](U)[:, None], noise=[0.0]).choices[0].resonance


@pytest.mark.parametrize("noise", [0.0, 0.02, None])
def test_one_wrong_value_is_not_a_ridge(noise):
    U = told(45)
    y = wavy(U) + (0.0 if noise == 0.0 else 0.02) * Stream(4).normal(45)
    y[7] += 3.0
    assert not GP.fit(U, y[:, None], noise=[noise]).choices[0].resonance


def test_values_that_do_not_fit_are_sought_without_resonances():
    U = np.concatenate([told(22), beside(9, 5)])
    words = {"active": np.ones((1, 2), dtype=bool), "ratios": np.ones(2), "noise": [0.0]}
    found = []
    for model in (Model(), PLAIN):
        gp = GP.fit(U, ridged(U)[:, None], noise=[0.0], model=model)
        assert bool(gp.choices[0].resonance) == model.resonances
        found.append(misfits(U, ridged(U)[:, None], gp.choices, model=model, **words))
    assert found[0] == found[1]


def test_a_resonance_is_a_narrow_ridge_between_points_that_show_it():
    U = np.concatenate([told(22), beside(6)])
    wide, moved, narrow = RIDGE[0] / 20, RIDGE[0].copy(), RIDGE[0] * 20
    moved[-1] += 100.0
    assert resonant.is_ridge(RIDGE[0].tolist(), U)
    assert not any(resonant.is_ridge(each.tolist(), U) for each in (wide, moved, narrow))
    assert not resonant.is_ridge(RIDGE[0].tolist(), told(22)[np.abs(kernels.across(told(22), RIDGE))[0] > 10])


@pytest.mark.slow
@pytest.mark.parametrize(("n", "d"), [(14, 2), (24, 3), (40, 3)])
def test_chance_is_not_taken_for_a_resonance(n, d):
    Y = Stream(0).at("chance").normal(n, 8)
    assert not any(choice.resonance for choice in GP.fit(told(n, d), Y, noise=[0.0] * 8).choices)


def test_too_few_points_are_not_searched_for_a_resonance(monkeypatch):
    monkeypatch.setattr(resonant, "likeliest", None)
    U = told(11)
    GP.fit(U, ridged(U)[:, None], noise=[0.0])  # would raise


def test_a_resonance_is_sought_along_inputs_that_an_output_sees():
    U = np.concatenate([np.concatenate([told(22), beside(6)]), told(28, 1, seed=6)], 1)
    active = np.array([[True, True, False]])
    gp = GP.fit(U, ridged(U[:, :2])[:, None], noise=[0.0], active=active)
    slopes, bends = np.split(np.array(gp.choices[0].resonance[:-1]), 2)
    assert slopes[2] == bends[2] == 0.0
    assert slopes[:2].all()


def test_a_fit_of_a_resonance_does_not_make_it_less_likely():
    U = np.concatenate([told(22), beside(6)])
    data = observed(U, ridged(U))
    wrong = tuple((RIDGE[0] + np.array([4.0, -3.0, 2.0, -5.0, 0.5])).tolist())
    tried = [Candidate((0,), "squared exponential", "constant", "none", "plain", (), wrong)]
    start = np.array([[0.0, 0.0, 0.0, 0.0, math.log(1e-12)]])
    before = likelihood.evaluate(regressions(data, tried)[0], start, with_slope=False).loss[0]
    (after,), theta, fit = turns.fitted(data, tried, start, 60)
    again = likelihood.evaluate(regressions(data, [after])[0], theta, with_slope=False)
    assert fit.loss[0] < before
    assert again.loss[0] <= fit.loss[0] + 1e-6  # the prior of the bends comes on top
    assert np.abs(kernels.across(beside(40, width=0.0), np.array([after.resonance]))).max() < 0.5


def test_outputs_with_and_without_a_turn_are_fitted_again_together():
    U = np.concatenate([told(22), beside(9)])
    wave = np.sin(2 * math.pi * 11.3 * U[:, 0]) * (1 + U[:, 1])
    Y = np.stack([wavy(U), ridged(U), wave], 1)
    model = Model(reselect=100)
    first = GP.fit(U[:30], Y[:30], noise=[0.0] * 3, model=model)
    assert [bool(choice.resonance) for choice in first.choices] == [False, True, False]
    assert [bool(choice.waves) for choice in first.choices] == [False, False, True]
    later = GP.fit(U, Y, noise=[0.0] * 3, model=model, previous=first.choices)
    for j in range(3):
        alone = GP.fit(U, Y[:, j : j + 1], noise=[0.0], model=model, previous=[first.choices[j]])
        np.testing.assert_allclose(later.choices[j].theta, alone.choices[0].theta, rtol=1e-3, atol=1e-3)
        np.testing.assert_allclose(later.moments(V)[0][:, j], alone.moments(V)[0][:, 0], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("scale", ["plain", "log"])
def test_moments_and_paths_with_a_resonance_have_their_slopes(scale):
    U = np.concatenate([told(14), beside(4)])
    Y, n = np.stack([ridged(U), wavy(U), rough_wave(U)], 1), 18
    scales, nugget = (0.2, 0.4), math.log(1e-4)
    choices = [
        Choice("matern 5/2", "linear", "none", scale, (*scales, 0.1, 0.3, nugget), n, n, (), tuple(RIDGE[0])),
        Choice("squared exponential", "constant", "none", "plain", (*scales, nugget), n, n),
        Choice("squared exponential", "constant", "none", "plain", (*scales, 0.1, 0.3, nugget), n, n, (60.0, -9.0)),
    ]
    model = Model(reselect=100, always_refit=0, refit=100)
    gp = GP.fit(U, Y, noise=[0.0] * 3, model=model, previous=choices, ratios=np.array([50.0, 1.0]))
    assert [choice.resonance for choice in gp.choices] == [tuple(RIDGE[0]), (), ()]
    points = np.concatenate([V[:3], beside(3, seed=8)])
    _, _, by_mean, by_deviation = gp.moments_and_slopes(points)
    for i, u in enumerate(points):
        for which, ours in enumerate((by_mean, by_deviation)):
            theirs = numeric_slope(lambda v, which=which: gp.moments(v[None])[which][0], u, 1e-6)
            np.testing.assert_allclose(ours[i], theirs, rtol=1e-3, atol=1e-3)  # central differences at 1e-6


def rough_wave(U):
    return np.sin(60.0 * U[:, 0] - 9.0 * U[:, 1])


def test_a_choice_with_a_resonance_is_stored():
    choice = Choice("matern 5/2", "linear", "none", "plain", (0.1, 0.2, 0.3, 0.4, -3.0), 9, 9, (), tuple(RIDGE[0]))
    assert from_memory(to_memory([choice])) == (choice,)
    old = {name: value for name, value in choice.to_dict().items() if name != "resonance"}
    assert Choice.from_dict(old).resonance == ()


def test_a_resonance_pays_for_the_inputs_it_depends_on():
    assert resonance_price(()) == 0.0
    assert resonance_price((3.0, 0.0, 1.0, 0.0, 0.5)) == 3 * RESONANCE_PRICE
    assert resonance_price(tuple(RIDGE[0])) == 5 * RESONANCE_PRICE


def test_a_resonance_along_an_input_that_an_output_no_longer_sees_is_forgotten():
    U = np.concatenate([told(22), beside(9, 5)])
    model = Model(reselect=1000)
    first = GP.fit(U, ridged(U)[:, None], noise=[0.0], model=model)
    assert first.choices[0].resonance
    active = np.array([[True, False]])
    later = GP.fit(U, ridged(U)[:, None], noise=[0.0], model=model, active=active, previous=first.choices)
    assert not any(later.choices[0].resonance[1:4:2])
    more = np.concatenate([U, told(31, 1, seed=6)], 1)
    assert GP.fit(more, ridged(U)[:, None], noise=[0.0], previous=first.choices).choices[0].selected == 31


def test_an_old_turn_stays_where_a_slightly_better_new_one_explains_too_little(monkeypatch):
    U = np.concatenate([told(22), beside(9, 5)])
    data = observed(U, ridged(U))
    candidate = Candidate((0,), "squared exponential", "constant", "none", "plain", (), tuple(RIDGE[0]))
    theta = np.zeros((2, 5))
    theta[:, -1] = math.log(1e-12)
    fit = likelihood.evaluate(regressions(data, [candidate] * 2)[0], theta, with_slope=False)
    fit.density[1] += 2.0
    plain = turns.Found(candidate._replace(resonance=()), (0.0, 0.0, -27.0), -1e6)
    monkeypatch.setattr(turns, "_density_apart", lambda *_: turns.FROM_DENSITY - 0.1)
    assert turns._best(data, plain, [candidate] * 2, theta, fit, 1).score == pytest.approx(
        fit.density[0] + turns.handicap(data, candidate) + data.model.hysteresis
    )
    assert turns._best(data, plain, [candidate] * 2, theta, fit, 0) == plain


def test_what_a_resonance_has_to_gain_counts_as_unexplained():
    U = np.concatenate([told(22), beside(6)])
    gp = GP.fit(U, ridged(U)[:, None], noise=[0.0])
    block = gp.blocks[0]
    whole = likelihood.evaluate(block.tasks, block.theta, with_slope=False).density[0]
    expected = whole - len(U) * math.log(gp.deviation[0]) - RESONANCE_PRICE * 5
    assert gp.density[0] == pytest.approx(expected)


def test_left_out_values_are_what_the_others_predict():
    U = told(8)
    data = observed(U, wavy(U))
    candidate = Candidate((0,), "matern 5/2", "constant", "none", "plain")
    task, _ = regressions(data, [candidate])
    theta = np.array([[0.1, 0.3, math.log(1e-6)]])
    missed = likelihood.left_out(task, theta)[0, :, 0]
    y, (root, trend, rest) = task.y[0, :, 0], likelihood.whitened(task, theta[0])
    K, _ = likelihood.covariance(task, theta, slopes=False)
    np.testing.assert_allclose(root @ K[0] @ root.T, np.eye(8), atol=1e-8)
    np.testing.assert_allclose(trend.T @ rest, 0.0, atol=1e-8)
    for i in range(8):
        others = np.delete(np.arange(8), i)
        inverse = np.linalg.inv(K[0][np.ix_(others, others)])
        level = inverse.sum(0) @ y[others] / inverse.sum()
        predicted = level + K[0][i, others] @ inverse @ (y[others] - level)
        assert missed[i] == pytest.approx(y[i] - predicted, rel=1e-5, abs=1e-8)


def test_paths_follow_a_belief_with_a_resonance():
    U = np.concatenate([told(22), beside(6)])
    gp = GP.fit(U, ridged(U)[:, None], noise=[0.0])
    assert gp.choices[0].resonance
    paths = Paths.of(gp, 4, Stream(1).at("paths"))
    which = np.array([2])
    for u in beside(3, seed=8):
        _, ours = paths.values_and_slopes(u[None], which)
        theirs = numeric_slope(lambda v: paths.values_and_slopes(v[None], which)[0][0], u, 1e-6)
        np.testing.assert_allclose(ours[0], theirs, rtol=1e-3, atol=1e-3)  # central differences at 1e-6
