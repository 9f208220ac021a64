"""A corrected study answers as if the mistake had never been made, and remembers it."""

import logging
from pathlib import Path

import pytest

from pied import Contradiction, Problem, SettingError, State, StatementError, Status, Study
from pied.records.sql import Store
from shells import LAB, data, pied_
from tiny import fast, hill, parabola


def answers(study: Study) -> list[float]:
    found = study.result()
    assert found.x is not None
    return [found.value, *found.x.values(), *found.bounds[found.objective]]


def lab_problem() -> Problem:
    return parabola(blackbox=None, noise=0.01)


POINTS = [(0.1, -0.44), (0.8, 0.75), (1.6, 0.91), (2.2, 0.19), (2.9, -1.56)]


def test_after_a_correction_the_answer_is_that_of_a_record_without_the_mistake() -> None:
    right, wrong = (Study(lab_problem(), solver=fast(), seed=0) for _ in range(2))
    for x, y in POINTS:
        right.add({"x": x}, {"y": y})
        wrong.add({"x": x}, {"y": y if x != 2.2 else 19.0})
    assert wrong.result().x.x == pytest.approx(2.2, abs=0.3)
    wrong.correct(4, {"y": 0.19}, why="decimal point")
    assert answers(wrong) == pytest.approx(answers(right), rel=1e-9)
    assert wrong.ask().x.x == pytest.approx(right.ask().x.x, rel=1e-9)


def test_after_a_correction_a_repetition_is_still_one() -> None:
    study = Study(lab_problem(), solver=fast(), seed=0)
    for x, y in POINTS:
        study.add({"x": x}, {"y": y})
    study.tell(study.repeat(3), {"y": 0.9})
    study.correct(1, {"y": -0.45}, why="a digit")
    assert [why.repeats for why in study.data.whys] == [None] * len(POINTS) + [3]


def test_a_withdrawn_trial_counts_nowhere_and_stays_listed() -> None:
    without, study = (Study(lab_problem(), solver=fast(), seed=0) for _ in range(2))
    for x, y in POINTS:
        study.add({"x": x}, {"y": y})
        if x != 2.2:
            without.add({"x": x}, {"y": y})
    whole = answers(study)
    assert study.withdraw(4, why="contaminated").state is State.WITHDRAWN
    assert study.data.numbers == (1, 2, 3, 5)
    assert len(study.data.imagined) == 0
    assert answers(study) == pytest.approx(answers(without), rel=1e-9)
    assert "(withdrawn: contaminated)" in str(study.trials[3])
    study.restore(4)
    assert answers(study) == pytest.approx(whole, rel=1e-9)


def test_the_gap_of_a_wrong_belief_is_forgotten() -> None:
    study = Study(parabola(), solver=fast(), seed=0)
    study.run(6)
    assert study.gap()[0] is not None
    study.correct(2, {"y": study.trials[1].y.y + 0.01}, why="typo")
    assert study.gap() == (None, None)
    assert any(trial.why.optimistic is not None for trial in study.trials)  # it stays in the record
    assert all(why.optimistic is None and not why.memory for why in study.data.whys)
    study.run(3)
    assert study.trials[-1].why.basis == 1
    assert study.gap()[0] is not None


def test_the_end_of_a_run_is_forgotten_after_a_correction() -> None:
    study = Study(parabola(), solver="random", seed=0)
    assert study.run(3).status is Status.FINISHED
    study.withdraw(1, why="contaminated")
    assert study.result().status is Status.RUNNING


@pytest.mark.slow
def test_a_verdict_does_not_outlive_the_value_it_rests_on() -> None:
    study = Study(hill(subject_to={"never": "y <= -1"}), solver=fast(), seed=0)
    assert study.run(20).status is Status.INFEASIBLE
    told = study.trials[-1]
    study.correct(told, {"y": told.y.y + 0.001}, why="typo")
    assert (study.status, study.snapshot.confirmations) == (Status.RUNNING, 0)
    assert study.run(12).status is Status.INFEASIBLE  # confirmed again, by new tests
    study.withdraw(1, why="contaminated")
    assert study.status is Status.RUNNING


def test_a_solver_with_its_own_loop_begins_again_from_the_corrected_data() -> None:
    study = Study(parabola(), solver="direct", seed=0)
    study.run(8)
    study.correct(5, {"y": 0.5}, why="typo")
    study.withdraw(6, why="contaminated")
    study.run(3)
    assert [trial.state for trial in study.trials[8:]] == [State.TOLD] * 3


def test_withdrawn_initial_points_are_replaced_until_there_are_chosen_ones() -> None:
    study = Study(parabola(), solver="random", seed=0, initial=3)
    study.run(2)
    study.withdraw(1, why="contaminated")
    assert [study.ask().why.aim for _ in range(2)] == ["initial", "initial"]
    later = Study(parabola(), solver="random", seed=0, initial=3)
    later.run(5)
    later.withdraw(1, why="contaminated")
    assert later.ask().why.aim == "random"


def test_data_lie_where_they_were_measured_and_the_asked_point_stays(caplog: pytest.LogCaptureFixture) -> None:
    study = Study(lab_problem(), solver=fast(), seed=0)
    trial = study.ask()
    moved = study.tell(trial, 0.5, at={"x": 1.0})
    assert (moved.x.x, moved.proposed.x) == (1.0, trial.x.x)
    assert study.data.U[0, 0] == pytest.approx(1.0 / 3.0)
    with caplog.at_level(logging.WARNING):
        edge = study.tell(study.ask(), 0.5, at={"x": 3.05})
    assert "x = 3.05 is outside of its range from 0 to 3; it is used as data there" in caplog.text
    assert edge.x.x == 3.05
    assert study.data.U[1, 0] == pytest.approx(3.05 / 3.0)
    with pytest.raises(StatementError, match=r"'x' = 30\.0 is far outside of its range from 0\.0 to 3\.0"):
        study.tell(study.ask(), 0.5, at={"x": 30.0})
    assert study.tell(3, 0.5, at={"x": 30.0}, anyway=True).x.x == 30.0
    with pytest.raises(StatementError, match="'y' is not a variable"):
        study.tell(3, 0.5, at={"y": 1.0})
    with pytest.raises(SettingError, match="say why in a few words"):
        study.correct(1, 0.6, why=" ")


def test_the_settings_of_a_complete_trial_are_corrected_not_told() -> None:
    study = Study(lab_problem(), solver=fast(), seed=0)
    trial = study.tell(study.ask(), 0.5)
    with pytest.raises(Contradiction, match=r"study\.correct\(1, \{\}, at=\{'x': 1\.0\}, why='\.\.\.'\)"):
        study.tell(trial, 0.5, at={"x": 1.0})
    shown = float(f"{trial.x.x:.6g}")  # as it was printed
    assert study.tell(trial, 0.5, at={"x": shown}).x.x == trial.x.x
    assert study.correct(trial, at={"x": 1.0}, why="misread").x.x == 1.0


def test_bounds_at_the_asked_point_are_not_taken_for_those_where_it_was_run() -> None:
    study = Study(lab_problem(), solver=fast(), seed=0)
    for x, y in POINTS:
        study.add({"x": x}, {"y": y})
    trial = study.ask()
    study.tell(trial, 0.3, at={"x": 2.0})
    assert trial.why.lower
    assert study.data.whys[-1].lower == ()
    assert study.data.whys[-1].optimistic == trial.why.optimistic
    assert study.result().x is not None


def test_another_process_follows_a_correction(tmp_path: Path) -> None:
    url = tmp_path / "lab.db"
    with Study(parabola(), name="a", store=url, solver=fast(), seed=0, worker="anna") as anna:
        anna.run(6)
        with Study(parabola(), name="a", store=url, worker="bob") as bob:
            assert bob.gap()[0] is not None
            anna.correct(2, {"y": anna.trials[1].y.y + 0.01}, why="typo")
            assert bob.gap() == (None, None)
            assert [each.worker for each in bob.history(2)] == ["anna"] * 3
        with Store.connect(url, read_only=True) as store:
            assert len(store.record("a").events()) == 1


# ------------------------------------------------------------------------------------------------------------ the shell


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lab.toml").write_text(LAB)
    pied_("ask", "lab.toml", "--count", "3")
    pied_("tell", "lab.toml", "1", "product=0.6", "impurity=0.05")
    return tmp_path


def test_the_message_of_a_contradiction_is_a_command_that_works(lab: Path) -> None:
    refused = pied_("tell", "lab.toml", "1", "product=0.7", code=2).stderr
    assert "pied correct lab.toml 1 product=0.7 --why '...'" in refused
    shown = pied_("correct", "lab.toml", "1", "product=0.7", "--why", "typo", "--worker", "anna").output
    assert shown == "trial 1: corrected: product = 0.7 instead of 0.6 (typo)\n"
    assert "nothing to correct" in pied_("correct", "lab.toml", "1", "product=0.7", "--why", "typo").output
    assert "say what is right" in pied_("correct", "lab.toml", "1", "--why", "typo", code=2).stderr


def test_history_names_people_and_reasons(lab: Path) -> None:
    pied_("correct", "lab.toml", "1", "product=0.7", "--why", "typo", "--worker", "anna")
    pied_("note", "lab.toml", "1", "new catalyst batch", "--worker", "bob")
    lines = pied_("history", "lab.toml", "1").output.splitlines()
    assert lines[-2].endswith("anna  trial 1 corrected: product = 0.7 instead of 0.6 (typo)")
    assert "bob " in lines[-1]
    assert lines[-1].endswith("trial 1 note: new catalyst batch")
    assert [each["kind"] for each in data("history", "lab.toml")][:2] == ["question", "asked"]
    assert len(data("export", "lab.toml")["events"]) == 2


def test_withdraw_and_restore_in_the_shell(lab: Path) -> None:
    assert "pied restore lab.toml 1" in pied_("withdraw", "lab.toml", "1", "--why", "contaminated").output
    assert "withdrawn: contaminated" in pied_("status", "lab.toml").output
    pied_("result", "lab.toml", code=3)
    assert data("restore", "lab.toml", "1")["state"] == "told"
    assert "nothing has changed" in pied_("restore", "lab.toml", "1").stderr
    pied_("fail", "lab.toml", "1", "leak", code=2)
    assert data("fail", "lab.toml", "1", "leak", "--anyway")["state"] == "failed"


def test_what_was_really_set_is_told_in_the_shell(lab: Path) -> None:
    shown = pied_("tell", "lab.toml", "2", "--at", "temperature=72", "product=0.5").output
    assert "trial 2 was run at temperature = 72 instead of " in shown
    refused = pied_("tell", "lab.toml", "2", "--at", "temperature=73", code=2).stderr
    assert "pied correct lab.toml 2 --at temperature=73.0 --why '...'" in refused
    refused = pied_("tell", "lab.toml", "1", "--at", "temperature=73", code=2).stderr  # complete, at the proposed point
    assert "pied correct lab.toml 1 --at temperature=73.0 --why '...'" in refused
    told = data("correct", "lab.toml", "2", "--at", "temperature=73", "--why", "misread")
    assert told["x"]["temperature"] == 73.0
    assert "'temprature' is not a variable. Did you mean 'temperature'" in (
        pied_("tell", "lab.toml", "3", "--at", "temprature=73", code=2).stderr
    )
