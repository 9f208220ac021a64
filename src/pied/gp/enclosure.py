"""Bounds of posterior means and deviations over whole boxes of the unit cube, which no point inside can leave.

With r the largest scaled distance of a box from its centre c, phi the feature map of the kernel k (unit variance) and
rho = phi(u) - phi(c) - d phi(c), its squared norm is at most R^2(r) = 2 - k''(0) r^2 - 2 k(r) + 2 r k'(r). Hence, for a
mean m of norm |m| in the space of the kernel and a deviation s in units of the process deviation,

    |m(u) - m(c) - m'(c) (u - c)| <= |m| R(r)
    s^2(u) <= s^2(c) + s^2'(c) (u - c) + G^2 r^2 + 2 (s(c) + G r) R(r) + R^2(r),   G^2 = -k''(0),

as the covariance of a posterior is at most that of its prior. Both are of second order in the size of the box (of order
3/2 for the Matern kernel 3/2). They hold up to rounding error.
"""

from dataclasses import dataclass

import numpy as np
from numpy import ndarray

from pied.errors import SettingError
from pied.gp.kernels import KERNELS
from pied.gp.process import GP
from pied.shapes import Float64

TRENDS = ("none", "constant")
"""Trends of which differences between points do not depend."""
ROUNDING = 1e-15
"""Of R^2 / r^2, which is a difference of numbers of size 1."""


@dataclass(frozen=True, eq=False)
class Over:
    """What is known of outputs over boxes, natural units."""

    least: Float64[ndarray, "b m"]
    """Means are at least this."""
    most: Float64[ndarray, "b m"]
    """Means are at most this."""
    widest: Float64[ndarray, "b m"]
    """Deviations are at most this."""
    deviation: Float64[ndarray, "b m"]
    """Deviations at the centres."""
    rest: Float64[ndarray, "b m"]
    """By how much means may exceed their tangents at the centre."""
    bend: Float64[ndarray, "b m"]
    """By how much variances may exceed theirs."""


@dataclass(frozen=True, eq=False)
class Enclosure:
    """A belief whose outputs are in natural units and have stationary kernels, over boxes."""

    gp: GP
    inverse: Float64[ndarray, "m d"]
    """1 / length scale, 0 for inputs that an output does not depend on."""
    norms: Float64[ndarray, "m"]
    """Of the means in the space of each kernel, natural units."""
    deviations: Float64[ndarray, "m"]
    """Of the processes, natural units."""

    @classmethod
    def of(cls, gp: GP) -> "Enclosure":
        """Prepare.

        Raises:
            SettingError: If some output has a trend, a warp, a wave or labels, of which no bounds are known here.
        """
        plain = gp.coding is None and not gp.is_warped and gp.rounding is None
        plain = plain and gp.blocks[0].asked is None
        if not plain or any(
            each.trend not in TRENDS or each.waves or each.scale != "plain" or each.kernel not in KERNELS
            for each in gp.choices
        ):
            raise SettingError(
                "means and deviations are bounded over boxes for stationary kernels alone: state a prior, or models "
                'without slopes, warps, waves and logarithmic axes, such as Model(trends=("none", "constant"), '
                'warps=("none",), scales=("plain",), waves=False)'
            )
        norms = gp.ordered([block.posterior.norms().reshape(-1) for block in gp.blocks])
        inverse = gp.ordered([np.repeat(block.posterior.inverse, block.variance.shape[1], 0) for block in gp.blocks])
        return cls(gp, inverse, gp.deviation * norms, gp.deviation * np.sqrt(gp.variance))

    def over(self, low: Float64[ndarray, "b d"], high: Float64[ndarray, "b d"]) -> "Over":
        """Return what is known of the outputs over boxes."""
        half = 0.5 * (high - low)
        mean, deviation, by_mean, by_deviation = self.gp.moments_and_slopes(0.5 * (low + high))
        r = np.sqrt(np.square(half[:, None, :] * self.inverse).sum(-1))
        k, rest, slope = self._remainder(r)
        s = deviation / self.deviations
        bend = (slope * r) ** 2 + 2.0 * (s + slope * r) * rest + rest * rest
        tilt = 2.0 * s * (np.abs(by_deviation) * half[:, None, :]).sum(-1) / self.deviations
        largest = np.minimum(np.sqrt(s * s + tilt + bend), s + np.sqrt(2.0 * np.maximum(1.0 - k, 0.0)))
        spread = (np.abs(by_mean) * half[:, None, :]).sum(-1) + self.norms * rest
        return Over(
            mean - spread, mean + spread, self.deviations * largest, deviation, self.norms * rest,
            self.deviations**2 * bend,
        )  # fmt: skip

    def _remainder(self, r: Float64[ndarray, "b m"]) -> tuple[ndarray, ndarray, ndarray]:
        """Return k(r), R(r) and G."""
        k, w, curvature = self._profile(r)
        square = 2.0 + curvature * r * r - 2.0 * k - 2.0 * r * r * w  # k'(r) = -r w(r)
        return k, np.sqrt(np.maximum(square, ROUNDING * r * r)), np.sqrt(curvature)

    def _profile(self, r: Float64[ndarray, "b m"]) -> tuple[ndarray, ndarray, ndarray]:
        """Return k(r), w(r) = -k'(r) / r and -k''(0), each of the kernel of its output."""
        s, q, c1, c2, w0, w1 = np.array([KERNELS[each.kernel] for each in self.gp.choices]).T
        a = s * r
        E = np.exp(-(a + q * r * r))
        return (1.0 + a * (c1 + c2 * a)) * E, w0 * (1.0 + w1 * a) * E, w0
