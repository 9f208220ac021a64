"""What measurements probably give: at new points, and at told ones as if they had not been told."""

from dataclasses import replace

import numpy as np

from pied.bounds import Ends, level_at, predicted
from pied.gp import GP
from pied.problem import Problem
from pied.records import Dataset
from pied.solvers.answers import Answers

MOST_LEFT_OUT = 200
"""Measurements that are predicted from all others: each takes a factorization of its own."""


def deviations(problem: Problem, gp: GP, data: Dataset) -> list[tuple[float, float]]:
    """Return the noise of each output, natural units: as stated, else the smallest and largest at its told values."""
    found = []
    slopes = np.abs(gp.unwarp_slopes(gp.unwarp(gp.moments(data.U)[0])))
    learned = gp.noise_deviation(data.U) * slopes
    for j, stated in enumerate(problem.noise):
        own = learned[np.isfinite(data.Y[:, j]), j]
        least, most = (float(own.min()), float(own.max())) if len(own) else (0.0, 0.0)
        found.append((least, most) if stated is None else (stated, stated))
    return found


def left_out(problem: Problem, data: Dataset, gp: GP, settings: Answers) -> Ends:
    """Predict each measurement from all others, with the models of all; NaN beyond the first `MOST_LEFT_OUT`."""
    low, middle, high = (np.full(data.Y.shape, np.nan) for _ in range(3))
    level = level_at(settings.level, len(data.U))
    factor = settings.believer.trust(problem, data, level).stated
    for row in range(min(len(data.U), MOST_LEFT_OUT)):
        others = np.arange(len(data.U)) != row
        if (np.isfinite(data.Y[others]).sum(0) < 2).any():
            continue
        kept = data.at(np.flatnonzero(others))
        part = settings.believer.mixed(problem, kept, settings.believer.conditioned(problem, kept, gp.choices))
        found = predicted(problem, replace(part, steps=gp.steps), data.U[row : row + 1], level, factor)
        low[row], middle[row], high[row] = (each[0] for each in found)
    return low, middle, high
