"""Values with errors as people write them: `0.52 ± 0.01 (n=3)`, columns `y_sd` and `y_n`, or repetitions `y_1`, ..."""

import itertools
from typing import TYPE_CHECKING

from pied.errors import StatementError
from pied.measured import Measured, checked, not_detected, of_repetitions, parts, sided
from pied.records import GROUPS
from pied.shell.tables import to_number

if TYPE_CHECKING:
    from pied.problem import Problem
    from pied.shell.tables import Table


def read(text: str, what: str, *, comma: bool = False, lod: float | None = None) -> float:
    """Read a value, with its error if it has one, or the limit beyond which it lies: "<0.05", or "n.d."."""
    try:
        if (none := not_detected(text, lod)) is not None:
            return none
    except ValueError as reason:
        raise StatementError(f"{what}: {reason}") from None
    if (limit := sided(text)) is not None:
        return Measured(to_number(limit[0], what, comma=comma), side=limit[1])
    found = parts(text)
    if found is None:
        return to_number(text, what, comma=comma)
    value, error = (to_number(each, what, comma=comma) for each in found[:2])
    return _with_error(value, error, found[2], what)


def _with_error(value: float, error: float, count: float, what: str) -> Measured:
    try:
        return checked(value, error, count)
    except ValueError as reason:
        raise StatementError(f"{what}: {reason}") from None


def error_columns(problem: "Problem", name: str) -> tuple[str, str]:
    """Return the headings of an output's errors and counts; they must differ from all names of the problem."""
    taken = {*problem.variables, *problem.outputs, *problem.functions}
    deviation, count = (each if each not in taken else f"pied {each}" for each in (f"{name}_sd", f"{name}_n"))
    return deviation, count


def group_column(problem: "Problem", kind: str) -> str:
    """Return the heading of the column that names the block, or the campaign, of a row."""
    return kind if kind not in {*problem.variables, *problem.outputs, *problem.functions} else f"pied {kind}"


def group_columns(problem: "Problem") -> list[str]:
    """Return the headings of the columns that name blocks and campaigns."""
    return [group_column(problem, kind) for kind in GROUPS]


def columns(problem: "Problem", table: "Table") -> list[str]:
    """Return the columns of a table that say something of outputs under other names."""
    found = [
        each for name in problem.outputs for each in (*error_columns(problem, name), *_repeated(problem, table, name))
    ]
    return [each for each in (*found, *group_columns(problem)) if each in table.columns]


def _repeated(problem: "Problem", table: "Table", name: str) -> list[str]:
    """Return the columns of an output's repetitions, `y_1`, `y_2`, ...; none if it has a column of its own."""
    taken = {*problem.variables, *problem.outputs}
    names = (f"{name}_{count}" for count in itertools.count(1))
    found = list(itertools.takewhile(lambda each: each in table.columns and each not in taken, names))
    return found if len(found) > 1 and name not in table.columns else []


def row_values(table: "Table", row: int, problem: "Problem") -> dict[str, float]:
    """Return the outputs that are filled in in a row."""
    found = ((name, _value(table, row, problem, name)) for name in problem.outputs)
    return {name: value for name, value in found if value is not None}


def _value(table: "Table", row: int, problem: "Problem", name: str) -> float | None:
    """Return the value of an output in a row, with its error; None where it is empty."""
    again = [table.number(row, each) for each in _repeated(problem, table, name)]
    if values := [each for each in again if each is not None]:
        return of_repetitions(values)
    own, what = error_columns(problem, name), f"{table.place(row)}, '{name}'"
    error, count = (table.number(row, each) if each in table.columns else None for each in own)
    text = table.rows[row].get(name, "")
    if not text:
        return None
    told = read(text, what, comma=table.has_comma, lod=problem.lods.get(name))
    if error is None and count not in (None, 1.0):
        raise StatementError(
            f"{what}: '{own[1]}' counts repetitions, so '{own[0]}' is needed: their standard deviation"
        )
    if error is None:
        return told
    if isinstance(told, Measured) and told.side:
        raise StatementError(f"{what}: '{text}' is a limit, and '{own[0]}' states an error: keep one of them")
    if isinstance(told, Measured):
        raise StatementError(f"{what}: its error is in '{own[0]}' and behind ±: keep one of them")
    return _with_error(told, error, 1 if count is None else count, what)
