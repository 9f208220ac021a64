"""The tables of docs/reproduction.md, from the page of the complete runs (results/paper/paper.md) and from records.

The records of runs in the authors' own setting, and in that of the paper, are beside it as files of
`python -m pied.bench.away`.
"""

import re
from functools import lru_cache
from statistics import median

import numpy as np
from numpy import ndarray
from records import RESULTS, columns, leading, tables

from pied.bench.away import lines
from pied.bench.plan import Task
from pied.bench.runs import truth_for

PAGE = "paper/paper.md"
SETTING = "paper-setting/paper.md"
CALLED = {
    "cuqb": "`cuqb`",
    "cuqb-paper": "CUQB",
    "eic-cf-paper": "EIC-CF",
    "epbo-paper": "EPBO",
    "eic-paper": "EIC",
    "bobyqa-paper": "BOBYQA",
    "direct-paper": "DIRECT",
    "snobfit-paper": "SNOBFIT",
    "cma-es-paper": "CMA-ES",
}
"""What the solvers are called there, in the order of the tables."""
REGRETS = {
    "environmental": "Environmental model: simple penalized regret",
    "Williams-Otto": "Williams-Otto, no noise: simple penalized regret",
}


def filled(text: str) -> str:
    """Return the page with its tables as the runs have them."""
    for name, rows in (
        ("solved", _solved()),
        ("distances", _distances()),
        ("regrets", _regrets()),
        ("noise", _noise()),
        ("authors", _authors()),
        ("setting", _setting()),
    ):
        begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
        before, rest = text.split(begin)
        lines = ["| " + " | ".join(row) + " |" for row in (rows[0], ["---"] * len(rows[0]), *rows[1:])]
        text = "\n".join([before + begin, *lines, end + rest.split(end)[1]])
    return text


def _of(heading: str, page: str = PAGE) -> dict[str, dict[str, str]]:
    """The first table of a section: by solver or acquisition, what stands under each head."""
    head, *rows = tables(page, heading)[0]
    return {row[0].strip("`"): dict(zip(head, row, strict=True)) for row in rows}


def _solved() -> list[list[str]]:
    """Problems solved, of ten."""
    free, held = _of("Profiles: unconstrained"), _of("Profiles: constrained")
    rows = [["of 10 problems", "unconstrained", "constrained", "constrained, to 1e-4"]]
    return rows + [
        [name, free[key]["strict, 1e-2"], held[key]["strict, 1e-2"], held[key]["strict, 1e-4"]]
        for key, name in CALLED.items()
    ]


def _distances() -> list[list[str]]:
    """How far the maximizers of acquisitions are from the nearest optimum."""
    found = _of("Illustration: posteriors and acquisition functions")
    heads = list(next(iter(found.values())))
    return [heads, *[list(row.values()) for row in found.values()]]


def _regrets() -> list[list[str]]:
    """Median regrets without noise."""
    found = {name: _of(heading) for name, heading in REGRETS.items()}
    return [
        ["solver", *found],
        *[[name, *[" / ".join(_medians(rows[key])) for rows in found.values()]] for key, name in CALLED.items()],
    ]


def _noise() -> list[list[str]]:
    """Median regrets at the end with noise, naive and proposed recommender."""
    rows = [["solver", "sigma 0.01", "sigma 0.05"]]
    found = {
        (sigma, rule): _of(f"Williams-Otto, sigma = {sigma}, {rule} recommender")
        for sigma in ("0.01", "0.05")
        for rule in ("naive", "proposed")
    }
    for key, name in CALLED.items():
        cells = [
            ", ".join(_medians(found[s, rule][key])[-1] for rule in ("naive", "proposed")) for s in ("0.01", "0.05")
        ]
        rows.append([name, *cells])
    return rows


def _medians(row: dict[str, str]) -> list[str]:
    """The medians of a row, without their quartiles, as short as they can be."""
    cells = [cell for head, cell in row.items() if head.startswith("regret")]
    return [re.sub(r"e-0", "e-", f"{float(f'{leading(cell):.0e}'):g}") for cell in cells]


@lru_cache(maxsize=2)
def _runs(record: str) -> tuple[tuple[Task, ndarray, ndarray], ...]:
    """The runs of a record: the true functions at every evaluation, and whether it is strictly feasible."""
    found = []
    for each in lines(RESULTS / record):
        task, X = Task.from_data(each["task"]), np.array(each["x"])
        benchmark = truth_for(task)
        found.append((task, benchmark.truth(X), benchmark.is_strictly_feasible(X)))
    return tuple(found)


def _authors() -> list[list[str]]:
    """The best value so far in the authors' setting: their ten runs, and ours by way of choosing starts."""
    theirs = columns("authors.csv")
    at = ["5", "10", "20", "30", "40", "60", "100"]
    runs = {"the authors' ten runs": np.array([theirs[name] for name in at]).T}
    labels = {
        "cuqb-paper": "`CUQB.paper()`",
        "cuqb-paper, best start": "the same, with the best screened point as a start",
    }
    for label, name in labels.items():
        best = [np.maximum.accumulate(f[:, 0]) for task, f, _ in _runs("authors.jsonl.gz") if task.solver_name == label]
        runs[f"{name}, {len(best)} seeds"] = np.array([[each[int(t) - 1] for t in at] for each in best])
    rows = [["median best value after", *at, "in the best basin after 40", "after 100"]]
    for name, values in runs.items():
        near = [f"{int((values[:, at.index(t)] > 352.495 - 1.0).sum())} of {len(values)}" for t in ("40", "100")]
        rows.append([name, *(f"{median(column):.1f}" for column in values.T), *near])
    return rows


def _setting() -> list[list[str]]:
    """The constrained problems in the paper's setting: solved of ten, and by the paper's own test."""
    found = _of("Profiles: constrained", SETTING)
    rows = [["of 10 problems", "to 1e-2", "to 1e-4", "feasible sample", "the paper's test at 25 / 100"]]
    tests = [(task.solver_name, task.problem, fine.any()) for task, _, fine in _runs("setting.jsonl.gz")]
    for key, name in {**CALLED, "merit-quantile-paper": "the authors' scripts"}.items():
        feasible = [any_ for solver, _, any_ in tests if solver == key]
        row = found[key]
        share = f"{10 * float(np.mean(feasible)):.1f}"
        rows.append([name, row["strict, 1e-2"], row["strict, 1e-4"], share, row["paper's test at 25 / 100"]])
    return rows
