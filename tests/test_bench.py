"""The measures of the benchmarks against cases worked out by hand, and the reading of plans."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import wilcoxon

from pied import SettingError, suite
from pied.bench import compare, measures, paper, profiles
from pied.bench.plan import CENTRED, PLAN_KEYS, Plan, Task, benchmark_of, size_of, solver_of
from pied.bench.runs import benchmark_for, perform, truth_for
from pied.rng import Stream
from pied.solvers import registry
from pied.solvers.cuqb import CUQB

F = np.array([[1.0, 0.5], [3.0, -0.002], [2.0, 0.0], [np.nan, np.nan], [2.5, 0.1]])
"""One constraint: feasible, better but infeasible, on the boundary, failed, best feasible. The optimum is 2.75."""


# --- Measures ---------------------------------------------------------------------------------------------------------


def test_penalized_values_take_the_penalty_off_and_a_failed_evaluation_is_worst() -> None:
    assert measures.penalized(F).tolist() == [1.0, 3.0 - 1e5 * 0.002, 2.0, -math.inf, 2.5]
    assert measures.penalized(F, 10.0)[1] == pytest.approx(2.98)


def test_regrets_and_violations_are_the_papers() -> None:
    f = F[[0, 1, 2, 4]]
    assert measures.regret(f, 2.75).tolist() == [1.75, -0.25, 0.75, 0.25]
    assert measures.positive_regret(f, 2.75).tolist() == [1.75, 0.0, 0.75, 0.25]
    assert measures.violation(f)[:, 0].tolist() == [0.0, 0.002, 0.0, 0.0]
    assert measures.cumulative(measures.regret(f, 2.75)).tolist() == [1.75, 1.5, 2.25, 2.5]
    assert measures.cumulative(measures.positive_regret(f, 2.75)).tolist() == [1.75, 1.75, 2.5, 2.75]


def test_simple_regret_is_that_of_the_best_penalized_value_so_far() -> None:
    assert measures.simple_regret(measures.penalized(F), 2.75).tolist() == [1.75, 1.75, 0.75, 0.75, 0.25]


def test_best_feasible_ignores_what_is_infeasible() -> None:
    values, fine = np.array([[5.0, 1.0, 0.5, 2.0]]), np.array([[False, True, True, True]])
    assert measures.best_feasible(values, fine).tolist() == [[-math.inf, 1.0, 1.0, 2.0]]


def test_running_argmax_keeps_the_earliest_of_equal_ones() -> None:
    scores = np.array([np.nan, 1.0, 1.0, 0.0, 2.0])
    assert measures.running_argmax(scores).tolist() == [0, 1, 1, 1, 4]


def test_curves_are_cut_or_carried_forward() -> None:
    curve = np.array([3.0, 2.0, 1.0])
    assert measures.carried(curve, 2).tolist() == [3.0, 2.0]
    assert measures.carried(curve, 5).tolist() == [3.0, 2.0, 1.0, 1.0, 1.0]
    assert measures.carried(np.zeros(0), 2, math.inf).tolist() == [math.inf, math.inf]


def test_until_counts_evaluations_from_one() -> None:
    curves = np.array([[1.0, 0.1, 0.01], [1.0, 1.0, 1.0]])
    assert measures.until(curves, 0.1).tolist() == [2.0, math.inf]


def test_quartiles_are_order_statistics_and_infinity_shows() -> None:
    low, middle, high = measures.quartiles(np.array([1.0, 2.0, 3.0, math.inf]))
    assert (float(low), float(middle), float(high)) == (2.0, 3.0, math.inf)


# --- Profiles ---------------------------------------------------------------------------------------------------------


def test_the_papers_profile_by_hand() -> None:
    """Two solvers, two problems, three seeds, three evaluations; tau = 0.1.

    Problem 1: medians are (0, 9, 9) and (0, 5, 10); start 0, best 10, target 9: solved at 2 and at 3.
    Problem 2: medians are (-100, -100, -1) and (-100, -20, -20); start -100, best -1, target -10.9: at 3 and never.
    """
    values = np.array([
        [[[0, 8, 8], [0, 9, 9], [0, 10, 10]], [[-100, -100, -1], [-100, -100, 0], [-100, -100, -2]]],
        [[[0, 5, 10], [0, 5, 10], [0, 9, 9]], [[-100, -20, -20], [-100, -20, -20], [-100, 0, 0]]],
    ], dtype=np.float64)  # fmt: skip
    starts = np.array([[0.0, 0.0, 0.0], [-100.0, -100.0, -100.0]])
    times = profiles.paper_times(values, starts, 0.1)
    assert times.tolist() == [[2.0, 3.0], [3.0, math.inf]]
    assert profiles.profile(times, 4).tolist() == [[0.0, 0.5, 1.0, 1.0], [0.0, 0.0, 0.5, 0.5]]


def test_a_large_penalty_makes_the_papers_test_easy_and_not_the_strict_one() -> None:
    start, close, right = -1e5, 5.0, 10.0  # from a start that is penalized, half of the optimum is within 1 %
    values = np.array([[[[start, close]]], [[[start, right]]]])
    assert profiles.paper_times(values, np.array([[start]]), 0.01).tolist() == [[2.0], [2.0]]
    regrets = np.array([[[[math.inf, 0.5]]], [[[math.inf, 0.0]]]])
    assert profiles.strict_times(regrets, 0.01).tolist() == [[math.inf], [2.0]]


def test_strict_times_take_the_median_over_seeds_the_worse_of_two() -> None:
    regrets = np.array([[[[1.0, 1e-5, 1e-5], [1.0, 1.0, 1e-5]]]])
    assert profiles.strict_times(regrets, 1e-4).tolist() == [[3.0]]


def test_data_profiles_count_groups_of_one_more_than_the_dimension() -> None:
    times = np.array([[6.0, 6.0]])
    found = profiles.data_profile(times, np.array([1.0, 2.0]), np.array([1.0, 2.0, 3.0]))
    assert found.tolist() == [[0.0, 0.5, 1.0]]


def test_solved_adds_up_fractions_of_seeds() -> None:
    regrets = np.array([[[[1.0, 0.0], [1.0, 1.0]], [[0.0, 0.0], [1.0, 0.0]]]])
    assert profiles.solved(regrets, 1e-3).tolist() == [[0.5, 1.5]]


# --- Paired tests -----------------------------------------------------------------------------------------------------


def test_holm_by_hand() -> None:
    assert compare.holm(np.array([0.01, 0.04, 0.03, 0.5])) == pytest.approx([0.04, 0.09, 0.09, 0.5])
    assert compare.holm(np.array([0.6, 0.7])).tolist() == [1.0, 1.0]


def test_the_paired_test_is_wilcoxons_on_logarithms() -> None:
    a, b = np.array([1e-5, 1e-4, 1e-3, 1e-6, 1e-2]), np.array([1e-3, 1e-3, 1e-1, 1e-2, 1e-3])
    assert compare.paired(a, b) == pytest.approx(float(wilcoxon(np.log10(a), np.log10(b)).pvalue))
    assert compare.paired(a, a) == 1.0


def test_finding_nothing_loses_against_finding_something() -> None:
    regrets = np.array([[[1e-3] * 6], [[math.inf] * 6]])
    found = compare.compared(regrets, ["good", "blind"], ["booth"])
    assert [(each.problem, each.wins, each.losses) for each in found] == [("all", 6, 0), ("booth", 6, 0)]
    assert found[0].p == pytest.approx(2 * 2 / 2**6)
    assert found[0].ratio < 1


# --- Plans ------------------------------------------------------------------------------------------------------------

TEXT = """
problems = ["applied", "booth"]
solvers = ["cuqb", "short", "random"]
seeds = 3
budget = 30
structure = "paper"
[solver.short]
is = "cuqb-paper"
level = 0.75
initial = "d+1"
structure = "full"
search.starts = 2
[[part]]
name = "exact"
[[part]]
name = "noisy"
problems = ["williams-otto"]
noise = 0.05
seeds = [4, 7]
patience = 0
rules = ["naive", "asked"]
"""


def read(tmp_path: Path, text: str) -> Plan:
    file = tmp_path / "plan.toml"
    file.write_text(text)
    return Plan.read(file)


def test_a_plan_in_toml_says_what_its_tasks_are(tmp_path: Path) -> None:
    plan = read(tmp_path, TEXT)
    exact, noisy = plan.part("exact").tasks(), plan.part("noisy").tasks()
    assert (len(exact), len(noisy), len(plan.tasks())) == (27, 6, 33)
    short = next(task for task in exact if task.label == "short")
    solver, _ = solver_of(short.solver)
    assert (solver.level, solver.search.starts, solver.believer) == (0.75, 2, CUQB.paper().believer)
    assert (short.structure, short.initial, short.budget) == ("full", "d+1", 30)
    assert {task.structure for task in exact if task.label == "cuqb"} == {"paper"}
    assert {task.seed for task in noisy} == {4, 7}
    assert noisy[0].title == "williams-otto, noise 0.05"
    assert (noisy[0].patience, exact[0].patience) == (None, 3)
    assert noisy[0].rules == ("naive", "asked")


def test_tasks_go_seed_by_seed_and_survive_as_data(tmp_path: Path) -> None:
    tasks = read(tmp_path, TEXT).tasks()
    assert [task.seed for task in tasks] == sorted(task.seed for task in tasks)
    assert all(Task.from_data(task.to_data()) == task for task in tasks)
    assert len({task.name for task in tasks}) == len(tasks)


def test_a_plan_is_narrowed_by_parts_problems_and_solvers(tmp_path: Path) -> None:
    plan = read(tmp_path, TEXT)
    assert {task.problem for task in plan.narrowed(["booth"]).tasks()} == {"booth"}
    assert {task.noise for task in plan.narrowed(parts=["noisy"]).tasks()} == {0.05}
    few = plan.narrowed(["random", "applied"], 1, 5, ["exact"]).tasks()
    assert {(task.problem, task.solver_name, task.seed, task.budget) for task in few} == {
        ("environmental", "random", 0, 5), ("williams-otto", "random", 0, 5),
    }  # fmt: skip
    with pytest.raises(ValueError, match=r"no problem or solver 'boot'\. Did you mean 'booth'"):
        plan.narrowed(["boot"])
    with pytest.raises(ValueError, match=r"no part 'noise'\. Did you mean 'noisy'"):
        plan.narrowed(parts=["noise"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("solvers = ['cuqb']", "needs problems, by set or by name"),
        ("problems = ['boot']", "no problem 'boot'"),
        ("problems = ['booth']\nsolvers = ['cubq']", "unknown solver 'cubq'"),
        ("problems = ['booth']\nbudgets = 3", "no key 'budgets'. Did you mean 'budget'"),
        ("problems = ['booth']\nbudget = 0", "budget is a count from 1, got 0"),
        ("problems = ['booth']\nrules = ['nave']", "Did you mean 'naive'"),
        ("problems = ['booth']\ninitial = 'three'", "initial is a size"),
        ("problems = ['booth']\n[solver.cuqb]\nlevle = 0.9", "no setting 'levle' in CUQB"),
        ("problems = ['booth'", "is not valid TOML"),
        ("problems = ['booth']\n[[part]]\nname = 'a'\n[[part]]\nname = 'a'", "a name of its own"),
    ],
)
def test_a_slip_in_a_plan_is_named_before_anything_runs(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read(tmp_path, text)


def test_every_key_of_a_plan_is_described() -> None:
    page = (Path(__file__).parents[1] / "docs" / "reference.md").read_text()
    for word in PLAN_KEYS:
        assert f"\n| `{word}` | " in page


def test_sizes_of_initial_designs() -> None:
    assert [size_of(text, 4) for text in ("7", "d+1", "2d+1", "3d")] == [7, 5, 9, 12]


def test_direct_does_not_begin_at_the_optimum() -> None:
    for name in CENTRED:
        plain, cut = suite[name], benchmark_of(name, shifted=True)
        assert plain.known is not None
        assert cut.best == plain.best
        centre = cut.whole.from_unit(np.full((1, plain.whole.d), 0.5))
        assert float(cut.regret(centre)[0]) > 1e-3
        assert float(plain.regret(plain.whole.from_unit(np.full_like(centre, 0.5)))[0]) < 1e-9
    assert benchmark_of("booth", shifted=True).name == "booth"
    shifted = {task.solver_name for task in paper.plan().tasks() if task.shifted}
    assert shifted == {"direct-paper"}


def test_noise_belongs_to_the_outputs_of_h() -> None:
    with pytest.raises(ValueError, match="folds away"):
        benchmark_of("booth", "black", 0.1)


def test_the_papers_plan_has_its_eight_solvers_and_ours_on_all_problems() -> None:
    plan = paper.plan()
    for name, solvers in (("unconstrained", 9), ("constrained", 10)):  # with the rule of the authors' scripts
        part = plan.part(name)
        assert part.problems == suite.sets[name]
        tasks = part.tasks()
        assert len(tasks) == 10 * solvers * 10
        assert {task.knows for task in tasks if task.label != "cuqb"} == {"nothing"}
        assert {task.structure for task in tasks if task.label != "cuqb"} == {"paper"}
        assert {task.structure for task in tasks if task.label == "cuqb"} == {"full"}
    assert all(task.budget == 100 and task.patience is None for task in plan.tasks())
    levels: Any = plan.part("levels").tasks()
    assert len({(solver_of(task.solver)[0].level, task.initial) for task in levels}) == 9
    assert set(paper.PAPER_SOLVERS) <= set(registry)
    own = {task.name: task for task in plan.part("unconstrained").tasks()}
    shared = [task for task in levels if task.name in own]
    assert len(shared) == 100
    assert all(own[task.name] == task for task in shared)


def test_a_run_in_the_papers_setting_begins_uniformly_in_the_box() -> None:
    task = Task("ex314", "random", budget=7, structure="paper", knows="nothing")
    benchmark = truth_for(task)
    X = np.array([trial.x.array for trial in perform(task).trials])
    assert benchmark_for(task).problem.white == ()
    assert benchmark.whole.to_unit(X) == pytest.approx(Stream(0).at("initial").uniform(10_000, 3)[:7], abs=1e-12)
    assert (benchmark.truth(X)[:, 2:] < 0).any()  # white constraints are broken, as nothing is known of them
    with pytest.raises(SettingError, match="knows is 'white' or 'nothing'"):
        Plan.of({"problems": ["ex314"], "knows": "all"})


def test_the_quick_plan_is_the_same_in_small() -> None:
    quick, whole = paper.plan(quick=True), paper.plan()
    assert [part.name for part in quick.parts] == [part.name for part in whole.parts]
    assert [part.entries for part in quick.parts] == [part.entries for part in whole.parts]
    assert len(quick.tasks()) < 250
