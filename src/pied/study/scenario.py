"""What if prices or limits were others: an answer from the belief that is there, without a fit and without a write."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pied.errors import StatementError, UnknownName, did_you_mean
from pied.problem import Problem
from pied.study.prospect import possible_gain
from pied.study.result import Result
from pied.study.snapshot import Snapshot


@dataclass(frozen=True, eq=False)
class Scenario:
    """The answer to a question that was not asked of the record."""

    result: Result
    """The best settings anywhere, with bounds, margins and gap."""
    prices: dict[str, float]
    """Shadow price of each constraint: how much better the objective becomes per unit that it is relaxed."""
    snapshot: Snapshot
    """The data under this question, for pictures."""


def changed(
    problem: Problem, *, constants: Mapping[str, float] | None = None, limits: Mapping[str, float] | None = None
) -> Problem:
    """Return a question with other constants and limits.

    Args:
        problem: The question.
        constants: New values of constants that are single numbers; the others stay.
        limits: New limits by the names in `Problem.movable_limits`.
    """
    numbers = [name for name, value in problem.constants.items() if isinstance(value, float)]
    for name in constants or {}:
        if name not in numbers:
            raise UnknownName(f"'{name}' is not a numeric constant.{did_you_mean(name, numbers)}", name)
    made = problem
    if constants:
        made = made.revised(constants={**made.constants, **{name: float(each) for name, each in constants.items()}})
    return made.with_limits({name: float(each) for name, each in limits.items()}) if limits else made


def what_if(snapshot: Snapshot, problem: Problem) -> Scenario:
    """Answer another question with the same variables and outputs: settings, bounds, margins, gap and shadow prices.

    Args:
        snapshot: The study at one moment; at least two evaluations must have been told.
        problem: The other question (see `changed`), or the same one.
    """
    if int(snapshot.data.complete.sum()) < 2:
        raise StatementError("this needs a belief: tell at least two complete evaluations first")
    other = snapshot.under(problem)
    found = other.recommend("anywhere")
    assert found is not None
    result = other.described(found, other.status, other.message(other.status, None, found), "anywhere")
    width = possible_gain(other.composite("recommend"), found, other.settings.level, other.stream.at("scenario"))
    weights = found.multipliers or (0.0,) * problem.n
    return Scenario(replace(result, gap=width), dict(zip(problem.constraints, map(float, weights), strict=True)), other)
