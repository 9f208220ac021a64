"""The programs under examples/ run as a reader would run them, with small budgets.

They are Python files with cells (`# %%`), not notebooks with stored output: editors and Jupyter (by Jupytext) open them
as cells, a review shows what changed, and they run without a notebook server.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
NEEDS = {"cluster": "distributed", "botorch_bridge": "botorch"}
"""Optional packages of the examples that need one."""


def test_every_example_has_cells_and_says_what_it_shows() -> None:
    assert len(EXAMPLES) >= 5
    for path in EXAMPLES:
        text = path.read_text()
        assert text.startswith("# %% [markdown]\n# # "), path.name
        assert len(re.findall(r"^# %%$", text, re.M)) >= 2, path.name


@pytest.mark.slow
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs(path: Path, tmp_path: Path) -> None:
    if path.stem in NEEDS:
        pytest.importorskip(NEEDS[path.stem])
    small = os.environ | {"PIED_EXAMPLE_BUDGET": "6"}
    done = subprocess.run([sys.executable, path], cwd=tmp_path, env=small, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
