"""The comparison with other libraries: each states every problem, and page and README say what the record has."""

import ast
import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "benchmarks" / "peers"


@pytest.fixture(scope="module")
def page() -> Any:
    """The module that writes the page."""
    sys.path.insert(0, str(FOLDER))
    try:
        yield importlib.import_module("page")
    finally:
        sys.path.remove(str(FOLDER))
        for name in ("page", "problems"):
            sys.modules.pop(name, None)


@pytest.fixture(scope="module")
def record() -> dict[str, Any]:
    """What was measured."""
    return json.loads((ROOT / "benchmarks" / "results" / "peers.json").read_text())


def test_every_library_states_every_problem(page: Any) -> None:
    for library in page.TITLES:
        functions = {
            node.name
            for node in ast.parse((FOLDER / f"with_{library}.py").read_text()).body
            if isinstance(node, ast.FunctionDef)
        }
        assert set(page.TASKS) <= functions, library
        assert page.constant(library, "PACKAGE")


def test_the_page_and_the_readme_are_those_of_the_record(page: Any, record: dict[str, Any]) -> None:
    remedy = "run: python benchmarks/peers/run.py --page"
    assert (ROOT / "docs" / "comparison.md").read_text() == page.comparison(record), remedy
    readme = (ROOT / "README.md").read_text()
    assert page.with_table(readme, record) == readme, remedy
    assert page.small(record)[2] in readme


@pytest.mark.slow
def test_regret_is_that_of_a_point_which_keeps_limits_bounds_and_sums(page: Any) -> None:
    blend = page.TASKS["blend"]
    fine = {"resin": 0.5, "filler": 0.2, "solvent": 0.25, "additive": 0.05}
    assert 0 < blend.regret(fine) < 10
    assert blend.regret(fine | {"additive": 0.1}) == float("inf")  # does not sum to one
    assert blend.regret({"resin": 0.6, "filler": 0.0, "solvent": 0.3, "additive": 0.1}) == float("inf")
    reactor = page.TASKS["reactor"]
    assert reactor.optimum == pytest.approx(75.8199532, abs=1e-6)  # by exhaustive search, pied.suite
    assert reactor.regret({"F_B": 4.0, "T_r": 90.0}) == float("inf")


def test_runs_of_another_machine_are_taken_into_the_record(
    page: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = importlib.import_module("run")
    monkeypatch.setattr(run, "RECORD", tmp_path / "peers.json")

    def made(library: str, ended: str, version: str = "1", seed: int = 0) -> dict[str, Any]:
        return {"library": library, "problem": "reactor", "seed": seed, "ended": ended, "version": version,
                "seconds": [1.0], "regrets": [0.1]}  # fmt: skip

    run.write({"machine": "here", "runs": [made("pied", "done"), made("ax", "limit")]}, run.RECORD)
    there = [made("ax", "done", "2"), made("pied", "absent", "2"), made("ax", "done", "2", seed=1)]
    run.write({"machine": "there", "runs": there}, tmp_path / "other.json")
    run.merge(tmp_path / "other.json")
    merged = run.read(run.RECORD)
    assert merged["machine"] == "there"
    found = {(each["library"], each["seed"]): (each["ended"], each["version"]) for each in merged["runs"]}
    assert found == {("pied", 0): ("done", "1"), ("ax", 0): ("done", "2"), ("ax", 1): ("done", "2")}
    assert page._seeds(merged) == "2 seeds for Ax, 1 seed for pied"
    sys.modules.pop("run")


@pytest.mark.slow
def test_a_run_is_recorded_with_its_evaluations_and_its_verdict() -> None:
    words = [sys.executable, str(FOLDER / "run.py"), "--child", "pied", "infeasible", "0", "100"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=200, check=True)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert all({"F_B", "T_r"} == set(each["x"]) for each in lines if "x" in each)
    assert 5 < sum("x" in each for each in lines) <= 25
    assert "cannot be met together" in lines[-1]["verdict"]
