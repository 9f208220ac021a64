"""Rivals that linearize g: BOIS (Gonzalez and Zavala 2023) and COBALT (Paulson and Lu 2022).

The delta method treats g(x, y) as affine in y around the mean of the outputs: its mean is g there, its variance
sum_j (dg/dy_j std_j)^2. This is exact for affine g and wrong where g is curved within a standard deviation, for
instance at the optimum of a sum of squares.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy import ndarray

from pied.bounds import Composite, quantile
from pied.errors import SettingError
from pied.problem import Problem
from pied.records import Why
from pied.rivals.improvement import check_samples
from pied.rivals.settings import BeliefSolver
from pied.rng import Stream
from pied.search import Optimum
from pied.shapes import Float64
from pied.solvers.acquisition import Acquisition, Column, Outputs, Points, incumbent, maximize
from pied.solvers.frame import BayesRun
from pied.solvers.sampled import log_mean
from pied.solvers.scene import Scene
from pied.solvers.smooth import log_improvement

SMALLEST_VARIANCE = 1e-200  # a smaller variance is zero; the limit keeps the slope of its root finite


DIFFERENCE = (
    1e-4  # standard deviations: half the distance at which slopes of g are compared, for its second derivatives
)


def linearized(points: Points, i: int) -> tuple[Column, Column]:
    """Return mean and standard deviation of a function by the delta method; the latter of white functions is 0.

    The slope of the standard deviation |dg/dy_j std_j| needs second derivatives of g in a single direction, the change
    of the outputs by one standard deviation of g. They are central differences of the slopes of g.
    """
    composite, outputs = points.composite, points.at_mean
    values, back = composite.traced_samples(i, points.X, outputs.Y)
    (by_x,), (by_Y,) = back(np.ones_like(values)[None])
    slope = outputs.by_W(by_Y)[0]
    slope = np.where(np.isfinite(slope), slope, 0.0)
    parts = slope * points.deviation
    size = np.sqrt(np.maximum((parts * parts).sum(1), SMALLEST_VARIANCE))
    share = parts / size[:, None]

    def size_slopes() -> Float64[ndarray, "b d"]:
        step = DIFFERENCE * share * points.deviation
        near = Outputs(points, np.stack([points.mean + step, points.mean - step]))
        (G,), back = composite.problem.traced(points.X, near.Y, (i,))
        weight = np.where(np.isfinite(G).all(0), 0.5 / DIFFERENCE, 0.0)
        (by_x,), (by_Y,) = back(np.stack([weight, -weight])[None])
        return points.slopes(by_x, near.by_W(by_Y).sum(0), slope * share)

    return (values[0], lambda: points.slopes(by_x, slope)), (size, size_slopes)


def delta_bound(points: Points, i: int, radius: float) -> Column:
    """Return mean + radius std of a function by the delta method."""
    (center, center_slopes), (deviation, deviation_slopes) = linearized(points, i)
    return center + radius * deviation, lambda: center_slopes() + radius * deviation_slopes()


@dataclass(frozen=True, eq=False)
class DeltaBounds(Acquisition):
    """Upper confidence bounds of every function by the delta method."""

    composite: Composite
    radius: float
    objective_scale: float  # search scale

    @property
    def which(self) -> tuple[int, ...]:
        """All constraints."""
        return tuple(range(1, self.composite.problem.k))

    def columns(self, points: Points) -> list[Column]:
        """Return mean + radius std of every function."""
        return [delta_bound(points, i, self.radius) for i in range(self.composite.problem.k)]

    def search_scale(self, pool: Float64[ndarray, "b d"]) -> float:
        """Return the objective's search scale."""
        return self.objective_scale


@dataclass(frozen=True, kw_only=True)
class BOIS(BeliefSolver):
    """Upper confidence bounds of the linearized composite functions (Gonzalez and Zavala 2023)."""

    name: ClassVar[str] = "bois"
    lists: ClassVar[bool] = True

    def start(self, problem: Problem, stream: Stream) -> "BOISRun":
        """Begin a run."""
        return BOISRun(self, problem, stream)


class BOISRun(BayesRun):
    """One run of BOIS."""

    def _explore(self, scene: Scene) -> tuple[Optimum, Why]:
        bounds = DeltaBounds(scene.composite, quantile.normal(self.level), float(scene.scales[0]))
        return maximize(bounds, scene), Why("explore")  # not a bound where g is curved, so no optimum for the gap


@dataclass(frozen=True, eq=False)
class Trusting(Acquisition):
    """Composite log expected improvement under linearized chance constraints mean_i + trust std_i >= 0."""

    composite: Composite
    best: float | None
    """Value to improve on; None: maximize the objective at the mean of the outputs."""
    scales: Float64[ndarray, "k"]
    samples: int
    screening: int
    temperature: float
    trust: float

    @property
    def which(self) -> tuple[int, ...]:
        """All constraints."""
        return tuple(range(1, self.composite.problem.k))

    @property
    def screening_samples(self) -> int:
        """Samples per point while screening."""
        return self.screening

    def columns(self, points: Points) -> list[Column]:
        """Return the objective and the chance constraints."""
        return [self._objective(points), *(delta_bound(points, i, self.trust) for i in self.which)]

    def _objective(self, points: Points) -> Column:
        """Return the logarithm of the expected improvement, or the objective at the mean of the outputs."""
        unit = self.scales[0]
        if self.best is None:
            value, slopes = points.exactly(0)
            return value / unit, lambda: slopes() / unit
        G, to_points = points.drawn(self.screening if points.is_screening else self.samples).function(0)
        logs, back = log_improvement(G - self.best, self.temperature, unit)
        return log_mean([(logs, lambda weights: to_points(back(weights)))])


@dataclass(frozen=True, kw_only=True)
class COBALT(BeliefSolver):
    """Composite expected improvement under linearized chance constraints (Paulson and Lu 2022).

    The constraints are relaxed by `trust` standard deviations at first; the relaxation decreases to zero.
    """

    name: ClassVar[str] = "cobalt"
    lists: ClassVar[bool] = True

    trust: float = 3.0
    """Standard deviations by which constraints are relaxed right after the initial design (the authors' code)."""
    fades: int | None = 60
    """Trials over which the relaxation decreases linearly to zero; None: it is constant."""
    samples: int = 512
    """Base samples of the expectation while solving."""
    screening: int = 128
    """Base samples while screening many points."""
    temperature: float = 0.05
    """Width over which the improvement is smoothed, relative to the objective's standard deviation."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_samples(self.samples, self.screening, self.temperature)
        if not self.trust >= 0:
            raise SettingError(f"trust counts standard deviations, 0 or more, got {self.trust}")
        if self.fades is not None and self.fades < 1:
            raise SettingError(f"fades counts trials from 1, or is None for never, got {self.fades}")

    def start(self, problem: Problem, stream: Stream) -> "COBALTRun":
        """Begin a run."""
        return COBALTRun(self, problem, stream)


class COBALTRun(BayesRun):
    """One run of COBALT."""

    def __init__(self, settings: COBALT, problem: Problem, stream: Stream) -> None:
        super().__init__(settings, problem, stream)
        self._own = settings

    def trust(self, number: int) -> float:
        """Return by how many standard deviations the constraints of trial `number` are relaxed."""
        own = self._own
        gone = 0.0 if own.fades is None else max(0, number - self.initial - 1) / own.fades
        return own.trust * max(0.0, 1.0 - gone)

    def _explore(self, scene: Scene) -> tuple[Optimum, Why]:
        own, best = self._own, incumbent(scene)
        settings = (own.samples, own.screening, own.temperature, self.trust(scene.number))
        found = maximize(Trusting(scene.composite, best, scene.scales, *settings), scene)
        return found, Why("feasibility" if best is None else "improve")
