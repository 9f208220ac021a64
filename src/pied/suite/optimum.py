"""The best point of cheap smooth functions on the unit cube, found by brute force and found twice.

The truth behind a test problem costs microseconds and has exact derivatives, so its optimum can be searched with means
that no study has: a large pool of points, hundreds of simultaneous ascents, and a few polished local solutions; all of
it repeated from fresh points until two searches agree.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float64
from scipy.optimize import minimize
from torch import Tensor

from pied.rng import Stream

Functions = Callable[[Float64[Tensor, "b d"]], Float64[Tensor, "b q"]]
"""Many points of the unit cube to the values there: objective pieces first, then constraints (satisfied when >= 0)."""

FEASIBLE = 1e-10
"""Largest violation of a constraint, in units of its median size over the cube, that an answer may have."""
AGREEMENT = 1e-8
"""Two searches agree when their values differ by less than this times the interquartile range of the objective."""
ROUGH, SHARP = 1e-8, 1e-15
"""Precision of the local solver, in units of the interquartile range: to compare ends, and for the answer."""
PENALTY = 30.0
"""Weight of scaled violations in the ascents: enough to end near the feasible set, not too much to move along it."""


@dataclass(frozen=True)
class Search:
    """How hard to look."""

    pool: int = 4096
    """Scrambled Sobol points of each search."""
    starts: int = 128
    """Simultaneous ascents of each search."""
    steps: int = 100
    """Steps of each ascent."""
    polished: int = 10
    """Ends of ascents that are solved to rounding."""
    agreeing: int = 2
    """Searches that must end at the same value."""
    searches: int = 6
    """Searches at most."""


@dataclass(frozen=True)
class Best:
    """What was found."""

    u: Float64[Tensor, "d"]
    """The best point."""
    value: float
    """The smallest of the objective's pieces there."""
    searches: int
    """Searches made."""
    agreed: bool
    """Whether two of them ended at the same value."""


def best(
    functions: Functions,
    d: int,
    *,
    stream: Stream,
    pieces: int = 1,
    search: Search | None = None,
    starts: Float64[Tensor, "s d"] | None = None,
) -> Best | None:
    """Maximize the smallest of the first functions subject to the others >= 0; None when no feasible point is found.

    Args:
        functions: the truth.
        d: dimension of the cube.
        stream: where points come from.
        pieces: how many of the functions make up the objective; their minimum is maximized, kinks included.
        search: how hard to look.
        starts: further points to start from, for instance a known good one.
    """
    search = search or Search()
    found: Best | None = None
    hits = 0
    for number in range(search.searches):
        scaled = _Scaled.measured(functions, pieces, stream.at("search", number).sobol(search.pool, d))
        end = scaled.summit(scaled.ascended(search, starts))
        if end is None:
            continue
        value, close = scaled.objective(end), AGREEMENT * scaled.spread
        hits = 1 if found is None or value > found.value + close else hits + (value > found.value - close)
        if found is None or value > found.value:
            found = Best(end, value, number + 1, False)
        if hits >= search.agreeing:
            return Best(found.u, found.value, number + 1, True)
    return found


@dataclass(frozen=True)
class _Scaled:
    """The functions with the sizes they have over a pool of points, so that no scale of theirs matters."""

    functions: Functions
    pieces: int
    U: Float64[Tensor, "p d"]
    F: Float64[Tensor, "p q"]
    scale: Float64[Tensor, "q"]
    spread: float

    @classmethod
    def measured(cls, functions: Functions, pieces: int, U: Float64[Tensor, "p d"]) -> "_Scaled":
        with torch.no_grad():
            F = functions(U)
        objective = F[:, :pieces].amin(-1)
        low, high = torch.quantile(objective, torch.tensor([0.25, 0.75], dtype=F.dtype)).tolist()
        spread = (high - low) or float(objective.abs().max()) or 1.0
        scale = F.abs().median(0).values
        scale[:pieces] = spread
        return cls(functions, pieces, U, F, torch.where(scale > 0, scale, 1.0), spread)

    def merit(self, F: Float64[Tensor, "b q"]) -> Float64[Tensor, "b"]:
        """Return the scaled objective less the weighted scaled violations."""
        scaled = F / self.scale
        return scaled[:, : self.pieces].amin(-1) - PENALTY * (-scaled[:, self.pieces :]).clamp_min(0).sum(-1)

    def chosen(self, count: int) -> Float64[Tensor, "s d"]:
        """Return starts from the pool: the better half best first, none close to another; then any others."""
        order = self.merit(self.F).argsort(descending=True)
        ranked = self.U[order[: 8 * count]]
        apart = 0.3 / count ** (1 / self.U.shape[1])
        free = torch.ones(len(ranked), dtype=torch.bool)
        taken: list[int] = []
        for place in range(len(ranked)):
            if free[place] and len(taken) < count // 2:
                taken.append(place)
                free &= (ranked - ranked[place]).abs().amax(-1) > apart
        return torch.cat([ranked[taken], self.U[: count - len(taken)]])

    def ascended(self, search: Search, starts: Float64[Tensor, "s d"] | None) -> Float64[Tensor, "e d"]:
        """Climb the merit from many starts at once (Adam on the cube) and return the distinct ends, best first."""
        U = self.chosen(search.starts)
        U = (U if starts is None else torch.cat([starts, U])).clone()
        first, second = torch.zeros_like(U), torch.zeros_like(U)
        best_U, best_merit = U.clone(), torch.full((len(U),), -torch.inf, dtype=U.dtype)
        for step in range(1, search.steps + 1):
            U.requires_grad_(True)
            merit = self.merit(self.functions(U))
            (slope,) = torch.autograd.grad(merit.sum(), U)
            U, merit, slope = U.detach(), merit.detach(), torch.nan_to_num(slope)
            better = merit > best_merit
            best_U = torch.where(better[:, None], U, best_U)
            best_merit = torch.where(better, merit, best_merit)
            first, second = 0.8 * first + 0.2 * slope, 0.95 * second + 0.05 * slope**2
            move = (first / (1 - 0.8**step)) / ((second / (1 - 0.95**step)).sqrt() + 1e-12)
            U = (U + 0.1 * (1 - step / (search.steps + 1)) ** 2 * move).clamp(0, 1)
        ends: list[Tensor] = []
        order = best_merit.argsort(descending=True).tolist()
        for apart, most in ((0.03, search.polished // 2), (0.2, search.polished)):  # the best, then the best elsewhere
            for place in order:
                if len(ends) < most and all((best_U[place] - end).abs().max() > apart for end in ends):
                    ends.append(best_U[place])
        feasible = (self.F[:, self.pieces :] >= 0).all(-1)
        if bool(feasible.any()):  # the best point seen before any step, should all steps have led away from it
            ends.append(self.U[torch.where(feasible, self.F[:, : self.pieces].amin(-1), -torch.inf).argmax()])
        return torch.stack(ends)

    def objective(self, u: Float64[Tensor, "d"]) -> float:
        """Return the smallest of the objective's pieces at one point."""
        with torch.no_grad():
            return float(self.functions(u[None])[0, : self.pieces].min())

    def summit(self, ends: Float64[Tensor, "e d"]) -> Float64[Tensor, "d"] | None:
        """Solve roughly from every end and to rounding from the best; None when no feasible point is reached."""
        rough = [(self.objective(u), u) for u in (self.solved(end, ROUGH)[0] for end in ends) if u is not None]
        for _, u in sorted(rough, key=lambda pair: -pair[0]):
            point, done = self.solved(u, SHARP)
            if point is not None and not done:  # a stopped line search starts afresh
                again, _ = self.solved(point, SHARP)
                point = again if again is not None and self.objective(again) > self.objective(point) else point
            if point is not None:
                return point
        return None

    def solved(self, u: Float64[Tensor, "d"], precision: float) -> tuple[Float64[Tensor, "d"] | None, bool]:
        """Run SLSQP from one point, the objective's pieces as constraints on a level t.

        Returns:
            The end, None when it is infeasible, and whether the solver was content.
        """
        d, q, all_functions = len(u), self.pieces, len(self.scale)
        objective = np.arange(all_functions) < q
        base = float(self.F[:, :q].mean())  # differences to a typical value: no digits lost to an offset
        last: dict[bytes, tuple[np.ndarray, np.ndarray]] = {}

        def at(z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            """Return the scaled values and slopes of all functions."""
            key = z[:d].tobytes()
            if key not in last:
                last.clear()
                point = torch.from_numpy(np.clip(z[:d], 0.0, 1.0))
                U = point.repeat(all_functions, 1).requires_grad_(True)  # row i carries the slope of function i
                F = self.functions(U)
                (slope,) = torch.autograd.grad(F.diagonal().sum(), U)
                values = (F.detach()[0].numpy() - base * objective) / self.scale.numpy()
                last[key] = values, torch.nan_to_num(slope).div(self.scale[:, None]).numpy()
            return last[key]

        def rest(z: np.ndarray) -> np.ndarray:
            return at(z)[0] - z[d] * objective if q > 1 else at(z)[0][1:]

        def rest_slope(z: np.ndarray) -> np.ndarray:
            return np.column_stack([at(z)[1], -1.0 * objective]) if q > 1 else at(z)[1][1:]

        start, bounds = u.numpy(), [(0.0, 1.0)] * d
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
            options={"maxiter": 30 if precision == ROUGH else 60, "ftol": precision},
        )
        end = torch.from_numpy(np.clip(answer.x[:d], 0.0, 1.0))
        with torch.no_grad():
            left = self.functions(end[None])[0, q:]
        feasible = bool((left >= -max(FEASIBLE, 100 * precision) * self.scale[q:]).all())
        return (end if feasible else None), bool(answer.success)
