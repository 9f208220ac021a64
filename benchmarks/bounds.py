"""Accuracy and cost of every estimator of an upper bound, against a million samples; prints the tables as markdown.

python benchmarks/bounds.py > benchmarks/results/bounds.md
"""

import os
import platform
import time
from collections.abc import Callable
from datetime import date

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

import pied
from pied.bounds.composite import Composite
from pied.bounds.estimator import Estimator
from pied.rng import Stream

LEVEL = 0.95
REFERENCE = 1_000_000  # samples; the standard error of their 95 % quantile is 0.13 % of its distance from the median
POINTS = 8
SEEDS = 40
OUTPUTS = (1, 4, 24)
TIMED = 64  # points at once while timing

ESTIMATORS = {
    "closed form": None,
    "Harrell-Davis, Sobol 512": Estimator("harrell-davis", 512, 512, closed_forms=False),
    "Harrell-Davis, Sobol 128": Estimator("harrell-davis", 128, 128, closed_forms=False),
    "order, Sobol 512": Estimator("order", 512, 512, closed_forms=False),
    "order, Sobol 50": Estimator("order", 50, 50, closed_forms=False),
    "order, i.i.d. 512": Estimator("order", 512, 512, closed_forms=False, sobol=False),
    "order, i.i.d. 50": Estimator("order", 50, 50, closed_forms=False, sobol=False),
    "soft sort, i.i.d. 50": Estimator("soft", 50, 50, 0.1, closed_forms=False, sobol=False),
}
"""The last one is the paper's."""


class Line:
    """A belief with moments linear in the point: its cost is negligible, so that the bounds are timed."""

    is_warped = False

    def __init__(self, m: int) -> None:
        stream = Stream(m).at("belief")
        self.center = 0.8 + 0.4 * stream.at("center").uniform(m)
        self.tilt = 0.6 * (stream.at("tilt").uniform(m, 2) - 0.5)
        self.scale = 0.1 + 0.2 * stream.at("scale").uniform(m)
        self.growth = stream.at("growth").uniform(m, 2)

    def moments(self, U: Float64[ndarray, "b 2"]) -> tuple[Float64[ndarray, "b m"], Float64[ndarray, "b m"]]:
        """Mean and standard deviation."""
        return self.center + U @ self.tilt.T, self.scale * (1 + U @ self.growth.T)

    def moments_and_slopes(self, U: Float64[ndarray, "b 2"]) -> tuple[ndarray, ndarray, ndarray, ndarray]:
        """And their slopes."""
        shape = (len(U), *self.tilt.shape)
        return (
            *self.moments(U),
            np.broadcast_to(self.tilt, shape),
            np.broadcast_to(self.scale[:, None] * self.growth, shape),
        )

    def unwarp(self, W: Float64[ndarray, "*b m"]) -> Float64[ndarray, "*b m"]:
        """Outputs are modelled in natural units."""
        return W


def functions(m: int) -> dict[str, Callable[..., ndarray]]:
    """The white boxes; w is a unit vector, t a target near the mean."""
    w = 0.2 + Stream(m).at("weights").uniform(m)
    w = w / np.sqrt((w * w).sum())
    t = 0.9 + 0.2 * Stream(m).at("target").uniform(m)
    return {
        "affine: w'y": lambda x, y: y.array @ w,
        "least squares: -\\|y - t\\|^2": lambda x, y: -((y.array - t) ** 2).sum(-1),
        "product: prod y": lambda x, y: y.array.prod(-1),
        "ratio: w'y / (1 + mean y^2)": lambda x, y: (y.array @ w) / (1 + (y.array**2).mean(-1)),
        "exponential: exp(2 w'y)": lambda x, y: np.exp(2 * (y.array @ w)),
        "least squares, 1000 times": lambda x, y: -1000 * ((y.array - t) ** 2).sum(-1),
    }


def stated(function: Callable[..., ndarray], m: int) -> pied.Problem:
    """Return a problem with this objective."""
    return pied.Problem({"p": (0, 1), "q": (0, 1)}, [f"y{j}" for j in range(m)], maximize=function)


def reference(
    problems: dict[str, pied.Problem], belief: Line, U: Float64[ndarray, "b 2"]
) -> dict[str, Float64[ndarray, "2 b"]]:
    """Median and upper quantile of every function at every point from a million samples."""
    rng = np.random.default_rng(0)
    found: dict[str, list[ndarray]] = {name: [] for name in problems}
    for point in U:
        mean, scale = belief.moments(point[None])
        Y = mean + scale * rng.standard_normal((REFERENCE, 1, mean.shape[1]))
        for name, problem in problems.items():
            (G,) = problem.g(problem.from_unit(point[None]), Y)
            found[name].append(np.quantile(G, (0.5, LEVEL), axis=0)[:, 0])
    return {name: np.stack(each, 1) for name, each in found.items()}


def accuracy(m: int) -> dict[str, dict[str, float | None]]:
    """Root mean square error of each estimator for each function, in percent of (q95 - median)."""
    belief, U = Line(m), Stream(0).at("points").sobol(POINTS, 2)
    problems = {name: stated(function, m) for name, function in functions(m).items()}
    exact = reference(problems, belief, U)
    table: dict[str, dict[str, float | None]] = {}
    for name, problem in problems.items():
        median, upper = exact[name]
        table[name] = {}
        for label, estimator in ESTIMATORS.items():
            if estimator is None and problem.structure[0].kind == "general":
                table[name][label] = None
                continue
            errors = []
            for seed in range(1 if estimator is None else SEEDS):
                composite = Composite(problem, belief, Stream(seed), estimator=estimator)
                errors.append((composite.values(U, [LEVEL])[:, 0] - upper) / (upper - median))
            table[name][label] = 100 * float(np.sqrt(np.mean(np.square(errors))))
    return table


def cost(m: int) -> dict[str, tuple[float, float]]:
    """Microseconds per point, value alone and with slope, of least squares (closed form: affine)."""
    belief, U = Line(m), Stream(0).at("timed").sobol(TIMED, 2)
    both = functions(m)
    affine, squares = (stated(both[name], m) for name in list(both)[:2])
    times = {}
    for label, estimator in ESTIMATORS.items():
        composite = Composite(affine if estimator is None else squares, belief, Stream(0), estimator=estimator)
        times[label] = (
            timed(lambda c=composite: c.values(U, [LEVEL])),  # type: ignore[misc]
            timed(lambda c=composite: c.values_and_slopes(U, [LEVEL])),  # type: ignore[misc]
        )
    return times


def timed(call: Callable[[], object]) -> float:
    """Return the processor time per point in microseconds: the best of seven rounds, as the machine is shared."""
    call()
    rounds = []
    for _ in range(7):
        start = time.process_time()
        for _ in range(5):
            call()
        rounds.append((time.process_time() - start) / 5)
    return 1e6 * min(rounds) / TIMED


def row(*cells: object) -> str:
    """One line of a markdown table."""
    return "| " + " | ".join(map(str, cells)) + " |"


def main() -> None:
    """Print both tables."""
    machine = f"{os.cpu_count()} cores, {platform.processor() or platform.machine()}, one thread used"
    print("# Upper bounds: accuracy and cost of each estimator\n")
    print(f"pied {pied.__version__}, NumPy {np.__version__}, {machine}, {date.today()}.")
    print("Command: `python benchmarks/bounds.py > benchmarks/results/bounds.md`\n")
    print(
        f"Error of the {LEVEL:.0%} quantile of g(y), y independent normals (m outputs), in percent of (q95 - median): "
        f"root mean square over {POINTS} points and {SEEDS} seeds (the closed form has none). Reference: {REFERENCE:,} "
        "samples, itself uncertain by 0.13 % or a little more. A dash: no closed form for this function.\n"
    )
    print(row("function", "m", *ESTIMATORS))
    print(row("---", *["---:"] * (1 + len(ESTIMATORS))))
    tables = {m: accuracy(m) for m in OUTPUTS}
    for name in tables[OUTPUTS[0]]:
        for m in OUTPUTS:
            cells = ["-" if each is None else f"{each:.2f}" for each in tables[m][name].values()]
            print(row(name, m, *cells))
    print(
        f"\nCost in microseconds of processor time per point, {TIMED} points at once, belief excluded: value alone / "
        "with slope. Least squares; the closed form on the affine function.\n"
    )
    print(row("m", *ESTIMATORS))
    print(row(*["---:"] * (1 + len(ESTIMATORS))))
    for m in OUTPUTS:
        print(row(m, *(f"{value:.1f} / {slope:.1f}" for value, slope in cost(m).values())))


if __name__ == "__main__":
    main()
