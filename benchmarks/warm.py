"""Warm starts: iterations and failures of two solvers that start from the nearest told point, beside cold starts.

    python benchmarks/warm.py   # a minute or two; results/warm.md

The columns distil mixtures that are not ideal, stage by stage, and are solved by Newton's method without damping. The
power flow is pandapower's network of 30 buses, heavily loaded; it is left out where pandapower is not installed
(`pip install ".[simulators]"`).
"""

import copy
import importlib.util
import platform
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.linalg import solve_banded

import pied
from pied.errors import EvaluationError

RESULTS = Path(__file__).parent / "results" / "warm.md"
SEEDS, BUDGET = 3, 25
STAGES, FEED_STAGE, FEED, LIGHT = 30, 14, 1.0, 0.4
"""Of the column: stages with the reboiler, the one that is fed, the feed and its part of the lighter substance."""
MIXTURES = {"A": (1.9, 0.55), "B": (2.5, 0.9), "C": (2.5, 0.3)}
"""Relative volatility of an ideal mixture, and how far the mixture is from ideal."""
BOXES = {"wide": (0.25, 0.55), "narrow": (0.3, 0.39)}
"""Ranges of the distillate; beyond the light part of the feed, 0.4, the profile of the column is quite another."""
MOST_ITERATIONS = 30


def vapour(x: np.ndarray, mixture: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the composition in equilibrium with a liquid, and its slope."""
    volatility, margules = MIXTURES[mixture]
    alpha = volatility * np.exp(margules * (1.0 - 2.0 * x))
    total = 1.0 - x + alpha * x
    slope = (alpha * (1.0 - 2.0 * margules * x * (1.0 - x))) / total**2
    return alpha * x / total, slope


def column(reflux: float, distillate: float, start: np.ndarray, mixture: str) -> tuple[np.ndarray, int]:
    """Return the compositions of the liquids on all stages, and the iterations.

    Raises:
        EvaluationError: If Newton's method leaves the possible compositions, or does not converge.
    """
    V, bottoms = (reflux + 1.0) * distillate, FEED - distillate
    L = np.full(STAGES, reflux * distillate)
    L[FEED_STAGE:] += FEED
    L[-1] = bottoms
    x = start.copy()
    for iteration in range(1, MOST_ITERATIONS + 1):
        y, slope = vapour(x, mixture)
        above, above_slope = np.append(L[0] * y[0], L[:-1] * x[:-1]), L[:-1]
        rest = above + V * np.append(y[1:], 0.0) - L * x - V * y
        rest[FEED_STAGE] += FEED * LIGHT
        bands = np.zeros((3, STAGES))
        bands[0, 1:] = V * slope[1:]
        bands[1] = -L - V * slope
        bands[1, 0] += L[0] * slope[0]  # a total condenser returns what has evaporated
        bands[2, :-1] = above_slope
        step = solve_banded((1, 1), bands, -rest)
        x = x + step
        if not np.isfinite(x).all() or x.min() < -0.5 or x.max() > 1.5:
            raise EvaluationError("Newton's method left the possible compositions")
        if np.abs(step).max() < 1e-10:
            return x, iteration
    raise EvaluationError("no convergence")


def distillation(count: Callable[[int], None], is_warm: bool, mixture: str, box: str) -> pied.Problem:
    """Return the problem of a column: little steam for two pure products."""

    def blackbox(reflux: float, distillate: float, near: Any = None, state: Any = None) -> list[float]:
        start = np.full(STAGES, LIGHT)
        if is_warm and near is not None and near.state is not None:
            start = np.load(near.state / "x.npy")
        x, iterations = column(reflux, distillate, start, mixture)
        count(iterations)
        np.save(state / "x.npy", x)
        return [float(vapour(x[:1], mixture)[0][0]), float(x[-1])]

    return pied.Problem(
        {"reflux": (1.0, 12.0), "distillate": BOXES[box]}, ["top", "bottom"], blackbox=blackbox,
        minimize="(reflux + 1)*distillate", subject_to=["top >= 0.9", "bottom <= 0.06"], noise=0,
    )  # fmt: skip


def power_flow(count: Callable[[int], None], is_warm: bool) -> pied.Problem:
    """Return the problem of the network: two generators for small losses at a high load."""
    import pandapower
    import pandapower.networks

    cold, kept = pandapower.networks.case30(), {}

    def blackbox(P1: float, P2: float, load: float, near: Any = None, state: Any = None) -> list[float]:
        net = copy.deepcopy(cold)
        init = "flat"
        if is_warm and near is not None and near.state is not None:
            net = copy.deepcopy(kept[str(near.state)])
            init = "results"
        net.load["scaling"] = load
        net.gen.loc[net.gen.index[:2], "p_mw"] = [P1, P2]
        try:
            pandapower.runpp(net, init=init, tolerance_mva=1e-8, max_iteration=10, numba=False)
        except pandapower.LoadflowNotConverged as error:
            raise EvaluationError("the power flow did not converge") from error
        count(int(net._ppc["iterations"]))
        kept[str(state)] = net
        (state / "solved").touch()
        return [float(net.res_line.pl_mw.sum()), float(net.res_bus.vm_pu.min())]

    return pied.Problem(
        {"P1": (0.0, 80.0), "P2": (0.0, 50.0), "load": (1.0, 3.5)}, ["loss", "lowest"], blackbox=blackbox,
        maximize="100*load - loss", subject_to=["lowest >= 0.85"], noise=0,
    )  # fmt: skip


def measured(make: Callable[..., pied.Problem], is_warm: bool, solver: str) -> tuple[float, int, int]:
    """Return mean iterations of evaluations that converged, failures, and evaluations."""
    counts: list[int] = []
    failures = trials = 0
    for seed in range(SEEDS):
        with pied.Study(make(counts.append, is_warm), solver=solver, seed=seed) as study:
            result = study.run(BUDGET, progress=False)
            failures += sum(result.failures.values())
            trials += len(study.trials)
    return float(np.mean(counts)), failures, trials


def main() -> None:
    """Measure and write the page."""
    problems: dict[str, tuple[Callable[..., pied.Problem], str]] = {
        f"column, mixture {mixture}, {box} range, random points": (
            partial(distillation, mixture=mixture, box=box),
            "random",
        )
        for mixture in MIXTURES
        for box in BOXES
    }
    problems["column, mixture A, wide range, proposed points"] = partial(distillation, mixture="A", box="wide"), "cuqb"
    if importlib.util.find_spec("pandapower") is not None:
        problems["power flow, random points"] = power_flow, "random"
    rows = []
    for name, (make, solver) in problems.items():
        cold, warm = (measured(make, is_warm, solver) for is_warm in (False, True))
        rows.append(f"| {name} | {cold[0]:.1f} | {warm[0]:.1f} | {cold[1]} of {cold[2]} | {warm[1]} of {warm[2]} |")
        print(rows[-1], flush=True)
        RESULTS.write_text(page(rows))


def page(rows: list[str]) -> str:
    """Return the page of the results so far."""
    head = f"""# Warm starts

pied {pied.__version__}, Python {platform.python_version()}. `python benchmarks/warm.py`

{SEEDS} seeds with {BUDGET} evaluations each. Iterations are means over the evaluations that converged; failures are of
Newton's method. All columns that were tried are shown.

| solver | iterations, cold | warm | failures, cold | warm |
| --- | --- | --- | --- | --- |
"""
    return head + "\n".join(rows) + "\n"


if __name__ == "__main__":
    main()
