"""SCBO (Eriksson and Poloczek 2021): Thompson sampling in a trust region, on function values, with models of BoTorch.

BoTorch is imported when a run starts, never before. It draws from the global generators, so it is given a seed of ours
inside a scope that puts them back as they were.
"""

import logging
import random
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Bool, Float64
from torch import Tensor

from pied import bridge
from pied.bounds import White
from pied.errors import SettingError
from pied.problem import Problem
from pied.records import Dataset, Why, feasible, spread
from pied.rng import Stream
from pied.solvers.base import Proposal, Run, Solver
from pied.solvers.folding import FoldedRun

logger = logging.getLogger(__name__)

EXACT = 1e-6  # variance of the noise of an exact output, of its own variance: BoTorch's kernels need no less
WORTH = 1e-3  # of the objective's spread: a smaller improvement is no success (as in TuRBO)
PERTURBED = 20  # coordinates that differ from the centre, on average, in many dimensions


@dataclass(frozen=True)
class SCBO(Solver):
    """Scalable constrained Bayesian optimization: draws of the belief maximized in a trust region, through BoTorch."""

    name: ClassVar[str] = "scbo"

    candidates: int = 2000
    """Points of the trust region at which the belief is drawn."""
    length: float = 0.8
    """Side of the first trust region, and after a restart; of the unit cube."""
    longest: float = 1.6
    """Side at most."""
    shortest: float = 0.5**7
    """Side below which the region starts again."""
    successes: int = 3
    """Improvements in a row after which it doubles."""
    failures: int | None = None
    """Trials in a row without improvement after which it halves; None: the number of variables, at least 4."""
    strict: bool = False
    """Raise where the models fail, instead of a random point of the region."""

    def __post_init__(self) -> None:
        if self.candidates < 1:
            raise SettingError(f"candidates counts points from 1, got {self.candidates}")
        if not 0.0 < self.shortest < self.length <= self.longest:
            raise SettingError("the sides of the trust region must grow: 0 < shortest < length <= longest")
        if self.successes < 1 or (self.failures is not None and self.failures < 1):
            raise SettingError("successes and failures count trials from 1")

    def start(self, problem: Problem, stream: Stream) -> FoldedRun:
        """Begin a run on the folded problem."""
        bridge.need_botorch("solver 'scbo'")
        return FoldedRun(problem, lambda folded: SCBORun(self, folded, stream))


@dataclass(frozen=True, eq=False)
class Region:
    """A trust region: a function of the record alone."""

    center: Float64[Tensor, "d"]
    length: float


def region(settings: SCBO, problem: Problem, data: Dataset) -> Region:
    """Replay the record: the region doubles after successes, halves after failures, and starts again when too short."""
    f = data.functions(problem)
    fine = feasible(problem, f)
    units = spread(f[torch.isfinite(f).all(1)])
    violation = (-f[:, 1:] / units[1:]).clamp_min(0.0).sum(1)
    patience = settings.failures or max(4, problem.d)
    length, wins, losses, best = settings.length, 0, 0, -1
    for row in range(len(f)):
        if not bool(torch.isfinite(f[row]).all()):
            continue
        is_better = best < 0 or _beats(f, fine, violation, units, row, best)
        if best >= 0 and row >= 2 * problem.d + 1:
            wins, losses = (wins + 1, 0) if is_better else (0, losses + 1)
            if wins == settings.successes:
                length, wins = min(2.0 * length, settings.longest), 0
            elif losses == patience:
                length, losses = length / 2.0, 0
            if length < settings.shortest:
                length, wins, losses = settings.length, 0, 0
        if best < 0 or _beats(f, fine, violation, units, row, best, worth=0.0):
            best = row
    center = data.U[best] if best >= 0 else torch.full((problem.d,), 0.5, dtype=torch.float64)
    return Region(center, length if best >= 0 else 2.0)


def _beats(
    f: Tensor, fine: Tensor, violation: Tensor, units: Tensor, row: int, best: int, worth: float = WORTH
) -> bool:
    """Feasible beats infeasible; among feasible points the value counts, among the others the violation."""
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
        """Draw every function in the trust region and take the best of the draw."""
        began = time.perf_counter()
        stream = self.stream.at("trial", number)
        around = region(self.settings, self.problem, data)
        try:
            with scoped(stream):
                models = _fitted(self.problem, data)
                U = self._candidates(around, _weights(models[0] if models else None, self.problem.d), stream)
                drawn = [None if model is None else bridge.drawn(model, U) for model in models]
            u, rung = U[self._best(U, drawn, data)], "plain"
        except (RuntimeError, ArithmeticError, ValueError) as error:
            if self.settings.strict:
                raise
            logger.warning("trial %d: the models failed (%s); a random point of the region is proposed", number, error)
            U = self._candidates(around, torch.ones(self.problem.d, dtype=torch.float64), stream)
            u, rung = U[int(self._is_white(U).to(torch.int8).argmax())], f"random in the region: {error}"
        return Proposal(u, Why("sample", rung=rung, seconds=time.perf_counter() - began))

    def _candidates(self, around: Region, weights: Float64[Tensor, "d"], stream: Stream) -> Float64[Tensor, "c d"]:
        """Return Sobol points of the region; in many dimensions most coordinates stay at the centre."""
        d, half = self.problem.d, 0.5 * around.length * weights
        low, high = (around.center - half).clamp(0.0, 1.0), (around.center + half).clamp(0.0, 1.0)
        U = low + (high - low) * stream.at("candidates").sobol(self.settings.candidates, d)
        if d <= PERTURBED:
            return U
        moved = stream.at("moved").uniform(len(U), d) < PERTURBED / d
        moved[torch.arange(len(U)), (stream.at("one").uniform(len(U)) * d).long()] = True
        return torch.where(moved, U, around.center)

    def _best(self, U: Tensor, drawn: list[Tensor | None], data: Dataset) -> int:
        """Return the candidate that is best in the draw: by value among feasible ones, else the least violated."""
        f = torch.zeros(len(U), self.problem.k, dtype=torch.float64)
        white = tuple(i for i, draw in enumerate(drawn) if draw is None)
        if white:
            nothing = torch.zeros(1, len(U), self.problem.m, dtype=torch.float64)
            G = self.problem.g(self.problem.from_unit(U), nothing, which=white)
            f[:, list(white)] = torch.stack([g.expand(1, len(U))[0] for g in G], -1).detach()
            f[:, list(white)] /= spread(f[:, list(white)])
        for i, draw in enumerate(drawn):
            if draw is not None:
                f[:, i] = draw
        known = torch.cat([data.U, data.imagined])
        fresh = torch.cdist(U, known, p=torch.inf).amin(1) > 1e-7 if len(known) else torch.ones(len(U)) > 0
        violation = (-f[:, 1:]).clamp_min(0.0).sum(1)
        fine = (violation <= 0) & fresh
        if bool(fine.any()):
            return int(torch.where(fine, f[:, 0], -torch.inf).argmax())
        exact = ~self._is_white(U) * 1e6
        return int((violation + exact + (~fresh) * 1e9).argmin())

    def _is_white(self, U: Float64[Tensor, "c d"]) -> Bool[Tensor, "c"]:
        """Which points meet every white constraint."""
        which = self.problem.white
        return (White(self.problem, which).values(U)[:, 1:] >= 0).all(1)


@contextmanager
def scoped(stream: Stream) -> Iterator[None]:
    """Let what insists on the global generators draw from a seed of ours, and put them back as they were."""
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
    """Fit one model per function; None for white ones."""
    models: list[Any] = []
    f = data.functions(problem)
    for i, structure in enumerate(problem.structure):
        if structure.kind == "white":
            models.append(None)
            continue
        told = torch.isfinite(f[:, i])
        y = f[told, i][:, None] / spread(f[told, i][:, None])
        if i > 0:  # tamed as in the paper, sign and zero kept
            y = y.sign() * torch.log1p(y.abs())
        size = y.var(correction=0).clamp_min(1e-12)
        exact = all(noise == 0 for noise in problem.noise)
        models.append(bridge.fitted(data.U[told], y, torch.full_like(y, EXACT) * size if exact else None))
    return models


def _weights(model: Any, d: int) -> Float64[Tensor, "d"]:
    """Return the sides of the region, of volume 1: longer where the objective varies less."""
    kernel = getattr(model, "covar_module", None)
    kernel = getattr(kernel, "base_kernel", kernel)
    scales = getattr(kernel, "lengthscale", None)
    if scales is None:
        return torch.ones(d, dtype=torch.float64)
    flat = scales.detach().reshape(-1).to(torch.float64).expand(d)
    return flat / flat.log().mean().exp()
