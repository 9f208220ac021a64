"""What the belief of a study says, as arrays: cuts through the recommended point, and predictions of measurements."""

from dataclasses import dataclass

import numpy as np
from numpy import ndarray

from pied.errors import NotYet
from pied.problem import Box
from pied.rng import Stream
from pied.shapes import Float64, Int64
from pied.study import Snapshot, Study

CUT_POINTS = 61
"""Points along a cut."""
IMPORTANCE_POINTS = 128
"""Points at which the importance of variables is estimated, per variable: its second digit is not shown."""
CONSTANT = 1e-9
"""In largest absolute values: a smaller variation is none."""
MOST_LEVELS = 100
"""Values of a variable that are drawn one by one; steps of more are too fine to be seen."""


@dataclass(frozen=True, eq=False)
class Cut:
    """Bounds of all functions along one variable, the others as recommended, less those that equalities determine.

    Example: `docs/recipes.md`.
    """

    name: str
    """The variable."""
    at: float
    """Its recommended value; of a choice, the place of its label."""
    along: Float64[ndarray, "q"]
    """Its values, natural units; of a choice, the places of the labels."""
    lower: Float64[ndarray, "q k"]
    median: Float64[ndarray, "q k"]
    upper: Float64[ndarray, "q k"]
    """Functions there: the objective with the user's sign, constraints as the quantity that is limited, where there is
    one, else as their value, met when >= 0. NaN where a variable that an equality determines leaves its range."""
    labels: tuple[str, ...] = ()
    """Of a choice."""
    is_stepped: bool = False
    """Whether nothing lies between the values."""
    follows: tuple[str, ...] = ()
    """Variables that change with it, because equalities determine them."""
    outputs: tuple[Float64[ndarray, "q m"], Float64[ndarray, "q m"], Float64[ndarray, "q m"]] | None = None
    """Lower end, median and upper end of measurements of each output, their noise included; None unless wanted."""


@dataclass(frozen=True, eq=False)
class Predictions:
    """Each measurement, and what all others predict for it; NaN where there is none.

    Example: `docs/recipes.md`.
    """

    numbers: Int64[ndarray, "N"]
    """Numbers of the trials."""
    measured: Float64[ndarray, "N m"]
    lower: Float64[ndarray, "N m"]
    middle: Float64[ndarray, "N m"]
    upper: Float64[ndarray, "N m"]
    """Prediction with its ends, noise included."""

    def inside(self, output: int) -> tuple[int, int]:
        """Return how many measurements of an output lie within their ends, and how many were predicted."""
        y = self.measured[:, output]
        known = np.isfinite(y) & np.isfinite(self.middle[:, output])
        held = known & (self.lower[:, output] <= y) & (y <= self.upper[:, output])
        return int(held.sum()), int(known.sum())

    def error(self, output: int) -> float:
        """Return the root mean square error of the predictions of an output."""
        away = (self.measured - self.middle)[:, output]
        known = away[np.isfinite(away)]
        return float(np.sqrt(np.square(known).mean())) if len(known) else float("nan")


def cuts(
    study: Study | Snapshot,
    *,
    at: Float64[ndarray, "d"] | None = None,
    with_outputs: bool = False,
    size: int = CUT_POINTS,
) -> list[Cut]:
    """Return the bounds of all functions along each variable that can be chosen, through one point.

    Example: `docs/recipes.md`.

    Args:
        study: The study, or one moment of it.
        at: The point, unit cube; by default the recommended one.
        with_outputs: Whether to return measurements of the outputs, too.
        size: Points along a cut.
    """
    problem, snapshot = study.problem, study.snapshot
    _check(study)
    if at is None:
        best = snapshot.recommend(None)
        if best is None:
            raise NotYet("a cut goes through the recommended point: tell at least two complete evaluations first")
        at = best.u
    composite, limits = snapshot.composite("cuts"), problem.limits()
    found = []
    names = list(problem.variables)
    lowest, highest = problem.bounds.T
    slack = 1e-9 * (highest - lowest)
    for place, (name, variable) in enumerate(problem.axes.items()):
        levels = variable.levels() if variable.is_stepped else []
        is_stepped = 0 < len(levels) <= MOST_LEVELS
        steps = Box.of([variable]).to_unit(np.array(levels)[:, None])[:, 0] if is_stepped else np.linspace(0, 1, size)
        U = np.tile(at, (len(steps), 1))
        U[:, place] = steps
        lower, median, upper = composite.bounds(U, snapshot.level)
        ends = [each.copy() for each in (lower, median, upper)]
        for each in ends:
            each[:, 0] *= problem.user_value(1.0)
            for i, constraint in enumerate(problem.constraints, 1):
                if constraint in limits:
                    limit = limits[constraint]
                    each[:, i] = limit.value + (-each[:, i] if limit.is_upper else each[:, i])
        low, high = np.minimum(ends[0], ends[2]), np.maximum(ends[0], ends[2])
        X = problem.from_unit(U)
        outside = (np.maximum(lowest - X, X - highest) > slack).any(1)
        for each in (low, ends[1], high):
            each[outside] = np.nan
        column = names.index(name)
        follows = tuple(
            other for j, other in enumerate(names) if other not in problem.axes and np.ptp(X[:, j]) > slack[j]
        )
        here = float(problem.natural(at)[column])
        along = np.array(levels) if is_stepped else X[:, column]
        told = snapshot.expected(X) if with_outputs else None
        found.append(Cut(name, here, along, low, ends[1], high, variable.labels, is_stepped, follows, told))
    return found


def importance(study: Study | Snapshot) -> tuple[Float64[ndarray, "m d"], Float64[ndarray, "k d"]]:
    """Return which variables matter for which output and which function: shares of the variation they take part in.

    This is Sobol's total index of the expected value within the ranges, by Jansen's estimator: 1 if everything depends
    on the variable, 0 if nothing does. Rows of constant outputs and functions are 0.

    Example: `docs/recipes.md`.
    """
    _check(study)
    problem, snapshot = study.problem, study.snapshot
    pair = Stream(0).at("importance").sobol(IMPORTANCE_POINTS, 2 * problem.d)
    base, other = pair[:, : problem.d], pair[:, problem.d :]
    blocks = [base]
    for j in range(problem.d):
        blocks.append(base.copy())
        blocks[-1][:, j] = other[:, j]
    U = np.concatenate(blocks)
    U = U if problem.grid is None else problem.grid.snapped(U)
    outputs = snapshot.expected(problem.from_unit(U))[1]
    functions = snapshot.composite("importance").bounds(U, snapshot.level)[1]
    return _shares(outputs, problem.d), _shares(functions, problem.d)


def _shares(values: Float64[ndarray, "b f"], d: int) -> Float64[ndarray, "f d"]:
    """Return Jansen's estimate from values at the base points and at those with one coordinate replaced."""
    parts = np.where(np.isfinite(values), values, 0.0).reshape(d + 1, -1, values.shape[1])
    variance = parts.reshape(-1, values.shape[1]).var(0)
    size = np.abs(parts).max((0, 1))
    half = 0.5 * np.square(parts[1:] - parts[0]).mean(1)
    return np.where(variance > (CONSTANT * size) ** 2, half / np.maximum(variance, 1e-300), 0.0).T.clip(0.0, 1.0)


def predictions(study: Study | Snapshot) -> Predictions:
    """Return what all other measurements predict for each one.

    Example: `docs/recipes.md`.
    """
    _check(study)
    data = study.snapshot.data
    lower, middle, upper = study.snapshot.left_out
    return Predictions(np.array(data.numbers, dtype=np.int64), data.Y, lower, middle, upper)


def _check(study: Study | Snapshot) -> None:
    """Refuse a study without a belief."""
    if int(study.data.complete.sum()) < 2:
        raise NotYet("this picture needs a belief: tell at least two complete evaluations first")
