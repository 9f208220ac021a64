"""Traced functions: every operation and every function of NumPy against single points and central differences."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special

from pied.errors import WhiteBoxError
from pied.problem import numpy_functions
from pied.problem.named import Named
from pied.problem.numpy_functions import WRITERS
from pied.problem.operations import BINARY, UNARY
from pied.problem.symbols import Tracer, Untraceable
from pied.problem.trace import trace
from pied.rng import Stream
from tiny import unchecked
from white import alone, differences, places

INDEX = places("a b", "u v w")
X, Y = 0.5 + Stream(1).uniform(6, 2), 0.5 + Stream(2).uniform(5, 6, 3)
A, POSITIVE = np.arange(12.0).reshape(4, 3), np.array([0.2, 0.4, 0.9])
MASK = np.array([True, False, True])

Function = Callable[[Any, Any], Any]


def ufunc(name: str) -> Any:
    """A function of one or two numbers by its name, of NumPy or SciPy; None if only programs have it."""
    return getattr(np, name, None) or getattr(special, name, None)


def inside(name: str, u: Any) -> Any:
    """A number in the domain of a function, from one between 0.5 and 1.5."""
    return u / 2 if name in ("arcsin", "arccos", "arctanh") else u + 1 if name == "arccosh" else u


def single(name: str) -> Function:
    return lambda x, y: ufunc(name)(inside(name, x.a * y.u / 1.5)) * y.v + ufunc(name)(inside(name, y.array)).sum()


def pair(name: str) -> Function:
    return lambda x, y: ufunc(name)(x.a, y.u) * 1.0 + ufunc(name)(y.v, 0.9) * y.w + np.sum(ufunc(name)(1.1, x.array))


def total(x: Any, y: Any) -> Any:
    found = x.a
    for value in y.array:
        found += value**2
    return found


ELEMENTARY: dict[str, Function] = {
    **{name: single(name) for name in UNARY if isinstance(ufunc(name), np.ufunc)},
    **{name: pair(name) for name in BINARY},
}
ARITHMETIC: dict[str, Function] = {
    "product and ratio": lambda x, y: x.a * y.u - 3 / y.v,
    "powers": lambda x, y: np.power(x.a, 1.5) + 2**y.u + y.v**x.b + y.w**2 + np.float_power(y.u, 3),
    "signs": lambda x, y: -y.u + +y.v - abs(y.w - 1) + np.fabs(x.a - 1),
    "remainder": lambda x, y: 5 * y.u % 3 + 7 % y.v + 3 * y.u // 2 * y.v + 7 // y.v,
    "angles": lambda x, y: np.deg2rad(y.u) + np.radians(y.v) + np.rad2deg(x.a) + np.degrees(x.b),
    "comparisons": lambda x, y: (y.u > 1) * y.v + (y.v > 1) + (y.w <= 1) * 2.0 + (y.u >= y.v) - (y.u == 1) + (y.u != 1),
    "logic": lambda x, y: ((y.u > 1) & (y.v > 1)) * x.a + ((y.u > 1) | ~(y.v > 1)) * y.w + ((x.a > 1) ^ (y.u < 1)),
    "where": lambda x, y: np.where(x.a > 1, y.u, y.v * 2) + np.where(y.array > 1, y.array**2, 0.5).sum(),
    "minimum": lambda x, y: (
        np.minimum(y.u, y.v) + np.maximum(np.minimum(x.a, y.w), 0.8) + np.maximum(y.array, x.a).sum()
    ),
    "clip": lambda x, y: np.clip(y.u, 0.6, 1.1) + y.v.clip(None, 1.0) + np.clip(x.a, min=0.7) + np.clip(y.w, None, x.b),
    "a sum of Python": lambda x, y: sum(value * y.u for value in (1, 2, 3)) + sum(y.array),
    "a loop": total,
    "a constant": lambda x, y: 3.0,
    "a variable": lambda x, y: x.a,
    "nothing but zeros": lambda x, y: np.zeros_like(y.u) * y.v + np.zeros_like(y.array).sum() + np.ones_like(x.a),
    "full like": lambda x, y: np.full_like(y.array, 2.0) @ y.array + np.full_like(x.a, 3.0),
    "functions of SciPy": lambda x, y: special.expm1(y.u) + special.exp2(y.v) + special.log1p(x.a) + special.cbrt(y.w),
    "polynomial": lambda x, y: np.polyval([1, 2, 3], y.u) + np.polyval([x.a, y.v], 2.0 * x.b),
    "table": lambda x, y: np.interp(y.u, [0, 0.7, 1, 2], [0, 1, 4, 5]) + np.interp(y.array, [0.8, 1.2], [3, 1]).sum(),
    "rounded": lambda x, y: y.u * np.round(1.26, 1) + np.real(y.v) + np.copy(y.w) + y.u.copy() + y.v.astype(float),
}
VECTORS: dict[str, Function] = {
    "sums of squares": lambda x, y: np.sum(y.array**2) + ((y.array - [1, 2, 3]) ** 2).sum(-1) + np.add.reduce(y.array),
    "means": lambda x, y: np.mean(y.array) * x.a + y.array.mean(0),
    "averages": lambda x, y: np.average(y.array) + np.average(y.array, weights=POSITIVE),
    "variance": lambda x, y: np.var(y.array) + y.array.var() + y.array.std(),
    "deviation": lambda x, y: np.std(y.array, ddof=1) + np.concatenate([y.array, [x.a, x.b]]).std(),
    "extremes": lambda x, y: np.max(y.array) + y.array.min() + np.min(x.array) * y.u + y.array.max(-1),
    "other extremes": lambda x, y: np.amax(x.array) + np.amin(y.array),
    "reduced": lambda x, y: np.minimum.reduce(y.array) + np.maximum.reduce(x.array) + np.multiply.reduce(y.array),
    "products": lambda x, y: np.prod(y.array) + x.array.prod(),
    "matrix and vector": lambda x, y: ((A @ y.array) ** 2).sum() + (y.array @ A.T).max() + np.matmul(A, y.array).min(),
    "dot": lambda x, y: np.dot(y.array, [1, 2, 3]) / x.a + y.array.dot(y.array) + np.dot(2.0, y.u),
    "inner": lambda x, y: np.inner(y.array, y.array) + np.vdot(POSITIVE, y.array),
    "vector and table": lambda x, y: (y.array @ np.outer(y.array, x.array)).sum(),
    "table and vector": lambda x, y: (np.outer(x.array, y.array) @ y.array)[1],
    "outer": lambda x, y: np.outer(y.array, y.array).sum() + (y.array[:, None] * x.array[None, :]).sum(1)[2],
    "norm": lambda x, y: np.linalg.norm(y.array) + np.linalg.norm(x.array, 2) * y.u,
    "stack": lambda x, y: np.stack([y.u, y.v, x.b]).mean() + np.stack([y.array, y.array**2], axis=1)[2, 1],
    "rows": lambda x, y: np.vstack([x.array, x.array])[1, 0] + np.transpose(np.outer(x.array, y.array))[2, 1],
    "columns": lambda x, y: np.column_stack([y.array, 2 * y.array])[:, 1].sum(),
    "joined": lambda x, y: np.hstack([y.array, x.array, 1.0]).sum() + np.concatenate([x.array, y.array])[3],
    "shapes": lambda x, y: y.array.reshape(3, 1).sum() * x.a + np.reshape(y.array, (1, 3)).T.ravel()[0],
    "rows of all": lambda x, y: np.ravel(y.array).flatten()[1],
    "axes": lambda x, y: np.outer(y.array, x.array).sum(axis=0)[1] + np.outer(y.array, x.array).max(axis=-1)[0],
    "means of axes": lambda x, y: np.outer(x.array, y.array).mean(0).sum() + np.outer(x.array, y.array).mean(),
    "kept axes": lambda x, y: (
        np.square(y.array).sum(axis=-1, keepdims=True)[0] + (y.array / y.array.sum(keepdims=True))[0]
    ),
    "one number in a row": lambda x, y: np.atleast_1d(y.u) * np.squeeze(x.array[:1]) + np.atleast_1d(y.array)[:1],
    "how many": lambda x, y: np.size(y.array) * y.u + np.shape(y.array)[0] * y.v + np.ndim(y.array) * len(x.array),
    "elements": lambda x, y: y.array[1:] @ y.array[:2] + y.array[..., 0] + y.array[-1],
    "chosen elements": lambda x, y: y.array[np.array([0, 0, 2])].sum() + y.array[MASK].sum(),
    "elements of a table": lambda x, y: (t := np.outer(y.array, x.array))[0, 1] + t[1:, 0].sum(),
    "chosen of a table": lambda x, y: (
        (t := np.outer(y.array, x.array))[[0, 2], [1, 1]].sum() + t[np.eye(3, 2) > 0].sum()
    ),
    "running sums": lambda x, y: np.cumsum(y.array)[-2] + y.array.cumsum()[1] + np.diff(y.array)[0] ** 2,
    "integral": lambda x, y: np.trapezoid(y.array, [0, 1, 3]) + np.trapezoid(y.array**2, dx=0.5),
    "an array of symbols": lambda x, y: np.array([y.u, y.v]).sum() + np.exp(np.array([y.u, x.a])).sum(),
    "a table of symbols": lambda x, y: np.array([[y.u, y.v], [x.a, x.b]]).sum(0)[1] + (y.array[:2] * [x.a, 2.0]).sum(),
    "a list of symbols": lambda x, y: np.array([y.u, x.a, y.v]) @ y.array + np.sum([y.u, x.b]),
    "of x alone": lambda x, y: (x.array**2).sum() * np.exp(-x.a),
    "of x and of y": lambda x, y: (x.array**2).sum() * (y.array**2).sum() + (x.array + 1) @ [1.0, 2.0] * y.array.max(),
}
EVERY = ELEMENTARY | ARITHMETIC | VECTORS


@pytest.mark.parametrize("name", EVERY)
def test_a_traced_function_has_its_own_values_and_slopes(name: str) -> None:
    function = EVERY[name]
    with unchecked(), np.errstate(all="ignore"):
        made = trace(function, INDEX)
        value, back = made.traced(X, Y)
        np.testing.assert_allclose(np.broadcast_to(value, (5, 6)), alone(function, INDEX, X, Y), rtol=1e-11)
        weight = Stream(3).normal(*value.shape)
        for ours, theirs in zip(back(weight), differences(made, X, Y, weight), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-6)


def test_every_function_that_can_be_traced_is_tried_here(monkeypatch: pytest.MonkeyPatch) -> None:
    used = set()

    class Counting(dict[Any, Any]):
        def get(self, key: Any, default: Any = None) -> Any:
            used.add(key)
            return super().get(key, default)

    class Watched(Tracer):
        def __init__(self, writers: Any) -> None:
            super().__init__(Counting(writers))

    monkeypatch.setattr("pied.problem.trace.Tracer", Watched)
    with unchecked():
        for function in EVERY.values():
            trace(function, INDEX)
    assert not [getattr(each, "__name__", each) for each in {*WRITERS} - used - {"abs", "minus", "number"}]


UNTRACEABLE: dict[str, Function] = {
    "if": lambda x, y: y.u if y.u > 1 else 2 * y.v,
    "max": lambda x, y: max(y.u, y.v),
    "float": lambda x, y: float(y.u),
    "item": lambda x, y: y.u.item(),
    "an element by value": lambda x, y: y.array[np.argmax(y.array)],
    "elements by value": lambda x, y: y.array[y.array > 1].sum(),
    "an element set": lambda x, y: y.array.copy().__setitem__(0, 1.0),
    "no slopes": lambda x, y: special.gamma(y.u),
    "no function": lambda x, y: np.sort(y.array)[0],
    "an axis too many": lambda x, y: y.array[:, 0],
    "an axis that is not there": lambda x, y: y.array.sum(2),
    "an argument": lambda x, y: np.sum(y.array, where=MASK),
    "a table that changes": lambda x, y: np.interp(0.5, x.array, y.array[:2]),
    "a table that falls": lambda x, y: np.interp(y.u, [2, 1], [1, 2]),
    "shapes that do not fit": lambda x, y: (x.array + y.array).sum(),
    "another library": lambda x, y: y.u * Named(("a",), (1.0,)),
    "a complex number": lambda x, y: y.u + 1j,
    "whole numbers": lambda x, y: y.u.astype(int),
    "many numbers": lambda x, y: y.array,
    "no number": lambda x, y: None,
}


@pytest.mark.parametrize("name", UNTRACEABLE)
def test_what_needs_the_values_themselves_is_not_traced(name: str) -> None:
    with pytest.raises(Untraceable):
        trace(UNTRACEABLE[name], INDEX)


def test_a_comparison_is_no_function() -> None:
    with pytest.raises(WhiteBoxError, match="true or false"):
        trace(lambda x, y: y.u > x.a, INDEX)


def test_common_parts_are_written_once_and_what_is_not_used_is_left_out() -> None:
    def twice(x: Any, y: Any) -> Any:
        np.sin(y.w)
        return np.exp(x.a * y.u) + np.exp(x.a * y.u) ** 2

    kinds = [step.kind for step in trace(twice, INDEX).steps]
    assert (kinds.count("exp"), kinds.count("sin"), kinds.count("y")) == (1, 0, 1)


def test_a_part_of_the_outputs_is_loaded_as_such() -> None:
    made = trace(lambda x, y: y.array[1:].sum(), INDEX)
    assert [(step.kind, step.value) for step in made.steps] == [("y", [1, 2]), ("total", -1)]
    assert made.width == 2


def test_equal_elements_share_the_slope() -> None:
    made = trace(lambda x, y: np.minimum(y.u, y.v) + y.array.max(), INDEX)
    value, back = made.traced(X[:1], np.ones((1, 1, 3)))
    np.testing.assert_allclose(back(np.ones(value.shape))[1].ravel(), [0.5 + 1 / 3, 0.5 + 1 / 3, 1 / 3])


indices = st.one_of(
    st.integers(-4, 3),
    st.slices(4),
    st.lists(st.integers(-4, 3), min_size=1, max_size=5),
    st.lists(st.booleans(), min_size=4, max_size=4).map(np.array),
    st.tuples(st.integers(0, 3), st.integers(0, 1)),
    st.tuples(st.slices(4), st.integers(0, 1)),
    st.tuples(st.lists(st.integers(0, 3), min_size=2, max_size=2), st.lists(st.integers(0, 1), min_size=2, max_size=2)),
    st.tuples(st.just(None), st.slices(4)),
    st.tuples(st.just(Ellipsis), st.integers(0, 1)),
    st.tuples(st.slices(4), st.just(None), st.lists(st.integers(0, 1), min_size=1, max_size=3)),
)


@settings(max_examples=60, deadline=None)
@given(indices)
def test_an_index_of_a_table_takes_what_numpy_takes(index: Any) -> None:
    numbers = np.arange(8.0)
    with unchecked():
        tracer = Tracer(numpy_functions.WRITERS)
        taken = tracer.columns("x", 8).reshape(4, 2)[index]
        expected = numbers.reshape(4, 2)[index]
        assert np.shape(taken) == expected.shape
        if expected.size:
            made = tracer.program((taken * np.arange(1.0, 1 + expected.size).reshape(expected.shape)).sum())
            weights = np.arange(1.0, 1 + expected.size)
            value = made.values(np.stack([numbers, 2 * numbers]), np.zeros((1, 2, 1)))
            np.testing.assert_allclose(value, np.array([1.0, 2.0]) * (weights @ expected.ravel()))
