"""Optimization of part-known models: a costly black box h inside a known white box g.

The names below are loaded when first used, so that `import pied` stays light (it does not import NumPy).
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any
from warnings import warn

from pied import above

if TYPE_CHECKING:
    from pied.errors import Contradiction as Contradiction
    from pied.errors import EvaluationError as EvaluationError
    from pied.errors import ExecutorLost as ExecutorLost
    from pied.errors import FormulaError as FormulaError
    from pied.errors import Infeasible as Infeasible
    from pied.errors import MissingExtra as MissingExtra
    from pied.errors import NotYet as NotYet
    from pied.errors import NumericalError as NumericalError
    from pied.errors import PiedError as PiedError
    from pied.errors import SettingError as SettingError
    from pied.errors import SolverDone as SolverDone
    from pied.errors import StatementError as StatementError
    from pied.errors import Status as Status
    from pied.errors import StoreAway as StoreAway
    from pied.errors import StoreError as StoreError
    from pied.errors import StudyMismatch as StudyMismatch
    from pied.errors import TellError as TellError
    from pied.errors import UnknownName as UnknownName
    from pied.errors import Unwritten as Unwritten
    from pied.errors import WhiteBoxError as WhiteBoxError
    from pied.problem import Choice as Choice
    from pied.problem import Integer as Integer
    from pied.problem import Levels as Levels
    from pied.problem import Mixture as Mixture
    from pied.problem import Named as Named
    from pied.problem import Observed as Observed
    from pied.problem import Problem as Problem
    from pied.problem import Variable as Variable
    from pied.records import State as State
    from pied.records import Trial as Trial
    from pied.solvers.cuqb import CUQB as CUQB
    from pied.study import Discrepancy as Discrepancy
    from pied.study import Fit as Fit
    from pied.study import Result as Result
    from pied.study import Study as Study
    from pied.study import least_squares as least_squares
    from pied.study import maximize as maximize
    from pied.study import minimize as minimize
    from pied.study import solve as solve

__version__ = "0.2.0"

_HOMES = {
    "Problem": "pied.problem",
    "Variable": "pied.problem",
    "Integer": "pied.problem",
    "Levels": "pied.problem",
    "Choice": "pied.problem",
    "Mixture": "pied.problem",
    "Named": "pied.problem.named",
    "Observed": "pied.problem",
    "Discrepancy": "pied.study.likelihood",
    "Study": "pied.study",
    "Result": "pied.study.result",
    "solve": "pied.study",
    "maximize": "pied.study",
    "minimize": "pied.study",
    "least_squares": "pied.study",
    "Fit": "pied.study",
    "Trial": "pied.records.trial",
    "State": "pied.records.trial",
    "CUQB": "pied.solvers.cuqb",
    "Status": "pied.errors",
    "PiedError": "pied.errors",
    "StatementError": "pied.errors",
    "UnknownName": "pied.errors",
    "FormulaError": "pied.errors",
    "WhiteBoxError": "pied.errors",
    "StudyMismatch": "pied.errors",
    "EvaluationError": "pied.errors",
    "TellError": "pied.errors",
    "Contradiction": "pied.errors",
    "SettingError": "pied.errors",
    "NotYet": "pied.errors",
    "NumericalError": "pied.errors",
    "SolverDone": "pied.errors",
    "StoreError": "pied.errors",
    "StoreAway": "pied.errors",
    "Unwritten": "pied.errors",
    "ExecutorLost": "pied.errors",
    "Infeasible": "pied.errors",
    "MissingExtra": "pied.errors",
}
"""Where each public name lives; `suite` is a package of its own."""

above.place("report", "pied.report", "write")  # `Study.report`
above.place("dashboard demo", "pied.web.demo", "show")  # `pied demo --dashboard`

_LEAVING: dict[str, tuple[str, str]] = {}
"""Former names that still work, with a warning: the name that replaces each, and the version that goes without it."""


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used."""
    if name == "suite":
        return import_module("pied.suite")
    if name in _HOMES:
        value = getattr(import_module(_HOMES[name]), name)
        globals()[name] = value
        return value
    if name in _LEAVING:
        instead, version = _LEAVING[name]
        sentence = f"pied.{name} is now called pied.{instead}; the former name works until version {version}."
        warn(sentence, DeprecationWarning, stacklevel=2)
        return getattr(import_module("pied"), instead)
    from pied.errors import did_you_mean

    raise AttributeError(f"pied has no '{name}'.{did_you_mean(name, __dir__())}")


def __dir__() -> list[str]:
    """List the public names, loaded or not."""
    return sorted([*_HOMES, "suite", "__version__"])
