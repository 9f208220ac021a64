"""Where evaluations succeed, learned from those that failed: one more constraint on the search.

Whether an evaluation succeeds is treated as one more output, 1 or -1, with a belief and an upper bound of its own: what
may succeed is looked at, what is known to fail is not. Nothing is fenced off while nothing has failed.
"""

from dataclasses import asdict, dataclass, replace

import torch
from jaxtyping import Bool, Float64
from torch import Tensor

from pied.bounds.tensors import TensorGP
from pied.gp import Model
from pied.records import Dataset
from pied.rng import Stream
from pied.search import Enumeration, Functions, Optimum, Refined, Search

MODEL = Model(
    kernels=("matern 3/2",), trends=("constant",), warps=("none",), scales=("plain",), waves=False, declustering=None
)
"""A border is rough, and there is no reason for a slope."""


@dataclass(frozen=True, eq=False)
class Fence:
    """The upper bound of success at a point: below 0, failure is likely."""

    belief: TensorGP
    d: int
    """Dimensions of the cube."""
    z: float = 1.0
    """How many standard deviations the bound lies above the mean; 1: a chance of one in six is worth a try."""

    @classmethod
    def around(cls, data: Dataset) -> "Fence | None":
        """Learn from a record; None while nothing has failed."""
        if not len(data.failed):
            return None
        U = torch.cat([data.U, data.failed])
        success = torch.ones(len(U), 1, dtype=torch.float64)
        success[len(data.U) :] = -1.0
        return cls(TensorGP.fit(U, success, noise=(None,), model=MODEL), U.shape[1])

    def values(self, U: Float64[Tensor, "b d"]) -> Float64[Tensor, "b 1"]:
        """Return the bound."""
        mean, deviation = self.belief.moments(U)
        return mean + self.z * deviation

    def values_and_slopes(self, U: Float64[Tensor, "b d"]) -> tuple[Float64[Tensor, "b 1"], Float64[Tensor, "b 1 d"]]:
        """Return the bound and its slopes."""
        mean, deviation, by_mean, by_deviation = self.belief.moments_and_slopes(U)
        return mean + self.z * deviation, by_mean + self.z * by_deviation

    def holds(self, U: Float64[Tensor, "b d"]) -> Bool[Tensor, "b"]:
        """Tell where an evaluation may succeed."""
        return self.values(U)[:, 0] >= 0


@dataclass(frozen=True, eq=False)
class Within:
    """Functions, and the fence as their last constraint.

    Points may have more coordinates than the fence knows (`joint`): the first are those of the cube.
    """

    functions: Functions
    fence: Fence

    @property
    def k(self) -> int:
        """Number of functions, the fence among them."""
        return self.functions.k + 1

    @property
    def white(self) -> tuple[int, ...]:
        """Constraints that are known exactly."""
        return tuple(self.functions.white)

    def coarse(self) -> "Within | None":
        """Return the cheaper version of the functions, with the fence."""
        cheaper = self.functions.coarse() if isinstance(self.functions, Refined) else None
        return None if cheaper is None else replace(self, functions=cheaper)

    def values(self, W: Float64[Tensor, "b w"]) -> Float64[Tensor, "b k"]:
        """Return all functions."""
        return torch.cat([self.functions.values(W), self.fence.values(self._point(W))], 1)

    def values_and_slopes(self, W: Float64[Tensor, "b w"]) -> tuple[Float64[Tensor, "b k"], Float64[Tensor, "b k w"]]:
        """Return all functions and their slopes."""
        f, slopes = self.functions.values_and_slopes(W)
        success, by_u = self.fence.values_and_slopes(self._point(W))
        by_w = torch.cat([by_u, by_u.new_zeros(len(W), 1, W.shape[1] - self.fence.d)], 2)
        return torch.cat([f, success], 1), torch.cat([slopes, by_w], 1)

    def _point(self, W: Float64[Tensor, "b w"]) -> Float64[Tensor, "b d"]:
        return W[:, : self.fence.d].contiguous()


@dataclass(frozen=True, kw_only=True)
class Fenced(Search):
    """A search that does not look beyond the fence."""

    fence: Fence

    def solve(
        self,
        functions: Functions,
        scales: Float64[Tensor, "k"],
        pool: Float64[Tensor, "b w"],
        known: Float64[Tensor, "s w"],
        stream: Stream,
        *,
        rescue: bool = True,
    ) -> Optimum:
        """Maximize the first function subject to the others and to the fence."""
        whole, everything = Within(functions, self.fence), torch.cat([scales, scales.new_ones(1)])
        best = super().solve(whole, everything, pool, known, stream, rescue=rescue)
        return best.of_first(functions.k)


def fenced(search: Search | Enumeration, fence: Fence) -> Search | Enumeration:
    """Keep a search in the unit cube, or among candidates, within a fence; where nothing is left it stays as it is."""
    if isinstance(search, Search):
        return Fenced(**asdict(search), fence=fence)
    left = search.without((~fence.holds(search.U)).nonzero()[:, 0])
    return left if bool(left.offered.any()) else search
