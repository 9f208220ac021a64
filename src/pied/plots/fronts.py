"""Pictures of a front: the best trade-offs, what else was measured, and where the front could lie."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy import ndarray

from pied.errors import SettingError
from pied.hypervolume import nondominated
from pied.plots.drawing import BLUE, GREY, ORANGE, SKY, VERMILION, new_figure
from pied.records import feasible
from pied.shapes import Bool, Float64, Int
from pied.study import Snapshot, Study

PANEL = 4.6
"""Inches of one panel."""


@dataclass(frozen=True, eq=False)
class TradeOffs:
    """What a picture of a front shows; values have the user's signs.

    Example: `docs/guide-decisions.md`.
    """

    trials: Int[ndarray, "N"]
    """Numbers of the told trials."""
    values: Float64[ndarray, "N r"]
    """Their objectives."""
    met: Bool[ndarray, "N"]
    """Which of them meet all limits."""
    steps: Float64[ndarray, "c r"]
    """Of two objectives: the corners of the edge of what the front dominates, else none."""
    possible: Float64[ndarray, "e r"]
    """The same of the front as it could be at best."""


def trade_offs(study: Study | Snapshot) -> TradeOffs:
    """Return what a picture of the front shows.

    Example: `docs/guide-decisions.md`.

    Args:
        study: A study of several objectives, or its data at one moment.
    """
    snapshot = study.snapshot if isinstance(study, Study) else study
    problem, front = snapshot.problem, snapshot.front
    f = snapshot.data.functions(problem.side_by_side)
    names, signs = problem.objectives, problem.goal_signs
    none = np.zeros((0, len(names)))
    known = np.array([[point.values[name] for name in names] for point in front]).reshape(-1, len(names))
    return TradeOffs(
        np.array(snapshot.data.numbers, dtype=int),
        f[:, problem.goal_places] * signs,
        feasible(problem, f[:, : problem.k]),
        _staircase(known, signs) if len(names) == 2 and len(known) else none,
        _staircase(front.possible, signs) if len(names) == 2 and len(front.possible) else none,
    )


def plot_front(study: Study, *, axes: Any = None) -> Any:
    """Draw the front of a study of several objectives with its bounds, and return the axes.

    With three or more objectives there is one panel for each pair of neighbouring ones, and a tuple is returned.

    Example: `docs/guide-decisions.md`.

    Args:
        study: The study.
        axes: Where to draw two objectives; by default in a new figure.
    """
    problem = study.problem
    if not problem.has_front:
        raise SettingError("there is one objective, so there is no front: draw the history instead")
    pairs = [(place, place + 1) for place in range(len(problem.objectives) - 1)]
    if axes is not None:
        _draw_pair(axes, study, pairs[0])
        return axes
    figure = new_figure((PANEL * len(pairs) + 1.6, PANEL))
    drawn = tuple(figure.add_subplot(1, len(pairs), place + 1) for place in range(len(pairs)))
    for panel, pair in zip(drawn, pairs, strict=True):
        _draw_pair(panel, study, pair)
    return drawn[0] if len(drawn) == 1 else drawn


def _draw_pair(axes: Any, study: Study, pair: tuple[int, int]) -> None:
    """Draw two of the objectives."""
    problem, front = study.problem, study.snapshot.front
    names, a, b = problem.objectives, *pair
    shown = trade_offs(study)
    P, fine, up = shown.values, shown.met, shown.possible
    bad = ~fine & np.isfinite(P).all(1)
    if len(up):
        axes.plot(up[:, 0], up[:, 1], color=SKY, linewidth=2.0, label="the front is probably not beyond this")
    axes.scatter(P[bad, a], P[bad, b], marker="x", s=26, color=VERMILION, label="breaks a limit")
    axes.scatter(P[fine, a], P[fine, b], s=20, color=GREY, label="all limits met" if problem.n else "measured")
    x, y = (np.array([point.values[names[place]] for point in front]) for place in pair)
    if len(front):
        ends = [np.array([point.bounds[names[place]] for point in front]).T for place in pair]
        away = [np.abs(np.stack([each - low, high - each])) for each, (low, high) in zip((x, y), ends, strict=True)]
        axes.errorbar(x, y, xerr=away[0], yerr=away[1], fmt="none", ecolor=SKY, elinewidth=1.5, zorder=2)
        axes.plot(shown.steps[:, 0], shown.steps[:, 1], color=BLUE, linewidth=1.2, zorder=2)
        axes.scatter(x, y, s=34, color=BLUE, edgecolors="black", linewidths=0.6, zorder=3, label="best trade-offs")
        knee = front.pick()
        axes.scatter(
            [knee.values[names[a]]], [knee.values[names[b]]], s=90, facecolors="none", edgecolors=ORANGE, linewidths=2,
            zorder=4, label="balanced",
        )  # fmt: skip
    for place, label in zip(pair, (axes.set_xlabel, axes.set_ylabel), strict=True):
        unit = problem.goal_units[place]
        word = "less" if problem.goal_signs[place] < 0 else "more"
        label(f"{names[place]}{f' [{unit}]' if unit else ''} ({word} is better)")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="best", fontsize="small")


def _staircase(P: Any, signs: Any) -> Any:
    """Return the corners of the edge of what a front of two objectives dominates."""
    P = P * signs
    P = P[nondominated(P)]
    P = P[P[:, 0].argsort()]
    corners = np.repeat(P, 2, 0)
    corners[1:-1:2, 0], corners[1:-1:2, 1] = P[:-1, 0], P[1:, 1]
    return corners * signs
