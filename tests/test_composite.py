"""Bounds of g(x, h(x)) against a million samples, slopes against finite differences, units against themselves."""

import logging
import math

import numpy as np
import pytest
from numpy import ndarray
from scipy.stats import norm

import pied
from oracles import Normals, numeric_slope
from pied.bounds import Bounds, misjudged, optimistic, quantile
from pied.bounds.composite import NUMBERS_AT_ONCE, Composite
from pied.bounds.estimator import Estimator
from pied.errors import SettingError
from pied.gp import GP, Model
from pied.problem.structure import Structure
from pied.rng import Stream

MILLION = 10**6
U = np.array([[0.2, 0.7], [0.9, 0.4]])


def mean(u):
    """Means of three outputs at a point of the unit square."""
    return np.stack([np.sin(3 * u[0]), 1 + u[0] * u[1], np.cos(2 * u[1]) - 0.3])


def std(u):
    """Standard deviations there."""
    return np.stack([0.2 + 0.3 * u[1], 0.1 + 0.2 * u[0], 0.4 - 0.1 * u[0] * u[1]])


def stated(maximize, *constraints, **words) -> pied.Problem:
    """A problem of two variables and three outputs."""
    return pied.Problem(
        {"p": (0.0, 2.0), "q": (-1.0, 1.0)},
        ["a", "b", "c"],
        maximize=maximize,
        subject_to={f"g{i}": each for i, each in enumerate(constraints, 1)} or None,
        **words,
    )


def white(x, y):
    return x.p * x.q + 1


def affine(x, y):
    return 2 * y.a - x.p * y.b + x.q


def monotone(x, y):
    return np.exp(2 * y.a) - x.p


def least_squares(x, y):
    return -((y.array - np.array([0.3, 1.2, 0.1])) ** 2).sum(-1)


def product(x, y):
    return y.a * y.c + x.p


def ratio(x, y):
    return y.a / (2 + y.b**2) - y.c


EVERY = (white, affine, monotone, least_squares, product, ratio)


def composite(problem, belief=None, **words) -> Composite:
    return Composite(problem, belief or Normals(mean, std), Stream(1).at("trial", 1), **words)


def brute(problem, belief, levels) -> ndarray:
    """Quantiles of every function from a million samples of the outputs, kept inside their ranges: levels b k."""
    lo, hi = problem.ranges.T
    Y = np.maximum(np.minimum(belief.draw(U, MILLION), hi), lo)
    return np.stack([np.quantile(g, levels, axis=0) for g in problem.g(problem.from_unit(U), Y)], -1)


def error(problem, belief, levels=(0.05, 0.5, 0.95), **words) -> ndarray:
    """Largest error of the bounds of each function, relative to the distance between median and bound."""
    C = composite(problem, belief, **words)
    ours = np.stack([C.values(U, [level] * problem.k) for level in levels])
    theirs = brute(problem, belief, levels)
    middle = C.values(U, [0.5] * problem.k)
    away = np.abs(theirs - middle)
    away[list(levels).index(0.5)] = away.max(0)
    return (np.abs(ours - theirs) / away).max((0, 1))


# -------------------------------------------------------------------------------------------- values, by brute force


def test_white_functions_are_exact_at_every_level():
    problem = stated(affine, white)
    X = problem.from_unit(U)
    for bound in composite(problem).bounds(U, 0.95):
        np.testing.assert_allclose(bound[:, 1], X[:, 0] * X[:, 1] + 1, rtol=1e-12, atol=0.0)


@pytest.mark.parametrize("level", [0.05, 0.5, 0.95, 0.99])
def test_affine_bounds_are_proposition_2(level):
    problem = stated(affine)
    assert problem.structure[0].kind == "affine"
    X, (mu, sigma) = problem.from_unit(U), Normals(mean, std).moments(U)
    a = np.stack([np.full(2, 2.0), -X[:, 0], np.zeros(2)], -1)
    exact = (a * mu).sum(-1) + X[:, 1] + norm.ppf(level) * np.sqrt(((a * sigma) ** 2).sum(-1))
    np.testing.assert_allclose(composite(problem).values(U, [level])[:, 0], exact, rtol=1e-12, atol=1e-12)


def test_closed_forms_equal_a_million_samples():
    problem = stated(affine, monotone, lambda x, y: -np.exp(-y.c))
    assert [each.kind for each in problem.structure] == ["affine", "monotone", "monotone"]
    # a quantile of a million samples has a standard error of about 0.0015 of (q95 - median); four of them
    assert (error(problem, Normals(mean, std)) < 0.006).all()


def test_monotone_bounds_of_lognormal_outputs_equal_a_million_samples():
    # twice exponential, hence a longer tail and a larger standard error of the million
    assert error(stated(monotone), Normals(mean, std, (0,))) < 0.012


def test_affine_bounds_of_lognormal_outputs_are_close_to_a_million_samples():
    # the shift bound adds the shifts of skewed outputs as if they were normal: right in the first order only
    assert error(stated(affine), Normals(mean, std, (0, 1))) < 0.15


def test_sampled_bounds_are_close_to_a_million_samples():
    problem = stated(least_squares, product, ratio)
    assert {each.kind for each in problem.structure} == {"general"}
    assert (error(problem, Normals(mean, std)) < 0.04).all()  # 512 Sobol points, averaged order statistics


def test_correlated_outputs_have_their_own_bounds():
    factor = np.array([[0.5, 0, 0], [0.49, 0.1, 0], [0, 0, 0.3]])
    belief = Normals(mean, lambda u: factor * (1 + u[0]))
    problem = stated(lambda x, y: y.a - y.b, lambda x, y: y.a * y.b + 2, lambda x, y: np.exp(y.a))
    assert composite(problem, belief).is_correlated
    assert (error(problem, belief) < 0.04).all()
    alone = Normals(mean, lambda u: np.sqrt(((factor * (1 + u[0])) ** 2).sum(1)))
    apart = composite(problem, alone).values(U, [0.95] * 3) - composite(problem, alone).values(U, [0.5] * 3)
    tied = composite(problem, belief).values(U, [0.95] * 3) - composite(problem, belief).values(U, [0.5] * 3)
    assert (tied[:, 0] < 0.3 * apart[:, 0]).all()
    np.testing.assert_allclose(tied[:, 2], apart[:, 2], rtol=0.02, atol=0)


def test_minimization_is_turned_into_maximization():
    up = composite(stated(ratio)).bounds(U, 0.9)
    down = composite(stated(ratio).revised(minimize=ratio)).bounds(U, 0.9)
    for a, b in zip(up, reversed(down), strict=True):
        np.testing.assert_allclose(a, -b, rtol=1e-9, atol=1e-9)


def test_bounds_are_ordered_and_widen_with_the_level():
    C = composite(stated(*EVERY))
    lower, median, upper = C.bounds(U, 0.9)
    assert (lower <= median).all()
    assert (median <= upper).all()
    wider, _, higher = C.bounds(U, 0.99)
    assert (wider <= lower).all()
    assert (higher >= upper).all()


def test_each_function_may_have_its_own_level():
    C = composite(stated(*EVERY))
    levels = [0.5, 0.05, 0.95, 0.9, 0.05, 0.5]
    mixed = C.values(U, levels)
    for i, level in enumerate(levels):
        np.testing.assert_allclose(mixed[:, i], C.values(U, [level] * 6)[:, i])


# -------------------------------------------------------------------------------------------------------------- slopes


@pytest.mark.slow
@pytest.mark.parametrize("logs", [(), (1,)])
@pytest.mark.parametrize("level", [0.05, 0.5, 0.95])
def test_slopes_equal_finite_differences(level, logs):
    C = composite(stated(*EVERY), Normals(mean, std, logs))
    values, slopes = C.values_and_slopes(U, [level] * 6)
    np.testing.assert_allclose(values, C.values(U, [level] * 6))
    for u, slope in zip(U, slopes, strict=True):
        theirs = numeric_slope(lambda v: C.values(v[None], [level] * 6)[0], u, 1e-6)
        # samples that change places inside the step bend the difference of the sampled ones, no more
        np.testing.assert_allclose(slope, theirs, rtol=1e-3, atol=1e-5)


def test_slopes_of_correlated_beliefs_equal_finite_differences():
    factor = np.array([[0.5, 0, 0], [0.4, 0.2, 0], [0.1, 0, 0.3]])
    C = composite(stated(*EVERY), Normals(mean, lambda u: factor * (1 + u[0] * u[1])))
    _, slopes = C.values_and_slopes(U[:1], [0.95] * 6)
    theirs = numeric_slope(lambda v: C.values(v[None], [0.95] * 6)[0], U[0], 1e-6)
    np.testing.assert_allclose(slopes[0], theirs, rtol=1e-3, atol=1e-5)


def test_slopes_under_a_fitted_belief_equal_finite_differences():
    points = Stream(3).sobol(15, 2)
    smooth = Model(nugget=(1e-8, 1e-8))  # with a smaller one, rounding divided by the step is what differences show
    gp = GP.fit(points, np.stack([np.exp(mean(u)) for u in points]), model=smooth)
    C = composite(stated(*EVERY, inputs=["p", "q"]), gp)
    _, slopes = C.values_and_slopes(U, [0.95] * 6)
    for u, slope in zip(U, slopes, strict=True):
        theirs = numeric_slope(lambda v: C.values(v[None], [0.95] * 6)[0], u, 1e-5)
        np.testing.assert_allclose(slope, theirs, rtol=1e-3, atol=1e-3)


def test_slopes_on_a_logarithmic_variable_are_by_the_unit_cube():
    problem = pied.Problem({"p": pied.Variable(1e-3, 1e3, log=True), "q": (-1, 1)}, ["a", "b", "c"], maximize=affine)
    C = composite(problem)
    _, slopes = C.values_and_slopes(U[:1], [0.95])
    theirs = numeric_slope(lambda v: C.values(v[None], [0.95])[0], U[0], 1e-6)
    np.testing.assert_allclose(slopes[0], theirs, rtol=1e-6, atol=1e-6)


# ------------------------------------------------------------------------------------------------------- ranges, units


def test_ranges_keep_samples_physical(monkeypatch):
    seen, evaluate = [], pied.Problem.g
    monkeypatch.setattr(pied.Problem, "g", lambda self, X, Y, **words: seen.append(Y) or evaluate(self, X, Y, **words))
    problem = stated(lambda x, y: np.sqrt(y.b) * y.a, ranges={"a": (0.0, 0.5), "b": (1.0, None)})
    assert error(problem, Normals(mean, std)) < 0.05
    Y = np.concatenate([each.reshape(-1, 3) for each in seen if len(each) == 512])
    assert ((Y[:, 0] >= 0) & (Y[:, 0] <= 0.5) & (Y[:, 1] >= 1)).all()


def test_ranges_keep_closed_forms_physical():
    problem = stated(monotone, ranges={"a": (0.0, 0.5)})
    lower, _, upper = composite(problem).bounds(U, 0.999)
    X = problem.from_unit(U)
    np.testing.assert_allclose(upper[:, 0], math.exp(1.0) - X[:, 0])
    assert (lower[:, 0] >= 1 - X[:, 0] - 1e-12).all()


def test_outputs_told_keep_samples_strictly_inside_their_ranges():
    told = np.array([[0.2, 1.0, 0.5], [0.4, math.nan, 0.7]])
    problem = stated(lambda x, y: 1 / y.a, ranges={"a": (0.0, None)})
    assert problem.structure[0].kind == "monotone"
    upper = composite(problem, told=told).values(np.array([[0.05, 0.9]]), [0.999])
    assert upper.item() == pytest.approx(1 / (1e-4 * 0.2))  # a ten-thousandth of the way to the smallest value told


@pytest.mark.parametrize("scale", [1e-9, 1e9])
def test_rescaling_g_changes_nothing_but_units(scale):
    plain = composite(stated(*EVERY))
    scaled = composite(stated(*(lambda x, y, f=f: scale * f(x, y) for f in EVERY)))
    for levels in ([0.05] * 6, [0.95] * 6):
        values, slopes = plain.values_and_slopes(U, levels)
        theirs, their_slopes = scaled.values_and_slopes(U, levels)
        np.testing.assert_allclose(theirs / scale, values, rtol=1e-11, atol=1e-12)
        np.testing.assert_allclose(their_slopes / scale, slopes, rtol=1e-9, atol=1e-10)


def test_rescaling_x_changes_nothing_but_units():
    def milli(x, y):
        return 2 * y.a - (x.p / 1000) * y.b + x.q / 1000

    plain = composite(stated(affine))
    other = pied.Problem({"p": (0.0, 2000.0), "q": (-1000.0, 1000.0)}, ["a", "b", "c"], maximize=milli)
    np.testing.assert_allclose(composite(other).values(U, [0.95]), plain.values(U, [0.95]), rtol=1e-12, atol=0)


@pytest.mark.parametrize("scale", [1e-9, 1e9])
def test_rescaling_outputs_changes_nothing_but_units(scale):
    belief = Normals(lambda u: scale * mean(u), lambda u: scale * std(u))
    names = (affine, least_squares, product)
    scaled = [lambda x, y, f=f: f(x, pied.Named(list(y.keys()), y.array / scale)) for f in names]
    theirs = composite(stated(*scaled), belief).values(U, [0.95] * 3)
    np.testing.assert_allclose(theirs, composite(stated(*names)).values(U, [0.95] * 3), rtol=1e-9, atol=1e-9)


# ----------------------------------------------------------------------------------------------- levels and estimators


def test_levels_too_extreme_to_sample_are_refused_with_the_reason():
    extreme = 1 - 1e-6
    with pytest.raises(SettingError, match=r"too extreme to be sampled .* closed form"):
        composite(stated(affine, product)).values(U, [extreme] * 2)
    with pytest.raises(SettingError, match="too extreme"):
        composite(stated(product)).values_and_slopes(U, [1 - extreme])
    closed = composite(stated(affine, monotone, white)).values(U, [extreme] * 3)
    median = composite(stated(affine, monotone, white)).values(U, [0.5] * 3)
    assert np.isfinite(closed).all()
    assert ((closed - median)[:, :2] > 0).all()


def test_whether_a_level_is_offered_can_be_asked_before():
    closed, sampled = composite(stated(affine, monotone)), composite(stated(affine, product))
    assert closed.offers(1 - 1e-9)
    assert sampled.offers(0.99)
    assert not sampled.offers(1 - 1e-6)
    assert not sampled.offers(1e-6)


def test_three_standard_deviations_can_be_sampled():
    level = float(norm.cdf(3.0))
    C = composite(stated(product))
    assert C.estimator.needed(level, 512) == 4096
    assert error(stated(product), Normals(mean, std), (0.5, level)) < 0.05


def test_closed_forms_can_be_switched_off():
    problem = stated(affine, monotone)
    sampled = composite(problem, estimator=Estimator(closed_forms=False)).values(U, [0.95] * 2)
    closed = composite(problem).values(U, [0.95] * 2)
    assert not np.array_equal(sampled, closed)
    np.testing.assert_allclose(sampled, closed, rtol=0.02, atol=0.02)


@pytest.mark.parametrize("kind", ["order", "soft", "harrell-davis"])
@pytest.mark.parametrize("sobol", [True, False])
def test_estimators_are_the_ones_of_quantile_on_the_same_base_samples(kind, sobol):
    problem = stated(product)
    C = composite(problem, estimator=Estimator(kind=kind, samples=50, screening=20, softness=0.3, sobol=sobol))
    stream = Stream(1).at("trial", 1)
    for screening, L in ((False, 128 if kind == "harrell-davis" else 50), (True, 20)):
        if kind == "harrell-davis":
            L = C.estimator.needed(0.95, 20 if screening else 50)
        Z = stream.sobol_normal(L, 3) if sobol else stream.normal(L, 3)
        mu, sigma = Normals(mean, std).moments(U)
        (G,) = problem.g(problem.from_unit(U), mu + sigma * Z[:, None, :])
        expected = {
            "order": lambda G=G: quantile.order_statistic(G, 0.95),
            "soft": lambda G=G: quantile.soft_order_statistic(G, 0.95, 0.3),
            "harrell-davis": lambda G=G: quantile.harrell_davis(G, 0.95),
        }[kind]()
        np.testing.assert_allclose(C.values(U, [0.95], screening=screening)[:, 0], expected, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("words", [{"kind": "hardest"}, {"samples": 1}, {"screening": 0}, {"softness": 0.0}])
def test_estimators_that_cannot_work_are_refused(words):
    with pytest.raises(SettingError, match="estimator"):
        Estimator(**words)


def test_base_samples_stay_the_same_for_the_life_of_a_composite():
    C = composite(stated(product))
    assert np.array_equal(C.values(U, [0.95]), C.values(U, [0.95]))
    other = Composite(stated(product), Normals(mean, std), Stream(1).at("trial", 2))
    assert not np.array_equal(C.values(U, [0.95]), other.values(U, [0.95]))


# ---------------------------------------------------------------------------------------------------------- not finite


def root(x, y):
    return np.sqrt(y.a) + 10 * x.p


def test_samples_that_are_not_finite_count_as_worst_with_one_warning(caplog):
    C = composite(stated(affine, root, product))
    point = np.array([[0.1, 0.9]])  # a is 0.30 +- 0.47: a quarter of the samples has no root
    with caplog.at_level(logging.WARNING):
        lower, median, upper = C.bounds(point, 0.95)
        C.values_and_slopes(point, [0.95] * 3)
    assert [record.message for record in caplog.records] == [
        "'g1' is not finite for some plausible outputs: those count as worst"
    ]
    X = C.problem.from_unit(point)
    assert lower[0, 1] < 0  # a constraint cannot be met by what is not a number
    z = norm.isf(0.05)  # of the whole distribution, bad quarter included
    mu, sigma = (float(each[0, 0]) for each in Normals(mean, std).moments(point))
    assert float(upper[0, 1]) == pytest.approx(math.sqrt(mu + z * sigma) + 10 * float(X[0, 0]), rel=0.01)
    assert median[0, 1] > 0


def test_slopes_stay_right_where_some_samples_are_not_finite():
    C = composite(stated(root))
    point = np.array([0.1, 0.9])
    _, slopes = C.values_and_slopes(point[None], [0.95])
    theirs = numeric_slope(lambda v: C.values(v[None], [0.95])[0], point, 1e-6)
    np.testing.assert_allclose(slopes[0], theirs, rtol=1e-3, atol=1e-5)


def test_a_point_where_nothing_is_finite_is_worse_than_the_others():
    def log_below(x, y):
        return np.log(x.p - 1 + 1e-9 * y.a * y.b)

    C = composite(stated(log_below, lambda x, y: log_below(x, y) + 100))
    points = np.array([[0.1, 0.5], [0.6, 0.5], [0.9, 0.5]])
    together = C.values(points, [0.95] * 2)
    alone = np.concatenate([C.values(point[None], [0.95] * 2) for point in points])
    np.testing.assert_allclose(together, alone)
    assert np.isfinite(together).all()
    assert (together[0] < together[1:]).all()
    assert together[0, 1] < 0
    values, slopes = C.values_and_slopes(points, [0.95] * 2)
    np.testing.assert_allclose(values, together)
    assert np.isfinite(slopes).all()


def test_white_functions_and_closed_forms_that_are_not_finite_count_as_worst(caplog):
    C = composite(stated(affine, lambda x, y: np.log(x.p - 1), lambda x, y: np.log(y.a) + 5, ranges={"a": (0.0, None)}))
    assert [each.kind for each in C.problem.structure] == ["affine", "white", "monotone"]
    point = np.array([[0.1, 0.9]])
    with caplog.at_level(logging.WARNING):
        lower = C.values(point, [0.05] * 3)
        _, slopes = C.values_and_slopes(point, [0.05] * 3)
    assert len(caplog.records) == 2
    assert np.isfinite(lower).all()
    assert (lower[0, 1:] < 0).all()
    assert np.isfinite(slopes).all()


# ------------------------------------------------------------------------------------------------ many points, misuse


@pytest.mark.slow
def test_many_points_are_evaluated_in_pieces_with_the_same_result():
    C = composite(stated(affine, product))
    many = Stream(0).sobol(20_000, 2)
    assert len(many) * 128 * 3 > NUMBERS_AT_ONCE  # more than one piece
    whole = C.values(many, [0.95] * 2, screening=True)
    pieces = np.concatenate([C.values(each, [0.95] * 2, screening=True) for each in np.array_split(many, 7)])
    np.testing.assert_allclose(whole, pieces, rtol=1e-12, atol=1e-12)


def test_probability_of_feasibility_equals_the_normal_law():
    problem = stated(affine, lambda x, y: y.a, lambda x, y: y.b - 1.2, white)
    each, joint = composite(problem).probability(U)
    mu, sigma = Normals(mean, std).moments(U)
    exact = norm.cdf((mu[:, :2] - [0.0, 1.2]) / sigma[:, :2])
    np.testing.assert_allclose(each[:, :2], exact, rtol=0, atol=2e-3)  # 4096 Sobol points
    white_holds = (white(*(pied.Named(("p", "q"), problem.from_unit(U)),) * 2) >= 0).astype(float)
    assert np.array_equal(each[:, 2], white_holds)
    np.testing.assert_allclose(joint, exact.prod(-1) * white_holds, rtol=0, atol=4e-3)


def test_probability_without_constraints_is_one():
    each, joint = composite(stated(affine)).probability(U)
    assert each.shape == (2, 0)
    assert joint.tolist() == [1.0, 1.0]


def test_probability_counts_what_is_not_a_number_as_not_met():
    each, _ = composite(stated(affine, lambda x, y: 1 / np.maximum(y.a, 0))).probability(U)
    mu, sigma = Normals(mean, std).moments(U)
    np.testing.assert_allclose(each[:, 0], norm.cdf((mu / sigma)[:, 0]), rtol=0, atol=2e-3)


@pytest.mark.parametrize("side", [1, -1])
def test_a_function_wrongly_taken_for_affine_is_named(side):
    def bent(x, y):
        kink = side * (y.a - x.p) - 0.1
        return y.a + y.b + np.maximum(kink, 0) ** 2

    problem = stated(bent, affine)
    object.__setattr__(problem, "structure", (Structure("affine", (0, 1)), problem.structure[1]))
    C = composite(problem, Normals(lambda u: np.stack([2 * u[0], u[1], u[1]]), std))
    assert misjudged(C, U[:1], 0.95) == ("bent",)


def test_affine_functions_are_not_accused():
    C = composite(stated(affine, lambda x, y: 1e9 + 1e-3 * y.a, white, product))
    for u in Stream(2).sobol(20, 2):
        assert misjudged(C, u[None], 0.95) == ()


def test_an_extreme_bound_is_screened_as_a_usual_one_of_a_wider_belief():
    """Exact where g is affine; of a product about as good, with a thirtieth of the samples."""
    level = quantile.level_of(3.0)
    problem = stated(affine, lambda x, y: y.a * y.b)
    composite = Composite(problem, Normals(mean, std), Stream(0))
    bounds = Bounds(composite, (None, level))
    rough = bounds.coarse()
    assert rough is not None
    assert rough.composite.screens(rough.levels)
    assert not composite.screens(bounds.levels)
    (low, high), median = (each.values(U)[:, 1] for each in (rough, bounds)), composite.values(U, (None, 0.5))[:, 1]
    assert np.abs(low - high).max() < 0.2 * np.abs(high - median).max()
    assert rough.values(U)[:, 0] == pytest.approx(bounds.values(U)[:, 0])
    closed = optimistic(Composite(stated(affine), Normals(mean, std), Stream(0)), level)
    assert closed.coarse() is None
