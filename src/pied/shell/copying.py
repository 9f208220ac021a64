"""The command `pied backup`."""

from pathlib import Path

import click

from pied.shell.options import of_a_study
from pied.shell.speech import say, say_json


@click.command()
@of_a_study
@click.argument("copy")
@click.option("--replace", is_flag=True, help="Replace COPY if it is there already.")
def backup(file: str, store: str | None, as_json: bool, copy: str, replace: bool) -> None:
    """Copy the store of FILE, or the store FILE itself (plant.db), to the file COPY, also while it is in use.

    The copy has all that was told before, in one file. To go back to it, end all that uses the store, remove the store
    with the files NAME.db-wal and NAME.db-shm, and copy COPY to its place.
    """
    from pied.records.sql import Store
    from pied.shell.opening import is_there
    from pied.shell.speech import NoAnswer
    from pied.shell.statement_file import store_of

    place = store or store_of(file)
    if not is_there(place):
        raise NoAnswer(f"there is no store at {place}: nothing is recorded yet")
    with Store.connect(place, read_only=True) as base:
        base.backup(copy, replace=replace)
    with Store.connect(Path(copy), read_only=True) as base:
        trials = {about.name: len(base.record(about.name).changes(0)[1]) for about in base.studies()}
    if as_json:
        say_json({"copy": copy, "trials": trials})
        return
    say(f"{copy} has " + ", ".join(f"study '{name}' with {count} trials" for name, count in trials.items()))
