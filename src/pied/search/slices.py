"""A search of a slice: in its free coordinates alone, by the search of a whole cube.

Points of pools and those that are found are whole points. Coordinates that a caller adds (`joint`) come after them.
"""

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy import ndarray

from pied.problem import Problem, Slice
from pied.rng import Stream
from pied.search.enumeration import Enumeration
from pied.search.functions import Functions, Part, Sliced
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
    if problem.slice is not None:  # fewer digits might leave it
        search = SliceSearch(**(settings_of(search) | {"brevity": 0.0}), slice=problem.slice)
    return searching(search, problem.steps, np.zeros((0, problem.d)))
