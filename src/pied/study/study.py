"""The only thing that remembers: ask, tell, add, fail, run, revise, result."""

import logging
import math
import uuid
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

from pied.errors import EvaluationError, Infeasible, SettingError, SolverDone, Status, StoreError, TellError
from pied.evaluation import Crew, Terminated, every
from pied.problem import Problem
from pied.records import Dataset, Entry, Keeper, Question, Row, State, Trial, Value, Why
from pied.rng import Stream
from pied.solvers import make
from pied.solvers.base import Proposal, Solver
from pied.solvers.initial import initial_point
from pied.study.opening import check_same, has_code, opened, stated
from pied.study.recommendation import Recommendation, Relaxation, white_conflict
from pied.study.result import Result
from pied.study.snapshot import Revision, Snapshot

logger = logging.getLogger(__name__)

GAP_CONFIRMATIONS = 3  # evaluations in a row, no probe among them, after which a small gap ends a run: one belief alone
# may be over-confident
RETRIES = 100  # how often a number may be taken by others before an ask gives up
HOUR, WEEK = 3600.0, 7 * 24 * 3600.0  # default leases: of a program that evaluates, of people who measure

Observer = Callable[["Study", Trial], None]


class Study:
    """A problem under study: proposes points, takes results, recommends.

    Args:
        problem: The statement.
        name: By which a stored study is found again.
        store: Where the record is kept: "sqlite:///lab.db", "postgresql+psycopg://...", a file's path, an open
            `Store`; None keeps it in memory.
        solver: A solver's name or settings; a stored study keeps its own, a new one gets "cuqb".
        seed: Of everything random; drawn and kept when not given.
        patience: How many tests in a row must find the constraints unsatisfiable before the problem is called
            infeasible; None never stops.
        initial: Size of the initial random design; 2d + 1 by default (paper, table 3). Complete added points reduce it.
        stop_at_gap: Stop a run when the gap, natural units, has been at most this for three evaluations in a row.
        settings: Settings of the solver, when it is given by name.
        worker: Who asks; whoever asks again under the same name gets the own pending trial back.
        lease: Seconds after which a trial that was asked and not told is offered again, to anyone; by default an hour
            when the problem has a black box, a week when someone measures; infinite for never.
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
        settings: Mapping[str, Any] | None = None,
        worker: str | None = None,
        lease: float | None = None,
        read_only: bool = False,
    ) -> None:
        if initial is not None and initial < 2:
            raise SettingError(f"the initial design needs at least 2 points, got {initial}")
        if patience is not None and patience < 1:
            raise SettingError(f"patience counts tests from 1, or is None for never, got {patience}")
        if stop_at_gap is not None and not stop_at_gap >= 0:
            raise SettingError(f"stop_at_gap is a gap in units of the objective, 0 or more, got {stop_at_gap}")
        if lease is not None and not lease > 0:
            raise SettingError(f"lease is a number of seconds above 0, got {lease}")
        is_default = solver is None and not settings
        given = None if is_default else make(solver or "cuqb", **(settings or {}))
        self._record, self.solver, self._revision = opened(
            problem, name=name, store=store, read_only=read_only, solver=given, seed=seed, initial=initial
        )
        about = self._record.about
        self.name, self.seed, self.initial = name, about.seed, about.initial
        self.patience, self.stop_at_gap = patience, stop_at_gap
        self.worker = worker if worker is not None else uuid.uuid4().hex[:12]
        self._is_named = worker is not None and self._record.is_shared
        usual = HOUR if problem.blackbox is not None else WEEK
        self.lease = (usual if lease is None else float(lease)) if self._record.is_shared else math.inf
        self._stream = Stream(self.seed)
        self._trials: dict[int, Trial] = {}
        self._rows: dict[int, Row] = {}
        self._change = 0
        self._open: set[int] = set()  # trials of `run` that are under way, or were when it was interrupted
        self._put(problem)

    def _put(self, problem: Problem) -> None:
        """Make this the question."""
        self.problem = problem
        self._run = self.solver.start(problem, self._stream)
        self._is_done = False
        self._ended: tuple[int, Status] | None = None  # trials used when the last `run` ended, and how
        self._white = white_conflict(problem)
        self._latest: Snapshot | None = None

    # ------------------------------------------------------------------------------------------------ the record

    @property
    def trials(self) -> tuple[Trial, ...]:
        """The record, by number."""
        return self._snapshot().trials

    @property
    def used(self) -> int:
        """Asked trials: told, partial, failed or pending."""
        return self._snapshot().used

    @property
    def data(self) -> Dataset:
        """The record as tensors."""
        return self._snapshot().data

    @property
    def snapshot(self) -> Snapshot:
        """The study at this moment: one view of the record, with the belief and the answers that follow from it."""
        return self._snapshot()

    @property
    def status(self) -> Status:
        """How the study stands; a property of the record."""
        return self._snapshot().status

    @property
    def values(self) -> list[Value]:
        """Everything that was ever told, also what contradicted an earlier value or came too late."""
        return self._record.values()

    @property
    def questions(self) -> list[Question]:
        """Every question that was asked of these data, in order."""
        return self._record.questions()

    def close(self) -> None:
        """Close the store, and what the solver holds."""
        self._run.close()
        self._record.close()

    def __enter__(self) -> "Study":
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def _snapshot(self) -> Snapshot:
        """Read what is new in the record, and return the study as it stands."""
        change, rows = self._record.changes(self._change)
        for row in rows:
            try:
                self._trials[row.number] = Trial.of(self.problem, row)
            except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
                raise StoreError(f"trial {row.number} of the store cannot be read: {error}") from error
            self._rows[row.number] = row
        self._change = change
        if rows or self._latest is None or self._latest.is_done != self._is_done:
            trials = tuple(self._trials[number] for number in sorted(self._trials))
            self._latest = Snapshot(
                self.problem, self.solver, self.seed, self.patience, self.initial, trials, self._revision, self._white,
                self._is_done,
            )  # fmt: skip
        return self._latest

    # ------------------------------------------------------------------------------------------------ ask and tell

    def ask(self, *, again: bool = True) -> Trial:
        """Propose the next point to evaluate.

        In a store, a named worker gets its own pending trial back (`again`); trials whose lease has run out come first.

        Raises:
            Infeasible: When no point can meet the constraints.
            SolverDone: When the solver has nothing more to propose.
        """
        return self._offered(resume=self._is_named and again) or self._propose()

    def _offered(self, *, resume: bool) -> Trial | None:
        """Take over a pending trial: one's own, or one whose lease has run out."""
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

    def _propose(self) -> Trial:
        """Ask the solver, and take the next number; when someone else has just taken it, ask again."""
        for _ in range(RETRIES):
            snapshot = self._snapshot()
            if snapshot.status is Status.INFEASIBLE:
                raise Infeasible(snapshot.message(Status.INFEASIBLE, snapshot.relaxation()))
            pending = [trial for trial in snapshot.trials if trial.state is State.ASKED]
            if pending and not self.solver.parallel:
                raise TellError(
                    f"solver '{self.solver.name}' takes one trial at a time: tell trial {pending[0].number} first"
                )
            number = max(self._trials, default=0) + 1
            proposal = self._proposal(snapshot, number)
            x = self.problem.named_x(self.problem.natural(proposal.u))
            why = replace(proposal.why, pending=snapshot.pending)
            row = self._record.take(
                number, dict(x), why=why.to_dict(), summary=self._expectation(why),
                revision=self._revision, worker=self.worker, lease=self.lease,
            )  # fmt: skip
            if row is not None:
                return self._logged(number)
        raise StoreError(f"others took the next number {RETRIES} times in a row: ask again")

    def _proposal(self, snapshot: Snapshot, number: int) -> Proposal:
        index = self._initial_index(snapshot)
        try:
            return self._run.ask(number, snapshot.data) if index is None else self._initial_point(index, snapshot.data)
        except SolverDone:
            self._is_done = True
            raise

    def _logged(self, number: int) -> Trial:
        self._snapshot()
        logger.info("%s", self._trials[number])
        return self._trials[number]

    def tell(self, trial: Trial | int, y: Any) -> Trial:
        """Tell what the black box returned: all outputs, or some now and the rest later.

        A value once told is never overwritten: telling it again is fine, contradicting it raises (and is kept).
        """
        old = self._known(trial)
        values = self._values(y, f"trial {old.number}: ")
        self._record.tell(old.number, values, worker=self.worker)
        return self._logged(old.number)

    def add(self, x: Any, y: Any) -> Trial:
        """Add old data: a point and what is known there; it does not count against the budget."""
        point = self.problem.named_x(self.problem.point(x))
        row = self._record.add(dict(point), self._values(y), revision=self._revision, worker=self.worker)
        return self._logged(row.number)

    def fail(self, trial: Trial | int, reason: str) -> Trial:
        """Mark a trial as failed: it costs budget, never enters the model, and is not asked again.

        The first reason stays. Who held a trial that was handed out again to someone else cannot fail it any more.
        """
        old = self._known(trial)
        row = self._record.fail(old.number, str(reason), worker=self.worker)
        if row.reason != str(reason):
            logger.warning("trial %d has failed before; its first reason is kept: %s", old.number, row.reason)
        return self._logged(old.number)

    def held(self) -> list[Trial]:
        """Renew the leases of the pending trials that this worker still holds, and return them."""
        self._snapshot()
        own = [
            row.number for row in self._rows.values() if row.state == State.ASKED.value and row.worker == self.worker
        ]
        numbers = self._record.renew(own, self.worker, self.lease) if own else []
        self._snapshot()
        return [self._trials[number] for number in sorted(numbers)]

    def _values(self, y: Any, label: str = "") -> dict[str, float]:
        """Read what was told; outputs that are missing are left out."""
        try:
            outputs = self.problem.output(y, partial=True)
        except EvaluationError as error:
            raise TellError(f"{label}{error}") from error
        told = zip(self.problem.outputs, outputs.tolist(), strict=True)
        return {name: value for name, value in told if math.isfinite(value)}

    def _known(self, trial: Trial | int) -> Trial:
        number = trial.number if isinstance(trial, Trial) else trial
        self._snapshot()
        if number not in self._trials:
            raise TellError(f"there is no trial {number}; the record has trials 1 to {len(self._trials)}")
        return self._trials[number]

    # ------------------------------------------------------------------------------------------------ the design

    def _initial_index(self, snapshot: Snapshot) -> int | None:
        """Which point of the initial design comes next; None when it is complete."""
        asked = sum(not trial.is_added and trial.why.aim == "initial" for trial in snapshot.trials)
        added = sum(trial.is_added and trial.state is State.TOLD for trial in snapshot.trials)
        told = sum(trial.state in (State.TOLD, State.PARTIAL) for trial in snapshot.trials)
        if asked < self.initial - added or told < 2:
            return asked
        return None

    def _initial_point(self, index: int, data: Dataset) -> Proposal:
        return Proposal(initial_point(self.problem, self._stream, index, data.U, data.imagined), Why("initial"))

    def _expectation(self, why: Why) -> str:
        """What is expected of a trial, as a phrase."""
        if not why.lower:
            return why.aim
        low, high = sorted((self.problem.user_value(why.lower[0]), self.problem.user_value(why.upper[0])))
        return f"{why.aim}; {self.problem.objective} expected within {low:.4g} .. {high:.4g}"

    # ------------------------------------------------------------------------------------------------ the loop

    def run(
        self,
        budget: int,
        *,
        on_tell: Observer | None = None,
        executor: Executor | str | None = None,
        workers: int | None = None,
        timeout: float | None = None,
    ) -> Result:
        """Evaluate the black box `budget` times more and return the result so far.

        What the black box raises, or returns amiss, makes a failed trial and the run goes on; so does the death of a
        worker. Ctrl-C keeps everything told and returns. A store that is away is tried again for a minute; results that
        cannot be written then are kept in files, which the next opening takes in (`Unwritten` has them, too).

        Args:
            budget: Trials to ask.
            on_tell: Called with the study and each trial that was told or failed.
            executor: Where the black box is called: "threads", "processes", or any executor of `concurrent.futures`;
                by default here, or in threads when there are several workers.
            workers: How many trials are kept pending.
            timeout: Seconds after which an evaluation has failed.
        """
        if self.problem.blackbox is None:
            raise SettingError("this problem has no black box to run: use ask and tell, or state it with blackbox=")
        if budget < 0:
            raise SettingError(f"the budget counts evaluations, 0 or more, got {budget}")
        crew = Crew(self.problem.blackbox, executor=executor, workers=workers, timeout=timeout)
        status, plain = Status.FINISHED, self._record
        keeper = Keeper(plain, lambda answer: self.problem.named_y(self.problem.output(answer)), self._settle)
        self._record = keeper.patient()
        try:
            with crew, self._leases(), keeper.rescuing(crew):
                status = self._work(crew, keeper, budget, on_tell)
        except Terminated:
            raise
        except KeyboardInterrupt:
            status = Status.INTERRUPTED
        finally:
            self._record = plain
        self._ended = (self.used, status)
        return self.result()

    def _work(self, crew: Crew, keeper: Keeper[Trial], budget: int, on_tell: Observer | None) -> Status:
        """Keep the crew busy until the budget is spent or there is a reason to stop; then wait for the last."""
        left, confirmed, ended = budget, 0, None
        waiting = self._left_open()
        workers = crew.workers if self.solver.parallel else 1
        is_retry = self.status is Status.BROKEN  # one evaluation shows whether the black box was mended
        while True:
            while ended is None and crew.busy < workers and (is_retry or self.status is Status.RUNNING):
                if crew.busy and self.snapshot.is_confirmed:  # the verdict only waits for what is under way
                    break
                is_retry = False
                try:
                    trial, is_new = self._next(waiting, left)
                except (SolverDone, Infeasible) as error:
                    ended = Status.DONE if isinstance(error, SolverDone) else Status.FINISHED
                    break
                if trial is None:
                    break
                left -= is_new
                self._open.add(trial.number)
                crew.submit(trial.number, trial.x)
            if not crew.busy:
                return ended or Status.FINISHED
            outcome = crew.wait()
            if outcome is None:
                continue
            trial = keeper.settle(outcome)
            self._open.discard(trial.number)
            if on_tell is not None and trial.state is not State.ASKED:  # someone else is still evaluating it
                on_tell(self, trial)
            confirmed = confirmed + 1 if self._gap_reached() and trial.why.aim != "probe" else 0
            if confirmed == GAP_CONFIRMATIONS:
                ended = Status.GAP_REACHED

    def _left_open(self) -> list[int]:
        """Trials that an interruption, or the end of an earlier process of this worker, left unevaluated."""
        self._snapshot()
        own = [row.number for row in self._rows.values() if self._is_named and row.worker == self.worker]
        return [number for number in sorted({*self._open, *own}) if self._trials[number].state is State.ASKED]

    def _next(self, waiting: list[int], left: int) -> tuple[Trial | None, bool]:
        """The next trial to evaluate, and whether it is new: first those left open, then expired ones."""
        while waiting:
            for number in self._record.renew([waiting.pop(0)], self.worker, self.lease):  # unless others took it
                return self._trials[number], False
        if left <= 0:
            return None, False
        again = self._offered(resume=False)
        return (again, False) if again is not None else (self._propose(), True)

    def _settle(self, entry: Entry) -> Trial:
        """Write down what came of an evaluation; a failure is a result too."""
        number = entry.number
        try:
            return self.fail(number, entry.failure) if entry.values is None else self.tell(number, entry.values)
        except TellError as error:
            logger.warning("what came of trial %d was not needed, or not all of it: %s", number, error)
            return self._known(number)

    def _leases(self) -> AbstractContextManager[None]:
        """Renew the leases of what is under way, as long as this process lives."""
        if not math.isfinite(self.lease):
            return nullcontext()

        def renew() -> None:
            self._record.renew(list(self._open), self.worker, self.lease)

        return every(self.lease / 3, renew)

    def _gap_reached(self) -> bool:
        if self.stop_at_gap is None:
            return False
        width, _ = self.gap()
        return width is not None and width <= self.stop_at_gap

    # ------------------------------------------------------------------------------------------------ judgement

    def gap(self, recommendation: Recommendation | None = None) -> tuple[float | None, float | None]:
        """Return the gap and the relative gap: how much better any point could still be (see `recommend.gap`)."""
        return self._snapshot().gap(recommendation)

    def relaxation(self) -> Relaxation | None:
        """Return what would make an infeasible problem plausible again; None while it is not called infeasible."""
        return self._snapshot().relaxation()

    def result(self, rule: str | None = None) -> Result:
        """Return the recommended point and all that is known about it.

        Args:
            rule: "observed", "lower", "asked" or "anywhere"; by default "observed" for exact black boxes, "anywhere"
                for noisy ones.
        """
        snapshot = self._snapshot()
        ended = self._ended[1] if self._ended is not None and self._ended[0] == snapshot.used else None
        return snapshot.result(rule, ended)

    # ------------------------------------------------------------------------------------------------ other questions

    def revise(self, **words: Any) -> Revision:
        """Change the question and keep the data: new prices, limits, objective.

        Formulas and constants that were asked before are that question again. Code is always a new question: what it
        does cannot be read off it.

        Args:
            words: Those of `Problem` that change: `maximize`, `minimize`, `subject_to`, `constants`, `tolerance`, ...

        Returns:
            The answer to the new question, anywhere in the box (h was modelled, not the old objective), with the old
            optimum under the new question beside it.
        """
        old, number = self.problem, self._revision
        new = old.revised(**words)
        check_same(self.name or "", old.statement(), new.statement())
        self._snapshot()
        self._revision = self._record.revise(new.statement(), is_new=has_code(words))
        self._run.close()
        self._put(new)
        return self._compare(old, number)

    def compare(self) -> Revision:
        """Answer the question, with the optimum of the question before beside it.

        For a study reopened with another question; the earlier one is stated again from formulas, never from code.
        """
        earlier = [question for question in self.questions if question.number != self._revision]
        old = stated(earlier[-1].statement, self.problem.candidates) if earlier else None
        return self._compare(old, earlier[-1].number if earlier else 0)

    def _compare(self, old: Problem | None, number: int) -> Revision:
        snapshot = self._snapshot()
        result = snapshot.result("anywhere")
        if old is None:
            return Revision(result, None, None)
        past = replace(snapshot, problem=old, revision=number, white=white_conflict(old)).result()
        if past.x is None:
            return Revision(result, None, past)
        found = snapshot.at(past.x, past.trial)
        return Revision(result, snapshot.described(found, snapshot.status, "The old optimum, asked anew."), past)


def solve(
    problem: Problem,
    budget: int,
    *,
    on_tell: Observer | None = None,
    executor: Executor | str | None = None,
    workers: int | None = None,
    timeout: float | None = None,
    **study: Any,
) -> Result:
    """Solve a problem with a budget of evaluations; the words of `Study` and of its `run` apply."""
    with Study(problem, **study) as made:
        return made.run(budget, on_tell=on_tell, executor=executor, workers=workers, timeout=timeout)


_STUDY_WORDS = (
    "name", "store", "solver", "seed", "on_tell", "patience", "initial", "stop_at_gap", "settings", "worker", "lease",
    "executor", "workers", "timeout",
)  # fmt: skip


def maximize(objective: Any, *, budget: int, **words: Any) -> Result:
    """Maximize an objective: `solve(Problem(maximize=objective, **words), budget)` in one call."""
    own = {name: words.pop(name) for name in _STUDY_WORDS if name in words}
    return solve(Problem(maximize=objective, **words), budget, **own)


def minimize(objective: Any, *, budget: int, **words: Any) -> Result:
    """Minimize an objective: `solve(Problem(minimize=objective, **words), budget)` in one call."""
    own = {name: words.pop(name) for name in _STUDY_WORDS if name in words}
    return solve(Problem(minimize=objective, **words), budget, **own)
