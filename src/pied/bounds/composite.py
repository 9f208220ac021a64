"""The random variable g(x, h(x)) under a belief: its quantiles, their slopes, the probability that constraints hold.

How a quantile is found depends on the structure of the function (`Problem.structure`):

- white: exact;
- affine in y, or monotone in its one output: the shift bound, in closed form;
- a sum of many functions of one output each: from the moments of the terms (`sums`), if that agrees with samples;
- called point by point (`Problem.slow`): the shift bound as an approximation, which a narrow belief makes exact;
- everything else: scrambled Sobol base samples, fixed for the life of a `Composite`, and averaged order statistics.
"""

from collections.abc import Callable, Sequence
from copy import copy
from functools import cached_property

import numpy as np
from numpy import ndarray

from pied.bounds import quantile, sums, worst
from pied.bounds.belief import Belief, LastMoments, Mixed, Thinned
from pied.bounds.estimator import CLOSED_FORMS, TAIL_SAMPLES, Estimator, sampled
from pied.bounds.stack import Mixing, Stack, clamped, drawn, finite_slopes, flat, inside, rows, slices, stepped
from pied.problem import Problem
from pied.rng import Stream
from pied.shapes import Float64

Levels = Sequence[float | None]
"""One level per function; None: the function is not wanted and is returned as zero."""

Back = Callable[[ndarray], tuple[ndarray, ndarray]]
"""From weights of samples, 1 L b, to the slopes of their sum by x and by y, 1 b d and 1 L b m."""

PROBABILITY_SAMPLES = 2**12  # a probability then has a standard error of at most 0.008
FEW_SAMPLES = 2**8  # the same for functions that are called point by point: at most 0.03
USUAL_LEVELS = (0.05, 0.95)  # of the bounds whose width says how much is known
ROUGH_SAMPLES = 16  # with which points are ordered
SUM_TAIL = 0.02  # levels nearer to 0 or 1 are sampled: three moments say little of what is so rare
SUM_POINTS, SUM_SAMPLES = 8, 256  # with which sums are compared with samples
SUM_ERROR = 0.12  # of their deviation, root mean square: so few samples err by 0.07
NUMBERS_AT_ONCE = 4_000_000  # outputs held at once while evaluating many points: 32 MB an array


class Composite:
    """Quantiles of every function of a problem under one belief, with the same base samples throughout."""

    def __init__(
        self,
        problem: Problem,
        belief: Belief,
        stream: Stream,
        *,
        estimator: Estimator | None = None,
        told: Float64[ndarray, "N m"] | None = None,
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
        self._base: dict[int, ndarray] = {}
        self._worsts: dict[int, float] = {}
        self._moments = LastMoments(belief)
        self._white = tuple(i for i, each in enumerate(problem.structure) if each.kind == "white")
        self._sampled = sampled(problem, self.estimator, self._has_closed_form)
        self.shifted = tuple(i for i in range(problem.k) if i not in self._white and i not in self._sampled)
        self._movers = tuple(sorted({j for i in self.shifted for j in problem.structure[i].outputs}))

    def under(self, belief: Belief) -> "Composite":
        """Return the same functions, with the same base samples, under another belief about the same outputs."""
        other = copy(self)
        other.belief, other._moments, other._worsts = belief, LastMoments(belief), {}
        for name in ("fewer", "_mixture", "coupled"):
            other.__dict__.pop(name, None)
        return other

    @cached_property
    def fewer(self) -> "Composite | None":
        """The same under a belief of fewer points, to find where to look; None where that is not cheaper."""
        belief = self.belief.fewer if isinstance(self.belief, Thinned) else None
        return None if belief is None else self.under(belief)

    def _has_closed_form(self, kind: str) -> bool:
        """With correlated outputs, only Proposition 2 holds: g affine, outputs neither warped nor clamped."""
        if not self.is_correlated:
            return kind in CLOSED_FORMS
        return kind == "affine" and not self.belief.is_warped and not self.has_ranges

    @cached_property
    def is_correlated(self) -> bool:
        """Whether the belief gives Cholesky factors of correlated outputs."""
        return self.belief.moments(np.full((1, self.problem.d), 0.5))[1].ndim == 3

    @cached_property
    def _mixture(self) -> Mixing | None:
        """How the outputs are mixtures of independent parts; None: they are independent, or have Cholesky factors."""
        mixing = self.belief.mixing if isinstance(self.belief, Mixed) else None
        return None if mixing is None else Mixing.of(mixing)

    @cached_property
    def coupled(self) -> tuple[int, ...]:
        """Functions of several outputs that have parts in common."""
        mixture = self._mixture
        if mixture is None:
            return ()
        return tuple(i for i, each in enumerate(self.problem.structure) if mixture.couples(each.outputs))

    def marginal(self, root: Float64[ndarray, "b *m"]) -> Float64[ndarray, "b *m"]:
        """The deviations of the outputs themselves."""
        return root if self._mixture is None else self._mixture.deviations(root)

    @cached_property
    def has_ranges(self) -> bool:
        return self.estimator.ranges and bool(np.isfinite(self.problem.ranges).any())

    @cached_property
    @np.errstate(all="ignore")
    def _summed(self) -> tuple[int, ...]:
        """Functions whose quantiles come from the moments of their terms."""
        if not self.estimator.closed_forms or self.is_correlated:
            return ()
        terms = [(i, self.problem.structure[i].terms) for i in self._sampled]
        single = [(i, own) for i, own in terms if own and i not in self.coupled]
        return tuple(i for i, own in single if len(own.outputs) >= sums.FEWEST_TERMS and self._is_sum(i))

    def _is_sum(self, i: int) -> bool:
        """Tell whether the moments of the terms of a function give the quantiles that samples give."""
        U = worst.points(self.problem.d)[:SUM_POINTS]
        X, (mean, root) = self.problem.from_unit(U), self.belief.moments(U)
        (G,) = self.problem.g(X, self._samples(mean, root, SUM_SAMPLES), which=(i,))
        Z, weights = self._nodes(i)
        terms, _ = self.problem.traced_terms(X, self.physical(drawn(mean, self.marginal(root), Z)), i)
        error = [sums.quantile(terms, weights, p) - self.estimator.estimate(G, p) for p in USUAL_LEVELS]
        return bool(np.square(error).mean() <= SUM_ERROR**2 * G.var(0).mean())

    def _nodes(self, i: int) -> tuple[Float64[ndarray, "R m"], Float64[ndarray, "R j"]]:
        """Return the nodes of all outputs, and their weights in the terms of a function."""
        Z, weights = self._all_nodes
        own = self.problem.structure[i].terms
        return Z, weights[:, own.outputs] if own else weights

    @property
    def _all_nodes(self) -> tuple[Float64[ndarray, "R m"], Float64[ndarray, "R m"]]:
        """The nodes of all outputs, and their weights: few where all terms are quadratic in normal outputs."""
        terms = [each.terms for each in self.problem.structure if each.terms is not None]
        are_normal = not (self.belief.is_warped or self.has_ranges)
        return sums.nodes(self.problem.m, are_quadratic=are_normal and all(each.are_quadratic for each in terms))

    def values(self, U: Float64[ndarray, "b d"], levels: Levels, *, screening: bool = False) -> Float64[ndarray, "b k"]:
        """Return Q_i(level_i) of every function at every point, in pieces of bounded memory."""
        return self._values(U, levels, self._samples_for(levels, screening))

    def roughly(self, U: Float64[ndarray, "b d"], levels: Levels) -> Float64[ndarray, "b k"]:
        """Return Q_i(level_i) from so few samples that it is good for an order of points and nothing else."""
        return self._values(U, levels, ROUGH_SAMPLES)

    @np.errstate(all="ignore")
    def _values(self, U: Float64[ndarray, "b d"], levels: Levels, samples: int) -> Float64[ndarray, "b k"]:
        """The same with a number of samples."""
        counts = [1 + 2 * (self.problem.m if self.coupled else len(self._movers))]
        counts += [len(self._all_nodes[0])] if self._summed_for(levels) else []
        counts += [samples] if self._drawn_for(levels) else []
        per_point = max(counts)
        mean, root = self._moments(U)
        f = np.zeros((len(U), self.problem.k))
        for piece in slices(len(U), max(1, NUMBERS_AT_ONCE // (per_point * self.problem.m))):
            X = self.problem.from_unit(U[piece])
            for stack in self._stacks(mean[piece], root[piece], levels, samples):
                if stack.kind == "sum":
                    self._add_sums(f[piece], X, stack, levels)
                    continue
                G = self.problem.g(X, self.physical(stack.W), which=stack.which)
                for i, g in zip(stack.which, G, strict=True):
                    f[piece, i] = self._quantile(i, stack, g, levels[i] or 0.5)
        return self._finite(f)

    def _add_sums(self, f: Float64[ndarray, "b k"], X: Float64[ndarray, "b v"], stack: Stack, levels: Levels) -> None:
        """Write the quantiles of sums into their columns."""
        Y = self.physical(stack.W)
        for i in stack.which:
            terms, _ = self._traced_terms(i, X, Y)
            f[:, i] = sums.quantile(terms, self._nodes(i)[1], levels[i] or 0.5)

    @np.errstate(all="ignore")
    def values_and_slopes(
        self, U: Float64[ndarray, "b d"], levels: Levels, *, screening: bool = False
    ) -> tuple[Float64[ndarray, "b k"], Float64[ndarray, "b k d"]]:
        """Return Q_i(level_i) and its derivative with respect to the point.

        A quantile is a weighted sum of values of g. Its weights are propagated back through g (`Problem.traced`). The
        steps between the point and the outputs (moments, warps, units) have slopes in closed form.
        """
        mean, root, mean_slope, root_slope = self.belief.moments_and_slopes(U)
        X, unit_slopes = self._natural(U)
        values, slopes = np.zeros((len(U), self.problem.k)), np.zeros((len(U), self.problem.k, self.problem.d))
        for stack in self._stacks(mean, root, levels, self._samples_for(levels, screening)):
            f, by_x, by_Y = self._traced(stack, X, levels)
            by_u = self.problem.by_axes(by_x).swapaxes(0, 1) * unit_slopes
            if stack.kind != "white":
                by_mean, by_root = self._carried(stack, by_Y, root)
                by_u = by_u + by_mean @ mean_slope
                by_u = by_u if by_root is None else by_u + by_root @ rows(root_slope)
            values[:, stack.which], slopes[:, stack.which] = f.T, by_u
        return self._finite(values), finite_slopes(slopes)

    def _natural(self, U: Float64[ndarray, "b d"]) -> tuple[Float64[ndarray, "b v"], Float64[ndarray, "b 1 d"]]:
        """Points in natural units, and the derivative of this conversion."""
        X = self.problem.from_unit(U)
        return X, self.problem.unit_slopes(X)[:, None]

    @np.errstate(all="ignore")
    def outcomes(self, U: Float64[ndarray, "b d"], xi: Float64[ndarray, "b m"]) -> Float64[ndarray, "b k"]:
        """Return every function at the outputs mean + root xi."""
        f = np.empty((len(U), self.problem.k))
        for piece in slices(len(U), NUMBERS_AT_ONCE // self.problem.m):
            Y = self.physical(stepped(*self.belief.moments(U[piece]), xi[piece], self._mixture)[None])
            for i, g in enumerate(self._g(U[piece], Y, range(self.problem.k))):
                f[piece, i] = g
        return self._finite(f)

    @np.errstate(all="ignore")
    def outcomes_and_slopes(
        self, U: Float64[ndarray, "b d"], xi: Float64[ndarray, "b m"]
    ) -> tuple[Float64[ndarray, "b k"], Float64[ndarray, "b k d"], Float64[ndarray, "b k m"]]:
        """Return every function at the outputs mean + root xi, and its slopes by the point and by xi."""
        mean, root, mean_slope, root_slope = self.belief.moments_and_slopes(U)
        X, unit_slopes = self._natural(U)
        stack = Stack("outcome", tuple(range(self.problem.k)), stepped(mean, root, xi, self._mixture)[None])
        G, back = self.problem.traced(X, self.physical(stack.W, stack), stack.which)
        by_x, by_Y = back(np.ones_like(G))
        by_W = (by_Y if stack.bend is None else by_Y * stack.bend)[:, 0].swapaxes(0, 1)
        if self.is_correlated:
            by_xi = by_W @ root
            by_root = flat(by_W[..., None] * xi[:, None, None])
        else:
            by_part = by_W if self._mixture is None else self._mixture.slopes(by_W)
            by_xi = by_part * root[:, None]
            by_root = by_part * xi[:, None]
        by_u = self.problem.by_axes(by_x).swapaxes(0, 1) * unit_slopes + by_W @ mean_slope + by_root @ rows(root_slope)
        return self._finite(G[:, 0].T), finite_slopes(by_u), finite_slopes(by_xi)

    def bounds(
        self, U: Float64[ndarray, "b d"], level: float
    ) -> tuple[Float64[ndarray, "b k"], Float64[ndarray, "b k"], Float64[ndarray, "b k"]]:
        """Return lower = Q(1 - p), median = Q(1/2) and upper = Q(p) of every function."""
        k = self.problem.k
        lower, median, upper = (self.values(U, [each] * k) for each in (1.0 - level, 0.5, level))
        return lower, median, upper

    def widths(self, u: Float64[ndarray, "d"]) -> Float64[ndarray, "k"]:
        """Return upper minus lower bound of every function at a point, at the usual levels."""
        lower, upper = (self.values(u[None], [level] * self.problem.k, screening=True) for level in USUAL_LEVELS)
        return (upper - lower)[0]

    @np.errstate(all="ignore")
    def probability(
        self, U: Float64[ndarray, "b d"], shift: Float64[ndarray, "k"] | None = None
    ) -> tuple[Float64[ndarray, "b n"], Float64[ndarray, "b"]]:
        """Return the probability that each constraint holds, and that all hold together.

        Args:
            U: The points.
            shift: Added to each function: by how much its limit is looser.
        """
        least = np.zeros(self.problem.k) if shift is None else -shift
        each, joint = np.empty((len(U), self.problem.n)), np.empty(len(U))
        samples = FEW_SAMPLES if self.problem.slow else PROBABILITY_SAMPLES
        for piece in slices(len(U), max(1, NUMBERS_AT_ONCE // (samples * self.problem.m))):
            Y = self._samples(*self.belief.moments(U[piece]), samples)
            all_hold = np.ones(Y.shape[:2], dtype=bool)
            for i, g in enumerate(self._g(U[piece], Y, range(1, self.problem.k))):
                holds = np.broadcast_to((g >= least[1 + i]) & np.isfinite(g), all_hold.shape)
                each[piece, i] = holds.mean(0)
                all_hold &= holds
            joint[piece] = all_hold.mean(0)
        return each, joint

    @np.errstate(all="ignore")
    def sampled(self, u: Float64[ndarray, "d"], samples: int) -> Float64[ndarray, "L k"]:
        """Return samples of all functions at one point, together; those that are not finite as worst."""
        Y = self._samples(*self.belief.moments(u[None]), samples)
        G = self._g(u[None], Y, range(self.problem.k))
        return self._finite(np.stack([np.broadcast_to(g, (samples, 1))[:, 0] for g in G], 1))

    @property
    def is_sampled(self) -> bool:
        """Whether any function is sampled, and with fewer samples while screening."""
        return len(self._sampled) > len(self._summed) and self.estimator.screening < self.estimator.samples

    @property
    def is_costly(self) -> bool:
        """Whether some function is needed at many outputs for one bound."""
        return bool(self._sampled)

    def screens(self, levels: Levels) -> bool:
        """Whether the samples of screening are enough for these levels."""
        return self._samples_for(levels, screening=True) <= self.estimator.screening

    def offers(self, level: float) -> bool:
        """Whether every function can be bounded at this level with no more samples than usual."""
        return not self._sampled or min(level, 1.0 - level) * self.estimator.samples >= TAIL_SAMPLES

    def _samples_for(self, levels: Levels, screening: bool) -> int:
        """How many base samples these levels need."""
        samples = self.estimator.screening if screening else self.estimator.samples
        wanted = [level for i in self._drawn_for(levels) if (level := levels[i]) is not None]
        return max([samples] + [self.estimator.needed(level, samples) for level in wanted])

    def _drawn_for(self, levels: Levels) -> tuple[int, ...]:
        """Functions that are sampled at these levels."""
        return tuple(i for i in self._sampled if levels[i] is not None and i not in self._summed_for(levels))

    def _summed_for(self, levels: Levels) -> tuple[int, ...]:
        """Functions whose quantiles at these levels come from the moments of their terms."""
        return tuple(i for i in self._summed if SUM_TAIL <= (levels[i] or 0.0) <= 1.0 - SUM_TAIL)

    def _stacks(
        self, mean: Float64[ndarray, "b m"], root: Float64[ndarray, "b *m"], levels: Levels, samples: int
    ) -> list[Stack]:
        """The outputs at which g is needed: one stack for all functions that are computed in the same way."""
        stacks = [Stack("white", self._white, mean[None])] if self._white else []
        for level in dict.fromkeys(levels[i] for i in self.shifted):
            if level is None:
                continue
            own = tuple(i for i in self.shifted if levels[i] == level)
            if level == 0.5:
                stacks.append(Stack("shift", own, mean[None]))
                continue
            for are_coupled in (False, True):
                if which := tuple(i for i in own if (i in self.coupled) == are_coupled):
                    Z = abs(quantile.normal(level)) * self._moves(are_coupled)
                    stacks.append(
                        self._stack("shift", which, (mean, root), Z, level=level, is_marginal=not are_coupled)
                    )
        if summed := self._summed_for(levels):
            stacks.append(self._stack("sum", summed, (mean, root), self._all_nodes[0], is_marginal=True))
        if sampled := self._drawn_for(levels):
            stacks.append(self._stack("sample", sampled, (mean, root), self.base_samples(samples)))
        return stacks

    def _stack(
        self,
        kind: str,
        which: tuple[int, ...],
        moments: tuple[Float64[ndarray, "b m"], Float64[ndarray, "b *m"]],
        Z: Float64[ndarray, "R m"],
        *,
        level: float = 0.5,
        is_marginal: bool = False,
    ) -> Stack:
        """The outputs away from their mean by steps of their own deviations, or of those of their parts."""
        mean, root = moments
        W = drawn(mean, self.marginal(root), Z) if is_marginal else drawn(mean, root, Z, self._mixture)
        return Stack(kind, which, W, level, Z, is_marginal=is_marginal)

    def _moves(self, are_coupled: bool) -> Float64[ndarray, "R m"]:
        """The steps of a shift: none, each output or part used up alone, then down; all factors if correlated."""
        every = np.eye(self.problem.m)
        up = every if self.is_correlated or are_coupled else every[list(self._movers)]
        return np.concatenate([np.zeros_like(every[:1]), up, -up])

    def _quantile(self, i: int, stack: Stack, g: Float64[ndarray, "*R b"], level: float) -> Float64[ndarray, "b"]:
        """The quantile of one function from its values in a stack."""
        if stack.kind == "sample":
            return self.estimator.estimate(self.with_worst(i, g), level)
        if stack.kind == "white":
            return g
        return g[0] if level == 0.5 else quantile.shift(g, level)[0]

    def _traced(
        self, stack: Stack, X: Float64[ndarray, "b v"], levels: Levels
    ) -> tuple[Float64[ndarray, "f b"], Float64[ndarray, "f b v"], Float64[ndarray, "f R b m"]]:
        """The quantiles of a stack of functions, and their slopes by the point and by the outputs of the stack."""
        Y = self.physical(stack.W, stack)
        if stack.kind in ("sample", "sum"):
            parts = []
            for i in stack.which:
                if stack.kind == "sum":
                    terms, to_both = self._traced_terms(i, X, Y)
                    f, weights = sums.quantile_and_weights(terms, self._nodes(i)[1], levels[i] or 0.5)
                    by_x, by_Y = to_both(weights)
                    parts.append((f[None], by_x[None], by_Y[None]))
                    continue
                samples, back = self.traced_samples(i, X, Y)
                f, weights = self.estimator.estimate_and_weights(samples, levels[i] or 0.5)
                parts.append((f[None], *back(weights[None])))
            if len(parts) == 1:
                return parts[0]
            f, by_x, by_Y = (np.concatenate(each) for each in zip(*parts, strict=True))
            return f, by_x, by_Y
        G, back = self.problem.traced(X, Y, stack.which)
        if stack.Z is None:
            return G[:, 0], *back(np.ones_like(G))
        f, weights = quantile.shift(G.swapaxes(0, 1), stack.level)
        return f, *back(weights.swapaxes(0, 1))

    def _carried(
        self, stack: Stack, by_Y: Float64[ndarray, "f R b m"], root: Float64[ndarray, "b *m"]
    ) -> tuple[Float64[ndarray, "b f m"], Float64[ndarray, "b f entries"] | None]:
        """Slopes by the moments, from slopes by the outputs of a stack; None where the root is not used."""
        by_W = by_Y if stack.bend is None else by_Y * stack.bend
        by_mean = by_W.sum(1).swapaxes(0, 1)
        if stack.Z is None:
            return by_mean, None
        if self.is_correlated:
            return by_mean, flat(np.einsum("frbi,rj->bfij", by_W, stack.Z))
        mixture = self._mixture
        if mixture is None:
            return by_mean, np.einsum("frbm,rm->bfm", by_W, stack.Z)
        if not stack.is_marginal:
            return by_mean, np.einsum("frbm,rm->bfm", mixture.slopes(by_W), stack.Z)
        by_deviation = np.einsum("frbm,rm->bfm", by_W, stack.Z) / mixture.deviations(root)[:, None]
        return by_mean, mixture.squared.slopes(by_deviation) * root[:, None]

    def _finite(self, f: Float64[ndarray, "b k"]) -> Float64[ndarray, "b k"]:
        """Replace what is not finite by the worst value of its function."""
        return worst.filled(f, self._worst)

    def _samples(
        self, mean: Float64[ndarray, "b m"], root: Float64[ndarray, "b *m"], samples: int
    ) -> Float64[ndarray, "L b m"]:
        """Outputs mu + C Z, equation (6), in natural units."""
        return self.physical(drawn(mean, root, self.base_samples(samples), self._mixture))

    def drawn(
        self, mean: Float64[ndarray, "b m"], root: Float64[ndarray, "b *m"], Z: Float64[ndarray, "L m"]
    ) -> Float64[ndarray, "L b m"]:
        """Return outputs mu + C Z, in modelled units."""
        return drawn(mean, root, Z, self._mixture)

    def by_parts(self, by_W: Float64[ndarray, "*b m"]) -> Float64[ndarray, "*b m"]:
        """Return slopes by what is modelled from slopes by the outputs."""
        return by_W if self._mixture is None else self._mixture.slopes(by_W)

    def base_samples(self, samples: int) -> Float64[ndarray, "L m"]:
        """Return this many standard normal base samples, the same on every call."""
        if samples not in self._base:
            draw = self._stream.sobol_normal if self.estimator.sobol else self._stream.normal
            self._base[samples] = draw(samples, self.problem.m)
        return self._base[samples]

    def physical(self, W: Float64[ndarray, "*b m"], stack: Stack | None = None) -> Float64[ndarray, "*b m"]:
        """Return outputs in natural units, strictly inside their ranges, from values in modelled units.

        The slopes of this conversion are kept in the stack.
        """
        Y = W
        if self.belief.is_warped:
            Y = self.belief.unwarp(W)
            if stack is not None:
                stack.bend = self.belief.unwarp_slopes(Y)
        if not self.has_ranges:
            return Y
        return clamped(Y.copy(order="K") if Y is W else Y, self._ranges, stack)

    def _g(
        self, U: Float64[ndarray, "b d"], Y: Float64[ndarray, "L b m"], which: Sequence[int]
    ) -> list[Float64[ndarray, "*L b"]]:
        """The functions at points of the unit cube."""
        return self.problem.g(self.problem.from_unit(U), Y, which=tuple(which))

    def with_worst(self, i: int, samples: Float64[ndarray, "L b"]) -> Float64[ndarray, "L b"]:
        """Let samples of a function that are not finite count as worst."""
        return samples if np.isfinite(samples).all() else quantile.worst_where_not_finite(samples, self._worst(i))

    def traced_samples(
        self, i: int, X: Float64[ndarray, "b v"], Y: Float64[ndarray, "L b m"]
    ) -> tuple[Float64[ndarray, "L b"], Back]:
        """Return samples of a function, those that are not finite as worst, and the way back (`Problem.traced`).

        On the way back, samples that are not finite have weight 0. Their outputs are replaced by those of a finite
        sample at the same point, because 0 times a slope of NaN would still be NaN.
        """
        (samples,), back = self.problem.traced(X, Y, (i,))
        fine = np.isfinite(samples)
        if fine.all():
            return samples, back
        _, fine_back = self.problem.traced(X, worst.replaced(Y, fine), (i,))
        return self.with_worst(i, samples), lambda weights: fine_back(np.where(fine, weights, 0.0))

    def _traced_terms(
        self, i: int, X: Float64[ndarray, "b v"], Y: Float64[ndarray, "R b m"]
    ) -> tuple[Float64[ndarray, "R b j"], Back]:
        """Return the terms of a sum at nodes, those that are not finite as worst, and the way back."""
        terms, back = self.problem.traced_terms(X, Y, i)
        if np.isfinite(terms).all():
            return terms, back
        own = self.problem.structure[i].terms
        return self.problem.traced_terms(X, sums.finite(terms, Y, own.outputs if own else ()), i)

    @np.errstate(all="ignore")
    def _worst(self, i: int) -> float:
        """What stands for minus infinity in a function; found once, from fixed points."""
        if i not in self._worsts:
            U = worst.points(self.problem.d)
            samples = 1 if i in self.problem.slow else self.estimator.screening
            Y = self._samples(*self.belief.moments(U), samples)
            self._worsts[i] = worst.value(self.problem, i, U, Y)
        return self._worsts[i]
