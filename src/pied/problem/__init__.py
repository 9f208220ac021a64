"""The statement of a problem: variables, outputs, the white box g and its structure."""

from pied.problem.candidates import SAME, Listing
from pied.problem.formula import Formula, Scope
from pied.problem.named import Named, groups
from pied.problem.problem import Problem
from pied.problem.variables import Variable

__all__ = ["SAME", "Formula", "Listing", "Named", "Problem", "Scope", "Variable", "groups"]
