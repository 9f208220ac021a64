"""Waves: outputs that rise and fall regularly along an input, with more basins than a smooth belief can tell apart.

A Gaussian process needs several points to each period to learn a wave. Its frequency can be learned from far fewer:
with the place on the wave (`view.waved`) as further inputs, points whole periods apart are alike, and the rest is
smooth. The likelihood has a narrow peak at the right frequency and is flat elsewhere, so frequencies are tried one by
one, then tuned. A wave is sought where nothing else explains much, has a price (`regressions.handicap`), and must
explain the output clearly.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy import ndarray

from pied.gp import descent, likelihood
from pied.gp.choices import Candidate, Found, ModelChoice
from pied.gp.features.view import waved
from pied.gp.likelihood import SPARE_ROWS, Tasks
from pied.gp.observations import Observations
from pied.gp.regressions import candidates, handicap, regressions, trends
from pied.shapes import Float64

LEAST_ROWS = 8  # different values, and two more for each input: with fewer a wave is not looked for
MOST_ROWS = 64  # points used while looking for a wave
SOUGHT_BELOW = 0.0  # nats a row, standardized (errors of 25 %): a wave is looked for where less is explained
FROM_DENSITY = 1.5  # nats a row, standardized (errors of 5 %): a new wave must explain so much; chance rarely does
APART = 0.1  # in what an output sees: between points that are asked how well a fit explains them
STEPS = 40  # BFGS iterations of a fit
FIRST_NUGGET = 1e-2  # at which frequencies are tried where it is learned
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


def explaining(data: Observations, plain: Found, old: ModelChoice | None, *, is_sought: bool) -> Found:
    """Return the best model of an output: the given one without a wave, or one with a wave where that scores more.

    Args:
        data: What was told.
        plain: The best model without.
        old: What was chosen last; its wave stays while it scores best.
        is_sought: Whether new ones are looked for.
    """
    j = plain.candidate.outputs[0]
    base = Candidate((j,), data.model.kernels[0], plain.candidate.trend, "none", "plain")
    if not data.model.waves or base not in candidates(data, (j,)):
        return plain
    data = data.only(j)
    found = [Wave(old.waves, old.theta)] if old is not None and old.waves else []
    kept = len(found)
    different = len(np.unique(data.values(j)))  # repeated values explain too easily
    if is_sought and different >= LEAST_ROWS + 2 * int(data.active[j].sum()):
        task, theta = regressions(data, [plain.candidate])[0], np.array([plain.theta])
        if not _density_apart(task, theta) > SOUGHT_BELOW:
            found += _promising(data, base, plain.score)
    if not found:
        return plain
    possible = trends(data, j, data.count(j) - 2 * SPARE_ROWS)
    tried = [base._replace(trend=trend, waves=wave.frequencies) for wave in found for trend in possible]
    start = np.array([wave.theta for wave in found for _ in possible])
    return _best(data, plain, *fitted(data, tried, start, STEPS), kept * len(possible))


def _promising(data: Observations, base: Candidate, score: float) -> list[Wave]:
    """Return the likeliest waves that, not fitted yet and not paid for, score more than the best without, fitted."""
    j = base.outputs[0]
    few = replace(data, model=replace(data.model, most_rows=MOST_ROWS)).thinned()
    possible = trends(few, j, few.count(j))
    task, _ = regressions(few, [base if base.trend in possible else base._replace(trend=possible[-1])])
    low, high = task.nugget[0].tolist()
    nugget = math.log(float(task.noise[0, 0]) or FIRST_NUGGET)  # of a known noise: at a process variance of one
    found = likeliest(task, few.U, max(low, min(high, nugget)))
    if not found:
        return []
    tasks, _ = regressions(data, [base._replace(waves=wave.frequencies) for wave in found])
    density = likelihood.evaluate(tasks, np.array([wave.theta for wave in found]), with_slope=False).density
    return [wave for wave, each in zip(found, density.tolist(), strict=True) if each + handicap(data, base) > score]


def _best(
    data: Observations,
    plain: Found,
    tried: Sequence[Candidate],
    theta: Float64[ndarray, "B q"],
    fit: likelihood.Fit,
    old: int,
) -> Found:
    """Return the best of some fitted candidates with a wave, of which the first ones are old, or the one without."""
    best = plain
    for row, each in enumerate(tried):
        score = float(fit.density[row]) + handicap(data, each) + data.model.hysteresis * (row < old)
        if not (math.isfinite(score) and score > best.score):
            continue
        own = theta[row : row + 1]
        if row < old or _density_apart(regressions(data, [each])[0], own) >= FROM_DENSITY:
            best = Found(each, tuple(own[0].tolist()), score)
    return best


def _density_apart(task: Tasks, theta: Float64[ndarray, "1 q"]) -> float:
    """Return the leave-one-out density, nats a row, of points that lie apart; those in clusters predict each other."""
    rows = likelihood.apart(task, APART)
    task = replace(task, rows=rows, y=task.y * rows[:, :, None])
    return float(likelihood.evaluate(task, theta, with_slope=False).density[0]) / max(1.0, float(rows.sum()))


# --- Fits -------------------------------------------------------------------------------------------------------------


def fitted(
    data: Observations, tried: Sequence[Candidate], start: Float64[ndarray, "B q"], steps: int
) -> tuple[list[Candidate], Float64[ndarray, "B q"], likelihood.Fit]:
    """Fit length scales; where there are waves, then their frequencies, then length scales again."""
    tasks, _ = regressions(data, tried)
    theta, fit = descent.optimize(tasks, start, steps)
    index = np.array([row for row, each in enumerate(tried) if each.waves], dtype=int)
    if not len(index):
        return list(tried), theta, fit
    frequencies = np.array([tried[row].waves for row in index])
    better = dict(zip(index, tuned(tasks.at(index), data.U, theta[index], frequencies).tolist(), strict=True))
    tried = [each._replace(waves=tuple(better.get(row, ()))) for row, each in enumerate(tried)]
    return tried, *descent.optimize(regressions(data, tried)[0], theta, steps)


def with_waves(tasks: Tasks, U: Float64[ndarray, "N d"], waves: Float64[ndarray, "B d"]) -> Tasks:
    """Let every task see a wave beside its inputs."""
    d = U.shape[1]
    inputs = np.broadcast_to(tasks.U[..., :d], (len(waves), *U.shape))
    active = np.concatenate([tasks.active[:, :d], np.ones((len(waves), 2))], 1)
    return replace(tasks, U=np.concatenate([inputs, waved(U, waves)], -1), active=active)


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
