"""The documented path of `pied.evaluation.executors`: many evaluations at once."""

from pied.evaluation.executors import *  # noqa: F403
