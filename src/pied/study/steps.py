"""From where the equipment stands: how far settings may move for the next trial, and what moving them costs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from pied.errors import SettingError, UnknownName, did_you_mean
from pied.problem import Problem
from pied.problem import said as given_text
from pied.records import State, Trial


def stepped(
    problem: Problem,
    trials: Sequence[Trial],
    max_step: Mapping[str, float],
    present: Mapping[str, Any] | None = None,
    given: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return given settings with a range for each variable that may move by so much only.

    Args:
        problem: The statement.
        trials: The record; the equipment stands where the last one was measured.
        max_step: How far each may move, natural units.
        present: Where they stand instead, by name.
        given: Settings that are given anyway.

    Raises:
        SettingError: When it is not known where the equipment stands, or what is given lies farther away.
    """
    found, here = dict(given or {}), _present(problem, trials, present)
    for name, most in max_step.items():
        if name not in problem.variables:
            raise UnknownName(
                f"'{name}' may move by {most}, but is not a variable.{did_you_mean(name, problem.variables)}"
            )
        variable = problem.variables[name]
        if variable.is_choice:
            raise SettingError(f"'{name}' is a label: it has no steps; give it, given={{'{name}': ...}}, to keep it")
        if isinstance(most, bool) or not isinstance(most, int | float) or not most > 0:
            raise SettingError(f"max_step of '{name}' is a distance above 0, got {most!r}")
        if name not in here:
            raise SettingError(
                f"it is not known where '{name}' stands: nothing was measured yet; say it, present={{...}}"
            )
        at = min(max(float(here[name]), float(variable.lo)), float(variable.hi))
        low, high = at - most, at + most
        if name in found:
            ends = found[name] if isinstance(found[name], list | tuple) else (found[name], found[name])
            low, high = max(low, ends[0]), min(high, ends[1])
            if low > high:
                raise SettingError(
                    f"{given_text(name, found[name])} is more than {most:g} away from the present {at:g}"
                )
        found[name] = low if low == high else (low, high)
    return found


@dataclass(frozen=True)
class Stay:
    """Some settings left as they are."""

    given: dict[str, Any]
    saved: float
    """What is not spent on changing them, units of the objective."""


MOST_COSTLY = 3
"""Settings with a cost of changing them: each combination that stays is a proposal of its own."""


def stays(
    problem: Problem,
    trials: Sequence[Trial],
    cost: Mapping[str, float],
    present: Mapping[str, Any] | None,
    given: Mapping[str, Any],
) -> tuple[Stay, ...]:
    """Return each combination of settings that may be left as they are, with what that saves.

    Args:
        problem: The statement.
        trials: The record; the equipment stands where the last one was measured.
        cost: What it costs to change each setting.
        present: Where they stand instead, by name.
        given: Settings that are given anyway.
    """
    here = _present(problem, trials, present)
    for name, each in cost.items():
        if name not in problem.variables:
            raise UnknownName(f"'{name}' has a cost, but is not a variable.{did_you_mean(name, problem.variables)}")
        if isinstance(each, bool) or not isinstance(each, int | float) or not each >= 0:
            raise SettingError(f"change_cost of '{name}' is a number of the objective's units, 0 or more, got {each!r}")
    costly = [name for name in cost if name in here and name not in given]
    if len(costly) > MOST_COSTLY:
        raise SettingError(f"at most {MOST_COSTLY} settings can have a cost of changing them, got {len(costly)}")
    return tuple(
        Stay({**given, **{name: here[name] for name in names}}, sum(cost[name] for name in names))
        for count in range(1, len(costly) + 1)
        for names in combinations(costly, count)
    )


def _present(problem: Problem, trials: Sequence[Trial], present: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return where the equipment stands: as the last measured trial, or as it is said."""
    told = [trial for trial in trials if trial.state in (State.TOLD, State.PARTIAL)]
    for name in present or {}:
        if name not in problem.variables:
            raise UnknownName(f"'{name}' is not a variable.{did_you_mean(name, problem.variables)}", name)
    return (dict(told[-1].x) if told else {}) | dict(present or {})
