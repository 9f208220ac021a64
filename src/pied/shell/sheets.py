"""Run sheets that were filled in: what they tell of each trial."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from pied.shell.speech import note

if TYPE_CHECKING:
    from pied.problem import Problem
    from pied.shell.opening import Desk
    from pied.shell.tables import Table

ROUNDED = 1e-4
"""Relative to the variable's range: a set point in a table that differs by less is the proposed one, rounded."""


class Told(NamedTuple):
    """What is told of a trial."""

    place: str
    """In a table, for messages."""
    number: int
    values: dict[str, float]
    at: dict[str, Any]
    """What was set otherwise."""
    block: str = ""
    campaign: str = ""


def from_sheet(desk: "Desk", table: "Table", anyway: bool) -> list[Told]:
    """Read a run sheet completely before anything is told."""
    from pied.errors import StatementError
    from pied.records import former_names
    from pied.shell.readings import columns, group_columns, row_values
    from pied.study import run_point

    table.check_rows()
    problem, told = desk.stated.problem, list[Told]()
    names = former_names(desk.record.events(), (*problem.variables, *problem.outputs))
    table, own = by_present_names(table, names), trial_column(problem)
    remarks = [name for name in [remark_column(problem)] if name in table.columns]
    pass_over(table, [own], problem, own, *remarks, *columns(problem, table))
    trials = {trial.number: trial for trial in desk.study.trials}
    for row in range(len(table.rows)):
        values = row_values(table, row, problem)
        if not values:
            continue
        number, place = table.number(row, own), f"{table.place(row)}: "
        if number is None or int(number) != number or int(number) not in trials:
            raise StatementError(f"{place}there is no trial {table.rows[row][own]!r}")
        trial = trials[int(number)]
        at = {}
        for name, value in row_settings(table, row, problem).items():
            known = (trial.x[name], (trial.proposed or trial.x)[name])
            if not any(_is_same(problem, name, value, each) for each in known):
                at[name] = value
        try:
            run_point(problem, trial.x, at, anyway=anyway)
        except StatementError as error:
            raise StatementError(f"{place}{error}") from error
        groups = (table.rows[row].get(column, "") for column in group_columns(problem))
        told.append(Told(place, trial.number, values, at, *groups))
    return told


def _is_same(problem: "Problem", name: str, given: Any, proposed: Any) -> bool:
    """Tell whether a setting in a table is the proposed one, rounded."""
    if problem.variables[name].is_choice:
        return bool(given == proposed)
    width = problem.variables[name].hi - problem.variables[name].lo
    return bool(abs(given - proposed) <= ROUNDED * width)


def trial_column(problem: "Problem") -> str:
    """Return the heading of the column of trial numbers; it must differ from all names of the problem."""
    return "trial" if "trial" not in {*problem.variables, *problem.outputs} else "pied trial"


def remark_column(problem: "Problem") -> str:
    """Return the heading of the column that calls repetitions so; it must differ from all names of the problem."""
    return "remark" if "remark" not in {*problem.variables, *problem.outputs} else "pied remark"


def row_settings(table: "Table", row: int, problem: "Problem") -> dict[str, Any]:
    """Return the settings of a row: labels as text, others as numbers."""
    found: dict[str, Any] = {}
    for name, each in problem.variables.items():
        if name in table.columns:
            value = table.label(row, name) if each.is_choice else table.number(row, name)
            found |= {name: value} if value is not None else {}
    return found


def by_present_names(table: "Table", names: Mapping[str, str]) -> "Table":
    """Return a table with the present names in its heading, and say which columns have a former one."""
    made = table.renamed(names)
    for old, new in zip(table.columns, made.columns, strict=True):
        if old != new:
            note(f"{table.file}: the column '{old}' is read as '{new}', as it is called now")
    return made


def pass_over(table: "Table", needed: list[str], problem: "Problem", *own: str, ignored: Sequence[str] = ()) -> None:
    """Check the columns, and report the unused ones."""
    others = table.check_columns(needed, [*problem.variables, *problem.outputs], own, ignored)
    if others:
        note(f"{table.file}: ignored columns: {', '.join(others)}")
