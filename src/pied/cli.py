"""The shell: `pied demo`, `pied suite`, `pied solvers`.

Each command imports what it needs when it runs, so that help answers at once. Exit codes: 0 for success, 2 for a
mistake (one line on stderr says which), 130 when interrupted.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from pied import __version__
from pied.errors import MissingExtra, PiedError

INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells have it."""
NARROW = 60
"""Columns to which a long text is cut where the terminal leaves less."""


class _Mistake(click.ClickException):
    """One of our errors, as one line."""

    exit_code = 2

    def show(self, file: Any = None) -> None:
        click.echo(f"pied: {' '.join(self.message.split())}", err=True)


class _Commands(click.Group):
    """A group that turns our errors into one line on stderr; anything else is a bug and keeps its traceback."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except PiedError as error:
            raise _Mistake(str(error)) from error


_as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="pied")
def main() -> None:
    """Optimization of part-known models: a costly black box inside a known white box."""


# ------------------------------------------------------------------------------------------------ demo


@main.command()
@click.option("--budget", type=click.IntRange(min=0), default=25, show_default=True, help="Evaluations.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of everything random.")
@click.option(
    "--plot",
    "picture",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("demo.png"),
    show_default=True,
    help="Where to write the picture; its ending chooses the format.",
)
@_as_json
def demo(budget: int, seed: int, picture: Path, as_json: bool) -> None:
    """Find the best operating point of the Williams-Otto reactor, a simulator that counts as expensive."""
    from pied import demo as play
    from pied.errors import Status

    _check_folder(picture)
    progress = _Progress(budget, quiet=as_json)
    progress.say(play.INTRODUCTION)
    progress.say("")
    progress.say(play.heading())
    study, result = play.run(budget, seed=seed, on_tell=lambda study, trial: progress.step(play.line(study, trial)))
    progress.end()
    if as_json:
        drawn, _ = _draw(study, picture)
        _print_json(play.as_data(result, picture if drawn else None))
    else:
        click.echo(f"\n{play.report(result)}\n")
        click.echo(_draw(study, picture)[1])
    if result.status is Status.INTERRUPTED:
        sys.exit(INTERRUPTED)


def _draw(study: Any, picture: Path) -> tuple[bool, str]:
    """Draw the picture; return whether that was possible, and a sentence."""
    from pied import demo as play

    if not study.trials:
        return False, "No picture: nothing was evaluated."
    try:
        play.draw(study, picture)
    except MissingExtra as error:
        return False, f"No picture: {error}"
    return True, f"The picture is in {picture}."


def _check_folder(file: Path) -> None:
    """Refuse a picture that could not be written, before anything is run."""
    if not file.resolve().parent.is_dir():
        raise _Mistake(f"there is no folder '{file.parent}' to write '{file.name}' to")


class _Progress:
    """Live lines; on a terminal, a bar below them."""

    def __init__(self, total: int, *, quiet: bool) -> None:
        self.total, self.quiet, self.done = total, quiet, 0
        self.has_bar = not quiet and sys.stdout.isatty()

    def say(self, text: str) -> None:
        """Print a line above the bar."""
        if not self.quiet:
            click.echo(f"\r\x1b[K{text}" if self.has_bar else text)

    def step(self, text: str) -> None:
        """Print the line of one evaluation and move the bar."""
        self.done += 1
        self.say(text)
        if self.has_bar:
            filled = 40 * self.done // max(self.total, 1)
            click.echo(f"[{'#' * filled}{'.' * (40 - filled)}] {self.done} of {self.total}", nl=False)

    def end(self) -> None:
        """Remove the bar."""
        if self.has_bar:
            click.echo("\r\x1b[K", nl=False)


# ------------------------------------------------------------------------------------------------ suite


@main.command()
@click.argument("name", required=False)
@_as_json
def suite(name: str | None, as_json: bool) -> None:
    """List the test problems, or show the one called NAME in full."""
    from pied import suite as problems

    if name is None:
        rows = problems.table()
        if as_json:
            _print_json(rows)
        else:
            _print_table(
                [{**row, "optimum": _number(row["optimum"]), "feasible": _number(row["feasible"])} for row in rows],
                right=("d", "m", "n", "optimum", "feasible"),
            )
        return
    benchmark = problems.get(name)
    if as_json:
        _print_json(_benchmark_data(benchmark))
    else:
        click.echo(_benchmark_text(benchmark))


def _benchmark_data(benchmark: Any) -> dict[str, Any]:
    """Return a problem of the suite as JSON-able data."""
    problem, known, reading = benchmark.problem, benchmark.known, benchmark.printed
    structure = {
        name: {"kind": each.kind, "outputs": [problem.outputs[j] for j in each.outputs]}
        for name, each in zip(problem.functions, problem.structure, strict=True)
    }
    return {
        "name": benchmark.name,
        "d": problem.d,
        "m": problem.m,
        "n": problem.n,
        "statement": problem.statement(),
        "structure": structure,
        "feasible": benchmark.feasible_fraction,
        "optimum": None
        if known is None
        else {
            "value": known.value,
            "x": dict(known.x),
            "others": [dict(other) for other in known.others],
            "source": known.source,
        },
        "reading": None
        if reading is None
        else {"paper": reading.paper, "code": reading.code, "ours": reading.ours, "why": reading.why},
    }


def _benchmark_text(benchmark: Any) -> str:
    """Return a problem of the suite in full, for people."""
    data = _benchmark_data(benchmark)
    statement, structure = data["statement"], data["structure"]
    lines = [f"{data['name']}: {data['d']} variables, {data['m']} outputs, {data['n']} constraints", ""]
    sense = statement["sense"] if data["optimum"] is not None else "find"
    objective, limits = statement["objective"], statement["subject_to"]
    lines.append(f"{sense} {_told(objective)}   [{structure[objective['name']]['kind']}]")
    for limit in limits:
        text = _told(limit)
        shown = limit["name"] if text == limit["name"] else f"{limit['name']}: {text}"
        lines.append(f"  subject to {shown}   [{structure[limit['name']]['kind']}]")
    lines += ["", "variables"]
    lines += [f"  {name} in [{each['lo']:g}, {each['hi']:g}]" for name, each in statement["variables"].items()]
    lines.append("outputs (and what they depend on)")
    for name, seen in statement["inputs"].items():
        lo, hi = statement["ranges"][name]
        inside = "" if lo is None and hi is None else f"   within [{_open(lo, '-')}, {_open(hi, '')}]"
        lines.append(f"  {name} ({', '.join(seen)}){inside}")
    known = data["optimum"]
    lines.append("")
    if known is None:
        lines.append("optimum: none, any feasible point will do")
    else:
        lines.append(f"optimum {known['value']:.10g} at {_point(known['x'])}")
        lines += [f"  and at {_point(other)}" for other in known["others"]]
        lines.append(f"  known because: {known['source']}")
    lines.append(f"feasible fraction of the box: {data['feasible']:.5g}")
    if benchmark.printed is not None:
        reading = data["reading"]
        words = (("the paper printed", "paper"), ("the authors' code has", "code"), ("we read", "ours"), ("why", "why"))
        lines += ["", *(f"{title}: {reading[key]}" for title, key in words)]
    return "\n".join(lines)


def _told(function: Mapping[str, Any]) -> str:
    return function.get("formula") or function["name"]


def _open(end: float | None, sign: str) -> str:
    return f"{sign}inf" if end is None else f"{end:g}"


def _point(x: Mapping[str, float]) -> str:
    return ", ".join(f"{name} = {value:.9g}" for name, value in x.items())


# ------------------------------------------------------------------------------------------------ solvers


@main.command()
@click.argument("name", required=False)
@_as_json
def solvers(name: str | None, as_json: bool) -> None:
    """List the solvers, or show the one called NAME with its settings."""
    from pied.solvers import make, registry

    if name is not None:
        make(name)  # an unknown name says so
    rows = [_solver_data(each) for each in (registry if name is None else [name])]
    if as_json:
        _print_json(rows if name is None else rows[0])
    elif name is None:
        _print_table([{key: row[key] for key in ("name", "parallel", "what")} for row in rows])
    else:
        click.echo(f"{name}: {rows[0]['what']}")
        for line in _indented(rows[0]["settings"]):
            click.echo(line)


def _solver_data(name: str) -> dict[str, Any]:
    """Return a solver's name, purpose and settings as JSON-able data."""
    import dataclasses
    from importlib import import_module

    from pied.solvers import make, registry

    module, maker = registry[name].split(":")
    solver = make(name)
    settings: dict[str, Any] = dataclasses.asdict(solver) if dataclasses.is_dataclass(solver) else {}
    what = (getattr(import_module(module), maker).__doc__ or "").strip().splitlines()[0]
    return {"name": name, "parallel": "yes" if solver.parallel else "no", "what": what, "settings": settings}


def _indented(settings: Mapping[str, Any], depth: int = 1) -> list[str]:
    """Return settings as lines, groups indented."""
    lines = []
    for name, value in settings.items():
        if isinstance(value, Mapping):
            lines += [f"{'  ' * depth}{name}", *_indented(value, depth + 1)]
        else:
            lines.append(f"{'  ' * depth}{name} = {value!r}")
    return lines


# ------------------------------------------------------------------------------------------------ printing


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.7g}"


def _print_json(data: Any) -> None:
    click.echo(json.dumps(data, indent=2, ensure_ascii=False))


def _print_table(rows: Sequence[Mapping[str, Any]], right: Sequence[str] = ()) -> None:
    """Print rows under a heading; on a terminal the last column is cut to fit."""
    import shutil

    names = list(rows[0])
    cells = [names, *([str(row[name]) for name in names] for row in rows)]
    widths = [max(len(line[place]) for line in cells) for place in range(len(names))]
    if sys.stdout.isatty():
        spare = shutil.get_terminal_size().columns - sum(widths[:-1]) - 2 * (len(names) - 1)
        widths[-1] = min(widths[-1], max(spare, NARROW))
    for line in cells:
        shown = []
        for place, (name, cell) in enumerate(zip(names, line, strict=True)):
            cell = cell if len(cell) <= widths[place] else f"{cell[: widths[place] - 3]}..."
            shown.append(cell.rjust(widths[place]) if name in right else cell.ljust(widths[place]))
        click.echo("  ".join(shown).rstrip())
