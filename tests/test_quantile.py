"""Quantiles against numpy, scipy and projections computed by brute force."""

import math

import numpy as np
import pytest
from numpy import ndarray
from scipy.optimize import minimize
from scipy.stats import norm
from scipy.stats.mstats import hdquantiles

from pied.bounds import quantile
from pied.errors import SettingError
from pied.rng import Stream

LEVELS = (0.05, 0.3, 0.5, 0.95, 0.99)


def sample(L: int = 50, *b: int) -> ndarray:
    """A skewed sample without ties."""
    return np.exp(Stream(9).normal(L, *b))


# ------------------------------------------------------------------------------------------------------- closed forms


def test_shift_bound_is_proposition_2_for_affine_functions():
    rng = np.random.default_rng(0)
    a, mean, std, z = rng.normal(size=6), rng.normal(size=6), rng.uniform(0.1, 2, size=6), quantile.normal(0.95)
    moved = np.stack([a @ mean + sign * z * a * std for sign in (1, -1)])
    values = np.concatenate([[a @ mean], *moved])[:, None]
    (lower, _), (upper, _) = quantile.shift(values, 0.05), quantile.shift(values, 0.95)
    half = z * np.sqrt(np.sum(a**2 * std**2))
    assert upper[0] == pytest.approx(a @ mean + half, rel=1e-12)
    assert lower[0] == pytest.approx(a @ mean - half, rel=1e-12)


@pytest.mark.parametrize("function", [np.exp, lambda y: -np.exp(y), lambda y: y**3, np.tanh])
def test_shift_bound_is_exact_for_one_monotone_output(function):
    mean, std = np.array([0.3]), 0.8
    for level in (0.75, 0.95, 0.999):
        step = quantile.normal(level) * std
        values = np.stack([function(mean), function(mean + step), function(mean - step)])
        (lower, _), (upper, _) = quantile.shift(values, 1 - level), quantile.shift(values, level)
        ends = sorted(function(mean + sign * step)[0] for sign in (1, -1))
        assert [lower[0], upper[0]] == pytest.approx(ends, rel=1e-13)


def test_shift_bound_without_uncertainty_is_the_center_and_has_a_slope():
    still = np.broadcast_to([1.0, 2.0], (7, 2))
    for level in (0.05, 0.95):
        bound, weights = quantile.shift(still, level)
        np.testing.assert_allclose(bound, still[0])
        assert np.isfinite(weights).all()


@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("level", [0.1, 0.9])
def test_weights_of_the_shift_bound_are_its_slopes(level, outputs):
    values = Stream(5).normal(1 + 2 * outputs, 4)
    _, weights = quantile.shift(values, level)
    step = 1e-6
    for row in range(len(values)):
        up, down = values.copy(), values.copy()
        up[row] += step
        down[row] -= step
        slope = (quantile.shift(up, level)[0] - quantile.shift(down, level)[0]) / (2 * step)
        np.testing.assert_allclose(weights[row], slope, atol=1e-7, rtol=1e-6)


@pytest.mark.parametrize("level", LEVELS)
def test_normal_quantile_equals_scipy(level):
    assert quantile.normal(level) == pytest.approx(norm.ppf(level), abs=1e-12)


@pytest.mark.parametrize("level", [0.0, 1.0, 1.5, float("nan")])
def test_levels_that_are_no_probability_are_refused(level):
    with pytest.raises(SettingError, match="strictly between 0 and 1"):
        quantile.normal(level)


# --------------------------------------------------------------------------------------------------- order statistics


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("L", [50, 128, 513])
def test_harrell_davis_equals_scipy(L, level):
    values = sample(L, 2, 3)
    ours = quantile.harrell_davis(values, level)
    theirs = [float(hdquantiles(column, [level])[0]) for column in values.reshape(L, -1).T]
    np.testing.assert_allclose(ours.flatten(), theirs, rtol=1e-9)


@pytest.mark.parametrize("level", [0.05, 0.5, 0.95])
@pytest.mark.parametrize(
    ("estimate", "softness"),
    [("harrell_davis", ()), ("order_statistic", ())] + [("soft_order_statistic", (each,)) for each in (0.1, 1.0, 10.0)],
)
def test_weights_of_samples_are_the_slopes_of_the_estimate(estimate, softness, level):
    samples, step = 3 * Stream(7).normal(40, 2), 1e-6
    call = getattr(quantile, estimate)
    value, weights = getattr(quantile, f"{estimate}_and_weights")(samples, level, *softness)
    np.testing.assert_allclose(value, call(samples, level, *softness), rtol=1e-13)
    for row, weight in enumerate(weights):
        move = np.zeros_like(samples)
        move[row] = step
        up, down = (call(each, level, *softness) for each in (samples + move, samples - move))
        np.testing.assert_allclose(weight, (up - down) / (2 * step), rtol=0, atol=1e-8)


@pytest.mark.parametrize(
    ("L", "level", "rank"), [(50, 0.95, 48), (50, 0.05, 3), (50, 0.5, 25), (100, 0.95, 95), (10, 1.0, 10)]
)
def test_order_statistic_has_rank_ceil_p_L(L, level, rank):
    values = sample(L, 4)
    assert quantile.rank(L, level) == rank
    assert np.array_equal(quantile.order_statistic(values, level), np.sort(values, 0)[rank - 1])


def test_rank_does_not_jump_by_rounding():
    assert all(quantile.rank(L, i / L) == i for L in (7, 10, 49, 100, 512) for i in range(1, L + 1))


@pytest.mark.parametrize("estimate", ["harrell_davis", "order_statistic"])
def test_estimates_do_not_depend_on_units(estimate):
    values = sample(64, 5)
    estimate = getattr(quantile, estimate)
    np.testing.assert_allclose(estimate(1e6 * values - 3e6, 0.95), 1e6 * estimate(values, 0.95) - 3e6, rtol=1e-12)


# ----------------------------------------------------------------------------------------------------------- soft sort


def pooled(v: ndarray) -> ndarray:
    """Non-increasing regression, one block at a time."""
    blocks: list[list[float]] = []
    for each in v:
        blocks.append([each, 1])
        while len(blocks) > 1 and blocks[-2][0] < blocks[-1][0]:
            (a, i), (b, j) = blocks[-2:]
            blocks[-2:] = [[(a * i + b * j) / (i + j), i + j]]
    return np.concatenate([np.full(int(count), value) for value, count in blocks])


def soft_sort(samples: ndarray, softness: float) -> ndarray:
    """All entries, one by one."""
    L = len(samples)
    return np.stack([quantile.soft_order_statistic(samples, rank / L, softness) for rank in range(1, L + 1)])


def soft_sort_by_loops(values: ndarray, softness: float) -> ndarray:
    """The projection of (L, ..., 1) / e onto the permutahedron of -y, sign and order undone."""
    z = np.arange(len(values), 0, -1) / softness
    return -(z - pooled(z - np.sort(-values)[::-1]))


@pytest.mark.parametrize("softness", [1e-3, 0.1, 1.0, 10.0, 1e4])
def test_soft_sort_equals_pooling_by_loops(softness):
    values = 10 * Stream(3).normal(30, 2, 4)
    ours = soft_sort(values, softness).reshape(30, -1).T
    theirs = [soft_sort_by_loops(each, softness) for each in values.reshape(30, -1).T]
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-9 * (1 + 1 / softness))


@pytest.mark.parametrize("softness", [0.3, 1.0, 3.0])
def test_soft_sort_is_the_projection_onto_the_permutahedron(softness):
    values = np.array([1.3, -0.4, 2.9, 0.2])
    w, z = np.sort(-values)[::-1], np.arange(4, 0, -1) / softness
    subsets = [[i for i in range(4) if mask >> i & 1] for mask in range(1, 15)]
    limits = [
        {"type": "ineq", "fun": lambda p, s=s: w[: len(s)].sum() - p[s].sum()} for s in subsets
    ]  # any k entries sum to at most the k largest
    limits.append({"type": "eq", "fun": lambda p: p.sum() - w.sum()})
    best = minimize(lambda p: ((p - z) ** 2).sum(), w, constraints=limits, method="SLSQP", options={"ftol": 1e-14})
    ours = soft_sort(values, softness)
    np.testing.assert_allclose(ours, -best.x, atol=1e-5)  # the accuracy of SLSQP


def test_soft_sort_equals_sort_while_gaps_are_below_one_over_softness():
    values = np.random.default_rng(0).permutation((0.99 * Stream(5).uniform(40)).cumsum())
    np.testing.assert_allclose(soft_sort(values, 1.0), np.sort(values), rtol=0, atol=1e-12)
    for rank in range(1, 41):
        _, soft = quantile.soft_order_statistic_and_weights(values, rank / 40, 1.0)
        _, hard = quantile.order_statistic_and_weights(values[:, None], rank / 40)
        assert np.array_equal(soft, hard[:, 0])


def test_soft_sort_pools_where_one_gap_is_wider():
    values = np.array([0.0, 0.5, 3.0])
    assert soft_sort(values, 1.0).tolist() == pytest.approx([1 / 6, 7 / 6, 13 / 6])


def test_soft_sort_tends_to_the_mean():
    values = sample(20, 3)
    np.testing.assert_allclose(soft_sort(values, 1e9), np.broadcast_to(values.mean(0), (20, 3)), rtol=0, atol=1e-6)


def test_soft_order_statistic_is_the_papers_entry_of_the_soft_sort():
    values = 20 * Stream(8).normal(50, 3)
    ours = quantile.soft_order_statistic(values, 0.95, 0.1)
    np.testing.assert_allclose(ours, soft_sort(values, 0.1)[47], rtol=1e-12, atol=1e-12)


# ------------------------------------------------------------------------------------------------------ not finite


def test_finite_samples_are_left_alone():
    values = sample(5, 2)
    assert np.array_equal(quantile.worst_where_not_finite(values), values)


def test_samples_that_are_not_finite_count_as_worst_of_their_point():
    values = np.array([[1.0, 5.0], [math.nan, 6.0], [3.0, math.inf], [-math.inf, 9.0]])
    mended = quantile.worst_where_not_finite(values, worst=-7.0)
    assert mended.tolist() == [[1.0, 5.0], [-7.0, 6.0], [3.0, -7.0], [-7.0, 9.0]]
    lower = quantile.worst_where_not_finite(values - 10, worst=-7.0)
    assert lower[1, 0] == -11.0  # one range, 2, below the worst finite one, -9
    assert quantile.order_statistic(mended, 0.5).tolist() == [-7.0, 5.0]


def test_a_point_does_not_depend_on_the_points_beside_it():
    values = sample(9, 4)
    values[2, 1] = values[5, 3] = math.nan
    together = quantile.worst_where_not_finite(values)
    for i in range(4):
        assert np.array_equal(quantile.worst_where_not_finite(values[:, i : i + 1])[:, 0], together[:, i])


def test_nothing_finite_at_all_is_the_worst_value():
    mended = quantile.worst_where_not_finite(np.full((3, 1), math.nan), worst=-4.0)
    assert mended.flatten().tolist() == [-4.0] * 3


# ------------------------------------------------------------------------------------------------------- level schedule


def test_confidence_is_the_schedule_of_lemma_1():
    level = quantile.confidence(delta=0.1, size=500, functions=3)
    for t in (0, 1, 10, 100):
        share = 6 * 0.1 / (math.pi**2 * (t + 1) ** 2 * 3 * 500)
        assert level(t) == pytest.approx(1 - share / 2, abs=1e-13)


def test_confidence_spends_no_more_than_delta_over_all_time():
    level = quantile.confidence(delta=0.1, size=20, functions=2)
    spent = sum(2 * (1 - level(t)) * 20 * 2 for t in range(20000))
    assert 0.0999 < spent <= 0.1


@pytest.mark.parametrize(("delta", "size", "functions"), [(0.0, 1, 1), (1.0, 1, 1), (0.1, 0, 1), (0.1, 1, 0)])
def test_confidence_refuses_what_is_no_schedule(delta, size, functions):
    with pytest.raises(SettingError, match="confidence needs 0 < delta < 1"):
        quantile.confidence(delta, size, functions)
