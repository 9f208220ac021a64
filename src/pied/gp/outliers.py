"""Measurements of noisy outputs that do not fit: gross errors, found by what all others predict for them.

Each told value is predicted from the others at the chosen models. One that lies farther away than chance explains gets
a noise of its own, as large as its error, so that it hardly counts until a repetition confirms it: two measurements at
the same settings predict each other.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy import ndarray
from scipy.special import stdtrit

from pied.gp import likelihood
from pied.gp.choices import Choice, thetas
from pied.gp.likelihood import Tasks
from pied.gp.observations import Observations
from pied.gp.regressions import regressions
from pied.shapes import Float64

FALSE_ALARM = 1e-4
"""Probability that any value of an output without gross errors is found, per belief, where the models are right."""
LEAST_FREEDOM = 8
"""Rows beyond the trend and the hyperparameters: with fewer, every model fits and every value may be an outlier."""
MOST_SHARE = 0.15
"""Share of the values of an output, at most: if more do not fit, the model is wrong and not they."""


def scatter(data: Observations, choices: Sequence[Choice]) -> Float64[ndarray, "m N"] | None:
    """Return by how much the noise variance of each told value is larger than the data say; None if all values fit."""
    found = np.ones_like(data.rows, dtype=np.float64)
    for j, choice in enumerate(choices):
        if data.noise_kind(j) == "exact" or choice.warp not in data.scales[j]:
            continue
        tasks, _ = regressions(data, [choice.candidate((j,))])
        if (tasks.noise == 0).all() and not bool(tasks.learns_nugget[0]):  # known, and so small that it is none
            continue
        found[j] = _of_one(tasks, thetas([choice]), int(data.active[j].sum()))
    return found if (found != 1.0).any() else None


def _of_one(task: Tasks, theta: Float64[ndarray, "1 q"], inputs: int) -> Float64[ndarray, "N"]:
    """Find the values of one output that do not fit, one after the other, the worst first."""
    told = np.flatnonzero(task.rows[0])
    factor, n = np.ones(task.rows.shape[1]), len(told)
    usual = factor if task.scatter is None else task.scatter[0]
    freedom = n - int(task.columns.sum()) - inputs - 1
    if freedom < LEAST_FREEDOM:
        return factor
    F = ((task.basis if task.basis.ndim == 2 else task.basis[0]) * task.columns[0])[told][:, task.columns[0] > 0]
    y, nugget = task.y[0, told, 0], float(np.exp(theta[0, -1]))
    limit = -float(stdtrit(freedom, 0.5 * FALSE_ALARM / n))
    for count in range(int(MOST_SHARE * n) + 2):
        K = likelihood.covariance(replace(task, scatter=(usual * factor)[None]), theta, slopes=False)[0][0][
            np.ix_(told, told)
        ]
        away, variance = left_out(K, F, y, float(task.noise[0, 0]) / nugget)
        score = np.where(factor[told] == 1.0, np.abs(away) / np.sqrt(variance), 0.0)
        worst = int(np.nan_to_num(score, nan=0.0).argmax())
        if not score[worst] > limit:
            return factor
        if count > MOST_SHARE * n:
            break
        size = float(task.noise[0, 0]) or nugget * float(variance[worst] * _precision(K, F)[worst])
        factor[told[worst]] = 1.0 + away[worst] ** 2 / (size * usual[told[worst]])
    return np.ones_like(factor)


def projected(K: Float64[ndarray, "n n"], F: Float64[ndarray, "n p"]) -> Float64[ndarray, "n n"]:
    """Return P = K^-1 - K^-1 F (F' K^-1 F)^-1 F' K^-1."""
    P = np.linalg.inv(K)
    half = P @ F
    return P - half @ np.linalg.pinv(F.T @ half) @ half.T


def _precision(K: Float64[ndarray, "n n"], F: Float64[ndarray, "n p"]) -> Float64[ndarray, "n"]:
    """Return the diagonal of P."""
    return np.diagonal(projected(K, F))


def left_out(
    K: Float64[ndarray, "n n"], F: Float64[ndarray, "n p"], y: Float64[ndarray, "n"], known: float
) -> tuple[Float64[ndarray, "n"], Float64[ndarray, "n"]]:
    """Return how far each value lies from what the others predict, and the variance that they give it.

    The process variance is that without the value itself, which would otherwise hide behind its own error.
    """
    P = projected(K, F)
    own = np.diagonal(P)
    e = P @ y
    rest = max(len(y) - F.shape[1] - 1, 1)
    s2 = np.full(len(y), known) if known else np.maximum(y @ e - e**2 / own, 0.0) / rest
    return e / own, np.maximum(s2, likelihood.SMALLEST_VARIANCE) / own
