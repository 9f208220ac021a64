"""A check of the closed form of functions that were taken for affine."""

import numpy as np
from numpy import ndarray

from pied.bounds import quantile
from pied.bounds.composite import Composite
from pied.shapes import Float64

AFFINE_ERROR = 1e-6  # of a shift: an affine closed form that is wrong by more does not hold
LEAST_DEVIATION = 1e-300  # avoids division by zero


@np.errstate(all="ignore")
def misjudged(composite: Composite, U: Float64[ndarray, "1 d"], level: float) -> tuple[str, ...]:
    """Name functions taken for affine whose closed form does not hold here.

    For affine g the two bounds are attained at mean +- z deviation_j delta_j / |delta|; g must equal them there.
    """
    if composite.is_correlated or composite.belief.is_warped or composite.has_ranges:
        return ()
    named, problem, X = [], composite.problem, composite.problem.from_unit(U)
    mean, root = composite.belief.moments(U)
    step = quantile.normal(level) * composite.marginal(root)[0]
    steps = np.concatenate([np.zeros((1, len(step))), np.diag(step)])
    for i in composite.shifted:
        if problem.structure[i].kind != "affine" or i in composite.coupled:
            continue
        (G,) = problem.g(X, mean + steps[:, None], which=(i,))
        delta = G[1:, 0] - G[0, 0]
        size = np.sqrt((delta * delta).sum())
        terms = np.abs(G).max() + np.abs(delta * mean[0] / np.maximum(step, LEAST_DEVIATION)).sum()
        if not size > AFFINE_ERROR * terms:  # only rounding errors move here
            continue
        away = step * delta / size
        (there,) = problem.g(X, np.stack([mean + away, mean - away]), which=(i,))
        error = np.abs(there[:, 0] - G[0, 0] - [size, -size]).max()
        if not error <= AFFINE_ERROR * (size + AFFINE_ERROR * terms):
            named.append(problem.functions[i])
    return tuple(named)
