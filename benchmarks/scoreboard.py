"""The test of every change to the method: random problems and a fixed third of the suite, in about ten minutes.

    python benchmarks/scoreboard.py                      # the same random problems every time, to compare commits
    python benchmarks/scoreboard.py --fresh 7            # other random problems
    python benchmarks/scoreboard.py --never-seen         # new random problems, for a final check
    python benchmarks/scoreboard.py --solvers all --limit 540 --out rivals.jsonl   # every solver, whole seeds

The table is appended, with date and commit, to benchmarks/results/scoreboard.md.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import report
from report import Record, count, quantile, solved, table
from runner import Task, known_solver, run_all
from suite_sweep import TOLERANCES, by_solver, is_false, names_of, problems_table, troubles

from pied import suite
from pied.bench.compare import compared
from pied.bench.pages import comparison_table
from pied.bench.plan import benchmark_of, solver_of
from pied.errors import MissingExtra
from pied.rng import Stream, fresh_seed
from pied.solvers import registry

THIRD = ("rastrigin", "powell", "styblinski-tang", "ex212", "g09", "ex724", "williams-otto")
"""A third of the suite: oscillating, stiff, many basins, white constraints, small feasible sets (two), applied."""
SOLVERS = ("cuqb", "random")
RIVALS = tuple(name for name in registry if not name.endswith("-paper"))
"""What `--solvers all` runs: every solver at its best."""
DRAWS = 20
SEEDS = 3
BUDGET = 40
SAME = 1e-7
"""Runs end below this regret; smaller ones count as equal."""
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


def installed(solvers: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the solvers whose libraries are installed, and a line for each of the others."""
    here, lines = [], []
    problem = benchmark_of(THIRD[0], "full").problem
    for text in solvers:
        try:
            solver_of(text)[0].start(problem, Stream(0)).close()
        except MissingExtra as error:
            lines.append(f"`{text}` is left out: {error.need}")
        else:
            here.append(text)
    return here, lines


def whole_seeds(records: Sequence[Record], tasks: Sequence[Task]) -> list[Record]:
    """Return the results of seeds that every solver has performed on every problem."""
    need = Counter(task.seed for task in tasks)
    done = Counter(record["task"]["seed"] for record in records)
    return [record for record in records if done[record["task"]["seed"]] == need[record["task"]["seed"]]]


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


def paired(records: Sequence[Record], reference: str) -> str:
    """Compare the reference with each other solver in pairs, at half the budget and at the budget."""
    solvers = list(by_solver(records))
    if reference not in solvers or len(solvers) == 1:
        return ""
    problems = list(dict.fromkeys(r["task"]["problem"] for r in records))
    seeds = sorted({r["task"]["seed"] for r in records})
    budget = max(r["task"]["budget"] for r in records)
    blocks = []
    for end in (budget // 2, budget):
        regrets = np.full((len(solvers), len(problems), len(seeds)), np.inf)
        for r in records:
            at = (
                solvers.index(r["task"]["solver"]),
                problems.index(r["task"]["problem"]),
                seeds.index(r["task"]["seed"]),
            )
            seen = [regret for regret in (r.get("regret") or [])[:end] if regret is not None]
            regrets[at] = max(min(seen, default=np.inf), SAME)
        found = compared(regrets, solvers, [], solvers.index(reference))
        blocks += [f"After {end} evaluations; regrets below {SAME:g} are the same:", comparison_table(found, reference)]
    return "\n\n".join(blocks)


def section(records: Sequence[Record], number: int, absent: Sequence[str] = ()) -> str:
    """Return what is appended to the scoreboard."""
    budget = max(record["task"]["budget"] for record in records)
    first = records[0].get("made") or report.made()
    blocks = [
        report.heading(f"{first['date']}, commit {first['commit']}", records, level=2),
        f"Solved to a strictly feasible normalized regret within {budget} evaluations: sum over problems of the "
        f"fraction of runs. Draws {number}.",
        board(records),
    ]
    trouble, pairs = troubles(records), paired(records, SOLVERS[0])
    return "\n\n".join([*blocks, *([pairs] if pairs else []), *absent, *([trouble] if trouble else [])]) + "\n"


def _solver(text: str) -> str:
    return text if text == "all" else known_solver(text)


def main(words: Sequence[str] | None = None) -> str:
    """Run the command line and return what was appended."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--solvers", nargs="+", type=_solver, default=list(SOLVERS), metavar="SOLVER", help="names, or 'all'"
    )
    parser.add_argument("--draws", type=int, default=DRAWS, help=f"random problems; default {DRAWS}")
    parser.add_argument("--problems", nargs="*", default=list(THIRD), metavar="NAME", help="of the suite")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--budget", type=int, default=BUDGET)
    parser.add_argument("--fresh", type=int, default=1, metavar="N", help="which draws; default 1, always the same")
    parser.add_argument("--never-seen", action="store_true", help="draws by a number from the operating system")
    parser.add_argument("--workers", type=int, default=report.cores())
    parser.add_argument("--limit", type=float, metavar="SECONDS", help="then the seeds that are whole are shown")
    parser.add_argument("--out", type=Path, help="also keep the records here, and go on from them")
    parser.add_argument("--table", type=Path, default=report.RESULTS / "scoreboard.md", help="what is appended to")
    parser.add_argument("--details", action="store_true", help="also print each solver problem by problem")
    given: Any = parser.parse_args(words)
    number = fresh_seed() if given.never_seen else given.fresh
    solvers, absent = installed(RIVALS if "all" in given.solvers else given.solvers)
    for line in absent:
        print(line, file=sys.stderr)
    tasks = tasks_of(draws_of(number, given.draws), names_of(given.problems), solvers, given.seeds, given.budget)
    if not tasks:
        raise SystemExit("There is nothing to run: ask for draws or problems, and for solvers that are installed.")
    done = run_all(tasks, given.workers, given.out, limit=given.limit)
    records = whole_seeds(done, tasks)
    if not records:
        kept = f"they are kept in {given.out}: run it again" if given.out else "give --out FILE to keep them"
        raise SystemExit(
            f"No seed is whole after {given.limit:.0f} s: {len(done)} of {len(tasks)} runs are done, {kept}."
        )
    text = section(records, number, absent)
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
