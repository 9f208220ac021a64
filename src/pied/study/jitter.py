"""Jitter: outputs that were stated exact, and whose values scatter as those of a solver with a tolerance do.

The points that lie closest together are explained twice: by a smooth function with white noise, and by continuous
functions alone, smooth ones and smooth ones with a rough part. A kink or a cusp is continuous: what it adds shrinks
with the distance of the points, and white noise does not. Where the points cannot tell one from the other, nothing is
said.
"""

import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy import ndarray

from pied.bounds import coding_of, ratios
from pied.gp import GP, Model, evidence, kernel_of
from pied.problem import Problem
from pied.records import Dataset, deviations
from pied.shapes import Float64

SPARE = 5
"""Points beyond an initial design of 2d: with fewer every model fits."""
MOST_ROWS = 100
"""The last points that are looked at; they lie closest together."""
MOST_NEAR = 40
"""Points of the cluster, so that a look takes hundredths of a second for each output."""
CLEAR = 5.0
"""Nats by which noise must be more likely than smooth functions and those with kinks: 150 to 1. Of many outputs one
looks noisy by chance: of m together log m nats more."""
UNCLEAR = 2.0
"""Nats by which a function that is rough everywhere may be more likely than noise. It is jitter as well, but
at a cusp or a jump near the optimum it is more likely by far."""
SCALES = np.geomspace(1.0, 64.0, 7)
"""Length scales that are tried, in median distances of the cluster: shorter ones make noise of any function."""
PARTS = np.geomspace(1e-12, 1.0, 13)
"""Variances of the noise, or of the rough part, that are tried, of that of the smooth part."""
ROUGH_SCALES = (1.0, 4.0, 16.0)
"""Length scales of the rough part."""
SMALLEST, LARGEST = 2e-7, 0.01
"""Of the deviation of the values: less jitter does no harm, more is a jump or a function that is not yet resolved."""
MOST_NAMED = 4
"""Outputs that a remark names."""


def jitter(problem: Problem, data: Dataset) -> dict[str, float]:
    """Return the outputs that were stated exact and are not, each with the noise to state instead."""
    rows = np.flatnonzero(data.numeric)[-MOST_ROWS:]
    exact = np.flatnonzero(problem.exact)
    if not len(exact) or len(rows) < 2 * problem.d + SPARE:
        return {}
    U, Y = data.U[rows], data.Y[rows][:, exact]
    # With a learned noise the length scales are those of the smooth part.
    fitted = GP.fit(
        U, Y, active=problem.active[exact], ratios=ratios(problem), noise=[None] * len(exact),
        model=replace(Model(), warps=("none",), waves=False, shared=None, correlated="none"), coding=coding_of(problem),
    )  # fmt: skip
    near = _cluster(U, min(MOST_NEAR, len(U), max(len(U) // 2, problem.d + 3 + SPARE)))
    found = {}
    for i, j in enumerate(exact.tolist()):
        scales = np.exp(fitted.theta[i, : problem.d])
        seen = np.flatnonzero(problem.active[j] & (np.ptp(U[near], axis=0) > 0))
        noise = _noise(U[near][:, seen] / scales[seen], Y[near, i], CLEAR + math.log(len(exact)))
        whole = float(deviations(Y[:, [i]])[0])
        if SMALLEST * whole < noise < LARGEST * whole:
            found[problem.outputs[j]] = float(f"{noise:.1g}")
    return found


def _cluster(U: Float64[ndarray, "N d"], count: int) -> ndarray:
    """Return the rows of so many points that lie closest together: one and its nearest."""
    distances = np.sqrt(np.square(U[:, None] - U).sum(-1))
    centre = np.sort(distances, axis=1)[:, count - 1].argmin()
    return np.argsort(distances[centre], kind="stable")[:count]


def _noise(V: Float64[ndarray, "n v"], y: Float64[ndarray, "n"], clear: float) -> float:
    """Return the deviation of the noise if it is clear, by so many nats, that there is one, else 0."""
    deviation = float(deviations(y[:, None])[0])
    squares = np.square(V[:, None] - V).sum(-1)
    typical = float(np.median(squares[np.triu_indices(len(V), 1)])) if V.shape[1] else 0.0
    if deviation == 0.0 or typical == 0.0:
        return 0.0
    y = y / deviation
    y -= y.mean()
    r = np.sqrt(squares / typical)
    centred = V - V.mean(0)
    trend = np.concatenate([np.ones((len(V), 1)), centred / centred.std(0)], 1)

    def at_scales(kernel: str) -> Float64[ndarray, "s n n"]:
        return kernel_of(kernel, r / SCALES[:, None, None])

    def with_part(smooth: Float64[ndarray, "s n n"], part: Float64[ndarray, "n n"]) -> Float64[ndarray, "B n n"]:
        return (smooth[:, None] + PARTS[:, None, None] * part).reshape(-1, *part.shape)

    smooth = [at_scales(kernel) for kernel in ("squared exponential", "matern 5/2")]
    best, noise = -math.inf, 0.0
    for covariance in smooth:
        likely, variance = evidence(with_part(covariance, np.eye(len(V))), trend, y)
        top = int(likely.argmax())
        if likely[top] > best:
            best, noise = float(likely[top]), math.sqrt(variance[top] * np.tile(PARTS, len(SCALES))[top]) * deviation

    def continuous(rough: str) -> float:
        parts = [with_part(smooth[0], kernel_of(rough, r / scale)) for scale in ROUGH_SCALES]
        return max(float(evidence(K, trend, y)[0].max()) for K in (at_scales(rough), *parts))

    plain = max(float(evidence(K, trend, y)[0].max()) for K in smooth)
    is_clear = best - max(plain, continuous("matern 3/2")) > clear and best - continuous("exponential") > -UNCLEAR
    return noise if is_clear else 0.0


def said(problem: Problem, found: dict[str, float]) -> str:
    """Return what to do about jitter, in the user's words."""
    stated = {
        name: found.get(name, noise)
        for name, noise in zip(problem.outputs, problem.noise, strict=True)
        if found.get(name, noise) is not None
    }
    alone = set(stated) == set(problem.outputs) and len(set(stated.values())) == 1
    noise: Any = next(iter(stated.values())) if alone else stated
    if len(stated) > MOST_NAMED and not alone:  # as a table, hundreds of numbers say nothing
        noise = f"{{{', '.join(f'{name!r}: {found[name]}' for name in list(found)[:MOST_NAMED])}, ...}}"
    names = ", ".join(f"'{name}'" for name in list(found)[:MOST_NAMED])
    names += f" and {len(found) - MOST_NAMED} more outputs" if len(found) > MOST_NAMED else ""
    is_are = "was stated exact (noise=0), and its" if len(found) == 1 else "were stated exact (noise=0), and their"
    return (
        f"{names} {is_are} values at nearly the same points scatter, as those of a solver with a tolerance do: "
        f"state noise={noise}, or tighten the tolerance"
    )
