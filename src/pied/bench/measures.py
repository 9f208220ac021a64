"""Measures of performance: pure functions on arrays.

Everything is in the paper's form: the objective is maximized, constraints are met when >= 0. Functions f have the
objective first on their last axis; curves have evaluations on their last axis, the first one in place 0.
"""

import numpy as np
from numpy import ndarray

from pied.shapes import Bool, Float64, Int64

PENALTY = 1e5
"""rho of the penalized value (paper, table 3)."""


def penalized(f: Float64[ndarray, "*b k"], penalty: float = PENALTY) -> Float64[ndarray, "*b"]:
    """Return the exact penalty F = f_0 - rho * sum_i max(-f_i, 0), equation (40); minus infinity where f is NaN."""
    value = f[..., 0] - penalty * violation(f).sum(-1)
    return np.where(np.isnan(value), -np.inf, value)


def violation(f: Float64[ndarray, "*b k"]) -> Float64[ndarray, "*b n"]:
    """Return the violation v_i = max(-f_i, 0) of each constraint."""
    return np.maximum(-f[..., 1:], 0.0)


def regret(f: Float64[ndarray, "*b k"], best: float) -> Float64[ndarray, "*b"]:
    """Return the instantaneous regret r = f* - f_0; negative if an infeasible point is better than the optimum."""
    return best - f[..., 0]


def positive_regret(f: Float64[ndarray, "*b k"], best: float) -> Float64[ndarray, "*b"]:
    """Return the positive instantaneous regret r+ = max(f* - f_0, 0)."""
    return np.maximum(regret(f, best), 0.0)


def cumulative(values: Float64[ndarray, "*b t"]) -> Float64[ndarray, "*b t"]:
    """Return the sum over the evaluations so far, of regret, positive regret or violation."""
    return np.cumsum(values, axis=-1)


def simple_regret(values: Float64[ndarray, "*b t"], best: float) -> Float64[ndarray, "*b t"]:
    """Return the simple regret: the smallest f* - value so far, of objectives or penalized values."""
    return best - running_best(values)


def running_best(values: Float64[ndarray, "*b t"]) -> Float64[ndarray, "*b t"]:
    """Return the largest value so far; NaN counts as minus infinity."""
    return np.maximum.accumulate(np.where(np.isnan(values), -np.inf, values), axis=-1)


def running_argmax(scores: Float64[ndarray, "t"]) -> Int64[ndarray, "t"]:
    """Return the position of the largest score so far, the earliest of equal ones."""
    best = running_best(scores)
    is_new = np.concatenate([[True], best[1:] > best[:-1]]) if len(best) else np.zeros(0, dtype=bool)
    return np.maximum.accumulate(np.where(is_new, np.arange(len(best)), 0)).astype(np.int64)


def best_feasible(values: Float64[ndarray, "*b t"], is_feasible: Bool[ndarray, "*b t"]) -> Float64[ndarray, "*b t"]:
    """Return the best strictly feasible value so far; minus infinity while there is none."""
    return running_best(np.where(is_feasible, values, -np.inf))


def carried(curve: Float64[ndarray, "t"], length: int, empty: float = -np.inf) -> Float64[ndarray, "T"]:
    """Return a curve of another length: cut, or with its last value carried forward; `empty` if it has no values."""
    if not len(curve):
        return np.full(length, empty)
    return curve[np.minimum(np.arange(length), len(curve) - 1)]


def until(curve: Float64[ndarray, "*b t"], tolerance: float) -> Float64[ndarray, "*b"]:
    """Return the evaluations until a curve is at most the tolerance; infinite if it never is."""
    reached = curve <= tolerance
    first = np.argmax(reached, axis=-1) + 1.0
    return np.where(reached.any(axis=-1), first, np.inf)


def order_statistic(values: Float64[ndarray, "s *b"], q: float) -> Float64[ndarray, "*b"]:
    """Return a quantile over the first axis without interpolation: the larger of two neighbours, so infinity shows."""
    place = int(np.ceil(q * (len(values) - 1) - 1e-9))
    return np.sort(values, axis=0)[place : place + 1].reshape(values.shape[1:])


def quartiles(
    values: Float64[ndarray, "s *b"],
) -> tuple[Float64[ndarray, "*b"], Float64[ndarray, "*b"], Float64[ndarray, "*b"]]:
    """Return lower quartile, median and upper quartile over the first axis, as order statistics."""
    return order_statistic(values, 0.25), order_statistic(values, 0.5), order_statistic(values, 0.75)
