"""Write the tables of settings in reference.md from the fields of the solvers and their docstrings.

    python docs/reference.py             # rewrite the page

Each marked place of the page names a class; everything else on the page is written by hand. The table of the rivals
leaves out what is described as for CUQB.
"""

import ast
import dataclasses
import inspect
import re
from pathlib import Path
from typing import Any

from pied.solvers import make, registry
from pied.solvers.cuqb import CUQB

HERE = Path(__file__).parent
RIVALS = "the other solvers"
MARK = re.compile(r"(<!-- settings of ([^:]*): .*? -->\n).*?(<!-- end of settings -->)", re.DOTALL)


def meanings(kind: type) -> dict[str, str]:
    """Return the docstrings of a dataclass's fields, also of inherited ones, by name."""
    found: dict[str, str] = {}
    for each in reversed(kind.__mro__):
        if not dataclasses.is_dataclass(each):
            continue
        (body,) = ast.parse(inspect.getsource(each)).body
        assert isinstance(body, ast.ClassDef)
        for field, told in zip(body.body, body.body[1:], strict=False):
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(told, ast.Expr):
                found[field.target.id] = " ".join(str(ast.literal_eval(told.value)).split())
    return found


def rows(settings: Any) -> dict[str, tuple[str, str]]:
    """Return default and meaning of each setting by name; settings of their own say themselves what they are."""
    told = meanings(type(settings))
    found = {}
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        meaning = told.get(field.name) or (inspect.getdoc(value) or "").splitlines()[0]
        found[field.name] = (_written(value), meaning.replace("|", "\\|"))
    return found


def _written(value: Any) -> str:
    """Return a default as code; settings of their own by the name of their class."""
    return f"`{type(value).__name__}()`" if dataclasses.is_dataclass(value) else f"`{value!r}`"


def main_settings() -> dict[str, Any]:
    """Return the settings of the main solver and its parts, with their defaults, by class."""
    main = CUQB()
    parts = (main, main.believer, main.believer.model, main.believer.estimator, main.search, CUQB.paper().search)
    return {type(each).__name__: each for each in parts}


def table(settings: Any) -> str:
    """Return a row for each setting."""
    lines = (f"| `{name}` | {default} | {told} |" for name, (default, told) in rows(settings).items())
    return "\n".join(["| setting | default | meaning |", "| --- | --- | --- |", *lines])


def rivals() -> str:
    """Return the settings of other solvers that CUQB has not, or with another default."""
    usual = {name: default for name, (default, _) in rows(CUQB()).items()}
    owners: dict[tuple[str, str, str], list[str]] = {}
    for solver, settings in _others().items():
        for name, (default, told) in rows(settings).items():
            if usual.get(name) != default:
                owners.setdefault((name, default, told), []).append(f"`{solver}`")
    lines = (
        f"| `{name}` | {default} | {told} | {', '.join(solvers)} |" for (name, default, told), solvers in owners.items()
    )
    return "\n".join(["| setting | default | meaning | of |", "| --- | --- | --- | --- |", *lines])


def _others() -> dict[str, Any]:
    """Return the settings of all other solvers, with their defaults, by name."""
    found = {name: make(name) for name in registry if name != "cuqb" and not name.endswith("-paper")}
    return {name: each for name, each in found.items() if dataclasses.is_dataclass(each)}


def page(text: str) -> str:
    """Return the page with the settings as the code has them now."""
    known = main_settings()

    def written(mark: re.Match[str]) -> str:
        content = rivals() if mark[2] == RIVALS else table(known[mark[2]])
        return f"{mark[1]}{content}\n{mark[3]}"

    return MARK.sub(written, text)


if __name__ == "__main__":
    where = HERE / "reference.md"
    where.write_text(page(where.read_text(encoding="utf-8")), encoding="utf-8")
