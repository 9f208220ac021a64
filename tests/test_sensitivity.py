"""Shadow prices and sensitivities against finite differences of the true optimum."""

import math
from dataclasses import replace

import numpy as np
import pytest

import pied
from decisions import best, mixed, study
from pied.study.sensitivity import Sensitivities, Sensitivity, multipliers, sensitivities

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
    caution = made.outlook.snapshot.settings.believer.trust(made.problem, made.outlook.data, made.outlook.level).stated
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


GRID = [
    (heat, dose, solvent) for heat in np.arange(50, 91, 2.5) for dose in np.arange(0, 2.1, 0.25) for solvent in "wo"
]


def screened(heat, dose, solvent):
    """A reaction whose settings all have steps or labels."""
    rise = 0.4 * (heat - 60) - 0.006 * (heat - 60) ** 2
    strong = solvent == "o"
    return {"product": 60 + 15 * strong + rise + 8 * dose, "waste": 0.012 * (heat - 50) + (0.25 + 0.08 * strong) * dose}


def listed(noise=0, **words) -> pied.Study:
    stated = {
        "maximize": {"profit": "price*product - 4*dose"},
        "subject_to": {"purity": "waste <= cap + 0.2", "least": "product >= 50"},
        "constants": {"price": 2.0, "cap": 0.2, "idle": 1.0},
    }
    space = {"heat": pied.Variable(50, 90, step=2.5), "dose": pied.Variable(0, 2, step=0.25),
             "solvent": pied.Choice("w", "o")}  # fmt: skip
    made = pied.Study(pied.Problem(space, ["product", "waste"], noise=noise, **(stated | words)), seed=1)
    for x in GRID[::9]:
        made.add(dict(zip(space, x, strict=True)), screened(*x))
    for _ in range(6):
        trial = made.ask()
        made.tell(trial, screened(**trial.x))
    return made


def best_listed(price=2.0, end=0.4) -> float:
    """The true optimum of `listed`."""
    outputs = [(dose, screened(heat, dose, solvent)) for heat, dose, solvent in GRID]
    return max(price * y["product"] - 4 * dose for dose, y in outputs if y["waste"] <= end + 1e-9)


@pytest.mark.parametrize("noise", [0, 0.05])
def test_where_all_settings_are_listed_rates_are_differences_of_two_answers(noise):
    made = listed(noise)
    found = made.result().sensitivities
    true = {
        "cap": (best_listed(end=0.42) - best_listed()) / 0.02,
        "price": (best_listed(price=2.2) - best_listed()) / 0.2,
        "idle": 0.0,
    }
    assert true["cap"] > 0
    for name, rate in true.items():
        each = found.constants[name]
        low, high = each.bounds
        assert low - 1e-6 <= rate <= high + 1e-6
        assert low <= each.rate <= high
        assert each.rate == pytest.approx(rate, rel=0.02 if noise == 0 else 0.5, abs=1e-6)
    assert "rates are averages over a move of 10 %" in found.remark
    assert f"price = 2: 10 % more changes profit by about {0.2 * true['price']:.2g}" in str(found)


@pytest.mark.parametrize("sense", ["maximize", "minimize"])
def test_a_limit_whose_move_changes_the_answer_is_not_said_to_bring_nothing(sense):
    goal = "2*product - 4*dose" if sense == "maximize" else "4*dose - 2*product"
    made = listed(**{"maximize": None, sense: {"profit": goal}}, subject_to={"purity": "waste <= 0.4"}, constants={})
    each = made.result().sensitivities.limits["purity"]
    assert each.rate * 0.04 == pytest.approx(best_listed(end=0.44) - best_listed(), rel=0.02)
    assert each.rate > 0
    assert "purity: 10 % looser brings about" in str(made.result())


def test_a_constant_whose_move_leaves_no_settings_says_so():
    found = listed(subject_to={"least": "product >= 70*need"}, constants={"need": 1.35, "price": 2.0}).sensitivities()
    assert "need = 1.35: 10 % more leaves no settings that are known to meet all limits" in str(found)
    assert found.to_dict()["constants"]["need"]["rate"] is None


def test_without_a_feasible_point_there_are_none():
    made = study(budget=2, older=4, subject_to={"waste limit": "waste <= -1"})
    assert made.result().sensitivities is None
    assert made.sensitivities() is None
    assert pied.Study(made.problem, seed=0).result().sensitivities is None


def test_a_range_without_a_width_is_told_in_words() -> None:
    def lines(low: float, high: float) -> list[str]:
        limit = Sensitivity("impurity A", 0.7, 1.0, (0.5, 1.5), {}, (low, high), is_limit=True)
        return Sensitivities({"impurity A": limit}, {}, "profit", "").lines()

    assert lines(0.7, 0.7 + 1e-9)[1] == "  other settings are best as soon as impurity A changes"
    assert lines(0.6, 0.8)[1] == "  the settings stay within 1 % of the best for impurity A from 0.6 to 0.8"
