"""Rivals with another optimism: EPBO, the box of Xu et al. (2023), the merit quantile of the authors' scripts."""

from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
from numpy import ndarray

from pied.bounds import Believer, Composite, Joint, level_at, quantile
from pied.errors import SettingError
from pied.problem import Problem
from pied.records import Dataset, Why
from pied.rivals.folded import FoldedRun, folded_believer
from pied.rivals.settings import BeliefSolver
from pied.rng import Stream
from pied.search import Optimum, PenaltySearch, Search
from pied.shapes import Float64
from pied.solvers.acquisition import Acquisition, Column, Points, maximize
from pied.solvers.base import Proposal, Run
from pied.solvers.cuqb import CUQB, MOVES
from pied.solvers.frame import BayesRun
from pied.solvers.scene import Scene


@dataclass(frozen=True, kw_only=True)
class EPBO(BeliefSolver):
    """Exact penalty Bayesian optimization: CUQB on the folded problem, black-box upper confidence bounds."""

    name: ClassVar[str] = "epbo"
    lists: ClassVar[bool] = True

    believer: Believer = field(default_factory=folded_believer)
    """Models of the functions' values."""
    verdict: str | None = "joint"
    """Test of feasibility, as in `CUQB`; None: no test, as in the paper."""
    moves: tuple[str, ...] = MOVES
    """How the next point is chosen, as in `CUQB`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._cuqb()

    @classmethod
    def paper(cls) -> "EPBO":
        """Return the paper's: `CUQB.paper()` on the folded problem, without its test of feasibility."""
        same = CUQB.paper()
        return cls(
            level=level_at(same.level, 0),
            verify_every=same.verify_every,
            believer=same.believer,
            search=same.search,
            verdict=None,
            moves=same.moves,
        )

    def _cuqb(self) -> CUQB:
        return CUQB(
            level=self.level,
            verify_every=self.verify_every,
            believer=self.believer,
            search=self.search,
            verdict=self.verdict or "single",
            moves=self.moves,
            strict=self.strict,
        )

    def start(self, problem: Problem, stream: Stream) -> Run:
        """Begin a run on the folded problem."""
        run = FoldedRun(problem, lambda folded: self._cuqb().start(folded, stream))
        return run if self.verdict is not None else _Undecided(run)


class _Undecided(Run):
    """A run without a test of feasibility."""

    def __init__(self, inner: Run) -> None:
        self._inner = inner

    def ask(self, number: int, data: Dataset) -> Proposal:
        proposal = self._inner.ask(number, data)
        return replace(proposal, why=replace(proposal.why, margin=None))

    def close(self) -> None:
        self._inner.close()


def epbo_paper() -> EPBO:
    """EPBO with the models and the search of the paper, and the sign of its penalty corrected."""
    return EPBO.paper()


# ------------------------------------------------------------------------------------------------- the confidence box


@dataclass(frozen=True, kw_only=True)
class Box(BeliefSolver):
    """Optimism over a confidence box: the best of g over points and outputs together (Xu et al. 2023).

    One vector of outputs must be good and feasible at the same time. The bound holds for all points simultaneously and
    grows with the number of outputs.
    """

    name: ClassVar[str] = "box"

    search: Search = field(default_factory=Search)
    """How the subproblem is solved, over points and outputs together."""

    def start(self, problem: Problem, stream: Stream) -> "BoxRun":
        """Begin a run."""
        return BoxRun(self, problem, stream)


class BoxRun(BayesRun):
    """One run of the confidence box."""

    def __init__(self, settings: Box, problem: Problem, stream: Stream) -> None:
        super().__init__(settings, problem, stream)
        self._own = settings

    def _explore(self, scene: Scene) -> tuple[Optimum, Why]:
        functions = Joint(scene.composite, quantile.normal(self.level), in_ball=False)
        search = scene.within if isinstance(scene.within, Search) else self._own.search
        best = functions.maximum(search, scene.scales, scene.pool, scene.known, scene.stream.at("explore"))
        return best, Why("explore", optimistic=float(best.f[0]) if best.satisfied else None)


# ------------------------------------------------------------------------------------------------- the merit quantile


@dataclass(frozen=True, eq=False)
class PenalizedQuantile(Acquisition):
    """One quantile of the penalized sample g_0 - weight sum min(g_i, 0)^2."""

    composite: Composite
    scales: Float64[ndarray, "k"]
    """One per function, which is divided by it."""
    level: float
    weight: float
    holds_white: bool

    @property
    def which(self) -> tuple[int, ...]:
        """The white constraints, if they are not penalized."""
        return self.composite.problem.white if self.holds_white else ()

    @property
    def screening_samples(self) -> int:
        """Samples per point while screening."""
        return self.composite.estimator.screening

    def columns(self, points: Points) -> list[Column]:
        """Return the quantile, and the white constraints."""
        estimator, unit = self.composite.estimator, self.scales
        outputs = points.drawn(estimator.screening if points.is_screening else estimator.samples)
        G, back = outputs.function(0)
        merit = G / unit[0]
        parts = [(1.0 / unit[0], back)]  # the merit's slope by every function, and the function's way back
        for i in range(1, self.composite.problem.k):
            if i not in self.which:
                G, back = outputs.function(i)
                broken = np.minimum(G / unit[i], 0.0)
                merit = merit - self.weight * broken * broken
                parts.append((-2.0 * self.weight * broken / unit[i], back))

        def slopes() -> Float64[ndarray, "b d"]:
            _, weights = estimator.estimate_and_weights(merit, self.level)
            return np.sum([back(weights * slope) for slope, back in parts], 0)

        return [(estimator.estimate(merit, self.level), slopes), *(points.exactly(i) for i in self.which)]


@dataclass(frozen=True, kw_only=True)
class MeritQuantile(BeliefSolver):
    """The method of the authors' scripts: one quantile of the penalized objective instead of one per function.

    A sample that violates a constraint lowers the quantile, so uncertain points are avoided, unlike with CUQB.
    """

    name: ClassVar[str] = "merit-quantile"
    lists: ClassVar[bool] = True

    weight: float = 1e4
    """Weight of squared violations (the authors' scripts)."""
    scaled: bool = True
    """Whether functions are divided by their search scales first; False: natural units, on which results depend."""
    hold_white: bool = True
    """Whether white constraints remain constraints instead of being penalized."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.weight > 0:
            raise SettingError(f"the weight of violations is above 0, got {self.weight}")

    @classmethod
    def paper(cls) -> "MeritQuantile":
        """Return the scripts' form: number 47 of 50 samples, softly sorted, natural units, everything penalized.

        As in BoTorch, the best of the screened points is always a start.
        """
        same = CUQB.paper()
        return cls(
            level=0.94,
            scaled=False,
            hold_white=False,
            verify_every=None,
            believer=same.believer,
            search=PenaltySearch(keep_best=True),
        )

    def start(self, problem: Problem, stream: Stream) -> "MeritRun":
        """Begin a run."""
        return MeritRun(self, problem, stream)


class MeritRun(BayesRun):
    """One run of the merit quantile."""

    def __init__(self, settings: MeritQuantile, problem: Problem, stream: Stream) -> None:
        super().__init__(settings, problem, stream)
        self._own = settings

    def _explore(self, scene: Scene) -> tuple[Optimum, Why]:
        own = self._own
        scales = scene.scales if own.scaled else np.ones_like(scene.scales)
        merit = PenalizedQuantile(scene.composite, scales, own.level, own.weight, own.hold_white)
        return maximize(merit, scene), Why("explore")


def merit_quantile_paper() -> MeritQuantile:
    """The merit quantile with the models, the search and the settings of the authors' scripts."""
    return MeritQuantile.paper()
