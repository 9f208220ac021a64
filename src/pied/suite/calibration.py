"""Random calibration problems: estimate the parameters of a differential equation from a measured trajectory."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy import ndarray

from pied.errors import StatementError
from pied.problem import Variable
from pied.rng import Stream
from pied.shapes import Float64
from pied.suite.elementary import Number, on_arrays
from pied.suite.sketch import Expression, Sketch, combined, natural, pick, power_of_ten, scaled_text, some, unit_text

LEAST_STEPS = 16
"""Integration steps over the whole trajectory, at least. The discretized model is the truth, so their error is
irrelevant."""
DEPENDENCE = 1e-9
"""An output depends on a parameter if it changes by more than this fraction of its size over the box."""
NON_NEGATIVE = ("A", "B", "C", "X", "P", "I")
"""States that cannot fall below zero: all but the oscillation."""
DEPENDENCE_POINTS = 256
"""Points at which dependence on the parameters is tested."""
HALVINGS, TAYLOR_TERMS = 6, 15
"""Of the matrix exponential."""

Course = Callable[[dict[str, ndarray], int], dict[str, Float64[ndarray, "b t"]]]
"""From parameters by name and a number of times to the trajectory of each state at these equally spaced times."""


def _integrated(
    rate: Callable[[Float64[ndarray, "b s"]], Float64[ndarray, "b s"]],
    state: Float64[ndarray, "b s"],
    horizon: float,
    times: int,
) -> Float64[ndarray, "b s t"]:
    """Integrate by the midpoint rule; return the state at equally spaced times."""
    every = math.ceil(LEAST_STEPS / times)
    step = horizon / (every * times)
    course = []
    for number in range(1, every * times + 1):
        state = state + step * rate(state + step / 2 * rate(state))
        if number % every == 0:
            course.append(state)
    return np.stack(course, -1)


def _chain(p: dict[str, ndarray], times: int) -> dict[str, ndarray]:
    """A <-> B <-> C -> D: linear, so exact by the matrix exponential of one step."""
    zero = np.zeros_like(next(iter(p.values())))
    k1, k2, k3, back1, back2 = (p.get(name, zero + rest) for name, rest in _CHAIN_RATES.items())
    rows = [[-k1, back1, zero], [k1, -k2 - back1, back2], [zero, k2, -k3 - back2]]
    step = _exponential(np.stack([np.stack(row, -1) for row in rows], -2) * (4.0 / times))
    state = np.stack([p.get("A0", zero + 1.0), p.get("B0", zero), p.get("C0", zero)], -1)[..., None]
    course = []
    for _ in range(times):
        state = step @ state
        course.append(state[..., 0])
    stacked = np.stack(course, -1)
    return {name: stacked[..., place, :] for place, name in enumerate("ABC")}


_CHAIN_RATES = {"k1": 1.0, "k2": 0.5, "k3": 0.0, "back1": 0.0, "back2": 0.0}


def _exponential(A: Float64[ndarray, "b s s"]) -> Float64[ndarray, "b s s"]:
    """Return exp(A) by a Taylor series of A / 2^n, squared n times; exact to rounding if A has a norm of 40 at most."""
    one, A = np.eye(A.shape[-1]), A / 2**HALVINGS
    power = one
    for term in range(TAYLOR_TERMS, 0, -1):
        power = one + A @ power / term
    for _ in range(HALVINGS):
        power = power @ power
    return power


def _growth(p: dict[str, ndarray], times: int) -> dict[str, ndarray]:
    """Biomass X with logistic growth and a product P of growth and maintenance, in closed form."""
    zero = np.zeros_like(next(iter(p.values())))
    mu, K, X0 = p.get("mu", zero + 1.0), p.get("K", zero + 1.0), p.get("X0", zero + 0.05)
    t = np.linspace(0, 6.0, times + 1)[1:]
    grown = 1 + (X0 / K)[:, None] * np.expm1(mu[:, None] * t)
    X = X0[:, None] * np.exp(mu[:, None] * t) / grown
    made, kept = p.get("made", zero + 0.5), p.get("kept", zero + 0.1)
    return {"X": X, "P": made[:, None] * (X - X0[:, None]) + (kept * K / mu)[:, None] * np.log(grown)}


def _oscillator(p: dict[str, ndarray], times: int) -> dict[str, ndarray]:
    """A damped oscillation in closed form; fitting its frequency has several basins."""
    zero = np.zeros_like(next(iter(p.values())))
    omega, zeta = p.get("omega", zero + 3.0), p.get("zeta", zero + 0.15)
    start, speed = p.get("start", zero + 1.0), p.get("speed", zero)
    t = np.linspace(0, 4.0, times + 1)[1:]
    damped = (omega * np.sqrt(1 - zeta**2))[:, None]
    swing = (speed[:, None] + (zeta * omega * start)[:, None]) / damped
    decay = np.exp(-(zeta * omega)[:, None] * t)
    return {"q": decay * (start[:, None] * np.cos(damped * t) + swing * np.sin(damped * t))}


def _epidemic(p: dict[str, ndarray], times: int) -> dict[str, ndarray]:
    """Susceptible and infected shares of a population."""
    zero = np.zeros_like(next(iter(p.values())))
    beta, gamma = p.get("beta", zero + 1.5), p.get("gamma", zero + 0.5)

    def rate(state: ndarray) -> ndarray:
        new, over = beta * state[:, 0] * state[:, 1], gamma * state[:, 1]
        return np.stack([-new, new - over], -1)

    first = p.get("I0", zero + 0.01)
    return {"I": _integrated(rate, np.stack([1 - first, first], -1), 8.0, times)[:, 1]}


@dataclass(frozen=True)
class System:
    """A differential equation, with its parameters in the order in which they become variables."""

    course: Course
    parameters: dict[str, Variable]
    states: tuple[str, ...]


SYSTEMS: dict[str, System] = {
    "chain": System(
        _chain,
        {
            "k1": Variable(0.2, 5.0, log=True),
            "k2": Variable(0.1, 2.5, log=True),
            "back1": Variable(0.05, 1.0, log=True),
            "k3": Variable(0.05, 1.0, log=True),
            "A0": Variable(0.5, 2.0),
            "back2": Variable(0.02, 0.5, log=True),
            "B0": Variable(0.0, 0.5),
            "C0": Variable(0.0, 0.5),
        },
        ("A", "B", "C"),
    ),
    "growth": System(
        _growth,
        {
            "mu": Variable(0.5, 2.0),
            "K": Variable(0.5, 2.0),
            "X0": Variable(0.01, 0.2, log=True),
            "made": Variable(0.2, 1.0),
            "kept": Variable(0.02, 0.4, log=True),
        },
        ("X", "P"),
    ),
    "oscillator": System(
        _oscillator,
        {
            "omega": Variable(1.0, 5.0),
            "zeta": Variable(0.02, 0.5),
            "start": Variable(0.5, 1.5),
            "speed": Variable(-1.0, 1.0),
        },
        ("q",),
    ),
    "epidemic": System(
        _epidemic,
        {"beta": Variable(0.8, 3.0), "gamma": Variable(0.2, 0.7), "I0": Variable(0.002, 0.05, log=True)},
        ("I",),
    ),
}


@dataclass(frozen=True, eq=False)
class Observed:
    """A trajectory at some times and states: the black box of a calibration."""

    model: str
    names: tuple[str, ...]
    sites: tuple[tuple[str, int], ...]
    """State and time index of each output."""
    times: int
    unit: float

    def __call__(self, *x: Number) -> Sequence[Number]:
        return on_arrays(self._course, x)

    def _course(self, x: list[ndarray]) -> list[ndarray]:
        courses = SYSTEMS[self.model].course(dict(zip(self.names, x, strict=True)), self.times)
        return [self.unit * courses[state][:, time] for state, time in self.sites]


def calibration(stream: Stream, d: int, m: int, n: int) -> Sketch:
    """Draw a calibration: least squares to a measured trajectory, sometimes with limits on predicted outputs."""
    fitting = [name for name, model in SYSTEMS.items() if len(model.parameters) >= d]
    if not fitting or m < 1 or n > m:
        raise StatementError(
            f"A drawn calibration has 1 to 8 variables and no more constraints than outputs, not {d}, {m}, {n}."
        )
    name = pick(stream.at("model"), fitting)
    model = SYSTEMS[name]
    variables = dict(list(model.parameters.items())[:d])
    times = math.ceil(m / len(model.states))
    sites = tuple((state, time) for state in model.states for time in range(times))[:m]
    unit = power_of_ten(stream.at("unit"))
    h = Observed(name, tuple(variables), sites, times, unit)
    outputs = tuple(f"{state}_{time + 1}" for state, time in sites)

    true = (0.15 + 0.7 * stream.at("true").uniform(d)).tolist()
    exact = h(*(natural(v, u) for v, u in zip(variables.values(), true, strict=True)))
    spread = [0.05 * max(abs(float(value)), 0.2 * unit) for value in exact]
    error = (stream.at("error").normal(m) * float(stream.at("whether").uniform(1).item() < 0.5)).tolist()
    measured = tuple(float(f"{value + 0.4 * s * z:.6g}") for value, s, z in zip(exact, spread, error, strict=True))
    weight = stream.at("limits").uniform(n).tolist()
    limited = some(stream.at("limited"), range(m), n)
    first = next(iter(variables))
    constraints = {
        f"limit {outputs[j]}": Expression(
            (combined([(1.0, scaled_text(outputs[j], unit)), (0.2 * w, unit_text(first, variables[first]))]),),
            free=True,
        )
        for j, w in zip(limited, weight, strict=True)
    }
    return Sketch(
        variables,
        outputs,
        h,
        Expression(("-sum(((outputs - measured)/spread)**2)",)),
        constraints,
        _dependence(h, variables, outputs),
        {each: (0.0, None) for each, (state, _) in zip(outputs, sites, strict=True) if state in NON_NEGATIVE},
        constants={"measured": measured, "spread": tuple(float(f"{s:.4g}") for s in spread)},
        start=tuple(true),
        note=f"calibration of {d} parameters of the model '{name}'" + (f", {n} limits" if n else ""),
    )


def _dependence(h: Observed, variables: dict[str, Variable], outputs: tuple[str, ...]) -> dict[str, list[str]]:
    """Return the parameters that each output depends on, found by changing one at a time."""
    U = Stream(0).at("dependence").sobol(DEPENDENCE_POINTS, len(variables))
    columns = [natural(v, u) for v, u in zip(variables.values(), U.T, strict=True)]
    base = np.stack([np.asarray(value) for value in h(*columns)])
    found: dict[str, list[str]] = {name: [] for name in outputs}
    for place, name in enumerate(variables):
        moved = [np.asarray(column)[::-1] if other == place else column for other, column in enumerate(columns)]
        change = np.stack([np.asarray(value) for value in h(*moved)]) - base
        matters = np.abs(change).max(-1) > DEPENDENCE * np.abs(base).max(-1)
        for output, is_seen in zip(outputs, matters.tolist(), strict=True):
            if is_seen:
                found[output].append(name)
    return found
