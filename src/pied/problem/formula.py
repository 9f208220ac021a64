"""Formulas: functions of (x, y) that are compiled from text (`parser` has the grammar).

A value is one number per point and sample, or a vector on a further last axis. The compiler knows which, so shapes need
no care at run time.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from pied.errors import FormulaError, did_you_mean
from pied.problem.choices import Choice
from pied.problem.named import canonical, groups
from pied.problem.operations import operation
from pied.problem.parser import COMPARED, EQUAL, REDUCTIONS, UP, Node, fail, parse
from pied.problem.program import Program, Writer
from pied.problem.symbols import Symbols

NUMBERS = {"pi": math.pi, "e": math.e}
"""Numbers that are known by name, unless the problem has something of that name."""


@dataclass(frozen=True)
class Scope:
    """The names that a formula may use."""

    variables: tuple[str, ...] = ()
    """Names of x, in order."""
    outputs: tuple[str, ...] = ()
    """Names of y, in order."""
    constants: Mapping[str, float | tuple[float, ...]] = field(default_factory=dict)
    """Named numbers and vectors."""
    choices: tuple[tuple[str, Choice], ...] = ()
    """The variables that are labels: formulas use their properties, `solvent.price`."""
    unknowns: tuple[str, ...] = ()
    """Names of what equations determine, which come after the outputs."""

    @cached_property
    def places(self) -> dict[str, tuple[str, str, int]]:
        """For the canonical form of each name: its kind ("x", "y" or "constant"), the name itself and its place."""
        kinds = (("x", self.variables), ("y", self.outputs), ("constant", self.constants))
        known = {canonical(name): (kind, name, i) for kind, names in kinds for i, name in enumerate(names)}
        return known | {canonical(name): ("y", name, i) for i, name in enumerate(self.unknowns, len(self.outputs))}

    @cached_property
    def properties(self) -> dict[str, tuple[str, Choice, str]]:
        """For the canonical form of each property's name: the variable, the choice and the property."""
        return {
            canonical(f"{name}.{spelled}"): (name, choice, prop)
            for name, choice in self.choices
            for prop, _ in choice.table
            for spelled in {prop, prop.replace(" ", "_")}
        }

    @cached_property
    def groups(self) -> dict[str, list[int]]:
        """The vectors among the outputs, with the places of their elements."""
        return groups(self.outputs)


@dataclass(frozen=True)
class Formula:
    """A formula compiled from text to a program: a function of (x, y), for many points and samples at once.

    Without `part` the formula is a value (an objective) and must not have a comparison. With `part=i` it is the slack
    of its i-th comparison, which is met when the slack is >= 0: `a <= b` gives b - a.
    """

    text: str
    """What the user wrote."""
    scope: Scope
    """The names that it may use."""
    part: int | None = None
    """Which comparison of the text; None for a formula without one. An equality has two, a <= b and a >= b."""
    room: float = 0.0
    """Added to the slack: how far the sides of an equality may be apart."""
    names: tuple[str, ...] = field(init=False)
    """The variables, outputs and constants it uses, in order of appearance."""
    program: Program = field(init=False, repr=False, compare=False)
    """The instructions that it became."""

    def __post_init__(self) -> None:
        result, names = _compile(self.text, self.scope, self.part, self.room)
        object.__setattr__(self, "program", _written(result))
        object.__setattr__(self, "names", names)

    @classmethod
    def constraints(cls, text: str, scope: Scope) -> tuple["Formula", ...]:
        """Compile a text with comparisons: one slack for each of them."""
        signs = parse(text)[1]
        count = 2 if signs and signs[0] in EQUAL else len(signs)
        return tuple(cls(text, scope, part) for part in range(max(count, 1)))

    @property
    def is_equality(self) -> bool:
        """Whether it is one side of an equality."""
        signs = parse(self.text)[1]
        return bool(signs) and signs[0] in EQUAL

    @property
    def uses_outputs(self) -> bool:
        """Whether outputs occur in it."""
        return any(step.kind == "y" for step in self.program.steps)

    def __call__(self, x: Any, y: Any) -> Any:
        """Evaluate at named arrays: x is `b d`, y is `L b m`, the value `L b`, or `b` when no output is used.

        One point, and the symbols of a function that is being traced, are taken as well.
        """
        X, Y = x.array, y.array
        if isinstance(X, Symbols):
            return X.tracer.inline(self.program, X, Y)
        return self.program.values(X, Y) if X.ndim == 2 else self.program.values(X[None], Y[None, None]).reshape(-1)[0]

    def __reduce__(self) -> tuple[Any, ...]:
        return Formula, (self.text, self.scope, self.part, self.room)


@dataclass(frozen=True)
class _Part:
    """A compiled subexpression: a step of a program and its operands."""

    kind: str
    value: Any = None
    """What the step needs to know besides its operands."""
    parts: tuple["_Part", ...] = ()
    """The operands of the step."""
    size: int | None = None
    """Length of the vector; None for a plain number."""

    @property
    def is_constant(self) -> bool:
        """Whether the value never changes."""
        return self.kind == "constant"


def _written(part: _Part) -> Program:
    """Write a subexpression as a program, operands first."""
    writer, width = Writer(), 1

    def write(each: _Part) -> int:
        nonlocal width
        width = max(width, each.size or 1)
        return writer.write(each.kind, tuple(write(inside) for inside in each.parts), each.value)

    write(part)
    return Program(tuple(writer.steps), width)


def _compile(text: str, scope: Scope, part: int | None, room: float) -> tuple[_Part, tuple[str, ...]]:
    """Compile a text and return the result and the names that it uses."""
    try:
        sides, signs = parse(text)
        if part is None and signs:
            raise FormulaError(f"'{text}' is an objective and must not compare: leave out '{signs[0]}'.")
        if part is not None and not signs:
            raise FormulaError(f"'{text}' is a constraint and needs a comparison, for instance '{text.strip()} >= 0'.")
        builder = _Builder(text, scope)
        if part is None:
            result = builder.build(sides[0])
        else:
            low, high, _ = _compared(sides, signs, part)
            more = (Node("number", low.place, room),) if room else ()
            result = builder.build(Node("sum", low.place, (False, True, *(False,) * len(more)), (high, low, *more)))
    except RecursionError:
        raise FormulaError("The formula is nested too deeply.") from None
    if result.size is not None:
        advice = "compare one number" if part is not None else "reduce it with sum(...) or mean(...)"
        raise FormulaError(f"'{text}' gives {result.size} numbers for one point: {advice}.")
    if result.is_constant:
        raise FormulaError(f"'{text}' uses no variable and no output, so there is nothing to decide.")
    return result, tuple(builder.names)


def _compared(sides: Sequence[Node], signs: Sequence[str], part: int) -> tuple[Node, Node, bool]:
    """Return the smaller and the larger side of a comparison, and whether the smaller one was written first."""
    if signs[0] in EQUAL:
        return (sides[0], sides[1], True) if part == 0 else (sides[1], sides[0], False)
    left, right = sides[part], sides[part + 1]
    return (left, right, True) if signs[part] in UP else (right, left, False)


def sides_of(formula: "Formula") -> tuple[float | None, float | None, bool]:
    """Return the smaller and the larger side of a comparison where they are plain numbers, and whether it is <=."""
    part = formula.part or 0
    sides, signs = parse(formula.text)
    builder = _Builder(formula.text, formula.scope)
    *both, is_up = _compared(sides, signs, part)
    built = [builder.build(side) for side in both]
    low, high = (float(each.value) if each.is_constant and each.size is None else None for each in built)
    return None if low is None else low - formula.room, None if high is None else high + formula.room, is_up


class _Builder:
    """Compiles the tree of a formula to steps."""

    def __init__(self, text: str, scope: Scope) -> None:
        self.text = text
        self.scope = scope
        self.names: dict[str, None] = {}
        self.known, self.groups = scope.places, scope.groups
        self.parts: dict[str, _Part] = {}

    def build(self, node: Node) -> _Part:
        if node.kind == "number":
            return _constant(node.value)
        if node.kind == "name":
            return self.name(node)
        parts = [self.build(each) for each in node.parts]
        reduces = node.kind == "call" and node.value in REDUCTIONS and len(parts) == 1
        sizes = {part.size for part in parts if part.size is not None}
        if len(sizes) > 1:
            named = [(each, part.size) for each, part in zip(node.parts, parts, strict=True) if part.size]
            said = ", ".join(f"'{each.value}' has {size}" for each, size in named if each.kind == "name")
            lengths = " and ".join(map(str, sorted(sizes)))
            fail(self.text, f"vectors of lengths {lengths} do not fit" + f" ({said})" * bool(said), node.place)
        size = sizes.pop() if sizes else None
        if reduces and size is None:
            fail(self.text, f"'{node.value}' needs several values or a vector", node.place)
        parts = [_lifted(part) for part in parts] if size is not None else parts
        made = _operation(node, parts, None if reduces else size)
        return self.folded(made, node) if all(part.is_constant for part in parts) else made

    def folded(self, part: _Part, node: Node) -> _Part:
        """Compute a subexpression of constants once, while compiling."""
        value = _computed(part)
        if not np.isfinite(value).all():
            fail(self.text, "this is not a finite real number", node.place)
        return _constant(float(value) if np.ndim(value) == 0 else tuple(value.tolist()))

    def name(self, node: Node) -> _Part:
        wanted = canonical(node.value)
        if wanted in self.scope.properties:
            name, choice, prop = self.scope.properties[wanted]
            self.names[name] = None
            values = choice.column(prop)
            code = _Part("x", self.scope.variables.index(name))
            return _Part("table", (np.arange(float(len(values))), values), (code,))
        if wanted in self.known:
            kind, name, place = self.known[wanted]
            if name in dict(self.scope.choices):
                known = [each for each, (of, _, _) in self.scope.properties.items() if of == name]
                hint = f"use a property of it: {', '.join(known)}" if known else "give it properties, or use a function"
                fail(self.text, f"'{name}' is a choice, not a number: {hint}", node.place)
            self.names[name] = None
            if name not in self.parts:
                is_constant = kind == "constant"
                self.parts[name] = _constant(self.scope.constants[name]) if is_constant else _Part(kind, place)
            return self.parts[name]
        if wanted == "outputs":
            self.names.update(dict.fromkeys(self.scope.outputs))
            everything = list(range(len(self.scope.outputs)))
            return _Part("y", everything, size=len(everything))
        if wanted in self.groups:
            self.names.update({self.scope.outputs[place]: None for place in self.groups[wanted]})
            return _Part("y", self.groups[wanted], size=len(self.groups[wanted]))
        if wanted in NUMBERS:
            return _constant(NUMBERS[wanted])
        stem, dot, rest = node.value.partition(".")
        if dot and stem in ("x", "y") and canonical(rest) in self.known:
            fail(self.text, f"write the name alone, '{rest}' instead of '{node.value}'", node.place)
        near = did_you_mean(node.value, [*self.known, *self.scope.properties, *self.groups, *NUMBERS, "outputs"])
        return fail(self.text, f"there is no '{node.value}'.{near}", node.place)


def _constant(value: float | Sequence[float]) -> _Part:
    if isinstance(value, Sequence):
        return _Part("constant", np.array(value, dtype=float), size=len(value))
    return _Part("constant", float(value))


def _lifted(part: _Part) -> _Part:
    """Give a plain value a last axis of length 1, so that it can be combined with a vector."""
    is_fine = part.size is not None or part.is_constant
    return part if is_fine else _Part("lift", (0, 1), (part,))


def _operation(node: Node, parts: Sequence[_Part], size: int | None) -> _Part:
    """Compile one node, given its operands."""
    kind, value, inner = node.kind, node.value, tuple(parts)
    if kind == "call" and value in ("sum", "mean"):
        several = len(inner) > 1
        total = _Part("sum", (False,) * len(inner), inner, size) if several else _Part("total", -1, inner)
        if value == "sum":
            return total
        count = len(inner) if several else inner[0].size or 1
        return _Part("product", (False, True), (total, _constant(float(count))), size)
    if kind == "call":
        kind, value = "log" if value == "ln" else value, None
    if kind == "compare":
        kind, value = COMPARED[value], None
    return _Part(kind, value, inner, size)


def _computed(part: _Part) -> Any:
    """Return the value of a subexpression of constants."""
    if part.is_constant:
        return part.value
    values = [np.asarray(_computed(each), dtype=float) for each in part.parts]
    with np.errstate(all="ignore"):
        if part.kind not in ("sum", "product"):
            return operation(part.kind, part.value, values).run(*values)
        total = values[0]
        for each, is_inverse in zip(values[1:], part.value[1:], strict=True):
            if part.kind == "sum":
                total = total - each if is_inverse else total + each
            else:
                total = total / each if is_inverse else total * each
        return total
