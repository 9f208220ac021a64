"""Open the study of a problem file: its store and its worker."""

import getpass
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pied.records import Record, cleaned_name, key
from pied.records.sql import Store
from pied.shell.pages import hint
from pied.shell.speech import NoAnswer, note
from pied.shell.statement_file import Stated, read
from pied.study import Study


@dataclass(frozen=True, eq=False)
class Desk:
    """An open study, with the file and store that were named to open it."""

    stated: Stated
    study: Study
    record: Record
    file: str
    store: str | None
    """As the user gave it."""
    is_new_question: bool = False
    """Whether the study was asked something else before it was opened."""

    def hint(self, command: str, *words: str) -> str:
        """Return a command to type for this study."""
        return hint(command, self.file, *words, store=self.store)

    def remedy(self, word: str, number: int) -> str:
        """Return the command that repeats, corrects or withdraws a trial, or says why it failed."""
        if word == "repeat":
            return self.hint("ask", "--repeat", str(number))
        if word == "fail":
            return self.hint(word, str(number), "'the reason'", "--not-the-settings")
        return self.hint(word, str(number), *(["NAME=VALUE"] if word == "correct" else []), "--why '...'")


def me() -> str:
    """Return the login name of the user."""
    try:
        return cleaned_name(getpass.getuser()) or "someone"
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
    is_new: bool = True,
) -> Iterator[Desk]:
    """Open the study of a file, a new one unless it is only read; where it cannot be made, nothing is left behind.

    Args:
        file: As the user named it.
        store: As the user named it; None for the one beside the file.
        worker: Who works; None for someone of no name.
        stated: What the file says, when it was read already, perhaps with changes.
        read_only: Only look; then there must be something.
        is_new: Whether the study may be a new one; a command about a trial needs one that is there.
    """
    stated = stated or read(file)
    place = store or str(stated.store)
    words: dict[str, Any] = dict(stated.study)
    was_there = is_there(place)
    if not was_there and (read_only or not is_new):
        raise NoAnswer(f"nothing is recorded yet; begin with: {hint('ask', file, store=store)}")
    if not was_there:
        _rehearse(stated, words)
    with Store.connect(place, read_only=read_only) as base:
        known = base.find(stated.name)
        if known is None and (read_only or not is_new):
            base.record(stated.name)  # says which studies there are
        if known is None and was_there:
            _rehearse(stated, words)
        is_new_question = known is not None and key(known.about.statement) != key(stated.problem.statement())
        study = Study(stated.problem, name=stated.name, store=base, worker=worker, read_only=read_only, **words)
        with study:
            desk = Desk(stated, study, known or base.record(stated.name), file, store, is_new_question)
            if desk.record.damage:
                note(f"{desk.record.damage}.")
            if is_new_question and not read_only and not desk.record.damage:
                note(f"The question has changed; the data are kept. See what that means: {desk.hint('revise')}")
            yield desk


def is_there(place: str) -> bool:
    """Tell whether a store may exist; a server is contacted later."""
    kind, sign, file = place.partition(":///")
    if not sign:
        return "://" in place or Path(place).exists()
    return not kind.startswith("sqlite") or Path(file.partition("?")[0]).exists()


def _rehearse(stated: Stated, words: dict[str, Any]) -> None:
    """Create the study in memory first, so that a refused one leaves no file behind."""
    Study(stated.problem, **words).close()
