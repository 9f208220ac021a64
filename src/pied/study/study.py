"""The one stateful class: ask, tell, add, fail, run, revise, result.

It is long because it is the whole of what users call. What takes more than a few lines is done elsewhere: `opening` and
`reading` check what is given, `snapshot` answers for one state of the record, `loop` runs, `outlook` asks what if.
"""

import logging
import math
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pied import above
from pied.errors import Infeasible, SettingError, SolverDone, Status, StoreError, TellError
from pied.problem import Problem, doubts, listed
from pied.records import (
    Dataset,
    Entry,
    Event,
    Keeper,
    Question,
    Row,
    State,
    Trial,
    Trials,
    Value,
    Why,
    annotate,
    correct,
    history,
    restore,
    withdraw,
)
from pied.rng import Stream
from pied.solvers import make
from pied.solvers.base import Proposal, Run, Solver
from pied.solvers.initial import initial_point
from pied.study.blocks import least_used
from pied.study.opening import check_settings, opened, restored_question
from pied.study.present import check_present
from pied.study.reading import (
    added_point,
    answered,
    groups_of,
    is_recorded,
    more_said,
    note_text,
    outcomes,
    reason,
    remark,
    restored_trial,
    run_point,
    same_rows,
    shared_names,
    start_point,
    starting,
    told_values,
    worker_name,
)
from pied.study.reframing import reframe, revised, same_frame
from pied.study.relaxation import Relaxation, conflict_of
from pied.study.repetition import exact_outputs, look, to_repeat
from pied.study.result import Result, Revision
from pied.study.snapshot import Snapshot, lies_on
from pied.study.words import expectation

if TYPE_CHECKING:
    from pied.evaluation import Crew
    from pied.study.explain import Explanation
    from pied.study.loop import Loop
    from pied.study.outlook import Answer, Outlook
    from pied.study.policy import Policy
    from pied.study.posterior import Posterior
    from pied.study.progress import Line
    from pied.study.recommendation import Recommendation
    from pied.study.robust import Robust
    from pied.study.sensitivity import Sensitivities
    from pied.study.settling import Forecast, Settling, Source
    from pied.study.starts import Starts
    from pied.study.steps import Stay
    from pied.study.sweep import Sweep

logger = logging.getLogger(__name__)

ASK_ATTEMPTS = 100
"""Attempts to take the next number of a trial while other workers take it first."""
FIRST_OFFER = 2
"""Offers of a trial that was enqueued and is now handed out for the first time; one is counted when it is written."""
NUMBERS_TAKEN = f"other workers took the next number {ASK_ATTEMPTS} times in a row: ask again"
PROGRAM_LEASE, PERSON_LEASE = 3600.0, 7 * 24 * 3600.0
"""Seconds, default leases: an hour for a program that evaluates, a week for people who measure."""
JITTER_LOOKS = 1.2
"""Growth of the record after which it is looked at for jitter again: a look costs as much as a fit of the belief."""

Observer = Callable[["Study", Trial], None]
"""Is called with the study and a trial that was told or failed."""


class Study:
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
        start: The present design, `{"T": 80, "p": 2}`, or a list of points: evaluated first, unless their outputs are
            there, too. Points that the record has already are passed over.
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
        start: Any = (),
    ) -> None:
        check_settings(problem, patience, stop_at_gap, stop_at_growth, lease)
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
        if start and not read_only:
            self._start_with(starting(problem, start))

    def _start_with(self, points: list[tuple[dict[str, Any], dict[str, Any]]]) -> None:
        """Add the points that were measured, and enqueue the others, unless they are there."""
        self.add_all((x, y) for x, y in points if y)
        for x, y in points:
            if not y and x not in [dict(trial.x) for trial in self.trials]:
                self.enqueue(x)

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
        self._looked: tuple[Snapshot, Outlook] | None = None  # the last one
        self._valued: tuple[Outlook, Sensitivities | None] | None = None  # what limits and constants were worth there
        self._answer: tuple[Snapshot, Result] | None = None  # the last result, for those who look again
        self._trials, self._rows, self._change = {}, {}, 0  # read with the names of this question
        self._continued = same_frame(self._record, problem.statement())

    def _begin(self) -> None:
        """Let the solver begin a run that knows nothing yet, for a new question or a corrected record."""
        if self._run is not None:
            self._run.close()
        self._run = None
        self._is_done = False

    def _running(self, given: Mapping[str, Any] | None = None) -> Run:
        """Return the solver's run, and start it when there is none; a slice has a run of its own each time."""
        problem = self.problem if self.solver.finds_exact else self.problem.found_exact(())
        if given:
            return self.solver.start(problem.sliced(given), self._stream)
        if self._run is None:
            self._run = self.solver.start(problem, self._stream)
        return self._run

    # ------------------------------------------------------------------------------------------------ the record

    @property
    def trials(self) -> Trials:
        """All trials, by number."""
        return Trials(self._snapshot().trials)

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
            self._trials[row.number] = restored_trial(self.problem, row)
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

    def _find_exact(self, trials: tuple[Trial, ...]) -> None:
        """Let outputs that repeated themselves in all digits count as exact, as long as the record says so."""
        present = [trial for trial in trials if not trial.campaign]
        self._change_noise(self.problem.found_exact(exact_outputs(self.problem, present)))

    def _change_noise(self, problem: Problem) -> None:
        """Go on with other outputs that count as exact; the solver begins anew."""
        if problem.noise != self.problem.noise:
            self.problem, self._latest = problem, None
            self._begin()

    # ------------------------------------------------------------------------------------------------ ask and tell

    def ask(
        self,
        *,
        given: Mapping[str, Any] | None = None,
        max_step: Mapping[str, float] | None = None,
        present: Mapping[str, Any] | None = None,
        block: str | Sequence[str] = (),
        change_cost: Mapping[str, float] | None = None,
        again: bool = True,
        for_sweep: "Sweep | None" = None,
        for_posterior: "Posterior | bool" = False,
        settle: str | None = None,
    ) -> Trial:
        """Propose the next point to evaluate.

        In a store, a named worker gets its own pending trial back (`again`). Trials with an expired lease come first.

        Args:
            given: Settings that are not free for this trial, `{"T": 80}`, or within a range, `{"T": (78, 82)}`: the
                best point with these, exactly. Measurements with others count fully.
            max_step: How far settings may move from where the equipment stands, `{"T": 5}`.
            present: Where it stands, if that is not where the last trial was measured.
            block: The day, operator, batch or reactor of this trial, or several: the one that was used least. The point
                is the best for what this block reads.
            change_cost: What it costs to change settings, `{"T": 2}`, in units of the objective: they stay where the
                equipment stands unless others promise more than it costs to go there.
            again: Whether a named worker gets its own pending trial back.
            for_sweep: A sweep of this study: the point is the one that would sharpen its curve most.
            for_posterior: A posterior of this study, or True: the point is the one after whose evaluation least of the
                posterior is uncertain because the black box is.
            settle: "gap": the point is the one whose measurement would narrow the gap most.

        Raises:
            Infeasible: When no point can meet the constraints.
            SolverDone: When the solver has nothing more to propose.
        """
        where, block = self._where(given, max_step, present), self._least_used(block)
        if settle not in (None, "gap"):
            raise SettingError(f"only the gap can be settled, settle='gap', got '{settle}'")
        if for_sweep is not None or settle is not None or for_posterior is not False:
            found = self._propose(
                where.given, for_sweep, settle=settle is not None, for_posterior=for_posterior, block=block
            )
        elif change_cost:
            from pied.study.steps import stays

            kept = stays(self.problem, self.trials, change_cost, present, where.given)
            for each in kept[:1]:
                self._where(each.given)  # refuses solvers that cannot keep to settings
            found = self._offered(where, resume=self._is_named and again) or self._propose(
                where.given, kept=kept, block=block
            )
        elif not (self._is_named and again):
            found = self._offered(where, resume=False) or self._propose(where.given, block=block)
        else:
            found = self._offered(where, resume=True) or self._propose(where.given, most=1, block=block)
        return self._in_block(found, block)

    def _least_used(self, block: str | Sequence[str]) -> str:
        """Return the block that was used least, of several; empty: none is asked about."""
        return least_used(block, self.trials) if block else ""

    def _in_block(self, trial: Trial, block: str) -> Trial:
        """Put a trial into a block; one that is in a block stays there."""
        if not block or trial.block:
            return trial
        groups = groups_of(block)
        self._record.tell(trial.number, {}, worker=self.worker, groups=groups)
        return self._logged(trial.number)

    def open_trials(
        self,
        count: int,
        *,
        given: Mapping[str, Any] | None = None,
        max_step: Mapping[str, float] | None = None,
        present: Mapping[str, Any] | None = None,
        same: Iterable[str] = (),
        block: str | Sequence[str] = (),
        among: int = 1,
    ) -> list[Trial]:
        """Return this worker's open trials, with renewed leases, after new proposals until there are so many.

        There are fewer, and a warning says why, when the solver has nothing more to propose.

        Args:
            count: How many.
            given: Settings that they have, as in `ask`; open trials with others do not count.
            max_step: How far settings may move.
            present: From where.
            same: Settings that all of them share, as on a plate or in one oven; the first trial chooses them.
            block: Their day, operator, batch or reactor; of several, each trial gets the one that was used least.
            among: How many different values of these there may be, as with three ovens: then the first trials of each
                choose them, and the others are spread over them evenly.
        """
        shared = shared_names(self.problem, same)
        if among < 1:
            raise SettingError(f"among counts different values from 1, got {among}")
        asked = self._where(given, max_step, present)
        while True:
            where, mine = asked, [trial for trial in self.held() if lies_on(asked, trial)]
            if shared and mine:
                held = Counter(tuple(trial.x[name] for name in shared) for trial in mine)
                allowed = list(held)[:among]
                mine = [trial for trial in mine if tuple(trial.x[name] for name in shared) in allowed]
                if len(allowed) == among:
                    fewest = min(allowed, key=lambda values: held[values])
                    chosen = dict(zip(shared, fewest, strict=True))
                    where = self._where({**(given or {}), **chosen}, max_step, present)
            if len(mine) >= count:
                return [self._in_block(trial, self._least_used(block)) for trial in mine]
            try:
                own = self._least_used(block)
                made = self._offered(where, resume=False) or self._propose(where.given, most=count, block=own)
                self._in_block(made, own)
            except SolverDone as done:
                if not mine:
                    raise
                logger.warning("only %d of %d: %s", len(mine), count, done)
                return [self._in_block(trial, self._least_used(block)) for trial in mine]

    def _where(
        self,
        given: Mapping[str, Any] | None,
        max_step: Mapping[str, float] | None = None,
        present: Mapping[str, Any] | None = None,
    ) -> Problem:
        """Return the problem on the slice with given settings, or as it is; say what cannot be given."""
        if max_step:
            from pied.study.steps import stepped

            given = stepped(self.problem, self.trials, max_step, present, given)
        check_present(self.problem, given or {})
        if not given:
            return self.problem
        if not self.solver.slices:
            raise SettingError(
                f"solver '{self.solver.name}' cannot keep to given settings: take 'cuqb', 'random' or 'sobol'"
            )
        return self.problem.sliced(given)

    def _offered(self, where: Problem, *, resume: bool) -> Trial | None:
        """Take over a pending trial of a slice: the worker's own, or one with an expired lease."""
        self._snapshot()
        now = self._record.clock()
        is_open = [
            row for row in self._rows.values() if row.state == State.ASKED.value and row.number not in self._open
        ]
        others = {row.number for row in is_open if not lies_on(where, self._trials[row.number])}
        is_open = [row for row in is_open if row.number not in others]
        if not any((resume and row.worker == self.worker) or row.is_expired(now) for row in is_open):
            return None
        row = self._record.claim(self.worker, self.lease, resume=resume, but=self._open | others)
        self._snapshot()
        return None if row is None else self._trials[row.number]

    def _propose(
        self,
        given: Mapping[str, Any],
        for_sweep: "Sweep | None" = None,
        most: int | None = None,
        kept: "Sequence[Stay]" = (),
        *,
        settle: bool = False,
        for_posterior: "Posterior | bool" = False,
        block: str = "",
    ) -> Trial:
        """Ask the solver and take the next number; repeat when another worker has just taken it.

        Args:
            given: The settings that are given.
            for_sweep: With a sweep the point is the one that it needs, instead of the solver's.
            settle: Whether it is the one that narrows the gap most.
            for_posterior: Of which posterior, if it is the one that makes this most certain.
            most: Open trials that this worker may have beside those of its run; who has so many, perhaps from asking
                twice at once, gets the first of them. None: any number.
            kept: What may be left as it is, and what that saves: the proposal is the best after these costs.
            block: The block that it is for; empty: an average one.
        """
        for _ in range(ASK_ATTEMPTS):
            snapshot = self._snapshot().on(given).in_block(block)
            problem, mine = snapshot.problem, self._mine()
            counted = {number for number in mine - self._open if lies_on(problem, self._trials[number])}
            if most is not None and len(counted) >= most:
                return self._trials[min(counted)]
            if snapshot.status is Status.INFEASIBLE:
                raise Infeasible(snapshot.message(Status.INFEASIBLE, snapshot.relaxation()))
            if snapshot.is_exhausted:
                self._is_done = not given
                which = f" with {problem.slice}" if given else ""
                raise SolverDone(f"every setting{which} that can be chosen has been measured")
            self._check_parallel(snapshot)
            number = max(self._trials, default=0) + 1
            if settle:
                proposal = self._settling(given).proposal()
            elif for_posterior is not False and (told := self._for_posterior(snapshot, for_posterior)) is not None:
                proposal = told
            else:
                proposal = self._proposal(snapshot, number) if for_sweep is None else self._for_sweep(for_sweep)
            if kept and proposal.why.upper:
                given, proposal = self._worth_changing(given, proposal, number, kept, block)
                problem = self._snapshot().on(given).problem
            enough = None if most is None else most + len(mine - counted)
            why, settings = replace(proposal.why, given=given), self._settings_of(proposal, problem)
            if self._take(snapshot, number, settings, why, enough):
                return self._logged(number)
        raise StoreError(NUMBERS_TAKEN)

    def _worth_changing(
        self, given: Mapping[str, Any], free: Proposal, number: int, kept: "Sequence[Stay]", block: str
    ) -> tuple[Mapping[str, Any], Proposal]:
        """Return the best proposal after what changes cost: the free one, or one that leaves settings as they are."""
        best, chosen, most = given, free, free.why.upper[0] - max(each.saved for each in kept)
        for each in kept:
            there = self._snapshot().on(each.given).in_block(block)
            try:
                found = self._proposal(there, number)
            except SolverDone:
                continue
            value = found.why.upper[0] + each.saved - max(other.saved for other in kept)
            if value >= most:
                best, chosen, most = there.problem.given, found, value
        return best, chosen

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

    def enqueue(self, x: Any, *, take: bool = False) -> Trial:
        """Have settings of your own evaluated before any others, such as the present design; they count as proposed.

        `ask` and `run` take them first, in order.

        Args:
            x: The settings.
            take: Whether the trial is this worker's at once; else that of who asks next.
        """
        point = start_point(self.problem, x)
        for _ in range(ASK_ATTEMPTS):
            snapshot = self._snapshot()
            last, number = snapshot.data.last, max(self._trials, default=0) + 1
            why = Why("start", memory={} if last is None else last.memory)
            if self._take(snapshot, number, point, why, is_mine=take):
                return self._logged(number)
        raise StoreError(NUMBERS_TAKEN)

    def _check_parallel(self, snapshot: Snapshot) -> None:
        """Refuse a second open trial where the solver takes one at a time."""
        pending = [trial for trial in snapshot.trials if trial.state is State.ASKED]
        if pending and not self.solver.parallel:
            raise TellError(
                f"solver '{self.solver.name}' takes one trial at a time: tell trial {pending[0].number} first"
            )

    def _take(
        self,
        snapshot: Snapshot,
        number: int,
        x: dict[str, Any],
        why: Why,
        most: int | None = None,
        *,
        is_mine: bool = True,
    ) -> bool:
        """Write a proposal under a number, for this worker or whoever asks; tell whether no other worker was faster."""
        why = replace(why, pending=snapshot.pending, basis=snapshot.correction)
        row = self._record.take(
            number, x, why=why.anywhere().to_dict() if snapshot.problem.is_turned else why.to_dict(),
            summary=expectation(self.problem, why),
            revision=self._revision, worker=self.worker if is_mine else "",
            lease=self.lease if is_mine else 0.0, most=most,
        )  # fmt: skip
        return row is not None

    def _proposal(self, snapshot: Snapshot, number: int) -> Proposal:
        """Take the next point of the initial design, or ask the solver once it is complete."""
        index, data, problem = snapshot.initial_index, snapshot.record, snapshot.problem
        try:
            if index is None:
                is_whole = problem.slice is None
                again = to_repeat(problem, snapshot.present, data) if is_whole and self.solver.finds_exact else None
                if again is not None:
                    return Proposal(data.U[data.numbers.index(again.number)], Why("compare", repeats=again.number))
                return self._sought(snapshot, number)
            return Proposal(initial_point(problem, self._stream, index, data), Why("initial"))
        except SolverDone:
            self._is_done = problem.slice is None
            raise

    def _sought(self, snapshot: Snapshot, number: int) -> Proposal:
        """Ask the solver; a look whether outputs that repeated themselves scatter is remembered with its proposal."""
        seen = look(self.problem, snapshot.present, snapshot.data) if self.solver.finds_exact else {}
        scattering = [name for name in self.problem.exact_by_repetition if name in seen.get("outputs", ())]
        if scattering:
            left = [name for name in self.problem.exact_by_repetition if name not in scattering]
            self._change_noise(self.problem.found_exact(left))
            names = ", ".join(f"'{name}'" for name in scattering)
            logger.warning("values of %s scatter between points that lie close together: the noise is learned", names)
        proposal = self._running(snapshot.problem.given).ask(number, snapshot.record)
        memory = {**proposal.why.memory, "scatter": seen} if seen else proposal.why.memory
        return replace(proposal, why=replace(proposal.why, memory=memory))

    def _settings_of(self, proposal: Proposal, problem: Problem) -> dict[str, Any]:
        """Return the variables of a proposal; those of a repetition are the same in all digits."""
        if proposal.why.repeats is not None and problem.slice is None:
            return dict(self._trials[proposal.why.repeats].x)
        return dict(problem.named_x(problem.natural(proposal.u)))

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
        block: str = "",
        campaign: str = "",
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
            block: With what else it was measured and is perhaps off together: a day, an operator, a batch, a reactor.
            campaign: The earlier campaign or other equipment that it is of: related to the present one, not equal.
            anyway: Whether values outside of their ranges, and settings far outside, are right.
            again: Whether telling a recorded value once more is an event of its own; False when a call is repeated
                because its answer was lost: then nothing is written.
        """
        old = self._known(trial)
        groups = groups_of(block, campaign)
        if y is None and not at and not any(groups.values()):
            raise TellError(f"trial {old.number}: nothing is told: give outputs, or what was really set (at=)")
        known = outcomes(self._trials.values())
        values = told_values(self.problem, y, f"trial {old.number}: ", anyway=anyway, others=known)
        point = self._at(old, at, anyway)
        row = self._rows[old.number]
        is_there = all(name in ("", row.group(kind)) for kind, name in groups.items())
        if not again and is_recorded(row, values, point) and is_there:
            return old
        self._record.tell(old.number, values, worker=self.worker, at=point, again=again, groups=groups)
        return self._logged(old.number)

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

    # ------------------------------------------------------------------------------------------------ amend

    def _at(self, trial: Trial, at: Mapping[str, Any] | None, anyway: bool) -> dict[str, Any] | None:
        """Return the whole point at which a trial was run; warn when it lies outside of the box."""
        if not at:
            return None
        point = run_point(self.problem, trial.x, at, anyway=anyway)
        if said := remark(self.problem, point):
            logger.warning("trial %d: %s", trial.number, said)
        return point

    def add(
        self,
        x: Any,
        y: Any = None,
        *,
        block: str = "",
        campaign: str = "",
        anyway: bool = False,
        again: bool = False,
    ) -> Trial:
        """Add old data, a point and its known outputs; it does not count against the budget.

        A row that is there already is not added twice, unless it was measured `again` with the same outcome. A point
        far outside of the variables' ranges and a value outside of its output's range are refused unless `anyway`.
        """
        if y is None:
            raise TellError("add takes measured outputs: to have settings evaluated first, study.enqueue(x)")
        new = self.add_all([(x, y, block, campaign)], anyway=anyway, again=again)
        if new:
            return new[0]
        row = (added_point(self.problem, x, anyway=anyway), told_values(self.problem, y, anyway=anyway))
        known = same_rows(self.problem, self._snapshot().trials, [row])[0]
        logger.warning("already there as trial %d, not added; a true repetition: again=True", known.number)
        return known

    def add_all(
        self, rows: Iterable[tuple[Any, ...]], *, campaign: str = "", anyway: bool = False, again: bool = False
    ) -> dict[int, Trial]:
        """Add many rows of old data at once, points with their known outputs: all of them, or none if one is refused.

        Rows that are there already are passed over as in `add`; who adds the same rows at the same time adds them once.

        Args:
            rows: Points with their outputs, and perhaps the block in which they were measured and their campaign.
            campaign: The earlier campaign or other equipment that rows are of which name none: their outputs are
                related to the present ones, not equal; how they are is learned.
            anyway: Whether values outside of their ranges, and settings far outside, are right.
            again: Whether rows that are there already were measured again.

        Returns:
            The new trials, by the place of their row.
        """
        trials = {trial.number: trial for trial in self._snapshot().trials}
        others = outcomes(trials.values())
        rows = list(rows)
        named = [(*row[2:], "", "")[:2] for row in rows]
        groups = [groups_of(block, own or campaign) for block, own in named]
        read = [
            (
                added_point(self.problem, x, anyway=anyway),
                told_values(self.problem, y, anyway=anyway, others=others),
            )
            for x, y, *_ in rows
        ]
        new: list[int] = []
        without: dict[int, list[str]] = {}

        def choose(changed: list[Row]) -> list[tuple[Any, ...]]:
            seen = {**trials, **{row.number: restored_trial(self.problem, row) for row in changed}}
            known = {} if again else same_rows(self.problem, seen.values(), read)
            new[:] = [place for place in range(len(read)) if place not in known]
            without.update({known[place].number: names for place, names in more_said(read, known).items()})
            return [(*read[place], groups[place]) for place in new]

        made: list[Row] = []
        if choose([]):
            made = self._record.add(choose, since=self._change, revision=self._revision, worker=self.worker)
        for number, names in without.items():
            logger.warning("trial %d is there without the error of %s: correct it to add that", number, listed(names))
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
        block: str | None = None,
        campaign: str | None = None,
        anyway: bool = False,
    ) -> Trial:
        """Replace told outputs, or what was really set; the earlier ones stay in the history.

        Bounds, gap and verdict that were computed from the earlier ones no longer count.

        Args:
            trial: The trial or its number; a failed one counts again.
            values: The right outputs, only those that change.
            why: The reason.
            at: Variables that were really set to other values.
            block: The right block, "" if it belongs to none.
            campaign: The right campaign, "" if it is of the present one.
            anyway: Whether values outside of their ranges, and settings far outside, are right; they are refused
                otherwise.
        """
        old, said = self._known(trial), reason(why)
        known = outcomes(self._snapshot().trials)
        new = told_values(self.problem, values, f"trial {old.number}: ", anyway=anyway, others=known)
        groups = groups_of(block, campaign)
        place = self._at(old, at, anyway)
        correct(self._record, old.number, new, why=said, worker=self.worker, at=place, groups=groups)
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
        new, names, is_new = revised(old, renamed or {}, words)
        self._revision = reframe(self._record, new, is_new=is_new, names=names, worker=self.worker)
        self._put(new)
        return self._snapshot().compared(old, number, names)

    def compare(self) -> Revision:
        """Answer the question, and compare with the optimum of the previous question.

        This is for a study reopened with another question. The previous one is restored from formulas, never from code.
        """
        now = self._snapshot()
        found = restored_question(now.problem, self.questions, self._record.events(), self._revision)
        return now.compared(None, 0) if found is None else now.compared(*found)

    # ------------------------------------------------------------------------------------------------ run

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
        given: Mapping[str, Any] | Callable[[int], Mapping[str, Any]] | None = None,
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
            given: Settings that are not free, as in `ask`, or a function that returns them for the number of a trial,
                for instance what the weather was in that hour.
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
            lease = self.lease if plain.is_shared else math.inf  # else nobody can take a trial away
            with crew, renewing(self._renew, lease), keeper.rescuing(crew):
                status = self._loop(crew, keeper, partial(self._observed, line, on_tell), given).run(budget)
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
        return self.result(given=None if callable(given) else given)

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

    def _loop(
        self,
        crew: "Crew",
        keeper: Keeper[Trial],
        on_settled: Callable[[Trial], None],
        given: Mapping[str, Any] | Callable[[int], Mapping[str, Any]] | None,
    ) -> "Loop":
        """Connect the loop of a run to this study."""
        from pied.study.loop import Loop

        return Loop(
            crew=crew,
            workers=crew.workers if self.solver.parallel else 1,
            status=lambda: self._snapshot().status,
            next_trial=partial(self._next, given, self._left_open()),
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

    def _next(
        self,
        given: Mapping[str, Any] | Callable[[int], Mapping[str, Any]] | None,
        waiting: list[int],
        left: int,
    ) -> tuple[Trial | None, bool]:
        """Return the next trial to evaluate, and whether it is new: those left open first, then expired ones."""
        while waiting:
            for number in self._record.renew([waiting.pop(0)], self.worker, self.lease):  # unless it was taken over
                return self._trials[number], False
        if left <= 0:
            return None, False
        where = self._where(given(max(self._trials, default=0) + 1) if callable(given) else given)
        again = self._offered(where, resume=False)
        if again is None:
            return self._propose(where.given), True
        is_first = again.why.aim == "start" and self._rows[again.number].offers == FIRST_OFFER
        return again, is_first

    def _answered(self, answer: Any) -> dict[str, float]:
        """Return the outputs that an answer of the black box has; say once per study what it has besides."""
        values, ignored = answered(self.problem, answer)
        if ignored and not self._has_remarked:
            logger.warning("the black box also returns %s: ignored, because they are not outputs", listed(ignored))
            self._has_remarked = True
        return values

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

    # ------------------------------------------------------------------------------------------------ answers

    def result(self, rule: str | None = None, *, given: Mapping[str, Any] | None = None, block: str = "") -> Result:
        """Return the recommended point and all that is known about it; with several objectives, also the front.

        Args:
            rule: "observed", "lower", "asked" or "anywhere"; by default "observed" for exact black boxes, "anywhere"
                for noisy ones and with given settings.
            given: Settings that are not free, `{"T": 80}`: everything is then said of points with these.
            block: The day, operator, batch or reactor whose readings are meant; by default those of an average one.
        """
        outlook = self._seen(given, block)
        snapshot = outlook.snapshot
        found = snapshot.result(rule, None if given or block else self._end)
        if found.x is not None and not self.problem.has_front:
            found = replace(found, sensitivities_of=partial(self._worth, outlook))
        if rule is None and not given and not block:
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

    # ------------------------------------------------------------------------------------------------ decide

    @property
    def outlook(self) -> "Outlook":
        """The study at this moment, asked with other constants and limits; kept until the record changes."""
        if (goals := self._snapshot().problem).has_front:
            raise SettingError(
                "what-if, sweeps, sensitivities, explanations and robust choices need one objective, and this study "
                f"has {listed(goals.objectives)}: choose from its front (result.pick), or ask a study of one of them "
                "with limits for the others"
            )
        return self._seen()

    def policy(self, values: Mapping[str, Any] | None = None, /, **named: Any) -> "Policy":
        """Return the best settings as a function of the observed variables; nothing is recorded.

        Args:
            values: The values of each by its name, `{"ambient": [0, 10, 20]}`; without them five between the smallest
                and the largest measured one.
            named: The same for names that are single words: `study.policy(ambient=np.linspace(-5, 35, 9))`.
        """
        from pied.study.policy import policy_of

        return policy_of(self._snapshot(), {**(values or {}), **named})

    def _seen(self, given: Mapping[str, Any] | None = None, block: str = "") -> "Outlook":
        """Return the study at this moment, whatever it asks; given settings, of points with these; or of a block."""
        from pied.study.outlook import Outlook

        snapshot = self._snapshot()
        if block and block not in snapshot.data.blocks:
            known = ", ".join(sorted({*snapshot.data.blocks} - {""})) or "none"
            raise SettingError(f"nothing was measured in block '{block}'; blocks: {known}")
        if block:
            return Outlook(snapshot.on(given or {}).in_block(block))
        if given:
            if snapshot.problem.has_front:
                raise SettingError("given settings need one objective: ask a study of one of them")
            return Outlook(snapshot.on(given))
        if self._looked is None or self._looked[0] is not snapshot:
            self._looked = snapshot, Outlook(snapshot.on({}))
        return self._looked[1]

    def _for_sweep(self, sweep: "Sweep") -> Proposal:
        """Return the point that sharpens a sweep most."""
        from pied.study.sweep import proposal

        return proposal(self.outlook, sweep)

    @staticmethod
    def _for_posterior(snapshot: Snapshot, posterior: "Posterior | bool") -> Proposal | None:
        """Return the point that makes a posterior most certain; None while a design is under way."""
        from pied.study.posterior import Posterior, next_for, read

        stated = posterior.likelihood.stated if isinstance(posterior, Posterior) else read()
        return next_for(snapshot, stated)

    def _settling(self, given: Mapping[str, Any] | None = None) -> "Settling":
        from pied.study.settling import Settling

        return Settling(self._seen(given).snapshot)

    def gap_source(self) -> "Source":
        """Return where the gap comes from: the settings, and what is uncertain there.

        Example: `docs/guide-laboratory.md`.
        """
        return self._settling().source

    def how_many(self, gap: float | None = None) -> "Forecast":
        """Return how many more measurements it may take until hardly more can be gained, or that it is time to stop.

        Example: `docs/guide-laboratory.md`.

        Args:
            gap: What may still be possible then, natural units; by default a hundredth of the range of what was told.
        """
        return self._settling().forecast(gap)

    def gap(self, recommendation: "Recommendation | None" = None) -> tuple[float | None, float | None]:
        """Return the gap and the relative gap: how much better any point could still be (see `gaps.gap`)."""
        return self._snapshot().gap(recommendation)

    def relaxation(self) -> Relaxation | None:
        """Return what would make an infeasible problem plausible again; None unless the status is infeasible."""
        return self._snapshot().relaxation()

    def expect(self, x: Any, *, given: Mapping[str, Any] | None = None) -> dict[str, tuple[float, float, float]]:
        """Return what a measurement at a point probably gives: for each output its lower end, median and upper end.

        Args:
            x: The point.
            given: Settings that the point leaves out because they are given.
        """
        snapshot, x = self._snapshot(), {**x, **given} if given else x
        low, middle, high = snapshot.expected(snapshot.problem.point(x)[None])
        ends = zip(low[0].tolist(), middle[0].tolist(), high[0].tolist(), strict=True)
        return dict(zip(snapshot.problem.outputs, ends, strict=True))

    def what_if(
        self,
        changes: Mapping[str, float] | None = None,
        /,
        *,
        given: Mapping[str, Any] | None = None,
        **named: float,
    ) -> "Answer":
        """Return the best settings if constants and limits were others; nothing is recorded.

        Args:
            changes: New values by the names of constants and limits; a limit has the name of its constraint.
            given: Settings that are not free.
            named: The same as `changes` for names that are single words.
        """
        outlook = self._seen(given) if given else self.outlook
        return outlook.answer({**(changes or {}), **named})

    def sweep(
        self, values: Mapping[str, Any] | None = None, /, *, given: Mapping[str, Any] | None = None, **named: Any
    ) -> "Sweep":
        """Return the optimum as a function of one or two constants or limits; nothing is recorded.

        Args:
            values: The values of each by its name; a limit has the name of its constraint.
            given: Settings that are not free.
            named: The same for names that are single words: `study.sweep(price=np.linspace(8, 14, 25))`.
        """
        from pied.study.sweep import swept

        return swept(self._seen(given) if given else self.outlook, {**(values or {}), **named})

    def sensitivities(self) -> "Sensitivities | None":
        """Return what limits and constants are worth at the optimum, with bounds and the ranges in which it holds.

        None while no settings are known to meet all limits.
        """
        outlook, kept = self.outlook, self._valued
        if kept is None or kept[0] is not outlook:
            kept = self._valued = outlook, self._worth(outlook, ranges=True)
        return kept[1]

    @staticmethod
    def _worth(outlook: "Outlook", *, ranges: bool = False) -> "Sensitivities | None":
        """Return what limits and constants are worth, by one state of the record."""
        from pied.study.sensitivity import sensitivities

        return sensitivities(outlook, ranges=ranges)

    def posterior(
        self,
        data: Any = None,
        sigma: Any = None,
        *,
        prior: Mapping[str, Any] | None = None,
        discrepancy: Any = None,
        limits: bool = False,
        given: Mapping[str, Any] | None = None,
    ) -> "Posterior":
        """Return how sure the parameters are: draws of the variables given data, the belief's uncertainty included.

        Example: `docs/guide-calibration.md`.

        Args:
            data: What was measured, by output; by default as it stands in the objective, a sum of squares of outputs.
            sigma: Standard deviation of the errors of data: of a residual as the objective has it, 1 if that is divided
                by the errors already; or one for each output, `{"y": 0.02}`. None: learned, one size for all residuals.
            prior: What is known besides the ranges, `{"k": (mean, deviation)}` of a normal distribution or an object
                with `logpdf`; of others every value is as likely as any, in the scale of the variable.
            discrepancy: By how much the model itself may be wrong: a deviation, "learned", or `pied.Discrepancy`.
            limits: Whether the limits of outputs are known to hold for the right parameters; those of settings do.
            given: Variables that are known.
        """
        from pied.study.posterior import posterior_of, read

        return posterior_of(self._snapshot(), read(data, sigma, prior, discrepancy, limits, given))

    def explain(self, trial: Trial | int) -> "Explanation":
        """Say what a proposed trial is for: what is hoped for, what is in doubt, what would change the answer."""
        from pied.study.explain import explained

        known = self._known(trial)
        given = known.why.given
        return explained(self._seen(given) if given else self.outlook, known)

    def importance(self) -> dict[str, dict[str, float]]:
        """Return how much each setting matters for each output, by the belief: total Sobol indices over the ranges."""
        from pied.study.explain import importance

        return importance(self._seen())

    def recommend(
        self,
        rule: str | None = None,
        *,
        given: Mapping[str, Any] | None = None,
        block: str = "",
        vary: Mapping[str, Any] | None = None,
        probability: float = 0.9,
    ) -> "Result | Robust":
        """Recommend settings by a rule.

        Args:
            rule: As in `result`; or "robust": the best mean objective while all limits are met with a probability
                though settings are not held exactly and constants move.
            given: Settings that are not free, as in `result`.
            block: As in `result`; not with "robust".
            vary: What varies, evenly: a setting by so much down and up, `{"T": 1.0}`; a constant or limit over a range,
                `{"price": (9, 12)}`. Needed with "robust".
            probability: That all limits are met, over what varies and by the belief.
        """
        if rule != "robust":
            if vary is not None:
                raise SettingError('vary= belongs to the rule "robust"')
            return self.result(rule, given=given, block=block)
        if block:
            raise SettingError('block= does not go with the rule "robust"')
        from pied.study.robust import robust

        return robust(self._seen(given) if given else self.outlook, vary or {}, probability)

    def report(self, file: str | Path) -> Path:
        """Write a page that holds everything: question, answer, pictures, predictions, trials, history, settings."""
        written: Path = above.offered("report")(self, file)
        return written
