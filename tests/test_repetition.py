"""Whether a program has noise is found out by evaluating one point twice."""

import math
from typing import Any

import numpy as np
import pytest

from pied import Problem, Study
from pied.plots import predictions
from pied.records import State
from pied.solvers.cuqb import CUQB
from pied.study.repetition import exact_outputs

SEED = 3


def smooth(x: Any) -> float:
    return math.sin(3.0 * x["a"]) + (x["b"] - 0.3) ** 2


def stated(blackbox: Any = smooth, **words: Any) -> Problem:
    return Problem({"a": (-1.0, 2.0), "b": (0.0, 1.0)}, ["y"], blackbox=blackbox, minimize="y + 0.1*a", **words)


def measured(study: Study, count: int, h: Any) -> None:
    for _ in range(count):
        trial = study.ask()
        study.tell(trial, h(trial.x))


def compared(study: Study) -> list[int]:
    return [trial.number for trial in study.trials if trial.why.aim == "compare"]


@pytest.mark.slow
def test_an_exact_program_is_found_to_be_one() -> None:
    study = Study(stated(), seed=SEED)
    study.run(14)
    first = study.initial + 1
    again = study.trials[first - 1]
    assert compared(study) == [first]
    assert dict(again.x) == dict(study.trials[again.why.repeats - 1].x)  # in all digits
    assert "whether it gives the same values" in again.summary
    assert study.problem.noise == (0.0,)
    assert study.problem.stated_noise == (None,)
    assert study.result().rule == "observed"
    assert study.used == 14
    assert first not in study.snapshot.data.numbers  # it says nothing more
    assert len(study.snapshot.data.U) == 13


@pytest.mark.slow
def test_it_then_searches_as_if_that_had_been_stated() -> None:
    found, known = Study(stated(), seed=SEED), Study(stated(noise=0), seed=SEED)
    found.run(22)
    known.run(22)
    assert compared(known) == []
    best = min(each.result().value for each in (found, known))
    assert found.result().value == pytest.approx(best, abs=1e-5)


def test_a_noisy_program_is_compared_once_and_its_noise_is_learned() -> None:
    random = np.random.default_rng(SEED)
    study = Study(stated(lambda x: smooth(x) + 0.05 * random.normal()), seed=SEED)
    study.run(12)
    assert compared(study) == [study.initial + 1]
    assert study.problem.noise == (None,)
    assert len(study.snapshot.data.U) == 12


def test_rounding_in_parallel_sums_is_no_noise() -> None:
    random = np.random.default_rng(SEED)
    study = Study(stated(lambda x: smooth(x) * (1.0 + 1e-15 * random.normal())), seed=SEED)
    study.run(8)
    assert study.problem.noise == (0.0,)
    assert compared(study)[0] not in study.snapshot.data.numbers


def test_coarse_values_prove_nothing() -> None:
    study = Study(stated(lambda x: round(smooth(x), 2)), seed=SEED)
    study.run(9)
    assert study.problem.noise == (None,)
    assert compared(study) == []  # nothing could come of it


@pytest.mark.parametrize("words", [{"noise": 0.01}, {"noise": 0}])
def test_stated_noise_is_believed(words: Any) -> None:
    study = Study(stated(**words), seed=SEED)
    study.run(8)
    assert compared(study) == []


def test_the_paper_compares_nothing() -> None:
    study = Study(stated(), seed=SEED, solver=CUQB.paper())
    study.run(7)
    assert compared(study) == []


def test_people_who_measure_are_not_asked_but_their_repetitions_count() -> None:
    study = Study(stated(None), seed=SEED)
    measured(study, study.initial, smooth)
    assert study.ask().why.aim != "compare"
    again = study.repeat(2)
    assert study.problem.noise == (None,)
    study.tell(again, smooth(again.x))
    assert study.problem.noise == (0.0,)


def test_a_corrected_value_takes_the_proof_away() -> None:
    study = Study(stated(), seed=SEED)
    study.run(9)
    again = study.trials[compared(study)[0] - 1]
    study.correct(again, {"y": again.y["y"] + 0.01}, why="read wrongly")
    assert study.problem.noise == (None,)
    assert again.number in study.snapshot.data.numbers
    assert study.ask().why.aim != "compare"


def test_copies_of_old_rows_prove_nothing() -> None:
    study = Study(stated(None), seed=SEED)
    point = {"a": 0.123, "b": 0.456}
    for x in (point, point, {"a": 0.7, "b": 0.2}):
        study.add(x, {"y": smooth(x)}, again=True)
    assert exact_outputs(study.problem, study.trials) == ()


def test_each_output_is_proved_by_itself() -> None:
    random = np.random.default_rng(SEED)

    def both(x: Any) -> dict[str, float]:
        return {"y": smooth(x), "z": x["b"] + 0.01 * random.normal()}

    problem = Problem({"a": (-1.0, 2.0), "b": (0.0, 1.0)}, ["y", "z"], blackbox=both, minimize="y + z")
    study = Study(problem, seed=SEED)
    study.run(8)
    assert study.problem.noise == (0.0, None)
    assert len(study.snapshot.data.U) == 8


def test_while_the_repetition_is_open_others_are_sought() -> None:
    study = Study(stated(), seed=SEED)
    study.run(study.initial)
    aims = [study.ask().why.aim for _ in range(3)]
    assert aims[0] == "compare"
    assert "compare" not in aims[1:]


def test_a_repetition_that_fails_is_not_asked_for_again() -> None:
    study = Study(stated(), seed=SEED)
    study.run(study.initial)
    trial = study.ask()
    study.fail(trial, "the licence server did not answer")
    assert study.trials[-1].state is State.FAILED
    assert study.ask().why.aim != "compare"


def test_the_question_stays_what_was_stated() -> None:
    study = Study(stated(), seed=SEED)
    before = study.problem.statement()
    study.run(8)
    assert study.problem.statement() == before
    study.revise(minimize="y + 0.2*a")
    assert study.problem.noise == (0.0,)
    assert study.questions[-1].statement["noise"] == {"y": None}
    assert study.problem.revised(noise=0.1).noise == (0.1,)
    assert study.problem.revised(maximize="y").noise == (0.0,)


def test_old_rows_are_not_what_is_repeated() -> None:
    study = Study(stated(), seed=SEED)
    for a in np.linspace(-0.9, 1.9, 6).tolist():
        study.add({"a": a, "b": 0.5}, {"y": round(smooth({"a": a, "b": 0.5}), 6)})
    study.run(3)
    again = study.trials[compared(study)[0] - 1]
    assert not study.trials[again.why.repeats - 1].is_added
    assert study.problem.noise == (0.0,)


@pytest.mark.slow
def test_a_restarted_study_knows_it_again(tmp_path: Any) -> None:
    store = f"sqlite:///{tmp_path / 'lab.db'}"
    with Study(stated(), name="one", store=store, seed=SEED) as study:
        study.run(8)
    with Study(stated(), name="one", store=store) as again:
        assert again.status is not None
        assert again.problem.noise == (0.0,)
        again.run(10)
        assert len(compared(again)) == 1


@pytest.mark.slow
def test_a_solver_with_a_tolerance_is_not_exact_although_it_repeats_itself() -> None:
    def tolerant(x: Any) -> float:
        return (x["a"] - 0.4) ** 2 + 0.5 * (x["b"] - 0.3) ** 2 + 1e-4 * math.sin(1e5 * x["a"] + 3e5 * x["b"])

    study = Study(stated(tolerant), seed=SEED)
    study.run(34)
    assert study.problem.noise == (None,)
    looks = [trial.why.memory["scatter"] for trial in study.trials if "scatter" in trial.why.memory]
    assert looks[0]["outputs"] == []
    assert looks[-1]["outputs"] == ["y"]
    assert exact_outputs(study.problem, study.trials) == ()  # what was seen is in the record
    assert len(compared(study)) == 1


@pytest.mark.slow
def test_reports_and_pictures_of_predictions_leave_the_repetition_out(tmp_path: Any) -> None:
    study = Study(stated(), seed=SEED)
    study.run(9)
    study.report(tmp_path / "report.html")
    assert "exact (gave the same values again)" in (tmp_path / "report.html").read_text()
    shown = predictions(study)
    assert len(shown.numbers) == len(shown.middle) == 8


@pytest.mark.parametrize("solver", ["bobyqa", "snobfit", "direct"])
def test_routines_with_a_loop_of_their_own_go_on(solver: str) -> None:
    if solver == "bobyqa":
        pytest.importorskip("pybobyqa")
    study = Study(stated(), seed=SEED, solver=solver)
    study.run(14)
    assert study.used == 14


@pytest.mark.parametrize("huge", [1e10, 1e4])
def test_values_that_are_large_elsewhere_hide_no_noise(huge: float) -> None:
    random = np.random.default_rng(SEED)

    def punished(x: Any) -> float:
        return huge if x["a"] > 1.0 else smooth(x) + 0.05 * random.normal()

    study = Study(stated(punished), seed=SEED)
    study.run(9)
    assert compared(study)
    assert study.problem.noise == (None,)


def test_only_outputs_that_are_open_decide_what_is_repeated() -> None:
    def both(x: Any) -> dict[str, float]:
        return {"y": round(smooth(x), 2), "z": x["b"] / 3.0}

    words = {"blackbox": both, "minimize": "y + z", "noise": {"z": 0.1}}
    study = Study(Problem({"a": (-1.0, 2.0), "b": (0.0, 1.0)}, ["y", "z"], **words), seed=SEED)
    study.run(8)
    assert compared(study) == []


def test_old_rows_of_the_same_settings_do_not_stand_in_the_way() -> None:
    def both(x: Any) -> dict[str, float]:
        return {"y": smooth(x), "z": x["b"] / 3.0}

    problem = Problem({"a": (-1.0, 2.0), "b": (0.0, 1.0)}, ["y", "z"], blackbox=both, minimize="y + z")
    study = Study(problem, seed=SEED)
    point = {"a": 0.2, "b": 0.7}
    study.add(point, {"y": both(point)["y"]})
    study.add(point, {"z": both(point)["z"]})
    study.run(8)
    assert len(compared(study)) == 1
    assert study.problem.noise == (0.0, 0.0)
