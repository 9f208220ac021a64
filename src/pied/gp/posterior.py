"""Posteriors of many regressions at any points: mean, standard deviation and their slopes, in closed form.

What `likelihood` has learned is used here some hundred times per suggestion, at ten points or at a thousand. At ten
points the time goes into calls, not arithmetic.
"""

from copy import copy
from typing import Any

import numpy as np
from numpy import ndarray

from pied.gp.drift import Drift
from pied.gp.features.view import View
from pied.gp.kernels import polynomial, polynomial_slope, radial
from pied.shapes import Bool, Float64

SMALLEST_RATIO = 1e-16  # of the posterior to the process variance: less is rounding error
READINGS = 4  # a piece is no smaller than this makes it: reading the factor takes as long as so many slopes
ENTRIES_AT_ONCE = 100_000  # of kernel matrices worked on together: what a processor's cache holds


class Posterior:
    """Universal kriging of B tasks at fixed hyperparameters: N points, d inputs, p trend columns, c outputs a task."""

    def __init__(
        self,
        points: Float64[ndarray, "*B N e"],
        rows: Float64[ndarray, "B N"],
        kernel: Float64[ndarray, "B 6"],
        inverse: Float64[ndarray, "B e"],
        view: View,
        degree: int,
        root: Float64[ndarray, "B N N"],
        weights: Float64[ndarray, "B N c"],
        beta: Float64[ndarray, "B p c"],
        H: Float64[ndarray, "B N p"],
        inverse_A: Float64[ndarray, "B p p"],
        columns: Float64[ndarray, "B p"],
        used: Bool[ndarray, "q"],
        variance: Float64[ndarray, "B c"],
        apart: tuple[Float64[ndarray, "B N"], Float64[ndarray, "B"]] | None = None,
        drift: Drift | None = None,
    ) -> None:
        """Prepare.

        Args:
            points: The told points, as the kernels see them.
            rows: 1 where the output was told, 0 where not.
            kernel: Coefficients of the kernels (`kernels.KERNELS`).
            inverse: 1 / length scale, 0 for inputs that the output does not depend on.
            view: How the tasks see points.
            degree: Of the trend basis.
            root: With K^-1 = root' root.
            weights: P y.
            beta: Coefficients of the trend.
            H: K^-1 F.
            inverse_A: (F' K^-1 F)^-1.
            columns: 1 for the trend columns in use, of those that any task uses.
            used: Which columns of the basis any task uses.
            variance: Process variance.
            apart: Of a question that has an offset, its covariances with the told values and its variance; None: none.
            drift: Models of the outputs; None: none has one.
        """
        self._apart = None if apart is None else apart[0][:, None, :]
        self._prior = np.ones((len(rows), 1)) if apart is None else 1.0 + apart[1][:, None]
        self._drift = drift
        self._has_column = drift is not None and bool(drift.scaled.any())
        has_own = self._has_column and bool(used[-1])
        self._scales_model = columns[:, -1] if has_own else np.zeros(len(rows))
        self._points, self._rows, self._columns = points, rows[:, None, :], columns[:, None, :]
        self._used = used
        self._is_full, self._all_columns = bool((rows == 1.0).all()), bool((columns == 1.0).all())
        self._kernel, self._view = kernel, view
        self._inverse, self._degree, self._variance = inverse[:, None, :], degree, variance[:, None, :]
        scaled = (points - 0.5) * self._inverse
        self._scaled, self._lengths = 2.0 * scaled.swapaxes(-1, -2), (scaled * scaled).sum(-1)[:, None, :]
        self._root, self._weights, self._beta = root, weights, beta
        self._H, self._inverse_A = H.swapaxes(1, 2), inverse_A
        # One product with the kernel gives everything that is linear in it.
        self._linear = np.concatenate([weights, H, root.swapaxes(1, 2)], -1)

    def widened(self, factor: Float64[ndarray, "B c"]) -> "Posterior":
        """Return the same with deviations multiplied by a factor of each output."""
        wider = copy(self)
        wider._variance = self._variance * factor[:, None, :] ** 2
        return wider

    @property
    def inverse(self) -> Float64[ndarray, "B e"]:
        """1 / length scale, 0 for inputs that an output does not depend on."""
        return self._inverse[:, 0]

    def norms(self) -> Float64[ndarray, "B c"]:
        """Return the norm of every mean, its trend left out, in the space of the kernel of unit variance."""
        own = 0.5 * self._scaled.swapaxes(-1, -2)
        squares = self._lengths + self._lengths.swapaxes(1, 2) - own @ self._scaled
        K = radial(squares.clip(0.0, None), self._kernel, slopes=False)[0]
        return np.sqrt(((K @ self._weights) * self._weights).sum(1).clip(0.0, None))

    def moments(self, U: Float64[ndarray, "b d"]) -> tuple[Float64[ndarray, "B b c"], Float64[ndarray, "B b c"]]:
        """Return mean and standard deviation of every output of every task."""
        step = max(1, ENTRIES_AT_ONCE // max(1, len(self._root) * self._root.shape[1]))
        if len(U) <= step:
            return self._moments(U, slopes=False)[:2]
        parts = [self._moments(U[begin : begin + step], slopes=False)[:2] for begin in range(0, len(U), step)]
        mean, deviation = (np.concatenate(each, 1) for each in zip(*parts, strict=True))
        return mean, deviation

    def together(self, U: Float64[ndarray, "b d"]) -> tuple[Float64[ndarray, "B b c"], Float64[ndarray, "B c b b"]]:
        """Return the mean of every output of every task, and the covariance of its values at the points."""
        _, _, scaled, _, mean, r, v = self._kriged(U, slopes=False)
        lengths = (scaled * scaled).sum(-1)
        squares = lengths[:, :, None] + lengths[:, None] - 2.0 * scaled @ scaled.swapaxes(1, 2)
        prior, _ = radial(squares.clip(0.0, None), self._kernel)
        prior = prior + (self._prior - 1.0)[..., None]
        left = prior - v @ v.swapaxes(1, 2) + r @ self._inverse_A @ r.swapaxes(1, 2)
        return mean, self._variance.swapaxes(1, 2)[..., None] * left[:, None]

    def moments_and_slopes(
        self, U: Float64[ndarray, "b d"]
    ) -> tuple[
        Float64[ndarray, "B b c"], Float64[ndarray, "B b c"], Float64[ndarray, "B b c d"], Float64[ndarray, "B b c d"]
    ]:
        """Return mean and standard deviation of every output, and their derivatives with respect to the point."""
        (B, N), d = self._root.shape[:2], self._inverse.shape[2]
        step = max(1, ENTRIES_AT_ONCE // max(1, B * N * d), N // (READINGS * d))
        if len(U) <= step:
            return self._moments(U, slopes=True)
        parts = [self._moments(U[begin : begin + step], slopes=True) for begin in range(0, len(U), step)]
        mean, deviation, by_mean, by_deviation = (np.concatenate(each, 1) for each in zip(*parts, strict=True))
        return mean, deviation, by_mean, by_deviation

    def expected(self, U: Float64[ndarray, "b d"], slopes: bool) -> tuple[Any, Any]:
        """Return the mean of every output of every task alone, and its derivatives where they are wanted."""
        V, seen, _, k, w = self._kernels(U, slopes)
        mean = k @ self._weights + self._basis(V, None) @ self._beta
        if not slopes:
            return mean, None
        by_seen = self._pull(seen, w) @ self._weights[:, None]
        return mean, self._view.back(U, self._with_trend(by_seen.swapaxes(2, 3), V))

    def _kernels(self, U: Any, slopes: bool) -> tuple[Any, Any, Any, Any, Any]:
        """Return scaled inputs, what kernels see (plain, by length scales), the kernels and their slopes."""
        V = self._view.scaled(U)
        seen = self._view.whole(U, V)
        scaled = (seen - 0.5) * self._inverse
        squares = (scaled * scaled).sum(-1)[:, :, None] + self._lengths - scaled @ self._scaled
        k, w = radial(squares.clip(0.0, None), self._kernel, slopes=slopes)
        if self._apart is not None:
            k = k + self._apart
        if not self._is_full:
            k, w = k * self._rows, w * self._rows
        return V, seen, scaled, k, w

    def _pull(self, seen: Any, w: Any) -> Any:
        """Return the derivatives of the kernels by what they see."""
        square = (self._inverse * self._inverse)[..., None]
        return (self._points.swapaxes(-1, -2)[..., None, :, :] - seen[..., :, None]) * w[:, :, None, :] * square

    def _with_trend(self, slope: Any, V: Any) -> Any:
        """Add the slopes of the trend to those of the mean."""
        if self._degree > 0:
            beta = self._by_column(self._beta.swapaxes(1, 2))
            slope[..., : V.shape[-1]] += polynomial_slope(beta[:, None], V[..., None, :], self._degree)
        return slope

    def _kriged(self, U: Any, slopes: bool) -> tuple[Any, Any, Any, Any, Any, Any, Any]:
        """Return scaled inputs, what kernels see (plain, by length scales), slopes of the kernel, mean, r, root k."""
        V, seen, scaled, k, w = self._kernels(U, slopes)
        known = None if self._drift is None else self._drift.values(U)
        f = self._basis(V, known)
        c, p = self._weights.shape[2], f.shape[-1]
        linear = k @ self._linear
        mean = linear[..., :c] + f @ self._beta
        if known is not None:
            mean += known[:, :, None]
        return V, seen, scaled, w, mean, f - linear[..., c : c + p], linear[..., c + p :]

    def _moments(self, U: Any, slopes: bool) -> tuple[Any, Any, Any, Any]:
        """Universal kriging: mean = f'beta + k'P y, var = s2 [1 - k'K^-1 k + r'A^-1 r] with r = f - F'K^-1 k."""
        V, seen, _, w, mean, r, v = self._kriged(U, slopes)
        rA = r @ self._inverse_A
        ratio = self._prior - (v * v).sum(-1) + (rA * r).sum(-1)
        deviation = np.sqrt(self._variance * ratio.clip(SMALLEST_RATIO, None)[..., None])
        if not slopes:
            return mean, deviation, None, None
        pull = self._pull(seen, w)
        mean_slope = self._with_trend((pull @ self._weights[:, None]).swapaxes(2, 3), V)
        ratio_slope = -(pull @ (v @ self._root + rA @ self._H)[..., None])[..., 0]
        if self._degree > 0:
            ratio_slope[..., : U.shape[-1]] += polynomial_slope(self._by_column(rA), V, self._degree)
        by_ratio, by_mean = self._view.back(U, ratio_slope[:, :, None]), self._view.back(U, mean_slope)
        if self._drift is not None:
            known = self._drift.values_and_slopes(U)[1][:, :, None]
            by_mean = by_mean + known
            if self._scales_model.any():
                scaled = self._scales_model[:, None, None, None]
                by_ratio = by_ratio + scaled * rA[..., -1:, None] * known
                by_mean = by_mean + scaled * self._beta[:, None, -1, :, None] * known
        return mean, deviation, by_mean, (self._variance / deviation)[..., None] * by_ratio

    def _by_column(self, coefficients: ndarray) -> ndarray:
        """Return coefficients of all polynomial columns of the basis, those that no task uses with zeros."""
        whole = coefficients
        if not self._used.all():
            whole = np.zeros((*coefficients.shape[:-1], len(self._used)))
            whole[..., self._used] = coefficients
        return whole[..., :-1] if self._has_column else whole

    def _basis(self, V: Any, known: Any) -> Any:
        """Return the trend columns, those in use."""
        f = polynomial(V, self._degree)
        if self._drift is not None:
            f = self._drift.beside(f, known)
        f = f[..., self._used]
        return f[None] if self._all_columns and f.ndim == 2 else f * self._columns
