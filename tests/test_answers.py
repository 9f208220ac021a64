"""The shell's other half: programs that evaluate, answers, exit codes, and how it speaks."""

import csv
import io
import json
import logging
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import click
import pytest

from pied import Problem, Study
from pied.records.sql import Store
from pied.shell.main import COMMANDS, main
from pied.shell.speech import Progress, Warnings
from pied.shell.statement_file import read
from shells import LAB, data, pied_

PLANT = """
import pied
def plant(x):
    if x.time > 5.5:
        raise RuntimeError("pump tripped")
    return {"product": 0.5 + 0.01 * x.time, "impurity": 0.001 * (x.temperature - 40)}
def problem():
    return pied.Problem(
        {"temperature": (60, 100), "time": (0.5, 6)}, ["product", "impurity"], blackbox=plant,
        maximize="product - 0.01*time", subject_to=["impurity <= 0.05"], noise=0,
    )
"""

# ------------------------------------------------------------------------------------------------------------------ run


@pytest.mark.slow
def test_a_program_evaluates_points_and_its_failures_are_kept(lab: Path) -> None:
    command = f"{shlex.quote(sys.executable)} simulate.py"
    shown = pied_("run", "lab.toml", "--budget", "8", "--command", command).output
    lines = [line for line in shown.splitlines() if re.match(r" +\d+  temperature", line)]
    assert [int(line[:4]) for line in lines] == list(range(1, 9))
    assert any("ended with exit code 1; it said: pump tripped" in line for line in lines)
    assert "each point is evaluated by:" in shown
    assert "\r" not in shown  # no bar where there is no terminal
    assert data("run", "lab.toml", "--total", "10", "--command", command)["evaluations"] == 10
    assert data("run", "lab.toml", "--total", "10", "--command", command)["evaluations"] == 10


def test_a_program_named_in_the_file_runs_in_the_files_folder(lab: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = json.dumps([sys.executable, "simulate.py"])
    (lab / "run.toml").write_text(f"{LAB}[run]\ncommand = {words}\nworkers = 2\n")
    (lab / "elsewhere").mkdir()
    monkeypatch.chdir(lab / "elsewhere")
    found = data("run", "../run.toml", "--budget", "4")
    assert found["evaluations"] == 4
    assert (lab / "run.db").exists()


@pytest.mark.slow
def test_programs_that_are_late_or_flaky_are_ended_and_started_again(lab: Path) -> None:
    late = f"{shlex.quote(sys.executable)} -c 'import time; time.sleep(60)'"
    found = data("run", "lab.toml", "--budget", "3", "--command", late, "--timeout", "0.3", code=3)
    assert found["status"] == "BROKEN"
    assert all("took longer than 0.3 s" in trial["reason"] for trial in found["trials"])
    (lab / "flaky.py").write_text(
        "import pathlib, sys\nseen = pathlib.Path('seen')\n"
        "print(0.5, 0.05) if seen.exists() else (seen.touch(), sys.exit('flaky'))\n"
    )
    flaky = f"{shlex.quote(sys.executable)} flaky.py"
    found = data("run", "lab.toml", "--budget", "1", "--command", flaky, "--retries", "1", "--store", "b.db")
    assert found["trials"][0]["state"] == "told"


def test_a_python_problem_and_a_python_black_box_run(lab: Path, request: pytest.FixtureRequest) -> None:
    (lab / "plant_of_the_shell.py").write_text(PLANT)
    found = data("run", "plant_of_the_shell.py:problem", "--budget", "3", code=(0, 3))  # 3: none of them is feasible
    assert found["evaluations"] == 3
    assert (lab / "plant_of_the_shell.db").exists()
    found = data("run", "lab.toml", "--budget", "3", "--python", "plant_of_the_shell.py:plant", "--timeout", "20")
    assert found["trials"][0]["state"] == "told"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["--budget", "3"],
            "lab.toml names nothing that evaluates points: give --command, --python or --fmu, or measure",
        ),
        ([], "say how many points to evaluate: --budget 20 more, or --total 60 in all"),
        (["--budget", "1", "--total", "1"], "say how many points to evaluate"),
        (["--budget", "1", "--command", "sim {tmperature}"], "speaks of {tmperature}. Did you mean 'temperature'?"),
        (["--budget", "1", "--command", "sim", "--python", "a.py:f"], "one thing evaluates a point"),
        (["--budget", "1", "--python", "a.txt"], "'a.txt' should name a file and a function in it"),
        (["--budget", "1", "--command", "sim", "--timeout", "0"], "timeout is a number of seconds above 0"),
        (["--budget", "1", "--command", "sim '"], "cannot be split into words"),
    ],
)
def test_a_mistake_in_a_run_is_one_line(lab: Path, words: list[str], message: str) -> None:
    shown = pied_("run", "lab.toml", *words, code=2)
    assert message in shown.stderr
    assert len(shown.stderr.splitlines()) == 1


# -------------------------------------------------------------------------------------------------------------- answers


@pytest.fixture
def measured(lab: Path) -> Path:
    """A folder with a study that has something to say."""
    rows = [(60, 1, 0.4, 0.03), (70, 2, 0.5, 0.04), (80, 3, 0.6, 0.06), (90, 4, 0.7, 0.09), (65, 5, 0.55, 0.05)]
    text = "\n".join(["temperature,time,product,impurity", *(",".join(map(str, row)) for row in rows)])
    (lab / "old.csv").write_text(text)
    pied_("add", "lab.toml", "old.csv")
    return lab


@pytest.mark.slow
def test_the_result_is_a_page_with_units_and_its_data(measured: Path) -> None:
    shown = pied_("result", "lab.toml").output
    assert re.search(r"^    temperature = [\d.]+ degC$", shown, re.M)
    assert re.search(r"^  impurity 0\.\d+, limit 0\.08\d*: met \(", shown, re.M)
    assert data("result", "lab.toml")["feasible"] is True
    best = data("result", "lab.toml", "--rule", "observed")
    assert best["trial"] == 3
    assert best["value"] == pytest.approx(20 * 0.6 - 0.4 * 3)


def test_an_answer_from_few_measurements_says_so(lab: Path) -> None:
    (lab / "old.csv").write_text("temperature,time,product,impurity\n60,1,0.4,0.03\n70,2,0.5,0.04\n")
    pied_("add", "lab.toml", "old.csv")
    assert "Take this with care: it rests on 2 complete measurements." in pied_("result", "lab.toml").stderr


@pytest.mark.slow
def test_a_new_price_is_tried_without_a_record_and_kept_by_writing_it_down(measured: Path) -> None:
    shown = pied_("revise", "lab.toml", "--set", "price=2").output
    assert "The previous best settings at the new prices and limits:" in shown
    assert "Nothing was recorded. To keep the change, write it into lab.toml." in shown
    assert data("status", "lab.toml")["question"] == 1
    (measured / "lab.toml").write_text(LAB.replace("price = 20.0", "price = 2.0"))
    told = pied_("ask", "lab.toml").stderr
    assert told == "The question has changed; the data are kept. See what that means: pied revise lab.toml\n"
    found = data("revise", "lab.toml")
    assert found["recorded"] is True
    assert found["result"]["value"] >= found["before"]["value"] - 1e-6
    assert found["old"]["value"] > 5 > found["before"]["value"]  # the same point at the old price
    assert data("status", "lab.toml")["question"] == 2


def test_a_first_question_has_nothing_beside_it(measured: Path) -> None:
    assert "This is the first question" in pied_("revise", "lab.toml").output
    assert (
        "'prize' is not a numeric constant. Did you mean 'price'?"
        in pied_("revise", "lab.toml", "--set", "prize=2", code=2).stderr
    )


def test_the_record_is_exported_as_a_table_and_as_json(measured: Path) -> None:
    pied_("ask", "lab.toml")
    rows = list(csv.DictReader(io.StringIO(pied_("export", "lab.toml").stdout)))
    assert list(rows[0])[:7] == ["trial", "state", "aim", "temperature", "time", "product", "impurity"]
    assert [row["feasible"] for row in rows] == ["yes", "yes", "yes", "no", "yes", ""]
    assert float(rows[3]["purity"]) == pytest.approx(-0.01)
    assert float(rows[2]["price*product - 0.4*time"]) == pytest.approx(10.8)
    pied_("export", "lab.toml", "--output", "out.csv")
    assert list(csv.DictReader(io.StringIO((measured / "out.csv").read_text()))) == rows
    assert "was not changed" in pied_("export", "lab.toml", "--output", "out.csv", code=2).stderr
    pied_("export", "lab.toml", "--output", "out.json", "--json")
    assert json.loads((measured / "out.json").read_text()) == data("export", "lab.toml")


def test_an_exported_table_can_be_added_to_another_study(measured: Path) -> None:
    pied_("export", "lab.toml", "--output", "out.csv")
    assert data("add", "lab.toml", "out.csv", "--store", "second.db")["added"] == [1, 2, 3, 4, 5]


# ----------------------------------------------------------------------------------------------------- codes and places


@pytest.mark.parametrize("command", ["status", "result", "export"])
def test_before_the_first_trial_there_is_no_answer_and_nothing_is_made(lab: Path, command: str) -> None:
    shown = pied_(command, "lab.toml", code=3)
    assert shown.stderr == "pied: nothing is recorded yet; begin with: pied ask lab.toml\n"
    assert not (lab / "lab.db").exists()


def test_a_point_that_breaks_a_limit_has_exit_code_3(lab: Path) -> None:
    (lab / "old.csv").write_text("temperature,time,product,impurity\n60,1,0.4,0.3\n90,2,0.5,0.4\n80,5,0.5,0.5\n")
    pied_("add", "lab.toml", "old.csv")
    assert data("result", "lab.toml", "--rule", "observed", code=3)["feasible"] is False


def test_the_verdict_has_exit_code_4_when_asked_and_when_answered(lab: Path) -> None:
    (lab / "lab.toml").write_text(LAB.replace("[constants]", 'cold = "temperature <= 10"\n[constants]'))
    shown = pied_("ask", "lab.toml", code=4)
    assert shown.stderr.startswith("pied: No settings meet the known limits: 'cold' cannot be met within the ranges.")
    assert data("result", "lab.toml", code=4)["status"] == "INFEASIBLE"


def test_other_variables_on_the_same_data_are_refused(measured: Path) -> None:
    (measured / "lab.toml").write_text(LAB.replace("time = [0.5, 6]", "time = [0.5, 8]"))
    shown = pied_("ask", "lab.toml", code=2).stderr
    assert "study 'lab' has data of other variables" in shown
    assert "variable 'time': 0.5 to 6 is stored, 0.5 to 8 is given" in shown


def test_the_store_may_be_named_or_come_from_the_environment(lab: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pied_("ask", "lab.toml", "--store", "sqlite:///here.db")
    assert (lab / "here.db").exists()
    monkeypatch.setenv("PIED_STORE", "there.db")
    pied_("ask", "lab.toml")
    assert (lab / "there.db").exists()
    assert not (lab / "lab.db").exists()


def test_python_and_the_shell_work_on_the_same_study(measured: Path) -> None:
    with Study(read("lab.toml").problem, name="lab", store="lab.db") as study:
        assert len(study.trials) == 5
        assert isinstance(study.problem, Problem)


def test_an_unknown_study_in_a_store_names_those_there_are(measured: Path) -> None:
    (measured / "other.toml").write_text(LAB)
    shown = pied_("status", "other.toml", "--store", "lab.db", code=2).stderr
    assert "has no study 'other'. Known: 'lab'" in shown
    with Store.connect("lab.db") as store:
        assert [about.name for about in store.studies()] == ["lab"]


# ------------------------------------------------------------------------------------------------------------ the shell


def test_every_command_has_help_json_and_the_purpose_of_the_table() -> None:
    context = click.Context(main)
    for part in COMMANDS.values():
        for name, (_, purpose) in part.items():
            command = main.get_command(context, name)
            assert command is not None
            assert purpose.endswith(".")
            if not isinstance(command, click.Group) and name != "mcp":  # which speaks nothing but JSON
                assert "--json" in pied_(name, "--help").output


def test_help_of_every_command_loads_no_heavy_library() -> None:
    code = (
        "import sys; from pied.shell.main import COMMANDS, main\n"
        "for name in [name for part in COMMANDS.values() for name in part if name != 'bench']:\n"
        "    try: main([name, '--help'])\n"
        "    except SystemExit as end: assert end.code == 0\n"
        "heavy = {'torch', 'numpy', 'scipy', 'sqlalchemy', 'matplotlib'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_help_shows_the_commands_in_the_order_of_work() -> None:
    shown = pied_("--help").output
    assert shown.index("  init") < shown.index("  ask") < shown.index("  result") < shown.index("  suite")


def test_an_unknown_command_suggests_the_one_meant() -> None:
    assert pied_("chekc", code=2).stderr == "pied: there is no command 'chekc'. Did you mean 'check'?\n"


def test_a_bar_is_drawn_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    bar = Progress(2, quiet=False)
    bar.step("one")
    assert "[####################....................] 1 of 2" in capsys.readouterr().out
    bar.end()
    quiet = Progress(2, quiet=True)
    quiet.step("one")
    assert capsys.readouterr().out.strip("\r\x1b[K") == ""


@pytest.mark.slow
def test_ctrl_c_ends_the_program_keeps_what_was_told_and_exits_with_130(lab: Path) -> None:
    (lab / "slow.py").write_text(
        "import os, pathlib, time\nseen = pathlib.Path('seen')\n"
        "if seen.exists():\n    pathlib.Path('pid').write_text(str(os.getpid())); time.sleep(3600)\n"
        "seen.touch(); print(0.5, 0.05)\n"
    )
    command = f"{shlex.quote(sys.executable)} slow.py"
    words = ["run", "lab.toml", "--budget", "3", "--command", command]
    heed = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"  # ignored by what runs behind a shell
    )
    code = f"{heed}; from pied.shell.main import main; main(prog_name='pied')"
    process = subprocess.Popen([sys.executable, "-c", code, *words], stdout=subprocess.PIPE, text=True)
    while not ((lab / "pid").exists() and (lab / "pid").read_text()):  # the limit of one test ends what never happens
        assert process.poll() is None, "the run ended before it could be interrupted"
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=300)
    assert process.returncode == 130
    assert "The run was interrupted" in out
    assert data("status", "lab.toml")["trials"]["told"] == 1
    with pytest.raises(ProcessLookupError):
        os.kill(int((lab / "pid").read_text()), 0)


def test_warnings_of_the_library_are_remarks_without_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    pied_("--version")
    Warnings.listen()
    Warnings.listen()
    logging.getLogger("pied.study.opening").warning("study '%s'", "\x1b[2J")
    assert capsys.readouterr().err.count("pied: study '\\x1b[2J'") == 1


def test_ctrl_c_outside_of_a_run_has_exit_code_130(lab: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*words: object, **named: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("pied.shell.statement_file.read", interrupted)
    pied_("check", "lab.toml", code=130)
