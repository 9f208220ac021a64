"""What a black box in Python says while it is evaluated: the last of its log, kept for when it fails.

A simulator often tells on its way why it will fail ("stage 4 is dry"), and the exception only that it has.
"""

import logging
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from io import TextIOBase
from typing import Any

from pied.errors import LAST_WORDS

KEPT = 400
"""Characters: the last ones."""


class Heard:
    """The last characters of a text that grows."""

    def __init__(self) -> None:
        self._text = ""

    def add(self, text: str) -> None:
        """Take in some more."""
        self._text = (self._text + text)[-2 * KEPT :]

    def after(self, reason: str) -> str:
        """Return a reason, followed by the last words if there are any that it does not have already."""
        text = self._text.strip()
        if not text or text in reason:
            return reason
        return f"{reason}{LAST_WORDS}{'...' * (len(text) > KEPT)}{text[-KEPT:]}"


class _Tee(TextIOBase):
    """A stream that writes to another one and is heard."""

    def __init__(self, stream: Any, heard: Heard) -> None:
        self._stream, self._heard = stream, heard

    def write(self, text: str) -> int:
        self._heard.add(text)
        return self._stream.write(text)

    def flush(self) -> None:
        self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class _Handler(logging.Handler):
    """Hears the log of one thread."""

    def __init__(self, heard: Heard) -> None:
        super().__init__()
        self._heard, self._thread = heard, threading.get_ident()

    def emit(self, record: logging.LogRecord) -> None:
        if record.thread == self._thread:
            self._heard.add(f"{record.getMessage()}\n")


@contextmanager
def listening() -> Iterator[Heard]:
    """Hear what is logged in this thread, and what the main thread prints.

    All threads share one standard output, so what others print cannot be told apart; their log can.
    """
    heard = Heard()
    handler, root = _Handler(heard), logging.getLogger()
    root.addHandler(handler)
    try:
        if threading.current_thread() is threading.main_thread() and sys.stdout is not None and sys.stderr is not None:
            with redirect_stdout(_Tee(sys.stdout, heard)), redirect_stderr(_Tee(sys.stderr, heard)):
                yield heard
        else:
            yield heard
    finally:
        root.removeHandler(handler)
