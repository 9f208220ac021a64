"""The optimum of functions that jump or bend: each regime is searched as if it went on beyond its boundary.

Where an optimum lies at a discontinuity it may not be attained. The limit from the regime's own side is taken, and the
stated point lies `MARGIN` inside of that regime, so that it attains the stated value.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy import ndarray

from pied.rng import Stream
from pied.shapes import Float64
from pied.suite.optimum import Best, Effort, Truth, best

MARGIN = 1e-9
"""Distance of a stated optimum from a boundary, in units of the switch (1 across the box): its value falls short of the
limit by about this times the slope of the objective."""
EFFORT = Effort(pool=4096, starts=96, steps=80, polished=8, searches=4)
"""Effort for each regime."""


@dataclass(frozen=True, eq=False)
class Switch:
    """A smooth function of the unit cube whose sign tells the regime: u . slope + bend * (u_other - 1/2)^2 - level."""

    slope: Float64[ndarray, "d"]
    level: float
    bend: float = 0.0
    other: int = 0
    """The coordinate along which the boundary is bent; its slope is not the largest one."""

    def __call__(self, U: Float64[ndarray, "b d"]) -> Float64[ndarray, "b"]:
        return np.asarray(U @ self.slope + self.bend * (U[:, self.other] - 0.5) ** 2 - self.level)

    def on(self, U: Float64[ndarray, "b d"]) -> Float64[ndarray, "c d"]:
        """Move points along the steepest coordinate onto the boundary; leave out those that would leave the cube."""
        j = int(np.abs(self.slope).argmax())
        moved = U.copy()
        moved[:, j] -= self(U) / self.slope[j]
        return moved[(moved[:, j] >= 0) & (moved[:, j] <= 1)]

    @classmethod
    def drawn(cls, stream: Stream, d: int, share: tuple[float, float] = (0.3, 0.7)) -> "Switch":
        """Draw a boundary, straight or bent, with a share of the box below it."""
        slope = stream.at("slope").normal(d)
        slope = slope / np.abs(slope).sum()
        order = np.argsort(-np.abs(slope))
        other = int(order[1 % d])
        bent, place = stream.at("bend").uniform(2).tolist()
        whole = cls(slope, 0.0, (0.8 * bent if d > 1 else 0.0), other)
        values = whole(stream.at("pool").sobol(1024, d))
        low, high = share
        return cls(slope, float(np.quantile(values, low + (high - low) * place)), whole.bend, other)


@dataclass(frozen=True, eq=False)
class Regime:
    """A part of the box in which the truth is smooth."""

    functions: Truth
    """The functions of this regime, also beyond its boundaries."""
    sides: Callable[[Float64[ndarray, "b d"]], Float64[ndarray, "b c"]] | None = None
    """Each >= 0 inside; None: the whole box."""
    starts: Float64[ndarray, "s d"] | None = None
    """Further starting points, for instance along a boundary."""


def best_of(regimes: list[Regime], d: int, *, stream: Stream, pieces: int = 1, effort: Effort = EFFORT) -> Best | None:
    """Maximize over all regimes; None if none has a feasible point.

    Args:
        regimes: parts that cover the box.
        d: dimension of the cube.
        stream: randomness of the searches.
        pieces: how many functions belong to the objective, which is their minimum.
        effort: of the search in each regime.
    """
    ends = []
    for place, regime in enumerate(regimes):

        def functions(U: ndarray, regime: Regime = regime) -> ndarray:
            F = regime.functions(U)
            return F if regime.sides is None else np.concatenate([F, regime.sides(U) - MARGIN], 1)

        found = best(functions, d, stream=stream.at(place), pieces=pieces, effort=effort, starts=regime.starts)
        if found is not None:
            ends.append(found)
    if not ends:
        return None
    top = max(ends, key=lambda end: end.value)
    return Best(top.u, top.value, sum(end.searches for end in ends), all(end.agreed for end in ends))
