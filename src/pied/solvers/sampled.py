"""Expected improvement with constraints, from samples of the composite functions, and the logarithm of it.

The logarithm is smoothed as Ament et al. (2023) do, which keeps a slope where the expected improvement vanishes.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy import ndarray

from pied.bounds import Composite
from pied.shapes import Float64
from pied.solvers.acquisition import Acquisition, Back, Column, Outputs, Points, black_constraints
from pied.solvers.smooth import FATMOID, SIGMOID, Sample, log_improvement, log_sum_exp, sample_deviation, smoothed

SAMPLES, SCREENING = 512, 128  # of the outputs at a point, while solving and while screening many points
NOISY_SAMPLES, NOISY_SCREENING = 128, 32  # the same with noise: what is to be expected is known less exactly
TEMPERATURE = 0.05  # deviations over which improvement and limits are smoothed


@dataclass(frozen=True, eq=False)
class Sampled(Acquisition):
    """Mean over samples of improvement times a smooth indicator of feasibility, composite."""

    composite: Composite
    best: float | None
    """Value to improve on; None: the smooth probability of feasibility alone."""
    scales: Float64[ndarray, "k"]
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

    def columns(self, points: Points) -> list[Column]:
        """Return the mean, or its logarithm, and the white constraints."""
        outputs = points.drawn(self.screening if points.is_screening else self.samples)
        parts = [self._part(outputs, i) for i in black_constraints(self.composite)]
        if self.best is not None:
            parts.append(self._part(outputs, 0))
        mean = log_mean if self.is_log else _mean
        objective = mean(parts) if parts else summed([], points)
        return [objective, *(points.exactly(i) for i in self.which)]

    def _part(self, outputs: Outputs, i: int) -> "Part":
        """Return samples of a factor, the indicator of a constraint or the improvement, or their logarithms."""
        G, to_points = outputs.function(i)
        value, back = self._indicator(i, G) if i else self._improvement(G - self.best)
        return value, lambda weights: to_points(back(weights))

    def _indicator(self, i: int, G: Float64[ndarray, "L b"]) -> Sample:
        """Return samples of a constraint's indicator, or their logarithms."""
        deviation = sample_deviation(G, self.scales[i]) if self.is_relative else None
        width = self.temperature if deviation is None else self.temperature * deviation
        return smoothed(G, width, deviation, FATMOID if self.is_log else SIGMOID)

    def _improvement(self, gain: Float64[ndarray, "L b"]) -> Sample:
        """Return samples of the improvement, or logarithms of them in units of the objective's search scale."""
        if self.is_log:
            return log_improvement(gain, self.temperature, self.scales[0])
        return np.maximum(gain, 0.0), lambda weights: np.where(gain > 0, weights, 0.0)

    def search_scale(self, pool: Float64[ndarray, "b d"]) -> float:
        """Return 1 for a logarithm, else the largest value in the pool."""
        return 1.0 if self.is_log else largest(self.values(pool))


Part = tuple[Float64[ndarray, "L b"], Back]
"""Samples of a factor, and from weights of them to slopes by the point."""


def _mean(parts: Sequence[Part]) -> Column:
    """Return the mean over samples of the product of factors."""
    factors = np.stack([value for value, _ in parts])

    def slopes() -> Float64[ndarray, "b d"]:
        others = [np.delete(factors, place, 0).prod(0) for place in range(len(parts))]
        return np.sum([back(other / len(other)) for (_, back), other in zip(parts, others, strict=True)], 0)

    return factors.prod(0).mean(0), slopes


def log_mean(parts: Sequence[Part]) -> Column:
    """Return the logarithm of the mean over samples of the product of factors, which are given as logarithms."""
    logs = np.sum([value for value, _ in parts], 0)
    total = log_sum_exp(logs)

    def slopes() -> Float64[ndarray, "b d"]:
        weights = np.exp(logs - total)
        return np.sum([back(weights) for _, back in parts], 0)

    return total - math.log(len(logs)), slopes


def summed(columns: Sequence[Column], points: Points) -> Column:
    """Return the sum of columns."""
    zeros = np.zeros_like(points.X)
    return sum((f for f, _ in columns), zeros[:, 0]), lambda: sum((slopes() for _, slopes in columns), zeros)


def largest(f: Float64[ndarray, "b k"]) -> float:
    """Return the largest finite objective; 1 if none is positive."""
    values = f[:, 0]
    return float(np.where(np.isfinite(values) & (values > 0), values, 0.0).max()) or 1.0
