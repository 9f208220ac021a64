"""Evaluate many points at once: executors of `concurrent.futures`, ours or the user's, and the crew that uses them.

This floor imports neither torch nor the rest of the library: it is what a worker process loads.
"""

import contextlib
import logging
import math
import multiprocessing
import pickle
import queue
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import (
    BrokenExecutor,
    CancelledError,
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
)
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from pied.errors import EvaluationError, MissingExtra, SettingError, did_you_mean

logger = logging.getLogger(__name__)

STEP = 0.5
"""Seconds between looks at the clock while waiting, so that Ctrl-C and timeouts are noticed."""
PATIENCE = 60.0
"""Seconds during which an evaluation that the executor lost is submitted again: a scheduler restarts in less."""
LOSSES = 20
"""How often one evaluation may be lost in all: perhaps it is what brings the executor down."""
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0
"""Seconds between such attempts: the first one, doubled each time, and the longest."""


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
    """Processes that evaluate one point at a time: the death of one fails its own point only, and one that takes too
    long is killed. As many are started as are needed at once, and used again.
    """

    def __init__(self) -> None:
        self._context = multiprocessing.get_context("spawn")  # forking a process that has threads is not safe
        self._idle: list[_Worker] = []
        self._busy: dict[Future[Any], _Worker] = {}
        self._since: dict[Future[Any], float] = {}
        self._lock = threading.Lock()  # a process is either idle or busy, also while another thread looks

    def submit(self, fn: Callable[..., Any], /, *args: Any, **words: Any) -> "Future[Any]":
        """Give work to an idle process, or to a new one."""
        future: Future[Any] = Future()
        with self._lock:
            worker = self._busy[future] = self._idle.pop() if self._idle else _Worker(self._context)

        def work() -> None:
            is_alive = True
            try:
                worker.wait_until_ready()
                self._since[future] = time.monotonic()
                is_fine, value = worker.do(fn, args, words)
            except (EOFError, OSError):
                is_alive = False
                is_fine, value = False, f"the worker process died (exit code {worker.end()})"
            except Exception as error:  # what cannot be sent
                is_fine, value = False, str(error)
            with self._lock:
                self._busy.pop(future, None)
                self._since.pop(future, None)
                if is_alive and not worker.is_killed:
                    self._idle.append(worker)
            if not future.set_running_or_notify_cancel():  # nobody waits for it any more
                return
            if is_fine:
                future.set_result(value)
            else:
                future.set_exception(WorkerDied(value))

        threading.Thread(target=work, daemon=True, name="pied worker").start()
        return future

    def since(self, future: "Future[Any]") -> float | None:
        """When the evaluation began, monotonic seconds; None while its process is starting."""
        return self._since.get(future)

    def stop(self, future: "Future[Any]") -> bool:
        """Kill the process of an evaluation."""
        with self._lock:
            worker = self._busy.get(future)
            if worker is not None:
                worker.kill()
        return True

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End all processes."""
        with self._lock:
            for worker in [*self._idle, *self._busy.values()]:
                worker.kill()
            self._idle.clear()


class _Worker:
    """A process and the pipe to it."""

    def __init__(self, context: Any) -> None:
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs,), daemon=False)
        self._process.start()
        theirs.close()
        self._is_ready = False
        self.is_killed = False

    def wait_until_ready(self) -> None:
        if not self._is_ready:
            self._pipe.recv()
            self._is_ready = True

    def do(self, fn: Callable[..., Any], args: Any, words: Any) -> tuple[bool, Any]:
        self._pipe.send((fn, args, words))
        return self._pipe.recv()

    def kill(self) -> None:
        self.is_killed = True
        self._process.kill()

    def end(self) -> int | None:
        self._process.join()
        return self._process.exitcode


def _serve(pipe: Connection) -> None:
    """Evaluate what comes until no more does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the main process, which ends this one
    pipe.send("ready")
    while True:
        try:
            fn, args, words = pipe.recv()
        except EOFError:
            return
        except Exception as error:
            pipe.send((False, f"the black box cannot be read by a worker process: {type(error).__name__}: {error}"))
            continue
        value = fn(*args, **words)
        try:
            pipe.send((True, value))
        except Exception as error:
            pipe.send((False, f"the answer cannot be sent back: {error}"))


class WorkerDied(RuntimeError):
    """A worker process ended without an answer."""


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
    lost: str | None = None
    """Why it was not evaluated, where the executor is to blame: the trial stays pending."""


@dataclass
class _Job:
    key: Any
    x: Any
    began: float = 0.0
    is_second: bool = False
    lost: float | None = None
    """When the executor lost it first, monotonic seconds."""
    losses: int = 0
    pause: float = FIRST_PAUSE
    due: float = 0.0
    """When it is submitted again."""
    reason: str = ""
    """Why it is not submitted again."""


def call(blackbox: Callable[[Any], Any], x: Any) -> tuple[bool, Any]:
    """Call the black box; what it raises comes back as text, which every process can read.

    Everything but Ctrl-C is a failure of the black box, `sys.exit()` too: a simulator that gives up ends no run.
    """
    try:
        return True, blackbox(x)
    except KeyboardInterrupt:
        raise
    except EvaluationError as error:  # already in the user's words
        return False, str(error)
    except SystemExit as error:
        return False, f"The black box called sys.exit({_said(error)})"
    except BaseException as error:
        return False, f"The black box raised {type(error).__name__}: {_said(error)}"


def _said(error: BaseException) -> str:
    """Return the text of an exception, also of one that has none to show."""
    try:
        return str(error)
    except Exception as second:
        return f"(its text cannot be shown: {type(second).__name__})"


def _is_infrastructure(error: BaseException | None) -> bool:
    """Whether an evaluation was lost on the way: what a black box raises comes back as text, never as an exception.

    A worker of Dask that dies again and again on one task (`KilledWorker`) is the black box's doing; so are answers
    that cannot be sent.
    """
    if error is None or isinstance(error, CancelledError | OSError):
        return True
    kind = type(error)
    is_cancelled = kind.__name__ in ("CancelledError", "FutureCancelledError")  # asyncio's is another class
    return is_cancelled or (kind.__module__.startswith("distributed") and kind.__name__ != "KilledWorker")


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
        self._lost: list[_Job] = []  # to be submitted again
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
        return len(self._jobs) + len(self._lost)

    def submit(self, key: Any, x: Any) -> None:
        """Begin an evaluation."""
        self._submit(_Job(key, x))

    def _submit(self, job: _Job) -> None:
        try:
            future = self._executor.submit(call, self._blackbox, job.x)
        except BrokenExecutor:
            self._refresh()
            future = self._executor.submit(call, self._blackbox, job.x)
        except Exception as error:  # an executor that is shut down or not reached
            self._again_later(job, f"{type(error).__name__}: {_said(error)}")
            return
        job.began = time.monotonic()
        self._jobs[future] = job
        future.add_done_callback(self._done.put)

    def wait(self) -> Outcome | None:
        """Return the next outcome; None after a moment without one."""
        for due in [each for each in self._lost if each.due <= time.monotonic()]:
            self._lost.remove(due)
            self._submit(due)
        given_up = next((each for each in self._lost if each.reason), None)
        if given_up is not None:
            self._lost.remove(given_up)
            return Outcome(given_up.key, lost=given_up.reason)
        if not self.busy:
            return None
        pause = min(
            [STEP, *(each.pause for each in self._lost), *(max(0.0, self._left(*each)) for each in self._jobs.items())]
        )
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
        if future.cancelled() or (error is not None and _is_infrastructure(error)):
            self._again_later(job, f"{type(error).__name__}: {_said(error)}" if error else "the executor cancelled it")
            return None
        if isinstance(error, WorkerDied):
            return Outcome(job.key, failure=f"The evaluation ended without an answer: {error}.")
        if error is not None:
            if not isinstance(error, Exception):
                raise error
            return Outcome(job.key, failure=f"The evaluation failed: {type(error).__name__}: {_said(error)}")
        is_fine, value = future.result()
        return Outcome(job.key, answer=value) if is_fine else Outcome(job.key, failure=value)

    def _again_later(self, job: _Job, reason: str) -> None:
        """Submit a lost evaluation again after a pause; give it up when the executor has been away for long."""
        now = time.monotonic()
        job.losses += 1
        if job.lost is None or now - job.began > PATIENCE:  # the first time, or it had been under way for long
            job.lost, job.pause = now, FIRST_PAUSE
        if now - job.lost + job.pause > PATIENCE or job.losses > LOSSES:
            job.reason, job.due = reason, math.inf
        else:
            logger.warning("an evaluation was lost (%s); it is submitted again in %.1f s", reason, job.pause)
            job.due, job.pause = now + job.pause, min(2.0 * job.pause, LONGEST_PAUSE)
        self._lost.append(job)

    def _late(self) -> Outcome | None:
        """Give up one evaluation that has taken too long."""
        for future, job in list(self._jobs.items()):
            if self._left(future, job) <= 0 and not future.done():
                del self._jobs[future]
                if not self._stop(future):
                    self._refresh()  # its worker is still held
                return Outcome(job.key, failure=f"The evaluation took longer than {self._timeout:g} s.")
        return None

    def _left(self, future: "Future[Any]", job: _Job) -> float:
        """Seconds that an evaluation may still take; starting a process of ours does not count."""
        if self._timeout is None:
            return math.inf
        since = self._executor.since(future) if isinstance(self._executor, Processes) else job.began
        return math.inf if since is None else since + self._timeout - time.monotonic()

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
