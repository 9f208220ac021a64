"""Counts and tables of `honesty.py`, from its records alone."""

import slices  # first: see there

# isort: split
import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import report

Record = dict[str, Any]
FIRST = 10
"""Proposals that count as the first ones."""
STAGES = ("1/3", "1/2", "2/3", "end")
TOLERANCES = (1e-2, 1e-3, 1e-4, 1e-6)
STOP = 1e-3
"""Gap, in units from median to optimum, at which a user would stop."""
BINS = ((0.5, 0.8), (0.8, 0.93), (0.93, 0.97), (0.97, 0.99), (0.99, 1.0))
"""Bins of stated probabilities, upper ends included, that are compared with how often limits hold. Under noise a
recommendation often lies where a limit holds with just 0.95, so no bin ends there."""
NOTHING = 1e-7
"""A smaller shortfall counts as none: stated optima are correct to about 1e-8 of the same unit."""
STRICT = 1e-6
"""A limit broken by at most this, in its benchmark scale, is met."""


# --- Counts: how many hold, and how many were stated ------------------------------------------------------------------

Count = tuple[int, int]


def held(flags: Iterable[bool | None]) -> Count:
    """Return how many of the flags hold, and how many there are; None is no statement."""
    known = [flag for flag in flags if flag is not None]
    return sum(known), len(known)


def at_proposals(records: Iterable[Record], what: str, *, first: bool) -> Count:
    """Return how many bounds of 'outputs', 'objective' or 'limits' held at the first proposals, or at later ones."""
    flags: list[bool | None] = []
    for record in records:
        for proposal in record["proposals"][:FIRST] if first else record["proposals"][FIRST:]:
            said = proposal.get(what)
            flags += said if isinstance(said, list) else [said]
    return held(flags)


def at_recommendation(records: Iterable[Record]) -> Count:
    """Return how many bounds of objective and limits held at the recommendations of all stages."""
    return held(flag for said in _stages(records) for flag in said.get("inside", ()))


def _stages(records: Iterable[Record], *names: str) -> list[Record]:
    wanted = names or STAGES
    return [said for record in records for said in record["results"] if said["stage"] in wanted]


def calibration(records: Iterable[Record], low: float, high: float) -> Count:
    """Return how many limits held of those stated to hold with a probability above `low`, up to `high`."""
    return held(
        holds
        for record in records
        for said in record["results"]
        for stated, holds in said.get("probability", ())
        if low < stated <= high
    )


def loss(said: Record) -> float:
    """Return the shortfall of a recommendation, or by how much it breaks a limit if that is more."""
    if said.get("regret") is None:
        return math.inf
    broken = said["violation"] if said["violation"] > STRICT else 0.0
    return max(said["regret"], broken, 0.0)


def gap_covers(records: Iterable[Record], stage: str) -> Count:
    """Return at how many stages the gap was at least the true shortfall; no gap, or an infinite one, covers."""
    return held(
        said["gap"] is None or said["gap"] >= said["regret"] - NOTHING
        for said in _stages(records, stage)
        if said.get("regret") is not None
    )


def told_gaps(records: Iterable[Record], stage: str) -> Count:
    """Return at how many stages a finite gap was told."""
    return held(said["gap"] is not None for said in _stages(records, stage))


def wrong_stops(records: Iterable[Record]) -> Count:
    """Return how many runs would stop at a gap of `STOP` while the loss is larger, of those that would stop."""
    flags = []
    for record in records:
        first = next((said for said in record["results"] if said["gap"] is not None and said["gap"] <= STOP), None)
        flags.append(None if first is None else loss(first) > STOP)
    return held(flags)


def solved(records: Iterable[Record], tolerance: float) -> Count:
    """Return how many runs end with a recommendation of at most this loss."""
    return held(loss(record["results"][-1]) <= tolerance if record["results"] else False for record in records)


def fails(records: Iterable[Record]) -> Count:
    """Return how many recommendations of all stages are where evaluations fail, if any do."""
    return held(
        said.get("fails") for record in records if record["item"]["set"] == "failing" for said in _stages([record])
    )


# --- Tables -----------------------------------------------------------------------------------------------------------


def share(count: Count) -> str:
    """Write a share and of how many."""
    holds, whole = count
    return f"{holds / whole:.2f} ({whole})" if whole else "-"


def of(count: Count) -> str:
    """Write a number and of how many."""
    return f"{count[0]} of {count[1]}" if count[1] else "-"


COLUMNS: dict[str, Callable[[Sequence[Record]], str]] = {
    "runs": lambda runs: str(len(runs)),
    "outputs, first ten": lambda runs: share(at_proposals(runs, "outputs", first=True)),
    "later": lambda runs: share(at_proposals(runs, "outputs", first=False)),
    "objective, first ten": lambda runs: share(at_proposals(runs, "objective", first=True)),
    "objective, later": lambda runs: share(at_proposals(runs, "objective", first=False)),
    "limits, first ten": lambda runs: share(at_proposals(runs, "limits", first=True)),
    "limits, later": lambda runs: share(at_proposals(runs, "limits", first=False)),
    "recommended": lambda runs: share(at_recommendation(runs)),
}
"""Coverage of bounds of 0.90."""
WORTH: dict[str, Callable[[Sequence[Record]], str]] = {
    **{f"gap covers at {stage}": lambda runs, s=stage: of(gap_covers(runs, s)) for stage in STAGES},  # type: ignore[misc]
    "gaps told at the end": lambda runs: of(told_gaps(runs, "end")),
    "wrong stops": lambda runs: of(wrong_stops(runs)),
    **{f"to {each:.0e}": lambda runs, t=each: of(solved(runs, t)) for each in TOLERANCES},  # type: ignore[misc]
    "recommended, but fail": lambda runs: of(fails(runs)),
    "false verdicts": lambda runs: of(held(run["verdict"] is not None for run in runs)),
    "seconds": lambda runs: f"{report.quantile([run['seconds'] for run in runs], 0.5):.2f}",
}
PROBABILITIES: dict[str, Callable[[Sequence[Record]], str]] = {
    f"{low:g} .. {high:g}": lambda runs, low=low, high=high: share(calibration(runs, low, high))  # type: ignore[misc]
    for low, high in BINS
}


def grouped(records: Iterable[Record]) -> dict[tuple[str, str, str, str], list[Record]]:
    """Return the runs by set, kind, noise and start; runs that raised an error are left out."""
    groups: dict[tuple[str, str, str, str], list[Record]] = {}
    for record in records:
        if not record.get("error"):
            item = record["item"]
            groups.setdefault((item["set"], item["kind"], item["noise"], item["start"]), []).append(record)
    return dict(sorted(groups.items()))


def table(records: Sequence[Record], columns: dict[str, Callable[[Sequence[Record]], str]]) -> str:
    """Return a row for each set, kind, noise and start, and one for all of a set and noise."""
    groups = grouped(records)
    rows = [[*key, *(write(runs) for write in columns.values())] for key, runs in groups.items()]
    for group, noise in sorted({(key[0], key[2]) for key in groups}):
        runs = [run for key, some in groups.items() if (key[0], key[2]) == (group, noise) for run in some]
        rows.append([group, "**all**", noise, "all", *(write(runs) for write in columns.values())])
    return report.table(["set", "kind", "noise", "start", *columns], rows)


def verdicts_table(records: Sequence[Record]) -> str:
    """Return for each problem without a feasible point how many runs declared it, and after how many evaluations."""
    groups: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        groups.setdefault((record["item"]["problem"], record["item"]["noise"]), []).append(record)
    rows = []
    for (problem, noise), runs in sorted(groups.items()):
        counts = [run["verdict"] for run in runs]
        wanted = 3 * runs[0]["d"] + (25 if noise == "exact" else 30)
        early = sum(count is not None and count <= wanted for count in counts)
        middle = report.spread(counts, lambda value: "-" if math.isinf(value) else f"{value:.0f}")
        rows.append(
            [problem, noise, of(held(count is not None for count in counts)), f"{early} within {wanted}", middle]
        )
    return report.table(["problem", "noise", "declared", "in time", "evaluations until declared"], rows)


def page(records: Sequence[Record]) -> str:
    """Return the section of the report."""
    fine = [record for record in records if not record.get("error")]
    feasible = [record for record in fine if record["item"]["set"] != "infeasible"]
    rest = [record for record in fine if record["item"]["set"] == "infeasible"]
    title = "Honesty" if any(record["item"]["start"] == "design" for record in records) else "From old rows"
    title = "Sixteen plants" if {record["item"]["set"] for record in records} == {"unseen"} else title
    blocks = [slices.heading(title, records).replace("# ", "## ", 1)]
    if feasible:
        blocks += [
            "Coverage of bounds said to hold with 0.90 (how many): outputs as measured at proposals; objective and "
            "limits, their true values, at proposals and at the recommendations after 1/3, 1/2, 2/3 and all of the "
            "budget. What is known exactly does not count.",
            table(feasible, COLUMNS),
            "Limits that truly hold at recommended settings, by the probability stated (how many):",
            table(feasible, PROBABILITIES),
            f"The gap covers the true shortfall; stops at a gap of {STOP:g} (in units from the median of the objective "
            "to its optimum) that are wrong; runs whose last recommendation is within a tolerance, limits included; "
            "median seconds of a suggestion.",
            table(feasible, WORTH),
        ]
    if rest:
        blocks += ["Problems without a feasible point:", verdicts_table(rest)]
    return "\n\n".join([*blocks, *slices.troubles(records, ("problem", "noise", "start", "seed"))]) + "\n"


def append(records: Sequence[Record], target: Path) -> str:
    """Append the section of some records, which names date and commit, to a page; return the section."""
    if not records:
        raise SystemExit("There are no records to report on.")
    text = page(records)
    before = target.read_text() if target.exists() else "# Honesty: what a study says, and what is true\n"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(f"{before.rstrip()}\n\n{text}")
    print(text)
    return text
