"""Least squares with SciPy's words: parameters of a simulator from data, for people who have that call already.

Each residual, or each point of the curve, is an output that is modelled; the sum of squares is known. So its quantiles
have a closed form, and constraints may use outputs as always.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy import ndarray

from pied.errors import NumericalError, SettingError, StatementError, Status, did_you_mean
from pied.problem import Named, Problem
from pied.shapes import Float64
from pied.study.result import Result
from pied.study.shortcuts import STUDY_WORDS
from pied.study.study import Study

RUN_WORDS = ("on_tell", "executor", "workers", "timeout", "retries", "progress")
SIMPLEX_GRADIENTS = 10
"""Of d + 1 evaluations: the usual budget. With fewer some fits are open, with more hardly any other is solved
(`benchmarks/fits.py`)."""
LOSSES: dict[str, Callable[[Any], Any]] = {
    "linear": lambda r: r * r,
    "soft_l1": lambda r: 2.0 * (np.sqrt(1.0 + r * r) - 1.0),
    "huber": lambda r: np.where(np.abs(r) <= 1.0, r * r, 2.0 * np.abs(r) - 1.0),
    "cauchy": lambda r: np.log1p(r * r),
    "arctan": lambda r: np.arctan(r * r),
}
"""SciPy's losses, of residuals in units of `f_scale`."""


@dataclass(frozen=True, eq=False)
class Fit:
    """What `least_squares` found, in SciPy's words.

    Example: `docs/guide-calibration.md`.
    """

    x: Float64[ndarray, "d"]
    """The best parameters that were evaluated."""
    cost: float
    """Half of the sum of squares there, or of the losses."""
    fun: Float64[ndarray, "m"]
    """Residuals there, weighted by the errors of the data."""
    nfev: int
    """How often the simulator was called."""
    success: bool
    """Whether the parameters meet all limits and the run was not ended by an error or by hand."""
    status: Status
    """How the run ended."""
    message: str
    """The same as a sentence."""
    result: Result = field(repr=False)
    """What `pied.minimize` returns: bounds, gap, the record."""
    study: Study = field(repr=False)
    """The study, to go on with: `study.run(20)`, `study.result()`."""


@dataclass(frozen=True, eq=False)
class _Simulator:
    """Calls a function of a vector, and keeps what it was called for before the study began."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    whiten: Float64[ndarray, "m m"] | None
    """The inverse root of the covariance of the data, by which their errors become independent."""
    data: Float64[ndarray, "m"] | None
    first: dict[tuple[float, ...], Float64[ndarray, "m"]] = field(default_factory=dict)
    calls: list[int] = field(default_factory=lambda: [0])

    def __call__(self, x: Named) -> Float64[ndarray, "m"]:
        """Return the outputs at a point: residuals, a curve, or what is independent in it."""
        point = np.array(x.array, dtype=float)
        known = self.first.pop(tuple(point.tolist()), None)
        return self.at(point) if known is None else known

    def at(self, point: Float64[ndarray, "d"]) -> Float64[ndarray, "m"]:
        """Call the function."""
        self.calls[0] += 1
        y = np.atleast_1d(np.asarray(self.function(point, *self.args, **self.kwargs), dtype=float))
        if y.ndim != 1:
            raise StatementError(f"fun should return one row of numbers, got an array of shape {y.shape}.")
        return y if self.whiten is None or self.data is None else self.whiten @ (y - self.data)


def least_squares(
    fun: Callable[..., Any],
    x0: Sequence[float] | ndarray | None = None,
    bounds: Any = None,
    *,
    data: Sequence[float] | ndarray | None = None,
    sigma: Any = None,
    budget: int | None = None,
    loss: str = "linear",
    f_scale: float = 1.0,
    args: tuple[Any, ...] = (),
    kwargs: Mapping[str, Any] | None = None,
    noise: Any = 0,
    **words: Any,
) -> Fit:
    """Fit the parameters of a costly simulator: `scipy.optimize.least_squares` with few evaluations.

    Example: `docs/guide-calibration.md`.

    Args:
        fun: Function of the parameters, an array, that returns the residuals; with `data`, the curve.
        x0: A start, evaluated first; None: there is none.
        bounds: Lower and upper ends, `([0, 0], [1, 5])`, or variables by name, `{"k": Variable(0.1, 10, log=True)}`.
        data: What the curve is compared with.
        sigma: Standard errors of the data, one or one each, or their covariance, as in SciPy's `curve_fit`.
        budget: Evaluations; by default ten times one more than there are parameters.
        loss: "linear", "soft_l1", "huber", "cauchy" or "arctan", as in SciPy.
        f_scale: The size from which a residual counts as an outlier.
        args: Further arguments of fun.
        kwargs: The same by name.
        noise: As in `Problem`; 0: fun returns the same for the same parameters.
        words: Of `Problem` and `Study`: `subject_to`, `constants`, `inputs`, `ranges`, `seed`, `store`, `workers`.

    Raises:
        StatementError: If bounds, data or sigma do not fit.
    """
    if loss not in LOSSES:
        raise SettingError(f"loss is one of {', '.join(LOSSES)}, got '{loss}'.{did_you_mean(loss, LOSSES)}")
    variables = _variables(bounds, x0)
    goal, weights, whiten = _compared(data, sigma)
    simulator = _Simulator(fun, tuple(args), dict(kwargs or {}), whiten, goal)
    start = None if x0 is None else dict(zip(variables, np.asarray(x0, dtype=float).tolist(), strict=True))
    if goal is None:
        start, m = _begun(variables, start, simulator)
    else:
        m = len(goal)

    def residuals(y: Any) -> Any:
        r = y if goal is None or whiten is not None else y - goal
        return r if weights is None else r / weights

    def misfit(x: Any, y: Any) -> Any:
        return f_scale**2 * np.sum(LOSSES[loss](residuals(y.array) / f_scale))

    run = {name: words.pop(name) for name in RUN_WORDS if name in words}
    own = {name: words.pop(name) for name in STUDY_WORDS if name in words}
    outputs = {"r" if goal is None or whiten is not None else "y": m}
    problem = Problem(variables, outputs, blackbox=simulator, minimize={"misfit": misfit}, noise=noise, **words)
    study = Study(problem, start=start or (), **own)
    result = study.run(SIMPLEX_GRADIENTS * (len(variables) + 1) if budget is None else budget, **run)
    return _told(result, study, residuals, simulator.calls[0])


def _variables(bounds: Any, x0: Any) -> dict[str, Any]:
    """Read bounds as SciPy does; variables by name are taken as they are."""
    if isinstance(bounds, Mapping):
        return dict(bounds)
    ends = (bounds.lb, bounds.ub) if hasattr(bounds, "lb") else bounds
    wanted = "bounds should be a finite box, ([0, 0], [1, 5]), or variables by name, {'k': (0, 1)}"
    try:
        low, high = (np.atleast_1d(np.asarray(each, dtype=float)) for each in ends)
        d = max(len(low), len(high), 0 if x0 is None else len(np.atleast_1d(x0)))
        box = np.broadcast_to(low, d), np.broadcast_to(high, d)
    except (TypeError, ValueError):
        raise StatementError(f"{wanted}, got {bounds!r}.") from None
    if not np.isfinite(box).all():
        raise StatementError(f"{wanted}: without ends there is no box to search, got {bounds!r}.")
    return {f"x{i}": (lo, hi) for i, (lo, hi) in enumerate(zip(*(each.tolist() for each in box), strict=True))}


def _compared(data: Any, sigma: Any) -> tuple[ndarray | None, ndarray | None, ndarray | None]:
    """Read the data and their errors: what is compared with, its standard errors, and what makes errors independent."""
    if data is None:
        if sigma is not None:
            raise StatementError("sigma is the error of the data: give data=, too, or divide the residuals by it.")
        return None, None, None
    goal = np.atleast_1d(np.asarray(data, dtype=float))
    if goal.ndim != 1 or not np.isfinite(goal).all():
        raise StatementError("data should be one row of finite numbers.")
    if sigma is None:
        return goal, None, None
    errors = np.asarray(sigma, dtype=float)
    if errors.ndim < 2:
        if errors.shape not in ((), (1,), goal.shape) or not (errors > 0).all():
            raise StatementError(f"sigma should be one standard error above 0, or {len(goal)} of them, got {sigma!r}.")
        return goal, np.broadcast_to(errors, goal.shape), None
    if errors.shape != (len(goal), len(goal)) or not np.allclose(errors, errors.T):
        raise StatementError(f"a covariance of {len(goal)} values is a symmetric table of {len(goal)} rows.")
    try:
        return goal, None, np.linalg.inv(np.linalg.cholesky(errors))
    except np.linalg.LinAlgError:
        raise StatementError("sigma is no covariance: it is not positive definite.") from None


def _begun(
    variables: Mapping[str, Any], start: dict[str, float] | None, simulator: _Simulator
) -> tuple[dict[str, float], int]:
    """Call fun once, to know how many residuals there are; return where, so that the study begins there, and how many.

    Without a start that is the middle of the box.
    """
    if start is None:
        box = Problem(variables, ["r"], minimize="r")
        u = np.full((1, box.d), 0.5)
        (x,) = box.from_unit(u if box.grid is None else box.grid.snapped(u))
        start = dict(zip(box.variables, x.tolist(), strict=True))
    r = simulator.at(np.array(list(start.values())))
    simulator.first[tuple(start.values())] = r
    return start, len(r)


def _told(result: Result, study: Study, residuals: Callable[[Any], Any], calls: int) -> Fit:
    """Return the result in SciPy's words."""
    if result.x is None or result.y is None:
        raise NumericalError(f"no parameters could be evaluated: {result.message}")
    return Fit(
        x=np.array(result.x.array, dtype=float),
        cost=0.5 * result.value,
        fun=residuals(np.array(result.y.array, dtype=float)),
        nfev=calls,
        success=result.is_feasible and result.status not in (Status.INFEASIBLE, Status.INTERRUPTED),
        status=result.status,
        message=result.message,
        result=result,
        study=study,
    )
