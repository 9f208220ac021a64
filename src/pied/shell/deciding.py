"""The commands `pied sweep` and `pied sensitivities`."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from pied.shell.laboratory import free_name, given_of, write
from pied.shell.options import given, of_a_study
from pied.shell.speech import NOTHING, Mistake, say, say_json, working

POINTS, POINTS_OF_TWO = 13, 7
"""Values of a range without a number of them: of one constant, and of each of two."""


@click.command()
@of_a_study
@click.argument("ranges", nargs=-1, required=True, metavar="NAME=FROM:TO[:COUNT]...")
@click.option("--csv", "table", metavar="TABLE", help="Write the table to this file, with all digits.")
@click.option("--plot", "picture", metavar="PICTURE", help="Draw the curve to this file: .png, .svg or .pdf.")
@given
def sweep(
    file: str,
    store: str | None,
    as_json: bool,
    ranges: tuple[str, ...],
    table: str | None,
    picture: str | None,
    given: tuple[str, ...],
) -> None:
    """Show the optimum over a range of one or two constants or limits, from the record as it is.

    A limit has the name of its constraint. NAME=8:14 takes 13 values from 8 to 14, NAME=8:14:25 takes 25. Nothing is
    recorded.
    """
    from pied.shell.opening import opened

    values = dict(_values(word, len(ranges)) for word in ranges)
    check_places(table, picture)
    with opened(file, store, read_only=True) as desk:
        with working("The sweep"):
            found = desk.study.sweep(values, given=given_of(desk.stated.problem, given))
        if table is not None:
            write(Path(table), found.to_csv())
        if picture is not None:
            from pied.plots import draw_sweep

            draw_sweep(found, picture)
        say_json(found.to_dict()) if as_json else say_with(str(found), table, picture)


def _values(word: str, swept: int) -> tuple[str, list[float]]:
    """Read NAME=FROM:TO or NAME=FROM:TO:COUNT."""
    import numpy as np

    name, _, span = word.rpartition("=")
    ends = span.split(":")
    form = f"'{word}' should be NAME=FROM:TO, for instance price=8:14, or price=8:14:25 for 25 values"
    if not name or len(ends) not in (2, 3):
        raise Mistake(form)
    try:
        low, high = float(ends[0]), float(ends[1])
        count = int(ends[2]) if len(ends) == 3 else POINTS if swept == 1 else POINTS_OF_TWO
    except ValueError as error:
        raise Mistake(form) from error
    if count < 1:
        raise Mistake(form)
    return name, np.linspace(low, high, count).tolist()


@click.command()
@of_a_study
@click.argument("ranges", nargs=-1, metavar="[NAME=FROM:TO[:COUNT]]...")
@click.option("--csv", "table", metavar="TABLE", help="Write the table to this file, with all digits.")
@click.option("--plot", "picture", metavar="PICTURE", help="Draw it to this file: .png, .svg or .pdf.")
def policy(
    file: str, store: str | None, as_json: bool, ranges: tuple[str, ...], table: str | None, picture: str | None
) -> None:
    """Show the best settings as a function of the observed variables, from the record as it is.

    Without ranges, between the smallest and the largest measured values. ambient=-5:35:9 takes 9 values, ambient=12
    one. Nothing is recorded.
    """
    from pied.shell.opening import opened

    check_places(table, picture)
    values = axes_of(ranges)
    with opened(file, store, read_only=True) as desk:
        with working("The policy"):
            found = desk.study.policy(values)
        if table is not None:
            write(Path(table), found.to_csv())
        if picture is not None:
            from pied.plots import draw_policy

            draw_policy(found, picture)
        say_json(found.to_dict()) if as_json else say_with(str(found), table, picture)


def axes_of(words: Sequence[str]) -> dict[str, list[Any]]:
    """Read the values of observed variables, NAME=FROM:TO, NAME=FROM:TO:COUNT or NAME=VALUE."""
    return dict(_values(word, len(words)) if ":" in word else _one(word) for word in words)


def check_places(table: str | None, picture: str | None) -> None:
    """Refuse files that cannot be written, before anything is computed."""
    for place in (table, picture):
        if place is not None and not Path(place).absolute().parent.is_dir():
            raise Mistake(f"'{place}' cannot be written: there is no folder {Path(place).parent}")
    if table is not None and Path(table).exists():
        raise Mistake(f"'{table}' exists already and was not changed: name another file, {free_name(table)}")


def say_with(text: str, *places: str | None) -> None:
    """Say an answer, and which files have it."""
    say(text)
    for place in places:
        if place is not None:
            say(f"{place} is written.")


def _one(word: str) -> tuple[str, list[Any]]:
    """Read NAME=VALUE, a number or a label."""
    name, _, text = word.partition("=")
    if not name or not text:
        raise Mistake(f"'{word}' should be NAME=FROM:TO or NAME=VALUE, for instance ambient=-5:35")
    try:
        return name, [float(text)]
    except ValueError:
        return name, [text]


@click.command()
@of_a_study
def sensitivities(file: str, store: str | None, as_json: bool) -> None:
    """Say what limits and constants are worth at the optimum, and how long the recommended settings hold.

    For each limit that binds, what one percent of relaxation brings; for each constant, what one percent more changes;
    for each, the range within which the settings stay within 1 % of the best. Exit code 3 while no settings are known
    to meet all limits.
    """
    from pied.shell.opening import opened

    with opened(file, store, read_only=True) as desk:
        with working("Sensitivities"):
            found = desk.study.sensitivities()
        if as_json:
            say_json(None if found is None else found.to_dict())
        elif found is None:
            say("No settings are known to meet all limits: there is no optimum yet whose limits have a price.")
        else:
            lines = found.lines()
            say("\n".join(lines) if lines else "Nothing to say: there are no constants, and no limit binds.")
    if found is None:
        sys.exit(NOTHING)
