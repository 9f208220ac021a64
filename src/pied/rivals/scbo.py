"""SCBO (Eriksson and Poloczek 2021): Thompson sampling in a trust region, on function values, with models of BoTorch.

BoTorch is imported when a run starts. It draws from the global generators, so they are seeded from our stream inside a
scope that restores them.
"""

import logging
import random
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any, ClassVar

import numpy as np
from numpy import ndarray

from pied.distances import to_nearest
from pied.errors import MissingExtra, SettingError
from pied.problem import Problem
from pied.records import Dataset, Why, feasible, spread
from pied.rivals.folded import FoldedRun
from pied.rng import Stream
from pied.shapes import Bool, Float64
from pied.solvers.base import BREAKDOWNS, Proposal, Run, Solver
from pied.solvers.frame import meets_white
from pied.solvers.initial import design_size

logger = logging.getLogger(__name__)

EXACT_NOISE_VARIANCE = 1e-6  # of an exact output, relative to its variance: BoTorch's kernels need this much
SUCCESS_GAIN = 1e-3  # of the objective's spread: a smaller improvement does not count as a success (as in TuRBO)
MOVED_COORDINATES = 20  # coordinates that differ from the centre, on average, in many dimensions
REPEATED = 1e-7  # unit cube: a candidate this close to a known point repeats it
WHITE_PENALTY = 1e6  # added to the violation, in spreads: a broken white constraint outweighs every drawn violation
REPEATED_PENALTY = 1e9  # likewise: a repeated point is the last choice
SMALLEST_VARIANCE = 1e-12  # of values divided by their spread: keeps the noise of a constant output positive


@dataclass(frozen=True)
class SCBO(Solver):
    """Scalable constrained Bayesian optimization: maximize posterior draws in a trust region, with BoTorch's models."""

    name: ClassVar[str] = "scbo"

    candidates: int = 2000
    """Points of the trust region at which the functions are drawn."""
    length: float = 0.8
    """Side of the trust region at first and after a restart; unit cube."""
    longest: float = 1.6
    """Largest side."""
    shortest: float = 0.5**7
    """Side below which the region restarts."""
    successes: int = 3
    """Improvements in a row after which it doubles."""
    failures: int | None = None
    """Trials in a row without improvement after which it halves; None: the number of variables, at least 4."""
    strict: bool = False
    """Whether a failure of the models is raised; by default a random point of the region is proposed."""

    def __post_init__(self) -> None:
        if self.candidates < 1:
            raise SettingError(f"candidates counts points from 1, got {self.candidates}")
        if not 0.0 < self.shortest < self.length <= self.longest:
            raise SettingError("the sides of the trust region must grow: 0 < shortest < length <= longest")
        if self.successes < 1 or (self.failures is not None and self.failures < 1):
            raise SettingError("successes and failures count trials from 1")

    def start(self, problem: Problem, stream: Stream) -> FoldedRun:
        """Begin a run on the folded problem."""
        _bridge()
        return FoldedRun(problem, lambda folded: SCBORun(self, folded, stream))


@dataclass(frozen=True, eq=False)
class TrustRegion:
    """A trust region; it depends on the data alone."""

    center: Float64[ndarray, "d"]
    length: float


def trust_region(settings: SCBO, problem: Problem, data: Dataset) -> TrustRegion:
    """Replay the data: the region doubles after successes, halves after failures, and restarts when it is too short."""
    f = data.functions(problem)
    fine = feasible(problem, f)
    is_whole = np.isfinite(f).all(1)
    units = spread(f[is_whole])
    violation = np.maximum(-f[:, 1:] / units[1:], 0.0).sum(1)
    patience = settings.failures or max(4, problem.d)
    length, wins, losses, best = settings.length, 0, 0, -1
    for row in np.flatnonzero(is_whole).tolist():
        is_better = best < 0 or _beats(f, fine, violation, units, row, best)
        if best >= 0 and row >= design_size(problem.chosen):
            wins, losses = (wins + 1, 0) if is_better else (0, losses + 1)
            if wins == settings.successes:
                length, wins = min(2.0 * length, settings.longest), 0
            elif losses == patience:
                length, losses = length / 2.0, 0
            if length < settings.shortest:
                length, wins, losses = settings.length, 0, 0
        if best < 0 or _beats(f, fine, violation, units, row, best, worth=0.0):
            best = row
    center = data.U[best] if best >= 0 else np.full(problem.d, 0.5)
    return TrustRegion(center, length if best >= 0 else 2.0)


def _beats(
    f: Float64[ndarray, "N k"],
    fine: Bool[ndarray, "N"],
    violation: Float64[ndarray, "N"],
    units: Float64[ndarray, "k"],
    row: int,
    best: int,
    worth: float = SUCCESS_GAIN,
) -> bool:
    """Whether a row beats the best: feasible before infeasible, then by value or by violation."""
    if bool(fine[row]) != bool(fine[best]):
        return bool(fine[row])
    if bool(fine[row]):
        return bool(f[row, 0] > f[best, 0] + worth * units[0])
    return bool(violation[row] < violation[best] - worth)


class SCBORun(Run):
    """One run on a folded problem."""

    def __init__(self, settings: SCBO, problem: Problem, stream: Stream) -> None:
        self.settings, self.problem, self.stream = settings, problem, stream

    def ask(self, number: int, data: Dataset) -> Proposal:
        """Draw every function in the trust region and propose the best candidate of the draw."""
        began = time.perf_counter()
        stream = self.stream.at("trial", number)
        around = trust_region(self.settings, self.problem, data)
        try:
            with scoped(stream):
                models = _fitted(self.problem, data)
                U = self._candidates(around, _weights(models[0] if models else None, self.problem.d), stream)
                drawn = [None if model is None else _bridge().drawn(model, U) for model in models]
            u, rung = U[self._best(U, drawn, data)], "plain"
        except BREAKDOWNS as error:
            if self.settings.strict:
                raise
            logger.warning("trial %d: the models failed (%s); a random point of the region is proposed", number, error)
            U = self._candidates(around, np.ones(self.problem.d), stream)
            u, rung = U[meets_white(self.problem, U).argmax()], f"random in the region: {error}"
        return Proposal(u, Why("sample", rung=rung, seconds=time.perf_counter() - began))

    def _candidates(
        self, around: TrustRegion, weights: Float64[ndarray, "d"], stream: Stream
    ) -> Float64[ndarray, "c d"]:
        """Return Sobol points of the region; in many dimensions most coordinates keep the value of the centre."""
        d, half = self.problem.d, 0.5 * around.length * weights
        low, high = np.clip(around.center - half, 0.0, 1.0), np.clip(around.center + half, 0.0, 1.0)
        U = low + (high - low) * stream.at("candidates").sobol(self.settings.candidates, d)
        if d <= MOVED_COORDINATES:
            return U
        moved = stream.at("moved").uniform(len(U), d) < MOVED_COORDINATES / d
        moved[np.arange(len(U)), (stream.at("one").uniform(len(U)) * d).astype(np.int64)] = True
        return np.where(moved, U, around.center)

    def _best(self, U: Float64[ndarray, "c d"], drawn: list[Float64[ndarray, "c"] | None], data: Dataset) -> int:
        """Return the best candidate of the draw: the best value among feasible ones, else the least violation."""
        f = np.zeros((len(U), self.problem.k))
        white = tuple(i for i, draw in enumerate(drawn) if draw is None)
        if white:
            nothing = np.zeros((1, len(U), self.problem.m))
            values = np.stack(self.problem.g(self.problem.from_unit(U), nothing, which=white), -1)
            f[:, list(white)] = values / spread(values)
        for i, draw in enumerate(drawn):
            if draw is not None:
                f[:, i] = draw
        known = np.concatenate([data.U, data.imagined])
        fresh = np.ones(len(U), dtype=bool)
        if len(known):
            fresh = to_nearest(U, known, "chebyshev") > REPEATED
        violation = np.maximum(-f[:, 1:], 0.0).sum(1)
        fine = (violation <= 0) & fresh
        if fine.any():
            return int(np.where(fine, f[:, 0], -np.inf).argmax())
        broken = ~meets_white(self.problem, U) * WHITE_PENALTY
        return int((violation + broken + (~fresh) * REPEATED_PENALTY).argmin())


@contextmanager
def scoped(stream: Stream) -> Iterator[None]:
    """Seed the global generators from our stream for code that needs them, and restore them afterwards."""
    import torch

    seed = int(stream.at("scoped").generator().integers(2**31))
    numpy_state, python_state = np.random.get_state(), random.getstate()
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.manual_seed(seed)
        np.random.seed(seed)
        random.seed(seed)
        try:
            yield
        finally:
            np.random.set_state(numpy_state)
            random.setstate(python_state)


def _fitted(problem: Problem, data: Dataset) -> list[Any]:
    """Fit one model per function; None for white functions."""
    models: list[Any] = []
    f = data.functions(problem)
    for i, structure in enumerate(problem.structure):
        if structure.kind == "white":
            models.append(None)
            continue
        told = np.isfinite(f[:, i])
        y = f[told, i][:, None] / spread(f[told, i][:, None])
        if i > 0:  # compressed as in the SCBO paper; sign and zero stay
            y = np.sign(y) * np.log1p(np.abs(y))
        variance = EXACT_NOISE_VARIANCE * max(float(y.var()), SMALLEST_VARIANCE) if problem.is_exact else None
        models.append(_bridge().fitted(data.U[told], y, variance))
    return models


def _weights(model: Any, d: int) -> Float64[ndarray, "d"]:
    """Return relative sides of the region, with product 1: proportional to the objective's length scales."""
    lengths = _bridge().length_scales(model)
    if lengths is None:
        return np.ones(d)
    return np.broadcast_to(lengths / np.exp(np.log(lengths).mean()), d)


def _bridge() -> ModuleType:
    """Return the connection to BoTorch, or say what to install."""
    try:
        from pied import bridge
    except MissingExtra as error:
        raise MissingExtra("solver 'scbo'", "BoTorch", "botorch") from error
    bridge.need_botorch("solver 'scbo'")
    return bridge
