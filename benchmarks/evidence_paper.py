"""The tables of docs/reproduction.md, from the page of the complete runs (benchmarks/results/paper/paper.md)."""

import re

from records import leading, tables

PAGE = "paper/paper.md"
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
    ):
        begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
        before, rest = text.split(begin)
        lines = ["| " + " | ".join(row) + " |" for row in (rows[0], ["---"] * len(rows[0]), *rows[1:])]
        text = "\n".join([before + begin, *lines, end + rest.split(end)[1]])
    return text


def _of(heading: str) -> dict[str, dict[str, str]]:
    """The first table of a section: by solver or acquisition, what stands under each head."""
    head, *rows = tables(PAGE, heading)[0]
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
