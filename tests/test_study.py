"""Ask, tell, add, fail, run, result: what a study promises."""

import math
from collections.abc import Callable
from typing import Any

import pytest

import pied
from pied import (
    CUQB,
    Problem,
    Result,
    SettingError,
    StatementError,
    Study,
    TellError,
    Trial,
    solve,
)
from pied.records.trial import State
from tiny import distance, fast, hill, parabola, points, waves


def evaluate(study: Study, trial: Trial) -> Trial:
    return study.tell(trial, study.problem.evaluate(trial.x).tolist())


# ----------------------------------------------------------------------------------------------------- ask and tell


def test_trials_are_numbered_from_one_and_start_with_the_initial_design() -> None:
    study = Study(hill(), seed=0, solver=fast())
    trials = [evaluate(study, study.ask()) for _ in range(6)]
    assert [trial.number for trial in trials] == [1, 2, 3, 4, 5, 6]
    assert [trial.why.aim == "initial" for trial in trials] == [True] * 5 + [False]
    assert study.trials == tuple(trials)


def test_asked_points_lie_in_the_box() -> None:
    study = Study(hill(), seed=1, solver=fast())
    for x in points(evaluate(study, study.ask()) for _ in range(7)):
        assert all(0.0 <= value <= 4.0 for value in x)


def test_a_trial_is_reachable_by_number_and_by_itself() -> None:
    study = Study(parabola(), seed=0)
    study.ask()
    second = study.ask()
    assert study.tell(1, 0.5).state is State.TOLD
    assert study.tell(second, {"y": 0.25}).y.y == 0.25


def test_parts_are_told_one_after_the_other() -> None:
    study = Study(waves(), seed=0, solver=fast())
    study.ask()
    first = study.tell(1, {"q": 0.5})
    assert first.state is State.PARTIAL
    assert first.y.q == 0.5
    assert math.isnan(first.y.p)
    second = study.tell(1, {"p": 0.25, "r": 0.125})
    assert second.state is State.TOLD
    assert tuple(second.y.values()) == (0.25, 0.5, 0.125)


def test_telling_the_same_again_is_fine() -> None:
    study = Study(waves(), seed=0, solver=fast())
    study.ask()
    study.tell(1, {"q": 0.5})
    study.tell(1, {"q": 0.5, "p": 0.25})
    study.tell(1, [0.25, 0.5, 0.125])
    assert tuple(study.tell(1, [0.25, 0.5, 0.125]).y.values()) == (0.25, 0.5, 0.125)


def test_a_contradiction_raises_and_nothing_is_lost() -> None:
    study = Study(waves(), seed=0, solver=fast())
    study.ask()
    study.tell(1, {"q": 0.5})
    with pytest.raises(
        TellError, match=r"trial 1: 'q' was told as 0\.5 and cannot become 0\.75; the first value is kept"
    ):
        study.tell(1, {"q": 0.75, "p": 1.0})
    assert study.trials[0].y.q == 0.5
    assert study.trials[0].y.p == 1.0  # what contradicts nothing counts


@pytest.mark.parametrize(
    ("y", "says"),
    [
        (math.nan, "trial 1: .*nan"),
        (None, "trial 1: "),
        ("text", "trial 1: "),
        ({"z": 1.0}, "trial 1: .*'z'"),
        ({}, "trial 1: None of the outputs"),
    ],
)
def test_what_cannot_be_told_is_refused_and_the_trial_stays_open(y: Any, says: str) -> None:
    study = Study(parabola(), seed=0)
    study.ask()
    with pytest.raises(TellError, match=says):
        study.tell(1, y)
    assert study.trials[0].state is State.ASKED


def test_an_unknown_number_is_refused() -> None:
    study = Study(parabola(), seed=0)
    with pytest.raises(TellError, match="there is no trial 3"):
        study.tell(3, 1.0)
    study.ask()
    with pytest.raises(TellError, match="there is no trial 0"):
        study.fail(0, "never was")


def test_a_failed_trial_costs_budget_and_takes_no_result() -> None:
    study = Study(parabola(), seed=0)
    study.ask()
    failed = study.fail(1, "pump tripped")
    assert failed.state is State.FAILED
    assert failed.reason == "pump tripped"
    assert study.used == 1
    with pytest.raises(TellError, match=r"trial 1 was marked as failed \('pump tripped'\)\. If .* study\.correct\(1, "):
        study.tell(1, 1.0)


def test_a_told_trial_cannot_fail() -> None:
    study = Study(parabola(), seed=0)
    study.tell(study.ask(), 1.0)
    with pytest.raises(TellError, match="trial 1 has been told already and cannot fail"):
        study.fail(1, "no")
    assert study.trials[0].state is State.TOLD


# ----------------------------------------------------------------------------------------------------------- old data


def test_complete_old_data_reduces_the_initial_design_and_costs_nothing() -> None:
    study = Study(hill(), seed=0, solver=fast())
    for x in ([0.5, 0.5], [1.0, 3.5], [2.0, 0.25]):
        study.add(x, study.problem.evaluate(x).tolist())
    assert study.used == 0
    aims = [evaluate(study, study.ask()).why.aim for _ in range(3)]
    assert [aim == "initial" for aim in aims] == [True, True, False]
    assert study.used == 3
    assert [trial.is_added for trial in study.trials] == [True] * 3 + [False] * 3


def test_partial_old_data_does_not_reduce_the_initial_design() -> None:
    study = Study(waves(), seed=0, solver=fast())
    added = study.add({"s": 0.5, "t": 0.5}, {"p": 0.9})
    assert added.state is State.PARTIAL
    aims = [evaluate(study, study.ask()).why.aim for _ in range(6)]
    assert [aim == "initial" for aim in aims] == [True] * 5 + [False]
    assert study.tell(added, {"q": 0.5, "r": 0.25}).state is State.TOLD


def test_enough_old_data_replaces_the_initial_design() -> None:
    study = Study(parabola(), seed=0)
    for x in (0.0, 1.0, 2.0):
        study.add([x], study.problem.evaluate([x]).tolist())
    assert study.ask().why.aim != "initial"


def test_old_data_outside_of_the_box_or_with_wrong_names_is_refused() -> None:
    study = Study(parabola(), seed=0)
    with pytest.raises(StatementError, match="x"):
        study.add({"x": 7.0}, 1.0)
    with pytest.raises(StatementError, match="'xx'"):
        study.add({"xx": 1.0}, 1.0)
    with pytest.raises(TellError, match="'z'"):
        study.add({"x": 1.0}, {"z": 1.0})
    assert study.trials == ()


def test_the_initial_design_can_be_chosen() -> None:
    study = Study(parabola(), seed=0, initial=4)
    aims = [evaluate(study, study.ask()).why.aim for _ in range(5)]
    assert [aim == "initial" for aim in aims] == [True] * 4 + [False]


def test_the_initial_design_is_the_same_for_every_solver() -> None:
    designs = [points(Study(hill(), seed=5, solver=name).ask() for _ in range(1)) for name in ("cuqb", "random")]
    assert designs[0] == designs[1]


def test_the_initial_design_honours_white_constraints() -> None:
    study = Study(hill(subject_to={"corner": "a + b <= 0.4"}), seed=0)
    assert all(a + b <= 0.4 for a, b in points(study.ask() for _ in range(5)))


def test_the_initial_design_uses_what_few_white_feasible_points_there_are_first() -> None:
    """About 5 of 10,000 points lie in this corner; each is used once, the rest is uniform."""
    study = Study(hill(subject_to={"corner": "a + b <= 0.127"}), seed=0, initial=9)
    design = points(study.ask() for _ in range(9))
    inside = [a + b <= 0.127 for a, b in design]
    assert 0 < sum(inside) < 9
    assert inside == sorted(inside, reverse=True)
    assert len(set(design)) == 9


# ----------------------------------------------------------------------------------------------------------- pending


def test_pending_trials_of_the_initial_design_are_distinct() -> None:
    study = Study(parabola(), seed=0)
    assert distance([study.ask() for _ in range(4)], study.problem) > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("make", [parabola, hill, waves])
def test_four_pending_suggestions_are_distinct_from_each_other_and_from_what_is_known(
    make: Callable[[], Problem],
) -> None:
    study = Study(make(), seed=0, solver=fast())
    for _ in range(study.initial + 1):
        evaluate(study, study.ask())
    pending = [study.ask() for _ in range(4)]
    assert {trial.state for trial in pending} == {State.ASKED}
    assert distance(study.trials, study.problem) > 1e-7
    for trial in reversed(pending):
        evaluate(study, trial)
    assert study.ask().number == study.initial + 6


@pytest.mark.slow
def test_pending_suggestions_of_a_converged_noisy_study_are_distinct_or_called_repetitions() -> None:
    study = Study(parabola(noise=1e-3), seed=0)
    for _ in range(8):
        evaluate(study, study.ask())
    pending = [study.ask() for _ in range(4)]
    assert distance([trial for trial in pending if trial.why.repeats is None], study.problem) >= 1e-3


@pytest.mark.slow
def test_failed_points_are_not_asked_again() -> None:
    study = Study(parabola(), seed=0)
    for _ in range(4):
        evaluate(study, study.ask())
    failed = [study.ask() for _ in range(1)]
    study.fail(failed[0], "broke")
    again = study.ask()
    assert distance([*failed, again], study.problem) > 1e-7


# ----------------------------------------------------------------------------------------------------------- settings


def test_an_unknown_solver_is_refused_with_the_one_probably_meant() -> None:
    with pytest.raises(SettingError, match=r"unknown solver 'cubq'\. Did you mean 'cuqb'"):
        Study(parabola(), solver="cubq")


def test_an_unknown_setting_is_refused_with_the_one_probably_meant() -> None:
    with pytest.raises(SettingError, match=r"solver 'cuqb' has no setting 'levl'\. Did you mean 'level'"):
        Study(parabola(), settings={"levl": 0.9})
    with pytest.raises(SettingError, match="settings go with a solver's name"):
        Study(parabola(), solver=CUQB(), settings={"level": 0.9})


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ({"joint": "no"}, "joint of solver 'cuqb' is true or false, got 'no'"),
        ({"joint": 0}, "joint of solver 'cuqb' is true or false, got 0"),
        ({"moves": "verify, probes, explore"}, "there is no move 'probes'. Did you mean 'probe'"),
        ({"moves": ("verify",)}, "the last move is 'explore'"),
        ({"level": "0.9"}, "level of solver 'cuqb' is a number, got '0.9'"),
    ],
)
def test_a_setting_of_another_kind_is_refused(words: dict[str, Any], says: str) -> None:
    with pytest.raises(SettingError, match=says):
        Study(parabola(), solver="cuqb", settings=words)


def test_settings_reach_the_solver() -> None:
    study = Study(parabola(), settings={"level": 0.9})
    assert study.solver == CUQB(level=0.9)
    assert study.result().level == 0.9


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ({"initial": 1}, "at least 2 points, got 1"),
        ({"patience": 0}, "patience counts tests from 1, or is None for never, got 0"),
        ({"stop_at_gap": -1.0}, "0 or more, got -1.0"),
        ({"stop_at_gap": math.nan}, "0 or more, got nan"),
    ],
)
def test_senseless_words_are_refused(words: dict[str, Any], says: str) -> None:
    with pytest.raises(SettingError, match=says):
        Study(parabola(), **words)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ({"level": 0.5}, "between 0.5 and 1, got 0.5"),
        ({"level": 1.0}, "between 0.5 and 1, got 1.0"),
        ({"verify_every": 0}, "verify_every counts trials from 1"),
        ({"verdict": "jointly"}, "verdict is 'joint' or 'single', got 'jointly'"),
    ],
)
def test_senseless_settings_of_cuqb_are_refused(words: dict[str, Any], says: str) -> None:
    with pytest.raises(SettingError, match=says):
        CUQB(**words)


@pytest.mark.slow
def test_verification_is_a_rule_of_the_number_alone() -> None:
    result = solve(hill(), 14, seed=0, solver=fast())
    aims = {trial.number: trial.why.aim for trial in result.trials}
    assert {aims[number] for number in (8, 11, 14)} <= {"verify", "spread", "explore"}
    assert "verify" not in {aims[number] for number in (6, 7, 9, 10, 12, 13)}
    never = solve(hill(), 9, seed=0, solver=fast(verify_every=None))
    assert "verify" not in {trial.why.aim for trial in never.trials}


def test_the_twelve_words_are_there() -> None:
    words = ("Problem", "Variable", "Study", "Trial", "Result", "Status", "solve", "maximize", "minimize", "suite")
    for word in words:
        assert hasattr(pied, word)
    for word in ("ask", "tell"):
        assert callable(getattr(Study, word))
    assert Result is pied.Result
