"""How likely data are at settings, by what the belief says of the outputs there.

Residuals r = L' y + ... have errors of deviation s, and the outputs y a mean and a covariance S by the belief. At
settings, residuals are normal with covariance s^2 + L' S L: the likelihood averaged over all that the black box may be.
With a discrepancy, d^2 L' R L is added, R the correlation of what the model itself gets wrong.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy import ndarray

from pied.bounds import Composite
from pied.errors import SettingError
from pied.gp import GP
from pied.measured import Measured
from pied.problem import Problem, Squares, squares_of
from pied.records import Dataset, spread
from pied.shapes import Float64

LEARNED = 1e-3
"""Of the smallest root mean square of residuals so far: the least error that is learned."""
LARGEST = 3.0
"""Of the median of these: the largest."""
NO_SQUARES = (
    "the objective is not a sum of squares of outputs, so it does not say what the data are: "
    'state them, study.posterior(data={"y": 0.31}, sigma=0.02)'
)


@dataclass(frozen=True)
class Discrepancy:
    """By how much the model itself may be wrong, at the right parameters: an extra error of the outputs.

    Example: `docs/guide-calibration.md`.
    """

    size: float | None = None
    """Its standard deviation, in units of the outputs; None: learned."""
    length: float | None = None
    """Over which distance it is a smooth curve; None: another one for each output."""
    at: Sequence[float] | None = None
    """Where each output lies on this curve, such as the times of measurement; by default 0, 1, 2, ..."""

    def __post_init__(self) -> None:
        for name in ("size", "length"):
            value = getattr(self, name)
            if value is not None and not (math.isfinite(value) and value > 0):
                raise SettingError(f"the {name} of a discrepancy is a number above 0, got {value}")

    def correlation(self, m: int) -> Float64[ndarray, "m m"]:
        """Return the correlation of the outputs."""
        if self.length is None:
            return np.eye(m)
        at = np.arange(m, dtype=float) if self.at is None else np.asarray(self.at, dtype=float)
        if at.shape != (m,):
            raise SettingError(f"a discrepancy is over {m} outputs, and at= has {at.size} places")
        return np.exp(-0.5 * ((at[:, None] - at) / self.length) ** 2)


@dataclass(frozen=True)
class Data:
    """What a posterior is asked with."""

    data: Any = None
    """The data; None: they stand in the objective, a sum of squares."""
    sigma: Any = None
    """Standard deviation of their errors; None: learned."""
    prior: Mapping[str, Any] = field(default_factory=dict)
    """What was known of parameters before, by name."""
    discrepancy: Discrepancy | None = None
    limits: bool = False
    """Whether limits of outputs are known to hold, too."""
    given: Mapping[str, Any] = field(default_factory=dict)
    """Settings that are known."""


@dataclass(frozen=True, eq=False)
class Likelihood:
    """The logarithm of the likelihood, and of the prior, at points of the unit cube and sizes of errors."""

    problem: Problem
    belief: GP
    composite: Composite
    """For limits."""
    stated: Data
    squares: Squares
    names: tuple[str, ...]
    """What each residual is called: its output, if it follows one."""
    sigma: float | None
    """Deviation of residuals, in their units; None: learned."""
    sizes: dict[str, tuple[float, float]]
    """Least and largest value of each size of errors that is learned: "sigma", "discrepancy"."""

    @classmethod
    def of(cls, problem: Problem, belief: GP, composite: Composite, told: Dataset, stated: Data) -> "Likelihood":
        """Read what was stated.

        Args:
            problem: The statement.
            belief: As far as it is to be trusted.
            composite: The same with the functions of the problem.
            told: What was told.
            stated: Data and errors.
        """
        squares, sigma = _residuals(problem, told.Y, stated)
        single = squares.is_single
        names = tuple(problem.outputs[j] for j in squares.followed) if single else ("the residuals",)
        residuals, _ = squares.residuals(problem.from_unit(told.U[told.complete]), told.Y[told.complete])
        rms = np.sqrt((residuals**2).mean(-1))
        rms = rms[np.isfinite(rms) & (rms > 0)]
        if not len(rms):
            raise SettingError("all residuals so far are 0 or not finite: data and outputs say nothing of errors")
        count = squares.root.shape[1]
        if sigma is None and count <= problem.is_free.sum():
            raise SettingError(
                f"{count} data do not show how large their errors are beside {problem.is_free.sum()} parameters: "
                "learning sigma needs more data than parameters, so state sigma="
            )
        ends = (max(LEARNED * rms.min(), 1e-9 * np.median(rms)), LARGEST * float(np.median(rms)))
        sizes = {} if sigma is not None else {"sigma": ends}
        found = stated.discrepancy
        if found is not None and found.size is None:
            if sigma is None and found.length is None:
                raise SettingError(
                    "sigma and a discrepancy of each output cannot be told apart: state sigma, or a length over which "
                    "the discrepancy is smooth"
                )
            unit = np.sqrt((squares.root**2).sum(0).mean())
            least = ends[0] if sigma is None else max(1e-2 * sigma, ends[0])
            sizes["discrepancy"] = (least / unit, ends[1] / unit)
        return cls(problem, belief, composite, stated, squares, names, sigma, sizes)

    # ------------------------------------------------------------------------------------------------------- the cube

    @cached_property
    def free(self) -> ndarray:
        """Coordinates of the unit cube that are parameters."""
        return np.flatnonzero(self.problem.is_free)

    @property
    def D(self) -> int:
        """Number of unknowns: parameters and sizes of errors."""
        return len(self.free) + len(self.sizes)

    def points(self, V: Float64[ndarray, "b D"]) -> Float64[ndarray, "b d"]:
        """Return points of the space from unknowns; listed values have equal shares."""
        U = np.zeros((len(V), self.problem.d))
        U[:, self.free] = V[:, : len(self.free)]
        if (grid := self.problem.grid) is not None:
            first, last = (grid.rows(each) for each in self.problem.ends)
            rows = np.minimum(first + (U * (last - first + 1)).astype(np.int64), last)
            return grid.at(rows, self.problem.drawn(U))
        return self.problem.drawn(U)

    def errors(self, V: Float64[ndarray, "b D"]) -> dict[str, Float64[ndarray, "b"]]:
        """Return the sizes of errors that are learned."""
        own = V[:, len(self.free) :].T
        return {name: low * (high / low) ** v for (name, (low, high)), v in zip(self.sizes.items(), own, strict=True)}

    def unknowns(self, U: Float64[ndarray, "b d"]) -> Float64[ndarray, "b D"]:
        """Return unknowns at points, sizes of errors in the middle of their ranges."""
        low, high = self.problem.ends
        own = ((U - low) / np.where(high > low, high - low, 1.0))[:, self.free]
        return np.concatenate([np.clip(own, 0.0, 1.0), np.full((len(U), len(self.sizes)), 0.5)], 1)

    # ---------------------------------------------------------------------------------------------------- the density

    @np.errstate(all="ignore")
    def log_density(self, V: Float64[ndarray, "b D"]) -> Float64[ndarray, "b"]:
        """Return likelihood times prior; minus infinity where limits of settings are broken."""
        U = self.points(V)
        X = self.problem.from_unit(U)
        inside = self._holds(X)
        found = np.full(len(V), -np.inf)
        if inside.any():
            errors = {name: each[inside] for name, each in self.errors(V).items()}
            found[inside] = self.log_likelihood(U[inside], errors) + self._log_prior(X[inside])
        return np.where(np.isnan(found), -np.inf, found)

    def log_likelihood(self, U: Float64[ndarray, "b d"], errors: Mapping[str, ndarray]) -> Float64[ndarray, "b"]:
        """Return the logarithm of the likelihood, averaged over what the black box may be."""
        log_density = self.by_outcomes(U, errors)
        if self.stated.limits and self.problem.n > len(self.problem.white):
            log_density = log_density + np.log(self.composite.probability(U)[1])
        return log_density

    def by_outcomes(self, U: Float64[ndarray, "b d"], errors: Mapping[str, ndarray]) -> Float64[ndarray, "b"]:
        """Return the same without what limits say."""
        Y, scale = self.outcomes(U)
        return self.given(self.problem.from_unit(U), Y, scale, errors)

    def outcomes(self, U: Float64[ndarray, "b d"]) -> tuple[Float64[ndarray, "b m"], Float64[ndarray, "b *m"]]:
        """Return the middle of the outputs, natural units, and the root of their covariance, `b m` if it is diagonal.

        Of outputs on another scale, the deviation is half of the distance between a deviation above and one below.
        """
        belief = self.belief
        mean, deviation = belief.moments(U)
        if not belief.is_warped:
            bend = np.ones_like(mean)
            Y = mean
        else:
            own = deviation if belief.mixing is None else np.sqrt(deviation**2 @ (belief.mixing**2).T)
            Y = belief.unwarp(mean)
            wide = 0.5 * (belief.unwarp(mean + own) - belief.unwarp(mean - own))
            bend = np.where(own > 0, wide / np.where(own > 0, own, 1.0), 0.0)
        Y = np.clip(Y, *self.problem.ranges.T)
        if belief.mixing is None:
            return Y, bend * deviation
        return Y, bend[:, :, None] * belief.mixing * deviation[:, None]

    def given(
        self, X: Float64[ndarray, "b v"], Y: Float64[ndarray, "*L b m"], scale: ndarray, errors: Mapping[str, ndarray]
    ) -> Float64[ndarray, "*L b"]:
        """Return the same by outputs and the root of their covariance; with a root of 0, that of known outputs."""
        r, rest = self.squares.residuals(X, Y)
        s2 = np.broadcast_to(errors.get("sigma", self.sigma) ** 2, r.shape[-2:-1])  # type: ignore[operator]
        count = r.shape[-1]
        if scale.ndim == 2 and self._is_diagonal:
            total = s2[:, None] + self.variances(scale, errors)
            log_density = -0.5 * (r * r / total + np.log(total)).sum(-1)
        else:
            root = self.squares.root.T @ (scale if scale.ndim == 3 else scale[:, :, None] * np.eye(scale.shape[1]))
            T = s2[:, None, None] * np.eye(count) + root @ root.swapaxes(1, 2)
            if self._wrong is not None:
                T = T + np.reshape(self._size(errors) ** 2, (-1, 1, 1)) * self._wrong
            C = np.linalg.cholesky(T)
            turned = np.linalg.solve(C, np.moveaxis(r, -1, 0).reshape(count, -1, len(s2)).transpose(2, 0, 1))
            squares = (turned**2).sum(1).T.reshape(r.shape[:-1])
            log_density = -0.5 * squares - np.log(np.diagonal(C, axis1=1, axis2=2)).sum(-1)
        return np.asarray(log_density - 0.5 * rest / s2 - 0.5 * count * math.log(2 * math.pi))

    def variances(self, scale: Float64[ndarray, "b m"], errors: Mapping[str, ndarray]) -> Float64[ndarray, "b r"]:
        """Return what the belief and a discrepancy add to the variance of each residual."""
        squared = self.squares.root**2
        added = scale**2 @ squared
        if self.stated.discrepancy is not None:
            added = added + np.reshape(self._size(errors) ** 2, (-1, 1)) * squared.sum(0)
        return added

    @property
    def _is_diagonal(self) -> bool:
        found = self.stated.discrepancy
        return self.squares.is_single and (found is None or found.length is None)

    def _size(self, errors: Mapping[str, ndarray]) -> ndarray:
        """Return the size of the discrepancy."""
        found = self.stated.discrepancy
        assert found is not None
        return np.asarray(errors["discrepancy"] if found.size is None else found.size)

    @cached_property
    def _wrong(self) -> Float64[ndarray, "r r"] | None:
        """Covariance of the residuals by a discrepancy of size 1; None: there is none."""
        found, root = self.stated.discrepancy, self.squares.root
        if found is None:
            return None
        used = np.flatnonzero((root != 0).any(1))
        own = root[used]
        return np.asarray(own.T @ found.correlation(len(used)) @ own)

    def _holds(self, X: Float64[ndarray, "b v"]) -> ndarray:
        """Tell where the limits hold that depend on settings alone."""
        inside = np.ones(len(X), dtype=bool)
        for g in self.problem.g(X, np.zeros((1, len(X), self.problem.m)), self.problem.white):
            inside &= np.isfinite(g) & (g >= 0)
        return inside

    def _log_prior(self, X: Float64[ndarray, "b v"]) -> Float64[ndarray, "b"]:
        """Return the logarithm of the prior's density in the unit cube, up to a constant."""
        total = np.zeros(len(X))
        slopes = self.problem.unit_slopes(X)
        for name, stated in self.stated.prior.items():
            x = X[:, list(self.problem.variables).index(name)]
            if hasattr(stated, "logpdf"):
                total += np.asarray(stated.logpdf(x), dtype=float)
            else:
                mean, deviation = (float(each) for each in stated)
                total -= 0.5 * ((x - mean) / deviation) ** 2
            if name in self.problem.axes:
                total += np.log(np.abs(slopes[:, list(self.problem.axes).index(name)]))
        return total


def check_prior(problem: Problem, prior: Mapping[str, Any]) -> None:
    """Refuse priors that cannot be read."""
    for name, stated in prior.items():
        if name not in problem.variables or problem.variables[name].is_choice:
            raise SettingError(f"a prior is of variables that are numbers, and '{name}' is none of them")
        if hasattr(stated, "logpdf"):
            continue
        is_pair = isinstance(stated, Sequence) and not isinstance(stated, str) and len(stated) == 2
        if not is_pair or not all(isinstance(each, int | float) for each in stated) or not stated[1] > 0:
            raise SettingError(
                f"the prior of '{name}' is (mean, deviation) of a normal distribution, or has a logpdf, got {stated!r}"
            )


def _residuals(problem: Problem, Y: Float64[ndarray, "N m"], stated: Data) -> tuple[Squares, float | None]:
    """Return the residuals and their deviation, None if it is learned."""
    by_data: tuple[float | None, ...] = ()
    complete = Y[np.isfinite(Y).all(1)]
    if stated.data is not None:
        told = problem.told(stated.data, partial=True)
        by_data = tuple(
            each.error if isinstance(each, Measured) and math.isfinite(each.error) else None for each in told
        )
        y = np.array(told, dtype=float)
        known = np.flatnonzero(np.isfinite(y))
        if not len(known):
            raise SettingError("data= has no value of any output")
        root = np.eye(problem.m)[:, known]
        squares = Squares(
            root, np.nan_to_num(y), lambda X: (np.zeros((len(X), len(known))), np.zeros(len(X)))
        )  # fmt: skip
    else:
        middle, size = np.median(complete, 0), spread(complete)
        found = squares_of(problem, middle, np.where(size > 0, size, 1.0), complete)
        if found is None:
            raise SettingError(NO_SQUARES)
        squares = found
    return _in_errors(problem, squares, stated.sigma, by_data)


def _in_errors(
    problem: Problem, squares: Squares, sigma: Any, by_data: tuple[float | None, ...]
) -> tuple[Squares, float | None]:
    """Return the residuals in units of their errors, where each has its own, and the deviation of all of them."""
    if sigma is None and not any(each is not None for each in by_data):
        return squares, None
    if isinstance(sigma, int | float) and not isinstance(sigma, bool):
        if not (math.isfinite(sigma) and sigma > 0):
            raise SettingError(f"sigma is a standard deviation, a number above 0, got {sigma}")
        return squares, float(sigma)
    if sigma is None:
        own: list[float | None] = list(by_data)
    elif isinstance(sigma, Mapping):
        own = [None if np.isnan(each) else each for each in problem.told(sigma, partial=True)]
    elif isinstance(sigma, str | bytes) or not hasattr(sigma, "__len__"):
        raise SettingError(f"sigma is a number, or one for each output, got {sigma!r}")
    else:
        own = [float(each) for each in sigma]
    if not squares.is_single or len(own) != problem.m:
        what = "one number for each output" if squares.is_single else "one number: the objective has a covariance"
        raise SettingError(f"sigma should be {what}")
    each = [own[j] for j in squares.followed]
    if any(s is None or not s > 0 for s in each):
        missing = next(j for j, s in zip(squares.followed, each, strict=True) if s is None or not s > 0)
        raise SettingError(f"the error of '{problem.outputs[missing]}' is not stated: sigma= needs a number above 0")
    times = 1.0 / (np.abs(squares.root).max(0) * np.array(each, dtype=float))

    def apart(X: ndarray) -> tuple[ndarray, ndarray]:
        a, rest = squares.apart(X)
        return a * times, rest - rest

    return Squares(squares.root * times, squares.middle, apart), 1.0
