"""The command `pied posterior`."""

from pathlib import Path

import click

from pied.shell.deciding import check_places, say_with
from pied.shell.laboratory import given_of, write
from pied.shell.options import given, of_a_study
from pied.shell.speech import Mistake, say_json, working


@click.command()
@of_a_study
@click.option("--sigma", type=float, help="Standard deviation of the errors of the data; without it, it is learned.")
@click.option(
    "--data", "data", multiple=True, metavar="OUTPUT=VALUE", help="What was measured, if it is not in the objective."
)
@click.option(
    "--prior", multiple=True, metavar="NAME=MEAN:DEVIATION", help="What is known of a parameter besides its range."
)
@click.option("--discrepancy", metavar="SIZE", help="By how much the model itself may be wrong, or 'learned'.")
@click.option("--csv", "table", metavar="TABLE", help="Write the draws to this file, with all digits.")
@click.option("--plot", "picture", metavar="PICTURE", help="Draw all pairs to this file: .png, .svg or .pdf.")
@given
def posterior(
    file: str,
    store: str | None,
    as_json: bool,
    sigma: float | None,
    data: tuple[str, ...],
    prior: tuple[str, ...],
    discrepancy: str | None,
    table: str | None,
    picture: str | None,
    given: tuple[str, ...],
) -> None:
    """Show how sure the parameters are, given data with errors, from the record as it is.

    The objective is a sum of squares of outputs, or --data says what was measured. Nothing is recorded.
    """
    from pied.shell.opening import opened

    check_places(table, picture)
    before = {name: _pair(name, text) for name, text in map(_split, prior)}
    stated = {name: _number(name, text) for name, text in map(_split, data)} or None
    wrong = discrepancy if discrepancy in (None, "learned") else _number("discrepancy", str(discrepancy))
    with opened(file, store, read_only=True) as desk:
        with working("The posterior"):
            found = desk.study.posterior(
                stated, sigma, prior=before, discrepancy=wrong, given=given_of(desk.stated.problem, given)
            )
        if table is not None:
            write(Path(table), found.to_csv())
        if picture is not None:
            from pied.plots import draw_posterior

            draw_posterior(found, picture)
        say_json(found.to_dict()) if as_json else say_with(str(found), table, picture)


def _split(word: str) -> tuple[str, str]:
    name, _, text = word.rpartition("=")
    if not name or not text:
        raise Mistake(f"'{word}' should be NAME=VALUE")
    return name, text


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise Mistake(f"'{name}' should be a number, got '{text}'") from error


def _pair(name: str, text: str) -> tuple[float, float]:
    mean, _, deviation = text.partition(":")
    return _number(name, mean), _number(name, deviation)
