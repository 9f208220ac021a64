"""The statement of a part-known problem: names, units, sign, white box, structure, fold."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float64
from numpy import ndarray
from torch import Tensor

from pied.errors import EvaluationError, StatementError, UnknownName, did_you_mean
from pied.problem import validation
from pied.problem.candidates import Listing
from pied.problem.formula import Formula, Scope
from pied.problem.named import Named
from pied.problem.structure import POINTS_TRIED, Structure, found, probes, tried
from pied.problem.validation import Function, described, numbers
from pied.problem.validation import Variable as Variable
from pied.rng import Stream

SLACK = 1e-9
"""How far outside the box, relative to its width, a given point may lie: the rounding of printed numbers."""

Back = Callable[[Any], tuple[Any, Any]]
"""From weights of functions' values to slopes of their weighted sums by x and y: f L b -> f b d, f L b m."""


class Problem:
    """A part-known problem: maximize g_0(x, h(x)) subject to g_i(x, h(x)) >= 0, x in a box.

    Stated once and never changed (`revised` makes another one). The sign is turned once, in `g`: below a problem
    everything is maximized and every constraint is >= 0.
    """

    variables: dict[str, Variable]
    """The decisions, by name."""
    candidates: Listing | None
    """The points to choose from; None: the whole box."""
    outputs: tuple[str, ...]
    """Names of what the black box returns."""
    blackbox: Callable[[Named], Any] | None
    """h, or None when someone else measures."""
    constants: dict[str, float | tuple[float, ...]]
    """Named numbers for formulas."""
    objective: str
    """The name of g_0: its formula, or the function's own name."""
    constraints: tuple[str, ...]
    """The names of g_1 .. g_n."""
    functions: tuple[str, ...]
    """The objective's name, then the constraints'."""
    minimizes: bool
    """Whether the user asked for the smallest value."""
    bounds: Float64[Tensor, "d 2"]
    """Lower and upper end of each variable, natural units."""
    active: Bool[Tensor, "m d"]
    """Which variables each output depends on."""
    ranges: Float64[Tensor, "m 2"]
    """Between which values each output lies, infinite where open."""
    noise: tuple[float | None, ...]
    """Standard deviation of each output's error, natural units: 0 exact, None learned."""
    tolerance: tuple[float | None, ...]
    """How far below zero each constraint may be and still count as met, natural units; None: from the data."""
    structure: tuple[Structure, ...]
    """How each function uses the outputs, found by trying."""
    d: int
    """Number of variables."""
    m: int
    """Number of outputs."""
    n: int
    """Number of constraints."""
    k: int
    """Number of functions, 1 + n."""
    _words: dict[str, Any]
    _x: dict[str, int]
    _y: dict[str, int]
    _log: Bool[Tensor, "d"]
    _has_log: bool
    _calls: list[Function]
    _white: list[bool]

    def __init__(
        self,
        variables: Any = None,
        outputs: Any = None,
        *,
        candidates: Any = None,
        blackbox: Any = None,
        maximize: Any = None,
        minimize: Any = None,
        subject_to: Any = None,
        inputs: Any = None,
        noise: Any = None,
        ranges: Any = None,
        constants: Any = None,
        tolerance: Any = None,
    ) -> None:
        """State a problem; everything is checked, and every function tried on a tiny batch, before anything costly.

        Args:
            variables: `{name: (lo, hi)}` or `{name: Variable(lo, hi, log=True, unit="K")}`, natural units; with
                candidates, names of columns will do, or nothing when the table names them.
            outputs: Names of what the black box returns, in order.
            candidates: A table of the only points that can be chosen: a data frame, a dictionary of columns, a list of
                dictionaries, or an array with a column for each variable. Every candidate is looked at in each search.
            blackbox: Function of x (named floats, one point) that returns the outputs: a mapping by name, a sequence
                in order, or a number when there is one output. None when someone else measures and tells.
            maximize: Function of (x, y), or a formula. Without an objective any feasible point will do.
            minimize: The same, for the smallest value; give one of the two.
            subject_to: `{name: function or formula}`, or a list of formulas. A function is met when >= 0, a formula
                has a comparison.
            inputs: Variables the outputs depend on: one list for all, or `{output: [variables]}`; None for all.
            noise: Standard deviation of the outputs' errors, natural units: a number, or `{output: number}`; 0 for an
                exact simulator, None (also for outputs left out) to learn it.
            ranges: `{output: (lo, hi)}`, what an output can be, None for an open end.
            constants: Named numbers or lists of numbers for formulas.
            tolerance: How far below zero a constraint may be and still count as met: a number, or by constraint.
        """
        put = self.__dict__
        put["_words"] = {
            name: validation.kept(value) for name, value in locals().items() if name not in ("self", "put")
        }
        table = None
        if candidates is None:
            put["variables"] = validation.read_variables(variables)
        else:
            put["variables"], table = validation.read_candidates(variables, candidates)
        put["outputs"] = validation.read_outputs(outputs, self.variables)
        put["constants"] = validation.read_constants(constants, [*self.variables, *self.outputs])
        put["d"], put["m"] = len(self.variables), len(self.outputs)
        put["_x"] = {name: place for place, name in enumerate(self.variables)}
        put["_y"] = {name: place for place, name in enumerate(self.outputs)}
        put["blackbox"] = validation.read_blackbox(blackbox)
        ends = [[each.lo, each.hi] for each in self.variables.values()]
        put["bounds"] = torch.tensor(ends, dtype=torch.float64)
        put["_log"] = torch.tensor([each.log for each in self.variables.values()])
        put["_has_log"] = any(each.log for each in self.variables.values())
        put["candidates"] = None if table is None else Listing(table, self.to_unit(table))
        if table is not None:
            self._words["candidates"] = self.candidates
            self._words["variables"] = list(self.variables) if variables is None else self._words["variables"]
        put["active"] = validation.read_active(inputs, self._x, self._y)
        put["noise"] = validation.read_per_name(noise, self.outputs, "noise", "output", None)
        put["ranges"] = validation.read_ranges(ranges, self._y)
        self._state_functions(maximize, minimize, subject_to, tolerance)
        self._try_functions()

    def _state_functions(self, maximize: Any, minimize: Any, subject_to: Any, tolerance: Any) -> None:
        if maximize is not None and minimize is not None:
            raise StatementError("The objective is given twice: leave out maximize or minimize.")
        if maximize is None and minimize is None and not subject_to:
            raise StatementError("There is nothing to decide by: give maximize=, minimize= or subject_to=.")
        put = self.__dict__
        scope = Scope(tuple(self.variables), self.outputs, self.constants)
        put["minimizes"] = minimize is not None
        objective = minimize if self.minimizes else maximize
        function: Function
        if objective is None:
            name, function = "any feasible point", _nothing
        elif isinstance(objective, str):
            name, function = objective, Formula(objective, scope)
        else:
            name = _own_name(objective, "objective")
            function = validation.read_function(name, objective)
        groups = validation.read_constraints(subject_to, scope)
        flat = [(each, part) for parts in groups.values() for each, part in parts]
        put["objective"], put["constraints"] = name, tuple(each for each, _ in flat)
        put["functions"] = (self.objective, *self.constraints)
        if len(set(self.functions)) < len(self.functions):
            twice = next(each for each in self.functions if self.functions.count(each) > 1)
            raise StatementError(f"Two functions are called '{twice}': give each a name of its own.")
        put["n"], put["k"] = len(self.constraints), len(self.functions)
        put["_calls"] = [function, *(part for _, part in flat)]
        put["tolerance"] = validation.read_tolerance(tolerance, groups)

    def _try_functions(self) -> None:
        index, pair = (self._x, self._y), (probes(self.ranges, 1), probes(self.ranges, 2))
        X = self._points_tried()
        found_structure = []
        for place, name in enumerate(self.functions):
            has_derivative = tried(name, self._calls[place], X, self.ranges, index)
            found_structure.append(found(name, self._calls[place], X, pair, index))
            if not has_derivative:
                self._calls[place] = _Constant(self._calls[place])
        self.__dict__["structure"] = tuple(found_structure)
        self.__dict__["_white"] = [each.kind == "white" for each in self.structure]

    def _points_tried(self) -> Float64[Tensor, "b d"]:
        """Points of the box, or candidates, again and again where there are few."""
        stream = Stream(0).at("points tried")
        if self.candidates is None:
            return self.from_unit(stream.sobol(POINTS_TRIED, self.d).clamp(1e-6, 1 - 1e-6))
        return self.candidates.X[(stream.uniform(POINTS_TRIED) * len(self.candidates)).long()]

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"A problem does not change: problem.revised({name}=...) makes another one.")

    def __delattr__(self, name: str) -> None:
        raise AttributeError("A problem does not change.")

    # ------------------------------------------------------------------------------------------------ units and names

    def to_unit(self, X: Float64[Tensor, "*b d"]) -> Float64[Tensor, "*b d"]:
        """Map natural units to the unit cube."""
        lo, hi = self.bounds.to(X.device).unbind(-1)
        U = (X - lo) / (hi - lo)
        if not self._has_log:
            return U
        log = self._log.to(X.device)
        safe = [torch.where(log, each, each.new_ones(())) for each in (X, lo, hi)]
        ratio = (safe[0] / safe[1]).log() / torch.where(log, (safe[2] / safe[1]).log(), 1.0)
        return torch.where(log, ratio, U)

    def from_unit(self, U: Float64[Tensor, "*b d"]) -> Float64[Tensor, "*b d"]:
        """Map the unit cube to natural units: 0 gives exactly the lower, 1 exactly the upper end."""
        lo, hi = self.bounds.to(U.device).unbind(-1)
        X = lo * (1 - U) + hi * U
        if not self._has_log:
            return X
        log = self._log.to(U.device)
        one = lo.new_ones(())
        return torch.where(log, torch.where(log, lo, one) ** (1 - U) * torch.where(log, hi, one) ** U, X)

    def natural(self, u: Float64[Tensor, "d"]) -> Float64[Tensor, "d"]:
        """Return the point that a place of the unit cube stands for; of a list, the nearest candidate as it was given.

        To the unit cube and back costs the last bits; a candidate is proposed with the very numbers of its table.
        """
        u = u.clamp(0.0, 1.0)
        return self.from_unit(u) if self.candidates is None else self.candidates.X[self.candidates.nearest(u)]

    def unit_slopes(self, X: Float64[Tensor, "*b d"]) -> Float64[Tensor, "*b d"]:
        """Return the derivatives of `from_unit`, at points in natural units."""
        lo, hi = self.bounds.to(X.device).unbind(-1)
        width = (hi - lo).expand_as(X)
        if not self._has_log:
            return width
        log = self._log.to(X.device)
        return torch.where(log, X * torch.where(log, hi / lo, 1.0).log(), width)

    @property
    def white(self) -> tuple[int, ...]:
        """Places of the constraints that are known exactly."""
        return tuple(i for i in range(1, self.k) if self._white[i])

    def named_x(self, X: Float64[Tensor, "d"]) -> Named:
        """Return a point as named floats."""
        return Named(self._x, tuple(X.tolist()))

    def named_y(self, Y: Float64[Tensor, "m"]) -> Named:
        """Return outputs as named floats."""
        return Named(self._y, tuple(Y.tolist()))

    def point(self, x: Any) -> Float64[Tensor, "d"]:
        """Read a point the user gave: a mapping by name, or a sequence in order, natural units.

        It must lie inside the box, or be one of the candidates.
        """
        given = numbers(x, self._x, "variable", StatementError)
        X = torch.tensor(given, dtype=torch.float64)
        lo, hi = self.bounds.unbind(-1)
        slack = SLACK * (hi - lo) + 4e-16 * self.bounds.abs().amax(-1)
        for place, name in enumerate(self.variables):
            if not lo[place] - slack[place] <= X[place] <= hi[place] + slack[place]:
                raise StatementError(
                    f"'{name}' = {given[place]!r} is outside its box from {float(lo[place])!r} to {float(hi[place])!r}."
                )
        return X.clamp(lo, hi) if self.candidates is None else self._candidate(X.clamp(lo, hi), slack)

    def _candidate(self, X: Float64[Tensor, "d"], slack: Float64[Tensor, "d"]) -> Float64[Tensor, "d"]:
        """Return the candidate that a point is, or say that it is none."""
        nearest = self.natural(self.to_unit(X))
        if bool(((X - nearest).abs() > slack).any()):
            given, other = (", ".join(f"{n} = {v:.9g}" for n, v in self.named_x(each).items()) for each in (X, nearest))
            count = len(self.candidates or ())
            raise StatementError(f"{given} is none of the {count} candidates; the nearest of them is {other}.")
        return nearest

    def output(self, y: Any, *, partial: bool = False) -> Float64[Tensor, "m"]:
        """Read outputs that were told or returned: a mapping by name, a sequence in order, a number when m is 1.

        Args:
            y: What was told.
            partial: Whether names may be missing; they become NaN.
        """
        return torch.tensor(numbers(y, self._y, "output", EvaluationError, partial=partial), dtype=torch.float64)

    # --------------------------------------------------------------------------------------------------- black, white

    def evaluate(self, x: Any) -> Float64[Tensor, "m"]:
        """Call the black box at one point (named floats, a mapping or a sequence) and read its answer."""
        if self.blackbox is None:
            raise EvaluationError("This problem has no black box: measure, and tell the study what you found.")
        named = self.named_x(self.point(x))
        try:
            answer = self.blackbox(named)
        except Exception as error:
            raise EvaluationError(f"The black box raised {type(error).__name__}: {error}") from error
        return self.output(answer)

    def g(
        self, X: Float64[Tensor, "b d"], Y: Float64[Tensor, "L b m"], which: Sequence[int] | None = None
    ) -> list[Tensor]:
        """Evaluate the white box in the paper's form: the objective to be maximized, constraints >= 0.

        Args:
            X: Points, natural units.
            Y: Samples of the outputs at these points.
            which: Places of the functions wanted, in this order; None for all.

        Returns:
            For each function a tensor `L b`, or `b` when the function is white.
        """
        x, y = Named(self._x, X), Named(self._y, Y)
        values = []
        for place in range(self.k) if which is None else which:
            value = self._calls[place](x, y)
            if self._white[place] and value.ndim == 2:
                value = value[0]
            values.append(-value if place == 0 and self.minimizes else value)
        return values

    def traced(
        self, X: Float64[Tensor | ndarray, "b d"], Y: Float64[Tensor | ndarray, "L b m"], which: Sequence[int]
    ) -> tuple[Float64[Tensor | ndarray, "f L b"], Back]:
        """Evaluate functions, and return their way back: from weights of their values to slopes by X and Y.

        Arrays in, arrays out, and formulas never leave NumPy; tensors in, tensors out.
        """
        traces = [self._traced(X, Y, place) for place in which]

        def back(weights: Any) -> tuple[Any, Any]:
            ways = zip(traces, weights, strict=True)
            slopes = [way(weight if g.ndim == 2 else weight.sum(0)) for (g, way), weight in ways]
            by_x, by_Y = zip(*slopes, strict=True)
            return _stacked(by_x, X.shape), _stacked(by_Y, Y.shape)

        return _stacked([g for g, _ in traces], Y.shape[:2]), back

    def _traced(self, X: Any, Y: Any, place: int) -> tuple[Any, Back]:
        """Evaluate one function, and return its way back."""
        call, is_array = self._calls[place], isinstance(X, ndarray)
        if is_array and isinstance(call, Formula):
            tape, values = call.tape, call.tape.forward(X, Y)
            if place == 0 and self.minimizes:
                return -values[-1], lambda weight: tape.back(values, -weight, X, Y)
            return values[-1], lambda weight: tape.back(values, weight, X, Y)
        X, Y = (torch.from_numpy(each) if is_array else each.detach() for each in (X, Y))
        X, Y = X.requires_grad_(), Y.requires_grad_()
        with torch.enable_grad():
            (g,) = self.g(X, Y, which=(place,))

        def back(weight: Any) -> tuple[Any, Any]:
            by_x, by_Y = torch.zeros_like(X), torch.zeros_like(Y)
            if g.requires_grad:
                weight = torch.from_numpy(weight) if is_array else weight
                by_x, by_Y = torch.autograd.grad(g, (X, Y), weight, allow_unused=True, materialize_grads=True)
            return (by_x.numpy(), by_Y.numpy()) if is_array else (by_x, by_Y)

        return g.detach().numpy() if is_array else g.detach(), back

    def user_value(self, f0: float) -> float:
        """Turn a value of g_0 back to the user's sense."""
        return -f0 if self.minimizes else f0

    def penalized(self, f: Float64[Tensor, "*b k"], rho: float) -> Float64[Tensor, "*b"]:
        """Exact penalty F(x) = f_0 - rho * sum_i max(-f_i, 0), equation (40)."""
        return f[..., 0] - rho * (-f[..., 1:]).clamp(min=0).sum(-1)

    # ------------------------------------------------------------------------------------------------- other problems

    def revised(self, **changes: Any) -> "Problem":
        """Return the same problem with some words replaced; `maximize` replaces `minimize` and the other way round."""
        for word in changes:
            if word not in self._words:
                raise UnknownName(f"A problem has no word '{word}'.{did_you_mean(word, self._words)}", word)
        same = dict(self._words)
        if changes.keys() & {"maximize", "minimize"}:
            same |= {"maximize": None, "minimize": None}
        return Problem(**(same | changes))

    def folded(self) -> "Problem":
        """Return the problem with g moved into the black box: its outputs are the values of the functions.

        Functions that are white stay white: they are known exactly. The objective's output is in the paper's form.
        """
        kept = [place for place in range(self.k) if not self._white[place]] or [0]
        taken = set(self.variables) | set(self.constants)
        names = [self.functions[place] + (" (value)" if self.functions[place] in taken else "") for place in kept]
        calls: list[Function] = list(self._calls)
        for name, place in zip(names, kept, strict=True):
            calls[place] = _Column(name, -1.0 if place == 0 and self.minimizes else 1.0)
        sense = "minimize" if self.minimizes else "maximize"
        objective = _Renamed(calls[0], self.objective)
        return Problem(
            self.variables,
            names,
            candidates=self.candidates,
            blackbox=None if self.blackbox is None else _Folded(self, tuple(kept)),
            subject_to=dict(zip(self.constraints, calls[1:], strict=True)) or None,
            noise=0 if all(each == 0 for each in self.noise) else None,
            tolerance={
                name: each for name, each in zip(self.constraints, self.tolerance, strict=True) if each is not None
            },
            **{sense: objective},
        )

    def statement(self) -> dict[str, Any]:
        """Describe the problem in a form that can be stored as JSON: formulas whole, functions as source and hash."""
        functions = [described(name, call) for name, call in zip(self.functions, self._calls, strict=True)]
        ends = [[each if math.isfinite(each) else None for each in row] for row in self.ranges.tolist()]
        return {
            "variables": {
                name: {"lo": each.lo, "hi": each.hi, "log": each.log, "unit": each.unit}
                for name, each in self.variables.items()
            },
            **({"candidates": [len(self.candidates), self.candidates.digest]} if self.candidates is not None else {}),
            "outputs": list(self.outputs),
            "blackbox": self.blackbox and described(_own_name(self.blackbox, "blackbox"), self.blackbox),
            "sense": "minimize" if self.minimizes else "maximize",
            "objective": functions[0],
            "subject_to": functions[1:],
            "inputs": {
                name: [each for each, seen in zip(self.variables, row, strict=True) if seen]
                for name, row in zip(self.outputs, self.active.tolist(), strict=True)
            },
            "noise": dict(zip(self.outputs, self.noise, strict=True)),
            "ranges": dict(zip(self.outputs, ends, strict=True)),
            "constants": {
                name: list(each) if isinstance(each, tuple) else each for name, each in self.constants.items()
            },
            "tolerance": dict(zip(self.constraints, self.tolerance, strict=True)),
        }

    def __repr__(self) -> str:
        box = ", ".join(f"{name} in [{each.lo:g}, {each.hi:g}]" for name, each in self.variables.items())
        sense = "find" if self._calls[0] is _nothing else "minimize" if self.minimizes else "maximize"
        limits = f", subject to {', '.join(self.constraints)}" if self.constraints else ""
        box += f" ({len(self.candidates)} candidates)" if self.candidates is not None else ""
        return f"Problem({sense} {self.objective}{limits}; {box}; outputs {', '.join(self.outputs)})"


def _nothing(x: Named, y: Named) -> Float64[Tensor, "b"]:
    """Return 0 everywhere, with a derivative: the objective when any feasible point will do."""
    return 0.0 * x.array[..., 0]


@dataclass(frozen=True)
class _Constant:
    """A function that ignores its inputs, tied to x so that it has a derivative (zero)."""

    function: Function

    def __call__(self, x: Named, y: Named) -> Float64[Tensor, "*b"]:
        return self.function(x, y) + 0.0 * x.array[..., 0]


@dataclass(frozen=True)
class _Column:
    """One output, as it is."""

    name: str
    sign: float = 1.0

    def __call__(self, x: Named, y: Named) -> Float64[Tensor, "L b"]:
        return self.sign * y[self.name]


@dataclass(frozen=True)
class _Renamed:
    """A function under another name."""

    function: Function
    __name__: str

    def __call__(self, x: Named, y: Named) -> Any:
        return self.function(x, y)


@dataclass(frozen=True)
class _Folded:
    """The black box of a folded problem: g after h, without the functions that are white."""

    problem: Problem
    kept: tuple[int, ...]

    def __call__(self, x: Named) -> list[float]:
        point, y = self.problem.point(x), self.problem.evaluate(x)
        return [value.reshape(-1)[0].item() for value in self.problem.g(point[None], y[None, None], self.kept)]


def _stacked(parts: Sequence[Any], shape: Sequence[int]) -> Any:
    """Put arrays, repeated to a shape, on one another; one that has it already is not copied."""
    if len(parts) == 1 and parts[0].shape == shape:
        return parts[0][None]
    size = (len(parts), *shape)
    stack = np.empty(size) if isinstance(parts[0], ndarray) else parts[0].new_empty(size)
    for row, part in enumerate(parts):
        stack[row] = part
    return stack


def _own_name(function: Any, otherwise: str) -> str:
    """Return a function's own name, or another one when it has none."""
    name = getattr(function, "__name__", "")
    return name if name and name != "<lambda>" else otherwise
