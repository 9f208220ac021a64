"""Solvers without a belief: random and Sobol points, and the paper's derivative-free routines with an exact penalty.

DIRECT, BOBYQA and CMA-ES are given one number per point of the unit cube: the penalized objective.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy import optimize

from pied.errors import MissingExtra, SettingError, SolverDone
from pied.problem import Problem
from pied.records import Dataset, Why
from pied.rivals.driven import PAPER_PENALTY, SCALED_PENALTY, DrivenRun, Evaluate, Merit, Start
from pied.rng import Stream
from pied.solvers.base import Proposal, Run, Solver

UNLIMITED = 50_000  # evaluations: more than any study can afford, so the study's budget ends the routine


@dataclass(frozen=True)
class Random(Solver):
    """Uniform points, independent of what was told."""

    name: ClassVar[str] = "random"
    slices: ClassVar[bool] = True
    lists: ClassVar[bool] = True
    fronts: ClassVar[bool] = True

    def start(self, problem: Problem, stream: Stream) -> Run:
        """Begin a run."""
        return _RandomRun(problem, stream)


@dataclass(frozen=True)
class Sobol(Solver):
    """Scrambled Sobol points: evenly spread, independent of what was told."""

    name: ClassVar[str] = "sobol"
    slices: ClassVar[bool] = True
    fronts: ClassVar[bool] = True

    def start(self, problem: Problem, stream: Stream) -> Run:
        """Begin a run."""
        return _SobolRun(problem, stream)


@dataclass(frozen=True)
class Direct(Solver):
    """DIRECT: dividing rectangles, deterministic and global; its first point is the centre of the box.

    It accepts no starting points; the initial design only sets the scaling of the penalty.
    """

    name: ClassVar[str] = "direct"
    parallel: ClassVar[bool] = False

    penalty: float = SCALED_PENALTY
    """Weight of violated constraints."""
    scaled: bool = True
    """Whether objective and constraints are divided by their spread over the initial data first."""
    locally_biased: bool = True
    """Whether poor rectangles are divided less often, which suits functions with few local optima."""

    def __post_init__(self) -> None:
        Merit(self.penalty, self.scaled)

    @classmethod
    def paper(cls) -> "Direct":
        """Return the paper's form: penalty 1e5 in natural units, the library's defaults."""
        return cls(penalty=PAPER_PENALTY, scaled=False)

    def start(self, problem: Problem, stream: Stream) -> DrivenRun:
        """Begin a run."""

        def routine(start: Start, evaluate: Evaluate) -> str:
            cube = optimize.Bounds(np.zeros(start.d), np.ones(start.d))
            done = optimize.direct(
                evaluate, cube, locally_biased=self.locally_biased, maxfun=UNLIMITED, maxiter=UNLIMITED
            )
            return str(done.message)

        return DrivenRun(self.name, problem, stream, routine, Merit(self.penalty, self.scaled))


@dataclass(frozen=True)
class Bobyqa(Solver):
    """BOBYQA: a local trust-region search with quadratic models, from the best initial point.

    Needs the extra `bobyqa` (Py-BOBYQA, under the GPL).
    """

    name: ClassVar[str] = "bobyqa"
    parallel: ClassVar[bool] = False

    penalty: float = SCALED_PENALTY
    """Weight of violated constraints."""
    scaled: bool = True
    """Whether objective and constraints are divided by their spread over the initial data first."""
    step: float = 0.2
    """First trust-region radius, of the unit cube."""
    restarts: bool = True
    """Whether it restarts with a larger trust region around the best point after convergence."""

    def __post_init__(self) -> None:
        Merit(self.penalty, self.scaled)
        if not 0.0 < self.step <= 0.5:
            raise SettingError(f"step is a radius in the unit cube, above 0 and at most 0.5, got {self.step}")

    @classmethod
    def paper(cls) -> "Bobyqa":
        """Return the paper's form: penalty 1e5 in natural units, no restarts, the library's first radius."""
        return cls(penalty=PAPER_PENALTY, scaled=False, step=0.1, restarts=False)

    def start(self, problem: Problem, stream: Stream) -> DrivenRun:
        """Begin a run."""
        try:
            import pybobyqa
        except ImportError as error:
            raise MissingExtra("solver 'bobyqa'", "Py-BOBYQA", "bobyqa") from error

        def routine(start: Start, evaluate: Evaluate) -> str:
            done = pybobyqa.solve(
                evaluate,
                start.best,
                bounds=(np.zeros(start.d), np.ones(start.d)),
                rhobeg=self.step,
                maxfun=UNLIMITED,
                objfun_has_noise=not start.is_exact,
                seek_global_minimum=self.restarts,
                do_logging=False,
            )
            return str(done.msg)

        merit = Merit(self.penalty, self.scaled)
        return DrivenRun(self.name, problem, stream, routine, merit, legacy=True)


@dataclass(frozen=True)
class CMAES(Solver):
    """CMA-ES: an evolution strategy that adapts its covariance matrix, from the best initial point.

    Needs the extra `bench` (pycma).
    """

    name: ClassVar[str] = "cma-es"
    parallel: ClassVar[bool] = False

    penalty: float = SCALED_PENALTY
    """Weight of violated constraints."""
    scaled: bool = True
    """Whether objective and constraints are divided by their spread over the initial data first."""
    step: float = 0.25
    """First standard deviation, of the unit cube."""
    population: int | None = None
    """Points of a generation; None: 4 + 3 log d, rounded down (pycma's default)."""

    def __post_init__(self) -> None:
        Merit(self.penalty, self.scaled)
        if not 0.0 < self.step <= 1.0:
            raise SettingError(f"step is a standard deviation in the unit cube, above 0 and at most 1, got {self.step}")
        if self.population is not None and self.population < 3:
            raise SettingError(f"population counts the points of a generation, at least 3, got {self.population}")

    @classmethod
    def paper(cls) -> "CMAES":
        """Return the paper's form: penalty 1e5 in natural units."""
        return cls(penalty=PAPER_PENALTY, scaled=False)

    def start(self, problem: Problem, stream: Stream) -> DrivenRun:
        """Begin a run."""
        try:
            import cma
        except ImportError as error:
            raise MissingExtra("solver 'cma-es'", "cma", "bench") from error

        def routine(start: Start, evaluate: Evaluate) -> str:
            options = cma_options(start.generator.standard_normal, self.population)
            strategy = cma.CMAEvolutionStrategy(start.best, self.step, options)
            while not strategy.stop():
                generation = strategy.ask()
                strategy.tell(generation, [evaluate(u) for u in generation])
            return ", ".join(strategy.stop())

        return DrivenRun(self.name, problem, stream, routine, Merit(self.penalty, self.scaled))


def direct_paper() -> Direct:
    """DIRECT in the paper's form: penalty 1e5, natural units."""
    return Direct.paper()


def bobyqa_paper() -> Bobyqa:
    """BOBYQA in the paper's form: penalty 1e5, natural units, no restarts."""
    return Bobyqa.paper()


def cma_es_paper() -> CMAES:
    """CMA-ES in the paper's form: penalty 1e5, natural units."""
    return CMAES.paper()


def cma_options(normal: Callable[..., Any], population: int | None) -> dict[str, Any]:
    """Return pycma's options: the unit cube, normal numbers from our own stream, and no output."""
    options: dict[str, Any] = {
        "bounds": [0.0, 1.0],
        "randn": lambda *shape: normal(shape),
        "seed": np.nan,  # NaN: pycma leaves NumPy's global generator alone
        "verbose": -9,
        "verb_log": 0,
        "maxfevals": UNLIMITED,
    }
    return options if population is None else options | {"popsize": population}


class _RandomRun(Run):
    def __init__(self, problem: Problem, stream: Stream) -> None:
        self._problem, self._stream = problem, stream

    def ask(self, number: int, data: Dataset) -> Proposal:
        stream, candidates = self._stream.at("trial", number), self._problem.listing
        if candidates is None:
            U = self._problem.drawn(stream.uniform(self._problem.d)[None])
            U = self._problem.settled(U, stream.at("settled"))
            return Proposal(U[0], Why("random"))
        taken = candidates.same(np.concatenate([data.U, data.imagined]) if self._problem.is_exact else data.imagined)
        left = np.setdiff1d(np.arange(len(candidates)), taken, assume_unique=True)
        if not len(left):
            raise SolverDone("every candidate has been measured")
        return Proposal(candidates.U[int(stream.generator().choice(left))], Why("random"))


class _SobolRun(Run):
    def __init__(self, problem: Problem, stream: Stream) -> None:
        self._problem, self._stream = problem, stream

    def ask(self, number: int, data: Dataset) -> Proposal:
        u = self._stream.at("sobol").sobol(number, self._problem.d)[number - 1]
        return Proposal(self._problem.drawn(u), Why("sobol"))
