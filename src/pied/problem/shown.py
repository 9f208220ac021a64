"""A problem as tables in a notebook: settings, outputs, limits."""

from collections.abc import Mapping
from html import escape
from typing import Any

from pied.markup import table


def tables(stated: Mapping[str, Any], objective: str, spans: Mapping[str, str]) -> str:
    """Return the goals and the tables.

    Args:
        stated: The statement.
        objective: Name of the first goal.
        spans: What can be set, by variable.
    """
    units = stated.get("units", {})
    goals = [{**stated["objective"], "sense": stated["sense"], "called": objective, "unit": stated.get("unit", "")}]
    said = [
        f"{each['sense']} {each['called']}{_unit(each)}{_formula(each)}"
        for each in [*goals, *stated.get("further", ())]
    ]
    settings = [[name, spans[name], each.get("unit", "")] for name, each in stated["variables"].items()]
    outputs = [[name, units.get(name, ""), _range(*stated["ranges"][name]), _noise(stated["noise"][name])]
               for name in stated["outputs"]]  # fmt: skip
    limits = [[each["name"], (each.get("formula") or "a function, met when >= 0").replace("`", "")]
              for each in stated["subject_to"]]  # fmt: skip
    parts = [*(f"<p>{escape(line)}</p>" for line in said), table(["setting", "range", "unit"], settings),
             table(["output", "unit", "possible", "noise"], outputs)]  # fmt: skip
    return "".join([*parts, table(["limit", "must hold"], limits) if limits else ""])


def _unit(goal: Mapping[str, Any]) -> str:
    return f" [{goal['unit']}]" if goal.get("unit") else ""


def _formula(goal: Mapping[str, Any]) -> str:
    formula = goal.get("formula")
    return f" = {formula.replace('`', '')}" if formula and formula != goal["called"] else ""


def _range(low: float | None, high: float | None) -> str:
    if low is None:
        return "" if high is None else f"<= {high:g}"
    return f">= {low:g}" if high is None else f"{low:g} to {high:g}"


def _noise(noise: float | None) -> str:
    return "learned" if noise is None else "exact" if noise == 0 else f"{noise:g}"
