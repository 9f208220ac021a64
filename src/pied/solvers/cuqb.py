"""CUQB: optimistic constrained search with quantile bounds of g(x, h(x)), and pessimistic verification.

One iteration is one screen: `BayesRun._propose`. Its frame (believe, screen, verify, never repeat, never fail) serves
every solver with a belief; what a solver seeks when it does not verify is its `_explore`.
"""

import logging
import time
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float64
from torch import Tensor

from pied.bounds import (
    Believer,
    Bounds,
    Composite,
    Doubtful,
    Estimator,
    Fence,
    Joint,
    TensorGP,
    White,
    fenced,
    from_memory,
    is_shared,
    optimistic,
    pessimistic,
    possible,
    quantile,
    to_memory,
)
from pied.errors import SettingError
from pied.gp import Choice, Model
from pied.problem import Problem
from pied.records import Dataset, Why, feasible, spread
from pied.rng import Stream
from pied.search import Enumeration, Optimum, PenaltySearch, Picked, Search, distinct
from pied.solvers import probes
from pied.solvers.base import BREAKDOWNS, Proposal, Run, Solver
from pied.solvers.initial import design_size

logger = logging.getLogger(__name__)

VERDICT_LEVEL = 0.9986501019683699  # Phi(3): the joint test of feasibility looks three standard deviations out
DENSE, THOROUGH = 4096, 32  # points and starts of the search that a verdict rests on
BESIDE = 0.03  # a confirmation this near (every coordinate) to a told point would confirm nothing
DOUBT = 3.0  # what deviations this much wider see as possible is not called infeasible
RECENT = 5  # proposals whose outcomes tell how far the belief can be trusted
NEGLIGIBLE = 1e-6  # of a function's scale: a bound that is off by less was right
WIDER = (2.0, 3.0)  # deviations this much wider: where to look when the belief promises nothing
LITTLE = 1e-5  # of the objective's scale: before so small an improvement is sought, the bounds it relies on are doubted
WORTH = 1e-7  # of the objective's scale: a smaller promised improvement is none
REPEATED = 1e-7  # a point this near (every coordinate) to a known one would only repeat it
SETTLED = 1e-3  # of a function's scale: a measured candidate with bounds this near to each other is known
MOVED = 8  # points moved onto the white constraints when a whole pool breaks them
SPREAD_OVER = 2048  # points of the pool, at most, that the scale of a function is taken from
INCUMBENTS = 3  # told points that clouds and local solves start from


@dataclass(frozen=True)
class CUQB(Solver):
    """The constrained upper quantile bound, with the departures from the paper that measurements favour.

    `CUQB.paper()` undoes them all.
    """

    name: ClassVar[str] = "cuqb"
    lists: ClassVar[bool] = True

    level: float = 0.95
    """p: the upper bound is Q(p), the lower Q(1 - p)."""
    verify_every: int | None = 3
    """After the initial design every so-many-th trial maximizes the median objective subject to lower bounds.
    None: never."""
    believer: Believer = field(default_factory=Believer)
    """Models to choose from and the estimator of quantiles."""
    search: Search | PenaltySearch = field(default_factory=Search)
    """How the subproblem is solved."""
    verdict: str = "joint"
    """"joint": all constraints together, at z = 3; "single": one at a time, at the level (the paper's)."""
    widen: bool = True
    """Whether an exact black box is searched with wider bounds once the level promises no improvement."""
    probe: bool = True
    """Whether an exact black box is asked beside the best point, off the bounds it lies on (`solvers.probes`), once the
    level promises little improvement."""
    penalty: float | None = None
    """rho of the recommendation (14), natural units; None: from the multipliers of the subproblems."""
    joint: bool = True
    """Whether functions of the same outputs must hope for one and the same outcome (`bounds.joint`); False: each
    for its own upper bound (the paper's)."""
    strict: bool = False
    """Raise instead of climbing the numerical ladder; for benchmarks and tests."""

    def __post_init__(self) -> None:
        if not 0.5 < self.level < 1.0:
            raise SettingError(f"level is the probability of the upper bound, between 0.5 and 1, got {self.level}")
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
            penalty=1e5,
            believer=Believer(
                Model(
                    kernels=("matern 3/2",),
                    trends=("none",),
                    warps=("none",),
                    scales=("plain",),
                    waves=False,
                    nugget=(1e-4, 1e-3),
                    prior=False,
                    declustering=None,
                    always_refit=10**9,
                ),
                Estimator(
                    kind="soft", samples=50, screening=50, softness=0.1, closed_forms=False, ranges=False, sobol=False
                ),
            ),
            search=PenaltySearch(),
            verdict="single",
        )

    def start(self, problem: Problem, stream: Stream) -> "CUQBRun":
        """Begin a run."""
        return CUQBRun(self, problem, stream)


def paper() -> CUQB:
    """The method exactly as published: Algorithm 1 with the settings of the paper's table 3."""
    return CUQB.paper()


@runtime_checkable
class Settings(Protocol):
    """What the frame asks of the settings of a solver with a belief; the words are those of `CUQB`."""

    @property
    def level(self) -> float:
        """p of the bounds that verify and that are written down."""

    @property
    def verify_every(self) -> int | None:
        """Every so-many-th trial verifies."""

    @property
    def believer(self) -> Believer:
        """How beliefs are made."""

    @property
    def search(self) -> Search | PenaltySearch:
        """How subproblems are solved."""

    @property
    def strict(self) -> bool:
        """Raise instead of climbing the numerical ladder."""


@dataclass(frozen=True, eq=False)
class Scene:
    """What one ask knows before it seeks anything."""

    number: int
    """Of the trial asked for."""
    data: Dataset
    belief: TensorGP
    composite: Composite
    """The belief composed with g."""
    f: Float64[Tensor, "N k"]
    """Functions as observed."""
    is_feasible: Bool[Tensor, "N"]
    known: Float64[Tensor, "s d"]
    """The best told points."""
    pool: Float64[Tensor, "b d"]
    """Points to screen."""
    scales: Float64[Tensor, "k"]
    """One scale per function: the spread of its median over the pool."""
    search: Search | PenaltySearch | Enumeration
    """How its subproblems are solved, wherever the best may be."""
    stream: Stream

    @cached_property
    def fence(self) -> Fence | None:
        """Where evaluations may succeed; None: anywhere, as the paper's search has it."""
        return None if isinstance(self.search, PenaltySearch) else Fence.around(self.data)

    @cached_property
    def within(self) -> Search | PenaltySearch | Enumeration:
        """The search for a point to ask: not beyond the fence."""
        if isinstance(self.search, PenaltySearch) or self.fence is None:
            return self.search
        return fenced(self.search, self.fence)


class BayesRun(Run):
    """One run of a solver with a belief: the frame around what it seeks."""

    def __init__(self, settings: Settings, problem: Problem, stream: Stream) -> None:
        self.settings, self.problem, self.stream = settings, problem, stream
        self.initial = design_size(problem.d)

    @abstractmethod
    def _explore(self, scene: Scene) -> tuple[Optimum, Why]:
        """Seek the next point; the optimum has the functions of the problem, or of its own, objective first."""

    def ask(self, number: int, data: Dataset) -> Proposal:
        """Propose the next point; never fails for numerical reasons unless `strict`.

        What linear algebra raises leads to a space-filling point. Everything else is a mistake, here or in the user's
        functions, and is seen.
        """
        began = time.perf_counter()
        stream = self.stream.at("trial", number)
        previous = from_memory(data.last.memory) if data.last else None
        try:
            proposal = self._propose(number, data, previous, stream)
        except BREAKDOWNS as error:
            if self.settings.strict:
                raise
            logger.warning("trial %d: the search failed (%s); a space-filling point is proposed", number, error)
            proposal = self._fill(data, stream, str(error), previous)
        return replace(proposal, why=replace(proposal.why, seconds=time.perf_counter() - began))

    def _propose(self, number: int, data: Dataset, previous: tuple[Choice, ...] | None, stream: Stream) -> Proposal:
        """Believe, screen, search, with a verification every so often."""
        settings, problem = self.settings, self.problem
        belief = settings.believer.fit(problem, data, previous)
        composite = settings.believer.bound(problem, data, belief, stream)
        f = data.functions(problem)
        is_feasible = feasible(problem, f)
        known = _incumbents(data, f, is_feasible)
        search = settings.search if problem.candidates is None else Enumeration.of(problem.candidates)
        if isinstance(search, Search) and len(data.imagined):
            search = replace(search, brevity=0.0)  # a round point might be one that is pending or failed
        pool = search.screen(stream, problem.d, known)
        scales = spread(composite.values(pool[:SPREAD_OVER], [0.5] * problem.k, screening=True))
        if isinstance(search, Enumeration) and problem.candidates is not None:
            search = search.without(problem.candidates.same(self._settled(data, composite, scales)))
        scene = Scene(number, data, belief, composite, f, is_feasible, known, pool, scales, search, stream)

        best, why = None, Why("verify")
        if self._verifies(number):
            bounds = pessimistic(composite, settings.level)
            rescue = not bool(is_feasible.any())
            best = scene.within.solve(bounds, scales, pool, known, stream.at("verify"), rescue=rescue)
            why = replace(why, multipliers=best.multipliers)
        if best is None or not best.satisfied:
            best, why = self._explore(scene)
        u = best.u
        if self._repeats(u, data):
            u, why = self._spread_out(scene), replace(why, aim="spread")
        lower, _, upper = composite.bounds(u[None], settings.level)
        doubtful = composite.misjudged(u[None], settings.level)
        if doubtful:
            logger.warning("the closed form of %s does not hold at %s: it is not affine there", doubtful, u.tolist())
        return Proposal(
            u,
            replace(
                why,
                lower=tuple(lower[0].tolist()),
                upper=tuple(upper[0].tolist()),
                active=tuple(problem.functions[i] for i in best.active),
                rung=belief.rung,
                memory=to_memory(belief.choices),
            ),
        )

    def _verifies(self, number: int) -> bool:
        """A rule of the number alone, so that an interrupted run goes on as if it had not been."""
        every = self.settings.verify_every
        return every is not None and number > self.initial and (number - self.initial) % every == 0

    @property
    def _is_exact(self) -> bool:
        return all(noise == 0 for noise in self.problem.noise)

    def _settled(self, data: Dataset, composite: Composite, scales: Float64[Tensor, "k"]) -> Float64[Tensor, "p d"]:
        """Return the points at which a measurement would teach nothing: asked already, or measured well enough."""
        if self._is_exact or not len(data.U):
            return torch.cat([data.U, data.imagined])
        lower, _, upper = composite.bounds(data.U, self.settings.level)
        is_known = ((upper - lower) <= SETTLED * scales).all(1)
        return torch.cat([data.U[is_known], data.imagined])

    def _repeats(self, u: Float64[Tensor, "d"], data: Dataset) -> bool:
        """Whether an exact black box, or one that is being asked already, would learn nothing new here."""
        points = torch.cat([data.U, data.imagined]) if self._is_exact else data.imagined
        return bool(len(points)) and bool(((points - u).abs().amax(1) < REPEATED).any())

    def _spread_out(self, scene: Scene) -> Float64[Tensor, "d"]:
        """Return the most uncertain pool point that could be feasible, instead of repeating a known one."""
        composite, pool = scene.composite, scene.pool
        known = torch.cat([scene.data.U, scene.data.imagined])
        fresh = torch.cdist(pool, known).amin(1) > 1e-4
        if not bool((fresh & self._is_white(pool)).any()):
            pool = torch.stack([self._honoured(u) for u in pool[:MOVED]])
            fresh = torch.cdist(pool, known).amin(1) > 1e-4
        levels = (1.0 - self.settings.level, self.settings.level)
        lower, upper = (composite.values(pool, [level] * composite.problem.k) for level in levels)
        width = ((upper - lower) / scene.scales).sum(1)
        possible, white = (upper[:, 1:] >= 0).all(1), self._is_white(pool)
        within = torch.ones_like(fresh) if scene.fence is None else scene.fence.holds(pool)
        for wish in (possible & within, white & within, white, fresh):
            allowed = fresh & wish
            if bool(allowed.any()):
                return pool[torch.where(allowed, width, -torch.inf).argmax()]
        return pool[width.argmax()]

    def _is_white(self, U: Float64[Tensor, "b d"]) -> Bool[Tensor, "b"]:
        """Which points meet every white constraint."""
        return (White(self.problem, self.problem.white).values(U)[:, 1:] >= 0).all(1)

    def _honoured(self, u: Float64[Tensor, "d"]) -> Float64[Tensor, "d"]:
        """Move a point that breaks white constraints to a near one that does not."""
        if self.problem.candidates is not None or bool(self._is_white(u[None]).all()):
            return u
        white = White(self.problem, self.problem.white, near=u)
        search, stream = Search(pool=256, generations=0, starts=2), Stream(0).at("honoured")
        pool = search.screen(stream, self.problem.d, u[None])
        return search.solve(white, spread(white.values(pool)), pool, u[None], stream).u

    def _fill(self, data: Dataset, stream: Stream, reason: str, previous: tuple[Choice, ...] | None) -> Proposal:
        """The last rung: the point of a Sobol pool that is farthest from everything known, white constraints kept."""
        known = torch.cat([data.U, data.imagined])
        pool = stream.at("fill").sobol(1024, self.problem.d)
        if self.problem.candidates is not None:
            pool = Enumeration.of(self.problem.candidates).screen(stream.at("fill"), self.problem.d, known[:0])
        distance = torch.cdist(pool, known).amin(1) if len(known) else torch.ones(len(pool), dtype=torch.float64)
        distance = torch.where(self._is_white(pool), distance, distance - 10.0)
        memory = to_memory(previous) if previous else {}
        u = self._honoured(pool[distance.argmax()])
        return Proposal(u, Why("fill", rung=f"space-filling: {reason}", memory=memory))


class CUQBRun(BayesRun):
    """One run of CUQB: Algorithm 1."""

    def __init__(self, settings: CUQB, problem: Problem, stream: Stream) -> None:
        super().__init__(settings, problem, stream)
        self._own = settings

    def _explore(self, scene: Scene) -> tuple[Optimum, Why]:
        best, why = self._hope(scene)
        return (best, why) if bool(scene.is_feasible.any()) else self._judge(scene, best, why)

    def _hope(self, scene: Scene) -> tuple[Optimum, Why]:
        """Maximize the upper bound; when it promises little over what was observed, put the belief to a test.

        A belief that sees no improvement is either right, and the evaluation is free, or over-confident: off a bound
        that all points near the best lie on, or where wider bounds send it.
        """
        best = self._optimistic(scene, scene.composite)
        promise, scale = self._promise(scene, best), float(scene.scales[0])
        if promise <= LITTLE * scale:
            doubted = self._off_bounds(scene)
            if doubted is not None:  # what can be hoped for is not written down before it was put to the test
                return replace(best, u=doubted, active=()), Why("probe", multipliers=best.multipliers)
        why = Why("explore", optimistic=self._reachable(scene, best), multipliers=best.multipliers)
        can_widen = self._own.widen and self._is_exact and bool(scene.is_feasible.any())
        for width in WIDER if can_widen else ():
            if not best.satisfied or (promise > WORTH * scale and not self._repeats(best.u, scene.data)):
                break
            best, why = self._optimistic(scene, self._doubting(scene, width)), replace(why, aim="widen")
            promise = self._promise(scene, best)
        return best, why

    def _promise(self, scene: Scene, best: Optimum) -> float:
        """By how much more than the best observation can be hoped for; without one, infinitely more."""
        values = scene.f[scene.is_feasible, 0]
        return float(best.f[0] - values.max()) if len(values) else float("inf")

    def _doubting(self, scene: Scene, width: float) -> Composite:
        """The belief with deviations so much wider, composed with g."""
        return self._own.believer.bound(self.problem, scene.data, Doubtful(scene.belief, width), scene.stream)

    def _off_bounds(self, scene: Scene) -> Float64[Tensor, "d"] | None:
        """Return the most promising point off a bound that the best told one lies on, and all points asked near it."""
        if not self._own.probe or not self._is_exact or self.problem.candidates is not None:
            return None
        asked = torch.cat([scene.data.U, scene.data.imagined])
        best = scene.known[:1]
        points = probes.off_bounds(best[0], asked, self.problem.active.any(0))
        white = White(self.problem, self.problem.white).values(torch.cat([best, points]))[:, 1:]
        points = points[(white[1:] >= white[0].clamp_max(0.0)).all(1)]  # the best may break one by rounding
        if scene.fence is not None and len(points):
            points = points[scene.fence.holds(points)]
        if not len(points):
            return None
        return points[scene.composite.values(points, [0.5] * self.problem.k)[:, 0].argmax()]

    def _optimistic(self, scene: Scene, composite: Composite) -> Optimum:
        """Maximize the objective that can be hoped for: one outcome for all functions, or else each for itself."""
        stream, level = scene.stream.at("explore"), self._own.level
        search = self._joint_search(scene)
        if search is not None:
            joint = Joint(composite, quantile.normal(level))
            best = joint.maximum(search, scene.scales, scene.pool, scene.known, stream)
            if best.satisfied or not composite.offers(level):
                return best
        return scene.within.solve(optimistic(composite, level), scene.scales, scene.pool, scene.known, stream)

    def _joint_search(self, scene: Scene) -> Search | None:
        """The search over points and outcomes together; None where each function hopes for itself."""
        is_joint = self._own.joint and is_shared(scene.composite)
        return scene.within if is_joint and isinstance(scene.within, Search) else None

    def _reachable(self, scene: Scene, best: Optimum) -> float | None:
        """The largest value that can be hoped for; of a list, whose measured points are not searched, with theirs."""
        told = scene.f[scene.is_feasible, 0] if self.problem.candidates is not None else scene.f[:0, 0]
        tops = [*told.tolist(), *([float(best.f[0])] if best.satisfied else [])]
        return max(tops, default=None)

    def _judge(self, scene: Scene, best: Optimum, why: Why) -> tuple[Optimum, Why]:
        """Test feasibility while no told point is known to be feasible (line 2 of Algorithm 1, made joint)."""
        settings, composite, scales = self._own, scene.composite, scene.scales
        if self.problem.n == 0:
            return best, why
        if settings.verdict == "single":
            bounds = optimistic(composite, settings.level)
            if isinstance(scene.search, Enumeration):
                margin = float(scene.search.largest(bounds, scales).min())
            else:
                margin = single_margin(bounds, scales, scene.pool)
            return best, replace(why, margin=margin if margin < 0 else None)
        if best.satisfied:
            return best, why
        search = scene.search if isinstance(scene.search, Search | Enumeration) else Search()
        found = largest_margin(search, possible(composite, VERDICT_LEVEL), scales, scene.pool, best.u)
        for bounds in self._doubts(scene) if not found.satisfied else ():
            other = largest_margin(search, bounds, scales, self._dense(scene), found.u, THOROUGH)
            if other.satisfied:
                found = other
                break
        is_open = found.satisfied or self._is_guess(scene, search, found)
        why = replace(why, aim="feasibility", margin=max(found.margin, 0.0) if is_open else found.margin)
        chosen = found if found.satisfied else self._elsewhere(scene, found)
        is_beyond = scene.fence is not None and not bool(scene.fence.holds(chosen.u[None]).all())
        return best if is_beyond else chosen, why  # what is judged is the constraints; what is asked must not fail

    def _is_guess(self, scene: Scene, search: Search | Enumeration, found: Optimum) -> bool:
        """Whether a failed test rests on what is imagined of pending points: without that, the constraints can be met.

        Pending points are imagined at their mean, as if the doubt about them were gone, and pending candidates are not
        offered again. That spreads points out, but it is no outcome, and a verdict counts outcomes.
        """
        data, candidates = scene.data, self.problem.candidates
        if len(data.failures) == len(data.imagined):
            return False
        if isinstance(search, Enumeration) and candidates is not None:
            pending = [row for row in range(len(data.imagined)) if row not in data.failures]
            search = search.also(candidates.same(data.imagined[pending]))
        told = replace(data, imagined=data.failed, failures=tuple(range(len(data.failures))))
        belief = self._own.believer.fit(self.problem, told, from_memory(data.last.memory) if data.last else None)
        bounds = next(self._doubts(replace(scene, data=told, belief=belief)))
        return largest_margin(search, bounds, scene.scales, self._dense(scene), found.u, THOROUGH).satisfied

    def _elsewhere(self, scene: Scene, found: Optimum) -> Optimum:
        """Confirm a verdict where it can be refuted: beside a told point, look at the least excluded place that is not.

        The point that comes nearest to the constraints is often one that was measured; measuring beside it again would
        confirm nothing.
        """
        told, pool = scene.data.U, scene.pool
        if self.problem.candidates is not None or not bool(((told - found.u).abs().amax(1) < BESIDE).any()):
            return found
        away = torch.cdist(pool, told, p=torch.inf).amin(1) >= BESIDE
        if not bool((away & self._is_white(pool)).any()):
            return found
        bounds = next(self._doubts(scene))
        margin = torch.nan_to_num((bounds.values(pool) / scene.scales)[:, 1:].amin(1), nan=-torch.inf)
        best = torch.where(away & self._is_white(pool), margin, -torch.inf).argmax()
        return replace(found, u=pool[best])

    def _dense(self, scene: Scene) -> Float64[Tensor, "b d"]:
        """A pool for the search that a verdict rests on: a point that it misses is a problem wrongly given up."""
        if self.problem.candidates is not None:
            return scene.pool
        return torch.cat([scene.pool, scene.stream.at("dense").sobol(DENSE, self.problem.d)])

    def _doubts(self, scene: Scene) -> Iterator[Bounds]:
        """What a verdict must stand up to: that the belief is over-confident, and that it chose a wrong warp.

        Bounds of a belief with deviations as much wider as it was wrong of late; and of one without warps, because a
        logarithm ends where nobody measured.
        """
        believer, stream = self._own.believer, self.stream.at("verdict")
        wrong = surprise(scene.data.whys, scene.f, scene.scales, self._own.level)
        doubtful = Doubtful(scene.belief, max(DOUBT, wrong))
        yield possible(believer.bound(self.problem, scene.data, doubtful, stream), VERDICT_LEVEL)
        if scene.belief.is_warped:
            plain = replace(believer, model=replace(believer.model, warps=("none",)))
            belief = plain.fit(self.problem, scene.data)
            yield possible(plain.bound(self.problem, scene.data, belief, stream), VERDICT_LEVEL)


def surprise(whys: Sequence[Why], f: Float64[Tensor, "N k"], scales: Float64[Tensor, "k"], level: float) -> float:
    """Return how many deviations a constraint was off the middle of its bounds at the last proposals, at most.

    Args:
        whys: Why the points were asked; those without bounds say nothing.
        f: Functions as observed there.
        scales: One scale per function.
        level: Of the bounds.
    """
    worst = 0.0
    proposed = [(why, row) for why, row in zip(whys, f, strict=False) if len(why.upper) == len(row)]
    for why, row in proposed[-RECENT:]:
        lower, upper = (torch.tensor(each, dtype=f.dtype, device=f.device) for each in (why.lower, why.upper))
        miss = (row - 0.5 * (lower + upper)).abs()
        deviation = torch.maximum(0.5 * (upper - lower) / quantile.normal(level), NEGLIGIBLE * scales)
        worst = max(worst, float(torch.nan_to_num(miss / deviation, nan=0.0, posinf=0.0)[1:].amax()))
    return worst


def _incumbents(data: Dataset, f: Tensor, is_feasible: Tensor) -> Float64[Tensor, "s d"]:
    """Return the best told points: feasible ones by value, then the least violated."""
    if not len(f):
        return data.U[:0]
    fine = torch.isfinite(f).all(1)
    scale = spread(f[fine]) if bool(fine.any()) else torch.ones(f.shape[1], dtype=f.dtype)
    violation = (-f[:, 1:] / scale[1:]).clamp_min(0.0).sum(1)
    value = torch.where(is_feasible, f[:, 0] / scale[0], -1e6 - violation)
    order = torch.nan_to_num(value, nan=-1e300).argsort(descending=True, stable=True)
    return data.U[order[:INCUMBENTS]]


def largest_margin(
    search: Search | Enumeration,
    bounds: Bounds,
    scales: Float64[Tensor, "k"],
    pool: Float64[Tensor, "b d"],
    u: Float64[Tensor, "d"],
    starts: int = 8,
) -> Optimum:
    """Search the largest smallest scaled constraint over the box, from the best pool points and a given one."""
    margin = torch.nan_to_num((bounds.values(pool) / scales)[:, 1:].amin(1), nan=-torch.inf)
    return search.rescue(bounds, scales, torch.cat([u[None], distinct(pool, margin, starts)]))


def single_margin(bounds: Bounds, scales: Float64[Tensor, "k"], pool: Float64[Tensor, "b d"]) -> float:
    """Return min over i of max over x of the scaled upper bound: line 2 of Algorithm 1, constraints one at a time."""
    best = (bounds.values(pool) / scales)[:, 1:].amax(0)
    for i in (best < 0).nonzero()[:, 0].tolist():
        one = Picked(bounds, (i + 1,))
        start = pool[one.values(pool)[:, 0].argsort(descending=True, stable=True)[:3]]
        found = Search(pool=1, starts=3).solve(one, scales[i + 1 : i + 2], pool, start, Stream(0))
        best[i] = found.f[0] / scales[i + 1]
    return float(best.min())
