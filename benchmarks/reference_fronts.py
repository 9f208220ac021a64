"""Reference fronts of `suite.sets["fronts"]`: dense points, the reference point and the hypervolume.

    python benchmarks/reference_fronts.py                    # all; prints what suite/fronts.py has to hold
    python benchmarks/reference_fronts.py --problems tanaka

Ends first: each objective alone. Between them, each objective is optimized under levels of the other (SLSQP, from the
best random points and from the neighbouring level), in both directions. All random points and all that the searches
passed are candidates of the front, so a level where a search fails is filled by others.
"""

import argparse
from typing import Any

import numpy as np
from scipy.optimize import minimize

from pied import suite
from pied.hypervolume import hypervolume, nondominated
from pied.rng import Stream
from pied.suite.fronts import FrontBenchmark

SAMPLES = 2**18
LEVELS = 120
STARTS = 3
TRUE_TOLERANCE = 1e-9
"""In median sizes: how far below zero a constraint of a reference point may be."""
SAME = 1e-6
"""Of the front's extent: smaller differences count as none."""


class Truth:
    """The functions of a benchmark in the unit cube, scaled."""

    def __init__(self, benchmark: FrontBenchmark) -> None:
        self.benchmark, self.problem = benchmark, benchmark.problem
        U = Stream(0).at("reference").sobol(SAMPLES, self.problem.d)
        self.U, self.f = U, benchmark.truth(self.problem.from_unit(U))
        self.size = np.median(np.abs(self.f), 0)

    def at(self, U: np.ndarray) -> np.ndarray:
        return self.benchmark.truth(self.problem.from_unit(np.clip(U, 0.0, 1.0))) / self.size

    def feasible(self, f: np.ndarray) -> np.ndarray:
        return (f[:, 1 : self.problem.k] >= -TRUE_TOLERANCE).all(1) & np.isfinite(f).all(1)


def solved(truth: Truth, place: int, other: int, level: float | None, start: np.ndarray) -> np.ndarray:
    """Maximize one objective where the other one is at least at a level."""
    d, step = truth.problem.d, 1e-6
    last: dict[bytes, tuple[np.ndarray, np.ndarray]] = {}

    def both(u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if (key := u.tobytes()) not in last:
            last.clear()
            last[key] = computed(u)
        return last[key]

    def computed(u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        inside = np.where(u > 0.5, -step, step)
        f = truth.at(np.concatenate([u[None], u + np.diag(inside)]))
        return f[0], ((f[1:] - f[0]) / inside[:, None]).T

    limits = [*range(1, truth.problem.k)]
    offset = np.zeros(len(limits) + (level is not None))
    rows = limits + ([other] if level is not None else [])
    if level is not None:
        offset[-1] = level
    found = minimize(
        lambda u: -both(u)[0][place],
        start,
        jac=lambda u: -both(u)[1][place],
        bounds=[(0.0, 1.0)] * d,
        constraints={"type": "ineq", "fun": lambda u: both(u)[0][rows] - offset, "jac": lambda u: both(u)[1][rows]},
        method="SLSQP",
        options={"maxiter": 60, "ftol": 1e-11},
    )
    return np.clip(found.x, 0.0, 1.0)


def front_of(benchmark: FrontBenchmark) -> tuple[np.ndarray, np.ndarray]:
    """Return the objectives, better if larger, and the points of the reference front."""
    truth, places = Truth(benchmark), benchmark.problem.goal_places
    f = truth.f / truth.size
    fine = truth.feasible(f)
    keep = np.flatnonzero(fine)
    found = [truth.U[keep][nondominated(f[keep][:, places])]]
    ends = []
    for place, other in (places, places[::-1]):
        order = keep[(-f[keep, place]).argsort()[:STARTS]]
        tries = np.array([solved(truth, place, other, None, truth.U[row]) for row in order])
        g = truth.at(tries)
        good = truth.feasible(g)
        found.append(tries[good])
        ends.append(tries[good][g[good, place].argmax()] if good.any() else truth.U[order[0]])
    g = truth.at(np.array(ends))
    for (place, other), first, last in ((places, 0, 1), (places[::-1], 1, 0)):
        before = ends[first]
        for level in np.linspace(g[first, other], g[last, other], LEVELS):
            rows = keep[f[keep, other] >= level]
            order = rows[(-f[rows, place]).argsort()[:STARTS]]
            tries = np.array([solved(truth, place, other, level, u) for u in [before, *truth.U[order]]])
            h = truth.at(tries)
            good = truth.feasible(h) & (h[:, other] >= level - 1e-9)
            if good.any():
                found.append(tries[good])
                before = tries[good][h[good, place].argmax()]
    U = np.concatenate(found)
    h = benchmark.truth(benchmark.problem.from_unit(U))
    fine = truth.feasible(h / truth.size)
    U, P = U[fine], h[fine][:, places]
    best = nondominated(P)
    steps = SAME * (P[best].max(0) - P[best].min(0))
    best = nondominated(np.round(P / steps))  # what is better by rounding alone would stretch the front far
    return P[best], U[best]


def main(words: Any = None) -> None:
    """Print reference point and hypervolume of each front."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = suite.sets["fronts"]
    parser.add_argument("--problems", nargs="+", choices=names, default=names, metavar="NAME")
    for name in parser.parse_args(words).problems:
        benchmark = suite.front(name)
        P, _ = front_of(benchmark)
        signs = benchmark.problem.goal_signs
        worst = P.min(0) - 0.1 * (P.max(0) - P.min(0))
        digits = [float(f"{value:.4g}") for value in (worst * signs).tolist()]
        volume = hypervolume(P, np.array(digits) * signs)
        print(f"{name}: reference={tuple(digits)} volume={volume:.8g}  ({len(P)} points, {P.min(0)} to {P.max(0)})",
              flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
