"""The notebooks under examples/ run as a reader would run them, with small budgets.

Their code cells are run as one program, without a notebook server. They have no stored output, so a review shows what
changed, and nothing on them can be out of date.
"""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))
NEEDS = {"cluster": "distributed", "botorch_bridge": "botorch", "calibration": "CoolProp"}
"""Optional packages of the notebooks that need one."""
FEW = 8
"""Evaluations, instead of those of the notebook."""


def cells(path: Path, kind: str) -> list[str]:
    """The texts of a notebook's cells of a kind."""
    notebook: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == kind]


def test_the_notebooks_are_those_of_the_page() -> None:
    page = (ROOT / "docs" / "recipes.md").read_text(encoding="utf-8")
    assert len(NOTEBOOKS) >= 5
    for path in NOTEBOOKS:
        assert f"../examples/{path.name}" in page


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_says_what_it_shows_and_stores_no_output(path: Path) -> None:
    notebook = json.loads(path.read_text(encoding="utf-8"))
    assert notebook["nbformat"] == 4
    assert cells(path, "markdown")[0].startswith("# ")
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert len(code) >= 2
    assert all(not cell["outputs"] and cell["execution_count"] is None for cell in code)
    assert len({cell["id"] for cell in notebook["cells"]}) == len(notebook["cells"])


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path: Path, tmp_path: Path) -> None:
    if path.stem in NEEDS:
        pytest.importorskip(NEEDS[path.stem])
    code = re.sub(r"^(BUDGET|DAYS) = \d+", rf"\1 = {FEW}", "\n\n".join(cells(path, "code")), flags=re.M)
    program = tmp_path / f"{path.stem}.py"
    program.write_text(code, encoding="utf-8")
    done = subprocess.run([sys.executable, program], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
