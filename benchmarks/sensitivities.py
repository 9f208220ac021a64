"""How often the true price of a limit lies within its stated bounds, on the suite and on random problems.

    python benchmarks/sensitivities.py --budget 40 --seeds 2 --draws 10 --jobs 2

A study runs for a budget, then states what a unit of each limit is worth (`Study.sensitivities`) and the best value at
limits a little looser and tighter (`Study.what_if`). The truth is solved again with the moved limits, from the known
optimum: central differences of its value are the true prices. Counted are the limits that bind in the truth or may bind
by the belief, and only studies that have found the true optimum to 1 %: elsewhere the price of another point is stated.
Needs numpy and scipy alone.
"""

import argparse
import math
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np
from numpy import ndarray
from scipy.optimize import minimize

import pied
from pied import suite

STEP = 1e-3
"""In benchmark scales of a constraint: step of the differences."""
MOVED = 0.05
"""In benchmark scales: by how much limits move in what-if questions."""
NEAR = 0.01
"""Relative to the objective's range: a study that is further from the optimum is not counted."""
ROOM = 0.01
"""Relative: errors of the differences of the truth."""


def names(draws: int) -> list[str]:
    """Return the problems: those of the suite with limits, and random ones."""
    known = [name for name in suite if suite[name].problem.n]
    return known + [f"random {seed}" for seed in range(draws)]


def benchmark(name: str) -> Any:
    """Return a problem by its name."""
    kind, _, seed = name.partition(" ")
    return suite.random(int(seed)) if kind == "random" and seed else suite[name]


def true_best(truth: Any, low: ndarray, high: ndarray, start: ndarray, shift: ndarray, scales: ndarray) -> float:
    """Return the true optimum near a point with moved limits; NaN if it is not found."""
    width = high - low

    def f(z: ndarray) -> ndarray:
        return (truth(low + width * np.clip(z, 0, 1)[None])[0] + shift) / scales

    starts = [np.clip((start - low) / width, 0, 1)]
    starts.append(np.clip(starts[0] + 0.01 * (0.5 - starts[0]), 0, 1))
    best = math.nan
    for z in starts:
        found = minimize(
            lambda z: -f(z)[0], z, bounds=[(0, 1)] * len(z), method="SLSQP",
            constraints={"type": "ineq", "fun": lambda z: f(z)[1:]}, options={"ftol": 1e-13, "maxiter": 300},
        )  # fmt: skip
        there = f(found.x)
        if (there[1:] >= -1e-7).all() and not there[0] * scales[0] <= best:
            best = float(there[0] * scales[0])
    return best


def measured(task: tuple[str, int, int]) -> dict[str, Any]:
    """Run one study and compare its prices with the truth."""
    name, seed, budget = task
    made = benchmark(name)
    problem = made.problem
    if problem.grid is not None or problem.listing is not None or made.known is None:
        return {"problem": name, "seed": seed, "skipped": "no continuous optimum"}
    begin = time.perf_counter()
    study = pied.Study(problem, seed=seed)
    study.run(budget, progress=False)
    low, high = problem.bounds.T
    start = np.array(
        [float(each) for each in made.known.x.values()] if hasattr(made.known.x, "values") else made.known.x
    )
    U = np.random.default_rng(0).random((512, len(low)))
    values = made.truth(low + (high - low) * U)
    scales = np.nanmedian(np.abs(values), 0)
    none = np.zeros(problem.k)
    best = true_best(made.truth, low, high, start, none, scales)
    result = study.result()
    spread = abs(best - float(np.nanmedian(values[:, 0])))
    far = abs(best - problem.user_value(result.value)) / spread if result.x is not None else math.inf
    found = study.result().sensitivities
    if found is None or not far <= NEAR:
        return {"problem": name, "seed": seed, "skipped": f"optimum not found yet ({far:.1g})"}
    rows, answers = [], []
    for limit, each in found.limits.items():
        shift = none.copy()
        place = 1 + problem.constraints.index(limit)
        step = STEP * scales[place]
        shift[place] = step
        loose, tight = (true_best(made.truth, low, high, start, side * shift, scales) for side in (1, -1))
        rate = (loose - tight) / (2 * step)
        if not math.isfinite(rate) or (abs(rate) * scales[place] < 1e-6 * spread and not each.binds):
            continue
        room = ROOM * abs(rate) + 1e-4 * spread / scales[place]
        rows.append({"limit": limit, "true": rate, "rate": each.rate, "bounds": each.bounds,
                     "inside": bool(each.bounds[0] - room <= rate <= each.bounds[1] + room)})  # fmt: skip
        stated = study.outlook.limits[limit]
        for side in (1.0, -1.0):
            moved = side * MOVED * scales[place]
            value = true_best(made.truth, low, high, start, shift * (moved / step), scales)
            answer = study.what_if({limit: stated.value + (moved if stated.is_upper else -moved)})
            if math.isfinite(value) and answer.x is not None:
                ends = sorted(problem.user_value(end) for end in answer.bounds)
                slack = 1e-3 * spread
                answers.append(bool(ends[0] - slack <= value <= ends[1] + slack))
    return {"problem": name, "seed": seed, "rows": rows, "answers": answers, "seconds": time.perf_counter() - begin}


def results(tasks: list[tuple[str, int, int]], jobs: int) -> Iterator[dict[str, Any]]:
    """Yield the results of all studies."""
    if jobs <= 1:
        yield from map(measured, tasks)
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(measured, tasks)


def main() -> None:
    """Print a line for each study, then the shares."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--budget", type=int, default=40)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--draws", type=int, default=5, help="random problems")
    parser.add_argument("--only", nargs="*", help="names of problems")
    parser.add_argument("--jobs", type=int, default=1)
    words = parser.parse_args()
    chosen = words.only or names(words.draws)
    tasks = [(name, seed, words.budget) for name in chosen for seed in range(words.seeds)]
    inside: list[bool] = []
    answered: list[bool] = []
    for each in results(tasks, words.jobs):
        if "skipped" in each:
            print(f"{each['problem']:>24} {each['seed']:>3}  {each['skipped']}", flush=True)
            continue
        inside += [row["inside"] for row in each["rows"]]
        answered += each["answers"]
        print(f"{each['problem']:>24} {each['seed']:>3}  {each['seconds']:.1f} s", flush=True)
        for row in each["rows"]:
            ends = " to ".join(f"{end:.4g}" for end in row["bounds"])
            mark = "" if row["inside"] else "   OUTSIDE"
            print(f"{'':>30}{row['limit'][:30]:<32} true {row['true']:.4g}, stated {ends}{mark}", flush=True)
    for what, counts in (
        ("prices within their bounds", inside),
        ("best values within the bounds of what if", answered),
    ):
        if counts:
            print(f"{what}: {sum(counts)} of {len(counts)} ({100 * np.mean(counts):.0f} %)")


if __name__ == "__main__":
    main()
