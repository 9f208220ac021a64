"""A campaign with integers, levels, a choice, a mixture and equalities, at the shell: files, tables, pictures."""

import csv
import json
import sys
from pathlib import Path

import pytest

from shells import data, pied_

SPACES = """
maximize = "10*conversion - solvent.price - 0.2*stages - 0.1*size + glycol"
solver = "random"
[variables]
stages = { integer = [8, 40] }
size = { levels = [10, 15, 22, 28], unit = "mm" }
solvent = { choices = ["MeCN", "DMF", "EtOH"], properties = { price = { MeCN = 3.1, DMF = 2.4, EtOH = 1.0 } } }
plate = { lo = 0.0625, hi = 1, step = 0.0625 }
T = { lo = 40, hi = 110, unit = "degC" }
[mixtures.blend]
parts = ["water", "glycol", "salt"]
total = 1
bounds = { salt = [0, 0.2] }
[outputs]
conversion = { noise = 0 }
ph = { noise = 0 }
[subject_to]
neutral = { formula = "ph == 7", tolerance = 0.5 }
[study]
seed = 1
initial = 4
"""
SIMULATION = """
import json, sys
x = json.load(sys.stdin)
assert isinstance(x["stages"], int), x
assert sys.argv[1:] == [x["solvent"], str(x["stages"]), repr(x["T"])], sys.argv
print(json.dumps({"conversion": 0.01 * x["stages"] + (x["solvent"] == "DMF"), "ph": 7 + x["salt"]}))
"""
TWO = """
maximize = "y - 0.2*n"
[variables]
n = { integer = [1, 6] }
wood = { choices = ["oak", "pine", "ash"] }
[outputs]
y = { noise = 0 }
[subject_to]
strong = "y >= 1"
[study]
seed = 0
initial = 3
"""
FEWER = (
    '"DMF", "EtOH"], properties = { price = { MeCN = 3.1, DMF = 2.4, ',
    '"EtOH"], properties = { price = { MeCN = 3.1, ',
)
"""How DMF is taken out of the file."""
POINT = "stages,size,solvent,plate,T,water,glycol,salt"


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PIED_STORE", raising=False)
    file = tmp_path / "lab.toml"
    file.write_text(SPACES, encoding="utf-8")
    (tmp_path / "simulate.py").write_text(SIMULATION, encoding="utf-8")
    return file


def rewrite(file: Path, old: str, new: str) -> None:
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new), encoding="utf-8")


def filled(plan: Path, **changes: str) -> None:
    """Fill in a plan; changes are cells of the first row."""
    with plan.open(encoding="utf-8", newline="") as opened:
        rows = list(csv.DictReader(opened))
    rows[0] |= changes
    with plan.open("w", encoding="utf-8", newline="") as opened:
        writer = csv.DictWriter(opened, list(rows[0]))
        writer.writeheader()
        writer.writerows({**row, "conversion": "0.5", "ph": "7.1"} for row in rows)


# --------------------------------------------------------------------------------------------------------- the file


def test_check_lists_kinds_and_equalities(lab: Path) -> None:
    said = pied_("check", "lab.toml").stdout
    for line in (
        "8 variables, 2 outputs, 3 constraints, 1 equality",
        "stages in [8, 40], whole numbers",
        "size one of 10, 15, 22, 28 mm",
        "solvent one of MeCN, DMF, EtOH; known of each: price",
        "subject to neutral: ph == 7, within 0.5",
        "blend: water + glycol + salt == 1",
        "follows from the others",
    ):
        assert line in said
    stated = data("check", "lab.toml")["statement"]
    assert stated["variables"]["solvent"]["choices"] == ["MeCN", "DMF", "EtOH"]
    assert stated["equalities"] == {"blend": "`water` + `glycol` + `salt` == 1.0"}


def test_properties_may_stand_in_a_table_beside_the_file(lab: Path) -> None:
    Path("solvents.csv").write_text("name;price;bp\nMeCN;3,1;82\nDMF;2,4;153\nEtOH;1;78\n", encoding="utf-8")
    inline = "{ price = { MeCN = 3.1, DMF = 2.4, EtOH = 1.0 } }"
    rewrite(lab, inline, '"solvents.csv"')
    made = data("check", "lab.toml")["statement"]["variables"]["solvent"]
    assert made["properties"] == {"price": [3.1, 2.4, 1.0], "bp": [82.0, 153.0, 78.0]}
    rewrite(lab, 'choices = ["MeCN", "DMF", "EtOH"], ', "")
    assert data("check", "lab.toml")["statement"]["variables"]["solvent"]["choices"] == ["MeCN", "DMF", "EtOH"]
    rewrite(lab, '"solvents.csv"', '"../solvents.csv"')
    assert "lies outside of the folder" in pied_("check", "lab.toml", code=2).stderr


def test_the_example_and_the_guide_can_be_used(lab: Path) -> None:
    root = Path(__file__).parents[1]
    said = pied_("check", str(root / "examples" / "screening.toml")).stdout
    assert "solvent one of MeCN, DMF, EtOH; known of each: price, boiling point" in said
    assert "2 equalities" in said
    text = (root / "docs" / "guide-spaces.md").read_text(encoding="utf-8")
    lab.write_text(text.split("```toml\n")[1].split("```")[0], encoding="utf-8")
    for asked in data("ask", "lab.toml", "--count", "3"):
        x = asked["x"]
        assert abs(x["water"] + x["glycol"] + x["salt"] - 1) <= 1e-12
        assert abs(x["glycol"] - 3 * x["salt"]) <= 1e-12


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('["MeCN", "DMF", "EtOH"], properties', '["MeCN", "EtOH"], properties', "'DMF', which is no label"),
        (
            '["MeCN", "DMF", "EtOH"], properties = { price = { MeCN = 3.1, DMF = 2.4, EtOH = 1.0 } }',
            '["MeCN"]',
            "'MeCN' is the only label",
        ),
        ("DMF = 2.4", "DFM = 2.4", "'DFM', which is no label. Did you mean 'DMF'?"),
        ('["MeCN", "DMF", "EtOH"]', "[1, 2]", "levels = [1, 2]"),
        ('["MeCN", "DMF", "EtOH"]', '"MeCN"', "a list of labels"),
        ("[8, 40]", "[8, 40.5]", "whole numbers as bounds"),
        ("[8, 40]", "8", "an integer has two bounds"),
        ("[8, 40]", "[1, 9000000]", "9,000,000 whole numbers are too many"),
        ("[8, 40]", '[8, "many"]', "a number is expected"),
        ("levels = [10, 15, 22, 28]", "levels = [10]", "fewer than two levels"),
        ("levels = [10, 15, 22, 28]", "levels = [10, 10, 15]", "given twice"),
        ("levels = [10, 15, 22, 28]", "levels = [10, 15], step = 5", "'step' does not go with 'levels'"),
        ("levels =", "level =", "Did you mean 'levels'?"),
        ("hi = 1, step = 0.0625", "hi = 1, step = 0.1", "does not reach 1"),
        ('parts = ["water", "glycol", "salt"]', 'parts = ["water"]', "at least two parts"),
        ('parts = ["water", "glycol", "salt"]', 'parts = ["water", "T", "salt"]', "'T' is a variable already"),
        ("parts =", "part =", "a mixture has parts"),
        ("bounds = { salt", "bounds = { slat", "no part of the mixture"),
        ("salt = [0, 0.2]", "salt = [0, 0.2], water = [0, 0.3], glycol = [0, 0.4]", "'blend' cannot hold"),
        ("total = 1", "totl = 1", "Did you mean 'total'?"),
        (", tolerance = 0.5", "", "say how near is near enough"),
        ('neutral = {', 'much = "water + glycol == 3"\nneutral = {', "'much' cannot hold"),
        ("solvent.price", "solvent.prise", "Did you mean 'solvent.price'?"),
        ("solvent.price", "solvent", "is a choice, not a number"),
    ],
)  # fmt: skip
def test_a_mistake_in_the_file_gets_one_sentence(lab: Path, old: str, new: str, said: str) -> None:
    rewrite(lab, old, new)
    told = pied_("check", "lab.toml", code=2).stderr
    assert said in told
    assert told.startswith("pied: lab.toml")
    assert len(told.strip().splitlines()) == 1


def test_candidates_may_have_columns_of_labels(lab: Path) -> None:
    Path("stock.csv").write_text("alloy,mm\nsteel,2\ntin,1\nsteel,3\n", encoding="utf-8")
    lab.write_text('candidates = "stock.csv"\noutputs = ["y"]\nmaximize = "y - mm"\nsolver = "random"\nnoise = 0\n')
    assert "alloy one of steel, tin" in pied_("check", "lab.toml").stdout
    found = {(row["x"]["alloy"], row["x"]["mm"]) for row in data("ask", "lab.toml", "--count", "3")}
    assert found == {("steel", 2.0), ("tin", 1.0), ("steel", 3.0)}
    Path("stock.csv").write_text("alloy,mm\nsteel,2\ntin,1O\nsteel,3\n", encoding="utf-8")
    assert "line 3, 'mm': '1O' is not a number" in pied_("check", "lab.toml", code=2).stderr


# --------------------------------------------------------------------------------------------------------- the verbs


def test_a_campaign_goes_through_all_verbs(lab: Path) -> None:
    asked = data("ask", "lab.toml", "--count", "4")
    assert all(isinstance(each["x"]["stages"], int) and isinstance(each["x"]["solvent"], str) for each in asked)
    assert all(abs(sum(each["x"][part] for part in ("water", "glycol", "salt")) - 1) <= 1e-12 for each in asked)
    pied_("ask", "lab.toml", "--count", "4", "--csv", "plan.csv")
    first = asked[0]["x"]
    other = next(label for label in ("DMF", "EtOH") if label != first["solvent"])
    filled(Path("plan.csv"), solvent=other, stages="12")
    told = pied_("tell", "lab.toml", "--from", "plan.csv").stdout
    assert f"solvent = {other} instead of {first['solvent']}" in told
    assert f"stages = 12 instead of {first['stages']}" in told

    status = data("status", "lab.toml")
    assert status["trials"]["told"] == 4
    assert other in pied_("status", "lab.toml").stdout

    number = str(data("ask", "lab.toml")["trial"])
    shown = pied_("ask", "lab.toml").stdout
    assert "solvent = " in shown
    assert ".0\n" not in shown
    unknown = pied_("tell", "lab.toml", number, "conversion=1", "--at", "solvent=DFM", code=2).stderr
    assert "Did you mean 'DMF'?" in unknown
    half = pied_("tell", "lab.toml", number, "conversion=1", "--at", "stages=12.5", code=2).stderr
    assert "counts in whole numbers, got 12.5" in half
    apart = pied_("tell", "lab.toml", number, "conversion=1", "--at", "salt=0.9", "--anyway", code=2).stderr
    assert "does not fit the others: 'blend' needs" in apart
    made = data("tell", "lab.toml", number, "conversion=1", "ph=7", "--at", "solvent=DMF", "--at", "stages=13")
    assert (made["x"]["solvent"], made["x"]["stages"]) == ("DMF", 13)
    pied_("correct", "lab.toml", number, "--at", "solvent=EtOH", "--why", "the other bottle")
    assert "solvent = EtOH instead of DMF (the other bottle)" in pied_("history", "lab.toml").stdout

    result = data("result", "lab.toml", code=(0, 3))
    assert isinstance(result["x"]["stages"], int)
    assert f"solvent = {result['x']['solvent']}" in pied_("result", "lab.toml", code=(0, 3)).stdout


def test_old_data_have_labels_and_an_export_can_be_added_again(lab: Path) -> None:
    Path("old.csv").write_text(
        f"{POINT.replace(',', ';')};conversion;ph\n"
        "12;10;DMF;0,5;50,5;0,5;0,4;0,1;0,3;7\n13;15;EtOH;1;50;0,5;0,4;0,1;0,4;7\n"
    )
    assert "2 rows added" in pied_("add", "lab.toml", "old.csv").stdout
    assert "2 were already there" in pied_("add", "lab.toml", "old.csv").stdout
    pied_("export", "lab.toml", "--output", "all.csv")
    with Path("all.csv").open(encoding="utf-8", newline="") as opened:
        rows = list(csv.DictReader(opened))
    assert [(row["solvent"], row["stages"], row["T"]) for row in rows] == [("DMF", "12", "50.5"), ("EtOH", "13", "50")]
    assert "2 were already there" in pied_("add", "lab.toml", "all.csv").stdout
    assert data("export", "lab.toml")["trials"][0]["x"]["solvent"] == "DMF"


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("12,10,DFM,0.5,50,0.5,0.4,0.1", "'DFM' is the label DMF of solvent"),
        ("12.5,10,DMF,0.5,50,0.5,0.4,0.1", "line 2: Variable 'stages' counts in whole numbers, got 12.5"),
        ("12,10,DMF,0.5,50,0.6,0.4,0.1", "line 2: 'water' = 0.6 does not fit the others: 'blend' needs 0.5"),
        ("12,10,,0.5,50,0.5,0.4,0.1", "line 2: The variable 'solvent' is missing"),
        ("many,10,DMF,0.5,50,0.5,0.4,0.1", "line 2, 'stages': 'many' is not a number"),
    ],
)
def test_a_row_that_cannot_be_is_refused(lab: Path, row: str, said: str) -> None:
    Path("old.csv").write_text(f"{POINT},conversion\n{row},0.3\n")
    assert said in pied_("add", "lab.toml", "old.csv", code=2).stderr
    assert not Path("lab.db").exists()


def test_a_label_that_begins_like_a_formula_survives_a_table(lab: Path) -> None:
    lab.write_text(
        'maximize = "y"\nsolver = "random"\noutputs = ["y"]\n[variables]\nisomer = { choices = ["+a", "-b"] }\n'
    )
    first = data("ask", "lab.toml")["x"]["isomer"]
    pied_("ask", "lab.toml", "--csv", "plan.csv")
    text = Path("plan.csv").read_text()
    assert f"1,'{first}," in text
    Path("plan.csv").write_text(text.rstrip("\n") + "3\n")
    assert "instead of" not in pied_("tell", "lab.toml", "--from", "plan.csv").stdout


def test_programs_get_labels_and_whole_numbers(lab: Path) -> None:
    command = f"{sys.executable} simulate.py {{solvent}} {{stages}} {{T}}"
    done = data("run", "lab.toml", "--budget", "3", "--command", command)
    assert [row["state"] for row in done["trials"]] == ["told"] * 3
    json.dumps(done)


# ---------------------------------------------------------------------------------------------------------- revise


def told_once(lab: Path, **at: str) -> None:
    number = str(data("ask", "lab.toml")["trial"])
    words = [word for name, value in at.items() for word in ("--at", f"{name}={value}")]
    pied_("tell", "lab.toml", number, "conversion=0.5", "ph=7", *words)


@pytest.mark.slow
def test_labels_are_added_and_an_integer_is_widened_and_the_data_stay(lab: Path) -> None:
    for label in ("MeCN", "DMF", "EtOH"):
        told_once(lab, solvent=label, stages="8")
    before = data("result", "lab.toml", code=(0, 3))
    rewrite(lab, '["MeCN", "DMF", "EtOH"]', '["NMP", "MeCN", "DMF", "EtOH"]')
    rewrite(lab, "DMF = 2.4", "DMF = 2.4, NMP = 9.0")
    rewrite(lab, "[8, 40]", "[4, 50]")
    said = pied_("revise", "lab.toml", code=(0, 3))
    assert "becomes one of NMP, MeCN, DMF, EtOH" in said.stderr
    after = data("revise", "lab.toml", code=(0, 3))
    assert after["old"]["x"] == before["x"], "the labels moved, and the old answer did not"
    assert [trial["x"]["solvent"] for trial in after["result"]["trials"]] == ["MeCN", "DMF", "EtOH"]
    told_once(lab, solvent="NMP", stages="4")
    rewrite(lab, "- 0.2*stages", "- 0.3*stages")
    assert data("revise", "lab.toml", code=(0, 3))["before"] is not None


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (*FEWER, "label 'DMF' of 'solvent' cannot be removed, because trial 1 has it"),
        ("plate = { lo = 0.0625, hi = 1, step = 0.0625 }", "plate = { integer = [0, 1] }", "counts in whole numbers"),
        ("T = { lo = 40, hi = 110, unit = \"degC\" }", 'T = { choices = ["low", "high"] }', "cannot have labels now"),
        ("neutral = {", 'more = "glycol == 4*salt"\nneutral = {', "trial 1 does not fit"),
    ],
)  # fmt: skip
def test_what_the_data_cannot_bear_is_refused_with_the_reason(lab: Path, old: str, new: str, said: str) -> None:
    told_once(lab, solvent="DMF", plate="0.5")
    rewrite(lab, old, new)
    told = pied_("revise", "lab.toml", code=2).stderr
    assert "the data cannot be kept like this" in told
    assert said in told


def test_a_label_without_data_may_go(lab: Path) -> None:
    told_once(lab, solvent="EtOH")
    rewrite(lab, *FEWER)
    pied_("revise", "lab.toml", code=(0, 3))
    assert data("ask", "lab.toml")["x"]["solvent"] in ("MeCN", "EtOH")


# --------------------------------------------------------------------------------------------------------- pictures


@pytest.mark.slow
def test_pictures_and_report_of_all_kinds(lab: Path) -> None:
    pytest.importorskip("matplotlib")
    command = f"{sys.executable} simulate.py {{solvent}} {{stages}} {{T}}"
    pied_("run", "lab.toml", "--budget", "5", "--command", command, code=(0, 3))
    pied_("report", "lab.toml")
    assert "can be chosen freely" in pied_("plot", "lab.toml", "--kind", "region", code=2).stderr
    page = Path("lab.html").read_text(encoding="utf-8")
    for kind in ("slices", "history", "outputs", "residuals"):
        assert f"<img alt='{kind}' src='data:image/svg+xml;base64," in page
    assert "one of MeCN, DMF, EtOH" in page
    assert "water + glycol + salt == 1.0 (exactly)" in page
    assert "follows from the others" in page
    assert "8 to 40, whole numbers" in page


def test_slices_and_region_of_a_choice_and_an_integer(lab: Path) -> None:
    pytest.importorskip("matplotlib")
    from pied.plots import cuts, plot_region, plot_slices, region
    from pied.shell.opening import opened

    lab.write_text(TWO, encoding="utf-8")
    for wood, n, y in (("oak", 1, 0.6), ("pine", 4, 1.2), ("ash", 6, 2.7), ("oak", 5, 3.0)):
        Path("old.csv").write_text(f"wood,n,y\n{wood},{n},{y}\n")
        pied_("add", "lab.toml", "old.csv")
    with opened("lab.toml", None, read_only=True) as desk:
        by_name = {cut.name: cut for cut in cuts(desk.study)}
        assert by_name["wood"].labels == ("oak", "pine", "ash")
        assert by_name["wood"].along.tolist() == [0.0, 1.0, 2.0]
        assert by_name["n"].is_stepped
        assert by_name["n"].along.tolist() == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
        axes = dict(zip(("n", "wood"), plot_slices(desk.study), strict=False))
        assert [tick.get_text() for tick in axes["wood"].get_xticklabels()] == ["oak", "pine", "ash"]
        shown = region(desk.study, size=36)
        assert len({column.tobytes() for column in shown.objective.T}) == 6, "each integer is one band"
        assert len({row.tobytes() for row in shown.objective}) == 3, "each label is one band"
        drawn = plot_region(desk.study)
        assert [tick.get_text() for tick in drawn.get_yticklabels()] == ["oak", "pine", "ash"]


def test_a_slice_of_a_mixture_ends_where_the_rest_leaves_its_bounds(lab: Path) -> None:
    pytest.importorskip("matplotlib")
    import numpy as np

    from pied import Mixture, Problem, Study
    from pied.plots import cuts, region

    variables = {"blend": Mixture("a", "b", "c", bounds={"a": (0.2, 0.6)})}
    study = Study(Problem(variables, ["y"], maximize="y", noise=0), seed=0)
    for a, b in ((0.3, 0.3), (0.5, 0.2), (0.4, 0.5), (0.2, 0.1)):
        study.add({"a": a, "b": b, "c": 1 - a - b}, {"y": a * b})
    found = cuts(study)
    assert len(found) == 2
    assert all(len(cut.follows) == 1 for cut in found)
    known = [np.isfinite(cut.median[:, 0]) for cut in found]
    assert all(each.any() for each in known)
    assert not all(each.all() for each in known)
    shown = region(study, size=21)
    assert (shown.pessimistic < 0).any(), "outside of the triangle nothing can be mixed"
