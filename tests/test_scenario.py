"""What if prices or limits were others: answers from one belief, compared with a study that is asked the question."""

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
    found = what_if(study.snapshot, changed(study.problem, constants={"price": 0.2}, limits={"cap (2)": 0.5}))
    other = Study(found.snapshot.problem, seed=0)
    for trial in study.trials:
        other.add(trial.x, trial.y)
    asked = other.result("anywhere")
    assert found.result.value == pytest.approx(asked.value, rel=1e-3, abs=1e-3)
    assert found.result.is_feasible
    assert found.result.gap is not None
    assert found.result.gap >= 0
    assert all(price >= 0 for price in found.prices.values())


@pytest.mark.slow
def test_a_scenario_fits_nothing_and_leaves_the_study_alone(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    from pied.gp import GP

    what_if(study.snapshot, study.problem)
    before = [str(trial) for trial in study.trials]
    monkeypatch.setattr(GP, "fit", None)  # whoever fits again fails
    base = what_if(study.snapshot, study.problem)
    loose = what_if(study.snapshot, changed(study.problem, limits={"cap (2)": 0.9}))
    assert loose.result.value >= base.result.value - 1e-6
    assert loose.prices["cap (2)"] >= 0
    assert [str(trial) for trial in study.trials] == before
    assert len(study.questions) == 1


def test_an_unknown_constant_is_refused_with_the_one_meant(study: Study) -> None:
    with pytest.raises(ValueError, match="Did you mean 'price'"):
        changed(study.problem, constants={"prise": 1.0})


@pytest.mark.slow
def test_a_notebook_shows_study_and_result_with_texts_escaped(study: Study) -> None:
    problem = Problem({"a<b>": (0, 1)}, ["y"], maximize="y", noise=0)
    other = Study(problem, seed=0)
    assert "<p>" in other._repr_html_()
    for k in range(3):
        other.add({"a<b>": k / 2}, {"y": k / 2})
    for shown in (other._repr_html_(), other.result()._repr_html_()):
        assert "a&lt;b&gt;" in shown
        assert "a<b>" not in shown
    assert "<img" in other._repr_html_() or "No picture" in other._repr_html_()
