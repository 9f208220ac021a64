"""A home in one regime: where outputs have a cliff, search the side of the best point as if the other side failed.

A belief that spans a cliff is wrong on both sides. When two regimes explain badly explained outputs far better than one
belief does (`gp.regimes`), a proposal may come from a belief of the best point's regime alone. Its border is learned
like that of failing evaluations, and the best point often lies there. What is said of a proposal still comes from the
belief about everything told.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy import ndarray

from pied.bounds import Believer, coding_of, ratios
from pied.gp import GP, Choice, split
from pied.problem import Problem
from pied.records import Dataset
from pied.shapes import Bool, Float64

ROUGH_BELOW = 2.5  # nats a row, standardized (errors of 3 %): an output that is explained better is smooth enough
LEAST_GAIN = 1.0  # nats a row: by so much two regimes must explain rough outputs better than the belief
SCAN_EVERY = 4  # a new search for regimes after so many new points; in between those found are improved
LEAST_HOME = 4  # told points of the best point's regime
ABROAD_EVERY = 4  # every so-many-th trial is proposed by the belief about everything


class Home(NamedTuple):
    """The regime of the best point."""

    elsewhere: Bool[ndarray, "N"]
    """Which told points are in the other regime."""
    rough: Bool[ndarray, "m"]
    """Which outputs have regimes; the others are smooth across the border."""
    scanned: int
    """Told points at the last search for regimes."""

    def to_memory(self, data: Dataset, choices: Sequence[Choice]) -> dict[str, Any]:
        """Return the regime as plain data, with the choices of its belief."""
        away = [number for number, own in zip(data.numbers, ~self.elsewhere, strict=True) if not own]
        return {"elsewhere": away, "scanned": self.scanned, "choices": [choice.to_dict() for choice in choices]}


def home(
    problem: Problem,
    believer: Believer,
    data: Dataset,
    belief: GP,
    best: Float64[ndarray, "d"],
    memory: Mapping[str, Any],
) -> Home | None:
    """Return the regime of the best point; None where one belief explains all outputs, or no two regimes do better.

    Args:
        problem: The problem.
        believer: How the belief was made.
        data: What was told.
        belief: The belief about it.
        best: The best told point.
        memory: What `Home.to_memory` returned at the last proposal, if anything.
    """
    told = data.complete
    U, Y = data.U[told], data.Y[told]
    if len(U) < 2 * LEAST_HOME:
        return None
    deviation = Y.std(0)
    explained = _explained(problem, believer, data, belief)
    rough = (explained < ROUGH_BELOW) & (deviation > 0)
    if not rough.any():
        return None
    coding = coding_of(problem)
    seen = U if coding is None else coding.inputs(U)
    values = ((Y - Y.mean(0)) / np.where(deviation > 0, deviation, 1.0))[:, rough]
    is_due = not memory or len(U) - memory["scanned"] >= SCAN_EVERY
    start = None if is_due else _continued(data, told, memory["elsewhere"], seen)
    at = int(np.abs(U - best).max(1).argmin())
    found = split(seen, values, at, start)
    if found is None or found.score / len(U) - explained[rough].sum() < LEAST_GAIN:
        return None
    if found.labels.sum() < LEAST_HOME or found.labels.all():
        return None
    elsewhere = np.zeros(len(data.U), dtype=bool)
    elsewhere[told] = ~found.labels
    return Home(elsewhere, rough, len(U) if is_due else int(memory["scanned"]))


def _continued(
    data: Dataset, told: Bool[ndarray, "N"], elsewhere: Sequence[int], U: Float64[ndarray, "n e"]
) -> Bool[ndarray, "n"]:
    """Return an earlier split, with new points on the side of their nearest neighbour."""
    numbers = np.array(data.numbers)[told]
    labels = ~np.isin(numbers, elsewhere)
    old = numbers <= max(elsewhere, default=0)
    for row in np.flatnonzero(~old) if old.any() else ():
        labels[row] = labels[old][((U[old] - U[row]) ** 2).sum(1).argmin()]
    return labels


def _explained(problem: Problem, believer: Believer, data: Dataset, belief: GP) -> Float64[ndarray, "m"]:
    """Return the leave-one-out log density of each output, nats a row, in units of its deviation."""
    if len(data.imagined) or not data.complete.all():  # imagined values would explain themselves
        belief = GP.at_choices(
            data.U,
            data.Y,
            belief.choices,
            active=problem.active,
            ratios=ratios(problem),
            noise=problem.noise,
            model=believer.model,
            coding=coding_of(problem),
        )
    counts = np.isfinite(data.Y).sum(0)
    slopes = np.nansum(np.log(np.abs(belief.unwarp_slopes(data.Y))), 0)
    deviation = np.nanstd(data.Y, 0)
    return (belief.density - slopes) / np.maximum(counts, 1) + np.log(np.where(deviation > 0, deviation, 1.0))
