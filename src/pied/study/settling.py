"""Where a gap comes from, which measurement would narrow it most, and how many more it may take.

The gap is open where the upper bound of the objective is the largest. A measurement is imagined at its mean: bounds
narrow around it and the gap falls to what is open elsewhere, or, measured at the recommended settings, because more is
certain there. Going on like this until the gap is small counts the measurements that are needed, if none is a surprise.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy import ndarray

from pied.bounds import Composite, Widened, optimistic
from pied.errors import NotYet, SettingError
from pied.gp import GP
from pied.problem import Choice, Named
from pied.records import Why, spread
from pied.shapes import Float64
from pied.solvers.base import Proposal
from pied.study.recommendation import Recommendation
from pied.study.snapshot import Snapshot
from pied.study.words import figure

CANDIDATES = 4
"""Settings that are compared: those with the largest upper bounds, apart from each other, and the recommended ones."""
APART = 0.05
"""Unit cube, in some coordinate: settings that are nearer are one candidate."""
PLACES = 512
"""Points of the pool at which the gap is followed: those with the largest upper bounds."""
MOST = 60
"""Measurements after which a forecast gives up."""
ELSEWHERE = 3
"""A search places about one measurement in so many where the gap is open: of ten forecasts on campaigns, six held
without this factor, nine with it."""
SHOWN = 0.1
"""Of the gap: an output that opens less of it is not named."""
SETTLED = 0.01
"""Of the range of the told objective: the gap at which to stop if none is named."""


@dataclass(frozen=True)
class Source:
    """Where the gap comes from: the settings whose upper bound is the largest, and what is uncertain there."""

    x: Named
    shares: dict[str, float]
    """Of each output, by how much the gap would fall there if the output were known, as a share; the largest first."""
    labels: dict[str, int]
    """How often the label of each choice there was measured."""

    @property
    def sentence(self) -> str:
        """The source as a sentence."""
        text = str(self)
        return f"{text[0].upper()}{text[1:]}."

    def __str__(self) -> str:
        outputs = " and ".join(list(self.shares)[:2]) or "the outputs"
        rare = [f"{name} = {self.x[name]}" for name, count in self.labels.items() if count == 0]
        why = f"; {', '.join(rare)} was never measured" if rare else ""
        place = ", ".join(f"{k} = {v if isinstance(v, str) else f'{v:.4g}'}" for k, v in self.x.items())
        return f"most is open in {outputs} at {place}{why}"


@dataclass(frozen=True)
class Forecast:
    """How many more measurements the gap may take: each where it tells most, by a belief that is right, or as a search
    places them, by one as far as it is doubted."""

    wanted: float
    """The gap, natural units."""
    gap: float
    """The gap now."""
    fewest: int
    most: int | None
    """None: more than `MOST`, or it cannot be told."""

    @property
    def is_reached(self) -> bool:
        """Whether it is time to stop."""
        return self.gap <= self.wanted

    def __str__(self) -> str:
        wanted = figure(self.wanted, self.wanted)
        if self.is_reached:
            return f"Stop: hardly more than {wanted} can still be gained."
        until = f"until at most {wanted} can still be gained"
        if self.fewest >= MOST:
            return f"More than {MOST} measurements {until}."
        if self.most is None:
            return f"At least about {self.fewest} measurement{'s' * (self.fewest > 1)} {until}, perhaps many more."
        return f"About {self.fewest} to {self.most} measurements {until}."


@dataclass(frozen=True, eq=False)
class Settling:
    """What is open at one moment of a study."""

    snapshot: Snapshot

    @cached_property
    def found(self) -> Recommendation:
        """The recommended point.

        Raises:
            SettingError: While no settings are known to meet all limits.
        """
        if self.snapshot.problem.has_front:
            raise SettingError("several objectives have a front instead of a gap")
        if (self.snapshot.data.complete).sum() < 2:
            raise NotYet("this needs a belief: tell at least two complete evaluations first")
        found = self.snapshot.recommended
        if found is None or found.certified is None:
            raise SettingError("no settings are known to meet all limits, so nothing is gained from yet: ask as usual")
        return found

    @cached_property
    def top(self) -> Float64[ndarray, "d"]:
        """Where the upper bound is the largest."""
        return self.snapshot.possible_optimum(self.found).u

    def _composite(self, belief: GP, factor: float | None = None) -> Composite:
        """Compose a belief with g, as far as it is to be doubted, or with plain deviations times a factor."""
        snapshot = self.snapshot
        believer, stream = snapshot.settings.believer, snapshot.stream.at("recommend")
        if factor is None:
            return believer.doubted(snapshot.problem, snapshot.data, belief, stream, snapshot.level)
        return believer.bound(snapshot.problem, snapshot.data, belief, stream)

    @cached_property
    def places(self) -> Float64[ndarray, "p d"]:
        """The recommended settings first, then those with the largest upper bounds, best first."""
        problem, stream = self.snapshot.problem, self.snapshot.stream.at("settle")
        known = np.clip(np.stack([self.top, self.found.u]), 0.0, 1.0)
        pool = problem.within(stream.sobol(4 * PLACES, problem.d), stream.at("within"))
        pool = problem.on_equalities(np.concatenate([known, pool]))
        pool = pool if problem.grid is None else problem.grid.snapped(pool)
        f = self._upper(self._composite(self.snapshot.alone), pool)
        order = (-f).argsort(kind="stable")[:PLACES]
        return np.concatenate([known[1:], pool[order]])

    def _upper(self, composite: Composite, U: Float64[ndarray, "b d"]) -> Float64[ndarray, "b"]:
        """Return the upper bound of the objective; minus infinity where some limit is surely broken."""
        f = optimistic(composite, self.snapshot.level).values(U)
        slack = 1e-9 * np.where(np.isfinite(s := spread(f)), s, 1.0)
        return np.where((f[:, 1:] >= -slack[1:]).all(1), np.nan_to_num(f[:, 0], nan=-np.inf), -np.inf)

    def _open(self, composite: Composite, places: Float64[ndarray, "p d"]) -> tuple[float, int]:
        """Return the gap under a belief, and at which of some places the bound is the largest."""
        upper, snapshot = self._upper(composite, places), self.snapshot
        certain = float(self.found.certified or 0.0)
        if not snapshot.problem.is_exact:
            lower = composite.values(places[:1], [1.0 - snapshot.level] * snapshot.problem.k)[0]
            certain = max(certain, float(lower[0])) if (lower[1:] >= 0).all() else certain
        return max(0.0, float(upper.max()) - certain), int(upper.argmax())

    @cached_property
    def source(self) -> Source:
        """Where the gap comes from."""
        snapshot, problem, u = self.snapshot, self.snapshot.problem, self.top[None]
        composite, certain = self._composite(snapshot.alone), float(self.found.certified or 0.0)
        whole = float(self._upper(composite, u)[0]) - certain
        shares = {}
        for j, name in enumerate(problem.outputs):
            known = Widened(composite.belief, np.where(np.arange(problem.m) == j, 0.0, 1.0))
            left = max(float(self._upper(composite.under(known), u)[0]), certain) - certain
            shares[name] = 1.0 - left / whole if whole > 0 and math.isfinite(left) else 0.0
        x = problem.named_x(problem.natural(self.top))
        choices = [name for name, each in problem.variables.items() if isinstance(each, Choice)]
        told = [trial.x for trial in snapshot.trials if trial.y is not None]
        return Source(
            x,
            dict(sorted(((k, v) for k, v in shares.items() if v >= SHOWN), key=lambda item: -item[1])),
            {name: sum(each[name] == x[name] for each in told) for name in choices},
        )

    @property
    def best(self) -> Float64[ndarray, "d"]:
        """The settings whose measurement would narrow the gap most, if it is what is expected."""
        candidates = [self.top]
        for u in self.places[1:]:
            if len(candidates) < CANDIDATES and all(np.abs(u - each).max() > APART for each in candidates):
                candidates.append(u)
        candidates += [] if self.snapshot.problem.is_exact else [self.found.u]
        belief = self.snapshot.alone
        left = [self._open(self._composite(belief.imagine(u[None])), self.places)[0] for u in candidates]
        return candidates[int(np.argmin(left))]

    def proposal(self) -> Proposal:
        """Return these settings as a proposal."""
        return proposed(self.snapshot, self.best, "settle")

    def forecast(self, wanted: float | None = None) -> Forecast:
        """Return how many more measurements it may take until the gap is as small as is wanted.

        Args:
            wanted: The gap, natural units; by default `SETTLED` of the range of what was told.
        """
        _ = self.found  # refuses where nothing is known
        f = self.snapshot.data.functions(self.snapshot.problem)[:, 0]
        wanted = SETTLED * float(np.ptp(f[np.isfinite(f)])) if wanted is None else float(wanted)
        if not wanted >= 0:
            raise SettingError(f"the wanted gap is in units of the objective, 0 or more, got {wanted}")
        now = self.snapshot.told_still.width
        now = math.inf if now is None else now
        if now <= wanted:
            return Forecast(wanted, now, 0, 0)
        fewest, most = self._count(wanted, 1.0), ELSEWHERE * self._count(wanted, None)
        return Forecast(wanted, now, max(1, fewest), None if most >= MOST else max(fewest, most, 1))

    def _count(self, wanted: float, factor: float | None) -> int:
        """Return how many measurements, imagined at their mean one after the other, make the gap small."""
        belief, measured = self.snapshot.alone, list[Sequence[float]]()
        while len(measured) < MOST:
            there = belief.imagine(np.array(measured)) if measured else belief
            left, place = self._open(self._composite(there, factor), self.places)
            if left <= wanted:
                break
            is_best = not self.snapshot.problem.is_exact and len(measured) % 2 == 1
            measured.append(self.places[0 if is_best else place].tolist())
        return len(measured)


def proposed(snapshot: Snapshot, u: Float64[ndarray, "d"], aim: str) -> Proposal:
    """Return a point as a proposal, with what is expected there."""
    from pied.bounds import predicted

    problem = snapshot.problem
    u = u if problem.grid is None else problem.grid.snapped(u)
    lower, _, upper = snapshot.composite(aim).bounds(u[None], snapshot.level)
    factor = snapshot.settings.believer.trust(problem, snapshot.data, snapshot.level).stated
    ends = predicted(problem, snapshot.alone, u[None], snapshot.level, factor)
    last = snapshot.data.last
    return Proposal(
        u,
        Why(
            aim, lower=tuple(lower[0].tolist()), upper=tuple(upper[0].tolist()),
            expected=tuple(zip(*(each[0].tolist() for each in ends), strict=True)),
            widened=float(factor.max()), memory={} if last is None else last.memory,
        ),
    )  # fmt: skip
