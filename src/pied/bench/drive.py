"""Perform all tasks of a plan: skip finished ones, continue interrupted ones, record failures."""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from typing import Any

from pied.bench import origin
from pied.bench.ledger import Ledger, file_of
from pied.bench.plan import Task
from pied.bench.runs import FAILED, Case, perform
from pied.errors import SettingError
from pied.evaluation import Processes, Serial

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")
"""Environment variables that libraries of linear algebra read when they are loaded."""
POLL_SECONDS = 1.0
"""Between checks of the time limit."""


@dataclass(frozen=True)
class Step:
    """Progress after one more task."""

    task: Any
    error: str
    done: int
    all: int
    gone: float
    left: float
    """Seconds, estimated from the finished tasks."""

    def __str__(self) -> str:
        return f"{self.done} of {self.all} runs, {_clock(self.gone)} gone, about {_clock(self.left)} left"


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}"


@dataclass
class Summary:
    """How the tasks of a plan ended."""

    skipped: int = 0
    """Finished before."""
    done: int = 0
    failed: list[str] = field(default_factory=list)
    """One line per task."""
    left: int = 0
    """Not performed, because of an interruption or a time limit."""
    seconds: float = 0.0
    """Of this process."""
    core_seconds: float = 0.0
    """Of all tasks together."""
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
) -> Summary:
    """Perform the unfinished tasks of a plan.

    Args:
        tasks: In order.
        store: SQLite file with one study per task, and how each ended.
        workers: Processes, or tasks submitted to an executor at once; 1 without an executor stays in this process.
        executor: Any executor of `concurrent.futures`, for instance `executors.dask(client)`; its workers must reach
            the store's file.
        again: Whether failed tasks are continued from their last trial.
        on_step: Called after each task.
    """
    if workers < 1:
        raise SettingError(f"workers counts processes from 1, got {workers}")
    place = str(file_of(store).absolute())
    summary, began = Summary(), time.monotonic()
    with Ledger(place) as ledger:
        known = ledger.entries()
        todo = []
        for task in tasks:
            entry = known.get(task.name)
            if entry is not None and (entry.satisfies(task) or (entry.ended == FAILED and not again)):
                summary.skipped += 1
            else:
                todo.append(task)
        progress = Pace(todo)
        for task, value, error in each(todo, done_in_store, place, workers, executor, summary):
            if value is None:
                ledger.write(Case(task, (), FAILED, error, made=origin.made()))
            else:
                error, spent = value
                summary.core_seconds += spent
            summary.done += 1
            if error:
                summary.failed.append(f"{task.name}: {error}")
            if on_step is not None:
                on_step(progress.step(task, error))
    summary.left = len(todo) - summary.done
    summary.seconds = time.monotonic() - began
    return summary


def done_in_store(task: Task, store: str) -> tuple[str, float]:
    """Perform a task in a store and record how it ended; return its error and the seconds it took."""
    made = perform(task, store)
    with Ledger(store) as ledger:
        ledger.write(made)
    return made.error, made.spent


class Pace:
    """Estimates the remaining time from the rough costs of tasks and the time taken so far."""

    def __init__(self, todo: Sequence[Any], cost: Callable[[Any], float] = attrgetter("cost")) -> None:
        self.all, self.done, self.cost = len(todo), 0, cost
        self.total, self.spent = sum(map(cost, todo)), 0.0
        self.began = time.monotonic()

    def step(self, task: Any, error: str = "") -> Step:
        """Count one more task."""
        self.done += 1
        self.spent += self.cost(task)
        gone = time.monotonic() - self.began
        return Step(task, error, self.done, self.all, gone, gone * (self.total - self.spent) / max(self.spent, 1e-9))


# --- Many at once -----------------------------------------------------------------------------------------------------


def each(
    todo: Sequence[Any],
    job: Job,
    second: Any,
    workers: int,
    executor: Executor | None = None,
    summary: Summary | None = None,
    until: float | None = None,
) -> Iterator[tuple[Any, Any, str]]:
    """Yield (item, job(item, second), "") in the order of completion, or (item, None, the error).

    Processes are reused and have one thread each; if one dies, only its item is lost.

    Args:
        todo: Items.
        job: A function at the top level of a module, so that processes find it.
        second: Its second argument.
        workers: How many at once.
        executor: By default our own processes, or this process for one worker.
        summary: Records an interruption.
        until: Time limit, on the monotonic clock.
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
                    busy[executor.submit(job, item, second)] = item
                    if isinstance(executor, Serial):
                        break
                for future in wait(busy, timeout=POLL_SECONDS, return_when=FIRST_COMPLETED).done:
                    item = busy.pop(future)
                    value, error = _answer(future)
                    yield item, value, error
    except KeyboardInterrupt:
        if summary is None:
            raise
        summary.is_interrupted = True
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
    """Make processes that start in this context use one thread each."""
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
