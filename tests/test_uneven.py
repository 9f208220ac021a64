"""Noise that differs between points is learned from how far told values lie from what the others predict."""

import numpy as np
import pytest
from scipy.optimize import check_grad

from pied import Problem
from pied.gp import GP, Model, uneven
from pied.gp.observations import Observations
from pied.records import Dataset
from pied.rng import Stream
from pied.study.prediction import deviations

D = 2
ALL = np.ones((1, D), dtype=bool)


def truth(U):
    return np.sin(2 * U[:, 0]) + (U[:, 1] - 0.3) ** 2


def told(kind, seed, count=60, repetitions=1):
    """Return points, values with noise of some kind, and the standard deviation of the noise."""
    U = np.repeat(Stream(seed).sobol(count // repetitions, D), repetitions, 0)
    y = truth(U)
    level = (y - y.mean()) / y.std()
    deviation = 0.02 * {"same": np.ones(len(U)), "level": np.exp(level), "input": np.exp(4 * (U[:, 1] - 0.5))}[kind]
    return U, (y + deviation * Stream(seed).at("noise").normal(len(U)))[:, None], deviation


def observed(U, Y):
    return Observations.of(U, Y, ALL, np.ones(D), (None,), Model())


def agreement(kind, seed, repetitions=1):
    """Return the slope of learned over true noise, both as logarithms, and by how much the learned differs."""
    U, Y, deviation = told(kind, seed, repetitions=repetitions)
    learned = np.log(GP.fit(U, Y, noise=[None], model=Model(warps=("none",))).noise_deviation(U)[:, 0])
    own = np.log(deviation)
    return np.polyfit(own, learned, 1)[0] if kind != "same" else 0.0, np.ptp(learned)


@pytest.mark.parametrize("kind", ["level", "input"])
@pytest.mark.parametrize("repetitions", [1, 4])
def test_where_noise_is_larger_is_learned(kind, repetitions):
    slopes = [agreement(kind, seed, repetitions)[0] for seed in range(5)]
    assert 0.3 < np.median(slopes) < 1.3


def test_noise_that_is_the_same_everywhere_stays_so():
    assert np.median([agreement("same", seed)[1] for seed in range(5)]) == 0.0


def test_a_gross_error_makes_no_region_noisy():
    spans = []
    for seed in range(5):
        U, Y, _ = told("same", seed)
        Y[U[:, 1].argmax()] += 0.5
        spans.append(np.ptp(np.log(GP.fit(U, Y, noise=[None]).noise_deviation(U))))
    assert np.median(spans) < 0.7  # less than a factor of two between the largest and the smallest


def test_with_few_values_nothing_is_said_about_it():
    U, Y, _ = told("level", 0, count=10)
    assert GP.fit(U, Y, noise=[None]).choices[0].uneven == ()


@pytest.mark.parametrize("noise", [0.0, 0.05])
def test_a_stated_noise_is_taken_as_stated(noise):
    U, Y, _ = told("level", 0)
    gp = GP.fit(U, Y, noise=[noise])
    assert gp.choices[0].uneven == ()
    assert gp.scatter is None


def test_errors_are_those_of_predictions_from_the_others():
    U, Y, _ = told("input", 1, count=30)
    model = Model(warps=("none",), uneven=False, declustering=None)
    gp = GP.fit(U, Y, noise=[None], model=model)
    seen = uneven._told(observed(U, Y), 0, gp.choices[0])
    for row in (0, 7, 19):
        others = np.arange(30) != row
        left = GP.at_choices(U[others], Y[others], gp.choices, active=ALL, ratios=np.ones(D), noise=[None], model=model)
        mean = left.moments(U[row : row + 1])[0][0, 0]
        assert seen.away[row] * gp.deviation[0] == pytest.approx(Y[row, 0] - mean, rel=1e-6)
        assert seen.open[row] > 0


def test_gradients_are_those_of_finite_differences():
    U, Y, _ = told("level", 2, count=30)
    gp = GP.fit(U, Y, noise=[None], model=Model(warps=("none",), uneven=False))
    seen, columns = uneven._told(observed(U, Y), 0, gp.choices[0]), np.arange(1 + D)
    for b in Stream(3).normal(4, 2 + D):
        error = check_grad(
            lambda b: uneven._loss(seen, columns, b)[0], lambda b: uneven._loss(seen, columns, b)[1], 0.5 * b
        )
        assert error < 1e-4 * max(1.0, np.abs(uneven._loss(seen, columns, 0.5 * b)[1]).max())


def test_the_belief_of_given_choices_is_that_of_the_fit():
    U, Y, _ = told("level", 3)
    gp = GP.fit(U, Y, noise=[None])
    assert gp.choices[0].uneven
    again = GP.at_choices(U, Y, gp.choices, active=ALL, ratios=np.ones(D), noise=[None], model=Model())
    V = Stream(4).sobol(16, D)
    before, after = (np.stack([*each.moments(V), each.noise_deviation(V)]) for each in (gp, again))
    assert after == pytest.approx(before, rel=0.05, abs=1e-3)  # the output behind the noise is estimated anew


def test_choices_remember_it_as_plain_data():
    U, Y, _ = told("level", 3)
    choice = GP.fit(U, Y, noise=[None]).choices[0]
    assert type(choice).from_dict(choice.to_dict()) == choice
    older = {name: value for name, value in choice.to_dict().items() if name != "uneven"}
    assert type(choice).from_dict(older).uneven == ()


def test_an_imagined_measurement_has_the_noise_of_its_place():
    U, Y, _ = told("input", 1)
    gp = GP.fit(U, Y, noise=[None], model=Model(warps=("none",)))
    assert gp.choices[0].uneven
    for u in (np.array([[0.5, 0.02]]), np.array([[0.5, 0.98]])):
        before, noise = gp.moments(u)[1], gp.noise_deviation(u)
        assert gp.imagine(u).moments(u)[1] == pytest.approx(before * noise / np.hypot(before, noise), rel=1e-6)


def steep(seed):
    """Return points and values that are modelled as logarithms, with noise that grows along an input."""
    U, _, deviation = told("input", seed)
    noise = Stream(seed).at("steep").normal(len(U))
    return U, np.exp(2 * truth(U) + 1.5 * deviation * noise)[:, None]


def test_a_value_that_ends_a_logarithm_is_fitted_like_any_other():
    for seed in range(4):
        U, Y = steep(seed)
        before = GP.fit(U, Y, noise=[None], model=Model(warps=("log",))).choices
        assert before[0].warp == "log"
        U, Y = np.concatenate([U, [[0.5, 0.5]]]), np.concatenate([Y, [[-50.0]]])
        for robust in (False, True):
            gp = GP.fit(U, Y, noise=[None], previous=before, robust=robust)
            assert np.isfinite(gp.moments(U)[0]).all()


@pytest.mark.parametrize(("noise", "model"), [(0.02, Model()), (0.0, Model()), (None, Model(uneven=False))])
def test_what_was_learned_is_forgotten_where_noise_is_stated_or_the_same(noise, model):
    U, Y, _ = told("level", 3)
    before = GP.fit(U, Y, noise=[None]).choices
    assert before[0].uneven
    gp = GP.fit(U, Y, noise=[noise], model=model, previous=before)
    assert gp.scatter is None
    assert np.ptp(gp.noise_deviation(U)) == 0.0


def test_the_smallest_and_the_largest_noise_are_told():
    U, Y, deviation = told("level", 3)
    problem = Problem({"a": (0, 1), "b": (0, 1)}, ["y"], maximize="y")
    gp = GP.fit(U, Y, noise=[None])
    ((least, most),) = deviations(problem, gp, Dataset(tuple(range(1, len(U) + 1)), U, Y, U[:0]))
    assert 0.5 * deviation.min() < least < np.median(deviation) < most < 2.0 * deviation.max()
