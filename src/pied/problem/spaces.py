"""The points that a problem can be asked at: its variables, and their map to and from the unit cube."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy import ndarray

from pied.errors import StatementError
from pied.problem import equalities
from pied.problem.candidates import Listing
from pied.problem.grids import Grid
from pied.problem.named import Named, Names
from pied.problem.slices import Slice
from pied.problem.values import Reader, numbers
from pied.problem.variables import Box, Variable
from pied.rng import Stream
from pied.shapes import Bool, Float64

POINT_SLACK = 1e-9
"""How far outside the box a given point may lie, relative to the box's width: the rounding of printed numbers."""
LAST_BITS = 4e-16
"""The same, relative to the larger bound: the rounding of floats."""


class Space:
    """The variables of a problem, whose coordinates of the unit cube are those that no equality determines.

    Letters: v variables, d coordinates.
    """

    variables: dict[str, Variable]
    """The decisions, by name."""
    candidates: Listing | None
    """The points to choose from; None: the whole box."""
    grid: Grid | None
    """Which coordinates take listed values only, such as steps; None: none of them."""
    bounds: Float64[ndarray, "v 2"]
    """Lower and upper end of each variable, natural units."""
    box: Box
    """The box of all variables, and its map to their unit cube."""
    axes: dict[str, Variable]
    """The variables that are coordinates of the unit cube."""
    d: int
    """Number of coordinates of the unit cube: variables, less those that linear equalities determine."""
    slice: Slice | None = None
    """The part of it with given values; None: the whole."""
    _axes_box: Box
    _solved: equalities.Solved | None
    _x: dict[str, int]
    _readers: dict[str, Reader]

    def to_unit(self, X: Float64[ndarray, "*b v"]) -> Float64[ndarray, "*b d"]:
        """Map natural units to the unit cube; variables that an equality determines are left out."""
        return self._axes_box.to_unit(X if self._solved is None else X[..., self._solved.free])

    def from_unit(self, U: Float64[ndarray, "*b d"]) -> Float64[ndarray, "*b v"]:
        """Map the unit cube to natural units: 0 gives exactly the lower end, 1 exactly the upper end."""
        X = self._axes_box.from_unit(U)
        return X if self._solved is None else self._solved.completed(X)

    def completed(self, X: Float64[ndarray, "*b v"]) -> Float64[ndarray, "*b v"]:
        """Return points with what linear equalities determine from the others."""
        return X if self._solved is None else self._solved.completed(X[..., self._solved.free])

    def unit_slopes(self, X: Float64[ndarray, "*b v"]) -> Float64[ndarray, "*b d"]:
        """Return how fast each variable that is a coordinate changes with it, at points in natural units."""
        return self._axes_box.unit_slopes(X if self._solved is None else X[..., self._solved.free])

    def by_axes(self, by_x: Float64[ndarray, "*b v"]) -> Float64[ndarray, "*b d"]:
        """Return slopes by the variables that are coordinates from those by all variables."""
        return by_x if self._solved is None else self._solved.by_free(by_x)

    def within(self, U: Float64[ndarray, "b d"], stream: Stream) -> Float64[ndarray, "b d"]:
        """Move the points of a pool to where variables that linear equalities determine keep their bounds."""
        U = U if self.slice is None else self.slice.clipped(U)
        if self._solved is None:
            return U
        U = self._solved.inside(U, stream)
        return U if self.grid is None else self.grid.snapped(U)

    @property
    def given(self) -> dict[str, Any]:
        """The given values, by the names of their variables; none: the whole space."""
        return {} if self.slice is None else self.slice.given

    @property
    def observed(self) -> tuple[str, ...]:
        """The variables that are measured, not chosen."""
        return tuple(name for name, each in self.variables.items() if each.observed)

    @property
    def ends(self) -> tuple[Float64[ndarray, "d"], Float64[ndarray, "d"]]:
        """Lower and upper ends of the coordinates: those of the slice, or of the unit cube."""
        return (np.zeros(self.d), np.ones(self.d)) if self.slice is None else (self.slice.low, self.slice.high)

    def _ends_of_axes(self) -> tuple[Float64[ndarray, "d"], Float64[ndarray, "d"]]:
        """Return the same in natural units, as they were given."""
        low, high = self._axes_box.bounds.T.copy()
        for place, (name, variable) in enumerate(self.axes.items()):
            if isinstance(ends := self.given.get(name), list):
                low[place], high[place] = ends
            elif ends is not None:
                low[place] = high[place] = variable.code(ends)
        return low, high

    @property
    def chosen(self) -> int:
        """How many coordinates are chosen; the others are measured, and vary by themselves."""
        return sum(not each.observed for each in self.axes.values())

    @property
    def is_free(self) -> Bool[ndarray, "d"]:
        """Which coordinates can be chosen."""
        return np.ones(self.d, dtype=bool) if self.slice is None else ~self.slice.is_fixed

    def drawn(self, U: Float64[ndarray, "*b d"]) -> Float64[ndarray, "*b d"]:
        """Return evenly drawn points of the unit cube as evenly drawn ones of the slice."""
        return U if self.slice is None else self.slice.spread(U)

    def onto(self, U: Float64[ndarray, "*b d"]) -> Float64[ndarray, "*b d"]:
        """Move points onto the slice, where there is one, and there to values that can be set."""
        if self.slice is None:
            return U
        U = self.slice.clipped(U)
        return U if self.grid is None else self.grid.snapped(U)

    def lies_on(self, U: Float64[ndarray, "b d"]) -> Bool[ndarray, "b"]:
        """Tell which points lie on the slice; of the whole space, all do."""
        return np.ones(len(U), dtype=bool) if self.slice is None else self.slice.has(U)

    @property
    def steps(self) -> Grid | None:
        """The grid if some coordinate has several listed values to choose from; None: all others are continuous."""
        grid = self.grid
        is_fixed = grid is None or all(each is None or len(each) == 1 for each in grid.places)
        return None if self.slice is not None and is_fixed else grid

    @property
    def listing(self) -> Listing | None:
        """All points that can be set, if these are few enough to compare them all: candidates, or a small grid."""
        return self.candidates if self.grid is None else self.grid.listing

    def settable(self, X: Float64[ndarray, "b v"]) -> Bool[ndarray, "b"]:
        """Tell which points could be proposed: those inside the box and on the grid."""
        lo, hi = self.bounds.T
        inside = ((lo <= X) & (hi >= X)).all(1)
        inside = inside & self.lies_on(self.to_unit(X))
        return inside if self.grid is None else inside & self.grid.has(self.to_unit(X))

    def named_x(self, X: Float64[ndarray, "v"]) -> Named:
        """Return a point as named floats."""
        return Named(self._x, tuple(X.tolist()))

    def codes(self, x: Mapping[str, Any]) -> tuple[float, ...]:
        """Return the numbers of a point that was recorded: labels become their codes."""
        return tuple(each.code(x[name]) for name, each in self.variables.items())

    def point(self, x: Any, *, anywhere: bool = False) -> Float64[ndarray, "v"]:
        """Read a point that the user gave: a mapping by name, or a sequence in order, natural units.

        It must lie inside the box unless it may lie `anywhere`, or be one of the candidates.
        """
        given = numbers(x, self._x, "variable", StatementError, readers=self._readers)
        X = np.array(given, dtype=float)
        if anywhere and self.candidates is None:
            if self._solved is not None:
                self._check_equalities(X)
            return X
        lo, hi = self.bounds.T
        slack = POINT_SLACK * (hi - lo) + LAST_BITS * np.abs(self.bounds).max(-1)
        for place, name in enumerate(self.variables):
            if not lo[place] - slack[place] <= X[place] <= hi[place] + slack[place]:
                ends = f"from {float(lo[place])!r} to {float(hi[place])!r}"
                raise StatementError(f"'{name}' = {given[place]!r} is outside its range {ends}.")
        X = np.clip(X, lo, hi)
        if self._solved is not None:
            self._check_equalities(X)
        return X if self.candidates is None else self._candidate(X, slack)

    def _check_equalities(self, X: Float64[ndarray, "v"]) -> None:
        """Refuse a point that misses a linear equality by more than the rounding of written settings."""
        assert self._solved is not None
        names, width = list(self.variables), self.bounds[:, 1] - self.bounds[:, 0]
        for place, missed in zip(self._solved.places.tolist(), self._solved.missed(X).tolist(), strict=True):
            if abs(missed) > equalities.DATA_SLACK * width[place]:
                said = ", ".join(f"'{name}'" for name in self._solved.names)
                raise StatementError(
                    f"'{names[place]}' = {X[place]:.9g} does not fit the others: {said} needs {X[place] - missed:.9g}."
                )

    def _candidate(self, X: Float64[ndarray, "v"], slack: Float64[ndarray, "v"]) -> Float64[ndarray, "v"]:
        """Return the candidate at a point, or say that there is none."""
        assert self.candidates is not None
        nearest = self.candidates.X[self.candidates.nearest(self.to_unit(X))]
        if bool((np.abs(X - nearest) > slack).any()):
            given, other = (", ".join(f"{n} = {v:.9g}" for n, v in self.named_x(each).items()) for each in (X, nearest))
            count = len(self.candidates or ())
            raise StatementError(f"{given} is not among the {count} candidates; the nearest of them is {other}.")
        return nearest


def named_places(variables: Mapping[str, Variable]) -> dict[str, int]:
    """Return the place of each variable, with the labels and whole numbers among them."""
    places = {name: place for place, name in enumerate(variables)}
    kinds = {place: each for place, each in enumerate(variables.values()) if not each.is_plain}
    return Names(places, kinds) if kinds else places
