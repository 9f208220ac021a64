"""After explorations that broke limits by far, a search hopes for less."""

import numpy as np
import pytest

from pied import CUQB, Problem, Study
from pied.records import Dataset, Why
from pied.solvers.moves import shrink

SCALES = np.array([1.0, 2.0])
MET, NEARLY, FAR = 1.0, -0.1, -1.0


def factor(*told):
    """Of trials given as pairs: why they were proposed, and their limit."""
    f = np.array([[0.0, limit] for _, limit in told]).reshape(-1, 2)
    return shrink.factor(data(*(aim for aim, _ in told)), f, SCALES)


def data(*aims, **words):
    """Told points with why they were proposed, numbered from 1."""
    n = len(aims)
    numbers, nothing = tuple(range(1, n + 1)), np.zeros((n, 1))
    return Dataset(numbers, nothing, nothing, nothing[:0], whys=tuple(map(Why, aims)), **words)


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ([], 1.0),
        ([("explore", FAR)], 0.5),
        ([("explore", FAR), ("improve", FAR)], 0.25),
        ([("explore", FAR)] * 9, shrink.LEAST),
        ([("explore", FAR), ("widen", MET)], 1.0),
        ([("explore", MET), ("explore", MET), ("explore", FAR)], 0.5),
        ([("explore", FAR), ("explore", NEARLY)], 1.0),
        ([("verify", FAR), ("initial", FAR), ("probe", FAR), ("added", FAR)], 1.0),
        ([("explore", FAR), ("explore", np.nan)], 0.5),
    ],
    ids=[
        "nothing told",
        "one",
        "two",
        "many",
        "one that met it",
        "no credit",
        "broken by little",
        "others",
        "not told",
    ],
)
def test_explorations_that_broke_limits_by_far_halve_hope_and_others_double_it(told, expected):
    assert factor(*told) == expected


def test_without_limits_hope_stays():
    assert shrink.factor(data("explore"), np.zeros((1, 1)), np.ones(1)) == 1.0


@pytest.mark.parametrize("words", [{"moved": (1, 2)}, {"earlier": (1, 2)}, {"moved": (1,), "earlier": (2,)}])
def test_what_was_run_elsewhere_or_for_an_earlier_question_does_not_count(words):
    broken = np.array([[0.0, FAR], [0.0, FAR]])
    assert shrink.factor(data("explore", "explore"), broken, SCALES) == 0.25
    assert shrink.factor(data("explore", "explore", **words), broken, SCALES) == 1.0


def test_a_study_knows_which_trials_were_for_an_earlier_question():
    study = Study(front(), seed=0, solver="random")
    study.run(budget=3)
    assert study.snapshot.data.earlier == ()
    study.revise(subject_to=["outlet <= 1"])
    study.run(budget=2)
    assert study.snapshot.data.earlier == (1, 2, 3)


def bed(x):
    """What leaves a bed: a steep front, whose place depends on all settings."""
    away = x["hours"] - 1.3 * x["length"] / x["flow"] ** 0.8
    return {"outlet": 100.0 / (1.0 + np.exp(-25.0 * away))}


def front():
    return Problem(
        {"hours": (0.3, 3.0), "flow": (0.5, 3.0), "length": (0.5, 2.0)},
        ["outlet"],
        maximize="hours*flow - 0.9*length - 0.1*flow**2",
        subject_to=["outlet <= 2"],
        blackbox=bed,
        noise=0,
    )


@pytest.mark.slow
def test_an_exploration_with_less_hope_is_no_bound_of_the_optimum():
    study = Study(front(), seed=0, solver=CUQB(moves=("verify", "shrink", "feasible", "explore")))
    study.run(budget=20)
    is_met, after_far, without, given = False, False, [], []
    for trial in study.trials:
        if trial.why.aim == "explore" and is_met:
            (without if after_far else given).append(trial.why.optimistic)
        if trial.why.aim in shrink.AIMS:
            after_far = trial.y["outlet"] > 60
        is_met = is_met or trial.y["outlet"] <= 2
    assert without
    assert set(without) == {None}
    assert any(each is not None for each in given)
