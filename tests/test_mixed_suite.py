"""Problems with integers, standard sizes, choices and mixtures: check points, optima, and their enumeration."""

import itertools
import math

import numpy as np
import pytest

from pied import suite
from pied.problem import Choice
from pied.rng import Stream
from pied.suite.enumeration import Thoroughness, enumerate_settings, enumerated
from pied.suite.generator import CONTINUOUS
from pied.suite.machines import STEELS, WIRES
from pied.suite.processes import HALVINGS, RICH, VOLATILITY

NAMES = suite.sets["mixed"]
MOST = [pytest.param(name, marks=[pytest.mark.slow] * (name == "distillation-column")) for name in NAMES]
"""The column takes seconds for a pool of points."""
LITERATURE = {
    "pressure-vessel": (6059.714335, 1e-6),
    "speed-reducer": (2994.4710661, 1e-7),
    "coil-spring": (2.658559, 1e-6),
    "concrete-beam": (359.2080, 1e-9),
}
"""Published values and half a unit of their last digit."""


def test_the_set_has_every_kind_of_variable_and_is_not_part_of_the_papers():
    kinds = [each for name in NAMES for each in suite[name].whole.variables.values()]
    assert len(NAMES) >= 12
    assert any(each.is_choice and each.properties for each in kinds)
    assert any(each.whole for each in kinds)
    assert any(each.only for each in kinds)
    assert any(each.step for each in kinds)
    assert any(suite[name].whole.d < len(suite[name].whole.variables) for name in NAMES)  # a mixture
    assert all(name in suite for name in NAMES)
    assert not set(NAMES) & set(suite)
    assert len(WIRES) == 42
    assert sorted(STEELS) == list(STEELS)


@pytest.mark.parametrize("name", MOST)
def test_the_optimum_attains_its_value_can_be_set_and_is_feasible(name):
    benchmark = suite[name]
    for x in (benchmark.known.x, *benchmark.known.others):
        truth = benchmark.truth(x)
        assert benchmark.whole.user_value(truth[0, 0].item()) == pytest.approx(benchmark.known.value, rel=1e-11)
        assert (truth[0, 1:] >= -1e-10 * benchmark.scales[1:]).all()
        X = benchmark.whole.point(x)[None]
        np.testing.assert_array_equal(benchmark.settable(X), X)


@pytest.mark.parametrize("name", MOST)
def test_a_called_black_box_is_the_truth(name):
    """At one point by name and at many at once: the same outputs."""
    benchmark = suite[name]
    whole = benchmark.whole
    U = whole.settled(Stream(5).sobol(16, whole.d), Stream(6))
    X = benchmark.settable(whole.from_unit(U))
    Y = benchmark.outputs(X)
    assert np.isfinite(Y).all()
    for row, y in zip(X, Y, strict=True):
        x = {
            name: each.labels[round(value)] if isinstance(each, Choice) else value
            for (name, each), value in zip(whole.variables.items(), row.tolist(), strict=True)
        }
        np.testing.assert_allclose(whole.evaluate(x), y, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", MOST)
def test_no_point_of_a_large_pool_is_better(name):
    benchmark = suite[name]
    better = benchmark._pool[:, 0] > benchmark.best
    assert not (better & (benchmark._pool[:, 1:] >= 0).all(-1)).any()
    assert 0 < benchmark.feasible_fraction <= 1
    assert benchmark.normalized_regret(benchmark.known.x).item() == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize(("name", "published"), LITERATURE.items())
def test_optima_are_those_of_the_literature(name, published):
    assert suite[name].known.value == pytest.approx(published[0], abs=published[1])


def test_the_gear_train_is_the_best_of_all_pairs_of_ratios():
    """An oracle of another kind: every ratio of two products, sorted, instead of every setting."""
    teeth = range(12, 61)
    products = np.array(sorted({a * b for a, b in itertools.combinations_with_replacement(teeth, 2)}), dtype=float)
    error = np.abs(1 / 6.931 - products[:, None] / products).min()
    assert error**2 == pytest.approx(2.700857e-12, rel=1e-6)
    assert suite["gear-train"].known.value == pytest.approx(6.931 * error, rel=1e-6)


def test_the_column_closes_its_balances_and_its_stages():
    """Every stage is checked, from what the model returns: both balances, equilibrium, and the total condenser."""
    stages, feed, reflux, distillate = 18, 10, 1.5, 0.45
    found = suite["distillation-column"].whole.evaluate(
        {"stages": stages, "feed": feed, "reflux": reflux, "distillate": distillate}
    )
    x_top, x_bottom = found.tolist()
    assert distillate * x_top + (1 - distillate) * x_bottom == pytest.approx(RICH, rel=1e-12)
    liquid, vapour, x = reflux * distillate, (reflux + 1) * distillate, x_bottom
    for stage in range(1, stages + 1):
        y = VOLATILITY * x / (1 + (VOLATILITY - 1) * x)
        if stage < feed:
            x = (vapour * y + (1 - distillate) * x_bottom) / (liquid + 1)
        else:
            x = (vapour * y - distillate * x_top) / liquid
    assert y == pytest.approx(x_top, rel=1e-8)
    assert HALVINGS >= 53


def test_more_stages_or_more_reflux_separate_better():
    column = suite["distillation-column"].whole
    point = {"stages": 16, "feed": 8, "reflux": 1.5, "distillate": 0.45}
    top = column.evaluate(point)[0]
    assert column.evaluate(point | {"stages": 20, "feed": 10})[0] > top
    assert column.evaluate(point | {"reflux": 2.0})[0] > top


def test_extraction_is_kremsers_equation():
    left, _, _ = suite["extraction"].whole.evaluate({"solvent": "toluene", "stages": 5, "ratio": 2.0, "T": 30.0})
    factor = 2.0 * 0.75
    assert left == pytest.approx((factor - 1) / (factor**6 - 1), rel=1e-12)


def test_one_tank_and_many_tanks_are_those_of_the_textbook():
    cascade = suite["tank-cascade"].whole
    one = cascade.evaluate({"tanks": 1, "volume": 2.0, "flow": 2.0, "T": 60.0})
    k1, k2 = 1.9, 0.11  # at 60 C, times one hour
    assert one[0] == pytest.approx(1 / (1 + k1), rel=1e-12)
    assert one[1] == pytest.approx(k1 / ((1 + k1) * (1 + k2)), rel=1e-12)
    many = cascade.evaluate({"tanks": 4, "volume": 2.0, "flow": 2.0, "T": 60.0})
    assert many[0] == pytest.approx((1 + k1) ** -4, rel=1e-12)


# --- The enumeration itself -------------------------------------------------------------------------------------------


def test_enumeration_compares_settings_without_continuous_variables():
    def functions(which, U):
        return np.stack([-((which - 7.0) ** 2), 5.0 - which], -1)

    found = enumerate_settings(functions, 20, 0, stream=Stream(0))
    assert (found.setting, found.value, found.solved) == (5, -4.0, 20)
    assert enumerate_settings(lambda w, U: functions(w, U) - [0, 99], 20, 0, stream=Stream(0)) is None


def test_enumeration_solves_the_continuous_rest_in_a_narrow_feasible_set():
    """In setting i the best point is on the edge of a thin wedge; the best setting is known in closed form."""

    def functions(which, U):
        a, b = U.T
        height = a + b - 0.1 * (which - 3) ** 2
        return np.stack([height, 1e-3 - np.abs(a - 0.4 - 0.01 * which) * 0.1, 0.7 - b - a**2], -1)

    found = enumerate_settings(functions, 8, 2, stream=Stream(1))
    assert found.setting in (2, 3)
    best = max(
        a + 0.7 - a**2 - 0.1 * (i - 3) ** 2
        for i in range(8)
        for a in np.linspace(0.39 + 0.01 * i, 0.41 + 0.01 * i, 2001)
    )
    assert found.value == pytest.approx(best, abs=1e-9)
    assert found.complete


def test_enumeration_says_when_it_left_settings_out():
    found = enumerate_settings(
        lambda which, U: (0.0 * which - (U[:, 0] - 0.3) ** 2)[:, None],
        50,
        1,
        stream=Stream(2),
        effort=Thoroughness(whole=0, most=3),
    )
    assert found.value == pytest.approx(0, abs=1e-12)
    assert (found.solved, found.complete) == (3, False)


FAST = ("concrete-beam", "coolant-blend", "desalination")
"""Enumerated in seconds; the others take up to minutes."""


@pytest.mark.slow
@pytest.mark.parametrize("name", FAST)
def test_enumeration_finds_the_stated_optimum_again(name):
    check_enumeration(name)


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name in NAMES if name not in FAST])
def test_enumeration_finds_every_stated_optimum_again(name):
    check_enumeration(name)


def check_enumeration(name):
    """The best of all settings is the stated optimum."""
    benchmark = suite[name]
    found = enumerated(benchmark)
    unit = abs(benchmark.best - benchmark.median)
    assert benchmark.whole.user_value(found.value) == pytest.approx(benchmark.best, abs=1e-9 * unit)
    assert "only" not in found.source  # all settings that can compete were solved


# --- Random mixed problems --------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_random_mixed_problems_have_discrete_variables_of_every_kind():
    drawn = [suite.random(seed, "mixed") for seed in range(30)]
    variables = [each for one in drawn for each in one.whole.variables.values()]
    assert all(one.whole.grid is not None for one in drawn)
    assert any(each.is_choice for each in variables)
    assert any(each.whole for each in variables)
    assert any(each.only for each in variables)
    assert any(each.step for each in variables)
    assert any(not each.is_stepped for each in variables)
    sizes = [math.prod(len(v.levels()) for v in one.whole.variables.values() if v.is_stepped) for one in drawn]
    assert max(sizes) <= 150
    assert any(".grade" in str(one.whole.statement()) for one in drawn)


def test_a_seed_alone_never_chooses_a_mixed_problem():
    """The problems of all seeds stay what they were before there were mixed ones."""
    assert suite.kinds == (*CONTINUOUS, "mixed")
    assert [suite.random(seed, d=1, m=4, n=0).name.split("-")[0] for seed in (1, 2, 3)] == [
        CONTINUOUS[int(Stream(seed).at("random").at("kind").uniform(1).item() * 7)] for seed in (1, 2, 3)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 4, 5])
def test_no_point_of_a_large_pool_beats_the_optimum_of_a_random_mixed_problem(seed):
    drawn = suite.random(seed, "mixed", d=3)
    f = drawn.truth(Stream(9).sobol(2**14, 3), unit=True)
    feasible = (f[:, 1:] >= 0).all(-1)
    assert drawn.is_strictly_feasible(drawn.known.x).all()
    assert f[feasible, 0].max(initial=-np.inf) <= drawn.best + 1e-9 * abs(drawn.best - drawn.median)
