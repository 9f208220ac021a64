"""Best point of bound functions on the unit cube.

    maximize f_0(u)  subject to  f_i(u) >= 0,  u in [0, 1]^d

with true constraints, each function divided by its scale. Starts come from a pool of Sobol points, clouds around known
good points and a few generations of crossover, some from the Sobol points alone; the local solves run in step (`sqp`).
The paper's search is `penalty`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float64, Int64
from numpy import ndarray
from torch import Tensor

from pied.errors import SettingError
from pied.rng import Stream
from pied.search import sqp
from pied.search.functions import Functions, Picked, Refined, Slice, Uncertain

SATISFIED = 1e-7  # scaled: a bound this far below zero still counts as satisfied
WHITE_SATISFIED = 1e-9  # scaled: white constraints are exact and held more strictly
ROUNDING = 1e-13  # scaled: how far inside a restored point is put
TIE = 1e-9  # scaled: objectives this near are equal, and the first start wins; rounding must not decide
KAPPA = 10.0  # weight of scaled violations when pool points are ranked
GRIDS = tuple(0.25**step for step in range(2, 16))  # of the unit cube, coarse ones first
SPARED = (1e-8, 1e-4)  # scaled: what fewer digits may cost, in no doubt and at most
LITTLE = 1e-2  # scaled: a gain over the known points below which the search looks elsewhere, too
CLOUDS = (0.1, 0.01, 0.001)  # widths of the clouds around good points
CLOUD_SIZE = 16
PARENTS = 48
CHILDREN = 96
RELAY_CHILDREN = 256
REFINED = 3  # ends of the coarse search that are solved again precisely
APART = 0.02  # starts nearer than this (largest coordinate difference) are one start
WHITE_POOL = 10_000
WHITE_SOLVES = 50


@dataclass(frozen=True, eq=False)
class Optimum:
    """The best point found."""

    u: Float64[Tensor, "d"]
    f: Float64[Tensor, "k"]
    """All functions there, natural units; like the rest, before digits are dropped (`Search.brevity`)."""
    satisfied: bool
    """Whether every constraint holds there; if not, u maximizes the smallest scaled constraint."""
    margin: float
    """Smallest scaled constraint at u; infinite without constraints."""
    active: tuple[int, ...] = ()
    """Constraints (1..n) that hold with equality."""
    multipliers: tuple[float, ...] = ()
    """Per constraint, natural units: what one unit of relaxation would bring."""

    def of_first(self, k: int) -> "Optimum":
        """Return it without the functions beyond the first k, which were constraints of the search alone."""
        active = tuple(i for i in self.active if i < k)
        return replace(self, f=self.f[:k], active=active, multipliers=self.multipliers[: k - 1])


@dataclass(frozen=True)
class Search:
    """True constraints, many starts in step."""

    pool: int = 1024
    """Sobol points screened."""
    generations: int = 4
    """Generations of crossover among the best of the pool."""
    starts: int = 6
    """Local solves from the pool, beside the known good points."""
    afar: int = 3
    """Local solves from its Sobol points alone, for themselves, when the others find little that is better than the
    known points: the best of the whole pool lie around these, and beside solves that begin at an optimum others would
    be given up before they arrive at a better one."""
    rounds: int = 60
    """Batched evaluations of the local solves at most."""
    relays: int = 1
    """How often local solves start again from crosses of where they ended."""
    brevity: float = 1e-3
    """Share of the gain over the known points, and of the doubt about it, that is given up for fewer digits: what is
    decided below it is decided by rounding, and would be decided otherwise in other units. 0: all digits, as always
    where functions are not bounds of something unknown.
    """

    def __post_init__(self) -> None:
        if min(self.pool, self.starts, self.rounds) < 1 or self.generations < 0:
            raise SettingError("a search needs at least one pool point, start and round")
        if self.afar < 0:
            raise SettingError(f"a search cannot have {self.afar} starts from afar; 0 is none")
        if not 0 <= self.brevity < 1:
            raise SettingError(f"brevity is a share of the gain, from 0 (all digits) to below 1, got {self.brevity}")

    def screen(self, stream: Stream, d: int, known: Float64[Tensor, "s d"]) -> Float64[Tensor, "b d"]:
        """Return the pool: Sobol points, the known good points, clouds around them."""
        parts = [stream.at("pool").sobol(self.pool, d), known.cpu()]
        if len(known):
            noise = stream.at("clouds").normal(len(CLOUDS), len(known), CLOUD_SIZE, d)
            width = torch.tensor(CLOUDS, dtype=torch.float64)[:, None, None, None]
            parts.append((known.cpu()[None, :, None, :] + width * noise).clamp(0.0, 1.0).reshape(-1, d))
        return torch.cat(parts)

    def solve(
        self,
        functions: Functions,
        scales: Float64[Tensor, "k"],
        pool: Float64[Tensor, "b d"],
        known: Float64[Tensor, "s d"],
        stream: Stream,
        *,
        rescue: bool = True,
    ) -> Optimum:
        """Maximize the first function subject to the others.

        Args:
            functions: The bounds.
            scales: One scale per function; results do not change when a function is rescaled.
            pool: Points to screen (see `screen`), Sobol points first.
            known: Good points to start from in any case: the incumbent, the last proposal.
            stream: Randomness of the crossover.
            rescue: When nothing satisfies the constraints, maximize the smallest of them.
        """
        everywhere = min(self.pool, len(pool))
        pool, f = self._breed(functions, scales, pool, stream)
        merit, violation = _rank(f / scales)
        starts = distinct(pool, _tied(merit), self.starts)
        extra = [pool[violation.argmin()][None]]
        if len(known):
            extra.append(known.to(pool.device))
        starts = torch.cat([starts, *extra])
        coarse = (functions.coarse() if isinstance(functions, Refined) else None) or functions
        ends = [_local(coarse, scales, starts, self.rounds)]
        if self.afar and len(known) and _gained(coarse, scales, known, ends[0]) < LITTLE:
            far = distinct(pool[:everywhere], _tied(merit[:everywhere]), self.afar)
            ends.append(_local(coarse, scales, far, self.rounds))
        for relay in range(self.relays):
            fresh = self._relay(coarse, scales, ends, stream.at("relay", relay))
            if len(fresh):
                ends.append(_local(coarse, scales, fresh, self.rounds, ends))
        if coarse is not functions:
            u, f = torch.cat([end.u for end in ends]), torch.cat([end.f for end in ends])
            ends = [_local(functions, scales, distinct(u, _rank(f / scales)[0], REFINED), self.rounds)]
        best = _pick(functions, scales, ends)
        if best is not None and self.brevity and len(known):
            best = _brief(functions, scales, best, known.to(scales.device), self.brevity, self.rounds)
        if best is not None or not rescue:
            return best or _least_violated(functions, scales, ends)
        return self.rescue(functions, scales, torch.cat([starts, *(end.u for end in ends)]))

    def _relay(
        self, functions: Functions, scales: Float64[Tensor, "k"], ends: "Sequence[_Ends]", stream: Stream
    ) -> Float64[Tensor, "s d"]:
        """Return new starts bred from where local solves ended: local optima differ in few coordinates."""
        u = torch.cat([end.u for end in ends])
        parents = distinct(u, _rank(torch.cat([end.f for end in ends]) / scales)[0], PARENTS)
        if len(parents) == 1:  # all of them ended in one place: there is nothing to cross
            return u[:0]
        d = u.shape[1]
        draw = stream.at("children").uniform(4, RELAY_CHILDREN, d).to(u.device)
        pairs = (stream.at("pairs").uniform(2, RELAY_CHILDREN) * len(parents)).long().to(u.device)
        child = torch.where(draw[0] < 0.5, parents[pairs[0]], parents[pairs[1]])
        jump = torch.where(draw[2] < 0.5, draw[3], (draw[3] < 0.5).to(u.dtype))  # anywhere, or to an end of the box
        child = torch.where(draw[1] < 1.0 / d, jump, child)
        near = torch.cdist(child, parents, p=torch.inf).amin(1) < APART
        merit, _ = _rank(functions.values(child) / scales)
        merit = torch.where(near, -torch.inf, merit)
        if not bool(torch.isfinite(merit).any()):
            return u[:0]
        return distinct(child, merit, self.starts)

    def rescue(self, functions: Functions, scales: Float64[Tensor, "k"], starts: Float64[Tensor, "s d"]) -> Optimum:
        """Maximize the smallest scaled constraint, white ones held; if it gets to zero, go on with the objective."""
        found = _largest_margin(functions, scales, starts, self.rounds)
        if functions.white and not bool(_white_fine(found.f, scales, functions.white).any()):
            anywhere = white_feasible(functions, scales, Stream(0).at("white"), starts.shape[1])
            if anywhere is not None:
                found = _largest_margin(functions, scales, anywhere[None], self.rounds)
        reached = _pick(functions, scales, [found])
        if reached is None:
            return _least_violated(functions, scales, [found])
        again = _local(functions, scales, torch.cat([reached.u[None], found.u[:2]]), self.rounds)
        return _pick(functions, scales, [found, again]) or reached

    def _breed(
        self, functions: Functions, scales: Tensor, pool: Tensor, stream: Stream
    ) -> tuple[Float64[Tensor, "b d"], Float64[Tensor, "b k"]]:
        """Cross the best points of the pool with each other: coordinates from either parent, some from in between."""
        f = functions.values(pool)
        d = pool.shape[1]
        for generation in range(self.generations if d > 1 else 0):
            merit, _ = _rank(f / scales)
            parents = pool[_best_first(_tied(merit))[:PARENTS]]
            draw = stream.at("crossover", generation).uniform(3, CHILDREN, d).to(pool.device)
            pairs = (stream.at("pairs", generation).uniform(2, CHILDREN) * len(parents)).long().to(pool.device)
            mother, father = parents[pairs[0]], parents[pairs[1]]
            child = torch.where(draw[0] < 0.5, mother, father)
            child = torch.where(draw[1] < 0.1, mother + draw[2] * (father - mother), child)
            pool = torch.cat([pool, child])
            f = torch.cat([f, functions.values(child)])
        return pool, f


def white_feasible(
    functions: Functions, scales: Float64[Tensor, "k"], stream: Stream, d: int
) -> Float64[Tensor, "d"] | None:
    """Find a point that satisfies the white constraints: a large pool, then local solves; None if there is none."""
    only = Picked(functions, tuple(functions.white))
    own = scales[list(only.which)]
    pool = stream.sobol(WHITE_POOL, d).to(scales.device)
    margin = _smallest(only.values(pool), own)
    if bool(margin.max() >= 0):
        return pool[margin.argmax()]
    fine = torch.isfinite(margin)
    if not bool(fine.any()):
        return None
    starts = distinct(pool[fine], margin[fine], WHITE_SOLVES)
    found = _largest_margin(only, own, starts, 100, first=0)
    margin = _smallest(found.f, own)
    return found.u[margin.argmax()] if bool(margin.max() >= -WHITE_SATISFIED) else None


def _gained(functions: Functions, scales: Tensor, known: Float64[Tensor, "s d"], ends: "_Ends") -> float:
    """Return how much better, scaled, the best end is than the best known point."""
    before, _ = _rank(functions.values(known.to(scales.device)) / scales)
    after, _ = _rank(ends.f / scales)
    return float(after.max() - before.max())


@dataclass(frozen=True, eq=False)
class _Ends:
    """Where local solves ended: points and functions there."""

    u: Float64[Tensor, "s d"]
    f: Float64[Tensor, "s k"]
    multipliers: Float64[ndarray, "s n"]


def _rank(scaled: Float64[Tensor, "b k"]) -> tuple[Float64[Tensor, "b"], Float64[Tensor, "b"]]:
    """Return merit (objective less weighted violations) and violation of pool points."""
    violation = (-scaled[:, 1:]).clamp_min(0.0).sum(1)
    merit = torch.nan_to_num(scaled[:, 0] - KAPPA * violation, nan=-torch.inf, posinf=1e300)
    return merit, torch.nan_to_num(violation, nan=torch.inf)


def _tied(merit: Float64[Tensor, "b"]) -> Float64[Tensor, "b"]:
    """Make equal what differs by rounding alone: which of the pool points are starts, it must not decide."""
    return torch.round(merit / TIE)


def _best_first(merit: Float64[Tensor, "b"]) -> Int64[Tensor, "b"]:
    """Return their order, equal ones as they come."""
    return merit.argsort(descending=True, stable=True)


def distinct(pool: Float64[Tensor, "b d"], merit: Float64[Tensor, "b"], count: int) -> Float64[Tensor, "s d"]:
    """Return the best points that lie apart."""
    order = _best_first(merit)[: 64 * count]
    points = pool[order].cpu().numpy()
    is_free = np.ones(len(points), dtype=bool)
    chosen: list[int] = []
    while len(chosen) < count and is_free.any():
        chosen.append(int(is_free.argmax()))
        is_free &= np.abs(points - points[chosen[-1]]).max(1) > APART
    return pool[order[chosen]]


def _local(
    functions: Functions, scales: Tensor, starts: Float64[Tensor, "s d"], rounds: int, before: Sequence[_Ends] = ()
) -> _Ends:
    """Solve from every start; what ended before is to be beaten soon."""
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
    return _Ends(torch.from_numpy(found.z).to(scales.device), torch.from_numpy(f).to(scales.device), found.multipliers)


def _largest_margin(
    functions: Functions, scales: Tensor, starts: Float64[Tensor, "s d"], rounds: int, first: int = 1
) -> _Ends:
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
    return _Ends(U, f, found.multipliers)


def _smallest(f: Float64[Tensor, "b k"], scales: Float64[Tensor, "k"]) -> Float64[Tensor, "b"]:
    """Return the smallest scaled function per point, minus infinity where one has no value."""
    return torch.nan_to_num((f / scales).amin(1), nan=-torch.inf)


def _white_fine(f: Tensor, scales: Tensor, white: Sequence[int]) -> Tensor:
    """Whether the white constraints hold, per point."""
    index = list(white)
    return (f[:, index] >= -WHITE_SATISFIED * scales[index]).all(1)


def _pick(functions: Functions, scales: Tensor, ends: Sequence[_Ends]) -> Optimum | None:
    """Return the best end point that satisfies every constraint, or None."""
    u, f = torch.cat([end.u for end in ends]), torch.cat([end.f for end in ends])
    multipliers = np.concatenate([end.multipliers for end in ends])
    fine = torch.isfinite(f).all(1) & (f[:, 1:] >= -SATISFIED * scales[1:]).all(1)
    rank = torch.where(fine, torch.round(f[:, 0] / (TIE * scales[0])), -torch.inf)
    for best in rank.argsort(descending=True, stable=True)[: int(fine.sum())].tolist():
        point, there = _restore_white(functions, scales, u[best], f[best])
        if not functions.white or bool(_white_fine(there[None], scales, functions.white).all()):
            return optimum_at(point, there, scales, True, multipliers[best])
    return None


def _brief(
    functions: Functions, scales: Tensor, best: Optimum, known: Float64[Tensor, "s d"], share: float, rounds: int
) -> Optimum:
    """Return the point on the coarsest grid nearby that is worth as much, but for a share of the gain over the known.

    Or of the doubt about it: what is known exactly is asked for precisely. Every coordinate that the unknown depends on
    goes to the nearest place of the grid, or to the one further inside the constraints that are met with equality; none
    is broken that held. The others are then solved again.
    """
    if not isinstance(functions, Uncertain):
        return best
    f, slopes = functions.values_and_slopes(torch.cat([best.u[None], known]))
    merit, _ = _rank(f / scales)
    widths = functions.doubt(best.u)
    doubt = float((widths / scales[: len(widths)]).amax())
    least, most = SPARED
    spared = min(share * float(merit[0] - merit[1:].max()), max(share * doubt, least), most)
    seen = functions.seen.to(best.u.device).nonzero()[:, 0]
    if not spared > 0 or not len(seen):
        return best
    u, grids = best.u[seen], best.u.new_tensor(GRIDS)[:, None]
    tight = list(best.active)
    inward = (slopes[0, tight][:, seen] / scales[tight, None]).sum(0).sign()
    inside = torch.where(inward > 0, torch.ceil(u / grids), torch.floor(u / grids))
    nearest = torch.round(u / grids)
    places = torch.stack([nearest, torch.where(inward == 0, nearest, inside)], 1) * grids[:, None]
    points = best.u.repeat(2 * len(GRIDS), 1)
    points[:, seen] = places.reshape(-1, len(seen)).clamp(0.0, 1.0)
    f, _ = functions.values_and_slopes(points)
    held = best.f[1:].clamp_max(0.0)
    fine = (f[:, 1:] >= held).all(1) & (_rank(f / scales)[0] >= merit[0] - spared)
    if not bool(fine.any()):
        return best
    point = points[int(fine.to(torch.uint8).argmax())]
    if len(seen) < len(functions.seen):
        point = _rest(functions, scales, point, seen, rounds)
    return replace(best, u=point)


def _rest(
    functions: Functions, scales: Tensor, u: Float64[Tensor, "w"], fixed: Int64[Tensor, "i"], rounds: int
) -> Float64[Tensor, "w"]:
    """Solve for all coordinates but some."""
    free = torch.ones_like(u, dtype=torch.bool)
    free[fixed] = False
    part = Slice(functions, u, free)
    found = _pick(part, scales, [_local(part, scales, u[None, free], rounds)])
    return u if found is None else part.whole(found.u[None])[0]


def _restore_white(functions: Functions, scales: Tensor, u: Tensor, f: Tensor) -> tuple[Tensor, Tensor]:
    """Move a point that violates white constraints by rounding to the nearest one that does not."""
    index = list(functions.white)
    for _ in range(3):
        if not index or bool((f[index] >= 0).all()):
            break
        values, slopes = functions.values_and_slopes(u[None])
        s = scales[index].cpu().numpy()
        b, A = values[0, index].cpu().numpy() / s, slopes[0, index].cpu().numpy() / s[:, None]
        z = u.cpu().numpy()
        answer = sqp.solve_qp(np.eye(len(z)), np.zeros(len(z)), A, b - ROUNDING, -z, 1.0 - z)
        if answer is None:
            break
        moved = torch.from_numpy(np.clip(z + answer[0], 0.0, 1.0)).to(u.device)
        there, _ = functions.values_and_slopes(moved[None])
        if not bool((there[0, index] / scales[index]).min() > (f[index] / scales[index]).min()):
            break
        u, f = moved, there[0]
    return u, f


def _least_violated(functions: Functions, scales: Tensor, ends: Sequence[_Ends]) -> Optimum:
    """Return the end point with the largest margin, white constraints first."""
    u, f = torch.cat([end.u for end in ends]), torch.cat([end.f for end in ends])
    margin = _smallest(f[:, 1:], scales[1:])
    if functions.white:
        fine = _white_fine(f, scales, functions.white)
        if bool(fine.any()):
            margin = torch.where(fine, margin, -torch.inf)
    best = int(margin.argmax())
    return optimum_at(u[best], f[best], scales, False, np.zeros(len(scales) - 1))


def optimum_at(u: Tensor, f: Tensor, scales: Tensor, satisfied: bool, multipliers: ndarray) -> Optimum:
    """Assemble an optimum in natural units."""
    scaled = (f / scales)[1:]
    natural = multipliers[: len(scaled)] * (scales[0] / scales[1:]).cpu().numpy()
    return Optimum(
        u=u,
        f=f,
        satisfied=satisfied,
        margin=float(scaled.min()) if len(scaled) else float("inf"),
        active=tuple(int(i) + 1 for i in (scaled.abs() < 1e-6).nonzero()[:, 0]),
        multipliers=tuple(float(each) for each in natural),
    )
