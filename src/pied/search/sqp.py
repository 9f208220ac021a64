"""Sequential quadratic programming from many starts in step.

Minimizes phi(z) subject to c(z) >= 0 and a box, from S starts at once: a function with slopes costs nearly the same for
one point or sixteen, so every round evaluates the current trial points of all starts together, each at its own stage of
its own line search. SciPy's SLSQP keeps its loop to itself and would be called once per start; that is the reason for
this file. The quadratic subproblems are solved exactly, as least-distance problems by non-negative least squares
(Lawson and Hanson 1974, chapter 23).
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64
from numpy import ndarray
from scipy.optimize import nnls

Evaluated = tuple[ndarray, ndarray, ndarray, ndarray]
"""At b points: phi b, its slopes b z, c b n, its slopes b n z."""

ENOUGH = 1e-10  # predicted decrease of the merit below which a start has converged; functions are scaled to about 1
FEASIBLE = 1e-10  # violation, scaled, below which it may
CAUTION = 1.5  # penalty weights exceed the multipliers by this factor: at equality the merit does not see a violation
SHORTEST = 1e-7  # step of the line search at which it gives up
ROUNDING = 1e-11  # predicted decrease that, when the full step is refused, is rounding of the function and none
NEWS = 1e-9  # improvement of the best point for which stragglers are waited on
SAME = 1e-3  # a start this near (every coordinate) to one that has converged, and not better, would end there
PATIENCE = 6  # rounds that stragglers are waited for
NOTHING = (float("inf"), float("inf"))  # violation and value before anything is known
FARTHEST = 1e6  # relaxation weight of inconsistent linearized constraints


@dataclass(frozen=True, eq=False)
class Solution:
    """Where every start ended."""

    z: Float64[ndarray, "S z"]
    phi: Float64[ndarray, "S"]
    c: Float64[ndarray, "S n"]
    multipliers: Float64[ndarray, "S n"]
    converged: Bool[ndarray, "S"]
    rounds: int
    """Batched evaluations used."""


def solve_qp(
    root: Float64[ndarray, "z z"],
    g: Float64[ndarray, "z"],
    A: Float64[ndarray, "n z"],
    b: Float64[ndarray, "n"],
    low: Float64[ndarray, "z"],
    high: Float64[ndarray, "z"],
) -> tuple[Float64[ndarray, "z"], Float64[ndarray, "n"]] | None:
    """Minimize p'Bp/2 + g'p subject to A p + b >= 0, low <= p <= high, with B^-1 = root root'; None if inconsistent.

    Substituting v = root^-1 p + root' g makes it: minimize |v| subject to G v >= h, a least-distance problem. Its
    solution is r_1..z / -r_(z+1), r the residual of the non-negative least squares problem with matrix [G'; h'] and
    right-hand side (0, ..., 0, 1).
    """
    target = root.T @ g
    G = np.concatenate([A @ root, root, -root])
    (v,), (weights,), (is_met,) = _least_distances(G[None], (G @ target - np.concatenate([b, -low, high]))[None])
    return (np.clip(root @ (v - target), low, high), weights[: len(A)]) if is_met else None


def _least_distances(
    G: Float64[ndarray, "s c z"], h: Float64[ndarray, "s c"]
) -> tuple[Float64[ndarray, "s z"], Float64[ndarray, "s c"], Bool[ndarray, "s"]]:
    """Minimize |v| subject to G v >= h, many times; return v, the multipliers, and whether anything satisfies it."""
    E = np.concatenate([G.swapaxes(1, 2), h[:, None]], 1)
    f = np.zeros(E.shape[1])
    f[-1] = 1.0
    weights, sizes = np.zeros(h.shape), np.zeros(len(h))
    for i, each in enumerate(E):
        try:
            weights[i], sizes[i] = nnls(each, f)
        except RuntimeError:  # too many iterations: treated like an inconsistent subproblem
            continue
    r = (E @ weights[:, :, None])[:, :, 0] - f
    scale = -r[:, -1:]
    is_met = (sizes >= 1e-10) & (scale[:, 0] > 1e-14)
    scale = np.where(is_met[:, None], scale, 1.0)
    return r[:, :-1] / scale, weights / scale, is_met


def solve_relaxed_qp(
    root: Float64[ndarray, "z z"],
    g: Float64[ndarray, "z"],
    A: Float64[ndarray, "n z"],
    b: Float64[ndarray, "n"],
    low: Float64[ndarray, "z"],
    high: Float64[ndarray, "z"],
) -> tuple[Float64[ndarray, "z"], Float64[ndarray, "n"]]:
    """Like `solve_qp`, but violated constraints may be met only in part: A p + b (1 - s) >= 0 with s in [0, 1] dear."""
    n = len(g)
    bigger = np.zeros((n + 1, n + 1))
    bigger[:n, :n] = root
    bigger[n, n] = 1.0 / np.sqrt(FARTHEST)
    violated = np.minimum(b, 0.0)
    answer = solve_qp(
        bigger,
        np.append(g, 0.0),
        np.concatenate([A, -violated[:, None]], 1),
        b,
        np.append(low, 0.0),
        np.append(high, 1.0),
    )
    if answer is None:
        return np.zeros(n), np.zeros(len(A))
    return answer[0][:n], answer[1]


class _Runs:
    """All starts: their points, quadratic models and line searches, as arrays with one row per start."""

    def __init__(self, Z: Float64[ndarray, "S z"], low: ndarray, high: ndarray, evaluated: Evaluated) -> None:
        self.z, self.low, self.high = Z.copy(), low, high
        self.phi, self.g, self.c, self.J = (np.array(each) for each in evaluated)
        S, n = self.c.shape
        self.weights, self.multipliers, self.planned = np.zeros((S, n)), np.zeros((S, n)), np.zeros((S, n))
        self.B = self._fresh_model(self.g)
        self.is_fresh = np.ones(S, dtype=bool)
        self.step, self.decrease, self.length = np.zeros_like(Z), np.zeros(S), np.ones(S)
        self.converged = np.zeros(S, dtype=bool)
        self.done = ~_is_fine(evaluated)
        self.best_violation, self.best_phi = _violation(self.c), self.phi.copy()
        self.best_z, self.best_c = self.z.copy(), self.c.copy()
        self.plan((~self.done).nonzero()[0])

    def _fresh_model(self, g: Float64[ndarray, "s z"]) -> Float64[ndarray, "s z z"]:
        return np.eye(g.shape[1]) * np.maximum(1.0, np.sqrt((g * g).sum(1)))[:, None, None]

    def _merit(self, phi: ndarray, c: ndarray, weights: ndarray) -> ndarray:
        return phi + (weights * np.maximum(-c, 0.0)).sum(1)

    def plan(self, rows: ndarray) -> None:
        """Solve the quadratic subproblems of these starts and set up their line searches."""
        if not len(rows):
            return
        z, phi, g, c, J = self.z[rows], self.phi[rows], self.g[rows], self.c[rows], self.J[rows]
        p, planned = _solve_qps(self._roots(rows), g, J, c, self.low - z, self.high - z)
        wanted = CAUTION * planned
        weights = np.maximum(wanted, 0.5 * (self.weights[rows] + wanted))
        violation = np.maximum(-c, 0.0)
        linearized = np.maximum(-(c + (J @ p[:, :, None])[:, :, 0]), 0.0)
        decrease = -(g * p).sum(1) + (weights * (violation - linearized)).sum(1)
        is_still = np.abs(p).max(1) < 1e-12
        small = np.abs(decrease) < ENOUGH * (1.0 + np.abs(phi))
        converged = (violation.max(1, initial=0.0) < FEASIBLE) & (is_still | small)
        self.step[rows], self.planned[rows], self.weights[rows] = p, planned, weights
        self.decrease[rows], self.length[rows] = decrease, 1.0
        self.converged[rows] = converged
        self.done[rows] = converged | is_still | ~np.isfinite(decrease)
        if converged.any():
            self.multipliers[rows[converged]] = planned[converged]

    def _roots(self, rows: ndarray) -> Float64[ndarray, "s z z"]:
        """Return root with B^-1 = root root'; a model that is not positive is forgotten."""
        try:
            factors = np.linalg.cholesky(self.B[rows])
        except np.linalg.LinAlgError:
            for row in rows:
                if not _is_positive(self.B[row]):
                    self.B[row], self.is_fresh[row] = np.eye(self.z.shape[1]), True
            factors = np.linalg.cholesky(self.B[rows])
        return np.linalg.inv(factors).swapaxes(1, 2)

    def trials(self, rows: ndarray) -> Float64[ndarray, "s z"]:
        """The next points that these starts want evaluated."""
        return _clipped(self.z[rows] + self.length[rows, None] * self.step[rows], self.low, self.high)

    def receive(self, rows: ndarray, z: Float64[ndarray, "s z"], evaluated: Evaluated) -> None:
        """Accept the trial points or shorten the steps."""
        phi, g, c, J = evaluated
        fine = _is_fine(evaluated)
        self._remember(*_those(fine, rows, z, phi, c))
        weights, before = self.weights[rows], self.phi[rows]
        least = 1e-4 * self.length[rows] * np.maximum(self.decrease[rows], 0.0)
        enough = self._merit(before, self.c[rows], weights) - least
        accepted = fine & (self._merit(phi, c, weights) <= enough + 1e-14 * (1.0 + np.abs(before)))
        if not accepted.all():
            self._shorten(rows[~accepted], fine[~accepted])
            if not accepted.any():
                return
        rows, z, phi, g, c, J = _those(accepted, rows, z, phi, g, c, J)
        planned = self.planned[rows]
        pull = planned[:, None, :]
        y = (g - (pull @ J)[:, 0]) - (self.g[rows] - (pull @ self.J[rows])[:, 0])
        self._update(rows, z - self.z[rows], y)
        self.z[rows], self.phi[rows], self.g[rows], self.c[rows], self.J[rows] = z, phi, g, c, J
        self.multipliers[rows] = planned
        self.plan(rows)

    def _remember(self, rows: ndarray, z: ndarray, phi: ndarray, c: ndarray) -> None:
        """Keep the best point that every start has seen: feasible ones by value, the others by violation."""
        violation, was = _violation(c), self.best_violation[rows]
        lower = phi < self.best_phi[rows]
        better = np.where(
            violation > FEASIBLE, (violation < was) | ((violation == was) & lower), (was > FEASIBLE) | lower
        )
        if better.any():
            rows, violation, phi, z, c = _those(better, rows, violation, phi, z, c)
            self.best_violation[rows], self.best_phi[rows], self.best_z[rows], self.best_c[rows] = violation, phi, z, c

    def _shorten(self, rows: ndarray, fine: ndarray) -> None:
        """Shorten steps that were refused; where they become too short, forget the model once, then give up."""
        if not len(rows):
            return
        self.length[rows] *= np.where(fine, 0.4, 0.1)
        feasible = np.maximum(-self.c[rows], 0.0).max(1, initial=0.0) < FEASIBLE
        flat = rows[fine & feasible & (self.decrease[rows] < ROUNDING * (1.0 + np.abs(self.phi[rows])))]
        self.converged[flat], self.done[flat] = True, True
        rows = rows[~self.done[rows]]
        short = rows[self.length[rows] < SHORTEST]
        self.done[short[self.is_fresh[short]]] = True
        misled = short[~self.is_fresh[short]]
        if len(misled):
            self.B[misled], self.is_fresh[misled] = self._fresh_model(self.g[misled]), True
            self.plan(misled)

    def drop_followers(self) -> None:
        """Let starts that are about to end where another one has end there."""
        active, ended = (~self.done).nonzero()[0], self.converged.nonzero()[0]
        if not len(active) or not len(ended):
            return
        near = np.abs(self.z[active][:, None, :] - self.z[ended][None]).max(2) < SAME * (self.high - self.low).min()
        merit = self._merit(self.phi, self.c, self.weights)
        slack = 1e-6 * (1.0 + np.abs(merit[ended]))
        follows = near & (merit[active][:, None] >= merit[ended] - slack)
        followers, leaders = active[follows.any(1)], ended[follows.argmax(1)[follows.any(1)]]
        self.done[followers] = True
        for each in (self.best_violation, self.best_phi, self.best_z, self.best_c, self.multipliers):
            each[followers] = each[leaders]

    def _update(self, rows: ndarray, s: Float64[ndarray, "s z"], y: Float64[ndarray, "s z"]) -> None:
        """Powell's damped BFGS update of the models."""
        length = (s * s).sum(1)
        rows, s, y, length = _those(length >= 1e-28, rows, s, y, length)
        B, sy = self.B[rows], (s * y).sum(1)
        first = self.is_fresh[rows] & (sy > 0)
        if first.any():
            B[first] = np.eye(s.shape[1]) * np.clip(sy[first] / length[first], 1e-3, 1e6)[:, None, None]
        self.is_fresh[rows] = False
        Bs = (B @ s[:, :, None])[:, :, 0]
        sBs = (s * Bs).sum(1)
        damped = sy < 0.2 * sBs
        if damped.any():
            share = np.where(damped, 0.8 * sBs / np.where(damped, sBs - sy, 1.0), 1.0)[:, None]
            y = share * y + (1 - share) * Bs
            sy = (s * y).sum(1)
        usable = (sBs > 0) & (sy > 0)
        self.B[rows] = B
        rows, B, Bs, y, sBs, sy = _those(usable, rows, B, Bs, y, sBs, sy)
        sBs, sy = sBs[:, None, None], sy[:, None, None]
        self.B[rows] = B + (y[:, :, None] * y[:, None, :] / sy - Bs[:, :, None] * Bs[:, None, :] / sBs)


def _those(mask: Bool[ndarray, "s"], *arrays: ndarray) -> tuple[ndarray, ...]:
    """Return the rows of arrays for which the mask holds; the arrays themselves where it holds throughout."""
    return arrays if mask.all() else tuple(each[mask] for each in arrays)


def _clipped(z: ndarray, low: ndarray, high: ndarray) -> ndarray:
    """`np.clip`, at a third of its cost for a few numbers."""
    return np.minimum(np.maximum(z, low), high)


def _solve_qps(
    root: Float64[ndarray, "s z z"],
    g: Float64[ndarray, "s z"],
    A: Float64[ndarray, "s n z"],
    b: Float64[ndarray, "s n"],
    low: Float64[ndarray, "s z"],
    high: Float64[ndarray, "s z"],
) -> tuple[Float64[ndarray, "s z"], Float64[ndarray, "s n"]]:
    """Like `solve_qp` for many at once, relaxed where it must be."""
    target = (root.swapaxes(1, 2) @ g[:, :, None])[:, :, 0]
    G = np.concatenate([A @ root, root, -root], 1)
    h = (G @ target[:, :, None])[:, :, 0] - np.concatenate([b, -low, high], 1)
    v, multipliers, inconsistent = np.zeros(g.shape), np.zeros(b.shape), np.array([], dtype=int)
    bound = (h > 0).any(1).nonzero()[0]
    if len(bound):
        found, weights, is_met = _least_distances(G[bound], h[bound])
        v[bound], multipliers[bound] = found, weights[:, : b.shape[1]]
        inconsistent = bound[~is_met]
    p = _clipped((root @ (v - target)[:, :, None])[:, :, 0], low, high)
    for i in inconsistent:
        p[i], multipliers[i] = solve_relaxed_qp(root[i], g[i], A[i], b[i], low[i], high[i])
    return p, multipliers


def _is_positive(B: Float64[ndarray, "z z"]) -> bool:
    try:
        np.linalg.cholesky(B)
    except np.linalg.LinAlgError:
        return False
    return True


def _violation(c: Float64[ndarray, "s n"]) -> Float64[ndarray, "s"]:
    return np.maximum(-c, 0.0).sum(1)


def _is_fine(evaluated: Evaluated) -> Bool[ndarray, "s"]:
    """Whether everything is finite, per point."""
    phi, g, c, J = (np.isfinite(each) for each in evaluated)
    if phi.all() and g.all() and c.all() and J.all():
        return phi
    return phi & g.all(1) & c.all(1) & J.all((1, 2))


def lead_of(phi: Float64[ndarray, "s"], c: Float64[ndarray, "s n"]) -> tuple[float, float]:
    """Return violation, beyond what counts as feasible, and value of the best of some points."""
    return min(zip(np.maximum(_violation(c) - FEASIBLE, 0.0).tolist(), phi.tolist(), strict=True))


def _lead(runs: _Runs) -> tuple[float, float]:
    """Return violation and value of the best point any start has seen."""
    return lead_of(runs.best_phi, runs.best_c)


def minimize(
    evaluate: Callable[[Float64[ndarray, "b z"]], Evaluated],
    starts: Float64[ndarray, "S z"],
    low: Float64[ndarray, "z"],
    high: Float64[ndarray, "z"],
    rounds: int,
    patience: int | None = PATIENCE,
    lead: tuple[float, float] | None = None,
) -> Solution:
    """Minimize phi subject to c >= 0 from every start; return the best point each of them saw.

    Args:
        evaluate: Gives phi, its slopes, c and its slopes at b points.
        starts: Starting points; moved into the box.
        low: Lower ends of the box.
        high: Upper ends of the box.
        rounds: Batched evaluations at most.
        patience: Rounds without a better point, one start having converged, after which the stragglers are left alone;
            None: every start goes on to its own end.
        lead: Violation and value of a point that is known already; the starts are given patience rounds to beat it.
    """
    Z = np.clip(starts, low, high)
    runs = _Runs(Z, low, high, evaluate(Z))
    can_give_up = lead is not None
    used, improved, best = 1, 1, min(_lead(runs), lead or NOTHING)
    while used < rounds:
        active = (~runs.done).nonzero()[0]
        if not len(active):
            break
        if patience is not None and used - improved > patience and (can_give_up or runs.converged.any()):
            break
        trials = runs.trials(active)
        runs.receive(active, trials, evaluate(trials))
        if patience is not None:
            runs.drop_followers()
        used += 1
        now = min(_lead(runs), best)
        if now[0] < best[0] - FEASIBLE or now[1] < best[1] - NEWS * (1.0 + abs(now[1])):
            improved, best = used, now
    return Solution(runs.best_z, runs.best_phi, runs.best_c, runs.multipliers, runs.converged, used)
