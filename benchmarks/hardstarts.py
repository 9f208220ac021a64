"""Hard starts: other units, no feasible initial point, duplicates, outputs that are constant, unused or missing.

    PYTHONPATH=src python3 benchmarks/hardstarts.py --limit 500 --out hardstarts.jsonl.gz       # a part
    python benchmarks/hardstarts.py --out hardstarts.jsonl.gz --report                          # the page

Each case is a row with a figure, and passes or fails.
"""

import slices  # must be first, see slices.py

# isort: split
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import report
import runner
from numpy import ndarray
from suite_sweep import SAME, difference, names_of

from pied import suite
from pied.bench.plan import RESCALING
from pied.errors import Infeasible
from pied.problem import Problem
from pied.records.trial import State, Trial
from pied.rng import Stream
from pied.solvers.initial import design_size
from pied.study import Study
from pied.suite import Benchmark
from pied.suite.twins import rescaled

SOLVED = 1e-3
"""Normalized regret that a run from a hard start must reach."""
BUDGETS = {"binary units": 8, "decimal units": 8, "infeasible start": 60}
"""Evaluations of a case; in other units, after the initial design; `BUDGET` for the others."""
BUDGET = 40
SAMPLE = 4096
"""Random points from which the worst are taken."""
COPIES = 3
"""How often each point of the design is added."""
SEVERAL = ("booth", "colville", "bazaraa", "rosen-suzuki", "williams-otto")
"""Problems of the other cases: without and with constraints, two and four variables; the first two have one output."""


# --- Other statements -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Spare:
    """A black box with one more output: a constant, or an oscillation that no function uses."""

    benchmark: Benchmark
    is_constant: bool

    def __call__(self, x: Mapping[str, float]) -> dict[str, float]:
        """Evaluate the truth and the additional output."""
        whole = self.benchmark.whole
        u = whole.to_unit(whole.point(x))
        return {
            **whole.named_y(whole.evaluate(x)),
            "spare": 3.0 if self.is_constant else math.sin(25.0 * float(u.sum())) * 1e3,
        }


def with_spare(benchmark: Benchmark, *, is_constant: bool) -> Benchmark:
    """Return a problem with one more output: a constant in objective and constraint, or an unused one."""
    whole = benchmark.whole
    words: dict[str, Any] = {
        "outputs": [*whole.outputs, "spare"],
        "blackbox": Spare(benchmark, is_constant),
    }
    if is_constant:
        told = whole.statement()
        limits = {name: each["formula"] for name, each in zip(whole.constraints, told["subject_to"], strict=True)}
        words["subject_to"] = {**limits, "spare limit": "spare <= 4"}
        words["minimize" if whole.minimizes else "maximize"] = f"({told['objective']['formula']}) + spare - 3"
    return replace(benchmark, whole=whole.revised(**words))


def failing_half(benchmark: Benchmark) -> Callable[[Trial], bool]:
    """Return whether a trial lies in the half of the box that does not contain the optimum, cut across one variable."""
    whole, known = benchmark.whole, benchmark.known
    assert known is not None
    at = whole.to_unit(whole.point(known.x))
    place = int(np.abs(at - 0.5).argmax())
    sign = 1.0 if float(at[place]) < 0.5 else -1.0

    def is_hit(trial: Trial) -> bool:
        u = whole.to_unit(whole.point(dict(trial.x)))
        return sign * (float(u[place]) - 0.5) > 0

    return is_hit


# --- Cases ------------------------------------------------------------------------------------------------------------


def asked(study: Study, budget: int, tell: Callable[[Study, Trial], Trial]) -> Iterator[Trial]:
    """Yield trials as they are told, until the budget is spent."""
    for _ in range(budget):
        yield tell(study, study.ask())


def plainly(study: Study, trial: Trial) -> Trial:
    """Evaluate a trial and tell everything."""
    return study.tell(trial, study.problem.named_y(study.problem.evaluate(trial.x)), anyway=True)


def reached(benchmark: Benchmark, trials: Sequence[Trial]) -> float:
    """Return the normalized regret of the best strictly feasible trial that was proposed and told completely."""
    told = [trial for trial in trials if trial.state is State.TOLD and not trial.is_added]
    if not told:
        return math.inf
    return best_of(benchmark, np.stack([benchmark.whole.point(dict(trial.x)) for trial in told]))


def best_of(benchmark: Benchmark, X: ndarray) -> float:
    """Return the normalized regret of the best strictly feasible point; infinite if there is none."""
    if not len(X):
        return math.inf
    fine = benchmark.is_strictly_feasible(X)
    return float(np.where(fine, benchmark.normalized_regret(X), np.inf).min())


def solved(benchmark: Benchmark, study: Study, budget: int, tell: Callable[[Study, Trial], Trial]) -> dict[str, Any]:
    """Ask and tell until the problem is solved or the budget is spent; return the result."""
    regret = math.inf
    try:
        for _ in asked(study, budget, tell):
            regret = reached(benchmark, study.trials)
            if regret <= SOLVED:
                break
    except Infeasible as verdict:
        return {"passed": False, "figure": f"false verdict after {study.used} evaluations: {verdict}"}
    rungs = sorted({trial.why.rung for trial in study.trials} - {"plain"})
    failed = sum(trial.state is not State.TOLD for trial in study.trials)
    return {
        "passed": regret <= SOLVED,
        "figure": f"regret {report.small(regret)} after {study.used} evaluations"
        + (f", {failed} of them failed or partial" if failed else "")
        + (f"; numerical ladder: {', '.join(rungs)}" if rungs else ""),
    }


def binary_units(benchmark: Benchmark, seed: int, budget: int) -> dict[str, Any]:
    """Compare with units that differ by powers of two: the points must be the same."""
    whole = benchmark.whole
    return in_units(
        benchmark,
        seed,
        budget,
        x={name: 2.0 ** (5 - 3 * place) for place, name in enumerate(whole.variables)},
        y={name: 2.0 ** (7 * place % 20 - 9) for place, name in enumerate(whole.outputs)},
        g={name: 2.0 ** (4 - 5 * place) for place, name in enumerate(("objective", *whole.constraints))},
    )


def decimal_units(benchmark: Benchmark, seed: int, budget: int) -> dict[str, Any]:
    """Compare with units that differ by powers of ten, which adds rounding errors: the points should be the same."""
    return in_units(benchmark, seed, budget, **RESCALING)


def in_units(benchmark: Benchmark, seed: int, budget: int, **factors: Any) -> dict[str, Any]:
    """Compare two runs, one in these units; both are stated as functions, because a formula rounds differently."""
    budget = design_size(benchmark.whole.d) + budget
    own, other = (points_of(rescaled(benchmark, **words), seed, budget) for words in ({}, factors))
    gap, first = difference({"points": own}, {"points": other})
    where = ""
    if first is not None:
        known = np.array(own)[: first - 1]
        before = best_of(benchmark, benchmark.whole.from_unit(known))
        where = f"; they part at evaluation {first}, with a regret of {report.small(before)}"
    return {"passed": gap <= SAME, "figure": f"largest difference {gap:.0e} over {budget} evaluations{where}"}


def points_of(benchmark: Benchmark, seed: int, budget: int) -> list[list[float]]:
    """Run, and return the proposed points of the unit cube."""
    whole = benchmark.whole
    with Study(benchmark.problem, solver="cuqb", seed=seed) as study:
        trials = list(asked(study, budget, plainly))
    return [whole.to_unit(whole.point(dict(trial.x))).tolist() for trial in trials]


def infeasible_start(benchmark: Benchmark, seed: int, budget: int) -> dict[str, Any]:
    """Start from the most infeasible of many random points; a feasible point must be found."""
    whole = benchmark.whole
    X = whole.from_unit(Stream(seed).at("worst").uniform(SAMPLE, whole.d))
    broken = np.maximum(-benchmark.truth(X)[:, 1:] / benchmark.scales[1:], 0.0).max(1)
    worst = X[np.argsort(-broken, kind="stable")[: design_size(whole.d)]]
    if bool(benchmark.is_strictly_feasible(worst).any()):
        raise AssertionError(f"fewer than {len(worst)} of {SAMPLE} random points are infeasible")
    with Study(benchmark.problem, solver="cuqb", seed=seed) as study:
        for x, y in zip(worst, benchmark.outputs(worst), strict=True):
            study.add(whole.named_x(x), whole.named_y(y))
        try:
            for count, trial in enumerate(asked(study, budget, plainly), 1):
                if bool(benchmark.is_strictly_feasible(dict(trial.x)).all()):
                    return {"passed": True, "figure": f"feasible after {count} evaluations", "evaluations": count}
        except Infeasible as verdict:
            return {"passed": False, "figure": f"false verdict after {study.used} evaluations: {verdict}"}
    return {"passed": False, "figure": f"nothing feasible in {budget} evaluations"}


def duplicates(benchmark: Benchmark, seed: int, budget: int) -> dict[str, Any]:
    """Start from data of an exact black box in which every point occurs several times."""
    whole = benchmark.whole
    X = np.tile(whole.from_unit(Stream(seed).at("duplicates").uniform(design_size(whole.d), whole.d)), (COPIES, 1))
    with Study(benchmark.problem, solver="cuqb", seed=seed) as study:
        for x, y in zip(X, benchmark.outputs(X), strict=True):
            study.add(whole.named_x(x), whole.named_y(y))
        return solved(benchmark, study, budget, plainly)


def constant_output(benchmark: Benchmark, seed: int, budget: int) -> dict[str, Any]:
    """Add a constant output to the objective and to a constraint."""
    changed = with_spare(benchmark, is_constant=True)
    with Study(changed.problem, solver="cuqb", seed=seed) as study:
        return solved(benchmark, study, budget, plainly)


def useless_output(benchmark: Benchmark, seed: int, budget: int) -> dict[str, Any]:
    """Add a large oscillating output that no function uses."""
    changed = with_spare(benchmark, is_constant=False)
    with Study(changed.problem, solver="cuqb", seed=seed) as study:
        return solved(benchmark, study, budget, plainly)


def failing_evaluation(benchmark: Benchmark, seed: int, budget: int) -> dict[str, Any]:
    """Let evaluations fail in the half of the box without the optimum."""
    is_hit = failing_half(benchmark)

    def tell(study: Study, trial: Trial) -> Trial:
        return study.fail(trial, "it did not converge") if is_hit(trial) else plainly(study, trial)

    with Study(benchmark.problem, solver="cuqb", seed=seed) as study:
        return solved(benchmark, study, budget, tell)


def missing_output(benchmark: Benchmark, seed: int, budget: int) -> dict[str, Any]:
    """Leave out the last output in the half of the box without the optimum."""
    is_hit = failing_half(benchmark)

    def tell(study: Study, trial: Trial) -> Trial:
        problem: Problem = study.problem
        y = dict(problem.named_y(problem.evaluate(trial.x)))
        if is_hit(trial):
            del y[problem.outputs[-1]]
        return study.tell(trial, y, anyway=True)

    with Study(benchmark.problem, solver="cuqb", seed=seed) as study:
        return solved(benchmark, study, budget, tell)


CASES: dict[str, tuple[Callable[[Benchmark, int, int], dict[str, Any]], Sequence[str]]] = {
    "binary units": (binary_units, suite.sets["paper"]),
    "decimal units": (decimal_units, suite.sets["paper"]),
    "infeasible start": (infeasible_start, (*suite.sets["constrained"], "williams-otto")),
    "duplicates": (duplicates, SEVERAL),
    "constant output": (constant_output, SEVERAL),
    "useless output": (useless_output, SEVERAL),
    "failing evaluation": (failing_evaluation, SEVERAL),
    "missing output": (missing_output, SEVERAL[2:]),
}
"""The cases, and their problems."""


def items_of(cases: Sequence[str], problems: Sequence[str], seeds: int, budget: int | None) -> list[slices.Item]:
    """Return every case on its problems."""
    made = [
        {"case": case, "problem": name, "seed": seed, "budget": budget or BUDGETS.get(case, BUDGET)}
        for case in cases for name in CASES[case][1] if name in problems for seed in range(seeds)
    ]  # fmt: skip
    return slices.ordered(made)


def run(item: slices.Item) -> dict[str, Any]:
    """Perform one case."""
    return CASES[item["case"]][0](runner.benchmark_of(item["problem"]), item["seed"], item["budget"])


# --- Tables -----------------------------------------------------------------------------------------------------------


def cases_table(records: Sequence[Any]) -> str:
    """Return how many runs of each case passed."""
    rows = []
    for case, (work, _) in CASES.items():
        mine = [record for record in records if record["item"]["case"] == case]
        if mine:
            passed = sum(bool(record.get("passed")) for record in mine)
            verdict = "pass" if passed == len(mine) else "FAIL"
            rows.append([case, (work.__doc__ or "").strip().rstrip("."), f"{passed} of {len(mine)}", verdict])
    return report.table(["case", "what", "runs that passed", ""], rows)


def rows_table(records: Sequence[Any], case: str) -> str:
    """Return every run of a case, one row per problem and one column per seed."""
    mine = {(r["item"]["problem"], r["item"]["seed"]): r for r in records if r["item"]["case"] == case}
    seeds = sorted({seed for _, seed in mine})

    def cell(record: Any) -> str:
        if record is None:
            return "-"
        mark = "" if record.get("passed") else "**FAIL**: "
        return mark + (record.get("figure") or f"raised {record['error']}")

    problems = [name for name in CASES[case][1] if any(name == each for each, _ in mine)]
    rows = [[name, *(cell(mine.get((name, seed))) for seed in seeds)] for name in problems]
    return report.table(["problem", *(f"seed {seed}" for seed in seeds)], rows)


def page(records: Sequence[Any]) -> str:
    """Return the whole report."""
    blocks = [
        slices.heading("Hard starts", records),
        f"Other units pass when the largest difference of two runs in the unit cube is at most {SAME:g}; an infeasible "
        f"start when a strictly feasible sample is found within {BUDGETS['infeasible start']} evaluations; the others "
        f"when a strictly feasible sample of normalized regret {SOLVED:g} is found within {BUDGET}.",
        cases_table(records),
    ]
    for case in CASES:
        if any(record["item"]["case"] == case for record in records):
            blocks += [f"## {case.capitalize()}", rows_table(records, case)]
    return "\n\n".join([*blocks, *slices.troubles(records, ("case", "problem", "seed"))]) + "\n"


# --- The command ------------------------------------------------------------------------------------------------------


def main(words: Sequence[str] | None = None) -> int | str:
    """Run the command line; return how many cases are left, or the page."""
    parser = slices.parser(__doc__, out="hardstarts.jsonl.gz", seeds=3)
    parser.add_argument("--cases", nargs="+", choices=tuple(CASES), default=list(CASES), metavar="CASE")
    parser.add_argument("--problems", nargs="+", metavar="NAME", default=["paper"], help="names or sets; default paper")
    parser.add_argument("--without", nargs="+", metavar="NAME", default=[], help="problems to leave out")
    parser.add_argument("--budget", type=int, help=f"evaluations; default {BUDGETS}, else {BUDGET}")
    given = parser.parse_args(words)
    if given.report:
        return slices.write(given, page, "hardstarts.md")
    problems = [name for name in names_of(given.problems) if name not in given.without]
    return slices.work_on(items_of(given.cases, problems, given.seeds, given.budget), run, given)


if __name__ == "__main__":
    main()
