"""Every change to the method is judged here: random problems and a fixed third of the suite, in about ten minutes.

    python benchmarks/scoreboard.py                      # the same draws every time: two commits can be compared
    python benchmarks/scoreboard.py --fresh 7            # other draws
    python benchmarks/scoreboard.py --never-seen         # draws that nobody has looked at, for a last word

The table is appended, with date and commit, to benchmarks/results/scoreboard.md.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import report
from report import Record, count, quantile, solved, table
from runner import Task, known_solver, run_all
from suite_sweep import TOLERANCES, by_solver, is_false, names_of, problems_table, troubles

from pied import suite
from pied.rng import fresh_seed

THIRD = ("rastrigin", "powell", "styblinski-tang", "ex212", "g09", "ex724", "williams-otto")
"""A third of the suite: oscillating, stiff, of many basins, with white constraints, hardly feasible (two), applied."""
SOLVERS = ("cuqb", "random")
DRAWS = 20
SEEDS = 3
BUDGET = 40
STRIDE = 1000
"""Draws N use the seeds from N x STRIDE on."""


def draws_of(number: int, draws: int) -> list[str]:
    """Return random problems by name, the kinds in turn."""
    kinds = list(suite.kinds)
    seeds = range(number * STRIDE, number * STRIDE + draws)
    return [f"draw:{seed}:{kinds[i % len(kinds)]}" if kinds else f"draw:{seed}" for i, seed in enumerate(seeds)]


def tasks_of(
    draws: Sequence[str], problems: Sequence[str], solvers: Sequence[str], seeds: int, budget: int
) -> list[Task]:
    """Return all runs of the scoreboard."""
    return [Task(p, s, seed, budget) for s in solvers for p in (*draws, *problems) for seed in range(seeds)]


def board(records: Sequence[Record]) -> str:
    """Return the one table: a row for each solver on the draws and on the third of the suite."""
    budget = max(record["task"]["budget"] for record in records)
    columns = ["solver", "problems", *(f"{tol:.0e}".replace("e-0", "e-") for tol in TOLERANCES)]
    columns += ["first feasible", "seconds per suggestion", "longest", "false verdicts", "raised"]
    rows = []
    for name, group in by_solver(records).items():
        for title, part in (("draws", True), ("suite", False)):
            runs = [r for r in group if r["task"]["problem"].startswith("draw:") is part]
            if not runs:
                continue
            problems = len({r["task"]["problem"] for r in runs})
            times = [r["seconds"] for r in runs if r.get("seconds") and r["seconds"]["median"] is not None]
            rows.append(
                [
                    f"`{name}`",
                    f"{problems} {title}",
                    *(f"{solved(runs, tol, budget):.1f}" for tol in TOLERANCES),
                    report.spread([r.get("first_feasible") for r in runs], count),
                    f"{quantile([t['median'] for t in times], 0.5):.2g}" if times else "-",
                    f"{max(t['max'] for t in times):.2g}" if times else "-",
                    sum(is_false(r) for r in runs),
                    sum(bool(r.get("error")) for r in runs),
                ]
            )
    return table(columns, rows)


def section(records: Sequence[Record], number: int) -> str:
    """Return what is appended to the scoreboard."""
    budget = max(record["task"]["budget"] for record in records)
    first = records[0].get("made") or report.made()
    blocks = [
        report.heading(f"{first['date']}, commit {first['commit']}", records, level=2),
        f"Solved to a strictly feasible normalized regret within {budget} evaluations: sum over problems of the "
        f"fraction of runs. Draws {number}.",
        board(records),
    ]
    trouble = troubles(records)
    return "\n\n".join([*blocks, *([trouble] if trouble else [])]) + "\n"


def main(words: Sequence[str] | None = None) -> str:
    """Run the command line and return what was appended."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--solvers", nargs="+", type=known_solver, default=list(SOLVERS), metavar="SOLVER")
    parser.add_argument("--draws", type=int, default=DRAWS, help=f"random problems; default {DRAWS}")
    parser.add_argument("--problems", nargs="*", default=list(THIRD), metavar="NAME", help="of the suite")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--budget", type=int, default=BUDGET)
    parser.add_argument("--fresh", type=int, default=1, metavar="N", help="which draws; default 1, always the same")
    parser.add_argument("--never-seen", action="store_true", help="draws by a number from the operating system")
    parser.add_argument("--workers", type=int, default=report.cores())
    parser.add_argument("--out", type=Path, help="also keep the records here, and go on from them")
    parser.add_argument("--table", type=Path, default=report.RESULTS / "scoreboard.md", help="what is appended to")
    parser.add_argument("--details", action="store_true", help="also print each solver problem by problem")
    given: Any = parser.parse_args(words)
    number = fresh_seed() if given.never_seen else given.fresh
    tasks = tasks_of(draws_of(number, given.draws), names_of(given.problems), given.solvers, given.seeds, given.budget)
    records = run_all(tasks, given.workers, given.out)
    if not records:
        raise SystemExit("There is nothing to run: ask for draws or problems.")
    text = section(records, number)
    given.table.parent.mkdir(parents=True, exist_ok=True)
    before = given.table.read_text() if given.table.exists() else "# Scoreboard\n"
    given.table.write_text(f"{before.rstrip()}\n\n{text}")
    print(text)
    if given.details:
        for name, group in by_solver(records).items():
            print(f"### `{name}`\n\n{problems_table(group)}\n")
    return text


if __name__ == "__main__":
    main()
