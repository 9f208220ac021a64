"""Problems of the suite, random ones and ones of very many settings, with functions in NumPy, exact or with noise."""

import dataclasses
from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from pied import suite
from pied.bench.plan import _optima
from pied.problem import Choice, Integer, Named, Variable
from pied.records.trial import spread
from pied.rng import Stream
from pied.suite import Benchmark
from pied.suite.applied import FEED_A, MEASURED
from pied.suite.benchmark import state

DRAWS = (
    "gp-2-2-1-101", "polynomial-3-3-2-102", "oscillating-2-2-1-103", "steep-3-2-2-104",
    "reactor-3-3-2-105", "separation-4-3-2-106", "calibration-3-8-1-107", "gp-5-4-3-108",
)  # fmt: skip
"""Random problems: kind, d, m, n and seed."""
LARGE: dict[str, dict[str, Any]] = {
    "settings-1e5": {
        "grade": Choice(*"ABCDEF"), "shape": Choice(*"ABCDEFGH"), "stages": Integer(1, 12), "tubes": Integer(1, 15),
        "length": Variable(0, 9.5, step=0.5), "reflux": Variable(0, 1), "split": Variable(0, 1),
    },
    "settings-1e6": {
        "grade": Choice(*"ABCDE"), "shape": Choice(*"ABCDEF"), "stages": Integer(1, 10), "tubes": Integer(1, 20),
        "length": Variable(0, 19.9, step=0.1), "reflux": Variable(0, 1), "split": Variable(0, 1),
        "purge": Variable(0, 1),
    },
}  # fmt: skip
"""Variables of problems with 172,800 and 1,200,000 combinations of labels, integers and steps."""
LARGE_OUTPUTS = 6
MANY = ("calibration-4-24-0-209", "robust-4-50-0-205", "calibration-4-200-0-207")
"""Random problems with many outputs; a robust one is a calibration with log(1 + r^2) for r^2. Measurements are met at
the optimum, which therefore is the same."""
SQUARES, ROBUST = "sum(((outputs - measured)/spread)**2)", "sum(log(1 + ((outputs - measured)/spread)**2))"
NOISE = 0.02
"""Of the spread of each output."""
POOL = 1024
"""Points from which the spread of an output over the box is computed."""

Function = Callable[[Named, Named], Any]


COSTS = np.array([42.0, 44.0, 45.0, 47.0, 47.5])
READ = np.array(MEASURED)


def _rosenbrock(x: Named, y: Named) -> Any:
    squares = 100 * np.sum(y.array[..., :3] ** 2, -1) + np.sum((1 - x.array[..., :3]) ** 2, -1) + y.y4
    return squares + 100 * (x.x5 - x.x4**2) ** 2 + 100 * (x.x6 - x.x5**2) ** 2 + (1 - x.x5) ** 2


def _g09(x: Named, y: Named) -> Any:
    known = x.x3**4 + 3 * (x.x4 - 11) ** 2 + 10 * x.x5**6 + 7 * np.square(x.x6) + x.x7**4
    return y.y1 + known - 4 * x.x6 * x.x7 - 10 * x.x6 - 8 * x.x7


def _shear(x: Named, y: Named) -> Any:
    d, D = x.wire_diameter, x.coil_diameter
    return 1 - (4 * D**2 - d * D) / (12566 * (d**3 * D - d**4)) - 1 / (5108 * d**2)


def _profit(x: Named, y: Named) -> Any:
    return (1043.38 * y.X_P + 20.92 * y.X_E) * (FEED_A + x.F_B) - 79.23 * FEED_A - 118.34 * x.F_B


WRITTEN: dict[str, tuple[Function, dict[str, Function]]] = {
    "booth": (lambda x, y: y.y1 + (2 * x.x1 + x.x2 - 5) ** 2, {}),
    "williams-otto": (
        _profit,
        {"residual A": lambda x, y: 0.12 - y.X_A, "byproduct G": lambda x, y: 0.08 - y.X_G},
    ),
    "spring": (
        lambda x, y: (x.active_coils + 2) * y.volume,
        {
            "deflection": lambda x, y: y.compliance / (71785 * x.wire_diameter**4) - 1,
            "shear stress": _shear,
            "surge frequency": lambda x, y: 140.45 * x.wire_diameter * x.coil_diameter / y.compliance - 1,
            "outer diameter": lambda x, y: 1 - (x.wire_diameter + x.coil_diameter) / 1.5,
        },
    ),
    "rosen-suzuki": (
        lambda x, y: x.x1**2 + x.x2**2 + x.x4**2 - 5 * x.x1 - 5 * x.x2 + y.y1,
        {
            "first": lambda x, y: 8 - np.sum(x.array**2, -1) - x.x1 + x.x2 - x.x3 + x.x4,
            "second": lambda x, y: 10 - x.x1**2 - 2 * x.x2**2 - y.y2 + x.x1 + x.x4,
            "third": lambda x, y: 5 - 2 * x.x1**2 - x.x2**2 - x.x3**2 - 2 * x.x1 + x.x2 + x.x4,
        },
    ),
    "environmental": (lambda x, y: np.sum((y.array - READ) ** 2, -1), {}),
    "ex211": (
        lambda x, y: x.array @ COSTS - 50 * y.y1,
        {"knapsack": lambda x, y: 39 - 20 * x.x1 - y.y2 - 4 * x.x5},
    ),
    "rosenbrock": (_rosenbrock, {}),
    "g09": (
        _g09,
        {
            "first": lambda x, y: 127 - 2 * x.x1**2 - y.y2 - 5 * x.x5,
            "second": lambda x, y: 282 - 7 * x.x1 - 3 * x.x2 - 10 * x.x3**2 - x.x4 + x.x5,
            "third": lambda x, y: 196 - 23 * x.x1 - x.x2**2 - 6 * x.x6**2 + 8 * x.x7,
            "fourth": lambda x, y: 3 * x.x1 * x.x2 - 4 * x.x1**2 - x.x2**2 - 2 * x.x3**2 - 5 * x.x6 + 11 * x.x7,
        },
    ),
}
"""Objective and constraints of problems of the suite, as Python functions."""
WORDS: dict[str, Any] = {
    "log": np.log,
    "sum": lambda v: np.sum(v, -1),
    "min": lambda *parts: reduce(np.minimum, parts),
    "max": lambda *parts: reduce(np.maximum, parts),
}
"""What the formulas of random problems call."""


def in_numpy(formula: str, constants: dict[str, Any]) -> Function:
    """Return a formula as a Python function that calls NumPy."""
    code, known = compile(formula.removesuffix(" >= 0"), "formula", "eval"), WORDS | constants

    def function(x: Named, y: Named) -> Any:
        return eval(code, {**known, **x, **y, "outputs": y.array})

    return function


def large(name: str) -> Benchmark:
    """Return a calibration with very many settings: the outputs at one of them are wanted, and a sum of two is limited.

    Each output is a sum over the variables, of a curve of each number and a height of each label.
    """
    variables, stream = LARGE[name], Stream(0).at(name)
    shape = len(variables), LARGE_OUTPUTS
    heights, slopes = stream.at("heights").normal(*shape, 8), stream.at("slopes").normal(*shape)
    middles = stream.at("middles").uniform(*shape)

    def part(j: int, output: int, variable: Any, x: Any) -> Any:
        if isinstance(variable, Choice):
            return heights[j, output][np.asarray(x, dtype=int)]
        away = (x - variable.lo) / (variable.hi - variable.lo) - middles[j, output]
        return slopes[j, output] * np.sin(3 * away) - 1.5 * away**2

    def h(*x: Any) -> list[Any]:
        return [
            sum(part(j, output, variable, x[j]) for j, variable in enumerate(variables.values()))
            for output in range(LARGE_OUTPUTS)
        ]

    chosen = []
    for u, variable in zip(stream.at("wanted").uniform(len(variables)).tolist(), variables.values(), strict=True):
        levels = variable.levels() if variable.is_stepped else [u]
        chosen.append(levels[int(u * len(levels))])
    wanted = np.array(h(*chosen))
    return state(
        name,
        h,
        variables=variables,
        outputs=[f"y{output + 1}" for output in range(LARGE_OUTPUTS)],
        minimize=lambda x, y: np.sum((y.array - wanted) ** 2, -1),
        subject_to={"sum": lambda x, y: y.y1 + y.y2 - wanted[0] - wanted[1] + 0.1},
        value=0.0,
        at=[v.labels[int(x)] if v.labels else x for x, v in zip(chosen, variables.values(), strict=True)],
        source="by construction",
        feasible=None,
    )


def stated(name: str, noisy: bool = False, seed: int = 0) -> Benchmark:
    """Return a problem of the suite or a random one, its functions in Python, exact or with noise."""
    if name in LARGE:
        return _noisy(large(name), noisy, seed)
    if name in WRITTEN:
        made, (objective, constraints) = suite[name], WRITTEN[name]
    else:
        kind, d, m, n, number = name.split("-")
        drawn = "calibration" if kind == "robust" else kind
        made = suite.random(int(number), drawn, d=int(d), m=int(m), n=int(n), cache_in=_optima())
        told = made.whole.statement()
        fixed = {word: np.array(each) for word, each in made.whole.constants.items()}
        text = told["objective"]["formula"]
        objective = in_numpy(text.replace(SQUARES, ROBUST) if kind == "robust" else text, fixed)
        texts = [each["formula"] for each in told["subject_to"]]
        constraints = {each: in_numpy(text, fixed) for each, text in zip(made.whole.constraints, texts, strict=True)}
    sense = "minimize" if made.whole.minimizes else "maximize"
    whole = made.whole.revised(**{sense: objective}, subject_to=constraints or None, constants=None)
    made = dataclasses.replace(made, whole=whole)
    return _noisy(made, noisy, seed)


def _noisy(made: Benchmark, noisy: bool, seed: int) -> Benchmark:
    """Return a problem told exactly or with noise."""
    if not noisy:
        return made
    whole = made.whole
    std = NOISE * spread(made.outputs(made.settable(whole.from_unit(Stream(0).at("noise").sobol(POOL, whole.d)))))
    return made.told(noise=dict(zip(whole.outputs, std.tolist(), strict=True)), seed=seed)
