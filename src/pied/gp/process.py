"""Belief about the black box: one Gaussian process per output, each with its own inputs, rows, kernel, trend and warp.

Everything here is in the unit cube. What each output is modelled with is chosen in `selection`; the linear algebra of
many regressions at once is in `kriging`.
"""

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float64
from torch import Tensor

from pied.arrays import library, quick, tensor
from pied.gp import likelihood
from pied.gp.choices import Choice, Model, Observations, Warp, thetas
from pied.gp.kernels import TRENDS, View, polynomial
from pied.gp.likelihood import Tasks
from pied.gp.posterior import Posterior
from pied.gp.selection import choose

logger = logging.getLogger(__name__)

LADDER = (1e-10, 1e-8, 1e-6, 1e-4, 1e-2)  # jitter added to K until it factorizes


@dataclass(frozen=True, eq=False)
class GP:
    """Independent posteriors of m outputs, with moments and their slopes at any points of the unit cube."""

    blocks: tuple["Block", ...]
    """The outputs, in batches; usually all of them in one."""
    location: Float64[Tensor, "m"]
    spread: Float64[Tensor, "m"]
    """Standardization on the warped scale."""
    warps: tuple[Warp, ...]
    choices: tuple[Choice, ...]
    """What was chosen; pass it to the next fit."""

    @property
    def theta(self) -> Float64[Tensor, "m q"]:
        """Hyperparameters of every output, as in `Choice`; of one without a wave, zeros for its length scales."""
        return thetas(self.choices).to(self.spread)

    @property
    def variance(self) -> Float64[Tensor, "m"]:
        """Process variance of every output, standardized."""
        return self._ordered([block.variance.flatten() for block in self.blocks])

    @property
    def rung(self) -> str:
        """Rung of the ladder that was needed: "plain", "jitter 1e-08", ..."""
        worst = max(block.jitter for block in self.blocks)
        return "plain" if worst == 0 else f"jitter {worst:g}"

    def _ordered(self, parts: Sequence[Any], dim: int = 0) -> Any:
        """Put what the blocks gave into the order of the outputs."""
        whole = parts[0] if len(parts) == 1 else library(parts[0]).concatenate(parts, dim)
        return whole if self._order is None else whole.swapaxes(0, dim)[self._order].swapaxes(0, dim)

    @cached_property
    def _order(self) -> list[int] | None:
        """Where the blocks have each output; None: in its place."""
        places = [j for block in self.blocks for j in block.outputs]
        order = sorted(range(self.m), key=places.__getitem__)
        return None if order == list(range(self.m)) else order

    @property
    def m(self) -> int:
        """Number of outputs."""
        return len(self.warps)

    @classmethod
    def fit(
        cls,
        U: Float64[Tensor, "N d"],
        Y: Float64[Tensor, "N m"],
        *,
        active: Bool[Tensor, "m d"] | None = None,
        ratios: Float64[Tensor, "d"] | None = None,
        noise: Sequence[float | None] | None = None,
        model: Model | None = None,
        previous: Sequence[Choice] | None = None,
    ) -> "GP":
        """Fit a belief to what was told.

        Args:
            U: Points in the unit cube.
            Y: Outputs there; NaN where an output was not told.
            active: Which inputs each output sees; all by default.
            ratios: Upper over lower bound of each input that is positive and not on a logarithmic scale already, else
                1; where it is large, an output may see the input on a logarithmic scale.
            noise: Per output the std of its noise in natural units, 0 for exact, None for learned; exact by default.
            model: What may be chosen.
            previous: The choices of the last fit; length scales start there and hysteresis favours them.
        """
        d, m = U.shape[1], Y.shape[1]
        model = model or Model()
        if active is None:
            active = torch.ones(m, d, dtype=torch.bool, device=U.device)
        if ratios is None:
            ratios = U.new_ones(d)
        data = Observations.of(U, Y, active.to(U.device), ratios.to(U.device), noise or (0.0,) * m, model)
        return _assemble(data, choose(data, list(previous) if previous is not None else [None] * m))

    def moments(self, U: Float64[Tensor, "b d"]) -> tuple[Float64[Tensor, "b m"], Float64[Tensor, "b m"]]:
        """Return mean and standard deviation of every output on its warped scale."""
        parts = [block.posterior.moments(quick(U.to(self.spread.device))) for block in self.blocks]
        mean, deviation = (tensor(self._ordered(_by_point(word), 1)) for word in zip(*parts, strict=True))
        return self.location + self.spread * mean, self.spread * deviation

    @np.errstate(all="ignore")
    def moments_and_slopes(
        self, U: Float64[Tensor, "b d"]
    ) -> tuple[Float64[Tensor, "b m"], Float64[Tensor, "b m"], Float64[Tensor, "b m d"], Float64[Tensor, "b m d"]]:
        """Return mean, standard deviation and their derivatives with respect to the point."""
        parts = [block.posterior.moments_and_slopes(quick(U.to(self.spread.device))) for block in self.blocks]
        mean, deviation, by_mean, by_deviation = (
            self._ordered(_by_point(word), 1) for word in zip(*parts, strict=True)
        )
        location, spread = quick(self.location), quick(self.spread)
        scale = spread[:, None]
        return (
            tensor(location + spread * mean),
            tensor(spread * deviation),
            tensor(scale * by_mean),
            tensor(scale * by_deviation),
        )

    def unwarp(self, W: Float64[Tensor, "*b m"]) -> Float64[Tensor, "*b m"]:
        """Return outputs in natural units from values on the warped scale."""
        if not self.is_warped:
            return W
        is_log, signs, offsets, units = self._logs
        inner = units * torch.exp(torch.minimum(signs * W, 700.0 - units.log().clamp_min(0.0)))
        return torch.where(is_log, signs * (inner - offsets), W)

    def unwarp_slopes(self, Y: Float64[Tensor, "*b m"]) -> Float64[Tensor, "*b m"]:
        """Return the derivatives of `unwarp` where it gives these outputs: of a logarithm, its argument."""
        is_log, signs, offsets, _ = self._logs
        return torch.where(is_log, signs * Y + offsets, 1.0)

    @cached_property
    def _logs(self) -> tuple[Bool[Tensor, "m"], Float64[Tensor, "m"], Float64[Tensor, "m"], Float64[Tensor, "m"]]:
        """Which outputs are modelled as logarithms, of which sign, offset and unit."""
        return (
            torch.tensor([warp.name != "none" for warp in self.warps], device=self.spread.device),
            self.spread.new_tensor([warp.sign for warp in self.warps]),
            self.spread.new_tensor([warp.offset for warp in self.warps]),
            self.spread.new_tensor([warp.unit for warp in self.warps]),
        )

    @cached_property
    def is_warped(self) -> bool:
        """Whether any output is modelled on another scale."""
        return any(warp.name != "none" for warp in self.warps)

    def imagine(self, U: Float64[Tensor, "p d"], missing: Bool[Tensor, "p m"] | None = None) -> "GP":
        """Add points as if measured at their mean: the variance shrinks, the mean stays.

        Args:
            U: Points that are pending or failed.
            missing: Which outputs are imagined there; all by default.
        """
        if not len(U):
            return self
        mean = ((self.moments(U)[0] - self.location) / self.spread).T
        rows = torch.ones_like(mean) if missing is None else missing.T.to(mean.dtype)
        return replace(self, blocks=tuple(block.imagine(U, mean, rows) for block in self.blocks))


@dataclass(frozen=True, eq=False)
class Block:
    """Regressions that are solved as one batch, each of equally many outputs that share their hyperparameters."""

    groups: tuple[tuple[int, ...], ...]
    """Outputs of every task."""
    tasks: Tasks
    """At the chosen models, observations less the baseline."""
    baseline: Float64[Tensor, "B p c"]
    """Coefficients of the ordinary least-squares trend, taken off before kriging (see `models`)."""
    theta: Float64[Tensor, "B q"]
    """Hyperparameters, as in `Choice`."""
    variance: Float64[Tensor, "B c"]
    """Process variance, standardized."""
    view: View
    """How each task sees points."""
    degree: int
    """Degree of the trend basis."""

    @cached_property
    def outputs(self) -> tuple[int, ...]:
        """All outputs, task by task."""
        return tuple(j for group in self.groups for j in group)

    @property
    def posterior(self) -> Posterior:
        """The tasks at these hyperparameters, standardized."""
        return self._factorized[0]

    @property
    def jitter(self) -> float:
        """What had to be added to the covariance to factorize it."""
        return self._factorized[1]

    @cached_property
    def _factorized(self) -> tuple[Posterior, float]:
        return _factorize(self)

    def imagine(self, U: Float64[Tensor, "p d"], mean: Float64[Tensor, "m p"], rows: Float64[Tensor, "m p"]) -> "Block":
        """Add points as if measured at their mean, where the rows say so."""
        T = self.tasks
        V = self.view.scaled(U)
        basis = polynomial(V, self.degree)
        y = mean[list(self.outputs)].unflatten(0, (len(self.groups), -1)).mT - basis @ self.baseline
        own = rows[[group[0] for group in self.groups]]
        tasks = replace(
            T,
            U=torch.cat([T.U, self.view.whole(U, V)], -2),
            basis=torch.cat([T.basis, basis], -2),
            y=torch.cat([T.y, y * own[:, :, None]], 1),
            rows=torch.cat([T.rows, own], 1),
        )
        return replace(self, tasks=tasks)


def _block(data: Observations, groups: Sequence[tuple[int, ...]], choices: Sequence[Choice]) -> Block:
    """Build the regressions of some outputs at the chosen models."""
    chosen = [choices[group[0]] for group in groups]
    specs = [choice.spec(group) for choice, group in zip(chosen, groups, strict=True)]
    tasks, baseline = data.tasks(specs)
    theta = thetas(chosen).to(data.U)
    variance = likelihood.evaluate(tasks, theta, with_slope=False).variance
    is_short = tasks.rows.sum(1) <= tasks.columns.sum(1)  # no row left to estimate a variance from
    variance = torch.where(is_short[:, None], variance.clamp_min(1.0), variance)
    if data.model.declustering is not None:
        variance = torch.maximum(variance, _declustered_variance(tasks, theta, data.model.declustering))
    degree = max(TRENDS[choice.trend] for choice in chosen)
    return Block(tuple(groups), tasks, baseline, theta, variance, data.view(specs), degree)


def _assemble(data: Observations, choices: Sequence[Choice]) -> GP:
    """Build the posterior at the chosen models."""
    warps = [data.warps[j][choice.warp] for j, choice in enumerate(choices)]
    return GP(
        blocks=tuple(_block(data, groups, choices) for groups in data.blocks()),
        location=data.U.new_tensor([location for _, location, _, _ in warps]),
        spread=data.U.new_tensor([spread for _, _, spread, _ in warps]),
        warps=tuple(warp for warp, *_ in warps),
        choices=tuple(choices),
    )


def _declustered_variance(tasks: Tasks, theta: Float64[Tensor, "B q"], distance: float) -> Float64[Tensor, "B c"]:
    """Estimate the process variance from points that lie apart.

    Dozens of near-duplicates enter the profiled variance with almost no innovation, so that it shrinks with their
    number and the rest of the box looks certain.
    """
    rows = likelihood.apart(tasks, distance)
    changed = (rows != tasks.rows).any(1)
    result = theta.new_zeros(len(theta), tasks.y.shape[2])
    if bool(changed.any()):
        index = changed.nonzero()[:, 0]
        some = tasks.at(index)
        fewer = replace(some, rows=rows[index], y=some.y * rows[index][:, :, None])
        fit = likelihood.evaluate(fewer, theta[index], with_slope=False)
        result[index] = torch.where(torch.isfinite(fit.loss)[:, None], fit.variance, 0.0)
    return result


def _by_point(parts: Sequence[Any]) -> list[Any]:
    """What posteriors gave per task, point and output, per point and output."""
    shapes = [(each.shape[1], each.shape[0] * each.shape[2], *each.shape[3:]) for each in parts]
    return [each.swapaxes(0, 1).reshape(shape) for each, shape in zip(parts, shapes, strict=True)]


def _factorize(block: Block) -> tuple[Posterior, float]:
    """Factorize the covariance, adding jitter where it must; return the posterior and the jitter used."""
    tasks, theta = block.tasks, block.theta
    K, _ = likelihood.covariance(tasks, theta)
    L, jitter = _cholesky(K)
    eye = torch.eye(K.shape[-1], dtype=K.dtype, device=K.device)
    root = torch.linalg.solve_triangular(L, eye.expand_as(K), upper=False)
    F = tasks.basis * tasks.rows[:, :, None] * tasks.columns[:, None, :]
    half = root @ F
    A = half.mT @ half
    A.diagonal(dim1=1, dim2=2).add_(1.0 - tasks.columns)
    LA, trend_jitter = _cholesky(A)
    y = root @ tasks.y
    beta = torch.cholesky_solve(half.mT @ y, LA)
    weights = root.mT @ (y - half @ beta)
    worst = max(jitter, trend_jitter)
    if worst > LADDER[0]:
        logger.warning(
            "the covariance matrix needed a jitter of %g: are points duplicates, or outputs inconsistent?", worst
        )
    elif worst > 0:  # what rounding leaves of points that lie close together, as they do towards the end of a run
        logger.info("the covariance matrix needed a jitter of %g: points lie close together", worst)
    posterior = Posterior(
        points=quick(tasks.U),
        rows=quick(tasks.rows),
        kernel=quick(tasks.kernel),
        inverse=quick(likelihood.inverse_scales(theta, tasks.active)),
        view=View(*(None if each is None else quick(each) for each in block.view)),
        degree=block.degree,
        root=quick(root),
        weights=quick(weights),
        beta=quick(beta * tasks.columns[:, :, None] + block.baseline),
        H=quick(root.mT @ half),
        inverse_A=quick(torch.cholesky_inverse(LA)),
        columns=quick(tasks.columns),
        variance=quick(block.variance),
    )
    return posterior, worst


def _cholesky(K: Float64[Tensor, "m s s"]) -> tuple[Float64[Tensor, "m s s"], float]:
    """Factorize a batch; members that fail climb the ladder of jitters, the others stay as they are."""
    L, info = torch.linalg.cholesky_ex(K)
    failed = (info > 0) | ~torch.isfinite(L).all(-1).all(-1)
    if not bool(failed.any()):
        return L, 0.0
    eye = torch.eye(K.shape[-1], dtype=K.dtype, device=K.device)
    size = K.diagonal(dim1=1, dim2=2).mean(1)[:, None, None]
    for jitter in LADDER:
        more, info = torch.linalg.cholesky_ex(K + jitter * size * eye)
        solved = failed & (info == 0) & torch.isfinite(more).all(-1).all(-1)
        L = torch.where(solved[:, None, None], more, L)
        failed = failed & ~solved
        if not bool(failed.any()):
            return L, jitter
    diagonal = torch.nan_to_num(K.diagonal(dim1=1, dim2=2), nan=1.0).clamp_min(1e-8)
    return torch.where(failed[:, None, None], torch.diag_embed(diagonal.sqrt()), L), math.inf
