"""Fronts of points with several values, all better if larger: who dominates whom, and the volume that a front covers.

The volume between a front and a reference point below it (the hypervolume) is one number for how good a front is.
What lies above the front is cut into boxes, so that the growth by one more point, and its slopes, are sums over boxes.
"""

import numpy as np
from numpy import ndarray

from pied.shapes import Bool, Float64

NUMBERS_AT_ONCE = 2_000_000
"""Numbers held at once while the growth of many points is computed: 16 MB an array."""


def nondominated(F: Float64[ndarray, "N r"]) -> Bool[ndarray, "N"]:
    """Tell which points no other one dominates; of equal points the first counts, and those not finite never do."""
    fine = np.isfinite(F).all(1)
    if F.shape[1] == 2:
        return _nondominated_pairs(F, fine)
    keep = fine.copy()
    order = np.lexsort((np.arange(len(F)), -np.where(fine, F.sum(1), -np.inf)))
    kept: list[int] = []
    for row in order.tolist():  # a point can be dominated only by one with a larger sum
        if not keep[row]:
            continue
        if kept and bool((F[kept] >= F[row]).all(1).any()):
            keep[row] = False
        else:
            kept.append(row)
    return keep


def _nondominated_pairs(F: Float64[ndarray, "N 2"], fine: Bool[ndarray, "N"]) -> Bool[ndarray, "N"]:
    """The same for two values: sorted by the first, a point counts if its second is larger than all before it."""
    rows = np.flatnonzero(fine)
    order = rows[np.lexsort((rows, -F[rows, 1], -F[rows, 0]))]
    second = F[order, 1]
    before = np.maximum.accumulate(np.concatenate([[-np.inf], second]))[:-1]
    keep = np.zeros(len(F), dtype=bool)
    keep[order[second > before]] = True
    return keep


def cells(
    F: Float64[ndarray, "N r"], reference: Float64[ndarray, "r"]
) -> tuple[Float64[ndarray, "c r"], Float64[ndarray, "c r"]]:
    """Cut what lies above a reference point and is not dominated by a front into boxes.

    Args:
        F: Points; dominated ones and those not above the reference do not matter.
        reference: The point below.

    Returns:
        Lower and upper corners; upper ones may be infinite.
    """
    above = F[np.isfinite(F).all(1)]
    above = above[(above > reference).all(1)]
    above = above[nondominated(above)]
    low, high = _cells(above, reference)
    return low, high


def _cells(F: ndarray, reference: ndarray) -> tuple[ndarray, ndarray]:
    """Cut along the last value into slabs, each of which is a front with one value less."""
    if F.shape[1] == 1:
        top = max(F[:, 0].max(initial=-np.inf), reference[0])
        return np.array([[top]]), np.array([[np.inf]])
    if F.shape[1] == 2:  # the steps of a staircase: F is a front
        F = F[F[:, 1].argsort(kind="stable")]
        levels = np.concatenate([[reference[1]], F[:, 1]])
        starts = np.concatenate([F[:, 0], [reference[0]]])
        tops = np.concatenate([F[:, 1], [np.inf]])
        return np.column_stack([starts, levels]), np.column_stack([np.full(len(levels), np.inf), tops])
    lows, highs = [], []
    levels = np.unique(np.concatenate([[reference[-1]], F[:, -1]]))
    for place, level in enumerate(levels.tolist()):
        end = levels[place + 1] if place + 1 < len(levels) else np.inf
        there = F[F[:, -1] >= end][:, :-1] if np.isfinite(end) else F[:0, :-1]
        low, high = _cells(there[nondominated(there)], reference[:-1])
        lows.append(np.column_stack([low, np.full(len(low), level)]))
        highs.append(np.column_stack([high, np.full(len(high), end)]))
    return np.concatenate(lows), np.concatenate(highs)


def growth(
    P: Float64[ndarray, "b r"], boxes: tuple[Float64[ndarray, "c r"], Float64[ndarray, "c r"]]
) -> Float64[ndarray, "b"]:
    """Return by how much each point alone would increase the volume of a front, given the boxes above it."""
    low, high = boxes
    size = max(1, NUMBERS_AT_ONCE // low.size)
    P = np.where(np.isfinite(P), P, -np.inf)
    parts = [_lengths(P[start : start + size], low, high).prod(-1).sum(1) for start in range(0, len(P), size)]
    return np.concatenate(parts) if parts else np.zeros(0)


def growth_and_slopes(
    P: Float64[ndarray, "b r"], boxes: tuple[Float64[ndarray, "c r"], Float64[ndarray, "c r"]]
) -> tuple[Float64[ndarray, "b"], Float64[ndarray, "b r"]]:
    """Return the same and its slopes by the values of the point."""
    low, high = boxes
    lengths = _lengths(P, low, high)
    inside = (P[:, None] > low) & (P[:, None] < high)
    slopes = np.empty_like(P)
    for j in range(P.shape[1]):
        others = np.delete(lengths, j, 2).prod(-1)
        slopes[:, j] = np.where(inside[:, :, j], others, 0.0).sum(1)
    return lengths.prod(-1).sum(1), slopes


def _lengths(P: ndarray, low: ndarray, high: ndarray) -> ndarray:
    """Return how far each point reaches into each box, along each value."""
    return np.maximum(np.minimum(P[:, None], high) - low, 0.0)


def hypervolume(F: Float64[ndarray, "N r"], reference: Float64[ndarray, "r"]) -> float:
    """Return the volume that is dominated by a front and lies above a reference point."""
    above = F[np.isfinite(F).all(1)]
    above = above[(above > reference).all(1)]
    return _volume(above[nondominated(above)], reference)


def _volume(F: ndarray, reference: ndarray) -> float:
    """Sum slabs along the last value."""
    if not len(F):
        return 0.0
    if F.shape[1] == 1:
        return float(F[:, 0].max() - reference[0])
    if F.shape[1] == 2:
        F = F[F[:, 1].argsort(kind="stable")]
        return float(((F[:, 0] - reference[0]) * np.diff(F[:, 1], prepend=reference[1])).sum())
    levels = np.unique(F[:, -1])
    thickness = np.diff(levels, prepend=reference[-1])
    total = 0.0
    for level, thick in zip(levels.tolist(), thickness.tolist(), strict=True):
        there = F[F[:, -1] >= level][:, :-1]
        total += thick * _volume(there[nondominated(there)], reference[:-1])
    return total
