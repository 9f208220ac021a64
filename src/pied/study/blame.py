"""What failures have changed: the recommendation if none of them had anything to do with the settings."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pied.problem import Named, Problem
from pied.study.words import Words

if TYPE_CHECKING:
    from pied.study.recommendation import Recommendation

MATTERS = 0.02
"""Of the width of the objective's bounds: by less than this, failures have not changed a recommendation."""
MOST_NAMED = 6
"""Failed trials that are named by their numbers; of more, the number is told."""


@dataclass(frozen=True)
class Blame:
    """Other settings would be recommended if the failures had nothing to do with the settings."""

    trials: tuple[int, ...]
    """Numbers of the failed trials."""
    x: Named
    """The settings that would be recommended."""
    value: float
    """Objective there."""
    text: str
    """All of it as a sentence."""

    def sentence(self, command: Callable[[str, int], str]) -> str:
        """Return what the failures have changed and what to do.

        Args:
            command: Returns how to say that a trial "fail"-ed for another reason than its settings.
        """
        which = "it" if len(self.trials) == 1 else "one of them"
        return f"{self.text} If {which} failed for another reason than its settings: {command('fail', self.trials[0])}"

    def to_dict(self) -> dict[str, Any]:
        """Return it as data for JSON."""
        return {"trials": list(self.trials), "x": dict(self.x), "value": self.value, "message": self.text}


def blame_of(
    problem: Problem, numbers: Sequence[int], found: "Recommendation", other: "Recommendation"
) -> Blame | None:
    """Return what failures have changed of a recommendation; None if they have not.

    Args:
        problem: The statement.
        numbers: Numbers of the failed trials.
        found: What is recommended.
        other: What would be if they had nothing to do with the settings.
    """
    gain, width = float(other.value[0] - found.value[0]), float(found.upper[0] - found.lower[0])
    if not other.is_feasible or (found.is_feasible and not gain > MATTERS * width):
        return None
    x, value = problem.named_x(problem.natural(other.u)), problem.user_value(float(other.value[0]))
    words = Words.of(problem)
    low, high = sorted(problem.user_value(float(each)) for each in (other.lower[0], other.upper[0]))
    settings = ", ".join(f"{name} = {words.setting(name, each)}" for name, each in x.items())
    said = f"{words.worth(value, (low, high), is_measured=False)} at {settings}"
    near = "it" if len(numbers) == 1 else "them"
    text = f"{_named(numbers)} failed, and settings near {near} are avoided: else the answer would be {said}."
    return Blame(tuple(numbers), x, value, text)


def _named(numbers: Sequence[int]) -> str:
    """Return failed trials as a phrase."""
    if len(numbers) > MOST_NAMED:
        return f"{len(numbers)} trials"
    *others, last = map(str, numbers)
    return f"Trials {', '.join(others)} and {last}" if others else f"Trial {last}"
