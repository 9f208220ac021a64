# ruff: noqa: E402  the number of threads is read once, when NumPy is loaded
"""Fits: sums of squares of many outputs, against the routines that people fit simulators with.

    PYTHONPATH=src python benchmarks/fits.py                                  # the development half, one seed
    PYTHONPATH=src python benchmarks/fits.py --half odd --seeds 3 --jobs 16   # the half that was not developed with
    PYTHONPATH=src python benchmarks/fits.py --only 14 --solvers pied,dfols

Thirty problems: the functions of More, Garbow and Hillstrom (1981) that More and Wild (2009) use for derivative-free
least squares, in boxes around the standard starts, and fits of curves to data. Even numbers are for development; odd
ones were written down with them and only counted.

A problem is solved to tau when f(x0) - f(x) >= (1 - tau) (f(x0) - f*): f the sum of squares, x0 the standard start, f*
the best value that was found by SciPy's `least_squares` from many starts in the box. A simplex gradient is d + 1
evaluations. '-x0': the routine begins at x0; else it begins at the centre of the box, and `pied` with its design.
DFO-LS is compared if it is installed (`pip install DFO-LS`, GPL).
"""

import argparse
import json
import os

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"

import logging
import math
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import report
from fit_problems import FITS, Fit
from numpy import ndarray

SIMPLEX_GRADIENTS = (3, 5, 7, 10)
TOLERANCES = (1e-1, 1e-3, 1e-5, 1e-7)
TRIES = 40
"""Starts from which f* is sought."""


# --- Solvers: each evaluates until it is stopped ----------------------------------------------------------------------


class Enough(Exception):
    """The budget is spent, or the value is reached."""


class Counted:
    """Residuals that keep the sums of squares, and end the run."""

    def __init__(self, fit: Fit, budget: int, enough: float) -> None:
        self.fit, self.budget, self.enough = fit, budget, enough
        self.values: list[float] = []

    def __call__(self, x: ndarray) -> ndarray:
        if len(self.values) >= self.budget or (self.values and min(self.values) <= self.enough):
            raise Enough
        r = self.fit.at(x)
        self.values.append(float(r @ r))
        return r


def _with_scipy(r: Counted, start: ndarray, seed: int) -> None:
    from scipy.optimize import least_squares

    low, high = r.fit.box
    least_squares(r, start, bounds=(low, high), x_scale=high - low, xtol=1e-15, ftol=1e-15, gtol=1e-15)


def _with_dfols(r: Counted, start: ndarray, seed: int) -> None:
    import dfols

    np.random.seed(seed)
    words: dict[str, Any] = {"maxfun": r.budget, "scaling_within_bounds": True, "do_logging": False}
    dfols.solve(r, start, bounds=r.fit.box, rhoend=1e-12, **words)


def _with_pied(r: Counted, start: ndarray | None, seed: int) -> None:
    import pied

    m = len(r.fit.at(np.array(r.fit.start)))
    low, high = r.fit.box
    names, outputs = [f"x{i}" for i in range(len(low))], [f"r{j}" for j in range(m)]
    pied.minimize(
        lambda x, y: np.sum(y.array**2),
        blackbox=lambda x: dict(zip(outputs, r(np.array([x[name] for name in names])).tolist(), strict=True)),
        variables=dict(zip(names, zip(low.tolist(), high.tolist(), strict=True), strict=True)),
        outputs=outputs,
        noise=0,
        budget=r.budget,
        seed=seed,
        start=None if start is None else dict(zip(names, start.tolist(), strict=True)),
    )


SOLVERS: dict[str, tuple[Callable[..., None], bool]] = {
    "pied": (_with_pied, False),
    "pied-x0": (_with_pied, True),
    "dfols": (_with_dfols, False),
    "dfols-x0": (_with_dfols, True),
    "scipy": (_with_scipy, False),
    "scipy-x0": (_with_scipy, True),
}


# --- Runs -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Task:
    """One run, as data."""

    number: int
    solver: str
    seed: int
    gradients: int


def best_of(number: int) -> float:
    """Return the smallest sum of squares that SciPy finds from many starts."""
    from scipy.optimize import least_squares

    fit = FITS[number - 1]
    low, high = fit.box
    starts = low + (high - low) * np.random.default_rng(number).uniform(size=(TRIES, len(low)))
    found = []
    for start in [np.clip(np.array(fit.start, dtype=float), low, high), *starts]:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                end = least_squares(
                    fit.at, start, bounds=(low, high), x_scale=high - low, jac="3-point", max_nfev=300,
                    xtol=1e-15, ftol=1e-15, gtol=1e-15,
                )  # fmt: skip
            except (ValueError, np.linalg.LinAlgError):  # the start is at a pole
                continue
        found.append(2 * float(end.cost))
    return min(found)


def run(task: Task, best: float) -> dict[str, Any]:
    """Perform a task; an error of a routine ends its run."""
    logging.disable(logging.WARNING)
    try:
        return _run(task, best)
    finally:
        logging.disable(logging.NOTSET)


def _run(task: Task, best: float) -> dict[str, Any]:
    warnings.simplefilter("ignore")
    fit, (solve, starts) = FITS[task.number - 1], SOLVERS[task.solver]
    low, high = fit.box
    x0 = np.array(fit.start, dtype=float)
    first = float(np.square(fit.at(x0)).sum())
    counted = Counted(fit, task.gradients * (len(x0) + 1), best + 0.9 * min(TOLERANCES) * (first - best))
    start = x0 if starts else None if task.solver.startswith("pied") else (low + high) / 2
    began, error = time.process_time(), None
    try:
        solve(counted, start, task.seed)
    except Enough:
        pass
    except Exception as raised:
        error = f"{type(raised).__name__}: {raised}"
    seconds = time.process_time() - began
    if counted.values and min(counted.values) < best:  # f* was not the optimum: said on the page
        error = f"better than f* by {best - min(counted.values):.2g}" if min(counted.values) < 0.999 * best else error
    return {
        "task": asdict(task), "best": best, "first": first, "d": len(x0), "m": len(fit.at(x0)), "error": error,
        "values": [float(f"{value:.17g}") for value in counted.values], "seconds": seconds,
    }  # fmt: skip


def _worked(pair: tuple[Task, float]) -> dict[str, Any]:
    return run(*pair)


def needed(record: dict[str, Any], tau: float) -> float:
    """Return after how many simplex gradients a run is solved; infinite if it never is."""
    target = record["best"] + tau * (record["first"] - record["best"])
    done = next((t for t, value in enumerate(record["values"], 1) if value <= target), math.inf)
    return done / (record["d"] + 1)


def page(records: Sequence[dict[str, Any]]) -> str:
    """Return the tables: shares solved, and evaluations by problem."""
    solvers = [name for name in SOLVERS if any(each["task"]["solver"] == name for each in records)]
    numbers = sorted({each["task"]["number"] for each in records})
    most = max(each["task"]["gradients"] for each in records)
    budgets = [each for each in SIMPLEX_GRADIENTS if each <= most]
    lines = [report.heading("Fits", records), "", f"{len(numbers)} problems; words as in `benchmarks/fits.py`.", ""]
    lines += [f"Share solved after {', '.join(map(str, budgets))} simplex gradients:", ""]
    head = ["solver", *(f"tau = {tau:g}" for tau in TOLERANCES), "s per evaluation"]
    rows = []
    for solver in solvers:
        own = [each for each in records if each["task"]["solver"] == solver]
        shares = [
            ", ".join(f"{sum(needed(each, tau) <= b for each in own) / len(own):.2f}" for b in budgets)
            for tau in TOLERANCES
        ]
        slow = sum(each["seconds"] for each in own) / max(1, sum(len(each["values"]) for each in own))
        rows.append([solver, *shares, f"{slow:.2f}" if slow >= 0.005 else "0.00"])
    lines += [report.table(head, rows), "", "Evaluations until solved to 1e-1, 1e-5 (one number a seed):", ""]
    rows = []
    for number in numbers:
        own = [each for each in records if each["task"]["number"] == number]
        row = [f"{number}. {FITS[number - 1].name} ({own[0]['d']}, {own[0]['m']})"]
        for solver in solvers:
            runs = [each for each in own if each["task"]["solver"] == solver]
            row.append("; ".join(" ".join(_count(each, tau) for each in runs) for tau in (1e-1, 1e-5)))
        rows.append(row)
    lines += [report.table(["problem (d, m)", *solvers], rows)]
    errors = sorted({f"- {each['task']['number']}, {each['task']['solver']}: {each['error']}" for each in records
                     if each["error"]})  # fmt: skip
    return "\n".join([*lines, "", *errors]) + "\n"


def _count(record: dict[str, Any], tau: float) -> str:
    by = needed(record, tau) * (record["d"] + 1)
    return "-" if by == math.inf else f"{by:.0f}"


def runs_of(tasks: Sequence[Task], jobs: int, out: Path | None) -> list[dict[str, Any]]:
    """Perform all tasks, each process one at a time, and write what comes."""
    origin, records = report.made(), []
    with ProcessPoolExecutor(jobs) as pool:
        numbers = sorted({task.number for task in tasks})
        bests = dict(zip(numbers, pool.map(best_of, numbers), strict=True))
        longest = sorted(tasks, key=lambda task: (not task.solver.startswith("pied"), -task.gradients))
        for record in pool.map(_worked, [(task, bests[task.number]) for task in longest]):
            records.append({**record, "made": origin})
            if out is not None:
                with out.open("a") as file:
                    file.write(json.dumps(records[-1]) + "\n")
    return records


def _installed(solvers: Sequence[str]) -> list[str]:
    """Leave out DFO-LS where it is not installed."""
    if find_spec("dfols") is None:
        print("DFO-LS is not installed and left out", file=sys.stderr)
    return [name for name in solvers if not name.startswith("dfols") or find_spec("dfols") is not None]


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description="Fits, against DFO-LS and SciPy.")
    parser.add_argument("--half", choices=("even", "odd", "both"), default="even", help="which problems")
    parser.add_argument("--only", help="problems by number, separated by commas")
    parser.add_argument("--solvers", default=",".join(SOLVERS), help="separated by commas")
    parser.add_argument("--seeds", type=int, default=1, help="runs of those that draw numbers: pied")
    parser.add_argument("--gradients", type=int, default=max(SIMPLEX_GRADIENTS), help="budget in simplex gradients")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--out", type=Path, help="where records are added, one a line")
    parser.add_argument("--page", type=Path, help="where the page goes")
    given = parser.parse_args()
    halves = {"even": range(2, len(FITS) + 1, 2), "odd": range(1, len(FITS) + 1, 2), "both": range(1, len(FITS) + 1)}
    numbers = [int(each) for each in given.only.split(",")] if given.only else halves[given.half]
    tasks = [
        Task(number, solver, seed, given.gradients)
        for seed in range(given.seeds)
        for solver in _installed(given.solvers.split(","))
        for number in numbers
        if seed == 0 or solver.startswith("pied")
    ]
    text = page(runs_of(tasks, given.jobs, given.out))
    if given.page:
        given.page.write_text(text)
    print(text)


if __name__ == "__main__":
    main()
