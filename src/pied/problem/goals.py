"""Several objectives of one problem: each has a name, a function, a sense and perhaps a unit.

The first one is the objective of every place that knows one objective only. The others are `further` goals: functions
of (x, y) like the objective, better if larger once their sign is changed, and without a limit.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pied.errors import StatementError, did_you_mean
from pied.problem import validation
from pied.problem.formula import Scope
from pied.problem.identity import described
from pied.problem.named import Function

MOST_OBJECTIVES = 4
"""Objectives of a problem: the cells above a front grow with a power of their number, and nobody can look at more."""


@dataclass(frozen=True)
class Goal:
    """One of several objectives."""

    name: str
    given: Any
    """A formula or a function, as the user stated it."""
    minimizes: bool

    @property
    def sign(self) -> float:
        """1, or -1 if the smallest value is wanted."""
        return -1.0 if self.minimizes else 1.0

    @property
    def sense(self) -> str:
        """The word of the statement."""
        return "minimize" if self.minimizes else "maximize"


def several_goals(maximize: Any, minimize: Any, name: Any) -> tuple[Goal, ...]:
    """Return the objectives if there are several of them, those to maximize first; nothing if there is at most one.

    Args:
        maximize: As given: one objective, or a dictionary of objectives by their names.
        minimize: The same.
        name: What one objective is called; several have their own names.
    """
    given = ((maximize, False), (minimize, True))
    named = [(each, is_min) for each, is_min in given if isinstance(each, Mapping)]
    goals = tuple(Goal(own, goal, is_min) for each, is_min in named for own, goal in each.items())
    if len(goals) + sum(each is not None and not isinstance(each, Mapping) for each, _ in given) < 2:
        return ()
    if len(named) < sum(each is not None for each, _ in given):
        raise StatementError(
            "With several objectives each has a name: maximize={'profit': ...}, minimize={'energy': ...}."
            if named
            else "The objective is given twice: leave out maximize or minimize, or name both for a front, "
            "maximize={'profit': ...}, minimize={'energy': ...}."
        )
    if len(goals) > MOST_OBJECTIVES:
        raise StatementError(
            f"{len(goals)} objectives are too many, at most {MOST_OBJECTIVES} are possible: make those that matter "
            "least constraints."
        )
    if name is not None:
        raise StatementError("Several objectives have their names in maximize= and minimize=: leave out name=.")
    twice = next((goal.name for goal in goals if sum(goal.name == other.name for other in goals) > 1), None)
    if twice is not None:
        raise StatementError(f"Two objectives are called '{twice}': give each a name of its own.")
    return goals


def read_goals(goals: Sequence[Goal], scope: Scope, taken: Sequence[str]) -> list[tuple[str, Function]]:
    """Return the own name (formula or name of the function) and the function of each further objective."""
    made = []
    for goal in goals:
        own, function = validation.read_objective(goal.given, scope)
        validation.read_name(goal.name, own, taken)
        made.append((own, function))
    return made


def read_units(unit: Any, names: Sequence[str]) -> tuple[str, ...]:
    """Read the units of all objectives: a text if there is one objective, else texts by their names."""
    if len(names) == 1 and not isinstance(unit, Mapping):
        return (validation.read_unit(unit, "unit"),)
    if unit == "":
        return ("",) * len(names)
    if not isinstance(unit, Mapping):
        example = ", ".join(f"'{name}': '...'" for name in names)
        raise StatementError(f"unit should name the unit of each objective, {{{example}}}, got {unit!r}.")
    for name in unit:
        if name not in names:
            raise StatementError(f"unit names '{name}', which is not an objective.{did_you_mean(str(name), names)}")
    return tuple(validation.read_unit(unit.get(name, ""), f"the unit of '{name}'") for name in names)


def stored_goal(goal: Goal, own: str, function: Function, unit: str) -> dict[str, Any]:
    """Describe a further objective for storage."""
    return {
        **described(own, function),
        "sense": goal.sense,
        "called": goal.name,
        **({"unit": unit} if unit else {}),
    }


def restored_goals(statement: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return `maximize`, `minimize` and `unit` of a stored question of several objectives; None without formulas.

    Args:
        statement: The stored statement; one objective has no "further".
    """
    first = statement["objective"]
    rows = [
        {**first, "sense": statement["sense"], "called": statement.get("called", first["name"]),
         "unit": statement.get("unit", "")},
        *statement["further"],
    ]  # fmt: skip
    if any("formula" not in row for row in rows):
        return None
    made: dict[str, Any] = {"unit": {row["called"]: row.get("unit", "") for row in rows}}
    for row in rows:
        made.setdefault(row["sense"], {})[row["called"]] = row["formula"]
    return made
