"""The history of a study: everything that happened, in order of time, with names and reasons."""

from collections.abc import Iterable, Iterator

from pied.measured import identity, says_no_more
from pied.records import event
from pied.records.event import Event
from pied.records.names import name_now, name_then
from pied.records.record import Question, Record, Row, Value


def history(record: Record, number: int | None = None) -> list[Event]:
    """Return what happened in a study, or to one trial."""
    stored = record.events()
    found = [*stored, *_told(record.values(), stored)]
    for row in record.changes(0)[1]:
        found += _proposed(row, stored)
    if number is None:
        found += _questions(record.questions())
    else:
        found = [each for each in found if each.number == number or each.kind == event.RENAMED]
    return sorted(found, key=lambda each: (each.made, _ORDER.index(each.kind), each.number))


_ORDER = (
    event.QUESTION, event.RENAMED, event.ASKED, event.ADDED, event.HANDED, event.MOVED, event.TOLD,
    event.BLOCKED, event.CAMPAIGN, event.REPEATED, event.REFUSED, event.FAILED, event.CORRECTED, event.WITHDRAWN,
    event.RESTORED, event.NOTED,
)  # fmt: skip
"""Order of events of the same time."""


def _proposed(row: Row, stored: list[Event]) -> Iterator[Event]:
    """Return how a trial began, and how it failed in records without an event of it."""
    mine = [each for each in stored if each.number == row.number]
    handed = next((each for each in mine if each.kind == event.HANDED), None)
    worker = row.worker if handed is None else str(handed.data.get("from", ""))
    kind = event.ADDED if row.is_added else event.ASKED
    x = {name_then(stored, name, row.asked): value for name, value in row.x.items()}
    yield Event(row.number, kind, worker, row.asked, data={"x": x})
    if row.state == "failed" and row.settled is not None and not any(each.kind == event.FAILED for each in mine):
        yield Event(row.number, event.FAILED, row.worker, row.settled, row.reason)


def _told(values: Iterable[Value], stored: list[Event]) -> list[Event]:
    """Return the told values, those of one call together and by the names of that time.

    The values of corrections are events already; they are recognized by their present names.
    """
    corrected = [each for each in stored if each.kind == event.CORRECTED]
    made = {
        (each.number, name_now(stored, name, each.made), identity(value), each.made)
        for each in corrected
        for name, value in each.data.get("after", {}).items()
    }
    replaced = {
        (each.number, name_now(stored, name, each.made), identity(value))
        for each in stored
        if each.kind in (event.CORRECTED, event.FAILED)
        for name, value in each.data.get("before", {}).items()
    }
    found: dict[tuple[int, str, str, float], dict[str, float]] = {}
    counted: dict[tuple[int, str], float] = {}
    for each in values:
        place = (each.number, each.output)
        if (*place, identity(each.value), each.told) in made:
            continue
        if place not in counted and (each.counts or (*place, identity(each.value)) in replaced):
            kind, counted[place] = event.TOLD, each.value
        else:
            kind = event.REPEATED if says_no_more(each.value, counted.get(place)) else event.REFUSED
        called = name_then(stored, each.output, each.told)
        found.setdefault((each.number, kind, each.worker, each.told), {})[called] = each.value
    return [
        Event(number, kind, worker, time, data={"values": told}) for (number, kind, worker, time), told in found.items()
    ]


def _questions(questions: Iterable[Question]) -> Iterator[Event]:
    for each in questions:
        goal = each.statement.get("objective")
        name = goal.get("name", "") if isinstance(goal, dict) else ""
        said = f"{each.statement.get('sense', '')} {each.statement.get('called') or name}".strip()
        yield Event(0, event.QUESTION, "", each.asked, said, {"question": each.number})
