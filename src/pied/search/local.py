"""Local solves of a subproblem from many starts, and the choice among their ends."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float64, Int64
from numpy import ndarray
from torch import Tensor

from pied.search import sqp
from pied.search.functions import Functions
from pied.search.optimum import SATISFIED, Optimum, meets_white, optimum_at

TIE = 1e-9  # scaled: objectives this near are equal and the first one wins, so that rounding errors do not decide
VIOLATION_WEIGHT = 10.0  # of scaled violations when points are ranked
INSIDE = 1e-13  # scaled: how far inside the white constraints a restored point is put
APART = 0.02  # starts nearer than this (largest coordinate difference) count as one start


@dataclass(frozen=True, eq=False)
class Ends:
    """The ends of local solves: points, and functions there."""

    u: Float64[Tensor, "s d"]
    f: Float64[Tensor, "s k"]
    multipliers: Float64[ndarray, "s n"]


def ranked(scaled: Float64[Tensor, "b k"]) -> tuple[Float64[Tensor, "b"], Float64[Tensor, "b"]]:
    """Return merit (objective less weighted violations) and violation of pool points."""
    violation = (-scaled[:, 1:]).clamp_min(0.0).sum(1)
    merit = torch.nan_to_num(scaled[:, 0] - VIOLATION_WEIGHT * violation, nan=-torch.inf, posinf=1e300)
    return merit, torch.nan_to_num(violation, nan=torch.inf)


def tied(merit: Float64[Tensor, "b"]) -> Float64[Tensor, "b"]:
    """Make values equal that differ only by rounding errors, so that these do not decide which points become starts."""
    return torch.round(merit / TIE)


def best_first(merit: Float64[Tensor, "b"]) -> Int64[Tensor, "b"]:
    """Return the order from best to worst; equal ones keep theirs."""
    return merit.argsort(descending=True, stable=True)


def distinct(pool: Float64[Tensor, "b d"], merit: Float64[Tensor, "b"], count: int) -> Float64[Tensor, "s d"]:
    """Return the best points that are not close to each other."""
    order = best_first(merit)[: 64 * count]
    points = pool[order].cpu().numpy()
    is_free = np.ones(len(points), dtype=bool)
    chosen: list[int] = []
    while len(chosen) < count and is_free.any():
        chosen.append(int(is_free.argmax()))
        is_free &= np.abs(points - points[chosen[-1]]).max(1) > APART
    return pool[order[chosen]]


def solve_locally(
    functions: Functions, scales: Tensor, starts: Float64[Tensor, "s d"], rounds: int, before: Sequence[Ends] = ()
) -> Ends:
    """Solve from every start; a batch that does not soon beat the earlier ends is abandoned."""
    s = scales.cpu().numpy()

    def evaluate(Z: ndarray) -> sqp.Evaluated:
        f, J = functions.values_and_slopes(torch.from_numpy(Z).to(scales.device))
        f, J = f.cpu().numpy() / s, J.cpu().numpy() / s[:, None]
        return -f[:, 0], -J[:, 0], f[:, 1:], J[:, 1:]

    d = starts.shape[1]
    known = [end.f.cpu().numpy() / s for end in before]
    lead = min((sqp.lead_of(-f[:, 0], f[:, 1:]) for f in known), default=None)
    found = sqp.minimize(evaluate, starts.cpu().numpy(), np.zeros(d), np.ones(d), rounds, lead=lead)
    f = np.concatenate([-found.phi[:, None], found.c], 1) * s
    return Ends(torch.from_numpy(found.z).to(scales.device), torch.from_numpy(f).to(scales.device), found.multipliers)


def solve_largest_margin(
    functions: Functions, scales: Tensor, starts: Float64[Tensor, "s d"], rounds: int, first: int = 1
) -> Ends:
    """Maximize t subject to f_i / s_i >= t for the constraints (from `first` on), white ones >= 0."""
    s = scales.cpu().numpy()
    white = np.array([i in functions.white for i in range(first, functions.k)])
    floating = np.where(white, 0.0, 1.0)
    if first == 0 or white.all():
        floating[:] = 1.0

    def evaluate(Z: ndarray) -> sqp.Evaluated:
        f, J = functions.values_and_slopes(torch.from_numpy(np.ascontiguousarray(Z[:, :-1])).to(scales.device))
        f, J = (f.cpu().numpy() / s)[:, first:], (J.cpu().numpy() / s[:, None])[:, first:]
        b, _, d = J.shape
        slope = np.zeros((b, d + 1))
        slope[:, -1] = -1.0
        by_t = np.tile(-floating[:, None], (b, 1, 1))
        return -Z[:, -1], slope, f - floating * Z[:, -1:], np.concatenate([J, by_t], 2)

    d = starts.shape[1]
    begin = functions.values(starts).cpu().numpy()[:, first:] / s[first:]
    t = np.where(floating > 0, begin, np.inf).min(1, keepdims=True)
    Z = np.concatenate([starts.cpu().numpy(), t], 1)
    low, high = np.zeros(d + 1), np.ones(d + 1)
    low[-1], high[-1] = min(-1e3, 2 * float(t.min())), max(1e3, 2 * float(t.max()))
    found = sqp.minimize(evaluate, Z, low, high, rounds)
    U = torch.from_numpy(np.ascontiguousarray(found.z[:, :-1])).to(scales.device)
    f, _ = functions.values_and_slopes(U)
    return Ends(U, f, found.multipliers)


def smallest(f: Float64[Tensor, "b k"], scales: Float64[Tensor, "k"]) -> Float64[Tensor, "b"]:
    """Return the smallest scaled function per point, minus infinity where one is NaN."""
    return torch.nan_to_num((f / scales).amin(1), nan=-torch.inf)


def best_feasible(functions: Functions, scales: Tensor, ends: Sequence[Ends]) -> Optimum | None:
    """Return the best end point that satisfies every constraint, or None."""
    u, f = torch.cat([end.u for end in ends]), torch.cat([end.f for end in ends])
    multipliers = np.concatenate([end.multipliers for end in ends])
    fine = torch.isfinite(f).all(1) & (f[:, 1:] >= -SATISFIED * scales[1:]).all(1)
    rank = torch.where(fine, torch.round(f[:, 0] / (TIE * scales[0])), -torch.inf)
    for best in rank.argsort(descending=True, stable=True)[: int(fine.sum())].tolist():
        point, there = _restore_white(functions, scales, u[best], f[best])
        if not functions.white or bool(meets_white(there[None], scales, functions.white).all()):
            return optimum_at(point, there, scales, True, multipliers[best][: len(scales) - 1].tolist())
    return None


def _restore_white(functions: Functions, scales: Tensor, u: Tensor, f: Tensor) -> tuple[Tensor, Tensor]:
    """Move a point that violates white constraints by rounding errors to the nearest one that meets them."""
    index = list(functions.white)
    for _ in range(3):
        if not index or bool((f[index] >= 0).all()):
            break
        values, slopes = functions.values_and_slopes(u[None])
        s = scales[index].cpu().numpy()
        b, A = values[0, index].cpu().numpy() / s, slopes[0, index].cpu().numpy() / s[:, None]
        z = u.cpu().numpy()
        answer = sqp.solve_qp(np.eye(len(z)), np.zeros(len(z)), A, b - INSIDE, -z, 1.0 - z)
        if answer is None:
            break
        moved = torch.from_numpy(sqp.within(z + answer[0], np.zeros(len(z)), np.ones(len(z)))).to(u.device)
        there, _ = functions.values_and_slopes(moved[None])
        if not bool((there[0, index] / scales[index]).min() > (f[index] / scales[index]).min()):
            break
        u, f = moved, there[0]
    return u, f


def least_violated(functions: Functions, scales: Tensor, ends: Sequence[Ends]) -> Optimum:
    """Return the end point with the largest margin, white constraints first."""
    u, f = torch.cat([end.u for end in ends]), torch.cat([end.f for end in ends])
    margin = smallest(f[:, 1:], scales[1:])
    if functions.white:
        fine = meets_white(f, scales, functions.white)
        if bool(fine.any()):
            margin = torch.where(fine, margin, -torch.inf)
    best = int(margin.argmax())
    return optimum_at(u[best], f[best], scales, False)
