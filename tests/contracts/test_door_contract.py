"""The same function gives the same values, slopes, structure and optimum by every door."""

import math
import pickle
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy import ndarray
from scipy.optimize import brentq, minimize

from pied import Named, Problem, Study, WhiteBoxError
from pied.problem.structure import Structure
from pied.rng import Stream
from tiny import fast, few, unchecked

DATA = np.linspace(0.5, 1.5, 24)
KNOTS, HEIGHTS = (0.0, 0.8, 1.6, 4.0), (0.0, 1.6, 2.4, 2.0)
"""A concave table: it is also the least of its lines."""
LINES = [
    (h0, (h1 - h0) / (k1 - k0), k0) for k0, k1, h0, h1 in zip(KNOTS, KNOTS[1:], HEIGHTS, HEIGHTS[1:], strict=False)
]


C = tuple(f"c[{i}]" for i in range(1, 25))


@dataclass(frozen=True)
class Case:
    """A function as text, and once for all libraries, whose functions it gets as `f`."""

    text: str
    written: Callable[..., Any]
    outputs: tuple[str, ...] = ("u", "v")


CASES: dict[str, Case] = {
    "white": Case("a^2 - log(b)", lambda f, a, b, y: a**2 - f.log(b)),
    "product": Case("3*u*a - v*b + a", lambda f, a, b, y: 3 * y[0] * a - y[1] * b + a),
    "ratio": Case("u/(v + a)", lambda f, a, b, y: y[0] / (y[1] + a)),
    "logs": Case("log(u) + a*log(v)", lambda f, a, b, y: f.log(y[0]) + a * f.log(y[1])),
    "exponentials": Case("b*exp(-a*u) + v^1.5", lambda f, a, b, y: b * f.exp(-a * y[0]) + y[1] ** 1.5),
    "monotone": Case("a*tanh(u) - sqrt(b)", lambda f, a, b, y: a * f.tanh(y[0]) - f.sqrt(b)),
    "squares": Case("-sum((c - data)^2)*a", lambda f, a, b, y: -f.squares(y) * a, C),
    "min": Case("min(u*a, v + b)", lambda f, a, b, y: f.min(y[0] * a, y[1] + b)),
    "root": Case(
        "-2*sqrt(a/3)*0.5*(exp(log(1.5*sqrt(3/a)*(0 - u)/a + sqrt(1 + (1.5*sqrt(3/a)*u/a)^2))/3)"
        " - exp(-log(1.5*sqrt(3/a)*(0 - u)/a + sqrt(1 + (1.5*sqrt(3/a)*u/a)^2))/3)) + b",
        lambda f, a, b, y: f.root(a, y[0]) + b,
    ),
    "table": Case(
        "b*min(" + ", ".join(f"{h} + ({s})*(u - {k})" for h, s, k in LINES) + ")",
        lambda f, a, b, y: b * f.table(y[0]),
    ),
}


def library(**functions: Any) -> SimpleNamespace:
    """The functions of a library, with sums, roots and tables in terms of them if they are not given."""
    f = SimpleNamespace(**functions)

    def root(a: Any, u: Any) -> Any:
        """The z with z^3 + a*z = u, by the hyperbolic functions."""
        t = -1.5 * f.sqrt(3 / a) * u / a
        power = f.log(t + f.sqrt(1 + t**2)) / 3
        return -f.sqrt(a / 3) * (f.exp(power) - f.exp(-power))

    def table(u: Any) -> Any:
        return f.min(*(h + s * (u - k) for h, s, k in LINES))

    given = {"root": root, "table": table, "squares": lambda y: sum((c - d) ** 2 for c, d in zip(y, DATA, strict=True))}
    return SimpleNamespace(**(given | functions))


def least(pick: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """The least of several, from the lesser of two."""

    def found(*each: Any) -> Any:
        best = each[0]
        for other in each[1:]:
            best = pick(best, other)
        return best

    return found


def of_one_point(f: SimpleNamespace, written: Callable[..., Any]) -> Callable[[Named, Named], Any]:
    return lambda x, y: written(f, x.a, x.b, y.array)


def by_text(case: Case) -> Any:
    return case.text


def by_numpy(case: Case) -> Any:
    f = library(
        exp=np.exp,
        log=np.log,
        sqrt=np.sqrt,
        tanh=np.tanh,
        min=least(np.minimum),
        squares=lambda y: ((y - DATA) ** 2).sum(-1),
        table=lambda u: np.interp(u, KNOTS, HEIGHTS),
    )
    return of_one_point(f, case.written)


def on_arrays(case: Case) -> Any:
    """The same for many points at once, which cannot be traced."""
    f = library(exp=np.exp, log=np.log, sqrt=np.sqrt, tanh=np.tanh, min=least(np.minimum))
    return lambda x, y: case.written(f, x.a, x.b, np.moveaxis(np.asarray(y.array, dtype=float), -1, 0))


def by_points(case: Case) -> Any:
    """Pure Python and SciPy: numbers only, a root search for the root."""
    f = library(
        exp=math.exp,
        log=math.log,
        sqrt=math.sqrt,
        tanh=math.tanh,
        min=min,
        root=lambda a, u: brentq(lambda z: z**3 + a * z - u, -1.0, 9.0, xtol=1e-14, rtol=1e-14),
        table=lambda u: float(np.interp(u, KNOTS, HEIGHTS)),
    )
    return lambda x, y: float(case.written(f, float(x.a), float(x.b), [float(each) for each in y.array]))


def by_sympy(case: Case) -> Any:
    sympy = pytest.importorskip("sympy")
    f = library(exp=sympy.exp, log=sympy.log, sqrt=sympy.sqrt, tanh=sympy.tanh, min=sympy.Min)
    return case.written(f, *sympy.symbols("a b"), [sympy.Symbol(name) for name in case.outputs])


def by_casadi(case: Case) -> Any:
    casadi = pytest.importorskip("casadi")
    f = library(exp=casadi.exp, log=casadi.log, sqrt=casadi.sqrt, tanh=casadi.tanh, min=least(casadi.fmin))
    a, b, y = casadi.SX.sym("a"), casadi.SX.sym("b"), casadi.SX.sym("y", len(case.outputs))
    made = case.written(f, a, b, casadi.vertsplit(y))
    return casadi.Function("f", [a, b, y], [made], ["a", "b", "y"], ["f"])


def by_torch(case: Case) -> Any:
    torch = pytest.importorskip("torch")
    f = library(
        exp=torch.exp,
        log=torch.log,
        sqrt=torch.sqrt,
        tanh=torch.tanh,
        min=least(torch.minimum),
    )
    return lambda x, y: case.written(f, x.a, x.b, torch.movedim(y.array, -1, 0))


DOORS: dict[str, tuple[Callable[[Case], Any], str]] = {
    "text": (by_text, "a program"),
    "numpy": (by_numpy, "a program"),
    "sympy": (by_sympy, "a program"),
    "casadi": (by_casadi, "by CasADi"),
    "torch": (by_torch, "on tensors"),
    "arrays": (on_arrays, "called on arrays"),
    "points": (by_points, "called point by point"),
}


def stated(door: str, case: Case, **words: Any) -> Problem:
    ranges = dict.fromkeys(case.outputs, (0.1, 3.0))
    given = {"variables": {"a": (0.5, 2.0), "b": (0.5, 2.0)}, "maximize": DOORS[door][0](case), "ranges": ranges}
    return Problem(**({"outputs": list(case.outputs), "constants": {"data": DATA}} | given | words))


def answers(problem: Problem) -> tuple[ndarray, ndarray, ndarray]:
    """Values and slopes at random points and samples."""
    X = 0.5 + 1.5 * Stream(1).uniform(5, 2)
    Y = 0.2 + 2.6 * Stream(2).uniform(4, 5, problem.m)
    values, back = problem.traced(X, Y, (0,))
    return values, *back(Stream(3).normal(1, 4, 5))


@pytest.mark.parametrize("door", [name for name in DOORS if name != "text"])
@pytest.mark.parametrize("name", CASES)
def test_every_door_gives_the_same_values_slopes_and_structure(name: str, door: str) -> None:
    case = CASES[name]
    with unchecked():
        text, other = stated("text", case), stated(door, case)
        assert next(iter(other.ways.values())).startswith(DOORS[door][1])
        for expected, found in zip(answers(text), answers(other), strict=True):
            rtol = 1e-5 if "called" in DOORS[door][1] else 1e-9
            np.testing.assert_allclose(found, expected, rtol=rtol, atol=rtol * np.abs(expected).max())
    assert other.structure == text.structure


def test_the_cases_have_every_structure() -> None:
    with unchecked():
        found = {name: stated("numpy", case).structure[0] for name, case in CASES.items()}
    assert found["white"] == Structure("white", ())
    assert found["product"] == Structure("affine", (0, 1))
    assert found["monotone"] == found["root"] == Structure("monotone", (0,))
    assert found["squares"] == Structure("general", tuple(range(24)))


def simulated(x: Named) -> dict[str, float]:
    return {"u": 1.2 + math.sin(2 * x.a - x.b), "v": 1.5 - 0.5 * (x.b - 1.2) ** 2}


def outputs(name: str, a: ndarray, b: ndarray) -> ndarray:
    """The black box of a case at many points, outputs first: `simulated`, or 24 readings that bend with a."""
    if name == "squares":
        return np.array([0.5 + 0.4 * (a - 1.3) ** 2 + (b + 0.1) * place / 23 for place in range(24)])
    return np.array([1.2 + np.sin(2 * a - b), 1.5 - 0.5 * (b - 1.2) ** 2])


@lru_cache
def best_of(name: str) -> tuple[float, float]:
    """The optimum on a fine grid, and the range of the function."""
    a, b = (each.ravel() for each in np.meshgrid(*2 * [np.linspace(0.5, 2.0, 201)]))
    f = library(exp=np.exp, log=np.log, sqrt=np.sqrt, tanh=np.tanh, min=least(np.minimum))
    truth = CASES[name].written(f, a, b, outputs(name, a, b))
    return float(truth.max()), float(np.ptp(truth))


def pairs(names: Iterable[str], one: str) -> list[Any]:
    """Return each case by text, and one case by each other door; the other pairs are run before a release alone.

    All doors have the values and slopes of text, see above: what is left to see is that a search can use them.
    """
    every = sorted(product(names, DOORS), key=lambda pair: pair[1] != "text" and pair[0] != one)
    return few(every, sum(name == one or door == "text" for name, door in every))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "door"), pairs(CASES, "logs"))
def test_slopes_of_every_door_lead_to_the_same_optimum(name: str, door: str) -> None:
    best, scale = best_of(name)
    with unchecked():
        problem = stated(door, CASES[name])

        def downhill(x: ndarray) -> tuple[float, ndarray]:
            h, step = partial(outputs, name), 1e-6
            values, back = problem.traced(x[None], h(*x)[None, None], (0,))
            by_x, by_Y = back(np.ones((1, 1, 1)))
            moved = [(h(*(x + e)) - h(*(x - e))) / (2 * step) for e in step * np.eye(2)]
            return -float(np.ravel(values)[0]), -(by_x[0, 0] + np.array(moved) @ by_Y[0, 0, 0])

        starts = [(a, b) for a in (0.6, 1.2, 1.9) for b in (0.6, 1.2, 1.9)]
        found = [minimize(downhill, x, jac=True, method="L-BFGS-B", bounds=2 * [(0.5, 2.0)]) for x in starts]
    assert -min(each.fun for each in found) == pytest.approx(best, abs=0.005 * scale)  # a kink stops it nearby


@pytest.mark.slow
@pytest.mark.parametrize(("name", "door"), pairs(["min", "root", "table"], "root"))
def test_every_door_leads_to_the_same_optimum(name: str, door: str) -> None:
    best, scale = best_of(name)
    problem = stated(door, CASES[name], blackbox=simulated, noise=0)
    with Study(problem, solver=fast(), seed=0) as study:
        result = study.run(14)
    assert result.value == pytest.approx(best, abs=0.02 * scale)


@pytest.mark.parametrize("door", ["sympy", "casadi"])
def test_a_white_function_stays_white_when_folded(door: str) -> None:
    folded = stated(door, CASES["white"], subject_to=["u*a <= 2"], blackbox=simulated).folded()
    assert folded.outputs == ("u*a <= 2",)
    X = 0.5 + 1.5 * Stream(1).uniform(5, 2)
    (values,), back = folded.traced(X, np.zeros((1, 5, 1)), (0,))
    np.testing.assert_allclose(values[0], X[:, 0] ** 2 - np.log(X[:, 1]), rtol=1e-9)
    by_x, _ = back(np.ones((1, 1, 5)))
    np.testing.assert_allclose(by_x[0], np.stack([2 * X[:, 0], -1 / X[:, 1]], 1), rtol=1e-5)


@pytest.mark.parametrize("door", ["sympy", "casadi"])
def test_a_statement_in_another_language_is_recognized(door: str) -> None:
    told = stated(door, CASES["ratio"]).statement()["objective"]
    assert told == stated(door, CASES["ratio"]).statement()["objective"]
    assert told["values"] != stated(door, CASES["logs"]).statement()["objective"]["values"]


# --------------------------------------------------------------------------------------------------- SymPy and CasADi


def test_relations_of_sympy_are_constraints() -> None:
    sympy = pytest.importorskip("sympy")
    a, b, u, k = sympy.symbols("a b u k")
    problem = Problem(
        {"a": (0.5, 2.0), "b": (0.5, 2.0)},
        ["u"],
        minimize=sympy.Piecewise((u, a > 1), (sympy.erf(u) * sympy.Abs(b), True)) + sympy.pi / 2,
        subject_to=[u * a <= k, sympy.Max(a, b, u) > 1],
        constants={"k": 3.0},
    )
    assert problem.constraints == ("a*u <= k", "Max(a, b, u) > 1")
    X, Y = np.array([[0.6, 0.7], [1.5, 0.8]]), np.array([[[0.9], [0.4]]])
    objective, product, largest = problem.g(X, Y)
    np.testing.assert_allclose(-objective[0], [math.erf(0.9) * 0.7 + math.pi / 2, 0.4 + math.pi / 2])
    np.testing.assert_allclose(product[0], [3 - 0.54, 3 - 0.6])
    np.testing.assert_allclose(largest[0], [0.9 - 1, 1.5 - 1])


def test_mistakes_in_sympy_are_refused() -> None:
    sympy = pytest.importorskip("sympy")
    a, u, q = sympy.symbols("a u q")
    mistakes = [
        (u * q, r"uses 'q', which is neither a variable nor an output\. Did you mean|Known"),
        (sympy.Eq(u, a), "is not an inequality: write two"),
        (sympy.gamma(u), "uses gamma of SymPy, which is not known here"),
        (u + sympy.I, "not a finite real number"),
        (sympy.And(u > 1, a > 1), "true or false"),
    ]
    for given, said in mistakes:
        with pytest.raises(WhiteBoxError, match=said):
            Problem({"a": (0, 1)}, ["u"], maximize="u", subject_to={"c": given})


def test_mistakes_in_casadi_are_refused() -> None:
    casadi = pytest.importorskip("casadi")
    a, y = casadi.SX.sym("a"), casadi.SX.sym("y", 2)
    mistakes = [
        (casadi.Function("f", [a, y], [a * y]), "has results of shapes"),
        (casadi.Function("f", [a, y], [a * y[0]]), r"has an argument 'i0', which is neither .*Name them"),
        (casadi.Function("f", [y], [y[0]], ["u"], ["f"]), r"argument 'u' has shape \(2, 1\) and should have \(1, 1\)"),
    ]
    for given, said in mistakes:
        with pytest.raises(WhiteBoxError, match=f"(?s)'c'.*{said}"):
            Problem({"a": (0, 1)}, ["u", "v"], maximize="u", subject_to={"c": given})


@pytest.mark.parametrize("door", ["text", "numpy", "sympy", "casadi"])
def test_problems_of_every_door_survive_pickling(door: str) -> None:
    problem = stated(door, CASES["ratio"])
    answers(problem)
    if door == "numpy":
        problem = problem.revised(maximize=named_ratio)
    again = pickle.loads(pickle.dumps(problem))
    np.testing.assert_allclose(answers(again)[0], answers(problem)[0])


def named_ratio(x: Named, y: Named) -> Any:
    return y.u / (y.v + x.a)
