"""SIGTERM ends a run as a supervisor expects: no program or worker is left, what was told is kept, exit code 143."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "killpg"), reason="signals of POSIX")

STATEMENT = """
maximize = "y"
noise = 0
[variables]
a = [0, 1]
[outputs]
y = {}
"""
PROGRAM = """
import json, os, sys, time
from pathlib import Path
x = json.load(sys.stdin)
here = Path(sys.argv[1])
done = len(list(here.glob("done-*")))
if done >= 2:
    (here / f"pid-{os.getpid()}").touch()
    (here / f"asleep-{os.getpid()}").touch()
    time.sleep(120)
(here / f"done-{os.getpid()}").touch()
print(json.dumps({"y": x["a"]}))
"""
FUNCTION = """
import json, os, subprocess, sys
from pathlib import Path
here = Path(__file__).parent
def slow(x):
    (here / f"pid-{os.getpid()}").touch()
    words = [sys.executable, str(here / "program.py"), str(here)]
    made = subprocess.run(words, input=json.dumps(dict(x)), capture_output=True, text=True)
    return json.loads(made.stdout)
"""
WAIT = 180.0  # seconds that a slow machine may take to start a program: a limit, not a claim


def until(condition: Callable[[], bool]) -> bool:
    """Wait for something, for a while."""
    end = time.monotonic() + WAIT
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.05)
    return condition()


def is_alive(pid: int) -> bool:
    """Tell whether a process runs; one that has ended and waits to be collected does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{pid}/stat")
    return not status.exists() or status.read_text().rpartition(")")[2].split()[0] != "Z"


def pids(folder: Path) -> list[int]:
    return [int(file.name.removeprefix("pid-")) for file in folder.glob("pid-*")]


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "lab.toml").write_text(STATEMENT)
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "box.py").write_text(FUNCTION)
    yield tmp_path
    for pid in pids(tmp_path):
        if is_alive(pid):
            os.kill(pid, signal.SIGKILL)


def command(folder: Path) -> list[str]:
    return ["--command", f"{sys.executable} {folder / 'program.py'} {folder}"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "workers", "executor"),
    [("command", 2, None), ("python", 2, "processes")],
)
def test_sigterm_ends_programs_and_workers_and_keeps_what_was_told(
    folder: Path, kind: str, workers: int, executor: str | None
) -> None:
    words = command(folder) if kind == "command" else ["--python", str(folder / "box.py:slow")]
    words += ["--workers", str(workers), *(["--executor", executor] if executor else [])]
    call = [
        sys.executable,
        "-c",
        "from pied.shell.main import main; main()",
        "run",
        "lab.toml",
        "--budget",
        "9",
        *words,
    ]
    run = subprocess.Popen(call, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert until(lambda: len(list(folder.glob("asleep-*"))) >= workers or run.poll() is not None)
        assert run.poll() is None, run.communicate()
        run.send_signal(signal.SIGTERM)
        _, said = run.communicate(timeout=WAIT)
    finally:
        run.kill()
    assert run.returncode == 143, said
    assert "everything told so far is kept" in said
    assert "Traceback" not in said
    assert until(lambda: not any(is_alive(pid) for pid in pids(folder)))
    told = subprocess.run(
        [sys.executable, "-c", "from pied.shell.main import main; main()", "export", "lab.toml"],
        cwd=folder, capture_output=True, text=True,
    )  # fmt: skip
    rows = told.stdout.strip().splitlines()
    assert sum(",told," in row or row.endswith(",told") for row in rows) >= 2, told.stdout
