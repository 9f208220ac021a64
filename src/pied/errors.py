"""All errors that `pied` raises, as one tree, and the states of a study, as sentences.

PiedError
├── StatementError (ValueError)      the problem cannot be stated like this
│   ├── UnknownName (KeyError, AttributeError)   a name that does not exist, with the one probably meant
│   ├── FormulaError                 a formula cannot be read, or uses something that is not allowed
│   ├── WhiteBoxError                a function of the white box fails, when tried or later
│   └── StudyMismatch                a stored study has other variables or outputs
├── EvaluationError (RuntimeError)   the black box failed, or its answer cannot be read
│   └── WrongOutputs                 its answer has other outputs than those stated
├── TellError (ValueError)           a result that cannot be told like this
│   └── Contradiction                another value was told before; says how to correct it
├── SettingError (ValueError)        a solver's setting is out of range or unknown
│   └── NotYet                       too little was told for an answer; later there may be one
├── NumericalError (ArithmeticError) linear algebra or a search breaks down on these data; `ask` then proposes a
│                                    space-filling point
├── SolverDone (RuntimeError)        the solver has nothing more to propose
├── StoreError (OSError)             a store cannot be opened, read or written
│   ├── StoreAway                    it cannot be reached or written just now; trying again may help
│   └── Unwritten                    results that could not be written, with their values
├── ExecutorLost (RuntimeError)      the executor is gone; the trials stay pending
├── Infeasible (RuntimeError)        no point can meet the constraints, so asking for more is useless
└── MissingExtra (ImportError)       an optional package is not installed; gives the command that installs it
"""

import difflib
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from enum import Enum

LONGEST_NAME = 200
"""Characters of a name up to which it is compared with others: the time grows with the square of the length."""


@dataclass(frozen=True)
class Ways:
    """How the reader of a message does what it asks for: a message is read in Python, in a terminal or on a page."""

    anyway: str
    """Take a value outside of its range."""
    why: str
    """Give a reason."""
    rename: str
    """Call a thing by another name; `old` and `new` are its names, `pair` is both as a word of a command."""

    setting: str
    """Tell what was really set, as a sentence; `pair` is NAME=VALUE."""
    given: str
    """Give a value that is not free; `name` and `value`, `pair` is both as a word of a command."""
    older: str
    """Tell what was measured before."""
    less: str
    """Ask a careful study for less."""


PYTHON = Ways(
    "anyway=True",
    "why='...'",
    "renamed={{{old!r}: {new!r}}}",
    "What was really set is told with at=.",
    "given={{{name!r}: {value!r}}}",
    "study.add(x, y), or start=",
    "CUQB(careful=0.9)",
)
TERMINAL = Ways(
    "--anyway",
    "--why '...'",
    "--rename {pair}",
    "What was really set is told with --at, which stands before each of several: --at {pair}",
    "--given {pair}",
    "pied add FILE TABLE",
    "careful = 0.9 under [solver]",
)
PAGE = Ways(
    "tick 'these values are right' (a program sends \"anyway\": true)",
    'fill in the reason (a program sends "why")',
    "pied revise FILE --rename {pair}, in a terminal",
    'What was really set has fields of its own (a program sends "at").',
    "fill in {pair} beside 'given' (a program sends \"given\")",
    "drop their table under 'Work'",
    "careful = 0.9 under [solver] in the problem file",
)
_ways: ContextVar[Ways] = ContextVar("ways", default=PYTHON)


def ways() -> Ways:
    """Return how the reader of messages does what they ask for."""
    return _ways.get()


@contextmanager
def read_as(ways: Ways) -> Iterator[None]:
    """Word the messages of this thread or task for those who read them there."""
    token = _ways.set(ways)
    try:
        yield
    finally:
        _ways.reset(token)


class PiedError(Exception):
    """Anything that `pied` raises on purpose.

    Example: `docs/recipes.md`.
    """


class StatementError(PiedError, ValueError):
    """The problem cannot be stated like this.

    Example: `docs/guide-spaces.md`.
    """

    path: tuple[str, ...] = ()
    """Keys of the problem file that it is about, if it is about one: ("subject_to", "purity")."""
    reason: str = ""
    """The message without the place, if there is one."""


class UnknownName(StatementError, KeyError, AttributeError):
    """A name that does not exist; the message suggests the one probably meant.

    Example: `docs/recipes.md`.
    """

    def __str__(self) -> str:  # KeyError would show the repr of the message
        return str(self.args[0]) if self.args else ""


class FormulaError(StatementError):
    """A formula cannot be read, or uses something that is not allowed.

    Example: `docs/recipes.md`.
    """


class WhiteBoxError(StatementError):
    """A function of the white box fails or returns a wrong type or shape, on a tiny batch or later.

    Example: `docs/recipes.md`.
    """


class StudyMismatch(StatementError):
    """A stored study has other variables or outputs, so its data would mean something else.

    Example: `docs/recipes.md`.
    """


class EvaluationError(PiedError, RuntimeError):
    """The black box failed, or its answer cannot be read.

    Example: `docs/recipes.md`.
    """


class WrongOutputs(EvaluationError):
    """The answer has other outputs than those stated: missing, misnamed, or another number of them."""


class TellError(PiedError, ValueError):
    """A result that cannot be told like this.

    Example: `docs/guide-laboratory-python.md`.
    """


class Contradiction(TellError):
    """A result that differs from what was told before: the first value stays until it is corrected.

    Example: `docs/recipes.md`.
    """

    def __init__(
        self,
        facts: str = "",
        number: int = 0,
        values: Mapping[str, float] | None = None,
        at: Mapping[str, float] | None = None,
    ) -> None:
        self.facts, self.number, self.values, self.at = facts, number, dict(values or {}), dict(at or {})
        words = f"{number}, {self.values}" + (f", at={self.at}" if self.at else "")
        super().__init__(f"{facts}. If the earlier one is wrong: study.correct({words}, why='...')")


class SettingError(PiedError, ValueError):
    """A solver's setting is out of range or unknown.

    Example: `docs/recipes.md`.
    """


class NotYet(SettingError):
    """Too little was told for this answer: tell more, then ask again.

    Example: `docs/recipes.md`.
    """


class NumericalError(PiedError, ArithmeticError):
    """Linear algebra, a fit or a search breaks down on these data: not a user's mistake; callers fall back.

    Example: `docs/recipes.md`.
    """


class SolverDone(PiedError, RuntimeError):
    """The solver has nothing more to propose.

    Example: `docs/recipes.md`.
    """


class StoreError(PiedError, OSError):
    """A store cannot be opened, read or written; the results told before are kept.

    Example: `docs/recipes.md`.
    """


class StoreAway(StoreError):
    """A store cannot be reached or written at the moment: a server restarts, a disk is full, a lock is held.

    Example: `docs/recipes.md`.
    """


class Unwritten(StoreError):
    """A run could not write results to its store; they are kept here and in files that are read at the next opening.

    Example: `docs/recipes.md`.
    """

    def __init__(
        self,
        message: str = "",
        results: Mapping[int, Mapping[str, float]] | None = None,
        failures: Mapping[int, str] | None = None,
        files: Iterable[str] = (),
    ) -> None:
        super().__init__(message)
        self.results = {number: dict(values) for number, values in (results or {}).items()}
        """Values by trial number."""
        self.failures = dict(failures or {})
        """Reasons of failed evaluations by trial number."""
        self.files = tuple(files)
        """Files in which they are kept."""


class ExecutorLost(PiedError, RuntimeError):
    """The executor is gone: a scheduler does not come back, or an executor was shut down.

    Example: `docs/recipes.md`.
    """


class Infeasible(PiedError, RuntimeError):
    """No point can meet the constraints, so asking for more points is useless.

    Example: `docs/guide-infeasible.md`.
    """


class MissingExtra(PiedError, ImportError):
    """An optional package is not installed; the message gives the command that installs it.

    Example: `docs/recipes.md`.
    """

    def __init__(self, purpose: str, package: str, extra: str) -> None:
        self.need = f"{purpose} needs {package}"
        super().__init__(f"{self.need}: {installing(extra)}")


def installing(extra: str) -> str:
    """Return the command that installs an extra, from where `pied` came: its source, an address, an index."""
    import json
    from importlib.metadata import PackageNotFoundError, distribution
    from urllib.parse import urlsplit
    from urllib.request import url2pathname

    try:
        origin = json.loads(distribution("pied").read_text("direct_url.json") or "{}")
    except PackageNotFoundError:  # it runs from a folder without being installed
        origin = {"url": "", "dir_info": {}}
    if not origin:
        return f'pip install "pied[{extra}]"'
    if "dir_info" not in origin:
        kind = f"{origin['vcs_info']['vcs']}+" if "vcs_info" in origin else ""
        return f'pip install "pied[{extra}] @ {kind}{origin["url"]}"'
    folder, is_linked = url2pathname(urlsplit(origin["url"]).path), origin["dir_info"].get("editable", False)
    if not os.path.isfile(os.path.join(folder, "pyproject.toml")):
        return f'pip install ".[{extra}]" in the folder of its source'
    return f'pip install {"--editable " if is_linked else ""}"{folder}[{extra}]"'


class Status(Enum):
    """The state of a study; the value is the sentence shown to the user.

    Example: `docs/guide-infeasible.md`.
    """

    RUNNING = "The study is under way."
    FINISHED = "The budget is spent."
    GAP_REACHED = "The gap between the recommended and the best imaginable value is small enough."
    GROWTH_REACHED = "The front of best trade-offs can hardly grow any more."
    INFEASIBLE = "No settings meet all limits."
    BROKEN = "Nothing works yet: every evaluation failed, from the very start."
    INTERRUPTED = "The run was interrupted; everything told so far is kept."
    DONE = "The solver has nothing more to propose."


WRONG_OUTPUTS_START = "The black box returned other outputs: "
"""The first words of the reason of a failure that is a `WrongOutputs`."""
_EVERYWHERE = re.compile(
    r"The black box raised (?:(?:TypeError|NameError|ImportError|ModuleNotFoundError|SyntaxError|IndentationError"
    r"|UnknownName): |AttributeError: (?:partially initialized )?module '[^']*' has no attribute )"
    rf"|{WRONG_OUTPUTS_START}|The program '.*' cannot be started: "
)


def reason_of(error: EvaluationError) -> str:
    """Return why an evaluation failed, in the form that is recorded."""
    return f"{WRONG_OUTPUTS_START}{error}" if isinstance(error, WrongOutputs) else str(error)


IT_SAID = "; it said: "
"""Stands in a reason of failure between how a program ended and its last words."""
LAST_WORDS = "\nIts last words: "
"""Stands in a reason of failure between what a function raised and the last of its log."""


def is_everywhere(reason: str) -> bool:
    """Tell whether an evaluation failed by a mistake in the code itself, so that it fails at every point.

    A record keeps reasons as text, which begins with the error's type, also if it was raised in another process.
    `UnboundLocalError` is left out, since a name may be bound in one part of the box and not in another.
    """
    return _EVERYWHERE.match(reason) is not None


def closest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that was probably meant, if one is similar."""
    short = [each for each in known if len(each) <= LONGEST_NAME] if len(name) <= LONGEST_NAME else []
    return next(iter(difflib.get_close_matches(name, short, n=1, cutoff=0.6)), None)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return ' Did you mean ...?' if a known name is similar, else the list of known names."""
    names = [str(each) for each in known]
    close = closest(name, names)
    if close is not None:
        return f" Did you mean '{close}'?"
    shown = ", ".join(f"'{each}'" for each in names[:12]) + (", ..." if len(names) > 12 else "")
    return f" Known: {shown}." if names else ""
