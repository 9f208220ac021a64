"""Where evaluations are likely to succeed, learned from those that failed: one more constraint on the search.

Success is modelled as one more output, 1 or -1, with a belief and an upper bound of its own. The search may propose
points whose upper bound is at least 0. While no evaluation has failed, there is no such constraint.
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
"""A rough kernel, because success jumps at a border, and a constant trend, because no slope is to be expected."""


@dataclass(frozen=True, eq=False)
class SuccessModel:
    """The upper bound of success at a point: below 0, the evaluation is likely to fail."""

    belief: TensorGP
    d: int
    """Dimensions of the cube."""
    z: float = 1.0
    """How many standard deviations the bound lies above the mean; 1: a chance of one in six is worth a try."""

    @classmethod
    def fit(cls, data: Dataset) -> "SuccessModel | None":
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

    def is_likely(self, U: Float64[Tensor, "b d"]) -> Bool[Tensor, "b"]:
        """Tell at which points an evaluation may succeed."""
        return self.values(U)[:, 0] >= 0


@dataclass(frozen=True, eq=False)
class WithSuccess:
    """Functions, with success as their last constraint.

    Points may have more coordinates than the model of success (`joint`): the first ones are those of the cube.
    """

    functions: Functions
    success: SuccessModel

    @property
    def k(self) -> int:
        """Number of functions, success included."""
        return self.functions.k + 1

    @property
    def white(self) -> tuple[int, ...]:
        """Constraints that are known exactly."""
        return tuple(self.functions.white)

    def coarse(self) -> "WithSuccess | None":
        """Return the cheaper version of the functions, with the same constraint."""
        cheaper = self.functions.coarse() if isinstance(self.functions, Refined) else None
        return None if cheaper is None else replace(self, functions=cheaper)

    def values(self, W: Float64[Tensor, "b w"]) -> Float64[Tensor, "b k"]:
        """Return all functions."""
        return torch.cat([self.functions.values(W), self.success.values(self._point(W))], 1)

    def values_and_slopes(self, W: Float64[Tensor, "b w"]) -> tuple[Float64[Tensor, "b k"], Float64[Tensor, "b k w"]]:
        """Return all functions and their slopes."""
        f, slopes = self.functions.values_and_slopes(W)
        success, by_u = self.success.values_and_slopes(self._point(W))
        by_w = torch.cat([by_u, by_u.new_zeros(len(W), 1, W.shape[1] - self.success.d)], 2)
        return torch.cat([f, success], 1), torch.cat([slopes, by_w], 1)

    def _point(self, W: Float64[Tensor, "b w"]) -> Float64[Tensor, "b d"]:
        return W[:, : self.success.d].contiguous()


@dataclass(frozen=True, kw_only=True)
class SuccessSearch(Search):
    """A search that stays where success is likely."""

    success: SuccessModel

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
        """Maximize the first function subject to the others and to likely success."""
        whole, all_scales = WithSuccess(functions, self.success), torch.cat([scales, scales.new_ones(1)])
        best = super().solve(whole, all_scales, pool, known, stream, rescue=rescue)
        return best.of_first(functions.k)


def where_success_is_likely(search: Search | Enumeration, success: SuccessModel) -> Search | Enumeration:
    """Restrict a search to points that are likely to succeed; a list with none of them is returned as it is."""
    if isinstance(search, Search):
        return SuccessSearch(**asdict(search), success=success)
    left = search.without((~success.is_likely(search.U)).nonzero()[:, 0])
    return left if bool(left.offered.any()) else search
