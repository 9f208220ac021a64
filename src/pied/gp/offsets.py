"""Blocks: what was measured on one day, by one operator or from one batch is off together.

Each output has an offset in each block, a priori normal and exchangeable, and the offsets of all blocks add up to zero:
the belief itself is about the average of these blocks. The variance of the offsets is a share of the process variance.
The share is learned: with every one of a short list length scales and noise are fitted, and the shares are averaged by
how well they explain the values, on the scale of deviations.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy import ndarray

from pied.gp import descent
from pied.gp.choices import Candidate, ModelChoice
from pied.gp.kriging import Kriging
from pied.gp.likelihood import Tasks
from pied.gp.observations import Observations, far_apart
from pied.gp.regressions import regressions
from pied.shapes import Float64

SHARES = np.array([0.0, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0])  # of the process variance: variances of offsets that are tried
LENGTHS = (0.3, 1.0)  # isotropic length scales tried with each, in units of sqrt(inputs)
NUGGET = 0.01  # at the start, where noise is learned
STEPS = 15  # BFGS iterations of each
MOST_ROWS = 96  # from which the share is learned, far from each other


def membership(blocks: Sequence[str]) -> tuple[tuple[str, ...], Float64[ndarray, "N q"]]:
    """Return the names of blocks, and how much of each one's offset, before they add up to zero, values have."""
    names = tuple(sorted({each for each in blocks if each}))
    average = 1.0 / max(len(names), 1)
    rows = [[(each == name) - average if each else 0.0 for name in names] for each in blocks]
    return names, np.array(rows).reshape(len(rows), len(names))


def with_blocks(
    data: Observations, together: Float64[ndarray, "N q"], choices: Sequence[ModelChoice | None] | None = None
) -> Observations:
    """Return the data with blocks.

    Args:
        data: What was told.
        together: Which point belongs to which block.
        choices: What was chosen; with `shares` known they count, else only their warps.
    """
    data = _joined(data, together)
    shares = [_learned(data, j, None if choices is None else choices[j]) for j in range(len(data.rows))]
    return replace(data, shares=tuple(shares))


def known(data: Observations, together: Float64[ndarray, "N q"], choices: Sequence[ModelChoice]) -> Observations:
    """Return the data with blocks whose shares were learned before."""
    return replace(_joined(data, together), shares=tuple(each.share for each in choices))


def _joined(data: Observations, together: Float64[ndarray, "N q"]) -> Observations:
    """Return the data with blocks before its campaigns."""
    own = together if data.together is None else np.concatenate([together, data.together], 1)
    return replace(data, together=own, shares=(0.0,) * len(data.rows))


def _learned(data: Observations, j: int, old: ModelChoice | None) -> float:
    """Return the share of one output; 0 where there are not two blocks, one of them with several values."""
    rows = np.flatnonzero(data.rows[j])
    if data.together is None or len(rows) <= int(data.active[j].sum()) + 2:
        return 0.0
    campaigns = 0 if data.coding is None else data.coding.campaigns
    counts = (data.together[rows, : data.together.shape[1] - campaigns] > 0).sum(0)
    if (counts > 0).sum() < 2 or counts.max() < 2:
        return 0.0
    if len(rows) > MOST_ROWS:
        rows = rows[far_apart(data.U[rows], MOST_ROWS)]
    part = data.of_outputs([j]).at(rows)
    own = part.scales[0]
    warp = old.warp if old is not None and old.warp in own else "none" if "none" in own else next(iter(own))
    one, _ = regressions(part, [Candidate((0,), data.model.kernels[0], data.model.trends[0], warp, "plain")])
    starts = [(share, length) for share in SHARES for length in LENGTHS]
    shares = np.stack([replace(part, shares=(share,)).offset_shares(0) for share, _ in starts])
    tasks = replace(one.at(np.zeros(len(starts), dtype=int)), share=shares)
    root, d = np.sqrt(max(1, int(part.active[0].sum()))), part.U.shape[1]
    theta = np.array([[np.log(length * root)] * d + [np.log(NUGGET)] for _, length in starts])
    theta[:, -1] = np.clip(theta[:, -1], tasks.nugget[:, 0], tasks.nugget[:, 1])
    _, fit = descent.optimize(tasks, theta, STEPS)
    loss = fit.loss.reshape(len(SHARES), -1).min(1)
    if not np.isfinite(loss).any():
        return 0.0
    weights = np.exp(loss.min() - np.where(np.isfinite(loss), loss, np.inf))
    return float((weights @ np.sqrt(SHARES) / weights.sum()) ** 2)


def of_task(tasks: Tasks, theta: Float64[ndarray, "1 q"], variance: float, blocks: int) -> tuple[ndarray, ndarray]:
    """Return mean and deviation of the offsets of one output, standardized, given all of its values.

    With T what values have of them, s their shares and P as in `likelihood`, mean = s T' P y and covariance = v (s C -
    s T' P T s); C takes the average of blocks away.
    """
    together = np.zeros((tasks.y.shape[1], 0)) if tasks.together is None else tasks.together
    share = np.zeros(together.shape[1]) if tasks.share is None else tasks.share[0]
    kept = tasks.rows[0] > 0
    found = Kriging.of(tasks, theta, kept) if share.any() else None
    if found is None:
        return np.zeros(len(share)), np.zeros(len(share))
    A = found.root @ together[kept]
    apart = found.trend.T @ A
    own = 1.0 - (np.arange(len(share)) < blocks) / max(blocks, 1)
    left = share * own - share**2 * ((A**2).sum(0) - ((found.inverse @ apart) * apart).sum(0))
    return share * (A.T @ found.rest), np.sqrt(np.maximum(variance * left, 0.0))
