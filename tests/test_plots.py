"""The data of the pictures, computed by pure functions, and that every picture can be drawn."""

import math
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.figure
import numpy as np
import pytest

import pied
from pied import CUQB, MissingExtra, Problem, SettingError, Study, plots, suite
from pied.bounds import Believer
from pied.records.trial import State
from pied.study import Top, gap

mpl.use("Agg")


def parabola(**words: Any) -> Problem:
    """One output h = a + b; feasible where h <= 1."""
    given: dict[str, Any] = {
        "variables": {"a": (0.0, 1.0), "b": pied.Variable(0.0, 1.0, unit="kg")},
        "outputs": ["h"],
        "blackbox": lambda x: x.a + x.b,
        "maximize": "h",
        "subject_to": {"limit": "h <= 1"},
        "noise": 0,
    }
    return Problem(**(given | words))


def told(problem: Problem, *points: tuple[float, float]) -> Study:
    study = Study(problem, seed=0)
    for a, b in points:
        study.add({"a": a, "b": b}, {"h": a + b})
    return study


@pytest.fixture(scope="module")
def reactor() -> Study:
    study = Study(suite.get("williams-otto").problem, seed=0)
    study.run(7)
    return study


def test_history_knows_values_feasibility_and_the_best_so_far() -> None:
    study = told(parabola(), (0.9, 0.9), (0.1, 0.1), (0.8, 0.7), (0.4, 0.5), (0.2, 0.1))
    shown = plots.history(study.problem, study.trials)
    assert shown.numbers.tolist() == [1, 2, 3, 4, 5]
    assert shown.values.tolist() == pytest.approx([1.8, 0.2, 1.5, 0.9, 0.3])
    assert shown.is_feasible.tolist() == [False, True, False, True, True]
    assert math.isnan(shown.best[0])
    assert shown.best[1:].tolist() == pytest.approx([0.2, 0.2, 0.9, 0.9])


def test_history_is_in_the_users_sense_when_minimizing() -> None:
    study = told(parabola(minimize="h", maximize=None, subject_to=None), (0.9, 0.9), (0.1, 0.1), (0.8, 0.7))
    shown = plots.history(study.problem, study.trials)
    assert shown.values.tolist() == pytest.approx([1.8, 0.2, 1.5])
    assert shown.best.tolist() == pytest.approx([1.8, 0.2, 0.2])


def test_history_leaves_a_hole_where_a_trial_failed_or_is_pending() -> None:
    study = Study(parabola(), seed=0)
    study.fail(study.ask(), "pump tripped")
    study.tell(study.ask(), 0.5)
    study.ask()
    shown = plots.history(study.problem, study.trials)
    assert np.isnan(shown.values).tolist() == [True, False, True]
    assert shown.is_feasible.tolist() == [False, True, False]


PLAIN = CUQB(believer=Believer(cautious=False, mixture=False))
"""Its gap follows from the bounds of the search, which pictures of the past have; others are widened afterwards."""


@pytest.mark.slow
def test_gap_from_the_record_equals_the_gap_the_study_saw_at_the_time() -> None:
    seen: list[float | None] = []
    study = Study(suite.get("williams-otto").problem, seed=1, solver=PLAIN)
    study.run(9, on_tell=lambda study, trial: seen.append(study.gap()[0]))
    shown = plots.gaps(study.problem, study.trials).gap.tolist()
    assert [each is None for each in seen] == [math.isnan(each) for each in shown]
    assert shown[5:] == pytest.approx(seen[5:])


@pytest.mark.slow
def test_gap_with_noise_rests_on_bounds_as_they_stood_when_asked() -> None:
    study = Study(suite.get("williams-otto", noise=0.004, declare_noise=True).problem, seed=3, solver=PLAIN)
    study.run(8)
    verified = [trial for trial in study.trials if trial.why.aim == "verify"]
    assert [trial.number for trial in verified] == [8]
    top = min(trial.why.optimistic for trial in study.trials if trial.why.optimistic is not None)
    shown = plots.gaps(study.problem, study.trials).gap
    assert shown[-1] == pytest.approx(top - verified[0].why.lower[0])
    assert math.isinf(shown[6])


def test_gap_is_that_of_all_optima_so_far_also_where_some_were_refuted() -> None:
    study = Study(parabola(), seed=0, solver="random")
    for value in (0.1, 0.3, 0.2, 0.7, 0.75, 0.6, 0.9):
        study.tell(study.ask(), value)
    tops = [None, 0.95, 0.5, 0.92, None, 0.8, 0.99]
    trials = [
        replace(trial, why=replace(trial.why, optimistic=top)) for trial, top in zip(study.trials, tops, strict=True)
    ]
    best = [0.1, 0.3, 0.3, 0.7, 0.75, 0.75, 0.9]
    for t, shown in enumerate(plots.gaps(study.problem, trials).gap):
        known = [top for top in tops[: t + 1] if top is not None]
        assert (math.isnan(shown) and not known) or shown == pytest.approx(gap(map(Top, known), best[t], 1.0))


def test_gap_is_the_smallest_that_a_belief_called_possible_and_not_told_if_absurd() -> None:
    study = Study(parabola(), seed=0, solver="random")
    for value in (0.1, 0.3, 0.2, 0.7, 0.7):
        study.tell(study.ask(), value)
    said = [(None, None), (0.9, 99.0), (0.8, 1.0), (None, 1.5), (0.85, None)]
    trials = [
        replace(trial, why=replace(trial.why, optimistic=top, possible=possible))
        for trial, (top, possible) in zip(study.trials, said, strict=True)
    ]
    shown = plots.gaps(study.problem, trials).gap
    assert np.isnan(shown[0])
    assert shown[1:] == pytest.approx([np.inf, 0.7, 0.3, 0.3])


def test_pictures_leave_out_bounds_that_rest_on_a_wrong_value() -> None:
    study = Study(parabola(), seed=0, initial=3)
    for value in (1.0, 0.5, 0.7, 0.2, 0.1):
        study.tell(study.ask(), value)
    assert not np.isnan(plots.gaps(study.problem, study.trials).gap).all()
    study.correct(2, 0.45, why="typo")
    assert np.isnan(plots.gaps(study.problem, study.trials).gap).all()
    study.tell(study.ask(), 0.15)
    study.tell(study.ask(), 0.12)
    assert np.isnan(plots.gaps(study.problem, study.trials).gap[:5]).all()
    assert not np.isnan(plots.gaps(study.problem, study.trials).gap[-1])
    study.withdraw(4, why="contaminated")
    assert np.isnan(plots.gaps(study.problem, study.trials).gap).all()
    assert np.isnan(plots.history(study.problem, study.trials).values[3])
    axes = plots.plot_gap(study)
    assert not any(len(line.get_xdata()) for line in axes.lines)


def test_pictures_leave_out_bounds_of_another_question() -> None:
    study = Study(parabola(), seed=0, initial=3)
    for value in (1.0, 0.5, 0.7, 0.2):
        study.tell(study.ask(), value)
    study.revise(constants={"limit": 2.0}, subject_to=None)
    axes = plots.plot_gap(study)
    assert not any(len(line.get_xdata()) for line in axes.lines)


def test_region_separates_what_is_feasible_possible_and_excluded() -> None:
    study = told(parabola(), (0.0, 0.0), (1.0, 0.0), (0.0, 1.0), (1.0, 1.0), (0.5, 0.5), (0.3, 0.8), (0.8, 0.2))
    shown = plots.region(study, truth=lambda X: np.stack([X.sum(1), 1 - X.sum(1)], 1), size=21)
    assert shown.names == ("a", "b")
    assert shown.across.tolist() == pytest.approx(np.linspace(0, 1, 21).tolist())
    assert (shown.optimistic >= shown.pessimistic).all()
    assert shown.pessimistic[2, 3] > 0  # b = 0.1, a = 0.15
    assert shown.optimistic[18, 17] < 0
    assert shown.truth is not None
    away = np.abs(shown.across[None, :] + shown.up[:, None] - 1) > 0.2  # the plane was learned: only the edge is open
    assert ((shown.pessimistic > 0) == (shown.truth > 0))[away].all()


def test_rows_of_a_region_follow_the_second_variable() -> None:
    problem = parabola(blackbox=None, subject_to=None, maximize="b")
    study = told(problem, (0.1, 0.1), (0.5, 0.9), (0.9, 0.3))
    shown = plots.region(study, size=5)
    assert shown.objective[:, 0].tolist() == pytest.approx(shown.up.tolist())


def test_a_region_needs_two_variables_and_two_evaluations() -> None:
    with pytest.raises(SettingError, match="two variables; this problem has 3"):
        plots.region(Study(suite.get("wolfe").problem, seed=0))
    with pytest.raises(SettingError, match="tell at least two"):
        plots.region(told(parabola(), (0.1, 0.1)))


@pytest.mark.slow
def test_every_picture_draws_into_given_axes_and_returns_them(reactor: Study) -> None:
    figure = matplotlib.figure.Figure()
    for draw in (plots.plot_history, plots.plot_gap, plots.plot_region):
        axes = figure.add_subplot()
        assert draw(reactor, axes=axes) is axes
    assert plots.plot_gap(reactor).figure is not figure


def test_a_result_is_drawn_with_its_problem(reactor: Study) -> None:
    result = reactor.result()
    axes = plots.plot_history(result, problem=reactor.problem, known=75.82)
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert {"all limits met", "breaks a limit", "best so far with all limits met", "known optimum 75.82"} <= set(labels)
    axes = plots.plot_gap(result, problem=reactor.problem, known=75.82)
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert "true distance from optimum" in labels  # how much better is possible is not told after so few trials
    with pytest.raises(SettingError, match="give the study instead, or problem="):
        plots.plot_history(result)


def test_feasible_and_infeasible_differ_by_shape_not_by_colour_alone(reactor: Study) -> None:
    axes = plots.plot_region(reactor)
    paths = {each.get_label(): each.get_paths()[0].vertices.shape for each in axes.collections if each.get_paths()}
    assert paths["measured, all limits met"] != paths["measured, breaks a limit"]


@pytest.mark.slow
def test_a_whole_study_is_written_to_a_file(reactor: Study, tmp_path: Path) -> None:
    file = tmp_path / "study.png"
    drawn = plots.plot_study(reactor, truth=suite.get("williams-otto").truth, known=75.82, file=file)
    assert len(drawn) == 3
    assert file.read_bytes()[:4] == b"\x89PNG"


def test_other_numbers_of_variables_get_history_and_gap() -> None:
    study = Study(suite.get("wolfe").problem, seed=0)
    study.run(2)
    assert len(plots.plot_study(study)) == 2


def test_failed_trials_and_an_empty_record_can_be_drawn() -> None:
    study = Study(parabola(), seed=0)
    plots.plot_history(study)
    plots.plot_gap(study)
    study.fail(study.ask(), "pump tripped")
    assert study.trials[0].state is State.FAILED
    plots.plot_study(study)


def test_a_logarithmic_variable_gets_a_logarithmic_axis() -> None:
    problem = parabola(variables={"a": pied.Variable(0.01, 1.0, log=True), "b": (0.0, 1.0)})
    axes = plots.plot_region(told(problem, (0.01, 0.1), (0.5, 0.9), (1.0, 0.3)))
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "linear")


def test_without_matplotlib_data_are_there_and_drawing_names_the_command(
    reactor: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [each for each in sys.modules if each.split(".")[0] == "matplotlib"]:
        monkeypatch.setitem(sys.modules, name, None)
    assert len(plots.history(reactor.problem, reactor.trials).values) == 7
    with pytest.raises(MissingExtra, match=r'pip install .*\[plots\]"'):
        plots.plot_history(reactor)
