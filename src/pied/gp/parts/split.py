"""The regime of a point: the part of the box in which outputs are smooth, though they are not across its border.

A boiling limit, a dead zone, a pump that starts: no stationary process explains such outputs, two processes do, one for
each side (a mixture of experts). Which side each point belongs to is found in two steps: many half-spaces, and
thresholds of the outputs, are compared by the leave-one-out density of two plain regressions; the best are then
improved by moving every point to the side that predicts it better, as long as its neighbours agree. What counts is how
well the side of the given point is explained; the other may have cliffs of its own. Regressions are crude here (one
length scale, from a short list); a belief is fitted to the regime afterwards.

Letters: S splits, N points, m outputs.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy import ndarray
from scipy.special import ndtr

from pied.gp.kernels import matern
from pied.gp.likelihood import SPARE_ROWS
from pied.gp.parts.plateaus import SAME
from pied.rng import Stream
from pied.shapes import Bool, Float64

SCALES = (0.5, 1.5)  # length scales of both sides, in units of sqrt(inputs)
NUGGETS = (1e-6, 1e-2)  # of the process variance: exact and noisy outputs
SCAN = (1.0, 1e-4)  # length scale and nugget of the first comparison
TREND_VARIANCE = 10.0  # of the linear trend, in units of the process variance
DIRECTIONS = 40  # random normals of half-spaces, beside the axes
CUTS = (0.15, 0.25, 0.35, 0.5, 0.65, 0.75, 0.85)  # shares of the points on one side of a half-space
VALUE_CUTS = 5  # thresholds of each output, in the widest gaps between its values
SCAN_ROWS = 48  # points of the first comparison, the first ones: they are spread over the box
FINALISTS = 12  # splits that are improved
ROUNDS = 6  # of improvement
LABEL_SCALE = 0.3  # length scale of the side, in units of sqrt(inputs)
LABEL_NUGGET = 0.05
SUREST = 0.98  # probability of a side that neighbours can give
FLAT_DENSITY = 10.0  # nats of a point on a plateau: the same value again, to the last digit, is no chance
OTHER_DENSITY = 3.0  # nats of a point on the other side, at most
OUTSIDE = 2.0  # nats below a standard normal: the density of a point that neither side explains
SMALLEST_VARIANCE = 1e-12  # standardized

LOG_2_PI = math.log(2 * math.pi)


class Split(NamedTuple):
    """Points in two regimes."""

    labels: Bool[ndarray, "N"]
    """Which points are in the regime of the given one."""
    each: Float64[ndarray, "m"]
    """Leave-one-out log density of each output, standardized."""
    own: Float64[ndarray, "m"]
    """The part of the given point's regime."""
    of_labels: float
    """Leave-one-out log density of the labels."""

    @property
    def score(self) -> float:
        """Log density of everything."""
        return float(self.each.sum()) + self.of_labels


@np.errstate(all="ignore")
def split(
    U: Float64[ndarray, "N d"], Y: Float64[ndarray, "N m"], home: int, start: Bool[ndarray, "N"] | None = None
) -> Split | None:
    """Find the regime of a point where outputs are not smooth; None where too few points are told.

    Args:
        U: Points in the unit cube.
        Y: Outputs there, standardized.
        home: The row of the point.
        start: A split to improve, if there is one; else many are compared.
    """
    if len(U) < 2 * (1 + SPARE_ROWS):
        return None
    labels = _scanned(U, Y, home) if start is None else _oriented(start[None], home)
    return _improved(U, Y, home, labels) if len(labels) else None


def _oriented(labels: Bool[ndarray, "S N"], home: int) -> Bool[ndarray, "S N"]:
    """Return splits whose first side has the given point."""
    return np.where(labels[:, home : home + 1], labels, ~labels)


def _scanned(U: Float64[ndarray, "N d"], Y: Float64[ndarray, "N m"], home: int) -> Bool[ndarray, "S N"]:
    """Return the best half-spaces and thresholds."""
    some = slice(0, SCAN_ROWS)
    labels = np.unique(_oriented(_candidates(U, Y), home), axis=0)
    few = labels[:, some]
    sizes = np.minimum(few.sum(1), (~few).sum(1))
    labels, few = labels[sizes >= 1], few[sizes >= 1]
    if not len(labels):
        return labels
    K = _covariance(U[some], SCAN[0])
    scores = _Sides(K, Y[some], few, SCAN[1]).densities.sum((0, 2)) + _label_densities(U[some], few).sum(1)
    return labels[np.argsort(-scores, kind="stable")[:FINALISTS]]


def _candidates(U: Float64[ndarray, "N d"], Y: Float64[ndarray, "N m"]) -> Bool[ndarray, "S N"]:
    d = U.shape[1]
    random = Stream(0).at("regimes").normal(DIRECTIONS, d)
    normals = np.concatenate([np.eye(d), random / np.linalg.norm(random, axis=1, keepdims=True)])
    along = U @ normals.T
    cuts = np.quantile(along[:SCAN_ROWS], CUTS, axis=0)
    parts = [(along[None] > cuts[:, None]).swapaxes(1, 2).reshape(-1, len(U))]
    for y in Y.T:
        ordered = np.sort(y)
        widest = np.argsort(-np.diff(ordered), kind="stable")[:VALUE_CUTS]
        parts.append(y[None] > 0.5 * (ordered[widest] + ordered[widest + 1])[:, None])
        parts += [(y == end)[None] for end in ordered[[0, -1]] if (y == end).sum() >= SAME]
    return np.concatenate(parts)


def _improved(U: Float64[ndarray, "N d"], Y: Float64[ndarray, "N m"], home: int, labels: Bool[ndarray, "S N"]) -> Split:
    """Move points to the side that predicts them better, from several splits; return the best split met."""
    kernels = [(_covariance(U, scale), nugget) for scale in SCALES for nugget in NUGGETS]
    best: Split | None = None
    for _ in range(ROUNDS):
        score = np.full(len(labels), -np.inf)
        explained = np.zeros((2, len(labels), Y.shape[1]))
        densities = np.zeros((2, *labels.shape))
        of_labels = _label_densities(U, labels).sum(1)
        for K, nugget in kernels:
            sides = _Sides(K, Y, labels, nugget)
            each = sides.densities
            total = each.sum((0, 2)) + of_labels
            is_better = total > score
            score = np.where(is_better, total, score)
            explained = np.where(is_better[:, None], each, explained)
            densities = np.where(is_better[:, None], sides.predictions(), densities)
        top = int(score.argmax())
        if best is None or score[top] > best.score:
            both = explained[:, top]
            best = Split(labels[top].copy(), both.sum(0), both[0], float(of_labels[top]))
        chance = _chances(U, labels)
        moved = densities[0] + np.log(chance) > densities[1] + np.log1p(-chance)
        moved[:, home] = True
        if (moved == labels).all():
            break
        labels = np.unique(moved, axis=0)
    assert best is not None
    return best


class _Sides:
    """Two regressions for each split, one for each side, with the same covariance."""

    def __init__(
        self, K: Float64[ndarray, "N N"], Y: Float64[ndarray, "N m"], labels: Bool[ndarray, "S N"], nugget: float
    ) -> None:
        self.K, self.Y, self.nugget = K, Y, nugget
        self.own = np.stack([labels, ~labels])
        w = self.own.astype(np.float64)
        A = K * w[..., :, None] * w[..., None, :]
        index = np.arange(len(Y))
        A[..., index, index] += nugget * w + (1.0 - w)
        self.inverse = np.linalg.inv(A)
        self.diagonal = self.inverse[..., index, index]
        self.weights = self.inverse @ (Y * w[..., None])
        self.count = w.sum(-1)
        squares = (self.weights**2 / self.diagonal[..., None] * w[..., None]).sum(-2)
        self.variance = squares / np.maximum(self.count, 1.0)[..., None] + SMALLEST_VARIANCE
        self.is_modelled = self.count >= 1 + SPARE_ROWS
        inside = self.own[..., None]
        low, high = np.where(inside, Y, np.inf).min(-2), np.where(inside, Y, -np.inf).max(-2)
        self.is_flat = (low == high) & (self.count >= SAME)[..., None]
        """Which outputs have one value throughout a side."""
        self.level = np.where(self.is_flat, low, 0.0)

    @property
    def densities(self) -> Float64[ndarray, "2 S m"]:
        """Leave-one-out log density of each output on both sides; a standard normal's for few points.

        That of the second side has a limit.
        """
        normal = np.broadcast_to((-0.5 * self.count * (1.0 + LOG_2_PI))[..., None], self.variance.shape)
        roots = 0.5 * (np.log(self.diagonal) * self.own).sum(-1)[..., None]
        each = -0.5 * self.count[..., None] * np.log(self.variance) + roots + normal
        each = np.where(self.is_modelled[..., None], np.maximum(each, normal), normal)
        each = np.where(self.is_flat, FLAT_DENSITY * self.count[..., None], each)
        each[1] = np.minimum(each[1], OTHER_DENSITY * self.count[1][..., None])
        return each

    def predictions(self) -> Float64[ndarray, "2 S N"]:
        """Log density of every point by each side, told or left out."""
        w = self.own.astype(np.float64)
        across = self.K * w[..., None, :]
        outside = np.diagonal(self.K) + self.nugget - ((across @ self.inverse) * across).sum(-1)
        spread = np.where(self.own, 1.0 / self.diagonal, np.maximum(outside, 1e-9))
        missed = np.where(self.own[..., None], self.weights / self.diagonal[..., None], self.Y - across @ self.weights)
        variance = spread[..., None] * self.variance[..., None, :]
        each = -0.5 * (np.log(variance) + LOG_2_PI + missed**2 / variance)
        normal = -0.5 * (LOG_2_PI + self.Y**2)
        least = np.maximum(normal, normal.min(initial=0.0) / 2) - OUTSIDE
        each = np.where(self.is_modelled[..., None, None], np.maximum(each, least), normal)
        on_level = np.where(self.level[..., None, :] == self.Y, FLAT_DENSITY, least)
        return np.where(self.is_flat[..., None, :], on_level, each).sum(-1)


def _covariance(U: Float64[ndarray, "N d"], scale: float) -> Float64[ndarray, "N N"]:
    """Matern 5/2 with a vague linear trend."""
    V = U - 0.5
    return matern(U, U, scale)[0] + TREND_VARIANCE * (0.25 + V @ V.T)


def _chances(U: Float64[ndarray, "N d"], labels: Bool[ndarray, "S N"]) -> Float64[ndarray, "S N"]:
    """Probability that each point is on the first side, by the sides of the others."""
    K = matern(U, U, LABEL_SCALE)[0]
    inverse = np.linalg.inv(K + LABEL_NUGGET * np.eye(len(U)))
    diagonal = np.diagonal(inverse)
    sides = np.where(labels, 1.0, -1.0)
    left_out = sides - (sides - sides.mean(1, keepdims=True)) @ inverse / diagonal
    return np.clip(ndtr(left_out * np.sqrt(diagonal)), 1.0 - SUREST, SUREST)


def _label_densities(U: Float64[ndarray, "N d"], labels: Bool[ndarray, "S N"]) -> Float64[ndarray, "S N"]:
    chance = _chances(U, labels)
    return np.log(np.where(labels, chance, 1.0 - chance))
