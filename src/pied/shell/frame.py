"""Keep the data of a study under a file with other bounds, units or further outputs."""

from pied.records.sql import Store
from pied.shell.opening import is_there
from pied.shell.statement_file import Stated
from pied.study import frame_changes, reframe


def keep_data(stated: Stated, store: str | None) -> list[str]:
    """Record the question of a file if it has another frame, and return what has changed; refuse what cannot be."""
    place = store or str(stated.store)
    if not is_there(place):
        return []
    with Store.connect(place) as base:
        record = base.find(stated.name)
        if record is None or record.damage:
            return []
        lines = frame_changes(record.about.statement, stated.problem.statement())
        reframe(record, stated.problem)
        return lines
