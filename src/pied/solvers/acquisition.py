"""What solvers with an acquisition function share: acquisitions as subproblems.

An acquisition computes its columns, objective first, from the belief at some points (`Points`). A column is a pair: its
values, and a function that returns their slopes, which is called only where slopes are wanted.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy import ndarray

from pied.bounds import NUMBERS_AT_ONCE, Composite, Stack
from pied.records import feasible
from pied.search import Functions, Optimum
from pied.shapes import Float64
from pied.solvers.scene import Scene

Column = tuple[Float64[ndarray, "b"], Callable[[], Float64[ndarray, "b d"]]]
"""The values of a function at some points, and what returns its slopes by the point."""
Back = Callable[[Float64[ndarray, "R b"]], Float64[ndarray, "b d"]]
"""From weights of the values of a function to the slopes of their weighted sum by the point."""


@dataclass(frozen=True, eq=False)
class Points:
    """Points, and the belief about independent outputs there."""

    composite: Composite
    X: Float64[ndarray, "b v"]
    """Natural units."""
    mean: Float64[ndarray, "b m"]
    deviation: Float64[ndarray, "b m"]
    moment_slopes: tuple[Float64[ndarray, "b m d"], ...] = ()
    """Of mean and deviation, by the point of the unit cube; none while screening."""

    @classmethod
    def of(cls, composite: Composite, U: Float64[ndarray, "b d"], *, is_screening: bool = False) -> "Points":
        """Look the belief up, without slopes if the points are only screened."""
        belief = composite.belief
        mean, deviation, *slopes = belief.moments(U) if is_screening else belief.moments_and_slopes(U)
        return cls(composite, composite.problem.from_unit(U), mean, deviation, tuple(slopes))

    @property
    def is_screening(self) -> bool:
        """Whether the points are only screened: with fewer samples, and without slopes."""
        return not self.moment_slopes

    @cached_property
    def _unit_slopes(self) -> Float64[ndarray, "b d"]:
        return self.composite.problem.unit_slopes(self.X)

    def slopes(
        self,
        by_x: Float64[ndarray, "b v"],
        by_mean: Float64[ndarray, "b m"],
        by_deviation: Float64[ndarray, "b m"] | None = None,
    ) -> Float64[ndarray, "b d"]:
        """Return slopes by the point of the unit cube, from those by X and by the moments there."""
        mean_slopes, deviation_slopes = self.moment_slopes
        slopes = self.composite.problem.by_axes(by_x) * self._unit_slopes + (by_mean[:, None] @ mean_slopes)[:, 0]
        return slopes if by_deviation is None else slopes + (by_deviation[:, None] @ deviation_slopes)[:, 0]

    @cached_property
    def at_mean(self) -> "Outputs":
        """The outputs at their mean."""
        return Outputs(self, self.mean[None])

    def drawn(self, samples: int) -> "Outputs":
        """Return samples of the outputs, from the base samples of the composite."""
        Z = self.composite.base_samples(samples)
        return Outputs(self, self.composite.drawn(self.mean, self.deviation, Z), Z)

    def exactly(self, i: int) -> Column:
        """Return a function at the mean of the outputs: of a white function, the exact values."""
        values, back = self.at_mean.function(i)
        return values[0], lambda: back(np.ones_like(values))


@dataclass(frozen=True, eq=False)
class Outputs:
    """Outputs at points, R each, and the functions of the problem there."""

    points: Points
    W: Float64[ndarray, "R b m"]
    """Modelled units."""
    Z: Float64[ndarray, "R m"] | None = None
    """Base samples; None: the outputs do not depend on the deviations."""

    @cached_property
    def _stack(self) -> Stack:
        return Stack("outcome", (), self.W, Z=self.Z)

    @cached_property
    def Y(self) -> Float64[ndarray, "R b m"]:
        """The outputs in natural units."""
        return self.points.composite.physical(self.W, self._stack)

    def by_W(self, by_Y: Float64[ndarray, "R b m"]) -> Float64[ndarray, "R b m"]:
        """Return slopes by the outputs in modelled units, from those in natural units."""
        return by_Y if self._stack.bend is None else by_Y * self._stack.bend

    def function(self, i: int) -> tuple[Float64[ndarray, "R b"], Back]:
        """Return a function, with its worst value where it is not finite, and the way back to the points."""
        composite, X, Y = self.points.composite, self.points.X, self.Y
        if self.points.is_screening:  # a trace of many points would take much memory
            (values,) = composite.problem.g(X, Y, which=(i,))
            return composite.with_worst(i, np.broadcast_to(values, Y.shape[:2])), _no_way_back
        values, traced_back = composite.traced_samples(i, X, Y)

        def back(weights: Float64[ndarray, "R b"]) -> Float64[ndarray, "b d"]:
            (by_x,), (by_Y,) = traced_back(weights[None])
            by_W = self.by_W(by_Y)
            by_deviation = None if self.Z is None else np.einsum("rbm,rm->bm", composite.by_parts(by_W), self.Z)
            return self.points.slopes(by_x, by_W.sum(0), by_deviation)

        return values, back


def _no_way_back(weights: Float64[ndarray, "R b"]) -> Float64[ndarray, "b d"]:
    raise RuntimeError("points that are screened have no slopes")


class Acquisition(ABC):
    """A function to be maximized on the unit cube, and its constraints."""

    composite: Composite

    @property
    @abstractmethod
    def which(self) -> tuple[int, ...]:
        """The problem's constraints (1 .. n) that remain constraints; the others are part of the objective."""

    @abstractmethod
    def columns(self, points: Points) -> Sequence[Column]:
        """Return the objective and the constraints `which`."""

    @property
    def screening_samples(self) -> int:
        """Samples of the outputs per point while screening."""
        return 1

    def search_scale(self, pool: Float64[ndarray, "b d"]) -> float:
        """Return the search scale of the objective; 1 for a logarithm and other values without a unit."""
        return 1.0

    @property
    def k(self) -> int:
        """Number of functions."""
        return 1 + len(self.which)

    @property
    def white(self) -> tuple[int, ...]:
        """Positions of the constraints that are known exactly."""
        return tuple(place for place, i in enumerate(self.which, 1) if i in self.composite.problem.white)

    @np.errstate(all="ignore")
    def values(self, U: Float64[ndarray, "b d"]) -> Float64[ndarray, "b k"]:
        """Return all functions, with the samples of screening, in pieces of limited memory."""
        size = max(1, NUMBERS_AT_ONCE // (self.screening_samples * self.composite.problem.m))
        values = np.empty((len(U), self.k))
        for start in range(0, len(U), size):
            piece = slice(start, start + size)
            for place, (f, _) in enumerate(self.columns(Points.of(self.composite, U[piece], is_screening=True))):
                values[piece, place] = f
        return values

    @np.errstate(all="ignore")
    def values_and_slopes(
        self, U: Float64[ndarray, "b d"]
    ) -> tuple[Float64[ndarray, "b k"], Float64[ndarray, "b k d"]]:
        """Return all functions and their slopes; a slope that is not finite is 0, as where a function has its worst."""
        values, ways = zip(*self.columns(Points.of(self.composite, U)), strict=True)
        slopes = np.stack([slopes() for slopes in ways], 1)
        return np.stack(values, 1), np.where(np.isfinite(slopes), slopes, 0.0)


def black_constraints(composite: Composite) -> tuple[int, ...]:
    """Return the constraints that depend on the black box."""
    structure = composite.problem.structure
    return tuple(i for i in range(1, composite.problem.k) if structure[i].kind != "white")


def maximize(acquisition: Acquisition, scene: Scene) -> Optimum:
    """Maximize an acquisition, starting from the pool and the known points of a scene."""
    own = [acquisition.search_scale(scene.pool)]
    scales = np.concatenate([own, scene.scales[list(acquisition.which)]])
    functions: Functions = acquisition
    best = scene.within.solve(functions, scales, scene.pool, scene.known, scene.stream.at("explore"))
    return replace(best, active=tuple(acquisition.which[place - 1] for place in best.active))


def incumbent(scene: Scene) -> float | None:
    """Return the value to improve on; None while nothing is feasible.

    For an exact black box this is the best feasible value told. For a noisy one it is the best median among told and
    pending points whose constraints are met in the median, because the best told value is biased by luck; on a slice,
    the same of these points moved onto it. If all constraints are white and no told point meets them, it is the worst
    value told: any point that meets them is an improvement.
    """
    problem = scene.composite.problem
    values, fine = scene.f[:, 0], scene.is_feasible_here
    if len(scene.data.U) and not (problem.is_exact and (problem.slice is None or fine.any())):
        U = problem.onto(np.concatenate([scene.data.U, scene.data.pending]))
        median = scene.composite.values(U, [0.5] * problem.k)
        values, fine = median[:, 0], feasible(problem, median)
    if fine.any():
        return float(values[fine].max())
    told = values[np.isfinite(values)]
    return float(told.min()) if len(told) and not black_constraints(scene.composite) else None
