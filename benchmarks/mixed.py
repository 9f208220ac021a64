"""Problems with integers, standard sizes, choices and mixtures: whole runs of six loops under the same budget.

    python benchmarks/mixed.py --jobs 16 --limit 3000 --out mixed.jsonl.gz       # a part; repeat until none is left
    python benchmarks/mixed.py --out mixed.jsonl.gz --report           # the page
    python benchmarks/mixed.py --draws 20 --seeds 1 --contenders pied       # fresh random mixed problems
    python benchmarks/mixed.py --problems concrete-beam --contenders pied random --seeds 2 --out try.jsonl.gz

- pied: a study with its default solver;
- botorch: BoTorch's mixed optimizers with composite qLogEI (`composite`);
- ax, optuna-gp, optuna-tpe: with their own words for such variables (`contenders`);
- random: settings at random.

All loops begin with the initial design of pied and have 20 + 8 d evaluations, where d counts variables that no equality
determines. Every run is a process of its own with one thread, warmed up by one suggestion on another problem; the loops
of a problem follow each other. Runs that a time limit cuts off are continued by the next call from their last
evaluation (those of pied begin again).
"""

import slices  # first: see there

# isort: split
import json
from collections.abc import Iterable, Sequence
from typing import Any

import composite
import contenders
import courses
import report
import runner

from pied import suite
from pied.suite import Benchmark

LOOPS = ("pied", "botorch", "ax", "optuna-gp", "optuna-tpe", "random")
TOLERANCES = (1e-3, 1e-4)
"""Of the normalized regret of the best strictly feasible evaluation."""
TARGET = 0.9
"""Of the seeds of every problem are to be solved to the last tolerance at the budget."""
DRAW_TARGETS = (0.9, 0.8)
"""Of fresh draws are to be solved to each tolerance."""


def budget_of(benchmark: Benchmark) -> int:
    """Return how many evaluations a run has."""
    return 20 + 8 * benchmark.whole.d


# --- One run ----------------------------------------------------------------------------------------------------------


def run(item: slices.Item, begun: Sequence[Any] = (), keep: Any = lambda piece: None) -> dict[str, Any]:
    """Perform one run, or continue it."""
    benchmark = runner.benchmark_of(item["problem"])
    words = {"seed": item["seed"], "budget": budget_of(benchmark), "tolerances": TOLERANCES}
    return courses.run(benchmark, item["loop"], **words, begun=begun, keep=keep)


# --- The page ---------------------------------------------------------------------------------------------------------


def share(runs: Sequence[Any], place: int) -> float:
    """Return which share of runs reached a tolerance at the budget."""
    return sum(r["until"][place] is not None for r in runs) / len(runs)


def middle(values: Iterable[float | None]) -> float:
    """Return the median; what was never reached is infinite."""
    return report.quantile(values, 0.5)


def last(run: Any) -> float | None:
    """Return the regret at the budget."""
    return run["regret"][-1] if run["regret"] else None


def summary(cases: slices.Cases) -> str:
    """Return one row for each loop: shares and medians over the problems that all loops of the table ran."""
    present = [loop for loop in LOOPS if any(loop in loops for loops in cases.values())]
    common = {name: loops for name, loops in cases.items() if all(loop in loops for loop in present)}
    rows = []
    for loop in present:
        every = [loops[loop] for loops in common.values()]
        if not every:
            continue
        runs = [r for each in every for r in each]
        solved = [[share(each, place) for each in every] for place in range(len(TOLERANCES))]
        until = [middle(r["until"][place] for r in runs) for place in range(len(TOLERANCES))]
        all_met = sum(each >= TARGET for each in solved[-1])
        rows.append(
            [
                loop,
                *(f"{sum(each) / len(each):.0%}" for each in solved),
                f"{all_met} of {len(every)}",
                *(report.count(each) for each in until),
                report.small(middle(last(r) for r in runs)),
                f"{middle(t for r in runs for t in r['cpu']):.3f}",
            ]
        )
    words = [f"solved to {each:g}" for each in TOLERANCES]
    told = [f"evaluations to {each:g}" for each in TOLERANCES]
    columns = ["loop", *words, f"problems with {TARGET:.0%}", *told, "regret at the budget", "seconds per suggestion"]
    return report.table(columns, rows)


def details(cases: slices.Cases) -> str:
    """Return one row for each problem: by loop, share to the last tolerance, evaluations to both and the regret."""
    rows = []
    for name, loops in cases.items():
        size = next(iter(loops.values()))[0]["size"]
        cells = []
        for loop in LOOPS:
            if loop not in loops:
                cells.append("-")
                continue
            runs = loops[loop]
            until = (report.count(middle(r["until"][place] for r in runs)) for place in range(len(TOLERANCES)))
            cells.append(f"{share(runs, -1):.0%}; {', '.join(until)}; {report.small(middle(last(r) for r in runs))}")
        rows.append([name, *(size[word] for word in ("d", "m", "n", "budget")), *cells])
    return report.table(["problem", "d", "m", "n", "budget", *LOOPS], rows)


def times(cases: slices.Cases) -> str:
    """Return one row for each problem: median and worst seconds of suggestions, by loop."""
    rows = []
    for name, loops in cases.items():
        cells = []
        for loop in LOOPS:
            spent = [t for r in loops.get(loop, []) for t in r["cpu"]]
            cells.append(f"{middle(spent):.3f} ({max(spent):.3f})" if spent else "-")
        rows.append([name, *cells])
    return report.table(["problem", *LOOPS], rows)


def page(records: Sequence[Any]) -> str:
    """Return the whole report."""
    cases = slices.cases_of(records, "until")
    fixed = {name: each for name, each in cases.items() if not name.startswith("draw:")}
    draws = {name: each for name, each in cases.items() if name.startswith("draw:")}
    blocks = [
        slices.heading("Mixed problems: six loops", records),
        "Runs of 20 + 8 d evaluations from the same initial designs, each in a process of its own on one thread. "
        "Regret is normalized, of the best strictly feasible evaluation; seconds are processor seconds. "
        f"BoTorch: {composite.SAMPLES} samples, {composite.RAW} raw samples, {composite.RESTARTS} restarts.",
        slices.loads(records),
    ]
    if fixed:
        blocks += [
            "## All problems of the set",
            summary(fixed),
            "## Each problem: share solved to 1e-4; evaluations to 1e-3, to 1e-4; regret",
            details(fixed),
            "## Seconds per suggestion: median (worst)",
            times(fixed),
        ]
    if draws:
        wanted = ", ".join(f"{w:.0%} to {t:g}" for w, t in zip(DRAW_TARGETS, TOLERANCES, strict=True))
        blocks += ["## Fresh draws", f"Wanted: {wanted}.", summary(draws)]
    return "\n\n".join([*blocks, *slices.troubles(records, ("problem", "loop", "seed"))]) + "\n"


# --- The command ------------------------------------------------------------------------------------------------------


def items_of(problems: Iterable[str], loops: Sequence[str], seeds: int) -> list[slices.Item]:
    """Return every run, seed by seed; the loops of a problem follow each other."""
    return slices.ordered(
        {"problem": problem, "loop": loop, "seed": seed}
        for seed in range(seeds) for problem in problems for loop in loops
    )  # fmt: skip


def main(words: Sequence[str] | None = None) -> int | str:
    """Run the command line; return how many runs are left, or the page."""
    parser = slices.parser(__doc__, out="mixed.jsonl.gz", seeds=10)
    every = suite.sets["mixed"]
    parser.add_argument("--problems", nargs="+", choices=every, default=every, metavar="NAME", help="default all")
    parser.add_argument("--draws", type=int, default=0, help="run so many random problems instead, from seed 1000")
    parser.add_argument("--contenders", "--loops", dest="loops", nargs="+", choices=LOOPS, default=LOOPS)
    parser.add_argument("--one", type=json.loads, metavar="RUN", help="perform one run here and print its record")
    given = parser.parse_args(words)
    if given.one is not None:
        slices.alone(given.one, run)
        return 0
    if given.report:
        return slices.write(given, page, "mixed.md")
    problems = [f"draw:{1000 + i}:mixed" for i in range(given.draws)] or given.problems
    return slices.work_alone(items_of(problems, contenders.present(given.loops), given.seeds), given, __file__)


if __name__ == "__main__":
    main()
