"""A study at one moment, and what follows from counting its trials: status and verdict, without a belief."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from pied.distances import to_nearest
from pied.errors import Status, is_everywhere
from pied.problem import SAME, Problem
from pied.records import COMPARED, Dataset, State, Trial, met
from pied.rng import Stream
from pied.solvers.base import Solver
from pied.study.relaxation import Relaxation

if TYPE_CHECKING:
    from pied.solvers.answers import Answers

DESIGNED = ("initial", "start")
"""Aims of the trials of a design: spread over the ranges, or given to begin with."""
UNSOUGHT = (*DESIGNED, "repeat", "compare")
"""Aims of trials that were not sought by a belief."""
FIRST_FAILURES = 3
"""Trials: if these first ones all fail for reasons that cannot depend on the point, a run stops."""


@dataclass(frozen=True, eq=False)
class Moment:
    """The record of a study at one moment.

    The solver of a stored study is loaded when an answer needs it: counting trials does not.
    """

    problem: Problem
    solver_of: Callable[[], Solver]
    """Return the solver."""
    seed: int
    patience: int | None
    initial: int
    trials: tuple[Trial, ...]
    revision: int = 1
    """Number of the question: bounds for other questions do not count."""
    block: str = field(default="", kw_only=True)
    """The block that is asked about; empty: an average one."""
    conflict_of: Callable[[], Relaxation | None] = lambda: None
    """Return the constraints that nothing can meet, known before any evaluation, if any."""
    is_done: bool = False
    """Whether the solver has nothing more to propose."""

    @property
    def solver(self) -> Solver:
        """The solver of the study."""
        return self.solver_of()

    @property
    def white(self) -> Relaxation | None:
        """Constraints that nothing can meet, known before any evaluation, if any."""
        return self.conflict_of()

    @cached_property
    def data(self) -> Dataset:
        """What beliefs are made from: the record as arrays, without repetitions of exact values."""
        return self.record.distinct(self.problem)

    @cached_property
    def record(self) -> Dataset:
        """The record as arrays."""
        return replace(Dataset.of(self.problem, self.believed, self.revision), block=self.block)

    @cached_property
    def correction(self) -> int:
        """Number of the last correction of the record: what was computed before it no longer counts."""
        return max((trial.corrected for trial in self.trials), default=0)

    @property
    def stamp(self) -> tuple[int, int]:
        """Two numbers that change with every proposal and correction."""
        return self.used, self.correction

    @cached_property
    def believed(self) -> tuple[Trial, ...]:
        """The trials, with as much of why they were proposed as still holds."""
        given, same = self.problem.given, not self.problem.is_turned
        believed = (trial.believed(self.correction) for trial in self.trials)
        return tuple(trial.of_slice(given, same_coordinates=same) for trial in believed)

    @property
    def current(self) -> tuple[Trial, ...]:
        """The trials with those bounds that hold for this question and after the last correction, for pictures."""
        return tuple(
            trial if trial.revision == self.revision else trial.believed(self.correction + 1) for trial in self.believed
        )

    @cached_property
    def present(self) -> tuple[Trial, ...]:
        """The trials of the present campaign."""
        return tuple(trial for trial in self.trials if not trial.campaign)

    @property
    def used(self) -> int:
        """Number of proposed trials: told, partial, failed, withdrawn or pending."""
        return sum(not trial.is_added for trial in self.trials)

    @cached_property
    def pending(self) -> tuple[int, ...]:
        """Numbers of the trials with missing values."""
        return tuple(trial.number for trial in self.trials if trial.state in (State.ASKED, State.PARTIAL))

    @cached_property
    def settings(self) -> "Answers":
        """With what is answered."""
        return self.solver.answers

    @cached_property
    def level(self) -> float:
        """p of the bounds that are said."""
        from pied.bounds import level_at

        return level_at(self.settings.level, len(self.data.U))

    @property
    def stream(self) -> Stream:
        """Random numbers of samples and searches."""
        return Stream(self.seed)

    @cached_property
    def status(self) -> Status:
        """Status of the study."""
        if self.white is not None or self.is_infeasible:
            return Status.INFEASIBLE
        if self.is_exhausted:
            return Status.DONE if self.problem.n == 0 or self.is_met else Status.INFEASIBLE
        if self.is_broken:
            return Status.BROKEN
        return Status.DONE if self.is_done else Status.RUNNING

    @cached_property
    def is_exhausted(self) -> bool:
        """Whether there are few settings and each was measured without error, or failed: nothing is left to learn."""
        points, data = self.problem.choosable, self.data
        if points is None or not self.problem.is_exact:
            return False
        known = np.concatenate([data.U[data.complete], data.failed])
        return len(known) >= len(points) and bool((to_nearest(points, known, "chebyshev") <= SAME).all())

    @property
    def is_met(self) -> bool:
        """Whether a told point meets every constraint, with noise by the mean of its measurements."""
        return bool(met(self.problem, self.data).any())

    @cached_property
    def is_broken(self) -> bool:
        """Whether the black box does not work at all; failures in a part of the box are normal and are learned.

        It does not when nothing was told and either the whole initial design failed, or the first evaluations failed
        for reasons that cannot depend on the point; nor when an output came in no evaluation of the initial design.
        """
        if self.never_came:
            return True
        if any(trial.state in (State.TOLD, State.PARTIAL) for trial in self.present):
            return False
        gone = {trial.number for trial in self.present if trial.state is State.WITHDRAWN or trial.not_the_settings}
        asked = [trial for trial in self.present if not trial.is_added and trial.number not in gone]
        failed = [trial.state is State.FAILED for trial in asked]
        first = asked[:FIRST_FAILURES]
        if len(asked) >= self.initial and all(failed[: self.initial]):
            return True
        is_code = all(failed[:FIRST_FAILURES]) and all(is_everywhere(trial.reason) for trial in first)
        return len(first) == FIRST_FAILURES and is_code

    @cached_property
    def never_came(self) -> tuple[str, ...]:
        """Outputs that the black box gave at no point of a whole initial design; people may tell them later."""
        done = [trial for trial in self.present if trial.state in (State.TOLD, State.PARTIAL)]
        if self.problem.blackbox is None or not done or len(done) < self.initial:
            return ()
        missing = np.isnan(self.data.Y).all(0)
        return tuple(
            name for name, is_missing in zip(self.problem.outputs, missing.tolist(), strict=True) if is_missing
        )

    @cached_property
    def is_infeasible(self) -> bool:
        """Whether the verdict is reached: confirmed, and no outcome is awaited that could still be feasible.

        A pending trial could be if it was proposed when the constraints seemed satisfiable, so the verdict waits until
        it is told or failed. Without this, a feasible problem was declared while its best point was being evaluated.
        What a black box left out of its answer will not come any more.
        """
        is_run = self.problem.blackbox is not None
        awaited = {
            trial.number
            for trial in self.trials
            if trial.state is State.ASKED or (trial.state is State.PARTIAL and not is_run)
        }
        is_awaited = any(
            trial.number in awaited and not (trial.why.margin is not None and trial.why.margin < 0)
            for trial in self.believed
            if trial.revision == self.revision  # on other slices, too: what is feasible there is so here
        )
        return self.is_confirmed and not is_awaited

    @cached_property
    def is_confirmed(self) -> bool:
        """Whether the last tests of a belief all found the constraints unsatisfiable, and no told point is feasible."""
        if self.patience is None or self.problem.n == 0 or self.confirmations == 0:
            return False
        return self.confirmations >= self.needed and not self.is_met

    @property
    def needed(self) -> int:
        """Number of confirmations that a verdict needs."""
        return 1 if self.settings.tests_singly or self.patience is None else self.patience

    @cached_property
    def confirmations(self) -> int:
        """Number of consecutive tests which confirm that the constraints cannot be met.

        A test that finds them unsatisfiable (M < 0) confirms once its trial is told, if the values are what the belief
        expected: one that is refuted by its own measurement confirms nothing. Parallel tests use the same data and
        count once. The number is therefore the length of the longest chain of told tests since the last passed
        test, in which each test knew the values of its predecessor.
        """
        chains: list[tuple[Trial, int]] = []
        for trial in self.of_this_question:
            if trial.is_added or trial.why.aim in UNSOUGHT:
                continue
            if trial.why.margin is None or not trial.why.margin < 0:
                chains = []
            elif trial.state is State.TOLD and trial.came_true:
                known = [length for before, length in chains if trial.knew(before)]
                chains.append((trial, 1 + max(known, default=0)))
        return max((length for _, length in chains), default=0)

    @property
    def of_this_question(self) -> list[Trial]:
        """The trials that were proposed for this question, on this slice."""
        given = self.problem.given
        mine = (trial for trial in self.believed if trial.revision == self.revision)
        return [trial for trial in mine if dict(trial.why.given) == given]

    @property
    def initial_index(self) -> int | None:
        """Index of the next point of the initial design; None when the design is complete."""
        first = [trial for trial in self.present if not trial.is_added and trial.why.aim in DESIGNED]
        added = sum(trial.is_added and trial.state is State.TOLD for trial in self.present)
        old = sum(trial.state is State.TOLD for trial in self.trials) - sum(
            trial.state is State.TOLD for trial in self.present
        )
        added += min(old, max(self.initial - COMPARED, 0))
        told = [trial for trial in self.present if trial.state in (State.TOLD, State.PARTIAL)]
        gone = [trial for trial in self.present if trial.state is State.WITHDRAWN]
        lost = sum(trial.is_added or trial.why.aim in DESIGNED for trial in gone)
        chosen = sum(not trial.is_added and trial.why.aim not in DESIGNED for trial in told)
        here = len(first) - sum(trial.state is State.WITHDRAWN for trial in first)
        is_complete = here + added + min(lost, chosen) >= self.initial  # chosen points stand in for withdrawn ones
        return (
            None
            if is_complete and len(told) >= min(2, self.initial)
            else sum(trial.why.aim == "initial" for trial in first)
        )
