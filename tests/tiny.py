"""Tiny problems whose answers are known by hand, for the tests of studies and solvers."""

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from jaxtyping import config

from pied import CUQB, Problem, Trial
from pied.bounds.believer import Believer
from pied.bounds.estimator import Estimator
from pied.gp import Model
from pied.search.multistart import Search


def few(names: Iterable[Any], count: int) -> list[Any]:
    """Return parameters of a test of which all but the first few are run before a release alone."""
    return [
        name if place < count else pytest.param(*(name if isinstance(name, tuple) else [name]), marks=pytest.mark.long)
        for place, name in enumerate(names)
    ]


def without(*names: str) -> dict[str, tuple[str, ...]]:
    """Return the setting of a solver that leaves out some moves."""
    return {"moves": CUQB().without(*names).moves}


def parabola(**words: Any) -> Problem:
    """One variable, one output, no constraint: the largest y - x / 10 with y = 1 - (x - 1.3)^2 is at x = 1.25."""
    stated: dict[str, Any] = {
        "variables": {"x": (0.0, 3.0)},
        "outputs": ["y"],
        "blackbox": lambda x: 1.0 - (x.x - 1.3) ** 2,
        "maximize": "y - 0.1*x",
        "noise": 0,
    }
    return Problem(**(stated | words))


def hill(**words: Any) -> Problem:
    """Two variables, one output, a black and a white constraint.

    Minimize y = (a - 3)^2 + (b - 2)^2 subject to y >= 1 and a + b <= 3: the nearest point of the line a + b = 3 to
    (3, 2) is (2, 1), where y = 2.
    """
    stated: dict[str, Any] = {
        "variables": {"a": (0.0, 4.0), "b": (0.0, 4.0)},
        "outputs": ["y"],
        "blackbox": lambda x: {"y": (x.a - 3.0) ** 2 + (x.b - 2.0) ** 2},
        "minimize": "y",
        "subject_to": {"far enough": "y >= 1", "line": "a + b <= 3"},
        "noise": 0,
    }
    return Problem(**(stated | words))


def waves(**words: Any) -> Problem:
    """Two variables, three outputs, two black constraints, one general function."""
    stated: dict[str, Any] = {
        "variables": {"s": (0.0, 1.0), "t": (0.0, 1.0)},
        "outputs": ["p", "q", "r"],
        "blackbox": lambda x: [math.sin(3 * x.s), math.cos(2 * x.t), x.s * x.t],
        "maximize": "p*q + r",
        "subject_to": {"low": "p <= 0.9", "high": "q + r >= 0.2"},
        "noise": 0,
    }
    return Problem(**(stated | words))


@contextmanager
def unchecked() -> Iterator[None]:
    """Switch the checks of shapes off: for long runs, whose every function the short ones have checked already."""
    config.update("jaxtyping_disable", True)
    try:
        yield
    finally:
        config.update("jaxtyping_disable", False)


SMALL = Search(pool=32, generations=0, starts=2, rounds=6)
"""A search for tests of what does not depend on how good it is."""


def fast(**words: Any) -> CUQB:
    """CUQB with one kind of model and a small search: for tests of what does not depend on how good it is."""
    model = Model(kernels=("squared exponential",), trends=("constant",), warps=("none",))
    return CUQB(**({"believer": Believer(model, Estimator(samples=64, screening=32)), "search": SMALL} | words))


def points(trials: Iterable[Trial]) -> list[tuple[float, ...]]:
    """Where trials are, natural units."""
    return [tuple(trial.x.values()) for trial in trials]


def distance(trials: Iterable[Trial], problem: Problem) -> float:
    """Smallest distance of two trials in the unit cube, largest coordinate difference."""
    U = problem.to_unit(np.array(points(trials)))
    return float((np.abs(U[:, None] - U).max(-1) + 9.0 * np.eye(len(U))).min())
