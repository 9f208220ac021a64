"""Batches: how many more evaluations are needed when 4 or 8 trials are proposed before any of them is told.

    PYTHONPATH=src python3 benchmarks/pending.py --limit 500 --out pending.jsonl.gz       # a part; repeat to continue
    python benchmarks/pending.py --out pending.jsonl.gz --report                          # the page

Ask q, tell all q, on the suite and on random problems, without noise and with. The initial design is asked at once and
is the same for every q. A run ends with the batch in which a sample reaches the tolerance, or with its budget.
"""

import slices  # must be first, see slices.py

# isort: split
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import report
import runner
from noise import noisy
from numpy import ndarray
from scipy.spatial.distance import pdist
from scoreboard import draws_of
from suite_sweep import by_problem, names_of

from pied.errors import EvaluationError, Status
from pied.records.trial import State, Trial
from pied.study import Study
from pied.suite import Benchmark
from pied.suite.benchmark import NoisyBlackBox

PENDING = (1, 4, 8)
"""Trials that are proposed before one is told."""
TARGETS = {4: 1.2, 8: 1.5}
"""Evaluations to the tolerance, at most so many times those of one at a time."""
BUDGET = 60
"""Evaluations of a run, the initial design among them."""
TOLERANCES = {0.0: 1e-3, 0.01: 1e-2}
"""Normalized regret to be reached, by noise relative to the spread of each output."""
SLOWEST = ("environmental",)
"""Problems of the suite that are left out."""
SAME = 1e-3
"""Of the unit cube, in every coordinate: a laboratory would call two points within this distance the same."""


# --- Runs -------------------------------------------------------------------------------------------------------------


def items_of(
    problems: Sequence[str], seeds: int, noises: Sequence[float], pending: Sequence[int], budget: int
) -> list[slices.Item]:
    """Return every run, those of one problem and seed next to each other, so that a limit leaves complete pairs."""
    return slices.ordered(
        {"problem": problem, "noise": sigma, "pending": q, "seed": seed, "budget": budget}
        for problem in problems for sigma in noises for seed in range(seeds) for q in pending
    )  # fmt: skip


def run(item: slices.Item) -> dict[str, Any]:
    """Perform one run; return the regret after each evaluation, and which batches have two points that are the same."""
    exact, sigma = runner.benchmark_of(item["problem"]), item["noise"]
    benchmark = noisy(item["problem"], "full", sigma, item["seed"]) if sigma else exact
    regrets: list[float] = []
    batches = []
    with Study(benchmark.problem, solver="cuqb", seed=item["seed"], patience=None) as study:
        while len(regrets) < item["budget"] and min(regrets, default=math.inf) > TOLERANCES[sigma]:
            size = item["pending"] if regrets else study.initial
            batch = ask(study, min(size, item["budget"] - len(regrets)))
            if not batch:
                break
            for trial in batch:
                settle(study, trial)
                regrets.append(regret(exact, study.trials[trial.number - 1]))
            batches.append(batch)
        chosen, status = study.trials[study.initial :], study.status
    aims: dict[str, int] = {}
    for trial in chosen:
        aims[trial.why.aim] = aims.get(trial.why.aim, 0) + 1
    best = np.minimum.accumulate(regrets).tolist()
    return {
        "regret": [value if math.isfinite(value) else None for value in best],
        "batches": len(batches) - 1,
        "same": sum(has_same(exact, batch) for batch in batches[1:]),
        "repeated": sum(trial.why.repeats is not None for trial in chosen),
        "aims": aims,
        "status": status.name,
        "seconds": report.quantile([trial.why.seconds for trial in chosen], 0.5) if chosen else None,
        "rungs": sorted({trial.why.rung for trial in chosen} - {"plain"}),
    }


def ask(study: Study, count: int) -> list[Trial]:
    """Propose trials without telling any; fewer when the study ends."""
    batch: list[Trial] = []
    while len(batch) < count and study.status is Status.RUNNING:
        batch.append(study.ask(again=False))
    return batch


def settle(study: Study, trial: Trial) -> None:
    """Evaluate a trial and tell it; the noise depends on its number alone."""
    box = study.problem.blackbox
    if isinstance(box, NoisyBlackBox):
        box.calls = trial.number - 1
    try:
        study.tell(trial, study.problem.named_y(study.problem.evaluate(trial.x)), anyway=True)
    except EvaluationError as error:
        study.fail(trial, str(error))


def regret(benchmark: Benchmark, trial: Trial) -> float:
    """Return the true normalized regret of a trial; infinite where it failed or is not strictly feasible."""
    X = benchmark.whole.point(dict(trial.x))[None]
    is_fine = trial.state is State.TOLD and bool(benchmark.is_strictly_feasible(X)[0])
    return max(float(benchmark.normalized_regret(X)[0]), 0.0) if is_fine else math.inf


def has_same(benchmark: Benchmark, batch: Sequence[Trial]) -> bool:
    """Tell whether two points of a batch are the same, and the later one is not called a repetition."""
    new = [benchmark.whole.point(dict(trial.x)) for trial in batch if trial.why.repeats is None]
    X = np.array(new).reshape(len(new), benchmark.whole.d)
    return len(X) > 1 and bool((pdist(benchmark.whole.to_unit(X), "chebyshev") < SAME).any())


# --- Tables -----------------------------------------------------------------------------------------------------------


def evaluations(record: Any) -> float:
    """Return the evaluations until the tolerance is reached; the budget if it is not."""
    return float(report.until(record, TOLERANCES[record["item"]["noise"]]) or record["item"]["budget"])


def is_solved(record: Any) -> bool:
    """Tell whether the tolerance was reached."""
    return report.until(record, TOLERANCES[record["item"]["noise"]]) is not None


def ratios(records: Sequence[Any], pending: int) -> ndarray:
    """Return evaluations in batches over evaluations one at a time, of the same problem and seed.

    Pairs that neither solves say nothing and are left out.
    """
    alone = {key_of(record): record for record in records if record["item"]["pending"] == 1}
    pairs = [(r, alone[key_of(r)]) for r in records if r["item"]["pending"] == pending and key_of(r) in alone]
    return np.array([evaluations(a) / evaluations(b) for a, b in pairs if is_solved(a) or is_solved(b)])


def key_of(record: Any) -> tuple[str, int, float]:
    """Return what two runs of a pair have in common."""
    item = record["item"]
    return item["problem"], item["seed"], item["noise"]


def summary(records: Sequence[Any]) -> str:
    """Return a row for each number of pending trials."""
    rows = []
    for pending in PENDING:
        mine = [record for record in records if record["item"]["pending"] == pending]
        if not mine:
            continue
        found, batches = ratios(records, pending), sum(record["batches"] for record in mine)
        mean = float(np.exp(np.log(found).mean())) if len(found) else math.nan
        target = TARGETS.get(pending)
        wanted = "-" if target is None else f"{target:g}, {'met' if mean <= target else 'missed'}"
        rows.append([
            pending, len(mine), f"{sum(map(is_solved, mine)) / len(mine):.0%}",
            report.spread([evaluations(record) for record in mine], report.count),
            f"{report.quantile(found.tolist(), 0.5):.2f}", f"{mean:.2f}", wanted,
            report.spread([record["batches"] for record in mine], report.count),
            f"{sum(record['same'] for record in mine) / max(batches, 1):.1%}",
            f"{sum(record['repeated'] for record in mine)}",
            f"{report.quantile([record['seconds'] for record in mine if record['seconds'] is not None], 0.5):.2g}",
        ])  # fmt: skip
    columns = ["pending", "runs", "solved", "evaluations", "median ratio", "mean ratio", "at most"]
    columns += ["batches after the design", "batches with two the same", "called repetitions", "seconds per suggestion"]
    return report.table(columns, rows)


def problems_table(records: Sequence[Any]) -> str:
    """Return a row for each problem: evaluations for each number of pending trials, and the ratios."""
    rows = []
    for problem, group in by_problem([{**record, "task": record["item"]} for record in records]).items():
        cells = [
            report.spread([evaluations(r) for r in group if r["item"]["pending"] == pending], report.count)
            for pending in PENDING
        ]
        means = [ratios(group, pending) for pending in PENDING[1:]]
        cells += [f"{np.exp(np.log(each).mean()):.2f}" if len(each) else "-" for each in means]
        rows.append([problem, *cells])
    columns = [f"{pending} pending" for pending in PENDING] + [f"{pending} / 1" for pending in PENDING[1:]]
    return report.table(["problem", *columns], rows)


def page(records: Sequence[Any]) -> str:
    """Return the whole report."""
    fine = [record for record in records if not record.get("error")]
    blocks = [
        slices.heading("Batches", records),
        "q trials are proposed, then all of them are told. Evaluations until a strictly feasible sample has a true "
        "normalized regret of at most 1e-3 (with noise of 1 % of each output's spread: 1e-2), the initial design "
        "counted, the budget where it is not reached. Ratios are between runs of the same problem and seed, median "
        "and geometric mean, without pairs that neither solves. Two points of a batch are the same if every setting "
        "differs by less than 1e-3 of its range and the later one is not called a repetition.",
    ]
    for sigma in sorted({record["item"]["noise"] for record in fine}):
        for name in ("suite", "draws"):
            mine = [
                r for r in fine
                if r["item"]["noise"] == sigma and r["item"]["problem"].startswith("draw:") is (name == "draws")
            ]  # fmt: skip
            if mine:
                title = f"On the {name}, {'exact' if not sigma else f'noise {sigma:g}'}"
                blocks += [f"## {title}", summary(mine), problems_table(mine)]
    return "\n\n".join([*blocks, *slices.troubles(records, ("problem", "noise", "pending", "seed"))]) + "\n"


# --- The command ------------------------------------------------------------------------------------------------------


def main(words: Sequence[str] | None = None) -> int | str:
    """Run the command line; return how many runs are left, or the page."""
    parser = slices.parser(__doc__, out="pending.jsonl.gz", seeds=3)
    parser.add_argument("--sets", nargs="+", choices=("suite", "draws"), default=["suite", "draws"])
    parser.add_argument("--problems", nargs="+", metavar="NAME", help="of the suite: names or sets; default paper")
    parser.add_argument("--draws", type=int, default=22, help="how many random problems, the kinds in turn; default 22")
    parser.add_argument("--fresh", type=int, default=31, metavar="N", help="other draws; default 31")
    parser.add_argument("--noise", nargs="+", type=float, choices=tuple(TOLERANCES), default=[0.0], help="default 0")
    parser.add_argument("--pending", nargs="+", type=int, choices=PENDING, default=list(PENDING), help="default all")
    parser.add_argument("--budget", type=int, default=BUDGET, help=f"evaluations; default {BUDGET}")
    given = parser.parse_args(words)
    if given.report:
        return slices.write(given, page, "pending.md")
    problems = names_of(given.problems or ["paper"]) if "suite" in given.sets else []
    draws = draws_of(given.fresh, given.draws) if "draws" in given.sets else []
    chosen = [name for name in (*problems, *draws) if name not in SLOWEST]
    items = items_of(chosen, given.seeds, given.noise, given.pending, given.budget)
    return slices.work_on(items, run, given)


if __name__ == "__main__":
    main()
