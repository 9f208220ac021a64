"""Questions from forms: a form as the data of a problem file, and the data of a file as a form."""

import math
import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pied.errors import StatementError
from pied.shell.statement_file import Stated, from_text
from pied.shell.tables import to_number
from pied.web.rewriting import toml_page, toml_value
from pied.writing import create

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 _.-]{0,79}")
_PART = re.compile(r"(.+?)\s+(\S+)\s*(?:\.\.|\bto\b)\s*(\S+)")
"""A part of a mixture with its range: "salt 0..0.2"."""
TABLES = ("variables", "mixtures", "outputs", "subject_to", "constants", "study")
WORDS = ("maximize", "minimize", "name", "unit", "variables", "mixtures", "outputs", "subject_to", "constants")
"""What a form says of a question; the rest of a file stays as it is."""
PICKED = ("kind", "sense", "log", "observed")
"""Fields that are picked, not typed: a row with nothing else is empty."""
AS_IT_IS = "file"
"""The kind of a row that is written as in a file, for what no field says."""

Row = Mapping[str, Any]
Path_ = tuple[str, ...]


def file_name(name: str) -> str:
    """Return the file of a new study; only names that are safe in every file system."""
    plain = name.strip().removesuffix(".toml")
    if not _NAME.fullmatch(plain) or plain.endswith((".", " ")):
        raise _at(("name",), "name the study with letters, digits, blanks, points, - and _, at most 80 of them")
    return f"{plain}.toml"


def checked(form: Row, folder: Path) -> Stated:
    """Read a form as a problem; raise the message that the shell would print of the file."""
    name = file_name(str(form.get("name") or ""))
    return from_text(folder / name, as_toml(form))


def written(file: Path, form: Row) -> None:
    """Write the problem file of a form, never over one that is there."""
    try:
        create(file, as_toml(form))
    except FileExistsError:
        raise _at(("name",), f"'{file.name}' exists already and was not changed: name another study") from None


def as_toml(form: Row) -> str:
    """Write a form as the text of a problem file: the shell and the pages then read the same question."""
    return toml_page(data_of(form), TABLES)


# ---------------------------------------------------------------------------------------------------- form to file


def data_of(form: Row) -> dict[str, Any]:
    """Return the data of a problem file.

    Args:
        form: `goals` (sense, name, formula, unit), `variables` (name, kind, lo, hi, step, round, levels, labels,
            properties, parts, total, unit, log, observed), `outputs` (name, unit, lo, hi, noise, lod, resolution),
            `limits` (name, formula, tolerance), `constants` (name, value), `seed`, `stop_at_gap`. A row of kind
            "file" has `text`, its value as in a file.
    """
    data = _goals(_rows(form, "goals", "formula"))
    rows = _rows(form, "variables", "name")
    mixtures = [row for row in rows if _said(row, "kind") == "mixture"]
    data["variables"] = {_name(row): _entry(row, "variables", _variable) for row in rows if row not in mixtures}
    if mixtures:
        data["mixtures"] = {_name(row): _entry(row, "mixtures", _mixture) for row in mixtures}
    data["outputs"] = {_name(row): _entry(row, "outputs", _output) for row in _rows(form, "outputs", "name")}
    limits, constants = _rows(form, "limits", "formula"), _rows(form, "constants", "name")
    if limits:
        data["subject_to"] = {_said(row, "name") or _said(row, "formula"): _limit(row) for row in limits}
    if constants:
        data["constants"] = {_name(row): _constant(row) for row in constants}
    study = {word: _number(form, word, ("study",)) for word in ("seed", "stop_at_gap") if _said(form, word)}
    return data | ({"study": study} if study else {})


def _said(row: Row, word: str) -> str:
    value = row.get(word)
    return "" if value is None else str(value).strip()


def _name(row: Row) -> str:
    return " ".join(_said(row, "name").split())


def _rows(form: Row, word: str, needed: str) -> list[Row]:
    """Return the rows that are not empty; refuse those without what they need, and names given twice."""
    given = form.get(word) or []
    if not isinstance(given, list) or not all(isinstance(each, Mapping) for each in given):
        raise _at((word,), "a list of rows is expected")
    rows = [
        each
        for each in given
        if any(_said(each, field) for field in each if field not in ("kind", "sense", "log", "observed"))
    ]
    for place, each in enumerate(rows):
        if not _said(each, needed) and _said(each, "kind") != AS_IT_IS:
            raise _at((word, str(place)), "give it a name" if needed == "name" else "the formula is missing")
    names = Counter(_said(each, "name") or _said(each, "formula") for each in rows)
    for name, count in names.items():
        if count > 1:
            raise _at((word, name), f"'{name}' is given twice")
    return rows


def _goals(rows: list[Row]) -> dict[str, Any]:
    """Return one objective with its name and unit, or several by their names."""
    sense = [("minimize" if row.get("sense") == "minimize" else "maximize") for row in rows]
    if len(rows) == 1:
        named = {word: _said(rows[0], word) for word in ("name", "unit") if _said(rows[0], word)}
        return {sense[0]: _said(rows[0], "formula")} | named
    data: dict[str, Any] = {}
    for row, way in zip(rows, sense, strict=True):
        if not _said(row, "name"):
            raise _at((way, _said(row, "formula")), "of several goals each has a name")
        data.setdefault(way, {})[_name(row)] = _said(row, "formula")
        if _said(row, "unit"):
            data.setdefault("unit", {})[_name(row)] = _said(row, "unit")
    return data


def _entry(row: Row, table: str, read: Any) -> Any:
    if _said(row, "kind") == AS_IT_IS:
        return _as_it_is((table, _name(row), "text"), _said(row, "text"))
    return read(row, (table, _name(row)))


def _as_it_is(path: Path_, text: str) -> Any:
    try:
        found = tomllib.loads(f"x = {text}")
    except (ValueError, RecursionError) as error:
        raise _at(path, f"this is not written as in a file, {{ lo = 1, hi = 2 }}: {error}") from None
    if found.keys() != {"x"}:
        raise _at(path, "one value is expected, on one line")
    return found["x"]


def _variable(row: Row, path: Path_) -> dict[str, Any]:
    kind = _said(row, "kind")
    if kind == "choice":
        return _choice(row, path)
    unit: dict[str, Any] = {"unit": _said(row, "unit")} if _said(row, "unit") else {}
    unit |= {word: True for word in ("log", "observed") if row.get(word)}
    if kind == "levels":
        return {"levels": _list(row, "levels", path)} | unit
    low, high = _number(row, "lo", path), _number(row, "hi", path)
    if kind == "integer":
        return {"integer": [low, high]} | unit
    fine = {word: _number(row, word, path) for word in ("step", "round") if _said(row, word)}
    return {"lo": low, "hi": high} | fine | unit


def _choice(row: Row, path: Path_) -> dict[str, Any]:
    labels = [each.strip() for each in re.split("[,;]", _said(row, "labels")) if each.strip()]
    made: dict[str, Any] = {"choices": labels} | ({"observed": True} if row.get("observed") else {})
    for each in filter(None, (part.strip() for part in _said(row, "properties").split(";"))):
        name, colon, text = (part.strip() for part in each.partition(":"))
        values = [part.strip() for part in text.split(",") if part.strip()]
        with _beside(*path, "properties"):
            if not colon or len(values) != len(labels):
                wanted = f"price: {', '.join(str(k) for k in range(1, len(labels) + 1))}"
                raise StatementError(f"a property has a number for each of the {len(labels)} labels, {wanted}")
            numbers = {label: _plain(to_number(value, name)) for label, value in zip(labels, values, strict=True)}
        made.setdefault("properties", {})[name] = numbers
    return made


def _mixture(row: Row, path: Path_) -> dict[str, Any]:
    parts, bounds = [], {}
    for each in filter(None, (part.strip() for part in re.split("[,;]", _said(row, "parts")))):
        found = _PART.fullmatch(each)
        parts.append(found[1] if found else each)
        if found:
            with _beside(*path, "parts"):
                bounds[found[1]] = [_plain(to_number(found[end], found[1])) for end in (2, 3)]
    total = {"total": _number(row, "total", path)} if _said(row, "total") else {}
    unit = {"unit": _said(row, "unit")} if _said(row, "unit") else {}
    return {"parts": parts} | total | ({"bounds": bounds} if bounds else {}) | unit


def _output(row: Row, path: Path_) -> dict[str, Any]:
    made: dict[str, Any] = {"unit": _said(row, "unit")} if _said(row, "unit") else {}
    if _said(row, "lo") or _said(row, "hi"):
        low = _number(row, "lo", path) if _said(row, "lo") else -float("inf")
        made["range"] = [low, _number(row, "hi", path) if _said(row, "hi") else float("inf")]
    return made | {word: _number(row, word, path) for word in ("noise", "lod", "resolution") if _said(row, word)}


def _limit(row: Row) -> Any:
    formula = _said(row, "formula")
    if not _said(row, "tolerance"):
        return formula
    path = ("subject_to", _said(row, "name") or formula)
    return {"formula": formula, "tolerance": _number(row, "tolerance", path)}


def _constant(row: Row) -> Any:
    path, text = ("constants", _name(row)), _said(row, "value")
    return _as_it_is((*path, "value"), text) if text.startswith(("[", "{")) else _number(row, "value", path)


def _list(row: Row, word: str, path: Path_) -> list[Any]:
    text = _said(row, word)
    with _beside(*path, word):
        parts = [part.strip() for part in text.split(";" if ";" in text else ",") if part.strip()]
        return [_plain(to_number(part, path[-1])) for part in parts]


def _number(row: Row, word: str, path: Path_) -> Any:
    with _beside(*path, word):
        if not _said(row, word):
            raise StatementError("a number is missing here")
        return _plain(to_number(_said(row, word), f"'{path[-1]}'"))


def _plain(value: float) -> int | float:
    return int(value) if value.is_integer() and abs(value) < 1e15 else value


@contextmanager
def _beside(*path: str) -> Iterator[None]:
    """Give errors the field that they are about."""
    try:
        yield
    except StatementError as error:
        raise _at(path, str(error)) from error


def _at(path: Path_, reason: str) -> StatementError:
    error = StatementError(reason)
    error.path, error.reason = path, reason
    return error


# ---------------------------------------------------------------------------------------------------- file to form


def form_of(data: Mapping[str, Any], name: str = "") -> dict[str, Any]:
    """Return the form of a file's data; what no field says is in rows of kind "file"."""
    if "candidates" in data:
        raise StatementError("the settings of this study are the rows of a table: change the table, or its file")
    outputs = data.get("outputs", {})
    outputs = {each: {} for each in outputs} if isinstance(outputs, list) else outputs
    limits = data.get("subject_to", {})
    limits = {each: each for each in limits} if isinstance(limits, list) else limits
    study, noise = data.get("study", {}), {"noise": toml_value(data["noise"])} if "noise" in data else {}
    measured = [_row("outputs", each, value, _output_row) for each, value in outputs.items()]
    return {
        "name": name,
        "goals": _goal_rows(data),
        "variables": [
            _row("variables", each, value, _variable_row) for each, value in data.get("variables", {}).items()
        ]
        + [_row("mixtures", each, value, _mixture_row) for each, value in data.get("mixtures", {}).items()],
        "outputs": [row if row.get("kind") == AS_IT_IS else noise | row for row in measured],
        "limits": [
            {"name": each, "formula": value} if isinstance(value, str) else {"name": each, **_texts(value)}
            for each, value in limits.items()
        ],
        "constants": [{"name": each, "value": toml_value(value)} for each, value in data.get("constants", {}).items()],
        **{word: str(study[word]) for word in ("seed", "stop_at_gap") if word in study},
    }


def _goal_rows(data: Mapping[str, Any]) -> list[dict[str, Any]]:
    rows, units = [], data.get("unit", "")
    for sense in ("maximize", "minimize"):
        given = data.get(sense)
        if isinstance(given, str):
            rows.append({"sense": sense, "name": data.get("name", ""), "formula": given, "unit": units})
            continue
        for name, formula in (given or {}).items():
            unit = units.get(name, "") if isinstance(units, Mapping) else ""
            rows.append({"sense": sense, "name": name, "formula": formula, "unit": unit})
    return rows


def _row(table: str, name: str, value: Any, read: Any) -> dict[str, Any]:
    """Return a row; where no fields say the same as the file, its text."""
    row = {"name": name, **read(value)}
    made = {"variables": _variable, "mixtures": _mixture, "outputs": _output}[table]
    same = {"lo": value[0], "hi": value[1]} if isinstance(value, list) and len(value) == 2 else value
    try:
        if made(row, (table, name)) == same:
            return row
    except StatementError:
        pass
    return {"name": name, "kind": AS_IT_IS, "text": toml_value(value)}


def _texts(value: Mapping[str, Any]) -> dict[str, Any]:
    return {word: each if isinstance(each, str | bool) else toml_value(each) for word, each in value.items()}


def _joined(values: Any) -> str:
    return ", ".join(each if isinstance(each, str) else toml_value(each) for each in values)


def _variable_row(value: Any) -> dict[str, Any]:
    if isinstance(value, list) and len(value) == 2:
        return {"lo": toml_value(value[0]), "hi": toml_value(value[1])}
    if not isinstance(value, Mapping):
        return {}
    if "integer" in value:
        more = {word: each for word, each in value.items() if word != "integer"}
        low, high = [*value["integer"], "", ""][:2]
        return {"kind": "integer", "lo": toml_value(low), "hi": toml_value(high), **_texts(more)}
    if "levels" in value:
        return {"kind": "levels", **_texts(value), "levels": _joined(value["levels"])}
    if "choices" in value:
        known = value.get("properties", {})
        known = known if isinstance(known, Mapping) else {}
        texts = [f"{name}: {_joined(row.values())}" for name, row in known.items() if isinstance(row, Mapping)]
        return {"kind": "choice", "labels": _joined(value["choices"]), "properties": "; ".join(texts),
                **({"observed": True} if value.get("observed") else {})}  # fmt: skip
    return _texts(value)


def _mixture_row(value: Any) -> dict[str, Any]:
    bounds = value.get("bounds", {})
    parts = [f"{part} {toml_value(bounds[part][0])}..{toml_value(bounds[part][1])}"
             if isinstance(bounds.get(part), list) else part for part in value.get("parts", [])]  # fmt: skip
    return {"kind": "mixture", **_texts(value), "parts": ", ".join(parts)}


def _output_row(value: Any) -> dict[str, Any]:
    row, ends = _texts(value), dict(zip(("lo", "hi"), value.get("range", []), strict=False))
    row.pop("range", None)
    return row | {word: toml_value(end) for word, end in ends.items() if math.isfinite(end)}


def with_form(data: Mapping[str, Any], form: Row) -> dict[str, Any]:
    """Return the data of a file with what a form changes; what it leaves as it was stays as it is written."""
    before, after = data_of(form_of(data)), data_of(form)
    made = dict(data)
    for word in WORDS:
        was, now, own = before.get(word), after.get(word), data.get(word)
        if was == now:
            continue
        if isinstance(was, Mapping) and isinstance(now, Mapping) and isinstance(own, Mapping):
            made[word] = {
                name: own[name] if name in own and was.get(name) == each else each for name, each in now.items()
            }
        elif now is None:
            made.pop(word, None)
        else:
            made[word] = now
    return made
