"""The commands `pied plot` and `pied report`."""

from pathlib import Path

import click

from pied.shell.laboratory import free_name
from pied.shell.options import of_a_study
from pied.shell.speech import Mistake, say, say_json, working

KINDS = ("history", "gap", "front", "slices", "region", "outputs", "residuals")


@click.command()
@of_a_study
@click.option("--kind", type=click.Choice(KINDS), help="Which picture; by default the course of the study.")
@click.option("--output", metavar="PICTURE", help="The file: .png, .svg or .pdf; by default FILE's name with .png.")
def plot(file: str, store: str | None, as_json: bool, kind: str | None, output: str | None) -> None:
    """Draw a picture of the study.

    history: the value of each trial; gap: how much better is still possible; front: the best trade-offs between several
    objectives (then the default); slices: objective and limits along each
    setting; region: settings that meet all limits (two settings); outputs, residuals: predicted against measured.
    """
    from pied.plots import draw
    from pied.shell.opening import opened

    with opened(file, store, read_only=True) as desk:
        place = Path(output or f"{desk.stated.file.stem}{f'-{kind}' if kind else ''}.png")
        _check_folder(place)
        with working("The picture"):
            draw(desk.study, kind, file=place)
    say_json({"picture": str(place)}) if as_json else say(f"{place} is written.")


@click.command()
@of_a_study
@click.option("--output", metavar="PAGE", help="The file; by default FILE's name with .html.")
def report(file: str, store: str | None, as_json: bool, output: str | None) -> None:
    """Write a report: one page that holds everything, to read, print or send.

    The question in words, the answer and what it rests on, pictures, predicted against measured, limits, all trials,
    history, settings and versions.
    """
    from pied.report import write
    from pied.shell.opening import opened

    with opened(file, store, read_only=True) as desk:
        place = Path(output or f"{desk.stated.file.stem}.html")
        _check_folder(place)
        if place.exists() and not _is_report(place):
            raise Mistake(f"'{place}' exists already and is not a report: name another file, {free_name(place)}")
        with working("The report"):
            write(desk.study, place)
    say_json({"report": str(place)}) if as_json else say(f"{place} is written: open it in a browser.")


def _check_folder(place: Path) -> None:
    if not place.absolute().parent.is_dir():
        raise Mistake(f"'{place}' cannot be written: there is no folder {place.parent}")


def _is_report(place: Path) -> bool:
    """Tell whether a file is an earlier report, which may be replaced."""
    with place.open("rb") as opened:
        return b"<title>Report: " in opened.read(4096)
