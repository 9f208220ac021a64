"""Tables as laboratories have them: how they are understood, what is asked once, and what is kept."""

from pathlib import Path
from typing import Any

import pytest

from pied import Choice, Problem, Variable
from pied.shell import units
from pied.shell.excel import to_excel
from pied.shell.proposal import Proposal, proposed
from shells import pied_

MESSY = """Campaign 2025;;;;;
;;;;;
;Date;Temp. (°F);Time / min;Solvent;Product [%];Impurity (mg/L)
;2025-03-01;176;120;Toluene;50,5;n.d.
;2025-03-02;;150;Thf;60,5;45,2
;2025-03-03;194;180;toluene;71;<20
;2025-03-03;194;180;toluene;71;<20

;Date;Temp. (°F);Time / min;Solvent;Product [%];Impurity (mg/L)
;2025-04-01;149;60;H2O;12,5;-
"""


def plant(**words: Any) -> Problem:
    return Problem(
        {
            "temperature": Variable(60, 100, unit="degC"),
            "time": Variable(0.5, 6, unit="h"),
            "solvent": Choice("toluene", "THF", "water"),
        },
        {"product": {"unit": "1"}, "impurity": {"unit": "g/L", **words}},
        maximize="product",
        subject_to=["impurity <= 0.08"],
    )


def read(text: str, maps: Any = (), problem: Any = None, **words: Any) -> Proposal:
    found = proposed(text.encode(), "old.csv", problem or plant(), dict(maps), **words)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("value", "given", "wanted", "made"),
    [
        (212, "°F", "degC", 100), (25, "°C", "K", 298.15), (90, "min", "h", 1.5), (45.2, "mg/L", "g/L", 0.0452),
        (2, "mmol/L", "M", 0.002), (1, "atm", "kPa", 101.325), (5, "mL/min", "L/h", 0.3), (3, "MPa", "bar", 30),
        (50, "%", "1", 0.5),
    ],
)  # fmt: skip
def test_units_are_converted(value: float, given: str, wanted: str, made: float) -> None:
    change = units.converter(given, wanted)
    assert change is not None
    assert value * change[0] + change[1] == pytest.approx(made)
    back = units.converter(wanted, given)
    assert back is not None
    assert made * back[0] + back[1] == pytest.approx(value)


def test_units_of_other_kinds_are_not_converted() -> None:
    assert units.converter("min", "g") is None
    assert units.converter("mg/L", "mol/L") is None  # needs a molar mass
    assert units.converter("stones", "kg") is None
    assert units.are_same("°C", "degC")
    assert not units.are_same("mPa", "MPa")


def test_a_messy_table_is_understood_in_one_go() -> None:
    found = read(MESSY, {"H2O": "water"})
    rows = [tuple(row[name] for name in (*plant().variables, *plant().outputs)) for row in found.table.rows]
    assert rows == [
        ("80.0", "2.0", "toluene", "0.505", ""),
        ("80.0", "2.5", "THF", "0.605", "0.0452"),
        ("90.0", "3.0", "toluene", "0.71", "<0.02"),
        ("90.0", "3.0", "toluene", "0.71", "<0.02"),
        ("65.0", "1.0", "water", "0.125", ""),
    ]
    assert found.table.lines == (4, 5, 6, 7, 10)
    assert not found.missing
    for said in ("the heading is in line 3; 2 lines above it are left out", "2 tables, lines 4 to 7 and 10 to 10",
                 "'Temp. (°F)' is temperature, converted from °F to degC", "ignored columns: Date",
                 "'Toluene' is the label toluene", "temperature is empty in line 5: taken from the cell above",
                 "'n.d.' of impurity is left out, because no limit of detection", "1 row is identical"):  # fmt: skip
        assert said in found.said


def test_not_detected_is_kept_where_its_limit_is_stated() -> None:
    assert read(MESSY, {"H2O": "water"}, plant(lod=0.02)).table.rows[0]["impurity"] == "n.d."


def test_what_is_not_understood_is_said_at_once() -> None:
    text = "Temp.,Hold (s/m),Solvent,T,Yield\n80,2,acetone,1,0.5\n"
    assert read(text.replace("Hold", "time"), {"T": "product"}).missing == [
        "'time (s/m)' is in s/m, time in h, and no conversion is known: convert it",
        "'acetone' is no label of solvent (toluene, THF, water): --map 'acetone=LABEL'",
    ]
    assert "no column means 'time': --map 'HEADING=time'" in read(text).missing
    twice = "temp,Temp. (°C),time,solvent,product\n80,81,2,THF,0.5\n"
    assert read(twice).missing == ["'temp' and 'Temp. (°C)' both mean 'temperature': --ignore one of them"]
    assert not read(twice, ignored=["temp"]).missing


def test_tables_side_by_side_and_from_excel() -> None:
    columns = ["Temp (°C)", "Time (h)", "Solvent", "Yield", " ", "temp", "time", "solvent", "product"]
    row = dict(zip(columns, [80, 2, "THF", 0.5, "", 90, 3, "water", 0.6], strict=True))
    found = proposed(to_excel(columns, [row]), "old.xlsx", plant(), {"Yield": "product"})
    assert found is not None
    assert [each["product"] for each in found.table.rows] == ["0.5", "0.6"]
    assert [each["temperature"] for each in found.table.rows] == ["80", "90"]


def test_a_table_of_something_else_is_none() -> None:
    assert proposed(b"a,b\n1,2\n", "old.csv", plant(), {}) is None


FILE = """maximize = "product"
solver = "random"
[variables]
temperature = { lo = 60, hi = 100, unit = "degC" }
time = { lo = 0.5, hi = 6, unit = "h" }
solvent = { choices = ["toluene", "THF", "water"] }
[outputs]
product = { range = [0, 1], unit = "1" }
impurity = { unit = "g/L", lod = 0.02 }
[subject_to]
purity = "impurity <= 0.08"
"""


def test_the_shell_asks_once_and_keeps_the_answer(lab: Path) -> None:
    (lab / "plant.toml").write_text(FILE)
    (lab / "old.csv").write_text(MESSY)
    refused = pied_("add", "plant.toml", "old.csv", code=2)
    assert "'H2O' is no label of solvent" in refused.stderr
    asked = pied_("add", "plant.toml", "old.csv", "--map", "H2O=water", code=2)
    assert "converted from °F to degC" in asked.stderr
    assert "nothing was added yet. If that is right: pied add plant.toml old.csv --map H2O=water --yes" in asked.stderr
    assert not (lab / "plant.db").exists()
    assert "5 rows added" in pied_("add", "plant.toml", "old.csv", "--map", "H2O=water", "--yes").output
    assert "'Temp. (°F)' means temperature" in pied_("history", "plant.toml").output
    (lab / "new.csv").write_text("Temp. (°F);Time / min;Solvent;Product [%]\n167;90;H2O;33\n")
    again = pied_("add", "plant.toml", "new.csv")  # all of this was confirmed
    assert "1 row added" in again.output


def test_a_range_error_is_told_as_it_is(lab: Path) -> None:
    (lab / "plant.toml").write_text(FILE)
    (lab / "old.csv").write_text("temperature,time,solvent,product\n80,2,THF,50\n")
    assert "'product' = 50 is outside its range" in pied_("add", "plant.toml", "old.csv", code=2).stderr
