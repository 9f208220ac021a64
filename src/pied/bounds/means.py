"""Means of stated processes that are formulas in the variables (mu_0 of Algorithm 1), as arrays over the unit cube."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy import ndarray

from pied.errors import SettingError
from pied.gp import Prior
from pied.problem import Problem
from pied.shapes import Float64


@dataclass(frozen=True, eq=False)
class Means:
    """What is added to the outputs of a belief: formulas of some of them, nothing to the others."""

    problem: Problem
    formulas: Problem
    """The same variables; its constraints are the formulas."""
    outputs: tuple[int, ...]
    """To which outputs they belong."""

    def values(self, U: Float64[ndarray, "b d"]) -> Float64[ndarray, "b m"]:
        """Return the means at points."""
        return self.values_and_slopes(U)[0]

    @np.errstate(all="ignore")
    def values_and_slopes(
        self, U: Float64[ndarray, "b d"]
    ) -> tuple[Float64[ndarray, "b m"], Float64[ndarray, "b m d"]]:
        """Return the means and their slopes."""
        X, m = self.problem.from_unit(U), self.problem.m
        G, back = self.formulas.traced(X, np.zeros((1, len(U), m)), self.formulas.white[-len(self.outputs) :])
        by_x, _ = back(np.ones_like(G))
        values, slopes = np.zeros((len(U), m)), np.zeros((len(U), m, U.shape[1]))
        values[:, self.outputs] = G[:, 0].T
        slopes[:, self.outputs] = (self.problem.by_axes(by_x) * self.problem.unit_slopes(X)).swapaxes(0, 1)
        return values, slopes


@lru_cache(maxsize=16)
def means_of(problem: Problem, priors: tuple[Prior, ...]) -> Means | None:
    """Return the means that are formulas; None if all are numbers.

    Raises:
        SettingError: If a formula needs an output.
    """
    texts = {j: each.mean for j, each in enumerate(priors) if isinstance(each.mean, str)}
    if not texts:
        return None
    limits = {f"mean of {problem.outputs[j]}": f"{text} >= 0" for j, text in texts.items()}
    formulas = Problem(problem.variables, problem.outputs, constants=problem.constants, subject_to=limits, noise=0)
    for place, text in enumerate(texts.values(), 1):
        if place not in formulas.white:
            raise SettingError(f"the mean of a prior is a formula in the variables, '{text}' needs an output")
    return Means(problem, formulas, tuple(texts))
