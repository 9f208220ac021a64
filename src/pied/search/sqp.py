"""Sequential quadratic programming from many starts in step.

Minimizes phi(z) subject to c(z) >= 0 and a box, from S starts at once. A function with slopes costs nearly the same for
one point or sixteen. So every round evaluates the current trial points of all starts together, each at its own stage of
its own line search. SciPy's SLSQP cannot do this: it runs its loop internally and must be called once per start. The
quadratic subproblems are solved exactly, as least-distance problems by non-negative least squares (Lawson and Hanson
1974, chapter 23).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy import ndarray

from pied.shapes import Bool, Float64

Evaluated = tuple[ndarray, ndarray]
"""At b points: f = (phi, c_1, ..., c_n), b k, and the slopes of all, b k z."""

# Functions are scaled to about 1, so tolerances of values are relative to that.
CONVERGED_DECREASE = 1e-10  # predicted decrease of the merit below which a feasible start has converged
ROUNDING_DECREASE = 1e-11  # predicted decrease that, when the full step is refused, is rounding error: converged
FEASIBLE = 1e-10  # a smaller violation counts as none
STILL_STEP = 1e-12  # a shorter step (every coordinate) does not move the point
WEIGHT_FACTOR = 1.5  # penalty weights over multipliers: above 1, so that the merit increases with a violation
SHORTEST_LENGTH = 1e-7  # of the full step: the line search gives up at a shorter one
ARMIJO_SHARE = 1e-4  # share of the predicted decrease that an accepted step must achieve
MERIT_ROUNDING = 1e-14  # relative increase of the merit that is rounding error
SHORTENING, SHORTENING_NOT_FINITE = 0.4, 0.1  # factors of a refused step: by its merit, or by values not finite
IMPROVEMENT = 1e-9  # of the best value: a larger improvement restarts the wait for stragglers
SAME_DISTANCE = 1e-3  # of the box, every coordinate: a start this near to a converged one, and not better, follows it
SAME_MERIT = 1e-6  # relative: a merit lower by less is not better
PATIENCE = 6  # rounds without improvement after which stragglers are stopped
UNKNOWN_LEAD = (float("inf"), float("inf"))  # violation and value before any point is known
ACTIVE_DISTANCE = 1e-10  # a step that misses a bound with a multiplier by less ends on it
EDGE_DISTANCE = 1e-14  # of the width of the box: a point this near to a bound is put on it
RELAXATION_WEIGHT = 1e6  # penalty of relaxing inconsistent linearized constraints
LEAST_RESIDUAL = 1e-10  # of the least squares problem: a smaller one means that the constraints are inconsistent
LEAST_DIVISOR = 1e-14  # likewise for the component that the solution is divided by
LEAST_SQUARED_STEP = 1e-28  # a shorter step does not update the model
CURVATURES = (1e-3, 1e6)  # range of the first estimate of the curvature


@dataclass(frozen=True, eq=False)
class Solution:
    """Where every start ended."""

    z: Float64[ndarray, "S z"]
    f: Float64[ndarray, "S k"]
    """phi and every c there."""
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
    """Minimize |v| subject to G v >= h for many G, h; return v, the multipliers, and whether a solution exists."""
    from scipy.optimize import nnls  # not before it is needed: it takes long to load

    E = np.concatenate([G.swapaxes(1, 2), h[:, None]], 1)
    f = np.zeros(E.shape[1])
    f[-1] = 1.0
    weights, sizes = np.zeros(h.shape), np.zeros(len(h))
    for i, each in enumerate(E):
        try:
            weights[i], sizes[i] = nnls(each, f)
        except (RuntimeError, ValueError):  # too many iterations, or numbers that overflowed: as if inconsistent
            continue
    r = (E @ weights[:, :, None])[:, :, 0] - f
    divisor = -r[:, -1:]
    is_met = (sizes >= LEAST_RESIDUAL) & (divisor[:, 0] > LEAST_DIVISOR)
    divisor = np.where(is_met[:, None], divisor, 1.0)
    return r[:, :-1] / divisor, weights / divisor, is_met


def solve_relaxed_qp(
    root: Float64[ndarray, "z z"],
    g: Float64[ndarray, "z"],
    A: Float64[ndarray, "n z"],
    b: Float64[ndarray, "n"],
    low: Float64[ndarray, "z"],
    high: Float64[ndarray, "z"],
) -> tuple[Float64[ndarray, "z"], Float64[ndarray, "n"]]:
    """Like `solve_qp`, but violated constraints may be met in part: A p + b (1 - s) >= 0, s in [0, 1] penalized."""
    n = len(g)
    bigger = np.zeros((n + 1, n + 1))
    bigger[:n, :n] = root
    bigger[n, n] = 1.0 / np.sqrt(RELAXATION_WEIGHT)
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


class _Starts:
    """All starts: their points, quadratic models and line searches, as arrays with one row per start."""

    def __init__(self, Z: Float64[ndarray, "S z"], low: ndarray, high: ndarray, evaluated: Evaluated) -> None:
        self.z, self.low, self.high = Z.copy(), low, high
        self.same_distance = SAME_DISTANCE * (high - low).min()
        self.f, self.J = (np.array(each) for each in evaluated)
        S, n = len(Z), self.f.shape[1] - 1
        self.weights, self.multipliers, self.planned = np.zeros((S, n)), np.zeros((S, n)), np.zeros((S, n))
        self.B = self._fresh_model(self.J[:, 0])
        self.is_fresh = np.ones(S, dtype=bool)
        self.step, self.merit, self.decrease, self.length = np.zeros_like(Z), np.zeros(S), np.zeros(S), np.ones(S)
        self.converged = np.zeros(S, dtype=bool)
        self.done = ~_is_fine(evaluated)
        self.best_z, self.best_f, self.best_violation = Z.copy(), self.f.copy(), _violation(self.f)
        self.plan((~self.done).nonzero()[0])

    def _fresh_model(self, g: Float64[ndarray, "s z"]) -> Float64[ndarray, "s z z"]:
        return np.eye(g.shape[1]) * np.maximum(1.0, np.sqrt((g * g).sum(1)))[:, None, None]

    def plan(self, rows: ndarray) -> None:
        """Solve the quadratic subproblems of these starts and set up their line searches."""
        if not len(rows):
            return
        z, f, J = self.z[rows], self.f[rows], self.J[rows]
        phi, c = f[:, 0], f[:, 1:]
        p, planned = _solve_qps(self._roots(rows), J[:, 0], J[:, 1:], c, self.low - z, self.high - z)
        wanted = WEIGHT_FACTOR * planned
        weights = np.maximum(wanted, 0.5 * (self.weights[rows] + wanted))
        along = (J @ p[:, :, None])[:, :, 0]
        violation, linearized = np.maximum(-c, 0.0), np.maximum(-(c + along[:, 1:]), 0.0)
        decrease = (weights * (violation - linearized)).sum(1) - along[:, 0]
        is_still = np.abs(p).max(1) < STILL_STEP
        small = np.abs(decrease) < CONVERGED_DECREASE * (1.0 + np.abs(phi))
        converged = (violation.max(1, initial=0.0) < FEASIBLE) & (is_still | small)
        self.step[rows], self.planned[rows], self.weights[rows] = p, planned, weights
        self.merit[rows] = phi + (weights * violation).sum(1)
        self.decrease[rows], self.length[rows] = decrease, 1.0
        self.converged[rows] = converged
        self.done[rows] = converged | is_still | ~np.isfinite(decrease)
        if converged.any():
            self.multipliers[rows[converged]] = planned[converged]

    def _roots(self, rows: ndarray) -> Float64[ndarray, "s z z"]:
        """Return root with B^-1 = root root'; a model that is not positive definite is reset.

        LAPACK works in place on the transposes of C-ordered matrices: no copies are made.
        """
        from scipy.linalg import lapack  # not before it is needed: it takes long to load

        roots = self.B[rows].swapaxes(1, 2)
        for i, root in enumerate(roots):
            if lapack.dpotrf(root, 0, 1, 1)[1]:
                root[:] = self.B[rows[i]] = np.eye(len(root))
                self.is_fresh[rows[i]] = True
            lapack.dtrtri(root, 0, 0, 1)
        return roots

    def trials(self, rows: ndarray) -> Float64[ndarray, "s z"]:
        """Return the next points to evaluate for these starts."""
        return within(self.z[rows] + self.length[rows, None] * self.step[rows], self.low, self.high)

    def receive(self, rows: ndarray, z: Float64[ndarray, "s z"], evaluated: Evaluated) -> None:
        """Accept the trial points or shorten the steps."""
        f, J = evaluated
        fine = _is_fine(evaluated)
        self._remember(*_those(fine, rows, z, f))
        merit = f[:, 0] + (self.weights[rows] * np.maximum(-f[:, 1:], 0.0)).sum(1)
        least = ARMIJO_SHARE * self.length[rows] * np.maximum(self.decrease[rows], 0.0)
        rounding = MERIT_ROUNDING * (1.0 + np.abs(self.f[rows, 0]))
        accepted = fine & (merit <= self.merit[rows] - least + rounding)
        if not accepted.all():
            self._shorten(rows[~accepted], fine[~accepted])
            if not accepted.any():
                return
        rows, z, f, J = _those(accepted, rows, z, f, J)
        planned, change = self.planned[rows], J - self.J[rows]
        self._update(rows, z - self.z[rows], change[:, 0] - (planned[:, None] @ change[:, 1:])[:, 0])
        self.z[rows], self.f[rows], self.J[rows], self.multipliers[rows] = z, f, J, planned
        self.plan(rows)

    def _remember(self, rows: ndarray, z: ndarray, f: ndarray) -> None:
        """Keep the best point of every start: feasible ones by value, the others by violation."""
        violation, was = _violation(f), self.best_violation[rows]
        better = (violation < was) | ((violation == was) & (f[:, 0] < self.best_f[rows, 0]))
        if better.any():
            rows, violation, z, f = _those(better, rows, violation, z, f)
            self.best_violation[rows], self.best_z[rows], self.best_f[rows] = violation, z, f

    def _shorten(self, rows: ndarray, fine: ndarray) -> None:
        """Shorten refused steps; where they become too short, reset the model once, then give up."""
        if not len(rows):
            return
        self.length[rows] *= np.where(fine, SHORTENING, SHORTENING_NOT_FINITE)
        feasible = (-self.f[rows, 1:]).max(1, initial=0.0) < FEASIBLE
        flat = rows[fine & feasible & (self.decrease[rows] < ROUNDING_DECREASE * (1.0 + np.abs(self.f[rows, 0])))]
        self.converged[flat], self.done[flat] = True, True
        rows = rows[~self.done[rows]]
        short = rows[self.length[rows] < SHORTEST_LENGTH]
        self.done[short[self.is_fresh[short]]] = True
        misled = short[~self.is_fresh[short]]
        if len(misled):
            self.B[misled], self.is_fresh[misled] = self._fresh_model(self.J[misled, 0]), True
            self.plan(misled)

    def drop_followers(self) -> None:
        """Stop starts that approach a point where another one has converged, and give them its result."""
        active, ended = (~self.done).nonzero()[0], self.converged.nonzero()[0]
        if not len(active) or not len(ended):
            return
        near = np.abs(self.z[active][:, None] - self.z[ended]).max(2) < self.same_distance
        if not near.any():
            return
        merit = self.merit[ended]
        follows = near & (self.merit[active][:, None] >= merit - SAME_MERIT * (1.0 + np.abs(merit)))
        followers, leaders = active[follows.any(1)], ended[follows.argmax(1)[follows.any(1)]]
        self.done[followers] = True
        for each in (self.best_violation, self.best_z, self.best_f, self.multipliers):
            each[followers] = each[leaders]

    def _update(self, rows: ndarray, s: Float64[ndarray, "s z"], y: Float64[ndarray, "s z"]) -> None:
        """Powell's damped BFGS update of the models."""
        length = (s * s).sum(1)
        rows, s, y, length = _those(length >= LEAST_SQUARED_STEP, rows, s, y, length)
        B, sy = self.B[rows], (s * y).sum(1)
        first = self.is_fresh[rows] & (sy > 0)
        if first.any():
            B[first] = np.eye(s.shape[1]) * np.clip(sy[first] / length[first], *CURVATURES)[:, None, None]
        self.is_fresh[rows] = False
        Bs = (B @ s[:, :, None])[:, :, 0]
        sBs = (s * Bs).sum(1)
        damped = sy < 0.2 * sBs
        if damped.any():
            share = np.where(damped, 0.8 * sBs / np.where(damped, sBs - sy, 1.0), 1.0)[:, None]
            y = share * y + (1 - share) * Bs
            sy = (s * y).sum(1)
        change = y[:, :, None] * y[:, None] / sy[:, None, None] - Bs[:, :, None] * Bs[:, None] / sBs[:, None, None]
        usable = (sBs > 0) & (sy > 0)
        if not usable.all():
            change[~usable] = 0.0
        self.B[rows] = B + change


def _those(mask: Bool[ndarray, "s"], *arrays: ndarray) -> tuple[ndarray, ...]:
    """Return the rows of arrays where the mask holds; the arrays themselves if it holds everywhere."""
    return arrays if mask.all() else tuple(each[mask] for each in arrays)


def within(z: Float64[ndarray, "*s z"], low: Float64[ndarray, "z"], high: Float64[ndarray, "z"]) -> ndarray:
    """Return points moved into the box; a coordinate within rounding of a bound is put exactly on it.

    A computed step to an active bound misses it by a few last bits, which differ between machines.
    """
    edge = EDGE_DISTANCE * (high - low)
    return np.where(z <= low + edge, low, np.where(z >= high - edge, high, z))


def _solve_qps(
    root: Float64[ndarray, "s z z"],
    g: Float64[ndarray, "s z"],
    A: Float64[ndarray, "s n z"],
    b: Float64[ndarray, "s n"],
    low: Float64[ndarray, "s z"],
    high: Float64[ndarray, "s z"],
) -> tuple[Float64[ndarray, "s z"], Float64[ndarray, "s n"]]:
    """Like `solve_qp` for many subproblems at once; inconsistent ones are relaxed."""
    target = (root.swapaxes(1, 2) @ g[:, :, None])[:, :, 0]
    G = np.concatenate([A @ root, root, -root], 1)
    h = (G @ target[:, :, None])[:, :, 0] - np.concatenate([b, -low, high], 1)
    p, weights = -(root @ target[:, :, None])[:, :, 0], np.zeros(h.shape)
    n, z = A.shape[1:]
    bound = (h > 0).any(1).nonzero()[0]
    if len(bound):
        v, weights[bound], is_met = _least_distances(G[bound], h[bound])
        p[bound] = (root[bound] @ (v - target[bound])[:, :, None])[:, :, 0]
        p = np.minimum(np.maximum(p, low), high)
        p = np.where((weights[:, n + z :] > 0) & (high - p < ACTIVE_DISTANCE), high, p)
        p = np.where((weights[:, n : n + z] > 0) & (p - low < ACTIVE_DISTANCE), low, p)
        for i in bound[~is_met]:
            p[i], weights[i, :n] = solve_relaxed_qp(root[i], g[i], A[i], b[i], low[i], high[i])
    return p, weights[:, :n]


def _violation(f: Float64[ndarray, "s k"]) -> Float64[ndarray, "s"]:
    """Return the sum of violations, per point; zero where it counts as none."""
    violation = np.maximum(-f[:, 1:], 0.0).sum(1)
    return violation * (violation > FEASIBLE)


def _is_fine(evaluated: Evaluated) -> Bool[ndarray, "s"]:
    """Tell whether everything is finite, per point."""
    f, J = evaluated
    if math.isfinite(f.sum() + J.sum()):
        return np.ones(len(f), dtype=bool)
    return np.all(np.isfinite(f), 1) & np.all(np.isfinite(J), (1, 2))


def lead_of(f: Float64[ndarray, "s k"]) -> tuple[float, float]:
    """Return the violation and the value of the best point."""
    return min(zip(_violation(f).tolist(), f[:, 0].tolist(), strict=True))


def _lead(starts: _Starts) -> tuple[float, float]:
    """Return violation and value of the best point of all starts."""
    return min(zip(starts.best_violation.tolist(), starts.best_f[:, 0].tolist(), strict=True))


@np.errstate(all="ignore")
def minimize(
    evaluate: Callable[[Float64[ndarray, "b z"]], Evaluated],
    starts: Float64[ndarray, "S z"],
    low: Float64[ndarray, "z"],
    high: Float64[ndarray, "z"],
    rounds: int,
    patience: int | None = PATIENCE,
    lead: tuple[float, float] | None = None,
) -> Solution:
    """Minimize phi subject to c >= 0 from every start; return the best point of each.

    Args:
        evaluate: Gives phi and c at b points, and their slopes.
        starts: Starting points; moved into the box.
        low: Lower ends of the box.
        high: Upper ends of the box.
        rounds: Largest number of batched evaluations.
        patience: Rounds without improvement, after one start has converged, after which the others are stopped; None:
            every start goes on to its end.
        lead: Violation and value of a point that is known already; the starts have `patience` rounds to beat it.
    """
    Z = np.clip(starts, low, high)
    all_starts = _Starts(Z, low, high, evaluate(Z))
    can_give_up = lead is not None
    used, improved, best = 1, 1, min(_lead(all_starts), lead or UNKNOWN_LEAD)
    while used < rounds:
        active = (~all_starts.done).nonzero()[0]
        if not len(active):
            break
        if patience is not None and used - improved > patience and (can_give_up or all_starts.converged.any()):
            break
        trials = all_starts.trials(active)
        all_starts.receive(active, trials, evaluate(trials))
        if patience is not None:
            all_starts.drop_followers()
        used += 1
        now = min(_lead(all_starts), best)
        if now[0] < best[0] - FEASIBLE or now[1] < best[1] - IMPROVEMENT * (1.0 + abs(now[1])):
            improved, best = used, now
    return Solution(all_starts.best_z, all_starts.best_f, all_starts.multipliers, all_starts.converged, used)
