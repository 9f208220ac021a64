"""Recommend a point from the data, with its value and bounds, whatever solver gathered the data.

Four rules (`RULES`): the best told value; the told point with the best lower bound, now or when it was proposed; or the
best lower bound anywhere in the box where the constraints hold by theirs: a recommendation is a decision, and a place
of which little is known may be better or far worse. Where none hold so surely, the last rule takes the told point with
the best lower bound among those that more probably than not meet all constraints.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy import ndarray

from pied.bounds import (
    Believer,
    Composite,
    SuccessModel,
    TwoRegimes,
    coding_of,
    quantile,
    sure,
    where_success_is_likely,
)
from pied.errors import SettingError, did_you_mean
from pied.gp import GP, ModelChoice
from pied.problem import Problem
from pied.records import Dataset, Why, feasible, spread, tolerances
from pied.rng import Stream
from pied.search import Optimum, Search, exact_weight
from pied.shapes import Bool, Float64
from pied.study.relaxation import searched

RULES = {
    "observed": "the best feasible point by its told values",
    "lower": "the told point with the best penalized lower bound under the current belief",
    "asked": "the told point with the best penalized lower bound at the time it was proposed, equation (14)",
    "anywhere": "the best lower bound of the objective where those of all constraints hold",
}
PROBABLE = 0.5
"""Joint probability from which a told point counts as one that probably meets all constraints."""
NEAREST = 256
"""Told points, the nearest ones, from which a told point is bounded: more distant ones add little, and the time of a
belief grows with the cube of their number. Models are chosen from the same number."""
SURELY_HOME = 0.9
"""Probability that a recommended point is in the regime whose belief recommends it."""
PENALTY_MARGIN = 2.0
"""In largest multipliers seen: weight of the penalty. Beliefs change, and a multiplier is exact only at one optimum."""


@dataclass(frozen=True, eq=False)
class Recommendation:
    """A point and what is known there, in the paper's form and the unit cube."""

    rule: str
    u: Float64[ndarray, "d"]
    row: int | None
    """Its row of the data; None for a point that was not told."""
    value: Float64[ndarray, "k"]
    """Functions there: told (rule "observed"), else their medians."""
    lower: Float64[ndarray, "k"]
    upper: Float64[ndarray, "k"]
    """Bounds there under the current belief; with the rule "observed" they include an exact told value."""
    probability: Float64[ndarray, "n"]
    """Probability that each constraint holds, by the belief."""
    joint: float
    """Probability that all hold together."""
    is_feasible: bool
    """Whether the rule calls the point feasible; if not, it is the least violated one."""
    certified: float | None
    """Certified objective: the told value when exact and feasible, else the lower bound when the lower bounds of all
    constraints hold; None when neither applies."""
    multipliers: tuple[float, ...] = ()
    """Per constraint: the gain per unit of relaxation, where the point was searched for (rule "anywhere")."""

    def with_told(self, f: Float64[ndarray, "k"]) -> "Recommendation":
        """Return the same with the told functions of an exact black box; the bounds are widened to include them."""
        certified = float(f[0]) if self.is_feasible else None
        lower, upper = np.fmin(self.lower, f), np.fmax(self.upper, f)
        value = np.where(np.isfinite(f), f, self.value)
        return replace(self, rule="observed", value=value, lower=lower, upper=upper, certified=certified)


def default_rule(problem: Problem) -> str:
    """Return "observed" for exact black boxes, "anywhere" for noisy ones and on a slice, where few were measured."""
    return "observed" if problem.is_exact and problem.slice is None else "anywhere"


def recommend(
    problem: Problem,
    data: Dataset,
    rule: str | None = None,
    *,
    level: float = 0.95,
    believer: Believer | None = None,
    previous: Sequence[ModelChoice] | None = None,
    asked: Sequence[Why | None] | None = None,
    stream: Stream | None = None,
    search: Search | None = None,
    penalty: float | None = None,
    belief_of: Callable[[], GP] | None = None,
    regimes: TwoRegimes | None = None,
) -> Recommendation | None:
    """Recommend a point from the data; return None when no point was told completely.

    Args:
        problem: The statement.
        data: The told values.
        rule: One of `RULES`; by default `default_rule`.
        level: p of the bounds.
        believer: How the belief is made; CUQB's default.
        previous: Models chosen for the last belief, if recorded.
        asked: Why each row was proposed, for the rule "asked".
        stream: Random numbers of samples and search.
        search: Search for the rule "anywhere"; a list of candidates is enumerated.
        penalty: rho of equation (14), natural units (the paper's: 1e5); None: see `weights`.
        belief_of: Return the belief of all data, if it is known already; by default it is fitted.
        regimes: Where outputs have two regimes, what is known of them.
    """
    rule = rule or default_rule(problem)
    if rule not in RULES:
        raise SettingError(f"unknown rule '{rule}'.{did_you_mean(rule, RULES)}")
    if not bool(data.complete.any()):
        return None
    is_measured = bool((_can_be_set(problem, data) & data.complete).any())
    if problem.slice is not None and rule != "anywhere" and not is_measured:
        raise SettingError(f"rule '{rule}' recommends measured settings, and none were measured with {problem.slice}")
    given = Inputs(
        problem, data, level, believer or Believer(), previous, asked or [None] * len(data.U), stream or Stream(0),
        search, penalty, belief_of, regimes,
    )  # fmt: skip
    if given.believer.trust(problem, data, level).is_too_few:
        return _measured(problem, data) if is_measured or problem.slice is None else None
    return _BY_RULE[rule](given)


def weights(
    lower: Float64[ndarray, "N k"], scales: Float64[ndarray, "k"], asked: Sequence[Why | None]
) -> Float64[ndarray, "n"]:
    """Return rho of equation (14), one per constraint, natural units, large enough for an exact penalty.

    Each weight exceeds the multipliers of all subproblems so far. It is so large that a told point whose lower bounds
    break a constraint never beats one whose bounds hold, and at least one objective scale per constraint scale.

    Args:
        lower: Lower bounds at told points.
        scales: Spread of each function.
        asked: Why points were proposed, with multipliers.
    """
    scaled = lower / scales
    fine = (scaled[:, 1:] >= 0).all(1) & np.isfinite(scaled).all(1)
    among = exact_weight(scaled, float(scaled[fine, 0].max())) if fine.any() else 0.0
    rho = max(1.0, PENALTY_MARGIN * among) * scales[0] / scales[1:]
    for why in asked:
        if why is not None and len(why.multipliers) == len(rho):
            rho = np.maximum(rho, PENALTY_MARGIN * np.array(why.multipliers))
    return rho


def observed_row(problem: Problem, f: Float64[ndarray, "N k"]) -> int:
    """Return the row that the rule "observed" recommends: the best feasible one, else the one least violated."""
    is_feasible = feasible(problem, f)
    if is_feasible.any():
        score = np.where(is_feasible, f[:, 0], -np.inf)
    else:
        spreads = spread(f[np.isfinite(f).all(1)])
        score = -np.maximum(-f[:, 1:] / spreads[1:], 0.0).sum(1)
    return _largest(score)


def _measured(problem: Problem, data: Dataset) -> Recommendation:
    """Return the best told point with nothing but its told values: of others, too few were measured to say anything."""
    f = data.functions(problem)
    row = observed_row(problem, np.where((settable(problem, data) & data.complete)[:, None], f, np.nan))
    limits = np.concatenate([np.zeros_like(f[:, :1]), f[:, 1:]], 1)  # known, also where the objective is not
    unknown, fine = np.full(problem.k, np.inf), bool(feasible(problem, limits)[row])
    return Recommendation(
        "observed", data.U[row], row, f[row], -unknown, unknown, np.full(problem.n, np.nan), np.nan, fine, None
    )


def settable(problem: Problem, data: Dataset) -> Bool[ndarray, "N"]:
    """Tell which told points can be recommended: complete ones in the box and on the grid, or all if there is none."""
    fine = _can_be_set(problem, data)
    return fine if bool((fine & data.complete).any()) else np.ones(len(data.U), dtype=bool)


def _can_be_set(problem: Problem, data: Dataset) -> Bool[ndarray, "N"]:
    """Tell which told points are in the box and on the grid."""
    fine = np.asarray(((data.U >= 0) & (data.U <= 1)).all(1)) & problem.lies_on(data.U)
    return fine if problem.grid is None else fine & problem.grid.has(data.U)


def surely(region: SuccessModel, level: float) -> SuccessModel:
    """Return where settings may be recommended: surely inside, by the level of the bounds on both sides."""
    return region.at(-quantile.normal(0.5 + 0.5 * level))


def succeeded(
    problem: Problem,
    data: Dataset,
    lower: Float64[ndarray, "N k"],
    among: Bool[ndarray, "N"] | bool = True,
) -> int | None:
    """Return the row with the best lower bound where those of all constraints hold; None without one.

    An evaluation has succeeded there, however likely that seems from the others.

    Args:
        problem: The statement.
        data: The told values.
        lower: Lower bounds at the told points.
        among: Which told points may be recommended.
    """
    fine = among & data.complete & _can_be_set(problem, data) & (lower[:, 1:] >= 0).all(1)
    return _largest(np.where(fine, lower[:, 0], -np.inf)) if fine.any() else None


def _largest(scores: Float64[ndarray, "N"]) -> int:
    """Return the row of the largest score; one that is not known comes last."""
    return int(np.nan_to_num(scores, nan=-np.inf).argmax())


@dataclass(frozen=True, eq=False)
class Inputs:
    """The arguments of `recommend`, with defaults filled in; the rules share it."""

    problem: Problem
    data: Dataset
    level: float
    believer: Believer
    previous: Sequence[ModelChoice] | None
    asked: Sequence[Why | None]
    stream: Stream
    search: Search | None
    penalty: float | None
    belief_of: Callable[[], GP] | None
    regimes: TwoRegimes | None

    @cached_property
    def composite(self) -> Composite:
        """The bounds under the belief of all data."""
        return self.bounded(self.data) if self.belief_of is None else self._bound(self.data, self.belief_of())

    def bounded(self, data: Dataset) -> Composite:
        """Return the bounds under the belief of some of the data."""
        if self.belief_of is not None and data is self.data:
            return self.composite
        return self._bound(data, self.believer.fit(self.problem, data, self.previous, imagine=False))

    def _bound(self, data: Dataset, belief: GP) -> Composite:
        return self.believer.said(self.problem, data, belief, self.stream.at("recommend"), self.level)


def _observed(given: Inputs) -> Recommendation:
    """Recommend the best told point by its told values.

    The point is found without a belief; its bounds come from the belief of the points around it (`NEAREST`).
    """
    problem, data = given.problem, given.data
    f = data.functions(problem)
    row = observed_row(problem, np.where(settable(problem, data)[:, None], f, np.nan))
    composite = given.bounded(data.near(data.U[row], NEAREST))
    found = describe(composite, data.U[row], row, "observed", given.level, bool(feasible(problem, f)[row]))
    return found.with_told(f[row]) if default_rule(problem) == "observed" else replace(found, value=f[row])


def _lower(given: Inputs, among: Bool[ndarray, "N"] | bool = True) -> Recommendation:
    """Recommend the told point with the best penalized lower bound under the current belief."""
    lower, _, _ = given.composite.bounds(given.data.U, given.level)
    return _best_told(given, lower, "lower", among)


def _asked(given: Inputs) -> Recommendation:
    """Recommend the told point with the best penalized lower bound at the time it was proposed.

    Those bounds may have been refuted since, so feasibility and certified value also use the current belief.
    """
    found = _best_told(given, _lower_when_proposed(given), "asked")
    holds = bool((found.lower[1:] >= 0).all())
    nearly = found.value[1:] >= -tolerances(given.problem, given.data.functions(given.problem))
    certified = float(found.lower[0]) if holds else None
    return replace(found, is_feasible=found.is_feasible and bool(nearly.all()), certified=certified)


def _anywhere(given: Inputs) -> Recommendation:
    """Recommend the best lower bound where those of all constraints hold; if none is found, by the rule "lower".

    That is among told points that probably meet all constraints, if there are any: the penalty alone would rather take
    one that surely breaks a constraint a little than one of which less is known.
    """
    if given.regimes is not None and (found := _at_home(given, given.regimes)) is not None:
        return found
    problem, data = given.problem, given.data
    success = SuccessModel.fit(data.U, data.failed, coding_of(problem))
    found = _best_of(given, given.composite, given.composite, success)
    if found is not None:
        return found
    probable = (given.composite.probability(data.U)[1] >= PROBABLE) & data.complete & settable(problem, data)
    return _lower(given, probable if probable.any() else True)


def _at_home(given: Inputs, regimes: TwoRegimes) -> Recommendation | None:
    """Recommend a point that surely is in the regime of the best told one, by the belief of that regime."""
    told = regimes.at_home(given.data.U) >= SURELY_HOME
    found = _best_of(given, regimes, regimes.composites[0], regimes.region, told)
    return None if found is None or float(regimes.at_home(found.u[None])[0]) < SURELY_HOME else found


def _best_of(
    given: Inputs,
    said: Composite | TwoRegimes,
    composite: Composite,
    region: SuccessModel | None,
    among: Bool[ndarray, "N"] | bool = True,
) -> Recommendation | None:
    """Return the best lower bound where those of all constraints hold, in a region; None if none is found.

    Where evaluations fail, the search stays away from all of the edge, also from points that succeeded there.

    Args:
        given: What was told.
        said: What is said of the point.
        composite: What is searched.
        region: Where; None: anywhere.
        among: Which told points may be recommended.
    """
    data, found = given.data, []
    best = _searched(given, composite, region)
    if best.satisfied:
        there = describe(said, best.u, None, "anywhere", given.level, True)
        found.append(replace(there, multipliers=tuple(best.multipliers)))
    if given.problem.slice is not None:
        return _surest(given, said, best, region)
    if len(data.failures):
        row = succeeded(given.problem, data, said.bounds(data.U, given.level)[0], among)
        found += [] if row is None else [describe(said, data.U[row], row, "anywhere", given.level, True)]
    return max(found, key=lambda each: float(each.lower[0])) if found else None


def _surest(given: Inputs, said: Composite | TwoRegimes, best: Optimum, region: SuccessModel | None) -> Recommendation:
    """Return the best lower bound on a slice: of the point found there, or of measured settings moved onto it.

    Few settings were measured on a slice itself, and far from all that were the largest median is a guess. So a point
    with bounds wider than all that was measured is left for others. Where no point is known to meet all limits, it is
    the one that comes nearest to them.
    """
    problem, data = given.problem, given.data
    moved = problem.on_equalities(problem.onto(np.clip(data.U, 0.0, 1.0)))
    U = np.concatenate([best.u[None], np.where(problem.lies_on(data.U)[:, None], data.U, moved)])
    lower, _, upper = said.bounds(U, given.level)
    fine = np.asarray((lower[:, 1:] >= 0).all(1))
    fine[0] = best.satisfied  # by the search's own rule: at a limit, rounding decides which side it is on
    fine &= np.isfinite(lower[:, 0])
    if region is not None:
        fine[1:] &= surely(region, given.level).is_likely(U[1:])
    told = data.functions(problem)[:, 0]
    narrow = fine & (upper[:, 0] - lower[:, 0] <= np.ptp(told[np.isfinite(told)]))
    among = narrow if narrow.any() else fine
    if not among.any():
        return describe(said, best.u, None, "anywhere", given.level, False)
    place = int(np.where(among, lower[:, 0], -np.inf).argmax())
    is_told = place > 0 and bool((_can_be_set(problem, data) & data.complete)[place - 1])
    found = describe(said, U[place], place - 1 if is_told else None, "anywhere", given.level, True)
    return replace(found, multipliers=tuple(best.multipliers) if place == 0 else ())


def _searched(given: Inputs, composite: Composite, region: SuccessModel | None) -> Optimum:
    """Search the best lower bound where those of all constraints hold, and a point surely is in a region."""
    problem, stream = given.problem, given.stream.at("anywhere")
    lower, _, _ = composite.bounds(given.data.U, given.level)
    fine, search = (lower[:, 1:] >= 0).all(1), searched(problem, given.search)
    region = None if region is None else surely(region, given.level)
    if region is not None:
        fine, search = fine & region.is_likely(given.data.U), where_success_is_likely(search, region)
    order = (-np.where(fine, lower[:, 0], -np.inf)).argsort(kind="stable")
    known = problem.onto(np.clip(given.data.U[order[:3]], 0.0, 1.0))
    pool = problem.within(search.screen(stream, problem.d, known), stream.at("within"))
    scales = spread(composite.values(pool, [0.5] * problem.k, screening=True))
    pool = problem.on_equalities(pool)
    best = search.solve(sure(composite, given.level), scales, pool, known, stream, rescue=True)
    return best if region is None else region.found(best, search)


_BY_RULE: dict[str, Callable[[Inputs], Recommendation]] = {
    "observed": _observed,
    "lower": _lower,
    "asked": _asked,
    "anywhere": _anywhere,
}
"""One function for each of `RULES`."""


def _best_told(
    given: Inputs, lower: Float64[ndarray, "N k"], rule: str, among: Bool[ndarray, "N"] | bool = True
) -> Recommendation:
    """Recommend the complete told point, of some, whose penalized lower bound is the largest."""
    problem, data = given.problem, given.data
    lower = np.where((among & data.complete & settable(problem, data))[:, None], lower, np.nan)
    spreads = spread(data.functions(problem)[data.complete])
    rho = weights(lower, spreads, given.asked) if given.penalty is None else given.penalty
    weighted = np.concatenate([lower[:, :1], rho * lower[:, 1:]], 1)
    row = _largest(problem.penalized(weighted, 1.0))
    return describe(given.composite, data.U[row], row, rule, given.level, bool((lower[row, 1:] >= 0).all()))


def _lower_when_proposed(given: Inputs) -> Float64[ndarray, "N k"]:
    """Return lower bounds at the time each point was proposed; for initial and added points under the first belief."""
    problem, data, asked = given.problem, given.data, given.asked
    lower = np.full((len(data.U), problem.k), np.nan)
    unscored = []
    for row, why in enumerate(asked):
        if why is not None and why.lower:
            lower[row] = why.lower
        else:
            unscored.append(row)
    if unscored:
        first = data.first(max(2, unscored[-1] + 1 if len(unscored) == len(data.U) else _leading(asked)))
        belief = given.believer.fit(problem, first, imagine=False)
        composite = given.believer.said(problem, first, belief, given.stream.at("first"), given.level)
        lower[unscored] = composite.bounds(data.U[unscored], given.level)[0]
    return lower


def _leading(asked: Sequence[Why | None]) -> int:
    """Return the number of rows before the first one that a belief proposed."""
    return next((row for row, why in enumerate(asked) if why is not None and why.lower), len(asked))


def describe(
    composite: Composite | TwoRegimes,
    u: Float64[ndarray, "d"],
    row: int | None,
    rule: str,
    level: float,
    is_feasible: bool | None = None,
) -> Recommendation:
    """Return bounds and probabilities at a point.

    Args:
        composite: Bounds of all functions.
        u: The point, unit cube.
        row: Row of the data it is, if any.
        rule: Rule that chose it.
        level: p of the bounds.
        is_feasible: Whether the rule calls it feasible; by default, whether the lower bounds of all constraints hold.
    """
    lower, median, upper = (each[0] for each in composite.bounds(u[None], level))
    each, joint = composite.probability(u[None])
    holds = bool((lower[1:] >= 0).all())
    is_feasible = holds if is_feasible is None else is_feasible
    return Recommendation(
        rule=rule,
        u=u,
        row=row,
        value=median,
        lower=lower,
        upper=upper,
        probability=each[0],
        joint=float(joint[0]),
        is_feasible=is_feasible,
        certified=float(lower[0]) if (is_feasible and rule != "observed") or holds else None,
    )
