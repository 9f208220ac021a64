"""Run the six problems in every installed library, and write the comparison page.

    pip install -r benchmarks/peers/requirements.txt      # in an environment of its own
    python benchmarks/peers/run.py                        # resumes; writes benchmarks/results/peers.json and the page
    python benchmarks/peers/run.py --page                 # only the page, docs/comparison.md
    python benchmarks/peers/run.py --record other.json    # into another record, no page: on a second machine, say
    python benchmarks/peers/run.py --merge other.json     # take its runs into the record, then the page

Each run has a process, one thread and a limit of processor time of its own. A run that was cut off keeps its
evaluations; a larger `--limit` repeats it.
"""

import argparse
import datetime
import importlib
import importlib.metadata
import json
import math
import os
import platform
import signal
import subprocess
import sys
import time
import warnings
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

try:
    import resource
except ImportError:  # only Unix limits processor time
    resource = None  # type: ignore[assignment]

import numpy as np
from problems import TASKS, Task

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
RECORD = ROOT / "benchmarks" / "results" / "peers.json"
LIBRARIES = ("pied", "botorch", "ax", "optuna", "bofire", "baybe")
LIMIT = 300.0
"""Processor seconds for a run, after the library is loaded: a busy machine cuts nothing off."""
HANGING = 10.0
"""How many times the limit a run may take by the clock."""
ABSENT = 3
"""Exit code of a run whose library is not installed."""


# --- One run, in a process of its own ---------------------------------------------------------------------------------


class Plant:
    """A black box that writes down every evaluation, and adds the noise of the problem."""

    def __init__(self, task: Task, seed: int) -> None:
        self.task, self.chance, self.began = task, np.random.default_rng(seed), time.process_time()

    def __call__(self, x: Any) -> dict[str, float]:
        """Evaluate one point."""
        plain = {name: each if isinstance(each, str) else float(each) for name, each in dict(x).items()}
        spent = time.process_time() - self.began
        print(json.dumps({"x": plain, "seconds": round(spent, 4)}), flush=True)
        clean = self.task.blackbox(plain)
        noise = self.task.noise
        noisy = {name: y + noise.get(name, 0.0) * self.chance.standard_normal() for name, y in clean.items()}
        self.began = time.process_time()
        return noisy


def child(library: str, problem: str, seed: int, limit: float) -> None:
    """Run one library on one problem; print its evaluations, and what it said."""
    try:
        module = importlib.import_module(f"with_{library}")
    except ImportError as error:
        print(json.dumps({"absent": str(error)}))
        sys.exit(ABSENT)
    warnings.simplefilter("ignore")
    print(json.dumps({"version": importlib.metadata.version(module.PACKAGE)}), flush=True)
    if resource is not None:
        used = math.ceil(time.process_time() + limit)
        resource.setrlimit(resource.RLIMIT_CPU, (used, used + 5))
    task = TASKS[problem]
    verdict = getattr(module, problem)(Plant(task, seed), task.budget, seed)
    print(json.dumps({"verdict": verdict}), flush=True)


def performed(library: str, problem: str, seed: int, limit: float) -> dict[str, Any]:
    """Start a run, wait until it ends or the limit is reached, and return its record."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    command = [sys.executable, str(HERE / "run.py"), "--child", library, problem, str(seed), str(limit)]
    path = os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH")]))
    done: dict[str, Any] = {"library": library, "problem": problem, "seed": seed, "limit": limit}
    try:
        ended = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=HANGING * limit,
            env=os.environ | threads | {"PYTHONPATH": path},
        )
        out, said, code = ended.stdout, ended.stderr, ended.returncode
    except subprocess.TimeoutExpired as error:
        out, said, code = (error.stdout or b"").decode(), "", None
    lines = [json.loads(line) for line in out.splitlines() if line.startswith("{") and line.endswith("}")]
    evaluations = [each for each in lines if "x" in each]
    for each in lines:
        done |= each if "x" not in each else {}
    out_of_time = (None, -getattr(signal, "SIGXCPU", signal.SIGTERM), -signal.SIGTERM)
    done["ended"] = "limit" if code in out_of_time else {0: "done", ABSENT: "absent"}.get(code, "error")
    if done["ended"] == "error":
        done["error"] = said.strip().splitlines()[-1] if said.strip() else f"exit code {code}"
    done["seconds"] = [each["seconds"] for each in evaluations]
    task = TASKS[problem]
    if task.has_solution:
        done["regrets"] = [_plain(task.regret(each["x"])) for each in evaluations]
    done["date"] = datetime.date.today().isoformat()
    return done


def _plain(value: float) -> float | None:
    """Return a number as JSON has it: nothing for infinity."""
    return value if math.isfinite(value) else None


# --- All runs ---------------------------------------------------------------------------------------------------------


def sweep(
    libraries: list[str], problems: list[str], *, seeds: int, jobs: int, limit: float, until: float, path: Path
) -> None:
    """Perform what is missing in the record, and write the record after each run."""
    record = read(path)
    known = {
        (each["library"], each["problem"], each["seed"])
        for each in record["runs"]
        if each["ended"] == "done" or (each["ended"] == "limit" and each["limit"] >= limit)
    }
    wanted = [(a, b, seed) for seed in range(seeds) for b in problems for a in libraries if (a, b, seed) not in known]
    began = time.monotonic()

    def work(task: tuple[str, str, int]) -> dict[str, Any] | None:
        return performed(*task, limit) if time.monotonic() - began < until else None

    with ThreadPoolExecutor(jobs) as pool:
        for future in as_completed([pool.submit(work, each) for each in wanted]):
            if (run := future.result()) is not None:
                take(record, run)
                record["machine"] = f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}"
                write(record, path)
                print(f"{run['problem']:12} {run['library']:8} seed {run['seed']}: {run['ended']}, "
                      f"{len(run['seconds'])} evaluations, {sum(run['seconds']):.0f} s", flush=True)  # fmt: skip


def take(record: dict[str, Any], run: dict[str, Any]) -> None:
    """Put a run into the record, in the place of an earlier one of the same library, problem and seed."""
    same = (run["library"], run["problem"], run["seed"])
    record["runs"] = [e for e in record["runs"] if (e["library"], e["problem"], e["seed"]) != same] + [run]


def merge(path: Path) -> None:
    """Take the runs of another record into the record; its machine is then named, since most runs are from there."""
    record, other = read(RECORD), read(path)
    for run in other["runs"]:
        if run["ended"] != "absent":
            take(record, run)
    write(record | {"machine": other["machine"]}, RECORD)


def read(path: Path) -> dict[str, Any]:
    """Return a record, empty at first."""
    return json.loads(path.read_text()) if path.exists() else {"runs": []}


def write(record: dict[str, Any], path: Path) -> None:
    """Write the record, one run a line."""
    order = lambda e: (list(TASKS).index(e["problem"]), LIBRARIES.index(e["library"]), e["seed"])  # noqa: E731
    runs = sorted(record["runs"], key=order)
    head = json.dumps({name: each for name, each in record.items() if name != "runs"})
    lines = ",\n".join(json.dumps(each) for each in runs)
    path.write_text(head[:-1] + (", " if len(head) > 2 else "") + '"runs": [\n' + lines + "\n]}\n")


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--libraries", nargs="+", choices=LIBRARIES, default=list(LIBRARIES))
    parser.add_argument("--problems", nargs="+", choices=list(TASKS), default=list(TASKS))
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--limit", type=float, default=LIMIT, help="processor seconds for one run")
    parser.add_argument("--until", type=float, default=math.inf, help="start no run after so many seconds")
    parser.add_argument(
        "--record", type=Path, default=RECORD, help="the record to resume; the page needs the usual one"
    )
    parser.add_argument("--merge", type=Path, help="take the runs of this record into the usual one")
    parser.add_argument("--page", action="store_true", help="only write the page")
    parser.add_argument("--child", nargs=4, metavar=("LIBRARY", "PROBLEM", "SEED", "LIMIT"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        library, problem, seed, limit = given.child
        child(library, problem, int(seed), float(limit))
        return
    if given.merge:
        merge(given.merge)
    elif not given.page:
        sweep(
            given.libraries,
            given.problems,
            seeds=given.seeds,
            jobs=given.jobs,
            limit=given.limit,
            until=given.until,
            path=given.record,
        )
    if given.record == RECORD:
        from page import write_page

        write_page(read(RECORD))


if __name__ == "__main__":
    main()
