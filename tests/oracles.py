"""Second implementations for the tests: universal kriging in extended precision, quantiles by brute force."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import mpmath
import numpy as np
from mpmath import mp
from numpy import ndarray

DIGITS = 40
IMAGINARY = 1e-30  # a step so small that its square vanishes


def kernel_value(name: str, r2: mpmath.mpf) -> mpmath.mpf:
    """The kernels as their textbooks write them."""
    r = mp.sqrt(r2)
    if name == "squared exponential":
        return mp.exp(-r2 / 2)
    if name == "matern 5/2":
        return (1 + mp.sqrt(5) * r + 5 * r2 / 3) * mp.exp(-mp.sqrt(5) * r)
    return (1 + mp.sqrt(3) * r) * mp.exp(-mp.sqrt(3) * r)


def trend_row(u: Sequence[float], trend: str) -> list[mpmath.mpf]:
    """The monomials of a trend at one point, v = 2u - 1."""
    v = [2 * mp.mpf(float(each)) - 1 for each in u]
    row = [] if trend == "none" else [mp.mpf(1)]
    if trend in ("linear", "quadratic"):
        row += v
    if trend == "quadratic":
        row += [v[i] * v[j] for i in range(len(v)) for j in range(i, len(v))]
    return row


@dataclass
class Kriging:
    """Universal kriging at given hyperparameters, every number with 40 digits."""

    U: ndarray
    y: ndarray
    kernel: str
    trend: str
    scales: Sequence[float]
    nugget: float
    variance: float | None = None
    """None: profiled, Q / (n - p)."""

    def __post_init__(self) -> None:
        mp.dps = DIGITS
        n = len(self.y)
        K = mp.matrix(n, n)
        for i in range(n):
            for j in range(n):
                K[i, j] = self._k(self.U[i], self.U[j]) + (mp.mpf(float(self.nugget)) if i == j else 0)
        self.inverse = K**-1
        self.logdet = mp.log(mp.det(K))
        self.data = mp.matrix([mp.mpf(float(each)) for each in self.y])
        rows = [trend_row(u, self.trend) for u in self.U]
        self.p = len(rows[0])
        if self.p:
            self.F = mp.matrix(rows)
            self.A = self.F.T * self.inverse * self.F
            self.logdet_A = mp.log(mp.det(self.A))
            self.inverse_A = self.A**-1
            self.P = self.inverse - self.inverse * self.F * self.inverse_A * self.F.T * self.inverse
            self.beta = self.inverse_A * (self.F.T * (self.inverse * self.data))
        else:
            self.logdet_A, self.P = mp.mpf(0), self.inverse
        self.Q = (self.data.T * self.P * self.data)[0]
        freedom = max(n - self.p, 1)
        self.s2 = self.Q / freedom if self.variance is None else mp.mpf(float(self.variance))
        self.loss = (freedom * mp.log(self.s2) + self.logdet + self.logdet_A + self.Q / self.s2) / 2

    def _k(self, u: ndarray, v: ndarray) -> mpmath.mpf:
        terms = [
            ((mp.mpf(float(a)) - mp.mpf(float(b))) / mp.mpf(float(s))) ** 2
            for a, b, s in zip(u, v, self.scales, strict=True)
        ]
        return kernel_value(self.kernel, mp.fsum(terms))

    def moments(self, u: ndarray) -> tuple[mpmath.mpf, mpmath.mpf]:
        """Mean and variance of the latent process at a point, the uncertainty of the trend included."""
        k = mp.matrix([self._k(u, each) for each in self.U])
        if not self.p:
            return (k.T * self.inverse * self.data)[0], self.s2 * (1 - (k.T * self.inverse * k)[0])
        f = mp.matrix(trend_row(u, self.trend))
        r = f - self.F.T * (self.inverse * k)
        mean = (f.T * self.beta)[0] + (k.T * (self.inverse * (self.data - self.F * self.beta)))[0]
        return mean, self.s2 * (1 - (k.T * self.inverse * k)[0] + (r.T * self.inverse_A * r)[0])

    def leave_one_out(self) -> mpmath.mpf:
        """Sum of log densities of each observation under a fit that never saw it, at the same hyperparameters."""
        total = mp.mpf(0)
        for i in range(len(self.y)):
            keep = [j for j in range(len(self.y)) if j != i]
            rest = Kriging(
                self.U[keep], self.y[keep], self.kernel, self.trend, self.scales, self.nugget, float(self.s2)
            )
            mean, variance = rest.moments(self.U[i])
            variance += self.s2 * mp.mpf(float(self.nugget))
            error = mp.mpf(float(self.y[i])) - mean
            total -= (mp.log(2 * mp.pi) + mp.log(variance) + error**2 / variance) / 2
        return total


def numeric_slope(function, point: ndarray, step: float = 1e-5) -> ndarray:
    """Central differences of a function of one vector; the last axis of the result is the vector's."""
    moves = step * np.eye(len(point))
    return np.stack([(function(point + move) - function(point - move)) / (2 * step) for move in moves], -1)


def exact_slope(function, point: ndarray) -> ndarray:
    """Slopes of an analytic function of one vector from an imaginary step, without the error of a difference."""
    moves = 1j * IMAGINARY * np.eye(len(point))
    return np.stack([np.imag(function(point + move)) / IMAGINARY for move in moves], -1)


@dataclass
class Normals:
    """A belief stated by two functions of the point, with outputs that may be lognormal: the protocol, nothing more."""

    mean: Callable[[ndarray], ndarray]
    """u (d) -> means (m), analytic."""
    scale: Callable[[ndarray], ndarray]
    """u (d) -> standard deviations (m) or a Cholesky factor (m m), analytic."""
    logs: tuple[int, ...] = ()
    """Outputs that are modelled on a log scale."""

    @property
    def is_warped(self) -> bool:
        return bool(self.logs)

    def moments(self, U: ndarray) -> tuple[ndarray, ndarray]:
        return np.stack([self.mean(u) for u in U]), np.stack([self.scale(u) for u in U])

    def moments_and_slopes(self, U: ndarray) -> tuple[ndarray, ndarray, ndarray, ndarray]:
        slopes = (np.stack([exact_slope(each, u) for u in U]) for each in (self.mean, self.scale))
        return (*self.moments(U), *slopes)

    def unwarp(self, W: ndarray) -> ndarray:
        Y = W.copy()
        Y[..., self.logs] = np.exp(Y[..., self.logs])
        return Y

    def unwarp_slopes(self, Y: ndarray) -> ndarray:
        slopes = np.ones_like(Y)
        slopes[..., self.logs] = Y[..., self.logs]
        return slopes

    def draw(self, U: ndarray, samples: int) -> ndarray:
        """Independent samples of the outputs."""
        mean, scale = self.moments(U)
        Z = np.random.default_rng(0).standard_normal((samples, mean.shape[1]))
        step = scale * Z[:, None] if scale.ndim == 2 else np.einsum("bij,lj->lbi", scale, Z)
        return self.unwarp(mean + step)
