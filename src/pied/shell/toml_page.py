"""The text of a problem file: read as TOML, with the line of everything that is wrong in it."""

import math
import re
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from pied.errors import FormulaError, SettingError, StatementError, did_you_mean
from pied.shell.tables import Table

DEEPEST = 16
"""Levels of tables and lists, and parts of a dotted key. A problem file needs four; the memory of TOML's reader grows
with the square of them."""
SHOWN = 200
"""Characters of a value that are shown in a message."""

TOP = (
    "variables", "mixtures", "outputs", "candidates", "maximize", "minimize", "subject_to", "constants", "inputs",
    "noise", "tolerance", "name", "unit", "solver", "study", "run", "campaigns", "unknowns", "equations",
)  # fmt: skip
"""Words at the top of a file."""

_MARK = re.compile(r"""["'#\[\]{}.,=\n]""")
_BASIC_END = re.compile(r'\\.|"""', re.DOTALL)
_LINE_END = re.compile(r'\\.|["\n]', re.DOTALL)
_KEY = r"""(?:[\w-]+|"[^"]*"|'[^']*')"""
_KEYS = re.compile(_KEY)
_HEADING = re.compile(rf"\s*\[+\s*({_KEY}(?:\s*\.\s*{_KEY})*)\s*\]+\s*(?:#.*)?$")
_ENTRY = re.compile(rf"\s*({_KEY}(?:\s*\.\s*{_KEY})*)\s*=")


class Page:
    """The text of a problem file, and the place of each word in it."""

    def __init__(self, file: Path, text: str) -> None:
        self.file, self.lines = file, text.splitlines()
        _check_nesting(text, file.name)
        try:
            self.data: dict[str, Any] = tomllib.loads(text)
        except ValueError as error:  # of TOML, or a whole number of thousands of digits
            raise StatementError(
                f"{file.name} is not valid TOML: {error}; write texts in quotes, and name = value"
            ) from None
        except RecursionError:
            raise StatementError(f"{file.name} is nested too deeply to be a problem file") from None

    # ------------------------------------------------------------------------------------------------- where

    def fail(self, path: tuple[str, ...], reason: str) -> NoReturn:
        raise _about(path, reason, StatementError(f"{self.place(path)}: {reason}"))

    @contextmanager
    def at(self, *path: str) -> Iterator[None]:
        """Add the place in the file to errors raised inside, as one line."""
        try:
            yield
        except (StatementError, SettingError) as error:
            kind = FormulaError if isinstance(error, FormulaError) else StatementError
            sentence, *window = str(error).splitlines()
            shown = f" In: {window[0].strip()}" if window else ""
            raise _about(path, f"{sentence}{shown}", kind(f"{self.place(path)}: {sentence}{shown}")) from error

    def place(self, path: tuple[str, ...]) -> str:
        """Return the file, the line and the keys that lead to a value."""
        found, line = 0, 0
        table: tuple[str, ...] = ()
        for number, text in enumerate(self.lines, 1):
            heading, entry = _HEADING.match(text), _ENTRY.match(text)
            if heading:
                here = table = _keys(heading[1])
            elif entry:
                here = table + _keys(entry[1])
            else:
                continue
            if path[: len(here)] == here and len(here) > found:
                found, line = len(here), number
        words = ".".join(word if re.fullmatch(r"[\w-]+", word) else f'"{word}"' for word in path)
        return ", ".join([self.file.name, *([f"line {line}"] if line else []), *([words] if words else [])])

    def check_words(self, path: tuple[str, ...], table: Mapping[str, Any], known: tuple[str, ...]) -> None:
        """Refuse unknown keys."""
        for word in table:
            if word not in known:
                misplaced = path and word in TOP
                reason = f"there is no key '{word}' here.{did_you_mean(word, known)}"
                self.fail((*path, word), _MISPLACED.format(word) if misplaced else reason)

    def check_place(self, path: tuple[str, ...], value: Any) -> None:
        """Refuse an objective below a heading, where it would be read as a name."""
        if path[-1] in ("maximize", "minimize") and isinstance(value, str):
            self.fail(path, _MISPLACED.format(path[-1]))

    # -------------------------------------------------------------------------------------------------- what

    def table(self, word: str) -> dict[str, Any]:
        given = self.data.get(word, {})
        if not isinstance(given, dict):
            said = f"this should be a heading, [{word}], with one name = value a line"
            self.fail((word,), f"{said}, got {shown(given)}")
        return given

    def number(self, path: tuple[str, ...], value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            self.fail(path, f"a number is expected, got {shown(value)}")
        try:
            made = float(value)
        except OverflowError:
            made = math.inf
        if not math.isfinite(made):
            self.fail(path, "a finite number is expected")
        return made

    def whole(self, path: tuple[str, ...], value: Any, least: int | None, most: int | None = None) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            self.fail(path, f"a whole number is expected, got {shown(value)}")
        if not -(2**63) <= value < 2**63:
            self.fail(path, "this whole number is too large: it has at most 18 digits")
        if (least is not None and value < least) or (most is not None and value > most):
            self.fail(
                path, f"a whole number {f'from {least} to {most}' if most else f'of at least {least}'} is expected"
            )
        return value

    def text(self, path: tuple[str, ...], value: Any, what: str) -> str:
        if not isinstance(value, str) or not value.strip():
            self.fail(path, f"{what} in quotes is expected, got {shown(value)}")
        return value

    def names(self, path: tuple[str, ...], value: Any) -> list[str]:
        if not isinstance(value, list) or not value:
            self.fail(path, f'a list of names is expected, ["a", "b"], got {shown(value)}')
        return [self.text(path, each, "a name") for each in value]

    def ends(self, path: tuple[str, ...], value: Any) -> tuple[float | None, float | None]:
        """Read a range; inf is an open end."""
        if not isinstance(value, list) or len(value) != 2:
            self.fail(path, f"a range has two ends, [0, 1], with -inf or inf for an open one, got {shown(value)}")
        lo, hi = (None if each in (math.inf, -math.inf) else self.number(path, each) for each in value)
        if lo is not None and hi is not None and not lo < hi:
            self.fail(path, f"the lower end {lo:g} must be below the upper end {hi:g}")
        return lo, hi

    def command(self, value: Any) -> str | list[str]:
        if isinstance(value, list):
            return [self.text(("run", "command"), each, "every word of a command") for each in value]
        return self.text(("run", "command"), value, "a command")

    def constant(self, path: tuple[str, ...], value: Any) -> float | tuple[float, ...]:
        self.check_place(path, value)
        if isinstance(value, list):
            if not value:
                self.fail(path, "a constant is empty: give at least one number")
            return tuple(self.number(path, each) for each in value)
        if not isinstance(value, dict):
            return self.number(path, value)
        self.check_words(path, value, ("file", "column"))
        for word in ("file", "column"):
            if word not in value:
                self.fail(path, f'\'{word}\' is missing: {{ file = "measured.csv", column = "c" }}')
        table = self.beside((*path, "file"), value["file"])
        with self.at(*path):
            return tuple(table.column(self.text((*path, "column"), value["column"], "a column's name")))

    def beside(self, path: tuple[str, ...], value: Any) -> Table:
        """Read a table from the folder of the problem file or below; a file from someone else can read nothing more."""
        given = self.text(path, value, "a file's name")
        folder = self.file.resolve().parent
        try:
            file = (folder / given).resolve()
        except (OSError, ValueError, RuntimeError):
            self.fail(path, f"{shown(given)} is not a file name")
        if not file.is_relative_to(folder):
            self.fail(path, f"'{given}' lies outside of the folder of {self.file.name}: copy it there")
        with self.at(*path):
            return Table.read(file)


def _about(path: tuple[str, ...], reason: str, error: StatementError) -> StatementError:
    """Give an error the place that it is about, so that a form can show it beside the field."""
    error.path, error.reason = path, reason
    return error


def shown(value: Any) -> str:
    """Return a value as text for a message, shortened if necessary."""
    try:
        text = repr(value)
    except ValueError:  # a whole number of more digits than Python writes
        return "a number of thousands of digits"
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


def _check_nesting(text: str, file: str) -> None:
    """Refuse a text that is nested too deeply before it is parsed; TOML's reader has no limits."""
    place = depth = dots = 0
    while mark := _MARK.search(text, place):
        char, place = mark[0], mark.end()
        if char == "#":
            place = text.find("\n", place)
        elif char in "\"'":
            place = _after_string(text, mark.start())
        else:
            dots = dots + 1 if char == "." else 0
            depth += (char in "[{") - (char in "]}")
        if place < 0:  # a comment at the end, or a string that never ends, which the reader reports
            return
        if max(dots + 1, depth) > DEEPEST:
            what = "a name has" if dots >= DEEPEST else "tables and lists have"
            line = text.count("\n", 0, place) + 1
            raise StatementError(f"{file}, line {line}: this is nested too deeply, {what} more than {DEEPEST} levels")


def _after_string(text: str, start: int) -> int:
    """Return the place after a string that begins here; -1 when it does not end."""
    quote = text[start]
    is_long = text.startswith(3 * quote, start)
    place = start + (3 if is_long else 1)
    if quote == "'":
        end = text.find(3 * quote if is_long else quote, place)
        return end + (3 if is_long else 1) if end >= 0 else -1
    pattern = _BASIC_END if is_long else _LINE_END
    while found := pattern.search(text, place):
        place = found.end()
        if found[0][0] != "\\":
            return place
    return -1


_MISPLACED = "'{}' belongs to the top of the file, above the first [heading]: move the line there"


def _keys(text: str) -> tuple[str, ...]:
    return tuple(key.strip("\"'") for key in _KEYS.findall(text))
