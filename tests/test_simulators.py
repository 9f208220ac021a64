"""Black boxes as people have them: arguments by name, answers with gaps, text and more than was asked for."""

import functools
import logging
import math
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pied import (
    Choice,
    EvaluationError,
    Integer,
    Problem,
    SettingError,
    State,
    StatementError,
    Status,
    Study,
    TellError,
    UnknownName,
)
from pied.evaluation import Command

BOX = {"F_B": (3.0, 6.0), "T_r": (70.0, 100.0)}


def plant(F_B: float, T_r: float) -> float:
    """A plant with its variables as arguments; at the top of the module, so that other processes can load it."""
    return F_B + 10.0 * T_r


class Model:
    """A simulator with a method."""

    def solve(self, T_r: float, *, F_B: float) -> float:
        return plant(F_B, T_r)

    def __call__(self, F_B: float, T_r: float) -> float:
        return plant(F_B, T_r)


def stated(blackbox: Any, variables: Any = None, outputs: Any = ("y",), **words: Any) -> Problem:
    return Problem(
        variables or BOX, list(outputs), blackbox=blackbox, **({"maximize": f"{outputs[0]}", "noise": 0} | words)
    )


# ----------------------------------------------------------------------------------------------------------- arguments


@pytest.mark.parametrize(
    "blackbox",
    [
        plant,
        lambda T_r, F_B: plant(F_B, T_r),
        lambda T_r, *, F_B, scale=1.0: scale * plant(F_B, T_r),
        lambda F_B=0.0, T_r=0.0: plant(F_B, T_r),
        lambda F_B, T_r, /: plant(F_B, T_r),
        lambda **settings: plant(**settings),
        lambda F_B, **rest: plant(F_B, rest["T_r"]),
        lambda F_B, T_r, *extra, tolerance=1e-6: plant(F_B, T_r),
        Model().solve,
        Model(),
        functools.partial(lambda scale, F_B, T_r: scale * plant(F_B, T_r), 1.0),
        lambda x: x.F_B + 10.0 * x["T_r"],
        lambda x: x[0] + 10.0 * x[1],
        lambda x: np.array(x) @ [1.0, 10.0],
        lambda x: (x.array * [1.0, 10.0]).sum(),
        lambda x: plant(*x.values()),
        lambda x, scale=1.0: scale * plant(**x),
        lambda *x: plant(**x[0]),
    ],
)
def test_a_black_box_is_called_with_what_its_signature_asks_for(blackbox: Callable[..., float]) -> None:
    assert stated(blackbox).evaluate({"T_r": 80.0, "F_B": 4.0}).tolist() == [804.0]


def test_a_black_box_may_ignore_a_variable_that_only_formulas_use() -> None:
    problem = stated(lambda F_B, T_r: plant(F_B, T_r), {**BOX, "price": (1.0, 2.0)}, maximize="y - price")
    assert problem.evaluate([4.0, 80.0, 1.5]).tolist() == [804.0]


@pytest.mark.parametrize(
    "blackbox",
    [
        lambda u: 2.0 * u,
        lambda u: 2.0 * u.u,
        lambda u: 2.0 * u["u"],
        lambda u: 2.0 * dict(**u)["u"],
        lambda x: 2.0 * x.u,
    ],
)
def test_the_only_variable_by_its_name_is_the_number_and_still_a_point(blackbox: Callable[..., float]) -> None:
    assert stated(blackbox, {"u": (0.0, 1.0)}).evaluate([0.25]).tolist() == [0.5]


def test_arguments_are_whole_numbers_and_labels() -> None:
    seen: dict[str, Any] = {}

    def mixed(count: int, solvent: str) -> float:
        seen.update(count=count, solvent=solvent)
        return float(count)

    stated(mixed, {"count": Integer(1, 4), "solvent": Choice("water", "ethanol")}).evaluate([3, "ethanol"])
    assert seen == {"count": 3, "solvent": "ethanol"}
    assert isinstance(seen["count"], int)
    label = stated(lambda solvent: float(len(solvent)), {"solvent": Choice("water", "ethanol")})
    assert label.evaluate(["ethanol"]).tolist() == [7.0]


@pytest.mark.parametrize(
    ("blackbox", "said"),
    [
        (lambda a, b: a, r"\(a, b\) is neither"),
        (lambda F_b, T_R: F_b, "Is 'F_b' the variable 'F_B'"),
        (lambda F_B, T_r, pressure: F_B, "needs 'pressure', which is not a variable.*need a default"),
        (lambda: 1.0, "is neither"),
    ],
)
def test_arguments_that_are_not_variables_are_refused_with_a_remedy(blackbox: Any, said: str) -> None:
    with pytest.raises(StatementError, match=said):
        stated(blackbox)


def test_a_variable_that_would_silently_not_reach_the_black_box_is_refused() -> None:
    with pytest.raises(StatementError, match="takes 'T_r0', and there is a variable 'T_r'"):
        stated(lambda F_B, Q=1.0, *, T_r0=300.0: F_B, {**BOX, "Q": (0.0, 1.0)})


def test_a_function_of_variables_runs_in_other_processes_and_is_known_by_its_own_source() -> None:
    problem = stated(plant)
    assert problem.statement()["blackbox"]["name"] == "plant"
    assert "10.0 * T_r" in problem.statement()["blackbox"]["source"]
    with Study(problem, solver="random", seed=0) as study:
        study.run(2, executor="processes")
        assert [trial.y["y"] for trial in study.trials] == [plant(*trial.x.values()) for trial in study.trials]


# ------------------------------------------------------------------------------------------------------------- answers


def run(answer: Callable[[float], Any], budget: int = 3, solver: str = "random") -> Study:
    """A study after a run whose black box, of two outputs a and b, answers so."""
    study = Study(stated(lambda u: answer(float(u)), {"u": (0.0, 1.0)}, ("a", "b")), solver=solver, seed=0)
    study.run(budget)
    return study


def test_more_than_was_asked_for_is_ignored_with_one_remark(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        study = run(
            lambda u: {"a": u, "b": 1.0, "iterations": 7, "message": "converged", **{f"p{i}": i for i in range(30)}}
        )
    assert [trial.state for trial in study.trials] == [State.TOLD] * 3
    remarks = [each.getMessage() for each in caplog.records if "also returns" in each.getMessage()]
    assert len(remarks) == 1
    assert "'iterations'" in remarks[0]


@pytest.mark.parametrize("answer", [{"a": "0.5", "b": True}, ["5e-1", np.bool_(True)], (np.array(["0.5"]), "1")])
def test_numbers_as_text_and_booleans_are_numbers(answer: Any) -> None:
    assert [tuple(trial.y.values()) for trial in run(lambda u: answer).trials] == [(0.5, 1.0)] * 3
    assert stated(lambda u: "0.5", {"u": (0.0, 1.0)}).evaluate([0.1]).tolist() == [0.5]


@pytest.mark.parametrize(
    ("gap", "said"), [(math.nan, "NaN"), (None, "None"), (math.inf, "infinite"), ("-inf", "infinite"), ("nan", "NaN")]
)
@pytest.mark.parametrize("by_name", [True, False])
def test_one_output_without_a_value_leaves_the_others_as_data(
    gap: Any, said: str, by_name: bool, caplog: pytest.LogCaptureFixture
) -> None:
    def answer(u: float) -> Any:
        b = gap if u < 0.5 else 2.0
        return {"a": u, "b": b} if by_name else [u, b]

    study = run(answer, 6)
    for trial in study.trials:
        assert trial.state is (State.PARTIAL if trial.x["u"] < 0.5 else State.TOLD)
        assert trial.y["a"] == trial.x["u"]
    assert {trial.state for trial in study.trials} == {State.PARTIAL, State.TOLD}
    assert any(said in each.getMessage() for each in caplog.records)


def test_a_missing_output_leaves_the_others_as_data_but_a_misspelled_one_is_a_mistake() -> None:
    study = run(lambda u: {"a": u, "iterations": 3} if u < 0.5 else {"a": u, "b": 1.0}, 6)
    assert {trial.state for trial in study.trials} == {State.PARTIAL, State.TOLD}
    yields = stated(lambda u: {"profit": u, "Yield": 1.0}, {"u": (0.0, 1.0)}, ("profit", "yield"))
    with Study(yields, solver="random", seed=0) as study:
        result = study.run(5)
    assert result.status is Status.BROKEN
    assert "Did you mean 'yield'" in study.trials[0].reason


def test_no_output_at_all_is_a_failure_that_says_why() -> None:
    study = run(lambda u: [math.nan, math.inf], 2)
    assert [trial.state for trial in study.trials] == [State.FAILED] * 2
    assert "NaN" in study.trials[0].reason
    assert "infinite" in study.trials[0].reason


def test_an_output_that_never_comes_ends_the_run_after_the_initial_design() -> None:
    study = run(lambda u: {"a": u, "b": None}, 20)
    assert study.used == study.initial
    assert study.status is Status.BROKEN
    assert "never gave 'b'" in str(study.result())


def test_evaluating_by_hand_needs_all_outputs() -> None:
    problem = stated(lambda u: {"a": u, "b": None}, {"u": (0.0, 1.0)}, ("a", "b"))
    with pytest.raises(EvaluationError, match="'b' is None"):
        problem.evaluate([0.5])


def test_points_with_gaps_are_modelled_and_searched_around() -> None:
    def answer(u: float) -> Any:
        return {"a": 1.0 - (u - 0.4) ** 2, "b": math.nan if u > 0.8 else u}

    study = run(answer, 8, "cuqb")
    assert study.used == 8
    assert study.result().value == pytest.approx(1.0, abs=1e-3)


def test_what_people_tell_is_read_strictly() -> None:
    study = Study(stated(None, outputs=("a", "b")), solver="random", seed=0)
    for told in ({"a": "1", "b": 2.0}, {"a": True}, {"a": 1.0, "c": 2.0}):
        with pytest.raises(TellError, match=r"should be a number|is not an output"):
            study.tell(study.ask(), told)


# ------------------------------------------------------------------------------------------------------------- failing


@pytest.mark.parametrize("workers", [None, 2])
def test_a_failed_evaluation_is_tried_again(workers: int | None) -> None:
    calls: Counter[float] = Counter()

    def flaky(u: float) -> float:
        calls[float(u)] += 1
        if calls[float(u)] == 1:
            raise RuntimeError("the licence server is away")
        return float(u)

    with Study(stated(flaky, {"u": (0.0, 1.0)}), solver="random", seed=0) as study:
        result = study.run(4, retries=1, workers=workers)
    assert [trial.state for trial in result.trials] == [State.TOLD] * 4
    assert set(calls.values()) == {2}
    assert result.failures == {}


def test_a_mistake_in_the_code_is_not_tried_again() -> None:
    calls = []

    def wrong(u: float) -> float:
        calls.append(u)
        return u + "1"  # type: ignore[operator]

    with Study(stated(wrong, {"u": (0.0, 1.0)}), solver="random", seed=0) as study:
        study.run(1, retries=3)
    assert len(calls) == 1


@pytest.mark.parametrize("executor", [None, "serial", "threads"])
def test_a_late_evaluation_fails_in_serial_and_parallel_runs(executor: str | None) -> None:
    ended = threading.Event()

    def late(u: float) -> float:
        ended.wait(60.0)
        return float(u)

    with Study(stated(late, {"u": (0.0, 1.0)}), solver="random", seed=0) as study:
        result = study.run(1, timeout=0.05, retries=1, executor=executor)
    ended.set()
    assert list(result.failures) == ["The evaluation took longer than 0.05 s. (2 attempts)"]


def test_a_timeout_alone_does_not_make_a_run_parallel() -> None:
    at_once, most = [0], [0]

    def counted(u: float) -> float:
        at_once[0] += 1
        most[0] = max(most[0], at_once[0])
        time.sleep(0.02)
        at_once[0] -= 1
        return float(u)

    with Study(stated(counted, {"u": (0.0, 1.0)}), solver="random", seed=0) as study:
        study.run(4, timeout=60.0)
    assert most == [1]


def test_retries_count_from_zero() -> None:
    with pytest.raises(SettingError, match="retries counts further attempts"):
        Study(stated(plant), seed=0).run(1, retries=-1)


def test_a_result_counts_failures_by_reason() -> None:
    def answer(u: float) -> Any:
        if u < 0.5:
            raise ArithmeticError(f"no convergence at u = {u}")
        return [u, 1.0]

    result = run(answer, 8).result()
    failed = [trial for trial in result.trials if trial.state is State.FAILED]
    assert result.failures == {failed[0].reason: len(failed)}  # the numbers in the reasons differ
    assert result.to_dict()["failures"] == result.failures
    assert f"{len(failed)} failed: The black box raised ArithmeticError: no convergence" in str(result)


def script(folder: Path, text: str) -> Command:
    file = folder / "simulator.py"
    file.write_text(f"import sys, time\nprint('mesh is degenerate', file=sys.stderr, flush=True)\n{text}\n")
    return Command((sys.executable, str(file)), ("u",))


@pytest.mark.parametrize(
    ("text", "words"),
    [("sys.exit(1)", {}), ("print('done')", {}), ("", {}), ("time.sleep(600)", {"timeout": 5.0})],
)
def test_the_last_words_of_a_program_are_kept_with_the_trial(tmp_path: Path, text: str, words: dict[str, Any]) -> None:
    with Study(stated(script(tmp_path, text), {"u": (0.0, 1.0)}), solver="random", seed=0) as study:
        result = study.run(1, **words)
    assert "mesh is degenerate" in result.trials[0].reason


# ------------------------------------------------------------------------------------------------- names and constants


def test_an_objective_may_bring_its_name() -> None:
    problem = stated(plant, maximize={"profit": "p*y - F_B"}, constants={"p": 2.0})
    same = stated(plant, maximize="p*y - F_B", name="profit", constants={"p": 2.0})
    assert problem.objective == "profit"
    assert problem.statement() == same.statement()
    assert stated(plant, maximize=None, minimize={"cost": lambda x, y: y.y}).objective == "cost"
    assert problem.revised(minimize={"cost": "y"}).objective == "cost"
    assert problem.revised(maximize="y").objective == "profit"
    with pytest.raises(StatementError, match="There is one objective"):
        stated(plant, maximize={})
    with pytest.raises(StatementError, match="called 'profit' and 'gain'"):
        stated(plant, maximize={"profit": "y"}, name="gain")


def test_revising_a_constant_keeps_the_others() -> None:
    problem = stated(plant, maximize="p*y - q*F_B", constants={"p": 2.0, "q": 1.0})
    with Study(problem, solver="random", seed=0) as study:
        study.run(3)
        study.revise(constants={"p": 0.3})
        assert study.problem.constants == {"p": 0.3, "q": 1.0}
        with pytest.raises(UnknownName, match=r"no constant 'pp'\. Did you mean 'p'"):
            study.revise(constants={"pp": 0.3})
        study.revise(maximize="p*y - r*T_r", constants={"r": 4.0})
        assert study.problem.constants == {"p": 0.3, "q": 1.0, "r": 4.0}


@pytest.mark.slow
def test_formulas_with_cases_are_optimized() -> None:
    problem = Problem(
        {"u": (0.0, 4.0)}, ["y"], blackbox=lambda u: u, noise=0,
        maximize="where(y > 3, 6 - y, y) - 0.1*floor(u)", subject_to={"limit": "where(u <= 2, u, 4 - u) >= 0.5"},
    )  # fmt: skip
    with Study(problem, seed=0) as study:
        assert study.run(8).value > 2.6  # 3 - 0.3 at u = 3, just below it almost 2.8
    assert problem.limits()["limit"].quantity == "where(u <= 2, u, 4 - u)"
