"""Time to fit the belief and to predict with it, in one thread, by the number of points, outputs and inputs.

    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python benchmarks/belief.py > benchmarks/results/belief.md

Processor time, the smallest of several repetitions. "first": models chosen and fitted from nothing. "again": models
chosen again, four points later. "refit": length scales fitted again, one point later.
"""

import os
import platform
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

from pied import __version__
from pied.gp import GP

POINTS = (10, 30, 60, 100)
OUTPUTS = (1, 4, 8)
INPUTS = (2, 5, 10)
PREDICTED = (10, 1000)
AT_LEAST = 0.3  # seconds of repetitions


class Case(NamedTuple):
    """One measurement: points told, outputs, inputs."""

    N: int
    m: int
    d: int

    def data(self) -> tuple[Float64[ndarray, "N d"], Float64[ndarray, "N m"]]:
        """Return points and smooth outputs there, some nearly linear, some not."""
        draw = np.random.default_rng(self.N + 1000 * self.m + 100_000 * self.d)
        U = draw.random((self.N, self.d))
        slopes, phases = draw.normal(size=(self.d, self.m)) * np.linspace(0.5, 3.0, self.m), draw.random(self.m)
        inner = U @ slopes + 6.0 * phases
        return U, 3.0 + np.sin(inner) + 0.3 * inner


def timed(work: Callable[[], object]) -> float:
    """Return the smallest processor time of a call, in milliseconds."""
    best, total = np.inf, 0.0
    while total < AT_LEAST:
        began = time.process_time()
        work()
        seconds = time.process_time() - began
        best, total = min(best, seconds), total + seconds
    return 1e3 * best


def measured(case: Case, fit: Callable[..., GP] = GP.fit) -> Iterator[tuple[str, float]]:
    """Measure one case; yield what was measured and its milliseconds."""
    U, Y = case.data()
    first = fit(U, Y)
    yield "first", timed(lambda: fit(U, Y))
    if case.N > 10:
        before = {back: fit(U[:-back], Y[:-back]).choices for back in (4, 1)}
        yield "again", timed(lambda: fit(U, Y, previous=before[4]))
        yield "refit", timed(lambda: fit(U, Y, previous=before[1]))
    for b in PREDICTED:
        V = np.random.default_rng(b).random((b, case.d))
        yield f"moments at {b}", timed(lambda V=V: first.moments(V))
        yield f"slopes at {b}", timed(lambda V=V: first.moments_and_slopes(V))


def main() -> None:
    """Measure all cases and print a table."""
    print(
        f"# Time of the belief\n\npied {__version__}, NumPy {np.__version__}, {platform.machine()}, load "
        f"{os.getloadavg()[0]:.1f}; milliseconds of processor time, one thread. `python benchmarks/belief.py`\n"
    )
    words = ["first", "again", "refit", *(f"{word} at {b}" for b in PREDICTED for word in ("moments", "slopes"))]
    print(f"| N | m | d | {' | '.join(words)} |\n|{' --- |' * (3 + len(words))}")
    for case in (Case(N, m, d) for N in POINTS for m in OUTPUTS for d in INPUTS):
        found = dict(measured(case))
        cells = [f"{found[word]:.3g}" if word in found else "-" for word in words]
        print(f"| {case.N} | {case.m} | {case.d} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
