"""Programs of formulas: slopes against central differences, and what is computed in pieces."""

import pickle
from typing import Any

import numpy as np
import pytest
from numpy import ndarray

from pied.problem import program
from pied.problem.formula import Formula, Scope
from pied.problem.trace import trace
from pied.rng import Stream
from white import differences, places

SCOPE = Scope(("a", "b"), ("y", "c[1]", "c[2]", "c[3]"), {"k": 2.5, "seen": (0.2, 0.4, 0.9)})
FORMULAS = [
    "a",
    "a + b",
    "-a^2 + b^3 - a*b",
    "y*a/b - 3*y",
    "a/(b*y)/2",
    "k^a + a^k + b^a",
    "exp(a) + log(b) + log10(y) + sqrt(a) + abs(a - b) + sin(y) + cos(a) + tan(b/2) + tanh(y)",
    "sum((c - seen)^2)",
    "mean(c)*y + mean(a, b, y)",
    "min(a, b, y) + max(a, y) - sum(a, y, 2)",
    "max(c) - min(c - a*y)",
    "sum(c*seen*a) + sum(outputs)",
    "(a - b)*(a - b)*(y - a)*0",
    "sum(exp(-c/a)/(1 + c))",
    "y + a + b + a^2 - b*y + (a - b)",
    "c[1]*sum(c) + c[1] - sum(a*c)/2",
    "2*3^2*a + (1 - 4)/k*y",
]


def points(L: int = 5, b: int = 6) -> tuple[ndarray, ndarray]:
    return 0.5 + Stream(1).uniform(b, 2), 0.5 + Stream(2).uniform(L, b, 4)


@pytest.mark.parametrize("text", FORMULAS)
def test_slopes_of_a_formula_equal_differences(text: str) -> None:
    made, (X, Y) = Formula(text, SCOPE).program, points()
    value, back = made.traced(X, Y)
    np.testing.assert_array_equal(value, made.values(X, Y))
    weight = Stream(3).normal(*value.shape)
    for ours, theirs in zip(back(weight), differences(made, X, Y, weight), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(
    ("text", "zeros", "by_a"),
    [
        ("a*b*y", (0, 1), lambda b, y: 0 * y),
        ("a*a*y", (0,), lambda b, y: 0 * y),
        ("a*b*y", (0,), lambda b, y: b * y),
        ("a^2 + a", (0,), lambda b, y: 1 + 0 * y),
        ("a^0 + y*a^1", (0,), lambda b, y: y),
        ("y*a^b", (0,), lambda b, y: 0 * y),
    ],
)
def test_a_factor_of_zero_has_a_slope(text: str, zeros: tuple[int, ...], by_a: Any) -> None:
    made, (X, Y) = Formula(text, SCOPE).program, points(2, 3)
    X[:, 1] += 1.0
    X[:, list(zeros)] = 0.0
    value, back = made.traced(X, Y)
    by_x, _ = back(np.ones(value.shape))
    y = Y[..., 0] if value.ndim == 2 else Y[:1, :, 0]
    np.testing.assert_allclose(by_x[:, 0], by_a(X[:, 1], y).sum(0))


def test_what_is_not_finite_stays_with_its_point() -> None:
    made = Formula("log(a)*y", SCOPE).program
    value, back = made.traced(np.array([[-1.0, 0.5], [0.5, 0.5]]), Stream(2).uniform(2, 2, 4))
    by_x, by_Y = back(np.ones((2, 2)))
    assert np.isnan(value[:, 0]).all()
    assert all(np.isfinite(each).all() for each in (value[:, 1], by_x[1], by_Y[:, 1]))


def test_the_branch_that_is_not_taken_has_no_slope() -> None:
    made = trace(lambda x, y: np.where(y.u > 1, np.sqrt(y.u - 1) * x.a, x.a), places("a", "u"))
    value, back = made.traced(np.array([[2.0]]), np.array([[[0.5]], [[5.0]]]))
    by_x, by_Y = back(np.ones(value.shape))
    assert (by_x.item(), by_Y.ravel().tolist()) == (3.0, [0.0, 0.5])


def test_a_program_over_much_data_is_computed_in_pieces_with_the_same_values(monkeypatch: pytest.MonkeyPatch) -> None:
    scope = Scope(("a",), ("y",), {"v": tuple(float(i) for i in range(50))})
    made = Formula("sum((v*a - y)^2) + max(v*y)", scope).program
    X, Y, weight = Stream(1).uniform(7, 1), Stream(2).uniform(3, 7, 1), Stream(3).uniform(3, 7)
    whole, whole_back = made.traced(X, Y)
    monkeypatch.setattr(program, "NUMBERS_AT_ONCE", 3 * 50 * 2)
    cut, cut_back = made.traced(X, Y)
    np.testing.assert_allclose(cut, whole, rtol=1e-12)
    for a, b in zip(cut_back(weight), whole_back(weight), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def test_common_parts_are_written_once_and_constants_computed_beforehand() -> None:
    made = Formula("exp(a*y) + exp(a*y)^2 + 2*3^2", SCOPE).program
    assert sum(step.kind == "exp" for step in made.steps) == 1
    assert not any(step.kind == "power" and step.parts == () for step in made.steps)


def test_a_program_that_has_run_survives_pickling() -> None:
    made, (X, Y) = Formula("sum(c*seen*a) + min(a, y)", SCOPE).program, points()
    value = made.values(X, Y)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(made)).values(X, Y), value)
