"""What a regression is made of: kernels, trend columns, scales of the inputs, waves, resonances."""

import math
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy import ndarray

from pied.shapes import Bool, Float64

# With r the scaled distance and E = exp(-(s r + q r^2)):
# k(r) = (1 + s r (c1 + c2 s r)) E and w(r) = -dk/d(r^2/2) = w0 (1 + w1 s r) E.
#                         s               q    c1   c2       w0       w1
KERNELS = {
    "squared exponential": (0.0, 0.5, 0.0, 0.0, 1.0, 0.0),
    "matern 5/2": (math.sqrt(5.0), 0.0, 1.0, 1.0 / 3.0, 5.0 / 3.0, 1.0),
    "matern 3/2": (math.sqrt(3.0), 0.0, 1.0, 0.0, 3.0, 0.0),
}
Turn = Callable[[ndarray, ndarray], ndarray]
TRENDS = {"none": 0, "constant": 0, "linear": 1, "quadratic": 2}  # and their degrees


def radial(
    squares: Float64[ndarray, "B b N"], kernel: Float64[ndarray, "B 6"], *, slopes: bool = True
) -> tuple[Float64[ndarray, "B b N"], Float64[ndarray, "B b N"]]:
    """Return k(r) and w(r) = -dk/d(r^2/2) for squared scaled distances; without slopes k twice."""
    if (kernel == kernel[0]).all():
        return _radial_of_one_kernel(squares, tuple(kernel[0].tolist()), slopes)
    s, q, c1, c2, w0, w1 = (kernel[:, i, None, None] for i in range(6))
    a = np.sqrt(squares)
    a *= s
    E = np.exp(-(a + q * squares))
    k = c2 * a
    k += c1
    k *= a
    k += 1.0
    k *= E
    if not slopes:
        return k, k
    a *= w0 * w1
    a += w0
    a *= E
    return k, a


def _radial_of_one_kernel(
    squares: Float64[ndarray, "*B b N"], coefficients: tuple[float, ...], slopes: bool
) -> tuple[Float64[ndarray, "*B b N"], Float64[ndarray, "*B b N"]]:
    """`radial` where all tasks have the same kernel: terms that are zero are left out, which halves its time."""
    s, q, c1, c2, w0, w1 = coefficients
    if s == 0.0:
        E = np.exp(-q * squares)
        return E, E
    a = np.sqrt(squares)
    a *= s
    E = np.exp(-a)
    k = c2 * a + c1 if c2 else c1
    k = k * a + 1.0
    k *= E
    if not slopes:
        return k, k
    if not w1:
        E *= w0
        return k, E
    a *= w0 * w1
    a += w0
    a *= E
    return k, a


def matern(
    A: Float64[ndarray, "a d"], B: Float64[ndarray, "b d"], scale: float
) -> tuple[Float64[ndarray, "a b"], Float64[ndarray, "a b"]]:
    """Return Matern 5/2 covariances of one length scale, in units of sqrt(inputs), and their slopes by the squares."""
    inverse = 1.0 / (A.shape[1] * scale**2)
    squares = np.maximum((A**2).sum(1)[:, None] + (B**2).sum(1)[None] - 2.0 * A @ B.T, 0.0)
    k, w = _radial_of_one_kernel(inverse * squares, KERNELS["matern 5/2"], True)
    return k, -0.5 * inverse * w


@cache
def pairs(d: int) -> tuple[list[int], list[int]]:
    """Return the places (i, j) with i <= j, as the products of a quadratic trend are ordered."""
    first, second = np.triu_indices(d)
    return first.tolist(), second.tolist()


def polynomial(U: Float64[ndarray, "*B b d"], degree: int) -> Float64[ndarray, "*B b p"]:
    """Return the columns 1, v_i, v_i v_j (i <= j) with v = 2u - 1, up to the degree (0, 1, 2)."""
    columns = [np.ones_like(U[..., :1])]
    if degree >= 1:
        V = 2.0 * U - 1.0
        columns.append(V)
        if degree >= 2:
            first, second = pairs(U.shape[-1])
            columns.append(V[..., first] * V[..., second])
    return np.concatenate(columns, -1)


def polynomial_slope(
    coefficients: Float64[ndarray, "*#b p"], U: Float64[ndarray, "*#b d"], degree: int
) -> Float64[ndarray, "*#b d"]:
    """Return the slope of a combination of the columns of `polynomial`."""
    d = U.shape[-1]
    slope = coefficients[..., 1 : 1 + d]
    if degree >= 2:
        first, second = pairs(d)
        quadratic, V = coefficients[..., 1 + d :], 2.0 * U - 1.0
        slope = slope + (quadratic * V[..., second]) @ _one_hot(d, 0)
        slope = slope + (quadratic * V[..., first]) @ _one_hot(d, 1)
    return 2.0 * slope


@cache
def _one_hot(d: int, which: int) -> Float64[ndarray, "p d"]:
    """Return a matrix that adds up products by their first (0) or second (1) factor."""
    return np.eye(d)[pairs(d)[which]]


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


def across(U: Float64[ndarray, "b d"], resonances: Float64[ndarray, "B r"]) -> Float64[ndarray, "B b"]:
    """Return how many of its widths each point lies off the resonance of each task: slopes'u + bends'u^2 + offset."""
    d = U.shape[-1]
    return resonances[:, :d] @ U.T + resonances[:, d:-1] @ (U**2).T + resonances[:, -1:]


def crossed(U: Float64[ndarray, "b d"], resonances: Float64[ndarray, "B r"]) -> Float64[ndarray, "B b 2"]:
    """Return where each point lies across the resonance of each task: 1 / (1 + s^2) and 1/2 + s / (1 + s^2).

    These are (1 + cos, 1 + sin) / 2 of the phase 2 arctan s: one turn of a wave, from far on one side to far on the
    other, where both are alike. A peak over a resonance is a straight line in the first.
    """
    s = across(U, resonances)
    height = 1.0 / (1.0 + s**2)
    return np.stack([height, 0.5 + s * height], -1)


def crossed_by_widths(s: Float64[ndarray, "B b"]) -> Float64[ndarray, "B b 2"]:
    """Return the derivatives of `crossed` by the distance in widths."""
    square = 1.0 / (1.0 + s**2) ** 2
    return np.stack([-2.0 * s * square, (1.0 - s**2) * square], -1)


def crossed_slopes(U: Float64[ndarray, "b d"], resonances: Float64[ndarray, "B r"]) -> Float64[ndarray, "B b 2 d"]:
    """Return the derivatives of `crossed`."""
    d = U.shape[-1]
    by_u = resonances[:, None, :d] + 2.0 * resonances[:, None, d:-1] * U
    return crossed_by_widths(across(U, resonances))[..., None] * by_u[:, :, None, :]


class View(NamedTuple):
    """How B tasks see the points of the unit cube."""

    ratios: Float64[ndarray, "B d"]
    """Upper over lower bound of inputs that are seen on a logarithmic scale; 1: as they are."""
    waves: Float64[ndarray, "B d"] | None
    """Angular frequencies of the wave that is a further input, zeros for a task without; None: no task has one."""
    resonances: Float64[ndarray, "B r"] | None = None
    """Slopes, bends and offset of the resonance across which is a further input, likewise."""

    @property
    def has_turns(self) -> bool:
        """Whether any task has a wave or a resonance."""
        return self.waves is not None or self.resonances is not None

    @property
    def turns(self) -> Bool[ndarray, "B"]:
        """Which tasks have a wave or a resonance."""
        return np.any([each.any(1) for each in (self.waves, self.resonances) if each is not None], 0)

    def scaled(self, U: Float64[ndarray, "b d"]) -> Float64[ndarray, "*B b d"]:
        """Return the inputs on the scales of the tasks, as trends see them; one copy when all are plain."""
        return stretched(U, self.ratios)

    def whole(self, U: Float64[ndarray, "b d"], V: Float64[ndarray, "*B b d"]) -> Float64[ndarray, "*C b e"]:
        """Return what kernels see of points and their scaled inputs: these, then the place on the turn."""
        if not self.has_turns:
            return V
        place = self._either(waved, crossed, U)
        return np.concatenate([np.broadcast_to(V, (len(place), *U.shape)), place], -1)

    def turn_slopes(self, U: Float64[ndarray, "b d"]) -> Float64[ndarray, "B b 2 d"]:
        """Return the derivatives of the place on the turn."""
        return self._either(waved_slopes, crossed_slopes, U)

    def _either(self, on_wave: Turn, over_resonance: Turn, U: Float64[ndarray, "b d"]) -> ndarray:
        """Return one function of waves where a task has none of the other, a resonance."""
        if self.resonances is None:
            assert self.waves is not None
            return on_wave(U, self.waves)
        found = over_resonance(U, self.resonances)
        if self.waves is None:
            return found
        has = self.resonances.any(1).reshape(-1, *(1,) * (found.ndim - 1))
        return np.where(has, found, on_wave(U, self.waves))
