"""The part of `Study` that amends its record: correct, withdraw, restore, annotate, and tell the history."""

import logging
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from pied.problem import Problem
from pied.records import Event, Record, Trial, annotate, correct, history, restore, withdraw
from pied.study.reading import reason, remark, run_point, told_values

logger = logging.getLogger(__name__)


class Amendable(ABC):
    """A study whose record can be amended; nothing is erased."""

    problem: Problem
    worker: str
    _record: Record

    @abstractmethod
    def _known(self, trial: Trial | int) -> Trial:
        """Return a trial of the record."""

    @abstractmethod
    def _logged(self, number: int) -> Trial:
        """Log a changed trial and return it."""

    def _at(self, trial: Trial, at: Mapping[str, Any] | None) -> dict[str, Any] | None:
        """Return the whole point at which a trial was run; warn when it lies outside of the box."""
        if not at:
            return None
        point = run_point(self.problem, trial.x, at)
        if said := remark(self.problem, point):
            logger.warning("trial %d: %s", trial.number, said)
        return point

    def correct(
        self,
        trial: Trial | int,
        values: Any = None,
        *,
        why: str,
        at: Mapping[str, Any] | None = None,
        anyway: bool = False,
    ) -> Trial:
        """Replace told outputs, or what was really set; the earlier ones stay in the history.

        Bounds, gap and verdict that were computed from the earlier ones no longer count.

        Args:
            trial: The trial or its number; a failed one counts again.
            values: The right outputs, only those that change.
            why: The reason.
            at: Variables that were really set to other values.
            anyway: Whether values outside of their ranges are right; they are refused otherwise.
        """
        old, said = self._known(trial), reason(why)
        new = told_values(self.problem, values, f"trial {old.number}: ", anyway=anyway)
        correct(self._record, old.number, new, why=said, worker=self.worker, at=self._at(old, at))
        return self._logged(old.number)

    def withdraw(self, trial: Trial | int, *, why: str) -> Trial:
        """Let a trial no longer count as data, for instance a contaminated one; `restore` undoes it."""
        withdraw(self._record, self._known(trial).number, why=reason(why), worker=self.worker)
        return self._logged(trial.number if isinstance(trial, Trial) else trial)

    def restore(self, trial: Trial | int, *, why: str = "") -> Trial:
        """Let a withdrawn trial count again."""
        restore(self._record, self._known(trial).number, why=why, worker=self.worker)
        return self._logged(trial.number if isinstance(trial, Trial) else trial)

    def note(self, trial: Trial | int, text: str) -> Event:
        """Write a note about a trial into the record."""
        return annotate(self._record, self._known(trial).number, reason(text), worker=self.worker)

    def history(self, trial: Trial | int | None = None) -> list[Event]:
        """Return all that happened, or what happened to one trial, in order: who did what, when and why."""
        return history(self._record, None if trial is None else self._known(trial).number)
