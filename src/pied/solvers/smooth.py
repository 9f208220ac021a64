"""Improvement and smooth steps in log space, which keep a slope where the plain ones vanish, and their slopes.

The smoothing is that of Ament et al. (2023).
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy import ndarray
from scipy.special import expit

from pied.shapes import Float64

SMALLEST_DEVIATION = 1e-9  # of a function's search scale: a smaller standard deviation is rounding error
TINY = np.finfo(float).tiny  # smaller numbers lose digits
TAIL_WEIGHT = 0.1  # of the polynomial tail of the smoothed positive part (Ament et al. 2023)
STEP_SHIFT = math.sqrt(1.0 / 3.0)  # makes both halves of the smoothed step meet at one half, with equal slopes

Sample = tuple[Float64[ndarray, "L b"], Callable[[Float64[ndarray, "L b"]], Float64[ndarray, "L b"]]]
"""A function of samples, and the way back: from weights of its values to weights of the samples."""


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
