"""Worker processes that evaluate one point at a time.

A worker process loads this module and the black box only.
"""

import os
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any

KILL_AFTER = 1.0
"""Seconds that a worker process has to end its own child processes before it is killed."""


class Terminated(KeyboardInterrupt):
    """This process received SIGTERM. It is handled like Ctrl-C, but nobody waits for an answer."""


class Processes(Executor):
    """Worker processes, each for one point at a time.

    If a process dies, only its own evaluation fails. A process that takes too long is killed. Processes are started
    when needed and reused.

    Example: `docs/recipes.md`.
    """

    def __init__(self) -> None:
        import multiprocessing  # not everywhere: a browser has no processes

        self._context = multiprocessing.get_context("spawn")  # forking a process that has threads is not safe
        self._idle: list[_Worker] = []
        self._busy: dict[Future[Any], _Worker] = {}
        self._since: dict[Future[Any], float] = {}
        self._lock = threading.Lock()  # a process is either idle or busy, never both

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
            except Exception as error:  # the work cannot be sent
                is_fine, value = False, str(error)
            with self._lock:
                self._busy.pop(future, None)
                self._since.pop(future, None)
                if is_alive and not worker.is_killed:
                    self._idle.append(worker)
            if not future.set_running_or_notify_cancel():  # cancelled in the meantime
                return
            if is_fine:
                future.set_result(value)
            else:
                future.set_exception(WorkerDied(value))

        threading.Thread(target=work, daemon=True, name="pied worker").start()
        return future

    def since(self, future: "Future[Any]") -> float | None:
        """Return when the evaluation began, in monotonic seconds; None while its process is starting."""
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
        """End the process: SIGTERM first, so that it can end its own child processes."""
        self.is_killed = True
        self._process.terminate()
        self._process.join(KILL_AFTER)
        self._process.kill()

    def end(self) -> int | None:
        self._process.join()
        return self._process.exitcode


def _serve(pipe: Any) -> None:
    """Evaluate what is sent until the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the main process, which ends this one
    signal.signal(signal.SIGTERM, _end)
    try:
        _serve_all(pipe)
    except Terminated:
        os._exit(128 + signal.SIGTERM)  # immediately: the black box may have left threads running


def _end(*_: object) -> None:
    """Interrupt the black box; a command ends its program."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise Terminated


def _serve_all(pipe: Any) -> None:
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
