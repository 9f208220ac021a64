"""The protocol every solver speaks: settings are data, a run answers `ask`.

A run is handed the whole record each time. It may keep what it computed, but the record alone decides what it proposes;
what it wants to find again after a restart it writes into the proposal (`Why.memory`).
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from jaxtyping import Float64
from torch import Tensor

from pied.problem import Problem
from pied.records import Dataset, Why
from pied.rng import Stream


@dataclass(frozen=True, eq=False)
class Proposal:
    """The next point to evaluate, and why."""

    u: Float64[Tensor, "d"]
    why: Why


class Run(ABC):
    """One run of a solver on one problem."""

    @abstractmethod
    def ask(self, number: int, data: Dataset) -> Proposal:
        """Propose the point of trial `number`, given everything told, pending and failed so far."""

    def close(self) -> None:  # noqa: B027  a run without resources has nothing to close
        """Release what the run holds."""


class Solver(ABC):
    """Frozen settings of one method."""

    name: ClassVar[str]
    """How the solver is asked for."""
    parallel: ClassVar[bool] = True
    """Whether several trials may be pending."""
    lists: ClassVar[bool] = False
    """Whether it can choose from a list of candidates; without, it needs the whole box."""

    @abstractmethod
    def start(self, problem: Problem, stream: Stream) -> Run:
        """Begin a run."""
