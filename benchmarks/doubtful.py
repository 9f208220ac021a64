"""Which gross errors a study asks about, and how often it asks about honest measurements.

    PYTHONPATH=src python3 benchmarks/doubtful.py --limit 400 --out doubtful.jsonl.gz      # until none is left
    python benchmarks/doubtful.py --out doubtful.jsonl.gz --report

Records as laboratories have them: a design over the box, then measurements around the best settings, ever closer. They
are added to a study, which is then asked for `result().doubtful`. Problems are random ones, smooth and rough kinds, and
the fixed ones with rough outputs; outputs are exact or have normal noise of 2 % of their spread, which is learned. Each
record is told twice: as it is, and with gross errors of ten such deviations: 5 % of the values, one of an exact output.
A record of the other kind, 'repeated', has three measurements at each of its settings.
"""

import slices  # first: see there

# isort: split
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import runner
from numpy import ndarray

from pied import suite
from pied.records.trial import spread
from pied.rng import Stream
from pied.study import Study
from pied.suite import Benchmark

KINDS = (*suite.rough_kinds, "gp", "polynomial", "steep")
NOISES = ("normal", "exact", "repeated")
SIGMA = 0.02
"""Noise in spreads of each output over the box."""
GROSS = 10.0
"""Size of a gross error, in deviations of the noise; of an exact output, of the noise that it would have."""
SHARE = 0.05
"""Share of the values of a noisy output with a gross error."""
CLOSE = (0.3, 0.5, 0.7)
"""Share of the measurements around the best settings, by the seed."""
FIRST, SHRINKS, LEAST = 0.1, 0.75, 0.005
"""Deviation of the first of them from the best settings, factor from one to the next, and the least with noise."""
REPEATS = 3
POOL = 1024
"""Points from which the spread of an output over the box is computed."""


def items_of(seeds: int, noises: Sequence[str]) -> list[slices.Item]:
    """Return every record, seed by seed."""
    made = []
    for seed in range(seeds):
        named = [*((kind, f"{seed}:{kind}") for kind in KINDS), *((name, name) for name in suite.sets["rough"])]
        for (kind, problem), noise, gross in itertools.product(named, noises, (False, True)):
            made.append({"kind": kind, "problem": problem, "noise": noise, "gross": gross, "seed": seed})
    return slices.ordered(made)


def benchmark_of(problem: str) -> Benchmark:
    """Return a problem by its name, or a random one by its seed and kind, whose optimum is not needed."""
    return runner.benchmark_of(f"draw:{problem}" if ":" in problem else problem).told("full")


def points_of(benchmark: Benchmark, noise: str, seed: int) -> tuple[ndarray, int]:
    """Return the settings of a record in the unit cube, and how many of them are a design."""
    d, stream = benchmark.whole.d, Stream(seed).at("doubtful", benchmark.name)
    count = 16 + 8 * d
    design = round((1 - CLOSE[seed % len(CLOSE)]) * count)
    U = stream.at("design").sobol(design, d)
    f = benchmark.truth(U, unit=True)
    broken = (f[:, 1:] < -1e-9 * benchmark.scales[1:]).sum(1)
    best = U[np.lexsort((-f[:, 0], broken))[0]]
    size = FIRST * SHRINKS ** np.arange(count - design)
    size = size if noise == "exact" else np.maximum(size, LEAST)
    around = np.clip(best + size[:, None] * stream.at("around").normal(count - design, d), 0.0, 1.0)
    whole = np.concatenate([U, around])
    return (np.repeat(whole[: count // REPEATS], REPEATS, 0), design) if noise == "repeated" else (whole, design)


def run(item: slices.Item) -> dict[str, Any]:
    """Ask a study about one record; return what it doubts and what is a gross error, as [row, output]."""
    benchmark = benchmark_of(item["problem"])
    whole, stream = benchmark.whole, Stream(item["seed"]).at("doubtful", benchmark.name)
    U, design = points_of(benchmark, item["noise"], item["seed"])
    X = benchmark.settable(whole.from_unit(U))
    Y = benchmark.outputs(X)
    sigma = SIGMA * spread(benchmark.outputs(whole.from_unit(Stream(0).at("noise").sobol(POOL, whole.d))))
    is_exact = item["noise"] == "exact"
    if not is_exact:
        Y = Y + sigma * stream.at("noise").normal(*Y.shape)
    gross = []
    if item["gross"]:
        for j in range(whole.m):
            count = 1 if is_exact else max(1, round(SHARE * len(Y)))
            order = np.argsort(stream.at("which", j).uniform(len(Y)))[:count]
            sides = np.where(stream.at("side", j).uniform(count) < 0.5, -1.0, 1.0)
            Y[order, j] += GROSS * sigma[j] * sides
            gross += [[int(row), j] for row in order]
    problem = whole.revised(noise=0 if is_exact else None)
    with Study(problem, seed=item["seed"]) as study:
        for x, y in zip(X, Y, strict=True):
            study.add(problem.named_x(x), problem.named_y(y), anyway=True, again=True)
        found = []
        for each in study.snapshot.doubtful:
            either = [[number - 1, problem.outputs.index(each.output)] for number in (each.trial, each.rival) if number]
            found.append(next((one for one in either if one in gross), either[0]))
    return {"found": found, "errors": gross, "design": design, "values": int(Y.size)}


# --- The page ---------------------------------------------------------------------------------------------------------


def row_of(name: str, noise: str, records: Sequence[dict[str, Any]]) -> list[str]:
    """Return a row of the table: false alarms of honest records, and what is found of gross errors."""
    own = [each for each in records if each["item"]["noise"] == noise and "found" in each]
    honest = [each for each in own if not each["item"]["gross"]]
    gross = [each for each in own if each["item"]["gross"]]
    alarms = sum(bool(each["found"]) for each in honest)
    errors = [(each, error) for each in gross for error in each["errors"]]
    hits = [(each, error) for each, error in errors if error in each["found"]]
    wrong = sum(found not in each["errors"] for each in gross for found in each["found"])
    close = [sum(error[0] >= each["design"] for each, error in part) for part in (hits, errors)]
    cells = [
        f"{alarms} of {len(honest)}",
        f"{len(hits)} of {len(errors)}",
        f"{100 * len(hits) / max(len(errors), 1):.0f} %",
    ]
    return [name, noise, *cells, "-" if noise == "repeated" else f"{close[0]} of {close[1]}", str(wrong)]


def page(records: Sequence[dict[str, Any]]) -> str:
    """Return the page of some records."""
    kinds = list(dict.fromkeys(each["item"]["kind"] for each in records))
    lines = [
        slices.heading("Doubtful: gross errors that a study asks about", records),
        "",
        "False alarms: honest records with any measurement called doubtful. Found: gross errors called doubtful; the "
        "same among the measurements around the best settings, which have neighbours. Wrong: honest measurements "
        "called doubtful in records with gross errors.",
        "",
        "| kind | noise | false alarms | gross errors found | share | around the best | wrong |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    rows = [row_of(kind, noise, [each for each in records if each["item"]["kind"] == kind]) for kind in kinds
            for noise in NOISES]  # fmt: skip
    rows += [row_of("**all**", noise, records) for noise in NOISES]
    rows = [row for row in rows if row[2] != "0 of 0"]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    lines += slices.troubles(records, ("kind", "problem", "noise", "gross", "seed"))
    return "\n".join(lines) + "\n"


def main(words: Sequence[str] | None = None) -> int | str:
    """Run the command line; return how many records are left, or the page."""
    parser = slices.parser(__doc__, out="doubtful.jsonl.gz", seeds=12)
    parser.add_argument("--noises", nargs="+", choices=NOISES, default=list(NOISES))
    given = parser.parse_args(words)
    if given.report:
        return slices.write(given, page, "doubtful.md")
    return slices.work_on(items_of(given.seeds, given.noises), run, given)


if __name__ == "__main__":
    main()
