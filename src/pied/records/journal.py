"""Keep results that cannot be written to the store: retry for a while, then save them in files.

An evaluation may have cost hours. When the store is away (a server restarts, a disk is full), a run retries for
`PATIENCE` seconds. Each result that still cannot be written goes to its own file, one line of JSON, beside the database
file or in the user's state folder. The next opening of the study writes it to the store and removes the file.
"""

import hashlib
import json
import logging
import math
import os
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pied.errors import EvaluationError, ExecutorLost, StoreAway, StoreError, TellError, Unwritten, reason_of
from pied.measured import is_known, kept
from pied.records.event import Event
from pied.records.names import former_names, renamed
from pied.records.plain import cleaned, from_plain, to_plain
from pied.records.record import ASKED, Pen, Question, Record, Row, Value

if TYPE_CHECKING:
    from pied.evaluation import Crew, Outcome

logger = logging.getLogger(__name__)

PATIENCE = 60.0
"""Seconds during which a run retries when its store is away: a server restarts in less."""
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0
"""Seconds between attempts: the first pause, doubled each time, and the longest."""
LARGEST_FILE = 16_000_000
"""Bytes of a file with results at most; a larger one is not ours."""
SUFFIX = ".unwritten.jsonl"

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Entry:
    """The result of one evaluation: values, or a failure."""

    number: int
    values: Mapping[str, float] | None = None
    """Told outputs; None when it failed."""
    failure: str = ""

    def __str__(self) -> str:
        if self.values is None:
            return f"trial {self.number} failed: {self.failure[:200]}"
        shown = [f"{name} = {value!r}" for name, value in list(self.values.items())[:20]]
        return f"trial {self.number}: {', '.join(shown)}" + (", ..." if len(self.values) > 20 else "")


# ------------------------------------------------------------------------------------------------------------- files


def places(file: Path | None) -> tuple[str, ...]:
    """Return the path prefixes of the files for unwritten results of a store, in order of preference.

    Args:
        file: The database file; None for a server.
    """
    base = os.environ.get("XDG_STATE_HOME") or str(Path("~").expanduser() / ".local" / "state")
    state = str(Path(base) / "pied" / "store")
    return (state, str(Path.cwd() / "pied")) if file is None else (str(file), state)


def identity(record: Record) -> str:
    """Return a text that identifies the study; a new study of the same name has another one."""
    about = record.about
    told = json.dumps([about.name, str(about.seed), float(about.created).hex()])
    return hashlib.sha256(told.encode("utf-8", "backslashreplace")).hexdigest()[:24]


def keep(record: Record, entry: Entry) -> str | None:
    """Save a result beside the store; return the file, or None when no place can be written."""
    line = json.dumps(
        {
            "study": identity(record), "name": record.about.name, "trial": entry.number,
            "values": to_plain(entry.values), "failure": cleaned(entry.failure), "kept": time.time(),
        }
    )  # fmt: skip
    for place in record.fallbacks:
        file = Path(f"{place}.{identity(record)}-{entry.number}-{secrets.token_hex(4)}{SUFFIX}")
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            _write(file, f"{line}\n")
        except OSError as error:
            logger.warning("the result could not be kept in %s: %s", file, error)
            continue
        logger.warning("the store is away; kept in %s: %s", file, entry)
        return str(file)
    logger.error("the store is away, and nothing can be kept beside it; write this down: %s", entry)
    return None


def _write(file: Path, line: str) -> None:
    """Write a file to disk completely or not at all."""
    part = file.with_name(f"{file.name}.part")
    try:
        with part.open("x", encoding="utf-8") as target:
            target.write(line)
            target.flush()
            os.fsync(target.fileno())
        part.rename(file)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def take_in(record: Record) -> int:
    """Write the results saved beside the store into it and remove their files; return the number of results.

    A value that equals the recorded one is not told again. One that contradicts the record is stored without counting,
    like every late value.
    """
    taken = 0
    for file in _kept(record):
        entries = _read(file, identity(record))
        if entries is None:
            continue
        for entry in entries:
            _settle(record, entry)
            taken += 1
        try:
            file.unlink(missing_ok=True)
        except OSError as error:
            logger.warning("%s is in the store now, and can be removed: %s", file, error)
    if taken:
        logger.info("study '%s': %d results taken in that had been kept beside the store", record.about.name, taken)
    return taken


def _kept(record: Record) -> list[Path]:
    """Return the files with unwritten results of a study."""
    found = []
    for place in record.fallbacks:
        folder, start = Path(place).parent, f"{Path(place).name}.{identity(record)}-"
        try:
            with os.scandir(folder) as entries:
                names = [each.name for each in entries if each.name.startswith(start) and each.name.endswith(SUFFIX)]
        except OSError:
            continue
        found += [folder / name for name in sorted(names)]
    return found


def _settle(record: Record, entry: Entry) -> None:
    """Write one result."""
    row = next((row for row in record.changes(0)[1] if row.number == entry.number), None)
    outputs = record.about.statement["outputs"]
    values = renamed(former_names(record.events(), outputs), entry.values or {})
    known = {name: value for name, value in values.items() if name in outputs}
    try:
        if entry.values is not None:
            record.tell(entry.number, known, worker=row.worker if row is not None else "", again=False)
        elif row is not None and row.state == ASKED:
            record.fail(entry.number, entry.failure, worker=row.worker)
    except TellError as error:
        logger.warning("a result that had been kept beside the store does not count: %s", error)


def _read(file: Path, wanted: str) -> list[Entry] | None:
    """Read saved results, except a damaged last line; return None when the file cannot be used."""
    try:
        if file.stat().st_size > LARGEST_FILE:
            raise ValueError(f"more than {LARGEST_FILE} bytes")
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        logger.warning("%s cannot be read and stays where it is: %s", file, error)
        return None
    found = []
    for place, line in enumerate(lines):
        try:
            found.append(_entry(json.loads(line), wanted))
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            logger.warning("%s, line %d, cannot be read: %s", file, place + 1, error)
            if place < len(lines) - 1 or not found:
                return None
    return found


def _entry(data: Any, wanted: str) -> Entry:
    """Check one saved result."""
    number, values, failure = data["trial"], data["values"], data["failure"]
    if data["study"] != wanted:
        raise ValueError("it belongs to another study")
    if not isinstance(number, int) or isinstance(number, bool) or number < 1:
        raise ValueError("the trial is not a number")
    if values is None:
        return Entry(number, failure=str(failure))
    told = {str(name): kept(from_plain(each)) for name, each in values.items()} if isinstance(values, dict) else {}
    if not told or not all(is_known(value) for value in told.values()):
        raise ValueError("the values are not numbers")
    return Entry(number, told)


# ---------------------------------------------------------------------------------------------------------- patience


def patiently(call: Callable[[bool], Answer]) -> Answer:
    """Retry a call while the store is away; the argument of `call` says whether it is a repetition.

    Raises:
        StoreAway: When the store stayed away for `PATIENCE` seconds.
    """
    pause, began = FIRST_PAUSE, None
    while True:
        try:
            return call(began is not None)
        except StoreAway as error:
            now = time.monotonic()
            began = now if began is None else began
            if now - began + pause > PATIENCE:
                raise
            logger.warning("%s; trying again in %.1f s", error, pause)
        time.sleep(pause)
        pause = min(2.0 * pause, LONGEST_PAUSE)


class Patient(Record):
    """A record that waits for its store to come back; nothing is written twice when a reply was lost."""

    def __init__(self, record: Record) -> None:
        self.inner = record
        self.about, self.clock, self.is_shared, self.fallbacks = (
            record.about, record.clock, record.is_shared, record.fallbacks,
        )  # fmt: skip

    def _writing(self) -> AbstractContextManager[Pen]:
        return self.inner._writing()

    def changes(self, since: int) -> tuple[int, list[Row]]:
        """Return the number of the last change, and the trials changed after `since`."""
        return patiently(lambda _: self.inner.changes(since))

    def values(self) -> list[Value]:
        """Return all values ever told."""
        return patiently(lambda _: self.inner.values())

    def events(self) -> list[Event]:
        """Return the stored events."""
        return patiently(lambda _: self.inner.events())

    def questions(self) -> list[Question]:
        """Return all questions of this study."""
        return patiently(lambda _: self.inner.questions())

    def revise(self, statement: Mapping[str, Any], **words: Any) -> int:
        """Make this the current question and return its number."""
        return self.inner.revise(statement, **words)

    def take(self, number: int, x: Mapping[str, Any], *, worker: str = "", **words: Any) -> Row | None:
        """Write a proposed trial; a repeated call finds what the first one may have written."""

        def call(is_again: bool) -> Row | None:
            made = self._own(number, worker, x) if is_again else None
            return made or self.inner.take(number, x, worker=worker, **words)

        return patiently(call)

    def claim(
        self, worker: str, lease: float = math.inf, *, resume: bool = True, but: Iterable[int] = ()
    ) -> Row | None:
        """Hand out a pending trial; a repeated call may return the one claimed by the first call."""
        excluded = list(but)
        return patiently(lambda is_again: self.inner.claim(worker, lease, resume=resume or is_again, but=excluded))

    def renew(self, numbers: Iterable[int], worker: str, lease: float) -> list[int]:
        """Extend leases; without retries, because leases are renewed periodically."""
        return self.inner.renew(numbers, worker, lease)

    def tell(
        self,
        number: int,
        values: Mapping[str, float],
        *,
        worker: str = "",
        again: bool = True,
        at: Mapping[str, Any] | None = None,
        groups: Mapping[str, str] | None = None,
    ) -> Row:
        """Write told values once."""
        named: dict[str, Any] = {"worker": worker, "at": at, "groups": groups}
        return patiently(lambda is_again: self.inner.tell(number, values, again=again and not is_again, **named))

    def fail(self, number: int, *words: Any, **named: Any) -> Row:
        """Mark a trial as failed; a second call changes nothing."""
        return patiently(lambda _: self.inner.fail(number, *words, **named))

    def close(self) -> None:
        """Release the record's resources."""
        self.inner.close()

    def _row(self, number: int) -> Row | None:
        return next((row for row in self.inner.changes(0)[1] if row.number == number), None)

    def _own(self, number: int, worker: str, x: Mapping[str, Any]) -> Row | None:
        row = self._row(number)
        return row if row is not None and row.worker == worker and dict(row.x) == dict(x) else None


class Keeper(Generic[Answer]):
    """Writes the results of a run's evaluations, and saves those that cannot be written.

    Args:
        record: Record of the study.
        read: Converts what the black box returned to values by output; raises `EvaluationError`.
        write: Writes an entry into the record.
    """

    def __init__(
        self, record: Record, read: Callable[[Any], Mapping[str, float]], write: Callable[[Entry], Answer]
    ) -> None:
        self._record, self._read, self._write = record, read, write
        self._kept: dict[int, tuple[Entry, str | None]] = {}

    def patient(self) -> Record:
        """Return the record to use during a run, after taking in the results saved earlier."""
        if not self._record.is_shared or self._record.damage:
            return self._record
        patiently(lambda _: take_in(self._record))
        return Patient(self._record)

    def settle(self, outcome: "Outcome") -> Answer:
        """Write the result of a call; save it at once when it cannot be written."""
        if outcome.lost is not None:
            raise ExecutorLost(
                f"the executor lost trial {outcome.key} and did not come back ({outcome.lost}): it stays pending, and "
                "nothing has failed; run again with an executor that works"
            )
        entry = self._entry(outcome)
        try:
            return self._write(entry)
        except (StoreError, KeyboardInterrupt):
            self._kept[entry.number] = entry, keep(self._record, entry)
            raise

    def _entry(self, outcome: "Outcome") -> Entry:
        number = int(outcome.key)
        if outcome.failure is not None:
            return Entry(number, failure=outcome.failure)
        try:
            return Entry(number, {name: kept(value) for name, value in self._read(outcome.answer).items()})
        except EvaluationError as error:
            return Entry(number, failure=reason_of(error))

    @contextmanager
    def rescuing(self, crew: "Crew") -> Iterator[None]:
        """When the store stays away or the executor is lost, wait for the evaluations under way and save their results.

        Raises:
            Unwritten: When results could not be written.
        """
        try:
            yield
        except (StoreError, ExecutorLost) as cause:
            if crew.busy:
                logger.warning("%s; waiting for %d evaluations, whose results are kept", cause, crew.busy)
            while crew.busy:
                outcome = crew.wait()
                if outcome is not None and outcome.lost is None:
                    self._attempt(self._entry(outcome))
            if not self._kept:
                raise
            raise self._unwritten(cause) from cause

    def _attempt(self, entry: Entry) -> None:
        """Write a result, or save it when the store is away."""
        try:
            _settle(self._record, entry)
        except StoreError:
            self._kept[entry.number] = entry, keep(self._record, entry)

    def _unwritten(self, cause: Exception) -> Unwritten:
        """Return the error that says which results could not be written, and where they are."""
        entries = [entry for entry, _ in self._kept.values()]
        files = [file for _, file in self._kept.values() if file is not None]
        lost = [str(number) for number, (_, file) in self._kept.items() if file is None]
        many = f"{len(entries)} results" if len(entries) > 1 else "a result"
        advice = ""
        if files:
            listed = ", ".join(files[:3]) + (f" and {len(files) - 3} more" if len(files) > 3 else "")
            advice += f" Kept in {listed}: open the study again when the store is back, and it takes them in."
        if lost:
            advice += f" Nothing could be kept of trial {', '.join(lost)}: tell it by hand."
        return Unwritten(
            f"{many} could not be written: {'; '.join(map(str, entries))}.{advice} The reason: {cause}",
            {entry.number: entry.values for entry in entries if entry.values is not None},
            {entry.number: entry.failure for entry in entries if entry.values is None},
            files,
        )
