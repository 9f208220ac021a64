"""From a record to bounds: fit the belief, imagine what is pending, compose it with g."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Bool, Float64
from torch import Tensor

from pied.bounds.composite import WORST_POINTS, Belief, Composite
from pied.bounds.estimator import Estimator
from pied.bounds.tensors import TensorGP
from pied.gp import Choice, Model
from pied.problem import Problem
from pied.records import Dataset
from pied.rng import Stream


@dataclass(frozen=True)
class Believer:
    """How beliefs are made: what models may be chosen from, and how quantiles are found."""

    model: Model = field(default_factory=Model)
    estimator: Estimator = field(default_factory=Estimator)

    def fit(self, problem: Problem, data: Dataset, previous: Sequence[Choice] | None = None) -> TensorGP:
        """Fit the belief to what was told; pending and failed points are imagined at their mean."""
        gp = TensorGP.fit(
            data.U,
            data.Y,
            active=problem.active,
            ratios=ratios(problem),
            noise=problem.noise,
            model=self.model,
            previous=previous,
        )
        untold = ~torch.isfinite(data.Y)
        partial = untold.any(1)
        points = torch.cat([data.U[partial], data.imagined])
        everything = torch.ones(len(data.imagined), problem.m, dtype=torch.bool, device=untold.device)
        missing = torch.cat([untold[partial], everything])
        return gp.imagine(points, missing)

    def bound(self, problem: Problem, data: Dataset, belief: Belief, stream: Stream) -> Composite:
        """Compose a belief with the white box."""
        return Composite(problem, belief, stream, estimator=self.estimator, told=data.Y)


@dataclass(frozen=True, eq=False)
class Widened:
    """A belief with wider deviations."""

    belief: Belief
    factor: float

    @property
    def is_warped(self) -> bool:
        """As the belief."""
        return self.belief.is_warped

    def moments(self, U: Float64[Tensor, "b d"]) -> tuple[Float64[Tensor, "b m"], Float64[Tensor, "b *m"]]:
        """Return the mean and the wider scale."""
        mean, scale = self.belief.moments(U)
        return mean, self.factor * scale

    def moments_and_slopes(
        self, U: Float64[Tensor, "b d"]
    ) -> tuple[Float64[Tensor, "b m"], Float64[Tensor, "b *m"], Float64[Tensor, "b m d"], Float64[Tensor, "b *m d"]]:
        """Return the moments and their derivatives."""
        mean, scale, mean_slope, scale_slope = self.belief.moments_and_slopes(U)
        return mean, self.factor * scale, mean_slope, self.factor * scale_slope

    def unwarp(self, W: Float64[Tensor, "*b m"]) -> Float64[Tensor, "*b m"]:
        """As the belief."""
        return self.belief.unwarp(W)

    def unwarp_slopes(self, Y: Float64[Tensor, "*b m"]) -> Float64[Tensor, "*b m"]:
        """As the belief."""
        return self.belief.unwarp_slopes(Y)


def ratios(problem: Problem) -> Float64[Tensor, "d"]:
    """Return upper over lower bound of positive variables that are not on a logarithmic scale already, else 1."""
    values = [
        variable.hi / variable.lo if variable.lo > 0 and not variable.log else 1.0
        for variable in problem.variables.values()
    ]
    return torch.tensor(values, dtype=torch.float64)


def to_memory(choices: Sequence[Choice]) -> dict[str, Any]:
    """Return what the belief chose as plain data."""
    return {"choices": [choice.to_dict() for choice in choices]}


def from_memory(memory: Mapping[str, Any]) -> tuple[Choice, ...] | None:
    """Return what an earlier belief chose, if it was written down."""
    stored = memory.get("choices")
    return tuple(Choice.from_dict(each) for each in stored) if stored else None


@dataclass(frozen=True, eq=False)
class Bounds:
    """The functions of a subproblem: every function of the problem at its level."""

    composite: Composite
    levels: tuple[float | None, ...]
    screening: bool = False
    """Whether slopes, too, are found with the samples of screening."""

    def coarse(self) -> "Bounds | None":
        """Return the bounds with fewer samples; None where everything has a closed form."""
        return None if self.screening or not self.composite.is_sampled else replace(self, screening=True)

    @property
    def k(self) -> int:
        """Number of functions."""
        return self.composite.problem.k

    @property
    def white(self) -> tuple[int, ...]:
        """Constraints that are known exactly."""
        return self.composite.problem.white

    def values(self, U: Float64[Tensor, "b d"]) -> Float64[Tensor, "b k"]:
        """Return all functions with the samples of screening."""
        return self.composite.values(U, self.levels, screening=True)

    def values_and_slopes(self, U: Float64[Tensor, "b d"]) -> tuple[Float64[Tensor, "b k"], Float64[Tensor, "b k d"]]:
        """Return all functions and their slopes."""
        return self.composite.values_and_slopes(U, self.levels, screening=self.screening)

    @property
    def seen(self) -> Bool[Tensor, "d"]:
        """Which coordinates some output depends on."""
        return self.composite.problem.active.any(0)

    def widths(self, u: Float64[Tensor, "d"]) -> Float64[Tensor, "k"]:
        """Return how far apart the bounds are at a point."""
        return self.composite.widths(u)


def optimistic(composite: Composite, level: float) -> Bounds:
    """Explore: upper bounds throughout."""
    return Bounds(composite, (level,) * composite.problem.k)


def possible(composite: Composite, level: float) -> Bounds:
    """Judge feasibility: upper bounds of the constraints, no objective."""
    return Bounds(composite, (None,) + (level,) * composite.problem.n)


def pessimistic(composite: Composite, level: float) -> Bounds:
    """Verify: the median of the objective, lower bounds of the constraints."""
    return Bounds(composite, (0.5,) + (1.0 - level,) * composite.problem.n)


@dataclass(frozen=True, eq=False)
class White:
    """The constraints that are known exactly, as a subproblem of their own that needs no belief."""

    problem: Problem
    which: tuple[int, ...]
    """Places of the constraints among the problem's functions."""
    near: Float64[Tensor, "d"] | None = None
    """The objective: as near to this point as possible; None: anywhere."""

    @property
    def k(self) -> int:
        """Number of functions."""
        return 1 + len(self.which)

    @property
    def white(self) -> tuple[int, ...]:
        """All of the constraints."""
        return tuple(range(1, self.k))

    def values(self, U: Float64[Tensor, "b d"]) -> Float64[Tensor, "b k"]:
        """Return all functions; where one is not finite, what stands for the worst."""
        f = torch.stack(self._columns(U), -1).detach()
        fine = torch.isfinite(f)
        return f if bool(fine.all()) else torch.where(fine, f, self._worst.to(f.device))

    @cached_property
    def _worst(self) -> Float64[Tensor, "k"]:
        """Below zero, and one range below what each function is in the box; found from the same points always.

        So a value depends on its point alone, not on the points beside it.
        """
        f = torch.stack(self._columns(Stream(0).at("worst").sobol(WORST_POINTS, self.problem.d)), -1).detach()
        fine = torch.isfinite(f)
        low, high = torch.where(fine, f, torch.inf).amin(0), torch.where(fine, f, -torch.inf).amax(0)
        worst = torch.minimum(low, -high.abs()) - (high - low)
        return torch.where(fine.any(0) & (worst < 0.0), worst, -1.0)

    def values_and_slopes(self, U: Float64[Tensor, "b d"]) -> tuple[Float64[Tensor, "b k"], Float64[Tensor, "b k d"]]:
        """Return all functions and their slopes; not finite where they are not."""
        points = U.detach().requires_grad_()
        with torch.enable_grad():
            columns = self._columns(points)
            slopes = [torch.autograd.grad(f.sum(), points, retain_graph=True)[0] for f in columns]
        return torch.stack(columns, -1).detach(), torch.stack(slopes, 1)

    def _columns(self, U: Tensor) -> list[Tensor]:
        nothing = U.new_zeros(1, len(U), self.problem.m)
        objective = 0.0 * U.sum(-1) if self.near is None else -(U - self.near).square().sum(-1)
        return [objective, *self.problem.g(self.problem.from_unit(U), nothing, which=self.which)]
