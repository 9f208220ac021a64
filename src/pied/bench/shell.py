"""The commands of the bench: `pied bench run | paper | profile | table | regret | compare | export | import`."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from pied.shell.speech import INTERRUPTED, note, say

BAR_CHARACTERS = 28
"""Width of the progress bar."""
NOTE_SECONDS = 10.0
"""Between lines of progress if there is no terminal."""

_store = click.option(
    "--store", type=click.Path(dir_okay=False, path_type=Path), default=Path("bench.db"), show_default=True,
    help="SQLite file of the records.",
)  # fmt: skip
_workers = click.option("--workers", type=click.IntRange(min=1), help="Processes; all processors by default.")
_only = click.option("--only", multiple=True, metavar="NAME", help="A problem, set or solver; may be repeated.")
_part = click.option("--part", "parts", multiple=True, metavar="NAME", help="A part of the plan; may be repeated.")
_seeds = click.option("--seeds", type=click.IntRange(min=1), help="How many seeds, from 0.")
_budget = click.option("--budget", type=click.IntRange(min=1), help="Evaluations of each run.")
_again = click.option("--again", is_flag=True, help="Also continue runs that failed.")
_picture = click.option(
    "--out", type=click.Path(dir_okay=False, path_type=Path), help="Draw a picture here, as .svg and .png."
)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def bench() -> None:
    """Run plans of problems x solvers x seeds, and compare the results."""


# ------------------------------------------------------------------------------------------------ running


@bench.command()
@click.argument("plan", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--store", type=click.Path(dir_okay=False, path_type=Path), help="SQLite file of the records; PLAN.db by default."
)
@_workers
@_part
@_only
@_seeds
@_budget
@_again
@click.option("--dask", metavar="ADDRESS", help="Run on a Dask cluster whose workers reach the store's file.")
def run(
    plan: Path,
    store: Path | None,
    workers: int | None,
    parts: tuple[str, ...],
    only: tuple[str, ...],
    seeds: int | None,
    budget: int | None,
    again: bool,
    dask: str | None,
) -> None:
    """Run a plan, or the rest of it."""
    from pied.bench.plan import Plan

    wanted = Plan.read(plan).narrowed(only, seeds, budget, parts)
    _run(wanted, store or plan.with_suffix(".db"), workers, again, dask)


@bench.command()
@click.option("--quick", is_flag=True, help="A small version: under five minutes on two quiet cores.")
@click.option(
    "--store", type=click.Path(dir_okay=False, path_type=Path),
    help="SQLite file of the records; paper.db or quick.db by default.",
)  # fmt: skip
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of the pictures; the store's name by default.",
)
@_workers
@_part
@_only
@_seeds
@_again
@click.option("--no-run", is_flag=True, help="Draw from the stored runs only.")
def paper(
    quick: bool,
    store: Path | None,
    out: Path | None,
    workers: int | None,
    parts: tuple[str, ...],
    only: tuple[str, ...],
    seeds: int | None,
    again: bool,
    no_run: bool,
) -> None:
    """Reproduce every figure of the paper; continues where it was stopped."""
    from pied.bench import paper as experiments
    from pied.bench.origin import cores

    place = store or Path("quick.db" if quick else "paper.db")
    plan = experiments.plan(quick).narrowed(only, seeds, None, parts)  # also with --no-run: checks the names
    if not no_run:
        _run(plan, place, workers, again, None)
    folder = out or place.with_suffix("")
    text = experiments.write(place, folder, quick=quick, workers=workers or cores())
    say(text)
    say(f"Pictures, curves and this page (paper.md) are in {folder}.")


def _run(plan: Any, store: Path, workers: int | None, again: bool, dask: str | None) -> None:
    from pied.bench import drive
    from pied.bench.origin import cores
    from pied.evaluation import executors

    executor = executors.dask(dask) if dask else None
    tasks = plan.tasks()
    bar = _Bar()
    summary = drive.run(tasks, store, workers=workers or cores(), executor=executor, again=again, on_step=bar.step)
    bar.end()
    for line in summary.failed:
        note(f"failed: {line}")
    hours = summary.core_seconds / 3600
    note(
        f"{len(tasks)} runs: {summary.skipped} done before, {summary.done} now ({len(summary.failed)} failed), "
        f"{summary.left} left; {summary.seconds:.0f} s, {hours:.2f} core-hours. Records: {store}"
    )
    if summary.is_interrupted:
        sys.exit(INTERRUPTED)


class _Bar:
    """Progress on the error stream: a bar with the remaining time on a terminal, lines at intervals elsewhere."""

    def __init__(self) -> None:
        self.is_live = sys.stderr.isatty()
        self.said = -NOTE_SECONDS

    def step(self, step: Any) -> None:
        """Show one more finished run."""
        if self.is_live:
            filled = round(BAR_CHARACTERS * step.done / step.all)
            click.echo(f"\r\x1b[K[{'#' * filled}{'.' * (BAR_CHARACTERS - filled)}] {step}", nl=False, err=True)
        elif step.gone - self.said >= NOTE_SECONDS or step.done == step.all:
            self.said = step.gone
            note(str(step))

    def end(self) -> None:
        """End the line of the bar."""
        if self.is_live:
            click.echo("", err=True)


# ------------------------------------------------------------------------------------------------ results


def _grid(store: Path, only: tuple[str, ...], workers: int | None, noise: float | None = None) -> Any:
    """Return the requested runs of a store as a grid."""
    from pied import suite
    from pied.bench.curves import grid, load
    from pied.bench.ledger import Ledger
    from pied.bench.origin import cores
    from pied.errors import SettingError, did_you_mean

    with Ledger(store, read_only=True) as ledger:
        tasks = [entry.task for entry in ledger.entries().values()]
    names = {name for word in only for name in suite.sets.get(word, (word,))}
    solvers, problems = {task.solver_name for task in tasks}, {task.problem for task in tasks}
    for word in only:
        if word not in solvers | problems | set(suite.sets):
            raise SettingError(f"there are no runs of '{word}'.{did_you_mean(word, sorted(solvers | problems))}")
    tasks = [task for task in tasks if task.noise == (noise or 0.0)]
    if names & problems:
        tasks = [task for task in tasks if task.problem in names]
    if names & solvers:
        tasks = [task for task in tasks if task.solver_name in names]
    return grid(load(store, tasks, workers=workers or cores()), [word for word in only if word in solvers])


@bench.command()
@_store
@_only
@click.option("--tau", type=click.FloatRange(min=0, max=1), default=0.01, show_default=True, help="Tolerance.")
@click.option(
    "--strict", is_flag=True, help="Against the known optimum, strictly feasible, instead of the paper's test."
)
@click.option("--data", is_flag=True, help="Data profile: by groups of d + 1 evaluations.")
@_picture
@_workers
def profile(
    store: Path, only: tuple[str, ...], tau: float, strict: bool, data: bool, out: Path | None, workers: int | None
) -> None:
    """Fraction of problems solved by each solver, as evaluations go on."""
    import numpy as np

    from pied.bench import figures, pages, profiles

    side = _grid(store, only, workers)
    times = (
        profiles.strict_times(side.strict(), tau) if strict else profiles.paper_times(side.values(), side.starts(), tau)
    )
    if data:
        across = np.arange(1.0, side.budget / (side.dimensions.min() + 1.0) + 1.0)
        shown, unit = profiles.data_profile(times, side.dimensions, across), "groups of d + 1 evaluations"
    else:
        across, unit = np.arange(1.0, side.budget + 1.0), "evaluations"
        shown = profiles.profile(times, side.budget)
    places = sorted({int(len(across) * part) - 1 for part in (0.25, 0.5, 0.75, 1.0) if int(len(across) * part)})
    rows = [[f"`{w}`", *(f"{shown[i, t]:.0%}" for t in places)] for i, w in enumerate(side.solvers)]
    say(pages.table([f"solved after ... {unit}", *(f"{across[t]:g}" for t in places)], rows))

    def draw(axes: Any) -> None:
        title = f"tau = {tau:g}, " + ("strictly feasible, known optimum" if strict else "the paper's test")
        figures.draw_profile(axes, side.solvers, shown, across=across, unit=unit, title=title)

    _draw(out, draw)


@bench.command()
@_store
@_only
@_workers
def table(store: Path, only: tuple[str, ...], workers: int | None) -> None:
    """Problems solved, and evaluations to 1e-2, 1e-3, 1e-4, by solver and problem."""
    from pied.bench import pages
    from pied.bench.ledger import Ledger

    side = _grid(store, only, workers)
    with Ledger(store, read_only=True) as ledger:
        entries = [entry for entry in ledger.entries().values() if entry.task.solver_name in side.solvers]
    say(pages.heading("Runs", entries))
    say(f"\n{pages.solved_table(side)}\n\n{pages.evaluations_table(side)}")
    failed = pages.failures(entries)
    if failed:
        say(f"\nRuns that failed:\n\n{failed}")


@bench.command()
@click.argument("problem")
@_store
@_only
@click.option("--noise", type=float, help="Of the runs with this noise.")
@click.option("--rule", help="Regret of what this rule recommends; by default of the best sample so far.")
@click.option(
    "--measure", type=click.Choice(["simple", "strict", "cumulative", "positive", "violation"]), default="simple",
    show_default=True, help="Simple penalized, strictly feasible, cumulative (positive) regret, or violation.",
)  # fmt: skip
@_picture
@_workers
def regret(
    problem: str,
    store: Path,
    only: tuple[str, ...],
    noise: float | None,
    rule: str | None,
    measure: str,
    out: Path | None,
    workers: int | None,
) -> None:
    """Regret on PROBLEM after each evaluation: medians and quartiles over seeds."""
    from pied.bench import figures, pages

    side = _grid(store, (problem, *only), workers, noise)
    regrets = side.simple(rule) if measure == "simple" else getattr(side, measure)()
    horizons = sorted({max(1, round(side.budget * part)) for part in (0.1, 0.25, 0.5, 0.75, 1.0)})
    say(pages.regret_table(side, regrets, horizons))
    _draw(out, lambda axes: figures.draw_regret(axes, side.solvers, regrets[:, 0], title=f"{problem}: {measure}"))


@bench.command()
@click.argument("solver")
@_store
@_only
@click.option("--each", is_flag=True, help="Also problem by problem.")
@_workers
def compare(solver: str, store: Path, only: tuple[str, ...], each: bool, workers: int | None) -> None:
    """Compare SOLVER with every other one: Wilcoxon's test paired over seeds, Holm-corrected."""
    from pied.bench import pages
    from pied.errors import SettingError, did_you_mean

    side = _grid(store, only, workers)
    if solver not in side.solvers:
        raise SettingError(f"there are no runs of '{solver}'.{did_you_mean(solver, side.solvers)}")
    say(pages.comparison_table(pages.comparisons(side, solver, each=each), solver))


@bench.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@_store
@_only
@_workers
def export(file: Path, store: Path, only: tuple[str, ...], workers: int | None) -> None:
    """Write every evaluation to FILE as CSV."""
    from pied.bench import pages

    side = _grid(store, only, workers)
    note(f"{pages.export(side.curves.values(), file)} evaluations are in {file}.")


@bench.command("import")
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@_store
def take_in(files: tuple[Path, ...], store: Path) -> None:
    """Import runs that were made elsewhere (python -m pied.bench.away) into the store."""
    from pied.bench.away import lines
    from pied.bench.transfer import take
    from pied.errors import SettingError

    records = []
    for file in files:
        found = list(lines(file))
        if not found or not all(isinstance(record, dict) and "task" in record for record in found):
            raise SettingError(f"'{file}' has no runs: give a file written by `python -m pied.bench.away`")
        records += found
    with click.progressbar(records, label="Importing runs", file=sys.stderr) as bar:
        runs, old = take(bar, store)
    note(f"{runs} runs imported into {store}, {old} were there before.")


def _draw(out: Path | None, draw: Callable[[Any], None]) -> None:
    if out is None:
        return
    from pied.bench import figures

    figure, axes = figures.panels(1, 1, width=6.4, height=4.6)
    draw(axes[0, 0])
    figures.legend(figure, axes[0, 0])
    for file in figures.save(figure, out):
        note(f"Figure written to {file}.")
