"""Run a plan on a machine that has only numpy and scipy: studies in memory, one line of JSON per task.

    python -m pied.bench.away PLAN.toml --part unconstrained --out records.jsonl.gz --limit 540 --workers 16

The plan is a TOML file, or 'paper' or 'quick' for the paper's. Tasks are ordered by seed, so that a time limit leaves
complete seeds over all problems. Tasks that are in the file already are skipped. `pied bench import records.jsonl.gz`
imports the lines into a store.
"""

import argparse
import gzip
import importlib
import importlib.util
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from io import TextIOWrapper
from pathlib import Path
from typing import Any

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def job(task: dict[str, Any], _: Any) -> dict[str, Any]:
    """Perform a task in memory; return it as plain data, with each rule's recommendation after each evaluation."""
    import numpy as np

    from pied.bench.curves import recommendations, rows_of
    from pied.bench.plan import Task
    from pied.bench.runs import perform, to_data

    case = perform(Task.from_data(task))
    data = to_data(case)
    X = np.array(data["x"], dtype=np.float64)
    points = {rule: recommendations(case, rule) for rule in case.task.rules} if len(X) else {}
    data["recommended"] = {}
    for rule, at in points.items():
        rows = rows_of(at, X)
        data["recommended"][rule] = at.tolist() if rows is None else rows.tolist()
    return data


def opened(file: Path, mode: str) -> TextIOWrapper:
    """Open a text file, compressed if its name ends in .gz."""
    return gzip.open(file, f"{mode}t") if file.suffix == ".gz" else file.open(mode)  # type: ignore[return-value]


def lines(file: Path) -> Iterator[dict[str, Any]]:
    """Yield the lines of a file as data; an incomplete line is skipped."""
    if not file.exists():
        return
    with opened(file, "r") as text:
        try:
            for line in text:
                try:
                    yield json.loads(line)
                except json.JSONDecodeError:
                    continue
        except (EOFError, OSError):
            return


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return how many tasks are left."""
    given = _given(arguments)
    for name in THREADS:
        os.environ[name] = "1"
    from pied.bench.drive import Pace, each

    plan = _plan(given.plan).narrowed(given.only, given.seeds, given.budget, given.part)
    done = {_name(record) for record in lines(given.out)}
    tasks = plan.tasks()
    absent = {name for name, task in {task.solver_name: task for task in tasks}.items() if not _is_installed(task)}
    todo = [task for task in tasks if task.name not in done and task.solver_name not in absent]
    for solver in sorted(absent):
        _say(f"{solver} is skipped: its library is not installed here")
    _say(f"{len(done)} runs done before, {len(todo)} to do with {given.workers} processes")
    until = time.monotonic() + given.limit
    pace, said = Pace(todo), 0.0
    by_name = {task.name: task for task in todo}
    given.out.parent.mkdir(parents=True, exist_ok=True)
    for item, record, error in each([task.to_data() for task in todo], job, None, given.workers, until=until):
        step = pace.step(by_name[_name({"task": item})], error)
        if record is None:
            _say(f"{_name({'task': item})}: {error}")
            continue
        with opened(given.out, "a") as out:
            out.write(json.dumps(record) + "\n")
        if time.monotonic() - said > given.every or step.done == step.all:
            said = time.monotonic()
            _say(str(step))
    left = pace.all - pace.done
    _say(f"{pace.done} runs done, {left} left")
    return left


def _given(arguments: Sequence[str] | None) -> Any:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plan", help="a TOML file, 'paper' or 'quick'")
    parser.add_argument("--part", nargs="+", default=[], help="parts of the plan; default all")
    parser.add_argument("--only", nargs="+", default=[], help="problems, sets or solvers")
    parser.add_argument("--seeds", type=int, help="how many, from 0")
    parser.add_argument("--budget", type=int, help="evaluations of each run")
    parser.add_argument("--out", type=Path, default=Path("records.jsonl.gz"), help="file to which runs are appended")
    parser.add_argument(
        "--limit", type=float, default=1e9, metavar="SECONDS", help="stop after this time; unfinished runs are lost"
    )
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--every", type=float, default=15.0, metavar="SECONDS", help="between lines of progress")
    return parser.parse_args(arguments)


def _is_installed(task: Any) -> bool:
    """Tell whether the library of a task's solver is installed."""
    from pied.bench.plan import solver_of
    from pied.bench.runs import benchmark_for
    from pied.errors import MissingExtra
    from pied.rng import Stream

    try:
        solver_of(task.solver)[0].start(benchmark_for(task).problem, Stream(0)).close()
    except MissingExtra:
        return False
    return True


def _plan(text: str) -> Any:
    from pied.bench.plan import Plan

    if text in ("paper", "quick"):
        from pied.bench.paper import plan

        return plan(quick=text == "quick")
    return Plan.read(text)


def _name(record: dict[str, Any]) -> str:
    from pied.bench.plan import Task

    return Task.from_data(record["task"]).name


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    importlib.import_module("pied.bench.away").main()  # by its own name, so that worker processes find `job`
