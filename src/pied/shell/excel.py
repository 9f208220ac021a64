"""Excel files (.xlsx) as tables, in and out; needs the extra `excel`."""

import datetime
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pied.errors import MissingExtra, StatementError

SUFFIX = ".xlsx"
NARROWEST, WIDEST = 10, 40
"""Columns of a sheet, in characters."""


def is_excel(file: Path) -> bool:
    """Tell by its name whether a file is an Excel file."""
    return file.suffix.lower() == SUFFIX


def read_cells(file: Path, most: int) -> list[tuple[int, list[str]]]:
    """Return the filled rows of the first sheet as text, each with its number.

    Args:
        file: The file.
        most: Largest number of cells.
    """
    book = _opened(file)
    found: list[tuple[int, list[str]]] = []
    count = 0
    try:
        for line, row in enumerate(book.worksheets[0].iter_rows(values_only=True), 1):
            count += len(row)
            if count > most:
                raise StatementError(f"{file.name} has more than {most:,} cells: keep the rows and columns needed")
            cells = [_text(value) for value in row]
            if any(cells):
                found.append((line, cells))
    finally:
        book.close()
    width = max((1 + max(place for place, cell in enumerate(cells) if cell) for _, cells in found), default=0)
    return [(line, (cells + [""] * width)[:width]) for line, cells in found]


def _opened(file: Path) -> Any:
    """Open a workbook for reading: values, not formulas."""
    openpyxl = _openpyxl()
    try:
        return openpyxl.load_workbook(file, read_only=True, data_only=True)
    except (zipfile.BadZipFile, KeyError, ValueError, OSError, openpyxl.utils.exceptions.InvalidFileException) as error:
        raise StatementError(
            f"the table '{file}' cannot be read as an Excel file ({error}): save it again as .xlsx or as CSV"
        ) from None


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


def write_cells(file: Path, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> None:
    """Write a table as an Excel file with a heading that stays in view; texts are never formulas."""
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
    try:
        book.save(file)
    except OSError as error:
        raise StatementError(f"'{file}' cannot be written: {error.strerror or error}") from None


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
