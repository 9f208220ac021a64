"""Excel files (.xlsx) as tables, in and out; needs the extra `excel`."""

import contextlib
import datetime
import io
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.parsers import expat

from pied.errors import MissingExtra, StatementError

SUFFIX = ".xlsx"
NARROWEST, WIDEST = 10, 40
"""Columns of a sheet, in characters."""
MOST_CELLS = 300_000
"""Largest number of cells of a workbook; openpyxl takes some ten microseconds for each."""
PARTS = 3
"""Elements of XML that a cell takes: itself, its value, and its share of styles and texts."""


def is_excel(file: Path | str) -> bool:
    """Tell by its name whether a file is an Excel file."""
    return str(file).lower().endswith(SUFFIX)


def read_cells(
    content: bytes, file: str, largest: int, widest: int, sheet_name: str = ""
) -> list[tuple[int, list[str]]]:
    """Return the filled rows of a sheet as text, each with its number.

    Args:
        content: The Excel file.
        file: Its name, for messages.
        largest: Largest number of bytes, unpacked.
        widest: Largest number of cells in a row.
        sheet_name: Name of the sheet; empty: the first one.
    """
    openpyxl = _openpyxl()
    try:
        _check_size(content, file, largest, widest)
        book = openpyxl.load_workbook(io.BytesIO(content), read_only=True, data_only=True)  # values, not formulas
        names = [each.title for each in book.worksheets]
        if sheet_name and sheet_name not in names:
            raise StatementError(f"{file} has no sheet '{sheet_name}': its sheets are {', '.join(names)}")
        sheet, rows, count = book.worksheets[names.index(sheet_name) if sheet_name else 0], [], 0
        sheet.reset_dimensions()  # what a file says of its size is not always true
        for line, row in enumerate(sheet.iter_rows(values_only=True), 1):
            count += 1 + len(row)  # empty ones too: a row may have any number, a cell any letters
            if count > MOST_CELLS:
                raise _too_many(file)
            cells = [_text(value) for value in row]
            if any(cells):
                rows.append((line, cells))
    except StatementError:
        raise
    except Exception as error:  # what openpyxl raises on a damaged file is not listed anywhere
        raise StatementError(
            f"the table '{file}' cannot be read as an Excel file ({error}): save it again as .xlsx or as CSV"
        ) from error
    width = max((1 + max(place for place, cell in enumerate(cells) if cell) for _, cells in rows), default=0)
    return [(line, (cells + [""] * width)[:width]) for line, cells in rows]


def sheets_of(content: bytes) -> list[str]:
    """Return the names of the sheets of a workbook; none of one that cannot be read."""
    openpyxl = _openpyxl()
    try:
        return [each.title for each in openpyxl.load_workbook(io.BytesIO(content), read_only=True).worksheets]
    except Exception:  # what is wrong is said when its cells are read
        return []


def _too_many(file: str) -> StatementError:
    return StatementError(
        f"{file} has more than {MOST_CELLS:,} cells, all sheets together: keep the rows and columns that are needed"
    )


def _check_size(content: bytes, file: str, largest: int, widest: int) -> None:
    """Refuse a workbook that is too large before it is read: openpyxl builds a row of a million cells in memory."""
    elements = cells = width = 0

    def begin(tag: str, _: object) -> None:
        nonlocal elements, cells, width
        word = tag.rpartition(":")[2]
        elements, cells = elements + 1, cells + (word in ("c", "row"))  # an empty row takes as long as a cell
        width = 0 if word == "row" else width + (word == "c")
        if width > widest:
            raise StatementError(f"{file} has a row of more than {widest:,} cells: is it the right file?")
        if cells > MOST_CELLS or elements > PARTS * MOST_CELLS:
            raise _too_many(file)

    with zipfile.ZipFile(io.BytesIO(content)) as book:
        if sum(each.file_size for each in book.infolist()) > largest:
            raise StatementError(f"{file} has more than {largest:,} bytes unpacked: keep the sheet that is needed")
        for each in book.infolist():
            reader = expat.ParserCreate()
            reader.StartElementHandler = begin
            with book.open(each) as part, contextlib.suppress(expat.ExpatError):  # a picture, or what openpyxl refuses
                reader.ParseFile(part)


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
    if isinstance(value, datetime.datetime | datetime.date | datetime.time):
        return value.isoformat()
    return str(value).strip()


def to_excel(columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> bytes:
    """Return a table as an Excel file with a heading that stays in view; texts are never formulas."""
    openpyxl = _openpyxl()
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.title = "trials"
    bold = openpyxl.styles.Font(bold=True)
    for place, column in enumerate(columns, 1):
        _put(sheet.cell(1, place), column)
        sheet.cell(1, place).font = bold
        letter = openpyxl.utils.get_column_letter(place)
        sheet.column_dimensions[letter].width = min(max(NARROWEST, len(column) + 2), WIDEST)
    for line, row in enumerate(rows, 2):
        for place, column in enumerate(columns, 1):
            if row.get(column) is not None:
                _put(sheet.cell(line, place), row[column])
    sheet.freeze_panes = "B2"
    content = io.BytesIO()
    book.save(content)
    return content.getvalue()


def _put(cell: Any, value: Any) -> None:
    """Fill a cell with a number, or with a text that is not executed even if it begins with an equals sign."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        cell.value = value
        return
    cell.value = "".join(each if each.isprintable() else " " for each in str(value)).strip()
    cell.data_type = "s"


def _openpyxl() -> Any:
    try:
        import openpyxl
        import openpyxl.styles
        import openpyxl.utils
        import openpyxl.utils.exceptions
    except ImportError as error:
        raise MissingExtra("an Excel file", "openpyxl", "excel") from error
    return openpyxl
