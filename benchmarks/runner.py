# ruff: noqa: E402  the number of threads is read once, when torch is loaded
"""One run of one solver on one problem as plain data, and many of them side by side, resumable."""

import os

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"  # one thread a run: runs stand side by side, and timings mean the same on every machine

import argparse
import ast
import json
import logging
import multiprocessing
import re
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import report
import torch
from jaxtyping import Float64
from torch import Tensor

from pied import suite
from pied.errors import EvaluationError, SettingError, Status
from pied.problem import Problem
from pied.solvers import make
from pied.solvers.base import Solver
from pied.solvers.bayes import CUQB
from pied.study import Study
from pied.suite import Benchmark
from pied.suite.twins import rescaled
from pied.trial import State, Trial, feasible, spread

PENALTY = 1e5
"""rho of the penalized regret, natural units."""
STOP = 1e-9
"""A run ends when the raw regret of a strictly feasible sample falls below this times max(0.01, |f*|), and its
normalized regret below this: nothing that is still asked for can then be missing, in whatever units."""
RESCALED = {"x": 1e3, "y": 1e-4, "g": 1e5}
"""Units of the rescaled twins: powers of ten, another one on each floor."""
COST = {
    "environmental": 12.0,
    "ex724": 8.0,
    "g09": 6.0,
    "spring": 5.0,
    "calibration": 5.0,
    "styblinski-tang": 2.0,
    "powell": 2.0,
}
"""Rough time of a run, by problem or kind of draw, relative to an easy one: the longest go first, so that no processor
waits at the end."""
QUIET = 5.0
"""Seconds between two lines of progress where the line cannot be overwritten."""


@dataclass(frozen=True)
class Task:
    """One run, as data: with the same code it gives the same record."""

    problem: str
    """A name of the suite, or 'draw:SEED', 'draw:SEED:KIND', 'infeasible:NAME', 'jointly:NAME', 'rescaled:NAME'."""
    solver: str = "cuqb"
    """A solver as text, see `solver_of`."""
    seed: int = 0
    budget: int = 100
    structure: str = "full"
    stop: float | None = STOP
    """See `STOP`; None always spends the budget."""
    points: bool = False
    """Whether the record keeps the points."""


# --- From text to objects ---------------------------------------------------------------------------------------------


@lru_cache(maxsize=64)
def benchmark_of(problem: str, structure: str = "full") -> Benchmark:
    """Return the benchmark that a task names; found once in each process, because optima of draws are searched."""
    form, colon, rest = problem.partition(":")
    if not colon:
        made = suite.get(problem)
    elif form == "draw":
        seed, _, kind = rest.partition(":")
        made = suite.random(int(seed), kind or None, cache_in=optima())
    elif form in ("infeasible", "jointly"):
        made = suite.twin(rest, infeasible=True if form == "infeasible" else "jointly")
    elif form == "rescaled":
        made = rescaled(rest, **RESCALED)
    else:
        raise SettingError(f"a problem is a name, draw:, infeasible:, jointly: or rescaled:, got '{problem}'")
    return made.told(structure)


@lru_cache(maxsize=1)
def optima() -> Path:
    """Return the folder in which processes share the optima of draws; another one for other code."""
    return Path(tempfile.gettempdir()) / f"pied-optima-{report.code()}"


def solver_of(text: str) -> tuple[Solver, dict[str, Any]]:
    """Return a solver from text, and the words for its study.

    'cuqb', 'random', or a name with changed settings: 'cuqb:level=0.9,model.finalists=6,search.starts=12'. A dot goes
    into nested settings (`model` and `estimator` lie in the believer), `study.` into the words of the study; the value
    'paper' stands for what `CUQB.paper()` has there.
    """
    name, _, changes = text.partition(":")
    solver, words = make(name), {}
    for change in re.split(r",(?=[\w.]+=)", changes) if changes else ():
        where, equals, value = change.partition("=")
        if not equals:
            raise SettingError(f"a changed setting reads name=value, got '{change}' in '{text}'")
        path = where.strip().split(".")
        if path[0] == "study":
            words[path[1]] = ast.literal_eval(value)
            continue
        if path[0] in ("model", "estimator") and isinstance(solver, CUQB):
            path = ["believer", *path]
        solver = _changed(solver, path, value.strip(), text)
    return solver, words


def known_solver(text: str) -> str:
    """Return a solver's text after trying it, so that a slip shows before the sweep and not in each of its records."""
    try:
        solver_of(text)
    except (ValueError, SyntaxError) as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return text


def _changed(settings: Any, path: Sequence[str], value: str, text: str, paper: Any = None) -> Any:
    """Replace one setting in nested frozen settings."""
    name, *deeper = path
    if not is_dataclass(settings) or name not in {each.name for each in fields(settings)}:
        raise SettingError(f"there is no setting '{name}' in {type(settings).__name__}, as asked for in '{text}'")
    paper = paper or CUQB.paper()
    if deeper:
        new = _changed(getattr(settings, name), deeper, value, text, getattr(paper, name, None))
    else:
        new = getattr(paper, name) if value == "paper" else ast.literal_eval(value)
    return replace(settings, **{name: new})


# --- One run ----------------------------------------------------------------------------------------------------------


@dataclass
class Trace:
    """The curves of a run, one value after each evaluation; None while nothing strictly feasible is known."""

    benchmark: Benchmark
    problem: Problem
    regret: list[float | None] = field(default_factory=list)
    """Best strictly feasible normalized regret."""
    raw: list[float | None] = field(default_factory=list)
    """The same in units of the objective."""
    penalized: list[float | None] = field(default_factory=list)
    """Penalized regret of the best penalized sample."""
    recommended: list[float | None] = field(default_factory=list)
    """Penalized regret of the sample that the rule 'observed' recommends."""
    first: int | None = None
    """First strictly feasible evaluation."""
    observed: list[Tensor] = field(default_factory=list)
    at_observed: list[float | None] = field(default_factory=list)

    def add(self, trial: Trial) -> None:
        """Take in one evaluation."""
        if trial.state is State.TOLD:
            self._take(trial)
        else:
            for curve in (self.regret, self.raw, self.penalized, self.recommended):
                curve.append(curve[-1] if curve else None)

    def _take(self, trial: Trial) -> None:
        whole, known = self.benchmark.whole, self.benchmark.known
        X = torch.tensor([[float(value) for value in trial.x.values()]], dtype=torch.float64)
        Y = torch.tensor([[[float(value) for value in trial.y.values()]]], dtype=torch.float64)
        f = self.benchmark.truth(X)
        is_feasible = bool(self.benchmark.is_strictly_feasible(X))
        if is_feasible and self.first is None:
            self.first = len(self.regret) + 1
        best = self.benchmark.best if known is not None else None
        raw = None if best is None or not is_feasible else best - float(f[0, 0])
        penalized = None if best is None else best - float(whole.penalized(f, PENALTY)[0])
        self.observed.append(torch.stack([g.reshape(-1)[0] for g in self.problem.g(X, Y)]))
        self.at_observed.append(penalized)
        self.raw.append(_least(self.raw, raw))
        unit = None if best is None else abs(best - self.benchmark.median)
        self.regret.append(None if self.raw[-1] is None or unit is None else self.raw[-1] / unit)
        self.penalized.append(_least(self.penalized, penalized))
        self.recommended.append(self.at_observed[observed_row(self.problem, torch.stack(self.observed))])

    def is_solved(self, stop: float | None) -> bool:
        """Whether the optimum is found as well as anyone could ask."""
        if stop is None or not self.raw or self.raw[-1] is None:
            return False
        return self.raw[-1] < stop * max(0.01, abs(self.benchmark.best)) and self.regret[-1] < stop


def _least(curve: Sequence[float | None], value: float | None) -> float | None:
    last = curve[-1] if curve else None
    return min((each for each in (last, value) if each is not None), default=None)


def observed_row(problem: Problem, f: Float64[Tensor, "N k"]) -> int:
    """Return the row that the rule 'observed' recommends: the best feasible one, else the least violated.

    The study's own recommendation also fits a belief, for the bounds there; after every evaluation that is too slow.
    """
    fine = feasible(problem, f)
    if bool(fine.any()):
        return int(torch.where(fine, f[:, 0], -torch.inf).argmax())
    scale = spread(f[torch.isfinite(f).all(1)])
    score = -((-f[:, 1:] / scale[1:]).clamp_min(0.0).sum(1))
    return int(torch.nan_to_num(score, nan=-torch.inf).argmax())


class _Warnings(logging.Handler):
    """Counts the warnings of the package by their wording, and keeps them off the screen."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.counts: Counter[str] = Counter()

    def emit(self, record: logging.LogRecord) -> None:
        self.counts[str(record.msg)] += 1


def run(task: Task) -> dict[str, Any]:
    """Run a task and return its record; a run that raises is a record too."""
    began = time.perf_counter()
    record: dict[str, Any] = {"task": asdict(task)}
    warnings, logger = _Warnings(), logging.getLogger("pied")
    logger.addHandler(warnings)
    propagates, logger.propagate = logger.propagate, False
    try:
        record |= _run(task)
    except Exception as error:  # the sweep goes on, and the table shows what happened
        record |= {"error": f"{type(error).__name__}: {error}", "status": "RAISED"}
    finally:
        logger.removeHandler(warnings)
        logger.propagate = propagates
    return record | {"warnings": dict(warnings.counts), "wall": _rounded(time.perf_counter() - began)}


def _run(task: Task) -> dict[str, Any]:
    """Ask, evaluate, tell until the budget is spent, the optimum found or the problem called infeasible."""
    benchmark = benchmark_of(task.problem, task.structure)
    solver, words = solver_of(task.solver)
    study = Study(benchmark.problem, solver=solver, seed=task.seed, **words)
    trace = Trace(benchmark, benchmark.problem)
    error = None
    while study.used < task.budget and study.status is Status.RUNNING and not trace.is_solved(task.stop):
        try:
            trace.add(_evaluate(study))
        except Exception as raised:  # what was found before it raised still counts
            error = f"evaluation {study.used + 1}: {type(raised).__name__}: {raised}"
            break
    return _summary(task, study, trace, error)


def _evaluate(study: Study) -> Trial:
    """One turn of the study's own loop."""
    trial = study.ask()
    try:
        y = study.problem.evaluate(trial.x)
    except EvaluationError as error:
        return study.fail(trial, str(error))
    return study.tell(trial, study.problem.named_y(y))


def _summary(task: Task, study: Study, trace: Trace, error: str | None) -> dict[str, Any]:
    """Return all that the tables need, as plain data."""
    benchmark, trials = trace.benchmark, study.trials
    asked = [trial.why for trial in trials if trial.why.aim != "initial"]
    seconds = [why.seconds for why in asked]
    verdict = study.status is Status.INFEASIBLE
    summary: dict[str, Any] = {
        "is_feasible": benchmark.known is not None or benchmark.feasible_fraction > 0,
        "evaluations": len(trace.regret),
        "initial": study.initial,
        "status": "RAISED" if error else "FINISHED" if study.status is Status.RUNNING else study.status.name,
        "solved": trace.is_solved(task.stop),
        "verdict": len(trace.regret) if verdict else None,
        "doubts": sum(why.margin is not None and why.margin < 0 for why in asked),
        "first_feasible": trace.first,
        "seconds": {
            "median": _rounded(statistics.median(seconds)) if seconds else None,
            "max": _rounded(max(seconds)) if seconds else None,
            "total": _rounded(sum(seconds)),
        },
        "aims": dict(Counter(trial.why.aim for trial in trials)),
        "rungs": dict(Counter(why.rung for why in asked if why.rung != "plain")),
        "failed": sum(trial.state is State.FAILED for trial in trials),
        "error": error,
    }
    for name in ("regret", "raw", "penalized", "recommended"):
        summary[name] = [_rounded(value) for value in getattr(trace, name)]
    if task.points:
        X = torch.tensor([list(trial.x.values()) for trial in trials], dtype=torch.float64)
        summary["points"] = benchmark.problem.to_unit(X).tolist()
    return summary


def _rounded(value: float | None) -> float | None:
    """Six digits are enough for a table, and keep the files small."""
    return None if value is None or not abs(value) < float("inf") else float(f"{value:.6g}")


# --- Many runs --------------------------------------------------------------------------------------------------------


def run_all(
    tasks: Iterable[Any],
    workers: int = 1,
    out: Path | None = None,
    *,
    work: Callable[[Any], dict[str, Any]] = run,
    any_code: bool = False,
) -> list[dict[str, Any]]:
    """Do all tasks, longest first, and return their records in the order of the tasks.

    Args:
        tasks: What to do: dataclasses of plain values.
        workers: Processes; 1 stays in this one.
        out: A file of one record a line. Records are appended as they come; tasks found there are not done again.
        work: What to do with a task.
        any_code: Whether records of other versions of the package count as done.
    """
    origin = report.made()
    wanted = {report.key(asdict(task)): task for task in tasks}
    found = report.read(out) if out is not None else []
    usable = (each for each in found if any_code or each.get("made", {}).get("code") == origin["code"])
    done = {name: each for each in usable if (name := report.key(each["task"])) in wanted}
    todo = sorted((task for name, task in wanted.items() if name not in done), key=cost, reverse=True)
    if done:
        print(f"{len(done)} of {len(wanted)} tasks were done before", file=sys.stderr)
    progress = _Progress(todo)
    with _appending(out) as write:
        for task, record in _results(todo, workers, work):
            record["made"] = origin
            write(json.dumps(record) + "\n")
            done[report.key(asdict(task))] = record
            progress.step(task)
    return [done[name] for name in wanted]


def cost(task: Any) -> float:
    """Return about how long a task takes, in any unit."""
    last = task.problem.rpartition(":")[2]  # the name, or the kind of a draw
    hardness = COST.get(last, 1.5 if task.problem.startswith("draw:") else 1.0)
    pace = {"random": 0.02, "sobol": 0.02, "cuqb-paper": 1.5}.get(getattr(task, "solver", ""), 1.0)
    return hardness * pace * getattr(task, "budget", 1)


def prepare() -> None:
    """Make this process one of many: one thread, whatever the library thinks of the machine."""
    torch.set_num_threads(1)


def _results(
    todo: Sequence[Any], workers: int, work: Callable[[Any], dict[str, Any]]
) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Yield tasks with their records in the order of completion."""
    if workers <= 1 or len(todo) <= 1:
        prepare()
        yield from ((task, work(task)) for task in todo)
        return
    context = multiprocessing.get_context("spawn")  # a fork would copy the threads of torch in an unknown state
    with ProcessPoolExecutor(min(workers, len(todo)), mp_context=context, initializer=prepare) as pool:
        futures: dict[Future[dict[str, Any]], Any] = {pool.submit(work, task): task for task in todo}
        try:
            for future in as_completed(futures):
                yield futures[future], future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


class _appending:
    """A file that takes one record a line, or nothing when there is no file."""

    def __init__(self, path: Path | None) -> None:
        self.path = path

    def __enter__(self) -> Callable[[str], None]:
        if self.path is None:
            return lambda text: None
        self.path.parent.mkdir(parents=True, exist_ok=True)
        is_cut = self.path.exists() and not self.path.read_bytes().endswith(b"\n") and self.path.stat().st_size > 0
        self.file = self.path.open("a")
        if is_cut:
            self.file.write("\n")

        def write(text: str) -> None:
            self.file.write(text)
            self.file.flush()

        return write

    def __exit__(self, *_: object) -> None:
        if self.path is not None:
            self.file.close()


class _Progress:
    """A line on the error stream: how many are done, and how long the rest will take."""

    def __init__(self, todo: Sequence[Any]) -> None:
        self.count, self.all = 0, len(todo)
        self.spent, self.total = 0.0, sum(cost(task) for task in todo)
        self.began = self.shown = time.monotonic()

    def step(self, task: Any) -> None:
        """Show one more."""
        self.count += 1
        self.spent += cost(task)
        now = time.monotonic()
        overwrites = sys.stderr.isatty()
        if not overwrites and now - self.shown < QUIET and self.count < self.all:
            return
        self.shown = now
        left = (now - self.began) * (self.total - self.spent) / self.spent
        line = f"{self.count} of {self.all} runs, {_clock(now - self.began)} gone, about {_clock(left)} left"
        if overwrites:
            print(f"\r{line}   ", end="" if self.count < self.all else "\n", file=sys.stderr)
        else:
            print(line, file=sys.stderr)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}"
