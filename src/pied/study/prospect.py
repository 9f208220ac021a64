"""How much better any settings could still be, by the belief of the moment and by what its predictions have missed."""

import numpy as np
from numpy import ndarray

from pied.bounds import Composite, optimistic
from pied.records import spread
from pied.rng import Stream
from pied.search import Search
from pied.shapes import Float64
from pied.study.recommendation import Recommendation
from pied.study.relaxation import searched

TOP_SEARCH = Search(brevity=0.0)
"""Search of the optimistic optimum: all digits, because only its value is used."""


def possible_gain(composite: Composite, found: Recommendation, level: float, stream: Stream) -> float:
    """Return the gap: the optimistic optimum minus what is certain of a recommended point; infinite if nothing is.

    Args:
        composite: Bounds of all functions, as they are said.
        found: The recommended point.
        level: p of the bounds.
        stream: Random numbers of the search.
    """
    if found.certified is None:
        return np.inf
    problem, search = composite.problem, searched(composite.problem, TOP_SEARCH)
    known: Float64[ndarray, "1 d"] = np.clip(found.u, 0.0, 1.0)[None]
    pool = problem.within(search.screen(stream, problem.d, known), stream.at("within"))
    scales = spread(composite.values(pool, [0.5] * problem.k, screening=True))
    best = search.solve(optimistic(composite, level), scales, problem.on_equalities(pool), known, stream)
    top = float(best.f[0]) if best.satisfied else -np.inf
    return max(top, float(found.upper[0]), found.certified) - found.certified
