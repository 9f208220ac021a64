"""Observed variables are given, never chosen: a proposal needs their present values, an answer takes the last ones."""

from collections.abc import Iterable, Mapping
from typing import Any

from pied.errors import SettingError, ways
from pied.problem import Problem
from pied.records import State, Trial


def check_present(problem: Problem, given: Mapping[str, Any]) -> None:
    """Refuse a proposal without the present value of each observed variable."""
    for name in problem.observed:
        if name not in given:
            value = _example(problem, name)
            way = ways().given.format(name=name, value=value, pair=f"{name}={value}")
            raise SettingError(f"'{name}' is measured, not chosen: say what it is now, {way}")
        if isinstance(given[name], list | tuple):
            raise SettingError(f"'{name}' is measured: it has one value now, not a range")


def _example(problem: Problem, name: str) -> Any:
    """Return a value that it may have."""
    variable = problem.variables[name]
    if variable.is_choice:
        return variable.labels[0]
    middle = float(f"{(variable.lo + variable.hi) / 2:.4g}")
    nearest = min(variable.levels(), key=lambda each: abs(each - middle)) if variable.is_stepped else middle
    return variable.at(nearest)


def at_present(problem: Problem, trials: Iterable[Trial], given: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return given settings, with the observed values of the last measured trial where they are not among them."""
    here = dict(given or {})
    told = [trial for trial in trials if trial.state in (State.TOLD, State.PARTIAL)]
    for name in problem.observed if told else ():
        variable = problem.variables[name]
        value = told[-1].x[name]
        if name not in here:  # a value a little outside of the range is data; what is said holds for its end
            here[name] = value if variable.is_choice else min(max(value, variable.lo), variable.hi)
    return here
