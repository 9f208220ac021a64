"""Output of the command line: text without control characters, JSON, tables, one-line errors, a progress bar."""

import json
import logging
import re
import shutil
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import click

from pied.address import masked
from pied.errors import Infeasible, NotYet, PiedError, SolverDone

MISTAKE, NOTHING, INFEASIBLE, INTERRUPTED, TERMINATED = 2, 3, 4, 130, 143
"""Exit codes: a mistake in the call, a file or a store; no answer (yet); the verdict; Ctrl-C and SIGTERM, as shells
have them."""
NARROW = 60
"""Width to which long texts are cut on narrow terminals."""
BAR = 40
"""Columns of a bar."""
UNSAID, TICK = 2.0, 1.0
"""Seconds that a computation may take before a terminal says so, and between two times that are said."""

_UNPRINTABLE = re.compile(r"[^\n -~]")
_COUNTED = re.compile(r"\(\s*n\s*=\s*\d+\s*\)\s*$")
"""How many measurements a value is the mean of, behind it: the equals sign there does not end a name."""


def pair(word: str, example: str) -> tuple[str, str]:
    """Split NAME=VALUE; otherwise explain the form."""
    counted = _COUNTED.search(word)
    end = len(word) if counted is None else counted.start()
    name, sign, text = word[:end].rpartition("=")
    if not sign or not name:
        raise Mistake(f"'{word}' should be NAME=VALUE, for instance {example}=0.5")
    return name, text + word[end:]


class Mistake(click.ClickException):
    """One of our errors, as one line on stderr."""

    exit_code = MISTAKE

    @staticmethod
    def of(error: PiedError) -> "Mistake":
        """Give an error its exit code."""
        is_none = isinstance(error, SolverDone | NotYet)
        return (Verdict if isinstance(error, Infeasible) else NoAnswer if is_none else Mistake)(str(error))

    def show(self, file: Any = None) -> None:
        """Print the line."""
        click.echo(f"pied: {printable(masked(' '.join(self.message.split())))}", err=True)


class NoAnswer(Mistake):
    """There is no answer yet."""

    exit_code = NOTHING


class Verdict(Mistake):
    """No point meets all constraints."""

    exit_code = INFEASIBLE


def printable(text: str) -> str:
    """Escape control characters, because names and texts from files and stores must not control the terminal."""
    return _UNPRINTABLE.sub(lambda match: _visible(match[0]), text)


def _visible(char: str) -> str:
    if char.isprintable():
        return char
    return f"\\x{ord(char):02x}" if ord(char) < 256 else f"\\u{ord(char):04x}"


def say(text: str = "") -> None:
    """Print a text for people."""
    click.echo(printable(text))


def note(text: str) -> None:
    """Print a note on stderr, so that standard output stays readable for programs; or gather it (`gathered`)."""
    notes = _notes.get()
    if notes is None:
        click.echo(printable(masked(text)), err=True)
    else:
        notes.append(masked(text).removeprefix("pied: "))


_notes: ContextVar[list[str] | None] = ContextVar("notes", default=None)


@contextmanager
def gathered() -> Iterator[list[str]]:
    """Gather the notes and warnings of this thread or task instead of printing them: a page shows them."""
    notes: list[str] = []
    token = _notes.set(notes)
    try:
        yield notes
    finally:
        _notes.reset(token)


class Warnings(logging.Handler):
    """Print warnings of the library as notes; their texts may come from files."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print one."""
        note(f"pied: {record.getMessage()}")

    @classmethod
    def listen(cls) -> None:
        """Begin to print the warnings of the library, once."""
        logger = logging.getLogger("pied")
        if not any(isinstance(each, cls) for each in logger.handlers):
            logger.addHandler(cls(logging.WARNING))


def say_json(data: Any) -> None:
    """Print JSON with control characters escaped."""

    def escaped(match: re.Match[str]) -> str:
        char = match[0]
        return char if char.isprintable() else json.dumps(char)[1:-1]

    click.echo(_UNPRINTABLE.sub(escaped, json.dumps(data, indent=2, ensure_ascii=False)).replace("\x7f", "\\u007f"))


def say_table(rows: Sequence[Mapping[str, Any]], right: Sequence[str] = ()) -> None:
    """Print rows under a heading; on a terminal the last column is cut to fit."""
    names = list(rows[0])
    cells = [
        [printable(str(each)) for each in line] for line in [names, *([row[name] for name in names] for row in rows)]
    ]
    widths = [max(len(line[place]) for line in cells) for place in range(len(names))]
    if sys.stdout.isatty():
        spare = shutil.get_terminal_size().columns - sum(widths[:-1]) - 2 * (len(names) - 1)
        widths[-1] = min(widths[-1], max(spare, NARROW))
    for line in cells:
        shown = []
        for place, (name, cell) in enumerate(zip(names, line, strict=True)):
            cell = cell if len(cell) <= widths[place] else f"{cell[: widths[place] - 3]}..."
            shown.append(cell.rjust(widths[place]) if name in right else cell.ljust(widths[place]))
        click.echo("  ".join(shown).rstrip())


class Progress:
    """One line per evaluation and, on a terminal, a progress bar below them."""

    def __init__(self, total: int, *, quiet: bool) -> None:
        self.total, self.quiet, self.done = total, quiet, 0
        self.has_bar = not quiet and sys.stdout.isatty()

    def say(self, text: str) -> None:
        """Print a line above the bar."""
        if not self.quiet:
            click.echo(f"\r\x1b[K{printable(text)}" if self.has_bar else printable(text))

    def step(self, text: str) -> None:
        """Print the line of one evaluation and move the bar."""
        self.done += 1
        self.say(text)
        if self.has_bar:
            filled = min(BAR, BAR * self.done // max(self.total, 1))
            click.echo(f"[{'#' * filled}{'.' * (BAR - filled)}] {self.done} of {self.total}", nl=False)

    def end(self) -> None:
        """Remove the bar."""
        if self.has_bar:
            click.echo("\r\x1b[K", nl=False)


@contextmanager
def working(what: str) -> Iterator[None]:
    """Say on a terminal how long something has taken so far, if that is more than a moment; nothing is left of it."""
    if not sys.stderr.isatty():
        yield
        return
    began, has_ended = time.monotonic(), threading.Event()

    def tell() -> None:
        while not has_ended.wait(TICK):
            if (spent := time.monotonic() - began) > UNSAID:
                click.echo(f"\r{printable(what)}: {spent:.0f} s so far\x1b[K", nl=False, err=True)

    thread = threading.Thread(target=tell, daemon=True)
    thread.start()
    try:
        yield
    finally:
        has_ended.set()
        thread.join()
        if time.monotonic() - began > UNSAID:
            click.echo("\r\x1b[K", nl=False, err=True)
