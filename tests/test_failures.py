"""A failure belongs to its settings, unless someone says otherwise or the same settings have succeeded."""

import sqlite3

import numpy as np
import pytest

from pied import Choice, Problem, State, Study, Variable
from pied.records import Dataset

BROKE = "flask broke"


def slope(**words):
    """The larger x the better; nothing is measured above 0.8."""
    return Problem({"x": (0.0, 1.0), "z": Choice("a", "b")}, ["y"], maximize="y", noise=0.02, **words)


def told(problem=None, store=None):
    study = Study(problem or slope(), seed=0, name="lab", store=store)
    noise = np.random.default_rng(1).normal(size=18) * 0.02
    for k in range(18):
        x = 0.1 * (k % 9)
        study.add({"x": x, "z": "ab"[k // 9]}, {"y": x - 0.3 * (k // 9) + noise[k]})
    return study


def failed(study, x=0.9, z="a", **words):
    trial = study.ask()
    study.tell(trial, None, at={"x": x, "z": z})
    study.fail(trial, BROKE, **words)
    return trial.number


def everything(study):
    """What beliefs, searches and verdicts are made from."""
    data = study.snapshot.data
    return data.numbers, data.imagined.tolist(), data.failures, data.away


def test_a_failure_that_has_nothing_to_do_with_the_settings_changes_nothing():
    study = told()
    before, known = study.result(), everything(study)
    number = failed(study, not_the_settings=True)
    assert everything(study) == known
    after = study.result()
    assert dict(after.x) == dict(before.x)
    assert after.value == pytest.approx(before.value)
    assert after.blame is None
    assert study.trials[number - 1].failure == "failed (not the settings): flask broke"
    assert "failed (not the settings): flask broke" in str(study.trials[number - 1])
    assert after.failures == {BROKE: 1}, "it is still told that it failed"


def test_an_answer_that_failures_have_changed_says_so():
    study = told()
    before = study.result()
    number = failed(study)
    after = study.result()
    assert after.x["x"] < before.x["x"] - 0.05
    assert after.value < before.value
    assert after.blame.trials == (number,)
    assert after.blame.x["x"] == pytest.approx(before.x["x"], abs=0.02)
    assert after.blame.value == pytest.approx(before.value, abs=0.02)
    said = next(line for line in str(after).splitlines() if f"Trial {number} failed, and" in line)
    assert f"study.fail({number}, reason, not_the_settings=True)" in said
    assert f"Trial {number} failed, and" in after._repr_html_()
    assert after.to_dict()["without_failures"]["trials"] == [number]
    study.fail(number, BROKE, not_the_settings=True)
    assert "settings near" not in str(study.result())
    assert study.result().x["x"] == pytest.approx(before.x["x"], abs=0.02)


def test_failures_that_change_nothing_are_not_blamed():
    study = told()
    number = failed(study, x=0.05, z="b")
    assert study.trials[number - 1].state is State.FAILED
    assert study.result().blame is None
    assert told(slope()).result().blame is None


def test_a_repetition_that_fails_beside_a_success_says_nothing():
    study = told()
    known = everything(study)
    again = study.repeat(9)
    study.fail(again, BROKE)
    assert everything(study) == known
    study.withdraw(9, why="contaminated")
    assert study.snapshot.data.away == (again.number,), "the success is gone, so the failure counts again"


def test_settings_that_failed_for_another_reason_may_be_asked_again():
    study = Study(Problem({"x": Variable(0, 1, step=0.5)}, ["y"], maximize="y", noise=0), seed=0)
    for x in (0.0, 0.5):
        study.add({"x": x}, {"y": x})
    study.fail(study.ask(), BROKE, not_the_settings=True)
    assert study.ask().x["x"] == 1.0
    study.fail(3, BROKE, not_the_settings=False)
    study.fail(4, BROKE)
    assert study.snapshot.is_exhausted


def test_what_a_failure_had_to_do_with_the_settings_can_be_said_later_and_taken_back(tmp_path):
    study = told(store=tmp_path / "lab.db")
    number = failed(study)
    for is_luck in (True, True, False, True):
        study.fail(number, "anything", not_the_settings=is_luck)
        again = Study(slope(), name="lab", store=tmp_path / "lab.db")
        assert again.trials[number - 1].not_the_settings is is_luck
        assert again.trials[number - 1].reason == BROKE
    said = [each.what for each in study.history(number) if each.kind == "failed"]
    assert said == [
        "failed (flask broke)",
        "failed (flask broke), not because of the settings",
        "failed (flask broke), perhaps by the settings",
        "failed (flask broke), not because of the settings",
    ]
    study.correct(number, {"y": 0.9}, why="it was another flask")
    study.fail(number, "leak", anyway=True)
    assert not study.trials[number - 1].not_the_settings


def test_a_failure_with_the_word_is_stored_as_a_failed_trial_with_its_reason(tmp_path):
    study = told(store=tmp_path / "lab.db")
    number = failed(study, not_the_settings=True)
    base = sqlite3.connect(tmp_path / "lab.db")
    state, reason = base.execute("SELECT state, reason FROM trials WHERE number = ?", (number,)).fetchone()
    assert (state, reason) == ("failed", BROKE)
    base.close()
    why = dict(vars(study.trials[number - 1].why))
    assert "not_the_settings" not in why


@pytest.mark.parametrize("solver", ["random", "direct"])
def test_solvers_go_on_after_such_a_failure(solver):
    study = Study(Problem({"x": (0.0, 1.0)}, ["y"], maximize="y", noise=0), seed=0, solver=solver)
    for k in range(9):
        trial = study.ask()
        if k in (1, 5):
            study.fail(trial, BROKE, not_the_settings=True)
        else:
            study.tell(trial, {"y": trial.x["x"]})
    assert len(Dataset.of(study.problem, study.trials).numbers) == 7


def test_a_start_in_which_everything_broke_goes_on():
    study = Study(Problem({"x": (0.0, 1.0)}, ["y"], maximize="y", noise=0), seed=0)
    for _ in range(4):
        study.fail(study.ask(), BROKE, not_the_settings=True)
    assert study.status.name == "RUNNING"
