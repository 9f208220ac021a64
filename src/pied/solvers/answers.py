"""With what a study answers: the belief behind its statements, and how they are tested."""

from dataclasses import dataclass, field

from pied.bounds import Believer, Level


@dataclass(frozen=True)
class Answers:
    """How a study answers, by its solver; the defaults are those of `CUQB`, for solvers without such a belief."""

    level: Level = 0.95
    """p of the bounds that are said."""
    believer: Believer = field(default_factory=Believer)
    """How the belief is made."""
    penalty: float | None = None
    """rho of the recommendation (14), natural units; None: from the multipliers of the subproblems."""
    tests_singly: bool = False
    """Whether one constraint is tested at a time, as in the paper, so that one test is a verdict."""
    rule: str | None = None
    """The rule of recommendation; None: by whether the outputs are exact."""
