"""Best point of bound functions on the unit cube.

    maximize f_0(u)  subject to  f_i(u) >= 0,  u in [0, 1]^d

with true constraints, each function divided by its search scale. Starts come from a pool of Sobol points, from clouds
around known good points and from a few generations of crossover; some come from the Sobol points alone. Local solves
advance together (`sqp`). The paper's search is in `penalty`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy import ndarray

from pied.distances import to_nearest
from pied.errors import NumericalError, SettingError
from pied.rng import Stream
from pied.search.functions import Functions, Picked, Refined
from pied.search.local import (
    APART,
    Ends,
    best_feasible,
    best_first,
    distinct,
    ends_at,
    least_violated,
    ranked,
    smallest,
    solve_largest_margin,
    solve_locally,
    tied,
)
from pied.search.optimum import SATISFIED, WHITE_SATISFIED, Optimum, meets_white
from pied.shapes import Float64

SEARCH_ELSEWHERE_BELOW_GAIN = 1e-2  # scaled: a smaller gain over the known points starts solves far from them, too
CLOUDS = (0.1, 0.01, 0.001)  # widths of the clouds around good points
CLOUD_SIZE = 16  # points per cloud and width
PARENTS = 48  # best points that are crossed
CHILDREN = 96  # points per generation of the pool
RELAY_CHILDREN = 256  # points bred from the ends of local solves
REFINED = 3  # ends of the coarse search that are solved again precisely
RESCUED = 8  # the same where nothing meets the constraints: a point that is missed there may be the only one
FAR = 2.0  # times the error of the coarse search: so far off, a margin does not change its sign
WHITE_POOL = 10_000  # Sobol points in which a white-feasible one is sought
WHITE_SOLVES = 50  # local solves when none of them is


@dataclass(frozen=True)
class Search:
    """Search with true constraints from many starts that advance together."""

    pool: int = 1024
    """Sobol points screened."""
    generations: int = 4
    """Generations of crossover among the best of the pool."""
    starts: int = 6
    """Local solves from the pool, beside the known good points."""
    afar: int = 3
    """Local solves from the Sobol points alone, in a batch of their own, when the first batch gains little over the
    known points. The best pool points lie around the known ones, and in a common batch the far solves would be
    abandoned before they reach a better optimum."""
    rounds: int = 60
    """Largest number of batched evaluations of the local solves."""
    relays: int = 1
    """How often local solves start again from crossings of their end points."""

    def __post_init__(self) -> None:
        if min(self.pool, self.starts, self.rounds) < 1 or self.generations < 0:
            raise SettingError("a search needs at least one pool point, start and round")
        if self.afar < 0:
            raise SettingError(f"afar is a number of starts, 0 or more, got {self.afar}")

    def screen(self, stream: Stream, d: int, known: Float64[ndarray, "s d"]) -> Float64[ndarray, "b d"]:
        """Return the pool: Sobol points, the known good points, clouds around them."""
        parts = [stream.at("pool").sobol(self.pool, d), known]
        if len(known):
            noise = stream.at("clouds").normal(len(CLOUDS), len(known), CLOUD_SIZE, d)
            width = np.array(CLOUDS)[:, None, None, None]
            parts.append(np.clip(known[:, None] + width * noise, 0.0, 1.0).reshape(-1, d))
        return np.concatenate(parts)

    @np.errstate(all="ignore")
    def solve(
        self,
        functions: Functions,
        scales: Float64[ndarray, "k"],
        pool: Float64[ndarray, "b d"],
        known: Float64[ndarray, "s d"],
        stream: Stream,
        *,
        rescue: bool = True,
    ) -> Optimum:
        """Maximize the first function subject to the others.

        Args:
            functions: The bounds.
            scales: One search scale per function; results do not change when a function is rescaled.
            pool: Points to screen (see `screen`), Sobol points first.
            known: Good points that are always starts: the incumbent, the last proposal.
            stream: Randomness of the crossover.
            rescue: When nothing satisfies the constraints, maximize the smallest of them. Where no point of the pool
                does, this is tried first: it costs less than the search and mostly ends it.
        """
        everywhere = min(self.pool, len(pool))
        coarse = (functions.coarse() if isinstance(functions, Refined) else None) or functions
        pool, merit, violation = self._breed(coarse, scales, pool, stream)
        starts = distinct(pool, tied(merit), self.starts)
        starts = np.concatenate([starts, pool[violation.argmin()][None], known])
        if rescue and violation.min() > SATISFIED:
            least = np.concatenate([starts, distinct(pool, -violation, self.starts)])
            reached = self._rescued(functions, scales, least, whether=True)
            if not reached.satisfied:
                return reached
            starts = np.concatenate([reached.u[None], starts])
        ends = [solve_locally(coarse, scales, starts, self.rounds)]
        if self.afar and len(known) and _gained(coarse, scales, known, ends[0]) < SEARCH_ELSEWHERE_BELOW_GAIN:
            far = distinct(pool[:everywhere], tied(merit[:everywhere]), self.afar)
            ends.append(solve_locally(coarse, scales, far, self.rounds))
        for relay in range(self.relays):
            fresh = self._relay(coarse, scales, ends, stream.at("relay", relay))
            if len(fresh):
                ends.append(solve_locally(coarse, scales, fresh, self.rounds, ends))
        if coarse is not functions:
            u, f = np.concatenate([end.u for end in ends]), np.concatenate([end.f for end in ends])
            ends = [solve_locally(functions, scales, distinct(u, ranked(f / scales)[0], REFINED), self.rounds)]
        best = best_feasible(functions, scales, ends)
        if best is None and functions.k == 1:
            raise NumericalError("what is to be maximized is not finite anywhere")
        if best is not None or not rescue:
            return best or least_violated(functions, scales, ends)
        return self.rescue(functions, scales, np.concatenate([starts, *(end.u for end in ends)]))

    def _relay(
        self, functions: Functions, scales: Float64[ndarray, "k"], ends: "Sequence[Ends]", stream: Stream
    ) -> Float64[ndarray, "s d"]:
        """Return new starts bred from the ends of local solves: local optima often differ in few coordinates."""
        u = np.concatenate([end.u for end in ends])
        parents = distinct(u, ranked(np.concatenate([end.f for end in ends]) / scales)[0], PARENTS)
        if len(parents) == 1:  # all solves ended in one place: nothing to cross
            return u[:0]
        d = u.shape[1]
        draw = stream.at("children").uniform(4, RELAY_CHILDREN, d)
        pairs = (stream.at("pairs").uniform(2, RELAY_CHILDREN) * len(parents)).astype(int)
        child = np.where(draw[0] < 0.5, parents[pairs[0]], parents[pairs[1]])
        jump = np.where(draw[2] < 0.5, draw[3], draw[3] < 0.5)  # anywhere, or to an end of the box
        child = np.where(draw[1] < 1.0 / d, jump, child)
        near = to_nearest(child, parents, "chebyshev") < APART
        merit, _ = ranked(functions.values(child) / scales)
        merit = np.where(near, -np.inf, merit)
        if not np.isfinite(merit).any():
            return u[:0]
        return distinct(child, merit, self.starts)

    def rescue(self, functions: Functions, scales: Float64[ndarray, "k"], starts: Float64[ndarray, "s d"]) -> Optimum:
        """Maximize the smallest scaled constraint while white ones hold; from zero on, the objective."""
        return self._rescued(functions, scales, starts, whether=False)

    @np.errstate(all="ignore")
    def _rescued(
        self, functions: Functions, scales: Float64[ndarray, "k"], starts: Float64[ndarray, "s d"], *, whether: bool
    ) -> Optimum:
        """Do so, if only whether the constraints can be met is wanted, no longer than until that is clear."""
        coarse = functions.coarse() if isinstance(functions, Refined) else None
        found = None
        if coarse is not None:
            rough = solve_largest_margin(coarse, scales, starts, self.rounds)
            known = np.concatenate([starts, rough.u])
            f = coarse.values(known)
            is_fine = meets_white(f, scales, functions.white)
            margin = np.where(is_fine | ~is_fine.any(), smallest(f[:, 1:], scales[1:]), -np.inf)
            starts = distinct(known, margin, RESCUED)
            found = ends_at(functions, starts)
            if not _is_decided(found, coarse, scales, whether or not found.f[:, 0].any()):
                found = None
        if found is None:
            found = solve_largest_margin(functions, scales, starts, self.rounds)
        if functions.white and not meets_white(found.f, scales, functions.white).any():
            anywhere = white_feasible(functions, scales, Stream(0).at("white"), starts.shape[1])
            if anywhere is not None:
                found = solve_largest_margin(functions, scales, anywhere[None], self.rounds)
        reached = best_feasible(functions, scales, [found])
        if reached is None:
            return least_violated(functions, scales, [found])
        if not found.f[:, 0].any():
            return reached  # there is no objective
        again = solve_locally(functions, scales, np.concatenate([reached.u[None], found.u[:2]]), self.rounds)
        return best_feasible(functions, scales, [found, again]) or reached

    def _breed(
        self, functions: Functions, scales: ndarray, pool: ndarray, stream: Stream
    ) -> tuple[Float64[ndarray, "b d"], Float64[ndarray, "b"], Float64[ndarray, "b"]]:
        """Cross the best pool points, each coordinate from one parent or from between the two; rank all points."""
        merit, violation = ranked(functions.values(pool) / scales)
        d = pool.shape[1]
        for generation in range(self.generations if d > 1 else 0):
            parents = pool[best_first(tied(merit), PARENTS)]
            draw = stream.at("crossover", generation).uniform(3, CHILDREN, d)
            pairs = (stream.at("pairs", generation).uniform(2, CHILDREN) * len(parents)).astype(int)
            mother, father = parents[pairs[0]], parents[pairs[1]]
            child = np.where(draw[0] < 0.5, mother, father)
            child = np.where(draw[1] < 0.1, mother + draw[2] * (father - mother), child)
            own_merit, own_violation = ranked(functions.values(child) / scales)
            pool, merit = np.concatenate([pool, child]), np.concatenate([merit, own_merit])
            violation = np.concatenate([violation, own_violation])
        return pool, merit, violation


@np.errstate(all="ignore")
def white_feasible(
    functions: Functions,
    scales: Float64[ndarray, "k"],
    stream: Stream,
    d: int,
    settle: Callable[[Float64[ndarray, "b d"]], Float64[ndarray, "b d"]] = lambda U: U,
) -> Float64[ndarray, "d"] | None:
    """Find a point that meets the white constraints, in a large pool, then by local solves; None if there is none.

    Args:
        functions: The constraints.
        scales: One scale per function.
        stream: Randomness of the pool.
        d: Coordinates.
        settle: Moves the points of the pool onto equalities.
    """
    only = Picked(functions, tuple(functions.white))
    own = scales[list(only.which)]
    pool = settle(stream.sobol(WHITE_POOL, d))
    margin = smallest(only.values(pool), own)
    if margin.max() >= 0:
        return pool[margin.argmax()]
    fine = np.isfinite(margin)
    if not fine.any():
        return None
    starts = distinct(pool[fine], margin[fine], WHITE_SOLVES)
    found = solve_largest_margin(only, own, starts, 100, first=0)
    margin = smallest(found.f, own)
    return found.u[margin.argmax()] if margin.max() >= -WHITE_SATISFIED else None


def _is_decided(ends: "Ends", coarse: Functions, scales: ndarray, whether: bool) -> bool:
    """Whether the ends of a coarse search are the answer: one meets the constraints, or all miss them by far.

    By far is by more than twice what the coarse search errs there, and counts if only that is asked (`whether`).
    """
    own = smallest(ends.f[:, 1:], scales[1:])
    if best_feasible(coarse, scales, [ends]) is not None:
        return True
    error = np.abs(own - smallest(coarse.values(ends.u)[:, 1:], scales[1:])).max()
    return whether and bool(own.max() + FAR * error < 0)


def _gained(functions: Functions, scales: ndarray, known: Float64[ndarray, "s d"], ends: "Ends") -> float:
    """Return by how much, scaled, the best end beats the best known point."""
    before, _ = ranked(functions.values(known) / scales)
    after, _ = ranked(ends.f / scales)
    return float(after.max() - before.max())
