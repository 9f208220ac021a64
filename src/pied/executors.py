"""Evaluate many points at once: executors of `concurrent.futures`, ours or the user's, and the crew that uses them.

This floor imports neither torch nor the rest of the library: it is what a worker process loads.
"""

import contextlib
import logging
import multiprocessing
import pickle
import queue
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from pied.errors import MissingExtra, SettingError, did_you_mean

logger = logging.getLogger(__name__)

STEP = 0.5
"""Seconds between looks at the clock while waiting, so that Ctrl-C and timeouts are noticed."""


class Serial(Executor):
    """Evaluate at once, in this thread."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **words: Any) -> "Future[Any]":
        """Call the function and return what it gave."""
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **words))
        except Exception as error:
            future.set_exception(error)
        return future


class Threads(Executor):
    """One thread for each evaluation; one that takes too long is left alone and holds nobody up, not even the exit."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **words: Any) -> "Future[Any]":
        """Start a thread."""
        future: Future[Any] = Future()

        def work() -> None:
            try:
                future.set_result(fn(*args, **words))
            except BaseException as error:
                future.set_exception(error)

        threading.Thread(target=work, daemon=True, name="pied evaluation").start()
        return future

    def stop(self, future: "Future[Any]") -> bool:
        """Leave an evaluation alone: its place is free already."""
        return True


class Processes(Executor):
    """One process for each evaluation: the death of one concerns no other, and one that takes too long is killed."""

    def __init__(self, method: str = "spawn") -> None:
        self._context = multiprocessing.get_context(method)
        self._processes: dict[Future[Any], Any] = {}

    def submit(self, fn: Callable[..., Any], /, *args: Any, **words: Any) -> "Future[Any]":
        """Start a process."""
        future: Future[Any] = Future()
        ours, theirs = self._context.Pipe(duplex=False)
        process = self._context.Process(target=_answer, args=(theirs, fn, args, words))  # type: ignore[attr-defined]
        process.start()
        theirs.close()
        self._processes[future] = process

        def work() -> None:
            try:
                is_fine, value = ours.recv()
                process.join()
            except (EOFError, OSError):
                process.join()
                is_fine, value = False, f"the worker process died (exit code {process.exitcode})"
            self._processes.pop(future, None)
            if is_fine:
                future.set_result(value)
            else:
                future.set_exception(WorkerDied(value))

        threading.Thread(target=work, daemon=True, name="pied worker").start()
        return future

    def stop(self, future: "Future[Any]") -> bool:
        """Kill the process of an evaluation."""
        process = self._processes.get(future)
        if process is not None:
            process.kill()
        return True

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Kill what still runs."""
        for future in list(self._processes):
            self.stop(future)


class WorkerDied(RuntimeError):
    """A worker process ended without an answer."""


def _answer(pipe: Connection, fn: Callable[..., Any], args: Any, words: Any) -> None:
    """Evaluate in a process of its own, and send what came out."""
    value = fn(*args, **words)
    try:
        pipe.send((True, value))
    except Exception as error:
        pipe.send((False, f"the answer cannot be sent back: {error}"))


def dask(client: Any) -> Executor:
    """Return an executor on a Dask cluster.

    Two evaluations at the same point stay two (`pure=False`): Dask would otherwise take the second from the first.

    Args:
        client: A `distributed.Client`, or the address of a scheduler ("tcp://host:8786").
    """
    try:
        from distributed import Client
    except ImportError as error:
        raise MissingExtra("executors.dask", "distributed", "dask") from error
    if not isinstance(client, Client):
        client = Client(client)
    return client.get_executor(pure=False)


NAMED: dict[str, Callable[[], Executor]] = {"serial": Serial, "threads": Threads, "processes": Processes}
"""Executors by name."""


@dataclass(frozen=True)
class Outcome:
    """What came of one evaluation."""

    key: Any
    answer: Any = None
    failure: str | None = None
    """Why there is no answer."""


@dataclass
class _Job:
    key: Any
    x: Any
    deadline: float | None
    is_second: bool = False


def call(blackbox: Callable[[Any], Any], x: Any) -> tuple[bool, Any]:
    """Call the black box; what it raises comes back as text, which every process can read."""
    try:
        return True, blackbox(x)
    except Exception as error:
        return False, f"The black box raised {type(error).__name__}: {error}"


class Crew:
    """Evaluates points of a black box, a few at a time, and hands back outcomes in order of completion.

    When a pool breaks, because one of its processes died, what was under way is evaluated once more, each in a process
    of its own; whoever dies there has failed.
    """

    def __init__(
        self,
        blackbox: Callable[[Any], Any],
        *,
        executor: Executor | str | None = None,
        workers: int | None = None,
        timeout: float | None = None,
    ) -> None:
        if workers is not None and workers < 1:
            raise SettingError(f"workers counts from 1, got {workers}")
        if timeout is not None and not timeout > 0:
            raise SettingError(f"timeout is a number of seconds above 0, got {timeout}")
        if isinstance(executor, str) and executor not in NAMED:
            raise SettingError(f"unknown executor '{executor}'.{did_you_mean(executor, NAMED)}")
        if executor is None:
            executor = "serial" if (workers or 1) == 1 and timeout is None else "threads"
        self._is_own = isinstance(executor, str)
        self._executor = NAMED[executor]() if isinstance(executor, str) else executor
        if executor == "serial" and ((workers or 1) > 1 or timeout is not None):
            raise SettingError("the executor 'serial' has one worker and no timeout: use 'threads' or 'processes'")
        if isinstance(self._executor, Processes | ProcessPoolExecutor):
            _check_sendable(blackbox)
        self.workers = workers or (1 if isinstance(self._executor, Serial) else 2)
        self._blackbox, self._timeout = blackbox, timeout
        self._jobs: dict[Future[Any], _Job] = {}
        self._done: queue.SimpleQueue[Future[Any]] = queue.SimpleQueue()

    def __enter__(self) -> "Crew":
        return self

    def __exit__(self, *raised: object) -> None:
        for future in self._jobs:
            self._stop(future)
        if self._is_own:
            self._executor.shutdown(wait=False)

    @property
    def busy(self) -> int:
        """How many evaluations are under way."""
        return len(self._jobs)

    def submit(self, key: Any, x: Any) -> None:
        """Begin an evaluation."""
        self._submit(_Job(key, x, None))

    def _submit(self, job: _Job) -> None:
        job.deadline = None if self._timeout is None else time.monotonic() + self._timeout
        try:
            future = self._executor.submit(call, self._blackbox, job.x)
        except BrokenExecutor:
            self._refresh()
            future = self._executor.submit(call, self._blackbox, job.x)
        self._jobs[future] = job
        future.add_done_callback(self._done.put)

    def wait(self) -> Outcome | None:
        """Return the next outcome; None after a moment without one."""
        if not self.busy:
            return None
        deadlines = [job.deadline for job in self._jobs.values() if job.deadline is not None]
        pause = min([STEP, *(max(0.0, each - time.monotonic()) for each in deadlines)])
        try:
            future = self._done.get(timeout=pause)
        except queue.Empty:
            return self._late()
        job = self._jobs.pop(future, None)
        return None if job is None else self._outcome(future, job)

    def _outcome(self, future: "Future[Any]", job: _Job) -> Outcome | None:
        error = None if future.cancelled() else future.exception()
        if isinstance(error, BrokenExecutor) and not job.is_second:
            self._refresh()
            job.is_second = True
            self._submit(job)
            return None
        if future.cancelled():
            return Outcome(job.key, failure="The evaluation was cancelled.")
        if isinstance(error, WorkerDied):
            return Outcome(job.key, failure=f"The evaluation ended without an answer: {error}.")
        if error is not None:
            if not isinstance(error, Exception):
                raise error
            return Outcome(job.key, failure=f"The evaluation failed: {type(error).__name__}: {error}")
        is_fine, value = future.result()
        return Outcome(job.key, answer=value) if is_fine else Outcome(job.key, failure=value)

    def _late(self) -> Outcome | None:
        """Give up one evaluation that has taken too long."""
        now = time.monotonic()
        for future, job in list(self._jobs.items()):
            if job.deadline is not None and now >= job.deadline and not future.done():
                del self._jobs[future]
                if not self._stop(future):
                    self._refresh()  # its worker is still held
                return Outcome(job.key, failure=f"The evaluation took longer than {self._timeout:g} s.")
        return None

    def _stop(self, future: "Future[Any]") -> bool:
        stop = getattr(self._executor, "stop", None)
        return stop(future) if stop is not None else future.cancel()

    def _refresh(self) -> None:
        """Replace an executor that broke, or has a worker that cannot be stopped."""
        if self._is_own:
            return
        if isinstance(self._executor, ThreadPoolExecutor):
            self._executor = Threads()
        elif isinstance(self._executor, ProcessPoolExecutor):
            self._executor = Processes()
        else:
            return
        self._is_own = True
        logger.warning("the executor lost a worker; the run goes on with %s of its own", type(self._executor).__name__)


def _check_sendable(blackbox: Any) -> None:
    """Refuse early what no other process can receive."""
    try:
        pickle.dumps(blackbox)
    except Exception as error:
        raise SettingError(
            f"the black box cannot be sent to other processes ({error}): define it at the top of a module, "
            "or use executor='threads'"
        ) from error


@contextlib.contextmanager
def every(seconds: float, call: Callable[[], None]) -> Iterator[None]:
    """Do something again and again, beside what is done meanwhile; what it raises is logged."""
    ended = threading.Event()

    def work() -> None:
        while not ended.wait(seconds):
            try:
                call()
            except Exception as error:
                logger.warning("leases could not be renewed: %s", error)

    thread = threading.Thread(target=work, daemon=True, name="pied leases")
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
