"""Whole runs of four loops side by side: seconds per suggestion, and evaluations until the optimum is found.

    python benchmarks/loops.py --jobs 16 --limit 3000 --out loops.jsonl.gz      # a part; repeat until none is left
    python benchmarks/loops.py --verdict --out loops.jsonl.gz         # asks while nothing feasible is known
    python benchmarks/loops.py --out loops.jsonl.gz --report          # the page
    python benchmarks/loops.py --problems booth --budget 8 --out try.jsonl.gz
    python benchmarks/loops.py --problems many --only exact --loops pied botorch --budget 30 --out many.jsonl.gz

- pied: a study with its default solver;
- botorch: BoTorch's composite loop (`composite`), which is given the outputs and g in torch;
- ax, optuna-gp: see the objective and constraints instead of the outputs (`contenders`).

`many` stands for the problems with 24, 50 and 200 outputs (`written.MANY`).

The functions g are written in Python with NumPy. All loops have the same initial design, budget and noise (2 % of the
spread of each output, not told). Every run is a process of its own with one thread, warmed up by one suggestion on
another problem; the loops of a problem follow each other. Runs that a time limit cuts off are continued by the next
call from their last evaluation (those of pied begin again).
"""

import slices  # first: see there

# isort: split
import json
import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import composite
import contenders
import courses
import report
import written

from pied.suite import twins

LOOPS = ("pied", "botorch", "ax", "optuna-gp")
VERDICTS = ("williams-otto", "spring", "rosen-suzuki", "ex211", "g09")
"""Problems whose infeasible twin is compared with them."""
BUDGET = 60
TOLERANCES = (1e-3, 1e-6)
"""Of the normalized regret of the best strictly feasible evaluation."""
FASTER, LEAST = 15.0, 5.0
"""Times faster than BoTorch's loop: geometric mean, and every case."""
SMALL, SECONDS = {"d": 5, "m": 6, "N": 60}, 0.1
"""Sizes up to which the median suggestion is to take less than these seconds."""
PENDING = 3.0
"""An ask with a verdict pending may take so many times an ordinary one."""


# --- One run ----------------------------------------------------------------------------------------------------------


def items_of(
    problems: Iterable[str], kinds: Sequence[str], loops: Sequence[str], seeds: int, budget: int
) -> list[slices.Item]:
    """Return every run, seed by seed; the loops of a problem follow each other."""
    return slices.ordered(
        {"problem": problem, "noisy": kind == "noisy", "loop": loop, "seed": seed, "budget": budget}
        for seed in range(seeds) for problem in problems for kind in kinds for loop in loops
    )  # fmt: skip


def run(item: slices.Item, begun: Sequence[Any] = (), keep: Any = lambda piece: None) -> dict[str, Any]:
    """Perform one run, or continue it."""
    benchmark = written.stated(item["problem"], item["noisy"], item["seed"])
    words = {"seed": item["seed"], "budget": item["budget"], "tolerances": TOLERANCES}
    return courses.run(benchmark, item["loop"], **words, begun=begun, keep=keep)


def verdict(item: slices.Item) -> dict[str, Any]:
    """Run a problem and its infeasible twin in turn; return the seconds of an ask of each, at the same N."""
    benchmark = written.stated(item["problem"])
    both = [courses.Course(each) for each in (benchmark, twins.infeasible(benchmark))]
    studies = [courses.started(each.benchmark, "pied", item["seed"]) for each in both]
    pairs = []
    for _ in range(item["budget"]):
        for course, study in zip(both, studies, strict=True):
            course.told_by(study)
        one, other = (study.trials[-1].why for study in studies)
        if one.aim != "initial" and one.margin is None and other.margin is not None:
            pairs.append([each.cpu[-1] for each in both])
    return {"pairs": pairs}


# --- The page ---------------------------------------------------------------------------------------------------------

Cases = dict[tuple[str, str], dict[str, list[Any]]]
"""Records of runs by problem and 'exact' or 'noisy', then by loop."""


def cases_of(records: Iterable[Any]) -> Cases:
    """Arrange the records of runs that made suggestions."""
    cases: Cases = {}
    for record in records:
        item = record["item"]
        if item["loop"] in LOOPS and record.get("cpu"):
            key = item["problem"], "noisy" if item["noisy"] else "exact"
            cases.setdefault(key, {}).setdefault(item["loop"], []).append(record)
    return cases


def median(runs: Iterable[Any], most: float = math.inf) -> float:
    """Return the median processor time of suggestions with at most so many points."""
    cpu = [each for r in runs for points, each in enumerate(r["cpu"], r["size"]["initial"]) if points <= most]
    return report.quantile(cpu, 0.5)


def ratio(loops: dict[str, list[Any]]) -> float:
    """Return how many times faster we are than BoTorch's loop, by medians over the seeds of both; else NaN."""
    ours, theirs = ({r["item"]["seed"]: r for r in loops.get(loop, [])} for loop in ("pied", "botorch"))
    both = ours.keys() & theirs.keys()
    return median(theirs[seed] for seed in both) / median(ours[seed] for seed in both) if both else math.nan


def verdicts_of(records: Iterable[Any]) -> dict[str, tuple[int, float, float]]:
    """Return, by problem, how many asks were compared, and the median seconds of ordinary ones and the others."""
    by: dict[str, list[Any]] = {}
    for record in records:
        by.setdefault(record["item"]["problem"], []).extend(record.get("pairs", []))
    return {
        problem: (len(pairs), *(report.quantile(each, 0.5) for each in zip(*pairs, strict=True)))
        for problem, pairs in by.items()
        if pairs
    }  # type: ignore[return-value]


def cases_table(cases: Cases, cell: Callable[[list[Any]], str], last: dict[str, Callable[[Any], str]]) -> str:
    """Return a row for each case and a cell for each loop, then further columns of the case."""
    rows = []
    for (problem, noise), loops in cases.items():
        size = next(iter(loops.values()))[0]["size"]
        cells = [cell(loops[loop]) if loop in loops else "-" for loop in LOOPS]
        rows.append([problem, noise, *(size[word] for word in "dmn"), *cells, *(of(loops) for of in last.values())])
    return report.table(["problem", "", "d", "m", "n", *LOOPS, *last], rows)


def seconds(runs: list[Any]) -> str:
    """Write median and worst seconds of suggestions."""
    return f"{median(runs):.3f} ({max(max(r['cpu']) for r in runs):.3f})"


def evaluations(runs: list[Any]) -> str:
    """Write evaluations to both tolerances and the last regret, medians over seeds."""
    until = (report.count(report.quantile([r["until"][i] for r in runs], 0.5)) for i in range(len(TOLERANCES)))
    return " / ".join([*until, report.small(report.quantile([r["regret"][-1] for r in runs], 0.5))])


def targets_table(cases: Cases, verdicts: dict[str, tuple[int, float, float]]) -> str:
    """Return what is wanted and what was measured."""
    ratios = {", ".join(key): each for key, loops in cases.items() if not math.isnan(each := ratio(loops))}
    small = {
        ", ".join(key): median(loops["pied"], SMALL["N"])
        for key, loops in cases.items()
        if "pied" in loops and all(loops["pied"][0]["size"][word] <= SMALL[word] for word in "dm")
    }
    pending = {problem: other / one for problem, (_, one, other) in verdicts.items()}
    rows = []
    if ratios:
        mean, worst = statistics.geometric_mean(ratios.values()), min(ratios, key=lambda case: ratios[case])
        rows += [
            ["times faster than BoTorch's loop, geometric mean", f">= {FASTER:g}", f"{mean:.1f}", mean >= FASTER],
            ["the same, every case", f">= {LEAST:g}", f"{ratios[worst]:.1f} ({worst})", ratios[worst] >= LEAST],
        ]
    words = (
        (f"median seconds where {', '.join(f'{word} <= {most}' for word, most in SMALL.items())}", SECONDS, small),
        ("an ask with a verdict pending over an ordinary one", PENDING, pending),
    )
    for what, most, found in words:
        if found:
            worst = max(found, key=lambda case: found[case])
            rows.append([what, f"<= {most:g}", f"{found[worst]:.3g} ({worst})", found[worst] <= most])
    shown = [[*row[:3], "met" if row[3] else "missed"] for row in rows]
    return report.table(["target", "wanted", "measured, worst case", ""], shown)


def page(records: Sequence[Any]) -> str:
    """Return the whole report."""
    cases, verdicts = cases_of(records), verdicts_of(records)
    runs = [r for loops in cases.values() for each in loops.values() for r in each]
    waited = sum(sum(r["wall"]) for r in runs) / max(sum(sum(r["cpu"]) for r in runs), 1e-9)
    absent = [loop for loop in LOOPS if not any(r["item"]["loop"] == loop for r in records)]
    budgets = ", ".join(str(each) for each in sorted({r["item"]["budget"] for r in records}))
    blocks = [
        slices.heading("Whole runs of four loops", records),
        f"Runs of {budgets} evaluations from the same initial designs, each in a process of its own on one thread. "
        f"Processor seconds; the clock's were {waited:.2f} times as many. Noise: {written.NOISE:.0%} of each output's "
        f"spread. BoTorch's loop: {composite.SAMPLES} samples, {composite.RAW} raw samples, {composite.RESTARTS} "
        "restarts. Ratios are those of medians.",
        slices.loads(records),
        *([f"No runs, because not installed or not wanted: {', '.join(absent)}."] if absent else []),
        "## Targets",
        targets_table(cases, verdicts),
        "## Seconds per suggestion: median (worst)",
        cases_table(cases, seconds, {"botorch / pied": lambda loops: report.count(ratio(loops))}),
        f"## Evaluations to a normalized regret of {TOLERANCES[0]:g} / of {TOLERANCES[1]:g} / the last regret",
        "Of the best strictly feasible true value, the initial design included.",
        cases_table(cases, evaluations, {}),
        "## Asks with a verdict pending",
        "A problem and its infeasible twin in turn, at the same N: median seconds of ordinary asks, and of asks while "
        "nothing feasible is known.",
        report.table(
            ["problem", "asks", "ordinary", "pending", "ratio"],
            [[name, n, f"{a:.3f}", f"{b:.3f}", f"{b / a:.2f}"] for name, (n, a, b) in verdicts.items()],
        ),
    ]
    return "\n\n".join([*blocks, *slices.troubles(records, ("problem", "noisy", "loop", "seed"))]) + "\n"


# --- The command ------------------------------------------------------------------------------------------------------


def main(words: Sequence[str] | None = None) -> int | str:
    """Run the command line; return how many runs are left, or the page."""
    parser = slices.parser(__doc__, out="loops.jsonl.gz", seeds=1)
    every = (*written.WRITTEN, *written.DRAWS, *written.LARGE)
    choices = (*every, *written.MANY, "many")
    parser.add_argument(
        "--problems", nargs="+", choices=choices, default=every, metavar="NAME", help="default all but many"
    )
    parser.add_argument("--contenders", "--loops", dest="loops", nargs="+", choices=LOOPS, default=LOOPS)
    parser.add_argument("--only", dest="kinds", nargs="+", choices=("exact", "noisy"), default=("exact", "noisy"))
    parser.add_argument("--budget", type=int, default=BUDGET, help=f"evaluations; default {BUDGET}")
    parser.add_argument("--verdict", action="store_true", help="measure asks with a verdict pending instead")
    parser.add_argument("--one", type=json.loads, metavar="RUN", help="perform one run here and print its record")
    given = parser.parse_args(words)
    if "many" in given.problems:
        given.problems = [*(name for name in given.problems if name != "many"), *written.MANY]
    if given.one is not None:
        is_verdict = given.one["loop"] == "verdict"
        slices.alone(given.one, (lambda item, begun, keep: verdict(item)) if is_verdict else run)
        return 0
    if given.report:
        return slices.write(given, page, "loops.md")
    if given.verdict:
        problems = [name for name in VERDICTS if name in given.problems]
        return slices.work_alone(items_of(problems, ["exact"], ["verdict"], given.seeds, given.budget), given, __file__)
    items = items_of(given.problems, given.kinds, contenders.present(given.loops), given.seeds, given.budget)
    return slices.work_alone(items, given, __file__)


if __name__ == "__main__":
    main()
