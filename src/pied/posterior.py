"""Posteriors of many regressions at any points: mean, standard deviation and their slopes, in closed form.

What `kriging` has learned is used here some hundred times per suggestion, at ten points or at a thousand. At ten points
the time goes into calls, not arithmetic, and a call into NumPy costs a third of one into torch; on a GPU it has to be
torch. So this file is written once for both, in the operators and methods that NumPy and torch share.
"""

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Float64
from numpy import ndarray
from torch import Tensor

if TYPE_CHECKING:
    Array = Any
else:
    Array = Tensor | ndarray

SMALLEST_RATIO = 1e-16  # of the posterior to the process variance: below, it is rounding


class Posterior:
    """Universal kriging of B tasks at fixed hyperparameters: N points, d inputs, p trend columns, c outputs a task."""

    def __init__(
        self,
        points: Float64[Array, "*B N d"],
        rows: Float64[Array, "B N"],
        kernel: Float64[Array, "B 6"],
        inverse: Float64[Array, "B d"],
        stretch: Float64[Array, "B d"],
        degree: int,
        root: Float64[Array, "B N N"],
        weights: Float64[Array, "B N c"],
        beta: Float64[Array, "B p c"],
        H: Float64[Array, "B N p"],
        inverse_A: Float64[Array, "B p p"],
        columns: Float64[Array, "B p"],
        variance: Float64[Array, "B c"],
    ) -> None:
        """Prepare.

        Args:
            points: Where something was observed, on the scales of the tasks.
            rows: 1 where it was, 0 where not.
            kernel: Coefficients of the kernels (`kriging.KERNELS`).
            inverse: 1 / length scale, 0 for inputs that are not seen.
            stretch: Ratios of logarithmic scales of the inputs, 1 where there is none.
            degree: Of the trend basis.
            root: With K^-1 = root' root.
            weights: P y.
            beta: Coefficients of the trend.
            H: K^-1 F.
            inverse_A: (F' K^-1 F)^-1.
            columns: 1 for the trend columns in use.
            variance: Process variance.
        """
        xp = self._xp = np if isinstance(root, ndarray) else torch
        self._points, self._rows, self._columns = points, rows[:, None, :], columns[:, None, :]
        self._is_full, self._all_columns = bool((rows == 1.0).all()), bool((columns == 1.0).all())
        self._kernel = None if not bool(kernel[:, 0].any()) else [kernel[:, i, None, None] for i in range(6)]
        self._inverse, self._degree, self._variance = inverse[:, None, :], degree, variance[:, None, :]
        self._stretch: Any = stretch[:, None, :] if bool((stretch > 1.0).any()) else None
        scaled = (points - 0.5) * self._inverse
        self._scaled, self._lengths = 2.0 * scaled.swapaxes(-1, -2), (scaled * scaled).sum(-1)[:, None, :]
        self._root, self._weights, self._beta = root, weights, beta
        self._H, self._inverse_A = H.swapaxes(1, 2), inverse_A
        # One product with the kernel gives everything that is linear in it.
        self._linear = xp.concatenate([weights, H, root.swapaxes(1, 2)], -1)
        d = inverse.shape[1]
        first, second = np.triu_indices(d)
        self._first, self._second = first.tolist(), second.tolist()
        eye = np.eye(d)
        self._to_first, self._to_second = (
            eye[index] if xp is np else torch.as_tensor(eye[index], device=root.device) for index in (first, second)
        )

    def moments(self, U: Float64[Array, "b d"]) -> tuple[Float64[Array, "B b c"], Float64[Array, "B b c"]]:
        """Return mean and standard deviation of every output of every task."""
        mean, deviation, _, _ = self._moments(U, slopes=False)
        return mean, deviation

    def moments_and_slopes(
        self, U: Float64[Array, "b d"]
    ) -> tuple[Float64[Array, "B b c"], Float64[Array, "B b c"], Float64[Array, "B b c d"], Float64[Array, "B b c d"]]:
        """Return mean and standard deviation of every output, and their derivatives with respect to the point."""
        return self._moments(U, slopes=True)

    def _moments(self, U: Any, slopes: bool) -> tuple[Any, Any, Any, Any]:
        """Universal kriging: mean = f'beta + k'P y, var = s2 [1 - k'K^-1 k + r'A^-1 r] with r = f - F'K^-1 k."""
        xp = self._xp
        V = U if self._stretch is None else self._stretched(U)
        scaled = (V - 0.5) * self._inverse
        squares = (scaled * scaled).sum(-1)[:, :, None] + self._lengths - scaled @ self._scaled
        k, w = self._radial(squares.clip(0.0, None))
        if not self._is_full:
            k, w = k * self._rows, w * self._rows
        f = self._basis(V)
        c, p = self._weights.shape[2], f.shape[-1]
        linear = k @ self._linear
        r, v = f - linear[..., c : c + p], linear[..., c + p :]
        rA = r @ self._inverse_A
        mean = linear[..., :c] + f @ self._beta
        ratio = 1.0 - (v * v).sum(-1) + (rA * r).sum(-1)
        deviation = xp.sqrt(self._variance * ratio.clip(SMALLEST_RATIO, None)[..., None])
        if not slopes:
            return mean, deviation, None, None
        square = (self._inverse * self._inverse)[..., None]
        pull = (self._points.swapaxes(-1, -2)[..., None, :, :] - V[..., :, None]) * w[:, :, None, :] * square
        mean_slope = (pull @ self._weights[:, None]).swapaxes(2, 3)
        ratio_slope = -(pull @ (v @ self._root + rA @ self._H)[..., None])[..., 0]
        if self._degree > 0:
            mean_slope = mean_slope + self._trend_slope(self._beta.swapaxes(1, 2)[:, None], V[..., None, :])
            ratio_slope = ratio_slope + self._trend_slope(rA, V)
        if self._stretch is not None:
            chain = self._stretched_slope(U)
            mean_slope, ratio_slope = mean_slope * chain[:, :, None, :], ratio_slope * chain
        return mean, deviation, mean_slope, (self._variance / deviation)[..., None] * ratio_slope[:, :, None, :]

    def _radial(self, squares: Any) -> tuple[Any, Any]:
        """Return k(r) and w(r) = -dk/d(r^2/2)."""
        xp = self._xp
        if self._kernel is None:  # squared exponential throughout: no root needed
            E = xp.exp(-0.5 * squares)
            return E, E
        s, q, c1, c2, w0, w1 = self._kernel
        a = s * xp.sqrt(squares.clip(1e-30, None))
        E = xp.exp(-(a + q * squares))
        return (1.0 + a * (c1 + c2 * a)) * E, w0 * (1.0 + w1 * a) * E

    def _basis(self, V: Any) -> Any:
        """Return the trend columns 1, v_i, v_i v_j with v = 2u - 1, those in use."""
        xp = self._xp
        parts = [xp.ones_like(V[..., :1])]
        if self._degree >= 1:
            centred = 2.0 * V - 1.0
            parts.append(centred)
            if self._degree >= 2:
                parts.append(centred[..., self._first] * centred[..., self._second])
        f = xp.concatenate(parts, -1)
        return f[None] if self._all_columns and f.ndim == 2 else f * self._columns

    def _trend_slope(self, coefficients: Any, V: Any) -> Any:
        """Return the slope of a combination of trend columns."""
        d = V.shape[-1]
        slope = coefficients[..., 1 : 1 + d]
        if self._degree >= 2:
            quadratic, centred = coefficients[..., 1 + d :], 2.0 * V - 1.0
            slope = slope + (quadratic * centred[..., self._second]) @ self._to_first
            slope = slope + (quadratic * centred[..., self._first]) @ self._to_second
        return 2.0 * slope

    def _stretched(self, U: Any) -> Any:
        """Return points on the scales of each task: log(1 + (r - 1) u) / log r."""
        r = self._stretch
        safe = r.clip(1.0 + 1e-9, None)
        return self._xp.where(r > 1.0, self._xp.log1p((safe - 1.0) * U) / self._xp.log(safe), U)

    def _stretched_slope(self, U: Any) -> Any:
        """Return the derivatives of `_stretched`."""
        r = self._stretch
        safe = r.clip(1.0 + 1e-9, None)
        slope = (safe - 1.0) / ((1.0 + (safe - 1.0) * U) * self._xp.log(safe))
        return self._xp.where(r > 1.0, slope, self._xp.ones_like(slope))
