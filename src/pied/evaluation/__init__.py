"""Calling the black box h: in this process, in others, on a cluster, or as a command."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pied.evaluation.command import Command
    from pied.evaluation.crew import Crew, Outcome, every
    from pied.evaluation.executors import Serial
    from pied.evaluation.fmu import simulation
    from pied.evaluation.near import Near
    from pied.evaluation.processes import Processes, Terminated

__all__ = ["Command", "Crew", "Near", "Outcome", "Processes", "Serial", "Terminated", "every", "simulation"]

_HOMES = {
    "Command": "command",
    "Crew": "crew",
    "Outcome": "crew",
    "every": "crew",
    "Near": "near",
    "simulation": "fmu",
    "Serial": "executors",
    "Processes": "processes",
    "Terminated": "processes",
}
"""Where each name is that is loaded when first used: telling and showing results evaluates nothing."""


def __getattr__(name: str) -> Any:
    """Load a name when it is first used."""
    if name not in _HOMES:
        raise AttributeError(f"pied.evaluation has no '{name}'")
    value = getattr(import_module(f"pied.evaluation.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
