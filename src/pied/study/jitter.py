"""Jitter: outputs that were stated exact, and whose values scatter as those of a solver with a tolerance do.

A belief that learns the noise explains such values better than an exact one. It also does where an output has a kink.
But there the output is nowhere steeper than between points farther apart, and values that scatter are.
"""

from dataclasses import replace

import numpy as np
from numpy import ndarray

from pied.bounds import coding_of, ratios
from pied.gp import GP, Model
from pied.problem import Problem
from pied.records import Dataset
from pied.shapes import Float64

NEAR = 0.02
"""Distance in the unit cube of points between which an output cannot do much but change evenly."""
SPARE = 5
"""Points beyond an initial design of 2d: with fewer every model fits."""
MOST_ROWS = 100
"""The last points that are looked at; they lie closest together."""
FAR = 0.05
"""Distance from which on pairs show how steep the output is."""
LEAST_STEEP = 2
"""Near pairs that must be steeper than all far ones."""
SMALLEST, LARGEST = 1e-5, 0.01
"""Of the deviation of the values: less jitter does no harm, more is a jump or a cusp."""


def jitter(problem: Problem, data: Dataset) -> dict[str, float]:
    """Return the outputs that were stated exact and are not, each with the noise to state instead."""
    rows = np.flatnonzero(data.complete)[-MOST_ROWS:]
    exact = [j for j, noise in enumerate(problem.noise) if noise == 0]
    if not exact or len(rows) < 2 * problem.d + SPARE:
        return {}
    U, Y = data.U[rows], data.Y[rows][:, exact]
    if not _has_neighbours(U):
        return {}
    # One scale for both beliefs, and a choice for each output alone: their densities are then comparable.
    model = replace(Model(), warps=("none",), waves=False, shared=None)
    strict, lenient = (
        GP.fit(
            U, Y, active=problem.active[exact], ratios=ratios(problem), noise=[noise] * len(exact), model=model,
            coding=coding_of(problem),
        )
        for noise in (0.0, None)
    )  # fmt: skip
    noise, spread = lenient.nugget_deviation, Y.std(0)
    found = (lenient.density > strict.density) & (SMALLEST * spread < noise) & (noise < LARGEST * spread)
    found &= _steep_pairs(U, Y, Y - lenient.moments(U)[0]) >= LEAST_STEEP
    return {problem.outputs[exact[i]]: float(f"{noise[i]:.1g}") for i in np.flatnonzero(found)}


def _distances(U: Float64[ndarray, "N d"]) -> tuple[ndarray, ndarray, ndarray]:
    """Return all pairs of points, and how far apart they lie."""
    first, second = np.triu_indices(len(U), 1)
    return first, second, np.sqrt(np.square(U[first] - U[second]).sum(-1))


def _has_neighbours(U: Float64[ndarray, "N d"]) -> bool:
    """Tell whether enough points lie close together but not on each other."""
    distance = _distances(U)[2]
    return int(((distance < NEAR) & (distance > 0)).sum()) >= LEAST_STEEP


def _steep_pairs(U: Float64[ndarray, "N d"], Y: Float64[ndarray, "N m"], rest: Float64[ndarray, "N m"]) -> ndarray:
    """Count for each output the near pairs whose values, less the trend, differ more than its largest slope allows."""
    first, second, distance = _distances(U)
    far, near = distance > FAR, (distance < NEAR) & (distance > 0)
    slopes = np.abs(Y[first] - Y[second])[far] / distance[far, None]
    away = np.abs(rest[first] - rest[second])[near]
    return (away > slopes.max(0, initial=0.0) * distance[near, None]).sum(0)


def said(problem: Problem, found: dict[str, float]) -> str:
    """Return what to do about jitter, in the user's words."""
    stated = {
        name: found.get(name, noise)
        for name, noise in zip(problem.outputs, problem.noise, strict=True)
        if found.get(name, noise) is not None
    }
    alone = set(stated) == set(problem.outputs) and len(set(stated.values())) == 1
    noise = next(iter(stated.values())) if alone else stated
    names = ", ".join(f"'{name}'" for name in found)
    is_are = "was stated exact (noise=0), and its" if len(found) == 1 else "were stated exact (noise=0), and their"
    return (
        f"{names} {is_are} values at nearly the same points scatter, as those of a solver with a tolerance do: "
        f"state noise={noise}, or tighten the tolerance"
    )
