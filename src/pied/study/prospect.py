"""What may still come, by the belief of the moment and by what its predictions have missed.

How much better any settings could be, and whether any meet all limits.
"""

import numpy as np
from numpy import ndarray

from pied.bounds import Composite, SuccessModel, optimistic
from pied.gp import GP
from pied.records import spread
from pied.rng import Stream
from pied.search import Optimum, Search
from pied.shapes import Float64
from pied.study.recommendation import Recommendation
from pied.study.relaxation import searched

TOP_SEARCH = Search()
"""Search of the optimistic optimum: all digits, because only its value is used."""

CANDIDATES = 2048
"""Points over the box among which those that may meet all limits are looked for."""
LIKELIEST = 64
"""Points, those with the largest upper bounds, at which functions are drawn."""
DRAWS = 256
"""Functions drawn from the belief: a probability has a standard error of at most 0.03."""


def possible_optimum(composite: Composite, found: Recommendation, level: float, stream: Stream) -> Optimum:
    """Return where the upper bound of the objective is the largest, among settings that may meet all limits.

    Args:
        composite: Bounds of all functions, as they are said.
        found: The recommended point.
        level: p of the bounds.
        stream: Random numbers of the search.
    """
    problem, search = composite.problem, searched(composite.problem, TOP_SEARCH)
    known: Float64[ndarray, "1 d"] = np.clip(found.u, 0.0, 1.0)[None]
    pool = problem.within(search.screen(stream, problem.d, known), stream.at("within"))
    scales = spread(composite.values(pool, [0.5] * problem.k, screening=True))
    return search.solve(optimistic(composite, level), scales, problem.on_equalities(pool), known, stream)


@np.errstate(all="ignore")
def chance_of_any(
    composite: Composite,
    belief: GP,
    level: float,
    known: Float64[ndarray, "s d"],
    stream: Stream,
    region: SuccessModel | None = None,
) -> float:
    """Return the probability that any settings meet all limits: the share of functions drawn for which some do.

    Args:
        composite: Bounds of all functions, as they are said.
        belief: From which functions are drawn, as far as it is to be trusted.
        level: p of the bounds.
        known: Told points.
        stream: Random numbers.
        region: Where settings are looked for; None: anywhere.
    """  # fmt: skip
    problem = composite.problem
    search = searched(problem, TOP_SEARCH)
    known = np.clip(known, 0.0, 1.0)
    pool = problem.within(search.screen(stream, problem.d, known), stream.at("within"))[:CANDIDATES]
    pool = problem.on_equalities(np.concatenate([known, pool]))
    pool = pool if region is None else pool[region.is_likely(pool)]
    upper = composite.values(pool, [level] * problem.k, screening=True)
    margin = np.nan_to_num((upper / spread(upper))[:, 1:].min(1), nan=-np.inf)
    best = pool[(-margin).argsort(kind="stable")[:LIKELIEST]]
    W = belief.drawn(best, stream.at("draws").normal(DRAWS, len(best), problem.m))
    G = problem.g(problem.from_unit(best), composite.physical(W), which=range(1, problem.k))
    holds = np.all([np.broadcast_to(g >= 0, W.shape[:2]) for g in G], 0)
    return float(holds.any(1).mean())
