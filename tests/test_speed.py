"""A suggestion stays many times faster than what a BoTorch user would write, measured side by side in one run."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
def test_a_suggestion_keeps_half_of_its_published_lead_over_botorch():
    """In a process of its own: the checks of shapes in the tests would slow down one side only."""
    words = [sys.executable, str(ROOT / "benchmarks" / "suggest.py"), "--check"]
    done = subprocess.run(words, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "times faster" in done.stdout
