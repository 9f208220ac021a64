"""By how much a belief is widened, and for what: this file decides, everything else asks it.

Few points leave models, length scales and noise undecided, and an output may be rougher than any model. The principle:
a belief is trusted as far as it has earned it. From n points it begins with a factor that falls as 1/sqrt(n) (`first`),
by which its deviations are multiplied. Measurements at proposals were predicted before they were made: each outside of
what was said raises the factor of its output, each inside lowers it a little, so that in the long run as many lie
outside as was said, whatever the output is like (online quantile tracking, as in conformal prediction).

| for what | deviations are multiplied by |
| --- | --- |
| a search | 1: optimism by the plain deviations finds optima in fewer evaluations |
| what is said beside what was measured: a range, a probability, a recommendation | `stated` |
| what may be where nothing was measured: the gap, the chance that any settings meet all limits | `away` |
| the same of a part of the told points, a regime | `of_part` |
| a verdict: no settings can meet all limits | `for_verdict` |

A measured point is known as well as its own noise lets it be, whatever the factor (`widened`).

A noise that is estimated from a handful of residuals is uncertain itself. The factor of a noisy output is therefore at
least that of Student's quantiles to normal ones, with one degree of freedom for each complete row that the model does
not need for its parameters (`Trust.freedom`). With fewer rows than that, nothing but measured values is said
(`Trust.is_too_few`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy import ndarray
from scipy.special import stdtrit

from pied.bounds import quantile
from pied.gp import GP
from pied.problem import Problem
from pied.records import Dataset, Why, deviations
from pied.shapes import Bool, Float64

FIRST_EXACT, FIRST_NOISY = 12.0, 5.7
"""Factor before anything was predicted, times the root of the number of told points. Measured at random points, from
eight told ones: of a usual output nine of ten lie within twice what the belief says, of three outputs in four within
4.4 times (exact) and 3.4 times (noisy)."""
FIRST_ALONE = 17.0
"""The same of exact outputs for one model alone, without a mixture: a verdict tests with the best one."""
LEAST, MOST = 1.0, 100.0
GAIN = 1.0
"""How much one measurement outside of its bounds raises the logarithm of the factor, times how rare it should be."""
OWN_STATED, OWN_LEARNED = 1.5, 2.0
"""Factor of a measurement's own noise, at most: points are chosen for their luck, too, and a learned noise may be too
small. Measured: nine of ten recommended points then lie within their bounds, with 1 for a stated noise eight of ten."""
SHARED = 0.3
"""Share of what is learned from the other outputs of the same measurement: a rough region is rough in most of them."""
VERDICT_DEVIATIONS = 3.0  # a verdict looks so many standard deviations out, ...
VERDICT_LEVEL = 0.9986501019683699  # ... at this level
VERDICT_EXACT, VERDICT_NOISY = 3.0, 1.5
"""Least factor of a verdict. With noise it is less: what that leaves open is known better than what no belief sees."""
YOUNG_POINTS = 3  # told points for each variable: up to so many, noise is no excuse and other models are widened, too
RECENT_PROPOSALS = 8  # proposals whose told values show how far a belief can be trusted in a verdict
AROUND = (-1.0, 0.0, 1.0)  # the median: lower end, itself, upper end
LEAST_DEVIATION = 1e-6  # of a function's scale: a bound that was wrong by less was right
ROUGH_BELOW = 2.5  # nats a row, standardized (errors of 3 %): an output that is explained better is smooth enough
SHOWN_ABOVE = 6.0  # the same (errors of 0.06 %): an output that is explained better has shown that it is smooth
ROUGHEST = "matern 3/2"  # the kernel that assumes least


@dataclass(frozen=True, eq=False)
class Trust:
    """How far the belief about a record is to be trusted: for each output a factor of its deviations."""

    problem: Problem
    data: Dataset
    """The told values, with what was expected of those that were proposed."""
    level: float
    """p of the bounds: a share of 2 (1 - p) may lie outside."""
    is_cautious: bool = True
    """False: the belief is said as it is. A verdict is careful all the same."""
    is_stated: bool = False
    """Whether the process was stated, so that few points leave nothing undecided; it may be wrong all the same."""

    @cached_property
    def is_too_few(self) -> bool:
        """Whether there are fewer complete rows than parameters: then nothing but measured values is to be said.

        Of an exact black box, that is all that is said in any case, but on a slice.
        """
        if not self.is_cautious or self.is_stated or (self.problem.is_exact and self.problem.slice is None):
            return False
        return self.freedom(len(self.data.U)) < 1

    def freedom(self, rows: int) -> int:
        """Return how many of the first rows no parameter is learned from, plus one.

        A model takes nothing from its prior for its mean, its variance, a noise that is not stated, and how much each
        setting matters, all labels of a choice together.
        """
        problem = self.problem
        used = sorted({j for each in problem.structure for j in each.outputs})
        needed = [int(problem.active[j].sum()) + 2 + (problem.noise[j] is None) for j in used]
        return int(self.data.complete[:rows].sum()) - max(needed, default=0) + 1

    @cached_property
    def stated(self) -> Float64[ndarray, "m"]:
        """The factor of what is said beside what was measured."""
        return self._history[-1] if self.is_cautious else np.ones(self.problem.m)

    @cached_property
    def away(self) -> Float64[ndarray, "m"]:
        """The factor of what may be where nothing was measured.

        `stated` falls with measurements around the best point: those of a noisy output miss by their noise alone, those
        of an exact one are surrounded by others. They show nothing of how wrong the belief is elsewhere. Here, noise is
        not widened, and a measurement counts by how much it could tell (`telling`). However well these were predicted,
        the belief is trusted no more than a first one from as many points that could tell something.
        """
        problem, data, level = self.problem, self.data, self.level
        if not self.is_cautious:
            return np.ones(problem.m)
        factor = np.full(problem.m, self._first(_seen(problem, data), is_exact=True))
        counts = (np.isfinite(data.Y) & _is_new(data)[:, None]).astype(float)
        for (row, _), miss in zip(self._foretold, self.misses, strict=True):
            own = np.square(data.whys[row].telling or np.ones(problem.m))
            share = np.where(problem.exact, 1.0, own)
            outside = miss > quantile.normal(level) * np.sqrt(factor**2 * share + 1.0 - share)
            factor = _learned(factor, np.where(np.isfinite(miss), outside, np.nan), level, own)
            counts[row] = np.isfinite(data.Y[row]) * own
        return np.maximum(factor, self._first(counts.sum(0), is_exact=True))

    def of_part(self, points: int) -> Float64[ndarray, "m"]:
        """Return the factor of a belief about so many of the told points, which has predicted nothing yet."""
        if not self.is_cautious:
            return self.stated
        return np.maximum(self.stated, self._first(points, is_exact=self.problem.exact))

    def for_verdict(
        self, points: int, f: Float64[ndarray, "N k"], scales: Float64[ndarray, "k"]
    ) -> Float64[ndarray, "m"]:
        """Return the factor of a verdict: no less than any other, so that no verdict contradicts what is said.

        Few noisy points leave as much open as exact ones, and what is learned of their noise can hide it.

        Args:
            points: How many points the tested belief is about.
            f: Functions told at all points.
            scales: One scale for each function.
        """
        is_exact = self.problem.is_exact
        least = VERDICT_EXACT if is_exact else VERDICT_NOISY
        earned = self._first(points, is_exact=is_exact or is_young(points, self.problem.d), exact=FIRST_ALONE)
        return np.maximum(np.maximum(self.stated, earned), max(least, self._missed(f, scales)))

    def _missed(self, f: Float64[ndarray, "N k"], scales: Float64[ndarray, "k"]) -> float:
        """Return the factor that the errors of late call for: by how many deviations the belief was wrong.

        With noise, deviations are those of outputs, noise included.

        A measured function differs from what is believed of it by its noise as well. In deviations of a belief that
        has averaged the noise away that would be a surprise every time, and nothing would ever be declared. One of
        eight measurements is often two deviations off, and bounds at three deviations hold it: only one that they
        would not have held widens them beyond the least.
        """
        if self.problem.is_exact:
            measured = np.where(self.data.limited.any(axis=1, keepdims=True), np.nan, f) if self.data.cut else f
            return surprise(self.data.whys, measured, scales, self.level)
        found = self.misses[-RECENT_PROPOSALS:]
        return VERDICT_NOISY / VERDICT_DEVIATIONS * float(np.nan_to_num(found, nan=0.0).max(initial=0.0))

    @property
    def misses(self) -> list[Float64[ndarray, "m"]]:
        """How far each output lay from its median at each told proposal, in deviations of a measurement there.

        Deviations are those of the belief and the noise together, not widened. NaN where an output was not measured.
        """
        told, z = self._foretold, quantile.normal(self.level)
        factors = self._history[:-1] if self.is_cautious else [np.ones(self.problem.m)] * len(told)
        return [z * by * _distance(self.data.Y[row], ends) for by, (row, ends) in zip(factors, told, strict=True)]

    @cached_property
    def _foretold(self) -> list[tuple[int, Float64[ndarray, "m 3"]]]:
        """The rows that were predicted, with what was said of them, wider where a value has an unusually large error.

        It was said of a measurement with the usual noise.
        """
        told = foretold(self.problem, self.data)
        if self.data.errors is None:
            return told
        own = np.nan_to_num(self.data.errors)
        usual = np.array([np.median(each[each > 0]) if (each > 0).any() else 0.0 for each in own.T])
        more = quantile.normal(self.level) * np.sqrt(np.maximum(own**2 - usual**2, 0.0))
        return [
            (row, ends[:, 1:2] + np.array(AROUND) * np.hypot(ends - ends[:, 1:2], more[row][:, None]))
            for row, ends in told
        ]

    @cached_property
    def _history(self) -> list[Float64[ndarray, "m"]]:
        """The factor at each proposal that was predicted, and after the last."""
        rows = [*(row for row, _ in self._foretold), len(self.data.U)]
        found = [
            np.maximum(self._first(_seen(self.problem, self.data), is_exact=self.problem.exact), self._least(rows[0]))
        ]
        for (row, ends), seen in zip(self._foretold, rows[1:], strict=True):
            learned = _learned(found[-1], _outside(self.data.Y[row], ends), self.level)
            found.append(np.maximum(learned, self._least(seen)))
        return found

    @property
    def least(self) -> Float64[ndarray, "m"]:
        """The least factor that so few rows allow."""
        return self._least(len(self.data.U))

    def _least(self, rows: int) -> Float64[ndarray, "m"]:
        """Return the least factor that so many rows allow: of a noisy output, as Student's distribution is wider."""
        ratio = (
            LEAST if self.is_stated else stdtrit(max(self.freedom(rows), 1), self.level) / quantile.normal(self.level)
        )
        return np.where(self.problem.exact, LEAST, ratio)

    def _first(self, points: Any, *, is_exact: Any, exact: float = FIRST_EXACT) -> Any:
        """Return the factor of a belief from so many points before anything was predicted.

        Each label is an input of its own, of which every point tells less.
        """
        if self.is_stated:
            return np.full(self.problem.m, LEAST)
        axes = self.problem.axes.values()
        inputs = sum(len(each.labels) or 1 for each in axes)
        return first(points * len(axes) / inputs, is_exact=is_exact, exact=exact)


def first(points: Any, *, is_exact: Any, exact: float = FIRST_EXACT) -> Any:
    """Return the factor of a belief from so many points before anything was predicted: of an output, or of each."""
    return np.clip(np.where(is_exact, exact, FIRST_NOISY) / np.sqrt(np.maximum(points, 1)), LEAST, MOST)


def is_young(points: int, d: int) -> bool:
    """Tell whether so many points have shown too little for a choice of models or a noise to be relied on."""
    return points <= YOUNG_POINTS * d


def widened(
    problem: Problem, gp: GP, factor: Float64[ndarray, "m"], least: Float64[ndarray, "m"] | float = LEAST
) -> GP:
    """Return a belief as it is said, with the deviations of each output multiplied.

    The factor is about what lies between measurements. A measured point is known as well as its own noise lets it be,
    and that is multiplied by no more than `OWN_STATED` or `OWN_LEARNED`, or by as much as few rows call for (`least`).
    """
    largest = np.array(
        [OWN_LEARNED if noise is None else OWN_STATED if noise > 0 else np.inf for noise in problem.noise]
    )
    said = gp.rounded
    return said if (factor == 1.0).all() else said.widened(factor, np.minimum(factor, np.maximum(largest, least)))


def foretold(problem: Problem, data: Dataset) -> list[tuple[int, Float64[ndarray, "m 3"]]]:
    """Return the rows that were predicted before they were measured there, with what was said of them."""
    moved = set(data.moved)
    return [
        (row, np.array(why.expected))
        for row, why in enumerate(data.whys)
        if len(why.expected) == problem.m and data.numbers[row] not in moved
    ]


def errors(problem: Problem, data: Dataset) -> dict[int, Float64[ndarray, "m"]]:
    """Return how far each output lay from its median at each told proposal, by row; 0 where it was not measured.

    The unit is the deviation of the output over all that was told.
    """
    deviation = deviations(data.Y)
    unit = np.where(deviation > 0, deviation, 1.0)
    return {row: np.nan_to_num(np.abs(data.Y[row] - ends[:, 1]) / unit) for row, ends in foretold(problem, data)}


def surprise(whys: Sequence[Why], f: Float64[ndarray, "N k"], scales: Float64[ndarray, "k"], level: float) -> float:
    """Return by how many deviations, at most, a constraint missed the middle of its bounds at the last proposals.

    Args:
        whys: Why the points were proposed; those without bounds are ignored.
        f: Functions told there.
        scales: One scale per function.
        level: Of the bounds.
    """
    worst = 0.0
    proposed = [(why, row) for why, row in zip(whys, f, strict=False) if len(why.upper) == len(row)]
    for why, row in proposed[-RECENT_PROPOSALS:]:
        lower, upper = np.array(why.lower), np.array(why.upper)
        miss = np.abs(row - 0.5 * (lower + upper))
        deviation = 0.5 * (upper - lower) / (quantile.normal(level) * why.widened)
        deviation = np.maximum(deviation, LEAST_DEVIATION * scales)
        worst = max(worst, float(np.nan_to_num(miss / deviation, nan=0.0, posinf=0.0)[1:].max()))
    return worst


def _seen(problem: Problem, data: Dataset) -> int:
    """Return how many points had been told before anything was predicted; one that was repeated counts once."""
    told = foretold(problem, data)
    return max(int(_is_new(data)[: told[0][0] if told else None].sum()), 1)


def _is_new(data: Dataset) -> Bool[ndarray, "N"]:
    """Tell which rows do not repeat another on purpose, at the same settings."""
    found, numbers, moved = np.ones(len(data.U), dtype=bool), set(data.numbers), set(data.moved)
    for row, why in enumerate(data.whys):
        found[row] = why.repeats not in numbers or data.numbers[row] in moved
    return found


def _outside(y: Float64[ndarray, "m"], ends: Float64[ndarray, "m 3"]) -> Float64[ndarray, "m"]:
    """Tell which outputs lie outside of what was said: 1, or 0; NaN where they were not measured."""
    outside = (y < ends[:, 0]) | (y > ends[:, 2])
    return np.where(np.isfinite(y), outside, np.nan)


@np.errstate(all="ignore")
def _distance(y: Float64[ndarray, "m"], ends: Float64[ndarray, "m 3"]) -> Float64[ndarray, "m"]:
    """Return how far outputs lie from their medians, in widths of what was said on that side."""
    width = np.where(y < ends[:, 1], ends[:, 1] - ends[:, 0], ends[:, 2] - ends[:, 1])
    away = np.abs(y - ends[:, 1])
    return np.where(away > 0, away / np.where(width > 0, width, np.nan_to_num(away, nan=1.0) / MOST), 0.0 * y)


def _learned(
    factor: Float64[ndarray, "m"], outside: Float64[ndarray, "m"], level: float, weight: ndarray | float = 1.0
) -> Float64[ndarray, "m"]:
    """Return the factor after one more measurement, which counts by its weight."""
    step = weight * np.nan_to_num(outside - 2.0 * (1.0 - level))
    return np.clip(factor * np.exp(GAIN * ((1.0 - SHARED) * step + SHARED * step.mean())), LEAST, MOST)


# ---------------------------------------------------------------------------------------- what a belief has to show for


def explained(belief: GP, Y: Float64[ndarray, "N m"]) -> Float64[ndarray, "m"]:
    """Return the leave-one-out log density of each output on its scale, nats a row, in units of its deviation.

    A constant is explained. An output that is explained badly is rough, or has regimes.

    Args:
        belief: About what was told alone (`Believer.of_told`).
        Y: What was told.
    """
    deviation = deviations(belief.warped(Y))
    density = belief.density / np.maximum(belief.counted, 1) + np.log(np.where(deviation > 0, deviation, 1.0))
    return np.where(np.isfinite(density) & (deviation > 0), density, np.inf)


def rough_limits(problem: Problem, belief: GP, Y: Float64[ndarray, "N m"]) -> Bool[ndarray, "m"]:
    """Tell which outputs of limits the belief about what was told explains badly."""
    return _used(problem, 1) & (explained(belief, Y) < ROUGH_BELOW)


def assumes_smooth(problem: Problem, belief: GP, Y: Float64[ndarray, "N m"]) -> bool:
    """Whether some exact output that g uses is taken for smoother than the told values show.

    A ridge or a basin that no measurement came near leaves no trace in the others: they are then explained quite well
    by a smooth belief, which excludes it. Where the rest is explained to the last digits, that is to be believed.
    """
    is_smooth = np.array([choice.kernel != ROUGHEST for choice in belief.choices])
    doubted = _used(problem, 0) & is_smooth & problem.exact
    return bool((explained(belief, Y)[doubted] < SHOWN_ABOVE).any())


def _used(problem: Problem, first: int) -> Bool[ndarray, "m"]:
    """Return which outputs functions depend on, from the first one on."""
    return np.isin(np.arange(problem.m), [j for each in problem.structure[first:] for j in each.outputs])
