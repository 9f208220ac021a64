"""`import pied` stays light, and an optional package is asked for by name when it is missing."""

import importlib
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import pied
from pied import MissingExtra, Study, plots, suite
from pied.evaluation import executors, simulation
from pied.records.sql import Store

HEAVY = (
    "numpy", "scipy", "torch", "casadi", "sympy", "matplotlib", "sqlalchemy", "cma", "starlette", "botorch", "gpytorch",
    "pandas",
)  # fmt: skip
PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_importing_the_package_loads_no_heavy_library() -> None:
    done = run(f"import sys, pied; loaded = set({HEAVY!r}) & set(sys.modules); assert not loaded, loaded")
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_solving_a_problem_loads_no_optional_library() -> None:
    optional = [name for name in HEAVY if name not in ("numpy", "scipy")]
    code = (
        "import sys, pied\n"
        "pied.maximize('y', blackbox=lambda x: x.a, variables={'a': (0, 1)}, outputs=['y'], budget=4, seed=0)\n"
        f"loaded = set({optional!r}) & set(sys.modules); assert not loaded, loaded"
    )
    done = run(code)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", dir(pied))
def test_every_public_name_can_be_loaded(name: str) -> None:
    assert getattr(pied, name) is not None


def test_the_words_others_rely_on_are_public() -> None:
    nouns = {"Problem", "Variable", "Study", "Trial", "State", "Result", "Status", "CUQB", "suite"}
    assert nouns | {"solve", "maximize", "minimize"} <= set(dir(pied))


def test_the_version_is_the_projects() -> None:
    assert pied.__version__ == PROJECT["version"]


def picture() -> Any:
    return plots.plot_history(Study(suite.get("booth").problem, seed=0))


def frame() -> Any:
    return Study(suite.get("booth").problem, seed=0).result().to_frame()


def belief() -> Any:
    return importlib.import_module("pied.bridge").belief(None)


def server() -> Any:
    return Store.connect("postgresql+psycopg://localhost/none")


def cluster() -> Any:
    return executors.dask("tcp://localhost:1")


def solver(name: str) -> Callable[[], Any]:
    return lambda: Study(suite.get("booth").problem, solver=name, seed=0)


def anew(module: str) -> Any:
    sys.modules.pop(module, None)
    return importlib.import_module(module)


# extra: the library that must be missing, and a call that needs it
EXTRAS: dict[str, tuple[str, Callable[[], Any]]] = {
    "plots": ("matplotlib", picture),
    "frames": ("pandas", frame),
    "botorch": ("botorch", belief),
    "bench": ("cma", solver("cma-es")),
    "bobyqa": ("pybobyqa", solver("bobyqa")),
    "peers": ("optuna", solver("optuna")),
    "postgres": ("psycopg", server),
    "dask": ("distributed", cluster),
    "fmi": ("fmpy", lambda: simulation(__file__, [], [])),
    "excel": ("openpyxl", lambda: importlib.import_module("pied.shell.excel")._openpyxl()),
    "web": ("starlette", lambda: importlib.import_module("pied.web.command").check_installed()),
    "mcp": ("mcp", lambda: importlib.import_module("pied.web.command").mcp.callback((), None, False, "x")),
    "optuna": ("optuna", lambda: anew("pied.connect.optuna")),
    "openmdao": ("openmdao", lambda: anew("pied.connect.openmdao")),
}

HANDED_OVER = {"torch", "casadi", "simulators"}
"""Libraries whose objects a user hands over, so that nothing else asks for them."""


def test_every_extra_is_tried() -> None:
    of_developers = {"all", "dev", "docs", "release"}
    assert set(PROJECT["optional-dependencies"]) - of_developers - HANDED_OVER == set(EXTRAS)


@pytest.mark.parametrize("extra", EXTRAS)
def test_a_missing_extra_names_the_command_to_type(extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    library, call = EXTRAS[extra]
    for name in {library, *(each for each in sys.modules if each.startswith(f"{library}."))}:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingExtra, match=rf'pip install .*\[{extra}\]"'):
        call()
