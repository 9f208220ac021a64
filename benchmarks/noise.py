"""Noise: the true value of each rule's recommendation, with our search and with the paper's.

    PYTHONPATH=src python3 benchmarks/noise.py --limit 500 --out noise.jsonl.gz       # a part; repeat to continue
    python benchmarks/noise.py --out noise.jsonl.gz --report                          # the page

The Williams-Otto reactor has the paper's noise: sigma in natural units on all four outputs. Random problems have sigma
times the spread of each output over the box. Solvers are not given the noise; they have to learn it.
"""

import slices  # must be first, see slices.py

# isort: split
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import report
import runner
from numpy import ndarray
from scipy.spatial.distance import cdist
from scoreboard import draws_of

from pied.bench import measures
from pied.bench.compare import paired
from pied.bench.curves import observed
from pied.bench.plan import RULES, solver_of
from pied.records.trial import Trial, spread
from pied.rng import Stream
from pied.study import Study
from pied.study.snapshot import Snapshot
from pied.suite import Benchmark

REACTOR = "williams-otto"
SIGMAS = (0.01, 0.05)
"""The paper's."""
HORIZONS = (25, 50, 100)
SEARCHES = {"ours": ("cuqb", "full"), "the paper's": ("cuqb-paper", "paper")}
"""Solvers that collect the data, and their structure (the paper's: the inputs of its code, no ranges)."""
OURS, PAPERS = ("ours", "anywhere"), ("the paper's", "asked")
"""Search and rule: our default, and the published method, equation (14)."""
WEIGHT = 100.0
"""Of violations in the loss on random problems, both in their own scales; the paper's penalty on the reactor comes to
about 140 of these units."""
TARGET = 0.5
"""Our loss may be at most this fraction of the paper's."""
POOL = 1024
"""Points from which the spread of an output over the box is computed."""
NEAR = 1e-3
"""Two points of the unit cube within this distance are the same."""


# --- Runs -------------------------------------------------------------------------------------------------------------


def items_of(problems: Sequence[str], seeds: int, budget: int, sigmas: Sequence[float]) -> list[slices.Item]:
    """Return every run: problems x noise x searches x seeds."""
    return slices.ordered(
        {"problem": problem, "noise": sigma, "search": search, "seed": seed, "budget": budget}
        for problem in problems for sigma in sigmas for search in SEARCHES for seed in range(seeds)
    )  # fmt: skip


def noisy(problem: str, structure: str, sigma: float, seed: int) -> Benchmark:
    """Return a problem with noise: absolute on the reactor, relative to the spread of each output elsewhere."""
    exact = runner.benchmark_of(problem)
    if problem == REACTOR:
        return exact.told(structure, sigma, seed=seed)
    whole = exact.whole
    Y = exact.outputs(whole.from_unit(Stream(0).at("noise").sobol(POOL, whole.d)))
    std = dict(zip(whole.outputs, (sigma * spread(Y)).tolist(), strict=True))
    return exact.told(structure, std, seed=seed)


def run(item: slices.Item) -> dict[str, Any]:
    """Perform one run; return the true value of each rule's recommendation after each horizon."""
    text, structure = SEARCHES[item["search"]]
    solver, _ = solver_of(text)
    benchmark = noisy(item["problem"], structure, item["noise"], item["seed"])
    with Study(benchmark.problem, solver=solver, seed=item["seed"], patience=None) as study:
        study.run(item["budget"])
        trials, initial = study.trials, study.initial
    snapshots = {
        t: Snapshot(benchmark.problem, lambda: solver, item["seed"], None, initial, trials[:t])
        for t in (*(t for t in HORIZONS if t < item["budget"]), item["budget"])
        if t <= len(trials)
    }
    return {
        "rules": {
            rule: {str(t): true_values(benchmark, recommended(snapshot, rule)) for t, snapshot in snapshots.items()}
            for rule in RULES
        },
        "repeats": repeats(benchmark, trials),
        "seconds": report.quantile([trial.why.seconds for trial in trials[initial:]], 0.5),
        "rungs": sorted({trial.why.rung for trial in trials} - {"plain"}),
    }


def recommended(snapshot: Snapshot, rule: str) -> ndarray:
    """Return the point that a rule recommends, natural units."""
    if rule == "naive":
        scores = measures.penalized(observed(snapshot.problem, snapshot.trials))
        return snapshot.problem.point(dict(snapshot.trials[int(np.argmax(scores))].x))
    found = snapshot.recommend(rule)
    assert found is not None  # everything is told
    return snapshot.problem.natural(found.u)


def true_values(benchmark: Benchmark, x: ndarray) -> dict[str, Any]:
    """Return the true regret, violation and loss of a point."""
    f, scales = benchmark.truth(x[None]), benchmark.scales
    regret, broken = float(benchmark.normalized_regret(x[None])[0]), np.maximum(-f[0, 1:] / scales[1:], 0.0)
    paper = benchmark.best - float(measures.penalized(f)[0])
    loss = paper if benchmark.name == REACTOR else max(regret + WEIGHT * float(broken.sum()), 0.0)
    return {
        "loss": loss,
        "regret": regret,
        "violation": float(broken.max()) if len(broken) else 0.0,
        "is_feasible": bool(benchmark.is_strictly_feasible(x[None])[0]),
    }


def repeats(benchmark: Benchmark, trials: Sequence[Trial]) -> float:
    """Return the fraction of evaluations at points that were evaluated before."""
    X = np.stack([benchmark.problem.point(dict(trial.x)) for trial in trials])
    U = benchmark.problem.to_unit(X)
    return float(np.tril(cdist(U, U, "chebyshev") < NEAR, -1).any(1).mean())


# --- Tables -----------------------------------------------------------------------------------------------------------


def losses(records: Iterable[Any], search: str, rule: str, t: int, word: str = "loss") -> dict[Any, float]:
    """Return the losses of a rule after t evaluations, by problem and seed."""
    return {
        (r["item"]["problem"], r["item"]["seed"]): float(r["rules"][rule][str(t)][word])
        for r in records
        if r["item"]["search"] == search and str(t) in r["rules"][rule]
    }


def horizons(records: Iterable[Any]) -> list[int]:
    """Return the horizons of the recommendations."""
    return sorted({int(t) for r in records for at in r["rules"].values() for t in at})


def rules_table(records: Sequence[Any]) -> str:
    """Return a row for each search and rule: loss, regret, violation and how often infeasible."""
    rows = []
    for search in SEARCHES:
        for rule in RULES:
            cells = []
            for t in horizons(records):
                found = {
                    word: list(losses(records, search, rule, t, word).values())
                    for word in ("loss", "regret", "violation", "is_feasible")
                }
                if not found["loss"]:
                    cells.append("-")
                    continue
                broken = 1 - sum(found["is_feasible"]) / len(found["is_feasible"])
                regret, violation = (report.quantile(found[word], 0.5) for word in ("regret", "violation"))
                spread = report.spread(found["loss"], _three)
                cells.append(f"{spread}; {regret:.1e}; {violation:.1e}; {broken:.0%}")
            rows.append([search, rule, *cells])
    return report.table(["search", "rule", *(f"at {t}" for t in horizons(records))], rows)


def _three(value: float) -> str:
    return f"{value:.3g}"


def target_table(records: Sequence[Any]) -> str:
    """Return our rule under our search against the paper's under the paper's, pair by pair."""
    rows = []
    for t in horizons(records):
        mine, theirs = (losses(records, *which, t) for which in (OURS, PAPERS))
        keys = [key for key in mine if key in theirs]
        if not keys:
            continue
        a, b = (np.array([of[key] for key in keys]) for of in (mine, theirs))
        ratio = report.quantile(a.tolist(), 0.5) / max(report.quantile(b.tolist(), 0.5), 1e-12)
        wins, losing = int((a < b).sum()), int((a > b).sum())
        met = "met" if ratio <= TARGET else "missed"
        rows.append([t, len(keys), _three(ratio), f"{wins} / {losing}", f"{paired(a, b):.2g}", met])
    return report.table(["at", "pairs", "ratio of median losses", "better / worse", "p", f"at most {TARGET}"], rows)


def page(records: Sequence[Any]) -> str:
    """Return the whole report."""
    fine = [record for record in records if not record.get("error")]
    blocks = [
        slices.heading("Noise", records),
        "The true value of recommended points. Cells: loss, median with quartiles; median normalized regret "
        "(negative where an infeasible point is better than the optimum); median of the largest violation, in scales "
        "of its constraint; share of recommendations that are not strictly feasible. The loss is the paper's "
        "penalized regret (rho = 1e5) on the reactor, and normalized regret plus a hundred times the sum of scaled "
        "violations on random problems. Rules: `naive` is the best penalized value as observed, `asked` the paper's, "
        "equation (14), the others are those of the reference.",
    ]
    for name, is_drawn in (("Williams-Otto", False), ("Random problems", True)):
        for sigma in sorted({r["item"]["noise"] for r in fine}):
            some = [r for r in fine if r["item"]["noise"] == sigma and (r["item"]["problem"] != REACTOR) is is_drawn]
            if not some:
                continue
            again = {s: [r["repeats"] for r in some if r["item"]["search"] == s] for s in SEARCHES}
            shares = ", ".join(f"{s} {sum(each) / len(each):.0%}" for s, each in again.items() if each)
            problems = len({r["item"]["problem"] for r in some})
            blocks += [
                f"## {name}, sigma = {sigma:g}",
                f"Problems: {problems}; runs: {len(some)}. Evaluations that measured again: {shares}.",
                rules_table(some),
                "`anywhere` under our search against the paper's rule under the paper's:",
                target_table(some),
            ]
    return "\n\n".join([*blocks, *slices.troubles(records, ("problem", "noise", "search", "seed"))]) + "\n"


# --- The command ------------------------------------------------------------------------------------------------------


def main(words: Sequence[str] | None = None) -> int | str:
    """Run the command line; return how many runs are left, or the page."""
    parser = slices.parser(__doc__, out="noise.jsonl.gz", seeds=10)
    parser.add_argument("--sets", nargs="+", choices=("reactor", "draws"), default=["reactor"])
    parser.add_argument("--draws", type=int, default=14, help="how many random problems; default 14, two of each kind")
    parser.add_argument("--fresh", type=int, default=0, metavar="N", help="other draws; default 0")
    parser.add_argument("--sigmas", nargs="+", type=float, default=SIGMAS, help=f"default {SIGMAS}")
    parser.add_argument("--budget", type=int, default=HORIZONS[-1], help=f"evaluations; default {HORIZONS[-1]}")
    given = parser.parse_args(words)
    if given.report:
        return slices.write(given, page, "noise.md")
    problems = [REACTOR] if "reactor" in given.sets else []
    problems += draws_of(given.fresh, given.draws) if "draws" in given.sets else []
    return slices.work_on(items_of(problems, given.seeds, given.budget, given.sigmas), run, given)


if __name__ == "__main__":
    main()
