"""Every failure `pied` raises, as one tree, and every outcome of a study, as sentences.

PiedError
├── StatementError (ValueError)      the problem cannot be stated like this
│   ├── UnknownName (KeyError, AttributeError)   a name that does not exist, with the one probably meant
│   ├── FormulaError                 a formula cannot be read, or uses what is not allowed
│   ├── WhiteBoxError                a function of the white box fails when tried on a tiny batch
│   └── StudyMismatch                a stored study has other variables or outputs
├── EvaluationError (RuntimeError)   the black box did not return what was promised
│   └── WrongOutputs                 its answer has other outputs than those stated
├── TellError (ValueError)           a result that cannot be told like this
├── SettingError (ValueError)        a solver's setting is out of range or unknown
├── SolverDone (RuntimeError)        the solver has nothing more to propose
├── StoreError (OSError)             a store cannot be opened, read or written
├── Infeasible (RuntimeError)        no point can meet the constraints (asking on is pointless)
└── MissingExtra (ImportError)       an optional package is not installed; names the command to type
"""

import difflib
import re
from collections.abc import Iterable
from enum import Enum


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
    """A function of the white box fails when tried on a tiny batch."""


class StudyMismatch(StatementError):
    """A stored study has other variables or outputs: its data would mean something else."""


class EvaluationError(PiedError, RuntimeError):
    """The black box did not return what was promised."""


class WrongOutputs(EvaluationError):
    """The answer has other outputs than those stated: missing, misnamed, or another number of them."""


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
    BROKEN = "The black box does not work: every evaluation failed, from the very start."
    INTERRUPTED = "The run was interrupted; everything told so far is kept."
    DONE = "The solver has nothing more to propose."


RETURNED = "The black box returned other outputs: "
"""How the reason of a failure begins that is a `WrongOutputs`."""
_EVERYWHERE = re.compile(
    r"The black box raised (?:(?:TypeError|NameError|ImportError|ModuleNotFoundError|SyntaxError|IndentationError"
    r"|UnknownName): |AttributeError: (?:partially initialized )?module '[^']*' has no attribute )"
    rf"|{RETURNED}|The program '.*' cannot be started: "
)


def reason_of(error: EvaluationError) -> str:
    """Return why an evaluation failed whose answer cannot be read, as it is kept."""
    return f"{RETURNED}{error}" if isinstance(error, WrongOutputs) else str(error)


def is_everywhere(reason: str) -> bool:
    """Tell whether the reason of a failed evaluation cannot depend on the point: the code itself has a mistake.

    A record keeps reasons as text. What was raised stands at their beginning, also when it was raised in another
    process. `UnboundLocalError` is left out: a name may be bound in one part of the box and not in another.
    """
    return _EVERYWHERE.match(reason) is not None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return ' Did you mean ...?' when a known name is close, else the list of known names."""
    names = [str(each) for each in known]
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    if close:
        return f" Did you mean '{close[0]}'?"
    shown = ", ".join(f"'{each}'" for each in names[:12]) + (", ..." if len(names) > 12 else "")
    return f" Known: {shown}." if names else ""
