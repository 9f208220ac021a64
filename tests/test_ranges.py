"""Values outside of their ranges, limits that nothing can meet, and rows that are there already."""

from pathlib import Path

import numpy as np
import pytest

from pied import Problem, Study, Variable
from pied.errors import Infeasible, StatementError, Status, TellError
from pied.problem import doubts, unreachable
from pied.problem.intervals import bounds
from pied.rng import Stream
from shells import LAB, data, pied_


def measured(**words):
    """A problem of two variables and two outputs with ranges."""
    words = {"maximize": "y", "ranges": {"y": (0, 1), "z": (20, 90)}} | words
    return Problem({"a": (0, 4), "b": (-1, 2)}, ["y", "z"], **words)


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lab.toml").write_text(LAB)
    return tmp_path


# ------------------------------------------------------------------------------------------------------------- ranges


@pytest.mark.parametrize(
    ("values", "cause"),
    [
        ({"y": 78.0}, "percent, write 0.78"),
        ({"y": 745.0}, "decimal point or comma was lost, write 0.745"),
        ({"y": -0.2}, "sign"),
        ({"z": 343.15}, "kelvin instead of degrees Celsius, write 70"),
        ({"z": 0.0312}, "another unit, convert it: 31.2"),
        ({"y": 1.5e9}, "right output"),
    ],
)
def test_value_outside_its_range_has_a_likely_cause(values, cause):
    (said,) = doubts(measured(), values)
    assert cause in said


def test_values_inside_their_ranges_or_without_one_are_not_doubted():
    assert doubts(measured(), {"y": 1.0, "z": 20.0}) == []
    assert doubts(measured(ranges=None), {"y": 1e9}) == []


def test_rounding_at_the_end_of_a_range_is_not_doubted(caplog):
    assert doubts(measured(), {"y": -2e-14}) == doubts(measured(), {"y": 1 + 1e-12}) == []
    assert doubts(measured(), {"y": -1e-6})
    open_end = measured(ranges={"y": (0, None)})
    assert doubts(open_end, {"y": -2e-14}) == []
    assert doubts(open_end, {"y": -1e-5})
    assert doubts(open_end, {"y": -1e-5}, [{"z": 1.0}, {"y": 2e5}]) == []  # next to 2e5 it is rounding
    study = Study(measured(ranges={"y": (0, None)}, blackbox=lambda x: (-2e-14 if x.a < 2 else 1e-3, 30.0)), seed=1)
    study.run(4)
    assert "range" not in caplog.text
    study.add({"a": 1, "b": 1}, {"y": 1e7})
    assert study.correct(1, {"y": -1e-4}, why="typo").y["y"] == -1e-4


def test_doubted_value_is_refused_and_accepted_anyway():
    study = Study(measured(), seed=1)
    trial = study.ask()
    with pytest.raises(TellError, match=r"trial 1: 'y' = 78 .* percent, write 0.78.* anyway=True"):
        study.tell(trial, {"y": 78.0, "z": 50.0})
    assert study.trials[0].y is None
    assert study.tell(trial, {"y": 78.0}, anyway=True).y["y"] == 78.0
    with pytest.raises(TellError, match="outside its range"):
        study.add({"a": 1, "b": 1}, {"z": 5})
    assert study.add({"a": 1, "b": 1}, {"z": 5}, anyway=True).y["z"] == 5


def test_corrected_value_is_doubted_too():
    study = Study(measured(), seed=1)
    study.tell(study.ask(), {"y": 0.7, "z": 50.0})
    with pytest.raises(TellError, match=r"trial 1: 'y' = 78 .* percent, write 0.78"):
        study.correct(1, {"y": 78.0}, why="typo")
    assert study.correct(1, {"y": 78.0}, why="typo", anyway=True).y["y"] == 78.0


def test_black_box_that_leaves_its_range_is_recorded_with_a_warning(caplog):
    study = Study(measured(blackbox=lambda x: (2.0, 30.0)), seed=1, solver="random")
    study.run(1)
    assert study.trials[0].y["y"] == 2.0
    assert "outside its range" in caplog.text


def test_shell_refuses_a_doubted_value(lab: Path):
    pied_("ask", "lab.toml")
    assert "write 0.78" in pied_("tell", "lab.toml", "1", "product=78", code=2).output
    pied_("tell", "lab.toml", "1", "product=78", "--anyway")
    (lab / "old.csv").write_text("temperature,time,product\n70,1,0.5\n71,1,78\n")
    assert "line 3" in pied_("add", "lab.toml", "old.csv", code=2).output
    assert data("add", "lab.toml", "old.csv", "--anyway") == {"added": [2, 3], "known": 0}


# ------------------------------------------------------------------------------------------------------------- limits


@pytest.mark.parametrize(
    "limit",
    [
        "y >= 1.2", "z <= 19", "a + b >= 6.5", "a*(4 - a) >= 4.1", "y*(1 - y) >= 0.3", "z/(1 + a) <= 3",
        "(a - 2)**2 <= -1",
        "exp(-y) >= 1.1", "max(y, a) >= 5", "sqrt(z) + abs(b) >= 12", "z**0.5 <= 4", "y**3 - b**2 >= 1.5",
    ],
)  # fmt: skip
def test_limit_that_nothing_can_meet_is_found(limit):
    (found,) = unreachable(measured(subject_to={"limit": limit}))
    assert found.name == "limit"
    assert found.missed > 0


@pytest.mark.parametrize(
    "limit",
    [
        "y >= 1", "y >= 0.999999", "z <= 20", "a + b >= 6", "a*(4 - a) >= 4", "y*(1 - y) >= 0.25", "z/(1 + a) <= 4",
        "exp(-y) >= 1", "sin(a) >= 1", "y - y*a >= 0.9", "log(b) >= 0.6", "a**b >= 15.9", "cos(a)**2 + sin(a)**2 >= 1",
    ],
)  # fmt: skip
def test_limit_that_can_be_met_is_never_refused(limit):
    assert unreachable(measured(subject_to={"limit": limit})) == []


@pytest.mark.parametrize(
    ("function", "is_met"),
    [
        (lambda x, y: y["y"] - 1.2, False),
        (lambda x, y: y["z"] * y["y"] - 91, False),
        (lambda x, y: np.where(x["a"] > 1, y["y"], -y["y"]) - 1.1, False),
        (lambda x, y: np.hypot(x["a"], x["b"]) - 4.6, False),
        (lambda x, y: np.dot([1.0, -2.0], y.array) + 38.5, False),
        (lambda x, y: -np.cosh(x["b"]) + 0.9, False),
        (lambda x, y: np.where(x["a"] > 1, y["y"], -y["y"]) - 0.9, True),
        (lambda x, y: np.hypot(x["a"], x["b"]) - 4.4, True),
        (lambda x, y: np.dot([1.0, -2.0], y.array) + 39.5, True),
    ],
)
def test_limits_by_python_functions_are_proved_alike(function, is_met):
    assert (unreachable(measured(subject_to={"limit": function})) == []) == is_met


def test_open_ranges_prove_nothing():
    assert unreachable(measured(ranges=None, subject_to={"limit": "y >= 100"})) == []
    assert unreachable(measured(ranges={"y": (0, None)}, subject_to={"limit": "y >= 100"})) == []
    assert unreachable(measured(ranges={"y": (0, None)}, subject_to={"limit": "y <= -1"}))


@pytest.mark.parametrize(
    "formula", ["y*z - a**2*b", "exp(a*b)/z", "max(a, b) - min(y, b)", "abs(b)**3 - sqrt(a)", "(a - y)**2/(1 + b**2)"]
)
def test_intervals_contain_the_values_inside(formula):
    problem = measured(subject_to={"limit": f"{formula} >= 0"})
    stream, ends = Stream(3), np.concatenate([problem.bounds, problem.ranges])
    corners = ends[:, 0] + stream.at("corners").uniform(2, 50, 4) * (ends[:, 1] - ends[:, 0])
    low, high = corners.min(0), corners.max(0)
    least, most = bounds(problem.door(1), (low[:, :2], high[:, :2]), (low[:, 2:], high[:, 2:]))
    for place in range(20):
        inside = low + stream.at("inside", place).uniform(50, 4) * (high - low)
        value = problem.door(1).values(inside[:, :2], inside[None, :, 2:]).ravel()
        assert (value >= least).all()
        assert (value <= most).all()


def test_study_with_such_a_limit_asks_for_no_experiment():
    study = Study(measured(subject_to={"pure": "y >= 1.2"}), seed=1)
    assert study.status is Status.INFEASIBLE
    with pytest.raises(Infeasible, match="'pure' cannot be met by any value within the stated ranges"):
        study.ask()


@pytest.mark.parametrize(
    ("limit", "said"),
    [("product >= 1.5", "ranges"), ("temperature <= 10", "variables"), ("time**2 >= 37", "variables")],
)
def test_check_refuses_such_a_limit(lab: Path, limit: str, said: str):
    (lab / "lab.toml").write_text(LAB.replace("[constants]", f'odd = "{limit}"\n[constants]'))
    shown = pied_("check", "lab.toml", code=4).stderr
    assert "'odd' cannot be met" in shown
    assert said in shown


# -------------------------------------------------------------------------------------------------------- adding twice


def test_row_that_is_there_is_not_added_twice(caplog):
    study = Study(measured(), seed=1)
    first = study.add({"a": 1, "b": 0.1}, {"y": 0.5, "z": 30})
    assert study.add({"a": 1, "b": 0.1}, {"y": 0.5}).number == first.number
    assert "already there as trial 1" in caplog.text
    assert study.add({"a": 1, "b": 0.1}, {"y": 0.5, "z": 30}, again=True).number == 2
    assert study.add({"a": 1, "b": 0.1}, {"y": 0.51, "z": 30}).number == 3


def test_point_a_little_outside_is_data_and_one_far_outside_only_anyway(caplog):
    study = Study(measured(), seed=1)
    assert study.add({"a": 4.1, "b": 0.1}, {"y": 0.5}).x["a"] == 4.1
    assert "a = 4.1 is outside of its range from 0 to 4" in caplog.text
    with pytest.raises(StatementError, match=r"'a' = 40 is far outside of its range from 0 to 4.*anyway=True"):
        study.add({"a": 40, "b": 0.1}, {"y": 0.5})
    assert study.add({"a": 40, "b": 0.1}, {"y": 0.5}, anyway=True).x["a"] == 40
    logarithmic = Study(Problem({"a": Variable(1, 9, log=True)}, ["y"], maximize="y"), seed=1)
    with pytest.raises(StatementError, match="must be above 0"):
        logarithmic.add({"a": 0}, {"y": 0.5}, anyway=True)


def test_shell_adds_row_by_row_where_settings_are_outside(lab: Path):
    (lab / "old.csv").write_text("temperature,time,product\n70,1,0.5\n101,1,0.6\n170,1,0.7\n")
    shown = pied_("add", "lab.toml", "old.csv")
    assert "2 rows added; 1 was left out" in shown.stdout
    assert "line 3: temperature = 101 is outside of its range from 60 to 100; it is used as data there" in shown.stderr
    assert "left out: old.csv, line 4: 'temperature' = 170 is far outside of its range" in shown.stderr
    assert "--anyway" in shown.stderr
    assert data("add", "lab.toml", "old.csv", "--anyway") == {"added": [3], "known": 2}
    assert data("add", "lab.toml", "old.csv") == {"added": [], "known": 3}


def test_own_export_can_be_added_after_the_ranges_were_narrowed(lab: Path):
    (lab / "old.csv").write_text("temperature,time,product\n70,1,0.5\n90,1,0.6\n98,1,0.7\n")
    pied_("add", "lab.toml", "old.csv")
    pied_("export", "lab.toml", "--output", "record.csv")
    (lab / "lab.toml").write_text(LAB.replace("hi = 100", "hi = 75"))
    pied_("revise", "lab.toml", code=(0, 3))
    assert data("add", "lab.toml", "record.csv") == {"added": [], "known": 3}
    (lab / "other.toml").write_text(LAB.replace("hi = 100", "hi = 75"))
    assert data("add", "other.toml", "record.csv") == {"added": [1], "known": 0, "left_out": [3, 4]}


def test_shell_says_already_there_and_repeats_on_request(lab: Path):
    (lab / "old.csv").write_text("temperature,time,product\n70,1,0.5\n71,1,0.6\n71,1,0.6\n")
    assert data("add", "lab.toml", "old.csv")["added"] == [1, 2, 3]
    shown = pied_("add", "lab.toml", "old.csv").output
    assert "0 rows added; 3 were already there" in shown
    assert "--again" in shown
    assert data("add", "lab.toml", "old.csv", "--again")["added"] == [4, 5, 6]


def test_own_export_can_be_added_again_and_elsewhere(lab: Path):
    pied_("ask", "lab.toml", "--count", "3")
    pied_("tell", "lab.toml", "1", "product=0.5", "impurity=0.02")
    pied_("tell", "lab.toml", "2", "product=0.6")
    pied_("export", "lab.toml", "--output", "record.csv")
    assert data("add", "lab.toml", "record.csv") == {"added": [], "known": 2}
    (lab / "other.toml").write_text(LAB)
    assert data("add", "other.toml", "record.csv")["added"] == [1, 2]
    pied_("withdraw", "lab.toml", "1", "--why", "contaminated")
    pied_("export", "lab.toml", "--output", "later.csv")
    (lab / "third.toml").write_text(LAB)
    assert data("add", "third.toml", "later.csv")["added"] == [1]


@pytest.mark.parametrize("heading", ["Product", "product [%]", "produkt", "product_hplc"])
def test_column_with_a_name_close_to_an_output_is_asked_about(lab: Path, heading: str):
    (lab / "old.csv").write_text(f"temperature,time,impurity,{heading}\n70,1,0.5,0.1\n")
    asked = pied_("add", "lab.toml", "old.csv", code=2).output
    assert f"'{heading}' is product" in asked
    assert "nothing was added yet" in asked
    assert not (lab / "lab.db").exists()
    assert data("add", "lab.toml", "old.csv", "--ignore", heading)["added"] == [1]
