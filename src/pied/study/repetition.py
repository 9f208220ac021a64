"""Exact or noisy: what repeated settings say of outputs whose noise is not stated.

A value with many digits that comes out twice proves that its output is exact, as if `noise=0` had been stated: noise
that could hide behind the last digit is no more than an exact model allows. A value with few digits proves nothing,
because a coarse instrument repeats itself as well. Nor is a solver with a tolerance exact, although it repeats itself:
once its values scatter between points that lie close together (`study.jitter`), its noise is learned again.
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np

from pied.measured import Measured
from pied.problem import Problem, raw
from pied.records import Dataset, State, Trial, are_equal, deviations, feasible

LOOKS = 1.25
"""Times as many told points as at the last look for scatter, until the next one."""
RESOLVED = 1e-6
"""Of an output's deviation, and of the value: values that are given at least this finely, and are equal, leave no room
for noise."""
KNOWN = (State.TOLD, State.PARTIAL)


def exact_outputs(problem: Problem, trials: Sequence[Trial]) -> tuple[str, ...]:
    """Return the outputs without stated noise that gave equal values wherever settings were repeated.

    One of two equal values has to be that of a proposed trial: old rows may be copies of each other.
    """
    if None not in problem.stated_noise:
        return ()
    scattering = _last_look(trials)["outputs"]
    repeated = _by_settings(trials)
    if not repeated:
        return ()
    rows = [raw(trial.y) for trial in trials if trial.y is not None and trial.state in KNOWN]
    found = []
    for j, (name, deviation) in enumerate(zip(problem.outputs, deviations(np.array(rows)).tolist(), strict=True)):
        pairs = [pair for pair in (_values(group, j) for group in repeated) if len(pair[0]) > 1]
        is_same = all(are_equal(np.array(values)[:, None]).all() for values, _ in pairs)
        is_fine = any(_is_fine(values[0], deviation) for values, is_new in pairs if is_new)
        has_errors = any(isinstance(row[j], Measured) for row in rows)
        if problem.stated_noise[j] is None and not has_errors and is_same and is_fine and name not in scattering:
            found.append(name)
    return tuple(found)


def to_repeat(problem: Problem, trials: Sequence[Trial], data: Dataset) -> Trial | None:
    """Return the trial to evaluate once more, so that one knows whether the program has noise; None: that was done.

    People who measure are not asked for it: their noise is real. Of the proposed trials whose digits would prove most
    it is the best one, which is worth knowing better if there is noise.
    """
    is_done = any(trial.why.aim == "compare" and trial.state is not State.WITHDRAWN for trial in trials)
    if problem.blackbox is None or is_done:
        return None
    groups = _by_settings(trials)
    pairs = [[_values(group, j) for group in groups] for j in range(problem.m)]
    is_open = [
        noise is None
        and not any(len(values) > 1 and is_new for values, is_new in pairs[j])
        and (data.errors is None or not np.isfinite(data.errors[:, j]).any())
        for j, noise in enumerate(problem.noise)
    ]
    proposed = {trial.number: trial for trial in trials if not trial.is_added}
    deviation, f = deviations(data.Y).tolist(), data.functions(problem)
    meets = feasible(problem, f)
    ranked = [
        (sum(_is_fine(data.Y[row, j], deviation[j]) for j in np.flatnonzero(is_open)), meets[row], f[row, 0], n)
        for row, n in enumerate(data.numbers)
        if n in proposed and n not in data.moved and np.isfinite(f[row]).all()
    ]
    return proposed[max(ranked)[-1]] if ranked and max(ranked)[0] else None


def look(problem: Problem, trials: Sequence[Trial], data: Dataset) -> dict[str, Any]:
    """Return what is to be remembered of the last look for scatter; empty where nothing was found by repetition."""
    last = _last_look(trials)
    if not problem.exact_by_repetition or len(data.U) < LOOKS * last["told"]:
        return last if last["told"] else {}
    from pied.study.jitter import jitter

    found = [name for name in jitter(problem, data) if name in problem.exact_by_repetition]
    return {"told": len(data.U), "outputs": sorted({*last["outputs"], *found})}


def _last_look(trials: Sequence[Trial]) -> dict[str, Any]:
    """Return how many points were told at the last look for scatter, and which outputs scattered."""
    looks = (trial.why.memory.get("scatter") for trial in reversed(trials) if not trial.is_added)
    return next((each for each in looks if each), {"told": 0, "outputs": []})


def _by_settings(trials: Sequence[Trial]) -> list[list[Trial]]:
    """Return the told trials whose settings were repeated, those of the same settings together."""
    groups: dict[tuple[float, ...], list[Trial]] = defaultdict(list)
    for trial in trials:
        if trial.y is not None and trial.state in KNOWN:
            groups[tuple(raw(trial.x))].append(trial)
    return [group for group in groups.values() if len(group) > 1]


def _values(group: Sequence[Trial], j: int) -> tuple[list[float], bool]:
    """Return the values of an output in trials of the same settings, and whether any of them was proposed."""
    told = [(raw(trial.y)[j], trial.is_added) for trial in group if trial.y is not None]
    known = [(value, is_added) for value, is_added in told if value == value]
    return [value for value, _ in known], any(not is_added for _, is_added in known)


def _is_fine(value: float, deviation: float) -> bool:
    """Tell whether the last digit of a value is small enough: its place value is 0.01 for 3.25, 100 for 1500."""
    if not value or not math.isfinite(value):
        return False
    place = 10.0 ** int(Decimal(repr(float(value))).normalize().as_tuple().exponent)
    return bool(place <= RESOLVED * min(deviation, abs(value)))
