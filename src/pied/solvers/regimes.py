"""A home in one regime: where outputs have a cliff, search the side of the best point as if the other side failed.

A belief that spans a cliff is wrong on both sides. When two regimes explain badly explained outputs far better than one
belief does (`gp.regimes`), a proposal may come from a belief of the best point's regime alone. Its border is learned
like that of failing evaluations, and the best point often lies there. What is said of a proposal of an exact black box
still comes from the belief about everything told; with noise it rests on both regimes (`bounds.regimes`).
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy import ndarray

from pied.bounds import Believer, coding_of, sides_told, was_told
from pied.gp import GP, Choice, split
from pied.problem import Problem
from pied.records import Dataset, deviations
from pied.shapes import Bool, Float64

ROUGH_BELOW = 2.5  # nats a row, standardized (errors of 3 %): an output that is explained better is smooth enough
DOUBTED_BELOW = 5.0  # the same for an output beside a rough one, which may have the same regimes
SHOWN_ABOVE = 6.0  # the same (errors of 0.06 %): an output that is explained better has shown that it is smooth
ROUGHEST = "matern 3/2"  # the kernel that assumes least
UNKNOWN_BELOW = 1.0  # the same (errors of 15 %): bounds of an output that is explained worse say little
LEAST_GAIN = 1.0  # nats a row: by so much two regimes must explain rough outputs better than the belief
KEPT_GAIN = 0.5  # the same for regimes that were found before
LARGEST_LOSS = 1.0  # nats a row: regimes that explain outputs so much worse than before are searched anew
SCAN_EVERY = 4  # a new search for regimes after so many new points; in between those found are improved
EXACT_SCAN_EVERY = 2  # the same where none were found and outputs are exact: noise is always badly explained
LEAST_HOME = 4  # told points of the best point's regime
ABROAD_EVERY = 4  # every so-many-th trial is proposed by the belief about everything


class Home(NamedTuple):
    """The regime of the best point."""

    elsewhere: Bool[ndarray, "N"]
    """Which told points are in the other regime."""
    rough: Bool[ndarray, "m"]
    """Which outputs have regimes; the others are smooth across the border."""
    is_clear: bool
    """Whether the regimes explain outputs far better than one belief does, so that one of them is to be searched."""
    score: float
    """How well both regimes explain outputs, nats a row."""
    scanned: int
    """Told points at the last search for regimes."""

    def to_memory(self, data: Dataset, choices: Sequence[Choice]) -> dict[str, Any]:
        """Return the regime as plain data, with the choices of its belief."""
        return {
            **sides_told(data, self.elsewhere),
            "score": self.score,
            "scanned": self.scanned,
            "choices": [choice.to_dict() for choice in choices],
        }


def home(
    problem: Problem,
    believer: Believer,
    data: Dataset,
    belief: GP,
    best: Float64[ndarray, "d"],
    memory: Mapping[str, Any],
    *,
    anyway: bool = False,
) -> Home | None:
    """Return the regime of the best point; None where one belief explains all outputs, or there are no two regimes.

    Args:
        problem: The problem.
        believer: How the belief was made.
        data: What was told.
        belief: The belief about it.
        best: The best told point.
        memory: What `Home.to_memory` returned at the last proposal, if anything.
        anyway: Whether regimes that are not clear are returned, too.
    """
    told = data.complete
    U, Y = data.U[told], data.Y[told]
    if len(U) < 2 * LEAST_HOME:
        return None
    W = belief.warped(Y)
    deviation = W.std(0)
    explained = _explained(problem, believer, data, belief)
    doubted = (explained < DOUBTED_BELOW) & (deviation > 0)
    is_rough = bool((doubted & (explained < ROUGH_BELOW)).any())
    if not doubted.any() or not (is_rough or anyway):
        return None
    coding = coding_of(problem)
    seen = U if coding is None else coding.inputs(U)
    values = ((W - W.mean(0)) / np.where(deviation > 0, deviation, 1.0))[:, doubted]
    at = int(np.abs(U - best).max(1).argmin())
    is_due = not memory or len(U) - memory["scanned"] >= SCAN_EVERY
    found = split(seen, values, at, None if is_due else _continued(data, told, memory, seen))
    if found is not None and not is_due and found.score / len(U) < memory.get("score", -np.inf) - LARGEST_LOSS:
        found, is_due = split(seen, values, at), True
    if found is None or found.labels.sum() < LEAST_HOME or found.labels.all():
        return None
    gains, own = np.zeros(problem.m), np.zeros(problem.m)
    gains[doubted] = found.each / len(U) - explained[doubted]
    own[doubted] = found.own / found.labels.sum() - explained[doubted]
    rough = gains > 0 if is_rough else doubted
    gain = gains[rough].sum() + found.of_labels / len(U)
    is_clear = is_rough and bool(gain >= (KEPT_GAIN if memory else LEAST_GAIN) and own[rough].sum() >= 0)
    if not (is_clear or anyway):
        return None
    elsewhere = np.zeros(len(data.U), dtype=bool)
    elsewhere[told] = ~found.labels
    return Home(elsewhere, rough, is_clear, found.score / len(U), len(U) if is_due else int(memory["scanned"]))


def rough_limits(
    problem: Problem, believer: Believer, data: Dataset, belief: GP, below: float = ROUGH_BELOW
) -> Bool[ndarray, "m"]:
    """Tell which outputs of limits the belief about what was told explains badly: by less than so many nats a row."""
    limited = np.isin(np.arange(problem.m), [j for each in problem.structure[1:] for j in each.outputs])
    return limited & (_explained(problem, believer, data, belief) < below)


def assumes_smooth(problem: Problem, believer: Believer, data: Dataset, belief: GP) -> bool:
    """Whether some exact output that g uses is taken for smoother than the told values show.

    A ridge or a basin that no measurement came near leaves no trace in the others: they are then explained quite well
    by a smooth belief, which excludes it. Where the rest is explained to the last digits, that is to be believed.
    """
    used = np.isin(np.arange(problem.m), [j for each in problem.structure for j in each.outputs])
    is_smooth = np.array([choice.kernel != ROUGHEST for choice in belief.choices])
    is_exact = np.array([noise == 0 for noise in problem.noise])
    doubted = used & is_smooth & is_exact
    return bool((_explained(problem, believer, data, belief)[doubted] < SHOWN_ABOVE).any())


def explain_better(
    problem: Problem, believer: Believer, whole: tuple[Dataset, GP], sides: Sequence[tuple[Dataset, GP]]
) -> bool:
    """Whether the beliefs of both regimes explain what was told better than one belief does."""
    one = _log_density(problem, believer, *whole)
    two = np.sum([_log_density(problem, believer, *side) for side in sides], 0)
    return bool((two - one)[np.isfinite(one) & np.isfinite(two)].sum() >= KEPT_GAIN * len(whole[0].U))


def _continued(
    data: Dataset, told: Bool[ndarray, "N"], memory: Mapping[str, Any], U: Float64[ndarray, "n e"]
) -> Bool[ndarray, "n"]:
    """Return an earlier split, with new points on the side of their nearest neighbour."""
    numbers = np.array(data.numbers)[told]
    labels = ~np.isin(numbers, memory["elsewhere"])
    old = was_told(numbers, memory)
    for row in np.flatnonzero(~old) if old.any() else ():
        labels[row] = labels[old][((U[old] - U[row]) ** 2).sum(1).argmin()]
    return labels


def _explained(problem: Problem, believer: Believer, data: Dataset, belief: GP) -> Float64[ndarray, "m"]:
    """Return the leave-one-out log density of each output on its scale, nats a row, in units of its deviation.

    A constant is explained.
    """
    belief = believer.of_told(problem, data, belief)
    deviation = deviations(belief.warped(data.Y))
    density = belief.density / np.maximum(belief.counted, 1) + np.log(np.where(deviation > 0, deviation, 1.0))
    return np.where(np.isfinite(density) & (deviation > 0), density, np.inf)


def _log_density(problem: Problem, believer: Believer, data: Dataset, belief: GP) -> Float64[ndarray, "m"]:
    """Return the leave-one-out log density of each output, in natural units."""
    belief = believer.of_told(problem, data, belief)
    return belief.density - np.nansum(belief.log_slopes(data.Y), 0)
