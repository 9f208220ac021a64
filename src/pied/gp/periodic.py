"""Waves: outputs that rise and fall regularly along an input, with more basins than a smooth belief can tell apart.

A Gaussian process needs several points to each period to learn a wave. Its frequency can be learned from far fewer:
with the place on the wave (`kernels.waved`) as further inputs, points whole periods apart are alike, and the rest is
smooth. The likelihood has a narrow peak at the right frequency and is flat elsewhere, so frequencies are tried one by
one, then tuned.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy import ndarray

from pied.gp import likelihood
from pied.gp.kernels import waved
from pied.gp.likelihood import Tasks
from pied.shapes import Float64

PERIODS = (0.5, 40.0, 0.25)  # across the box: the fewest, the most, and the step; a peak is about one wide
TRIED_LENGTHS = (1.0, 3.0)  # length scales of the inputs at which frequencies are tried; on the wave they are one
PEAKS_KEPT = 4  # peaks that are optimized
PEAK_DISTANCE = 1.0  # periods between two peaks of an input
TUNING = (0.06, 0.015, 0.004, 0.001)  # periods: steps by which a frequency is tuned, four to either side


class Wave(NamedTuple):
    """A possible wave, and the hyperparameters from which to fit it."""

    frequencies: tuple[float, ...]
    """Angular, along each input of the unit cube."""
    theta: tuple[float, ...]
    """Logarithms of length scales: of the inputs, of the two columns of the wave; then of the nugget."""


def with_waves(tasks: Tasks, U: Float64[ndarray, "N d"], waves: Float64[ndarray, "B d"]) -> Tasks:
    """Let every task see a wave beside its inputs."""
    return beside(tasks, U.shape[1], waved(U, waves))


def beside(tasks: Tasks, d: int, places: Float64[ndarray, "B N 2"]) -> Tasks:
    """Let every task see a place on a turn beside its d inputs."""
    inputs = np.broadcast_to(tasks.U[..., :d], (*places.shape[:2], d))
    active = np.concatenate([tasks.active[:, :d], np.ones((len(places), 2))], 1)
    return replace(tasks, U=np.concatenate([inputs, places], -1), active=active)


def likeliest(task: Tasks, U: Float64[ndarray, "N d"], nugget: float) -> list[Wave]:
    """Return the likeliest waves of one output, at most `PEAKS_KEPT`.

    Args:
        task: Its regression without a wave.
        U: The points, in the unit cube.
        nugget: Logarithm of the nugget at which frequencies are tried.
    """
    first, last, step = PERIODS
    periods = np.arange(first, last + step / 2, step)
    found: list[tuple[float, Wave]] = []
    for i in np.flatnonzero(task.active[0, : U.shape[1]]):
        waves = np.zeros((len(periods), U.shape[1]))
        waves[:, i] = 2.0 * math.pi * periods
        tasks = with_waves(task.at(np.zeros(len(waves), dtype=int)), U, waves)
        theta = np.stack([np.tile(_start(scale, U, nugget), (len(waves), 1)) for scale in TRIED_LENGTHS])
        loss = np.stack([likelihood.evaluate(tasks, each, with_slope=False).loss for each in theta])
        best, which = loss.min(0), loss.argmin(0)
        for place in _peaks(best.tolist(), max(1, round(PEAK_DISTANCE / step))):
            own = Wave(tuple(waves[place].tolist()), tuple(theta[which[place], place].tolist()))
            found.append((float(best[place]), own))
    return [wave for _, wave in sorted(found)[:PEAKS_KEPT]]


def _start(scale: float, U: Float64[ndarray, "N d"], nugget: float) -> Float64[ndarray, "q"]:
    """Return hyperparameters: equal length scales of the inputs, one on the wave."""
    return np.array([math.log(scale)] * U.shape[1] + [0.0, 0.0, nugget])


def _peaks(loss: Sequence[float], apart: int) -> list[int]:
    """Return the places of the smallest finite losses, each so far from better ones."""
    places: list[int] = []
    for place in sorted(range(len(loss)), key=loss.__getitem__):
        if math.isfinite(loss[place]) and all(abs(place - other) > apart for other in places):
            places.append(place)
        if len(places) == PEAKS_KEPT:
            break
    return places


def tuned(
    tasks: Tasks, U: Float64[ndarray, "N d"], theta: Float64[ndarray, "B q"], waves: Float64[ndarray, "B d"]
) -> Float64[ndarray, "B d"]:
    """Return the frequencies of smallest loss nearby, the other hyperparameters as they are."""
    offsets = np.arange(-4.0, 5.0)
    index = np.repeat(np.arange(len(waves)), len(offsets))
    tasks, theta = tasks.at(index), theta[index]
    along = waves / np.maximum(np.linalg.norm(waves, axis=1, keepdims=True), 1e-12)
    for step in TUNING:
        tried = waves[:, None, :] + 2.0 * math.pi * step * offsets[:, None] * along[:, None, :]
        loss = likelihood.evaluate(with_waves(tasks, U, tried.reshape(len(index), -1)), theta, with_slope=False).loss
        best = loss.reshape(len(waves), -1).argmin(1)
        waves = tried[np.arange(len(waves)), best]
    return waves
