"""What happened: trials, told values and questions, in memory here and in a database in `sql`."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pied.records.journal import Entry, Keeper, take_in
from pied.records.record import About, Memory, Question, Record, Row, Value, key, to_plain

if TYPE_CHECKING:
    from pied.records.trial import Dataset, State, Trial, Why, feasible, spread, tolerances

__all__ = [
    "About",
    "Dataset",
    "Entry",
    "Keeper",
    "Memory",
    "Question",
    "Record",
    "Row",
    "State",
    "Trial",
    "Value",
    "Why",
    "feasible",
    "key",
    "spread",
    "take_in",
    "to_plain",
    "tolerances",
]


def __getattr__(name: str) -> Any:
    """Load the names of `trial` when they are first used: rows and stores alone do not need NumPy."""
    if name in __all__:
        value = getattr(import_module("pied.records.trial"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"pied.records has no '{name}'")
