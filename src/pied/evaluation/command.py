"""Any program as a black box: x goes in as JSON or as arguments, y comes out as JSON or numbers."""

import contextlib
import json
import logging
import os
import re
import shlex
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pied.errors import EvaluationError, SettingError, did_you_mean

logger = logging.getLogger(__name__)

SAID = 400
"""Characters kept of what a failed program said: its last ones, where the reason stands."""
MOST = 1_000_000
"""Characters of output that are looked at."""

_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
_WORD = re.compile(r"[^\W\d]\w*")


@dataclass(frozen=True)
class Command:
    """A program that is started once for each point, without a shell in between.

    The point goes to its standard input as JSON by name, and into arguments that have a variable's name in braces,
    `{T_r}`. The answer is read from its standard output, or from the last line of it: JSON by name or in order, or
    numbers. A bad exit, a late or an unreadable answer raises `EvaluationError`.
    """

    words: tuple[str, ...]
    """The program and its arguments."""
    variables: tuple[str, ...]
    """Names that may stand in braces."""
    timeout: float | None = None
    """Seconds after which it is ended."""
    retries: int = 0
    """How often it is started again after a bad exit or a late answer."""
    folder: Path | None = None
    """Where it is started."""
    _alive: set["subprocess.Popen[str]"] = field(default_factory=set, init=False, repr=False, compare=False)
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
        return shlex.join(self.words)

    def filled(self, x: Mapping[str, float]) -> list[str]:
        """Return the words with the values of a point in place of names in braces."""

        def value(match: re.Match[str]) -> str:
            return repr(float(x[match[1]])) if match[1] in self.variables else match[0]

        return [_PLACEHOLDER.sub(value, word) for word in self.words]

    def __call__(self, x: Mapping[str, float]) -> Any:
        """Evaluate one point."""
        for left in range(self.retries, -1, -1):
            try:
                return answer(self._once(x))
            except EvaluationError as error:
                if not left or self._ended.is_set():
                    raise
                logger.warning("%s; it is started again", error)
        raise AssertionError("the last attempt returns or raises")

    def _once(self, x: Mapping[str, float]) -> str:
        program = self.words[0]
        try:
            process = subprocess.Popen(
                self.filled(x), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=self.folder,
                text=True, encoding="utf-8", errors="replace", start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            raise EvaluationError(f"The program '{program}' cannot be started: {error.strerror}.") from error
        self._alive.add(process)
        try:
            out, said = process.communicate(json.dumps({name: float(x[name]) for name in x}), timeout=self.timeout)
        except BaseException as error:
            _kill(process)
            if isinstance(error, subprocess.TimeoutExpired):
                raise EvaluationError(f"'{program}' took longer than {self.timeout:g} s.") from None
            raise
        finally:
            self._alive.discard(process)
        if process.returncode != 0:
            code = process.returncode
            how = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
            raise EvaluationError(f"'{program}' {how}{_last(said or out)}")
        return out

    def stop(self) -> None:
        """End every program that is still running."""
        self._ended.set()
        for process in list(self._alive):
            _kill(process)


def _kill(process: "subprocess.Popen[str]") -> None:
    """End a program that was not waited for yet, and what it has started."""
    with contextlib.suppress(OSError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    process.wait()


def _last(said: str) -> str:
    text = said.strip()
    return f"; it said: {'...' * (len(text) > SAID)}{text[-SAID:]}" if text else " and said nothing."


def answer(out: str) -> Any:
    """Read what a program printed: JSON or numbers, as a whole or on its last line.

    Raises:
        EvaluationError: When there is nothing of the kind.
    """
    lines = [line for line in out[-MOST:].splitlines() if line.strip()]
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
