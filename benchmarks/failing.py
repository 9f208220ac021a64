"""Where a part of the box fails: does the initial design find the rest, and is the optimum at the edge found?

    python benchmarks/failing.py   # some minutes; results/failing.md

Each problem is run with the fixed initial design and with the one that adapts, with the same seeds. The optimum lies on
the edge of failure, inside, or in a small part of the box where evaluations succeed.
"""

import argparse
import platform
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from statistics import mean, median
from unittest import mock

import numpy as np

import pied
from pied.errors import EvaluationError
from pied.solvers import initial

RESULTS = Path(__file__).parent / "results" / "failing.md"
BUDGET = 10
"""Evaluations beyond the initial design of 2d + 1."""


def half(u: np.ndarray) -> bool:
    """Half of the box fails; its edge is oblique."""
    return bool(u[0] + 0.5 * u[1] <= 0.75)


def most(u: np.ndarray) -> bool:
    """All but a corner fails, some sixth of the box in two variables."""
    return bool(u[0] <= 0.45 and u[1] >= 0.6)


def ball(u: np.ndarray) -> bool:
    """A ball fails in the middle."""
    return bool(np.square(u - 0.5).sum() >= 0.16)


def problem(d: int, succeeds: Callable[[np.ndarray], bool], optimum: float) -> pied.Problem:
    """Return a smooth problem whose objective would be best at (optimum, ..., optimum)."""

    def blackbox(x: pied.Named) -> list[float]:
        u = np.array(list(x.values()))
        if not succeeds(u):
            raise EvaluationError("no convergence")
        return [float(np.exp(-np.square(u - optimum).sum())), float(np.sin(3.0 * u[0]) + u[-1] ** 2)]

    return pied.Problem(
        {f"u{i}": (0.0, 1.0) for i in range(d)}, ["a", "b"], blackbox=blackbox, maximize="a - 0.05*b", noise=0
    )


PROBLEMS = {
    f"{name}, d = {d}": (d, succeeds, optimum)
    for d in (2, 4)
    for name, succeeds, optimum in (
        ("half, edge", half, 0.7), ("half, inside", half, 0.3), ("most", most, 0.5), ("ball", ball, 0.5),
    )
}  # fmt: skip


def run(name: str, seed: int, adapts: bool) -> tuple[int, float]:
    """Return how many of the initial points were told, and the best value at the end."""
    d, succeeds, optimum = PROBLEMS[name]
    first = nullcontext() if adapts else mock.patch.object(initial, "_promising", return_value=0)
    with first, pied.Study(problem(d, succeeds, optimum), seed=seed) as study:
        study.run(2 * d + 1 + BUDGET, progress=False)
        told = [trial for trial in study.trials if trial.state is pied.State.TOLD]
        values = [trial.y["a"] - 0.05 * trial.y["b"] for trial in told]
        return sum(trial.why.aim == "initial" for trial in told[: 2 * d + 1]), max(values, default=-1.0)


def main() -> None:
    """Measure and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument(
        "--within", type=float, default=420.0, help="seconds; problems that are not reached are left out"
    )
    given = parser.parse_args()
    began, rows = time.monotonic(), []
    for name in PROBLEMS:
        if time.monotonic() - began > given.within:
            break
        pairs = [(run(name, seed, False), run(name, seed, True)) for seed in range(given.seeds)]
        best = max(each[1] for pair in pairs for each in pair)
        fixed, adapted = ([pair[i] for pair in pairs] for i in (0, 1))
        ahead = sum(b[1] > a[1] + 1e-6 for a, b in pairs), sum(a[1] > b[1] + 1e-6 for a, b in pairs)
        rows.append(
            f"| {name} | {mean(each[0] for each in fixed):.1f} | {mean(each[0] for each in adapted):.1f} "
            f"| {median(best - each[1] for each in fixed):.1e} | {median(best - each[1] for each in adapted):.1e} "
            f"| {ahead[0]} : {ahead[1]} |"
        )
        print(rows[-1], flush=True)
    RESULTS.write_text(
        f"""# Where a part of the box fails

pied {pied.__version__}, Python {platform.python_version()}. `python benchmarks/failing.py --seeds {given.seeds}`

The fixed initial design of 2d + 1 points beside the one that adapts after a failure; then {BUDGET} more evaluations.
Regret is from the best value of all runs. "Ahead" counts seeds: adapted : fixed.

| problem | initial points told, fixed | adapted | median regret, fixed | adapted | ahead |
| --- | --- | --- | --- | --- | --- |
"""
        + "\n".join(rows)
        + "\n"
    )


if __name__ == "__main__":
    main()
