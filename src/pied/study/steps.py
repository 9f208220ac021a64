"""Steps from where the equipment stands: how far settings may move for the next trial, as given ranges."""

from collections.abc import Mapping, Sequence
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


def _present(problem: Problem, trials: Sequence[Trial], present: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return where the equipment stands: as the last measured trial, or as it is said."""
    told = [trial for trial in trials if trial.state in (State.TOLD, State.PARTIAL)]
    for name in present or {}:
        if name not in problem.variables:
            raise UnknownName(f"'{name}' is not a variable.{did_you_mean(name, problem.variables)}", name)
    return (dict(told[-1].x) if told else {}) | dict(present or {})
