"""Every failure `pied` raises, as one tree, and every outcome of a study, as sentences.

PiedError
├── StatementError (ValueError)      the problem cannot be stated like this
│   ├── UnknownName (KeyError, AttributeError)   a name that does not exist, with the one probably meant
│   ├── FormulaError                 a formula cannot be read, or uses what is not allowed
│   ├── WhiteBoxError                a function of the white box fails, when tried or later
│   └── StudyMismatch                a stored study has other variables or outputs
├── EvaluationError (RuntimeError)   the black box did not return what was promised
├── TellError (ValueError)           a result that cannot be told like this
├── SettingError (ValueError)        a solver's setting is out of range or unknown
├── SolverDone (RuntimeError)        the solver has nothing more to propose
├── StoreError (OSError)             a store cannot be opened, read or written
├── Infeasible (RuntimeError)        no point can meet the constraints (asking on is pointless)
└── MissingExtra (ImportError)       an optional package is not installed; names the command to type
"""

import difflib
from collections.abc import Iterable
from enum import Enum

LONGEST_NAME = 200
"""Characters up to which names are compared for likeness: the comparison takes the square of their length."""


class PiedError(Exception):
    """Anything that `pied` raises on purpose."""


class StatementError(PiedError, ValueError):
    """The problem cannot be stated like this."""


class UnknownName(StatementError, KeyError, AttributeError):
    """A name that does not exist; the message suggests the one probably meant."""

    def __str__(self) -> str:  # KeyError would show the repr of the message
        return str(self.args[0]) if self.args else ""


class FormulaError(StatementError):
    """A formula cannot be read, or uses what is not allowed."""


class WhiteBoxError(StatementError):
    """A function of the white box fails, or returns what it must not: when tried on a tiny batch, or later."""


class StudyMismatch(StatementError):
    """A stored study has other variables or outputs: its data would mean something else."""


class EvaluationError(PiedError, RuntimeError):
    """The black box did not return what was promised."""


class TellError(PiedError, ValueError):
    """A result that cannot be told like this."""


class SettingError(PiedError, ValueError):
    """A solver's setting is out of range or unknown."""


class SolverDone(PiedError, RuntimeError):
    """The solver has nothing more to propose."""


class StoreError(PiedError, OSError):
    """A store cannot be opened, read or written; what was told before is kept."""


class Infeasible(PiedError, RuntimeError):
    """No point can meet the constraints: asking on is pointless."""


class MissingExtra(PiedError, ImportError):
    """An optional package is not installed; the message names the command to type."""

    def __init__(self, purpose: str, package: str, extra: str) -> None:
        super().__init__(f'{purpose} needs {package}: pip install "pied[{extra}]"')


class Status(Enum):
    """How a study stands; the value is the sentence shown to the user."""

    RUNNING = "The study is under way."
    FINISHED = "The budget is spent."
    GAP_REACHED = "The gap between the recommended and the best imaginable value is small enough."
    INFEASIBLE = "No point meets all constraints."
    BROKEN = "The black box failed three times at the very start: see the reasons of the failed trials."
    INTERRUPTED = "The run was interrupted; everything told so far is kept."
    DONE = "The solver has nothing more to propose."


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return ' Did you mean ...?' when a known name is close, else the list of known names."""
    names = [str(each) for each in known]
    short = [each for each in names if len(each) <= LONGEST_NAME] if len(name) <= LONGEST_NAME else []
    close = difflib.get_close_matches(name, short, n=1, cutoff=0.6)
    if close:
        return f" Did you mean '{close[0]}'?"
    shown = ", ".join(f"'{each}'" for each in names[:12]) + (", ..." if len(names) > 12 else "")
    return f" Known: {shown}." if names else ""
