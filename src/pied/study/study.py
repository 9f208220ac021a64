"""The one stateful class: ask, tell, add, fail, run, revise, result."""

import logging
import math
import uuid
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from pied.errors import Infeasible, SolverDone, Status, StoreError, TellError
from pied.problem import Problem
from pied.records import Dataset, Question, Row, State, Trial, Value, Why
from pied.rng import Stream
from pied.solvers import make
from pied.solvers.base import Proposal, Run, Solver
from pied.solvers.initial import initial_point
from pied.study.amending import Amendable
from pied.study.deciding import Deciding
from pied.study.evaluating import Evaluating
from pied.study.opening import check_settings, opened
from pied.study.reading import outcomes, told_values, worker_name
from pied.study.reframing import same_frame
from pied.study.relaxation import conflict_of
from pied.study.repetition import exact_outputs, look, to_repeat
from pied.study.result import Result
from pied.study.snapshot import Snapshot
from pied.study.words import expectation

if TYPE_CHECKING:
    from pied.study.starts import Starts
    from pied.study.sweep import Sweep

logger = logging.getLogger(__name__)

ASK_ATTEMPTS = 100
"""Attempts to take the next number of a trial while other workers take it first."""
NUMBERS_TAKEN = f"other workers took the next number {ASK_ATTEMPTS} times in a row: ask again"
PROGRAM_LEASE, PERSON_LEASE = 3600.0, 7 * 24 * 3600.0
"""Seconds, default leases: an hour for a program that evaluates, a week for people who measure."""


class Study(Amendable, Deciding, Evaluating):
    """A problem under study: proposes points, takes results, recommends.

    Example: `docs/guide-simulator.md`.

    Args:
        problem: The statement.
        name: Name under which a stored study is found again.
        store: Where to store the record: "sqlite:///lab.db", "postgresql+psycopg://...", a file's path, an open
            `Store`; None keeps it in memory.
        solver: A solver's name or settings; a stored study keeps its own, a new one gets "cuqb".
        seed: Seed of all random numbers; drawn and stored when not given.
        patience: Number of consecutive tests that must find the constraints unsatisfiable before the problem is called
            infeasible; None never stops.
        initial: Size of the initial random design; 2d + 1 by default (paper, table 3). Complete added points reduce it.
        stop_at_gap: Stop a run when the gap, natural units, has been at most this for three evaluations in a row.
        stop_at_growth: With several objectives, stop a run when the possible growth of the front, a share of its
            hypervolume, has been at most this for three evaluations in a row: 0.01.
        settings: Settings of the solver, when it is given by name.
        worker: Name of whoever asks; asking again under the same name returns the pending trial of that worker.
        lease: Seconds after which a pending trial is offered to any worker again; by default an hour when the problem
            has a black box, a week when someone measures; infinite for never.
        read_only: Open the store for reading only.
    """

    def __init__(
        self,
        problem: Problem,
        *,
        name: str | None = None,
        store: Any = None,
        solver: str | Solver | None = None,
        seed: int | None = None,
        patience: int | None = 3,
        initial: int | None = None,
        stop_at_gap: float | None = None,
        stop_at_growth: float | None = None,
        settings: Mapping[str, Any] | None = None,
        worker: str | None = None,
        lease: float | None = None,
        read_only: bool = False,
    ) -> None:
        check_settings(problem, initial, patience, stop_at_gap, stop_at_growth, lease)
        is_default = solver is None and not settings
        given = None if is_default else make(solver or "cuqb", **(settings or {}))
        self._record, self._stored_solver, self._revision = opened(
            problem, name=name, store=store, read_only=read_only, solver=given, seed=seed, initial=initial
        )
        about = self._record.about
        self.name, self.seed, self.initial = name, about.seed, about.initial
        self.patience, self.stop_at_gap, self.stop_at_growth = patience, stop_at_gap, stop_at_growth
        self.worker = worker_name(worker) if worker is not None else uuid.uuid4().hex[:12]
        self._is_named = worker is not None and self._record.is_shared
        usual = PROGRAM_LEASE if problem.blackbox is not None else PERSON_LEASE
        self.lease = (usual if lease is None else float(lease)) if self._record.is_shared else math.inf
        self._stream = Stream(self.seed)
        self._trials: dict[int, Trial] = {}
        self._rows: dict[int, Row] = {}
        self._run: Run | None = None
        self._open: set[int] = set()  # trials of `run` that are under way, or were at an interruption
        self._starts: Starts | None = None  # of evaluations; its folder lives until the study is closed
        self._looked_at: float = 0  # told points at the last look for jitter; infinite once it was found
        self._has_remarked = False  # on what the black box returns besides the outputs
        self._put(problem)
        if isinstance(self._stored_solver, Solver):  # a solver that cannot work on this problem is refused now
            self._running()
        if None in problem.stated_noise:  # the record may say that outputs are exact
            self._snapshot()

    @cached_property
    def solver(self) -> Solver:
        """The solver; that of a stored study is loaded when it is first needed, because a `tell` needs none."""
        return self._stored_solver if isinstance(self._stored_solver, Solver) else self._stored_solver()

    def _put(self, problem: Problem) -> None:
        """Make this the current question."""
        self.problem = problem
        self._begin()
        self._ended: tuple[tuple[int, int], Status] | None = None  # the record when the last `run` ended, and how
        self._conflict_of = conflict_of(problem)
        self._latest: Snapshot | None = None
        self._answer: tuple[Snapshot, Result] | None = None  # the last result, for those who look again
        self._trials, self._rows, self._change = {}, {}, 0  # read with the names of this question
        self._continued = same_frame(self._record, problem.statement())

    def _begin(self) -> None:
        """Let the solver begin a run that knows nothing yet, for a new question or a corrected record."""
        if self._run is not None:
            self._run.close()
        self._run = None
        self._is_done = False

    def _running(self) -> Run:
        """Return the solver's run, and start it when there is none."""
        if self._run is None:
            problem = self.problem if self.solver.finds_exact else self.problem.found_exact(())
            self._run = self.solver.start(problem, self._stream)
        return self._run

    # ------------------------------------------------------------------------------------------------ the record

    @property
    def trials(self) -> tuple[Trial, ...]:
        """All trials, by number."""
        return self._snapshot().trials

    @property
    def used(self) -> int:
        """Number of proposed trials: told, partial, failed or pending."""
        return self._snapshot().used

    @property
    def data(self) -> Dataset:
        """The record as arrays."""
        return self._snapshot().record

    @property
    def snapshot(self) -> Snapshot:
        """The study at this moment: its trials, and the belief and answers that follow from them."""
        return self._snapshot()

    @property
    def status(self) -> Status:
        """Status of the study, computed from the record."""
        return self._snapshot().status

    @property
    def values(self) -> list[Value]:
        """All values ever told, including those that contradicted an earlier value or came too late."""
        return self._record.values()

    @property
    def questions(self) -> list[Question]:
        """All questions asked of these data, in order."""
        return self._record.questions()

    def close(self) -> None:
        """Close the store and the solver's run; temporary states of evaluations are removed."""
        self._starts = None
        if self._run is not None:
            self._run.close()
        self._record.close()

    def __enter__(self) -> "Study":
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def _snapshot(self) -> Snapshot:
        """Read the changes of the record and return the study at this moment."""
        change, rows = self._record.changes(self._change)
        for row in rows:
            self._trials[row.number] = self._trial(row)
            self._rows[row.number] = row
            if row.revision not in self._continued:  # beliefs about another box, or about other outputs
                old = self._trials[row.number]
                kept = {word: each for word, each in old.why.memory.items() if word == "scatter"}
                self._trials[row.number] = replace(old, why=replace(old.why, memory=kept))
        self._change = change
        if self._latest is not None and any(row.corrected > self._latest.correction for row in rows):
            self._begin()
        if rows or self._latest is None or self._latest.is_done != self._is_done:
            trials = tuple(self._trials[number] for number in sorted(self._trials))
            self._find_exact(trials)
            self._latest = Snapshot(
                self.problem, lambda: self.solver, self.seed, self.patience, self.initial, trials, self._revision,
                self._conflict_of, self._is_done,
            )  # fmt: skip
        return self._latest

    def _trial(self, row: Row) -> Trial:
        """Return a row of the record as a trial of the current question."""
        try:
            return Trial.of(self.problem, row)
        except KeyError as error:
            raise StoreError(
                f"trial {row.number} of the store cannot be read: it has no {error}. If that was renamed since "
                "this study was opened (pied revise), open it again with the new names"
            ) from error
        except (AttributeError, TypeError, ValueError, OverflowError) as error:
            raise StoreError(f"trial {row.number} of the store cannot be read: {error}") from error

    def _find_exact(self, trials: tuple[Trial, ...]) -> None:
        """Let outputs that repeated themselves in all digits count as exact, as long as the record says so."""
        self._change_noise(self.problem.found_exact(exact_outputs(self.problem, trials)))

    def _change_noise(self, problem: Problem) -> None:
        """Go on with other outputs that count as exact; the solver begins anew."""
        if problem.noise != self.problem.noise:
            self.problem, self._latest = problem, None
            self._begin()

    # ------------------------------------------------------------------------------------------------ ask and tell

    def ask(self, *, again: bool = True, for_sweep: "Sweep | None" = None) -> Trial:
        """Propose the next point to evaluate.

        In a store, a named worker gets its own pending trial back (`again`). Trials with an expired lease come first.

        Args:
            again: Whether a named worker gets its own pending trial back.
            for_sweep: A sweep of this study: the point is the one that would sharpen its curve most.

        Raises:
            Infeasible: When no point can meet the constraints.
            SolverDone: When the solver has nothing more to propose.
        """
        if for_sweep is not None:
            return self._propose(for_sweep)
        if not (self._is_named and again):
            return self._offered(resume=False) or self._propose()
        return self._offered(resume=True) or self._propose(most=1)

    def open_trials(self, count: int) -> list[Trial]:
        """Return this worker's open trials, with renewed leases, after new proposals until there are so many.

        There are fewer, and a warning says why, when the solver has nothing more to propose.
        """
        while len(mine := self.held()) < count:
            try:
                self._offered(resume=False) or self._propose(most=count)
            except SolverDone as done:
                if not mine:
                    raise
                logger.warning("only %d of %d: %s", len(mine), count, done)
                break
        return mine

    def _offered(self, *, resume: bool) -> Trial | None:
        """Take over a pending trial: the worker's own, or one with an expired lease."""
        self._snapshot()
        if not self._record.is_shared:
            return None
        now = self._record.clock()
        is_open = [
            row for row in self._rows.values() if row.state == State.ASKED.value and row.number not in self._open
        ]
        if not any((resume and row.worker == self.worker) or row.is_expired(now) for row in is_open):
            return None
        row = self._record.claim(self.worker, self.lease, resume=resume, but=self._open)
        self._snapshot()
        return None if row is None else self._trials[row.number]

    def _propose(self, for_sweep: "Sweep | None" = None, most: int | None = None) -> Trial:
        """Ask the solver and take the next number; repeat when another worker has just taken it.

        Args:
            for_sweep: With a sweep the point is the one that it needs, instead of the solver's.
            most: Open trials that this worker may have beside those of its run; who has so many, perhaps from asking
                twice at once, gets the first of them. None: any number.
        """
        for _ in range(ASK_ATTEMPTS):
            snapshot = self._snapshot()
            mine = self._mine()
            if most is not None and len(mine - self._open) >= most:
                return self._trials[min(mine - self._open)]
            if snapshot.status is Status.INFEASIBLE:
                raise Infeasible(snapshot.message(Status.INFEASIBLE, snapshot.relaxation()))
            if snapshot.is_exhausted:
                self._is_done = True
                raise SolverDone("every setting that can be chosen has been measured")
            self._check_parallel(snapshot)
            number = max(self._trials, default=0) + 1
            proposal = self._proposal(snapshot, number) if for_sweep is None else self._for_sweep(for_sweep)
            enough = None if most is None else most + len(mine & self._open)
            if self._take(snapshot, number, self._settings_of(proposal), proposal.why, enough):
                return self._logged(number)
        raise StoreError(NUMBERS_TAKEN)

    def repeat(self, trial: Trial | int) -> Trial:
        """Propose the settings of a trial once more, for instance because it does not fit (`result().doubtful`).

        The repetition is a trial of its own and counts like any other. If it agrees with the first one, that is no
        longer doubtful. If it contradicts it, correct or withdraw the first one.
        """
        old = self._known(trial)
        if old.state is State.ASKED:
            raise TellError(f"trial {old.number} has not been measured yet: tell it first")
        for _ in range(ASK_ATTEMPTS):
            snapshot = self._snapshot()
            self._check_parallel(snapshot)
            last, number = snapshot.data.last, max(self._trials) + 1
            why = Why("repeat", repeats=old.number, memory={} if last is None else last.memory)
            if self._take(snapshot, number, dict(old.x), why):
                return self._logged(number)
        raise StoreError(NUMBERS_TAKEN)

    def _check_parallel(self, snapshot: Snapshot) -> None:
        """Refuse a second open trial where the solver takes one at a time."""
        pending = [trial for trial in snapshot.trials if trial.state is State.ASKED]
        if pending and not self.solver.parallel:
            raise TellError(
                f"solver '{self.solver.name}' takes one trial at a time: tell trial {pending[0].number} first"
            )

    def _take(self, snapshot: Snapshot, number: int, x: dict[str, Any], why: Why, most: int | None = None) -> bool:
        """Write a proposal under a number; tell whether no other worker was faster."""
        why = replace(why, pending=snapshot.pending, basis=snapshot.correction)
        row = self._record.take(
            number, x, why=why.to_dict(), summary=expectation(self.problem, why),
            revision=self._revision, worker=self.worker, lease=self.lease, most=most,
        )  # fmt: skip
        return row is not None

    def _proposal(self, snapshot: Snapshot, number: int) -> Proposal:
        """Take the next point of the initial design, or ask the solver once it is complete."""
        index, data = snapshot.initial_index, snapshot.record
        try:
            if index is None:
                again = to_repeat(self.problem, snapshot.trials, data) if self.solver.finds_exact else None
                if again is not None:
                    return Proposal(data.U[data.numbers.index(again.number)], Why("compare", repeats=again.number))
                return self._sought(snapshot, number)
            return Proposal(initial_point(self.problem, self._stream, index, data), Why("initial"))
        except SolverDone:
            self._is_done = True
            raise

    def _sought(self, snapshot: Snapshot, number: int) -> Proposal:
        """Ask the solver; a look whether outputs that repeated themselves scatter is remembered with its proposal."""
        seen = look(self.problem, snapshot.trials, snapshot.data) if self.solver.finds_exact else {}
        scattering = [name for name in self.problem.exact_by_repetition if name in seen.get("outputs", ())]
        if scattering:
            left = [name for name in self.problem.exact_by_repetition if name not in scattering]
            self._change_noise(self.problem.found_exact(left))
            names = ", ".join(f"'{name}'" for name in scattering)
            logger.warning("values of %s scatter between points that lie close together: the noise is learned", names)
        proposal = self._running().ask(number, snapshot.record)
        memory = {**proposal.why.memory, "scatter": seen} if seen else proposal.why.memory
        return replace(proposal, why=replace(proposal.why, memory=memory))

    def _settings_of(self, proposal: Proposal) -> dict[str, Any]:
        """Return the variables of a proposal; those of a repetition are the same in all digits."""
        if proposal.why.repeats is not None:
            return dict(self._trials[proposal.why.repeats].x)
        return dict(self.problem.named_x(self.problem.natural(proposal.u)))

    def _logged(self, number: int) -> Trial:
        self._snapshot()
        logger.info("%s", self._trials[number])
        return self._trials[number]

    def tell(
        self,
        trial: Trial | int,
        y: Any = None,
        *,
        at: Mapping[str, Any] | None = None,
        anyway: bool = False,
        again: bool = True,
    ) -> Trial:
        """Tell what the black box returned: all outputs, or some now and the rest later.

        A told value is never overwritten. Telling it again is allowed; another value is stored and raises
        `Contradiction`, until it is corrected (`correct`). A value outside of its output's range is refused unless
        `anyway`.

        Args:
            trial: The trial or its number.
            y: The outputs; None if only `at` is told.
            at: Variables that were really set to other values than proposed; the proposed point stays in the record.
                A complete trial is moved by `correct`.
            anyway: Whether values outside of their ranges, and settings far outside, are right.
            again: Whether telling a recorded value once more is an event of its own; False when a call is repeated
                because its answer was lost: then nothing is written.
        """
        old = self._known(trial)
        if y is None and not at:
            raise TellError(f"trial {old.number}: nothing is told: give outputs, or what was really set (at=)")
        known = outcomes(self._trials.values())
        values = told_values(self.problem, y, f"trial {old.number}: ", anyway=anyway, others=known)
        point = self._at(old, at, anyway)
        if not again and self._is_told(old, values, point):
            return old
        self._record.tell(old.number, values, worker=self.worker, at=point, again=again)
        return self._logged(old.number)

    def _is_told(self, trial: Trial, values: Mapping[str, float], point: Mapping[str, Any] | None) -> bool:
        """Tell whether all of this is in the record already."""
        row = self._rows[trial.number]
        is_open = row.state in (State.ASKED.value, State.PARTIAL.value, State.TOLD.value)
        is_same = all(row.y.get(name) == value for name, value in values.items())
        return is_open and is_same and (point is None or dict(point) == dict(row.x if row.run is None else row.run))

    def fail(
        self, trial: Trial | int, reason: str, *, anyway: bool = False, not_the_settings: bool | None = None
    ) -> Trial:
        """Mark a trial as failed: it counts against the budget, is not modelled, and is not proposed again.

        Settings near it are avoided, unless the same settings have succeeded or the reason had nothing to do with them,
        `not_the_settings`: a broken flask. That can be said of a failed trial, too, and taken back (False). The first
        reason stays. A worker cannot fail a trial that was handed out again to another worker. A told trial can only
        fail `anyway`; its values then no longer count.
        """
        old = self._known(trial)
        row = self._record.fail(
            old.number, str(reason), worker=self.worker, anyway=anyway, not_the_settings=not_the_settings
        )
        if row.reason != str(reason):
            logger.warning("trial %d has failed before; its first reason is kept: %s", old.number, row.reason)
        return self._logged(old.number)

    def held(self) -> list[Trial]:
        """Renew the leases of the pending trials that this worker still holds, and return them."""
        self._snapshot()
        own = self._mine()
        numbers = self._record.renew(sorted(own), self.worker, self.lease) if own else []
        self._snapshot()
        return [self._trials[number] for number in sorted(numbers)]

    def _mine(self) -> set[int]:
        """Return the numbers of the pending trials of this worker, as far as they were read."""
        return {n for n, row in self._rows.items() if row.state == State.ASKED.value and row.worker == self.worker}

    def _known(self, trial: Trial | int) -> Trial:
        number = trial.number if isinstance(trial, Trial) else trial
        self._snapshot()
        if number not in self._trials:
            raise TellError(f"there is no trial {number}; the record has trials 1 to {len(self._trials)}")
        return self._trials[number]

    # ------------------------------------------------------------------------------------------------ answers

    def result(self, rule: str | None = None) -> Result:
        """Return the recommended point and all that is known about it; with several objectives, also the front.

        Args:
            rule: "observed", "lower", "asked" or "anywhere"; by default "observed" for exact black boxes, "anywhere"
                for noisy ones.
        """
        snapshot = self._snapshot()
        found = snapshot.result(rule, self._end)
        if found.x is not None and not self.problem.has_front:
            found = replace(found, sensitivities_of=partial(self._worth, self.outlook))
        if rule is None:
            self._answer = (snapshot, found)
        return found

    @property
    def _end(self) -> Status | None:
        """How the last run ended, if nothing has changed since."""
        return self._ended[1] if self._ended is not None and self._ended[0] == self._snapshot().stamp else None

    @property
    def _standing(self) -> Status:
        """The status, or how the last run ended."""
        status, end = self.status, self._end
        return end if end is not None and status is Status.RUNNING else status

    def __str__(self) -> str:
        """Say where the study stands, from what was told; `result` also says what is believed."""
        from pied.study.progress import standing

        return standing(self._snapshot(), self._standing)

    def _repr_html_(self) -> str:
        """Show in a notebook where the study stands: the last result if nothing has changed since, else told values."""
        from pied.study.notebook import screen

        snapshot, last = self._snapshot(), self._answer
        return screen(snapshot, self._standing, last[1] if last is not None and last[0] is snapshot else None)
