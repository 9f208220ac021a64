"""How reliable the method is in practice: verdicts, and bounds at proposals. `honesty.py` counts what a study says.

    python benchmarks/verdicts.py --workers 16 --limit 500 --out verdicts.jsonl
    python benchmarks/verdicts.py --no-run --out verdicts.jsonl --table benchmarks/results/verdicts.md

A call performs a part of the remaining tasks and stops after --limit seconds; repeat it until none is left. Parts:
'tests', feasible problems until the first feasible evaluation, which no test may declare infeasible; 'infeasible',
problems without a feasible point, which every run should declare; 'noisy', tight feasible problems with 2 % of noise,
whole runs, because a noisy value that meets the limits ends no tests; 'coverage', whole runs, bounds against the truth.
"""

import argparse
import dataclasses
import json
import math
import multiprocessing
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import report
from numpy import ndarray
from runner import benchmark_of, solver_of
from verdict_tables import FREE, PARTS, page

from pied import suite
from pied.errors import EvaluationError, Status
from pied.records.trial import Trial, feasible, spread
from pied.rng import Stream
from pied.study import Study
from pied.suite import Benchmark, twins
from pied.suite.optimum import Effort, best
from pied.suite.twins import Transformed

KINDS = ("gp", "polynomial", "oscillating", "steep", "reactor", "cliff", "jump", "kink", "ridge", "corner")
"""Kinds of random problems with a fast truth, smooth ones first."""
NOISE = 0.02
"""In spreads of each output; solvers have to learn it."""
NOISY_BUDGET = 40
POOL = 1024
"""Points from which the spread of an output over the box is computed."""
SHARES = (0.1, 0.01, 0.001)
"""Fractions of the largest margin that tight problems leave."""
CONSTRAINED = ("bazaraa", "spring", "ex314", "rosen-suzuki", "ex211", "ex212", "g09", "ex724", "ex216", "williams-otto")
"""Problems of the suite whose feasible set has a volume."""
QUICK = Effort(pool=2048, starts=32, steps=60, polished=4, searches=2)
"""Effort of the search for the largest margin; a smaller margin suffices, since any positive one is feasible."""


@dataclass(frozen=True)
class Task:
    """One run."""

    part: str
    problem: str
    """As in `runner.Task`; also 'tight:SHARE:PROBLEM' (a small feasible set) and 'beyond:PROBLEM' (none)."""
    solver: str
    seed: int
    budget: int
    initial: int | None = None
    """Size of the initial design; None: 2d + 1."""


def tasks(parts: Iterable[str], seeds: int) -> list[Task]:
    """Return all tasks, ordered by seed, so that every part has some of each kind."""
    made = []
    for seed in range(seeds):
        draws = [f"draw:{7 * seed + place}:{kind}" for place, kind in enumerate(KINDS)]
        if "tests" in parts:
            plain = [*CONSTRAINED, "st-bpv1", *(f"rescaled:{name}" for name in CONSTRAINED)]
            made += [Task("tests", name, "cuqb", seed, 60) for name in plain if seed < 10]
            made += [Task("tests", f"tight:{SHARES[seed % 3]}:{name}", "cuqb", seed, 60) for name in CONSTRAINED]
            hard = [f"tight:{share}:{name}" for share in SHARES for name in draws]
            made += [Task("tests", name, "cuqb", seed, 60, initial) for name in hard for initial in (None, 3)]
        if "infeasible" in parts and seed < 10:
            forms = [f"infeasible:{name}" for name in twins.INFEASIBLE] + [f"jointly:{name}" for name in twins.JOINTLY]
            forms += [f"beyond:{name}" for name in draws]
            made += [Task("infeasible", name, "cuqb", seed, 60) for name in forms]
        if "noisy" in parts:
            forms = [f"tight:{SHARES[seed % 3]}:{name}" for name in (*CONSTRAINED, *draws)]
            made += [Task("noisy", name, "cuqb", seed, NOISY_BUDGET) for name in forms]
        if "coverage" in parts and seed < 10:
            forms = [*CONSTRAINED, *FREE, *(name for name in draws if "reactor" not in name)]
            solvers = ("cuqb", "cuqb:model.declustering=None")
            made += [Task("coverage", name, solver, seed, 40) for name in forms for solver in solvers]
    return made


# --- Problems ---------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=64)
def made(text: str) -> Benchmark:
    """Return the benchmark that a task names."""
    form, _, rest = text.partition(":")
    if form == "beyond":
        return twins.infeasible(drawn(rest)).told()
    if form != "tight":
        return drawn(text)
    share, _, name = rest.partition(":")
    return tight(drawn(name), float(share))


def drawn(text: str) -> Benchmark:
    """Return a benchmark; random problems get at least one constraint."""
    form, _, rest = text.partition(":")
    if form != "draw":
        return benchmark_of(text)
    seed, _, kind = rest.partition(":")
    found = suite.random(int(seed), kind)
    return found if found.whole.n else suite.random(int(seed), kind, n=2)


def tight(benchmark: Benchmark, share: float) -> Benchmark:
    """Return the problem with every black constraint tightened until a fraction of the largest margin is left.

    The margin is the smallest black constraint in units of its benchmark scale, where the white ones hold. Where it is
    largest, the point stays feasible, and few others do.
    """
    return tightened(benchmark, share)[0]


def tightened(benchmark: Benchmark, share: float) -> tuple[Benchmark, ndarray | None]:
    """Return the tight problem, and the point of the unit cube that stays feasible; None where none is known."""
    whole, scales = benchmark.whole, benchmark.scales
    black = [place for place in range(1, whole.k) if whole.structure[place].kind != "white"]
    white = [place for place in range(1, whole.k) if place not in black]
    if not black:
        return benchmark, None
    found = best(
        lambda U: (benchmark.truth(U, unit=True) / scales)[:, black + white],
        whole.d,
        stream=Stream(0).at("tight", benchmark.name),
        pieces=len(black),
        effort=QUICK,
    )
    assert found is not None, f"no point of {benchmark.name} meets its white constraints"
    taken = max(0.0, (1.0 - share) * found.value)
    limits = {
        name: Transformed(whole, place, ahead=taken * float(scales[place]) if place in black else 0.0)
        for place, name in enumerate(whole.constraints, start=1)
    }
    changed = dataclasses.replace(
        benchmark,
        name=f"{benchmark.name}-tight-{share}",
        whole=whole.revised(subject_to=limits, tolerance=None),
        optimum=None,
        fraction=None,
    )
    point = whole.from_unit(found.u[None])
    is_feasible = bool((changed.truth(point)[:, 1:] >= -1e-9 * scales[1:]).all())
    assert is_feasible or found.value <= 0
    return changed, found.u if is_feasible else None


# --- One run ----------------------------------------------------------------------------------------------------------


def work(task: Task, deadline: float) -> dict[str, Any] | None:
    """Perform a task and return its result; None if the time is up before it starts."""
    if time.time() > deadline:
        return None
    began = time.perf_counter()
    try:
        benchmark = made(task.problem)
        record = _run(task, benchmark)
    except Exception as error:  # the others continue, and the table shows the error
        record = {"error": f"{type(error).__name__}: {error}"}
    return {"task": asdict(task), **record, "wall": round(time.perf_counter() - began, 2)}


def _noisy(benchmark: Benchmark, seed: int) -> Benchmark:
    """Return a problem with noise relative to the spread of each output over the box."""
    whole = benchmark.whole
    Y = benchmark.outputs(whole.from_unit(Stream(0).at("noise").sobol(POOL, whole.d)))
    return benchmark.told("full", dict(zip(whole.outputs, (NOISE * spread(Y)).tolist(), strict=True)), seed=seed)


def _run(task: Task, benchmark: Benchmark) -> dict[str, Any]:
    solver, words = solver_of(task.solver)
    is_noisy = task.part == "noisy"
    benchmark = _noisy(benchmark, task.seed) if is_noisy else benchmark
    study = Study(benchmark.problem, solver=solver, seed=task.seed, initial=task.initial, **words)
    watch = Coverage(benchmark) if task.part == "coverage" else None
    tests: list[float | None] = []
    first = None
    while study.used < task.budget and study.status is Status.RUNNING:
        trial = _evaluate(study)
        is_open = first is None or is_noisy
        if is_open and trial.why.aim != "initial":
            tests.append(trial.why.margin)
        data = study.data
        if first is None and bool(feasible(study.problem, data.functions(study.problem)).any()):
            first = study.used
        if watch is not None:
            watch.add(study, trial)
        elif first is not None and not is_noisy:
            break
    below = [margin is not None and margin < 0 for margin in tests]
    return {
        "declared": study.used if study.status is Status.INFEASIBLE else None,
        "evaluations": study.used,
        "initial": study.initial,
        "first": first,
        "tests": len(tests),
        "needed": sum(margin is not None for margin in tests),
        "below": sum(below),
        "in a row": _longest(below),
        "fraction": benchmark.feasible_fraction,
        **(watch.record() if watch is not None else {}),
    }


def _evaluate(study: Study) -> Trial:
    trial = study.ask()
    try:
        y = study.problem.evaluate(trial.x)
    except EvaluationError as error:
        return study.fail(trial, str(error))
    return study.tell(trial, study.problem.named_y(y), anyway=True)


def _longest(flags: Sequence[bool]) -> int:
    most = now = 0
    for flag in flags:
        now = now + 1 if flag else 0
        most = max(most, now)
    return most


class Coverage:
    """Bounds at proposals, compared with the truth."""

    def __init__(self, benchmark: Benchmark) -> None:
        self.benchmark = benchmark
        self.black = [i for i, each in enumerate(benchmark.problem.structure) if each.kind != "white"]
        self.places: list[list[list[float]]] = []
        """For each proposal, for each black function: where the truth lies between the bounds (-1 and 1 at the bounds),
        and the width of the bounds in benchmark scales."""

    def add(self, study: Study, trial: Trial) -> None:
        """Add one evaluation."""
        benchmark = self.benchmark
        if trial.why.lower:
            X = np.array([[float(value) for value in trial.x.values()]])
            f, scales = benchmark.truth(X)[0], benchmark.scales
            row = []
            for i in self.black:
                low, high = trial.why.lower[i], trial.why.upper[i]
                half = max(0.5 * (high - low), 1e-300)
                place = (float(f[i]) - 0.5 * (low + high)) / half
                row.append([max(-1e6, min(1e6, round(place, 4))), float(f"{2 * half / float(scales[i]):.3g}")])
            self.places.append(row)

    def record(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {"places": self.places}


# --- Many runs --------------------------------------------------------------------------------------------------------


def slice_of(todo: Sequence[Task], workers: int, seconds: float) -> Iterator[dict[str, Any]]:
    """Yield results until the time is up; tasks that are running then are finished."""
    deadline = time.time() + seconds
    if workers <= 1:
        yield from (record for task in todo if (record := work(task, deadline)) is not None)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        futures = [pool.submit(work, task, deadline) for task in todo]
        for future in as_completed(futures):
            record = future.result()
            if record is not None:
                yield record


def run(todo: Sequence[Task], workers: int, seconds: float, out: Path, any_code: bool = False) -> list[dict[str, Any]]:
    """Perform the remaining tasks until the time is up, and return all results."""
    origin = report.made()
    found = [each for each in report.read(out) if any_code or each["made"]["code"] == origin["code"]]
    done = {report.key(each["task"]) for each in found}
    left = [task for task in todo if report.key(asdict(task)) not in done]
    out.parent.mkdir(parents=True, exist_ok=True)
    with out.open("a") as file:
        for record in slice_of(left, workers, seconds):
            record["made"] = origin
            file.write(json.dumps(record) + "\n")
            file.flush()
            found.append(record)
            left = left[:-1]
    print(f"{len(found)} records, {len(left)} tasks left", file=sys.stderr)
    return found


# --- The command ------------------------------------------------------------------------------------------------------


def main(words: Sequence[str] | None = None) -> str:
    """Run the command line and return the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS, help="default all")
    parser.add_argument("--seeds", type=int, default=40, help="how many, from 0; default 40")
    parser.add_argument("--only", default="", metavar="TEXT", help="problems that contain this")
    parser.add_argument("--workers", type=int, default=report.cores(), help="processes; default all processors")
    parser.add_argument("--limit", type=float, default=math.inf, help="seconds after which nothing new is begun")
    parser.add_argument("--out", type=Path, default=report.RESULTS / "verdicts.jsonl", help="records, appended")
    parser.add_argument(
        "--table", type=Path, help="file of the report; by default that of the records with the suffix .md"
    )
    parser.add_argument("--no-run", action="store_true", help="report on the records that are there")
    parser.add_argument("--any-code", action="store_true", help="count records of other code as done")
    given: Any = parser.parse_args(words)
    todo = [task for task in tasks(given.parts, given.seeds) if given.only in task.problem]
    if given.no_run:
        records = report.read(given.out)
    else:
        records = run(todo, given.workers, given.limit, given.out, given.any_code)
    return report.published(records, page, given.table or given.out.with_suffix(".md"))


if __name__ == "__main__":
    main()
