"""Where tables are on a sheet: title rows above a heading, empty columns beside it, two tables below each other."""

import csv
import io
import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from pied.shell.excel import is_excel, read_cells
from pied.shell.tables import LARGEST, MOST_COLUMNS, SEPARATORS, decoded

Cells = list[tuple[int, list[str]]]
"""Rows that are not empty, each with its line in the file."""


class Part(NamedTuple):
    """One table on a sheet."""

    line: int
    """Of its heading."""
    heading: list[str]
    places: list[int]
    """Columns of the sheet."""
    rows: Cells
    left: list[int]
    """Lines below an empty one that are filled in less than all others: sums and remarks."""


def cells_of(content: bytes, file: str, sheet: str = "") -> Cells:
    """Return the rows of a CSV or Excel file as they are, whatever its first line is."""
    if is_excel(file):
        return read_cells(content, file, LARGEST, MOST_COLUMNS, sheet)
    text = decoded(content, "table", file, ("utf-16", "cp1252"))
    lines = text.splitlines()
    counts = {each: sum(each in line for line in lines) for each in SEPARATORS}
    separator = next((each for each in ";\t" if counts[each] > len(lines) / 2), ",")
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    return [(reader.line_num, [cell.strip() for cell in row]) for row in reader if any(cell.strip() for cell in row)]


def parts_of(cells: Cells, known: Callable[[str], bool], wanted: int) -> list[Part]:
    """Return the tables of a sheet: below a row, or a part of one between empty cells, of which enough is known.

    Args:
        cells: The sheet.
        known: Whether a heading means something.
        wanted: How many known headings make a table.
    """
    found: list[Part] = []
    for place, (line, row) in enumerate(cells):
        for places in _runs(row, known, wanted):
            heading = [" ".join(row[column].split()) for column in places]
            found.append(Part(line, heading, places, *_below(cells[place + 1 :], line, places, known, wanted)))
    return [part for part in found if part.rows]


def _runs(row: Sequence[str], known: Callable[[str], bool], wanted: int) -> list[list[int]]:
    """Return the columns of each heading in a row: of its parts between empty cells, or of all of it."""
    runs: list[list[int]] = [[]]
    for column, cell in enumerate(row):
        if cell.strip():
            runs[-1].append(column)
        elif runs[-1]:
            runs.append([])
    fine = [run for run in runs if sum(known(row[column]) for column in run) >= wanted]
    whole = [column for run in runs for column in run]
    return fine or ([whole] if sum(known(row[column]) for column in whole) >= wanted else [])


def _below(
    cells: Cells, line: int, places: list[int], known: Callable[[str], bool], wanted: int
) -> tuple[Cells, list[int]]:
    """Return the rows of a table, in its columns: up to the heading of another one; and the lines that are left out."""
    found, left, last, fewest = Cells(), list[int](), line, len(places)
    for at, row in cells:
        own = [row[column] if column < len(row) else "" for column in places]
        filled = sum(map(bool, own))
        if sum(known(cell) for cell in own) >= wanted or (not found and at > line + 2):
            break
        if found and filled and (left or at > last + 1) and filled < fewest:
            left.append(at)
        elif (found and filled) or _has_number(own):  # a line of units below the heading is none of data
            found.append((at, own))
            fewest = min(fewest, filled)
        last = at
    return found, left


def _has_number(cells: Sequence[str]) -> bool:
    return any(re.match(r"\s*[<>±+\-−]?\s*\d", cell) for cell in cells)
