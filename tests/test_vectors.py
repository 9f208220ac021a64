"""Vectors of outputs in formulas: c[1], c[2], ... are c; lengths are compared; random trees equal lists of numbers."""

import contextlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pied import FormulaError, Named
from pied.problem.formula import Formula, Scope
from pied.problem.named import groups

VECTORS = Scope(("a", "b"), ("u", "c[1]", "c[2]", "c[3]"), {"k": 2.5, "observed": (1.0, 2.0, 3.0), "pair": (1.0, 2.0)})
PIECES = [
    *("a", "b", "u", "c", "c[1]", "c[4]", "k", "observed", "pair", "pi", "outputs", "1", "2.5", "1e9", ".5", "9" * 50),
    *("+", "-", "*", "/", "^", "**", "(", ")", ",", "<=", ">=", "<", "=", "==", "`", "[", "]", " ", ".", "\x00", "\n"),
    *("exp(", "log(", "sqrt(", "min(", "max(", "sum(", "mean(", "abs(", "tan(", "tanh(", "sin(", "cos(", "log10("),
    *("≤", "−", "×", "η", "`c(1,10)`", "__import__", "lambda", "\u202e"),
]
OPERATIONS = [
    ("+", lambda a, b: a + b),
    ("-", lambda a, b: a - b),
    ("*0.3*", lambda a, b: a * 0.3 * b),
    ("/ 2 -", lambda a, b: a / 2 - b),
]


def vector_views() -> tuple[Named, Named]:
    """Return x of shape 3 2 and y of shape 2 3 4."""
    X = np.linspace(0.3, 1.7, 6).reshape(3, 2)
    Y = np.linspace(0.2, 2.9, 24).reshape(2, 3, 4)
    return Named(VECTORS.variables, X), Named(VECTORS.outputs, Y)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=30).map("".join))
def test_random_pieces_of_formulas_raise_nothing_but_formula_errors(text: str) -> None:
    for read in (lambda: Formula(text, VECTORS)(*vector_views()), lambda: Formula.constraints(text, VECTORS)):
        with contextlib.suppress(FormulaError):
            read()


# ---------------------------------------------------------------------------------------------------------- vectors


def test_outputs_with_places_are_a_vector_of_their_own_name() -> None:
    x, y = vector_views()
    expected = (((y.array[..., 1:4] - np.array([1.0, 2.0, 3.0])) ** 2).sum(-1)) * x.a
    formula = Formula("a * sum((c - observed)^2)", VECTORS)
    assert np.allclose(formula(x, y), expected, rtol=1e-12)
    assert formula.names == ("a", "c[1]", "c[2]", "c[3]", "observed")


def test_one_place_of_a_vector_has_its_own_name() -> None:
    x, y = vector_views()
    assert np.array_equal(Formula("c[2] + 0*a", VECTORS)(x, y), y.array[..., 2])
    assert Formula("c[2]", VECTORS).names == ("c[2]",)


def test_a_vector_ends_where_a_place_is_missing_and_starts_at_one() -> None:
    assert groups(["c[1]", "c[2]", "c[4]", "d[2]", "[1]", "e"]) == {"c": [0, 1]}
    assert groups(["c[2]", "c[1]"]) == {"c": [1, 0]}


def test_an_output_of_the_same_name_wins_over_the_vector() -> None:
    scope = Scope((), ("c", "c[1]"), {})
    y = Named(scope.outputs, np.array([[[5.0, 7.0]]]))
    assert Formula("c", scope)(Named((), np.zeros((1, 0))), y).item() == 5.0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sum((c - pair)^2)", r"lengths 2 and 3 do not fit \('c' has 3, 'pair' has 2\)"),
        ("sum(outputs - c)", r"lengths 3 and 4 do not fit \('outputs' has 4, 'c' has 3\)"),
        ("c", r"gives 3 numbers for one point: reduce it with sum"),
        ("c[4]", r"no 'c\[4\]'\. Did you mean 'c\["),
        ("c[0] + a", r"no 'c\[0\]'"),
        ("c(1)", "no function 'c'"),
        ("cc + a", r"no 'cc'\. Did you mean 'c'"),
    ],
)
def test_vectors_that_do_not_fit_are_refused_with_their_lengths(text: str, message: str) -> None:
    with pytest.raises(FormulaError, match=message):
        Formula(text, VECTORS)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_random_trees_of_vectors_equal_lists_of_pythons_numbers(data: st.DataObject) -> None:
    values = {"c": [0.4, 2.1, 0.9], "observed": [1.0, 2.0, 3.0], "a": 0.7, "k": 2.5, "u": 0.3}
    text, expected = data.draw(trees(values, depth=4, is_vector=False))
    x = Named(VECTORS.variables, np.array([[0.7, 1.3]]))
    y = Named(VECTORS.outputs, np.array([[[0.3, 0.4, 2.1, 0.9]]]))
    assert Formula(f"u*0 + {text}", VECTORS)(x, y).item() == pytest.approx(expected, rel=1e-9, abs=1e-9)


@st.composite
def trees(draw: st.DrawFn, values: dict[str, Any], *, depth: int, is_vector: bool) -> tuple[str, Any]:
    """Draw a formula and what it is worth: a number, or a list of numbers, computed by hand."""
    if depth == 0:
        name = draw(st.sampled_from([name for name, value in values.items() if isinstance(value, list) == is_vector]))
        return name, values[name]

    def inner(vector: bool) -> tuple[str, Any]:
        return draw(trees(values, depth=depth - 1, is_vector=vector))

    if not is_vector and draw(st.booleans()):
        text, parts = inner(True)
        name = draw(st.sampled_from(["sum", "mean", "min", "max"]))
        worth = {"sum": sum(parts), "mean": sum(parts) / len(parts), "min": min(parts), "max": max(parts)}
        return f"{name}({text})", worth[name]
    sign, apply = draw(st.sampled_from(OPERATIONS))
    first, second = inner(is_vector), inner(is_vector and draw(st.booleans()))
    text = f"({first[0]} {sign} {second[0]})"
    if not is_vector:
        return text, apply(first[1], second[1])
    others = second[1] if isinstance(second[1], list) else [second[1]] * len(first[1])
    return text, [apply(a, b) for a, b in zip(first[1], others, strict=True)]
