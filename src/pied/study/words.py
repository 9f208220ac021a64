"""Results in the words of people at the bench: the quantity, its limit, its unit, and no digit that means nothing."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pied.errors import IT_SAID, LAST_WORDS
from pied.problem import Limit, Problem, said
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
SIDES = (" (1)", " (2)")
"""Ends of the names of the two constraints that a limit from both sides is."""
MOST_LIMITS, NEAR_LIMITS = 8, 5
"""Limits that are all listed; of more, so many of those that come nearest, beside all that are not met for sure."""
REASONS_SHOWN = 3
"""Reasons of failure that are quoted, the most frequent first; the rest are counted."""
LONGEST_REASON = 110
"""Characters of a reason of failure on one line; the trial has all of it."""
_DIGITS = re.compile(r"[-+]?[0-9]+(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?")
AIMS = {
    "initial": "one of the first points, spread over the ranges",
    "start": "given to begin with",
    "explore": "may be better than the best so far",
    "improve": "may be better than the best so far",
    "verify": "expected to be the best that meets all limits",
    "probe": "checks whether the best is one: off a limit of the ranges, or in a setting beside it",
    "widen": "a second look for something better",
    "feasibility": "looks for settings that meet all limits",
    "safe": "may be better, and is sure to meet the limits",
    "edge": "shows how far settings go that meet the limits",
    "narrow": "narrows down where the best may lie",
    "spread": "far from all earlier points",
    "sweep": "sharpens a curve over constants or limits",
    "settle": "narrows most what is still possible",
    "posterior": "shows most of how sure the parameters are",
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


def aligned(lines: Sequence[Sequence[str]]) -> str:
    """Return rows of cells as text, each column as wide as its widest cell."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join("  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) for line in lines)


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
class Margin:
    """What is known about a constraint at a point."""

    name: str
    slack: float
    """Its value: met when >= 0."""
    width: float = 0.0
    """Of the bounds of its value; 0 where it is known."""
    probability: float | None = None
    """That it holds; None where it is known whether it does."""
    is_near: bool = False
    """Whether it is violated within its tolerance."""
    is_measured: bool = False
    """Whether nothing is known but a measurement with its noise."""

    @property
    def is_sure(self) -> bool:
        """Whether it is known to hold, or all but known."""
        return self.is_near or (self.slack >= 0 and (self.probability is None or self.probability >= SURE))

    @property
    def said(self) -> str:
        """Whether it holds, in words."""
        if self.is_measured:
            return "met as measured" if self.slack >= 0 else "NOT met as measured" if self.slack < 0 else "not known"
        if self.is_near:
            return "met within its tolerance"
        if self.probability is None:
            return "met" if self.slack >= 0 else "NOT met"
        if self.slack >= 0:
            word = "met" if self.is_sure else "probably met" if self.probability >= LIKELY else "perhaps met"
        else:
            word = "NOT met" if self.probability <= 1 - SURE else "probably not met"
        return f"{word} ({percent(self.probability)})"

    def joined(self, other: "Margin") -> "Margin":
        """Return what is known about both sides of a quantity: it breaks one of them at most."""
        least = min(self, other, key=lambda each: each.slack)
        chances = (self.probability, other.probability)
        both = None if None in chances else max(sum(chances) - 1.0, 0.0)  # type: ignore[arg-type]
        stems = [each.name.removesuffix(end) for each, end in ((self, SIDES[0]), (other, SIDES[1]))]
        name = stems[0] if stems[0] == stems[1] else f"{self.name}, {other.name}"
        return Margin(
            name, least.slack, max(self.width, other.width), both, self.is_near or other.is_near, self.is_measured
        )


class Told(NamedTuple):
    """A line about a limit."""

    name: str
    """Of the constraint; empty where the line is about several."""
    text: str
    is_met: bool


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
    minimizes: bool = False
    """Whether a small objective is good."""

    @classmethod
    def of(cls, problem: Problem) -> "Words":
        """Take the words of a problem."""
        units = {name: each.unit for name, each in problem.variables.items() if each.unit} | problem.units
        ends = {name: (each.lo, each.hi, each.log) for name, each in problem.variables.items()}
        known = problem.limits()
        return cls(short(problem.objective), problem.unit, units, known, ends, problem.is_exact, problem.minimizes)

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

    def still(self, gap: float | None, why: str = "") -> str:
        """Return how much better is still possible, or why that is not known; empty where there is no reason either."""
        if gap is None or not math.isfinite(gap):
            return f"how much better is possible is not known: {why}" if why else ""
        if gap == 0.0:
            return "nothing better is expected"
        return f"at most about {about(gap)}{f' {self.unit}' if self.unit else ''} better is still possible"

    def worth(self, value: float, bounds: tuple[float, float], *, is_measured: bool) -> str:
        """Return the objective: measured or not, and where it probably is; of a wide range, the range comes first."""
        low, high = bounds
        name = titled(self.objective)
        unit = f" {self.unit}" if self.unit else ""
        if math.isnan(value):  # of outputs that are known by a limit alone
            return f"{self.objective} not known: an output was told as a limit, and measurements are too few to say"
        if is_measured and math.isinf(low) and math.isinf(high):
            return f"Too few measurements to say; best measured so far: {self.objective} {value:.4g}{unit}"
        if self.is_exact and is_measured:
            return f"{name} {figure(value, 0.0)}{unit}"
        if not low < high:
            return f"{name} {figure(value, 0.0)}{unit}"
        ends = f"{figure(low, high - low)} to {figure(high, high - low)}"
        shown = figure(value, high - low)
        if is_measured:
            return f"{name} {shown}{unit} measured; true value probably {ends}"
        if high - low > abs(value):
            return f"{name} probably {ends}{unit}"
        return f"{name} about {shown}{unit} (probably {ends})"

    def chosen(self, rule: str, bounds: tuple[float, float], trial: int | None, *, has_limits: bool) -> str:
        """Return by which rule settings that meet the limits were chosen, as a sentence."""
        where = "" if trial is None else f" (trial {trial})"
        if rule == "observed":
            among = "measured settings that meet the limits" if has_limits else "measured settings"
            return f"Of all {among}, these are the best{where}."
        if rule != "anywhere":
            return f"Of all measured settings, these are the best by a cautious estimate{where}."
        low, high = bounds
        word = f"at most {figure(high, high - low)}" if self.minimizes else f"at least {figure(low, high - low)}"
        among = "Of all settings whose limits hold by a cautious estimate" if has_limits else "Of all settings"
        return f"{among}, these have the best cautious value: {word}{f' {self.unit}' if self.unit else ''}{where}."

    def limit(self, margin: Margin, other: Margin | None = None) -> str:
        """Return a constraint, or both sides of one: "impurity 0.053, limit 0.060: met (> 99 %)"."""
        both = margin if other is None else margin.joined(other)
        known = [self.limits.get(each.name) for each in (margin, other) if each is not None]
        quantity = "" if known[0] is None else known[0].quantity
        if known[0] is None or len(quantity) > LONGEST_QUANTITY:
            shown = figure(both.slack, both.width) if both.width > 0 else f"{both.slack:.4g}"
            return f"{both.name}: margin {shown}, {both.said}"
        at = known[0].quantity_at(margin.slack)
        value = figure(at, both.width) if both.width > 0 else f"{at:.{PLAIN_DIGITS}g}"
        value = "told as a limit" if math.isnan(at) else value
        decimals = len(value.partition(".")[2]) if "e" not in value else 0
        ends = sorted(each.value for each in known if each is not None)
        end = self.united(" to ".join(_as_precise(each, decimals) for each in ends), quantity)
        word = "limits" if other is not None else "limit" if known[0].is_upper else "at least"
        return f"{titled(quantity)} {self.united(value, quantity)}, {word} {end}: {both.said}"

    def limit_lines(self, margins: Iterable[Margin]) -> list[Told]:
        """Return a line for each limit, one for both sides of a quantity; of many, the nearest and how many more."""
        pairs = self._by_quantity(margins)
        joined = [pair[0] if len(pair) == 1 else pair[0].joined(pair[1]) for pair in pairs]
        order = list(range(len(pairs)))
        if len(order) > MOST_LIMITS:
            order.sort(key=lambda place: (joined[place].is_sure, self._distance(joined[place], pairs[place])))
            order = order[: max(NEAR_LIMITS, sum(not each.is_sure for each in joined))]
        lines = [
            Told(joined[place].name, self.limit(*pairs[place]), joined[place].slack >= 0 or joined[place].is_near)
            for place in order
        ]
        rest = [joined[place] for place in set(range(len(pairs))).difference(order)]
        if rest:
            chances = [each.probability for each in rest if each.probability is not None]
            least = percent(min(chances, default=1.0))
            sure = f" (each {least if least.startswith('>') else f'at least {least}'})" if chances else ""
            lines.append(Told("", f"{len(rest)} more limit{'s' * (len(rest) > 1)}: met{sure}", True))
        return lines

    def _by_quantity(self, margins: Iterable[Margin]) -> list[tuple[Margin, ...]]:
        """Return the constraints one by one, a lower and an upper limit of the same quantity together."""
        found: dict[str, list[Margin]] = {}
        for each in margins:
            known = self.limits.get(each.name)
            found.setdefault(f"'{each.name}'" if known is None else known.quantity, []).append(each)
        made: list[tuple[Margin, ...]] = []
        for group in found.values():
            is_pair = len(group) == 2 and len({self.limits[each.name].is_upper for each in group}) == 2
            made += [tuple(group)] if is_pair else [(each,) for each in group]
        return made

    def _distance(self, margin: Margin, sides: tuple[Margin, ...]) -> tuple[float, float]:
        """Return how far a limit is from being broken: its probability, then its margin relative to the limit."""
        known = self.limits.get(min(sides, key=lambda each: each.slack).name)
        size = abs(known.value) if known is not None and known.value else 1.0
        return 1.0 if margin.probability is None else margin.probability, margin.slack / size

    def relaxed(self, name: str, amount: float) -> str:
        """Return what a limit would have to be: "yield >= 0.87"."""
        known = self.limits.get(name)
        if known is None:
            return f"'{name}' relaxed by {amount:.2g}"
        value = known.quantity_at(-amount)
        step = 10.0 ** (math.floor(math.log10(amount)) - 1) if amount > 0 else 1.0
        value = step * (math.ceil(value / step - 1e-9) if known.is_upper else math.floor(value / step + 1e-9))
        return f"{known.quantity} {known.sign} {self.united(f'{value:.{PLAIN_DIGITS}g}', known.quantity)}"


def _as_precise(value: float, decimals: int) -> str:
    """Return a limit with as many decimals as the quantity has, or more."""
    end = f"{value:.{PLAIN_DIGITS}g}"
    if "e" not in end and len(end.partition(".")[2]) < decimals <= PLAIN_DIGITS:
        return f"{value:.{decimals}f}"
    return end


def given_text(given: Mapping[str, Any]) -> str:
    """Return given settings as people write them: "T = 80, p from 2 to 3"."""
    return ", ".join(said(name, value) for name, value in given.items())


def expectation(problem: Problem, why: Why) -> str:
    """Return what is expected of a proposed trial, as a phrase."""
    text = AIMS.get(why.aim, why.aim)
    if why.repeats is not None:
        text = f"repeats trial {why.repeats}, {REASONS.get(why.aim, 'to average out the noise')}"
    if why.given:
        text += f"; given {given_text(why.given)}"
    if not why.lower:
        return text
    low, high = sorted((problem.user_value(why.lower[0]), problem.user_value(why.upper[0])))
    unit = f" {problem.unit}" if problem.unit else ""
    ends = " to ".join(figure(end, high - low) for end in (low, high))
    return f"{text}; {short(problem.objective)} probably {ends}{unit}"
