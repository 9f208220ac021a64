"""What the site needs beyond MkDocs: mathematics as MathML, and pages that lie outside of docs/.

Formulas are translated when the site is built, so readers need neither scripts nor fonts of other hosts. Pages link to
`../benchmarks/results/x.md` and `../CHANGELOG.md`, which works in the repository; the site has copies of these files,
and the links follow. Docstrings name their page as `docs/x.md`, which becomes a link.
"""

import html
import re
from pathlib import Path, PurePosixPath
from typing import Any

from latex2mathml.converter import convert
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
COPIED = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "CODE_OF_CONDUCT.md", "CITATION.cff")
"""Files of the repository's root that have a place on the site."""
FOLDERS = ("benchmarks/results", "examples")
"""Folders that pages link to; their Markdown becomes pages outside of the navigation, all else is copied."""
GRAPH = re.compile(r"<pre[^>]*>(?:<span></span>)?<code[^>]*>graph TD\n(.*?)</code></pre>", re.S)
LINK = re.compile(r"(\]\()([^)\s#]+)((?:#[^)\s]*)?\))")


def on_files(files: Files, config: Any) -> Files:
    """Add the files that lie outside of docs/."""
    found = [ROOT / name for name in COPIED]
    found += [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*")) if path.is_file()]
    for path in found:
        if "__pycache__" in path.parts:
            continue
        place = path.relative_to(ROOT).as_posix()
        file = File.generated(config, place, abs_src_path=str(path))
        if place not in COPIED and file.is_documentation_page():
            file.inclusion = file.inclusion.NOT_IN_NAV
        files.append(file)
    for folder in FOLDERS:
        files.append(File.generated(config, f"{folder}/index.md", content=_listing(folder)))
        files.get_file_from_path(f"{folder}/index.md").inclusion = file.inclusion.NOT_IN_NAV
    return files


def _listing(folder: str) -> str:
    """A page with links to the files of a folder, for links to the folder itself."""
    paths = [path.relative_to(ROOT / folder) for path in sorted((ROOT / folder).rglob("*")) if path.is_file()]
    return f"# {folder}\n\n" + "\n".join(f"- [{path}]({path})" for path in paths if "__pycache__" not in path.parts)


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Let links follow the files to where the site has them; what the site does not have is named without a link."""
    here = PurePosixPath(page.file.src_uri)
    is_copy = here.name in COPIED or any(here.is_relative_to(folder) for folder in FOLDERS)
    start = ROOT / here.parent if is_copy else ROOT / "docs" / here.parent

    def follow(match: re.Match[str]) -> str:
        before, target, after = match.groups()
        if "://" in target or target.startswith("mailto:"):
            return match[0]
        try:
            place = (start / target).resolve().relative_to(ROOT)
        except ValueError:
            return match[0]
        on_site = place.relative_to("docs") if place.is_relative_to("docs") else place
        if files.get_file_from_path(f"{on_site}/index.md") is not None:
            on_site = on_site / "index.md"
        up = "../" * (len(here.parts) - 1)
        return f"{before}{up}{on_site.as_posix()}{after}"

    return LINK.sub(follow, markdown)


def on_page_content(content: str, page: Any, config: Any, files: Files) -> str:
    """Translate formulas into MathML, and pages named in docstrings into links."""
    up = "../" * (len(PurePosixPath(page.file.src_uri).parts) - 1)

    def formula(match: re.Match[str]) -> str:
        source = html.unescape(match[2])
        inline = source.startswith("\\(")
        return convert(source[2:-2].strip(), display="inline" if inline else "block")

    content = GRAPH.sub(_drawing, content)
    content = re.sub(r'<(span|div) class="arithmatex">(.*?)</\1>', formula, content, flags=re.S)
    return re.sub(r"<code>docs/([\w-]+)\.md</code>", rf'<a href="{up}\1.html">\1</a>', content)


def _drawing(match: re.Match[str]) -> str:
    """Draw a graph of arrows, each from a higher to a lower row, so that no drawing library has to be fetched."""
    below: dict[str, list[str]] = {}
    for line in html.unescape(match[1]).splitlines():
        start, _, end = line.strip().partition(" --> ")
        below.setdefault(start, [])
        if end:
            below[start].append(end)
            below.setdefault(end, [])

    def height(name: str) -> int:
        return 1 + max((height(each) for each in below[name]), default=-1)

    rows: dict[int, list[str]] = {}
    for name in sorted(below):
        rows.setdefault(height(name), []).append(name)
    top, widest = max(rows), max(len(names) for names in rows.values())
    place = {
        name: (130 * widest * (column + 0.5) / len(names), 30 + 56 * (top - row))
        for row, names in rows.items()
        for column, name in enumerate(names)
    }
    parts = [
        f'<path d="M{place[start][0]:.0f} {place[start][1] + 14}L{place[end][0]:.0f} {place[end][1] - 14}"/>'
        for start, ends in below.items()
        for end in ends
    ]
    boxes = [
        f'<rect x="{x - 50:.0f}" y="{y - 14}" width="100" height="28" rx="4" fill="var(--md-code-bg-color)"/>'
        f'<text x="{x:.0f}" y="{y + 5}" text-anchor="middle" stroke="none" fill="currentColor">{name}</text>'
        for name, (x, y) in place.items()
    ]
    size = f"0 0 {130 * widest} {60 + 56 * top}"
    return f'<svg viewBox="{size}" style="max-width:34rem" stroke="currentColor">{"".join(parts + boxes)}</svg>'
