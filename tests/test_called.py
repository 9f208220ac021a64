"""Functions that are called as they are: how each comes in, its values, slopes from differences, and what it costs."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy import ndarray
from scipy.optimize import brentq

from pied import Problem, Study, Variable
from pied.problem.called import Called
from pied.problem.trace import trace
from pied.rng import Stream
from tiny import fast, unchecked
from white import alone, places

INDEX = places("a b", "u v w")
BOX = {"a": (0.5, 2.0), "b": (0.5, 2.0)}
X, Y = 0.5 + Stream(1).uniform(6, 2), 0.5 + Stream(2).uniform(5, 6, 3)


def root(x: Any, y: Any) -> Any:
    return brentq(lambda z: z**3 + x.a * z - y.u, -9.0, 9.0, xtol=1e-14, rtol=1e-14) + x.b


def simulated(x: Any, y: Any) -> Any:
    level = y.u
    for _ in range(20):
        if level > 1.2:
            level = level - 0.1 * y.v
    return level * math.exp(-x.a)


def changed_copy(x: Any, y: Any) -> Any:
    values = y.array.copy()
    values[0] = x.a
    values *= 2.0
    return values.sum()


def counted(x: Any, y: Any) -> Any:
    total = x.a
    total += y.u
    return total


DOORS: dict[str, tuple[Callable[[Any, Any], Any], str]] = {
    "operators": (lambda x, y: x.a * y.u - y.v, "a program"),
    "NumPy": (lambda x, y: np.exp(-y.array).sum() * x.a, "a program"),
    "NumPy on data": (lambda x, y: ((y.array - np.array([1.0, 2.0, 3.0])) ** 2).sum(-1), "a program"),
    "counting up": (counted, "a program"),
    "a constant": (lambda x, y: 3, "a program"),
    "sorted": (lambda x, y: np.sort(y.array, -1)[..., 0], "called on arrays"),
    "a function of SciPy": (lambda x, y: np.vectorize(math.gamma)(y.u) * x.a, "called on arrays"),
    "written for arrays": (lambda x, y: np.median(y.array[:, :, 0:2], 2), "called on arrays"),
    "if": (lambda x, y: y.u if y.u > x.a else 2 * y.v, "called point by point"),
    "max": (lambda x, y: max(y.u, y.v), "called point by point"),
    "and": (lambda x, y: (y.u > 1 and y.v) or y.w, "called point by point"),
    "math": (lambda x, y: math.exp(y.u) + math.sqrt(x.a), "called point by point"),
    "float": (lambda x, y: float(y.u) * 2, "called point by point"),
    "item": (lambda x, y: y.u.item() * x.b, "called point by point"),
    "a whole number": (lambda x, y: int(10 * y.u), "called point by point"),
    "over all": (lambda x, y: np.median(y.array), "called point by point"),
    "a root search": (root, "called point by point"),
    "a loop with if": (simulated, "called point by point"),
    "a copy that is changed": (changed_copy, "called point by point"),
}


@pytest.mark.parametrize("name", DOORS)
def test_every_function_comes_in_and_gives_what_it_gives_at_single_points(name: str) -> None:
    function, way = DOORS[name]
    with unchecked():
        problem = Problem(BOX, ["u", "v", "w"], maximize=function)
        (value,) = problem.g(X, Y)
    assert next(iter(problem.ways.values())).startswith(way)
    if name != "written for arrays":  # at single points it fails
        np.testing.assert_allclose(np.broadcast_to(value, (5, 6)), alone(function, INDEX, X, Y), rtol=1e-12)


WIDE = (-np.inf, np.inf)


def made(function: Any, ends: Any = WIDE, bounds: Any = ((0.5, 2.0), (0.5, 2.0)), **words: Any) -> Called:
    """A function that is called, with ranges for all outputs."""
    ranges = np.tile(np.array(ends), (3, 1))
    return Called("f", function, INDEX, np.array(bounds), ranges, **({"uses_x": (0, 1), "uses_y": (0, 1, 2)} | words))


def slopes(door: Any, X: ndarray = X, Y: ndarray = Y, weight: ndarray | None = None) -> tuple[ndarray, ndarray]:
    values, back = door.traced(X, Y)
    weight = Stream(3).normal(*Y.shape[:2]) if weight is None else weight
    return back(weight if values.ndim == weight.ndim else weight.sum(0))


SMOOTH: list[Callable[[Any, Any], Any]] = [
    lambda x, y: np.exp(-x.a * y.u) + y.v**1.5 / y.w,
    lambda x, y: np.log(y.u) * x.b + y.v * y.w,
    lambda x, y: np.sqrt(x.a) * np.sin(x.b),
]


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("on_arrays", [True, False])
@pytest.mark.parametrize("function", SMOOTH)
def test_differences_equal_exact_slopes_at_every_scale(function: Any, on_arrays: bool, scale: float) -> None:
    def scaled(x: Any, y: Any) -> Any:
        return function(x, type(y)(y.keys(), y.array / scale))

    with unchecked():
        found = slopes(made(scaled, on_arrays=on_arrays), Y=Y * scale)
        exact = slopes(trace(function, INDEX))
    np.testing.assert_allclose(found[0], exact[0], rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(found[1] * scale, exact[1], rtol=1e-6, atol=1e-7)


def test_differences_stay_inside_of_the_box_and_the_ranges() -> None:
    def narrow(x: Any, y: Any) -> float:
        return math.sqrt(2.0 - x.a) + math.sqrt(x.b - 0.5) + math.sqrt(y.u * (1.0 - y.v)) + y.w**2

    ends = np.array([[2.0, 0.5], [1.5, 1.0]]), np.array([[[0.5, 0.5, 0.0]], [[0.5, 0.5, 1.0]]]).repeat(2, 1)
    with unchecked():
        by_x, by_Y = slopes(made(narrow, (0.0, 1.0)), *ends, np.ones((2, 2)))
    assert np.isfinite(by_x).all()
    np.testing.assert_allclose(by_Y[..., 2], [[0.0, 0.0], [2.0, 2.0]], atol=1e-5)


def test_steps_follow_the_size_of_a_variable_over_powers_of_ten() -> None:
    bounds = ((1e-9, 1e3), (-1.0, 1.0))
    with unchecked():
        by_x, _ = slopes(
            made(lambda x, y: math.log(x.a) + x.b, bounds=bounds, uses_y=()),
            np.array([[1e-8, 0.0], [1.0, 0.5]]),
            np.ones((1, 2, 3)),
            np.ones(2),
        )
    np.testing.assert_allclose(by_x, [[1e8, 1.0], [1.0, 1.0]], rtol=1e-6)


def test_outputs_near_zero_have_slopes() -> None:
    Y = np.array([[[0.0, 1e-2, 1.0]], [[1.0, -1e-9, 0.0]]])
    with unchecked():
        _, by_Y = slopes(made(lambda x, y: float(y.u + 2 * y.v + 3 * y.w) + 1.0), X[:1], Y, np.ones((2, 1)))
    np.testing.assert_allclose(by_Y, np.broadcast_to([1.0, 2.0, 3.0], (2, 1, 3)), rtol=1e-5)


def test_only_inputs_that_are_used_and_values_with_a_weight_are_called() -> None:
    calls = []

    def function(x: Any, y: Any) -> float:
        calls.append(1)
        return float(y.v) ** 2 + 0.0 * float(y.u)

    with unchecked():
        problem = Problem(BOX, ["u", "v", "w"], maximize=function)
        assert problem.structure[0].outputs == (1,)
        _, back = problem.traced(X, Y, (0,))
        weights = np.zeros((1, 5, 6))
        calls.clear()
        back(weights)
        assert not calls
        weights[0, 2, 3] = weights[0, 4, 0] = 1.0
        _, by_Y = back(weights)
    assert len(calls) == 2 * 2  # two values, a step down and up
    assert np.count_nonzero(by_Y) == 2
    assert by_Y[0, 2, 3, 1] == pytest.approx(2 * Y[2, 3, 1], rel=1e-8)


def test_the_price_of_a_called_function_is_said() -> None:
    with unchecked():
        problem = Problem(BOX, ["u", "v", "w"], maximize=lambda x, y: float(y.u) * x.a)
    found = problem.ways["objective"]
    assert "s a point, slopes by differences (4 calls)" in found


def test_a_function_that_is_random_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    numbers = np.random.default_rng(0)
    with unchecked():
        Problem(BOX, ["u", "v", "w"], maximize=lambda x, y: float(y.u) + numbers.normal())
    assert "another value when it is called again" in caplog.text


def test_a_function_of_torch_comes_in_on_tensors() -> None:
    torch = pytest.importorskip("torch")

    def plain(x: Any, y: Any) -> Any:
        return y.u.clamp(min=1.0) * x.a  # without a word of torch

    for function in (lambda x, y: torch.exp(-x.a * y.u) + y.array @ torch.arange(3.0).double(), plain):
        problem = Problem(BOX, ["u", "v", "w"], maximize=function)
        assert next(iter(problem.ways.values())) == "on tensors of torch"
    found = slopes(problem._white_box.doors[0])
    exact = slopes(trace(lambda x, y: np.maximum(y.u, 1.0) * x.a, INDEX))
    np.testing.assert_allclose(found[0], exact[0], rtol=1e-12)
    np.testing.assert_allclose(found[1], exact[1], rtol=1e-12)


@pytest.mark.slow
def test_a_study_avoids_where_a_function_fails() -> None:
    problem = Problem(
        {"a": (0.0, 2.0), "b": Variable(0.1, 10.0, log=True)},
        ["u"],
        blackbox=lambda x: x.a + 0.2 * math.log(x.b),
        maximize=lambda x, y: math.sqrt(1.3 - x.a) + float(y.u),  # it has no value beyond a = 1.3
        noise=0,
    )
    with Study(problem, solver=fast(), seed=0) as study:
        result = study.run(14)
    assert result.x is not None
    assert result.x.a == pytest.approx(1.05, abs=0.1)  # where 1 / (2 sqrt(1.3 - a)) = 1
    assert result.value == pytest.approx(0.5 + 1.05 + 0.2 * math.log(10.0), abs=0.02)
