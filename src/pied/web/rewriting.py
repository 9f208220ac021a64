"""Another question written into a problem file: only the entries that changed, all else stays, comments too."""

import copy
import json
import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pied.errors import StatementError
from pied.problem import Problem
from pied.records import key
from pied.shell.statement_file import from_text

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_HEADING = re.compile(r"\s*\[\s*([^\[\]]+?)\s*\]\s*(?:#.*)?$")


def toml_text(value: Any) -> str:
    """Return a text in quotes, on one line; JSON's escapes are TOML's."""
    return json.dumps(" ".join(str(value or "").split()), ensure_ascii=False).replace("\x7f", "\\u007f")


def toml_key(name: Any) -> str:
    """Return a name as a key."""
    plain = " ".join(str(name).split())
    return plain if _BARE.fullmatch(plain) else toml_text(plain)


def toml_value(value: Any) -> str:
    """Return a value as TOML on one line."""
    if isinstance(value, Mapping):
        inside = ", ".join(f"{toml_key(name)} = {toml_value(each)}" for name, each in value.items())
        return f"{{ {inside} }}" if inside else "{}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml_value, value))}]"
    if isinstance(value, bool):
        return str(value).lower()
    return repr(value) if isinstance(value, int | float) else toml_text(value)


def toml_page(data: Mapping[str, Any], tables: Iterable[str]) -> str:
    """Return data as a file: plain entries first, then those that are tables under their headings."""
    lines = [f"{toml_key(name)} = {toml_value(each)}" for name, each in data.items() if name not in tables]
    for name in tables:
        if name in data:
            lines += ["", f"[{name}]", *(f"{toml_key(word)} = {toml_value(each)}" for word, each in data[name].items())]
    return "\n".join(lines) + "\n"


class _Entry(NamedTuple):
    """An entry of a file: its heading, its name, and its lines."""

    table: str
    name: str
    start: int
    end: int


def _entries(lines: list[str]) -> list[_Entry]:
    found, table, place = [], "", 0
    while place < len(lines):
        heading = _HEADING.match(lines[place])
        if heading:
            table = heading[1].strip("\"'")
        if heading or not lines[place].strip() or lines[place].lstrip().startswith("#"):
            place += 1
            continue
        end = place + 1
        while end < len(lines) and _parsed(lines[place:end]) is None:
            end += 1
        found += [_Entry(table, name, place, end) for name in _parsed(lines[place:end]) or {}]
        place = end
    return found


def _parsed(lines: list[str]) -> dict[str, Any] | None:
    try:
        return tomllib.loads("\n".join(lines))
    except ValueError:
        return None


def _comment(lines: list[str]) -> str:
    """Return the comment behind an entry of one line."""
    whole = _parsed(lines)
    places = [match.start() for match in re.finditer("#", lines[0])] if len(lines) == 1 else []
    return next((f"  {lines[0][place:]}" for place in places if _parsed([lines[0][:place]]) == whole), "")


def edited(text: str, new: Mapping[str, Any], file: str) -> str:
    """Return the text of a file with other data; refuse what is written so that its place is not clear.

    Raises:
        StatementError: If the file has to be changed by hand.
    """
    old, lines = tomllib.loads(text), text.splitlines()
    headings = {found[1].strip("\"'") for line in lines if (found := _HEADING.match(line))}
    for name in dict.fromkeys([*old, *new]):
        was, now = old.get(name), new.get(name)
        if name not in headings and (was is not None or not isinstance(now, Mapping)):
            lines = lines if was == now else _changed(lines, "", name, now)
            continue
        was, now = was or {}, now or {}
        for word in {**was, **now}:
            if was.get(word) != now.get(word):
                lines = _changed(lines, name, word, now.get(word))
    page = "\n".join(lines) + "\n"
    if _filled(_parsed([page])) != _filled(new):
        raise StatementError(f"{file} cannot be changed from here: write the new question into it yourself")
    return page


def _filled(data: Mapping[str, Any] | None) -> Any:
    return data and {name: each for name, each in data.items() if each != {}}


def _changed(lines: list[str], table: str, name: str, value: Any) -> list[str]:
    """Return the lines with another value of one entry; None removes it."""
    found = _entries(lines)
    made = [] if value is None else [f"{toml_key(name)} = {toml_value(value)}"]
    for entry in found:
        if (entry.table, entry.name) == (table, name):
            comment = _comment(lines[entry.start : entry.end])
            return [*lines[: entry.start], *(f"{line}{comment}" for line in made), *lines[entry.end :]]
    inside = [entry.end for entry in found if entry.table == table]
    if inside or not table:
        place = max(inside, default=0)
        return [*lines[:place], *made, *lines[place:]]
    heads = [found and found[1].strip("\"'") == table for found in map(_HEADING.match, lines)]
    if True not in heads:
        return [*lines, "", f"[{table}]", *made]
    place = heads.index(True) + 1
    return [*lines[:place], *made, *lines[place:]]


def revised(file: Path, text: str, old: Problem, new: Problem) -> str:
    """Return the text of a problem file with the constants and limits of another question; refuse what is not clear."""
    data = copy.deepcopy(tomllib.loads(text))
    for name, value in new.constants.items():
        if isinstance(value, float) and value != old.constants.get(name):
            data.setdefault("constants", {})[name] = value
    before, after = (each.statement()["subject_to"] for each in (old, new))
    texts = {was["formula"]: now["formula"] for was, now in zip(before, after, strict=True)
             if was.get("formula") != now.get("formula")}  # fmt: skip
    data["subject_to"] = _replaced(data.get("subject_to", {}), texts)
    page = edited(text, data, file.name)
    if key(from_text(file, page).problem.statement()) != key(new.statement()):
        raise StatementError(f"{file.name} cannot be changed from here: write the new numbers into it yourself")
    return page


def _replaced(value: Any, texts: Mapping[str, str]) -> Any:
    if isinstance(value, Mapping):
        return {name: _replaced(each, texts) for name, each in value.items()}
    if isinstance(value, list):
        return [_replaced(each, texts) for each in value]
    return texts.get(value, value) if isinstance(value, str) else value
