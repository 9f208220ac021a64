"""A border between two kinds of points, learned from which kind each told point is: success and failure, two regimes.

A latent process is positive on one side and negative on the other; its trend is linear, so a border continues where
nothing was told. The likelihood is probit, the posterior that of expectation propagation; Laplace's is far too unsure
where a border is sharp. Size, length scale and the weight of what is not linear are those of the largest evidence on a
short list. A large size means a sharp border.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy import ndarray
from scipy.special import log_ndtr

from pied.gp.coding import Coding
from pied.shapes import Bool, Float64

SIZES = (2.0, 40.0, 800.0, 16000.0)  # deviation of the latent process, in deviations of a label's noise
SCALES = (0.4, 1.2)  # length scales, in units of sqrt(inputs)
BENDS = (0.03, 0.3)  # variance of what is not linear, in units of the trend's
SLOPE_VARIANCE = 4.0  # of the linear trend along each input, in units of that of its constant
SWEEPS = 40  # of expectation propagation, at most
DAMPING = 0.7  # share of each step that is made: all points move at once
CONVERGED = 1e-3  # of the largest mean: a change that ends the sweeps
SMALLEST_PRECISION = 1e-9  # of the prior's
HALF_LOG_2_PI = 0.5 * math.log(2 * math.pi)


class Form(NamedTuple):
    """The covariance of the latent process."""

    size: float
    scale: float
    bend: float


FORMS = [Form(*each) for each in itertools.product(SIZES, SCALES, BENDS)]


@dataclass(frozen=True, eq=False)
class Border:
    """The latent process, given on which side points are."""

    V: Float64[ndarray, "N e"]
    """The points, as inputs."""
    form: Form
    weights: Float64[ndarray, "N"]
    """mean = covariances @ weights."""
    M: Float64[ndarray, "N N"]
    """variance = prior - covariances @ M @ covariances."""
    coding: Coding | None = None

    @property
    def size(self) -> float:
        """The scale of the process."""
        return self.form.size

    @classmethod
    def fit(
        cls,
        U: Float64[ndarray, "N d"],
        inside: Bool[ndarray, "N"],
        coding: Coding | None = None,
        *,
        is_exact: bool = True,
    ) -> "Border":
        """Learn a border from points on both sides; of noisy outputs, a side near to it may be mistaken."""
        V = U if coding is None else coding.inputs(U)
        forms = FORMS if is_exact else [form for form in FORMS if form.size < SIZES[-1]]
        found = _posteriors(_covariances(V, forms), np.where(inside, 1.0, -1.0))
        best = int(found.evidence.argmax())
        return cls(V, forms[best], found.weights[best], found.M[best], coding)

    def moments(self, U: Float64[ndarray, "b d"]) -> tuple[Float64[ndarray, "b"], Float64[ndarray, "b"]]:
        """Return mean and deviation of the latent process: positive on the inside."""
        V = U if self.coding is None else self.coding.inputs(U)
        k = self.form.size**2 * (_trend(V, self.V) + self.form.bend * _bent(V, self.V, self.form.scale)[0])
        variance = self._prior(V) - ((k @ self.M) * k).sum(1)
        return k @ self.weights, np.sqrt(np.maximum(variance, 1e-12 * self.form.size**2))

    def moments_and_slopes(
        self, U: Float64[ndarray, "b d"]
    ) -> tuple[Float64[ndarray, "b"], Float64[ndarray, "b"], Float64[ndarray, "b d"], Float64[ndarray, "b d"]]:
        """Return mean, deviation and their derivatives with respect to the point."""
        V = U if self.coding is None else self.coding.inputs(U)
        size, scale, bend = self.form
        bent, by_square = _bent(V, self.V, scale)
        k = size**2 * (_trend(V, self.V) + bend * bent)
        away = V[:, None] - self.V[None]
        by_v = size**2 * (SLOPE_VARIANCE * (self.V - 0.5)[None] + bend * 2.0 * by_square[..., None] * away)
        Mk = k @ self.M
        variance = self._prior(V) - (Mk * k).sum(1)
        deviation = np.sqrt(np.maximum(variance, 1e-12 * size**2))
        by_variance = 2.0 * size**2 * SLOPE_VARIANCE * (V - 0.5) - 2.0 * np.einsum("bn,bne->be", Mk, by_v)
        by_mean = np.einsum("bne,n->be", by_v, self.weights)
        by_deviation = by_variance / (2.0 * deviation[:, None])
        if self.coding is not None:
            by_mean, by_deviation = (self.coding.by_cube(each[:, None])[:, 0] for each in (by_mean, by_deviation))
        return k @ self.weights, deviation, by_mean, by_deviation

    def _prior(self, V: Float64[ndarray, "b e"]) -> Float64[ndarray, "b"]:
        return self.form.size**2 * (1.0 + SLOPE_VARIANCE * ((V - 0.5) ** 2).sum(1) + self.form.bend)


def log_evidence(V: Float64[ndarray, "N e"], inside: Bool[ndarray, "N"]) -> float:
    """Return the logarithm of the probability that inputs are on these sides of a border, of the likeliest form."""
    return float(_posteriors(_covariances(V, FORMS), np.where(inside, 1.0, -1.0)).evidence.max())


def _covariances(V: Float64[ndarray, "N e"], forms: Sequence[Form]) -> Float64[ndarray, "F N N"]:
    trend, bent = _trend(V, V), {scale: _bent(V, V, scale)[0] for scale in SCALES}
    return np.stack([form.size**2 * (trend + form.bend * bent[form.scale]) for form in forms])


class _Posteriors(NamedTuple):
    weights: Float64[ndarray, "F N"]
    M: Float64[ndarray, "F N N"]
    evidence: Float64[ndarray, "F"]


@np.errstate(all="ignore")
def _posteriors(K: Float64[ndarray, "F N N"], t: Float64[ndarray, "N"]) -> _Posteriors:
    """Approximate the posterior under each covariance by expectation propagation, all points of a sweep at once."""
    tau, nu = np.zeros(K.shape[:2]), np.zeros(K.shape[:2])
    prior = np.diagonal(K, axis1=1, axis2=2)
    variance, mean = prior, nu
    for _ in range(SWEEPS):
        cavity = np.maximum(1.0 / variance - tau, SMALLEST_PRECISION / prior)
        cavity_mean = (mean / variance - nu) / cavity
        root = np.sqrt(1.0 + 1.0 / cavity)
        z = t * cavity_mean / root
        ratio = np.exp(-0.5 * z**2 - HALF_LOG_2_PI - log_ndtr(z)) / root
        new_mean = cavity_mean + t * ratio / cavity
        new_variance = 1.0 / cavity - ratio * (z / root + ratio) / cavity**2
        step_tau = np.maximum(1.0 / new_variance - cavity, 0.0) - tau
        step_nu = new_mean / new_variance - cavity_mean * cavity - nu
        tau, nu = tau + DAMPING * step_tau, nu + DAMPING * step_nu
        M, B = _middle(K, tau)
        variance = np.maximum(prior - ((K @ M) * K).sum(2), SMALLEST_PRECISION * prior)
        mean = _times(K, nu - _times(M, _times(K, nu)))
        if np.abs(mean - new_mean).max() <= CONVERGED * np.abs(mean).max():
            break
    both = cavity + tau
    evidence = (
        log_ndtr(z)
        + 0.5 * np.log1p(tau / cavity)
        + 0.5 * nu * (mean - nu / both)
        + 0.5 * cavity_mean * cavity / both * (tau * cavity_mean - 2.0 * nu)
    ).sum(1) - 0.5 * np.linalg.slogdet(B)[1]
    weights = nu - _times(M, _times(K, nu))
    is_sound = np.isfinite(evidence) & (evidence <= 0)  # it is the logarithm of a probability
    return _Posteriors(weights, M, np.where(is_sound, evidence, -np.inf))


def _times(A: Float64[ndarray, "F N N"], b: Float64[ndarray, "F N"]) -> Float64[ndarray, "F N"]:
    return (A @ b[:, :, None])[:, :, 0]


def _middle(
    K: Float64[ndarray, "F N N"], tau: Float64[ndarray, "F N"]
) -> tuple[Float64[ndarray, "F N N"], Float64[ndarray, "F N N"]]:
    """Return S^1/2 B^-1 S^1/2 and B = 1 + S^1/2 K S^1/2, where S is the diagonal of tau."""
    root = np.sqrt(tau)
    B = np.eye(K.shape[1]) + root[:, :, None] * K * root[:, None, :]
    return root[:, :, None] * np.linalg.inv(B) * root[:, None, :], B


def _trend(A: Float64[ndarray, "a e"], B: Float64[ndarray, "b e"]) -> Float64[ndarray, "a b"]:
    return 1.0 + SLOPE_VARIANCE * (A - 0.5) @ (B - 0.5).T


def _bent(
    A: Float64[ndarray, "a e"], B: Float64[ndarray, "b e"], scale: float
) -> tuple[Float64[ndarray, "a b"], Float64[ndarray, "a b"]]:
    """Return Matern 5/2 covariances, and their derivatives with respect to the squared distances."""
    squares = np.maximum((A**2).sum(1)[:, None] + (B**2).sum(1)[None] - 2.0 * A @ B.T, 0.0)
    factor = 5.0 / (A.shape[1] * scale**2)
    r = np.sqrt(factor * squares)
    fall = np.exp(-r)
    return (1.0 + r + r * r / 3.0) * fall, -factor / 6.0 * (1.0 + r) * fall
