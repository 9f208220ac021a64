"""The random variable g(x, h(x)) under a belief: its quantiles, their slopes, the probability that constraints hold.

How a quantile is found follows from the structure of the function (`Problem.structure`):

- white: exact;
- affine in y, or monotone in its one output: the shift bound, in closed form;
- everything else: scrambled Sobol base samples, fixed for the life of a `Composite`, and averaged order statistics.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, runtime_checkable
from weakref import WeakKeyDictionary

import numpy as np
import torch
from jaxtyping import Bool, Float64
from torch import Tensor

from pied.arrays import Array, library, like, quick, tensor
from pied.bounds import quantile
from pied.bounds.estimator import TAIL, Estimator
from pied.problem import Problem
from pied.rng import Stream

logger = logging.getLogger(__name__)

Levels = Sequence[float | None]
"""One level per function; None: not wanted, and zero."""

PROBABILITY_SAMPLES = 2**12
TINY = 1e-300
WORST_POINTS = 64  # from which the value of samples that are not finite is taken
USUAL = (0.05, 0.95)  # levels of bounds that tell how much is known
NUMBERS_AT_ONCE = 4_000_000  # outputs held at once while evaluating many points


# Functions that have been warned about: one warning each, however many beliefs a study goes through.
_WARNED: WeakKeyDictionary[Problem, set[str]] = WeakKeyDictionary()


@runtime_checkable
class Belief(Protocol):
    """What a `Composite` asks of a belief about h: the moments at one point at a time, nothing joint over points."""

    @property
    def is_warped(self) -> bool:
        """Whether outputs are modelled on another scale than their own."""

    def moments(self, U: Float64[Tensor, "b d"]) -> tuple[Float64[Tensor, "b m"], Float64[Tensor, "b *m"]]:
        """Return the mean, and the scale: standard deviations `b m`, or Cholesky factors `b m m` if correlated."""

    def moments_and_slopes(
        self, U: Float64[Tensor, "b d"]
    ) -> tuple[Float64[Tensor, "b m"], Float64[Tensor, "b *m"], Float64[Tensor, "b m d"], Float64[Tensor, "b *m d"]]:
        """Return the moments and their derivatives with respect to the point."""

    def unwarp(self, W: Float64[Tensor, "*b m"]) -> Float64[Tensor, "*b m"]:
        """Return outputs in natural units from values on the modelled scale."""

    def unwarp_slopes(self, Y: Float64[Tensor, "*b m"]) -> Float64[Tensor, "*b m"]:
        """Return the derivatives of `unwarp` where it gives these outputs."""


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
        """Compose.

        Args:
            problem: The white box.
            belief: What is known of the black box.
            stream: Where base samples come from.
            estimator: How quantiles are found without a closed form.
            told: Outputs told so far; they say how near to the ends of their ranges outputs may be imagined.
        """
        self.problem = problem
        self.belief = belief
        self.estimator = estimator or Estimator()
        self._stream = stream
        self._ranges = _inside(problem.ranges, told)
        self._base: dict[int, Tensor] = {}
        self._worsts: dict[int, float] = {}
        self._last: tuple[Tensor, Tensor, Tensor] | None = None
        closed = self.estimator.closed_forms
        kinds = [structure.kind for structure in problem.structure]
        self._white = tuple(i for i, kind in enumerate(kinds) if kind == "white")
        self._shifted = tuple(i for i, kind in enumerate(kinds) if closed and self._has_closed_form(kind))
        self._sampled = tuple(i for i in range(problem.k) if i not in self._white and i not in self._shifted)
        self._movers = tuple(sorted({j for i in self._shifted for j in problem.structure[i].outputs}))

    def _has_closed_form(self, kind: str) -> bool:
        """Correlated outputs keep the closed form only where it is Proposition 2: affine, not warped, not clamped."""
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
        rows = max(1 + 2 * len(self._movers), samples if self._drawn_for(levels) else 1)
        parts = []
        with torch.no_grad():
            size = max(1, NUMBERS_AT_ONCE // (rows * self.problem.m))
            moments = (each.split(size) for each in self._moments(U))
            for piece, mean, scale in zip(U.split(size), *moments, strict=True):
                X = self.problem.from_unit(piece)
                f = piece.new_zeros(self.problem.k, len(piece))
                for stack in self._stacks(mean, scale, levels, samples):
                    Y = self.physical(stack.W)
                    for i, g in zip(stack.which, self.problem.g(X, Y, which=stack.which), strict=True):
                        f[i] = self._quantile(i, stack, X, Y, g, levels[i] or 0.5)
                parts.append(self._finite(f.T))
        return torch.cat(parts)

    def _moments(self, U: Float64[Tensor, "b d"]) -> tuple[Float64[Tensor, "b m"], Float64[Tensor, "b *m"]]:
        """The moments of the belief; those of the points asked last are kept: a pool is looked at several times."""
        if self._last is None or self._last[0] is not U:
            self._last = U, *self.belief.moments(U)
        return self._last[1], self._last[2]

    @np.errstate(all="ignore")
    def values_and_slopes(
        self, U: Float64[Tensor, "b d"], levels: Levels, *, screening: bool = False
    ) -> tuple[Float64[Tensor, "b k"], Float64[Tensor, "b k d"]]:
        """Return Q_i(level_i) and its derivative with respect to the point.

        A quantile is a weighted sum of values of g, and its weights run back through g (`Problem.traced`). What lies
        between the point and the outputs (moments, warps, units) has slopes in closed form.
        """
        mean, scale, mean_slope, scale_slope = (quick(each) for each in self.belief.moments_and_slopes(U))
        X, unit_slopes = self._natural(U)
        parts = []
        for stack in self._stacks(mean, scale, levels, self._samples_for(levels, screening)):
            f, by_x, by_Y = self._traced(stack, X, levels)
            slopes = by_x.swapaxes(0, 1) * unit_slopes
            if stack.kind != "white":
                by_mean, by_scale = self._carried(stack, by_Y)
                slopes = slopes + by_mean @ mean_slope
                slopes = slopes if by_scale is None else slopes + by_scale @ _rows(scale_slope)
            parts.append((stack.which, f.T, slopes))
        values, slopes = self._in_order(parts, U)
        return tensor(self._finite(values)), tensor(_sloped(slopes))

    def _natural(self, U: Float64[Tensor, "b d"]) -> tuple[Float64[Array, "b d"], Float64[Array, "b 1 d"]]:
        """Points in natural units, and the slopes of being so."""
        X = self.problem.from_unit(U)
        return quick(X), quick(self.problem.unit_slopes(X))[:, None]

    def _in_order(
        self, parts: Sequence[tuple[tuple[int, ...], Any, Any]], U: Float64[Tensor, "b d"]
    ) -> tuple[Float64[Array, "b k"], Float64[Array, "b k d"]]:
        """Put what stacks gave, each for some functions, into the order of the functions; zero for those not wanted."""
        k, d = self.problem.k, self.problem.d
        if len(parts) == 1 and parts[0][0] == tuple(range(k)):
            return parts[0][1], parts[0][2]
        values, slopes = quick(U.new_zeros(len(U), k)), quick(U.new_zeros(len(U), k, d))
        for which, f, by_u in parts:
            values[:, which], slopes[:, which] = f, by_u
        return values, slopes

    def outcomes(self, U: Float64[Tensor, "b d"], xi: Float64[Tensor, "b m"]) -> Float64[Tensor, "b k"]:
        """Return every function at the outputs mean + scale xi."""
        parts = []
        with torch.no_grad():
            for points, steps in zip(*(each.split(NUMBERS_AT_ONCE // self.problem.m) for each in (U, xi)), strict=True):
                Y = self.physical(_stepped(*self.belief.moments(points), steps)[None])
                G = self._g(points, Y, range(self.problem.k))
                parts.append(self._finite(torch.stack([g.reshape(-1) for g in G], 1)))
        return torch.cat(parts)

    @np.errstate(all="ignore")
    def outcomes_and_slopes(
        self, U: Float64[Tensor, "b d"], xi: Float64[Tensor, "b m"]
    ) -> tuple[Float64[Tensor, "b k"], Float64[Tensor, "b k d"], Float64[Tensor, "b k m"]]:
        """Return every function at the outputs mean + scale xi, and its slopes by the point and by xi."""
        mean, scale, mean_slope, scale_slope = (quick(each) for each in self.belief.moments_and_slopes(U))
        X, unit_slopes = self._natural(U)
        step = quick(xi)
        stack = _Stack("outcome", tuple(range(self.problem.k)), _stepped(mean, scale, step)[None])
        G, back = self.problem.traced(X, self.physical(stack.W, stack), stack.which)
        xp = library(G)
        by_x, by_Y = back(xp.ones_like(G))
        by_W = (by_Y if stack.bend is None else by_Y * stack.bend)[:, 0].swapaxes(0, 1)
        if self.is_correlated:
            by_xi = by_W @ scale
            by_scale = _flat(by_W[..., None] * step[:, None, None])
        else:
            by_xi = by_W * scale[:, None]
            by_scale = by_W * step[:, None]
        by_u = by_x.swapaxes(0, 1) * unit_slopes + by_W @ mean_slope + by_scale @ _rows(scale_slope)
        return tensor(self._finite(G[:, 0].T)), tensor(_sloped(by_u)), tensor(_sloped(by_xi))

    def bounds(
        self, U: Float64[Tensor, "b d"], level: float
    ) -> tuple[Float64[Tensor, "b k"], Float64[Tensor, "b k"], Float64[Tensor, "b k"]]:
        """Return lower = Q(1 - p), median = Q(1/2) and upper = Q(p) of every function."""
        k = self.problem.k
        lower, median, upper = (self.values(U, [each] * k) for each in (1.0 - level, 0.5, level))
        return lower, median, upper

    def widths(self, u: Float64[Tensor, "d"]) -> Float64[Tensor, "k"]:
        """Return how far apart the usual bounds of every function are at a point."""
        lower, upper = (self.values(u[None], [level] * self.problem.k, screening=True) for level in USUAL)
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

        For affine g the two bounds are attained at mean +- z scale_j delta_j / |delta|; g must have their values there.
        """
        named = []
        mean, scale = self.belief.moments(U)
        if self.is_correlated or self.belief.is_warped or self._has_ranges:
            return ()
        z = quantile.normal(level)
        with torch.no_grad():
            for i in self._shifted:
                if self.problem.structure[i].kind != "affine":
                    continue
                steps = torch.diag_embed(z * scale)[0][:, None, :]
                Y = torch.cat([mean[None], mean[None] + steps])
                (G,) = self._g(U, Y, (i,))
                delta = G[1:, 0] - G[0, 0]
                size = delta.norm()
                terms = G.abs().max() + (delta * mean[0] / (z * scale[0]).clamp_min(TINY)).abs().sum()
                if not size > 1e-6 * terms:  # nothing but rounding moves here
                    continue
                away = z * scale * delta / size
                (there,) = self._g(U, torch.stack([mean + away, mean - away]), (i,))
                error = (there[:, 0] - G[0, 0] - torch.stack([size, -size])).abs().max()
                if not error <= 1e-6 * float(size + 1e-6 * terms):
                    named.append(self.problem.functions[i])
        return tuple(named)

    @property
    def is_sampled(self) -> bool:
        """Whether any function is sampled, and screening it takes fewer samples."""
        return bool(self._sampled) and self.estimator.screening < self.estimator.samples

    def offers(self, level: float) -> bool:
        """Whether every function can be bounded at this level with no more samples than usual."""
        return not self._sampled or min(level, 1.0 - level) * self.estimator.samples >= TAIL

    def _samples_for(self, levels: Levels, screening: bool) -> int:
        """How many base samples these levels need."""
        samples = self.estimator.screening if screening else self.estimator.samples
        wanted = [level for i in self._sampled if (level := levels[i]) is not None]
        return max([samples] + [self.estimator.needed(level, samples) for level in wanted])

    def _drawn_for(self, levels: Levels) -> tuple[int, ...]:
        """Functions that are sampled at these levels."""
        return tuple(i for i in self._sampled if levels[i] is not None)

    def _stacks(self, mean: Array, scale: Array, levels: Levels, samples: int) -> list["_Stack"]:
        """Where g is needed: one stack for all functions that are found in the same way."""
        stacks = [_Stack("white", self._white, mean[None])] if self._white else []
        for level in dict.fromkeys(levels[i] for i in self._shifted):
            if level is None:
                continue
            own = tuple(i for i in self._shifted if levels[i] == level)
            if level == 0.5:
                stacks.append(_Stack("shift", own, mean[None]))
            else:
                Z = like(abs(quantile.normal(level)) * self._moves, mean)
                stacks.append(_Stack("shift", own, _drawn(mean, scale, Z), level, Z))
        if sampled := self._drawn_for(levels):
            Z = like(self.base_samples(samples), mean)
            stacks.append(_Stack("sample", sampled, _drawn(mean, scale, Z), Z=Z))
        return stacks

    @cached_property
    def _moves(self) -> Float64[Tensor, "R m"]:
        """The steps of a shift: none, then each output that matters up alone, then down; factors, if correlated."""
        m = self.problem.m
        up = torch.eye(m, dtype=torch.float64)[range(m) if self.is_correlated else list(self._movers)]
        return torch.cat([torch.zeros_like(up[:1]), up, -up])

    def _quantile(self, i: int, stack: "_Stack", X: Tensor, Y: Tensor, g: Tensor, level: float) -> Float64[Tensor, "b"]:
        """The quantile of one function from its values on a stack."""
        if stack.kind == "sample":
            return self.sample_quantile(self.with_worst(i, X, Y, g.expand(Y.shape[:2])), level)
        if stack.kind == "white":
            return g
        return g[0] if level == 0.5 else quantile.shift(g, level)[0]

    def _traced(self, stack: "_Stack", X: Array, levels: Levels) -> tuple[Any, Any, Any]:
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

        Samples that are not finite count as worst and have no weight; their outputs give way to those of a fine sample
        at the same point: a zero weight does not keep a slope that is NaN out of a sum.
        """
        (samples,), back = self.problem.traced(X, Y, (i,))
        xp = library(samples)
        fine = xp.isfinite(samples)
        all_fine = bool(fine.all())
        if not all_fine:
            _, back = self.problem.traced(X, like(_replaced(tensor(Y), tensor(fine)), Y), (i,))
            known = torch.where(tensor(fine), tensor(samples), torch.nan)
            samples = like(quantile.worst_where_not_finite(known, self._worst(i))[0], samples)
        value, weight = self._weighted(samples, level)
        weight = weight if all_fine else xp.where(fine, weight, 0.0)
        return value[None], *back(weight[None])

    def _weighted(
        self, samples: Float64[Array, "L b"], level: float
    ) -> tuple[Float64[Array, "b"], Float64[Array, "L b"]]:
        """A quantile of samples, by the estimator, and its slopes by them."""
        if self.estimator.kind == "harrell-davis":
            return quantile.harrell_davis_and_weights(samples, level)
        values = tensor(samples).clone()
        if self.estimator.kind == "soft":
            value, weight = quantile.soft_order_statistic_and_weights(values, level, self.estimator.softness)
        else:
            with torch.enable_grad():
                value = self.sample_quantile(values.requires_grad_(), level)
            weight = torch.autograd.grad(value, values, torch.ones_like(value))[0]
        return like(value.detach(), samples), like(weight, samples)

    def _carried(
        self, stack: "_Stack", by_Y: Float64[Array, "f R b m"]
    ) -> tuple[Float64[Array, "b f m"], Float64[Array, "b f entries"] | None]:
        """Slopes by the moments, from slopes by the outputs of a stack; None where the scale is not used."""
        by_W = by_Y if stack.bend is None else by_Y * stack.bend
        by_mean = by_W.sum(1).swapaxes(0, 1)
        if stack.Z is None:
            return by_mean, None
        if self.is_correlated:
            return by_mean, _flat(library(by_W).einsum("frbi,rj->bfij", by_W, stack.Z))
        return by_mean, library(by_W).einsum("frbm,rm->bfm", by_W, stack.Z)

    def _finite(self, f: Float64[Array, "b k"]) -> Float64[Array, "b k"]:
        """Replace what is not finite by the worst."""
        xp = library(f)
        fine = xp.isfinite(f)
        if bool(fine.all()):
            return f
        columns = enumerate(zip(f.T, fine.T, strict=True))
        return xp.stack(
            [each if bool(ok.all()) else xp.where(ok, each, self._worst(i)) for i, (each, ok) in columns], -1
        )

    def _samples(self, mean: Tensor, scale: Tensor, samples: int) -> Float64[Tensor, "L b m"]:
        """Outputs mu + C Z, equation (6), in natural units."""
        return self.physical(_drawn(mean, scale, self.base_samples(samples).to(mean.device)))

    def base_samples(self, samples: int) -> Float64[Tensor, "L m"]:
        """Return standard normal base samples; the same for the same number."""
        if samples not in self._base:
            draw = self._stream.sobol_normal if self.estimator.sobol else self._stream.normal
            self._base[samples] = draw(samples, self.problem.m)
        return self._base[samples]

    def physical(self, W: Float64[Array, "*b m"], stack: "_Stack | None" = None) -> Float64[Array, "*b m"]:
        """Return outputs in natural units, strictly inside their ranges, from values on the modelled scale.

        A stack keeps the slopes of doing so.
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
        inside = xp.maximum(xp.minimum(Y, high), low)
        if stack is not None:
            stack.bend = xp.where(inside == Y, 1.0 if stack.bend is None else stack.bend, 0.0)
        return inside

    def _g(self, U: Tensor, Y: Float64[Tensor, "L b m"], which: Sequence[int]) -> list[Tensor]:
        """The functions at points of the unit cube."""
        return self.problem.g(self.problem.from_unit(U), Y, which=tuple(which))

    def sample_quantile(self, samples: Float64[Tensor, "L b"], level: float) -> Float64[Tensor, "b"]:
        """Return a quantile of samples, by the estimator."""
        if self.estimator.kind == "soft":
            return quantile.soft_order_statistic(samples, level, self.estimator.softness)
        if self.estimator.kind == "order":
            return quantile.order_statistic(samples, level)
        return quantile.harrell_davis(samples, level)

    def with_worst(
        self, i: int, X: Float64[Tensor, "b d"], Y: Float64[Tensor, "L b m"], samples: Float64[Tensor, "L b"]
    ) -> Float64[Tensor, "L b"]:
        """Let samples that are not finite count as worst.

        Their outputs give way to those of a fine sample at the same point and g is evaluated again: a zero weight does
        not keep a slope that is NaN out of the sum over samples.
        """
        fine = torch.isfinite(samples)
        if bool(fine.all()):
            return samples
        if samples.requires_grad:
            samples = self.problem.g(X, _replaced(Y, fine), which=(i,))[0].expand(fine.shape)
        return quantile.worst_where_not_finite(torch.where(fine, samples, torch.nan), self._worst(i))[0]

    def _worst(self, i: int) -> float:
        """What stands for minus infinity, with one warning: one range below what the function is elsewhere in the box.

        Below zero for a constraint. Found once from a few points, so it depends on nothing that was asked before.
        """
        if i not in self._worsts:
            name = self.problem.functions[i]
            if name not in _WARNED.setdefault(self.problem, set()):
                _WARNED[self.problem].add(name)
                logger.warning("'%s' is not finite for some plausible outputs: those count as worst", name)
            U = Stream(0).at("worst").sobol(WORST_POINTS, self.problem.d)
            with torch.no_grad():
                (G,) = self._g(U, self._samples(*self.belief.moments(U), self.estimator.screening), (i,))
            finite = G[torch.isfinite(G)]
            low, high = (float(finite.min()), float(finite.max())) if finite.numel() else (0.0, 1.0)
            self._worsts[i] = (low if i == 0 else min(low, -abs(high), 0.0)) - (high - low)
        return self._worsts[i]


@dataclass(eq=False)
class _Stack:
    """Outputs at which g is needed, R per point, for all functions whose quantiles are found in the same way."""

    kind: str
    """"white", "shift" (the median, each mover up, each mover down) or "sample"."""
    which: tuple[int, ...]
    """Places of the functions."""
    W: Float64[Array, "R b m"]
    """On the scale that is modelled."""
    level: float = 0.5
    """Of a shift."""
    Z: Float64[Array, "R m"] | None = None
    """Base samples, or the steps of a shift; None: the mean alone."""
    bend: Float64[Array, "R b m"] | None = None
    """Slopes of the outputs by W; None: all are 1."""


def _sloped(slopes: Float64[Array, "*b"]) -> Float64[Array, "*b"]:
    """Let what has no finite slope at a point have the slope 0 there, whatever was asked before or beside it.

    A function that is not finite is constant, its worst. One that is finite with an infinite slope (sqrt at 0) could
    not be stepped onto otherwise: a search refuses points whose slopes are not finite.
    """
    xp = library(slopes)
    fine = xp.isfinite(slopes)
    return slopes if bool(fine.all()) else xp.where(fine, slopes, 0.0)


def _flat(by_scale: Float64[Array, "b f m m"]) -> Float64[Array, "b f mm"]:
    return by_scale.reshape(*by_scale.shape[:2], by_scale.shape[2] * by_scale.shape[3])


def _rows(scale_slope: Float64[Array, "b *m d"]) -> Float64[Array, "b rows d"]:
    """Slopes of the scale, one row for each of its entries."""
    b, *entries, d = scale_slope.shape
    return scale_slope if len(entries) == 1 else scale_slope.reshape(b, entries[0] * entries[1], d)


def _drawn(mean: Array, scale: Array, Z: Float64[Array, "L m"]) -> Float64[Array, "L b m"]:
    """mu + C Z, equation (6), on the scale that is modelled."""
    return mean + (scale * Z[:, None, :] if scale.ndim == 2 else library(mean).einsum("bij,lj->lbi", scale, Z))


def _stepped(mean: Array, scale: Array, xi: Float64[Array, "b m"]) -> Float64[Array, "b m"]:
    """mu + C xi, another xi at every point, on the scale that is modelled."""
    return mean + (scale * xi if scale.ndim == 2 else (scale @ xi[:, :, None])[:, :, 0])


def _replaced(Y: Float64[Tensor, "L b m"], fine: Bool[Tensor, "L b"]) -> Float64[Tensor, "L b m"]:
    """Replace outputs whose sample is not finite by those of a fine sample at the same point."""
    chosen = fine.to(torch.int8).argmax(0)
    return torch.where(fine[:, :, None], Y, Y[chosen, torch.arange(Y.shape[1], device=Y.device)])


EDGE = 1e-4  # of the way from the end of a range to the nearest value told: as near as outputs are imagined


def _inside(ranges: Float64[Tensor, "m 2"], told: Float64[Tensor, "N m"] | None) -> Float64[Tensor, "m 2"]:
    """Move the ends of the ranges a little inside, so that g is finite where it has a pole at an end (1/y, log y)."""
    if told is None or not len(told) or not bool(torch.isfinite(ranges).any()):
        return ranges
    nearest = torch.stack(
        [torch.nan_to_num(told, nan=torch.inf).amin(0), torch.nan_to_num(told, nan=-torch.inf).amax(0)], -1
    )
    step = EDGE * (nearest - ranges)
    return ranges + torch.where(torch.isfinite(step), step, 0.0)
