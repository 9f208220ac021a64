"""A command loads what it needs and no more: loading is most of what a short one takes.

`benchmarks/startup.py` measures the seconds; here the modules are counted, which is the same on every machine.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

STATEMENT = """
maximize = "price*y - z"
noise = 0
outputs = ["y", "z"]
[variables]
a = [0, 1]
b = [0, 2]
[subject_to]
limit = "y + z <= 2.5"
[constants]
price = 3
"""
OPENING = [["add", "lab.toml", "old.csv"], ["ask", "lab.toml", "--count", "2"]]
"""What makes the study that the commands are tried on: four old points, and the trials 5 and 6."""
COMMANDS: dict[str, list[list[str]]] = {
    "that read": [["check", "lab.toml"], ["status", "lab.toml"], ["history", "lab.toml"], ["export", "lab.toml"]],
    "that write": [
        ["tell", "lab.toml", "5", "y=0.4", "z=0.5"],
        ["correct", "lab.toml", "5", "y=0.5", "--why", "a slip"],
        ["fail", "lab.toml", "6", "no time"],
        ["add", "lab.toml", "more.csv"],
    ],
}
"""Short commands, one after the other in one process."""
DATABASES = ("sqlalchemy", "psycopg")
BELIEF = ("pied.bounds", "pied.gp", "pied.search", "pied.solvers.cuqb", "pied.study.recommendation", "scipy")
EVALUATION = ("pied.evaluation.crew", "pied.evaluation.processes", "multiprocessing", "concurrent.futures.process")
PICTURES = (
    "starlette",
    "uvicorn",
    "pied.web",
    "matplotlib",
    "pied.plots",
    "pied.report",
    "pied.bench",
    "pied.suite",
    "openpyxl",
    "pandas",
)
OTHER_DOORS = ("torch", "sympy", "casadi", "jaxtyping")
LOADED = """
import json, sys
from pied.shell.main import main
for words in json.loads(sys.argv[1]):
    main(words, standalone_mode=False)
json.dump(sorted(sys.modules), open("loaded.json", "w"))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a study of four old points and two open trials."""
    place = tmp_path_factory.mktemp("startup")
    (place / "lab.toml").write_text(STATEMENT)
    (place / "old.csv").write_text("a,b,y,z\n0,0,0,0.5\n0.3,0.7,0.2,0.5\n0.6,1.4,0.4,0.4\n1,2,0.6,0.5\n")
    (place / "more.csv").write_text("a,b,y,z\n0.9,1.9,1.1,0.7\n")
    loaded(place, OPENING)
    return place


def loaded(folder: Path, commands: list[list[str]]) -> list[str]:
    """Run commands in a process of their own and return the modules it then has."""
    words = [sys.executable, "-c", LOADED, json.dumps(commands)]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads((folder / "loaded.json").read_text())


def among(modules: list[str], unwanted: tuple[str, ...]) -> list[str]:
    """Return the unwanted modules, and those inside of unwanted packages."""
    return [name for name in modules if any(name == each or name.startswith(f"{each}.") for each in unwanted)]


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_short_commands_load_no_belief_no_evaluation_and_no_pictures(folder: Path, name: str) -> None:
    modules = loaded(folder, COMMANDS[name])
    assert "pied.problem.problem" in modules
    assert not among(modules, BELIEF + EVALUATION + PICTURES + OTHER_DOORS + DATABASES)


@pytest.mark.slow
def test_a_check_opens_no_store(folder: Path) -> None:
    assert not among(loaded(folder, [["check", "lab.toml"]]), ("sqlite3",))


@pytest.mark.slow
def test_a_proposal_loads_neither_statistics_nor_evaluation(folder: Path) -> None:
    modules = loaded(folder, [["ask", "lab.toml", "--count", "3"]])
    assert "pied.solvers.cuqb" in modules
    assert not among(modules, ("scipy.stats", *EVALUATION, *PICTURES, *OTHER_DOORS))


def test_at_its_end_a_command_does_not_search_all_that_was_loaded_for_cycles() -> None:
    code = (
        "import atexit, gc; atexit.register(lambda: print(gc.get_freeze_count()))\n"  # the last to run
        "from pied.shell.main import main; main(['--version'], standalone_mode=False)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout.splitlines()[-1]) > 1000


def test_stating_a_problem_loads_neither_scipy_nor_a_store() -> None:
    code = "import sys, pied; pied.Problem; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not among(done.stdout.split(), ("scipy", "sqlite3", "click", *BELIEF, *EVALUATION, *OTHER_DOORS))
