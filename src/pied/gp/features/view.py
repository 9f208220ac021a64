"""How a model sees points: inputs on a logarithmic axis, and the place on a wave; each a map with its slopes."""

from typing import NamedTuple

import numpy as np
from numpy import ndarray

from pied.shapes import Float64


def stretched(U: Float64[ndarray, "b d"], ratios: Float64[ndarray, "B d"]) -> Float64[ndarray, "*B b d"]:
    """Return points on the scales of each task: log(1 + (r - 1) u) / log r; one copy when none is stretched."""
    if not bool((ratios > 1.0).any()):
        return U
    r = ratios[:, None, :]
    safe = r.clip(1.0 + 1e-9, None)
    return np.where(r > 1.0, np.log1p((safe - 1.0) * U) / np.log(safe), U)


def stretched_slopes(U: Float64[ndarray, "b d"], ratios: Float64[ndarray, "B d"]) -> Float64[ndarray, "B b d"]:
    """Return the derivatives of `stretched`."""
    r = ratios[:, None, :]
    safe = r.clip(1.0 + 1e-9, None)
    slope = (safe - 1.0) / ((1.0 + (safe - 1.0) * U) * np.log(safe))
    return np.where(r > 1.0, slope, np.ones_like(slope))


def waved(U: Float64[ndarray, "b d"], waves: Float64[ndarray, "B d"]) -> Float64[ndarray, "B b 2"]:
    """Return where each point lies on the wave of each task, (1 + cos, 1 + sin) / 2 of its phase waves'u.

    With these as further inputs a radial kernel is locally periodic: points whole periods apart are alike.
    """
    phase = waves @ U.T
    return 0.5 + 0.5 * np.stack([np.cos(phase), np.sin(phase)], -1)


def waved_slopes(U: Float64[ndarray, "b d"], waves: Float64[ndarray, "B d"]) -> Float64[ndarray, "B b 2 d"]:
    """Return the derivatives of `waved`."""
    phase = waves @ U.T
    return 0.5 * np.stack([-np.sin(phase), np.cos(phase)], -1)[..., None] * waves[:, None, None, :]


class View(NamedTuple):
    """How B tasks see the points of the unit cube."""

    ratios: Float64[ndarray, "B d"]
    """Upper over lower bound of inputs that are seen on a logarithmic scale; 1: as they are."""
    waves: Float64[ndarray, "B d"] | None
    """Angular frequencies of the wave that is a further input, zeros for a task without; None: no task has one."""

    def scaled(self, U: Float64[ndarray, "b d"]) -> Float64[ndarray, "*B b d"]:
        """Return the inputs on the scales of the tasks, as trends see them; one copy when all are plain."""
        return stretched(U, self.ratios)

    def whole(self, U: Float64[ndarray, "b d"], V: Float64[ndarray, "*B b d"]) -> Float64[ndarray, "*C b e"]:
        """Return what kernels see of points and their scaled inputs: these, then the place on the wave."""
        if self.waves is None:
            return V
        return np.concatenate([np.broadcast_to(V, (len(self.waves), *U.shape)), waved(U, self.waves)], -1)

    def back(self, U: Float64[ndarray, "b d"], by_seen: Float64[ndarray, "B b c e"]) -> Float64[ndarray, "B b c d"]:
        """Return slopes by the point, from those by what kernels see of it."""
        d = U.shape[1]
        by_u = by_seen[..., :d]
        if bool((self.ratios > 1.0).any()):
            by_u = by_u * stretched_slopes(U, self.ratios)[:, :, None]
        return by_u if self.waves is None else by_u + by_seen[..., d:] @ waved_slopes(U, self.waves)

    def active(self, active: Float64[ndarray, "B d"]) -> Float64[ndarray, "B e"]:
        """Return what each task sees of whole points: its inputs, and the wave if it has one."""
        if self.waves is None:
            return active
        return np.concatenate([active, np.repeat(self.waves.any(1, keepdims=True), 2, 1)], 1)
