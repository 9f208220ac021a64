"""The layers of the package: which package may import which, and where each foreign library is used.

To allow a new import, write it into the table below. To withdraw one, delete it: an unused permission fails, too.
"""

import ast
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "pied"

# package or single file: what it may import of the others
LAYERS: dict[str, str] = {
    "above": "",
    "client": "",
    "address": "",
    "errors": "",
    "shapes": "",
    "distances": "shapes",
    "measured": "",
    "markup": "",
    "hypervolume": "shapes",
    "sobol": "shapes",
    "writing": "",
    "rng": "shapes sobol",
    "problem": "errors markup measured rng shapes",
    "evaluation": "errors",
    "gp": "errors rng shapes",
    "search": "distances errors problem rng shapes",
    "records": "address errors evaluation markup measured problem shapes",
    "suite": "errors problem rng shapes",
    "theory": "errors problem rng shapes",
    "bounds": "errors gp problem records rng search shapes",
    "bridge": "bounds errors rng shapes",
    "solvers": "bounds distances errors gp hypervolume problem records rng search shapes",
    "rivals": "bounds bridge distances errors gp problem records rng search shapes solvers",
    "study": "above bounds distances errors evaluation gp hypervolume markup measured "
    "problem records rng search shapes solvers",
    "plots": "errors hypervolume problem records rng shapes study",
    "report": "errors measured plots problem records study writing",
    "shell": "above address errors evaluation measured "
    "plots problem records report solvers study suite version writing",
    "web": "address errors plots problem records report shell study suite version writing",
    "connect": "errors problem records study",
    "bench": "bounds errors evaluation plots problem records rivals rng shapes shell solvers study suite",
}
FACE = {"__init__": "above errors problem records solvers study suite"}
"""`pied/__init__.py` loads every public name when it is first used."""
DOORS = {"store": "records", "files": "shell", "executors": "evaluation"}
"""Documented paths of version 0.1, one import each."""
ROOMS = {"shell", "web.demo", "bounds.quantile", "evaluation.executors", "records.sql", "rivals", "solvers", "suite"}
"""What other packages may import past a package's face: modules used as a namespace, or loaded only when needed."""
EVERYWHERE = {"numpy", "scipy"}
HOMES = {
    "sqlalchemy": "records/server.py",
    "distributed": "evaluation/executors.py",
    "pandas": "study/result.py",
    "matplotlib": "plots/drawing.py",
    "openpyxl": "shell/excel.py",
    "jaxtyping": "shapes.py",
    "torch": "problem/torch_door.py bridge.py rivals/scbo.py",
    "botorch": "bridge.py",
    "gpytorch": "bridge.py",
    "linear_operator": "bridge.py",
    "optuna": "rivals/peers.py connect/optuna.py",
    "openmdao": "connect/openmdao.py",
    "ax": "rivals/peers.py",
    "fmpy": "evaluation/fmu.py",
    "cma": "rivals/derivative_free.py",
    "pybobyqa": "rivals/derivative_free.py",
    "click": "shell/ bench/shell.py web/command.py",
    "mcp": "web/command.py",
    "starlette": "web/app.py",
    "uvicorn": "web/server.py",
}
"""The file, or files, in which each other foreign library is imported."""


@cache
def modules() -> dict[str, Path]:
    """Every module by its dotted name inside of `pied`; a package by its own name, the face as `__init__`."""
    found = {}
    for file in sorted(SOURCE.rglob("*.py")):
        parts = file.relative_to(SOURCE).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)] = file
    return found


@cache
def imported(file: Path) -> tuple[str, ...]:
    """Return the full name of everything that a file imports, anywhere in its text, also for types alone."""
    return tuple(_imported(file))


def _imported(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file} imports relatively"
            yield from (f"{node.module}.{each.name}" for each in node.names)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            yield from (each.value for each in node.args if isinstance(each, ast.Constant))


@cache
def own(module: str) -> frozenset[str]:
    """Modules of `pied` that a module imports, by their dotted names."""
    names = [name.removeprefix("pied.") for name in imported(modules()[module]) if name.startswith("pied.")]
    return frozenset(
        "version" if name == "__version__" else name if name in modules() else name.rpartition(".")[0] for name in names
    ) - {module}


def package(module: str) -> str:
    return module.partition(".")[0]


def test_every_package_is_in_the_table() -> None:
    assert {package(module) for module in modules()} == set(LAYERS) | set(FACE) | set(DOORS)


@pytest.mark.parametrize("name", [*LAYERS, *FACE, *DOORS])
def test_a_package_imports_exactly_what_the_table_allows(name: str) -> None:
    allowed = {**LAYERS, **FACE, **DOORS}[name].split()
    used = {package(other) for module in modules() if package(module) == name for other in own(module)} - {name}
    assert used == set(allowed)


def test_imports_between_packages_go_down_only() -> None:
    graph = {name: set(allowed.split()) - {"version"} for name, allowed in LAYERS.items()}
    order = list(TopologicalSorter(graph).static_order())  # raises CycleError
    assert set(order) == set(LAYERS)


@pytest.mark.parametrize("name", LAYERS)
def test_no_cycle_inside_of_a_package(name: str) -> None:
    inside = [module for module in modules() if package(module) == name and module != name]
    graph = {module: {other for other in own(module) if other in inside} for module in inside}
    list(TopologicalSorter(graph).static_order())


@pytest.mark.parametrize("module", [module for module in modules() if package(module) not in (*FACE, *DOORS)])
def test_another_package_is_entered_by_its_face(module: str) -> None:
    for other in own(module):
        if package(other) != package(module) and "." in other:
            assert other in ROOMS or package(other) in ROOMS, f"import it from pied.{package(other)}"


@pytest.mark.slow
def test_each_foreign_library_is_imported_where_the_table_says() -> None:
    found: dict[str, set[str]] = {}
    for file in modules().values():
        for name in imported(file):
            library = name.partition(".")[0]
            if library not in {"pied", *sys.stdlib_module_names, *EVERYWHERE}:
                found.setdefault(library, set()).add(file.relative_to(SOURCE).as_posix())
    assert set(found) == set(HOMES)
    for library, files in found.items():
        homes = HOMES[library].split()
        assert all(any(file.startswith(home) for home in homes) for file in files), f"{library}: {sorted(files)}"


@pytest.mark.parametrize("name", [name for name in LAYERS if (SOURCE / name).is_dir()])
def test_a_package_says_its_duty_and_has_a_face(name: str) -> None:
    duty = ast.get_docstring(ast.parse((SOURCE / name / "__init__.py").read_text(encoding="utf-8")))
    assert duty
    assert duty.splitlines()[0].endswith(".")


@pytest.mark.parametrize("door", DOORS)
def test_a_documented_path_of_an_older_version_still_works(door: str) -> None:
    module = __import__(f"pied.{door}", fromlist=["*"])
    names = {"store": ["Store"], "files": ["read", "Stated"], "executors": ["dask", "Processes", "Serial"]}[door]
    assert all(hasattr(module, name) for name in names)


@pytest.mark.slow
def test_the_pages_picture_and_table_are_those_of_the_code() -> None:
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        from architecture import page  # type: ignore[import-not-found]
    finally:
        sys.path.pop(0)
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert page(text) == text, "run: python docs/architecture.py"
