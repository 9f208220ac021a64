"""With noise: what `pied` and BoTorch's composite loop find and recommend, from the same initial points.

    pip install '.[peers]'
    PYTHONPATH=src python3 benchmarks/noisy_rivals.py --limit 550 --out noisy-rivals.jsonl.gz    # until none is left
    python benchmarks/noisy_rivals.py --out noisy-rivals.jsonl.gz --report

Problems: the fixed ones with rough outputs, random ones (rough kinds, three smooth ones, white objectives of many
basins under noisy limits), batteries and water networks drawn at random (`simulators`). Noise of 2 % of each output's
spread over the box, to be learned; 24 + 8d evaluations, 40 for simulators. A run is judged by the truth: the best point
it evaluated that meets all limits, and the point it recommends. `pied` recommends by `result`; for BoTorch it is the
evaluated point with the best objective at its model's mean outputs among those that meet all limits there.
"""

import slices  # first: see there

# isort: split
import math
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import composite
import courses
import honesty
import numpy as np
import report
import simulators
from numpy import ndarray
from spaces import Point

from pied import suite
from pied.errors import Infeasible, SolverDone
from pied.records.trial import spread
from pied.rng import Stream
from pied.study import Study
from pied.suite import Benchmark

LOOPS = ("pied", "botorch")
SETS = ("rough", "draws", "simulators")
FIRST = 100
"""The first of the draws and simulators: `pied` was developed on those before it."""
POOL = 512
"""Points from which spreads and the median of the objective are computed."""
NEARER = (0.0, 1e-4, 1e-3, 0.01, 0.1, 1.0)
"""Of the way to the centre of the box: steps at which a solution is sought."""
STAGES = (0.5, 1.0)
"""Of the budget, at which a run is judged."""
BREAKS = 0.01
"""Of its spread: a limit that is broken by more than this at a recommended point is broken."""


def items_of(sets: Sequence[str], loops: Sequence[str], seeds: int) -> list[slices.Item]:
    """Return every run, seed by seed."""
    made: list[slices.Item] = []
    for seed in range(seeds):
        named = [("rough", name) for name in suite.sets["rough"]]
        named += [("draws", f"draw:{FIRST + seed}:{kind}") for kind in honesty.KINDS]
        named += [("simulators", f"{kind}:{FIRST + seed}") for kind in simulators.KINDS[:2]]
        made += [
            {"set": group, "problem": name, "seed": seed, "loop": loop}
            for group, name in named if group in sets for loop in loops
        ]  # fmt: skip
    return slices.ordered(made)


# --- One run ----------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=4)
def stated(item_set: str, problem: str, seed: int) -> tuple[Benchmark, ndarray]:
    """Return a problem with noise, and its functions at many points of the box."""
    if item_set == "simulators":
        kind, _, draw = problem.partition(":")
        made = _of_simulator(kind, int(draw), seed)
    else:
        made = honesty.stated(problem, "constant", seed)
    return made, made.truth(Stream(0).at("noise").sobol(POOL, made.whole.d), unit=True)


def _of_simulator(kind: str, draw: int, seed: int) -> Benchmark:
    """Return a simulator with noise; where it finds no solution, it is solved a little nearer to the centre."""
    simulator = simulators.drawn(kind, draw)
    whole = simulator.stated()
    centre = whole.from_unit(np.full((1, whole.d), 0.5))[0]

    def at(x: Sequence[float]) -> tuple[float, ...]:
        moved = (simulator(((1.0 - step) * np.array(x) + step * centre).tolist()) for step in NEARER)
        return next(y for y in moved if y is not None)

    def h(*columns: Any) -> list[Any]:
        if not isinstance(columns[0], ndarray):
            return list(at(columns))
        return list(np.array([at(x) for x in zip(*columns, strict=True)]).T)

    exact = Benchmark(f"{kind}-{draw}", whole, h, None, tuple(whole.variables))
    Y = exact.outputs(whole.from_unit(Stream(0).at("noise").sobol(POOL, whole.d)))
    return exact.told("full", dict(zip(whole.outputs, (honesty.SIGMA * spread(Y)).tolist(), strict=True)), seed=seed)


class Judged(courses.Course):
    """A run with noise, judged at some stages."""

    def __init__(self, benchmark: Benchmark, pool: ndarray, budget: int) -> None:
        super().__init__(benchmark)
        self.stages = {math.ceil(share * budget): share for share in STAGES}
        self.scales = spread(pool)
        self.found: list[dict[str, Any]] = []

    def judge(self, recommended: Point | None) -> None:
        """Keep the truth at the best point so far and at the recommended one."""
        F = self.benchmark.truth(np.array(self.X))
        fine = F[(F[:, 1:] >= -1e-6 * self.scales[1:]).all(1), 0]
        said = None
        if recommended is not None:
            f = self.benchmark.truth(recommended)[0]
            said = {"value": float(f[0]), "broken": float(np.max(-f[1:] / self.scales[1:], initial=0.0))}
        self.found.append({"best": float(fine.max()) if len(fine) else None, "recommended": said})


def run(item: slices.Item) -> dict[str, Any]:
    """Perform one run; return the truth at what was found and recommended, and the scale of the objective."""
    benchmark, pool = stated(item["set"], item["problem"], item["seed"])
    budget = simulators.BUDGET if item["set"] == "simulators" else honesty.usual_budget(benchmark)
    judged = Judged(replace(benchmark), pool, budget)  # a copy, whose noise begins anew
    study = Study(judged.benchmark.problem, seed=item["seed"], patience=None)
    is_ours, initial = item["loop"] == "pied", study.initial

    def recommended() -> Point | None:
        return study.result().x if is_ours else composite.recommended(judged.benchmark, judged.told, item["seed"])

    try:
        while len(judged.X) < budget:
            if is_ours or len(judged.X) < initial:
                judged.told_by(study)
            else:
                judged.suggested(item["loop"], item["seed"])
            if len(judged.X) in judged.stages:
                judged.judge(recommended())
    except (SolverDone, Infeasible):
        judged.judge(recommended())
    return {
        "found": judged.found,
        "evaluations": len(judged.X),
        "known": None if benchmark.known is None else benchmark.best,
        "unit": float(judged.scales[0] if benchmark.known is None else abs(benchmark.best - np.median(pool[:, 0]))),
    }


# --- The page ---------------------------------------------------------------------------------------------------------


def regrets(runs: dict[str, dict[str, Any]], stage: int) -> dict[str, tuple[float, float, bool]]:
    """Return by loop: regret of the best point found and of the recommended one, and whether that breaks a limit.

    In the objective's scale. A run without such a point has the regret 1.
    """
    values = [each["best"] for r in runs.values() for each in r["found"] if each["best"] is not None]
    known = next(iter(runs.values()))["known"]
    best = max(values, default=math.inf) if known is None else known
    made = {}
    for loop, r in runs.items():
        at = r["found"][min(stage, len(r["found"]) - 1)]
        said = at["recommended"]
        is_broken = said is None or said["broken"] > BREAKS
        found, told = (
            1.0 if value is None else min(max((best - value) / r["unit"], 0.0), 1.0)
            for value in (at["best"], None if is_broken else said["value"])
        )
        made[loop] = (found, told, is_broken)
    return made


def page(records: Sequence[dict[str, Any]]) -> str:
    """Return the whole report."""
    pairs: dict[tuple[str, str, int], dict[str, Any]] = {}
    for record in records:
        if "found" in record:
            item = record["item"]
            pairs.setdefault((item["set"], item["problem"], item["seed"]), {})[item["loop"]] = record
    whole = {key: runs for key, runs in pairs.items() if all(loop in runs for loop in LOOPS)}
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for (group, problem, _), runs in whole.items():
        kind = problem if group == "rough" else problem.split(":")[2 if group == "draws" else 0]
        for name in (kind, "**all**"):
            groups.setdefault((group, name), []).append(runs)
    rows = []
    for (group, kind), cases in sorted(groups.items()):
        for loop in LOOPS:
            last = [regrets(runs, len(STAGES) - 1) for runs in cases]
            half = [regrets(runs, 0) for runs in cases]
            others = [min(each[o][1] for o in LOOPS if o != loop) for each in last]
            rows.append(
                [group, kind, loop, len(cases)]
                + [report.small(report.quantile([each[loop][0] for each in at], 0.5)) for at in (half, last)]
                + [report.small(report.quantile([each[loop][1] for each in at], 0.5)) for at in (half, last)]
                + [f"{np.mean([each[loop][1] for each in last]):.3f}"]
                + [sum(each[loop][2] for each in last)]
                + [sum(each[loop][1] < other for each, other in zip(last, others, strict=True))]
            )
    columns = ["set", "kind", "loop", "runs", "found at 1/2", "found at the end", "recommended at 1/2"]
    columns += ["recommended at the end", "mean", "breaks a limit", "ahead"]
    text = (
        "Regret over the objective's scale (the distance from its median over the box to the optimum; of "
        "simulators its spread, and the best that either loop evaluated instead of the optimum), medians: of the "
        "best point evaluated that meets all limits, and of the recommended one, at half and at the end of the "
        "budget; the mean of that. A recommended point that breaks a limit by more than 1 % of its spread has the "
        "regret 1. Ahead: runs whose recommended point is better than the other's. The rules of recommendation "
        "differ: pied keeps a margin for what it does not know of limits and may recommend any point of the box; "
        "for BoTorch it is an evaluated point without a margin. What was found depends on the loops alone. The "
        "problems with rough outputs were used in development, the draws and simulators were not; growing-noise "
        "and gross-errors have noise of their own, all others 2 %."
    )
    blocks = [slices.heading("With noise, beside BoTorch's composite loop", records), text, report.table(columns, rows)]
    return "\n\n".join(blocks + slices.troubles(records, ("problem", "loop", "seed"))) + "\n"


def main(words: Sequence[str] | None = None) -> int | str:
    """Run the command line; return how many records are left, or the page."""
    parser = slices.parser(__doc__, out="noisy-rivals.jsonl.gz", seeds=4)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--loops", nargs="+", choices=LOOPS, default=list(LOOPS))
    given = parser.parse_args(words)
    if given.report:
        return slices.write(given, page, "noisy-rivals.md")
    return slices.work_on(items_of(given.sets, given.loops, given.seeds), run, given)


if __name__ == "__main__":
    main()
