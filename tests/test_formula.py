"""Formulas: text to a function of (x, y), with nothing of Python inside."""

import contextlib
import math
import pickle
import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy import ndarray

from pied import FormulaError, Named
from pied.problem.formula import Formula, Scope
from pied.problem.parser import MOST_CHARACTERS, MOST_LEVELS
from pied.problem.trace import trace
from tiny import unchecked

SCOPE = Scope(("a", "b"), ("u", "v", "w"), {"k": 2.5, "data": (1.0, 2.0, 3.0), "pair": (1.0, 2.0)})


def views(b: int = 3, L: int = 2) -> tuple[Named, Named]:
    """Return x of shape b 2 and y of shape L b 3, all numbers different and positive."""
    X = np.linspace(0.3, 1.7, b * 2).reshape(b, 2)
    Y = np.linspace(0.2, 2.9, L * b * 3).reshape(L, b, 3)
    return Named(SCOPE.variables, X), Named(SCOPE.outputs, Y)


def value(text: str, *, scope: Scope = SCOPE) -> ndarray:
    return Formula(text, scope)(*views())


def constant(text: str) -> float:
    """Evaluate a formula of numbers, by adding it to a variable that is 0."""
    formula = Formula(f"a*0 + ({text})", SCOPE)
    return float(formula(*views(1, 1)).item())


# ---------------------------------------------------------------------------------------------------------- reading


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 + 2 * 3", 7.0),
        ("(1 + 2) * 3", 9.0),
        ("10 - 4 - 3", 3.0),
        ("24 / 4 / 3", 2.0),
        ("24 / 4 * 3", 18.0),
        ("2 ^ 3 ^ 2", 512.0),
        ("2 ** 3 ** 2", 512.0),
        ("-2 ^ 2", -4.0),
        ("(-2) ^ 2", 4.0),
        ("2 ^ -1", 0.5),
        ("2 * -3", -6.0),
        ("- - 2", 2.0),
        ("+2", 2.0),
        ("ln(e^2)", 2.0),
        ("2 * pi", 2.0 * math.pi),
        ("sign(-3) + floor(2.7) + ceil(2.1)", 4.0),
        ("sum(1, 2, 6) + mean(1, 2, 6)", 12.0),
        ("where(1 < 2, 3, 4)", 3.0),
        ("where(2 < 2, 3, 4)", 4.0),
        ("where(2 <= 2, 3, 4)", 3.0),
        ("where(2 = 2, 3, 4) + where(2 == 2, 3, 4)", 6.0),
        ("where(2 != 2, 3, 4)", 4.0),
        ("where(1 + 1 > 2, 3, where(5 >= 5, 6, 7)) * 2", 12.0),
        ("1e-3", 0.001),
        (".5 + 1. + 2E2", 201.5),
        ("exp(1)", math.e),
        ("log(exp(2))", 2.0),
        ("log10(1000)", 3.0),
        ("sqrt(16)", 4.0),
        ("abs(-3)", 3.0),
        ("sin(pi/6) + cos(0) + tan(pi/4) + tanh(0)", 2.5),
        ("min(3, 1, 2) + max(3, 1, 2)", 4.0),
        ("sum(1, 2, 3) + mean(1, 2, 6)", 9.0),
        ("sum(data) + mean(data) + max(data) + min(data)", 12.0),
        ("k", 2.5),
        ("sum((data - 1)^2)", 5.0),
        ("−2 · 3 × 2", -12.0),
    ],
)
def test_arithmetic_follows_the_usual_rules(text: str, expected: float) -> None:
    assert constant(text) == pytest.approx(expected, rel=1e-12)


def test_formula_equals_the_same_function_written_in_numpy() -> None:
    x, y = views()
    expected = (1043.38 * y.u + 20.92 * y.v) * (2.5 + x.a) - x.b**2 / y.w + np.exp(-x.a * y.u)
    assert np.allclose(value("(1043.38*u + 20.92*v)*(k + a) - b^2/w + exp(-a*u)"), expected, rtol=1e-12)


def test_formula_without_outputs_has_one_number_per_point() -> None:
    assert value("a + 2*b").shape == (3,)
    assert value("a + u").shape == (2, 3)


def test_outputs_is_the_vector_of_all_outputs() -> None:
    x, y = views()
    expected = ((y.array - np.array([1.0, 2.0, 3.0])) ** 2).sum(-1)
    assert np.allclose(value("sum((outputs - data)^2)"), expected, rtol=1e-12)
    assert np.allclose(value("a * mean(outputs) + max(outputs)"), x.a * y.array.mean(-1) + y.array.max(-1))


def test_a_number_per_point_meets_a_vector_on_its_own_axis() -> None:
    x, y = views(b=3)  # b equals m: a wrong axis would not show as a wrong shape
    expected = np.abs(x.a[None, :, None] * y.array - y.u[..., None]).sum(-1)
    assert np.allclose(value("sum(abs(a*outputs - u))"), expected)
    assert np.allclose(value("sum(min(outputs, a))"), np.minimum(y.array, x.a[:, None]).sum(-1))
    assert np.allclose(value("sum(outputs^a)"), (y.array ** x.a[:, None]).sum(-1))


def test_names_resolve_to_variables_outputs_and_constants() -> None:
    assert Formula("k*a + u - u", SCOPE).names == ("k", "a", "u")
    assert Formula("sum(outputs)", SCOPE).names == ("u", "v", "w")


def test_odd_names_stand_in_backticks() -> None:
    scope = Scope(("η", "µ", "flow rate"), ("c(1,10)",), {"温度": 3.0})
    x = Named(scope.variables, np.array([[1.0, 2.0, 4.0]]))
    y = Named(scope.outputs, np.array([[[8.0]]]))
    formula = Formula("`c(1,10)` + η + μ + `flow rate` + 温度", scope)  # the Greek letter finds the micro sign
    assert formula(x, y).item() == 18.0


def test_the_users_names_win_over_built_in_ones() -> None:
    scope = Scope(("pi",), ("outputs", "exp"), {})
    x = Named(scope.variables, np.array([[1.0]]))
    y = Named(scope.outputs, np.array([[[10.0, 100.0]]]))
    assert Formula("pi + outputs + exp", scope)(x, y).item() == 111.0


def test_comparisons_give_the_slack() -> None:
    x, y = views()
    (upper,) = Formula.constraints("u <= 0.5*a", SCOPE)
    (lower,) = Formula.constraints("u ≥ 0.5*a", SCOPE)
    (strict,) = Formula.constraints("u < 0.5*a", SCOPE)
    assert np.allclose(upper(x, y), 0.5 * x.a - y.u)
    assert np.array_equal(lower(x, y), -upper(x, y))
    assert np.array_equal(strict(x, y), upper(x, y))


@pytest.mark.parametrize("text", ["0.1 <= u <= a", "a >= u >= 0.1"])
def test_a_chain_gives_one_slack_for_each_comparison(text: str) -> None:
    x, y = views()
    slacks = {tuple(part(x, y).reshape(-1).tolist()) for part in Formula.constraints(text, SCOPE)}
    assert slacks == {tuple((y.u - 0.1).reshape(-1).tolist()), tuple((x.a - y.u).reshape(-1).tolist())}


def test_formulas_survive_pickling() -> None:
    formula = pickle.loads(pickle.dumps(Formula.constraints("0 <= u + a <= 1", SCOPE)[1]))
    assert np.array_equal(formula(*views()), Formula.constraints("u + a <= 1", SCOPE)[0](*views()))
    assert formula.text == "0 <= u + a <= 1"


# ---------------------------------------------------------------------------------------------------------- refusing


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("  ", "is empty"),
        ("a + temprature", r"no 'temprature'"),
        ("uu + a", r"Did you mean 'u'\?"),
        ("sqr(a)", r"no function 'sqr'\. Did you mean 'sqrt'\?"),
        ("a(2)", "no function 'a'"),
        ("a == u", "must not compare"),
        ("a = u", "must not compare"),
        ("a != u", "not expected"),
        ("(a <= u) * 2", "only stand at the top"),
        ("exp(a <= u)", "only stand at the top"),
        ("where(a, 1, 2)", "begins with a comparison"),
        ("where(a > 1, 2)", "a comparison and two values.*got 2"),
        ("where(a > 1, u <= 2, 3)", "only stand at the top of a formula and first in where"),
        ("where(0 < a < 1, 2, 3)", "has one comparison"),
        ("where((a > 1), 2, 3)", "only stand at the top"),
        (
            "gamma(a)",
            "Known: abs, ceil, cos, exp, floor, ln, log, log10, max, mean, min, sign, sin, sqrt, sum, tan, tanh, ",
        ),
        ("a +", "missing here"),
        ("a + * u", "expected here"),
        ("a u", "operator is missing"),
        ("2a", "operator is missing"),
        ("(a", "never closed"),
        ("a)", "not expected"),
        ("exp(a", "never closed"),
        ("exp a", "operator is missing"),
        ("exp()", "expected here"),
        ("exp(a, u)", "takes one value, got 2"),
        ("exp", "no 'exp'"),
        ("min(a)", "several values or a vector"),
        ("sum(a)", "several values or a vector"),
        ("`c(1", "backtick is never closed"),
        ("`nothing`", "no 'nothing'"),
        ("outputs", r"gives 3 numbers for one point: reduce it with sum"),
        ("sum(outputs - pair)", "lengths 2 and 3 do not fit"),
        ("2 + k", "nothing to decide"),
        ("1/0 + a", "not a finite real number"),
        ("log(0) + a", "not a finite real number"),
        ("(-8)^0.5 + a", "not a finite real number"),
        ("1e999 + a", "too large"),
        ("a <= u", "must not compare: leave out '<='"),
        ("a,u", "not expected"),
    ],
)
def test_mistakes_are_refused_with_their_reason(text: str, message: str) -> None:
    with pytest.raises(FormulaError, match=message):
        Formula(text, SCOPE)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a + u", r"needs a comparison, for instance 'a \+ u >= 0'"),
        ("a <= u >= b", "one direction"),
        ("a <= outputs", "3 numbers for one point: compare one number"),
        ("1 <= 2", "nothing to decide"),
        ("a <=", "missing here"),
        ("a <= u == b", "An equality stands alone"),
        ("0 <= a <= foo", "no 'foo'"),
    ],
)
def test_constraints_are_refused_with_their_reason(text: str, message: str) -> None:
    with pytest.raises(FormulaError, match=message):
        Formula.constraints(text, SCOPE)


def test_the_place_of_a_mistake_is_shown() -> None:
    with pytest.raises(FormulaError, match=r"\(character 5\)\n    a \+ foo\n        \^"):
        Formula("a + foo", SCOPE)


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os')",
        "__import__(os)",
        "a.__class__",
        "().__class__.__bases__",
        "lambda: a",
        "(lambda x: x)(a)",
        "[a for a in b]",
        "{a: u}",
        "a if u else b",
        "a and b",
        "not a",
        "a := 3",
        "f'{a}'",
        '"a"',
        "a; u",
        "a[0]",
        "a @ u",
        "a % u",
        "a // u",
        "eval(a)",
        "exec(a)",
        "open(a)",
        "print(a)",
        "getattr(a, u)",
        "exp(*a)",
        "exp(x=a)",
        "a\\u",
        "a\x00",
        "1_000 + a",
        "0x10 + a",
        "٣ + a",
        "1j + a",
        "None",
        "True",
        "x.a",
        "#a",
        "$a",
        "a.__init__.__globals__",
        "`__class__`",
        "__builtins__",
        "globals()",
        "a.u",
        "a[u]",
        "a[0][1]",
        "a['u']",
        "a if 1 else u",
        "yield a",
        "await a",
        "import os",
        "a\nimport os",
        "exp(a)(u)",
        "exp.__call__(a)",
        "ａ.__class__",  # full-width letters
        "𝐞𝐱𝐞𝐜(a)",
        "a\u202e",
        "a\u200b + u",
        "a\x1b[2J",
        "a + \ud800",
        "%s" * 10 + "a",
        "{a}",
        "a\x00; DROP TABLE trials",
    ],
)
def test_nothing_of_python_is_read(text: str) -> None:
    with pytest.raises(FormulaError, match=r"\w"):
        Formula(text, SCOPE)


@pytest.mark.parametrize(
    "text",
    [
        "(" * 5000 + "a" + ")" * 4999,
        "(" * 200 + "a" + ")" * 200,
        "-" * 5000 + "a",
        "a" + "^a" * 4000,
        "exp(" * 2000 + "a" + ")" * 1999,
        "9" * 1_000_000,
        "9" * 9_999,
        "9**9**9**9 + a",
        "9^9^9^9^9^9^9^9^9 * a",
        "a" * 20_000,
        "`" + "a" * 9_000,
        "a^" * 4000 + "a",
        "min(" * 3000 + "a",
        "1e308*10 + a",
        "2^2^2^2^2^2^2 * a",
        "exp(exp(exp(exp(9)))) + a",
        "a[" + "9" * 9_000 + "]",
    ],
)
def test_attacks_are_refused_at_once(text: str) -> None:
    start = time.process_time()
    with pytest.raises(FormulaError, match=r"nested deeper|at most 10000|too large|finite|no '|never closed") as caught:
        Formula(text, SCOPE)
    assert time.process_time() - start < 1.0
    assert len(str(caught.value)) < 12_000


@pytest.mark.slow
def test_long_sums_and_products_are_not_deep() -> None:
    x, y = views()
    terms = (MOST_CHARACTERS - 1) // 2
    with unchecked():
        assert np.allclose(value("+".join(["u"] * terms)), y.u * terms)
        assert np.allclose(value("a*1" + "*1" * 4000), x.a)


def test_nesting_up_to_the_limit_is_read_and_evaluated() -> None:
    levels = MOST_LEVELS - 2
    assert np.allclose(value("(" * levels + "u" + ")" * levels), views()[1].u)
    assert np.isfinite(value("tanh(" * levels + "u" + ")" * levels)).all()


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=40) | st.text(alphabet="abuvk0123.e+-*/^()<>=`, expmin", max_size=40))
def test_random_text_raises_nothing_but_formula_errors(text: str) -> None:
    for read in (lambda: Formula(text, SCOPE)(*views()), lambda: Formula.constraints(text, SCOPE)):
        with contextlib.suppress(FormulaError):
            read()


# ---------------------------------------------------------------------------------------------------- against oracles

POINT = {"a": 0.7, "b": 1.3, "u": 0.4, "v": 2.1, "w": 0.9, "k": 2.5}
ONE_ARGUMENT = {"sin": math.sin, "cos": math.cos, "tanh": math.tanh, "abs": abs}


def leaves() -> Any:
    numbers = st.floats(0.1, 9.0).map(lambda each: (repr(each), each))
    return numbers | st.sampled_from(list(POINT.items()))


def grown(inner: Any) -> Any:
    """Grow pairs (text, value): the text goes to our reader, the value is computed by Python."""
    two = st.tuples(inner, inner)
    return st.one_of(
        two.map(lambda p: (f"{p[0][0]} + ({p[1][0]})", p[0][1] + p[1][1])),
        two.map(lambda p: (f"({p[0][0]}) - ({p[1][0]})", p[0][1] - p[1][1])),
        two.map(lambda p: (f"({p[0][0]})*tanh({p[1][0]})", p[0][1] * math.tanh(p[1][1]))),
        two.map(lambda p: (f"({p[0][0]}) / (1 + ({p[1][0]})^2)", p[0][1] / (1 + p[1][1] ** 2))),
        two.map(lambda p: (f"min({p[0][0]}, {p[1][0]})", min(p[0][1], p[1][1]))),
        two.map(lambda p: (f"max({p[0][0]}, {p[1][0]}, 0.5)", max(p[0][1], p[1][1], 0.5))),
        inner.map(lambda p: (f"-(({p[0]})/9)**2", -((p[1] / 9) ** 2))),
        inner.map(lambda p: (f"sqrt(1 + abs({p[0]}))", math.sqrt(1 + abs(p[1])))),
        inner.map(lambda p: (f"log(1 + ({p[0]})^2)", math.log(1 + p[1] ** 2))),
        inner.map(lambda p: (f"exp(tanh({p[0]}))", math.exp(math.tanh(p[1])))),
        st.tuples(st.sampled_from(sorted(ONE_ARGUMENT)), inner).map(
            lambda p: (f"{p[0]}({p[1][0]})", ONE_ARGUMENT[p[0]](p[1][1]))
        ),
    )


@pytest.mark.slow
@settings(max_examples=50, deadline=None)
@given(st.recursive(leaves(), grown, max_leaves=12))
def test_random_formulas_equal_pythons_own_arithmetic(pair: tuple[str, float]) -> None:
    text, expected = pair
    x = Named(SCOPE.variables, np.array([[POINT["a"], POINT["b"]]]))
    y = Named(SCOPE.outputs, np.array([[[POINT["u"], POINT["v"], POINT["w"]]]]))
    with unchecked():
        got = Formula(f"u*0 + ({text})", SCOPE)(x, y).item()  # the output makes a formula of any text
    # squares and sines of numbers up to a few hundred, nested, amplify rounding
    assert got == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_squares_have_a_slope_at_zero() -> None:
    value, back = Formula("u^2 + u + sum(outputs^2)", SCOPE).program.traced(views(1)[0].array, np.zeros((1, 1, 3)))
    _, by_Y = back(np.ones(value.shape))
    assert by_Y.ravel().tolist() == [1.0, 0.0, 0.0]


def test_one_point_and_a_traced_function_take_formulas_too() -> None:
    formula, (x, y) = Formula("a*u + mean(outputs)", SCOPE), views()
    one = formula(Named(SCOPE.variables, x.array[1]), Named(SCOPE.outputs, y.array[1, 1]))
    assert one == pytest.approx(formula(x, y)[1, 1], rel=1e-12)
    index = tuple({name: place for place, name in enumerate(names)} for names in (SCOPE.variables, SCOPE.outputs))
    made = trace(lambda x, y: 2 * formula(x, y) + x.b, index)  # type: ignore[arg-type]
    np.testing.assert_allclose(made.values(x.array, y.array), 2 * formula(x, y) + x.b, rtol=1e-12)


# -------------------------------------------------------------------------------------------------------------- where


def test_where_chooses_by_point_and_sample_and_has_the_slopes_of_the_branch_taken() -> None:
    x, y = views()
    formula = Formula("where(u > 1, sqrt(u - 1), a*u)", SCOPE)
    u, a = y.u, np.broadcast_to(x.a, y.u.shape)
    with np.errstate(invalid="ignore"):
        expected = np.where(u > 1, np.sqrt(u - 1), a * u)
        by_u = np.where(u > 1, 0.5 / np.sqrt(u - 1), a)
    assert (u > 1).any()
    assert (u <= 1).any()
    found, back = formula.program.traced(x.array, y.array)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    by_x, by_Y = back(np.ones_like(found))
    np.testing.assert_allclose(by_Y[..., 0], by_u, rtol=1e-12)
    np.testing.assert_allclose(by_x[:, 0], np.where(u > 1, 0.0, u).sum(0), rtol=1e-12)


def test_where_works_on_vectors() -> None:
    y = views()[1]
    np.testing.assert_allclose(value("sum(where(outputs > 1, outputs, 0))"), np.where(y.array > 1, y.array, 0).sum(-1))
    np.testing.assert_allclose(value("sum(where(a > 1, data, outputs))").shape, y.u.shape)


def test_steps_have_the_values_of_numpy() -> None:
    y = views()[1]
    np.testing.assert_array_equal(
        value("floor(u) + ceil(u) + sign(u - 1)"), np.floor(y.u) + np.ceil(y.u) + np.sign(y.u - 1)
    )


def test_what_the_problem_calls_e_or_pi_comes_before_the_numbers() -> None:
    x, y = views()
    assert np.array_equal(value("e + pi", scope=Scope(("e", "pi"), ("u", "v", "w"))), x.array.sum(-1))
    assert np.array_equal(value("sum(e)", scope=Scope(("a", "b"), ("e[1]", "e[2]", "w"))), y.array[..., :2].sum(-1))
