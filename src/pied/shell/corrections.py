"""The commands `pied correct`, `withdraw`, `restore`, `note` and `history`."""

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from pied.shell.laboratory import settings_of, trial_data, values_of
from pied.shell.options import anyway, of_a_study, worker
from pied.shell.speech import Mistake, say, say_json

if TYPE_CHECKING:
    from pied.records import Event, Trial
    from pied.shell.opening import Desk

_why = click.option("--why", default="", metavar="TEXT", help="The reason, for those who read the record later.")


@click.command(context_settings={"ignore_unknown_options": True})
@of_a_study
@worker
@click.argument("trial", type=int)
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="NAME=VALUE...")
@click.option("--at", "settings", multiple=True, metavar="NAME=VALUE", help="What was really set; may be repeated.")
@click.option("--block", metavar="NAME", help="The right block; '' for none.")
@click.option("--campaign", metavar="NAME", help="The right campaign; '' for the present one.")
@_why
@anyway
def correct(
    file: str,
    store: str | None,
    as_json: bool,
    worker: str | None,
    trial: int,
    words: tuple[str, ...],
    settings: tuple[str, ...],
    block: str | None,
    campaign: str | None,
    why: str,
    anyway: bool,
) -> None:
    """Replace told values of a trial; the earlier ones stay in the history."""
    from pied.shell.opening import me, opened

    with opened(file, store, worker=worker or me(), is_new=False) as desk:
        problem = desk.stated.problem
        if not words and not settings and block is None and campaign is None:
            raise Mistake(f"say what is right: {desk.hint('correct', str(trial), 'NAME=VALUE', '--why TEXT')}")
        before = len(desk.study.history(trial))
        at = settings_of(problem, settings)
        values = values_of(problem, words) if words else None
        groups = {"block": block, "campaign": campaign}
        made = desk.study.correct(trial, values, at=at or None, **groups, why=why, anyway=anyway)
        new = desk.study.history(trial)[before:]
        _report(
            desk, made, as_json, [each.what for each in new] or ["nothing to correct: that is in the record already"]
        )


@click.command()
@of_a_study
@worker
@click.argument("trial", type=int)
@_why
def withdraw(file: str, store: str | None, as_json: bool, worker: str | None, trial: int, why: str) -> None:
    """Let a trial no longer count, for instance a contaminated one; it stays in the record."""
    from pied.shell.opening import me, opened

    with opened(file, store, worker=worker or me(), is_new=False) as desk:
        made = desk.study.withdraw(trial, why=why)
        _report(desk, made, as_json, [f"withdrawn ({made.reason}). To undo it: {desk.hint('restore', str(trial))}"])


@click.command()
@of_a_study
@worker
@click.argument("trial", type=int)
@click.option("--why", default="", metavar="TEXT", help="The reason.")
def restore(file: str, store: str | None, as_json: bool, worker: str | None, trial: int, why: str) -> None:
    """Let a withdrawn trial count again."""
    from pied.shell.opening import me, opened

    with opened(file, store, worker=worker or me(), is_new=False) as desk:
        made = desk.study.restore(trial, why=why)
        _report(desk, made, as_json, [f"restored, it is {_STATES.get(made.state.value, made.state.value)}"])


_STATES = {"told": "measured", "partial": "measured in part", "asked": "open"}


@click.command()
@of_a_study
@worker
@click.argument("trial", type=int)
@click.argument("text")
def note(file: str, store: str | None, as_json: bool, worker: str | None, trial: int, text: str) -> None:
    """Write a note about a trial into the record."""
    from pied.shell.opening import me, opened

    with opened(file, store, worker=worker or me(), is_new=False) as desk:
        made = desk.study.note(trial, text)
        if as_json:
            say_json(event_data(made))
        else:
            say(f"trial {trial}: noted")


@click.command()
@of_a_study
@click.argument("trial", type=int, required=False)
def history(file: str, store: str | None, as_json: bool, trial: int | None) -> None:
    """Show who did what, when and why: the whole study, or one trial."""
    from pied.shell.opening import opened

    with opened(file, store, read_only=True) as desk:
        found = desk.study.history(trial)
        if as_json:
            say_json([event_data(each) for each in found])
            return
        for line in history_lines(found):
            say(line)


def history_lines(events: "list[Event]") -> list[str]:
    """Return a line for each event: when, who, and what happened to which trial."""
    from pied.shell.pages import when

    width = max((len(each.worker) for each in events), default=0)
    return [
        f"{when(each.made)}  {each.worker:<{width}}  " + (f"trial {each.number} " if each.number else "") + each.what
        for each in events
    ]


def event_data(event: "Event") -> dict[str, object]:
    """Return an event as data for JSON."""
    from pied.records import to_plain

    return to_plain({"trial": event.number or None, **asdict(event), "what": event.what})


def _report(desk: "Desk", made: "Trial", as_json: bool, lines: list[str]) -> None:
    if as_json:
        say_json(trial_data(desk.stated.problem, made))
        return
    for line in lines:
        say(f"trial {made.number}: {line}")
