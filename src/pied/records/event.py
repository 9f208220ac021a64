"""One event in the life of a trial: who did what, when and why."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pied.measured import shown

CORRECTED, WITHDRAWN, RESTORED, NOTED, MOVED, HANDED, FAILED, RENAMED, BLOCKED, CAMPAIGN = STORED = (
    "corrected", "withdrawn", "restored", "noted", "run elsewhere", "handed out", "failed", "renamed", "block",
    "campaign",
)  # fmt: skip
"""Kinds of events that are stored."""
GROUPS = (BLOCKED, CAMPAIGN)
"""What a trial belongs to; also in `Row.why`, where versions that do not know it read past it."""
NOT_THE_SETTINGS = "not_the_settings"
"""In the data of an event, and in `Row.why`: true where a failure had nothing to do with the settings. Versions that do
not know the word read past it."""
ASKED, ADDED, TOLD, REPEATED, REFUSED, QUESTION = "asked", "added", "told", "told again", "refused", "question"
"""Kinds that follow from trials, values and questions."""


TOLD_DIGITS, SETTING_DIGITS = 9, 6
"""Significant digits of told values and of proposed settings."""


@dataclass(frozen=True)
class Event:
    """Something that happened to a trial, or a new question; events are never changed or deleted."""

    number: int
    """Number of the trial; 0 for a question or a renaming."""
    kind: str
    """"asked", "added", "told", "told again", "refused" (a value that does not count), "failed", "corrected",
    "withdrawn", "restored", "run elsewhere", "handed out" (to another person), "noted", "question", "renamed",
    "block", "campaign"."""
    worker: str
    """Who did it."""
    made: float
    """When, seconds since 1970."""
    why: str = ""
    """The reason, or the text of a note."""
    data: Mapping[str, Any] = field(default_factory=dict)
    """Plain data: `values` (told), `before` and `after` (corrected), `not_the_settings` (failed), `asked` and `run`
    (points), `names` (renamed: the new name by the old one)."""

    @property
    def what(self) -> str:
        """What happened, as a phrase without the trial's number."""
        said = f" ({self.why})" if self.why else ""
        if self.kind == NOTED:
            return f"note: {self.why}"
        if self.kind == QUESTION:
            return f"question {self.data['question']}: {self.why}"
        if self.kind in (TOLD, REPEATED, REFUSED):
            return f"{self.kind}: {_listed(self.data['values'])}"
        if self.kind == RENAMED:
            pairs = self.data.get("names", {}).items()
            return "renamed: " + ", ".join(f"'{old}' is called '{new}' from now on" for old, new in pairs)
        if self.kind in GROUPS:
            none = "none" if self.kind == BLOCKED else "the present one"
            other = f" instead of {self.data['from']}" if self.data.get("from") else ""
            return f"{self.kind}: {self.data.get('to') or none}{other}{said}"
        if self.kind == HANDED:
            return f"handed out to {self.worker}, after {self.data.get('from', '')}"
        if self.kind in (CORRECTED, MOVED):
            digits = TOLD_DIGITS if self.kind == CORRECTED else SETTING_DIGITS
            return f"{self.kind}: {_changed(self.data.get('before', {}), self.data.get('after', {}), digits)}{said}"
        if self.kind == FAILED:
            blame = self.data.get(NOT_THE_SETTINGS)
            said += "" if blame is None else ", not because of the settings" if blame else ", perhaps by the settings"
            before = self.data.get("before")
            return f"failed{said}, instead of {_listed(before)}" if before else f"failed{said}"
        return f"{self.kind}{said}"


def _listed(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} = {_text(value)}" for name, value in values.items())


def _text(value: Any, digits: int = 9) -> str:
    """Return a value that was told or set: labels and whole numbers as they are."""
    return shown(value, digits) if isinstance(value, float) else str(value)


def _changed(before: Mapping[str, Any], after: Mapping[str, Any], digits: int) -> str:
    """Return what was changed; what was before with as many digits as tell it apart, at least so many."""
    parts = [
        f"{name} = {_text(value)}" + (f" instead of {_apart(before[name], value, digits)}" if name in before else "")
        for name, value in after.items()
    ]
    return ", ".join(parts)


def _apart(before: Any, after: Any, digits: int) -> str:
    if not isinstance(before, float):
        return str(before)
    while digits < 17 and float(f"{before:.{digits}g}") == after != before:
        digits += 1
    return shown(before, digits)
