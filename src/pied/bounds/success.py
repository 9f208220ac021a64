"""Where evaluations are likely to succeed, learned from those that failed: one more constraint on the search.

A border is learned between the points that succeeded and those that failed (`gp.parts`). The search may propose points
whose upper bound of being inside is at least 0. While no evaluation has failed, there is no such constraint.
"""

from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import numpy as np
from numpy import ndarray

from pied.gp import Border, Coding
from pied.rng import Stream
from pied.search import Enumeration, Functions, Mixed, Optimum, Refined, Search, settings_of
from pied.shapes import Bool, Float64


@runtime_checkable
class Region(Protocol):
    """Where points are inside: a process that is positive there, with a scale."""

    @property
    def size(self) -> float:
        """The scale of the process."""

    def moments(self, U: Float64[ndarray, "b d"]) -> tuple[Float64[ndarray, "b"], Float64[ndarray, "b"]]:
        """Return mean and deviation."""

    def moments_and_slopes(
        self, U: Float64[ndarray, "b d"]
    ) -> tuple[Float64[ndarray, "b"], Float64[ndarray, "b"], Float64[ndarray, "b d"], Float64[ndarray, "b d"]]:
        """Return mean, deviation and their derivatives with respect to the point."""


@dataclass(frozen=True, eq=False)
class SuccessModel:
    """The upper bound of being inside at a point: below 0, an evaluation is likely to fail, or in another regime."""

    border: Region
    d: int
    """Dimensions of the cube."""
    z: float = 1.0
    """How many standard deviations the bound lies above the mean; 1: a chance of one in six is worth a try."""
    within: "SuccessModel | None" = None
    """Points have to be inside of this, too; None: of nothing else."""

    @classmethod
    def fit(
        cls,
        inside: Float64[ndarray, "N d"],
        outside: Float64[ndarray, "q d"],
        coding: Coding | None = None,
        *,
        is_exact: bool = True,
    ) -> "SuccessModel | None":
        """Learn from points that succeeded and that failed; None while nothing has failed.

        Where regimes of noisy outputs take the place of success and failure, sides are not exactly known.
        """
        if not len(outside):
            return None
        U = np.concatenate([inside, outside])
        return cls(Border.fit(U, np.arange(len(U)) < len(inside), coding, is_exact=is_exact), U.shape[1])

    @classmethod
    def of_regime(
        cls,
        U: Float64[ndarray, "N d"],
        elsewhere: Bool[ndarray, "N"],
        failed: Float64[ndarray, "q d"],
        coding: Coding | None = None,
        *,
        is_exact: bool = True,
    ) -> "SuccessModel | None":
        """Learn where a regime is and evaluations succeed: two borders, for each has its own reason.

        Args:
            U: Points that succeeded.
            elsewhere: Which of them are in another regime.
            failed: Points that failed.
            coding: Which coordinates are labels.
            is_exact: Whether it is exactly known in which regime a point is.
        """
        success, home = cls.fit(U, failed, coding), cls.fit(U[~elsewhere], U[elsewhere], coding, is_exact=is_exact)
        return success if home is None else replace(home, within=success)

    def at(self, z: float) -> "SuccessModel":
        """Return the same with bounds that lie so many standard deviations above the mean."""
        return replace(self, z=z, within=None if self.within is None else self.within.at(z))

    def values(self, U: Float64[ndarray, "b d"]) -> Float64[ndarray, "b 1"]:
        """Return the bound."""
        mean, deviation = self.border.moments(U)
        bound = (mean + self.z * deviation)[:, None] / self.border.size
        return bound if self.within is None else np.minimum(bound, self.within.values(U))

    def values_and_slopes(
        self, U: Float64[ndarray, "b d"]
    ) -> tuple[Float64[ndarray, "b 1"], Float64[ndarray, "b 1 d"]]:
        """Return the bound and its slopes."""
        mean, deviation, by_mean, by_deviation = self.border.moments_and_slopes(U)
        bound, slopes = mean + self.z * deviation, by_mean + self.z * by_deviation
        bound, slopes = bound[:, None] / self.border.size, slopes[:, None] / self.border.size
        if self.within is None:
            return bound, slopes
        other, other_slopes = self.within.values_and_slopes(U)
        return np.minimum(bound, other), np.where((bound <= other)[..., None], slopes, other_slopes)

    def is_likely(self, U: Float64[ndarray, "b d"]) -> Bool[ndarray, "b"]:
        """Tell at which points an evaluation may succeed."""
        return self.values(U)[:, 0] >= 0

    def found(self, best: Optimum, search: Search | Enumeration | Mixed) -> Optimum:
        """Return what a search inside found, as not satisfied where nothing is inside.

        A list or a grid of which nothing is inside is searched as a whole (`where_success_is_likely`). In a box, being
        inside is one of the constraints.
        """
        is_inside = isinstance(search, Search) or bool(self.is_likely(best.u[None])[0])
        return best if is_inside else replace(best, satisfied=False)


@dataclass(frozen=True, eq=False)
class WithSuccess:
    """Functions, with success as their last constraint.

    Points may have more coordinates than the model of success (`joint`): the first ones are those of the cube.
    """

    functions: Functions
    success: SuccessModel
    is_hard: bool = False
    """Whether no point beyond is of interest, even where no other constraint can be met."""

    @property
    def k(self) -> int:
        """Number of functions, success included."""
        return self.functions.k + 1

    @property
    def white(self) -> tuple[int, ...]:
        """Constraints that hold at every point of interest: those that are known exactly, and success if it must."""
        return (*self.functions.white, self.k - 1) if self.is_hard else tuple(self.functions.white)

    def coarse(self) -> "WithSuccess | None":
        """Return the cheaper version of the functions, with the same constraint."""
        cheaper = self.functions.coarse() if isinstance(self.functions, Refined) else None
        return None if cheaper is None else replace(self, functions=cheaper)

    def values(self, W: Float64[ndarray, "b w"]) -> Float64[ndarray, "b k"]:
        """Return all functions."""
        return np.concatenate([self.functions.values(W), self.success.values(self._point(W))], 1)

    def values_and_slopes(
        self, W: Float64[ndarray, "b w"]
    ) -> tuple[Float64[ndarray, "b k"], Float64[ndarray, "b k w"]]:
        """Return all functions and their slopes."""
        f, slopes = self.functions.values_and_slopes(W)
        success, by_u = self.success.values_and_slopes(self._point(W))
        by_w = np.concatenate([by_u, np.zeros((len(W), 1, W.shape[1] - self.success.d))], 2)
        return np.concatenate([f, success], 1), np.concatenate([slopes, by_w], 1)

    def _point(self, W: Float64[ndarray, "b w"]) -> Float64[ndarray, "b d"]:
        return W[:, : self.success.d]


@dataclass(frozen=True, kw_only=True)
class SuccessSearch(Search):
    """A search that stays where success is likely."""

    inner: Search
    """The search of the whole."""
    success: SuccessModel

    def screen(self, stream: Stream, d: int, known: Float64[ndarray, "s d"]) -> Float64[ndarray, "b d"]:
        """Return the pool of the whole."""
        return self.inner.screen(stream, d, known)

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
        """Maximize the first function subject to the others and to likely success."""
        whole, all_scales = WithSuccess(functions, self.success), np.append(scales, 1.0)
        best = self.inner.solve(whole, all_scales, pool, known, stream, rescue=rescue)
        return best.of_first(functions.k)

    def rescue(self, functions: Functions, scales: Float64[ndarray, "k"], starts: Float64[ndarray, "s w"]) -> Optimum:
        """Maximize the smallest scaled constraint, wherever that is: a verdict does not look at failures."""
        return self.inner.rescue(functions, scales, starts)


def where_success_is_likely(
    search: Search | Enumeration | Mixed, success: SuccessModel
) -> Search | Enumeration | Mixed:
    """Restrict a search to points that are likely to succeed; a list with none of them is returned as it is."""
    if isinstance(search, Search):
        return SuccessSearch(**settings_of(search), inner=search, success=success)
    if isinstance(search, Mixed):
        inner = SuccessSearch(**settings_of(search.inner), inner=search.inner, success=success)
        return replace(search, inner=inner, allowed=success.is_likely)
    left = search.without(np.flatnonzero(~success.is_likely(search.U)))
    return left if left.offered.any() else search
