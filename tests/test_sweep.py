"""What if, and sweeps: other constants and limits, answered from the belief that is there, against brute force."""

import csv
import io

import numpy as np
import pytest

import pied
from decisions import COST, LIMIT, PRICE, best, mixed, problem, study
from pied import SettingError, UnknownName

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def settled():
    return study()


@pytest.fixture(scope="module")
def discrete():
    return mixed()


@pytest.mark.parametrize("price", [1.5, 2.5, 3.0])
@pytest.mark.parametrize("limit", [0.7, 1.0])
def test_what_if_finds_the_true_optimum_of_the_changed_question(settled, price, limit):
    answer = settled.what_if({"waste limit": limit}, price=price)
    value, _, _ = best(price=price, limit=limit)
    low, high = answer.bounds
    assert low - 1e-3 <= value <= high + 1e-3
    assert answer.value == pytest.approx(value, abs=0.05)


def test_what_if_leaves_question_and_record_alone(settled):
    before = settled.problem, len(settled.questions), len(settled.trials)
    settled.what_if(price=5.0)
    assert (settled.problem, len(settled.questions), len(settled.trials)) == before


def test_what_if_nothing_changes_gives_the_recommended_point(settled):
    result = settled.result()
    assert settled.what_if().value == pytest.approx(result.value, abs=1e-4)
    assert settled.what_if().trust == "good"


def test_a_limit_that_nothing_meets_has_no_answer(settled):
    answer = settled.what_if({"waste limit": -0.5})
    assert answer.x is None
    assert answer.trust == "none"
    assert "no settings" in str(answer)


def test_a_name_that_cannot_change_is_explained(settled):
    with pytest.raises(UnknownName, match="Did you mean 'price'"):
        settled.what_if(pric=3.0)
    with pytest.raises(UnknownName, match="a setting that is chosen"):
        settled.what_if(a=3.0)
    with pytest.raises(SettingError, match="should be a number"):
        settled.what_if(price=float("nan"))
    bare = pied.Study(pied.Problem({"x": (0, 1)}, ["y"], maximize=lambda x, y: y.y), seed=0)
    with pytest.raises(UnknownName, match="name prices and the like in constants="):
        bare.what_if(price=3.0)


def test_without_measurements_there_is_nothing_to_answer_from():
    with pytest.raises(SettingError, match="at least two complete evaluations"):
        pied.Study(problem(), seed=0).what_if(price=3.0)


def test_a_sweep_follows_the_true_optimum_within_its_bounds(settled):
    prices = np.linspace(1.5, 2.5, 5)
    sweep = settled.sweep(price=prices)
    assert sweep.at("price") == pytest.approx(prices)
    truth = np.array([best(price=price)[0] for price in prices])
    assert (sweep.lower <= truth + 1e-3).all()
    assert (sweep.upper >= truth - 1e-3).all()
    assert (np.diff(sweep.values) > 0).all()


def test_a_sweep_of_two_is_a_grid_and_a_table(settled):
    sweep = settled.sweep({"waste limit": [0.7, 0.9], "cost": [0.4, 0.5, 0.6]})
    assert sweep.names == ("waste limit", "cost")
    assert sweep.at("waste limit").tolist() == [0.7] * 3 + [0.9] * 3
    rows = list(csv.DictReader(io.StringIO(sweep.to_csv())))
    assert [float(row["profit"]) for row in rows] == pytest.approx(sweep.values.tolist())
    assert {row["trust"] for row in rows} <= {"good", "fair", "poor"}
    assert str(sweep).count("\n") == 7
    assert len(sweep.to_dict()["points"]) == 6


def test_a_sweep_that_cannot_be_made_says_why(settled):
    with pytest.raises(SettingError, match="nothing is swept"):
        settled.sweep()
    with pytest.raises(SettingError, match="at most 2500 points"):
        settled.sweep(price=np.linspace(1, 2, 3000))
    with pytest.raises(SettingError, match="2 constants or limits can be swept"):
        settled.sweep({"price": [1], "cost": [1], "waste limit": [1]})


def test_the_measurement_for_a_sweep_narrows_it():
    made = study(budget=7, older=0)
    wide = made.sweep({"waste limit": [0.3, 0.5]})
    trial = made.ask(for_sweep=wide)
    assert trial.why.aim == "sweep"
    assert dict(trial.x) == pytest.approx(dict(wide.next_x))
    made.tell(trial, made.problem.evaluate(trial.x))
    now = made.sweep({"waste limit": [0.3, 0.5]})
    assert (now.upper - now.lower).sum() < (wide.upper - wide.lower).sum()
    assert made.ask().number == trial.number + 1  # the study goes on as before


def test_integers_and_choices_are_swept_with_settings_that_can_be_set(discrete):
    sweep = discrete.sweep(price=[1.0, 4.0])
    for answer in sweep.answers:
        assert answer.x is not None
        assert answer.x["tanks"] in (1, 2, 3, 4)
        assert answer.x["solvent"] == "oil"
    value = [max(price * (1.3 * tanks**0.5) - 0.8 * tanks for tanks in (1, 2, 3, 4)) for price in (1.0, 4.0)]
    assert (sweep.lower <= np.array(value) + 1e-6).all()
    assert (sweep.upper >= np.array(value) - 1e-6).all()


def test_a_minimum_has_bounds_in_the_users_sense():
    made = study(maximize=None, minimize={"loss": "cost*a - price*product"})
    answer = made.what_if(price=2.5)
    assert answer.bounds[0] - 1e-3 <= -best(price=2.5)[0] <= answer.bounds[1] + 1e-3
    assert (PRICE, COST, LIMIT) == (2.0, 0.5, 0.8)


def test_a_constant_in_an_equality_among_settings_is_refused():
    stated = pied.Problem(
        {"a": (0.0, 1.0), "b": (0.0, 1.0)}, ["y"], blackbox=lambda a, b: a * (1 - a) + b,
        maximize="y", subject_to={"total": "a + b == total_of"}, constants={"total_of": 1.0}, noise=0,
    )  # fmt: skip
    made = pied.Study(stated, seed=0)
    made.run(5, progress=False)
    with pytest.raises(SettingError, match="'total_of' changes an equality among settings"):
        made.what_if(total_of=0.5)
