"""What is said of an output: a mixture of its best few models, where a search uses the best one alone.

From ten points, several models explain an output about equally well and differ between the points by more than each of
them thinks it can be wrong. The models of a mixture have the same warp, so that they predict on one scale; there, the
mixture is a normal distribution with its mean and variance,

    mean = sum_k w_k mean_k,    variance = sum_k w_k (variance_k + (mean_k - mean)^2).

All models pass through an exact told value, and so does their mixture.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy import ndarray

from pied.gp.choices import ModelChoice, Other
from pied.gp.regressions import price
from pied.shapes import Float64

TEMPERATURE = 3.0
"""Nats of leave-one-out score for which a weight falls by a factor e: from ten to forty points, the scores of two
models that predict equally well differ by about as much."""
MOST_POINTS = 100  # with more, the best model is usually far ahead, and others cost as much time as it does
LEAST_DEVIATION = 1e-300  # avoids division by zero

Moments = tuple[ndarray, ndarray]
Slopes = tuple[ndarray, ndarray, ndarray, ndarray]


@dataclass(frozen=True, eq=False)
class Mixture:
    """Beliefs side by side: the k-th has the k-th best model of every output."""

    parts: tuple[Any, ...]
    """`GP`s, which are above this file."""
    weights: Float64[ndarray, "K m"]
    """Of the models of every output; they add up to one."""
    factor: Float64[ndarray, "m"]
    """By which the differences of the models of every output are multiplied."""

    @classmethod
    def of(cls, parts: Sequence[Any]) -> "Mixture":
        """Mix beliefs, the best models first; one that has no other model of an output repeats the best."""
        scores = np.array([each.density - [price(choice) for choice in each.choices] for each in parts])
        for k in range(1, len(parts)):
            scores[k, [len(choice.others) < k for choice in parts[0].choices]] = -np.inf
        return cls(tuple(parts), weighted(scores), np.ones(scores.shape[1]))

    def widened(self, factor: Float64[ndarray, "m"], noise: Float64[ndarray, "m"]) -> "Mixture":
        """Return the mixture of wider beliefs, which differ by as much more; see `GP.widened`."""
        parts = tuple(each.widened(factor, noise) for each in self.parts)
        return replace(self, parts=parts, factor=self.factor * factor)

    @property
    def nugget_deviation(self) -> Float64[ndarray, "m"]:
        """Standard deviation of the noise of every output."""
        noise = np.array([each.nugget_deviation for each in self.parts])
        return np.sqrt(_sum(self.weights, noise**2))

    def moments(self, U: Float64[ndarray, "b d"]) -> Moments:
        """Return mean and standard deviation of every output."""
        means, deviations = (np.stack(each) for each in zip(*(part.moments(U) for part in self.parts), strict=True))
        return self._mixed(means, deviations)

    def moments_and_slopes(self, U: Float64[ndarray, "b d"]) -> Slopes:
        """Return mean, standard deviation and their derivatives with respect to the point."""
        found = zip(*(part.moments_and_slopes(U) for part in self.parts), strict=True)
        means, deviations, by_mean, by_deviation = (np.stack(each) for each in found)
        mean, deviation = self._mixed(means, deviations)
        weights = self.weights[:, None, :, None]
        away = (self.factor**2 * (means - mean))[..., None]
        slope = _sum(weights, deviations[..., None] * by_deviation + away * by_mean)
        return mean, deviation, _sum(weights, by_mean), slope / np.maximum(deviation, LEAST_DEVIATION)[..., None]

    def _mixed(self, means: Float64[ndarray, "K b m"], deviations: Float64[ndarray, "K b m"]) -> Moments:
        weights = self.weights[:, None]
        mean = _sum(weights, means)
        return mean, np.sqrt(_sum(weights, deviations**2 + (self.factor * (means - mean)) ** 2))


def _sum(weights: ndarray, each: ndarray) -> ndarray:
    """Return a weighted sum over models; one without weight may be anything, also no number."""
    return np.asarray(np.where(weights > 0, weights * each, 0.0).sum(0))


def weighted(scores: Float64[ndarray, "K m"]) -> Float64[ndarray, "K m"]:
    """Return the weights of models by their scores, of which the first is the best model's; one that has none has 0."""
    own = np.where(np.isfinite(scores), scores, -np.inf)
    own[0] = np.where(np.isfinite(own[0]), own[0], own[1:].max(0, initial=0.0))
    weights = np.exp(np.clip((own - own.max(0)) / TEMPERATURE, -np.inf, 0.0))
    return np.asarray(weights / weights.sum(0))


def with_other(choice: ModelChoice, place: int) -> ModelChoice:
    """Return the choice of another of an output's models; of one that has no more, its own."""
    if place >= len(choice.others):
        return choice
    other = Other(*choice.others[place])
    return replace(choice, kernel=other.kernel, trend=other.trend, scale=other.scale, theta=other.theta, waves=())
