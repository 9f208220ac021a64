"""All runs of a plan: finished ones are skipped, interrupted ones continued, failed ones written down."""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pied.bench import origin
from pied.bench.ledger import Ledger, file_of
from pied.bench.plan import Task
from pied.bench.runs import FAILED, Run, perform
from pied.errors import SettingError
from pied.evaluation import Processes, Serial

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")
"""What libraries of linear algebra read when they are loaded."""
STEP = 1.0
"""Seconds between looks at the clock."""


@dataclass(frozen=True)
class Step:
    """One more is done."""

    task: Task
    error: str
    done: int
    all: int
    gone: float
    left: float
    """Seconds, as far as one can tell from what is done."""


@dataclass
class Outcome:
    """What came of a plan."""

    skipped: int = 0
    """Finished before."""
    done: int = 0
    failed: list[str] = field(default_factory=list)
    """A line each."""
    left: int = 0
    """Not done: there was an interruption or the time was up."""
    seconds: float = 0.0
    """Of this process."""
    core_seconds: float = 0.0
    """Of the runs, added up."""
    is_interrupted: bool = False


Observer = Callable[[Step], None]
Job = Callable[[Any, Any], Any]


def run(
    tasks: Sequence[Task],
    store: str | Path,
    *,
    workers: int = 1,
    executor: Executor | None = None,
    again: bool = False,
    on_step: Observer | None = None,
) -> Outcome:
    """Do what is left of a plan.

    Args:
        tasks: The runs, in order.
        store: SQLite file: one study per run, and how each ended.
        workers: Processes, or how many runs an executor is given at once; 1 without an executor stays in this process.
        executor: Any executor of `concurrent.futures`, for instance `executors.dask(client)`; its workers must reach
            the store's file.
        again: Whether runs that failed are tried again; they go on from their last trial.
        on_step: Called after each run.
    """
    if workers < 1:
        raise SettingError(f"workers counts processes from 1, got {workers}")
    place = str(file_of(store).absolute())
    outcome, began = Outcome(), time.monotonic()
    with Ledger(place) as ledger:
        known = ledger.entries()
        todo = []
        for task in tasks:
            entry = known.get(task.name)
            if entry is not None and (entry.satisfies(task) or (entry.ended == FAILED and not again)):
                outcome.skipped += 1
            else:
                todo.append(task)
        progress = Pace(todo, workers)
        for task, value, error in each(todo, done_in_store, place, workers, executor, outcome):
            if value is None:
                ledger.write(Run(task, (), FAILED, error, made=origin.made()))
            else:
                error, spent = value
                outcome.core_seconds += spent
            outcome.done += 1
            if error:
                outcome.failed.append(f"{task.name}: {error}")
            if on_step is not None:
                on_step(progress.step(task, error))
    outcome.left = len(todo) - outcome.done
    outcome.seconds = time.monotonic() - began
    return outcome


def done_in_store(task: Task, store: str) -> tuple[str, float]:
    """Run a task in a store and write down how it ended; return its error and the seconds it spent."""
    made = perform(task, store)
    with Ledger(store) as ledger:
        ledger.write(made)
    return made.error, made.spent


class Pace:
    """How long the rest will take: by the rough costs of tasks, and the time they took so far."""

    def __init__(self, todo: Sequence[Task], workers: int) -> None:
        self.all, self.done, self.workers = len(todo), 0, workers
        self.total, self.spent = sum(task.cost for task in todo), 0.0
        self.began = time.monotonic()

    def step(self, task: Task, error: str = "") -> Step:
        """Count one more."""
        self.done += 1
        self.spent += task.cost
        gone = time.monotonic() - self.began
        return Step(task, error, self.done, self.all, gone, gone * (self.total - self.spent) / max(self.spent, 1e-9))


# --- Many at once -----------------------------------------------------------------------------------------------------


def each(
    todo: Sequence[Any],
    job: Job,
    word: Any,
    workers: int,
    executor: Executor | None = None,
    outcome: Outcome | None = None,
    until: float | None = None,
) -> Iterator[tuple[Any, Any, str]]:
    """Yield (item, job(item, word), "") in the order of completion, or (item, None, what went wrong).

    Processes are reused, have one thread each, and the death of one costs its own item alone.

    Args:
        todo: Items.
        job: A function of the top of a module, so that processes find it.
        word: Its second argument.
        workers: How many at once.
        executor: Where; processes of our own by default, this process for one worker.
        outcome: Told when there was an interruption.
        until: Monotonic seconds after which nothing is waited for.
    """
    own: Executor | None = None
    if executor is None:
        executor = own = Serial() if workers == 1 and until is None else Processes()
    waiting = list(todo)
    busy: dict[Future[Any], Any] = {}
    try:
        with _single_threaded():
            while (waiting or busy) and (until is None or time.monotonic() < until):
                while waiting and len(busy) < workers:
                    item = waiting.pop(0)
                    busy[executor.submit(job, item, word)] = item
                    if isinstance(executor, Serial):
                        break
                for future in wait(busy, timeout=STEP, return_when=FIRST_COMPLETED).done:
                    item = busy.pop(future)
                    value, error = _answer(future)
                    yield item, value, error
    except KeyboardInterrupt:
        if outcome is None:
            raise
        outcome.is_interrupted = True
    finally:
        for future in busy:
            future.cancel()
        if own is not None:
            own.shutdown(wait=False, cancel_futures=True)


def _answer(future: "Future[Any]") -> tuple[Any, str]:
    try:
        return future.result(), ""
    except Exception as error:
        return None, f"{type(error).__name__}: {error}"


@contextmanager
def _single_threaded() -> Iterator[None]:
    """Let processes that start now use one thread each."""
    before = {name: os.environ.get(name) for name in THREADS}
    os.environ.update(dict.fromkeys(THREADS, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
