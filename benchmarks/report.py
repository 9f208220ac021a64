"""Shared by all benchmark tables: their origin, order statistics, and formats.

Medians and quartiles are order statistics, the worse of two neighbours without interpolation, so that a run without a
result is not averaged away.
"""

import json
import math
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pied.bench import origin
from pied.bench.origin import code as code
from pied.bench.origin import cores as cores
from pied.bench.pages import count as count
from pied.bench.pages import numbers
from pied.bench.pages import small as small
from pied.bench.pages import table as table

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"

Record = Mapping[str, Any]


# --- Origin -----------------------------------------------------------------------------------------------------------


def made() -> dict[str, str]:
    """Return what is needed to reproduce a table: version, code, command, machine, date."""
    return {**origin.made(), "commit": commit(), "command": command(sys.argv)}


def commit() -> str:
    """Return the short commit, with '+' if the package or the benchmarks were changed since."""
    try:
        name = _git("rev-parse", "--short", "HEAD")
        return name + ("+" if _git("status", "--porcelain", "--", "src", "benchmarks/*.py") else "")
    except (OSError, subprocess.CalledProcessError):
        return "none"


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def command(words: Sequence[str]) -> str:
    """Return a command line without the folders of this machine."""
    script, *rest = words or [""]
    shown = [Path(word).name if "/" in word else word for word in rest]
    quoted = [f"'{word}'" if set(word) & set(" '\"()") else word for word in shown]
    return " ".join(["python", f"benchmarks/{Path(script).name}", *quoted])


def heading(title: str, records: Iterable[Record], *, level: int = 1) -> str:
    """Return a title and the origin of the results."""
    records = list(records)
    origins = [record["made"] for record in records if "made" in record] or [made()]

    def all_of(name: str, join: str = "; ") -> str:
        return join.join(dict.fromkeys(str(origin[name]) for origin in origins))

    seeds = sorted({record["task"]["seed"] for record in records})
    lines = [
        f"{'#' * level} {title}",
        "",
        f"- version {all_of('version')}, commit {all_of('commit')}, code {all_of('code')}",
        *(f"- command: `{each}`" for each in dict.fromkeys(origin["command"] for origin in origins)),
        f"- seeds: {numbers(seeds)}",
        f"- machine: {all_of('machine', ' / ')}",
        f"- date: {all_of('date')}",
    ]
    return "\n".join(lines)


# --- Records ----------------------------------------------------------------------------------------------------------


def key(task: Mapping[str, Any]) -> str:
    """Return a text that is the same for the same task."""
    return json.dumps(task, sort_keys=True)


def read(path: Path) -> list[dict[str, Any]]:
    """Return the lines of a file as data; an incomplete line is skipped."""
    records = []
    for line in path.read_text().splitlines() if path.exists() else ():
        try:
            records.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return records


def at(curve: Sequence[float | None], t: int) -> float:
    """Return a curve after t evaluations; the last value is carried forward, an empty curve is infinite."""
    value = curve[min(t, len(curve)) - 1] if curve else None
    return math.inf if value is None else value


def solved(records: Iterable[Record], tolerance: float, t: int, curve: str = "regret") -> float:
    """Return how many problems are solved: the sum over problems of the fraction of runs that solve it."""
    runs: dict[str, list[bool]] = {}
    for record in records:
        runs.setdefault(record["task"]["problem"], []).append(at(record[curve], t) <= tolerance)
    return sum(sum(each) / len(each) for each in runs.values())


def quantile(values: Iterable[float | None], q: float) -> float:
    """Return an order statistic, the worse of two neighbours; None counts as infinite, no values as NaN."""
    ordered = sorted(math.inf if value is None else value for value in values)
    return ordered[math.ceil(q * (len(ordered) - 1) - 1e-9)] if ordered else math.nan


def until(record: Record, tolerance: float) -> int | None:
    """Return after how many evaluations a run got below a normalized regret; None if it never did."""
    return next((t for t, value in enumerate(record["regret"], 1) if value is not None and value <= tolerance), None)


# --- Writing ----------------------------------------------------------------------------------------------------------


def spread(values: Iterable[float | None], write: Any = small) -> str:
    """Write median and quartiles."""
    values = list(values)
    low, middle, high = (write(quantile(values, q)) for q in (0.25, 0.5, 0.75))
    return middle if low == middle == high else f"{middle} ({low} .. {high})"


def published(records: Sequence[Record], page: Callable[[Sequence[Record]], str], target: Path) -> str:
    """Write the page of some records to a file and to the terminal; return it."""
    if not records:
        raise SystemExit("There are no records to report on.")
    text = page(records)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text)
    print(text)
    return text
