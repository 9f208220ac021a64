"""Batches of regressions: at chosen models and hyperparameters, with what is imagined or widened; their posteriors."""

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy import ndarray

from pied.gp import likelihood
from pied.gp.choices import ModelChoice, thetas
from pied.gp.drift import Drift
from pied.gp.factors import add_to_diagonal, roots
from pied.gp.features.view import View
from pied.gp.kernels import EVERY_TREND, polynomial
from pied.gp.likelihood import EXACT_NUGGET, Tasks
from pied.gp.observations import Observations
from pied.gp.posterior import Posterior
from pied.gp.regressions import drift, regressions, view
from pied.shapes import Float64, Int

logger = logging.getLogger(__name__)

JITTERS = (1e-10, 1e-8, 1e-6, 1e-4, 1e-2)  # of the mean diagonal, added to a matrix until it factorizes


@dataclass(frozen=True, eq=False)
class Block:
    """Regressions that are solved as one batch, each of equally many outputs that share their hyperparameters."""

    groups: tuple[tuple[int, ...], ...]
    """Outputs of every task."""
    tasks: Tasks
    """At the chosen models, told values less the baseline."""
    baseline: Float64[ndarray, "B p c"]
    """Coefficients of the least-squares trend, taken off before kriging (see `candidates`)."""
    theta: Float64[ndarray, "B q"]
    """Hyperparameters, as in `ModelChoice`."""
    variance: Float64[ndarray, "B c"]
    """Process variance, standardized."""
    view: View
    """How each task sees points."""
    degree: int
    """Degree of the trend basis."""
    soft: Float64[ndarray, "B N"] | None = None
    """1 for values that stand for what is known beyond a plateau; None: for none."""
    drift: Drift | None = None
    """Models of the outputs; None: none has one."""
    density: Float64[ndarray, "B"] | None = None
    """Leave-one-out density of the told values where it was found with the variance; None: not yet."""
    asked: Float64[ndarray, "o"] | None = None
    """What questions have of the offsets (`offsets`); None: nothing, they are about an average block."""
    known: tuple[Posterior, float] | None = None
    """Posterior and jitter where they follow from another block's; None: the covariance is factorized."""

    @cached_property
    def outputs(self) -> tuple[int, ...]:
        """All outputs, task by task."""
        return tuple(j for group in self.groups for j in group)

    @property
    def hard(self) -> Tasks:
        """The tasks with told values alone."""
        return self.tasks if self.soft is None else _without(self.tasks, self.soft)

    @property
    def posterior(self) -> Posterior:
        """The tasks at these hyperparameters, standardized."""
        return self._factorized[0]

    @property
    def jitter(self) -> float:
        """What was added to the covariance so that it could be factorized."""
        return self._factorized[1]

    @cached_property
    def _factorized(self) -> tuple[Posterior, float]:
        return self.known or _factorize(self)

    def imagine(
        self,
        U: Float64[ndarray, "p d"],
        mean: Float64[ndarray, "m p"],
        rows: Float64[ndarray, "m p"],
        noise: float,
    ) -> "Block":
        """Add points as if their mean had been told, with so many times the noise variance, where the rows say so."""
        T = self.tasks
        V = self.view.scaled(U)
        basis = polynomial(V, self.degree)
        y = mean[list(self.outputs)].reshape(len(self.groups), -1, len(U)).swapaxes(1, 2)
        if self.drift is not None:
            known = self.drift.values(U)
            y = y - known[:, :, None]
            basis = self.drift.beside(basis, known)
        y = y - basis @ self.baseline
        first = [group[0] for group in self.groups]
        own = rows[first]
        scatter = T.scatter if noise == 1.0 or T.scatter is not None else np.ones_like(T.rows)
        tasks = replace(
            T,
            U=np.concatenate([T.U, self.view.whole(U, V)], -2),
            basis=np.concatenate([T.basis, basis], -2),
            y=np.concatenate([T.y, y * own[:, :, None]], 1),
            rows=np.concatenate([T.rows, own], 1),
            scatter=None if scatter is None else np.concatenate([scatter, np.full_like(own, noise)], 1),
            together=None if T.together is None else np.concatenate([T.together, self._asked_at(len(U))]),
        )
        soft = None if self.soft is None else np.concatenate([self.soft, np.zeros_like(own)], 1)
        return replace(self, tasks=tasks, soft=soft, density=None, known=None)

    def _asked_at(self, points: int) -> Float64[ndarray, "b q"]:
        """Return what imagined values have of the offsets: as much as the question."""
        own = np.zeros(0 if self.tasks.together is None else self.tasks.together.shape[1])
        return np.tile(own if self.asked is None else self.asked, (points, 1))

    def at(self, kept: Int[ndarray, "c"]) -> "Block":
        """Return the same models conditioned on some of the points."""
        T = self.tasks
        tasks = replace(
            T,
            U=T.U[..., kept, :],
            basis=T.basis[..., kept, :],
            y=T.y[:, kept],
            rows=T.rows[:, kept],
            scatter=None if T.scatter is None else T.scatter[:, kept],
            together=None if T.together is None else T.together[kept],
        )
        return replace(
            self, tasks=tasks, soft=None if self.soft is None else self.soft[:, kept], density=None, known=None
        )

    def widened(self, factor: Float64[ndarray, "m"], shift: Float64[ndarray, "m"]) -> "Block":
        """Multiply the deviations of every output, and lower the logarithm of its nugget.

        Outputs that share their hyperparameters share the shift: that of the one whose nugget falls least. A nugget
        falls no lower than that of an exact output, since rounding errors would take its place.
        """
        own = factor[list(self.outputs)].reshape(self.variance.shape)
        shifts = np.array([shift[list(group)].max() for group in self.groups])
        nugget = self.theta[:, -1]
        lower = np.maximum(nugget + shifts, np.minimum(nugget, math.log(EXACT_NUGGET)))
        theta = np.concatenate([self.theta[:, :-1], lower[:, None]], 1)
        known = None if shifts.any() else (self.posterior.widened(own), self.jitter)  # without a shift, K is the same
        return replace(self, theta=theta, variance=self.variance * own**2, density=None, known=known)


def block_of(data: Observations, groups: Sequence[tuple[int, ...]], choices: Sequence[ModelChoice]) -> Block:
    """Build the regressions of some outputs at the chosen models."""
    chosen = [choices[group[0]] for group in groups]
    models = [choice.candidate(group) for choice, group in zip(chosen, groups, strict=True)]
    tasks, baseline = regressions(data, models)
    theta = thetas(chosen)
    soft = None if data.latent is None else np.isfinite(data.latent)[[group[0] for group in groups]].astype(np.float64)
    hard = tasks if soft is None else _without(tasks, soft)
    fit = likelihood.evaluate(hard, theta, with_slope=False)
    variance = fit.variance
    is_short = hard.rows.sum(1) <= hard.columns.sum(1)  # no row left to estimate a variance from
    variance = np.where(is_short[:, None], np.maximum(variance, 1.0), variance)
    if data.model.declustering is not None:
        variance = np.maximum(variance, _declustered_variance(hard, theta, data.model.declustering))
    degree = max(EVERY_TREND[choice.trend] for choice in chosen)
    return Block(
        tuple(groups), tasks, baseline, theta, variance, view(data, models), degree, soft, drift(data, models),
        fit.density,
    )  # fmt: skip


def _without(tasks: Tasks, soft: Float64[ndarray, "B N"]) -> Tasks:
    """Return tasks as if some of their values had not been told."""
    rows = tasks.rows * (1.0 - soft)
    return replace(tasks, rows=rows, y=tasks.y * rows[:, :, None])


def _declustered_variance(tasks: Tasks, theta: Float64[ndarray, "B q"], distance: float) -> Float64[ndarray, "B c"]:
    """Estimate the process variance from points that lie apart.

    Dozens of near-duplicates add almost nothing new to the profiled variance, so it shrinks with their number, and the
    belief looks certain in the rest of the box.
    """
    rows = likelihood.apart(tasks, distance)
    changed = (rows != tasks.rows).any(1)
    result = np.zeros((len(theta), tasks.y.shape[2]))
    if changed.any():
        index = np.flatnonzero(changed)
        some = tasks.at(index)
        fewer = replace(some, rows=rows[index], y=some.y * rows[index][:, :, None])
        fit = likelihood.evaluate(fewer, theta[index], with_slope=False)
        result[index] = np.where(np.isfinite(fit.loss)[:, None], fit.variance, 0.0)
    return result


def _factorize(block: Block) -> tuple[Posterior, float]:
    """Factorize the covariance, adding jitter where it must; return the posterior and the jitter used."""
    tasks, theta = block.tasks, block.theta
    K, _ = likelihood.covariance(tasks, theta, slopes=False)
    root, jitter = _roots(K)
    used = np.asarray(tasks.columns.any(0))
    columns = tasks.columns[:, used]
    half = root @ (tasks.basis[..., used] * tasks.rows[:, :, None] * columns[:, None, :])
    A = half.swapaxes(1, 2) @ half
    add_to_diagonal(A, 1.0 - columns)
    trend_root, trend_jitter = _roots(A)
    y = root @ tasks.y
    beta = trend_root.swapaxes(1, 2) @ (trend_root @ (half.swapaxes(1, 2) @ y))
    weights = root.swapaxes(1, 2) @ (y - half @ beta)
    worst = max(jitter, trend_jitter)
    if worst > JITTERS[0]:
        logger.warning(
            "the covariance matrix needed a jitter of %g: check for duplicate points with different values", worst
        )
    elif worst > 0:  # rounding errors of points that lie close together, as they do towards the end of a run
        logger.info("the covariance matrix needed a jitter of %g: points lie close together", worst)
    posterior = Posterior(
        points=tasks.U,
        rows=tasks.rows,
        kernel=tasks.kernel,
        inverse=likelihood.inverse_scales(theta, tasks.active),
        view=block.view,
        degree=block.degree,
        root=root,
        weights=weights,
        beta=beta * columns[:, :, None] + block.baseline[:, used],
        H=root.swapaxes(1, 2) @ half,
        inverse_A=trend_root.swapaxes(1, 2) @ trend_root,
        columns=columns,
        used=used,
        variance=block.variance,
        apart=None if block.asked is None else offset_covariances(tasks, block.asked),
        drift=block.drift,
    )
    return posterior, worst


def offset_covariances(
    tasks: Tasks, asked: Float64[ndarray, "q"]
) -> tuple[Float64[ndarray, "B N"], Float64[ndarray, "B"]]:
    """Return the covariance of a question's offset with those of told values, and its variance (`offsets`)."""
    if tasks.together is None or tasks.share is None:
        return np.zeros_like(tasks.rows), np.zeros(len(tasks.rows))
    own = tasks.share * asked
    return own @ tasks.together.T, own @ asked


def _roots(K: Float64[ndarray, "B n n"]) -> tuple[Float64[ndarray, "B n n"], float]:
    """Return inverse Cholesky factors; matrices that fail get more and more jitter, the others none."""
    R, failed = roots(K)
    if not failed.any():
        return R, 0.0
    diagonal = np.diagonal(K, axis1=1, axis2=2)
    jitters = diagonal.mean(1)[:, None, None] * np.eye(K.shape[1])
    for jitter in JITTERS:
        more, still = roots(K[failed] + jitter * jitters[failed])
        R[failed] = more
        failed[failed] = still
        if not failed.any():
            return R, jitter
    safe = np.maximum(np.nan_to_num(diagonal[failed], nan=1.0), 1e-8)
    R[failed] = np.eye(K.shape[1]) / np.sqrt(safe)[:, :, None]
    return R, math.inf
