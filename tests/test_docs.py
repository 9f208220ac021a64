"""The documentation is true: every Python block runs, every command, solver, status and setting is described."""

import dataclasses
import inspect
import math
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import matplotlib as mpl
import pytest

import pied
from pied import Problem, Result, State, Status, Study
from pied.shell.demo import KNOWN, OPTIMUM
from pied.shell.main import main
from pied.solvers import registry
from pied.solvers.cuqb import CUQB
from pied.study.recommendation import RULES

mpl.use("Agg")

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
REFERENCE = (ROOT / "docs" / "reference.md").read_text()
MOST = 6
"""Evaluations at most: enough for a belief to choose a point of two variables."""
SETTINGS = [
    CUQB(),
    CUQB().believer,
    CUQB().believer.model,
    CUQB().believer.estimator,
    CUQB().search,
    CUQB.paper().search,
]
"""Settings of the main solver, each with its defaults."""
SKIPPED = "<!-- not run -->"


def blocks(page: Path) -> Iterator[tuple[int, str]]:
    """The Python blocks of a page, each with the number of its first line."""
    lines = page.read_text().splitlines()
    start, skipped = None, False
    for place, line in enumerate(lines):
        if start is None and line.strip() == "```python":
            start, skipped = place + 1, place > 0 and lines[place - 1].strip() == SKIPPED
        elif start is not None and line.strip() == "```":
            if not skipped:
                yield start + 1, "\n".join(lines[start:place])
            start = None


def with_small_budgets(code: str) -> str:
    """Cut budgets: the point is that a block runs, not that it converges."""

    def cut(match: re.Match[str]) -> str:
        return f"{match[1]}{min(int(match[2]), MOST)}"

    return re.sub(r"(\bbudget=|\.run\(|study\.used < )(\d+)", cut, code)


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_python_blocks_of_a_page_run_in_order(page: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, Any] = {"__name__": page.stem}
    for line, code in blocks(page):
        numbered = "\n" * (line - 1) + with_small_budgets(code)
        exec(compile(numbered, str(page), "exec"), namespace)


def test_the_first_page_shows_what_the_reactor_really_gives() -> None:
    shown = re.search(r"```text\n(.*?)```", (ROOT / "README.md").read_text(), re.S)
    assert shown is not None
    numbers = dict(re.findall(r"(\w+) (?:= )?([\d.]+)\n", shown[1]))
    assert float(numbers["profit"]) == pytest.approx(KNOWN, abs=1e-3)
    assert {name: float(numbers[name]) for name in OPTIMUM} == pytest.approx(OPTIMUM, abs=1e-4)


def test_the_first_page_of_the_site_shows_an_optimum() -> None:
    shown = re.search(r"```text\n(.*?)```", (ROOT / "docs" / "index.md").read_text(), re.S)
    assert shown is not None
    numbers = {name: float(value) for name, value in re.findall(r"(\w+) (?:= )?([\d.]+)\n", shown[1])}

    def value(time: float) -> float:  # along the permit, which holds with equality
        heat = math.sqrt((0.12 - 0.02 * time) / 0.04)
        return 2 * (1 - 2.0 ** (-time * heat)) - 1.5 * 0.12 - 0.03 * time

    assert numbers["objective"] == pytest.approx(max(value(0.5 + 0.001 * k) for k in range(5000)), abs=1e-6)
    assert numbers["objective"] == pytest.approx(value(numbers["time"]), abs=1e-6)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_install_from_the_clone_because_no_index_has_it(page: Path) -> None:
    assert not re.search(r"pip install [\"']?pied", page.read_text())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def section(title: str) -> str:
    """A part of the reference, from its heading to the next one of any depth."""
    found = re.search(rf"^#+ {re.escape(title)}\n(.*?)(?=^#|\Z)", REFERENCE, re.S | re.M)
    assert found is not None, f"docs/reference.md has no section '{title}'"
    return found[1]


def rows(title: str) -> dict[str, str]:
    """Rows of the tables of a section, by the name in their first cell."""
    return {line.split("`")[1]: line for line in section(title).splitlines() if line.startswith("| `")}


@pytest.mark.parametrize("made", SETTINGS, ids=lambda each: type(each).__name__)
def test_every_setting_of_a_solver_is_described_with_its_default(made: Any) -> None:
    described = rows(type(made).__name__)
    fields = {field.name: getattr(made, field.name) for field in dataclasses.fields(made)}
    assert set(described) == set(fields)
    for name, value in fields.items():
        text = f"{type(value).__name__}()" if dataclasses.is_dataclass(value) else repr(value)
        assert f"`{text}`" in described[name].split(" | ")[1], f"{type(made).__name__}.{name}: the default is {text}"


def test_the_tables_of_settings_are_those_of_the_code() -> None:
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        from reference import page  # type: ignore[import-not-found]
    finally:
        sys.path.pop(0)
    assert page(REFERENCE) == REFERENCE, "run: python docs/reference.py"
    assert REFERENCE.count("<!-- settings of ") == REFERENCE.count("<!-- end of settings -->") == len(SETTINGS) + 1


@pytest.mark.parametrize("stated", [Problem, Study], ids=lambda each: each.__name__)
def test_every_word_of_a_statement_and_of_a_study_is_described_with_its_default(stated: type) -> None:
    described = rows(stated.__name__)
    for name, word in list(inspect.signature(stated).parameters.items()):
        assert name in described, f"{stated.__name__}({name}=) is not described"
        default = "needed" if word.default is inspect.Parameter.empty else f"`{word.default!r}`"
        assert described[name].split(" | ")[1] == default


def test_every_status_state_and_rule_is_described() -> None:
    assert set(rows("Status")) - {"Status"} == {each.name for each in Status}
    assert {each.name for each in State} <= set(rows("Trial and State"))
    assert set(rows("Rules of recommendation")) == set(RULES)


def test_every_solver_is_described() -> None:
    first = " ".join(line.split("|")[1] for line in section("Solvers").splitlines() if line.startswith("| `"))
    assert sorted(re.findall(r"`([^`]+)`", first)) == sorted(registry)


def commands(group: click.Group, prefix: str = "pied") -> Iterator[tuple[str, click.Command]]:
    """Every command of the shell by what is typed."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(command, f"{prefix} {name}")
        else:
            yield f"{prefix} {name}", command


def test_every_command_and_option_is_described() -> None:
    described = rows("The shell") | rows("The bench")
    common = section("The shell").partition("| command |")[0]
    for name, command in commands(main):
        row = described[name] + (common if "bench" not in name else "")
        for parameter in command.params:
            word = parameter.opts[-1] if isinstance(parameter, click.Option) else str(parameter.name).upper()
            assert f"`{word}`" in row, f"{name} {word} is not described"


def test_every_public_name_and_every_field_of_a_result_is_described() -> None:
    words = set(re.findall(r"[A-Za-z_]\w*", " ".join(re.findall(r"`([^`\n]+)`", REFERENCE))))
    assert {name for name in dir(pied) if not name.startswith("_")} <= words
    assert {field.name for field in dataclasses.fields(Result)} <= words


def test_every_error_is_described() -> None:
    errors = {name for name in dir(pied) if isinstance(getattr(pied, name), type)}
    errors = {name for name in errors if issubclass(getattr(pied, name), pied.PiedError)}
    assert errors - {"PiedError"} == set(rows("Errors"))
