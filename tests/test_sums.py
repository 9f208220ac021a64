"""Sums of functions of one output each: their terms, and quantiles from the moments of these."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2, norm, pearson3

from oracles import Normals, numeric_slope
from pied import CUQB, Problem
from pied.bounds import Composite, Estimator, sums
from pied.rng import Stream
from tiny import unchecked

OUTPUTS = [f"y{j}" for j in range(12)]
READ = np.linspace(-1.0, 1.0, 12)
BOX = {"p": (0.5, 2.0), "q": (-1.0, 1.0)}

SUMS: dict[str, tuple[Any, tuple[int, ...]]] = {
    "vector": (lambda x, y: -np.sum((y.array - READ) ** 2, -1), tuple(range(12))),
    "formula": ("-p*mean(log(1 + (outputs - q)^2)) + q^2", tuple(range(12))),
    "scalars": ("y3^2 + y1^2*p - abs(y2)/p + (y4 - 1)^2 + y1", (1, 2, 3, 4)),
    "weighted": (lambda x, y: np.square(y.array) @ READ, tuple(range(12))),
    "some": (lambda x, y: np.sum(y.array[..., 2:5] ** 2, -1) + y.y3 + y.y7**2, (2, 3, 4, 7)),
    "kinked": (lambda x, y: -np.sum(np.where(np.abs(y.array) < 1, y.array**2, 2 * np.abs(y.array) - 1), -1),
               tuple(range(12))),
}  # fmt: skip
LOSSES: dict[str, Callable[[Any], Any]] = {
    "squares": np.square,
    "absolute": np.abs,
    "robust": lambda r: np.log(1 + r**2),
    "huber": lambda r: np.where(np.abs(r) < 1, 0.5 * r**2, np.abs(r) - 0.5),
}


def stated(maximize: Any, outputs: list[str] = OUTPUTS, **words: Any) -> Problem:
    with unchecked():
        return Problem(BOX, outputs, maximize=maximize, **words)


@pytest.mark.parametrize("name", SUMS)
@pytest.mark.parametrize("sense", ["maximize", "minimize"])
def test_terms_add_up_to_the_function_and_follow_one_output_each(name: str, sense: str) -> None:
    function, outputs = SUMS[name]
    with unchecked():
        problem = Problem(BOX, OUTPUTS, **{sense: function})
    found, rng = problem.structure[0].terms, np.random.default_rng(0)
    assert found is not None
    assert found.outputs == outputs
    X, Y, weight = rng.uniform(0.5, 1.0, (3, 2)), rng.normal(size=(4, 3, 12)), rng.normal(size=(4, 3))
    terms, back = problem.traced_terms(X, Y, 0)
    values, whole_back = problem.traced(X, Y, (0,))
    assert np.allclose(terms.sum(-1), values[0], rtol=1e-12)
    for own, whole in zip(back(np.repeat(weight[..., None], len(outputs), -1)), whole_back(weight[None]), strict=True):
        assert np.allclose(own, whole[0], rtol=1e-10)
    for place, j in enumerate(outputs):
        moved = problem.traced_terms(X, np.where(np.arange(12) == j, Y, rng.normal(size=Y.shape)), 0)[0]
        assert np.allclose(moved[..., place] - terms[..., place], (moved - terms)[..., place].mean(0), atol=1e-12)


@pytest.mark.parametrize(
    "function",
    [
        "y0*y1 + y2^2 + y3^2",
        lambda x, y: np.sum(np.diff(y.array) ** 2, -1),
        lambda x, y: -np.sqrt(np.mean(y.array**2, -1)),
        lambda x, y: np.sum(np.exp(y.array) ** 40, -1),
    ],
)
def test_what_is_not_a_sum_of_finite_terms_of_one_output_has_no_terms(function: Any) -> None:
    assert stated(function).structure[0].terms is None


@pytest.mark.parametrize("level", [0.05, 0.5, 0.95])
def test_one_square_and_a_normal_sum_have_their_exact_quantiles(level: float) -> None:
    Z, weights = sums.nodes(3)
    one = sums.quantile(-2.0 * Z[:, None, :1] ** 2, weights[:, :1], level)
    assert one == pytest.approx([-2.0 * chi2(1).ppf(1 - level)], abs=0.03)  # of a deviation of 2.8
    linear = sums.quantile(1.0 + Z[:, None] * [1.0, 2.0, 2.0], weights, level)
    assert linear == pytest.approx([3.0 + 3.0 * norm.ppf(level)], abs=3e-3)


@pytest.mark.slow
@pytest.mark.parametrize("m", [8, 24, 50])
@pytest.mark.parametrize("loss", LOSSES)
def test_quantiles_of_sums_are_nearer_to_a_million_samples_than_samples_of_screening_are(loss: str, m: int) -> None:
    rng, errors = np.random.default_rng(m), []
    for draw in range(4):
        deviation = 10.0 ** rng.uniform(-1, 0.5) * np.exp(0.5 * rng.normal(size=m))
        mean = rng.choice([0.0, 1.0]) * deviation * rng.normal(size=m)
        truth = sum(-LOSSES[loss](mean[j] + deviation[j] * rng.normal(size=10**6)) for j in range(m))
        Z, weights = sums.nodes(m)
        few = -LOSSES[loss](mean + deviation * Stream(draw).sobol_normal(128, m)).sum(-1)
        for level in (0.05, 0.5, 0.95):
            true = np.quantile(truth, level)
            ours = sums.quantile(-LOSSES[loss](mean + deviation * Z)[:, None], weights, level)[0]
            sampled = Estimator().estimate(few[:, None], level)[0]
            errors.append([(ours - true) / truth.std(), (sampled - true) / truth.std()])
    ours, sampled = np.sqrt(np.square(errors).mean(0))
    assert ours < sampled
    assert ours < 0.06


def test_quantiles_scale_with_the_terms_and_have_their_slopes() -> None:
    rng = np.random.default_rng(0)
    Z, weights = sums.nodes(9)
    terms = -np.square(rng.normal(size=9) + 0.4 * Z[:, None] + 0.2 * rng.normal(size=(17, 5, 1)))
    value, slopes = sums.quantile_and_weights(terms, weights, 0.9)
    assert value == pytest.approx(sums.quantile(terms, weights, 0.9))
    for unit in (1e-140, 1e140):
        assert sums.quantile(unit * terms, weights, 0.9) == pytest.approx(unit * value, rel=1e-9)
    way = rng.normal(size=terms.shape)
    up, down = (sums.quantile(terms + sign * 1e-6 * way, weights, 0.9) for sign in (1.0, -1.0))
    assert (slopes * way).sum((0, 2)) == pytest.approx((up - down) / 2e-6, rel=1e-5)


def test_bounds_of_squares_over_many_powers_of_ten_are_never_beyond_what_they_reach() -> None:
    Z, weights = sums.nodes(9)
    terms = -np.square(np.exp(8.0 * Z[:, None] * np.linspace(0.2, 1.0, 3)[:, None]) - 5.0)  # three points
    terms[:, :, 0] -= 1.0
    value, slopes = sums.quantile_and_weights(terms, weights, 0.95)
    assert (value <= -1.0).all()
    assert value == pytest.approx(sums.quantile(terms, weights, 0.95))
    way = np.random.default_rng(0).normal(size=terms.shape)
    up, down = (sums.quantile(terms + sign * 1e-6 * way, weights, 0.95) for sign in (1.0, -1.0))
    assert (slopes * way).sum((0, 2)) == pytest.approx((up - down) / 2e-6, rel=1e-3)


def test_a_sum_that_overflows_where_outputs_are_implausible_is_not_at_its_worst() -> None:
    problem, U = stated(SUMS["vector"][0]), np.full((1, 2), 0.4)
    composite = Composite(problem, Normals(lambda u: READ, lambda u: 1.0 + 4e153 * (READ < -0.9)), Stream(0))
    object.__setattr__(composite, "_summed", (0,))
    value, slopes = composite.values_and_slopes(U, [0.95])
    assert value == pytest.approx(composite.values(U, [0.95]))
    assert abs(value[0, 0]) < 3e306  # the mean is 16e306, the worst node 10 times that
    assert np.isfinite(slopes).all()


def test_a_known_output_adds_its_value_alone() -> None:
    Z, weights = sums.nodes(9)
    terms = np.square(1.0 + 0.0 * Z[:, None])
    value, slopes = sums.quantile_and_weights(terms, weights, 0.95)
    assert value == pytest.approx([9.0])
    assert slopes.sum((0, 1)) == pytest.approx(np.ones(9), abs=0.01)  # what is left is rounding


def belief(spread: float = 0.3) -> Normals:
    turn = np.linspace(0.0, 3.0, 12)
    return Normals(
        lambda u: np.sin(turn + 2 * u[0]) + u[1] * READ, lambda u: spread * (0.2 + u[0] + 0.3 * np.cos(turn) ** 2)
    )


@pytest.mark.parametrize("name", ["vector", "formula", "weighted", "kinked"])
def test_bounds_of_sums_agree_with_many_samples_and_have_slopes(name: str) -> None:
    problem, U = stated(SUMS[name][0]), np.random.default_rng(1).uniform(0.1, 0.9, (6, 2))
    summed = Composite(problem, belief(), Stream(0))
    sampled = Composite(problem, belief(), Stream(0), estimator=Estimator(samples=2**14, screening=2**14))
    object.__setattr__(sampled, "_summed", ())
    width = np.subtract(*(sampled.values(U, [p]) for p in (0.95, 0.05))).min()
    for level in (0.05, 0.5, 0.95):
        assert np.abs(summed.values(U, [level]) - sampled.values(U, [level])).max() < 0.05 * width
    values, slopes = summed.values_and_slopes(U, [0.95])
    assert values == pytest.approx(summed.values(U, [0.95]))
    for u, slope in zip(U, slopes[:, 0], strict=True):
        numeric = numeric_slope(lambda u: summed.values(u[None], [0.95])[0, 0], u, 1e-5)
        assert slope == pytest.approx(numeric, rel=1e-2, abs=1e-3 * np.abs(slopes).max())  # kinks meet nodes


def test_sums_are_sampled_where_moments_say_too_little() -> None:
    problem, U = stated(lambda x, y: np.sum(np.sin(40 * y.array), -1)), np.full((1, 2), 0.4)
    usual, sampled = (Composite(problem, belief(3.0), Stream(0)) for _ in range(2))
    object.__setattr__(sampled, "_summed", ())
    assert usual.is_sampled
    assert np.array_equal(usual.values(U, [0.95]), sampled.values(U, [0.95]))
    squares = stated(SUMS["vector"][0])
    rare, sampled = (Composite(squares, belief(), Stream(0)) for _ in range(2))
    object.__setattr__(sampled, "_summed", ())
    assert not rare.is_sampled
    assert np.array_equal(rare.values(U, [0.999]), sampled.values(U, [0.999]))


def test_the_paper_samples_sums_too() -> None:
    paper = CUQB.paper().believer.estimator
    assert not paper.closed_forms
    composite = Composite(stated(SUMS["vector"][0]), belief(), Stream(0), estimator=paper)
    soft = paper.estimate(composite.sampled(np.full(2, 0.5), 50), 0.95)
    assert composite.values(np.full((1, 2), 0.5), [0.95])[0] == pytest.approx(soft)


def test_five_nodes_give_the_moments_of_squares_exactly() -> None:
    rng = np.random.default_rng(2)
    mu, s, d, w = (rng.normal(size=9), *rng.uniform(0.1, 2.0, (3, 9)))
    Z, weights = sums.nodes(9, are_quadratic=True)
    terms = w * (mu + s * Z - d) ** 2
    away = mu - d
    cumulants = [
        (w * (away**2 + s**2)).sum(),
        (w**2 * (2 * s**4 + 4 * s**2 * away**2)).sum(),
        (w**3 * (8 * s**6 + 24 * s**4 * away**2)).sum(),
    ]
    skewness = cumulants[2] / cumulants[1] ** 1.5
    for level in (0.05, 0.5, 0.95):
        expected = pearson3(skewness, cumulants[0], np.sqrt(cumulants[1])).ppf(level)
        np.testing.assert_allclose(sums.quantile(terms[:, None], weights, level), expected, rtol=1e-6)
    for name, is_quadratic in (("squares", True), ("robust", False), ("huber", False)):
        found = stated(lambda x, y, loss=LOSSES[name]: -np.sum(loss(y.array - READ))).structure[0].terms
        assert found is not None
        assert found.are_quadratic == is_quadratic
