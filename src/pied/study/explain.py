"""Why a trial is worth its cost, in words: what is hoped for, what is in doubt, what would change the answer."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy import ndarray

from pied.errors import NotYet, SettingError
from pied.records import State, Trial
from pied.shapes import Float64
from pied.study.outlook import Outlook, plain
from pied.study.snapshot import Snapshot
from pied.study.words import AIMS, Words, figure, percent, short

DOUBTFUL = (0.05, 0.95)
"""Probabilities of meeting a limit between which it is in doubt."""
SAMPLES = 512
"""Of the objective, for the probability of an improvement, and of outputs, for their importance."""
MATTERS = 0.1
"""Share of the objective's uncertainty from which an output is named."""


@dataclass(frozen=True, eq=False)
class Explanation:
    """What a measurement is for; numbers from the belief without it."""

    number: int
    """Number of the trial."""
    aim: str
    """Why it was proposed, in plain words."""
    hoped: tuple[float, float]
    """Where the objective probably lies there, in the user's sense."""
    best: float | None
    """Objective of the best settings so far; None if none meet all limits."""
    improves: float
    """Probability that it meets all limits and beats the best so far."""
    limits: dict[str, float]
    """The limits in doubt there, with the probability that each is met; the most doubtful first."""
    outputs: dict[str, float]
    """Share of each output in the uncertainty of the objective there; the largest first."""
    lines: tuple[str, ...]
    """All of this as sentences."""

    def __str__(self) -> str:
        return "\n".join(self.lines)

    def to_dict(self) -> dict[str, Any]:
        """Return it as data for JSON."""
        return {
            "trial": self.number,
            "aim": self.aim,
            "hoped": [plain(each) for each in self.hoped],
            "best": self.best,
            "improves": plain(self.improves),
            "limits": self.limits,
            "outputs": self.outputs,
            "text": list(self.lines),
        }


def explained(outlook: Outlook, trial: Trial) -> Explanation:
    """Explain a trial that is to be measured, or was.

    Args:
        outlook: What is believed from what was told; pending trials do not count.
        trial: The trial.
    """
    if trial.state is State.TOLD and not trial.is_added:
        return _recalled(outlook.snapshot, trial)
    if trial.state is not State.ASKED:
        raise SettingError(
            f"trial {trial.number} is {trial.state.value}{' elsewhere' * trial.is_added}: only one that was proposed "
            "and is to be measured, or was, is explained"
        )
    problem, words = outlook.problem, Words.of(outlook.problem)
    u = problem.to_unit(np.array(trial.x.array))
    composite = outlook.composite(problem)
    lower, _, upper = (each[0] for each in composite.bounds(u[None], outlook.level))
    low, high = sorted(problem.user_value(float(end)) for end in (lower[0], upper[0]))
    answer = outlook.answer({})
    best = None if answer.x is None else answer.value
    each, joint = composite.probability(u[None])
    G = composite.sampled(u, SAMPLES)
    holds = (G[:, 1:] >= 0).all(1)
    improves = float((holds & (G[:, 0] > -math.inf if best is None else G[:, 0] > problem.user_value(best))).mean())
    in_doubt = {name: float(p) for name, p in zip(problem.constraints, each[0], strict=True)
                if DOUBTFUL[0] < p < DOUBTFUL[1]}  # fmt: skip
    limits = dict(sorted(in_doubt.items(), key=lambda item: abs(item[1] - 0.5)))
    outputs = _shares(outlook, u)
    aim = AIMS.get(trial.why.aim, trial.why.aim)
    value = short(problem.objective)
    lines = [f"Trial {trial.number}: {aim}."]
    ends = f"{figure(low, high - low)} to {figure(high, high - low)}" if high > low else figure(low)
    lines.append(f"Hoped for: {value} {ends}" + (f" {words.unit}" if words.unit else "")
                 + ("" if best is None else f"; the best so far is {figure(best, high - low)}") + ".")  # fmt: skip
    if best is None:
        lines.append(f"It meets all limits with a probability of {percent(float(joint[0]))}; none so far is known to.")
    else:
        lines.append(f"It beats the best so far, with all limits met, with a probability of {percent(improves)}.")
    if limits:
        lines.append("In doubt: " + ", ".join(f"{name} (met with {percent(p)})" for name, p in limits.items()) + ".")
    named = [f"{name} ({percent(share)})" for name, share in outputs.items() if share >= MATTERS]
    if named:
        lines.append(f"The uncertainty of {value} comes from {', '.join(named)}.")
    lines += [f"{each}." for each in outlook.snapshot.models]
    lines.append(_consequence(problem.minimizes, value, best, limits, high - low))
    return Explanation(trial.number, aim, (low, high), best, improves, limits, outputs, tuple(lines))


def _recalled(snapshot: Snapshot, trial: Trial) -> Explanation:
    """Explain a trial that was measured: what was expected, and which bound of what is possible its value refuted."""
    problem, why, number = snapshot.problem, trial.why, trial.number
    aim, value = AIMS.get(why.aim, why.aim), short(problem.objective)
    lines, hoped = [f"Trial {number}: {aim}."], (math.nan, math.nan)
    if why.lower:
        low, high = sorted(problem.user_value(each) for each in (why.lower[0], why.upper[0]))
        hoped = low, high
        lines.append(f"Expected was {value} {figure(low, high - low)} to {figure(high, high - low)}.")
    top = snapshot.refuted_by(number)
    if top is not None:
        end = f"{'at least' if problem.minimizes else 'at most'} {figure(problem.user_value(top.value))}"
        lines.append(
            f"It refuted what trial {top.number} said to be possible, {value} {end}: since then other bounds tell how "
            "much better is possible."
        )
    return Explanation(number, aim, hoped, None, math.nan, {}, {}, tuple(lines))


def _consequence(minimizes: bool, value: str, best: float | None, limits: dict[str, float], width: float) -> str:
    """Return what would change the answer."""
    met = f" with {' and '.join(limits)} met" if limits else ""
    if best is None:
        return f"The answer changes if all limits are met there{': ' + ', '.join(limits) if limits else ''}."
    word = "below" if minimizes else "above"
    return (
        f"The recommended settings change if {value} comes out {word} {figure(best, width)}{met}; otherwise they stay."
    )


def _shares(outlook: Outlook, u: Float64[ndarray, "d"]) -> dict[str, float]:
    """Return the share of each output in the variance of the objective at a point: each moves alone by a deviation."""
    problem, composite = outlook.problem, outlook.composite(outlook.problem)
    steps = np.concatenate([np.eye(problem.m), -np.eye(problem.m)])
    f = composite.outcomes(np.repeat(u[None], len(steps), 0), steps)[:, 0]
    squares = (0.5 * (f[: problem.m] - f[problem.m :])) ** 2
    total = float(squares.sum())
    shares = squares / total if total > 0 else np.zeros(problem.m)
    return dict(sorted(zip(problem.outputs, shares.tolist(), strict=True), key=lambda item: -item[1]))


IMPORTANCE_POINTS = 1024
"""Base points of the indices: standard errors of a few hundredths."""


def importance(outlook: Outlook) -> dict[str, dict[str, float]]:
    """Return the total Sobol index of each setting for each output, from the expected outputs over the ranges.

    The index is the share of an output's variance that remains when all other settings are fixed (Jansen 1999): 0 for a
    setting that makes no difference. The indices of an output add up to 1 or, with interactions, to more. A setting
    that an equality determines has none of its own.
    """
    problem, belief = outlook.problem, outlook.snapshot.belief
    if not outlook.has_belief:
        raise NotYet("this needs a belief: tell at least two complete evaluations first")
    base = outlook.snapshot.stream.at("importance").sobol(IMPORTANCE_POINTS, 2 * problem.d)
    A, B = base[:, : problem.d], base[:, problem.d :]

    def outputs(U: Float64[ndarray, "b d"]) -> Float64[ndarray, "b m"]:
        U = U if problem.grid is None else problem.grid.snapped(U)
        return belief.unwarp(belief.moments(U)[0])

    first = outputs(A)
    variance = np.concatenate([first, outputs(B)]).var(0)
    found: dict[str, dict[str, float]] = {name: {} for name in problem.outputs}
    for j, setting in enumerate(problem.axes):
        mixed = A.copy()
        mixed[:, j] = B[:, j]
        part = 0.5 * ((outputs(mixed) - first) ** 2).mean(0)
        for name, share, whole in zip(problem.outputs, part.tolist(), variance.tolist(), strict=True):
            found[name][setting] = share / whole if whole > 0 else 0.0
    return found
