"""What the rivals with a belief share: their settings."""

from dataclasses import dataclass, field

from pied.bounds import Believer, checked_level
from pied.errors import SettingError
from pied.search import PenaltySearch, Search
from pied.solvers.base import Solver


@dataclass(frozen=True, kw_only=True)
class BeliefSolver(Solver):
    """Settings of every rival with a belief, named as in `CUQB`."""

    level: float = 0.95
    """p of the bounds that verify and that are recorded, and of the rival's own bounds if it has some."""
    verify_every: int | None = 3
    """A trial verifies after this many, as in `CUQB`; None: never."""
    believer: Believer = field(default_factory=Believer)
    """Candidate models, and the estimator of quantiles."""
    search: Search | PenaltySearch = field(default_factory=Search)
    """How the subproblem is solved."""
    strict: bool = False
    """Whether a numerical failure is raised; by default a more robust step is tried."""

    def __post_init__(self) -> None:
        """Refuse settings that are out of range."""
        if not isinstance(checked_level(self.level), int | float):
            raise SettingError(
                f"level of solver '{self.name}' is one number: only 'cuqb' has a schedule of levels, or "
                "one for each function"
            )
        if self.verify_every is not None and self.verify_every < 1:
            raise SettingError(f"verify_every counts trials from 1, or is None for never, got {self.verify_every}")
