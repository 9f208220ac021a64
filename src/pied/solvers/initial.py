"""The initial design: the first points of a study, the same for every solver with the same seed and record."""

import numpy as np
from numpy import ndarray

from pied.distances import to_nearest
from pied.errors import SolverDone
from pied.problem import SAME, Problem
from pied.records import Dataset
from pied.rng import Stream
from pied.shapes import Bool, Float64
from pied.solvers.digits import OF_DESIGN, written

DESIGN_POOL = 10_000  # uniform points from which an initial design that meets the white constraints is taken
SETTLED_POOL = 512  # the same where equalities are met by moving points
AHEAD = 64  # points of the design among which the next one is chosen after a failure


def design_size(d: int) -> int:
    """Return the default size of the initial design of d chosen variables, 2d + 1 (paper, table 3)."""
    return 2 * max(d, 1) + 1


def initial_point(problem: Problem, stream: Stream, index: int, data: Dataset) -> Float64[ndarray, "d"]:
    """Return one point of the design: the one with this index, or the first candidate that is not known yet.

    Where people set it, it has few digits. After a failure the design adapts (`_promising`): where half of the box
    fails, most of a fixed design would tell nothing about the outputs.

    Args:
        problem: The statement.
        stream: Randomness of the study.
        index: How many points of the design have been proposed.
        data: What is known. No candidate of a list is repeated while others are left.

    Raises:
        SolverDone: If everything that can be chosen is known.
    """
    u = _point(problem, stream, index, data)
    if not problem.white:
        return written(problem, u, lambda U: np.ones(len(U), dtype=bool), coarsest=OF_DESIGN)
    meets = bool(_meets_white(problem, u[None])[0])
    return written(problem, u, lambda U: _meets_white(problem, U) | (not meets), coarsest=OF_DESIGN)


def _point(problem: Problem, stream: Stream, index: int, data: Dataset) -> Float64[ndarray, "d"]:
    """Return the point with all of its digits."""
    U = initial_design(problem, stream)
    known = np.concatenate([data.U, data.imagined])
    is_few = problem.choosable is not None and (problem.listing is not None or problem.is_exact)
    if is_few:
        fresh = U[to_nearest(U, known, "chebyshev") > SAME]
        if not len(fresh) and (problem.slice is None or problem.is_exact):
            which = "" if problem.slice is None else f" with {problem.slice}"
            raise SolverDone(f"every point{which} that can be set has been measured")
        U, index = (fresh, 0) if len(fresh) else (U, index)  # of a slice with noise, points are repeated
    if not len(data.failed):
        return U[index % len(U)]
    ahead = U[(index + np.arange(min(AHEAD, len(U)))) % len(U)]
    fresh = to_nearest(ahead, known, "chebyshev") > SAME  # an adapted design runs ahead of the index
    ahead = ahead[fresh] if fresh.any() else ahead
    if problem.white:
        meets = _meets_white(problem, ahead)
        ahead = ahead[meets == meets[0]]
    return ahead[_promising(ahead, data)]


def _promising(ahead: Float64[ndarray, "b d"], data: Dataset) -> int:
    """Return the first of some points whose nearest evaluation succeeded; while none has, the farthest from all.

    If there is no such point, it is the one that is nearer to a success than any other, compared with failures.
    """
    if not len(data.U):
        return int(to_nearest(ahead, data.imagined).argmax())
    to_told, to_failed = to_nearest(ahead, data.U), to_nearest(ahead, data.failed)
    nearer = to_told < to_failed
    return int(nearer.argmax()) if nearer.any() else int((to_told - to_failed).argmin())


def initial_design(problem: Problem, stream: Stream) -> Float64[ndarray, "s d"]:
    """Return uniform points, or candidates in random order; those that meet the white constraints come first.

    A small grid is a list of candidates, and points are moved onto a large one. They are the same each time, so a
    design needs no state.
    """
    stream = stream.at("initial")
    if problem.listing is None:
        U = stream.uniform(SETTLED_POOL if problem.has_equalities else DESIGN_POOL, problem.d)
        U = problem.settled(problem.drawn(U), stream.at("settled"))
        if problem.grid is not None:
            U = problem.grid.snapped(U)
            U = U[np.sort(np.unique(U, axis=0, return_index=True)[1])]
    else:
        order = stream.generator().permutation(len(problem.listing))
        U = problem.listing.U[order[:DESIGN_POOL]]
    if not problem.white:
        return U
    fine = _meets_white(problem, U)
    return np.concatenate([U[fine], U[~fine]])


def _meets_white(problem: Problem, U: Float64[ndarray, "b d"]) -> Bool[ndarray, "b"]:
    """Tell which points meet the constraints that need no output."""
    G = np.stack(problem.g(problem.from_unit(U), np.zeros((1, len(U), problem.m)), which=problem.white), -1)
    return np.asarray((G >= 0).all(1))
