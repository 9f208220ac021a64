"""Tables as laboratories keep them: CSV with commas, semicolons or tabs, decimal points or commas, or Excel files."""

import csv
import io
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pied.errors import StatementError, closest, did_you_mean
from pied.shell.excel import is_excel, read_cells

LARGEST = 50_000_000
"""Largest size of a table in bytes; a larger file is a mistake, since experiments number in the tens."""
MOST_COLUMNS = 10_000
"""Largest number of columns; variables and outputs together are fewer."""
MOST_CELLS = 2_000_000
"""Largest number of cells; each takes at least a hundred bytes of memory."""
MOST_ROWS = 10_000
"""Largest number of experiments that are added or told at once."""
FEWEST = 6
"""Smallest number of digits that are printed."""
EXACT = 1e-6
"""Largest rounding error of a printed set point, relative to its range: a hundredth of what is accepted on reading."""
SHORTEST_PART = 3
"""Characters of a name that another one may begin with, so that both are taken to mean the same."""
SEPARATORS = ",;\t"
RISKY = ("=", "+", "-", "@")
"""First characters of texts that a spreadsheet would execute as a formula."""

_SEPARATOR = re.compile(r"sep=([,;\t])\r?\n", re.IGNORECASE)
"""The first line by which Excel is told how columns are separated."""
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]+")


@dataclass(frozen=True)
class Table:
    """The rows of a CSV or Excel file, by the names of their columns."""

    file: str
    """For messages."""
    columns: tuple[str, ...]
    rows: tuple[Mapping[str, str], ...]
    lines: tuple[int, ...]
    """Line of each row in the file."""
    has_comma: bool
    """Whether 0,5 means one half, which requires another column separator."""

    @classmethod
    def read(cls, file: Path) -> "Table":
        """Read a CSV or Excel file (its first sheet) with a heading; empty lines are ignored.

        Raises:
            StatementError: If the file does not exist or is not a table.
        """
        return cls.of(content_of(file, "table", LARGEST), file.name)

    @classmethod
    def of(cls, content: bytes, file: str, sheet: str = "") -> "Table":
        """Read the content of a CSV or Excel file, which its name tells apart; of the latter a sheet, or the first."""
        if is_excel(file):
            return cls._of(read_cells(content, file, LARGEST, MOST_COLUMNS, sheet), file, has_comma=True)
        return cls.parse(decoded(content, "table", file, ("utf-16", "cp1252")), file)

    @classmethod
    def parse(cls, text: str, file: str) -> "Table":
        """Read the text of a CSV file."""
        heading = next((line for line in text.splitlines() if line.strip()), "")
        named = _SEPARATOR.match(text)
        separator = named[1] if named else max(SEPARATORS, key=heading.count)
        text = f"\n{text[named.end() :]}" if named else text
        _check_size(text, separator, file)
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
        found: list[tuple[int, list[str]]] = []
        try:
            for cells in reader:
                if any(cell.strip() for cell in cells):
                    found.append((reader.line_num, [cell.strip() for cell in cells]))
        except csv.Error as error:
            raise StatementError(f"{file}, line {reader.line_num}: this is not a table ({error})") from error
        return cls._of(found, file, has_comma=separator != ",")

    @classmethod
    def _of(cls, found: list[tuple[int, list[str]]], file: str, *, has_comma: bool) -> "Table":
        """Check the heading and the lengths of the rows."""
        if not found:
            raise StatementError(f"{file} is empty: its first line should name the columns")
        columns = found[0][1]
        counts = Counter(columns)
        for column in columns:
            if not column or counts[column] > 1:
                said = f"two columns are called '{column}'" if column else "a column has no name"
                raise StatementError(f"{file}, line {found[0][0]}: {said}; give each a name of its own")
        for line, cells in found[1:]:
            if len(cells) != len(columns):
                advice = "; write decimals with a point, 0.5" if not has_comma and len(cells) > len(columns) else ""
                advice = "; is it a table? Its first line should name the columns" if len(columns) == 1 else advice
                raise StatementError(f"{file}, line {line}: {len(cells)} cells for {len(columns)} columns{advice}")
        rows = tuple(dict(zip(columns, cells, strict=True)) for _, cells in found[1:])
        return cls(file, tuple(columns), rows, tuple(line for line, _ in found[1:]), has_comma)

    def renamed(self, names: Mapping[str, str]) -> "Table":
        """Return the table with other headings; one whose new name is a column already keeps its own."""
        new = {old: now for old, now in names.items() if old in self.columns and now not in self.columns}
        rows = tuple({new.get(name, name): cell for name, cell in row.items()} for row in self.rows)
        return replace(self, columns=tuple(new.get(name, name) for name in self.columns), rows=rows)

    def check_rows(self) -> None:
        """Refuse more experiments than are added or told at once."""
        if len(self.rows) > MOST_ROWS:
            raise StatementError(
                f"{self.file} has {len(self.rows):,} rows; at most {MOST_ROWS:,} are taken at once: is it the right "
                "file?"
            )

    def place(self, row: int) -> str:
        """Return the place of a row, for messages."""
        return f"{self.file}, line {self.lines[row]}"

    def number(self, row: int, column: str) -> float | None:
        """Return the number of a cell; None when it is empty."""
        text = self.rows[row][column]
        return to_number(text, f"{self.place(row)}, '{column}'", comma=self.has_comma) if text else None

    def column(self, name: str) -> list[float]:
        """Return the numbers of a column; it may be shorter than others but must not have gaps."""
        if name not in self.columns:
            raise StatementError(f"{self.file} has no column '{name}'.{did_you_mean(name, self.columns)}")
        values = [self.number(row, name) for row in range(len(self.rows))]
        while values and values[-1] is None:
            values.pop()
        if not values:
            raise StatementError(f"{self.file}: the column '{name}' has no numbers")
        for row, value in enumerate(values):
            if value is None:
                raise StatementError(f"{self.place(row)}: '{name}' is empty; every row up to the last needs a number")
        return [value for value in values if value is not None]

    def labels(self, name: str) -> list[str]:
        """Return the texts of a column; it must not have gaps."""
        if name not in self.columns:
            raise StatementError(f"{self.file} has no column '{name}'.{did_you_mean(name, self.columns)}")
        for row, cells in enumerate(self.rows):
            if not cells[name]:
                raise StatementError(f"{self.place(row)}: '{name}' is empty; every row needs a label")
        return [self.label(row, name) or "" for row in range(len(self.rows))]

    def label(self, row: int, column: str) -> str | None:
        """Return the text of a cell, without the apostrophe that protects it in a spreadsheet; None when empty."""
        text = self.rows[row][column]
        return (text[1:] if text.startswith("'") and text[1:].startswith(RISKY) else text) or None

    def is_text(self, name: str) -> bool:
        """Tell whether a column has cells and none of them is a number."""
        cells = [row[name] for row in self.rows if row.get(name)]
        return bool(cells) and not any(is_number(cell, comma=self.has_comma) for cell in cells)

    def check_columns(
        self, needed: Sequence[str], known: Sequence[str], own: Sequence[str] = (), ignored: Sequence[str] = ()
    ) -> list[str]:
        """Refuse a table with missing or misspelled columns; return the ignored columns.

        Args:
            needed: Columns that must be there.
            known: All columns with data; a column with a similar name is doubted.
            own: Further columns that pied writes itself.
            ignored: Columns that the user has named as having none.
        """
        missing = [name for name in needed if name not in self.columns]
        if missing:
            near = did_you_mean(missing[0], [each for each in self.columns if each not in (*own, *known)])
            raise StatementError(f"{self.file} has no column '{missing[0]}', which is needed.{near}")
        absent = [name for name in known if name not in self.columns]
        others = [name for name in self.columns if name not in (*own, *known)]
        for name in (each for each in others if each not in ignored):
            meant = _meant(name, absent)
            if meant is not None:
                raise StatementError(
                    f"{self.file}: '{name}' is neither a variable nor an output. Did you mean '{meant}'? Then rename "
                    f"the column; if not, leave it out: --ignore '{name}'."
                )
        return others


def _meant(name: str, known: Sequence[str]) -> str | None:
    """Return the name that a heading probably means: the same but for case, marks and a unit, or a similar one."""
    plain = _plain(name)
    for each in known:
        if plain and (plain == _plain(each) or (len(_plain(each)) >= SHORTEST_PART and plain.startswith(_plain(each)))):
            return each
    near = did_you_mean(name, known)
    return near.split("'")[1] if near.startswith(" Did") else None


def _plain(name: str) -> str:
    """Return the letters and digits of a name, without a unit in brackets."""
    return re.sub(r"[\W_]", "", re.sub(r"[(\[].*", "", name)).casefold()


def _check_size(text: str, separator: str, file: str) -> None:
    """Refuse a table with too many columns or cells before it is parsed."""
    if text.count(separator) + text.count("\n") > MOST_CELLS:
        raise StatementError(f"{file} has more than {MOST_CELLS:,} cells: keep the rows and columns that are needed")
    for line, row in enumerate(text.splitlines(), 1):
        if row.count(separator) >= MOST_COLUMNS:
            raise StatementError(f"{file}, line {line}: more than {MOST_COLUMNS:,} columns; is it the right file?")


def text_of(file: Path, what: str, largest: int) -> str:
    """Return the text of a file; if that fails, raise an error with the reason.

    Args:
        file: The file.
        what: What it is, for messages.
        largest: Its largest size in bytes.
    """
    return decoded(content_of(file, what, largest), what, str(file))


def content_of(file: Path, what: str, largest: int) -> bytes:
    """Return the bytes of a file."""
    _check_file(file, what, largest)
    try:
        return file.read_bytes()
    except OSError as error:
        raise StatementError(f"the {what} '{file}' cannot be read: {error.strerror}") from None


def decoded(raw: bytes, what: str, file: str, others: Sequence[str] = ()) -> str:
    """Return bytes as text.

    Args:
        raw: The bytes.
        what: What they are, for messages.
        file: Its name, for messages.
        others: Encodings besides UTF-8: "utf-16" where the file says so, and one for all others.
    """
    is_wide = "utf-16" in others and raw[:2] in (b"\xff\xfe", b"\xfe\xff")
    for encoding in ["utf-16"] if is_wide else ["utf-8-sig", *(each for each in others if each != "utf-16")]:
        try:
            text = raw.decode(encoding)
        except UnicodeDecodeError:
            continue
        if encoding == "utf-8-sig" or "\x00" not in text:
            return text
    raise StatementError(f"the {what} '{file}' is not UTF-8 text: save it again as plain text, UTF-8")


def near_file(file: Path, ending: str) -> str:
    """Return ' Did you mean ...?' if the folder of a file that is missing has one of a similar name."""
    with suppress(OSError, ValueError):
        names = [each.name for each in file.parent.iterdir() if each.suffix.lower() == ending.lower()]
        meant = file.name + ending if file.name + ending in names else closest(file.name, names)
        return "" if meant is None else f" Did you mean '{file.with_name(meant)}'?"
    return ""


def _check_file(file: Path, what: str, largest: int) -> None:
    """Refuse what is not a plain file of a sensible size."""
    try:
        size = file.stat().st_size if file.is_file() else None
        if size is None and not file.exists():
            raise StatementError(f"there is no {what} '{file}'.{near_file(file, file.suffix)}".rstrip("."))
    except OSError as error:
        raise StatementError(f"the {what} '{file}' cannot be read: {error.strerror}") from None
    if size is None or size > largest:
        said = "is not a plain file" if size is None else f"has more than {largest} bytes"
        raise StatementError(f"the {what} '{file}' {said}: is it the right one?")


def to_number(text: str, what: str, *, comma: bool = False) -> float:
    """Read one finite number as people write it."""
    plain = text.strip().replace("−", "-")
    if comma and plain.count(",") == 1 and "." not in plain:
        plain = plain.replace(",", ".")
    if "," in plain:
        raise StatementError(f"{what}: write '{text}' with a decimal point and no other separators, 1234.5")
    try:
        value = float(plain) if "_" not in plain else math.nan
    except ValueError:
        raise StatementError(
            f"{what}: '{text}' is not a number: write it like 0.78, without % or a unit, or leave it out"
        ) from None
    if not math.isfinite(value):
        raise StatementError(f"{what}: '{text}' is not a finite number: leave it out")
    return value


def is_number(text: str, *, comma: bool) -> bool:
    try:
        to_number(text, "", comma=comma)
    except StatementError:
        return False
    return True


def shortest(value: float, width: float) -> float:
    """Return a number with as few digits, six or more, as identify a set point in a range of this width."""
    for digits in range(FEWEST, 17):
        short = float(f"{value:.{digits}g}")
        if abs(short - value) <= EXACT * width:
            return short
    return value


def to_csv(columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> str:
    """Write a table; an apostrophe protects texts that a spreadsheet would execute as a formula."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([_cell(column) for column in columns])
    for row in rows:
        writer.writerow([_cell(row.get(column)) for column in columns])
    return out.getvalue()


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return repr(value).removesuffix(".0")
    text = _CONTROL.sub(" ", str(value)).strip()
    return f"'{text}" if text.startswith(RISKY) else text
