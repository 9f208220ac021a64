"""What if prices or limits were others: answers from one belief, compared with a study that is asked the question."""

import math

import pytest

from pied import Problem, Study
from pied.study import changed, what_if


@pytest.fixture(scope="module")
def study() -> Study:
    problem = Problem(
        {"a": (0, 1), "b": (0, 1)}, ["y", "z"], maximize="price*y - b", noise=0, constants={"price": 2.0},
        subject_to={"cap": "0.1 <= z <= 0.8", "sum": "a + b <= 1.5"},
    )  # fmt: skip
    made = Study(problem, seed=0)
    for k in range(9):
        a, b = (k % 3) / 2, (k // 3) / 2
        made.add({"a": a, "b": b}, {"y": a + 0.3 * b, "z": a * a})
    return made


def test_limits_that_are_numbers_can_be_moved_and_others_stay(study: Study) -> None:
    problem = study.problem
    assert list(problem.movable_limits()) == ["cap (1)", "cap (2)", "sum"]
    moved = problem.with_limits({"cap (2)": 0.5, "cap (1)": 0.2, "sum": 1.0})
    assert [each.value for each in moved.limits().values()] == [0.2, 0.5, 1.0]
    assert moved.statement()["subject_to"][0]["formula"] == "0.2 <= z <= 0.5"
    with pytest.raises(ValueError, match="Did you mean 'sum'"):
        problem.with_limits({"sums": 1.0})


def test_a_list_of_limits_and_limits_by_constants() -> None:
    problem = Problem({"a": (0, 1)}, ["y"], maximize="y", subject_to=["y <= 0.5", "y >= c"], constants={"c": 0.1})
    assert list(problem.movable_limits()) == ["y <= 0.5"]
    assert problem.with_limits({"y <= 0.5": 0.7}).constraints == ("y <= 0.7", "y >= c")


@pytest.mark.slow
def test_a_scenario_is_what_the_study_answers_when_it_is_asked(study: Study) -> None:
    found = what_if(study.outlook, changed(study.problem, constants={"price": 0.2}, limits={"cap (2)": 0.5}))
    other = Study(found.snapshot.problem, seed=0)
    for trial in study.trials:
        other.add(trial.x, trial.y)
    asked = other.result("anywhere")
    assert found.result.value == pytest.approx(asked.value, rel=1e-3, abs=1e-3)
    assert found.result.is_feasible
    assert found.result.gap_why == study.result().gap_why != "", (
        "nothing was proposed, so no gap is told of any question"
    )
    assert list(found.prices) == ["cap (1)", "cap (2)", "sum"]
    for rate, (low, high) in found.prices.values():
        assert 0 <= low <= rate <= high


@pytest.mark.slow
def test_one_answer_in_full_is_the_answer_among_many(study: Study) -> None:
    for constants, limits in [({}, {}), ({"price": 0.2}, {}), ({}, {"cap (2)": 0.5}), ({"price": 1.0}, {"sum": 0.7})]:
        found = what_if(study.outlook, changed(study.problem, constants=constants, limits=limits))
        many = study.what_if({**constants, **limits})
        assert found.result.value == pytest.approx(many.value, abs=1e-4)
        assert found.result.trial == many.trial
        assert found.answer.bounds == pytest.approx(many.bounds, abs=1e-4)
        assert found.result.gap is None
        assert dict(found.result.x or {}) == pytest.approx(dict(many.x or {}), abs=1e-3)


@pytest.mark.slow
def test_prices_of_a_scenario_are_those_of_a_study_that_asks_its_question(study: Study) -> None:
    found = what_if(study.outlook, changed(study.problem, limits={"cap (2)": 0.5}))
    other = Study(found.snapshot.problem, seed=0)
    for trial in study.trials:
        other.add(trial.x, trial.y)
    worth = other.sensitivities()
    assert worth is not None
    for name, (rate, (low, high)) in found.prices.items():
        assert rate == pytest.approx(worth.limits[name].rate, rel=0.05, abs=1e-3)
        assert (low, high) == pytest.approx(worth.limits[name].bounds, rel=0.2, abs=1e-2)


@pytest.mark.slow
def test_limits_that_nothing_is_known_to_meet_have_no_price(study: Study) -> None:
    found = what_if(study.outlook, changed(study.problem, limits={"cap (1)": 0.7999, "sum": 0.05}))
    assert not found.result.is_feasible
    assert found.result.x is not None  # the closest
    assert found.prices == {}
    assert "No settings are known to meet all limits" in found.result.message


@pytest.mark.slow
def test_an_answer_is_not_caught_in_a_worse_optimum_when_a_limit_moves() -> None:
    problem = Problem({"a": (0, 1), "b": (0, 1)}, ["y", "z"], maximize="y", noise=0, subject_to={"cap": "z <= 0.9"})
    made = Study(problem, seed=0)
    for k in range(36):  # two hills; the limit cuts into the higher one
        a, b = (k % 6) / 5, (k // 6) / 5
        high = math.exp(-20 * ((a - 0.8) ** 2 + (b - 0.8) ** 2))
        low = 0.6 * math.exp(-20 * ((a - 0.2) ** 2 + (b - 0.2) ** 2))
        made.add({"a": a, "b": b}, {"y": high + low, "z": a})
    for cap in (0.85, 0.8, 0.75, 0.72):
        found = made.what_if(cap=cap)
        asked = made.snapshot.under(problem.with_limits({"cap": cap})).result("anywhere")
        assert found.value >= asked.value - 1e-3


@pytest.mark.slow
def test_a_scenario_fits_nothing_and_leaves_the_study_alone(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    from pied.gp import GP

    what_if(study.outlook, study.problem)
    before = [str(trial) for trial in study.trials]
    monkeypatch.setattr(GP, "fit", None)  # whoever fits again fails
    base = what_if(study.outlook, study.problem)
    loose = what_if(study.outlook, changed(study.problem, limits={"cap (2)": 0.9}))
    assert loose.result.value >= base.result.value - 1e-6
    assert loose.prices["cap (2)"][0] >= 0
    assert [str(trial) for trial in study.trials] == before
    assert len(study.questions) == 1


def test_an_unknown_constant_is_refused_with_the_one_meant(study: Study) -> None:
    with pytest.raises(ValueError, match="Did you mean 'price'"):
        changed(study.problem, constants={"prise": 1.0})
