"""Test problems with known optima: the paper's 22, its two illustrations, their twins, mixed and random ones.

The module itself is the suite:

    suite["booth"].problem          what a solver is given
    suite["booth"].known.value      the best that can be done
    suite.get("g09", "black", 0.1)  the same with other structure and noise
    suite.sets["constrained"]       names by set; iterating over the suite gives all names of the paper
    suite.sets["mixed"]             problems with integers, standard sizes, choices and mixtures
    suite.sets["rough"]             problems with cliffs, stages, a narrow resonance, growing noise and gross errors
    suite.sets["fronts"]            problems of several objectives, by suite.front("binh-korn")
    suite.table()                   one plain row per problem
    suite.twin("g09", scale=1e4)    the same problem made harder in one way
    suite.random(7)                 a fresh problem of known optimum
"""

import sys
from collections.abc import Iterator
from types import ModuleType

from pied.suite.benchmark import Benchmark as Benchmark
from pied.suite.benchmark import Known as Known
from pied.suite.catalogue import CATALOGUE as _CATALOGUE
from pied.suite.catalogue import OTHERS as _OTHERS
from pied.suite.catalogue import SETS as sets
from pied.suite.catalogue import front as front
from pied.suite.catalogue import get as get
from pied.suite.catalogue import table as table
from pied.suite.fronts import FrontBenchmark as FrontBenchmark
from pied.suite.generator import KINDS as kinds
from pied.suite.generator import random as random
from pied.suite.twins import twin as twin
from pied.suite.uneven import ROUGH as rough_kinds

__all__ = [
    "Benchmark",
    "FrontBenchmark",
    "Known",
    "front",
    "get",
    "kinds",
    "random",
    "rough_kinds",
    "sets",
    "table",
    "twin",
]


class _Suite(ModuleType):
    """A module that can also be indexed by a problem's name and iterated over."""

    def __getitem__(self, name: str) -> Benchmark:
        return get(name)

    def __iter__(self) -> Iterator[str]:
        return iter(_CATALOGUE)

    def __len__(self) -> int:
        return len(_CATALOGUE)

    def __contains__(self, name: object) -> bool:
        return name in _CATALOGUE or name in _OTHERS


sys.modules[__name__].__class__ = _Suite
