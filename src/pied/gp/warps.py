"""The scale on which an output is modelled: its own, a logarithm or a logit, then standardized."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy import ndarray

from pied.shapes import Bool, Float64

WARPS = ("none", "log", "shifted log", "logit", "mirrored log")
SHIFT = 0.05  # of the range of the told values: how far below them a shifted logarithm still reaches
MARGIN = 0.01  # of that range: how far beyond both ends a logit, or beyond the upper one a mirrored log, still reaches
SATURATED = 0.06  # of that range: values so near to an end are at it
LEAST_SATURATED = 0.1  # share of the values that have to be at either end for a logit, at the upper one for a mirrored
FEWEST_SATURATED = 3  # log, and how many
GRAIN = 2.0**40  # data are rounded to 1/GRAIN, so that other units do not change their last bits
CONSTANT_BELOW = 1e-15  # of the largest value: told values that differ by less are rounding errors of a constant
OUT_OF_REACH = 1e300  # on the modelled scale, of a value that no warped output can have
LARGEST_EXPONENT = 700.0  # of what a logarithm is undone with: exp(709) is the largest double
OVERFLOWS_ABOVE = 1e300  # differences of larger values are computed at a quarter of their size


@dataclass(frozen=True)
class Warp:
    """A monotone map of an output to the scale it is modelled on.

    It is w = y, w = sign log((sign y + offset) / unit) or, for an output that saturates at both ends (a breakthrough, a
    conversion, a share), w = log((y + offset) / (top - y)): there a front of any steepness is nearly a straight line.
    One that begins at a plateau and saturates has half of such a front: sign = -1, a mirrored logarithm.
    The unit is the power of two at the largest told value, so that other units change no bit of the logarithm.
    """

    name: str
    sign: float = 1.0
    offset: float = 0.0
    unit: float = 1.0
    top: float = math.inf
    """What the output of a logit stays below; infinite for the others."""

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
            if not (math.isfinite(high - low) and high > low) or not _saturates(name, y, low, high):
                return None
            margin = (SHIFT if name == "shifted log" else MARGIN) * (high - low)
            if name == "mirrored log":
                warp = cls(name, -1.0, high + margin, unit)
            else:
                warp = cls(name, 1.0, margin - low, unit, high + margin if name == "logit" else math.inf)
        return warp if np.isfinite(warp.forward(y)).all() else None

    def forward(self, y: Float64[ndarray, "n"]) -> Float64[ndarray, "n"]:
        """Return w(y)."""
        if self.name == "none":
            return y
        if self.name == "logit":
            return np.log((y + self.offset) / (self.top - y))
        return self.sign * np.log((self.sign * y + self.offset) / self.unit)

    def threshold(self, y: float) -> float:
        """Return w(y); far beyond all values where y is out of reach."""
        w = float(self.forward(np.array([y]))[0])
        if math.isfinite(w):
            return w
        return math.copysign(OUT_OF_REACH, y - self.top) if self.name == "logit" else -self.sign * OUT_OF_REACH

    def steepness(self, y: Float64[ndarray, "n"]) -> Float64[ndarray, "n"]:
        """Return |dw/dy|."""
        if self.name == "none":
            return np.ones_like(y)
        if self.name == "logit":
            return 1.0 / (y + self.offset) + 1.0 / (self.top - y)
        return 1.0 / (self.sign * y + self.offset)

    def log_slopes(self, y: Float64[ndarray, "n"], deviation: float) -> float:
        """Return sum log |dz/dv| with z = w / deviation, which is modelled, and v = y / unit.

        With this Jacobian, densities under different warps can be compared.
        """
        if self.name == "none":
            return -len(y) * math.log(deviation / self.unit)
        if self.name == "logit":
            slopes = self.unit / (y + self.offset) + self.unit / (self.top - y)
            return float(np.log(slopes).sum()) - len(y) * math.log(deviation)
        return -float(np.log((self.sign * y + self.offset) / self.unit).sum()) - len(y) * math.log(deviation)


class Warps(NamedTuple):
    """The warps of all outputs side by side, to be undone."""

    is_log: Bool[ndarray, "m"]
    is_logit: Bool[ndarray, "m"]
    signs: Float64[ndarray, "m"]
    offsets: Float64[ndarray, "m"]
    units: Float64[ndarray, "m"]
    tops: Float64[ndarray, "m"]

    @classmethod
    def of(cls, warps: Sequence[Warp]) -> "Warps":
        """Put warps side by side."""
        return cls(
            np.array([warp.name not in ("none", "logit") for warp in warps]),
            np.array([warp.name == "logit" for warp in warps]),
            *(np.array([getattr(warp, name) for warp in warps]) for name in ("sign", "offset", "unit", "top")),
        )

    def undone(self, W: Float64[ndarray, "*b m"]) -> Float64[ndarray, "*b m"]:
        """Return outputs in natural units; those without a warp are as they were, and cost nothing."""
        Y = np.array(W, order="K")
        for j in np.flatnonzero(self.is_log).tolist():
            sign, unit, y = self.signs[j], self.units[j], Y[..., j]
            if sign < 0:
                np.negative(y, out=y)
            np.minimum(y, LARGEST_EXPONENT - max(math.log(unit), 0.0), out=y)
            np.exp(y, out=y)
            y *= sign * unit
            y -= sign * self.offsets[j]
        for j in np.flatnonzero(self.is_logit).tolist():
            top = self.tops[j]
            Y[..., j] = top - (top + self.offsets[j]) / (1.0 + np.exp(np.minimum(W[..., j], LARGEST_EXPONENT)))
        return Y

    def undone_slopes(self, Y: Float64[ndarray, "*b m"]) -> Float64[ndarray, "*b m"]:
        """Return the derivatives of `undone` where it gives these outputs; for a logarithm this is its argument."""
        slopes = np.ones_like(Y)
        for j in np.flatnonzero(self.is_log):
            slopes[..., j] = self.signs[j] * Y[..., j] + self.offsets[j]
        for j in np.flatnonzero(self.is_logit):
            y, top, offset = Y[..., j], self.tops[j], self.offsets[j]
            slopes[..., j] = (y + offset) * ((top - y) / (top + offset))
        return slopes


class Standardized(NamedTuple):
    """An output on one of the scales it could be modelled on."""

    warp: Warp
    location: float
    """Mean of the told values on the warped scale."""
    deviation: float
    """Their standard deviation."""
    log_slopes: float
    """Of the told values (`Warp.log_slopes`)."""
    noise: float = 0.0
    """Usual noise on the warped scale, where values have errors of their own (`stated`); 0: none has."""
    scatter: Float64[ndarray, "N"] | None = None
    """The noise variance of each value in usual ones; None: all are usual."""

    @classmethod
    def of(cls, warp: Warp, y: Float64[ndarray, "n"]) -> "Standardized":
        """Standardize the told values under a warp."""
        location, deviation = standardization(warp.forward(y))
        return cls(warp, location, deviation, warp.log_slopes(y, deviation))

    def at(self, y: Float64[ndarray, "n"]) -> "Standardized":
        """Return the same map for a part of the told values."""
        return self._replace(log_slopes=self.warp.log_slopes(y, self.deviation))

    def of_rows(self, kept: ndarray) -> "Standardized":
        """Return the same for a part of the points."""
        return self if self.scatter is None else self._replace(scatter=self.scatter[kept])

    def scattered(self, rows: ndarray, scatter: Float64[ndarray, "r"]) -> "Standardized":
        """Return the same with other noise variances at some points, where values have their own."""
        if self.scatter is None:
            return self
        own = self.scatter.copy()
        own[rows] = scatter
        return self._replace(scatter=own)

    def forward(self, y: Float64[ndarray, "n"]) -> Float64[ndarray, "n"]:
        """Return (w - location) / deviation, rounded to the grain."""
        shrink = 0.25 if abs(self.location) + self.deviation > OVERFLOWS_ABOVE else 1.0
        w = self.warp.forward(y)
        return grained((shrink * w - shrink * self.location) / (shrink * self.deviation))


def _saturates(name: str, y: Float64[ndarray, "n"], low: float, high: float) -> bool:
    """Whether enough values are at the ends of their range for this warp. A smooth output has few there."""
    near, least = SATURATED * (high - low), max(FEWEST_SATURATED, LEAST_SATURATED * len(y))
    at_ends = (y - low <= near).sum(), (high - y <= near).sum()
    needed = {"logit": at_ends, "mirrored log": at_ends[1:]}.get(name, ())
    return all(count >= least for count in needed)


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
