"""A solver with a tolerance is not exact: the study notices, and says which noise to state."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from pied import Problem, Study
from pied.records import Dataset
from pied.study.jitter import jitter, said

ROUGH = 1e-4


def scatter(u: float, v: float) -> float:
    """What a solver that stops early leaves, in -1 .. 1: the same at the same point, and without a pattern."""
    return 2.0 * math.modf(abs(math.sin(1e7 * u + 3e6 * v)) * 1e4)[0] - 1.0


def smooth(u: float, v: float) -> float:
    return math.exp(-((u - 0.3) ** 2) - 2.0 * (v - 0.6) ** 2) + 0.1 * u * v


def problem(noise: object = 0, outputs: tuple[str, ...] = ("y",)) -> Problem:
    return Problem({"u": (0.0, 1.0), "v": (0.0, 1.0)}, list(outputs), maximize=outputs[0], noise=noise)


def told(*functions: Callable[[float, float], float]) -> Dataset:
    """Points as a run leaves them: spread out at first, then around an optimum."""
    rng = np.random.default_rng(3)
    near = rng.standard_normal((10, 2)) * np.geomspace(1e-2, 1e-5, 10)[:, None]
    U = np.concatenate([rng.uniform(size=(12, 2)), near + np.array([0.35, 0.6])])
    Y = np.array([[function(*u) for function in functions] for u in U.tolist()])
    return Dataset(tuple(range(1, len(U) + 1)), U, Y, U[:0])


def jittery(u: float, v: float) -> float:
    return smooth(u, v) + ROUGH * scatter(u, v)


@pytest.mark.parametrize("size", [1e-6, 1e-5, ROUGH, 1e-3])
def test_values_that_scatter_are_noticed_with_the_noise_to_state(size: float) -> None:
    """Relative to the spread of the values; `scatter` has a deviation of 0.6."""
    spread = float(told(smooth).Y.std())
    found = jitter(problem(), told(lambda u, v: smooth(u, v) + size * spread * scatter(u, v)))
    assert 0.2 * size < found["y"] / spread < 2.0 * size


def test_jitter_that_the_points_cannot_resolve_is_not_claimed() -> None:
    rng = np.random.default_rng(0)
    U = rng.uniform(size=(25, 2))  # nowhere close together, and the output has many waves
    Y = np.array([[math.sin(25.0 * u * v) + math.cos(20.0 * u) + 1e-6 * scatter(u, v)] for u, v in U.tolist()])
    assert jitter(problem(), Dataset(tuple(range(1, 26)), U, Y, U[:0])) == {}


@pytest.mark.parametrize(
    "exact",
    [
        smooth,
        lambda u, v: 1.0 - (u - 0.4) ** 2 - (v - 0.5) ** 2,
        lambda u, v: 1.0 - abs(u - 0.35) - (v - 0.5) ** 2,
        lambda u, v: -((u - 0.4) ** 2) - 0.3 * (u > 0.35),
        lambda u, v: -math.sqrt(abs(u - 0.35)) - v,
        lambda u, v: math.sin(9.0 * u) + math.cos(7.0 * v),
        lambda u, v: smooth(u, v) + 1e-8 * scatter(u, v),  # too little to matter
        lambda u, v: 2.0,
    ],
)
def test_exact_outputs_are_left_in_peace_also_those_with_kinks_and_jumps(
    exact: Callable[[float, float], float],
) -> None:
    assert jitter(problem(), told(exact)) == {}


def test_only_the_output_that_scatters_is_named_and_only_where_it_was_stated_exact() -> None:
    two = problem(outputs=("a", "b"))
    found = jitter(two, told(smooth, jittery))
    assert set(found) == {"b"}
    assert "'b' was stated exact" in said(two, found)
    assert "'a': 0.0" in said(two, found)
    assert jitter(problem({"a": 0, "b": 1e-4}, ("a", "b")), told(smooth, jittery)) == {}
    assert jitter(problem(None), told(jittery)) == {}


def test_of_many_outputs_each_must_be_clearer_and_a_few_are_named() -> None:
    many = tuple(f"y{j}" for j in range(40))
    found = jitter(problem(outputs=many), told(smooth, *[jittery] * 39))
    assert set(found) == set(many[1:])
    text = said(problem(outputs=many), found)
    assert "'y1', 'y2', 'y3', 'y4' and 35 more outputs were stated exact" in text
    assert len(text) < 400
    border = np.linspace(2.0, 12.0, 11) * 1e-7  # jitter that is just resolved: fewer are claimed beside many others
    claimed = [bool(jitter(problem(), told(lambda u, v, s=size: smooth(u, v) + s * scatter(u, v)))) for size in border]
    beside = jitter(
        problem(outputs=tuple(f"y{j}" for j in range(11 + 60))),
        told(*[lambda u, v, s=size: smooth(u, v) + s * scatter(u, v) for size in border], *[smooth] * 60),
    )
    assert len(beside) <= sum(claimed)
    assert all(int(name[1:]) < 11 for name in beside)


def test_points_far_apart_say_nothing_about_jitter() -> None:
    data = told(jittery)
    for count in (3, 9, 10, 12):
        assert jitter(problem(), data.first(count)) == {}


@pytest.mark.slow
def test_a_run_says_once_which_noise_to_state(caplog: pytest.LogCaptureFixture) -> None:
    with Study(problem().revised(blackbox=lambda u, v: jittery(u, v)), solver="random", seed=0) as study:
        for u, y in zip(told(jittery).U.tolist(), told(jittery).Y[:, 0].tolist(), strict=True):
            study.add(u, y)
        study.run(1)
        study.run(1)
    remarks = [each.getMessage() for each in caplog.records if "scatter" in each.getMessage()]
    assert len(remarks) == 1
    assert "state noise=" in remarks[0]
