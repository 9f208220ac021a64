"""Outputs at which g is evaluated to bound it, and array helpers for their slopes.

The root of the covariance of the outputs is `b m` deviations, or `b m m` Cholesky factors if they are correlated.
Deviations are those of the outputs, or of independent parts that they are mixtures of (`Mixing`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy import ndarray

from pied.shapes import Float64, Int

RANGE_MARGIN = 1e-4  # of the way from the end of a range to the nearest told value: outputs are drawn this far inside


@dataclass(eq=False)
class Stack:
    """Outputs at which g is needed, R per point, for all functions whose quantiles are computed in the same way."""

    kind: str
    """"white", "shift" (the median, each mover up, each mover down), "sample" or "outcome"."""
    which: tuple[int, ...]
    """Places of the functions."""
    W: Float64[ndarray, "R b m"]
    """The outputs in modelled units."""
    level: float = 0.5
    """Of a shift."""
    Z: Float64[ndarray, "R m"] | None = None
    """Base samples, or the steps of a shift; None: the mean alone."""
    bend: Float64[ndarray, "R b m"] | None = None
    """Slopes of the outputs in natural units by W; None: all are 1."""
    is_marginal: bool = False
    """Whether Z moves outputs by their own deviations, where what is modelled are parts of them."""


@dataclass(frozen=True, eq=False)
class Mixing:
    """How outputs are mixtures of as many independent parts, most of which have a share in one output alone."""

    own: Float64[ndarray, "m"]
    """Weight of each output's own part."""
    shared: Int[ndarray, "r"]
    """Parts that other outputs have a share in, too."""
    weights: Float64[ndarray, "m r"]
    """Of the shared parts in the outputs that they are not the own part of."""

    @classmethod
    def of(cls, mixing: Float64[ndarray, "m m"]) -> "Mixing":
        """Take a matrix apart."""
        others = mixing - np.diag(np.diagonal(mixing))
        shared = np.flatnonzero(others.any(0))
        return cls(np.diagonal(mixing).copy(), shared, others[:, shared])

    def outputs(self, parts: Float64[ndarray, "*b m"]) -> Float64[ndarray, "*b m"]:
        """Return A z."""
        return parts * self.own + parts[..., self.shared] @ self.weights.T

    def slopes(self, by_outputs: Float64[ndarray, "*b m"]) -> Float64[ndarray, "*b m"]:
        """Return slopes by the parts from slopes by the outputs."""
        by_parts = by_outputs * self.own
        by_parts[..., self.shared] += by_outputs @ self.weights
        return by_parts

    @cached_property
    def squared(self) -> "Mixing":
        """How variances of outputs are mixtures of those of the parts."""
        return Mixing(self.own**2, self.shared, self.weights**2)

    def deviations(self, root: Float64[ndarray, "b m"]) -> Float64[ndarray, "b m"]:
        """Return the deviations of the outputs from those of the parts."""
        return np.sqrt(self.squared.outputs(root * root))

    def couples(self, outputs: Sequence[int]) -> bool:
        """Whether any two of these outputs are correlated."""
        shares = np.zeros((len(self.own), len(self.own)), dtype=bool)
        shares[:, self.shared] = self.weights != 0
        shares |= np.eye(len(shares), dtype=bool)
        return bool((shares[list(outputs)].sum(0) > 1).any())


def drawn(
    mean: ndarray, root: ndarray, Z: Float64[ndarray, "L m"], mixture: Mixing | None = None
) -> Float64[ndarray, "L b m"]:
    """Return mu + C Z, equation (6), in modelled units; each output in one piece of memory, as g takes them singly."""
    if root.ndim == 3:
        return mean + np.einsum("bij,lj->lbi", root, Z)
    W = root.T[:, None] * Z.T[:, :, None]
    if mixture is not None:
        others = np.tensordot(mixture.weights, W[mixture.shared], 1)
        if (mixture.own != 1.0).any():
            W *= mixture.own[:, None, None]
        W += others
    W += mean.T[:, None]
    return W.transpose(1, 2, 0)


def stepped(
    mean: ndarray, root: ndarray, xi: Float64[ndarray, "b m"], mixture: Mixing | None = None
) -> Float64[ndarray, "b m"]:
    """Return mu + C xi, with an own xi at every point, in modelled units."""
    step = root * xi if root.ndim == 2 else (root @ xi[:, :, None])[:, :, 0]
    return mean + (step if mixture is None else mixture.outputs(step))


def clamped(
    Y: Float64[ndarray, "*b m"], ranges: Float64[ndarray, "m 2"], stack: Stack | None
) -> Float64[ndarray, "*b m"]:
    """Move outputs into their ranges, in place; those of a stack have no slope where they were moved."""
    for j in np.flatnonzero(np.isfinite(ranges).any(1)).tolist():
        y, (low, high) = Y[..., j], ranges[j]
        outside = (y < low) | (y > high)
        if outside.any():
            np.clip(y, low, high, out=y)
            if stack is not None:
                stack.bend = np.ones_like(Y) if stack.bend is None else stack.bend
                stack.bend[..., j][outside] = 0.0
    return Y


def flat(by_root: Float64[ndarray, "b f m m"]) -> Float64[ndarray, "b f mm"]:
    """Return slopes by the root with one column for each of its entries."""
    return by_root.reshape(*by_root.shape[:2], by_root.shape[2] * by_root.shape[3])


def rows(root_slope: Float64[ndarray, "b *m d"]) -> Float64[ndarray, "b rows d"]:
    """Return slopes of the root with one row for each of its entries."""
    b, *entries, d = root_slope.shape
    return root_slope if len(entries) == 1 else root_slope.reshape(b, entries[0] * entries[1], d)


def finite_slopes(slopes: Float64[ndarray, "*b"]) -> Float64[ndarray, "*b"]:
    """Replace slopes that are not finite by 0.

    A function that is not finite is constant there, at its worst. A finite function with an infinite slope (sqrt at 0)
    needs a finite one, because a search refuses points whose slopes are not finite.
    """
    fine = np.isfinite(slopes)
    return slopes if fine.all() else np.where(fine, slopes, 0.0)


def slices(count: int, size: int) -> list[slice]:
    """Return slices of at most this size that cover a count of points; an empty one for no points."""
    return [slice(begin, begin + size) for begin in range(0, max(1, count), size)]


@np.errstate(all="ignore")
def inside(ranges: Float64[ndarray, "m 2"], told: Float64[ndarray, "N m"] | None) -> Float64[ndarray, "m 2"]:
    """Move the ends of the ranges a little inside, so that g is finite where it has a pole at an end (1/y, log y)."""
    if told is None or not len(told) or not np.isfinite(ranges).any():
        return ranges
    nearest = np.stack([np.nan_to_num(told, nan=np.inf).min(0), np.nan_to_num(told, nan=-np.inf).max(0)], -1)
    step = RANGE_MARGIN * (nearest - ranges)
    return ranges + np.where(np.isfinite(step), step, 0.0)
