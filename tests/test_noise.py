"""Noise: where it is worth measuring, what does not fit, and what can be said of it."""

import math
from dataclasses import replace

import numpy as np
import pytest

from pied import CUQB, Named, Problem, Result, Status, Study, suite
from pied.records import Dataset, met
from pied.rng import Stream
from pied.solvers.moves.tell import is_measured
from tiny import fast, unchecked

WHITE = "exp(-((x - 0.25)/0.1)**2) + 0.8*exp(-((x - 0.75)/0.15)**2)"
"""An objective that is known exactly, with its better basin at 0.25."""


def basins(limit: float = 0.0) -> Problem:
    """Two basins under one limit on a noisy output."""
    return Problem({"x": (0, 1)}, ["y"], maximize=WHITE, subject_to={"limit": f"y >= {limit}"}, noise=0.1)


def wrong_by_chance(solver: CUQB | None = None) -> Study:
    """A study that is fairly sure that the better basin breaks the limit: by some three of its deviations."""
    study = Study(basins(), solver=solver, seed=1)
    for x in np.linspace(0.02, 0.98, 25):
        study.add({"x": x}, {"y": 1.6 * (x - 0.25) - 0.2 + 0.1 * (-1) ** round(25 * x)}, anyway=True)
    return study


@pytest.mark.slow
def test_a_certain_optimum_is_not_measured_again_while_wider_bounds_promise_more() -> None:
    study = wrong_by_chance()
    for _ in range(3):  # one of three would be a verification, which has nothing to verify
        trial = study.ask()
        assert abs(trial.x["x"] - 0.75) > 0.1
        study.tell(trial, {"y": 1.6 * (trial.x["x"] - 0.25) - 0.02})
    assert study.trials[-1].why.optimistic is not None  # the gap is that of the plain bounds


@pytest.mark.slow
def test_without_widening_the_certain_optimum_is_measured() -> None:
    """The mend is the widening: the same study without it stays where nothing can be learned."""
    study = wrong_by_chance(CUQB(verify_every=None).without("widen", "tell"))
    assert study.ask().x["x"] == pytest.approx(0.75, abs=0.03)


# ---------------------------------------------------------------------------------------------------------- verdicts


def pair(reach: float) -> Problem:
    """Two limits on noisy outputs that exclude each other if `reach` is below 1."""
    return Problem(
        {"x": (0, 1), "z": (0, 1)},
        ["a", "b"],
        maximize="x",
        subject_to={"first": f"a >= {1 - reach}", "second": "b >= 0"},
        noise=0.07,
    )


def measured(x, z, noise=0.0):
    """Outputs of which one rises and one falls."""
    return {"a": x - 0.5 + noise, "b": 0.5 - x + 0.2 * z - 0.2 + noise}


@pytest.fixture(scope="module")
def doubtful() -> Study:
    """A study of limits out of reach, in which a lucky measurement met them."""
    study = Study(pair(0.65), seed=2)
    stream = Stream(4)
    for i, (x, z) in enumerate(stream.uniform(40, 2).tolist()):
        study.add({"x": x, "z": z}, measured(x, z, 0.07 * float(stream.at(i).normal(1)[0])))
    study.add({"x": 0.65, "z": 1.0}, {"a": 0.37, "b": 0.05})
    return study


@pytest.fixture(scope="module")
def declared(doubtful: Study) -> tuple[Study, Result | None, str]:
    """The same study when it is declared infeasible, and what it said one confirmation earlier."""
    before, standing = None, ""
    with unchecked():
        while doubtful.used < 15 and doubtful.status is not Status.INFEASIBLE:
            trial = doubtful.ask()
            doubtful.tell(trial, measured(trial.x["x"], trial.x["z"]))
            if doubtful.snapshot.confirmations == 2:
                before, standing = doubtful.result(), str(doubtful)
    return doubtful, before, standing


@pytest.mark.slow
def test_a_lucky_measurement_is_repeated_and_then_no_longer_stands_against_a_verdict(declared) -> None:
    study, _, _ = declared
    assert any(trial.why.repeats == 41 for trial in study.trials)
    assert study.status is Status.INFEASIBLE
    assert not met(study.problem, study.data).any()


@pytest.mark.slow
def test_the_approach_of_a_verdict_is_said_with_the_probability_that_any_settings_exist(declared) -> None:
    _, before, standing = declared
    assert "No settings are known to meet all limits; 2 of 3 confirmations that there are none" in str(before)
    assert "probability that any do: " in str(before)
    assert before.confirmations == (2, 3)
    assert 0 <= before.chance < 0.1
    assert before.to_dict()["confirmations"] == [2, 3]
    assert "of 3 confirmations that there are none" in standing


@pytest.mark.slow
def test_settings_that_exist_are_given_a_chance() -> None:
    study = Study(pair(1.5), seed=2)
    for x, z in Stream(4).uniform(12, 2).tolist():
        study.add({"x": x, "z": z}, measured(x, z))
    assert study.snapshot.chance > 0.9


def test_what_was_measured_twice_counts_by_its_mean() -> None:
    problem = pair(1.0)
    U = np.array([[0.5, 0.5], [0.5, 0.5], [0.1, 0.9]])
    data = Dataset((1, 2, 3), U, np.array([[0.2, 0.1], [-0.4, 0.1], [0.1, np.nan]]), U[:0])
    assert met(problem, data).tolist() == [False, False, False]
    better = replace(data, Y=np.array([[0.2, 0.1], [-0.1, 0.1], [0.1, np.nan]]))
    assert met(problem, better).tolist() == [True, True, False]


@pytest.mark.slow
def test_a_known_optimum_is_measured_on_by_turns() -> None:
    """Of a sum of squares, what is a thousandth of its range is still a poor fit."""
    size, noise = 0.002, iter(0.002 * Stream(3).normal(60, 2))

    def box(x: Named) -> dict[str, float]:
        a, b = next(noise).tolist()
        return {"p": math.exp(-3 * x["k"]) + a, "q": math.exp(-6 * x["k"]) + b}

    words = {"minimize": f"(p - {math.exp(-0.9)})**2 + (q - {math.exp(-1.8)})**2", "blackbox": box, "noise": size}
    with Study(Problem({"k": (0, 1)}, ["p", "q"], **words), seed=0) as study:
        study.run(budget=15)
    is_near = [abs(trial.x["k"] - 0.3) < 0.05 for trial in study.trials[-6:]]
    assert sum(is_near) >= 3
    assert not all(is_near)  # a belief that is wrong elsewhere can still be refuted


@pytest.mark.slow
def test_the_best_point_is_measured_however_sure_the_belief_is() -> None:
    """Nine points tell quadratic functions exactly, also at the optimum, which nobody has measured yet."""
    bench = suite["rosen-suzuki"]
    problem = bench.problem.revised(noise=None)
    study = Study(problem, seed=0)
    for _ in range(14):
        trial = study.ask()
        study.tell(trial, bench.problem.named_y(bench.problem.evaluate(trial.x)))
    at, told = problem.to_unit(study.result().x.array[None]), study.data.U
    assert np.abs(told - at).max(1).min() < 0.03


@pytest.mark.slow
def test_an_edge_between_regimes_is_approached_where_nobody_said_that_outputs_are_exact() -> None:
    found = []
    for seed in range(3):
        study = Study(
            Problem({"a": (0, 1), "b": (0, 1)}, ["y"], maximize="y - 0.3*(a - 0.4)**2"), seed=seed, solver=fast()
        )
        for _ in range(24):
            trial = study.ask()
            a, b = trial.x["a"], trial.x["b"]
            study.tell(trial, {"y": 1.0 + a * b if a + b < 1.13 else -1.0})
        told = study.data.functions(study.problem)[:, 0]
        found.append(told.max())
    assert np.median(found) > 1.29  # of 1.317 at most; 1.135 where the trials go elsewhere


def test_settings_that_no_output_depends_on_do_not_make_a_point_new() -> None:
    problem = Problem({"a": (0, 1), "b": (0, 1)}, ["y"], maximize="y - b", inputs={"y": ["a"]})
    U = np.array([[0.1, 0.2], [0.5, 0.2], [0.9, 0.2]])
    run = CUQB().start(problem, Stream(0))
    scene = run.scene(4, Dataset((1, 2, 3), U, U[:, :1], U[:0]), None, Stream(0))
    assert is_measured(run.turn(scene), np.array([0.51, 0.9]))
    assert not is_measured(run.turn(scene), np.array([0.6, 0.2]))
