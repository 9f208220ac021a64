"""Equalities that are known exactly: linear ones are solved for, others are held by moving points onto them.

A linear equality, `a + b + c == 1`, determines one of its variables. That variable is no coordinate of the unit cube:
it is computed from the others, so every proposal meets the equality, and its bounds are constraints on the others.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy import ndarray

from pied.errors import StatementError
from pied.problem.formula import Formula
from pied.problem.values import number
from pied.problem.variables import LAST_STEP, Variable
from pied.rng import Stream
from pied.shapes import Bool, Float64, Int

TRIED = 8
"""Points at which the slopes of an equality are compared: a linear one has the same everywhere."""
ROUNDING = 1e-10
"""Relative to the size of its terms: difference that counts as rounding."""
SMALLEST_PIVOT = 1e-9
"""Of the largest term of an equality: a variable that counts for less cannot be solved for."""
SNAPPED = 1e-12
"""Of a variable's width: a solved variable this near to its bound is put on it."""
NEAR_ENOUGH = 1e-9
"""Of the size of its sides: room that an equality gets which is not linear; points are moved onto it more exactly."""
KEPT = 1e-6
"""Weight of a variable that should stay a coordinate, because its value is given; below that of one with steps."""
DATA_SLACK = 1e-3
"""Of the width of a solved variable: how far data may miss an equality, since settings are never exact."""


@dataclass(frozen=True, eq=False)
class Solved:
    """Variables that linear equalities determine: x[places] = offset + matrix x[free]."""

    free: Int[ndarray, "d"]
    """Places of the variables that are coordinates."""
    places: Int[ndarray, "r"]
    """Places of the determined ones."""
    matrix: Float64[ndarray, "r d"]
    offset: Float64[ndarray, "r"]
    bounds: Float64[ndarray, "v 2"]
    """Lower and upper end of every variable."""
    names: tuple[str, ...]
    """Names of the equalities."""
    low: Float64[ndarray, "d"] | None = None
    """Lower ends of the coordinates in the unit cube, on a slice; None: 0."""
    high: Float64[ndarray, "d"] | None = None
    """Upper ends; None: 1."""

    def completed(self, X: Float64[ndarray, "*b d"]) -> Float64[ndarray, "*b v"]:
        """Return whole points from the coordinates that are free, natural units."""
        made = np.empty((*X.shape[:-1], len(self.bounds)))
        made[..., self.free] = X
        found = self.offset + X @ self.matrix.T
        low, high = self.bounds[self.places].T
        slack = SNAPPED * (high - low)
        found = np.where(np.abs(found - low) <= slack, low, np.where(np.abs(found - high) <= slack, high, found))
        made[..., self.places] = found
        return made

    def by_free(self, by_x: Float64[ndarray, "*b v"]) -> Float64[ndarray, "*b d"]:
        """Return slopes by the free variables from those by all."""
        return by_x[..., self.free] + by_x[..., self.places] @ self.matrix

    def missed(self, X: Float64[ndarray, "v"]) -> Float64[ndarray, "r"]:
        """Return by how much each determined variable of a given point misses its equality."""
        return X[self.places] - (self.offset + self.matrix @ X[self.free])

    @cached_property
    def _inequalities(self) -> tuple[Float64[ndarray, "s d"], Float64[ndarray, "s"]]:
        """The bounds of the determined variables, A u <= b for coordinates of the unit cube (as if none were log)."""
        low, high = self.bounds[self.free].T
        own = self.matrix * (high - low)
        base = self.offset + self.matrix @ low
        least, most = self.bounds[self.places].T
        return np.concatenate([own, -own]), np.concatenate([most - base, base - least])

    @cached_property
    def centre(self) -> Float64[ndarray, "d"] | None:
        """The point of the unit cube that is farthest from all bounds; None if they leave no point."""
        from scipy.optimize import linprog  # loaded for equalities alone

        A, b = self._inequalities
        d = A.shape[1]
        low = np.zeros(d) if self.low is None else self.low
        high = np.ones(d) if self.high is None else self.high
        is_free = low < high  # a coordinate with one value is on its ends wherever the centre is
        sizes = np.linalg.norm(A[:, is_free], axis=1)
        own = np.eye(d)[is_free]
        rows = np.concatenate([A, own, -own])
        ends = np.concatenate([b if is_free.all() else b + SNAPPED, high[is_free], -low[is_free]])
        margin = np.concatenate([sizes, np.ones(2 * len(own))])
        bounds = [(None, None) if low[j] < high[j] else (low[j], low[j]) for j in range(d)]
        found = linprog(
            np.append(np.zeros(d), -1.0), np.column_stack([rows, margin]), ends, bounds=[*bounds, (0, None)]
        )
        return np.clip(found.x[:d], low, high) if found.status == 0 else None

    def inside(self, U: Float64[ndarray, "b d"], stream: Stream) -> Float64[ndarray, "b d"]:
        """Move points whose determined variables leave their bounds towards the centre, to random places inside.

        What no determined variable depends on, a label for one, stays as it is.
        """
        A, b = self._inequalities
        centre = self.centre
        if centre is None or not len(U):
            return U
        room = np.maximum(b - A @ centre, 0.0)
        rise = (U - centre) @ A.T
        with np.errstate(all="ignore"):
            reach = np.where(rise > 1e-14, room / rise, np.inf).min(1)
        outside = reach < 1.0
        matters = A.any(0)
        shrink = np.clip(reach, 0.0, 1.0) * stream.uniform(len(U)) ** (1.0 / max(1, matters.sum()))
        return np.where(outside[:, None] & matters, centre + shrink[:, None] * (U - centre), U)


def linear_row(formula: Formula, variables: Mapping[str, Variable]) -> tuple[Float64[ndarray, "v"], float] | None:
    """Return the coefficients a and the right side c if the formula is a x - c; None if it is not linear."""
    bounds = np.array([[each.lo, each.hi] for each in variables.values()])
    part = 0.05 + 0.9 * Stream(0).at("equality").uniform(TRIED, len(bounds))
    X = bounds[:, 0] + part * (bounds[:, 1] - bounds[:, 0])
    with np.errstate(all="ignore"):
        values, back = formula.program.traced(X, np.zeros((1, TRIED, max(1, len(formula.scope.outputs)))))
        slopes, _ = back(np.ones(values.shape))
    values = values.reshape(-1, TRIED)[0]
    if not (np.isfinite(values).all() and np.isfinite(slopes).all()):
        return None
    row = slopes[0]
    size = float((np.abs(slopes) * np.abs(X)).sum(1).max()) + float(np.abs(values).max())
    is_linear = (np.abs(slopes - row) * (bounds[:, 1] - bounds[:, 0])).max() <= ROUNDING * max(size, 1e-300)
    rest = values - X @ row
    if not is_linear or np.abs(rest - rest[0]).max() > ROUNDING * size or not row.any():
        return None
    labelled = np.array([each.is_choice for each in variables.values()])
    return None if row[labelled].any() else (row, -float(rest.mean()))


def implied_bounds(made: Solved, names: Sequence[str]) -> list[str]:
    """Return the bounds of the determined variables that the bounds of the others do not keep, as formulas."""
    low, high = made.bounds[made.free].T
    texts = []
    for r, j in enumerate(made.places.tolist()):
        row = made.matrix[r]
        least = made.offset[r] + np.where(row > 0, row * low, row * high).sum()
        most = made.offset[r] + np.where(row > 0, row * high, row * low).sum()
        lo, hi = made.bounds[j].tolist()
        slack = SNAPPED * (hi - lo)
        texts += [f"`{names[j]}` >= {_written(lo)}"] * bool(least < lo - slack)
        texts += [f"`{names[j]}` <= {_written(hi)}"] * bool(most > hi + slack)
    return texts


def _written(value: float) -> str:
    """Return a number as a person would write it, all digits kept."""
    return repr(value).removesuffix(".0")


def solved(
    rows: Mapping[str, tuple[Float64[ndarray, "v"], float]],
    variables: Mapping[str, Variable],
    given: Sequence[str] = (),
) -> Solved | None:
    """Solve linear equalities for some of the variables, others than given ones if possible; None if there are none.

    Raises:
        StatementError: When they contradict each other or the bounds, or leave no variable to choose.
    """
    if not rows:
        return None
    kinds, names = list(variables.values()), list(variables)
    bounds = np.array([[each.lo, each.hi] for each in kinds])
    for name, (row, target) in rows.items():
        _check_reach(name, row, target, bounds)
    wide = bounds[:, 1] - bounds[:, 0]
    favour = np.array([1.0 if not each.is_stepped else 1e-3 for each in kinds])  # what has steps stays a coordinate
    favour *= np.array([KEPT if name in given else 1.0 for name in names])
    A = np.array([row for row, _ in rows.values()])
    c = np.array([target for _, target in rows.values()])
    chosen: list[int] = []
    kept = []
    for i, name in enumerate(rows):
        size = float((np.abs(A[i]) * np.abs(bounds).max(1)).sum()) + abs(c[i])
        weight = np.abs(A[i]) * wide * favour
        j = int(weight.argmax())
        if not np.abs(A[i]).max() * float(wide[np.abs(A[i]).argmax()]) > SMALLEST_PIVOT * max(size, 1e-300):
            if abs(c[i]) > ROUNDING * max(1.0, float(np.abs(c).max())):
                raise StatementError(f"The equality '{name}' contradicts the others: no values meet all of them.")
            continue  # it follows from the others
        c[i], A[i] = c[i] / A[i, j], A[i] / A[i, j]
        for other in range(len(A)):
            if other != i and A[other, j]:
                c[other], A[other] = c[other] - A[other, j] * c[i], A[other] - A[other, j] * A[i]
                A[other, j] = 0.0
        chosen.append(j)
        kept.append(i)
    free = np.array([j for j in range(len(names)) if j not in chosen], dtype=int)
    if not len(free):
        raise StatementError("The equalities leave nothing to choose: they determine every variable.")
    made = Solved(free, np.array(chosen), -A[kept][:, free], c[kept], bounds, tuple(rows))
    for r, j in enumerate(chosen):
        if kinds[j].is_stepped and not _is_on_steps(made, r, kinds):
            raise StatementError(
                f"'{names[j]}' follows from '{tuple(rows)[kept[r]]}', and its steps cannot be kept: leave the step of "
                "one variable of this equality out, or make the steps fit together."
            )
    if made.centre is None:
        said = ", ".join(f"'{name}'" for name in rows)
        raise StatementError(f"No values within the bounds of the variables meet {said}: check bounds and equalities.")
    return made


def _check_reach(name: str, row: Float64[ndarray, "v"], target: float, bounds: Float64[ndarray, "v 2"]) -> None:
    """Refuse an equality whose two sides cannot be equal anywhere within the bounds."""
    low = float(np.where(row > 0, row * bounds[:, 0], row * bounds[:, 1]).sum())
    high = float(np.where(row > 0, row * bounds[:, 1], row * bounds[:, 0]).sum())
    slack = ROUNDING * (abs(low) + abs(high))
    if not low - slack <= target <= high + slack:
        raise StatementError(
            f"The equality '{name}' cannot hold: within the bounds of the variables its terms add up to between "
            f"{low:.6g} and {high:.6g}, and {target:.6g} is needed."
        )


def _is_on_steps(made: Solved, r: int, kinds: Sequence[Variable]) -> bool:
    """Tell whether a determined variable lies on its own steps wherever the others lie on theirs."""
    own = kinds[int(made.places[r])]
    levels = own.levels()
    width = levels[1] - levels[0]
    if own.only is not None or own.is_choice:
        return False
    start = made.offset[r]
    for j, factor in zip(made.free.tolist(), made.matrix[r].tolist(), strict=True):
        if factor:
            other = kinds[j]
            if not other.is_stepped or other.only is not None:
                return False
            steps = other.levels()
            start += factor * steps[0]
            if not _is_whole(factor * (steps[1] - steps[0]) / width):
                return False
    return _is_whole((start - levels[0]) / width)


def _is_whole(value: float) -> bool:
    return bool(abs(value - round(value)) <= 1e3 * LAST_STEP)


def sorted_out(
    groups: Mapping[str, list[tuple[str, Any]]], variables: Mapping[str, Variable], tolerance: Any, *, solve: bool
) -> tuple[dict[str, list[tuple[str, Any]]], dict[str, tuple[Float64[ndarray, "v"], float]], dict[str, str]]:
    """Sort the equalities out of the constraints.

    Args:
        groups: The constraints by the names that the user gave, each with its parts.
        variables: All variables.
        tolerance: As the user gave it.
        solve: Whether linear equalities are solved for; not with a list of candidates.

    Returns:
        The constraints that are left, in which equalities have the room that they need; the linear equalities as rows;
        the texts of these.
    """
    left, rows, texts = {}, {}, {}
    for name, group in groups.items():
        first = group[0][1]
        if not (isinstance(first, Formula) and first.is_equality):
            left[name] = group
            continue
        stated = tolerance.get(name) if isinstance(tolerance, Mapping) else tolerance
        other = group[1][1]
        if first.uses_outputs:
            if not stated:
                raise StatementError(
                    f"'{name}' asks an output for one value, which no measurement meets exactly: say how near is near "
                    f"enough, tolerance={{'{name}': 0.01}}."
                )
            room = number(stated, f"tolerance of '{name}'", StatementError)
        else:
            row = linear_row(other, variables) if solve else None
            if row is not None:
                rows[name], texts[name] = row, first.text
                continue
            room = NEAR_ENOUGH * _size(first, variables)
        left[name] = [(part, Formula(each.text, each.scope, each.part, room)) for part, each in group]
    return left, rows, texts


def _size(formula: Formula, variables: Mapping[str, Variable]) -> float:
    """Return how large the difference of the sides of an equality is within the bounds."""
    bounds = np.array([[each.lo, each.hi] for each in variables.values()])
    X = bounds[:, 0] + Stream(0).at("size").uniform(64, len(bounds)) * (bounds[:, 1] - bounds[:, 0])
    with np.errstate(all="ignore"):
        values = np.abs(formula.program.values(X, np.zeros((1, 64, max(1, len(formula.scope.outputs))))))
    fine = values[np.isfinite(values)]
    return float(np.median(fine)) if len(fine) and fine.max() > 0 else 1.0


@dataclass(frozen=True)
class Mixture:
    """Variables that add up to a total, such as the fractions of a blend.

    `variables={"blend": Mixture("water", "glycol", "salt", total=1, bounds={"salt": (0, 0.2)}), "T": (20, 80)}` has the
    variables water, glycol, salt and T. Parts without bounds of their own go from 0 to the total.

    Example: `docs/guide-spaces.md`.
    """

    parts: tuple[str, ...]
    total: float
    variables: Mapping[str, Variable]
    """The parts with their bounds."""

    def __init__(
        self, *parts: str, total: float | int = 1.0, bounds: Mapping[str, Any] | None = None, unit: str = ""
    ) -> None:
        """State a mixture.

        Args:
            parts: Names of the variables.
            total: What they add up to.
            bounds: Ends of some parts, `(lo, hi)`, or variables of their own, with a step for instance.
            unit: Shown beside the values.
        """
        if len(parts) < 2:
            raise StatementError("A mixture needs at least two parts: Mixture('water', 'glycol').")
        twice = [part for part in parts if parts.count(part) > 1]
        if twice:
            raise StatementError(f"'{twice[0]}' is a part of the mixture twice: leave one out.")
        if isinstance(total, bool) or not isinstance(total, int | float) or not 0 < total < float("inf"):
            raise StatementError(f"The total of a mixture is a number above 0, got {total!r}.")
        given = dict(bounds or {})
        for name in given:
            if name not in parts:
                raise StatementError(f"'{name}' has bounds but is no part of the mixture.")
        made = {}
        for part in parts:
            own = given.get(part, (0.0, total))
            made[part] = own if isinstance(own, Variable) else Variable(*own, unit=unit)
        object.__setattr__(self, "parts", tuple(parts))
        object.__setattr__(self, "total", float(total))
        object.__setattr__(self, "variables", made)

    @property
    def formula(self) -> str:
        """The equality."""
        return " + ".join(f"`{part}`" for part in self.parts) + f" == {self.total!r}"


@np.errstate(all="ignore")
def moved_onto(
    residuals: Any,
    U: Float64[ndarray, "b d"],
    is_free: Bool[ndarray, "d"],
    low: Float64[ndarray, "d"],
    high: Float64[ndarray, "d"],
    rounds: int = 30,
) -> Float64[ndarray, "b d"]:
    """Move points of the unit cube onto equalities that are not linear: Gauss-Newton steps, within a box.

    Args:
        residuals: From points to the residuals `b e` (each divided by its scale) and their slopes `b e d`.
        U: The points.
        is_free: Which coordinates may be moved.
        low: Lower ends of the box.
        high: Upper ends.
        rounds: Most steps.
    """
    best, U = U.copy(), U.copy()
    least = np.full(len(U), np.inf)
    for turn in range(rounds):
        r, J = residuals(U)
        size = np.abs(r).max(1)
        better = np.nan_to_num(size, nan=np.inf) < least
        best[better], least[better] = U[better], size[better]
        if not (least > 1e-13).any():
            break
        can_move = (
            is_free & ~(((low >= U) | (high <= U)) & (turn % 3 == 1))[..., :]
        )  # now and then not those on a bound
        J = np.where(np.isfinite(J), J, 0.0) * can_move[:, None, :]
        JJ = J @ J.swapaxes(1, 2)
        ridge = 1e-14 * np.maximum(np.trace(JJ, axis1=1, axis2=2), 1e-300)
        JJ[:, np.arange(JJ.shape[1]), np.arange(JJ.shape[1])] += ridge[:, None]
        step = (J.swapaxes(1, 2) @ np.linalg.solve(JJ, np.nan_to_num(r)[..., None]))[..., 0]
        longest = np.abs(step).max(1, keepdims=True)
        U = np.clip(U - step * np.minimum(1.0, 0.5 / np.maximum(longest, 1e-300)), low, high)
    return best
