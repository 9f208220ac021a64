"""The result of a study, in the user's names and units."""

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from html import escape
from typing import Any, Protocol, runtime_checkable

from pied.errors import MissingExtra, SettingError, Status
from pied.measured import is_sided
from pied.problem import Named
from pied.records import Trial
from pied.study.blame import Blame
from pied.study.blocks import BlockOffset
from pied.study.campaigns import Relation, sentences
from pied.study.doubtful import Doubtful, in_python
from pied.study.following import Following
from pied.study.front import Front, FrontPoint
from pied.study.relaxation import Relaxation
from pied.study.words import Margin, Told, Words, counted, failed, failures, short


@runtime_checkable
class Worth(Protocol):
    """What limits and constants are worth, as `sensitivity` computes it, which stands above results."""

    @property
    def limits(self) -> Mapping[str, Any]:
        """A `Sensitivity` for each constraint."""

    @property
    def constants(self) -> Mapping[str, Any]:
        """A `Sensitivity` for each constant."""

    def lines(self, *, briefly: bool = False) -> list[str]:
        """Return them as lines of text."""

    def to_dict(self) -> dict[str, Any]:
        """Return them as data for JSON."""


@dataclass(frozen=True, eq=False)
class Result:
    """The recommended point, its value and bounds, and how the study ended.

    Example: `docs/recipes.md`.
    """

    status: Status
    message: str
    """The status as a sentence, with the relevant numbers."""
    x: Named | None
    """Recommended point, natural units; None before any point was told completely."""
    y: Named | None
    """Outputs there, when the point was evaluated."""
    value: float
    """Objective there, with the user's sign: told (rule "observed"), else the median; NaN while `x` is None."""
    bounds: dict[str, tuple[float, float]]
    """Lower and upper bound of objective and constraints there, by name."""
    slack: dict[str, float]
    """Value of each constraint there: satisfied when >= 0."""
    probability: dict[str, float]
    """Probability that each constraint holds there, by the belief; "all" for all together."""
    is_feasible: bool
    """Whether the rule calls the point feasible; if not, it is the least violated one."""
    gap: float | None
    """Largest possible improvement: the smallest optimistic optimum so far minus the certified value; infinite without
    a certified value, None without a belief."""
    relative_gap: float | None
    """The gap relative to the size of the objective."""
    gap_why: str = field(default="", kw_only=True)
    """Why no gap is told, as a phrase; empty where one is."""
    rule: str
    """Rule of recommendation."""
    trial: int | None
    """Number of the recommended trial; None when the point was not evaluated."""
    trials: tuple[Trial, ...]
    """The whole record."""
    objective: str
    """Name of the objective."""
    level: float
    """Level of the bounds."""
    seed: int
    """Seed of the study, with which it can be repeated."""
    relaxation: Relaxation | None = None
    """If infeasible: the conflict, and what would resolve it."""
    confirmations: tuple[int, int] = (0, 0)
    """How many tests in a row found that no settings meet all limits, and how many make a verdict."""
    chance: float | None = None
    """Probability that any settings meet all limits, by the belief; None where the recommended ones do, or where some
    were never tried of which it cannot be told."""
    untried: tuple[str, ...] = ()
    """While no settings are known to meet all limits: what was never tried and may, as phrases."""
    settings: dict[str, Any] = field(default_factory=dict)
    """Solver and settings, as data."""
    is_too_few: bool = field(default=False, kw_only=True)
    """Whether too few measurements were made to say anything but what was measured: then `x` is the best measured
    point, its bounds are infinite, and no probability is told."""
    given: dict[str, Any] = field(default_factory=dict)
    """The settings that were given: all that is said is said of points with these."""
    block: str = field(default="", kw_only=True)
    """The block whose readings are meant; empty: an average one."""
    words: Words | None = None
    """Names, units and limits with which it prints."""
    front: Front | None = None
    """With several objectives, the best trade-offs; `x` is then the balanced one of them. None with one objective."""
    values: dict[str, float] = field(default_factory=dict)
    """With several objectives, all of them at `x`."""
    sensitivities_of: Callable[[], Worth | None] = field(default=lambda: None, repr=False)
    """Compute `sensitivities`, which takes a search and is therefore done when they are asked for."""

    doubtful_of: Callable[[], tuple[Doubtful, ...]] = field(default=tuple, repr=False)
    """Compute `doubtful`, likewise."""
    blocks_of: Callable[[], tuple[BlockOffset, ...]] = field(default=tuple, repr=False)
    """Compute `blocks`, likewise."""
    campaigns_of: Callable[[], tuple[Relation, ...]] = field(default=tuple, repr=False)
    """Compute `campaigns`, likewise."""
    models_of: Callable[[], tuple[Following, ...]] = field(default=tuple, repr=False)
    """Compute `models`, likewise."""

    blame_of: Callable[[], Blame | None] = field(default=lambda: None, repr=False)
    """Compute `blame`, likewise."""

    @cached_property
    def blame(self) -> Blame | None:
        """What failed trials have changed of the recommendation; None if nothing."""
        return self.blame_of()

    @cached_property
    def doubtful(self) -> tuple[Doubtful, ...]:
        """The measurements that do not fit the others and are probably gross errors, the surest first."""
        return self.doubtful_of()

    @cached_property
    def blocks(self) -> tuple[BlockOffset, ...]:
        """By how much each block (day, operator, batch) reads outputs higher or lower than an average one."""
        return self.blocks_of()

    @cached_property
    def campaigns(self) -> tuple[Relation, ...]:
        """How the outputs of each earlier campaign are related to the present ones, as far as that is known."""
        return self.campaigns_of()

    @cached_property
    def models(self) -> tuple[Following, ...]:
        """Which outputs follow their models, and what is left of them."""
        return self.models_of()

    @cached_property
    def sensitivities(self) -> Worth | None:
        """What limits and constants are worth at the optimum, with bounds; None while no settings meet all limits."""
        return self.sensitivities_of() if self.x is not None and self.is_feasible and not self.is_too_few else None

    @property
    def still(self) -> str:
        """How much better is still possible, or why that is not known, as a phrase; empty if no settings are known."""
        if self.x is None or not self.is_feasible:  # the message says so
            return ""
        if self.gap == 0.0 and self.status is Status.DONE:
            return "nothing better is possible: every setting that can be chosen is known"
        return (self.words or Words()).still(self.gap, self.gap_why)

    @property
    def why(self) -> str:
        """By which rule the settings were chosen, as a sentence; empty where the status or the value says it."""
        if self.is_too_few or not self.is_feasible or self.front is not None:
            return ""
        words, bounds = self.words or Words(), self.bounds[self.objective]
        return words.chosen(self.rule, bounds, self.trial, has_limits=bool(self.slack))

    @property
    def growth(self) -> float | None:
        """With several objectives, how much the front's hypervolume could still grow, relative to what it is."""
        return None if self.front is None else self.front.growth

    def pick(self, **wishes: float) -> FrontPoint:
        """Return one point of the front, see `Front.pick`: `result.pick(profit=80)`; by default the balanced one."""
        if self.front is None:
            raise SettingError("there is one objective, and so one best point: result.x has its settings")
        return self.front.pick(**wishes)

    @property
    def evaluations(self) -> int:
        """Number of proposed trials, which the budget limits."""
        return sum(not trial.is_added for trial in self.trials)

    @property
    def failures(self) -> dict[str, int]:
        """Number of failed trials by reason, the most frequent first; reasons that differ in numbers alone are one."""
        return failures(self.trials)

    @property
    def rungs(self) -> dict[str, int]:
        """Number of proposals that needed a numerical fallback, by its name: "jitter 1e-08", "space-filling"."""
        return dict(Counter(trial.why.rung.partition(":")[0] for trial in self.trials if trial.why.rung != "plain"))

    def __str__(self) -> str:
        return self.told(in_python)

    def told(self, command: Callable[[str, int], str]) -> str:
        """Return the result as text.

        Args:
            command: Returns how to "repeat", "correct", "withdraw" or "fail" the trial of a number.
        """
        words = self.words or Words(objective=short(self.objective))
        lines = [f"For block {self.block}: {self.message}" if self.block else self.message]
        if self.front is not None and len(self.front):
            lines += [f"  {line}" for line in self.front.lines()]
            lines += [f"  balanced choice: {str(self.front.pick()).replace(chr(10), chr(10) + '  ')}"]
        elif self.x is not None:
            is_measured = self.rule == "observed"
            lines.append(f"  {words.worth(self.value, self.bounds[self.objective], is_measured=is_measured)}")
            lines += [f"    {name} = {words.setting(name, value)}" for name, value in self.x.items()]
            lines += [f"  {each.text}" for each in self.limit_lines]
            lines += [f"  {self.still}"] if self.still else []
            lines += [f"  {self.why}"] if self.why and not is_measured else []
            if self.sensitivities is not None:
                lines += [f"  {line}" for line in self.sensitivities.lines(briefly=True)]
        lines.append(f"  {counted(self.trials)}; seed {self.seed}")
        if self.status is not Status.BROKEN:  # whose message quotes them
            lines += [f"    {line}" for line in failed(self.trials)]
        return "\n".join([*lines, *(f"  {line}" for line in self.remarks(command))])

    def remarks(self, command: Callable[[str, int], str] = in_python) -> list[str]:
        """Return what is odd about the record and what to do: failures that changed the answer, values that do not fit.

        Args:
            command: As for `told`.
        """
        changed = [] if self.blame is None else [self.blame.sentence(command)]
        return [*changed, *(each.sentence(command) for each in self.doubtful), *self.group_lines]

    @property
    def group_lines(self) -> list[str]:
        """What is known of blocks that are surely off, of earlier campaigns and of models, as sentences."""
        blocks = (f"{each}." for each in self.blocks if each.is_clear)
        return [*blocks, *sentences(self.campaigns), *(f"{each}." for each in self.models)]

    def plainly(self) -> "Result":
        """Return the same without remarks about the record, to stand beside another result."""
        nothing = dict.fromkeys(("doubtful_of", "blocks_of", "campaigns_of", "models_of"), tuple)
        return replace(self, **nothing, blame_of=lambda: None)  # type: ignore[arg-type]

    def _repr_html_(self) -> str:
        """Return the lines of `print` for a notebook, the value in bold and the settings as a table."""
        if self.x is None:
            return f"<p>{escape(self.message)}</p>"
        if self.front is not None and len(self.front):
            still = "".join(f"<p>{escape(line)}</p>" for line in self.front.still())
            return f"<div><p>{escape(self.message)}</p>{self.front.html()}{still}{self._html_end()}</div>"
        words = self.words or Words(objective=short(self.objective))
        worth = words.worth(self.value, self.bounds[self.objective], is_measured=self.rule == "observed")
        rows = "".join(
            f"<tr><th>{escape(name)}</th><td>{escape(words.setting(name, value))}</td></tr>"
            for name, value in self.x.items()
        )
        limits = "".join(f"<li>{escape(each.text)}</li>" for each in self.limit_lines)
        still = f"<p>{escape(self.still[0].upper() + self.still[1:])}.</p>" if self.still else ""
        return (
            f"<div><p>{escape(self.message)}</p><p><strong>{escape(worth)}</strong></p><table>{rows}</table>"
            f"<ul>{limits}</ul>{still}{self._html_end()}</div>"
        )

    def _html_end(self) -> str:
        """Return what was counted, and what does not fit, as paragraphs."""
        lines = [f"{counted(self.trials)}; seed {self.seed}", *self.remarks()]
        return "".join(f"<p>{escape(line)}</p>" for line in lines)

    def limit_line(self, name: str) -> str:
        """Return what is known about a constraint, as a line: "impurity 0.053, limit 0.060: met (> 99 %)"."""
        return (self.words or Words()).limit(self._margin(name))

    @property
    def limit_lines(self) -> list[Told]:
        """What is known about the limits, a line for each and both its sides; of many, those that bind come first."""
        return (self.words or Words()).limit_lines(self._margin(name) for name in self.slack)

    def _margin(self, name: str) -> Margin:
        slack, (low, high) = self.slack[name], self.bounds[name]
        if self.is_too_few:
            return Margin(name, slack, is_measured=True)
        is_near = slack < 0 and self.is_feasible
        is_known = ((self.words or Words()).is_exact and self.rule == "observed") or not low < high
        probability = None if is_known or is_near else self.probability.get(name)  # the belief ignores tolerances
        return Margin(name, slack, 0.0 if is_known else high - low, probability, is_near)

    def to_dict(self) -> dict[str, Any]:
        """Return the result as data for JSON, with all trials."""
        return {
            "status": self.status.name,
            "message": self.message,
            **({"given": self.given} if self.given else {}),
            **({"block": self.block} if self.block else {}),
            "x": dict(self.x) if self.x is not None else None,
            "y": dict(self.y) if self.y is not None else None,
            "value": _plain(self.value),
            "bounds": {name: [_plain(low), _plain(high)] for name, (low, high) in self.bounds.items()},
            "slack": {name: _plain(value) for name, value in self.slack.items()},
            "probability": self.probability,
            "feasible": self.is_feasible,
            "too_few": self.is_too_few,
            "confirmations": list(self.confirmations),
            "chance": _plain(self.chance),
            "untried": list(self.untried),
            "gap": _plain(self.gap),
            "gap_why": self.gap_why,
            "rule": self.rule,
            "why": self.why,
            "trial": self.trial,
            "evaluations": self.evaluations,
            "seed": self.seed,
            "conflict": list(self.relaxation.conflict) if self.relaxation else [],
            "relaxation": self.relaxation.alone if self.relaxation else {},
            "sensitivities": self.sensitivities.to_dict() if self.sensitivities is not None else None,
            **({"values": self.values, "front": self.front.to_dict()} if self.front is not None else {}),
            "doubtful": [each.to_dict() for each in self.doubtful],
            **({"models": [each.to_dict() for each in self.models]} if self.models else {}),
            **({"blocks": [each.to_dict() for each in self.blocks]} if self.blocks else {}),
            **({"campaigns": [each.to_dict() for each in self.campaigns]} if self.campaigns else {}),
            "failures": self.failures,
            "without_failures": self.blame.to_dict() if self.blame is not None else None,
            "rungs": self.rungs,
            "trials": [_row(trial) for trial in self.trials],
        }

    def to_frame(self) -> Any:
        """Return the record as a pandas DataFrame, one row per trial."""
        try:
            import pandas
        except ImportError as error:
            raise MissingExtra("Result.to_frame", "pandas", "frames") from error
        rows = []
        for trial in self.trials:
            row: dict[str, Any] = {"number": trial.number, "state": trial.state.value, "aim": trial.why.aim}
            row.update(trial.x)
            row.update({name: _number(value) for name, value in trial.y.items()} if trial.y is not None else {})
            row.update(trial.grouped)
            row.update(reason=trial.reason, seconds=trial.why.seconds)
            rows.append(row)
        return pandas.DataFrame(rows).set_index("number") if rows else pandas.DataFrame()


@dataclass(frozen=True, eq=False)
class Revision:
    """The answer to a new question on the same data, and the old optimum for comparison."""

    result: Result
    """The answer to the new question."""
    before: Result | None
    """The old optimum under the new question: its value now, and whether it still meets the constraints."""
    old: Result | None
    """The answer to the old question."""

    def __str__(self) -> str:
        lines = [str(self.result)]
        if self.before is not None:
            lines += ["For comparison:", str(self.before.plainly())]
        return "\n".join(lines)


def _number(value: float) -> Any:
    """Return a told number, or the text of a limit beyond which it lies."""
    return str(value) if is_sided(value) else float(value)


def _told(value: float) -> Any:
    """Return a told number or limit as data for JSON."""
    return str(value) if is_sided(value) else _plain(value)


def _plain(value: float | None) -> float | None:
    """Return a number, or None where JSON has no such number."""
    return None if value is None or not math.isfinite(value) else float(value)


def _row(trial: Trial) -> dict[str, Any]:
    """Return one trial as data for JSON."""
    return {
        "number": trial.number,
        "state": trial.state.value,
        "aim": trial.why.aim,
        "x": dict(trial.x),
        "y": {name: _told(value) for name, value in trial.y.items()} if trial.y is not None else None,
        **trial.grouped,
        "reason": trial.reason,
        "not_the_settings": trial.not_the_settings,
        "seconds": trial.why.seconds,
        "rung": trial.why.rung,
    }
