"""Performance and data profiles: pure functions on arrays of solvers, problems, seeds and evaluations."""

import numpy as np
from numpy import ndarray

from pied.bench.measures import order_statistic, until
from pied.shapes import Float64


def paper_times(
    values: Float64[ndarray, "w p s t"], starts: Float64[ndarray, "p s"], tolerance: float
) -> Float64[ndarray, "w p"]:
    """Return the evaluations until each problem is solved by the paper's test, equation (41); infinite if never.

    F_w - F(x0) >= (1 - tau)(F_U - F(x0)), with F_w the median over seeds of the penalized value recommended so far,
    F(x0) that of the first initial point, F_U the largest median that any of these solvers attains at any time. If the
    first point violates constraints, its penalty dominates F_U - F(x0), and the test is easily passed.
    """
    medians = np.median(values, axis=2)
    start = np.median(starts, axis=1)
    best = medians.max(axis=(0, 2))
    target = start + (1.0 - tolerance) * (best - start)
    return _first(medians >= target[None, :, None])


def strict_times(regrets: Float64[ndarray, "w p s t"], tolerance: float) -> Float64[ndarray, "w p"]:
    """Return the evaluations until the median regret over seeds is at most the tolerance.

    With the normalized regret of the best strictly feasible evaluation, this is a strict form of the paper's test:
    against the known optimum instead of the best solver, in units of the objective instead of the penalty.
    """
    medians = order_statistic(np.moveaxis(regrets, 2, 0), 0.5)
    return until(medians, tolerance)


def profile(times: Float64[ndarray, "w p"], length: int) -> Float64[ndarray, "w T"]:
    """Return the performance profile: the fraction of problems solved within 1, 2, ..., T evaluations."""
    return (times[:, :, None] <= np.arange(1, length + 1)).mean(axis=1)


def data_profile(
    times: Float64[ndarray, "w p"], dimensions: Float64[ndarray, "p"], groups: Float64[ndarray, "T"]
) -> Float64[ndarray, "w T"]:
    """Return the data profile (Moré and Wild 2009): the fraction solved within groups of d + 1 evaluations."""
    scaled = times / (dimensions + 1.0)
    return (scaled[:, :, None] <= groups).mean(axis=1)


def solved(regrets: Float64[ndarray, "w p s t"], tolerance: float) -> Float64[ndarray, "w t"]:
    """Return the problems solved after each evaluation, each counted by its fraction of successful seeds."""
    return (regrets <= tolerance).mean(axis=2).sum(axis=1)


def _first(is_passed: ndarray) -> Float64[ndarray, "w p"]:
    return np.where(is_passed.any(-1), np.argmax(is_passed, axis=-1) + 1.0, np.inf)
