"""The functions of a problem over its space: the black box h is called, the white box g computed."""

import math
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy import ndarray

from pied.errors import EvaluationError, PiedError
from pied.problem import equalities
from pied.problem.candidates import SAME
from pied.problem.doors import Door
from pied.problem.formula import Formula
from pied.problem.goals import Goal
from pied.problem.limits import Limit, is_movable, limit_of
from pied.problem.models import Models
from pied.problem.named import Function, Named
from pied.problem.program import Back
from pied.problem.spaces import Space
from pied.problem.structure import Structure
from pied.problem.values import Measuring, Reader, answered, numbers
from pied.problem.white_box import Backs, WhiteBox
from pied.rng import Stream
from pied.shapes import Bool, Float64

LOOKED_AT = 256  # points that equalities move, to see whether they leave only one


class Functions(Space):
    """What a stated problem computes: outputs at points, and functions of points and outputs.

    Letters: v variables, d coordinates, m outputs, k functions.
    """

    outputs: tuple[str, ...]
    """Names of the black box's outputs."""
    blackbox: Callable[..., Any] | None
    """h, or None if someone else measures."""
    constants: dict[str, float | tuple[float, ...]]
    """Named numbers for formulas."""
    objective: str
    """The name of g_0: as given, else its formula, or the function's own name."""
    unit: str
    """The unit of the objective."""
    objectives: tuple[str, ...]
    """The names of all objectives; with several, `objective` is the first of them."""
    goals: tuple[Goal, ...]
    """All objectives as they were given, if there are several; else empty."""
    goal_units: tuple[str, ...]
    """The units of all objectives."""
    units: dict[str, str]
    """The units of outputs that have one."""
    lods: dict[str, float]
    """Limits of detection of outputs that have one: what "n.d." stands for."""
    resolutions: dict[str, float]
    """Steps in which outputs are read, where that is stated."""
    constraints: tuple[str, ...]
    """The names of g_1 .. g_n."""
    functions: tuple[str, ...]
    """The objective's name, then the constraints'."""
    minimizes: bool
    """Whether the user asked for the smallest value."""
    active: Bool[ndarray, "m d"]
    """Which variables each output depends on."""
    ranges: Float64[ndarray, "m 2"]
    """Smallest and largest possible value of each output, infinite if open."""
    noise: tuple[float | None, ...]
    """Standard deviation of each output's error, natural units: 0 exact, stated or found, None learned."""
    stated_noise: tuple[float | None, ...]
    """The same as it was stated."""
    tolerance: tuple[float | None, ...]
    """How far below zero a constraint may be and still count as met, natural units; None: set from the data."""
    structure: tuple[Structure, ...]
    """How each function uses the outputs, found by calling it."""
    unknowns: dict[str, tuple[float, float]]
    """What equations determine, and within which range."""
    models: Models | None
    """What is known of outputs beforehand; None: nothing."""
    m: int
    """Number of outputs."""
    n: int
    """Number of constraints."""
    k: int
    """Number of functions, 1 + n."""
    _y: dict[str, int]
    _nearly: tuple[int, ...]
    _white_box: WhiteBox

    # ----------------------------------------------------------------------------------------------------------- points

    def natural(self, u: Float64[ndarray, "d"]) -> Float64[ndarray, "v"]:
        """Return a point of the unit cube in natural units; with candidates or steps, the nearest as it was given.

        The map to the unit cube and back changes the last bits, but a candidate keeps the numbers of its table.
        """
        u = np.clip(u, *self.ends)
        if self.candidates is not None:
            return self.candidates.X[self.candidates.nearest(u)]
        u = self.on_equalities(u[None])[0]
        X = self._axes_box.tidy(self._axes_box.from_unit(u))
        X = X if self.grid is None else self.grid.natural(u, X)
        X = X if self.slice is None else np.clip(X, *self._ends_of_axes())
        return X if self._solved is None else self.box.tidy(self._solved.completed(X))

    @property
    def has_equalities(self) -> bool:
        """Whether variables are bound by equalities that are known exactly."""
        return self._solved is not None or any(place in self.white for place in self._nearly)

    def settled(self, U: Float64[ndarray, "b d"], stream: Stream) -> Float64[ndarray, "b d"]:
        """Move the points of a pool to where the equalities hold and the bounds of what they determine are kept."""
        return self.on_equalities(self.within(U, stream))

    def on_equalities(self, U: Float64[ndarray, "b d"]) -> Float64[ndarray, "b d"]:
        """Move points onto the equalities that are known exactly but not linear."""
        which = tuple(place for place in self._nearly if place in self.white)
        if not which or not len(U):
            return U
        is_free = np.ones(self.d, dtype=bool) if self.grid is None else ~self.grid.is_discrete
        rooms = np.array([getattr(self._white_box.functions[place], "room", 0.0) for place in which])
        sizes = rooms / equalities.NEAR_ENOUGH

        def residuals(U: ndarray) -> tuple[ndarray, ndarray]:
            X = self.from_unit(U)
            G, back = self.traced(X, np.zeros((1, len(U), self.m)), which)
            slopes = self.by_axes(back(np.ones_like(G))[0]) * self.unit_slopes(X)
            return (G[:, 0].T - rooms) / sizes, slopes.swapaxes(0, 1) / sizes[:, None]

        return equalities.moved_onto(residuals, U, is_free, *self.ends)

    @cached_property
    def choosable(self) -> Float64[ndarray, "c d"] | None:
        """The points that can be chosen, unit cube: of the listing, those that meet the white constraints, or the one
        that equalities leave for each label or listed level; None if there are more.
        """
        listing = self.listing
        if listing is None:
            return self._left_by_equalities
        if not self.white:
            return listing.U
        with np.errstate(all="ignore"):
            G = self.g(self.from_unit(listing.U), np.zeros((1, len(listing), self.m)), self.white)
        return listing.U[(np.stack(G) >= 0).all(0)]

    @property
    def _left_by_equalities(self) -> Float64[ndarray, "c d"] | None:
        if not self.has_equalities:
            return None
        stream, grid = Stream(0).at("left"), self.grid
        U = self.settled(self.drawn(stream.uniform(LOOKED_AT, self.d)), stream.at("settled"))
        if grid is None:
            return U[:1] if bool((np.abs(U - U[0]) <= SAME).all()) else None
        U = grid.snapped(U)
        rows, first, group = np.unique(U[:, grid.is_discrete], axis=0, return_index=True, return_inverse=True)
        count = math.prod(len(each) for each in grid.places if each is not None)
        is_one = len(rows) == count and bool((np.abs(U - U[first][group.ravel()]) <= SAME).all())
        return U[first] if is_one else None

    # ---------------------------------------------------------------------------------------------------------- outputs

    def named_y(self, Y: Float64[ndarray, "m"]) -> Named:
        """Return outputs as named floats."""
        return Named(self._y, tuple(Y.tolist()))

    def output(self, y: Any, *, partial: bool = False) -> Float64[ndarray, "m"]:
        """Read outputs that were told or returned: a mapping by name, a sequence in order, or a number if m is 1.

        Args:
            y: What was told.
            partial: Whether names may be missing; their values become NaN.
        """
        return np.array(self.told(y, partial=partial), dtype=float)

    def told(self, y: Any, *, partial: bool = True) -> list[float]:
        """Read outputs as `output` does, those with an error with it (`values.measured`)."""
        readers: dict[str, Reader] = {name: Measuring(self.lods.get(name)) for name in self._y}
        try:
            read = numbers(y, self._y, "output", EvaluationError, partial=partial, readers=readers)
        except PiedError:
            raise
        except Exception as error:  # reading a user's object may raise anything
            raise _unreadable(y, error) from error
        return read

    def evaluate(self, x: Any) -> Float64[ndarray, "m"]:
        """Call the black box at one point (named floats, a mapping or a sequence) and return all of its outputs."""
        if self.blackbox is None:
            raise EvaluationError("This problem has no black box: measure, and tell the study what you found.")
        named = self.named_x(self.point(x))
        try:
            given = self.blackbox(named)
        except Exception as error:
            raise EvaluationError(f"The black box raised {type(error).__name__}: {error}") from error
        y, gaps, _ = self.answer(given)
        if gaps:
            raise EvaluationError(" ".join(gaps.values()))
        return np.array(y)

    def answer(self, given: Any) -> tuple[list[float], dict[str, str], list[str]]:
        """Read an answer of the black box more leniently than what people tell: simulators are as they are.

        Text and booleans that are numbers count as such. Outputs that are missing, None or not finite are NaN.

        Returns:
            The outputs, why some of them are NaN, and the names that were returned besides.
        """
        try:
            read, gaps, ignored = answered(given, self._y, self.lods)
        except PiedError:
            raise
        except Exception as error:  # reading a user's object may raise anything
            raise _unreadable(given, error) from error
        return read, gaps, ignored

    # -------------------------------------------------------------------------------------------------------- functions

    def stated(self, place: int) -> Function:
        """Return a function of the white box, of (x, y), as it was stated."""
        return self._white_box.functions[place]

    def has_sign(self, place: int) -> float:
        """Return -1 for an objective that is minimized, else 1: `door` gives it as it was stated."""
        return self._white_box.sign(place)

    def door(self, place: int) -> Door:
        """Return how a function of the white box is computed."""
        return self._white_box.doors[place]

    def g(
        self, X: Float64[ndarray, "b v"], Y: Float64[ndarray, "L b m"], which: Sequence[int] | None = None
    ) -> list[ndarray]:
        """Evaluate the white box in the paper's form: the objective is maximized, constraints are >= 0.

        Args:
            X: Points, natural units.
            Y: Samples of the outputs at these points.
            which: Places of the functions to evaluate, in this order; None for all.

        Returns:
            For each function an array `L b`, or `b` if the function is white.
        """
        return self._white_box.values(X, Y, which)

    def traced(
        self, X: Float64[ndarray, "b v"], Y: Float64[ndarray, "L b m"], which: Sequence[int]
    ) -> tuple[Float64[ndarray, "f L b"], Backs]:
        """Evaluate functions, and return the way back: from weights of their values to slopes by X and Y."""
        return self._white_box.traced(X, Y, which)

    def traced_terms(
        self, X: Float64[ndarray, "b v"], Y: Float64[ndarray, "L b m"], place: int
    ) -> tuple[Float64[ndarray, "L b j"], Back]:
        """Evaluate the terms of a function that has them (`Structure.terms`), and return the way back from weights."""
        found = self.structure[place].terms
        if found is None:
            raise ValueError(f"'{self.functions[place]}' is not a sum of terms")
        terms, back = found.traced(X, Y)
        return (terms, back) if self._white_box.sign(place) > 0 else (-terms, lambda weight: back(-weight))

    @property
    def white(self) -> tuple[int, ...]:
        """Places of the constraints that are known exactly."""
        return tuple(i for i in range(1, self.k) if self._white_box.is_white[i])

    @property
    def ways(self) -> dict[str, str]:
        """How each function and model is computed, in words: as a program, called point by point, and so on."""
        return self._white_box.ways() | ({} if self.models is None else self.models.ways())

    @property
    def slow(self) -> tuple[int, ...]:
        """Places of the functions that are called point by point: few samples of them can be had."""
        return self._white_box.slow

    def penalized(self, f: Float64[ndarray, "*b k"], rho: float) -> Float64[ndarray, "*b"]:
        """Exact penalty F(x) = f_0 - rho * sum_i max(-f_i, 0), equation (40)."""
        return f[..., 0] - rho * np.maximum(-f[..., 1:], 0.0).sum(-1)

    # -------------------------------------------------------------------------------------------- objectives and limits

    @property
    def has_front(self) -> bool:
        """Whether there are several objectives, so that the answer is a front and not one point."""
        return len(self.objectives) > 1

    @property
    def goal_signs(self) -> Float64[ndarray, "r"]:
        """1 for each objective that is maximized, -1 for each that is minimized."""
        if not self.has_front:
            return np.array([-1.0 if self.minimizes else 1.0])
        return np.array([goal.sign for goal in self.goals])

    @property
    def goal_places(self) -> list[int]:
        """Places of the objectives among the functions of `side_by_side`."""
        return [0, *range(self.k, self.k + len(self.objectives) - 1)]

    def user_value(self, f0: float) -> float:
        """Return a value of g_0 with the sign of the user's objective."""
        return -f0 if self.minimizes else f0

    def limits(self) -> dict[str, Limit]:
        """Return each constraint that compares one quantity with a number as this quantity and its limit."""
        found = {name: limit_of(formula) for name, formula in self._formulas().items()}
        return {name: limit for name, limit in found.items() if limit is not None}

    def movable_limits(self) -> dict[str, Limit]:
        """Return the limits that are written as plain numbers, which `with_limits` replaces."""
        formulas = self._formulas()
        return {name: each for name, each in self.limits().items() if is_movable(formulas[name])}

    def _formulas(self) -> dict[str, Formula]:
        """Constraints that are formulas."""
        calls = zip(self.constraints, self._white_box.functions[1:], strict=True)
        return {name: call for name, call in calls if isinstance(call, Formula)}


def _unreadable(given: Any, error: Exception) -> EvaluationError:
    """Return the error about an object that cannot be read."""
    return EvaluationError(f"The outputs came as {type(given).__name__}, which cannot be read: {error}")
