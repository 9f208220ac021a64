"""The interface of every solver: settings are data, and a run answers `ask`.

A run is given the whole record each time. It may keep what it computed, but its proposals depend on the record alone.
What it needs again after a restart it writes into the proposal (`Why.memory`).
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy import ndarray

from pied.errors import NumericalError
from pied.problem import Problem
from pied.records import Dataset, Why
from pied.rng import Stream
from pied.shapes import Float64

if TYPE_CHECKING:
    from pied.solvers.answers import Answers

BREAKDOWNS = (NumericalError, np.linalg.LinAlgError, FloatingPointError, OverflowError)
"""Exceptions of linear algebra, fits and searches that fail for numerical reasons. A solver then falls back; every
other exception is a mistake and is raised."""


@dataclass(frozen=True, eq=False)
class Proposal:
    """The next point to evaluate, and why."""

    u: Float64[ndarray, "d"]
    why: Why


class Run(ABC):
    """One run of a solver on one problem."""

    @abstractmethod
    def ask(self, number: int, data: Dataset) -> Proposal:
        """Propose the point of trial `number`, given everything told, pending and failed so far."""

    def close(self) -> None:  # noqa: B027  most runs hold no resources
        """Release the resources of the run."""


class Solver(ABC):
    """Frozen settings of one method."""

    name: ClassVar[str]
    """The name by which users choose the solver."""
    parallel: ClassVar[bool] = True
    """Whether several trials may be pending at once."""
    lists: ClassVar[bool] = False
    """Whether it can choose from a list of candidates; if not, it needs the whole box."""
    fronts: ClassVar[bool] = False
    """Whether it can seek the front of several objectives."""

    slices: ClassVar[bool] = False
    """Whether it can keep to given settings, a slice of the space."""

    @property
    def finds_exact(self) -> bool:
        """Whether a trial is repeated after the initial design if a program's noise is not stated."""
        return False

    @property
    def needs_design(self) -> bool:
        """Whether some trials have to be told before it can propose one."""
        return True

    @property
    def begins_anywhere(self) -> bool:
        """Whether a study begins with trials all over the box unless told otherwise."""
        return True

    @property
    def answers(self) -> "Answers":
        """With what a study answers."""
        from pied.solvers.answers import Answers

        return Answers()

    @abstractmethod
    def start(self, problem: Problem, stream: Stream) -> Run:
        """Begin a run."""
