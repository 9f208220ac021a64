"""What errors and limits of values bring against ignoring them: predictions, and what is recommended.

    PYTHONPATH=src python benchmarks/errors.py                 # predictions: a minute
    PYTHONPATH=src python benchmarks/errors.py --runs 15       # whole runs of 15 trials, of all three kinds
    PYTHONPATH=src python benchmarks/errors.py --limits        # values known by limits alone
    PYTHONPATH=src python benchmarks/errors.py --blocks        # days that are off by offsets

Half of the measurements are ten times as exact as the others. Errors are told with all values, with half of them, or
with none. "Alike": all are equally exact, so that errors tell little. With `--limits`, the lowest two fifths of the
values of each output are below a limit of detection: told as that, left out, or told as the limit itself. With
`--blocks`, values of four days have offsets of a deviation of 0, 0.1 or 0.5 spreads; days are told or not.
"""

import argparse
from collections.abc import Mapping

import numpy as np
from numpy import ndarray

from pied import CUQB, Study, suite
from pied.bounds import Believer
from pied.records import spread
from pied.records.trial import Dataset
from pied.rng import Stream
from pied.suite import Benchmark

PROBLEMS = ("booth", "styblinski-tang", "rosen-suzuki", "st-bpv1", "williams-otto")
TOLD = {"none": 0.0, "half": 0.5, "all": 1.0}
"""Share of the values that are told with their error."""
NOISES = {"ten times": (0.02, 0.2), "alike": (0.1, 0.1)}
"""Noise of the two kinds of measurements, in spreads of the output."""
POINTS = 24
"""Measurements of a prediction, spread at random."""
DETECTED = 0.4
"""Share of the values below the limit of detection."""
DAYS = 4
KINDS = ("errors", "limits", "blocks")
ELSEWHERE = 500
LEVEL = 1.645
"""Deviations that hold nine of ten true values."""


class Laboratory:
    """Measurements of a benchmark, each with an error that may be told."""

    def __init__(self, benchmark: Benchmark, noise: tuple[float, float], share: float, seed: int) -> None:
        self.benchmark, self.share, self.noise = benchmark, share, noise
        self.stream = Stream(seed).at("laboratory", benchmark.name)
        whole = benchmark.whole
        self.size = spread(benchmark.outputs(whole.from_unit(self.stream.at("spread").sobol(256, whole.d))))

    def measured(self, U: ndarray) -> tuple[ndarray, ndarray]:
        """Return values at points of the unit cube, and their errors, NaN where they are not told."""
        N, m = len(U), len(self.size)
        kind, is_told = (self.stream.at(word).uniform(N, 1)[:, 0] for word in ("kind", "told"))
        own = np.where(kind < 0.5, *self.noise)[:, None] * self.size
        truth = self.benchmark.outputs(self.benchmark.whole.from_unit(U))
        return truth + own * self.stream.at("values").normal(N, m), np.where(is_told[:, None] < self.share, own, np.nan)


def predicted(laboratory: Laboratory) -> tuple[float, float]:
    """Return the error of predictions, in spreads, and the share of true values within bounds of nine of ten."""
    benchmark, stream = laboratory.benchmark, laboratory.stream
    problem = benchmark.whole.revised(noise=None)
    U, new = stream.at("points").uniform(POINTS, problem.d), stream.at("elsewhere").uniform(ELSEWHERE, problem.d)
    Y, errors = laboratory.measured(U)
    data = Dataset(tuple(range(1, POINTS + 1)), U, Y, U[:0], errors=errors if laboratory.share else None)
    gp = Believer(cautious=False).fit(problem, data)
    mean, deviation = gp.moments(new)
    truth = benchmark.outputs(benchmark.whole.from_unit(new))
    off = np.abs(gp.unwarp(mean) - truth) / laboratory.size
    low, high = (gp.unwarp(mean + side * LEVEL * deviation) for side in (-1.0, 1.0))
    inside = (np.minimum(low, high) <= truth) & (truth <= np.maximum(low, high))
    return float(np.median(np.sqrt(np.square(off).mean(0)))), float(inside.mean())


def predicted_beyond(laboratory: Laboratory, way: str, learned: bool) -> float:
    """Return the error of predictions above the limits of detection, in spreads of the output."""
    benchmark, stream = laboratory.benchmark, laboratory.stream
    problem = benchmark.whole.revised(noise=None if learned else 0)
    U, new = stream.at("points").uniform(POINTS, problem.d), stream.at("elsewhere").uniform(ELSEWHERE, problem.d)
    Y, truth = (benchmark.outputs(benchmark.whole.from_unit(each)) for each in (U, new))
    if learned:
        Y = laboratory.measured(U)[0]
    limit = np.quantile(Y, DETECTED, axis=0)
    high = np.where(limit > Y, limit, np.inf)
    told = np.where(limit > Y, limit if way == "number" else np.nan, Y)
    cut = (np.full(Y.shape, -np.inf), high) if way == "limit" else None
    gp = Believer(cautious=False).fit(problem, Dataset(tuple(range(1, POINTS + 1)), U, told, U[:0], cut=cut))
    off = np.maximum(gp.unwarp(gp.moments(new)[0]), limit) - np.maximum(truth, limit)
    return float(np.median(np.sqrt(np.square(off / laboratory.size).mean(0))))


def predicted_in_blocks(laboratory: Laboratory, size: float, is_told: bool) -> float:
    """Return the error of predictions for an average day, in spreads of the output."""
    benchmark, stream = laboratory.benchmark, laboratory.stream
    problem = benchmark.whole.revised(noise=None)
    U, new = stream.at("points").uniform(POINTS, problem.d), stream.at("elsewhere").uniform(ELSEWHERE, problem.d)
    offsets = size * laboratory.size * stream.at("days").normal(DAYS, len(laboratory.size))
    days = np.arange(POINTS) % DAYS
    Y, truth = laboratory.measured(U)[0] + offsets[days], benchmark.outputs(benchmark.whole.from_unit(new))
    blocks = tuple(f"day {day}" for day in days) if is_told else ()
    gp = Believer(cautious=False).fit(problem, Dataset(tuple(range(1, POINTS + 1)), U, Y, U[:0], blocks=blocks))
    off = gp.unwarp(gp.moments(new)[0]) - truth - offsets.mean(0)
    return float(np.median(np.sqrt(np.square(off / laboratory.size).mean(0))))


def recommended(benchmark: Benchmark, kind: str, is_told: bool, trials: int, seed: int) -> float:
    """Return the true loss of the recommendation of a run: normalized regret, and twice what breaks limits."""
    noise = NOISES["ten times"] if kind == "errors" else (0.05, 0.05)
    laboratory = Laboratory(benchmark, noise, 1.0 if kind == "errors" and is_told else 0.0, seed)
    whole, stream = benchmark.whole, laboratory.stream
    problem = whole.revised(noise=None, blackbox=None)
    usual = benchmark.outputs(whole.from_unit(stream.at("spread").sobol(256, whole.d)))
    limit = np.quantile(usual, DETECTED, axis=0) if kind == "limits" else np.full(problem.m, -np.inf)
    days = 0.5 * laboratory.size * stream.at("days").normal(DAYS, problem.m) * (kind == "blocks")
    days -= days.mean(0)
    Y, errors = laboratory.measured(np.zeros((trials, problem.d)))
    off = Y - benchmark.outputs(whole.from_unit(np.zeros((trials, problem.d))))
    with Study(problem, solver=CUQB(), seed=seed, patience=None) as study:
        for number in range(trials):
            trial, day = study.ask(), number % DAYS
            values = benchmark.outputs(problem.point(dict(trial.x))[None])[0] + off[number] + days[day]
            told = _said(dict(zip(problem.outputs, zip(values, errors[number], strict=True), strict=True)))
            for name, value, least in zip(problem.outputs, values, limit, strict=True):
                if value < least:
                    told[name] = f"<{least}" if is_told else float(least)
            study.tell(trial, told, block=f"day {day}" if kind == "blocks" and is_told else "", anyway=True)
        found = study.result()
    x = problem.point(dict(found.x or trial.x))
    broken = np.maximum(-benchmark.truth(x[None])[0, 1:] / benchmark.scales[1:], 0.0).sum()
    return float(max(benchmark.normalized_regret(x[None])[0], 0.0) + 2.0 * broken)


def _said(values: Mapping[str, tuple[float, float]]) -> dict[str, object]:
    return {name: (y, own) if np.isfinite(own) else y for name, (y, own) in values.items()}


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--runs", type=int, default=0, help="trials of whole runs; 0: none")
    parser.add_argument("--problems", nargs="*", default=PROBLEMS)
    parser.add_argument("--limits", action="store_true", help="values known by limits alone instead")
    parser.add_argument("--blocks", action="store_true", help="days that are off by offsets instead")
    args = parser.parse_args()
    if args.runs:
        for kind, name in ((kind, name) for kind in KINDS for name in args.problems):
            losses = {
                word: [recommended(suite.get(name), kind, is_told, args.runs, seed) for seed in range(args.seeds)]
                for word, is_told in (("told", True), ("ignored", False))
            }
            shown = "   ".join(
                f"{word} {np.median(each):.3f} (largest {max(each):.2f})" for word, each in losses.items()
            )
            print(f"loss after {args.runs} trials, {kind:7} {name:18} {shown}", flush=True)
        return
    if args.blocks:
        for name in args.problems:
            labs = [Laboratory(suite.get(name), (0.05, 0.05), 0.0, seed) for seed in range(args.seeds)]
            shown = "   ".join(
                f"offsets {size:g}: "
                + ", ".join(
                    f"{word} {np.median([predicted_in_blocks(lab, size, is_told) for lab in labs]):.3f}"
                    for word, is_told in (("told", True), ("not told", False))
                )
                for size in (0.0, 0.1, 0.5)
            )
            print(f"{name:18} {shown}", flush=True)
        return
    if args.limits:
        for name, learned in ((each, kind) for each in args.problems for kind in (False, True)):
            labs = [Laboratory(suite.get(name), NOISES["alike"], 0.0, seed) for seed in range(args.seeds)]
            ways = {way: [predicted_beyond(lab, way, learned) for lab in labs] for way in ("limit", "number", "none")}
            shown = "   ".join(f"{way} {np.median(each):.3f}" for way, each in ways.items())
            print(f"{name:18} {'noise 0.1' if learned else 'exact    '}  {shown}", flush=True)
        return
    for kind, noise in NOISES.items():
        print(f"{kind}: error of predictions in spreads of the output, and cover of 90 % bounds")
        for name in args.problems:
            parts = []
            for word, share in TOLD.items():
                found = [predicted(Laboratory(suite.get(name), noise, share, seed)) for seed in range(args.seeds)]
                off, inside = np.median([each for each, _ in found]), np.mean([each for _, each in found])
                parts.append(f"{word} {off:.3f} ({inside:.2f})")
            print(f"  {name:18}", "   ".join(parts), flush=True)


if __name__ == "__main__":
    main()
