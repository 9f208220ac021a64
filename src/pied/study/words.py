"""Results in the words of people at the bench: the quantity, its limit, its unit, and no digit that means nothing."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pied.errors import IT_SAID, LAST_WORDS
from pied.problem import Limit, Problem
from pied.records import State, Trial, Why

MOST_DIGITS = 9
"""Significant digits of an exact number."""
PLAIN_DIGITS = 6
"""Significant digits of a number whose uncertainty is not known."""
SETTING_STEP = 1e-4
"""In ranges of a variable: steps smaller than this are not shown where outputs are noisy."""
LONGEST_QUANTITY = 40
"""Characters of a quantity that is written out; a longer one is called by the constraint's name."""
LONGEST_NAME = 24
"""Characters of the name of an objective; a longer one, a formula, becomes "objective"."""
SURE, LIKELY = 0.9, 0.5
"""Probabilities from which a limit counts as met, and as probably met."""
REASONS_SHOWN = 3
"""Reasons of failure that are quoted, the most frequent first; the rest are counted."""
LONGEST_REASON = 110
"""Characters of a reason of failure on one line; the trial has all of it."""
_DIGITS = re.compile(r"[-+]?[0-9]+(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?")
AIMS = {
    "initial": "one of the first points, spread over the ranges",
    "explore": "may be better than the best so far",
    "improve": "may be better than the best so far",
    "verify": "expected to be the best that meets all limits",
    "probe": "checks whether the best is one: off a limit of the ranges, or in a setting beside it",
    "widen": "a second look for something better",
    "feasibility": "looks for settings that meet all limits",
    "narrow": "narrows down where the best may lie",
    "spread": "far from all earlier points",
    "sweep": "sharpens a curve over constants or limits",
    "fill": "far from all earlier points",
    "repeat": "measured again",
    "compare": "evaluated again",
}
"""Why a point is proposed, in plain words."""
REASONS = {"repeat": "as asked", "compare": "to see whether it gives the same values"}
"""Why a trial is repeated, if not to average out the noise."""


def places(width: float) -> int:
    """Return how many decimals a number has whose uncertainty is this wide: two digits of the uncertainty."""
    return 1 - math.floor(math.log10(width))


def figure(value: float, width: float | None = None) -> str:
    """Return a number with as many digits as its uncertainty leaves a meaning; nine if it has none."""
    if not math.isfinite(value):
        return f"{value:g}"
    if width is None:
        return f"{value:.{PLAIN_DIGITS}g}"
    if not 0 < width < math.inf or width < abs(value) * 10.0 ** (1 - MOST_DIGITS):
        return f"{value:.{MOST_DIGITS}g}"
    decimals = places(width)
    short = round(value, decimals)
    if short and (abs(short) < 1e-4 or abs(short) >= 1e9):
        return f"{short:.{max(1, decimals + 1 + math.floor(math.log10(abs(short))))}g}"
    return f"{short + 0.0:.{max(decimals, 0)}f}"


def about(value: float) -> str:
    """Return a number with two digits, for something that is only roughly known."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    short = float(f"{value:.2g}")
    return f"{short:.2g}" if abs(short) < 100 else f"{short:.0f}" if abs(short) < 1e9 else f"{short:.1e}"


def percent(probability: float) -> str:
    """Return a probability in percent: "> 99 %", "73 %"."""
    return "> 99 %" if probability > 0.99 else "< 1 %" if probability < 0.01 else f"{100 * probability:.0f} %"


def short(name: str) -> str:
    """Return a short name: a long formula becomes "objective"."""
    return name if len(name) <= LONGEST_NAME else "objective"


def titled(name: str) -> str:
    """Return what stands before a number: a plain name, or a formula with an equals sign."""
    return name if name.replace("_", "").replace(" ", "").isalnum() else f"{name} ="


def counted(trials: Sequence[Trial]) -> str:
    """Return how many trials there are: "15 proposed (14 measured, 1 failed), 10 older"."""
    states = [trial.state for trial in trials if not trial.is_added]
    words = ((State.TOLD, "measured"), (State.PARTIAL, "measured in part"), (State.ASKED, "open"),
             (State.FAILED, "failed"), (State.WITHDRAWN, "withdrawn"))  # fmt: skip
    parts = [f"{states.count(state)} {word}" for state, word in words if state in states]
    older = len(trials) - len(states)
    text = f"{len(states)} proposed" + (f" ({', '.join(parts)})" if parts else "")
    return text + (f", {older} older" if older else "")


def failures(trials: Iterable[Trial]) -> dict[str, int]:
    """Return how many trials failed for each reason, the most frequent first.

    Reasons that differ in their numbers alone are one, in the words of the first: a simulator often names the point. Of
    the last words of a program only the last line counts, which tells most; those of a function stay with the trial.
    """
    kinds: dict[str, str] = {}
    counts: Counter[str] = Counter()
    for trial in trials:
        if trial.state is State.FAILED:
            how, said, last = trial.reason.strip().partition(LAST_WORDS)[0].partition(IT_SAID)
            end = said + last.rpartition("\n")[2]
            counts[kinds.setdefault(_DIGITS.sub("#", how.partition("\n")[0] + end), how + end)] += 1
    return dict(counts.most_common())


def failed(trials: Iterable[Trial]) -> list[str]:
    """Return why trials failed, a line for each of the most frequent reasons."""
    found = failures(trials)
    lines = [f"{count} failed: {' '.join(reason.split())}" for reason, count in list(found.items())[:REASONS_SHOWN]]
    lines = [line if len(line) <= LONGEST_REASON else f"{line[:LONGEST_REASON]}..." for line in lines]
    others = sum(list(found.values())[REASONS_SHOWN:])
    return lines + ([f"{others} failed for other reasons"] if others else [])


@dataclass(frozen=True)
class Words:
    """Names, units and limits of a problem, with which its answers are told."""

    objective: str = ""
    unit: str = ""
    """Of the objective."""
    units: Mapping[str, str] = field(default_factory=dict)
    """Of variables and outputs that have one."""
    limits: Mapping[str, Limit] = field(default_factory=dict)
    """Constraints that compare one quantity with a number."""
    ranges: Mapping[str, tuple[float, float, bool]] = field(default_factory=dict)
    """Ends of each variable, and whether its scale is logarithmic."""
    is_exact: bool = False
    """Whether evaluations have no noise."""

    @classmethod
    def of(cls, problem: Problem) -> "Words":
        """Take the words of a problem."""
        units = {name: each.unit for name, each in problem.variables.items() if each.unit} | problem.units
        ends = {name: (each.lo, each.hi, each.log) for name, each in problem.variables.items()}
        is_exact = all(noise == 0 for noise in problem.noise)
        return cls(short(problem.objective), problem.unit, units, problem.limits(), ends, is_exact)

    def united(self, text: str, name: str) -> str:
        """Return a number with the unit of a variable or output."""
        unit = self.units.get(name, "")
        return f"{text} {unit}" if unit else text

    def setting(self, name: str, value: Any) -> str:
        """Return the value of a variable with its unit; steps that make no difference are left out."""
        if isinstance(value, str | int):
            return self.united(str(value), name)
        low, high, is_log = self.ranges.get(name, (0.0, 0.0, False))
        if self.is_exact or not high > low:
            return self.united(f"{value:.{MOST_DIGITS}g}", name)
        step = SETTING_STEP * (value * math.log(high / low) if is_log else high - low)
        return self.united(f"{round(value, places(step) - 1):.12g}", name)

    def still(self, gap: float | None) -> str:
        """Return how much better is still possible; empty where that is not known."""
        if gap is None or not math.isfinite(gap):
            return ""
        if gap == 0.0:
            return "nothing better is expected"
        return f"at most about {about(gap)}{f' {self.unit}' if self.unit else ''} better is still possible"

    def worth(self, value: float, bounds: tuple[float, float], *, is_measured: bool) -> str:
        """Return the objective: measured or not, and where it probably is."""
        low, high = bounds
        name = titled(self.objective)
        unit = f" {self.unit}" if self.unit else ""
        if self.is_exact and is_measured:
            return f"{name} {figure(value, 0.0)}{unit}"
        if not low < high:
            return f"{name} {figure(value, 0.0)}{unit}"
        ends = f"{figure(low, high - low)} to {figure(high, high - low)}"
        shown = figure(value, high - low)
        if is_measured:
            return f"{name} {shown}{unit} measured; true value probably {ends}"
        return f"{name} about {shown}{unit} (probably {ends})"

    def limit(
        self,
        name: str,
        slack: float,
        bounds: tuple[float, float] | None,
        probability: float | None,
        *,
        is_near: bool = False,
    ) -> str:
        """Return a constraint: "impurity 0.053, limit 0.060: met (> 99 %)".

        Args:
            name: Its name.
            slack: Its value: met when >= 0.
            bounds: Of its value.
            probability: That it holds; None where it is known whether it does.
            is_near: Whether it is violated within its tolerance.
        """
        low, high = bounds or (slack, slack)
        return f"{self._margin(name, slack, high - low)} {_met(slack, probability, is_near)}"

    def _margin(self, name: str, slack: float, width: float) -> str:
        known = self.limits.get(name)
        if known is None or len(known.quantity) > LONGEST_QUANTITY:
            return f"{name}: margin {figure(slack, width) if width > 0 else f'{slack:.4g}'},"
        value = figure(known.quantity_at(slack), width) if width > 0 else f"{known.quantity_at(slack):.{PLAIN_DIGITS}g}"
        end = f"{known.value:.{PLAIN_DIGITS}g}"
        decimals = len(value.partition(".")[2]) if "e" not in value else 0
        if "e" not in end and len(end.partition(".")[2]) < decimals <= PLAIN_DIGITS:
            end = f"{known.value:.{decimals}f}"
        word = "limit" if known.is_upper else "at least"
        value, end = self.united(value, known.quantity), self.united(end, known.quantity)
        return f"{titled(known.quantity)} {value}, {word} {end}:"

    def relaxed(self, name: str, amount: float) -> str:
        """Return what a limit would have to be: "yield >= 0.87"."""
        known = self.limits.get(name)
        if known is None:
            return f"'{name}' relaxed by {amount:.2g}"
        value = known.quantity_at(-amount)
        step = 10.0 ** (math.floor(math.log10(amount)) - 1) if amount > 0 else 1.0
        value = step * (math.ceil(value / step - 1e-9) if known.is_upper else math.floor(value / step + 1e-9))
        return f"{known.quantity} {known.sign} {self.united(f'{value:.{PLAIN_DIGITS}g}', known.quantity)}"


def _met(slack: float, probability: float | None, is_near: bool) -> str:
    if is_near:
        return "met within its tolerance"
    if probability is None:
        return "met" if slack >= 0 else "NOT met"
    if slack >= 0:
        word = "met" if probability >= SURE else "probably met" if probability >= LIKELY else "perhaps met"
    else:
        word = "NOT met" if probability <= 1 - SURE else "probably not met"
    return f"{word} ({percent(probability)})"


def expectation(problem: Problem, why: Why) -> str:
    """Return what is expected of a proposed trial, as a phrase."""
    text = AIMS.get(why.aim, why.aim)
    if why.repeats is not None:
        text = f"repeats trial {why.repeats}, {REASONS.get(why.aim, 'to average out the noise')}"
    if not why.lower:
        return text
    low, high = sorted((problem.user_value(why.lower[0]), problem.user_value(why.upper[0])))
    unit = f" {problem.unit}" if problem.unit else ""
    ends = " to ".join(figure(end, high - low) for end in (low, high))
    return f"{text}; {short(problem.objective)} probably {ends}{unit}"
