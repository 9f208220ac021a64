"""Parse the text of a formula to a tree; the text is never evaluated as Python.

sum        a + b, a - b                    product    a * b, a / b
power      a ^ b or a ** b, to the right   sign       -a (weaker than the power: -2^2 is -4)
call       exp log ln log10 sqrt abs sin cos tan tanh sign floor ceil, min max sum mean (of several numbers or of a
           vector), where(a > b, c, d): c where a > b, else d
name       a variable, an output or a constant; pi and e, unless something is called so; any name can be written in
           backticks: `c(1,10)`; a property of a choice: solvent.price
vector     a constant given as a list; `outputs`, all outputs in order; `c`, if outputs are called c[1], c[2] ...
compare    a <= b, a >= b, a <= b <= c, a == b, at the top level, where < means <= and = means ==; in `where` also
           < and > without equality, and !=
"""

import math
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NoReturn

from pied.errors import FormulaError, closest

MOST_CHARACTERS = 10_000
"""Characters of a formula: longer text is a mistake or an attack."""
MOST_LEVELS = 64
"""Levels of nesting: far above any formula a person writes, far below Python's recursion limit."""
MOST_COMPARISONS = 32
"""Comparisons in one formula: each becomes a constraint of its own, and people write two at most."""

FUNCTIONS = ("exp", "log", "ln", "log10", "sqrt", "abs", "sin", "cos", "tan", "tanh", "sign", "floor", "ceil")
"""Functions of one number."""
REDUCTIONS = ("min", "max", "sum", "mean")
"""Functions of several numbers, or of one vector."""
UP = ("<=", "<")
"""Comparisons whose left side is the smaller one."""
DOWN = (">=", ">")
EQUAL = ("==", "=")
COMPARED = {
    "<": "less", "<=": "less_equal", ">": "greater", ">=": "greater_equal", "=": "equal", "==": "equal",
    "!=": "not_equal",
}  # fmt: skip
"""Comparisons inside of `where`, with the operation of each."""

_CALLS = (*FUNCTIONS, *REDUCTIONS, "where")
_SPELLINGS = str.maketrans({"≤": "<=", "≥": ">=", "−": "-", "·": "*", "×": "*"})
_NUMBER = re.compile(r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_PLACE = re.compile(r"\[[0-9]+\]")
_PROPERTY = re.compile(r"\.[^\W\d]\w*")
_SIGNS = ("**", "<=", ">=", "==", "!=", "<", ">", "=", "+", "-", "*", "/", "^", "(", ")", ",")
_SUM, _PRODUCT, _MINUS, _POWER = 1, 2, 3, 4
"""How strongly each operator binds."""

Token = tuple[str, Any, int]
"""Kind ("number", "name", "quoted", "sign" or "end"), value, and place in the text."""


@dataclass(frozen=True)
class Node:
    """One node of the tree of a formula."""

    kind: str
    """"number", "name", "minus", "sum", "product", "power", "compare" or "call"."""
    place: int
    """Where it begins in the text."""
    value: Any = None
    """The number, the name, or which parts are subtracted or divided by."""
    parts: tuple["Node", ...] = ()


class _Parser:
    """A Pratt parser: each operator has a strength, and an expression continues while the next one is stronger."""

    def __init__(self, text: str) -> None:
        self.text = text
        if not text.strip():
            raise FormulaError("The formula is empty: write for instance '2*a + b' or 'a <= 0.1'.")
        if len(text) > MOST_CHARACTERS:
            raise FormulaError(f"The formula has {len(text)} characters; at most {MOST_CHARACTERS} are read.")
        self.tokens = tokens(text)
        self.next = 0
        self.depth = 0

    def fail(self, reason: str, place: int | None = None) -> NoReturn:
        fail(self.text, reason, self.tokens[self.next][2] if place is None else place)

    def take(self) -> Token:
        self.next += 1
        return self.tokens[self.next - 1]

    def sign(self) -> str:
        """Return the next token if it is a sign, else an empty text."""
        kind, value, _ = self.tokens[self.next]
        return value if kind == "sign" else ""

    def comparisons(self) -> tuple[list[Node], list[str]]:
        """Parse the whole text: the sides, and the comparison signs between them."""
        sides, signs = [self.expression(0)], []
        while self.sign() in UP + DOWN + EQUAL:
            signs.append(self.take()[1])
            sides.append(self.expression(0))
            if len(signs) > MOST_COMPARISONS:
                self.fail(f"a formula has at most {MOST_COMPARISONS} comparisons: write several constraints instead")
        if self.tokens[self.next][0] != "end":
            self.fail("an operator is missing here" if self.tokens[self.next][0] != "sign" else "this is not expected")
        if any(sign in UP for sign in signs) and any(sign in DOWN for sign in signs):
            self.fail("a chain must run in one direction: write two constraints instead", 0)
        if len(signs) > 1 and any(sign in EQUAL for sign in signs):
            self.fail("an equality stands alone: write the other comparison as a constraint of its own", 0)
        return sides, signs

    def expression(self, strength: int) -> Node:
        """Parse an expression whose operators are all stronger than the given strength."""
        self.depth += 1
        if self.depth > MOST_LEVELS:
            self.fail(f"the formula is nested deeper than {MOST_LEVELS} levels")
        left = self.operand()
        while True:
            sign, place = self.sign(), self.tokens[self.next][2]
            if sign in ("+", "-") and strength < _SUM:
                left = self.chain("sum", left, _SUM, ("+", "-"))
            elif sign in ("*", "/") and strength < _PRODUCT:
                left = self.chain("product", left, _PRODUCT, ("*", "/"))
            elif sign in ("^", "**") and strength < _POWER:
                self.take()
                left = Node("power", place, None, (left, self.expression(_POWER - 1)))
            else:
                self.depth -= 1
                return left

    def chain(self, kind: str, first: Node, strength: int, signs: tuple[str, str]) -> Node:
        """Parse a + b - c ... as one node, so that a long sum does not become a deep tree."""
        place, parts, inverse = first.place, [first], [False]
        while self.sign() in signs:
            inverse.append(self.take()[1] == signs[1])
            parts.append(self.expression(strength))
        return Node(kind, place, tuple(inverse), tuple(parts))

    def operand(self) -> Node:
        kind, value, place = self.take()
        if kind == "number":
            return Node("number", place, value)
        if kind == "name":
            return self.call(value, place) if self.sign() == "(" else Node("name", place, value)
        if kind == "quoted":
            return Node("name", place, value)
        if value in ("-", "+"):
            inner = self.expression(_MINUS)
            return Node("minus", place, None, (inner,)) if value == "-" else inner
        if value == "(":
            inner = self.expression(0)
            self.close(place)
            return inner
        self.next -= 1
        return self.fail("something is missing here" if kind == "end" else "a number, a name or '(' is expected here")

    def call(self, name: str, place: int) -> Node:
        if name not in _CALLS:
            near = closest(name, _CALLS)
            hint = f" Did you mean '{near}'?" if near else ""
            self.fail(f"there is no function '{name}'.{hint} Known: {', '.join(sorted(_CALLS))}", place)
        opened = self.take()[2]
        parts = [self.condition() if name == "where" else self.expression(0)]
        while self.sign() == ",":
            self.take()
            parts.append(self.expression(0))
        self.close(opened)
        if name in FUNCTIONS and len(parts) > 1:
            self.fail(f"'{name}' takes one value, got {len(parts)}", place)
        if name == "where" and len(parts) != 3:
            self.fail(f"'where' takes a comparison and two values, where(a > 1, b, c), got {len(parts)} of them", place)
        return Node("call", place, name, tuple(parts))

    def condition(self) -> Node:
        """Parse the comparison of a `where`."""
        left, place, sign = self.expression(0), self.tokens[self.next][2], self.sign()
        if sign not in COMPARED:
            self.fail("'where' begins with a comparison, where(a > 1, b, c)")
        self.take()
        right = self.expression(0)
        if self.sign() in COMPARED:
            self.fail("a 'where' has one comparison: put a second one into another 'where'")
        return Node("compare", place, sign, (left, right))

    def close(self, opened: int) -> None:
        if self.sign() in COMPARED:
            self.fail("a comparison may only stand at the top of a formula and first in where(a > 1, b, c)")
        if self.sign() != ")":
            self.fail("this parenthesis is never closed", opened)
        self.take()


def fail(text: str, reason: str, place: int) -> NoReturn:
    """Raise an error that shows the reason and the text around the place, with a caret below it."""
    start = max(0, place - 40)
    window = "".join(char if char.isprintable() else " " for char in text[start : place + 40])
    sentence = reason[0].upper() + reason[1:] + ("" if reason.endswith((".", "?", "!")) else ".")
    raise FormulaError(f"{sentence} (character {place + 1})\n    {window}\n    {' ' * (place - start)}^")


def tokens(text: str) -> list[Token]:
    """Split the text into tokens; the last one has kind 'end'."""
    found: list[Token] = []
    place = 0
    while place < len(text):
        char = text[place]
        number = _NUMBER.match(text, place)
        spelled = char.translate(_SPELLINGS)
        sign = next((each for each in _SIGNS if text.startswith(each, place)), None)
        if char.isspace():
            place += 1
        elif number:
            if float(number[0]) == math.inf:
                fail(text, "this number is too large", place)
            found.append(("number", float(number[0]), place))
            place = number.end()
        elif char.isidentifier():
            end = place + 1
            while end < len(text) and ("a" + text[end]).isidentifier():
                end += 1
            index = _PLACE.match(text, end) or _PROPERTY.match(text, end)  # c[3] of a vector, solvent.price of a choice
            end = index.end() if index else end
            found.append(("name", text[place:end], place))
            place = end
        elif char == "`":
            end = text.find("`", place + 1)
            if end < 0:
                fail(text, "this backtick is never closed", place)
            found.append(("quoted", text[place + 1 : end], place))
            place = end + 1
        elif sign or spelled != char:
            found.append(("sign", sign or spelled, place))
            place += len(sign) if sign else 1
        elif char == ".":
            fail(text, "a point stands in numbers, 2.5, and before the property of a choice, solvent.price", place)
        else:
            fail(text, f"the character {char!r} is not used in formulas; odd names stand in `backticks`", place)
    return [*found, ("end", "", len(text))]


def side_texts(text: str) -> list[str]:
    """Return the texts between the comparisons at the top of a formula; those inside of `where` do not part it."""
    return [text[start:end].strip() for start, end in side_spans(text)]


def side_spans(text: str) -> list[tuple[int, int]]:
    """Return where the sides of the comparisons at the top of a formula begin and end."""
    cut, depth, made = 0, 0, []
    for kind, value, place in tokens(text):
        if kind == "sign" and value in ("(", ")"):
            depth += 1 if value == "(" else -1
        elif kind == "sign" and depth == 0 and value in UP + DOWN + EQUAL:
            made.append((cut, place))
            cut = place + (len(value) if text.startswith(value, place) else 1)  # one character, as in a ≤ b
    return [*made, (cut, len(text))]


@lru_cache(maxsize=16)
def parse(text: str) -> tuple[list[Node], list[str]]:
    """Parse a text to its sides and the comparison signs between them; cached, since each comparison asks for it."""
    try:
        return _Parser(text).comparisons()
    except RecursionError:
        raise FormulaError("The formula is nested too deeply.") from None
