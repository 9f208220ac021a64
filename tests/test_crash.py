"""A small form of the crash tests in `benchmarks/crash.py`."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

CRASH = Path(__file__).parent.parent / "benchmarks" / "crash.py"


def part(name: str, place: Path) -> dict[str, Any]:
    """Run one part in a process of its own: its workers are forked and must load no solver."""
    words = [sys.executable, str(CRASH), "--quick", "--part", name, "--place", str(place)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=environment, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def nothing_happened(found: dict[str, Any]) -> bool:
    return all(found[name] == 0 for name in ("lost", "told twice", "damaged", "wrong", "errors"))


@pytest.mark.slow
def test_nothing_told_is_lost_when_workers_are_killed_and_the_study_goes_on_as_if_nothing_had_happened(
    tmp_path: Path,
) -> None:
    found = part("kills", tmp_path)
    assert found["kills"] == 20
    assert found["acknowledged"] > 0
    assert nothing_happened(found)
    assert part("next", tmp_path) == {"equal": True}


@pytest.mark.slow
def test_nothing_told_is_lost_when_whole_studies_are_killed(tmp_path: Path) -> None:
    found = part("cuqb", tmp_path)
    assert nothing_happened(found)
    assert found["next is equal"]


@pytest.mark.slow
def test_eight_processes_on_one_study_lose_nothing_and_tell_nothing_twice(tmp_path: Path) -> None:
    found = part("crowd", tmp_path)
    assert (found["workers"], found["trials"], found["numbers distinct"]) == (8, 100, True)
    wrong = ("lost", "untold", "told twice", "failed workers", "torn reads", "vanished")
    assert {name: found[name] for name in wrong} == dict.fromkeys(wrong, 0)
    assert found["reads meanwhile"] > 0


@pytest.mark.slow
def test_a_full_disk_gives_a_clear_error_and_loses_nothing(tmp_path: Path) -> None:
    found = part("full", tmp_path)
    assert found["told"] > 0
    assert (found["lost"], found["damaged"], found["went on"]) == (0, 0, True)
    assert "is full" in found["message"]
    assert "what was told before is kept" in found["message"]
