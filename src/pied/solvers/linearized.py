"""Rivals that linearize g: BOIS (Gonzalez and Zavala 2023) and COBALT (Paulson and Lu 2022).

The delta method treats g(x, y) as affine in y around the mean of the outputs: its mean is g there, its variance
sum_j (dg/dy_j std_j)^2. This is exact for affine g and wrong where g is curved within a standard deviation, for
instance at the optimum of a sum of squares.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float64
from torch import Tensor

from pied.bounds import Composite, quantile
from pied.errors import SettingError
from pied.problem import Problem
from pied.records import Why
from pied.rng import Stream
from pied.search import Optimum
from pied.solvers.acquisition import Acquisition, BeliefSolver, at, draws, incumbent, maximize
from pied.solvers.cuqb import BayesRun, Scene
from pied.solvers.improvement import check_samples, log_fatplus, sample_deviation

SMALLEST_VARIANCE = 1e-200  # a smaller variance is zero; the limit keeps the slope of its root finite


def linearized(
    composite: Composite, U: Float64[Tensor, "b d"], mean: Float64[Tensor, "b m"], deviation: Float64[Tensor, "b m"]
) -> tuple[list[Float64[Tensor, "b"]], list[Float64[Tensor, "b"]]]:
    """Return mean and standard deviation of every function by the delta method; 0 for white functions."""
    with torch.enable_grad():
        W = mean if mean.requires_grad else mean.detach().requires_grad_()
        centers = [g[0] for g in at(composite, U, W[None])]
        deviations = []
        for g in centers:
            if not g.requires_grad:
                deviations.append(torch.zeros_like(g))
                continue
            (slope,) = torch.autograd.grad(g.sum(), W, create_graph=True, allow_unused=True, materialize_grads=True)
            slope = torch.nan_to_num(slope, nan=0.0, posinf=0.0, neginf=0.0)
            deviations.append((slope * deviation).square().sum(1).clamp_min(SMALLEST_VARIANCE).sqrt())
    return centers, deviations


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

    def columns(self, U: Tensor, mean: Tensor, deviation: Tensor, is_screening: bool) -> list[Tensor]:
        """Return mean + radius std of every function."""
        centers, deviations = linearized(self.composite, U, mean, deviation)
        return [center + self.radius * std for center, std in zip(centers, deviations, strict=True)]

    def search_scale(self, pool: Float64[Tensor, "b d"]) -> float:
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
        bounds = DeltaBounds(scene.composite, quantile.normal(self.settings.level), float(scene.scales[0]))
        return maximize(bounds, scene), Why("explore")  # not a bound where g is curved, so no optimum for the gap


@dataclass(frozen=True, eq=False)
class Trusting(Acquisition):
    """Composite log expected improvement under linearized chance constraints mean_i + trust std_i >= 0."""

    composite: Composite
    best: float | None
    """Value to improve on; None: maximize the objective at the mean of the outputs."""
    scales: Float64[Tensor, "k"]
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

    def columns(self, U: Tensor, mean: Tensor, deviation: Tensor, is_screening: bool) -> list[Tensor]:
        """Return the objective and the chance constraints."""
        centers, deviations = linearized(self.composite, U, mean, deviation)
        unit = self.scales[0]
        if self.best is None:
            objective = centers[0] / unit
        else:
            G = draws(self.composite, U, mean, deviation, self.screening if is_screening else self.samples)[0]
            gain = log_fatplus((G - self.best) / unit, self.temperature * sample_deviation(G, unit) / unit)
            objective = gain.logsumexp(0)
        relaxed = [center + self.trust * std for center, std in zip(centers[1:], deviations[1:], strict=True)]
        return [objective, *relaxed]


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
