"""The loop of `Study.run`: evaluate trials in parallel until the budget is spent or there is a reason to stop."""

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from pied.errors import Infeasible, SolverDone, Status
from pied.evaluation import Crew, Outcome, every
from pied.records import State, Trial

GAP_CONFIRMATIONS = 3
"""Consecutive evaluations, not counting probes, that must find a small gap before the run ends: a single belief may be
over-confident."""
RENEWALS = 3
"""Times that a lease is renewed during its length, so that one failed renewal does no harm."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Loop:
    """Keeps a crew busy with trials; the fields connect it to a study."""

    crew: Crew
    """Calls the black box."""
    workers: int
    """Number of trials evaluated at once."""
    status: Callable[[], Status]
    """Return the current status of the study."""
    next_trial: Callable[[int], tuple[Trial | None, bool]]
    """Given the budget left, return the next trial, if any, and whether it is new."""
    settle: Callable[[Outcome], Trial]
    """Record the result of an evaluation."""
    is_small_enough: Callable[[], bool]
    """Return whether the gap, or the possible growth of the front, is small enough to stop."""
    when_small: Status
    """How the run then ended."""
    awaits_verdict: Callable[[], bool]
    """Return whether the verdict of infeasibility only waits for pending outcomes."""
    on_settled: Callable[[Trial], None]
    """Called with each trial that was told or failed."""
    offer: Callable[[Trial], dict[str, Any]]
    """Return what the black box is offered at a trial beside its point."""
    under_way: set[int]
    """Numbers of the trials under evaluation; updated here, and kept by the study after an interruption."""

    def run(self, budget: int) -> Status:
        """Evaluate until the budget is spent or there is a reason to stop, then wait for the last evaluations."""
        left, confirmed, ended = budget, 0, None
        is_retry = self.status() is Status.BROKEN  # one evaluation shows whether the black box has been repaired
        while True:
            if ended is None:
                left, ended = self._fill(left, is_retry)
                is_retry = False
            if not self.crew.busy:
                return ended or Status.FINISHED
            outcome = self.crew.wait()
            if outcome is None:
                continue
            trial = self.settle(outcome)
            self.under_way.discard(trial.number)
            if trial.state is not State.ASKED:  # else another worker evaluates it
                self.on_settled(trial)
            confirmed = confirmed + 1 if self.is_small_enough() and trial.why.aim != "probe" else 0
            if confirmed == GAP_CONFIRMATIONS:
                ended = self.when_small

    def _fill(self, left: int, is_retry: bool) -> tuple[int, Status | None]:
        """Submit trials until all workers are busy; return the budget left, and why there are no more trials."""
        while self.crew.busy < self.workers and (is_retry or self.status() is Status.RUNNING):
            if self.crew.busy and self.awaits_verdict():
                break
            is_retry = False
            try:
                trial, is_new = self.next_trial(left)
            except SolverDone:
                return left, Status.DONE
            except Infeasible:
                return left, Status.FINISHED
            if trial is None:
                break
            left -= is_new
            self.under_way.add(trial.number)
            self.crew.submit(trial.number, trial.x, self.offer(trial))
        return left, None


def renewing(renew: Callable[[], None], lease: float) -> AbstractContextManager[None]:
    """Renew leases of so many seconds periodically, while this process lives."""
    return every(lease / RENEWALS, renew) if math.isfinite(lease) else nullcontext()
