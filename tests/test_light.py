"""Everything but the bridge, SCBO and white boxes written in torch works where torch is not installed.

`make test` runs this file in an environment without torch; in any other one torch is hidden.
"""

import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

import pied
from pied import Problem, Status, Study, solvers, suite
from tiny import few

WITH_EXTRAS = {"pied.bridge", "pied.problem.torch_door", "pied.records.server", "pied.web.app", "pied.web.server"}
WITH_EXTRAS |= {"pied.connect.optuna", "pied.connect.openmdao"}
OPTIONAL = {"scbo", "cma-es", "cma-es-paper", "bobyqa", "bobyqa-paper", "optuna", "ax"}
FIRST = ["cuqb", "cuqb-paper", "epbo", "eic", "cobalt", "merit-quantile", "snobfit", "direct"]
REST = [name for name in solvers.registry if name not in FIRST]
HIDDEN = """
import sys
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "botorch", "gpytorch"):
            raise ModuleNotFoundError(f"No module named '{name}'", name=name)
sys.meta_path.insert(0, Hidden())
"""


def run(code: str, folder: Path | None = None) -> str:
    code = HIDDEN + textwrap.dedent(code)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


def box(x: pied.Named) -> dict[str, float]:
    return {"u": float(np.exp(-x.a) * np.sin(3 * x.b)), "v": x.a**2 + x.b}


def stated() -> Problem:
    return Problem(
        {"a": (0.0, 2.0), "b": (0.0, 2.0)},
        ["u", "v"],
        blackbox=box,
        maximize=lambda x, y: 3 * np.log(2 + y.u) - 0.1 * y.v**2,
        subject_to={"limit": "v <= 2.5", "reach": lambda x, y: 2.0 - np.hypot(x.a, y.u)},
        noise=0,
    )


def test_every_module_loads_without_torch() -> None:
    run(
        f"""
        import importlib, pathlib, pied
        root = pathlib.Path(pied.__file__).parent
        for file in sorted(root.rglob("*.py")):
            parts = file.relative_to(root.parent).with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            if name not in {WITH_EXTRAS!r}:
                importlib.import_module(name)
        """
    )


@pytest.mark.slow
def test_a_study_finds_the_optimum_and_its_limits() -> None:
    result = Study(stated(), seed=1).run(16)
    assert result.value == pytest.approx(3.26902, abs=1e-3)
    assert result.status is Status.FINISHED


@pytest.mark.slow
@pytest.mark.parametrize("name", few([name for name in FIRST + REST if name not in OPTIONAL], len(FIRST)))
def test_every_other_solver_proposes(name: str) -> None:
    study = Study(stated(), solver=name, seed=0)
    assert len(study.run(8).trials) == 8


def test_what_needs_torch_says_so() -> None:
    said = run(
        """
        import pied
        from pied import MissingExtra, Problem
        problem = Problem({"a": (0, 1)}, ["y"], maximize="y", blackbox=lambda x: x.a)
        try:
            pied.Study(problem, solver="scbo", seed=0).run(6)
        except MissingExtra as error:
            print(error)
        try:
            import pied.bridge
        except MissingExtra as error:
            print(error)
        """
    )
    assert said.count("pip install") == 2


def test_the_suite_and_random_problems_need_no_torch() -> None:
    assert len(list(suite)) >= 22
    assert suite["g09"].known.value is not None
    assert run("from pied import suite; print(suite.random(7).known.value)")


def test_the_shell_needs_no_torch(tmp_path: Path) -> None:
    (tmp_path / "lab.toml").write_text(
        'maximize = "y"\noutputs = ["y"]\n[variables]\na = [0, 1]\nb = [0, 2]\n', encoding="utf-8"
    )
    run(
        """
        from click.testing import CliRunner
        from pied.shell.main import main
        commands = "check lab.toml", "ask lab.toml", "tell lab.toml 1 y=0.5", "status lab.toml"
        for words in map(str.split, commands):
            done = CliRunner().invoke(main, words)
            assert done.exit_code == 0, (words, done.output, done.exception)
        """,
        tmp_path,
    )


def test_a_plain_run_needs_no_processes_no_locks_of_files_and_starts_no_thread() -> None:
    """As in a browser (Pyodide), where these modules are missing and threads cannot be started."""
    done = run(
        """
        import builtins, _thread
        import numpy, scipy.linalg, scipy.optimize, scipy.special  # what they load is theirs
        real = __import__
        missing = {"multiprocessing", "subprocess", "fcntl", "sqlite3", "socket", "ssl", "asyncio"}
        def without(name, globals=None, *rest):
            if name.partition(".")[0] in missing and (globals or {}).get("__name__", "").startswith("pied"):
                raise ModuleNotFoundError(f"No module named '{name}'", name=name)
            return real(name, globals, *rest)
        builtins.__import__ = without
        for name in ("multiprocessing", "_multiprocessing", "sqlite3"):
            sys.modules[name] = None
        def refused(*_, **__):
            raise RuntimeError("can't start new thread")
        import threading
        _thread.start_new_thread = threading._start_new_thread = refused
        from pied.shell.demo import statement
        from pied import Study
        result = Study(statement(), seed=0).run(6)
        print(result.status.name, len(result.trials))
        """
    )
    assert done.split() == ["FINISHED", "6"]
