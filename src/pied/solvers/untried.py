"""What was never tried and could still meet the limits: no verdict passes over it.

A belief foretells what was never measured from what was. That is a ground for a verdict only where the measurements
show that it does so. They show nothing of

- labels, and levels of a count or of a list, that were never tried, nor of combinations of them; only of combinations
  too many to try, those that were tried may show that the belief foretells them from the others, and better than if it
  did not know which ones they are;
- places away from all measured ones, if an output of a limit was nearly always the same, or is nothing but noise;
- places whose nearest evaluation failed: a failure says that nothing was measured there, and nothing else.

Such limits are *open* there: they could be met.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
from numpy import ndarray

from pied.bounds import Believer
from pied.gp import GP
from pied.problem import Problem, Variable
from pied.records import Dataset, deviations
from pied.rng import Stream
from pied.shapes import Bool, Float64, Int64
from pied.solvers.frame import meets_white

MOST_TRIED = 64  # labels, levels or combinations that can all be tried; a count of more values is a quantity
MOST_COMBINATIONS = 2048  # of labels and levels that are looked at; of more, as many drawn at random
POINTS_OF_EACH = 8  # points for each combination, ...
MOST_POINTS = 4096  # ... and for all of them
POOL = 1024  # points where there are neither labels nor levels
DISTINCT = 3  # values: an output that was told fewer different ones has not shown how it varies
FEWEST_SHOWN = 12  # values of a noisy output: fewer are explained by chance, 8 in one of twenty cases
FEWEST_LEFT_OUT, MOST_LEFT_OUT = 5, 12  # what is left out in turn to see whether the others foretell it
FORETOLD = 0.25  # of the error without knowing the labels: an error that shows that knowing them helps
EXPLAINED = 0.5  # of the error without knowing where: the error of a belief about an output that is more than noise
DIFFERENT = 1e-6  # of the deviation: values that differ by less are the same
FAR = 0.05  # unit cube, some coordinate: away from a point
SAME = 1e-6  # unit cube: coordinates of the same label or level
SHOWN = 8  # labels or levels that are listed
BEHIND = "settings whose nearest evaluation failed"


@dataclass(frozen=True, eq=False)
class Untried:
    """What was never tried, given what was seen."""

    problem: Problem
    believer: Believer
    data: Dataset
    """What was told and what failed; nothing is pending."""
    belief: GP
    """The belief about what was told, with nothing imagined."""

    @cached_property
    def named(self) -> Bool[ndarray, "d"]:
        """The coordinates that are labels, counts or listed levels: nothing need be smooth along them."""
        axes = self.problem.axes.values()
        return np.array(
            [each.is_choice or ((each.whole or each.only is not None) and _count(each) <= MOST_TRIED) for each in axes]
        )

    @cached_property
    def limits(self) -> dict[int, "_Limit"]:
        """The limits that depend on outputs, by their place among the functions."""
        black = (place for place in range(1, self.problem.k) if place not in self.problem.white)
        return {place: _Limit(self, self.problem.structure[place].outputs) for place in black}

    @property
    def may_matter(self) -> bool:
        """Whether anything could be open at all."""
        is_choice = any((limit.named).any() or limit.never_varied for limit in self.limits.values())
        return is_choice or bool(len(self.data.failed))

    def pool(self, stream: Stream) -> Float64[ndarray, "b d"]:
        """Return points all over the box, some for each combination of labels and levels."""
        problem, listing = self.problem, self.problem.listing
        if listing is not None:
            rows = stream.at("listed").uniform(len(listing)).argsort()[:MOST_POINTS]
            return listing.U[np.sort(rows)]
        if not self.named.any():
            U = problem.drawn(stream.sobol(POOL, problem.d))
        else:
            combinations = self._combinations(stream.at("combinations"))
            each = min(POINTS_OF_EACH, max(1, MOST_POINTS // len(combinations)))
            U = problem.drawn(stream.sobol(each * len(combinations), problem.d))
            U[:, self.named] = np.repeat(combinations, each, axis=0)
        grid = problem.grid
        return problem.settled(U if grid is None else grid.snapped(U), stream.at("settled"))

    def _combinations(self, stream: Stream) -> Float64[ndarray, "c n"]:
        """Return the combinations of labels and levels, or some of them drawn at random."""
        grid = self.problem.grid
        assert grid is not None
        places = [each for each, is_named in zip(grid.places, self.named, strict=True) if is_named and each is not None]
        count = 1
        for each in places:
            count *= len(each)
        if count <= MOST_COMBINATIONS:
            return np.stack([each.ravel() for each in np.meshgrid(*places, indexing="ij")], 1)
        drawn = stream.uniform(MOST_COMBINATIONS, len(places))
        return np.stack([each[(drawn[:, j] * len(each)).astype(int)] for j, each in enumerate(places)], 1)

    def undecided(
        self, U: Float64[ndarray, "b d"], upper: Float64[ndarray, "b k"]
    ) -> tuple[Bool[ndarray, "b"], Int64[ndarray, "b"]]:
        """Tell which points could meet all limits, and how many labels or levels of each were never tried.

        Args:
            U: Points of the cube.
            upper: Upper bounds of all functions there.
        """
        could = meets_white(self.problem, U) & ~self._is_lost(U)
        new = np.zeros(len(U), dtype=int)
        for place, limit in self.limits.items():
            could &= limit.is_open(U) | (upper[:, place] >= 0)
            new = np.maximum(new, limit.new_levels(U))
        return could, new

    def alike(self, U: Float64[ndarray, "b d"], others: Float64[ndarray, "p d"]) -> Bool[ndarray, "b p"]:
        """Tell which points have the same labels and levels as which others; none where there are neither."""
        found = _same(U[:, self.named], others[:, self.named])
        return found if self.named.any() else ~found

    def _is_lost(self, U: Float64[ndarray, "b d"]) -> Bool[ndarray, "b"]:
        """Tell where nothing can be measured: beside failures."""
        failed = self.data.failed
        alike = _same(U[:, self.named], failed[:, self.named])
        return np.asarray((alike & _near(U[:, ~self.named], failed[:, ~self.named])).any(1))

    @cached_property
    def labels(self) -> dict[str, list[float]]:
        """The labels and levels that were never tried and that nothing foretells, unit cube, by their variable."""
        found = {}
        for place, name in enumerate(self.problem.axes):
            if self.named[place]:
                levels = np.unique(self._levels(place))
                open_somewhere = np.zeros(len(levels), dtype=bool)
                for limit in self.limits.values():
                    open_somewhere |= limit.is_new(levels, place) & (not limit.is_foretold((place,)))
                found[name] = levels[open_somewhere].tolist()
        return {name: levels for name, levels in found.items() if levels}

    def _levels(self, place: int) -> Float64[ndarray, "l"]:
        """Return what a coordinate can be, unit cube."""
        grid = self.problem.grid
        levels = grid.places[place] if grid is not None else None
        if levels is not None:
            return levels
        assert self.problem.listing is not None
        return self.problem.listing.U[:, place]

    def phrases(self) -> tuple[str, ...]:
        """Return what was never tried, for people: "solvent EtOH, DMF"."""
        said = [f"{name} {self._written(name, levels)}" for name, levels in self.labels.items()]
        if not said and any(limit.has_open_combinations for limit in self.limits.values()):
            names = [name for name, is_named in zip(self.problem.axes, self.named, strict=True) if is_named]
            said.append(f"some combinations of {' and '.join(names)}")
        same = sorted({output for limit in self.limits.values() for output in limit.never_varied})
        said += [f"settings where {self.problem.outputs[output]} differs from what it was" for output in same]
        return (*said, BEHIND) if not said and self._is_any_behind_failures else tuple(said)

    @property
    def _is_any_behind_failures(self) -> bool:
        """Whether the nearest evaluation of any place failed, and none was tried beside it."""
        if not len(self.data.failed):
            return False
        U = self.pool(Stream(0))
        behind = np.any([limit.is_behind_failures(U) for limit in self.limits.values()], 0)
        return bool((behind & meets_white(self.problem, U) & ~self._is_lost(U)).any())

    def _written(self, name: str, levels: Sequence[float]) -> str:
        """Return levels of a variable as text, the first of many."""
        place = list(self.problem.axes).index(name)
        variable, u = self.problem.axes[name], np.zeros((len(levels), self.problem.d))
        u[:, place] = levels
        values = self.problem.from_unit(u)[:, list(self.problem.variables).index(name)]
        texts = [f"{variable.at(value):g}" for value in values]
        has_failed = np.asarray(_same(u[:, [place]], self.data.failed[:, [place]]).any(1))
        texts = [f"{text} (failed)" if failed else text for text, failed in zip(texts, has_failed, strict=True)]
        more = len(texts) - SHOWN
        return ", ".join(texts[:SHOWN]) + (f" and {more} more" if more > 0 else "")

    @cached_property
    def _foretelling(self) -> "_Foretelling":
        return _Foretelling(self.problem, self.believer, self.data, self.belief)


class _Limit:
    """What was seen of one limit."""

    def __init__(self, untried: Untried, outputs: tuple[int, ...]) -> None:
        problem, data = untried.problem, untried.data
        active = np.asarray(problem.active[list(outputs)].any(0))
        self.outputs, self.named, self.numbers = outputs, untried.named & active, ~untried.named & active
        self._told = data.U[(np.isfinite(data.Y) | data.limited)[:, list(outputs)].all(1)]
        self._failed = data.failed
        self._foretelling, self._axes = untried._foretelling, list(problem.axes.values())

    @cached_property
    def never_varied(self) -> tuple[int, ...]:
        """The outputs that have shown no variation, or none but noise."""
        return tuple(output for output in self.outputs if not self._foretelling.varies(output))

    def is_foretold(self, places: tuple[int, ...]) -> bool:
        """Whether labels or levels, or combinations of them, are too many to try, and the belief foretells them."""
        if math.prod(_count(self._axes[place]) for place in places) <= MOST_TRIED:
            return False
        return all(self._foretelling.is_foretold(output, places) for output in self.outputs)

    def is_new(self, levels: Float64[ndarray, "b"], place: int) -> Bool[ndarray, "b"]:
        """Tell which labels or levels of a coordinate were never tried; none if nothing depends on it."""
        if not self.named[place]:
            return np.zeros(len(levels), dtype=bool)
        return np.asarray(~_same(levels[:, None], self._told[:, [place]]).any(1))

    def new_levels(self, U: Float64[ndarray, "b d"]) -> Int64[ndarray, "b"]:
        """Return how many labels or levels of each point were never tried."""
        found = np.zeros(len(U), dtype=np.int64)
        for place in self._together:
            found += self.is_new(U[:, place], place)
        return found

    def is_open(self, U: Float64[ndarray, "b d"]) -> Bool[ndarray, "b"]:
        """Tell where the limit could be met because nothing that was seen says otherwise."""
        alike = _same(U[:, self.named], self._told[:, self.named])
        found = np.asarray(~alike.any(1))
        if found.any():
            found &= ~self._is_foretold_at(U)
        if self.never_varied:
            found |= ~(alike & _near(U[:, self.numbers], self._told[:, self.numbers])).any(1)
        return found | self.is_behind_failures(U)

    def is_behind_failures(self, U: Float64[ndarray, "b d"]) -> Bool[ndarray, "b"]:
        """Tell where the nearest evaluation with the same labels and levels failed."""
        return self._away(U, self._failed) < self._away(U, self._told)

    def _away(self, U: Float64[ndarray, "b d"], others: Float64[ndarray, "n d"]) -> Float64[ndarray, "b"]:
        """Return by how much the numbers differ from the nearest others with the same labels; infinite without any."""
        apart = np.where(_same(U[:, self.named], others[:, self.named]), 0.0, np.inf)
        for place in np.flatnonzero(self.numbers):
            apart = np.maximum(apart, np.abs(U[:, [place]] - others[:, place]))
        return np.asarray(apart.min(1, initial=np.inf))

    def _is_foretold_at(self, U: Float64[ndarray, "b d"]) -> Bool[ndarray, "b"]:
        """Tell where the labels and levels, if they are new, or else their combination, are foretold."""
        is_new, foretold = np.zeros(len(U), dtype=bool), np.ones(len(U), dtype=bool)
        for place in self._together:
            here = self.is_new(U[:, place], place)
            is_new |= here
            if here.any() and not self.is_foretold((place,)):
                foretold &= ~here
        if not is_new.all() and not self.is_foretold(self._together):
            foretold &= is_new
        return foretold

    @property
    def _together(self) -> tuple[int, ...]:
        return tuple(np.flatnonzero(self.named).tolist())

    @property
    def has_open_combinations(self) -> bool:
        """Whether combinations of labels and levels that were tried by themselves may still be anything."""
        return len(self._together) > 1 and not self.is_foretold(self._together)


class _Foretelling:
    """How well the belief foretells measurements that were left out."""

    def __init__(self, problem: Problem, believer: Believer, data: Dataset, belief: GP) -> None:
        self._problem, self._believer, self._data, self._belief = problem, believer, data, belief
        self._deviation = deviations(data.Y)
        self._errors = cache(self._compared)

    def varies(self, output: int) -> bool:
        """Whether what was told of an output shows how it varies."""
        values = self._data.Y[:, output]
        values = values[np.isfinite(values)]
        span = float(np.ptp(values)) if len(values) else 0.0
        if span == 0.0 or len(np.unique(np.rint((values - values[0]) / (DIFFERENT * span)))) < DISTINCT:
            return False
        if self._problem.noise[output] == 0:
            return True
        if len(values) < FEWEST_SHOWN:
            return False
        errors = self._errors(tuple(range(self._problem.d)))
        return errors is not None and bool(errors[0][output] <= EXPLAINED * errors[1][output])

    def is_foretold(self, output: int, places: tuple[int, ...]) -> bool:
        """Whether an output at other values of some coordinates is foretold, because it matters which ones they are."""
        errors = self._errors(places)
        if errors is None:
            return False
        knowing, ignorant = (float(each[output]) for each in errors)
        return ignorant > DIFFERENT * float(self._deviation[output]) and knowing <= FORETOLD * ignorant

    def _compared(self, places: tuple[int, ...]) -> tuple[Float64[ndarray, "m"], Float64[ndarray, "m"]] | None:
        """Return errors of predictions for values of some coordinates that are left out in turn; None of too few.

        The second errors are those of the mean over the other values, that is without knowing which one it is.
        """
        U, Y, chosen = self._data.U, self._data.Y, list(places)
        values, group = np.unique(np.rint(U[:, chosen] / SAME), axis=0, return_inverse=True)
        if len(values) < FEWEST_LEFT_OUT:
            return None
        left_out = np.unique(np.linspace(0, len(values) - 1, MOST_LEFT_OUT).astype(int))
        knowing, ignorant = [], []
        for number in left_out.tolist():
            out = group.reshape(-1) == number
            belief = self._believer.conditioned(
                self._problem, self._data.at(np.flatnonzero(~out)), self._belief.choices
            )
            others = np.delete(values, number, axis=0)[:SHOWN] * SAME
            elsewhere = np.repeat(U[out], len(others), axis=0)
            elsewhere[:, chosen] = np.tile(others, (int(out.sum()), 1))
            foretold = belief.unwarp(belief.moments(np.concatenate([U[out], elsewhere]))[0])
            count = int(out.sum())
            knowing.append(Y[out] - foretold[:count])
            ignorant.append(Y[out] - foretold[count:].reshape(count, len(others), -1).mean(1))
        return _root_mean_square(knowing), _root_mean_square(ignorant)


def _root_mean_square(parts: Sequence[Float64[ndarray, "_ m"]]) -> Float64[ndarray, "m"]:
    """Return the size of errors by output, of those that are known; infinite without any."""
    errors = np.concatenate(parts)
    known = np.isfinite(errors)
    with np.errstate(all="ignore"):
        squares = np.where(known, errors, 0.0) ** 2
        return np.where(known.any(0), np.sqrt(squares.sum(0) / np.maximum(known.sum(0), 1)), np.inf)


def _same(U: Float64[ndarray, "b n"], others: Float64[ndarray, "N n"], within: float = SAME) -> Bool[ndarray, "b N"]:
    """Tell which points agree with which others in all coordinates, one coordinate at a time: arrays stay small."""
    found = np.ones((len(U), len(others)), dtype=bool)
    for mine, theirs in zip(U.T, others.T, strict=True):
        found &= np.abs(mine[:, None] - theirs) <= within
    return found


def _near(U: Float64[ndarray, "b n"], others: Float64[ndarray, "N n"]) -> Bool[ndarray, "b N"]:
    """Tell which points are near to which others."""
    return _same(U, others, FAR)


def _count(variable: Variable) -> int:
    """Return how many values a choice, a count or a list has."""
    return len(variable.only) if variable.only is not None else int(variable.hi - variable.lo) + 1
