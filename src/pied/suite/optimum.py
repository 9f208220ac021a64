"""The optimum of cheap smooth functions on the unit cube, by brute force.

The truth of a test problem costs microseconds, so slopes are differences. One search has a large pool of points,
hundreds of simultaneous ascents, and a few precise local solutions; searches are repeated until several agree.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy import ndarray
from scipy.optimize import minimize

from pied.rng import Stream
from pied.shapes import Float64
from pied.suite.elementary import median

Truth = Callable[[Float64[ndarray, "b d"]], Float64[ndarray, "b q"]]
"""From points of the unit cube to values: pieces of the objective first, then constraints (met when >= 0)."""

LARGEST_VIOLATION = 1e-10
"""Largest violation of a constraint at the optimum, in units of its median size over the cube."""
AGREEMENT = 1e-8
"""Two searches agree if their values differ by less than this times the spread of the objective."""
ROUGH_PRECISION, FINAL_PRECISION = 1e-8, 1e-15
"""Precision of the local solver, in units of the spread: to compare local optima, and for the result."""
PENALTY = 30.0
"""Weight of scaled violations in the ascents: large enough to end near the feasible set, small enough to move along
it."""
STEP = 2.0**-18
"""Step of a difference: errors of third order and of rounding are about equal, 1e-11 of a smooth function."""


@dataclass(frozen=True)
class Effort:
    """The effort of a search."""

    pool: int = 4096
    """Scrambled Sobol points of each search."""
    starts: int = 128
    """Simultaneous ascents of each search."""
    steps: int = 100
    """Steps of each ascent."""
    polished: int = 10
    """Ends of ascents that are refined by a local solver."""
    agreeing: int = 2
    """Searches that must find the same value."""
    searches: int = 6
    """Largest number of searches."""


@dataclass(frozen=True)
class Best:
    """The result of the search."""

    u: Float64[ndarray, "d"]
    """The best point."""
    value: float
    """The smallest of the objective's pieces there."""
    searches: int
    """Searches made."""
    agreed: bool
    """Whether enough of them found the same value."""


@np.errstate(all="ignore")
def best(
    functions: Truth,
    d: int,
    *,
    stream: Stream,
    pieces: int = 1,
    effort: Effort | None = None,
    starts: Float64[ndarray, "s d"] | None = None,
) -> Best | None:
    """Maximize the smallest of the first functions subject to the others >= 0; None if no feasible point is found.

    Args:
        functions: the truth.
        d: dimension of the cube.
        stream: randomness of the points.
        pieces: how many functions belong to the objective, which is their minimum.
        effort: effort of each search.
        starts: further starting points, for instance a known good one.
    """
    effort = effort or Effort()
    found: Best | None = None
    hits = 0
    for number in range(effort.searches):
        scaled = Scaled.measured(functions, pieces, stream.at("search", number).sobol(effort.pool, d))
        end = scaled.polished(scaled.ascended(effort, starts))
        if end is None:
            continue
        value, close = scaled.objective(end), AGREEMENT * scaled.spread
        hits = 1 if found is None or value > found.value + close else hits + (value > found.value - close)
        if found is None or value > found.value:
            found = Best(end, value, number + 1, False)
        if hits >= effort.agreeing:
            return Best(found.u, found.value, number + 1, True)
    return found


@dataclass(frozen=True)
class Scaled:
    """The functions with their sizes over a pool of points, which makes the search independent of units."""

    functions: Truth
    pieces: int
    U: Float64[ndarray, "p d"]
    F: Float64[ndarray, "p q"]
    scale: Float64[ndarray, "q"]
    spread: float

    @classmethod
    def measured(cls, functions: Truth, pieces: int, U: Float64[ndarray, "p d"]) -> "Scaled":
        F = functions(U)
        objective = F[:, :pieces].min(-1)
        low, high = np.quantile(objective, [0.25, 0.75]).tolist()
        spread = (high - low) or float(np.abs(objective).max()) or 1.0
        scale = median(np.abs(F))
        scale[:pieces] = spread
        return cls(functions, pieces, U, F, np.where(scale > 0, scale, 1.0), spread)

    def merit(self, F: Float64[ndarray, "b q"]) -> Float64[ndarray, "b"]:
        """Return the scaled objective minus the weighted scaled violations."""
        scaled = F / self.scale
        return scaled[:, : self.pieces].min(-1) - PENALTY * np.maximum(-scaled[:, self.pieces :], 0).sum(-1)

    def chosen(self, count: int) -> Float64[ndarray, "s d"]:
        """Return starts from the pool: up to half are its best distinct points, the others are arbitrary."""
        order = np.argsort(-self.merit(self.F), kind="stable")
        ranked = self.U[order[: 8 * count]]
        apart = 0.3 / count ** (1 / self.U.shape[1])
        free = np.ones(len(ranked), dtype=bool)
        taken: list[int] = []
        for place in range(len(ranked)):
            if free[place] and len(taken) < count // 2:
                taken.append(place)
                free &= np.abs(ranked - ranked[place]).max(-1) > apart
        return np.concatenate([ranked[taken], self.U[: count - len(taken)]])

    def climbing(self, U: Float64[ndarray, "b d"]) -> tuple[Float64[ndarray, "b"], Float64[ndarray, "b d"]]:
        """Return the merit at many points and its slopes, from differences to the side that is inside the cube."""
        b, d = U.shape
        step = np.where(U < 0.5, STEP, -STEP)
        near = np.concatenate([U[None], U + step * np.eye(d)[:, None]])
        merit = self.merit(self.functions(near.reshape(-1, d))).reshape(1 + d, b)
        return merit[0], np.nan_to_num((merit[1:] - merit[0]).T / step)

    def ascended(self, effort: Effort, starts: Float64[ndarray, "s d"] | None) -> Float64[ndarray, "e d"]:
        """Maximize the merit from many starts at once (Adam on the cube) and return the distinct ends, best first."""
        U = self.chosen(effort.starts)
        U = U if starts is None else np.concatenate([starts, U])
        first, second = np.zeros_like(U), np.zeros_like(U)
        best_U, best_merit = U, np.full(len(U), -np.inf)
        for step in range(1, effort.steps + 1):
            merit, slope = self.climbing(U)
            better = merit > best_merit
            best_U = np.where(better[:, None], U, best_U)
            best_merit = np.where(better, merit, best_merit)
            first, second = 0.8 * first + 0.2 * slope, 0.95 * second + 0.05 * slope**2
            move = (first / (1 - 0.8**step)) / (np.sqrt(second / (1 - 0.95**step)) + 1e-12)
            U = np.clip(U + 0.1 * (1 - step / (effort.steps + 1)) ** 2 * move, 0, 1)
        ends: list[ndarray] = []
        order = np.argsort(-best_merit, kind="stable").tolist()
        for apart, most in ((0.03, effort.polished // 2), (0.2, effort.polished)):  # the best, then the best far away
            for place in order:
                if len(ends) < most and all(np.abs(best_U[place] - end).max() > apart for end in ends):
                    ends.append(best_U[place])
        feasible = (self.F[:, self.pieces :] >= 0).all(-1)
        if feasible.any():  # the best point of the pool, in case all ascents left it
            ends.append(self.U[np.where(feasible, self.F[:, : self.pieces].min(-1), -np.inf).argmax()])
        return np.stack(ends)

    def objective(self, u: Float64[ndarray, "d"]) -> float:
        """Return the smallest of the objective's pieces at one point."""
        return float(self.functions(u[None])[0, : self.pieces].min())

    def polished(self, ends: Float64[ndarray, "e d"]) -> Float64[ndarray, "d"] | None:
        """Solve roughly from every end, precisely from the best; None if no point is feasible."""
        rough = [
            (self.objective(u), u) for u in (self.solved(end, ROUGH_PRECISION)[0] for end in ends) if u is not None
        ]
        for _, u in sorted(rough, key=lambda pair: -pair[0]):
            point, done = self.solved(u, FINAL_PRECISION)
            if point is not None and not done:  # restart a line search that stopped
                again, _ = self.solved(point, FINAL_PRECISION)
                point = again if again is not None and self.objective(again) > self.objective(point) else point
            if point is not None:
                return point
        return None

    def solved(self, u: Float64[ndarray, "d"], precision: float) -> tuple[Float64[ndarray, "d"] | None, bool]:
        """Run SLSQP from one point, the objective's pieces as constraints on a level t.

        Returns:
            The end, None if it is infeasible, and whether the solver converged.
        """
        d, q, all_functions = len(u), self.pieces, len(self.scale)
        objective = np.arange(all_functions) < q
        base = float(self.F[:, :q].mean())  # subtracted first: an offset costs no digits
        last: dict[bytes, tuple[ndarray, ndarray]] = {}

        def at(z: ndarray) -> tuple[ndarray, ndarray]:
            """Return the scaled values and slopes of all functions, from differences to both sides within the cube."""
            key = z[:d].tobytes()
            if key not in last:
                last.clear()
                point = np.clip(z[:d], 0.0, 1.0)
                up, down = np.minimum(STEP, 1 - point), np.minimum(STEP, point)
                near = np.concatenate([point[None], point + np.diag(up), point - np.diag(down)])
                F = (self.functions(near) - base * objective) / self.scale
                last[key] = F[0], np.nan_to_num((F[1 : 1 + d] - F[1 + d :]).T / (up + down))
            return last[key]

        def rest(z: ndarray) -> ndarray:
            return at(z)[0] - z[d] * objective if q > 1 else at(z)[0][1:]

        def rest_slope(z: ndarray) -> ndarray:
            return np.column_stack([at(z)[1], -1.0 * objective]) if q > 1 else at(z)[1][1:]

        start, bounds = u, [(0.0, 1.0)] * d
        if q > 1:
            start, bounds = np.append(start, at(start)[0][:q].min()), [*bounds, (-np.inf, np.inf)]
        constrained = {"type": "ineq", "fun": rest, "jac": rest_slope}
        answer = minimize(
            lambda z: -z[d] if q > 1 else -at(z)[0][0],
            start,
            jac=lambda z: np.append(np.zeros(d), -1.0) if q > 1 else -at(z)[1][0],
            bounds=bounds,
            constraints=[constrained] if all_functions > 1 else [],
            method="SLSQP",
            options={"maxiter": 30 if precision == ROUGH_PRECISION else 60, "ftol": precision},
        )
        end = np.clip(answer.x[:d], 0.0, 1.0)
        left = self.functions(end[None])[0, q:]
        feasible = bool((left >= -max(LARGEST_VIOLATION, 100 * precision) * self.scale[q:]).all())
        return (end if feasible else None), bool(answer.success)
