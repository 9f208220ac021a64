"""Trace a Python function: call it once with symbols for x and y, and keep what it does to them as a program.

Operators, NumPy's functions and the methods of arrays each write a step. What needs to know a value (`if`, `float`,
`math.exp`, a root search) cannot be traced, and says so by `Untraceable`; the function is then called instead
(`called`).
"""

from pied.problem.named import Function, Named
from pied.problem.numpy_functions import WRITERS
from pied.problem.program import Program
from pied.problem.symbols import Tracer

Places = tuple[dict[str, int], dict[str, int]]
"""The places of the names of x, and of y."""


def started(index: Places) -> tuple[Tracer, Named, Named]:
    """Return a tracer, and the symbols of x and y by name."""
    tracer = Tracer(WRITERS)
    x, y = (Named(names, tracer.columns(kind, len(names))) for kind, names in zip("xy", index, strict=True))
    return tracer, x, y


def trace(function: Function, index: Places) -> Program:
    """Return the program of a function of (x, y).

    Args:
        function: The white-box function.
        index: The places of the names of x and of y.

    Raises:
        Untraceable: It needs values, or does what a program cannot.
    """
    tracer, x, y = started(index)
    return tracer.program(function(x, y))
