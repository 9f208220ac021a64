"""The commands `pied ask`, `tell` and `fail`."""

import itertools
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pied import writing
from pied.measured import Measured, is_known, is_sided
from pied.shell.options import anyway, block, campaign, given, of_a_study, worker
from pied.shell.sheets import Told, from_sheet, remark_column, trial_column
from pied.shell.speech import Mistake, note, pair, say, say_json

if TYPE_CHECKING:
    from pied.errors import Contradiction
    from pied.problem import Problem
    from pied.records import Trial
    from pied.shell.opening import Desk
    from pied.study import Study


@click.command(context_settings={"allow_extra_args": True})
@click.pass_context
@of_a_study
@worker
@click.option("--count", type=click.IntRange(min=1), default=1, show_default=True, help="Open trials wanted in all.")
@click.option(
    "--sheet", "--csv", metavar="TABLE", help="Write them to a table, .csv or .xlsx, to be filled in and told."
)
@click.option("--why", is_flag=True, help="Say what is hoped for and in doubt, and how each point was chosen.")
@click.option("--repeat", type=int, metavar="TRIAL", help="Measure at the settings of this trial once more.")
@click.option(
    "--at", "settings", multiple=True, metavar="NAME=VALUE", help="Measure at settings of your own, all given."
)
@click.option("--settle", type=click.Choice(["gap"]), help="What narrows most how much better is still possible.")
@given
@click.option(
    "--block", "blocks", multiple=True, metavar="NAME", help="Day, operator, batch; of several the least used."
)
@click.option("--same", multiple=True, metavar="NAME", help="A setting that all open trials share; repeat it.")
@click.option("--among", type=click.IntRange(min=1), default=1, help="How many different values of these there may be.")
@click.option("--change-cost", "costs", multiple=True, metavar="NAME=COST", help="What it costs to change a setting.")
@click.option(
    "--max-step", "steps", multiple=True, metavar="NAME=DISTANCE", help="How far a setting may move; repeat it."
)
@click.option(
    "--from", "present", multiple=True, metavar="NAME=VALUE", help="Where it stands; by default as last measured."
)
def ask(
    context: click.Context,
    file: str,
    store: str | None,
    as_json: bool,
    worker: str | None,
    count: int,
    sheet: str | None,
    why: bool,
    repeat: int | None,
    settings: tuple[str, ...],
    settle: str | None,
    given: tuple[str, ...],
    steps: tuple[str, ...],
    present: tuple[str, ...],
    same: tuple[str, ...],
    blocks: tuple[str, ...],
    among: int,
    costs: tuple[str, ...],
) -> None:
    """Propose the next point to measure.

    Who asks again gets the same trial back until it is told or failed; --count asks for more, --repeat for the settings
    of a trial that does not fit.
    """
    from pied.shell.opening import me, opened
    from pied.shell.pages import hint
    from pied.shell.tables import to_number

    if context.args:
        number = context.args[0]
        tries = [hint("ask", file, option, number) for option in ("--count", "--repeat")]
        which = f": for {number} open trials {tries[0]}, for the settings of trial {number} once more {tries[1]}"
        is_number = number.isdecimal() and number.strip("0")
        raise Mistake(f"'{number}' is a word too many{which if is_number else ', see pied ask --help'}")
    if sheet is not None and Path(sheet).exists():
        raise Mistake(f"'{sheet}' is there already and may hold results: name another table, {free_name(sheet)}")
    if sheet is not None and not Path(sheet).absolute().parent.is_dir():
        raise Mistake(f"'{sheet}' cannot be written: there is no folder {Path(sheet).parent}")
    with opened(file, store, worker=worker or me()) as desk:
        problem = desk.stated.problem
        if settings:
            trials = [desk.study.enqueue(settings_of(problem, settings), take=True)]
        elif repeat is not None:
            trials = [desk.study.repeat(repeat)]
        elif settle is not None:
            trials = [desk.study.ask(settle=settle, given=given_of(problem, given))]
        else:
            far, at = (settings_of(problem, words) for words in (steps, present))
            fixed = given_of(problem, given)
            if costs:
                costly = {
                    name: to_number(text, f"the cost of '{name}'")
                    for name, text in (pair(each, next(iter(problem.variables))) for each in costs)
                }
                trials = [desk.study.ask(given=fixed, max_step=far, present=at, change_cost=costly, block=blocks)]
            else:
                trials = desk.study.open_trials(
                    count, given=fixed, max_step=far, present=at, same=same, among=among, block=blocks
                )
        if sheet is not None:
            _write_sheet(Path(sheet), desk.stated.problem, trials)
        if as_json:
            data = [asked_data(desk.study, each) for each in trials]
            say_json(data[0] if count == 1 and len(data) == 1 else data)
        elif sheet is not None:
            say(
                f"{len(trials)} trial{'s are' if len(trials) > 1 else ' is'} in {sheet}. Fill in what is measured, then"
            )
            say(f"  {desk.hint('tell', '--from', sheet)}")
        else:
            _say_trials(desk, trials, why)
        for line in doubtful_lines(desk):
            note(line)


def doubtful_lines(desk: "Desk") -> list[str]:
    """Return the measurements that do not fit, each with the command that helps."""
    return [each.sentence(desk.remedy) for each in desk.study.snapshot.doubtful]


def asked_data(study: "Study", trial: "Trial") -> dict[str, Any]:
    """Return a proposal as JSON-able data, with what is expected of each output once there is a belief."""
    data = {"trial": trial.number, "x": dict(trial.x), "why": trial.summary}
    data |= {"repeats": trial.why.repeats} if trial.why.repeats is not None else {}
    data |= {"block": trial.block} if trial.block else {}
    return data | ({"expected": study.expect(trial.x)} if trial.why.lower else {})


def _say_trials(desk: "Desk", trials: "list[Trial]", why: bool) -> None:
    from pied.shell.pages import blanks, expected_line, unit, why_line, written

    problem = desk.stated.problem
    for trial in trials:
        say(
            f"trial {trial.number}"
            + f", block {trial.block}" * bool(trial.block)
            + (f"   ({trial.summary})" if trial.summary else "")
        )
        for name, value in trial.x.items():
            say(f"  {name} = {written(set_point(problem, name, value))}{unit(problem, name)}")
        if trial.why.lower:
            say(f"  expected: {expected_line(problem, desk.study.expect(trial.x))}")
        if why:
            if trial.why.lower:
                for line in desk.study.explain(trial).lines[1:]:
                    say(f"  {line}")
            if line := why_line(problem, trial):
                say(f"  {line}")
    number = str(trials[0].number)
    free = [name for name, each in problem.variables.items() if not (each.is_stepped or each.is_listed)]
    if number == "1" and free:
        say(f"If {free[0]} is set in steps, say so in {desk.file}: step = 0.5, or round = 1 (digits after the point).")
    say("When it is measured, in parts if need be:")
    say(f"  {desk.hint('tell', number, *blanks(problem, problem.outputs))}")
    say(f"If it cannot be done:\n  {desk.hint('fail', number, repr('the reason'))}")


def _write_sheet(file: Path, problem: "Problem", trials: "list[Trial]") -> None:
    from pied.shell.excel import is_excel, to_excel
    from pied.shell.tables import to_csv

    columns, rows = sheet_of(problem, trials)
    write(file, to_excel(columns, rows) if is_excel(file) else to_csv(columns, rows))


def sheet_of(problem: "Problem", trials: "list[Trial]") -> tuple[list[str], list[dict[str, Any]]]:
    """Return the columns and rows of a run sheet: the settings of open trials, outputs to be filled in."""
    from pied.shell.readings import group_columns

    own = trial_column(problem)
    rows: list[dict[str, Any]] = [
        {own: each.number, **{name: set_point(problem, name, each.x[name]) for name in each.x}} for each in trials
    ]
    columns = [own, *problem.variables, *problem.outputs]
    if any(each.block for each in trials):
        columns.append(group_columns(problem)[0])
        for row, each in zip(rows, trials, strict=True):
            row[columns[-1]] = each.block
    if any(each.why.repeats is not None for each in trials):
        columns.append(remark_column(problem))
        for row, each in zip(rows, trials, strict=True):
            row[columns[-1]] = "" if each.why.repeats is None else f"repeats trial {each.why.repeats}"
    return columns, rows


def set_point(problem: "Problem", name: str, value: Any) -> Any:
    """Return the value of a variable with as few digits as reading it back allows."""
    from pied.shell.tables import shortest

    box = problem.variables[name]
    return value if box.is_stepped else shortest(value, box.hi - box.lo)


def free_name(file: str | Path) -> str:
    """Return a name under which there is no file: plan-2.csv instead of plan.csv."""
    place = Path(file)
    names = (place.with_name(f"{place.stem}-{count}{place.suffix}") for count in itertools.count(2))
    return shlex.quote(str(next(each for each in names if not each.exists())))


def write(file: Path, content: str | bytes) -> None:
    """Write a file; if that fails, raise an error with the reason."""
    try:
        writing.write(file, content)
    except (OSError, ValueError) as error:
        raise Mistake(f"'{file}' cannot be written: {getattr(error, 'strerror', None) or error}") from None


# --------------------------------------------------------------------------------------------------------------- tell


@click.command(context_settings={"ignore_unknown_options": True})
@of_a_study
@worker
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="TRIAL NAME=VALUE...")
@click.option(
    "--from", "sheet", metavar="TABLE", help="Tell from a table with the column 'trial', as 'ask --csv' writes."
)
@click.option("--at", "settings", multiple=True, metavar="NAME=VALUE", help="What was really set; may be repeated.")
@block
@campaign
@anyway
def tell(
    file: str,
    store: str | None,
    as_json: bool,
    worker: str | None,
    words: tuple[str, ...],
    sheet: str | None,
    settings: tuple[str, ...],
    block: str,
    campaign: str,
    anyway: bool,
) -> None:
    """Tell what was measured: the number of the trial, then NAME=VALUE for each output, or NAME="0.52 ± 0.01 (n=3)".

    Outputs may be told in parts. A value once told is never overwritten: telling it again is fine, another one is
    refused (and kept in the record beside the first) until it is corrected ('pied correct').
    """
    from pied.errors import Contradiction, TellError
    from pied.shell.opening import me, opened
    from pied.shell.pages import hint
    from pied.shell.statement_file import read
    from pied.shell.tables import Table

    stated = read(file)
    problem = stated.problem
    if sheet is not None and (words or settings):
        raise Mistake("tell either one trial, TRIAL NAME=VALUE..., or a table, --from TABLE")
    example = hint("tell", file, "3", "NAME=VALUE", store=store)
    told = [] if sheet is not None else [_told_words(problem, words, settings, example)]  # slips open no store
    with opened(file, store, worker=worker or me(), stated=stated, is_new=False) as desk:
        if sheet is not None:
            told = from_sheet(desk, Table.read(Path(sheet)), anyway)
        before = {trial.number: trial for trial in desk.study.trials}
        done, refused = [], []
        for place, number, values, at, *own in told:
            in_block, of_campaign = own[0] or block, own[1] or campaign
            try:
                done.append(
                    desk.study.tell(number, values or None, at=at, block=in_block, campaign=of_campaign, anyway=anyway)
                )
            except Contradiction as error:
                refused.append(f"{place}{error.facts}. If the earlier one is wrong: {_remedy(desk, error)}")
            except TellError as error:
                refused.append(f"{place}{error}")
        if as_json and (sheet is not None or done):
            data = [trial_data(problem, trial) for trial in done]
            say_json(data[0] if sheet is None else data)
        elif not as_json:
            for trial in done:
                say(told_line(desk.study.problem, trial, before[trial.number]))
                if trial.proposed is not None and before[trial.number].proposed is None:
                    say(f"trial {trial.number} was run at {run_elsewhere(problem, trial)}")
            if not told:
                say(f"{sheet} has nothing to tell yet: no cell of an output is filled in.")
        if refused:
            raise Mistake(". ".join(refused))


def _told_words(problem: "Problem", words: tuple[str, ...], settings: tuple[str, ...], example: str) -> Told:
    """Read the words of `tell`."""
    if len(words) + len(settings) < 2 or not words or not words[0].isdecimal():
        raise Mistake(f"name the trial, then what was measured: {example}")
    return Told("", int(words[0]), values_of(problem, words[1:]), settings_of(problem, settings))


def _remedy(desk: "Desk", error: "Contradiction") -> str:
    """Return the command that corrects what was told before."""
    right = [f"{shlex.quote(name)}={shlex.quote(str(value))}" for name, value in error.values.items()]
    right += [f"--at {shlex.quote(f'{name}={value}')}" for name, value in error.at.items()]
    return desk.hint("correct", str(error.number), *right, "--why '...'")


def run_elsewhere(problem: "Problem", trial: "Trial") -> str:
    """Return what was set differently, as a phrase."""
    from pied.shell.pages import setting, unit

    proposed = trial.proposed or trial.x
    parts = [
        f"{name} = {setting(value, 9)} instead of {setting(set_point(problem, name, proposed[name]), 9)}"
        f"{unit(problem, name)}"
        for name, value in trial.x.items()
        if value != proposed[name]
    ]
    return ", ".join(parts)


def told_line(problem: "Problem", trial: "Trial", before: "Trial") -> str:
    """Return what a trial is after it was told, as a line; `before` is what it was."""
    from pied.shell.pages import missing, outputs_of, verdict

    if trial_data(problem, trial) == trial_data(problem, before):
        return f"trial {trial.number}: already told, nothing changed"
    left = missing(problem, trial)
    if len(left) == problem.m:
        return f"trial {trial.number}: open, {', '.join(outputs_of(problem, range(problem.m)))} still missing"
    if left:
        names = outputs_of(problem, [problem.outputs.index(name) for name in left])
        return f"trial {trial.number}: told in part, {', '.join(names)} still missing"
    measured = "" if problem.is_exact or not problem.n else " as measured"
    return f"trial {trial.number}: complete, {verdict(problem, trial)}{measured}"


def trial_data(problem: "Problem", trial: "Trial") -> dict[str, Any]:
    """Return a trial as JSON-able data."""
    from pied.shell.pages import missing

    told = {name: told_data(value) for name, value in (trial.y or {}).items()}
    y = {name: value for name, value in told.items() if value is not None}
    left = missing(problem, trial)
    more: dict[str, Any] = {} if trial.proposed is None else {"asked": dict(trial.proposed)}
    more |= trial.grouped
    more |= {"errors": errors_data(trial)} if errors_data(trial) else {}
    return {"trial": trial.number, "state": trial.state.value, "x": dict(trial.x), "y": y, "missing": left, **more}


def told_data(value: float) -> float | str | None:
    """Return a told number, or a limit beyond which it lies as it is written; None if nothing was told."""
    return str(value) if is_sided(value) else value if is_known(value) else None


def errors_data(trial: "Trial") -> dict[str, Any]:
    """Return the errors with which outputs were told."""
    told = {} if trial.y is None else {name: each for name, each in trial.y.items() if isinstance(each, Measured)}
    return {name: {"deviation": each.deviation, "n": each.count} for name, each in told.items() if not each.side}


def failure_data(trial: "Trial") -> dict[str, Any]:
    """Return why a trial failed as JSON-able data."""
    return {"reason": trial.reason, "not_the_settings": trial.not_the_settings}


def settings_of(problem: "Problem", words: tuple[str, ...]) -> dict[str, Any]:
    """Read NAME=VALUE words about variables."""
    from pied.errors import did_you_mean
    from pied.shell.tables import to_number

    found: dict[str, Any] = {}
    for word in words:
        name, text = pair(word, next(iter(problem.variables)))
        if name not in problem.variables or name in found:
            said = f"'{name}' is given twice" if name in found else f"'{name}' is not a variable."
            raise Mistake(said + ("" if name in found else did_you_mean(name, problem.variables)))
        found[name] = text.strip() if problem.variables[name].is_choice else to_number(text, f"'{name}'")
    return found


def given_of(problem: "Problem", words: Sequence[str]) -> dict[str, Any]:
    """Read NAME=VALUE and NAME=FROM:TO words about settings that are not free."""
    from pied.shell.tables import to_number

    found: dict[str, Any] = {}
    for word in words:
        name, text = pair(word, next(iter(problem.variables)))
        low, sign, high = text.partition(":")
        is_range = bool(sign) and name in problem.variables and not problem.variables[name].is_choice
        if name in found:
            raise Mistake(f"'{name}' is given twice")
        ends = (to_number(low, f"'{name}'"), to_number(high, f"'{name}'")) if is_range else None
        found |= settings_of(problem, (word,)) if ends is None else {name: ends}
    return found


def values_of(problem: "Problem", words: tuple[str, ...]) -> dict[str, float]:
    """Read NAME=VALUE words, perhaps "y=0.52 ± 0.01"; a vector of outputs takes commas, c=0.1,0.2,0.3."""
    from pied.errors import did_you_mean, ways
    from pied.problem import groups
    from pied.shell.readings import read

    vectors, values = groups(problem.outputs), {}
    for word in words:
        name, text = pair(word, problem.outputs[0])
        if name in vectors and name not in problem.outputs:
            parts, places = text.split(","), vectors[name]
            if len(parts) != len(places):
                raise Mistake(f"'{name}' has {len(places)} numbers, got {len(parts)}")
        elif name in problem.outputs:
            parts, places = [text], [problem.outputs.index(name)]
        elif name in problem.variables:
            raise Mistake(f"'{name}' is a setting, not an output. {ways().setting.format(pair=shlex.quote(word))}")
        else:
            raise Mistake(f"'{name}' is not an output.{did_you_mean(name, [*problem.outputs, *vectors])}")
        for part, place in zip(parts, places, strict=True):
            output = problem.outputs[place]
            if output in values:
                raise Mistake(f"'{output}' is given twice")
            values[output] = read(part, f"'{output}'", lod=problem.lods.get(output))
    return values


# --------------------------------------------------------------------------------------------------------------- fail


@click.command()
@of_a_study
@worker
@click.argument("trial", type=int)
@click.argument("reason")
@click.option("--anyway", is_flag=True, help="Also if it was told; its values then no longer count.")
@click.option(
    "--not-the-settings/--the-settings",
    default=None,
    help="The reason had nothing to do with the settings, so they are not avoided; also of a failed trial.",
)
def fail(
    file: str,
    store: str | None,
    as_json: bool,
    worker: str | None,
    trial: int,
    reason: str,
    anyway: bool,
    not_the_settings: bool | None,
) -> None:
    """Say that a trial could not be done, and why; settings near it are avoided unless the reason was another."""
    from pied.shell.opening import me, opened

    with opened(file, store, worker=worker or me(), is_new=False) as desk:
        made = desk.study.fail(trial, reason, anyway=anyway, not_the_settings=not_the_settings)
        if as_json:
            say_json(trial_data(desk.stated.problem, made) | failure_data(made))
        else:
            say(f"trial {made.number} {made.failure}")
