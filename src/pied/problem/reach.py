"""What no values within the box and the ranges of the outputs can do: meet a limit, or exceed a value; proofs."""

from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from numpy import ndarray

from pied.errors import SettingError
from pied.problem.intervals import NoBounds, bounds
from pied.problem.problem import Problem
from pied.problem.program import Program
from pied.shapes import Float64

MOST_BOXES = 4096
"""Boxes that one proof may look at: enough for functions of one to three numbers; others are left to the study."""
CERTAIN = 1e-6
"""Relative to the size of a function: a limit that is missed by less may be met by rounding or tolerance."""


@dataclass(frozen=True)
class Unreachable:
    """A limit that no value meets."""

    name: str
    missed: float
    """By how much the value that comes nearest misses it, as far as was seen; natural units."""
    is_white: bool
    """Whether it depends on the variables alone."""

    def __str__(self) -> str:
        where = "within the ranges of the variables" if self.is_white else "within the ranges of variables and outputs"
        return (
            f"'{self.name}' cannot be met: {where} it is missed by {self.missed:.4g} at least. Check the limit and its "
            f"unit{'' if self.is_white else ', and the ranges'}."
        )


def enclosed(
    problem: Problem, X: Float64[ndarray, "b v"], low: Float64[ndarray, "b m"], high: Float64[ndarray, "b m"]
) -> tuple[Float64[ndarray, "b k"], Float64[ndarray, "b k"]]:
    """Return bounds of objective and constraints at points whose outputs lie between two ends, infinite if unknown.

    Args:
        problem: The white box; what is no program of it has no bounds.
        X: Points, natural units.
        low: Lower ends of the outputs, those that are not known at all minus infinity.
        high: Their upper ends.
    """
    ends = np.full((2, len(X), problem.k), np.inf)
    ends[0] *= -1.0
    for place in range(problem.k):
        door = problem.door(place)
        if isinstance(door, Program):
            with suppress(NoBounds):
                found = np.stack(bounds(door, (X, X), (low, high)))
                ends[..., place] = found if problem.has_sign(place) > 0 else -found[::-1]
    return ends[0], ends[1]


def unreachable(problem: Problem) -> list[Unreachable]:
    """Return the constraints that, each alone, no values of variables and outputs meet; only what is proved."""
    found = []
    for place in range(1, problem.k):
        door = problem.door(place)
        if isinstance(door, Program):
            missed = _missed(problem, place, door)
            if missed is not None:
                found.append(Unreachable(problem.functions[place], missed, place in problem.white))
    return found


def over_boxes(
    problem: Problem, place: int, x: tuple[Float64[ndarray, "b v"], Float64[ndarray, "b v"]], y: tuple[ndarray, ndarray]
) -> tuple[Float64[ndarray, "b"], Float64[ndarray, "b"]]:
    """Return bounds of one function over boxes of variables and outputs, in the paper's form.

    Raises:
        SettingError: If the function is no formula, or has an operation of which no bounds are known.
    """
    door = problem.door(place)
    try:
        if not isinstance(door, Program):
            raise NoBounds("a function that is called")
        low, high = bounds(door, x, y)
    except NoBounds as error:
        raise SettingError(
            f"'{problem.functions[place]}' cannot be bounded over boxes ({error}): give it as a formula"
        ) from error
    return (low, high) if problem.has_sign(place) > 0 else (-high, -low)


def _missed(problem: Problem, place: int, program: Program) -> float | None:
    """Return by how much a limit is missed at best, if it is proved that nothing meets it; else None."""
    d, tolerance = len(problem.variables), problem.tolerance[place - 1] or 0.0
    ends = np.concatenate([problem.bounds, problem.ranges])
    low, high = ends[None, :, 0], ends[None, :, 1]
    splits = _splits(problem, place)
    nearest, looked, size = np.inf, 0, 0.0
    while len(low):
        seen = _values(program, low, high, d)
        if (seen >= -tolerance).any():
            return None
        nearest = min(nearest, -float(np.nanmax(seen, initial=-np.inf)))
        try:
            _, most = bounds(program, (low[:, :d], high[:, :d]), (low[:, d:], high[:, d:]))
        except NoBounds:
            return None
        size = max(size, float(np.abs(seen[np.isfinite(seen)]).max(initial=0.0)))
        left = ~(most < -tolerance - CERTAIN * size)
        looked += len(low)
        low, high = low[left], high[left]
        if looked + 2 * len(low) > MOST_BOXES or (len(low) and not len(splits)):
            return None
        low, high = _halved(low, high, splits, ends)
    return nearest if np.isfinite(nearest) else None


def ceiling(problem: Problem) -> float:
    """Return what the objective cannot exceed within the ranges of variables and outputs; infinite if that is open."""
    program = problem.door(0)
    if not isinstance(program, Program):
        return np.inf
    d, splits = len(problem.variables), _splits(problem, 0)
    ends = np.concatenate([problem.bounds, problem.ranges])
    low, high = ends[None, :, 0], ends[None, :, 1]
    highest, reached, looked = -np.inf, -np.inf, 0
    while True:
        try:
            least, most = bounds(program, (low[:, :d], high[:, :d]), (low[:, d:], high[:, d:]))
        except NoBounds:
            return np.inf
        most = -least if problem.minimizes else most  # the program is the objective as it was stated
        seen = problem.user_value(1.0) * _values(program, low, high, d)
        reached = max(reached, float(np.nanmax(seen, initial=-np.inf)))
        left = ~(most <= reached)
        highest, looked = max(highest, float(most[~left].max(initial=-np.inf))), looked + len(low)
        if not left.any() or not len(splits) or np.isinf(most).any() or looked + 2 * left.sum() > MOST_BOXES:
            return max(highest, float(most.max()))
        low, high = _halved(low[left], high[left], splits, ends)


def _splits(problem: Problem, place: int) -> list[int]:
    """Return the coordinates that can be halved: variables, and outputs with two ends that the function uses."""
    closed = [j for j in problem.structure[place].outputs if np.isfinite(problem.ranges[j]).all()]
    d = len(problem.variables)
    return [*range(d), *(d + j for j in closed)]


def _halved(low: ndarray, high: ndarray, splits: list[int], ends: Float64[ndarray, "w 2"]) -> tuple[ndarray, ndarray]:
    """Halve every box along its relatively longest side."""
    if not len(low):
        return low, high
    width = ends[splits, 1] - ends[splits, 0]
    side = np.array(splits)[((high[:, splits] - low[:, splits]) / width).argmax(1)]
    rows = np.arange(len(low))
    middle = 0.5 * (low[rows, side] + high[rows, side])
    upper, lower = low.copy(), high.copy()
    upper[rows, side], lower[rows, side] = middle, middle
    return np.concatenate([low, upper]), np.concatenate([lower, high])


def _values(program: Program, low: ndarray, high: ndarray, d: int) -> Float64[ndarray, "b"]:
    """Return the function at the middles and two corners of boxes; an open side counts from its end, or 0."""
    open_low, open_high = np.isinf(low), np.isinf(high)
    first = np.where(open_low, np.where(open_high, 0.0, high - 1.0), low)
    last = np.where(open_high, np.where(open_low, 0.0, low + 1.0), high)
    points = np.concatenate([0.5 * (first + last), first, last])
    return np.ravel(program.values(points[:, :d], points[None, :, d:]))
