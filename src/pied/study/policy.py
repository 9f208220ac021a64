"""The best settings as a function of observed variables: a policy."""

import csv
import io
import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pied.errors import SettingError, UnknownName, did_you_mean
from pied.problem import Problem, Variable, listed
from pied.study.result import Result
from pied.study.words import Words, aligned, figure, percent, places, short

if TYPE_CHECKING:
    from pied.study.snapshot import Snapshot

POINTS = 5
"""Values of an observed variable in a policy, if none are given."""
MOST_POINTS = 400
"""Rows of a policy: each takes about as long as a result."""
SEEN = 0.15
"""Share of its range within which an observed value must have been measured for a row to rest on measurements."""


@dataclass(frozen=True, eq=False)
class Policy:
    """The best settings at each of several values of the observed variables."""

    names: tuple[str, ...]
    """The observed variables."""
    results: tuple[Result, ...]
    """What is known at each point, `Result.given` says of which; rows follow the last name fastest."""
    seen: tuple[bool, ...]
    """For each point, whether anything was measured near these values."""
    problem: Problem
    """The statement."""

    @property
    def settings(self) -> tuple[str, ...]:
        """The variables that are chosen."""
        return tuple(name for name in self.problem.variables if name not in self.names)

    @property
    def columns(self) -> list[str]:
        """The headings of its table."""
        value = short(self.problem.objective)
        return [*self.names, *self.settings, value, f"{value} at least", f"{value} at most", "limits met", "known"]

    def rows(self) -> list[dict[str, Any]]:
        """Return its table, a dictionary for each point; what is not known is None."""
        return [
            dict(zip(self.columns, self._row(each, seen), strict=True))
            for each, seen in zip(self.results, self.seen, strict=True)
        ]

    def _row(self, result: Result, seen: bool) -> list[Any]:
        here = [result.given[name] for name in self.names]
        if result.x is None:
            return [*here, *(None for _ in self.settings), None, None, None, None, _known(result, seen)]
        low, high = result.bounds[result.objective]
        numbers = [value if math.isfinite(value) else None for value in (result.value, low, high)]
        settings = (result.x[name] for name in self.settings)
        return [*here, *settings, *numbers, result.probability.get("all"), _known(result, seen)]

    def to_csv(self) -> str:
        """Return its table as CSV."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows(["" if each is None else each for each in row.values()] for row in self.rows())
        return text.getvalue()

    def to_dict(self) -> dict[str, Any]:
        """Return the policy as data for JSON."""
        return {"names": list(self.names), "objective": self.problem.objective, "points": self.rows()}

    def texts(self) -> list[list[str]]:
        """Return headings and rows as text, with no more digits than the bounds leave a meaning."""
        words = Words.of(self.problem)
        value = short(self.problem.objective) + (f" [{self.problem.unit}]" if self.problem.unit else "")
        heads = [*self.names, *self.settings, value, "probably", "limits met", "known"]
        lines = [self._line(each, seen, words) for each, seen in zip(self.results, self.seen, strict=True)]
        return [heads, *lines]

    def __str__(self) -> str:
        """Return its table."""
        return aligned(self.texts())

    def _line(self, result: Result, seen: bool, words: Words) -> list[str]:
        here = [words.setting(name, result.given[name]) for name in self.names]
        if result.x is None:
            return [*here, *("-" for _ in self.settings), "-", "-", "-", _known(result, seen)]
        low, high = result.bounds[result.objective]
        width, met = high - low, result.probability.get("all")
        ends = f"{figure(low, width)} to {figure(high, width)}" if 0 < width < math.inf else "-"
        settings = [words.setting(name, result.x[name]) for name in self.settings]
        chance = "-" if met is None else percent(met)
        return [*here, *settings, figure(result.value, width), ends, chance, _known(result, seen)]


def _known(result: Result, seen: bool) -> str:
    """Say how far a row can be relied on."""
    if result.x is None or not result.is_feasible:
        return "no settings known that meet the limits"
    return "yes" if seen else "nothing measured near these values"


def policy_of(snapshot: "Snapshot", values: Mapping[str, Any]) -> Policy:
    """Return the best settings at each combination of values of the observed variables.

    Args:
        snapshot: The study.
        values: The values by name; without a name, some between the smallest and the largest measured one.
    """
    problem = snapshot.problem
    if not problem.observed:
        raise SettingError("a policy needs observed variables: state them, Observed(-5, 35), or ask for a sweep")
    for name in values:
        if name not in problem.observed:
            raise UnknownName(f"'{name}' is not an observed variable.{did_you_mean(name, problem.observed)}", name)
    axes = {name: _axis(problem.variables[name], snapshot, name, values.get(name)) for name in problem.observed}
    count = math.prod(len(axis) for axis in axes.values())
    if not count:
        raise SettingError(f"no values are given for {listed([name for name, axis in axes.items() if not axis])}")
    if count > MOST_POINTS:
        raise SettingError(f"a policy has at most {MOST_POINTS} rows, got {count}: take fewer values")
    points = [dict(zip(axes, point, strict=True)) for point in itertools.product(*axes.values())]
    results = tuple(snapshot.on(point).result() for point in points)
    return Policy(tuple(axes), results, tuple(_is_seen(snapshot, point) for point in points), problem)


def _axis(variable: Variable, snapshot: "Snapshot", name: str, given: Any) -> list[Any]:
    """Return the values of one observed variable."""
    if given is not None:
        return [given] if isinstance(given, str) else [_plain(each) for each in np.atleast_1d(given)]
    if variable.is_choice:
        return list(variable.labels)
    told = [float(trial.x[name]) for trial in snapshot.trials if trial.y is not None]
    if not told:
        raise SettingError("nothing was measured yet: tell some trials first")
    low, high = (min(max(end, float(variable.lo)), float(variable.hi)) for end in (min(told), max(told)))
    if variable.is_stepped:
        levels = [each for each in variable.levels() if low <= each <= high]
        return levels[:: max(1, len(levels) // POINTS)]
    if low == high:
        return [low]
    even = np.geomspace(low, high, POINTS) if variable.log else np.linspace(low, high, POINTS)
    digits = places(high - low) + 1
    return [min(max(round(float(each), digits), low), high) for each in even]


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _is_seen(snapshot: "Snapshot", point: Mapping[str, Any]) -> bool:
    """Tell whether something was measured near these values of the observed variables."""
    problem, U = snapshot.problem, snapshot.data.U
    part = problem.sliced(point)
    if part.slice is None or part.is_turned or not len(U):
        return bool(len(U))
    fixed = part.slice.is_fixed
    is_label = np.array([each.is_choice for each in problem.axes.values()])[fixed]
    far = np.abs(U[:, fixed] - part.slice.low[fixed])
    return bool((far <= np.where(is_label, 1e-9, SEEN)).all(1).any())
