"""The random variable g(x, h(x)) under a belief: its quantiles, their slopes, the probability that constraints hold.

How a quantile is found depends on the structure of the function (`Problem.structure`):

- white: exact;
- affine in y, or monotone in its one output: the shift bound, in closed form;
- everything else: scrambled Sobol base samples, fixed for the life of a `Composite`, and averaged order statistics.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float64
from torch import Tensor

from pied.arrays import Array, library, like, quick, tensor
from pied.bounds import quantile, worst
from pied.bounds.estimator import TAIL_SAMPLES, Estimator
from pied.bounds.stack import Stack, drawn, finite_slopes, flat, inside, rows, stepped
from pied.problem import Problem
from pied.rng import Stream

Levels = Sequence[float | None]
"""One level per function; None: the function is not wanted and is returned as zero."""

PROBABILITY_SAMPLES = 2**12  # a probability then has a standard error of at most 0.008
LEAST_DEVIATION = 1e-300  # avoids division by zero
AFFINE_ERROR = 1e-6  # of a shift: an affine closed form that is wrong by more does not hold
USUAL_LEVELS = (0.05, 0.95)  # of the bounds whose width says how much is known
NUMBERS_AT_ONCE = 4_000_000  # outputs held at once while evaluating many points: 32 MB an array


@runtime_checkable
class Belief(Protocol):
    """What a `Composite` needs of a belief about h: moments at single points, nothing joint over points."""

    @property
    def is_warped(self) -> bool:
        """Whether outputs are modelled in other units than their own, such as their logarithm."""

    def moments(self, U: Float64[Tensor, "b d"]) -> tuple[Float64[Tensor, "b m"], Float64[Tensor, "b *m"]]:
        """Return the mean and the root of the covariance: deviations `b m`, or Cholesky factors if correlated."""

    def moments_and_slopes(
        self, U: Float64[Tensor, "b d"]
    ) -> tuple[Float64[Tensor, "b m"], Float64[Tensor, "b *m"], Float64[Tensor, "b m d"], Float64[Tensor, "b *m d"]]:
        """Return the moments and their derivatives with respect to the point."""

    def unwarp(self, W: Float64[Tensor, "*b m"]) -> Float64[Tensor, "*b m"]:
        """Return outputs in natural units from values in modelled units."""

    def unwarp_slopes(self, Y: Float64[Tensor, "*b m"]) -> Float64[Tensor, "*b m"]:
        """Return the derivatives of `unwarp` where it gives these outputs."""


class LastMoments:
    """The moments of a belief at the points looked up last: a pool is looked up several times.

    The same tensor object must not be changed in place between two look-ups.
    """

    def __init__(self, belief: Belief) -> None:
        self._belief = belief
        self._kept: tuple[Tensor, Tensor, Tensor] | None = None

    def __call__(self, U: Float64[Tensor, "b d"]) -> tuple[Float64[Tensor, "b m"], Float64[Tensor, "b *m"]]:
        """Return the mean and the root of the covariance."""
        if self._kept is None or self._kept[0] is not U:
            self._kept = U, *self._belief.moments(U)
        return self._kept[1], self._kept[2]


class Composite:
    """Quantiles of every function of a problem under one belief, with the same base samples throughout."""

    def __init__(
        self,
        problem: Problem,
        belief: Belief,
        stream: Stream,
        *,
        estimator: Estimator | None = None,
        told: Float64[Tensor, "N m"] | None = None,
    ) -> None:
        """Compose a belief with the white box.

        Args:
            problem: The white box.
            belief: About the black box.
            stream: Source of base samples.
            estimator: Of quantiles without a closed form.
            told: Outputs told so far; they set how near to the ends of their ranges outputs are drawn.
        """
        self.problem = problem
        self.belief = belief
        self.estimator = estimator or Estimator()
        self._stream = stream
        self._ranges = inside(problem.ranges, told)
        self._base: dict[int, Tensor] = {}
        self._worsts: dict[int, float] = {}
        self._moments = LastMoments(belief)
        closed = self.estimator.closed_forms
        kinds = [structure.kind for structure in problem.structure]
        self._white = tuple(i for i, kind in enumerate(kinds) if kind == "white")
        self._shifted = tuple(i for i, kind in enumerate(kinds) if closed and self._has_closed_form(kind))
        self._sampled = tuple(i for i in range(problem.k) if i not in self._white and i not in self._shifted)
        self._movers = tuple(sorted({j for i in self._shifted for j in problem.structure[i].outputs}))

    def _has_closed_form(self, kind: str) -> bool:
        """With correlated outputs, only Proposition 2 holds: g affine, outputs neither warped nor clamped."""
        if not self.is_correlated:
            return kind in ("affine", "monotone")
        return kind == "affine" and not self.belief.is_warped and not self._has_ranges

    @cached_property
    def is_correlated(self) -> bool:
        """Whether the belief gives Cholesky factors of correlated outputs."""
        return self.belief.moments(torch.full((1, self.problem.d), 0.5, dtype=torch.float64))[1].ndim == 3

    @cached_property
    def _has_ranges(self) -> bool:
        return self.estimator.ranges and bool(torch.isfinite(self.problem.ranges).any())

    def values(self, U: Float64[Tensor, "b d"], levels: Levels, *, screening: bool = False) -> Float64[Tensor, "b k"]:
        """Return Q_i(level_i) of every function at every point, in pieces of bounded memory."""
        samples = self._samples_for(levels, screening)
        per_point = max(1 + 2 * len(self._movers), samples if self._drawn_for(levels) else 1)
        parts = []
        with torch.no_grad():
            size = max(1, NUMBERS_AT_ONCE // (per_point * self.problem.m))
            moments = (each.split(size) for each in self._moments(U))
            for piece, mean, root in zip(U.split(size), *moments, strict=True):
                X = self.problem.from_unit(piece)
                f = piece.new_zeros(self.problem.k, len(piece))
                for stack in self._stacks(mean, root, levels, samples):
                    Y = self.physical(stack.W)
                    for i, g in zip(stack.which, self.problem.g(X, Y, which=stack.which), strict=True):
                        f[i] = self._quantile(i, stack, X, Y, g, levels[i] or 0.5)
                parts.append(self._finite(f.T))
        return torch.cat(parts)

    @np.errstate(all="ignore")
    def values_and_slopes(
        self, U: Float64[Tensor, "b d"], levels: Levels, *, screening: bool = False
    ) -> tuple[Float64[Tensor, "b k"], Float64[Tensor, "b k d"]]:
        """Return Q_i(level_i) and its derivative with respect to the point.

        A quantile is a weighted sum of values of g. Its weights are propagated back through g (`Problem.traced`). The
        steps between the point and the outputs (moments, warps, units) have slopes in closed form.
        """
        mean, root, mean_slope, root_slope = (quick(each) for each in self.belief.moments_and_slopes(U))
        X, unit_slopes = self._natural(U)
        parts = []
        for stack in self._stacks(mean, root, levels, self._samples_for(levels, screening)):
            f, by_x, by_Y = self._traced(stack, X, levels)
            slopes = by_x.swapaxes(0, 1) * unit_slopes
            if stack.kind != "white":
                by_mean, by_root = self._carried(stack, by_Y)
                slopes = slopes + by_mean @ mean_slope
                slopes = slopes if by_root is None else slopes + by_root @ rows(root_slope)
            parts.append((stack.which, f.T, slopes))
        values, slopes = self._in_order(parts, U)
        return tensor(self._finite(values)), tensor(finite_slopes(slopes))

    def _natural(self, U: Float64[Tensor, "b d"]) -> tuple[Float64[Array, "b d"], Float64[Array, "b 1 d"]]:
        """Points in natural units, and the derivative of this conversion."""
        X = self.problem.from_unit(U)
        return quick(X), quick(self.problem.unit_slopes(X))[:, None]

    def _in_order(
        self, parts: Sequence[tuple[tuple[int, ...], Any, Any]], U: Float64[Tensor, "b d"]
    ) -> tuple[Float64[Array, "b k"], Float64[Array, "b k d"]]:
        """Sort the results of the stacks by function; zero for functions that are not wanted."""
        k, d = self.problem.k, self.problem.d
        if len(parts) == 1 and parts[0][0] == tuple(range(k)):
            return parts[0][1], parts[0][2]
        values, slopes = quick(U.new_zeros(len(U), k)), quick(U.new_zeros(len(U), k, d))
        for which, f, by_u in parts:
            values[:, which], slopes[:, which] = f, by_u
        return values, slopes

    def outcomes(self, U: Float64[Tensor, "b d"], xi: Float64[Tensor, "b m"]) -> Float64[Tensor, "b k"]:
        """Return every function at the outputs mean + root xi."""
        parts = []
        with torch.no_grad():
            for points, steps in zip(*(each.split(NUMBERS_AT_ONCE // self.problem.m) for each in (U, xi)), strict=True):
                Y = self.physical(stepped(*self.belief.moments(points), steps)[None])
                G = self._g(points, Y, range(self.problem.k))
                parts.append(self._finite(torch.stack([g.reshape(-1) for g in G], 1)))
        return torch.cat(parts)

    @np.errstate(all="ignore")
    def outcomes_and_slopes(
        self, U: Float64[Tensor, "b d"], xi: Float64[Tensor, "b m"]
    ) -> tuple[Float64[Tensor, "b k"], Float64[Tensor, "b k d"], Float64[Tensor, "b k m"]]:
        """Return every function at the outputs mean + root xi, and its slopes by the point and by xi."""
        mean, root, mean_slope, root_slope = (quick(each) for each in self.belief.moments_and_slopes(U))
        X, unit_slopes = self._natural(U)
        step = quick(xi)
        stack = Stack("outcome", tuple(range(self.problem.k)), stepped(mean, root, step)[None])
        G, back = self.problem.traced(X, self.physical(stack.W, stack), stack.which)
        xp = library(G)
        by_x, by_Y = back(xp.ones_like(G))
        by_W = (by_Y if stack.bend is None else by_Y * stack.bend)[:, 0].swapaxes(0, 1)
        if self.is_correlated:
            by_xi = by_W @ root
            by_root = flat(by_W[..., None] * step[:, None, None])
        else:
            by_xi = by_W * root[:, None]
            by_root = by_W * step[:, None]
        by_u = by_x.swapaxes(0, 1) * unit_slopes + by_W @ mean_slope + by_root @ rows(root_slope)
        return tensor(self._finite(G[:, 0].T)), tensor(finite_slopes(by_u)), tensor(finite_slopes(by_xi))

    def bounds(
        self, U: Float64[Tensor, "b d"], level: float
    ) -> tuple[Float64[Tensor, "b k"], Float64[Tensor, "b k"], Float64[Tensor, "b k"]]:
        """Return lower = Q(1 - p), median = Q(1/2) and upper = Q(p) of every function."""
        k = self.problem.k
        lower, median, upper = (self.values(U, [each] * k) for each in (1.0 - level, 0.5, level))
        return lower, median, upper

    def widths(self, u: Float64[Tensor, "d"]) -> Float64[Tensor, "k"]:
        """Return upper minus lower bound of every function at a point, at the usual levels."""
        lower, upper = (self.values(u[None], [level] * self.problem.k, screening=True) for level in USUAL_LEVELS)
        return (upper - lower)[0]

    def probability(self, U: Float64[Tensor, "b d"]) -> tuple[Float64[Tensor, "b n"], Float64[Tensor, "b"]]:
        """Return the probability that each constraint holds, and that all hold together."""
        parts = []
        with torch.no_grad():
            for piece in U.split(max(1, NUMBERS_AT_ONCE // (PROBABILITY_SAMPLES * self.problem.m))):
                Y = self._samples(*self.belief.moments(piece), PROBABILITY_SAMPLES)
                G = self._g(piece, Y, range(1, self.problem.k))
                met = [((g >= 0) & torch.isfinite(g)).expand(len(Y), len(piece)) for g in G]
                holds = torch.stack(met, -1) if met else None
                each = holds.double().mean(0) if holds is not None else piece.new_zeros(len(piece), 0)
                joint = holds.all(-1).double().mean(0) if holds is not None else piece.new_ones(len(piece))
                parts.append((each, joint))
        return torch.cat([each for each, _ in parts]), torch.cat([joint for _, joint in parts])

    def misjudged(self, U: Float64[Tensor, "1 d"], level: float) -> tuple[str, ...]:
        """Name functions taken for affine whose closed form does not hold here.

        For affine g the two bounds are attained at mean +- z deviation_j delta_j / |delta|; g must equal them there.
        """
        named = []
        mean, root = self.belief.moments(U)
        if self.is_correlated or self.belief.is_warped or self._has_ranges:
            return ()
        z = quantile.normal(level)
        with torch.no_grad():
            for i in self._shifted:
                if self.problem.structure[i].kind != "affine":
                    continue
                steps = torch.diag_embed(z * root)[0][:, None, :]
                Y = torch.cat([mean[None], mean[None] + steps])
                (G,) = self._g(U, Y, (i,))
                delta = G[1:, 0] - G[0, 0]
                size = delta.norm()
                terms = G.abs().max() + (delta * mean[0] / (z * root[0]).clamp_min(LEAST_DEVIATION)).abs().sum()
                if not size > AFFINE_ERROR * terms:  # only rounding errors move here
                    continue
                away = z * root * delta / size
                (there,) = self._g(U, torch.stack([mean + away, mean - away]), (i,))
                error = (there[:, 0] - G[0, 0] - torch.stack([size, -size])).abs().max()
                if not error <= AFFINE_ERROR * float(size + AFFINE_ERROR * terms):
                    named.append(self.problem.functions[i])
        return tuple(named)

    @property
    def is_sampled(self) -> bool:
        """Whether any function is sampled, and with fewer samples while screening."""
        return bool(self._sampled) and self.estimator.screening < self.estimator.samples

    def offers(self, level: float) -> bool:
        """Whether every function can be bounded at this level with no more samples than usual."""
        return not self._sampled or min(level, 1.0 - level) * self.estimator.samples >= TAIL_SAMPLES

    def _samples_for(self, levels: Levels, screening: bool) -> int:
        """How many base samples these levels need."""
        samples = self.estimator.screening if screening else self.estimator.samples
        wanted = [level for i in self._sampled if (level := levels[i]) is not None]
        return max([samples] + [self.estimator.needed(level, samples) for level in wanted])

    def _drawn_for(self, levels: Levels) -> tuple[int, ...]:
        """Functions that are sampled at these levels."""
        return tuple(i for i in self._sampled if levels[i] is not None)

    def _stacks(self, mean: Array, root: Array, levels: Levels, samples: int) -> list[Stack]:
        """The outputs at which g is needed: one stack for all functions that are computed in the same way."""
        stacks = [Stack("white", self._white, mean[None])] if self._white else []
        for level in dict.fromkeys(levels[i] for i in self._shifted):
            if level is None:
                continue
            own = tuple(i for i in self._shifted if levels[i] == level)
            if level == 0.5:
                stacks.append(Stack("shift", own, mean[None]))
            else:
                Z = like(abs(quantile.normal(level)) * self._moves, mean)
                stacks.append(Stack("shift", own, drawn(mean, root, Z), level, Z))
        if sampled := self._drawn_for(levels):
            Z = like(self.base_samples(samples), mean)
            stacks.append(Stack("sample", sampled, drawn(mean, root, Z), Z=Z))
        return stacks

    @cached_property
    def _moves(self) -> Float64[Tensor, "R m"]:
        """The steps of a shift: none, each output used up alone, then down; the factors if outputs are correlated."""
        m = self.problem.m
        up = torch.eye(m, dtype=torch.float64)[range(m) if self.is_correlated else list(self._movers)]
        return torch.cat([torch.zeros_like(up[:1]), up, -up])

    def _quantile(self, i: int, stack: Stack, X: Tensor, Y: Tensor, g: Tensor, level: float) -> Float64[Tensor, "b"]:
        """The quantile of one function from its values in a stack."""
        if stack.kind == "sample":
            return self.sample_quantile(self.with_worst(i, X, Y, g.expand(Y.shape[:2])), level)
        if stack.kind == "white":
            return g
        return g[0] if level == 0.5 else quantile.shift(g, level)[0]

    def _traced(self, stack: Stack, X: Array, levels: Levels) -> tuple[Any, Any, Any]:
        """The quantiles of a stack of functions, and their slopes by the point and by the outputs of the stack."""
        Y = self.physical(stack.W, stack)
        if stack.kind == "sample":
            parts = [self._traced_samples(i, X, Y, levels[i] or 0.5) for i in stack.which]
            if len(parts) == 1:
                return parts[0]
            f, by_x, by_Y = (library(Y).concatenate(each) for each in zip(*parts, strict=True))
            return f, by_x, by_Y
        G, back = self.problem.traced(X, Y, stack.which)
        if stack.Z is None:
            return G[:, 0], *back(library(G).ones_like(G))
        f, weights = quantile.shift(G.swapaxes(0, 1), stack.level)
        return f, *back(weights.swapaxes(0, 1))

    def _traced_samples(
        self, i: int, X: Array, Y: Float64[Array, "L b m"], level: float
    ) -> tuple[Float64[Array, "1 b"], Float64[Array, "1 b d"], Float64[Array, "1 L b m"]]:
        """A sampled quantile and its slopes.

        Samples that are not finite count as worst, with weight 0. Their outputs are replaced by those of a finite
        sample at the same point, because 0 times a slope of NaN would still be NaN.
        """
        (samples,), back = self.problem.traced(X, Y, (i,))
        xp = library(samples)
        fine = xp.isfinite(samples)
        all_fine = bool(fine.all())
        if not all_fine:
            _, back = self.problem.traced(X, like(worst.replaced(tensor(Y), tensor(fine)), Y), (i,))
            known = torch.where(tensor(fine), tensor(samples), torch.nan)
            samples = like(quantile.worst_where_not_finite(known, self._worst(i))[0], samples)
        value, weight = self.estimator.estimate_and_weights(samples, level)
        weight = weight if all_fine else xp.where(fine, weight, 0.0)
        return value[None], *back(weight[None])

    def _carried(
        self, stack: Stack, by_Y: Float64[Array, "f R b m"]
    ) -> tuple[Float64[Array, "b f m"], Float64[Array, "b f entries"] | None]:
        """Slopes by the moments, from slopes by the outputs of a stack; None where the root is not used."""
        by_W = by_Y if stack.bend is None else by_Y * stack.bend
        by_mean = by_W.sum(1).swapaxes(0, 1)
        if stack.Z is None:
            return by_mean, None
        if self.is_correlated:
            return by_mean, flat(library(by_W).einsum("frbi,rj->bfij", by_W, stack.Z))
        return by_mean, library(by_W).einsum("frbm,rm->bfm", by_W, stack.Z)

    def _finite(self, f: Float64[Array, "b k"]) -> Float64[Array, "b k"]:
        """Replace what is not finite by the worst value of its function."""
        return worst.filled(f, self._worst)

    def _samples(self, mean: Tensor, root: Tensor, samples: int) -> Float64[Tensor, "L b m"]:
        """Outputs mu + C Z, equation (6), in natural units."""
        return self.physical(drawn(mean, root, self.base_samples(samples).to(mean.device)))

    def base_samples(self, samples: int) -> Float64[Tensor, "L m"]:
        """Return this many standard normal base samples, the same on every call."""
        if samples not in self._base:
            draw = self._stream.sobol_normal if self.estimator.sobol else self._stream.normal
            self._base[samples] = draw(samples, self.problem.m)
        return self._base[samples]

    def physical(self, W: Float64[Array, "*b m"], stack: Stack | None = None) -> Float64[Array, "*b m"]:
        """Return outputs in natural units, strictly inside their ranges, from values in modelled units.

        The slopes of this conversion are kept in the stack.
        """
        Y = W
        if self.belief.is_warped:
            natural = self.belief.unwarp(tensor(W))
            Y = like(natural, W)
            if stack is not None:
                stack.bend = like(self.belief.unwarp_slopes(natural), W)
        if not self._has_ranges:
            return Y
        xp = library(Y)
        low, high = like(self._ranges, Y).T
        clamped = xp.maximum(xp.minimum(Y, high), low)
        if stack is not None:
            stack.bend = xp.where(clamped == Y, 1.0 if stack.bend is None else stack.bend, 0.0)
        return clamped

    def _g(self, U: Tensor, Y: Float64[Tensor, "L b m"], which: Sequence[int]) -> list[Tensor]:
        """The functions at points of the unit cube."""
        return self.problem.g(self.problem.from_unit(U), Y, which=tuple(which))

    def sample_quantile(self, samples: Float64[Tensor, "L b"], level: float) -> Float64[Tensor, "b"]:
        """Return a quantile of samples, by the estimator."""
        return self.estimator.estimate(samples, level)

    def with_worst(
        self, i: int, X: Float64[Tensor, "b d"], Y: Float64[Tensor, "L b m"], samples: Float64[Tensor, "L b"]
    ) -> Float64[Tensor, "L b"]:
        """Let samples that are not finite count as worst.

        Where slopes are wanted, their outputs are replaced by those of a finite sample at the same point and g is
        evaluated again, because 0 times a slope of NaN would still be NaN.
        """
        fine = torch.isfinite(samples)
        if bool(fine.all()):
            return samples
        if samples.requires_grad:
            samples = self.problem.g(X, worst.replaced(Y, fine), which=(i,))[0].expand(fine.shape)
        return quantile.worst_where_not_finite(torch.where(fine, samples, torch.nan), self._worst(i))[0]

    def _worst(self, i: int) -> float:
        """What stands for minus infinity in a function; found once, from fixed points."""
        if i not in self._worsts:
            U = worst.points(self.problem.d)
            with torch.no_grad():
                Y = self._samples(*self.belief.moments(U), self.estimator.screening)
                self._worsts[i] = worst.value(self.problem, i, U, Y)
        return self._worsts[i]
