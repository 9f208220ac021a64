"""A random problem before the limits of its constraints are set, and the drawing of synthetic ones."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy import ndarray

from pied.problem import Variable
from pied.rng import Stream
from pied.shapes import Float64
from pied.suite.benchmark import BlackBoxFunction, Range
from pied.suite.elementary import Number
from pied.suite.latent import Patchwork, draw, labelled

PROPERTY = "grade"
"""The known property of a drawn choice, between 0 and 1."""
MOST_INPUTS = 4
"""Inputs of one output of a synthetic problem, at most: more cannot be learned in a hundred evaluations."""


@dataclass(frozen=True)
class Expression:
    """A white-box function as formulas: one, or the smallest or largest of several."""

    pieces: tuple[str, ...]
    """Formulas without comparison."""
    join: str = ""
    """'min', 'max', or empty for a single piece."""
    free: bool = False
    """For a constraint: whether its sign may be chosen, to exclude or include the best points."""

    @property
    def text(self) -> str:
        """The function as one formula."""
        return f"{self.join}({', '.join(self.pieces)})" if self.join else self.pieces[0]

    def turned(self) -> "Expression":
        """Return its negative."""
        return Expression(
            tuple(f"-({piece})" for piece in self.pieces), {"min": "max", "max": "min", "": ""}[self.join]
        )

    def changed(self, factor: float, less: float = 0.0) -> "Expression":
        """Return factor * (this - less), factor > 0."""
        minus = f" - {number(less)}" if less > 0 else f" + {number(-less)}" if less < 0 else ""
        pieces = tuple(f"{piece}{minus}" for piece in self.pieces)
        return Expression(tuple(f"{number(factor)}*({p})" for p in pieces) if factor != 1 else pieces, self.join)


@dataclass(frozen=True)
class Sketch:
    """A random problem without the limits of its constraints, its units and its sense."""

    variables: dict[str, Variable]
    """Names and bounds."""
    outputs: tuple[str, ...]
    """Names of what h returns."""
    h: BlackBoxFunction
    """The truth."""
    objective: Expression
    """To be maximized."""
    constraints: dict[str, Expression]
    """Each must exceed a limit, which is chosen later."""
    inputs: dict[str, list[str]]
    """The variables that each output depends on."""
    ranges: dict[str, Range]
    """Physical limits of the outputs."""
    constants: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """Named numbers of the formulas."""
    start: tuple[float, ...] = ()
    """A good point of the unit cube, if one is known."""
    note: str = ""
    """A short description."""


def number(value: float) -> str:
    """Return a number as text, rounded to six digits."""
    return repr(float(f"{value:.6g}"))


def combined(terms: Sequence[tuple[float, str]]) -> str:
    """Return a weighted sum as text."""
    text = ""
    for weight, term in terms:
        sign = ("-" if weight < 0 else "") if not text else (" - " if weight < 0 else " + ")
        text += f"{sign}{term}" if abs(weight) == 1 else f"{sign}{number(abs(weight))}*{term}"
    return text


def less(text: str, value: float) -> str:
    """Return the formula of a difference."""
    return f"({text} {'+' if value < 0 else '-'} {number(abs(value))})"


def scaled_text(name: str, unit: float, offset: float = 0.0) -> str:
    """Return the formula (name - offset)/unit, without an offset of 0 and a unit of 1."""
    moved = f"({name} {'-' if offset > 0 else '+'} {abs(offset)!r})" if offset else name
    return f"({moved}/{unit!r})" if unit != 1 else moved


def unit_text(name: str, v: Variable) -> str:
    """Return the formula that maps a variable to [0, 1]; of a choice, its known property."""
    if v.is_choice:
        return f"{name}.{PROPERTY}"
    if v.log:
        return f"(log({scaled_text(name, v.lo)})/{number(math.log(v.hi / v.lo))})"
    return scaled_text(name, float(number(v.hi - v.lo)), v.lo)


def natural(v: Variable, u: Number) -> Number:
    """Return the natural value of a variable at u in [0, 1]; of listed values, one of these, all equally likely."""
    if v.is_stepped:
        levels = np.array(v.levels())
        return levels[np.minimum((np.asarray(u) * len(levels)).astype(int), len(levels) - 1)]
    return v.lo ** (1 - u) * v.hi**u if v.log else v.lo + u * (v.hi - v.lo)


def power_of_ten(stream: Stream, most: int = 6) -> float:
    """Return 1 with probability one half, else a power of ten between 10^-most and 10^most."""
    whether, which = stream.uniform(2).tolist()
    return 1.0 if whether < 0.5 else float(f"1e{int(which * (2 * most + 1)) - most}")


def pick(stream: Stream, choices: Sequence[str]) -> str:
    """Draw one of several words."""
    return choices[int(stream.uniform(1).item() * len(choices))]


def some(stream: Stream, items: Sequence[int], count: int) -> list[int]:
    """Draw some of several items, and return them in order."""
    order = stream.uniform(len(items)).argsort().tolist()
    return sorted(items[place] for place in order[:count])


# --- Synthetic draws -------------------------------------------------------------------------------------------------

OBJECTIVES = ("affine", "affine", "squares", "squares", "product", "ratio", "logarithm", "min", "max")
CONSTRAINTS = (
    "affine",
    "affine",
    "affine",
    "squares",
    "squares",
    "product",
    "ratio",
    "logarithm",
    "min",
    "max",
    "white",
)


def synthetic(
    kind: str, stream: Stream, d: int, m: int, n: int, variables: dict[str, Variable] | None = None
) -> Sketch:
    """Draw a problem whose black box has random functions as outputs.

    Args:
        kind: 'gp', 'polynomial', 'oscillating' or 'steep'.
        stream: randomness of the problem.
        d: variables; h does not depend on some of them.
        m: outputs, each with its own inputs.
        n: constraints.
        variables: these, if they are drawn already; some may be choices.
    """
    variables = variables or {f"x{j + 1}": drawn_variable(stream.at("variable", j)) for j in range(d)}
    hidden, inputs = _wiring(stream.at("wiring"), d, m)
    forms = [pick(stream.at("objective"), OBJECTIVES)]
    forms += [pick(stream.at("constraint", i), CONSTRAINTS) for i in range(n)]
    used = _assigned(stream.at("assigned"), forms, m)
    positive = [kind == "steep" or stream.at("positive", j).uniform(1).item() < 0.3 for j in range(m)]
    for form, places in zip(forms, used, strict=True):
        if form == "logarithm":
            positive[places[0]] = True
    kinds = list(variables.values())
    latents = tuple(
        labelled(draw(kind, at, len(row), positive[j]), [kinds[i] for i in row], at)
        for j, (row, at) in enumerate(zip(inputs, (stream.at("latent", j) for j in range(m)), strict=True))
    )
    units = [power_of_ten(stream.at("unit", j)) for j in range(m)]
    shifts = stream.at("offset").normal(m).tolist()
    offsets = [0.0 if positive[j] else float(f"{3 * shifts[j] * units[j]:.3g}") for j in range(m)]
    h = Patchwork(tuple(variables.values()), latents, tuple(tuple(row) for row in inputs), tuple(offsets), tuple(units))
    white = _White(variables, [j for j in range(d) if j not in hidden], stream.at("anchor").uniform(d))
    levels = [scaled_text(f"y{j + 1}", units[j], offsets[j]) for j in range(m)]
    anchor = [float(latent(white.anchor[None, list(row)])[0]) for latent, row in zip(latents, inputs, strict=True)]
    writer = _Writer(levels, anchor, positive, white)
    objective, *constraints = (
        writer.written(form, places, stream.at("form", place), leading=place == 0)
        for place, (form, places) in enumerate(zip(forms, used, strict=True))
    )
    return Sketch(
        variables,
        tuple(f"y{j + 1}" for j in range(m)),
        h,
        objective,
        {f"c{i + 1}": constraint for i, constraint in enumerate(constraints)},
        {f"y{j + 1}": [f"x{i + 1}" for i in inputs[j]] for j in range(m)},
        {f"y{j + 1}": (0.0, None) for j in range(m) if positive[j]},
        note=f"{kind}: objective {forms[0]}" + (f", constraints {', '.join(forms[1:])}" if n else ""),
    )


def drawn_variable(stream: Stream) -> Variable:
    """Draw the bounds of a variable, sometimes in other units or logarithmic."""
    unit = power_of_ten(stream.at("unit"))
    which, where, decades = stream.at("box").uniform(3).tolist()
    if which < 0.2:
        return Variable(unit, unit * (10.0 if decades < 0.5 else 100.0), log=True)
    lo = 0.0 if which < 0.6 else float(number(unit * round(2 * where - 1, 2)))
    return Variable(lo, float(number(lo + unit)))


def _wiring(stream: Stream, d: int, m: int) -> tuple[list[int], list[list[int]]]:
    """Choose the inputs of h, and the inputs of each output among them."""
    whether, share = stream.at("white").uniform(2).tolist()
    white = 1 + int(share * (d // 3)) if d > 1 and whether < 0.6 else 0
    hidden = some(stream.at("hidden"), list(range(d)), min(d - white, MOST_INPUTS * m))
    inputs: list[list[int]] = [[] for _ in range(m)]
    for place, j in enumerate(stream.at("order").uniform(len(hidden)).argsort().tolist()):
        inputs[place % m].append(hidden[j])
    for j, row in enumerate(inputs):
        size = 1 + int(stream.at("size", j).uniform(1).item() * min(MOST_INPUTS, len(hidden)))
        others = [each for each in hidden if each not in row]
        row.extend(some(stream.at("more", j), others, max(0, size - len(row))))
        row.sort()
    return hidden, inputs


def _assigned(stream: Stream, forms: list[str], m: int) -> list[list[int]]:
    """Choose the outputs of each function: every output is used, and every function that is not white uses some."""
    users = [place for place, form in enumerate(forms) if form != "white"]
    used: list[list[int]] = [[] for _ in forms]
    for j, share in enumerate(stream.at("users").uniform(m).tolist()):
        used[users[int(share * len(users))]].append(j)
    for place in users:
        wanted = 2 if stream.at("second", place).uniform(1).item() < 0.6 else 1
        others = [j for j in range(m) if j not in used[place]]
        used[place] = sorted(used[place] + some(stream.at("fill", place), others, max(0, wanted - len(used[place]))))
    return used


@dataclass(frozen=True)
class _White:
    """The part of a function that depends on variables only."""

    variables: dict[str, Variable]
    own: list[int]
    """Variables that h does not depend on."""
    anchor: Float64[ndarray, "d"]
    """A point of the unit cube from which targets are taken."""

    def unit(self, j: int) -> str:
        name = list(self.variables)[j]
        return unit_text(name, self.variables[name])

    def bowl(self, stream: Stream, weight: float) -> list[tuple[float, str]]:
        """Return quadratic terms that pull each white variable, and sometimes another, towards its target."""
        shares = stream.uniform(len(self.variables)).tolist()
        pulled = [j for j in range(len(self.variables)) if j in self.own or shares[j] < 0.2]
        return [(-weight * (1 + shares[j]), f"{less(self.unit(j), float(self.anchor[j]))}**2") for j in pulled]


@dataclass(frozen=True)
class _Writer:
    """Writes functions as formulas of normalized outputs and variables."""

    levels: list[str]
    """Each output in its own unit, as a formula."""
    anchor: list[float]
    """The value of each level at the anchor."""
    positive: list[bool]
    white: _White

    def written(self, form: str, places: list[int], stream: Stream, leading: bool) -> Expression:
        """Write one function of a form, using these outputs.

        Args:
            form: one of `OBJECTIVES` and `CONSTRAINTS`.
            places: the outputs it uses; none for 'white'.
            stream: randomness of the numbers.
            leading: whether it is the objective, which must use every variable that h does not depend on.
        """
        pull = self.white.bowl(stream.at("bowl"), 2.0) if leading else self._tilt(stream.at("tilt"))
        if form in ("min", "max"):
            return Expression(
                tuple(combined([*self._side(stream, i, places), *pull]) for i in range(2)), form, not leading
            )
        if form == "white":
            target = stream.at("target").uniform(len(self.white.variables)).tolist()
            terms = [(-1.0, f"{less(self.white.unit(j), t)}**2") for j, t in enumerate(target)]
            return Expression((combined(terms),), free=True)
        own = self._own(form, places, stream)
        text = combined([*own, *pull])
        return Expression((text,), free=not leading)

    def _own(self, form: str, places: list[int], stream: Stream) -> list[tuple[float, str]]:
        """Return the terms that depend on outputs."""
        a, b = places[0], places[-1]
        c = number(0.5 + 1.5 * stream.at("constant").uniform(1).item())
        rest = self._mixed(stream.at("rest"), [j for j in places if j not in (a, b)])
        if form == "squares" or (form == "product" and a == b):
            spread = (0.3 * stream.at("miss").normal(len(places))).tolist()
            targets = [self.anchor[j] + miss for j, miss in zip(places, spread, strict=True)]
            return [(-1.0, f"{less(self.levels[j], t)}**2") for j, t in zip(places, targets, strict=True)]
        if form == "product":
            return [(1.0, f"({c} + {self.levels[a]})*({c} + {self.levels[b]})"), *rest]
        if form == "ratio":
            below = f"1 + {self.levels[b]}" if self.positive[b] else f"1 + {self.levels[b]}**2"
            return [(3.0, f"({c} + {self.levels[a]})/({below})"), *rest]
        if form == "logarithm":
            return [(2.0, f"log({self.levels[a]})"), *self._mixed(stream.at("rest"), places[1:])]
        return self._mixed(stream.at("mixed"), places, slope=True)

    def _mixed(self, stream: Stream, places: list[int], slope: bool = False) -> list[tuple[float, str]]:
        """Return a random weighted sum of outputs, sometimes with a weight that depends on a variable."""
        weights = stream.at("weight").normal(len(places)).tolist()
        terms = []
        for j, weight in zip(places, weights, strict=True):
            whether, which = stream.at("slope", j).uniform(2).tolist()
            unit = self.white.unit(int(which * len(self.white.variables)))
            text = f"(1 + {unit})*{self.levels[j]}" if slope and whether < 0.4 else self.levels[j]
            terms.append((math.copysign(0.4 + abs(weight), weight), text))
        return terms

    def _side(self, stream: Stream, which: int, places: list[int]) -> list[tuple[float, str]]:
        """Return one of two pieces with opposite slopes that meet near the anchor."""
        weights = (0.4 + np.abs(stream.at("lean").normal(len(places)))) * (1 - 2 * which)
        misses = (0.3 * stream.at("side", which).normal(len(places))).tolist()
        return [
            (weight, less(self.levels[j], self.anchor[j] + miss))
            for j, weight, miss in zip(places, weights.tolist(), misses, strict=True)
        ]

    def _tilt(self, stream: Stream) -> list[tuple[float, str]]:
        """Return a mild linear term in one variable."""
        which, weight = stream.uniform(2).tolist()
        return [(1.2 * (weight - 0.5) or 0.1, self.white.unit(int(which * len(self.white.variables))))]
