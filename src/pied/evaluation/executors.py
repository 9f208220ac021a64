"""Executors of `concurrent.futures`: in this thread, in threads, in processes, on a Dask cluster."""

import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any

from pied.errors import MissingExtra
from pied.evaluation.processes import Processes as Processes


class Serial(Executor):
    """Evaluate immediately, in this thread.

    Example: `docs/recipes.md`.
    """

    def submit(self, fn: Callable[..., Any], /, *args: Any, **words: Any) -> "Future[Any]":
        """Call the function and return its result."""
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **words))
        except Exception as error:
            future.set_exception(error)
        return future


class Threads(Executor):
    """One thread per evaluation; a thread that takes too long is abandoned and does not delay the exit.

    Example: `docs/recipes.md`.
    """

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
        """Abandon an evaluation; its place is free already."""
        return True


def dask(client: Any) -> Executor:
    """Return an executor on a Dask cluster.

    Two evaluations at the same point remain two (`pure=False`); Dask would otherwise reuse the first result.

    Example: `docs/recipes.md`.

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
