"""The scale on which an output is modelled: its own or a logarithm, then standardized."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy import ndarray

from pied.shapes import Float64

WARPS = ("none", "log", "shifted log")
SHIFT = 0.05  # of the range of the told values: how far below them a shifted logarithm still reaches
GRAIN = 2.0**40  # data are rounded to 1/GRAIN, so that other units do not change their last bits
CONSTANT_BELOW = 1e-15  # of the largest value: told values that differ by less are rounding errors of a constant
OVERFLOWS_ABOVE = 1e300  # differences of larger values are computed at a quarter of their size


@dataclass(frozen=True)
class Warp:
    """A monotone map of an output to the scale it is modelled on: w = sign log((sign y + offset) / unit), or w = y.

    The unit is the power of two at the largest told value, so that other units change no bit of the logarithm.
    """

    name: str
    sign: float = 1.0
    offset: float = 0.0
    unit: float = 1.0

    @classmethod
    def of(cls, name: str, y: Float64[ndarray, "n"]) -> "Warp | None":
        """Return the warp of this name for these values; None when it cannot take them."""
        unit = _binary_unit(y)
        if name == "none":
            return cls("none", unit=unit)
        if not len(y):
            return None
        low, high = float(y.min()), float(y.max())
        if name == "log":
            if not (low > 0 or high < 0) or not high > low:
                return None
            warp = cls(name, 1.0 if low > 0 else -1.0, unit=unit)
        else:
            if not (math.isfinite(high - low) and high > low):
                return None
            warp = cls(name, 1.0, SHIFT * (high - low) - low, unit)
        return warp if np.isfinite(warp.forward(y)).all() else None

    def forward(self, y: Float64[ndarray, "n"]) -> Float64[ndarray, "n"]:
        """Return w(y)."""
        return y if self.name == "none" else self.sign * np.log((self.sign * y + self.offset) / self.unit)

    def log_slopes(self, y: Float64[ndarray, "n"], deviation: float) -> float:
        """Return sum log |dz/dv| with z = w / deviation, which is modelled, and v = y / unit.

        With this Jacobian, densities under different warps can be compared.
        """
        if self.name == "none":
            return -len(y) * math.log(deviation / self.unit)
        return -float(np.log((self.sign * y + self.offset) / self.unit).sum()) - len(y) * math.log(deviation)


class Standardized(NamedTuple):
    """An output on one of the scales it could be modelled on."""

    warp: Warp
    location: float
    """Mean of the told values on the warped scale."""
    deviation: float
    """Their standard deviation."""
    log_slopes: float
    """Of the told values (`Warp.log_slopes`)."""

    @classmethod
    def of(cls, warp: Warp, y: Float64[ndarray, "n"]) -> "Standardized":
        """Standardize the told values under a warp."""
        location, deviation = standardization(warp.forward(y))
        return cls(warp, location, deviation, warp.log_slopes(y, deviation))

    def at(self, y: Float64[ndarray, "n"]) -> "Standardized":
        """Return the same map for a part of the told values."""
        return self._replace(log_slopes=self.warp.log_slopes(y, self.deviation))

    def forward(self, y: Float64[ndarray, "n"]) -> Float64[ndarray, "n"]:
        """Return (w - location) / deviation, rounded to the grain."""
        shrink = 0.25 if abs(self.location) + self.deviation > OVERFLOWS_ABOVE else 1.0
        w = self.warp.forward(y)
        return grained((shrink * w - shrink * self.location) / (shrink * self.deviation))


def _binary_unit(y: Float64[ndarray, "n"]) -> float:
    """Return the power of two at the largest value; one where all are zero."""
    largest = float(np.abs(y).max()) if y.size else 0.0
    return 2.0 ** (math.frexp(largest)[1] - 1) if largest > 0 and math.isfinite(largest) else 1.0


def standardization(w: Float64[ndarray, "n"]) -> tuple[float, float]:
    """Return mean and standard deviation; scaled first, so that 1e-300 does not vanish and 1e308 does not overflow."""
    largest = float(np.abs(w).max()) if w.size else 0.0
    if not largest > 0 or not math.isfinite(largest):
        return (float(w[0]) if w.size and math.isfinite(float(w[0])) else 0.0), 1.0
    location = float((w / largest).mean())
    away = w / largest - location
    widest = float(np.abs(away).max())
    if not widest > CONSTANT_BELOW:
        return location * largest, largest
    deviation = widest * math.sqrt(float(((away / widest) ** 2).mean())) * largest
    return location * largest, deviation if deviation > 0 and math.isfinite(deviation) else 1.0


def grained(numbers: Float64[ndarray, "*b"]) -> Float64[ndarray, "*b"]:
    """Round numbers of about one: points of the unit cube, standardized outputs."""
    return np.round(numbers * GRAIN) / GRAIN
