"""The laboratory's shell: state, ask, tell, fail and add, in parts and after mistakes."""

import csv
import getpass
import io
import json
import re
import shlex
import sys
import time
from pathlib import Path

import pytest

from pied.shell import speech
from shells import LAB, data, pied_

# ------------------------------------------------------------------------------------------------------ init and check


def test_init_writes_a_statement_that_check_and_ask_accept_at_once(lab: Path) -> None:
    shown = pied_("init", "mine.toml").output
    assert "pied check mine.toml" in shown
    checked = pied_("check", "mine.toml").output
    assert "mine.toml: 2 variables, 2 outputs, 1 constraint. It can be used." in checked
    assert "affine" not in checked
    assert "[affine in product]" in pied_("check", "mine.toml", "--why").output
    assert "maximize profit = price * product" in checked
    assert "temperature in [60, 100] degC" in checked
    assert data("ask", "mine.toml")["trial"] == 1
    assert (lab / "mine.db").exists()


@pytest.mark.slow
@pytest.mark.parametrize("page", ["README.md", "docs/start.md"])
def test_the_first_commands_of_a_page_work_as_they_are_written(lab: Path, page: str) -> None:
    text = (Path(__file__).parents[1] / page).read_text()
    shown = next(each for each in re.findall(r"```console\n(.*?)```", text, re.S) if "$ pied init" in each)
    (lab / "old.csv").write_text("temperature,time,product,impurity\n65,2,0.5,0.05\n")
    lines = [line.removeprefix("$ pied ").partition("#") for line in shown.splitlines()]
    for command, _, remark in lines:
        if not command.startswith("dashboard"):
            said = pied_(*shlex.split(command), code=(0, 1)).output  # 1: nothing is feasible yet
            if command.startswith("ask") and "=" in remark:  # settings that the page says are proposed
                assert re.findall(r"\w+ = [\d.]+ \w+", remark) == re.findall(r"\w+ = [\d.]+ \w+", said)


def test_init_never_overwrites(lab: Path) -> None:
    assert "'lab.toml' exists already and was not changed" in pied_("init", "lab.toml", code=2).stderr
    assert (lab / "lab.toml").read_text() == LAB
    assert "ends in .toml: pied init mine.toml" in pied_("init", "mine", code=2).stderr
    assert "cannot be written: No such file" in pied_("init", "no/where.toml", code=2).stderr
    assert data("init") == {"file": "problem.toml"}


def test_check_shows_what_was_understood_and_runs_nothing(lab: Path) -> None:
    (lab / "run.toml").write_text(f"{LAB}[run]\ncommand = 'touch ran'\n")
    shown = pied_("check", "run.toml", "--why").output
    assert "subject to purity: impurity <= limit   [affine in impurity]" in shown
    assert "product (temperature, time)   within [0, 1]   noise 0.005" in shown
    assert "limit = 0.08" in shown
    assert "study 'run', kept in run.db, seed 1, initial 3, solver random" in shown
    assert "command, started by 'pied run' only: touch ran" in shown
    told = data("check", "run.toml")
    assert told["structure"]["purity"] == {"kind": "affine", "outputs": ["impurity"]}
    assert told["statement"]["variables"]["temperature"]["unit"] == "degC"
    assert not (lab / "ran").exists()
    assert not (lab / "run.db").exists()


def test_check_says_what_is_known_of_the_noise(lab: Path) -> None:
    """Who leaves it out of a simulator's statement pays for it, and should know."""
    unstated = re.sub(r",\s*noise = [\d.]+", "", LAB)
    assert unstated != LAB
    (lab / "open.toml").write_text(unstated)
    stated, shown = (pied_("check", name).output for name in ("lab.toml", "open.toml"))
    assert "say noise = 0" not in stated
    assert "noise to be learned" in shown
    assert "say noise = 0 where the same settings always give the same value" in shown


def test_check_writes_a_vector_on_one_line(lab: Path) -> None:
    text = 'minimize = "sum((c - a)^2)"\n[variables]\na = [0, 1]\n[outputs]\nc = { length = 24, noise = 0 }\n'
    (lab / "c.toml").write_text(text)
    shown = pied_("check", "c.toml", "--why").output
    assert "c[1..24] (a)   exact" in shown
    assert "[general in c]" in shown


# --------------------------------------------------------------------------------------------------------- ask and tell


@pytest.mark.slow
def test_who_asks_again_gets_the_same_trial_back_until_it_is_told(lab: Path) -> None:
    first = data("ask", "lab.toml")
    assert data("ask", "lab.toml") == first
    assert data("ask", "lab.toml", "--worker", "anna")["trial"] == 2
    told = data("tell", "lab.toml", "1", "product=0.6", "impurity=0.05")
    assert (told["trial"], told["state"], told["missing"]) == (1, "told", [])
    assert data("ask", "lab.toml")["trial"] == 3
    assert data("status", "lab.toml")["open"][0]["worker"] == "anna"


def test_a_login_or_a_file_named_in_another_encoding_is_no_obstacle(lab: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGNAME", "Ren\udce9")
    (lab / "Ren\udce9.toml").write_text((lab / "lab.toml").read_text())
    for file in ("lab.toml", "Ren\udce9.toml"):
        first = data("ask", file)
        assert data("ask", file, "--worker", "Ren\udce9") == first
        assert r"Ren\udce9" in pied_("status", file).stdout
        pied_("tell", file, "1", "product=0.5", "impurity=0.01")
        pied_("backup", file, "Ren\udce9.copy", "--replace")
        assert r"Ren\udce9" in pied_("history", file).stdout


def test_ask_says_what_to_set_and_what_to_type_next(lab: Path) -> None:
    shown = pied_("ask", "lab.toml").output
    assert re.search(
        r"^trial 1   \(one of the first points, [\w ]+\)\n  temperature = \d+ degC\n  time = \d\.\d+\n", shown
    )
    assert "pied tell lab.toml 1 product=... impurity=..." in shown
    assert "pied fail lab.toml 1 'the reason'" in shown
    elsewhere = pied_("ask", "lab.toml", "--store", "other place.db").output
    assert "pied tell lab.toml 1 product=... impurity=... --store 'other place.db'" in elsewhere


def test_outputs_are_told_in_parts_and_never_overwritten(lab: Path) -> None:
    pied_("ask", "lab.toml")
    assert "trial 1: told in part, impurity still missing" in pied_("tell", "lab.toml", "1", "product=.6").output
    assert "open (" + getpass.getuser() + ", impurity missing)" in pied_("status", "lab.toml").output
    done = pied_("tell", "lab.toml", "1", "impurity=0.09", "product=0.6").output
    assert re.search(r"trial 1: complete, price\*product - 0\.4\*time = \d+\.\d+, breaks purity", done)
    refused = pied_("tell", "lab.toml", "1", "product=0.7", code=2).stderr
    assert "'product' was told as 0.6 and cannot become 0.7; the first value is kept" in refused
    everything = json.loads(pied_("export", "lab.toml", "--json").stdout)
    assert [(each["output"], each["value"], each["counts"]) for each in everything["values"]] == [
        ("product", 0.6, True), ("product", 0.6, False), ("impurity", 0.09, True), ("product", 0.7, False),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["1"], "name the trial, then what was measured: pied tell lab.toml 3 NAME=VALUE"),
        (["product=1"], "name the trial, then what was measured"),
        (["1", "product"], "'product' should be NAME=VALUE, for instance product=0.5"),
        (["1", "prodct=1"], "'prodct' is not an output. Did you mean 'product'?"),
        (
            ["1", "product=x"],
            "'product': 'x' is not a number: write it like 0.78, without % or a unit, or leave it out",
        ),
        (["1", "product=0,5"], "write '0,5' with a decimal point"),
        (["1", "product=nan"], "is not a finite number"),
        (["1", "product=1", "product=2"], "'product' is given twice"),
        (["9", "product=1"], "there is no trial 9; the record has trials 1 to 1"),
        (["1", "product=1", "--from", "plan.csv"], "tell either one trial, TRIAL NAME=VALUE..., or a table"),
        (["--from", "none.csv"], "there is no table 'none.csv'"),
    ],
)
def test_a_mistake_in_telling_is_one_line_and_changes_nothing(lab: Path, words: list[str], message: str) -> None:
    pied_("ask", "lab.toml")
    shown = pied_("tell", "lab.toml", *words, code=2)
    assert message in shown.stderr
    assert len(shown.stderr.splitlines()) == 1
    assert shown.stdout == ""
    assert data("status", "lab.toml")["trials"]["asked"] == 1


def test_negative_numbers_and_vectors_are_told(lab: Path) -> None:
    text = 'minimize = "sum((c - a)^2) + y"\n[variables]\na = [0, 1]\n[outputs]\nc = { length = 3 }\ny = {}\n'
    (lab / "c.toml").write_text(text)
    assert "c=... y=..." in pied_("ask", "c.toml").output
    assert data("tell", "c.toml", "1", "c=0.1,-0.2,1e-3", "y=-4")["y"] == {
        "c[1]": 0.1, "c[2]": -0.2, "c[3]": 0.001, "y": -4.0,
    }  # fmt: skip
    assert "'c' has 3 numbers, got 2" in pied_("tell", "c.toml", "1", "c=1,2", code=2).stderr


# ----------------------------------------------------------------------------------------------------------- run sheets


def filled(sheet: Path, rows: dict[str, dict[str, str]], *, sign: str = ",") -> None:
    """Write results into a run sheet, as a spreadsheet would save it."""
    table = list(csv.DictReader(io.StringIO(sheet.read_text())))
    for row in table:
        row |= rows.get(row["trial"], {})
    lines = [sign.join(table[0]), *(sign.join(row.values()) for row in table)]
    sheet.write_text("\n".join(lines))


@pytest.mark.parametrize("sign", [",", ";"])
def test_a_run_sheet_is_filled_in_and_told(lab: Path, sign: str) -> None:
    shown = pied_("ask", "lab.toml", "--count", "3", "--csv", "plan.csv").output
    assert "3 trials are in plan.csv" in shown
    assert "pied tell lab.toml --from plan.csv" in shown
    filled(lab / "plan.csv", {"1": {"product": "0.6", "impurity": "0.05"}, "3": {"product": "0.7"}}, sign=sign)
    shown = pied_("tell", "lab.toml", "--from", "plan.csv").output
    assert "trial 1: complete" in shown
    assert "trial 3: told in part, impurity still missing" in shown
    counts = data("status", "lab.toml")["trials"]
    assert (counts["told"], counts["partial"], counts["asked"]) == (1, 1, 1)
    pied_("tell", "lab.toml", "--from", "plan.csv")  # once more is fine
    assert data("status", "lab.toml")["trials"] == counts


def test_a_run_sheet_is_never_overwritten(lab: Path) -> None:
    (lab / "plan.csv").write_text("precious")
    assert "is there already and may hold results" in pied_("ask", "lab.toml", "--csv", "plan.csv", code=2).stderr
    assert (lab / "plan.csv").read_text() == "precious"


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"product": "0.6", "time": "10"}, "plan.csv, line 3: 'time' = 10.0 is far outside of its range"),
        ({"product": "0.6", "trial": "7"}, "plan.csv, line 3: there is no trial '7'"),
        ({"product": "high"}, "plan.csv, line 3, 'product': 'high' is not a number"),
    ],
)
def test_a_mistake_in_a_run_sheet_tells_nothing_of_it(lab: Path, row: dict[str, str], message: str) -> None:
    pied_("ask", "lab.toml", "--count", "2", "--csv", "plan.csv")
    filled(lab / "plan.csv", {"1": {"product": "0.6"}, "2": row})
    assert message in pied_("tell", "lab.toml", "--from", "plan.csv", code=2).stderr
    assert data("status", "lab.toml")["trials"]["asked"] == 2


def test_an_empty_run_sheet_is_no_mistake(lab: Path) -> None:
    pied_("ask", "lab.toml", "--csv", "plan.csv")
    assert "has nothing to tell yet" in pied_("tell", "lab.toml", "--from", "plan.csv").output
    assert data("tell", "lab.toml", "--from", "plan.csv") == []


# ------------------------------------------------------------------------------------------------------------ fail, add


def test_a_failed_trial_keeps_its_reason_and_is_not_asked_again(lab: Path) -> None:
    pied_("ask", "lab.toml")
    assert "trial 1 failed: pump tripped" in pied_("fail", "lab.toml", "1", "pump tripped").output
    assert "-  failed: pump tripped" in pied_("status", "lab.toml").output
    assert data("ask", "lab.toml")["trial"] == 2
    assert "there is no trial 7" in pied_("fail", "lab.toml", "7", "why", code=2).stderr
    assert data("fail", "lab.toml", "2", "leak")["reason"] == "leak"


def test_a_failure_by_something_else_than_the_settings_is_shown_as_one(lab: Path) -> None:
    pied_("ask", "lab.toml")
    shown = pied_("fail", "lab.toml", "1", "flask broke", "--not-the-settings").output
    assert shown == "trial 1 failed (not the settings): flask broke\n"
    assert "failed (not the settings): flask broke" in pied_("status", "lab.toml").output
    assert data("status", "lab.toml")["failed"] == [{"trial": 1, "reason": "flask broke", "not_the_settings": True}]
    assert not data("fail", "lab.toml", "1", "flask broke", "--the-settings")["not_the_settings"]


def test_old_data_are_added_once_however_often_the_table_is_given(lab: Path) -> None:
    (lab / "old.csv").write_text("date;temperature;time;product;impurity\nMonday;70;1,5;0,4;0,03\nTuesday;80;2;0,5;\n")
    shown = pied_("add", "lab.toml", "old.csv")
    assert shown.stdout == "2 rows added\n"
    assert shown.stderr == "old.csv: ignored columns: date\n"
    with (lab / "old.csv").open("a") as table:
        table.write("Friday;90;3;0,6;0,07\n")
    assert data("add", "lab.toml", "old.csv") == {"added": [3], "known": 2}
    assert data("status", "lab.toml")["trials"]["added"] == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("temperature,product\n70,0.4\n", "old.csv has no column 'time', which is needed"),
        ("temperature,time,prodct\n70,1,0.4\n", "'prodct' is product\npied: nothing was added yet"),
        ("temperature,time,product\n170,1,0.4\n", "old.csv, line 2: 'temperature' = 170 is far outside of its range"),
        ("temperature,time,product\n70,,0.4\n", "line 2: The variable 'time' is missing"),
        ("temperature,time,product\n70,1,\n", "line 2: no output is filled in"),
    ],
)
def test_a_mistake_in_old_data_adds_nothing(lab: Path, text: str, message: str) -> None:
    (lab / "old.csv").write_text(text)
    assert message in pied_("add", "lab.toml", "old.csv", code=2).stderr
    assert not (lab / "lab.db").exists()


# ------------------------------------------------------------------------------------------------ the laboratory path

NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?:e-?\d+)?")


def steps(page: str) -> list[tuple[list[str], list[str]]]:
    """The commands of the laboratory path, split into words, each with the lines that should follow."""
    found = re.search(r"<!-- the laboratory path -->\n```console\n(.*?)```", page, re.S)
    assert found is not None
    parts = re.split(r"^\$ pied ", found[1], flags=re.M)[1:]
    return [(shlex.split(lines[0]), lines[1:]) for lines in (part.splitlines() for part in parts)]


def agree(expected: list[str], shown: list[str]) -> bool:
    """Whether lines agree: the words to the letter, numbers to five percent (another machine rounds differently)."""
    if expected[-1:] == ["..."]:
        expected, shown = expected[:-1], shown[: len(expected) - 1]
    if len(expected) != len(shown):
        return False
    for line, other in zip(expected, shown, strict=True):
        numbers = [[float(each) for each in NUMBER.findall(text)] for text in (line, other)]
        if NUMBER.sub("#", line) != NUMBER.sub("#", other) or numbers[0] != pytest.approx(numbers[1], rel=0.05):
            return False
    return True


@pytest.mark.slow
def test_the_laboratory_path_of_the_guide_runs_as_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = (Path(__file__).parents[1] / "docs" / "guide-laboratory.md").read_text()
    table = re.search(r"```csv\n(.*?)```", page, re.S)
    assert table is not None
    (tmp_path / "old.csv").write_text(table[1])
    path = steps(page)
    verbs = "init check add ask tell fail correct withdraw restore note history status result plot report revise export"
    assert list(dict.fromkeys(words[0] for words, _ in path)) == verbs.split()
    assert any("--at" in words for words, _ in path)
    pytest.importorskip("matplotlib")
    for words, expected in path:
        shown = pied_(*words).stdout.splitlines()
        assert agree(expected, shown), (words, shown)
    assert (tmp_path / "record.csv").read_text().startswith("trial,state,aim,temperature,time,product,impurity")


def test_the_statement_of_the_guide_is_accepted(tmp_path: Path) -> None:
    guide = (Path(__file__).parents[1] / "docs" / "guide-laboratory.md").read_text()
    stated = re.search(r"```toml\n(.*?)```", guide, re.S)
    assert stated is not None
    (tmp_path / "reactor.toml").write_text(stated[1])
    assert "2 variables, 4 outputs, 2 constraints" in pied_("check", str(tmp_path / "reactor.toml")).output


# ---------------------------------------------------------------------------------------------------- what was meant


def test_what_was_probably_meant_is_offered(lab: Path) -> None:
    said = pied_("ask", "lab.toml", "4", code=2).stderr
    assert "for 4 open trials pied ask lab.toml --count 4" in said
    assert "for the settings of trial 4 once more pied ask lab.toml --repeat 4" in said
    assert "--count" not in pied_("ask", "lab.toml", "0", code=2).stderr
    for wrong in ("lab", "lab.tml", "la.toml"):
        assert pied_("status", wrong, code=2).stderr.endswith("Did you mean 'lab.toml'?\n")
    assert "Did you mean" not in pied_("status", "entirely-else.toml", code=2).stderr
    pied_("ask", "lab.toml", "--csv", "plan.csv")
    assert "name another table, plan-2.csv" in pied_("ask", "lab.toml", "--csv", "plan.csv", code=2).stderr
    assert "name another file, plan-2.csv" in pied_("export", "lab.toml", "--output", "plan.csv", code=2).stderr
    assert "Did you mean 'plan.csv'?" in pied_("tell", "lab.toml", "--from", "paln.csv", code=2).stderr
    said = pied_("tell", "lab.toml", "1", "--at", "time=2", "temperature=75", code=2).stderr
    assert "'temperature' is a setting, not an output." in said
    assert "--at temperature=75" in said


def test_what_is_told_again_changes_nothing_and_says_so(lab: Path) -> None:
    pied_("ask", "lab.toml", "--csv", "plan.csv")
    told = ("tell", "lab.toml", "1", "product=0.5", "impurity=0.01", "--at", "time=2")
    assert "was run at time = 2 instead of" in pied_(*told).output
    assert pied_(*told).output == "trial 1: already told, nothing changed\n"
    assert pied_("tell", "lab.toml", "1", "product=0.5").output == "trial 1: already told, nothing changed\n"


def test_settings_are_printed_as_they_were_written(lab: Path) -> None:
    Path("lab.toml").write_text(LAB.replace("[0.5, 6]", "[0.5, 12]"))
    (lab / "more.csv").write_text("temperature,time,product,impurity\n61.3,8.7,0.5,0.01\n")
    pied_("add", "lab.toml", "more.csv")
    shown = pied_("ask", "lab.toml", "--repeat", "1").output
    assert "  temperature = 61.3 degC\n  time = 8.7\n" in shown


# ------------------------------------------------------------------------------------------------- what takes a while


def test_on_a_terminal_what_takes_longer_than_a_moment_says_so_and_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(speech, "UNSAID", 0.0)
    monkeypatch.setattr(speech, "TICK", 0.001)
    for is_terminal in (False, True):
        monkeypatch.setattr(sys.stderr, "isatty", lambda is_terminal=is_terminal: is_terminal)
        said = ""
        with speech.working("The report"):
            for _ in range(2000 if is_terminal else 3):
                said += capsys.readouterr().err
                if said:
                    break
                time.sleep(0.005)
        assert ("The report: " in said and "s so far" in said) == is_terminal
        assert capsys.readouterr().err.endswith("\r\x1b[K") == is_terminal


def test_a_slip_in_what_was_measured_is_seen_before_the_store_is_opened(lab: Path) -> None:
    pied_("ask", "lab.toml")
    (lab / "lab.db").write_text("not a store")
    assert "name the trial, then what was measured" in pied_("tell", "lab.toml", "product=1", code=2).stderr
    assert "'yield' is not an output" in pied_("tell", "lab.toml", "1", "yield=1", code=2).stderr
    assert "is not a store of pied" in pied_("tell", "lab.toml", "1", "product=0.5", code=2).stderr
