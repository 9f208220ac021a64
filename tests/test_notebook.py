"""A study in a notebook: short, safe to show, and there at once."""

import html
import re

import pytest

from pied import Problem, Study
from pied.gp import GP

pytestmark = pytest.mark.slow  # problems are made without the checks of shapes, which take most of the time
PLANT = {"variables": {"heat": (20.0, 90.0), "feed": (0.0, 1.0)}, "outputs": ["made", "impurity"]}


def plant(**words: object) -> Study:
    """A study with a limit and five measurements, one of which breaks it."""
    problem = Problem(**PLANT, maximize="made - 0.1*feed", subject_to=["impurity <= 0.5"], noise=0, **words)
    study = Study(problem, seed=0)
    for k in range(6):
        study.add({"heat": 20 + 14 * k, "feed": 0.2 * k}, {"made": 0.1 * k, "impurity": 0.09 * k + 0.1})
    return study


def rows(page: str) -> list[list[list[str]]]:
    """The tables of a page as rows of cells."""
    tables = re.findall(r"<table>(.*?)</table>", page)
    return [
        [re.findall(r"<t[hd]>(.*?)</t[hd]>", row) for row in re.findall(r"<tr>(.*?)</tr>", each)] for each in tables
    ]


def test_no_model_is_fitted_to_show_a_study(monkeypatch: pytest.MonkeyPatch) -> None:
    study = plant()
    monkeypatch.setattr(GP, "fit", None)  # whoever fits fails
    shown = study._repr_html_()
    settings, trials = rows(shown)
    assert settings[0][1] == "best so far, trial 5"  # the sixth breaks the limit
    assert [row[0] for row in settings[1:]] == ["heat", "feed"]
    assert [row[0] for row in trials[1:]] == ["6", "5", "4", "3", "2"]  # the last five, the newest first
    assert trials[1][-1] == "breaks a limit"
    assert "limit 0.5" in shown
    assert "study.result()" in shown
    assert "6 older; seed 0" in shown


def test_a_problem_its_trials_and_what_they_are_worth_are_tables() -> None:
    study = plant()
    settings, outputs, limits = rows(study.problem._repr_html_())
    assert [row[0] for row in settings[1:]] == ["heat", "feed"]
    assert [row[0] for row in outputs[1:]] == ["made", "impurity"]
    assert "0.5" in limits[1][1]
    (trials,) = rows(study.trials._repr_html_())
    assert [row[0] for row in trials[1:]] == ["1", "2", "3", "4", "5", "6"]
    assert len({len(row) for row in trials}) == 1
    (second,) = rows(study.trials[1]._repr_html_())
    assert [row[0] for row in second] == ["trial", "", "heat", "feed", "made", "impurity", "why"]
    result = study.result()
    assert result.sensitivities is not None
    (known,) = rows(result.sensitivities._repr_html_())
    names = [*result.sensitivities.limits, *result.sensitivities.constants]
    assert [html.unescape(row[0]) for row in known[1:]] == names
    assert result.still[1:] in result._repr_html_()


def test_an_answer_that_was_computed_is_shown_until_something_changes() -> None:
    study = plant()
    answer = study.result()
    shown = study._repr_html_()
    assert answer.message in shown
    assert rows(shown)[0][0][1] == "recommended"
    assert "study.result()" not in shown
    study.add({"heat": 50.0, "feed": 0.1}, {"made": 0.3, "impurity": 0.2})
    assert "study.result()" in study._repr_html_()


def test_a_notebook_shows_texts_escaped_and_stays_short() -> None:
    study = Study(Problem({"a<b>": (0, 1)}, ["y"], maximize="y", noise=0), seed=0)
    assert "study.ask()" in study._repr_html_()
    for k in range(3):
        study.add({"a<b>": k / 2}, {"y": k / 2})
    short = study._repr_html_()
    assert "a&lt;b&gt;" in short
    assert "a<b>" not in short
    for k in range(200):
        study.add({"a<b>": k / 211}, {"y": k / 211})
    assert len(study._repr_html_()) < 2 * len(short)
    assert len(study._repr_html_()) < 3000


def test_a_failed_trial_is_shown_with_its_reason() -> None:
    study = plant(blackbox=lambda x: {"made": 0.0, "impurity": 0.0})
    study.fail(study.ask(), "the pump <stopped>")
    shown = study._repr_html_()
    assert rows(shown)[1][1][-1] == "failed"
    assert "1 failed: the pump &lt;stopped&gt;" in shown


def test_a_front_is_shown_by_what_was_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GP, "fit", None)
    problem = Problem({"a": (0.0, 1.0)}, ["y", "z"], maximize={"y": "y"}, minimize={"z": "z"}, noise=0)
    study = Study(problem, seed=0)
    for k in range(3):
        study.add({"a": k / 2}, {"y": k / 2, "z": k / 2})
    assert "3 best trade-offs so far" in study._repr_html_()
