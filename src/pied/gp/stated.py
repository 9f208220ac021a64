"""Told values with errors of their own: their noise is known, and that of the others is learned beside it."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy import ndarray

from pied.gp import descent
from pied.gp.choices import Candidate
from pied.gp.observations import Observations, far_apart, scales_of
from pied.gp.regressions import regressions
from pied.shapes import Bool, Float64

QUIETEST, LOUDEST = 2e-5, 10.0  # of the deviation of the data: less counts as exact, with more nothing is learned
MOST_SCATTER = 1e12  # variance of one value, in usual ones
LEVELS = np.geomspace(1e-3, 1.0, 9)  # of the deviation of the data: noises of the other values that are tried
LENGTHS = (0.3, 1.0)  # isotropic length scales tried with each, in units of sqrt(inputs)
STEPS = 15  # BFGS iterations of each
MOST_ROWS = 64  # from which the noise of the others is learned, far from each other
PRIOR_DEVIATION = 2.0  # of the log variance of the others: they were probably measured in the same way


def with_errors(
    data: Observations, errors: Float64[ndarray, "N m"], known: Sequence[float | None] | None = None
) -> Observations:
    """Return the data of values some of which have errors of their own, as standard deviations, NaN where none.

    The noise of their outputs then counts as known: usually it is that of the values without an error, learned here, or
    the median error if there are none of these. Each error is taken in units of it.

    Args:
        data: What was told.
        errors: Standard deviation of each value, natural units.
        known: The noise of each output that was found so before; None or 0 where it is not known.
    """
    noise, scales = list(data.noise), list(data.scales)
    for j, stated in enumerate(data.rows & np.isfinite(errors.T)):
        if not stated.any() or data.noise[j] == 0:
            continue
        scales[j] = scales_of(data.values(j), ("none",))
        unit = scales[j]["none"].deviation
        usual = data.noise[j] or (known[j] if known is not None else None)
        if not usual:
            usual = float(np.median(errors[stated, j]))
            if not stated[data.rows[j]].all():
                part = replace(data, noise=tuple(noise), scales=tuple(scales)).of_outputs([j])
                usual = _learned(part, errors[:, j], stated, usual)
        noise[j] = min(max(usual, QUIETEST * unit), LOUDEST * unit)
    return scattered(replace(data, noise=tuple(noise), scales=tuple(scales)), errors)


def scattered(data: Observations, errors: Float64[ndarray, "N m"]) -> Observations:
    """Return the data with the errors of values in units of the known noise of their outputs."""
    scatter = np.ones(data.rows.shape)
    for j, stated in enumerate(data.rows & np.isfinite(errors.T)):
        if noise := data.noise[j]:
            scatter[j, stated] = np.minimum(errors[stated, j] / noise, math.sqrt(MOST_SCATTER)) ** 2
    return replace(data, scatter=scatter)


def _learned(data: Observations, errors: Float64[ndarray, "N"], stated: Bool[ndarray, "N"], usual: float) -> float:
    """Return the most plausible noise of the values without an error of their own, of the only output."""
    unit = data.scales[0]["none"].deviation
    rows = np.flatnonzero(data.rows[0])
    if len(rows) > MOST_ROWS:
        rows = rows[far_apart(data.U[rows], MOST_ROWS)]
    part = replace(data.at(rows), noise=(unit,))
    one, _ = regressions(part, [Candidate((0,), next(iter(data.model.kernels)), data.model.trends[0], "none", "plain")])
    root = math.sqrt(max(1, int(data.active[0].sum())))
    starts = [(level, length) for level in LEVELS for length in LENGTHS]
    levels = np.array([level for level, _ in starts])
    own = np.where(stated, errors / unit, np.nan)[rows]
    tasks = replace(
        one.at(np.zeros(len(starts), dtype=int)),
        noise=levels[:, None] ** 2,
        scatter=np.where(np.isnan(own), 1.0, np.minimum((own / levels[:, None]) ** 2, MOST_SCATTER)),
    )
    d = part.U.shape[1]
    theta = np.array([[math.log(length * root)] * d + [2.0 * math.log(level)] for level, length in starts])
    theta[:, -1] = np.clip(theta[:, -1], tasks.nugget[:, 0], tasks.nugget[:, 1])
    _, fit = descent.optimize(tasks, theta, STEPS)
    away = 2.0 * np.log(levels * unit / usual) / PRIOR_DEVIATION
    loss = (fit.loss + 0.5 * away**2).reshape(len(LEVELS), -1).min(1)
    return float(unit * np.exp(_lowest(np.log(LEVELS), np.where(np.isfinite(loss), loss, np.inf))))


def _lowest(x: Float64[ndarray, "n"], y: Float64[ndarray, "n"]) -> float:
    """Return where a parabola through the smallest of evenly spaced values and its neighbours is lowest."""
    i = int(y.argmin())
    if i in (0, len(x) - 1) or not np.isfinite(y[i - 1 : i + 2]).all():
        return float(x[i])
    bend = y[i - 1] - 2.0 * y[i] + y[i + 1]
    step = 0.5 * (y[i - 1] - y[i + 1]) / bend if bend > 0 else 0.0
    return float(x[i] + step * (x[1] - x[0]))
