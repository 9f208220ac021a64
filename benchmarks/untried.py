"""Verdicts where something was never tried: labels, counts, sizes, plateaus, yes-or-no outputs, failures.

    python benchmarks/untried.py --seeds 168 --jobs 16 --out untried.jsonl --table benchmarks/results/untried.md

Each kind is drawn by seed; its problems have settings that meet the limits, and twins that have none. No run may call
the former infeasible; how many of the latter are declared, and when, is the price. Noise (2 %), batches of four and
the number of labels alternate with the seed. The kinds of `FROZEN` are for counting alone.
"""

import argparse
import json
import math
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import report

from pied import Choice, Integer, Levels, Problem, Status, Study
from pied.errors import EvaluationError

BUDGET = 60
NOISE = 0.02
"""Standard deviation of the noise, times what an output changes by where it changes."""
FROZEN = ("one size", "plateau", "behind", "one by one", "fragile", "differing")
TWINS_EVERY = 4
"""Every so-many-th seed is run without settings that meet the limits, too."""

Box = Mapping[str, Any]
BlackBox = Callable[[Any], list[float]]


@dataclass(frozen=True)
class Drawn:
    """A problem with its truth."""

    variables: Box
    outputs: tuple[str, ...]
    truth: BlackBox
    """Raises EvaluationError where an evaluation fails."""
    words: Mapping[str, Any]
    """Objective and limits."""
    sizes: tuple[float, ...]
    """What each output changes by."""


@dataclass(frozen=True)
class Task:
    """One run."""

    kind: str
    seed: int
    twin: bool

    @property
    def is_noisy(self) -> bool:
        """Whether outputs are measured with noise."""
        return self.seed % 2 == 1

    @property
    def batch(self) -> int:
        """How many points are asked at once."""
        return 4 if self.seed % 3 == 2 else 1


# --- Kinds ------------------------------------------------------------------------------------------------------------


def screen(draw: np.random.Generator, twin: bool) -> Drawn:
    """Most solvers fail alike; one works."""
    m = int(draw.choice([6, 12, 20]))
    good, best = f"s{draw.integers(m)}", draw.uniform(55, 85)

    def truth(x: Any) -> list[float]:
        works = x["solvent"] == good and not twin
        return [0.7 - 1e-4 * (x["T"] - best) ** 2 if works else 0.1 + 2e-4 * (x["T"] - 50)]

    box = {"solvent": Choice(*(f"s{i}" for i in range(m))), "T": (50.0, 90.0)}
    return Drawn(box, ("yld",), truth, {"maximize": "yld", "subject_to": ["yld >= 0.5"]}, (0.1,))


def residue(draw: np.random.Generator, twin: bool) -> Drawn:
    """Of 40 counts, those of one residue modulo 7 work."""
    good, best = int(draw.integers(7)), draw.uniform(0.2, 0.8)

    def truth(x: Any) -> list[float]:
        works = int(x["n"]) % 7 == good and not twin
        return [0.8 - (x["a"] - best) ** 2 if works else 0.2 + 0.1 * x["a"]]

    box = {"n": Integer(1, 40), "a": (0.0, 1.0)}
    return Drawn(box, ("y",), truth, {"minimize": "n + a", "subject_to": ["y >= 0.5"]}, (0.1,))


def pairs(draw: np.random.Generator, twin: bool) -> Drawn:
    """One pair of a catalyst and a base works."""
    first, second = f"c{draw.integers(5)}", f"b{draw.integers(4)}"

    def truth(x: Any) -> list[float]:
        works = x["catalyst"] == first and x["base"] == second and not twin
        return [0.6 + 0.2 * x["a"] if works else 0.1 + 0.05 * x["a"]]

    box = {
        "catalyst": Choice(*(f"c{i}" for i in range(5))), "base": Choice(*(f"b{i}" for i in range(4))), "a": (0.0, 1.0),
    }  # fmt: skip
    return Drawn(box, ("yld",), truth, {"maximize": "yld - 0.1*a", "subject_to": ["yld >= 0.5"]}, (0.1,))


def saturated(draw: np.random.Generator, twin: bool) -> Drawn:
    """A tank is full nearly everywhere, and where it would not be, many evaluations fail."""
    edge, limit = draw.uniform(0.25, 0.4), 100.0 if twin else 145.0

    def truth(x: Any) -> list[float]:
        if x["a"] + x["b"] < 0.8 and x["a"] < edge:
            raise EvaluationError("warning")
        return [min(150.0, 100.0 + 100.0 * (x["a"] + x["b"]))]

    words = {"minimize": "a + b**2", "subject_to": [f"level <= {limit:g}"]}
    return Drawn({"a": (0.0, 1.0), "b": (0.0, 1.0)}, ("level",), truth, words, (10.0,))


def yes_or_no(draw: np.random.Generator, twin: bool) -> Drawn:
    """It dissolves in a small part of the box."""
    centre, radius = draw.uniform(0.2, 0.8, 2), draw.uniform(0.15, 0.25)

    def truth(x: Any) -> list[float]:
        near = math.hypot(x["a"] - centre[0], x["b"] - centre[1]) <= radius
        return [float(near and not twin), x["a"] * (1.0 - x["b"])]

    words = {"maximize": "y", "subject_to": ["clear >= 0.5"]}
    return Drawn({"a": (0.0, 1.0), "b": (0.0, 1.0)}, ("clear", "y"), truth, words, (0.2, 0.25))


def effects(draw: np.random.Generator, twin: bool) -> Drawn:
    """Two choices add their effects, and one pair does what no sum foretells."""
    first, second = draw.uniform(0, 0.2, 6), draw.uniform(0, 0.2, 4)
    pair = int(draw.integers(6)), int(draw.integers(4))

    def truth(x: Any) -> list[float]:
        i, j = int(str(x["ligand"])[1:]), int(str(x["salt"])[1:])
        extra = 0.4 if (i, j) == pair and not twin else 0.0
        return [first[i] + second[j] + extra + 0.1 * x["a"] * (1.5 - x["a"])]

    box = {
        "ligand": Choice(*(f"l{i}" for i in range(6))), "salt": Choice(*(f"k{i}" for i in range(4))), "a": (0.0, 1.0),
    }  # fmt: skip
    limit = first[pair[0]] + second[pair[1]] + 0.42 if not twin else 1.0
    return Drawn(box, ("y",), truth, {"maximize": "y", "subject_to": [f"y >= {limit:.4f}"]}, (0.2,))


def one_size(draw: np.random.Generator, twin: bool) -> Drawn:
    """Of listed sizes, one resonates."""
    sizes = [10, 15, 22, 28, 35, 42, 54, 76, 108]
    good = float(sizes[int(draw.integers(len(sizes)))])

    def truth(x: Any) -> list[float]:
        works = x["size"] == good and not twin
        return [(1.0 if works else 3.0) + 0.002 * x["size"] + 0.5 * (x["a"] - 0.4) ** 2]

    box = {"size": Levels(*sizes), "a": (0.0, 1.0)}
    return Drawn(box, ("noise",), truth, {"minimize": "size + 10*a", "subject_to": ["noise <= 2"]}, (0.3,))


def plateau(draw: np.random.Generator, twin: bool) -> Drawn:
    """An output stays at the wrong side of its limit but for a basin."""
    centre, width = draw.uniform(0.2, 0.8, 2), draw.uniform(0.12, 0.2)

    def truth(x: Any) -> list[float]:
        away = ((x["a"] - centre[0]) ** 2 + (x["b"] - centre[1]) ** 2) / width**2
        return [5.0 if twin else min(5.0, 1.0 + 4.0 * away)]

    words = {"minimize": "a + b", "subject_to": ["loss <= 3"]}
    return Drawn({"a": (0.0, 1.0), "b": (0.0, 1.0)}, ("loss",), truth, words, (1.0,))


def behind(draw: np.random.Generator, twin: bool) -> Drawn:
    """The settings that meet the limit lie behind a strip where evaluations fail."""
    start, slope = draw.uniform(0.45, 0.6), draw.uniform(-0.2, 0.2)

    def truth(x: Any) -> list[float]:
        along = x["a"] + slope * (x["b"] - 0.5)
        if start < along < start + 0.15:
            raise EvaluationError("no convergence")
        return [0.9 - 0.2 * x["b"] if along > start and not twin else 0.2 + 0.1 * x["a"] + 0.05 * x["b"]]

    words = {"maximize": "y", "subject_to": ["y >= 0.6"]}
    return Drawn({"a": (0.0, 1.0), "b": (0.0, 1.0)}, ("y",), truth, words, (0.1,))


def one_by_one(draw: np.random.Generator, twin: bool) -> Drawn:
    """Each label meets one of two limits, and one of them both."""
    m = int(draw.choice([8, 16, 24]))
    good = int(draw.integers(m))

    def truth(x: Any) -> list[float]:
        number = int(str(x["resin"])[1:])
        both = number == good and not twin
        return [0.8 if both or number % 2 else 0.3, 0.2 if both or not number % 2 else 0.7 + 0.1 * x["a"]]

    box = {"resin": Choice(*(f"r{i}" for i in range(m))), "a": (0.0, 1.0)}
    words = {"maximize": "purity - 0.1*a", "subject_to": ["purity >= 0.6", "loss <= 0.5"]}
    return Drawn(box, ("purity", "loss"), truth, words, (0.3, 0.3))


def fragile(draw: np.random.Generator, twin: bool) -> Drawn:
    """Most of the box fails, the rest is saturated but for a corner."""
    corner = draw.uniform(0.3, 0.4, 2)

    def truth(x: Any) -> list[float]:
        if x["a"] < 0.5 and x["b"] < 0.5 and not (x["a"] < corner[0] and x["b"] < corner[1]):
            raise EvaluationError("no convergence")
        inside = x["a"] < corner[0] and x["b"] < corner[1] and not twin
        return [10.0 * (x["a"] + x["b"]) if inside else 20.0]

    words = {"maximize": "a + b", "subject_to": ["p <= 15"]}
    return Drawn({"a": (0.0, 1.0), "b": (0.0, 1.0)}, ("p",), truth, words, (2.0,))


def differing(draw: np.random.Generator, twin: bool) -> Drawn:
    """All labels differ, and the best of them alone is good enough."""
    m = int(draw.choice([10, 16, 24]))
    effect = draw.uniform(0.0, 0.4, m)
    effect[int(draw.integers(m))] = 0.3 if twin else 0.8

    def truth(x: Any) -> list[float]:
        return [effect[int(str(x["enzyme"])[1:])] - 0.2 * (x["pH"] - 7.0) ** 2 / 4]

    box = {"enzyme": Choice(*(f"e{i}" for i in range(m))), "pH": (5.0, 9.0)}
    return Drawn(box, ("rate",), truth, {"maximize": "rate", "subject_to": ["rate >= 0.6"]}, (0.3,))


def enclosed(draw: np.random.Generator, twin: bool) -> Drawn:
    """The settings that meet the limit lie amid those that fail, and elsewhere the output is foretold without error."""
    centre, radius = draw.uniform(0.4, 0.6, 2), draw.uniform(0.15, 0.2)

    def truth(x: Any) -> list[float]:
        away = math.hypot(x["a"] - centre[0], x["b"] - centre[1])
        if radius < away < radius + 0.25:
            raise EvaluationError("no convergence")
        return [0.9 if away <= radius and not twin else 0.2 + 0.1 * x["a"] + 0.05 * x["b"]]

    return Drawn(
        {"a": (0.0, 1.0), "b": (0.0, 1.0)}, ("y",), truth, {"maximize": "y", "subject_to": ["y >= 0.6"]}, (0.1,)
    )


def freezing(draw: np.random.Generator, twin: bool) -> Drawn:
    """The one solvent that works freezes at most temperatures."""
    m = int(draw.choice([5, 8, 12]))
    good, melts = f"s{draw.integers(m)}", draw.uniform(65, 82)

    def truth(x: Any) -> list[float]:
        if x["solvent"] == good and x["T"] < melts:
            raise EvaluationError("solid")
        return [0.8 if x["solvent"] == good and not twin else 0.1 + 2e-4 * (x["T"] - 50)]

    box = {"solvent": Choice(*(f"s{i}" for i in range(m))), "T": (50.0, 90.0)}
    return Drawn(box, ("yld",), truth, {"maximize": "yld", "subject_to": ["yld >= 0.5"]}, (0.1,))


KINDS = {
    "screen": screen, "residue": residue, "pairs": pairs, "saturated": saturated, "yes or no": yes_or_no,
    "effects": effects, "one size": one_size, "plateau": plateau, "behind": behind, "one by one": one_by_one,
    "fragile": fragile, "differing": differing,
    "enclosed": enclosed, "freezing": freezing,
}  # fmt: skip


# --- One run ----------------------------------------------------------------------------------------------------------


def drawn(task: Task) -> Drawn:
    """Return the problem of a task."""
    draw = np.random.default_rng([task.seed, list(KINDS).index(task.kind)])
    return KINDS[task.kind](draw, task.twin)


def meets(problem: Problem, x: Any, y: np.ndarray) -> bool:
    """Whether settings with these outputs meet all limits."""
    values = problem.g(np.array([problem.codes(x)]), y[None, None])
    return all(float(np.ravel(value)[0]) >= 0 for value in values[1:])


def work(task: Task) -> dict[str, Any]:
    """Perform a run until settings that truly meet the limits are measured, a verdict falls or the budget is spent."""
    began = time.process_time()
    made, errors = drawn(task), np.random.default_rng(task.seed)
    problem = Problem(made.variables, list(made.outputs), noise=None if task.is_noisy else 0, **made.words)
    study = Study(problem, seed=task.seed)
    found = None
    while study.used < BUDGET and study.status is Status.RUNNING and found is None:
        trials = [study.ask() for _ in range(task.batch)]
        for trial in trials:
            try:
                y = np.array(made.truth(trial.x))
            except EvaluationError as error:
                study.fail(trial, str(error))
                continue
            found = study.used if found is None and meets(problem, trial.x, y) else found
            noise = NOISE * np.array(made.sizes) * errors.standard_normal(len(y)) if task.is_noisy else 0.0
            study.tell(trial, (y + noise).tolist(), anyway=True)
    declared = study.used if study.status is Status.INFEASIBLE else None
    seconds = round(time.process_time() - began, 2)
    return {"task": asdict(task), "found": found, "declared": declared, "used": study.used, "seconds": seconds}


# --- Many runs --------------------------------------------------------------------------------------------------------


def tasks(kinds: Sequence[str], first: int, seeds: int) -> list[Task]:
    """Return all tasks, ordered by seed."""
    return [
        Task(kind, seed, twin)
        for seed in range(first, first + seeds)
        for kind in kinds
        for twin in ([False, True] if seed % TWINS_EVERY == 0 else [False])
    ]


def page(records: Sequence[Mapping[str, Any]]) -> str:
    """Return the table."""
    rows = []
    for kind in KINDS:
        mine = [each for each in records if each["task"]["kind"] == kind]
        good, twins = ([each for each in mine if each["task"]["twin"] is twin] for twin in (False, True))
        ends = [each["declared"] for each in twins]
        said = [each for each in ends if each is not None]
        rows.append(
            [
                kind + (" *" if kind in FROZEN else ""),
                str(len(good)),
                str(sum(each["declared"] is not None for each in good)),
                str(sum(each["found"] is not None for each in good)),
                report.count(report.quantile([each["found"] for each in good], 0.5)),
                f"{len(said)} of {len(twins)}",
                report.count(report.quantile(said, 0.5)) if said else "-",
            ]
        )
    head = ["kind", "runs", "called infeasible", "found", "median evaluations", "twins declared", "after"]
    total = sum(int(row[1]) for row in rows), sum(int(row[2]) for row in rows)
    return (
        "\n\n".join(
            [
                report.heading("Verdicts where something was never tried", records),
                f"{total[1]} of {total[0]} runs of problems with settings that meet the limits ended in INFEASIBLE (0 "
                f"wanted). Budget {BUDGET}; every second run with noise, every third in batches of four; 'found': "
                "settings that truly meet the limits were measured. Twins have no such settings. *: kinds for counting "
                "alone.",
                report.table(head, rows),
            ]
        )
        + "\n"
    )


def main(words: Sequence[str] | None = None) -> str:
    """Run the command line and return the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kinds", nargs="+", choices=list(KINDS), default=list(KINDS), help="default all")
    parser.add_argument("--first", type=int, default=0, help="the first seed; default 0")
    parser.add_argument("--seeds", type=int, default=168, help="how many; default 168")
    parser.add_argument(
        "--workers", "--jobs", type=int, default=report.cores(), help="processes; default all processors"
    )
    parser.add_argument("--limit", type=float, default=math.inf, help="seconds after which nothing new is begun")
    parser.add_argument("--out", type=Path, default=report.RESULTS / "untried.jsonl", help="records, appended")
    parser.add_argument("--table", type=Path, help="file of the report; by default that of the records, as .md")
    given: Any = parser.parse_args(words)
    records = report.read(given.out)
    done = {report.key(each["task"]) for each in records}
    todo = [each for each in tasks(given.kinds, given.first, given.seeds) if report.key(asdict(each)) not in done]
    end, origin = time.time() + given.limit, report.made()
    given.out.parent.mkdir(parents=True, exist_ok=True)
    with given.out.open("a") as file, ProcessPoolExecutor(given.workers, mp_context=get_context("spawn")) as pool:
        waiting = [pool.submit(work, task) for task in todo]
        for each in as_completed(waiting):
            if each.cancelled():
                continue
            record = {**each.result(), "made": origin}
            records.append(record)
            print(json.dumps(record), file=file, flush=True)
            if time.time() > end:
                pool.shutdown(wait=False, cancel_futures=True)
                break
    print(f"{len(records)} records", file=sys.stderr)
    return report.published(records, page, given.table or given.out.with_suffix(".md"))


if __name__ == "__main__":
    main()
