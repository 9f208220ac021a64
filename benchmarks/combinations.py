"""How the search copes with discrete variables: the distance from brute force, and the time per suggestion.

    python benchmarks/combinations.py --limit 3000 --out combinations.jsonl.gz     # a part; repeat until none is left
    python benchmarks/combinations.py --out combinations.jsonl.gz --report         # the page
    python benchmarks/combinations.py --only times --seeds 1 --out try.jsonl.gz

- distance: a run of pied on each problem of the set 'mixed' provides the data. After t evaluations, the value of what
  it proposes to explore is compared with brute force over all settings of the discrete variables, if there are at most
  100,000: each is solved for its continuous variables. In units of the objective's spread over the pool.
- times: a smooth problem with two continuous and some discrete variables of ten values each, so 10, 1,000 and 1,000,000
  settings, integers or choices; and its relaxation, all of them continuous. Processor seconds of an `ask` with the same
  number of points told.
"""

import slices  # first: see there

# isort: split
import json
import math
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import report
import search
from numpy import ndarray

from pied import suite
from pied.problem import Choice, Integer, Problem, Variable
from pied.records.trial import Dataset
from pied.rng import Stream
from pied.solvers.cuqb import CUQB
from pied.study import Study
from pied.suite.enumeration import Thoroughness, enumerate_settings

MOST_SETTINGS = 100_000
"""Up to which brute force is possible."""
AFTER = (0, 1, 2, 4, 8, 16)
"""Evaluations after the initial design, at which the proposal is compared; later ones are seldom explorations."""
BRUTE = Thoroughness(pool=16, starts=1, turns=12, cloud=6, rows=64, whole=40, margin=0.02, most=200)
"""Effort of brute force: bounds cost more than the truth of a problem, and are smooth."""
TARGET = 1e-3
"""Distance from brute force, in units of the spread."""
EXPONENTS = (1, 3, 6)
"""Discrete variables of ten values each."""
KINDS = ("relaxed", "integers", "choices")
TOLD, ASKS = 30, 5
"""Points told before the first timed suggestion, and timed suggestions."""
SLOWER = 3.0
"""An ask may take so many times that of the relaxation, up to 1,000 settings."""


# --- Distance from brute force ----------------------------------------------------------------------------------------


def settings_of(problem: Problem) -> float:
    """Return how many settings the discrete variables have; 1 without any."""
    return 1.0 if problem.grid is None else math.prod(len(each) for each in problem.grid.places if each is not None)


def distance(item: slices.Item) -> dict[str, Any]:
    """Compare the proposals of a run with brute force."""
    problem = suite[item["problem"]].problem
    study = Study(problem, solver=CUQB(), seed=item["seed"], patience=None)
    answers = []
    while study.used < study.initial + max(AFTER):
        trial = study.ask()
        study.tell(trial, problem.named_y(problem.evaluate(trial.x)), anyway=True)
        if study.used - study.initial in AFTER:
            answers += compared(problem, item["seed"], Dataset.of(problem, study.trials), study.used)
    return {"settings": settings_of(problem), "answers": answers}


def compared(problem: Problem, seed: int, data: Dataset, t: int) -> list[dict[str, Any]]:
    """Return the distance of one proposal; none if it is not the solution of the explore subproblem."""
    quiet = replace(CUQB(), verify_every=None)
    try:
        replace(quiet, search=search.Stating()).start(problem, Stream(seed)).ask(t + 1, data)
    except search.Stated as stated:
        sub = stated.subproblem
    else:
        return []
    began = time.process_time()
    proposal = quiet.start(problem, Stream(seed)).ask(t + 1, data)
    ours = time.process_time() - began
    if proposal.why.aim != "explore":
        return []
    began = time.process_time()
    functions, f = sub.functions, _values(sub.functions, proposal.u[None])[0]
    found = brute(problem, functions, Stream(seed).at("brute", t))
    seconds = time.process_time() - began
    is_met = bool((f[1:] >= -1e-6 * sub.scales[1:]).all())
    gap = None
    if found is not None:
        gap = max(0.0, (found - float(f[0])) / float(sub.scales[0])) if is_met else None
    return [{"t": t, "gap": gap, "is_met": is_met, "found": found is not None, "ours": ours, "brute": seconds}]


def _values(functions: Any, U: ndarray) -> ndarray:
    """Return the functions at full precision."""
    return functions.values_and_slopes(U)[0][:, : functions.k]


def brute(problem: Problem, functions: Any, stream: Stream) -> float | None:
    """Return the largest value of the first function over all settings, subject to the others; None: infeasible."""
    grid = problem.grid
    is_discrete = np.zeros(problem.d, dtype=bool) if grid is None else grid.is_discrete
    places = [] if grid is None else [each for each in grid.places if each is not None]
    sizes = tuple(len(each) for each in places) or (1,)

    def at(which: ndarray, U: ndarray) -> ndarray:
        full = np.empty((len(which), problem.d))
        full[:, ~is_discrete] = U
        for axis, rows, values in zip(
            np.flatnonzero(is_discrete), np.unravel_index(which, sizes), places, strict=False
        ):
            full[:, axis] = values[rows]
        parts = [functions.values(full[i : i + 4096]) for i in range(0, len(full), 4096)]
        return np.concatenate(parts) if len(full) > 64 else _values(functions, full)

    found = enumerate_settings(at, math.prod(sizes), int((~is_discrete).sum()), stream=stream, effort=BRUTE)
    return None if found is None else found.value


# --- Time per suggestion ----------------------------------------------------------------------------------------------


def family(kind: str, exponent: int) -> Problem:
    """Return the problem with so many discrete variables, or its relaxation."""
    names = [f"n{i}" for i in range(exponent)]
    labels = [f"label {i}" for i in range(10)]
    made: dict[str, Any] = {
        "relaxed": lambda: Variable(0.0, 9.0),
        "integers": lambda: Integer(0, 9),
        "choices": lambda: Choice(*labels),
    }

    def number(value: Any) -> float:
        return float(labels.index(str(value)) if isinstance(value, str) else value) / 9

    def blackbox(x: Any) -> dict[str, float]:
        own = [number(x[name]) for name in names]
        bowl = sum((each - 0.2 - 0.07 * i) ** 2 for i, each in enumerate(own))
        return {
            "y": bowl + (x["a"] - 0.3) ** 2 + 0.3 * math.sin(3 * x["b"] + own[0]),
            "z": x["a"] + 0.5 * x["b"] + 0.4 * sum(own) / exponent,
        }

    return Problem(
        {"a": (0.0, 1.0), "b": (0.0, 1.0)} | {name: made[kind]() for name in names},
        ["y", "z"],
        blackbox=blackbox,
        minimize="y**2 + 0.1*b",
        subject_to={"enough": "z >= 0.6"},
        noise=0,
    )


def times(item: slices.Item) -> dict[str, Any]:
    """Time suggestions of one problem, with the same number of points told."""
    problem = family(item["kind"], item["exponent"])
    study = Study(problem, solver="cuqb", seed=item["seed"], patience=None, initial=TOLD)
    spent: list[float] = []
    while len(spent) < ASKS + 1:
        is_initial, began = study.used < TOLD, time.process_time()
        trial = study.ask()
        if not is_initial:
            spent.append(round(time.process_time() - began, 6))
        study.tell(trial, problem.named_y(problem.evaluate(trial.x)), anyway=True)
    return {"cpu": spent[1:]}  # the first one loads what is needed


# --- The page and the command -----------------------------------------------------------------------------------------


def times_table(records: Sequence[Any]) -> str:
    """Return a row for each number of settings: median seconds of each kind, and their ratio to the relaxation."""
    rows = []
    for exponent in EXPONENTS:
        spent = {
            kind: report.quantile(
                [
                    t
                    for r in records
                    if (r["item"]["kind"], r["item"]["exponent"]) == (kind, exponent)
                    for t in r["cpu"]
                ],
                0.5,
            )
            for kind in KINDS
        }
        ratios = [spent[kind] / spent["relaxed"] for kind in KINDS[1:]]
        wanted = f"<= {SLOWER:g}" if exponent <= 3 else "-"
        cells = [f"{10**exponent:,}", *(f"{each:.3f}" for each in spent.values()), *(f"{r:.2f}" for r in ratios)]
        rows.append([*cells, wanted])
    return report.table(["settings", *KINDS, *(f"{kind} / relaxed" for kind in KINDS[1:]), "wanted"], rows)


def distance_table(records: Sequence[Any]) -> str:
    """Return a row for each problem: settings, proposals compared, distance, and seconds of both."""
    rows = []
    for name in dict.fromkeys(r["item"]["problem"] for r in records):
        own = [r for r in records if r["item"]["problem"] == name]
        answers = [a for r in own for a in r["answers"] if a["found"]]
        if not answers:
            rows.append([name, f"{own[0]['settings']:,.0f}", 0, "-", "-", "-", "-"])
            continue
        missing = [a["gap"] for a in answers]
        near = sum(gap is not None and gap <= TARGET for gap in missing)
        rows.append(
            [
                name,
                f"{own[0]['settings']:,.0f}",
                len(answers),
                f"{report.small(report.quantile(missing, 0.5))} ({report.small(report.quantile(missing, 1.0))})",
                f"{near} of {len(answers)}",
                f"{report.quantile([a['ours'] for a in answers], 0.5):.2f}",
                f"{report.quantile([a['brute'] for a in answers], 0.5):.1f}",
            ]
        )
    within = f"within {TARGET:g}"
    columns = ["problem", "settings", "proposals", "distance: median (worst)", within, "seconds", "of brute force"]
    return report.table(columns, rows)


def page(records: Sequence[Any]) -> str:
    """Return the whole report."""
    fine = [r for r in records if not r.get("error")]
    blocks = [slices.heading("Discrete variables: distance from brute force, and time", records)]
    timed, compared_ = ([r for r in fine if r["item"]["what"] == what] for what in ("times", "distance"))
    if timed:
        blocks += [
            f"## Seconds per suggestion, {TOLD} points told",
            "Processor seconds, medians; two continuous variables and 1, 3 or 6 discrete ones of ten values.",
            times_table(timed),
        ]
    if compared_:
        blocks += [
            "## Distance from brute force",
            "Of the explored point, in units of the objective's spread; a proposal that violates a bound is infinitely "
            "far. Brute force solves for the continuous variables in every setting that can compete.",
            distance_table(compared_),
        ]
    return "\n\n".join([*blocks, *slices.troubles(records, ("problem", "seed"))]) + "\n"


def run(item: slices.Item) -> dict[str, Any]:
    """Perform one task."""
    return distance(item) if item["what"] == "distance" else times(item)


def items_of(what: Sequence[str], problems: Sequence[str], seeds: int) -> list[slices.Item]:
    """Return every task, seed by seed."""
    made: list[slices.Item] = []
    for seed in range(seeds):
        if "times" in what:
            made += [
                {"what": "times", "problem": f"{kind} {10**exponent}", "kind": kind, "exponent": exponent, "seed": seed}
                for exponent in EXPONENTS for kind in KINDS
            ]  # fmt: skip
        if "distance" in what:
            possible = [name for name in problems if 1 < settings_of(suite[name].whole) <= MOST_SETTINGS]
            made += [{"what": "distance", "problem": name, "seed": seed} for name in possible]
    return made


def main(words: Sequence[str] | None = None) -> int | str:
    """Run the command line; return how many tasks are left, or the page."""
    parser = slices.parser(__doc__, out="combinations.jsonl.gz", seeds=3)
    every = suite.sets["mixed"]
    parser.add_argument("--only", choices=("times", "distance"), help="one of the two measurements")
    parser.add_argument("--problems", nargs="+", choices=every, default=every, metavar="NAME", help="default all")
    parser.add_argument("--one", type=json.loads, metavar="TASK", help="perform one task here and print its record")
    given = parser.parse_args(words)
    if given.one is not None:
        slices.alone(given.one, lambda item, begun, report: run(item))
        return 0
    if given.report:
        return slices.write(given, page, "combinations.md")
    what = [given.only] if given.only else ["times", "distance"]
    return slices.work_alone(items_of(what, given.problems, given.seeds), given, __file__)


if __name__ == "__main__":
    main()
