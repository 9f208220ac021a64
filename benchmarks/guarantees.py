"""A test of the paper's guarantees: h is drawn from the assumed prior on a finite set, and everything is known.

    python benchmarks/guarantees.py --draws 200 --workers 2 --out guarantees.jsonl

CUQB with the levels of Lemma 1; the belief is the exact posterior, the bounds come from `composite`, the subproblem is
solved by enumeration. Each draw is checked: whether the bounds contain every function at every point and time, whether
regret and violation are below Theorem 2 at every T, the best and the recommended point below Theorems 3 and 4, and
whether only infeasible problems are declared infeasible, before T-bar. A theorem that fails although the bounds hold is
a bug.
"""

import argparse
import math
import resource
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path as File
from typing import Any

import numpy as np
import report
from guarantee_tables import claims, loose, row
from jaxtyping import Bool, Float64, Int64
from numpy import ndarray
from report import Record, table
from runner import run_all
from scipy.spatial.distance import cdist

import pied
from pied import theory
from pied.bounds.composite import Composite
from pied.bounds.quantile import confidence
from pied.rng import Stream
from pied.search.enumeration import SATISFIED, exact_weight

DELTA = 0.1
SIZE = 48
NOISE = 0.1
LENGTH_SCALE = 0.3
STEPS = 40
PATIENCE = 600
"""Evaluations after which a run on an infeasible problem ends undeclared; T-bar lies far beyond."""
KERNELS = ("squared exponential", "matern 5/2", "matern 3/2", "linear")
BOUND_TOLERANCE = 1e-9
"""Rounding error of bounds and values of size one."""


@dataclass(frozen=True)
class Task:
    """Some draws of one case."""

    problem: str
    """The case: 'kernel; m=1; n=2; affine; hard'."""
    seed: int
    """Of the first draw."""
    draws: int = 50
    steps: int = STEPS


def cases() -> list[str]:
    """Return all cases; in hard cases most draws are infeasible."""
    shapes = [(1, 0, "easy"), (3, 0, "easy"), (1, 2, "easy"), (3, 2, "easy"), (1, 2, "hard"), (3, 2, "hard")]
    return [f"{kernel}; m={m}; n={n}; {g}; {how}" for kernel in KERNELS for m, n, how in shapes for g in WHITE]


# --- The setting ------------------------------------------------------------------------------------------------------

WHITE = {
    "affine": (("0.5*x1 + y1", "0.6*y1 - 0.4*x2"), ("y1 + 0.5*y2 - x1*y3", "0.7*y2 + 0.3*y3", "y1 - 0.5*y3 + 0.2*x1")),
    "curved": (
        ("y1 + 0.5*tanh(2*y1)", "2*y1 / (1 + abs(y1))"),
        ("tanh(y1) + y1", "y2 + 0.3*tanh(y2)", "y3 + tanh(y3)"),
    ),
}
"""Objective and constraints of one and of three outputs, all with quantiles in closed form."""
LIPSCHITZ = {"affine": ((1.0, 0.6), (1.0, 0.7, 1.0)), "curved": ((2.0, 2.0), (2.0, 1.3, 2.0))}
"""Their Lipschitz constants in the 1-norm, derived by hand."""
ASKED = {"easy": -0.2, "hard": 1.1}
"""What the constraints must reach."""


@dataclass(frozen=True, eq=False)
class Setting:
    """A case, as objects."""

    problem: pied.Problem
    lipschitz: tuple[float, ...]
    K: Float64[ndarray, "c c"]
    root: Float64[ndarray, "c c"]


@lru_cache(maxsize=32)
def setting(case: str) -> Setting:
    """Return the problem of a case on its list of points, and the covariance of each output there."""
    kernel, m, n, g, how = (word.partition("=")[2] or word for word in case.split("; "))
    X = Stream(0).at("list").sobol(SIZE, 2)
    outputs = [f"y{j + 1}" for j in range(int(m))]
    few = int(m) == 1
    objective, *limits = WHITE[g][0 if few else 1]
    constants = LIPSCHITZ[g][0 if few else 1]
    if few:  # the same output must be large in one and not too large in the other
        limits, constants = [limits[0], f"2.0 - {limits[0]}"], (*constants, constants[1])
    asked = [f"{limit} >= {ASKED[how] if place == 0 or not few else 0.0}" for place, limit in enumerate(limits)]
    problem = pied.Problem(["x1", "x2"], outputs, candidates=X, maximize=objective, subject_to=asked[: int(n)] or None)
    assert all(each.kind in ("affine", "monotone") for each in problem.structure), problem.structure
    K = covariance(kernel, X)
    values, vectors = np.linalg.eigh(K)
    return Setting(problem, constants[: 1 + int(n)], K, vectors * np.sqrt(np.maximum(values, 0)))


def covariance(kernel: str, X: Float64[ndarray, "c d"]) -> Float64[ndarray, "c c"]:
    """Return a kernel of variance at most 1."""
    if kernel == "linear":
        Z = np.concatenate([np.ones((len(X), 1)), 2 * X - 1], 1)
        return Z @ Z.T / Z.shape[1]
    r = cdist(X, X) / LENGTH_SCALE
    if kernel == "squared exponential":
        return np.exp(-0.5 * r**2)
    s = math.sqrt(5 if kernel == "matern 5/2" else 3) * r
    return (1 + s + (s**2 / 3 if kernel == "matern 5/2" else 0.0)) * np.exp(-s)


class Posterior:
    """Exact posteriors on the list, one for each of D draws, every output with the same kernel; together a belief.

    Its points are the list, repeated for each draw.
    """

    is_warped = False

    def __init__(self, made: Setting, draws: int) -> None:
        assert made.problem.candidates is not None
        self.list = made.problem.candidates.U
        self.mean = np.zeros((draws, SIZE, made.problem.m))
        self.covariance = np.tile(made.K, (draws, 1, 1))

    @property
    def U(self) -> Float64[ndarray, "b d"]:
        """The list, once for each draw."""
        return np.tile(self.list, (len(self.mean), 1))

    def tell(self, rows: Int64[ndarray, "D"], Y: Float64[ndarray, "D m"]) -> None:
        """Condition each draw on one evaluation of all its outputs."""
        draws = np.arange(len(rows))
        column = self.covariance[draws, :, rows]
        gain = column / (column[draws, rows] + NOISE**2)[:, None]
        self.mean = self.mean + gain[:, :, None] * (Y - self.mean[draws, rows])[:, None, :]
        self.covariance = self.covariance - gain[:, :, None] * column[:, None, :]

    def keep(self, draws: Bool[ndarray, "D"]) -> None:
        """Continue with some of the draws."""
        self.mean, self.covariance = self.mean[draws], self.covariance[draws]

    def deviation(self) -> Float64[ndarray, "D c"]:
        """Standard deviation of each output."""
        return np.sqrt(np.maximum(self.covariance.diagonal(axis1=1, axis2=2), 1e-18))

    def moments(self, U: Float64[ndarray, "b d"]) -> tuple[Float64[ndarray, "b m"], Float64[ndarray, "b m"]]:
        """Return mean and standard deviation at the first of its points."""
        mean = self.mean.reshape(-1, self.mean.shape[2])[: len(U)]
        return mean, np.broadcast_to(self.deviation().flatten()[: len(U), None], mean.shape)

    def moments_and_slopes(self, U: Float64[ndarray, "b d"]) -> tuple[ndarray, ndarray, ndarray, ndarray]:
        """Return the moments and empty slopes, which enumeration does not need."""
        mean, scale = self.moments(U)
        slopes = np.zeros((*mean.shape, U.shape[1]))
        return mean, scale, slopes, slopes

    def unwarp(self, W: Float64[ndarray, "*b m"]) -> Float64[ndarray, "*b m"]:
        """Outputs are modelled in natural units."""
        return W

    def unwarp_slopes(self, Y: Float64[ndarray, "*b m"]) -> Float64[ndarray, "*b m"]:
        """Outputs are modelled in natural units."""
        return np.ones_like(Y)


# --- One draw ---------------------------------------------------------------------------------------------------------


@dataclass
class Path:
    """The course of one draw, one entry per evaluation."""

    truth: Float64[ndarray, "c k"]
    f: list[ndarray]
    widths: list[ndarray]
    lowers: list[ndarray]
    deviations: list[float]
    rows: list[int]
    is_contained: bool = True
    declared: int | None = None
    """Evaluations before the joint test declared the problem infeasible."""

    @property
    def is_feasible(self) -> bool:
        """Whether any point of the list is feasible."""
        return bool((self.truth[:, 1:] >= 0).all(1).any())


def play(made: Setting, streams: Sequence[Stream], steps: int) -> list[Path]:
    """Draw h for each stream and run CUQB with the levels of Lemma 1 on it, all draws in step."""
    problem = made.problem
    m, k, draws = problem.m, problem.k, len(streams)
    assert problem.candidates is not None
    X = np.tile(problem.candidates.X, (draws, 1))
    H = np.stack([made.root @ stream.at("h").normal(SIZE, m) for stream in streams])
    noise = np.stack([NOISE * stream.at("noise").normal(max(steps, PATIENCE), m) for stream in streams])
    values = problem.g(X, H.reshape(1, -1, m))
    truths = np.stack([g.reshape(-1) for g in values], -1).reshape(draws, SIZE, k)
    paths = [Path(truth, [], [], [], [], []) for truth in truths]
    levels, belief, open_ones = confidence(DELTA, SIZE, k), Posterior(made, draws), np.arange(draws)
    for t in range(max(steps, PATIENCE)):
        composite = Composite(problem, belief, streams[0])
        both = (composite.values(belief.U, [p] * k) for p in (1.0 - levels(t), levels(t)))
        lower, upper = (each.reshape(-1, SIZE, k) for each in both)
        rows = best_rows(upper)
        going = np.ones(len(open_ones), dtype=bool)
        for place, number in enumerate(open_ones.tolist()):
            path, row = paths[number], int(rows[place])
            low, high = lower[place], upper[place]
            is_inside = (low <= path.truth + BOUND_TOLERANCE) & (path.truth <= high + BOUND_TOLERANCE)
            path.is_contained &= bool(is_inside.all())
            if row < 0:
                path.declared = t
            if row < 0 or (path.is_feasible and t == steps) or t == PATIENCE:
                going[place] = False
                continue
            path.f.append(path.truth[row])
            path.widths.append((high - low)[row])
            path.lowers.append(low[row])
            path.deviations.append(float(belief.deviation()[place, row]))
            path.rows.append(row)
        belief.keep(going)
        open_ones, rows = open_ones[going], rows[going]
        if not len(open_ones):
            break
        belief.tell(rows, H[open_ones, rows] + noise[open_ones, t])
    return paths


def best_rows(upper: Float64[ndarray, "D c k"]) -> Int64[ndarray, "D"]:
    """Return the best row of each draw by its upper bounds (13), -1 where no row satisfies them all."""
    fine = (upper[:, :, 1:] >= -SATISFIED).all(-1)
    rows = np.where(fine, upper[:, :, 0], -np.inf).argmax(1)
    return np.where(fine.any(1), rows, -1)


@lru_cache(maxsize=32)
def bounds(case: str, steps: int) -> dict[str, Any]:
    """Return Theorem 2's bound without the Lipschitz constant for T = 1 .. steps, as printed and sharp, and gains."""
    made = setting(case)
    m, k = made.problem.m, made.problem.k
    greedy, _ = theory.greedy_gain(made.K, NOISE, steps)
    printed, sharp, gains = [], [], []
    variance = float(made.K.diagonal().max())
    for T in range(1, steps + 1):
        gain = min(float(greedy[T - 1]) / theory.GREEDY_FRACTION, theory.spectral_gain(made.K, NOISE, T))
        beta = theory.beta(T, delta=DELTA, size=SIZE, functions=k, outputs=m)
        printed.append(theory.cumulative_bound(1.0, beta, theory.psi(T, [gain] * m)))
        by_hand = theory.sharp_psi(T, [gain] * m, variances=[variance] * m, noises=[NOISE] * m)
        sharp.append(theory.cumulative_bound(1.0, beta, by_hand))
        gains.append(gain)
    return {"printed": np.array(printed), "sharp": np.array(sharp), "gains": gains}


def told(task: Task, path: Path) -> dict[str, Any]:
    """Check every claim on one draw."""
    made = setting(task.problem)
    found: dict[str, Any] = {
        "feasible": path.is_feasible,
        "contained": path.is_contained,
        "declared": path.declared,
    }
    if path.is_feasible:
        return found | (feasible_claims(task, made, path) if path.declared is None else {})
    shortfall = -float(path.truth[:, 1:].min(1).max())
    m, k = made.problem.m, made.problem.k

    def bound(T: int) -> float:
        beta = theory.beta(T, delta=DELTA, size=SIZE, functions=k, outputs=m)
        gain = theory.spectral_gain(made.K, NOISE, T)
        return theory.cumulative_bound(max(made.lipschitz[1:]), beta, theory.psi(T, [gain] * m))

    return found | {"shortfall": shortfall, "horizon": theory.declaration(shortfall, bound)}


def feasible_claims(task: Task, made: Setting, path: Path) -> dict[str, Any]:
    """Return the smallest ratios of bound to value for Theorems 2, 3 and 4 and Lemma 4; above 1 if they hold."""
    truth = path.truth
    is_fine = (truth[:, 1:] >= 0).all(1)
    best = float(truth[is_fine, 0].max())
    f, T = np.stack(path.f), np.arange(1, len(path.f) + 1)
    one = bounds(task.problem, task.steps)
    regret = theory.cumulative_regret(f, best)[1]
    facts = np.concatenate([regret[:, None], theory.cumulative_violation(f)], 1)
    L = np.array(made.lipschitz)
    each = best - np.minimum(f[:, 0], best) + np.maximum(-f[:, 1:], 0).sum(1)
    rho = 1.0001 * exact_weight(truth, best)
    penalized = made.problem.penalized(f, rho) if made.problem.n else f[:, 0]
    score = made.problem.penalized(np.stack(path.lowers), rho) if made.problem.n else np.stack(path.lowers)[:, 0]
    recommended = np.stack([best - penalized[score[: t + 1].argmax()] for t in range(len(f))])
    pessimist = L[0] + rho * L[1:].sum()
    rows = path.rows
    gain = theory.information_gain(made.K[rows][:, rows], NOISE)
    return {
        "regret": _least(one["printed"] * L[0], regret),
        "violation": _least((one["printed"][:, None] * L[1:]).flatten(), facts[:, 1:].flatten()),
        "sharp": _least((one["sharp"][:, None] * L).flatten(), facts.flatten()),
        "widths": _least((one["printed"][:, None] * L).flatten(), np.stack(path.widths).cumsum(0).flatten()),
        "best": _least(one["printed"] * L.sum() / T, np.minimum.accumulate(each)),
        "recommended": _least(one["printed"] * pessimist / T, recommended),
        "deviations": 2 * math.sqrt((len(f) + 2) * gain) / sum(path.deviations),
        "gain": [one["gains"][-1], gain],
        "final": [float(np.minimum.accumulate(each)[-1]), float(recommended[-1])],
        "last": [float((one["printed"] * L[0])[-1]), float(regret[-1])],
    }


def _least(bound: Float64[ndarray, "a"], fact: Float64[ndarray, "a"]) -> float | None:
    """Return the smallest ratio of bound to value; None if no value is above zero."""
    counts = fact > BOUND_TOLERANCE
    return float((bound[counts] / fact[counts]).min()) if counts.any() else None


def work(task: Task) -> dict[str, Any]:
    """Perform the draws of a task."""
    began = time.perf_counter()
    streams = [Stream(number).at(task.problem) for number in range(task.seed, task.seed + task.draws)]
    found = [told(task, path) for path in play(setting(task.problem), streams, task.steps)]
    return {"task": vars(task), "draws": found, "wall": round(time.perf_counter() - began, 2)}


# --- The report -------------------------------------------------------------------------------------------------------


def page(records: Sequence[Record]) -> str:
    """Return the tables."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for record in records:
        groups.setdefault(record["task"]["problem"], []).extend(record["draws"])
    everything = [each for group in groups.values() for each in group]
    return "\n\n".join(
        [
            report.heading("The guarantees, put to the test", records),
            f"h drawn from the prior on {SIZE} points of the unit square; length scale {LENGTH_SCALE}, variance 1, "
            f"noise {NOISE}; levels of Lemma 1 with delta = {DELTA}; {records[0]['task']['steps']} evaluations "
            f"(infeasible draws: until declared, at most {PATIENCE}). A ratio is bound over value, least over all T "
            "of a run; the table has the least and, in parentheses, the median over runs. Above 1 the theorem holds; a "
            "large ratio means that the bound is loose.",
            "## Claims",
            claims(everything, DELTA, PATIENCE),
            "## Case by case",
            table(
                ["case", "draws", "contained", "feasible", "declared", "Theorem 2: regret", "violation", "Theorem 5"],
                [row(name, group) for name, group in groups.items()],
            ),
            "## How loose",
            loose(everything, DELTA),
        ]
    )


# --- A million candidates ---------------------------------------------------------------------------------------------


def million(size: int, budget: int = 20) -> str:
    """Return time and memory of a study that enumerates a long list."""
    X = np.random.default_rng(0).uniform(size=(size, 4))
    before = _megabytes()
    began = time.perf_counter()
    problem = pied.Problem(
        ["a", "b", "c", "d"],
        ["y", "z"],
        candidates=X,
        blackbox=lambda x: [math.sin(5 * x.a) + x.b - x.c**2, x.a * x.b + x.d],
        maximize="y",
        subject_to=["z <= 0.6"],
        noise=0,
    )
    stated = time.perf_counter() - began
    study = pied.Study(problem, seed=0)
    result = study.run(budget)
    seconds = [trial.why.seconds for trial in study.trials if trial.why.aim != "initial"]
    f = np.sin(5 * X[:, 0]) + X[:, 1] - X[:, 2] ** 2
    best = f[X[:, 0] * X[:, 1] + X[:, 3] <= 0.6].max()
    cells = [f"{size:,}", f"{stated:.2f}", f"{np.median(seconds):.2f} ({max(seconds):.2f})"]
    cells += [
        f"{_megabytes() - before:.0f} (the table itself {X.nbytes / 1e6:.0f})",
        f"{result.value:.6g}",
        f"{best:.6g}",
    ]
    columns = ["candidates", "seconds to state", "seconds per suggestion (longest)", "megabytes more at the peak"]
    return table([*columns, f"found after {budget}", "best of the list"], [cells])


def _megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def main(words: Sequence[str] | None = None) -> str:
    """Run the command line and return the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=200, help="of each case; default 200")
    parser.add_argument(
        "--cases", nargs="+", default=[""], metavar="TEXT", help="cases that contain one of these texts"
    )
    parser.add_argument("--steps", type=int, default=STEPS, help=f"evaluations of a feasible draw; default {STEPS}")
    parser.add_argument("--million", type=int, help="also enumerate a list of this length")
    parser.add_argument("--workers", type=int, default=report.cores(), help="processes; default all processors")
    parser.add_argument("--out", type=File, help="records, appended; tasks found there are not done again")
    parser.add_argument("--table", type=File, default=report.RESULTS / "guarantees.md", help="where the report goes")
    given: Any = parser.parse_args(words)
    block = min(50, given.draws)
    chosen = [case for case in cases() if any(text in case for text in given.cases)]
    tasks = [Task(case, seed, block, given.steps) for case in chosen for seed in range(0, given.draws, block)]
    text = page(run_all(tasks, given.workers, given.out, work=work)) + "\n"
    if given.million:
        text += f"\n## A long list\n\n{million(given.million)}\n"
    given.table.parent.mkdir(parents=True, exist_ok=True)
    given.table.write_text(text)
    print(text)
    return text


if __name__ == "__main__":
    main()
