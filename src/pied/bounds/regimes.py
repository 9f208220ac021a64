"""What is said where outputs have two regimes: by the belief of each, and by where their border may be.

A belief about everything that was told smooths a cliff; with noise it calls the jump noise, and its bounds of what lies
behind the noise are wrong on both sides.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy import ndarray
from scipy.special import ndtr

from pied.bounds.believer import Believer, from_memory
from pied.bounds.composite import Composite
from pied.bounds.inputs import coding_of
from pied.bounds.prediction import Ends, deviation_of_noise, predicted
from pied.bounds.success import SuccessModel
from pied.bounds.trust import widened
from pied.gp import GP, ModelChoice
from pied.problem import Problem
from pied.records import Dataset
from pied.rng import Stream
from pied.shapes import Bool, Float64


@dataclass(frozen=True, eq=False)
class TwoRegimes:
    """The beliefs of two regimes, home first, composed with g as they are said."""

    problem: Problem
    beliefs: tuple[GP, GP]
    factors: tuple[Float64[ndarray, "m"], Float64[ndarray, "m"]]
    """By which the deviations of each belief are multiplied (`Trust.of_part`)."""
    composites: tuple[Composite, Composite]
    region: SuccessModel
    """Where home is, and evaluations succeed."""

    @classmethod
    def of(
        cls,
        problem: Problem,
        believer: Believer,
        data: Dataset,
        elsewhere: Bool[ndarray, "N"],
        rough: Bool[ndarray, "m"],
        previous: tuple[Sequence[ModelChoice] | None, Sequence[ModelChoice] | None],
        stream: Stream,
        level: float,
        home: GP | None = None,
        region: SuccessModel | None = None,
    ) -> "TwoRegimes | None":
        """Fit both beliefs and their border; None where all points are on one side.

        Args:
            problem: The statement.
            believer: How beliefs are made.
            data: What was told.
            elsewhere: Which told points are in the other regime.
            rough: Which outputs have regimes.
            previous: Models chosen for both beliefs before.
            stream: Randomness of samples.
            level: p of the bounds.
            home: The belief of the first regime, if it is known already.
            region: The same for where that regime is.
        """
        if elsewhere.all() or not elsewhere.any():
            return None
        coding = coding_of(problem)
        region = region or SuccessModel.of_regime(data.U, elsewhere, data.failed, coding, is_exact=False)
        parts = data.settled.without(elsewhere, rough), data.settled.without(~elsewhere, rough)
        if region is None or any(_is_empty(each) for each in parts):
            return None
        first = home and believer.mixed(problem, parts[0], home)
        first = first or believer.fit(problem, parts[0], previous[0], imagine=False)
        second = believer.fit(problem, parts[1], previous[1], imagine=False)
        beliefs = believer.read_in(problem, data, first), believer.read_in(problem, data, second)
        trust = believer.trust(problem, data, level)
        factors = [trust.of_part(int(side.sum())) for side in (~elsewhere, elsewhere)]
        said = [
            believer.bound(problem, data, widened(problem, belief, factor), stream)
            for belief, factor in zip(beliefs, factors, strict=True)
        ]
        return cls(problem, beliefs, (factors[0], factors[1]), (said[0], said[1]), region)

    def at_home(self, U: Float64[ndarray, "b d"]) -> Float64[ndarray, "b"]:
        """Return the probability that points are in the first regime."""
        mean, deviation = self.region.border.moments(U)
        return ndtr(mean / deviation)

    def bounds(
        self, U: Float64[ndarray, "b d"], level: float
    ) -> tuple[Float64[ndarray, "b k"], Float64[ndarray, "b k"], Float64[ndarray, "b k"]]:
        """Return lower bound, median and upper bound of every function."""
        return self._joined(U, level, [each.bounds(U, level) for each in self.composites])

    def predicted(self, U: Float64[ndarray, "b d"], level: float) -> Ends:
        """Return where measurements at points lie, their noise included."""
        both = zip(self.beliefs, self.factors, strict=True)
        return self._joined(U, level, [predicted(self.problem, gp, U, level, factor) for gp, factor in both])

    def probability(self, U: Float64[ndarray, "b d"]) -> tuple[Float64[ndarray, "b n"], Float64[ndarray, "b"]]:
        """Return the probability that each constraint holds, and that all hold together."""
        share = self.at_home(U)
        (each, joint), (other, other_joint) = (composite.probability(U) for composite in self.composites)
        return share[:, None] * each + (1.0 - share)[:, None] * other, share * joint + (1.0 - share) * other_joint

    def _joined(self, U: Float64[ndarray, "b d"], level: float, both: Sequence[Ends]) -> Ends:
        """Return the ends of the regime that a point surely is in; both together where that is not sure."""
        share = self.at_home(U)[:, None]
        (low, middle, high), (other_low, other_middle, other_high) = both
        is_home, is_other = share >= level, share <= 1.0 - level
        return (
            np.where(is_home, low, np.where(is_other, other_low, np.fmin(low, other_low))),
            np.where(share >= 0.5, middle, other_middle),
            np.where(is_home, high, np.where(is_other, other_high, np.fmax(high, other_high))),
        )


def remembered(
    problem: Problem, believer: Believer, data: Dataset, memory: Mapping[str, Any], stream: Stream, level: float
) -> TwoRegimes | None:
    """Return the regimes that a proposal was made with, with what was told since; None if there were none.

    Args:
        problem: The statement.
        believer: How beliefs are made.
        data: What was told.
        memory: What the proposal keeps of them.
        stream: Randomness of samples.
        level: p of the bounds.
    """
    kept = memory.get("home", {})
    rough = np.array(kept.get("rough", ()), dtype=bool)
    if len(rough) != problem.m:
        return None
    previous = from_memory(kept), from_memory(kept.get("other", {}))
    elsewhere = placed(problem, believer, data, kept, previous)
    if elsewhere is None:
        return None
    return TwoRegimes.of(problem, believer, data, elsewhere, rough, previous, stream, level)


def placed(
    problem: Problem,
    believer: Believer,
    data: Dataset,
    kept: Mapping[str, Any],
    previous: tuple[Sequence[ModelChoice] | None, Sequence[ModelChoice] | None] = (None, None),
) -> Bool[ndarray, "N"] | None:
    """Tell which told points are in the other regime: what was told since a proposal by where its values fit better.

    None where a regime has too few points for a belief.

    Args:
        problem: The statement.
        believer: How beliefs are made.
        data: What was told.
        kept: What a proposal keeps of the regimes.
        previous: Models chosen for both beliefs before.
    """
    numbers, rough = np.array(data.numbers), np.array(kept["rough"], dtype=bool)
    elsewhere, fresh = np.isin(numbers, kept["elsewhere"]), ~was_told(numbers, kept)
    if not fresh.any():
        return elsewhere
    old = [data.settled.without(fresh | side, rough) for side in (elsewhere, ~elsewhere)]
    if any(_is_empty(each) for each in old):
        return None
    # Each belief imagines what it would have at the points of the other: else it would be open to any value there.
    fits = [believer.fit(problem, each, choices) for each, choices in zip(old, previous, strict=True)]
    home, other = (_log_density(problem, each, data, rough) for each in fits)
    return np.where(fresh, other > home, elsewhere)


def sides_told(data: Dataset, elsewhere: Bool[ndarray, "N"]) -> dict[str, Any]:
    """Return as plain data which told trials are in the other regime, so that later ones can be told from them."""
    last = max(data.numbers)
    return {
        "elsewhere": np.array(data.numbers)[elsewhere].tolist(),
        "last": last,
        "open": sorted(set(range(1, last)) - set(data.numbers)),
    }


def was_told(numbers: ndarray, kept: Mapping[str, Any]) -> Bool[ndarray, "N"]:
    """Tell which trials had been told when the regimes were written down."""
    last = kept.get("last", max(kept["elsewhere"], default=0))
    return (numbers <= last) & ~np.isin(numbers, kept.get("open", []))


def _is_empty(data: Dataset) -> bool:
    """Whether some output was told less than twice, so that no belief can be fitted."""
    return bool((np.isfinite(data.Y).sum(0) < 2).any())


@np.errstate(all="ignore")
def _log_density(problem: Problem, gp: GP, data: Dataset, which: Bool[ndarray, "m"]) -> Float64[ndarray, "N"]:
    """Return the logarithm of the density of what was told of some outputs at each point.

    A value outside of what an output's scale allows there has none.
    """
    mean, deviation = gp.marginals(data.U)
    scale = np.hypot(deviation, deviation_of_noise(problem, gp, data.U))
    z = (gp.warped(data.Y) - mean) / scale
    density = -0.5 * z**2 - np.log(scale) - gp.log_slopes(data.Y)
    density = np.where(np.isfinite(data.Y), np.nan_to_num(density, nan=-np.inf), 0.0)
    return density[:, which].sum(1)
