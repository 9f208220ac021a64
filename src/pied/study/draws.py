"""Draws of the parameters, before anything is said of them."""

from dataclasses import dataclass
from functools import cached_property

from numpy import ndarray

from pied.problem import Problem
from pied.shapes import Float64
from pied.study.ensemble import Chains
from pied.study.likelihood import Likelihood
from pied.study.snapshot import Snapshot


@dataclass(frozen=True, eq=False)
class Draws:
    """Draws from a posterior, and what it is made of."""

    snapshot: Snapshot
    likelihood: Likelihood
    chains: Chains
    V: Float64[ndarray, "L D"]
    """The draws of all unknowns, unit cube: parameters, then sizes of errors."""

    @property
    def problem(self) -> Problem:
        """The statement."""
        return self.snapshot.problem

    @cached_property
    def U(self) -> Float64[ndarray, "L d"]:
        """The draws in the unit cube."""
        return self.likelihood.points(self.V)

    @cached_property
    def X(self) -> Float64[ndarray, "L v"]:
        """The draws of all variables in natural units; labels are numbers."""
        return self.problem.from_unit(self.U)
