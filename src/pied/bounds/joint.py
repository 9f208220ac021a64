"""Joint optimism: maximize g over a point and one outcome of the black box that is plausible there.

If each function is bounded alone, the objective may assume one outcome and a constraint another, of the same outputs.
Here all functions share one outcome:

    maximize g_0(x, y)  subject to  g_i(x, y) >= 0,  y = mu(x) + z C(x) xi,  |xi| <= 1

over x and xi, C C' the covariance of the outputs and z the normal quantile of the level. For a single function affine
in y this is its upper quantile bound (Proposition 2). With several functions it is never above theirs. No samples are
needed.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy import ndarray

from pied.bounds.composite import Composite
from pied.rng import Stream
from pied.search import VIOLATION_WEIGHT, Optimum, Search
from pied.shapes import Float64

MOST_OUTPUTS = 24  # with more outputs, the subproblem has too many unknowns
MANY_OUTPUTS = 8  # from so many on, random outcomes are hardly ever better than those in the direction of the slopes
LEAST_NORM = 1e-300  # avoids division by zero


@dataclass(frozen=True, eq=False)
class Joint:
    """g over points and outcomes together: w = (u, v) in the unit cube, xi = 2 v - 1.

    The functions of the problem come first. If the region is a ball, 1 - |xi|^2 is the last constraint.
    """

    composite: Composite
    radius: float
    """z: how many standard deviations outcomes may be away from the mean."""
    in_ball: bool = True
    """Whether |xi| <= 1; else |xi_j| <= 1 for every coordinate, a box."""

    @property
    def k(self) -> int:
        """Number of functions."""
        return self.composite.problem.k + self.in_ball

    @property
    def white(self) -> tuple[int, ...]:
        """Constraints that are known exactly."""
        return self.composite.problem.white

    def values(self, W: Float64[ndarray, "b w"]) -> Float64[ndarray, "b k"]:
        """Return all functions."""
        U, xi = self._split(W)
        f = self.composite.outcomes(U, self.radius * xi)
        return np.concatenate([f, _inside(xi)], 1) if self.in_ball else f

    def values_and_slopes(
        self, W: Float64[ndarray, "b w"]
    ) -> tuple[Float64[ndarray, "b k"], Float64[ndarray, "b k w"]]:
        """Return all functions, and their slopes by point and outcome."""
        U, xi = self._split(W)
        f, by_u, by_xi = self.composite.outcomes_and_slopes(U, self.radius * xi)
        slopes = np.concatenate([by_u, 2.0 * self.radius * by_xi], 2)
        if not self.in_ball:
            return f, slopes
        last = np.concatenate([np.zeros_like(U), -4.0 * xi], 1)
        return np.concatenate([f, _inside(xi)], 1), np.concatenate([slopes, last[:, None]], 1)

    def coarse(self) -> "Joint | None":
        """Return the same by a belief of fewer points; None where that is not cheaper."""
        fewer = self.composite.fewer
        return None if fewer is None else replace(self, composite=fewer)

    @np.errstate(all="ignore")
    def lifted(self, U: Float64[ndarray, "b d"], scales: Float64[ndarray, "k"]) -> Float64[ndarray, "b w"]:
        """Pair points with the boundary outcome that most improves the objective and broken constraints."""
        f, _, by_xi = self.composite.outcomes_and_slopes(U, np.zeros((len(U), self.composite.problem.m)))
        broken = (f[:, 1:] < 0) / scales[1:]
        merit = by_xi[:, 0] / scales[0] + VIOLATION_WEIGHT * (broken[:, :, None] * by_xi[:, 1:]).sum(1)
        xi = merit / np.maximum(_norms(merit), LEAST_NORM) if self.in_ball else np.sign(merit)
        return np.concatenate([U, 0.5 + 0.5 * xi], 1)

    def maximum(
        self,
        search: Search,
        scales: Float64[ndarray, "k"],
        pool: Float64[ndarray, "b d"],
        known: Float64[ndarray, "s d"],
        stream: Stream,
    ) -> Optimum:
        """Search the best point; return it with the functions of the problem at its outcome.

        Every point of the pool is paired with the outcome in the direction of its slopes, and with a random one where
        the outputs are few.
        """
        d, k, m = self.composite.problem.d, self.composite.problem.k, self.composite.problem.m
        pairs = (self.coarse() or self).lifted(pool, scales)
        if m < MANY_OUTPUTS:
            random = 2.0 * stream.at("outcomes").uniform(len(pool), m) - 1.0
            if self.in_ball:
                random = random / np.maximum(_norms(random), 1.0)
            pairs = np.concatenate([pairs, np.concatenate([pool, 0.5 + 0.5 * random], 1)])
        starts = self.lifted(known, scales) if len(known) else pairs[:0]
        all_scales = np.concatenate([scales, np.ones(self.k - k)])
        best = search.solve(self, all_scales, pairs, starts, stream, rescue=False)
        return replace(best.of_first(k), u=best.u[:d])

    def _split(self, W: Float64[ndarray, "b w"]) -> tuple[Float64[ndarray, "b d"], Float64[ndarray, "b m"]]:
        d = self.composite.problem.d
        return W[:, :d], 2.0 * W[:, d:] - 1.0


def _inside(xi: Float64[ndarray, "b m"]) -> Float64[ndarray, "b 1"]:
    return 1.0 - (xi * xi).sum(1, keepdims=True)


def _norms(xi: Float64[ndarray, "b m"]) -> Float64[ndarray, "b 1"]:
    return np.sqrt((xi * xi).sum(1, keepdims=True))


def is_shared(composite: Composite) -> bool:
    """Tell whether two functions depend on the same output, so that separate bounds could assume different outcomes."""
    outputs = [j for structure in composite.problem.structure for j in structure.outputs]
    return len(outputs) > len(set(outputs)) and composite.problem.m <= MOST_OUTPUTS
