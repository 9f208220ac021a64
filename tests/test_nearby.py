"""Where one belief explains the output of a limit badly, every other trial looks around the best point alone."""

import numpy as np
import pytest
from scipy.optimize import check_grad

from pied import CUQB, Problem, Study
from pied.records import Dataset
from pied.rng import Stream
from pied.solvers import nearby

D = 2


def data_of(U):
    return Dataset(tuple(range(1, len(U) + 1)), U, U[:, :1], U[:0])


def test_the_surroundings_are_those_of_the_nearest_points():
    U = Stream(1).sobol(40, D)
    ball, far = nearby.around(data_of(U), U[7])
    away = np.sqrt(((U - U[7]) ** 2).sum(1))
    assert (~far).sum() == 4 * D + 4
    assert away[~far].max() < away[far].min()
    inside = ball.moments(U)[0] >= 0
    assert inside[7]
    assert not (inside & far).any()


def test_points_that_were_not_told_completely_do_not_count():
    U = Stream(1).sobol(40, D)
    data = data_of(U)
    data.Y[8:20] = np.nan
    _, far = nearby.around(data, U[7])
    assert far[8:20].all()


def test_few_points_have_no_surroundings():
    assert nearby.around(data_of(Stream(1).sobol(8 * D, D)), np.zeros(D)) is None


def test_a_cluster_does_not_make_them_vanish():
    U = np.concatenate([0.5 + 1e-6 * Stream(1).normal(20, D), Stream(2).sobol(20, D)])
    assert nearby.around(data_of(U), U[0])[0].radius == nearby.LEAST_RADIUS


def test_slopes_are_those_of_finite_differences():
    ball = nearby.Ball(np.array([0.3, 0.6]), 0.2)
    for u in Stream(3).sobol(4, D):
        error = check_grad(lambda v: ball.moments(v[None])[0][0], lambda v: ball.moments_and_slopes(v[None])[2][0], u)
        assert error < 1e-5


def rugged(x):
    """A bowl with irregular waves that a few points do not explain."""
    a, b = x["a"], x["b"]
    return {"y": bowl(x)["y"] + 0.2 * np.sin(40 * a * a + 31 * b) * np.cos(23 * a - 37 * b * b)}


def bowl(x):
    return {"y": (x["a"] - 0.3) ** 2 + (x["b"] - 0.6) ** 2 + 0.3 * x["a"] * x["b"]}


def stated(box, noise):
    """The border of a rough limit has to be followed."""
    words = {"maximize": "2*a + b", "subject_to": ["y <= 0.3"], "blackbox": box, "noise": noise}
    return Problem({"a": (0, 1), "b": (0, 1)}, ["y"], **words)


@pytest.fixture
def balls(monkeypatch):
    """The surroundings that were searched."""
    found, points = [], nearby.Ball.points
    monkeypatch.setattr(nearby.Ball, "points", lambda ball, pool: found.append(ball) or points(ball, pool))
    return found


@pytest.mark.slow
def test_where_nothing_explains_an_output_every_other_trial_stays_around_the_best_point(balls):
    study = Study(stated(rugged, 0), seed=0)
    inside = []
    for _ in range(34):
        count, trial = len(balls), study.ask()
        if len(balls) > count:
            assert trial.number % nearby.EVERY == 1
            inside.append(balls[-1].moments(np.array([[trial.x["a"], trial.x["b"]]]))[0][0] >= -1e-3)
        study.tell(trial, rugged(trial.x))
    assert len(inside) >= 3
    assert sum(inside) >= len(inside) - 1  # one that repeats a told point is replaced by one from anywhere


@pytest.mark.slow
def test_a_failed_evaluation_does_not_end_it(balls):
    study = Study(stated(rugged, 0), seed=0)
    for _ in range(34):
        trial = study.ask()
        if trial.number == 2:
            study.fail(trial, "no solution")
        else:
            study.tell(trial, rugged(trial.x))
    assert balls


@pytest.mark.slow
def test_where_no_limit_is_rough_the_whole_box_is_searched(balls):
    problem = Problem({"a": (0, 1), "b": (0, 1)}, ["y"], minimize="y", blackbox=rugged, noise=0)
    Study(problem, seed=0).run(budget=24)
    assert balls == []


@pytest.mark.slow
@pytest.mark.parametrize(("box", "noise", "words"), [(bowl, 0, {}), (rugged, 0.1, {}), (rugged, 0, {"regimes": False})])
def test_elsewhere_the_whole_box_is_searched(balls, box, noise, words):
    Study(stated(box, noise), solver=CUQB(**words), seed=0).run(budget=24)
    assert balls == []
