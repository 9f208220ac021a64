"""The examples of real simulators run where their packages are installed, and the page names each of them."""

import importlib
import importlib.util
import re
import sys
from pathlib import Path

import pytest

from pied import State, Study

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "examples" / "simulators"
PACKAGES = {
    "biosteam_column": "biosteam",
    "cantera_combustor": "cantera",
    "coolprop_cycle": "CoolProp",
    "epanet_pumps": "wntr",
    "pandapower_flow": "pandapower",
    "pvlib_plant": "pvlib",
    "pybamm_charging": "pybamm",
}


def test_every_example_is_on_the_page_and_in_the_table() -> None:
    assert {file.stem for file in FOLDER.glob("*.py")} == set(PACKAGES)
    page = (ROOT / "docs" / "guide-simulator.md").read_text(encoding="utf-8")
    assert all(f"examples/simulators/{name}.py" in page for name in PACKAGES)


def test_the_extra_has_all_packages_and_the_core_none() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    extra = re.search(r"^simulators = \[(.*?)\]", text, re.MULTILINE | re.DOTALL)
    assert extra is not None
    assert all(package.lower() in extra[1].lower() for package in PACKAGES.values())
    assert not re.search(r"^(all|dev) = \[[^\]]*simulators", text, re.MULTILINE | re.DOTALL)


@pytest.mark.slow
@pytest.mark.parametrize("name", PACKAGES)
def test_an_example_runs(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if importlib.util.find_spec(PACKAGES[name]) is None:
        pytest.skip(f'{PACKAGES[name]} is not installed: pip install ".[simulators]"')
    monkeypatch.syspath_prepend(str(FOLDER))
    try:
        problem = importlib.import_module(name).problem
    finally:
        sys.modules.pop(name, None)
    with Study(problem, seed=0) as study:
        study.run(problem.d * 2 + 3)
        told = [trial for trial in study.trials if trial.state is State.TOLD]
        assert len(told) >= problem.d + 1, study.result().failures
