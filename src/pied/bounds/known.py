"""Models of outputs as arrays over the unit cube: those of a problem, and means of stated processes (mu_0)."""

from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from numpy import ndarray

from pied.bounds.inputs import coding_of, ratios
from pied.errors import PiedError, SettingError
from pied.gp import GP, Model, Prior
from pied.problem import Models, Problem
from pied.rng import Stream
from pied.shapes import Float64

KEPT = 32
"""Arrays of points whose models are kept: a search comes back to its pool, and asks for values before slopes."""

MOST_POINTS = 512  # at which models that take long are computed, once
TESTED = 32  # further points at which what stands for them is tested
FINE = 1e-5  # of the spread of a model: what stands for it may be wrong by so much
FEWEST_NUMBERS = 12  # of a model at these points: one with fewer says nothing
IMITATING = Model(
    kernels=("squared exponential", "matern 5/2"), trends=("quadratic",), warps=("none",), waves=False, plateaus=False,
    declustering=None, finalists=2, always_refit=0, correlated="none", shared=None,
)  # fmt: skip

Found = tuple[Float64[ndarray, "b m"], Float64[ndarray, "b m d"]]


@dataclass(frozen=True, eq=False)
class OfProblem:
    """Models of some outputs of a problem, at points of the unit cube."""

    problem: Problem
    models: Models
    imitation: "Imitation | None" = None
    """What stands for models that take long; None: they are computed."""
    _values: OrderedDict[bytes, Float64[ndarray, "b m"]] = field(default_factory=OrderedDict)
    _slopes: OrderedDict[bytes, Found] = field(default_factory=OrderedDict)

    @property
    def outputs(self) -> tuple[int, ...]:
        """Which outputs have one."""
        return self.models.outputs

    def values(self, U: Float64[ndarray, "b d"]) -> Float64[ndarray, "b m"]:
        """Return the models at points; 0 for outputs without one."""
        key = U.tobytes()
        known = self._slopes.get(key)
        values = known[0] if known is not None else self._values.get(key)
        if values is None:
            values = self._values[key] = self._computed(U)
            _forget(self._values)
        return values

    def values_and_slopes(self, U: Float64[ndarray, "b d"]) -> Found:
        """Return the models and their slopes."""
        key = U.tobytes()
        found = self._slopes.get(key)
        if found is None:
            found = self._slopes[key] = self._with_slopes(U)
            _forget(self._slopes)
        return found

    def _computed(self, U: Float64[ndarray, "b d"]) -> Float64[ndarray, "b m"]:
        if self.imitation is not None:
            return self.imitation.values(U)
        return self.models.values(self.problem.from_unit(U))

    def _with_slopes(self, U: Float64[ndarray, "b d"]) -> Found:
        if self.imitation is not None:
            return self.imitation.values_and_slopes(U)
        X = self.problem.from_unit(U)
        values, by_x = self.models.values_and_slopes(X)
        return values, self.problem.by_axes(by_x) * self.problem.unit_slopes(X)[:, None]


@dataclass(frozen=True, eq=False)
class Imitation:
    """A belief about models that take too long for a search, from points all over the box; what is known is then it."""

    outputs: tuple[int, ...]
    m: int
    belief: GP
    """About the models, in the order of their outputs."""

    @classmethod
    def of(cls, problem: Problem, models: Models) -> "Imitation | None":
        """Compute models at more and more points, until they are predicted well; None if they are hardly numbers."""
        U = Stream(0).at("models").sobol(MOST_POINTS + TESTED, problem.d)
        outputs, count = list(models.outputs), 32 * (problem.d + 1)
        M = np.zeros((0, len(outputs)))
        while True:
            count = min(count, MOST_POINTS)
            wanted = U[len(M) : count + TESTED]
            M = np.concatenate([M, models.values(problem.from_unit(wanted))[:, outputs]])
            M[~np.isfinite(M)] = np.nan
            if (np.isfinite(M[:count]).sum(0) <= FEWEST_NUMBERS).any():
                return None
            belief = GP.fit(U[:count], M[:count], ratios=ratios(problem), coding=coding_of(problem), model=IMITATING)
            missed = belief.expected(U[count:][:TESTED], slopes=False)[0] - M[count : count + TESTED]
            error = np.sqrt(np.nanmean(missed**2, 0)) / np.maximum(np.nanstd(M, 0), 1e-300)
            if count == MOST_POINTS or np.nanmax(error) < FINE:
                return cls(models.outputs, problem.m, belief)
            count *= 2

    def values(self, U: Float64[ndarray, "b d"]) -> Float64[ndarray, "b m"]:
        """Return what stands for the models; 0 for outputs without one."""
        made = np.zeros((len(U), self.m))
        made[:, list(self.outputs)], _ = self.belief.expected(U, slopes=False)
        return made

    def values_and_slopes(self, U: Float64[ndarray, "b d"]) -> Found:
        """Return the same and its slopes."""
        made, slopes = np.zeros((len(U), self.m)), np.zeros((len(U), self.m, U.shape[1]))
        made[:, list(self.outputs)], by_u = self.belief.expected(U)
        slopes[:, list(self.outputs)] = by_u
        return made, slopes


def _forget(kept: OrderedDict[bytes, Any]) -> None:
    """Drop what was kept first, where it is too much; several threads may do so at once."""
    while len(kept) > KEPT:
        with suppress(KeyError):
            kept.popitem(last=False)


@lru_cache(maxsize=16)
def _of(problem: Problem, models: Models) -> OfProblem:
    return OfProblem(problem, models, None if models.is_quick else Imitation.of(problem, models))


def known_of(problem: Problem) -> OfProblem | None:
    """Return the models of a problem's outputs; None if it has none."""
    return None if problem.models is None else _of(problem, problem.models)


@lru_cache(maxsize=16)
def means_of(problem: Problem, priors: tuple[Prior, ...]) -> OfProblem | None:
    """Return the means that are formulas; None if all are numbers.

    Raises:
        SettingError: If a formula needs an output.
    """
    texts = {name: each.mean for name, each in zip(problem.outputs, priors, strict=True) if isinstance(each.mean, str)}
    if not texts:
        return None
    try:
        return OfProblem(problem, problem.modelled(texts))
    except PiedError as error:
        raise SettingError(f"the mean of a prior is a formula in the variables: {error}") from error
