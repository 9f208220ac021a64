"""Warm starts: iterations and failures of two solvers that start from the nearest told point, beside cold starts.

    python benchmarks/warm.py   # a minute or two; results/warm.md

The column is a distillation of a mixture that is nearly azeotropic at the top, stage by stage, solved by Newton's
method without damping. The power flow is pandapower's network of 30 buses, heavily loaded; it is left out where
pandapower is not installed (`pip install "pied[simulators]"`).
"""

import importlib.util
import platform
from collections.abc import Callable
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
VOLATILITY, MARGULES = 1.9, 0.55
"""Relative volatility of an ideal mixture, and how far this one is from ideal: at the top it is near 1.1."""
MOST_ITERATIONS = 30


def vapour(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the composition in equilibrium with a liquid, and its slope."""
    alpha = VOLATILITY * np.exp(MARGULES * (1.0 - 2.0 * x))
    total = 1.0 - x + alpha * x
    slope = (alpha * (1.0 - 2.0 * MARGULES * x * (1.0 - x))) / total**2
    return alpha * x / total, slope


def column(reflux: float, distillate: float, start: np.ndarray) -> tuple[np.ndarray, int]:
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
        y, slope = vapour(x)
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


def distillation(count: Callable[[int], None], is_warm: bool) -> pied.Problem:
    """Return the problem of the column: little steam for two pure products."""

    def blackbox(reflux: float, distillate: float, near: Any = None, state: Any = None) -> list[float]:
        start = np.full(STAGES, LIGHT)
        if is_warm and near is not None and near.state is not None:
            start = np.load(near.state / "x.npy")
        x, iterations = column(reflux, distillate, start)
        count(iterations)
        np.save(state / "x.npy", x)
        return [float(vapour(x[:1])[0][0]), float(x[-1])]

    return pied.Problem(
        {"reflux": (1.0, 12.0), "distillate": (0.25, 0.55)}, ["top", "bottom"], blackbox=blackbox,
        minimize="(reflux + 1)*distillate", subject_to=["top >= 0.9", "bottom <= 0.06"], noise=0,
    )  # fmt: skip


def power_flow(count: Callable[[int], None], is_warm: bool) -> pied.Problem:
    """Return the problem of the network: two generators for small losses at a high load."""
    import pandapower
    import pandapower.networks

    kept: dict[str, Any] = {}

    def blackbox(P1: float, P2: float, load: float, near: Any = None, state: Any = None) -> list[float]:
        net = pandapower.networks.case30()
        init = "flat"
        if is_warm and near is not None and near.state is not None:
            net = kept[str(near.state)].deepcopy()
            init = "results"
        net.load["scaling"] = load
        net.gen.loc[net.gen.index[:2], "p_mw"] = [P1, P2]
        try:
            pandapower.runpp(net, init=init, tolerance_mva=1e-8, max_iteration=10)
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


def measured(make: Callable[..., pied.Problem], is_warm: bool) -> tuple[float, int, int, list[float]]:
    """Return mean iterations of evaluations that converged, failures, evaluations, and the best values."""
    counts: list[int] = []
    failures, trials, values = 0, 0, []
    for seed in range(SEEDS):
        with pied.Study(make(counts.append, is_warm), seed=seed) as study:
            result = study.run(BUDGET, progress=False)
            failures += sum(result.failures.values())
            trials += len(study.trials)
            values.append(result.value)
    return float(np.mean(counts)), failures, trials, values


def main() -> None:
    """Measure and write the page."""
    problems = {"column": distillation}
    if importlib.util.find_spec("pandapower") is not None:
        problems["power flow"] = power_flow
    rows = []
    for name, make in problems.items():
        for is_warm in (False, True):
            iterations, failures, trials, values = measured(make, is_warm)
            best = ", ".join(f"{value:.6g}" for value in values)
            rows.append(
                f"| {name} | {'warm' if is_warm else 'cold'} | {iterations:.1f} | {failures} of {trials} | {best} |"
            )
            print(rows[-1], flush=True)
    RESULTS.write_text(
        f"""# Warm starts

pied {pied.__version__}, Python {platform.python_version()}. `python benchmarks/warm.py`

{SEEDS} seeds with {BUDGET} evaluations each; failures are of Newton's method.

| solver | start | iterations of an evaluation | failures | best values |
| --- | --- | --- | --- | --- |
"""
        + "\n".join(rows)
        + "\n"
    )


if __name__ == "__main__":
    main()
