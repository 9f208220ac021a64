"""The suite x seeds x solvers: how many problems are solved, how fast, and how reliable verdicts are.

    python benchmarks/suite_sweep.py --solvers cuqb cuqb-paper --seeds 10 --budget 100 --out sweep.jsonl

Interrupted sweeps continue where they stopped. Three parts: 'suite' (regret curves), 'infeasible' (evaluations until
the verdict), 'rescaled' (the same points in other units).
"""

import argparse
import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import report
from report import Record, count, quantile, small, solved, table
from runner import Task, known_solver, run_all, solver_of

from pied import suite
from pied.suite import twins

TOLERANCES = (1e-2, 1e-3, 1e-4, 1e-6)
HORIZONS = (20, 40, 60, 100)
DETAILED = (40, 100)
"""Evaluations at which each problem is shown."""
BUDGETS = {"suite": 100, "infeasible": 60, "rescaled": 40}
SAME = 1e-6
"""Two points of the unit cube within this distance are the same."""


# --- What to run ------------------------------------------------------------------------------------------------------


def names_of(words: Iterable[str]) -> list[str]:
    """Return problems from names and sets, each once."""
    names = list(dict.fromkeys(name for word in words for name in suite.sets.get(word, (word,))))
    for name in names:
        suite.get(name)  # raises for an unknown name and suggests a similar one
    return names


def suite_tasks(problems: Sequence[str], solvers: Sequence[str], seeds: int, budget: int, structure: str) -> list[Task]:
    """Return every problem with every solver and seed."""
    return [Task(p, s, seed, budget, structure) for s in solvers for p in problems for seed in range(seeds)]


def infeasible_tasks(
    problems: Sequence[str], solvers: Sequence[str], seeds: int, budget: int, structure: str
) -> list[Task]:
    """Return the infeasible twins, for the solvers with a verdict."""
    judges = [text for text in solvers if hasattr(solver_of(text)[0], "verdict")]
    cases = [f"infeasible:{name}" for name in twins.INFEASIBLE if name in problems]
    cases += [f"jointly:{name}" for name in twins.JOINTLY if name in problems]
    return suite_tasks(cases, judges, seeds, budget, structure)


def rescaled_tasks(
    problems: Sequence[str], solvers: Sequence[str], seeds: int, budget: int, structure: str
) -> list[Task]:
    """Return every problem in its own and in other units, with points, without early stopping."""
    both = [form for name in problems for form in (name, f"rescaled:{name}")]
    return [Task(p, s, seed, budget, structure, None, True) for s in solvers for p in both for seed in range(seeds)]


PARTS: dict[str, Callable[..., list[Task]]] = {
    "suite": suite_tasks,
    "infeasible": infeasible_tasks,
    "rescaled": rescaled_tasks,
}


def part_of(record: Record) -> str:
    """Return which part of the sweep a record belongs to."""
    if record["task"]["points"]:
        return "rescaled"
    return "infeasible" if record["task"]["problem"].startswith(("infeasible:", "jointly:")) else "suite"


# --- Tables -----------------------------------------------------------------------------------------------------------


def by_solver(records: Iterable[Record]) -> dict[str, list[Record]]:
    """Group records by solver and structure; runs that raised before the first evaluation have no curves."""
    groups: dict[str, list[Record]] = {}
    for record in records:
        task = record["task"]
        name = task["solver"] + ("" if task["structure"] == "full" else f" ({task['structure']})")
        groups.setdefault(name, []).append({"regret": [], "raw": [], "penalized": [], "recommended": [], **record})
    return groups


def by_problem(records: Iterable[Record]) -> dict[str, list[Record]]:
    """Group records by problem."""
    groups: dict[str, list[Record]] = {}
    for record in records:
        groups.setdefault(record["task"]["problem"], []).append(record)
    return groups


def horizons(records: Iterable[Record], wanted: Sequence[int] = HORIZONS) -> list[int]:
    """Return the evaluations to report at: those within every budget, else the budget itself."""
    budget = min(record["task"]["budget"] for record in records)
    return [t for t in wanted if t <= budget] or [budget]


def solved_table(records: Sequence[Record]) -> str:
    """Return how many problems each solver solves, by evaluations and tolerance."""
    at = horizons(records)
    columns = ["solver", "problems"] + [f"{t}: {tol:.0e}" for t in at for tol in TOLERANCES]
    rows = [
        [f"`{name}`", len(by_problem(group)), *(f"{solved(group, tol, t):.1f}" for t in at for tol in TOLERANCES)]
        for name, group in by_solver(records).items()
    ]
    return table([column.replace("e-0", "e-") for column in columns], rows)


def sets_table(records: Sequence[Record]) -> str:
    """Return how many problems of each set are solved to 1e-4, and by the stricter and the paper's measure."""
    at = horizons(records)
    places = " / ".join(str(t) for t in at)
    columns = ["solver", *(f"{which}, 1e-4 at {places}" for which in ("unconstrained", "constrained and applied"))]
    columns += [f"raw / max(0.01, f*) below 1e-4 at {places}", f"penalized below 1e-2 at {places}"]
    rows = []
    for name, group in by_solver(records).items():
        free = [r for r in group if r["task"]["problem"] in suite.sets["unconstrained"]]
        bound = [r for r in group if r["task"]["problem"] not in suite.sets["unconstrained"]]
        cells = [" / ".join(f"{solved(part, 1e-4, t):.1f}" for t in at) for part in (free, bound)]
        relative = [{**r, "relative": _relative(r)} for r in group]
        cells.append(" / ".join(f"{solved(relative, 1e-4, t, 'relative'):.1f}" for t in at))
        cells.append(" / ".join(f"{solved(group, 1e-2, t, 'penalized'):.1f}" for t in at))
        rows.append([f"`{name}`", *cells])
    return table(columns, rows)


def _relative(record: Record) -> list[float | None]:
    """Return the raw curve relative to the optimum."""
    name = record["task"]["problem"]
    known = suite[name].known if name in suite else None
    unit = max(0.01, abs(known.value)) if known is not None else 1.0
    return [None if value is None else value / unit for value in record["raw"]]


def problems_table(records: Sequence[Record]) -> str:
    """Return one solver's runs, one row per problem: medians with quartiles."""
    at = horizons(records, DETAILED)
    columns = ["problem", "runs", *(f"regret at {t}" for t in at), "evaluations to 1e-4", "first feasible"]
    columns += ["seconds per suggestion", "longest", "false verdicts", "doubts", "not plain", "raised"]
    rows = []
    for name, group in by_problem(records).items():
        rows.append(
            [
                name,
                len(group),
                *(report.spread([report.at(r["regret"], t) for r in group]) for t in at),
                report.spread([report.until(r, 1e-4) for r in group], count),
                count(quantile([r.get("first_feasible") for r in group], 0.5)),
                *_times(group),
                sum(is_false(r) for r in group),
                sum(r.get("doubts", 0) for r in group),
                sum(sum(r.get("rungs", {}).values()) for r in group),
                sum(bool(r.get("error")) for r in group),
            ]
        )
    return table(columns, rows)


def _times(group: Sequence[Record]) -> tuple[str, str]:
    """Median over runs of the median, and the longest of all."""
    times = [r["seconds"] for r in group if r.get("seconds") and r["seconds"]["median"] is not None]
    if not times:
        return "-", "-"
    return f"{quantile([t['median'] for t in times], 0.5):.2g}", f"{max(t['max'] for t in times):.2g}"


def is_false(record: Record) -> bool:
    """Tell whether a feasible problem was called infeasible."""
    return record.get("verdict") is not None and record["is_feasible"]


def infeasible_table(records: Sequence[Record]) -> str:
    """Return after how many evaluations, initial design included, each infeasible problem was called so."""
    columns = ["problem", "initial", *(f"`{name}`: median (least .. most), declared" for name in by_solver(records))]
    rows = []
    for problem, group in by_problem(records).items():
        cells = []
        for runs in by_solver(records).values():
            ends = [r.get("verdict") for r in runs if r["task"]["problem"] == problem]
            declared = [end for end in ends if end is not None]
            span = f" ({min(declared)} .. {max(declared)})" if declared else ""
            cells.append(f"{count(quantile(ends, 0.5))}{span}, {len(declared)} of {len(ends)}" if ends else "-")
        rows.append([problem, group[0].get("initial", "-"), *cells])
    return table(columns, rows)


def difference(a: Record, b: Record) -> tuple[float, int | None]:
    """Return the largest distance of two runs in the unit cube, and the first evaluation at which they differ."""
    if "points" not in a or "points" not in b:
        return math.inf, 1
    gaps = [max(abs(p - q) for p, q in zip(x, z, strict=True)) for x, z in zip(a["points"], b["points"], strict=False)]
    if len(a["points"]) != len(b["points"]):
        gaps.append(1.0)
    return max(gaps, default=0.0), next((t for t, gap in enumerate(gaps, 1) if gap > SAME), None)


def rescaled_table(records: Sequence[Record]) -> str:
    """Return the largest difference between runs in their own and in other units."""
    columns = ["solver", "problem", "runs", "largest difference", "runs with the same points", "first difference at"]
    rows = []
    for name, group in by_solver(records).items():
        runs = {(r["task"]["problem"], r["task"]["seed"]): r for r in group}
        for problem in dict.fromkeys(p for p, _ in runs if not p.startswith("rescaled:")):
            pairs = [(r, runs.get((f"rescaled:{p}", seed))) for (p, seed), r in runs.items() if p == problem]
            found = [difference(a, b) for a, b in pairs if b is not None]
            if found:
                same = sum(gap <= SAME for gap, _ in found)
                first = min((t for _, t in found if t is not None), default="-")
                rows.append([f"`{name}`", problem, len(found), f"{max(g for g, _ in found):.0e}", same, first])
    return table(columns, rows)


def figures_table(records: Sequence[Record], infeasible: Sequence[Record]) -> str:
    """Return the main figures and their targets."""
    names = list(by_solver(records))
    rows = []

    def row(text: str, target: str, value: Callable[[list[Record]], str]) -> None:
        rows.append([text, target, *(value(by_solver(records)[name]) for name in names)])

    def median(problem: str, curve: str, t: int) -> Callable[[list[Record]], str]:
        return lambda group: small(quantile([report.at(r[curve], t) for r in of(group, problem)], 0.5))

    def of(group: list[Record], problem: str) -> list[Record]:
        return [r for r in group if r["task"]["problem"] == problem]

    def counts(t: int) -> Callable[[list[Record]], str]:
        return lambda group: " / ".join(f"{solved(group, tol, t):.1f}" for tol in (1e-3, 1e-4, 1e-6))

    budget = min(record["task"]["budget"] for record in records)
    if budget >= 30:
        row("Williams-Otto, penalized regret at 30", "<= 1e-4", median("williams-otto", "penalized", 30))
        row("the same of the recommendation", "<= 1e-4", median("williams-otto", "recommended", 30))
        row("Williams-Otto, strictly feasible regret at 30", "<= 1e-4", median("williams-otto", "raw", 30))
        row("environmental, regret at 30", "<= 1e-9", median("environmental", "raw", 30))
    if budget >= 40:
        row("solved to 1e-3 / 1e-4 / 1e-6 at 40", "19.5 / 18.5 / 17.5; stretch 21 / 20 / 19", counts(40))
    if budget >= 100:
        row("the same at 100", "20.5 / 20 / 19; stretch 22 / 22 / 21", counts(100))
    for name, most in (("g09", 25), ("ex724", 35)):
        row(
            f"first strictly feasible evaluation, {name}",
            f"<= {most}",
            lambda group, name=name: count(quantile([r.get("first_feasible") for r in of(group, name)], 0.5)),
        )
    groups = by_solver(infeasible)
    for case, text in (("infeasible", "X_A <= 0.02"), ("jointly", "X_A <= 0.075 and X_G <= 0.035")):
        ends = [[r.get("verdict") for r in of(groups.get(name, []), f"{case}:williams-otto")] for name in names]
        rows.append([f"Williams-Otto, {text}: declared after", "<= 15", *(count(quantile(each, 0.5)) for each in ends)])
    row("false verdicts", "0", lambda group: str(sum(is_false(r) for r in group)))
    return table(["figure (medians)", "target", *(f"`{name}`" for name in names)], rows)


def troubles(records: Iterable[Record]) -> str:
    """Return one line for each run that raised, failed numerically or gave a false verdict."""
    lines = []
    for record in records:
        task = record["task"]
        words = [f"raised: {record['error']}"] if record.get("error") else []
        words += [f"FALSE VERDICT after {record['verdict']} evaluations"] if is_false(record) else []
        words += [f"{rung} ({times} times)" for rung, times in record.get("rungs", {}).items()]
        if words:
            lines.append(f"- {task['problem']}, `{task['solver']}`, seed {task['seed']}: " + "; ".join(words))
    return "\n".join(lines)


def page(records: Sequence[Record]) -> str:
    """Return the whole report."""
    parts = {name: [record for record in records if part_of(record) == name] for name in PARTS}
    blocks = [report.heading("The suite", records)]
    if parts["suite"]:
        blocks += [
            "Strictly feasible normalized regret of the best sample; a count is the sum over problems of the fraction "
            "of runs that got there. Medians and quartiles are order statistics, the worse one between two.",
            "## Problems solved",
            solved_table(parts["suite"]),
            sets_table(parts["suite"]),
            "## Figures",
            figures_table(parts["suite"], parts["infeasible"]),
        ]
        for name, group in by_solver(parts["suite"]).items():
            blocks += [f"## Problem by problem: `{name}`", problems_table(group)]
    if parts["infeasible"]:
        blocks += ["## Problems without a solution", infeasible_table(parts["infeasible"])]
    if parts["rescaled"]:
        blocks += ["## In other units", rescaled_table(parts["rescaled"])]
    trouble = troubles(records)
    return "\n\n".join([*blocks, *(["## Troubles", trouble] if trouble else [])]) + "\n"


# --- The command ------------------------------------------------------------------------------------------------------


def main(words: Sequence[str] | None = None) -> str:
    """Run the command line and return the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", nargs="+", default=["paper"], metavar="NAME", help="sets or names; default paper")
    parser.add_argument(
        "--solvers",
        nargs="+",
        type=known_solver,
        default=["cuqb"],
        metavar="SOLVER",
        help="for instance cuqb:level=0.9",
    )
    parser.add_argument("--seeds", type=int, default=10, help="how many, from 0; default 10")
    parser.add_argument("--budget", type=int, help=f"evaluations of a run; default {BUDGETS}")
    parser.add_argument("--structure", default="full", choices=("full", "paper", "black"))
    parser.add_argument("--parts", nargs="+", choices=tuple(PARTS), help="default suite infeasible")
    parser.add_argument("--rescaled", action="store_true", help="the same as --parts rescaled")
    parser.add_argument("--workers", type=int, default=report.cores(), help="processes; default all processors")
    parser.add_argument("--out", type=Path, default=report.RESULTS / "suite.jsonl", help="records, appended")
    parser.add_argument(
        "--table", type=Path, help="file of the report; by default that of the records with the suffix .md"
    )
    parser.add_argument("--no-run", action="store_true", help="report on the records that are there")
    parser.add_argument("--any-code", action="store_true", help="count records of other code as done")
    given: Any = parser.parse_args(words)
    if given.no_run:
        records = report.read(given.out)
    else:
        parts = given.parts or (["rescaled"] if given.rescaled else ["suite", "infeasible"])
        problems = names_of(given.problems)
        tasks: list[Task] = []
        for part in parts:
            budget = given.budget or BUDGETS[part]
            tasks += PARTS[part](problems, given.solvers, given.seeds, budget, given.structure)
        records = run_all(tasks, given.workers, given.out, any_code=given.any_code)
    return report.published(records, page, given.table or given.out.with_suffix(".md"))


if __name__ == "__main__":
    main()
