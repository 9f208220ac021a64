"""The one stateful object, `Study`, and its answers."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pied.study.front import FrontPoint
from pied.study.gaps import Top, gap, tops
from pied.study.opening import opened
from pied.study.opening import stated as stated_question
from pied.study.present import at_present
from pied.study.reading import added_point, remark, run_point, same_rows, told_values
from pied.study.reframing import frame_changes, reframe
from pied.study.relaxation import hopeless
from pied.study.result import Result
from pied.study.shortcuts import maximize, minimize, solve
from pied.study.snapshot import Snapshot
from pied.study.study import Study
from pied.study.words import AIMS, SIDES, Words, about, counted, figure, percent, short, titled

if TYPE_CHECKING:
    from pied.study.explain import explained
    from pied.study.fitting import Fit, least_squares
    from pied.study.likelihood import Discrepancy
    from pied.study.outlook import Outlook
    from pied.study.policy import Policy, policy_of
    from pied.study.posterior import Posterior
    from pied.study.recommendation import observed_row, recommend
    from pied.study.scenario import Scenario, changed, what_if
    from pied.study.sensitivity import sensitivities
    from pied.study.sweep import Sweep

__all__ = [
    "AIMS",
    "SIDES",
    "Discrepancy",
    "Fit",
    "FrontPoint",
    "Outlook",
    "Policy",
    "Posterior",
    "Result",
    "Scenario",
    "Snapshot",
    "Study",
    "Sweep",
    "Top",
    "Words",
    "about",
    "added_point",
    "at_present",
    "changed",
    "counted",
    "explained",
    "figure",
    "frame_changes",
    "gap",
    "hopeless",
    "least_squares",
    "maximize",
    "minimize",
    "observed_row",
    "opened",
    "percent",
    "policy_of",
    "recommend",
    "reframe",
    "remark",
    "run_point",
    "same_rows",
    "sensitivities",
    "short",
    "solve",
    "stated_question",
    "titled",
    "told_values",
    "tops",
    "what_if",
]


_LATER = {
    "Outlook": "outlook", "Scenario": "scenario", "changed": "scenario", "what_if": "scenario", "Sweep": "sweep",
    "sensitivities": "sensitivity", "Policy": "policy", "policy_of": "policy", "explained": "explain",
    "Posterior": "posterior", "Discrepancy": "likelihood", "Fit": "fitting", "least_squares": "fitting",
}  # fmt: skip
"""Modules of names that are loaded when they are first used; of all others: `recommendation`."""


def __getattr__(name: str) -> Any:
    """Load some names when they are first used: only an answer needs a belief."""
    if name in __all__:
        value = getattr(import_module(f"pied.study.{_LATER.get(name, 'recommendation')}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"pied.study has no '{name}'")
