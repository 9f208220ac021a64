"""The best point of given functions on the unit cube or in a list of candidates, or on a grid."""

from pied.search.enumeration import Enumeration, exact_weight
from pied.search.functions import Functions, Held, Picked, Refined
from pied.search.local import VIOLATION_WEIGHT, distinct, solve_locally
from pied.search.mixed import Mixed
from pied.search.multistart import Search, white_feasible
from pied.search.optimum import SATISFIED, Optimum
from pied.search.penalty import PenaltySearch
from pied.search.slices import search_of, settings_of

__all__ = [
    "SATISFIED",
    "VIOLATION_WEIGHT",
    "Enumeration",
    "Functions",
    "Held",
    "Mixed",
    "Optimum",
    "PenaltySearch",
    "Picked",
    "Refined",
    "Search",
    "distinct",
    "exact_weight",
    "search_of",
    "settings_of",
    "solve_locally",
    "white_feasible",
]
