"""Universal kriging of many outputs at once: restricted likelihood, leave-one-out, factors.

A *task* is one regression: one output under one kernel, one trend, one warp. All tasks live on the same N points of the
unit cube and are solved together, as one batch. What differs between them is expressed by numbers, never by branches:

- the kernel by six coefficients of one radial formula (`shapes.KERNELS`),
- the inputs an output sees by zeros among its inverse length scales,
- the rows an output has by a mask: an absent row becomes a unit row of the covariance matrix and a zero of the data,
- the trend by a mask on the columns of one polynomial basis.

Letters: B tasks, N points, d inputs, p trend columns; R correlations, K = R + nugget I, F the trend columns:

    A = F' K^-1 F,   P = K^-1 - K^-1 F A^-1 F' K^-1,   Q = y' P y,
    REML = -1/2 [(n - p) log s2 + log|K| + log|A| + Q / s2],    s2 = Q / (n - p) when profiled.
"""

import math
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float64
from torch import Tensor

from pied.gp.kernels import pairs, radial

EXACT_NUGGET = 1e-12  # of the process variance: larger ones are a noise that bounds how precisely an optimum is found
SMALLEST_VARIANCE = 1e-24  # of the standardized variance: an output that its trend explains to the last digit
SHORTEST, LONGEST = math.log(5e-3), math.log(1e2)  # length scales in the unit cube, in logarithms
QUIETEST, NOISIEST = 1e-10, 1e3  # ratio of noise variance to process variance when it is learned
SPARE_ROWS = 3  # a trend needs this many rows more than it has columns
CHUNK = 4_000_000  # covariance entries held at once


@dataclass(frozen=True, eq=False)
class Tasks:
    """A batch of regressions on the same points."""

    U: Float64[Tensor, "*B N d"]
    """What tasks see of the points (`shapes.View`): shared, or per task where they see different things."""
    basis: Float64[Tensor, "*F N p"]
    """Trend columns at the points (`shapes.polynomial`)."""
    y: Float64[Tensor, "B N c"]
    """Standardized observations, zero where absent: c outputs that share their hyperparameters, usually one."""
    rows: Float64[Tensor, "B N"]
    """1 where the output was observed, 0 where not."""
    active: Float64[Tensor, "B d"]
    """1 for the inputs the output sees."""
    columns: Float64[Tensor, "B p"]
    """1 for the trend columns in use."""
    kernel: Float64[Tensor, "B 6"]
    """Coefficients of the kernel (`shapes.KERNELS`)."""
    noise: Float64[Tensor, "B c"]
    """Standardized noise variance when known, which ties the process variance to the nugget; else 0."""
    nugget: Float64[Tensor, "B 2"]
    """Logarithms of the smallest and largest nugget; equal: fixed."""
    prior: float = 1.0
    """Weight of the prior on the hyperparameters: 1 for MAP, 0 for plain maximum likelihood."""

    def at(self, index: Tensor) -> "Tasks":
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
        )

    @property
    def learns_nugget(self) -> Bool[Tensor, "B"]:
        """Whether the nugget is a free parameter: noise learned, or known while the variance is not."""
        return self.nugget[:, 0] < self.nugget[:, 1]


@dataclass(frozen=True, eq=False)
class Fit:
    """Everything the formulas of this file need at given hyperparameters."""

    loss: Float64[Tensor, "B"]
    """Minus the restricted log likelihood minus the log prior; infinite where the factorization failed."""
    slope: Float64[Tensor, "B q"]
    """Gradient of the loss: d log length scales, then the log nugget."""
    variance: Float64[Tensor, "B c"]
    """Process variance s2, standardized."""
    density: Float64[Tensor, "B"]
    """Sum of leave-one-out log densities of the standardized observations, over all outputs of the task."""


def columns_of(trend: str, active: Bool[Tensor, "d"], degree: int) -> Bool[Tensor, "p"]:
    """Tell which columns of `shapes.polynomial(., degree)` a trend over these inputs uses."""
    d = active.numel()
    used = [torch.full((1,), trend != "none", device=active.device)]
    if degree >= 1:
        used.append(active & (trend in ("linear", "quadratic")))
    if degree >= 2:
        first, second = pairs(d)
        used.append(active[first] & active[second] & (trend == "quadratic"))
    return torch.cat(used)


def apart(tasks: Tasks, distance: float) -> Float64[Tensor, "B N"]:
    """Return the rows of each task that lie apart from each other, kept in the order in which they were told.

    Distances are measured in what the output sees. Where too few are left, or noise makes each row count, all are kept.
    """
    rows = tasks.rows.clone()
    kept_for: dict[tuple[int, ...], Tensor] = {}
    for j in range(len(rows)):
        key = (*(tasks.active[j] > 0).tolist(), *(tasks.rows[j] > 0).tolist(), j if tasks.U.ndim == 3 else -1)
        if key not in kept_for:
            V = (tasks.U[j] if tasks.U.ndim == 3 else tasks.U) * tasks.active[j]
            close = (torch.cdist(V, V) < distance).cpu().numpy()
            keep = torch.zeros(len(V), dtype=torch.bool).numpy()
            for i, is_told in enumerate((tasks.rows[j] > 0).tolist()):
                if is_told and not (close[i] & keep).any():
                    keep[i] = True
            kept_for[key] = torch.from_numpy(keep).to(rows)
        rows[j] = kept_for[key]
    enough = rows.sum(1) >= tasks.columns.sum(1) + SPARE_ROWS
    return torch.where((enough & (tasks.noise == 0).all(1))[:, None], rows, tasks.rows)


def squared_distances(
    left: Float64[Tensor, "*B b d"], right: Float64[Tensor, "*B N d"], inverse: Float64[Tensor, "B d"]
) -> Float64[Tensor, "B b N"]:
    """Return sum_k (left_k - right_k)^2 / l_k^2, from centred points so that little cancels."""
    scaled_left = (left - 0.5) * inverse[:, None, :]
    scaled_right = (right - 0.5) * inverse[:, None, :]
    cross = scaled_left @ scaled_right.mT
    lengths = scaled_left.square().sum(-1)[:, :, None] + scaled_right.square().sum(-1)[:, None, :]
    return (lengths - 2.0 * cross).clamp_min(0.0)


def inverse_scales(theta: Float64[Tensor, "B q"], active: Float64[Tensor, "B d"]) -> Float64[Tensor, "B d"]:
    """Return 1/l for the inputs in use, 0 for the others."""
    return torch.exp(-theta[:, : active.shape[1]]) * active


def prior_mean(active: Float64[Tensor, "B d"]) -> Float64[Tensor, "B 1"]:
    """Return the mean of the log length scales a priori: sqrt(2) + log(inputs) / 2 (Hvarfner et al. 2024)."""
    return math.sqrt(2.0) + 0.5 * active.sum(1, keepdim=True).clamp_min(1.0).log()


PRIOR_VARIANCE = 3.0  # of the log length scales
MISSED = 1e-3  # of the spread: an exact output is not explained by a fit that misses what was told by more
UNMET = 1e6  # nats an output that such a fit is worse, so that it is chosen only where there is no other
NUGGET_PRIOR = (-6.0, 3.0)  # mean and std of the log nugget when the noise is learned: open from 1e-8 to 10
VARIANCE_PRIOR = (0.0, 2.0)  # mean and std of the log process variance when the noise is known


def covariance(
    tasks: Tasks, theta: Float64[Tensor, "B q"]
) -> tuple[Float64[Tensor, "B N N"], Float64[Tensor, "B N N"]]:
    """Return K = R + nugget I (unit rows where nothing was observed) and the radial slopes w."""
    R, w = radial(squared_distances(tasks.U, tasks.U, inverse_scales(theta, tasks.active)), tasks.kernel)
    both = tasks.rows[:, :, None] * tasks.rows[:, None, :]
    K = R * both
    diagonal = tasks.rows * theta[:, -1:].exp() + (1.0 - tasks.rows) + tasks.rows
    K.diagonal(dim1=1, dim2=2).copy_(diagonal)
    return K, w * both


def evaluate(tasks: Tasks, theta: Float64[Tensor, "B q"], with_slope: bool = True) -> Fit:
    """Return loss, gradient, variance and leave-one-out density of every task at its hyperparameters."""
    B, N, _ = tasks.y.shape
    size = max(1, CHUNK // max(1, N * N))
    if size >= B:
        return _evaluate(tasks, theta, with_slope)
    parts = []
    for start in range(0, B, size):
        index = torch.arange(start, min(B, start + size), device=theta.device)
        parts.append(_evaluate(tasks.at(index), theta[index], with_slope))
    names = ("loss", "slope", "variance", "density")
    return Fit(*(torch.cat([getattr(part, name) for part in parts]) for name in names))


def _evaluate(tasks: Tasks, theta: Float64[Tensor, "B q"], with_slope: bool) -> Fit:
    """One batch of `evaluate`."""
    d = tasks.U.shape[-1]
    K, w = covariance(tasks, theta)
    L, failed = torch.linalg.cholesky_ex(K)
    failed = failed > 0
    if failed.any():
        L = torch.where(failed[:, None, None], torch.eye(K.shape[-1], dtype=K.dtype, device=K.device), L)
    inverse = torch.cholesky_inverse(L)
    F = tasks.basis * tasks.rows[:, :, None] * tasks.columns[:, None, :]
    H = inverse @ F
    A = F.mT @ H
    A.diagonal(dim1=1, dim2=2).add_(1.0 - tasks.columns)
    LA, failed_trend = torch.linalg.cholesky_ex(A)
    failed = failed | (failed_trend > 0)
    LA = torch.where(failed[:, None, None], torch.eye(A.shape[-1], dtype=A.dtype, device=A.device), LA)
    half = torch.linalg.solve_triangular(LA, H.mT, upper=False)
    P = inverse - half.mT @ half

    residual = (P @ tasks.y) * tasks.rows[:, :, None]
    Q = (tasks.y * residual).sum(1).clamp_min(0.0)
    freedom = (tasks.rows.sum(1) - tasks.columns.sum(1)).clamp_min(1.0)[:, None]
    known = tasks.noise > 0
    nugget = theta[:, -1].exp()
    s2 = torch.where(known, tasks.noise / nugget[:, None], Q / freedom).clamp_min(SMALLEST_VARIANCE)
    logdet = 2.0 * (L.diagonal(dim1=1, dim2=2).log().sum(1) + LA.diagonal(dim1=1, dim2=2).log().sum(1))
    count = tasks.y.shape[2]
    loss = 0.5 * (count * logdet + (freedom * s2.log() + torch.where(known, Q / s2, freedom)).sum(1))

    spread = P.diagonal(dim1=1, dim2=2).clamp_min(1e-300)[:, :, None]
    var = s2[:, None, :] / spread
    error2 = (residual / spread).square()
    each = math.log(2 * math.pi) + var.log() + error2 / var
    density = -0.5 * (tasks.rows[:, :, None] * each).sum((1, 2))

    penalty, penalty_slope = _prior(tasks, theta, s2)
    unmet = UNMET * count * _misses(tasks, residual, nugget)
    loss = torch.where(failed | ~torch.isfinite(loss), torch.inf, loss + penalty + unmet)
    density = torch.where(failed | ~torch.isfinite(density), -torch.inf, density - unmet)
    if not with_slope:
        return Fit(loss, torch.zeros_like(theta), s2, density)

    M = count * P - residual @ (residual / s2[:, None, :]).mT
    T = M * w
    centred = tasks.U - 0.5
    by_scale = (T.sum(2)[:, None, :] @ centred.square())[:, 0] - ((T @ centred) * centred).sum(1)
    slope = torch.empty_like(theta)
    slope[:, :d] = by_scale * inverse_scales(theta, tasks.active).square()
    by_nugget = 0.5 * nugget * (M.diagonal(dim1=1, dim2=2) * tasks.rows).sum(1)
    slope[:, -1] = by_nugget + torch.where(known, 0.5 * (Q / s2 - freedom), 0.0).sum(1)
    slope = slope + penalty_slope
    slope[:, -1] *= tasks.learns_nugget
    return Fit(loss, torch.where(failed[:, None], 0.0, slope), s2, density)


def _misses(tasks: Tasks, residual: Float64[Tensor, "B N c"], nugget: Float64[Tensor, "B"]) -> Bool[Tensor, "B"]:
    """Tell which tasks of an exact output would not give back what was told: y - mean = nugget K^-1 (y - F beta).

    With long length scales the process variance of an output that jumps or bends sharply is so large that even the
    smallest share of it is a noise, and the belief passes by what was measured.
    """
    is_exact = ~tasks.learns_nugget & (tasks.noise == 0).all(1) & (nugget < 10.0 * EXACT_NUGGET)
    return is_exact & ((nugget[:, None, None] * residual).abs() > MISSED).any(2).any(1)


def _prior(
    tasks: Tasks, theta: Float64[Tensor, "B q"], s2: Float64[Tensor, "B c"]
) -> tuple[Float64[Tensor, "B"], Float64[Tensor, "B q"]]:
    """Return minus the log prior of the hyperparameters and its gradient."""
    d = tasks.U.shape[-1]
    away = (theta[:, :d] - prior_mean(tasks.active)) * tasks.active
    value = away.square().sum(1) / (2 * PRIOR_VARIANCE)
    slope = torch.zeros_like(theta)
    slope[:, :d] = away / PRIOR_VARIANCE
    nugget_away = (theta[:, -1] - NUGGET_PRIOR[0]) / NUGGET_PRIOR[1]
    variance_away = (s2.log() - VARIANCE_PRIOR[0]) / VARIANCE_PRIOR[1]
    known = tasks.noise > 0
    learned = tasks.learns_nugget & ~known.any(1)
    value = value + torch.where(learned, 0.5 * nugget_away.square(), 0.0)
    value = value + torch.where(known, 0.5 * variance_away.square(), 0.0).sum(1)
    slope[:, -1] = torch.where(learned, nugget_away / NUGGET_PRIOR[1], 0.0)
    slope[:, -1] -= torch.where(known, variance_away / VARIANCE_PRIOR[1], 0.0).sum(1)
    return value * tasks.prior, slope * tasks.prior


LONGEST_STEP = 2.0  # in log length scales: a factor of seven at once
ENOUGH = 1e-3  # nats: a smaller predicted gain changes no decision


def optimize(tasks: Tasks, theta: Float64[Tensor, "B q"], iterations: int) -> tuple[Float64[Tensor, "B q"], Fit]:
    """Minimize the loss of every task from its start: projected BFGS, all tasks in step.

    Each task keeps its own inverse Hessian and step length; one batched evaluation serves all of them.
    """
    d = tasks.U.shape[-1]
    low = torch.full_like(theta, SHORTEST)
    high = torch.full_like(theta, LONGEST)
    low[:, -1], high[:, -1] = tasks.nugget[:, 0], tasks.nugget[:, 1]
    free = torch.cat([tasks.active, tasks.learns_nugget.to(theta.dtype)[:, None]], 1)
    theta = torch.where(free > 0, theta.clamp(low, high), theta)
    theta[:, -1] = theta[:, -1].clamp(low[:, -1], high[:, -1])
    fit = evaluate(tasks, theta)
    eye = torch.eye(d + 1, dtype=theta.dtype, device=theta.device)
    inverse_hessian = eye.expand(len(theta), d + 1, d + 1).clone()
    length = theta.new_ones(len(theta))
    live = torch.arange(len(theta), device=theta.device)
    own = tasks
    for _ in range(iterations):
        at, slope = theta[live], fit.slope[live]
        blocked = ((at <= low[live]) & (slope > 0)) | ((at >= high[live]) & (slope < 0)) | (free[live] == 0)
        slope = torch.where(blocked, 0.0, slope)
        step = -(inverse_hessian[live] @ slope[:, :, None])[:, :, 0]
        step = torch.where(blocked, 0.0, step)
        gain = -(step * slope).sum(1)
        uphill = gain <= 0
        step = torch.where(uphill[:, None], -slope, step)
        gain = torch.where(uphill, slope.square().sum(1), gain)
        going = (gain * length[live] > ENOUGH) & torch.isfinite(fit.loss[live])
        if not bool(going.any()):
            break
        if not bool(going.all()):
            live, at, slope, step = live[going], at[going], slope[going], step[going]
            own = tasks.at(live)
        step = step * (LONGEST_STEP / step.abs().amax(1, keepdim=True).clamp_min(LONGEST_STEP))
        trial = (at + length[live, None] * step).clamp(low[live], high[live])
        trial = torch.where(free[live] > 0, trial, at)
        new = evaluate(own, trial)
        moved = trial - at
        predicted = -(moved * slope).sum(1)
        accepted = (new.loss <= fit.loss[live] - 1e-4 * predicted.clamp_min(0.0)) & torch.isfinite(new.loss)
        inverse_hessian[live] = _bfgs(inverse_hessian[live], moved, new.slope - fit.slope[live], accepted)
        kept = live[accepted]
        theta[kept] = trial[accepted]
        for name in ("loss", "slope", "variance", "density"):
            getattr(fit, name)[kept] = getattr(new, name)[accepted]
        length[live] = torch.where(accepted, torch.ones_like(predicted), length[live] * 0.25)
    return theta, fit


def _bfgs(
    H: Float64[Tensor, "B q q"], s: Float64[Tensor, "B q"], y: Float64[Tensor, "B q"], accepted: Bool[Tensor, "B"]
) -> Float64[Tensor, "B q q"]:
    """Update inverse Hessians where the step was taken and the curvature is positive."""
    sy = (s * y).sum(1)
    Hy = (H @ y[:, :, None])[:, :, 0]
    usable = accepted & (sy > 1e-10 * s.norm(dim=1) * y.norm(dim=1)) & (sy > 0)
    rho = torch.where(usable, 1.0 / sy.clamp_min(1e-300), 0.0)
    outer = s[:, :, None] * s[:, None, :]
    mixed = s[:, :, None] * Hy[:, None, :]
    new = H + (rho + rho.square() * (y * Hy).sum(1))[:, None, None] * outer - rho[:, None, None] * (mixed + mixed.mT)
    return torch.where(usable[:, None, None], new, H)
