"""Whether what a study says is true: its bounds, probabilities, gap and verdicts, counted at fixed stages.

    PYTHONPATH=src python3 benchmarks/honesty.py --jobs 16 --limit 550 --out honesty.jsonl.gz    # until none is left
    python benchmarks/honesty.py --out honesty.jsonl.gz --report                                 # append the page

Sets: 'draws' (random problems, rough and smooth kinds), 'rough' (fixed problems with rough outputs), 'failing' (those,
with evaluations that fail in a quarter of the box), 'unseen' (plants that were written without looking at the method,
`unseen.py`), 'paper' (some of the suite) and 'infeasible' (problems without a feasible point, rough ones first). Noise
is 2 % of each output's spread: constant, growing with the output, or with 5 % gross errors; solvers have to learn it,
also where there is none ('unstated'), as in a simulator of which nobody said that it is exact. Starts: the usual
design, or 3, 5 or 50 old rows in one cluster or along one line.
Everything is asked through the public interface of `Study`.
"""

import slices  # first: see there

# isort: split
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import honesty_tables
import numpy as np
import report
import runner
import unseen
from numpy import ndarray

from pied import suite
from pied.errors import Infeasible, SolverDone, Status
from pied.records.trial import spread
from pied.rng import Stream
from pied.study import Study
from pied.study.result import Result
from pied.suite import Benchmark, twins
from pied.suite.rough import OWN_NOISE

SETS = ("draws", "rough", "paper", "infeasible", "failing", "unseen")
KINDS = (*suite.rough_kinds, "gp", "steep", "oscillating")
"""Kinds of the draws: the rough ones, and three smooth ones to see that nothing is lost there."""
PAPER = ("booth", "bazaraa", "rosen-suzuki", "williams-otto")
NOISES = ("exact", "constant", "growing", "outliers", "unstated")
SIGMA = 0.02
"""Noise in spreads of each output; of growing noise, a quarter of it is constant and the rest grows."""
GROWTH = 0.04
"""Standard deviation of growing noise in sizes of the output."""
OUTLIERS = 0.05
FAILING = 0.25
"""Share of the box in which evaluations fail: beyond some plane, on the side without the optimum."""
FREE = 0.02
"""Distance of the optimum from that plane, in widths of the box, at least."""
STARTS = ("design", "3 clustered", "5 line", "5 clustered", "50 line", "50 clustered")
CLUSTER = 0.08
"""Standard deviation of a cluster of old rows, in widths of the box."""
EVERY = 3
"""Evaluations between two results that are asked for, besides the stages."""
STAGES = {"1/3": 1 / 3, "1/2": 1 / 2, "2/3": 2 / 3, "end": 1.0}
ROUNDING = 1e-9
"""In spreads: a value this far outside of its bounds is inside."""
POOL = 1024
"""Points from which the spread of an output over the box is computed."""


# --- What to run ------------------------------------------------------------------------------------------------------


def items_of(
    sets: Sequence[str],
    kinds: Sequence[str],
    noises: Sequence[str],
    starts: Sequence[str],
    seeds: int,
    budget: int | None,
) -> list[slices.Item]:
    """Return every run, seed by seed: each seed is another draw; only draws have other starts than the design."""
    made: list[slices.Item] = []
    for seed in range(seeds):
        named = [("draws", kind, f"draw:{seed}:{kind}") for kind in kinds]
        named += [("rough", name, name) for name in suite.sets.get("rough", ())]
        named += [("paper", "smooth", name) for name in PAPER]
        named += [("infeasible", text.partition(":")[0], text) for text in impossible()]
        named += [("failing", name, f"failing:{name}") for name in suite.sets.get("rough", ())]
        named += [("unseen", name, f"unseen:{name}") for name in unseen.PLANTS]
        for group, kind, problem in named:
            for noise, start in itertools.product(noises, starts if group == "draws" else starts[:1]):
                if group in sets:
                    item = {"set": group, "kind": kind, "problem": problem, "noise": noise, "start": start}
                    made.append({**item, "seed": seed, "budget": budget})
    return slices.ordered(made)


def impossible() -> list[str]:
    """Return the problems without a feasible point: those with rough outputs, and two smooth ones."""
    wanted = (*suite.sets.get("rough", ()), "bazaraa", "williams-otto")
    one = [f"infeasible:{name}" for name in wanted if name in twins.INFEASIBLE]
    return one + [f"jointly:{name}" for name in wanted if name in twins.JOINTLY]


@lru_cache(maxsize=16)
def stated(problem: str, noise: str, seed: int) -> Benchmark:
    """Return a problem with its noise, relative to the spread of each output over the box."""
    group, _, name = problem.partition(":")
    exact = unseen.benchmark_of(name) if group == "unseen" else runner.benchmark_of(problem.removeprefix("failing:"))
    if noise in ("exact", "unstated"):
        return exact if noise == "exact" else replace(exact, whole=exact.whole.revised(noise=None))
    name, whole = problem.rpartition(":")[2], exact.whole
    if name in OWN_NOISE:  # the noise that the problem is about
        return exact.told("full", seed=seed, **OWN_NOISE[name])
    Y = exact.outputs(whole.from_unit(Stream(0).at("noise").sobol(POOL, whole.d)))
    sigma = SIGMA / 4 if noise == "growing" else SIGMA
    std = dict(zip(whole.outputs, (sigma * spread(Y)).tolist(), strict=True))
    words = {"growing": {"growth": GROWTH}, "outliers": {"outliers": OUTLIERS}}.get(noise, {})
    return exact.told("full", std, seed=seed, **words)


def old_rows(benchmark: Benchmark, start: str, seed: int) -> ndarray:
    """Return the settings of old rows, natural units: as laboratories have them, in one cluster or along one line."""
    if start == "design":
        return np.empty((0, benchmark.whole.d))
    count, layout = start.split()
    stream, d = Stream(seed).at("old rows", start, benchmark.name), benchmark.whole.d
    centre = 0.2 + 0.6 * stream.at("centre").uniform(d)
    if layout == "clustered":
        U = centre + CLUSTER * stream.at("cluster").normal(int(count), d)
    else:  # one variable is changed, the others stay within what the equipment holds
        U = np.tile(centre, (int(count), 1)) + 0.005 * stream.at("held").normal(int(count), d)
        place = int(stream.at("place").uniform(1).item() * d)
        U[:, place] = (np.arange(int(count)) + 0.5) / int(count)
    return benchmark.settable(benchmark.whole.from_unit(np.clip(U, 0.0, 1.0)))


def failing_side(benchmark: Benchmark, seed: int) -> Callable[[Mapping[str, Any]], bool]:
    """Return where evaluations fail: in a quarter of the box, beyond a plane that leaves the optimum free."""
    whole, stream = benchmark.whole, Stream(seed).at("failing", benchmark.name)
    assert benchmark.known is not None

    def at(x: Mapping[str, Any]) -> ndarray:
        return np.asarray(whole.to_unit(np.array([float(x[name]) for name in whole.variables])))

    best = at(benchmark.known.x)
    normal = stream.at("normal").normal(whole.d)
    normal /= np.sqrt(normal @ normal)
    heights = stream.at("points").uniform(POOL, whole.d) @ normal
    if best @ normal > np.median(heights):
        normal, heights = -normal, -heights
    edge = max(float(np.quantile(heights, 1.0 - FAILING)), float(best @ normal) + FREE)
    return lambda x: bool(at(x) @ normal > edge)


def usual_budget(benchmark: Benchmark) -> int:
    """Return the evaluations of a run."""
    return 24 + 8 * benchmark.whole.d


# --- One run ----------------------------------------------------------------------------------------------------------


def run(item: slices.Item) -> dict[str, Any]:
    """Perform one run; return what the study said and what is true, as plain data."""
    benchmark = stated(item["problem"], item["noise"], item["seed"])
    budget = item["budget"] or usual_budget(benchmark)
    watched = Watched(benchmark, budget)
    if item["set"] == "failing":
        watched.fails = failing_side(benchmark, item["seed"])
    with Study(benchmark.problem, seed=item["seed"]) as study:
        for x in old_rows(benchmark, item["start"], item["seed"]):
            point = study.problem.named_x(x)
            study.add(point, study.problem.named_y(study.problem.evaluate(point)), anyway=True)
        watched.follow(study)
        seconds = [trial.why.seconds for trial in study.trials if trial.why.aim not in ("initial", "added")]
        verdict = study.used if study.status is Status.INFEASIBLE else None
        return {
            "proposals": watched.proposals,
            "results": watched.results,
            "verdict": verdict,
            "d": benchmark.whole.d,
            "budget": budget,
            "evaluations": study.used,
            "seconds": round(report.quantile(seconds, 0.5), 4) if seconds else None,
        }


class Watched:
    """One run, and what was said at its proposals and stages."""

    fails: Callable[[Mapping[str, Any]], bool] = staticmethod(lambda x: False)
    """Whether an evaluation fails."""

    def __init__(self, benchmark: Benchmark, budget: int) -> None:
        self.benchmark, self.budget = benchmark, budget
        self.stages = {max(1, math.ceil(share * budget)): name for name, share in STAGES.items()}
        self.proposals: list[dict[str, Any]] = []
        self.results: list[dict[str, Any]] = []
        self.slack = ROUNDING * np.maximum(benchmark.scales, 1e-300)
        self.unit = abs(benchmark.best - benchmark.median) if benchmark.known is not None else math.nan

    def follow(self, study: Study) -> None:
        """Ask and tell until the budget is spent or the study ends; what is asked in between does not change it."""
        if len(study.trials) >= 2:
            self.results.append(self.said(study, "start"))
        for t in range(1, self.budget + 1):
            try:
                trial = study.ask()
            except (Infeasible, SolverDone):
                return
            if self.fails(trial.x):
                study.fail(trial, "no solution")
            else:
                expected = None if trial.why.aim == "initial" else study.expect(dict(trial.x))
                y = study.problem.named_y(study.problem.evaluate(trial.x))
                study.tell(trial, y, anyway=True)
                if expected is not None:
                    self.proposals.append(self.compared(trial, expected, dict(y)))
            if self.benchmark.known is not None and (t in self.stages or (self.proposals and t % EVERY == 0)):
                self.results.append(self.said(study, self.stages.get(t, "")))

    def compared(
        self, trial: Any, expected: dict[str, tuple[float, float, float]], y: dict[str, float]
    ) -> dict[str, Any]:
        """Compare what was expected of a proposal with what was measured, and its bounds with the truth."""
        f = self.benchmark.truth(dict(trial.x))[0]
        found: dict[str, Any] = {
            "outputs": [
                bool(low - ROUNDING * abs(low) <= y[name] <= high + ROUNDING * abs(high))
                for name, (low, _, high) in expected.items()
            ]
        }
        if len(trial.why.lower) == len(f):
            lower, upper = np.array(trial.why.lower), np.array(trial.why.upper)
            inside = (f >= lower - self.slack) & (f <= upper + self.slack)
            uncertain = upper > lower  # what is known exactly says nothing about bounds
            found["objective"] = bool(inside[0]) if uncertain[0] else None
            found["limits"] = [bool(each) for each in inside[1:][uncertain[1:]]]
        return found

    def said(self, study: Study, stage: str) -> dict[str, Any]:
        """Return what the study says now, and what is true of the point it recommends."""
        result: Result = study.result()
        if result.x is None:
            return {"t": study.used, "stage": stage, "gap": None}
        benchmark, whole = self.benchmark, self.benchmark.whole
        f = benchmark.truth(dict(result.x))[0]
        names = list(whole.constraints)
        bounds = [result.bounds[result.objective], *(result.bounds[name] for name in names)]
        value = [whole.user_value(float(f[0])), *f[1:].tolist()]
        inside = [
            None if low >= high or math.isinf(high - low) else bool(low - s <= v <= high + s)
            for (low, high), v, s in zip(bounds, value, self.slack.tolist(), strict=True)
        ]
        broken = np.maximum(-f[1:] / benchmark.scales[1:], 0.0)
        gap = result.gap
        return {
            "t": study.used,
            "stage": stage,
            "gap": None if gap is None or math.isinf(gap) else gap / self.unit,
            "regret": None if benchmark.known is None else (benchmark.best - float(f[0])) / self.unit,
            "violation": float(broken.max()) if len(broken) else 0.0,
            "inside": inside,
            "probability": [
                [result.probability[name], bool(f[i] >= 0)] for i, name in enumerate(names, 1) if not result.is_too_few
            ],
            "feasible": result.is_feasible,
            "fails": self.fails(result.x),
        }


# --- The command ------------------------------------------------------------------------------------------------------


def main(words: Sequence[str] | None = None) -> int | str:
    """Run the command line; return how many runs are left, or the page."""
    parser = slices.parser(__doc__, out="honesty.jsonl.gz", seeds=8)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), metavar="KIND", help="of the draws")
    parser.add_argument("--noises", nargs="+", choices=NOISES, default=["exact", "constant"])
    parser.add_argument("--starts", nargs="+", choices=STARTS, default=["design"])
    parser.add_argument("--budget", type=int, help="evaluations; default 24 + 8d")
    parser.add_argument("--only", default="", metavar="TEXT", help="problems that contain this")
    given = parser.parse_args(words)
    if given.report:
        target: Path = given.page or report.RESULTS / "honesty.md"
        return honesty_tables.append(slices.read(given.out), target)
    items = items_of(given.sets, given.kinds, given.noises, given.starts, given.seeds, given.budget)
    return slices.work_on([item for item in items if given.only in item["problem"]], run, given)


if __name__ == "__main__":
    main()
