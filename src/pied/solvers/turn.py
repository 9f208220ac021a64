"""One trial to be proposed: what is known at its start, and what every move may ask of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from numpy import ndarray

from pied.bounds import Composite, Joint, Widened, is_shared, optimistic, quantile
from pied.problem import Problem
from pied.search import Optimum, Search
from pied.shapes import Float64
from pied.solvers.frame import BayesRun
from pied.solvers.scene import Scene


@dataclass(frozen=True, eq=False)
class Turn:
    """What a move sees."""

    run: BayesRun
    scene: Scene
    """What the next point is sought in: all that is known, or the part of it that an earlier move chose."""
    joint: bool
    """Whether functions of the same outputs share one outcome."""
    verdict: str
    """How feasibility is tested."""
    memory: Mapping[str, Any] = field(default_factory=dict)
    """What moves that chose a part want to find again at the next trial."""

    @property
    def problem(self) -> Problem:
        """The statement."""
        return self.run.problem

    @property
    def level(self) -> float:
        """p of the bounds that are said: the objective's."""
        return self.run.level

    @property
    def levels(self) -> tuple[float, ...]:
        """p of the upper bound of each function."""
        return self.run.levels

    @property
    def is_known(self) -> bool:
        """Whether some told point meets all limits."""
        return bool(self.scene.is_feasible.any())

    @property
    def is_waiting(self) -> bool:
        """Whether trials are pending."""
        return bool(len(self.scene.data.pending))

    @property
    def is_in_regimes(self) -> bool:
        """Whether points are sought in one of two clear regimes, by turns."""
        return "home" in self.memory

    def repeats(self, u: Float64[ndarray, "d"]) -> bool:
        """Whether an evaluation at a point would teach nothing."""
        return self.run.repeats(self.scene, u)

    # ---------------------------------------------------------------------------------------------------- upper bounds

    @cached_property
    def best(self) -> Optimum:
        """The maximum of the upper bound."""
        return self.optimum(self.scene.composite)

    @cached_property
    def gain(self) -> float:
        """What it promises."""
        return self.promised(self.best)

    def optimum(self, composite: Composite) -> Optimum:
        """Maximize the upper bound of the objective: over joint outcomes if possible, else each function alone.

        What separate bounds exclude no joint outcome meets, and they are asked first where they seem to exclude all.
        """
        scene, level = self.scene, self.level
        stream = scene.stream.at("explore")
        if not (self.is_joint and isinstance(scene.within, Search)):
            return self._alone(composite)
        offers = composite.offers(level)
        alone = self._alone(composite) if offers and self._seems_excluded(composite) else None
        if alone is None or alone.satisfied:
            joint = Joint(composite, quantile.normal(level))
            best = joint.maximum(scene.within, scene.scales, scene.pool, scene.known, stream)
            if best.satisfied or not offers:
                return best
        return alone or self._alone(composite)

    def _alone(self, composite: Composite) -> Optimum:
        """Maximize the upper bound of the objective, each function bounded alone."""
        scene, bounds = self.scene, optimistic(composite, self.levels)
        return scene.within.solve(bounds, scene.scales, scene.pool, scene.known, scene.stream.at("explore"))

    def _seems_excluded(self, composite: Composite) -> bool:
        """Whether no told point meets all limits, and no point of the pool by its upper bounds."""
        if self.is_known:
            return False
        bounds = optimistic(composite, self.levels)
        f = (bounds.coarse() or bounds).values(self.scene.pool)
        return not bool((f[:, 1:] >= 0).all(1).any())

    def promised(self, best: Optimum) -> float:
        """By how much an upper bound exceeds the best feasible told value; infinite without one."""
        values = self.scene.f[self.scene.is_feasible_here, 0]
        return float(best.f[0] - values.max()) if len(values) else float("inf")

    def widened(self, factor: float) -> Composite:
        """The belief with deviations wider by a factor, composed with g; wider ones go on beyond plateaus."""
        scene = self.scene
        belief = scene.belief.beyond_plateaus if factor > 1.0 else scene.belief
        return self.run.settings.believer.bound(self.problem, scene.data, Widened(belief, factor), scene.stream)

    def reach(self, U: Float64[ndarray, "b d"], factor: float) -> Float64[ndarray, "b k"]:
        """Return all functions at one outcome that improves them most, if they share outputs; else their bounds."""
        wide = self.widened(factor)
        if not self.is_joint:
            return optimistic(wide, self.levels).values(U)
        joint = Joint(wide, quantile.normal(self.level))
        return joint.values(joint.lifted(U, self.scene.scales))[:, : self.problem.k]

    @property
    def is_joint(self) -> bool:
        """Whether points and outcomes are searched together."""
        return (
            self.joint
            and len(set(self.levels)) == 1
            and is_shared(self.scene.composite)
            and isinstance(self.scene.within, Search)
        )

    def top(self, best: Optimum) -> float | None:
        """The largest upper bound found; of a list, whose told candidates are not searched again, with their values."""
        told = self.scene.f[self.scene.is_feasible_here, 0] if self.run.is_finite else self.scene.f[:0, 0]
        tops = [*told.tolist(), *([float(best.f[0])] if best.satisfied else [])]
        return max(tops, default=None)

    def is_certain(self, u: Float64[ndarray, "d"], least: float) -> bool:
        """Whether the objective is known at a point to a share of its scale, and all limits surely hold there."""
        lower, _, upper = (bounds[0] for bounds in self.scene.composite.bounds(u[None], self.level))
        return bool(upper[0] - lower[0] <= least * self.scene.scales[0] and (lower[1:] >= 0).all())
