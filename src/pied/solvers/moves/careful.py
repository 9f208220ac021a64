"""Careful: every trial meets each limit with a stated probability, from settings that are known to.

The belief for this is the one that is said, with its caution, not the one of searches. Where it knows nothing beyond
the measured settings but their surroundings, steps are short; they grow with what was predicted well.
"""

from dataclasses import dataclass

import numpy as np
from numpy import ndarray

from pied.bounds import Bounds, Composite
from pied.errors import SettingError, ways
from pied.problem import Problem
from pied.records import Dataset, Why, feasible
from pied.search import Optimum
from pied.shapes import Float64
from pied.solvers.calendar import EDGE, is_turn
from pied.solvers.moves.base import Found, Move
from pied.solvers.turn import Turn

REACHES = (0.3, 0.1, 0.03, 0.01, 0.003, 0.001)
"""Shares of the ranges from which points around the safe settings are tried: safe regions may be that narrow."""
TRIED = 64
"""Points of each reach around each safe setting."""
SAFE_ONES = 6
"""Safe settings around which points are tried: the best ones."""
LEAST_GAIN = 1e-4
"""Of the objective's scale: a point that promises less is left for one that shows how far safe settings go."""
LEAST_TOLD = 2
"""Measurements that a belief needs."""


@dataclass(frozen=True)
class Careful(Move):
    """The best point that is safe, or the one from which most is learned of how far safe settings go."""

    probability: float
    """With which each limit has to be met."""
    name = "careful"
    evidence = (
        "smooth problems: 1 of 60 exact trials breaks a limit, 10 of 60 usual ones; cliffs: 10 of 40 and 23 of 40"
    )

    def propose(self, turn: Turn) -> Found | None:
        """Return a point that meets every limit as surely as is asked for."""
        scene, run = turn.scene, turn.run
        composite = run.settings.believer.said(turn.problem, scene.data, scene.told, scene.stream, turn.level)
        low = 1.0 - self.probability
        bounds = Bounds(composite, (turn.level,) + (low,) * turn.problem.n)
        pool = self._around(turn)
        optimistic = turn.top(turn.best)
        if not is_turn(EDGE, scene.number):
            best = scene.surely_within.solve(
                bounds, scene.scales, np.concatenate([scene.pool, pool]), scene.known, scene.stream, rescue=False
            )
            gain = turn.promised(best)
            if best.satisfied and gain > LEAST_GAIN * scene.scales[0] and not turn.repeats(best.u):
                return best, Why("safe", optimistic=optimistic)
        u = self._widest(turn, bounds, composite, np.concatenate([pool, scene.pool]))
        f = bounds.values(u[None])[0]
        return Optimum(u, f, satisfied=True, margin=0.0), Why("edge", optimistic=optimistic)

    def _around(self, turn: Turn) -> Float64[ndarray, "b d"]:
        """Return points around the best settings known to be safe."""
        scene = turn.scene
        order = np.argsort(np.where(scene.is_feasible, -scene.f[:, 0], np.inf), kind="stable")
        safe = scene.data.U[order[: min(SAFE_ONES, int(scene.is_feasible.sum()))]]
        noise = scene.stream.at("careful").normal(len(REACHES), len(safe), TRIED, turn.problem.d)
        U = safe[:, None] + np.array(REACHES)[:, None, None, None] * noise
        U = turn.problem.onto(np.clip(U.reshape(-1, turn.problem.d), 0.0, 1.0))
        U = turn.problem.settled(U, scene.stream.at("careful", "settled"))
        return U if turn.problem.grid is None else turn.problem.grid.snapped(U)

    def _widest(
        self, turn: Turn, bounds: Bounds, composite: Composite, pool: Float64[ndarray, "b d"]
    ) -> Float64[ndarray, "d"]:
        """Return the safe point of a pool where limits and objective are known least."""
        scene = turn.scene
        safe = np.asarray((bounds.values(pool)[:, 1:] >= 0).all(1))
        if scene.success is not None:
            safe &= scene.success.is_likely(pool)
        safe &= np.array([is_safe and not turn.repeats(u) for u, is_safe in zip(pool, safe.tolist(), strict=True)])
        if not safe.any():
            raise none_safe()
        lower, upper = (
            composite.values(pool[safe], [level] * turn.problem.k, screening=True)
            for level in (1.0 - turn.level, turn.level)
        )
        return pool[safe][int(((upper - lower) / scene.scales).sum(1).argmax())]


def check_safe(problem: Problem, data: Dataset) -> None:
    """Refuse to guess where no settings are known to be safe."""
    if len(data.U) < LEAST_TOLD or not feasible(problem, data.functions(problem)).any():
        raise SettingError(
            "a careful study begins at settings that are known to meet all limits: tell at least "
            f"{LEAST_TOLD} measurements, one of which does: {ways().older}"
        )


def none_safe() -> SettingError:
    """Return what is said where nothing new is safe."""
    return SettingError(
        "no settings beside the measured ones are known to meet all limits with this probability: measure some that "
        f"you trust, or ask for less: {ways().less}"
    )
