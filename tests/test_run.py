"""Running a study: budgets, failures, repetition, interruption, and what comes out."""

import json
import math
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pied import Named, Problem, SettingError, Status, Study, Trial, Variable, maximize, minimize, solve
from pied.records.trial import Dataset, State
from pied.rng import Stream
from pied.suite.twins import rescaled
from tiny import distance, fast, hill, parabola, points, unchecked, waves, without


def test_the_budget_counts_asked_trials_of_every_state_and_no_added_ones() -> None:
    study = Study(parabola(), seed=0)
    study.add([0.3], study.problem.evaluate([0.3]).tolist())
    study.ask()
    result = study.run(4)
    assert study.used == result.evaluations == 5
    assert len(result.trials) == 6


@pytest.mark.slow
def test_a_run_finds_the_optimum_and_says_how_it_ended() -> None:
    result = Study(parabola(), seed=0).run(10)
    assert result.status is Status.FINISHED
    assert result.message == "The budget is spent."
    assert result.x.x == pytest.approx(1.25, abs=1e-3)
    assert result.value == pytest.approx(0.8725, abs=1e-5)


def test_every_trial_is_shown_to_the_observer_in_order() -> None:
    seen = []
    study = Study(parabola(), seed=0)
    study.run(5, on_tell=lambda of, trial: seen.append((of is study, trial.number, trial.state)))
    assert seen == [(True, number, State.TOLD) for number in (1, 2, 3, 4, 5)]


FAILURES: list[tuple[Any, str]] = [
    (ValueError("no convergence"), "raised ValueError: no convergence"),
    (None, "None"),
    ([math.nan] * 3, "NaN"),
    ([math.inf] * 3, "inf"),
    ("text", "text"),
    ([1.0, 2.0], "2"),
    ({"v": 1.0, "w": 1.0}, "'p'"),
    ({"p": "one", "q": 1.0, "r": 1.0}, "one"),
]


@pytest.mark.slow
def test_a_black_box_that_fails_makes_failed_trials_with_their_reasons_and_the_run_goes_on() -> None:
    """Every second evaluation fails, each time in another way."""
    calls = []

    def blackbox(x: Named) -> Any:
        calls.append(x)
        if len(calls) % 2:
            return [math.sin(3 * x.s), math.cos(2 * x.t), x.s * x.t]
        answer = FAILURES[len(calls) // 2 - 1][0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    result = solve(waves(blackbox=blackbox), 16, seed=0, solver=fast())
    assert [trial.state for trial in result.trials] == [State.TOLD, State.FAILED] * 8
    for trial, (_, says) in zip(result.trials[1::2], FAILURES, strict=True):
        assert says in trial.reason
    assert result.status is Status.FINISHED
    assert result.is_feasible
    assert distance(result.trials, waves()) > 1e-7


def broken(good: int = 0) -> Callable[[Named], float]:
    """A black box that fails, except for the first `good` calls."""
    calls = []

    def blackbox(x: Named) -> float:
        calls.append(x)
        if len(calls) > good:
            raise RuntimeError("license expired")
        return 1.0 - (x.x - 1.3) ** 2

    return blackbox


def test_an_initial_design_that_fails_as_a_whole_stops_the_run() -> None:
    study = Study(parabola(blackbox=broken()), seed=0)
    result = study.run(10)
    assert result.status is Status.BROKEN
    assert study.used == study.initial
    assert "every evaluation failed, from the very start" in result.message
    assert "license expired" in result.message
    assert result.x is None
    assert study.run(5).status is Status.BROKEN
    assert study.used == study.initial + 1


def test_failures_after_a_success_do_not_stop_the_run() -> None:
    result = solve(parabola(blackbox=broken(good=1)), 6, seed=0)
    assert result.status is Status.FINISHED
    assert [trial.state for trial in result.trials] == [State.TOLD] + [State.FAILED] * 5
    assert result.trial == 1


def test_old_data_keeps_a_failing_start_going() -> None:
    study = Study(parabola(blackbox=broken()), seed=0)
    study.add([0.5], 0.36)
    assert study.run(4).status is Status.FINISHED
    assert study.used == 4


@pytest.mark.slow
def test_the_same_seed_gives_the_same_run_to_the_last_bit() -> None:
    one, two = (solve(hill(), 8, seed=4, solver=fast()) for _ in range(2))
    assert points(one.trials) == points(two.trials)
    assert one.value == two.value
    assert one.bounds == two.bounds
    assert one.gap == two.gap


def test_another_seed_gives_another_run() -> None:
    one, two = (solve(parabola(), 3, seed=seed) for seed in (1, 2))
    assert points(one.trials) != points(two.trials)


def test_a_study_without_a_seed_draws_one_that_repeats_it() -> None:
    study = Study(parabola())
    again = Study(parabola(), seed=study.seed)
    assert points([study.ask()]) == points([again.ask()])
    assert study.result().seed == study.seed


@pytest.mark.slow
@pytest.mark.parametrize(("make", "first", "then"), [(hill, 7, 3), (waves, 7, 2), (parabola, 1, 5)])
def test_two_runs_equal_one_long_run(make: Callable[[], Problem], first: int, then: int) -> None:
    study = Study(make(), seed=2, solver=fast())
    study.run(first)
    result = study.run(then)
    whole = solve(make(), first + then, seed=2, solver=fast())
    assert points(result.trials) == points(whole.trials)
    assert result.value == whole.value


@pytest.mark.slow
@pytest.mark.parametrize("make", [hill, waves])
def test_a_fresh_solver_given_the_record_suggests_what_the_old_one_does(make: Callable[[], Problem]) -> None:
    """Reopening: the record alone, its memory through JSON, decides the next suggestion."""
    study = Study(make(), seed=3, solver=fast())
    study.run(8)
    stored = [
        replace(trial, why=replace(trial.why, memory=json.loads(json.dumps(dict(trial.why.memory)))))
        for trial in study.trials
    ]
    run = fast().start(make(), Stream(3))
    proposal = run.ask(9, Dataset.of(make(), stored))
    asked = study.ask()
    assert tuple(make().named_x(make().from_unit(proposal.u)).values()) == points([asked])[0]
    assert proposal.why.upper == asked.why.upper


def interrupted_at(*numbers: int) -> Callable[[Named], float]:
    """`hill`'s black box, with Ctrl-C pressed during these calls."""
    calls = []

    def blackbox(x: Named) -> float:
        calls.append(x)
        if len(calls) in numbers:
            raise KeyboardInterrupt
        return (x.a - 3.0) ** 2 + (x.b - 2.0) ** 2

    return blackbox


@pytest.mark.slow
@pytest.mark.parametrize("at", [1, 3, 7])
def test_ctrl_c_keeps_everything_told_and_the_next_run_goes_on_as_if_nothing_had_happened(at: int) -> None:
    study = Study(hill(blackbox=interrupted_at(at)), seed=0, solver=fast())
    first = study.run(8)
    assert first.status is Status.INTERRUPTED
    assert first.message.startswith("The run was interrupted; everything told so far is kept.")
    assert [trial.state for trial in first.trials] == [State.TOLD] * (at - 1) + [State.ASKED]
    second = study.run(8 - at)
    assert second.status is Status.FINISHED
    whole = solve(hill(), 8, seed=0, solver=fast())
    assert points(second.trials) == points(whole.trials)
    assert second.value == whole.value


def test_an_interrupted_trial_that_someone_tells_is_not_evaluated_again() -> None:
    study = Study(hill(blackbox=interrupted_at(2)), seed=0)
    study.run(4)
    study.tell(2, 123.0)
    result = study.run(2)
    assert result.trials[1].y.y == 123.0
    assert [trial.state for trial in result.trials] == [State.TOLD] * 4


def test_ctrl_c_between_evaluations_loses_nothing() -> None:
    def press(study: Study, trial: Trial) -> None:
        if trial.number == 2:
            raise KeyboardInterrupt

    study = Study(hill(), seed=0, solver=fast())
    result = study.run(4, on_tell=press)
    assert result.status is Status.INTERRUPTED
    assert [trial.state for trial in result.trials] == [State.TOLD] * 2
    assert study.run(2).evaluations == 4


def test_ctrl_c_twice_is_no_trouble() -> None:
    study = Study(hill(blackbox=interrupted_at(2, 3)), seed=0)
    assert study.run(4).status is Status.INTERRUPTED
    assert study.run(2).status is Status.INTERRUPTED
    assert study.run(2).status is Status.FINISHED
    assert study.used == 4


def test_a_budget_of_zero_evaluates_nothing_and_says_so() -> None:
    calls = []
    result = solve(parabola(blackbox=lambda x: calls.append(x) or 1.0), 0, seed=0)
    assert not calls
    assert result.message == "Nothing has been evaluated yet."
    assert result.x is None
    assert math.isnan(result.value)


def test_a_budget_below_the_initial_design_gets_a_sentence() -> None:
    result = solve(hill(), 3, seed=0, solver=fast())
    assert result.status is Status.FINISHED
    assert "within the first 5 points" in result.message
    assert "give a budget above 5" in result.message
    assert result.x is not None


def test_a_negative_budget_is_refused() -> None:
    with pytest.raises(SettingError, match="the budget counts evaluations, 0 or more, got -1"):
        Study(parabola(), seed=0).run(-1)


def test_running_without_a_black_box_is_refused() -> None:
    with pytest.raises(SettingError, match="no black box to run: use ask and tell, or state it with blackbox="):
        Study(parabola(blackbox=None), seed=0).run(3)


# ------------------------------------------------------------------------------------------------------------- result


def test_a_study_between_asks_is_under_way() -> None:
    study = Study(parabola(), seed=0)
    study.tell(study.ask(), 0.5)
    assert study.result().status is Status.RUNNING
    assert study.result().message.startswith("The study is under way.")
    assert study.run(2).status is Status.FINISHED
    assert study.result().status is Status.FINISHED
    study.ask()
    assert study.result().status is Status.RUNNING


@pytest.mark.slow
@unchecked()
def test_minimization_comes_back_in_the_users_sense() -> None:
    result = solve(hill(), 14, seed=0)
    assert result.value == pytest.approx(2.0, abs=1e-3)
    assert result.y.y == result.value
    low, high = result.bounds["y"]
    assert low <= result.value <= high
    assert result.slack["far enough"] == pytest.approx(1.0, abs=1e-3)
    assert result.slack["line"] >= -1e-8
    assert result.gap is not None
    assert result.gap >= 0
    assert result.relative_gap is not None
    assert 0 <= result.relative_gap <= result.gap / 2.0 + 1e-12
    assert result.evaluations == 14


def test_minimizing_a_function_is_maximizing_its_negative() -> None:
    small = minimize("y", budget=6, seed=0, solver=fast(), **words_of_hill())
    large = maximize("-y", budget=6, seed=0, solver=fast(), **words_of_hill())
    assert points(small.trials) == points(large.trials)
    assert small.value == -large.value
    assert small.bounds["y"] == tuple(-each for each in reversed(large.bounds["-y"]))
    assert small.gap == large.gap


def words_of_hill() -> dict[str, Any]:
    problem = hill()
    return {
        "variables": problem.variables,
        "outputs": problem.outputs,
        "blackbox": problem.blackbox,
        "subject_to": {"far enough": "y >= 1", "line": "a + b <= 3"},
        "noise": 0,
    }


def test_an_expectation_of_a_minimum_is_printed_in_order() -> None:
    study = Study(hill(), seed=0, solver=fast())
    study.run(5)
    low, high = re.findall(r"probably ([-\d.e]+) to ([-\d.e]+)", str(study.ask()))[0]
    assert float(low) < float(high)


@pytest.mark.slow
@unchecked()
def test_other_units_lead_to_the_same_points() -> None:
    """Variables, output, objective and constraints in other units.

    What is promised is compared to 1e-5 of it. Points are compared to 1e-3 of the box: near an optimum, where nothing
    is promised by moving, the last bits decide.
    """
    other = Problem(
        {"a": (0.0, 4e-3), "b": (0.0, 4e5)},
        ["y"],
        blackbox=lambda x: 1e5 * ((1e3 * x.a - 3.0) ** 2 + (1e-5 * x.b - 2.0) ** 2),
        minimize="7*y",
        subject_to={"far enough": "3e-5*y >= 3", "line": "20*(1e3*a + 1e-5*b) <= 60"},
        noise=0,
    )
    one, two = solve(hill(), 8, seed=0), solve(other, 8, seed=0)
    for (a, b), (c, d) in zip(points(one.trials), points(two.trials), strict=True):
        assert 1e3 * c == pytest.approx(a, abs=4e-3)
        assert 1e-5 * d == pytest.approx(b, abs=4e-3)
    for mine, theirs in zip(one.trials, two.trials, strict=True):
        for factor, upper, other_upper in zip((7e5, 3.0, 20.0), mine.why.upper, theirs.why.upper, strict=False):
            assert other_upper == pytest.approx(factor * upper, rel=1e-5, abs=1e-5 * factor)


@pytest.mark.slow
def test_a_small_gap_stops_the_run() -> None:
    result = Study(parabola(), seed=0, stop_at_gap=1e-3).run(30)
    assert result.status is Status.GAP_REACHED
    assert result.gap is not None
    assert result.gap <= 1e-3
    assert result.evaluations < 30
    assert result.x.x == pytest.approx(1.25, abs=0.05)


def test_the_gap_bounds_what_is_still_missing() -> None:
    """While the belief is right, no point is better than the recommended one by more than the gap."""
    result = solve(parabola(), 7, seed=0)
    assert result.gap is not None
    assert result.value + result.gap >= 0.8725 - 1e-9


def test_solvers_without_a_belief_have_no_gap() -> None:
    result = solve(parabola(), 5, seed=0, solver="random")
    assert result.gap is None
    assert result.relative_gap is None
    assert result.trial is not None


@pytest.mark.slow
def test_every_rule_can_be_asked_for() -> None:
    study = Study(hill(), seed=0, solver=fast())
    study.run(8)
    for rule in ("observed", "lower", "asked", "anywhere"):
        result = study.result(rule)
        assert result.x is not None
        assert result.value < 4.0
    with pytest.raises(SettingError, match="unknown rule 'best'"):
        study.result("best")


@pytest.mark.slow
@unchecked()
def test_a_noisy_black_box_ends_with_a_point_anywhere() -> None:
    noise = np.random.default_rng(0)

    def blackbox(x: Named) -> float:
        return (x.a - 3.0) ** 2 + (x.b - 2.0) ** 2 + 0.02 * noise.standard_normal()

    result = solve(hill(blackbox=blackbox, noise=None), 14, seed=0)
    assert result.rule == "anywhere"
    assert result.trial is None
    assert result.y is None
    assert result.value == pytest.approx(2.0, abs=0.1)
    assert result.is_feasible
    assert result.slack["line"] >= -1e-8
    low, high = result.bounds["y"]
    assert low < result.value < high
    assert "(probably " in str(result)


@pytest.mark.slow
@unchecked()
def test_a_problem_without_an_objective_looks_for_any_feasible_point() -> None:
    problem = hill(minimize=None, subject_to={"ring": "1 <= y <= 1.5"})
    result = solve(problem, 14, seed=0)
    assert result.objective == "any feasible point"
    assert result.value == 0.0
    assert result.is_feasible
    assert 1.0 - 1e-5 <= result.y.y <= 1.5 + 1e-5


@pytest.mark.slow
def test_variables_on_a_log_scale_are_searched_there() -> None:
    problem = Problem(
        {"k": Variable(1e-4, 1e4, log=True)},
        ["y"],
        blackbox=lambda x: -((math.log10(x.k) + 2.0) ** 2),
        maximize="y",
        noise=0,
    )
    result = solve(problem, 12, seed=0)
    assert math.log10(result.x.k) == pytest.approx(-2.0, abs=1e-2)


@pytest.mark.slow
def test_variables_that_never_enter_the_black_box_are_solved_exactly() -> None:
    """The best w is 0.3 a for every a, whatever is believed about y."""
    problem = Problem(
        {"a": (0.0, 4.0), "w": (-2.0, 2.0)},
        ["y"],
        blackbox=lambda x: math.sin(x.a),
        maximize="y - (w - 0.3*a)**2",
        inputs=["a"],
        noise=0,
    )
    result = solve(problem, 10, seed=0)
    own = [trial for trial in result.trials if trial.why.aim in ("explore", "verify", "widen")]
    assert len(own) >= 3
    for trial in own:
        assert trial.x.w == pytest.approx(0.3 * trial.x.a, abs=1e-4)
    assert result.x.a == pytest.approx(math.pi / 2, abs=0.01)


@pytest.mark.slow
@pytest.mark.parametrize("objective", ["y - 0.1*x", "-(y - 0.5)**2 - 0.1*x"], ids=["closed", "sampled"])
def test_an_exact_black_box_is_looked_at_with_wider_bounds_when_nothing_is_promised(objective: str) -> None:
    trials = solve(parabola(maximize=objective), 20, solver=fast(), seed=0).trials
    wide = [trial.number for trial in trials if trial.why.aim == "widen"]
    assert wide
    usual = solve(parabola(maximize=objective), max(wide[0], 3), solver=fast(**without("widen")), seed=0).trials
    assert not any(trial.why.aim == "widen" for trial in usual)


@pytest.mark.slow
def test_units_that_differ_by_powers_of_two_change_no_bit() -> None:
    """Spring: its outputs are modelled on logarithmic scales."""
    asked = []
    for words in ({}, {"x": 2.0**-3, "y": 2.0**20, "g": {"objective": 2.0**7, "deflection": 2.0**-11}}):
        problem = rescaled("spring", **words).problem
        result = solve(problem, 10, seed=0)
        assert any(choice["warp"] == "log" for choice in result.trials[-1].why.memory["choices"])
        asked.append([problem.to_unit(problem.point(dict(trial.x))).tolist() for trial in result.trials])
    assert asked[0] == asked[1]


def test_functions_without_a_value_at_told_points_do_not_stop_a_study() -> None:
    problem = parabola(maximize="log(y)", ranges={"y": (0.0, None)}, blackbox=lambda x: x.x - 2.5)
    result = solve(problem, 6, seed=0)
    assert result.evaluations == 6
    str(result)
