"""Open the study of a file: its statement, its store, who works on it."""

import getpass
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pied.files import Stated, read
from pied.record import Record, key
from pied.shell.pages import hint
from pied.shell.speech import NoAnswer, note
from pied.store import Store
from pied.study import Study


@dataclass(frozen=True, eq=False)
class Desk:
    """A study that is open, and what was named to open it."""

    stated: Stated
    study: Study
    record: Record
    file: str
    store: str | None
    """As the user gave it."""

    def hint(self, command: str, *words: str) -> str:
        """Return a line to type on this study."""
        return hint(command, self.file, *words, store=self.store)


def me() -> str:
    """Return the login name of who types."""
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):
        return "someone"


@contextmanager
def opened(
    file: str,
    store: str | None,
    *,
    worker: str | None = None,
    stated: Stated | None = None,
    read_only: bool = False,
) -> Iterator[Desk]:
    """Open the study of a file, a new one unless it is only read.

    Args:
        file: As the user named it.
        store: As the user named it; None for the one beside the file.
        worker: Who works; None for someone of no name.
        stated: What the file says, when it was read already, perhaps with changes.
        read_only: Only look; then there must be something.
    """
    stated = stated or read(file)
    place = store or str(stated.store)
    if read_only and "://" not in place and not Path(place).exists():
        raise NoAnswer(f"nothing is recorded yet; begin with: {hint('ask', file, store=store)}")
    with Store.connect(place, read_only=read_only) as base:
        known = base.find(stated.name)
        if known is None and read_only:
            base.record(stated.name)  # says which studies there are
        is_new_question = known is not None and key(known.about.statement) != key(stated.problem.statement())
        words: dict[str, Any] = dict(stated.study)
        study = Study(stated.problem, name=stated.name, store=base, worker=worker, read_only=read_only, **words)
        with study:
            desk = Desk(stated, study, base.record(stated.name), file, store)
            if desk.record.damage:
                note(f"{desk.record.damage}.")
            if is_new_question and not read_only and not desk.record.damage:
                note(f"The question has changed; the data are kept. See what that means: {desk.hint('revise')}")
            yield desk
