# ruff: noqa: E402  the number of threads is read once, when NumPy is loaded
"""Runs of one solver on one problem as plain data, many in parallel, resumable: a small form of `pied bench`.

`pied bench` keeps complete studies in a store. A sweep keeps one line of curves per run, and repeats runs of other
code.
"""

import os

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"  # one thread per run, because runs are parallel and timings should be comparable

import argparse
import json
import logging
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import report

from pied.bench import measures
from pied.bench.curves import arrays_of
from pied.bench.drive import Pace, each
from pied.bench.plan import Task as BenchTask
from pied.bench.plan import benchmark_of as benchmark_of
from pied.bench.plan import cost_of
from pied.bench.plan import solver_of as solver_of
from pied.bench.runs import FAILED, perform
from pied.records.trial import State
from pied.suite import Benchmark

STOP = 1e-9
"""A run ends when the regret of a strictly feasible evaluation is below this, both normalized and relative to
max(0.01, |f*|): it then passes every tolerance of the tables."""
NOTE_SECONDS = 5.0
"""Between lines of progress, if the line cannot be overwritten."""


@dataclass(frozen=True)
class Task:
    """One run, as data; the same code gives the same result."""

    problem: str
    """A name of the suite, or 'draw:SEED', 'draw:SEED:KIND', 'infeasible:NAME', 'jointly:NAME', 'rescaled:NAME'."""
    solver: str = "cuqb"
    """A solver as text, see `solver_of`."""
    seed: int = 0
    budget: int = 100
    structure: str = "full"
    stop: float | None = STOP
    """See `STOP`; None: always spend the budget."""
    points: bool = False
    """Whether the result contains the points."""

    def run(self) -> BenchTask:
        """Return the task of `pied.bench`."""
        return BenchTask(
            self.problem, self.solver, self.seed, self.budget, self.structure, stop=self.stop, rules=("observed",)
        )


def known_solver(text: str) -> str:
    """Return a solver's text after checking it, so that a mistake shows before the sweep starts."""
    try:
        solver_of(text)
    except (ValueError, SyntaxError) as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return text


# --- One run ----------------------------------------------------------------------------------------------------------


class _Warnings(logging.Handler):
    """Counts the warnings of the package by message, and does not print them."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.counts: Counter[str] = Counter()

    def emit(self, record: logging.LogRecord) -> None:
        self.counts[str(record.msg)] += 1


def run(task: Task) -> dict[str, Any]:
    """Perform a task and return its result; an error is a result, too."""
    began = time.perf_counter()
    record: dict[str, Any] = {"task": asdict(task)}
    warnings, logger = _Warnings(), logging.getLogger("pied")
    logger.addHandler(warnings)
    propagates, logger.propagate = logger.propagate, False
    try:
        record |= _summary(task)
    except Exception as error:  # the sweep continues, and the table shows the error
        record |= {"error": f"{type(error).__name__}: {error}", "status": "RAISED"}
    finally:
        logger.removeHandler(warnings)
        logger.propagate = propagates
    return record | {"warnings": dict(warnings.counts), "wall": _rounded(time.perf_counter() - began)}


def _summary(task: Task) -> dict[str, Any]:
    """Perform a task, and return what the tables need, as plain data."""
    made = perform(task.run())
    if made.error and not made.trials:
        return {"error": made.error, "status": "RAISED"}
    benchmark, trials = benchmark_of(task.problem, task.structure), made.trials
    asked = [trial.why for trial in trials if trial.why.aim != "initial"]
    curves = _curves(benchmark, arrays_of(made))
    summary: dict[str, Any] = {
        "is_feasible": benchmark.known is not None or benchmark.feasible_fraction > 0,
        "evaluations": len(trials),
        "initial": made.initial,
        "status": "RAISED" if made.ended == FAILED else made.ended,
        "solved": task.stop is not None and len(trials) < task.budget and made.ended == "FINISHED",
        "verdict": len(trials) if made.ended == "INFEASIBLE" else None,
        "doubts": sum(why.margin is not None and why.margin < 0 for why in asked),
        "first_feasible": next((t for t, value in enumerate(curves.pop("fine"), 1) if value), None),
        "seconds": {
            "median": _rounded(statistics.median(made.seconds)) if asked else None,
            "max": _rounded(max(made.seconds)) if asked else None,
            "total": _rounded(sum(made.seconds)),
        },
        "aims": dict(Counter(trial.why.aim for trial in trials)),
        "rungs": dict(Counter(why.rung for why in asked if why.rung != "plain")),
        "failed": sum(trial.state is State.FAILED for trial in trials),
        "error": f"evaluation {len(trials) + 1}: {made.error}" if made.error else None,
    }
    summary |= {name: [_rounded(float(value)) for value in curve] for name, curve in curves.items()}
    if task.points:
        X = np.array([list(trial.x.values()) for trial in trials])
        summary["points"] = benchmark.problem.to_unit(X).tolist()
    return summary


def _curves(benchmark: Benchmark, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return one value after each evaluation: infinite while no strictly feasible point or no optimum is known.

    'regret': best strictly feasible normalized regret; 'raw': in units of the objective; 'penalized': penalized regret
    of the best penalized evaluation; 'recommended': of the evaluation that the rule 'observed' recommends.
    """
    f, fine = arrays["f"], arrays["is_feasible"]
    if benchmark.known is None:
        nothing = np.full(len(f), np.inf)
        return {"fine": fine, "regret": nothing, "raw": nothing, "penalized": nothing, "recommended": nothing}
    raw = benchmark.best - measures.best_feasible(f[:, 0], fine)
    return {
        "fine": fine,
        "regret": raw / abs(benchmark.best - benchmark.median),
        "raw": raw,
        "penalized": measures.simple_regret(measures.penalized(f), benchmark.best),
        "recommended": benchmark.best - measures.penalized(arrays["rule observed"]),
    }


def _rounded(value: float | None) -> float | None:
    """Round to six digits, which keeps the files small."""
    return None if value is None or not abs(value) < float("inf") else float(f"{value:.6g}")


# --- Many runs --------------------------------------------------------------------------------------------------------


def run_all(
    tasks: Iterable[Any],
    workers: int = 1,
    out: Path | None = None,
    *,
    work: Callable[[Any], dict[str, Any]] = run,
    any_code: bool = False,
    limit: float | None = None,
) -> list[dict[str, Any]]:
    """Perform all tasks, the longest first, and return their results in the order of the tasks.

    Args:
        tasks: Dataclasses of plain values.
        workers: Processes; 1 stays in this process.
        out: A file of one record a line. Records are appended as they come; tasks found there are not done again.
        work: Performs one task.
        any_code: Whether records of other versions of the package count as done.
        limit: Seconds after which what is under way is left, and only what is done returned. Tasks then go seed by
            seed, so that whole seeds are done first.
    """
    origin, until = report.made(), None if limit is None else time.monotonic() + limit
    wanted = {report.key(asdict(task)): task for task in tasks}
    found = report.read(out) if out is not None else []
    usable = (each for each in found if any_code or each.get("made", {}).get("code") == origin["code"])
    done = {name: each for each in usable if (name := report.key(each["task"])) in wanted}
    todo = sorted((task for name, task in wanted.items() if name not in done), key=cost, reverse=True)
    if limit is not None:
        todo.sort(key=lambda task: task.seed)
    if done:
        print(f"{len(done)} of {len(wanted)} tasks were done before", file=sys.stderr)
    progress = _Progress(todo)
    write = _appending(out)
    for task, record, error in each(todo, _worked, work, min(workers, max(len(todo), 1)), until=until):
        record = record if record is not None else {"task": asdict(task), "error": error, "status": "RAISED"}
        record["made"] = origin
        write(json.dumps(record) + "\n")
        done[report.key(asdict(task))] = record
        progress.step(task)
    return [done[name] for name in wanted if name in done]


def _worked(task: Any, work: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
    return work(task)


def cost(task: Any) -> float:
    """Return the rough time of a task, in an arbitrary unit."""
    return cost_of(task.problem, getattr(task, "solver", ""), getattr(task, "budget", 1))


def _appending(path: Path | None) -> Callable[[str], None]:
    """Return what appends a line to a file, or does nothing when there is none; a line that was cut off is ended."""
    if path is None:
        return lambda text: None
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and path.stat().st_size > 0 and not path.read_bytes().endswith(b"\n"):
        with path.open("a") as file:
            file.write("\n")

    def write(text: str) -> None:
        with path.open("a") as file:
            file.write(text)

    return write


class _Progress:
    """A line on the error stream: finished tasks, and the remaining time."""

    def __init__(self, todo: Sequence[Any]) -> None:
        self.pace, self.shown = Pace(todo, cost), time.monotonic()

    def step(self, task: Any) -> None:
        """Show one more finished task."""
        step, now = self.pace.step(task), time.monotonic()
        is_last, overwrites = step.done == step.all, sys.stderr.isatty()
        if not overwrites and now - self.shown < NOTE_SECONDS and not is_last:
            return
        self.shown = now
        if overwrites:
            print(f"\r{step}   ", end="\n" if is_last else "", file=sys.stderr)
        else:
            print(step, file=sys.stderr)
