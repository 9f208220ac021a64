"""The part of `Study` that evaluates the black box: the loop of `run`, and what becomes of each answer."""

import logging
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pied.errors import SettingError, Status, TellError
from pied.problem import Problem, doubts, listed
from pied.records import Entry, Keeper, Record, Row, State, Trial
from pied.study.reading import outcomes
from pied.study.result import Result
from pied.study.snapshot import Snapshot

if TYPE_CHECKING:
    from pied.evaluation import Crew
    from pied.solvers.base import Solver
    from pied.study.loop import Loop
    from pied.study.progress import Line
    from pied.study.starts import Starts

logger = logging.getLogger(__name__)

JITTER_LOOKS = 1.2
"""Growth of the record after which it is looked at for jitter again: a look costs as much as a fit of the belief."""

Observer = Callable[[Any, Trial], None]
"""Is called with the study and a trial that was told or failed."""


class Evaluating(ABC):
    """A study whose black box can be run."""

    problem: Problem
    worker: str
    lease: float
    stop_at_gap: float | None
    stop_at_growth: float | None
    _record: Record
    _trials: dict[int, Trial]
    _rows: dict[int, Row]
    _is_named: bool
    _ended: tuple[tuple[int, int], Status] | None
    _open: set[int]
    """Trials of `run` that are under way, or were at an interruption."""
    _starts: "Starts | None"
    """Of evaluations; its folder lives until the study is closed."""
    _looked_at: float
    """Told points at the last look for jitter; infinite once it was found."""
    _has_remarked: bool
    """On what the black box returns besides the outputs."""

    @property
    @abstractmethod
    def solver(self) -> "Solver":
        """The solver."""

    @abstractmethod
    def _snapshot(self) -> Snapshot:
        """Return the study at this moment."""

    @abstractmethod
    def _known(self, trial: Trial | int) -> Trial:
        """Return a trial of the record."""

    @abstractmethod
    def _offered(self, *, resume: bool) -> Trial | None:
        """Take over a pending trial: the worker's own, or one with an expired lease."""

    @abstractmethod
    def _propose(self) -> Trial:
        """Propose a new trial."""

    @abstractmethod
    def tell(self, trial: Trial | int, y: Any = None, *, anyway: bool = False) -> Trial:
        """Tell what the black box returned."""

    @abstractmethod
    def fail(
        self, trial: Trial | int, reason: str, *, anyway: bool = False, not_the_settings: bool | None = None
    ) -> Trial:
        """Mark a trial as failed."""

    @abstractmethod
    def result(self, rule: str | None = None) -> Result:
        """Return the recommended point and all that is known about it."""

    def run(
        self,
        budget: int,
        *,
        on_tell: Observer | None = None,
        executor: Executor | str | None = None,
        workers: int | None = None,
        timeout: float | None = None,
        retries: int = 0,
        progress: bool | None = None,
        states: str | Path | None = None,
    ) -> Result:
        """Evaluate the black box `budget` times more and return the result so far.

        When the black box raises an exception, returns invalid values, or its worker dies, the trial fails and the run
        goes on. When some outputs are missing, None or not finite, the others count. Ctrl-C keeps all told values and
        returns. If the store is away, the run retries for a minute; results that still cannot be written are saved in
        files, which the next opening reads (`Unwritten` has them, too).

        Args:
            budget: Number of trials to propose.
            on_tell: Called with the study and each trial that was told or failed.
            executor: Where to call the black box: "threads", "processes", or any executor of `concurrent.futures`; by
                default in this thread, or in threads when there are several workers.
            workers: Number of trials evaluated at once.
            timeout: Seconds after which an evaluation fails. A command and a worker process are ended then; a Python
                function in this process cannot be, so it is called in a thread and abandoned.
            retries: How often a failed evaluation is tried again, for simulators that fail now and then.
            progress: Whether to show a line with the number of evaluations, the best value, the gap and the seconds; by
                default on a terminal and in a notebook, not in logs.
            states: Folder in which evaluations keep files from which later ones start, if the black box takes `near`
                and `state`; by default a temporary one. Workers on other machines need one that all can reach.
        """
        if self.problem.blackbox is None:
            raise SettingError("this problem has no black box to run: use ask and tell, or state it with blackbox=")
        if budget < 0:
            raise SettingError(f"the budget counts evaluations, 0 or more, got {budget}")
        from pied.evaluation import Crew, Terminated
        from pied.study.loop import renewing
        from pied.study.progress import Line
        from pied.study.starts import Starts

        if self._starts is None or states is not None:
            self._starts = Starts(states)
        crew = Crew(self.problem.blackbox, executor=executor, workers=workers, timeout=timeout, retries=retries)
        line = Line(self._snapshot, budget, progress=progress)
        status, plain = Status.FINISHED, self._record
        keeper = Keeper(plain, self._answered, self._settle)
        self._record = keeper.patient()
        try:
            with crew, renewing(self._renew, self.lease), keeper.rescuing(crew):
                status = self._loop(crew, keeper, partial(self._observed, line, on_tell)).run(budget)
            line.over()
        except Terminated:
            raise
        except KeyboardInterrupt:
            status = Status.INTERRUPTED
        finally:
            self._record = plain
            line.end()
        self._ended = (self._snapshot().stamp, status)
        self._look_for_jitter()
        return self.result()

    def _look_for_jitter(self) -> None:
        """Say once which noise to state where the black box was stated exact and is not."""
        from pied.study.jitter import jitter, said

        data = self._snapshot().data
        if len(data.U) < JITTER_LOOKS * self._looked_at:
            return
        found = jitter(self.problem.found_exact(()), data)  # what was found and not stated is looked at by itself
        self._looked_at = math.inf if found else len(data.U)
        if found:
            logger.warning("%s", said(self.problem.found_exact(()), found))

    def _observed(self, line: "Line", on_tell: Observer | None, trial: Trial) -> None:
        """Show an evaluation to those who look on."""
        line.step()
        if on_tell is not None:
            on_tell(self, trial)

    def _loop(self, crew: "Crew", keeper: Keeper[Trial], on_settled: Callable[[Trial], None]) -> "Loop":
        """Connect the loop of a run to this study."""
        from pied.study.loop import Loop

        return Loop(
            crew=crew,
            workers=crew.workers if self.solver.parallel else 1,
            status=lambda: self._snapshot().status,
            next_trial=partial(self._next, self._left_open()),
            settle=keeper.settle,
            is_small_enough=self._growth_reached if self.problem.has_front else self._gap_reached,
            when_small=Status.GROWTH_REACHED if self.problem.has_front else Status.GAP_REACHED,
            awaits_verdict=lambda: self._snapshot().is_confirmed,
            on_settled=on_settled,
            offer=self._offer,
            under_way=self._open,
        )

    def _offer(self, trial: Trial) -> dict[str, Any]:
        """Return what the black box is offered at a trial beside its point: a warm start."""
        return {} if self._starts is None else self._starts.offer(self.problem, self._snapshot().trials, trial)

    def _left_open(self) -> list[int]:
        """Return the trials left pending by an interruption, or by an earlier process of this worker."""
        self._snapshot()
        own = [row.number for row in self._rows.values() if self._is_named and row.worker == self.worker]
        return [number for number in sorted({*self._open, *own}) if self._trials[number].state is State.ASKED]

    def _next(self, waiting: list[int], left: int) -> tuple[Trial | None, bool]:
        """Return the next trial to evaluate, and whether it is new: those left open first, then expired ones."""
        while waiting:
            for number in self._record.renew([waiting.pop(0)], self.worker, self.lease):  # unless it was taken over
                return self._trials[number], False
        if left <= 0:
            return None, False
        again = self._offered(resume=False)
        return (again, False) if again is not None else (self._propose(), True)

    def _answered(self, answer: Any) -> dict[str, float]:
        """Return the outputs that an answer of the black box has; say once per study what it has besides."""
        y, gaps, ignored = self.problem.answer(answer)
        if ignored and not self._has_remarked:
            logger.warning("the black box also returns %s: ignored, because they are not outputs", listed(ignored))
            self._has_remarked = True
        if gaps:
            logger.warning("%s The other outputs count: the trial is measured in part", " ".join(gaps.values()))
        return {name: float(y[place]) for place, name in enumerate(self.problem.outputs) if name not in gaps}

    def _settle(self, entry: Entry) -> Trial:
        """Write the result of an evaluation, which may be a failure."""
        number = entry.number
        try:
            if entry.values is None:
                return self.fail(number, entry.failure)
            for doubt in doubts(self.problem, entry.values, outcomes(self._trials.values())):
                logger.warning("trial %d: %s It is recorded", number, doubt)
            return self.tell(number, entry.values, anyway=True)
        except TellError as error:
            logger.warning("the result of trial %d was not recorded, or only in part: %s", number, error)
            return self._known(number)

    def _renew(self) -> None:
        """Renew the leases of the trials under way."""
        self._record.renew(list(self._open), self.worker, self.lease)

    def _gap_reached(self) -> bool:
        width, least = None if self.stop_at_gap is None else self._snapshot().gap()[0], self.stop_at_gap or 0.0
        return width is not None and width <= least

    def _growth_reached(self) -> bool:
        if self.stop_at_growth is None:
            return False
        growth = self._snapshot().front.growth
        return growth is not None and growth <= self.stop_at_growth
