"""Choose what each output is modelled with, and fit its length scales, when the schedule says so.

Every candidate is scored by the leave-one-out log density of the told values, in natural units. A new choice must beat
the current one by the hysteresis. Where the best candidate still explains little, a wave is looked for (`periodic`).
"""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy import ndarray

from pied.gp import descent, likelihood, periodic
from pied.gp.choices import Candidate, Choice, thetas
from pied.gp.likelihood import SPARE_ROWS, Tasks
from pied.gp.observations import Observations
from pied.gp.regressions import candidates, handicap, regressions, trends
from pied.shapes import Float64

STARTS = (0.1, 0.3, 1.0, 3.0)  # isotropic length scales tried at a first selection, in units of sqrt(inputs)
RESTARTS = (0.5, 1.0, 2.0)  # multiples of the current length scales tried at later selections, beside one long scale
NUGGET_STARTS = (1e-6, 1e-2)  # tried where the nugget is learned
SELECTION_STEPS = 40  # BFGS iterations for the finalists of a selection
REFIT_STEPS = 20  # BFGS iterations for a refit, which starts close to its optimum
RESELECT_SHARE = 8  # with many data, a new selection after they have grown by one part in this many
REFIT_SHARE = 30  # with many data, a refit after they have grown by one part in this many
WAVE_LEAST_ROWS = 8  # different values, and two more for each input: with fewer a wave is not looked for
WAVE_MOST_ROWS = 64  # points used while looking for a wave
WAVE_BELOW_DENSITY = 0.0  # nats a row, standardized (errors of 25 %): a wave is looked for where less is explained
WAVE_FROM_DENSITY = 1.5  # nats a row, standardized (errors of 5 %): a new wave must explain so much; chance rarely does
MANY_OUTPUTS = 8  # from so many on, modelled each on its own, only finalists are optimized, and waves take turns
WAVES_AT_ONCE = 4  # outputs in which one selection then looks for a wave
EXPLAINED_DISTANCE = 0.1  # in what an output sees: between points that are asked how well a fit explains them

Group = tuple[int, ...]
"""Outputs that share their hyperparameters."""


def choose(data: Observations, previous: Sequence[Choice | None]) -> list[Choice]:
    """Select models and fit length scales where the schedule says so; keep the rest as it was."""
    choices = list(previous)
    learned = data.thinned()
    for block in data.blocks():
        to_select = [group for group in block if _is_selection_due(data, group, previous)]
        to_refit = [group for group in block if group not in to_select and _is_refit_due(data, group, previous)]
        if to_refit:
            to_select += _refit(learned, to_refit, choices)
        if to_select:
            _select(learned, to_select, choices)
        for j in [j for group in (*to_select, *to_refit) for j in group]:
            choices[j] = replace(_made(choices[j]), fitted=data.count(j))
        for j in [j for group in to_select for j in group]:
            choices[j] = replace(_made(choices[j]), selected=data.count(j))
    return [_made(choice) for choice in choices]


def _made(choice: Choice | None) -> Choice:
    if choice is None:
        raise AssertionError("an output was left without a choice")
    return choice


def _is_selection_due(data: Observations, group: Group, previous: Sequence[Choice | None]) -> bool:
    """Whether a group has no choice yet, one that is not possible any more, or one that is old."""
    old = [previous[j] for j in group]
    first, n = old[0], data.count(group[0])
    if first is None or any(each is None or each.candidate(group) != first.candidate(group) for each in old):
        return True
    possible = candidates(data, group)
    if first.waves and not data.model.waves:
        return True
    if first.candidate(group)._replace(waves=()) not in possible:
        return True
    if trends(data, group[0], n) != trends(data, group[0], first.selected):
        return True
    has_others = len(possible) > 1 or (data.model.waves and len(group) == 1)
    return n - first.selected >= max(data.model.reselect, n // RESELECT_SHARE) and has_others


def _is_refit_due(data: Observations, group: Group, previous: Sequence[Choice | None]) -> bool:
    """Whether the length scales of a group are old."""
    n, old = data.count(group[0]), _made(previous[group[0]])
    every = 1 if n <= data.model.always_refit else max(data.model.refit, n // REFIT_SHARE)
    return n - old.fitted >= every


def _select(data: Observations, groups: list[Group], choices: list[Choice | None]) -> None:
    """Screen every candidate at coarse length scales, optimize the best few, keep the best by leave-one-out."""
    tried = [each for group in groups for each in candidates(data, group)]
    tasks, _ = regressions(data, tried)
    theta, screened = _best_starts(data, tried, tasks, choices)
    finalists = []
    for group in groups:
        own = [i for i, each in enumerate(tried) if each.outputs == group]
        own.sort(key=lambda i: -(float(screened[i]) + handicap(data, tried[i])))
        is_thorough = data.count(group[0]) <= data.model.always_refit and len(groups) < MANY_OUTPUTS
        most = len(own) if is_thorough else data.model.finalists
        finalists += own[:most] + [i for i in own[most:] if _is_same(choices[group[0]], tried[i])]
    index = np.array(finalists)
    best_theta, fit = descent.optimize(tasks.at(index), theta[index], SELECTION_STEPS)
    for group in groups:
        scores = {}
        for row, i in enumerate(finalists):
            if tried[i].outputs == group:
                bonus = data.model.hysteresis * _is_same(choices[group[0]], tried[i])
                scores[row] = float(fit.density[row]) + handicap(data, tried[i]) + bonus
        row = max(scores, key=lambda each: (math.isfinite(scores[each]), scores[each]))
        best, theta_of = tried[finalists[row]], tuple(best_theta[row].tolist())
        if data.model.waves and len(group) == 1:
            density = _density_apart(tasks.at(index[row : row + 1]), best_theta[row : row + 1])
            is_poor = not density > WAVE_BELOW_DENSITY and _has_turn(data, group[0])
            best, theta_of = _with_wave(data, choices[group[0]], best, is_poor, scores[row]) or (best, theta_of)
        for j in group:
            choices[j] = Choice(best.kernel, best.trend, best.warp, best.scale, theta_of, 0, 0, best.waves)


def _has_turn(data: Observations, j: int) -> bool:
    """Whether this selection looks for a wave in output j; where there are many outputs, they take turns."""
    m = len(data.rows)
    turn = data.count(j) // data.model.reselect
    return m < MANY_OUTPUTS or (j - turn * WAVES_AT_ONCE) % m < WAVES_AT_ONCE


def _density_apart(task: Tasks, theta: Float64[ndarray, "1 q"]) -> float:
    """Return the leave-one-out density, nats a row, of points that lie apart; those in clusters predict each other."""
    rows = likelihood.apart(task, EXPLAINED_DISTANCE)
    fewer = replace(task, rows=rows, y=task.y * rows[:, :, None])
    return float(likelihood.evaluate(fewer, theta, with_slope=False).density[0]) / max(1.0, float(rows.sum()))


def _with_wave(
    data: Observations, old: Choice | None, plain: Candidate, is_poor: bool, score: float
) -> tuple[Candidate, tuple[float, ...]] | None:
    """Return a candidate with a wave and its hyperparameters where it scores more than the best without.

    A new wave must also explain the output clearly; one that was chosen before stays while it scores best.
    """
    j, n = plain.outputs[0], data.count(plain.outputs[0])
    base = Candidate((j,), data.model.kernels[0], plain.trend, "none", "plain")
    if base not in candidates(data, (j,)):
        return None
    found = [periodic.Wave(old.waves, old.theta)] if old is not None and old.waves else []
    kept = len(found)
    different = len(np.unique(data.values(j)))  # a wave explains repeated values too easily
    if is_poor and different >= WAVE_LEAST_ROWS + 2 * int(data.active[j].sum()):
        found += _promising_waves(data, base, score)
    if not found:
        return None
    possible = trends(data, j, n - 2 * SPARE_ROWS)
    tried = [base._replace(trend=trend, waves=wave.frequencies) for wave in found for trend in possible]
    start = np.array([wave.theta for wave in found for _ in possible])
    tried, theta, fit = _fitted(data, tried, start, SELECTION_STEPS)
    is_old = [row < kept * len(possible) for row in range(len(tried))]
    scores = [
        float(fit.density[row]) + handicap(data, each) + data.model.hysteresis * is_old[row]
        for row, each in enumerate(tried)
    ]
    row = max(range(len(tried)), key=lambda each: (math.isfinite(scores[each]), scores[each]))
    if not scores[row] > score:
        return None
    if not is_old[row] and _density_apart(regressions(data, [tried[row]])[0], theta[row : row + 1]) < WAVE_FROM_DENSITY:
        return None
    return tried[row], tuple(theta[row].tolist())


def _promising_waves(data: Observations, base: Candidate, score: float) -> list[periodic.Wave]:
    """Return the likeliest waves that, not fitted yet and not paid for, score more than the best without, fitted."""
    j = base.outputs[0]
    few = replace(data.only(j), model=replace(data.model, most_rows=WAVE_MOST_ROWS)).thinned()
    possible = trends(few, j, few.count(j))
    task, _ = regressions(few, [base if base.trend in possible else base._replace(trend=possible[-1])])
    low, high = task.nugget[0].tolist()
    nugget = math.log(float(task.noise[0, 0]) or NUGGET_STARTS[-1])  # of a known noise: at a process variance of one
    found = periodic.likeliest(task, few.U, max(low, min(high, nugget)))
    if not found:
        return []
    tasks, _ = regressions(data, [base._replace(waves=wave.frequencies) for wave in found])
    density = likelihood.evaluate(tasks, np.array([wave.theta for wave in found]), with_slope=False).density
    return [wave for wave, each in zip(found, density.tolist(), strict=True) if each + handicap(data, base) > score]


def _fitted(
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


def _is_same(choice: Choice | None, candidate: Candidate) -> bool:
    """Whether a candidate is the current choice."""
    return choice is not None and choice.candidate(candidate.outputs) == candidate


def _best_starts(
    data: Observations, tried: Sequence[Candidate], tasks: Tasks, choices: Sequence[Choice | None]
) -> tuple[Float64[ndarray, "B q"], Float64[ndarray, "B"]]:
    """Return for each candidate the length scales of smallest loss among a few starts, and its density there."""
    starts = [
        _starts(data, each.outputs[0], tasks.nugget[i].tolist(), choices[each.outputs[0]])
        for i, each in enumerate(tried)
    ]
    counts = [len(each) for each in starts]
    theta = np.array([start for each in starts for start in each])
    fit = likelihood.evaluate(tasks.at(np.repeat(np.arange(len(tried)), counts)), theta, with_slope=False)
    chosen, position = [], 0
    for count in counts:
        chosen.append(position + int(np.argmin(fit.loss[position : position + count])))
        position += count
    return theta[chosen], fit.density[chosen]


def _starts(data: Observations, j: int, nugget: Sequence[float], old: Choice | None) -> list[list[float]]:
    """Return hyperparameters at which output j is screened, given the range of its log nugget."""
    d, (low, high) = data.U.shape[1], nugget
    root = math.sqrt(max(1, int(data.active[j].sum())))
    nuggets = [low] if low == high else [max(low, min(high, math.log(each))) for each in NUGGET_STARTS]
    if old is not None and old.waves:  # its length scales are those of what the wave leaves
        old = None
    scales = [[math.log(scale * root)] * d for scale in (STARTS if old is None else STARTS[-1:])]
    if old is not None:
        factors = RESTARTS if data.count(j) <= data.model.always_refit else (1.0,)
        scales += [[t + math.log(factor) for t in old.theta[:d]] for factor in factors]
        nuggets = nuggets if low == high else [old.theta[-1]]
    return [[*scale, each] for scale in scales for each in nuggets]


def _refit(data: Observations, groups: list[Group], choices: list[Choice | None]) -> list[Group]:
    """Fit the length scales and frequencies of the current choices again, from where they are.

    Returns:
        The groups for which no fit reproduces the told values; they are left without a choice.
    """
    lost = []
    current = [_made(choices[group[0]]) for group in groups]
    tried = [old.candidate(group) for group, old in zip(groups, current, strict=True)]
    tried, theta, fit = _fitted(data, tried, thetas(current), REFIT_STEPS)
    for row, (group, old) in enumerate(zip(groups, current, strict=True)):
        fresh = None
        if float(fit.loss[row]) < 0.5 * likelihood.MISS_PENALTY * len(group):
            own = theta[row].tolist()
            fresh = replace(old, theta=(*own[: len(old.theta) - 1], own[-1]), waves=tried[row].waves)
        else:
            lost.append(group)
        for j in group:
            choices[j] = fresh
    return lost
