"""Least squares in SciPy's words, against SciPy's own."""

import logging
import math
from typing import Any

import numpy as np
import pytest
from numpy import ndarray
from scipy import optimize

import pied
from pied import Problem, Variable
from pied.errors import PiedError
from pied.records.trial import Dataset
from pied.rng import Stream
from pied.solvers.cuqb import CUQB

TIMES = np.linspace(0.0, 3.0, 5)
DATA = 2.0 * np.exp(-0.8 * TIMES) + 0.1 * np.array([0.3, -0.8, 0.5, 1.1, -0.4])
BOX: Any = ([0.5, 0.1], [5.0, 3.0])
ERRORS = np.linspace(0.05, 0.2, 5)
COVARIANCE = 0.01 * (0.5 * np.eye(5) + 0.5)


def decay(x: ndarray) -> ndarray:
    return x[0] * np.exp(-x[1] * TIMES)


def drawn(**words: Any) -> pied.Fit:
    """A fit whose points are drawn, which takes no time."""
    return pied.least_squares(decay, [1.0, 1.0], BOX, data=DATA, seed=0, solver="random", **{"budget": 4, **words})


def test_a_fit_ends_where_scipy_does_after_few_evaluations() -> None:
    calls: list[ndarray] = []

    def curve(x: ndarray, scale: float) -> ndarray:
        calls.append(x)
        return scale * decay(x)

    found = pied.least_squares(curve, [1.0, 1.0], BOX, data=DATA, sigma=ERRORS, budget=9, seed=0, args=(1.0,))
    best = optimize.least_squares(lambda x: (decay(x) - DATA) / ERRORS, [1.0, 1.0], bounds=BOX)
    assert found.cost <= best.cost * 1.001
    assert found.x == pytest.approx(best.x, abs=0.02)
    assert found.fun == pytest.approx((decay(found.x) - DATA) / ERRORS)
    assert found.cost == pytest.approx(0.5 * found.fun @ found.fun)
    assert found.success
    assert found.nfev == len(calls) == len(found.study.trials) == 9
    assert calls[0].tolist() == [1.0, 1.0]


@pytest.mark.parametrize("loss", ["linear", "soft_l1", "huber", "cauchy", "arctan"])
def test_costs_are_those_of_scipy_and_sums_of_terms(loss: str) -> None:
    found = drawn(loss=loss, f_scale=0.3, sigma=ERRORS)
    same = optimize.least_squares(
        lambda x: (decay(x) - DATA) / ERRORS, found.x, loss=loss, f_scale=0.3, max_nfev=1, bounds=BOX
    )
    assert found.cost <= optimize.least_squares(lambda x: found.fun, [0.0], loss=loss, f_scale=0.3).cost * (1 + 1e-12)
    assert same.cost <= found.cost * (1 + 1e-9)  # SciPy may have taken a step
    assert found.study.problem.structure[0].terms is not None


def test_a_covariance_weighs_as_its_inverse_and_leaves_a_sum_of_terms() -> None:
    found = drawn(sigma=COVARIANCE)
    r = decay(found.x) - DATA
    assert found.cost == pytest.approx(0.5 * r @ np.linalg.solve(COVARIANCE, r))
    assert found.study.problem.structure[0].terms is not None


def test_residuals_need_neither_start_nor_number_and_are_not_computed_twice() -> None:
    calls: list[ndarray] = []

    def residuals(x: ndarray) -> ndarray:
        calls.append(x)
        return decay(x) - DATA

    box = {"height": (0.5, 5.0), "rate": Variable(0.1, 10.0, log=True)}
    found = pied.least_squares(residuals, bounds=box, budget=3, solver="random", seed=0, subject_to=["max(r) <= 9"])
    assert calls[0] == pytest.approx([2.75, 1.0])  # the middle of the box
    assert found.nfev == len(calls) == 3
    assert found.study.problem.outputs == tuple(f"r[{j}]" for j in range(1, 6))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"bounds": None}, "finite box"),
        ({"bounds": ([0.0, 0.0], [1.0, np.inf])}, "without ends"),
        ({"data": None, "sigma": 1.0}, "error of the data"),
        ({"sigma": [1.0, 2.0]}, "5 of them"),
        ({"sigma": np.eye(3)}, "5 rows"),
        ({"sigma": -np.eye(5)}, "not positive definite"),
        ({"loss": "square"}, "loss is one of"),
    ],
)
def test_what_does_not_fit_is_told_before_anything_is_evaluated(words: dict[str, Any], message: str) -> None:
    def never(x: ndarray) -> ndarray:
        raise AssertionError

    given = {"bounds": BOX, "data": DATA, **words}
    with pytest.raises(PiedError, match=message):
        pied.least_squares(never, [1.0, 1.0], **given)


def test_outputs_may_be_counted() -> None:
    assert Problem({"a": (0, 1)}, 3, minimize="sum(y^2)").outputs == ("y[1]", "y[2]", "y[3]")
    several = Problem({"a": (0, 1)}, {"c": 2, "T": {"unit": "K"}}, minimize="sum(c) + T")
    assert several.outputs == ("c[1]", "c[2]", "T")
    with pytest.raises(PiedError, match="at least one element"):
        Problem({"a": (0, 1)}, {"c": 0}, minimize="a")


def test_float_in_a_function_of_outputs_is_told(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        Problem(
            {"a": (0, 1)}, 3, minimize=lambda x, y: np.sum(y.array**2), subject_to={"c": lambda x, y: math.exp(x.a)}
        )
        assert not caplog.text
        Problem({"a": (0, 1)}, 3, minimize={"misfit": lambda x, y: float(np.sum(y.array**2))})
    assert "'misfit' takes float() of an output" in caplog.text


def test_a_logarithmic_scale_may_lie_below_zero() -> None:
    mirrored = Problem({"a": Variable(-100.0, -0.01, log=True)}, 1, minimize="a")
    X = np.array([[-100.0], [-1.0], [-0.01]])
    assert mirrored.to_unit(X)[:, 0] == pytest.approx([0.0, 0.5, 1.0])
    assert mirrored.from_unit(mirrored.to_unit(X)) == pytest.approx(X)
    step = 1e-6
    slope = (mirrored.from_unit(np.array([[0.5 + step]])) - mirrored.from_unit(np.array([[0.5 - step]]))) / (2 * step)
    assert mirrored.unit_slopes(X[1:2]) == pytest.approx(slope)


@pytest.mark.parametrize(("values", "noise", "largest"), [
    ([-1e8, -1e7, -3.0, -2.0, -1.0], 0, 200.0),  # a hundred times the range of the best three
    ([-1e8, -1e7, -3.0, -2.0, -1.0], 1.0, math.inf),
    ([-4.0, -3.0, -2.0, -1.0, 0.0], 0, 3.0),
])  # fmt: skip
def test_the_objectives_scale_shrinks_with_what_is_known_near_the_best(
    values: list[float], noise: float, largest: float
) -> None:
    U, Y = np.linspace(0.0, 1.0, 5)[:, None], np.array(values)[:, None]
    run = CUQB().start(Problem({"a": (0, 1)}, ["y"], maximize="y", noise=noise), Stream(0))
    scale = run.scene(6, Dataset((1, 2, 3, 4, 5), U, Y, U[:0]), None, Stream(0)).scales[0]
    assert 1.0 <= scale <= largest
    assert largest < math.inf or scale > 1e6
