"""The command `pied add`: old data from tables, also from our own exports."""

import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from pied.records import annotate
from pied.shell.options import anyway, of_a_study, worker
from pied.shell.speech import Mistake, note, say, say_json

if TYPE_CHECKING:
    from pied.problem import Problem
    from pied.shell.opening import Desk
    from pied.shell.statement_file import Stated
    from pied.shell.tables import Table

COUNTED = ("told", "partial")
"""States of the rows of an export that are data; the others have no values, or values that no longer count."""


class Row(NamedTuple):
    """A row of a table that is to be added."""

    line: int
    """Its place in the table."""
    x: dict[str, Any]
    """The point, all variables."""
    y: dict[str, float]
    """The outputs that are filled in."""
    block: str = ""
    campaign: str = ""


@click.command()
@of_a_study
@worker
@click.argument("table", required=False)
@anyway
@click.option("--again", is_flag=True, help="Add rows that are there already: they were measured again.")
@click.option(
    "--block", default="", metavar="NAME", help="A column that names the block of each row, or one block of all."
)
@click.option(
    "--campaign",
    default="",
    metavar="NAME",
    help="An earlier campaign or other equipment: a column that names it, or the one that all rows are of.",
)
@click.option("--sheet", default="", metavar="NAME", help="The sheet of a workbook; by default the first.")
@click.option("--ignore", multiple=True, metavar="COLUMN", help="A column without meaning here, in spite of its name.")
@click.option(
    "--map", "words", multiple=True, metavar="HEADING=NAME", help="What a heading or a label means; repeat it."
)
@click.option("--yes", is_flag=True, help="The table is read as was proposed.")
def add(
    file: str,
    store: str | None,
    as_json: bool,
    worker: str | None,
    table: str | None,
    anyway: bool,
    again: bool,
    block: str,
    campaign: str,
    sheet: str,
    ignore: tuple[str, ...],
    words: tuple[str, ...],
    yes: bool,
) -> None:
    """Add old data: a table (CSV or Excel) with a column for each variable and for the outputs that are known.

    Rows that are in the record already are passed over, so adding a longer table again is fine; with --again they are
    repetitions. Rows far outside of the ranges of the variables are left out, unless --anyway. An export of pied can be
    added, too. Without TABLE, the tables of [campaigns] in FILE are added. A table with other headings, units or
    labels, or with title rows, is shown as it is understood and added once that was confirmed.
    """
    from pied.shell.excel import is_excel, sheets_of
    from pied.shell.opening import me
    from pied.shell.pages import hint
    from pied.shell.proposal import read_maps
    from pied.shell.statement_file import read
    from pied.shell.tables import LARGEST, content_of

    stated = read(file)
    named = [(Path(table), campaign)] if table else [(place, name) for name, place in stated.campaigns.items()]
    if not named:
        raise Mistake(f"name a table: {hint('add', file, 'old.xlsx', store=store)}, or state [campaigns] in {file}")
    more = [word for each in words for word in ("--map", shlex.quote(each))]
    more += [word for each in ignore for word in ("--ignore", shlex.quote(each))]
    more += ["--block", shlex.quote(block)] if block else []
    more += ["--campaign", shlex.quote(campaign)] if campaign else []
    more += ["--sheet", shlex.quote(sheet)] if sheet else []

    def confirm(said: str) -> bool:
        if sys.stdin.isatty() and not as_json:
            return click.confirm(f"{said}\nIs that right?", default=False)
        for line in said.splitlines():
            note(line)
        place = [table] if table else []
        raise Mistake(
            f"nothing was added yet. If that is right: {hint('add', file, *place, *more, '--yes', store=store)}"
        )

    own = Reading(read_maps(words), confirm=(lambda _: True) if yes else confirm, sheet=sheet)
    made = []
    for place, name in named:
        content = content_of(place, "table", LARGEST)
        sheets = sheets_of(content) if is_excel(place) and not sheet else []
        if sheets[1:]:
            note(f"the sheet '{sheets[0]}' is read; others, with --sheet: {', '.join(sheets[1:])}")
        done = added_as(
            file, store, worker or me(), content, place.name, stated, own, anyway=anyway, again=again, block=block,
            campaign=name, ignore=ignore,
        )  # fmt: skip
        made.append(done)
        if as_json:
            continue
        say(done.said if table else f"{name}: {done.said}")
        if done.known and not done.numbers and not done.left_out:
            again_hint = hint("add", file, *([table] if table else []), "--again", store=store)
            say(f"If they were measured again with the same outcome: {again_hint}")
    if as_json:
        say_json(made[0].data if table else {name: each.data for (_, name), each in zip(named, made, strict=True)})


class Reading(NamedTuple):
    """How a table of a laboratory is to be read."""

    maps: dict[str, str]
    """What headings and labels mean, as far as that was said."""
    confirm: Callable[[str], bool]
    """Asks whether what was understood is right."""
    sheet: str = ""
    """The sheet of a workbook; empty: the first one."""


class Added(NamedTuple):
    """What became of the rows of a table."""

    numbers: list[int]
    """Numbers of the new trials."""
    known: int
    """Rows that were there already."""
    left_out: list[int]
    """Lines far outside of the ranges."""

    @property
    def data(self) -> dict[str, Any]:
        """As data for JSON."""
        return {"added": self.numbers, "known": self.known} | ({"left_out": self.left_out} if self.left_out else {})

    @property
    def said(self) -> str:
        """As a line."""
        text = f"{len(self.numbers)} row{'s' * (len(self.numbers) != 1)} added"
        if self.known:
            text += f"; {self.known} {'was' if self.known == 1 else 'were'} already there"
        if self.left_out:
            text += f"; {len(self.left_out)} {'was' if len(self.left_out) == 1 else 'were'} left out"
        return text


def added_as(
    file: str,
    store: str | None,
    worker: str,
    content: bytes,
    name: str,
    stated: "Stated",
    reading: Reading,
    *,
    anyway: bool = False,
    again: bool = False,
    block: str = "",
    campaign: str = "",
    ignore: Sequence[str] = (),
) -> Added:
    """Add the content of a file as `added` does; one that is written otherwise as it is understood, once confirmed.

    What was confirmed is kept with the study and not asked again.
    """
    from pied.errors import StatementError
    from pied.shell.frame import kept_maps
    from pied.shell.opening import opened
    from pied.shell.proposal import proposed
    from pied.shell.tables import Table

    words: dict[str, Any] = {"anyway": anyway, "again": again, "groups": (block, campaign), "ignore": ignore}
    plain: Table | None = None
    reason: StatementError | None = None
    if not reading.maps:
        try:
            plain = Table.of(content, name, reading.sheet)
            return added(file, store, worker, plain, stated, **words)
        except StatementError as error:
            reason = error
    kept = kept_maps(stated, store)
    found = proposed(
        content,
        name,
        stated.problem,
        {**kept, **reading.maps},
        ignore,
        keep=[each for each in (block, campaign) if each],
        sheet=reading.sheet,
    )
    if found is None or (reason is not None and plain is not None and found.says_no_more(plain)):
        raise reason or StatementError(f"{name} has no table with columns for {', '.join(stated.problem.variables)}")
    if found.missing:
        for line in found.said.splitlines():
            note(line)
        raise Mistake(f"nothing was added. Still to be said: {'; '.join(found.missing)}")
    new = {word: meant for word, meant in found.maps.items() if kept.get(word) != meant}
    if not new and not found.doubts:
        for line in found.lines:
            note(f"{name}: {line}")
    elif not reading.confirm(found.said):
        raise Mistake("nothing was added: say with --map 'HEADING=NAME' and --ignore COLUMN what is meant")
    done = added(file, store, worker, found.table, stated, **words)
    if new:
        with opened(file, store, worker=worker, stated=stated) as desk:
            text = ", ".join(f"'{word}' means {meant}" for word, meant in new.items())
            annotate(desk.record, 0, f"{name}: {text}", worker=worker, data={"map": new})
    return done


def added(
    file: str,
    store: str | None,
    worker: str,
    table: "Table",
    stated: "Stated",
    *,
    anyway: bool = False,
    again: bool = False,
    groups: tuple[str, str] = ("", ""),
    ignore: Sequence[str] = (),
) -> Added:
    """Add the rows of a table to the study of a file; all of them are checked before anything is written.

    Args:
        file: As the user named it.
        store: As the user named it; None for the one beside the file.
        worker: Who adds.
        table: What was read of a CSV or Excel file.
        stated: What the file of the study says.
        anyway: Whether values outside of their ranges are right.
        again: Whether rows that are there already were measured again.
        groups: A column that names the block of each row, or one block of all rows; the same of campaigns.
        ignore: Columns without meaning here.
    """
    from pied.shell.frame import former, is_recorded
    from pied.shell.opening import opened
    from pied.shell.readings import columns
    from pied.shell.sheets import by_present_names, pass_over, trial_column
    from pied.study import remark

    table.check_rows()
    problem, read = stated.problem, by_present_names(table, former(stated, store))
    own = (*_own_columns(problem, read), trial_column(problem), *columns(problem, read))
    own += tuple(each for each in groups if each in read.columns)
    pass_over(read, list(problem.variables), problem, *own, ignored=ignore)
    rows, left_out = _rows(problem, read, anyway, groups)  # all rows are checked before a study is created
    if left_out and not rows and not is_recorded(stated, store):
        raise Mistake(" ".join(left_out.values()))
    with opened(file, store, worker=worker, stated=stated) as desk:
        outside = left_out if again else _unknown(desk, read, left_out)
        new = desk.study.add_all([(row.x, row.y, row.block, row.campaign) for row in rows], anyway=True, again=again)
    for place in new:
        if said := remark(problem, rows[place].x):
            note(f"{read.place(rows[place].line)}: {said}")
    for said in outside.values():
        note(f"left out: {said}")
    known = len(rows) - len(new) + len(left_out) - len(outside)
    if outside and not new and not known:
        raise Mistake("no row was added")
    return Added([trial.number for trial in new.values()], known, [read.lines[line] for line in outside])


def _unknown(desk: "Desk", table: "Table", left_out: dict[int, str]) -> dict[int, str]:
    """Return the rows far outside of the ranges that are not in the record: ranges may have been narrowed since."""
    from pied.shell.readings import row_values
    from pied.shell.sheets import row_settings
    from pied.study import same_rows

    problem = desk.stated.problem
    rows = [(row_settings(table, line, problem), row_values(table, line, problem)) for line in left_out]
    known = same_rows(problem, desk.study.trials, rows)
    return {line: said for place, (line, said) in enumerate(left_out.items()) if place not in known}


def _own_columns(problem: "Problem", table: "Table") -> list[str]:
    """Return the columns of an export that are neither variables nor outputs; none if the table is no export."""
    from pied.shell.answers import own_columns

    own = own_columns(problem)
    if not {own["trial"], own["state"], own["aim"]} <= set(table.columns):
        return []
    return [*own.values(), *problem.functions]


def _rows(
    problem: "Problem", table: "Table", anyway: bool, groups: tuple[str, str] = ("", "")
) -> tuple[list[Row], dict[int, str]]:
    """Return the rows of a table, of an export those that count; also why some are left out, by their place."""
    from pied.errors import StatementError, TellError
    from pied.shell.answers import own_columns
    from pied.shell.readings import group_columns, row_values
    from pied.shell.sheets import row_settings
    from pied.study import added_point, told_values

    named = list(zip(groups, group_columns(problem), strict=True))
    is_export, state = bool(_own_columns(problem, table)), own_columns(problem)["state"]
    rows: list[Row] = []
    far: dict[int, str] = {}
    without = 0
    values: list[dict[str, float]] = []
    for line in range(len(table.rows)):
        if is_export and table.rows[line][state] not in COUNTED:
            without += 1
            continue
        x, y = row_settings(table, line, problem), row_values(table, line, problem)
        values.append(y)
        try:
            point = added_point(problem, x, anyway=True)
            if not y:
                raise StatementError("no output is filled in")
            told_values(problem, y, anyway=anyway, others=values)
        except (StatementError, TellError) as error:
            raise StatementError(f"{table.place(line)}: {error}") from error
        try:
            added_point(problem, x, anyway=anyway)
        except StatementError as error:
            far[line] = f"{table.place(line)}: {error}."
            continue
        cells = table.rows[line]
        own = (cells[said] if said in table.columns else cells.get(column) or said for said, column in named)
        rows.append(Row(line, point, y, *own))
    if without:
        note(f"{table.file}: left out {without} row{'s' * (without != 1)} without results that count")
    return rows, far
