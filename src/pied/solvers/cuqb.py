"""CUQB: optimistic constrained search with quantile bounds of g(x, h(x)), and pessimistic verification.

The settings are `CUQB`. One iteration is the frame (`solvers.frame`) around the moves (`solvers.moves`): each may
choose what part of the known is searched, and the first that has a point proposes it.
"""

from collections.abc import Mapping
from dataclasses import InitVar, dataclass, field, replace
from typing import Any, ClassVar
from warnings import warn

import numpy as np
from numpy import ndarray

from pied.bounds import Believer, Estimator, Level, checked_level, sampled, to_memory
from pied.errors import SettingError
from pied.gp import Model, ModelChoice
from pied.problem import Problem
from pied.records import Dataset, Why, feasible
from pied.rng import Stream
from pied.search import Optimum, PenaltySearch, Search
from pied.shapes import Float64
from pied.solvers import moves
from pied.solvers.answers import Answers
from pied.solvers.base import Proposal, Solver
from pied.solvers.frame import BayesRun
from pied.solvers.moves.base import Move
from pied.solvers.scene import Scene
from pied.solvers.turn import Turn

__all__ = ["CUQB", "MOVES", "CUQBRun", "paper"]

MOVES = tuple(moves.ALL)
FORMERLY = {"widen": ("widen", "tell"), "probe": ("probe",), "regimes": ("regime", "simple")}
"""Settings of version 0.2, and the moves that they left out."""


@dataclass(frozen=True)
class CUQB(Solver):
    """The constrained upper quantile bound, with the changes to the paper that did better in benchmarks.

    `CUQB.paper()` is the method without them.

    Example: `docs/recipes.md`.
    """

    name: ClassVar[str] = "cuqb"
    lists: ClassVar[bool] = True
    fronts: ClassVar[bool] = True
    slices: ClassVar[bool] = True

    level: Level = 0.95
    """p: the upper bound is Q(p), the lower Q(1 - p). Or a schedule (`bounds.quantile.confidence`, that of Lemma 1, or
    `Steps`), or one of these for each function, objective first: then each has its own upper bound (`joint`), and what
    is said has the objective's level."""
    moves: tuple[str, ...] = MOVES
    """How the next point is chosen: the moves by name, asked in this order (`solvers.moves`)."""
    verify_every: int | None = 3
    """After 2d + 1 trials, every so-many-th maximizes the median objective subject to lower bounds. None: never."""
    believer: Believer = field(default_factory=Believer)
    """The models to choose from and the estimator of quantiles."""
    search: Search | PenaltySearch = field(default_factory=Search)
    """How the subproblem is solved."""
    verdict: str = "joint"
    """"joint": all constraints together, at z = 3; "single": one at a time, at the level (the paper's)."""
    penalty: float | None = None
    """rho of the recommendation (14), natural units; None: from the multipliers of the subproblems."""
    joint: bool = True
    """Whether functions of the same outputs share one outcome (`bounds.joint`); False: each has its own upper bound
    (the paper's)."""
    compare: bool = True
    """Whether the best trial of the initial design is repeated if a program's noise is not stated: equal values show
    that its outputs are exact (`study.repetition`)."""
    careful: float | None = None
    """Probability with which every trial has to meet each limit, for a plant that must not break its permit. Trials
    then begin around settings that are known to meet all limits (`moves.careful`). None: trials may break limits."""
    strict: bool = False
    """Raise instead of climbing the numerical ladder; for benchmarks and tests."""
    widen: InitVar[bool | None] = None
    probe: InitVar[bool | None] = None
    regimes: InitVar[bool | None] = None

    def __post_init__(self, widen: bool | None, probe: bool | None, regimes: bool | None) -> None:
        for setting, value in (("widen", widen), ("probe", probe), ("regimes", regimes)):
            if value is False:
                left = [f"'{name}'" for name in FORMERLY[setting]]
                words = f"{setting}=False goes in version 0.4: leave {' and '.join(left)} out of moves"
                warn(words, DeprecationWarning, stacklevel=3)
                kept = tuple(name for name in self.moves if name not in FORMERLY[setting])
                object.__setattr__(self, "moves", kept)
        checked_level(self.level)
        moves.named(self.moves)
        if self.verify_every is not None and self.verify_every < 1:
            raise SettingError(f"verify_every counts trials from 1, or is None for never, got {self.verify_every}")
        if self.careful is not None and not 0.5 <= self.careful < 1:
            raise SettingError(f"careful is a probability from 0.5 to 1, for instance 0.95, got {self.careful}")
        if self.penalty is not None and not 0 < self.penalty < float("inf"):
            raise SettingError(f"penalty is a positive weight of violated constraints, got {self.penalty}")
        if self.verdict not in ("joint", "single"):
            raise SettingError(f"verdict is 'joint' or 'single', got '{self.verdict}'")

    @classmethod
    def paper(cls) -> "CUQB":
        """Return Algorithm 1 with the settings of table 3: the method as published."""
        return cls(
            level=0.95,
            moves=moves.PUBLISHED,
            verify_every=None,
            joint=False,
            compare=False,
            penalty=1e5,
            believer=Believer(
                Model(
                    kernels=("matern 3/2",),
                    trends=("none",),
                    warps=("none",),
                    scales=("plain",),
                    waves=False,
                    plateaus=False,
                    correlated="none",
                    nugget=(1e-4, 1e-3),
                    prior=False,
                    declustering=None,
                    always_refit=10**9,
                ),
                Estimator(
                    kind="soft", samples=50, screening=50, softness=0.1, closed_forms=False, ranges=False, sobol=False
                ),
                cautious=False,
                mixture=False,
            ),
            search=PenaltySearch(),
            verdict="single",
        )

    def without(self, *names: str) -> "CUQB":
        """Return the same settings without some moves."""
        return replace(self, moves=tuple(name for name in self.moves if name not in names))

    @property
    def finds_exact(self) -> bool:
        """Whether a trial is repeated after the initial design if a program's noise is not stated."""
        return self.compare

    @property
    def needs_design(self) -> bool:
        """Whether some trials have to be told before a belief can be learned; not if it is stated. Careful ones ask."""
        return self.believer.priors is None and self.careful is None

    @property
    def begins_anywhere(self) -> bool:
        """Whether the first trials may break limits."""
        return self.careful is None

    @property
    def answers(self) -> Answers:
        """With what a study answers: its own belief; as the paper does, if these are the paper's settings."""
        return Answers(
            level=self.level,
            believer=self.believer,
            penalty=self.penalty,
            tests_singly=self.verdict == "single",
            rule="asked" if self == CUQB.paper() else None,
        )

    def start(self, problem: Problem, stream: Stream) -> BayesRun:
        """Begin a run: for one best point, or for the front of several objectives.

        Raises:
            SettingError: If some function cannot be bounded at the level.
        """
        self.believer.check(problem)
        estimator = self.believer.estimator
        levels = self.level if isinstance(self.level, tuple) else (self.level,) * problem.k
        if isinstance(self.level, tuple) and problem.has_front:
            raise SettingError("with several objectives all functions have one level: state one number or schedule")
        if len(levels) != problem.k:
            raise SettingError(
                f"level has {len(levels)} entries for {problem.k} functions: state one, or one for each of "
                f"{', '.join(problem.functions)}"
            )
        for level in dict.fromkeys(levels):
            own = [i for i in sampled(problem, estimator) if levels[i] == level]
            estimator.check(level, [problem.functions[i] for i in own])
        if problem.slice is not None and (problem.has_front or isinstance(self.search, PenaltySearch)):
            what = "the front of several objectives" if problem.has_front else "the search of the paper"
            raise SettingError(f"{what} cannot keep to given settings ({problem.slice}): {what} is over all of them")
        if self.careful is not None:
            if problem.has_front:
                raise SettingError("careful trials need one objective: make the others limits")
            estimator.check(self.careful, [problem.functions[i] for i in sampled(problem, estimator) if i])
        if problem.has_front:
            from pied.solvers.front import FrontRun

            return FrontRun(self, problem, stream)
        return CUQBRun(self, problem, stream)


def paper() -> CUQB:
    """The method exactly as published: Algorithm 1 with the settings of the paper's table 3."""
    return CUQB.paper()


class CUQBRun(BayesRun):
    """One run of CUQB: Algorithm 1."""

    def __init__(self, settings: CUQB, problem: Problem, stream: Stream) -> None:
        super().__init__(settings, problem, stream)
        self._own = settings
        self.moves = moves.named(settings.moves)
        if settings.careful is not None:
            self.moves = (moves.Careful(settings.careful),)

    def ask(self, number: int, data: Dataset) -> Proposal:
        """Propose the next point; a careful one needs settings that are known to be safe."""
        if self._own.careful is not None:
            moves.check_safe(self.problem, data)
        return super().ask(number, data)

    def _fill(self, data: Dataset, stream: Stream, reason: str, previous: tuple[ModelChoice, ...] | None) -> Proposal:
        """The last rung; of a careful study the best settings that are known to meet all limits, once more."""
        if self._own.careful is None:
            return super()._fill(data, stream, reason, previous)
        f = data.functions(self.problem)
        row = int(np.where(feasible(self.problem, f), f[:, 0], -np.inf).argmax())
        why = Why("safe", rung=f"known settings: {reason}", memory=to_memory(previous) if previous else {})
        return Proposal(self.problem.onto(data.U[row]), why)

    def _narrow(self, scene: Scene) -> Float64[ndarray, "d"] | None:
        return super()._narrow(scene) if self._own.careful is None else None

    def spread_out(self, scene: Scene) -> Float64[ndarray, "d"]:
        """Return a point that is not known; a careful study has none that is far from what is known."""
        if self._own.careful is not None:
            raise moves.none_safe()
        return super().spread_out(scene)

    def turn(self, scene: Scene, memory: Mapping[str, Any] | None = None) -> Turn:
        """Return what moves see of a trial."""
        return Turn(self, scene, self._own.joint, self._own.verdict, memory or {})

    def _staged(self, scene: Scene) -> tuple[Scene, Mapping[str, Any]]:
        turn = self.turn(scene)
        for move in self._applicable(scene):
            turn = move.stage(turn)
        return turn.scene, turn.memory

    def _applicable(self, scene: Scene) -> tuple[Move, ...]:
        """The moves to ask: before anything was told, with a stated belief, only the last, the method of the paper."""
        return self.moves if len(scene.data.U) else self.moves[-1:]

    def _chosen(self, scene: Scene, memory: Mapping[str, Any]) -> tuple[Optimum, Why]:
        turn = self.turn(scene, memory)
        return next(found for move in self._applicable(scene) if (found := move.propose(turn)) is not None)

    def _explore(self, scene: Scene) -> tuple[Optimum, Why]:
        return self._chosen(scene, {})

    def _reach(self, scene: Scene, U: Float64[ndarray, "b d"], factor: float) -> Float64[ndarray, "b k"]:
        return self.turn(scene).reach(U, factor)
