"""What happened: trials, told values and questions, in memory here and in a database in `sql`."""

from pied.records.address import masked
from pied.records.journal import Entry, Keeper, take_in
from pied.records.record import About, Memory, Question, Record, Row, Value, key, to_plain
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
    "masked",
    "spread",
    "take_in",
    "to_plain",
    "tolerances",
]
