"""The commands `pied status`, `result`, `revise` and `export`."""

import dataclasses
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pied.measured import Measured, is_known, is_sided, shown
from pied.shell.laboratory import free_name, given_of, write
from pied.shell.options import given, of_a_study, worker
from pied.shell.speech import INFEASIBLE, INTERRUPTED, NOTHING, Mistake, note, pair, say, say_json, working

if TYPE_CHECKING:
    from pied.problem import Problem
    from pied.records import Row
    from pied.shell.opening import Desk
    from pied.study import Result

DERIVED, TOLD = 6, 10
"""Significant digits in a table, of what is computed and of what was told, which keeps all that a person wrote."""
RULES = ("anywhere", "observed", "lower", "asked")


def exit_code(result: "Result") -> int:
    """Return the exit code of an answer: 0 if the point meets the constraints, as far as is known."""
    from pied.errors import Status

    if result.status is Status.INTERRUPTED:
        return INTERRUPTED
    if result.status is Status.INFEASIBLE:
        return INFEASIBLE
    return 0 if result.x is not None and result.is_feasible else NOTHING


# ------------------------------------------------------------------------------------------------------------- status


@click.command()
@of_a_study
def status(file: str, store: str | None, as_json: bool) -> None:
    """Show how the study stands: what is told, open, failed."""
    from pied.shell.opening import opened

    with opened(file, store, read_only=True) as desk:
        data = status_data(desk)
        if as_json:
            say_json(data)
        else:
            _say_status(desk, data)


def status_data(desk: "Desk") -> dict[str, Any]:
    """Return how a study stands, as data for JSON."""
    from pied.address import masked
    from pied.records import State
    from pied.shell.pages import missing

    study, problem = desk.study, desk.study.problem
    rows = {row.number: row for row in desk.record.changes(0)[1]}
    trials = study.trials
    states = [trial.state for trial in trials if not trial.is_added]
    counts = {state.value: states.count(state) for state in State}
    sure = study.snapshot.confirmations
    open_trials = [
        {"trial": each.number, "x": dict(each.x), "missing": missing(problem, each), **_lease(rows[each.number])}
        for each in trials
        if not each.is_added and each.state in (State.ASKED, State.PARTIAL)
    ]
    return {
        "study": desk.stated.name,
        "store": masked(desk.store or str(desk.stated.store)),
        "seed": study.seed,
        "solver": desk.record.about.solver["name"],
        "question": len(study.questions),
        "status": study.status.name,
        "message": study.status.value,
        "trials": counts | {"added": sum(trial.is_added for trial in trials)},
        "open": open_trials,
        "failed": [
            {"trial": t.number, "reason": t.reason, "not_the_settings": t.not_the_settings}
            for t in trials
            if t.state is State.FAILED
        ],
        "withdrawn": [{"trial": t.number, "reason": t.reason} for t in trials if t.state is State.WITHDRAWN],
        "initial": study.initial,
        "confirmations": [sure, study.snapshot.needed if sure else None],
    }


def _lease(row: "Row") -> dict[str, Any]:
    return {"worker": row.worker, "since": row.leased, "until": row.expires}


def _say_status(desk: "Desk", data: dict[str, Any]) -> None:
    from pied.shell.pages import trial_lines
    from pied.study import counted

    counts = data["trials"]
    asked = sum(counts.values()) - counts["added"]
    question = f", question {data['question']}" if data["question"] > 1 else ""
    say(f"study '{data['study']}' in {data['store']}: solver {data['solver']}, seed {data['seed']}{question}")
    say(f"{data['message']} {counted(desk.study.trials)}.")
    if asked and asked < data["initial"] - counts["added"]:
        say(f"The first {data['initial']} points are spread over the ranges; after them each one is chosen.")
    if data["status"] != "INFEASIBLE" and (doubt := desk.study.snapshot.doubt):
        say(f"No settings are known to meet all limits{doubt}.")
    leases = {each["trial"]: each for each in data["open"]}
    for line in trial_lines(desk.study.problem, desk.study.trials, leases):
        say(line)


# ------------------------------------------------------------------------------------------------------------- result


@click.command()
@of_a_study
@click.option("--rule", type=click.Choice(RULES), help="Which point is recommended; by default as the noise demands.")
@click.option(
    "--pick",
    "wishes",
    multiple=True,
    is_flag=False,
    flag_value="",
    metavar="[NAME=VALUE]",
    help="Of several objectives, one point of the front: as good as this at least; alone, the balanced one.",
)
@click.option("--block", default="", metavar="NAME", help="For what this block reads; by default an average one.")
@click.option("--more", is_flag=True, help="Say how many more measurements it may take, and where most is open.")
@given
def result(
    file: str,
    store: str | None,
    as_json: bool,
    rule: str | None,
    wishes: tuple[str, ...],
    block: str,
    more: bool,
    given: tuple[str, ...],
) -> None:
    """Recommend a point, with bounds, slacks and probabilities.

    With several objectives it is the front; --pick profit=120 shows the one point of it that is best in the other
    objectives among those with a profit of at least 120 (at most, where it is minimized), --pick alone the balanced
    one. Exit code 3 while no point is known to meet the constraints, 4 when none can.
    """
    from pied.shell.opening import opened
    from pied.shell.pages import result_lines

    with opened(file, store, read_only=True) as desk:
        picked = _read_wishes(desk.stated.problem, wishes) if wishes else None
        with working("The result"):
            found = desk.study.result(rule, given=given_of(desk.stated.problem, given), block=block)
        if picked is not None and found.front is not None and len(found.front):
            point = found.pick(**picked)
            say_json(point.to_dict()) if as_json else say(str(point))
        elif picked is not None and as_json:
            say_json(None)
        elif as_json:
            say_json(found.to_dict())
        else:
            with working("The result"):
                lines = result_lines(found, desk.remedy)
            say("\n".join(lines))
            if more:
                say(f"  {desk.study.how_many()}\n  {desk.study.gap_source().sentence}")
            told = int(desk.study.data.complete.sum())
            if 0 < told < desk.study.initial:
                note(f"Take this with care: it rests on {told} complete measurement{'s' * (told != 1)}.")
    sys.exit(exit_code(found))


def _read_wishes(problem: "Problem", words: tuple[str, ...]) -> dict[str, float]:
    """Read the values that a point of the front should reach, by objective."""
    from pied.errors import did_you_mean
    from pied.shell.tables import to_number

    if not problem.has_front:
        raise Mistake(
            "--pick chooses among the best trade-offs of several objectives, and this study has one: leave it out, the "
            "result is the best point"
        )
    wishes = {}
    for name, text in (pair(word, problem.objectives[0]) for word in words if word):
        if name not in problem.objectives:
            known = ", ".join(problem.objectives)
            hint = did_you_mean(name, problem.objectives) or f" The objectives are {known}."
            raise Mistake(f"--pick: '{name}' is not an objective.{hint}")
        wishes[name] = to_number(text, f"--pick {name}")
    return wishes


# ------------------------------------------------------------------------------------------------------------- revise


@click.command()
@of_a_study
@click.option(
    "--set", "changes", multiple=True, metavar="NAME=VALUE", help="Try another constant; nothing is recorded."
)
@click.option(
    "--rename",
    "names",
    multiple=True,
    metavar="OLD=NEW",
    help="A variable, output or limit that FILE calls by another name now.",
)
@worker
def revise(
    file: str,
    store: str | None,
    as_json: bool,
    changes: tuple[str, ...],
    names: tuple[str, ...],
    worker: str | None,
) -> None:
    """Answer a changed question from the same data, with the old optimum beside it.

    Change prices, limits, the objective, ranges or names in FILE first: the new question is recorded. With --set a
    constant is tried and nothing is recorded.
    """
    from pied.errors import did_you_mean
    from pied.shell.frame import keep_data
    from pied.shell.opening import me, opened
    from pied.shell.pages import result_lines
    from pied.shell.statement_file import read
    from pied.shell.tables import to_number

    stated = read(file)
    if changes and names:
        raise Mistake("--set only tries a constant; rename in a command of its own")
    for name, text in (pair(change, next(iter(stated.problem.constants), "price")) for change in changes):
        if not isinstance(stated.problem.constants.get(name), float):
            numbers = [each for each, kept in stated.problem.constants.items() if isinstance(kept, float)]
            raise Mistake(f"'{name}' is not a numeric constant.{did_you_mean(name, numbers)}")
        constants = {**stated.problem.constants, name: to_number(text, f"'{name}'")}
        stated = dataclasses.replace(stated, problem=stated.problem.revised(constants=constants))
    if not changes:
        renamed = dict(_old_and_new(each) for each in names)
        for line in keep_data(stated, store, renamed, worker or me()):
            note(line)
    with opened(file, store, stated=stated, read_only=bool(changes), is_new=False) as desk:
        found = desk.study.compare()
        if as_json:
            parts = ("result", "before", "old")
            told = {part: getattr(found, part) and getattr(found, part).to_dict() for part in parts}
            say_json({**told, "recorded": not changes})
        else:
            say("\n".join(result_lines(found.result, desk.remedy)))
            if found.before is not None:
                say("\nThe previous best settings at the new prices and limits:")
                say("\n".join(result_lines(found.before.plainly(), desk.remedy)[1:]))
            else:
                say("\nThis is the first question that these data are asked.")
            if changes:
                say(f"\nNothing was recorded. To keep the change, write it into {file}.")
    sys.exit(exit_code(found.result))


def _old_and_new(word: str) -> tuple[str, str]:
    """Split OLD=NEW; otherwise explain the form."""
    old, _, new = word.partition("=")
    if not old or not new:
        raise Mistake(f"'{word}' should be OLD=NEW, for instance yield=yield_total")
    return old, new


# ------------------------------------------------------------------------------------------------------------- export


@click.command()
@of_a_study
@click.option("--output", metavar="TABLE", help="Write to this file, .csv or .xlsx, instead of the terminal.")
@click.option("--full", is_flag=True, help="Write every digit of every number.")
def export(file: str, store: str | None, as_json: bool, output: str | None, full: bool) -> None:
    """Write the record as a table (CSV or Excel), or, with everything ever told and asked, as JSON."""
    from pied.shell.excel import is_excel, to_excel
    from pied.shell.opening import opened
    from pied.shell.tables import to_csv

    with opened(file, store, read_only=True) as desk:
        if output is not None and Path(output).exists():
            raise Mistake(f"'{output}' exists already and was not changed: name another file, {free_name(output)}")
        if as_json and output is None:
            say_json(everything(desk))
        elif output is None:
            say(to_csv(*export_rows(desk, full)).rstrip("\n"))
        else:
            if is_excel(Path(output)) and not as_json:
                write(Path(output), to_excel(*export_rows(desk, full)))
            else:
                write(Path(output), _json_text(desk) if as_json else to_csv(*export_rows(desk, full)))
            say(f"{len(desk.study.trials)} trials are in {output}.")


def _json_text(desk: "Desk") -> str:
    import json

    return json.dumps(everything(desk), indent=2, ensure_ascii=False) + "\n"


def everything(desk: "Desk") -> dict[str, Any]:
    """Return the whole record as data."""
    from pied.records import to_plain

    about = desk.record.about
    rows = [dataclasses.asdict(row) for row in desk.record.changes(0)[1]]
    return to_plain(
        {
            "study": about.name,
            "seed": about.seed,
            "solver": about.solver,
            "initial": about.initial,
            "created": about.created,
            "version": about.version,
            "questions": [dataclasses.asdict(each) for each in desk.study.questions],
            "trials": rows,
            "values": [dataclasses.asdict(each) for each in desk.study.values],
            "events": [dataclasses.asdict(each) for each in desk.record.events()],
        }
    )


def export_rows(desk: "Desk", full: bool) -> tuple[list[str], list[dict[str, Any]]]:
    """Return the record as columns and rows: points, outputs, objective and constraints."""
    from pied.records import Dataset, feasible
    from pied.shell.laboratory import set_point
    from pied.shell.pages import when
    from pied.shell.readings import error_columns, group_column, group_columns
    from pied.study import AIMS

    problem, trials = desk.study.problem, desk.study.trials
    rows = {row.number: row for row in desk.record.changes(0)[1]}
    data = Dataset.of(problem, trials)
    whole = problem.side_by_side
    f = data.functions(whole)
    meets = dict(zip(data.numbers, feasible(problem, f[:, : problem.k]).tolist(), strict=True))
    f[:, problem.goal_places] *= problem.goal_signs
    worth = dict(zip(data.numbers, f.tolist(), strict=True))
    own = own_columns(whole)
    table = []
    for trial in trials:
        row = rows[trial.number]
        values = worth.get(trial.number, [math.nan] * whole.k)
        told = {name: value for name, value in (trial.y or {}).items() if is_known(value)}
        known = {name: value for name, value in zip(whole.functions, values, strict=True) if math.isfinite(value)}
        table.append(
            {
                own["trial"]: trial.number,
                own["state"]: trial.state.value,
                own["aim"]: "added" if trial.is_added else AIMS.get(trial.why.aim, trial.why.aim),
                own["feasible"]: ("yes" if meets[trial.number] else "no") if len(known) == whole.k else None,
                **{group_column(problem, kind): name for kind, name in trial.grouped.items()},
                own["reason"]: trial.reason,
                own["worker"]: trial.worker,
                own["asked"]: when(row.asked),
                own["settled"]: when(row.settled),
                **{name: value if full else _brief(value, DERIVED) for name, value in known.items()},
                **{name: value if full else set_point(problem, name, value) for name, value in trial.x.items()},
                **{name: _told(value, full) for name, value in told.items()},
                **_errors(problem, told, full),
            }
        )
    first, last = list(_OWN[:3]), list(_OWN[3:])
    columns = [own[word] for word in first] + [*problem.variables]
    for name in problem.outputs:
        columns += [name, *(each for each in error_columns(problem, name) if any(each in row for row in table))]
    columns += whole.functions
    columns += [each for each in group_columns(problem) if any(each in row for row in table)]
    return [*dict.fromkeys([*columns, *(own[word] for word in last)])], table


def _errors(problem: "Problem", told: dict[str, float], full: bool) -> dict[str, float]:
    """Return the errors with which outputs were told, by the headings of their columns."""
    from pied.shell.readings import error_columns

    found: dict[str, float] = {}
    for name, value in told.items():
        if isinstance(value, Measured) and not value.side:
            deviation = value.deviation if full else _brief(value.deviation, TOLD)
            found |= dict(zip(error_columns(problem, name), (deviation, value.count), strict=True))
    return found


def _told(value: float, full: bool) -> float | str:
    """Return a told number, or the limit beyond which it lies as it is written."""
    if is_sided(value):
        return str(value) if full else shown(value, TOLD)
    return float(value) if full else _brief(value, TOLD)


def _brief(value: float, digits: int) -> float:
    """Return a number as a person would write it."""
    return float(f"{value:.{digits}g}")


def own_columns(problem: "Problem") -> dict[str, str]:
    """Return the headings of an export's own columns; they must differ from all names of the problem."""
    taken = {*problem.variables, *problem.outputs, *problem.functions}
    return {word: word if word not in taken else f"pied {word}" for word in _OWN}


_OWN = ("trial", "state", "aim", "feasible", "reason", "worker", "asked", "settled")
