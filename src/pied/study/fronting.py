"""Compute the front of a study: which told points are on it, their bounds, and how far it could still grow."""

from dataclasses import replace
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy import ndarray

from pied.bounds import Composite, SuccessModel, coding_of, where_success_is_likely
from pied.hypervolume import nondominated
from pied.problem import Problem
from pied.records import Dataset, Trial, spread
from pied.rng import Stream
from pied.search import Enumeration, Search
from pied.shapes import Float64
from pied.solvers.front import Sight, expected_front, largest_growth, possible_front, told_front
from pied.solvers.frontier import End, Frontier
from pied.study.front import Front, FrontPoint
from pied.study.recommendation import settable
from pied.study.relaxation import searched
from pied.study.words import Words

GROWTH_SEARCH = Search(relays=0)
"""Search of the largest growth: all digits, because only values are used."""
GROWTHS = 4
"""Searches of the optimistic front, one after the other, each above what the earlier ones found."""
MOST_CLOUDS = 48
"""Points of the front around which the pool is dense."""
POSSIBLE_POINTS = 400
"""Points of the optimistic front that are kept: a picture shows no more."""
POSSIBLE_OF_MORE = 60
"""The same with three or more objectives, where the boxes above a front grow with a power of their number."""


@runtime_checkable
class FrontSource(Protocol):
    """What a front needs of a `Snapshot`, which stands above."""

    @property
    def problem(self) -> Problem:
        """The question."""

    @property
    def trials(self) -> tuple[Trial, ...]:
        """All trials."""

    @property
    def data(self) -> Dataset:
        """The record as arrays."""

    @property
    def settings(self) -> Any:
        """The solver's settings."""

    @property
    def stream(self) -> Stream:
        """Random numbers."""

    @property
    def belief(self) -> Any:
        """The belief behind the answers."""

    @property
    def level(self) -> float:
        """p of the bounds that are said."""

    def composite(self, label: str) -> Composite:
        """Return the bounds of all functions."""


def front_of(snapshot: FrontSource) -> Front:
    """Return the front of the told points of a study."""
    problem, data, level = snapshot.problem, snapshot.data, snapshot.level
    signs, names = problem.goal_signs, problem.objectives
    minimized = tuple(bool(sign < 0) for sign in signs)
    nothing = Front((), names, minimized, problem.goal_units, None, 0.0, {}, np.zeros((0, len(names))))
    if not bool(data.complete.any()):
        return nothing
    settings = snapshot.settings
    composite = settings.believer.said(
        problem.side_by_side, data, snapshot.belief, snapshot.stream.at("recommend"), level
    )
    values, fine = told_front(problem, data, composite)
    fine = fine & settable(problem, data)
    rows = np.flatnonzero(nondominated(np.where(fine[:, None], values, np.nan)))
    if not len(rows):
        return replace(nothing, growth=np.inf)
    rows = rows[(-values[rows, 0]).argsort(kind="stable")]
    points = _points(snapshot, composite, rows, values)
    frontier, reached, growth = _possible(snapshot, composite, values[rows], data.U[rows])
    size = float(np.prod(frontier.extent))
    return Front(
        points,
        names,
        minimized,
        problem.goal_units,
        growth,
        frontier.volume * size,
        dict(zip(names, (frontier.reference * signs).tolist(), strict=True)),
        reached * signs,
    )


def _points(
    snapshot: FrontSource,
    composite: Composite,
    rows: ndarray,
    values: Float64[ndarray, "N r"],
) -> tuple[FrontPoint, ...]:
    """Return what is known at the points of the front."""
    problem, data, level = snapshot.problem, snapshot.data, snapshot.level
    whole, places = problem.side_by_side, problem.goal_places
    lower, median, upper = composite.bounds(data.U[rows], level)
    each, joint = snapshot.composite("recommend").probability(data.U[rows])
    told = data.functions(whole)[rows]
    if problem.is_exact:
        median, lower, upper = told, np.fmin(lower, told), np.fmax(upper, told)
    trials = {trial.number: trial for trial in snapshot.trials}
    words, units = Words.of(problem), dict(zip(problem.objectives, problem.goal_units, strict=True))
    made, sign_of = [], np.asarray(problem.goal_signs)
    for i, row in enumerate(rows.tolist()):
        trial = trials[data.numbers[row]]
        ends = sign_of * np.stack([lower[i, places], upper[i, places]])
        bounds = dict(
            zip(problem.objectives, zip(ends.min(0).tolist(), ends.max(0).tolist(), strict=True), strict=True)
        )
        limits = {name: (float(lower[i, j]), float(upper[i, j])) for j, name in enumerate(problem.constraints, 1)}
        probability = {name: float(each[i, j]) for j, name in enumerate(problem.constraints)}
        made.append(
            FrontPoint(
                x=trial.x,
                y=trial.y,
                values=dict(zip(problem.objectives, (values[row] * problem.goal_signs).tolist(), strict=True)),
                bounds={**bounds, **limits},
                slack={name: float(median[i, j]) for j, name in enumerate(problem.constraints, 1)},
                probability=probability | ({"all": float(joint[i])} if problem.n else {}),
                trial=trial.number,
                words=words,
                units=units,
            )
        )
    return tuple(made)


def _thinned(reached: Float64[ndarray, "p r"]) -> Float64[ndarray, "b r"]:
    """Return some points of a front, spread over the first value."""
    most = POSSIBLE_POINTS if reached.shape[1] == 2 else POSSIBLE_OF_MORE
    ordered = reached[reached[:, 0].argsort(kind="stable")]
    return ordered[np.linspace(0, len(ordered) - 1, min(most, len(ordered))).round().astype(int)]


def _possible(
    snapshot: FrontSource, composite: Composite, front: Float64[ndarray, "N r"], U: Float64[ndarray, "N d"]
) -> tuple[Frontier, Float64[ndarray, "p r"], float]:
    """Return the front with its reference point, the optimistic front, and by how much, relatively, it is larger."""
    problem, stream, level = snapshot.problem, snapshot.stream.at("growth"), snapshot.level
    search = searched(problem, GROWTH_SEARCH)
    if (success := SuccessModel.fit(snapshot.data.U, snapshot.data.failed, coding_of(problem))) is not None:
        search = where_success_is_likely(search, success)
    known = np.clip(U[np.linspace(0, len(U) - 1, min(MOST_CLOUDS, len(U))).round().astype(int)], 0.0, 1.0)
    pool = problem.settled(search.screen(stream, problem.d, known), stream.at("within"))
    expected, scales = expected_front(problem, composite, pool)
    frontier = Frontier.of(front, expected, scales)
    medians = composite.values(pool, [0.5] * composite.problem.k, screening=True)
    sight = Sight(composite, frontier, np.concatenate([[1.0], spread(medians)[1 : problem.k]]))
    ends = []
    for place in range(0 if isinstance(search, Enumeration) else len(problem.objectives)):
        there = replace(sight, frontier=End.of(frontier, place))
        best, hoped = largest_growth(problem, there, level, search, pool, known, stream.at("end", place))
        if best.satisfied:
            ends.append(hoped)
    hopes = np.array(ends).reshape(len(ends), front.shape[1])
    frontier = Frontier.of(front, np.concatenate([expected, hopes]), scales)
    sight = replace(sight, frontier=frontier)
    reached = possible_front(problem, sight, level, pool)
    above = frontier.with_points(_thinned(np.concatenate([reached, hopes])))
    for number in range(0 if isinstance(search, Enumeration) else GROWTHS):
        sight = replace(sight, frontier=above)
        best, hoped = largest_growth(problem, sight, level, search, pool, known, stream.at("largest", number))
        if not best.satisfied or best.f[0] <= 0:
            break
        above = above.with_points(hoped[None])
    told = frontier.volume
    return frontier, above.F, (above.volume - told) / told if told > 0 else np.inf
