"""Plants for `running.py`: some of what matters is only measured, and the optimum moves with it.

The reactor of Williams and Otto whose feed and price change, the same with a catalyst that ages, and a heat pump over
the temperature of the air: with correlations of our own, and with CoolProp where it is installed.
"""

import importlib.util
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, Protocol

import numpy as np
from scipy.interpolate import CubicSpline
from scipy.optimize import brentq, minimize

from pied import Observed, Problem
from pied.rng import Stream
from pied.suite.applied import williams_otto

Named = dict[str, float]
USUAL = 64
"""Points of the box over which the median of the objective is taken."""
MISSED = 1e-4
"""Of a limit's scale: a limit that is missed by less is met."""


@dataclass(frozen=True, eq=False)
class Plant:
    """A plant, and what each hour brings."""

    variables: dict[str, Any]
    """What is chosen and what is observed."""
    measure: Callable[[Mapping[str, Any]], Named]
    """Outputs at some settings."""
    hour: Callable[[int, int], Named]
    """Observed values by seed and number of the trial."""
    statement: dict[str, Any]
    """Objective, limits and inputs."""
    size: float
    """Of the objective, by which a local search divides it."""
    scales: tuple[float, ...]
    """Sizes of the limits."""
    starts: tuple[tuple[float, ...], ...]
    """Settings from which the optimum is sought."""

    @cached_property
    def problem(self) -> Problem:
        """As a user states it."""
        outputs = list(self.statement["inputs"])
        return Problem(self.variables, outputs, noise=0, blackbox=self.measure, **self.statement)

    @property
    def settings(self) -> list[str]:
        """What is chosen."""
        return [name for name in self.variables if name not in self.problem.observed]

    def truth(self, x: Mapping[str, Any]) -> tuple[float, list[float]]:
        """Return the true objective, to be maximized, and by which share of its scale each limit is missed."""
        X = self.problem.point(x)[None]
        f0, *limits = self.problem.g(X, self.problem.evaluate(x)[None, None])
        missed = [-float(np.ravel(each)[0]) / scale for each, scale in zip(limits, self.scales, strict=True)]
        return float(np.ravel(f0)[0]), missed

    def best(self, now: Named) -> float:
        """Return the best objective that meets the limits: the best of several local searches."""
        names = self.settings
        low, high = (np.array([getattr(self.variable(name), end) for name in names]) for end in ("lo", "hi"))

        @cache
        def at(*u: float) -> tuple[float, list[float]]:
            return self.truth(dict(zip(names, (low + np.array(u) * (high - low)).tolist(), strict=True)) | now)

        found = -math.inf
        for start in self.starts:
            end = minimize(
                lambda u: -at(*u.tolist())[0] / self.size, (np.array(start) - low) / (high - low), method="SLSQP",
                bounds=[(0, 1)] * len(names), options={"ftol": 1e-9, "eps": 1e-7, "maxiter": 60},
                constraints={"type": "ineq", "fun": lambda u: -np.array(at(*u.tolist())[1])},
            )  # fmt: skip
            value, missed = at(*np.clip(end.x, 0.0, 1.0).tolist())
            found = max(found, value if max(missed) <= MISSED else -math.inf)
        return found

    def variable(self, name: str) -> Any:
        """Return a variable of the statement."""
        return self.problem.variables[name]

    def lost(self, x: Mapping[str, Any], now: Named) -> tuple[float, float] | None:
        """Return what settings lose, as a share of the best objective and as normalized regret.

        None where they break a limit. Where profits change sign, a share of the best one says little.
        """
        value, missed = self.truth({**x, **now})
        best, usual = self._best_and_usual(tuple(now.items()))
        lost = max(0.0, best - value)
        return None if max(missed) > MISSED else (lost / abs(best), lost / abs(best - usual))

    @cache  # noqa: B019, plants live as long as the program
    def _best_and_usual(self, now: tuple[tuple[str, float], ...]) -> tuple[float, float]:
        """Return the best objective, and the median over the box."""
        names, U = self.settings, Stream(0).at("usual").sobol(USUAL, len(self.settings)).tolist()
        spans = [(self.variable(name).lo, self.variable(name).hi) for name in names]
        values = []
        for row in U:
            x = {name: low + u * (high - low) for name, u, (low, high) in zip(names, row, spans, strict=True)}
            values.append(self.truth(x | dict(now))[0])
        return self.best(dict(now)), float(np.median(values))


# --- The reactor of Williams and Otto ---------------------------------------------------------------------------------

AGEING = 80.0
"""Days in which the activity falls to 1/e."""


def reactor(feed: str, price: str, observed: dict[str, Any], hour: Callable[[int, int], Named]) -> Plant:
    """Return the reactor."""

    def measure(x: Mapping[str, Any]) -> Named:
        activity = math.exp(-x["day"] / AGEING) if "day" in x else 1.0
        found = williams_otto(x["F_B"], x["T_r"], F_A=x.get("F_A", 1.8275), activity=activity)
        return {name: found[name] for name in ("X_A", "X_G", "X_P", "X_E")}

    variables = {"F_B": (4.0, 7.0), "T_r": (70.0, 100.0), **observed}
    inputs = [name for name in variables if name != "price"]
    statement = {
        "maximize": f"({price}*X_P + 20.92*X_E)*({feed} + F_B) - 79.23*{feed} - 118.34*F_B",
        "subject_to": {"residual A": "X_A <= 0.12", "byproduct G": "X_G <= 0.08"},
        "inputs": dict.fromkeys(("X_A", "X_G", "X_P", "X_E"), inputs),
    }
    starts = ((4.3, 85.0), (5.0, 78.0), (5.0, 92.0), (6.3, 85.0))
    return Plant(variables, measure, hour, statement, 100.0, (0.12, 0.08), starts)


def _feed_and_price(seed: int, number: int) -> Named:
    first, second = Stream(seed).at("hour", number).uniform(2).tolist()
    return {"F_A": round(1.5 + 0.7 * first, 3), "price": round(900.0 + 300.0 * second)}


def _day(_: int, number: int) -> Named:
    return {"day": float(number)}


# --- A heat pump ------------------------------------------------------------------------------------------------------


class Refrigerant(Protocol):
    """Properties of a refrigerant; temperatures in K, pressures in Pa, enthalpies in J/kg."""

    def pressure(self, T: float) -> float:
        """Return that of saturation."""

    def suction(self, T: float) -> tuple[float, float]:
        """Return density and enthalpy of vapour so much above saturation at T."""

    def liquid(self, T: float) -> float:
        """Return the enthalpy of subcooled liquid below saturation at T."""

    def compressed(self, T: float, top: float, efficiency: float) -> tuple[float, float]:
        """Return enthalpy and temperature of vapour compressed from saturation at T to that at another one."""


SUPERHEAT, SUBCOOLED = 5.0, 3.0
"""K, at the ends of evaporator and condenser."""


class Correlated:
    """Propane, roughly: corresponding states, and an ideal gas with a constant compressibility."""

    def pressure(self, T: float) -> float:
        """Return that of saturation, by the rule of Lewis."""
        return 4.251e6 * math.exp(5.3727 * 1.152 * (1.0 - 369.9 / T))

    def suction(self, T: float) -> tuple[float, float]:
        """Return density and enthalpy of the vapour."""
        latent = 425e3 * ((369.9 - T) / 138.8) ** 0.38
        return self.pressure(T) / (0.88 * 188.6 * (T + SUPERHEAT)), 2600 * (T - 273.15) + latent + 1700 * SUPERHEAT

    def liquid(self, T: float) -> float:
        """Return the enthalpy of the liquid."""
        return 2600 * (T - SUBCOOLED - 273.15)

    def compressed(self, T: float, top: float, efficiency: float) -> tuple[float, float]:
        """Return enthalpy and temperature after compression."""
        rise = (self.pressure(top) / self.pressure(T)) ** (0.13 / 1.13) - 1.0
        work = 1.13 / 0.13 * 0.88 * 188.6 * (T + SUPERHEAT) * rise / efficiency
        return self.suction(T)[1] + work, T + SUPERHEAT + work / 1900.0


class CoolProps:
    """Propane by CoolProp; what depends on one temperature is interpolated in a table of it."""

    def __init__(self) -> None:
        import CoolProp as cp

        self.cp, self.state = cp, cp.AbstractState("HEOS", "Propane")
        T = np.linspace(200.0, 366.0, 400)
        self.table = CubicSpline(T, np.array([self._row(float(each)) for each in T]))

    def _row(self, T: float) -> list[float]:
        """Return log pressure of saturation; density, enthalpy and entropy of the vapour; enthalpy of the liquid."""
        self.state.update(self.cp.QT_INPUTS, 1.0, T)
        p = self.state.p()
        self.state.update(self.cp.PT_INPUTS, p, T + SUPERHEAT)
        vapour = [self.state.rhomass(), self.state.hmass(), self.state.smass()]
        self.state.update(self.cp.PT_INPUTS, p, T - SUBCOOLED)
        return [math.log(p), *vapour, self.state.hmass()]

    def pressure(self, T: float) -> float:
        """Return that of saturation."""
        return math.exp(self.table(T)[0])

    def suction(self, T: float) -> tuple[float, float]:
        """Return density and enthalpy of the vapour."""
        return float(self.table(T)[1]), float(self.table(T)[2])

    def liquid(self, T: float) -> float:
        """Return the enthalpy of the liquid."""
        return float(self.table(T)[4])

    def compressed(self, T: float, top: float, efficiency: float) -> tuple[float, float]:
        """Return enthalpy and temperature after compression."""
        p, (_, _, h, s, _) = self.pressure(top), self.table(T).tolist()
        self.state.update(self.cp.PSmass_INPUTS, p, s)
        h += (self.state.hmass() - h) / efficiency
        self.state.update(self.cp.HmassP_INPUTS, h, p)
        return float(h), float(self.state.T())


DISPLACED, WATER = 0.004, 4.18
"""m3/s at full speed; kJ/(kg K)."""
RETURN = 303.15
"""K, of the water that comes back."""
MODES = ("own correlations", "CoolProp")


@cache
def refrigerant(mode: str) -> Refrigerant:
    """Return the refrigerant."""
    return CoolProps() if mode == "CoolProp" else Correlated()


def heat_pump(mode: str) -> Plant:
    """Return a heat pump, whose compressor, fan and pump are set, over the temperature of the air."""

    def measure(x: Mapping[str, Any]) -> Named:
        return balanced(refrigerant(mode), x["speed"], x["fan"], x["flow"], x["air"] + 273.15)

    variables = {"speed": (0.2, 1.0), "fan": (0.2, 1.0), "flow": (0.08, 0.5), "air": Observed(-10.0, 12.0)}
    statement = {
        "minimize": "W + 0.25*fan**3 + 0.12*(flow/0.3)**3",
        "subject_to": {
            "heat": "4.18*flow*(T_out - 30) >= 0.25*(19 - air)",
            "supply": "T_out >= 40 - 0.4*air",
            "discharge": "T_dis <= 85",
        },
        "inputs": {name: list(variables) for name in ("T_out", "W", "T_dis")},
    }
    starts = ((0.4, 0.5, 0.15), (0.6, 0.6, 0.25), (0.85, 0.5, 0.2), (0.9, 0.9, 0.3))
    return Plant(variables, measure, _air, statement, 1.0, (5.0, 10.0, 85.0), starts)


def _air(seed: int, number: int) -> Named:
    return {"air": round(-10.0 + 22.0 * float(Stream(seed).at("hour", number).uniform(1)[0]), 1)}


def balanced(fluid: Refrigerant, speed: float, fan: float, flow: float, air: float) -> Named:
    """Return outlet of the water (degC), power of the compressor (kW) and its discharge (degC) at steady state."""
    from_air, to_water = 2.2 * fan, WATER * flow  # kW/K
    evaporator = from_air * (1.0 - math.exp(-1.3 * math.sqrt(fan) / from_air))
    condenser = to_water * (1.0 - math.exp(-1.5 * (flow / 0.3) ** 0.4 / to_water))

    def cycle(T: float, top: float) -> tuple[float, float, float, float]:
        """Return heat taken, heat given and power in kW, and the discharge in K."""
        ratio = fluid.pressure(top) / fluid.pressure(T)
        efficiency = max(0.3, 0.74 - 0.015 * (ratio - 3.0) ** 2 - 0.15 * (speed - 0.6) ** 2)
        rho, h1 = fluid.suction(T)
        h2, hot = fluid.compressed(T, top, efficiency)
        mass = speed * DISPLACED * rho * max(0.2, 1.0 - 0.045 * (ratio - 1.0)) / 1e3
        return mass * (h1 - fluid.liquid(top)), mass * (h2 - fluid.liquid(top)), mass * (h2 - h1), hot

    def top_of(T: float) -> float:
        low, high = max(RETURN, T) + 0.01, 365.0
        return float(brentq(lambda top: condenser * (top - RETURN) - cycle(T, top)[1], low, high, xtol=1e-9))

    T = float(brentq(lambda T: evaporator * (air - T) - cycle(T, top_of(T))[0], air - 45.0, air - 0.01, xtol=1e-9))
    _, given, power, hot = cycle(T, top_of(T))
    return {"T_out": RETURN + given / to_water - 273.15, "W": power, "T_dis": hot - 273.15}


PLANTS: dict[str, Callable[[], Plant]] = {
    "feed and price change": lambda: reactor(
        "F_A", "price", {"F_A": Observed(1.5, 2.2), "price": Observed(900.0, 1200.0)}, _feed_and_price
    ),
    "the catalyst ages": lambda: reactor("1.8275", "1043.38", {"day": Observed(0.0, 60.0)}, _day),
    "the catalyst ages, forget=20": lambda: reactor("1.8275", "1043.38", {"day": Observed(0.0, 60.0, forget=20)}, _day),
    "heat pump": lambda: heat_pump("own correlations"),
    "heat pump, CoolProp": lambda: heat_pump("CoolProp"),
}
"""By name."""


def is_installed(name: str) -> bool:
    """Whether what a plant needs is installed."""
    return "CoolProp" not in name or importlib.util.find_spec("CoolProp") is not None


@cache
def plant(name: str) -> Plant:
    """Return a plant."""
    return PLANTS[name]()
