"""What happened: trials, told values and questions, in memory and in a database."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pied.records.chronicle import history
from pied.records.corrections import annotate, correct, restore, withdraw
from pied.records.event import GROUPS, Event
from pied.records.journal import Entry, Keeper, take_in
from pied.records.memory import Memory
from pied.records.names import former_names, name_now, renamed
from pied.records.plain import cleaned_name, key, to_plain
from pied.records.record import About, Question, Record, Row, Value
from pied.records.why import Why

if TYPE_CHECKING:
    from pied.records.shown import Trials
    from pied.records.trial import (
        COMPARED,
        REPEATED,
        Dataset,
        State,
        Trial,
        are_equal,
        deviations,
        feasible,
        met,
        ranges,
        spread,
        tolerances,
    )

__all__ = [
    "COMPARED",
    "GROUPS",
    "REPEATED",
    "About",
    "Dataset",
    "Entry",
    "Event",
    "Keeper",
    "Memory",
    "Question",
    "Record",
    "Row",
    "State",
    "Trial",
    "Trials",
    "Value",
    "Why",
    "annotate",
    "are_equal",
    "cleaned_name",
    "correct",
    "deviations",
    "feasible",
    "former_names",
    "history",
    "key",
    "met",
    "name_now",
    "ranges",
    "renamed",
    "restore",
    "spread",
    "take_in",
    "to_plain",
    "tolerances",
    "withdraw",
]


def __getattr__(name: str) -> Any:
    """Load the names of `trial` when they are first used: rows and stores alone do not need NumPy."""
    if name in __all__:
        value = getattr(import_module(f"pied.records.{'shown' if name == 'Trials' else 'trial'}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"pied.records has no '{name}'")
