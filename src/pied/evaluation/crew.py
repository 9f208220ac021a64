"""Evaluate a black box at several points at once, and hand back what came of each evaluation.

Only the black box can fail a trial. An evaluation that the executor lost (a cancelled task, a closed connection, a
restarted scheduler) is submitted again, or reported as lost so that its trial stays pending.
"""

import contextlib
import logging
import math
import pickle
import queue
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future
from dataclasses import dataclass
from typing import Any

from pied.errors import LAST_WORDS, EvaluationError, SettingError, did_you_mean, is_everywhere
from pied.evaluation.command import Command
from pied.evaluation.executors import NAMED, Serial, Threads
from pied.evaluation.listening import listening
from pied.evaluation.processes import Processes, WorkerDied

logger = logging.getLogger(__name__)

POLL = 0.5
"""Seconds between checks of the clock while waiting, so that Ctrl-C and timeouts are noticed."""
RESUBMIT_FOR = 60.0
"""Seconds during which a lost evaluation is submitted again; a scheduler restarts in less."""
MOST_LOSSES = 20
"""How often one evaluation may be lost in all; it may be what brings the executor down."""
GRACE = 5.0
"""Seconds after which a program that ends itself at its timeout is given up."""
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0
"""Seconds between such attempts: the first pause, doubled each time, and the longest."""


@dataclass(frozen=True)
class Outcome:
    """The end of one evaluation: an answer, a failure of the black box, or a loss by the executor."""

    key: Any
    answer: Any = None
    failure: str | None = None
    """Why there is no answer."""
    lost: str | None = None
    """Why it was not evaluated, if the executor is the cause; the trial stays pending."""


@dataclass
class _Job:
    key: Any
    x: Any
    words: dict[str, Any]
    """What the black box is offered beside the point."""
    began: float = 0.0
    is_second: bool = False
    tries: int = 0
    """How often the black box has failed."""
    lost: float | None = None
    """When the executor first lost it, in monotonic seconds."""
    losses: int = 0
    pause: float = FIRST_PAUSE
    due: float = 0.0
    """When it is submitted again."""
    reason: str = ""
    """Why it is not submitted again."""


def call(blackbox: Callable[..., Any], x: Any, words: dict[str, Any]) -> tuple[bool, Any]:
    """Call the black box; an exception comes back as text, which every process can read.

    Everything except Ctrl-C is a failure of the black box, including `sys.exit()`.
    """
    with listening() as heard:
        try:
            return True, blackbox(x, **words)
        except KeyboardInterrupt:
            raise
        except EvaluationError as error:  # already in the user's words
            reason = str(error)
        except SystemExit as error:
            reason = f"The black box called sys.exit({_said(error)})"
        except BaseException as error:
            reason = f"The black box raised {type(error).__name__}: {_said(error)}"
    return False, reason if isinstance(blackbox, Command) else heard.after(reason)


def _said(error: BaseException) -> str:
    """Return the text of an exception, even if making that text raises."""
    try:
        return str(error)
    except Exception as second:
        return f"(its text cannot be shown: {type(second).__name__})"


def _is_infrastructure(error: BaseException | None) -> bool:
    """Tell whether the executor lost an evaluation. Exceptions of the black box arrive as text, so they are not meant.

    A Dask worker that dies repeatedly on one task (`KilledWorker`) is a failure of the black box, and so is an answer
    that cannot be sent.
    """
    if error is None or isinstance(error, CancelledError | OSError):
        return True
    kind = type(error)
    is_cancelled = kind.__name__ in ("CancelledError", "FutureCancelledError")  # asyncio's is another class
    return is_cancelled or (kind.__module__.startswith("distributed") and kind.__name__ != "KilledWorker")


class Crew:
    """Evaluate a black box at a few points at a time, and return outcomes in order of completion.

    When a pool breaks because one of its processes died, the running evaluations are repeated once, each in its own
    process. An evaluation whose process dies again has failed.
    """

    def __init__(
        self,
        blackbox: Callable[[Any], Any],
        *,
        executor: Executor | str | None = None,
        workers: int | None = None,
        timeout: float | None = None,
        retries: int = 0,
    ) -> None:
        if workers is not None and workers < 1:
            raise SettingError(f"workers counts from 1, got {workers}")
        if timeout is not None and not timeout > 0:
            raise SettingError(f"timeout is a number of seconds above 0, got {timeout}")
        if retries < 0:
            raise SettingError(f"retries counts further attempts, 0 or more, got {retries}")
        if isinstance(executor, str) and executor not in NAMED:
            raise SettingError(f"unknown executor '{executor}'.{did_you_mean(executor, NAMED)}")
        self._program = None
        if isinstance(blackbox, Command) and timeout is not None:  # a program can be ended, and tell its last words
            blackbox = self._program = blackbox.within(timeout)
            timeout = timeout * (1 + blackbox.retries) + GRACE
        if executor == "serial" and (workers or 1) > 1:
            raise SettingError("the executor 'serial' has one worker: use 'threads' or 'processes'")
        if executor == "serial" and timeout is not None:
            executor = "threads"  # one after the other, but a late one can be abandoned
            workers = 1
        if executor is None:
            workers = workers or 1
            executor = "serial" if (workers or 1) == 1 and timeout is None else "threads"
        self._is_own = isinstance(executor, str)
        self._executor = NAMED[executor]() if isinstance(executor, str) else executor
        if isinstance(self._executor, Processes) or _is_pool(self._executor, "process"):
            _check_sendable(blackbox)
        self.workers = workers or (1 if isinstance(self._executor, Serial) else 2)
        self._blackbox, self._timeout, self._retries = blackbox, timeout, retries
        self._jobs: dict[Future[Any], _Job] = {}
        self._lost: list[_Job] = []  # to be submitted again
        self._done: queue.SimpleQueue[Future[Any]] = queue.SimpleQueue()

    def __enter__(self) -> "Crew":
        return self

    def __exit__(self, *raised: object) -> None:
        for future in self._jobs:
            self._stop(future)
        if self._program is not None:
            self._program.stop()
        if self._is_own:
            self._executor.shutdown(wait=False)

    @property
    def busy(self) -> int:
        """Number of running evaluations."""
        return len(self._jobs) + len(self._lost)

    def submit(self, key: Any, x: Any, words: dict[str, Any] | None = None) -> None:
        """Start an evaluation at a point, with words that the black box takes beside it."""
        self._submit(_Job(key, x, words or {}))

    def _submit(self, job: _Job) -> None:
        try:
            future = self._executor.submit(call, self._blackbox, job.x, job.words)
        except BrokenExecutor:
            self._refresh()
            future = self._executor.submit(call, self._blackbox, job.x, job.words)
        except Exception as error:  # the executor is shut down or cannot be reached
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
            [POLL, *(each.pause for each in self._lost), *(max(0.0, self._left(*each)) for each in self._jobs.items())]
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
            return self._failed(job, f"The evaluation ended without an answer: {error}.")
        if error is not None:
            if not isinstance(error, Exception):
                raise error
            return self._failed(job, f"The evaluation failed: {type(error).__name__}: {_said(error)}")
        is_fine, value = future.result()
        return Outcome(job.key, answer=value) if is_fine else self._failed(job, value)

    def _failed(self, job: _Job, reason: str) -> Outcome | None:
        """Try a failed evaluation again, unless it has been, or the failure cannot depend on luck."""
        job.tries += 1
        if job.tries > self._retries or is_everywhere(reason):
            why, said, last = reason.partition(LAST_WORDS)
            return Outcome(job.key, failure=why + (f" ({job.tries} attempts)" if job.tries > 1 else "") + said + last)
        logger.warning("trial %s: %s; it is tried again", job.key, reason)
        self._submit(job)
        return None

    def _again_later(self, job: _Job, reason: str) -> None:
        """Submit a lost evaluation again after a pause; give up when the executor has been away too long."""
        now = time.monotonic()
        job.losses += 1
        if job.lost is None or now - job.began > RESUBMIT_FOR:  # the first loss, or it had been running for long
            job.lost, job.pause = now, FIRST_PAUSE
        if now - job.lost + job.pause > RESUBMIT_FOR or job.losses > MOST_LOSSES:
            job.reason, job.due = reason, math.inf
        else:
            logger.warning("an evaluation was lost (%s); it is submitted again in %.1f s", reason, job.pause)
            job.due, job.pause = now + job.pause, min(2.0 * job.pause, LONGEST_PAUSE)
        self._lost.append(job)

    def _late(self) -> Outcome | None:
        """End one evaluation that has exceeded the timeout."""
        for future, job in list(self._jobs.items()):
            if self._left(future, job) <= 0 and not future.done():
                del self._jobs[future]
                if not self._stop(future):
                    self._refresh()  # its worker is still blocked
                return self._failed(job, f"The evaluation took longer than {self._timeout:g} s.")
        return None

    def _left(self, future: "Future[Any]", job: _Job) -> float:
        """Return how many seconds an evaluation has left; the start of a worker process does not count."""
        if self._timeout is None:
            return math.inf
        since = self._executor.since(future) if isinstance(self._executor, Processes) else job.began
        return math.inf if since is None else since + self._timeout - time.monotonic()

    def _stop(self, future: "Future[Any]") -> bool:
        stop = getattr(self._executor, "stop", None)
        return stop(future) if stop is not None else future.cancel()

    def _refresh(self) -> None:
        """Replace an executor that is broken or has a worker that cannot be stopped."""
        if self._is_own:
            return
        if _is_pool(self._executor, "thread"):
            self._executor = Threads()
        elif _is_pool(self._executor, "process"):
            self._executor = Processes()
        else:
            return
        self._is_own = True
        logger.warning("the executor lost a worker; the run goes on with %s of its own", type(self._executor).__name__)


def _is_pool(executor: Executor, kind: str) -> bool:
    """Tell whether it is a pool of Python's own, of threads or of processes, without loading either."""
    return any(each.__module__ == f"concurrent.futures.{kind}" for each in type(executor).__mro__)


def _check_sendable(blackbox: Any) -> None:
    """Refuse early a black box that cannot be sent to another process."""
    try:
        pickle.dumps(blackbox)
    except Exception as error:
        raise SettingError(
            f"the black box cannot be sent to other processes ({error}): define it at the top of a module, "
            "or use executor='threads'"
        ) from error


@contextlib.contextmanager
def every(seconds: float, call: Callable[[], None]) -> Iterator[None]:
    """Call a function repeatedly in the background; its exceptions are logged."""
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
