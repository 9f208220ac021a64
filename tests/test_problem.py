"""The statement of a problem: units, names, sign, black and white box, fold."""

import json
import math
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy import ndarray

from pied import EvaluationError, Named, Problem, StatementError, UnknownName, Variable
from pied.rng import Stream
from tiny import unchecked

F_A = 1.8275
PROFIT = "(1043.38*X_P + 20.92*X_E)*(F_A + F_B) - 79.23*F_A - 118.34*F_B"


def reactor(x: Named) -> dict[str, float]:
    """Return a smooth stand-in for a simulator with four outputs."""
    s, t = (x.F_B - 4) / 3, (x.T_r - 70) / 30
    return {"X_A": 0.2 - 0.1 * s, "X_G": 0.05 + 0.05 * t * t, "X_P": 0.1 + 0.02 * s * t, "X_E": 0.2 + 0.1 * t}


def profit(x: Named, y: Named) -> Any:
    return (1043.38 * y.X_P + 20.92 * y.X_E) * (F_A + x.F_B) - 79.23 * F_A - 118.34 * x.F_B


def residual(x: Named, y: Named) -> Any:
    return 0.12 - y.X_A


def warm_enough(x: Named, y: Named) -> Any:
    return x.T_r - 75.0


def stated(**words: Any) -> Problem:
    given = {
        "variables": {"F_B": (4.0, 7.0), "T_r": Variable(70.0, 100.0, unit="degC")},
        "outputs": ["X_A", "X_G", "X_P", "X_E"],
        "blackbox": reactor,
        "maximize": profit,
        "subject_to": {"residual A": residual, "byproduct G": "X_G <= 0.08", "warm": warm_enough},
    }
    return Problem(**(given | words))


def one(**words: Any) -> Problem:
    """State a problem with one variable and one output."""
    return Problem(**({"variables": {"a": (0.0, 1.0)}, "outputs": ["u"], "maximize": "u"} | words))


def batch(problem: Problem, L: int = 4, b: int = 5) -> tuple[ndarray, ndarray]:
    return problem.from_unit(Stream(0).uniform(b, problem.d)), Stream(1).uniform(L, b, problem.m)


# ---------------------------------------------------------------------------------------------------------- attributes


def test_a_statement_is_readable_in_the_users_words() -> None:
    problem = stated()
    assert (problem.d, problem.m, problem.n, problem.k) == (2, 4, 3, 4)
    assert problem.outputs == ("X_A", "X_G", "X_P", "X_E")
    assert problem.variables == {"F_B": Variable(4.0, 7.0), "T_r": Variable(70.0, 100.0, unit="degC")}
    assert problem.functions == ("profit", "residual A", "byproduct G", "warm")
    assert (problem.objective, problem.minimizes) == ("profit", False)
    assert problem.bounds.tolist() == [[4.0, 7.0], [70.0, 100.0]]
    assert [each.kind for each in problem.structure] == ["affine", "affine", "affine", "white"]
    assert repr(problem).startswith("Problem(maximize profit, subject to residual A, byproduct G, warm; F_B in [4, 7]")


def test_optional_words_have_open_defaults() -> None:
    problem = stated()
    assert problem.noise == (None,) * 4
    assert problem.tolerance == (None,) * 3
    assert problem.active.all()
    assert problem.ranges.tolist() == [[-math.inf, math.inf]] * 4
    assert problem.constants == {}


def test_optional_words_are_read_by_name() -> None:
    problem = stated(
        inputs={"X_A": ["F_B"], "X_E": ["T_r"]},
        noise={"X_A": 0.01, "X_G": 0},
        ranges={"X_A": (0, 1), "X_P": (0, None), "X_E": (None, 2.0)},
        tolerance={"residual A": 1e-3},
        constants={"F_A": F_A, "observed": np.array([1.0, 2.0])},
    )
    assert problem.active.tolist() == [[True, False], [True, True], [True, True], [False, True]]
    assert problem.noise == (0.01, 0.0, None, None)
    assert problem.ranges.tolist() == [[0, 1], [-math.inf, math.inf], [0, math.inf], [-math.inf, 2]]
    assert problem.tolerance == (1e-3, None, None)
    assert problem.constants == {"F_A": F_A, "observed": (1.0, 2.0)}


def test_one_value_holds_for_all_names() -> None:
    problem = stated(inputs=["T_r"], noise=0.5, tolerance=0)
    assert problem.active.tolist() == [[False, True]] * 4
    assert problem.noise == (0.5,) * 4
    assert problem.tolerance == (0.0,) * 3


def test_formula_and_function_mean_the_same() -> None:
    words, text = stated(), stated(maximize=PROFIT, constants={"F_A": F_A})
    X, Y = batch(words)
    assert np.allclose(words.g(X, Y)[0], text.g(X, Y)[0], rtol=1e-13)
    assert text.objective == PROFIT


def test_unnamed_formulas_are_their_own_names_and_chains_are_numbered() -> None:
    problem = stated(subject_to=["X_A <= 0.12", "0.01 <= X_G <= 0.08"], tolerance={"0.01 <= X_G <= 0.08": 0.1})
    assert problem.constraints == ("X_A <= 0.12", "0.01 <= X_G <= 0.08 (1)", "0.01 <= X_G <= 0.08 (2)")
    assert problem.tolerance == (None, 0.1, 0.1)
    X, Y = batch(problem)
    G = problem.g(X, Y)
    assert np.allclose(G[1], 0.12 - Y[..., 0])
    assert np.allclose(G[2], Y[..., 1] - 0.01)
    assert np.allclose(G[3], 0.08 - Y[..., 1])


def test_lambdas_are_called_objective() -> None:
    assert stated(maximize=lambda x, y: y.X_P).objective == "objective"


def test_without_an_objective_any_feasible_point_will_do() -> None:
    problem = stated(maximize=None)
    X, Y = batch(problem)
    values, back = problem.traced(X, Y, (0,))
    assert problem.g(X, Y)[0].tolist() == [0.0] * 5
    assert not any(slopes.any() for slopes in back(np.ones(values.shape)))
    assert "find any feasible point" in repr(problem)


def test_unicode_and_odd_names_work_everywhere() -> None:
    problem = Problem(
        {"η": (0.0, 1.0), "flow rate": (1.0, 2.0)},
        ["c(1,10)", "温度"],
        blackbox=lambda x: {"温度": x.η, "c(1,10)": x["flow rate"]},
        minimize="`c(1,10)` * η + 温度",
        subject_to={"η is small": lambda x, y: 0.5 - x.η + y["c(1,10)"]},
    )
    assert problem.evaluate({"η": 0.25, "flow rate": 1.5}).tolist() == [1.5, 0.25]


def test_a_problem_does_not_change() -> None:
    problem = stated()
    with pytest.raises(AttributeError, match=r"revised\(noise=\.\.\.\)"):
        problem.noise = (0.0,) * 4  # type: ignore[misc]
    with pytest.raises(AttributeError, match="does not change"):
        del problem.noise


def test_changing_what_was_passed_in_does_not_change_the_problem() -> None:
    variables: dict[str, Any] = {"a": (0.0, 1.0)}
    problem = one(variables=variables)
    variables["b"] = (0.0, 1.0)
    assert list(problem.variables) == list(problem.revised(noise=0).variables) == ["a"]


def test_problems_of_formulas_and_named_functions_survive_pickling() -> None:
    problem = stated(subject_to=["X_A <= 0.12"])
    for original in (problem, problem.folded()):
        copied = pickle.loads(pickle.dumps(original))
        X, Y = batch(original)
        assert copied.evaluate([5.0, 80.0]).tolist() == original.evaluate([5.0, 80.0]).tolist()
        assert all(np.array_equal(a, b) for a, b in zip(original.g(X, Y), copied.g(X, Y), strict=True))


# --------------------------------------------------------------------------------------------------------------- units

boxes = st.tuples(st.floats(-1e6, 1e6), st.floats(1e-2, 1e6)).map(lambda t: (t[0], t[0] + t[1]))


@settings(max_examples=25, deadline=None)
@given(st.lists(boxes, min_size=1, max_size=4), st.floats(1e-9, 1e3), st.floats(1.001, 1e9), st.randoms())
def test_units_round_trip_and_ends_are_exact(ends: list, lo: float, ratio: float, random: Any) -> None:
    variables: dict[str, Any] = {f"x{place}": pair for place, pair in enumerate(ends)}
    variables["log"] = Variable(lo, lo * ratio, log=True)
    with unchecked():
        problem = Problem(variables, ["u"], maximize="u")
    U = np.array([[random.random() for _ in variables] for _ in range(8)])
    X = problem.from_unit(U)
    assert np.allclose(problem.to_unit(X), U, atol=1e-6)  # width / size may be 1e-8, so 1e-16 / 1e-8 is lost
    assert np.array_equal(problem.from_unit(np.zeros_like(U[0])), problem.bounds[:, 0])
    assert np.array_equal(problem.from_unit(np.ones_like(U[0])), problem.bounds[:, 1])
    assert np.array_equal(problem.to_unit(problem.bounds.T), np.stack([np.zeros_like(U[0]), np.ones_like(U[0])]))


def test_logarithmic_variables_are_even_in_their_logarithm() -> None:
    problem = one(variables={"a": Variable(1e-4, 1e2, log=True), "b": (-3.0, 1.0)})
    X = problem.from_unit(np.array([[[0.5, 0.5]]]))
    assert np.allclose(X, [[[0.1, -1.0]]])


def test_the_slopes_of_units_equal_differences() -> None:
    problem = one(variables={"a": Variable(1e-4, 1e2, log=True), "b": (-3.0, 1.0)})
    U = np.array([[0.3, 0.1], [0.9, 0.7]])
    change = problem.from_unit(U + 1e-6) - problem.from_unit(U - 1e-6)
    np.testing.assert_allclose(problem.unit_slopes(problem.from_unit(U)), change / 2e-6, rtol=1e-6)


# -------------------------------------------------------------------------------------------------- points and outputs


@pytest.mark.parametrize(
    "x",
    [
        {"T_r": 80, "F_B": 5},
        Named(("F_B", "T_r"), (5.0, 80.0)),
        [5.0, 80.0],
        (5, 80),
        np.array([5.0, 80.0]),
        {"F_B": np.float32(5), "T_r": np.array(80)},
    ],
)
def test_points_are_read_in_many_forms(x: Any) -> None:
    assert stated().point(x).tolist() == [5.0, 80.0]


def test_points_may_be_outside_by_rounding_and_are_put_back() -> None:
    assert stated().point([4.0 - 1e-10, 100.0 + 1e-9]).tolist() == [4.0, 100.0]


@pytest.mark.parametrize(
    ("x", "message"),
    [
        ([3.9, 80.0], r"'F_B' = 3\.9 is outside its range from 4\.0 to 7\.0"),
        ([5.0], r"2 variables are expected \('F_B', 'T_r'\), got 1 values"),
        ({"F_B": 5.0}, "'T_r' is missing"),
        ({"F_B": 5.0, "T_R": 80.0}, r"'T_R' is not a variable\. Did you mean 'T_r'\?"),
        ([5.0, math.nan], "variable 'T_r' should be a finite number, got nan"),
        ([5.0, "80"], "variable 'T_r' should be a number, got str '80'"),
        (None, "Nothing came"),
        ("F_B", "mapping by name or a sequence"),
        (5.0, "got one float"),
    ],
)
def test_points_that_cannot_be_are_refused(x: Any, message: str) -> None:
    with pytest.raises(StatementError, match=f"(?i){message}"):
        stated().point(x)


@pytest.mark.parametrize(
    "y",
    [
        {"v": 2, "u": 1},
        [1.0, 2.0],
        (1, 2),
        np.array([1, 2]),
        {"u": np.array(1.0), "v": np.array([2.0])},
        Named(("v", "u"), (2.0, 1.0)),
    ],
)
def test_outputs_are_read_in_many_forms(y: Any) -> None:
    problem = one(outputs=["u", "v"])
    assert problem.output(y).tolist() == [1.0, 2.0]
    assert problem.output(y).dtype == np.float64


@pytest.mark.parametrize("y", [3.5, np.float64(3.5), np.array([[3.5]]), [3.5], {"u": 3.5}])
def test_one_output_may_be_a_number(y: Any) -> None:
    assert one().output(y).tolist() == [3.5]


def test_tensors_are_read_as_points_and_outputs() -> None:
    torch = pytest.importorskip("torch")
    assert stated().point(torch.tensor([5.0, 80.0])).tolist() == [5.0, 80.0]
    assert one().output(torch.tensor(3.5, requires_grad=True)).tolist() == [3.5]
    assert one(outputs=["u", "v"]).output({"u": 1.0, "v": torch.tensor([2.0])}).tolist() == [1.0, 2.0]


def test_labelled_series_are_read_by_label() -> None:
    pandas = pytest.importorskip("pandas")
    assert one(outputs=["u", "v"]).output(pandas.Series({"v": 2.0, "u": 1.0})).tolist() == [1.0, 2.0]


def test_partial_outputs_are_nan_where_missing() -> None:
    told = one(outputs=["u", "v"]).output({"v": 2.0}, partial=True)
    assert math.isnan(told[0])
    assert told[1] == 2.0


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (None, r"Nothing came \(None\).*is a 'return' missing\?"),
        ({"u": 1.0}, "output 'v' is missing: give all of 'u', 'v'"),
        ({"u": 1.0, "w": 2.0}, "'w' is not an output"),
        ({"u": 1.0, "v": math.nan}, "output 'v' should be a finite number, got nan"),
        ([1.0, math.inf], "output 'v' should be a finite number, got inf"),
        ([1.0, "2.0"], "output 'v' should be a number, got str '2.0'"),
        ([1.0, 2.0 + 0j], "output 'v' should be a number, got complex"),
        ([1.0, np.complex128(2)], "output 'v' should be a number, got complex128"),
        ([True, 2.0], "output 'u' should be a number, got bool True"),
        ([np.bool_(True), 2.0], "output 'u' should be a number, got bool"),
        ([None, 2.0], "output 'u' should be a number, got NoneType"),
        ([1.0, 10**400], "output 'v' should be a number, got int"),
        ([1.0, [2.0, 3.0]], "output 'v' should be a number, got list"),
        ([1.0], "2 outputs are expected .* got 1 values"),
        ([1.0, 2.0, 3.0], "got 3 values"),
        (np.ones((2, 2)), r"one row, got an array of shape \(2, 2\)"),
        (1.0, "2 outputs are expected .* got one float"),
        ("1.0, 2.0", "mapping by name or a sequence"),
        ({1.0, 2.0}, "mapping by name or a sequence"),
        (object(), "got one object"),
        ((each for each in (1.0, 2.0)), "got one generator"),
    ],
)
def test_outputs_that_cannot_be_are_refused(y: Any, message: str) -> None:
    with pytest.raises(EvaluationError, match=f"(?i){message}"):
        one(outputs=["u", "v"]).output(y)


@pytest.mark.parametrize("y", [{}, {"u": math.nan}])
def test_partial_outputs_must_say_something(y: Any) -> None:
    with pytest.raises(EvaluationError, match=r"None of the outputs|finite number"):
        one(outputs=["u", "v"]).output(y, partial=True)


def test_named_views_hold_floats() -> None:
    problem = stated()
    assert dict(problem.named_x(np.array([5.0, 80.0]))) == {"F_B": 5.0, "T_r": 80.0}
    assert problem.named_y(np.arange(4.0)).X_E == 3.0


# ---------------------------------------------------------------------------------------------------- black and white


def test_the_black_box_sees_named_floats() -> None:
    seen: list[Named] = []

    def spy(x: Named) -> list[float]:
        seen.append(x)
        return [1.0, 2.0, 3.0, 4.0]

    assert stated(blackbox=spy).evaluate({"F_B": 5, "T_r": 80}).tolist() == [1.0, 2.0, 3.0, 4.0]
    assert dict(seen[0]) == {"F_B": 5.0, "T_r": 80.0}
    assert type(seen[0].F_B) is float


def test_failures_of_the_black_box_are_chained() -> None:
    def broken(x: Named) -> float:
        raise ValueError("pump tripped")

    with pytest.raises(EvaluationError, match=r"The black box raised ValueError: pump tripped") as caught:
        one(blackbox=broken).evaluate([0.5])
    assert isinstance(caught.value.__cause__, ValueError)


def test_interrupts_pass_through_the_black_box() -> None:
    def interrupted(x: Named) -> float:
        raise KeyboardInterrupt("stop")

    with pytest.raises(KeyboardInterrupt, match="stop"):
        one(blackbox=interrupted).evaluate([0.5])


def test_without_a_black_box_nothing_can_be_evaluated() -> None:
    with pytest.raises(EvaluationError, match="has no black box"):
        one().evaluate([0.5])


def test_minimization_turns_the_sign_once() -> None:
    up, down = stated(), stated(maximize=None, minimize=profit)
    X, Y = batch(up)
    assert np.array_equal(down.g(X, Y)[0], -up.g(X, Y)[0])
    assert np.array_equal(down.g(X, Y)[1], up.g(X, Y)[1])
    assert (up.user_value(3.0), down.user_value(3.0)) == (3.0, -3.0)
    assert (up.minimizes, down.minimizes) == (False, True)


def test_only_the_functions_asked_for_are_evaluated() -> None:
    problem = stated()
    X, Y = batch(problem)
    every, some = problem.g(X, Y), problem.g(X, Y, which=(3, 0))
    assert len(some) == 2
    assert np.array_equal(some[0], every[3])
    assert np.array_equal(some[1], every[0])
    assert problem.g(X, Y, which=()) == []


def test_the_way_back_gives_the_slopes_of_weighted_sums() -> None:
    problem = stated(maximize=None, minimize="exp(X_P*F_B/9) + X_E^2*T_r/50")
    X, Y = batch(problem, 2, 3)
    values, back = problem.traced(X, Y, (0, 3, 2))
    np.testing.assert_allclose(values, np.stack([np.broadcast_to(g, (2, 3)) for g in problem.g(X, Y, (0, 3, 2))]))
    weights = Stream(2).normal(3, 2, 3)
    by_x, by_Y = back(weights)
    assert (by_x.shape, by_Y.shape) == ((3, 3, 2), (3, 2, 3, 4))
    for place, slopes in [(0, by_x[..., 0]), (1, by_x[..., 1])]:
        moved = X + 1e-6 * np.eye(2)[place]
        change = weights * (problem.traced(moved, Y, (0, 3, 2))[0] - values) / 1e-6
        np.testing.assert_allclose(slopes, change.sum(1), rtol=1e-4, atol=1e-6)
    for place in range(4):
        change = weights * (problem.traced(X, Y + 1e-6 * np.eye(4)[place], (0, 3, 2))[0] - values) / 1e-6
        np.testing.assert_allclose(by_Y[..., place], change, rtol=1e-4, atol=1e-6)


def test_how_functions_are_computed_is_said() -> None:
    problem = stated(subject_to={"residual A": residual, "hot": lambda x, y: math.sqrt(x.T_r) - float(y.X_A)})
    assert problem.ways["profit"].startswith("a program of")
    assert problem.ways["hot"].startswith("called point by point")
    assert "; hot called point by point, " in repr(problem)
    assert "program" not in repr(problem)


def test_penalty_counts_violations_only() -> None:
    f = np.array([[5.0, 0.5, -0.25, -1.0], [1.0, 0.0, 1.0, 2.0]])
    assert stated().penalized(f, 100.0).tolist() == [5.0 - 125.0, 1.0]


# ------------------------------------------------------------------------------------------------------ other problems


def test_revising_keeps_the_other_words() -> None:
    problem = stated(noise=0.1, inputs=["T_r"], ranges={"X_A": (0, 1)}, tolerance=1e-3, constants={"F_A": F_A})
    cheaper = problem.revised(minimize="F_A*X_P")
    assert cheaper.objective == "F_A*X_P"
    assert cheaper.minimizes
    assert cheaper.constraints == problem.constraints
    assert (cheaper.outputs, cheaper.variables) == (problem.outputs, problem.variables)
    assert (cheaper.noise, cheaper.tolerance, cheaper.blackbox) == (problem.noise, problem.tolerance, reactor)
    assert np.array_equal(cheaper.active, problem.active)
    assert np.array_equal(cheaper.ranges, problem.ranges)
    back = cheaper.revised(maximize=profit)
    assert (back.objective, back.minimizes) == ("profit", False)


def test_revising_an_unknown_word_is_refused() -> None:
    with pytest.raises(UnknownName, match=r"no word 'maximise'\. Did you mean 'maximize'\?"):
        stated().revised(maximise=profit)


@pytest.mark.parametrize("sense", ["maximize", "minimize"])
def test_the_folded_problem_has_the_values_of_g_as_outputs(sense: str) -> None:
    problem = stated(**{"maximize": None, sense: lambda x, y: y.X_P**2 * x.F_B, "noise": 0, "tolerance": {"warm": 0.5}})
    folded = problem.folded()
    assert folded.outputs == ("objective", "residual A", "byproduct G")  # 'warm' is white and stays so
    assert folded.functions == problem.functions
    assert folded.tolerance == problem.tolerance
    assert folded.noise == (0.0, 0.0, 0.0)
    assert [each.kind for each in folded.structure] == ["affine", "affine", "affine", "white"]
    assert [each.outputs for each in folded.structure] == [(0,), (1,), (2,), ()]
    for x in ([4.1, 71.0], [5.5, 88.0]):
        X = problem.point(x)[None]
        truth = problem.g(X, problem.evaluate(x)[None, None])
        again = folded.g(X, folded.evaluate(x)[None, None])
        assert [value.item() for value in again] == pytest.approx([value.item() for value in truth], rel=1e-12)
        assert folded.evaluate(x)[0] == pytest.approx(truth[0].item(), rel=1e-12)  # the paper's sense
    assert folded.user_value(-2.0) == problem.user_value(-2.0)


def test_a_white_objective_stays_white_when_folded() -> None:
    problem = stated(maximize=None, minimize="F_B^2")
    folded = problem.folded()
    assert folded.outputs == ("residual A", "byproduct G")
    X, Y = batch(folded)
    assert np.array_equal(folded.g(X, Y)[0], -(X[:, 0] ** 2))
    assert folded.objective == problem.objective


@pytest.mark.parametrize(("noise", "expected"), [(None, None), (0.1, None), ({"X_A": 0}, None), (0, 0.0)])
def test_the_noise_of_a_folded_problem_is_exact_or_learned(noise: Any, expected: float | None) -> None:
    assert set(stated(noise=noise).folded().noise) == {expected}


def test_folding_works_without_a_black_box_and_when_everything_is_white() -> None:
    assert stated(blackbox=None).folded().blackbox is None
    white = one(maximize="a", blackbox=lambda x: 1.0).folded()
    assert white.outputs == ("a (value)",)
    assert white.evaluate([0.25]).tolist() == [0.25]


def test_the_statement_can_be_stored_as_json() -> None:
    problem = stated(ranges={"X_A": (0, None)}, constants={"F_A": 2.0, "data": [1, 2]}, inputs={"X_A": ["F_B"]})
    told = json.loads(json.dumps(problem.statement(), allow_nan=False))
    assert told["variables"]["T_r"] == {"lo": 70.0, "hi": 100.0, "log": False, "unit": "degC"}
    assert told["subject_to"][1] == {"name": "byproduct G", "formula": "X_G <= 0.08", "part": 0}
    assert "1043.38 * y.X_P" in told["objective"]["source"]
    assert told["objective"]["hash"] == stated().statement()["objective"]["hash"]
    assert told["ranges"]["X_A"] == [0.0, None]
    assert told["inputs"]["X_A"] == ["F_B"]
    assert told["constants"] == {"F_A": 2.0, "data": [1.0, 2.0]}
    assert told["blackbox"]["name"] == "reactor"
    assert one().statement()["blackbox"] is None
    json.dumps(problem.folded().statement(), allow_nan=False)


def test_functions_without_source_are_stored_by_hash() -> None:
    texts = ["lambda x, y: (lambda: 2 * y.u)()", "lambda x, y: (lambda: 2 * y.u)()", "lambda x, y: (lambda: 3 * y.u)()"]
    told = [one(maximize=eval(text)).statement()["objective"] for text in texts]
    assert told[0]["source"] is None
    assert told[0]["hash"] == told[1]["hash"] != told[2]["hash"]


def test_callable_objects_are_functions_too() -> None:
    class Price:
        def __call__(self, x: Named, y: Named) -> Any:
            return 2.0 * y.u

    assert one(maximize=Price()).objective == "objective"
