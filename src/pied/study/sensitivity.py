"""What limits and constants are worth at the optimum, with bounds: shadow prices and sensitivities.

At an optimum x* with multipliers l of the constraints, the best value changes with a constant c by

    dV/dc = dg_0/dc + sum_i l_i dg_i/dc    (at x*, outputs held),

and by l_i when constraint i is relaxed by one unit. Where more constraints and box bounds meet than there are settings
to move, multipliers are not unique; a relaxation then brings the least of them, because the others still hold. The
estimate is at the optimum of the medians. The bounds are quantiles over functions drawn from the belief, each with an
optimum and multipliers of its own; the draws are as far from the mean as what is said of the belief elsewhere.

Where all settings take listed values, the best value changes in jumps and has no such rates. There, two questions are
answered, the one as it stands and the one with a limit or constant moved, and so they are for each drawn function.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from html import escape
from typing import Any

import numpy as np
from numpy import ndarray

from pied.bounds import Bounds, Composite, Drawn
from pied.markup import table
from pied.problem import Problem
from pied.records import feasible
from pied.search import Held, solve_locally
from pied.shapes import Bool, Float64
from pied.study.outlook import DRAWS, Answer, Case, Outlook, Shifted, plain
from pied.study.words import about, figure, short

ROUNDS = 40
"""Of the local solves for each drawn function."""
STEP = 1e-4
"""Of a constant: step of the differences of g, which is known and smooth, so that rounding and curvature are small."""
MOVE = 1e-2
"""Of a constant or limit: step of the difference of the best settings."""
JUMP = 0.1
"""The same where all settings take listed values: a smaller move rarely reaches the next of them."""
COMPARED = 24
"""Settings that each drawn function compares for each question there."""
BINDING = 1e-5
"""In scales of a constraint: so near to zero it may bind."""
EDGE = 1e-7
"""Unit cube: so near to an end of its range a setting is at it."""
RIDGE = 1e-4
"""Weight of one multiplier beside the balance of slopes, by which its least value is found; its square is the error."""
NUMERIC = 1e-3
"""Of a price: a smaller difference is the error of the searches."""
NARROW = 1e-3
"""Of the present value: a range within which settings hold is none if it is narrower; limits are not known so well."""
HOLDS = 0.01
"""Of the best value: while settings lose less, they are still the answer."""
FIRST_STEP, DOUBLINGS, HALVINGS = 0.01, 8, 6
"""How far a constant is moved in search of the end of a range: first step, of its size; steps, each twice as far; the
halvings of the last one that are as exact as what is said."""


@dataclass(frozen=True)
class Sensitivity:
    """What one constant or limit is worth."""

    name: str
    at: float
    """Its present value."""
    rate: float
    """A limit: gain in the objective per unit of relaxation, 0 or more. A constant: change of the best objective per
    unit, with the user's sign."""
    bounds: tuple[float, float]
    """Where the rate probably lies, by the belief."""
    move: dict[str, float]
    """Change of each best setting per unit, of a limit per unit of relaxation; without those with listed values."""
    holds: tuple[float, float] | None = None
    """Range within which the recommended settings stay within 1 % of the best; infinite where no end was found. None
    while it was not computed."""
    is_limit: bool = False
    share: float = 0.01
    """Of the present value: the move of which its lines tell."""

    @property
    def size(self) -> float:
        """How far that is; a unit where the present value is 0."""
        return self.share * abs(self.at) or 1.0

    @property
    def percent(self) -> float:
        """Change of the best objective for one percent of the present value."""
        return 0.01 * abs(self.at) * self.rate

    @property
    def binds(self) -> bool:
        """Whether it makes a difference: a limit that binds, perhaps; a constant that matters."""
        return any(each != 0.0 for each in (self.rate, *self.bounds))

    def to_dict(self) -> dict[str, Any]:
        """Return it as data for JSON."""
        return {
            "at": self.at,
            "rate": plain(self.rate),
            "bounds": [plain(each) for each in self.bounds],
            "percent": plain(self.percent),
            "move": {name: plain(each) for name, each in self.move.items()},
            "holds": None if self.holds is None else [plain(each) for each in self.holds],
        }


@dataclass(frozen=True, eq=False)
class Sensitivities:
    """What limits and constants are worth at the recommended optimum."""

    limits: dict[str, Sensitivity]
    """By constraint; equalities are left out."""
    constants: dict[str, Sensitivity]
    """By name; lists of numbers are left out."""
    objective: str
    unit: str
    remark: str = ""
    """What could not be computed, and why."""

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def lines(self, *, briefly: bool = False) -> list[str]:
        """Return a line for each limit that binds and each constant; briefly: for the limits alone."""
        unit = f" {self.unit}" if self.unit else ""
        found = []
        for each in self.limits.values():
            if each.binds:
                found.append(f"{each.name}: {_moved(each)} looser brings about {_with_ends(each)}{unit}")
        if briefly:
            return found
        found += [_range(each) for each in self.limits.values() if each.holds is not None]
        value = short(self.objective)
        for each in self.constants.values():
            if not each.binds and each.holds is None:
                continue
            changes = f"changes {value} by about {_with_ends(each)}{unit}"
            known = changes if math.isfinite(each.rate) else "leaves no settings that are known to meet all limits"
            found.append(f"{each.name} = {each.at:g}: {_moved(each)} more {known}")
            if each.holds is not None:
                found.append(_range(each))
        return found + ([self.remark] if self.remark else [])

    def _repr_html_(self) -> str:
        """Return them as a table for a notebook."""
        unit = f" {self.unit}" if self.unit else ""
        rows = [
            [each.name, f"{each.at:g}", f"{_moved(each)} {'looser' if each.is_limit else 'more'}",
             f"{_with_ends(each)}{unit}", "" if each.holds is None else _range(each).strip()]
            for each in (*self.limits.values(), *self.constants.values())
        ]  # fmt: skip
        heads = ["", "now", "change", f"{short(self.objective)} changes by about", ""]
        return table(heads, rows) + (f"<p>{escape(self.remark)}</p>" if self.remark else "")

    def to_dict(self) -> dict[str, Any]:
        """Return them as data for JSON."""
        return {
            "limits": {name: each.to_dict() for name, each in self.limits.items()},
            "constants": {name: each.to_dict() for name, each in self.constants.items()},
            **({"remark": self.remark} if self.remark else {}),
        }


def _moved(each: Sensitivity) -> str:
    return f"{100 * each.share:g} %" if each.at else "one unit"


def _with_ends(each: Sensitivity) -> str:
    low, high = (each.size * end for end in each.bounds)
    return f"{about(each.size * each.rate)} ({about(low)} to {about(high)})"


def _range(each: Sensitivity) -> str:
    low, high = each.holds or (-math.inf, math.inf)
    ends = [f"{figure(end)}" if math.isfinite(end) else "" for end in (low, high)]
    if high - low <= NARROW * abs(each.at):
        return f"  other settings are best as soon as {each.name} changes"
    text = {(True, True): f"from {ends[0]} to {ends[1]}", (True, False): f"from {ends[0]} upwards",
            (False, True): f"up to {ends[1]}", (False, False): "however it moves"}  # fmt: skip
    where = text[bool(ends[0]), bool(ends[1])]
    return f"  the settings stay within 1 % of the best for {each.name} {where}"


def sensitivities(outlook: Outlook, *, ranges: bool = False) -> Sensitivities | None:
    """Return what limits and constants are worth; None where no settings are known to meet all limits.

    Args:
        outlook: What is believed.
        ranges: Whether to find the range of each within which the recommended settings hold, which takes a search for
            each of some twenty values.
    """
    if not outlook.has_belief or (answer := outlook.answer({})).u is None:
        return None
    local = _around(outlook, answer, outlook.parameters)
    limits: dict[str, Sensitivity] = {}
    constants: dict[str, Sensitivity] = {}
    for name, at in outlook.parameters.items():
        is_limit = name in outlook.limits
        rate, ends = local.limit(name) if is_limit else local.constant(name, at)
        holds = _holds(outlook, answer, local.best, name, at) if ranges else None
        move = local.move(name, at)
        (limits if is_limit else constants)[name] = Sensitivity(
            name, at, rate, ends, move, holds, is_limit, local.share
        )
    problem = outlook.problem
    return Sensitivities(limits, constants, problem.objective, problem.unit, local.remark)


def limit_prices(outlook: Outlook, answer: Answer) -> tuple[dict[str, tuple[float, tuple[float, float]]], str]:
    """Return the gain per unit of relaxation of each limit with its bounds, and a remark: the quick part of the above.

    Args:
        outlook: What is believed.
        answer: Its own, with settings.
    """
    local = _around(outlook, answer, outlook.limits)
    return {name: local.limit(name) for name in outlook.limits}, local.remark


def _around(outlook: Outlook, answer: Answer, names: Iterable[str]) -> "_Local | _Listed":
    """Return what is known around the recommended settings, of these constants and limits."""
    return _Local.at(outlook, answer) if _free(outlook.problem).any() else _Listed.at(outlook, answer, names)


@dataclass(frozen=True, eq=False)
class _Listed:
    """Answers to two questions each, where all settings take listed values: by the medians, and by drawn functions."""

    problem: Problem
    level: float
    best: Float64[ndarray, "d"]
    values: dict[str, float]
    """The best objective as the question stands, under no name, and with each constant or limit moved."""
    drawn: dict[str, Float64[ndarray, "L"]]
    """The same of each drawn function; not finite where none of the settings that are compared meets all limits."""
    steps: dict[str, float]

    share = JUMP
    remark = "All settings take listed values, so the best changes in jumps: rates are averages over a move of 10 %."

    @classmethod
    def at(cls, outlook: Outlook, answer: Answer, names: Iterable[str]) -> "_Listed":
        """Answer the question with each of these constants and limits moved: limits are loosened, constants raised."""
        assert answer.u is not None
        steps = {name: JUMP * abs(outlook.parameters[name]) or 1.0 for name in names}
        down = {name for name, limit in outlook.limits.items() if not limit.is_upper}
        moved = {name: outlook.parameters[name] + (-1 if name in down else 1) * step for name, step in steps.items()}
        cases = {"": outlook.case({})} | {name: outlook.case({name: value}) for name, value in moved.items()}
        found = {"": answer} | {name: outlook.answer({name: value}) for name, value in moved.items()}
        known = [u for each in found.values() for u in (each.u, each.optimistic) if u is not None]
        U = np.unique(np.concatenate([known, *(_promising(outlook, case) for case in cases.values())]), axis=0)
        drawn = Drawn(outlook.composite(outlook.problem), outlook.paths)
        Z = [np.append(U, np.full((len(U), 1), (which + 0.5) / DRAWS), 1) for which in range(DRAWS)]
        Y = np.stack([drawn.outputs(each) for each in Z])
        optima = {name: _optima(case, U, Y, outlook.scales) for name, case in cases.items()}
        values = {name: each.value for name, each in found.items()}
        return cls(outlook.problem, outlook.level, answer.u, values, optima, steps)

    def limit(self, name: str) -> tuple[float, tuple[float, float]]:
        """Return the gain per unit of relaxation of a limit, and its bounds."""
        rate, (low, high) = self._rate(name, self.problem.user_value(1.0))
        return rate, (max(low, 0.0), max(high, 0.0))

    def constant(self, name: str, at: float) -> tuple[float, tuple[float, float]]:
        """Return the change of the best objective per unit of a constant, user's sign, and its bounds."""
        return self._rate(name, 1.0)

    def move(self, name: str, at: float) -> dict[str, float]:
        """Return nothing: settings with listed values change in jumps."""
        return {}

    def _rate(self, name: str, sign: float) -> tuple[float, tuple[float, float]]:
        """Return the difference that a move makes, per unit and times a sign, and where it probably lies."""
        per = sign / self.steps[name]
        rate = per * (self.values[name] - self.values[""])
        rates = per * self.problem.user_value(1.0) * (self.drawn[name] - self.drawn[""])
        rates = np.append(rates[np.isfinite(rates)], rate)
        low, high = np.quantile(rates, [1.0 - self.level, self.level])
        return rate + 0.0, (float(min(low, rate)) + 0.0, float(max(high, rate)) + 0.0)


def _promising(outlook: Outlook, case: Case) -> Float64[ndarray, "b d"]:
    """Return settings that may be the best of a case, by their upper bounds; and the best told ones."""
    U = np.concatenate([outlook.pool, np.clip(outlook.data.U, 0.0, 1.0)])
    upper = outlook.composite(case.problem).values(U, [outlook.level] * outlook.problem.k, screening=True) + case.shift
    score = np.where((upper[:, 1:] >= 0.0).all(1), upper[:, 0], -np.inf)
    return U[(-score).argsort(kind="stable")[:COMPARED]]


def _optima(
    case: Case, U: Float64[ndarray, "b d"], Y: Float64[ndarray, "L b m"], scales: Float64[ndarray, "k"]
) -> Float64[ndarray, "L"]:
    """Return the best objective of a case among settings by each drawn function; minus infinity where there is none."""
    G = np.stack(np.broadcast_arrays(*case.problem.g(case.problem.from_unit(U), Y), Y[..., 0])[:-1], -1) + case.shift
    return np.where((G[..., 1:] >= -BINDING * scales[1:]).all(-1), G[..., 0], -np.inf).max(1)


@dataclass(frozen=True, eq=False)
class _Local:
    """The optimum of the medians and those of the drawn functions, with their multipliers."""

    outlook: Outlook
    composite: Composite
    best: Float64[ndarray, "d"]
    """The optimum of the medians."""
    free: Bool[ndarray, "d"]
    """Coordinates that can move continuously."""
    drawn: Drawn
    Z: Float64[ndarray, "L w"]
    """The optima of the drawn functions."""
    multipliers: Float64[ndarray, "Lplus n"]
    """First those of the medians, then one row for each drawn function that has an optimum here."""
    gains: Float64[ndarray, "Lplus n"]
    """What relaxing each constraint brings, by the same rows."""

    share = 0.01

    @classmethod
    def at(cls, outlook: Outlook, answer: Answer) -> "_Local":
        """Find the optima around the recommended settings."""
        problem = outlook.problem
        assert answer.u is not None
        composite, free = outlook.composite(problem), _free(problem)
        median = Bounds(composite, (0.5,) * problem.k)
        start = np.clip(answer.u, 0.0, 1.0)
        best = _solved(median, outlook.scales, start[None], free)[0]
        drawn = Drawn(composite, outlook.paths)
        Z = _solved(drawn, outlook.scales, drawn.at(np.repeat(best[None], DRAWS, 0)), np.append(free, False))
        middle, by_middle = median.values_and_slopes(best[None])
        own, slopes = drawn.values_and_slopes(Z)
        fine = (own[:, 1:] >= -BINDING * outlook.scales[1:]).all(1)
        Z, own, slopes = (Z[fine], own[fine], slopes[fine]) if fine.any() else (Z[:0], own[:0], slopes[:0])
        rows = [multipliers(middle[0], by_middle[0], best, free, outlook.scales)]
        for f, J, z in zip(own, slopes[..., :-1], Z, strict=True):
            rows.append(multipliers(f, J, z[:-1], free, outlook.scales))
        balanced, gains = (np.stack(each) for each in zip(*rows, strict=True))
        return cls(outlook, composite, best, free, drawn, Z, balanced, gains)

    @property
    def remark(self) -> str:
        """What is said where settings take listed values; given ones are no news."""
        known = self.outlook.problem.variables
        held = [
            name
            for name, is_free in zip(self.outlook.problem.axes, self.free, strict=True)
            if not is_free and (name not in known or known[name].is_stepped or known[name].is_listed)
        ]
        if not held:
            return ""
        return f"Prices hold while {', '.join(held)} stay as they are: they take listed values and change in jumps."

    def limit(self, name: str) -> tuple[float, tuple[float, float]]:
        """Return the gain per unit of relaxation of a limit, and its bounds."""
        return self._summary(self.gains[:, self.outlook.problem.constraints.index(name)], least=0.0)

    def constant(self, name: str, at: float) -> tuple[float, tuple[float, float]]:
        """Return the change of the best objective per unit of a constant, user's sign, and its bounds."""
        problem = self.outlook.problem
        step = STEP * (abs(at) or 1.0)
        first = self.composite.physical(self.composite.belief.moments(self.best[None])[0])
        U = np.concatenate([self.best[None], self.Z[:, :-1]])
        Y = np.concatenate([first, self.drawn.outputs(self.Z)]) if len(self.Z) else first
        X = problem.from_unit(U)
        sides = [
            np.stack(np.broadcast_arrays(*(np.reshape(g, -1) for g in case.problem.g(X, Y[None]))), 1)
            for case in (self.outlook.case({name: at + side * step}) for side in (1.0, -1.0))
        ]
        slopes = (sides[0] - sides[1]) / (2 * step)
        rates = slopes[:, 0] + (slopes[:, 1:] * self.multipliers).sum(1)
        return self._summary(problem.user_value(1.0) * rates)

    def _summary(self, rates: Float64[ndarray, "Lplus"], least: float = -math.inf) -> tuple[float, tuple[float, float]]:
        """Return the estimate and the bounds at the study's level; differences that are rounding are included."""
        level = self.outlook.level
        low, high = np.quantile(rates, [1.0 - level, level]) if len(rates) > 1 else (rates[0], rates[0])
        low, high = min(low, rates[0]), max(high, rates[0])
        room = NUMERIC * max(abs(low), abs(high))
        return float(rates[0]) + 0.0, (max(least, float(low - room)) + 0.0, float(high + room))

    def move(self, name: str, at: float) -> dict[str, float]:
        """Return the change of each best setting per unit of a constant, or per unit of relaxation of a limit."""
        outlook, problem = self.outlook, self.outlook.problem
        step = MOVE * (abs(at) or 1.0)
        limit = outlook.limits.get(name)
        sign = 1.0 if limit is None or limit.is_upper else -1.0
        ends = []
        for side in (1.0, -1.0):
            case = outlook.case({name: at + side * sign * step})
            functions = Shifted(Bounds(outlook.composite(case.problem), (0.5,) * problem.k), case.shift)
            ends.append(_solved(functions, outlook.scales, self.best[None], self.free)[0])
        change = (problem.from_unit(ends[0][None]) - problem.from_unit(ends[1][None]))[0] / (2 * step)
        held = {name for name, is_free in zip(problem.axes, self.free, strict=True) if not is_free}
        moved = dict(zip(problem.variables, change.tolist(), strict=True))
        return {name: float(each) + 0.0 for name, each in moved.items() if name not in held}


def _free(problem: Problem) -> Bool[ndarray, "d"]:
    """Tell which coordinates can move continuously."""
    if problem.listing is not None:
        return np.zeros(problem.d, dtype=bool)
    return np.ones(problem.d, dtype=bool) if problem.grid is None else ~problem.grid.is_discrete


def _solved(
    functions: Any, scales: Float64[ndarray, "k"], starts: Float64[ndarray, "s w"], free: Bool[ndarray, "w"]
) -> Float64[ndarray, "s w"]:
    """Return the local optimum from each start, the other coordinates held."""
    if not free.any():
        return starts
    held = Held(functions, ~free, np.zeros(len(scales)))
    return solve_locally(held, scales, starts, ROUNDS, each_to_its_end=True).u


def multipliers(
    f: Float64[ndarray, "k"],
    J: Float64[ndarray, "k d"],
    u: Float64[ndarray, "d"],
    free: Bool[ndarray, "d"],
    scales: Float64[ndarray, "k"],
) -> tuple[Float64[ndarray, "n"], Float64[ndarray, "n"]]:
    """Return the multipliers of the constraints at an optimum, and what relaxing each brings, natural units.

    Multipliers are the non-negative weights of the slopes of binding constraints, and of box bounds, that balance the
    slope of the objective best: those that a search ends with depend on its model of the curvature.
    """
    from scipy.optimize import nnls  # not before it is needed: it takes long to load

    found, gains = np.zeros(len(f) - 1), np.zeros(len(f) - 1)
    binding = np.flatnonzero(f[1:] < BINDING * scales[1:])
    if not len(binding) or not free.any():
        return found, gains
    J = J[:, free] / scales[:, None]
    ends = np.eye(free.sum())
    at_low, at_high = ends[:, u[free] < EDGE], -ends[:, u[free] > 1.0 - EDGE]
    A = np.concatenate([J[1 + binding].T, at_low, at_high], 1)
    units = scales[0] / scales[1 + binding]
    weights, _ = nnls(A, -J[0])
    found[binding] = weights[: len(binding)] * units
    is_unique = A.shape[1] <= A.shape[0]
    least = weights[: len(binding)] if is_unique else [_least(A, -J[0], place) for place in range(len(binding))]
    gains[binding] = least * units
    return found, gains


def _least(A: Float64[ndarray, "d c"], slope: Float64[ndarray, "d"], place: int) -> float:
    """Return the least value of one of the non-negative weights that balance a slope."""
    from scipy.optimize import nnls

    row = np.zeros((1, A.shape[1]))
    row[0, place] = RIDGE
    weights, _ = nnls(np.concatenate([A, row]), np.append(slope, 0.0))
    return float(weights[place]) if weights[place] > 2.0 * RIDGE**2 * np.abs(slope).max() else 0.0


def _holds(outlook: Outlook, answer: Answer, best: Float64[ndarray, "d"], name: str, at: float) -> tuple[float, float]:
    """Return the range of a constant or limit within which the recommended settings lose at most 1 %."""

    known = [best]

    def loss(value: float) -> float:
        return _loss(outlook, answer, known, outlook.case({name: value}))

    first = FIRST_STEP * (abs(at) or 1.0)
    return -_end(lambda way: loss(at - way), first) + at, at + _end(lambda way: loss(at + way), first)


def _end(loss: Callable[[float], float], first: float) -> float:
    """Return how far a value can move until too much is lost, by doubling steps, then as exactly as by some halvings.

    Infinite if no end is found. Roots of losses are compared: a loss grows with the distance, or with its square.
    """
    from scipy.optimize import brentq

    held = [0.0]

    @cache
    def excess(way: float) -> float:
        found = loss(way)
        if found <= HOLDS:
            held.append(way)
        return math.sqrt(min(max(found, 0.0), 1.0)) - math.sqrt(HOLDS)

    steps = [first * 2**count for count in range(DOUBLINGS)]
    high = next((step for step in steps if excess(step) > 0.0), None)
    if high is None:
        return math.inf
    low = max(held)
    if low == 0.0 and excess(0.0) > 0.0:  # nothing can move: the settings are not the best of the medians
        return 0.0
    brentq(excess, low, high, xtol=(high - low) / 2 ** (HALVINGS + 1))
    return max(held)


def _loss(outlook: Outlook, answer: Answer, known: list[Float64[ndarray, "d"]], case: Case) -> float:
    """Return what the recommended settings lose against the best of a case, relative to it; infinite if not allowed.

    Where settings in `known` show that it is too much, no others are sought; else the best ones are added there.
    """
    composite = outlook.composite(case.problem)
    functions = Shifted(Bounds(composite, (0.5,) * outlook.problem.k), case.shift)
    assert answer.u is not None
    here = functions.values_and_slopes(answer.u[None])[0]
    if answer.trial is not None:
        row = outlook.data.numbers.index(answer.trial)
        here = outlook.data.functions(case.problem)[row : row + 1] + case.shift
    told = np.concatenate([outlook.data.functions(outlook.problem), here])
    if not bool(feasible(outlook.problem, told)[-1]):
        return math.inf
    f = functions.values_and_slopes(np.stack(known))[0]
    top = max(np.where((f[:, 1:] >= 0.0).all(1), f[:, 0], -math.inf).max(), float(here[0, 0]))
    if (lost := (top - float(here[0, 0])) / (abs(top) or 1.0)) > HOLDS:
        return lost
    found = outlook.solve(functions, np.stack(known[-1:]))
    if found.satisfied:
        known.append(found.u)
        top = max(top, float(found.f[0]))
    return (top - float(here[0, 0])) / (abs(top) or 1.0)
