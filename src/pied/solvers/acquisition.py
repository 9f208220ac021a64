"""What the rival solvers with a belief share: settings, and acquisition functions as subproblems.

An acquisition computes its columns, objective first, from a point and the moments of the outputs there. The belief has
the slopes of its moments in closed form; the rest is differentiated by torch.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import torch
from jaxtyping import Float64
from torch import Tensor

from pied.bounds import NUMBERS_AT_ONCE, Belief, Believer, Composite
from pied.errors import SettingError
from pied.search import Functions, Optimum, PenaltySearch, Search
from pied.solvers.base import Solver
from pied.solvers.cuqb import Scene

Columns = Callable[[Sequence[Tensor]], list[Tensor]]
"""From the leaves (points, mean, deviation) to one tensor `b` per function."""


@dataclass(frozen=True, kw_only=True)
class BeliefSolver(Solver):
    """Settings of every rival with a belief, named as in `CUQB`."""

    level: float = 0.95
    """p of the bounds that verify and that are recorded, and of the rival's own bounds if it has some."""
    verify_every: int | None = 3
    """A trial verifies after this many, as in `CUQB`; None: never."""
    believer: Believer = field(default_factory=Believer)
    """Candidate models, and the estimator of quantiles."""
    search: Search | PenaltySearch = field(default_factory=Search)
    """How the subproblem is solved."""
    strict: bool = False
    """Whether a numerical failure is raised; by default a more robust step is tried."""

    def __post_init__(self) -> None:
        """Refuse settings that are out of range."""
        if not 0.5 < self.level < 1.0:
            raise SettingError(f"level is the probability of the upper bound, between 0.5 and 1, got {self.level}")
        if self.verify_every is not None and self.verify_every < 1:
            raise SettingError(f"verify_every counts trials from 1, or is None for never, got {self.verify_every}")


def sloped(
    belief: Belief, U: Float64[Tensor, "b d"], columns: Columns
) -> tuple[Float64[Tensor, "b c"], Float64[Tensor, "b c d"]]:
    """Return functions of a point and of the moments there, and their slopes with respect to the point.

    Args:
        belief: Of independent outputs, with standard deviations `b m`.
        U: Points.
        columns: The functions.
    """
    mean, deviation, mean_slope, deviation_slope = belief.moments_and_slopes(U)
    leaves = [each.detach().requires_grad_() for each in (U, mean, deviation)]
    with torch.enable_grad():
        values = columns(leaves)
    slopes = U.new_zeros(len(U), len(values), U.shape[1])
    for i, f in enumerate(values):  # one column at a time: each has its own slopes
        if not f.requires_grad:
            continue
        parts = torch.autograd.grad(
            f, leaves, torch.ones_like(f), retain_graph=True, allow_unused=True, materialize_grads=True
        )
        by_moments = (parts[1][:, None, :] @ mean_slope + parts[2][:, None, :] @ deviation_slope)[:, 0]
        slopes[:, i] = parts[0] + by_moments
    # a sample that is not finite counts as the worst and has no slope
    return torch.stack(values, -1).detach(), torch.nan_to_num(slopes, nan=0.0, posinf=0.0, neginf=0.0)


def at(composite: Composite, U: Float64[Tensor, "b d"], W: Float64[Tensor, "L b m"]) -> list[Float64[Tensor, "L b"]]:
    """Return every function at given outputs in the models' units; values that are not finite count as the worst."""
    problem = composite.problem
    X, Y = problem.from_unit(U), composite.physical(W)
    G = problem.g(X, Y)
    return [composite.with_worst(i, X, Y, g.expand(W.shape[:2])) for i, g in enumerate(G)]


def draws(
    composite: Composite, U: Float64[Tensor, "b d"], mean: Tensor, deviation: Tensor, samples: int
) -> list[Float64[Tensor, "L b"]]:
    """Return samples of every function under given moments, from the base samples of the composite."""
    return at(composite, U, mean + deviation * composite.base_samples(samples).to(mean.device)[:, None, :])


class Acquisition(ABC):
    """A function to be maximized on the unit cube, and its constraints."""

    composite: Composite

    @property
    @abstractmethod
    def which(self) -> tuple[int, ...]:
        """The problem's constraints (1 .. n) that remain constraints; the others are part of the objective."""

    @abstractmethod
    def columns(self, U: Tensor, mean: Tensor, deviation: Tensor, is_screening: bool) -> list[Tensor]:
        """Return the objective and the constraints `which`, one tensor `b` each."""

    @property
    def screening_samples(self) -> int:
        """Samples of the outputs per point while screening."""
        return 1

    def search_scale(self, pool: Float64[Tensor, "b d"]) -> float:
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

    def values(self, U: Float64[Tensor, "b d"]) -> Float64[Tensor, "b k"]:
        """Return all functions, with the samples of screening, in pieces of limited memory."""
        size = max(1, NUMBERS_AT_ONCE // (self.screening_samples * self.composite.problem.m))
        with torch.no_grad():
            parts = [
                torch.stack(self.columns(piece, *self.composite.belief.moments(piece), True), -1).detach()
                for piece in U.split(size)
            ]
        return torch.cat(parts)

    def values_and_slopes(self, U: Float64[Tensor, "b d"]) -> tuple[Float64[Tensor, "b k"], Float64[Tensor, "b k d"]]:
        """Return all functions and their slopes."""
        return sloped(self.composite.belief, U, lambda leaves: self.columns(leaves[0], leaves[1], leaves[2], False))


def black_constraints(composite: Composite) -> tuple[int, ...]:
    """Return the constraints that depend on the black box."""
    structure = composite.problem.structure
    return tuple(i for i in range(1, composite.problem.k) if structure[i].kind != "white")


def exactly(composite: Composite, U: Tensor, mean: Tensor, which: Sequence[int]) -> list[Float64[Tensor, "b"]]:
    """Return functions at the mean of the outputs; for white functions these are the exact values."""
    if not which:
        return []
    problem = composite.problem
    G = problem.g(problem.from_unit(U), composite.physical(mean)[None], which=tuple(which))
    return [g.expand(1, len(U))[0] for g in G]


def maximize(acquisition: Acquisition, scene: Scene) -> Optimum:
    """Maximize an acquisition, starting from the pool and the known points of a scene."""
    own = torch.tensor([acquisition.search_scale(scene.pool)], dtype=scene.scales.dtype, device=scene.scales.device)
    scales = torch.cat([own, scene.scales[list(acquisition.which)]])
    functions: Functions = acquisition
    best = scene.within.solve(functions, scales, scene.pool, scene.known, scene.stream.at("explore"))
    return replace(best, active=tuple(acquisition.which[place - 1] for place in best.active))


def incumbent(scene: Scene) -> float | None:
    """Return the value to improve on; None while nothing is feasible.

    For an exact black box this is the best feasible value told. For a noisy one it is the best median among told points
    whose constraints are met in the median, because the best told value is biased by luck. If all constraints are white
    and no told point meets them, it is the worst value told: any point that meets them is an improvement.
    """
    problem = scene.composite.problem
    values, fine = scene.f[:, 0], scene.is_feasible
    if not all(noise == 0 for noise in problem.noise) and len(scene.data.U):
        median = scene.composite.values(scene.data.U, [0.5] * problem.k)
        values, fine = median[:, 0], (median[:, 1:] >= 0).all(1) & torch.isfinite(median).all(1)
    if bool(fine.any()):
        return float(values[fine].max())
    told = values[torch.isfinite(values)]
    return float(told.min()) if len(told) and not black_constraints(scene.composite) else None
