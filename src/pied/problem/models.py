"""Models of outputs: what is known of them beforehand, as functions of the variables.

A model of all outputs at once is one function for each of them; what it gave at a point is kept, so that it is called
there once. A formula may use other outputs, which then stand for their models.
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy import ndarray

from pied.errors import PiedError, StatementError, UnknownName, WhiteBoxError, did_you_mean
from pied.problem import casadi_door, sympy_door
from pied.problem.formula import Formula, Scope
from pied.problem.identity import described
from pied.problem.named import Function, Named
from pied.problem.program import Program
from pied.problem.signatures import of_point, plain
from pied.problem.trace import Places
from pied.problem.variables import Variable
from pied.problem.white_box import WhiteBox
from pied.shapes import Float64

QUICK = 400
"""Steps of programs that are computed at every point of a search."""
MOST_KEPT = 20_000
"""Points at which the answers of a function are kept."""


@dataclass(frozen=True, eq=False)
class Models:
    """What is known of some outputs beforehand: m outputs, v variables."""

    names: tuple[str, ...]
    """Of all outputs."""
    given: Mapping[str, Function]
    """The functions as they were stated, by the names of their outputs."""
    white_box: WhiteBox
    """The same, those first that others need."""
    order: tuple[int, ...]
    """Their outputs."""

    @classmethod
    def of(
        cls,
        given: Any,
        variables: Mapping[str, Variable],
        scope: Scope,
        index: Places,
        X: Float64[ndarray, "b v"],
        bounds: Float64[ndarray, "v 2"],
    ) -> "Models":
        """Read models and try them.

        Args:
            given: By the names of outputs a formula or a function, or one function of all.
            variables: What they are functions of.
            scope: The names that formulas may use.
            index: Places of the names of variables and outputs.
            X: Points at which they are tried.
            bounds: Ends of the variables.
        """
        functions = _read(given, variables, scope)
        order = _ordered(functions, scope.outputs)
        names = tuple(f"model of {name}" for name in order)
        everywhere = np.array([[-np.inf, np.inf]] * len(scope.outputs))
        called = [functions[name] for name in order]
        white_box, structures = WhiteBox.tried(names, called, X, bounds, everywhere, (), index)
        for name, structure, function in zip(order, structures, called, strict=True):
            if structure.outputs and not isinstance(function, Formula):
                raise StatementError(
                    f"The model of '{name}' uses the output '{scope.outputs[structure.outputs[0]]}': a model is a "
                    "function of x; as a formula it may use other outputs, which then stand for their models."
                )
        made = cls(scope.outputs, functions, white_box, tuple(scope.outputs.index(name) for name in order))
        for name, column in zip(order, made.values(X).T[list(made.order)], strict=True):
            if not np.isfinite(column).any():
                raise StatementError(f"The model of '{name}' is not a number at any of {len(X)} points: check it.")
        return made

    @property
    def is_quick(self) -> bool:
        """Whether a search can compute the models at every point that it looks at: they are short programs."""
        doors = self.white_box.doors
        return all(isinstance(each, Program) for each in doors) and (
            sum(len(each.steps) for each in doors if isinstance(each, Program)) <= QUICK
        )

    @property
    def outputs(self) -> tuple[int, ...]:
        """Which outputs have a model."""
        return tuple(sorted(self.order))

    @cached_property
    def _steps(self) -> list[tuple[int, ...]]:
        """The functions in groups that can be computed together."""
        if all(self.white_box.is_white):
            return [tuple(range(len(self.order)))]
        return [(place,) for place in range(len(self.order))]

    @np.errstate(all="ignore")
    def values(self, X: Float64[ndarray, "b v"]) -> Float64[ndarray, "b m"]:
        """Return the models at points; 0 for outputs without one."""
        Y = np.zeros((len(X), len(self.names)))
        for step in self._steps:
            for place, value in zip(step, self.white_box.values(X, Y[None], step), strict=True):
                Y[:, self.order[place]] = value.reshape(-1, len(X))[0]
        return Y

    @np.errstate(all="ignore")
    def values_and_slopes(
        self, X: Float64[ndarray, "b v"]
    ) -> tuple[Float64[ndarray, "b m"], Float64[ndarray, "b m v"]]:
        """Return the models and their slopes, through the models that they use."""
        Y, slopes = np.zeros((len(X), len(self.names))), np.zeros((len(X), len(self.names), X.shape[1]))
        for step in self._steps:
            G, back = self.white_box.traced(X, Y[None], step)
            by_x, by_Y = back(np.ones_like(G))
            outputs = [self.order[place] for place in step]
            through = np.einsum("fbm,bmv->fbv", by_Y[:, 0], slopes)
            Y[:, outputs] = G[:, 0].T
            slopes[:, outputs] = (by_x + through).swapaxes(0, 1)
        return Y, slopes

    def statement(self) -> list[dict[str, Any]]:
        """Describe the models for storage."""
        return [described(name, plain(_own(function))) for name, function in self.given.items()]

    def ways(self) -> dict[str, str]:
        """Return how each model is computed, in words."""
        return self.white_box.ways()


@dataclass(frozen=True)
class _OfPoint:
    """A function of x as one of (x, y), or what it gives of one output; its answers at single points are kept."""

    function: Callable[..., Any]
    name: str | None = None
    """The output that is wanted; None: the function gives one number."""
    place: int = 0
    kept: OrderedDict[bytes, Any] = field(default_factory=OrderedDict, compare=False, repr=False)

    def __call__(self, x: Named, y: Named) -> Any:
        answer = self._answer(x)
        if self.name is None:
            return answer
        if isinstance(answer, Mapping):
            if self.name not in answer:
                raise WhiteBoxError(f"returned no '{self.name}': it should return all outputs by name.")
            return answer[self.name]
        return answer[self.place]

    def _answer(self, x: Named) -> Any:
        array = x.array
        if not isinstance(array, ndarray) or array.ndim > 1:
            return self.function(x)
        key = array.tobytes()
        if key not in self.kept:
            found = self.function(x)
            self.kept[key] = found
            while len(self.kept) > MOST_KEPT:
                self.kept.popitem(last=False)
            return found
        return self.kept[key]


def _own(function: Any) -> Any:
    """Return a function as the user gave it."""
    return function.function if isinstance(function, _OfPoint) else function


def _read(given: Any, variables: Mapping[str, Variable], scope: Scope) -> dict[str, Function]:
    """Read what was given as functions by the names of outputs."""
    if not isinstance(given, Mapping):
        if not callable(given) or casadi_door.is_casadi(given):
            raise StatementError(
                "models should be {output: formula or function of x}, or one function of x that returns all outputs, "
                f"got {type(given).__name__}."
            )
        function, kept = _of_point(given, variables, "all outputs"), OrderedDict[bytes, Any]()
        return {name: _OfPoint(function, name, place, kept) for place, name in enumerate(scope.outputs)}
    made: dict[str, Function] = {}
    for name, each in given.items():
        if name not in scope.outputs:
            raise UnknownName(
                f"models names '{name}', which is not an output.{did_you_mean(name, scope.outputs)}", name
            )
        if isinstance(each, str):
            try:
                made[name] = Formula(each, scope)
            except PiedError as error:
                raise type(error)(f"The model of '{name}': {error}") from None
        elif sympy_door.is_sympy(each):
            made[name] = sympy_door.Given(str(each), scope.constants, each)
        elif casadi_door.is_casadi(each):
            made[name] = casadi_door.Given(each.serialize(), each)
        elif callable(each):
            made[name] = _OfPoint(_of_point(each, variables, f"'{name}'"))
        else:
            raise StatementError(
                f"The model of '{name}' should be a formula or a function of x, got {type(each).__name__}."
            )
    if not made:
        raise StatementError("models is empty: leave it out, or give a formula or function for an output.")
    return made


def _of_point(given: Callable[..., Any], variables: Mapping[str, Variable], what: str) -> Callable[..., Any]:
    """Return a function of x, or of variables by their names, as one of x."""
    try:
        return of_point(given, variables)
    except StatementError as error:
        raise StatementError(f"The model of {what}: {str(error).replace('blackbox', 'it')}") from None


def _ordered(functions: Mapping[str, Function], outputs: Sequence[str]) -> list[str]:
    """Return the outputs with a model, each after those whose models it uses."""
    needed = {
        name: {each for each in function.names if each in outputs} if isinstance(function, Formula) else set()
        for name, function in functions.items()
    }
    order: list[str] = []
    while len(order) < len(needed):
        ready = [name for name in needed if name not in order and needed[name] <= set(order)]
        if not ready:
            name = next(name for name in needed if name not in order)
            if name in needed[name]:
                raise StatementError(f"The model of '{name}' needs the output '{name}' itself: use variables alone.")
            missing = sorted(needed[name] - set(needed))
            if missing:
                raise StatementError(
                    f"The model of '{name}' uses the output '{missing[0]}', which has no model: write it as a formula "
                    "of the variables, or give that output a model, too."
                )
            raise StatementError(f"The models of {', '.join(n for n in needed if n not in order)} need each other.")
        order += ready
    return order
