"""The part of `Study` that amends its record: correct, withdraw, restore, annotate, revise, and tell the history."""

import logging
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from pied.errors import UnknownName, did_you_mean
from pied.problem import Problem, element_names, renamed_words
from pied.records import Event, Question, Record, Trial, annotate, correct, history, name_now, restore, withdraw
from pied.study.opening import has_code, stated
from pied.study.reading import note_text, outcomes, reason, remark, run_point, told_values
from pied.study.reframing import reframe
from pied.study.result import Revision
from pied.study.snapshot import Snapshot

logger = logging.getLogger(__name__)


class Amendable(ABC):
    """A study whose record can be amended; nothing is erased."""

    problem: Problem
    worker: str
    _record: Record
    _revision: int

    @property
    @abstractmethod
    def questions(self) -> list[Question]:
        """All questions asked of these data, in order."""

    @abstractmethod
    def _snapshot(self) -> Snapshot:
        """Return the study at this moment."""

    @abstractmethod
    def _put(self, problem: Problem) -> None:
        """Make this the current question."""

    @abstractmethod
    def _known(self, trial: Trial | int) -> Trial:
        """Return a trial of the record."""

    @abstractmethod
    def _logged(self, number: int) -> Trial:
        """Log a changed trial and return it."""

    def _at(self, trial: Trial, at: Mapping[str, Any] | None, anyway: bool) -> dict[str, Any] | None:
        """Return the whole point at which a trial was run; warn when it lies outside of the box."""
        if not at:
            return None
        point = run_point(self.problem, trial.x, at, anyway=anyway)
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
            anyway: Whether values outside of their ranges, and settings far outside, are right; they are refused
                otherwise.
        """
        old, said = self._known(trial), reason(why)
        known = outcomes(self._snapshot().trials)
        new = told_values(self.problem, values, f"trial {old.number}: ", anyway=anyway, others=known)
        correct(self._record, old.number, new, why=said, worker=self.worker, at=self._at(old, at, anyway))
        return self._logged(old.number)

    def withdraw(self, trial: Trial | int, *, why: str) -> Trial:
        """Let a trial no longer count as data, for instance a contaminated one; `restore` undoes it."""
        withdraw(self._record, self._known(trial).number, why=reason(why), worker=self.worker)
        return self._logged(trial.number if isinstance(trial, Trial) else trial)

    def restore(self, trial: Trial | int, *, why: str = "") -> Trial:
        """Let a withdrawn trial count again."""
        restore(self._record, self._known(trial).number, why=why, worker=self.worker)
        return self._logged(trial.number if isinstance(trial, Trial) else trial)

    def note(self, trial: Trial | int | None, text: str) -> Event:
        """Write a note about a trial into the record, or, without one, about the study as a whole."""
        number = 0 if trial is None else self._known(trial).number
        return annotate(self._record, number, note_text(text), worker=self.worker)

    def history(self, trial: Trial | int | None = None) -> list[Event]:
        """Return all that happened, or what happened to one trial, in order: who did what, when and why."""
        return history(self._record, None if trial is None else self._known(trial).number)

    def revise(self, *, renamed: Mapping[str, str] | None = None, **words: Any) -> Revision:
        """Change the question and keep the data: new prices, limits, objective, bounds, further outputs.

        Trials from before a new output are partial. What the data cannot bear is refused with the reason.
        Formulas and constants of an earlier question keep its number. Code always makes a new question, because two
        functions cannot be compared.

        Args:
            renamed: New names of variables, outputs and constraints by their old ones. Formulas follow; Python
                functions that use old names are given anew. The history shows what each was called.
            words: Changed arguments of `Problem`: `maximize`, `minimize`, `subject_to`, `constants`, `tolerance`, ...
                Constants that are not named keep their values.

        Returns:
            The answer to the new question anywhere in the box (possible because h was modelled, not the objective),
            and the old optimum under the new question.
        """
        old, number = self._snapshot().problem, self._revision
        if isinstance(words.get("constants"), Mapping):
            words["constants"] = _constants(old, words)
        new = old.revised(**renamed_words(old, renamed or {}, words))
        names = element_names(list(old.outputs), renamed or {})
        is_new = has_code(words)
        self._revision = reframe(self._record, new, is_new=is_new, names=names, worker=self.worker)
        self._put(new)
        return self._snapshot().compared(old, number, names)

    def compare(self) -> Revision:
        """Answer the question, and compare with the optimum of the previous question.

        This is for a study reopened with another question. The previous one is restored from formulas, never from code.
        """
        earlier = [question for question in self.questions if question.number != self._revision]
        old = stated(earlier[-1].statement, self.problem.candidates) if earlier else None
        if old is None:
            return self._snapshot().compared(None, 0)
        events = self._record.events()
        names = {name: name_now(events, name, earlier[-1].asked) for name in (*old.variables, *old.outputs)}
        found = self._snapshot().problem.exact_by_repetition
        old = old.found_exact([name for name in old.outputs if names[name] in found])
        return self._snapshot().compared(old, earlier[-1].number, names)


def _constants(problem: Problem, words: Mapping[str, Any]) -> dict[str, Any]:
    """Return all constants after some have changed; new ones need a new formula that may use them."""
    if not words.keys() & {"maximize", "minimize", "subject_to"}:
        for name in words["constants"]:
            if name not in problem.constants:
                raise UnknownName(f"There is no constant '{name}'.{did_you_mean(str(name), problem.constants)}", name)
    return {**problem.constants, **words["constants"]}
