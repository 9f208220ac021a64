"""The one stateful object, `Study`, and its answers."""

from pied.study.opening import opened
from pied.study.reading import run_point, same_rows, told_values
from pied.study.recommendation import gap, hopeless, observed_row, recommend
from pied.study.reframing import frame_changes, reframe
from pied.study.result import Result
from pied.study.shortcuts import maximize, minimize, solve
from pied.study.study import Study
from pied.study.words import AIMS, Words, about, counted, figure, percent, short, titled

__all__ = [
    "AIMS",
    "Result",
    "Study",
    "Words",
    "about",
    "counted",
    "figure",
    "frame_changes",
    "gap",
    "hopeless",
    "maximize",
    "minimize",
    "observed_row",
    "opened",
    "percent",
    "recommend",
    "reframe",
    "run_point",
    "same_rows",
    "short",
    "solve",
    "titled",
    "told_values",
]
