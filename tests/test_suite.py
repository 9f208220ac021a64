"""The public interface of the suite: names, sets, forms, noise, table, readings, and the two applied models."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy import ndarray

import pied
from pied import suite
from pied.errors import StatementError, UnknownName
from pied.rng import Stream
from pied.suite.applied import FEED_A, HOLDUP, KINETICS, _steady_state, spill, williams_otto
from pied.suite.readings import READINGS


def test_the_module_is_the_suite():
    assert pied.suite is suite
    assert len(suite) == 24
    assert next(iter(suite)) == "booth"
    assert "g09" in suite
    assert "g9" not in suite
    assert suite["booth"].problem is suite["booth"].whole


@pytest.mark.slow
def test_suite_works_however_it_is_imported():
    lines = "import pied; pied.suite['booth']; import pied.suite as s; s['g09']; from pied import suite; suite['wolfe']"
    subprocess.run([sys.executable, "-c", lines], check=True, timeout=500)


def test_sets_hold_the_papers_twenty_two():
    assert len(suite.sets["paper"]) == 22
    assert suite.sets["paper"] == (*suite.sets["unconstrained"], *suite.sets["constrained"], *suite.sets["applied"])
    assert set(suite.sets["paper"]) | set(suite.sets["illustrative"]) == set(suite)
    assert all(suite[name].whole.n == 0 for name in suite.sets["unconstrained"])
    assert all(suite[name].whole.n > 0 for name in suite.sets["constrained"])


def test_unknown_names_are_answered_with_the_one_probably_meant():
    with pytest.raises(UnknownName, match="Did you mean 'rastrigin'"):
        suite["rastrigrin"]
    with pytest.raises(StatementError, match="Did you mean 'paper'"):
        suite.get("booth", "papers")
    with pytest.raises(StatementError, match="no output 'y2'"):
        suite.get("booth", noise={"y2": 0.1})
    with pytest.raises(StatementError, match="zero or larger"):
        suite.get("booth", noise=-1.0)


def test_table_has_one_plain_row_per_problem():
    rows = suite.table()
    assert [row["name"] for row in rows] == list(suite)
    assert all(set(row) == {"name", "d", "m", "n", "optimum", "feasible", "structure", "source"} for row in rows)
    spring = next(row for row in rows if row["name"] == "spring")
    assert spring["structure"] == "affine; affine, white, monotone, white"
    assert spring["optimum"] == pytest.approx(0.0126652328)


def test_noise_differs_at_each_call_and_repeats_in_each_run():
    first, second = (suite.get("bazaraa", noise=0.1, seed=4).problem for _ in range(2))
    calls = [[problem.evaluate({"x1": 0.5, "x2": 0.5}) for _ in range(3)] for problem in (first, second)]
    assert not np.array_equal(calls[0][0], calls[0][1])
    assert all(np.array_equal(a, b) for a, b in zip(*calls, strict=True))
    other = suite.get("bazaraa", noise=0.1, seed=5).problem
    assert not np.array_equal(other.evaluate({"x1": 0.5, "x2": 0.5}), calls[0][0])


@pytest.mark.slow
def test_noise_has_the_stated_deviation_and_the_truth_has_none():
    noisy = suite.get("bazaraa", noise={"y1": 0.2})
    x = {"x1": 0.5, "x2": 0.5}
    Y = np.stack([noisy.problem.evaluate(x) for _ in range(400)])
    assert Y[:, 0].std() == pytest.approx(0.2, rel=0.15)
    assert Y[:, 1].std() == 0
    assert np.array_equal(noisy.truth(x), suite["bazaraa"].truth(x))


def test_noise_is_learned_unless_it_is_declared():
    assert suite["bazaraa"].problem.noise == (0.0, 0.0)
    assert suite.get("bazaraa", noise=0.1).problem.noise == (None, None)
    assert suite.get("bazaraa", noise=0.1, declare_noise=True).problem.noise == (0.1, 0.1)


def test_scales_and_median_are_those_of_the_definitions():
    benchmark = suite["ex211"]
    f = benchmark.truth(pied.rng.Stream(0).at("benchmark").sobol(2**14, 5), unit=True)
    np.testing.assert_allclose(benchmark.scales, np.sort(np.abs(f), 0)[2**13 - 1], rtol=1e-12)
    assert benchmark.median == pytest.approx(float(np.sort(f[:, 0])[2**13 - 1]), rel=1e-12)


def test_regret_is_zero_at_the_optimum_and_one_at_the_median():
    benchmark = suite["ex211"]
    assert benchmark.regret(benchmark.known.x).item() == 0
    X = benchmark.whole.bounds.mean(-1)[None]
    normalized = benchmark.normalized_regret(X).item()
    assert normalized == pytest.approx((17 - float(benchmark.truth(X)[0, 0])) / abs(17 - benchmark.median))


def test_strict_feasibility_allows_a_millionth_of_the_scale():
    benchmark = suite["ex212"]
    X = np.tile([0.0, 1.0, 0.0, 1.0, 1.0, 0.0], (3, 1))
    X[:, 5] = 20 + np.array([0.0, 0.9e-6, 1.1e-6]) * benchmark.scales[2]
    assert benchmark.is_strictly_feasible(X).tolist() == [True, True, False]


@pytest.mark.parametrize("structure", ["paper", "full"])
@pytest.mark.parametrize("name", suite.sets["constrained"])
def test_who_knows_nothing_learns_every_constraint(name: str, structure: str) -> None:
    benchmark, informed = suite.get(name, structure, knows="nothing"), suite.get(name, structure).problem
    problem, X = benchmark.problem, informed.from_unit(Stream(1).uniform(3, informed.d))
    assert problem.white == ()
    assert problem.m == informed.m + len(informed.white)
    assert problem.constraints == informed.constraints
    values = [problem.g(x[None], problem.evaluate(dict(zip(problem.variables, x.tolist(), strict=True)))[None, None])
              for x in X]  # fmt: skip
    assert np.array(values).reshape(3, -1) == pytest.approx(benchmark.truth(X), rel=1e-9, abs=1e-9)
    assert all(each.kind != "white" for each in problem.folded().structure)


def test_only_what_has_no_noise_becomes_an_output():
    assert suite.get("williams-otto", "paper", 0.05, knows="nothing").problem.m == 4
    with pytest.raises(StatementError, match="White constraints have no noise"):
        suite.get("bazaraa", noise=0.1, knows="nothing")
    with pytest.raises(StatementError, match="'white' constraints or 'nothing'"):
        suite.get("bazaraa", knows="everything")


def test_a_problem_without_objective_has_no_regret():
    with pytest.raises(StatementError, match="no known optimum"):
        suite["illustrative-constraint"].regret({"x1": 3.0, "x2": 2.0})
    assert bool(suite["illustrative-constraint"].is_strictly_feasible({"x1": 3.0, "x2": 2.0}))


def residuals(F_B: ndarray, T_r: ndarray, x: dict[str, ndarray]) -> ndarray:
    """Return what is missing in each of the six mass balances, kg/s."""
    total = FEED_A + F_B
    k1, k2, k3 = (HOLDUP * k * np.exp(-e / (T_r + 273.15)) for k, e in KINETICS)
    r1, r2, r3 = k1 * x["X_A"] * x["X_B"], k2 * x["X_B"] * x["X_C"], k3 * x["X_C"] * x["X_P"]
    return np.stack(
        [
            FEED_A - r1 - total * x["X_A"],
            F_B - r1 - r2 - total * x["X_B"],
            2 * r1 - 2 * r2 - r3 - total * x["X_C"],
            2 * r2 - total * x["X_E"],
            r2 - r3 / 2 - total * x["X_P"],
            1.5 * r3 - total * x["X_G"],
        ]
    )


def test_reactor_closes_its_balances_on_the_whole_box_and_far_outside():
    U = pied.rng.Stream(1).sobol(4096, 2)
    for low, high in (((4.0, 70.0), (7.0, 100.0)), ((0.2, 20.0), (30.0, 180.0))):
        X = np.array(low) * (1 - U) + np.array(high) * U
        x = _steady_state(X[:, 0], X[:, 1])
        assert np.abs(residuals(X[:, 0], X[:, 1], x)).max() < (1e-12 if low[0] == 4.0 else 1e-10)
        fractions = np.stack(list(x.values()))
        assert np.abs(fractions.sum(0) - 1).max() < 1e-12
        assert fractions.min() > 0


def test_reactor_of_one_point_is_that_of_many():
    one = williams_otto(5.0, 85.0)
    many = _steady_state(np.array([5.0, 6.0]), np.array([85.0, 85.0]))
    assert list(one) == ["X_A", "X_B", "X_C", "X_E", "X_P", "X_G"]
    assert all(one[name] == pytest.approx(float(many[name][0]), rel=1e-13) for name in one)


def test_reactor_is_smooth():
    """No trace of the bisection inside: differences over steps of very different sizes agree."""
    benchmark = suite["williams-otto"]
    X, along = np.array([[5.0, 85.0], [6.5, 72.0]]), np.array([0.3, 1.0])
    small, large = (
        (benchmark.outputs(X + step * along) - benchmark.outputs(X - step * along)) / (2 * step)
        for step in (1e-5, 1e-3)
    )
    np.testing.assert_allclose(small, large, rtol=1e-6)


def test_spill_is_the_sum_of_two_plumes():
    c = spill(10.0, 0.07, 1.505, 30.1525)
    assert len(c) == 24
    assert c["c(1,10)"] == pytest.approx(10 / (4 * np.pi * 0.07 * 10) ** 0.5 * np.e ** (-1 / 2.8), rel=1e-12)
    assert c["c(1.5,40)"] > 2 * spill(10.0, 0.07, 1.505, 45.0)["c(1.5,40)"]  # the second release doubles it and more
    assert spill(10.0, 0.07, 1.5, 45.0)["c(1.5,40)"] == pytest.approx(
        10 / (4 * np.pi * 0.07 * 40) ** 0.5 * np.e ** (-(1.5**2) / (4 * 0.07 * 40)), rel=1e-12
    )


def test_every_problem_has_a_reading_and_a_row_on_the_page_of_errata():
    assert list(READINGS) == list(suite)
    page = (Path(__file__).parents[1] / "docs" / "errata.md").read_text()
    rows = re.findall(r"^\| ([a-z][^|]*) \|", page[page.index("## The problems") :], flags=re.MULTILINE)
    names = [name for row in rows if row != "problem" for name in row.split(", ")]
    assert sorted(names) == sorted(READINGS)
    for name, reading in READINGS.items():
        assert suite[name].printed is reading


@pytest.mark.slow
def test_demonstrations_on_the_page_of_errata_run():
    page = (Path(__file__).parents[1] / "docs" / "errata.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    assert len(blocks) >= 5
    for block in blocks:
        exec(compile(block, "docs/errata.md", "exec"), {})
