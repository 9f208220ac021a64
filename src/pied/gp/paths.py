"""Functions drawn from a belief, each defined at every point: what the black box may be as a whole.

Moments at single points say how uncertain an output is; they do not say how uncertain a slope or an optimum is, for
which points hang together. By Matheron's rule a draw of the posterior is a draw p of the prior plus what kriging makes
of its errors at the told points, y - p(U) - noise; with a trend, which has no prior, kriging is universal. Draws of the
prior are sums of waves with random frequencies from the spectral density of the kernel (Rahimi and Recht 2007; Wilson
et al. 2020).
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy import ndarray

from pied.gp.block import Block
from pied.gp.kernels import KERNELS
from pied.gp.likelihood import inverse_scales
from pied.gp.posterior import Posterior
from pied.gp.process import GP
from pied.rng import Stream
from pied.shapes import Float64, Int

FREQUENCIES = 192
"""Waves of each draw of the prior, each as cosine and sine. Every draw has its own: with the same for all, deviations
between told points, a thousandth of the prior's, would all be wrong in the same direction."""
DEGREES = {"squared exponential": None, "matern 5/2": 5, "matern 3/2": 3}
"""Degrees of freedom of the Student distribution that is the spectral density of a kernel; None: it is normal."""


@dataclass(frozen=True, eq=False)
class Paths:
    """Functions drawn from a belief, on the scale of its moments (`GP.unwarp` gives natural units)."""

    gp: GP
    parts: tuple["_Drawn", ...]
    """The draws of each block of outputs."""
    count: int
    """Number of functions."""

    @classmethod
    @np.errstate(all="ignore")
    def of(cls, gp: GP, count: int, stream: Stream) -> "Paths":
        """Draw functions from a belief.

        Args:
            gp: The belief.
            count: Number of functions.
            stream: Of random numbers.
        """
        parts = (_draw(block, count, stream.at("block", i)) for i, block in enumerate(gp.blocks))
        return cls(gp, tuple(parts), count)

    @np.errstate(all="ignore")
    def values(self, U: Float64[ndarray, "b d"]) -> Float64[ndarray, "L b m"]:
        """Return the outputs of every function at every point."""
        gp = self.gp
        inputs = U if gp.coding is None else gp.coding.inputs(U)
        values = gp.location + gp.deviation * gp.ordered([part.values(inputs) for part in self.parts], 2)
        return gp.mixed(values)

    @np.errstate(all="ignore")
    def values_and_slopes(
        self, U: Float64[ndarray, "b d"], which: Int[ndarray, "b"]
    ) -> tuple[Float64[ndarray, "b m"], Float64[ndarray, "b m d"]]:
        """Return the outputs and their slopes at points, at each of the function with this number."""
        gp = self.gp
        inputs = U if gp.coding is None else gp.coding.inputs(U)
        found = [part.values_and_slopes(inputs, which) for part in self.parts]
        values, slopes = (gp.ordered(each, 1) for each in zip(*found, strict=True))
        slopes = slopes if gp.coding is None else gp.coding.by_cube(slopes)
        values, slopes = gp.location + gp.deviation * values, gp.deviation[:, None] * slopes
        return (values, slopes) if gp.mixing is None else (gp.mixed(values), gp.mixing @ slopes)


@dataclass(frozen=True, eq=False)
class _Drawn:
    """The draws of one block: B tasks of c outputs, L functions, F frequencies."""

    posterior: Posterior
    """Kriging of the errors of the prior's draws, one column for each output and function."""
    frequencies: Float64[ndarray, "B L F e"]
    """By what the kernel sees of a point."""
    weights: Float64[ndarray, "B L waves c"]
    """Of the cosines, then of the sines."""
    block: Block
    offsets: Float64[ndarray, "B c L"] | None = None
    """What is drawn of the question's own offset; None: it has none."""

    def values(self, U: Float64[ndarray, "b e"]) -> Float64[ndarray, "L b m"]:
        """Return the outputs of the block at every point, standardized, of every function."""
        (B, L, _, c), view, b = self.weights.shape, self.block.view, len(U)
        mean, _ = self.posterior.moments(U)
        seen = np.broadcast_to(view.whole(U, view.scaled(U)), (B, b, self.frequencies.shape[-1]))
        whole = mean.reshape(B, b, c, L) if self.offsets is None else mean.reshape(B, b, c, L) + self.offsets[:, None]
        value = whole.transpose(3, 1, 0, 2).copy()  # L b B c
        for task, (own, weights) in enumerate(zip(self.frequencies, self.weights, strict=True)):
            phase = seen[task] @ own.swapaxes(1, 2)  # L b F
            value[:, :, task] += np.concatenate([np.cos(phase), np.sin(phase)], -1) @ weights
        return value.reshape(L, b, B * c)

    def values_and_slopes(
        self, U: Float64[ndarray, "b e"], which: Int[ndarray, "b"]
    ) -> tuple[Float64[ndarray, "b m"], Float64[ndarray, "b m e"]]:
        """Return the outputs of the block at points, standardized, and their slopes by the inputs."""
        B, L, _, c = self.weights.shape
        b, points = len(U), np.arange(len(U))
        mean, _, by_mean, _ = self.posterior.moments_and_slopes(U)
        whole = mean.reshape(B, b, c, L) if self.offsets is None else mean.reshape(B, b, c, L) + self.offsets[:, None]
        value = whole[:, points, :, which]  # points first: advanced indices are separated
        slope = by_mean.reshape(B, b, c, L, -1)[:, points, :, which]
        wave, by_wave = self._prior(U, which)
        value, slope = value + wave, slope + by_wave
        return value.reshape(b, B * c), slope.reshape(b, B * c, -1)

    def _prior(
        self, U: Float64[ndarray, "b e"], which: Int[ndarray, "b"]
    ) -> tuple[Float64[ndarray, "b B c"], Float64[ndarray, "b B c e"]]:
        """Return the draws of the prior at points, and their slopes."""
        view, b = self.block.view, len(U)
        own, weights = self.frequencies[:, which], self.weights[:, which]  # B b F e and B b 2F c
        seen = np.broadcast_to(view.whole(U, view.scaled(U)), (len(own), b, own.shape[-1]))
        phase = (own @ seen[..., None])[..., 0]
        cosine, sine = np.cos(phase), np.sin(phase)
        value = (np.concatenate([cosine, sine], -1)[:, :, None] @ weights)[:, :, 0]
        turned = np.concatenate([-sine, cosine], -1)[..., None] * weights
        F = phase.shape[-1]
        by_seen = (turned[:, :, :F] + turned[:, :, F:]).swapaxes(2, 3) @ own
        return value.swapaxes(0, 1), view.back(U, by_seen).swapaxes(0, 1)


def _draw(block: Block, count: int, stream: Stream) -> _Drawn:
    """Draw functions for the outputs of one block."""
    tasks, theta = block.tasks, block.theta
    inverse = inverse_scales(theta, tasks.active)
    (B, e), (_, N, c) = inverse.shape, tasks.y.shape
    frequencies = _standard(tasks.kernel, (count, FREQUENCIES, e), stream.at("frequencies")) * inverse[:, None, None]
    root = np.sqrt(block.variance)
    weights = stream.at("weights").normal(B, count, 2 * FREQUENCIES, c) * root[:, None, None] / np.sqrt(FREQUENCIES)
    phase = np.broadcast_to(tasks.U, (B, N, e))[:, None] @ frequencies.swapaxes(2, 3)
    prior = (np.concatenate([np.cos(phase), np.sin(phase)], -1) @ weights).transpose(0, 2, 3, 1)  # B N c L
    noise = root * np.exp(0.5 * theta[:, -1:])
    own = np.sqrt(np.ones((B, N)) if tasks.scatter is None else tasks.scatter)[:, :, None, None]
    error = prior + own * noise[:, None, :, None] * stream.at("noise").normal(B, N, c, count)
    own_offsets = None
    if tasks.together is not None and tasks.share is not None:
        by_block = stream.at("blocks").normal(B, tasks.together.shape[1], c, count)
        by_block = np.sqrt(tasks.share)[:, :, None, None] * root[:, None, :, None] * by_block
        error = error + np.einsum("nq,bqcl->bncl", tasks.together, by_block)
        own_offsets = None if block.asked is None else np.einsum("q,bqcl->bcl", block.asked, by_block)
    y = ((tasks.y[..., None] - error) * tasks.rows[:, :, None, None]).reshape(B, N, c * count)
    wide = replace(
        block,
        tasks=replace(tasks, y=y, noise=np.repeat(tasks.noise, count, -1)),
        baseline=np.repeat(block.baseline, count, -1),
        variance=np.repeat(block.variance, count, -1),
        known=None,
    )
    return _Drawn(wide.posterior, frequencies, weights, block, own_offsets)


def _standard(kernel: Float64[ndarray, "B 6"], shape: tuple[int, ...], stream: Stream) -> Float64[ndarray, "B L F e"]:
    """Return frequencies from the spectral density of each task's kernel at length scale 1."""
    normal = stream.at("normal").normal(len(kernel), *shape)
    for name, coefficients in KERNELS.items():
        own, degrees = (kernel == coefficients).all(1), DEGREES[name]
        if degrees and own.any():
            square = (stream.at("degrees", degrees).normal(len(kernel), *shape[:-1], degrees) ** 2).mean(-1)
            normal = np.where(own[:, None, None, None], normal / np.sqrt(square)[..., None], normal)
    return normal
