"""Expected improvement by turns, where nothing explains the output of a limit."""

import numpy as np
import pytest

from pied import Problem, Study
from pied.bounds import Believer
from pied.gp import Model
from pied.rng import Stream
from pied.solvers.cuqb import BOUNDS_EVERY, CUQB, CUQBRun


def rugged(x):
    """A bowl with irregular waves that a few points do not explain."""
    a, b = x["a"], x["b"]
    return {"y": bowl(x)["y"] + 0.3 * np.sin(40 * a * a + 31 * b) * np.cos(23 * a - 37 * b * b)}


def bowl(x):
    return {"y": (x["a"] - 0.3) ** 2 + (x["b"] - 0.6) ** 2 + 0.3 * x["a"] * x["b"]}


def stated(box=rugged, noise=0, limit=0.3):
    words = {"maximize": "2*a + b", "subject_to": [f"y <= {limit}"], "blackbox": box, "noise": noise}
    return Problem({"a": (0, 1), "b": (0, 1)}, ["y"], **words)


@pytest.fixture
def turns(monkeypatch):
    """The numbers of the trials that were sought by expectation."""
    found, expected = [], CUQBRun._expected
    monkeypatch.setattr(CUQBRun, "_expected", lambda run, scene: found.append(scene.number) or expected(run, scene))
    return found


@pytest.mark.slow
def test_where_nothing_explains_a_limit_every_other_trial_is_by_expectation(turns):
    study = Study(stated(), seed=0)
    study.run(budget=16)
    aims = {trial.number: trial.why.aim for trial in study.trials}
    assert len(turns) >= 2
    assert all(number % BOUNDS_EVERY for number in turns)
    assert {aims[number] for number in turns} <= {"improve", "feasibility", "spread"}


@pytest.mark.slow
@pytest.mark.parametrize(("noise", "words"), [(0.1, {}), (0, {"regimes": False})])
def test_elsewhere_trials_are_by_bounds(turns, noise, words):
    Study(stated(rugged, noise), solver=CUQB(**words), seed=0).run(budget=16)
    assert turns == []


@pytest.mark.slow
def test_ten_points_explain_a_bowl(turns):
    Study(stated(bowl), seed=0).run(budget=16)
    assert max(turns, default=0) <= 10


def test_a_first_feasible_point_is_sought_where_it_is_most_likely():
    problem = stated(limit=-0.2)
    with Study(problem, seed=0) as study:
        for u in Stream(0).sobol(9, 2):
            x = {"a": float(u[0]), "b": float(u[1])}
            study.add(x, {"y": abs(rugged(x)["y"])})
        data = study.data
    run = CUQB(believer=Believer(Model(warps=("none",)))).start(problem, Stream(0))
    scene = run._scene(11, data, None, Stream(0))
    assert run._expects(scene)
    likely, hopeful = run._expected(scene).u, run._tested(scene)[0].u
    mean, deviation = scene.composite.belief.moments(np.stack([likely, hopeful]))
    slack = (-0.2 - scene.composite.belief.unwarp(mean)[:, 0]) / deviation[:, 0]
    assert slack[0] > slack[1]
