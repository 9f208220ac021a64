"""The rule of SafeOpt (Berkenkamp and others, 2016) for `careful.py`: what may be best, or widens what is safe.

Of the points at which lower bounds of all limits hold, the one that is known least is measured, if it may be the best
or if an optimistic measurement there would make some point safe that is not. Models are of objective and limits
themselves: one kernel, a constant mean, bounds of two deviations.
"""

from dataclasses import replace

import numpy as np
from numpy import ndarray

from pied.bounds import Believer
from pied.gp import Model
from pied.problem import Problem
from pied.records import Dataset, feasible, spread
from pied.rng import Stream
from pied.shapes import Bool, Float64

PLAIN = Model(
    kernels=("matern 5/2",), trends=("constant",), warps=("none",), scales=("plain",), waves=False, plateaus=False,
    correlated="none",
)  # fmt: skip
"""One kernel and a constant mean."""
LEVEL = 0.977
"""Two deviations, as its authors take."""
REACHES = (0.3, 0.1, 0.03, 0.01, 0.003, 0.001)
"""Shares of the ranges from which points around measured ones are candidates."""
AROUND, ANYWHERE = 24, 512
"""Candidates around each of them and each reach, and all over the box."""
TRIED, BEYOND = 12, 256
"""Points whose measurement is imagined, at most, and unsafe points among which it may make some safe."""
KNOWN = 1e-7
"""Candidates nearer than this to a measured point are left out."""


class NoneSafe(Exception):
    """No candidate is safe."""


def safeopt(problem: Problem, data: Dataset, stream: Stream) -> Float64[ndarray, "d"]:
    """Return the next point; with noise, the best measured one again while no other is safe.

    Args:
        problem: The folded problem, whose outputs are objective and limits.
        data: What was told, folded.
        stream: Random numbers.

    Raises:
        NoneSafe: If no candidate is, and a measurement again would tell nothing.
    """
    believer = Believer(PLAIN)
    belief = believer.fit(problem, data, None)
    pool = candidates(problem, data, stream)
    lower, _, upper = believer.bound(problem, data, belief, stream).bounds(pool, LEVEL)
    is_safe = (lower[:, 1:] >= 0).all(1)
    if not is_safe.any():
        f = data.functions(problem)
        if problem.is_exact:
            raise NoneSafe
        return data.U[int(np.where(feasible(problem, f), f[:, 0], -np.inf).argmax())]
    may_be_best = is_safe & (upper[:, 0] >= lower[is_safe, 0].max())
    widths = ((upper - lower) / spread(data.functions(problem))).max(1)
    outside = pool[~is_safe][:BEYOND]
    mean, deviation = belief.moments(pool)
    order = np.argsort(-np.where(is_safe, widths, -np.inf), kind="stable")[: int(is_safe.sum())]
    for tried, row in enumerate(order.tolist()):
        if may_be_best[row]:
            return pool[row]
        if tried < TRIED and len(outside):
            hopeful = (mean + 2.0 * deviation)[row]
            more = replace(
                data, numbers=(*data.numbers, 0), U=np.concatenate([data.U, pool[row][None]]),
                Y=np.concatenate([data.Y, hopeful[None]]), whys=(),
            )  # fmt: skip
            then = believer.conditioned(problem, more, belief.choices)
            low, _, _ = believer.bound(problem, more, then, stream).bounds(outside, LEVEL)
            if bool((low[:, 1:] >= 0).all(1).any()):
                return pool[row]
    return pool[order[0]]


def candidates(problem: Problem, data: Dataset, stream: Stream) -> Float64[ndarray, "b d"]:
    """Return points around those that were measured and are feasible, and all over the box, none measured before."""
    fine: Bool[ndarray, "N"] = feasible(problem, data.functions(problem))
    noise = stream.at("around").normal(len(REACHES), int(fine.sum()), AROUND, problem.d)
    near = data.U[fine][:, None] + np.array(REACHES)[:, None, None, None] * noise
    far = stream.at("anywhere").sobol(ANYWHERE, problem.d)
    U = np.concatenate([np.clip(near.reshape(-1, problem.d), 0.0, 1.0), far])
    U = U if problem.grid is None else np.unique(problem.grid.snapped(U), axis=0)
    return U[(np.abs(U[:, None] - data.U).max(2) > KNOWN).all(1)]
