"""The staircase holds: imports go down only, and each foreign library lives in one file.

A new module, or a new import, is allowed by writing it into the table below and into docs/architecture.md.
"""

import ast
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src"
GROUND = {"torch", "numpy", "scipy", "jaxtyping"}
"""Foreign libraries that every file may use."""
SHARED = {"click"}
"""Foreign libraries of several files, named with each: the shell has many commands."""
FACE = "pied"
"""`pied/__init__.py`: every name by lazy import; other modules take nothing but the version from it."""

SUITE_PROBLEM = "errors named problem rng suite.benchmark suite.elementary"

# module: floor, own modules it may import, foreign library that lives in this file alone
TABLE: dict[str, tuple[int, str, str]] = {
    "errors": (0, "", ""),
    "address": (0, "", ""),
    "rng": (0, "", ""),
    "identity": (0, "", ""),
    "arrays": (0, "", ""),
    "shapes": (1, "arrays", ""),
    "kriging": (2, "shapes", ""),
    "posterior": (2, "arrays shapes", ""),
    "tape": (0, "", ""),
    "sqp": (0, "", ""),
    "functions": (0, "", ""),
    "beside": (0, "", ""),
    "listing": (0, "", ""),
    "record": (1, "errors", ""),
    "executors": (1, "errors", "distributed"),
    "complaints": (2, "address errors", ""),
    "sqlite": (2, "complaints errors", ""),
    "rows": (2, "errors record", ""),
    "journal": (2, "errors executors record", ""),
    "command": (1, "errors", ""),
    "tables": (1, "errors", ""),
    "named": (1, "errors", ""),
    "quantile": (1, "arrays errors", ""),
    "estimator": (1, "errors", ""),
    "waves": (3, "kriging shapes", ""),
    "models": (3, "errors kriging shapes", ""),
    "selection": (4, "kriging models waves", ""),
    "subproblem": (1, "errors functions rng sqp", ""),
    "enumeration": (2, "errors functions listing rng subproblem", ""),
    "penalty": (2, "errors functions rng subproblem", ""),
    "store": (3, "address complaints errors journal record rows sqlite", "sqlalchemy"),
    "gp": (5, "arrays errors kriging models posterior selection shapes", ""),
    "formula": (2, "errors named tape", ""),
    "structure": (2, "errors named rng", ""),
    "words": (3, "errors formula identity listing named", ""),
    "problem": (4, "errors formula listing named rng structure words", ""),
    "composite": (5, "arrays errors estimator problem quantile rng", ""),
    "design": (5, "errors listing problem rng", ""),
    "theory": (5, "errors problem quantile rng", ""),
    "trial": (5, "errors named problem record", ""),
    "joint": (6, "composite rng subproblem", ""),
    "believe": (6, "composite errors estimator gp models problem rng trial", ""),
    "bridge": (6, "composite errors problem rng", "botorch gpytorch linear_operator"),
    "fence": (6, "enumeration functions gp models rng subproblem trial", ""),
    "solvers.base": (6, "errors problem rng trial", ""),
    "recommend": (7, "believe composite enumeration errors fence functions gp models problem rng subproblem trial", ""),
    "solvers.bayes": (
        7,
        "believe beside composite enumeration errors estimator fence functions gp joint models penalty problem "
        "quantile rng solvers.base subproblem trial",
        "",
    ),
    "solvers.folding": (7, "believe models problem solvers.base trial", ""),
    "solvers.acquisition": (8, "believe composite errors functions penalty solvers.base solvers.bayes subproblem", ""),
    "solvers.scbo": (8, "believe bridge errors problem rng solvers.base solvers.folding trial", ""),
    "solvers.improvement": (
        9,
        "believe composite errors models penalty problem rng solvers.acquisition solvers.base solvers.bayes "
        "solvers.folding subproblem trial",
        "",
    ),
    "solvers.optimism": (
        9,
        "believe composite errors joint problem quantile rng solvers.acquisition solvers.base solvers.bayes "
        "solvers.folding subproblem trial",
        "",
    ),
    "solvers.linearized": (
        10,
        "believe composite errors problem quantile rng solvers.acquisition solvers.base solvers.bayes "
        "solvers.improvement subproblem trial",
        "",
    ),
    "solvers.branchfit": (0, "", ""),
    "solvers.loop": (7, "errors problem rng solvers.base trial", ""),
    "solvers.peers": (7, "errors problem rng solvers.base trial", "optuna ax"),
    "solvers.search": (8, "errors problem rng solvers.base solvers.loop trial", "cma pybobyqa"),
    "solvers.snobfit": (8, "errors problem rng solvers.base solvers.branchfit solvers.loop", ""),
    "solvers": (7, "errors solvers.base", ""),
    "files": (8, "command errors formula problem solvers tables", ""),
    "result": (8, "errors named problem recommend trial", "pandas"),
    "reopen": (8, "errors journal listing problem record rng solvers solvers.base store", ""),
    "judge": (
        9,
        "believe composite errors named problem recommend result rng solvers.base solvers.bayes trial",
        "",
    ),
    "study": (
        10,
        "design errors executors journal judge problem recommend record reopen result rng solvers solvers.base trial",
        "",
    ),
    "plots": (11, "believe errors problem recommend result rng solvers.bayes study trial", "matplotlib"),
    FACE: (11, "errors named problem result solvers.bayes study trial", ""),
    "demo": (12, "errors named plots problem result study suite suite.applied trial", ""),
    "shell": (0, "", ""),
    "shell.options": (0, "", "click"),
    "shell.speech": (1, "address errors", "click"),
    "shell.pages": (9, "address named problem result trial", ""),
    "shell.statement": (10, "files shell.options shell.pages shell.speech", "click"),
    "shell.opening": (11, "files record shell.pages shell.speech store study", ""),
    "shell.laboratory": (
        12,
        "errors files named problem shell.opening shell.options shell.pages shell.speech tables trial",
        "click",
    ),
    "shell.answers": (
        13,
        "address errors files record result shell.laboratory shell.opening shell.options shell.pages shell.speech "
        "tables trial",
        "click",
    ),
    "shell.running": (
        14,
        "command executors files shell.answers shell.opening shell.options shell.pages shell.speech",
        "click",
    ),
    "shell.showcase": (
        13,
        "demo errors shell.options shell.pages shell.speech solvers suite",
        "click",
    ),
    "cli": (15, f"{FACE} address errors shell.speech", "click"),
    "bench": (0, "", ""),
    "bench.measures": (0, "", ""),
    "bench.compare": (0, "", ""),
    "bench.profiles": (1, "bench.measures", ""),
    "bench.illustrate": (
        11,
        "believe composite problem quantile rng solvers.bayes solvers.linearized suite trial",
        "",
    ),
    "bench.origin": (12, FACE, ""),
    "bench.figures": (12, "bench.measures plots", ""),
    "bench.plan": (13, "bench.origin errors solvers solvers.base solvers.bayes suite suite.twins", ""),
    "bench.runs": (14, "bench.origin bench.plan errors named problem reopen study suite.benchmark trial", ""),
    "bench.ledger": (15, "bench.plan bench.runs errors store", ""),
    "bench.drive": (16, "bench.ledger bench.origin bench.plan bench.runs errors executors", ""),
    "bench.curves": (
        17,
        "believe bench.drive bench.ledger bench.measures bench.plan bench.runs errors problem recommend rng "
        "solvers.bayes suite trial",
        "",
    ),
    "bench.pages": (18, "bench.compare bench.curves bench.ledger bench.measures bench.profiles", ""),
    "bench.paper": (
        19,
        "bench.curves bench.figures bench.illustrate bench.ledger bench.measures bench.pages bench.plan bench.profiles "
        "errors solvers.bayes suite",
        "",
    ),
    "bench.away": (20, "bench.curves bench.drive bench.paper bench.plan bench.runs errors rng", ""),
    "bench.transfer": (21, "bench.curves bench.ledger bench.runs", ""),
    "bench.shell": (
        22,
        "bench bench.away bench.curves bench.drive bench.figures bench.ledger bench.origin bench.pages bench.paper "
        "bench.plan bench.profiles bench.transfer errors executors shell.speech suite",
        "click",
    ),
    # the suite stands on `problem` alone: it can be used with any solver
    "suite.elementary": (0, "", ""),
    "suite.readings": (0, "", ""),
    "suite.optimum": (1, "errors rng", ""),
    "suite.benchmark": (5, "errors named problem rng suite.elementary suite.readings", ""),
    "suite.latent": (5, "errors problem rng suite.elementary", ""),
    "suite.unconstrained": (6, SUITE_PROBLEM, ""),
    "suite.applied": (6, SUITE_PROBLEM, ""),
    "suite.sketch": (6, "errors problem rng suite.benchmark suite.elementary suite.latent", ""),
    "suite.constrained": (7, f"{SUITE_PROBLEM} suite.unconstrained", ""),
    "suite.calibration": (7, "errors problem rng suite.benchmark suite.elementary suite.sketch", ""),
    "suite.plants": (7, "errors problem rng suite.benchmark suite.elementary suite.sketch", ""),
    "suite.catalogue": (8, "errors suite.applied suite.benchmark suite.constrained suite.unconstrained", ""),
    "suite.generator": (
        8,
        "errors formula named problem rng suite.benchmark suite.calibration suite.elementary suite.latent "
        "suite.optimum suite.plants suite.sketch",
        "",
    ),
    "suite.twins": (9, f"{SUITE_PROBLEM} suite.catalogue suite.optimum", ""),
    "suite": (10, "suite.benchmark suite.catalogue suite.generator suite.twins", ""),
}


@cache
def modules() -> dict[str, Path]:
    """Every module of the package by its short name."""
    found = {}
    for file in sorted((SOURCE / "pied").rglob("*.py")):
        parts = list(file.relative_to(SOURCE).with_suffix("").parts)
        parts = parts[:-1] if parts[-1] == "__init__" else parts
        found[".".join(parts[1:]) or FACE] = file
    return found


@cache
def imports(module: str) -> tuple[frozenset[str], frozenset[str]]:
    """Own modules and foreign libraries that a module imports, anywhere in its text, for types or in earnest."""
    own, foreign = set(), set()
    for node in ast.walk(ast.parse(modules()[module].read_text())):
        if isinstance(node, ast.Import):
            names = [each.name for each in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} imports relatively"
            names = [f"{node.module}.{each.name}" for each in node.names]
        else:
            continue
        for name in names:
            top, _, rest = name.partition(".")
            if top != FACE:
                foreign |= {top} - set(sys.stdlib_module_names)
            else:
                own.add(rest if rest in modules() else rest.rpartition(".")[0] or FACE)
    return frozenset(own), frozenset(foreign)


def test_every_module_is_in_the_table() -> None:
    assert set(modules()) == set(TABLE)


@pytest.mark.parametrize("module", modules())
def test_a_module_imports_only_what_the_table_allows(module: str) -> None:
    own, _ = imports(module)
    allowed = set(TABLE[module][1].split())
    assert own <= allowed, f"{module} imports {sorted(own - allowed)}: is that the right floor?"


@pytest.mark.parametrize("module", TABLE)
def test_the_table_itself_goes_down_only(module: str) -> None:
    floor, allowed, _ = TABLE[module]
    for other in allowed.split():
        assert TABLE[other][0] < floor, f"{module} (floor {floor}) may not stand on {other} (floor {TABLE[other][0]})"


@pytest.mark.parametrize("module", modules())
def test_a_foreign_library_is_imported_in_the_one_file_named(module: str) -> None:
    _, foreign = imports(module)
    assert foreign - GROUND <= set(TABLE[module][2].split())


def test_no_foreign_library_lives_in_two_files() -> None:
    homes = [library for _, _, libraries in TABLE.values() for library in libraries.split() if library not in SHARED]
    assert len(homes) == len(set(homes))


def test_the_documented_table_names_every_module_with_its_floor() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    rows = [[cell.strip() for cell in line.split("|")[1:3]] for line in page.splitlines() if line.startswith("| ")]
    documented = {module.strip("`"): floor for floor, module in rows if module.startswith("`")}
    for module, (floor, _, _) in TABLE.items():
        assert documented.get(module) == str(floor), f"docs/architecture.md: `{module}` is on floor {floor}"
