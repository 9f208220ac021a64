"""Draw the picture and the tables of packages and moves in architecture.md from the code itself.

    python docs/architecture.py          # rewrite the page

The page has three marked places; everything else in it is written by hand. An arrow is left out where a longer way of
arrows says the same.
"""

import ast
import re
from pathlib import Path

HERE = Path(__file__).parent
SOURCE = HERE.parent / "src" / "pied"
GROUND = ("errors", "rng", "sobol", "distances", "measured", "shapes", "address", "writing", "markup")
"""Files that almost everything imports: listed, not drawn."""


def packages() -> dict[str, Path]:
    """Return the packages and the single files with content of their own, by name."""
    files = {file.stem: file for file in SOURCE.glob("*.py") if file.stem != "__init__" and _defines(file)}
    folders = {file.parent.name: file.parent for file in SOURCE.glob("*/__init__.py")}
    return dict(sorted({**files, **folders}.items()))


def _defines(file: Path) -> bool:
    """Tell whether a file defines anything; the doors of older versions only import."""
    kinds = (ast.FunctionDef, ast.ClassDef, ast.Assign, ast.AnnAssign)
    return any(isinstance(node, kinds) for node in ast.parse(_read(file)).body)


def _files(place: Path) -> list[Path]:
    return sorted(place.rglob("*.py")) if place.is_dir() else [place]


def imports() -> dict[str, set[str]]:
    """Return which packages each package imports."""
    known = packages()
    found: dict[str, set[str]] = {name: set() for name in known}
    for name, place in known.items():
        for file in _files(place):
            for node in ast.walk(ast.parse(_read(file))):
                if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "pied":
                    targets = [node.module] if node.module != "pied" else [f"pied.{each.name}" for each in node.names]
                    found[name] |= {str(target).split(".")[1] for target in targets} & set(known) - {name}
    return found


def floors(graph: dict[str, set[str]]) -> dict[str, int]:
    """Return the floor of each package: one above the highest that it imports."""
    known: dict[str, int] = {}

    def floor(name: str) -> int:
        if name not in known:
            known[name] = max((floor(other) + 1 for other in graph[name]), default=0)
        return known[name]

    for name in graph:
        floor(name)
    return known


def _reduced(graph: dict[str, set[str]]) -> dict[str, set[str]]:
    """Leave out each arrow that a longer way of arrows implies."""

    def reachable(name: str) -> set[str]:
        return graph[name].union(*(reachable(other) for other in graph[name])) if graph[name] else set()

    return {
        name: {other for other in below if not any(other in reachable(between) for between in below - {other})}
        for name, below in graph.items()
    }


def picture() -> str:
    """Return the packages as a Mermaid graph, the highest floor first."""
    graph = {name: below - set(GROUND) for name, below in imports().items() if name not in GROUND}
    level = floors(graph)
    lines = ["```mermaid", "graph TD"]
    for name, below in sorted(_reduced(graph).items(), key=lambda item: (-level[item[0]], item[0])):
        lines += [f"  {name} --> {other}" for other in sorted(below)] or [f"  {name}"]
    return "\n".join([*lines, "```"])


def table() -> str:
    """Return one row a package: its floor, and its duty in its own words."""
    graph = imports()
    level = floors(graph)
    rows = ["| floor | package | duty |", "| --- | --- | --- |"]
    for name, place in sorted(packages().items(), key=lambda item: (-level[item[0]], item[0])):
        first = place / "__init__.py" if place.is_dir() else place
        duty = (ast.get_docstring(ast.parse(_read(first))) or "").splitlines()[0]
        rows.append(f"| {level[name]} | `{name}` | {duty} |")
    return "\n".join(rows)


def moves() -> str:
    """Return one row a move of the method, in the order in which they are asked: what it is, and where it pays."""
    place = SOURCE / "solvers" / "moves"
    listed = re.search(r"ALL: .*?\n}", _read(place / "__init__.py"), re.DOTALL)
    asked = re.findall(r"(\w+)\(\)", listed[0] if listed else "")
    rows = {}
    for file in place.glob("*.py"):
        tree = ast.parse(_read(file))
        for each in (node for node in tree.body if isinstance(node, ast.ClassDef) and node.name in asked):
            said = {node.targets[0].id: node.value.value for node in each.body if isinstance(node, ast.Assign)}  # type: ignore
            duty = " ".join((ast.get_docstring(tree) or "").split("\n\n")[0].split()).partition(": ")[2]
            rows[each.name] = f"| `{said['name']}` | {duty[0].upper()}{duty[1:]} | {said['evidence']} |"
    return "\n".join(
        ["| move | what it does | where it pays |", "| --- | --- | --- |", *(rows[name] for name in asked)]
    )


def _read(file: Path) -> str:
    return file.read_text(encoding="utf-8")


def page(text: str) -> str:
    """Return the page with picture and tables as the code has them now."""
    for name, content in (("picture", picture()), ("table", table()), ("moves", moves())):
        text = re.sub(
            rf"(<!-- {name}: .*? -->\n).*?(<!-- end of {name} -->)",
            lambda found, content=content: f"{found[1]}{content}\n{found[2]}",
            text,
            flags=re.DOTALL,
        )
    return text


if __name__ == "__main__":
    where = HERE / "architecture.md"
    where.write_text(page(where.read_text(encoding="utf-8")), encoding="utf-8")
