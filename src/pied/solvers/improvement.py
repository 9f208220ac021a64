"""Expected improvement with constraints: in closed form on the folded problem, or from samples of the composite one.

`EIC` (Gardner et al. 2014), `EICCF` (the paper's sample mean with a sigmoid for the indicator) and `LogEICF`, the same
in log space with the smoothing of Ament et al. (2023), which keeps a slope where the expected improvement vanishes.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float64
from torch import Tensor

from pied.bounds import Believer, Composite
from pied.errors import SettingError
from pied.gp import Warp
from pied.problem import Problem
from pied.records import Why
from pied.rng import Stream
from pied.search import Optimum, PenaltySearch
from pied.solvers.acquisition import (
    Acquisition,
    BeliefSolver,
    black_constraints,
    draws,
    exactly,
    incumbent,
    maximize,
)
from pied.solvers.cuqb import CUQB, BayesRun, Scene, Settings
from pied.solvers.folding import FoldedRun, folded_believer

LARGEST_Z = 1e8  # standard deviations: beyond it a constraint is certain, and squares would overflow
SMALLEST_DEVIATION = 1e-9  # of a function's search scale: a smaller standard deviation is rounding error
TAIL_WEIGHT = 0.1  # of the polynomial tail of the smoothed positive part (Ament et al. 2023)
ROOT_TWO_PI = math.sqrt(2.0 * math.pi)
HALF_LOG_TWO_PI = 0.5 * math.log(2.0 * math.pi)
SERIES_BELOW_Z = -100.0  # below it the series of log h is exact to rounding, and the closed form cancels


# ---------------------------------------------------------------------------------------------------------- numerics


class _LogEI(torch.autograd.Function):
    """log h(z) with slope Phi(z) / h(z), both without cancellation in the left tail."""

    @staticmethod
    def forward(ctx: Any, z: Tensor) -> Tensor:
        near = z.clamp_min(-1.0)
        right = (torch.exp(-0.5 * near.square()) / ROOT_TWO_PI + near * torch.special.ndtr(near)).log()
        size = -z.clamp(SERIES_BELOW_Z, -1.0)
        mills = math.sqrt(math.pi / 2) * torch.special.erfcx(size / math.sqrt(2.0))
        tail = torch.log1p(-(size * mills).clamp_max(1.0 - 1e-16))
        far = -z.clamp_max(SERIES_BELOW_Z)
        series = torch.log1p(-3.0 / far.square() + 15.0 / far**4) - 2.0 * far.log()
        left = torch.where(z > SERIES_BELOW_Z, tail, series) - 0.5 * z.square() - HALF_LOG_TWO_PI
        value = torch.where(z > -1.0, right, left)
        ctx.save_for_backward(z, value)
        return value

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        z, value = ctx.saved_tensors
        square = z.clamp_max(SERIES_BELOW_Z).square()  # in the far left tail the difference of logarithms cancels
        series = -z * (1.0 - 1.0 / square + 3.0 / square**2) / (1.0 - 3.0 / square + 15.0 / square**2)
        return grads[0] * torch.where(z > SERIES_BELOW_Z, torch.exp(torch.special.log_ndtr(z) - value), series)


def log_h(z: Float64[Tensor, "*b"]) -> Float64[Tensor, "*b"]:
    """Return log(phi(z) + z Phi(z)), the logarithm of expected improvement in units of the standard deviation.

    Evaluated directly, the sum cancels for z < -5 and underflows, with its slope, for z < -38.
    """
    return _LogEI.apply(z)


def log_fatplus(x: Float64[Tensor, "*b"], width: Tensor) -> Float64[Tensor, "*b"]:
    """Return the logarithm of the positive part, smoothed over `width`, with a tail that falls like 1 / x^2.

    A softplus alone underflows, with its slope, 40 widths below zero.
    """
    t = x / width
    return width.log() + (torch.nn.functional.softplus(t) + TAIL_WEIGHT / (1.0 + t.square())).log()


def log_fatmoid(x: Float64[Tensor, "*b"], width: Tensor) -> Float64[Tensor, "*b"]:
    """Return the logarithm of a step from 0 to 1 over `width`, one half at zero, with tails that fall like 1 / x^2."""
    t = x / width
    shift = math.sqrt(1.0 / 3.0)
    below = math.log(2.0 / 3.0) - torch.log1p((t.clamp_max(0.0) - shift).square())
    above = torch.log1p(-2.0 / 3.0 / (1.0 + (t.clamp_min(0.0) + shift).square()))
    return torch.where(t < 0, below, above)


def sample_deviation(G: Float64[Tensor, "L b"], unit: Float64[Tensor, ""]) -> Float64[Tensor, "b"]:
    """Return the standard deviation of samples; a floor keeps its slope finite where all are equal."""
    return (G.var(0, correction=0) + (SMALLEST_DEVIATION * unit).square()).sqrt()


# ------------------------------------------------------------------------------------------------------- acquisitions


@dataclass(frozen=True, eq=False)
class ClosedForm(Acquisition):
    """Expected improvement times probability of feasibility on a folded problem: every function is one normal output.

    The improvement of a warped output is that of its warped value; the probability of being positive does not change.
    """

    composite: Composite
    warps: tuple[Warp, ...]
    best: float | None
    """Value to improve on; None: the probability of feasibility alone."""
    scales: Float64[Tensor, "k"]
    is_log: bool = True

    @property
    def which(self) -> tuple[int, ...]:
        """White constraints remain constraints."""
        return self.composite.problem.white

    def columns(self, U: Tensor, mean: Tensor, deviation: Tensor, is_screening: bool) -> list[Tensor]:
        """Return log EI + sum of log probabilities, or its exponential, and the white constraints."""
        structure = self.composite.problem.structure
        value = torch.zeros_like(U[:, 0])
        for i in black_constraints(self.composite):
            j = structure[i].outputs[0]
            z = (mean[:, j] - self._warped(j, 0.0)) / deviation[:, j]
            value = value + torch.special.log_ndtr(z.clamp(-LARGEST_Z, LARGEST_Z))
        if self.best is not None:
            if structure[0].kind == "white":
                (f,) = exactly(self.composite, U, mean, (0,))
                value = value + log_fatplus((f - self.best) / self.scales[0], U.new_tensor(SMALLEST_DEVIATION))
            else:
                j = structure[0].outputs[0]
                z = (mean[:, j] - self._warped(j, self.best)) / deviation[:, j]
                value = value + deviation[:, j].log() + log_h(z.clamp(-LARGEST_Z, LARGEST_Z))
        return [value if self.is_log else value.exp(), *exactly(self.composite, U, mean, self.which)]

    def _warped(self, j: int, y: float) -> float:
        """Return a threshold in the model's units; one outside of the warp's domain is out of reach."""
        w = float(self.warps[j].forward(np.array([y]))[0])
        return w if math.isfinite(w) else -self.warps[j].sign * 1e300

    def search_scale(self, pool: Float64[Tensor, "b d"]) -> float:
        """Return 1 for a logarithm, else the largest value in the pool."""
        return 1.0 if self.is_log else _largest(self.values(pool))


@dataclass(frozen=True, eq=False)
class Sampled(Acquisition):
    """Mean over samples of improvement times a smooth indicator of feasibility, composite."""

    composite: Composite
    best: float | None
    """Value to improve on; None: the smooth probability of feasibility alone."""
    scales: Float64[Tensor, "k"]
    samples: int
    screening: int
    temperature: float
    """Width of the sigmoid, relative to each function's standard deviation at the point or in natural units."""
    is_relative: bool
    is_log: bool

    @property
    def which(self) -> tuple[int, ...]:
        """White constraints remain constraints."""
        return self.composite.problem.white

    @property
    def screening_samples(self) -> int:
        """Samples per point while screening."""
        return self.screening

    def columns(self, U: Tensor, mean: Tensor, deviation: Tensor, is_screening: bool) -> list[Tensor]:
        """Return the mean, or its logarithm, and the white constraints."""
        G = draws(self.composite, U, mean, deviation, self.screening if is_screening else self.samples)
        parts = [self._indicator(i, G[i]) for i in black_constraints(self.composite)]
        if self.best is not None:
            parts.append(self._improvement(G[0] - self.best))
        value = self._mean(parts, U)
        return [value, *(G[i][0] for i in self.which)]

    def _indicator(self, i: int, G: Tensor) -> Tensor:
        """Return samples of a constraint's indicator, or their logarithms."""
        width = (
            self.temperature * sample_deviation(G, self.scales[i])
            if self.is_relative
            else G.new_tensor(self.temperature)
        )
        return log_fatmoid(G, width) if self.is_log else torch.sigmoid(G / width)

    def _improvement(self, gain: Tensor) -> Tensor:
        """Return samples of the improvement, or logarithms of them in units of the objective's search scale."""
        if not self.is_log:
            return gain.clamp_min(0.0)
        unit = self.scales[0]
        return log_fatplus(gain / unit, self.temperature * sample_deviation(gain, unit) / unit)

    def _mean(self, parts: list[Tensor], U: Tensor) -> Tensor:
        if not parts:
            return 0.0 * U.sum(1)
        total = torch.stack(parts)
        if self.is_log:
            return torch.logsumexp(total.sum(0), 0) - math.log(total.shape[1])
        return total.prod(0).mean(0)

    def search_scale(self, pool: Float64[Tensor, "b d"]) -> float:
        """Return 1 for a logarithm, else the largest value in the pool."""
        return 1.0 if self.is_log else _largest(self.values(pool))


def _largest(f: Float64[Tensor, "b k"]) -> float:
    """Return the largest finite objective; 1 if none is positive."""
    largest = float(torch.nan_to_num(f[:, 0], nan=0.0, posinf=0.0, neginf=0.0).max())
    return largest if largest > 0 else 1.0


# ------------------------------------------------------------------------------------------------------------ solvers


class ImprovementRun(BayesRun):
    """One run: improve on the incumbent, or find a feasible point first."""

    def __init__(
        self,
        settings: Settings,
        problem: Problem,
        stream: Stream,
        acquire: Callable[[Scene, float | None], Acquisition],
    ) -> None:
        super().__init__(settings, problem, stream)
        self._acquire = acquire

    def _explore(self, scene: Scene) -> tuple[Optimum, Why]:
        best = incumbent(scene)
        found = maximize(self._acquire(scene, best), scene)
        return found, Why("feasibility" if best is None else "improve")


def paper_believer() -> Believer:
    """Return the models of `CUQB.paper()`, which the paper uses for all its solvers."""
    return CUQB.paper().believer


@dataclass(frozen=True, kw_only=True)
class EIC(BeliefSolver):
    """Expected improvement times probability of feasibility, black-box: on values of the functions, in closed form."""

    name: ClassVar[str] = "eic"
    lists: ClassVar[bool] = True

    log: bool = True
    """Whether the logarithm is maximized; the product itself underflows to zero over most of the box."""
    believer: Believer = field(default_factory=folded_believer)
    """Candidate models."""

    @classmethod
    def paper(cls) -> "EIC":
        """Return the paper's: models and search of `CUQB.paper()`, the product itself."""
        return cls(log=False, verify_every=None, believer=paper_believer(), search=PenaltySearch())

    def start(self, problem: Problem, stream: Stream) -> FoldedRun:
        """Begin a run on the folded problem."""

        def acquire(scene: Scene, best: float | None) -> Acquisition:
            return ClosedForm(scene.composite, scene.belief.warps, best, scene.scales, self.log)

        return FoldedRun(problem, lambda folded: ImprovementRun(self, folded, stream, acquire))


@dataclass(frozen=True, kw_only=True)
class EICCF(BeliefSolver):
    """Expected improvement with constraints of composite functions: improvement times a sigmoid, mean over samples."""

    name: ClassVar[str] = "eic-cf"
    lists: ClassVar[bool] = True

    samples: int = 512
    """Base samples while solving."""
    screening: int = 128
    """Base samples while screening many points."""
    temperature: float = 0.05
    """Width of the sigmoid that replaces the indicator."""
    relative: bool = True
    """Whether the width is a fraction of each constraint's standard deviation at the point, which shrinks with the
    uncertainty and does not depend on units; False: natural units."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_samples(self.samples, self.screening, self.temperature)

    @classmethod
    def paper(cls) -> "EICCF":
        """Return the paper's: models and search of `CUQB.paper()`, 50 samples, the temperature of its scripts."""
        return cls(
            samples=50,
            screening=50,
            temperature=1e-4,
            relative=False,
            verify_every=None,
            believer=paper_believer(),
            search=PenaltySearch(),
        )

    def start(self, problem: Problem, stream: Stream) -> ImprovementRun:
        """Begin a run."""

        def acquire(scene: Scene, best: float | None) -> Acquisition:
            settings = (self.samples, self.screening, self.temperature, self.relative)
            return Sampled(scene.composite, best, scene.scales, *settings, is_log=False)

        return ImprovementRun(self, problem, stream, acquire)


@dataclass(frozen=True, kw_only=True)
class LogEICF(BeliefSolver):
    """Log expected improvement with constraints of composite functions; its smooth tails do not underflow."""

    name: ClassVar[str] = "logei-cf"
    lists: ClassVar[bool] = True

    samples: int = 512
    """Base samples while solving."""
    screening: int = 128
    """Base samples while screening many points."""
    temperature: float = 0.05
    """Width over which improvement and indicators are smoothed, relative to each function's standard deviation."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_samples(self.samples, self.screening, self.temperature)

    def start(self, problem: Problem, stream: Stream) -> ImprovementRun:
        """Begin a run."""

        def acquire(scene: Scene, best: float | None) -> Acquisition:
            settings = (self.samples, self.screening, self.temperature)
            return Sampled(scene.composite, best, scene.scales, *settings, is_relative=True, is_log=True)

        return ImprovementRun(self, problem, stream, acquire)


def check_samples(samples: int, screening: int, temperature: float) -> None:
    """Refuse settings that are out of range."""
    if samples < 2 or screening < 2:
        raise SettingError(f"an expectation needs at least 2 samples, got {samples} and {screening}")
    if not temperature > 0:
        raise SettingError(f"the temperature is a width above 0, got {temperature}")


def eic_paper() -> EIC:
    """EIC with the models and the search of the paper."""
    return EIC.paper()


def eic_cf_paper() -> EICCF:
    """EIC-CF with the models, the search, the 50 samples and the temperature of the paper."""
    return EICCF.paper()
