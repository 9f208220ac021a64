"""Variants of the default that need code instead of a setting."""

import importlib
import math
import sys
from dataclasses import replace
from pathlib import Path
from statistics import mean

import numpy as np
import pytest
from numpy import ndarray

from pied import suite
from pied.bounds.quantile import normal
from pied.gp import GP
from pied.gp.choices import Model
from pied.gp.likelihood import covariance
from pied.rng import Stream
from pied.solvers import make, registry
from pied.solvers.cuqb import CUQB
from pied.study import Study
from tiny import few

sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))
variants = importlib.import_module("variants")
SIMPLE = Model(kernels=("matern 5/2",), trends=("constant",), warps=("none",), scales=("plain",), declustering=None)


def told(count: int) -> tuple[ndarray, ndarray]:
    """Points and a smooth output."""
    U = Stream(3).sobol(count, 2)
    return U, (np.sin(4.0 * U[:, :1]) + U[:, 1:] ** 2)


@pytest.mark.slow
@pytest.mark.parametrize("name", few(variants.NAMES, 2))
def test_every_variant_proposes_without_falling_back(name: str) -> None:
    problem = suite.get("rosen-suzuki").problem
    with variants.known():
        solver = make(name)
    assert name not in registry
    study = Study(problem, solver=solver, seed=0, initial=2 if name == "cuqb-sobol-design" else None)
    while study.used < 16:
        trial = study.ask()
        study.tell(trial, problem.named_y(problem.evaluate(trial.x)))
        assert trial.why.aim != "fill"


def test_errors_of_leaving_one_out_are_those_of_leaving_one_out() -> None:
    U, Y = told(12)
    belief = GP.fit(U, Y, model=SIMPLE)
    (block,) = belief.blocks
    K = covariance(block.tasks, block.theta)[0][0]
    y = (Y[:, 0] - belief.location) / belief.deviation
    z2 = []
    for i in range(len(U)):
        rest = np.arange(len(U)) != i
        inner, k, one = np.linalg.inv(K[rest][:, rest]), K[rest, i], np.ones(11)
        level = (one @ inner @ y[rest]) / (one @ inner @ one)
        at = level + k @ inner @ (y[rest] - level)
        ratio = K[i, i] - k @ inner @ k + (1.0 - one @ inner @ k) ** 2 / (one @ inner @ one)
        z2.append(float((y[i] - at) ** 2 / (ratio * belief.variance[0])))
    assert variants.standardized_errors(belief) == pytest.approx([math.sqrt(mean(z2))], rel=1e-4)


def test_a_randomized_level_is_that_of_the_default_in_the_mean() -> None:
    stream = Stream(0)
    z2 = [normal(variants.Randomized().level_at(t, 5, stream.at("level", t))) ** 2 for t in range(4000)]
    assert mean(z2) == pytest.approx(normal(CUQB().level) ** 2, rel=0.05)
    assert min(z2) >= 0.999


def test_a_scheduled_level_grows() -> None:
    levels = [variants.Scheduled().level_at(t, 5, Stream(0)) for t in range(6, 60)]
    assert levels == sorted(levels)
    assert normal(levels[-1]) == pytest.approx(math.sqrt(2 * math.log(55)))


def test_a_floor_and_a_prior_widen_a_variance_that_is_too_small() -> None:
    U, Y = told(12)
    belief = GP.fit(U, Y, model=SIMPLE)
    (block,) = belief.blocks
    small = replace(belief, blocks=(replace(block, variance=np.full_like(block.variance, 0.25)),))
    assert variants.Floored().factors(small, 12).item() == pytest.approx(2.0)
    assert variants.Shrunk().factors(small, 9).item() == pytest.approx(math.sqrt((9 * 0.25 + 3) / 12 / 0.25))
    large = replace(belief, blocks=(replace(block, variance=np.full_like(block.variance, 4.0)),))
    assert variants.Floored().factors(large, 12).item() == 1.0
    assert variants.Shrunk().factors(large, 9).item() < 1.0
