"""A certified subproblem: branch and bound finds the best point by upper bounds, and proves that none is better.

The theorems of the paper assume that (13) is solved globally. Over a box of the cube, outputs lie within the bounds of
`gp.enclosure` and g within interval arithmetic, so boxes that cannot hold the best point are discarded. For affine and
monotone g whose quantiles have a closed form, given as formulas, and few variables.
"""

from dataclasses import dataclass

import numpy as np
from numpy import ndarray

from pied.bounds import quantile
from pied.bounds.composite import Composite
from pied.errors import SettingError
from pied.gp import GP, Enclosure, Over
from pied.problem import over_boxes
from pied.rng import Stream
from pied.search import SATISFIED
from pied.shapes import Bool, Float64

MOST_VARIABLES = 4
"""More need too many boxes."""
AT_ONCE = 512
"""Boxes that are halved together: those with the largest bounds first."""
TRIED = 256
"""Points at which scales are found, and which functions are straight."""
STRAIGHT = 1e-11
"""Relative deviation from a plane that counts as rounding."""
TINY = 1e-300
"""Instead of a scale of 0."""


@dataclass(frozen=True, eq=False)
class Certificate:
    """The best point that was found, and what no point exceeds."""

    u: Float64[ndarray, "d"] | None
    """The best point of the unit cube; None if none was found that satisfies the constraints."""
    value: float
    """The upper bound of the objective there; minus infinity without a point."""
    upper: float
    """What the upper bound of the objective does not exceed where the constraints hold; minus infinity: nowhere."""
    boxes: int
    """How many were looked at."""

    @property
    def gap(self) -> float:
        """By how much the best point may be missed."""
        return self.upper - self.value if self.upper > -np.inf else 0.0

    @property
    def is_impossible(self) -> bool:
        """Whether it is proved that no point satisfies the constraints (line 2 of Algorithm 1, for all together)."""
        return self.upper == -np.inf

    def __str__(self) -> str:
        if self.is_impossible:
            return f"no point meets the upper bounds of the constraints ({self.boxes} boxes)"
        return f"best {self.value:.6g}, none above {self.upper:.6g} ({self.boxes} boxes)"


def certified(
    composite: Composite,
    level: float | tuple[float, ...],
    *,
    start: Float64[ndarray, "s d"] | None = None,
    tolerance: float = 1e-3,
    most_boxes: int = 200_000,
) -> Certificate:
    """Maximize the upper bound of the objective subject to the upper bounds of the constraints, with a certificate.

    Args:
        composite: White box and belief.
        level: p of the upper bounds, or one for each function.
        start: Points of the cube to begin with, for instance the best that a search has found.
        tolerance: The gap at which it ends, as a share of the range of the objective's bound over the cube.
        most_boxes: After so many it ends, whatever the gap.

    Raises:
        SettingError: If the functions or the belief are not of the kinds that can be bounded over boxes.
    """
    bounds = Boxes.of(composite, level)
    d, scale = composite.problem.d, bounds.scales
    best, value = None, -np.inf
    low, high = np.zeros((1, d)), np.ones((1, d))
    upper = np.array([np.inf])
    room, looked = tolerance * bounds.spread, 0
    points = np.full((1, d), 0.5) if start is None else np.concatenate([np.full((1, d), 0.5), start])
    while len(low):
        f = bounds.values(points)
        fine = (f[:, 1:] >= -SATISFIED * scale[1:]).all(1)
        if fine.any() and f[fine, 0].max() > value:
            place = int(np.where(fine, f[:, 0], -np.inf).argmax())
            best, value = points[place], float(f[place, 0])
        left = upper > value + room
        low, high, upper = low[left], high[left], upper[left]
        if not len(low) or looked >= most_boxes:
            break
        order = np.argsort(-upper)
        low, high, upper = low[order], high[order], upper[order]
        made = _halved(low[:AT_ONCE], high[:AT_ONCE], bounds.sizes)
        above, possible = bounds.above(*made)
        parents = np.concatenate([upper[:AT_ONCE]] * 2)
        above = np.minimum(above, parents)
        low = np.concatenate([low[AT_ONCE:], made[0][possible]])
        high = np.concatenate([high[AT_ONCE:], made[1][possible]])
        upper = np.concatenate([upper[AT_ONCE:], above[possible]])
        points, looked = 0.5 * (made[0] + made[1])[possible], looked + len(made[0])
        points = points if len(points) else 0.5 * (made[0] + made[1])[:1]
    most = max(value + (room if value > -np.inf else 0.0), float(upper.max(initial=-np.inf)))
    return Certificate(best, value, most, looked)


@dataclass(frozen=True, eq=False)
class Boxes:
    """Upper bounds of the functions of a subproblem over boxes of the cube."""

    composite: Composite
    levels: tuple[float, ...]
    outputs: Enclosure
    coefficients: dict[int, Float64[ndarray, "m"]]
    """Of affine functions whose coefficients and white parts do not bend: those of the outputs."""
    sizes: Float64[ndarray, "d"]
    """By which sides of boxes are compared."""
    scales: Float64[ndarray, "k"]
    """Largest size of each function at points of the cube."""
    spread: float
    """Range of the objective there."""

    @classmethod
    def of(cls, composite: Composite, level: float | tuple[float, ...]) -> "Boxes":
        """Prepare, or say why that cannot be."""
        problem, belief = composite.problem, composite.belief
        if problem.d > MOST_VARIABLES or problem.choosable is not None or problem.has_equalities:
            raise SettingError(
                f"a certificate is of at most {MOST_VARIABLES} variables with whole ranges and without equalities"
            )
        if not isinstance(belief, GP) or np.isfinite(problem.ranges).any():
            raise SettingError("a certificate needs a belief of the paper's kind, and outputs without ranges")
        if composite.is_sampled:
            raise SettingError("a certificate needs functions that are affine, or monotone in one output: no samples")
        levels = level if isinstance(level, tuple) else (level,) * problem.k
        outputs, U = Enclosure.of(belief), Stream(0).at("certified").uniform(TRIED, problem.d)
        f = composite.values(U, levels)
        sizes = outputs.inverse.max(0) + 1.0
        return cls(
            composite, levels, outputs, _plain(composite, U), sizes, np.maximum(np.abs(f).max(0), TINY),
            float(np.ptp(f[:, 0])),
        )  # fmt: skip

    def values(self, U: Float64[ndarray, "b d"]) -> Float64[ndarray, "b k"]:
        """Return the functions at points."""
        return self.composite.values(U, self.levels)

    def above(
        self, low: Float64[ndarray, "b d"], high: Float64[ndarray, "b d"]
    ) -> tuple[Float64[ndarray, "b"], Bool[ndarray, "b"]]:
        """Return what the objective does not exceed in each box, and whether the constraints may hold there."""
        problem, over = self.composite.problem, self.outputs.over(low, high)
        x = problem.from_unit(low), problem.from_unit(high)
        f, slopes = self.composite.values_and_slopes(0.5 * (low + high), self.levels)
        tangent = f + 0.5 * (np.abs(slopes) * (high - low)[:, None]).sum(-1)
        tops = []
        for i in range(problem.k):
            top = self._top(i, x, over)
            if i in self.coefficients:
                top = np.minimum(top, tangent[:, i] + self._bent(i, over))
            tops.append(top)
        above = np.stack(tops, -1)
        return above[:, 0], np.asarray((above[:, 1:] >= -SATISFIED * self.scales[1:]).all(1))

    def _top(self, i: int, x: tuple[ndarray, ndarray], over: Over) -> Float64[ndarray, "b"]:
        """Return an upper bound from those of the outputs."""
        problem, z = self.composite.problem, quantile.normal(self.levels[i])
        each, b = problem.structure[i], len(over.most)
        if each.kind == "monotone":
            away = z * over.widest
            return over_boxes(problem, i, x, (over.least - away, over.most + away))[1]
        top = over_boxes(problem, i, x, (over.least, over.most))[1]
        nothing = np.zeros((b, problem.m))
        low, high = over_boxes(problem, i, x, (nothing, nothing))
        square = np.zeros(b)
        for j in each.outputs:
            one = nothing + np.eye(problem.m)[j]
            least, most = over_boxes(problem, i, x, (one, one))
            steepest = np.maximum(np.abs(most - low), np.abs(least - high))
            if i in self.coefficients:
                steepest = np.abs(self.coefficients[i][j])
            square += (steepest * over.widest[:, j]) ** 2
        return top + z * np.sqrt(square)

    def _bent(self, i: int, over: Over) -> Float64[ndarray, "b"]:
        """Return by how much the upper bound of a function may exceed its tangent at the centre."""
        A, z = self.coefficients[i], quantile.normal(self.levels[i])
        root = np.sqrt(np.maximum((np.square(A * over.deviation)).sum(-1), TINY))
        return over.rest @ np.abs(A) + z * (over.bend @ np.square(A)) / (2.0 * root)


def _plain(composite: Composite, U: Float64[ndarray, "b d"]) -> dict[int, Float64[ndarray, "m"]]:
    """Return the coefficients of functions that are affine in the coordinates of the cube and the outputs together.

    They are found by trying, like the rest of a function's structure.
    """
    problem, found = composite.problem, {}
    X, Y = problem.from_unit(U), np.concatenate([np.zeros((1, problem.m)), np.eye(problem.m)])
    columns = np.concatenate([np.ones((len(U), 1)), U], 1)
    for i, each in enumerate(problem.structure):
        if each.kind in ("affine", "white"):
            (G,) = problem.g(X, np.repeat(Y[:, None], len(U), 1), which=(i,))
            G = np.broadcast_to(np.atleast_2d(G), (len(Y), len(U)))
            slopes = G[1:] - G[0]
            bent = G[0] - columns @ np.linalg.lstsq(columns, G[0], rcond=None)[0]
            size = np.abs(G).max()
            if max(np.ptp(slopes, axis=1).max(), np.abs(bent).max()) <= STRAIGHT * size:
                found[i] = slopes.mean(1)
    return found


def _halved(
    low: Float64[ndarray, "b d"], high: Float64[ndarray, "b d"], sizes: Float64[ndarray, "d"]
) -> tuple[Float64[ndarray, "c d"], Float64[ndarray, "c d"]]:
    """Halve boxes along their longest sides."""
    rows, side = np.arange(len(low)), ((high - low) * sizes).argmax(1)
    middle = 0.5 * (low + high)[rows, side]
    upper, lower = low.copy(), high.copy()
    upper[rows, side], lower[rows, side] = middle, middle
    return np.concatenate([low, upper]), np.concatenate([lower, high])
