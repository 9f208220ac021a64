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
    answer = _least_distance(G, G @ target - np.concatenate([b, -low, high]))
    if answer is None:
        return None
    v, weights = answer
    return np.clip(root @ (v - target), low, high), weights[: len(A)]


def _least_distance(
    G: Float64[ndarray, "c z"], h: Float64[ndarray, "c"]
) -> tuple[Float64[ndarray, "z"], Float64[ndarray, "c"]] | None:
    """Minimize |v| subject to G v >= h; return v and the multipliers, or None if nothing satisfies it."""
    if (h <= 0).all():
        return np.zeros(G.shape[1]), np.zeros(len(h))
    E = np.concatenate([G.T, h[None]])
    f = np.zeros(len(E))
    f[-1] = 1.0
    try:
        weights, size = nnls(E, f)
    except RuntimeError:  # too many iterations: treated like an inconsistent subproblem
        return None
    if size < 1e-10:
        return None
    r = E @ weights - f
    if not -r[-1] > 1e-14:
        return None
    return r[:-1] / -r[-1], weights / -r[-1]


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
        return np.clip(self.z[rows] + self.length[rows, None] * self.step[rows], self.low, self.high)

    def receive(self, rows: ndarray, z: Float64[ndarray, "s z"], evaluated: Evaluated) -> None:
        """Accept the trial points or shorten the steps."""
        phi, g, c, J = evaluated
        fine = _is_fine(evaluated)
        self._remember(rows[fine], z[fine], phi[fine], c[fine])
        weights = self.weights[rows]
        enough = self._merit(self.phi[rows], self.c[rows], weights) - 1e-4 * self.length[rows] * np.maximum(
            self.decrease[rows], 0.0
        )
        accepted = fine & (self._merit(phi, c, weights) <= enough + 1e-14 * (1.0 + np.abs(self.phi[rows])))
        self._shorten(rows[~accepted], fine[~accepted])
        taken = rows[accepted]
        if not len(taken):
            return
        z, phi, g, c, J = z[accepted], phi[accepted], g[accepted], c[accepted], J[accepted]
        pull = self.planned[taken][:, None, :]
        y = (g - (pull @ J)[:, 0]) - (self.g[taken] - (pull @ self.J[taken])[:, 0])
        self._update(taken, z - self.z[taken], y)
        self.z[taken], self.phi[taken], self.g[taken], self.c[taken], self.J[taken] = z, phi, g, c, J
        self.multipliers[taken] = self.planned[taken]
        self.plan(taken)

    def _remember(self, rows: ndarray, z: ndarray, phi: ndarray, c: ndarray) -> None:
        """Keep the best point that every start has seen: feasible ones by value, the others by violation."""
        violation, was = _violation(c), self.best_violation[rows]
        lower = phi < self.best_phi[rows]
        better = np.where(
            violation > FEASIBLE, (violation < was) | ((violation == was) & lower), (was > FEASIBLE) | lower
        )
        kept = rows[better]
        self.best_violation[kept], self.best_phi[kept] = violation[better], phi[better]
        self.best_z[kept], self.best_c[kept] = z[better], c[better]

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
        moved = length >= 1e-28
        rows, s, y, length = rows[moved], s[moved], y[moved], length[moved]
        fresh = self.is_fresh[rows]
        curvature = (s * y).sum(1) / length
        first = fresh & (curvature > 0)
        if first.any():
            self.B[rows[first]] = np.eye(s.shape[1]) * np.clip(curvature[first], 1e-3, 1e6)[:, None, None]
        self.is_fresh[rows] = False
        Bs = (self.B[rows] @ s[:, :, None])[:, :, 0]
        sBs = (s * Bs).sum(1)
        sy = (s * y).sum(1)
        damped = sy < 0.2 * sBs
        share = np.where(damped, 0.8 * sBs / np.where(damped, sBs - sy, 1.0), 1.0)[:, None]
        y = share * y + (1 - share) * Bs
        sy = (s * y).sum(1)
        usable = (sBs > 0) & (sy > 0)
        Bs, y, sBs, sy = Bs[usable], y[usable], sBs[usable, None, None], sy[usable, None, None]
        self.B[rows[usable]] += y[:, :, None] * y[:, None, :] / sy - Bs[:, :, None] * Bs[:, None, :] / sBs


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
    v, multipliers = np.zeros_like(g), np.zeros_like(b)
    inconsistent = []
    for i in (h > 0).any(1).nonzero()[0]:
        answer = _least_distance(G[i], h[i])
        if answer is None:
            inconsistent.append(i)
        else:
            v[i], multipliers[i] = answer[0], answer[1][: b.shape[1]]
    p = np.clip((root @ (v - target)[:, :, None])[:, :, 0], low, high)
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
    phi, g, c, J = evaluated
    return np.isfinite(phi) & np.isfinite(g).all(1) & np.isfinite(c).all(1) & np.isfinite(J).all((1, 2))


def lead_of(phi: Float64[ndarray, "s"], violation: Float64[ndarray, "s"]) -> tuple[float, float]:
    """Return violation, beyond what counts as feasible, and value of the best of some points."""
    return min(zip(np.maximum(violation - FEASIBLE, 0.0).tolist(), phi.tolist(), strict=True))


def _lead(runs: _Runs) -> tuple[float, float]:
    """Return violation and value of the best point any start has seen."""
    return lead_of(runs.best_phi, runs.best_violation)


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
