"""White boxes with unknowns of their own: z(x, y) solves F(x, y, z) = 0, as recycle streams and equilibria do.

Newton's method solves all points and samples at once: one unknown is bracketed by a change of sign on its range,
several are searched from a few starts inside their ranges. Slopes are those of the implicit function theorem,

    dg/d(x, y) = g_(x, y) - lambda' F_(x, y),    F_z' lambda = g_z.

Where no solution is found within the ranges, a function that needs the unknowns is not a number and counts as worst.
"""

import logging
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy import ndarray

from pied.errors import StatementError
from pied.problem.called import Called
from pied.problem.doors import Door, inside, opened
from pied.problem.formula import Formula, Scope
from pied.problem.named import Function
from pied.problem.program import Back, Program
from pied.problem.trace import Places
from pied.problem.values import number
from pied.rng import Stream
from pied.shapes import Bool, Float64

logger = logging.getLogger(__name__)

LOOKED_AT = 17  # values of one unknown, from end to end, among which a change of sign is looked for
STARTS = 8  # inside the ranges of several unknowns: their middle, then evenly drawn
STEPS = 60  # of Newton's method from each; halving a bracket alone takes about as many
SOLVED = 1e-12  # a step, as a share of the ranges, that is rounding error: the next one would change nothing
POLE = 1.0 + 1e-9  # of the equation at the ends of its bracket: where it grows, its sign changes at a pole
LEAST = 2.0**-20  # of a step of several unknowns that would not bring the equations nearer
KEPT = 4  # solutions that are kept: objective and constraints ask for the same

Outputs = Float64[ndarray, "L b m"]
Sought = Float64[ndarray, "L b q"]


@dataclass(frozen=True, eq=False)
class Unknowns:
    """Unknowns of a white box, and the equations that they solve."""

    names: tuple[str, ...]
    bounds: Float64[ndarray, "q 2"]
    functions: tuple[Function, ...]
    """The equations as they were stated: each is 0 at a solution."""
    doors: tuple[Door, ...]
    m: int
    """Number of outputs, after which the unknowns come."""
    uses_outputs: bool
    """Whether the solution depends on outputs."""
    kept: OrderedDict[tuple[bytes, bytes], ndarray] = field(default_factory=OrderedDict, repr=False)
    warned: set[str] = field(default_factory=set, repr=False)

    @classmethod
    def of(
        cls,
        unknowns: Any,
        equations: Any,
        scope: Scope,
        index: Places,
        X: Float64[ndarray, "b v"],
        bounds: Float64[ndarray, "v 2"],
        ranges: Float64[ndarray, "m 2"],
    ) -> "Unknowns | None":
        """Read unknowns and their equations, and try them; None if there are none.

        Args:
            unknowns: Ranges by name.
            equations: Formulas "a == b", or functions of (x, y) that are 0, as many as unknowns.
            scope: The names that formulas may use, the unknowns among them.
            index: Places of the names of variables, and of outputs and unknowns.
            X: Points at which they are tried.
            bounds: Ends of the variables.
            ranges: Those of the outputs, and then of the unknowns.
        """
        if not unknowns and not equations:
            return None
        names = tuple(unknowns or ())
        given = list(equations) if isinstance(equations, Sequence) and not isinstance(equations, str) else [equations]
        if len(given) != len(names) or not names or equations is None:
            raise StatementError(
                f"{len(names)} unknowns need as many equations, got {0 if equations is None else len(given)}: "
                "unknowns={'z': (lo, hi)}, equations=['z == a*exp(-z)']."
            )
        functions = tuple(_equation(each, scope) for each in given)
        m = len(ranges) - len(names)
        doors = tuple(
            _whole(opened(f"equation {place}", each, index, X, bounds, ranges), index)
            for place, each in enumerate(functions, 1)
        )
        made = cls(names, ranges[m:], functions, doors, m, any(_uses(door, range(m)) for door in doors))
        Y = inside(ranges[:m], np.full((1, len(X), m), 0.5))
        if not made.uses_outputs and not np.isfinite(made.solved(X, Y)).all(-1).any():
            raise StatementError(
                f"No solution for {_listed(names)} was found in {made.spans} at any point tried: widen it."
            )
        return made

    @property
    def spans(self) -> str:
        """The ranges as text."""
        return ", ".join(f"[{lo:g}, {hi:g}]" for lo, hi in self.bounds.tolist())

    def solved(self, X: Float64[ndarray, "b v"], Y: Outputs) -> Float64[ndarray, "K b q"]:
        """Return the unknowns at points and samples, NaN where no solution was found; once where no output matters."""
        Y = Y if self.uses_outputs else Y[:1]
        key = X.tobytes(), Y.tobytes()
        found = self.kept.get(key)
        if found is None:
            with np.errstate(all="ignore"):
                found = self.kept[key] = self._of_one(X, Y) if len(self.names) == 1 else self._of_several(X, Y)
            while len(self.kept) > KEPT:
                with suppress(KeyError):
                    self.kept.popitem(last=False)
            if np.isnan(found).any() and self.warned == {"tried"}:  # tried with any outputs, they need no solution
                self.warned.add("unsolved")
                logger.warning(
                    "%s: at some points no solution was found in %s; they count as worst",
                    _listed(self.names),
                    self.spans,
                )
        return found

    def residuals(self, X: Float64[ndarray, "b v"], Y: Outputs, Z: Sought) -> Sought:
        """Return the equations, one on the last axis each."""
        E = np.concatenate([Y, Z], -1)
        return np.stack([np.broadcast_to(door.values(X, E), Z.shape[:2]) for door in self.doors], -1)

    def linearized(
        self, X: Float64[ndarray, "b v"], Y: Outputs, Z: Sought
    ) -> tuple[Sought, Float64[ndarray, "L b q q"], list[Back]]:
        """Return the equations, their slopes by the unknowns, and the ways back."""
        E = np.concatenate([Y, Z], -1)
        traces = [door.traced(X, E) for door in self.doors]
        F = np.stack([np.broadcast_to(value, Z.shape[:2]) for value, _ in traces], -1)
        slopes = [back(np.ones(np.shape(value)))[1][..., self.m :] for value, back in traces]
        return F, np.stack([np.broadcast_to(each, Z.shape) for each in slopes], -2), [back for _, back in traces]

    def _of_one(self, X: Float64[ndarray, "b v"], Y: Outputs) -> Sought:
        """Solve for one unknown: the first change of sign from the lower end on, then Newton's method inside of it."""
        (lo, hi), shape = self.bounds[0].tolist(), (*Y.shape[:2], 1)
        grid = np.linspace(lo, hi, LOOKED_AT)
        F = np.stack([self.residuals(X, Y, np.full(shape, each))[..., 0] for each in grid])
        is_change = (np.sign(F[1:]) * np.sign(F[:-1]) <= 0) & np.isfinite(F[1:] + F[:-1])
        first, has = is_change.argmax(0), is_change.any(0)
        low, high = grid[first], grid[first + 1]
        f_low = np.take_along_axis(F, first[None], 0)[0]
        f_high = np.take_along_axis(F, first[None] + 1, 0)[0]
        z = np.where(f_low == 0, low, np.where(f_high == 0, high, 0.5 * (low + high)))
        left = has.copy()
        for _ in range(STEPS):
            if not left.any():
                break
            F, J, _ = self.linearized(X, Y, z[..., None])
            f, slope = F[..., 0], J[..., 0, 0]
            is_low = np.sign(f) == np.sign(f_low)
            low, high = np.where(left & is_low, z, low), np.where(left & ~is_low, z, high)
            tried = z - f / slope
            fits = (tried >= np.minimum(low, high)) & (tried <= np.maximum(low, high))
            moved = np.where(f == 0, z, np.where(fits, tried, 0.5 * (low + high)))
            step = np.abs(moved - z)
            z = np.where(left, moved, z)
            left &= step > SOLVED * (hi - lo)
        least = POLE * np.minimum(np.abs(f_low), np.abs(f_high))
        is_pole = np.abs(self.residuals(X, Y, z[..., None])[..., 0]) > np.maximum(least, np.finfo(float).tiny)
        return np.where(has & ~left & ~is_pole, z, np.nan)[..., None]

    def _of_several(self, X: Float64[ndarray, "b v"], Y: Outputs) -> Sought:
        """Solve for several unknowns: damped steps of Newton's method that stay within the ranges."""
        lo, width = self.bounds[:, 0], self.bounds[:, 1] - self.bounds[:, 0]
        q, shape = len(self.names), Y.shape[:2]
        starts = np.concatenate([np.full((1, q), 0.5), Stream(0).at("unknowns").sobol(STARTS - 1, q)])
        found = np.full((*shape, q), np.nan)
        for start in starts:
            todo = np.isnan(found).any((0, 2))  # points at which some sample is not solved yet
            if not todo.any():
                break
            Z, is_solved = self._newton(X[todo], Y[:, todo], np.broadcast_to(lo + width * start, (*shape, q))[:, todo])
            part = found[:, todo]
            found[:, todo] = np.where(np.isnan(part) & is_solved[..., None], Z, part)
        return found

    def _newton(self, X: Float64[ndarray, "b v"], Y: Outputs, Z: Sought) -> tuple[Sought, Bool[ndarray, "L b"]]:
        lo, hi = self.bounds.T
        width = hi - lo
        is_solved = np.zeros(Z.shape[:2], dtype=bool)
        for _ in range(STEPS):
            F, J, _ = self.linearized(X, Y, Z)
            scale = (np.abs(J) * width).sum(-1)
            step = _solutions(J, F)
            size = np.abs(F / scale).max(-1)
            share = np.ones(Z.shape[:2])
            while True:
                moved = np.clip(Z - share[..., None] * step, lo, hi)
                now = np.abs(self.residuals(X, Y, moved) / scale).max(-1)
                worse = ~(now < size) & (share > LEAST) & ~is_solved & (size > SOLVED)
                if not worse.any():
                    break
                share = np.where(worse, 0.25 * share, share)
            away = (np.abs(step) / width).max(-1)
            Z = np.where(is_solved[..., None], Z, moved)
            is_solved |= (away <= SOLVED) | ((size <= SOLVED) & np.isfinite(away))
            if (is_solved | ~np.isfinite(size) | (share <= LEAST)).all():
                break
        return Z, is_solved


@dataclass(frozen=True, eq=False)
class Solved:
    """A function of x, outputs and unknowns as one of x and outputs."""

    inner: Door
    unknowns: Unknowns

    @property
    def _is_of_x(self) -> bool:
        return not self.unknowns.uses_outputs and not _uses(self.inner, range(self.unknowns.m))

    def values(self, X: Float64[ndarray, "b v"], Y: Float64[ndarray, "L b m"]) -> Float64[ndarray, "*L b"]:
        """Return the value, `L b`, or `b` if no output is used; NaN where the equations have no solution."""
        E = self._extended(X, Y)
        value = np.where(np.isnan(E).any(-1), np.nan, self.inner.values(X, np.nan_to_num(E)))
        return value[0] if self._is_of_x else value

    def traced(self, X: Float64[ndarray, "b v"], Y: Float64[ndarray, "L b m"]) -> tuple[Float64[ndarray, "*L b"], Back]:
        """Return the value, and the way back from weights of the value to slopes by x and y."""
        E, m = self._extended(X, Y), self.unknowns.m
        value, back = self.inner.traced(X, E)
        value = np.broadcast_to(value, E.shape[:2])

        @np.errstate(all="ignore")
        def through(weight: Float64[ndarray, "*L b"]) -> tuple[Float64[ndarray, "b v"], Float64[ndarray, "L b m"]]:
            weight = np.broadcast_to(weight if weight.ndim == 2 else weight[None], E.shape[:2])
            by_x, by_E = back(weight)
            _, J, ways = self.unknowns.linearized(X, E[..., :m], E[..., m:])
            pull = _solutions(J.swapaxes(-1, -2), by_E[..., m:])
            by_x, by_Y = by_x.copy(), np.zeros(Y.shape)
            by_own = by_E[..., :m].copy()
            for place, way in enumerate(ways):
                more_x, more_E = way(-pull[..., place])
                by_x += more_x
                by_own += more_E[..., :m]
            by_Y[: len(by_own)] = by_own
            return by_x, by_Y

        return (value[0] if self._is_of_x else value), through

    def _extended(self, X: ndarray, Y: ndarray) -> Float64[ndarray, "K b e"]:
        Z = self.unknowns.solved(X, Y)
        Y = Y[:1] if self._is_of_x else Y
        return np.concatenate([Y, np.broadcast_to(Z, (len(Y), *Z.shape[1:]))], -1)


def wrapped(door: Door, unknowns: Unknowns | None, index: Places) -> Door:
    """Return a function that may use unknowns as one of variables and outputs."""
    if unknowns is None:
        return door
    m = unknowns.m
    return Solved(_whole(door, index), unknowns) if _uses(door, range(m, m + len(unknowns.names))) else door


def read_unknowns(given: Any) -> dict[str, tuple[float, float]]:
    """Read the ranges of unknowns."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise StatementError(f"unknowns should be a dictionary of ranges, {{'z': (0, 1)}}, got {type(given).__name__}.")
    made = {}
    for name, ends in given.items():
        if isinstance(ends, str) or not isinstance(ends, Sequence) or len(ends) != 2:
            raise StatementError(f"The unknown '{name}' needs a range in which it is sought, (lo, hi), got {ends!r}.")
        lo, hi = (number(each, f"the range of '{name}'", StatementError) for each in ends)
        if not lo < hi:
            raise StatementError(f"The range of '{name}' must have its lower end {lo:g} below its upper end {hi:g}.")
        made[str(name)] = (lo, hi)
    return made


def _equation(given: Any, scope: Scope) -> Function:
    """Read an equation as a function that is 0 at its solutions."""
    if not isinstance(given, str):
        if not callable(given):
            raise StatementError(f"An equation should be a formula 'a == b' or a function of (x, y), got {given!r}.")
        return given  # type: ignore[no-any-return]
    return Formula(given, scope, 0 if "=" in given else None)


def _uses(door: Door, places: range) -> bool:
    """Tell whether a function may use some of the outputs and unknowns."""
    if not isinstance(door, Program):
        return True
    loads = [step.value for step in door.steps if step.kind == "y"]
    return any(place in places for each in loads for place in ([each] if isinstance(each, int) else each))


def _whole(door: Door, index: Places) -> Door:
    """Return a function that is called as one that uses everything."""
    if not isinstance(door, Called):
        return door
    return replace(door, uses_x=tuple(range(len(index[0]))), uses_y=tuple(range(len(index[1]))))


def _solutions(A: Float64[ndarray, "*b q q"], f: Float64[ndarray, "*b q"]) -> Float64[ndarray, "*b q"]:
    """Solve small systems, NaN where they are singular."""
    if A.shape[-1] == 1:
        return f / A[..., 0]
    fine = np.isfinite(A).all((-1, -2)) & (np.abs(np.linalg.det(np.where(np.isfinite(A), A, 0.0))) > 0)
    safe = np.where(fine[..., None, None], A, np.eye(A.shape[-1]))
    return np.where(fine[..., None], np.linalg.solve(safe, f[..., None])[..., 0], np.nan)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)
