"""How a table from a laboratory is understood: which column means what, in which unit, and what is in doubt.

Everything is looked at before anything is said, and everything is said at once: what was understood, each doubt, and
what is missing. What a person has confirmed is kept with the study and not asked again.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pied.errors import StatementError, closest
from pied.shell import layout, units
from pied.shell.readings import error_columns, group_columns
from pied.shell.tables import Table, is_number

if TYPE_CHECKING:
    from pied.problem import Problem

SHORTEST = 3
"""Characters that two names must share at their beginning to mean the same."""
EMPTY = frozenset({"-", "–", "—", "n/a", "na", "n.m.", "nan", "none", "null", "?", "k.a.", "missing"})
"""What stands for a value that was not measured."""
NONE_FOUND = frozenset({"n.d.", "n.d", "nd", "n.n.", "n.n", "not detected", "bdl"})
_UNIT = re.compile(r"(?P<name>.*?)\s*(?:[\[(]\s*(?P<inside>[^\])]*)\s*[\])]|(?:/|,|\bin\b)\s*(?P<behind>\S+))\s*$")
_WITH_UNIT = re.compile(r"(?P<number>[<>]?\s*[-+−]?\d[\d.,eE+-]*)\s*(?P<unit>[^\d\s±(].*)")


@dataclass
class Proposal:
    """How a table is understood."""

    table: Table
    """With the names of the problem as headings, and values in its units."""
    maps: dict[str, str]
    """What headings and labels mean that are not written as the problem has them; kept once confirmed."""
    lines: list[str] = field(default_factory=list)
    """What was understood."""
    doubts: list[str] = field(default_factory=list)
    """What is in doubt."""
    missing: list[str] = field(default_factory=list)
    """Why the table cannot be taken as it is."""

    def says_no_more(self, plain: Table) -> bool:
        """Whether a table that was read as it is written says the same."""
        own = [{name: row.get(name, "") for name in self.table.columns} for row in plain.rows]
        return not self.maps and own == [dict(row) for row in self.table.rows]

    @property
    def said(self) -> str:
        """All of it as text."""
        doubts = ["In doubt:", *(f"  {each}" for each in self.doubts)] if self.doubts else []
        return "\n".join([f"{self.table.file} is read like this:", *(f"  {each}" for each in self.lines), *doubts])


def proposed(
    content: bytes,
    file: str,
    problem: "Problem",
    maps: Mapping[str, str],
    ignored: Sequence[str] = (),
    keep: Sequence[str] = (),
    sheet: str = "",
) -> Proposal | None:
    """Return how the content of a file is understood; None if no table with these variables is in it.

    Args:
        content: The file.
        file: Its name.
        problem: The statement.
        maps: What headings and labels are said to mean, an empty text: nothing.
        ignored: Headings without meaning.
        keep: Headings of further columns that are wanted as they are.
        sheet: Name of the sheet of a workbook; empty: the first one.
    """
    reader = _Reader(problem, keep, {_folded(word): name for word, name in maps.items()}, {*map(_folded, ignored)})
    cells = layout.cells_of(content, file, sheet)
    parts = layout.parts_of(cells, lambda heading: reader.meant(heading) is not None, max(1, len(problem.variables)))
    parts = parts or layout.parts_of(cells, lambda h: reader.meant(h) is not None, max(2, len(problem.variables) - 1))
    if not parts:
        return None
    lines = list[str]()
    first = min(line for line, _ in cells)
    if above := parts[0].line - first:
        lines.append(f"the heading is in line {parts[0].line}; {above} line{'s' * (above > 1)} above it are left out")
    if len(parts) > 1:
        spans = [f"{each.rows[0][0]} to {each.rows[-1][0]}" for each in parts]
        lines.append(f"{len(parts)} tables, lines {' and '.join(spans)}: all of them are read")
    found = [reader.read(part) for part in parts]
    if left := [line for part in parts for line in part.left]:
        reader.doubts.append(
            f"left out below an empty line, because less is filled in: line {', '.join(map(str, left))}"
        )
    rows = tuple(row for each in found for row in each)
    columns = tuple(dict.fromkeys(name for row in rows for name in row))
    numbers = tuple(line for part in parts for line, _ in part.rows)
    if same := sum(count - 1 for count in Counter(tuple(sorted(row.items())) for row in rows).values()):
        reader.doubts.append(
            f"{same} row{'s are' if same > 1 else ' is'} identical to another one: kept as repetitions"
        )
    made = Table(file, columns, rows, numbers, True)
    absent = [name for name in problem.variables if name not in columns]
    reader.missing += [f"no column means '{name}': --map 'HEADING={name}'" for name in absent]
    lines += [f"{len(rows)} rows", *reader.lines]
    return Proposal(made, reader.maps, lines, [*dict.fromkeys(reader.doubts)], [*dict.fromkeys(reader.missing)])


class _Reader:
    """Reads the parts of one file, and remembers what was understood."""

    def __init__(self, problem: "Problem", keep: Sequence[str], maps: Mapping[str, str], ignored: set[str]) -> None:
        self.problem, self.given, self.ignored = problem, maps, ignored
        self.maps: dict[str, str] = {}
        self.lines: list[str] = []
        self.doubts: list[str] = []
        self.missing: list[str] = []
        names = (*problem.variables, *problem.outputs)
        own = [each for name in problem.outputs for each in error_columns(problem, name)]
        self.exact = {_folded(each): each for each in (*names, *own, *group_columns(problem), *keep)}
        self.keep = keep
        self.names = names

    def meant(self, heading: str) -> str | None:
        """Return the name that a heading means; None if none does."""
        whole = _folded(heading)
        if whole in self.ignored or not whole:
            return None
        if whole in self.given:
            return self.exact.get(_folded(self.given[whole]))
        if whole in self.exact:
            return self.exact[whole]
        name, _ = _split(heading)
        if _folded(name) in self.given:
            return self.exact.get(_folded(self.given[_folded(name)]))
        plain = _plain(name)
        same = [each for each in self.names if _plain(each) == plain]
        alike = [each for each in self.names if _begins(_plain(each), plain)]
        if same or len(alike) == 1:
            return (same or alike)[0]
        return closest(plain, self.names) if not alike and len(plain) > SHORTEST else None

    def read(self, part: layout.Part) -> list[dict[str, str]]:
        """Return the rows of a part by the names of the problem."""
        places: dict[str, int] = {}
        left = []
        for place, heading in enumerate(part.heading):
            name = self.meant(heading)
            if name is None:
                left.append(heading)
            elif name in places and _folded(part.heading[places[name]]) != _folded(name):
                self.missing.append(
                    f"'{part.heading[places[name]]}' and '{heading}' both mean '{name}': --ignore one of them"
                )
            elif name not in places:
                places[name] = place
        if left:
            self._once(self.lines, f"ignored columns: {', '.join(left)}")
        columns = {name: self._column(part, name, place) for name, place in places.items()}
        return [{name: column[row] for name, column in columns.items()} for row in range(len(part.rows))]

    def _column(self, part: layout.Part, name: str, place: int) -> list[str]:
        """Return the cells of a column as the problem has them."""
        heading, cells = part.heading[place], [row[place] for _, row in part.rows]
        if heading != name:
            self.maps[heading] = name
        if name in self.keep or name in group_columns(self.problem):
            return cells
        box = self.problem.variables.get(name)
        if box is not None and box.is_choice:
            self._once(self.lines, f"'{heading}' is {name}") if heading != name else None
            return [self._label(name, cell) for cell in self._filled(name, cells, part)]
        unit = self._unit_of(name)
        given = _split(heading)[1]
        change = self._change(heading, given, name, unit)
        if box is not None:
            cells = self._filled(name, cells, part)
        return [self._value(name, cell, given or unit, change, part.rows[row][0]) for row, cell in enumerate(cells)]

    def _unit_of(self, name: str) -> str:
        """Return the unit of a variable or an output, or of the output whose error a column has."""
        if name in self.problem.variables:
            return self.problem.variables[name].unit
        stem = next((each for each in self.problem.outputs if name == error_columns(self.problem, each)[0]), name)
        return self.problem.units.get(stem, "")

    def _change(self, heading: str, given: str, name: str, unit: str) -> tuple[float, float]:
        """Return how values of a column are converted."""
        as_name = f"'{heading}' is {name}"
        if not given or units.are_same(given, unit):
            if heading != name:
                self._once(self.lines, as_name)
            return 1.0, 0.0
        if not unit:
            self._once(self.lines, as_name)
            self._once(
                self.doubts, f"'{heading}' has the unit {given}, and the problem states none for {name}: taken as it is"
            )
            return 1.0, 0.0
        change = units.converter(given, unit)
        if change is None:
            self._once(self.lines, as_name)
            self._once(
                self.missing, f"'{heading}' is in {given}, {name} in {unit}, and no conversion is known: convert it"
            )
            return 1.0, 0.0
        if name in error_columns(self.problem, name) or name not in self.names:
            change = change[0], 0.0  # of an error
        self._once(self.lines, f"{as_name}, converted from {given} to {unit}")
        return change

    def _value(self, name: str, cell: str, unit: str, change: tuple[float, float], line: int) -> str:
        """Return the text of a value in the unit of the problem."""
        cell = cell.strip()
        if cell.casefold() in EMPTY:
            self._once(self.doubts, f"'{cell}' is read as not measured ({name})")
            return ""
        if cell.casefold() in NONE_FOUND and name not in self.problem.lods:
            self._once(self.doubts, f"'{cell}' of {name} is left out, because no limit of detection (lod) is stated")
            return ""
        if (found := _WITH_UNIT.fullmatch(cell)) is not None and not is_number(cell, comma=True):
            own = units.converter(found["unit"], self._unit_of(name) or unit)
            if own is not None or units.are_same(found["unit"], unit):
                change = change if units.are_same(found["unit"], unit) else own or change
                cell = found["number"].strip()
        if re.fullmatch(r"\d{1,3},\d{3}", cell):
            self._once(self.doubts, f"line {line}: '{cell}' of {name} is read with a decimal comma")
        if change == (1.0, 0.0) or not cell:
            return cell
        return re.sub(r"[-+−]?\d[\d.,]*(?:[eE][-+]?\d+)?", lambda each: _converted(each[0], change), cell, count=1)

    def _label(self, name: str, cell: str) -> str:
        """Return the label of a choice that a cell means."""
        labels = list(getattr(self.problem.variables[name], "labels", ()))
        if cell in labels or not cell:
            return cell
        wanted = self.given.get(_folded(cell), cell)
        same = [each for each in labels if _plain(each) == _plain(wanted)]
        begins = [each for each in labels if _begins(_plain(each), _plain(wanted))]
        near = (
            (same or begins)[:1] if same or len(begins) == 1 else [each for each in [closest(wanted, labels)] if each]
        )
        if not near:
            listed = ", ".join(labels[:6])
            self._once(self.missing, f"'{cell}' is no label of {name} ({listed}): --map '{cell}=LABEL'")
            return cell
        self.maps[cell] = near[0]
        self._once(self.lines, f"'{cell}' is the label {near[0]} of {name}")
        return near[0]

    def _filled(self, name: str, cells: list[str], part: layout.Part) -> list[str]:
        """Return the cells of a variable with those of merged cells below the first one."""
        made, lines = list(cells), []
        for row in range(1, len(made)):
            if not made[row] and made[row - 1]:
                made[row] = made[row - 1]
                lines.append(part.rows[row][0])
        if lines:
            where = f"line {lines[0]}" if len(lines) == 1 else f"{len(lines)} lines from {lines[0]} on"
            self._once(self.doubts, f"{name} is empty in {where}: taken from the cell above, as of merged cells")
        return made

    @staticmethod
    def _once(where: list[str], text: str) -> None:
        if text not in where:
            where.append(text)


def _converted(text: str, change: tuple[float, float]) -> str:
    number = text.replace("−", "-")
    number = number.replace(",", ".") if number.count(",") == 1 and "." not in number else number
    try:
        return repr(float(f"{float(number) * change[0] + change[1]:.12g}"))
    except ValueError:
        return text


def _split(heading: str) -> tuple[str, str]:
    """Return the name and the unit of a heading, "Temp. (°C)" or "Time / min"."""
    found = _UNIT.fullmatch(heading.strip())
    if found is None:
        return heading.strip(), ""
    unit = (found["inside"] or found["behind"] or "").strip()
    is_unit = found["inside"] is not None or units.read(unit) is not None
    return (found["name"].strip(), unit) if is_unit and found["name"].strip() else (heading.strip(), "")


def _folded(text: str) -> str:
    return " ".join(text.split()).casefold()


def _plain(text: str) -> str:
    return re.sub(r"[\W_]", "", text).casefold()


def _begins(one: str, other: str) -> bool:
    return min(len(one), len(other)) >= SHORTEST and (one.startswith(other) or other.startswith(one))


def read_maps(words: Sequence[str]) -> dict[str, str]:
    """Read HEADING=NAME words."""
    found = {}
    for word in words:
        heading, sign, name = word.rpartition("=")
        if not sign or not heading.strip() or not name.strip():
            raise StatementError(f"--map takes HEADING=NAME, for instance --map 'Temp. (°C)=temperature', got '{word}'")
        found[heading.strip()] = name.strip()
    return found
