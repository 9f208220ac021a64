"""Arguments and options that several commands share."""

from collections.abc import Callable
from typing import Any

import click

Decorated = Callable[..., Any]
Decorator = Callable[[Decorated], Decorated]

as_json: Decorator = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
worker: Decorator = click.option("--worker", metavar="NAME", help="Who works; by default your login name.")
anyway: Decorator = click.option("--anyway", is_flag=True, help="Take values outside of their ranges: they are right.")
block: Decorator = click.option(
    "--block",
    default="",
    metavar="NAME",
    help="With what else it was measured: a day, an operator, a batch, a reactor.",
)
campaign: Decorator = click.option(
    "--campaign", default="", metavar="NAME", help="Another campaign or other equipment: related outputs, not equal."
)
given: Decorator = click.option(
    "--given",
    "given",
    multiple=True,
    metavar="NAME=VALUE",
    help="A setting that is not free: T=80, or T=78:82 within a range; repeat it for others.",
)
_store: Decorator = click.option(
    "--store",
    envvar="PIED_STORE",
    metavar="PLACE",
    help="Where the record is kept: a file or a URL; by default beside FILE, with the ending .db.",
)


def of_a_study(command: Decorated) -> Decorated:
    """Give a command the argument FILE and the options of every command on a study."""
    return click.argument("file")(_store(as_json(command)))
