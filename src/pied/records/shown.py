"""Trials as a table in a notebook."""

from typing import Any

from pied.markup import table
from pied.measured import is_known, shown
from pied.records.trial import State, Trial

DIGITS = 6
"""Significant digits of settings and told values."""
MOST_OUTPUTS = 12
"""Columns for outputs."""
STATES = {State.TOLD: "measured", State.PARTIAL: "measured in part", State.ASKED: "open", State.FAILED: "failed",
          State.WITHDRAWN: "withdrawn"}  # fmt: skip


class Trials(tuple[Trial, ...]):
    """The trials of a study, by number: a tuple that a notebook shows as a table.

    Example: `docs/recipes.md`.
    """

    def _repr_html_(self) -> str:
        if not self:
            return "<p>no trials</p>"
        names = list(self[0].x)
        outputs = next((list(each.y) for each in self if each.y is not None), [])[:MOST_OUTPUTS]
        return table(["trial", "", *names, *outputs, "why"], [_row(each, names, outputs) for each in self])


def _row(trial: Trial, names: list[str], outputs: list[str]) -> list[str]:
    told = [trial.y[name] if trial.y is not None else float("nan") for name in outputs]
    why = trial.reason or trial.summary or trial.why.aim
    return [str(trial.number), STATES[trial.state] + ", older" * trial.is_added,
            *(_setting(trial.x[name]) for name in names),
            *(shown(value, DIGITS) if is_known(value) else "" for value in told), why]  # fmt: skip


def _setting(value: Any) -> str:
    return f"{value:.{DIGITS}g}" if isinstance(value, float) else str(value)
