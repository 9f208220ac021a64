"""A simple belief and expectation, where objective and limits were predicted badly."""

from dataclasses import replace

import numpy as np
import pytest

from pied import Problem, Study
from pied.bounds import Believer, errors
from pied.records import Dataset, Why
from pied.rng import Stream
from pied.solvers.cuqb import CUQB, CUQBRun
from pied.solvers.infeasibility import JointTest
from pied.solvers.moves import shrink, simple
from pied.solvers.turn import Turn
from tiny import SMALL, without

BOX = {"a": (0, 1), "b": (0, 1)}


def stated(objective="z", noise=0, limit=0.3, blackbox=None):
    words = {"maximize": objective, "subject_to": [f"y <= {limit}"], "blackbox": blackbox, "noise": noise}
    return Problem(BOX, ["z", "y"], **words)


def crag(x):
    """Two outputs that a few points do not explain."""
    a, b = x["a"], x["b"]
    waves = np.sin(40 * a * a + 31 * b) * np.cos(23 * a - 37 * b * b)
    return {"z": 2 * a + b + np.cos(29 * a * b + 17 * a), "y": (a - 0.3) ** 2 + (b - 0.6) ** 2 + 0.3 * waves}


def hill(x):
    return {"z": -((x["a"] - 0.7) ** 2) - x["b"] ** 2, "y": x["a"] ** 2 + x["b"] ** 2}


def foretold(rows, aims=None):
    """Data of two outputs whose proposals were expected at 0; each row is what was measured."""
    Y = np.array(rows, dtype=float)
    U = Stream(0).uniform(len(Y), 2)
    aims = aims or ["initial"] * 4 + ["explore"] * (len(Y) - 4)
    ends = ((-1.0, 0.0, 1.0), (-1.0, 0.0, 1.0))
    whys = tuple(Why(aim, expected=() if aim == "initial" else ends) for aim in aims)
    return Dataset(tuple(range(1, len(Y) + 1)), U, Y, U[:0], whys=whys)


DESIGN = [[1, 1], [-1, -1], [1, -1], [-1, 1]]


def test_errors_are_in_deviations_of_what_was_told_and_zero_where_nothing_was_measured():
    data = foretold([*DESIGN, [2, np.nan]])
    found = errors(stated(), data)
    assert list(found) == [4]
    assert found[4] == pytest.approx([2 / data.Y[:, 0].std(), 0.0])
    assert errors(stated(), replace(data, moved=(5,))) == {}


def test_a_run_is_misled_when_objective_and_limits_were_far_off():
    far, near = [0.5, 0.5], [0.001, 0.001]
    problem = stated()
    assert simple.is_misled(problem, foretold([*DESIGN, far]))
    assert not simple.is_misled(problem, foretold(DESIGN))
    assert not simple.is_misled(problem, foretold([*DESIGN, [0.5, 0.001]]))
    assert not simple.is_misled(problem, foretold([*DESIGN, [0.001, 0.5]]))
    assert not simple.is_misled(stated("a + b"), foretold([*DESIGN, far]))  # the objective is known
    half = simple.LAST // 2
    assert simple.is_misled(problem, foretold([*DESIGN, *[near] * 9, *[far] * (half + 1)]))
    assert not simple.is_misled(problem, foretold([*DESIGN, *[far] * 9, *[near] * (half + 1)]))


def test_verifications_show_nothing():
    aims = ["initial"] * 4 + ["explore"] + ["verify"] * 8
    assert simple.is_misled(stated(), foretold([*DESIGN, [0.5, 0.5], *[[0.001, 0.001]] * 8], aims))


def test_a_simple_belief_has_nothing_but_length_scales_to_learn():
    U = Stream(0).sobol(12, 2)
    data = Dataset(tuple(range(1, 13)), U, np.exp(5 * U), U[:0])
    usual, plain = (each.fit(stated(), data, None).choices for each in (Believer(), simple.simple(Believer())))
    assert {choice.warp for choice in usual} != {"none"}
    assert {(choice.kernel, choice.trend, choice.warp) for choice in plain} == {("matern 5/2", "constant", "none")}


@pytest.fixture
def scenes(monkeypatch):
    """The scenes in which points were sought."""
    found, chosen = [], CUQBRun._chosen
    monkeypatch.setattr(CUQBRun, "_chosen", lambda run, scene, kept: found.append(scene) or chosen(run, scene, kept))
    return found


@pytest.mark.slow
def test_trials_in_a_row_are_by_expectation_of_a_simple_belief(scenes):
    study = Study(stated(blackbox=crag), seed=0, solver=CUQB(search=SMALL))
    study.run(budget=16)
    plain = [scene for scene in scenes if scene.is_simple]
    assert len(plain) >= 3
    chosen = {(choice.kernel, choice.trend, choice.warp) for scene in plain for choice in scene.belief.choices}
    assert chosen == {("matern 5/2", "constant", "none")}
    aims = {trial.number: trial.why.aim for trial in study.trials}
    assert {aims[scene.number] for scene in plain} <= {"improve", "feasibility", "spread", "verify"}


@pytest.mark.slow
@pytest.mark.parametrize(("noise", "words"), [(0.1, {}), (0, without("simple"))])
def test_elsewhere_the_belief_is_the_usual_one(scenes, noise, words):
    Study(stated(blackbox=crag, noise=noise), solver=CUQB(search=SMALL, **words), seed=0).run(budget=16)
    assert scenes
    assert not any(scene.is_simple for scene in scenes)


@pytest.mark.slow
def test_ten_points_explain_a_hill(scenes):
    Study(stated(blackbox=hill), seed=0, solver=CUQB(search=SMALL)).run(budget=16)
    assert max(scene.number for scene in scenes) > 10
    assert max((scene.number for scene in scenes if scene.is_simple), default=0) <= 10


@pytest.mark.slow
def test_whether_any_point_meets_the_limits_is_tested_by_the_usual_belief(scenes, monkeypatch):
    tested, judge = [], JointTest.judge
    monkeypatch.setattr(JointTest, "judge", lambda test, *rest: tested.append(test.scene) or judge(test, *rest))
    Study(stated(blackbox=crag, limit=-0.6), seed=0, solver=CUQB(search=SMALL)).run(budget=12)
    assert any(scene.is_simple for scene in scenes)
    assert tested
    assert not any(scene.is_simple for scene in tested)


@pytest.mark.slow
def test_a_simple_belief_keeps_its_deviations_where_others_hope_for_less(scenes, monkeypatch):
    widened, asked = Turn.widened, []
    monkeypatch.setattr(shrink, "factor", lambda *told: 0.125)
    monkeypatch.setattr(Turn, "widened", lambda turn, by: asked.append((turn.scene, by)) or widened(turn, by))
    Study(stated(blackbox=crag), seed=0, solver=CUQB(search=SMALL)).run(budget=16)
    assert any(scene.is_simple and scene.is_feasible.any() for scene in scenes)
    assert not any(by < 1 for scene, by in asked if scene.is_simple)
    asked.clear()
    Study(stated(blackbox=hill), seed=0, solver=CUQB(search=SMALL)).run(budget=12)
    assert any(by < 1 for _, by in asked)
