"""SNOBFIT: global search by branching the box, local search by fits; implemented from the published description.

W. Huyer and A. Neumaier, SNOBFIT: stable noisy optimization by branch and fit, ACM TOMS 35 (2008), article 9. Each
call of `suggest` returns points of five classes: 1 the minimizer of a quadratic model around the best point; 2 and 3
minimizers of linear models around the other points, local minima first; 4 points in large boxes, where little is
known; 5 points far from all others, if the other classes do not suffice.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from pied.errors import SettingError
from pied.problem import Problem
from pied.rivals.driven import PAPER_PENALTY, SCALED_PENALTY, DrivenRun, Evaluate, Merit, Start
from pied.rivals.snobfit_models import (
    EXACT_UNCERTAINTY,
    EXTRA_NEIGHBOURS,
    Boxes,
    Linear,
    Quadratic,
    is_apart,
    is_local,
    neighbours,
)
from pied.rng import Stream
from pied.shapes import Float64
from pied.solvers.base import Solver

NOISY_UNCERTAINTY = 1e-2  # of a noisy value, relative to the range of all: limits the weight of near neighbours
CANDIDATES_PER_POINT = 100  # random points from which a point of class 5 is chosen as the farthest from all others
LEAST_SEPARATION = 0.1  # unit cube, in some coordinate: points of one call are at least this far apart
TRIES_AROUND_BEST = 20  # random points near the best one, if the minimizer of its quadratic model is known already


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
    """Points suggested at once: few, because each value may change the next suggestion; None: d + 6 (the authors'
    default, for parallel evaluations)."""
    explore: float = 0.5
    """Fraction of a batch, after its first point, in large boxes (class 4); the rest comes from local fits."""
    resolution: float = 1e-5
    """Unit cube: points that differ by less are the same (the authors' default)."""

    def __post_init__(self) -> None:
        Merit(self.penalty, self.scaled)
        if self.batch is not None and self.batch < 1:
            raise SettingError(f"batch counts the points suggested at once, from 1, got {self.batch}")
        if not 0.0 <= self.explore <= 1.0:
            raise SettingError(f"explore is the fraction of points in large boxes, between 0 and 1, got {self.explore}")
        if not 0.0 < self.resolution < 0.1:
            raise SettingError(f"resolution is a distance in the unit cube, above 0, below 0.1, got {self.resolution}")

    @classmethod
    def paper(cls) -> "Snobfit":
        """Return the paper's form: penalty 1e5 in natural units, the authors' settings."""
        return cls(penalty=PAPER_PENALTY, scaled=False, batch=None, explore=0.5, resolution=1e-5)

    def start(self, problem: Problem, stream: Stream) -> DrivenRun:
        """Begin a run."""
        return DrivenRun(self.name, problem, stream, self.minimize, Merit(self.penalty, self.scaled))

    def minimize(self, start: Start, evaluate: Evaluate) -> str:
        """Suggest, evaluate and branch until every point is known at this resolution."""
        size = start.d + EXTRA_NEIGHBOURS + 1 if self.batch is None else self.batch
        noise = EXACT_UNCERTAINTY if start.is_exact else NOISY_UNCERTAINTY
        boxes = Boxes.of(start.U, start.F)
        while True:
            points = suggest(boxes, size, self.explore, self.resolution, noise, start.generator)
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
    """Return the points to evaluate next, on the grid of the resolution, all new and distinct.

    Args:
        boxes: All points and their boxes.
        size: How many points.
        explore: Fraction of the points after the first that lie in large boxes.
        resolution: Mesh of the grid.
        noise: Uncertainty of a value, relative to the range of all.
        generator: Rounds fractions of points, and places the points of class 5.
    """
    d = boxes.U.shape[1]
    chosen: list[Point] = []
    thin: list[int] = []

    def take(candidates: Iterable[Float64[np.ndarray, "d"]], kind: int, most: int) -> None:
        """Keep the first candidates, up to `most`, that are new and apart from those kept already."""
        distance = LEAST_SEPARATION if kind in (2, 3, 4) else 0.5 * resolution
        for candidate in candidates:
            if most <= 0:
                return
            u = np.clip(np.round(candidate / resolution) * resolution, 0.0, 1.0)
            kept = np.array([point.u for point in chosen]).reshape(-1, d)
            if not is_apart(u, boxes.U, 0.5 * resolution) or not is_apart(u, kept, distance):
                continue
            if kind <= 3 and boxes.is_thin[home := boxes.home(u)]:
                thin.append(home)  # do not cut it thinner; a point of class 4 divides its long side instead
                continue
            chosen.append(Point(u, kind))
            most -= 1

    if len(boxes.F) >= d + EXTRA_NEIGHBOURS + 1:
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
    """Class 1: the minimizer of a quadratic model around the best point, then points near it, farthest first."""
    U, F = boxes.U, boxes.F
    d = U.shape[1]
    best = int(np.argmin(F))
    x, f = U[best], float(F[best])
    near = neighbours(U, x, resolution, min(d * (d + 3), len(F) - 1))
    S = U[near] - x
    model = Quadratic.fit(x, f, U[near], F[near])
    nearest = U[neighbours(U, x, resolution, d + EXTRA_NEIGHBOURS)] - x
    step = np.maximum(np.abs(nearest).max(0), resolution)
    yield model.best(x, step, np.vstack([np.zeros((1, d)), S[:2], -S[:1]]))
    close = np.maximum(np.abs(S[:d]).max(0), resolution)
    tries = np.clip(x + close * generator.uniform(-1.0, 1.0, (TRIES_AROUND_BEST, d)), 0.0, 1.0)
    away = np.abs(tries[:, None] - U[None]).max(2).min(1)
    yield from tries[np.argsort(-away, kind="stable")]


def by_linear_models(
    boxes: Boxes, resolution: float, noise: float
) -> tuple[list[Float64[np.ndarray, "d"]], list[Float64[np.ndarray, "d"]]]:
    """Classes 2 and 3: minimizers of linear models around local minima, and around the other points.

    The best predicted value comes first.
    """
    U, F = boxes.U, boxes.F
    d = U.shape[1]
    found: dict[bool, list[tuple[float, int]]] = {True: [], False: []}
    minimizers = {}
    for j, (x, f) in enumerate(zip(U, F, strict=True)):
        near = neighbours(U, x, resolution, d + EXTRA_NEIGHBOURS)
        model = Linear.fit(x, float(f), U[near], F[near], resolution, noise)
        z = minimizers[j] = model.best(x)
        found[is_local(float(f), F[near])].append((model.predicted(x, float(f), z), j))
    return [minimizers[j] for _, j in sorted(found[True])], [minimizers[j] for _, j in sorted(found[False])]


def far_away(
    U: Float64[np.ndarray, "N d"], count: int, generator: np.random.Generator
) -> Iterator[Float64[np.ndarray, "d"]]:
    """Class 5: random points, each the farthest of many from all known and previous ones."""
    if count <= 0:
        return
    tries = generator.random((CANDIDATES_PER_POINT * count, U.shape[1]))
    away = np.full(len(tries), np.inf)
    for u in U:
        away = np.minimum(away, np.linalg.norm(tries - u, axis=1))
    for _ in range(len(tries)):
        u = tries[int(np.argmax(away))]
        yield u
        away = np.minimum(away, np.linalg.norm(tries - u, axis=1))
