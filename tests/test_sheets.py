"""Run sheets are read back as they were written, and what a command refuses leaves nothing behind."""

import csv
import json
import math
import sqlite3
from pathlib import Path

import pytest

from pied.shell.tables import FEWEST, shortest
from shells import LAB, data, pied_

PRESSED = LAB.replace("time = [0.5, 6]", "time = [101325, 102325]")


def rows(file: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(file.read_text().splitlines()))


def fill(file: Path, **values: str) -> None:
    found = [{**row, **values} for row in rows(file)]
    with file.open("w", newline="") as out:
        writer = csv.DictWriter(out, list(found[0]))
        writer.writeheader()
        writer.writerows(found)


@pytest.mark.parametrize(
    ("value", "lo", "hi"),
    [
        (101625.4321, 101325.0, 102325.0), (1 / 3, 0.0, 1.0), (1e9 + 1 / 3, 1e9, 1e9 + 2),
        (-273.149999, -273.15, -273.1),
        (2e-7 / 3, 1e-9, 1e-6), (1e300 / 3, 0.0, 1e300), (0.0, -1.0, 1.0), (12345678.9, 12345678.0, 12345679.0),
    ],
)  # fmt: skip
def test_a_set_point_has_as_many_digits_as_reading_it_back_needs(value: float, lo: float, hi: float) -> None:
    short = shortest(value, hi - lo)
    assert abs(short - value) <= 1e-6 * (hi - lo)
    assert float(repr(short)) == short
    digits = len(repr(short).lower().split("e")[0].strip("-0").replace(".", "").strip("0"))
    if digits > FEWEST:  # no shorter number would do
        assert abs(float(f"{value:.{digits - 1}g}") - value) > 1e-6 * (hi - lo)


def test_a_sheet_of_a_narrow_range_far_from_zero_is_accepted(lab: Path) -> None:
    (lab / "lab.toml").write_text(PRESSED)
    pied_("ask", "lab.toml", "--count", "6", "--csv", "sheet.csv")
    fill(lab / "sheet.csv", product="0.5", impurity="0.01")
    assert pied_("tell", "lab.toml", "--from", "sheet.csv").output.count("complete") == 6


def test_what_is_printed_to_be_set_is_what_was_asked(lab: Path) -> None:
    (lab / "lab.toml").write_text(PRESSED)
    asked = data("ask", "lab.toml")["x"]["time"]
    shown = next(line for line in pied_("ask", "lab.toml").output.splitlines() if "time = " in line)
    assert math.isclose(float(shown.split("= ")[1]), asked, rel_tol=0.0, abs_tol=1e-6 * 1000)


def test_another_set_point_is_taken_and_reported(lab: Path) -> None:
    (lab / "lab.toml").write_text(PRESSED)
    pied_("ask", "lab.toml", "--csv", "sheet.csv")
    asked = float(rows(lab / "sheet.csv")[0]["time"])
    fill(lab / "sheet.csv", time=repr(asked + 0.5), product="0.5")
    shown = pied_("tell", "lab.toml", "--from", "sheet.csv").output
    assert f"trial 1 was run at time = {asked + 0.5:.9g} instead of {asked:.9g}" in shown
    told = data("tell", "lab.toml", "--from", "sheet.csv")[0]
    assert (told["x"]["time"], told["asked"]["time"]) == (asked + 0.5, pytest.approx(asked, abs=1e-3))
    fill(lab / "sheet.csv", time=repr(asked), product="0.5")  # the plan as it was: nothing contradicts
    assert data("tell", "lab.toml", "--from", "sheet.csv")[0]["x"] == told["x"]


def test_a_row_that_contradicts_does_not_cost_the_others(lab: Path) -> None:
    pied_("ask", "lab.toml", "--count", "3", "--csv", "sheet.csv")
    pied_("tell", "lab.toml", "2", "product=0.4")
    fill(lab / "sheet.csv", product="0.5", impurity="0.01")
    done = pied_("tell", "lab.toml", "--from", "sheet.csv", code=2)
    assert "line 3: trial 2: 'product' was told as 0.4 and cannot become 0.5" in done.stderr
    assert "Recorded: 'impurity' = 0.01" in done.stderr
    assert done.stdout.count("complete") == 2
    assert data("status", "lab.toml")["trials"]["told"] == 3


def test_a_second_failure_keeps_the_first_reason(lab: Path) -> None:
    pied_("ask", "lab.toml")
    pied_("fail", "lab.toml", "1", "pump tripped")
    assert data("fail", "lab.toml", "1", "something else")["reason"] == "pump tripped"


def expire(file: Path) -> None:
    """Let all leases run out."""
    base = sqlite3.connect(file)
    base.execute("UPDATE trials SET leased = leased - 1e6, expires = leased - 5e5, change = change + 1")
    base.execute("UPDATE studies SET change = change + 1")
    base.commit()
    base.close()


@pytest.mark.slow
def test_who_asks_again_renews_the_own_lease(lab: Path) -> None:
    assert data("ask", "lab.toml", "--worker", "anna")["trial"] == 1
    expire(lab / "lab.db")
    assert data("ask", "lab.toml", "--worker", "anna")["trial"] == 1
    assert data("ask", "lab.toml", "--worker", "bert")["trial"] == 2
    expire(lab / "lab.db")
    assert data("ask", "lab.toml", "--worker", "bert")["trial"] == 2
    assert data("ask", "lab.toml", "--worker", "carl")["trial"] == 1
    assert data("ask", "lab.toml", "--worker", "anna")["trial"] == 3
    late = pied_("fail", "lab.toml", "1", "spilled", "--worker", "anna", code=2).stderr
    assert "'carl' is evaluating it now, so this failure of 'anna' changes nothing" in late
    told = data("tell", "lab.toml", "1", "product=0.5", "impurity=0.01", "--worker", "carl")
    assert told["state"] == "told"


@pytest.mark.parametrize(
    "words",
    [
        ["add", "lab.toml", "none.csv"],
        ["add", "lab.toml", "bad.csv"],
        ["tell", "lab.toml", "1", "product=0.5"],
        ["tell", "lab.toml", "--from", "bad.csv"],
        ["fail", "lab.toml", "1", "pump tripped"],
        ["revise", "lab.toml"],
        ["ask", "lab.toml", "--csv", "nowhere/sheet.csv"],
        ["ask", "wrong.toml"],
        ["run", "lab.toml", "--budget", "3"],
        ["run", "lab.toml", "--budget", "3", "--python", "plant.py:h", "--timeout", "-1"],
        ["run", "lab.toml", "--budget", "3", "--python", "plant.py:h", "--executor", "processes"],
    ],
)
@pytest.mark.parametrize("place", ["beside", "sqlite:///kept.db"])
def test_a_refused_command_leaves_no_file_and_no_study_behind(lab: Path, words: list[str], place: str) -> None:
    (lab / "bad.csv").write_text("temperature,time,product\n170,1,0.4\n")
    (lab / "wrong.toml").write_text(LAB.replace("initial = 3", "initial = 1"))
    (lab / "plant.py").write_text("h = lambda x: (0.5, 0.05)\n")
    before = {file.name for file in lab.iterdir()}
    store = [] if place == "beside" else ["--store", place]
    pied_(*words, *store, code=(2, 3))
    assert {file.name for file in lab.iterdir()} - before <= {"__pycache__"}


def test_a_refused_command_leaves_no_study_in_a_store_of_others(lab: Path) -> None:
    pied_("ask", "lab.toml", "--store", "shared.db")
    (lab / "new.toml").write_text(LAB)
    (lab / "bad.csv").write_text("temperature,time,product\n170,1,0.4\n")
    pied_("add", "new.toml", "bad.csv", "--store", "shared.db", code=2)
    pied_("tell", "new.toml", "1", "product=1", "--store", "shared.db", code=2)
    base = sqlite3.connect(lab / "shared.db")
    assert base.execute("SELECT name FROM studies").fetchall() == [("lab",)]
    base.close()


def test_a_refused_add_does_not_lock_the_study(lab: Path) -> None:
    (lab / "old.csv").write_text("temperature,time,product\n70,7,0.4\n")
    pied_("add", "lab.toml", "old.csv", code=2)
    (lab / "lab.toml").write_text(LAB.replace("time = [0.5, 6]", "time = [0.5, 8]"))
    assert json.loads(pied_("add", "lab.toml", "old.csv", "--json").stdout)["added"] == [1]
