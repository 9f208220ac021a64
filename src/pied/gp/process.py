"""Belief about the black box: one Gaussian process per output, each with its own inputs, rows, kernel, trend and warp.

Points are in the unit cube. `selection` chooses what each output is modelled with; `likelihood` has the linear algebra
of many regressions at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy import ndarray

from pied.gp import correlated, likelihood, offsets
from pied.gp.block import Block, block_of
from pied.gp.choices import Model, ModelChoice, thetas
from pied.gp.drift import Known
from pied.gp.features.coding import Coding, placed
from pied.gp.mixture import MOST_POINTS, Mixture, with_other
from pied.gp.observations import Cut, Observations, affordable, far_apart
from pied.gp.parts import plateaus
from pied.gp.prior import Prior, observed
from pied.gp.resolution import EVEN, Rounding
from pied.gp.stated import scattered, with_errors
from pied.gp.warps import Warp, Warps
from pied.shapes import Bool, Float64

MANY = 400  # points from which on a search first looks at a belief of fewer ones
FEWER = 200  # points of that belief: a look takes a quarter of the time, or less
FEWER_RECENT = 50  # of these, the last told ones


@dataclass(frozen=True, eq=False)
class GP:
    """Posteriors of m outputs, with moments and their slopes at any points of the unit cube.

    The outputs are independent, or mixtures of as many independent rests (`correlated`), which are then modelled.
    """

    blocks: tuple[Block, ...]
    """The outputs, in batches; usually all of them in one."""
    location: Float64[ndarray, "m"]
    """Mean of the told values of each output on its warped scale; of a mixture, of what the others leave of it."""
    deviation: Float64[ndarray, "m"]
    """Their standard deviation."""
    warps: tuple[Warp, ...]
    choices: tuple[ModelChoice, ...]
    """What was chosen; pass it to the next fit."""
    coding: Coding | None = None
    """How it sees labels; None: all coordinates are numbers."""
    ends: tuple[Float64[ndarray, "m"], Float64[ndarray, "m"]] | None = None
    """Plateaus at which outputs are cut off, infinite where there are none; None: no output is clipped."""
    block_names: tuple[str, ...] = ()
    """Names of the blocks in which values are off together."""
    steps: Float64[ndarray, "m"] | None = None
    """Step that the readings of every output are multiples of (`resolution`), 0 where there is none; None: nowhere."""
    mixing: Float64[ndarray, "m m"] | None = None
    """A of y = A z on the warped scale, z what is modelled; None: outputs are modelled themselves, independent."""
    rounding: Rounding | None = None
    """What rounding leaves, where that is included in deviations: in what is said, not in a search."""
    mixture: Mixture | None = None
    """Other models of the outputs beside these, in what is said; None: these alone."""

    @property
    def theta(self) -> Float64[ndarray, "m q"]:
        """Hyperparameters of every output, as in `ModelChoice`; of one without a wave, zeros for its length scales."""
        return thetas(self.choices)

    @property
    def variance(self) -> Float64[ndarray, "m"]:
        """Process variance of every output, standardized."""
        return self.ordered([block.variance.reshape(-1) for block in self.blocks])

    @property
    def rung(self) -> str:
        """The jitter that was needed: "plain", "jitter 1e-08", ..."""
        worst = max(block.jitter for block in self.blocks)
        return "plain" if worst == 0 else f"jitter {worst:g}"

    def ordered(self, parts: Sequence[ndarray], axis: int = 0) -> ndarray:
        """Put what the blocks gave into the order of the outputs."""
        whole = parts[0] if len(parts) == 1 else np.concatenate(parts, axis)
        return whole if self._order is None else whole.take(self._order, axis)

    @cached_property
    def _order(self) -> list[int] | None:
        """Where the blocks have each output; None: in its place."""
        places = [j for block in self.blocks for j in block.outputs]
        order = sorted(range(self.m), key=places.__getitem__)
        return None if order == list(range(self.m)) else order

    @property
    def m(self) -> int:
        """Number of outputs."""
        return len(self.warps)

    @classmethod
    @np.errstate(all="ignore")
    def fit(
        cls,
        U: Float64[ndarray, "N d"],
        Y: Float64[ndarray, "N m"],
        *,
        active: Bool[ndarray, "m d"] | None = None,
        ratios: Float64[ndarray, "d"] | None = None,
        noise: Sequence[float | None] | None = None,
        model: Model | None = None,
        previous: Sequence[ModelChoice] | None = None,
        coding: Coding | None = None,
        errors: Float64[ndarray, "N m"] | None = None,
        cut: Cut | None = None,
        together: Sequence[str] = (),
        campaigns: Sequence[str] = (),
        longest: Float64[ndarray, "d"] | None = None,
        known: Known | None = None,
    ) -> "GP":
        """Fit a belief to what was told.

        Args:
            U: Points in the unit cube.
            Y: Outputs there; NaN where an output was not told.
            active: Which inputs each output sees; all by default.
            ratios: Upper over lower bound of each input that is positive and not on a logarithmic scale already, else
                1; where it is large, an output may see the input on a logarithmic scale.
            noise: Per output the standard deviation of its noise, natural units; 0: exact (default), None: learned.
            model: What may be chosen.
            previous: The choices of the last fit; length scales start there and hysteresis favours them.
            coding: Which coordinates are labels.
            errors: Standard deviations of values that have their own, natural units; NaN for the others.
            cut: Ends between which values lie that are known by a limit alone, whose Y is NaN; infinite where open.
            together: Names of the blocks in which points were measured, "" of none; empty: there are none.
            campaigns: Names of the earlier campaigns, "" of the present one, which the belief is about; empty: all are
                of that. Their values are off by a constant, and follow the present ones as far as is learned.
            longest: The longest length scale along each coordinate; None: as long as usual.
            known: Models of outputs, which they may have instead of a trend.
        """
        d, m = U.shape[1], Y.shape[1]
        model = model or Model()
        active = np.ones((m, d), dtype=bool) if active is None else active
        ratios = np.ones(d) if ratios is None else ratios
        U, coding = placed(U, campaigns, coding)
        kept = affordable(U, Y)
        noise = noise or (0.0,) * m
        data = Observations.of(U[kept], Y[kept], active, ratios, noise, model, coding, _at(cut, kept), longest, known)
        data = data if errors is None else with_errors(data, errors[kept])
        names, own = offsets.membership([together[row] for row in kept] if together else ())
        data = offsets.with_blocks(data, own, previous) if names else data
        if previous is not None and coding is not None and len(previous[0].theta) != data.U.shape[1] + 1:
            previous = None  # the labels were others
        old: list[ModelChoice | None] = list(previous) if previous is not None else [None] * m
        return _assemble(data, _noted(data, correlated.chosen(data, old)), names)

    @classmethod
    @np.errstate(all="ignore")
    def at_choices(
        cls,
        U: Float64[ndarray, "N d"],
        Y: Float64[ndarray, "N m"],
        choices: Sequence[ModelChoice],
        *,
        active: Bool[ndarray, "m d"],
        ratios: Float64[ndarray, "d"],
        noise: Sequence[float | None],
        model: Model,
        coding: Coding | None = None,
        errors: Float64[ndarray, "N m"] | None = None,
        cut: Cut | None = None,
        together: Sequence[str] = (),
        campaigns: Sequence[str] = (),
        longest: Float64[ndarray, "d"] | None = None,
        known: Known | None = None,
    ) -> "GP":
        """Condition chosen models on data without choosing or fitting again."""
        U, coding = placed(U, campaigns, coding)
        kept = affordable(U, Y)
        data = Observations.of(U[kept], Y[kept], active, ratios, noise, model, coding, _at(cut, kept), longest, known)
        data = data if errors is None else with_errors(data, errors[kept], choices)
        names, own = offsets.membership([together[row] for row in kept] if together else ())
        data = offsets.known(data, own, choices) if names else data
        return _assemble(data, plateaus.allowed(data, choices), names)

    @classmethod
    @np.errstate(all="ignore")
    def of_priors(
        cls,
        U: Float64[ndarray, "N d"],
        Y: Float64[ndarray, "N m"],
        priors: Sequence[Prior],
        *,
        active: Bool[ndarray, "m d"],
        noise: Sequence[float | None],
        coding: Coding | None = None,
        errors: Float64[ndarray, "N m"] | None = None,
        cut: Cut | None = None,
        known: Known | None = None,
    ) -> "GP":
        """Condition processes that are stated, one for each output, on what was told, be it nothing."""
        data, choices = observed(U, Y, priors, active=active, noise=noise, coding=coding, cut=cut, known=known)
        data = data if errors is None else scattered(data, errors)
        made = _assemble(data, choices)
        blocks = tuple(replace(block, variance=np.ones_like(block.variance)) for block in made.blocks)
        return replace(made, blocks=blocks)

    def among(self, U: Float64[ndarray, "N d"], Y: Float64[ndarray, "N m"], **words: Any) -> "GP":
        """Return the mixture of these models and the next best ones, given the same data and words (`at_choices`)."""
        count = max((len(choice.others) for choice in self.choices), default=0)
        if len(U) > MOST_POINTS or not count or self.mixing is not None:
            return self
        every = [[with_other(choice, place) for choice in self.choices] for place in range(count)]
        return replace(self, mixture=Mixture.of((self, *(GP.at_choices(U, Y, own, **words) for own in every))))

    @property
    def nugget_deviation(self) -> Float64[ndarray, "m"]:
        """Standard deviation of the learned noise of every output on its warped scale."""
        if self.mixture is not None:
            return self.mixture.nugget_deviation
        own = self.deviation * np.sqrt(self.variance * np.exp(self.theta[:, -1]))
        return own if self.mixing is None else np.sqrt(self.mixing**2 @ own**2)

    @property
    def block_deviation(self) -> Float64[ndarray, "m"]:
        """Standard deviation of the offset that a block gives every output, on its warped scale."""
        is_open = float(self.blocks[0].asked is None)  # else it is part of the mean
        return is_open * self.deviation * np.sqrt(self.variance * [each.share for each in self.choices])

    @cached_property
    def offsets(self) -> tuple[Float64[ndarray, "m q"], Float64[ndarray, "m q"]]:
        """By how much every output is off in every block, then in every campaign, on its warped scale; deviations."""
        blocks = len(self.block_names)
        m, q = self.m, blocks + (0 if self.coding is None else self.coding.campaigns)
        mean, deviation = np.zeros((m, q)), np.zeros((m, q))
        for block in self.blocks if q else ():
            for i, group in enumerate(block.groups):
                one = slice(i, i + 1)
                tasks, variance = block.tasks.at(one), float(block.variance[i, 0])
                found = offsets.of_task(tasks, block.theta[one], variance, blocks)
                for j in group:
                    mean[j], deviation[j] = (self.deviation[j] * each for each in found)
        return mean, deviation

    @np.errstate(all="ignore")
    def shifted(self, shifts: Float64[ndarray, "b m"]) -> Float64[ndarray, "b m"]:
        """Return by how much shifts on the warped scale change usual values of the outputs, natural units."""
        return self.unwarp(self.location + shifts) - self.unwarp(self.location[None])

    @np.errstate(all="ignore")
    def noise_deviation(self, U: Float64[ndarray, "b d"]) -> Float64[ndarray, "b m"]:
        """Return the standard deviation of every output's noise at points, on its warped scale, rounding included."""
        learned = np.tile(np.hypot(self.nugget_deviation, self.block_deviation), (len(U), 1))
        if self.steps is None:
            return learned
        return np.maximum(learned, EVEN * self.steps / np.abs(self.unwarp_slopes(self.unwarp(self.moments(U)[0]))))

    @property
    def counted(self) -> Float64[ndarray, "m"]:
        """How many told values of each output `density` counts; a plateau may have more than are worked with."""
        return self.ordered([np.repeat(block.tasks.rows.sum(1), block.tasks.y.shape[2]) for block in self.blocks])

    @cached_property
    def density(self) -> Float64[ndarray, "m"]:
        """Leave-one-out log density of each output's told values on its scale; with shared models, the group's sum.

        Values on plateaus count as if they were as well explained as those beside them.
        """
        each, told, share = [], [], []
        for block in self.blocks:
            count = block.tasks.y.shape[2]
            density = block.density
            if density is None:
                density = likelihood.evaluate(block.hard, block.theta, with_slope=False).density
            each.append(np.repeat(density, count))
            told.append(np.repeat(block.hard.rows.sum(1), count))
            share.append(np.repeat(block.tasks.rows.sum(1) / np.maximum(block.hard.rows.sum(1), 1.0), count))
        return self.ordered(share) * (self.ordered(each) - self.ordered(told) * np.log(self.deviation))

    @np.errstate(all="ignore")
    def moments(self, U: Float64[ndarray, "b d"]) -> tuple[Float64[ndarray, "b m"], Float64[ndarray, "b m"]]:
        """Return the mean of every output on its warped scale, and the deviation of what is modelled for it.

        Without `mixing` this is the standard deviation of the output; else see `marginals`.
        """
        mean, deviation = self._moments(U) if self.mixture is None else self.mixture.moments(U)
        return mean, deviation if self.rounding is None else self.rounding.added(mean, deviation)[0]

    def _moments(self, U: Float64[ndarray, "b d"]) -> tuple[Float64[ndarray, "b m"], Float64[ndarray, "b m"]]:
        """Return the same by these models alone, without what rounding leaves."""
        mean, deviation = self._modelled(U)
        return self.mixed(mean), deviation

    def mixed(self, Z: Float64[ndarray, "*b m"]) -> Float64[ndarray, "*b m"]:
        """Return outputs from what is modelled."""
        return Z if self.mixing is None else Z @ self.mixing.T

    def marginals(self, U: Float64[ndarray, "b d"]) -> tuple[Float64[ndarray, "b m"], Float64[ndarray, "b m"]]:
        """Return mean and standard deviation of every output on its warped scale."""
        mean, deviation = self.moments(U)
        return mean, deviation if self.mixing is None else np.sqrt(deviation**2 @ (self.mixing**2).T)

    @np.errstate(all="ignore")
    def expected(
        self, U: Float64[ndarray, "b d"], *, slopes: bool = True
    ) -> tuple[Float64[ndarray, "b m"], Float64[ndarray, "b m d"] | None]:
        """Return the means of outputs alone, without warps, mixtures and models, and their slopes."""
        inputs = self._inputs(U)
        parts = [block.posterior.expected(inputs, slopes) for block in self.blocks]
        mean = self.ordered(_by_point([each for each, _ in parts]), 1)
        mean = self.location + self.deviation * mean
        if not slopes:
            return mean, None
        by_mean = self.ordered(_by_point([each for _, each in parts]), 1)
        by_mean = by_mean if self.coding is None else self.coding.by_cube(by_mean)
        return mean, self.deviation[:, None] * by_mean

    def _modelled(self, U: Float64[ndarray, "b d"]) -> tuple[Float64[ndarray, "b m"], Float64[ndarray, "b m"]]:
        """Return mean and standard deviation of what is modelled: of each output, or of its rest."""
        inputs = self._inputs(U)
        parts = [block.posterior.moments(inputs) for block in self.blocks]
        mean, deviation = (self.ordered(_by_point(word), 1) for word in zip(*parts, strict=True))
        return self.location + self.deviation * mean, self.deviation * deviation

    @np.errstate(all="ignore")
    def moments_and_slopes(
        self, U: Float64[ndarray, "b d"]
    ) -> tuple[Float64[ndarray, "b m"], Float64[ndarray, "b m"], Float64[ndarray, "b m d"], Float64[ndarray, "b m d"]]:
        """Return moments and their derivatives with respect to the point."""
        found = self._moments_and_slopes(U) if self.mixture is None else self.mixture.moments_and_slopes(U)
        mean, deviation, by_mean, by_deviation = found
        if self.rounding is not None:
            deviation, with_mean, with_own = self.rounding.added(mean, deviation)
            by_deviation = with_own[..., None] * by_deviation + with_mean[..., None] * by_mean
        return mean, deviation, by_mean, by_deviation

    def _moments_and_slopes(
        self, U: Float64[ndarray, "b d"]
    ) -> tuple[Float64[ndarray, "b m"], Float64[ndarray, "b m"], Float64[ndarray, "b m d"], Float64[ndarray, "b m d"]]:
        inputs = self._inputs(U)
        parts = [block.posterior.moments_and_slopes(inputs) for block in self.blocks]
        mean, deviation, by_mean, by_deviation = (self.ordered(_by_point(word), 1) for word in zip(*parts, strict=True))
        if self.coding is not None:
            by_mean, by_deviation = self.coding.by_cube(by_mean), self.coding.by_cube(by_deviation)
        unit = self.deviation[:, None]
        mean, deviation = self.location + self.deviation * mean, self.deviation * deviation
        by_mean, by_deviation = unit * by_mean, unit * by_deviation
        if self.mixing is not None:
            mean, by_mean = self.mixed(mean), self.mixing @ by_mean
        return mean, deviation, by_mean, by_deviation

    @np.errstate(all="ignore")
    def drawn(self, U: Float64[ndarray, "b d"], Z: Float64[ndarray, "L b m"]) -> Float64[ndarray, "L b m"]:
        """Return values of all points together, on the warped scale, made of normal numbers: draws at a few points.

        `Paths` are draws that are defined everywhere, at many times the cost.
        """
        inputs, parts = self._inputs(U), []
        for block in self.blocks:
            mean, covariance = block.posterior.together(inputs)
            values, vectors = np.linalg.eigh(covariance)
            root = vectors * np.sqrt(values.clip(0.0, None))[..., None, :]  # points side by side: it is singular
            own = Z[:, :, list(block.outputs)].reshape(*Z.shape[:2], *covariance.shape[:2])
            steps = (root @ own.transpose(2, 3, 1, 0)).transpose(3, 2, 0, 1)
            parts.append((mean.swapaxes(0, 1) + steps).reshape(*Z.shape[:2], -1))
        return self.mixed(self.location + self.deviation * self.ordered(parts, 2))

    @np.errstate(all="ignore")
    def unwarp(self, W: Float64[ndarray, "*b m"]) -> Float64[ndarray, "*b m"]:
        """Return outputs in natural units from values on the warped scale."""
        if not self.is_warped:
            return W
        Y = self._scales.undone(W)
        return Y if self.ends is None else np.clip(Y, *self.ends)

    def warped(self, Y: Float64[ndarray, "N m"]) -> Float64[ndarray, "N m"]:
        """Return told outputs on the warped scale."""
        return np.stack([warp.forward(y) for warp, y in zip(self.warps, Y.T, strict=True)], -1)

    @np.errstate(all="ignore")
    def unwarp_slopes(self, Y: Float64[ndarray, "*b m"]) -> Float64[ndarray, "*b m"]:
        """Return the derivatives of `unwarp` where it gives these outputs; for a logarithm this is its argument."""
        slopes = self._scales.undone_slopes(Y)
        return slopes if self.ends is None else np.where((self.ends[0] < Y) & (self.ends[1] > Y), slopes, 0.0)

    @np.errstate(all="ignore")
    def log_slopes(self, Y: Float64[ndarray, "N m"]) -> Float64[ndarray, "N m"]:
        """Return the logarithms of these derivatives at told outputs; on plateaus, as if there were none."""
        return np.log(np.abs(self._scales.undone_slopes(Y)))

    @cached_property
    def _scales(self) -> Warps:
        return Warps.of(self.warps)

    @cached_property
    def is_warped(self) -> bool:
        """Whether any output is modelled on another scale, or cut off at plateaus."""
        return self.ends is not None or any(warp.name != "none" for warp in self.warps)

    @property
    def beyond_plateaus(self) -> "GP":
        """The same, not cut off: where it is doubted, or where wider bounds are sought, nothing shows that outputs are.

        Told values at a plateau say that an output is cut off around them. That it is everywhere is assumed.
        """
        return self if self.ends is None else replace(self, ends=None)

    @np.errstate(all="ignore")
    def imagine(
        self, U: Float64[ndarray, "p d"], missing: Bool[ndarray, "p m"] | None = None, *, noise: float = 1.0
    ) -> "GP":
        """Add points as if their mean had been told: the variance shrinks, the mean stays.

        Args:
            U: Points that are pending or failed.
            missing: Which outputs are imagined there; all by default.
            noise: How large the noise variance of these values is, times the usual one.
        """
        if not len(U):
            return self
        mean = ((self._modelled(U)[0] - self.location) / self.deviation).T
        rows = np.ones_like(mean) if missing is None else missing.T.astype(np.float64)
        blocks = tuple(block.imagine(self._inputs(U), mean, rows, noise) for block in self.blocks)
        return replace(self, blocks=blocks, mixture=None)

    def widened(self, factor: Float64[ndarray, "m"], noise: Float64[ndarray, "m"]) -> "GP":
        """Return the same models with larger deviations: of every output by a factor, of its noise by another one.

        Where the two are equal, the mean stays and deviations are multiplied. Where noise grows less, deviations are
        multiplied far from all points, and at a measured one they are at most those of the noise there.

        Args:
            factor: Of the deviations of each output before anything was told.
            noise: Of those of its noise, at most as large.
        """
        if self.mixing is not None:  # a rest is widened as much as any output that it is a part of
            factor, noise = (np.where(self.mixing != 0, each[:, None], 0.0).max(0) for each in (factor, noise))
        shift = 2.0 * np.log(noise / factor)
        blocks = tuple(block.widened(factor, shift) for block in self.blocks)
        moved = {
            j: float(block.theta[i, -1]) for block in blocks for i, group in enumerate(block.groups) for j in group
        }
        choices = tuple(replace(each, theta=(*each.theta[:-1], moved[j])) for j, each in enumerate(self.choices))
        mixture = None if self.mixture is None else self.mixture.widened(factor, noise)
        return replace(self, blocks=blocks, choices=choices, mixture=mixture)

    def read_in(self, steps: Float64[ndarray, "m"]) -> "GP":
        """Return the same of readings in steps, 0 where there are none."""
        return replace(self, steps=steps if steps.any() else None)

    @property
    def rounded(self) -> "GP":
        """The same with what rounding leaves in its deviations, which more measurements do not take away."""
        if self.steps is None:
            return self
        return replace(self, rounding=Rounding(self.steps, self.nugget_deviation, self._scales, self.deviation))

    @cached_property
    def fewer(self) -> "GP | None":
        """The same models conditioned on a part of many points, to find where to look; None of few points."""
        seen = self.blocks[0].tasks.U
        if seen.shape[-2] < MANY:
            return None
        last = np.arange(seen.shape[-2])[-FEWER_RECENT:]
        kept = far_apart(seen if seen.ndim == 2 else seen[0], FEWER, last)
        return replace(self, blocks=tuple(block.at(kept) for block in self.blocks))

    def _inputs(self, U: Float64[ndarray, "b d"]) -> Float64[ndarray, "b e"]:
        """Return what the regressions see of points."""
        return U if self.coding is None else self.coding.inputs(U)


def _at(cut: Cut | None, kept: ndarray) -> Cut | None:
    return None if cut is None else (cut[0][kept], cut[1][kept])


def _noted(data: Observations, choices: Sequence[ModelChoice]) -> list[ModelChoice]:
    """Return choices with the usual noise of outputs whose values have errors of their own."""
    own = [scales.get(each.warp) for scales, each in zip(data.scales, choices, strict=True)]  # of plateaus: none
    shares = data.shares or (0.0,) * len(choices)
    return [
        replace(each, noise=0.0 if scale is None else scale.noise, share=share)
        for each, scale, share in zip(choices, own, shares, strict=True)
    ]


def _assemble(data: Observations, choices: Sequence[ModelChoice], names: tuple[str, ...] = ()) -> GP:
    """Build the posterior at the chosen models."""
    data = plateaus.filled(data, choices)
    warps = tuple(own[choice.warp].warp for own, choice in zip(data.scales, choices, strict=True))
    data = correlated.of_rests(data, choices)
    scales = [data.scales[j][choice.warp] for j, choice in enumerate(choices)]
    return GP(
        blocks=tuple(block_of(data, groups, choices) for groups in data.blocks()),
        location=np.array([each.location for each in scales]),
        deviation=np.array([each.deviation for each in scales]),
        warps=warps,
        choices=tuple(choices),
        coding=data.coding,
        ends=data.ends,
        block_names=names,
        mixing=data.mixing,
    )


def _by_point(parts: Sequence[ndarray]) -> list[ndarray]:
    """Reshape arrays by task, point and output to arrays by point and output."""
    shapes = [(each.shape[1], each.shape[0] * each.shape[2], *each.shape[3:]) for each in parts]
    return [each.swapaxes(0, 1).reshape(shape) for each, shape in zip(parts, shapes, strict=True)]
