"""Data and beliefs that the tests of `pied.gp` share."""

import math

import numpy as np

from pied.gp import GP
from pied.gp.choices import Model, ModelChoice
from pied.rng import Stream

SCALES = (0.4, 0.9)
V = Stream(0).at("elsewhere").sobol(7, 2)
PLAIN = Model(warps=("none",), declustering=None)


def wavy(U):
    """A function that no trend explains, positive."""
    return 2 + np.sin(5 * U[:, 0]) + U[:, 1] ** 2 + 0.2 * np.cos(9 * U[:, 0] * U[:, 1])


def numeric_slope(function, point, step=1e-5):
    """Central differences of a function of one vector; the last axis of the result is the vector's."""
    moves = step * np.eye(len(point))
    return np.stack([(function(point + move) - function(point - move)) / (2 * step) for move in moves], -1)


def points(n=12, d=2):
    return Stream(3).at("told").sobol(n, d)


def fixed(
    U, y, kernel="matern 5/2", trend="constant", warp="none", nugget=1e-8, scales=SCALES, ratios=None, **words
) -> GP:
    """A belief at given hyperparameters, nothing chosen or fitted."""
    choice = chosen(
        kernel, trend, warp, "plain" if ratios is None else "log", theta=scales_of(scales, nugget), n=len(U)
    )
    model = Model((kernel,), (trend,), (warp,), (choice.scale,), (nugget, nugget), **({"declustering": None} | words))
    return GP.fit(U, y[:, None], model=model, previous=[choice], ratios=ratios)


def chosen(kernel, trend, warp, scale="plain", *, theta, n, fitted=None) -> ModelChoice:
    """A choice made at n rows."""
    return ModelChoice(kernel, trend, warp, scale, theta=theta, selected=n, fitted=fitted or n)


def scales_of(scales, nugget):
    return (*map(math.log, scales), math.log(nugget))
