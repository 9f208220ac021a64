"""Draws from a density in a box by ensembles of walkers, and whether they have converged.

Each ensemble begins spread over the box and is tempered to the density (Del Moral, Doucet and Jasra 2006), which finds
parts that a chain would not reach, and tells how much lies in what an ensemble has found: all begin from there in these
shares. Walkers then move by differences of others (ter Braak 2006): such moves need no scales and do not change if
coordinates are stretched or turned. Ensembles no longer meet: that they agree is tested by the split R-hat of Gelman
and Rubin, an ensemble in place of a chain (Margossian et al. 2024).
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy import ndarray

from pied.rng import Stream
from pied.shapes import Float64

ENSEMBLES = 4
WALKERS = 32  # of an ensemble, at least
WALKERS_EACH = 6  # of an ensemble, for each coordinate
FIRST = 16  # points for each walker, of which an ensemble begins with the likely ones
SWEEPS_TEMPERED = 5  # after each step of tempering
KEPT_SHARE = 0.5  # of walkers that count after a step of tempering
BLOCK = 40  # sweeps between two looks at convergence
LEAST_BLOCKS, MOST_BLOCKS = 3, 40
HOPS = 0.1  # share of moves by a whole difference, which leads from one part of a density to another
STEPS = 1e-2  # of the deviations of the others: added to a move, so that all places can be reached
SMALLEST_RISE = 1e-9  # of the power to which a density is raised in tempering
CONVERGED = 1.01
"""Split R-hat up to which ensembles agree (Vehtari et al. 2021)."""

Density = Callable[[ndarray], ndarray]
"""From points of the unit cube to the logarithms of their densities, minus infinity where there is none."""


@dataclass(frozen=True, eq=False)
class Chains:
    """What walkers visited, ensembles apart."""

    V: Float64[ndarray, "T E W D"]
    """Their places after each sweep, unit cube."""
    log_density: Float64[ndarray, "T E W"]
    acceptance: float

    @property
    def rhat(self) -> Float64[ndarray, "D"]:
        """Split R-hat of each coordinate: 1 if first and second halves of all ensembles agree."""
        half = len(self.V) // 2
        groups = np.concatenate([self.V[:half], self.V[half : 2 * half]], 1)  # T/2 2E W D
        within = groups.var((0, 2)).mean(0)
        between = groups.mean((0, 2)).var(0, ddof=1)
        return np.where(within > 0, np.sqrt(1.0 + between / np.where(within > 0, within, 1.0)), 1.0)

    @property
    def effective(self) -> Float64[ndarray, "D"]:
        """As many independent draws tell as much of the mean of each coordinate."""
        T, E, W, D = self.V.shape
        away = self.V - self.V.mean((0, 1, 2))
        padded = np.fft.rfft(away, 2 * T, 0)
        cov = np.fft.irfft(np.abs(padded) ** 2, 2 * T, 0)[:T].mean((1, 2)) / np.arange(T, 0, -1)[:, None]
        rho = cov / np.where(cov[0] > 0, cov[0], 1.0)
        times = 2.0 * np.cumsum(rho, 0) - 1.0
        enough = np.arange(T)[:, None] >= 5.0 * times  # Sokal's window
        window = np.where(enough.any(0), enough.argmax(0), T - 1)
        time = np.maximum(times[window, np.arange(D)], 1.0)
        return np.asarray(T * E * W / time)

    def thinned(self, count: int) -> tuple[Float64[ndarray, "L D"], Float64[ndarray, "L"]]:
        """Return about so many of the draws, evenly from all of them."""
        V, own = self.V.reshape(-1, self.V.shape[-1]), self.log_density.reshape(-1)
        kept = np.unique(np.linspace(0, len(V) - 1, min(count, len(V))).round().astype(int))
        return V[kept], own[kept]


def drawn(density: Density, D: int, known: Float64[ndarray, "s D"], stream: Stream, effective: float) -> Chains | None:
    """Draw from a density until ensembles agree and enough draws count, or patience ends; None if it is 0 everywhere.

    Args:
        density: On the unit cube.
        D: Coordinates.
        known: Points that are likely, such as the best told ones.
        stream: Of random numbers.
        effective: How many independent draws of each coordinate are wanted.
    """
    rng = stream.generator()
    W = 2 * ((max(WALKERS, WALKERS_EACH * D) + 1) // 2)
    first = np.concatenate([stream.at("first").sobol(ENSEMBLES * W * FIRST, D), known])
    own = density(first)
    if not np.isfinite(own).any():
        return None
    groups = [np.append(np.arange(e, len(first) - len(known), ENSEMBLES), np.arange(-len(known), 0)).astype(int)
              for e in range(ENSEMBLES)]  # fmt: skip
    groups = [each if np.isfinite(own[each]).any() else np.arange(len(first)) for each in groups]
    V, f = _tempered(density, [first[each] for each in groups], [own[each] for each in groups], W, rng)
    kept: list[tuple[ndarray, ndarray]] = []
    moved = 0.0
    for block in range(MOST_BLOCKS):
        for _ in range(BLOCK):
            V, f, share = _sweep(density, V, f, np.ones(ENSEMBLES), rng)
            moved += share
            kept.append((V, f))
        later = kept[len(kept) // 4 :]  # the first quarter forgets how the walkers began
        places, own = (np.stack(each) for each in zip(*later, strict=True))
        chains = Chains(places, own, moved / len(kept))
        if block + 1 >= LEAST_BLOCKS and chains.rhat.max() < CONVERGED and chains.effective.min() >= effective:
            break
    return chains


def _tempered(
    density: Density, V: list[ndarray], f: list[ndarray], W: int, rng: np.random.Generator
) -> tuple[Float64[ndarray, "E W D"], Float64[ndarray, "E W"]]:
    """Bring ensembles from the whole box to the density, as fast as half of their walkers count at each step."""
    powers, evidence = np.zeros(len(V)), np.zeros(len(V))
    now, own = np.empty((len(V), W, V[0].shape[1])), np.empty((len(V), W))
    while True:
        for e, (each, at) in enumerate(zip(V, f, strict=True)):
            rise = _rise(at, 1.0 - powers[e], KEPT_SHARE * W)
            powers[e] = min(1.0, powers[e] + rise)
            top = at[np.isfinite(at)].max()
            evidence[e] += rise * top + np.log(np.exp(rise * (np.where(np.isfinite(at), at, -np.inf) - top)).mean())
            rows = _resampled(_weights(at, rise), W, rng)
            now[e], own[e] = each[rows], at[rows]
        for _ in range(SWEEPS_TEMPERED):
            now, own, _ = _sweep(density, now, own, powers, rng)
        if (powers >= 1.0).all():
            break
        V, f = list(now), list(own)
    shares = np.repeat(np.exp(evidence - evidence.max()), W)
    rows = rng.permutation(_resampled(shares / shares.sum(), len(shares), rng))
    return now.reshape(len(shares), -1)[rows].reshape(now.shape), own.reshape(-1)[rows].reshape(own.shape)


def _resampled(weights: Float64[ndarray, "s"], count: int, rng: np.random.Generator) -> ndarray:
    """Return rows in proportion to their weights."""
    spots = (rng.random() + np.arange(count)) / count
    return np.asarray(np.minimum(np.searchsorted(np.cumsum(weights), spots), len(weights) - 1))


def _weights(f: Float64[ndarray, "s"], power: float) -> Float64[ndarray, "s"]:
    """Return the weights of points whose densities are raised by a power; some are finite."""
    fine = np.isfinite(f)
    weights = np.exp(power * (np.where(fine, f, 0.0) - f[fine].max())) * fine
    return np.asarray(weights / weights.sum())


def _rise(f: Float64[ndarray, "s"], most: float, wanted: float) -> float:
    """Return the step of tempering after which as many points count as are wanted, by bisection of its logarithm."""

    def count(power: float) -> float:
        return float(1.0 / (_weights(f, power) ** 2).sum())

    wanted = min(wanted, 0.9 * float(np.isfinite(f).sum()))
    if most <= 0 or count(most) >= wanted:
        return most
    low, high = np.log(SMALLEST_RISE), np.log(most)
    while high - low > 0.01:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if count(float(np.exp(middle))) >= wanted else (low, middle)
    return float(np.exp(low))


def _sweep(
    density: Density,
    V: Float64[ndarray, "E W D"],
    f: Float64[ndarray, "E W"],
    powers: Float64[ndarray, "E"],
    rng: np.random.Generator,
) -> tuple[ndarray, ndarray, float]:
    """Move each half of every ensemble by differences of the other half; return also which share moved."""
    V, f = V.copy(), f.copy()
    E, W, D = V.shape
    half, moved = W // 2, 0.0
    order = rng.permutation(W)
    for own, others in ((order[:half], order[half:]), (order[half:], order[:half])):
        a = rng.integers(0, len(others), (E, half))
        b = (a + rng.integers(1, len(others), (E, half))) % len(others)
        rows = np.arange(E)[:, None]
        scale = np.where(rng.random((E, half)) < HOPS, 1.0, 2.38 / np.sqrt(2 * D) * rng.uniform(0.5, 1.0, (E, half)))
        step = scale[..., None] * (V[rows, others[a]] - V[rows, others[b]])
        step += STEPS * V[:, others].std(1)[:, None] * rng.standard_normal((E, half, D))
        tried = V[:, own] + step
        inside = ((tried >= 0) & (tried <= 1)).all(-1)
        values = np.full((E, half), -np.inf)
        if inside.any():
            values[inside] = density(tried[inside])
        before = f[:, own]
        with np.errstate(invalid="ignore"):
            gain = powers[:, None] * (values - np.where(np.isfinite(before), before, -1e300))
        accepted = np.isfinite(values) & (np.log(rng.random((E, half))) < gain)
        V[:, own] = np.where(accepted[..., None], tried, V[:, own])
        f[:, own] = np.where(accepted, values, before)
        moved += 0.5 * float(accepted.mean())
    return V, f, moved
