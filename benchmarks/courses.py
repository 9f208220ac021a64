"""One run of any loop on any problem: the same initial design and the same measures for all.

A contender is a function of what was told, so that its run can be left at any evaluation and continued later.
"""

import math
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import contenders
import numpy as np
import report
from spaces import Point, Told

from pied import suite
from pied.bench import measures
from pied.errors import SolverDone
from pied.rng import Stream
from pied.study import Study
from pied.suite import Benchmark

OURS = {"pied": "cuqb", "random": "random"}
"""Loops that are solvers of a study."""


class Timed:
    """The time of suggestions: seconds on the clock and of the processor."""

    def __init__(self) -> None:
        self.wall: list[float] = []
        self.cpu: list[float] = []

    def timed(self, suggest: Callable[[], Any]) -> Any:
        """Return a suggestion, and keep its time."""
        wall, cpu = time.perf_counter(), time.process_time()
        found = suggest()
        self.wall.append(round(time.perf_counter() - wall, 6))
        self.cpu.append(round(time.process_time() - cpu, 6))
        return found


class Course(Timed):
    """A run: points, what was told, and the time of suggestions."""

    def __init__(self, benchmark: Benchmark) -> None:
        super().__init__()
        self.benchmark = benchmark
        self.X: list[np.ndarray] = []
        self.told: list[Told] = []

    def add(self, x: Point) -> list[float]:
        """Evaluate a point, by name, and keep it; what a mixture's last part misses of its bounds is a constraint."""
        benchmark, problem = self.benchmark, self.benchmark.problem
        codes = np.array([each.code(x[n]) if each.is_choice else float(x[n]) for n, each in problem.variables.items()])
        y = np.asarray(problem.evaluate(x)) if benchmark.noise else benchmark.outputs(codes[None])[0]
        f = [float(np.ravel(value)[0]) for value in problem.g(codes[None], y[None, None])]
        self.X.append(codes)
        self.told.append(Told(x, y.tolist(), f))
        return y.tolist()

    def told_by(self, study: Study) -> None:
        """Ask, evaluate and tell once; asks of the initial design are not timed."""
        trial = study.ask() if study.used < study.initial else self.timed(study.ask)
        y = self.add(dict(trial.x))
        study.tell(trial, dict(zip(self.benchmark.problem.outputs, y, strict=True)), anyway=True)

    def suggested(self, loop: str, seed: int) -> None:
        """Evaluate what a contender suggests."""
        own = int(Stream(seed).at("contender", len(self.X)).generator().integers(2**31))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            x = self.timed(lambda: contenders.CONTENDERS[loop](self.benchmark, self.told, own))
        self.add(x)


def started(benchmark: Benchmark, loop: str, seed: int) -> Study:
    """Return the study of a run, whose initial design all loops have in common."""
    return Study(benchmark.problem, solver=OURS.get(loop, "cuqb"), seed=seed, patience=None)


def warmed(loop: str) -> None:
    """Suggest once on another problem: what libraries load and prepare with their first suggestion is not timed."""
    course = Course(suite["booth"])
    study = started(course.benchmark, loop, 0)
    for _ in range(study.initial):
        course.told_by(study)
    if loop in OURS:
        course.told_by(study)
    else:
        course.suggested(loop, 0)


def run(
    benchmark: Benchmark,
    loop: str,
    *,
    seed: int,
    budget: int,
    tolerances: Sequence[float],
    begun: Sequence[Any] = (),
    keep: Callable[[Any], None] = lambda piece: None,
) -> dict[str, Any]:
    """Perform one run; an error ends it, and what was done before counts.

    Args:
        benchmark: The problem.
        loop: One of `OURS` or of the contenders.
        seed: Of the initial design and of the loop.
        budget: Evaluations.
        tolerances: Of the normalized regret.
        begun: The pieces that a former run of a contender kept.
        keep: Called with each piece: a point, and the seconds of its suggestion.
    """
    warmed(loop)
    course, study, error = Course(benchmark), started(benchmark, loop, seed), None
    initial = study.initial
    try:
        if begun:
            for x, spent in begun:
                course.add(x)
                if spent:
                    course.wall.append(spent[0])
                    course.cpu.append(spent[1])
        else:
            while len(course.X) < min(initial, budget):
                course.told_by(study)
            if loop not in OURS:
                for each in course.told:
                    keep([each.x, []])
        while len(course.X) < budget:
            if loop in OURS:
                course.told_by(study)
            else:
                course.suggested(loop, seed)
                keep([course.told[-1].x, [course.wall[-1], course.cpu[-1]]])
    except SolverDone:
        pass  # a finite space is exhausted
    except Exception as raised:
        error = f"{type(raised).__name__} at evaluation {len(course.X) + 1}: {raised}"
    whole, X = benchmark.whole, np.array(course.X)
    best = measures.best_feasible(benchmark.truth(X)[:, 0], benchmark.is_strictly_feasible(X))
    regret = ((benchmark.best - best) / (abs(benchmark.best - benchmark.median) or 1.0)).tolist()
    return {
        "size": {"d": whole.d, "m": whole.m, "n": whole.n, "initial": initial, "budget": budget},
        "wall": course.wall,
        "cpu": course.cpu,
        "best": [whole.user_value(each) if math.isfinite(each) else None for each in best.tolist()],
        "regret": [each if math.isfinite(each) else None for each in regret],
        "until": [report.until({"regret": regret}, tolerance) for tolerance in tolerances],
        "error": error,
    }
