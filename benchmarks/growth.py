"""Time and memory of a proposal as a function of points N, outputs m and inputs d.

    python benchmarks/growth.py

Every case runs in its own process: once cold, then repeatedly while points are added, as in a study.
The black box is a smooth function of a few hidden features, the same for every size; g is a sum of squares of all
outputs (sampled: no closed form is used) and one affine constraint. Seconds are the processor's, on one thread; the
peak is that of the whole process.
"""

import argparse
import json
import math
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import report
from numpy import ndarray
from report import table

from pied.problem import Problem
from pied.records.trial import Dataset, Why
from pied.rng import Stream
from pied.solvers.cuqb import CUQB

BASE = {"N": 100, "m": 4, "d": 4}
CASES = [
    *({**BASE, "N": N} for N in (100, 300, 1000)),
    *({**BASE, "m": m} for m in (1, 4, 24, 100, 400)),
    *({**BASE, "d": d} for d in (2, 10, 30)),
]
WARM = 3  # proposals after the first


def outputs(U: ndarray, m: int) -> ndarray:
    """m smooth functions of the point."""
    d = U.shape[1]
    weight = Stream(0).at("growth", "weight").normal(d, m) / math.sqrt(d)
    phase = Stream(0).at("growth", "phase").uniform(m)
    return np.sin(2.0 * U @ weight + 6.0 * phase) + 0.5 * (U @ weight) ** 2


def problem(m: int, d: int) -> Problem:
    """A misfit over all outputs, and one limit."""
    names = [f"c[{j + 1}]" for j in range(m)]
    seen = outputs(np.full((1, d), 0.3), m)[0]
    return Problem(
        {f"x{i}": (0.0, 1.0) for i in range(d)},
        names,
        minimize="sum((c - seen)^2)",
        subject_to=["c[1] + x0 <= 5"],
        constants={"seen": seen.tolist()},
        noise=0,
    )


def ask(case: dict[str, int]) -> dict[str, Any]:
    """Time the proposals of one case in this process."""
    N, m, d = case["N"], case["m"], case["d"]
    stated = problem(m, d)
    U = Stream(0).at("growth", "points").sobol(N + WARM + 1, d)
    Y = outputs(U, m)
    run = CUQB(strict=True).start(stated, Stream(0))
    seconds, last = [], None
    for extra in range(WARM + 1):
        data = Dataset(tuple(range(1, N + extra + 1)), U[: N + extra], Y[: N + extra], U[:0], last)
        began = time.process_time()
        why = run.ask(N + extra, data).why
        seconds.append(time.process_time() - began)
        last = Why("explore", memory=why.memory)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {**case, "cold": seconds[0], "warm": sorted(seconds[1:])[WARM // 2], "peak": peak}


def apart(case: dict[str, int]) -> dict[str, Any]:
    """Run a case in its own process, to measure its peak memory."""
    words = [sys.executable, __file__, "--case", json.dumps(case)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def exponent(records: list[dict[str, Any]], word: str) -> float:
    """Growth between the first and the last of a series: t ~ size^exponent."""
    first, last = records[0], records[-1]
    return math.log(last["warm"] / first["warm"]) / math.log(last[word] / first[word])


def page(records: list[dict[str, Any]]) -> str:
    """Write the page."""
    origin = report.made()
    lines = [
        "# Growth of a suggestion",
        "",
        f"- version {origin['version']}, commit {origin['commit']}, code {origin['code']}",
        f"- command: `{origin['command']}`; machine: {origin['machine']}, one thread; date: {origin['date']}",
        "",
        "Cold: the first ask on these data. Warm: the median of the next three. g is sampled (a sum of squares).",
        "",
        table(
            ["N", "m", "d", "cold, s", "warm, s", "peak, MB"],
            [[r["N"], r["m"], r["d"], f"{r['cold']:.2f}", f"{r['warm']:.2f}", f"{r['peak']:.0f}"] for r in records],
        ),
        "",
    ]
    for word in ("N", "m", "d"):
        others = [name for name in BASE if name != word]
        series = [r for r in records if all(r[name] == BASE[name] for name in others)]
        series = sorted({r[word]: r for r in series}.values(), key=lambda r: r[word])
        ratio = series[-1]["warm"] / series[0]["warm"]
        lines.append(
            f"- {word} from {series[0][word]} to {series[-1][word]}: {ratio:.1f} times slower, "
            f"exponent {exponent(series, word):.2f}"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", help="one case as JSON, in this process")
    parser.add_argument("--out", type=Path, default=report.RESULTS / "growth.md")
    words = parser.parse_args()
    if words.case:
        print(json.dumps(ask(json.loads(words.case))))
    else:
        records = []
        for case in CASES:
            records.append(apart(case))
            print(records[-1], flush=True)
        words.out.write_text(page(records))


if __name__ == "__main__":
    main()
