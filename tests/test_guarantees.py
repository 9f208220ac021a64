"""The paper's guarantees on draws from the assumed prior: a small form of benchmarks/guarantees.py."""

import importlib
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jaxtyping import Float64
from numpy import ndarray
from scipy.stats import norm

from pied import CUQB, Problem, Study
from pied.records.trial import Why
from pied.rng import Stream
from pied.search.enumeration import Enumeration
from pied.search.functions import Functions
from pied.study.recommendation import weights
from tiny import fast, hill, unchecked

sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))
guarantees = importlib.import_module("guarantees")
verdicts = importlib.import_module("verdicts")

CASES = (
    "squared exponential; m=1; n=0; affine; easy",
    "matern 3/2; m=3; n=2; curved; easy",
    "matern 5/2; m=1; n=2; affine; hard",
    "linear; m=3; n=2; affine; hard",
)
RATIOS = ("regret", "violation", "sharp", "widths", "best", "recommended", "deviations")


def drawn(case: str, draws: int, steps: int) -> list[dict[str, Any]]:
    with unchecked():
        return guarantees.work(guarantees.Task(case, 1000, draws, steps))["draws"]


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_bounds_contain_the_truth_and_theorems_hold_where_they_do(case: str) -> None:
    found = drawn(case, 30, 20)
    # 7 or more broken of 30 have a probability of 2.6 % where the bounds hold with probability 0.9 exactly, and they
    # hold more often than that: the union bound is generous
    assert sum(not each["contained"] for each in found) < 7
    for each in (each for each in found if each["contained"]):
        if each["feasible"]:
            assert each["declared"] is None
            assert all(each[name] is None or each[name] > 1 for name in RATIOS)
        else:
            assert each["declared"] is None or each["declared"] < each["horizon"]
    assert any(each["feasible"] for each in found) or "hard" in case


def test_a_broken_bound_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check can fail: with levels far below those of Lemma 1 most runs are not contained."""
    monkeypatch.setattr(guarantees, "confidence", lambda delta, size, functions: lambda t: 0.9)
    assert sum(not each["contained"] for each in drawn(CASES[0], 10, 10)) >= 8


def test_the_posterior_of_the_benchmark_is_the_textbook_s() -> None:
    made = guarantees.setting(CASES[1])
    belief = guarantees.Posterior(made, 3)
    rows, Y = np.array([[3, 17, 3, 40], [1, 2, 3, 4], [9, 9, 9, 9]]), Stream(0).normal(3, 4, 3)
    for t in range(4):
        belief.tell(rows[:, t], Y[:, t])
    belief.keep(np.array([True, False, True]))
    for place, draw in enumerate((0, 2)):
        A = made.K[rows[draw]][:, rows[draw]] + guarantees.NOISE**2 * np.eye(4)
        k = made.K[:, rows[draw]]
        np.testing.assert_allclose(belief.mean[place], k @ np.linalg.solve(A, Y[draw]), rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(belief.covariance[place], made.K - k @ np.linalg.solve(A, k.T), atol=1e-9)


def test_the_benchmark_asks_for_the_point_that_enumeration_finds() -> None:
    """All draws go in step there; one of them, alone and through the package's own search, takes the same path."""
    made, streams = guarantees.setting(CASES[1]), [Stream(number).at(CASES[1]) for number in range(5)]
    path = guarantees.play(made, streams, 8)[3]
    assert path.is_feasible
    listing, belief = made.problem.candidates, guarantees.Posterior(made, 1)
    H, noise = made.root @ streams[3].at("h").normal(48, 3), streams[3].at("noise").normal(guarantees.PATIENCE, 3)
    levels = guarantees.confidence(guarantees.DELTA, 48, 3)
    for t, row in enumerate(path.rows):
        mean, deviation = belief.mean[0], belief.deviation()[0]
        upper = listed_bounds(made.problem, mean, deviation, levels(t))
        best = Enumeration.of(listing).solve(upper, np.ones(3))
        assert listing.nearest(best.u) == row
        belief.tell(np.array([row]), (H[row] + guarantees.NOISE * noise[t])[None])


def listed_bounds(problem: Problem, mean: ndarray, deviation: ndarray, level: float) -> Functions:
    """Upper bounds on a list by hand: every function of these cases is monotone in one output."""

    class Upper:
        k, white = problem.k, ()

        def values(self, U: Float64[ndarray, "b d"]) -> Float64[ndarray, "b k"]:
            rows = [problem.candidates.nearest(u) for u in U]
            Y = mean[rows] + norm.ppf(level) * deviation[rows, None]
            return np.stack([g[0] for g in problem.g(problem.from_unit(U), Y[None])], -1)

        def values_and_slopes(self, U: ndarray) -> tuple[ndarray, ndarray]:
            return self.values(U), np.zeros((len(U), problem.k, U.shape[1]))

    return Upper()


# -------------------------------------------------------------------------------------------------------- Corollary 1


@pytest.mark.parametrize("seed", range(5))
def test_no_weight_satisfies_corollary_1_while_anything_is_uncertain(seed: int) -> None:
    """Where l* is attained every u_i is >= 0, so the penalty is zero for any rho, and u_0 is above l_0 = l*."""
    draw = np.random.default_rng(seed)
    center, width = draw.normal(size=(500, 3)), 0.01 + draw.uniform(size=(500, 3))
    lower, upper = center - width, center + width
    target = lower[(lower[:, 1:] >= 0).all(1), 0].max()
    for rho in 10.0 ** np.arange(0, 300, 10):
        assert (upper[:, 0] - rho * np.maximum(-upper[:, 1:], 0).sum(1)).max() > target


# --------------------------------------------------------------------------------------------------- the recommendation


def test_the_penalty_of_the_recommendation_is_above_the_multipliers_of_the_subproblems() -> None:
    lower = np.array([[1.0, 0.2, 0.1], [2.0, -0.1, 3.0]])
    scales = np.array([4.0, 1.0, 2.0])
    asked = [Why("explore", multipliers=(50.0, 0.0)), None, Why("verify", multipliers=(1.0, 9.0))]
    assert weights(lower[:1], scales, asked).tolist() == [100.0, 18.0]
    assert weights(lower[:1], scales, ()).tolist() == [4.0, 2.0]  # one scale of the objective for one of the constraint


def test_the_penalty_never_lets_a_doubtful_point_beat_a_sure_one_in_any_units() -> None:
    draw = np.random.default_rng(0).normal(size=(40, 3))
    for units in ((1.0, 1.0, 1.0), (1e8, 1e-6, 1.0), (1e-7, 1e5, 1e3)):
        lower = draw * np.array(units)
        rho = weights(lower, np.array(units), ())
        best = int((lower[:, 0] - (rho * np.maximum(-lower[:, 1:], 0)).sum(1)).argmax())
        assert bool((lower[best, 1:] >= 0).all())


def test_the_paper_s_penalty_is_a_setting() -> None:
    assert CUQB().penalty is None
    assert CUQB.paper().penalty == 1e5
    study = Study(hill(), solver=fast(), seed=0)
    study.run(8)
    found = [trial.why.multipliers for trial in study.trials if trial.why.aim in ("explore", "verify")]
    assert found
    assert all(len(each) == 2 and min(each) >= 0 for each in found)
    assert max(max(each) for each in found) > 0  # the line is active at the optimum


# --------------------------------------------------------------------------------------------------------- verdicts


def run_of(part: str, problem: str, seed: int = 0, **words: Any) -> dict[str, Any]:
    """A record made by hand."""
    task = {"part": part, "problem": problem, "solver": "cuqb", "seed": seed, "budget": 60, "initial": None}
    usual = {"declared": None, "evaluations": 9, "initial": 5, "first": 9, "tests": 4, "needed": 2, "below": 1}
    return {"task": task, **usual, "in a row": 1, "fraction": 0.01, "places": [], **words}


def test_tasks_are_told_apart_and_every_slice_has_some_of_all() -> None:
    tasks = verdicts.tasks(verdicts.PARTS, 40)
    assert len(set(tasks)) == len(tasks)
    assert {task.part for task in tasks if task.seed == 0} == set(verdicts.PARTS)
    assert len({task.problem for task in tasks if task.problem.startswith("tight")}) > 500


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.1, 0.001])
def test_a_tight_problem_keeps_a_feasible_point_and_little_else(share: float) -> None:
    with unchecked():
        benchmark = verdicts.made(f"tight:{share}:bazaraa")
        whole = verdicts.made("bazaraa")
        U, scales = Stream(0).sobol(2**14, 2), whole.scales[1:]
        margin, before = ((each.truth(U, unit=True)[:, 1:] / scales).min(1) for each in (benchmark, whole))
    assert (margin >= 0).mean() < 0.5 * share**0.5 * (before >= 0).mean()
    assert float(margin.max()) == pytest.approx(share * float(before.max()), abs=0.01 * float(before.max()))


def test_every_test_before_the_first_feasible_sample_is_counted() -> None:
    with unchecked():
        record = verdicts.work(verdicts.Task("tests", "tight:0.001:bazaraa", "cuqb", 1, 20, 3), deadline=1e12)
    assert "error" not in record
    assert record["first"] == record["evaluations"]
    assert record["tests"] == record["evaluations"] - 3
    assert verdicts.work(verdicts.Task("tests", "bazaraa", "cuqb", 1, 20), deadline=0.0) is None


def test_the_report_counts_verdicts_and_coverage() -> None:
    places = [[[0.5, 1.0], [-2.0, 1.0]], [[1.5, 1.0], [3.0, 1e-9]], [[1.9, 1.0], [3.0, 1.0]]]
    records = [
        run_of("tests", "tight:0.01:g09"),
        run_of("tests", "tight:0.01:draw:3:gp", declared=9, first=None),
        run_of("infeasible", "jointly:g09", declared=22, initial=15),
        run_of("infeasible", "beyond:draw:1:gp"),
        run_of("coverage", "booth", places=places),
    ]
    text = verdicts.page(records)
    assert "8 tests of feasibility before the first feasible sample, in 2 runs: 1 called" in text
    assert "| jointly:g09 | 1 of 1 | 22 (22 .. 22) | 7 |" in text
    assert "| all | 1 of 2 |" in text
    assert "| `cuqb` | free | 6 | 0.167 | 0.333 | 0.200 |" in text


def test_a_slice_ends_in_time_and_the_next_one_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verdicts, "work", lambda task, deadline: run_of(task.part, task.problem, task.seed))
    tasks, out = verdicts.tasks(("infeasible",), 1), tmp_path / "records.jsonl"
    few = tasks[:3]
    assert len(verdicts.run(few, 1, 60.0, out)) == 3
    assert len(verdicts.run(tasks[:5], 1, 60.0, out)) == 5
    assert len(out.read_text().splitlines()) == 5
