"""The belief of `pied.gp`, which works on NumPy arrays, for callers that work on tensors."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float64
from torch import Tensor

from pied.gp import GP, Choice, Model, Warp


@dataclass(frozen=True, eq=False)
class TensorGP:
    """A `GP` with tensors in and out."""

    gp: GP

    @classmethod
    def fit(
        cls,
        U: Float64[Tensor, "N d"],
        Y: Float64[Tensor, "N m"],
        *,
        active: Bool[Tensor, "m d"] | None = None,
        ratios: Float64[Tensor, "d"] | None = None,
        noise: Sequence[float | None] | None = None,
        model: Model | None = None,
        previous: Sequence[Choice] | None = None,
    ) -> "TensorGP":
        """Fit as `GP.fit` does."""
        return cls(
            GP.fit(
                U.numpy(),
                Y.numpy(),
                active=None if active is None else active.numpy(),
                ratios=None if ratios is None else ratios.numpy(),
                noise=noise,
                model=model,
                previous=previous,
            )
        )

    @property
    def choices(self) -> tuple[Choice, ...]:
        """What was chosen for each output."""
        return self.gp.choices

    @property
    def warps(self) -> tuple[Warp, ...]:
        """The warp of each output."""
        return self.gp.warps

    @property
    def rung(self) -> str:
        """The rung of the ladder of jitters that was needed."""
        return self.gp.rung

    @property
    def is_warped(self) -> bool:
        """Whether any output is modelled on another scale."""
        return self.gp.is_warped

    def moments(self, U: Float64[Tensor, "b d"]) -> tuple[Float64[Tensor, "b m"], Float64[Tensor, "b m"]]:
        """Return mean and standard deviation of every output on its warped scale."""
        mean, deviation = self.gp.moments(U.detach().numpy())
        return torch.from_numpy(mean), torch.from_numpy(deviation)

    def moments_and_slopes(
        self, U: Float64[Tensor, "b d"]
    ) -> tuple[Float64[Tensor, "b m"], Float64[Tensor, "b m"], Float64[Tensor, "b m d"], Float64[Tensor, "b m d"]]:
        """Return mean, standard deviation and their derivatives with respect to the point."""
        mean, deviation, by_mean, by_deviation = map(torch.from_numpy, self.gp.moments_and_slopes(U.detach().numpy()))
        return mean, deviation, by_mean, by_deviation

    def unwarp(self, W: Float64[Tensor, "*b m"]) -> Float64[Tensor, "*b m"]:
        """Return outputs in natural units from values on the warped scale; gradients flow through it."""
        if not self.is_warped:
            return W
        if not W.requires_grad:
            return torch.from_numpy(self.gp.unwarp(W.numpy()))
        is_log, signs, offsets, units = map(torch.from_numpy, self.gp.logs)
        inner = units * torch.exp(torch.minimum(signs * W, 700.0 - units.log().clamp_min(0.0)))
        return torch.where(is_log, signs * (inner - offsets), W)

    def unwarp_slopes(self, Y: Float64[Tensor, "*b m"]) -> Float64[Tensor, "*b m"]:
        """Return the derivatives of `unwarp` where it gives these outputs."""
        return torch.from_numpy(self.gp.unwarp_slopes(Y.detach().numpy()))

    def imagine(self, U: Float64[Tensor, "p d"], missing: Bool[Tensor, "p m"] | None = None) -> "TensorGP":
        """Add points as if measured at their mean."""
        return TensorGP(self.gp.imagine(U.numpy(), None if missing is None else missing.numpy()))
