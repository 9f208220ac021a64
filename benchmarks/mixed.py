"""Problems with integers, standard sizes, choices and mixtures: whole runs of six loops under the same budget.

    python benchmarks/mixed.py --limit 3000 --out mixed.jsonl.gz       # a part; repeat until none is left
    python benchmarks/mixed.py --out mixed.jsonl.gz --report           # the page
    python benchmarks/mixed.py --draws 20 --seeds 1 --loops pied       # fresh random mixed problems
    python benchmarks/mixed.py --problems concrete-beam --loops pied random --seeds 2 --out try.jsonl.gz

- pied: a study with its default solver;
- botorch: BoTorch's mixed optimizer with composite qLogEI (`contenders`);
- ax, optuna-gp, optuna-tpe: with their own words for such variables;
- random: settings at random.

All loops begin with the initial design of pied and have 20 + 8 d evaluations, where d counts variables that no equality
determines. Every run is a process of its own with one thread; the loops of a problem follow each other. A run that a
time limit cuts off is lost: leave it an hour or more.
"""

import slices  # first: see there

# isort: split
import json
import math
import sys
import time
import warnings
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from typing import Any

import contenders
import numpy as np
import report

from pied import suite
from pied.bench import measures
from pied.bench.plan import _optima
from pied.errors import SolverDone
from pied.rng import Stream
from pied.study import Study
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


def stated(name: str) -> Benchmark:
    """Return a problem of the set, or a draw, 'draw:SEED'."""
    if name.startswith("draw:"):
        return suite.random(int(name.removeprefix("draw:")), "mixed", cache_in=_optima())
    return suite[name]


# --- One run ----------------------------------------------------------------------------------------------------------


class Course:
    """A run: points, true functions, and the time of suggestions."""

    def __init__(self, benchmark: Benchmark, seed: int) -> None:
        self.benchmark, self.seed = benchmark, seed
        self.X: list[np.ndarray] = []
        self.told: list[contenders.Told] = []
        self.wall: list[float] = []
        self.cpu: list[float] = []

    def add(self, x: dict[str, Any]) -> list[float]:
        """Evaluate a point, by name, and keep it; what a mixture's last part misses of its bounds is a constraint."""
        whole = self.benchmark.whole
        codes = np.array([each.code(x[n]) if each.is_choice else float(x[n]) for n, each in whole.variables.items()])
        y = self.benchmark.outputs(codes[None])[0]
        f = self.benchmark.truth(codes[None])[0]
        self.X.append(codes)
        self.told.append(contenders.Told(x, y.tolist(), f.tolist()))
        return y.tolist()

    def timed(self, suggest: Any) -> Any:
        """Return a suggestion, and keep its time."""
        wall, cpu = time.perf_counter(), time.process_time()
        found = suggest()
        self.wall.append(round(time.perf_counter() - wall, 6))
        self.cpu.append(round(time.process_time() - cpu, 6))
        return found


def run(item: slices.Item) -> dict[str, Any]:
    """Perform one run; an error ends it, and what was done before counts."""
    benchmark = stated(item["problem"])
    course = Course(benchmark, item["seed"])
    error, whole, budget = None, benchmark.whole, budget_of(benchmark)
    study = Study(whole, solver="random" if item["loop"] == "random" else "cuqb", seed=item["seed"], patience=None)
    initial = study.initial
    try:
        for number in range(budget):
            if number < initial or item["loop"] in ("pied", "random"):
                trial = study.ask() if number < initial else course.timed(study.ask)
                y = course.add(dict(trial.x))
                study.tell(trial, dict(zip(whole.outputs, y, strict=True)), anyway=True)
            else:
                suggest = contenders.CONTENDERS[item["loop"]]
                own = int(Stream(item["seed"]).at("contender", number).generator().integers(2**31))
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    course.add(course.timed(lambda s=suggest, n=own: s(benchmark, course.told, n)))
    except SolverDone:
        pass  # a finite space is exhausted
    except Exception as raised:
        error = f"{type(raised).__name__} at evaluation {len(course.X) + 1}: {raised}"
    X = np.array(course.X)
    best = measures.best_feasible(benchmark.truth(X)[:, 0], benchmark.is_strictly_feasible(X))
    regret = ((benchmark.best - best) / abs(benchmark.best - benchmark.median)).tolist()
    return {
        "size": {"d": whole.d, "m": whole.m, "n": whole.n, "initial": initial, "budget": budget},
        "wall": course.wall,
        "cpu": course.cpu,
        "regret": [each if math.isfinite(each) else None for each in regret],
        "until": [report.until({"regret": regret}, tolerance) for tolerance in TOLERANCES],
        "error": error,
    }


# --- The page ---------------------------------------------------------------------------------------------------------

Cases = dict[str, dict[str, list[Any]]]
"""Records of runs by problem, then by loop."""


def cases_of(records: Iterable[Any]) -> Cases:
    """Arrange the records of runs that were performed."""
    cases: Cases = {}
    for record in records:
        if "until" in record:
            item = record["item"]
            cases.setdefault(item["problem"], {}).setdefault(item["loop"], []).append(record)
    return cases


def share(runs: Sequence[Any], place: int) -> float:
    """Return which share of runs reached a tolerance at the budget."""
    return sum(r["until"][place] is not None for r in runs) / len(runs)


def middle(values: Iterable[float | None]) -> float:
    """Return the median; what was never reached is infinite."""
    return report.quantile(values, 0.5)


def last(run: Any) -> float | None:
    """Return the regret at the budget."""
    return run["regret"][-1] if run["regret"] else None


def summary(cases: Cases) -> str:
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


def details(cases: Cases) -> str:
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


def times(cases: Cases) -> str:
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
    cases = cases_of(records)
    fixed = {name: each for name, each in cases.items() if not name.startswith("draw:")}
    draws = {name: each for name, each in cases.items() if name.startswith("draw:")}
    blocks = [
        slices.heading("Mixed problems: six loops", records),
        "Runs of 20 + 8 d evaluations from the same initial designs, each in a process of its own on one thread. "
        "Regret is normalized, of the best strictly feasible evaluation; seconds are processor seconds. "
        f"BoTorch: {contenders.SAMPLES} samples, {contenders.RAW} raw samples, {contenders.RESTARTS} restarts.",
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
    return [
        {"problem": problem, "loop": loop, "seed": seed}
        for seed in range(seeds) for problem in problems for loop in loops
    ]  # fmt: skip


def main(words: Sequence[str] | None = None) -> int | str:
    """Run the command line; return how many runs are left, or the page."""
    parser = slices.parser(__doc__, out="mixed.jsonl.gz", seeds=10)
    every = suite.sets["mixed"]
    parser.add_argument("--problems", nargs="+", choices=every, default=every, metavar="NAME", help="default all")
    parser.add_argument("--draws", type=int, default=0, help="run so many random problems instead, from seed 1000")
    parser.add_argument("--loops", nargs="+", choices=LOOPS, default=LOOPS)
    parser.add_argument("--one", type=json.loads, metavar="RUN", help="perform one run here and print its record")
    given = parser.parse_args(words)
    if given.one is not None:
        slices.alone(given.one, lambda item, begun, report: run(item))
        return 0
    if given.report:
        return slices.write(given, page, "mixed.md")
    needs = {"botorch": "botorch", "ax": "ax", "optuna-gp": "optuna", "optuna-tpe": "optuna"}
    absent = [loop for loop in given.loops if loop in needs and find_spec(needs[loop]) is None]
    if absent:
        print(f"left out, because not installed: {', '.join(absent)}", file=sys.stderr)
    loops = [loop for loop in given.loops if loop not in absent]
    problems = [f"draw:{1000 + i}" for i in range(given.draws)] or given.problems
    return slices.work_alone(items_of(problems, loops, given.seeds), given, __file__)


if __name__ == "__main__":
    main()
