"""Benchmark tables, as Markdown for readers and as CSV for programs."""

import csv
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy import ndarray

from pied.bench import measures, profiles
from pied.bench.compare import Comparison, compared
from pied.bench.curves import Curve, Grid
from pied.bench.ledger import Entry

TOLERANCES = (1e-2, 1e-3, 1e-4)
"""Of the normalized regret of the best strictly feasible evaluation."""
SHOWN_AS_ZERO = 1e-12
"""A smaller normalized regret is shown as '~0': it is rounding error, or within the tolerance of feasibility."""


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return a Markdown table."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join("| " + " | ".join(str(cell).replace("|", "/") for cell in line) + " |" for line in lines)


def small(value: float | int) -> str:
    """Return a regret as text."""
    if math.isnan(value):
        return "-"
    return "none" if math.isinf(value) else "~0" if value < SHOWN_AS_ZERO else f"{value:.0e}"


def count(value: float | int) -> str:
    """Return a number of evaluations or seconds as text."""
    return "-" if math.isnan(value) else "never" if math.isinf(value) else f"{value:.3g}"


def quartile_text(values: ndarray, write: Callable[[float], str] = small) -> str:
    """Return median and quartiles over the first axis as text."""
    if not len(values):
        return "-"
    low, middle, high = (write(float(value)) for value in measures.quartiles(np.asarray(values, dtype=np.float64)))
    return middle if low == middle == high else f"{middle} ({low} .. {high})"


def heading(title: str, entries: Iterable[Entry], command: str = "") -> str:
    """Return a title and the origin of the results: version, code, seeds, budget, machine, date, time."""
    entries = list(entries)

    def every(word: str, join: str = "; ") -> str:
        return join.join(dict.fromkeys(str(entry.made.get(word, "?")) for entry in entries))

    seeds = sorted({entry.task.seed for entry in entries})
    budgets = sorted({entry.task.budget for entry in entries})
    lines = [
        f"# {title}",
        "",
        f"- version {every('version')}, code {every('code')}",
        *([f"- command: `{command}`"] if command else []),
        f"- {len(entries)} runs, seeds {numbers(seeds)}, budget {numbers(budgets)}",
        f"- machine: {every('machine', ' / ')}",
        f"- date: {every('date')}",
        f"- time: {sum(entry.spent for entry in entries) / 3600:.2f} core-hours",
    ]
    return "\n".join(lines)


def numbers(values: Sequence[int]) -> str:
    """Return whole numbers as text; consecutive ones as a range."""
    whole = len(values) > 2 and list(values) == list(range(values[0], values[-1] + 1))
    return f"{values[0]} to {values[-1]}" if whole else ", ".join(str(value) for value in values)


def evaluations_table(grid: Grid, tolerances: Sequence[float] = TOLERANCES) -> str:
    """Return a table, solver x problem, of median evaluations until the strict regret is below each tolerance."""
    regrets = grid.strict()
    marks = [measures.order_statistic(np.moveaxis(measures.until(regrets, t), 2, 0), 0.5) for t in tolerances]
    rows = [
        [f"`{solver}`", *(" / ".join(count(float(mark[w, p])) for mark in marks) for p in range(len(grid.problems)))]
        for w, solver in enumerate(grid.solvers)
    ]
    return table([f"solver: evaluations to {_tolerances(tolerances)}", *grid.problems], rows)


def among(grid: Grid, solvers: Sequence[str], tolerance: float) -> ndarray:
    """Return the paper's profile among some of the solvers, relative to the best of these; NaN for the others."""
    rows = [place for place, solver in enumerate(grid.solvers) if solver in solvers]
    shown = np.full((len(grid.solvers), grid.budget), np.nan)
    times = profiles.paper_times(grid.values()[rows], grid.starts(), tolerance)
    shown[rows] = profiles.profile(times, grid.budget)
    return shown


def solved_table(grid: Grid, tolerances: Sequence[float] = TOLERANCES, some: Sequence[str] = ()) -> str:
    """Return a table of the problems that each solver solves by each measure, and its time per proposal.

    Args:
        grid: The curves.
        tolerances: Of the strict measure; the first one is tau of the paper's test.
        some: Solvers that are also compared among themselves by the paper's test.
    """
    length, regrets, times = grid.budget, grid.strict(), grid.seconds()
    paper = among(grid, grid.solvers, tolerances[0])
    eight = among(grid, some, tolerances[0]) if some else None
    half = max(length // 4, 1)
    columns = [
        "solver", f"paper's test at {half} / {length}",
        *([f"among the paper's {len(some)}"] if some else []),
        *(f"strict, {t:.0e}".replace("e-0", "e-") for t in tolerances),
        "seconds per suggestion", "runs that failed",
    ]  # fmt: skip
    rows = []
    for w, solver in enumerate(grid.solvers):
        failed = sum(bool(curve.error) for (name, _, _), curve in grid.curves.items() if name == solver)
        counts = [float(profiles.solved(regrets, t)[w, -1]) for t in tolerances]
        rows.append([
            f"`{solver}`", _shares(paper[w, half - 1], paper[w, -1]),
            *([] if eight is None else [_shares(eight[w, half - 1], eight[w, -1])]),
            *(f"{each:.1f}" for each in counts),
            f"{times[solver]:.2g}", failed,
        ])  # fmt: skip
    return table(columns, rows)


def _shares(first: float, last: float) -> str:
    return "-" if math.isnan(last) else f"{first:.0%} / {last:.0%}"


def regret_table(grid: Grid, regrets: ndarray, horizons: Sequence[int]) -> str:
    """Return a table of median regret with quartiles after some numbers of evaluations, for one problem."""
    places = [t for t in horizons if t <= grid.budget] or [grid.budget]
    rows = [
        [f"`{solver}`", *(quartile_text(regrets[w, 0, :, t - 1]) for t in places)]
        for w, solver in enumerate(grid.solvers)
    ]
    return table(["solver", *(f"regret at {t}" for t in places)], rows)


def comparison_table(found: Sequence[Comparison], reference: str) -> str:
    """Return a table of paired tests; a ratio below 1 and many wins favour the reference."""
    columns = ["problem", f"`{reference}` against", "pairs", "ratio of regrets", "wins / losses", "p (Holm)"]
    rows = [
        [
            each.problem,
            f"`{each.rival}`",
            each.pairs,
            f"{each.ratio:.2g}",
            f"{each.wins} / {each.losses}",
            f"{each.p:.2g}",
        ]
        for each in found
    ]
    return table(columns, rows)


def comparisons(grid: Grid, reference: str, *, each: bool = False) -> list[Comparison]:
    """Compare one solver with each other by the final strict regret, optionally for each problem."""
    problems = list(grid.problems) if each else []
    return compared(grid.strict()[..., -1], list(grid.solvers), problems, grid.solvers.index(reference))


def failures(entries: Iterable[Entry]) -> str:
    """Return one line for each task that raised an error."""
    return "\n".join(f"- {entry.task.name}: {entry.error}" for entry in entries if entry.error)


# --- CSV --------------------------------------------------------------------------------------------------------------

COLUMNS = (
    "problem", "noise", "solver", "structure", "seed", "evaluation", "objective", "violation", "is_feasible",
    "strict_regret", "penalized_naive", "seconds",
)  # fmt: skip


def export(curves: Iterable[Curve], file: Path) -> int:
    """Write one CSV line per evaluation; return the number of lines."""
    lines = 0
    with file.open("w", newline="") as opened:
        writer = csv.writer(opened)
        writer.writerow(COLUMNS)
        for curve in curves:
            for line in _lines(curve):
                writer.writerow(line)
                lines += 1
    return lines


def _lines(curve: Curve) -> Iterator[list[Any]]:
    task = curve.task
    strict, worst = curve.strict(), measures.violation(curve.f).max(-1, initial=0.0)
    naive = curve.penalized("naive") if "naive" in curve.recommended else np.full(len(curve.f), np.nan)
    for t in range(len(curve.f)):
        yield [
            task.problem, task.noise, task.solver_name, task.structure, task.seed, t + 1, repr(float(curve.f[t, 0])),
            f"{worst[t]:.9g}", int(curve.is_feasible[t]), f"{strict[t]:.9g}", f"{naive[t]:.9g}",
            f"{curve.seconds[t]:.4g}",
        ]  # fmt: skip


def write_curves(file: Path, names: Sequence[str], curves: ndarray, digits: int = 5) -> None:
    """Write curves to a CSV file, one column per curve and one line per evaluation."""
    with file.open("w", newline="") as opened:
        writer = csv.writer(opened)
        writer.writerow(["evaluation", *names])
        for t in range(curves.shape[-1]):
            writer.writerow([t + 1, *(f"{value:.{digits}g}" for value in curves[..., t])])


def _tolerances(tolerances: Sequence[float]) -> str:
    return " / ".join(f"{t:.0e}".replace("e-0", "e-") for t in tolerances)
