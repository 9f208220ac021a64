"""Predictions by draws of the parameters: bands of outputs and formulas, also at other settings."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy import ndarray

from pied.errors import SettingError
from pied.problem import Formula, Scope, choices_of
from pied.shapes import Float64
from pied.study.draws import Draws
from pied.study.words import aligned, figure

MOST = 2000
"""Settings at which bands are predicted together."""


@dataclass(frozen=True, eq=False)
class Bands:
    """In which bands predicted quantities lie, at one or several settings."""

    names: tuple[str, ...]
    """The outputs or formulas."""
    at: dict[str, list[Any]]
    """The settings that were chosen, of each band; empty: those of the draws."""
    low: Float64[ndarray, "p q"]
    """Lower ends, by settings and quantities."""
    median: Float64[ndarray, "p q"]
    high: Float64[ndarray, "p q"]
    level: float
    """Probability of each band."""

    def __getitem__(self, name: str) -> tuple[Float64[ndarray, "p"], Float64[ndarray, "p"], Float64[ndarray, "p"]]:
        """Return lower end, median and upper end of one quantity."""
        place = self.names.index(name)
        return self.low[:, place], self.median[:, place], self.high[:, place]

    def __str__(self) -> str:
        rows = [[*self.at, "", "median", f"{100 * self.level:.0f} % band"]]
        for p in range(len(self.low)):
            for q, name in enumerate(self.names):
                low, middle, high = (each[p, q] for each in (self.low, self.median, self.high))
                cells = [value[p] if isinstance(value[p], str) else f"{value[p]:.6g}" for value in self.at.values()]
                width = high - low
                rows.append([*cells, name, figure(middle, width), f"{figure(low, width)} to {figure(high, width)}"])
        return aligned(rows)


def bands(posterior: Draws, what: Any, at: dict[str, Any], level: float) -> Bands:
    """Return the bands of some quantities; see `Posterior.predict`."""
    problem = posterior.problem
    named = [what] if isinstance(what, str) else list(problem.outputs) if what is None else list(what)
    if not 0 < level < 1:
        raise SettingError(f"the probability of a band lies between 0 and 1, got {level}")
    scope = Scope(tuple(problem.variables), problem.outputs, problem.constants, choices_of(problem.variables))
    formulas = [None if each in problem.outputs else Formula(each, scope) for each in named]
    settings = _settings(posterior, at)
    count = max((len(each) for each in settings.values()), default=1)
    ends = np.empty((3, count, len(named)))
    Z = posterior.snapshot.stream.at("bands").normal(len(posterior.V), problem.m)
    for p in range(count):
        X = posterior.X.copy()
        for name, values in settings.items():
            X[:, list(problem.variables).index(name)] = problem.variables[name].code(values[p])
        U = problem.to_unit(X)
        middle, scale = posterior.likelihood.outcomes(U)
        steps = scale * Z if scale.ndim == 2 else (scale @ Z[:, :, None])[..., 0]
        Y = np.clip(middle + steps, *problem.ranges.T)
        for q, (name, formula) in enumerate(zip(named, formulas, strict=True)):
            if formula is None:
                values = Y[:, problem.outputs.index(name)]
            else:
                with np.errstate(all="ignore"):
                    values = np.broadcast_to(formula.program.values(problem.completed(X), Y[None]), (1, len(X)))[0]
            fine = values[np.isfinite(values)]
            tails = (0.5 - 0.5 * level, 0.5, 0.5 + 0.5 * level)
            ends[:, p, q] = np.quantile(fine, tails) if len(fine) else np.nan
    return Bands(tuple(named), settings, ends[0], ends[1], ends[2], level)


def _settings(posterior: Draws, at: dict[str, Any]) -> dict[str, list[Any]]:
    """Return the chosen settings as lists of equal length."""
    problem = posterior.problem
    unknown = [name for name in at if name not in problem.variables]
    if unknown:
        raise SettingError(f"'{unknown[0]}' is not a variable, so nothing can be predicted at other values of it")
    lists = {k: list(v) if isinstance(v, list | tuple | ndarray) else [v] for k, v in at.items()}
    count = max((len(each) for each in lists.values()), default=1)
    if any(len(each) not in (1, count) for each in lists.values()) or not 1 <= count <= MOST:
        raise SettingError(f"at= takes single values and lists of one length, at most {MOST}")
    return {name: each * count if len(each) == 1 else each for name, each in lists.items()}
