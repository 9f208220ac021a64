"""Calling the black box h: in this process, in others, on a cluster, or as a command."""

from pied.evaluation.command import Command
from pied.evaluation.executors import Crew, Outcome, Processes, Serial, Terminated, every

__all__ = ["Command", "Crew", "Outcome", "Processes", "Serial", "Terminated", "every"]
