"""Performed tasks: finished ones are skipped, interrupted ones continued, failed ones recorded."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from click.testing import CliRunner

from pied import suite
from pied.bench import away, curves, drive, measures, paper
from pied.bench.ledger import Ledger
from pied.bench.plan import Part, Plan, Task
from pied.bench.runs import WORKER, benchmark_for, from_data, kept, perform, to_data
from pied.bench.shell import bench
from pied.bench.transfer import take
from pied.evaluation import executors
from pied.problem import Problem
from pied.records.trial import Dataset, Trial
from pied.rng import Stream
from pied.solvers import make, registry
from pied.solvers.base import Proposal, Run, Solver
from pied.study import Study

ROOT = Path(__file__).parents[1]
BAZARAA = Task("bazaraa", "cuqb", 1, 8)
NOISY = Task("williams-otto", "random", 0, 8, noise=0.05, rules=("naive", "asked", "lower"))


@dataclass(frozen=True)
class Stumbling(Solver):
    """Random points, until it raises."""

    name: ClassVar[str] = "stumbling"

    def start(self, problem: Problem, stream: Stream) -> Run:
        inner = make("random").start(problem, stream)
        return _Stumbles(inner)


FALLS = {"at": 8}


class _Stumbles(Run):
    def __init__(self, inner: Run) -> None:
        self.inner = inner

    def ask(self, number: int, data: Dataset) -> Proposal:
        if number == FALLS["at"]:
            raise ZeroDivisionError("fell over")
        return self.inner.ask(number, data)


def essence(trial: Trial) -> tuple[Any, ...]:
    """All of a trial but the time it took."""
    y = None if trial.y is None else dict(trial.y)
    return trial.number, dict(trial.x), trial.state, y, replace(trial.why, seconds=0.0)


def records(tasks: list[Task], store: Path) -> dict[str, list[tuple[Any, ...]]]:
    return {task.name: [essence(trial) for trial in kept(task, str(store)).trials] for task in tasks}


# --- Running ----------------------------------------------------------------------------------------------------------


def test_a_run_spends_its_budget_and_knows_who_made_it() -> None:
    run = perform(replace(BAZARAA, solver="random"))
    assert (run.ended, run.error, len(run.trials), run.initial) == ("FINISHED", "", 8, 5)
    assert run.made is not None
    assert run.made["version"]
    assert "cores" in run.made["machine"]
    assert all(trial.worker != "" for trial in run.trials)


@pytest.mark.slow
def test_finished_runs_are_skipped_and_a_larger_budget_continues_them(tmp_path: Path) -> None:
    store, straight = tmp_path / "a.db", tmp_path / "b.db"
    short = replace(BAZARAA, budget=6)
    assert drive.run([short], store).done == 1
    again = drive.run([short], store)
    assert (again.done, again.skipped) == (0, 1)
    assert drive.run([BAZARAA], store).done == 1
    drive.run([BAZARAA], straight)
    assert records([BAZARAA], store) == records([BAZARAA], straight)


@pytest.mark.slow
@pytest.mark.parametrize("task", [BAZARAA, replace(NOISY, solver="snobfit-paper")], ids=lambda task: task.solver)
def test_a_run_that_was_cut_between_ask_and_tell_continues_as_if_nothing_had_happened(
    tmp_path: Path, task: Task
) -> None:
    store, straight = tmp_path / "a.db", tmp_path / "b.db"
    perform(replace(task, budget=6), str(store))  # never written into the ledger: the process died
    with Study(
        benchmark_for(task).problem, name=task.name, store=str(store), worker=WORKER, patience=task.patience
    ) as study:
        assert study.ask().number == 7
    drive.run([task], store)
    drive.run([task], straight)
    assert records([task], store) == records([task], straight)


def test_a_solver_that_raises_in_the_middle_is_written_down_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(registry, "stumbling", f"{__name__}:Stumbling")
    store = tmp_path / "a.db"
    tasks = [Task("booth", "stumbling", 0, 10), Task("booth", "random", 0, 10)]
    outcome = drive.run(tasks, store)
    assert outcome.done == 2
    assert len(outcome.failed) == 1
    assert "ZeroDivisionError: fell over" in outcome.failed[0]
    with Ledger(store) as ledger:
        entries = ledger.entries()
    assert (entries[tasks[0].name].ended, entries[tasks[0].name].evaluations) == ("FAILED", 7)
    assert entries[tasks[1].name].error == ""
    fallen = curves.load(store, tasks)[0]
    assert len(fallen.f) == 7
    assert "fell over" in fallen.error
    assert drive.run(tasks, store).skipped == 2
    side = curves.grid(curves.load(store, tasks))
    assert side.values().shape == (2, 1, 1, 10)
    assert np.all(np.isfinite(side.values()))
    monkeypatch.setitem(FALLS, "at", 0)  # mended
    assert drive.run(tasks, store, again=True).failed == []
    assert [len(curve.f) for curve in curves.load(store, tasks)] == [10, 10]


def test_a_run_that_cannot_begin_is_written_down(tmp_path: Path) -> None:
    task = Task("booth", "cuqb:levle=1", 0, 6)
    outcome = drive.run([task], tmp_path / "a.db")
    assert "no setting 'levle'" in outcome.failed[0]
    nothing = curves.load(tmp_path / "a.db", [task])[0]
    assert nothing.f.shape == (0, 1)


def test_steps_tell_what_is_done_and_left(tmp_path: Path) -> None:
    steps: list[drive.Step] = []
    tasks = [Task("booth", "random", seed, 5) for seed in range(3)]
    drive.run(tasks, tmp_path / "a.db", on_step=steps.append)
    assert [(step.done, step.all) for step in steps] == [(1, 3), (2, 3), (3, 3)]
    assert steps[-1].left == 0.0


@pytest.mark.slow
def test_any_executor_will_do(tmp_path: Path) -> None:
    tasks = [Task("booth", "random", seed, 5) for seed in range(3)]
    with ThreadPoolExecutor(2) as pool:
        assert drive.run(tasks, tmp_path / "a.db", workers=2, executor=pool).done == 3
    drive.run(tasks, tmp_path / "b.db")
    assert records(tasks, tmp_path / "a.db") == records(tasks, tmp_path / "b.db")


@pytest.mark.slow
def test_a_dask_cluster_is_an_executor_too(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    tasks = [Task("booth", "random", seed, 5) for seed in range(3)]
    with distributed.Client(n_workers=1, processes=False, dashboard_address=None) as client:
        assert drive.run(tasks, tmp_path / "a.db", workers=2, executor=executors.dask(client)).failed == []
    drive.run(tasks, tmp_path / "b.db")
    assert records(tasks, tmp_path / "a.db") == records(tasks, tmp_path / "b.db")


def test_a_solved_run_stops_where_the_plan_says_so(tmp_path: Path) -> None:
    known = suite["booth"].known
    assert known is not None
    task = Task("booth", "random", 0, 12, stop=1e9)  # any point will do
    assert len(perform(task).trials) == 1
    drive.run([task], tmp_path / "a.db")
    assert drive.run([task], tmp_path / "a.db").skipped == 1


@pytest.mark.slow
def test_a_plan_that_is_killed_and_resumed_gives_the_records_of_one_that_ran_through(tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text("problems = ['bazaraa', 'booth']\nsolvers = ['cuqb', 'snobfit-paper']\nseeds = 1\nbudget = 9\n")
    tasks, store = Plan.read(plan).tasks(), tmp_path / "killed.db"
    words = ["run", str(plan), "--store", str(store), "--workers", "2"]
    code = f"if __name__ == '__main__': from pied.bench.shell import bench; bench({words!r})"
    process = subprocess.Popen([sys.executable, "-c", code], start_new_session=True, stderr=subprocess.DEVNULL)
    try:
        wait_for(lambda: counted(store, "trials") >= 12, process)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    done = counted(store, "trials")
    assert 12 <= done < 9 * len(tasks)
    outcome = drive.run(tasks, store)
    assert outcome.done + outcome.skipped == len(tasks)
    assert outcome.done > 0
    drive.run(tasks, tmp_path / "straight.db")
    assert records(tasks, store) == records(tasks, tmp_path / "straight.db")


def counted(store: Path, table: str) -> int:
    try:
        with sqlite3.connect(f"file:{store}?mode=ro", uri=True) as db:
            return int(db.execute(f"SELECT count(*) FROM {table}").fetchone()[0])
    except sqlite3.OperationalError:
        return 0


def wait_for(condition: Callable[[], bool], process: "subprocess.Popen[bytes]") -> None:
    while not condition():  # the limit of one test ends what never happens
        assert process.poll() is None, "the plan ended before it could be killed"
        time.sleep(0.01)


# --- Curves -----------------------------------------------------------------------------------------------------------


def test_curves_hold_the_truth_at_evaluations_and_recommendations(tmp_path: Path) -> None:
    task = replace(BAZARAA, solver="random", budget=12, rules=("naive", "observed"))
    drive.run([task], tmp_path / "a.db")
    curve = curves.load(tmp_path / "a.db")[0]
    benchmark, trials = benchmark_for(task), kept(task, str(tmp_path / "a.db")).trials
    X = np.array([list(trial.x.values()) for trial in trials])
    assert curve.f == pytest.approx(benchmark.truth(X))
    naive = measures.running_best(measures.penalized(curve.f))
    assert curve.penalized() == pytest.approx(naive)
    fine = benchmark.is_strictly_feasible(X)
    assert curve.strict()[-1] == pytest.approx(float(benchmark.normalized_regret(X)[fine].min()))
    study = Study(benchmark.problem, solver="random", seed=1, patience=None)
    study.run(12)
    row = study.result("observed").trial
    assert row is not None
    assert curve.recommended["observed"][-1] == pytest.approx(curve.f[row - 1])


def test_the_recommended_row_is_the_study_s_own_also_when_nothing_is_feasible() -> None:
    study = Study(suite["g09"].problem, solver="random", seed=0)
    study.run(8)
    f = study.data.functions(study.problem)
    assert curves.observed_row(study.problem, f) == (study.result("observed").trial or 0) - 1


def test_curves_are_computed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task = Task("booth", "random", 0, 6)
    drive.run([task], tmp_path / "a.db")
    first = curves.load(tmp_path / "a.db")[0]
    monkeypatch.setattr(curves, "arrays_of", lambda *_: pytest.fail("computed again"))
    assert curves.load(tmp_path / "a.db")[0].f == pytest.approx(first.f)


@pytest.mark.slow
def test_under_noise_the_rules_recommend_different_points_of_the_same_samples(tmp_path: Path) -> None:
    drive.run([NOISY], tmp_path / "a.db")
    curve = curves.load(tmp_path / "a.db")[0]
    assert set(curve.recommended) == {"naive", "asked", "lower"}
    for rule in curve.recommended.values():
        assert all((np.abs(curve.f - row).sum(1) < 1e-9).any() for row in rule)
    with pytest.raises(ValueError, match="no recommendations of the rule 'anywhere'"):
        curve.penalized("anywhere")


def test_noise_is_that_of_the_seed_and_of_the_trial() -> None:
    first, again, other = perform(NOISY), perform(NOISY), perform(replace(NOISY, seed=1))
    values = [[dict(trial.y or {}) for trial in run.trials] for run in (first, again, other)]
    assert values[0] == values[1]
    assert values[0] != values[2]


def test_only_seeds_that_all_have_are_compared(tmp_path: Path) -> None:
    tasks = [Task("booth", "random", 0, 6), Task("booth", "sobol", 0, 6), Task("booth", "random", 1, 6)]
    drive.run(tasks, tmp_path / "a.db")
    side = curves.grid(curves.load(tmp_path / "a.db"))
    assert (side.seeds, side.dropped) == ((0,), (1,))
    assert side.starts() == pytest.approx(side.values()[:, :, :, 0].max(0))
    drive.run([Task("wolfe", "random", 1, 6)], tmp_path / "a.db")
    with pytest.raises(ValueError, match=r"no seed has been run by all solvers on all problems: '\w+' lacks"):
        curves.grid(curves.load(tmp_path / "a.db"))


# --- Elsewhere --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_run_made_elsewhere_is_taken_in_whole(tmp_path: Path) -> None:
    task = replace(NOISY, budget=7)
    data = json.loads(json.dumps(away.job(task.to_data(), None)))
    file, store = tmp_path / "records.jsonl.gz", tmp_path / "a.db"
    for line in (json.dumps(data) + "\n", '{"task": {"prob'):
        with away.opened(file, "a") as out:
            out.write(line)
    assert take(away.lines(file), store) == (1, 0)
    assert take(away.lines(file), store) == (0, 1)
    assert drive.run([task], store).skipped == 1
    drive.run([task], tmp_path / "b.db")
    for here, there in zip(kept(task, str(store)).trials, kept(task, str(tmp_path / "b.db")).trials, strict=True):
        assert (dict(here.x), dict(here.y or {})) == (dict(there.x), dict(there.y or {}))
    taken, made = (curves.load(place)[0] for place in (store, tmp_path / "b.db"))
    for rule in task.rules:
        assert taken.recommended[rule] == pytest.approx(made.recommended[rule])
    drive.run([replace(task, budget=9)], store)
    assert len(kept(task, str(store)).trials) == 9


def test_a_run_survives_as_plain_data() -> None:
    run = perform(replace(BAZARAA, budget=7))
    again = from_data(json.loads(json.dumps(to_data(run))))
    assert [dict(trial.x) for trial in again.trials] == [dict(trial.x) for trial in run.trials]
    assert again.trials[-1].why.memory == json.loads(json.dumps(dict(run.trials[-1].why.memory)))
    assert (again.task, again.ended, again.initial) == (run.task, run.ended, run.initial)


@pytest.mark.slow
def test_a_plan_runs_where_there_is_nothing_but_numpy_and_scipy(tmp_path: Path) -> None:
    names = {"sqlalchemy", "click", "pandas", "matplotlib", "jaxtyping", "cma", "pybobyqa", "botorch", "beartype"}
    (tmp_path / "sitecustomize.py").write_text(f"import sys\nsys.modules.update(dict.fromkeys({names!r}))\n")
    (tmp_path / "torch.py").write_text("raise ModuleNotFoundError(name='torch')\n")  # SciPy reads None as loaded
    out = tmp_path / "records.jsonl"
    words = [
        "quick", "--part", "constrained", "noise-0.05", "--only", "bazaraa", "williams-otto", "snobfit-paper",
        "cma-es-paper", "--seeds", "1", "--budget", "7", "--workers", "1", "--out", str(out),
    ]  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT / 'src'}"}
    done = subprocess.run(
        [sys.executable, "-m", "pied.bench.away", *words], capture_output=True, text=True, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr
    assert "cma-es-paper is skipped: its library is not installed here" in done.stderr
    found = {(record["task"]["problem"], record["task"]["solver"]): record for record in away.lines(out)}
    assert set(found) == {("bazaraa", "snobfit-paper"), ("williams-otto", "snobfit-paper")}
    assert all(record["error"] == "" for record in found.values())
    assert set(found["williams-otto", "snobfit-paper"]["recommended"]) == {"naive", "asked"}
    assert take(away.lines(out), tmp_path / "a.db") == (2, 0)


def test_a_time_limit_leaves_what_is_done(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "records.jsonl"
    left = away.main(["quick", "--part", "constrained", "--limit", "0", "--workers", "1", "--out", str(out)])
    assert left > 0
    assert "0 runs done" in capsys.readouterr().err


# --- The shell --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with two solvers, two problems, two seeds."""
    folder = tmp_path_factory.mktemp("bench")
    plan = folder / "plan.toml"
    plan.write_text("problems = ['booth', 'bazaraa']\nsolvers = ['random', 'sobol']\nseeds = 2\nbudget = 12\n")
    done = CliRunner().invoke(bench, ["run", str(plan), "--workers", "1"], catch_exceptions=False)
    assert done.exit_code == 0
    assert "8 runs: 0 done before, 8 now (0 failed), 0 left" in done.output
    return folder / "plan.db"


def said(store: Path, *words: str) -> str:
    done = CliRunner().invoke(bench, [*words, "--store", str(store), "--workers", "1"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


FIGURES = (
    "illustration-acquisitions", "illustration-regions", "quantile-estimates", "levels", "profile-unconstrained",
    "profile-constrained", "data-profile-unconstrained", "data-profile-constrained", "regret-environmental",
    "regret-williams-otto", "regret-noise",
)  # fmt: skip


def blind(part: Part) -> Part:
    """The same part with random points for every solver, and a rule that needs no belief."""
    entries = tuple(replace(each, solver="random", settings={"rules": ("naive", "observed")}) for each in part.entries)
    return replace(part, entries=entries)


@pytest.mark.long
@pytest.mark.slow
def test_every_figure_of_the_paper_is_drawn_from_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["booth", "bazaraa", "environmental", "williams-otto"]
    small = Plan(tuple(blind(part) for part in paper.plan(quick=True).parts)).narrowed(names, seeds=1, budget=6)
    monkeypatch.setattr(paper, "plan", lambda quick: small)
    drive.run(small.tasks(), tmp_path / "a.db")
    page = paper.write(tmp_path / "a.db", tmp_path / "out", quick=True)
    assert (tmp_path / "out" / "paper.md").read_text() == page
    assert "quick: no claim rests on it" in page
    for name in FIGURES:
        for ending in (".svg", ".png"):
            assert (tmp_path / "out" / f"{name}{ending}").stat().st_size > 2000, name
    assert page.count("\n## ") == 12
    assert len((tmp_path / "out" / "profile-constrained-strict.csv").read_text().splitlines()) == 7
    drive.run([task for task in small.tasks() if task.solver_name == "cuqb-paper"], tmp_path / "b.db")
    part = paper.write(tmp_path / "b.db", tmp_path / "part", quick=True)
    assert "## Initial design and level" in part, "one cell of nine is drawn, too"
    assert "| `cuqb` |" not in part


@pytest.mark.slow
def test_a_second_run_of_a_plan_skips_everything(filled: Path) -> None:
    done = CliRunner().invoke(bench, ["run", str(filled.with_suffix(".toml")), "--workers", "1"])
    assert "8 done before, 0 now" in done.output


@pytest.mark.slow
def test_tables_profiles_regrets_and_comparisons_come_from_the_store(filled: Path, tmp_path: Path) -> None:
    assert "| `sobol` | never / never / never |" in said(filled, "table")
    shown = said(filled, "profile", "--tau", "0.1", "--out", str(tmp_path / "profile.png"))
    assert "| `random` |" in shown
    assert (tmp_path / "profile.svg").stat().st_size > 1000
    assert (tmp_path / "profile.png").stat().st_size > 1000
    assert "groups of d + 1" in said(filled, "profile", "--data", "--strict", "--only", "unconstrained")
    for measure in ("simple", "strict", "cumulative", "positive", "violation"):
        assert "| `random` |" in said(filled, "regret", "bazaraa", "--measure", measure)
    assert "regret at 12" in said(filled, "regret", "bazaraa", "--rule", "naive", "--out", str(tmp_path / "r.svg"))
    assert "| all | `sobol` | 4 |" in said(filled, "compare", "random", "--each")


@pytest.mark.parametrize("text", ["", "not a record", '{"a": 1}', "[1, 2]"])
def test_a_file_that_holds_no_runs_is_named_and_nothing_is_written(tmp_path: Path, text: str) -> None:
    (tmp_path / "r.jsonl").write_text(text)
    done = CliRunner().invoke(bench, ["import", str(tmp_path / "r.jsonl"), "--store", str(tmp_path / "a.db")])
    assert done.exit_code != 0
    assert "has no runs" in str(done.exception)
    assert not (tmp_path / "a.db").exists()


def test_a_slip_in_a_name_is_told_also_when_nothing_is_run(tmp_path: Path) -> None:
    words = ["paper", "--quick", "--no-run", "--only", "cuqb-papr", "--store", str(tmp_path / "a.db")]
    assert "Did you mean 'cuqb-paper'" in str(CliRunner().invoke(bench, words).exception)


def test_export_writes_a_line_per_evaluation(filled: Path, tmp_path: Path) -> None:
    said(filled, "export", str(tmp_path / "all.csv"), "--only", "booth")
    lines = (tmp_path / "all.csv").read_text().splitlines()
    assert lines[0].startswith("problem,noise,solver,structure,seed,evaluation")
    assert len(lines) == 1 + 2 * 2 * 12


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["profile", "--only", "boot"], "no runs of 'boot'. Did you mean 'booth'"),
        (["compare", "cuqb"], "no runs of 'cuqb'"),
        (["regret", "booth", "--noise", "0.5"], "there are no runs to compare"),
    ],
)
def test_a_slip_on_the_shell_is_named(filled: Path, words: list[str], message: str) -> None:
    done = CliRunner().invoke(bench, [*words, "--store", str(filled)])
    assert message in str(done.exception)


def test_every_command_and_option_is_described() -> None:
    page = (ROOT / "docs" / "reference.md").read_text()
    for name, command in bench.commands.items():
        row = next(line for line in page.splitlines() if line.startswith(f"| `pied bench {name}` |"))
        for parameter in command.params:
            word = parameter.opts[-1] if parameter.opts[-1].startswith("--") else str(parameter.name).upper()
            assert f"`{word}`" in row or f"`{parameter.opts[0]}`" in row, f"pied bench {name} {word} is not described"


def test_a_store_that_is_none_is_named(tmp_path: Path) -> None:
    done = CliRunner().invoke(bench, ["table", "--store", str(tmp_path / "none.db")])
    assert "there is no store" in str(done.exception)
    with pytest.raises(OSError, match="one SQLite file"):
        Ledger("postgresql+psycopg://localhost/none")
