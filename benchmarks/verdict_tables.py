"""The tables of `verdicts.py`: tests of feasibility and coverage of bounds, from its results."""

from collections.abc import Iterable, Sequence
from typing import Any

import report
from report import Record, count, quantile, table

PARTS = ("tests", "noisy", "infeasible", "coverage")
FREE = ("booth", "rastrigin", "colville", "friedman", "rosenbrock", "styblinski-tang", "powell")
"""Problems of the suite without constraints."""
LEVEL = 0.95
NARROW = 1e-6
"""Of the benchmark scale: narrower bounds are compared separately, because rounding and the nugget matter there."""


def page(records: Sequence[Record]) -> str:
    """Return the tables."""
    fine = [record for record in records if "error" not in record]
    parts = {part: [record for record in fine if record["task"]["part"] == part] for part in PARTS}
    blocks = [report.heading("Verdicts and bounds in practice", records)]
    if parts["tests"]:
        blocks += [
            "## Feasible problems",
            tests_text(parts["tests"], "before the first feasible sample"),
            tests_table(parts["tests"]),
        ]
    if parts["noisy"]:
        blocks += [
            "## Feasible problems, noisy",
            tests_text(parts["noisy"], "in whole runs"),
            tests_table(parts["noisy"]),
        ]
    if parts["infeasible"]:
        blocks += ["## Problems without a feasible point", infeasible_table(parts["infeasible"])]
    if parts["coverage"]:
        blocks += ["## Bounds at proposals", COVERAGE, coverage_table(parts["coverage"])]
    errors = [record for record in records if "error" in record]
    lines = [f"- {record['task']['problem']}, seed {record['task']['seed']}: {record['error']}" for record in errors]
    return "\n\n".join([*blocks, *(["## Troubles", "\n".join(lines)] if lines else [])]) + "\n"


def tests_text(records: Sequence[Record], when: str) -> str:
    """Return the main counts as sentences."""
    tests, declared = sum(r["tests"] for r in records), sum(r["declared"] is not None for r in records)
    return (
        f"{tests} tests of feasibility {when}, in {len(records)} runs: {declared} called "
        f"the problem infeasible (0 wanted). {sum(r['needed'] for r in records)} of the tests found no point that "
        f"satisfies the bounds at the level and looked at z = 3; {sum(r['below'] for r in records)} were below zero "
        f"there, at most {max(r['in a row'] for r in records)} in a row; three in a row are a verdict. 'None found' "
        "counts runs that spent their budget without a feasible sample and without a verdict."
    )


def family(record: Record) -> str:
    """Return the kind of problem: the suite, tight twins by share, draws."""
    words = record["task"]["problem"].split(":")
    if words[0] == "tight":
        return f"tight {words[1]}, {'draws' if words[2] == 'draw' else 'suite'}"
    return "draws" if words[0] in ("draw", "beyond") else "suite"


def grouped(records: Iterable[Record], by: Any) -> dict[Any, list[Record]]:
    """Return results grouped by a function of them, in order."""
    groups: dict[Any, list[Record]] = {}
    for record in records:
        groups.setdefault(by(record), []).append(record)
    return dict(sorted(groups.items()))


def tests_table(records: Sequence[Record]) -> str:
    """Return tests by kind of problem."""
    columns = ["problems", "runs", "feasible part of the box (median)", "tests", "at z = 3", "below zero", "declared"]
    rows = []
    for name, group in grouped(records, family).items():
        sums = [sum(r[word] for r in group) for word in ("tests", "needed", "below")]
        part = quantile([r["fraction"] for r in group], 0.5)
        declared, never = sum(r["declared"] is not None for r in group), sum(r["first"] is None for r in group)
        rows.append([name, len(group), f"{part:.1e}", *sums, declared, never])
    return table([*columns, "none found"], rows)


def infeasible_table(records: Sequence[Record]) -> str:
    """Return evaluations until the verdict."""
    rows = []
    by = grouped(records, lambda r: "draws" if family(r) == "draws" else r["task"]["problem"])
    for name, group in by.items():
        ends = [r["declared"] for r in group if r["declared"] is not None]
        more = [r["declared"] - r["initial"] for r in group if r["declared"] is not None]
        span = f"{quantile(ends, 0.5)} ({min(ends)} .. {max(ends)})" if ends else "-"
        rows.append([name, f"{len(ends)} of {len(group)}", span, count(float(quantile(more, 0.5)))])
    rows.append(["all", f"{sum(r['declared'] is not None for r in records)} of {len(records)}", "", ""])
    return table(["problem", "declared", "evaluations: median (least .. most)", "after the initial design"], rows)


COVERAGE = (
    f"Share of proposals whose truth lies between lower and upper bound, functions that use an output; p = {LEVEL}, "
    f"so {2 * LEVEL - 1:.2f} is wanted. 'Wide' bounds are wider than {NARROW:g} of the function's scale. 'Or nearly': "
    "inside, or outside by no more than that, which decides nothing. The other columns are for where in the run."
)


def coverage_table(records: Sequence[Record]) -> str:
    """Return the coverage of bounds at proposals."""
    columns = ["settings", "problems", "bounds", "all", "or nearly", "wide", "wide, first 10", "wide, later"]
    rows = []
    by = grouped(records, lambda r: (r["task"]["solver"], "free" if r["task"]["problem"] in FREE else family(r)))
    for (solver, name), group in by.items():
        every = [each for r in group for row in r["places"] for each in row]
        wide = [each for each in every if each[1] > NARROW]
        early = [each for r in group for row in r["places"][:10] for each in row if each[1] > NARROW]
        late = [each for r in group for row in r["places"][10:] for each in row if each[1] > NARROW]
        cells = [share(abs(each[0]) <= 1 for each in some) for some in (every, wide, early, late)]
        nearly = share((abs(place) - 1) * width <= NARROW for place, width in every)
        rows.append([f"`{solver}`", name, len(every), cells[0], nearly, *cells[1:]])
    return table(columns, rows)


def share(flags: Iterable[bool]) -> str:
    """Return a fraction as text."""
    flags = list(flags)
    return f"{sum(flags) / len(flags):.3f}" if flags else "-"
