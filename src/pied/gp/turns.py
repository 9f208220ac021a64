"""Turns: where the best candidate explains an output badly, a wave (`periodic`) or a resonance (`resonant`) may.

Either gives a regression two further inputs, the place on a turn. Both are sought where nothing else explains much,
have a price (`regressions.handicap`), and must explain the output clearly.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy import ndarray

from pied.gp import descent, likelihood, periodic, resonant
from pied.gp.choices import Candidate, Choice
from pied.gp.likelihood import SPARE_ROWS, Tasks
from pied.gp.observations import Observations
from pied.gp.regressions import candidates, handicap, regressions, trends
from pied.shapes import Float64

LEAST_ROWS = 8  # different values, and two more for each input: with fewer a wave is not looked for
LEAST_FOR_RIDGE = 6  # times the inputs, and two: the same for a resonance, which has two numbers for each
MOST_ROWS = 64  # points used while looking for a wave; with more than twice as many a resonance is not looked for
WAVE_BELOW = 0.0  # nats a row, standardized (errors of 25 %): a wave is looked for where less is explained
RESONANCE_BELOW = 2.0  # the same for a resonance (errors of 3 %), whose ridge shows in few rows
EXPLAINED = 6.0  # nats a row, of all points, also of those in clusters: a resonance could not gain its price
FROM_DENSITY = 1.5  # nats a row, standardized (errors of 5 %): a new turn must explain so much; chance rarely does
RESONANCES_KEPT = 2  # that are fitted with every trend
APART = 0.1  # in what an output sees: between points that are asked how well a fit explains them
STEPS = 40  # BFGS iterations of a fit with a wave
RESONANCE_STEPS = 80  # of each of the two fits with a resonance, whose valleys are narrow and bent
FIRST_STEPS = 20  # of a fit from which the search for a resonance begins, and of fits with another trend
FIRST_LENGTH = 0.3  # the length scales of that fit at its start, in units of sqrt(inputs)
FIRST_NUGGET = 1e-2  # where it is learned


class Found(NamedTuple):
    """What an output may be modelled with."""

    candidate: Candidate
    theta: tuple[float, ...]
    score: float
    """Leave-one-out density less the price of what it has."""


def explaining(data: Observations, plain: Found, old: Choice | None, *, is_sought: bool) -> Found:
    """Return the best model of an output: the given one without a turn, or one with a wave or a resonance.

    Args:
        data: What was told.
        plain: The best model without.
        old: What was chosen last; its turn stays while it scores best.
        is_sought: Whether new ones are looked for.
    """
    if not (data.model.waves or data.model.resonances):
        return plain
    j, best = plain.candidate.outputs[0], plain
    data = data.only(j)
    different, inputs = len(np.unique(data.values(j))), int(data.active[j].sum())  # repeated values explain too easily
    task, theta = regressions(data, [plain.candidate])[0], np.array([plain.theta])
    apart, of_all = _density_apart(task, theta), _density(task, theta)
    if data.model.waves:
        best = _with_wave(
            data, best, old, is_sought and different >= LEAST_ROWS + 2 * inputs and not apart > WAVE_BELOW
        )
    if data.model.resonances and data.noise[j] == 0.0:  # with noise nothing was gained, and wrong values look alike
        is_explained = apart > RESONANCE_BELOW or of_all > EXPLAINED
        is_sought = is_sought and different >= LEAST_FOR_RIDGE * inputs + 2 and not is_explained
        best = _with_resonance(data, best, old, is_sought)
    return best


def _with_wave(data: Observations, plain: Found, old: Choice | None, is_sought: bool) -> Found:
    """Return a model with a wave where that scores more."""
    j, n = plain.candidate.outputs[0], data.count(plain.candidate.outputs[0])
    base = Candidate((j,), data.model.kernels[0], plain.candidate.trend, "none", "plain")
    if base not in candidates(data, (j,)):
        return plain
    found = [periodic.Wave(old.waves, old.theta)] if old is not None and old.waves else []
    kept = len(found)
    if is_sought:
        found += _promising_waves(data, base, plain.score)
    if not found:
        return plain
    possible = trends(data, j, n - 2 * SPARE_ROWS)
    tried = [base._replace(trend=trend, waves=wave.frequencies) for wave in found for trend in possible]
    start = np.array([wave.theta for wave in found for _ in possible])
    return _best(data, plain, *fitted(data, tried, start, STEPS), kept * len(possible))


def _promising_waves(data: Observations, base: Candidate, score: float) -> list[periodic.Wave]:
    """Return the likeliest waves that, not fitted yet and not paid for, score more than the best without, fitted."""
    j = base.outputs[0]
    few = replace(data.only(j), model=replace(data.model, most_rows=MOST_ROWS)).thinned()
    possible = trends(few, j, few.count(j))
    task, _ = regressions(few, [base if base.trend in possible else base._replace(trend=possible[-1])])
    low, high = task.nugget[0].tolist()
    nugget = math.log(float(task.noise[0, 0]) or FIRST_NUGGET)  # of a known noise: at a process variance of one
    found = periodic.likeliest(task, few.U, max(low, min(high, nugget)))
    if not found:
        return []
    tasks, _ = regressions(data, [base._replace(waves=wave.frequencies) for wave in found])
    density = likelihood.evaluate(tasks, np.array([wave.theta for wave in found]), with_slope=False).density
    return [wave for wave, each in zip(found, density.tolist(), strict=True) if each + handicap(data, base) > score]


def _with_resonance(data: Observations, plain: Found, old: Choice | None, is_sought: bool) -> Found:
    """Return a model with a resonance where that scores more."""
    j, n = plain.candidate.outputs[0], data.count(plain.candidate.outputs[0])
    possible = trends(data, j, n - 2 * SPARE_ROWS)
    base = Candidate((j,), data.model.kernels[0], possible[0], "none", "plain")
    if base not in candidates(data, (j,)):
        return plain
    found = [resonant.Resonance(old.resonance, old.theta)] if old is not None and old.resonance else []
    kept = len(found)
    if is_sought and n <= 2 * MOST_ROWS:
        found += _likeliest_resonances(data, base)
    if not found:
        return plain
    places = [base._replace(resonance=each.place) for each in found]
    tried, theta, fit = fitted(data, places, np.array([each.theta for each in found]), RESONANCE_STEPS)
    likely = sorted(range(kept, len(found)), key=lambda row: float(fit.loss[row]))[:RESONANCES_KEPT]
    index = [*range(kept), *likely]
    with_trends = [tried[row]._replace(trend=trend) for row in index for trend in possible]
    start = np.repeat(theta[index], len(possible), 0)
    return _best(data, plain, *fitted(data, with_trends, start, FIRST_STEPS), kept * len(possible))


def _likeliest_resonances(data: Observations, base: Candidate) -> list[resonant.Resonance]:
    """Return the resonances that may be looked at, by what a first fit without one explains worst."""
    task, _ = regressions(data, [base])
    (low, high), inputs = task.nugget[0].tolist(), max(1, int(data.active[base.outputs[0]].sum()))
    scales = [math.log(FIRST_LENGTH * math.sqrt(inputs))] * data.U.shape[1]
    nugget = low if low == high else max(low, min(high, math.log(FIRST_NUGGET)))
    theta, _ = descent.optimize(task, np.array([[*scales, nugget]]), FIRST_STEPS)
    return resonant.likeliest(task, data.U, theta[0])


def _best(
    data: Observations,
    plain: Found,
    tried: Sequence[Candidate],
    theta: Float64[ndarray, "B q"],
    fit: likelihood.Fit,
    old: int,
) -> Found:
    """Return the best of some fitted candidates with a turn, of which the first ones are old, or the one without."""
    scores = [
        float(fit.density[row]) + handicap(data, each) + data.model.hysteresis * (row < old)
        for row, each in enumerate(tried)
    ]
    better = [row for row, score in enumerate(scores) if math.isfinite(score) and score > plain.score]
    for row in sorted(better, key=lambda row: -scores[row]):
        each, own = tried[row], theta[row : row + 1]
        task, _ = regressions(data, [each])
        if each.resonance and not resonant.is_ridge(each.resonance, data.U):
            continue
        if row < old or (
            _density_apart(task, own) >= FROM_DENSITY
            and not (each.resonance and _is_cliff(data, task, own, each.resonance, float(fit.density[row])))
        ):
            return Found(each, tuple(own[0].tolist()), scores[row])
    return plain


def _is_cliff(
    data: Observations, task: Tasks, theta: Float64[ndarray, "1 q"], place: tuple[float, ...], density: float
) -> bool:
    """Whether a cliff explains as much as a fitted resonance, whose columns can follow it."""
    return not density > resonant.density_of_cliffs(task, data.U, theta, place, FIRST_STEPS)


def _density_apart(task: Tasks, theta: Float64[ndarray, "1 q"]) -> float:
    """Return the leave-one-out density, nats a row, of points that lie apart; those in clusters predict each other."""
    rows = likelihood.apart(task, APART)
    return _density(replace(task, rows=rows, y=task.y * rows[:, :, None]), theta)


def _density(task: Tasks, theta: Float64[ndarray, "1 q"]) -> float:
    """Return the leave-one-out density, nats a row."""
    return float(likelihood.evaluate(task, theta, with_slope=False).density[0]) / max(1.0, float(task.rows.sum()))


# --- Fits -------------------------------------------------------------------------------------------------------------


def fitted(
    data: Observations, tried: Sequence[Candidate], start: Float64[ndarray, "B q"], steps: int
) -> tuple[list[Candidate], Float64[ndarray, "B q"], likelihood.Fit]:
    """Fit length scales, frequencies of waves and places of resonances; return the candidates with these.

    Candidates that have a resonance and those that have none are fitted apart. Where only some have a turn, the others
    have unused length scales on it.
    """
    has = np.array([bool(each.resonance) for each in tried])
    if not has.any():
        return _fitted_waves(data, tried, start, steps)
    index, rest = np.flatnonzero(has).tolist(), np.flatnonzero(~has).tolist()
    tasks, _ = regressions(data, [tried[row] for row in index])
    places = np.array([tried[row].resonance for row in index])
    theta, found = start.copy(), list(tried)
    theta[index], places, fit = resonant.fitted(tasks, data.U, start[index], places, steps)
    for row, place in zip(index, places.tolist(), strict=True):
        found[row] = tried[row]._replace(resonance=tuple(place))
    if has.all():
        return found, theta, fit
    used = [*range(data.U.shape[1] + 2 * any(tried[row].waves for row in rest)), -1]
    others, own, plain = _fitted_waves(data, [tried[row] for row in rest], start[np.ix_(rest, used)], steps)
    theta[np.ix_(rest, used)] = own
    for row, each in zip(rest, others, strict=True):
        found[row] = each
    return found, theta, fit.merged(index, plain, rest)


def _fitted_waves(
    data: Observations, tried: Sequence[Candidate], start: Float64[ndarray, "B q"], steps: int
) -> tuple[list[Candidate], Float64[ndarray, "B q"], likelihood.Fit]:
    """Fit length scales; where there are waves, then their frequencies, then length scales again."""
    tasks, _ = regressions(data, tried)
    theta, fit = descent.optimize(tasks, start, steps)
    index = np.array([row for row, each in enumerate(tried) if each.waves], dtype=int)
    if not len(index):
        return list(tried), theta, fit
    frequencies = np.array([tried[row].waves for row in index])
    tuned = dict(zip(index, periodic.tuned(tasks.at(index), data.U, theta[index], frequencies).tolist(), strict=True))
    tried = [each._replace(waves=tuple(tuned.get(row, ()))) for row, each in enumerate(tried)]
    return tried, *descent.optimize(regressions(data, tried)[0], theta, steps)
