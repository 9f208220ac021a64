"""Warm starts of simulators: which told point is nearest to a trial, and where each evaluation keeps its state."""

import shutil
import tempfile
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pied.evaluation import Near
from pied.problem import Problem
from pied.records import State, Trial


class Starts:
    """Offers warm starts to a black box that takes `near`, and a folder to one that takes `state` as well.

    Args:
        folder: Where the states are kept, a folder for each trial; None: in a temporary one, until the study ends.
    """

    def __init__(self, folder: str | Path | None = None) -> None:
        self._folder = None if folder is None else Path(folder).absolute()

    def offer(self, problem: Problem, trials: Sequence[Trial], trial: Trial) -> dict[str, Any]:
        """Return the words with which the black box is called at a trial beside its point."""
        takes: frozenset[str] = getattr(problem.blackbox, "offered", frozenset())
        words: dict[str, Any] = {}
        if "near" in takes:
            words["near"] = self._nearest(problem, trials, trial)
        if "state" in takes:
            words["state"] = self._at(trial.number)
            words["state"].mkdir(parents=True, exist_ok=True)
        return words

    def _nearest(self, problem: Problem, trials: Sequence[Trial], trial: Trial) -> Near | None:
        """Return the told point nearest in the unit cube, of those that left a state if there are any."""
        told = [each for each in trials if each.state in (State.TOLD, State.PARTIAL) and each.number != trial.number]
        if not told:
            return None
        told = [each for each in told if self._left(each.number)] or told
        U = problem.to_unit(np.array([each.x.array for each in [trial, *told]]))
        found = told[int(np.square(U[1:] - U[0]).sum(1).argmin())]
        state = self._at(found.number) if self._left(found.number) else None
        return Near(found.number, found.x, found.y or {}, state)

    def _left(self, number: int) -> bool:
        """Tell whether the evaluation of a trial has left something in its folder."""
        if self._folder is None:
            return False
        folder = self._at(number)
        return folder.is_dir() and any(folder.iterdir())

    def _at(self, number: int) -> Path:
        """Return the folder of a trial."""
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="pied-states-"))
            weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        return self._folder / f"trial-{number}"
