"""What the status of a study says as a sentence: how far it is, why it ended, which limits are in conflict."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from pied.errors import Status, is_everywhere
from pied.problem import listed
from pied.study.moment import DESIGNED, Moment
from pied.study.relaxation import Relaxation
from pied.study.words import REASONS_SHOWN, Words, failures, percent

if TYPE_CHECKING:
    from pied.study.recommendation import Recommendation


def message(
    moment: Moment,
    status: Status,
    relaxation: Relaxation | None,
    found: "Recommendation | None",
    outlook_of: Callable[[], tuple[tuple[str, ...], float | None]],
) -> str:
    """Return the status as a sentence, with the relevant numbers.

    Args:
        moment: The study.
        status: Its status.
        relaxation: What would make an infeasible problem plausible again, if it is known.
        found: What is recommended, if anything is.
        outlook_of: Returns what was never tried, and the probability that any settings meet all limits, which take a
            belief.
    """
    if status is Status.INFEASIBLE and relaxation is not None:
        return _verdict(moment, relaxation)
    if status is Status.BROKEN:
        return _broken(moment)
    if not moment.trials:
        return "Nothing has been evaluated yet."
    text = status.value if moment.problem.slice is None else f"Given {moment.problem.slice}. {status.value}"
    if (
        moment.used
        and not moment.is_exhausted
        and all(trial.why.aim in (*DESIGNED, "added") for trial in moment.trials)
    ):
        text += (
            f" The first {moment.initial} points are spread over the ranges; after them each one is chosen."
            if status is Status.RUNNING
            else f" It ended within the first {moment.initial} points, which are spread over the ranges; "
            f"give a budget above {moment.initial}."
        )
    if found is not None and not found.is_feasible:
        said = "" if status is Status.INFEASIBLE or moment.patience is None else _outlook(moment, *outlook_of())
        text += f" No settings are known to meet all limits{said}. Closest so far:"
    return text


def _no_settings(moment: Moment) -> str:
    """Return what a verdict says, and of which slice."""
    part = moment.problem.slice
    return "No settings meet all limits" if part is None else f"No settings with {part} meet all limits"


def _outlook(moment: Moment, untried: Sequence[str], chance: float | None) -> str:
    """Return how near the verdict is that no settings can meet all limits, as a phrase."""
    text = confirmed(moment)
    if untried:
        return f"{text}; never tried: {'; '.join(untried)}"
    return text if chance is None else f"{text}; probability that any do: {percent(chance)}"


def confirmed(moment: Moment) -> str:
    """Return how many tests confirm that no settings meet all limits, as a phrase; empty if none do."""
    if moment.patience is None or not moment.confirmations or moment.is_met:
        return ""
    return f"; {moment.confirmations} of {moment.needed} confirmations that there are none"


def _broken(moment: Moment) -> str:
    """Return a message: how many evaluations failed, why, and what to do."""
    if moment.never_came:
        count = sum(trial.y is not None for trial in moment.trials)
        return (
            f"The black box never gave {listed(moment.never_came)} in {count} evaluations (missing, None or not "
            "finite): mend it, or leave this output out, then run again."
        )
    reasons = failures(moment.trials)
    shown = [f"{count} x {reason}" for reason, count in list(reasons.items())[:REASONS_SHOWN]]
    others = sum(list(reasons.values())[REASONS_SHOWN:])
    shown += [f"{others} x other reasons"] if others else []
    text = f"{Status.BROKEN.value} {sum(reasons.values())} of {moment.used} failed. Reasons: {' | '.join(shown)}"
    if all(is_everywhere(reason) for reason in reasons):
        return f"{text} | Such a mistake cannot depend on the settings: mend what is evaluated, then run again."
    return f"{text} | Mend what is evaluated, or add settings where it works, then go on."


def _verdict(moment: Moment, relaxation: Relaxation) -> str:
    """Return a message: no point meets the constraints, which of them are in conflict, and what would help."""
    quoted = " and ".join(f"'{name}'" for name in relaxation.conflict)
    together = " together" if len(relaxation.conflict) > 1 else ""
    if moment.white is not None:
        where = "within the ranges" if moment.problem.candidates is None else "by any candidate"
        where = where if moment.problem.slice is None else f"with {moment.problem.slice}"
        white = [moment.problem.functions[place] for place in moment.problem.white]
        where = where if set(relaxation.conflict) <= set(white) else "by any value within the stated ranges"
        text = f"No settings meet the known limits: {quoted} cannot be met{together} {where}."
        text += " Nothing needed to be evaluated." if not moment.used else ""
    elif moment.is_exhausted:
        few = 0 if moment.problem.choosable is None else len(moment.problem.choosable)
        text = f"{_no_settings(moment)}: all {few} that can be chosen were tried."
    else:
        count = f"{moment.patience} confirmation{'s' * (moment.patience != 1)}"
        test = "one at a time" if moment.settings.tests_singly else count
        text = f"{_no_settings(moment)}: {quoted} cannot be met{together} ({test}, {moment.used} evaluations)."
    words = Words.of(moment.problem)
    helps = [words.relaxed(name, amount) for name, amount in relaxation.alone.items() if amount is not None]
    if helps:
        text += f" Feasible perhaps with {' or '.join(helps)}."
    return text
