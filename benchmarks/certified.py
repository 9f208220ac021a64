"""The subproblem (13) with a certificate, beside the search of every day and that of the paper.

    python benchmarks/certified.py --seeds 10 > certified.md

Outputs are drawn from their own prior, told at 3d + 3 points; all searches see the same bounds.
"""

import argparse
import time
from statistics import median
from typing import Any

import numpy as np

from pied import Problem
from pied.bounds import Believer, optimistic
from pied.bounds.certified import certified
from pied.gp import GP, Paths, Prior
from pied.records import Dataset
from pied.rng import Stream
from pied.search import PenaltySearch, Search

FORMS: dict[str, dict[str, Any]] = {
    "an output less a cost": {"maximize": "p - 0.2*a"},
    "two outputs, a limit": {"maximize": "p + q", "subject_to": ["p - q >= 0.2"]},
    "monotone": {"maximize": "exp(p) - 0.2*a", "subject_to": ["q >= 0"]},
}
KERNELS = ("matern 5/2", "squared exponential")
TOLERANCE, MOST_BOXES, LEVEL = 1e-3, 200_000, 0.95
MISSED = 1e-6
"""Of the range of the objective's bound: a search that ends this far below a point of the certificate missed it."""


def case(d: int, form: str, kernel: str, seed: int) -> dict[str, Any]:
    """Solve one subproblem in three ways."""
    problem = Problem(dict.fromkeys("abcd"[:d], (0.0, 1.0)), ["p", "q"], noise=0.01, **FORMS[form])
    prior = Prior(1.0, 0.3 * d**0.5, kernel)
    stream, count = Stream(seed).at(form, kernel, d), 3 * d + 3
    U = stream.at("told").uniform(count, d)
    process = GP.of_priors(U[:0], np.zeros((0, 2)), (prior, prior), active=problem.active, noise=(0.01, 0.01))
    Y = Paths.of(process, 1, stream.at("h")).values(U)[0]
    believer, data = Believer(priors=prior), Dataset(tuple(range(1, count + 1)), U, Y, U[:0])
    composite = believer.bound(problem, data, believer.fit(problem, data), stream)
    found: dict[str, Any] = {}
    for name, search in (("search", Search()), ("paper", PenaltySearch())):
        began = time.process_time()
        pool = search.screen(stream, d, U)
        functions = optimistic(composite, LEVEL)
        f = functions.values(pool)
        scales = np.maximum(np.ptp(f, axis=0), 1e-9)
        best = search.solve(functions, scales, pool, U, stream.at("solve"))
        found[name] = float(best.f[0]) if best.satisfied else -np.inf
        found[f"{name} seconds"] = time.process_time() - began
        found[f"{name} u"] = best.u
    began = time.process_time()
    start = np.stack([found["search u"], found["paper u"]])
    proof = certified(composite, LEVEL, start=start, tolerance=TOLERANCE, most_boxes=MOST_BOXES)
    spread = float(scales[0])
    return found | {
        "seconds": time.process_time() - began, "boxes": proof.boxes, "gap": proof.gap / spread,
        "impossible": proof.is_impossible,
        "missed": {name: max(0.0, proof.value - found[name]) / spread for name in ("search", "paper")},
    }  # fmt: skip


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--variables", type=int, nargs="+", default=[1, 2, 3, 4])
    given = parser.parse_args()
    print(f"# The certified subproblem\n\n`python benchmarks/certified.py --seeds {given.seeds}`\n")
    print(
        "| variables, functions | proved to 1e-3 | largest gap | median boxes | seconds: proof, search, paper's | ",
        end="",
    )
    print("missed: search, paper's |\n| --- | --- | --- | --- | --- | --- |")
    for d in given.variables:
        for form in FORMS:
            rows = [case(d, form, kernel, seed) for kernel in KERNELS for seed in range(given.seeds)]
            proved = sum(row["gap"] <= 1.5 * TOLERANCE for row in rows)
            times = [median(row[key] for row in rows) for key in ("seconds", "search seconds", "paper seconds")]
            missed = [sum(row["missed"][name] > MISSED for row in rows) for name in ("search", "paper")]
            worst = [max(row["missed"][name] for row in rows) for name in ("search", "paper")]
            cells = [
                f"{d}, {form}", f"{proved} of {len(rows)}", f"{max(row['gap'] for row in rows):.1g}",
                f"{median(row['boxes'] for row in rows):,.0f}", ", ".join(f"{each:.2g}" for each in times),
                ", ".join(f"{n} (by up to {most:.1g})" if n else "0" for n, most in zip(missed, worst, strict=True)),
            ]  # fmt: skip
            print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
