"""A test problem: the statement given to a solver, the truth behind it, and the known optimum."""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy import ndarray

from pied.errors import StatementError, did_you_mean
from pied.problem import Mixture, Named, Problem, choices_of
from pied.rng import Stream
from pied.shapes import Bool, Float64
from pied.suite.elementary import Number, median
from pied.suite.readings import READINGS, Reading

POOL_POINTS = 2**14
"""Scrambled Sobol points from which benchmark scales and medians are computed; part of their definition."""
STRICT_TOLERANCE = 1e-6
"""A point is strictly feasible if no constraint is violated by more than this times its benchmark scale."""
GROSS = 15.0
"""How many times as large as usual a gross error is."""
STRUCTURES = ("full", "paper", "black")
KNOWS = ("white", "nothing")
"""What a solver knows of constraints that need no output: their formulas, or nothing, as in the paper's comparison."""

Setting = float | int | str
"""The value of a variable at one point: a number, or the label of a choice."""
Range = tuple[float | None, float | None]
Function = str | Callable[[Named, Named], ndarray]
BlackBoxFunction = Callable[..., Sequence[Number]]
"""h: the variables in order, as numbers or as arrays of one length (a choice as the place of its label); returns the
outputs in order."""


@dataclass(frozen=True)
class Known:
    """The optimum, and how it is known.

    Example: `docs/recipes.md`.
    """

    value: float
    """Optimal value, in the sense of the statement (the smallest if it minimizes)."""
    x: Mapping[str, Any]
    """A point that attains it: numbers, and the labels of choices."""
    source: str
    """How it is known."""
    others: tuple[Mapping[str, Any], ...] = ()
    """Further points that attain it."""


@dataclass(frozen=True)
class BlackBox:
    """h at one point, by name, as a study calls it."""

    h: BlackBoxFunction
    """The truth."""
    variables: tuple[str, ...]
    """Names of its arguments, in order."""
    outputs: tuple[str, ...]
    """Names of its values, in order."""
    labels: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    """The labels of each choice."""

    def __call__(self, x: Mapping[str, Setting]) -> dict[str, float]:
        """Evaluate the truth at one point."""
        values = self.h(*(self._number(name, x[name]) for name in self.variables))
        return {name: float(value) for name, value in zip(self.outputs, values, strict=True)}

    def _number(self, name: str, value: Setting) -> float:
        return float(self.labels[name].index(str(value)) if name in self.labels else value)


@dataclass(frozen=True)
class WithConstraints:
    """h, and after it the values of constraints that need no output."""

    told: Problem
    """The statement in which they are white."""

    def __call__(self, x: Mapping[str, Setting]) -> list[float]:
        """Evaluate the truth at one point."""
        X, y = self.told.point(x)[None], self.told.evaluate(x)
        values = self.told.g(X, y[None, None], which=self.told.white)
        return [*y.tolist(), *(value.item() for value in values)]


class NoisyBlackBox:
    """h with independent normal noise: different values in repeated calls, the same values in repeated runs.

    The k-th call adds the k-th draw of the stream. The call count is the only mutable state in this package.
    """

    def __init__(
        self, exact: BlackBox, std: tuple[float, ...], stream: Stream, *, growth: float = 0.0, outliers: float = 0.0
    ) -> None:
        """Add noise to a black box.

        Args:
            exact: the noise-free black box.
            std: standard deviation of each output, natural units.
            stream: randomness of the noise.
            growth: further standard deviation, as a share of the output's size.
            outliers: share of values with a gross error, `GROSS` times as large.
        """
        self.exact = exact
        self.std = std
        self.stream = stream
        self.growth = growth
        self.outliers = outliers
        self.calls = 0

    def __call__(self, x: Mapping[str, Setting]) -> dict[str, float]:
        """Evaluate with fresh noise."""
        self.calls += 1
        draw = self.stream.at(self.calls).normal(len(self.std)).tolist()
        exact = self.exact(x)
        if self.outliers:
            gross = self.stream.at(self.calls, "gross").uniform(len(self.std)).tolist()
            draw = [z * GROSS if share < self.outliers else z for z, share in zip(draw, gross, strict=True)]
        sizes = [math.hypot(s, self.growth * exact[name]) for name, s in zip(exact, self.std, strict=True)]
        return {name: exact[name] + s * z for name, s, z in zip(exact, sizes, draw, strict=True)}


@dataclass(frozen=True, eq=False)
class Benchmark:
    """A problem with a cheap truth and a known optimum.

    Example: `docs/recipes.md`.
    """

    name: str
    """Lower case, words joined by '-'."""
    whole: Problem
    """The complete noise-free statement, with inputs per output and physical ranges."""
    h: BlackBoxFunction
    """The truth, at one point or at many."""
    optimum: Known | Callable[["Benchmark"], Known] | None
    """The optimum, or a function that finds it on first use; None if there is none."""
    code_inputs: tuple[str, ...]
    """The variables that the authors' code passes to h, for all outputs."""
    fraction: float | None = None
    """Feasible fraction of the box, if it was measured with many points; None: estimated on first use."""
    structure: str = "full"
    """What the solver is told: 'full', 'paper' (inputs of the authors' code, no ranges) or 'black' (g inside h)."""
    noise: tuple[float, ...] = ()
    """Standard deviation of each output; empty if exact."""
    growth: float = 0.0
    """Noise that grows with the output: further standard deviation as a share of its size."""
    outliers: float = 0.0
    """Share of values with a gross error, `GROSS` times as large as usual."""
    knows: str = "white"
    """What the solver knows of constraints that need no output (`KNOWS`)."""
    seed: int = 0
    """Of the noise."""
    declare_noise: bool = False
    """Whether the statement gives the noise; otherwise it has to be learned."""
    note: str = ""
    """What distinguishes a twin or a random problem."""
    printed: Reading | None = None
    """What paper and code state, and how we read it; None for problems that are not the paper's."""

    @cached_property
    def problem(self) -> Problem:
        """The statement given to a solver."""
        told = self.whole
        if self.structure == "paper":
            told = told.revised(inputs=list(self.code_inputs), ranges=None)
        if self.noise:
            exact = BlackBox(self.h, tuple(told.variables), told.outputs, labels_of(told.variables))
            stream = Stream(self.seed).at("noise", self.name)
            blackbox = NoisyBlackBox(exact, self.noise, stream, growth=self.growth, outliers=self.outliers)
            declared = dict(zip(told.outputs, self.noise, strict=True)) if self.declare_noise else None
            told = told.revised(blackbox=blackbox, noise=declared)
        told = without_white(told) if self.knows == "nothing" else told
        return told.folded() if self.structure == "black" else told

    @cached_property
    def known(self) -> Known | None:
        """The optimum; None without an objective or a feasible point."""
        return self.optimum(self) if callable(self.optimum) else self.optimum

    # --- The truth ---------------------------------------------------------------------------------------------------

    def outputs(self, X: Float64[ndarray, "b d"]) -> Float64[ndarray, "b m"]:
        """Return h at many points in natural units."""
        return _columns(len(X), self.h(*X.T))

    def truth(
        self, X: Float64[ndarray, "b d"] | Mapping[str, Setting], *, unit: bool = False
    ) -> Float64[ndarray, "b k"]:
        """Return all functions at many points, noise-free, in the paper's form (objective maximized, constraints >= 0).

        Args:
            X: points in natural units (a choice as the place of its label), or one point by name.
            unit: whether X are points of the unit cube instead; values that cannot be set are moved to the nearest.
        """
        points = self._points(X)
        points = self.settable(self.whole.from_unit(points)) if unit else points
        return _columns(len(points), self.whole.g(points, self.outputs(points)[None]))

    def _points(self, X: Float64[ndarray, "b d"] | Mapping[str, Setting]) -> Float64[ndarray, "b d"]:
        return X if isinstance(X, ndarray) else self.whole.point(X)[None]

    def settable(self, X: Float64[ndarray, "b d"]) -> Float64[ndarray, "b d"]:
        """Return points in natural units with the nearest values that can be set, where these are listed."""
        if not any(each.is_stepped for each in self.whole.variables.values()):
            return X
        moved = X.copy()
        for place, variable in enumerate(self.whole.variables.values()):
            if variable.is_stepped:
                levels = np.array(variable.levels())
                moved[:, place] = levels[np.searchsorted((levels[1:] + levels[:-1]) / 2, X[:, place])]
        return moved

    @cached_property
    def _pool(self) -> Float64[ndarray, "p k"]:
        """The truth at the fixed points for scales and medians."""
        U = Stream(0).at("benchmark").sobol(POOL_POINTS, self.whole.d)
        return self.truth(self.whole.settled(U, Stream(0).at("settled")), unit=True)

    @cached_property
    def scales(self) -> Float64[ndarray, "k"]:
        """Benchmark scale of each function: the median of its absolute value over the box."""
        typical = median(np.abs(self._pool))
        return np.where(typical > 0, typical, 1.0)

    @cached_property
    def median(self) -> float:
        """Median of the true objective over the box, in the paper's form."""
        return float(median(self._pool[:, 0]))

    @cached_property
    def feasible_fraction(self) -> float:
        """Fraction of the box where all constraints hold."""
        if self.fraction is not None:
            return self.fraction
        return float((self._pool[:, 1:] >= 0).all(-1).mean())

    def is_strictly_feasible(self, X: Float64[ndarray, "b d"] | Mapping[str, Setting]) -> Bool[ndarray, "b"]:
        """Tell which points violate no constraint by more than 1e-6 of its benchmark scale."""
        return np.asarray((self.truth(X)[:, 1:] >= -STRICT_TOLERANCE * self.scales[1:]).all(-1))

    def regret(self, X: Float64[ndarray, "b d"] | Mapping[str, Setting]) -> Float64[ndarray, "b"]:
        """Return f* - f in natural units, also at infeasible points."""
        return self.best - self.truth(X)[:, 0]

    def normalized_regret(self, X: Float64[ndarray, "b d"] | Mapping[str, Setting]) -> Float64[ndarray, "b"]:
        """Return the regret in units of the distance from the median of the objective to the optimum."""
        return self.regret(X) / abs(self.best - self.median)

    @cached_property
    def best(self) -> float:
        """The optimal value in the paper's form, f*."""
        if self.known is None:
            raise StatementError(f"'{self.name}' has no known optimum, so there is no regret.")
        return self.whole.user_value(self.known.value) + 0.0  # user_value is its own inverse; -0.0 becomes 0.0

    # --- Other forms -------------------------------------------------------------------------------------------------

    def told(
        self,
        structure: str = "full",
        noise: float | Mapping[str, float] = 0.0,
        *,
        seed: int = 0,
        declare_noise: bool = False,
        growth: float = 0.0,
        outliers: float = 0.0,
        knows: str = "white",
    ) -> "Benchmark":
        """Return the same truth with another statement: other structure or noise.

        Args:
            structure: 'full', 'paper' or 'black'.
            noise: standard deviation on each output, natural units: a number, or one per output by name.
            seed: of the noise.
            declare_noise: whether the statement gives the noise; by default it has to be learned.
            growth: noise that grows with the output: further standard deviation, as a share of its size.
            outliers: share of values with a gross error, `GROSS` times as large as usual.
            knows: 'white': constraints that need no output are known exactly; 'nothing': they are further outputs.
        """
        if structure not in STRUCTURES:
            raise StatementError(f"There is no structure '{structure}'.{did_you_mean(structure, STRUCTURES)}")
        if knows not in KNOWS:
            raise StatementError(f"A solver knows 'white' constraints or 'nothing', got '{knows}'.")
        if knows == "nothing" and noise and any(place > 0 for place in self.whole.white):
            raise StatementError("White constraints have no noise: with noise, leave out knows='nothing'.")
        names = self.whole.outputs
        if isinstance(noise, Mapping):
            unknown = next((name for name in noise if name not in names), None)
            if unknown is not None:
                raise StatementError(f"'{self.name}' has no output '{unknown}'.{did_you_mean(unknown, names)}")
            std = tuple(float(noise.get(name, 0.0)) for name in names)
        else:
            std = (float(noise),) * len(names)
        if not all(0 <= s < float("inf") for s in std):
            raise StatementError(f"Noise is a standard deviation, zero or larger; got {noise}.")
        if not (0 <= growth < float("inf") and 0 <= outliers <= 1):
            raise StatementError(f"Growing noise and outliers are shares, zero or larger; got {growth} and {outliers}.")
        if declare_noise and (growth or outliers):
            raise StatementError("A statement can give constant noise only: leave out declare_noise.")
        return dataclasses.replace(
            self,
            structure=structure,
            noise=std if any(std) or growth else (),
            growth=growth,
            outliers=outliers,
            seed=seed,
            declare_noise=declare_noise,
            knows=knows,
        )

    def __repr__(self) -> str:
        p = self.whole
        return f"Benchmark({self.name!r}, d={p.d}, m={p.m}, n={p.n}, structure={self.structure!r})"


def _columns(b: int, values: Sequence[Number]) -> Float64[ndarray, "b k"]:
    """Return the columns of an array; a number, or an array with a first axis of length 1, is repeated."""
    whole = np.empty((b, len(values)))
    for place, value in enumerate(values):
        whole[:, place] = value
    return whole


def without_white(told: Problem) -> Problem:
    """Return a statement in which every constraint has to be learned: those without an output are outputs themselves.

    Initial designs are then uniform over the box, as no point is known to break a constraint.
    """
    places = [place for place in told.white if place > 0]
    if not places:
        return told
    added = {told.functions[place]: f"g{place}" for place in places}
    inputs = told.word("inputs")
    seen = inputs if isinstance(inputs, Mapping) else dict.fromkeys(told.outputs, inputs or list(told.variables))
    return told.revised(
        outputs=[*told.outputs, *added.values()],
        blackbox=WithConstraints(told),
        subject_to=dict(told.word("subject_to")) | {name: f"{output} >= 0" for name, output in added.items()},
        inputs={**seen, **{output: list(told.variables) for output in added.values()}},
    )


def labels_of(variables: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """Return the labels of the choices among some variables."""
    return {name: each.labels for name, each in choices_of(variables)}


def state(
    name: str,
    h: BlackBoxFunction,
    *,
    variables: Mapping[str, Any],
    outputs: Sequence[str],
    value: float | None,
    at: Sequence[Setting] | None,
    source: str,
    others: Sequence[Sequence[Setting]] = (),
    minimize: Function | None = None,
    maximize: Function | None = None,
    subject_to: Mapping[str, Function] | None = None,
    constants: Mapping[str, float | Sequence[float]] | None = None,
    inputs: Mapping[str, Sequence[str]] | None = None,
    code_inputs: Sequence[str] | None = None,
    ranges: Mapping[str, Range] | None = None,
    feasible: float | None = 1.0,
) -> Benchmark:
    """Build a problem: one of the paper's, or one with integers, standard sizes, choices or mixtures.

    Args:
        name: the name in the suite.
        h: the black box, for numbers and arrays.
        variables: name to bounds, or to an integer, levels, a choice or a mixture.
        outputs: names of what h returns.
        value: optimal value in the sense of the statement; None without an objective.
        at: a point that attains it, in the order of the variables.
        source: how the optimum is known.
        others: further points that attain it.
        minimize: the objective, or `maximize`.
        maximize: the objective, or `minimize`.
        subject_to: constraints by name.
        constants: named numbers of the formulas.
        inputs: the variables that each output depends on.
        code_inputs: the variables that the authors' code passes to h; by default all.
        ranges: physical limits of the outputs.
        feasible: feasible fraction of the box, from 2^20 or more points; None: estimated on first use.
    """
    parts = (each.variables if isinstance(each, Mixture) else {name: each} for name, each in variables.items())
    flat = {name: each for part in parts for name, each in part.items()}
    names = list(flat)
    whole = Problem(
        variables=variables,
        outputs=list(outputs),
        blackbox=BlackBox(h, tuple(names), tuple(outputs), labels_of(flat)),
        minimize=minimize,
        maximize=maximize,
        subject_to=subject_to,
        constants=constants,
        inputs=inputs,
        ranges=ranges,
        noise=0,
    )

    def by_name(point: Sequence[Setting]) -> dict[str, Setting]:
        return dict(zip(names, point, strict=True))

    known = None
    if value is not None and at is not None:
        known = Known(value, by_name(at), source, tuple(by_name(point) for point in others))
    return Benchmark(
        name=name,
        whole=whole,
        h=h,
        optimum=known,
        code_inputs=tuple(code_inputs or names),
        fraction=feasible,
        printed=READINGS.get(name),
    )
