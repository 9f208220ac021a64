"""Calling the black box h: in this process, in others, on a cluster, or as a command."""

from pied.evaluation.command import Command
from pied.evaluation.crew import Crew, Outcome, every
from pied.evaluation.executors import Serial
from pied.evaluation.processes import Processes, Terminated

__all__ = ["Command", "Crew", "Outcome", "Processes", "Serial", "Terminated", "every"]
