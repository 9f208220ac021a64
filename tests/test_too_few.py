"""From fewer measurements than an output's model has parameters, nothing but what was measured is said."""

import json
import math
from pathlib import Path

import pytest

from pied import Choice, Problem, Study
from pied.study.words import Words

LABELS = ("a", "b", "c")


@pytest.fixture
def few():
    """Three measurements of a problem with two settings, one of them a choice, a learned noise and a limit."""
    problem = Problem(
        {"t": (20.0, 90.0), "base": Choice(*LABELS)}, ["gain", "waste"], maximize="gain - 0.1*t",
        subject_to={"clean": "waste <= 2"},
    )  # fmt: skip
    with Study(problem, seed=1) as study:
        for row in range(3):
            study.add({"t": 30.0 + 10 * row, "base": LABELS[row]}, {"gain": 10.2 + 1.5 * row, "waste": 1.5 + 0.3 * row})
        yield study


def test_the_best_measured_point_is_shown_with_nothing_else(few: Study) -> None:
    result = few.result()
    assert result.is_too_few
    assert (result.trial, result.value) == (2, pytest.approx(7.7))
    assert result.probability == {}
    assert result.gap is not None
    assert math.isinf(result.gap)
    text = str(result)
    assert "Too few measurements to say; best measured so far: gain - 0.1*t 7.7" in text
    assert "waste 1.8, limit 2.0: met as measured" in text
    assert "probably" not in text
    assert "%" not in text
    assert result.sensitivities is None
    plain = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert plain["too_few"]
    assert plain["bounds"]["clean"] == [None, None]


def test_every_rule_shows_it_and_so_does_the_report(few: Study, tmp_path: Path) -> None:
    assert {few.result(rule).trial for rule in ("lower", "asked", "anywhere", "observed")} == {2}
    few.report(tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text()
    assert "Too few measurements to say" in text
    assert "A measurement there probably gives" not in text


def test_with_more_measurements_ranges_are_said(few: Study) -> None:
    for row in range(5):
        few.add({"t": 25.0 + 12 * row, "base": LABELS[row % 3]}, {"gain": 9.7 + 0.3 * row, "waste": 1.2 + 0.1 * row})
    result = few.result()
    assert not result.is_too_few
    assert all(math.isfinite(end) for end in result.bounds["clean"])


def test_the_headline_begins_with_the_range_where_it_is_wide() -> None:
    words = Words(objective="profit", unit="EUR")
    assert words.worth(84.8, (-29.9, 130.1), is_measured=False).startswith("profit probably -30 to 130 EUR")
    assert words.worth(84.8, (80.1, 88.2), is_measured=False).startswith("profit about 8")


@pytest.mark.parametrize(("waste", "is_met"), [(1.5, True), (2.5, False)])
def test_limits_are_known_where_the_objective_was_told_as_a_limit(few: Study, waste: float, is_met: bool) -> None:
    with Study(few.problem, seed=1) as study:
        study.add({"t": 30.0, "base": "a"}, {"gain": "<10", "waste": waste})
        result = study.result()
    assert result.is_feasible is is_met
    assert ("Closest so far" in str(result)) is not is_met
    assert "not known: an output was told as a limit" in str(result)
