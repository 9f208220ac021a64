"""Choose what each output is modelled with, and fit its length scales, when the schedule says so.

Every candidate is scored by the leave-one-out log density of the told values, in natural units. A new choice must beat
the current one by the hysteresis. Where the best candidate still explains little, a wave is looked for (`waves`).
"""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy import ndarray

from pied.gp import descent, likelihood
from pied.gp.choices import Candidate, Found, ModelChoice, Other, thetas
from pied.gp.features import waves
from pied.gp.likelihood import Tasks
from pied.gp.observations import Observations
from pied.gp.regressions import candidates, handicap, regressions, trends
from pied.shapes import Bool, Float64

STARTS = (0.1, 0.3, 1.0, 3.0)  # isotropic length scales tried at a first selection, in units of sqrt(inputs)
RESTARTS = (0.5, 1.0, 2.0)  # multiples of the current length scales tried at later selections, beside one long scale
NUGGET_STARTS = (1e-6, 1e-2)  # tried where the nugget is learned
SELECTION_STEPS = 40  # BFGS iterations for the finalists of a selection
REFIT_STEPS = 20  # BFGS iterations for a refit, which starts close to its optimum
RESELECT_SHARE = 8  # with many data, a new selection after they have grown by one part in this many
REFIT_SHARE = 30  # with many data, a refit after they have grown by one part in this many
MANY_OUTPUTS = 8  # from so many on, modelled each on its own, only finalists are optimized, and waves sought in turn
OTHERS = 3  # models kept beside the best one, for what is said (`mixture`): more change next to nothing
SOUGHT_AT_ONCE = 4  # outputs in which one selection then looks for a wave

Group = tuple[int, ...]
"""Outputs that share their hyperparameters."""


def choose(data: Observations, previous: Sequence[ModelChoice | None]) -> list[ModelChoice]:
    """Select models and fit length scales where the schedule says so; keep the rest as it was."""
    previous = usable(data, previous)
    choices = list(previous)
    learned = data.thinned()
    for block in data.blocks():
        to_select = [group for group in block if is_selection_due(data, group, previous)]
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


def usable(data: Observations, previous: Sequence[ModelChoice | None]) -> list[ModelChoice | None]:
    """Return choices without those that were made for other inputs."""
    return [
        old if old is not None and _is_usable(old, seen) else None
        for old, seen in zip(previous, data.active, strict=True)
    ]


def _is_usable(old: ModelChoice, active: Bool[ndarray, "d"]) -> bool:
    """Whether a choice was made for an output of so many inputs, and has no wave along one that it does not see."""
    if not old.waves:
        return len(old.theta) == len(active) + 1
    return len(old.waves) == len(active) == len(old.theta) - 3 and not np.array(old.waves)[~active].any()


def _made(choice: ModelChoice | None) -> ModelChoice:
    if choice is None:
        raise AssertionError("an output was left without a choice")
    return choice


def is_selection_due(data: Observations, group: Group, previous: Sequence[ModelChoice | None]) -> bool:
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


def _is_refit_due(data: Observations, group: Group, previous: Sequence[ModelChoice | None]) -> bool:
    """Whether the length scales of a group are old."""
    n, old = data.count(group[0]), _made(previous[group[0]])
    every = 1 if n <= data.model.always_refit else max(data.model.refit, n // REFIT_SHARE)
    return n - old.fitted >= every


def _select(data: Observations, groups: list[Group], choices: list[ModelChoice | None]) -> None:
    """Keep the best candidate by leave-one-out; where it explains little, look for a wave."""
    for group, found in zip(groups, ranked(data, groups, choices), strict=True):
        best = found[0]
        if len(group) == 1:
            best = waves.explaining(data, best, choices[group[0]], is_sought=_is_sought(data, group[0]))
        others = _others(best, found) if len(group) == 1 else ()
        for j in group:
            choices[j] = replace(chosen(best), others=others)


def _others(best: Found, found: Sequence[Found]) -> tuple[Other, ...]:
    """Return the next best models on the same scale as the best one."""
    warp = best.candidate.warp
    fine = [each for each in found if each.candidate.warp == warp and math.isfinite(each.score)]
    fine = [each for each in fine if each.candidate != best.candidate][:OTHERS]
    return tuple(Other(each.candidate.kernel, each.candidate.trend, each.candidate.scale, each.theta) for each in fine)


def chosen(found: Found) -> ModelChoice:
    """Return a candidate with its length scales as a choice, made from no rows yet."""
    best = found.candidate
    return ModelChoice(best.kernel, best.trend, best.warp, best.scale, found.theta, 0, 0, best.waves)


def ranked(data: Observations, groups: list[Group], choices: Sequence[ModelChoice | None]) -> list[list[Found]]:
    """Return the candidates of each group, the best first: screened at coarse length scales, the best few optimized."""
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
    made = []
    for group in groups:
        found = []
        for row, i in enumerate(finalists):
            if tried[i].outputs == group:
                bonus = data.model.hysteresis * _is_same(choices[group[0]], tried[i])
                score = float(fit.density[row]) + handicap(data, tried[i]) + bonus
                found.append(Found(tried[i], tuple(best_theta[row].tolist()), score))
        made.append(sorted(found, key=lambda each: (math.isfinite(each.score), each.score), reverse=True))
    return made


def _is_sought(data: Observations, j: int) -> bool:
    """Whether this selection looks for a wave in output j; where there are many outputs, they take turns."""
    m = len(data.rows)
    turn = data.count(j) // data.model.reselect
    return m < MANY_OUTPUTS or (j - turn * SOUGHT_AT_ONCE) % m < SOUGHT_AT_ONCE


def _is_same(choice: ModelChoice | None, candidate: Candidate) -> bool:
    """Whether a candidate is the current choice."""
    return choice is not None and choice.candidate(candidate.outputs) == candidate


def _best_starts(
    data: Observations, tried: Sequence[Candidate], tasks: Tasks, choices: Sequence[ModelChoice | None]
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


def _starts(data: Observations, j: int, nugget: Sequence[float], old: ModelChoice | None) -> list[list[float]]:
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


def _refit(data: Observations, groups: list[Group], choices: list[ModelChoice | None]) -> list[Group]:
    """Fit the length scales and waves of the current choices again, from where they are.

    Returns:
        The groups for which no fit reproduces the told values; they are left without a choice.
    """
    lost = []
    current = [_made(choices[group[0]]) for group in groups]
    tried = [old.candidate(group) for group, old in zip(groups, current, strict=True)]
    tried, theta, fit = waves.fitted(data, tried, thetas(current), REFIT_STEPS)
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
