"""Six problems in plain Python, which every library of the comparison states in its own words.

A black box takes a point by name and returns its outputs. What is known, profits and limits, are formulas that take
numbers, NumPy arrays and tensors alike, so that each library can use as much of them as it has words for. Nothing here
imports an optimizer; optima are found by search over the formulas, with the black box as cheap as it is here.
"""

import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
from scipy.optimize import minimize

from pied.suite.applied import williams_otto

Point = Mapping[str, Any]
Outputs = Mapping[str, Any]

# --- A reactor with a profit ------------------------------------------------------------------------------------------

FEED_A = 1.8275
"""Feed of A in kg/s, fixed."""


def reactor(x: Point) -> dict[str, float]:
    """Simulate the Williams-Otto reactor: mass fractions in what leaves it."""
    found = williams_otto(x["F_B"], x["T_r"])
    return {name: float(found[name]) for name in ("X_A", "X_G", "X_P", "X_E")}


def profit(F_B: Any, X_P: Any, X_E: Any) -> Any:
    """Return what products bring, less what feeds cost."""
    return (1043.38 * X_P + 20.92 * X_E) * (FEED_A + F_B) - 79.23 * FEED_A - 118.34 * F_B


# --- A composite test problem (Rosen and Suzuki) ----------------------------------------------------------------------


def part(x: Point) -> dict[str, float]:
    """Compute the two unknown terms of the Rosen-Suzuki problem."""
    return {"y1": 2 * x["x3"] ** 2 - 21 * x["x3"] + 7 * x["x4"], "y2": x["x3"] ** 2 + 2 * x["x4"] ** 2}


def composite_value(x1: Any, x2: Any, x4: Any, y1: Any) -> Any:
    """Return the objective, to be minimized."""
    return x1**2 + x2**2 + x4**2 - 5 * x1 - 5 * x2 + y1


def composite_limits(x1: Any, x2: Any, x3: Any, x4: Any, y2: Any) -> tuple[Any, Any, Any]:
    """Return the three slacks, met when >= 0; the first and the third do not depend on an output."""
    first = 8 - (x1**2 + x2**2 + x3**2 + x4**2 + x1 - x2 + x3 - x4)
    second = 10 - (x1**2 + 2 * x2**2 + y2 - x1 - x4)
    return first, second, 5 - (2 * x1**2 + x2**2 + x3**2 + 2 * x1 - x2 - x4)


# --- A choice, a whole number and a temperature -----------------------------------------------------------------------

SOLVENTS = {"water": (0.55, 0.0), "ethanol": (1.0, 2.0), "acetone": (1.3, 3.0), "toluene": (0.8, 5.0)}
"""Speed of the reaction, unknown to the optimizer, and price, known."""


def extraction(x: Point) -> dict[str, float]:
    """Simulate an extraction: yield and impurity."""
    speed = SOLVENTS[x["solvent"]][0]
    rate = speed * 0.25 * 2 ** ((x["temperature"] - 60) / 12)
    return {
        "yield": 1 - math.exp(-rate * x["stages"]),
        "impurity": 0.006 * speed * x["stages"] ** 0.7 * 1.06 ** (x["temperature"] - 60),
    }


def margin(stages: Any, price: Any, yielded: Any) -> Any:
    """Return what the product brings, less stages and solvent."""
    return 100 * yielded - 2 * stages - price


# --- A blend ----------------------------------------------------------------------------------------------------------

PARTS = {"resin": (0.2, 0.7), "filler": (0.1, 0.6), "solvent": (0.05, 0.4), "additive": (0.0, 0.15)}
"""Bounds of the parts, which sum to one."""
PRICES = {"resin": 3.0, "filler": 0.6, "solvent": 1.2, "additive": 9.0}


def blend(x: Point) -> dict[str, float]:
    """Measure a blend: strength and logarithm of viscosity."""
    synergy = 18 * x["resin"] * x["filler"] + 40 * x["additive"] * x["resin"]
    return {
        "strength": 6 * x["resin"] + 3 * x["filler"] - 4 * x["solvent"] + synergy,
        "viscosity": 3 * x["resin"] + 5 * x["filler"] ** 2 - 6 * x["solvent"] + 4 * x["additive"],
    }


def worth(parts: Point, strength: Any) -> Any:
    """Return what the strength is worth, less the parts."""
    return 2 * strength - sum(PRICES[name] * parts[name] for name in PRICES)


# --- A calibration with noise -----------------------------------------------------------------------------------------

TIMES = (1.0, 2.0, 4.0, 8.0)
MEASURED = tuple(f"{what}{time:g}" for what in "AB" for time in TIMES)
TRUE_RATES = {"k1": 0.45, "k2": 0.12}


def kinetics(x: Point) -> dict[str, float]:
    """Simulate A -> B -> C: the concentrations of A and B at four times."""
    k1, k2 = x["k1"], x["k2"]
    apart = k1 - k2 if abs(k1 - k2) > 1e-9 else 1e-9
    a = {f"A{t:g}": math.exp(-k1 * t) for t in TIMES}
    return a | {f"B{t:g}": k1 / apart * (math.exp(-k2 * t) - math.exp(-k1 * t)) for t in TIMES}


TARGET = kinetics(TRUE_RATES)
"""What was measured."""


def misfit(y: Outputs) -> Any:
    """Return the sum of squared differences, to be minimized."""
    return sum((y[name] - TARGET[name]) ** 2 for name in MEASURED)


# --- The table --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Task:
    """One problem: what a run is judged by. Libraries never see this."""

    title: str
    """What it is, in a few words."""
    budget: int
    """Evaluations."""
    blackbox: Callable[[Point], dict[str, float]]
    value: Callable[[Point, Outputs], float]
    """The objective, to be maximized."""
    slacks: Callable[[Point, Outputs], tuple[float, ...]]
    """Met when >= 0."""
    space: Mapping[str, Any]
    """By variable: a pair of bounds, or a list of what it may be."""
    total: float | None = None
    """What the variables sum to."""
    noise: Mapping[str, float] = field(default_factory=dict)
    """Standard deviations by output."""
    has_solution: bool = True

    @functools.cached_property
    def optimum(self) -> float:
        """The best feasible value, by local searches from many starts for every combination of the discrete rest."""
        lists = {name: each for name, each in self.space.items() if isinstance(each, list)}
        ranges = {name: each for name, each in self.space.items() if name not in lists}
        limits = [] if self.total is None else [{"type": "eq", "fun": lambda v: sum(v) - self.total}]
        best = -math.inf
        for chosen in product(*lists.values()):
            rest = dict(zip(lists, chosen, strict=True))

            def whole(v: np.ndarray, rest: Point = rest) -> dict[str, Any]:
                return {**rest, **dict(zip(ranges, v.tolist(), strict=True))}

            def negative(v: np.ndarray, whole: Callable[..., Any] = whole) -> float:
                return -self.judged(whole(v))[0]

            def slack(v: np.ndarray, whole: Callable[..., Any] = whole) -> list[float]:
                return list(self.judged(whole(v))[1])

            held = [*limits, {"type": "ineq", "fun": slack}]
            for start in self._random(4 if lists else 20, ranges):
                found = minimize(negative, start, bounds=list(ranges.values()), constraints=held, method="SLSQP",
                                 options={"ftol": 1e-14, "maxiter": 300})  # fmt: skip
                if min(slack(found.x), default=0.0) > -1e-9:
                    best = max(best, -float(found.fun))
        return best

    @functools.cached_property
    def scale(self) -> float:
        """How far below the optimum a random feasible point is, in the median: the unit of regret."""
        chance = np.random.default_rng(1)
        ranges = {name: each for name, each in self.space.items() if not isinstance(each, list)}
        found = []
        for v in self._random(2000, ranges):
            x = dict(zip(ranges, v.tolist(), strict=True))
            lists = {n: each for n, each in self.space.items() if isinstance(each, list)}
            value, slacks = self.judged(x | {n: each[chance.integers(len(each))] for n, each in lists.items()})
            if min(slacks, default=0.0) >= 0:
                found.append(self.optimum - value)
        return float(np.median(found))

    def _random(self, count: int, ranges: Mapping[str, Any]) -> np.ndarray:
        """Return points inside the bounds, of the given sum if there is one."""
        chance = np.random.default_rng(0)
        low, high = np.array(list(ranges.values()), dtype=float).T
        points = low + (high - low) * chance.random((count, len(low)))
        if self.total is not None:
            points = low + chance.dirichlet(np.ones(len(low)), size=40 * count) * (self.total - low.sum())
            points = points[(points <= high).all(1)][:count]
        return points

    def judged(self, x: Point) -> tuple[float, tuple[float, ...]]:
        """Return the true objective and slacks of a point."""
        y = self.blackbox(x)
        return float(self.value(x, y)), tuple(float(each) for each in self.slacks(x, y))

    def regret(self, x: Point) -> float:
        """Return the normalized regret of a point, infinite where a limit is broken by more than a millionth."""
        value, slacks = self.judged(x)
        if self.total is not None and abs(sum(x[name] for name in self.space) - self.total) > 1e-6:
            return math.inf
        inside = all(low - 1e-9 <= x[name] <= high + 1e-9 for name, (low, high) in self._ranges)
        return max(self.optimum - value, 0.0) / self.scale if inside and min(slacks, default=0.0) >= -1e-6 else math.inf

    @property
    def _ranges(self) -> list[tuple[str, Any]]:
        return [(name, each) for name, each in self.space.items() if not isinstance(each, list)]


RATES = {"k1": (0.05, 1.5), "k2": (0.01, 1.0)}
FLOWS = {"F_B": (4.0, 7.0), "T_r": (70.0, 100.0)}

TASKS = {
    "reactor": Task(
        "a reactor with a known profit and two limits",
        25,
        reactor,
        lambda x, y: profit(x["F_B"], y["X_P"], y["X_E"]),
        lambda x, y: (0.12 - y["X_A"], 0.08 - y["X_G"]),
        FLOWS,
    ),
    "composite": Task(
        "Rosen-Suzuki, two of its terms unknown",
        30,
        part,
        lambda x, y: -composite_value(x["x1"], x["x2"], x["x4"], y["y1"]),
        lambda x, y: composite_limits(x["x1"], x["x2"], x["x3"], x["x4"], y["y2"]),
        dict.fromkeys(("x1", "x2", "x3", "x4"), (-2.0, 2.0)),
    ),
    "mixed": Task(
        "an extraction: a solvent, a number of stages, a temperature",
        30,
        extraction,
        lambda x, y: margin(x["stages"], SOLVENTS[x["solvent"]][1], y["yield"]),
        lambda x, y: (0.05 - y["impurity"],),
        {"solvent": list(SOLVENTS), "stages": list(range(1, 9)), "temperature": (40.0, 90.0)},
    ),
    "blend": Task(
        "a blend of four parts that sum to one",
        25,
        blend,
        lambda x, y: worth(x, y["strength"]),
        lambda x, y: (1.5 - y["viscosity"],),
        PARTS,
        total=1.0,
    ),
    "infeasible": Task(
        "the reactor with limits that cannot be met together",
        25,
        reactor,
        lambda x, y: profit(x["F_B"], y["X_P"], y["X_E"]),
        lambda x, y: (0.075 - y["X_A"], 0.035 - y["X_G"]),
        FLOWS,
        has_solution=False,
    ),
    "calibration": Task(
        "two rates from eight noisy concentrations",
        25,
        kinetics,
        lambda x, y: -misfit(y),
        lambda x, y: (),
        RATES,
        noise=dict.fromkeys(MEASURED, 0.005),
    ),
}
