"""Which point to return, what it is worth, and how sure that is: independent of the solver that gathered the data.

Four rules (`RULES`): the best point as observed, the told point with the best pessimistic bound now or as it stood when
it was asked, or the best pessimistic point anywhere in the box.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float64
from torch import Tensor

from pied.bounds import Believer, Composite, SuccessModel, White, optimistic, pessimistic, where_success_is_likely
from pied.errors import SettingError, did_you_mean
from pied.gp import Choice
from pied.problem import Problem
from pied.records import Dataset, Why, feasible, spread, tolerances
from pied.rng import Stream
from pied.search import Enumeration, Picked, Search, exact_weight, white_feasible

RULES = {
    "observed": "the best feasible point as observed",
    "lower": "the told point with the best penalized lower bound under the current belief",
    "asked": "the told point with the best penalized lower bound as it stood when it was asked, equation (14)",
    "anywhere": "the best median objective in the whole box where the lower bounds of all constraints hold",
}
NEAREST = 256
"""Told points, the nearest ones, by which an observed point is bounded: what lies beyond them says little about it, and
the belief of all takes time that grows with the cube of their number. A model is chosen from as many."""
SAFETY = 2.0  # of the largest multiplier seen: beliefs change, and a multiplier holds at one optimum


@dataclass(frozen=True, eq=False)
class Recommendation:
    """A point, and what is known there; paper's form, unit cube."""

    rule: str
    u: Float64[Tensor, "d"]
    row: int | None
    """Row of the data it is; None for a point that was not told."""
    value: Float64[Tensor, "k"]
    """Functions there: as observed (rule "observed"), else their medians."""
    lower: Float64[Tensor, "k"]
    upper: Float64[Tensor, "k"]
    """Bounds there under the current belief; by the rule "observed" an exact observation lies within them."""
    probability: Float64[Tensor, "n"]
    """That each constraint holds, by the belief."""
    joint: float
    """That all hold together."""
    is_feasible: bool
    """Whether the rule found a point it calls feasible; if not, the least violated one is returned."""
    certified: float | None
    """What the point is certain to be worth: the observed value when exact and feasible, else its lower bound when the
    lower bounds of all constraints hold; None when neither can be said."""

    def measured(self, f: Float64[Tensor, "k"]) -> "Recommendation":
        """Return the same with what an exact black box made of the point; bounds that smoothed over it reach it too."""
        certified = float(f[0]) if self.is_feasible else None
        lower, upper = torch.fmin(self.lower, f), torch.fmax(self.upper, f)
        return replace(self, rule="observed", value=f, lower=lower, upper=upper, certified=certified)


def default_rule(problem: Problem) -> str:
    """Return "observed" for exact black boxes, "anywhere" for noisy ones."""
    return "observed" if all(noise == 0 for noise in problem.noise) else "anywhere"


def recommend(
    problem: Problem,
    data: Dataset,
    rule: str | None = None,
    *,
    level: float = 0.95,
    believer: Believer | None = None,
    previous: Sequence[Choice] | None = None,
    asked: Sequence[Why | None] | None = None,
    stream: Stream | None = None,
    search: Search | None = None,
    penalty: float | None = None,
) -> Recommendation | None:
    """Recommend a point from a record; None when nothing was told completely.

    Args:
        problem: The statement.
        data: What was told.
        rule: One of `RULES`; by default `default_rule`.
        level: p of the bounds.
        believer: How the belief is made; CUQB's default.
        previous: Choices of the last belief, where one was written down.
        asked: Per row why it was asked, for the rule "asked".
        stream: Randomness of samples and search.
        search: Search of the rule "anywhere"; a list of candidates is enumerated.
        penalty: rho of equation (14), natural units (the paper's: 1e5); None: see `weights`.
    """
    rule = rule or default_rule(problem)
    if rule not in RULES:
        raise SettingError(f"unknown rule '{rule}'.{did_you_mean(rule, RULES)}")
    if not bool(data.complete.any()):
        return None
    believer, stream = believer or Believer(), stream or Stream(0)
    if rule == "observed":
        return _observed(problem, data, believer, previous, level, stream)
    belief = believer.fit(problem, data, previous)
    composite = believer.bound(problem, data, belief, stream.at("recommend"))
    if rule == "anywhere":
        found = _anywhere(problem, data, composite, level, _searching(problem, search), stream)
        if found is not None:
            return found
        rule = "lower"
    if rule == "asked":
        lower = _as_asked(problem, data, believer, level, asked or [None] * len(data.U), stream)
    else:
        lower, _, _ = composite.bounds(data.U, level)
    lower = torch.where(data.complete[:, None], lower, torch.nan)
    rho = weights(lower, spread(data.functions(problem)[data.complete]), asked or ()) if penalty is None else penalty
    weighted = torch.cat([lower[:, :1], rho * lower[:, 1:]], 1)
    row = int(torch.nan_to_num(problem.penalized(weighted, 1.0), nan=-torch.inf).argmax())
    is_feasible = bool((lower[row, 1:] >= 0).all())
    found = _describe(composite, data.U[row], row, rule, level, is_feasible)
    if rule != "asked":
        return found
    # Bounds as they stood may have been refuted since: what is known now has the last word.
    holds = bool((found.lower[1:] >= 0).all())
    nearly = found.value[1:] >= -tolerances(problem, data.functions(problem))
    certified = float(found.lower[0]) if holds else None
    return replace(found, is_feasible=is_feasible and bool(nearly.all()), certified=certified)


def _searching(problem: Problem, search: Search | None) -> Search | Enumeration:
    """How a subproblem over all that can be chosen is solved."""
    return search or Search(brevity=0.0) if problem.candidates is None else Enumeration.of(problem.candidates)


def weights(
    lower: Float64[Tensor, "N k"], scales: Float64[Tensor, "k"], asked: Sequence[Why | None]
) -> Float64[Tensor, "n"]:
    """Return rho of equation (14), one per constraint, natural units, for which the penalty is exact.

    Above the multipliers of the subproblems so far, near their optima; and large enough that no told point that may
    break a constraint beats one that surely does not. At least one scale of the objective for one of the constraint.

    Args:
        lower: Lower bounds at told points.
        scales: One scale per function.
        asked: Why points were asked, with multipliers.
    """
    scaled = lower / scales
    fine = (scaled[:, 1:] >= 0).all(1) & torch.isfinite(scaled).all(1)
    among = exact_weight(scaled, float(scaled[fine, 0].max())) if bool(fine.any()) else 0.0
    rho = max(1.0, SAFETY * among) * scales[0] / scales[1:]
    for why in asked:
        if why is not None and len(why.multipliers) == len(rho):
            rho = torch.maximum(rho, SAFETY * torch.tensor(why.multipliers, dtype=torch.float64))
    return rho


def observed_row(problem: Problem, f: Float64[Tensor, "N k"]) -> int:
    """Return the row that the rule "observed" recommends: the best feasible one, else the least scaled violation."""
    is_feasible = feasible(problem, f)
    if bool(is_feasible.any()):
        score = torch.where(is_feasible, f[:, 0], -torch.inf)
    else:
        spreads = spread(f[torch.isfinite(f).all(1)])
        score = -((-f[:, 1:] / spreads[1:]).clamp_min(0.0).sum(1))
    return int(torch.nan_to_num(score, nan=-torch.inf).argmax())


def _observed(
    problem: Problem,
    data: Dataset,
    believer: Believer,
    previous: Sequence[Choice] | None,
    level: float,
    stream: Stream,
) -> Recommendation:
    """Recommend the best told point by its told values.

    The point is found without a belief; its bounds come from the belief of the points around it (`NEAREST`).
    """
    f = data.functions(problem)
    row = observed_row(problem, f)
    around = data.near(data.U[row], NEAREST)
    composite = believer.bound(problem, around, believer.fit(problem, around, previous), stream.at("recommend"))
    found = _describe(composite, data.U[row], row, "observed", level, bool(feasible(problem, f)[row]))
    return found.measured(f[row]) if default_rule(problem) == "observed" else replace(found, value=f[row])


def _anywhere(
    problem: Problem, data: Dataset, composite: Composite, level: float, search: Search | Enumeration, stream: Stream
) -> Recommendation | None:
    """The best median objective where every lower bound holds; None when no such point was found."""
    lower, median, _ = composite.bounds(data.U, level)
    fine = (lower[:, 1:] >= 0).all(1)
    order = torch.where(fine, median[:, 0], -torch.inf).argsort(descending=True)
    known = data.U[order[:3]]
    if (success := SuccessModel.fit(data)) is not None:
        search = where_success_is_likely(search, success)
    pool = search.screen(stream.at("anywhere"), problem.d, known)
    scales = spread(composite.values(pool, [0.5] * problem.k, screening=True))
    best = search.solve(pessimistic(composite, level), scales, pool, known, stream.at("anywhere"), rescue=True)
    return _describe(composite, best.u, None, "anywhere", level, True) if best.satisfied else None


def _as_asked(
    problem: Problem,
    data: Dataset,
    believer: Believer,
    level: float,
    asked: Sequence[Why | None],
    stream: Stream,
) -> Float64[Tensor, "N k"]:
    """Lower bounds as they stood when each point was asked; initial and added points by the first belief."""
    lower = torch.full((len(data.U), problem.k), torch.nan, dtype=torch.float64)
    unscored = []
    for row, why in enumerate(asked):
        if why is not None and why.lower:
            lower[row] = torch.tensor(why.lower, dtype=torch.float64)
        else:
            unscored.append(row)
    if unscored:
        first = data.first(max(2, unscored[-1] + 1 if len(unscored) == len(data.U) else _leading(asked)))
        composite = believer.bound(problem, first, believer.fit(problem, first), stream.at("first"))
        lower[unscored] = composite.bounds(data.U[unscored], level)[0]
    return lower


def _leading(asked: Sequence[Why | None]) -> int:
    """How many rows come before the first one that a belief asked for."""
    return next((row for row, why in enumerate(asked) if why is not None and why.lower), len(asked))


def _describe(
    composite: Composite, u: Tensor, row: int | None, rule: str, level: float, is_feasible: bool
) -> Recommendation:
    """Bounds and probabilities at a point; whatever rule but "observed" calls feasible, its lower bounds do."""
    lower, median, upper = (each[0] for each in composite.bounds(u[None], level))
    each, joint = composite.probability(u[None])
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
        certified=float(lower[0]) if (is_feasible and rule != "observed") or bool((lower[1:] >= 0).all()) else None,
    )


def gap(optima: Sequence[float], certain: float | None) -> float:
    """Return U - L: how much better any point could still be, by what was believed.

    U is the smallest optimistic optimum of all beliefs so far: bounds that hold together intersect. An optimum below
    what is certain has been refuted and says nothing any more; when all have been, the gap is infinite.

    Args:
        optima: Largest optimistic objective of each belief that was searched.
        certain: L, what the recommended point is certain to be worth; None when nothing is.
    """
    if certain is None:
        return math.inf
    return min((top for top in optima if top >= certain), default=math.inf) - certain


@dataclass(frozen=True)
class Relaxation:
    """What would make a problem plausible again, at z = 3, natural units."""

    alone: dict[str, float | None]
    """Per constraint: by how much relaxing it alone would do; None where that cannot help."""
    together: dict[str, float]
    """Per constraint: its share when all are relaxed by the same number of scales."""
    conflict: tuple[str, ...]
    """The constraints in conflict."""


def relax(
    composite: Composite, level: float, stream: Stream, start: Float64[Tensor, "d"], search: Search | None = None
) -> Relaxation:
    """Find the smallest relaxations that make the joint test of feasibility pass.

    Relaxing i alone must make up for max of upper_i where every other upper bound holds: a subproblem with constraint i
    as the objective.
    """
    problem = composite.problem
    searching = _searching(problem, search)
    bounds = optimistic(composite, level)
    pool = searching.screen(stream, problem.d, start[None])
    scales = spread(composite.values(pool, [0.5] * problem.k, screening=True))
    widest = searching.rescue(bounds, scales, torch.cat([start[None], pool[:8]]))
    alone: dict[str, float | None] = {}
    for i in range(1, problem.k):
        order = (i, *(j for j in range(1, problem.k) if j != i))
        best = searching.solve(Picked(bounds, order), scales[list(order)], pool, start[None], stream.at("relax", i))
        alone[problem.functions[i]] = max(0.0, -float(best.f[0])) if best.satisfied else None
    short = max(0.0, -widest.margin)
    together = {problem.functions[i]: short * float(scales[i]) for i in range(1, problem.k)}
    conflict = tuple(name for name, amount in alone.items() if amount is not None)
    if not conflict:
        conflict = tuple(
            problem.functions[i] for i in range(1, problem.k) if widest.f[i] / scales[i] < widest.margin + 1e-3
        )
    return Relaxation(alone, together, conflict)


def white_conflict(problem: Problem) -> Relaxation | None:
    """Find white constraints that no point satisfies, before anything is evaluated; None if all is well."""
    white = White(problem, problem.white)
    if not white.which:
        return None
    search, stream = _searching(problem, Search(starts=20)), Stream(0).at("white")
    none = torch.zeros(0, problem.d, dtype=torch.float64)
    pool = search.screen(stream, problem.d, none)
    scales = spread(white.values(pool))
    if isinstance(search, Enumeration):
        is_met = search.solve(white, scales).satisfied
    else:
        is_met = white_feasible(white, scales, stream, problem.d) is not None
    if is_met:
        return None
    alone: dict[str, float | None] = {}
    for place in white.white:
        order = (place, *(other for other in white.white if other != place))
        best = search.solve(Picked(white, order), scales[list(order)], pool, none, stream.at("alone", place))
        alone[problem.functions[white.which[place - 1]]] = max(0.0, -float(best.f[0])) if best.satisfied else None
    conflict = tuple(name for name, amount in alone.items() if amount is not None) or tuple(alone)
    return Relaxation(alone, {}, conflict)
