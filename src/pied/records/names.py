"""Other names for variables and outputs: the data carry the new ones, the history shows what each was called.

A renaming is an event of the study. Names at another time follow from it: those of today for an old table, those of
then for the history.
"""

from collections.abc import Iterable, Mapping

from pied.records import event
from pied.records.event import Event


def renamed(names: Mapping[str, str], values: Mapping[str, float]) -> dict[str, float]:
    """Return values by their new names."""
    return {names.get(name, name): value for name, value in values.items()}


def names_of(happened: Event) -> dict[str, str]:
    """Return which names a renaming replaced: the new one by the old one."""
    return {str(old): str(new) for old, new in dict(happened.data.get("names") or {}).items()}


def name_now(events: Iterable[Event], name: str, since: float) -> str:
    """Return what something is called now that had this name at a time."""
    for each in events:
        if each.kind == event.RENAMED and each.made > since:
            name = names_of(each).get(name, name)
    return name


def name_then(events: Iterable[Event], name: str, at: float) -> str:
    """Return what something was called at a time that has this name now."""
    for each in reversed(list(events)):
        if each.kind == event.RENAMED and each.made > at:
            name = {new: old for old, new in names_of(each).items()}.get(name, name)
    return name


def former_names(events: Iterable[Event], current: Iterable[str]) -> dict[str, str]:
    """Return the present names by former ones; a former name that means something else by now is left out."""
    found: dict[str, str] = {}
    for each in events:
        if each.kind == event.RENAMED:
            names = names_of(each)
            found = {old: names.get(now, now) for old, now in found.items()} | names
    known = set(current)
    return {old: now for old, now in found.items() if old not in known and now in known}
