"""Quantiles of sums of independent terms, each a function of one output, from the cumulants of the terms.

A term depends on one normal number, so that a few nodes give its mean, variance and third central moment. These add up
over the terms. The quantile is that of the shifted gamma distribution with the same three moments (Pearson's type III):
exact for normal sums and for a single square, and the better the more terms there are. It costs 17 evaluations of the
terms, five of squares, instead of 512, whatever the number of outputs.

Where a few terms vary over many powers of ten, three moments say little: the quantile of a sum of squares could then be
negative. There it is the sum of the largest, or smallest, values that the terms have at the nodes.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np
from numpy import ndarray

from pied.shapes import Float64, Int64

FEWEST_TERMS = 8  # with fewer, three moments say too little of the sum, and samples are cheap
STEP, NODES = 0.5, 17  # deviations between nodes, and their number: to 4 deviations, where hardly anything lies beyond
EXACT_NODES = 5  # for polynomials of degree 9; the cube of a quadratic term has 6
GOLDEN = 0.6180339887498949  # its multiples, less whole numbers, are spread evenly
MOST_SKEWED = 6.0  # skewness beyond which the quantile is that of this one; a square has 2.8
SUM_SKEWED = 1.0  # skewness of a sum of the fewest squares; a more skewed sum may have a quantile that it cannot have
BETWEEN_NODES = 0.1  # of the deviation of a sum: a square reaches so much more between nodes
TABLE_STEP = 1 / 64  # of the skewness; between, cubic interpolation is exact to 1e-7
NEARLY_NORMAL = 1e-3  # skewness below which the gamma distribution has more shape than its quantile can be computed for
ROUNDING = 1e-9  # of the largest mean of a term: what is away from it by much less has no slopes, it is rounding error
LEAST_DEVIATION = 1e-4  # of a sum, in the same unit as what is farthest from its mean, or in that of rounding


@lru_cache(maxsize=8)
def nodes(m: int, *, are_quadratic: bool = False) -> tuple[Float64[ndarray, "R m"], Float64[ndarray, "R m"]]:
    """Return normal numbers at which each output is tried, and their weights.

    Of terms that are quadratic in normal outputs, Gauss and Hermite's five nodes give all three moments exactly.

    Evenly spaced nodes, because terms may have kinks, and each output has them shifted by another part of a step, so
    that their errors cancel where many terms have their kinks at the mean.
    """
    if are_quadratic:
        z, share = np.polynomial.hermite_e.hermegauss(EXACT_NODES)
        return np.repeat(z[:, None], m, 1), np.repeat((share / share.sum())[:, None], m, 1)
    shift = (np.arange(m) * GOLDEN) % 1.0 - 0.5
    Z = STEP * (np.arange(NODES)[:, None] - (NODES - 1) / 2 + shift)
    density = np.exp(-0.5 * Z * Z)
    return Z, density / density.sum(0)


def quantile(terms: Float64[ndarray, "R b j"], weights: Float64[ndarray, "R j"], level: float) -> Float64[ndarray, "b"]:
    """Return the quantile of the sum of independent terms, given at nodes."""
    mean, away, exponents = _centred(terms, weights)
    squares = away * away
    second = np.einsum("rbj,rj->b", squares, weights)
    squares *= away
    skewed, *_, skewness = _gamma(second, np.einsum("rbj,rj->b", squares, weights), level)
    value = mean.sum(-1) + np.ldexp(skewed, exponents)
    for ends, beyond in _beyond(value, np.ldexp(np.sqrt(second), exponents), skewness, terms):
        value[beyond] = ends.sum(-1)
    return value


def quantile_and_weights(
    terms: Float64[ndarray, "R b j"], weights: Float64[ndarray, "R j"], level: float
) -> tuple[Float64[ndarray, "b"], Float64[ndarray, "R b j"]]:
    """Return the quantile of the sum of independent terms, given at nodes, and its slope by each term at each node."""
    mean, away, exponents = _centred(terms, weights)
    squares = away * away
    each = np.einsum("rbj,rj->bj", squares, weights)
    skewed, by_second, by_third, skewness = _gamma(
        each.sum(-1), np.einsum("rbj,rbj,rj->b", squares, away, weights), level
    )
    slopes = 1.0 + 2.0 * by_second[:, None] * away + 3.0 * by_third[:, None] * (squares - each)
    value, slopes = mean.sum(-1) + np.ldexp(skewed, exponents), slopes * weights[:, None]
    for ends, beyond in _beyond(value, np.ldexp(np.sqrt(each.sum(-1)), exponents), skewness, terms):
        there = (terms[:, beyond] == ends) * weights[:, None]
        value[beyond], slopes[:, beyond] = ends.sum(-1), there / there.sum(0)
    return value, slopes


def _beyond(
    value: Float64[ndarray, "b"],
    deviation: Float64[ndarray, "b"],
    skewness: Float64[ndarray, "b"],
    terms: Float64[ndarray, "R b j"],
) -> Iterator[tuple[Float64[ndarray, "e j"], Int64[ndarray, "e"]]]:
    """Return where a quantile is clearly beyond what terms reach, for either end, and the ends of the terms there."""
    skewed = np.flatnonzero(np.abs(skewness) > SUM_SKEWED)
    if not len(skewed):
        return
    for ends, sign in ((terms[:, skewed].max(0), 1.0), (terms[:, skewed].min(0), -1.0)):
        beyond = sign * (value[skewed] - ends.sum(-1)) > BETWEEN_NODES * deviation[skewed]
        yield ends[beyond], skewed[beyond]


def finite(
    terms: Float64[ndarray, "R b j"], Y: Float64[ndarray, "R b m"], outputs: Sequence[int]
) -> Float64[ndarray, "R b m"]:
    """Return outputs at nodes; where the term of one is not finite, the output of its worst finite term."""
    fine, own, moved = np.isfinite(terms), Y[..., list(outputs)], Y.copy()
    worst = np.where(fine, terms, np.inf).argmin(0)[None]
    moved[..., list(outputs)] = np.where(fine, own, np.take_along_axis(own, worst, 0))
    return moved


def _centred(
    terms: Float64[ndarray, "R b j"], weights: Float64[ndarray, "R j"]
) -> tuple[Float64[ndarray, "b j"], Float64[ndarray, "R b j"], ndarray]:
    """Return the means of the terms, what they are away from them, and the power of two in which the latter is given.

    Powers of two keep squares and cubes from vanishing or overflowing in small or large units.
    """
    mean = np.einsum("rbj,rj->bj", terms, weights)
    away = terms - mean
    farthest = np.maximum(away.max((0, 2)), -away.min((0, 2)))
    _, exponents = np.frexp(np.maximum(farthest, ROUNDING * np.abs(mean).max(-1)))
    return mean, np.ldexp(away, -exponents[:, None], out=away), exponents


def _gamma(
    second: Float64[ndarray, "b"], third: Float64[ndarray, "b"], level: float
) -> tuple[Float64[ndarray, "b"], Float64[ndarray, "b"], Float64[ndarray, "b"], Float64[ndarray, "b"]]:
    """Return the quantile of the centred shifted gamma distribution with these moments, its slopes, and its skew."""
    deviation = np.maximum(np.sqrt(second), LEAST_DEVIATION)
    skewness = third / deviation**3
    value, slope = _factor(np.clip(skewness, -MOST_SKEWED, MOST_SKEWED), level)
    slope = np.where(np.abs(skewness) < MOST_SKEWED, slope, 0.0)
    by_second, by_third = (value - 3.0 * skewness * slope) / (2.0 * deviation), slope / deviation**2
    return deviation * value, by_second, by_third, skewness


def _factor(skewness: Float64[ndarray, "b"], level: float) -> tuple[Float64[ndarray, "b"], Float64[ndarray, "b"]]:
    """Return the quantile of the gamma distribution of mean 0, deviation 1 and this skewness, and its slope by it."""
    values, slopes = _table(level)
    at = (skewness + MOST_SKEWED) / TABLE_STEP
    place = np.clip(np.nan_to_num(at).astype(int), 0, len(values) - 2)
    t = at - place
    a, b = values[place], values[place + 1]
    p, q = TABLE_STEP * slopes[place] - (b - a), TABLE_STEP * slopes[place + 1] - (b - a)
    bow = p * (1.0 - t) - q * t
    slope = b - a + (1.0 - 2.0 * t) * bow - t * (1.0 - t) * (p + q)
    return a + t * (b - a) + t * (1.0 - t) * bow, slope / TABLE_STEP


@lru_cache(maxsize=64)
def _table(level: float) -> tuple[Float64[ndarray, "t"], Float64[ndarray, "t"]]:
    """Return the quantile of the gamma distribution by its skewness, and the slopes between which it is interpolated.

    Near skewness 0 it is the expansion of Cornish and Fisher. A negative skewness mirrors the distribution.
    """
    from scipy.special import gammaincinv, ndtri

    skewness = np.arange(round(2 * MOST_SKEWED / TABLE_STEP) + 1) * TABLE_STEP - MOST_SKEWED
    size = np.maximum(np.abs(skewness), NEARLY_NORMAL)
    shape = 4.0 / size**2
    mirrored = np.where(skewness < 0, 1.0 - level, level)
    far = np.where(skewness < 0, -1.0, 1.0) * (gammaincinv(shape, mirrored) - shape) / np.sqrt(shape)
    z = ndtri(level)
    values = np.where(np.abs(skewness) < NEARLY_NORMAL, z + (z * z - 1.0) * skewness / 6.0, far)
    return values, np.gradient(values, TABLE_STEP, edge_order=2)
