"""What if prices or limits were others: one answer in full, from the belief that is there, without a fit or a write."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pied.errors import StatementError, UnknownName, did_you_mean
from pied.problem import Problem, listed
from pied.study.outlook import Answer, Outlook
from pied.study.recommendation import Recommendation, describe
from pied.study.result import Result
from pied.study.sensitivity import limit_prices
from pied.study.snapshot import Snapshot


@dataclass(frozen=True, eq=False)
class Scenario:
    """The answer to a question that was not asked of the record."""

    answer: Answer
    """The best settings, as `Study.what_if` returns them."""
    result: Result
    """The same with the margins of all limits, in words."""
    prices: dict[str, tuple[float, tuple[float, float]]]
    """Shadow price of each limit that can move: the gain in the objective per unit that it is relaxed, and where this
    probably lies; empty if no settings are known to meet all limits."""
    remark: str
    """What prices do not say, and why."""
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


def what_if(outlook: Outlook, problem: Problem) -> Scenario:
    """Answer another question with the same variables and outputs: settings, bounds, margins, gap and shadow prices.

    Args:
        outlook: The study at one moment; at least two evaluations must have been told.
        problem: The other question (see `changed`), or the same one.
    """
    if problem.has_front:
        raise StatementError(
            f"what-if needs one objective, and there are {listed(problem.objectives)}: ask a study of one of them with "
            "limits for the others"
        )
    is_same = problem is outlook.problem or problem.statement() == outlook.problem.statement()
    other = outlook if is_same else outlook.under(problem)
    answer, snapshot = other.answer({}), other.snapshot
    found = _recommended(other, answer)
    status, relaxation = snapshot.status, snapshot.relaxation()
    result = snapshot.described(found, status, snapshot.message(status, relaxation, found), found.rule, relaxation)
    prices, remark = ({}, "") if answer.u is None else limit_prices(other, answer)
    still = other.still(answer)
    result = replace(result, gap=still.width, relative_gap=still.relative, gap_why=still.why, blame_of=lambda: None)
    return Scenario(answer, result, prices, remark, snapshot)


def _recommended(outlook: Outlook, answer: Answer) -> Recommendation:
    """Return what is known at the settings of an answer; if it has none, at the told ones that are closest."""
    problem, level = outlook.problem, outlook.level
    if answer.u is None:
        closest = outlook.snapshot.recommend(None)
        assert closest is not None
        return closest
    row = None if answer.trial is None else outlook.data.numbers.index(answer.trial)
    rule = "anywhere" if row is None else "observed"
    found = describe(outlook.composite(problem), answer.u, row, rule, level, True)
    return found if row is None else found.with_told(outlook.data.functions(problem)[row])
