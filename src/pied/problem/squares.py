"""Objectives that are sums of squares of affine functions of the outputs, weighted or with a covariance.

    q(x, y) = |L' (y - y0) + a(x)|^2 + rest(x)

The matrix follows from the slopes at a few outputs, and that it is right from values at others, so that it does not
matter how the objective was written.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy import ndarray

from pied.rng import Stream
from pied.shapes import Float64

if TYPE_CHECKING:
    from pied.problem.problem import Problem

POINTS = 4  # at which it is looked whether the weights depend on the settings
TRIED = 16  # outcomes at which what was found is compared with the objective
ROUNDING = 1e-6  # relative difference from the objective that counts as rounding: some slopes are differences
LEAST_WEIGHT = 1e-10  # of the largest: smaller ones are rounding


@dataclass(frozen=True, eq=False)
class Squares:
    """Residuals r(x, y) = L' (y - y0) + a(x) with |r|^2 + rest(x) the objective."""

    root: Float64[ndarray, "m r"]
    """L."""
    middle: Float64[ndarray, "m"]
    """y0."""
    apart: Callable[[Float64[ndarray, "b v"]], tuple[Float64[ndarray, "b r"], Float64[ndarray, "b"]]]
    """From points, natural units, to a and rest."""

    @property
    def is_single(self) -> bool:
        """Whether each residual follows one output."""
        return bool(((self.root != 0).sum(0) == 1).all())

    @property
    def followed(self) -> tuple[int, ...]:
        """The output that each residual follows, if each follows one."""
        return tuple(np.abs(self.root).argmax(0).tolist())

    def residuals(
        self, X: Float64[ndarray, "b v"], Y: Float64[ndarray, "*L b m"]
    ) -> tuple[Float64[ndarray, "*L b r"], Float64[ndarray, "b"]]:
        """Return the residuals, and what of the objective is none of them."""
        a, rest = self.apart(X)
        return (Y - self.middle) @ self.root + a, rest


def squares_of(
    problem: "Problem", middle: Float64[ndarray, "m"], size: Float64[ndarray, "m"], outcomes: Float64[ndarray, "t m"]
) -> Squares | None:
    """Return the residuals of an objective; None if it is not a sum of squares of affine functions of the outputs.

    Of one that is maximized, a log-likelihood, the sum of squares is -2 times that.

    Args:
        problem: The statement.
        middle: Outputs around which it is looked.
        size: Steps of the outputs, at most as large as they vary.
        outcomes: Other outputs, with which what was found is checked.
    """
    times = 1.0 if problem.minimizes else 2.0

    def looked(X: ndarray, Y: ndarray) -> tuple[ndarray, ndarray]:
        with np.errstate(all="ignore"):
            G, back = problem.traced(X, Y, (0,))
            return -times * G[0], -times * back(np.ones_like(G))[1][0]

    X = problem.from_unit(problem.drawn(Stream(0).at("squares").sobol(POINTS, problem.d)))
    steps = np.concatenate([np.zeros_like(middle)[None], np.diag(size)])
    _, slopes = looked(X, np.broadcast_to((middle + steps)[:, None], (len(steps), POINTS, len(middle))))
    H = (slopes[1:] - slopes[0]).transpose(1, 0, 2) / size[:, None]
    scaled = H * size[:, None] * size
    largest = float(np.abs(scaled).max()) if np.isfinite(scaled).all() else 0.0
    if largest <= 0 or (np.abs(scaled - scaled[0]) > ROUNDING * largest).any():
        return None
    root, inverse = _root(0.25 * (scaled[0] + scaled[0].T))
    if root is None or inverse is None:
        return None
    root, inverse = root / size[:, None], inverse * size

    def apart(X: ndarray) -> tuple[ndarray, ndarray]:
        value, slope = looked(X, np.broadcast_to(middle, (1, len(X), len(middle))))
        a = 0.5 * slope[0] @ inverse.T
        return a, value[0] - (a * a).sum(-1)

    found = Squares(root, middle, apart)
    Y = np.broadcast_to(outcomes[:TRIED, None], (len(outcomes[:TRIED]), POINTS, len(middle)))
    residuals, rest = found.residuals(X, Y)
    squares = (residuals**2).sum(-1)
    value, _ = looked(X, np.ascontiguousarray(Y))
    is_right = np.abs(squares + rest - value) <= ROUNDING * (squares + np.abs(rest) + np.abs(squares).max())
    return found if bool(is_right.all()) else None


def _root(W: Float64[ndarray, "m m"]) -> tuple[ndarray | None, ndarray | None]:
    """Return L with W = L L', a column for each residual, and its pseudo-inverse; None if W has negative directions."""
    diagonal = np.diagonal(W)
    largest = float(np.abs(W).max())
    if (np.abs(W - np.diag(diagonal)) <= ROUNDING * largest).all():
        if (diagonal < -LEAST_WEIGHT * largest).any():
            return None, None
        used = np.flatnonzero(diagonal > LEAST_WEIGHT * largest)
        root = np.zeros((len(W), len(used)))
        root[used, np.arange(len(used))] = np.sqrt(diagonal[used])
        return root, root.T / diagonal[used, None]
    values, vectors = np.linalg.eigh(W)
    if values[0] < -1e-6 * values[-1]:
        return None, None
    used = values > 1e-9 * values[-1]
    root = vectors[:, used] * np.sqrt(values[used])
    return root, root.T / values[used, None]
