"""Read the pages and records under benchmarks/results: tables, sentences, where they come from."""

import csv
import json
import math
import re
import statistics
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
DOCS = ROOT / "docs"
SAID = 0.9
"""The probability that bounds state in `honesty.md`."""
LEAST, LEAST_GAPS = 0.88, 0.95
"""How often bounds of 0.90 and gaps have to hold at least."""
PEERS = {"pied": "pied", "botorch": "BoTorch", "ax": "Ax", "optuna": "Optuna", "bofire": "BoFire", "baybe": "BayBE"}


def link(page: str) -> str:
    """A link to a result page, from docs/."""
    return f"[{page}](../benchmarks/results/{page})"


def tables(page: str, heading: str | None = None) -> list[list[list[str]]]:
    """The tables of a result page as rows of cells, of the last section of a heading if one is given.

    A page that was measured again has the section again, and the last is that of the latest code.
    """
    text = (RESULTS / page).read_text()
    if heading is not None:
        found = re.findall(rf"^#+ {re.escape(heading)}\n(.*?)(?=^#|\Z)", text, re.S | re.M)
        if not found:
            raise SystemExit(f"benchmarks/results/{page} has no section '{heading}'")
        text = found[-1]
    blocks = re.findall(r"(?:^\|.*\n?)+", text, re.M)
    return [
        [
            [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
            for line in block.splitlines()
            if not re.fullmatch(r"[|\s:-]+", line)
        ]
        for block in blocks
    ]


def read(page: str, pattern: str) -> tuple[str, ...]:
    """What a pattern finds in a result page; the page is the record, so a missing sentence is an error."""
    found = re.search(pattern, (RESULTS / page).read_text())
    if found is None:
        raise SystemExit(f"benchmarks/results/{page} no longer says '{pattern}'")
    return found.groups()


def columns(record: str) -> dict[str, list[float]]:
    """The columns of a record of numbers."""
    with (RESULTS / record).open() as file:
        rows = list(csv.DictReader(file))
    return {name: [float(row[name]) for row in rows] for name in rows[0]}


def leading(cell: str) -> float:
    """The number that a cell begins with."""
    found = re.match(r"[-\d.]+(?:e[-+]?\d+)?", cell)
    if found is None:
        raise SystemExit(f"'{cell}' does not begin with a number")
    return float(found[0])


def count(cell: str) -> tuple[int, int]:
    """The two numbers of 'a of b'."""
    found = re.match(r"(\d+) of (\d+)", cell)
    return (int(found[1]), int(found[2])) if found else (0, 0)


# --- What a study says, and what is true (honesty.md) -----------------------------------------------------------------


def honesty(first_head: str, section: str = "Honesty") -> list[dict[str, str]]:
    """The rows of the table with a column of this name, in the latest section of `honesty.md` with this heading."""
    heads, *rows = next(table for table in tables("honesty.md", section) if first_head in table[0])
    return [dict(zip(heads, row, strict=True)) for row in rows]


def bounds_by_kind(noise: str) -> dict[str, float]:
    """How often the true objective and limits were inside their bounds at proposals, by kind of problem, best first."""
    found = {
        row["kind"]: share
        for row in honesty("objective, later")
        if row["noise"] == noise and "all" not in row["kind"] and (share := _inside(row, "objective", "limits"))
    }
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def _inside(row: dict[str, str], *whats: str) -> float | None:
    """The share of bounds at proposals that held, the first ten and later ones together; None where there were none."""
    later = {"outputs": "later"}  # its heading is the first of three
    cells = [row[head] for what in whats for head in (f"{what}, first ten", later.get(what, f"{what}, later"))]
    pairs = [re.fullmatch(r"([\d.]+) \((\d+)\)", cell) for cell in cells]
    counted = [(float(each[1]), int(each[2])) for each in pairs if each is not None]
    return sum(part * of for part, of in counted) / sum(of for _, of in counted) if counted else None


def kinds() -> list[list[str]]:
    """What held in the latest section of `honesty.md`: a row for each set, and for each kind that fell short of it."""
    bounds, worth = (
        {(r["set"], r["kind"], r["noise"]): r for r in honesty(h)} for h in ("outputs, first ten", "to 1e-02")
    )
    named = [(group, kind) for group, kind, noise in bounds if noise == "exact"]
    wholes = [(group, "**all**") for group in ("paper", "draws", "rough", "failing")]
    single = [each for group in ("draws", "rough") for each in named if each[0] == group and "all" not in each[1]]
    short = [each for each in single if _falls_short(_shares(bounds, worth, *each))]
    return [[_title(*each), *_cells(_shares(bounds, worth, *each))] for each in (*wholes, *short)]


def _title(group: str, kind: str) -> str:
    """What a row is called."""
    titles = {
        "paper": "four of the paper",
        "draws": "random ones of nine kinds",
        "rough": "eight rough ones",
        "failing": "these, where a quarter of the box fails",
    }
    return f"**{titles[group]}**" if "all" in kind else f"random: {kind}" if group == "draws" else kind


def _shares(
    bounds: dict[Any, dict[str, str]], worth: dict[Any, dict[str, str]], group: str, kind: str
) -> list[list[float | None]]:
    """What held, exact and with noise: outputs, functions, recommendations, gaps; then how many gaps were told."""
    keys = [(group, kind, noise) for noise in ("exact", "constant")]
    outputs, functions = (
        [_inside(bounds[key], *some) for key in keys] for some in (["outputs"], ["objective", "limits"])
    )
    gaps = []
    for key in keys:
        counts = [count(cell) for head, cell in worth[key].items() if head.startswith("gap covers")]
        gaps.append(sum(held for held, _ in counts) / sum(of for _, of in counts))
    told = [count(worth[key]["gaps told at the end"]) for key in keys]
    recommended = leading(bounds[keys[1]]["recommended"])
    return [outputs, functions, [recommended], gaps, [part / whole for part, whole in told]]


def _falls_short(shares: list[list[float | None]]) -> bool:
    """Whether bounds or gaps hold less often than is wanted."""
    *bounds, gaps, _ = shares
    least = [part for parts in bounds for part in parts if part is not None]
    return min(least) < LEAST or min(part for part in gaps if part is not None) < LEAST_GAPS


def _cells(shares: list[list[float | None]]) -> list[str]:
    """Each share as a cell, exact and, after a stroke, with noise."""
    return [" / ".join("-" if part is None else f"{part:.2f}" for part in parts) for parts in shares]


def limits_that_hold() -> str:
    """How many of the limits stated with 93 to 97 % truly hold at recommendations with constant noise, by set."""
    held = {
        r["set"]: r["0.93 .. 0.97"] for r in honesty("0.93 .. 0.97") if "all" in r["kind"] and r["noise"] == "constant"
    }
    words = {"paper": "the paper's problems", "draws": "random ones", "rough": "rough ones"}
    return ", ".join(f"{100 * leading(held[name]):.0f} % ({title})" for name, title in words.items())


# --- Other libraries (peers.json) -------------------------------------------------------------------------------------


def _peer_runs() -> list[dict[str, Any]]:
    """The runs of all libraries, but for those that were not installed."""
    runs = json.loads((RESULTS / "peers.json").read_text())["runs"]
    return [each for each in runs if each["ended"] != "absent" and each["seconds"]]


def evaluations(library: str, problem: str, tolerance: float) -> float | None:
    """Median evaluations of a library to a tolerance, infinite if not within the budget; nothing if it was not run."""
    found = []
    for run in _peer_runs():
        if (run["library"], run["problem"]) == (library, problem) and "regrets" in run:
            hits = (n for n, regret in enumerate(run["regrets"], 1) if regret is not None and regret <= tolerance)
            found.append(next(hits, math.inf))
    return statistics.median_high(found) if found else None


def best_regret(library: str, problem: str) -> float | None:
    """Median over the runs of a library of the least regret of each, as far as it ran; nothing if it was not run."""
    found = [
        min((regret for regret in run["regrets"] if regret is not None), default=math.inf)
        for run in _peer_runs()
        if (run["library"], run["problem"]) == (library, problem) and "regrets" in run
    ]
    return statistics.median_high(found) if found else None


def peer_problems() -> list[str]:
    """The problems of the comparison that have a solution."""
    return list(dict.fromkeys(each["problem"] for each in _peer_runs() if "regrets" in each))


def solved_by_peers(tolerance: float) -> str:
    """How many problems each library solved to a tolerance, in the median of its runs."""
    words, wanted = [], len(peer_problems())
    for library, title in PEERS.items():
        found = [evaluations(library, each, tolerance) for each in peer_problems()]
        run = [each for each in found if each is not None]
        cut = sum(e["ended"] == "limit" for e in _peer_runs() if e["library"] == library and "regrets" in e)
        solved = sum(math.isfinite(each) for each in run)
        remarks = [f"{len(run)} run"] * (len(run) < wanted) + [f"{cut} runs cut off"] * (cut > 0)
        words.append(f"{title} {solved}" + f" ({', '.join(remarks)})" * bool(remarks))
    return ", ".join(words)
