"""What happened: trials, told values and questions, in memory here and in a database in `sql`."""

from pied.records.record import About, Memory, Question, Record, Row, Value, key, to_plain
from pied.records.trial import Dataset, State, Trial, Why, feasible, spread

__all__ = [
    "About",
    "Dataset",
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
    "to_plain",
]
