"""The data of the paper's illustrations: hybrid and black-box beliefs from the same few evaluations."""

import math
from dataclasses import dataclass

import numpy as np
from numpy import ndarray
from scipy.special import ndtr

from pied import suite
from pied.bounds import Believer, Composite, quantile
from pied.problem import Problem
from pied.records import Dataset, Why
from pied.rivals.linearized import DeltaBounds
from pied.rng import Stream
from pied.shapes import Bool, Float64
from pied.solvers.cuqb import CUQB
from pied.suite import Benchmark

LEVEL = 0.95
"""p of the bounds (paper, table 3)."""
COVER_SLACK = 1e-3
"""Of the largest |f|: an interval that misses the truth by less still contains it, for instance at told points."""
SAMPLES = 4096
"""Samples of expectations without a closed form."""


def _told(benchmark: Benchmark, points: int, label: str) -> Dataset:
    """Return a few uniform evaluations."""
    U = Stream(0).at("illustration", label).uniform(points, benchmark.whole.d)
    return _dataset(benchmark.whole, U, benchmark.outputs(benchmark.whole.from_unit(U)))


def _dataset(problem: Problem, U: Float64[ndarray, "N d"], Y: Float64[ndarray, "N m"]) -> Dataset:
    return Dataset(tuple(range(1, len(U) + 1)), U, Y, U[:0], Why("initial"))


def _believed(problem: Problem, data: Dataset, believer: Believer) -> Composite:
    return believer.bound(problem, data, believer.fit(problem, data), Stream(0).at("illustration"))


def _folded(problem: Problem, data: Dataset) -> tuple[Problem, Dataset]:
    """Return the folded problem and the same evaluations."""
    folded, f = problem.folded(), data.functions(problem)
    kept = [i for i in range(problem.k) if problem.structure[i].kind != "white"] or [0]
    return folded, _dataset(folded, data.U, f[:, kept])


# --- One variable -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Line:
    """The first illustration: beliefs and acquisition functions over one variable, f = h^2."""

    x: Float64[ndarray, "q"]
    told: Float64[ndarray, "N"]
    """Where h was evaluated."""
    h: Float64[ndarray, "q"]
    f: Float64[ndarray, "q"]
    """The truth."""
    h_band: Float64[ndarray, "3 q"]
    """2.5 %, 50 % and 97.5 % quantiles of h."""
    hybrid: Float64[ndarray, "3 q"]
    """The same quantiles of f, through g."""
    black: Float64[ndarray, "3 q"]
    """The same quantiles of f, modelled directly."""
    acquisitions: dict[str, Float64[ndarray, "q"]]
    """By name: COBALT and UQB of the hybrid belief, EI and UCB of the black-box belief."""

    def distance(self, name: str) -> float:
        """Return the distance from the maximizer of an acquisition function to the nearest global maximum of f."""
        at = float(self.x[int(np.argmax(self.acquisitions[name]))])
        return min(abs(at - math.pi / 4), abs(at - 5 * math.pi / 4))

    def width(self, name: str) -> float:
        """Return the mean width of the 95 % interval of f."""
        band = getattr(self, name)
        return float((band[2] - band[0]).mean())

    def covers(self, name: str) -> float:
        """Return the fraction of the box where the 95 % interval contains the truth."""
        band = getattr(self, name)
        slack = COVER_SLACK * float(np.abs(self.f).max())
        return float(((band[0] - slack <= self.f) & (self.f <= band[2] + slack)).mean())


def line(points: int = 5, size: int = 401) -> Line:
    """Compute the first illustration, with the paper's models."""
    benchmark = suite.get("illustrative-1d", structure="paper")
    problem, believer = benchmark.problem, CUQB.paper().believer
    data = _told(benchmark, points, "line")
    U = np.linspace(0.0, 1.0, size)[:, None]
    X = problem.from_unit(U)
    composite = _believed(problem, data, believer)
    black_problem, black_data = _folded(problem, data)
    black = _believed(black_problem, black_data, believer)
    mean, std = (each[:, 0] for each in composite.belief.moments(U))
    black_mean, black_std = (each[:, 0] for each in black.belief.moments(U))
    best = float(data.functions(problem)[:, 0].max())
    Y = mean + std * Stream(0).at("illustration", "improvement").normal(SAMPLES, 1)
    z, z95 = quantile.normal(0.975), quantile.normal(LEVEL)
    G = Y**2
    score = (black_mean - best) / black_std
    improvement = black_std * (score * ndtr(score) + np.exp(-0.5 * score**2) / math.sqrt(2 * math.pi))
    return Line(
        x=X[:, 0],
        told=problem.from_unit(data.U)[:, 0],
        h=benchmark.outputs(X)[:, 0],
        f=benchmark.truth(X)[:, 0],
        h_band=np.stack([mean - z * std, mean, mean + z * std]),
        hybrid=np.quantile(G, [0.025, 0.5, 0.975], 0),
        black=np.stack([black_mean - z * black_std, black_mean, black_mean + z * black_std]),
        acquisitions={
            "COBALT": np.maximum(G - best, 0.0).mean(0),
            "EI": improvement,
            "UQB": np.quantile(G, LEVEL, 0),
            "UCB": black_mean + z95 * black_std,
        },
    )


# --- Two variables ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Islands:
    """The second illustration: the feasible region as three solvers predict it, h^2 <= 100 of Himmelblau's function."""

    x1: Float64[ndarray, "q"]
    x2: Float64[ndarray, "q"]
    told: Float64[ndarray, "N 2"]
    truth: Bool[ndarray, "q q"]
    predicted: dict[str, Bool[ndarray, "q q"]]
    """By solver; rows follow x2."""

    def covered(self, name: str) -> float:
        """Return the fraction of the true region that is predicted to be feasible."""
        return float(self.predicted[name][self.truth].mean())

    def size(self, name: str) -> float:
        """Return the fraction of the box that is predicted to be feasible."""
        return float(self.predicted[name].mean())


def islands(solver: CUQB, points: int = 25, size: int = 121) -> Islands:
    """Compute the second illustration, with the models and the estimator of a solver and one level for all."""
    benchmark = suite.get("illustrative-constraint", structure="paper")
    problem, believer = benchmark.problem, solver.believer
    data = _told(benchmark, points, "islands")
    side = np.linspace(0.0, 1.0, size)
    U = np.stack([np.tile(side, size), np.repeat(side, size)], 1)
    composite = _believed(problem, data, believer)
    black_problem, black_data = _folded(problem, data)
    black = _believed(black_problem, black_data, believer)
    predicted = {
        "COBALT": DeltaBounds(composite, quantile.normal(LEVEL), 1.0).values(U)[:, 1],
        "EPBO": black.values(U, [LEVEL] * black_problem.k)[:, 1],
        "CUQB": composite.values(U, [LEVEL] * problem.k)[:, 1],
    }
    X = problem.from_unit(U)
    return Islands(
        x1=X[:size, 0],
        x2=X[::size, 1],
        told=problem.from_unit(data.U),
        truth=(benchmark.truth(X)[:, 1] >= 0).reshape(size, size),
        predicted={name: (value >= 0).reshape(size, size) for name, value in predicted.items()},
    )


# --- Quantiles from samples -------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Estimates:
    """The quantile-estimate figure: replicates of the soft-sorted quantile of f over one variable."""

    x: Float64[ndarray, "q"]
    levels: tuple[float, ...]
    samples: tuple[int, ...]
    curves: Float64[ndarray, "levels samples replicates q"]
    exact: Float64[ndarray, "levels q"]
    """From many samples, without soft sorting."""

    def deviation(self, level: int, samples: int) -> float:
        """Return the mean standard deviation over replicates, relative to the range of the exact quantile."""
        span = float(np.ptp(self.exact[level]))
        return float(self.curves[level, samples].std(axis=0).mean()) / span

    def maximizers(self, level: int, samples: int) -> float:
        """Return the fraction of replicates whose maximizer is within 2 % of the box of the exact one."""
        at = self.x[self.curves[level, samples].argmax(axis=1)]
        right = self.x[self.exact[level].argmax()]
        return float((np.abs(at - right) <= 0.02 * np.ptp(self.x)).mean())


def estimates(
    levels: tuple[float, ...] = (0.75, 0.85, 0.95),
    samples: tuple[int, ...] = (50, 100, 1000),
    replicates: int = 10,
    size: int = 201,
) -> Estimates:
    """Compute the quantile-estimate figure: L samples, soft sort of strength 0.1, independent replicates."""
    benchmark = suite.get("illustrative-1d", structure="paper")
    problem = benchmark.problem
    data = _told(benchmark, 5, "line")
    composite = _believed(problem, data, CUQB.paper().believer)
    U = np.linspace(0.0, 1.0, size)[:, None]
    mean, std = (each[:, 0] for each in composite.belief.moments(U))
    curves = np.zeros((len(levels), len(samples), replicates, size))
    for column, L in enumerate(samples):
        for replicate in range(replicates):
            Z = Stream(replicate).at("estimates", L).normal(L, 1)
            G = (mean + std * Z) ** 2
            for row, level in enumerate(levels):
                curves[row, column, replicate] = quantile.soft_order_statistic(G, level, 0.1)
    many = (mean + std * Stream(0).at("estimates", "exact").normal(20_000, 1)) ** 2
    exact = np.quantile(many, levels, 0)
    return Estimates(problem.from_unit(U)[:, 0], levels, samples, curves, exact)
