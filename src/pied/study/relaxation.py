"""Constraints that cannot be met, and how far they would have to be relaxed.

Beliefs and searches are loaded when they are needed: every opening of a study asks whether its constraints can be met,
and for most problems nothing has to be searched to answer.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING

import numpy as np
from numpy import ndarray

from pied.problem import Problem, unreachable
from pied.records import spread
from pied.rng import Stream
from pied.shapes import Float64

if TYPE_CHECKING:
    from pied.bounds import Composite, SuccessModel
    from pied.search import Enumeration, Mixed, Search

CONFLICT_MARGIN = 1e-3
"""In scales of a constraint: within this distance of the smallest constraint, another one is in conflict, too."""


@dataclass(frozen=True)
class Relaxation:
    """Relaxations that would make an infeasible problem plausible again, at z = 3, natural units."""

    alone: dict[str, float | None]
    """Per constraint: the relaxation that suffices by itself; None where none does."""
    together: dict[str, float]
    """Per constraint: its relaxation when all are relaxed by the same number of scales."""
    conflict: tuple[str, ...]
    """The constraints in conflict."""


def relax(
    composite: "Composite",
    level: float,
    stream: Stream,
    start: Float64[ndarray, "d"],
    search: "Search | None" = None,
    region: "SuccessModel | None" = None,
    *,
    singly: bool = False,
) -> Relaxation:
    """Find the smallest relaxations that make the joint test of feasibility pass.

    The relaxation of i alone is the negative maximum of upper_i where all other upper bounds hold: a subproblem with
    constraint i as the objective.

    Args:
        composite: The belief composed with g.
        level: p of the bounds.
        stream: Random numbers.
        start: A point to start from.
        search: How subproblems are solved; None: as usual.
        region: Where points are looked for; None: anywhere.
        singly: Whether one constraint at a time was tested: the one that is missed most is then named alone.
    """
    from pied.bounds import WithSuccess, optimistic
    from pied.search import Functions, Picked

    problem = composite.problem
    searching = searched(problem, search)
    bounds: Functions = optimistic(composite, level)
    pool = problem.within(searching.screen(stream, problem.d, start[None]), stream.at("within"))
    scales = spread(composite.values(pool, [0.5] * problem.k, screening=True))
    pool = problem.on_equalities(pool)
    beside: tuple[int, ...] = ()
    if region is not None:
        bounds, scales, beside = WithSuccess(bounds, region, is_hard=True), np.append(scales, 1.0), (problem.k,)
    widest = searching.rescue(bounds, scales, np.concatenate([start[None], pool[:8]]))

    def most(i: int) -> float:
        one = Picked(bounds, (i, *beside))
        best = searching.solve(one, scales[[i, *beside]], pool, start[None], stream.at("single", i))
        return float(best.f[0] / scales[i])

    worst = 1 + int((widest.f / scales)[1 : problem.k].argmin())
    is_lost = widest.margin < 0 and most(worst) < 0  # then relaxing another does not help
    alone: dict[str, float | None] = {}
    for i in range(1, problem.k):
        if is_lost and i != worst:
            alone[problem.functions[i]] = None
            continue
        order = (i, *(j for j in range(1, problem.k) if j != i), *beside)
        best = searching.solve(Picked(bounds, order), scales[list(order)], pool, start[None], stream.at("relax", i))
        alone[problem.functions[i]] = max(0.0, -float(best.f[0])) if best.satisfied else None
    short = max(0.0, -widest.margin)
    together = {problem.functions[i]: short * float(scales[i]) for i in range(1, problem.k)}
    conflict = tuple(name for name, amount in alone.items() if amount is not None)
    if not conflict:
        conflict = tuple(
            problem.functions[i]
            for i in range(1, problem.k)
            if widest.f[i] / scales[i] < widest.margin + CONFLICT_MARGIN
        )
    if singly:
        conflict = (problem.functions[min(range(1, problem.k), key=most)],)
    return Relaxation(alone, together, conflict)


def hopeless(problem: Problem) -> Relaxation | None:
    """Find constraints that nothing can meet, before any evaluation: white ones, or others by ranges of the outputs."""
    conflict = white_conflict(problem)
    if conflict is not None:
        return conflict
    limits = {each.name: each.missed for each in unreachable(problem)}
    return Relaxation(dict(limits), {}, tuple(limits)) if limits else None


def conflict_of(problem: Problem) -> Callable[[], Relaxation | None]:
    """Return a function that finds the constraints nothing can meet when it is first called, and remembers them."""
    return cache(partial(hopeless, problem))


def white_conflict(problem: Problem) -> Relaxation | None:
    """Find white constraints that no point satisfies, before any evaluation; return None if there are none."""
    if not problem.white:
        return None
    from pied.bounds import White
    from pied.search import Enumeration, Picked, Search, white_feasible

    white = White(problem, problem.white)
    search, stream = searched(problem, Search(starts=20)), Stream(0).at("white")
    none = np.zeros((0, problem.d))
    pool = problem.within(search.screen(stream, problem.d, none), stream.at("within"))
    scales = spread(white.values(pool))
    pool = problem.on_equalities(pool)
    if isinstance(search, Enumeration):
        is_met = search.solve(white, scales).satisfied
    elif problem.slice is not None:
        is_met = search.solve(white, scales, pool, none, stream).satisfied
    else:
        settle = partial(problem.settled, stream=stream.at("settled"))
        is_met = white_feasible(white, scales, stream, problem.d, settle) is not None
    if is_met:
        return None
    alone: dict[str, float | None] = {}
    for place in white.white:
        order = (place, *(other for other in white.white if other != place))
        best = search.solve(Picked(white, order), scales[list(order)], pool, none, stream.at("alone", place))
        alone[problem.functions[white.which[place - 1]]] = max(0.0, -float(best.f[0])) if best.satisfied else None
    conflict = tuple(name for name, amount in alone.items() if amount is not None) or tuple(alone)
    return Relaxation(alone, {}, conflict)


def searched(problem: Problem, search: "Search | None") -> "Search | Enumeration | Mixed":
    """Return the search over the box, over the list of candidates, or on the grid."""
    from pied.search import Search, search_of

    return search_of(problem, search or Search())
