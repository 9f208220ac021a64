"""Readings of a display that shows so many digits: how far rounding carries a value, and what averaging leaves of it.

A reading rounded to steps of q is off by an even distribution of deviation q / sqrt(12). A learned noise can miss that:
where an output hardly changes, all readings are the same. There, averaging does not take it away either. Of many
readings of one value, with a noise of deviation s before they are rounded, the mean is off by an error of variance

    q^2 / 2 sum_k exp(-(2 pi k s / q)^2) / (pi k)^2,

which is q^2 / 12 for s = 0, and next to nothing from s = q / 2 on.
"""

import math
from decimal import Decimal
from typing import NamedTuple

import numpy as np
from numpy import ndarray

from pied.gp.warps import Warps
from pied.shapes import Float64

DISTINCT = 4  # readings from which on their digits tell a step: yes and no, or three grades, do not
DIGITS = 12  # of a reading that are looked at: what follows is rounding of the computer
FINEST = 1e-6  # of the range of the readings: a smaller step makes no difference
EVEN = math.sqrt(1.0 / 12.0)  # deviation of an even distribution of width one
TERMS = np.arange(1.0, 9.0)
DIFFERENCE = 1e-4  # of an output's deviation: step of the slope of what rounding leaves


def step_of(y: Float64[ndarray, "n"]) -> float:
    """Return the largest step that all readings are multiples of; 0 if they show none that matters."""
    readings = np.unique(y[np.isfinite(y)]).tolist()
    if len(readings) < DISTINCT:
        return 0.0
    told = [Decimal(f"{each:.{DIGITS}g}").normalize() for each in readings]
    place = min(int(each.as_tuple().exponent) for each in told if each)
    step = math.gcd(*(int(each.scaleb(-place)) for each in told))
    found = float(Decimal(step).scaleb(place))
    return found if FINEST * (readings[-1] - readings[0]) < found < math.inf else 0.0


class Rounding(NamedTuple):
    """What rounding leaves in the outputs of a belief, whatever is measured."""

    steps: Float64[ndarray, "m"]
    """Of the readings of every output, natural units; 0: none."""
    noise: Float64[ndarray, "m"]
    """Deviation of the noise of every output on its scale, rounding included."""
    scales: Warps
    units: Float64[ndarray, "m"]
    """Deviation of every output on its scale."""

    def deviation(self, W: Float64[ndarray, "b m"]) -> Float64[ndarray, "b m"]:
        """Return the deviation of the error that averaging leaves, on the scales, where outputs have these means."""
        slopes = np.abs(self.scales.undone_slopes(self.scales.undone(W)))
        return left(self.steps, self.noise * slopes) / slopes

    def added(
        self, W: Float64[ndarray, "b m"], deviation: Float64[ndarray, "b m"]
    ) -> tuple[Float64[ndarray, "b m"], Float64[ndarray, "b m"], Float64[ndarray, "b m"]]:
        """Return deviations with that error, and their derivatives by the mean and by the deviations without it."""
        own, step = self.deviation(W), DIFFERENCE * self.units
        slope = (self.deviation(W + step) - self.deviation(W - step)) / (2.0 * step)
        whole = np.hypot(deviation, own)
        return whole, own * slope / whole, deviation / whole


def left(steps: Float64[ndarray, "m"], noise: Float64[ndarray, "*b m"]) -> Float64[ndarray, "*b m"]:
    """Return the deviation of the error that averaging leaves, for a noise that includes it."""
    own = np.maximum(noise**2 - (EVEN * steps) ** 2, 0.0)
    share = own / np.where(steps > 0, steps, 1.0) ** 2
    terms = np.exp(-share[..., None] * (2.0 * np.pi * TERMS) ** 2) / TERMS**2
    return EVEN * steps * np.sqrt(terms.sum(-1) / (TERMS**-2.0).sum())
