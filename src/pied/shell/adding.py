"""The command `pied add`: old data from tables, also from our own exports."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from pied.shell.options import anyway, of_a_study, worker
from pied.shell.speech import note, say, say_json

if TYPE_CHECKING:
    from pied.problem import Problem
    from pied.records import Trial
    from pied.shell.tables import Table

COUNTED = ("told", "partial")
"""States of the rows of an export that are data; the others have no values, or values that no longer count."""

Rows = list[tuple[dict[str, float], dict[str, float]]]
"""Points and values."""


@click.command()
@of_a_study
@worker
@click.argument("table")
@anyway
@click.option("--again", is_flag=True, help="Add rows that are there already: they were measured again.")
@click.option("--ignore", multiple=True, metavar="COLUMN", help="A column without meaning here, in spite of its name.")
def add(
    file: str,
    store: str | None,
    as_json: bool,
    worker: str | None,
    table: str,
    anyway: bool,
    again: bool,
    ignore: tuple[str, ...],
) -> None:
    """Add old data: a table (CSV or Excel) with a column for each variable and for the outputs that are known.

    Rows that are in the record already are passed over, so adding a longer table again is fine; with --again they are
    repetitions. An export of pied can be added, too.
    """
    from pied.shell.frame import former
    from pied.shell.laboratory import by_present_names, pass_over, trial_column
    from pied.shell.opening import me, opened
    from pied.shell.statement_file import read as statement_of
    from pied.shell.tables import Table

    stated = statement_of(file)
    problem, read = stated.problem, by_present_names(Table.read(Path(table)), former(stated, store))
    pass_over(
        read, list(problem.variables), problem, *_own_columns(problem, read), trial_column(problem), ignored=ignore
    )
    rows = _rows(problem, read, anyway)  # all rows are checked before a study is created
    with opened(file, store, worker=worker or me(), stated=stated) as desk:
        study = desk.study
        fresh = rows if again else _fresh(problem, study.trials, rows)
        numbers = [study.add(x, y, anyway=True, again=True).number for x, y in fresh]
        known = len(rows) - len(fresh)
        if as_json:
            say_json({"added": numbers, "known": known})
            return
        said = f"{len(fresh)} row{'s' * (len(fresh) != 1)} added"
        if known:
            said += f"; {known} {'was' if known == 1 else 'were'} already there"
        say(said)
        if known and not fresh:
            say(f"If they were measured again with the same outcome: {desk.hint('add', table, '--again')}")


def _own_columns(problem: "Problem", table: "Table") -> list[str]:
    """Return the columns of an export that are neither variables nor outputs; none if the table is no export."""
    from pied.shell.answers import own_columns

    own = own_columns(problem)
    if not {own["trial"], own["state"], own["aim"]} <= set(table.columns):
        return []
    return [*own.values(), *problem.functions]


def _rows(problem: "Problem", table: "Table", anyway: bool) -> Rows:
    """Return the points and values of a table; of an export, those that count."""
    from pied.errors import StatementError, TellError
    from pied.shell.answers import own_columns
    from pied.shell.laboratory import row_values
    from pied.study import told_values

    is_export, state = bool(_own_columns(problem, table)), own_columns(problem)["state"]
    rows: Rows = []
    left_out = 0
    for row in range(len(table.rows)):
        if is_export and table.rows[row][state] not in COUNTED:
            left_out += 1
            continue
        x, y = row_values(table, row, problem.variables), row_values(table, row, problem.outputs)
        try:
            point = problem.point(x)
            if not y:
                raise StatementError("no output is filled in")
            told_values(problem, y, anyway=anyway)
        except (StatementError, TellError) as error:
            raise StatementError(f"{table.place(row)}: {error}") from error
        rows.append((dict(problem.named_x(point)), y))
    if left_out:
        note(f"{table.file}: left out {left_out} row{'s' * (left_out != 1)} without results that count")
    return rows


def _fresh(problem: "Problem", trials: "tuple[Trial, ...]", rows: Rows) -> Rows:
    """Return the rows that are not in the record yet; a row that the table has twice must be there twice."""
    from pied.study import same_rows

    matched: set[int] = set()
    fresh = []
    for x, y in rows:
        known = [trial.number for trial in same_rows(problem, trials, x, y) if trial.number not in matched]
        if known:
            matched.add(known[0])
        else:
            fresh.append((x, y))
    return fresh
