"""Waves: frequencies are found from few points and told from chance, slopes are derivatives, choices are stored."""

import math

import numpy as np
import pytest

from beliefs import V, numeric_slope, wavy
from pied.bounds.believer import from_memory, to_memory
from pied.gp import GP
from pied.gp.choices import Candidate, Model, ModelChoice
from pied.gp.features import view, waves
from pied.gp.observations import Observations
from pied.gp.regressions import regressions
from pied.rng import Stream
from pied.solvers.cuqb import CUQB

PLAIN = Model(waves=False)
FREQUENCIES = np.array([[0.0, 2 * math.pi * 7.3], [0.0, 0.0]])


def rough(U, periods=23.3):
    """Swings that grow along the other input: more basins than points."""
    return (1 + 2 * U[:, 1]) * np.sin(2 * math.pi * periods * U[:, 0] + 1) + U[:, 0]


def told(n, d=2, seed=3):
    return Stream(seed).at("told").uniform(n, d)


def error(gp, function, n=200):
    U = Stream(8).at("elsewhere").uniform(n, 2)
    return float(((gp.unwarp(gp.moments(U)[0])[:, 0] - function(U)) ** 2).mean() ** 0.5)


def test_the_place_on_a_wave_has_its_derivatives():
    U = told(4)
    ours = view.waved_slopes(U, FREQUENCIES)
    for i, u in enumerate(U):
        theirs = numeric_slope(lambda v: view.waved(v[None], FREQUENCIES)[:, 0], u, 1e-6)
        np.testing.assert_allclose(ours[:, i], theirs, rtol=1e-6, atol=1e-7)  # central differences at 1e-6


def test_whole_periods_make_no_difference_to_the_place_on_a_wave():
    U = 0.3 * told(5)
    later = U + np.array([0.0, 3 / 7.3])
    np.testing.assert_allclose(view.waved(U, FREQUENCIES), view.waved(later, FREQUENCIES), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("periods", [4.6, 11.0, 23.3])
def test_a_wave_of_many_periods_is_found_from_few_points(periods):
    U = told(28)
    y = rough(U, periods)[:, None]
    gp, smooth = GP.fit(U, y), GP.fit(U, y, model=PLAIN)
    first, second = gp.choices[0].waves
    assert first / (2 * math.pi) == pytest.approx(periods, abs=0.03)
    assert second == 0
    assert not smooth.choices[0].waves
    assert error(gp, lambda U: rough(U, periods)) < 0.1 * error(smooth, lambda U: rough(U, periods))


@pytest.mark.parametrize("level", [0.001, 0.01, 0.03])
@pytest.mark.parametrize("is_known", [False, True])
def test_a_wave_is_found_under_noise(level, is_known):
    U = told(40)
    y = rough(U) + level * Stream(4).normal(40)
    gp = GP.fit(U, y[:, None], noise=[level if is_known else None])
    assert gp.choices[0].waves[0] / (2 * math.pi) == pytest.approx(23.3, abs=0.05)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "d"), [(12, 2), (18, 2), (18, 5), (30, 3)])
def test_chance_is_not_taken_for_a_wave(n, d):
    Y = Stream(0).at("chance").normal(n, 12)
    assert not any(choice.waves for choice in GP.fit(told(n, d), Y).choices)


@pytest.mark.parametrize(("n", "d"), [(10, 1), (12, 2)])
def test_values_that_repeat_are_not_taken_for_a_wave(n, d):
    chance = Stream(0).at("chance")
    coins = (chance.at("coins").uniform(n, 12) < 0.5).astype(float)
    clipped = chance.normal(n, 12).clip(0.9)
    Y = np.concatenate([coins, clipped], 1)
    assert not any(choice.waves for choice in GP.fit(told(n, d), Y).choices)


@pytest.mark.parametrize("n", [12, 20, 30])
def test_a_smooth_output_has_no_wave(n):
    U = told(n)
    assert not GP.fit(U, wavy(U)[:, None]).choices[0].waves


def test_a_cluster_does_not_hide_that_little_is_explained():
    U = told(20)
    cluster = 0.5 + 1e-3 * told(20, seed=5)
    U = np.concatenate([U, cluster])
    gp = GP.fit(U, rough(U)[:, None])
    assert gp.choices[0].waves[0] / (2 * math.pi) == pytest.approx(23.3, abs=0.05)


@pytest.mark.slow
def test_a_wave_is_looked_for_among_the_rows_of_its_output():
    U = told(250)
    Y = np.stack([rough(U), wavy(U)], 1)
    Y[24:, 0] = math.nan
    assert GP.fit(U, Y).choices[0].waves[0] / (2 * math.pi) == pytest.approx(23.3, abs=0.05)


def test_a_model_without_a_choice_looks_for_waves_as_points_come():
    U = told(40)
    y = rough(U)[:, None]
    model = Model(("squared exponential",), ("constant",), ("none",), ("plain",))
    few = GP.fit(U[:6], y[:6], model=model)
    assert not few.choices[0].waves
    assert GP.fit(U, y, model=model, previous=few.choices).choices[0].waves


def test_a_scale_that_may_not_be_chosen_is_not_chosen_for_a_wave():
    U = told(40)
    ratios = np.array([50.0, 1.0])
    choice = GP.fit(U, rough(U)[:, None], model=Model(scales=("log",)), ratios=ratios).choices[0]
    assert (choice.scale, choice.waves) == ("log", ())


def test_frequencies_are_tuned_to_the_likeliest_nearby():
    U = told(30)
    data = Observations.of(U, rough(U)[:, None], np.ones((1, 2), dtype=bool), np.ones(2), [0.0], PLAIN)
    near = (2 * math.pi * 23.2, 0.0)
    tasks, _ = regressions(data, [Candidate((0,), "squared exponential", "constant", "none", "plain", near)])
    theta = np.array([[0.5, 0.5, 0.5, 0.5, math.log(1e-8)]])
    tuned = waves.tuned(tasks, U, theta, np.array([near]))
    assert float(tuned[0, 0]) / (2 * math.pi) == pytest.approx(23.3, abs=0.01)
    assert float(tuned[0, 1]) == 0


def test_moments_with_a_wave_have_their_slopes():
    U = told(28)
    Y = np.stack([rough(U), wavy(U)], 1)
    scales, nugget, n = (0.2, 0.4), math.log(1e-4), len(U)
    ridden = ModelChoice("matern 5/2", "quadratic", "none", "log", (*scales, 0.1, 0.3, nugget), n, n, (60.0, -9.0))
    without = ModelChoice("squared exponential", "linear", "none", "plain", (*scales, nugget), n, n)
    ratios = np.array([30.0, 1.0])
    gp = GP.fit(U, Y, model=Model(nugget=(1e-4, 1e-4)), previous=[ridden, without], ratios=ratios)
    assert gp.choices == (ridden, without)
    mean, deviation, mean_slope, deviation_slope = gp.moments_and_slopes(V)
    for ours, theirs in zip((mean, deviation), gp.moments(V), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-7, atol=1e-7)
    step = 1e-6
    for i in range(2):
        move = step * np.eye(2)[i]
        above, below = gp.moments(V + move), gp.moments(V - move)
        for slope, up, down in zip((mean_slope, deviation_slope), above, below, strict=True):
            np.testing.assert_allclose(slope[:, :, i], (up - down) / (2 * step), rtol=1e-5, atol=1e-6)


def test_what_is_imagined_on_a_wave_keeps_the_mean_and_shrinks_the_deviation():
    U = told(28)
    gp = GP.fit(U, rough(U)[:, None])
    more = gp.imagine(V)
    np.testing.assert_allclose(more.moments(V)[0], gp.moments(V)[0], rtol=1e-3, atol=1e-3)
    assert bool((more.moments(V)[1] <= gp.moments(V)[1] * (1 + 1e-6)).all())


def test_a_belief_with_a_wave_is_rebuilt_from_what_was_stored():
    U = told(28)
    y = rough(U)[:, None]
    gp = GP.fit(U, y)
    memory = to_memory(gp.choices)
    again = GP.fit(U, y, previous=from_memory(memory))
    assert again.choices == gp.choices
    for ours, theirs in zip(again.moments(V), gp.moments(V), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-7, atol=1e-7)
    assert GP.fit(U, y, model=PLAIN, previous=gp.choices).choices[0].waves == ()


def test_a_choice_with_a_resonance_of_an_earlier_version_is_read_and_made_anew():
    U, y = told(12), wavy(told(12))[:, None]
    fresh = GP.fit(U, y)
    theta = (*fresh.choices[0].theta[:-1], 0.1, 0.2, fresh.choices[0].theta[-1])
    old = ModelChoice.from_dict(
        {**fresh.choices[0].to_dict(), "theta": theta, "resonance": [70.0, -50.0, 0.0, 30.0, -14.0]}
    )
    assert GP.fit(U, y, previous=[old]).choices == fresh.choices
    words = {"active": np.ones((1, 2), dtype=bool), "ratios": np.ones(2), "noise": [0.0], "model": Model()}
    np.testing.assert_allclose(GP.at_choices(U, y, [old], **words).moments(V), fresh.moments(V), rtol=1e-7, atol=1e-9)


def test_choices_stored_before_there_were_waves_are_read():
    choice = ModelChoice("matern 5/2", "linear", "none", "plain", (0.1, 0.2, -18.0), 9, 9)
    old = {name: value for name, value in choice.to_dict().items() if name != "waves"}
    assert ModelChoice.from_dict(old) == choice


def test_the_paper_knows_no_waves():
    assert not CUQB.paper().believer.model.waves
    assert CUQB().believer.model.waves
