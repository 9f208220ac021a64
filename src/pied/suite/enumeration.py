"""The optimum of cheap functions of a setting and of continuous variables, by trying every setting.

Continuous variables are solved for in every setting: roughly in all of them at once, by ever smaller clouds of points
around the best ones (ridges of a penalty function stop ascents along slopes), then precisely, by a local solver, in
every setting that can compete.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy import ndarray

from pied.rng import Stream
from pied.shapes import Float64, Int64
from pied.suite.benchmark import Benchmark, Known
from pied.suite.elementary import median
from pied.suite.optimum import PENALTY, Scaled, Truth

Settled = Callable[[Int64[ndarray, "b"], Float64[ndarray, "b a"]], Float64[ndarray, "b q"]]
"""From settings (their numbers) and points of the unit cube to values: objective first, constraints (met when >= 0)."""

MOST_STARTS = 24
"""Points of one setting around which it is searched, at most."""
APART = 0.02
"""Ends of the rough search that are nearer to each other in every coordinate are one."""
OTHER_STARTS = 16
"""Points of a setting from which it is solved if the ends of the rough search led to nothing feasible."""
BLOCK = 200_000
"""Points evaluated at once."""


@dataclass(frozen=True)
class Thoroughness:
    """The effort of an enumeration."""

    pool: int = 64
    """Points at which each setting is looked at."""
    starts: int = 2
    """Points of each setting around which it is searched, at least."""
    rows: int = 1200
    """Points of all settings around which they are searched, at least: with few settings, more in each."""
    turns: int = 20
    """Clouds around each of them, each smaller than the last."""
    cloud: int = 8
    """Points of a cloud."""
    whole: int = 300
    """Up to so many settings are all solved precisely."""
    margin: float = 0.03
    """Of the spread of the objective: a setting whose rough value is this much below the best cannot compete."""
    most: int = 4000
    """Settings that are solved precisely, at most."""


@dataclass(frozen=True)
class Settling:
    """The result of an enumeration."""

    setting: int
    """The number of the best setting."""
    u: Float64[ndarray, "a"]
    """The best point of the cube in it."""
    value: float
    """The objective there."""
    solved: int
    """Settings that were solved precisely."""
    complete: bool
    """Whether these were all settings that could compete."""


def enumerated(
    benchmark: Benchmark, effort: Thoroughness | None = None, *, truth: Truth | None = None, pieces: int = 1
) -> Known | None:
    """Find the optimum of a problem by trying every setting; None if nothing feasible is found.

    Args:
        benchmark: the problem.
        effort: effort of the search.
        truth: its functions at points in natural units, if they have kinks that `pieces` take apart.
        pieces: how many of them belong to the objective, which is their minimum.
    """
    whole, grid = benchmark.whole, benchmark.whole.grid
    is_discrete = np.zeros(whole.d, dtype=bool) if grid is None else grid.is_discrete
    places = [] if grid is None else [each for each in grid.places if each is not None]
    sizes = tuple(len(each) for each in places) or (1,)

    def points(which: Int64[ndarray, "b"], U: Float64[ndarray, "b a"]) -> Float64[ndarray, "b d"]:
        full = np.empty((len(which), whole.d))
        full[:, ~is_discrete] = U
        for axis, rows, values in zip(
            np.flatnonzero(is_discrete), np.unravel_index(which, sizes), places, strict=False
        ):
            full[:, axis] = values[rows]
        return benchmark.settable(whole.from_unit(full))

    of = truth or benchmark.truth
    settings, a = math.prod(sizes), int((~is_discrete).sum())
    stream = Stream(0).at("enumeration", benchmark.name)
    found = enumerate_settings(
        lambda which, U: of(points(which, U)), settings, a, stream=stream, effort=effort, pieces=pieces
    )
    if found is None:
        return None
    X = np.clip(points(np.array([found.setting]), found.u[None])[0], *whole.bounds.T)
    value = float(benchmark.truth(X[None])[0, 0])
    how = "all settings that can compete" if found.complete else f"the best {found.solved} settings only"
    source = f"enumeration of {settings:,} settings" + (f"; the continuous rest solved in {how}" if a else "")
    named = {
        name: each.labels[round(x)] if each.labels else x
        for (name, each), x in zip(whole.variables.items(), X.tolist(), strict=True)
    }
    return Known(whole.user_value(value), named, source)


@np.errstate(all="ignore")
def enumerate_settings(
    functions: Settled,
    settings: int,
    a: int,
    *,
    stream: Stream,
    effort: Thoroughness | None = None,
    pieces: int = 1,
) -> Settling | None:
    """Maximize the smallest of the first functions subject to the others >= 0; None if nothing feasible is found.

    Args:
        functions: the truth.
        settings: how many settings there are.
        a: continuous variables, 0 if there are none.
        stream: randomness of the points.
        effort: effort of the search.
        pieces: how many functions belong to the objective, which is their minimum.
    """
    effort = effort or Thoroughness()
    if a == 0:
        return _listed(functions, settings, pieces)
    cube = stream.at("pool").sobol(effort.pool, a)
    F = _blocks(functions, np.repeat(np.arange(settings), effort.pool), np.tile(cube, (settings, 1)))
    objective = F[:, :pieces].min(-1)
    low, high = np.quantile(objective, [0.25, 0.75]).tolist()
    scale = median(np.abs(F))
    scale[:pieces] = (high - low) or float(np.abs(objective).max()) or 1.0
    looked = _Looked(functions, pieces, np.where(scale > 0, scale, 1.0), cube, F.reshape(settings, effort.pool, -1))
    return looked.solved(*looked.zoomed(effort, stream), effort)


def _listed(functions: Settled, settings: int, pieces: int) -> Settling | None:
    """Compare settings without continuous variables."""
    best: Settling | None = None
    for begin in range(0, settings, BLOCK):
        which = np.arange(begin, min(begin + BLOCK, settings))
        F = functions(which, np.zeros((len(which), 0)))
        values = np.where((F[:, pieces:] >= 0).all(-1), F[:, :pieces].min(-1), -np.inf)
        place = int(values.argmax())
        if values[place] > (-np.inf if best is None else best.value):
            best = Settling(int(which[place]), np.zeros(0), float(values[place]), settings, True)
    return best


def _blocks(functions: Settled, which: ndarray, U: ndarray) -> Float64[ndarray, "b q"]:
    """Evaluate many points, some at a time."""
    parts = [functions(which[i : i + BLOCK], U[i : i + BLOCK]) for i in range(0, len(U), BLOCK)]
    return np.concatenate(parts)


@dataclass(frozen=True, eq=False)
class _Looked:
    """The functions, looked at in every setting, with their sizes, which makes the search independent of units."""

    functions: Settled
    pieces: int
    scale: Float64[ndarray, "q"]
    cube: Float64[ndarray, "p a"]
    """Points of the unit cube, the same in every setting."""
    F: Float64[ndarray, "s p q"]
    """The functions there."""

    def merit(self, F: Float64[ndarray, "*b q"]) -> Float64[ndarray, "*b"]:
        """Return the scaled objective minus the weighted scaled violations; -inf where it is not finite."""
        scaled = F / self.scale
        violated = np.maximum(-scaled[..., self.pieces :], 0).sum(-1)
        merit = scaled[..., : self.pieces].min(-1) - PENALTY * violated
        return np.where(np.isfinite(merit), merit, -np.inf)

    def zoomed(self, effort: Thoroughness, stream: Stream) -> tuple[Float64[ndarray, "s e a"], Float64[ndarray, "s e"]]:
        """Maximize the merit around the best points of each setting; return the ends and their merits."""
        settings, a = len(self.F), self.cube.shape[1]
        starts = min(max(effort.starts, effort.rows // settings), MOST_STARTS)
        first = np.argsort(-self.merit(self.F), axis=1, kind="stable")[:, :starts]
        which, U = np.repeat(np.arange(settings), first.shape[1]), self.cube[first.ravel()]
        every = np.arange(len(U))
        merit, size = self.merit(_blocks(self.functions, which, U)), np.full(len(U), 0.15)
        for turn in range(effort.turns):
            way = stream.at("cloud", turn).normal(effort.cloud, a)
            near = np.clip(U[:, None] + size[:, None, None] * way, 0, 1)
            F = _blocks(self.functions, np.repeat(which, effort.cloud), near.reshape(-1, a))
            values = self.merit(F).reshape(len(U), effort.cloud)
            place = values.argmax(1)
            is_better = values[every, place] > merit
            U = np.where(is_better[:, None], near[every, place], U)
            merit = np.maximum(merit, values[every, place])
            size = np.where(is_better, 1.1 * size, 0.5 * size)
        return U.reshape(settings, -1, a), merit.reshape(settings, -1)

    def solved(
        self, ends: Float64[ndarray, "s e a"], heights: Float64[ndarray, "s e"], effort: Thoroughness
    ) -> Settling | None:
        """Solve precisely in the settings that can compete, the most promising first."""
        best: Settling | None = None
        top = heights.max(1)
        order, solved, complete = np.argsort(-top, kind="stable").tolist(), 0, True
        for setting in order:
            if (
                best is not None
                and len(order) > effort.whole
                and top[setting] < best.value / self.scale[0] - effort.margin
            ):
                break
            if solved == effort.most:
                complete = False
                break
            solved += 1
            here = self._within(setting)
            u = here.polished(_distinct(ends[setting], heights[setting], effort.margin))
            if u is None:  # no solve ended within the constraints: others may
                u = here.polished(self._others(setting, ends[setting]))
            if u is not None and (best is None or here.objective(u) > best.value):
                best = Settling(setting, u, here.objective(u), solved, True)
        return None if best is None else replace(best, solved=solved, complete=complete)

    def _others(self, setting: int, ends: Float64[ndarray, "e a"]) -> Float64[ndarray, "s a"]:
        """Return further starts in one setting: every end of the rough search, then the best points looked at."""
        order = np.argsort(-self.merit(self.F[setting]), kind="stable")
        return np.concatenate([ends, self.cube[order[:OTHER_STARTS]]])

    def _within(self, setting: int) -> Scaled:
        """Return the functions of the continuous variables in one setting."""

        def functions(U: Float64[ndarray, "b a"]) -> Float64[ndarray, "b q"]:
            return self.functions(np.full(len(U), setting), U)

        return Scaled(functions, self.pieces, self.cube, self.F[setting], self.scale, float(self.scale[0]))


def _distinct(ends: Float64[ndarray, "e a"], heights: Float64[ndarray, "e"], margin: float) -> Float64[ndarray, "s a"]:
    """Return the ends that differ and can compete with the best of them, best first."""
    kept: list[ndarray] = []
    for place in np.argsort(-heights, kind="stable").tolist():
        near = any(np.abs(ends[place] - each).max() < APART for each in kept)
        if not near and heights[place] > heights.max() - 10 * margin:
            kept.append(ends[place])
    return np.stack(kept)
