"""With noise: expected improvement by turns, the likeliest point, and measurements that tell something."""

from dataclasses import replace

import numpy as np
import pytest

from pied import Problem, Study
from pied.bounds import telling
from pied.errors import Status
from pied.rng import Stream
from pied.solvers.acquisition import incumbent
from pied.solvers.cuqb import CUQB
from pied.solvers.moves import ALL, improve, likely, tell
from pied.solvers.moves.expected import expected
from pied.solvers.moves.tell import TELLING
from tiny import SMALL, fast, without


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
    found = []
    for module in (improve, likely):
        monkeypatch.setattr(module, "expected", lambda turn: found.append(turn.scene.number) or expected(turn))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("noise", [0, 0.1])
def test_without_expectation_trials_are_by_bounds(turns, noise):
    solver = fast(**without("improve", "likely", "simple"))
    Study(stated(rugged, noise), solver=solver, seed=0).run(budget=16)
    assert turns == []


@pytest.mark.slow
def test_with_noise_some_trials_are_by_expectation(turns):
    study = Study(stated(bowl, 0.01), seed=0, solver=CUQB(search=SMALL))
    study.run(budget=20)
    aims = {trial.number: trial.why.aim for trial in study.trials}
    explored = {number for number, aim in aims.items() if number > study.initial and aim != "verify"}
    assert set(turns) < explored
    assert "improve" in {aims[number] for number in turns}  # not where the optimum is certain


@pytest.mark.slow
def test_exact_outputs_are_sought_by_bounds(turns):
    Study(stated(bowl), seed=0, solver=CUQB(search=SMALL)).run(budget=16)
    assert turns == []


def noisy_scene(values, **words):
    """A run with noise, and its scene after these values at points over the box."""
    problem = stated(noise=0.05, **words)
    with Study(problem, seed=0) as study:
        for u, y in zip(Stream(0).sobol(len(values), 2), values, strict=True):
            study.add({"a": float(u[0]), "b": float(u[1])}, {"y": float(y)})
        data = study.data
    run = CUQB().start(problem, Stream(0))
    return run, run.scene(len(values) + 1, data, None, Stream(0))


def test_with_noise_a_first_feasible_point_is_sought_where_it_is_most_likely():
    run, scene = noisy_scene([1.0 + np.sin(5 * i) for i in range(9)], limit=-0.2)
    assert incumbent(scene) is None
    turn = run.turn(scene)
    found, why = ALL["likely"].propose(turn)
    assert why.aim == "feasibility"
    probability = scene.composite.probability(np.stack([found.u, turn.best.u]))[1]
    assert probability[0] > probability[1]


def test_with_noise_a_verdict_does_not_wait_for_a_feasible_point(turns):
    run, scene = noisy_scene(1.0 + 3.0 * Stream(0).sobol(16, 2).sum(1), limit=-50.0)
    assert ALL["likely"].is_due(run.turn(scene))
    assert run._explore(scene)[1].margin < 0
    assert turns == []


def test_a_point_that_meets_the_limits_in_the_median_is_enough():
    run, scene = noisy_scene(np.linspace(-1.0, 1.0, 9), limit=0.3)
    assert incumbent(scene) is not None
    assert not ALL["likely"].is_due(run.turn(scene))


# --- Where a measurement tells something ------------------------------------------------------------------------------

CORNER = (1.0, 0.0)


@pytest.fixture(scope="module")
def measured():
    """A run, and its scene after many measurements of one corner and few others."""
    problem = Problem({"a": (0, 1), "b": (0, 1)}, ["y"], maximize="y", noise=0.05)
    with Study(problem, seed=0) as study:
        chance = np.random.default_rng(0)
        for u in [*Stream(0).sobol(5, 2), *[CORNER] * 12]:
            x = {"a": float(u[0]), "b": float(u[1])}
            study.add(x, {"y": x["a"] - x["b"] + 0.05 * chance.normal()}, anyway=True)
        data = study.data
    run = CUQB().start(problem, Stream(0))
    return run, run.scene(18, data, None, Stream(0))


def share(run, scene, u):
    """How much a measurement at a point tells, beside its noise."""
    return float(telling(run.problem, scene.belief, u[None], scene.pool).max())


def test_bounds_that_would_measure_noise_look_elsewhere(measured):
    run, scene = measured
    turn = run.turn(scene)
    best = turn.best
    assert np.allclose(best.u, CORNER, atol=0.05)
    assert share(run, scene, best.u) < TELLING
    found, why = ALL["tell"].propose(turn)
    assert why.aim == "widen"
    assert share(run, scene, found.u) >= TELLING
    gains = [np.subtract(*turn.reach(np.stack([found.u, best.u]), factor)[:, 0]) for factor in (3.0, 10.0)]
    assert max(gains) > 0


def test_a_point_that_tells_something_is_measured(measured):
    run, scene = measured
    turn = run.turn(scene)
    best = replace(turn.best, u=np.array([0.1, 0.9]))
    assert share(run, scene, best.u) >= TELLING
    assert tell.where_it_tells(turn, best) is None


def of_expectation(run, scene, count=40):
    """How many of some trials would be by expectation."""
    return sum(
        ALL["improve"].is_due(run.turn(replace(scene, stream=Stream(0).at("trial", number)))) for number in range(count)
    )


def test_half_of_the_trials_are_by_expectation_whatever_their_number(measured):
    run, scene = measured
    assert 8 < of_expectation(run, scene) < 32


def test_regimes_are_searched_by_bounds_alone(measured):
    run, scene = measured
    staged = replace(scene, by_regime=lambda: ())
    assert of_expectation(run, staged) == 0
    assert tell.where_it_tells(run.turn(staged), run.turn(scene).best) is None


@pytest.mark.slow
def test_a_lucky_value_that_repetitions_refute_delays_no_verdict():
    words = {"minimize": "a", "subject_to": ["y <= 0.2"], "noise": 0.1}
    problem = Problem(
        {"a": (0, 1), "b": (0, 1)}, ["y"], blackbox=lambda x: {"y": 4 * (x["a"] - 0.3) ** 2 + 0.5}, **words
    )
    with Study(problem, seed=0, solver=fast()) as study:
        for y in (0.15, 0.6, 0.55, 0.62):
            study.add({"a": 0.3, "b": 0.5}, {"y": y}, anyway=True)
        study.run(budget=30)
        assert study.status is Status.INFEASIBLE


def test_a_pending_point_is_no_improvement_on_itself():
    problem = Problem({"a": (0, 1)}, ["y"], maximize="y", noise=0.01)
    with Study(problem, seed=0) as study:
        for a in (0.0, 0.3, 0.6):
            study.add({"a": a}, {"y": a}, anyway=True)
        data = study.data
    run = CUQB().start(problem, Stream(0))
    alone = run.scene(4, data, None, Stream(0))
    asked = run.scene(4, replace(data, imagined=np.array([[0.9]])), None, Stream(0))
    assert incumbent(asked) > incumbent(alone) + 0.1
