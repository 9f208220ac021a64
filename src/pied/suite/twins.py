"""Twins: variants of a problem that are harder in one known way.

infeasible           one constraint tightened beyond its maximum
jointly_infeasible   two constraints tightened: each can still be met, both together cannot
rescaled             other units: powers of ten on variables, outputs and functions
shifted              another box around the same optimum, which is then not its centre or corner
noisy                independent normal noise on every output
"""

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from pied.errors import StatementError
from pied.problem import Named, Problem, Variable
from pied.rng import Stream
from pied.suite.benchmark import Benchmark, BlackBox, BlackBoxFunction, Known
from pied.suite.catalogue import get
from pied.suite.elementary import Number
from pied.suite.optimum import best

INFEASIBLE: dict[str, dict[str, float]] = {
    "bazaraa": {"parabola": 1.2},  # its maximum over the box is 1.00
    "spring": {"deflection": 90.0},  # 72.5
    "ex314": {"quadratic": 420.0},  # 371
    "rosen-suzuki": {"second": 13.0},  # 10.4
    "st-bpv1": {"first": 50.0},  # 45
    "ex211": {"knapsack": 45.0},  # 39
    "ex212": {"supply": 25.0},  # 20
    "g09": {"first": 400.0},  # 187
    "ex724": {"fourth": 1.0},  # 0.472
    "ex216": {"fourth": 18.0},  # 15
    "williams-otto": {"residual A": 0.10},  # X_A <= 0.02, but it never falls below 0.0463
    "illustrative-constraint": {"islands": 150.0},  # 100
    "burn-out": {"wall": 320.0},  # 283
    "phase-limit": {"coke": 0.119},  # 0.1174
    "staged-pumps": {"reserve": 125.0},  # 114
    "narrow-resonance": {"heat": 3.3},  # 3.06
    "stability-lobes": {"finish": 1.6},  # 1.447
}
"""By how much one constraint is tightened, natural units; each depends on an output, so h must be evaluated."""

JOINTLY: dict[str, dict[str, float]] = {
    "bazaraa": {"plane": 3.0, "parabola": 0.6},
    "spring": {"deflection": 2.0, "surge frequency": 4.0},
    "ex314": {"quadratic": 220.0, "edge": 7.0},
    "rosen-suzuki": {"second": 9.0, "third": 7.2},
    "g09": {"first": 168.0, "second": 320.0},
    "williams-otto": {"residual A": 0.045, "byproduct G": 0.045},  # X_A <= 0.075 and X_G <= 0.035
    "growing-noise": {"product": 10.0, "waste": 2.15},  # product >= 15 and waste <= 0.35, where 9.2 is possible
    "gross-errors": {"growth": 2.5, "strain": 0.55},
}
"""By how much two constraints are tightened: either one can be met alone, both together cannot."""

WIDENED: dict[str, dict[str, float]] = {"wolfe": {"x1": -0.5, "x2": -0.5}}
"""Lower bounds that may move outward without a better point: Wolfe's h is smallest at the origin of the plane."""


def _benchmark(which: str | Benchmark) -> Benchmark:
    return which if isinstance(which, Benchmark) else get(which)


def _family(benchmark: Benchmark) -> str:
    """Return the name in the suite; in a smaller box an infeasible constraint stays infeasible."""
    return benchmark.name.removesuffix("-shifted")


# --- Infeasible ------------------------------------------------------------------------------------------------------


def infeasible(which: str | Benchmark) -> Benchmark:
    """Return the twin with one constraint that cannot be met in the box.

    Problems of the suite have fixed amounts. For any other, the first constraint that depends on an output is tightened
    to its maximum plus a quarter of its benchmark scale.

    Args:
        which: a name of the suite, or a benchmark.
    """
    return _infeasible(_benchmark(which))


def _infeasible(benchmark: Benchmark) -> Benchmark:
    """Tighten one constraint beyond its maximum."""
    whole = benchmark.whole
    if not whole.n:
        raise StatementError(f"'{benchmark.name}' has no constraint to tighten.")
    amounts = INFEASIBLE.get(_family(benchmark))
    if amounts is None:
        used = [place for place in range(1, whole.k) if whole.structure[place].kind != "white"]
        place = used[0] if used else 1
        top = best(lambda U: benchmark.truth(U, unit=True)[:, [place]], whole.d, stream=Stream(0).at("twin"))
        assert top is not None  # the search has no constraints
        amounts = {whole.constraints[place - 1]: top.value + 0.25 * float(benchmark.scales[place])}
    return _tightened(benchmark, amounts, "infeasible")


def jointly_infeasible(which: str | Benchmark) -> Benchmark:
    """Return the twin with two constraints that can be met alone but not together.

    Args:
        which: a name of the suite, or its benchmark.
    """
    benchmark = _benchmark(which)
    if _family(benchmark) not in JOINTLY:
        known = ", ".join(f"'{name}'" for name in JOINTLY)
        raise StatementError(f"'{benchmark.name}' has no jointly infeasible twin; these have one: {known}.")
    return _tightened(benchmark, JOINTLY[_family(benchmark)], "jointly-infeasible")


def _tightened(benchmark: Benchmark, amounts: Mapping[str, float], suffix: str) -> Benchmark:
    """Tighten some constraints; the twin has no optimum."""
    whole = benchmark.whole
    constraints = {
        name: _with_more(whole, place, amounts.get(name, 0.0)) for place, name in enumerate(whole.constraints, start=1)
    }
    told = ", ".join(f"'{name}' tightened by {amount:g}" for name, amount in amounts.items())
    return dataclasses.replace(
        benchmark,
        name=f"{benchmark.name}-{suffix}",
        whole=whole.revised(subject_to=constraints),
        optimum=None,
        fraction=0.0,
        note=f"No point is feasible: {told}.",
    )


def _with_more(problem: Problem, place: int, amount: float) -> str | Callable[[Named, Named], Any]:
    """Return a constraint tightened by an amount: a formula if it was one, else a function."""
    described = problem.statement()["subject_to"][place - 1]
    text = described.get("formula")
    if text is not None and text.count("<") + text.count(">") == 1:
        sign = "-" if "<" in text else "+"
        return f"{text} {sign} {amount!r}" if amount else text
    return Transformed(problem, place, ahead=amount)


@dataclass(frozen=True, eq=False)
class Transformed:
    """A function of another problem in other units, minus an amount: g(x / x_factor, y / y_factor) * factor - ahead."""

    problem: Problem
    """The problem that has the function."""
    place: int
    """Position of the function, 0 for the objective."""
    factor: float = 1.0
    """Factor of the value."""
    ahead: float = 0.0
    """Subtracted from the value."""
    x: tuple[float, ...] | None = None
    """Factor of each variable; None: 1."""
    y: tuple[float, ...] | None = None
    """Factor of each output; None: 1."""

    @property
    def __name__(self) -> str:
        return self.problem.functions[self.place]

    def __call__(self, x: Named, y: Named) -> Any:
        """Evaluate, in the user's sense."""
        inside = _in_units(x, self.x), _in_units(y, self.y)
        return self.factor * self.problem.stated(self.place)(*inside) - self.ahead


def _in_units(named: Named, factors: tuple[float, ...] | None) -> Named:
    """Return values in the units before a change by factors."""
    return named if factors is None else Named(tuple(named), named.array / np.array(factors))


# --- Other units -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _InOtherUnits:
    """h in other units."""

    h: BlackBoxFunction
    x: tuple[float, ...]
    y: tuple[float, ...]

    def __call__(self, *x: Number) -> tuple[Number, ...]:
        values = self.h(*(each / factor for each, factor in zip(x, self.x, strict=True)))
        return tuple(factor * value for value, factor in zip(values, self.y, strict=True))


def rescaled(
    which: str | Benchmark,
    *,
    x: float | Mapping[str, float] = 1.0,
    y: float | Mapping[str, float] = 1.0,
    g: float | Mapping[str, float] = 1.0,
) -> Benchmark:
    """Return the twin in other units, to show whether a method depends on units.

    Args:
        which: a name of the suite, or a benchmark.
        x: factor of the variables: a number, or one for each name that changes.
        y: the same for the outputs.
        g: the same for the functions; the objective is called 'objective' here.
    """
    benchmark = _benchmark(which)
    whole = benchmark.whole
    by_x = _factors(x, tuple(whole.variables))
    by_y = _factors(y, whole.outputs)
    by_g = _factors(g, ("objective", *whole.constraints))
    h = _InOtherUnits(benchmark.h, by_x, by_y)
    functions = [Transformed(whole, place, factor, 0.0, by_x, by_y) for place, factor in enumerate(by_g)]
    sense = "minimize" if whole.minimizes else "maximize"
    changed = Problem(
        {
            name: Variable(v.lo * factor, v.hi * factor, log=v.log, unit=v.unit)
            for (name, v), factor in zip(whole.variables.items(), by_x, strict=True)
        },
        list(whole.outputs),
        blackbox=BlackBox(h, tuple(whole.variables), whole.outputs),
        subject_to=dict(zip(whole.constraints, functions[1:], strict=True)) or None,
        inputs=_inputs(whole),
        ranges={
            name: (lo * factor, hi * factor)
            for name, factor, (lo, hi) in zip(whole.outputs, by_y, whole.ranges.tolist(), strict=True)
        },
        noise=0,
        **({} if whole.objective == "any feasible point" else {sense: functions[0]}),
    )
    return dataclasses.replace(
        benchmark,
        name=f"{benchmark.name}-rescaled",
        whole=changed,
        h=h,
        optimum=_moved(benchmark.known, by_g[0], dict(zip(whole.variables, by_x, strict=True))),
        noise=tuple(std * factor for std, factor in zip(benchmark.noise, by_y, strict=True)) if benchmark.noise else (),
        note=f"In other units: x by {x}, y by {y}, g by {g}.",
    )


def _factors(given: float | Mapping[str, float], names: tuple[str, ...]) -> tuple[float, ...]:
    factors = (
        {name: given.get(name, 1.0) for name in names} if isinstance(given, Mapping) else dict.fromkeys(names, given)
    )
    unknown = [name for name in given if name not in factors] if isinstance(given, Mapping) else []
    if unknown or not all(0 < factor < float("inf") for factor in factors.values()):
        raise StatementError(f"Units change by positive factors for the names {list(names)}; got {given}.")
    return tuple(float(factor) for factor in factors.values())


def _inputs(problem: Problem) -> dict[str, list[str]]:
    names = list(problem.variables)
    return {
        output: [name for name, seen in zip(names, row, strict=True) if seen]
        for output, row in zip(problem.outputs, problem.active.tolist(), strict=True)
    }


def _moved(known: Known | None, by_g: float, by_x: Mapping[str, float]) -> Known | None:
    if known is None:
        return None

    def moved(point: Mapping[str, float]) -> dict[str, float]:
        return {name: value * by_x[name] for name, value in point.items()}

    return Known(known.value * by_g, moved(known.x), known.source, tuple(moved(point) for point in known.others))


# --- Another box, noise ----------------------------------------------------------------------------------------------


def shifted(which: str | Benchmark, *, seed: int = 0) -> Benchmark:
    """Return the twin whose box is cut on one side of each variable, so that its centre is not the optimum.

    The new box lies inside the old one and contains the optimum, which remains the optimum. A variable whose optimum is
    a bound keeps that bound, except where the box may be extended (`WIDENED`).

    Args:
        which: a name of the suite, or a benchmark.
        seed: of the sides and sizes of the cuts.
    """
    benchmark = _benchmark(which)
    known = benchmark.known
    if known is None:
        raise StatementError(f"'{benchmark.name}' has no known optimum that the new box could contain.")
    wider = WIDENED.get(benchmark.name, {})
    draws = Stream(seed).at("shifted", benchmark.name).uniform(benchmark.whole.d, 2).tolist()
    boxes = {}
    for (name, v), (side, cut) in zip(benchmark.whole.variables.items(), draws, strict=True):
        lo, hi, at = wider.get(name, v.lo), v.hi, known.x[name]
        below = at - lo > 1e-3 * (hi - lo) and (side < 0.5 or hi - at <= 1e-3 * (hi - lo))
        share = 0.2 + 0.3 * cut
        boxes[name] = dataclasses.replace(
            v, lo=lo + share * (at - lo) if below else lo, hi=hi if below else hi - share * (hi - at)
        )
    inside = [
        point
        for point in known.others
        if all(boxes[name].lo <= value <= boxes[name].hi for name, value in point.items())
    ]
    return dataclasses.replace(
        benchmark,
        name=f"{benchmark.name}-shifted",
        whole=benchmark.whole.revised(variables=boxes),
        optimum=dataclasses.replace(known, others=tuple(inside)),
        fraction=None,
        note="The box is cut on one side of each variable; the optimum is the same.",
    )


def noisy(
    which: str | Benchmark, std: float | Mapping[str, float], *, seed: int = 0, declare_noise: bool = False
) -> Benchmark:
    """Return the twin with independent normal noise on its outputs.

    Args:
        which: a name of the suite, or a benchmark.
        std: standard deviation, natural units: a number, or one per output by name.
        seed: of the noise.
        declare_noise: whether the statement gives the noise; by default it has to be learned.
    """
    benchmark = _benchmark(which)
    return benchmark.told(benchmark.structure, std, seed=seed, declare_noise=declare_noise)


def twin(
    which: str | Benchmark,
    *,
    scale: float | None = None,
    shift: int | None = None,
    infeasible: bool | str = False,
    noise: float | Mapping[str, float] = 0.0,
    seed: int = 0,
) -> Benchmark:
    """Return a twin that is harder in one way or several.

    Example: `docs/guide-suite.md`.

    Args:
        which: a name of the suite, or a benchmark.
        scale: multiply variables, outputs and functions by this.
        shift: cut the box; the number is the seed of the cuts.
        infeasible: True for one constraint that cannot be met, 'jointly' for two that cannot be met together.
        noise: standard deviation on each output, in the units of the twin.
        seed: of the noise.
    """
    made = _benchmark(which)
    if infeasible not in (False, True, "one", "jointly"):
        raise StatementError(f"infeasible should be True or 'jointly', got {infeasible!r}.")
    if shift is not None:
        made = shifted(made, seed=shift)
    if infeasible:
        made = jointly_infeasible(made) if infeasible == "jointly" else _infeasible(made)
    if scale is not None:
        made = rescaled(made, x=scale, y=scale, g=scale)
    return noisy(made, noise, seed=seed) if noise else made
