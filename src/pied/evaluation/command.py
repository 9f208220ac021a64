"""Any program as a black box: x goes in as JSON or as arguments, y comes out as JSON or numbers."""

import contextlib
import json
import logging
import os
import re
import shlex
import signal
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

from pied.errors import IT_SAID, EvaluationError, SettingError, did_you_mean
from pied.evaluation.near import Near, environment

logger = logging.getLogger(__name__)

SAID = 400
"""Characters kept from the output of a failed program: the last ones, which usually give the reason."""
MOST = 1_000_000
"""Bytes of output that are kept: the last ones, which contain the answer. Earlier output is discarded."""
MOST_SAID = 64_000
"""Bytes of standard error that are kept."""
PIECE = 65_536
"""Bytes read at once, the size of a pipe."""

_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
_WORD = re.compile(r"[^\W\d]\w*")


@dataclass(frozen=True)
class Command:
    """A program that is started once for each point, without a shell in between.

    The point goes to its standard input as JSON by name, and into arguments that have a variable's name in braces,
    `{T_r}`. The answer is read from its standard output, or from the last line of it: JSON by name or in order, or
    numbers. A bad exit, a late or an unreadable answer raises `EvaluationError`. The nearest told point is in its
    environment (`near.environment`).
    """

    offered: ClassVar[frozenset[str]] = frozenset({"near", "state"})
    """What it takes beside a point."""
    words: tuple[str, ...]
    """The program and its arguments."""
    variables: tuple[str, ...]
    """Names that may be used in braces."""
    timeout: float | None = None
    """Seconds after which the program is ended."""
    retries: int = 0
    """How often the program is started again after an error or a timeout."""
    folder: Path | None = None
    """The working directory."""
    title: str = ""
    """What it is called in messages, if not by its program."""
    _alive: set[Any] = field(default_factory=set, init=False, repr=False, compare=False)
    _ended: threading.Event = field(default_factory=threading.Event, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.words or not self.words[0].strip():
            raise SettingError("the command is empty: name a program, for instance 'python simulate.py'")
        if any("\0" in word for word in self.words):
            raise SettingError("the command contains a NUL character, which no program can be given")
        if self.timeout is not None and not self.timeout > 0:
            raise SettingError(f"timeout is a number of seconds above 0, got {self.timeout}")
        if self.retries < 0:
            raise SettingError(f"retries counts further attempts, 0 or more, got {self.retries}")
        for word in self.words:
            for name in _PLACEHOLDER.findall(word):
                if name not in self.variables and _WORD.fullmatch(name):
                    raise SettingError(f"the command speaks of {{{name}}}.{did_you_mean(name, self.variables)}")

    @classmethod
    def read(cls, given: str | Sequence[str], variables: Sequence[str], **words: Any) -> "Command":
        """Make a command from one line of text, split as a shell would, or from a list of words."""
        try:
            split = shlex.split(given) if isinstance(given, str) else list(given)
        except ValueError as error:
            raise SettingError(f"the command '{given}' cannot be split into words: {error}") from None
        return cls(tuple(split), tuple(variables), **words)

    def __str__(self) -> str:
        return self.title or shlex.join(self.words)

    def filled(self, x: Mapping[str, Any]) -> list[str]:
        """Return the arguments with the names in braces replaced by the values of a point."""

        def value(match: re.Match[str]) -> str:
            if match[1] not in self.variables:
                return match[0]
            given = x[match[1]]
            return str(given) if isinstance(given, str | int) else repr(float(given))

        return [_PLACEHOLDER.sub(value, word) for word in self.words]

    def __call__(self, x: Mapping[str, Any], near: Near | None = None, state: Path | None = None) -> Any:
        """Evaluate one point, from the nearest one if the program looks for it, with a folder for its state."""
        for left in range(self.retries, -1, -1):
            try:
                out, said = self._once(x, environment(near, state))
                return _read(out, said)
            except EvaluationError as error:
                if not left or self._ended.is_set():
                    raise
                logger.warning("%s; it is started again", error)
        raise AssertionError("the last attempt returns or raises")

    def _once(self, x: Mapping[str, Any], near: Mapping[str, str]) -> tuple[str, str]:
        import subprocess  # not everywhere: a browser has no programs

        program = self.title or self.words[0]
        try:
            process = subprocess.Popen(
                self.filled(x), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=self.folder,
                start_new_session=True, env={**os.environ, **near} if near else None,
            )  # fmt: skip
        except OSError as error:
            raise EvaluationError(f"The program '{program}' cannot be started: {error.strerror}.") from error
        self._alive.add(process)
        try:
            if self._ended.is_set():  # stopped during the start
                raise EvaluationError(f"'{program}' was ended.")
            out, said = _talk(process, json.dumps(dict(x)), self.timeout)
        except BaseException as error:
            _kill(process)
            if isinstance(error, subprocess.TimeoutExpired):
                last = _last(str(error.stderr or error.output or ""), otherwise=".")
                raise EvaluationError(f"'{program}' took longer than {self.timeout:g} s{last}") from None
            raise
        finally:
            self._alive.discard(process)
        if process.returncode != 0:
            code = process.returncode
            how = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
            raise EvaluationError(f"'{program}' {how}{_last(said or out)}")
        return out, said

    def within(self, seconds: float) -> "Command":
        """Return the same command that is ended after so many seconds, or earlier if it was to be."""
        return replace(self, timeout=seconds if self.timeout is None else min(seconds, self.timeout))

    def stop(self) -> None:
        """End every program that is still running."""
        self._ended.set()
        for process in list(self._alive):
            _kill(process)


def _talk(process: Any, point: str, timeout: float | None) -> tuple[str, str]:
    """Hand over a point, wait for the end, and return the last of what was printed and said.

    `communicate` would keep everything: a program that logs for hours costs gigabytes.
    """
    from subprocess import TimeoutExpired

    out, said = _Tail(MOST), _Tail(MOST_SAID)
    until = None if timeout is None else time.monotonic() + timeout
    threads = [
        threading.Thread(target=work, args=args, daemon=True, name="pied pipe")
        for work, args in (
            (_write, (process, point.encode())),
            (out.read, (process.stdout,)),
            (said.read, (process.stderr,)),
        )
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(None if until is None else max(0.0, until - time.monotonic()))
        if thread.is_alive():
            raise TimeoutExpired(process.args, timeout or 0.0, str(out), str(said))
    process.wait(None if until is None else max(0.0, until - time.monotonic()))
    return str(out), str(said)


def _write(process: Any, text: bytes) -> None:
    """Write a text to a program, which may ignore it."""
    with contextlib.suppress(OSError, ValueError):
        if process.stdin is not None:
            with process.stdin as pipe:
                pipe.write(text)


class _Tail:
    """The last bytes from a pipe."""

    def __init__(self, most: int) -> None:
        self.most, self.kept = most, bytearray()

    def read(self, pipe: Any) -> None:
        """Read to the end, and keep the last bytes."""
        with contextlib.suppress(OSError, ValueError), pipe:
            while piece := pipe.read1(PIECE):
                self.kept += piece
                if len(self.kept) > 2 * self.most:
                    del self.kept[: -self.most]

    def __str__(self) -> str:
        return self.kept[-self.most :].decode("utf-8", errors="replace")


def _kill(process: Any) -> None:
    """End a program and its child processes."""
    if os.name == "nt":  # there, a program that ends leaves its child processes running
        import subprocess

        with contextlib.suppress(OSError):
            subprocess.run(["taskkill", "/F", "/T", "/PID", str(process.pid)], capture_output=True, check=False)
    else:
        with contextlib.suppress(OSError):  # macOS refuses where one of the group has ended already
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()  # nothing, if it has ended
    process.wait()


def _last(said: str, otherwise: str = " and said nothing.") -> str:
    """Return the last words of a program, as they follow a reason."""
    text = said.strip()
    return f"{IT_SAID}{'...' * (len(text) > SAID)}{text[-SAID:]}" if text else otherwise


def _read(out: str, said: str) -> Any:
    """Read the answer of a program; what it said on standard error often tells why there is none."""
    try:
        return answer(out)
    except EvaluationError as error:
        raise EvaluationError(f"{error}{_last(said, otherwise='')}") from None


def answer(out: str) -> Any:
    """Read what a program printed: JSON or numbers, as a whole or on its last line.

    Raises:
        EvaluationError: When there is nothing of the kind.
    """
    lines = [line for line in out.splitlines() if line.strip()]
    if not lines:
        raise EvaluationError("The program printed nothing: it should print the outputs, as JSON or as numbers.")
    for text in (out, lines[-1]):
        with contextlib.suppress(ValueError, RecursionError):
            found = json.loads(text)
            if isinstance(found, dict | list | int | float) and not isinstance(found, bool):
                return found
        with contextlib.suppress(ValueError):
            return [float(word) for word in text.replace(",", " ").split()]
    shown = lines[-1] if len(lines[-1]) <= 80 else f"{lines[-1][:80]}..."
    raise EvaluationError(
        f"The last line that was printed is neither JSON nor numbers: {shown!r}. Print the outputs by name, "
        '{"y": 1.5}, or their numbers in order.'
    )
