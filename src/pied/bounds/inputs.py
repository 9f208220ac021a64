"""How beliefs see the variables of a problem."""

import numpy as np
from numpy import ndarray

from pied.gp import Coding, Labels, scaled
from pied.problem import Problem, choices_of
from pied.shapes import Float64


def ratios(problem: Problem) -> Float64[ndarray, "d"]:
    """Return upper / lower bound of each positive variable without a logarithmic axis; 1 for the others, and time."""
    values = [
        variable.hi / variable.lo if variable.lo > 0 and not variable.log and variable.forget is None else 1.0
        for variable in problem.axes.values()
    ]
    return np.array(values)


def longest(problem: Problem) -> Float64[ndarray, "d"]:
    """Return the longest length scale that each variable may have, in the unit cube: time is forgotten."""
    values = [
        np.inf if each.forget is None else each.forget / float(each.hi - each.lo) for each in problem.axes.values()
    ]
    return np.array(values)


def coding_of(problem: Problem) -> Coding | None:
    """Return how beliefs see the labels of a problem; None if it has no choices."""
    axes = list(problem.axes)
    labels = [
        Labels(axes.index(name), len(each.labels), scaled([values for _, values in each.table], len(each.labels)))
        for name, each in choices_of(problem.axes)
    ]
    return Coding(problem.d, tuple(labels)) if labels else None
