"""The variables of a problem file: ranges, integers, levels, choices and mixtures."""

from collections.abc import Mapping
from typing import Any

from pied.problem import Choice, Mixture, Variable
from pied.shell.tables import Table
from pied.shell.toml_page import Page, shown

EXAMPLE = '[70, 100] or { lo = 70, hi = 100, unit = "degC" }'
KINDS = {
    "integer": ("integer", "log", "unit", "observed", "forget"),
    "levels": ("levels", "log", "unit", "observed"),
    "choices": ("choices", "properties", "observed"),
    "properties": ("choices", "properties", "observed"),
    "lo": ("lo", "hi", "log", "unit", "step", "round", "observed", "forget"),
}
"""The word by which each kind is known, and the words that go with it."""
MIXTURE = ("parts", "total", "bounds", "unit")

Path = tuple[str, ...]
"""Keys that lead to a value."""


def read_variable(page: Page, path: Path, value: Any) -> Variable:
    """Read one variable of any kind."""
    page.check_place(path, value)
    if isinstance(value, list) and len(value) == 2:
        value = {"lo": value[0], "hi": value[1]}
    if not isinstance(value, dict):
        page.fail(path, f"a variable has two bounds, {EXAMPLE}, got {shown(value)}")
    kind = next((word for word in KINDS if word in value), "lo")
    _check_words(page, path, value, kind)
    observed = value.get("observed", False)
    if not isinstance(observed, bool):
        page.fail(path, f"observed is true or false, got {shown(observed)}")
    if kind in ("choices", "properties"):
        return _read_choice(page, path, value, observed)
    log, unit = value.get("log", False), value.get("unit", "")
    if not isinstance(log, bool) or not isinstance(unit, str):
        page.fail(path, "log is true or false, and unit is a text in quotes")
    words: dict[str, Any]
    if kind == "levels":
        levels = _listed(page, (*path, "levels"), value["levels"], "numbers, [10, 15, 22]")
        only = tuple(page.number((*path, "levels"), each) for each in levels)
        if len(only) < 2:
            page.fail(path, "there is nothing to choose among fewer than two levels: make it a constant")
        words = {"lo": min(only), "hi": max(only), "only": only}
    elif kind == "integer":
        ends = value["integer"]
        if not isinstance(ends, list) or len(ends) != 2:
            page.fail(path, f"an integer has two bounds, {{ integer = [8, 40] }}, got {shown(ends)}")
        lo, hi = (page.number((*path, "integer"), end) for end in ends)
        words = {"lo": lo, "hi": hi, "whole": True}
    else:
        words = _range(page, path, value)
    if "forget" in value:
        words["forget"] = page.number((*path, "forget"), value["forget"])
    with page.at(*path):
        return Variable(**words, log=log, unit=unit, observed=observed)


def _check_words(page: Page, path: Path, value: Mapping[str, Any], kind: str) -> None:
    """Refuse unknown words, and those that another kind of variable has."""
    every = tuple(dict.fromkeys(word for words in KINDS.values() for word in words))
    page.check_words(path, value, every)
    odd = [word for word in value if word not in KINDS[kind]]
    if odd:
        page.fail(path, f"'{odd[0]}' does not go with '{kind}': leave one of them out")


def _range(page: Page, path: Path, value: Mapping[str, Any]) -> dict[str, Any]:
    for end in ("lo", "hi"):
        if end not in value:
            page.fail(path, f"the bound '{end}' is missing: {{ lo = 70, hi = 100 }}")
    words: dict[str, Any] = {end: page.number((*path, end), value[end]) for end in ("lo", "hi")}
    words["step"] = page.number((*path, "step"), value["step"]) if "step" in value else None
    words["round"] = page.whole((*path, "round"), value["round"], None) if "round" in value else None
    return words


def _listed(page: Page, path: Path, value: Any, what: str) -> list[Any]:
    if not isinstance(value, list):
        page.fail(path, f"a list of {what} is expected, got {shown(value)}")
    return value


def _read_choice(page: Page, path: Path, value: Mapping[str, Any], observed: bool) -> Choice:
    """Read the labels, and the properties of each, which may stand in a table beside the file."""
    labels: list[str] = []
    if "choices" in value:
        given = _listed(page, (*path, "choices"), value["choices"], 'labels, ["MeCN", "DMF"]')
        numbers = [each for each in given if isinstance(each, int | float) and not isinstance(each, bool)]
        if given and len(numbers) == len(given):
            page.fail(path, f"choices are labels in quotes; numbers are {{ levels = {shown(given)} }}")
        labels = [page.text((*path, "choices"), each, "a label") for each in given]
    properties = value.get("properties")
    if isinstance(properties, str):
        table = page.beside((*path, "properties"), properties)
        with page.at(*path, "properties"):
            known, properties = _properties(table)
        labels = labels or known
        properties = {
            name: {label: number for label, number in column.items() if label in labels}
            for name, column in properties.items()
        }
    elif properties is not None and not isinstance(properties, dict):
        example = '{ price = { MeCN = 3.1, DMF = 2.4 } } or "solvents.csv"'
        page.fail((*path, "properties"), f"properties are numbers for each label, {example}, got {shown(properties)}")
    with page.at(*path):
        return Choice(*labels, properties=properties, observed=observed)


def _properties(table: Table) -> tuple[list[str], dict[str, dict[str, float]]]:
    """Return the labels of a table's first column, and the numbers of each other column by label."""
    first, *names = table.columns
    labels = table.labels(first)
    return labels, {name: dict(zip(labels, table.column(name), strict=False)) for name in names}


def read_mixtures(page: Page, taken: Mapping[str, Any]) -> dict[str, Mixture]:
    """Read `[mixtures.NAME]`: parts that add up to a total."""
    made: dict[str, Mixture] = {}
    seen = dict.fromkeys(taken, "a variable")
    for name, value in page.table("mixtures").items():
        path = ("mixtures", name)
        if not isinstance(value, dict) or "parts" not in value:
            said = f'[mixtures.{name}] with parts = ["water", "glycol"] and total = 1'
            page.fail(path, f"a mixture has parts that add up: {said}")
        page.check_words(path, value, MIXTURE)
        parts = page.names((*path, "parts"), value["parts"])
        for part in (name, *parts):
            if part in seen:
                page.fail(path, f"'{part}' is {seen[part]} already: give it a name of its own")
        seen |= dict.fromkeys(parts, f"a part of '{name}'") | {name: "a mixture"}
        bounds = value.get("bounds", {})
        if not isinstance(bounds, dict):
            page.fail((*path, "bounds"), f"bounds stand by part, {{ salt = [0, 0.2] }}, got {shown(bounds)}")
        own = {part: read_variable(page, (*path, "bounds", part), each) for part, each in bounds.items()}
        total = page.number((*path, "total"), value.get("total", 1.0))
        unit = page.text((*path, "unit"), value["unit"], "a unit") if "unit" in value else ""
        with page.at(*path):
            made[name] = Mixture(*parts, total=total, bounds=own, unit=unit)
    return made
