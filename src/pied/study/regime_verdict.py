"""A verdict that rests on regimes: each is judged by its own belief, where it may be (`solvers.moves.regime`).

The belief about everything that was told would contradict such a verdict: a cliff makes it unsure everywhere.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy import ndarray

from pied.bounds import Believer, Composite, SuccessModel, coding_of, placed
from pied.gp import GP
from pied.problem import Problem
from pied.records import Dataset, Why
from pied.rng import Stream
from pied.shapes import Float64
from pied.solvers.infeasibility import REGIME_DEVIATIONS
from pied.study.prospect import chance_of_any
from pied.study.relaxation import Relaxation, relax


class Side(NamedTuple):
    """One regime."""

    data: Dataset
    """What was told; rough outputs of the other regime are missing."""
    belief: GP
    region: SuccessModel | None
    """Where the regime may be."""
    points: int
    """How many were told there."""


def sides_of(problem: Problem, believer: Believer, data: Dataset, why: Why) -> list[Side]:
    """Return the regimes on which the test behind a proposal rests; none if it rests on one belief."""
    kept = why.memory.get("apart")
    elsewhere = placed(problem, believer, data, kept) if kept else None
    if not kept or elsewhere is None:
        return []
    rough, made = np.array(kept["rough"], dtype=bool), []
    for out in (elsewhere, ~elsewhere):
        own = data.settled.without(out, rough)
        region = SuccessModel.fit(data.U[~out], data.U[out], coding_of(problem), is_exact=problem.is_exact)
        region = None if region is None else replace(region, z=REGIME_DEVIATIONS)
        made.append(Side(own, believer.fit(problem, own), region, int((~out).sum())))
    return made


def chance(
    problem: Problem, believer: Believer, data: Dataset, sides: list[Side], level: float, stream: Stream
) -> float:
    """Return the probability that any settings of any regime meet all limits."""
    none, trust = 1.0, believer.trust(problem, data, level)
    for side in sides:
        factor = trust.of_part(side.points)
        careful = side.belief.beyond_plateaus.widened(factor, factor)
        composite = believer.bound(problem, side.data, careful, stream)
        none *= 1.0 - chance_of_any(composite, careful, level, side.data.U, stream, side.region)
    return 1.0 - none


def relaxed(
    problem: Problem, believer: Believer, sides: list[Side], level: float, stream: Stream, start: Float64[ndarray, "d"]
) -> Relaxation:
    """Return the smallest relaxations that make the test pass in any regime."""
    found = [
        relax(_composite(problem, believer, side, stream), level, stream, start, region=side.region) for side in sides
    ]
    amounts = {name: [each.alone[name] for each in found] for name in found[0].alone}
    alone = {name: min((each for each in all_of if each is not None), default=None) for name, all_of in amounts.items()}
    least = min(found, key=lambda each: sum(each.together.values()))
    conflict = tuple(name for name, amount in alone.items() if amount is not None) or least.conflict
    return Relaxation(alone, least.together, conflict)


def _composite(problem: Problem, believer: Believer, side: Side, stream: Stream) -> Composite:
    return believer.bound(problem, side.data, side.belief, stream)
