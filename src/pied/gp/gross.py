"""Told values that are probably gross errors: all the others say something else, and their neighbours agree on it.

Two questions are asked of a value. The first is about the models: is what was told more likely if this value has
nothing to do with the settings? Length scales and noise are fitted with it and without it, because a gross error hides
behind the noise and the roughness that it makes the belief learn. To begin with, all values that lie beyond three
robust deviations are left out together, or they would hide behind each other.

The second needs no model: the value has to lie outside of the range of neighbours that surround it. The far side of a
cliff is not surrounded by the near side, and a function that rises or falls stays within the range of what surrounds
it. What is left are ridges narrower than the distance of these neighbours, which are therefore few percent of the box.
An isolated value cannot be told from roughness, and nothing is said of it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy import ndarray
from scipy.optimize import nnls
from scipy.special import expit

from pied.gp import descent
from pied.gp.choices import Model, ModelChoice, thetas
from pied.gp.drift import Known
from pied.gp.features.coding import Coding
from pied.gp.kriging import Kriging
from pied.gp.likelihood import Tasks
from pied.gp.observations import Observations
from pied.gp.parts import plateaus
from pied.gp.regressions import regressions
from pied.gp.selection import choose
from pied.gp.stated import with_errors
from pied.shapes import Bool, Float64

PRIOR = 0.1
"""Probability that a study has a gross error at all; it is shared by all of its values."""
CERTAIN = 0.9
"""Probability from which on a value is called a gross error."""
LEAST_FREEDOM = 8
"""Rows beyond the trend and the hyperparameters: with fewer, every model fits and every value may be an outlier."""
MOST_SHARE = 0.15
"""Share of the values of an output that are left out to begin with, at most."""
ROBUST_LIMIT = 3.0
"""Median deviations, as those of a normal distribution, beyond which a value is left out to begin with."""
ROUNDS = 4
"""How often what is left out is chosen again, with models fitted to the rest."""
REACH, WIDER = 0.05, 0.1
"""Distance in the unit cube up to which a point is a neighbour, and up to which further suspects are looked for."""
REPEATED = 1e-7
"""Distance in the unit cube below which a point was measured again."""
FEWEST = 3
"""Neighbours at least, unless one of them is a repetition."""
SURROUNDED = 0.5
"""Distance from the hull of the neighbours, relative to that of the nearest, up to which a point counts as inside."""
OUTSIDE = 0.5
"""How far a value has to lie outside of the range of its neighbours, in such ranges."""
FEW_OTHERS = 0.15
"""Share of further suspects on the same side around a value: more of them are a feature of the output, not errors."""
SMALLEST = 0.01
"""Of the deviation of the told values: smaller errors are not gross. Scatter of an exact output is `study.jitter`'s."""
SIZES = math.log(1e4)
"""Logarithm of the range of sizes that a gross error may have, all equally likely."""
CONTRADICTION = 5.0
"""Deviations of their difference from which on two measurements at the same settings contradict each other."""
STEPS = 25
"""Iterations of each fit."""
CLEARLY = math.log(9.0)
"""Difference of log odds from which on one of two contradicting measurements is the wrong one."""
LARGEST_GAIN = 700.0
"""Nats: odds beyond this are no longer numbers."""
NORMAL_MEDIAN = 1.4826
"""Standard deviation of a normal distribution in medians of its absolute values."""
WEIGHT_OF_SUM = 10.0
"""With which it counts that the weights of a hull add up to one."""
FLOOR = 1e-10
"""Added to the diagonal of covariances: nothing here depends on more digits."""


class Misfit(NamedTuple):
    """A told value that is probably a gross error."""

    row: int
    output: int
    probability: float
    mean: float
    """What the other values predict for it, on the output's warped scale."""
    deviation: float
    """Standard deviation of a measurement there, its noise included."""
    rivals: tuple[int, ...] = ()
    """Rows at the same settings that are as likely to be the wrong ones."""


@np.errstate(all="ignore")
def misfits(
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
    known: Known | None = None,
) -> list[Misfit]:
    """Return the told values that are gross errors with a probability of `CERTAIN` or more; arguments as of a fit."""
    data = Observations.of(U, Y, active, ratios, noise, model, coding, known=known)
    data = data if errors is None else with_errors(data, errors, choices)
    allowed = _plain(data, plateaus.allowed(data, choices))
    looks, found = int(data.rows.sum()), []
    for j, usual in enumerate(allowed):
        kept = np.flatnonzero(data.rows[j])[-model.most_rows :]  # the last ones: the work grows with the third power
        part = data.at(kept)
        tasks, _ = regressions(part, [usual.candidate((j,))])
        if len(kept) - int(tasks.columns.sum()) - int(data.active[j].sum()) - 1 < LEAST_FREEDOM:
            continue
        scale = data.scales[j][usual.warp]
        told = scale.forward(part.values(j))
        for each in _Output(tasks, thetas([usual]), part.U[:, data.active[j]], looks).found():
            mean = scale.location + scale.deviation * float(told[each.row] - each.away)
            rivals = tuple(int(kept[row]) for row in each.rivals)
            found.append(
                Misfit(int(kept[each.row]), j, each.probability, mean, scale.deviation * each.deviation, rivals)
            )
    return found


def _plain(data: Observations, choices: Sequence[ModelChoice]) -> Sequence[ModelChoice]:
    """Return choices without plateaus, made anew where there were some: a wrong value would be taken for far beyond."""
    if not any(choice.clipped for choice in choices):
        return choices
    plain = replace(data, model=replace(data.model, plateaus=False))
    return choose(plain, [None if choice.clipped else choice for choice in choices])


class _Suspect(NamedTuple):
    """A value in question, by its place among the told ones, standardized."""

    row: int
    odds: float
    """Logarithm of the odds that it is a gross error."""
    away: float
    """How far it lies from what the others predict."""
    deviation: float
    rivals: tuple[int, ...] = ()

    @property
    def probability(self) -> float:
        """That it is a gross error."""
        return float(expit(self.odds))


@dataclass(frozen=True, eq=False)
class _Output:
    """One output at its chosen model, all of whose rows were told."""

    task: Tasks
    theta: Float64[ndarray, "1 q"]
    V: Float64[ndarray, "N a"]
    """The inputs that it depends on."""
    looks: int
    """Told values of the whole study."""

    def found(self) -> list[_Suspect]:
        """Return the gross errors."""
        out, theta = self._left_out()
        away, _ = self._expected(theta, out)
        pairs = self._contradictions(out, theta)
        again = {row for pair in pairs for row in pair}
        alone = [row for row in out if row not in again and self._is_alone(row, out, away)]
        found = {}
        if alone:
            theta, without = self._fit(out, theta)
            found = {row: self._suspect(row, out, theta, without) for row in alone}
        for pair in pairs:
            wrong = self._wrong_one(pair, out, theta)
            found.setdefault(wrong.row, wrong)
        return [each for each in found.values() if each.probability >= CERTAIN]

    def _left_out(self) -> tuple[list[int], Float64[ndarray, "1 q"]]:
        """Return the values that do not fit, and hyperparameters fitted to all others.

        Without it, two gross errors would pass for noise. What fits the others is taken in again in the next round.
        """
        out: list[int] = []
        theta, most = self.theta, max(2, int(MOST_SHARE * len(self.V)))
        for _ in range(ROUNDS):
            away, deviation = self._expected(theta, out)
            score = np.nan_to_num(np.abs(away) / deviation)
            usual = NORMAL_MEDIAN * float(np.median(np.delete(score, out)))
            worst = np.argsort(-score, kind="stable")[:most]
            new = sorted(worst[score[worst] > ROBUST_LIMIT * max(usual, SMALLEST)].tolist())
            if new == out:
                break
            out = new
            theta = self._fit(out, theta)[0] if out else self.theta
        return out, theta

    def _suspect(self, row: int, out: Sequence[int], theta: Float64[ndarray, "1 q"], without: float) -> _Suspect:
        """Weigh a gross error against models that explain the value with the others.

        Args:
            row: The value.
            out: What is left out, this value included.
            theta: Hyperparameters without all of this.
            without: Loss there.
        """
        _, loss = self._fit([each for each in out if each != row], theta)
        away, deviation = (float(each[row]) for each in self._expected(theta, out))
        if not abs(away) > SMALLEST:
            return _Suspect(row, -math.inf, away, deviation)
        gain = loss - without + 0.5 * math.log(2.0 * math.pi) - math.log(2.0 * SIZES * abs(away))
        return _Suspect(row, min(gain, LARGEST_GAIN) + math.log(PRIOR / self.looks), away, deviation)

    def _wrong_one(self, pair: tuple[int, int], out: Sequence[int], theta: Float64[ndarray, "1 q"]) -> _Suspect:
        """Return which of two contradicting measurements is the wrong one; the first with its rival, if either may."""
        each, here = [], np.flatnonzero(np.abs(self.V - self.V[pair[0]]).max(1) < REPEATED).tolist()
        for row in pair:
            gone = sorted({*out} - {*here} | {row})
            own, without = self._fit(gone, theta)
            each.append(self._suspect(row, gone, own, without))
        first, second = each
        if abs(first.odds - second.odds) < CLEARLY:
            return first._replace(odds=float(np.logaddexp(first.odds, second.odds)), rivals=(second.row,))
        return max(each, key=lambda one: one.odds)

    def _contradictions(self, out: Sequence[int], theta: Float64[ndarray, "1 q"]) -> list[tuple[int, int]]:
        """Return pairs of measurements at the same settings that differ by more than their noise."""
        same = (np.abs(self.V[:, None] - self.V).max(2) < REPEATED) & np.tri(len(self.V), k=-1, dtype=bool).T
        y, found = self.task.y[0, :, 0], []
        own = np.ones(len(self.V)) if self.task.scatter is None else self.task.scatter[0]
        for first, second in np.argwhere(same).tolist():
            apart, without = abs(float(y[first] - y[second])), sorted({*out, first, second})
            wide = math.sqrt(0.5 * float(own[first] + own[second]))
            if apart > max(SMALLEST, ROBUST_LIMIT * wide * self._noise(theta, without)):
                fitted, _ = self._fit(without, theta)  # neither of them is noise, perhaps
                if apart > CONTRADICTION * math.sqrt(2.0) * wide * self._noise(fitted, without):
                    found.append((first, second))
        return found

    def _is_alone(self, row: int, out: Sequence[int], away: Float64[ndarray, "N"]) -> bool:
        """Whether a value lies outside of the range of neighbours that surround it."""
        distance = np.sqrt(np.square(self.V - self.V[row]).sum(1))
        order = [i for i in np.argsort(distance, kind="stable").tolist() if i != row and distance[i] <= WIDER]
        near = [i for i in order if i not in out]
        alike = [distance[i] for i in order if i in out and away[i] * away[row] > 0]
        around = self._surrounding(row, [i for i in near if distance[i] <= REACH], distance)
        if not around or (alike and min(alike) <= distance[around[0]] + REPEATED):
            return False
        if len(alike) > FEW_OTHERS * len(near):
            return False
        y = self.task.y[0, :, 0]
        low, high = float(y[around].min()), float(y[around].max())
        return max(low - y[row], y[row] - high) >= OUTSIDE * (high - low)

    def _surrounding(self, row: int, near: Sequence[int], distance: Float64[ndarray, "N"]) -> list[int]:
        """Return the fewest of the nearest points whose hull contains a point; repetitions alone do."""
        again = [i for i in near if distance[i] < REPEATED]
        if again:
            return again
        for count in range(FEWEST, len(near) + 1):
            around, nearest = list(near[:count]), distance[near[0]]
            sides = np.vstack([(self.V[around] - self.V[row]).T / nearest, np.full(count, WEIGHT_OF_SUM)])
            if nnls(sides, np.append(np.zeros(self.V.shape[1]), WEIGHT_OF_SUM))[1] <= SURROUNDED:
                return around
        return []

    def _fit(self, out: Sequence[int], theta: Float64[ndarray, "1 q"]) -> tuple[Float64[ndarray, "1 q"], float]:
        """Fit the hyperparameters without some values; return them and their loss."""
        longer = np.zeros_like(theta)
        longer[:, :-1] = math.log(2.0)
        starts = np.concatenate([theta, theta + longer, self.theta, self.theta + longer])
        rows = self.task.rows.copy()
        rows[:, list(out)] = 0.0
        task = replace(self.task, rows=rows, y=self.task.y * rows[:, :, None])
        fitted, fit = descent.optimize(task.at(np.zeros(len(starts), dtype=int)), starts, STEPS)
        best = int(np.argmin(fit.loss))
        return fitted[best : best + 1], float(fit.loss[best])

    def _kriging(self, theta: Float64[ndarray, "1 q"], out: Sequence[int]) -> Kriging | None:
        """Return the regression without some values."""
        kept = np.ones(len(self.V), dtype=bool)
        kept[list(out)] = False
        return Kriging.of(self.task, theta, kept, FLOOR)

    def _noise(self, theta: Float64[ndarray, "1 q"], out: Sequence[int]) -> float:
        """Return the standard deviation of the noise, by the values that are not left out."""
        found = self._kriging(theta, out)
        return math.inf if found is None else math.sqrt(math.exp(theta[0, -1]) * found.variance)

    def _expected(
        self, theta: Float64[ndarray, "1 q"], out: Sequence[int]
    ) -> tuple[Float64[ndarray, "N"], Float64[ndarray, "N"]]:
        """Return how far each value lies from what the others predict, without those left out, and the deviation."""
        away, variance = np.zeros(len(self.V)), np.ones(len(self.V))
        found = self._kriging(theta, out)
        if found is not None:
            away[found.kept], variance[found.kept] = found.left_out()
            mean, shape = found.at(~found.kept)
            away[~found.kept] = self.task.y[0, ~found.kept, 0] - mean
            variance[~found.kept] = found.variance * np.diagonal(shape)
        return away, np.sqrt(np.maximum(variance, FLOOR**2))
