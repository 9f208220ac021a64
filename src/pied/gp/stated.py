"""Told values with errors of their own: their noise is known, and that of the others is learned beside it."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy import ndarray

from pied.gp import descent
from pied.gp.choices import Candidate, ModelChoice
from pied.gp.observations import Observations, far_apart
from pied.gp.regressions import regressions
from pied.gp.warps import Standardized
from pied.shapes import Float64

QUIETEST, LOUDEST = 2e-5, 10.0  # of the deviation of the data: less counts as exact, with more nothing is learned
MOST_SCATTER = 1e12  # variance of one value, in usual ones
LEVELS = np.geomspace(1e-3, 1.0, 9)  # of the deviation of the data: noises of the other values that are tried
LENGTHS = (0.3, 1.0)  # isotropic length scales tried with each, in units of sqrt(inputs)
STEPS = 15  # BFGS iterations of each
MOST_ROWS = 64  # from which the noise of the others is learned, far from each other
PRIOR_DEVIATION = 2.0  # of the log variance of the others: they were probably measured in the same way


def with_errors(
    data: Observations, errors: Float64[ndarray, "N m"], choices: Sequence[ModelChoice] | None = None
) -> Observations:
    """Return the data of values some of which have errors of their own, as standard deviations, NaN where none.

    On each scale that their output could be modelled on, errors are those of small differences, and its noise counts as
    known: usually it is that of the values without an error, learned here, or the median error if there are none of
    these. Each error is taken in units of it.

    Args:
        data: What was told.
        errors: Standard deviation of each value, natural units.
        choices: What was chosen, with the usual noise that was found then; None: nothing was.
    """
    scales = list(data.scales)
    for j, stated in enumerate(data.rows & np.isfinite(errors.T)):
        if not stated.any() or data.noise[j] == 0:
            continue
        made = {}
        for name, scale in data.scales[j].items():
            own = np.where(stated, errors[:, j], np.nan)
            own[stated] = own[stated] * scale.warp.steepness(data.Y[stated, j])
            usual = data.noise[j] or (choices[j].noise if choices is not None and choices[j].warp == name else 0.0)
            if not usual:
                usual = float(np.median(own[stated]))
                if choices is None and not stated[data.rows[j]].all():
                    usual = _learned(data.of_outputs([j]), name, own, usual)
            usual = min(max(usual, QUIETEST * scale.deviation), LOUDEST * scale.deviation)
            made[name] = _with(scale, own, usual)
        scales[j] = made
    return replace(data, scales=tuple(scales))


def scattered(data: Observations, errors: Float64[ndarray, "N m"]) -> Observations:
    """Return the data with the errors of values in units of the known noise of their outputs, which have no warp."""
    pairs = zip(data.scales, data.noise, errors.T, strict=True)
    scales = tuple({"none": _with(own["none"], each, noise)} if noise else own for own, noise, each in pairs)
    return replace(data, scales=scales)


def _with(scale: Standardized, own: Float64[ndarray, "N"], usual: float) -> Standardized:
    """Return a scale with the errors of values on it, NaN for those that have the usual one."""
    scatter = np.where(np.isfinite(own), np.minimum(own / usual, math.sqrt(MOST_SCATTER)) ** 2, 1.0)
    return scale._replace(noise=usual, scatter=scatter)


def _learned(data: Observations, warp: str, own: Float64[ndarray, "N"], usual: float) -> float:
    """Return the most plausible noise of the values without an error of their own, of the only output on a scale."""
    unit = data.scales[0][warp].deviation
    rows = np.flatnonzero(data.rows[0])
    if len(rows) > MOST_ROWS:
        rows = rows[far_apart(data.U[rows], MOST_ROWS)]
    part = data.at(rows)
    part = replace(part, scales=({warp: part.scales[0][warp]._replace(noise=unit)},))
    one, _ = regressions(part, [Candidate((0,), next(iter(data.model.kernels)), data.model.trends[0], warp, "plain")])
    root = math.sqrt(max(1, int(data.active[0].sum())))
    starts = [(level, length) for level in LEVELS for length in LENGTHS]
    levels = np.array([level for level, _ in starts])
    relative = (own / unit)[rows] / levels[:, None]
    tasks = replace(
        one.at(np.zeros(len(starts), dtype=int)),
        noise=levels[:, None] ** 2,
        scatter=np.where(np.isfinite(relative), np.minimum(relative, math.sqrt(MOST_SCATTER)) ** 2, 1.0),
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
