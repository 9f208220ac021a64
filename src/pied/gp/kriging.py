"""One regression at given hyperparameters, from some of its points: what they say of others, and of each of them."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy import ndarray

from pied.gp import likelihood
from pied.gp.factors import roots
from pied.gp.likelihood import Tasks
from pied.shapes import Bool, Float64


@dataclass(frozen=True, eq=False)
class Kriging:
    """Universal kriging of one output from n of N points."""

    K: Float64[ndarray, "N N"]
    """Covariances of all points in units of the process variance, noise included."""
    F: Float64[ndarray, "N p"]
    """Trend columns."""
    kept: Bool[ndarray, "N"]
    """The points whose values count."""
    root: Float64[ndarray, "n n"]
    """R with K^-1 = R'R, of these points."""
    trend: Float64[ndarray, "n p"]
    """R F."""
    inverse: Float64[ndarray, "p p"]
    """(F' K^-1 F)^-1."""
    beta: Float64[ndarray, "p"]
    """Coefficients of the trend."""
    rest: Float64[ndarray, "n"]
    """R (y - F beta)."""
    known: float
    """Process variance; 0: not known."""

    @classmethod
    def of(
        cls, task: Tasks, theta: Float64[ndarray, "1 q"], kept: Bool[ndarray, "N"], jitter: float = 0.0
    ) -> "Kriging | None":
        """Prepare; None where rounding errors make the covariance singular."""
        K = likelihood.covariance(task, theta, slopes=False)[0][0] + jitter * np.eye(len(kept))
        F = (task.basis if task.basis.ndim == 2 else task.basis[0])[:, task.columns[0] > 0]
        inverses, failed = roots(K[np.ix_(kept, kept)][None])
        if failed[0]:
            return None
        root = inverses[0]
        trend, whole = root @ F[kept], root @ task.y[0, kept, 0]
        inverse = np.linalg.pinv(trend.T @ trend)
        beta = inverse @ (trend.T @ whole)
        known = float(task.noise[0, 0]) / math.exp(theta[0, -1])
        return cls(K, F, kept, root, trend, inverse, beta, whole - trend @ beta, known)

    @property
    def variance(self) -> float:
        """The process variance."""
        return self.known or self._per(self.rest @ self.rest, 0)

    def _per(self, squares: Any, fewer: int) -> Any:
        """Return squares for each value beyond the trend, of so many values fewer."""
        n, p = self.trend.shape
        return np.maximum(squares / max(n - p - fewer, 1), likelihood.SMALLEST_VARIANCE)

    def at(self, on: ndarray) -> tuple[Float64[ndarray, "b"], Float64[ndarray, "b b"]]:
        """Return mean, and covariance in units of the process variance, of values at some of the other points."""
        far = self.root @ self.K[self.kept][:, on]
        apart = self.F[on].T - self.trend.T @ far
        shape = self.K[on][:, on] - far.T @ far + apart.T @ self.inverse @ apart
        return self.F[on] @ self.beta + far.T @ self.rest, shape

    def left_out(self) -> tuple[Float64[ndarray, "n"], Float64[ndarray, "n"]]:
        """Return how far each value lies from what the others predict, and the variance that they give it.

        The process variance is that without the value itself, which would otherwise hide behind its own error.
        """
        pull = self.root.T @ self.trend
        own = (self.root**2).sum(0) - ((pull @ self.inverse) * pull).sum(1)
        e = self.root.T @ self.rest
        return e / own, (self.known or self._per(self.rest @ self.rest - e**2 / own, 1)) / own
