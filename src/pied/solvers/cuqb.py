"""CUQB: optimistic constrained search with quantile bounds of g(x, h(x)), and pessimistic verification.

The settings are `CUQB`, one iteration is the frame (`solvers.frame`) around `CUQBRun._explore`, and the test of
feasibility is `solvers.infeasibility`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any, ClassVar

import numpy as np
from numpy import ndarray

from pied.bounds import (
    Believer,
    Composite,
    Estimator,
    Joint,
    Level,
    SuccessModel,
    TwoRegimes,
    White,
    Widened,
    checked_level,
    from_memory,
    is_shared,
    optimistic,
    quantile,
    sampled,
    telling,
    to_memory,
)
from pied.distances import to_nearest
from pied.errors import SettingError
from pied.gp import Choice, Model
from pied.problem import Problem
from pied.records import Why
from pied.rng import Stream
from pied.search import Mixed, Optimum, PenaltySearch, Search
from pied.shapes import Bool, Float64
from pied.solvers import nearby, plainly, probes, regimes, sober
from pied.solvers.acquisition import incumbent, maximize
from pied.solvers.answers import Answers
from pied.solvers.base import Solver
from pied.solvers.frame import USUAL_POINTS, BayesRun, Scene, Settings, meets_white
from pied.solvers.infeasibility import VERDICT_LEVEL, JointTest, single_margin
from pied.solvers.sampled import NOISY_SAMPLES, NOISY_SCREENING, SAMPLES, SCREENING, TEMPERATURE, Sampled

__all__ = ["CUQB", "VERDICT_LEVEL", "BayesRun", "CUQBRun", "Scene", "Settings", "paper"]

PROBE_BELOW_GAIN = 1e-5  # of the objective's scale: below this promised gain, probe off the active box bounds first
WIDEN_BELOW_GAIN = 1e-7  # of the objective's scale: below this promised gain, search with wider bounds
WIDENINGS = (2.0, 3.0)  # factors of the deviations, tried in turn until the bounds promise a gain
SETTLED_GAIN = 1e-3  # of the objective's scale: with noise, an optimum whose bounds differ by less is known
SETTLED_DISTANCE = 0.03  # unit cube: nothing is known, however sure the belief is, if no told point is this near
EXACT_WIDTH = 1e-9  # of the objective's scale: bounds that differ by less are one value
BOUNDS_EVERY = 2  # where expectation takes turns with bounds, every so-many-th trial is sought by bounds
TELLING = 0.5  # with noise: what the belief leaves open has to be this share of a measurement's deviation
TELLING_WIDENINGS = (3.0, 10.0)  # factors of the deviations, tried in turn until such a measurement promises more
LOOK_EVERY = 3  # with a known optimum, every so-many-th trial looks elsewhere; the others measure it more exactly


@dataclass(frozen=True)
class CUQB(Solver):
    """The constrained upper quantile bound, with the changes to the paper that did better in benchmarks.

    `CUQB.paper()` is the method without them.

    Example: `docs/recipes.md`.
    """

    name: ClassVar[str] = "cuqb"
    lists: ClassVar[bool] = True
    fronts: ClassVar[bool] = True

    level: Level = 0.95
    """p: the upper bound is Q(p), the lower Q(1 - p); or the schedule of Lemma 1, `bounds.quantile.confidence`."""
    verify_every: int | None = 3
    """After the initial design, every so-many-th trial maximizes the median objective subject to lower bounds.
    None: never."""
    believer: Believer = field(default_factory=Believer)
    """The models to choose from and the estimator of quantiles."""
    search: Search | PenaltySearch = field(default_factory=Search)
    """How the subproblem is solved."""
    verdict: str = "joint"
    """"joint": all constraints together, at z = 3; "single": one at a time, at the level (the paper's)."""
    widen: bool = True
    """Whether bounds are widened once those at the level promise no gain: over the best told value of an exact black
    box; with noise over what is certain at the optimum itself, or where a measurement would tell little but its
    noise."""
    probe: bool = True
    """Whether an exact black box is probed near the best point, off the box bounds it lies on (`solvers.probes`) and in
    the settings beside its own, once the upper bound promises hardly any gain."""
    penalty: float | None = None
    """rho of the recommendation (14), natural units; None: from the multipliers of the subproblems."""
    joint: bool = True
    """Whether functions of the same outputs share one outcome (`bounds.joint`); False: each has its own upper bound
    (the paper's)."""
    regimes: bool = True
    """Whether outputs with a cliff are searched one side at a time (`solvers.regimes`), and where nothing explains an
    output well, by turns the surroundings of the best point (`solvers.nearby`)."""
    expect: bool = True
    """Whether expected improvement (`solvers.sampled`) is sought by turns with bounds: with noise, and where nothing
    explains an exact output of a limit; there, always and of a plain belief where predictions have been far off
    (`solvers.plainly`)."""
    sober: bool = True
    """Whether an exact black box is explored with smaller deviations after explorations that broke limits by far
    (`solvers.sober`)."""
    compare: bool = True
    """Whether the best trial of the initial design is repeated if a program's noise is not stated: equal values show
    that its outputs are exact (`study.repetition`)."""
    strict: bool = False
    """Raise instead of climbing the numerical ladder; for benchmarks and tests."""

    def __post_init__(self) -> None:
        checked_level(self.level)
        if self.verify_every is not None and self.verify_every < 1:
            raise SettingError(f"verify_every counts trials from 1, or is None for never, got {self.verify_every}")
        if self.penalty is not None and not 0 < self.penalty < float("inf"):
            raise SettingError(f"penalty is a positive weight of violated constraints, got {self.penalty}")
        if self.verdict not in ("joint", "single"):
            raise SettingError(f"verdict is 'joint' or 'single', got '{self.verdict}'")

    @classmethod
    def paper(cls) -> "CUQB":
        """Return Algorithm 1 with the settings of table 3: the method as published."""
        return cls(
            level=0.95,
            verify_every=None,
            widen=False,
            probe=False,
            joint=False,
            regimes=False,
            expect=False,
            sober=False,
            compare=False,
            penalty=1e5,
            believer=Believer(
                Model(
                    kernels=("matern 3/2",),
                    trends=("none",),
                    warps=("none",),
                    scales=("plain",),
                    waves=False,
                    resonances=False,
                    plateaus=False,
                    nugget=(1e-4, 1e-3),
                    prior=False,
                    declustering=None,
                    always_refit=10**9,
                ),
                Estimator(
                    kind="soft", samples=50, screening=50, softness=0.1, closed_forms=False, ranges=False, sobol=False
                ),
                cautious=False,
            ),
            search=PenaltySearch(),
            verdict="single",
        )

    @property
    def finds_exact(self) -> bool:
        """Whether a trial is repeated after the initial design if a program's noise is not stated."""
        return self.compare

    @property
    def answers(self) -> Answers:
        """With what a study answers: its own belief; as the paper does, if these are the paper's settings."""
        return Answers(
            level=self.level,
            believer=self.believer,
            penalty=self.penalty,
            tests_singly=self.verdict == "single",
            rule="asked" if self == CUQB.paper() else None,
        )

    def start(self, problem: Problem, stream: Stream) -> BayesRun:
        """Begin a run: for one best point, or for the front of several objectives.

        Raises:
            SettingError: If some function cannot be bounded at the level.
        """
        estimator = self.believer.estimator
        estimator.check(self.level, [problem.functions[i] for i in sampled(problem, estimator)])
        if problem.has_front:
            from pied.solvers.front import FrontRun

            return FrontRun(self, problem, stream)
        return CUQBRun(self, problem, stream)


def paper() -> CUQB:
    """The method exactly as published: Algorithm 1 with the settings of the paper's table 3."""
    return CUQB.paper()


class CUQBRun(BayesRun):
    """One run of CUQB: Algorithm 1."""

    def __init__(self, settings: CUQB, problem: Problem, stream: Stream) -> None:
        super().__init__(settings, problem, stream)
        self._own = settings

    def _staged(self, scene: Scene) -> tuple[Scene, dict[str, Any]]:
        """Return the scene of the best point's regime where there are regimes; else, and every so often, the whole."""
        data, last = scene.data, scene.data.last
        if not self._own.regimes or self.problem.listing is not None:
            return scene, {}
        memory = last.memory.get("home", {}) if last else {}
        is_abroad = scene.number % regimes.ABROAD_EVERY == 0
        believer, is_met = self._own.believer, bool(scene.is_feasible.any())
        scanned = last.memory.get("scanned") if last else None
        every = regimes.EXACT_SCAN_EVERY if self.problem.is_exact else regimes.SCAN_EVERY
        if is_met and scanned is not None and len(data.U) < scanned + every:
            return self._partly(scene), {"scanned": scanned}
        found = regimes.home(self.problem, believer, data, scene.told, scene.known[0], memory, anyway=not is_met)
        if found is None:
            return self._partly(scene), {"scanned": len(data.U)}
        home = cache(partial(self._side, scene, found.elsewhere, found.rough, from_memory(memory)))

        def sides() -> tuple[Scene, ...]:
            both = home(), self._side(scene, ~found.elsewhere, found.rough, None)
            parts = [(side.data, side.told) for side in both]
            return both if regimes.explain_better(self.problem, believer, (data, scene.told), parts) else ()

        if not found.is_clear:
            return self._partly(replace(scene, by_regime=sides)), {}
        staged = scene if is_abroad else replace(home(), whole=scene)
        kept = found.to_memory(data, home().belief.choices)
        both = None if self.problem.is_exact else self._both(scene, home(), found, memory)
        if both is not None:
            kept |= {"rough": found.rough.tolist(), "other": to_memory(both.beliefs[1].choices)}
        return replace(staged, by_regime=sides, regimes=both), {"home": kept}

    def _partly(self, scene: Scene) -> Scene:
        """Return what is searched where an output of a limit is badly explained, without regimes; else the given scene.

        It is the surroundings of the best point. As long as too few points were told for that, it is everything, by a
        plain belief, where predictions have been far off.
        """
        if not self.problem.is_exact or not isinstance(scene.search, Search) or not self._is_limit_rough(scene):
            return scene
        found = nearby.around(scene.data, scene.known[0])
        if found is not None:
            return self._nearby(scene, *found)
        if not self._own.expect or not plainly.is_misled(self.problem, scene.data):
            return scene
        side = self._scene(scene.number, scene.data, None, scene.stream, plainly.plain(self._own.believer))
        return replace(side, whole=scene, is_plain=True)

    def _nearby(self, scene: Scene, ball: nearby.Ball, far: Bool[ndarray, "N"]) -> Scene:
        """Return the surroundings of the best point, by turns; else the whole."""
        data, is_met = scene.data, bool(scene.is_feasible.any())
        if not is_met or len(data.pending) or scene.number % nearby.EVERY == 0:
            return scene
        side = self._scene(scene.number, data.without(far, np.ones(self.problem.m, dtype=bool)), None, scene.stream)
        pool, region = self.problem.on_equalities(ball.points(scene.pool)), SuccessModel(ball, self.problem.d)
        region = replace(region, within=scene.success)
        return replace(side, pool=pool, scales=scene.scales, whole=scene, nearby=region)

    def _both(self, scene: Scene, home: Scene, found: regimes.Home, memory: Mapping[str, Any]) -> TwoRegimes | None:
        """Return what is said of noisy outputs with regimes.

        Values of exact ones show what a belief that spans a cliff is worth, and its bounds are widened by it; noise
        hides that.
        """
        previous, believer = (None, from_memory(memory.get("other", {}))), self._own.believer
        told = believer.of_told(self.problem, home.data, home.told)
        return TwoRegimes.of(
            self.problem, believer, scene.data, found.elsewhere, found.rough, previous, scene.stream,
            self.level, told, home.success,
        )  # fmt: skip

    def _side(
        self,
        scene: Scene,
        elsewhere: Bool[ndarray, "N"],
        rough: Bool[ndarray, "m"],
        previous: tuple[Choice, ...] | None,
    ) -> Scene:
        """Return the scene of one regime: rough outputs of the other count as not told."""
        side = self._scene(scene.number, scene.data.without(elsewhere, rough), previous, scene.stream)
        return replace(side, elsewhere=elsewhere, rough=rough)

    def _explore(self, scene: Scene) -> tuple[Optimum, Why]:
        """Seek by bounds; by turns, where they say little, by what is to be expected.

        Bounds of a limit that nothing explains are met everywhere, and the most optimistic of all points is at some
        corner of the box, again and again. An expectation counts how likely a limit is to hold. With noise, it is also
        sought while no told point meets all limits in the median.
        """
        is_known, is_turn = bool(scene.is_feasible.any()), self.problem.is_exact and self._expects(scene)
        factor = self._sobered(scene) if is_known else 1.0
        sobered = scene if factor == 1.0 else replace(scene, composite=self._widened(scene, factor))
        if is_turn and is_known:
            return self._expected(sobered), Why("improve")
        if sobered is not scene:
            best = self._optimistic(sobered, sobered.composite)
            least = PROBE_BELOW_GAIN * scene.scales[0]
            if best.satisfied and self._promised_gain(scene, best) > least and not self._repeats(scene, best.u):
                return best, Why("explore", multipliers=best.multipliers)  # smaller bounds say nothing of other points
        usual = scene.whole if scene.is_plain else None  # whether any point meets the limits is tested by this belief
        best, why = self._tested(usual or scene)
        if (is_turn or self._seeks_limits(scene)) and best.satisfied and why.margin is None:
            return self._expected(scene), Why("feasibility")
        return best, why

    def _sobered(self, scene: Scene) -> float:
        """Return by which factor deviations are multiplied.

        Where there are regimes, their border is looked for. A plain belief has nothing but its deviations to find out
        where it is wrong.
        """
        whole = scene.whole or scene
        if not (self._own.sober and self.problem.is_exact) or scene.is_plain or scene.has_regimes or whole.has_regimes:
            return 1.0
        return sober.factor(whole.data, whole.f, whole.scales)

    def _seeks_limits(self, scene: Scene) -> bool:
        """Whether, with noise, the point that is most likely to meet all limits is sought, since none is known to."""
        if self.problem.is_exact or not self._can_expect(scene) or len(scene.data.pending):
            return False
        return incumbent(scene) is None

    def _expects(self, scene: Scene) -> bool:
        """Whether it is the turn of expected improvement.

        With a plain belief it always is; else by turns, in all of the box: for an exact limit that nothing explains,
        and with noise, where upper bounds measure one point again and again before they look elsewhere. With noise the
        turn is drawn, since batches begin at odd numbers only, and some told point has to meet all limits in the
        median: bounds are then met there as well, and no verdict waits.
        """
        if scene.is_plain:
            return True
        if not self._can_expect(scene):
            return False
        if self.problem.is_exact:
            return scene.number % BOUNDS_EVERY != 0 and self._is_limit_rough(scene, regimes.UNKNOWN_BELOW)
        is_turn = float(scene.stream.at("turn").uniform(1)[0]) * BOUNDS_EVERY >= 1.0
        return is_turn and not scene.has_regimes and incumbent(scene) is not None

    def _can_expect(self, scene: Scene) -> bool:
        """Whether expectation may be sought: in all of a box, which has no list of settings."""
        return self._own.expect and scene.nearby is None and isinstance(scene.search, Search)

    def _is_limit_rough(self, scene: Scene, below: float = regimes.ROUGH_BELOW) -> bool:
        """Whether some output of a limit is badly explained: by less than so many nats a row."""
        return bool(regimes.rough_limits(self.problem, self._own.believer, scene.data, scene.told, below).any())

    def _expected(self, scene: Scene) -> Optimum:
        """Maximize the expected improvement; the probability that all limits hold while no told point meets them."""
        samples = (SAMPLES, SCREENING) if self.problem.is_exact else (NOISY_SAMPLES, NOISY_SCREENING)
        best, scales = incumbent(scene), scene.scales
        return maximize(
            Sampled(scene.composite, best, scales, *samples, TEMPERATURE, is_relative=True, is_log=True), scene
        )

    def _tested(self, scene: Scene) -> tuple[Optimum, Why]:
        """Seek by bounds, and test whether any point can meet all constraints while none is known to."""
        best, why = self._improve(scene)
        is_lucky = not self.problem.is_exact and self._own.verdict == "joint"  # a noisy value may meet limits by chance
        if self.problem.n == 0 or (bool(scene.is_feasible.any()) and not is_lucky):
            return best, why
        if self._own.verdict == "single":
            margin = single_margin(scene, self.level)
            return best, replace(why, margin=margin if margin < 0 else None)
        return JointTest(self.problem, self._own.believer, self.level, scene, self.stream).judge(best, why)

    def _improve(self, scene: Scene) -> tuple[Optimum, Why]:
        """Maximize the upper bound; where it promises hardly any gain over the best told value, test the belief.

        Such a belief is either right or over-confident. It is tested off a box bound that all points near the best one
        lie on, in the settings beside that of the best point, and then where wider bounds promise a gain.
        """
        if not self.problem.is_exact and self._expects(scene):
            expected = self._expected(scene)
            if not self._is_certain(scene, expected.u):
                return expected, Why("improve")
        best = self._optimistic(scene, scene.composite)
        if len(scene.data.pending):
            return best, Why("explore", optimistic=self._reachable(scene, best), multipliers=best.multipliers)
        gain, scale = self._promised_gain(scene, best), float(scene.scales[0])
        is_stuck = self.problem.grid is not None and self._repeats(scene, best.u)
        if gain <= PROBE_BELOW_GAIN * scale or is_stuck:
            probe = self._off_bounds(scene)
            probe = self._beside(scene) if probe is None else probe
            if probe is not None:  # the upper bound is not recorded before the probe has tested it
                return replace(best, u=probe, active=()), Why("probe", multipliers=best.multipliers)
        why = Why("explore", optimistic=self._reachable(scene, best), multipliers=best.multipliers)
        if not self.problem.is_exact:
            return self._beyond_settled(scene, best, why)
        can_widen = self._own.widen and bool(scene.is_feasible.any())
        for factor in WIDENINGS if can_widen else ():
            if not best.satisfied or (gain > WIDEN_BELOW_GAIN * scale and not self._repeats(scene, best.u)):
                break
            best, why = self._optimistic(scene, self._widened(scene, factor)), replace(why, aim="widen")
            gain = self._promised_gain(scene, best)
        return best, why

    def _beyond_settled(self, scene: Scene, best: Optimum, why: Why) -> tuple[Optimum, Why]:
        """Look where wider bounds promise a gain if the optimum found is certain, noise or not; else return it.

        An objective that is known exactly, at a point where all limits surely hold, is such an optimum. To measure
        there again and again would teach nothing, and a belief that is wrong elsewhere would never be refuted. One
        that is known well is measured on by turns: of a sum of squares, a thousandth of its range may be a poor fit.
        Nothing is certain at an edge beyond which there may be another regime, or where nothing was measured. This is
        left by turns, too: along a setting without influence, the optimum is anywhere.
        """
        if not self._own.widen or not best.satisfied:
            return best, why
        if not scene.is_surely_within(best.u) or (scene.number % LOOK_EVERY and not self._is_measured(scene, best.u)):
            return best, why
        lower = scene.composite.values(best.u[None], [1.0 - self.level] * self.problem.k)[0]
        scale = float(scene.scales[0])
        least, width = SETTLED_GAIN * scale, float(best.f[0] - lower[0])
        if not width <= least or (lower[1:] < 0).any():
            return self._where_it_tells(scene, best, why)
        if width > EXACT_WIDTH * scale and scene.number % LOOK_EVERY:
            return best, why
        for factor in WIDENINGS:
            other = self._optimistic(scene, self._widened(scene, factor))
            if other.satisfied and other.f[0] - lower[0] > least:
                return other, replace(why, aim="widen")
        return replace(best, u=self._spread_out(scene), active=()), replace(why, aim="spread")

    def _is_measured(self, scene: Scene, u: Float64[ndarray, "d"]) -> bool:
        """Whether something was measured at a point, or near to it in all that some output depends on."""
        seen = self.problem.active.any(0)
        return not seen.any() or bool(to_nearest(u[None, seen], scene.data.U[:, seen]).item() <= SETTLED_DISTANCE)

    def _is_certain(self, scene: Scene, u: Float64[ndarray, "d"]) -> bool:
        """Whether the objective is known well at a point, and all limits surely hold there."""
        lower, _, upper = (bounds[0] for bounds in scene.composite.bounds(u[None], self.level))
        return bool(upper[0] - lower[0] <= SETTLED_GAIN * scene.scales[0] and (lower[1:] >= 0).all())

    def _where_it_tells(self, scene: Scene, best: Optimum, why: Why) -> tuple[Optimum, Why]:
        """Look elsewhere if a measurement would tell little but its noise, where wider bounds promise more than here.

        Verifications measure the best point anyway. Upper bounds that do so, too, leave no trial for what a belief that
        is too sure of itself overlooks. At an edge between regimes, measurements beside each other tell where it is.
        """
        if not isinstance(scene.search, Search) or scene.has_regimes:
            return best, why
        pool = np.concatenate([best.u[None], scene.pool])
        used = sorted({output for function in self.problem.structure for output in function.outputs})
        share = telling(self.problem, scene.belief, pool, scene.pool[:USUAL_POINTS])[:, used]
        tells = share.max(1, initial=0.0) >= TELLING
        if tells[0]:
            return best, why
        if scene.success is not None:
            tells &= scene.success.is_likely(pool)
        for factor in TELLING_WIDENINGS:
            reach = self._reach(scene, pool, factor)
            promised = np.where(tells & (reach[:, 1:] >= 0).all(1), np.nan_to_num(reach[:, 0], nan=-np.inf), -np.inf)
            if promised.max() > reach[0, 0]:
                return replace(best, u=pool[promised.argmax()], active=()), replace(why, aim="widen")
        return best, why

    def _promised_gain(self, scene: Scene, best: Optimum) -> float:
        """By how much the upper bound exceeds the best feasible told value; infinite without one."""
        values = scene.f[scene.is_feasible, 0]
        return float(best.f[0] - values.max()) if len(values) else float("inf")

    def _widened(self, scene: Scene, factor: float) -> Composite:
        """The belief with deviations wider by a factor, composed with g; wider ones go on beyond plateaus."""
        belief = scene.belief.beyond_plateaus if factor > 1.0 else scene.belief
        return self._own.believer.bound(self.problem, scene.data, Widened(belief, factor), scene.stream)

    def _off_bounds(self, scene: Scene) -> Float64[ndarray, "d"] | None:
        """Return the best probe off a box bound that the best told point and all points near it lie on."""
        if not self._own.probe or not self.problem.is_exact or self.problem.listing is not None:
            return None
        proposed = np.concatenate([scene.data.U, scene.data.imagined])
        best = scene.known[:1]
        seen, grid = np.asarray(self.problem.active.any(0)), self.problem.grid
        if grid is not None:
            seen, best = seen & ~grid.is_discrete, grid.snapped(best)
        points = probes.off_bounds(best[0], proposed, seen)
        white = White(self.problem, self.problem.white).values(np.concatenate([best, points]))[:, 1:]
        points = points[(white[1:] >= np.minimum(white[0], 0.0)).all(1)]  # rounding may put the best point just outside
        if scene.success is not None and len(points):
            points = points[scene.success.is_likely(points)]
        if not len(points):
            return None
        return points[scene.composite.values(points, [0.5] * self.problem.k)[:, 0].argmax()]

    def _beside(self, scene: Scene) -> Float64[ndarray, "d"] | None:
        """Return the best point by median of a setting next to that of the best told point, if nothing was told there.

        On a grid no gradual step leads to the next setting: one that the belief is wrongly certain about is never
        proposed, and nothing refutes the belief.
        """
        if not self._own.probe or not self.problem.is_exact or not isinstance(scene.within, Mixed):
            return None
        search, problem = scene.within, self.problem

        def is_allowed(U: Float64[ndarray, "b d"]) -> Bool[ndarray, "b"]:
            fine = meets_white(problem, U)
            return fine if search.allowed is None else fine & search.allowed(U)

        best = search.grid.snapped(scene.known[0])
        tried = np.concatenate([scene.data.U, scene.data.imagined])
        median = optimistic(scene.composite, 0.5)
        seen = np.asarray(problem.active.any(0))
        found = replace(search, allowed=is_allowed).beside(median, scene.scales, best, tried, seen)
        return found.u if found is not None and bool(is_allowed(found.u[None]).all()) else None

    def _optimistic(self, scene: Scene, composite: Composite) -> Optimum:
        """Maximize the upper bound of the objective: over joint outcomes if possible, else each function alone."""
        stream, level = scene.stream.at("explore"), self.level
        search = self._joint_search(scene)
        if search is not None:
            joint = Joint(composite, quantile.normal(level))
            best = joint.maximum(search, scene.scales, scene.pool, scene.known, stream)
            if best.satisfied or not composite.offers(level):
                return best
        return scene.within.solve(optimistic(composite, level), scene.scales, scene.pool, scene.known, stream)

    def _joint_search(self, scene: Scene) -> Search | None:
        """The search over points and outcomes together; None where each function is bounded alone."""
        is_joint = self._own.joint and is_shared(scene.composite)
        return scene.within if is_joint and isinstance(scene.within, Search) else None

    def _reach(self, scene: Scene, U: Float64[ndarray, "b d"], factor: float) -> Float64[ndarray, "b k"]:
        """Return all functions at one outcome that improves them most, if they share outputs; else their bounds."""
        if self._joint_search(scene) is None:
            return super()._reach(scene, U, factor)
        joint = Joint(self._widened(scene, factor), quantile.normal(self.level))
        return joint.values(joint.lifted(U, scene.scales))[:, : self.problem.k]

    def _reachable(self, scene: Scene, best: Optimum) -> float | None:
        """The largest upper bound found; of a list, whose told candidates are not searched again, with their values."""
        told = scene.f[scene.is_feasible, 0] if self._is_finite else scene.f[:0, 0]
        tops = [*told.tolist(), *([float(best.f[0])] if best.satisfied else [])]
        return max(tops, default=None)
