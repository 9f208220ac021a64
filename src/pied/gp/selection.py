"""Choose for each output what it is modelled with, and fit its length scales, when the schedule says so.

Every candidate is scored by the leave-one-out log density of what was told, in natural units, with hysteresis. Where
the best of them still says little, a wave is looked for (`waves`).
"""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

from pied.gp import descent, likelihood, periodic
from pied.gp.choices import Choice, Observations, Spec, thetas
from pied.gp.likelihood import SPARE_ROWS, Tasks

STARTS = (0.1, 0.3, 1.0, 3.0)  # isotropic length scales tried at a first selection, in units of sqrt(inputs)
RESTARTS = (0.5, 1.0, 2.0)  # multiples of the current length scales tried at later ones, beside one long scale
SELECTION_STEPS = 40  # BFGS iterations for the finalists of a selection ...
REFIT_STEPS = 20  # ... and for a refit, which starts close
LEAST_ROWS = 8  # and two for each input: from so many different values on a wave is looked for ...
WAVE_ROWS = 64  # ... in at most so many rows
RESELECT_SHARE, REFIT_SHARE = 8, 30  # of the data: when many, so much must be new before they are asked again
POOR, CLEAR = 0.0, 1.5  # nats a row, standardized (errors of 25 and 5 % of the spread): a wave is looked for where less
# is explained, and believed where it explains so much, which is rare where there is nothing but chance
APART = 0.1  # in what an output sees: between points that are asked how well a fit explains them


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


def _is_selection_due(data: Observations, group: tuple[int, ...], previous: Sequence[Choice | None]) -> bool:
    """Whether a group has no choice yet, one that is not possible any more, or one that is old."""
    old = [previous[j] for j in group]
    first, n = old[0], data.count(group[0])
    if first is None or any(each is None or each.spec(group) != first.spec(group) for each in old):
        return True
    candidates = data.candidates(group)
    if first.waves and not data.model.waves:
        return True
    if first.spec(group)._replace(waves=()) not in candidates or data.trends(group[0], n) != data.trends(
        group[0], first.selected
    ):
        return True
    has_others = len(candidates) > 1 or (data.model.waves and len(group) == 1)
    return n - first.selected >= max(data.model.reselect, n // RESELECT_SHARE) and has_others


def _is_refit_due(data: Observations, group: tuple[int, ...], previous: Sequence[Choice | None]) -> bool:
    """Whether the length scales of a group are old."""
    n, old = data.count(group[0]), _made(previous[group[0]])
    every = 1 if n <= data.model.always_refit else max(data.model.refit, n // REFIT_SHARE)
    return n - old.fitted >= every


def _select(data: Observations, groups: list[tuple[int, ...]], choices: list[Choice | None]) -> None:
    """Screen every candidate at coarse length scales, optimize the best few, keep the best by leave-one-out."""
    specs = [spec for group in groups for spec in data.candidates(group)]
    tasks, _ = data.tasks(specs)
    theta, screened = _best_starts(data, specs, tasks, choices)
    finalists = []
    for group in groups:
        own = [i for i, spec in enumerate(specs) if spec.outputs == group]
        own.sort(key=lambda i: -(float(screened[i]) + data.handicap(specs[i])))
        most = data.model.finalists if data.count(group[0]) > data.model.always_refit else len(own)
        finalists += own[:most] + [i for i in own[most:] if _is_same(choices[group[0]], specs[i])]
    index = np.array(finalists)
    best_theta, fit = descent.optimize(tasks.at(index), theta[index], SELECTION_STEPS)
    for group in groups:
        scores = {}
        for row, i in enumerate(finalists):
            if specs[i].outputs == group:
                bonus = data.model.hysteresis * _is_same(choices[group[0]], specs[i])
                scores[row] = float(fit.density[row]) + data.handicap(specs[i]) + bonus
        row = max(scores, key=lambda each: (math.isfinite(scores[each]), scores[each]))
        spec, theta_of = specs[finalists[row]], tuple(best_theta[row].tolist())
        if data.model.waves and len(group) == 1:
            is_poor = not _explained(tasks.at(index[row : row + 1]), best_theta[row : row + 1]) > POOR
            spec, theta_of = _waved(data, choices[group[0]], spec, is_poor, scores[row]) or (spec, theta_of)
        for j in group:
            choices[j] = Choice(*spec[1:5], theta_of, 0, 0, spec.waves)


def _explained(task: Tasks, theta: Float64[ndarray, "1 q"]) -> float:
    """Return what a fit says of points that lie apart, nats a row; those in clusters foretell each other."""
    rows = likelihood.apart(task, APART)
    fewer = replace(task, rows=rows, y=task.y * rows[:, :, None])
    return float(likelihood.evaluate(fewer, theta, with_slope=False).density[0]) / max(1.0, float(rows.sum()))


def _waved(
    data: Observations, old: Choice | None, plain: Spec, is_poor: bool, score: float
) -> tuple[Spec, tuple[float, ...]] | None:
    """Return a candidate with a wave and its hyperparameters where it scores more than the best without.

    One that is new must explain the output clearly; one that was chosen before stays while it scores best.
    """
    j, n = plain.outputs[0], data.count(plain.outputs[0])
    base = Spec((j,), data.model.kernels[0], plain.trend, "none", "plain")
    if base not in data.candidates((j,)):
        return None
    found = [periodic.Wave(old.waves, old.theta)] if old is not None and old.waves else []
    kept = len(found)
    values = len(np.unique(data.Y[data.rows[j], j]))  # repeated ones are too easily explained
    if is_poor and values >= LEAST_ROWS + 2 * int(data.active[j].sum()):
        found += _promising_waves(data, base, score)
    if not found:
        return None
    trends = data.trends(j, n - 2 * SPARE_ROWS)
    specs = [base._replace(trend=trend, waves=wave.frequencies) for wave in found for trend in trends]
    start = np.array([wave.theta for wave in found for _ in trends])
    specs, theta, fit = _fitted(data, specs, start, SELECTION_STEPS)
    is_old = [row < kept * len(trends) for row in range(len(specs))]
    scores = [
        float(fit.density[row]) + data.handicap(spec) + data.model.hysteresis * is_old[row]
        for row, spec in enumerate(specs)
    ]
    row = max(range(len(specs)), key=lambda each: (math.isfinite(scores[each]), scores[each]))
    if not scores[row] > score:
        return None
    if not is_old[row] and _explained(data.tasks([specs[row]])[0], theta[row : row + 1]) < CLEAR:
        return None
    return specs[row], tuple(theta[row].tolist())


def _promising_waves(data: Observations, base: Spec, score: float) -> list[periodic.Wave]:
    """Return the likeliest waves that, not fitted yet and not paid for, score more than the best without, fitted."""
    j = base.outputs[0]
    told = data.rows[j]
    few = replace(data, U=data.U[told], rows=data.rows[:, told], Y=data.Y[told])
    few = replace(few, model=replace(data.model, most_rows=WAVE_ROWS)).thinned()
    trends = few.trends(j, few.count(j))
    task, _ = few.tasks([base if base.trend in trends else base._replace(trend=trends[-1])])
    low, high = task.nugget[0].tolist()
    nugget = math.log(float(task.noise[0, 0]) or 1e-2)  # of a known noise: at a process variance of one
    found = periodic.loudest(task, few.U, max(low, min(high, nugget)))
    if not found:
        return []
    tasks, _ = data.tasks([base._replace(waves=wave.frequencies) for wave in found])
    density = likelihood.evaluate(tasks, np.array([wave.theta for wave in found]), with_slope=False).density
    return [wave for wave, each in zip(found, density.tolist(), strict=True) if each + data.handicap(base) > score]


def _fitted(
    data: Observations, specs: Sequence[Spec], start: Float64[ndarray, "B q"], steps: int
) -> tuple[list[Spec], Float64[ndarray, "B q"], likelihood.Fit]:
    """Fit length scales; where there are waves, then their frequencies, then length scales again."""
    tasks, _ = data.tasks(specs)
    theta, fit = descent.optimize(tasks, start, steps)
    riders = [row for row, spec in enumerate(specs) if spec.waves]
    if not riders:
        return list(specs), theta, fit
    index = np.array(riders)
    frequencies = np.array([specs[row].waves for row in riders])
    tuned = dict(zip(riders, periodic.tuned(tasks.at(index), data.U, theta[index], frequencies).tolist(), strict=True))
    specs = [spec._replace(waves=tuple(tuned.get(row, ()))) for row, spec in enumerate(specs)]
    return specs, *descent.optimize(data.tasks(specs)[0], theta, steps)


def _is_same(choice: Choice | None, spec: Spec) -> bool:
    """Whether a candidate is the current choice."""
    return choice is not None and choice.spec(spec.outputs) == spec


def _best_starts(
    data: Observations, specs: Sequence[Spec], tasks: Tasks, choices: Sequence[Choice | None]
) -> tuple[Float64[ndarray, "B q"], Float64[ndarray, "B"]]:
    """Return for each candidate the length scales of smallest loss among a few starts, and its density there."""
    d = data.U.shape[1]
    starts = []
    for i, spec in enumerate(specs):
        j = spec.outputs[0]
        root = math.sqrt(max(1, int(data.active[j].sum())))
        low, high = tasks.nugget[i].tolist()
        middle = [low] if low == high else [max(low, math.log(1e-6)), max(low, min(high, math.log(1e-2)))]
        old = choices[j]
        if old is not None and old.waves:  # its length scales are those of what the wave leaves
            old = None
        scales = [[math.log(scale * root)] * d for scale in (STARTS if old is None else STARTS[-1:])]
        if old is not None:
            factors = RESTARTS if data.count(j) <= data.model.always_refit else (1.0,)
            scales += [[t + math.log(factor) for t in old.theta[:d]] for factor in factors]
            middle = middle if low == high else [old.theta[-1]]
        starts.append([[*scale, nugget] for scale in scales for nugget in middle])
    counts = [len(each) for each in starts]
    theta = np.array([start for each in starts for start in each])
    index = np.repeat(np.arange(len(specs)), counts)
    fit = likelihood.evaluate(tasks.at(index), theta, with_slope=False)
    chosen, position = [], 0
    for count in counts:
        chosen.append(position + int(np.argmin(fit.loss[position : position + count])))
        position += count
    return theta[chosen], fit.density[chosen]


def _refit(data: Observations, groups: list[tuple[int, ...]], choices: list[Choice | None]) -> list[tuple[int, ...]]:
    """Fit the length scales and frequencies of the current choices again, from where they are.

    Returns:
        The groups for which this found nothing, or nothing that gives back what was told: left without a choice.
    """
    lost = []
    current = [_made(choices[group[0]]) for group in groups]
    specs = [old.spec(group) for group, old in zip(groups, current, strict=True)]
    specs, theta, fit = _fitted(data, specs, thetas(current), REFIT_STEPS)
    for row, (group, old) in enumerate(zip(groups, current, strict=True)):
        fresh = None
        if float(fit.loss[row]) < 0.5 * likelihood.UNMET * len(group):
            own = theta[row].tolist()
            fresh = replace(old, theta=(*own[: len(old.theta) - 1], own[-1]), waves=specs[row].waves)
        else:
            lost.append(group)
        for j in group:
            choices[j] = fresh
    return lost
