"""How far a belief is to be trusted: bounds that were told to hold nine times of ten must do so.

Few points leave models, length scales and noise undecided, and an output may be rougher than any model. Both show in
the measurements at proposals, which were predicted before they were made. The *caution* of an output is the factor by
which its deviations are multiplied before anything is said of them. It begins large, because a belief from few points
has shown nothing yet; each measurement outside of what was said raises it, each one inside lowers it a little, so that
in the long run as many lie outside as was said, whatever the output is like (online quantile tracking).

Searches do not use it: optimism by the plain deviations finds optima in fewer evaluations. It concerns what is said.
"""

from typing import Any

import numpy as np
from numpy import ndarray

from pied.bounds import quantile
from pied.gp import GP
from pied.problem import Problem
from pied.records import Dataset, deviations
from pied.shapes import Bool, Float64

FIRST_EXACT, FIRST_NOISY = 17.0, 5.7
"""Caution before anything was predicted, times the root of the number of told points. Measured: nine of ten first
predictions of exact outputs from eight points lie within six times what the belief says, of noisy ones within twice."""
LEAST, MOST = 1.0, 100.0
GAIN = 1.0
"""How much one measurement outside of its bounds raises the logarithm of the caution, times how rare it should be."""
OWN_STATED, OWN_LEARNED = 1.5, 2.0
"""Caution of a measurement's own noise, at most: points are chosen for their luck, too, and a learned noise may be too
small. Measured: nine of ten recommended points then lie within their bounds, with 1 for a stated noise eight of ten."""
SHARED = 0.3
"""Share of what is learned from the other outputs of the same measurement: a rough region is rough in most of them."""

Ends = tuple[Float64[ndarray, "b m"], Float64[ndarray, "b m"], Float64[ndarray, "b m"]]
"""Lower end, median and upper end of each output at each point."""


def caution(problem: Problem, data: Dataset, level: float) -> Float64[ndarray, "m"]:
    """Return the factor by which the deviations of each output are multiplied.

    Args:
        problem: The statement.
        data: The told values, with what was expected of those that were proposed.
        level: p of the bounds: a share of 2 (1 - p) may lie outside.
    """
    return _history(problem, data, level)[-1]


def _history(problem: Problem, data: Dataset, level: float) -> list[Float64[ndarray, "m"]]:
    """Return the caution at each proposal that was predicted, and after the last."""
    found = [first_caution(_seen(problem, data), is_exact=_exact(problem))]
    for row, ends in _foretold(problem, data):
        found.append(_learned(found[-1], _outside(data.Y[row], ends), level))
    return found


def misses(problem: Problem, data: Dataset, level: float, *, cautious: bool) -> list[Float64[ndarray, "m"]]:
    """Return how far each output lay from its median at each told proposal, in deviations of a measurement there.

    Deviations are those of the belief and the noise together, not widened. NaN where an output was not measured.

    Args:
        problem: The statement.
        data: The told values, with what was expected of those that were proposed.
        level: p of what was expected.
        cautious: Whether what was expected had been widened by the caution of that time.
    """
    told, z = _foretold(problem, data), quantile.normal(level)
    factors = _history(problem, data, level)[:-1] if cautious else [np.ones(problem.m)] * len(told)
    return [z * factor * _distance(data.Y[row], ends) for factor, (row, ends) in zip(factors, told, strict=True)]


def errors(problem: Problem, data: Dataset) -> dict[int, Float64[ndarray, "m"]]:
    """Return how far each output lay from its median at each told proposal, by row; 0 where it was not measured.

    The unit is the deviation of the output over all that was told.
    """
    deviation = deviations(data.Y)
    unit = np.where(deviation > 0, deviation, 1.0)
    return {row: np.nan_to_num(np.abs(data.Y[row] - ends[:, 1]) / unit) for row, ends in _foretold(problem, data)}


def doubt(problem: Problem, data: Dataset, level: float) -> Float64[ndarray, "m"]:
    """Return the factor by which the deviations of each output are multiplied where nothing was measured.

    Caution falls with measurements around the best point: those of a noisy output miss by their noise alone, those of
    an exact one are surrounded by others. They show nothing of how wrong the belief is elsewhere. Here, noise is not
    widened, and a measurement counts by how much it could tell (`telling`). However well these were predicted, the
    belief is trusted no more than a first one from as many points that could tell something.

    Args:
        problem: The statement.
        data: The told values, with what was expected of those that were proposed, widened by their caution.
        level: p of the bounds.
    """
    factor = np.full(problem.m, first_caution(_seen(problem, data), is_exact=True))
    counts = (np.isfinite(data.Y) & _is_new(data)[:, None]).astype(float)
    away = misses(problem, data, level, cautious=True)
    is_exact = _exact(problem)
    for (row, _), miss in zip(_foretold(problem, data), away, strict=True):
        own = np.square(data.whys[row].telling or np.ones(problem.m))
        share = np.where(is_exact, 1.0, own)
        outside = miss > quantile.normal(level) * np.sqrt(factor**2 * share + 1.0 - share)
        factor = _learned(factor, np.where(np.isfinite(miss), outside, np.nan), level, own)
        counts[row] = np.isfinite(data.Y[row]) * own
    return np.maximum(factor, first_caution(counts.sum(0), is_exact=True))


def widened(problem: Problem, gp: GP, factor: Float64[ndarray, "m"]) -> GP:
    """Return a belief as it is said, with deviations multiplied by the caution of each output.

    Caution is about what lies between measurements. A measured point is known as well as its own noise lets it be, and
    that is multiplied by no more than `OWN_STATED` or `OWN_LEARNED`.
    """
    largest = np.array(
        [OWN_LEARNED if noise is None else OWN_STATED if noise > 0 else np.inf for noise in problem.noise]
    )
    said = gp.rounded
    return said if (factor == 1.0).all() else said.widened(factor, np.minimum(factor, largest))


def first_caution(count: Any, *, is_exact: Any) -> Any:
    """Return the caution of a belief from so many points before anything was predicted: of an output, or of each."""
    return np.clip(np.where(is_exact, FIRST_EXACT, FIRST_NOISY) / np.sqrt(np.maximum(count, 1)), LEAST, MOST)


def _exact(problem: Problem) -> Bool[ndarray, "m"]:
    """Tell which outputs are stated to be exact."""
    return np.array([noise == 0 for noise in problem.noise])


def _seen(problem: Problem, data: Dataset) -> int:
    """Return how many points had been told before anything was predicted; one that was repeated counts once."""
    told = _foretold(problem, data)
    return max(int(_is_new(data)[: told[0][0] if told else None].sum()), 1)


def _is_new(data: Dataset) -> Bool[ndarray, "N"]:
    """Tell which rows do not repeat another on purpose, at the same settings."""
    found, numbers, moved = np.ones(len(data.U), dtype=bool), set(data.numbers), set(data.moved)
    for row, why in enumerate(data.whys):
        found[row] = why.repeats not in numbers or data.numbers[row] in moved
    return found


def _foretold(problem: Problem, data: Dataset) -> list[tuple[int, Float64[ndarray, "m 3"]]]:
    """Return the rows that were predicted before they were measured there, with what was said of them."""
    moved = set(data.moved)
    return [
        (row, np.array(why.expected))
        for row, why in enumerate(data.whys)
        if len(why.expected) == problem.m and data.numbers[row] not in moved
    ]


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


def predicted(
    problem: Problem, gp: GP, U: Float64[ndarray, "b d"], level: float, factor: Float64[ndarray, "m"] | float = 1.0
) -> Ends:
    """Return where measurements at points lie with the probability of the bounds, their noise included.

    Noise may carry a measurement out of the range that its output has, and nothing else may.
    """
    mean, deviation = gp.moments(U)
    z, noise = quantile.normal(level) * factor, deviation_of_noise(problem, gp, U)
    away = z * np.hypot(deviation, noise)
    lowest, highest = problem.ranges.T
    middle = np.clip(gp.unwarp(mean), lowest, highest)
    beyond = np.nan_to_num(z * noise * np.abs(gp.unwarp_slopes(middle)))
    ends = [np.clip(gp.unwarp(mean + side * away), lowest - beyond, highest + beyond) for side in (-1.0, 1.0)]
    return np.minimum.reduce([*ends, middle]), middle, np.maximum.reduce([*ends, middle])


def telling(
    problem: Problem, gp: GP, U: Float64[ndarray, "b d"], pool: Float64[ndarray, "p d"]
) -> Float64[ndarray, "b m"]:
    """Return how much measurements at points can tell about the belief, from 0 to 1.

    Of a noisy output it is the share of the belief in their deviation, the rest being noise. Of an exact one it is the
    deviation in units of that at a usual point: beside told points a measurement tells nothing.

    Args:
        problem: The statement.
        gp: The belief.
        U: The points.
        pool: Points over the box.
    """
    deviation, noise = gp.moments(U)[1], deviation_of_noise(problem, gp, U)
    is_exact = _exact(problem)
    usual = np.median(gp.moments(pool)[1], 0) if is_exact.any() else deviation
    whole = np.where(is_exact, np.maximum(deviation, usual), np.hypot(deviation, noise))
    return np.where(whole > 0, deviation / np.where(whole > 0, whole, 1.0), 1.0)


def deviation_of_noise(problem: Problem, gp: GP, U: Float64[ndarray, "b d"]) -> Float64[ndarray, "b m"]:
    """Return the deviation of each output's noise at points on its warped scale: as stated, else as learned.

    Where readings are rounded it is that of rounding, or more.
    """
    stated = np.array([np.nan if each is None else each for each in problem.noise])
    is_rounded = np.zeros(problem.m, dtype=bool) if gp.steps is None else gp.steps > 0
    return np.where(np.isnan(stated) | is_rounded, gp.noise_deviation(U), stated)  # what has a stated one has no warp
