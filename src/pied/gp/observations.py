"""What a fit works on: the told points and values, and each output on every scale it could be modelled on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy import ndarray

from pied.gp.choices import Model
from pied.gp.drift import Known
from pied.gp.features.coding import Coding
from pied.gp.likelihood import NOISIEST, QUIETEST
from pied.gp.warps import Standardized, Warp, grained
from pied.shapes import Bool, Float64, Int

MOST_TOLD = 1000  # points that a belief is made from: its time and memory grow with their square
RECENT = 250  # of these, the last told ones: they lie where a run has come to
EXACT_BELOW = 1e-10  # standardized variance of a known noise: below it, the nugget of an exact output covers the noise
LARGEST_NOISE = 1e6  # of the deviation of the data: with more noise nothing is learned, and squares overflow


Cut = tuple[Float64[ndarray, "N m"], Float64[ndarray, "N m"]]
"""Lower and upper ends of values that are known by a limit alone, infinite for all others."""
FEWEST = 2  # values of an output that give it a scale; with fewer, limits beyond which others lie count as well

CAMPAIGN_SHARE = 10.0
"""Variance of what all values of a campaign are off by, in units of the process variance: the data tell."""


@dataclass(frozen=True, eq=False)
class Observations:
    """The told points and values, and what is known about the outputs."""

    U: Float64[ndarray, "N d"]
    """Points of the unit cube, labels coded."""
    Y: Float64[ndarray, "N m"]
    """Outputs there; not finite where an output was not told."""
    rows: Bool[ndarray, "m N"]
    """Which points each output was told at."""
    active: Bool[ndarray, "m d"]
    """Which inputs each output depends on."""
    ratios: Float64[ndarray, "d"]
    """Upper over lower bound of inputs that may be seen on a logarithmic scale; 1 for the others."""
    noise: tuple[float | None, ...]
    """Per output the standard deviation of its noise; 0: exact, None: learned."""
    model: Model
    """What may be chosen."""
    scales: tuple[dict[str, Standardized], ...]
    """Per output, by the name of the warp, the scales that it could be modelled on."""
    coding: Coding | None = None
    """How labels became inputs; None: all inputs are coordinates of the cube."""
    scatter: Float64[ndarray, "m N"] | None = None
    """By how much the noise variance of each value is larger than usual (`plateaus.filled`); None: of none."""
    latent: Float64[ndarray, "m N"] | None = None
    """What is known of latent outputs beyond plateaus (`plateaus`), standardized; NaN for all other values."""
    ends: tuple[Float64[ndarray, "m"], Float64[ndarray, "m"]] | None = None
    """Plateaus at which latent outputs are cut off, infinite where there are none; None: no output is clipped."""
    cut: Cut | None = None
    """What is known of values by limits alone; they count as not told until `plateaus.filled`."""
    together: Float64[ndarray, "N q"] | None = None
    """What points have of the offsets of blocks, then of campaigns (`offsets`); None: there are none."""
    shares: tuple[float, ...] = ()
    """Variance of the offsets of blocks, of each output, in units of its process variance."""
    longest: Float64[ndarray, "d"] | None = None
    """The longest length scale along each input; None: as long as usual."""
    known: Known | None = None
    """Models of some outputs; None: there are none."""
    given: Float64[ndarray, "N m"] | None = None
    """What these are at the points."""
    modelled: Bool[ndarray, "m"] | None = None
    """Which outputs have one that is a number wherever they were told."""
    mixing: Float64[ndarray, "m m"] | None = None
    """Outputs as sums of the rests that are modelled in their place (`correlated`); None: they are modelled."""

    @classmethod
    def of(
        cls,
        U: Float64[ndarray, "N _"],
        Y: Float64[ndarray, "N m"],
        active: Bool[ndarray, "m d"],
        ratios: Float64[ndarray, "d"],
        noise: Sequence[float | None],
        model: Model,
        coding: Coding | None = None,
        cut: Cut | None = None,
        longest: Float64[ndarray, "d"] | None = None,
        known: Known | None = None,
    ) -> "Observations":
        """Prepare what was told, at points of the cube that may say of which campaign they are (`placed`)."""
        together = U[:, coding.d :] if coding is not None and coding.campaigns else None
        given = None if known is None else known.values(U if coding is None else U[:, : coding.d])
        if coding is not None:
            U, active, ratios = coding.inputs(U), coding.expanded(active), coding.expanded(ratios, 1.0)
            longest = None if longest is None else coding.expanded(longest, np.inf)
            model = replace(model, waves=model.waves and not coding.choices)  # with labels, too few points tell one
        rows = np.isfinite(Y).T
        limits = _limits(Y, cut)
        scales = tuple(_scales(Y[rows[j], j], _possible_warps(model, noise[j]), limits[j]) for j in range(Y.shape[1]))
        noise = tuple(noise)
        made = cls(
            grained(U), Y, rows, active, ratios, noise, model, scales, coding, cut=cut, together=together,
            longest=longest,
        )  # fmt: skip
        if known is None or given is None:
            return made
        has = (np.isfinite(given).T | ~rows).all(1) & np.isin(np.arange(len(rows)), known.outputs)
        return replace(made, known=known, given=given, modelled=has)

    def sides(self, j: int) -> tuple[Float64[ndarray, "N"], Float64[ndarray, "N"]]:
        """Return on which side of a limit values of an output lie, 0 where they are known or nothing is; the limits."""
        if self.cut is None:
            return np.zeros(len(self.U)), np.full(len(self.U), np.nan)
        low, high = (end[:, j] for end in self.cut)
        sides = np.where(self.rows[j], 0.0, np.isfinite(low).astype(float) - np.isfinite(high))
        return sides, np.where(sides > 0, low, np.where(sides < 0, high, np.nan))

    def beside(self, sides: Mapping[int, Float64[ndarray, "N"]]) -> "Observations":
        """Return the data as if some outputs had not been told on their plateaus, where they have a side."""
        rows, scales = self.rows.copy(), list(self.scales)
        for j, own in sides.items():
            rows[j] &= own == 0
            limits = _limits(self.Y, self.cut)[j]
            warps = _possible_warps(self.model, self.noise[j], begins=bool((own < 0).any()))
            scales[j] = _scales(
                self.Y[rows[j], j],
                warps,
                self.Y[own != 0, j] if limits is None else np.concatenate([self.Y[own != 0, j], limits]),
            )
        return replace(self, rows=rows, scales=tuple(scales))

    def on(self, scales: tuple[dict[str, Standardized], ...]) -> "Observations":
        """Return the data with outputs on other scales."""
        return replace(self, scales=scales)

    def of_outputs(self, which: Sequence[int]) -> "Observations":
        """Return the data of some outputs."""
        return replace(
            self,
            Y=self.Y[:, which],
            rows=self.rows[which],
            active=self.active[which],
            noise=tuple(self.noise[j] for j in which),
            scales=tuple(self.scales[j] for j in which),
            cut=None if self.cut is None else (self.cut[0][:, which], self.cut[1][:, which]),
            shares=tuple(self.shares[j] for j in which) if self.shares else (),
            given=None if self.given is None else self.given[:, which],
            modelled=None if self.modelled is None else self.modelled[which],
            known=None,
            mixing=None,
        )

    def has_model(self, j: int) -> bool:
        """Whether something is known of output j beforehand."""
        return self.modelled is not None and bool(self.modelled[j])

    def count(self, j: int) -> int:
        """Return the number of points at which output j was told."""
        return int(self.rows[j].sum())

    def offset_shares(self, j: int) -> Float64[ndarray, "q"]:
        """Return the variance of every offset of output j, in units of its process variance."""
        count = 0 if self.together is None else self.together.shape[1]
        campaigns = 0 if self.coding is None else self.coding.campaigns
        own = self.shares[j] if self.shares else 0.0
        return np.concatenate([np.full(count - campaigns, own), np.full(campaigns, CAMPAIGN_SHARE)])

    def values(self, j: int) -> Float64[ndarray, "n"]:
        """Return what was told of output j."""
        return self.Y[self.rows[j], j]

    @property
    def is_sharing(self) -> bool:
        """Whether outputs may share their hyperparameters."""
        return self.model.shared is not None and len(self.rows) >= self.model.shared

    def blocks(self) -> list[list[tuple[int, ...]]]:
        """Return the outputs in groups that share their hyperparameters, groups of equal size together."""
        if not self.is_sharing:
            return [[(j,) for j in range(len(self.rows))]]
        alike: dict[tuple[Any, ...], list[int]] = {}
        for j in range(len(self.rows)):
            noise = self.noise[j]
            has_errors = any(each.scatter is not None for each in self.scales[j].values())
            is_alone = (
                has_errors or self.has_model(j) or bool(self.sides(j)[0].any()) or bool(self.shares and self.shares[j])
            )
            is_rest = self.mixing is not None and (self.mixing[j] != 0).sum() > 1
            own = j if is_alone else -1 - is_rest
            key = (noise is None, noise == 0, self.rows[j].tobytes(), self.active[j].tobytes(), own)
            alike.setdefault(key, []).append(j)
        sized: dict[int, list[tuple[int, ...]]] = {}
        for group in alike.values():
            sized.setdefault(len(group), []).append(tuple(group))
        return list(sized.values())

    def thinned(self) -> "Observations":
        """Return the part from which choices are learned: at most `most_rows` points, far from each other."""
        if len(self.U) <= self.model.most_rows:
            return self
        kept = far_apart(self.U, self.model.most_rows)
        part = self.at(kept)
        scales = [{name: each.at(part.values(j)) for name, each in own.items()} for j, own in enumerate(part.scales)]
        return replace(part, scales=tuple(scales))

    def only(self, j: int) -> "Observations":
        """Return the part with the points at which output j was told."""
        return self.at(self.rows[j])

    def at(self, kept: ndarray) -> "Observations":
        """Return the part with some of the points."""
        scales = tuple({name: each.of_rows(kept) for name, each in own.items()} for own in self.scales)
        cut = None if self.cut is None else (self.cut[0][kept], self.cut[1][kept])
        given = None if self.given is None else self.given[kept]
        found = replace(self, U=self.U[kept], Y=self.Y[kept], rows=self.rows[:, kept], scales=scales, cut=cut)
        found = found if given is None else replace(found, given=given)
        return found if self.together is None else replace(found, together=self.together[kept])

    def noise_variance(self, j: int, warp: str) -> tuple[float, tuple[float, float]]:
        """Return the known noise variance of output j on the scale of a warp, else 0, and the range of its nugget."""
        scale = self.scales[j][warp]
        known, deviation = scale.noise or self.noise[j], scale.deviation
        relative = float(f"{min(known / deviation, LARGEST_NOISE):.12g}") if known else 0.0  # the same in all units
        low, high = self.model.nugget
        if known is not None and relative**2 < EXACT_BELOW:
            return 0.0, (low, high)
        return relative**2, (max(low, QUIETEST), NOISIEST)


@np.errstate(all="ignore")
def _scales(
    y: Float64[ndarray, "n"], warps: Sequence[str], others: Float64[ndarray, "k"] | None = None
) -> dict[str, Standardized]:
    """Return the scales of these warps on which an output with these values, and others, could be modelled."""
    if others is not None and len(y) < FEWEST:
        known = np.concatenate([y, others])
        if not known.max() > known.min():  # one limit alone: the output is perhaps as large as that
            known = np.concatenate([known, np.zeros(1)])
        return {"none": Standardized.of(Warp("none", unit=1.0), known)._replace(log_slopes=0.0)}
    made = [Warp.of(name, y) for name in warps]
    fine = [warp for warp in made if warp is not None and (others is None or np.isfinite(warp.forward(others)).all())]
    own = {warp.name: Standardized.of(warp, y) for warp in fine}
    return own or {"none": Standardized.of(Warp("none"), y)._replace(log_slopes=0.0)}


def _limits(Y: Float64[ndarray, "N m"], cut: Cut | None) -> list[Float64[ndarray, "q"] | None]:
    """Return the limits beyond which values of each output lie; None where there are none."""
    if cut is None:
        return [None] * Y.shape[1]
    whole = np.concatenate([np.where(np.isfinite(Y), np.nan, end) for end in cut])
    found = [column[np.isfinite(column)] for column in whole.T]
    return [column if len(column) else None for column in found]


def _possible_warps(model: Model, noise: float | None, *, begins: bool = False) -> tuple[str, ...]:
    """Return the warps that a noise allows: none if it is known; a learned one hides where an output saturates.

    A mirrored logarithm is for an output that begins at a plateau and saturates.
    """
    if noise:
        return ("none",)
    hidden = [] if noise == 0 else ["logit"]
    hidden += [] if begins else ["mirrored log"]
    return tuple(name for name in model.warps if name not in hidden)


def affordable(U: Float64[ndarray, "N d"], Y: Float64[ndarray, "N m"]) -> Int[ndarray, "b"]:
    """Return the indices of the points a belief is made from: all, or of too many the last and others far apart.

    Of outputs that were told seldom, every value counts.
    """
    if len(U) <= MOST_TOLD:
        return np.arange(len(U))
    told = np.isfinite(Y)
    first = told[:, told.sum(0) <= RECENT].any(1)
    first[-RECENT:] = True
    return far_apart(U, MOST_TOLD, np.flatnonzero(first))


def far_apart(U: Float64[ndarray, "N d"], count: int, first: Int[ndarray, "f"] | None = None) -> Int[ndarray, "c"]:
    """Return the indices of so many points: the first, else the last told, then each the farthest from those before."""
    kept: list[int] = []
    waiting = [len(U) - 1] if first is None else first.tolist()
    distance = np.full(len(U), np.inf)
    while len(kept) < max(count, len(waiting)):
        kept.append(waiting[len(kept)] if len(kept) < len(waiting) else int(distance.argmax()))
        distance = np.minimum(distance, ((U - U[kept[-1]]) ** 2).sum(1))
    return np.array(sorted(set(kept)))
