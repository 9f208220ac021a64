"""What the pictures of a study show, as arrays: values, gaps, and the feasible region of two variables."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy import ndarray

from pied.errors import NotYet, SettingError, did_you_mean
from pied.problem import Box, Problem, Variable
from pied.records import Dataset, State, Trial, feasible, spread
from pied.shapes import Bool, Float64, Int64
from pied.study import Snapshot, Study, gap, tops

HELD_AT_ZERO = 1e-6
"""Of an upper bound: the search holds a lower bound at zero to this precision, so one this far below zero counts as
met."""
GRID_POINTS = 81
"""Points per side of a region: its boundary is drawn to about a hundredth of the box."""

Truth = Callable[[Float64[ndarray, "b d"]], Float64[ndarray, "b k"]]
"""All functions at points in natural units, in the paper's form; `Benchmark.truth` is one."""


@dataclass(frozen=True, eq=False)
class History:
    """Value of each evaluation, in the user's sense and units.

    Example: `docs/recipes.md`.
    """

    numbers: Int64[ndarray, "t"]
    """Numbers of the trials."""
    values: Float64[ndarray, "t"]
    """Objective as told; NaN where the trial failed, is pending or lacks an output that the objective needs."""
    is_feasible: Bool[ndarray, "t"]
    """Whether the told outputs meet all constraints."""
    best: Float64[ndarray, "t"]
    """Best feasible value so far; NaN before the first."""


@dataclass(frozen=True, eq=False)
class Gaps:
    """Gap after each trial, from the record alone.

    Example: `docs/recipes.md`.
    """

    numbers: Int64[ndarray, "t"]
    """Numbers of the trials."""
    gap: Float64[ndarray, "t"]
    """Natural units; NaN before the first optimistic optimum, infinite while no value is certain, or where it would be
    so large that it says nothing."""


@dataclass(frozen=True, eq=False)
class Region:
    """Bounds of the constraints over the box of two variables; rows follow the second variable.

    Example: `docs/recipes.md`.
    """

    names: tuple[str, str]
    """The variables, across and up."""
    across: Float64[ndarray, "q"]
    up: Float64[ndarray, "q"]
    """Grid, natural units; of a choice the places of its labels, from half a place before the first one."""
    pessimistic: Float64[ndarray, "q q"]
    """Smallest lower bound of the constraints, each divided by its spread: feasible at the level where it is >= 0."""
    optimistic: Float64[ndarray, "q q"]
    """Smallest upper bound, divided alike: possibly feasible where it is >= 0, excluded elsewhere."""
    objective: Float64[ndarray, "q q"]
    """The objective in the user's sense: the truth if it was given, else the median."""
    truth: Float64[ndarray, "q q"] | None = None
    """Smallest true constraint, divided alike, if the truth was given."""
    slack: Float64[ndarray, "n q q"] | None = None
    """The median of each constraint, not divided: met where it is >= 0."""


def history(problem: Problem, trials: Sequence[Trial]) -> History:
    """Return the value of each evaluation, whether it is feasible, and the best feasible value so far.

    Example: `docs/recipes.md`.
    """
    f, told = _functions(problem, trials)
    is_feasible = np.zeros(len(trials), dtype=bool)
    is_feasible[told] = feasible(problem, f)
    f0 = np.full(len(trials), np.nan)
    f0[told] = f[:, 0]
    sign = problem.user_value(1.0)
    best = np.maximum.accumulate(np.where(is_feasible, f0, -np.inf))
    return History(_numbers(trials), sign * f0, is_feasible, sign * np.where(np.isfinite(best), best, np.nan))


def gaps(problem: Problem, trials: Sequence[Trial]) -> Gaps:
    """Return the gap after each trial: the smallest upper bound of the optimum so far minus the best certain value.

    For an exact black box the certain value is the best feasible value told. With noise it is the best lower bound at
    the time of the proposal, among points whose constraints then had lower bounds >= 0. Bounds that were computed from
    a value which has been corrected or withdrawn since are left out.

    Example: `docs/recipes.md`.
    """
    correction = max((trial.corrected for trial in trials), default=0)
    given = problem.given
    trials = [trial.believed(correction).of_slice(given, same_coordinates=True) for trial in trials]
    certain = np.maximum.accumulate(_told_values(problem, trials) if problem.is_exact else _lower_bounds(trials))
    found, spans, stated = np.full(len(trials), np.nan), _spans(problem, trials), tops(trials)
    first = next((t for t, top in enumerate(stated) if top is not None), len(trials))
    for t in range(first, len(trials)):
        known = float(certain[t]) if np.isfinite(certain[t]) else None
        found[t] = gap(stated[: t + 1], known, float(spans[t]))
    return Gaps(_numbers(trials), found)


def region(
    study: Study | Snapshot,
    *,
    pair: tuple[str, str] | None = None,
    at: Float64[ndarray, "d"] | None = None,
    truth: Truth | None = None,
    size: int = GRID_POINTS,
) -> Region:
    """Return where the belief of a study considers the constraints met, possible or excluded, over two variables.

    Between two labels, integers or levels everything is as at the nearest of them.

    Example: `docs/recipes.md`.

    Args:
        study: The study, or one moment of it; at least two evaluations must have been told.
        pair: The variables, across and up; by default the two that there are.
        at: Where the other variables are held, unit cube; by default at the recommended point.
        truth: The functions themselves, if they are known.
        size: Points per side of the grid.
    """
    problem, names = study.problem, list(study.problem.axes)
    if pair is None and problem.d != 2:
        which = " that can be chosen freely" if problem.held else ""
        raise SettingError(f"a region is drawn over two variables; this problem has {problem.d}{which}")
    first, second = (names[0], names[1]) if pair is None else pair
    for name in (first, second):
        if name not in names:
            raise SettingError(f"'{name}' is not a variable that can be chosen.{did_you_mean(name, names)}")
    if first == second:
        raise SettingError(f"a map has two different variables, got '{first}' twice")
    if int(study.data.complete.sum()) < 2:
        raise NotYet("a region needs a belief: tell at least two complete evaluations first")
    (across, first_u), (up, second_u) = (_axis(problem.axes[name], size) for name in (first, second))
    snapshot = study.snapshot
    best = None if at is not None or problem.d == 2 else snapshot.recommend(None)
    held = at if at is not None else np.full(problem.d, 0.5) if best is None else best.u
    U = np.tile(np.clip(held, 0.0, 1.0), (size * size, 1))
    places = [names.index(first), names.index(second)]
    U[:, places] = np.stack(np.meshgrid(first_u, second_u), -1).reshape(-1, 2)  # rows follow the second variable
    composite, level = snapshot.composite("region"), snapshot.level
    median = composite.values(U, [0.5] * problem.k)
    lower, upper = (composite.values(U, [None] + [each] * problem.n) for each in (1.0 - level, level))  # of the limits
    spreads = spread(median)  # the same for lower and upper, which keeps their order
    X = problem.from_unit(U)
    true = truth(X) if truth is not None else None
    return Region(
        names=(first, second),
        across=across,
        up=up,
        pessimistic=_margin(lower, spreads, size),
        optimistic=_margin(upper, spreads, size),
        objective=problem.user_value(1.0) * (median if true is None else true)[:, 0].reshape(size, size),
        truth=None if true is None else _margin(true, spreads, size),
        slack=median[:, 1:].T.reshape(problem.n, size, size),
    )


def _axis(variable: Variable, size: int) -> tuple[Float64[ndarray, "q"], Float64[ndarray, "q"]]:
    """Return points along a side of a region, natural units, and the coordinates that are looked at there."""
    box = Box.of([variable])
    u = np.linspace(0.0, 1.0, size)
    if not variable.is_stepped:
        return box.from_unit(u[:, None])[:, 0], u
    if (variable.is_choice or variable.whole) and not variable.log:  # room for a whole band at both ends
        shown = np.linspace(variable.lo - 0.5, variable.hi + 0.5, size)
        u = (np.clip(np.rint(shown), variable.lo, variable.hi) - variable.lo) / (variable.hi - variable.lo)
        return shown, u
    places = box.to_unit(np.array(variable.levels())[:, None])[:, 0]
    middles = 0.5 * (places[1:] + places[:-1])
    return box.from_unit(u[:, None])[:, 0], places[np.searchsorted(middles, u)]


def _numbers(trials: Sequence[Trial]) -> Int64[ndarray, "t"]:
    return np.array([trial.number for trial in trials], dtype=np.int64)


def _functions(problem: Problem, trials: Sequence[Trial]) -> tuple[Float64[ndarray, "N k"], list[int]]:
    """Return the functions at told points, and the positions of these trials."""
    data = Dataset.of(problem, trials)
    known = set(data.numbers)
    return data.functions(problem), [position for position, trial in enumerate(trials) if trial.number in known]


def _told_values(problem: Problem, trials: Sequence[Trial]) -> Float64[ndarray, "t"]:
    """Return the value of each trial that is feasible as told, in the paper's form; minus infinity for the others."""
    f, told = _functions(problem, trials)
    found = np.full(len(trials), -np.inf)
    found[told] = np.where(feasible(problem, f), f[:, 0], -np.inf)
    return found


def _spans(problem: Problem, trials: Sequence[Trial]) -> Float64[ndarray, "t"]:
    """Return the range of the objective told up to each trial."""
    f, told = _functions(problem, trials)
    value = np.full(len(trials), np.nan)
    value[told] = np.where(np.isfinite(f[:, 0]), f[:, 0], np.nan)
    highest = np.maximum.accumulate(np.nan_to_num(value, nan=-np.inf))
    lowest = np.minimum.accumulate(np.nan_to_num(value, nan=np.inf))
    return np.maximum(highest - lowest, 0.0)


def _lower_bounds(trials: Sequence[Trial]) -> Float64[ndarray, "t"]:
    """Return the lower bound of each told point whose lower bounds met all constraints when it was proposed."""
    certain = np.full(len(trials), -np.inf)
    for t, trial in enumerate(trials):
        bounds = list(zip(trial.why.lower, trial.why.upper, strict=True))
        if trial.state is State.TOLD and bounds and all(low >= -HELD_AT_ZERO * abs(high) for low, high in bounds[1:]):
            certain[t] = bounds[0][0]
    return certain


def _margin(f: Float64[ndarray, "b k"], spreads: Float64[ndarray, "k"], size: int) -> Float64[ndarray, "q q"]:
    """Return the smallest constraint, each divided by its spread; 1 everywhere without constraints."""
    if f.shape[1] == 1:
        return np.ones((size, size))
    return (f / spreads)[:, 1:].min(1).reshape(size, size)
