"""Questions from forms: a new problem file, and another constant or limit in an existing one."""

import json
import math
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pied.errors import StatementError
from pied.problem import Problem
from pied.records import key
from pied.shell.statement_file import Stated, from_text
from pied.shell.tables import text_of, to_number
from pied.writing import create

LARGEST = 1_000_000
"""Bytes of a problem file."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 _.-]{0,79}")
_BARE = re.compile(r"[A-Za-z0-9_-]+")


def file_name(name: str) -> str:
    """Return the file of a new study; only names that are safe in every file system."""
    plain = name.strip().removesuffix(".toml")
    if not _NAME.fullmatch(plain) or plain.endswith((".", " ")):
        raise _at(("name",), "name the study with letters, digits, blanks, points, - and _, at most 80 of them")
    return f"{plain}.toml"


def as_toml(form: Mapping[str, Any]) -> str:
    """Write a form as the text of a problem file: the shell and the pages then read the same question.

    Args:
        form: `sense`, `objective`, `called`, `unit`, and lists `variables` (name, kind, lo, hi, labels, unit, log),
            `outputs` (name, unit, noise, lo, hi), `limits` (name, formula), `constants` (name, value); `seed`.
    """
    sense = "minimize" if form.get("sense") == "minimize" else "maximize"
    lines = []
    if str(form.get("objective") or "").strip():
        lines.append(f"{sense} = {_text(form['objective'])}")
    lines += [f"{word} = {_text(form[given])}" for word, given in (("name", "called"), ("unit", "unit"))
              if str(form.get(given) or "").strip()]  # fmt: skip
    lines += ["", "[variables]"] + [_variable(each) for each in _rows(form, "variables")]
    lines += ["", "[outputs]"] + [_output(each) for each in _rows(form, "outputs")]
    limits, constants = _rows(form, "limits"), _rows(form, "constants")
    if limits:
        lines += ["", "[subject_to]"]
        lines += [f"{_key(each.get('name') or each.get('formula'))} = {_text(each.get('formula'))}" for each in limits]
    if constants:
        lines += ["", "[constants]"]
        lines += [f"{_key(each['name'])} = {_number(each, 'value', ('constants', each['name']))}" for each in constants]
    if str(form.get("seed") or "").strip():
        lines += ["", "[study]", f"seed = {int(to_number(str(form['seed']), 'seed'))}"]
    return "\n".join(lines) + "\n"


def checked(form: Mapping[str, Any], folder: Path) -> Stated:
    """Read a form as a problem; raise the message that the shell would print of the file."""
    name = file_name(str(form.get("name") or ""))
    return from_text(folder / name, as_toml(form))


def written(file: Path, form: Mapping[str, Any]) -> None:
    """Write the problem file of a form, never over one that is there."""
    try:
        create(file, as_toml(form))
    except FileExistsError:
        raise _at(("name",), f"'{file.name}' exists already and was not changed: name another study") from None


def _rows(form: Mapping[str, Any], word: str) -> list[Mapping[str, Any]]:
    given = form.get(word) or []
    if not isinstance(given, list) or not all(isinstance(each, Mapping) for each in given):
        raise _at((word,), "a list of rows is expected")
    rows = [each for each in given if any(str(value or "").strip() for value in each.values())]
    for place, each in enumerate(rows):
        if not str(each.get("name") or (word == "limits" and each.get("formula")) or "").strip():
            raise _at((word, str(place)), "give it a name")
    names = Counter(str(each.get("name") or each.get("formula")).strip() for each in rows)
    for name, count in names.items():
        if count > 1:
            raise _at((word, name), f"'{name}' is given twice")
    return rows


def _variable(row: Mapping[str, Any]) -> str:
    name, path = str(row["name"]).strip(), ("variables", str(row["name"]).strip())
    if row.get("kind") == "choice":
        labels = [each.strip() for each in str(row.get("labels") or "").split(",") if each.strip()]
        return f"{_key(name)} = {{ choices = [{', '.join(map(_text, labels))}] }}"
    low, high = _number(row, "lo", path), _number(row, "hi", path)
    unit = f", unit = {_text(row['unit'])}" if str(row.get("unit") or "").strip() else ""
    if row.get("kind") == "integer":
        return f"{_key(name)} = {{ integer = [{_whole(low)}, {_whole(high)}]{unit} }}"
    return f"{_key(name)} = {{ lo = {low}, hi = {high}{', log = true' * bool(row.get('log'))}{unit} }}"


def _output(row: Mapping[str, Any]) -> str:
    name = str(row["name"]).strip()
    path = ("outputs", name)
    parts = [f"unit = {_text(row['unit'])}"] if str(row.get("unit") or "").strip() else []
    ends = [str(row.get(end) if row.get(end) is not None else "").strip() for end in ("lo", "hi")]
    if any(ends):
        low = _number(row, "lo", path) if ends[0] else "-inf"
        high = _number(row, "hi", path) if ends[1] else "inf"
        parts.append(f"range = [{low}, {high}]")
    if str(row.get("noise") if row.get("noise") is not None else "").strip():
        parts.append(f"noise = {_number(row, 'noise', path)}")
    return f"{_key(name)} = {{ {', '.join(parts)} }}" if parts else f"{_key(name)} = {{}}"


def _number(row: Mapping[str, Any], word: str, path: tuple[str, ...]) -> str:
    try:
        return repr(to_number(str(row.get(word) if row.get(word) is not None else ""), f"'{path[-1]}'"))
    except StatementError as error:
        raise _at(path, str(error)) from error


def _whole(number: str) -> str:
    value = float(number)
    return str(int(value)) if math.isfinite(value) and value.is_integer() else number


def _text(value: Any) -> str:
    """Return a text in quotes; JSON's escapes are TOML's."""
    return json.dumps(" ".join(str(value or "").split()), ensure_ascii=False).replace("\x7f", "\\u007f")


def _key(name: Any) -> str:
    plain = " ".join(str(name).split())
    return plain if _BARE.fullmatch(plain) else _text(plain)


def _at(path: tuple[str, ...], reason: str) -> StatementError:
    error = StatementError(reason)
    error.path, error.reason = path, reason
    return error


# ----------------------------------------------------------------------------------------------------- another question


def rewritten(file: Path, old: Problem, new: Problem) -> str:
    """Return the text of a problem file with the constants and limits of another question; refuse what is not clear.

    The text is read again and must mean exactly the other question, so a file that is written in an unusual way is
    left alone.
    """
    text = text_of(file, "problem file", LARGEST)
    for name, value in new.constants.items():
        if isinstance(value, float) and value != old.constants.get(name):
            text = _constant_replaced(text, name, value)
    before, after = (each.statement()["subject_to"] for each in (old, new))
    for was, now in zip(before, after, strict=True):
        if was.get("formula") != now.get("formula"):
            for quote in ('"', "'"):
                text = text.replace(f"{quote}{was['formula']}{quote}", f"{quote}{now['formula']}{quote}")
    try:
        is_meant = key(from_text(file, text).problem.statement()) == key(new.statement())
    except StatementError:
        is_meant = False
    if not is_meant:
        raise StatementError(f"{file.name} cannot be changed from here: write the new numbers into it yourself")
    return text


def _constant_replaced(text: str, name: str, value: float) -> str:
    """Replace the number of a constant under its heading."""
    heading = re.search(r"^\s*\[constants\][^\n]*\n", text, re.MULTILINE)
    if heading is None:
        return text
    end = re.search(r"^\s*\[", text[heading.end() :], re.MULTILINE)
    stop = heading.end() + end.start() if end else len(text)
    quoted = rf"(?:{re.escape(name)}|\"{re.escape(name)}\"|'{re.escape(name)}')"
    entry = re.compile(rf"^(\s*{quoted}\s*=\s*)[-+0-9._eE]+", re.MULTILINE)
    part = entry.sub(lambda match: f"{match[1]}{value!r}", text[heading.end() : stop], count=1)
    return text[: heading.end()] + part + text[stop:]
