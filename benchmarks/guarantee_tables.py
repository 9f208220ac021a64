"""The tables of `guarantees.py`: claims, cases, and how loose the bounds are, from its draws."""

from collections.abc import Iterable, Sequence
from typing import Any

from report import count, quantile, table


def claims(draws: Sequence[dict[str, Any]], delta: float, patience: int) -> str:
    """Return a table of all claims and results."""
    contained = [each for each in draws if each["contained"]]
    fine = [each for each in contained if each["feasible"]]
    broken = [each for each in contained if not each["feasible"]]
    late = [each for each in broken if each["declared"] is None]
    lines = [
        ["Lemma 1: all bounds hold with probability", f">= {1 - delta:g}", f"{len(contained)} of {len(draws)}", ""],
        ["Lemma 2: feasible draws declared infeasible", "0", sum(e["declared"] is not None for e in fine), len(fine)],
    ]
    for name, words in (
        ("regret", "Theorem 2: cumulative regret above its bound"),
        ("violation", "Theorem 2: cumulative violation above its bound"),
        ("sharp", "the same with the constant that holds in any units"),
        ("widths", "sum of widths above its bound (Lemmas 3 and 4)"),
        ("best", "Theorem 3: best point above its bound"),
        ("recommended", "Theorem 4: recommended point above its bound"),
        ("deviations", "Lemma 4 with the information gained by the run itself"),
    ):
        ratios = [each[name] for each in fine if each.get(name) is not None]
        lines.append([words, "0", sum(ratio < 1 for ratio in ratios), len(ratios)])
    before = [each for each in broken if each["declared"] is not None]
    after = sum(each["horizon"] is not None and each["declared"] >= each["horizon"] for each in before)
    lines.append(["Theorem 5: infeasible draws declared after T-bar", "0", after, len(before)])
    overdue = sum(each["horizon"] is not None and each["horizon"] <= patience for each in late)
    lines.append([f"the same, not declared within {patience} although T-bar is less", "0", overdue, len(late)])
    return table(["claim (in contained runs, but the first)", "promised", "found", "of"], lines)


def row(name: str, group: Sequence[dict[str, Any]]) -> list[Any]:
    """Return the row of one case."""
    fine = [each for each in group if each["feasible"] and each["contained"]]
    broken = [each for each in group if not each["feasible"]]
    declared = [each["declared"] for each in broken if each["declared"] is not None]
    after = f" after {quantile(declared, 0.5)} ({min(declared)} .. {max(declared)})" if declared else ""
    horizons = [each["horizon"] for each in broken if each["declared"] is not None]
    return [
        name,
        len(group),
        f"{sum(each['contained'] for each in group) / len(group):.3f}",
        sum(each["feasible"] for each in group),
        f"{len(declared)} of {len(broken)}{after}" if broken else "-",
        ratio(fine, "regret"),
        ratio(fine, "violation"),
        " .. ".join(["T-bar " + count(float(min(horizons))), count(float(max(horizons)))]) if horizons else "-",
    ]


def ratio(group: Sequence[dict[str, Any]], name: str) -> str:
    """Return least and median ratio as text."""
    found = [each[name] for each in group if each.get(name) is not None]
    return f"{min(found):.3g} ({quantile(found, 0.5):.3g})" if found else "-"


def middle(values: Iterable[float]) -> str:
    """Return a median as text."""
    return count(float(quantile(values, 0.5)))


def loose(draws: Sequence[dict[str, Any]], delta: float) -> str:
    """Return a table of the ratios of bounds to values."""
    fine = [each for each in draws if each["feasible"] and each["contained"] and "final" in each]
    late = [each for each in draws if not each["feasible"] and each["declared"] and each["horizon"]]
    late = [{"times": [each["horizon"], each["declared"]]} for each in late]
    broken = 1 - sum(each["contained"] for each in draws) / len(draws)
    rows = [["containment: runs with any bound broken", f"{delta:g} allowed", f"{broken:.4f}"]]
    for words, group, name in (
        ("cumulative regret at the last T, medians", fine, "last"),
        ("information gain of T measurements, medians", fine, "gain"),
        ("evaluations until an infeasible draw is declared, medians", late, "times"),
    ):
        rows.append([words, *(middle(each[name][side] for each in group) for side in (0, 1))])
    for name in ("regret", "violation", "sharp", "widths", "best", "recommended", "deviations"):
        rows.append([f"least and median ratio, {name}", "> 1", ratio(fine, name)])
    return table(["quantity", "promised", "found"], rows)
