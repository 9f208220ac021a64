"""How much better any settings could still be: from what was written down with proposals, without a belief.

The gap is U - L. U only falls while the question is the same: it is the smallest upper bound of the optimum that was
stated so far. It rises when a told value is above it (`refuted`), and after a correction, because what rests on a wrong
value no longer counts. The gap also rises with U unchanged when L falls: a recommendation was withdrawn.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from pied.records import Trial

WIDEST = 10.0
"""In ranges of the told objective: a larger gap says nothing, and is not told."""


class Unknown(Enum):
    """Why no gap is told, as a phrase."""

    UNCERTAIN = "no settings are known to meet all limits"
    REFUTED = "measurements refuted the bounds; the next proposal tells it"
    CORRECTED = "the record was corrected; the next proposal tells it"
    UNASKED = "nothing was proposed for this question yet; the next proposal tells it"
    SPREAD = "the first points are only spread over the ranges"
    UNTOLD = "the solver has no belief about it"
    TOO_WIDE = "its bounds are ten times as wide as all that was measured"
    FEW = "too few measurements to say"
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


@dataclass(frozen=True)
class Top:
    """An upper bound of the optimum, as a belief stated it when it made a proposal."""

    value: float
    is_shown: bool = True
    """False: it rests on a smoothness that the told values do not show (`Why.assumes_smooth`)."""
    number: int = 0
    """Of the trial with which it was written down."""


def tops(trials: Iterable[Trial]) -> list[Top | None]:
    """Return the upper bound of the optimum that was written down with each trial; None where none was.

    A cautious belief writes down what it called possible as far as it was to be doubted (`Why.possible`), and its other
    bounds are for a search alone.
    """
    trials = list(trials)
    is_cautious = any(trial.why.possible is not None for trial in trials)
    found: list[Top | None] = []
    for trial in trials:
        why = trial.why
        stated = why.possible if is_cautious else why.optimistic
        if stated is None:
            found.append(None)
            continue
        found.append(Top(max(stated, why.optimistic or stated), not why.assumes_smooth, trial.number))
    return found


def lowest(stated: Iterable[Top | None], certain: float) -> Top | None:
    """Return U, the smallest upper bound of the optimum that counts; None if none does.

    All bounds hold together, so the smallest one holds. One below what is certain has been refuted, and one that
    rests on a smoothness that was not shown does not count: a ridge that no measurement came near leaves no trace.

    Args:
        stated: Upper bounds of the optimum, as they were stated.
        certain: L, what is certain of the recommended point's objective.
    """
    fine = [top for top in stated if top is not None and top.is_shown and top.value >= certain]
    return min(fine, key=lambda top: top.value, default=None)


def gap(stated: Iterable[Top | None], certain: float | None, span: float) -> float:
    """Return U - L: how much better any point could still be; infinite where that cannot be told, or says nothing."""
    top = None if certain is None else lowest(stated, certain)
    if top is None or certain is None or not top.value - certain <= WIDEST * span:
        return math.inf
    return top.value - certain


def refuted(stated: Sequence[Top | None], before: float, after: float) -> Top | None:
    """Return the bound that counted until a better value was told, if that value is above it."""
    top = lowest(stated, before)
    return top if top is not None and top.value < after else None
