"""How much better any settings could still be: from what was written down with proposals, without a belief."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

WIDEST = 10.0
"""In ranges of the told objective: a larger gap says nothing, and is not told."""
UNSHOWN = 2.0
"""In ranges of the told objective: a smaller gap is not told while it rests on a smoothness that was not shown."""


class Unknown(Enum):
    """Why no gap is told, as a phrase."""

    UNCERTAIN = "no settings are known to meet all limits"
    REFUTED = "measurements refuted the bounds; the next proposal tells it"
    CORRECTED = "the record was corrected; the next proposal tells it"
    UNASKED = "nothing was proposed for this question yet; the next proposal tells it"
    SPREAD = "the first points are only spread over the ranges"
    UNTOLD = "the solver has no belief about it"
    TOO_WIDE = "its bounds are ten times as wide as all that was measured"
    UNSURE = "too little was measured to know how smooth the outputs are"


@dataclass(frozen=True)
class Gap:
    """How much better any settings could still be, or why that is not told; the same wherever it is shown."""

    width: float | None
    """Natural units; infinite while nothing is certain or it would say nothing, None without a belief about it."""
    relative: float | None = None
    """The same relative to the size of the objective."""
    why: str = ""
    """Why it is not told, as a phrase; empty if it is."""


def gap(optima: Sequence[float], certain: float | None) -> float:
    """Return U - L: how much better any point could still be, by the beliefs so far.

    U is the smallest optimistic optimum of all beliefs, because all bounds hold together. An optimum below L has been
    refuted and is ignored; when all are refuted, the gap is infinite.

    Args:
        optima: Largest upper bound of the objective of each belief that was searched.
        certain: L, certified objective of the recommended point; None when there is none.
    """
    if certain is None:
        return math.inf
    return min((top for top in optima if top >= certain), default=math.inf) - certain


def recorded_gap(
    optima: Sequence[float], possible: float | None, certain: float | None, span: float, *, assumes_smooth: bool
) -> float:
    """Return the gap as it follows from a record alone; infinite where it cannot be told.

    Args:
        optima: Largest upper bound of the objective of each belief that was searched.
        possible: What the last belief called possible where it is doubted (`Why.possible`); None: it said nothing.
        certain: Objective that is certain.
        span: Range of the told objective.
        assumes_smooth: Whether the last belief took outputs for smoother than was shown (`Why.assumes_smooth`).
    """
    width = gap(optima, certain)
    if possible is not None and certain is not None:
        width = max(width, possible - certain)
    return told_width(width, span, assumes_smooth=assumes_smooth)


def told_width(width: float, span: float, *, assumes_smooth: bool) -> float:
    """Return a gap as it is told: infinite where it is so large, or rests on so little, that it says nothing."""
    is_shown = not assumes_smooth or width >= UNSHOWN * span
    return width if is_shown and width <= WIDEST * span else math.inf
