"""The commands `pied demo`, `suite` and `solvers`."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from pied import above
from pied.errors import MissingExtra
from pied.shell.options import as_json
from pied.shell.speech import INTERRUPTED, Mistake, Progress, say, say_json, say_table

# ------------------------------------------------------------------------------------------------ demo


@click.command()
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
@click.option("--dashboard", is_flag=True, help="Show it in a browser, with the study filling up.")
@as_json
def demo(budget: int, seed: int, picture: Path, dashboard: bool, as_json: bool) -> None:
    """Find the best operating point of the Williams-Otto reactor, a simulator that counts as expensive."""
    if dashboard:
        if as_json:
            raise Mistake("the dashboard is for people: leave out --json, or --dashboard")
        above.offered("dashboard demo")(budget, seed=seed)
        return
    from pied.errors import Status
    from pied.shell import demo as play

    _check_folder(picture)
    progress = Progress(budget, quiet=as_json)
    progress.say(play.INTRODUCTION)
    progress.say("")
    progress.say(play.heading())
    study, result = play.run(budget, seed=seed, on_tell=lambda study, trial: progress.step(play.line(study, trial)))
    progress.end()
    if as_json:
        drawn, _ = _draw(study, picture)
        say_json(play.as_data(result, picture if drawn else None))
    else:
        say(f"\n{play.report(result)}\n")
        say(_draw(study, picture)[1])
    if result.status is Status.INTERRUPTED:
        sys.exit(INTERRUPTED)


def _draw(study: Any, picture: Path) -> tuple[bool, str]:
    """Draw the picture; return whether that was possible, and a sentence."""
    from pied.shell import demo as play

    if not study.trials:
        return False, "No picture: nothing was evaluated."
    try:
        play.draw(study, picture)
    except MissingExtra as error:
        return False, f"No picture: {error}"
    return True, f"The picture is in {picture}."


def _check_folder(file: Path) -> None:
    """Check before the run that the picture can be written."""
    if not file.resolve().parent.is_dir():
        raise Mistake(f"there is no folder '{file.parent}' to write '{file.name}' to")


# ------------------------------------------------------------------------------------------------ suite


@click.command()
@click.argument("name", required=False)
@as_json
def suite(name: str | None, as_json: bool) -> None:
    """List the test problems, or show the one called NAME in full."""
    from pied import suite as problems

    if name is None:
        rows = problems.table()
        if as_json:
            say_json(rows)
        else:
            say_table(
                [{**row, "optimum": _number(row["optimum"]), "feasible": _number(row["feasible"])} for row in rows],
                right=("d", "m", "n", "optimum", "feasible"),
            )
        return
    benchmark = problems.get(name)
    if as_json:
        say_json(_benchmark_data(benchmark))
    else:
        say(_benchmark_text(benchmark))


def _benchmark_data(benchmark: Any) -> dict[str, Any]:
    """Return a problem of the suite as JSON-able data."""
    from pied.shell.pages import structure_of

    problem, known, reading = benchmark.problem, benchmark.known, benchmark.printed
    return {
        "name": benchmark.name,
        "d": problem.d,
        "m": problem.m,
        "n": problem.n,
        "statement": problem.statement(),
        "structure": structure_of(problem),
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
    from pied.shell.pages import sizes, statement_lines

    data, problem = _benchmark_data(benchmark), benchmark.problem
    lines = [f"{benchmark.name}: {sizes(problem)}", ""]
    lines += statement_lines(problem, sense="find" if benchmark.known is None else None)
    known = data["optimum"]
    lines.append("")
    if known is None:
        lines.append("optimum: none, any feasible point will do")
    else:
        lines.append(f"optimum {known['value']:.10g} at {_point(known['x'])}")
        lines += [f"  and at {_point(other)}" for other in known["others"]]
        lines.append(f"  known because: {known['source']}")
    lines.append(f"feasible part of the ranges: {data['feasible']:.5g}")
    if benchmark.printed is not None:
        reading = data["reading"]
        words = (("the paper printed", "paper"), ("the authors' code has", "code"), ("we read", "ours"), ("why", "why"))
        lines += ["", *(f"{title}: {reading[key]}" for title, key in words)]
    return "\n".join(lines)


def _point(x: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} = {value:.9g}" for name, value in x.items())


# ------------------------------------------------------------------------------------------------ solvers


@click.command()
@click.argument("name", required=False)
@as_json
def solvers(name: str | None, as_json: bool) -> None:
    """List the solvers, or show the one called NAME with its settings."""
    from pied.solvers import make, registry

    if name is not None:
        make(name)  # an unknown name says so
    rows = [_solver_data(each) for each in (registry if name is None else [name])]
    if as_json:
        say_json(rows if name is None else rows[0])
    elif name is None:
        say_table([{key: row[key] for key in ("name", "parallel", "what")} for row in rows])
    else:
        say(f"{name}: {rows[0]['what']}")
        for line in _indented(rows[0]["settings"]):
            say(line)


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


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.7g}"
