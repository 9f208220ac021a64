"""The part of `Study` that amends its record: add, correct, withdraw, restore, annotate, revise; and its history."""

import logging
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any

from pied.errors import UnknownName, did_you_mean
from pied.problem import Problem, element_names, renamed_words
from pied.records import (
    Event,
    Question,
    Record,
    Row,
    State,
    Trial,
    annotate,
    correct,
    history,
    name_now,
    restore,
    withdraw,
)
from pied.study.opening import has_code, stated
from pied.study.reading import added_point, note_text, outcomes, reason, remark, run_point, same_rows, told_values
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
    _change: int

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
    def _trial(self, row: Row) -> Trial:
        """Return a row of the record as a trial of the current question."""

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

    def add(self, x: Any, y: Any, *, anyway: bool = False, again: bool = False) -> Trial:
        """Add old data, a point and its known outputs; it does not count against the budget.

        A row that is there already is not added twice, unless it was measured `again` with the same outcome. A point
        far outside of the variables' ranges and a value outside of its output's range are refused unless `anyway`.
        """
        new = self.add_all([(x, y)], anyway=anyway, again=again)
        if new:
            return new[0]
        row = (added_point(self.problem, x, anyway=anyway), told_values(self.problem, y, anyway=anyway))
        known = same_rows(self.problem, self._snapshot().trials, [row])[0]
        logger.warning("already there as trial %d, not added; a true repetition: again=True", known.number)
        return known

    def add_all(
        self, rows: Iterable[tuple[Any, Any]], *, anyway: bool = False, again: bool = False
    ) -> dict[int, Trial]:
        """Add many rows of old data at once, points with their known outputs: all of them, or none if one is refused.

        Rows that are there already are passed over as in `add`; who adds the same rows at the same time adds them once.

        Args:
            rows: Points with their outputs.
            anyway: Whether values outside of their ranges, and settings far outside, are right.
            again: Whether rows that are there already were measured again.

        Returns:
            The new trials, by the place of their row.
        """
        trials = {trial.number: trial for trial in self._snapshot().trials}
        others = outcomes(trials.values())
        read = [
            (
                added_point(self.problem, x, anyway=anyway),
                told_values(self.problem, y, anyway=anyway, others=others),
            )
            for x, y in rows
        ]
        new: list[int] = []

        def choose(changed: list[Row]) -> list[tuple[dict[str, Any], dict[str, float]]]:
            seen = {**trials, **{row.number: self._trial(row) for row in changed}}
            known = {} if again else same_rows(self.problem, seen.values(), read)
            new[:] = [place for place in range(len(read)) if place not in known]
            return [read[place] for place in new]

        if not choose([]):
            return {}
        made = self._record.add(choose, since=self._change, revision=self._revision, worker=self.worker)
        now = {trial.number: trial for trial in self._snapshot().trials}
        found = {place: now[row.number] for place, row in zip(new, made, strict=True)}
        for trial in found.values():
            if not anyway and (said := remark(self.problem, trial.x)):
                logger.warning("%s", said)
            logger.info("%s", trial)
        return found

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
        old = self._known(trial)
        withdraw(self._record, old.number, why=reason(why), worker=self.worker)
        return self._repeated(old) if old.state is State.WITHDRAWN else self._logged(old.number)

    def restore(self, trial: Trial | int, *, why: str = "") -> Trial:
        """Let a withdrawn trial count again."""
        old = self._known(trial)
        restore(self._record, old.number, why=why, worker=self.worker)
        return self._repeated(old) if old.state is not State.WITHDRAWN else self._logged(old.number)

    def _repeated(self, trial: Trial) -> Trial:
        """Say that something was done before."""
        logger.warning("trial %d: that was done before; nothing has changed", trial.number)
        return trial

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
