"""Formulas: functions of (x, y) that are compiled from text (`parser` has the grammar).

A value is one number per point and sample, or a vector on a further last axis. The compiler knows which, so shapes need
no care at run time.
"""

import operator
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Float64
from torch import Tensor

from pied.errors import FormulaError, did_you_mean
from pied.problem.named import Function, Named, canonical, groups
from pied.problem.parser import REDUCTIONS, UP, Node, fail, parse
from pied.problem.program import FUNCTIONS, Step, Tape

NUMBERS_AT_ONCE = 1_000_000
"""Numbers in one array while a formula is computed (8 MB): a vector is repeated for each point and sample."""


@dataclass(frozen=True)
class Scope:
    """The names that a formula may use."""

    variables: tuple[str, ...] = ()
    """Names of x, in order."""
    outputs: tuple[str, ...] = ()
    """Names of y, in order."""
    constants: Mapping[str, float | tuple[float, ...]] = field(default_factory=dict)
    """Named numbers and vectors."""

    @cached_property
    def places(self) -> dict[str, tuple[str, str, int]]:
        """For the canonical form of each name: its kind ("x", "y" or "constant"), the name itself and its place."""
        kinds = (("x", self.variables), ("y", self.outputs), ("constant", self.constants))
        return {canonical(name): (kind, name, i) for kind, names in kinds for i, name in enumerate(names)}

    @cached_property
    def groups(self) -> dict[str, list[int]]:
        """The vectors among the outputs, with the places of their elements."""
        return groups(self.outputs)


@dataclass(frozen=True)
class Formula:
    """A formula compiled from text: a vectorized, differentiable function of (x, y).

    Without `part` the formula is a value (an objective) and must not have a comparison. With `part=i` it is the slack
    of its i-th comparison, which is met when the slack is >= 0: `a <= b` gives b - a.
    """

    text: str
    """What the user wrote."""
    scope: Scope
    """The names that it may use."""
    part: int | None = None
    """Which comparison of the text; None for a formula without one."""
    names: tuple[str, ...] = field(init=False)
    """The variables, outputs and constants it uses, in order of appearance."""
    run: Function = field(init=False, repr=False, compare=False)
    """The compiled function."""
    tape: Tape = field(init=False, repr=False, compare=False)
    """The same function as a list of instructions, for slopes."""
    width: int = field(init=False, repr=False, compare=False)
    """Length of the longest vector inside, 1 without one: how many numbers each point and sample takes."""

    def __post_init__(self) -> None:
        result, names = _compile(self.text, self.scope, self.part)
        object.__setattr__(self, "run", result.run)
        object.__setattr__(self, "width", _width(result))
        object.__setattr__(self, "tape", _taped(result, self.width))
        object.__setattr__(self, "names", names)

    @classmethod
    def constraints(cls, text: str, scope: Scope) -> tuple["Formula", ...]:
        """Compile a text with comparisons: one slack for each of them."""
        count = len(parse(text)[1])
        return tuple(cls(text, scope, part) for part in range(max(count, 1)))

    def __call__(self, x: Named, y: Named) -> Float64[Tensor, "*b"]:
        """Evaluate at tensors: x is `b d`, y is `L b m`, the value `L b`, or `b` when no output is used.

        With long vectors inside, and if no slopes are needed, a few points are computed at a time.
        """
        X, Y = x.array, y.array
        size = max(1, NUMBERS_AT_ONCE // (self.width * (len(Y) if Y.ndim == 3 else 1)))
        if size >= len(X) or X.requires_grad or Y.requires_grad:
            return self.run(x, y)
        whole = X.new_empty(*Y.shape[:-1])  # allocated first, so that pieces do not fragment memory
        for start in range(0, len(X), size):
            piece = slice(start, start + size)
            part = self.run(Named((), X[piece]), Named((), Y[..., piece, :]))
            whole[..., piece] = part
        return whole if part.ndim == whole.ndim else whole[0]

    def __reduce__(self) -> tuple[Any, ...]:
        return Formula, (self.text, self.scope, self.part)


@dataclass(frozen=True)
class _Part:
    """A compiled subexpression: as a torch function, and as a step of a tape."""

    run: Function
    size: int | None = None
    """Length of the vector; None for a plain number."""
    constant: Any = None
    """The value, if it never changes."""
    kind: str = "number"
    """The kind of the step."""
    value: Any = None
    """The value of the step."""
    parts: tuple["_Part", ...] = ()
    """The operands of the step."""


def _width(part: _Part) -> int:
    """Return the length of the longest vector in a compiled subexpression."""
    return max([part.size or 1, *(_width(each) for each in part.parts)])


def _taped(part: _Part, width: int) -> Tape:
    """Write a subexpression as instructions, operands first; an expression that occurs twice is written once."""
    steps: list[Step] = []
    places: dict[Any, int] = {}

    def write(each: _Part) -> int:
        inner = tuple(write(inside) for inside in each.parts)
        value = each.value if isinstance(each.value, Hashable) else id(each.value)
        key = (each.kind, inner, type(value), value)
        if key not in places:
            steps.append(Step(each.kind, inner, each.value))
            places[key] = len(steps) - 1
        return places[key]

    write(part)
    return Tape(tuple(steps), max(1, NUMBERS_AT_ONCE // width))


def _compile(text: str, scope: Scope, part: int | None) -> tuple[_Part, tuple[str, ...]]:
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
            left, right = sides[part], sides[part + 1]
            low, high = (left, right) if signs[part] in UP else (right, left)
            result = builder.build(Node("sum", low.place, (False, True), (high, low)))
    except RecursionError:
        raise FormulaError("The formula is nested too deeply.") from None
    if result.size is not None:
        advice = "compare one number" if part is not None else "reduce it with sum(...) or mean(...)"
        raise FormulaError(f"'{text}' gives {result.size} numbers for one point: {advice}.")
    if result.constant is not None:
        raise FormulaError(f"'{text}' uses no variable and no output, so there is nothing to decide.")
    return result, tuple(builder.names)


class _Builder:
    """Compiles the tree of a formula to nested functions and steps."""

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
        return self.folded(made, node) if all(part.constant is not None for part in parts) else made

    def folded(self, part: _Part, node: Node) -> _Part:
        """Compute a subexpression of constants once, while compiling."""
        nothing = Named((), torch.zeros(0, dtype=torch.float64))
        value = torch.as_tensor(part.run(nothing, nothing), dtype=torch.float64)
        if not bool(torch.isfinite(value).all()):
            fail(self.text, "this is not a finite real number", node.place)
        return _constant(value.item() if value.ndim == 0 else tuple(value.tolist()))

    def name(self, node: Node) -> _Part:
        wanted = canonical(node.value)
        if wanted in self.known:
            kind, name, place = self.known[wanted]
            self.names[name] = None
            if name not in self.parts:
                column = _x_column if kind == "x" else _y_column
                self.parts[name] = _constant(self.scope.constants[name]) if kind == "constant" else column(place)
            return self.parts[name]
        if wanted == "pi":
            return _constant(torch.pi)
        if wanted == "outputs":
            self.names.update(dict.fromkeys(self.scope.outputs))
            everything = list(range(len(self.scope.outputs)))
            return _Part(lambda x, y: y.array, len(everything), kind="y", value=everything)
        if wanted in self.groups:
            self.names.update({self.scope.outputs[place]: None for place in self.groups[wanted]})
            return _y_columns(self.groups[wanted])
        near = did_you_mean(node.value, [*self.known, *self.groups, "pi", "outputs"])
        return fail(self.text, f"there is no '{node.value}'.{near}", node.place)


def _x_column(place: int) -> _Part:
    return _Part(lambda x, y: x.array[..., place], kind="x", value=place)


def _y_column(place: int) -> _Part:
    return _Part(lambda x, y: y.array[..., place], kind="y", value=place)


def _y_columns(places: list[int]) -> _Part:
    return _Part(lambda x, y: y.array[..., places], len(places), kind="y", value=places)


def _constant(value: float | Sequence[float]) -> _Part:
    if isinstance(value, Sequence):
        vector = torch.tensor(value, dtype=torch.float64)
        return _Part(lambda x, y: vector.to(x.array.device), len(value), value, value=vector.numpy())
    return _Part(lambda x, y: value, None, value, value=value)


def _lifted(part: _Part) -> _Part:
    """Give a plain value a last axis of length 1, so that it can be combined with a vector."""
    if part.size is not None or part.constant is not None:
        return part
    return _Part(lambda x, y: part.run(x, y).unsqueeze(-1), kind="lift", parts=(part,))


def _tensor(value: Any, x: Named) -> Float64[Tensor, "..."]:
    """Return a number as a tensor on the device of x; leave a tensor as it is."""
    return value if isinstance(value, Tensor) else torch.tensor(value, dtype=torch.float64, device=x.array.device)


def _operation(node: Node, parts: Sequence[_Part], size: int | None) -> _Part:
    """Compile one node, given its operands."""
    run = _torch_function(node, [part.run for part in parts])
    kind, value, inner = node.kind, node.value, tuple(parts)
    if kind == "call" and value in ("sum", "mean"):
        if len(inner) > 1:
            kind, value = "sum", (False,) * len(inner)
        else:
            kind, value = "total", None
        if node.value == "mean":
            count = float(inner[0].size or 1) if len(inner) == 1 else float(len(inner))
            inner = (_Part(run, kind=kind, value=value, parts=inner), _constant(count))
            kind, value = "product", (False, True)
    elif kind == "call":
        kind, value = value, None
    return _Part(run, size, kind=kind, value=value, parts=inner)


def _torch_function(node: Node, runs: list[Function]) -> Function:
    """Return the torch function of one node, given those of its operands."""
    first, second = runs[0], runs[1] if len(runs) > 1 else runs[0]
    if node.kind == "minus":
        return lambda x, y: -first(x, y)
    if node.kind == "power":
        return lambda x, y: _power(first(x, y), second(x, y), x)
    if node.kind == "sum":
        return _chain(runs, node.value, operator.add, operator.sub)
    if node.kind == "product":
        return _chain(runs, node.value, operator.mul, _ratio)
    if node.value in FUNCTIONS:
        function = getattr(torch, node.value)
        return lambda x, y: function(_tensor(first(x, y), x))
    return _reduction(node.value, runs)


def _ratio(a: Any, b: Any) -> Any:
    """Divide; a plain number over zero gives infinity, which the compiler then refuses with a clear message."""
    return torch.inf if isinstance(a, float) and isinstance(b, float) and b == 0 else a / b


def _power(a: Any, b: Any, x: Named) -> Any:
    """Raise to a power; a plain exponent keeps its simple derivative, and two plain numbers cannot overflow."""
    return torch.pow(_tensor(a, x), b) if isinstance(b, float) else torch.pow(a, b)


def _chain(
    runs: list[Function], inverse: Sequence[bool], plus: Callable[..., Any], minus: Callable[..., Any]
) -> Function:
    """Return the function that joins values from left to right, each by `plus` or its inverse `minus`."""
    if len(runs) == 2:
        first, second = runs
        join = minus if inverse[1] else plus
        return lambda x, y: join(first(x, y), second(x, y))
    steps = [(minus if back else plus, run) for back, run in zip(inverse, runs, strict=True)][1:]
    start = runs[0]

    def chain(x: Named, y: Named) -> Any:
        total = start(x, y)
        for join, run in steps:
            total = join(total, run(x, y))
        return total

    return chain


def _reduction(name: str, runs: list[Function]) -> Function:
    """Return the min, max, sum or mean of one vector (over its last axis) or of several values."""
    if len(runs) == 1:
        only = runs[0]
        reduce = getattr(torch, {"min": "amin", "max": "amax"}.get(name, name))
        return lambda x, y: reduce(_tensor(only(x, y), x), -1)
    if name in ("sum", "mean"):
        total = _chain(runs, [False] * len(runs), operator.add, operator.sub)
        return total if name == "sum" else lambda x, y: total(x, y) / len(runs)
    pick = torch.minimum if name == "min" else torch.maximum

    def pick_best(x: Named, y: Named) -> Any:
        best = _tensor(runs[0](x, y), x)
        for run in runs[1:]:
            best = pick(best, _tensor(run(x, y), x))
        return best

    return pick_best
