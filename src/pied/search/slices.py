"""A search of a slice: in its free coordinates alone, by the search of a whole cube.

Points of pools and those that are found are whole points. Coordinates that a caller adds (`joint`) come after them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy import ndarray

from pied.problem import Problem, Slice
from pied.rng import Stream
from pied.search.enumeration import Enumeration
from pied.search.functions import Functions, Part, Refined, Sliced
from pied.search.mixed import Mixed, searching
from pied.search.multistart import Search
from pied.search.optimum import Optimum
from pied.shapes import Float64


@dataclass(frozen=True, kw_only=True)
class SliceSearch(Search):
    """A search of a slice."""

    slice: Slice

    def screen(self, stream: Stream, d: int, known: Float64[ndarray, "s d"]) -> Float64[ndarray, "b d"]:
        """Return the pool."""
        part = self._part(d)
        return part.whole(self._inner.screen(stream, int(part.free.sum()), part.reduced(known)))

    def solve(
        self,
        functions: Functions,
        scales: Float64[ndarray, "k"],
        pool: Float64[ndarray, "b w"],
        known: Float64[ndarray, "s w"],
        stream: Stream,
        *,
        rescue: bool = True,
    ) -> Optimum:
        """Maximize the first function subject to the others."""
        part = self._part(pool.shape[1])
        points, starts = part.reduced(pool), part.reduced(known)
        best = self._inner.solve(Sliced(functions, part), scales, points, starts, stream, rescue=rescue)
        return replace(best, u=part.whole(best.u[None])[0])

    def rescue(self, functions: Functions, scales: Float64[ndarray, "k"], starts: Float64[ndarray, "s w"]) -> Optimum:
        """Maximize the smallest scaled constraint."""
        part = self._part(starts.shape[1])
        best = self._inner.rescue(Sliced(functions, part), scales, part.reduced(starts))
        return replace(best, u=part.whole(best.u[None])[0])

    @property
    def _inner(self) -> Search:
        """The search of a cube."""
        return Search(**settings_of(self))

    def _part(self, width: int) -> Part:
        """Return the slice as a part of a cube with so many coordinates in all."""
        more = width - len(self.slice.low)
        return Part(np.append(self.slice.low, np.zeros(more)), np.append(self.slice.high, np.ones(more)))


@dataclass(frozen=True, eq=False)
class Clamped:
    """Functions that are beyond a box what they are at its nearest point, so that a search may leave it for nothing."""

    functions: Functions
    slice: Slice

    @property
    def k(self) -> int:
        """Number of functions."""
        return self.functions.k

    @property
    def white(self) -> Sequence[int]:
        """Positions of the constraints that are known exactly."""
        return self.functions.white

    def coarse(self) -> "Clamped | None":
        """Return the cheaper version of the functions, if there is one."""
        cheaper = self.functions.coarse() if isinstance(self.functions, Refined) else None
        return None if cheaper is None else Clamped(cheaper, self.slice)

    def values(self, U: Float64[ndarray, "b d"]) -> Float64[ndarray, "b k"]:
        """Return them for screening."""
        return self.functions.values(self.slice.clipped(U))

    def values_and_slopes(
        self, U: Float64[ndarray, "b d"]
    ) -> tuple[Float64[ndarray, "b k"], Float64[ndarray, "b k d"]]:
        """Return them and their slopes; a slope that leads farther out is 0."""
        f, J = self.functions.values_and_slopes(self.slice.clipped(U))
        low, high = self.slice.low, self.slice.high
        leads_out = ((low >= U)[:, None] & (J < 0)) | ((high <= U)[:, None] & (J > 0))
        return f, np.where(leads_out, 0.0, J)


@dataclass(frozen=True, eq=False, kw_only=True)
class SliceMixed(Mixed):
    """A search on a grid, of a slice that leaves a range of a continuous coordinate."""

    slice: Slice

    def solve(
        self,
        functions: Functions,
        scales: Float64[ndarray, "k"],
        pool: Float64[ndarray, "b d"],
        known: Float64[ndarray, "s d"],
        stream: Stream,
        *,
        rescue: bool = True,
    ) -> Optimum:
        """Maximize the first function subject to the others."""
        clamped = Clamped(functions, self.slice)
        best = super().solve(clamped, scales, pool, self.slice.clipped(known), stream, rescue=rescue)
        return replace(best, u=self.slice.clipped(best.u))


def settings_of(search: Search) -> dict[str, Any]:
    """Return the settings of a search, which a search around it takes as well."""
    return {each.name: getattr(search, each.name) for each in fields(Search)}


def search_of(problem: Problem, search: Search) -> Search | Enumeration | Mixed:
    """Return the search of a space, or of its slice: among listed points, on a grid, or of all that is continuous.

    Args:
        problem: The statement.
        search: How a cube is searched.
    """
    if problem.listing is not None:
        return Enumeration.of(problem.listing)
    if problem.slice is not None:
        search = SliceSearch(**settings_of(search), slice=problem.slice)
    found = searching(search, problem.steps, np.zeros((0, problem.d)))
    if problem.slice is None or not isinstance(found, Mixed):
        return found
    return SliceMixed(found.inner, found.grid, found.taken, slice=problem.slice)
