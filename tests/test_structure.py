"""The structure of white-box functions is found, not flagged: white, affine, monotone in one output, general."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pied import Problem, Variable
from pied.problem import structure
from pied.problem.structure import Structure
from tiny import unchecked

BOX = {"a": (0.5, 2.0), "b": (-1.0, 1.0)}
OUTPUTS = ["u", "v", "w"]


def found(function: Any, *, outputs: list[str] = OUTPUTS, **words: Any) -> Structure:
    with unchecked():
        return Problem(words.pop("variables", BOX), outputs, maximize=function, **words).structure[0]


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: x.a,
        lambda x, y: 2 * x.a * x.b - 1,
        lambda x, y: x.a + 0.0 * y.u,
        lambda x, y: np.exp(x.a) + (y.u - y.u),
        lambda x, y: np.zeros_like(x.a),
        lambda x, y: 3.0,
        lambda x, y: math.exp(x.a),
        lambda x, y: 1 if x.a > 1 else 2,
        "a^2 + b",
    ],
)
def test_functions_that_do_not_follow_the_outputs_are_white(function: Any) -> None:
    assert found(function) == Structure("white", ())


def test_white_functions_return_one_number_per_point() -> None:
    problem = Problem(BOX, OUTPUTS, maximize=lambda x, y: x.a + 0.0 * y.u, subject_to=["a <= b", "a <= u"])
    X, Y = np.full((5, 2), 0.7), np.full((4, 5, 3), 0.4)
    assert [tuple(value.shape) for value in problem.g(X, Y)] == [(5,), (5,), (4, 5)]


@pytest.mark.parametrize("size", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize(
    ("function", "used"),
    [
        (lambda s: lambda x, y: s * y.u, (0,)),
        (lambda s: lambda x, y: 0.12 - s * y.v, (1,)),
        (lambda s: lambda x, y: s * (3.0 * y.u - 2.0 * y.w) * np.exp(x.a) + x.b**3, (0, 2)),
        (lambda s: lambda x, y: s * y.array.sum(-1) / x.a - 1.0, (0, 1, 2)),
        (lambda s: lambda x, y: np.where(x.b > 0, y.u, 2.0 * y.u) * s, (0,)),
        (lambda s: lambda x, y: s * (y.u + 1e6) - 3 * s * (y.v - 1e-6), (0, 1)),
        (lambda s: lambda x, y: (y.u * x.a + y.v * x.a) / x.a / s, (0, 1)),
        (lambda s: lambda x, y: s + y.u - s, (0,)),
    ],
)
def test_affine_functions_are_recognized_in_spite_of_rounding(function: Callable, used: tuple, size: float) -> None:
    assert found(function(size)) == Structure("affine", used)


def test_the_objective_of_the_reactor_is_affine() -> None:
    formula = "(1043.38*u + 20.92*v)*(1.8275 + a) - 79.23*1.8275 - 118.34*a"
    assert found(formula) == Structure("affine", (0, 1))


@pytest.mark.parametrize("size", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize(
    "bent",
    [
        lambda u, v: u**2,
        lambda u, v: (u - 1) ** 2 + v,
        lambda u, v: np.abs(u),
        lambda u, v: np.abs(u - 1),
        lambda u, v: np.clip(u, -1, 1),
        lambda u, v: np.clip(u, 1, None),
        lambda u, v: np.maximum(u - 1, 0) + 100 * v,
        lambda u, v: 1 / u,
        lambda u, v: 1 / (u + 2.5) + v,
        lambda u, v: np.minimum(u, v),
        lambda u, v: np.maximum(u, 1 + v),
        lambda u, v: u * v,
        lambda u, v: u / v,
        lambda u, v: np.sin(u),
        lambda u, v: np.floor(u),
        lambda u, v: u + 0.1 * np.floor(u),
        lambda u, v: u + 1e-4 * u**2,
        lambda u, v: np.logaddexp(u, v),
        lambda u, v: np.where(u > 1, u, 2 * u),
        lambda u, v: np.sqrt(u**2 + v**2),
    ],
)
def test_bent_functions_are_refuted_at_every_scale(bent: Callable, size: float) -> None:
    assert found(lambda x, y: bent(y.u / size, y.v / size)).kind in ("monotone", "general")


@pytest.mark.parametrize("kink", [1e-5, 1e-2, 7.0, 1e4, 1e8])
@pytest.mark.parametrize("side", [-1, 1])
def test_kinks_far_from_zero_are_found(kink: float, side: int) -> None:
    assert found(lambda x, y: np.maximum(y.u, side * kink)) == Structure("monotone", (0,))
    assert found(f"abs(u - ({side * kink}))") == Structure("general", (0,))


@pytest.mark.parametrize("part", [1e-4, 0.5, 1 - 1e-4])
def test_kinks_inside_a_range_are_found(part: float) -> None:
    found_one = found(f"max(u, {3e-6 + part * 1e-6})", ranges={"u": (3e-6, 4e-6)})
    assert found_one == Structure("monotone", (0,))


@pytest.mark.parametrize(
    ("text", "ranges"),
    [
        ("exp(u)", None),
        ("b*exp(u)", None),
        ("u^3 + a", None),
        ("tanh(u) - a", None),
        ("max(u, 3)", None),
        ("log(u)", {"u": (0, None)}),
        ("1/u", {"u": (0, None)}),
        ("u^2", {"u": (0, 10)}),
        ("-(u - 5)^2", {"u": (None, 5)}),
        ("sqrt(u)", {"u": (0, 1e-6)}),
        ("1/(u - 2)", {"u": (2, 1e6)}),
    ],
)
def test_one_output_in_one_direction_is_monotone(text: str, ranges: Any) -> None:
    assert found(text, ranges=ranges) == Structure("monotone", (0,))


@pytest.mark.parametrize(
    ("text", "ranges"),
    [
        ("u^2", None),
        ("1/u", None),
        ("(u - 5)^2", {"u": (0, 10)}),
        ("u + 2*sin(u)", None),
        ("log(u)", None),
        ("exp(u + v)", None),
        ("u^3 - 3*u", {"u": (-3, 3)}),
        ("abs(u)", {"u": (-1e-6, 1)}),
    ],
)
def test_what_turns_or_uses_two_outputs_is_general(text: str, ranges: Any) -> None:
    assert found(text, ranges=ranges).kind == "general"


def test_functions_valid_only_inside_the_ranges_are_accepted_without_warning(caplog: pytest.LogCaptureFixture) -> None:
    ranges = {"u": (0, None), "v": (0, 1), "w": (None, -1)}
    assert found("log(u) + log(v*(1 - v)) + sqrt(-1 - w)", ranges=ranges) == Structure("general", (0, 1, 2))
    assert not caplog.records


def test_a_function_that_is_never_a_number_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    assert found("log(-1 - u^2)") == Structure("general", (0, 1, 2))
    assert "ranges= of the outputs" in caplog.text


def test_points_where_x_leaves_the_domain_say_nothing_about_the_outputs() -> None:
    assert found("u + sqrt(b)") == Structure("affine", (0,))


@pytest.mark.parametrize("width", [1e-6, 1.0, 1e6])
def test_the_scale_of_x_does_not_matter(width: float) -> None:
    variables = {"a": (width, 2 * width), "b": Variable(1e-3 * width, width, log=True)}
    assert found("a*u - b*v/a + b", variables=variables) == Structure("affine", (0, 1))
    assert found("a*u^2 - b*v", variables=variables) == Structure("general", (0, 1))


CALLED: dict[str, tuple[Callable, str, tuple[int, ...]]] = {
    "x": (lambda x, y: x.a**2, "white", ()),
    "product with x": (lambda x, y: y.u * x.a - 3.0, "affine", (0,)),
    "all outputs": (lambda x, y: y.array @ np.array([1.0, 2.0, 3.0]) / x.a, "affine", (0, 1, 2)),
    "exp": (lambda x, y: -math.exp(min(y.v, 50.0)), "monotone", (1,)),
    "cube": (lambda x, y: y.u**3 + x.a, "monotone", (0,)),
    "max": (lambda x, y: max(y.u, 3.0), "monotone", (0,)),
    "wave on a line": (lambda x, y: y.u + 2 * math.sin(y.u), "general", (0,)),
    "square": (lambda x, y: (y.u - 1) ** 2, "general", (0,)),
    "min": (lambda x, y: min(y.u, y.v), "general", (0, 1)),
    "ratio": (lambda x, y: y.u / y.w, "general", (0, 2)),
    "if": (lambda x, y: y.u if y.v > x.b else 2 * y.u, "general", (0, 1)),
}


@pytest.mark.parametrize("slow", [False, True])
@pytest.mark.parametrize("name", CALLED)
def test_functions_that_are_called_have_the_same_structure(
    name: str, slow: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    function, kind, used = CALLED[name]
    monkeypatch.setattr(structure, "SECONDS_TRIED", 0.0 if slow else 0.1)  # a slow one is tried at fewer points
    with unchecked():
        problem = Problem(BOX, OUTPUTS, maximize=lambda x, y: function(x, y) + 0.0 * float(x.a))
    assert problem.ways["objective"].startswith("called point by point")
    assert problem.structure[0] == Structure(kind, used)


def test_a_called_function_is_called_few_times() -> None:
    calls = []

    def slow(x: Any, y: Any) -> float:
        calls.append(1)
        return float(y["c[7]"]) ** 2 + float(y["c[40]"]) * x.a

    with unchecked():
        problem = Problem({"a": (0, 1)}, [f"c[{i}]" for i in range(1, 101)], maximize=slow)
    assert problem.structure[0].outputs == (6, 39)
    assert len(calls) < 30 * structure.PROBES_OF_CALLS[1] * structure.POINTS_OF_CALLS


def test_structure_is_the_same_every_time() -> None:
    first, second = (found("a*u + max(v, w)") for _ in range(2))
    assert first == second == Structure("general", (0, 1, 2))


@settings(max_examples=20, deadline=None)
@given(
    st.lists(st.floats(-1e6, 1e6).filter(lambda c: c == 0 or abs(c) > 1e-6), min_size=3, max_size=3),
    st.floats(-1e6, 1e6),
)
def test_random_affine_functions_are_affine_and_random_products_are_not(slopes: list[float], offset: float) -> None:
    used = tuple(place for place, slope in enumerate(slopes) if slope != 0)
    weights = np.array(slopes)
    expected = Structure("affine", used) if used else Structure("white", ())
    assert found(lambda x, y: y.array @ weights + offset * x.a) == expected
    if slopes[0] != 0:
        assert found(lambda x, y: y.array @ weights + offset * x.a + slopes[0] * y.u * y.v).kind == "general"
