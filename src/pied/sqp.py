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
Row = tuple[float, ndarray, ndarray, ndarray]
"""The same at one of them."""

ENOUGH = 1e-11  # predicted decrease of the merit below which a start has converged; functions are scaled to about 1
FEASIBLE = 1e-10  # violation, scaled, below which it may
CAUTION = 1.5  # penalty weights exceed the multipliers by this factor: at equality the merit does not see a violation
SHORTEST = 1e-7  # step of the line search at which it gives up
PATIENCE = 12  # rounds that stragglers are waited for
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
    h = G @ target - np.concatenate([b, -low, high])
    if (h <= 0).all():  # the free minimum satisfies everything
        return -(root @ target), np.zeros(len(A))
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
    p = root @ (r[:-1] / -r[-1] - target)
    return np.clip(p, low, high), weights[: len(A)] / -r[-1]


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


class _Start:
    """One start: its point, its quadratic model, its line search."""

    def __init__(self, z: ndarray, low: ndarray, high: ndarray, evaluated: Row) -> None:
        self.z, self.low, self.high = z, low, high
        self.phi, self.g, self.c, self.J = evaluated
        self.weights = np.zeros(len(self.c))
        self.multipliers = np.zeros(len(self.c))
        self.B = np.eye(len(z)) * max(1.0, float(np.linalg.norm(self.g)))
        self.is_fresh = True
        self.done = self.converged = False
        self.best = (self._violation(self.c), self.phi, z, self.c)

    def _violation(self, c: ndarray) -> float:
        return float(np.maximum(-c, 0.0).sum())

    def _merit(self, phi: float, c: ndarray) -> float:
        return float(phi + self.weights @ np.maximum(-c, 0.0))

    def plan(self) -> None:
        """Solve the quadratic subproblem and set up the line search."""
        try:
            root = np.linalg.inv(np.linalg.cholesky(self.B)).T
        except np.linalg.LinAlgError:
            self.B, self.is_fresh = np.eye(len(self.z)), True
            root = self.B
        box = (self.low - self.z, self.high - self.z)
        answer = solve_qp(root, self.g, self.J, self.c, *box)
        self.step, self.planned = answer if answer is not None else solve_relaxed_qp(root, self.g, self.J, self.c, *box)
        wanted = CAUTION * self.planned
        self.weights = np.maximum(wanted, 0.5 * (self.weights + wanted))
        violation = np.maximum(-self.c, 0.0)
        linearized = np.maximum(-(self.c + self.J @ self.step), 0.0)
        self.decrease = float(-self.g @ self.step + self.weights @ (violation - linearized))
        self.length = 1.0
        is_still = np.abs(self.step).max() < 1e-12
        if violation.max(initial=0.0) < FEASIBLE and (is_still or abs(self.decrease) < ENOUGH * (1.0 + abs(self.phi))):
            self.done = self.converged = True
            self.multipliers = self.planned
        elif is_still or not np.isfinite(self.decrease):
            self.done = True

    def trial(self) -> ndarray:
        """The next point this start wants evaluated."""
        return np.clip(self.z + self.length * self.step, self.low, self.high)

    def receive(self, z: ndarray, evaluated: Row) -> None:
        """Accept the trial point or shorten the step."""
        phi, g, c, J = evaluated
        fine = np.isfinite(phi) and np.isfinite(c).all() and np.isfinite(g).all() and np.isfinite(J).all()
        if fine:
            violation = self._violation(c)
            if (violation, phi) < self.best[:2] if violation > FEASIBLE else self._is_better(violation, phi):
                self.best = (violation, phi, z, c)
        enough = self._merit(self.phi, self.c) - 1e-4 * self.length * max(self.decrease, 0.0)
        if not fine or self._merit(phi, c) > enough + 1e-14 * (1.0 + abs(self.phi)):
            self.length *= 0.4 if fine else 0.1
            if self.length < SHORTEST:
                if self.is_fresh:
                    self.done = True
                else:  # the model misled: forget it once
                    self.B, self.is_fresh = np.eye(len(self.z)) * max(1.0, float(np.linalg.norm(self.g))), True
                    self.plan()
            return
        s = z - self.z
        y = (g - self.planned @ J) - (self.g - self.planned @ self.J)
        self._update(s, y)
        self.z, self.phi, self.g, self.c, self.J = z, phi, g, c, J
        self.multipliers = self.planned
        self.plan()

    def _is_better(self, violation: float, phi: float) -> bool:
        return self.best[0] > FEASIBLE or phi < self.best[1]

    def _update(self, s: ndarray, y: ndarray) -> None:
        """Powell's damped BFGS update of B."""
        length = float(s @ s)
        if length < 1e-28:
            return
        if self.is_fresh:
            curvature = float(s @ y) / length
            if curvature > 0:
                self.B = np.eye(len(s)) * min(max(curvature, 1e-3), 1e6)
            self.is_fresh = False
        Bs = self.B @ s
        sBs = float(s @ Bs)
        sy = float(s @ y)
        if sy < 0.2 * sBs:
            share = 0.8 * sBs / (sBs - sy)
            y = share * y + (1 - share) * Bs
            sy = float(s @ y)
        if sBs > 0 and sy > 0:
            self.B = self.B - np.outer(Bs, Bs) / sBs + np.outer(y, y) / sy


def _row(evaluated: Evaluated, i: int) -> Row:
    phi, g, c, J = evaluated
    return float(phi[i]), g[i], c[i], J[i]


def _lead(runs: list[_Start]) -> tuple[float, float]:
    """Return violation and value of the best point any start has seen."""
    return min((max(run.best[0] - FEASIBLE, 0.0), run.best[1]) for run in runs)


def _is_settled(runs: list[_Start], waited: int, patience: int | None) -> bool:
    """Whether a start has converged and the others have not found better for long enough."""
    return patience is not None and waited > patience and any(run.converged for run in runs)


def minimize(
    evaluate: Callable[[Float64[ndarray, "b z"]], Evaluated],
    starts: Float64[ndarray, "S z"],
    low: Float64[ndarray, "z"],
    high: Float64[ndarray, "z"],
    rounds: int,
    patience: int | None = PATIENCE,
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
    """
    Z = np.clip(starts, low, high)
    first = evaluate(Z)
    runs = [_Start(Z[i], low, high, _row(first, i)) for i in range(len(Z))]
    for run in runs:
        if np.isfinite(run.phi) and np.isfinite(run.c).all() and np.isfinite(run.J).all() and np.isfinite(run.g).all():
            run.plan()
        else:
            run.done = True
    used, improved, lead = 1, 1, _lead(runs)
    while used < rounds:
        active = [run for run in runs if not run.done]
        if not active or _is_settled(runs, used - improved, patience):
            break
        trials = np.stack([run.trial() for run in active])
        parts = evaluate(trials)
        used += 1
        for i, run in enumerate(active):
            run.receive(trials[i], _row(parts, i))
        now = _lead(runs)
        if now[0] < lead[0] - FEASIBLE or now[1] < lead[1] - ENOUGH * (1.0 + abs(now[1])):
            improved, lead = used, now
    return Solution(
        z=np.stack([run.best[2] for run in runs]),
        phi=np.array([run.best[1] for run in runs]),
        c=np.stack([run.best[3] for run in runs]),
        multipliers=np.stack([run.multipliers for run in runs]),
        converged=np.array([run.converged for run in runs]),
        rounds=used,
    )
