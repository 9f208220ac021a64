"""Settings with the fewest digits that lose nothing, where people set them and outputs have noise.

A program takes all digits, and exact outputs deserve them: there, proposals stay as the search found them.
"""

import math
from collections.abc import Callable, Mapping

import numpy as np
from numpy import ndarray

from pied.problem import SAME, Problem, Variable
from pied.shapes import Bool, Float64

FINEST = 6  # digits of a range, at most, below which a setting keeps all of its digits
OF_DESIGN = 3  # digits of a range that a point of the initial design has; with two, edges were found later


def written(
    problem: Problem,
    u: Float64[ndarray, "d"],
    fine: Callable[[Float64[ndarray, "c d"]], Bool[ndarray, "c"]],
    *,
    coarsest: int = 1,
) -> Float64[ndarray, "d"]:
    """Return a point moved to numbers with as few digits as possible; where people do not set it, the same point.

    Args:
        problem: The statement.
        u: The point that a search or a design found.
        fine: Tells which points lose nothing.
        coarsest: Digits of a range that are always kept.
    """
    if problem.blackbox is not None or problem.is_exact or problem.candidates is not None:
        return u
    free = dict(zip(problem.axes, problem.is_free.tolist(), strict=True))
    places = {
        place: each
        for place, (name, each) in enumerate(problem.variables.items())
        if free.get(name) and not (each.is_stepped or each.is_listed or each.observed)
    }

    def first(X: Float64[ndarray, "c v"]) -> Float64[ndarray, "v"] | None:
        U = problem.to_unit(X)
        is_kept = (np.abs(problem.on_equalities(U) - U) <= SAME).all(1)  # others than linear ones move points back
        rows = np.flatnonzero(is_kept & problem.settable(problem.from_unit(U)))
        rows = rows[fine(U[rows])] if len(rows) else rows
        return X[rows[0]] if len(rows) else None

    x = first(_together(problem.natural(u), places, coarsest))
    if x is None:
        return u
    for place, each in places.items():  # one alone may need fewer
        numbers = [_rounded(each, x[place], digits, 0) for digits in range(coarsest, FINEST)]
        fewer = first(np.stack([np.where(np.arange(len(x)) == place, number, x) for number in numbers]))
        x = x if fewer is None else fewer
    return problem.to_unit(x)


def _together(x: Float64[ndarray, "v"], places: Mapping[int, Variable], coarsest: int) -> Float64[ndarray, "c v"]:
    """Return candidates, coarse ones first: the nearest numbers, then those with one of them rounded the other way."""
    found = []
    for digits in range(coarsest, FINEST + 1):
        nearest = x.copy()
        for place, each in places.items():
            nearest[place] = _rounded(each, x[place], digits, 0)
        found.append(nearest)
        for place, each in places.items():
            other = nearest.copy()
            other[place] = _rounded(each, x[place], digits, 1 if nearest[place] < x[place] else -1)
            found.append(other)
    return np.array(found)


def _rounded(variable: Variable, x: float, digits: int, side: int) -> float:
    """Return a number with so many digits of its range, or of itself on a logarithmic axis; ends stay as stated.

    Args:
        variable: The variable.
        x: Its value.
        digits: How many.
        side: 0 for the nearest number, 1 for one above, -1 for one below.
    """
    lo, hi = float(variable.lo), float(variable.hi)
    if x in (lo, hi):
        return x
    decimals = digits - math.floor(math.log10(abs(x) if variable.log else hi - lo)) - 1
    grain = 10.0**-decimals
    near = x if side == 0 else grain * (math.floor(x / grain) + (side > 0))
    return min(max(round(near, decimals), lo), hi)
