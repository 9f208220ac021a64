"""Models of outputs: what is known of an output at every point, as a part of its trend (kriging with external drift).

On the warped scale of an output y with the model m,

    w(y) = a w(m(x)) + trend + rest,

so that a model is a term on a plain scale and a factor on a logarithmic one. The trends "model" and "model, linear"
take a = 1, "scaled model" learns it as one more coefficient; "stated" is the mean of a stated process and nothing else.
Which trend an output has, or one without the model, is chosen by leave-one-out density like every part of a belief.
"""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy import ndarray

from pied.gp.features.coding import Coding
from pied.gp.warps import Standardized, Warp, Warps
from pied.shapes import Bool, Float64

MODELLED = ("model", "model, linear", "scaled model", "stated")
"""Trends with a model."""
REACH = 0.1  # of the least argument that a told value gives a logarithm: models below it go on straight


@runtime_checkable
class Known(Protocol):
    """Models of some outputs, by point of the unit cube."""

    @property
    def outputs(self) -> tuple[int, ...]:
        """Which outputs have one."""

    def values(self, U: Float64[ndarray, "b d"]) -> Float64[ndarray, "b m"]:
        """Return what is known of every output, natural units; 0 for those without a model."""

    def values_and_slopes(
        self, U: Float64[ndarray, "b d"]
    ) -> tuple[Float64[ndarray, "b m"], Float64[ndarray, "b m d"]]:
        """Return the same with its slopes."""


@dataclass(frozen=True, eq=False)
class Drift:
    """The models of some regressions, standardized as their outputs are."""

    known: Known
    outputs: tuple[int, ...]
    """Of every regression."""
    scales: tuple[Standardized, ...]
    """On which each is modelled."""
    least: tuple[float, ...]
    """Least argument of each one's warp (`reached`)."""
    used: Bool[ndarray, "B"]
    """Which have a model."""
    scaled: Bool[ndarray, "B"]
    """Where the model is also the last column of the trend, less its centre: its factor is learned."""
    centre: Float64[ndarray, "B"]
    coding: Coding | None = None

    @property
    def places(self) -> list[int]:
        """The regressions that have a model."""
        return np.flatnonzero(self.used).tolist()

    def beside(self, basis: Float64[ndarray, "*F b p"], known: Float64[ndarray, "B b"]) -> Float64[ndarray, "*G b q"]:
        """Return the columns of a trend, with the models as the last one where some regression scales its own."""
        return with_models(basis, known, self.scaled, self.centre)

    def values(self, U: Float64[ndarray, "b e"]) -> Float64[ndarray, "B b"]:
        """Return the models at points; 0 of regressions without one."""
        M = self.known.values(U if self.coding is None else self.coding.cube(U))
        values = np.zeros((len(self.outputs), len(U)))
        for i in self.places:
            values[i], _ = standardized(self.scales[i], M[:, self.outputs[i]], self.least[i])
        return values

    def values_and_slopes(
        self, U: Float64[ndarray, "b e"]
    ) -> tuple[Float64[ndarray, "B b"], Float64[ndarray, "B b e"]]:
        """Return the models at points and their slopes by what the regressions see of them."""
        M, by_u = self.known.values_and_slopes(U if self.coding is None else self.coding.cube(U))
        values = np.zeros((len(self.outputs), len(U)))
        slopes = np.zeros((*values.shape, U.shape[1]))
        for i in self.places:
            j = self.outputs[i]
            values[i], steepness = standardized(self.scales[i], M[:, j], self.least[i])
            own = steepness[:, None] * by_u[:, j]
            if self.coding is None:
                slopes[i] = own
            else:
                slopes[i, :, : len(self.coding.plain)] = own[:, self.coding.plain]
        return values, np.where(np.isfinite(slopes), slopes, 0.0)


def with_models(
    basis: Float64[ndarray, "*F b p"],
    known: Float64[ndarray, "B b"],
    scaled: Bool[ndarray, "B"],
    centre: Float64[ndarray, "B"],
) -> Float64[ndarray, "*G b q"]:
    """Return the columns of a trend with a further one, the models that are scaled; as they were if none is."""
    if not scaled.any():
        return basis
    own = (known - centre[:, None]) * scaled[:, None]
    whole = np.broadcast_to(basis, (len(known), *basis.shape[-2:]))
    return np.concatenate([whole, own[:, :, None]], -1)


def arguments(warp: Warp, y: Float64[ndarray, "n"]) -> Float64[ndarray, "n"]:
    """Return how far values are from where a warp ends."""
    lower = warp.sign * y + warp.offset
    return np.minimum(lower, warp.top - y) if warp.name == "logit" else lower


def least_argument(warp: Warp, y: Float64[ndarray, "n"]) -> float:
    """Return the argument of a warp below which a model goes on straight, given the told values of its output."""
    return 0.0 if warp.name == "none" or not len(y) else REACH * float(arguments(warp, y).min())


def reached(
    warp: Warp, M: Float64[ndarray, "*b"], least: float
) -> tuple[Float64[ndarray, "*b"], Float64[ndarray, "*b"]]:
    """Return w(m) and w'(m), which goes on straight where the argument of a logarithm is below the least one."""
    if warp.name == "none":
        return M, np.ones_like(M)
    end = warp.sign * (least - warp.offset)
    inside = np.maximum(M, end) if warp.sign > 0 else np.minimum(M, end)
    inside = np.minimum(inside, warp.top - least)
    slope = warp.steepness(inside)
    return warp.forward(inside) + slope * (M - inside), slope


def standardized(
    scale: Standardized, M: Float64[ndarray, "b"], least: float
) -> tuple[Float64[ndarray, "b"], Float64[ndarray, "b"]]:
    """Return a model on the scale of its output, 0 where it is not a number, and its slope."""
    w, slope = reached(scale.warp, M, least)
    value = (w - scale.location) / scale.deviation
    fine = np.isfinite(value)
    return np.where(fine, value, 0.0), np.where(fine, slope / scale.deviation, 0.0)


def left_by_model(
    warp: Warp, y: Float64[ndarray, "n"], M: Float64[ndarray, "n"], is_scaled: bool
) -> tuple[float, float | None]:
    """Return what a model, with a constant on the scale of a warp, leaves of told values (root mean square, natural).

    Also the factor of the model, where it is scaled; by least squares, every value counting the same.
    """
    if len(y) < 2:
        return (float(np.abs(y - M).max()) if len(y) else 0.0), None
    w, m = warp.forward(y), reached(warp, M, least_argument(warp, y))[0]
    away = m - m.mean()
    is_scaled = is_scaled and bool(away.any())
    factor = float((away @ w) / (away @ away)) if is_scaled else 1.0
    said = Warps.of((warp,)).undone((w.mean() + factor * away)[:, None])[:, 0]
    return float(np.sqrt(np.mean((y - said) ** 2))), factor if is_scaled else None
