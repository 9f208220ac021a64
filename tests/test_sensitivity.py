"""Shadow prices and sensitivities against finite differences of the true optimum."""

import math
from dataclasses import replace

import numpy as np
import pytest

import pied
from decisions import best, mixed, study
from pied.study.sensitivity import multipliers, sensitivities

pytestmark = pytest.mark.slow
STEP = 1e-3
"""Of the differences of the true optimum."""
WORDS = {"waste limit": "limit", "price": "price", "cost": "cost"}
AT = {"limit": 0.8, "price": 2.0, "cost": 0.5}


def truth(name):
    """Slopes of the true optimum by a constant or limit: value, then settings."""
    word = WORDS[name]
    high, low = (best(**{word: AT[word] + side * STEP}) for side in (1, -1))
    return [(a - b) / (2 * STEP) for a, b in zip(high, low, strict=True)]


@pytest.fixture(scope="module")
def settled():
    return study()


@pytest.fixture(scope="module")
def found(settled):
    return settled.sensitivities()


@pytest.mark.parametrize("name", WORDS)
def test_rates_and_moves_are_those_of_the_true_optimum(found, name):
    each = found.limits.get(name) or found.constants[name]
    value, a, b = truth(name)
    assert each.rate == pytest.approx(value, rel=0.01)
    assert each.bounds[0] <= each.rate <= each.bounds[1]
    assert each.move == pytest.approx({"a": a, "b": b}, abs=0.02)
    assert each.percent == pytest.approx(0.01 * each.at * value, rel=0.01)


def test_the_recommended_settings_hold_within_the_stated_range(settled, found):
    x = settled.result().x
    low, high = found.limits["waste limit"].holds
    assert low == pytest.approx(0.8, abs=1e-3)  # a tighter limit is broken at once
    value = best()[0]
    assert value >= 0.99 * best(limit=high)[0] - 1e-3
    assert value < 0.99 * best(limit=high + 0.01)[0] + 1e-3
    below = found.constants["price"].holds[0]
    here = below * (math.sin(2 * x["a"]) + x["b"] - 0.3 * x["b"] ** 2) - 0.5 * x["a"]
    assert here == pytest.approx(best(price=below)[0], rel=0.011)


def test_bounds_are_wide_where_little_is_known_and_narrow_where_much_is(found):
    early = study(budget=6, older=0).result().sensitivities
    wide, narrow = (each.limits["waste limit"].bounds for each in (early, found))
    assert wide[1] - wide[0] > narrow[1] - narrow[0]


def test_bounds_are_widened_by_what_the_study_has_seen_of_its_errors():
    made = study(budget=1, older=8)
    caution = made.outlook.snapshot.settings.believer.caution(made.problem, made.outlook.data, made.outlook.level)
    assert (caution > 1.5).all()  # few points were predicted yet
    wide = made.sensitivities().limits["waste limit"].bounds
    plain = replace(made.outlook)
    plain.__dict__["_careful"] = made.outlook.snapshot.belief
    narrow = sensitivities(plain).limits["waste limit"].bounds
    assert wide[1] - wide[0] > 1.3 * (narrow[1] - narrow[0])


def test_the_result_has_them_in_print_and_in_json(settled):
    result = settled.result()
    assert "waste limit: 1 % looser brings about 0.012" in str(result)
    data = result.to_dict()["sensitivities"]
    assert data["limits"]["waste limit"]["rate"] == pytest.approx(truth("waste limit")[0], rel=0.01)
    assert data["constants"]["price"]["holds"] is None  # it takes longer and was not asked for


def test_a_limit_that_does_not_bind_has_no_price(settled):
    loose = study(subject_to={"waste limit": "waste <= 0.8", "loose": "product <= 100"})
    each = loose.result().sensitivities.limits["loose"]
    assert each.rate == 0.0
    assert not each.binds
    assert "loose: 1 %" not in str(loose.result())


def test_a_limit_that_binds_in_a_corner_brings_nothing_when_it_is_relaxed():
    free, ones = np.ones(2, dtype=bool), np.ones(2)
    slopes = np.array([[3.0, 2.0], [-1.0, -1.0]])  # a + b <= 2 where both settings are at their ends, 1
    balanced, gains = multipliers(np.array([5.0, 0.0]), slopes, ones, free, ones)
    assert gains == pytest.approx([0.0], abs=1e-6)
    inside = np.array([0.5, 0.5])  # the same slopes, along the limit
    balanced, gains = multipliers(np.array([5.0, 0.0]), np.array([[2.0, 2.0], [-1.0, -1.0]]), inside, free, ones)
    assert balanced == pytest.approx([2.0])
    assert gains == pytest.approx([2.0])


def test_of_two_limits_that_say_the_same_neither_brings_anything_alone():
    free, ones = np.ones(1, dtype=bool), np.ones(3)
    slopes = np.array([[3.0], [-1.0], [-2.0]])  # a <= 1/2 and 2 a <= 1
    _, gains = multipliers(np.array([1.5, 0.0, 0.0]), slopes, np.array([0.5]), free, ones)
    assert gains == pytest.approx([0.0, 0.0], abs=1e-6)


def test_settings_with_listed_values_are_held_and_that_is_said():
    found = mixed().result().sensitivities
    assert "tanks, solvent stay as they are" in found.remark
    assert found.constants["price"].rate == pytest.approx(1.3 * 3**0.5, rel=1e-3)  # three tanks are best
    assert np.isfinite(found.constants["price"].bounds).all()


def test_without_a_feasible_point_there_are_none():
    made = study(budget=2, older=4, subject_to={"waste limit": "waste <= -1"})
    assert made.result().sensitivities is None
    assert made.sensitivities() is None
    assert pied.Study(made.problem, seed=0).result().sensitivities is None
