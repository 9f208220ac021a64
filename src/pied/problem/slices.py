"""A slice: the points of the space with given values, where a proposal or a recommendation has to lie.

A slice is a box inside of the unit cube, thin in each coordinate whose value is given. Searches, pools, designs and
answers work in it, and the belief knows the whole cube, so measurements off the slice count fully.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy import ndarray

from pied.errors import StatementError, UnknownName, did_you_mean
from pied.problem.candidates import SAME
from pied.problem.values import number
from pied.problem.variables import LAST_STEP, Variable
from pied.shapes import Bool, Float64

ROUNDED = 1e-9
"""Relative to a variable's width: how far a given value may miss a bound, a candidate or what an equality needs."""


@dataclass(frozen=True, eq=False)
class Slice:
    """A part of the space."""

    given: dict[str, Any]
    """The given values by the names of their variables, as they are recorded; a range is a list of its two ends."""
    low: Float64[ndarray, "d"]
    """Lower ends in the unit cube."""
    high: Float64[ndarray, "d"]
    """Upper ends; equal to the lower ones where a value is given."""

    @cached_property
    def is_fixed(self) -> Bool[ndarray, "d"]:
        """Which coordinates have one value."""
        return np.asarray(self.low == self.high)

    def spread(self, U: Float64[ndarray, "*b d"]) -> Float64[ndarray, "*b d"]:
        """Map the whole unit cube onto the slice: evenly drawn points stay evenly drawn."""
        return np.where(self.is_fixed, self.low, self.low + U * (self.high - self.low))

    def clipped(self, U: Float64[ndarray, "*b d"]) -> Float64[ndarray, "*b d"]:
        """Return the nearest points of the slice."""
        return np.clip(U, self.low, self.high)

    def has(self, U: Float64[ndarray, "*b d"]) -> Bool[ndarray, "*b"]:
        """Tell which points lie on the slice."""
        return np.asarray((np.abs(self.clipped(U) - U) <= SAME).all(-1))

    def __str__(self) -> str:
        return ", ".join(said(name, value) for name, value in self.given.items())


def said(name: str, value: Any) -> str:
    """Return a given value as people write it: "T = 80", "T from 78 to 82"."""
    if isinstance(value, list | tuple):
        return f"{name} from {value[0]:.9g} to {value[1]:.9g}"
    return f"{name} = {value:.9g}" if isinstance(value, float) else f"{name} = {value}"


def ends_of(given: Mapping[str, Any], variables: Mapping[str, Variable]) -> dict[str, tuple[float, float]]:
    """Read given values; return the lower and upper end of each variable, equal where it has one value.

    Raises:
        StatementError: When a value cannot be set.
    """
    if not isinstance(given, Mapping):
        raise StatementError(f"given values come by the names of variables, {{'T': 80}}, got {given!r}.")
    ends = {}
    for name, value in given.items():
        if name not in variables:
            raise UnknownName(f"'{name}' is given, but is not a variable.{did_you_mean(name, variables)}", name)
        variable = variables[name]
        if isinstance(value, list | tuple):
            ends[name] = _range(name, value, variable)
        else:
            code = _settable(name, value, variable.read(value, f"'{name}'", StatementError), variable)
            ends[name] = (code, code)
    return ends


def _range(name: str, value: Sequence[Any], variable: Variable) -> tuple[float, float]:
    """Read a range within that of the variable."""
    if variable.is_choice:
        raise StatementError(f"'{name}' is one of {variable.span}: give one of them.")
    if len(value) != 2:
        raise StatementError(f"'{name}' should be given as one value, or as a range of two ends, got {value!r}.")
    low, high = (number(each, f"an end of '{name}'", StatementError) for each in value)
    if low > high:
        raise StatementError(f"'{name}' is given from {low:g} to {high:g}: the first end must not be above the second.")
    first, last = max(low, float(variable.lo)), min(high, float(variable.hi))
    if first > last:
        raise StatementError(f"'{name}' from {low:g} to {high:g} lies outside of its range {variable.span}.")
    if not variable.is_stepped:
        return first, last
    levels = variable.levels()
    slack = ROUNDED * (float(variable.hi) - float(variable.lo))
    inside = [each for each in levels if first - slack <= each <= last + slack]
    if not inside:
        raise StatementError(f"'{name}' from {low:g} to {high:g} has no value to be set; {_nearest(low, levels)}.")
    return inside[0], inside[-1]


def _settable(name: str, value: Any, code: float, variable: Variable) -> float:
    """Return the number of a value that can be set, or say why it cannot be."""
    if variable.is_choice:
        return code
    slack = ROUNDED * (float(variable.hi) - float(variable.lo))
    if not variable.lo - slack <= code <= variable.hi + slack:
        raise StatementError(f"'{name}' = {value!r} is outside of its range {variable.span}.")
    if not variable.is_stepped:
        return float(min(max(code, variable.lo), variable.hi))
    levels = variable.levels()
    nearest = min(levels, key=lambda each: abs(each - code))
    if abs(nearest - code) > max(LAST_STEP * (levels[1] - levels[0]), slack):
        raise StatementError(f"'{name}' = {value!r} cannot be set; {_nearest(code, levels)}.")
    return nearest


def _nearest(code: float, levels: Sequence[float]) -> str:
    """Say which values can be set near one that cannot be."""
    near = sorted(sorted(levels, key=lambda each: abs(each - code))[:2])
    return f"the nearest values that can be are {' and '.join(f'{each:g}' for each in near)}"
