"""What every benchmark table has in common: who made it, how numbers are condensed, how they are written.

Medians and quartiles are order statistics, the worse one where the exact place falls between two: no average with a run
that found nothing can hide it.
"""

import hashlib
import json
import math
import os
import platform
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from importlib import metadata
from pathlib import Path
from typing import Any

import pied

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
NOTHING = 1e-12
"""A normalized regret below this is shown as '~0': rounding, or a point that uses the tolerance of feasibility."""

Record = Mapping[str, Any]


# --- Who made it ------------------------------------------------------------------------------------------------------


def made() -> dict[str, str]:
    """Return what a reader needs to make the same table again: version, code, command, machine, date."""
    return {
        "version": pied.__version__,
        "commit": commit(),
        "code": code(),
        "command": command(sys.argv),
        "machine": machine(),
        "date": date.today().isoformat(),
    }


def commit() -> str:
    """Return the short commit, with '+' when the package or the benchmarks were changed since."""
    try:
        name = _git("rev-parse", "--short", "HEAD")
        return name + ("+" if _git("status", "--porcelain", "--", "src", "benchmarks/*.py") else "")
    except (OSError, subprocess.CalledProcessError):
        return "none"


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def code() -> str:
    """Return a fingerprint of the package's source, so that results of different code are never mixed unseen."""
    package = Path(pied.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        digest.update(path.relative_to(package).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:8]


def command(words: Sequence[str]) -> str:
    """Return a command line without the folders of this machine."""
    script, *rest = words or [""]
    shown = [Path(word).name if "/" in word else word for word in rest]
    quoted = [f"'{word}'" if set(word) & set(" '\"()") else word for word in shown]
    return " ".join(["python", f"benchmarks/{Path(script).name}", *quoted])


def machine() -> str:
    """Return the kind of machine: cores, processor, and the versions of what the time depends on."""
    kind = platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        named = [line for line in info.read_text().splitlines() if line.startswith("model name")]
        kind = named[0].split(":", 1)[1].strip() if named else kind
    versions = f"Python {platform.python_version()}, torch {metadata.version('torch').split('+')[0]}"
    return f"{cores()} cores, {kind}; {versions}"


def cores() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def heading(title: str, records: Iterable[Record], *, level: int = 1) -> str:
    """Return a title and who made the records, as they themselves say."""
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
        f"- seeds: {_numbers(seeds)}",
        f"- machine: {all_of('machine', ' / ')}",
        f"- date: {all_of('date')}",
    ]
    return "\n".join(lines)


def _numbers(seeds: Sequence[int]) -> str:
    whole = len(seeds) > 2 and list(seeds) == list(range(seeds[0], seeds[-1] + 1))
    return f"{seeds[0]} to {seeds[-1]}" if whole else ", ".join(str(seed) for seed in seeds)


# --- Records ----------------------------------------------------------------------------------------------------------


def key(task: Mapping[str, Any]) -> str:
    """Return a text that is the same for the same task."""
    return json.dumps(task, sort_keys=True)


def read(path: Path) -> list[dict[str, Any]]:
    """Return the records of a file; a line that was cut off in the middle is left out."""
    records = []
    for line in path.read_text().splitlines() if path.exists() else ():
        try:
            records.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return records


def at(curve: Sequence[float | None], t: int) -> float:
    """Return a curve after t evaluations: the last value is carried forward, nothing yet is infinite."""
    value = curve[min(t, len(curve)) - 1] if curve else None
    return math.inf if value is None else value


def solved(records: Iterable[Record], tolerance: float, t: int, curve: str = "regret") -> float:
    """Return how many problems are solved: the sum over problems of the fraction of runs that got there."""
    runs: dict[str, list[bool]] = {}
    for record in records:
        runs.setdefault(record["task"]["problem"], []).append(at(record[curve], t) <= tolerance)
    return sum(sum(each) / len(each) for each in runs.values())


def quantile(values: Iterable[float | None], q: float) -> float:
    """Return an order statistic, the worse one between two; None counts as infinite, no values at all as NaN."""
    ordered = sorted(math.inf if value is None else value for value in values)
    return ordered[math.ceil(q * (len(ordered) - 1) - 1e-9)] if ordered else math.nan


def until(record: Record, tolerance: float) -> int | None:
    """Return after how many evaluations a run got below a normalized regret; None if it never did."""
    return next((t for t, value in enumerate(record["regret"], 1) if value is not None and value <= tolerance), None)


# --- Writing ----------------------------------------------------------------------------------------------------------


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return a markdown table."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join("| " + " | ".join(str(cell).replace("|", "/") for cell in line) + " |" for line in lines)


def small(value: float) -> str:
    """Write a regret."""
    if math.isnan(value):
        return "-"
    return "none" if math.isinf(value) else "~0" if value < NOTHING else f"{value:.0e}"


def count(value: float) -> str:
    """Write a number of evaluations or seconds."""
    return "-" if math.isnan(value) else "never" if math.isinf(value) else f"{value:.3g}"


def spread(values: Iterable[float | None], write: Any = small) -> str:
    """Write median and quartiles."""
    values = list(values)
    low, middle, high = (write(quantile(values, q)) for q in (0.25, 0.5, 0.75))
    return middle if low == middle == high else f"{middle} ({low} .. {high})"
