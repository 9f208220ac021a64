"""The documentation site: every page has its place, every public name an example, nothing comes from other hosts.

Most tests read the sources; those that build the site are `long`: MkDocs (extra `docs`) is not in the tests' set-up.
"""

import importlib
import importlib.util
import inspect
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

import pied

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
SETTINGS = (ROOT / "mkdocs.yml").read_text()
NAVIGATION = re.findall(r"^\s+- [^:\n]+: (\S+\.md)$", SETTINGS[SETTINGS.index("\nnav:") :], re.M)
PARTS = ["Why", "Five-minute start", "Tutorials", "How-to", "Explanation", "Reference", "Evidence"]
MODULES = ("pied", "pied.plots", "pied.suite", "pied.executors", "pied.bridge")


def public(module: ModuleType) -> list[str]:
    """The documented names of a module."""
    if module.__name__ == "pied.executors":
        return ["Serial", "Threads", "Processes", "dask"]
    if module.__name__ == "pied.bridge":
        return ["belief", "ModelBelief"]
    return [name for name in getattr(module, "__all__", dir(module)) if not name.startswith("_")]


def test_every_page_is_in_the_navigation_once_and_every_entry_is_a_page() -> None:
    pages = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    of_the_root = {name for name in NAVIGATION if (ROOT / name).exists()}
    assert len(NAVIGATION) == len(set(NAVIGATION))
    assert set(NAVIGATION) - of_the_root == pages


def test_parts_come_in_the_order_in_which_people_need_them() -> None:
    assert re.findall(r"^  - ([^:\n]+):", SETTINGS[SETTINGS.index("\nnav:") :], re.M) == PARTS


def slug(heading: str) -> str:
    """The anchor that MkDocs gives to a heading."""
    kept = re.sub(r"[^\w\s-]", "", re.sub(r"[`*]|\]\([^)]*\)|\[", "", heading)).strip().lower()
    return re.sub(r"[-\s]+", "-", kept)


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda page: page.relative_to(DOCS).as_posix())
def test_links_between_pages_lead_to_a_page_and_to_a_heading_of_it(page: Path) -> None:
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.S | re.M)
    for target, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)", text):
        if "://" in target:
            continue
        found = (page.parent / target).resolve() if target else page
        assert found.exists(), f"{page.name} links to {target}"
        if anchor:
            headings = re.findall(r"^#+ (.+)$", found.read_text(), re.M)
            assert anchor in {slug(each) for each in headings}, f"{page.name} links to {target}#{anchor}"


@pytest.mark.parametrize("name", MODULES)
def test_every_public_name_says_what_it_is_and_where_it_is_used(name: str) -> None:
    if name == "pied.bridge":
        pytest.importorskip("torch", exc_type=ImportError)
    module = importlib.import_module(name)
    for each in public(module):
        made = getattr(module, each)
        if not (inspect.isclass(made) or inspect.isfunction(made)):
            continue  # a module or a constant, which has no docstring of its own
        told = inspect.getdoc(made) or ""
        example = re.search(r"Example: `(docs/[\w-]+\.md)`", told)
        assert example, f"{name}.{each} has no example: end its docstring with Example: `docs/page.md`."
        blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / example[1]).read_text(), re.S | re.M)
        assert any(re.search(rf"\b{each}\b", block) for block in blocks), f"{example[1]} does not use {name}.{each}"


def test_every_public_name_is_on_a_page_of_the_api() -> None:
    pages = "\n".join(page.read_text() for page in (DOCS / "api").glob("*.md"))
    for name in MODULES:
        for each in public(importlib.import_module(name)):
            if (name, each) != ("pied", "suite"):  # a module: its names have a page
                assert re.search(rf"\b{each}\b", pages), f"docs/api has no {name}.{each}"


def test_evidence_is_what_the_result_pages_say() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "benchmarks" / "evidence.py", "--check"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_every_result_in_the_table_of_evidence_links_to_its_page() -> None:
    text = (DOCS / "evidence.md").read_text()
    assert len(re.findall(r"!\[", text)) == 6
    _, numbers, lost = re.split(r"^## .*$", text, flags=re.M)
    for line in re.findall(r"^(?:- |\| (?!what|---)).*$", numbers + lost, re.M):
        assert "](../benchmarks/results/" in line
    for named in set(re.findall(r"\(\.\./(benchmarks/results/[^)]+\.md)\)", numbers + lost)):
        assert re.search(r"`(?:python|pied bench) ", (ROOT / named).read_text()), f"{named} has no command"


def test_pages_state_no_font_or_script_of_another_host() -> None:
    assert re.search(r"^  font: false\b", SETTINGS, re.M)
    ours = [SETTINGS, *(path.read_text() for path in DOCS.rglob("*") if path.suffix in (".css", ".js", ".svg", ".md"))]
    for text in ours:
        assert not re.search(r"""(?:src=|url\(|@import|extra_javascript:.*)\s*["']?https?://""", text)


class _Requests(HTMLParser):
    """What a browser fetches for a page, and where its links lead."""

    def __init__(self) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        if tag == "a":
            self.links.append(named.get("href") or "")
        elif tag == "link" and named.get("rel") not in ("canonical", "alternate"):
            self.fetched.append(named.get("href") or "")
        elif tag in ("script", "img", "iframe", "source", "audio", "video"):
            self.fetched.append(named.get("src") or "")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site as `make docs` builds it: strict, so a warning is an error."""
    if importlib.util.find_spec("mkdocs") is None:
        pytest.skip('needs MkDocs: pip install ".[docs]"')
    folder = tmp_path_factory.mktemp("site")
    words: list[Any] = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", folder]
    done = subprocess.run(
        words, cwd=ROOT, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.mark.long
def test_built_pages_fetch_nothing_from_other_hosts_and_have_no_broken_link(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > len(NAVIGATION)
    for page in pages:
        if page.name == "404.html":
            continue  # its links start at the root of a server
        found = _Requests()
        found.feed(page.read_text())
        assert not [each for each in found.fetched if urlsplit(each).netloc], page
        for each in found.fetched + found.links:
            target = urlsplit(each)
            if each and not target.scheme and not target.netloc and target.path:
                assert (page.parent / unquote(target.path)).exists(), f"{page.relative_to(site)} links to {each}"
    for sheet in site.rglob("*.css"):
        assert not re.search(r"(?:url\(|@import)\s*[\"']?https?://", sheet.read_text()), sheet


@pytest.mark.long
def test_built_pages_have_search_dark_mode_formulas_and_docstrings(site: Path) -> None:
    assert "search" in (site / "index.html").read_text()
    assert "slate" in (site / "index.html").read_text()
    mathematics = (site / "mathematics.html").read_text()
    assert "<math" in mathematics
    assert "arithmatex" not in mathematics
    assert pied.Problem.__doc__ is not None
    statement = (site / "api" / "statement.html").read_text()
    assert "A problem does not change once it is stated" in statement
    assert 'href="../guide-simulator.html"' in statement
