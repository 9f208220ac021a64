"""What a study found: readable, JSON-able, a table."""

import json
import math
import re
import sys

import pytest

from pied import MissingExtra, Problem, Result, Status, Study, solve
from tiny import fast, hill, parabola


@pytest.fixture(scope="module")
def answer() -> Result:
    """Seven evaluations of `hill`, one of which fails."""
    calls = []

    def blackbox(x):
        calls.append(x)
        if len(calls) == 4:
            raise ValueError("pump tripped")
        return (x.a - 3.0) ** 2 + (x.b - 2.0) ** 2

    return solve(hill(blackbox=blackbox), 7, seed=0, solver=fast())


def test_it_prints_status_value_point_slacks_and_counts(answer: Result) -> None:
    lines = str(answer).splitlines()
    assert lines[0] == "The budget is spent."
    assert lines[1] == f"  y {answer.value:.9g}"
    assert lines[2] == f"    a = {answer.x.a:.9g}"
    assert lines[3] == f"    b = {answer.x.b:.9g}"
    assert re.fullmatch(r"  y [\d.]+, at least 1(\.0+)?: met", lines[4])
    assert re.fullmatch(r"  a \+ b = [\d.]+, limit 3(\.0+)?: met", lines[5])
    assert lines[-2] == "  7 proposed (6 measured, 1 failed); seed 0"
    assert lines[-1] == "    1 failed: The black box raised ValueError: pump tripped"
    assert max(map(len, lines)) <= 120


def test_a_violated_limit_is_shouted() -> None:
    problem = parabola(subject_to={"floor": "y >= 0.5"})
    study = Study(problem, seed=0)
    study.add({"x": 0.0}, {"y": -0.69})
    text = str(study.result())
    assert "y -0.69, at least 0.50: NOT met" in text
    assert "No settings are known to meet all limits. Closest so far:" in text


def test_a_constraint_within_its_tolerance_nearly_holds() -> None:
    problem = parabola(subject_to={"floor": "y >= 0.5"}, tolerance=0.01)
    study = Study(problem, seed=0)
    study.add({"x": 0.0}, {"y": 0.495})
    result = study.result()
    assert result.is_feasible
    assert "y 0.495, at least 0.500: met within its tolerance" in str(result)


def test_everything_survives_json(answer: Result) -> None:
    data = json.loads(json.dumps(answer.to_dict(), allow_nan=False))
    assert data["status"] == "FINISHED"
    assert data["x"] == {"a": answer.x.a, "b": answer.x.b}
    assert data["y"] == {"y": answer.y.y}
    assert data["value"] == answer.value
    assert data["feasible"] is True
    assert data["evaluations"] == 7
    assert data["trial"] == answer.trial
    assert data["seed"] == 0
    assert [trial["state"] for trial in data["trials"]].count("failed") == 1
    assert data["trials"][3]["reason"] == "The black box raised ValueError: pump tripped"
    assert data["trials"][0]["x"] == dict(answer.trials[0].x)
    assert set(data["slack"]) == {"far enough", "line"}
    assert set(data["bounds"]) == {"y", "far enough", "line"}
    assert set(data["probability"]) == {"far enough", "line", "all"}


def test_an_empty_result_survives_json_too() -> None:
    result = Study(hill(), seed=3).result()
    data = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert data["x"] is None
    assert data["value"] is None
    assert math.isnan(result.value)
    assert str(result) == "Nothing has been evaluated yet.\n  0 proposed; seed 3"


def test_partial_values_are_null_in_json() -> None:
    problem = Problem({"x": (0.0, 1.0)}, ["p", "q"], maximize="p + q")
    study = Study(problem, seed=0)
    study.tell(study.ask(), {"p": 1.0})
    data = json.loads(json.dumps(study.result().to_dict(), allow_nan=False))
    assert data["trials"][0]["y"] == {"p": 1.0, "q": None}


@pytest.mark.slow
def test_an_infinite_gap_is_null_in_json_and_not_printed() -> None:
    problem = hill(subject_to={"impossible": "y <= -1", "line": "a + b <= 3"})
    result = solve(problem, 7, seed=0, patience=None, solver=fast())
    assert result.gap is None or math.isinf(result.gap)
    assert result.to_dict()["gap"] is None
    assert "still possible" not in str(result)


def test_the_record_becomes_a_table(answer: Result) -> None:
    pytest.importorskip("pandas")
    frame = answer.to_frame()
    assert list(frame.index) == [1, 2, 3, 4, 5, 6, 7]
    assert list(frame.columns) == ["state", "aim", "a", "b", "y", "reason", "seconds"]
    assert frame.loc[4, "state"] == "failed"
    assert math.isnan(frame.loc[4, "y"])
    assert frame.loc[5, "a"] == answer.trials[4].x.a
    assert (frame["seconds"] >= 0).all()


def test_an_empty_record_becomes_an_empty_table() -> None:
    pytest.importorskip("pandas")
    assert len(Study(hill(), seed=0).result().to_frame()) == 0


def test_a_missing_pandas_is_named(answer: Result, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingExtra, match=r'needs pandas: pip install .*\[frames\]"'):
        answer.to_frame()


def test_the_public_face_offers_the_class() -> None:
    assert Study(hill(), seed=0).result().status is Status.RUNNING
    assert isinstance(Study(hill(), seed=0).result(), Result)
