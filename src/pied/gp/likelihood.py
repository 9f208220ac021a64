"""Universal kriging of many outputs at once: restricted likelihood and leave-one-out density.

A *task* is one regression: one output under one kernel, one trend, one warp. All tasks have the same N points of the
unit cube and are solved together, as one batch. Numbers, not branches, express how they differ:

- the kernel by six coefficients of one radial formula (`kernels.KERNELS`),
- the inputs an output depends on by zeros among its inverse length scales,
- the rows an output was told at by a mask: another row is a unit row of the covariance matrix and a zero of the data,
- the trend by a mask on the columns of one polynomial basis.

Letters: B tasks, N points, d inputs, p trend columns; R correlations, K = R + nugget I, F the trend columns:

    A = F' K^-1 F,   P = K^-1 - K^-1 F A^-1 F' K^-1,   Q = y' P y,
    REML = -1/2 [(n - p) log s2 + log|K| + log|A| + Q / s2],    s2 = Q / (n - p) when profiled.
"""

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy import ndarray

from pied.gp.factors import add_to_diagonal, log_determinants, roots
from pied.gp.features.coding import Ties
from pied.gp.kernels import pairs, radial
from pied.shapes import Bool, Float64, Int

EXACT_NUGGET = 1e-12  # of the process variance: a larger one is a noise that limits how precisely an optimum is found
SMALLEST_VARIANCE = 1e-24  # process variance, standardized: that of an output that its trend explains to the last digit
SHORTEST, LONGEST = math.log(5e-3), math.log(1e2)  # logarithms of length scales in the unit cube
QUIETEST, NOISIEST = 1e-10, 1e3  # nugget (noise variance over process variance) when it is learned
SPARE_ROWS = 3  # rows that a trend needs beyond the number of its columns
ENTRIES_AT_ONCE = 100_000  # of covariance matrices worked on together: what a processor's cache holds
PRIOR_VARIANCE = 3.0  # of the log length scales
LABEL_PRIOR = 0.0  # mean of the log length scale of labels a priori: two of them have a correlation of about 0.4
NUGGET_PRIOR = (-6.0, 3.0)  # mean and deviation of the log nugget when the noise is learned: open from 1e-8 to 10
VARIANCE_PRIOR = (0.0, 2.0)  # mean and deviation of the log process variance when the noise is known
LARGEST_MISS = 1e-3  # standardized: a fit of an exact output that is off by more at a told point has missed it
MISS_PENALTY = 1e6  # nats for each output of such a fit, so that it is chosen only where there is no other


@dataclass(frozen=True, eq=False)
class Tasks:
    """A batch of regressions on the same points."""

    U: Float64[ndarray, "*B N d"]
    """What kernels see of the points (`kernels.View`): shared, or per task where it differs."""
    basis: Float64[ndarray, "*F N p"]
    """Trend columns at the points (`kernels.polynomial`)."""
    y: Float64[ndarray, "B N c"]
    """Standardized told values, zero where not told: c outputs that share their hyperparameters, usually one."""
    rows: Float64[ndarray, "B N"]
    """1 where the output was told, 0 where not."""
    active: Float64[ndarray, "B d"]
    """1 for the inputs that the output depends on."""
    columns: Float64[ndarray, "B p"]
    """1 for the trend columns in use."""
    kernel: Float64[ndarray, "B 6"]
    """Coefficients of the kernel (`kernels.KERNELS`)."""
    noise: Float64[ndarray, "B c"]
    """Standardized noise variance when known, which ties the process variance to the nugget; else 0."""
    nugget: Float64[ndarray, "B 2"]
    """Logarithms of the smallest and largest nugget; equal: fixed."""
    prior: float = 1.0
    """Weight of the prior on the hyperparameters: 1 for MAP, 0 for plain maximum likelihood."""
    scatter: Float64[ndarray, "B N"] | None = None
    """By how much the noise variance of each told value is larger than the nugget says; None: it is not."""
    ties: Ties | None = None
    """Which inputs have a length scale in common; None: none of them."""
    together: Float64[ndarray, "N q"] | None = None
    """What values have of the offsets of blocks and campaigns (`offsets`); None: there are none."""
    share: Float64[ndarray, "B q"] | None = None
    """Variance of each offset, in units of the process variance."""
    longest: Float64[ndarray, "d"] | None = None
    """The longest length scale along each input; None: `LONGEST`."""

    def at(self, index: Int[ndarray, "C"] | slice) -> "Tasks":
        """Return the tasks with these indices (repeats allowed)."""
        return replace(
            self,
            U=self.U[index] if self.U.ndim == 3 else self.U,
            basis=self.basis[index] if self.basis.ndim == 3 else self.basis,
            y=self.y[index],
            rows=self.rows[index],
            active=self.active[index],
            columns=self.columns[index],
            kernel=self.kernel[index],
            noise=self.noise[index],
            nugget=self.nugget[index],
            scatter=None if self.scatter is None else self.scatter[index],
            share=None if self.share is None else self.share[index],
        )

    @property
    def noisy_rows(self) -> Float64[ndarray, "B N"]:
        """The rows, each times its noise variance in units of the nugget."""
        return self.rows if self.scatter is None else self.rows * self.scatter

    @property
    def learns_nugget(self) -> Bool[ndarray, "B"]:
        """Whether the nugget is a free parameter: noise learned, or known while the variance is not."""
        return self.nugget[:, 0] < self.nugget[:, 1]


@dataclass(frozen=True, eq=False)
class Fit:
    """How well tasks explain the told values at given hyperparameters."""

    loss: Float64[ndarray, "B"]
    """Minus the restricted log likelihood minus the log prior; infinite where the factorization failed."""
    slope: Float64[ndarray, "B q"]
    """Gradient of the loss: d log length scales, then the log nugget."""
    variance: Float64[ndarray, "B c"]
    """Process variance s2, standardized."""
    density: Float64[ndarray, "B"]
    """Sum of leave-one-out log densities of the standardized told values, over all outputs of the task."""


def columns_of(trend: str, active: Bool[ndarray, "d"], degree: int) -> Bool[ndarray, "p"]:
    """Tell which columns of `kernels.polynomial(., degree)` a trend over these inputs uses."""
    used = [np.array([trend not in ("none", "stated")])]
    if degree >= 1:
        used.append(active & (trend in ("linear", "quadratic", "model, linear")))
    if degree >= 2:
        first, second = pairs(len(active))
        used.append(active[first] & active[second] & (trend == "quadratic"))
    return np.concatenate(used)


def apart(tasks: Tasks, distance: float) -> Float64[ndarray, "B N"]:
    """Return the rows of each task that lie apart from each other, kept in the order in which they were told.

    Distances are those of what the kernels see. Where too few would be left, or the noise is known, all are kept.
    """
    rows = tasks.rows.copy()
    kept_for: dict[tuple[bytes, bytes, int], Bool[ndarray, "N"]] = {}
    for j in range(len(rows)):
        key = (tasks.active[j].tobytes(), tasks.rows[j].tobytes(), j if tasks.U.ndim == 3 else -1)
        if key not in kept_for:
            V = (tasks.U[j] if tasks.U.ndim == 3 else tasks.U) * tasks.active[j]
            close = sum((each[:, None] - each) ** 2 for each in V.T) < distance**2
            keep = np.zeros(len(V), dtype=bool)
            for i in np.flatnonzero(tasks.rows[j] > 0):
                keep[i] = not (close[i] & keep).any()
            kept_for[key] = keep
        rows[j] = kept_for[key]
    enough = rows.sum(1) >= tasks.columns.sum(1) + SPARE_ROWS
    return np.where((enough & (tasks.noise == 0).all(1))[:, None], rows, tasks.rows)


def squared_distances(
    left: Float64[ndarray, "*B b d"], right: Float64[ndarray, "*B N d"], inverse: Float64[ndarray, "B d"]
) -> Float64[ndarray, "B b N"]:
    """Return sum_k (left_k - right_k)^2 / l_k^2, from centred points so that little cancels."""
    scaled_left = (left - 0.5) * inverse[:, None, :]
    scaled_right = scaled_left if right is left else (right - 0.5) * inverse[:, None, :]
    squares = scaled_left @ (-2.0 * scaled_right).swapaxes(1, 2)
    squares += (scaled_left**2).sum(-1)[:, :, None]
    squares += (scaled_right**2).sum(-1)[:, None, :]
    return np.maximum(squares, 0.0, out=squares)


def inverse_scales(theta: Float64[ndarray, "B q"], active: Float64[ndarray, "B d"]) -> Float64[ndarray, "B d"]:
    """Return 1/l for the inputs in use, 0 for the others."""
    return np.exp(-theta[:, : active.shape[1]]) * active


def prior_mean(active: Float64[ndarray, "B d"], ties: Ties | None = None) -> Float64[ndarray, "B #d"]:
    """Return the mean of the log length scales a priori: sqrt(2) + log(inputs) / 2 (Hvarfner et al. 2024).

    Labels count as one input, and are a priori not much alike: what holds for one is not believed of another.
    """
    if ties is None:
        return math.sqrt(2.0) + 0.5 * np.log(np.maximum(active.sum(1, keepdims=True), 1.0))
    inputs = (active * ties.weight).sum(1, keepdims=True)
    return np.where(ties.is_tied, LABEL_PRIOR, math.sqrt(2.0) + 0.5 * np.log(np.maximum(inputs, 1.0)))


def covariance(
    tasks: Tasks, theta: Float64[ndarray, "B q"], *, slopes: bool = True
) -> tuple[Float64[ndarray, "B N N"], Float64[ndarray, "B N N"]]:
    """Return K = R + nugget I (unit rows where nothing was told) and the radial slopes w, if asked for."""
    squares = squared_distances(tasks.U, tasks.U, inverse_scales(theta, tasks.active))
    K, w = radial(squares, tasks.kernel, slopes=slopes)
    if not (tasks.rows == 1.0).all():
        both = tasks.rows[:, :, None] * tasks.rows[:, None, :]
        K, w = K * both, w * both if slopes else w
    elif w is K and slopes:
        K = K.copy()
    n = K.shape[1]
    K.reshape(len(K), n * n)[:, :: n + 1] = 1.0 + tasks.noisy_rows * np.exp(theta[:, -1:])
    if tasks.together is not None and tasks.share is not None and tasks.share.any():
        own = tasks.rows[:, :, None] * tasks.together * np.sqrt(tasks.share)[:, None, :]
        K = K + own @ own.swapaxes(1, 2)
    return K, w


def evaluate(tasks: Tasks, theta: Float64[ndarray, "B q"], with_slope: bool = True) -> Fit:
    """Return loss, gradient, variance and leave-one-out density of every task at its hyperparameters."""
    B, N, _ = tasks.y.shape
    size = max(1, ENTRIES_AT_ONCE // max(1, N * N))
    with np.errstate(all="ignore"):
        if size >= B:
            return _evaluate(tasks, theta, with_slope)
        order = np.lexsort((*theta.T, tasks.columns.sum(1), *tasks.kernel.T[:2]))  # equal tasks in the same piece
        pieces = [order[start : start + size] for start in range(0, B, size)]
        parts = [_evaluate(tasks.at(piece), theta[piece], with_slope) for piece in pieces]
    back = np.argsort(order)
    names = ("loss", "slope", "variance", "density")
    return Fit(*(np.concatenate([getattr(part, name) for part in parts])[back] for name in names))


def _evaluate(tasks: Tasks, theta: Float64[ndarray, "B q"], with_slope: bool) -> Fit:
    """One batch of `evaluate`."""
    used = 1 + int(np.flatnonzero(tasks.columns.any(0)).max(initial=0))
    if used < tasks.columns.shape[1]:
        tasks = replace(tasks, basis=tasks.basis[..., :used], columns=tasks.columns[:, :used])
    if with_slope:
        return _score(tasks, theta, whitened(tasks, theta, with_slope=True))
    first, which = _distinct(tasks, theta)
    if len(first) == len(theta):
        return _score(tasks, theta, whitened(tasks, theta, with_slope=False))
    return _score(tasks, theta, whitened(tasks.at(first), theta[first], with_slope=False).at(which))


def _distinct(tasks: Tasks, theta: Float64[ndarray, "B q"]) -> tuple[Int[ndarray, "C"], Int[ndarray, "B"]]:
    """Return one task of each kind that shares covariance and trend, and the kind of every task.

    A selection tries each output under several warps at the same length scales.
    """
    parts = [theta, tasks.kernel, tasks.noisy_rows, tasks.rows, tasks.active, tasks.columns]
    parts += [] if tasks.share is None else [tasks.share]
    shared = [each.reshape(len(theta), -1) for each in (tasks.U, tasks.basis) if each.ndim == 3]
    keys = np.concatenate([*parts, *shared], 1)
    kinds: dict[bytes, int] = {}
    which = np.array([kinds.setdefault(key.tobytes(), len(kinds)) for key in keys])
    return np.unique(which, return_index=True)[1], which


class Whitened(NamedTuple):
    """Covariances and trends of a batch, factorized: P = R'R - pull pull' with orthonormal trend columns."""

    R: Float64[ndarray, "B N N"]
    trend: Float64[ndarray, "B N p"]
    """R F, orthonormalized."""
    pull: Float64[ndarray, "B N p"]
    """R' trend."""
    precision: Float64[ndarray, "B N"]
    """The diagonal of P."""
    logdet: Float64[ndarray, "B"]
    """log|K| + log|A|."""
    failed: Bool[ndarray, "B"]
    """Whether K or A is not positive definite."""
    w: Float64[ndarray, "B N N"] | None
    """Radial slopes of the kernel; None where no gradient is wanted."""

    def rest(self, y: Float64[ndarray, "B N c"]) -> Float64[ndarray, "B N c"]:
        """Return R times told values, less their part along the trend."""
        rest = self.R @ y
        rest -= self.trend @ (self.trend.swapaxes(1, 2) @ rest)
        return rest

    def at(self, index: Int[ndarray, "C"]) -> "Whitened":
        """Return the batch with these indices, for which no gradient is wanted."""
        R, trend, pull, precision, logdet, failed = (each[index] for each in self[:-1])
        return Whitened(R, trend, pull, precision, logdet, failed, None)


def whitened(tasks: Tasks, theta: Float64[ndarray, "B q"], *, with_slope: bool) -> Whitened:
    """Factorize the covariances and trends of a batch."""
    K, w = covariance(tasks, theta, slopes=with_slope)
    R, failed = roots(K)
    used = np.asarray(tasks.columns.any(0))
    columns = tasks.columns[:, used]
    half = R @ (tasks.basis[..., used] * tasks.rows[:, :, None] * columns[:, None, :])
    A = half.swapaxes(1, 2) @ half
    add_to_diagonal(A, 1.0 - columns)
    RA, failed_trend = roots(A)
    trend = half @ RA.swapaxes(1, 2)
    pull = R.swapaxes(1, 2) @ trend
    precision = np.einsum("bij,bij->bj", R, R) - (pull * pull).sum(2)
    logdet = log_determinants(R) + log_determinants(RA)
    return Whitened(R, trend, pull, precision, logdet, failed | failed_trend, w if with_slope else None)


def _score(tasks: Tasks, theta: Float64[ndarray, "B q"], found: Whitened) -> Fit:
    """Return how well tasks explain the told values, with the gradient where the radial slopes are given."""
    R, _, pull, precision, logdet, failed, w = found
    rest = found.rest(tasks.y)
    residual = (R.swapaxes(1, 2) @ rest) * tasks.rows[:, :, None]
    Q = (rest * rest).sum(1)
    freedom = np.maximum(tasks.rows.sum(1) - tasks.columns.sum(1), 1.0)[:, None]
    known = tasks.noise > 0
    nugget = np.exp(theta[:, -1])
    s2 = np.maximum(np.where(known, tasks.noise / nugget[:, None], Q / freedom), SMALLEST_VARIANCE)
    count = tasks.y.shape[2]
    loss = 0.5 * (count * logdet + (freedom * np.log(s2) + np.where(known, Q / s2, freedom)).sum(1))

    precision = np.maximum(precision, 1e-300)[:, :, None]
    variance = s2[:, None, :] / precision
    each = math.log(2 * math.pi) + np.log(variance) + (residual / precision) ** 2 / variance
    density = -0.5 * (tasks.rows[:, :, None] * each).sum((1, 2))

    penalty, slope = _prior(tasks, theta, s2)
    miss = MISS_PENALTY * count * _misses(tasks, residual, nugget)
    loss = np.where(failed | ~np.isfinite(loss), np.inf, loss + penalty + miss)
    density = np.where(failed | ~np.isfinite(density), -np.inf, density - miss)
    if w is None:
        return Fit(loss, np.zeros_like(theta), s2, density)

    M = R.swapaxes(1, 2) @ R
    if count > 1:
        M *= count
    ends = np.concatenate([math.sqrt(count) * pull, residual / np.sqrt(s2)[:, None, :]], 2)
    M -= ends @ ends.swapaxes(1, 2)
    by_nugget = 0.5 * nugget * (np.diagonal(M, axis1=1, axis2=2) * tasks.noisy_rows).sum(1)
    M *= w
    centred = tasks.U - 0.5
    by_scale = (M.sum(2)[:, None, :] @ centred**2)[:, 0] - ((M @ centred) * centred).sum(1)
    slope[:, :-1] += by_scale * inverse_scales(theta, tasks.active) ** 2
    slope[:, -1] += by_nugget + np.where(known, 0.5 * (Q / s2 - freedom), 0.0).sum(1)
    slope[:, -1] *= tasks.learns_nugget
    if tasks.ties is not None:
        slope[:, :-1] = slope[:, :-1] @ tasks.ties.mean
    return Fit(loss, np.where(failed[:, None], 0.0, slope), s2, density)


def _misses(tasks: Tasks, residual: Float64[ndarray, "B N c"], nugget: Float64[ndarray, "B"]) -> Bool[ndarray, "B"]:
    """Tell which tasks of an exact output would miss what was told: y - mean = nugget K^-1 (y - F beta).

    With long length scales the process variance of an output that jumps or bends sharply is so large that even the
    smallest nugget is a noise, and the belief would not pass through the told values.
    """
    is_exact = ~tasks.learns_nugget & (tasks.noise == 0).all(1) & (nugget < 10.0 * EXACT_NUGGET)
    return is_exact & (np.abs(nugget[:, None, None] * residual) > LARGEST_MISS).any((1, 2))


def _prior(
    tasks: Tasks, theta: Float64[ndarray, "B q"], s2: Float64[ndarray, "B c"]
) -> tuple[Float64[ndarray, "B"], Float64[ndarray, "B q"]]:
    """Return minus the log prior of the hyperparameters and its gradient."""
    d = tasks.U.shape[-1]
    away = (theta[:, :d] - prior_mean(tasks.active, tasks.ties)) * tasks.active
    squares = away**2 if tasks.ties is None else away**2 * tasks.ties.weight
    value = squares.sum(1) / (2 * PRIOR_VARIANCE)
    slope = np.zeros_like(theta)
    slope[:, :d] = away / PRIOR_VARIANCE
    nugget_away = (theta[:, -1] - NUGGET_PRIOR[0]) / NUGGET_PRIOR[1]
    variance_away = (np.log(s2) - VARIANCE_PRIOR[0]) / VARIANCE_PRIOR[1]
    known = tasks.noise > 0
    learned = tasks.learns_nugget & ~known.any(1)
    value = value + np.where(learned, 0.5 * nugget_away**2, 0.0)
    value = value + np.where(known, 0.5 * variance_away**2, 0.0).sum(1)
    slope[:, -1] = np.where(learned, nugget_away / NUGGET_PRIOR[1], 0.0)
    slope[:, -1] -= np.where(known, variance_away / VARIANCE_PRIOR[1], 0.0).sum(1)
    return value * tasks.prior, slope * tasks.prior
