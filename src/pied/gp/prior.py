"""A process that is stated and not learned: mean and covariance of Algorithm 1, mu_0 and K_0."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy import ndarray

from pied.errors import SettingError, did_you_mean
from pied.gp.choices import Model, ModelChoice
from pied.gp.drift import Known
from pied.gp.features.coding import Coding
from pied.gp.kernels import KERNELS
from pied.gp.likelihood import EXACT_NUGGET
from pied.gp.observations import Cut, Observations
from pied.shapes import Bool, Float64


@dataclass(frozen=True)
class Prior:
    """The process of one output before anything was measured, with which nothing is chosen or fitted.

    It is that of the paper's theorems, whose bounds hold for a process that is known (`Believer(priors=...)`).

    Example: `docs/guarantees.md`.
    """

    deviation: float
    """Standard deviation of the process, in the output's unit."""
    length_scales: float | tuple[float, ...]
    """One for all variables, or one for each, as a share of the variable's range (of a log range, of its logarithm)."""
    kernel: str = "matern 5/2"
    """Its kernel: "matern 3/2", "matern 5/2" or "squared exponential"."""
    mean: float | str = 0.0
    """Its mean, in the output's unit: a number, or a formula in the variables ("2*T + 1")."""

    def __post_init__(self) -> None:
        if self.kernel not in KERNELS:
            raise SettingError(f"unknown kernel '{self.kernel}'.{did_you_mean(self.kernel, KERNELS)}")
        scales = self.length_scales if isinstance(self.length_scales, tuple) else (self.length_scales,)
        for word, values in (("deviation", (self.deviation,)), ("length_scales", scales)):
            if not values or not all(0.0 < each < math.inf for each in values):
                raise SettingError(f"{word} of a prior is positive, got {getattr(self, word)}")
        is_formula = isinstance(self.mean, str) and self.mean.strip()
        if not is_formula and not (isinstance(self.mean, int | float) and math.isfinite(self.mean)):
            raise SettingError(f"the mean of a prior is a finite number, or a formula as text, got {self.mean}")

    @property
    def location(self) -> float:
        """The mean, if it is a number; 0 where it is a formula, which is a model of the output."""
        return 0.0 if isinstance(self.mean, str) else self.mean

    def scales(self, d: int) -> tuple[float, ...]:
        """Return the length scale of each of d variables."""
        return self.length_scales if isinstance(self.length_scales, tuple) else (self.length_scales,) * d

    def choice(self, d: int, noise: float, coding: Coding | None) -> ModelChoice:
        """Return the process as if it had been chosen, of deviation 1."""
        scales = np.array(self.scales(d))
        scales = scales if coding is None else coding.expanded(scales)
        nugget = max((noise / self.deviation) ** 2, EXACT_NUGGET)
        trend = "stated" if isinstance(self.mean, str) else "none"
        return ModelChoice(self.kernel, trend, "none", "plain", (*np.log(scales).tolist(), math.log(nugget)), 0, 0)


def observed(
    U: Float64[ndarray, "N d"],
    Y: Float64[ndarray, "N m"],
    priors: Sequence[Prior],
    *,
    active: Bool[ndarray, "m d"],
    noise: Sequence[float | None],
    coding: Coding | None,
    cut: Cut | None = None,
    known: Known | None = None,
) -> tuple[Observations, list[ModelChoice]]:
    """Return what was told in units of the priors, and the choices that stand for them.

    Without a point, one stands there at which nothing was told.
    """
    d = U.shape[1]
    if not len(U):
        U, Y, cut = np.full((1, d), 0.5), np.full((1, len(priors)), np.nan), None
    model = Model(
        kernels=tuple(dict.fromkeys(each.kernel for each in priors)),
        trends=("none",), warps=("none",), scales=("plain",),
        waves=False, plateaus=False, declustering=None, shared=None,
    )  # fmt: skip
    data = Observations.of(U, Y, active, np.ones(d), noise, model, coding, cut, known=known)
    scales = tuple(
        {"none": own["none"]._replace(location=each.location, deviation=each.deviation)}
        for own, each in zip(data.scales, priors, strict=True)
    )
    choices = [each.choice(d, float(known or 0.0), coding) for each, known in zip(priors, noise, strict=True)]
    return data.on(scales), choices
