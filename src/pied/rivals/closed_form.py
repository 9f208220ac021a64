"""Constrained expected improvement in closed form, on the folded problem: every function is one normal output."""

import math
from dataclasses import dataclass

import numpy as np
from numpy import ndarray
from scipy.special import erfcx, log_ndtr, ndtr

from pied.bounds import Composite
from pied.gp import Warp
from pied.shapes import Float64
from pied.solvers.acquisition import Acquisition, Column, Points, black_constraints
from pied.solvers.sampled import largest, summed
from pied.solvers.smooth import SMALLEST_DEVIATION, log_fatplus, log_fatplus_slopes

LARGEST_Z = 1e8  # standard deviations: beyond it a constraint is certain, and squares would overflow
ROOT_TWO = math.sqrt(2.0)
ROOT_TWO_PI = math.sqrt(2.0 * math.pi)
HALF_LOG_TWO_PI = 0.5 * math.log(2.0 * math.pi)
SERIES_BELOW_Z = -100.0  # below it the series of log h is exact to rounding, and the closed form cancels


@dataclass(frozen=True, eq=False)
class ClosedForm(Acquisition):
    """Expected improvement times probability of feasibility on a folded problem: every function is one normal output.

    The improvement of a warped output is that of its warped value; the probability of being positive does not change.
    """

    composite: Composite
    warps: tuple[Warp, ...]
    best: float | None
    """Value to improve on; None: the probability of feasibility alone."""
    scales: Float64[ndarray, "k"]
    is_log: bool = True

    @property
    def which(self) -> tuple[int, ...]:
        """White constraints remain constraints."""
        return self.composite.problem.white

    def columns(self, points: Points) -> list[Column]:
        """Return log EI + sum of log probabilities, or its exponential, and the white constraints."""
        parts = [self._log_probability(points, i) for i in black_constraints(self.composite)]
        if self.best is not None:
            is_white = self.composite.problem.structure[0].kind == "white"
            parts.append((self._log_gain if is_white else self._log_improvement)(points, self.best))
        value, slopes = summed(parts, points)
        if not self.is_log:
            product, by_log = np.exp(value), slopes
            value, slopes = product, lambda: product[:, None] * by_log()
        return [(value, slopes), *(points.exactly(i) for i in self.which)]

    def _log_probability(self, points: Points, i: int) -> Column:
        """Return the logarithm of the probability that a constraint is met."""
        z, slopes = self._standardized(points, i, 0.0)
        return log_ndtr(z), lambda: log_ndtr_slopes(z)[:, None] * slopes()

    def _log_improvement(self, points: Points, best: float) -> Column:
        """Return the logarithm of the expected improvement of the objective."""
        j = self.composite.problem.structure[0].outputs[0]
        deviation = points.deviation[:, j]
        z, slopes = self._standardized(points, 0, best)

        def all_slopes() -> Float64[ndarray, "b d"]:
            return points.moment_slopes[1][:, j] / deviation[:, None] + log_h_slopes(z)[:, None] * slopes()

        return np.log(deviation) + log_h(z), all_slopes

    def _log_gain(self, points: Points, best: float) -> Column:
        """Return the logarithm of the improvement of a white objective, in units of its search scale."""
        f, slopes = points.exactly(0)
        width = SMALLEST_DEVIATION * self.scales[0]
        t = (f - best) / width
        value = math.log(SMALLEST_DEVIATION) + log_fatplus(t)
        return value, lambda: (log_fatplus_slopes(t) / width)[:, None] * slopes()

    def _standardized(self, points: Points, i: int, y: float) -> Column:
        """Return by how many standard deviations the mean of a function's output exceeds a threshold."""
        j = self.composite.problem.structure[i].outputs[0]
        deviation = points.deviation[:, j]
        exact = (points.mean[:, j] - self.warps[j].threshold(y)) / deviation
        z = np.minimum(np.maximum(exact, -LARGEST_Z), LARGEST_Z)

        def slopes() -> Float64[ndarray, "b d"]:
            mean_slopes, deviation_slopes = points.moment_slopes
            by_point = mean_slopes[:, j] - z[:, None] * deviation_slopes[:, j]
            return np.where(z == exact, 1.0 / deviation, 0.0)[:, None] * by_point

        return z, slopes

    def search_scale(self, pool: Float64[ndarray, "b d"]) -> float:
        """Return 1 for a logarithm, else the largest value in the pool."""
        return 1.0 if self.is_log else largest(self.values(pool))


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
