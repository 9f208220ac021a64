"""Noise that differs between points: it grows or falls with the output, or along inputs.

The logarithm of the noise variance is linear in the output's mean and in its inputs. How steep it is, is learned from
how far each told value lies from what the others predict, under a distribution with heavy tails, so that one gross
error does not count as a noisy region. Repetitions count, but places are needed to tell where noise is large.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy import ndarray
from scipy.optimize import OptimizeResult, minimize

from pied.gp import likelihood
from pied.gp.choices import Choice, thetas
from pied.gp.observations import Observations
from pied.gp.outliers import LEAST_FREEDOM, projected
from pied.gp.regressions import regressions
from pied.shapes import Bool, Float64, Int

TAIL = 8.0
"""Degrees of freedom of the distribution of errors, so that a gross error counts for little."""
PRIOR = 0.5
"""Standard deviation of a slope a priori: of the log variance, for a deviation of the output or of an input."""
CLEAR, HYSTERESIS = 1.5, 1.0
"""Nats of log density that slopes must gain, and how much less while they are in use. Chance rarely gains as much; with
a smaller prior and no such limit noise that is the same everywhere was taken for one that differs a little."""
INPUT_UNIT = 0.29
"""Standard deviation of an input over the unit cube."""
MOST = float(np.log(1e3))
"""Of the logarithm of the noise variance, to either side."""
SPREAD = 2.5
"""Deviations of the output over which its noise may change; beyond, it stays as it is there."""
SMALLEST = 1e-300
"""A variance that is not zero."""
STEPS = 60
"""Iterations of a fit."""


class Told(NamedTuple):
    """What the told values of one output say about its noise, standardized."""

    rows: Int[ndarray, "n"]
    away: Float64[ndarray, "n"]
    """How far each value lies from what the others predict."""
    open: Float64[ndarray, "n"]
    """Variance of what they predict, without the noise of the value itself."""
    noise: float
    """Variance of the noise where it is as usual."""
    features: Float64[ndarray, "n q"]
    """What the noise may depend on."""
    freedom: int
    """Places beyond the trend and the hyperparameters: repetitions do not tell how noise changes with the place."""


def features(mean: Float64[ndarray, "b"], U: Float64[ndarray, "b d"]) -> Float64[ndarray, "b q"]:
    """Return what the noise may depend on: the standardized output, and the inputs."""
    return np.concatenate([np.clip(mean, -SPREAD, SPREAD)[:, None], (U - 0.5) / INPUT_UNIT], 1)


def factors(Z: Float64[ndarray, "b q"], slopes: Float64[ndarray, "q"], offset: float) -> Float64[ndarray, "b"]:
    """Return by how much the noise variance is larger than usual."""
    return np.exp(np.clip(Z @ slopes - offset, -MOST, MOST))


def learned(data: Observations, choices: Sequence[Choice], previous: Sequence[Choice | None]) -> list[Choice]:
    """Return the choices with what was learned about how their noise differs between points."""
    found = list(choices)
    for j, (choice, old) in enumerate(zip(choices, previous, strict=True)):
        were_clear = old is not None and bool(old.uneven)
        slopes = _slopes(_told(data, j, choice), data.active[j], were_clear) if data.may_differ(j) else ()
        found[j] = replace(choice, uneven=slopes)
    return found


def scatter(
    data: Observations, choices: Sequence[Choice]
) -> tuple[Float64[ndarray, "m N"] | None, Float64[ndarray, "m"]]:
    """Return by how much the noise variance of told values is larger than usual, and the usual log variance.

    None where the noise of all outputs is the same everywhere. Choices may be those of older data and settings.
    """
    found, offsets = np.ones_like(data.rows, dtype=np.float64), np.zeros(len(choices))
    for j, choice in enumerate(choices):
        if choice.uneven and data.may_differ(j) and choice.warp in data.scales[j]:
            seen, slopes = _told(data, j, choice), np.array(choice.uneven)
            offsets[j] = float((seen.features @ slopes).mean())
            found[j, seen.rows] = factors(seen.features, slopes, offsets[j])
    return found if (found != 1.0).any() else None, offsets


def _told(data: Observations, j: int, choice: Choice) -> Told:
    """Return what the told values of an output say about its noise."""
    tasks, _ = regressions(data, [choice.candidate((j,))])
    rows = np.flatnonzero(data.rows[j])
    K = likelihood.covariance(tasks, thetas([choice]), slopes=False)[0][0][np.ix_(rows, rows)]
    F = ((tasks.basis if tasks.basis.ndim == 2 else tasks.basis[0]) * tasks.columns[0])[rows][:, tasks.columns[0] > 0]
    y, nugget = tasks.y[0, rows, 0], float(np.exp(choice.theta[-1]))
    own = nugget * tasks.noisy_rows[0, rows]
    P = projected(K, F)
    precision, e = np.maximum(np.diagonal(P), SMALLEST), P @ y
    freedom = len(rows) - F.shape[1]
    variance = max(float(y @ e) / max(freedom, 1), likelihood.SMALLEST_VARIANCE)
    mean = data.scales[j][choice.warp].forward(data.values(j)) - own * e
    return Told(
        rows=rows,
        away=e / precision,
        open=np.maximum(variance * (1.0 / precision - own), 0.0),
        noise=variance * nugget,
        features=features(mean, data.U[rows]),
        freedom=len(np.unique(data.U[rows], axis=0)) - F.shape[1] - int(data.active[j].sum()) - 1,
    )


def _slopes(seen: Told, active: Bool[ndarray, "d"], were_clear: bool) -> tuple[float, ...]:
    """Return the likeliest slopes of the log variance of the noise; empty where none are clear."""
    if seen.freedom < LEAST_FREEDOM or not seen.noise > 0:
        return ()
    columns = np.flatnonzero(np.concatenate([[True], active]))
    same, differing = _fitted(seen, columns[:0]), _fitted(seen, columns)
    if not same.fun - differing.fun > CLEAR - HYSTERESIS * were_clear:
        return ()
    slopes = np.zeros(seen.features.shape[1])
    slopes[columns] = differing.x[1:]
    return tuple(slopes.tolist())


def _fitted(seen: Told, columns: Int[ndarray, "c"]) -> OptimizeResult:
    """Fit the usual noise and the slopes of some features."""
    start = np.zeros(1 + len(columns))
    return minimize(partial(_loss, seen, columns), start, jac=True, method="L-BFGS-B", options={"maxiter": STEPS})


def _loss(seen: Told, columns: Int[ndarray, "c"], b: Float64[ndarray, "c1"]) -> tuple[float, Float64[ndarray, "c1"]]:
    """Return minus the log density of the errors and of the slopes, and its gradient.

    Args:
        seen: The errors.
        columns: Features on which the noise depends.
        b: Logarithm of the usual noise variance, relative to what is known of it, then one slope for each feature.
    """
    X = seen.features[:, columns]
    noise = seen.noise * np.exp(np.clip(b[0] + X @ b[1:], -2.0 * MOST, 2.0 * MOST))
    scale = np.maximum(seen.open + noise, SMALLEST)
    ratio = seen.away**2 / (TAIL * scale)
    value = 0.5 * np.log(scale) + 0.5 * (TAIL + 1.0) * np.log1p(ratio)
    by_log = 0.5 * (1.0 - (TAIL + 1.0) * ratio / (1.0 + ratio)) * noise / scale
    slope = np.concatenate([[by_log.sum()], X.T @ by_log + b[1:] / PRIOR**2])
    return float(value.sum() + 0.5 * (b[1:] @ b[1:]) / PRIOR**2), slope
