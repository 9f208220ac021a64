"""Time and memory of a proposal as a function of points N, outputs m and inputs d, on CPU and GPU.

    python benchmarks/growth.py                       # the table
    python benchmarks/growth.py --device cuda         # fit, screening and solving of the largest case on CPU and GPU

Every case runs in its own process: once cold, then repeatedly while points are added, as in a study.
The black box is a smooth function of a few hidden features, the same for every size; g is a sum of squares of all
outputs (sampled: no closed form is used) and one affine constraint. Seconds are the processor's, on one thread; the
peak is that of the whole process, the import of torch (about 300 MB) included.
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

import report
import torch
from report import table
from torch import Tensor

from pied.bounds.believer import Believer, optimistic
from pied.bounds.composite import Composite
from pied.problem import Problem
from pied.records.trial import Dataset, Why, spread
from pied.rng import Stream
from pied.search.multistart import Search
from pied.solvers.cuqb import CUQB

BASE = {"N": 100, "m": 4, "d": 4}
CASES = [
    *({**BASE, "N": N} for N in (100, 300, 1000)),
    *({**BASE, "m": m} for m in (1, 4, 24, 100, 400)),
    *({**BASE, "d": d} for d in (2, 10, 30)),
]
WARM = 3  # proposals after the first
LARGEST = {"N": 1000, "m": 400, "d": 4, "pool": 65_536}


def outputs(U: Tensor, m: int) -> Tensor:
    """m smooth functions of the point."""
    d = U.shape[1]
    weight = Stream(0).at("growth", "weight").normal(d, m) / math.sqrt(d)
    phase = Stream(0).at("growth", "phase").uniform(m)
    return torch.sin(2.0 * U @ weight + 6.0 * phase) + 0.5 * (U @ weight) ** 2


def problem(m: int, d: int) -> Problem:
    """A misfit over all outputs, and one limit."""
    names = [f"c[{j + 1}]" for j in range(m)]
    seen = outputs(torch.full((1, d), 0.3, dtype=torch.float64), m)[0]
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
    torch.set_num_threads(1)
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


def on(device: str, case: dict[str, int]) -> dict[str, float]:
    """Return the seconds of the parts of a proposal on a device, in the second of two rounds."""
    stated, d = problem(case["m"], case["d"]), case["d"]
    U = Stream(0).at("growth", "points").sobol(case["N"], d)
    Y = outputs(U, case["m"])
    believer, search, stream = Believer(), Search(pool=case["pool"]), Stream(0)
    data = Dataset(tuple(range(1, len(U) + 1)), U.to(device), Y.to(device), U[:0].to(device))
    parts = {}
    for _ in range(2):
        parts = {}
        began = _now(device)
        belief = believer.fit(stated, data)
        composite = Composite(stated, belief, stream, told=data.Y)
        parts["fit"] = _now(device) - began
        began = _now(device)
        pool = search.screen(stream, d, data.U[:1]).to(device)
        scales = spread(composite.values(pool, [0.5] * stated.k, screening=True))
        values = optimistic(composite, 0.95).values(pool)
        parts["screening"] = _now(device) - began
        began = _now(device)
        optimistic(composite, 0.95).values_and_slopes(pool[values[:, 0].topk(10).indices])
        parts["values and slopes at 10 points"] = _now(device) - began
        assert bool(torch.isfinite(scales).all())
    return parts


def _now(device: str) -> float:
    if device != "cpu":
        torch.cuda.synchronize()
    return time.perf_counter()


def exponent(records: list[dict[str, Any]], word: str) -> float:
    """Growth between the first and the last of a series: t ~ size^exponent."""
    first, last = records[0], records[-1]
    return math.log(last["warm"] / first["warm"]) / math.log(last[word] / first[word])


def page(records: list[dict[str, Any]], gpu: str) -> str:
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
    return "\n".join(lines) + "\n" + gpu


def compared(device: str) -> str:
    """Compare CPU and GPU for a few sizes."""
    rows = []
    for case in (
        {**LARGEST, "N": 100, "m": 4, "pool": 1024},
        {**LARGEST, "N": 100, "m": 400, "pool": 8192},
        LARGEST,
    ):
        torch.set_num_threads(report.cores())
        cpu, gpu = on("cpu", case), on(device, case)
        for name, seconds in cpu.items():
            shown = [case["N"], case["m"], case["pool"], name, f"{seconds:.3f}", f"{gpu[name]:.3f}"]
            rows.append([*shown, f"{seconds / gpu[name]:.1f}"])
            print(*rows[-1], flush=True)
    kind = torch.cuda.get_device_name() if device == "cuda" else device
    return "\n".join(
        [
            "",
            f"## CPU ({report.cores()} cores, all threads) and GPU ({kind})",
            "",
            "Wall seconds, the second of two turns. The setting is where the data lie: code follows their device.",
            "",
            table(["N", "m", "pool", "part", "CPU, s", "GPU, s", "GPU faster by"], rows),
            "",
        ]
    )


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", help="one case as JSON, in this process")
    parser.add_argument("--device", help="compare the CPU with this device instead, for instance 'cuda'")
    parser.add_argument("--gpu", type=Path, help="a page made with --device, to be put below the table")
    parser.add_argument("--out", type=Path, default=report.RESULTS / "growth.md")
    words = parser.parse_args()
    if words.case:
        print(json.dumps(ask(json.loads(words.case))))
    elif words.device:
        words.out.write_text(compared(words.device))
    else:
        records = []
        for case in CASES:
            records.append(apart(case))
            print(records[-1], flush=True)
        words.out.write_text(page(records, words.gpu.read_text() if words.gpu else ""))


if __name__ == "__main__":
    main()
