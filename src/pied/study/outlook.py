"""What if constants and limits were others: the best settings then, from the belief that is there already.

Nothing is fitted again, because h does not depend on prices and limits, and nothing is written to the record. A limit
that moves shifts the quantiles of its constraint; a constant that changes makes another white box on the same belief.
Sweeps ask for many answers from one outlook; `scenario` describes one answer in full, that of an outlook of its own.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy import ndarray

from pied.bounds import Bounds, Composite, SuccessModel, coding_of, optimistic, sure, where_success_is_likely
from pied.errors import NotYet, SettingError, UnknownName, did_you_mean
from pied.gp import GP, Paths
from pied.problem import Limit, Named, Problem
from pied.records import Dataset, feasible, spread
from pied.search import Enumeration, Mixed, Optimum, Search
from pied.shapes import Float64
from pied.study.gaps import Gap, Unknown
from pied.study.recommendation import succeeded, surely
from pied.study.relaxation import searched
from pied.study.snapshot import Snapshot
from pied.study.words import figure

SEARCH = Search(pool=256, generations=0, starts=2, afar=0, relays=0, rounds=30)
"""Of each case: the best of neighbouring cases are starts, too, so that few others are needed."""
DRAWS = 32
"""Functions drawn from the belief: enough for bounds that hold in nine of ten cases."""
GOOD, FAIR = 0.02, 0.10
"""Width of the bounds of the optimum, as a share of its size, up to which an answer can be trusted well, or fairly."""
TRUST = ("good", "fair", "poor", "none")
"""How far an answer can be trusted; "none": no settings are known to meet all limits."""


@dataclass(frozen=True, eq=False)
class Case:
    """A question with other constants and limits."""

    problem: Problem
    """With the constants of the case."""
    shift: Float64[ndarray, "k"]
    """Added to each function: by how much its limit is looser."""
    changes: Mapping[str, float]
    """The changed constants and limits."""


@dataclass(frozen=True, eq=False)
class Shifted:
    """Bounds of functions with moved limits: a quantile moves as its function does."""

    bounds: Bounds
    shift: Float64[ndarray, "k"]

    def coarse(self) -> "Shifted | None":
        """Return the bounds with fewer samples; None where everything has a closed form."""
        rough = self.bounds.coarse()
        return None if rough is None else Shifted(rough, self.shift)

    @property
    def k(self) -> int:
        """Number of functions."""
        return self.bounds.k

    @property
    def white(self) -> tuple[int, ...]:
        """Constraints that are known exactly."""
        return self.bounds.white

    def values(self, U: Float64[ndarray, "b d"]) -> Float64[ndarray, "b k"]:
        """Return all functions, with the fewer samples of screening."""
        return self.bounds.values(U) + self.shift

    def values_and_slopes(
        self, U: Float64[ndarray, "b d"]
    ) -> tuple[Float64[ndarray, "b k"], Float64[ndarray, "b k d"]]:
        """Return all functions and their slopes."""
        f, J = self.bounds.values_and_slopes(U)
        return f + self.shift, J


@dataclass(frozen=True, eq=False)
class Remembered:
    """A belief that knows its moments at the points which every case screens."""

    belief: GP
    pool: Float64[ndarray, "b d"]

    @cached_property
    def _kept(self) -> tuple[Float64[ndarray, "b m"], Float64[ndarray, "b m"]]:
        return self.belief.moments(self.pool)

    @property
    def is_warped(self) -> bool:
        """Whether the belief is."""
        return self.belief.is_warped

    @property
    def mixing(self) -> Float64[ndarray, "m m"] | None:
        """How the outputs are mixtures, if they are."""
        return self.belief.mixing

    def moments(self, U: Float64[ndarray, "b d"]) -> tuple[Float64[ndarray, "b m"], Float64[ndarray, "b m"]]:
        """Return the mean and the deviations."""
        return self._kept if U is self.pool else self.belief.moments(U)

    def moments_and_slopes(
        self, U: Float64[ndarray, "b d"]
    ) -> tuple[Float64[ndarray, "b m"], Float64[ndarray, "b m"], Float64[ndarray, "b m d"], Float64[ndarray, "b m d"]]:
        """Return the moments and their derivatives."""
        return self.belief.moments_and_slopes(U)

    def unwarp(self, W: Float64[ndarray, "*b m"]) -> Float64[ndarray, "*b m"]:
        """Return outputs in natural units, as the belief does."""
        return self.belief.unwarp(W)

    def unwarp_slopes(self, Y: Float64[ndarray, "*b m"]) -> Float64[ndarray, "*b m"]:
        """Return the derivatives of `unwarp`, as the belief does."""
        return self.belief.unwarp_slopes(Y)


@dataclass(frozen=True, eq=False)
class Answer:
    """The best settings under other constants and limits."""

    changes: dict[str, float]
    """The constants and limits that differ from the question's."""
    x: Named | None
    """The settings, natural units; None if none are known to meet all limits."""
    value: float
    """Objective there, in the user's sense: measured if exact, else its median; NaN if `x` is None."""
    bounds: tuple[float, float]
    """Lower and upper bound of the best objective that any settings have, by the belief."""
    slack: dict[str, float]
    """Value of each constraint there: met when >= 0."""
    probability: float
    """That all limits are met there."""
    trust: str
    """How far it can be trusted: "good", "fair", "poor" or "none" (`TRUST`)."""
    trial: int | None
    """Number of the trial with these settings; None if they were not measured."""
    u: Float64[ndarray, "d"] | None
    """The settings in the unit cube."""
    optimistic: Float64[ndarray, "d"]
    """Where the upper bound is reached, unit cube."""
    weights: Float64[ndarray, "n"]
    """What one unit of each constraint is worth at the upper bound: which limits the bounds depend on."""

    def __str__(self) -> str:
        what = ", ".join(f"{name} = {value:g}" for name, value in self.changes.items()) or "as it stands"
        if self.x is None:
            return f"{what}: no settings are known to meet all limits"
        low, high = self.bounds
        ends = (
            f"the best is probably {figure(low, high - low)} to {figure(high, high - low)}" if high > low else "exact"
        )
        settings = ", ".join(
            f"{name} = {each if isinstance(each, str) else f'{each:.6g}'}" for name, each in self.x.items()
        )
        return f"{what}: {figure(self.value, high - low)} ({ends}; trust: {self.trust}) at {settings}"

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as data for JSON."""
        return {
            "changes": dict(self.changes),
            "x": None if self.x is None else dict(self.x),
            "value": plain(self.value),
            "bounds": [plain(each) for each in self.bounds],
            "slack": {name: plain(each) for name, each in self.slack.items()},
            "probability": plain(self.probability),
            "trust": self.trust,
            "trial": self.trial,
        }


def plain(value: float) -> float | None:
    """Return a number, or None where JSON has no such number."""
    return float(value) if math.isfinite(value) else None


@dataclass(frozen=True, eq=False)
class Outlook:
    """Answers to changed questions from one snapshot; what they share is computed once."""

    snapshot: Snapshot
    origin: "Outlook | None" = None
    """The outlook on the same data under the study's own question, if this is another one."""

    def under(self, problem: Problem) -> "Outlook":
        """Return the outlook on the same data under another question; it shares what belongs to the belief alone."""
        return self if problem is self.problem else Outlook(self.snapshot.under(problem), self.origin or self)

    @property
    def problem(self) -> Problem:
        """The question as it stands."""
        return self.snapshot.problem

    @property
    def level(self) -> float:
        """Level of the bounds."""
        return self.snapshot.level

    # ------------------------------------------------------------------------------------------------ what can change

    @cached_property
    def limits(self) -> dict[str, Limit]:
        """The limits that can move, by constraint; one that is a function is met when >= 0, and its limit is 0."""
        stated, problem = self.problem.limits(), self.problem
        found = {}
        for place, name in enumerate(problem.constraints, 1):
            if getattr(problem.stated(place), "is_equality", False):
                continue
            found[name] = stated.get(name) or Limit(name, 0.0, False)
        return found

    @cached_property
    def parameters(self) -> dict[str, float]:
        """Every constant and limit that can change, with its present value."""
        constants = {name: each for name, each in self.problem.constants.items() if isinstance(each, float)}
        return {**{name: each.value for name, each in self.limits.items()}, **constants}

    def read(self, changes: Mapping[str, Any]) -> dict[str, float]:
        """Check the names and values of changed constants and limits."""
        read = {}
        for name, value in changes.items():
            if name not in self.parameters:
                raise self._unknown(str(name))
            number = float(value)
            if not math.isfinite(number):
                raise SettingError(f"'{name}' should be a number, got {value}")
            read[str(name)] = number
        return read

    def _unknown(self, name: str) -> UnknownName:
        """Say why a name cannot change."""
        if isinstance(self.problem.constants.get(name), tuple):
            return UnknownName(f"'{name}' is a list of numbers: only single numbers can change", name)
        if name in self.problem.held or name in self.problem.constraints:
            return UnknownName(f"'{name}' is an equality: it has no limit to move; change it with revise", name)
        if name in self.problem.variables:
            return UnknownName(f"'{name}' is a setting that is chosen, not a constant or a limit", name)
        if not self.parameters:
            return UnknownName(
                "there are no constants and no limits: name prices and the like in constants= and use them so in "
                "formulas; numbers inside of Python functions cannot be changed",
                name,
            )
        return UnknownName(f"There is no constant or limit '{name}'.{did_you_mean(name, self.parameters)}", name)

    def case(self, changes: Mapping[str, float]) -> Case:
        """Return the question with some constants and limits changed."""
        problem, shift = self.problem, np.zeros(self.problem.k)
        constants = {name: value for name, value in changes.items() if name not in self.limits}
        if any(problem.constants[name] != value for name, value in constants.items()):
            problem = self._revised(constants)
        for name, value in changes.items():
            if name in self.limits:
                limit = self.limits[name]
                looser = value - limit.value if limit.is_upper else limit.value - value
                shift[1 + self.problem.constraints.index(name)] = looser
        return Case(problem, shift, dict(changes))

    def _revised(self, constants: Mapping[str, float]) -> Problem:
        """Return the problem with other constants, on the same coordinates."""
        old = self.problem
        new = old.revised(constants={**old.constants, **constants})
        middle = np.full((1, old.d), 0.5)
        if new.constraints != old.constraints or not np.array_equal(new.from_unit(middle), old.from_unit(middle)):
            named = " or ".join(f"'{name}'" for name in constants)
            raise SettingError(f"{named} changes an equality among settings: answer that question with revise")
        return new

    # ------------------------------------------------------------------------------------------------ what is shared

    @property
    def has_belief(self) -> bool:
        """Whether enough was told for a belief."""
        return int(self.snapshot.data.complete.sum()) >= 2

    @cached_property
    def data(self) -> Dataset:
        """The told values."""
        if not self.has_belief:
            raise NotYet("this needs a belief: tell at least two complete evaluations first")
        return self.snapshot.data

    def composite(self, problem: Problem) -> Composite:
        """Return the bounds of all functions of a changed problem."""
        snapshot, data = self.snapshot, self.data
        stream = snapshot.stream.at("outlook")
        return snapshot.settings.believer.bound(problem, data, self._belief, stream)

    def _doubted(self, problem: Problem) -> Composite:
        """Return the same as far as the belief is to be doubted where little was measured: what may be possible."""
        snapshot = self.snapshot
        believer, stream = snapshot.settings.believer, snapshot.stream.at("outlook")
        return believer.doubted(problem, self.data, snapshot.alone, stream, self.level)

    def still(self, answer: Answer) -> Gap:
        """Return how much better than an answer any settings could be, or why that is not told.

        Of the question as it stands it is what the result says. Where that is not told, no other is told either.
        """
        told = (self.origin or self).snapshot.told_still
        if (self.origin is None and self._is_as_stated(answer.changes)) or told.why:
            return told
        if answer.u is None:
            return Gap(math.inf, math.inf, Unknown.UNCERTAIN.value)
        low, high = answer.bounds
        return self.snapshot.told_gap(high - low, -high if self.problem.minimizes else low)

    def _is_as_stated(self, changes: Mapping[str, float]) -> bool:
        """Whether changes leave the question as it stands."""
        return all(self.parameters[name] == value for name, value in changes.items())

    @cached_property
    def _belief(self) -> Remembered:
        return Remembered(self._careful, self.pool)

    @cached_property
    def _careful(self) -> GP:
        """The belief as far as it is to be trusted."""
        if self.origin is not None:
            return self.origin._careful
        snapshot = self.snapshot
        return snapshot.settings.believer.careful(snapshot.problem, self.data, snapshot.belief, self.level)

    @cached_property
    def paths(self) -> Paths:
        """Functions drawn from the belief, as far from its mean as its errors so far call for."""
        if self.origin is not None:
            return self.origin.paths
        return Paths.of(self._careful, DRAWS, self.snapshot.stream.at("draws"))

    @cached_property
    def search(self) -> "Search | Enumeration | Mixed":
        """The search of each case, where evaluations are likely to succeed."""
        return self._within(searched(self.problem, SEARCH), self._success)

    @cached_property
    def _success(self) -> SuccessModel | None:
        """Where evaluations are likely to succeed; None: anywhere."""
        return SuccessModel.fit(self.data.U, self.data.failed, coding_of(self.problem))

    @staticmethod
    def _within(search: Any, region: SuccessModel | None) -> Any:
        return search if region is None else where_success_is_likely(search, region)

    @cached_property
    def pool(self) -> Float64[ndarray, "b d"]:
        """The points that every case screens: the same array, so that their moments are looked up once."""
        return self._screened(self.search)

    def _screened(self, search: Any) -> Float64[ndarray, "b d"]:
        stream = self.snapshot.stream.at("outlook")
        pool = self.problem.within(search.screen(stream, self.problem.d, self.told), stream.at("within"))
        return self.problem.on_equalities(pool)

    @cached_property
    def told(self) -> Float64[ndarray, "s d"]:
        """The best told point of the question as it stands, moved onto its slice."""
        data = self.data
        f = data.functions(self.problem)
        order = (-np.where(feasible(self.problem, f), f[:, 0], -np.inf)).argsort(kind="stable")[:1]
        return self.problem.onto(np.clip(data.U[order], 0.0, 1.0))

    @cached_property
    def scales(self) -> Float64[ndarray, "k"]:
        """Search scale of each function."""
        return spread(self.composite(self.problem).values(self.pool, [0.5] * self.problem.k, screening=True))

    def solve(
        self,
        functions: Any,
        known: Float64[ndarray, "s d"],
        search: Any = None,
        pool: Float64[ndarray, "b d"] | None = None,
    ) -> Optimum:
        """Maximize the first function subject to the others, from the best told point and some others."""
        stream = self.snapshot.stream.at("outlook", "solve")
        starts, points = np.concatenate([self.told, known]), self.pool if pool is None else pool
        return (search or self.search).solve(functions, self.scales, points, starts, stream, rescue=True)

    # ------------------------------------------------------------------------------------------------------- answers

    def answer(self, changes: Mapping[str, Any], near: Answer | None = None) -> Answer:
        """Return the best settings under changed constants and limits.

        Args:
            changes: New values by the names of constants and limits.
            near: The answer to a similar question: its settings are looked at, too.
        """
        read = self.read(changes)
        if self._is_as_stated(read):
            return replace(self.base, changes=read)
        return self._answered(self.case(read), [self.base] if near is None else [self.base, near])

    @cached_property
    def base(self) -> Answer:
        """The answer to the question as it stands; others start from it.

        The study's own question is searched thoroughly, once. A quick search alone can miss the best settings of a
        problem with several optima, and with it every answer that starts from there.
        """
        if self.origin is not None:
            return self._answered(self.case({}), [self.origin.base])
        search = searched(self.problem, None)
        found = self._answered(self.case({}), [], search, self._screened(self._within(search, self._success)))
        return self._as_told(found)

    def _as_told(self, answer: Answer) -> Answer:
        """Return the answer to the question as it stands with what is possible as the result says, if it does."""
        best, still = self.snapshot.recommended, self.snapshot.told_still
        if answer.u is None or best is None or best.certified is None or still.why or still.width is None:
            return answer
        top, (low, high) = self.problem.user_value(best.certified + still.width), answer.bounds
        return replace(answer, bounds=(min(low, top), high) if self.problem.minimizes else (low, max(high, top)))

    def _answered(
        self, case: Case, near: Sequence[Answer], search: Any = None, pool: Float64[ndarray, "b d"] | None = None
    ) -> Answer:
        """Return the best settings of a case, with the settings of other answers as starts."""
        composite, search = self.composite(case.problem), search or searched(self.problem, SEARCH)
        none = np.zeros((0, self.problem.d))
        known = np.array([each.optimistic if each.u is None else each.u for each in near]).reshape(-1, self.problem.d)
        found = self._surely_found(case, composite, known, search, pool)
        known = np.concatenate([none, *(each.optimistic[None] for each in near), found.u[None]])
        bounds = Shifted(optimistic(self._doubted(case.problem), self.level), case.shift)
        best = self.solve(bounds, known, self._within(search, self._success), pool)
        row = self._told_row(case, float(found.f[0]) if found.satisfied else -math.inf)
        if row is None and not found.satisfied:
            return self._nothing(case, best)
        return self._described(case, composite, found.u if row is None else self.data.U[row], row, best)

    def _surely_found(
        self,
        case: Case,
        composite: Composite,
        known: Float64[ndarray, "s d"],
        search: Any,
        pool: Float64[ndarray, "b d"] | None,
    ) -> Optimum:
        """Search the best lower bound where those of all limits hold, and evaluations surely succeed, or did."""
        region = None if self._success is None else surely(self._success, self.level)
        bounds = Shifted(sure(composite, self.level), case.shift)
        found = self.solve(bounds, known, self._within(search, region), pool)
        if region is None:
            return found
        found = region.found(found, search)
        lower = composite.bounds(self.data.U, self.level)[0] + case.shift
        row = None if self.problem.is_exact else succeeded(self.problem, self.data, lower)
        if row is None or (found.satisfied and lower[row, 0] <= found.f[0]):
            return found
        return replace(found, u=self.data.U[row], f=lower[row], satisfied=True)

    def _functions(self, case: Case) -> Float64[ndarray, "N k"]:
        """Return the functions of a case at told points."""
        return self.data.functions(case.problem) + case.shift

    def _told_row(self, case: Case, least: float) -> int | None:
        """Return the row of the best measured point that meets all limits, if measurements are exact and it is best."""
        if not self.problem.is_exact:
            return None
        f = self._functions(case)
        inside = ((self.data.U >= 0) & (self.data.U <= 1)).all(1) & self.problem.lies_on(self.data.U)
        score = np.where(feasible(self.problem, f) & inside, f[:, 0], -np.inf)
        row = int(np.nan_to_num(score, nan=-np.inf).argmax())
        return row if score[row] >= least and math.isfinite(score[row]) else None

    def _described(
        self, case: Case, composite: Composite, u: Float64[ndarray, "d"], row: int | None, best: Optimum
    ) -> Answer:
        lower, median, _ = (each[0] + case.shift for each in composite.bounds(u[None], self.level))
        if row is not None:
            lower = median = self._functions(case)[row]
        top = max(float(best.f[0]) if best.satisfied else -math.inf, float(median[0]))
        problem, ends = self.problem, (float(min(lower[0], median[0])), top)
        size = max(abs(float(median[0])), float(self.scales[0]))
        width = (ends[1] - ends[0]) / size
        trust = "good" if width <= GOOD else "fair" if width <= FAIR else "poor"
        number = None if row is None else self.data.numbers[row]
        told = next((trial for trial in self.snapshot.trials if trial.number == number), None)
        low, high = sorted(problem.user_value(end) for end in ends)
        return Answer(
            changes=dict(case.changes),
            x=told.x if told is not None else problem.named_x(problem.natural(u)),
            value=problem.user_value(float(median[0])),
            bounds=(low, high),
            slack={name: float(median[i]) for i, name in enumerate(problem.constraints, 1)},
            probability=self._probability(case, composite, u, row),
            trust=trust,
            trial=number,
            u=u,
            optimistic=best.u,
            weights=np.array(best.multipliers or [0.0] * problem.n),
        )

    def _probability(self, case: Case, composite: Composite, u: Float64[ndarray, "d"], row: int | None) -> float:
        """Return how probable it is that all limits are met at a point."""
        if row is not None or self.problem.n == 0:
            return 1.0
        return float(composite.probability(u[None], case.shift)[1][0])

    def _nothing(self, case: Case, best: Optimum) -> Answer:
        """Return the answer when no settings are known to meet all limits."""
        top = self.problem.user_value(float(best.f[0])) if best.satisfied else math.nan
        ends = (-math.inf, top) if not self.problem.minimizes else (top, math.inf)
        return Answer(
            changes=dict(case.changes), x=None, value=math.nan, bounds=ends, slack={}, probability=math.nan,
            trust="none", trial=None, u=None, optimistic=best.u,
            weights=np.array(best.multipliers or [0.0] * self.problem.n),
        )  # fmt: skip
