"""The benchmarks' own arithmetic on records made by hand, and tiny runs of every script."""

import importlib
import json
import math
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pied import suite
from pied.solvers.cuqb import CUQB
from pied.study import Study

sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))
report = importlib.import_module("report")
runner = importlib.import_module("runner")
suite_sweep = importlib.import_module("suite_sweep")
scoreboard = importlib.import_module("scoreboard")
search = importlib.import_module("search")
versions = importlib.import_module("versions")
Task = runner.Task


def record(problem: str = "booth", seed: int = 0, regret: Any = (None, 1e-1, 1e-5), **words: Any) -> dict[str, Any]:
    """A record made by hand."""
    curve = list(regret)
    given = {
        "task": asdict(Task(problem, words.pop("solver", "cuqb"), seed, words.pop("budget", 40))),
        "regret": curve,
        "raw": curve,
        "penalized": curve,
        "recommended": curve,
        "first_feasible": 2,
        "seconds": {"median": 0.25, "max": 0.5, "total": 1.0},
        "verdict": None,
        "is_feasible": True,
        "initial": 5,
        "doubts": 0,
        "rungs": {},
        "error": None,
    }
    return given | words


# --- Arithmetic -------------------------------------------------------------------------------------------------------


def test_curves_are_carried_forward_and_nothing_is_infinite():
    assert report.at([None, 0.1, 0.01], 1) == math.inf
    assert report.at([None, 0.1, 0.01], 2) == 0.1
    assert report.at([None, 0.1, 0.01], 100) == 0.01
    assert report.at([], 10) == math.inf


def test_solved_sums_fractions_of_runs_over_problems():
    records = [record("booth", 0), record("booth", 1, (0.5, 0.5)), record("wolfe", 0, (1e-9,)), record("wolfe", 1)]
    assert report.solved(records, 1e-4, 40) == 1.5
    assert report.solved(records, 1e-4, 2) == 0.5
    assert report.solved(records, 1e-7, 40) == 0.5


def test_quantiles_take_the_worse_neighbour_and_count_none_as_infinite():
    assert report.quantile([3.0, 1.0, 2.0], 0.5) == 2.0
    assert report.quantile([1.0, 2.0, 3.0, 4.0], 0.5) == 3.0
    assert report.quantile([1.0, None], 0.5) == math.inf
    assert report.quantile([1.0, 2.0, 3.0, 4.0, 5.0], 0.25) == 2.0
    assert math.isnan(report.quantile([], 0.5))


def test_until_is_the_first_evaluation_below():
    assert report.until(record(), 0.5) == 2
    assert report.until(record(), 1e-6) is None


def test_numbers_are_written_for_the_eye():
    assert [report.small(v) for v in (3e-5, -1e-9, math.inf, math.nan)] == ["3e-05", "~0", "none", "-"]
    assert report.spread([1, 2, 3], report.count) == "2 (2 .. 3)"
    assert report.spread([2, 2, 2], report.count) == "2"
    assert report.count(math.inf) == "never"


def test_commands_are_shown_without_folders():
    shown = report.command(["/somewhere/benchmarks/search.py", "--out", "/somewhere/else/file.jsonl", "cuqb:x=(1, 2)"])
    assert shown == "python benchmarks/search.py --out file.jsonl 'cuqb:x=(1, 2)'"


def test_heading_names_version_command_seeds_machine_and_date():
    origin = report.made()
    text = report.heading("Title", [record(seed=seed, made=origin) for seed in range(3)])
    for word in (origin["version"], origin["command"], origin["machine"], origin["date"], "seeds: 0 to 2", "cores"):
        assert word in text
    assert "/" not in origin["machine"]


def test_solved_table_shows_the_counts():
    records = [record("booth", 0), record("booth", 1, (0.5,)), record("wolfe", 0), record("wolfe", 0, solver="random")]
    lines = suite_sweep.solved_table(records).splitlines()
    assert lines[0].startswith("| solver | problems | 20: 1e-2 | 20: 1e-3 | 20: 1e-4 | 20: 1e-6 | 40: 1e-2")
    assert lines[2] == "| `cuqb` | 2 | 1.5 | 1.5 | 1.5 | 0.0 | 1.5 | 1.5 | 1.5 | 0.0 |"
    assert lines[3].startswith("| `random` | 1 | 1.0")


def test_false_verdicts_rungs_and_errors_are_visible():
    false = record("g09", verdict=19)
    right = record("infeasible:g09", verdict=18, is_feasible=False)
    broken = record("ex724", error="ValueError: no", rungs={"more jitter": 2})
    assert suite_sweep.is_false(false)
    assert not suite_sweep.is_false(right)
    page = suite_sweep.page([false, right, broken])
    assert "g09, `cuqb`, seed 0: FALSE VERDICT after 19 evaluations" in page
    assert "raised: ValueError: no; more jitter (2 times)" in page
    row = next(line for line in suite_sweep.problems_table([false]).splitlines() if line.startswith("| g09"))
    assert row.endswith("| 1 | 0 | 0 | 0 |")


def test_a_run_that_raised_at_once_counts_as_not_solved():
    broken = {"task": asdict(Task("booth", budget=40)), "error": "KeyError: 'x'", "status": "RAISED"}
    assert "| `cuqb` | 1 | 0.0" in suite_sweep.page([broken])


def test_infeasible_table_gives_evaluations_until_the_verdict():
    runs = [record("jointly:williams-otto", s, verdict=v, is_feasible=False) for s, v in enumerate((7, 9, None))]
    assert "| jointly:williams-otto | 5 | 9 (7 .. 9), 2 of 3 |" in suite_sweep.infeasible_table(runs)


def test_rescaled_table_gives_the_largest_difference_and_where_it_begins():
    own = record("booth", points=[[0.0, 0.5], [0.2, 0.4]])
    other = record("rescaled:booth", points=[[0.0, 0.5], [0.2, 0.4 + 1e-3]])
    assert suite_sweep.difference(own, own) == (0.0, None)
    largest, first = suite_sweep.difference(own, other)
    assert largest == pytest.approx(1e-3)
    assert first == 2
    assert suite_sweep.difference(own, record(points=[[0.0, 0.5]]))[0] == 1.0
    assert "| booth | 1 | 1e-03 | 0 | 2 |" in suite_sweep.rescaled_table([own, other])


def test_scoreboard_separates_draws_from_the_suite():
    lines = scoreboard.board([record("draw:7:gp"), record("booth"), record("booth", 1, (0.5,))]).splitlines()
    assert lines[2].startswith("| `cuqb` | 1 draws | 1.0 | 1.0 | 1.0 | 0.0 | 2 | 0.25 | 0.5 |")
    assert lines[3].startswith("| `cuqb` | 1 suite | 0.5 | 0.5 | 0.5 | 0.0 |")


def test_draws_go_through_the_kinds_in_turn_and_depend_on_the_number():
    names = scoreboard.draws_of(2, len(suite.kinds) + 1)
    assert [name.split(":")[2] for name in names[:-1]] == list(suite.kinds)
    assert names[0].split(":")[1] == "2000"
    assert not set(names) & set(scoreboard.draws_of(3, 8))
    assert set(scoreboard.THIRD) <= set(suite.sets["paper"])


def test_gap_of_a_search_is_to_the_best_satisfied_point():
    def answer(value: float, satisfied: bool, margin: float = 0.0) -> Any:
        f = np.array([value, margin])
        return search.Optimum(np.zeros(1), f, satisfied, margin)

    found = search.gaps({"a": answer(3.0, True), "b": answer(9.0, False), "c": answer(2.0, True)}, 2.0)
    assert found == {"a": 0.0, "b": math.inf, "c": 0.5}
    found = search.gaps({"a": answer(3.0, False, -0.2), "b": answer(9.0, False, -0.5)}, 2.0)
    assert found == {"a": 0.0, "b": pytest.approx(0.3)}


# --- Solvers and problems from text -----------------------------------------------------------------------------------


def test_solver_text_changes_nested_settings():
    solver, words = runner.solver_of(
        "cuqb:verify_every=None,level=0.9,model.kernels=('matern 3/2',),study.patience=None"
    )
    assert (solver.verify_every, solver.level, solver.believer.model.kernels) == (None, 0.9, ("matern 3/2",))
    assert words == {"patience": None}
    assert runner.solver_of("cuqb:search.starts=12")[0].search.starts == 12
    assert runner.solver_of("cuqb:estimator.samples=64")[0].believer.estimator.samples == 64
    assert runner.solver_of("cuqb")[0] == CUQB()
    assert runner.solver_of("cuqb-paper")[0] == CUQB.paper()


def test_solver_text_takes_parts_of_the_paper():
    solver, _ = runner.solver_of("cuqb:search=paper,model=paper")
    assert solver.search == CUQB.paper().search
    assert solver.believer.model == CUQB.paper().believer.model
    assert solver.verify_every == CUQB().verify_every


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cuqb:levle=0.9", "no setting 'levle' in CUQB"),
        ("cuqb:model.kernel=1", "no setting 'kernel' in Model"),
        ("cuqb:level", "reads name=value"),
        ("cubq", "unknown solver 'cubq'"),
        ("random:level=0.9", "no setting 'level' in Random"),
    ],
)
def test_a_slip_in_solver_text_is_named(text, message):
    with pytest.raises(ValueError, match=message):
        runner.solver_of(text)
    with pytest.raises(runner.argparse.ArgumentTypeError, match=message):
        runner.known_solver(text)


def test_problem_text_finds_names_and_twins():
    assert runner.benchmark_of("booth").name == "booth"
    assert runner.benchmark_of("g09", "black").structure == "black"
    assert runner.benchmark_of("jointly:williams-otto").known is None
    assert runner.benchmark_of("rescaled:booth").whole.bounds[0, 1] == 1e3 * suite["booth"].whole.bounds[0, 1]
    with pytest.raises(ValueError, match="a problem is a name"):
        runner.benchmark_of("drawn:7")


@pytest.mark.slow
def test_problem_text_finds_draws():
    drawn = runner.benchmark_of("draw:3:polynomial")
    assert drawn.known is not None
    assert drawn.name == suite.random(3, "polynomial").name


# --- Runs -------------------------------------------------------------------------------------------------------------


def test_a_run_gives_plain_data():
    found = runner.run(Task("bazaraa", "random", 0, 12))
    assert json.loads(json.dumps(found)) == found
    assert found["status"] == "FINISHED"
    assert found["evaluations"] == len(found["regret"]) == len(found["penalized"]) == 12
    values = [value for value in found["regret"] if value is not None]
    assert values == sorted(values, reverse=True)
    assert found["first_feasible"] == next((t for t, v in enumerate(found["regret"], 1) if v is not None), None)
    assert found["error"] is None


@pytest.mark.slow
def test_curves_agree_with_the_study_and_the_benchmark():
    benchmark = suite["bazaraa"]
    study = Study(benchmark.problem, solver="random", seed=3)
    study.run(20)
    found = runner.run(Task("bazaraa", "random", 3, 20))
    X = np.stack([benchmark.whole.point(dict(trial.x)) for trial in study.trials])
    fine = benchmark.is_strictly_feasible(X)
    assert bool(fine.any())
    assert found["regret"][-1] == pytest.approx(float(benchmark.normalized_regret(X)[fine].min()), rel=1e-5)
    assert found["raw"][-1] == pytest.approx(float(benchmark.regret(X)[fine].min()), rel=1e-5)
    penalized = benchmark.best - benchmark.whole.penalized(benchmark.truth(X), 1e5)
    assert found["penalized"][-1] == pytest.approx(float(penalized.min()), rel=1e-5)
    recommended = study.result("observed").trial
    assert found["recommended"][-1] == pytest.approx(float(penalized[recommended - 1]), rel=1e-5)


def test_an_error_is_a_record():
    found = runner.run(Task("booth", "cuqb:levle=0.9", 0, 8))
    assert found["status"] == "RAISED"
    assert "levle" in found["error"]


@pytest.mark.slow
def test_a_solved_run_stops_early_unless_told_otherwise():
    short = runner.run(Task("wolfe", "cuqb", 0, 20))
    assert short["solved"]
    assert short["evaluations"] < 20
    whole = runner.run(replace(Task("wolfe", "cuqb", 0, short["evaluations"] + 1), stop=None, points=True))
    assert whole["evaluations"] == len(whole["points"]) == short["evaluations"] + 1
    assert whole["regret"][: short["evaluations"]] == short["regret"]


@pytest.mark.slow
def test_a_verdict_is_counted_and_stops():
    found = runner.run(Task("infeasible:williams-otto", "cuqb", 0, 25))
    assert found["status"] == "INFEASIBLE"
    assert found["verdict"] == found["evaluations"] < 25
    assert found["doubts"] >= 3
    assert not found["is_feasible"]
    assert set(found["regret"]) == {None}


def test_finished_tasks_are_skipped_and_cut_lines_are_done_again(tmp_path):
    out = tmp_path / "records.jsonl"
    tasks = [Task("booth", "random", seed, 6) for seed in range(3)]
    first = runner.run_all(tasks[:2], 1, out)
    out.write_text(out.read_text() + '{"task": {"prob')
    calls = []

    def counting(task):
        calls.append(task)
        return runner.run(task)

    again = runner.run_all(tasks, 1, out, work=counting)
    assert calls == tasks[2:]
    assert [r["task"]["seed"] for r in again] == [0, 1, 2]
    assert again[:2] == first
    assert len(report.read(out)) == 3


def test_records_of_other_code_are_done_again_unless_allowed(tmp_path):
    out = tmp_path / "records.jsonl"
    task = Task("booth", "random", 0, 6)
    old = runner.run_all([task], 1, out)[0]
    old["made"] = {**old["made"], "code": "other"}
    out.write_text(json.dumps(old) + "\n")
    assert runner.run_all([task], 1, out, any_code=True)[0]["made"]["code"] == "other"
    assert runner.run_all([task], 1, out)[0]["made"]["code"] == report.code()


def test_longest_tasks_go_first():
    names = ("booth", "environmental", "ex724", "draw:3")
    tasks = [Task(name) for name in names] + [Task("environmental", "random")]
    order = [task.problem for task in sorted(tasks, key=runner.cost, reverse=True)]
    assert order == ["environmental", "ex724", "draw:3", "booth", "environmental"]


# --- Scripts ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_suite_sweep_runs_reports_and_reports_again(tmp_path, capsys):
    out = tmp_path / "sweep.jsonl"
    words = ["--problems", "booth", "bazaraa", "--solvers", "cuqb", "random", "--seeds", "1", "--budget", "8"]
    page = suite_sweep.main([*words, "--workers", "1", "--out", str(out)])
    assert "| `random` | 2 |" in page
    assert "jointly:bazaraa" in page
    assert (tmp_path / "sweep.md").read_text() == page
    assert capsys.readouterr().out.startswith("# The suite")
    again = suite_sweep.main(["--no-run", "--out", str(out), "--table", str(tmp_path / "again.md")])
    assert "## Problems solved" in again


def test_rescaled_sweep_compares_points(tmp_path):
    words = ["--rescaled", "--problems", "booth", "--solvers", "random", "--seeds", "1", "--budget", "7"]
    page = suite_sweep.main([*words, "--workers", "1", "--out", str(tmp_path / "units.jsonl")])
    row = next(line for line in page.splitlines() if line.startswith("| `random` | booth"))
    assert float(row.split("|")[4]) < 1e-12


def test_scoreboard_leaves_out_solvers_that_are_not_installed_and_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "cma", None)
    here, lines = scoreboard.installed(["random", "cma-es", "direct"])
    assert here == ["random", "direct"]
    assert lines == ["`cma-es` is left out: solver 'cma-es' needs cma"]
    assert "cuqb" in scoreboard.RIVALS
    assert not any(name.endswith("-paper") for name in scoreboard.RIVALS)


def test_scoreboard_shows_whole_seeds_alone():
    tasks = scoreboard.tasks_of([], ["booth", "wolfe"], ["random"], 2, 5)
    records = [record("booth"), record("wolfe"), record("booth", 1)]
    assert scoreboard.whole_seeds(records, tasks) == records[:2]


@pytest.mark.slow
def test_a_time_limit_leaves_what_is_done_seed_by_seed():
    tasks = [runner.Task("booth", "random", seed, 5) for seed in (1, 0)]
    assert runner.run_all(tasks, limit=-1.0) == []
    assert [each["task"]["seed"] for each in runner.run_all(tasks, limit=60.0)] == [1, 0]


def test_scoreboard_is_appended(tmp_path):
    target = tmp_path / "scoreboard.md"
    words = ["--solvers", "random", "--draws", "0", "--problems", "booth", "--seeds", "2", "--budget", "6"]
    for _ in range(2):
        scoreboard.main([*words, "--workers", "1", "--table", str(target)])
    text = target.read_text()
    assert text.startswith("# Scoreboard\n\n## ")
    assert text.count("| `random` | 1 suite |") == 2


@pytest.mark.slow
def test_search_benchmark_compares_three_searches(tmp_path, monkeypatch):
    monkeypatch.setitem(search.METHODS, "reference", search.Search(starts=20))
    page = search.main(
        ["--problems", "bazaraa", "--times", "7", "--seeds", "1", "--workers", "1", "--table", str(tmp_path / "s.md")]
    )
    assert "| bazaraa | 7 | 1 |" in page
    assert (tmp_path / "s.md").read_text() == page


# --- Charging ---------------------------------------------------------------------------------------------------------


def test_the_best_charge_keeps_its_limits():
    charging = importlib.import_module("charging")
    told = [[*[1.0] * 5, *y] for y in ((20.0, 41.0, 30.0), (50.0, 39.0, 30.0), (45.0, 39.0, 9.0), (40.0, 40.0, 10.0))]
    assert [charging.best(told, count) for count in (1, 2, 3, 4)] == [math.inf, 50.0, 50.0, 40.0]
    made = {"version": "0", "code": "0", "machine": "one", "date": "today", "commit": "0", "command": "none"}
    records = [
        {"item": item, "told": told, "made": made, "spent": 1.0, "seconds": None} for item in charging.items_of(2)
    ]
    assert "| pied | 40 | 40.00 | 40.00 |" in charging.page(records)
    assert charging.stated().d == len(charging.BOX)


def test_the_time_of_two_versions_is_compared_by_medians():
    text = versions.page("v0", {"booth": [(0.1, 0.12), (0.1, 0.125), (0.2, 0.3)], "spring": [(0.1, 0.2)]})
    assert "| booth | 0.100 | 0.125 | 1.25 |" in text
    assert "| spring | 0.100 | 0.200 | 2.00 |" in text
    assert "1 of 2 are" in text


def test_a_problem_is_timed_by_the_code_that_is_imported():
    assert versions.seconds("booth", 1, budget=7) > 0


def test_fits_are_counted_in_simplex_gradients_and_their_problems_have_their_published_optima() -> None:
    fits = importlib.import_module("fits")
    problems = {each.name: each for each in fits.FITS}
    optima = {
        "kowalik osborne": ([0.192807, 0.191282, 0.123056, 0.136062], 3.07505e-4),
        "osborne 1": ([0.37541, 1.93585, -1.46469, 0.0128675, 0.0221227], 5.46489e-5),
        "jennrich sampson": ([0.257825, 0.257825], 124.362),
    }
    for name, (x, best) in optima.items():
        assert np.square(problems[name].at(np.array(x))).sum() == pytest.approx(best, rel=1e-3)
    found = fits.run(fits.Task(6, "scipy-x0", 0, 5), 0.0)
    assert len(found["values"]) == 15
    assert fits.needed({**found, "values": [10.0, 1.0], "first": 10.0, "best": 0.0}, 1e-1) == 2 / 3
