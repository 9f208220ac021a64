"""Text to a function of (x, y): arithmetic, a dozen functions and comparisons, never evaluated as Python.

    sum        a + b, a - b                    product    a * b, a / b
    power      a ^ b or a ** b, to the right   sign       -a (weaker than the power: -2^2 is -4)
    call       exp log log10 sqrt abs sin cos tan tanh, min max sum mean (of several numbers or of a vector)
    name       a variable, an output or a constant; any name may stand in backticks: `c(1,10)`
    vector     a constant given as a list; `outputs`, all outputs in order; `c`, where outputs are called c[1], c[2] ...
    compare    a <= b, a >= b, a <= b <= c, at the top only; < means <=

A value is one number per point and sample, or a vector on a further last axis; the reader knows which at once, so
mixing them needs no care at run time.
"""

import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, NoReturn

import torch
from jaxtyping import Float64
from torch import Tensor

from pied.errors import FormulaError, did_you_mean
from pied.problem.named import Named, canonical, groups
from pied.problem.program import Step, Tape

LONGEST = 10_000
"""Characters a formula may have: longer text is a mistake, or an attack."""
DEEPEST = 64
"""Levels of nesting: far above any formula a person writes, far below Python's own limit."""
CHAIN = 32
"""Comparisons in one formula: each is a constraint that is tried and bounded by itself, and people write two."""
NUMBERS_AT_ONCE = 1_000_000
"""Numbers of one array while a formula is computed (8 MB): a vector of data is there for each point and sample."""

_SPELLINGS = str.maketrans({"≤": "<=", "≥": ">=", "−": "-", "·": "*", "×": "*"})
_NUMBER = re.compile(r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_PLACE = re.compile(r"\[[0-9]+\]")
_SIGNS = ("**", "<=", ">=", "==", "!=", "<", ">", "=", "+", "-", "*", "/", "^", "(", ")", ",")
_UP = ("<=", "<")
_DOWN = (">=", ">")
_SUM, _PRODUCT, _MINUS, _POWER = 1, 2, 3, 4

Run = Callable[[Named, Named], Any]

_PLAIN: dict[str, Callable[[Any], Any]] = {
    name: getattr(torch, name) for name in ("exp", "log", "log10", "sqrt", "abs", "sin", "cos", "tan", "tanh")
}
_GATHERING = ("min", "max", "sum", "mean")
_CALLS = (*_PLAIN, *_GATHERING)


@dataclass(frozen=True)
class Scope:
    """The names a formula may use."""

    variables: tuple[str, ...] = ()
    """Names of x, in order."""
    outputs: tuple[str, ...] = ()
    """Names of y, in order."""
    constants: Mapping[str, float | tuple[float, ...]] = field(default_factory=dict)
    """Named numbers and vectors."""

    @cached_property
    def places(self) -> dict[str, tuple[str, str, int]]:
        """By the canonical form of each name: what it is, the name, and its place; for all formulas of a problem."""
        kinds = (("x", self.variables), ("y", self.outputs), ("constant", self.constants))
        return {canonical(name): (kind, name, i) for kind, names in kinds for i, name in enumerate(names)}

    @cached_property
    def groups(self) -> dict[str, list[int]]:
        """The vectors among the outputs, with the places of their parts."""
        return groups(self.outputs)


@dataclass(frozen=True)
class Formula:
    """A formula read from text, a function of (x, y) that is vectorized and differentiable.

    Without `part` the formula is a value (an objective) and must have no comparison. With `part=i` it is the slack
    of its i-th comparison, satisfied when >= 0: `a <= b` gives b - a.
    """

    text: str
    """What the user wrote."""
    scope: Scope
    """The names it may use."""
    part: int | None = None
    """Which comparison of the text; None for a formula without one."""
    names: tuple[str, ...] = field(init=False)
    """The variables, outputs and constants it uses, in order of appearance."""
    run: Run = field(init=False, repr=False, compare=False)
    """The compiled function."""
    tape: Tape = field(init=False, repr=False, compare=False)
    """The same as instructions, for slopes."""
    width: int = field(init=False, repr=False, compare=False)
    """Length of the longest vector inside: how many numbers a point and sample take, 1 without one."""

    def __post_init__(self) -> None:
        result, names = _compile(self.text, self.scope, self.part)
        object.__setattr__(self, "run", result.run)
        object.__setattr__(self, "width", _width(result))
        object.__setattr__(self, "tape", _taped(result, self.width))
        object.__setattr__(self, "names", names)

    @classmethod
    def constraints(cls, text: str, scope: Scope) -> tuple["Formula", ...]:
        """Read a text with comparisons: one slack for each of them."""
        count = len(_read(text)[1])
        return tuple(cls(text, scope, part) for part in range(max(count, 1)))

    def __call__(self, x: Named, y: Named) -> Float64[Tensor, "*b"]:
        """Evaluate at tensors: x is `b d`, y is `L b m`, the value `L b`, or `b` when no output is used.

        Where long vectors are inside and nobody asks for slopes, a few points at a time.
        """
        X, Y = x.array, y.array
        size = max(1, NUMBERS_AT_ONCE // (self.width * (len(Y) if Y.ndim == 3 else 1)))
        if size >= len(X) or X.requires_grad or Y.requires_grad:
            return self.run(x, y)
        whole = X.new_empty(*Y.shape[:-1])  # made first: small pieces kept between large ones would split up the memory
        for start in range(0, len(X), size):
            piece = slice(start, start + size)
            part = self.run(Named((), X[piece]), Named((), Y[..., piece, :]))
            whole[..., piece] = part
        return whole if part.ndim == whole.ndim else whole[0]

    def __reduce__(self) -> tuple[Any, ...]:
        return Formula, (self.text, self.scope, self.part)


@dataclass(frozen=True)
class _Node:
    """One place in the tree of a formula."""

    kind: str
    place: int
    value: Any = None
    parts: tuple["_Node", ...] = ()


class _Reader:
    """A Pratt parser: each sign has a strength, and an expression reads on while the next sign is stronger."""

    def __init__(self, text: str) -> None:
        self.text = text
        if not text.strip():
            raise FormulaError("The formula is empty: write for instance '2*a + b' or 'a <= 0.1'.")
        if len(text) > LONGEST:
            raise FormulaError(f"The formula has {len(text)} characters; at most {LONGEST} are read.")
        self.tokens = _tokens(text)
        self.next = 0
        self.depth = 0

    def fail(self, reason: str, place: int | None = None) -> NoReturn:
        _fail(self.text, reason, self.tokens[self.next][2] if place is None else place)

    def take(self) -> tuple[str, Any, int]:
        self.next += 1
        return self.tokens[self.next - 1]

    def sign(self) -> str:
        """Return the next sign, or '' when something else comes."""
        kind, value, _ = self.tokens[self.next]
        return value if kind == "sign" else ""

    def comparisons(self) -> tuple[list[_Node], list[str]]:
        """Read the whole text: the sides, and the comparison signs between them."""
        sides, signs = [self.expression(0)], []
        while self.sign() in _UP + _DOWN:
            signs.append(self.take()[1])
            sides.append(self.expression(0))
            if len(signs) > CHAIN:
                self.fail(f"a formula has at most {CHAIN} comparisons: write several constraints instead")
        if self.sign() in ("==", "="):
            self.fail("equalities are not supported: write two inequalities with a little room, 'a <= b <= c'")
        if self.tokens[self.next][0] != "end":
            self.fail("an operator is missing here" if self.tokens[self.next][0] != "sign" else "this is not expected")
        if any(sign in _UP for sign in signs) and any(sign in _DOWN for sign in signs):
            self.fail("a chain must run in one direction: write two constraints instead", 0)
        return sides, signs

    def expression(self, strength: int) -> _Node:
        """Read an expression whose signs are all stronger than this one."""
        self.depth += 1
        if self.depth > DEEPEST:
            self.fail(f"the formula is nested deeper than {DEEPEST} levels")
        left = self.operand()
        while True:
            sign, place = self.sign(), self.tokens[self.next][2]
            if sign in ("+", "-") and strength < _SUM:
                left = self.chain("sum", left, _SUM, ("+", "-"))
            elif sign in ("*", "/") and strength < _PRODUCT:
                left = self.chain("product", left, _PRODUCT, ("*", "/"))
            elif sign in ("^", "**") and strength < _POWER:
                self.take()
                left = _Node("power", place, None, (left, self.expression(_POWER - 1)))
            else:
                self.depth -= 1
                return left

    def chain(self, kind: str, first: _Node, strength: int, signs: tuple[str, str]) -> _Node:
        """Read a + b - c ... as one node: a long sum must not become a deep tree."""
        place, parts, inverse = first.place, [first], [False]
        while self.sign() in signs:
            inverse.append(self.take()[1] == signs[1])
            parts.append(self.expression(strength))
        return _Node(kind, place, tuple(inverse), tuple(parts))

    def operand(self) -> _Node:
        kind, value, place = self.take()
        if kind == "number":
            return _Node("number", place, value)
        if kind == "name":
            return self.call(value, place) if self.sign() == "(" else _Node("name", place, value)
        if kind == "quoted":
            return _Node("name", place, value)
        if value in ("-", "+"):
            inner = self.expression(_MINUS)
            return _Node("minus", place, None, (inner,)) if value == "-" else inner
        if value == "(":
            inner = self.expression(0)
            self.close(place)
            return inner
        self.next -= 1
        return self.fail("something is missing here" if kind == "end" else "a number, a name or '(' is expected here")

    def call(self, name: str, place: int) -> _Node:
        if name not in _CALLS:
            self.fail(f"there is no function '{name}'.{did_you_mean(name, _CALLS)}", place)
        opened = self.take()[2]
        parts = [self.expression(0)]
        while self.sign() == ",":
            self.take()
            parts.append(self.expression(0))
        self.close(opened)
        if name in _PLAIN and len(parts) > 1:
            self.fail(f"'{name}' takes one value, got {len(parts)}", place)
        return _Node("call", place, name, tuple(parts))

    def close(self, opened: int) -> None:
        if self.sign() in _UP + _DOWN:
            self.fail("a comparison may only stand at the top of a formula, not inside parentheses")
        if self.sign() != ")":
            self.fail("this parenthesis is never closed", opened)
        self.take()


def _fail(text: str, reason: str, place: int) -> NoReturn:
    """Raise with the reason and a window of the text with a caret under the place."""
    start = max(0, place - 40)
    window = "".join(char if char.isprintable() else " " for char in text[start : place + 40])
    sentence = reason[0].upper() + reason[1:] + ("" if reason.endswith((".", "?", "!")) else ".")
    raise FormulaError(f"{sentence} (character {place + 1})\n    {window}\n    {' ' * (place - start)}^")


def _tokens(text: str) -> list[tuple[str, Any, int]]:
    """Cut the text into (kind, value, place); the last one has kind 'end'."""
    found: list[tuple[str, Any, int]] = []
    place = 0
    while place < len(text):
        char = text[place]
        number = _NUMBER.match(text, place)
        spelled = char.translate(_SPELLINGS)
        sign = next((each for each in _SIGNS if text.startswith(each, place)), None)
        if char.isspace():
            place += 1
        elif number:
            if float(number[0]) == torch.inf:
                _fail(text, "this number is too large", place)
            found.append(("number", float(number[0]), place))
            place = number.end()
        elif char.isidentifier():
            end = place + 1
            while end < len(text) and ("a" + text[end]).isidentifier():
                end += 1
            index = _PLACE.match(text, end)  # c[3], one of a vector of outputs
            end = index.end() if index else end
            found.append(("name", text[place:end], place))
            place = end
        elif char == "`":
            end = text.find("`", place + 1)
            if end < 0:
                _fail(text, "this backtick is never closed", place)
            found.append(("quoted", text[place + 1 : end], place))
            place = end + 1
        elif sign or spelled != char:
            found.append(("sign", sign or spelled, place))
            place += len(sign) if sign else 1
        elif char == ".":
            _fail(text, "attributes are not used in formulas: write the name alone, 'X_A' instead of 'y.X_A'", place)
        else:
            _fail(text, f"the character {char!r} is not used in formulas; odd names stand in `backticks`", place)
    return [*found, ("end", "", len(text))]


@dataclass(frozen=True)
class _Part:
    """A compiled piece: what to run, its vector length (None for a plain number), its value when it never changes."""

    run: Run
    size: int | None = None
    constant: Any = None
    kind: str = "number"
    """What it is as a step of a tape, with its value and parts there."""
    value: Any = None
    parts: tuple["_Part", ...] = ()


def _width(part: _Part) -> int:
    """Return the length of the longest vector in a compiled piece."""
    return max([part.size or 1, *(_width(each) for each in part.parts)])


def _taped(part: _Part, width: int) -> Tape:
    """Write a compiled piece down as instructions, parts before what uses them; what occurs twice is written once."""
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


@lru_cache(maxsize=16)
def _read(text: str) -> tuple[list[_Node], list[str]]:
    """Read a text once for all of its comparisons: the sides, and the signs between them."""
    try:
        return _Reader(text).comparisons()
    except RecursionError:
        raise FormulaError("The formula is nested too deeply.") from None


def _compile(text: str, scope: Scope, part: int | None) -> tuple[_Part, tuple[str, ...]]:
    """Read a text and return what to run and the names it uses."""
    try:
        sides, signs = _read(text)
        if part is None and signs:
            raise FormulaError(f"'{text}' is an objective and must not compare: leave out '{signs[0]}'.")
        if part is not None and not signs:
            raise FormulaError(f"'{text}' is a constraint and needs a comparison, for instance '{text.strip()} >= 0'.")
        builder = _Builder(text, scope)
        if part is None:
            result = builder.build(sides[0])
        else:
            left, right = sides[part], sides[part + 1]
            low, high = (left, right) if signs[part] in _UP else (right, left)
            result = builder.build(_Node("sum", low.place, (False, True), (high, low)))
    except RecursionError:
        raise FormulaError("The formula is nested too deeply.") from None
    if result.size is not None:
        advice = "compare one number" if part is not None else "reduce it with sum(...) or mean(...)"
        raise FormulaError(f"'{text}' gives {result.size} numbers for one point: {advice}.")
    if result.constant is not None:
        raise FormulaError(f"'{text}' uses no variable and no output, so there is nothing to decide.")
    return result, tuple(builder.names)


class _Builder:
    """Turns the tree into nested functions."""

    def __init__(self, text: str, scope: Scope) -> None:
        self.text = text
        self.scope = scope
        self.names: dict[str, None] = {}
        self.known, self.groups = scope.places, scope.groups
        self.parts: dict[str, _Part] = {}

    def build(self, node: _Node) -> _Part:
        if node.kind == "number":
            return _constant(node.value)
        if node.kind == "name":
            return self.name(node)
        parts = [self.build(each) for each in node.parts]
        gathers = node.kind == "call" and node.value in _GATHERING and len(parts) == 1
        sizes = {part.size for part in parts if part.size is not None}
        if len(sizes) > 1:
            named = [(each, part.size) for each, part in zip(node.parts, parts, strict=True) if part.size]
            said = ", ".join(f"'{each.value}' has {size}" for each, size in named if each.kind == "name")
            lengths = " and ".join(map(str, sorted(sizes)))
            _fail(self.text, f"vectors of lengths {lengths} do not fit" + f" ({said})" * bool(said), node.place)
        size = sizes.pop() if sizes else None
        if gathers and size is None:
            _fail(self.text, f"'{node.value}' needs several values or a vector", node.place)
        parts = [_lifted(part) for part in parts] if size is not None else parts
        made = _operation(node, parts, None if gathers else size)
        return self.folded(made, node) if all(part.constant is not None for part in parts) else made

    def folded(self, part: _Part, node: _Node) -> _Part:
        """Compute at once what uses constants only."""
        nothing = Named((), torch.zeros(0, dtype=torch.float64))
        value = torch.as_tensor(part.run(nothing, nothing), dtype=torch.float64)
        if not bool(torch.isfinite(value).all()):
            _fail(self.text, "this is not a finite real number", node.place)
        return _constant(value.item() if value.ndim == 0 else tuple(value.tolist()))

    def name(self, node: _Node) -> _Part:
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
        return _fail(self.text, f"there is no '{node.value}'.{near}", node.place)


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
    """Give a plain value a last axis of length one, so that it meets a vector."""
    if part.size is not None or part.constant is not None:
        return part
    return _Part(lambda x, y: part.run(x, y).unsqueeze(-1), kind="lift", parts=(part,))


def _tensor(value: Any, x: Named) -> Float64[Tensor, "..."]:
    """Return a number as a tensor beside x, a tensor as it is."""
    return value if isinstance(value, Tensor) else torch.tensor(value, dtype=torch.float64, device=x.array.device)


def _operation(node: _Node, parts: Sequence[_Part], size: int | None) -> _Part:
    """Return one node, given its parts."""
    run = _running(node, [part.run for part in parts])
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


def _running(node: _Node, runs: list[Run]) -> Run:
    """Return the function of one node, given those of its parts."""
    first, second = runs[0], runs[1] if len(runs) > 1 else runs[0]
    if node.kind == "minus":
        return lambda x, y: -first(x, y)
    if node.kind == "power":
        return lambda x, y: _power(first(x, y), second(x, y), x)
    if node.kind == "sum":
        return _chain(runs, node.value, lambda a, b: a + b, lambda a, b: a - b)
    if node.kind == "product":
        return _chain(runs, node.value, lambda a, b: a * b, _ratio)
    if node.value in _PLAIN:
        function = _PLAIN[node.value]
        return lambda x, y: function(_tensor(first(x, y), x))
    return _gathering(node.value, runs)


def _ratio(a: Any, b: Any) -> Any:
    """Divide; two plain numbers with a zero below give infinity, which the reader then refuses in words."""
    return torch.inf if isinstance(a, float) and isinstance(b, float) and b == 0 else a / b


def _power(a: Any, b: Any, x: Named) -> Any:
    """Raise to a power; a plain exponent keeps its simple derivative, two plain numbers never overflow in Python."""
    return torch.pow(_tensor(a, x), b) if isinstance(b, float) else torch.pow(a, b)


def _chain(runs: list[Run], inverse: Sequence[bool], plus: Callable[..., Any], minus: Callable[..., Any]) -> Run:
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


def _gathering(name: str, runs: list[Run]) -> Run:
    """Return min, max, sum or mean, of one vector (over its last axis) or of several values."""
    if len(runs) == 1:
        only = runs[0]
        reduce = getattr(torch, {"min": "amin", "max": "amax"}.get(name, name))
        return lambda x, y: reduce(_tensor(only(x, y), x), -1)
    if name in ("sum", "mean"):
        total = _chain(runs, [False] * len(runs), lambda a, b: a + b, lambda a, b: a - b)
        return total if name == "sum" else lambda x, y: total(x, y) / len(runs)
    pick = torch.minimum if name == "min" else torch.maximum

    def gather(x: Named, y: Named) -> Any:
        best = _tensor(runs[0](x, y), x)
        for run in runs[1:]:
            best = pick(best, _tensor(run(x, y), x))
        return best

    return gather
