"""A gap is told when it means something: not absurdly large, and not small by a smoothness that was not shown."""

import math

import numpy as np
import pytest

from pied import CUQB, Problem, Study, Variable
from pied.problem import ceiling
from pied.records import Why
from pied.rng import Stream
from pied.study import Top, changed, gap, tops, what_if
from pied.study.gaps import WIDEST, refuted


@pytest.mark.parametrize(
    ("width", "assumes_smooth", "told"),
    [
        (0.1, False, 0.1),
        (0.1, True, math.inf),
        (2.1 * WIDEST, False, math.inf),
        (2.1 * WIDEST, True, math.inf),
    ],
    ids=["shown", "not shown", "absurd", "both"],
)
def test_a_gap_is_told_where_it_means_something(width, assumes_smooth, told):
    assert gap([Top(5.0 + width, not assumes_smooth)], 5.0, 2.0) == pytest.approx(told)


def test_the_smallest_bound_that_was_not_refuted_holds():
    stated = [None, Top(9.0, number=2), Top(6.0, number=3), Top(5.5, is_shown=False, number=4), Top(7.0, number=5)]
    assert gap(stated, 5.0, 1.0) == pytest.approx(1.0)
    assert gap(stated, 6.5, 1.0) == pytest.approx(0.5)
    assert refuted(stated, 5.0, 6.5) == stated[2]
    assert refuted(stated, 5.0, 5.2) is None
    assert gap(stated, 9.5, 1.0) == gap(stated, None, 1.0) == math.inf


def test_the_gap_only_falls_until_a_value_refutes_its_bound():
    """Between what is told the belief changes: its own bounds rise and fall."""
    study = Study(Problem({"a": (0, 1)}, ["y"], maximize="y", noise=0), seed=2)
    shown = []
    for _ in range(study.initial + 7):
        trial = study.ask()
        study.tell(trial, {"y": math.sin(5.0 * trial.x["a"])})
        shown.append(study.gap()[0])
    best = np.maximum.accumulate([trial.y["y"] for trial in study.trials])
    shown = [math.inf if each is None else each for each in shown]
    for t in range(1, len(shown)):
        top = refuted(tops(study.trials[:t]), best[t - 1], best[t])
        assert shown[t] <= shown[t - 1] * 1.05 + 1e-9 or top is not None
    assert shown[-1] < 1e-2


@pytest.mark.parametrize(
    ("words", "highest"),
    [
        ({"minimize": "y + a", "ranges": {"y": (0, math.inf)}}, 0.0),
        ({"maximize": "y + a", "ranges": {"y": (-1, 3)}}, 5.0),
        ({"maximize": "a*(2 - a) - b*b", "subject_to": ["y <= 1"]}, 1.0),
        ({"minimize": "y**2 + abs(y - b)"}, 0.0),
        ({"maximize": "y"}, math.inf),
    ],
)
def test_no_gap_goes_beyond_what_the_objective_cannot_exceed(words, highest):
    problem = Problem({"a": (0, 2), "b": (-1, 1)}, ["y"], noise=0, **words)
    assert ceiling(problem) == highest or highest <= ceiling(problem) <= highest + 0.01
    Y = np.clip(np.random.default_rng(0).normal(size=(500, 1)) * 9, *problem.ranges[0])
    X = problem.from_unit(np.random.default_rng(1).random((500, 2)))
    assert problem.g(X, Y[None], which=(0,))[0].max() <= ceiling(problem)


def lump(x):
    """Nearly a parabola, but for a ridge that no point of the design meets."""
    u = np.array([x["a"], x["b"]])
    bend = 0.02 * np.sin(9.0 * u[0]) * np.cos(8.0 * u[1])
    return {"y": float(-((u - 0.4) ** 2).sum() + bend + 3.0 * np.exp(-(((u[0] - u[1] - 0.83) / 0.004) ** 2)))}


def parabola(x):
    return {"y": -((x["a"] - 0.4) ** 2) - (x["b"] - 0.3) ** 2 - 0.5 * x["a"] * x["b"]}


def studied(blackbox, count=16, **words):
    problem = Problem({"a": (0, 1), "b": (0, 1)}, ["y"], maximize="y", blackbox=blackbox, noise=0)
    study = Study(problem, seed=0, **words)
    for u in Stream(3).sobol(64, 2):
        x = dict(zip(("a", "b"), u.tolist(), strict=True))
        if abs(u[0] - u[1] - 0.83) > 0.05 and len(study.trials) < count:
            study.add(x, blackbox(x))
    study.run(budget=3)
    return study


@pytest.mark.slow
def test_a_small_gap_needs_smoothness_that_was_shown():
    rough, smooth = studied(lump), studied(parabola)
    kernels = {each["kernel"] for each in rough.trials[-1].why.memory["choices"]}
    assert rough.gap()[0] == math.inf or kernels == {"matern 3/2"}
    assert smooth.gap()[0] < 1e-3 * np.ptp([trial.y["y"] for trial in smooth.trials])


@pytest.fixture
def asked():
    """A study with noise, limits and a price, some proposals of a belief old."""
    problem = Problem(
        {"a": (0, 1), "b": Variable(0, 1, step=0.1)}, ["y"], maximize="price*y", noise=0.02, constants={"price": 2.0},
        subject_to={"low": "a <= 0.8"},
    )  # fmt: skip
    study = Study(problem, seed=0)
    for _ in range(study.initial + 4):
        trial = study.ask()
        study.tell(trial, {"y": parabola(trial.x)["y"] + 0.02 * math.sin(99.0 * trial.number)})
    return study


@pytest.mark.slow
def test_the_gap_is_one_number_wherever_it_is_asked_for(asked):
    result, best = asked.result(), asked.snapshot.recommended
    assert math.isfinite(result.gap)
    assert asked.gap()[0] == pytest.approx(result.gap)
    assert result.still in str(result)
    top = best.certified + result.gap
    assert asked.outlook.answer({}).bounds[1] == pytest.approx(top)
    for outlook, problem in (
        (asked.outlook, asked.problem),
        (asked.outlook, changed(asked.problem, limits={"low": 0.8})),
    ):
        scenario = what_if(outlook, problem).result
        assert (scenario.gap, scenario.still) == (pytest.approx(result.gap), result.still)
    sweep = asked.sweep(price=[1.9, 2.0, 2.1])
    assert sweep.upper[1] == pytest.approx(top)
    assert sweep.upper[1] - sweep.lower[1] >= 0.9 * result.gap
    dearer = what_if(asked.outlook, changed(asked.problem, constants={"price": 2.1})).result
    assert dearer.gap == pytest.approx(result.gap, rel=0.3), "another question is answered by the same computation"


@pytest.mark.slow
def test_why_no_gap_is_told_is_said_alike_everywhere(asked):
    assert asked.result().gap_why == ""
    asked.correct(2, {"y": asked.trials[1].y["y"] + 0.01}, why="misread")
    result = asked.result()
    assert result.gap is None
    assert (
        result.still == "how much better is possible is not known: the record was corrected; the next proposal tells it"
    )
    assert result.still in str(result)
    assert result.to_dict()["gap_why"] in result.still
    assert what_if(asked.outlook, asked.problem).result.still == result.still
    assert what_if(asked.outlook, changed(asked.problem, constants={"price": 2.1})).result.still == result.still
    assert result.still in str(asked.sweep(price=[2.0, 2.1]))
    asked.revise(constants={"price": 3.0})
    assert "nothing was proposed for this question" in asked.result().still
    asked.tell(asked.ask(), {"y": -0.1})
    assert asked.result().gap_why == ""


@pytest.mark.parametrize(("solver", "count", "why"), [("cuqb", 3, "spread over"), ("random", 9, "no belief about it")])
def test_a_gap_that_no_proposal_told_is_said_to_be_unknown(solver, count, why):
    study = Study(Problem({"a": (0, 1)}, ["y"], maximize="y", noise=0.1), seed=0, solver=solver)
    for _ in range(count):
        trial = study.ask()
        study.tell(trial, {"y": trial.x["a"]})
    assert why in study.result().still


def saturated(x):
    """It is cut off at 6, but for a corner where no point was told."""
    if np.hypot(x["a"] - 0.05, x["b"] - 0.05) < 0.15:
        return {"y": 9.0}
    return {"y": float(min(20.0 * (np.sin(1.5 * x["a"]) + x["b"] ** 2 - 0.7), 6.0))}


def added(problem, blackbox, count=24):
    study = Study(problem, seed=0)
    for u in Stream(3).sobol(count, 2):
        if np.hypot(*(u - 0.05)) > 0.2:
            x = dict(zip(("a", "b"), u.tolist(), strict=True))
            study.add(x, blackbox(x))
    return study


BOX = {"a": (0, 1), "b": (0, 1)}


def test_that_an_objective_is_cut_off_everywhere_is_doubted():
    study = added(Problem(BOX, ["y"], maximize="y", blackbox=saturated, noise=0), saturated)
    study.run(budget=4)
    assert 1 in study.snapshot.belief.choices[0].clipped
    assert study.gap()[0] >= 3.0
    assert study.trials[-1].why.possible > 6.0


@pytest.mark.slow
def test_a_limit_beyond_a_plateau_may_be_met_elsewhere():
    problem = Problem(BOX, ["y"], maximize="a", subject_to=["y >= 8"], blackbox=saturated, noise=0)
    assert added(problem, saturated).snapshot.chance > 0.0


@pytest.mark.slow
@pytest.mark.parametrize("constant", [1.0, 0.1, -273.15, 1e-6, 1 / 3])
def test_an_output_that_never_changes_is_explained_whatever_its_value(constant):
    problem = Problem(BOX, ["y", "s"], maximize="y", subject_to=[f"s <= {abs(constant) * 2 + 1}"], noise=0)
    study = Study(problem.revised(blackbox=lambda x: {**parabola(x), "s": constant}), seed=0)
    study.run(budget=14)
    assert study.gap()[0] < 1e-6


def test_a_trial_of_a_version_that_did_not_say_so_shows_no_smoothness():
    assert Why.from_dict({"aim": "explore", "possible": 1.0}).assumes_smooth
    assert not Why.from_dict({"aim": "explore", "possible": 1.0, "assumes_smooth": False}).assumes_smooth
    assert not Why.from_dict({}).assumes_smooth


@pytest.mark.slow
def test_the_record_says_so_without_a_belief():
    assert [trial.why.assumes_smooth for trial in studied(parabola).trials[-3:]] == [False] * 3
    said = [trial.why.assumes_smooth for trial in studied(lump).trials[-3:]]
    assert any(said)


def test_bounds_that_are_not_widened_do_not_ask():
    study = studied(lump, solver=CUQB.paper())
    assert not any(trial.why.assumes_smooth for trial in study.trials)
