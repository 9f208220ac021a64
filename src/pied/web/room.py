"""One study of the dashboard: where it is kept, what it looks like now, and how it is worked on.

Reading keeps one open study per room and asks the store only for what has changed. Writing opens the study for one
action, as a command of the shell does, so pages, shells and workers can write at once.
"""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pied.errors import NotYet, StatementError, StoreAway
from pied.records import Event, Record, Row, Trial
from pied.records.sql import Store
from pied.shell.opening import Desk, is_there, opened
from pied.shell.statement_file import Stated, read
from pied.study import Outlook, Result, Scenario, Snapshot, Study, sensitivities, stated_question, what_if


@dataclass(frozen=True, eq=False)
class View:
    """A study at one moment, with what the pages need of its record; answers are computed once and kept."""

    stated: Stated
    change: int = 0
    """Number of the last change of the record, 0 before anything was recorded."""
    snapshot: Snapshot | None = None
    """None before anything was recorded."""
    rows: dict[int, Row] = field(default_factory=dict)
    events: dict[int, list[Event]] = field(default_factory=dict)
    """What was corrected, withdrawn, noted and the like, by trial; 0 is the study."""
    questions: int = 1
    seed: int | None = None
    solver: str = ""
    damage: str = ""
    _answers: dict[Any, Any] = field(default_factory=dict)
    _locks: dict[Any, threading.Lock] = field(default_factory=dict)
    """One per answer: what is quick does not wait for what takes long."""

    @property
    def trials(self) -> tuple[Trial, ...]:
        """All trials, by number."""
        return () if self.snapshot is None else self.snapshot.trials

    def kept(self, key: Any, compute: Callable[[], Any]) -> Any:
        """Return an answer, computed when it is first asked for; who asks meanwhile waits for the same one."""
        with self._locks.setdefault(key, threading.Lock()):
            if key not in self._answers:
                self._answers[key] = compute()
            return self._answers[key]

    def answer(self) -> Result | None:
        """Return the recommendation if it was computed, without waiting for it."""
        found: Result | None = self._answers.get(("result", None))
        return found

    def believed(self) -> Snapshot:
        """Return the snapshot; refuse while nothing was told."""
        if self.snapshot is None:
            raise NotYet("nothing is recorded yet: ask for a proposal, or add old data")
        return self.snapshot

    def result(self, rule: str | None = None, given: Mapping[str, Any] | None = None) -> Result:
        """Return the recommendation, with what its limits are worth, as the shell does; given settings, with these."""
        snapshot = self.believed().on(given or {})

        def compute() -> Result:
            found = snapshot.result(rule)
            if found.x is None or snapshot.problem.has_front:
                return found
            return replace(found, sensitivities_of=lambda: sensitivities(self.outlook(given)))

        return compute() if given else self.kept(("result", rule), compute)

    def base(self) -> Scenario:
        """Return the answer to the study's own question in the form of a scenario, to compare with others."""
        outlook = self.outlook()
        return self.kept("base", lambda: what_if(outlook, outlook.problem))

    def outlook(self, given: Mapping[str, Any] | None = None) -> Outlook:
        """Return the study's answers to other questions; given settings, about these."""
        snapshot = self.believed()
        if given:
            return Outlook(snapshot.on(given))
        return self.kept("outlook", lambda: Outlook(snapshot.on({})))


class Room:
    """One study of the dashboard.

    Args:
        key: Its name in addresses.
        file: The problem file as it was named; None for a study found in a store.
        store: The store as it was named; None for the one beside the file.
        name: Its name in the store, where there is no file.
    """

    def __init__(self, key: str, *, file: str | None, store: str | None, name: str | None = None) -> None:
        self.key, self.file, self.store, self._name = key, file, store, name
        self._lock = threading.RLock()
        self._is_over = self._was_there = False
        self.revising = threading.Lock()
        """Held by who changes the question, so that changes wait for each other."""
        self._study: Study | None = None
        self._base: Store | None = None
        self._record: Record | None = None
        self._stated: Stated | None = None
        self._mark: Any = None
        self._view: View | None = None

    @property
    def place(self) -> str:
        """Where the record is kept."""
        return self.store or str(self.stated().store)

    @property
    def called(self) -> str:
        """The file as a message names it."""
        return self.file or str(self._name)

    def stated(self) -> Stated:
        """Return the question: that of the file as it is now, or of the store if there is none."""
        with self._lock:
            mark = self._mark_of_question()
            if self._stated is None or mark != self._mark:
                self._stated, self._mark = self._read(), mark
                self._close()
            return self._stated

    def _mark_of_question(self) -> Any:
        """Return what changes when the question does."""
        if self.file is not None:
            place = Path(self.file.rpartition(":")[0] if ".py:" in self.file else self.file)
            if not place.exists() or place.suffix != ".toml":
                return 0
            seen = place.stat()
            return seen.st_mtime_ns, seen.st_ino, seen.st_size  # two changes may have one time
        return self._about().revision

    def _about(self) -> Any:
        with Store.connect(str(self.store), read_only=True) as base:
            return base.record(str(self._name)).about

    def _read(self) -> Stated:
        if self.file is not None:
            return read(self.file)
        problem = stated_question(self._about().statement)
        if problem is None:
            raise StatementError(
                f"the question of study '{self._name}' is Python code or has a list of candidates, which a store does "
                "not keep: name its file, pied dashboard plant.py:problem --store ..."
            )
        return Stated(problem, Path(f"{self._name}.toml"), str(self._name))

    # ------------------------------------------------------------------------------------------------ read

    def view(self) -> View:
        """Return the study as it is now; the same object while nothing has changed."""
        with self._lock:
            stated = self.stated()
            if self._study is None and not self._open(stated):
                if self._view is None or self._view.change:
                    self._view = View(stated)
                return self._view
            assert self._study is not None
            assert self._record is not None
            known = self._view
            change, rows = self._record.changes(0 if known is None else known.change)
            if known is not None and change == known.change and known.snapshot is not None:
                return known
            events: dict[int, list[Event]] = {}
            for event in self._record.events():
                events.setdefault(event.number, []).append(event)
            about = self._record.about
            self._view = View(
                stated, change, self._study.snapshot,
                {**({} if known is None else known.rows), **{row.number: row for row in rows}}, events,
                len(self._record.questions()), about.seed, str(about.solver.get("name", "")), self._record.damage,
            )  # fmt: skip
            return self._view

    def _open(self, stated: Stated) -> bool:
        """Open the study for reading; return whether there is one."""
        if self._is_over:
            raise StoreAway("the dashboard has ended: start it again")
        if not is_there(self.place):
            return False
        base = Store.connect(self.place, read_only=True)
        try:
            record = base.find(stated.name)
            if record is None:
                base.close()
                return False
            words = {word: each for word, each in stated.study.items() if word in ("patience", "stop_at_gap", "lease")}
            self._study = Study(stated.problem, name=stated.name, store=base, read_only=True, **words)
        except BaseException:
            base.close()
            raise
        self._base, self._record, self._view, self._was_there = base, record, None, True
        return True

    def _close(self) -> None:
        if self._base is not None:
            self._base.close()
        self._study = self._record = self._base = self._view = None

    def close(self) -> None:
        """Close the store for good; who still asks then is told that the dashboard has ended."""
        with self._lock:
            self._is_over = True
            self._close()

    def study(self) -> Study:
        """Return the open study, for answers that need all of it; use it inside of `reading`."""
        self.view()
        if self._study is None:
            raise NotYet("nothing is recorded yet: ask for a proposal, or add old data")
        return self._study

    @contextmanager
    def reading(self) -> Iterator[Study]:
        """Hold the open study while something reads it."""
        with self._lock:
            yield self.study()

    # ------------------------------------------------------------------------------------------------ write

    def check_store(self) -> None:
        """Refuse to begin a second record where the store was: a folder of a network may be away."""
        if self._was_there and not is_there(self.place):
            raise StoreAway(
                f"{self.place} is gone: bring it back; if it was removed on purpose, start the dashboard again"
            )

    @contextmanager
    def desk(
        self, worker: str | None, *, is_new: bool = False, read_only: bool = False, stated: Stated | None = None
    ) -> Iterator[Desk]:
        """Open the study for one action, as the shell does.

        Args:
            worker: Who acts.
            is_new: Whether the study may be a new one.
            read_only: Only look.
            stated: Another question than that of the file as it is now.
        """
        stated = stated or self.stated()
        self.check_store()
        with opened(self.called, self.store, worker=worker, stated=stated, is_new=is_new, read_only=read_only) as desk:
            yield desk
