"""From a record to bounds: fit the belief, imagine pending values, compose the belief with g."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy import ndarray

from pied.bounds import quantile, worst
from pied.bounds.belief import Belief, Mixed, Thinned
from pied.bounds.campaigns import fitted, joined, told
from pied.bounds.composite import USUAL_LEVELS, Composite
from pied.bounds.estimator import Estimator
from pied.bounds.inputs import coding_of, longest, ratios
from pied.bounds.known import known_of, means_of
from pied.bounds.trust import Trust, widened
from pied.errors import SettingError
from pied.gp import GP, Model, ModelChoice, Prior, in_block, step_of
from pied.problem import Problem
from pied.records import Dataset
from pied.rng import Stream
from pied.search import VIOLATION_WEIGHT
from pied.shapes import Float64, Int


@dataclass(frozen=True)
class Believer:
    """How beliefs are made: the models to choose from, and the estimator of quantiles."""

    model: Model = field(default_factory=Model)
    estimator: Estimator = field(default_factory=Estimator)
    cautious: bool = True
    """Whether what is said of a belief is widened by what its predictions have missed so far (`trust`)."""

    mixture: bool = True
    """Whether what is said comes from a mixture of the best few models of each output, weighted by how well they
    predict measurements left out; a search uses the best one."""

    priors: Prior | tuple[Prior, ...] | None = None
    """A process that is stated, one for all outputs or one for each; then no model is chosen and nothing fitted. None:
    all is learned."""

    def check(self, problem: Problem) -> None:
        """Refuse stated processes that are not those of a problem's outputs."""
        if self.priors is None:
            return
        if problem.is_turned:
            raise SettingError(f"a stated prior is about other coordinates than {problem.slice}: give others of them")
        priors = self.priors if isinstance(self.priors, tuple) else (self.priors,) * problem.m
        if len(priors) != problem.m:
            wanted = f"one, or one for each of {', '.join(problem.outputs)}"
            raise SettingError(f"{len(priors)} priors are given for {problem.m} outputs: state {wanted}")
        for name, prior, noise in zip(problem.outputs, priors, problem.noise, strict=True):
            if noise is None:
                raise SettingError(
                    f"with a prior of '{name}' nothing is fitted: state its noise, too, 0 if it is exact"
                )
            if (count := len(prior.scales(problem.d))) != problem.d:
                raise SettingError(f"the prior of '{name}' has {count} length scales for {problem.d} variables")
        means_of(problem, priors)

    def _conditioned(self, problem: Problem, data: Dataset) -> GP | None:
        """Return stated processes given what was told; None if there are none."""
        if self.priors is None:
            return None
        priors = self.priors if isinstance(self.priors, tuple) else (self.priors,) * problem.m
        return GP.of_priors(
            data.U, data.Y, priors, active=problem.active, noise=problem.noise, coding=coding_of(problem),
            errors=data.errors, cut=data.cut, known=means_of(problem, priors),
        )  # fmt: skip

    def fit(
        self, problem: Problem, data: Dataset, previous: Sequence[ModelChoice] | None = None, *, imagine: bool = True
    ) -> GP:
        """Fit the belief to the told values.

        Args:
            problem: The statement.
            data: The told values.
            previous: Models chosen before.
            imagine: Whether pending, failed and missing values are imagined at their mean, so that a search goes
                elsewhere; what is said must not rest on them.
        """
        words = self._words(problem)
        gp = self._conditioned(problem, data) or fitted(
            data, lambda some: GP.fit(some.U, some.Y, previous=previous, **told(some), **words)
        )
        gp = in_block(self.read_in(problem, data, gp), data.block)
        if not imagine:
            return self.mixed(problem, data, gp)
        untold = ~(np.isfinite(data.Y) | data.limited)
        partial = untold.any(1)
        points = np.concatenate([data.U[partial], data.imagined])
        everything = np.ones((len(data.imagined), problem.m), dtype=bool)
        return gp.imagine(points, np.concatenate([untold[partial], everything]))

    def of_told(self, problem: Problem, data: Dataset, belief: GP) -> GP:
        """Return a belief without what was imagined, its models kept."""
        if not len(data.imagined) and data.complete.all():
            return belief
        return self.read_in(problem, data, self.conditioned(problem, data, belief.choices))

    def alone(self, problem: Problem, data: Dataset, belief: GP, block: str = "") -> GP:
        """Return the belief about a block of the present campaign alone, "": an average one.

        Whether limits can be met and how much better is possible is said by it: what other equipment showed may be
        wrong here wherever nothing was measured yet.
        """
        if block == data.block and not any(each.campaigns for each in belief.choices):
            return belief
        return self.fit(problem, replace(data, earlier_campaigns=None, block=block), imagine=False)

    def mixed(self, problem: Problem, data: Dataset, belief: GP) -> GP:
        """Return a belief about what was told as it is said: a mixture of the best few models of each output."""
        if not self.mixture or self.priors is not None:
            return belief
        whole = joined(data, [each.campaigns for each in belief.choices])
        return in_block(belief.among(whole.U, whole.Y, **told(whole), **self._words(problem)), data.block)

    @staticmethod
    def read_in(problem: Problem, data: Dataset, belief: GP) -> GP:
        """Return a belief that knows in which steps noisy outputs are read, as all that was told shows it.

        Whole numbers may be counts, which are as they are: they are taken for readings only where a noise is stated.
        A stated resolution counts instead.
        """
        steps = np.array([0.0 if exact else step_of(y) for exact, y in zip(problem.exact, data.Y.T, strict=True)])
        may_count = np.array([noise is None for noise in problem.noise]) & (steps % 1.0 == 0.0)
        steps = np.where(may_count, 0.0, steps)
        for name, step in problem.resolutions.items():
            steps[problem.outputs.index(name)] = step
        return belief.read_in(steps)

    def conditioned(self, problem: Problem, data: Dataset, choices: Sequence[ModelChoice]) -> GP:
        """Return the belief of chosen models about what was told, nothing imagined."""
        whole = joined(data, [each.campaigns for each in choices])
        gp = self._conditioned(problem, data)
        gp = gp or GP.at_choices(whole.U, whole.Y, choices, **told(whole), **self._words(problem))
        return in_block(gp, data.block)

    def _words(self, problem: Problem) -> dict[str, Any]:
        """What a belief has to know of a problem, and how it is made."""
        return {
            "active": problem.active,
            "ratios": ratios(problem),
            "longest": longest(problem),
            "noise": problem.noise,
            "model": self.model,
            "coding": coding_of(problem),
            "known": known_of(problem),
        }

    def bound(self, problem: Problem, data: Dataset, belief: Belief, stream: Stream) -> Composite:
        """Compose a belief with the white box."""
        return Composite(problem, belief, stream, estimator=self.estimator, told=data.Y)

    def trust(self, problem: Problem, data: Dataset, level: float) -> Trust:
        """Return how far a belief about told values is to be trusted."""
        return Trust(problem, data, level, self.cautious, self.priors is not None)

    def careful(self, problem: Problem, data: Dataset, belief: GP, level: float) -> GP:
        """Return a belief as far as it is to be trusted beside what was measured."""
        trust = self.trust(problem, data, level)
        return widened(problem, belief, trust.stated, trust.least) if self.cautious else belief

    def said(self, problem: Problem, data: Dataset, belief: GP, stream: Stream, level: float) -> Composite:
        """Compose a belief with the white box for what is said of it, not for a search."""
        return self.bound(problem, data, self.careful(problem, data, belief, level), stream)

    def doubted(self, problem: Problem, data: Dataset, belief: GP, stream: Stream, level: float) -> Composite:
        """Compose a belief with the white box for what may be where nothing was measured (`Trust.away`)."""
        plain = belief.beyond_plateaus
        if self.cautious:
            plain = widened(problem, plain, self.trust(problem, data, level).away)
        return self.bound(problem, data, plain, stream)


@dataclass(frozen=True, eq=False)
class Widened:
    """A belief whose deviations are multiplied by a factor, one for all outputs or one for each."""

    belief: Belief
    factor: float | Float64[ndarray, "m"]

    @property
    def is_warped(self) -> bool:
        """Whether the belief is."""
        return self.belief.is_warped

    @property
    def mixing(self) -> Float64[ndarray, "m m"] | None:
        """How the outputs are mixtures; where each has a factor of its own, with these."""
        mixing = self.belief.mixing if isinstance(self.belief, Mixed) else None
        return mixing if mixing is None or not isinstance(self.factor, ndarray) else self.factor[:, None] * mixing

    @property
    def _by(self) -> float | Float64[ndarray, "m"]:
        """The factor of what is modelled."""
        return self.factor if self.mixing is None or not isinstance(self.factor, ndarray) else 1.0

    @property
    def fewer(self) -> "Widened | None":
        """The same of fewer points; None where the belief rests on few."""
        belief = self.belief.fewer if isinstance(self.belief, Thinned) else None
        return None if belief is None else Widened(belief, self.factor)

    def moments(self, U: Float64[ndarray, "b d"]) -> tuple[Float64[ndarray, "b m"], Float64[ndarray, "b *m"]]:
        """Return the mean and the wider deviations."""
        mean, root = self.belief.moments(U)
        return mean, _times(self._by, root)

    def moments_and_slopes(
        self, U: Float64[ndarray, "b d"]
    ) -> tuple[
        Float64[ndarray, "b m"], Float64[ndarray, "b *m"], Float64[ndarray, "b m d"], Float64[ndarray, "b *m d"]
    ]:
        """Return the moments and their derivatives."""
        mean, root, mean_slope, root_slope = self.belief.moments_and_slopes(U)
        return mean, _times(self._by, root), mean_slope, _times(self._by, root_slope)

    def unwarp(self, W: Float64[ndarray, "*b m"]) -> Float64[ndarray, "*b m"]:
        """Return outputs in natural units, as the belief does."""
        return self.belief.unwarp(W)

    def unwarp_slopes(self, Y: Float64[ndarray, "*b m"]) -> Float64[ndarray, "*b m"]:
        """Return the derivatives of `unwarp`, as the belief does."""
        return self.belief.unwarp_slopes(Y)


def _times(factor: float | Float64[ndarray, "m"], root: ndarray) -> ndarray:
    """Multiply roots, or their slopes, whose second axis is the outputs."""
    if isinstance(factor, ndarray):
        factor = factor.reshape(-1, *(1,) * (root.ndim - 2))
    return factor * root


def to_memory(choices: Sequence[ModelChoice]) -> dict[str, Any]:
    """Return the choices of a belief as plain data."""
    return {"choices": [choice.to_dict() for choice in choices]}


def from_memory(memory: Mapping[str, Any]) -> tuple[ModelChoice, ...] | None:
    """Return the choices of an earlier belief, if they were recorded."""
    stored = memory.get("choices")
    return tuple(ModelChoice.from_dict(each) for each in stored) if stored else None


@dataclass(frozen=True, eq=False)
class Bounds:
    """The functions of a subproblem: one quantile of every function of the problem."""

    composite: Composite
    levels: tuple[float | None, ...]
    screening: bool = False
    """Whether slopes are computed with the samples of screening, too."""

    def coarse(self) -> "Bounds | None":
        """Return the bounds with fewer samples, by a belief of fewer points; None where that is not cheaper.

        Few samples show little of an extreme quantile. It is then taken for a usual one under wider deviations: as many
        of its deviations from the mean, which is exact where g is affine.
        """
        composite, levels = self.composite.fewer or self.composite, self.levels
        if self.screening or (composite is self.composite and not composite.is_sampled):
            return None
        if composite.screens(levels):
            return replace(self, composite=composite, screening=True)
        z = [None if each is None else quantile.normal(each) for each in levels]
        factor = max(abs(each) for each in z if each is not None) / quantile.normal(USUAL_LEVELS[1])
        usual = tuple(None if each is None else quantile.level_of(each / factor) for each in z)
        return Bounds(composite.under(Widened(composite.belief, factor)), usual, screening=True)

    @property
    def k(self) -> int:
        """Number of functions."""
        return self.composite.problem.k

    @property
    def white(self) -> tuple[int, ...]:
        """Constraints that are known exactly."""
        return self.composite.problem.white

    def values(self, U: Float64[ndarray, "b d"]) -> Float64[ndarray, "b k"]:
        """Return all functions, with the fewer samples of screening."""
        return self.composite.values(U, self.levels, screening=True)

    def promising(self, U: Float64[ndarray, "b d"], scales: Float64[ndarray, "k"], count: int) -> Int[ndarray, "c"]:
        """Return which points have the best functions as far as a rough look tells, all of them if that costs little.

        Args:
            U: The points.
            scales: One scale per function.
            count: How many are wanted.
        """
        if not self.composite.is_sampled or len(U) <= count:
            return np.arange(len(U))
        f = (self.composite.fewer or self.composite).roughly(U, self.levels) / scales
        merit = f[:, 0] - VIOLATION_WEIGHT * np.maximum(-f[:, 1:], 0.0).sum(1)
        return np.argpartition(-merit, count)[:count]

    def values_and_slopes(
        self, U: Float64[ndarray, "b d"]
    ) -> tuple[Float64[ndarray, "b k"], Float64[ndarray, "b k d"]]:
        """Return all functions and their slopes."""
        return self.composite.values_and_slopes(U, self.levels, screening=self.screening)


def optimistic(composite: Composite, level: float | tuple[float, ...]) -> Bounds:
    """Return the functions of exploration: upper bounds throughout, at one level or at one for each function."""
    return Bounds(composite, level if isinstance(level, tuple) else (level,) * composite.problem.k)


def possible(composite: Composite, level: float) -> Bounds:
    """Return the functions of the test of feasibility: upper bounds of the constraints, no objective."""
    return Bounds(composite, (None,) + (level,) * composite.problem.n)


def sure(composite: Composite, level: float) -> Bounds:
    """Return the functions of a recommendation: lower bounds throughout."""
    return Bounds(composite, (1.0 - level,) * composite.problem.k)


def pessimistic(composite: Composite, level: float | tuple[float, ...]) -> Bounds:
    """Return the functions of verification: the median of the objective, lower bounds of the constraints."""
    levels = level[1:] if isinstance(level, tuple) else (level,) * composite.problem.n
    return Bounds(composite, (0.5, *(1.0 - each for each in levels)))


@dataclass(frozen=True, eq=False)
class White:
    """The constraints that are known exactly, as a subproblem that needs no belief."""

    problem: Problem
    which: tuple[int, ...]
    """Places of the constraints among the problem's functions."""
    near: Float64[ndarray, "d"] | None = None
    """The objective is to be near this point; None: there is no objective."""

    @property
    def k(self) -> int:
        """Number of functions."""
        return 1 + len(self.which)

    @property
    def white(self) -> tuple[int, ...]:
        """All of the constraints."""
        return tuple(range(1, self.k))

    @np.errstate(all="ignore")
    def values(self, U: Float64[ndarray, "b d"]) -> Float64[ndarray, "b k"]:
        """Return all functions; the worst value where one is not finite."""
        f = self._values(U)
        fine = np.isfinite(f)
        return f if fine.all() else np.where(fine, f, self._worst)

    @cached_property
    def _worst(self) -> Float64[ndarray, "k"]:
        """What stands for minus infinity (`worst`): below zero, and one range below the values in the box."""
        f = self._values(worst.points(self.problem.d))
        fine = np.isfinite(f)
        low, high = np.where(fine, f, np.inf).min(0), np.where(fine, f, -np.inf).max(0)
        below = np.minimum(low, -np.abs(high)) - (high - low)
        return np.where(fine.any(0) & (below < 0.0), below, -1.0)

    def _values(self, U: Float64[ndarray, "b d"]) -> Float64[ndarray, "b k"]:
        objective, _ = self._objective(U)
        return np.stack([objective, *self.problem.g(self.problem.from_unit(U), self._nothing(U), which=self.which)], -1)

    @np.errstate(all="ignore")
    def values_and_slopes(
        self, U: Float64[ndarray, "b d"]
    ) -> tuple[Float64[ndarray, "b k"], Float64[ndarray, "b k d"]]:
        """Return all functions and their slopes, also where they are not finite."""
        X = self.problem.from_unit(U)
        G, back = self.problem.traced(X, self._nothing(U), self.which)
        by_x, _ = back(np.ones_like(G))
        objective, slope = self._objective(U)
        by_u = self.problem.by_axes(by_x) * self.problem.unit_slopes(X)
        return np.concatenate([objective[None], G[:, 0]]).T, np.concatenate([slope[None], by_u]).swapaxes(0, 1)

    def _objective(self, U: Float64[ndarray, "b d"]) -> tuple[Float64[ndarray, "b"], Float64[ndarray, "b d"]]:
        """The objective and its slopes."""
        if self.near is None:
            return np.zeros(len(U)), np.zeros_like(U)
        away = U - self.near
        return -(away * away).sum(1), -2.0 * away

    def _nothing(self, U: Float64[ndarray, "b d"]) -> Float64[ndarray, "1 b m"]:
        """Outputs that nothing depends on."""
        return np.zeros((1, len(U), self.problem.m))
