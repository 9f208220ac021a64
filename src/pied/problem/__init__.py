"""The statement of a problem: variables, outputs, the white box g and its structure."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pied.problem.named import Named, groups, raw

if TYPE_CHECKING:
    from pied.problem.candidates import SAME, Listing
    from pied.problem.choices import Choice, choices_of
    from pied.problem.equalities import Mixture
    from pied.problem.formula import Formula, Scope
    from pied.problem.goals import restored_goals
    from pied.problem.grids import Grid
    from pied.problem.limits import Limit
    from pied.problem.models import Models
    from pied.problem.problem import Problem
    from pied.problem.ranges import doubts
    from pied.problem.reach import ceiling, enclosed, over_boxes, unreachable
    from pied.problem.renaming import element_names, renamed_formula, renamed_words
    from pied.problem.slices import Slice, ends_of, said
    from pied.problem.squares import Squares, squares_of
    from pied.problem.values import listed
    from pied.problem.variables import Box, Integer, Levels, Observed, Variable

__all__ = [
    "SAME",
    "Box",
    "Choice",
    "Formula",
    "Grid",
    "Integer",
    "Levels",
    "Limit",
    "Listing",
    "Mixture",
    "Models",
    "Named",
    "Observed",
    "Problem",
    "Scope",
    "Slice",
    "Squares",
    "Variable",
    "ceiling",
    "choices_of",
    "doubts",
    "element_names",
    "enclosed",
    "ends_of",
    "groups",
    "listed",
    "over_boxes",
    "raw",
    "renamed_formula",
    "renamed_words",
    "restored_goals",
    "said",
    "squares_of",
    "unreachable",
]

_HOMES = {
    "SAME": "candidates",
    "Box": "variables",
    "Listing": "candidates",
    "Formula": "formula",
    "Grid": "grids",
    "Scope": "formula",
    "Slice": "slices",
    "Limit": "limits",
    "Models": "models",
    "Problem": "problem",
    "Choice": "choices",
    "choices_of": "choices",
    "Integer": "variables",
    "Levels": "variables",
    "Observed": "variables",
    "Mixture": "equalities",
    "Variable": "variables",
    "doubts": "ranges",
    "enclosed": "reach",
    "element_names": "renaming",
    "ends_of": "slices",
    "listed": "values",
    "renamed_formula": "renaming",
    "renamed_words": "renaming",
    "restored_goals": "goals",
    "over_boxes": "reach",
    "said": "slices",
    "Squares": "squares",
    "squares_of": "squares",
    "ceiling": "reach",
    "unreachable": "reach",
}
"""Where each name is that is loaded when first used: a worker process receives named points and no more."""


def __getattr__(name: str) -> Any:
    """Load a name when it is first used."""
    if name not in _HOMES:
        raise AttributeError(f"pied.problem has no '{name}'")
    value = getattr(import_module(f"pied.problem.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
