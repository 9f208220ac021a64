"""Pictures of a study: values, gap, feasible region.

What a picture shows is computed first, by pure functions (`history`, `gaps`, `region`), and drawn second, by functions
that take optional axes and return them. Nothing global: without axes a new figure is made, reachable as `axes.figure`.
Only this file knows matplotlib, and only the drawing needs it.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float64, Int64
from numpy import ndarray
from torch import Tensor

from pied.bounds import from_memory
from pied.errors import MissingExtra, SettingError
from pied.problem import Problem
from pied.records import Dataset, State, Trial, feasible, spread
from pied.rng import Stream
from pied.solvers.cuqb import CUQB
from pied.study import Result, Study, gap

# Okabe and Ito's colours: told apart by everyone, and by their grey on paper.
BLUE, SKY, ORANGE, VERMILION, GREY = "#0072B2", "#9CCBEA", "#E69F00", "#D55E00", "#6E6E6E"
ROUNDING = 1e-6
"""Of an upper bound: a lower bound this far below zero was held at zero by the search."""
GRID = 81
"""Points per side of a region: a boundary is drawn to a hundredth of the box."""

Axes = Any
"""matplotlib.axes.Axes; not imported, so that the data functions work without it."""
Truth = Callable[[Float64[Tensor, "b d"]], Float64[Tensor, "b k"]]
"""All functions at points in natural units, in the paper's form; `Benchmark.truth` is one."""


@dataclass(frozen=True, eq=False)
class History:
    """Value of each evaluation, in the user's sense and units."""

    numbers: Int64[ndarray, "t"]
    """Numbers of the trials."""
    values: Float64[ndarray, "t"]
    """Objective as observed; NaN where the trial failed, is pending or lacks an output the objective needs."""
    is_feasible: Bool[ndarray, "t"]
    """Whether all constraints were observed to hold."""
    best: Float64[ndarray, "t"]
    """Best feasible value so far; NaN before the first."""


@dataclass(frozen=True, eq=False)
class Gaps:
    """Gap after each trial, from the record alone."""

    numbers: Int64[ndarray, "t"]
    """Numbers of the trials."""
    gap: Float64[ndarray, "t"]
    """Natural units: NaN while nothing optimistic is known, infinite while nothing is certain."""


@dataclass(frozen=True, eq=False)
class Region:
    """What is believed feasible over the box of two variables; rows follow the second variable."""

    names: tuple[str, str]
    """The variables, across and up."""
    across: Float64[ndarray, "q"]
    up: Float64[ndarray, "q"]
    """Grid, natural units."""
    pessimistic: Float64[ndarray, "q q"]
    """Smallest scaled lower bound of the constraints: feasible at the level where it is >= 0."""
    optimistic: Float64[ndarray, "q q"]
    """Smallest scaled upper bound: possibly feasible where it is >= 0, excluded elsewhere."""
    objective: Float64[ndarray, "q q"]
    """The objective, the user's sense: the truth where one was given, else the median."""
    truth: Float64[ndarray, "q q"] | None = None
    """Smallest scaled constraint in truth, where a truth was given."""


# ------------------------------------------------------------------------------------------------ what is shown


def history(problem: Problem, trials: Sequence[Trial]) -> History:
    """Return the value of each evaluation, whether it was feasible, and the best so far."""
    f, told = _functions(problem, trials)
    is_feasible = np.zeros(len(trials), dtype=bool)
    is_feasible[told] = feasible(problem, f).numpy()
    f0 = np.full(len(trials), np.nan)
    f0[told] = f[:, 0].numpy()
    sign = problem.user_value(1.0)
    best = np.maximum.accumulate(np.where(is_feasible, f0, -np.inf))
    return History(_numbers(trials), sign * f0, is_feasible, sign * np.where(np.isfinite(best), best, np.nan))


def gaps(problem: Problem, trials: Sequence[Trial]) -> Gaps:
    """Return the gap after each trial: smallest optimistic optimum so far less what is certain.

    Certain is the best feasible value observed when the black box is exact. With noise it is the best lower bound, as
    it stood when its point was asked, among points whose constraints had lower bounds >= 0.
    """
    exact = all(noise == 0 for noise in problem.noise)
    found = np.full(len(trials), np.nan)
    for t in range(len(trials)):
        so_far = trials[: t + 1]
        tops = [trial.why.optimistic for trial in so_far if trial.why.optimistic is not None]
        if tops:
            certain = _observed(problem, so_far) if exact else _as_asked(so_far)
            found[t] = gap(tops, certain if np.isfinite(certain) else None)
    return Gaps(_numbers(trials), found)


def region(study: Study, *, truth: Truth | None = None, size: int = GRID) -> Region:
    """Return where the belief of a study of two variables holds the constraints for met, possible and excluded.

    Args:
        study: The study; at least two evaluations must have been told.
        truth: The functions themselves, where someone knows them.
        size: Points per side of the grid.
    """
    problem = study.problem
    if problem.d != 2:
        raise SettingError(f"a region is drawn over two variables; this problem has {problem.d}")
    if int(study.data.complete.sum()) < 2:
        raise SettingError("a region needs a belief: tell at least two complete evaluations first")
    steps = torch.linspace(0.0, 1.0, size, dtype=torch.float64)
    U = torch.cartesian_prod(steps, steps).flip(1)  # the first variable runs fastest: rows follow the second
    settings = study.solver if isinstance(study.solver, CUQB) else CUQB()
    data = study.data
    belief = settings.believer.fit(problem, data, from_memory(data.last.memory) if data.last is not None else None)
    composite = settings.believer.bound(problem, data, belief, Stream(study.seed).at("region"))
    lower, median, upper = composite.bounds(U, settings.level)
    scales = spread(median)  # one for all three, so that bounds that are ordered stay so
    X = problem.from_unit(U)
    true = truth(X) if truth is not None else None
    ends = X.reshape(size, size, 2)
    first, second = problem.variables
    return Region(
        names=(first, second),
        across=ends[0, :, 0].numpy(),
        up=ends[:, 0, 1].numpy(),
        pessimistic=_margin(lower, scales, size),
        optimistic=_margin(upper, scales, size),
        objective=problem.user_value(1.0) * (median if true is None else true)[:, 0].reshape(size, size).numpy(),
        truth=None if true is None else _margin(true, scales, size),
    )


def _numbers(trials: Sequence[Trial]) -> Int64[ndarray, "t"]:
    return np.array([trial.number for trial in trials], dtype=np.int64)


def _functions(problem: Problem, trials: Sequence[Trial]) -> tuple[Float64[Tensor, "N k"], list[int]]:
    """Return the functions at what was told, and the places of these trials."""
    data = Dataset.of(problem, trials)
    known = set(data.numbers)
    return data.functions(problem), [place for place, trial in enumerate(trials) if trial.number in known]


def _observed(problem: Problem, trials: Sequence[Trial]) -> float:
    """Return the best feasible value observed, paper's form; minus infinity when there is none."""
    f, _ = _functions(problem, trials)
    fine = f[feasible(problem, f), 0]
    return float(fine.max()) if len(fine) else -math.inf


def _as_asked(trials: Sequence[Trial]) -> float:
    """Return the best lower bound of a told point that was pessimistically feasible when it was asked."""
    certain = -math.inf
    for trial in trials:
        bounds = list(zip(trial.why.lower, trial.why.upper, strict=True))
        if trial.state is State.TOLD and bounds and all(low >= -ROUNDING * abs(high) for low, high in bounds[1:]):
            certain = max(certain, bounds[0][0])
    return certain


def _margin(f: Float64[Tensor, "b k"], scales: Float64[Tensor, "k"], size: int) -> Float64[ndarray, "q q"]:
    """Return the smallest scaled constraint; 1 everywhere without constraints."""
    if f.shape[1] == 1:
        return np.ones((size, size))
    return (f / scales)[:, 1:].amin(1).reshape(size, size).detach().numpy()


# ------------------------------------------------------------------------------------------------ how it is drawn


def plot_history(
    study: Study | Result, *, problem: Problem | None = None, known: float | None = None, axes: Axes = None
) -> Axes:
    """Draw the value of each evaluation, feasible or not, and the best so far.

    Args:
        study: A study, or a result together with `problem=`.
        problem: The statement, when a result is given: a result holds outputs, only the statement turns them to values.
        known: The optimal value where it is known, drawn as a line.
        axes: Where to draw; a new figure otherwise.
    """
    problem, trials = _record(study, problem)
    axes = _new_axes() if axes is None else axes
    shown = history(problem, trials)
    fine, bad = shown.is_feasible, ~shown.is_feasible & np.isfinite(shown.values)
    missing = ~np.isfinite(shown.values)
    if known is not None:
        axes.axhline(known, color="black", linestyle=":", linewidth=1.2, label=f"known optimum {known:.6g}")
    axes.step(shown.numbers, shown.best, where="post", color=BLUE, linewidth=1.8, label="best feasible so far")
    axes.scatter(
        shown.numbers[bad], shown.values[bad], marker="x", s=34, linewidths=1.5, color=VERMILION, label="infeasible"
    )
    axes.scatter(
        shown.numbers[fine], shown.values[fine], s=30, color=BLUE, edgecolors="black", linewidths=0.6, label="feasible",
        zorder=3,
    )  # fmt: skip
    if missing.any():
        axes.scatter(
            shown.numbers[missing], np.full(missing.sum(), 0.02), marker="v", s=26, color=GREY,
            transform=axes.get_xaxis_transform(), label="failed or not complete",
        )  # fmt: skip
    _mark_design(axes, trials)
    axes.set_ylabel(_short(problem.objective))
    axes.set_xlabel("evaluation")
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.legend(loc="best", fontsize="small", frameon=True, framealpha=0.9)
    _tidy(axes)
    return axes


def plot_gap(
    study: Study | Result, *, problem: Problem | None = None, known: float | None = None, axes: Axes = None
) -> Axes:
    """Draw the gap after each trial, on a logarithmic scale.

    Args:
        study: A study, or a result together with `problem=`.
        problem: The statement, when a result is given.
        known: The optimal value where it is known: how far the best feasible point truly is from it is drawn beside.
        axes: Where to draw; a new figure otherwise.
    """
    problem, trials = _record(study, problem)
    axes = _new_axes() if axes is None else axes
    shown = gaps(problem, trials)
    open_, closed = np.isfinite(shown.gap) & (shown.gap > 0), shown.gap == 0
    axes.set_yscale("log")
    axes.plot(
        shown.numbers[open_], shown.gap[open_], drawstyle="steps-post", color=ORANGE, linewidth=1.8, marker="o",
        markersize=4.5, markeredgecolor="black", markeredgewidth=0.5, label="gap, as believed",
    )  # fmt: skip
    if known is not None:
        away = np.abs(known - history(problem, trials).best)
        axes.step(shown.numbers, away, where="post", color="black", linestyle=":", label="true distance from optimum")
    if closed.any():
        axes.scatter(
            shown.numbers[closed], np.full(closed.sum(), 0.04), marker="v", s=24, facecolors="none", edgecolors=GREY,
            transform=axes.get_xaxis_transform(), label="0: the bounds have met",
        )  # fmt: skip
    if not (open_.any() or closed.any()):
        axes.text(0.5, 0.5, "no gap yet", transform=axes.transAxes, ha="center", va="center", color=GREY)
    elif closed.any():
        axes.set_ylim(bottom=0.2 * axes.dataLim.minposy)  # room for the marks of zero
    if axes.get_legend_handles_labels()[0]:
        axes.legend(loc="best", fontsize="small", frameon=True, framealpha=0.9)
    if len(trials):
        axes.set_xlim(*_span(trials))
    _mark_design(axes, trials)
    axes.set_ylabel("gap")
    axes.set_xlabel("evaluation")
    _tidy(axes)
    return axes


def plot_region(
    study: Study,
    *,
    truth: Truth | None = None,
    optimum: Mapping[str, float] | None = None,
    shown: Region | None = None,
    axes: Axes = None,
) -> Axes:
    """Draw the feasible region of two variables as it is believed to be, the samples and the recommended point.

    Args:
        study: The study.
        truth: The functions themselves, where someone knows them: their boundary is drawn too.
        optimum: The optimal point, where someone knows it.
        shown: The data, when `region` was called already.
        axes: Where to draw; a new figure otherwise.
    """
    shown = region(study, truth=truth) if shown is None else shown
    axes = _new_axes() if axes is None else axes
    problem, (first, second) = study.problem, shown.names
    handles = _draw_beliefs(axes, shown, problem)
    handles += _draw_samples(axes, problem, study.trials, first, second)
    recommended = study.result().x
    if optimum is not None:
        handles.append(
            axes.scatter(
                optimum[first], optimum[second], marker="s", s=190, facecolors="none", edgecolors="black",
                linewidths=1.3, zorder=5, label="known optimum",
            )
        )  # fmt: skip
    if recommended is not None:
        handles.append(
            axes.scatter(
                recommended[first], recommended[second], marker="*", s=230, color=ORANGE, edgecolors="black",
                linewidths=0.9, zorder=6, label="recommended",
            )
        )  # fmt: skip
    for name, axis, scale in ((first, axes.xaxis, axes.set_xscale), (second, axes.yaxis, axes.set_yscale)):
        variable = problem.variables[name]
        axis.set_label_text(f"{name} [{variable.unit}]" if variable.unit else name)
        if variable.log:
            scale("log")
    axes.set_xlim(shown.across[0], shown.across[-1])
    axes.set_ylim(shown.up[0], shown.up[-1])
    place = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.12), "ncols": 3}
    axes.legend(handles=handles, fontsize="small", frameon=False, **place)
    return axes


def plot_study(
    study: Study,
    *,
    truth: Truth | None = None,
    known: float | None = None,
    optimum: Mapping[str, float] | None = None,
    file: str | Path | None = None,
) -> tuple[Axes, ...]:
    """Draw history and gap, and beside them the region when there are two variables; write the picture to a file.

    Args:
        study: The study.
        truth: The functions themselves, for the boundary of the true region.
        known: The optimal value, where it is known.
        optimum: The optimal point, where it is known.
        file: Where to write the picture; its ending chooses the format.
    """
    has_region = study.problem.d == 2 and int(study.data.complete.sum()) >= 2
    figure = new_figure((11.0, 6.0) if has_region else (6.5, 5.6))
    grid = figure.add_gridspec(2, 2 if has_region else 1, width_ratios=(1.15, 1.0) if has_region else None)
    above = figure.add_subplot(grid[0, 0])
    below = figure.add_subplot(grid[1, 0], sharex=above)
    drawn: tuple[Axes, ...] = (plot_history(study, known=known, axes=above), plot_gap(study, known=known, axes=below))
    above.set_xlabel("")
    above.set_title("Value of each evaluation", loc="left", fontsize="medium")
    below.set_title("Gap: how much better any point could still be", loc="left", fontsize="medium")
    if has_region:
        side = plot_region(study, truth=truth, optimum=optimum, axes=figure.add_subplot(grid[:, 1]))
        side.set_title("Feasible region as believed, and the samples", loc="left", fontsize="medium")
        handles = side.get_legend().legend_handles
        side.get_legend().remove()
        figure.legend(
            handles=handles, loc="outside lower center", ncols=5, fontsize="small", frameon=False, markerscale=0.7
        )
        drawn = (*drawn, side)
    if file is not None:
        figure.savefig(file, dpi=150)
    return drawn


def _record(study: Study | Result, problem: Problem | None) -> tuple[Problem, tuple[Trial, ...]]:
    """Return the statement and the record."""
    if isinstance(study, Study):
        return study.problem, study.trials
    if problem is None:
        raise SettingError("a result does not hold its problem: give the study instead, or problem=")
    return problem, study.trials


def _draw_beliefs(axes: Axes, shown: Region, problem: Problem) -> list[Any]:
    """Draw what is surely and what is possibly feasible, the truth's boundary, the contours of the objective."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    axes.set_facecolor("white")
    edge: dict[str, Any] = {"edgecolor": GREY, "linewidth": 0.5}
    handles: list[Any] = []
    if problem.n:
        possible = np.minimum(shown.optimistic, -shown.pessimistic)
        axes.contourf(shown.across, shown.up, shown.pessimistic, levels=[0.0, np.inf], colors=[SKY])
        if bool((possible > 0).any()):
            hatched = axes.contourf(
                shown.across, shown.up, possible, levels=[0.0, np.inf], colors=["none"], hatches=["////"]
            )
            hatched.set_edgecolor(GREY)
            hatched.set_linewidth(0.0)
        handles += [
            Patch(facecolor=SKY, label="feasible at the level", **edge),
            Patch(facecolor="white", hatch="////", label="still possible", **edge),
            Patch(facecolor="white", label="excluded", **edge),
        ]
    if np.ptp(shown.objective) > 0:
        lines = axes.contour(shown.across, shown.up, shown.objective, levels=10, colors=GREY, linewidths=0.6)
        lines.set_linestyle("solid")
        axes.clabel(lines, fontsize=7, inline=True)
        kind = "median" if shown.truth is None else "true"
        handles.append(Line2D([], [], color=GREY, linewidth=0.8, label=f"{_short(problem.objective)} ({kind})"))
    if shown.truth is not None and problem.n and shown.truth.min() < 0 < shown.truth.max():
        axes.contour(shown.across, shown.up, shown.truth, levels=[0.0], colors="black", linewidths=1.4, linestyles="--")
        handles.append(Line2D([], [], color="black", linewidth=1.4, linestyle="--", label="true boundary"))
    return handles


def _draw_samples(axes: Axes, problem: Problem, trials: Sequence[Trial], first: str, second: str) -> list[Any]:
    """Draw the evaluated points: feasible, infeasible, failed."""
    fine = history(problem, trials).is_feasible
    told = np.array([trial.state is State.TOLD for trial in trials], dtype=bool)
    failed = np.array([trial.state is State.FAILED for trial in trials], dtype=bool)
    x = np.array([[trial.x[first], trial.x[second]] for trial in trials]).reshape(-1, 2)
    handles = []
    for chosen, label, style in (
        (
            fine,
            "evaluated, feasible",
            {"marker": "o", "s": 34, "color": BLUE, "edgecolors": "black", "linewidths": 0.6},
        ),
        (told & ~fine, "evaluated, infeasible", {"marker": "x", "s": 38, "color": VERMILION, "linewidths": 1.5}),
        (failed, "failed", {"marker": "v", "s": 30, "color": GREY}),
    ):
        if chosen.any():
            handles.append(axes.scatter(x[chosen, 0], x[chosen, 1], zorder=4, label=label, clip_on=False, **style))
    return handles


def _mark_design(axes: Axes, trials: Sequence[Trial]) -> None:
    """Shade the initial design, which no belief chose."""
    initial = [trial.number for trial in trials if trial.why.aim == "initial"]
    if initial:
        axes.axvspan(min(initial) - 0.5, max(initial) + 0.5, color="0.92", zorder=0)
        transform = axes.get_xaxis_transform()
        axes.text(min(initial) - 0.3, 0.03, "initial design", fontsize=7, color=GREY, transform=transform)
        axes.set_xlim(*_span(trials))


def _span(trials: Sequence[Trial]) -> tuple[float, float]:
    return trials[0].number - 0.5, trials[-1].number + 0.5


def _tidy(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="0.88", linewidth=0.6)
    axes.set_axisbelow(True)


def _short(name: str) -> str:
    """Return a name that fits beside an axis: a long formula is the objective, no more."""
    return name if len(name) <= 28 else "objective"


def new_figure(size: tuple[float, float]) -> Any:
    """Return a figure that belongs to no one else: no window, no global state."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtra("a plot", "matplotlib", "plots") from error
    return Figure(figsize=size, layout="constrained")


def _new_axes() -> Axes:
    return new_figure((6.4, 4.4)).add_subplot()
