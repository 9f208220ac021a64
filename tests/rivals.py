"""Small beliefs and fast settings that the tests of the rivals share."""

import math
from typing import Any

import numpy as np
from numpy import ndarray

from pied import Problem
from pied.bounds.believer import Believer
from pied.bounds.composite import Composite
from pied.bounds.estimator import Estimator
from pied.gp import GP
from pied.gp.choices import Model
from pied.records.trial import Dataset
from pied.rng import Stream
from pied.search.multistart import Search
from pied.solvers import make
from pied.solvers.base import Solver

BELIEVER = Believer(
    Model(kernels=("squared exponential",), trends=("constant",), warps=("none",)), Estimator(samples=64, screening=32)
)
SEARCH = Search(pool=32, generations=0, starts=2, rounds=6, relays=0)
SAMPLES = {"samples": 64, "screening": 32}
COMMON: dict[str, Any] = {"believer": BELIEVER, "search": SEARCH, "strict": True}
FAST: dict[str, dict[str, Any]] = {
    "epbo": COMMON,
    "eic": COMMON,
    "eic-cf": COMMON | SAMPLES,
    "logei-cf": COMMON | SAMPLES,
    "cobalt": COMMON | SAMPLES,
    "bois": COMMON,
    "box": COMMON,
    "merit-quantile": COMMON,
    "scbo": {"candidates": 64, "strict": True},
}
"""Settings for tests of what does not depend on how good a solver is, by name."""
PAPER = ("epbo-paper", "eic-paper", "eic-cf-paper", "merit-quantile-paper")


def quick(name: str, **words: Any) -> Solver:
    """A rival with one kind of model and a small search."""
    return make(name, **(FAST[name] | words))


def affine(**words: Any) -> Problem:
    """Two variables, two outputs, every function affine in them, one constraint known exactly."""
    stated: dict[str, Any] = {
        "variables": {"a": (0.0, 1.0), "b": (0.0, 2.0)},
        "outputs": ["p", "q"],
        "blackbox": lambda x: [math.sin(3 * x.a) + x.b, math.cos(2 * x.b) * x.a],
        "maximize": "2*p - 3*q + a",
        "subject_to": {"black": "p + q >= 0.5", "white": "a + b <= 2"},
        "noise": 0,
    }
    return Problem(**(stated | words))


def told(problem: Problem, points: int = 7, seed: int = 0) -> Dataset:
    """A record of Sobol points."""
    U = Stream(seed).at("told").sobol(points, problem.d)
    Y = np.stack([problem.evaluate(row.tolist()) for row in problem.from_unit(U)])
    return Dataset(tuple(range(1, points + 1)), U, Y, U[:0])


def believed(problem: Problem, points: int = 7, seed: int = 0) -> tuple[Dataset, GP, Composite]:
    """A record, the belief about it, and the belief composed with g."""
    data = told(problem, points, seed)
    belief = BELIEVER.fit(problem, data)
    return data, belief, BELIEVER.bound(problem, data, belief, Stream(seed))


def slopes_by_difference(values: Any, Z: ndarray, step: float = 1e-6) -> ndarray:
    """Central differences of functions at points, `b k z`."""
    columns = []
    for j in range(Z.shape[1]):
        away = np.zeros_like(Z)
        away[:, j] = step
        columns.append((values(Z + away) - values(Z - away)) / (2 * step))
    return np.stack(columns, -1)
