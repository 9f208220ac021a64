"""Expected improvement and smooth steps in log space, which keep a slope where the plain ones vanish, and their slopes.

The smoothing is that of Ament et al. (2023).
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy import ndarray
from scipy.special import erfcx, expit, log_ndtr, ndtr

from pied.shapes import Float64

SMALLEST_DEVIATION = 1e-9  # of a function's search scale: a smaller standard deviation is rounding error
TINY = np.finfo(float).tiny  # smaller numbers lose digits
TAIL_WEIGHT = 0.1  # of the polynomial tail of the smoothed positive part (Ament et al. 2023)
STEP_SHIFT = math.sqrt(1.0 / 3.0)  # makes both halves of the smoothed step meet at one half, with equal slopes
ROOT_TWO = math.sqrt(2.0)
ROOT_TWO_PI = math.sqrt(2.0 * math.pi)
HALF_LOG_TWO_PI = 0.5 * math.log(2.0 * math.pi)
SERIES_BELOW_Z = -100.0  # below it the series of log h is exact to rounding, and the closed form cancels

Sample = tuple[Float64[ndarray, "L b"], Callable[[Float64[ndarray, "L b"]], Float64[ndarray, "L b"]]]
"""A function of samples, and the way back: from weights of its values to weights of the samples."""


def log_h(z: Float64[ndarray, "*b"]) -> Float64[ndarray, "*b"]:
    """Return log(phi(z) + z Phi(z)), the logarithm of expected improvement in units of the standard deviation.

    Evaluated directly, the sum cancels for z < -5 and underflows, with its slope, for z < -38.
    """
    near = np.maximum(z, -1.0)
    right = np.log(np.exp(-0.5 * near * near) / ROOT_TWO_PI + near * ndtr(near))
    size = np.minimum(-np.minimum(z, -1.0), -SERIES_BELOW_Z)
    mills = math.sqrt(math.pi / 2) * erfcx(size / ROOT_TWO)
    tail = np.log1p(-np.minimum(size * mills, 1.0 - 1e-16))
    far = -np.minimum(z, SERIES_BELOW_Z)
    series = np.log1p(-3.0 / far**2 + 15.0 / far**4) - 2.0 * np.log(far)
    left = np.where(z > SERIES_BELOW_Z, tail, series) - 0.5 * z * z - HALF_LOG_TWO_PI
    return np.where(z > -1.0, right, left)


def log_h_slopes(z: Float64[ndarray, "*b"]) -> Float64[ndarray, "*b"]:
    """Return Phi(z) / h(z), the slope of log h; by its series where the difference of logarithms cancels."""
    square = np.minimum(z, SERIES_BELOW_Z) ** 2
    series = -z * (1.0 - 1.0 / square + 3.0 / square**2) / (1.0 - 3.0 / square + 15.0 / square**2)
    return np.where(z > SERIES_BELOW_Z, np.exp(log_ndtr(z) - log_h(z)), series)


def log_ndtr_slopes(z: Float64[ndarray, "*b"]) -> Float64[ndarray, "*b"]:
    """Return phi(z) / Phi(z), the slope of log Phi."""
    return math.sqrt(2.0 / math.pi) / erfcx(-z / ROOT_TWO)


def log_fatplus(t: Float64[ndarray, "*b"]) -> Float64[ndarray, "*b"]:
    """Return the logarithm of the positive part, smoothed over a width of 1, with a tail that falls like 1 / t^2.

    A softplus alone underflows, with its slope, 40 widths below zero.
    """
    return np.log(np.logaddexp(0.0, t) + TAIL_WEIGHT / (1.0 + t * t))


def log_fatplus_slopes(t: Float64[ndarray, "*b"]) -> Float64[ndarray, "*b"]:
    """Return the slope of `log_fatplus`."""
    square = 1.0 + t * t
    tail = TAIL_WEIGHT / square
    return (expit(t) - tail * 2.0 * t / square) / (np.logaddexp(0.0, t) + tail)


def log_fatmoid(t: Float64[ndarray, "*b"]) -> Float64[ndarray, "*b"]:
    """Return the logarithm of a step from 0 to 1, one half at 0, over a width of 1, with tails that fall like 1/t^2."""
    below = math.log(2.0 / 3.0) - np.log1p((np.minimum(t, 0.0) - STEP_SHIFT) ** 2)
    above = np.log1p(-2.0 / 3.0 / (1.0 + (np.maximum(t, 0.0) + STEP_SHIFT) ** 2))
    return np.where(t < 0, below, above)


def log_fatmoid_slopes(t: Float64[ndarray, "*b"]) -> Float64[ndarray, "*b"]:
    """Return the slope of `log_fatmoid`."""
    away = np.abs(t) + STEP_SHIFT
    square = 1.0 + away * away
    return np.where(t < 0, 2.0, 4.0 / 3.0 / (square - 2.0 / 3.0)) * (away / square)


def expit_slopes(t: Float64[ndarray, "*b"]) -> Float64[ndarray, "*b"]:
    """Return the slope of the sigmoid."""
    value = expit(t)
    return value * (1.0 - value)


class Step(NamedTuple):
    """A smooth step over a width of 1, and its slope."""

    values: Callable[[ndarray], ndarray]
    slopes: Callable[[ndarray], ndarray]


FATPLUS = Step(log_fatplus, log_fatplus_slopes)
FATMOID = Step(log_fatmoid, log_fatmoid_slopes)
SIGMOID = Step(expit, expit_slopes)


def sample_deviation(G: Float64[ndarray, "L b"], unit: float) -> Float64[ndarray, "b"]:
    """Return the standard deviation of samples; a floor keeps its slope finite where all are equal.

    Samples are divided by the power of two at the largest first, so that squares neither overflow nor vanish.
    """
    least = max(SMALLEST_DEVIATION * unit, TINY)
    _, exponents = np.frexp(np.maximum(np.abs(G).max(0), least))
    share = np.ldexp(1.0, -exponents)
    return np.ldexp(np.sqrt((G * share).var(0) + (least * share) ** 2), exponents)


def smoothed(
    G: Float64[ndarray, "L b"],
    width: Float64[ndarray, "b"] | float,
    deviation: Float64[ndarray, "b"] | None,
    step: Step,
) -> Sample:
    """Return a smooth step of samples, divided by its width first.

    Args:
        G: The samples.
        width: Of the step.
        deviation: The standard deviation of the samples if the width is proportional to it; None: a constant width.
        step: As a function of samples over width.
    """
    t = G / width

    def back(weights: Float64[ndarray, "L b"]) -> Float64[ndarray, "L b"]:
        by_t = weights * step.slopes(t)
        if deviation is None:
            return by_t / width
        return by_t / width - (by_t * t).sum(0) * _log_deviation_slopes(G, deviation)

    return step.values(t), back


def log_improvement(gain: Float64[ndarray, "L b"], temperature: float, unit: float) -> Sample:
    """Return logarithms of the positive parts of samples, in a unit, smoothed over a part of their deviation."""
    deviation = sample_deviation(gain, unit)
    width = temperature * deviation
    value, back = smoothed(gain, width, deviation, FATPLUS)

    def whole_back(weights: Float64[ndarray, "L b"]) -> Float64[ndarray, "L b"]:
        return back(weights) + weights.sum(0) * _log_deviation_slopes(gain, deviation)

    return np.log(width / unit) + value, whole_back


def _log_deviation_slopes(G: Float64[ndarray, "L b"], deviation: Float64[ndarray, "b"]) -> Float64[ndarray, "L b"]:
    """Return the slopes of the logarithm of `sample_deviation` by every sample; their sum is 0."""
    away = G - G.mean(0)
    away -= away.mean(0)  # else the rounding error of the mean of equal samples counts, divided by the floor
    return away / deviation / (len(G) * deviation)


def log_sum_exp(logs: Float64[ndarray, "L b"]) -> Float64[ndarray, "b"]:
    """Return the logarithm of the sum of exponentials."""
    most = logs.max(0)
    most = np.where(np.isfinite(most), most, 0.0)
    return most + np.log(np.exp(logs - most).sum(0))
