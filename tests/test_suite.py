"""The public interface of the suite: names, sets, forms, noise, table, readings, and the two applied models."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import pied
from pied import suite
from pied.errors import StatementError, UnknownName
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
    assert not torch.equal(calls[0][0], calls[0][1])
    assert all(torch.equal(a, b) for a, b in zip(*calls, strict=True))
    other = suite.get("bazaraa", noise=0.1, seed=5).problem
    assert not torch.equal(other.evaluate({"x1": 0.5, "x2": 0.5}), calls[0][0])


def test_noise_has_the_stated_deviation_and_the_truth_has_none():
    noisy = suite.get("bazaraa", noise={"y1": 0.2})
    x = {"x1": 0.5, "x2": 0.5}
    Y = torch.stack([noisy.problem.evaluate(x) for _ in range(400)])
    assert float(Y[:, 0].std()) == pytest.approx(0.2, rel=0.15)
    assert float(Y[:, 1].std()) == 0
    assert torch.equal(noisy.truth(x), suite["bazaraa"].truth(x))


def test_noise_is_learned_unless_it_is_declared():
    assert suite["bazaraa"].problem.noise == (0.0, 0.0)
    assert suite.get("bazaraa", noise=0.1).problem.noise == (None, None)
    assert suite.get("bazaraa", noise=0.1, declare_noise=True).problem.noise == (0.1, 0.1)


def test_scales_and_median_are_those_of_the_definitions():
    benchmark = suite["ex211"]
    f = benchmark.truth(pied.rng.Stream(0).at("benchmark").sobol(2**14, 5), unit=True)
    torch.testing.assert_close(benchmark.scales, f.abs().median(0).values, rtol=1e-12, atol=0.0)
    assert benchmark.median == pytest.approx(float(f[:, 0].median()), rel=1e-12)


def test_regret_is_zero_at_the_optimum_and_one_at_the_median():
    benchmark = suite["ex211"]
    assert float(benchmark.regret(benchmark.known.x)) == 0
    X = benchmark.whole.bounds.mean(-1)[None]
    normalized = float(benchmark.normalized_regret(X))
    assert normalized == pytest.approx((17 - float(benchmark.truth(X)[0, 0])) / abs(17 - benchmark.median))


def test_strict_feasibility_allows_a_millionth_of_the_scale():
    benchmark = suite["ex212"]
    x6 = 20 + torch.tensor([0.0, 0.9e-6, 1.1e-6], dtype=torch.float64) * benchmark.scales[2]
    X = torch.tensor([0.0, 1.0, 0.0, 1.0, 1.0, 0.0], dtype=torch.float64).repeat(3, 1)
    X[:, 5] = x6
    assert benchmark.is_strictly_feasible(X).tolist() == [True, True, False]


def test_a_problem_without_objective_has_no_regret():
    with pytest.raises(StatementError, match="no known optimum"):
        suite["illustrative-constraint"].regret({"x1": 3.0, "x2": 2.0})
    assert bool(suite["illustrative-constraint"].is_strictly_feasible({"x1": 3.0, "x2": 2.0}))


def residuals(F_B: torch.Tensor, T_r: torch.Tensor, x: dict[str, torch.Tensor]) -> torch.Tensor:
    """Return what is missing in each of the six mass balances, kg/s."""
    total = FEED_A + F_B
    k1, k2, k3 = (HOLDUP * k * torch.exp(-e / (T_r + 273.15)) for k, e in KINETICS)
    r1, r2, r3 = k1 * x["X_A"] * x["X_B"], k2 * x["X_B"] * x["X_C"], k3 * x["X_C"] * x["X_P"]
    return torch.stack(
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
        X = torch.tensor(low, dtype=torch.float64) * (1 - U) + torch.tensor(high, dtype=torch.float64) * U
        x = _steady_state(X[:, 0], X[:, 1])
        assert float(residuals(X[:, 0], X[:, 1], x).abs().max()) < (1e-12 if low[0] == 4.0 else 1e-10)
        fractions = torch.stack(list(x.values()))
        assert float((fractions.sum(0) - 1).abs().max()) < 1e-12
        assert float(fractions.min()) > 0


def test_reactor_of_one_point_is_that_of_many():
    one = williams_otto(5.0, 85.0)
    five = torch.tensor([5.0, 6.0], dtype=torch.float64)
    many = _steady_state(five, torch.full_like(five, 85.0))
    assert list(one) == ["X_A", "X_B", "X_C", "X_E", "X_P", "X_G"]
    assert all(one[name] == pytest.approx(float(many[name][0]), rel=1e-13) for name in one)


def test_reactor_can_be_differentiated():
    benchmark = suite["williams-otto"]
    X = torch.tensor([[5.0, 85.0], [6.5, 72.0]], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(benchmark.outputs, X)


def test_spill_is_the_sum_of_two_plumes():
    c = spill(10.0, 0.07, 1.505, 30.1525)
    assert len(c) == 24
    assert c["c(1,10)"] == pytest.approx(10 / (4 * torch.pi * 0.07 * 10) ** 0.5 * torch.e ** (-1 / 2.8), rel=1e-12)
    assert c["c(1.5,40)"] > 2 * spill(10.0, 0.07, 1.505, 45.0)["c(1.5,40)"]  # the second release doubles it and more
    assert spill(10.0, 0.07, 1.5, 45.0)["c(1.5,40)"] == pytest.approx(
        10 / (4 * torch.pi * 0.07 * 40) ** 0.5 * torch.e ** (-(1.5**2) / (4 * 0.07 * 40)), rel=1e-12
    )


def test_every_problem_has_a_reading_and_the_page_of_errata_holds_it():
    assert list(READINGS) == list(suite)
    page = (Path(__file__).parents[1] / "docs" / "errata.md").read_text()
    flat = re.sub(r"\s+", " ", page)
    for name, reading in READINGS.items():
        assert suite[name].printed is reading
        assert f"### {name}" in page
        for text in (reading.paper, reading.code, reading.ours, reading.why):
            assert text in flat


@pytest.mark.slow
def test_demonstrations_on_the_page_of_errata_run():
    page = (Path(__file__).parents[1] / "docs" / "errata.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    assert len(blocks) >= 5
    for block in blocks:
        exec(compile(block, "docs/errata.md", "exec"), {})
