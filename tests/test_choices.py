"""What an output is modelled with: warps, scales of the inputs, choices, their schedule and their memory."""

import json
import math

import numpy as np
import pytest

from beliefs import PLAIN, SCALES, V, chosen, fixed, numeric_slope, points, scales_of, wavy
from pied import suite
from pied.errors import SettingError
from pied.gp import GP
from pied.gp.choices import Model, ModelChoice
from pied.gp.features.view import stretched
from pied.gp.kernels import KERNELS
from pied.gp.observations import Observations
from pied.gp.warps import WARPS, Warp, standardization
from pied.rng import Stream

# --------------------------------------------------------------------------------------------------------------- warps


@pytest.mark.parametrize(
    ("name", "y"),
    [
        ("none", [-1.0, 2.0, 5.0]),
        ("log", [0.1, 2.0, 50.0]),
        ("log", [-0.1, -2.0, -50.0]),
        ("shifted log", [-3.0, 0.5, 9.0]),
        ("logit", [-1.0, -0.95, -0.9, 0.2, 0.9, 0.95, 1.0]),
    ],
)
def test_warps_go_there_and_back_and_keep_the_order(name, y):
    y = np.array(y)
    warp = Warp.of(name, y)
    gp = fixed(points(len(y)), y, warp=name, nugget=1e-4)
    np.testing.assert_allclose(gp.unwarp(warp.forward(y)[:, None])[:, 0], y, rtol=1e-12, atol=1e-12)
    line = np.linspace(-4, 4, 50)[:, None]
    assert (np.diff(gp.unwarp(line), axis=0) > 0).all()
    jacobian = (warp.forward(y * (1 + 1e-6)) - warp.forward(y * (1 - 1e-6))) / (2e-6 * y)
    np.testing.assert_allclose(gp.unwarp_slopes(y[:, None])[:, 0] * jacobian, 1.0, rtol=1e-7)  # differences at 1e-6
    slopes = jacobian * warp.unit / 3.0
    assert warp.log_slopes(y, 3.0) == pytest.approx(float(np.log(slopes).sum()), abs=1e-8)  # differences at 1e-6


@pytest.mark.parametrize("name", ["log", "shifted log", "logit"])
@pytest.mark.parametrize("size", [2.0**-1000, 2.0**-30, 2.0**60, 2.0**1020])
def test_logarithms_do_not_see_units(name, size):
    y = np.array([0.1, 0.2, 0.3, 2.0, 6.7, 6.8, 7.0])
    warp, other = Warp.of(name, y), Warp.of(name, size * y)
    assert np.array_equal(warp.forward(y), other.forward(size * y))
    assert warp.log_slopes(y, 3.0) == other.log_slopes(size * y, 3.0)
    gp = fixed(points(7), size * y, warp=name, nugget=1e-4)
    assert np.isfinite(gp.unwarp(np.full((1, 1), 1e6))).all()
    if size < 2.0**1000:  # beyond, values end at what a double can be the exponential of
        np.testing.assert_allclose(gp.unwarp(other.forward(size * y)[:, None])[:, 0], size * y, rtol=1e-12, atol=0.0)


def test_warps_refuse_what_they_cannot_take():
    mixed, constant = np.array([-1.0, 1.0]), np.array([2.0, 2.0])
    assert Warp.of("log", mixed) is None
    assert Warp.of("log", constant) is None
    assert Warp.of("shifted log", constant) is None
    assert Warp.of("logit", np.full(9, 2.0)) is None
    assert Warp.of("none", 5.0 * mixed) == Warp("none", unit=4.0)


def test_a_logit_is_for_outputs_with_many_values_at_both_ends():
    inside = np.linspace(0.2, 0.8, 14)
    assert Warp.of("logit", np.array([0.0, 0.01, 0.02, *inside, 0.98, 0.99, 1.0])) is not None
    assert Warp.of("logit", np.array([0.0, 0.01, *inside, 0.98, 0.99, 1.0])) is None
    assert Warp.of("logit", np.array([0.0, 0.01, 0.02, *inside, *inside, 0.98, 0.99, 1.0])) is None
    for kind in ("gp", "steep", "oscillating"):
        smooth = suite.random(0, kind=kind)
        Y = smooth.outputs(smooth.whole.from_unit(Stream(1).at(kind).sobol(10 * smooth.whole.d, smooth.whole.d)))
        assert all(Warp.of("logit", y) is None for y in Y.T)


@pytest.mark.parametrize(
    ("name", "below", "above"), [("log", -1e300, None), ("shifted log", -1e300, None), ("logit", -1e300, 1e300)]
)
def test_a_value_that_a_warp_excludes_is_out_of_reach(name, below, above):
    warp = Warp.of(name, np.array([0.1, 0.11, 0.12, 2.0, 6.98, 6.99, 7.0]))
    assert warp.threshold(2.0) == warp.forward(np.array([2.0]))[0]
    with np.errstate(all="ignore"):
        assert warp.threshold(-1.0) == below
        assert warp.threshold(8.0) == above or (above is None and warp.threshold(8.0) > warp.threshold(7.0))


def test_a_learned_noise_allows_no_logit():
    U = points(20)
    y = np.tanh(20 * (U[:, 0] - 0.5))
    assert GP.fit(U, y[:, None]).choices[0].warp == "logit"
    assert GP.fit(U, y[:, None], noise=[None]).choices[0].warp != "logit"


def test_a_front_between_two_levels_is_followed_by_its_logit():
    """A breakthrough: nothing, then everything; between them a front whose place depends on both inputs."""

    def f(U):
        return 120.0 / (1.0 + np.exp(-25.0 * (U[:, 0] - 0.3 - 0.4 * U[:, 1] ** 2))) + 0.1 * U[:, 1]

    errors = []
    for seed in range(5):
        U, other = Stream(seed).at("told").sobol(20, 2), Stream(seed).at("other").sobol(200, 2)
        without = GP.fit(U, f(U)[:, None], model=Model(warps=("none", "log", "shifted log")))
        gp = GP.fit(U, f(U)[:, None])
        errors.append([np.abs(each.unwarp(each.moments(other)[0])[:, 0] - f(other)).mean() for each in (gp, without)])
        assert gp.choices[0].warp == "logit"
    ratios = np.divide(*np.transpose(errors))
    assert np.median(ratios) < 0.3
    assert (ratios < 0.8).all()


def test_quantiles_are_carried_through_the_warp():
    U = points(16)
    y = np.exp(6 * U[:, 0] + U[:, 1])
    gp = fixed(U, y, warp="log", nugget=1e-4)
    mean, deviation = gp.moments(V)
    Z = Stream(6).normal(200_001, 1)
    samples = gp.unwarp(mean[:1] + deviation[:1] * Z)[:, 0]
    for level, z in ((0.05, -1.6449), (0.5, 0.0), (0.95, 1.6449)):
        share = (samples < gp.unwarp(mean[:1] + z * deviation[:1])[0, 0]).mean()
        assert float(share) == pytest.approx(level, abs=0.002)


def test_unwarping_far_out_stays_finite():
    gp = fixed(points(3), np.array([0.1, 2.0, 50.0]), warp="log")
    assert np.isfinite(gp.unwarp(np.array([[1e6], [-1e6]]))).all()


# ----------------------------------------------------------------------------------------------------- standardization


@pytest.mark.parametrize("values", [[3.0], [0.0], [], [2.0, 2.0], [1.0, 5.0, 9.0], [1e308, -1e308], [1e-300, 3e-300]])
def test_standardization_is_the_mean_and_deviation_of_any_size(values):
    location, spread = standardization(np.array(values))
    assert spread > 0
    assert math.isfinite(location)
    assert math.isfinite(spread)
    if len(set(values)) > 1:
        scale = max(map(abs, values))
        small = np.array(values) / scale
        assert location / scale == pytest.approx(float(small.mean()), abs=1e-12)
        assert spread / scale == pytest.approx(float(small.std()), rel=1e-12)


# ---------------------------------------------------------------------------------------- inputs on a logarithmic scale

RATIOS = np.array([1000.0, 1.0])


def test_stretched_points_are_logarithms_of_natural_ones():
    lo, hi = 0.02, 20.0
    x = lo + (hi - lo) * V[:, 0]
    inner = stretched(V, RATIOS[None])[0]
    np.testing.assert_allclose(inner[:, 0], np.log(x / lo) / math.log(hi / lo), rtol=1e-12, atol=1e-12)
    assert np.array_equal(inner[:, 1], V[:, 1])


@pytest.mark.parametrize(("kernel", "trend"), [("squared exponential", "quadratic"), ("matern 3/2", "linear")])
def test_moments_on_a_logarithmic_scale_equal_those_at_stretched_points(kernel, trend):
    U = points(14)
    y = wavy(U)
    gp = fixed(U, y, kernel, trend, nugget=1e-4, ratios=RATIOS)
    inner = fixed(stretched(U, RATIOS[None])[0], y, kernel, trend, nugget=1e-4)
    for ours, theirs in zip(gp.moments(V), inner.moments(stretched(V, RATIOS[None])[0]), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-8, atol=1e-8)
    _, _, mean_slope, deviation_slope = gp.moments_and_slopes(V)
    for i, u in enumerate(V):
        for part, slope in enumerate((mean_slope, deviation_slope)):
            theirs = numeric_slope(lambda v, part=part: gp.moments(v[None])[part][0], u, 1e-6)
            np.testing.assert_allclose(slope[i], theirs, rtol=1e-4, atol=1e-5)
    after = gp.imagine(V[:2])
    np.testing.assert_allclose(after.moments(V)[0], gp.moments(V)[0], rtol=1e-7, atol=1e-7)
    assert (after.moments(V)[1] <= gp.moments(V)[1] * (1 + 1e-9)).all()


def test_a_power_law_is_recognized_on_a_logarithmic_scale():
    U = points(14)

    def law(points):
        return (1 + 999 * points[:, 0]) ** -0.7 * (1 + points[:, 1])

    gp = GP.fit(U, law(U)[:, None], ratios=RATIOS)
    assert gp.choices[0].scale == "log"
    np.testing.assert_allclose(gp.unwarp(gp.moments(V)[0])[:, 0], law(V), rtol=0.02, atol=0)
    assert GP.fit(U, law(U)[:, None]).choices[0].scale == "plain"  # nothing known of the ratio of the bounds


# ------------------------------------------------------------------------------------------------------------- choices


@pytest.mark.parametrize("trend", ["constant", "linear", "quadratic"])
def test_a_polynomial_is_recognized_as_one(trend):
    U = points(20)
    y = {
        "constant": lambda: np.sin(14 * U[:, 0]) * np.cos(11 * U[:, 1]),
        "linear": lambda: 3 * U[:, 0] - 2 * U[:, 1] + 1e-3 * np.sin(20 * U[:, 0]),
        "quadratic": lambda: (3 * U[:, 0] - 1) ** 2 + U[:, 0] * U[:, 1] + 1e-3 * np.sin(20 * U[:, 0]),
    }[trend]()
    gp = GP.fit(U, y[:, None], model=Model(warps=("none",), waves=False))
    assert gp.choices[0].trend == trend


def test_a_quadratic_is_learned_exactly():
    U = points(12)
    f = lambda X: (3 * X[:, 0] - 1) ** 2 + X[:, 0] * X[:, 1] - 1  # noqa: E731
    gp = GP.fit(U, f(U)[:, None])
    assert gp.choices[0].trend == "quadratic"
    np.testing.assert_allclose(gp.moments(V)[0][:, 0], f(V), rtol=0, atol=1e-6)


def test_an_exponential_is_recognized_as_one():
    U = points(20)
    f = lambda X: np.exp(7 * X[:, 0] - 3 * X[:, 1] * X[:, 0])  # noqa: E731
    gp = GP.fit(U, f(U)[:, None])
    assert gp.choices[0].warp == "log"
    np.testing.assert_allclose(gp.unwarp(gp.moments(V)[0])[:, 0], f(V), rtol=1e-3, atol=0)
    assert GP.fit(U, -f(U)[:, None]).choices[0].warp == "log"


def test_roughness_is_recognized():
    U = points(50, 1)
    rough = np.abs(U - Stream(4).uniform(1, 12)) @ Stream(4).normal(12)  # a dozen kinks
    gp = GP.fit(U, np.stack([rough, np.sin(6 * U[:, 0])], -1), model=Model(trends=("constant",), warps=("none",)))
    assert gp.choices[0].kernel != "squared exponential"
    assert gp.choices[1].kernel == "squared exponential"


def test_a_trend_needs_rows_to_spare():
    U = points(12, 3)
    for n, trends in ((6, {"constant"}), (8, {"constant", "linear"}), (12, {"constant", "linear"})):
        chosen = GP.fit(U[:n], (U[:n, 0] ** 2 + U[:n, 1] * U[:n, 2])[:, None]).choices[0].trend
        assert chosen in trends  # 1, 4 and 10 columns, and three rows more


def test_hysteresis_keeps_the_choice_unless_another_is_clearly_better():
    U = points(24)
    y = wavy(U)[:, None]
    fresh = GP.fit(U, y, model=PLAIN).choices[0]
    other = next(kernel for kernel in KERNELS if kernel != fresh.kernel)
    old = chosen(other, fresh.trend, "none", theta=fresh.theta, n=16, fitted=24)
    loyal = Model(warps=("none",), declustering=None, hysteresis=1e6, reselect=8)
    assert GP.fit(U, y, model=loyal, previous=[old]).choices[0].kernel == other
    fickle = Model(warps=("none",), declustering=None, hysteresis=0.0, reselect=8)
    assert GP.fit(U, y, model=fickle, previous=[old]).choices[0].kernel == fresh.kernel


def test_selection_and_refits_follow_their_schedule():
    U = points(60)
    y = wavy(U)[:, None]
    model = Model(("matern 5/2", "matern 3/2"), ("constant",), ("none",), reselect=8, always_refit=40, refit=3)
    choices, history = None, []
    for n in (10, 11, 17, 18, 39, 40, 41, 42, 43, 47, 55):
        choices = GP.fit(U[:n], y[:n], model=model, previous=choices).choices
        history.append((n, choices[0].selected, choices[0].fitted))
    selected = {n: each for n, each, _ in history}
    fitted = {n: each for n, _, each in history}
    assert selected == {10: 10, 11: 10, 17: 10, 18: 18, 39: 39, 40: 39, 41: 39, 42: 39, 43: 39, 47: 47, 55: 55}
    assert fitted == {10: 10, 11: 11, 17: 17, 18: 18, 39: 39, 40: 40, 41: 40, 42: 40, 43: 43, 47: 47, 55: 55}


def test_many_outputs_are_explained_as_well_as_each_alone():
    U = points(24)
    frequencies = np.linspace(1.0, 3.0, 10)
    Y, truth = (np.sin(V_[:, :1] * frequencies) + V_[:, 1:2] ** 2 for V_ in (U, V))
    alone = np.concatenate([GP.fit(U, Y[:, j : j + 1]).moments(V)[0] for j in (0, 4, 9)], 1)
    together = GP.fit(U, Y).moments(V)[0][:, [0, 4, 9]]
    errors = [np.abs(each - truth[:, [0, 4, 9]]).max(0) for each in (together, alone)]
    assert (errors[0] <= 10.0 * errors[1] + 1e-3).all()


def test_a_wave_is_sought_in_every_one_of_many_outputs_in_turn():
    from pied.gp.selection import SOUGHT_AT_ONCE, _is_sought

    turns = [0] * 19
    for n in range(20, 120, Model().reselect):
        data = Observations.of(
            np.zeros((n, 1)), np.zeros((n, 19)), np.ones((19, 1), dtype=bool), np.ones(1), [0.0] * 19, Model()
        )
        chosen = [j for j in range(19) if _is_sought(data, j)]
        assert len(chosen) <= SOUGHT_AT_ONCE
        for j in chosen:
            turns[j] += 1
    assert min(turns) >= 4


def test_a_choice_that_is_no_longer_possible_is_made_anew():
    U = points(12)
    old = chosen("matern 5/2", "constant", "log", theta=scales_of(SCALES, 1e-8), n=12)
    gp = GP.fit(U, (wavy(U) - 2.5)[:, None], previous=[old])  # now with both signs
    assert gp.choices[0].warp != "log"


def test_what_another_version_learned_of_an_output_besides_is_ignored():
    choice = GP.fit(points(), wavy(points())[:, None]).choices[0]
    assert ModelChoice.from_dict({**choice.to_dict(), "uneven": [0.1, 0.2]}) == choice


@pytest.mark.parametrize("noise", [0.0, None, 0.05])
def test_a_belief_is_rebuilt_from_its_stored_choices(noise):
    U = points(20)
    Y = np.stack([wavy(U), np.exp(5 * U[:, 0])], -1)
    first = GP.fit(U, Y, noise=[noise, 0.0])
    stored = json.loads(json.dumps([choice.to_dict() for choice in first.choices]))
    again = GP.fit(U, Y, noise=[noise, 0.0], previous=[ModelChoice.from_dict(each) for each in stored])
    assert again.choices == first.choices
    for ours, theirs in zip(again.moments_and_slopes(V), first.moments_and_slopes(V), strict=True):
        assert np.array_equal(ours, theirs)


def test_a_warm_start_is_as_good_as_a_cold_one():
    U = points(21)
    y = wavy(U)[:, None]
    model = Model(kernels=("matern 5/2",), trends=("constant",), warps=("none",))
    warm = GP.fit(U, y, model=model, previous=GP.fit(U[:20], y[:20], model=model).choices)
    cold = GP.fit(U, y, model=model)
    np.testing.assert_allclose(warm.theta[:, :2], cold.theta[:, :2], rtol=0, atol=0.05)  # both near the optimum
    np.testing.assert_allclose(warm.moments(V)[0], cold.moments(V)[0], rtol=1e-2, atol=1e-2)


def test_fitting_does_not_depend_on_global_generators():
    U = points(15)
    np.random.seed(0)
    before = np.random.get_state()[1].copy()
    first = GP.fit(U, wavy(U)[:, None])
    assert np.array_equal(np.random.get_state()[1], before)
    np.random.seed(1)
    assert GP.fit(U, wavy(U)[:, None]).choices == first.choices


# ------------------------------------------------------------------------------------------------------------- settings


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ({"kernels": ("matern 7/2",)}, r"unknown kernel 'matern 7/2'\. Did you mean 'matern"),
        ({"trends": ("cubic",)}, "unknown trend 'cubic'"),
        ({"warps": ("root",)}, "unknown warp 'root'"),
        ({"scales": ("square",)}, "unknown scale 'square'"),
        ({"kernels": ()}, "at least one kernel"),
    ],
)
def test_unknown_settings_are_refused(words, sentence):
    with pytest.raises(SettingError, match=sentence):
        Model(**words)


def test_the_names_of_warps_are_known():
    assert all(Model(warps=(name,)).warps == (name,) for name in WARPS)


def jump(U):
    """A change of regime: two levels and nothing between them."""
    return np.sin(3 * U[:, 0]) + 2.0 * (U[:, 0] > 0.5)


def around_the_jump():
    """Points anywhere, and close to the jump on both sides, as a search for its edge asks for them."""
    return np.concatenate([points(12, 1), 0.5 + np.linspace(-2e-3, 2e-3, 9)[:, None]])


def missed(gp, U, y):
    """By how much the last output is missed at told points, relative to its spread."""
    return float(np.abs(gp.unwarp(gp.moments(U)[0])[:, -1] - y).max() / y.std())


def test_an_output_that_jumps_is_believed_where_it_was_told():
    U = around_the_jump()
    y = jump(U)
    assert missed(GP.fit(U, y[:, None]), U, y) < 2e-3


def test_a_choice_that_cannot_give_back_what_was_told_is_made_again():
    U = around_the_jump()
    y = jump(U)
    smooth = GP.fit(U[:-1], np.sin(3 * U[:-1]), model=Model(reselect=10**6))
    assert missed(GP.fit(U, y[:, None], model=Model(reselect=10**6), previous=smooth.choices), U, y) < 2e-3


def test_an_output_that_jumps_is_believed_in_a_group_too():
    U = around_the_jump()
    Y = np.stack([np.sin(3 * U[:, 0] + shift) for shift in np.arange(40)] + [jump(U)], 1)
    gp = GP.fit(U, Y)
    assert len(set(gp.choices)) == 1
    assert missed(gp, U, Y[:, -1]) < 2e-3
