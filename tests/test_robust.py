"""Robust settings against brute force on the truth."""

import numpy as np
import pytest

from decisions import FIRST, SECOND, mixed, outputs, study
from pied import SettingError

pytestmark = pytest.mark.slow
STEP, PRICES = 0.05, (1.5, 2.5)


@pytest.fixture(scope="module")
def settled():
    return study()


def share_met(a, b, limit=0.8, size=4001):
    """The true probability that the waste limit is met when a varies."""
    return float((outputs(a + np.linspace(-STEP, STEP, size), b)["waste"] <= limit).mean())


def brute_force(probability):
    """The best true mean profit on a grid where the limit is met with a probability; the mean price is 2."""
    moved = np.linspace(-STEP, STEP, 101)[:, None] + FIRST
    y = outputs(moved, SECOND)
    value = (2.0 * y["product"] - 0.5 * moved).mean(0)
    return float(np.where((y["waste"] <= 0.8).mean(0) >= probability, value, -np.inf).max())


@pytest.mark.parametrize("probability", [0.8, 0.95])
def test_robust_settings_are_the_best_that_stay_allowed(settled, probability):
    found = settled.recommend("robust", vary={"a": STEP, "price": PRICES}, probability=probability)
    assert found.is_feasible
    assert share_met(*found.x.array) == pytest.approx(found.probability, abs=0.06)
    assert share_met(*found.x.array) >= probability - 0.05
    assert found.value == pytest.approx(brute_force(probability), abs=0.03)
    assert found.bounds[0] < found.value < found.bounds[1]
    assert "all limits are met with a probability of" in str(found)


def test_the_plain_optimum_is_not_robust(settled):
    assert share_met(*settled.result().x.array) < 0.7


def test_limits_and_numbers_may_vary(settled):
    found = settled.recommend("robust", vary={"waste limit": 0.1, "cost": 0.1}, probability=0.9)
    assert outputs(*found.x.array)["waste"] == pytest.approx(0.72, abs=0.03)  # the limit is above 0.72 in 9 of 10 cases
    assert found.to_dict()["vary"]["waste limit"] == pytest.approx([0.7, 0.9])


def test_integers_and_choices_are_set_as_they_are():
    made = mixed()
    found = made.recommend("robust", vary={"T": 0.1}, probability=0.9)
    assert found.x["tanks"] == 3
    with pytest.raises(SettingError, match="cannot vary"):
        made.recommend("robust", vary={"solvent": 1})


@pytest.mark.parametrize(
    ("vary", "message"),
    [({}, "nothing varies"), ({"prise": 1.0}, "Did you mean 'price'"), ({"a": (0.2, 0.4)}, "by how much it varies"),
     ({"a": "little"}, "varies by a number")],
)  # fmt: skip
def test_what_cannot_vary_is_explained(settled, vary, message):
    with pytest.raises(SettingError, match=message):
        settled.recommend("robust", vary=vary)


def test_other_rules_are_those_of_the_result(settled):
    assert settled.recommend("observed").trial == settled.result("observed").trial
    with pytest.raises(SettingError, match="belongs to the rule"):
        settled.recommend("observed", vary={"a": 1})
    with pytest.raises(SettingError, match="to below 1"):
        settled.recommend("robust", vary={"a": 0.1}, probability=2)
