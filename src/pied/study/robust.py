"""Settings that stay allowed when they are not held exactly, and constants move: the rule "robust".

    maximize the mean of g_0  subject to  P(all g_i >= 0) >= p

over what varies and over the outputs by the belief. Both are drawn once, so that the search sees fixed functions: the
mean over the draws, and the quantile at 1 - p of the smallest scaled constraint.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy import ndarray

from pied.bounds import Composite
from pied.errors import SettingError, did_you_mean
from pied.problem import Named
from pied.search import Search
from pied.shapes import Float64
from pied.study.outlook import Case, Outlook, plain
from pied.study.relaxation import searched
from pied.study.words import Words, figure, percent, short

DRAWS = 128
"""Draws of what varies and of the outputs while searching."""
CHECKED = 1024
"""Other draws, with which the stated probability is computed."""
CASES = 16
"""Values of the constants: each makes a white box of its own."""
CAUTION = 0.02
"""Added to the probability while searching, at most half of what is left to 1: few draws flatter the point found."""


@dataclass(frozen=True, eq=False)
class Robust:
    """Settings that stay allowed with a stated probability, and what they are worth."""

    x: Named
    """The settings, natural units."""
    value: float
    """Mean of the objective over what varies, in the user's sense."""
    bounds: tuple[float, float]
    """Where the objective lies in nine of ten cases."""
    probability: float
    """That all limits are met, over what varies and by the belief."""
    wanted: float
    """The probability that was asked for."""
    vary: dict[str, tuple[float, float]]
    """What varies: a setting by this much down and up, a constant from and to."""
    objective: str
    words: Words

    @property
    def is_feasible(self) -> bool:
        """Whether the wanted probability is reached; if not, these settings come nearest."""
        return self.probability >= self.wanted - 1.0 / math.sqrt(CHECKED)

    def __str__(self) -> str:
        low, high = self.bounds
        unit = f" {self.words.unit}" if self.words.unit else ""
        head = "" if self.is_feasible else f"No settings reach {percent(self.wanted)}. Closest:\n"
        lines = [f"{head}{short(self.objective)} {figure(self.value, high - low)}{unit} on average "
                 f"({figure(low, high - low)} to {figure(high, high - low)} in nine of ten cases)"]  # fmt: skip
        lines += [f"  {name} = {self.words.setting(name, value)}" for name, value in self.x.items()]
        return "\n".join([*lines, f"  all limits are met with a probability of {percent(self.probability)}"])

    def to_dict(self) -> dict[str, Any]:
        """Return it as data for JSON."""
        return {
            "x": dict(self.x),
            "value": plain(self.value),
            "bounds": [plain(each) for each in self.bounds],
            "probability": self.probability,
            "wanted": self.wanted,
            "feasible": self.is_feasible,
            "vary": {name: list(ends) for name, ends in self.vary.items()},
        }


def robust(outlook: Outlook, vary: Mapping[str, Any], probability: float) -> Robust:
    """Return the settings with the best mean objective that meet all limits with a probability.

    Args:
        outlook: What is believed.
        vary: A setting and by how much it varies, evenly, down and up: `{"T": 1.0}`; a constant and its range,
            evenly: `{"price": (9, 12)}`, or by how much it varies.
        probability: That all limits are met.
    """
    if not 0.5 <= probability < 1:
        raise SettingError(f"the probability is from 0.5 to below 1, got {probability}")
    ends = _ends(outlook, vary)
    problem = outlook.problem
    drawn = _Varied(outlook, ends, DRAWS, "search", min(probability + CAUTION, 0.5 * (1 + probability)))
    search = searched(problem, Search(pool=128, generations=1, starts=3, afar=0, relays=0, rounds=30))
    stream = outlook.snapshot.stream.at("robust")
    answer = outlook.answer({})
    known = outlook.told if answer.u is None else np.concatenate([outlook.told, np.clip(answer.u, 0, 1)[None]])
    pool = problem.on_equalities(problem.within(search.screen(stream, problem.d, known), stream.at("within")))
    best = search.solve(drawn, np.array([outlook.scales[0], 1.0]), pool, known, stream, rescue=True)
    check = _Varied(outlook, ends, CHECKED, "check", probability)
    G = check.samples(best.u[None])[0]
    holds = float((G[:, 0, 1:] >= 0).all(1).mean()) if problem.n else 1.0
    values = problem.user_value(1.0) * G[:, 0, 0]
    low, high = np.quantile(values, [0.05, 0.95])
    return Robust(
        problem.named_x(problem.natural(best.u)), float(values.mean()), (float(low), float(high)), holds, probability,
        ends, problem.objective, Words.of(problem),
    )  # fmt: skip


def _ends(outlook: Outlook, vary: Mapping[str, Any]) -> dict[str, tuple[float, float]]:
    """Check what varies; settings as steps down and up, constants and limits as their ends."""
    problem, found = outlook.problem, {}
    if not vary:
        raise SettingError("nothing varies: give settings or constants, vary={'T': 1.0, 'price': (9, 12)}")
    for name, given in vary.items():
        is_pair = isinstance(given, Sequence | ndarray) and len(given) == 2
        if not is_pair and not isinstance(given, int | float):
            raise SettingError(f"'{name}' varies by a number or between two, (9, 12), got {given!r}")
        low, high = (float(each) for each in (given if is_pair else (-abs(given), abs(given))))
        if name in problem.axes:
            if problem.axes[name].is_choice or problem.listing is not None:
                raise SettingError(f"'{name}' is one of listed settings: it is set as it is and cannot vary")
            low, high = (low, high) if not is_pair or low <= 0 <= high else (math.nan, math.nan)
            if math.isnan(low):
                raise SettingError(f"'{name}' is a setting: say by how much it varies, for instance 0.5 or (-1, 0.5)")
        elif name in outlook.parameters:
            at = 0.0 if is_pair else outlook.parameters[name]
            low, high = at + low, at + high
        elif name in problem.variables:
            raise SettingError(f"'{name}' follows from the other settings by an equality: let one of these vary")
        else:
            near = did_you_mean(str(name), [*problem.variables, *outlook.parameters])
            raise SettingError(f"there is no setting, constant or limit '{name}' that could vary.{near}")
        found[str(name)] = (min(low, high), max(low, high))
    return found


@dataclass(frozen=True, eq=False)
class _Varied:
    """The two functions of the search: the mean objective, and the quantile of the smallest scaled constraint."""

    outlook: Outlook
    ends: Mapping[str, tuple[float, float]]
    draws: int
    label: str
    probability: float

    k = 2
    white = ()

    @cached_property
    def _uniform(self) -> Float64[ndarray, "D v"]:
        return self.outlook.snapshot.stream.at("robust", self.label).sobol(self.draws, max(1, len(self.ends)))

    @cached_property
    def _outcomes(self) -> Float64[ndarray, "D m"]:
        """Standard normals: how each draw of the outputs deviates from the mean."""
        return self.outlook.snapshot.stream.at("robust", self.label, "outputs").sobol_normal(
            self.draws, self.outlook.problem.m
        )

    @cached_property
    def _steps(self) -> Float64[ndarray, "D v"]:
        """Changes of the variables, natural units."""
        problem = self.outlook.problem
        steps = np.zeros((self.draws, len(problem.variables)))
        for place, (name, (low, high)) in enumerate(self.ends.items()):
            if name in problem.axes:
                steps[:, list(problem.variables).index(name)] = low + (high - low) * self._uniform[:, place]
        return steps

    @cached_property
    def _groups(self) -> list[tuple[Case, Composite, ndarray]]:
        """The draws that share the values of the constants, with their white boxes."""
        outlook = self.outlook
        moving = [(place, name) for place, name in enumerate(self.ends) if name not in outlook.problem.axes]
        every = np.arange(self.draws)
        if not moving:
            return [(outlook.case({}), outlook.composite(outlook.problem), every)]
        groups = []
        size = min(CASES, self.draws)
        for i in range(size):
            changes = {name: _between(self.ends[name], self._uniform[i, place]) for place, name in moving}
            case = outlook.case(changes)
            groups.append((case, outlook.composite(case.problem), every[i::size]))
        return groups

    def samples(self, U: Float64[ndarray, "b d"]) -> tuple[Float64[ndarray, "D b k"], Float64[ndarray, "D b k d"]]:
        """Return all functions of the problem for each draw at each point, and their slopes by the point."""
        problem = self.outlook.problem
        b, (D, m) = len(U), self._outcomes.shape
        X = problem.from_unit(U)[None] + self._steps[:, None]
        moved = problem.to_unit(X.reshape(D * b, -1))
        f = np.empty((D, b, problem.k))
        J = np.empty((D, b, problem.k, problem.d))
        xi = np.repeat(self._outcomes[:, None], b, 1)
        moved = moved.reshape(D, b, -1)
        for case, composite, rows in self._groups:
            own, slopes, _ = composite.outcomes_and_slopes(
                moved[rows].reshape(len(rows) * b, -1), xi[rows].reshape(len(rows) * b, m)
            )
            f[rows] = own.reshape(len(rows), b, -1) + case.shift
            J[rows] = slopes.reshape(len(rows), b, problem.k, -1)
        return f, J

    def values(self, U: Float64[ndarray, "b d"]) -> Float64[ndarray, "b 2"]:
        """Return the two functions."""
        return self.values_and_slopes(U)[0]

    def values_and_slopes(
        self, U: Float64[ndarray, "b d"]
    ) -> tuple[Float64[ndarray, "b 2"], Float64[ndarray, "b 2 d"]]:
        """Return the two functions and their slopes; the quantile is the mean of a few neighbouring draws."""
        G, J = self.samples(U)
        f, slopes = np.empty((len(U), 2)), np.empty((len(U), 2, U.shape[1]))
        f[:, 0], slopes[:, 0] = G[..., 0].mean(0), J[:, :, 0].mean(0)
        f[:, 1], slopes[:, 1] = 1.0, 0.0
        if G.shape[2] > 1:
            scaled = G[..., 1:] / self.outlook.scales[1:]
            least = scaled.argmin(2)[..., None]
            smallest = np.take_along_axis(scaled, least, 2)[..., 0]
            by = np.take_along_axis(J[:, :, 1:] / self.outlook.scales[1:, None], least[..., None], 2)[:, :, 0]
            place = math.floor((1.0 - self.probability) * self.draws)
            rows = np.argsort(smallest, 0)[max(0, place - 1) : place + 1]
            f[:, 1] = np.take_along_axis(smallest, rows, 0).mean(0)
            slopes[:, 1] = np.take_along_axis(by, rows[..., None], 0).mean(0)
        return f, slopes


def _between(ends: tuple[float, float], part: float) -> float:
    return float(ends[0] + (ends[1] - ends[0]) * part)
