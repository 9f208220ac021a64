"""Expected improvement with constraints: in closed form on the folded problem, or from samples of the composite one.

`EIC` (Gardner et al. 2014), `EICCF` (the paper's sample mean with a sigmoid for the indicator) and `LogEICF`, the same
in log space with the smoothing of Ament et al. (2023), which keeps a slope where the expected improvement vanishes.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import ClassVar

from pied.bounds import Believer
from pied.errors import SettingError
from pied.problem import Problem
from pied.records import Why
from pied.rivals.closed_form import ClosedForm
from pied.rivals.folded import FoldedRun, folded_believer
from pied.rivals.settings import BeliefSolver
from pied.rng import Stream
from pied.search import Optimum, PenaltySearch
from pied.solvers.acquisition import Acquisition, incumbent, maximize
from pied.solvers.cuqb import CUQB
from pied.solvers.frame import BayesRun, Settings
from pied.solvers.sampled import SAMPLES, SCREENING, TEMPERATURE, Sampled
from pied.solvers.scene import Scene


class ImprovementRun(BayesRun):
    """One run: improve on the incumbent, or find a feasible point first."""

    def __init__(
        self,
        settings: Settings,
        problem: Problem,
        stream: Stream,
        acquire: Callable[[Scene, float | None], Acquisition],
    ) -> None:
        super().__init__(settings, problem, stream)
        self._acquire = acquire

    def _explore(self, scene: Scene) -> tuple[Optimum, Why]:
        best = incumbent(scene)
        found = maximize(self._acquire(scene, best), scene)
        return found, Why("feasibility" if best is None else "improve")


def paper_believer() -> Believer:
    """Return the models of `CUQB.paper()`, which the paper uses for all its solvers."""
    return CUQB.paper().believer


@dataclass(frozen=True, kw_only=True)
class EIC(BeliefSolver):
    """Expected improvement times probability of feasibility, black-box: on values of the functions, in closed form."""

    name: ClassVar[str] = "eic"
    lists: ClassVar[bool] = True

    log: bool = True
    """Whether the logarithm is maximized; the product itself underflows to zero over most of the box."""
    believer: Believer = field(default_factory=folded_believer)
    """Candidate models."""

    @classmethod
    def paper(cls) -> "EIC":
        """Return the paper's: models and search of `CUQB.paper()`, the product itself."""
        return cls(log=False, verify_every=None, believer=paper_believer(), search=PenaltySearch())

    def start(self, problem: Problem, stream: Stream) -> FoldedRun:
        """Begin a run on the folded problem."""

        def acquire(scene: Scene, best: float | None) -> Acquisition:
            return ClosedForm(scene.composite, scene.belief.warps, best, scene.scales, self.log)

        model = replace(self.believer.model, plateaus=False)  # what is cut off is not normal on any scale
        uncut = replace(self, believer=replace(self.believer, model=model))
        return FoldedRun(problem, lambda folded: ImprovementRun(uncut, folded, stream, acquire))


@dataclass(frozen=True, kw_only=True)
class EICCF(BeliefSolver):
    """Expected improvement with constraints of composite functions: improvement times a sigmoid, mean over samples."""

    name: ClassVar[str] = "eic-cf"
    lists: ClassVar[bool] = True

    samples: int = SAMPLES
    """Base samples while solving."""
    screening: int = SCREENING
    """Base samples while screening many points."""
    temperature: float = TEMPERATURE
    """Width of the sigmoid that replaces the indicator."""
    relative: bool = True
    """Whether the width is a fraction of each constraint's standard deviation at the point, which shrinks with the
    uncertainty and does not depend on units; False: natural units."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_samples(self.samples, self.screening, self.temperature)

    @classmethod
    def paper(cls) -> "EICCF":
        """Return the paper's: models and search of `CUQB.paper()`, 50 samples, the temperature of its scripts."""
        return cls(
            samples=50,
            screening=50,
            temperature=1e-4,
            relative=False,
            verify_every=None,
            believer=paper_believer(),
            search=PenaltySearch(),
        )

    def start(self, problem: Problem, stream: Stream) -> ImprovementRun:
        """Begin a run."""

        def acquire(scene: Scene, best: float | None) -> Acquisition:
            settings = (self.samples, self.screening, self.temperature, self.relative)
            return Sampled(scene.composite, best, scene.scales, *settings, is_log=False)

        return ImprovementRun(self, problem, stream, acquire)


@dataclass(frozen=True, kw_only=True)
class LogEICF(BeliefSolver):
    """Log expected improvement with constraints of composite functions; its smooth tails do not underflow."""

    name: ClassVar[str] = "logei-cf"
    lists: ClassVar[bool] = True

    samples: int = SAMPLES
    """Base samples while solving."""
    screening: int = SCREENING
    """Base samples while screening many points."""
    temperature: float = TEMPERATURE
    """Width over which improvement and indicators are smoothed, relative to each function's standard deviation."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_samples(self.samples, self.screening, self.temperature)

    def start(self, problem: Problem, stream: Stream) -> ImprovementRun:
        """Begin a run."""

        def acquire(scene: Scene, best: float | None) -> Acquisition:
            settings = (self.samples, self.screening, self.temperature)
            return Sampled(scene.composite, best, scene.scales, *settings, is_relative=True, is_log=True)

        return ImprovementRun(self, problem, stream, acquire)


def check_samples(samples: int, screening: int, temperature: float) -> None:
    """Refuse settings that are out of range."""
    if samples < 2 or screening < 2:
        raise SettingError(f"an expectation needs at least 2 samples, got {samples} and {screening}")
    if not temperature > 0:
        raise SettingError(f"the temperature is a width above 0, got {temperature}")


def eic_paper() -> EIC:
    """EIC with the models and the search of the paper."""
    return EIC.paper()


def eic_cf_paper() -> EICCF:
    """EIC-CF with the models, the search, the 50 samples and the temperature of the paper."""
    return EICCF.paper()
