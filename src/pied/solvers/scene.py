"""What is known at the start of one iteration: the belief, the pool, scales, and where points may be proposed."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from numpy import ndarray

from pied.bounds import Composite, SuccessModel, TwoRegimes, coding_of, sides_told, where_success_is_likely
from pied.gp import GP
from pied.records import Dataset
from pied.rng import Stream
from pied.search import Enumeration, Mixed, PenaltySearch, Search
from pied.shapes import Bool, Float64
from pied.solvers.calendar import BORDER, is_turn

VERIFIED_SUCCESS = -0.5  # deviations: a point is verified where an evaluation is that likely to succeed


@dataclass(frozen=True, eq=False)
class Scene:
    """What is known at the start of one iteration."""

    number: int
    """Of the trial to propose."""
    data: Dataset
    told: GP
    """The belief from what was told, as if nothing were pending."""
    belief: GP
    """The same with pending points imagined at their mean."""
    composite: Composite
    """The belief composed with g."""
    f: Float64[ndarray, "N k"]
    """Functions at the told points."""
    is_feasible: Bool[ndarray, "N"]
    known: Float64[ndarray, "s d"]
    """The best told points."""
    pool: Float64[ndarray, "b d"]
    """Points to screen."""
    scales: Float64[ndarray, "k"]
    """One scale per function: the spread of its median over the pool."""
    search: Search | PenaltySearch | Enumeration | Mixed
    """How subproblems are solved over the whole box or list."""
    stream: Stream
    elsewhere: Bool[ndarray, "N"] | None = None
    """Which told points are in another regime than the one searched (`moves.regime`); None: all are in one."""
    rough: Bool[ndarray, "m"] | None = None
    """Which outputs have regimes."""
    is_simple: bool = False
    """Whether the belief is a simple one, and its expectation is sought instead of bounds (`moves.simple`)."""
    whole: "Scene | None" = None
    """The scene of everything that was told, of which this one is a part."""
    by_regime: "Callable[[], tuple[Scene, ...]] | None" = None
    """Returns the scene of each regime, or none if one belief explains more; None: there are no regimes."""
    regimes: TwoRegimes | None = None
    """What is said of a proposal rests on these; None: on the belief about everything that was told."""

    @cached_property
    def success(self) -> SuccessModel | None:
        """Where points may be proposed: where evaluations are likely to succeed; None: anywhere, as in the paper."""
        if isinstance(self.search, PenaltySearch):
            return None
        data, coding = self.data, coding_of(self.composite.problem)
        if self.elsewhere is None:
            return SuccessModel.fit(data.U, data.failed, coding)
        return SuccessModel.of_regime(
            data.U, self.elsewhere, data.failed, coding, is_exact=self.composite.problem.is_exact
        )

    @cached_property
    def is_feasible_here(self) -> Bool[ndarray, "N"]:
        """Which feasible told points lie on the slice that is searched: what is to be improved on."""
        return self.is_feasible & self.composite.problem.lies_on(self.data.U)

    @property
    def has_regimes(self) -> bool:
        """Whether outputs have regimes, as far as was seen."""
        return self.elsewhere is not None or self.by_regime is not None

    def sides(self) -> "tuple[Scene, ...]":
        """Return the scene of each regime, where there are regimes."""
        return self.by_regime() if self.by_regime else ()

    @property
    def told_here(self) -> int:
        """How many points were told in the regime that is searched."""
        return len(self.data.U) if self.elsewhere is None else int((~self.elsewhere).sum())

    @property
    def apart(self) -> dict[str, Any]:
        """The regime as plain data, for the memory of a test that rests on it; empty where there is none."""
        if self.elsewhere is None or self.rough is None:
            return {}
        return {"apart": {**sides_told(self.data, self.elsewhere), "rough": self.rough.tolist()}}

    @cached_property
    def within(self) -> Search | PenaltySearch | Enumeration | Mixed:
        """The search for a point to propose: only where success is likely.

        Of a regime every other search stays where it is as likely as not: at an edge, that question halves what is
        open. Where evaluations fail, other points than those at the edge are worth a try.
        """
        if isinstance(self.search, PenaltySearch) or self.success is None:
            return self.search
        halves = self.elsewhere is not None and not is_turn(BORDER, self.number)
        return where_success_is_likely(self.search, replace(self.success, z=0.0) if halves else self.success)

    @cached_property
    def surely_within(self) -> Search | PenaltySearch | Enumeration | Mixed:
        """The search for a point to verify: only where success is more likely than not."""
        if isinstance(self.search, PenaltySearch) or self.success is None:
            return self.search
        return where_success_is_likely(self.search, self.success.at(VERIFIED_SUCCESS))

    def is_surely_within(self, u: Float64[ndarray, "d"]) -> bool:
        """Tell whether a point is where success, or the regime that is searched, is more likely than not."""
        return self.success is None or bool(self.success.at(VERIFIED_SUCCESS).is_likely(u[None]).all())
