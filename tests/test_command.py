"""Any program as a black box: how a point goes in, how outputs come back, and what becomes of failures."""

import json
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pied import EvaluationError, Problem, SettingError, State, Study
from pied.evaluation import command
from pied.evaluation.command import SAID, Command, answer

POINT = {"a": 0.25, "b b": -1e-7}


def python(code: str, *words: str, **settings: Any) -> Command:
    """A command that runs a line of Python."""
    return Command((sys.executable, "-c", code, *words), tuple(POINT), **settings)


def test_a_point_comes_as_json_on_standard_input_to_the_last_bit() -> None:
    code = "import json, sys; x = json.load(sys.stdin); print(json.dumps({'x': x['a'], 'y': x['b b']}))"
    assert python(code)(POINT) == {"x": 0.25, "y": -1e-7}


def test_a_point_comes_in_place_of_names_in_braces() -> None:
    code = "import sys; print(sys.argv[1:])"
    assert python(code, "--a={a}", "{b b}", "{print $1}", "{}", "{a}{a}").filled(POINT)[3:] == [
        "--a=0.25", "-1e-07", "{print $1}", "{}", "0.250.25",
    ]  # fmt: skip


def test_no_shell_reads_the_words() -> None:
    assert python("import sys, json; print(json.dumps([sys.argv[1] == '$(ls); a | b']))", "$(ls); a | b")(POINT) == [
        True
    ]


@pytest.mark.parametrize(
    ("out", "expected"),
    [
        ('{"y": 1.5}', {"y": 1.5}),
        ('{\n  "y": 1.5\n}\n', {"y": 1.5}),
        ("[1, 2]", [1, 2]),
        ("1.5", 1.5),
        ("1.5 2e-3\n", [1.5, 0.002]),
        ("1.5,2", [1.5, 2.0]),
        ("1.5\n2\n", [1.5, 2.0]),
        ("iteration 1\nconverged\n0.1 0.2\n\n", [0.1, 0.2]),
        ('loading\n{"y": 1.5}\n', {"y": 1.5}),
    ],
)
def test_outputs_are_json_or_numbers_as_a_whole_or_on_the_last_line(out: str, expected: Any) -> None:
    assert answer(out) == expected


@pytest.mark.parametrize(
    ("out", "message"),
    [
        ("", "printed nothing"),
        ("done", "neither JSON nor numbers: 'done'"),
        ("true", "neither"),
        ("[" * 100_000, "neither"),
    ],
)
def test_other_answers_are_refused(out: str, message: str) -> None:
    with pytest.raises(EvaluationError, match=message):
        answer(out)


def test_a_bad_exit_keeps_the_last_words() -> None:
    code = f"import sys; sys.exit('x' * {SAID * 2} + ' no convergence')"
    with pytest.raises(EvaluationError, match=r"ended with exit code 1; it said: \.\.\.x+ no convergence$") as caught:
        python(code)(POINT)
    assert len(str(caught.value)) < SAID + 200


def test_a_death_by_signal_and_a_program_that_is_not_there_say_so() -> None:
    with pytest.raises(EvaluationError, match="was ended by signal 9 and said nothing"):
        python("import os; os.kill(os.getpid(), 9)")(POINT)
    with pytest.raises(EvaluationError, match="'no-such-program' cannot be started: No such file"):
        Command(("no-such-program",), ())(POINT)


@pytest.mark.slow
def test_a_late_program_is_ended_with_everything_it_has_started(tmp_path: Path) -> None:
    code = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(3600)'])\n"
        f"open({str(tmp_path / 'pid')!r}, 'w').write(str(child.pid)); time.sleep(3600)"
    )
    with pytest.raises(EvaluationError, match=r"took longer than 3 s"):
        python(code, timeout=3.0)(POINT)  # waiting for the program would exceed the limit of one test
    child = int((tmp_path / "pid").read_text())
    for _ in range(1000):
        if is_gone(child):
            return
        time.sleep(0.02)
    raise AssertionError("the program's own child is still alive")


def is_gone(pid: int) -> bool:
    """Whether a process has ended, also where nobody collects what has ended."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    status = Path(f"/proc/{pid}/status")
    return status.exists() and "State:\tZ" in status.read_text()


def test_a_program_is_started_again_as_often_as_was_said(tmp_path: Path) -> None:
    code = (
        "import pathlib, sys\n"
        f"count = pathlib.Path({str(tmp_path / 'count')!r}); n = int(count.read_text()) if count.exists() else 0\n"
        "count.write_text(str(n + 1)); print(7) if n == 2 else sys.exit('flaky')"
    )
    with pytest.raises(EvaluationError, match="flaky"):
        python(code, retries=1)(POINT)
    assert python(code, retries=1)(POINT) == 7


def test_stopping_ends_what_is_running_and_no_retry_follows() -> None:
    command = python("import time; time.sleep(3600)", retries=5)
    raised: list[Exception] = []

    def work() -> None:
        try:
            command(POINT)
        except EvaluationError as error:
            raised.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    while not command._alive:
        time.sleep(0.01)
    command.stop()
    thread.join(300)
    assert "signal 9" in str(raised[0])


def test_a_program_runs_in_its_folder(tmp_path: Path) -> None:
    code = "import os, json; print(json.dumps([os.getcwd()]))"
    assert python(code, folder=tmp_path)(POINT) == [os.path.realpath(tmp_path)]


@pytest.mark.parametrize(
    ("words", "settings", "message"),
    [
        ((), {}, "the command is empty"),
        ((" ",), {}, "the command is empty"),
        (("sim\0",), {}, "contains a NUL character"),
        (("sim", "{c}"), {}, r"the command speaks of \{c\}\. Known: 'a', 'b b'"),
        (("sim",), {"timeout": 0.0}, "timeout is a number of seconds above 0"),
        (("sim",), {"retries": -1}, "retries counts further attempts"),
    ],
)
def test_a_mistaken_command_is_refused(words: tuple[str, ...], settings: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        Command(words, tuple(POINT), **settings)


def test_a_line_is_split_as_a_shell_would() -> None:
    assert Command.read("sim 'a b' --x {a}", ["a"]).words == ("sim", "a b", "--x", "{a}")
    assert shlex.split(str(Command.read(["sim", "a b"], ["a"]))) == ["sim", "a b"]


def test_a_study_runs_a_program_and_keeps_the_words_of_its_failures() -> None:
    code = "import json, sys; a = json.load(sys.stdin)['a']; sys.exit('too hot') if a > 0.5 else print(a * 2)"
    program = Command((sys.executable, "-c", code), ("a",))
    problem = Problem({"a": (0, 1)}, ["y"], blackbox=program, maximize="y", noise=0)
    study = Study(problem, seed=0, solver="random", initial=2)
    study.run(6)
    failed = [trial for trial in study.trials if trial.state is State.FAILED]
    assert failed
    assert all(trial.reason.endswith("ended with exit code 1; it said: too hot") for trial in failed)
    assert all(trial.y.y == 2 * trial.x.a for trial in study.trials if trial.state is State.TOLD)
    assert json.dumps(problem.statement())


@pytest.mark.parametrize("system", ["Windows", "macOS"])
def test_a_program_is_ended_by_the_rules_of_other_systems(monkeypatch: pytest.MonkeyPatch, system: str) -> None:
    said: list[Any] = []

    def refused(*words: Any) -> None:
        said.append(words)
        raise PermissionError(1, "one of the group has ended already")

    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    monkeypatch.setattr(subprocess, "run", lambda words, **_: said.append(words))
    rules = SimpleNamespace(name="nt") if system == "Windows" else SimpleNamespace(name="posix", killpg=refused)
    monkeypatch.setattr(command, "os", rules)
    command._kill(process)
    assert process.poll() is not None
    wanted = ["taskkill", "/F", "/T", "/PID", str(process.pid)]
    assert said == [wanted if system == "Windows" else (process.pid, signal.SIGKILL)]
