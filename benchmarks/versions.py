"""Processor seconds of a suggestion, beside those of an earlier version: whole runs, one thread, by turns.

    python benchmarks/versions.py eee7064^                 # the page, from a clone with its history
    python benchmarks/versions.py v0.2.0 --problems rosen-suzuki draw:3:gp --seeds 2

Each version makes the problems of its own suite, which must have them. What is counted is the time within `ask` after
the initial design; how long each process takes to start does not count.
"""

import argparse
import io
import os
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROBLEMS = (
    "rosen-suzuki", "williams-otto", "draw:3:gp", "draw:3:kink", "draw:3:cliff", "draw:101:ridge",
    "staged-pumps", "burn-out", "breakthrough", "phase-limit",
)  # fmt: skip
WANTED = 1.3
"""Times as long as before, at most."""


def seconds(problem: str, seed: int, budget: int | None = None) -> float:
    """Return the mean processor seconds of a suggestion in one run, by the `pied` that is imported here."""
    from pied import suite
    from pied.study import Study

    form, _, draw = problem.partition("draw:")
    number, _, kind = draw.partition(":")
    benchmark = suite.random(int(number), kind or None) if draw else suite.get(form)
    spent: list[float] = []
    with Study(benchmark.problem, seed=seed) as study:
        for _ in range(budget or 24 + 8 * benchmark.whole.d):
            began = time.process_time()
            trial = study.ask()
            if trial.why.aim != "initial":
                spent.append(time.process_time() - began)
            study.tell(trial, study.problem.named_y(study.problem.evaluate(trial.x)), anyway=True)
    return statistics.fmean(spent)


def unpacked(commit: str, folder: Path) -> Path:
    """Write the sources of a commit to a folder; return where they are."""
    done = subprocess.run(["git", "archive", commit, "src"], cwd=ROOT, capture_output=True)
    if done.returncode:
        raise SystemExit(f"git has no '{commit}' with sources here: {done.stderr.decode().strip()}")
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as tar:
        tar.extractall(folder, filter="data")
    return folder / "src"


def measured(source: Path, problem: str, seed: int) -> float:
    """Return the seconds of a suggestion with the sources in a folder, in a process of its own."""
    words = [sys.executable, str(Path(__file__)), "--alone", problem, str(seed)]
    given = {**os.environ, "PYTHONPATH": str(source), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(words, capture_output=True, text=True, check=True, env=given)
    return float(done.stdout.split()[-1])


def page(commit: str, found: dict[str, list[tuple[float, float]]]) -> str:
    """Return the page: for each problem the median seconds of both versions, and their ratio."""
    import report

    rows, within = [], 0
    for problem, pairs in found.items():
        before, now = (statistics.median(each) for each in zip(*pairs, strict=True))
        rows.append([problem, f"{before:.3f}", f"{now:.3f}", f"{now / before:.2f}"])
        within += now <= WANTED * before
    made = report.made()
    return "\n".join(
        [
            "# Seconds of a suggestion, beside an earlier version",
            "",
            f"- version {made['version']}, commit {made['commit']}, beside {commit}",
            f"- command: `{made['command']}`",
            f"- machine: {made['machine']}",
            f"- date: {made['date']}",
            "",
            "Processor seconds, whole runs of 24 + 8d evaluations, after the initial design, one thread. Wanted: at",
            f"most {WANTED} times as long; {within} of {len(rows)} are.",
            "",
            report.table(["problem", "before", "now", "ratio"], rows),
            "",
        ]
    )


def main(words: Sequence[str] | None = None) -> None:
    """Run the command line; write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("commit", nargs="?", help="the earlier version")
    parser.add_argument("--problems", nargs="+", default=PROBLEMS)
    parser.add_argument("--seeds", type=int, default=1, help="how many, from 1")
    parser.add_argument("--page", type=Path, default=ROOT / "benchmarks" / "results" / "versions.md")
    parser.add_argument("--alone", nargs=2, metavar=("PROBLEM", "SEED"), help=argparse.SUPPRESS)
    given = parser.parse_args(words)
    if given.alone:
        print(seconds(given.alone[0], int(given.alone[1])))
        return
    if not given.commit:
        parser.error("name the earlier version: a commit or a tag")
    found: dict[str, list[tuple[float, float]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        sources = unpacked(given.commit, Path(folder)), ROOT / "src"
        for problem in given.problems:
            for seed in range(1, given.seeds + 1):
                before, now = (measured(source, problem, seed) for source in sources)
                found.setdefault(problem, []).append((before, now))
            print(problem, found[problem], flush=True)
    given.page.write_text(page(given.commit, found))


if __name__ == "__main__":
    main()
