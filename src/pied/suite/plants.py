"""Random plants at steady state: stirred reactors in series and flash drums in series, with random constants."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy import ndarray

from pied.errors import StatementError
from pied.problem import Variable
from pied.rng import Stream
from pied.shapes import Float64
from pied.suite.elementary import Number, exp, on_arrays, sqrt
from pied.suite.sketch import Expression, Sketch, combined, number, pick, power_of_ten, scaled_text, some, unit_text

REFERENCE_TEMPERATURE = 350.0
"""K; rates and vapour pressures are drawn at this temperature."""
STAGES = {1: 1, 2: 1, 3: 1, 4: 2, 5: 2, 6: 3, 7: 3, 8: 3}
"""Stages in series for each number of variables: two variables per stage, the others are feed and effort."""


def _chosen(stream: Stream, offered: dict[str, Expression], n: int, kind: str) -> dict[str, Expression]:
    """Choose n of the constraints that exist for these outputs."""
    if n > len(offered):
        raise StatementError(
            f"A drawn {kind} with these outputs has at most {len(offered)} constraints ({', '.join(offered)}), not {n}."
        )
    names = list(offered)
    return {names[place]: offered[names[place]] for place in some(stream, range(len(names)), n)}


def _extras(stream: Stream, d: int) -> list[str]:
    """Return which of feed and effort are variables, in addition to those of the stages."""
    if d in (3, 5, 7):
        return [pick(stream, ("feed", "effort"))]
    return ["feed", "effort"] if d == 8 else []


# --- Stirred tanks in series: A -> B -> C, 2 A -> D ------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Reactors:
    """Outlet concentrations of stirred tanks in series at steady state, in closed form.

    Each tank has a quadratic equation for A (first order to B, second order to D); B, C and D follow.
    """

    names: tuple[str, ...]
    wanted: tuple[str, ...]
    rates: tuple[tuple[float, float], ...]
    """Rate at the reference temperature and activation temperature of A -> B, B -> C, 2 A -> D."""
    time: float
    """Residence time if it is not a variable."""
    unit: float
    """Of concentration."""

    def __call__(self, *x: Number) -> Sequence[Number]:
        given = dict(zip(self.names, x, strict=True))
        A = given.get("feed", self.unit) / self.unit
        B = C = D = 0.0 * A
        for stage in range(1, 1 + sum(name.startswith("T") for name in self.names)):
            T, tau = given[f"T{stage}"], given.get(f"tau{stage}", self.time)
            k1, k2, k3 = (tau * k * exp(e * (1 / REFERENCE_TEMPERATURE - 1 / T)) for k, e in self.rates)
            A = 2 * A / (1 + k1 + sqrt((1 + k1) ** 2 + 8 * k3 * A))
            B = (B + k1 * A) / (1 + k2)
            C, D = C + k2 * B, D + k3 * A**2
        found = {"c_A": A, "c_B": B, "c_C": C, "c_D": D}
        return [self.unit * found[name] for name in self.wanted]


def reactor(stream: Stream, d: int, m: int, n: int) -> Sketch:
    """Draw stirred tanks in series: much B, little C and D."""
    if not (1 <= d <= 8 and 1 <= m <= 4):
        raise StatementError(f"A drawn reactor has 1 to 8 variables and 1 to 4 outputs, not {d} and {m}.")
    stages, extras = STAGES[d], _extras(stream.at("extras"), d)
    shares = stream.at("kinetics").uniform(6).tolist()
    k1 = 10 ** (-3 + 2 * shares[0])
    rates = (
        (k1, 4000 + 4000 * shares[1]),
        (k1 * 10 ** (-1.3 + shares[2]), 6000 + 5000 * shares[3]),
        (k1 * 10 ** (-1.3 + shares[4]), 5000 + 5000 * shares[5]),
    )
    time, unit = float(f"{2 / k1 / stages:.3g}"), power_of_ten(stream.at("unit"), 3)
    variables: dict[str, Variable] = {}
    for stage in range(1, stages + 1):
        variables[f"T{stage}"] = Variable(310.0, 390.0, unit="K")
        if d > 1:
            variables[f"tau{stage}"] = Variable(0.1 * time, 10 * time, log=True, unit="s")
    variables |= {"feed": Variable(0.5 * unit, 2 * unit)} if "feed" in extras else {}
    variables |= {"effort": Variable(0.5, 1.0)} if "effort" in extras else {}
    seen = tuple(name for name in variables if name != "effort")
    outputs = ("c_B", "c_D", "c_A", "c_C")[:m]
    level = {name: scaled_text(name, unit) for name in outputs}
    goal, objective = _reactor_objective(stream.at("objective"), variables, level, time, unit)
    offered = {
        "yield": Expression((level["c_B"],)),
        "heat": Expression((combined([(-1.0, t) for t in _heat(variables)]),)),
    }
    if m > 1:
        offered["byproduct"] = Expression((f"-{level['c_D']}",))
        offered["selectivity"] = Expression((f"c_B/(c_B + c_D + {number(0.01 * unit)})",))
    offered |= {"residual": Expression((f"-{level['c_A']}",))} if m > 2 else {}
    offered |= {"overreacted": Expression((f"-{level['c_C']}",))} if m > 3 else {}
    constraints = _chosen(stream.at("constraints"), offered, n, "reactor")
    return Sketch(
        variables,
        outputs,
        _Restricted(Reactors(seen, outputs, rates, time, unit), tuple(name != "effort" for name in variables)),
        objective,
        constraints,
        {name: list(seen) for name in outputs},
        dict.fromkeys(outputs, (0.0, None)),
        note=f"reactor, {stages} in series: {goal}" + (f", constraints {', '.join(constraints)}" if n else ""),
    )


def _heat(variables: dict[str, Variable]) -> list[str]:
    return [unit_text(name, v) for name, v in variables.items() if name.startswith("T")]


def _reactor_objective(
    stream: Stream, variables: dict[str, Variable], level: dict[str, str], time: float, unit: float
) -> tuple[str, Expression]:
    """Return the objective: profit, productivity, selectivity, a logarithm, or the distance to a set point."""
    B, D = level["c_B"], level.get("c_D")
    shares = stream.at("weights").uniform(4).tolist()
    cost = [(-0.05 - 0.1 * shares[0], heat) for heat in _heat(variables)]
    cost += [(-0.3, scaled_text("feed", unit))] if "feed" in variables else []
    cost += [(-0.02, "(1/(1.05 - effort))")] if "effort" in variables else []
    sold = f"{B}*effort" if "effort" in variables else B
    goals = (
        ["profit", "logarithm"]
        + (["productivity"] if "tau1" in variables else [])
        + (["selectivity", "setpoint"] if D else [])
    )
    goal = pick(stream.at("goal"), goals)
    if goal == "productivity":
        hold = " + ".join(f"{name}/{number(2 * time)}" for name in variables if name.startswith("tau"))
        return goal, Expression((combined([(1.0, f"{sold}/(0.2 + {hold})"), *cost]),))
    if goal == "selectivity":
        return goal, Expression(
            (combined([(1.0, f"c_B/(c_B + 2.0*c_D + {number(0.02 * unit)})"), (0.5, sold), *cost]),)
        )
    if goal == "logarithm":
        rest = [(-0.2 - 0.3 * shares[1], f"log({D} + 0.01)")] if D else []
        return goal, Expression((combined([(1.0, f"log({sold})"), *rest, *cost]),))
    if goal == "setpoint":
        targets = (0.3 + 0.3 * shares[2], 0.03 + 0.1 * shares[3])
        squares = [(-4.0, f"({sold} - {number(targets[0])})**2"), (-20.0, f"({D} - {number(targets[1])})**2")]
        return goal, Expression((combined([*squares, *[(0.2 * weight, text) for weight, text in cost]]),))
    return goal, Expression((combined([(2.0, sold), *cost]),))


@dataclass(frozen=True, eq=False)
class _Restricted:
    """A black box that depends on some of the variables only."""

    h: "Reactors | Drums"
    mask: tuple[bool, ...]

    def __call__(self, *x: Number) -> Sequence[Number]:
        return self.h(*(each for each, seen in zip(x, self.mask, strict=True) if seen))


# --- Flash drums in series -------------------------------------------------------------------------------------------

BISECTIONS, NEWTON_STEPS = 12, 4  # to 1e-3 from a bracket of a few units; Newton then squares the error
HEAVY_FRACTION = 0.45
"""Of the components that are not light, the fraction that is heavy."""


@dataclass(frozen=True, eq=False)
class Drums:
    """Vapour of flash drums in series, given the evaporated fraction and the temperature of each.

    In each drum the pressure solves sum_i z_i (K_i - 1) / (1 + beta (K_i - 1)) = 0, K_i = p_i(T) / P. The left side
    decreases strictly in P, so the root between the smallest and the largest vapour pressure is unique. The vapour
    feeds the next drum.
    """

    names: tuple[str, ...]
    wanted: tuple[str, ...]
    vapour: tuple[tuple[float, float], ...]
    """Logarithm of the vapour pressure at the reference temperature, and its slope in -1/T, for each component."""
    evaporated: float
    """Evaporated fraction if it is not a variable."""
    temperature: float
    """K, if it is not a variable."""
    unit: float
    """Of pressure."""

    def __call__(self, *x: Number) -> Sequence[Number]:
        return on_arrays(self._vapour, x)

    def _vapour(self, x: list[ndarray]) -> list[ndarray]:
        given = dict(zip(self.names, x, strict=True))
        light = given.get("feed", np.full_like(x[0], 0.4))
        z = np.stack([light, (1 - light) * (1 - HEAVY_FRACTION), (1 - light) * HEAVY_FRACTION])
        pressures = []
        for stage in range(1, 1 + sum(name.startswith("beta") for name in self.names)):
            beta = given.get(f"beta{stage}", np.full_like(x[0], self.evaporated))
            T = given.get(f"T{stage}", np.full_like(x[0], self.temperature))
            log_p = np.stack([a + b * (1 / REFERENCE_TEMPERATURE - 1 / T) for a, b in self.vapour])
            log_P = _drum_pressure(z, beta, log_p)
            K = np.exp(log_p - log_P)
            z = K * z / (1 + beta * (K - 1))
            pressures.append(self.unit * np.exp(log_P))
        found = {"y_light": z[0], "y_heavy": z[2], "P_first": pressures[0], "P_last": pressures[-1]}
        return [found[name] for name in self.wanted]


def _drum_pressure(
    z: Float64[ndarray, "3 b"], beta: Float64[ndarray, "b"], log_p: Float64[ndarray, "3 b"]
) -> Float64[ndarray, "b"]:
    """Return the logarithm of the pressure."""

    def balance(log_P: ndarray) -> tuple[ndarray, ndarray]:
        K = np.exp(log_p - log_P)
        below = 1 + beta * (K - 1)
        return (z * (K - 1) / below).sum(0), -(z * K / below**2).sum(0)

    low, high = log_p.min(0), log_p.max(0)
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        up = balance(middle)[0] > 0
        low, high = np.where(up, middle, low), np.where(up, high, middle)
    log_P = (low + high) / 2
    for _ in range(NEWTON_STEPS):
        value, slope = balance(log_P)
        log_P = log_P - value / slope
    return log_P


def separation(stream: Stream, d: int, m: int, n: int) -> Sketch:
    """Draw flash drums in series: much light product of high purity, at moderate pressure."""
    stages, extras = STAGES.get(d, 0), _extras(stream.at("extras"), d)
    most = 4 if stages > 1 else 3
    if not (1 <= d <= 8 and 1 <= m <= most):
        raise StatementError(
            f"A drawn separation of this size has 1 to 8 variables and 1 to {most} outputs, not {d} and {m}."
        )
    shares = stream.at("volatility").uniform(6).tolist()
    logs = (0.8 + 0.8 * shares[0], 0.2 * shares[1], -0.8 - 0.8 * shares[2])
    vapour = tuple((log, 3000 + 2500 * share) for log, share in zip(logs, shares[3:], strict=True))
    variables: dict[str, Variable] = {}
    for stage in range(1, stages + 1):
        variables[f"beta{stage}"] = Variable(0.1, 0.9)
        if d > 1:
            variables[f"T{stage}"] = Variable(310.0, 400.0, unit="K")
    variables |= {"feed": Variable(0.2, 0.6)} if "feed" in extras else {}
    variables |= {"effort": Variable(0.5, 1.0)} if "effort" in extras else {}
    seen = tuple(name for name in variables if name != "effort")
    outputs = ("y_light", "P_first", "y_heavy", "P_last")[:m]
    unit = power_of_ten(stream.at("unit"))
    goal, objective, offered = _separation_functions(stream.at("functions"), variables, outputs, unit)
    constraints = _chosen(stream.at("constraints"), offered, n, "separation")
    first = [name for name in seen if name in ("beta1", "T1", "feed")]
    return Sketch(
        variables,
        outputs,
        _Restricted(
            Drums(seen, outputs, vapour, 0.5, REFERENCE_TEMPERATURE, unit),
            tuple(name != "effort" for name in variables),
        ),
        objective,
        constraints,
        {name: first if name == "P_first" else list(seen) for name in outputs},
        {name: (0.0, None) if name.startswith("P") else (0.0, 1.0) for name in outputs},
        note=f"separation, {stages} drums: {goal}" + (f", constraints {', '.join(constraints)}" if n else ""),
    )


def _separation_functions(
    stream: Stream, variables: dict[str, Variable], outputs: tuple[str, ...], unit: float
) -> tuple[str, Expression, dict[str, Expression]]:
    """Return the name of the objective, the objective, and the possible constraints."""
    share = "*".join(name for name in variables if name.startswith("beta"))
    share += "*effort" if "effort" in variables else ""
    weights = stream.at("weights").uniform(3).tolist()
    cost = [(-0.02 - 0.05 * weights[0], heat) for heat in _heat(variables)]
    cost += [(-0.02, "(1/(1.05 - effort))")] if "effort" in variables else []
    cost += [(-0.05 - 0.1 * weights[1], f"log({scaled_text('P_first', unit)})")] if "P_first" in outputs else []
    cost += [(-0.05, f"log({scaled_text('P_last', unit)})")] if "P_last" in outputs else []
    pure = "(y_light - 2.0*y_heavy)" if "y_heavy" in outputs else "y_light"
    goal = pick(stream.at("goal"), ("profit", "value", "logarithm"))
    if goal == "value":  # the price rises with purity
        objective = combined([(2.0, f"{pure}**2*{share}"), *cost])
    elif goal == "logarithm":
        objective = combined([(1.0 + weights[2], "log(y_light)"), (0.5, f"log({share})"), *cost])
    else:
        objective = combined([(2.0, f"({pure} - {number(0.2 + 0.2 * weights[2])})*{share}"), *cost])
    feed = "feed" if "feed" in variables else "0.4"
    offered = {
        "purity": Expression(("y_light",)),
        "recovery": Expression((f"y_light*{share}/{feed}",)),
    }
    offered |= {"heat": Expression((combined([(-1.0, t) for t in _heat(variables)]),))} if "T1" in variables else {}
    offered |= {"pressure": Expression((f"-{scaled_text('P_first', unit)}",))} if "P_first" in outputs else {}
    offered |= {"heavy": Expression(("-y_heavy",))} if "y_heavy" in outputs else {}
    offered |= {"vacuum": Expression((scaled_text("P_last", unit),))} if "P_last" in outputs else {}
    return goal, Expression((objective,)), offered
