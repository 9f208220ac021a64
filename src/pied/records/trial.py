"""One evaluation as a frozen `Trial`, and all of them as arrays."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

import numpy as np
from numpy import ndarray

from pied.markup import table
from pied.measured import Measured, ends, errors, is_known, kept, shown
from pied.problem import Named, Problem, enclosed, raw
from pied.records.event import GROUPS
from pied.records.record import ASKED, FAILED, PARTIAL, TOLD, WITHDRAWN, Row
from pied.records.why import Why
from pied.shapes import Bool, Float64

DEFAULT_TOLERANCE = 1e-6
"""In spreads of a constraint: how far below zero it still counts as met, unless the problem states a tolerance."""
ROUNDED_OUTSIDE = 1e-9
"""Unit cube: a point this little outside was put there by rounding."""
SAME_VALUES = 1e-12
"""Of their size: values at the same settings that differ by less are equal; a sum in parallel rounds anew each time."""
COMPARED = 3
"""Present values of an output from which on they can tell whether an earlier campaign helps; with fewer it counts."""
REPEATED = 1e-7
"""Unit cube, every coordinate: measurements this near to each other are repetitions."""
SPREAD_ROUNDING = 1e-13
"""In largest absolute values of a column: a smaller interquartile range is rounding error."""


class State(Enum):
    """State of a trial.

    Example: `docs/recipes.md`.
    """

    ASKED = ASKED
    PARTIAL = PARTIAL
    TOLD = TOLD
    FAILED = FAILED
    WITHDRAWN = WITHDRAWN


@dataclass(frozen=True, eq=False)
class Trial:
    """One evaluation of the black box: proposed, or added from old data.

    Example: `docs/recipes.md`.
    """

    number: int
    """Counted from 1, in the order of proposing and adding."""
    x: Named
    """The point, natural units: where it was really run if that was told, else the proposed one."""
    state: State
    y: Named | None = None
    """The told values; a missing one is NaN, one with an error or known by a limit `Measured`. None before any."""
    is_added: bool = False
    """Whether it is old data that does not count against the budget."""
    reason: str = ""
    """Why it failed or was withdrawn."""
    why: Why = field(default_factory=lambda: Why("added"))
    summary: str = ""
    """What was expected when it was proposed, as a phrase."""
    revision: int = 1
    """Number of the question for which it was proposed: bounds for another question are no longer valid."""
    worker: str = ""
    """Who evaluates or evaluated it."""
    asked: float = 0.0
    """When it was proposed or added, seconds since 1970."""
    settled: float | None = None
    """When it was told completely, or failed."""
    proposed: Named | None = None
    """The proposed point, if it was run elsewhere."""
    corrected: int = 0
    """Number of the study's last correction that changed it."""
    not_the_settings: bool = False
    """Whether it failed for a reason that had nothing to do with the settings, as someone said."""
    block: str = ""
    """With what else it was measured together, and is perhaps off together: a day, an operator, a batch, a reactor."""
    campaign: str = ""
    """The earlier campaign or other equipment that it is of; empty: the present one."""

    @property
    def grouped(self) -> dict[str, str]:
        """The block and the campaign that it is of, by these words; not what nothing was said of."""
        return {kind: name for kind, name in zip(GROUPS, (self.block, self.campaign), strict=True) if name}

    @property
    def groups(self) -> str:
        """The same as a phrase: "block Mon; campaign 2025"."""
        return "; ".join(f"{kind} {name}" for kind, name in self.grouped.items())

    def _repr_html_(self) -> str:
        told = [[name, shown(each, 6)] for name, each in (self.y or {}).items() if is_known(each)]
        settings = [[name, str(each)] for name, each in self.x.items()]
        why = self.reason or self.summary or self.why.aim
        return table(["trial", str(self.number)], [["", self.state.value], *settings, *told, ["why", why]])

    @property
    def failure(self) -> str:
        """Why it failed, as a phrase: "failed (not the settings): flask broke"."""
        return f"failed{' (not the settings)' if self.not_the_settings else ''}: {self.reason}"

    def believed(self, correction: int) -> "Trial":
        """Return the trial with as much of why it was proposed as holds after the correction of this number.

        What was computed from a record that has been corrected since is left out, and so are the bounds at a proposed
        point when it was run elsewhere.
        """
        why = self.why
        if why.basis < correction:
            left = Why(why.aim, rung=why.rung, pending=why.pending, repeats=why.repeats, given=why.given)
            return replace(self, why=left)
        return self if self.proposed is None else replace(self, why=replace(why, lower=(), upper=()))

    def of_slice(self, given: Mapping[str, Any], *, same_coordinates: bool) -> "Trial":
        """Return the trial with as much of why it was proposed as says something of a slice; none given: of the whole.

        What is best on one slice says nothing of another. Bounds at the point, and models, hold in its coordinates.
        """
        why = self.why
        if not same_coordinates:
            return replace(self, why=why.anywhere())
        if dict(why.given) == dict(given):
            return self
        return replace(self, why=replace(why, optimistic=None, possible=None, margin=None))

    @property
    def came_true(self) -> bool:
        """Whether all told outputs lie within what was expected of them; also where nothing was expected."""
        if self.y is None or self.proposed is not None:
            return True
        return all(
            low - SAME_VALUES * abs(low) <= value <= high + SAME_VALUES * abs(high)
            for value, (low, _, high) in zip(self.y.values(), self.why.expected, strict=False)
            if math.isfinite(value)
        )

    def knew(self, other: "Trial") -> bool:
        """Return whether another trial had been settled when this one was proposed.

        A trial stores which others were pending. In older records, without this list, the times decide.
        """
        if other.number >= self.number:
            return False
        if self.why.pending is not None:
            return other.number not in self.why.pending
        return other.settled is None or other.settled <= self.asked

    @classmethod
    def of(cls, problem: Problem, row: Row) -> "Trial":
        """Read a trial from its row of the record."""
        if row.state == TOLD and not set(problem.outputs) <= set(row.y):  # all were told, under other names
            raise KeyError(next(name for name in problem.outputs if name not in row.y))
        y = tuple(kept(row.y.get(name, math.nan)) for name in problem.outputs) if row.y else None
        x, proposed = (problem.codes(point) for point in (row.run or row.x, row.x))
        if not all(map(math.isfinite, (*x, *proposed))) or any(map(math.isinf, y or ())):
            raise ValueError("a number is not finite")
        return cls(
            row.number,
            problem.named_x(np.array(x)),
            State(row.state),
            y=None if y is None else Named(list(problem.outputs), y),
            is_added=row.is_added,
            reason=row.reason,
            why=Why.from_dict(row.why),
            summary=row.summary,
            revision=row.revision,
            worker=row.worker,
            asked=row.asked,
            settled=row.settled,
            proposed=None if row.run is None else problem.named_x(np.array(proposed)),
            corrected=row.corrected,
            not_the_settings=row.state == FAILED and row.is_not_the_settings,
            block=row.block,
            campaign=row.campaign,
        )

    def __str__(self) -> str:
        text = (
            f"trial {self.number}: "
            + "".join(f"[{each}] " for each in (self.campaign, self.block) if each)
            + "  ".join(f"{name} = {_written(value)}" for name, value in self.x.items())
        )
        if self.state is State.FAILED:
            return f"{text}   ({self.failure})"
        if self.state is State.WITHDRAWN:
            return f"{text}   (withdrawn: {self.reason})"
        if self.y is not None:
            values = ((name, value) for name, value in self.y.items())
            text += "  ->  " + "  ".join(f"{n} = {shown(v, 6)}" if is_known(v) else f"{n} = ?" for n, v in values)
        return f"{text}   ({self.summary})" if self.summary and self.y is None else text


@dataclass(frozen=True, eq=False)
class Dataset:
    """A record as arrays in the unit cube, the input of all solvers and recommendations."""

    numbers: tuple[int, ...]
    """Numbers of the trials with at least one told output."""
    U: Float64[ndarray, "N d"]
    Y: Float64[ndarray, "N m"]
    """Outputs; NaN where not told, and where only a limit was."""
    imagined: Float64[ndarray, "p d"]
    """Points that are pending, or failed by their settings: their values are unknown, and they should not be proposed
    again."""
    last: Why | None = None
    """Why the last trial was proposed."""
    whys: tuple[Why, ...] = ()
    """Why the trials with a told output were proposed; empty where it is not needed."""
    failures: tuple[int, ...] = ()
    """Rows of `imagined` whose evaluation failed; the others are pending."""
    away: tuple[int, ...] = ()
    """Numbers of the trials in `imagined`; empty where they are not needed."""
    moved: tuple[int, ...] = ()
    """Numbers of the trials that were run elsewhere than proposed."""
    earlier: tuple[int, ...] = ()
    """Numbers of the trials that were proposed for an earlier question."""
    errors: Float64[ndarray, "N m"] | None = None
    """Standard deviations of outputs that were told with an error, NaN for the others; None: none was."""
    cut: tuple[Float64[ndarray, "N m"], Float64[ndarray, "N m"]] | None = None
    """Between which ends outputs lie that are known by a limit alone, infinite ones where none; None: all are."""
    blocks: tuple[str, ...] = ()
    """Names of the blocks in which points were measured, "" of none; empty: there are no blocks."""
    block: str = ""
    """The block that is asked about; empty: an average one."""
    campaigns: tuple[str, ...] = ()
    """Names of the campaigns that points are of, "" of the present one; empty: all are of that."""
    earlier_campaigns: "Dataset | None" = None
    """What was measured in other campaigns; it is no part of these data, but tells something about the outputs."""

    @property
    def limited(self) -> Bool[ndarray, "N m"]:
        """Which outputs are known by a limit alone."""
        if self.cut is None:
            return np.zeros(self.Y.shape, dtype=bool)
        return ~np.isfinite(self.Y) & (np.isfinite(self.cut[0]) | np.isfinite(self.cut[1]))

    @property
    def measured(self) -> "Dataset":
        """The data without what is known by limits alone."""
        return self if self.cut is None else replace(self, cut=None)

    @property
    def failed(self) -> Float64[ndarray, "q d"]:
        """Points whose evaluation failed."""
        return self.imagined[list(self.failures)]

    @property
    def waiting(self) -> list[int]:
        """Rows of `imagined` that are pending."""
        failed = set(self.failures)
        return [row for row in range(len(self.imagined)) if row not in failed]

    @property
    def pending(self) -> Float64[ndarray, "r d"]:
        """Points that are being evaluated."""
        return self.imagined[self.waiting]

    @property
    def settled(self) -> "Dataset":
        """The data as if nothing were pending."""
        if not self.waiting:
            return self
        numbers = tuple(self.away[row] for row in self.failures) if self.away else ()
        return replace(self, imagined=self.failed, failures=tuple(range(len(self.failures))), away=numbers)

    @property
    def complete(self) -> Bool[ndarray, "N"]:
        """Which rows have all outputs, be it by a limit."""
        return (np.isfinite(self.Y) | self.limited).all(1)

    @property
    def numeric(self) -> Bool[ndarray, "N"]:
        """Which rows have numbers for all outputs."""
        return np.isfinite(self.Y).all(1)

    def first(self, count: int) -> "Dataset":
        """Return only the data of the first trials."""
        own = None if self.errors is None else self.errors[:count]
        cut = None if self.cut is None else (self.cut[0][:count], self.cut[1][:count])
        return Dataset(
            self.numbers[:count], self.U[:count], self.Y[:count], self.imagined[:0], errors=own, cut=cut,
            blocks=self.blocks[:count], earlier_campaigns=self.earlier_campaigns,
        )  # fmt: skip

    def at(self, rows: Sequence[int] | ndarray) -> "Dataset":
        """Return the data with some of the told points."""
        rows = [int(row) for row in rows]
        return replace(
            self,
            numbers=tuple(self.numbers[row] for row in rows),
            U=self.U[rows],
            Y=self.Y[rows],
            whys=tuple(self.whys[row] for row in rows) if self.whys else (),
            errors=None if self.errors is None else self.errors[rows],
            cut=None if self.cut is None else (self.cut[0][rows], self.cut[1][rows]),
            blocks=tuple(self.blocks[row] for row in rows) if self.blocks else (),
            campaigns=tuple(self.campaigns[row] for row in rows) if self.campaigns else (),
        )

    @classmethod
    def of(cls, problem: Problem, trials: Iterable[Trial], revision: int = 1) -> "Dataset":
        """Gather the arrays of a record, without withdrawn trials; a point outside of the box counts at its edge.

        What was measured in other campaigns is kept apart, and their failures say nothing. A failure that says nothing
        about its settings is left out, too: someone said so, or they have succeeded.

        Args:
            problem: The statement.
            trials: The record.
            revision: Number of the question.
        """
        trials = tuple(trials)
        others = [each for each in trials if each.campaign]
        if others:
            present = cls.of(problem, [each for each in trials if not each.campaign], revision)
            told = [each for each in others if each.state in (State.TOLD, State.PARTIAL) and each.y is not None]
            apart = cls.of(problem, [replace(each, campaign="") for each in told], revision)
            names = tuple(each.campaign for each in told)
            return replace(present, earlier_campaigns=replace(apart, campaigns=names) if told else None)
        numbers, points, outputs, whys, failures, pending, blocks = [], [], [], [], [], [], []
        imagined: list[tuple[float, ...]] = []
        last = None
        known = (State.TOLD, State.PARTIAL)
        counted = _saying(problem, trials)
        for trial in counted:
            point = raw(trial.x)
            if trial.y is not None and trial.state in known:
                numbers.append(trial.number)
                whys.append(trial.why)
                points.append(point)
                outputs.append(raw(trial.y))
                blocks.append(trial.block)
            else:
                if trial.state is State.FAILED:
                    failures.append(len(imagined))
                imagined.append(point)
                pending.append(trial.number)
            if not trial.is_added:
                last = trial.why
        U, away = (
            _without_rounding(problem.to_unit(_rows(each, len(problem.variables)))) for each in (points, imagined)
        )
        moved = tuple(trial.number for trial in counted if trial.proposed is not None)
        earlier = tuple(trial.number for trial in counted if trial.revision < revision)
        return cls(
            tuple(numbers),
            U,
            _rows(outputs, problem.m),
            away,
            last,
            tuple(whys),
            tuple(failures),
            tuple(pending),
            moved,
            earlier,
            _errors(outputs),
            _cut(outputs),
            tuple(blocks) if any(blocks) else (),
        )

    def distinct(self, problem: Problem) -> "Dataset":
        """Return the data without rows that repeat an earlier one with the same values, if the black box is exact.

        They say nothing more, and each would count as a point that is predicted perfectly.
        """
        if not problem.is_exact:
            return self
        firsts: dict[bytes, int] = {}
        kept = []
        for row, u in enumerate(self.U):
            first = firsts.setdefault(u.tobytes(), row)
            if first == row or not are_equal(self.Y[[first, row]]).all():
                kept.append(row)
        if len(kept) == len(self.U):
            return self
        return self.at(kept)

    def near(self, u: Float64[ndarray, "d"], most: int) -> "Dataset":
        """Return at most `most` told and `most` imagined points, those nearest to `u`."""
        told, away = (_nearest(each, u, most) for each in (self.U, self.imagined))
        failed = set(self.failures)
        return replace(
            self.at(told),
            imagined=self.imagined[away],
            failures=tuple(place for place, row in enumerate(away) if row in failed),
            away=tuple(self.away[row] for row in away) if self.away else (),
        )

    def without(self, rows: Bool[ndarray, "N"], outputs: Bool[ndarray, "m"]) -> "Dataset":
        """Return the data as if some outputs had not been told at some points."""
        untold = rows[:, None] & outputs
        cut = self.cut and (np.where(untold, -np.inf, self.cut[0]), np.where(untold, np.inf, self.cut[1]))
        return replace(self, Y=np.where(untold, np.nan, self.Y), cut=cut)

    def functions(self, problem: Problem) -> Float64[ndarray, "N k"]:
        """Return objective and constraints at the told points; NaN where a needed output is missing.

        Where an output is known by a limit alone, the objective is the least that it may be. A constraint is the
        least that it may be if that meets it, the most if that does not, and NaN if both may be.
        """
        if not len(self.U):
            return np.zeros((0, problem.k))
        X = problem.from_unit(self.U)
        f = np.stack([g.reshape(-1, len(self.U))[0] for g in problem.g(X, self.Y[None])], -1)
        if self.cut is None or not (rows := self.limited.any(1)).any():
            return f
        lowest, highest = problem.ranges.T
        outer = np.maximum(self.cut[0][rows], lowest), np.minimum(self.cut[1][rows], highest)
        least, most = enclosed(problem, X[rows], *(np.where(np.isfinite(self.Y[rows]), self.Y[rows], e) for e in outer))
        sure = np.where(least >= 0, least, np.where(most < 0, most, np.nan))
        sure[:, 0] = np.where(np.isfinite(least[:, 0]), least[:, 0], np.nan)
        f[rows] = np.where(np.isfinite(f[rows]), f[rows], sure)
        return f


def _errors(outputs: Sequence[Sequence[float]]) -> Float64[ndarray, "N m"] | None:
    """Return the standard deviations of told rows; None where none was told with an error."""
    if not any(isinstance(value, Measured) for row in outputs for value in row):
        return None
    return np.array([errors(column) for column in zip(*outputs, strict=True)]).T


def _cut(
    outputs: Sequence[Sequence[float]],
) -> tuple[Float64[ndarray, "N m"], Float64[ndarray, "N m"]] | None:
    """Return between which ends values of told rows lie that are known by a limit; None if there are none."""
    found = np.array([[ends(value) for value in row] for row in outputs])
    return (found[..., 0], found[..., 1]) if np.isfinite(found).any() else None


def _saying(problem: Problem, trials: Iterable[Trial]) -> list[Trial]:
    """Return the trials that say something about their settings: not withdrawn, no failure by something else."""
    counted = [trial for trial in trials if not (trial.state is State.WITHDRAWN or trial.not_the_settings)]
    failed = [trial for trial in counted if trial.state is State.FAILED]
    told = [raw(trial.x) for trial in counted if trial.state is State.TOLD]
    if not failed or not told:
        return counted
    fine, lost = (
        problem.to_unit(_rows(each, len(problem.variables))) for each in (told, [raw(trial.x) for trial in failed])
    )
    excused = {each.number for each, u in zip(failed, lost, strict=True) if (np.abs(fine - u) < REPEATED).all(1).any()}
    return [trial for trial in counted if trial.number not in excused]


def _without_rounding(U: Float64[ndarray, "N d"]) -> Float64[ndarray, "N d"]:
    """Move points that rounding has put outside of the unit cube into it; others outside are data, too."""
    inside = np.clip(U, 0.0, 1.0)
    return np.where(np.abs(U - inside) <= ROUNDED_OUTSIDE, inside, U)


def _rows(values: Sequence[Sequence[float]], width: int) -> Float64[ndarray, "N w"]:
    """Stack rows of numbers in one array."""
    return np.array(values, dtype=np.float64).reshape(len(values), width)


def _nearest(U: Float64[ndarray, "N d"], u: Float64[ndarray, "d"], most: int) -> list[int]:
    """Return the rows nearest to a point, in their order."""
    if len(U) <= most:
        return list(range(len(U)))
    return sorted(np.square(U - u).sum(1).argsort(kind="stable")[:most].tolist())


def _written(value: Any) -> str:
    """Return a setting: labels and whole numbers as they are."""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def tolerances(problem: Problem, f: Float64[ndarray, "N k"]) -> Float64[ndarray, "n"]:
    """Return how far below zero a told constraint still counts as met: as stated, else 1e-6 of its spread."""
    result = np.zeros(problem.n)
    for i, stated in enumerate(problem.tolerance):
        told = f[:, i + 1][np.isfinite(f[:, i + 1])]
        if stated is not None:
            result[i] = stated
        elif len(told) > 1:
            result[i] = DEFAULT_TOLERANCE * spread(told[:, None])[0]
    return result


def spread(values: Float64[ndarray, "b k"]) -> Float64[ndarray, "k"]:
    """Return the interquartile range per column; where it is 0, the largest absolute value, else 1."""
    if not len(values):
        return np.ones(values.shape[1])
    ordered = np.sort(np.where(np.isfinite(values), values, 0.0), axis=0)
    width, largest = _at(ordered, 0.75) - _at(ordered, 0.25), np.abs(ordered[[0, -1]]).max(0)
    width = np.where(width > SPREAD_ROUNDING * largest, width, largest)
    return np.where(width > 0, width, 1.0)


def are_equal(values: Float64[ndarray, "b m"]) -> Bool[ndarray, "m"]:
    """Tell in which columns all values are known and equal, but for rounding."""
    return np.asarray(ranges(values) <= SAME_VALUES * np.abs(values).max(0))


@np.errstate(over="ignore")
def ranges(values: Float64[ndarray, "b m"]) -> Float64[ndarray, "m"]:
    """Return the range of each column, infinite where it is larger than any number; 0 without rows."""
    return np.ptp(values, axis=0) if len(values) else np.zeros(values.shape[1])


def deviations(values: Float64[ndarray, "b m"]) -> Float64[ndarray, "m"]:
    """Return the standard deviation of what is known of each column; 0 where nothing is, and of a constant."""
    return np.array([_deviation(column[np.isfinite(column)]) for column in values.T])


def _deviation(column: Float64[ndarray, "n"]) -> float:
    """Return the standard deviation, in units of the power of two at the largest number: squares may overflow."""
    if _is_constant(column):
        return 0.0
    exponent = math.frexp(float(np.abs(column).max()))[1]
    return math.ldexp(float(np.ldexp(column, -exponent).std()), exponent)


def _is_constant(column: Float64[ndarray, "n"]) -> bool:
    """Whether numbers differ by no more than rounding; the mean of equal ones may be another number."""
    return not len(column) or float(ranges(column[:, None])[0]) <= SPREAD_ROUNDING * float(np.abs(column).max())


def _at(ordered: Float64[ndarray, "b k"], part: float) -> Float64[ndarray, "k"]:
    """Return a quantile of ordered columns, between two rows if need be: ten times as fast as `np.quantile`."""
    place = part * (len(ordered) - 1)
    low, high = ordered[int(place)], ordered[math.ceil(place)]
    return low + (place - int(place)) * (high - low)


def feasible(problem: Problem, f: Float64[ndarray, "N k"]) -> Bool[ndarray, "N"]:
    """Return which told points meet every constraint by their told values."""
    return (f[:, 1:] >= -tolerances(problem, f)).all(1) & np.isfinite(f).all(1)


def met(problem: Problem, data: Dataset) -> Bool[ndarray, "N"]:
    """Return at which told points every constraint is met: with noise, by the mean of all measurements there.

    One lucky measurement of settings that break a limit would otherwise count for ever. Measurements with errors count
    by their precision, others as much as a usual one of these.
    """
    if not len(data.U) or problem.is_exact:
        return feasible(problem, data.functions(problem))
    same = np.all([np.abs(each[:, None] - each) < REPEATED for each in data.U.T], 0).astype(float)
    told = np.isfinite(data.Y)
    weights = told * _precision(data)
    means = same @ np.where(told, weights * data.Y, 0.0) / np.where(same @ told > 0, same @ weights, 1.0)
    return feasible(problem, replace(data, Y=np.where(told, means, np.nan)).functions(problem))


def _precision(data: Dataset) -> Float64[ndarray, "N m"]:
    """Return the weight of every told value beside others at the same settings: 1, or by errors in usual ones."""
    if data.errors is None:
        return np.ones(data.Y.shape)
    known = np.isfinite(data.errors)
    usual = [
        float(np.median(own[is_known])) if is_known.any() else 1.0
        for own, is_known in zip(data.errors.T, known.T, strict=True)
    ]
    return np.where(known, np.square(usual / np.where(known, data.errors, 1.0)), 1.0)
