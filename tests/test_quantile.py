"""Quantiles against numpy, scipy and projections computed by brute force."""

import math

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from scipy.stats import norm
from scipy.stats.mstats import hdquantiles

from pied.bounds import quantile
from pied.errors import SettingError
from pied.rng import Stream

LEVELS = (0.05, 0.3, 0.5, 0.95, 0.99)


def sample(L: int = 50, *b: int) -> torch.Tensor:
    """A skewed sample without ties."""
    return torch.exp(Stream(9).normal(L, *b))


# ------------------------------------------------------------------------------------------------------- closed forms


def test_shift_bound_is_proposition_2_for_affine_functions():
    rng = np.random.default_rng(0)
    a, mean, std, z = rng.normal(size=6), rng.normal(size=6), rng.uniform(0.1, 2, size=6), quantile.normal(0.95)
    moved = np.stack([a @ mean + sign * z * a * std for sign in (1, -1)])
    values = torch.from_numpy(np.concatenate([[a @ mean], *moved]))[:, None]
    (lower, _), (upper, _) = quantile.shift(values, 0.05), quantile.shift(values, 0.95)
    half = z * np.sqrt(np.sum(a**2 * std**2))
    assert float(upper) == pytest.approx(a @ mean + half, rel=1e-12)
    assert float(lower) == pytest.approx(a @ mean - half, rel=1e-12)


@pytest.mark.parametrize("function", [torch.exp, lambda y: -torch.exp(y), lambda y: y**3, torch.tanh])
def test_shift_bound_is_exact_for_one_monotone_output(function):
    mean, std = torch.tensor([0.3], dtype=torch.float64), 0.8
    for level in (0.75, 0.95, 0.999):
        step = quantile.normal(level) * std
        values = torch.stack([function(mean), function(mean + step), function(mean - step)])
        (lower, _), (upper, _) = quantile.shift(values, 1 - level), quantile.shift(values, level)
        ends = sorted(float(function(mean + sign * step)) for sign in (1, -1))
        assert [float(lower), float(upper)] == pytest.approx(ends, rel=1e-13)


def test_shift_bound_without_uncertainty_is_the_center_and_has_a_slope():
    still = torch.tensor([1.0, 2.0], dtype=torch.float64).expand(7, 2)
    for level in (0.05, 0.95):
        bound, weights = quantile.shift(still, level)
        torch.testing.assert_close(bound, still[0])
        assert weights.isfinite().all()


@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("level", [0.1, 0.9])
def test_weights_of_the_shift_bound_are_its_slopes(level, outputs):
    values = Stream(5).normal(1 + 2 * outputs, 4)
    _, weights = quantile.shift(values, level)
    step = 1e-6
    for row in range(len(values)):
        up, down = values.clone(), values.clone()
        up[row] += step
        down[row] -= step
        slope = (quantile.shift(up, level)[0] - quantile.shift(down, level)[0]) / (2 * step)
        torch.testing.assert_close(weights[row], slope, atol=1e-7, rtol=1e-6)


@pytest.mark.parametrize("outputs", [1, 3])
def test_quantiles_of_arrays_equal_those_of_tensors(outputs):
    values = Stream(5).normal(1 + 2 * outputs, 2, 4)
    samples = sample(64, 3)
    for level in (0.1, 0.9):
        pairs = [(quantile.shift(each, level), quantile.shift(each.numpy(), level)) for each in (values, -values)]
        pairs += [
            (
                quantile.harrell_davis_and_weights(samples, level),
                quantile.harrell_davis_and_weights(samples.numpy(), level),
            )
        ]
        for theirs, ours in pairs:
            for a, b in zip(theirs, ours, strict=True):
                torch.testing.assert_close(torch.from_numpy(b), a, rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("level", [0.05, 0.5, 0.95])
def test_weights_of_the_averaged_order_statistic_are_its_slopes(level):
    samples = sample(64, 3).requires_grad_()
    value = quantile.harrell_davis(samples, level)
    (slopes,) = torch.autograd.grad(value.sum(), samples)
    ours, weights = quantile.harrell_davis_and_weights(samples.detach(), level)
    torch.testing.assert_close(ours, value.detach(), rtol=1e-13, atol=0)
    torch.testing.assert_close(weights, slopes, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("level", LEVELS)
def test_normal_quantile_equals_scipy(level):
    assert quantile.normal(level) == pytest.approx(norm.ppf(level), abs=1e-14)


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
    theirs = [float(hdquantiles(column, [level])[0]) for column in values.reshape(L, -1).T.numpy()]
    torch.testing.assert_close(ours.flatten(), torch.tensor(theirs, dtype=torch.float64), rtol=1e-9, atol=0)


def test_harrell_davis_is_smooth_and_its_slope_is_right():
    values = sample(40, 2).requires_grad_()
    assert torch.autograd.gradcheck(lambda s: quantile.harrell_davis(s, 0.9), values)


@pytest.mark.parametrize(
    ("L", "level", "rank"), [(50, 0.95, 48), (50, 0.05, 3), (50, 0.5, 25), (100, 0.95, 95), (10, 1.0, 10)]
)
def test_order_statistic_has_rank_ceil_p_L(L, level, rank):
    values = sample(L, 4)
    assert quantile.rank(L, level) == rank
    assert torch.equal(quantile.order_statistic(values, level), values.sort(0).values[rank - 1])


def test_rank_does_not_jump_by_rounding():
    assert all(quantile.rank(L, i / L) == i for L in (7, 10, 49, 100, 512) for i in range(1, L + 1))


@pytest.mark.parametrize("estimate", ["harrell_davis", "order_statistic"])
def test_estimates_do_not_depend_on_units(estimate):
    values = sample(64, 5)
    estimate = getattr(quantile, estimate)
    torch.testing.assert_close(
        estimate(1e6 * values - 3e6, 0.95), 1e6 * estimate(values, 0.95) - 3e6, rtol=1e-12, atol=0
    )


# ----------------------------------------------------------------------------------------------------------- soft sort


def pooled(v: np.ndarray) -> np.ndarray:
    """Non-increasing regression, one block at a time."""
    blocks: list[list[float]] = []
    for each in v:
        blocks.append([each, 1])
        while len(blocks) > 1 and blocks[-2][0] < blocks[-1][0]:
            (a, i), (b, j) = blocks[-2:]
            blocks[-2:] = [[(a * i + b * j) / (i + j), i + j]]
    return np.concatenate([np.full(int(count), value) for value, count in blocks])


def soft_sort(samples: torch.Tensor, softness: float) -> torch.Tensor:
    """All entries, one by one."""
    L = len(samples)
    return torch.stack([quantile.soft_order_statistic(samples, rank / L, softness) for rank in range(1, L + 1)])


def soft_sort_by_loops(values: np.ndarray, softness: float) -> np.ndarray:
    """The projection of (L, ..., 1) / e onto the permutahedron of -y, sign and order undone."""
    z = np.arange(len(values), 0, -1) / softness
    return -(z - pooled(z - np.sort(-values)[::-1]))


@pytest.mark.parametrize("softness", [1e-3, 0.1, 1.0, 10.0, 1e4])
def test_soft_sort_equals_pooling_by_loops(softness):
    values = 10 * Stream(3).normal(30, 2, 4)
    ours = soft_sort(values, softness).reshape(30, -1).T.numpy()
    theirs = [soft_sort_by_loops(each, softness) for each in values.reshape(30, -1).T.numpy()]
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
    ours = soft_sort(torch.from_numpy(values), softness).numpy()
    np.testing.assert_allclose(ours, -best.x, atol=1e-5)  # the accuracy of SLSQP


def test_soft_sort_equals_sort_while_gaps_are_below_one_over_softness():
    steps = 0.99 * Stream(5).uniform(40)
    values = steps.cumsum(0)[torch.from_numpy(np.random.default_rng(0).permutation(40))].requires_grad_()
    torch.testing.assert_close(soft_sort(values, 1.0), values.sort(0).values, rtol=0, atol=1e-12)
    weights = Stream(6).uniform(40)
    soft, hard = (
        torch.autograd.grad((weights * each).sum(), values)[0]
        for each in (soft_sort(values, 1.0), values.sort(0).values)
    )
    torch.testing.assert_close(soft, hard)


def test_soft_sort_pools_where_one_gap_is_wider():
    values = torch.tensor([0.0, 0.5, 3.0], dtype=torch.float64)
    assert soft_sort(values, 1.0).tolist() == pytest.approx([1 / 6, 7 / 6, 13 / 6])


def test_soft_sort_tends_to_the_mean():
    values = sample(20, 3)
    torch.testing.assert_close(soft_sort(values, 1e9), values.mean(0).expand(20, 3), rtol=0, atol=1e-6)


@pytest.mark.parametrize("softness", [0.1, 1.0, 10.0])
def test_soft_sort_passes_the_gradient_check(softness):
    values = (3 * Stream(7).normal(12, 2)).requires_grad_()
    assert torch.autograd.gradcheck(lambda s: soft_sort(s, softness), values)


def test_soft_order_statistic_is_the_papers_entry_of_the_soft_sort():
    values = 20 * Stream(8).normal(50, 3)
    ours = quantile.soft_order_statistic(values, 0.95, 0.1)
    assert torch.equal(ours, soft_sort(values, 0.1)[47])


# ------------------------------------------------------------------------------------------------------ not finite


def test_finite_samples_are_left_alone():
    values = sample(5, 2)
    same, any_bad = quantile.worst_where_not_finite(values)
    assert same is values
    assert not any_bad


def test_samples_that_are_not_finite_count_as_worst_of_their_point():
    values = torch.tensor([[1.0, 5.0], [math.nan, 6.0], [3.0, math.inf], [-math.inf, 9.0]], dtype=torch.float64)
    mended, any_bad = quantile.worst_where_not_finite(values, worst=-7.0)
    assert any_bad
    assert mended.tolist() == [[1.0, 5.0], [-7.0, 6.0], [3.0, -7.0], [-7.0, 9.0]]
    lower, _ = quantile.worst_where_not_finite(values - 10, worst=-7.0)
    assert lower[1, 0] == -11.0  # one range, 2, below the worst finite one, -9
    assert (quantile.order_statistic(mended, 0.5) == torch.tensor([-7.0, 5.0])).all()


def test_a_point_does_not_depend_on_the_points_beside_it():
    values = sample(9, 4)
    values[2, 1] = values[5, 3] = math.nan
    together, _ = quantile.worst_where_not_finite(values)
    for i in range(4):
        assert torch.equal(quantile.worst_where_not_finite(values[:, i : i + 1])[0][:, 0], together[:, i])


def test_nothing_finite_at_all_is_the_worst_value():
    mended, _ = quantile.worst_where_not_finite(torch.full((3, 1), math.nan, dtype=torch.float64), worst=-4.0)
    assert mended.flatten().tolist() == [-4.0] * 3


# ------------------------------------------------------------------------------------------------------- level schedule


def test_confidence_is_the_schedule_of_lemma_1():
    level = quantile.confidence(delta=0.1, size=500, functions=3)
    for t in (0, 1, 10, 100):
        share = 6 * 0.1 / (math.pi**2 * (t + 1) ** 2 * 3 * 500)
        assert level(t) == pytest.approx(1 - share / 2, abs=1e-15)


def test_confidence_spends_no_more_than_delta_over_all_time():
    level = quantile.confidence(delta=0.1, size=20, functions=2)
    spent = sum(2 * (1 - level(t)) * 20 * 2 for t in range(20000))
    assert 0.0999 < spent <= 0.1


@pytest.mark.parametrize(("delta", "size", "functions"), [(0.0, 1, 1), (1.0, 1, 1), (0.1, 0, 1), (0.1, 1, 0)])
def test_confidence_refuses_what_is_no_schedule(delta, size, functions):
    with pytest.raises(SettingError, match="confidence needs 0 < delta < 1"):
        quantile.confidence(delta, size, functions)
