"""Keep the data of a study under a file with other bounds, units or further outputs."""

from collections.abc import Mapping

from pied.records import former_names
from pied.records.sql import Store
from pied.shell.opening import is_there
from pied.shell.statement_file import Stated
from pied.study import frame_changes, reframe


def keep_data(stated: Stated, store: str | None, names: Mapping[str, str], worker: str) -> list[str]:
    """Record the question of a file if it has another frame, and return what has changed; refuse what cannot be.

    Args:
        stated: What the file says.
        store: As the user named it.
        names: New names of variables, outputs and limits by their old ones.
        worker: Who revises.
    """
    place = store or str(stated.store)
    if not is_there(place):
        return []
    with Store.connect(place) as base:
        record = base.find(stated.name)
        if record is None or record.damage:
            return []
        before = record.about.statement
        reframe(record, stated.problem, names=names, worker=worker)
        return frame_changes(before, stated.problem.statement(), names)


def former(stated: Stated, store: str | None) -> dict[str, str]:
    """Return the present names of variables and outputs by their former ones, from the study of a file."""
    place = store or str(stated.store)
    if not is_there(place):
        return {}
    with Store.connect(place, read_only=True) as base:
        record = base.find(stated.name)
        names = (*stated.problem.variables, *stated.problem.outputs)
        return {} if record is None else former_names(record.events(), names)


def kept_maps(stated: Stated, store: str | None) -> dict[str, str]:
    """Return what headings and labels of tables were confirmed to mean, from the study of a file."""
    place = store or str(stated.store)
    if not is_there(place):
        return {}
    with Store.connect(place, read_only=True) as base:
        record = base.find(stated.name)
        notes = [] if record is None else [each.data.get("map") for each in record.events() if each.kind == "noted"]
    return {word: str(name) for each in notes if isinstance(each, dict) for word, name in each.items()}


def is_recorded(stated: Stated, store: str | None) -> bool:
    """Tell whether the study of a file is there already."""
    place = store or str(stated.store)
    if not is_there(place):
        return False
    with Store.connect(place, read_only=True) as base:
        return base.find(stated.name) is not None
