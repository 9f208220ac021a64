"""SNOBFIT: global search by branching the box, local search by fits; our own, from the published description.

W. Huyer and A. Neumaier, SNOBFIT: stable noisy optimization by branch and fit, ACM TOMS 35 (2008), article 9. Each
call of `suggest` gives points of five classes: 1 the minimizer of a quadratic model around the best point; 2 and 3
minimizers of linear models around the other points, those that stand out below their neighbours first; 4 points in
large boxes, where little is known; 5 points far from all others, when nothing else can be had.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Float64

from pied.errors import SettingError
from pied.problem import Problem
from pied.rng import Stream
from pied.solvers.base import Solver
from pied.solvers.loop import PAPER_PENALTY, SCALED_PENALTY, Evaluate, LoopRun, Merit, Start
from pied.solvers.snobfit_models import EXACT, EXTRA, Boxes, Linear, Quadratic, is_apart, is_local, neighbours

NOISY = 1e-2  # uncertainty of a noisy value, of the spread of all: keeps near neighbours from deciding alone
CANDIDATES = 100  # random points among which each point of class 5 is the one farthest from all others
APART = (
    0.1  # how far from each other in some coordinate points of one call are, so that each tells something of its own
)
TRIES = 20  # random points around the best one, when its quadratic model proposes what is known already


@dataclass(frozen=True)
class Snobfit(Solver):
    """SNOBFIT: branching and local fits, from all initial points."""

    name: ClassVar[str] = "snobfit"
    parallel: ClassVar[bool] = False

    penalty: float = SCALED_PENALTY
    """Weight of violated constraints."""
    scaled: bool = True
    """Whether objective and constraints are divided by their spread over the initial data first."""
    batch: int | None = 2
    """Points suggested at once: few, because each answer may change the next suggestion; None: d + 6 (the authors',
    for evaluations in parallel)."""
    explore: float = 0.5
    """Part of a batch, after its first point, that goes to large boxes (class 4); the rest to local fits."""
    resolution: float = 1e-5
    """Points that differ by less, unit cube, are the same (the authors')."""

    def __post_init__(self) -> None:
        Merit(self.penalty, self.scaled)
        if self.batch is not None and self.batch < 1:
            raise SettingError(f"batch counts the points suggested at once, from 1, got {self.batch}")
        if not 0.0 <= self.explore <= 1.0:
            raise SettingError(f"explore is the part of points in large boxes, between 0 and 1, got {self.explore}")
        if not 0.0 < self.resolution < 0.1:
            raise SettingError(f"resolution is a distance in the unit cube, above 0, below 0.1, got {self.resolution}")

    @classmethod
    def paper(cls) -> "Snobfit":
        """Return the paper's form: penalty 1e5 in natural units, the authors' settings."""
        return cls(penalty=PAPER_PENALTY, scaled=False, batch=None, explore=0.5, resolution=1e-5)

    def start(self, problem: Problem, stream: Stream) -> LoopRun:
        """Begin a run."""
        return LoopRun(self.name, problem, stream, self.minimize, Merit(self.penalty, self.scaled))

    def minimize(self, start: Start, evaluate: Evaluate) -> str:
        """Suggest, evaluate, branch, until the cube is full at this resolution."""
        size = start.d + EXTRA + 1 if self.batch is None else self.batch
        boxes = Boxes.of(start.U, start.F)
        while True:
            points = suggest(
                boxes, size, self.explore, self.resolution, EXACT if start.is_exact else NOISY, start.generator
            )
            if not points:
                return "every point of the box is known at this resolution"
            U = np.array([point.u for point in points])
            boxes = boxes.with_points(U, np.array([evaluate(u) for u in U]))


def snobfit_paper() -> Snobfit:
    """SNOBFIT in the paper's form: penalty 1e5, natural units, the authors' settings."""
    return Snobfit.paper()


@dataclass(frozen=True, eq=False)
class Point:
    """A suggested point and its class, 1 to 5."""

    u: Float64[np.ndarray, "d"]
    kind: int


def suggest(
    boxes: Boxes, size: int, explore: float, resolution: float, noise: float, generator: np.random.Generator
) -> list[Point]:
    """Return points to evaluate next, on the grid of the resolution, all new and different.

    Args:
        boxes: All points and their boxes.
        size: How many points.
        explore: Part of the points after the first that lie in large boxes.
        resolution: Mesh of the grid.
        noise: Uncertainty of a value, of the spread of all.
        generator: Decides on fractions of points, and where points of class 5 lie.
    """
    d = boxes.U.shape[1]
    chosen: list[Point] = []
    thin: list[int] = []

    def take(candidates: Iterable[Float64[np.ndarray, "d"]], kind: int, most: int) -> None:
        """Keep the first candidates that are new and far from those kept already, as many as asked for."""
        distance = APART if kind in (2, 3, 4) else 0.5 * resolution
        for candidate in candidates:
            if most <= 0:
                return
            u = np.clip(np.round(candidate / resolution) * resolution, 0.0, 1.0)
            kept = np.array([point.u for point in chosen]).reshape(-1, d)
            if not is_apart(u, boxes.U, 0.5 * resolution) or not is_apart(u, kept, distance):
                continue
            if kind <= 3 and boxes.is_thin[home := boxes.home(u)]:
                thin.append(home)  # another cut would make it thinner: it is divided along its long side instead
                continue
            chosen.append(Point(u, kind))
            most -= 1

    if len(boxes.F) >= d + EXTRA + 1:
        take(around_best(boxes, resolution, generator), 1, 1)
        rest = (size - len(chosen)) * explore
        far = int(rest) + int(generator.random() < rest - int(rest))
        standing_out, others = by_linear_models(boxes, resolution, noise)
        take(standing_out, 2, size - len(chosen) - far)
        take(others, 3, size - len(chosen) - far)
        largest, *smaller = np.lexsort((boxes.F, boxes.smallness))
        order = [largest, *thin, *smaller]
        take(boxes.farthest()[order], 4, size - len(chosen))
    take(far_away(boxes.U, size - len(chosen), generator), 5, size - len(chosen))
    return chosen[:size]


def around_best(boxes: Boxes, resolution: float, generator: np.random.Generator) -> Iterator[Float64[np.ndarray, "d"]]:
    """Class 1: the minimizer of a quadratic model around the best point; then points near it, farthest first."""
    U, F = boxes.U, boxes.F
    d = U.shape[1]
    best = int(np.argmin(F))
    x, f = U[best], float(F[best])
    near = neighbours(U, x, resolution, min(d * (d + 3), len(F) - 1))
    S = U[near] - x
    model = Quadratic.fit(x, f, U[near], F[near])
    nearest = U[neighbours(U, x, resolution, d + EXTRA)] - x
    step = np.maximum(np.abs(nearest).max(0), resolution)
    yield model.best(x, step, np.vstack([np.zeros((1, d)), S[:2], -S[:1]]))
    close = np.maximum(np.abs(S[:d]).max(0), resolution)
    tries = np.clip(x + close * generator.uniform(-1.0, 1.0, (TRIES, d)), 0.0, 1.0)
    away = np.abs(tries[:, None] - U[None]).max(2).min(1)
    yield from tries[np.argsort(-away, kind="stable")]


def by_linear_models(
    boxes: Boxes, resolution: float, noise: float
) -> tuple[list[Float64[np.ndarray, "d"]], list[Float64[np.ndarray, "d"]]]:
    """Classes 2 and 3: minimizers of linear models around points that stand out, and around the others.

    The best predicted value comes first. The best point of all has its quadratic model.
    """
    U, F = boxes.U, boxes.F
    d = U.shape[1]
    found: dict[bool, list[tuple[float, int]]] = {True: [], False: []}
    minimizers = {}
    for j, (x, f) in enumerate(zip(U, F, strict=True)):
        near = neighbours(U, x, resolution, d + EXTRA)
        model = Linear.fit(x, float(f), U[near], F[near], resolution, noise)
        z = minimizers[j] = model.best(x)
        found[is_local(float(f), F[near])].append((model.predicted(x, float(f), z), j))
    return [minimizers[j] for _, j in sorted(found[True])], [minimizers[j] for _, j in sorted(found[False])]


def far_away(
    U: Float64[np.ndarray, "N d"], count: int, generator: np.random.Generator
) -> Iterator[Float64[np.ndarray, "d"]]:
    """Class 5: random points, each the farthest of many from all known and earlier ones."""
    if count <= 0:
        return
    tries = generator.random((CANDIDATES * count, U.shape[1]))
    away = np.full(len(tries), np.inf)
    for u in U:
        away = np.minimum(away, np.linalg.norm(tries - u, axis=1))
    for _ in range(len(tries)):
        u = tries[int(np.argmax(away))]
        yield u
        away = np.minimum(away, np.linalg.norm(tries - u, axis=1))
