"""Outputs with a cliff: the regime of a point, its border, and searches that stay inside."""

import numpy as np
import pytest
from scipy.special import ndtr

from pied import CUQB, Problem, Study
from pied.bounds import Believer, TwoRegimes, remembered
from pied.gp import Border, split
from pied.gp.kernels import matern
from pied.gp.parts.border import _trend
from pied.records import Dataset
from pied.rng import Stream
from pied.solvers.infeasibility import REGIME_POINTS
from pied.solvers.moves import regime
from tiny import fast, few


def is_low(U):
    """Tell which points lie below a bent border."""
    return U[:, 0] < 0.25 + 0.4 * U[:, 1] ** 2


def cliff(U):
    """Return an output that jumps there, smooth on either side."""
    return np.where(is_low(U), np.sin(2 * U[:, 0]) + U[:, 1], 3.0 - U[:, 0] * U[:, 1])


def standardized(Y):
    return (Y - Y.mean(0)) / Y.std(0)


@pytest.mark.parametrize("seed", range(3))
def test_the_side_of_every_point_is_found(seed):
    U = Stream(seed).sobol(24, 2)
    found = split(U, standardized(cliff(U)[:, None]), home=0)
    assert found is not None
    wrong = int((found.labels != (is_low(U) == is_low(U)[0])).sum())
    assert wrong <= 1
    again = split(U, standardized(cliff(U)[:, None]), 0, found.labels)
    assert again is not None
    assert again.score >= found.score


def test_a_plateau_is_a_regime():
    U = Stream(5).sobol(24, 3)
    y = np.maximum(0.0, 4 * (U[:, 0] - 0.4 - 0.3 * U[:, 1]))
    home = int(y.argmin())
    found = split(U, standardized(y[:, None]), home)
    assert found is not None
    assert (found.labels == (y == 0)).mean() >= 0.9


def test_too_few_points_have_no_regimes():
    assert split(Stream(0).sobol(6, 2), np.zeros((6, 1)), 0) is None


def home_of(problem, U, Y):
    """Return the regime of the best of some told points."""
    data = Dataset(tuple(range(1, len(U) + 1)), U, Y, U[:0])
    believer = Believer()
    belief = believer.fit(problem, data)
    return regime.home(problem, believer, data, belief, U[Y[:, 0].argmax()], {})


def test_a_smooth_output_has_one_regime():
    problem = Problem({"a": (0, 1), "b": (0, 1)}, ["y"], maximize="y")
    U = Stream(1).sobol(20, 2)
    assert home_of(problem, U, (np.sin(3 * U[:, :1]) + U[:, 1:] ** 2)) is None


def test_only_rough_outputs_lose_the_other_regime():
    problem = Problem({"a": (0, 1), "b": (0, 1)}, ["y", "smooth"], maximize="y + smooth")
    U = Stream(1).sobol(24, 2)
    found = home_of(problem, U, np.stack([cliff(U), U.sum(1)], 1))
    assert found is not None
    assert found.rough.tolist() == [True, False]
    assert 0 < found.elsewhere.sum() < len(U)
    data = Dataset(tuple(range(1, 25)), U, np.stack([cliff(U), U.sum(1)], 1), U[:0])
    less = data.without(found.elsewhere, found.rough)
    assert np.isnan(less.Y[found.elsewhere, 0]).all()
    assert np.isfinite(less.Y[:, 1]).all()


def test_a_border_is_learned_and_continued():
    U = Stream(2).sobol(32, 2)
    border = Border.fit(U, is_low(U))
    grid = Stream(3).sobol(512, 2)
    mean, deviation = border.moments(grid)
    assert ((mean > 0) == is_low(grid)).mean() > 0.93
    sure = np.abs(mean) > 2 * deviation
    assert ((mean > 0) == is_low(grid))[sure].mean() > 0.98


def test_slopes_of_a_border_are_those_of_finite_differences():
    U = Stream(2).sobol(16, 3)
    border = Border.fit(U, U[:, 0] + U[:, 1] ** 2 > 0.7)
    u, step = Stream(4).sobol(5, 3), 1e-6
    mean, deviation, by_mean, by_deviation = border.moments_and_slopes(u)
    assert np.allclose(border.moments(u)[0], mean)
    assert np.allclose(border.moments(u)[1], deviation)
    for j in range(3):
        e = step * np.eye(3)[j]
        (up, up_dev), (down, down_dev) = border.moments(u + e), border.moments(u - e)
        assert np.allclose((up - down) / (2 * step), by_mean[:, j], rtol=1e-4, atol=1e-5 * np.abs(by_mean).max())
        numeric = (up_dev - down_dev) / (2 * step)
        assert np.allclose(numeric, by_deviation[:, j], rtol=1e-3, atol=1e-4 * np.abs(by_deviation).max())


def test_the_posterior_of_a_border_is_that_of_sampling():
    """Importance sampling from the prior, with few points so that it has enough samples that fit."""
    U = Stream(7).sobol(5, 2)
    inside = np.array([True, True, False, True, False])
    border = Border.fit(U, inside)
    grid = Stream(8).sobol(6, 2)
    points = np.concatenate([U, grid])
    size, scale, bend = border.form
    K = size**2 * (_trend(points, points) + bend * matern(points, points, scale)[0])
    root = np.linalg.cholesky(K + 1e-9 * size**2 * np.eye(len(K)))
    f = Stream(9).normal(400_000, len(K)) @ root.T
    weight = ndtr(np.where(inside, 1.0, -1.0) * f[:, :5]).prod(1)
    chance = (weight[:, None] * (f[:, 5:] > 0)).sum(0) / weight.sum()
    mean, deviation = border.moments(grid)
    assert np.abs(ndtr(mean / deviation) - chance).max() < 0.06


@pytest.mark.slow
def test_an_optimum_beside_a_cliff_is_found():
    """An output rises towards a cliff, behind which it is worthless: the best point lies at the edge."""

    def box(x):
        edge = 0.35 + 0.5 * x.b - 0.2 * x.b**2
        return {"y": 2 * x.a - (x.b - 0.6) ** 2 if x.a <= edge else -3.0 + 0.5 * x.a}

    b = np.linspace(0, 1, 100_001)
    best = (2 * (0.35 + 0.5 * b - 0.2 * b**2) - (b - 0.6) ** 2).max()
    short = []
    for seed in range(2):
        words = {"blackbox": box, "noise": 0}
        problem = Problem({"a": (0, 1), "b": (0, 1)}, ["y"], maximize="y", **words)
        with Study(problem, seed=seed, solver=fast()) as study:
            short.append(best - study.run(budget=36).value)
    assert min(short) < 0.01
    assert max(short) < 0.05


def test_the_paper_knows_no_regimes():
    assert "regime" not in CUQB.paper().moves


def cliff_problem(limit):
    """Return a problem whose output has a cliff, and has to reach a limit; no more than 3 is possible."""

    def box(x):
        return {"y": float(cliff(np.array([[x.a, x.b]]))[0])}

    words = {"maximize": "-a - b", "subject_to": {"least": f"y >= {limit}"}, "blackbox": box, "noise": 0}
    return Problem({"a": (0, 1), "b": (0, 1)}, ["y"], **words)


@pytest.mark.slow
# of 3, the last confirmation, told after the test, is in another regime
@pytest.mark.parametrize("seed", few([3, 1], 1))
def test_a_limit_beyond_a_cliff_is_declared_impossible_regime_by_regime(seed):
    study = Study(cliff_problem(3.5), seed=seed, solver=fast())
    result = study.run(budget=40)
    assert result.status.name == "INFEASIBLE"
    assert result.x is None or not result.is_feasible
    assert result.relaxation is not None
    assert result.relaxation.alone["least"] == pytest.approx(0.5, abs=0.4)
    apart = [trial for trial in study.trials if "apart" in trial.why.memory and trial.why.margin < 0]
    assert apart
    for trial in apart:
        elsewhere = len(trial.why.memory["apart"]["elsewhere"])
        assert REGIME_POINTS * study.problem.d < elsewhere < trial.number - 1 - REGIME_POINTS * study.problem.d
    assert result.chance is not None
    assert result.chance < 0.5


@pytest.mark.slow
@pytest.mark.parametrize("seed", few(range(2), 1))
def test_a_limit_that_one_regime_meets_in_a_corner_is_not_declared_impossible(seed):
    result = Study(cliff_problem(2.97), seed=seed, solver=fast()).run(budget=30)
    assert result.is_feasible


def noisy_cliff(seed, count=40):
    """Return a problem with a noisy cliff, what was told of it, and both regimes."""
    problem = Problem({"a": (0, 1), "b": (0, 1)}, ["y"], maximize="y", subject_to={"least": "y >= 2"}, noise=0.1)
    U = Stream(seed).sobol(count, 2)
    Y = cliff(U)[:, None] + 0.1 * Stream(seed).at("noise").normal(count, 1)
    data = Dataset(tuple(range(1, count + 1)), U, Y, U[:0])
    elsewhere, rough = is_low(U), np.array([True])
    both = TwoRegimes.of(problem, Believer(cautious=False), data, elsewhere, rough, (None, None), Stream(0), 0.95)
    assert both is not None
    return problem, data, both


@pytest.mark.slow
def test_what_is_said_of_a_noisy_cliff_is_nearer_to_the_truth_than_one_belief():
    away, whole = [], []
    for seed in range(3):
        problem, data, both = noisy_cliff(seed)
        U = Stream(seed).at("test").uniform(300, 2)
        lower, middle, upper = both.bounds(U, 0.95)
        assert ((lower <= middle) & (middle <= upper)).all()
        share = both.at_home(U)
        is_sure = np.abs(share - 0.5) > 0.45
        assert is_sure.mean() > 0.5
        assert ((share > 0.5) != is_low(U))[is_sure].mean() > 0.95
        away.append(np.abs(middle[:, 0] - cliff(U)).mean())
        one = Believer()
        _, middle, _ = one.said(problem, data, one.fit(problem, data), Stream(0), 0.95).bounds(U, 0.95)
        whole.append(np.abs(middle[:, 0] - cliff(U)).mean())
    assert np.mean(away) < 0.7 * np.mean(whole)


def test_where_the_regime_is_open_both_are_said():
    _, _, both = noisy_cliff(0)
    line = np.column_stack([np.linspace(0, 1, 401), np.full(401, 0.5)])
    share = both.at_home(line)
    lower, _, upper = both.bounds(line, 0.95)
    width = (upper - lower)[:, 0]
    is_open = np.abs(share - 0.5) < 0.45
    assert width[is_open].min() > 2 * np.median(width[~is_open])
    high, low = line[-40:-39], line[10:11]
    each, joint = both.probability(np.concatenate([high, low]))
    assert each[0, 0] > 0.95 > 0.05 > each[1, 0]
    assert np.abs(joint - each[:, 0]).max() < 1e-12
    ends = both.predicted(high, 0.95)
    assert ends[2][0, 0] - ends[0][0, 0] > width[-40]  # a measurement has its noise, too


@pytest.mark.slow
def test_beside_a_noisy_cliff_the_edge_is_recommended_and_its_value_known():
    """Wherever the cliff is seen; with so much noise it is in two of three runs."""

    def edge(b):
        return 0.35 + 0.5 * b - 0.2 * b**2

    def box(x):
        return {"y": (2 * x.a - (x.b - 0.6) ** 2 if x.a <= edge(x.b) else -3.0 + 0.5 * x.a) + next(noise)}

    b = np.linspace(0, 1, 100_001)
    best = (2 * edge(b) - (b - 0.6) ** 2).max()
    problem = Problem({"a": (0, 1), "b": (0, 1)}, ["y"], maximize="y", blackbox=box)
    for seed in range(1, 6):
        noise = iter(0.03 * Stream(6 + seed).normal(100))
        with Study(problem, seed=seed) as study:
            result = study.run(budget=35)
            is_seen = study.snapshot.regimes is not None
        if is_seen:
            break
    assert is_seen
    a, b = result.x["a"], result.x["b"]
    assert a <= edge(b)
    assert best - (2 * a - (b - 0.6) ** 2) < 0.2
    lower, upper = result.bounds["y"]
    assert upper - lower < 0.5


def test_what_was_pending_when_regimes_were_found_is_put_on_its_side_by_its_values():
    problem, data, both = noisy_cliff(0)
    numbers = np.array(data.numbers)
    at = int(np.abs(data.U - [0.1, 0.6]).sum(1).argmin())  # clearly low
    kept = {
        "elsewhere": numbers[is_low(data.U) & (numbers != at + 1)].tolist(),
        "rough": [True],
        "last": len(numbers),
        "open": [at + 1],
        "choices": [choice.to_dict() for choice in both.beliefs[0].choices],
    }
    again = remembered(problem, Believer(cautious=False), data, {"home": kept}, Stream(0), 0.95)
    assert again is not None
    U = Stream(1).uniform(50, 2)
    assert np.abs(again.at_home(U) - both.at_home(U)).max() < 1e-9
    assert remembered(problem, Believer(), data, {"home": kept | {"rough": [True, False]}}, Stream(0), 0.95) is None
    assert remembered(problem, Believer(), data, {}, Stream(0), 0.95) is None
