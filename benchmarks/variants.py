"""Variants of the default that need code instead of a setting, for the ablations.

Within `known()` a task can name them as text: 'cuqb-randomized'. None has been good enough to become a setting of
`pied.solvers.cuqb`.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from numpy import ndarray

from pied import solvers
from pied.bounds.believer import Believer, Widened
from pied.bounds.composite import Belief, Composite
from pied.bounds.quantile import normal
from pied.gp import GP, selection
from pied.problem import Problem
from pied.records.trial import Dataset, Why, feasible
from pied.rivals.improvement import LogEICF
from pied.rng import Stream
from pied.solvers.base import Proposal, Run
from pied.solvers.cuqb import CUQB, CUQBRun

LEAST_Z, MEAN_MORE = 1.0, normal(0.95) ** 2 - 1.0
"""Of a randomized level: z^2 is 1 and an exponential number more; its mean is that of the default."""
EASY_FACTORS = (0.5, 3.0)
"""A calibration does not change deviations by more than this."""
PRIOR_WEIGHT = 3.0
"""Weight of the prior on the amplitude, in observations."""


def probability(z: float) -> float:
    """Return the standard normal probability below z."""
    return 0.5 * math.erfc(-z / math.sqrt(2.0))


# --- Levels -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Varied(CUQB):
    """A level that changes from trial to trial."""

    name: ClassVar[str] = "cuqb-varied"

    def level_at(self, number: int, initial: int, stream: Stream) -> float:
        """Return the level of a trial."""
        raise NotImplementedError

    def start(self, problem: Problem, stream: Stream) -> CUQBRun:
        """Begin a run."""
        return VariedRun(self, problem, stream)


class VariedRun(CUQBRun):
    """One run whose settings differ from trial to trial."""

    def ask(self, number: int, data: Dataset) -> Proposal:
        """Propose with the level of this trial."""
        assert isinstance(self._own, Varied)
        level = self._own.level_at(number, self.initial, self.stream.at("level", number))
        self._own = self.settings = replace(self._own, level=level)
        return super().ask(number, data)


@dataclass(frozen=True)
class Randomized(Varied):
    """z^2 drawn for each trial, as in randomized GP-UCB."""

    name: ClassVar[str] = "cuqb-randomized"

    def level_at(self, number: int, initial: int, stream: Stream) -> float:
        """Return Phi(z)."""
        return probability(math.sqrt(LEAST_Z + stream.generator().exponential(MEAN_MORE)))


@dataclass(frozen=True)
class Scheduled(Varied):
    """z^2 = 2 log t: bounds that widen with time as in the theory, without its constants."""

    name: ClassVar[str] = "cuqb-scheduled"

    def level_at(self, number: int, initial: int, stream: Stream) -> float:
        """Return Phi(z)."""
        return probability(math.sqrt(2.0 * math.log(max(2, number - initial) + 1)))


# --- Deviations -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Rescaled(Widened):
    """A belief whose deviations are multiplied by one factor per output."""

    factors: ndarray = field(default_factory=lambda: np.ones(1))

    def moments(self, U: ndarray) -> tuple[ndarray, ndarray]:
        """Return the mean and the changed deviations."""
        mean, scale = self.belief.moments(U)
        return mean, self.factors * scale

    def moments_and_slopes(self, U: ndarray) -> tuple[ndarray, ndarray, ndarray, ndarray]:
        """Return the moments and their derivatives."""
        mean, scale, by_mean, by_scale = self.belief.moments_and_slopes(U)
        return mean, self.factors * scale, by_mean, self.factors[:, None] * by_scale


class Widening(Believer):
    """Beliefs whose deviations are changed before they are composed with g."""

    def factors(self, belief: GP, count: int) -> ndarray:
        """Return one factor per output."""
        raise NotImplementedError

    def bound(self, problem: Problem, data: Dataset, belief: Belief, stream: Stream) -> Composite:
        """Compose the changed belief."""
        if isinstance(belief, GP):
            belief = Rescaled(belief, 1.0, self.factors(belief, len(data.U)))
        return super().bound(problem, data, belief, stream)


class Calibrated(Widening):
    """Deviations calibrated by leave-one-out errors."""

    def factors(self, belief: GP, count: int) -> ndarray:
        """Return the root mean square of the standardized errors."""
        return np.clip(standardized_errors(belief), *EASY_FACTORS)


class Floored(Widening):
    """A process variance of at least the variance of the told values."""

    def factors(self, belief: GP, count: int) -> ndarray:
        """Return by how much deviations grow."""
        return np.sqrt(np.maximum(1.0 / belief.variance, 1.0))


class Shrunk(Widening):
    """A prior on the amplitude, inverse gamma, worth three observations of variance one."""

    def factors(self, belief: GP, count: int) -> ndarray:
        """Return by how much deviations change."""
        return np.sqrt((count + PRIOR_WEIGHT / belief.variance) / (count + PRIOR_WEIGHT))


def standardized_errors(belief: GP) -> list[float]:
    """Return per output the root mean square of (P y)_i / sqrt(P_ii s2): errors of leaving one observation out.

    P = K^-1 - K^-1 F A^-1 F' K^-1.
    """
    found: dict[int, float] = {}
    for block in belief.blocks:
        own = block.posterior
        P = (own._root**2).sum(1) - ((own._H.swapaxes(1, 2) @ own._inverse_A) * own._H.swapaxes(1, 2)).sum(-1)
        z2 = own._weights**2 / (P[:, :, None] * own._variance)
        for j, value in zip(block.outputs, z2.mean(1).flatten().tolist(), strict=True):
            found[j] = math.sqrt(value) if math.isfinite(value) else 1.0
    return [found[j] for j in sorted(found)]


def calibrated() -> CUQB:
    """Return the default with deviations calibrated by leaving one out."""
    return CUQB(believer=Calibrated())


def floored() -> CUQB:
    """Return the default with a floor under the process variance."""
    return CUQB(believer=Floored())


def shrunk() -> CUQB:
    """Return the default with a prior on the amplitude."""
    return CUQB(believer=Shrunk())


# --- Exploration ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class InTurn(CUQB):
    """Alternate between the optimistic exploration and expected improvement (log-EI)."""

    name: ClassVar[str] = "cuqb-in-turn"

    def start(self, problem: Problem, stream: Stream) -> Run:  # type: ignore[override]
        """Begin both runs."""
        return InTurnRun(CUQBRun(self, problem, stream), LogEICF().start(problem, stream))


class InTurnRun(Run):
    """Trials of two runs on one record."""

    def __init__(self, first: CUQBRun, second: Run) -> None:
        self.first, self.second = first, second

    def ask(self, number: int, data: Dataset) -> Proposal:
        """Propose with the run whose turn it is; with the first one until a point is feasible."""
        known = bool(feasible(self.first.problem, data.functions(self.first.problem)).any())
        is_second = known and (number - self.first.initial) % 3 == 2
        return (self.second if is_second else self.first).ask(number, data)


@dataclass(frozen=True)
class Adaptive(CUQB):
    """Verify after an exploration whose told value was within its bounds."""

    name: ClassVar[str] = "cuqb-adaptive"

    def start(self, problem: Problem, stream: Stream) -> CUQBRun:
        """Begin a run."""
        return AdaptiveRun(self, problem, stream)


class AdaptiveRun(CUQBRun):
    """One run that verifies depending on the last value."""

    _was_right = False

    def ask(self, number: int, data: Dataset) -> Proposal:
        """Check the last value, then propose."""
        self._was_right = self._held(data)
        return super().ask(number, data)

    def _held(self, data: Dataset) -> bool:
        if not data.whys or data.whys[-1].aim == "verify" or not data.whys[-1].upper:
            return False
        f, why = data.functions(self.problem)[-1], data.whys[-1]
        return all(low <= value <= high for low, value, high in zip(why.lower, f.tolist(), why.upper, strict=True))

    def _verifies(self, number: int) -> bool:
        return number > self.initial and self._was_right


# --- Beginnings -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SobolDesign(CUQB):
    """Scrambled Sobol points in place of random ones, after the first two."""

    name: ClassVar[str] = "cuqb-sobol-design"

    def start(self, problem: Problem, stream: Stream) -> CUQBRun:
        """Begin a run; to be given `study.initial=2`."""
        return SobolDesignRun(self, problem, stream)


class SobolDesignRun(CUQBRun):
    """One run that makes its own design."""

    def ask(self, number: int, data: Dataset) -> Proposal:
        """Return a Sobol point while the design lasts."""
        if number > self.initial:
            return super().ask(number, data)
        points = self.stream.at("design").sobol(self.initial, self.problem.d)
        return Proposal(self._honoured(points[number - 1]), Why("initial"))


@dataclass(frozen=True)
class Started(CUQB):
    """Other starts of the length scales."""

    name: ClassVar[str] = "cuqb-started"

    starts: tuple[float, ...] = (1.0,)
    """Isotropic length scales at a first selection."""
    restarts: tuple[float, ...] = (1.0,)
    """Multiples of the current ones at later selections."""

    def start(self, problem: Problem, stream: Stream) -> CUQBRun:
        """Begin a run."""
        return StartedRun(self, problem, stream)


class StartedRun(CUQBRun):
    """One run with other starts."""

    def ask(self, number: int, data: Dataset) -> Proposal:
        """Propose with these starts in place of the usual ones."""
        assert isinstance(self._own, Started)
        with changed(selection, STARTS=self._own.starts, RESTARTS=self._own.restarts):
            return super().ask(number, data)


@contextmanager
def changed(module: Any, **values: Any) -> Iterator[None]:
    """Give constants of a module other values within a context."""
    before = {name: getattr(module, name) for name in values}
    vars(module).update(values)
    try:
        yield
    finally:
        vars(module).update(before)


NAMES = {
    "cuqb-randomized": "variants:Randomized",
    "cuqb-scheduled": "variants:Scheduled",
    "cuqb-calibrated": "variants:calibrated",
    "cuqb-floored": "variants:floored",
    "cuqb-shrunk": "variants:shrunk",
    "cuqb-in-turn": "variants:InTurn",
    "cuqb-adaptive": "variants:Adaptive",
    "cuqb-sobol-design": "variants:SobolDesign",
    "cuqb-started": "variants:Started",
}


@contextmanager
def known() -> Iterator[None]:
    """Register the variants as solvers within a context."""
    with changed(solvers, registry={**solvers.registry, **NAMES}):
        yield
