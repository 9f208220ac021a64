"""Local solves of a subproblem from many starts, and the choice among their ends."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy import ndarray

from pied.search import sqp
from pied.search.functions import Functions
from pied.search.optimum import SATISFIED, Optimum, meets_white, optimum_at
from pied.shapes import Float64, Int64

TIE = 1e-9  # scaled: objectives this near are equal and the first one wins, so that rounding errors do not decide
VIOLATION_WEIGHT = 10.0  # of scaled violations when points are ranked
INSIDE = 1e-13  # scaled: how far inside the white constraints a restored point is put
APART = 0.02  # starts nearer than this (largest coordinate difference) count as one start


@dataclass(frozen=True, eq=False)
class Ends:
    """The ends of local solves: points, and functions there."""

    u: Float64[ndarray, "s d"]
    f: Float64[ndarray, "s k"]
    multipliers: Float64[ndarray, "s n"]


def ends_at(functions: Functions, u: Float64[ndarray, "s d"]) -> Ends:
    """Return points as if solves had ended there."""
    f, _ = functions.values_and_slopes(u)
    return Ends(u, f, np.zeros((len(u), functions.k - 1)))


def ranked(scaled: Float64[ndarray, "b k"]) -> tuple[Float64[ndarray, "b"], Float64[ndarray, "b"]]:
    """Return merit (objective less weighted violations) and violation of pool points."""
    violation = np.maximum(-scaled[:, 1:], 0.0).sum(1)
    merit = np.nan_to_num(scaled[:, 0] - VIOLATION_WEIGHT * violation, nan=-np.inf, posinf=1e300)
    return merit, np.nan_to_num(violation, nan=np.inf)


def tied(merit: Float64[ndarray, "b"]) -> Float64[ndarray, "b"]:
    """Make values equal that differ only by rounding errors, so that these do not decide which points become starts."""
    return np.rint(merit / TIE)


def best_first(merit: Float64[ndarray, "b"], count: int) -> Int64[ndarray, "s"]:
    """Return the rows of the best points, best first; equal ones keep their order."""
    falling = -merit
    rows = np.arange(len(merit))
    if count < len(merit):  # sorting a few takes a tenth of the time
        rows = (falling <= np.partition(falling, count - 1)[count - 1]).nonzero()[0]
    return rows[falling[rows].argsort(kind="stable")[:count]]


def distinct(pool: Float64[ndarray, "b d"], merit: Float64[ndarray, "b"], count: int) -> Float64[ndarray, "s d"]:
    """Return the best points that are not close to each other."""
    points = pool[best_first(merit, 64 * count)]
    columns = np.ascontiguousarray(points.T)
    is_free = np.ones(len(points), dtype=bool)
    chosen: list[int] = []
    while len(chosen) < count and is_free.any():
        chosen.append(int(is_free.argmax()))
        is_free &= np.abs(columns - columns[:, chosen[-1:]]).max(0) > APART
    return points[chosen]


def solve_locally(
    functions: Functions,
    scales: ndarray,
    starts: Float64[ndarray, "s d"],
    rounds: int,
    before: Sequence[Ends] = (),
    *,
    each_to_its_end: bool = False,
) -> Ends:
    """Solve from every start; a batch that does not soon beat the earlier ends is abandoned.

    Args:
        functions: What is solved.
        scales: One scale per function.
        starts: Where to begin.
        rounds: Largest number of batched evaluations.
        before: Earlier ends.
        each_to_its_end: Whether no start is given up because another one is better or near.
    """
    signed = np.concatenate([-scales[:1], scales[1:]])  # the objective is minimized
    by_slope = signed[:, None]

    def evaluate(Z: ndarray) -> sqp.Evaluated:
        f, J = functions.values_and_slopes(Z)
        return f / signed, J / by_slope

    d = starts.shape[1]
    lead = min((sqp.lead_of(end.f / signed) for end in before), default=None)
    patience = None if each_to_its_end else sqp.PATIENCE
    found = sqp.minimize(evaluate, starts, np.zeros(d), np.ones(d), rounds, patience, lead)
    return Ends(found.z, found.f * signed, found.multipliers)


def solve_largest_margin(
    functions: Functions, scales: ndarray, starts: Float64[ndarray, "s d"], rounds: int, first: int = 1
) -> Ends:
    """Maximize t subject to f_i / s_i >= t for the constraints (from `first` on), white ones >= 0."""
    own, by_slope = scales[first:], scales[first:, None]
    white = np.array([i in functions.white for i in range(first, functions.k)])
    floating = np.where(white, 0.0, 1.0)
    if first == 0 or white.all():
        floating[:] = 1.0

    def evaluate(Z: ndarray) -> sqp.Evaluated:
        f, J = functions.values_and_slopes(Z[:, :-1])
        f, J = f[:, first:] / own, J[:, first:] / by_slope
        slopes = np.zeros((len(Z), 1 + J.shape[1], Z.shape[1]))
        slopes[:, 1:, :-1] = J
        slopes[:, 0, -1], slopes[:, 1:, -1] = -1.0, -floating
        return np.concatenate([-Z[:, -1:], f - floating * Z[:, -1:]], 1), slopes

    d = starts.shape[1]
    begin = functions.values(starts)[:, first:] / own
    t = np.where(floating > 0, begin, np.inf).min(1, keepdims=True)
    Z = np.concatenate([starts, t], 1)
    low, high = np.zeros(d + 1), np.ones(d + 1)
    low[-1], high[-1] = min(-1e3, 2 * float(t.min())), max(1e3, 2 * float(t.max()))
    found = sqp.minimize(evaluate, Z, low, high, rounds)
    U = found.z[:, :-1]
    f, _ = functions.values_and_slopes(U)
    return Ends(U, f, found.multipliers)


def smallest(f: Float64[ndarray, "b k"], scales: Float64[ndarray, "k"]) -> Float64[ndarray, "b"]:
    """Return the smallest scaled function per point, minus infinity where one is NaN."""
    return np.nan_to_num((f / scales).min(1), nan=-np.inf)


def best_feasible(functions: Functions, scales: ndarray, ends: Sequence[Ends]) -> Optimum | None:
    """Return the best end point that satisfies every constraint, or None."""
    u, f = np.concatenate([end.u for end in ends]), np.concatenate([end.f for end in ends])
    multipliers = np.concatenate([end.multipliers for end in ends])
    fine = np.isfinite(f).all(1) & (f[:, 1:] >= -SATISFIED * scales[1:]).all(1)
    rank = np.where(fine, np.rint(f[:, 0] / (TIE * scales[0])), -np.inf)
    for best in best_first(rank, int(fine.sum())).tolist():
        point, there = _restore_white(functions, scales, u[best], f[best])
        if not functions.white or meets_white(there[None], scales, functions.white).all():
            return optimum_at(point, there, scales, True, multipliers[best][: len(scales) - 1].tolist())
    return None


def _restore_white(functions: Functions, scales: ndarray, u: ndarray, f: ndarray) -> tuple[ndarray, ndarray]:
    """Move a point that violates white constraints by rounding errors to the nearest one that meets them."""
    index = list(functions.white)
    for _ in range(3):
        if not index or (f[index] >= 0).all():
            break
        values, slopes = functions.values_and_slopes(u[None])
        own, d = scales[index], len(u)
        b, A = values[0, index] / own, slopes[0, index] / own[:, None]
        answer = sqp.solve_qp(np.eye(d), np.zeros(d), A, b - INSIDE, -u, 1.0 - u)
        if answer is None:
            break
        moved = sqp.within(u + answer[0], np.zeros(d), np.ones(d))
        there, _ = functions.values_and_slopes(moved[None])
        if not (there[0, index] / own).min() > (f[index] / own).min():
            break
        u, f = moved, there[0]
    return u, f


def least_violated(functions: Functions, scales: ndarray, ends: Sequence[Ends]) -> Optimum:
    """Return the end point with the largest margin, white constraints first."""
    u, f = np.concatenate([end.u for end in ends]), np.concatenate([end.f for end in ends])
    margin = smallest(f[:, 1:], scales[1:])
    if functions.white:
        fine = meets_white(f, scales, functions.white)
        if fine.any():
            margin = np.where(fine, margin, -np.inf)
    best = margin.argmax()
    return optimum_at(u[best], f[best], scales, False)
