"""False verdicts with several trials pending and with failing evaluations, counted.

    PYTHONPATH=src python3 benchmarks/batches.py --jobs 16 --limit 1150 --out batches.jsonl.gz     # 2,016 runs; again
    python benchmarks/batches.py --out batches.jsonl.gz --report                                   # until none is left

Feasible problems with little that is feasible (`verdicts.tight`), from a start of few points where nothing feasible is
known. Each task is one problem under six circumstances: 4 or 8 trials pending, told in random order; no evaluation
fails, a part of the box fails, or evaluations fail at random. A run ends with the first feasible sample, with a verdict
(none is wanted) or with its budget. Part 'infeasible' counts, under the same circumstances, how many problems without a
feasible point are declared: all are wanted.
"""

import slices  # first: see there

# isort: split
from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import report
import runner
import verdicts
from numpy import ndarray

from pied import suite
from pied.errors import EvaluationError, Status
from pied.problem import Problem
from pied.records.trial import State, Trial, feasible
from pied.rng import Stream
from pied.study import Study
from pied.suite import Benchmark, twins

KINDS = ("gp", "polynomial", "oscillating", "steep", "reactor")
"""Draws whose truth is quick."""
SUITE = ("bazaraa", "spring", "williams-otto", "rosen-suzuki")
SHARES = (0.1, 0.01, 0.001)
"""How much of the largest margin is left."""
PENDING = (4, 8)
FAILING = ("nothing", "a part", "at random")
START = 3
"""Points of the initial design, which never fails: a black box that fails from the first call on is another matter."""
EVALUATIONS = 23
"""Of a run at most: about 18 after the design, in which the belief tests feasibility."""
PART = 0.3
"""Of the box, cut across one variable, opposite to the point that is feasible: evaluations there fail."""
CHANCE = 0.25
"""That an evaluation fails, where they fail at random."""

Fails = Callable[[Trial], bool]


def items_of(parts: Sequence[str], seeds: int) -> list[slices.Item]:
    """Return every task, seed by seed: five draws and two problems of the suite; infeasible twins of the suite."""
    made: list[slices.Item] = []
    for seed in range(seeds):
        draws = [f"small:{11 * seed + place}:{kind}" for place, kind in enumerate(KINDS)]
        if "feasible" in parts:
            names = [*draws, SUITE[seed % len(SUITE)], SUITE[(seed + 1) % len(SUITE)]]
            shares = [SHARES[(seed + place) % len(SHARES)] for place in range(len(names))]
            made += [
                {"part": "feasible", "problem": name, "share": share, "seed": seed}
                for name, share in zip(names, shares, strict=True)
            ]
        if "infeasible" in parts and seed < 4:
            forms = [f"infeasible:{name}" for name in twins.INFEASIBLE if name in SUITE]
            made += [{"part": "infeasible", "problem": name, "share": 0.0, "seed": seed} for name in forms]
    return slices.ordered(made)


# --- Problems ---------------------------------------------------------------------------------------------------------


def is_folded(problem: str) -> bool:
    """Whether g is moved into the black box: fifteen of sixteen draws, whose bounds then have closed forms.

    A test of feasibility with sampled bounds takes ten times as long, and would leave few runs.
    """
    form, _, rest = problem.partition(":")
    return form == "small" and int(rest.partition(":")[0]) % 16 != 0


def drawn(text: str) -> Benchmark:
    """Return a small benchmark: draws have two or three variables and two constraints."""
    form, _, rest = text.partition(":")
    if form != "small":
        return runner.benchmark_of(text)
    seed, _, kind = rest.partition(":")
    return suite.random(int(seed), kind, d=2 + int(seed) % 2, n=2)


@lru_cache(maxsize=8)
def stated(part: str, problem: str, share: float) -> tuple[Benchmark, ndarray | None]:
    """Return the problem of a task, and a point of the unit cube that is feasible."""
    benchmark = drawn(problem)
    return (benchmark, None) if part == "infeasible" else verdicts.tightened(benchmark, share)


def failing(kind: str, benchmark: Benchmark, u: ndarray | None, stream: Stream) -> Fails:
    """Return which evaluations fail."""
    whole, draw = benchmark.whole, stream.at("failures").generator()
    at = np.full(whole.d, 0.5) if u is None else u
    place = int(stream.at("place").generator().integers(whole.d))

    def in_part(trial: Trial) -> bool:
        own = float(whole.to_unit(whole.point(dict(trial.x)))[place])
        return own > 1.0 - PART if float(at[place]) <= 0.5 else own < PART

    def at_random(trial: Trial) -> bool:
        return bool(draw.random() < CHANCE)

    rule = {"nothing": lambda trial: False, "a part": in_part, "at random": at_random}[kind]
    return lambda trial: trial.number > START and rule(trial)


# --- One run ----------------------------------------------------------------------------------------------------------


def work(item: slices.Item) -> dict[str, Any]:
    """Run one problem under all circumstances."""
    benchmark, u = stated(item["part"], item["problem"], item["share"])
    if item["part"] == "feasible" and u is None:
        return {"runs": [], "left out": "no feasible point is known"}
    runs = []
    for pending in PENDING:
        for kind in FAILING:
            stream = Stream(item["seed"]).at("batches", pending, kind)
            fails = failing(kind, benchmark, u, stream)
            problem = benchmark.problem.folded() if is_folded(item["problem"]) else benchmark.problem
            runs.append({"pending": pending, "failing": kind, **run(problem, item["seed"], pending, fails, stream)})
    return {"runs": runs}


def run(problem: Problem, seed: int, pending: int, fails: Fails, stream: Stream) -> dict[str, Any]:
    """Keep trials pending, settle them in random order, and return how it ended."""
    study = Study(problem, solver="cuqb", seed=seed, initial=START)
    draw, waiting, first = stream.at("order").generator(), [], None
    while first is None and study.status is not Status.INFEASIBLE:
        while len(waiting) < pending and study.used < EVALUATIONS and study.status is Status.RUNNING:
            waiting.append(study.ask())
        if not waiting:
            break
        settle(study, waiting.pop(int(draw.integers(len(waiting)))), fails)
        if bool(feasible(study.problem, study.data.functions(study.problem)).any()):
            first = study.used
    margins = [trial.why.margin for trial in study.trials if trial.why.aim != "initial"]
    return {
        "declared": study.used if study.status is Status.INFEASIBLE else None,
        "status": study.status.name,
        "evaluations": study.used,
        "first": first,
        "tests": len(margins),
        "below": sum(margin is not None and margin < 0 for margin in margins),
        "failed": sum(trial.state is State.FAILED for trial in study.trials),
        "rungs": sorted({trial.why.rung for trial in study.trials} - {"plain"}),
    }


def settle(study: Study, trial: Trial, fails: Fails) -> None:
    """Evaluate a trial and tell it, or let it fail."""
    if fails(trial):
        study.fail(trial, "made to fail")
        return
    try:
        y = study.problem.evaluate(trial.x)
    except EvaluationError as error:
        study.fail(trial, str(error))
        return
    study.tell(trial, study.problem.named_y(y), anyway=True)


# --- The report -------------------------------------------------------------------------------------------------------


def page(records: Sequence[dict[str, Any]]) -> str:
    """Return the tables."""
    blocks = [slices.heading("Verdicts with trials pending and evaluations failing", records)]
    for part, title in (("feasible", "Feasible problems"), ("infeasible", "Problems without a feasible point")):
        mine = [record for record in records if record["item"]["part"] == part and "runs" in record]
        if not mine:
            continue
        runs = [each for record in mine for each in record["runs"]]
        declared = sum(each["declared"] is not None for each in runs)
        wanted = "0 wanted" if part == "feasible" else "all wanted"
        blocks += [f"## {title}", f"{declared} of {len(runs)} runs called infeasible ({wanted})."]
        blocks += [table_of(runs), *false_verdicts(mine if part == "feasible" else [])]
    return "\n\n".join([*blocks, *slices.troubles(records, ("part", "problem", "share", "seed"))]) + "\n"


def table_of(runs: Sequence[dict[str, Any]]) -> str:
    """Return a row for each circumstance."""
    rows = []
    for pending in PENDING:
        for kind in FAILING:
            own = [each for each in runs if each["pending"] == pending and each["failing"] == kind]
            ends = Counter(each["status"] for each in own)
            rows.append([
                pending, kind, len(own), ends["INFEASIBLE"], sum(each["first"] is not None for each in own),
                sum(each["tests"] for each in own), sum(each["below"] for each in own),
                sum(each["failed"] for each in own), report.quantile([each["evaluations"] for each in own], 0.5),
            ])  # fmt: skip
    columns = ["pending", "failing", "runs", "called infeasible", "found feasible", "tests", "below 0", "failed trials"]
    return report.table([*columns, "median evaluations"], rows)


def false_verdicts(records: Sequence[dict[str, Any]]) -> list[str]:
    """Return a line for each run of a feasible problem that was called infeasible."""
    lines = [
        f"- {record['item']['problem']}, share {record['item']['share']}, seed {record['item']['seed']}, "
        f"{each['pending']} pending, failing: {each['failing']}; after {each['declared']} evaluations"
        for record in records
        for each in record["runs"]
        if each["declared"] is not None
    ]
    return ["### False verdicts", "\n".join(lines)] if lines else []


def main(words: Sequence[str] | None = None) -> int | str:
    """Run the command line; return how many tasks are left, or the page."""
    parser = slices.parser(__doc__, out="batches.jsonl.gz", seeds=48)
    parser.add_argument("--parts", nargs="+", choices=("feasible", "infeasible"), default=["feasible", "infeasible"])
    parser.add_argument("--only", default="", metavar="TEXT", help="problems that contain this")
    given = parser.parse_args(words)
    if given.report:
        return slices.write(given, page, "batches.md")
    items = [item for item in items_of(given.parts, given.seeds) if given.only in item["problem"]]
    return slices.work_on(items, work, given)


if __name__ == "__main__":
    main()
