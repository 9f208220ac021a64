"""Rounded readings: a resolution is part of the noise, and averaging does not take it away."""

import math

import numpy as np
import pytest

from pied import Problem, Study
from pied.bounds import Believer
from pied.gp import GP, step_of
from pied.gp.resolution import left
from pied.records import Dataset
from pied.rng import Stream

STEP = 0.1


def acidity(a, b):
    return 6.2 + 1.2 * a + 0.6 * b**2 - 0.3 * a * b


def study(digits: int | None, noise: float | None = None, **words) -> Study:
    """Readings all over the ranges and many where the acidity hardly changes, as near an optimum at its limit."""
    stated = Problem({"a": (0, 1), "b": (0, 1)}, ["pH"], maximize="a", subject_to={"limit": "pH <= 7"}, noise=noise)
    made = Study(stated, seed=0)
    everywhere, near = Stream(4).sobol(14, 2), Stream(5).sobol(16, 2)
    for a, b in np.concatenate([everywhere, 0.59 + 0.02 * near]).tolist():
        made.add({"a": a, "b": b}, {"pH": acidity(a, b) if digits is None else round(acidity(a, b), digits)})
    return made


@pytest.mark.parametrize(
    ("readings", "step"),
    [
        ([7.1, 6.9, 7.0, 6.2, 7.1], 0.1),
        ([1.25, 0.5, 0.75, 2.0], 0.25),
        ([1200, 800, 400, 2000], 400),
        ([0.1 + 0.2, 0.4, 0.5, 0.7], 0.1),  # 0.30000000000000004
        ([-0.4, 0.0, 0.2, 1.2], 0.2),
        ([1e-160, 2e-160, 3e-160, 5e-160], 1e-160),
        ([1e300, 2e300, 3e300, 5e300], 1e300),
        ([0.5, 0.25, 1.0, math.nan, 0.75], 0.25),
    ],
)
def test_the_step_of_readings_is_found_in_their_digits(readings, step):
    assert step_of(np.array(readings, dtype=float)) == pytest.approx(step)


@pytest.mark.parametrize(
    "readings", [[], [3.0], [7.1] * 9, [0.0, 1.0] * 5, [1, 2, 3, 1, 2], [math.pi, math.e, 0.1, 1.2], [5e-324, 0, 1, 2]]
)
def test_constants_grades_and_full_digits_show_no_step(readings):
    assert step_of(np.array(readings, dtype=float)) == 0.0


@pytest.mark.parametrize("noise", [0.0, 0.1, 0.2, 0.3, 0.5])
def test_what_averaging_leaves_is_the_error_of_the_mean_of_many_rounded_readings(noise):
    values, errors = np.linspace(0.0, 1.0, 201)[:-1], np.arange(-4.0, 4.0, 1e-3)
    weights = np.exp(-0.5 * (errors / noise) ** 2) if noise else (np.abs(errors) < 1e-9) * 1.0
    means = np.round(values[:, None] + errors) @ (weights / weights.sum())
    whole = math.hypot(noise, math.sqrt(1 / 12))
    assert left(np.array([1.0]), np.array([whole]))[0] == pytest.approx(np.std(means - values), abs=0.01)


@pytest.mark.parametrize("noise", [None, 0.001])
def test_bounds_of_a_rounded_output_hold_what_rounding_can_hide(noise):
    made = study(1, noise)
    composite = made.snapshot.composite("test")
    U = 0.59 + 0.02 * Stream(6).sobol(50, 2)
    low, _, high = (7.0 - each[:, 1] for each in composite.bounds(U, 0.95))
    truth = acidity(*U.T)
    assert ((high <= truth) & (truth <= low)).mean() >= 0.8
    assert (truth > 7.0).all()
    assert (composite.probability(U)[1] < 0.95).all()
    assert made.snapshot.noise()["pH"][1] >= (noise or 0.9 * STEP / math.sqrt(12))


@pytest.mark.parametrize(("digits", "noise"), [(None, None), (1, 0), (0, None)])
def test_outputs_with_all_digits_exact_ones_and_counts_are_taken_as_they_are(digits, noise):
    snapshot = study(digits, noise).snapshot
    assert snapshot.belief.steps is None


@pytest.mark.parametrize("warp", ["none", "log", "logit", "mirrored log"])
def test_slopes_of_deviations_with_rounding_are_their_derivatives(warp):
    from pied.gp import Model

    U = Stream(2).sobol(24, 2)
    front = 1.0 / (1.0 + np.exp(-14.0 * (U[:, 0] + 0.3 * U[:, 1] - 0.6)))
    belief = GP.fit(U, (0.05 + front)[:, None], noise=[None], model=Model(warps=(warp,)))
    said = belief.read_in(np.array([0.05])).rounded
    points, h = 0.1 + 0.8 * Stream(3).sobol(8, 2), 1e-5
    assert (said.moments(points)[1] > belief.moments(points)[1]).all()
    by_u = said.moments_and_slopes(points)[3][:, 0]
    for k in range(2):
        step = h * np.eye(2)[k]
        found = (said.moments(points + step)[1] - said.moments(points - step)[1])[:, 0] / (2 * h)
        assert by_u[:, k] == pytest.approx(found, rel=2e-3, abs=1e-4 * belief.deviation[0])


def test_the_study_of_the_paper_does_not_know_of_it():
    made = study(1)
    data = Dataset.of(made.problem, made.trials)
    belief = Believer().fit(made.problem, data)
    assert Believer(cautious=False).careful(made.problem, data, belief, 0.95) is belief
    assert Believer().careful(made.problem, data, belief, 0.95).rounding is not None
