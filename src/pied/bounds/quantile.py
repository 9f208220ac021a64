"""Quantiles of a sample or of a known distribution, as functions of arrays with samples on the first axis.

A *level* p is the probability below the quantile: the upper bound of a function is Q(p), the lower one Q(1 - p).
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy import ndarray

from pied.errors import SettingError
from pied.shapes import Float64, Int

LEAST_SQUARES = 1e-200  # a smaller sum of squares counts as this one, so that the slope of its root is finite
MEANS_AT_ONCE = 4_000_000  # numbers in one array of the soft sort: bounds its memory to 32 MB
LEAST_WEIGHT = 1e-12  # of the largest weight: smaller weights of order statistics are left out
LEAST_TAIL = 1e-15  # a level this near to 1 still differs from it, and so does the one halfway between
RANK_ROUNDING = 1e-9  # ranks: p L that exceeds an integer by less is that integer


@lru_cache(maxsize=256)
def normal(level: float) -> float:
    """Return the standard normal quantile; levels that round to 0 or 1 are refused, as it would be infinite."""
    if not 0.0 < level < 1.0:
        raise SettingError(f"a level must lie strictly between 0 and 1, got {level}")
    from scipy.special import ndtri  # here and below: not before it is needed, it takes long to load

    return float(ndtri(level))


def level_of(deviations: float) -> float:
    """Return the level of a standard normal quantile: the inverse of `normal`."""
    from scipy.special import ndtr

    return float(ndtr(deviations))


def shift(values: Float64[ndarray, "R *b"], level: float) -> tuple[Float64[ndarray, "*b"], Float64[ndarray, "R *b"]]:
    """Return the bound center +- sqrt(sum_j delta_j^2) from one shift per output, and the slope by each value.

    delta_j is the change of g when output j alone moves from its median to the better (or worse) of its two quantiles.
    It is exact for g affine in independent normals (Proposition 2) and for g monotone in one output.

    Args:
        values: g at the medians of all outputs; then with each output in turn at its upper quantile; then at its lower.
        level: Above 1/2 the upper bound, below it the lower.
    """
    J, sign = len(values) // 2, 1.0 if level > 0.5 else -1.0
    center = values[0]
    gain = sign * (values[1:] - center)
    delta = np.maximum(np.maximum(gain[:J], gain[J:]), 0.0)
    size, share = _length(delta)
    lower = np.where(gain[J:] > gain[:J], share, 0.0)
    return center + sign * size, np.concatenate([(1.0 - share.sum(0))[None], share - lower, lower])


def _length(delta: Float64[ndarray, "J *b"]) -> tuple[Float64[ndarray, "*b"], Float64[ndarray, "J *b"]]:
    """Return the root of the sum of squares, and its slopes, in units of the power of two at the largest number."""
    _, exponents = np.frexp(delta.max(0))
    scaled = np.ldexp(delta, -exponents)
    size = scaled[0] if len(delta) == 1 else np.sqrt(np.maximum((scaled * scaled).sum(0), LEAST_SQUARES))
    return np.ldexp(size, exponents), scaled / np.maximum(size, LEAST_SQUARES)


def harrell_davis(samples: Float64[ndarray, "L *b"], level: float) -> Float64[ndarray, "*b"]:
    """Return the averaged order statistic of Harrell and Davis (1982): sum_l w_l Y_(l).

    w_l is the mass of Beta((L + 1) p, (L + 1)(1 - p)) on [(l - 1)/L, l/L]. Averaging neighbouring order statistics
    makes value and slope smooth in x; a single one has kinks.
    """
    low, weights = _harrell_davis_weights(len(samples), level)
    return np.tensordot(weights, np.sort(samples, axis=0)[low : low + len(weights)], 1)


def harrell_davis_and_weights(
    samples: Float64[ndarray, "L *b"], level: float
) -> tuple[Float64[ndarray, "*b"], Float64[ndarray, "L *b"]]:
    """Return the averaged order statistic, and the weight of every sample in it, which is its slope."""
    return _weighted(samples, *_harrell_davis_weights(len(samples), level))


@lru_cache(maxsize=256)
def _harrell_davis_weights(L: int, level: float) -> tuple[int, Float64[ndarray, "w"]]:
    """Return the first rank with a weight that is not negligible, and the weights from there on."""
    from scipy.special import betainc

    weights = np.diff(betainc((L + 1) * level, (L + 1) * (1 - level), np.arange(L + 1) / L))
    ranks = np.flatnonzero(weights > LEAST_WEIGHT * weights.max())
    low, high = int(ranks[0]), int(ranks[-1]) + 1
    return low, weights[low:high] / weights[low:high].sum()


def rank(L: int, level: float) -> int:
    """Return the rank ceil(p L) of the order statistic, equation (20), counted from 1."""
    return min(L, max(1, math.ceil(level * L - RANK_ROUNDING)))


def order_statistic(samples: Float64[ndarray, "L *b"], level: float) -> Float64[ndarray, "*b"]:
    """Return the plain order statistic of rank ceil(p L), equation (20)."""
    place = rank(len(samples), level) - 1
    return np.partition(samples, place, axis=0)[place]


def order_statistic_and_weights(
    samples: Float64[ndarray, "L *b"], level: float
) -> tuple[Float64[ndarray, "*b"], Float64[ndarray, "L *b"]]:
    """Return the plain order statistic, and the weight of every sample in it: 1 for the one chosen, else 0."""
    return _weighted(samples, rank(len(samples), level) - 1, np.ones(1))


def soft_order_statistic(samples: Float64[ndarray, "L *b"], level: float, softness: float) -> Float64[ndarray, "*b"]:
    """Return entry ceil(p L) of the soft sort: the paper's estimate."""
    return _pooled(samples.reshape(len(samples), -1), level, softness)[0].reshape(samples.shape[1:])


def soft_order_statistic_and_weights(
    samples: Float64[ndarray, "L *b"], level: float, softness: float
) -> tuple[Float64[ndarray, "*b"], Float64[ndarray, "L *b"]]:
    """Return entry ceil(p L) of the soft sort, and the weight of every sample in it, which is its slope."""
    y = samples.reshape(len(samples), -1)
    values, order, first, last = _pooled(y, level, softness)
    ranks = np.arange(len(y))[:, None]
    weights = np.empty(y.shape)
    np.put_along_axis(weights, order, ((ranks >= first) & (ranks <= last)) / (last + 1 - first), 0)
    return values.reshape(samples.shape[1:]), weights.reshape(samples.shape)


def _weighted(
    samples: Float64[ndarray, "L *b"], low: int, weights: Float64[ndarray, "w"]
) -> tuple[Float64[ndarray, "*b"], Float64[ndarray, "L *b"]]:
    """Return the weighted sum of the order statistics from low (counted from 0), and the weight of every sample."""
    high = low + len(weights)
    shaped = weights.reshape(-1, *[1] * (samples.ndim - 1))
    places = np.argpartition(samples, (low, high - 1), axis=0)[low:high]
    chosen = np.take_along_axis(samples, places, 0)
    inner = np.argsort(chosen, axis=0)
    places, chosen = np.take_along_axis(places, inner, 0), np.take_along_axis(chosen, inner, 0)
    result = np.zeros(samples.shape)
    np.put_along_axis(result, places, np.broadcast_to(shaped, chosen.shape), 0)
    return (shaped * chosen).sum(0), result


def _pooled(
    samples: Float64[ndarray, "L b"], level: float, softness: float
) -> tuple[Float64[ndarray, "b"], Int[ndarray, "L b"], Int[ndarray, "b"], Int[ndarray, "b"]]:
    """Return entry ceil(p L) of the soft sort, the order of the samples, and the ranks that are pooled in the entry.

    The soft sort (Blondel et al. 2020, l2) projects (1, ..., L) / e onto the permutahedron of the sample. With
    z = (L, ..., 1)/e and y the sorted sample it is v - z, v the non-increasing regression of z + y. Blocks of v pool
    neighbours. Outside of blocks, and everywhere while neighbours differ by at most 1/e, the soft sort equals the sort
    in value and slope. With much larger gaps everything pools and the result tends to the mean, so it depends on the
    units of g; only `CUQB.paper()` uses it. The block that holds a place attains min over its first, max over its last
    element of the mean between them; the weight of a sample is 1 over the size of its block, or 0.
    """
    L, place = len(samples), rank(len(samples), level) - 1
    order = np.argsort(samples, axis=0)
    y = np.take_along_axis(samples, order, 0)
    values, first, last = y[place].copy(), np.full(y.shape[1], place), np.full(y.shape[1], place)
    apart = np.flatnonzero(np.diff(y, axis=0).max(0, initial=0.0) > 1.0 / softness)
    z = np.arange(L, 0, -1)[:, None] / softness
    sums = np.zeros((L + 1, len(apart)))
    np.cumsum(z + y[:, apart], axis=0, out=sums[1:])
    firsts, lasts = np.arange(place + 1), np.arange(place, L)
    sizes = (lasts + 1 - firsts[:, None])[:, :, None]
    step = max(1, MEANS_AT_ONCE // sizes.size)
    for begin in range(0, len(apart), step):
        columns, piece = apart[begin : begin + step], sums[:, begin : begin + step]
        means = (piece[place + 1 :] - piece[: place + 1, None]) / sizes
        each = np.arange(len(columns))
        first[columns] = at = means.max(1).argmin(0)
        among = means[at, :, each]
        last[columns] = place + among.argmax(1)
        values[columns] = among.max(1) - z[place]
    return values, order, first, last


def worst_where_not_finite(samples: Float64[ndarray, "L *b"], worst: float = -1.0) -> Float64[ndarray, "L *b"]:
    """Replace samples that are not finite by a bad finite value.

    Minus infinity would spread to every averaged order statistic. The value is the given one, or one range below the
    worst finite sample of the same point where that is lower. It does not depend on other points of the batch.

    Args:
        samples: Values of g.
        worst: A value below everything that can be expected of this g.
    """
    fine = np.isfinite(samples)
    low, high = np.where(fine, samples, np.inf).min(0), np.where(fine, samples, -np.inf).max(0)
    below = np.where(fine.any(0), low - (high - low), worst)
    return np.where(fine, samples, np.minimum(below, worst))


@dataclass(frozen=True)
class Confidence:
    """The schedule of levels of Lemma 1: t -> p_t = 1 - a_t / 2, with t the number of points told so far.

    Here a_t = 6 delta / (pi^2 (t + 1)^2 functions size). With it all bounds hold together, at every point of a
    finite set, for every function and at all times, with probability at least 1 - delta.
    """

    delta: float
    """Probability that any bound fails."""
    size: int
    """Number of points of the set."""
    functions: int
    """Number of functions, objective included (n + 1)."""

    def __post_init__(self) -> None:
        if not 0 < self.delta < 1 or self.size < 1 or self.functions < 1:
            got = f"{self.delta}, {self.size}, {self.functions}"
            raise SettingError(f"confidence needs 0 < delta < 1, size >= 1, functions >= 1, got {got}")

    def __call__(self, t: int) -> float:
        """Return the level after t points."""
        tail = 3.0 * self.delta / (math.pi**2 * (t + 1) ** 2 * self.functions * self.size)
        return 1.0 - max(tail, LEAST_TAIL)


def confidence(delta: float, size: int, functions: int) -> Confidence:
    """Return the schedule of levels of Lemma 1 (`Confidence`)."""
    return Confidence(delta, size, functions)


@dataclass(frozen=True)
class Steps:
    """Levels listed by time: t -> p_t, with t the number of points told so far; after the last one it stays."""

    levels: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.levels:
            raise SettingError("Steps needs at least one level, such as Steps((0.8, 0.9, 0.95))")
        for level in self.levels:
            _check_number(level)

    def __call__(self, t: int) -> float:
        """Return the level after t points."""
        return self.levels[min(t, len(self.levels) - 1)]


Timed = float | Confidence | Steps
"""The level of one function: one for all times, or a schedule."""
Level = Timed | tuple[Timed, ...]
"""One for all functions; or one for each, the objective's first: 1 - alpha_{i,t} / 2 of Algorithm 1."""


def level_at(level: Level, told: int) -> float:
    """Return the level after so many told points; of several, the objective's."""
    one = level[0] if isinstance(level, tuple) else level
    return one if isinstance(one, int | float) else one(told)


def levels_at(level: Level, told: int, k: int) -> tuple[float, ...]:
    """Return the level of each of k functions after so many told points."""
    each = level if isinstance(level, tuple) else (level,) * k
    return tuple(level_at(one, told) for one in each)


def checked_level(level: Any) -> Level:
    """Refuse what is neither the level of upper bounds nor a schedule of such levels, nor one of these by function."""
    if isinstance(level, tuple) and level:
        for each in level:
            _check_one(each)
    else:
        _check_one(level)
    return level


def _check_one(level: Any) -> None:
    if isinstance(level, Confidence | Steps):
        return
    if isinstance(level, bool) or not isinstance(level, int | float):
        raise SettingError(
            "level is a number between 0.5 and 1, a schedule, confidence(delta, size, functions) or Steps((0.8, 0.9)) "
            f"of pied.bounds.quantile, or one of these for each function, objective first: (0.95, 0.99); got {level!r}"
        )
    _check_number(level)


def _check_number(level: float) -> None:
    if not 0.5 < level < 1.0:
        raise SettingError(f"level is the probability of the upper bound, between 0.5 and 1, got {level}")
