"""Measurements that do not fit: a question to the user, who decides; no belief is changed by it.

The next step depends on what was repeated. A doubtful measurement is first measured again. If the repetition agrees
with it, the suspicion is gone (`gp.gross`); if not, the first one is corrected or withdrawn.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy import ndarray

from pied.problem import Problem
from pied.records import REPEATED, Dataset
from pied.shapes import Float64
from pied.study.words import Words, figure, percent

if TYPE_CHECKING:
    from pied.gp import GP
    from pied.solvers.answers import Answers


class Remedy(Enum):
    """What to do about a doubtful measurement."""

    REPEAT = "repeat"
    """Measure at the same settings again."""
    WAIT = "wait"
    """A repetition is under way."""
    STRIKE = "strike"
    """A repetition contradicts it: withdraw or correct it."""


@dataclass(frozen=True)
class Doubtful:
    """A measurement that is probably a gross error: the other measurements say something else."""

    trial: int
    """Number of the trial."""
    output: str
    told: float
    expected: tuple[float, float, float]
    """What the other measurements predict: lower end, median and upper end of a measurement, its noise included."""
    probability: float
    """That it is a gross error."""
    repetitions: tuple[tuple[int, float], ...] = ()
    """Numbers of the trials at the same settings, and what was measured there."""
    rival: int | None = None
    """A repetition that is as likely to be the wrong one, if the others do not tell."""
    pending: int | None = None
    """Number of an open trial that repeats it."""
    unit: str = ""

    @property
    def remedy(self) -> Remedy:
        """What to do next."""
        if self.pending is not None:
            return Remedy.WAIT
        return Remedy.STRIKE if self.repetitions and self.rival is None else Remedy.REPEAT

    @property
    def text(self) -> str:
        """What does not fit, as a sentence without its end."""
        low, _, high = self.expected
        unit = f" {self.unit}" if self.unit else ""
        told, width = figure(self.told, high - low), high - low
        if self.rival is not None:
            other = figure(dict(self.repetitions)[self.rival], width)
            return (
                f"trials {self.trial} and {self.rival} contradict each other: {self.output} {told} and {other}{unit} "
                "at the same settings"
            )
        again = " and ".join(f"{figure(value, width)} (trial {number})" for number, value in self.repetitions)
        repeated = f"; repeated it was {again}" if again else ""
        return (
            f"trial {self.trial} does not fit: {self.output} {told}{unit}, where the others predict "
            f"{figure(low, width)} to {figure(high, width)} (gross error with {percent(self.probability)}){repeated}"
        )

    def sentence(self, command: Callable[[str, int], str]) -> str:
        """Return what does not fit and what to do.

        Args:
            command: Returns how to "repeat", "correct" or "withdraw" a trial of this number.
        """
        if self.remedy is Remedy.WAIT:
            return f"{self.text}. Trial {self.pending} repeats it."
        if self.remedy is Remedy.STRIKE:
            correct, withdraw = command("correct", self.trial), command("withdraw", self.trial)
            return f"{self.text}. Correct it, {correct}, or strike it, {withdraw}"
        question = "Measure it again?" if self.rival is None else "Measure a third time?"
        return f"{self.text}. {question} {command('repeat', self.trial)}"

    def __str__(self) -> str:
        return self.sentence(in_python)

    def to_dict(self) -> dict[str, Any]:
        """Return it as data for JSON."""
        return {
            "trial": self.trial,
            "output": self.output,
            "told": self.told,
            "expected": list(self.expected),
            "probability": self.probability,
            "repetitions": {str(number): value for number, value in self.repetitions},
            "rival": self.rival,
            "pending": self.pending,
            "remedy": self.remedy.value,
            "message": str(self),
        }


def in_python(word: str, number: int) -> str:
    """Return how to repeat, correct or withdraw a trial in Python, or to say why it failed."""
    return {
        "repeat": f"study.repeat({number})",
        "correct": f"study.correct({number}, ..., why=...)",
        "withdraw": f"study.withdraw({number}, why=...)",
        "fail": f"study.fail({number}, reason, not_the_settings=True)",
    }[word]


def doubtful_of(problem: Problem, data: Dataset, gp: "GP", settings: "Answers") -> tuple[Doubtful, ...]:
    """Return the measurements that do not fit, the surest first, given the belief from told values."""
    from pied.bounds import coding_of, known_of, level_at, quantile, ratios
    from pied.gp import misfits

    if settings.believer.priors is not None:
        return ()  # nothing was chosen that one measurement could have misled
    found = misfits(
        data.U, data.Y, gp.choices, active=problem.active, ratios=ratios(problem), noise=problem.noise,
        model=settings.believer.model, coding=coding_of(problem), errors=data.errors, known=known_of(problem),
    )  # fmt: skip
    z, units = quantile.normal(level_at(settings.level, len(data.U))), Words.of(problem).units
    made = []
    for each in sorted(found, key=lambda one: -one.probability):
        ends = [gp.unwarp(np.full(problem.m, each.mean + side * z * each.deviation)) for side in (-1.0, 0.0, 1.0)]
        low, middle, high = (float(end[each.output]) for end in ends)
        again = [row for row in _at(data.U, data.U[each.row]) if row != each.row]
        told = {data.numbers[row]: float(data.Y[row, each.output]) for row in again}
        waiting = [data.away[row] for row in _at(data.imagined, data.U[each.row]) if row in data.waiting]
        name = problem.outputs[each.output]
        made.append(
            Doubtful(
                trial=data.numbers[each.row],
                output=name,
                told=float(data.Y[each.row, each.output]),
                expected=(min(low, high), middle, max(low, high)),
                probability=each.probability,
                repetitions=tuple((number, value) for number, value in told.items() if math.isfinite(value)),
                rival=data.numbers[each.rivals[0]] if each.rivals else None,
                pending=waiting[0] if waiting else None,
                unit=units.get(name, ""),
            )
        )
    return tuple(made)


def _at(U: Float64[ndarray, "b d"], u: Float64[ndarray, "d"]) -> list[int]:
    """Return which points are a given one."""
    return np.flatnonzero((np.abs(U - u) < REPEATED).all(1)).tolist()
