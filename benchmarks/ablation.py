"""Ablations: the default with one setting changed at a time, on the suite and on random problems, paired.

    PYTHONPATH=src python3 benchmarks/ablation.py --limit 500 --out ablation.jsonl.gz       # a part; repeat to continue
    python benchmarks/ablation.py --out ablation.jsonl.gz --report                          # the page

--rungs takes groups and labels, for instance kernels 'verify never'; --sets takes suite or draws.
"""

import slices  # must be first, see slices.py

# isort: split
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import report
import runner
import variants
from scoreboard import draws_of
from suite_sweep import by_problem, is_false, names_of, problems_table

from pied.bench.compare import holm, paired
from pied.bench.plan import size_of
from pied.bounds.inputs import ratios
from pied.gp.regressions import LEAST_RATIO
from pied.problem import Problem
from pied.solvers.cuqb import MOVES

BUDGET = 40
"""Evaluations of a run on the suite; random problems have 20 + 8d."""
STOP = 1e-7
"""A run ends below this regret, a decade below the last tolerance; smaller regrets count as equal."""
TOLERANCES = (1e-3, 1e-4, 1e-6)
TARGETS = {
    ("suite", 40): ("21", "20", "19"),
    ("suite", 100): ("22", "22", "21"),
    ("draws", None): ("90 %", "80 %", "60 %"),
}
"""Problems to be solved to each tolerance, of the whole suite after 40 and 100 evaluations, of draws after 20 + 8d."""
KEPT = ("regret", "evaluations", "initial", "status", "verdict", "is_feasible", "first_feasible", "seconds", "aims",
        "rungs", "doubts", "error", "spent")  # fmt: skip
"""The stored curves of a run."""
SWINGS = 1 / 3
"""A problem is listed if the fraction of solved runs differs by at least this much."""


# --- The ladder -------------------------------------------------------------------------------------------------------


def anywhere(problem: Problem, other: Problem) -> bool:
    """A change that can matter on every problem."""
    return True


def sampled(problem: Problem, other: Problem) -> bool:
    """A change of the estimator matters where a function has no closed form."""
    return any(each.kind == "general" for each in problem.structure)


def stretched(problem: Problem, other: Problem) -> bool:
    """A change of the input scales matters where an input ranges over a large factor."""
    return bool((ratios(problem) >= LEAST_RATIO).any())


def told_less(problem: Problem, other: Problem) -> bool:
    """A change of structure matters if the authors' code passes other inputs to h, or ranges are stated."""
    return not (bool((problem.active == other.active).all()) and bool((problem.ranges == other.ranges).all()))


@dataclass(frozen=True)
class Rung:
    """One change of the default."""

    label: str
    group: str
    solver: str = "cuqb"
    """As text: a name, and the settings that change."""
    structure: str = "full"
    initial: str = "2d+1"
    touches: Callable[[Problem, Problem], bool] = anywhere
    """Tells from the full and the paper's statement whether it can matter. If not, the default's runs are used."""

    @property
    def change(self) -> str:
        """The difference from the default, as text."""
        words = [self.solver.removeprefix("cuqb:")] if self.solver != "cuqb" else []
        words += [f"structure={self.structure}"] if self.structure != "full" else []
        words += [f"initial={self.initial}"] if self.initial != "2d+1" else []
        return ", ".join(words) or "nothing"


DEFAULT, FOLDED = "default", "g folded into h"
LADDER = (
    Rung(DEFAULT, "default"),
    Rung("squared exponential", "kernels", "cuqb:model.kernels=('squared exponential',)"),
    Rung("Matern 5/2", "kernels", "cuqb:model.kernels=('matern 5/2',)"),
    Rung("Matern 3/2", "kernels", "cuqb:model.kernels=('matern 3/2',)"),
    Rung("constant trend", "models", "cuqb:model.trends=('constant',)"),
    Rung("no warp", "models", "cuqb:model.warps=('none',)"),
    Rung("plain inputs", "models", "cuqb:model.scales=('plain',)", touches=stretched),
    Rung("nugget 1e-8", "models", "cuqb:model.nugget=(1e-8, 1e-8)"),
    Rung("nugget 1e-6", "models", "cuqb:model.nugget=(1e-6, 1e-6)"),
    Rung("no prior", "models", "cuqb:model.prior=False"),
    Rung("no declustering", "models", "cuqb:model.declustering=None"),
    Rung("no waves", "models", "cuqb:model.waves=False"),
    Rung("one start", "models", "cuqb-started"),
    Rung("nine starts", "models", "cuqb-started:starts=(0.05, 0.1, 0.2, 0.3, 0.5, 1.0, 2.0, 3.0, 5.0)"),
    Rung("calibrated deviations", "deviations", "cuqb-calibrated"),
    Rung("floor under the variance", "deviations", "cuqb-floored"),
    Rung("prior on the amplitude", "deviations", "cuqb-shrunk"),
    Rung("paper's models", "models", "cuqb:model=paper"),
    Rung("inputs as in the code", "structure", structure="paper", touches=told_less),
    Rung(FOLDED, "structure", structure="black"),
    Rung("order statistic", "estimator", "cuqb:estimator.kind='order'", touches=sampled),
    Rung("soft sort", "estimator", "cuqb:estimator.kind='soft'", touches=sampled),
    Rung("128 samples", "estimator", "cuqb:estimator.samples=128", touches=sampled),
    Rung("level 0.85", "level", "cuqb:level=0.85"),
    Rung("level 0.99", "level", "cuqb:level=0.99"),
    Rung("randomized level", "level", "cuqb-randomized"),
    Rung("scheduled level", "level", "cuqb-scheduled"),
    *(Rung(f"without {name}", "moves", f"cuqb:without={name}") for name in MOVES if name not in ("explore", "verify")),
    Rung("each function alone", "level", "cuqb:joint=False"),
    Rung("no relay", "search", "cuqb:search.relays=0"),
    Rung("three starts", "search", "cuqb:search.starts=3"),
    Rung("no starts from afar", "search", "cuqb:search.afar=0"),
    Rung("paper's search", "paper", "cuqb:search=paper"),
    Rung("verify never", "verify", "cuqb:verify_every=None"),
    Rung("verify always", "verify", "cuqb:verify_every=1"),
    Rung("verify every 2nd", "verify", "cuqb:verify_every=2"),
    Rung("verify every 5th", "verify", "cuqb:verify_every=5"),
    Rung("verify when right", "verify", "cuqb-adaptive"),
    Rung("log-EI in turn", "engine", "cuqb-in-turn"),
    Rung("log-EI", "engine", "logei-cf"),
    Rung("confidence box", "engine", "box"),
    Rung("merit quantile", "engine", "merit-quantile"),
    Rung("expected improvement", "engine", "eic-cf"),
    Rung("EIC, g folded", "folded", "eic", structure="black"),
    Rung("EPBO, g folded", "folded", "epbo", structure="black"),
    Rung("design d+1", "design", initial="d+1"),
    Rung("design 4d+1", "design", initial="4d+1"),
    Rung("Sobol design", "design", "cuqb-sobol-design:study.initial=2"),
    Rung("the paper's method", "paper", "cuqb-paper"),
)
RUNGS = {rung.label: rung for rung in LADDER}


def rungs_of(words: Iterable[str]) -> list[Rung]:
    """Return rungs from labels and groups, the default always among them."""
    words = list(words)
    for word in words:
        if word not in RUNGS and word not in {rung.group for rung in LADDER}:
            raise SystemExit(f"There is no rung and no group '{word}'; the rungs are {', '.join(RUNGS)}.")
    return [rung for rung in LADDER if not words or rung.label == DEFAULT or {rung.label, rung.group} & set(words)]


# --- Runs -------------------------------------------------------------------------------------------------------------


@cache
def forms(problem: str) -> tuple[Problem, Problem]:
    """Return the full and the paper's statement of a problem."""
    return runner.benchmark_of(problem).problem, runner.benchmark_of(problem, "paper").problem


def items_of(rungs: Sequence[Rung], problems: Sequence[str], seeds: int, budget: int | None) -> list[slices.Item]:
    """Return every run: rungs x problems x seeds, where the rung can matter."""
    made = []
    for problem in problems:
        whole, code = forms(problem)
        evaluations = budget or (20 + 8 * whole.d if problem.startswith("draw:") else BUDGET)
        for rung in rungs:
            if rung.touches(whole, code):
                words = {"solver": rung.solver, "structure": rung.structure, "initial": rung.initial}
                made += [
                    {"rung": rung.label, "problem": problem, "seed": seed, "budget": evaluations, **words}
                    for seed in range(seeds)
                ]
    return slices.ordered(made)


def run(item: slices.Item) -> dict[str, Any]:
    """Perform one run; return its curve of regrets and what the tables need."""
    solver = item["solver"]
    if item["initial"] != "2d+1":
        solver += f":study.initial={size_of(item['initial'], forms(item['problem'])[0].d)}"
    task = runner.Task(item["problem"], solver, item["seed"], item["budget"], item["structure"], STOP)
    with variants.known():
        record = runner.run(task)
    return {name: record[name] for name in KEPT if name in record}


# --- Tables -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Ladder:
    """All runs on a set of problems; a rung that cannot matter has the default's runs."""

    runs: dict[str, dict[tuple[str, int], Any]]
    """By rung, then by problem and seed: those that the default has, too."""
    own: dict[str, int]
    """How many of a rung's runs are its own."""

    @classmethod
    def of(cls, records: Sequence[Any]) -> "Ladder":
        """Arrange results by rung, problem and seed."""
        told = [{"regret": [], **record, "task": record["item"]} for record in records]
        found: dict[str, dict[tuple[str, int], Any]] = {}
        for rung in LADDER:
            mine = [r for r in told if r["item"]["rung"] == rung.label]
            if mine:
                found[rung.label] = {(r["item"]["problem"], r["item"]["seed"]): r for r in mine}
        default = found.get(DEFAULT, {})
        own = {label: len(runs.keys() & default.keys()) for label, runs in found.items()}
        for label, runs in found.items():
            same = {key: r for key, r in default.items() if not RUNGS[label].touches(*forms(key[0]))}
            found[label] = {key: {**same, **runs}[key] for key in default if key in same or key in runs}
        return cls(found, own)

    @property
    def problems(self) -> list[str]:
        """Those that the default was run on."""
        return list(dict.fromkeys(problem for problem, _ in self.runs.get(DEFAULT, {})))

    def pairs(self, label: str, measure: str, base: str = DEFAULT) -> tuple[np.ndarray, np.ndarray]:
        """Return what is measured of a base and of a rung, over all runs that they have in common."""
        runs, of = self.runs[base], MEASURES[measure]
        rows = [(runs[key], other) for key, other in self.runs[label].items() if key in runs]
        found = np.array([[of(a), of(b)] for a, b in rows]).reshape(-1, 2)
        return found[:, 0], found[:, 1]


def _regret(record: Any, half: bool) -> float:
    budget = record["item"]["budget"]
    return max(report.at(record["regret"], budget // 2 if half else budget), STOP)


def _evaluations(record: Any, tolerance: float) -> float:
    """Return the evaluations until a run is solved; its budget plus one if it is not."""
    return float(report.until(record, tolerance) or record["item"]["budget"] + 1)


MEASURES: dict[str, Callable[[Any], float]] = {
    "regret at half the budget": lambda record: _regret(record, True),
    "regret at the budget": lambda record: _regret(record, False),
    "evaluations to 1e-4": lambda record: _evaluations(record, 1e-4),
    "evaluations to 1e-6": lambda record: _evaluations(record, 1e-6),
}
"""Measures by which rungs are compared in pairs; less is better."""


def solved(runs: Iterable[Any], tolerance: float) -> float:
    """Return how many problems are solved at their budgets: the sum over problems of the share of runs."""
    return sum(shares(runs, tolerance).values())


def shares(runs: Iterable[Any], tolerance: float) -> dict[str, float]:
    """Return by problem the share of runs that solved it."""
    return {
        problem: sum(_regret(r, False) <= tolerance for r in group) / len(group)
        for problem, group in by_problem(runs).items()
    }


def ladder_table(ladder: Ladder) -> str:
    """Return a row for each rung: problems solved, and the paired comparison with the default."""
    rows, labels = [], list(ladder.runs)
    tests = [label for label in labels if label != DEFAULT]
    p = {measure: _corrected(ladder, tests, measure) for measure in MEASURES}
    for label in labels:
        runs = list(ladder.runs[label].values())
        problems = len(by_problem(runs))
        counts = [solved(group, 1e-4) for group in _by_seed(runs) if len(group) == problems]
        rows.append([
            label,
            f"{len(runs)} ({ladder.own[label]})",
            *(f"{solved(runs, tol):.1f} of {problems}" for tol in TOLERANCES),
            f"{min(counts, default=math.nan):.0f} .. {max(counts, default=math.nan):.0f}",
            report.spread([_regret(r, False) for r in runs]),
            report.spread([report.until(r, 1e-4) for r in runs], report.count),
            *(_against(ladder, label, measure, p[measure]) for measure in MEASURES),
            _seconds(runs),
        ])  # fmt: skip
    columns = ["rung", "runs (its own)", *(f"to {tol:.0e}".replace("e-0", "e-") for tol in TOLERANCES)]
    columns += ["to 1e-4, by whole seed", "regret at the budget", "evaluations to 1e-4"]
    return report.table([*columns, *_headings(), "seconds per suggestion"], rows)


def _by_seed(runs: Sequence[Any]) -> list[list[Any]]:
    seeds = sorted({r["item"]["seed"] for r in runs})
    return [[r for r in runs if r["item"]["seed"] == seed] for seed in seeds]


def _headings() -> list[str]:
    first, *others = MEASURES
    return [f"better / worse / same, p: {first}", *others]


def rivals_table(ladder: Ladder, group: str, base: str) -> str:
    """Return how the rivals of a group compare with a base."""
    rivals = [rung.label for rung in LADDER if rung.group == group and ladder.runs.get(rung.label)]
    if base not in ladder.runs or not rivals:
        return ""
    p = {measure: _corrected(ladder, rivals, measure, base) for measure in MEASURES}
    rows = [[rival, *(_against(ladder, rival, each, p[each], base) for each in MEASURES)] for rival in rivals]
    return report.table([f"against '{base}'", *_headings()], rows)


def _corrected(ladder: Ladder, labels: Sequence[str], measure: str, base: str = DEFAULT) -> dict[str, float]:
    """Return p of each rung against a base, corrected for the number of rungs."""
    found = [paired(*ladder.pairs(label, measure, base)) if ladder.runs[label] else 1.0 for label in labels]
    return dict(zip(labels, holm(np.array(found)).tolist(), strict=True)) if labels else {}


def _against(ladder: Ladder, label: str, measure: str, p: dict[str, float], base: str = DEFAULT) -> str:
    """Return how often a rung is better than a base, worse, or equal."""
    if label == base:
        return "-"
    default, mine = ladder.pairs(label, measure, base)
    better, worse = int((mine < default).sum()), int((mine > default).sum())
    return f"{better} / {worse} / {len(mine) - better - worse}, {p[label]:.2g}"


def _seconds(runs: Sequence[Any]) -> str:
    times = [r["seconds"]["median"] for r in runs if r.get("seconds") and r["seconds"]["median"] is not None]
    return f"{report.quantile(times, 0.5):.2g}" if times else "-"


def swings_table(ladder: Ladder) -> str:
    """Return for each rung the problems on which it solves clearly more, or fewer, runs to 1e-4."""
    rows = []
    for label, runs in ladder.runs.items():
        own = shares(runs.values(), 1e-4)
        default = shares((ladder.runs[DEFAULT][key] for key in runs), 1e-4)
        moved = {name: own[name] - default[name] for name in own if abs(own[name] - default[name]) >= SWINGS - 1e-9}
        words = [
            ", ".join(f"{name} ({default[name]:.0%} to {own[name]:.0%})" for name, by in moved.items() if sign * by > 0)
            for sign in (1, -1)
        ]
        if any(words):
            rows.append([label, *(each or "-" for each in words)])
    return report.table(["rung", "solved more often to 1e-4", "less often"], rows)


def targets_table(sets: dict[str, Ladder]) -> str:
    """Return the targets of the default, and whether it meets them."""
    rows = []
    for name, ladder in sets.items():
        runs = list(ladder.runs.get(DEFAULT, {}).values())
        if runs:
            problems = len(ladder.problems)
            counts = [solved(runs, tol) for tol in TOLERANCES]
            cells = [f"{count:.1f}" + (f" ({count / problems:.0%})" if name == "draws" else "") for count in counts]
            budgets = sorted({r["item"]["budget"] for r in runs})
            at = budgets[0] if len(budgets) == 1 else f"{budgets[0]} to {budgets[-1]}"
            wanted = TARGETS.get((name, at if name == "suite" else None), ("-",) * len(TOLERANCES))
            rows.append([f"{name}: {problems} problems at {at}, {len(runs)} runs", *_pairs(cells, wanted)])
    return report.table(["default", *(f"to {tol:.0e}, target".replace("e-0", "e-") for tol in TOLERANCES)], rows)


def _pairs(cells: Sequence[str], targets: Sequence[str]) -> list[str]:
    return [f"{cell}; {target}" for cell, target in zip(cells, targets, strict=True)]


def page(records: Sequence[Any]) -> str:
    """Return the whole report."""
    records = [record for record in records if record["item"]["rung"] in RUNGS]
    on = {
        name: Ladder.of([r for r in records if r["item"]["problem"].startswith("draw:") is (name == "draws")])
        for name in ("suite", "draws")
    }
    blocks = [
        slices.heading("The ladder of ablations", records),
        "Each rung is the default with one change. Normalized regret of the best strictly feasible sample; a count is "
        "the sum over problems of the share of runs that got there; regrets below 1e-7 are the same. Where a change "
        "cannot matter (its structure is absent) the default's runs stand for the rung's. Pairs have problem and seed "
        "in common; p is Wilcoxon's signed-rank test on logarithms, Holm-corrected over the rungs. Medians with "
        "quartiles.",
        "## What is asked for",
        targets_table(on),
    ]
    for name, ladder in on.items():
        if DEFAULT in ladder.runs:
            blocks += [f"## On the {name}", ladder_table(ladder), swings_table(ladder)]
            blocks += [table for table in [rivals_table(ladder, "folded", FOLDED)] if table]
            blocks += [f"### The default on the {name}", problems_table(list(ladder.runs[DEFAULT].values()))]
    if all(DEFAULT in ladder.runs for ladder in on.values()):
        whole = Ladder.of(records)
        tables = [rivals_table(whole, "engine", DEFAULT), rivals_table(whole, "folded", FOLDED)]
        if any(tables):
            blocks += ["## Rivals on both together", *(table for table in tables if table)]
    blocks += ["## The rungs", report.table(["rung", "what changes"], [[r.label, f"`{r.change}`"] for r in LADDER])]
    false = [r for r in records if not r.get("error") and is_false(r)]
    if false:
        lines = (f"- {r['item']['rung']}, {r['item']['problem']}, seed {r['item']['seed']}" for r in false)
        blocks += ["## False verdicts of infeasibility", "\n".join(lines)]
    return "\n\n".join([*blocks, *slices.troubles(records, ("rung", "problem", "seed"))]) + "\n"


# --- The command ------------------------------------------------------------------------------------------------------


def main(words: Sequence[str] | None = None) -> int | str:
    """Run the command line; return how many runs are left, or the page."""
    parser = slices.parser(__doc__, out="ablation.jsonl.gz", seeds=3)
    parser.add_argument("--sets", nargs="+", choices=("suite", "draws"), default=["suite", "draws"])
    parser.add_argument("--problems", nargs="+", metavar="NAME", help="of the suite: names or sets; default paper")
    parser.add_argument("--without", nargs="+", metavar="NAME", default=[], help="problems to leave out")
    parser.add_argument("--draws", type=int, default=40, help="how many random problems, the kinds in turn; default 40")
    parser.add_argument("--fresh", type=int, default=0, metavar="N", help="other draws; default 0")
    parser.add_argument("--rungs", nargs="+", metavar="RUNG", default=[], help="labels or groups; default all")
    parser.add_argument("--budget", type=int, help=f"evaluations; default {BUDGET}, on draws 20 + 8d")
    given = parser.parse_args(words)
    if given.report:
        return slices.write(given, page, "ablation.md")
    problems = names_of(given.problems or ["paper"]) if "suite" in given.sets else []
    draws = draws_of(given.fresh, given.draws) if "draws" in given.sets else []
    chosen = [name for name in (*problems, *draws) if name not in given.without]
    items = items_of(rungs_of(given.rungs), chosen, given.seeds, given.budget)
    return slices.work_on(items, run, given)


if __name__ == "__main__":
    main()
