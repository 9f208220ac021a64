"""The shell: the table of its commands, each loaded when it is used, so that help answers at once.

Exit codes: 0 success; 2 a mistake in the call, a file or a store (one line on stderr says which); 3 there is no answer
(yet); 4 the verdict that no point meets all constraints; 130 interrupted; 1 with a traceback is a bug.
"""

import atexit
import gc
from importlib import import_module
from typing import Any

import click

from pied import __version__
from pied.address import masked
from pied.errors import TERMINAL, PiedError, did_you_mean, read_as
from pied.shell.speech import INTERRUPTED, Mistake, Warnings

atexit.register(gc.freeze)  # else Python looks for cycles in all that was loaded, a fifth of a short command's time

COMMANDS: dict[str, dict[str, tuple[str, str]]] = {
    "Your problem": {
        "init": ("pied.shell.statement:init", "Write a commented problem file to begin with."),
        "check": ("pied.shell.statement:check", "Check a problem file and show what was understood."),
    },
    "Experiments": {
        "ask": ("pied.shell.laboratory:ask", "Propose the next point to measure."),
        "tell": ("pied.shell.laboratory:tell", "Tell what was measured, all of it or a part."),
        "fail": ("pied.shell.laboratory:fail", "Say that a trial could not be done."),
        "correct": ("pied.shell.corrections:correct", "Replace a told value; the earlier one stays in the history."),
        "withdraw": ("pied.shell.corrections:withdraw", "Let a trial no longer count."),
        "restore": ("pied.shell.corrections:restore", "Let a withdrawn trial count again."),
        "note": ("pied.shell.corrections:note", "Write a note about a trial."),
        "add": ("pied.shell.adding:add", "Add old data from a table."),
        "run": ("pied.shell.running:run", "Let a program or a Python function evaluate points."),
    },
    "Answers": {
        "status": ("pied.shell.answers:status", "Show how the study stands, and what is open."),
        "history": ("pied.shell.corrections:history", "Show who did what, when and why."),
        "result": ("pied.shell.answers:result", "Recommend a point, with all that is known about it."),
        "plot": ("pied.shell.showing:plot", "Draw a picture of the study."),
        "dashboard": ("pied.web.command:dashboard", "Show studies in a browser, with what-if."),
        "mcp": ("pied.web.command:mcp", "Serve studies as tools of an assistant (Model Context Protocol)."),
        "report": ("pied.shell.showing:report", "Write a page with question, answer, pictures and all trials."),
        "sensitivities": ("pied.shell.deciding:sensitivities", "Say what limits and constants are worth."),
        "policy": ("pied.shell.deciding:policy", "Show the best settings as a function of what is only measured."),
        "posterior": ("pied.shell.posterior:posterior", "Show how sure fitted parameters are."),
        "sweep": ("pied.shell.deciding:sweep", "Show the optimum over a range of prices or limits."),
        "revise": ("pied.shell.answers:revise", "Answer a changed question from the same data."),
        "export": ("pied.shell.answers:export", "Write the record as a table or as JSON."),
        "backup": ("pied.shell.copying:backup", "Copy the store, also while it is in use."),
    },
    "Beyond": {
        "demo": ("pied.shell.showcase:demo", "Optimize a reactor, from nothing to a picture."),
        "suite": ("pied.shell.showcase:suite", "List the test problems, or show one in full."),
        "solvers": ("pied.shell.showcase:solvers", "List the solvers, or show one with its settings."),
        "bench": ("pied.bench.shell:bench", "Run plans of problems and solvers, and compare them."),
    },
}
"""By heading: each command, where it is, and its purpose."""


class Commands(click.Group):
    """A group that loads a command when it is used, and turns our errors into one line on stderr."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of the table."""
        return [name for part in COMMANDS.values() for name in part]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Load a command."""
        for part in COMMANDS.values():
            if cmd_name in part:
                module, name = part[cmd_name][0].split(":")
                return getattr(import_module(module), name)
        return None

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """Find the command, or suggest the one probably meant."""
        if self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            raise Mistake(f"there is no command '{args[0]}'.{did_you_mean(args[0], self.list_commands(ctx))}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the table without loading anything."""
        for heading, part in COMMANDS.items():
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(7), purpose) for name, (_, purpose) in part.items()])

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command."""
        try:
            with read_as(TERMINAL):
                return super().invoke(ctx)
        except PiedError as error:
            raise Mistake.of(error) from error
        except click.UsageError as error:  # quotes what was typed, perhaps an address
            said = error.format_message()
            if masked(said) == said:
                raise
            raise click.UsageError(masked(said), ctx=error.ctx) from None
        except KeyboardInterrupt:
            raise click.exceptions.Exit(INTERRUPTED) from None


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="pied")
def main() -> None:
    """Optimization of part-known models: known formulas around what must be measured or simulated.

    Begin with `pied init`. FILE is a problem file, reactor.toml, or a Python problem, plant.py:problem.
    """
    Warnings.listen()
