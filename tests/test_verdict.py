"""The verdict that no point meets the constraints: when it falls, what it says, and when it must not."""

import importlib
import math
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy import ndarray

from pied import CUQB, Infeasible, Problem, Result, Status, Study, solve, suite
from pied.bounds import Believer, Widened, quantile
from pied.bounds.trust import RECENT_PROPOSALS, surprise
from pied.distances import to_nearest
from pied.gp import Model
from pied.records import Dataset
from pied.records.trial import Why
from pied.rng import Stream
from pied.search import PenaltySearch
from pied.solvers.infeasibility import CONFIRMING_SHARE, ROUGHEST, JointTest
from tiny import fast, few, hill, unchecked


def reactor(a: float, g: float) -> Problem:
    """The Williams-Otto reactor with other limits."""
    return suite["williams-otto"].problem.revised(
        subject_to={"residual A": f"X_A <= {a}", "byproduct G": f"X_G <= {g}"}
    )


@cache
def grid() -> ndarray:
    """Outputs of the reactor on a grid of the whole box."""
    bench = suite["williams-otto"]
    side = np.linspace(0.0, 1.0, 61)
    return bench.outputs(bench.whole.from_unit(np.stack(np.meshgrid(side, side), -1).reshape(-1, 2)))


def smallest(output: str, other: str, limit: float) -> float:
    """The smallest value of one fraction where the other one is within its limit, on the grid."""
    Y, place = grid(), {"X_A": 0, "X_G": 1}
    return float(Y[Y[:, place[other]] <= limit, place[output]].min())


@pytest.fixture(scope="module")
def hopeless() -> tuple[Study, Result]:
    """No point of the reactor has X_A <= 0.02."""
    study = Study(reactor(0.02, 0.08), seed=0)
    with unchecked():
        return study, study.run(20)


@pytest.mark.slow
@unchecked()
def test_a_limit_beyond_reach_is_declared_with_its_relaxation(hopeless: tuple[Study, Result]) -> None:
    _, result = hopeless
    assert result.status is Status.INFEASIBLE
    assert result.evaluations <= 15
    assert result.relaxation is not None
    assert result.relaxation.conflict == ("residual A",)
    assert result.relaxation.alone["byproduct G"] is None
    missing = smallest("X_A", "X_G", 0.08) - 0.02
    # at z = 3 the relaxation is optimistic: at most what is missing, and not much less
    assert 0.8 * missing < result.relaxation.alone["residual A"] <= missing + 1e-3
    assert result.message.startswith("No settings meet all limits: 'residual A' cannot be met (3 confirm")
    assert "Feasible perhaps with X_A <= 0.0" in result.message


@pytest.mark.slow
@unchecked()
def test_the_gap_is_infinite_where_nothing_can_be_hoped_for(hopeless: tuple[Study, Result]) -> None:
    study, result = hopeless
    assert all(trial.why.optimistic is None for trial in study.trials)
    assert result.gap == result.relative_gap == math.inf


@pytest.mark.slow
@unchecked()
def test_asking_on_after_the_verdict_raises_with_the_reason(hopeless: tuple[Study, Result]) -> None:
    study, result = hopeless
    with pytest.raises(Infeasible, match="'residual A' cannot be met"):
        study.ask()
    assert study.used == result.evaluations
    assert study.run(5).evaluations == result.evaluations


@pytest.mark.slow
@unchecked()
def test_the_last_three_tests_in_a_row_failed(hopeless: tuple[Study, Result]) -> None:
    _, result = hopeless
    margins = [trial.why.margin for trial in result.trials]
    assert margins[:5] == [None] * 5
    assert all(margin is not None and margin < 0 for margin in margins[-3:])
    assert {trial.why.aim for trial in result.trials[-3:]} <= {"feasibility", "spread"}


@pytest.mark.slow
@unchecked()
def test_confirmations_are_made_where_little_was_measured(hopeless: tuple[Study, Result]) -> None:
    study, result = hopeless
    U, side = study.data.U, np.linspace(0.0, 1.0, 41)
    box = np.stack(np.meshgrid(side, side), -1).reshape(-1, 2)
    for count in range(result.evaluations - 3, result.evaluations):
        told, confirming = U[:count], U[count : count + 1]
        assert to_nearest(confirming, told).item() > 0.9 * CONFIRMING_SHARE * to_nearest(box, told).max()


@pytest.mark.slow
@unchecked()
def test_a_verdict_must_hold_with_the_roughest_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the belief with that kernel is unsure, nothing is declared; where it was not offered, it is not asked."""
    fit, asked = Believer.fit, []

    def ignorant(believer: Believer, problem: Problem, data: Dataset, *others: Any, **words: Any) -> Any:
        asked.append(believer.model.kernels == (ROUGHEST,))
        belief = fit(believer, problem, data, *others, **words)
        return Widened(belief, 1e3) if asked[-1] else belief

    monkeypatch.setattr(Believer, "fit", ignorant)
    offered = Believer(model=Model(trends=("constant",), warps=("none",)))
    assert solve(deep(), 16, seed=0, solver=fast(believer=offered)).status is not Status.INFEASIBLE
    assert any(asked)
    asked.clear()
    assert solve(deep(), 16, seed=0, solver=fast()).status is Status.INFEASIBLE
    assert not any(asked)


@pytest.mark.slow
@unchecked()
def test_two_limits_that_can_be_met_one_by_one_are_declared_together() -> None:
    assert smallest("X_A", "X_G", 1.0) < 0.075
    assert smallest("X_G", "X_A", 1.0) < 0.035
    result = solve(reactor(0.075, 0.035), 20, seed=0)
    assert result.status is Status.INFEASIBLE
    assert result.evaluations <= 15
    assert result.relaxation is not None
    assert result.relaxation.conflict == ("residual A", "byproduct G")
    for name, output, other, own, limit in (
        ("residual A", "X_A", "X_G", 0.075, 0.035),
        ("byproduct G", "X_G", "X_A", 0.035, 0.075),
    ):
        missing = smallest(output, other, limit) - own
        assert 0.8 * missing < result.relaxation.alone[name] <= missing + 1e-3
    assert "'residual A' and 'byproduct G' cannot be met together" in result.message


def paper_in_short() -> CUQB:
    """The paper's settings with a small search."""
    return replace(CUQB.paper(), search=PenaltySearch(pool=512, starts=1))


@pytest.mark.slow
@unchecked()
def test_the_papers_rule_declares_one_limit_beyond_reach() -> None:
    result = solve(reactor(0.02, 0.08), 8, seed=0, solver=paper_in_short())
    assert result.status is Status.INFEASIBLE
    assert result.relaxation is not None
    assert result.relaxation.conflict == ("residual A",)
    assert "one at a time" in result.message


@pytest.mark.slow
@unchecked()
def test_the_papers_rule_does_not_see_a_conflict() -> None:
    assert solve(reactor(0.075, 0.035), 8, seed=0, solver=paper_in_short()).status is Status.FINISHED


def deep() -> Problem:
    """y is a sum of squares: it cannot be -20."""
    return hill(subject_to={"deep": "y <= -20", "line": "a + b <= 3"})


@pytest.mark.slow
def test_patience_counts_the_tests_in_a_row() -> None:
    one, two = (Study(deep(), seed=0, patience=patience, solver=fast()).run(16) for patience in (1, 2))
    assert one.status is two.status is Status.INFEASIBLE
    for patience, result in enumerate((one, two), 1):
        failed = [trial.why.margin is not None and trial.why.margin < 0 for trial in result.trials]
        assert failed[-patience:] == [True] * patience
        assert not all(failed[-1 - patience :])
    assert f"(1 confirmation, {one.evaluations} evaluations)" in one.message
    assert f"(2 confirmations, {two.evaluations} evaluations)" in two.message


@pytest.mark.slow
def test_without_patience_a_study_never_stops() -> None:
    study = Study(deep(), seed=0, patience=None, solver=fast())
    result = study.run(10)
    assert result.status is Status.FINISHED
    assert result.evaluations == 10
    assert not result.is_feasible
    assert "No settings are known to meet all limits. Closest so far:" in result.message
    study.ask()


@pytest.mark.slow
def test_a_test_counts_when_its_trial_was_told_not_before() -> None:
    study = Study(deep(), seed=0, patience=2, solver=fast())
    for _ in range(16):  # few points are no ground for a verdict
        first = study.ask()
        if first.why.margin is not None and first.why.margin < 0:
            break
        study.tell(first, study.problem.evaluate(first.x).tolist())
    second = study.ask()
    assert study.status is Status.RUNNING
    study.tell(first, study.problem.evaluate(first.x).tolist())
    assert study.status is Status.RUNNING
    study.tell(second, study.problem.evaluate(second.x).tolist())
    assert study.status is Status.RUNNING  # both rest on the same values, and confirm once
    third = study.ask()
    study.tell(third, study.problem.evaluate(third.x).tolist())
    assert study.status is Status.INFEASIBLE


@pytest.mark.slow
def test_a_feasible_point_refutes_the_verdict() -> None:
    """Old data that meets all constraints, added after the verdict: the study goes on."""
    study = Study(deep(), seed=0, patience=1, solver=fast())
    assert study.run(16).status is Status.INFEASIBLE
    study.add({"a": 1.0, "b": 1.0}, {"y": -21.0})
    assert study.status is Status.RUNNING
    assert study.ask().why.margin is None


@pytest.mark.slow
@pytest.mark.parametrize("name", few(["bazaraa", "spring", "st-bpv1", "g09"], 2))
@unchecked()
def test_feasible_problems_are_not_declared(name: str) -> None:
    """Also where a feasible point is hard to find: sets of volume 0.7 % (spring), 0.5 % (g09) and zero (st-bpv1)."""
    problem = suite[name].problem
    assert solve(problem, 2 * problem.d + 6, seed=0).status is Status.FINISHED


# ------------------------------------------------------------------------------------------------------ white conflicts


def counted(**constraints: str) -> tuple[Study, list[object]]:
    calls: list[object] = []
    problem = Problem(
        {"a": (0.0, 4.0), "b": (0.0, 4.0)},
        ["y"],
        blackbox=lambda x: calls.append(x) or 1.0,
        maximize="y",
        subject_to=constraints,
        noise=0,
    )
    return Study(problem, seed=0), calls


def test_white_constraints_that_exclude_each_other_are_declared_before_any_evaluation() -> None:
    study, calls = counted(one="a + b <= 3", two="a >= 3.5", black="y >= 0", three="b <= 3")
    assert study.status is Status.INFEASIBLE
    result = study.run(20)
    assert not calls
    assert result.evaluations == 0
    assert result.status is Status.INFEASIBLE
    assert result.relaxation is not None
    assert result.relaxation.conflict == ("one", "two")
    assert result.message.startswith("No settings meet the known limits: 'one' and 'two' cannot be met together")
    assert "Feasible perhaps with " in result.message
    with pytest.raises(Infeasible, match="'one' and 'two' cannot be met together"):
        study.ask()


def test_one_white_constraint_that_the_box_excludes_is_declared_before_any_evaluation() -> None:
    study, calls = counted(one="a + b >= 9")
    result = study.run(20)
    assert not calls
    assert result.relaxation is not None
    assert result.relaxation.alone == {"one": pytest.approx(1.0, abs=1e-6)}
    assert "'one' cannot be met within the ranges." in result.message
    assert "Feasible perhaps with a + b >= 8" in result.message


def test_white_constraints_that_leave_one_point_are_not_declared() -> None:
    study, calls = counted(one="a + b <= 0")
    assert study.status is Status.RUNNING
    study.ask()
    assert not calls


@pytest.mark.slow
@unchecked()
def test_a_warp_does_not_exclude_what_was_never_measured() -> None:
    """An output told as negative alone may be modelled by its logarithm; that it can be positive is not excluded."""
    problem = Problem(
        variables={"a": (0.0, 1.0)},
        outputs=["y"],
        blackbox=lambda x: {"y": 2.0 - math.exp(4.0 * (1.0 - x.a) ** 2 + 0.6)},
        minimize=lambda x, y: x.a,
        subject_to={"positive": lambda x, y: y.y},
        noise=0,
    )
    study = Study(problem, seed=0)
    for a in (0.05, 0.2, 0.35, 0.5, 0.6):
        study.add({"a": a}, problem.evaluate({"a": a}).tolist())
    result = study.run(8)
    assert result.status is not Status.INFEASIBLE
    assert result.is_feasible


def surprised(*proposals: tuple[float, float, float], scale: float = 1.0) -> float:
    """How surprising one constraint was, from (lower, upper, truth) of the proposals after an initial point."""
    whys = [Why("initial"), *(Why("explore", lower=(0.0, low), upper=(0.0, high)) for low, high, _ in proposals)]
    f = np.array([[0.0, 9.0], *([0.0, truth] for _, _, truth in proposals)])
    return surprise(whys, f, np.array([1.0, scale]), 0.95)


def test_surprise_is_how_many_deviations_the_truth_was_away_at_the_last_proposals() -> None:
    z = quantile.normal(0.95)
    assert surprised((-1.0, 1.0, 0.5), (1.0, 3.0, 8.0)) == pytest.approx(6.0 * z)
    assert surprised((1.0, 3.0, 8.0), *[(-1.0, 1.0, 0.5)] * RECENT_PROPOSALS) == pytest.approx(0.5 * z)
    assert surprised((-1.0, 1.0, math.nan)) == 0.0


def test_bounds_that_are_off_by_nothing_are_no_surprise() -> None:
    assert surprised((1.0, 1.0, 1.0 + 1e-9)) < 0.01
    assert surprised((1.0, 1.0, 1.0 + 1e-9), scale=1e-6) > 100.0


@pytest.mark.long
@pytest.mark.slow
def test_three_points_and_a_few_more_are_no_ground_for_a_verdict(monkeypatch):
    """The output has a rough part, a logarithm was chosen from three points, and some settings do meet all limits."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent.parent / "benchmarks"))
    problem = importlib.import_module("verdicts").made("tight:0.1:draw:77:kink").problem
    study = Study(problem, seed=10, initial=3)
    with unchecked():
        assert study.run(10).status is not Status.INFEASIBLE


@pytest.mark.slow
def test_noise_below_the_range_of_an_output_is_no_surprise() -> None:
    """Where y is nearly 0, many measurements lie below its range: no reason to doubt the belief for ever."""
    problem = Problem(
        {"x": (0, 1)},
        ["y"],
        maximize="y - x",
        subject_to={"enough": "y >= 0.25", "late": "x >= 0.7"},
        noise={"y": None},
        ranges={"y": (0.0, None)},
    )
    below, ended = 0, []
    for seed in range(3):
        study = Study(problem, seed=seed, solver=fast())
        while study.used < 3 + 30 and study.status is Status.RUNNING:
            trial = study.ask()
            y = math.exp(-5.0 * trial.x["x"]) + 0.05 * Stream(seed).at("noise", study.used).normal(1).item()
            below += y < 0.0
            study.tell(trial, {"y": y}, anyway=True)
        ended.append(study.status)
    assert below >= 2
    assert ended.count(Status.INFEASIBLE) >= 2


def test_with_noise_few_points_leave_as_much_open_as_exact_ones() -> None:
    """Up to three points for each variable."""
    factors = []
    for count in (6, 7):
        problem = Problem({"x": (0, 1), "z": (0, 1)}, ["y"], maximize="y", subject_to=["y >= 9"], noise={"y": 0.1})
        U = Stream(1).uniform(count, 2)
        data = Dataset(tuple(range(count)), U, U[:, :1], U[:0])
        scene = CUQB().start(problem, Stream(0)).scene(count + 1, data, None, Stream(0))
        factors.append(JointTest(problem, Believer(), 0.95, scene, Stream(0))._doubt(scene).item())
    assert factors[0] == pytest.approx(17.0 / math.sqrt(6))
    assert factors[1] == pytest.approx(5.7 / math.sqrt(7))
