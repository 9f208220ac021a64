"""The best of a list of candidates: the subproblem is solved exactly, by evaluating every candidate.

It has the methods of `multistart.Search`. Values are computed for a few thousand candidates at a time, so that memory
grows only with the results, k numbers per candidate.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy import ndarray

from pied.errors import SolverDone
from pied.problem import Listing
from pied.rng import Stream
from pied.search.functions import Functions
from pied.search.optimum import SATISFIED, WHITE_SATISFIED, Optimum, optimum_at
from pied.shapes import Bool, Float64, Int64

AT_ONCE = 8192  # candidates evaluated at once: a few hundred told points then take some tens of megabytes
POOL = 1024  # random candidates from which the scales of functions are taken
SHORTLIST = 128  # best candidates by screening that are compared again with all samples
UNKNOWN_MARGIN = -1e300  # ranks a candidate with unknown constraints behind all others
WHITE_BROKEN_MARGIN = 1e200  # taken off the margin of candidates that break a white constraint


@dataclass(frozen=True, eq=False)
class Enumeration:
    """A search that evaluates every candidate; the first of equal ones wins."""

    U: Float64[ndarray, "c d"]
    """The candidates, unit cube."""
    offered: Bool[ndarray, "c"]
    """Which of them may be chosen."""

    @classmethod
    def of(cls, listing: Listing) -> "Enumeration":
        """Return a search among all candidates of a list."""
        return cls(listing.U, np.ones(len(listing), dtype=bool))

    def without(self, rows: Int64[ndarray, "e"]) -> "Enumeration":
        """Return the search without some candidates."""
        offered = self.offered.copy()
        offered[rows] = False
        return replace(self, offered=offered)

    def also(self, rows: Int64[ndarray, "e"]) -> "Enumeration":
        """Return the search with some candidates added again."""
        offered = self.offered.copy()
        offered[rows] = True
        return replace(self, offered=offered)

    def screen(self, stream: Stream, d: int, known: Float64[ndarray, "s d"]) -> Float64[ndarray, "b d"]:
        """Return the pool: random candidates and the best told points."""
        draw = stream.at("pool").generator()
        rows = draw.choice(len(self.U), min(POOL, len(self.U)), replace=False, shuffle=False)
        return np.concatenate([self.U[rows], known])

    @np.errstate(all="ignore")
    def solve(
        self,
        functions: Functions,
        scales: Float64[ndarray, "k"],
        pool: Float64[ndarray, "b d"] | None = None,
        known: Float64[ndarray, "s d"] | None = None,
        stream: Stream | None = None,
        *,
        rescue: bool = True,
    ) -> Optimum:
        """Maximize the first function subject to the others over the candidates on offer.

        Args:
            functions: The bounds.
            scales: One scale per function.
            pool: Not needed: every candidate is screened.
            known: Not needed.
            stream: Not needed: nothing is random.
            rescue: When nothing satisfies the constraints, maximize the smallest of them; a list is then searched
                either way, since it costs nothing.

        Raises:
            SolverDone: When no candidate is on offer any more.
        """
        f = self._values(functions)
        fine = satisfied(functions, scales, f) & self.offered
        if not fine.any():
            return self._least_violated(functions, scales, f)
        rows = _best(np.where(fine, f[:, 0], -np.inf), int(fine.sum()))
        there, _ = functions.values_and_slopes(self.U[rows])
        fine = satisfied(functions, scales, there)
        if not fine.any():
            return self._least_violated(functions, scales, f)
        best = np.where(fine, there[:, 0], -np.inf).argmax()
        weight = exact_weight(f / scales, float(there[best, 0] / scales[0]))
        return optimum_at(self.U[rows[best]], there[best], scales, True, [weight] * (len(scales) - 1))

    def rescue(
        self, functions: Functions, scales: Float64[ndarray, "k"], starts: Float64[ndarray, "s d"] | None = None
    ) -> Optimum:
        """Maximize the smallest scaled constraint subject to white ones; where it reaches zero, the objective."""
        return self.solve(functions, scales)

    @np.errstate(all="ignore")
    def largest(self, functions: Functions, scales: Float64[ndarray, "k"]) -> Float64[ndarray, "n"]:
        """Return the largest scaled value of each constraint over the whole list."""
        return np.nan_to_num(self._values(functions) / scales, nan=-np.inf)[:, 1:].max(0)

    def _values(self, functions: Functions) -> Float64[ndarray, "c k"]:
        """All functions at all candidates, computed in pieces of bounded memory."""
        if not self.offered.any():
            raise SolverDone("every candidate has been measured, and measuring again would teach nothing")
        f = np.empty((len(self.U), functions.k))
        for first in range(0, len(self.U), AT_ONCE):
            f[first : first + AT_ONCE] = functions.values(self.U[first : first + AT_ONCE])
        return f

    def _least_violated(self, functions: Functions, scales: ndarray, f: Float64[ndarray, "c k"]) -> Optimum:
        """The offered candidate with the largest margin: the smallest scaled constraint, white constraints first."""
        rows = _best(np.where(self.offered, margin_of(functions, scales, f), -np.inf), int(self.offered.sum()))
        there, _ = functions.values_and_slopes(self.U[rows])
        best = margin_of(functions, scales, there).argmax()
        is_fine = bool(satisfied(functions, scales, there[best][None])[0])
        return optimum_at(self.U[rows[best]], there[best], scales, is_fine)


def satisfied(functions: Functions, scales: ndarray, f: Float64[ndarray, "b k"]) -> Bool[ndarray, "b"]:
    """Tell at which points all constraints hold."""
    slack = np.full(len(scales), SATISFIED)
    slack[list(functions.white)] = WHITE_SATISFIED
    return np.isfinite(f).all(1) & (f[:, 1:] >= -(slack * scales)[1:]).all(1)


def margin_of(functions: Functions, scales: ndarray, f: Float64[ndarray, "b k"]) -> Float64[ndarray, "b"]:
    """Return the smallest scaled constraint; points that break white ones rank below all others."""
    white = list(functions.white)
    margin = np.nan_to_num((f / scales)[:, 1:].min(1, initial=np.inf), nan=UNKNOWN_MARGIN)
    broken = (f[:, white] < -WHITE_SATISFIED * scales[white]).any(1)
    return np.where(broken, np.minimum(margin, 0.0) - WHITE_BROKEN_MARGIN, margin)


def _best(score: Float64[ndarray, "c"], count: int) -> Int64[ndarray, "b"]:
    """Rows of the best scores, in the order of the list; of equal ones the first."""
    count = min(SHORTLIST, count)
    last = np.partition(score, -count)[-count]
    above, level = (score > last).nonzero()[0], (score == last).nonzero()[0]
    return np.sort(np.concatenate([above, level[: count - len(above)]]))


@np.errstate(all="ignore")
def exact_weight(scaled: Float64[ndarray, "c k"], best: float) -> float:
    """Return the smallest weight of violations at which no point of a set that breaks a constraint beats the best.

    It is max over x of (f_0(x) - best) / sum_i [-f_i(x)]+: what multipliers are at one optimum, for a whole set.

    Args:
        scaled: Functions at the points, each divided by its scale.
        best: The objective to beat, scaled.
    """
    violation = np.maximum(-scaled[:, 1:], 0.0).sum(1)
    gain = scaled[:, 0] - best
    counts = np.isfinite(gain) & (violation > SATISFIED) & (gain > 0)
    return float((gain[counts] / violation[counts]).max()) if counts.any() else 0.0
