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

from pied.gp.features.coding import Coding
from pied.gp.kernels import matern
from pied.shapes import Bool, Float64

SIZES = (2.0, 40.0, 800.0, 16000.0)  # deviation of the latent process, in deviations of a label's noise
SCALES = (0.4, 1.2)  # length scales, in units of sqrt(inputs)
BENDS = (0.03, 0.3)  # variance of what is not linear, in units of the trend's
SLOPE_VARIANCE = 4.0  # of the linear trend along each input, in units of that of its constant
SWEEPS = 40  # of expectation propagation, at most
DAMPING = 0.7  # share of each step that is made: all points move at once
CONVERGED = 1e-3  # of the largest mean: a change that ends the sweeps
SMALLEST_PRECISION = 1e-9  # of the prior's
FAR = -30.0  # deviations: farther out, moments of a cut-off normal distribution are those of its expansion
ROUNDED = 1e-3  # nats by which rounding errors may carry the logarithm of a probability above 0
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
        K = _covariances(V, forms)
        found = propagated(K, np.where(inside, 1.0, -1.0), np.zeros(len(V)))
        best = int(found.evidence.argmax())
        nu, M = found.nu[best], found.M[best]
        return cls(V, forms[best], nu - M @ (K[best] @ nu), M, coding)

    def moments(self, U: Float64[ndarray, "b d"]) -> tuple[Float64[ndarray, "b"], Float64[ndarray, "b"]]:
        """Return mean and deviation of the latent process: positive on the inside."""
        _, k, _, _, deviation = self._at(U)
        return k @ self.weights, deviation

    def moments_and_slopes(
        self, U: Float64[ndarray, "b d"]
    ) -> tuple[Float64[ndarray, "b"], Float64[ndarray, "b"], Float64[ndarray, "b d"], Float64[ndarray, "b d"]]:
        """Return mean, deviation and their derivatives with respect to the point."""
        V, k, by_square, Mk, deviation = self._at(U)
        size, _, bend = self.form
        away = V[:, None] - self.V[None]
        by_v = size**2 * (SLOPE_VARIANCE * (self.V - 0.5)[None] + bend * 2.0 * by_square[..., None] * away)
        by_variance = 2.0 * size**2 * SLOPE_VARIANCE * (V - 0.5) - 2.0 * np.einsum("bn,bne->be", Mk, by_v)
        by_mean = np.einsum("bne,n->be", by_v, self.weights)
        by_deviation = by_variance / (2.0 * deviation[:, None])
        if self.coding is not None:
            by_mean, by_deviation = (self.coding.by_cube(each[:, None])[:, 0] for each in (by_mean, by_deviation))
        return k @ self.weights, deviation, by_mean, by_deviation

    def _at(self, U: Float64[ndarray, "b d"]) -> tuple[ndarray, ndarray, ndarray, ndarray, ndarray]:
        """Return points as inputs, their covariances with the told ones, k and M k, and the deviation there."""
        V = U if self.coding is None else self.coding.inputs(U)
        size, scale, bend = self.form
        bent, by_square = matern(V, self.V, scale)
        k = size**2 * (_trend(V, self.V) + bend * bent)
        prior, Mk = size**2 * (1.0 + SLOPE_VARIANCE * ((V - 0.5) ** 2).sum(1) + bend), k @ self.M
        return V, k, by_square, Mk, np.sqrt(np.maximum(prior - (Mk * k).sum(1), 1e-12 * size**2))


def log_evidence(V: Float64[ndarray, "N e"], inside: Bool[ndarray, "N"]) -> float:
    """Return the logarithm of the probability that inputs are on these sides of a border, of the likeliest form."""
    return float(propagated(_covariances(V, FORMS), np.where(inside, 1.0, -1.0), np.zeros(len(V))).evidence.max())


def _covariances(V: Float64[ndarray, "N e"], forms: Sequence[Form]) -> Float64[ndarray, "F N N"]:
    trend, bent = _trend(V, V), {scale: matern(V, V, scale)[0] for scale in SCALES}
    return np.stack([form.size**2 * (trend + form.bend * bent[form.scale]) for form in forms])


class Sites(NamedTuple):
    """What the sides say of the latent process, as uncertain values, under each covariance."""

    tau: Float64[ndarray, "F N"]
    """The precision of each value."""
    nu: Float64[ndarray, "F N"]
    """The value less the mean a priori, times its precision."""
    M: Float64[ndarray, "F N N"]
    """variance = prior - covariances @ M @ covariances."""
    evidence: Float64[ndarray, "F"]
    """Logarithm of the probability of the sides; minus infinity where rounding errors took over."""


@np.errstate(all="ignore")
def propagated(K: Float64[ndarray, "F N N"], t: Float64[ndarray, "N"], m: Float64[ndarray, "N"]) -> Sites:
    """Approximate that normal numbers are on given sides of 0, give or take 1: expectation propagation.

    All points of a sweep at once. What follows is about numbers less their mean a priori.

    Args:
        K: Their covariance.
        t: 1 for those that are positive, -1 for the others.
        m: Their mean a priori.
    """
    tau, nu = np.zeros(K.shape[:2]), np.zeros(K.shape[:2])
    prior = np.diagonal(K, axis1=1, axis2=2)
    variance, mean = prior, nu
    for _ in range(SWEEPS):
        cavity = np.maximum(1.0 / variance - tau, SMALLEST_PRECISION / prior)
        cavity_mean = (mean / variance - nu) / cavity
        root = np.sqrt(1.0 + 1.0 / cavity)
        z = t * (cavity_mean + m) / root
        ratio, lost = _cut_off(z)
        new_mean = cavity_mean + t * ratio / (cavity * root)
        new_variance = (1.0 - lost / (1.0 + cavity)) / cavity
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
    is_sound = np.isfinite(evidence) & (evidence <= ROUNDED)  # it is the logarithm of a probability
    return Sites(tau, nu, M, np.where(is_sound, evidence, -np.inf))


def _cut_off(z: Float64[ndarray, "F N"]) -> tuple[Float64[ndarray, "F N"], Float64[ndarray, "F N"]]:
    """Return the mean of a standard normal distribution above -z, and by how much its variance falls."""
    ratio = np.exp(-0.5 * z**2 - HALF_LOG_2_PI - log_ndtr(z))
    is_far = z < FAR
    far = np.where(is_far, z, FAR)
    ratio = np.where(is_far, -far - 1.0 / far + 2.0 / far**3, ratio)
    return ratio, np.where(is_far, 1.0 - 1.0 / far**2 + 6.0 / far**4, ratio * (z + ratio))


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
