"""Regime: where outputs have a cliff, search the side of the best point as if the other side failed.

A belief that spans a cliff is wrong on both sides. When two regimes explain badly explained outputs far better than one
belief does (`gp.parts.split`), a proposal may come from a belief of the best point's regime alone. Its border is
learned like that of failing evaluations, and the best point often lies there. What is said of a proposal of an exact
black box still comes from the belief about everything told; with noise it rests on both regimes (`bounds.regimes`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np
from numpy import ndarray

from pied.bounds import (
    ROUGH_BELOW,
    Believer,
    TwoRegimes,
    coding_of,
    explained,
    from_memory,
    sides_told,
    to_memory,
    was_told,
)
from pied.gp import GP, ModelChoice, split
from pied.problem import Problem
from pied.records import Dataset
from pied.shapes import Bool, Float64
from pied.solvers.calendar import EVERYWHERE, is_turn
from pied.solvers.moves.base import Move
from pied.solvers.scene import Scene
from pied.solvers.turn import Turn

DOUBTED_BELOW = 5.0  # nats a row, standardized: beside a rough output, one explained worse may have the same regimes
LEAST_GAIN = 1.0  # nats a row: by so much two regimes must explain rough outputs better than the belief
KEPT_GAIN = 0.5  # the same for regimes that were found before
LARGEST_LOSS = 1.0  # nats a row: regimes that explain outputs so much worse than before are searched anew
SCAN_EVERY = 4  # a new search for regimes after so many new points; in between those found are improved
EXACT_SCAN_EVERY = 2  # the same where none were found and outputs are exact: noise is always badly explained
LEAST_HOME = 4  # told points of the best point's regime


class Regime(Move):
    """The best point's side, and every so often the whole."""

    name = "regime"
    evidence = "problems of others: 29 of 64 rough runs to 1e-2, 20 without"

    def stage(self, turn: Turn) -> Turn:
        """Return the turn in the best point's regime, where there are regimes."""
        scene, problem, believer = turn.scene, turn.problem, turn.run.settings.believer
        data, last = scene.data, scene.data.last
        if problem.listing is not None:
            return turn
        memory = last.memory.get("home", {}) if last else {}
        scanned = last.memory.get("scanned") if last else None
        every = EXACT_SCAN_EVERY if problem.is_exact else SCAN_EVERY
        if turn.is_known and scanned is not None and len(data.U) < scanned + every:
            return replace(turn, memory={"scanned": scanned})
        found = home(problem, believer, data, scene.told, scene.known[0], memory, anyway=not turn.is_known)
        if found is None:
            return replace(turn, memory={"scanned": len(data.U)})
        at_home = cache(partial(_side, turn, found.elsewhere, found.rough, from_memory(memory)))

        def sides() -> tuple[Scene, ...]:
            both = at_home(), _side(turn, ~found.elsewhere, found.rough, None)
            parts = [(side.data, side.told) for side in both]
            return both if explain_better(problem, believer, (data, scene.told), parts) else ()

        if not found.is_clear:
            return replace(turn, scene=replace(scene, by_regime=sides))
        kept = found.to_memory(data, at_home().belief.choices)
        both = None if problem.is_exact else _both(turn, at_home(), found, memory)
        if both is not None:
            kept |= {"rough": found.rough.tolist(), "other": to_memory(both.beliefs[1].choices)}
        searched = scene if is_turn(EVERYWHERE, scene.number) else replace(at_home(), whole=scene)
        return replace(turn, scene=replace(searched, by_regime=sides, regimes=both), memory={"home": kept})


def _side(
    turn: Turn, elsewhere: Bool[ndarray, "N"], rough: Bool[ndarray, "m"], previous: tuple[ModelChoice, ...] | None
) -> Scene:
    """Return the scene of one regime: rough outputs of the other count as not told."""
    scene = turn.scene
    side = turn.run.scene(scene.number, scene.data.without(elsewhere, rough), previous, scene.stream)
    return replace(side, elsewhere=elsewhere, rough=rough)


def _both(turn: Turn, side: Scene, found: "Home", memory: Mapping[str, Any]) -> TwoRegimes | None:
    """Return what is said of noisy outputs with regimes.

    Values of exact ones show what a belief that spans a cliff is worth, and its bounds are widened by it; noise hides
    that.
    """
    previous, believer = (None, from_memory(memory.get("other", {}))), turn.run.settings.believer
    told = believer.of_told(turn.problem, side.data, side.told)
    return TwoRegimes.of(
        turn.problem, believer, turn.scene.data, found.elsewhere, found.rough, previous, turn.scene.stream,
        turn.level, told, side.success,
    )  # fmt: skip


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

    def to_memory(self, data: Dataset, choices: Sequence[ModelChoice]) -> dict[str, Any]:
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
    told = data.numeric
    U, Y = data.U[told], data.Y[told]
    if len(U) < 2 * LEAST_HOME:
        return None
    W = belief.warped(Y)
    deviation = W.std(0)
    scores = explained(believer.of_told(problem, data, belief), data.Y)
    doubted = (scores < DOUBTED_BELOW) & (deviation > 0)
    is_rough = bool((doubted & (scores < ROUGH_BELOW)).any())
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
    gains[doubted] = found.each / len(U) - scores[doubted]
    own[doubted] = found.own / found.labels.sum() - scores[doubted]
    rough = gains > 0 if is_rough else doubted
    gain = gains[rough].sum() + found.of_labels / len(U)
    is_clear = is_rough and bool(gain >= (KEPT_GAIN if memory else LEAST_GAIN) and own[rough].sum() >= 0)
    if not (is_clear or anyway):
        return None
    elsewhere = np.zeros(len(data.U), dtype=bool)
    elsewhere[told] = ~found.labels
    return Home(elsewhere, rough, is_clear, found.score / len(U), len(U) if is_due else int(memory["scanned"]))


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


def _log_density(problem: Problem, believer: Believer, data: Dataset, belief: GP) -> Float64[ndarray, "m"]:
    """Return the leave-one-out log density of each output, in natural units."""
    belief = believer.of_told(problem, data, belief)
    return belief.density - np.nansum(belief.log_slopes(data.Y), 0)
