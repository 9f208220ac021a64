"""Figures of the benchmarks, readable in print and by colour-blind readers."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy import ndarray

from pied.bench import measures
from pied.plots import new_figure

Axes = Any
"""matplotlib.axes.Axes; matplotlib is imported in `plots` only."""
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C8C8C", "#7A5195")
"""Okabe and Ito's colours and two more; each solver also has its own marker and line style, for print in grey."""
MARKS = ("o", "s", "^", "D", "v", "P", "X", "*", "h")
LINES = ("-", "-", "-", "-", "--", "--", "--", "--", ":")
WIDTH, HEIGHT = 4.6, 3.4
"""Inches of one panel."""


def style(place: int) -> dict[str, Any]:
    """Return colour, line style and marker of a line, by its position."""
    return {
        "color": COLOURS[place % len(COLOURS)],
        "linestyle": LINES[place % len(LINES)],
        "marker": MARKS[place % len(MARKS)],
        "markersize": 4.5,
        "linewidth": 1.6,
    }


def panels(rows: int, columns: int, *, width: float = WIDTH, height: float = HEIGHT) -> tuple[Any, ndarray]:
    """Return a figure and its axes."""
    figure = new_figure((width * columns, height * rows))
    axes = figure.subplots(rows, columns, squeeze=False)
    for each in axes.flat:
        each.spines[["top", "right"]].set_visible(False)
        each.grid(color="0.88", linewidth=0.6)
        each.set_axisbelow(True)
    return figure, axes


def save(figure: Any, file: Path) -> list[Path]:
    """Write a figure as SVG and PNG; an image suffix of the name is ignored."""
    stem = file.with_suffix("") if file.suffix in (".svg", ".png", ".pdf") else file
    stem.parent.mkdir(parents=True, exist_ok=True)
    written = []
    for ending in (".svg", ".png"):
        target = stem.with_name(stem.name + ending)
        figure.savefig(target, dpi=160, metadata={"Date": None} if ending == ".svg" else None)
        written.append(target)
    return written


def draw_profile(
    axes: Axes, names: Sequence[str], profiles: ndarray, *, title: str = "", across: ndarray | None = None,
    unit: str = "evaluations",
) -> None:  # fmt: skip
    """Draw the fraction of problems solved, one line per solver."""
    x = np.arange(1, profiles.shape[1] + 1) if across is None else across
    every = max(len(x) // 8, 1)
    for place, name in enumerate(names):
        offset = place * every // max(len(names), 1)
        axes.plot(x, profiles[place], drawstyle="steps-post", label=name, markevery=(offset, every), **style(place))
    axes.set_ylim(-0.02, 1.03)
    axes.set_xlim(x[0], x[-1])
    axes.set_xlabel(unit)
    axes.set_ylabel("problems solved")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    axes.set_title(title, fontsize="medium")


def draw_regret(axes: Axes, names: Sequence[str], regrets: ndarray, *, title: str = "", floor: float = 1e-12) -> None:
    """Draw the median regret with a band of quartiles on a logarithmic axis; axes are names, seeds, evaluations."""
    x = np.arange(1, regrets.shape[-1] + 1)
    every = max(len(x) // 8, 1)
    for place, name in enumerate(names):
        low, middle, high = (np.where(np.isfinite(c), np.maximum(c, floor), np.nan) for c in _bands(regrets[place]))
        look = style(place)
        axes.plot(x, middle, label=name, markevery=(place * every // max(len(names), 1), every), **look)
        axes.fill_between(x, low, high, color=look["color"], alpha=0.14, linewidth=0)
    axes.set_yscale("log")
    axes.set_xlim(1, x[-1])
    axes.set_xlabel("evaluations")
    axes.set_ylabel("regret (median, quartiles)")
    axes.set_title(title, fontsize="medium")


def _bands(regrets: ndarray) -> tuple[ndarray, ndarray, ndarray]:
    return measures.quartiles(np.asarray(regrets, dtype=np.float64))


def legend(figure: Any, axes: Axes, columns: int = 3) -> None:
    """Draw one legend below all panels."""
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False, fontsize="small")


def profile_figure(names: Sequence[str], shown: Mapping[str, ndarray], file: Path) -> list[Path]:
    """Draw several kinds of profile next to each other, and write them."""
    figure, axes = panels(1, len(shown))
    for place, (title, profiles) in enumerate(shown.items()):
        draw_profile(axes[0, place], names, profiles, title=title)
    legend(figure, axes[0, 0])
    return save(figure, file)


def regret_figure(names: Sequence[str], shown: Mapping[str, ndarray], file: Path, columns: int = 2) -> list[Path]:
    """Draw regret curves in panels, and write them."""
    across = min(columns, len(shown))
    figure, axes = panels(-(-len(shown) // across), across)
    for place, (title, regrets) in enumerate(shown.items()):
        draw_regret(axes.flat[place], names, regrets, title=title)
    for unused in axes.flat[len(shown) :]:
        unused.set_visible(False)
    legend(figure, axes.flat[0])
    return save(figure, file)
