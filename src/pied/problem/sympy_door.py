"""White-box functions given as SymPy expressions: walked into a program, with symbols found by their names."""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import numpy as np

from pied.errors import WhiteBoxError, did_you_mean
from pied.problem.named import Named, canonical
from pied.problem.operations import UNARY
from pied.problem.program import Program
from pied.problem.symbols import TRUE_OR_FALSE, Symbol
from pied.problem.trace import Places, started

_NAMES = {
    "Abs": "abs",
    "asin": "arcsin",
    "acos": "arccos",
    "atan": "arctan",
    "asinh": "arcsinh",
    "acosh": "arccosh",
    "atanh": "arctanh",
    "ceiling": "ceil",
}
"""Functions that are called otherwise in NumPy."""


@dataclass(frozen=True)
class Given:
    """An expression as the user gave it."""

    text: str
    """By which stored studies recognize it."""
    constants: Mapping[str, Any]
    """Named numbers that it may use."""
    expression: Any = field(compare=False)

    def __call__(self, x: Named, y: Named) -> Any:
        """Evaluate at named symbols or arrays."""
        return self.at(self.text, x, y)

    def at(self, name: str, x: Named, y: Named) -> Any:
        """Evaluate, and call it so in messages."""
        known = {canonical(each): names[each] for names in (x, y) for each in names}
        known |= {canonical(each): value for each, value in self.constants.items() if not isinstance(value, tuple)}
        return _walked(name, slack(self.expression), known)


def is_sympy(given: Any) -> bool:
    """Tell whether something is an expression or a relation of SymPy; SymPy is not loaded for it."""
    sympy = sys.modules.get("sympy")
    return sympy is not None and isinstance(given, sympy.Basic)


def slack(given: Any) -> Any:
    """Return what is >= 0 where a relation holds, an expression as it is."""
    if not getattr(given, "is_Relational", False):
        return given
    if given.rel_op in (">=", ">"):
        return given.lhs - given.rhs
    if given.rel_op in ("<=", "<"):
        return given.rhs - given.lhs
    raise WhiteBoxError(f"'{given}' is not an inequality: write two inequalities for an equality.")


def program(name: str, given: Given, index: Places) -> Program:
    """Return the program of an expression."""
    tracer, x, y = started(index)
    result = given.at(name, x, y)
    if isinstance(result, Symbol) and result.is_bool:
        raise WhiteBoxError(f"'{name}' {TRUE_OR_FALSE}")
    return tracer.program(result)


def _walked(name: str, node: Any, known: dict[str, Any]) -> Any:
    """Return the symbol, or the number, of a part of an expression."""
    if node.is_Symbol:
        if canonical(node.name) not in known:
            near = did_you_mean(node.name, known)
            raise WhiteBoxError(f"'{name}' uses '{node.name}', which is neither a variable nor an output.{near}")
        return known[canonical(node.name)]
    if node.is_number:
        value = complex(node.evalf(17))
        if value.imag or not np.isfinite(value.real):
            raise WhiteBoxError(f"'{name}' contains {node}, which is not a finite real number.")
        return value.real
    kind = type(node).__name__
    if kind == "Piecewise":
        return _piecewise(name, node, known)
    if kind == "Pow" and node.exp == -1:
        return 1.0 / _walked(name, node.base, known)
    parts = [_walked(name, each, known) for each in node.args]
    joins: dict[str, Callable[[Sequence[Any]], Any]] = {
        "Add": lambda each: reduce(lambda a, b: a + b, each),
        "Mul": lambda each: reduce(lambda a, b: a * b, each),
        "Pow": lambda each: each[0] ** each[1],
        "Max": lambda each: reduce(np.maximum, each),
        "Min": lambda each: reduce(np.minimum, each),
        "atan2": lambda each: np.arctan2(*each),
        "Mod": lambda each: np.remainder(*each),
        "Heaviside": lambda each: np.heaviside(each[0], 0.5),
        "GreaterThan": lambda each: each[0] >= each[1],
        "StrictGreaterThan": lambda each: each[0] > each[1],
        "LessThan": lambda each: each[0] <= each[1],
        "StrictLessThan": lambda each: each[0] < each[1],
        "And": lambda each: reduce(np.logical_and, each),
        "Or": lambda each: reduce(np.logical_or, each),
        "Not": lambda each: np.logical_not(each[0]),
    }
    if kind in joins:
        return joins[kind](parts)
    own = _NAMES.get(kind, kind)
    if own in UNARY and len(parts) == 1:
        part = parts[0]
        return part.tracer.put(own, parts, ()) if isinstance(part, Symbol) else UNARY[own].run(part)
    raise WhiteBoxError(f"'{name}' uses {kind} of SymPy, which is not known here: write it as a Python function.")


def _piecewise(name: str, node: Any, known: dict[str, Any]) -> Any:
    """Return the value of the first piece whose condition holds."""
    found: Any = float("nan")
    for value, condition in reversed(node.args):
        there = _walked(name, value, known)
        is_true = condition == True  # noqa: E712 - SymPy's own true
        found = there if is_true else np.where(_walked(name, condition, known), there, found)
    return found
