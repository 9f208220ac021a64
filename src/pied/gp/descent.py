"""The fit of hyperparameters: projected BFGS on many losses at once."""

import numpy as np
from numpy import ndarray

from pied.gp.likelihood import LONGEST, SHORTEST, Fit, Tasks, evaluate
from pied.shapes import Bool, Float64

LONGEST_STEP = 2.0  # in log length scales: a factor of seven at once
STOP_BELOW_GAIN = 1e-3  # nats predicted for the next step: less changes no decision
SUFFICIENT_DECREASE = 1e-4  # share of the predicted gain that a step must bring
SHRINKING = 0.25  # of the step length, after a step that was not taken


@np.errstate(all="ignore")
def optimize(tasks: Tasks, theta: Float64[ndarray, "B q"], iterations: int) -> tuple[Float64[ndarray, "B q"], Fit]:
    """Minimize the loss of every task from its start, within the ranges: projected BFGS, all of them in step.

    Each keeps its own inverse Hessian and step length; one batched evaluation serves all of them. What is not free
    stays, except for nuggets out of their ranges.
    """
    free = np.concatenate([tasks.active > 0, tasks.learns_nugget[:, None]], 1)
    low, high = (np.full(free.shape, each) for each in (SHORTEST, LONGEST))
    if tasks.longest is not None:
        high[:, :-1] = np.log(tasks.longest).clip(SHORTEST, LONGEST)
    low[:, -1], high[:, -1] = tasks.nugget.T
    theta = np.where(free, np.clip(theta, low, high), theta)
    theta[:, -1] = np.clip(theta[:, -1], low[:, -1], high[:, -1])
    fit = evaluate(tasks, theta)
    inverse_hessian = np.tile(np.eye(theta.shape[1]), (len(theta), 1, 1))
    length = np.ones(len(theta))
    live, own = np.arange(len(theta)), tasks
    for _ in range(iterations):
        at, slope = theta[live], fit.slope[live]
        blocked = ((at <= low[live]) & (slope > 0)) | ((at >= high[live]) & (slope < 0)) | ~free[live]
        slope = np.where(blocked, 0.0, slope)
        step = np.where(blocked, 0.0, -(inverse_hessian[live] @ slope[:, :, None])[:, :, 0])
        gain = -(step * slope).sum(1)
        uphill = gain <= 0
        step = np.where(uphill[:, None], -slope, step)
        gain = np.where(uphill, (slope**2).sum(1), gain)
        going = (gain * length[live] > STOP_BELOW_GAIN) & np.isfinite(fit.loss[live])
        if not going.any():
            break
        if not going.all():
            live, at, slope, step = live[going], at[going], slope[going], step[going]
            own = tasks.at(live)
        step = step * (LONGEST_STEP / np.maximum(np.abs(step).max(1, keepdims=True), LONGEST_STEP))
        trial = np.clip(at + length[live, None] * step, low[live], high[live])
        trial = np.where(free[live], trial, at)
        new = evaluate(own, trial)
        moved = trial - at
        predicted = -(moved * slope).sum(1)
        accepted = (new.loss <= fit.loss[live] - SUFFICIENT_DECREASE * np.maximum(predicted, 0.0)) & np.isfinite(
            new.loss
        )
        inverse_hessian[live] = _bfgs(inverse_hessian[live], moved, new.slope - fit.slope[live], accepted)
        kept = live[accepted]
        theta[kept] = trial[accepted]
        for name in ("loss", "slope", "variance", "density"):
            getattr(fit, name)[kept] = getattr(new, name)[accepted]
        length[live] = np.where(accepted, 1.0, length[live] * SHRINKING)
    return theta, fit


def _bfgs(
    H: Float64[ndarray, "B q q"], s: Float64[ndarray, "B q"], y: Float64[ndarray, "B q"], accepted: Bool[ndarray, "B"]
) -> Float64[ndarray, "B q q"]:
    """Update inverse Hessians where the step was taken and the curvature is positive."""
    sy = (s * y).sum(1)
    Hy = (H @ y[:, :, None])[:, :, 0]
    sizes = np.linalg.norm(s, axis=1) * np.linalg.norm(y, axis=1)
    usable = accepted & (sy > 1e-10 * sizes) & (sy > 0)
    rho = np.where(usable, 1.0 / np.maximum(sy, 1e-300), 0.0)
    outer = s[:, :, None] * s[:, None, :]
    mixed = s[:, :, None] * Hy[:, None, :]
    growth = (rho + rho**2 * (y * Hy).sum(1))[:, None, None]
    new = H + growth * outer - rho[:, None, None] * (mixed + mixed.swapaxes(1, 2))
    return np.where(usable[:, None, None], new, H)
