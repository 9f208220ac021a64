"""Why T-bar of Theorem 5 is so far from the evaluations that declare a problem: its constants, replaced one by one.

    python benchmarks/looseness.py --draws 200 > looseness.md

The cases of `guarantees.py` in which most draws are infeasible, one output. T-bar is the first T with
T epsilon > 4 L beta^(1/2) Psi: it grows with the square of every constant on the right.
"""

import argparse
import math
from collections.abc import Sequence
from statistics import median

import numpy as np
from guarantees import DELTA, KERNELS, NOISE, PATIENCE, SIZE, Path, Posterior, best_rows, play, setting
from numpy import ndarray

from pied import theory
from pied.bounds.composite import Composite
from pied.bounds.quantile import level_of
from pied.rng import Stream

CASE = "{}; m=1; n=2; affine; hard"
LONG = 60
"""Evaluations over which bounds are calibrated."""


def horizons(case: str, shortfall: float, z: float) -> list[int | None]:
    """Return T-bar as printed, then with each constant replaced, and all before it."""
    made = setting(case)
    L, k = max(made.lipschitz[1:]), made.problem.k
    variance = float(made.K.diagonal().max())
    greedy, _ = theory.greedy_gain(made.K, NOISE, 4000)
    deviations = np.sqrt(NOISE**2 * np.expm1(2.0 * np.diff(greedy, prepend=0.0))).cumsum()

    def gain(T: int) -> float:
        return theory.spectral_gain(made.K, NOISE, T)

    def beta(T: int) -> float:
        return theory.beta(T, delta=DELTA, size=SIZE, functions=k, outputs=1)

    def sharp(T: int) -> float:
        return theory.sharp_psi(T, [gain(T)], variances=[variance], noises=[NOISE])

    def summed(T: int) -> float:
        return float(deviations[min(T, len(deviations)) - 1]) * max(1.0, math.sqrt(T / len(deviations)))

    bounds = (
        lambda T: theory.cumulative_bound(L, beta(T), theory.psi(T, [gain(T)])),
        lambda T: theory.cumulative_bound(L, beta(T), sharp(T)),
        lambda T: 4.0 * L * z * sharp(T),
        lambda T: 2.0 * L * z * summed(T),
    )
    return [theory.declaration(shortfall, bound) for bound in bounds]


def declared(case: str, streams: Sequence[Stream], z: float) -> list[int | None]:
    """Return when each infeasible draw is declared by bounds of z deviations, and None for one that never is."""
    made = setting(case)
    X = made.problem.candidates.X  # type: ignore[union-attr]
    found: list[int | None] = []
    for stream in streams:
        h, noise = made.root @ stream.at("h").normal(SIZE, 1), NOISE * stream.at("noise").normal(PATIENCE, 1)
        belief, level = Posterior(made, 1), level_of(z)
        truth = np.stack([g.reshape(-1) for g in made.problem.g(X, h[None])], -1)
        if (truth[:, 1:] >= 0).all(1).any():
            continue
        for t in range(PATIENCE):
            upper = Composite(made.problem, belief, stream).values(belief.U, [level] * made.problem.k)
            row = best_rows(upper[None])
            if row[0] < 0:
                found.append(t)
                break
            belief.tell(row, h[row] + noise[t])
        else:
            found.append(None)
    return found


def shortfall(path: Path) -> float:
    """By how much the constraints of an infeasible draw are missed at best."""
    return -float(path.truth[:, 1:].min(1).max())


def middle(values: Sequence[int | None]) -> str:
    """The median, a declaration that does not come being the largest."""
    return f"{median(math.inf if each is None else each for each in values):,.0f}"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=200)
    given = parser.parse_args()
    print(f"# How loose T-bar is\n\n`python benchmarks/looseness.py --draws {given.draws}`\n")
    heads = [
        "kernel", "z of Lemma 1, t = 60", "z by simulation", "T-bar as printed", "sharp Psi", "and z by simulation",
        "and deviations summed", "declared, Lemma 1", "declared, z by simulation",
    ]  # fmt: skip
    print(f"| {' | '.join(heads)} |\n|{' --- |' * len(heads)}")
    for kernel in KERNELS:
        case = CASE.format(kernel)
        made, streams = setting(case), [Stream(seed).at(case) for seed in range(given.draws)]
        paths = [path for path in play(made, streams, 1) if not path.is_feasible]
        z = theory.calibrated(made.K, NOISE, LONG, delta=DELTA, draws=1000)
        tail = theory.tail(LONG, delta=DELTA, size=SIZE, functions=made.problem.k)
        union = -float(_normal(tail / 2))
        columns = zip(*(horizons(case, shortfall(path), z) for path in paths), strict=True)
        cells = [kernel, f"{union:.2f}", f"{z:.2f}", *map(middle, columns)]
        cells += [middle([path.declared for path in paths]), middle(declared(case, streams, z))]
        print("| " + " | ".join(cells) + " |", flush=True)


def _normal(p: float) -> ndarray:
    from scipy.special import ndtri

    return ndtri(p)


if __name__ == "__main__":
    main()
