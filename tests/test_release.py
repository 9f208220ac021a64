"""What a release promises: one version everywhere, names that stay, types for users, packages that install."""

import inspect
import json
import os
import re
import subprocess
import sys
import tomllib
from enum import Enum
from pathlib import Path
from typing import Any

import pytest

import pied
import pied.plots
import pied.suite

ROOT = Path(__file__).parents[1]
RELEASED = ROOT / "tests" / "data" / "public.json"
"""Public names of the last release, with their arguments. Written by `python tests/test_release.py`."""
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
TYPED = ROOT / "tests" / "data" / "typed" / "user.py"


def arguments(made: Any) -> list[str]:
    """Names under which a call can pass arguments."""
    try:
        words = inspect.signature(made).parameters.values()
    except (TypeError, ValueError):
        return []
    return [word.name for word in words if word.kind in (word.POSITIONAL_OR_KEYWORD, word.KEYWORD_ONLY)]


def surface() -> dict[str, list[str]]:
    """Every public name with its arguments; of a class also its public methods."""
    found: dict[str, list[str]] = {}
    for module in (pied, pied.plots, pied.suite):
        for name in getattr(module, "__all__", dir(module)):
            if name.startswith("_"):
                continue
            made = getattr(module, name)
            is_plain = not (isinstance(made, type) and issubclass(made, Exception | Enum))  # made by Python's own words
            found[f"{module.__name__}.{name}"] = arguments(made) if callable(made) and is_plain else []
    for owner in (pied.Study, pied.Problem, pied.Result):
        for name, made in inspect.getmembers(owner, callable):
            if not name.startswith("_"):
                found[f"pied.{owner.__name__}.{name}"] = [word for word in arguments(made) if word != "self"]
    return found


def test_the_version_is_the_same_everywhere() -> None:
    version = PROJECT["version"]
    assert pied.__version__ == version
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text()
    assert f"\n## {version}" in (ROOT / "CHANGELOG.md").read_text()


def test_every_name_and_argument_of_the_last_release_still_works() -> None:
    now = surface()
    for name, words in json.loads(RELEASED.read_text()).items():
        former = name.removeprefix("pied.")
        if former in pied._LEAVING:
            continue
        assert name in now, f"{name} was public in the last release: keep it, or let it warn first (docs/stability.md)"
        assert set(words) <= set(now[name]), f"{name} lost arguments: {sorted(set(words) - set(now[name]))}"


LEAVES = """
import warnings, pied
pied._LEAVING["Outcome"] = ("Result", "0.9")
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    assert pied.Outcome is pied.Result
print(said[0].category.__name__, said[0].filename, said[0].message)
"""


def test_a_name_that_leaves_warns_first_at_the_users_line_and_still_works() -> None:
    said = subprocess.run([sys.executable, "-c", LEAVES], capture_output=True, text=True, check=True).stdout
    assert said.startswith("DeprecationWarning <string> pied.Outcome is now called pied.Result")
    assert "until version 0.9" in said


def test_names_that_leave_are_in_the_changelog_and_not_overdue() -> None:
    def order(version: str) -> list[int]:
        return [int(part) for part in version.split(".")]

    for former, (instead, version) in pied._LEAVING.items():
        assert hasattr(pied, instead)
        assert order(version) > order(pied.__version__), f"pied.{former} should have gone"
        assert f"`{former}`" in (ROOT / "CHANGELOG.md").read_text()


@pytest.mark.slow
def test_public_names_of_the_package_raise_no_deprecation_warning() -> None:
    code = "import pied\nfor name in dir(pied): getattr(pied, name)"
    subprocess.run([sys.executable, "-W", "error::DeprecationWarning:pied", "-c", code], check=True)


def test_every_extra_that_messages_and_pages_name_exists() -> None:
    texts = [path.read_text() for path in [*(ROOT / "src").rglob("*.py"), *(ROOT / "docs").glob("*.md")]]
    named = {extra for text in texts for extra in re.findall(r"pied\[(\w+)\]", text)}
    assert named <= set(PROJECT["optional-dependencies"])
    assert not {"docs", "release"} & set(re.findall(r"\w+", str(PROJECT["optional-dependencies"]["dev"])))


@pytest.mark.slow
def test_the_typed_program_of_a_user_runs(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, TYPED], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "known" in done.stdout


@pytest.mark.long
def test_a_users_program_passes_mypy_at_its_strictest(tmp_path: Path) -> None:
    words = ["--strict", "--follow-imports=silent", "--config-file=", f"--cache-dir={tmp_path}", str(TYPED)]
    where = os.environ | {"MYPYPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *words], cwd=tmp_path, env=where, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.long
def test_sdist_and_wheel_are_right_and_install_into_an_empty_environment(tmp_path: Path) -> None:
    pytest.importorskip("build", reason='needs build and twine: pip install ".[release]"')
    pytest.importorskip("twine", reason='needs build and twine: pip install ".[release]"')
    version = ".".join(map(str, sys.version_info[:2]))
    words: list[Any] = [sys.executable, ROOT / ".ci" / "release.py", "--pythons", version, "--out", tmp_path / "dist"]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


if __name__ == "__main__":
    RELEASED.write_text(json.dumps(surface(), indent=1, sort_keys=True) + "\n")
