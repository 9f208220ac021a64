"""Belief about the black box: one Gaussian process per output, each with its own inputs, rows, kernel, trend and warp.

Everything here is in the unit cube. What each output is modelled with is chosen in `models`; the linear algebra of many
regressions at once is in `kriging`.
"""

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch
from jaxtyping import Bool, Float64
from torch import Tensor

from pied import kriging
from pied.kriging import TRENDS, Tasks
from pied.models import SPARE_ROWS, Choice, Model, Observations, Warp, choose, stretched, stretched_slopes

logger = logging.getLogger(__name__)

LADDER = (1e-10, 1e-8, 1e-6, 1e-4, 1e-2)  # jitter added to K until it factorizes


@dataclass(frozen=True, eq=False)
class GP:
    """Independent posteriors of m outputs, with moments and their slopes at any points of the unit cube."""

    tasks: Tasks
    """One task per output, at the chosen models, its observations less the baseline."""
    baseline: Float64[Tensor, "m p"]
    """Coefficients of the ordinary least-squares trend, taken off before kriging (see `_detrended`)."""
    theta: Float64[Tensor, "m q"]
    """Hyperparameters, as in `Choice`."""
    variance: Float64[Tensor, "m"]
    """Process variance, standardized."""
    location: Float64[Tensor, "m"]
    spread: Float64[Tensor, "m"]
    """Standardization on the warped scale."""
    warps: tuple[Warp, ...]
    choices: tuple[Choice, ...]
    """What was chosen; pass it to the next fit."""
    stretch: Float64[Tensor, "m d"]
    """Ratios by which each output sees its inputs on a logarithmic scale; 1: as they are."""
    degree: int
    """Degree of the trend basis."""
    rung: str = "plain"
    """Rung of the ladder that was needed: "plain", "jitter 1e-08", ..."""
    _factors: dict[str, Tensor] = field(default_factory=dict, repr=False)

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
        data = Observations.of(U, Y, active, ratios, noise or (0.0,) * m, model)
        return _assemble(data, choose(data, list(previous) if previous is not None else [None] * m))

    def moments(self, U: Float64[Tensor, "b d"]) -> tuple[Float64[Tensor, "b m"], Float64[Tensor, "b m"]]:
        """Return mean and standard deviation of every output on its warped scale."""
        mean, deviation, *_ = self._moments(U, slopes=False)
        return mean, deviation

    def moments_and_slopes(
        self, U: Float64[Tensor, "b d"]
    ) -> tuple[Float64[Tensor, "b m"], Float64[Tensor, "b m"], Float64[Tensor, "b m d"], Float64[Tensor, "b m d"]]:
        """Return mean, standard deviation and their derivatives with respect to the point."""
        return self._moments(U, slopes=True)

    def _moments(self, U: Tensor, slopes: bool) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Universal kriging: mean = f'beta + k'P y, var = s2 [1 - k'K^-1 k + r'A^-1 r] with r = f - F'K^-1 k."""
        F, T = self._factors, self.tasks
        inverse = F["inverse"]
        V = stretched(U, self.stretch)
        k, w = kriging.radial(kriging.squared_distances(V, T.U, inverse), T.kernel)
        k = k * T.rows[:, None, :]
        f = kriging.polynomial(V, self.degree) * T.columns[:, None, :]
        mean = (k @ F["weights"][:, :, None])[:, :, 0] + (f @ F["beta"][:, :, None])[:, :, 0]
        v = k @ F["root"].mT
        r = f - k @ F["H"]
        rA = r @ F["inverse_A"]
        ratio = (1.0 - v.square().sum(-1) + (rA * r).sum(-1)).clamp_min(1e-16)
        deviation = (self.variance[:, None] * ratio).sqrt()
        scale = self.spread[:, None]
        mean_out, deviation_out = (self.location[:, None] + scale * mean).T, (scale * deviation).T
        if not slopes:
            return mean_out, deviation_out, mean_out, deviation_out
        w = w * T.rows[:, None, :]
        by_weights = w * F["weights"][:, None, :]
        by_variance = w * (v @ F["root"] + rA @ F["H"].mT)
        square = inverse.square()[:, None, :]
        mean_slope = -(V * by_weights.sum(-1, keepdim=True) - by_weights @ T.U) * square
        ratio_slope = 2.0 * (V * by_variance.sum(-1, keepdim=True) - by_variance @ T.U) * square
        if self.degree > 0:
            basis_slopes = kriging.polynomial_slopes(V, self.degree)
            mean_slope = mean_slope + (F["beta"][:, None, None, :] @ basis_slopes)[:, :, 0]
            ratio_slope = ratio_slope + 2.0 * ((rA * T.columns[:, None, :])[:, :, None, :] @ basis_slopes)[:, :, 0]
        if V.ndim == 3:
            chain = stretched_slopes(U, self.stretch)
            mean_slope, ratio_slope = mean_slope * chain, ratio_slope * chain
        factor = self.variance[:, None] / (2.0 * deviation)
        deviation_slope = factor[:, :, None] * ratio_slope
        mean_slope, deviation_slope = (
            (scale[:, :, None] * each).transpose(0, 1) for each in (mean_slope, deviation_slope)
        )
        return mean_out, deviation_out, mean_slope, deviation_slope

    def unwarp(self, W: Float64[Tensor, "*b m"]) -> Float64[Tensor, "*b m"]:
        """Return outputs in natural units from values on the warped scale."""
        signs, offsets, is_log = self._factors["signs"], self._factors["offsets"], self._factors["is_log"]
        if not self.is_warped:
            return W
        return torch.where(is_log, signs * (torch.exp((signs * W).clamp_max(700.0)) - offsets), W)

    @property
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
        T = self.tasks
        mean, _ = self.moments(U)
        V = stretched(U, self.stretch)
        basis = kriging.polynomial(V, self.degree)
        y = ((mean - self.location) / self.spread).T - (basis @ self.baseline[:, :, None])[:, :, 0]
        rows = torch.ones_like(y) if missing is None else missing.T.to(y.dtype)
        tasks = replace(
            T,
            U=torch.cat([T.U, V], -2),
            basis=torch.cat([T.basis, basis], -2),
            y=torch.cat([T.y, y * rows], 1),
            rows=torch.cat([T.rows, rows], 1),
        )
        factors, rung = _factorize(tasks, self.theta, self.baseline, self.warps)
        return replace(self, tasks=tasks, rung=rung, _factors=factors)


def _assemble(data: Observations, choices: Sequence[Choice]) -> GP:
    """Build the posterior at the chosen models."""
    specs = [choice.spec(j) for j, choice in enumerate(choices)]
    tasks, baseline = data.tasks(specs)
    theta = torch.tensor([choice.theta for choice in choices], dtype=data.U.dtype, device=data.U.device)
    variance = kriging.evaluate(tasks, theta, with_slope=False).variance
    is_short = tasks.rows.sum(1) <= tasks.columns.sum(1)  # no row left to estimate a variance from
    variance = torch.where(is_short, variance.clamp_min(1.0), variance)
    if data.model.declustering is not None:
        variance = torch.maximum(variance, _declustered_variance(tasks, theta, data.model.declustering))
    warps = [data.warps[j][choice.warp] for j, choice in enumerate(choices)]
    kinds = tuple(warp for warp, *_ in warps)
    factors, rung = _factorize(tasks, theta, baseline, kinds)
    return GP(
        tasks=tasks,
        baseline=baseline,
        theta=theta,
        variance=variance,
        location=data.U.new_tensor([location for _, location, _, _ in warps]),
        spread=data.U.new_tensor([spread for _, _, spread, _ in warps]),
        warps=kinds,
        choices=tuple(choices),
        stretch=data.stretch(specs),
        degree=max(TRENDS[choice.trend] for choice in choices),
        rung=rung,
        _factors=factors,
    )


def _apart(tasks: Tasks, distance: float) -> Float64[Tensor, "B N"]:
    """Return the rows of each task that lie apart from each other, kept in the order in which they were told.

    Distances are measured in the inputs that the output sees.
    """
    rows = tasks.rows.clone()
    kept_for: dict[tuple[int, ...], Tensor] = {}
    for j in range(len(rows)):
        key = (*(tasks.active[j] > 0).tolist(), *(tasks.rows[j] > 0).tolist(), j if tasks.U.ndim == 3 else -1)
        if key not in kept_for:
            V = (tasks.U[j] if tasks.U.ndim == 3 else tasks.U) * tasks.active[j]
            close = (torch.cdist(V, V) < distance).cpu().numpy()
            keep = torch.zeros(len(V), dtype=torch.bool).numpy()
            for i, is_told in enumerate((tasks.rows[j] > 0).tolist()):
                if is_told and not (close[i] & keep).any():
                    keep[i] = True
            kept_for[key] = torch.from_numpy(keep).to(rows)
        rows[j] = kept_for[key]
    enough = rows.sum(1) >= tasks.columns.sum(1) + SPARE_ROWS
    return torch.where((enough & (tasks.noise == 0))[:, None], rows, tasks.rows)


def _declustered_variance(tasks: Tasks, theta: Float64[Tensor, "m q"], distance: float) -> Float64[Tensor, "m"]:
    """Estimate the process variance from points that lie apart.

    Dozens of near-duplicates enter the profiled variance with almost no innovation, so that it shrinks with their
    number and the rest of the box looks certain.
    """
    rows = _apart(tasks, distance)
    changed = (rows != tasks.rows).any(1)
    result = torch.zeros_like(theta[:, 0])
    if bool(changed.any()):
        index = changed.nonzero()[:, 0]
        some = tasks.at(index)
        fit = kriging.evaluate(replace(some, rows=rows[index], y=some.y * rows[index]), theta[index], with_slope=False)
        result[index] = torch.where(torch.isfinite(fit.loss), fit.variance, 0.0)
    return result


def _factorize(
    tasks: Tasks, theta: Float64[Tensor, "m q"], baseline: Float64[Tensor, "m p"], warps: Sequence[Warp]
) -> tuple[dict[str, Tensor], str]:
    """Factorize the covariance, adding jitter where it must; return what the moments need and the rung used."""
    K, _ = kriging.covariance(tasks, theta)
    L, jitter = _cholesky(K)
    eye = torch.eye(K.shape[-1], dtype=K.dtype, device=K.device)
    root = torch.linalg.solve_triangular(L, eye.expand_as(K), upper=False)
    F = tasks.basis * tasks.rows[:, :, None] * tasks.columns[:, None, :]
    half = root @ F
    A = half.mT @ half
    A.diagonal(dim1=1, dim2=2).add_(1.0 - tasks.columns)
    LA, trend_jitter = _cholesky(A)
    y = root @ tasks.y[:, :, None]
    beta = torch.cholesky_solve(half.mT @ y, LA)
    weights = root.mT @ (y - half @ beta)
    worst = max(jitter, trend_jitter)
    if worst > 0:
        logger.warning(
            "the covariance matrix needed a jitter of %g: are points duplicates, or outputs inconsistent?", worst
        )
    return {
        "inverse": kriging.inverse_scales(theta, tasks.active),
        "root": root,
        "weights": weights[:, :, 0],
        "beta": beta[:, :, 0] * tasks.columns + baseline,
        "H": root.mT @ half,
        "inverse_A": torch.cholesky_inverse(LA),
        "signs": K.new_tensor([warp.sign for warp in warps]),
        "offsets": K.new_tensor([warp.offset for warp in warps]),
        "is_log": torch.tensor([warp.name != "none" for warp in warps], device=K.device),
    }, "plain" if worst == 0 else f"jitter {worst:g}"


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
