"""Perform one task, in memory or in a store; performed tasks as plain data, to move between machines."""

import hashlib
import multiprocessing
import os
import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

from pied.bench import origin
from pied.bench.plan import Task, benchmark_of, size_of, solver_of
from pied.errors import EvaluationError, Infeasible, SolverDone, Status, StoreError
from pied.problem import Named, Problem
from pied.records import State, Trial, Why
from pied.study import Study, opened
from pied.suite.benchmark import Benchmark, NoisyBlackBox

try:
    import fcntl
except ImportError:  # no file locks on this system: do not run one plan in two processes
    fcntl = None  # type: ignore[assignment]

FAILED = "FAILED"
"""How a task ended that raised an error."""
WORKER = "bench"
"""Name of the evaluating worker; with the same name, a resumed task gets its pending trial back."""


@dataclass(frozen=True, eq=False)
class Case:
    """A performed task: its trials, and how it ended."""

    task: Task
    trials: tuple[Trial, ...]
    ended: str
    """Name of the study's status: FINISHED, DONE (nothing more to propose), INFEASIBLE, BROKEN; or FAILED."""
    error: str = ""
    """The error that was raised."""
    initial: int = 0
    """Size of the initial design."""
    spent: float = 0.0
    """Core seconds of the last process that worked on it."""
    made: Mapping[str, str] | None = None
    """Version, code, machine and date."""

    @property
    def seconds(self) -> list[float]:
        """Time of each proposal after the initial design."""
        return [trial.why.seconds for trial in self.trials if trial.why.aim != "initial"]


def benchmark_for(task: Task) -> Benchmark:
    """Return the benchmark of a task, with the structure and noise that its solver is given."""
    seed = task.seed if task.noise else 0
    return benchmark_of(task.problem, task.structure, task.noise, seed, task.shifted, task.knows)


def truth_for(task: Task) -> Benchmark:
    """Return the benchmark by which a task is measured: exact, in the original box, the same for all solvers."""
    return benchmark_of(task.problem)


def perform(task: Task, store: str | None = None) -> Case:
    """Perform a task, or the rest of it in a store; an error is recorded as its result."""
    began = time.process_time()  # process time, because machines are shared
    study: Study | None = None
    trials: tuple[Trial, ...] = ()
    ended, error = FAILED, ""
    with nullcontext() if store is None else _alone(store, task.name):
        try:
            study = _open(task, store)
            ended = _loop(task, study)
        except Exception as raised:
            error = _described(raised)
        if study is not None:
            try:
                trials = study.trials
                study.close()
            except Exception as raised:
                error = error or _described(raised)
    initial = study.initial if study is not None else 0
    return Case(task, trials, FAILED if error else ended, error, initial, time.process_time() - began, origin.made())


@contextmanager
def _alone(store: str, name: str) -> Iterator[None]:
    """Lock a task: wait for another process that works on it; the lock of a dead process is released."""
    if fcntl is None:
        yield
        return
    place = int.from_bytes(hashlib.sha256(name.encode()).digest()[:6], "big")
    with open(f"{store}.lock", "a+b") as file:
        fcntl.lockf(file, fcntl.LOCK_EX, 1, place)
        yield


def _is_orphan() -> bool:
    """Tell whether the parent process has died."""
    parent = multiprocessing.parent_process()
    return parent is not None and not parent.is_alive()


def _described(error: Exception) -> str:
    """Return an error as one line, with its file and line number."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({place.filename.rpartition('/')[2]}, line {place.lineno})"


def _open(task: Task, store: str | None) -> Study:
    problem = benchmark_for(task).problem
    solver, settings = solver_of(task.solver)
    kept: dict[str, Any] = {} if store is None else {"name": task.name, "store": store, "worker": WORKER}
    given = {"patience": task.patience, "initial": size_of(task.initial, problem.d), **settings}
    return Study(problem, solver=solver, seed=task.seed, **kept, **given)


def _loop(task: Task, study: Study) -> str:
    """Ask, evaluate and tell until the budget is spent or the study ends."""
    benchmark = truth_for(task)
    noisy = study.problem.blackbox if isinstance(study.problem.blackbox, NoisyBlackBox) else None
    is_solved = any(_solved(task, benchmark, trial) for trial in study.trials)
    while sum(trial.state is not State.ASKED for trial in study.trials) < task.budget and not is_solved:
        if _is_orphan():
            os._exit(1)
        if study.status is not Status.RUNNING:
            return study.status.name
        try:
            trial = study.ask()
        except (SolverDone, Infeasible) as ended:
            return Status.DONE.name if isinstance(ended, SolverDone) else Status.INFEASIBLE.name
        if noisy is not None:
            noisy.calls = trial.number - 1  # noise depends on the trial's number, so a resumed task gets the same noise
        try:
            trial = study.tell(trial, study.problem.named_y(study.problem.evaluate(trial.x)), anyway=True)
        except EvaluationError as error:
            trial = study.fail(trial, str(error))
        is_solved = _solved(task, benchmark, trial)
    return Status.FINISHED.name


def _solved(task: Task, benchmark: Benchmark, trial: Trial) -> bool:
    """Tell whether a trial is strictly feasible and within the tolerance `stop` of the optimum."""
    if task.stop is None or trial.state is not State.TOLD or benchmark.known is None:
        return False
    X = benchmark.whole.point(dict(trial.x))[None]
    raw = float(benchmark.regret(X)[0])
    near = raw < task.stop * max(0.01, abs(benchmark.best)) and float(benchmark.normalized_regret(X)[0]) < task.stop
    return near and bool(benchmark.is_strictly_feasible(X)[0])


# --- As plain data ----------------------------------------------------------------------------------------------------


def to_data(case: Case) -> dict[str, Any]:
    """Return a performed task as data for JSON; the solver's memory is kept for the last trial only."""
    trials = case.trials
    bounded = "asked" in case.task.rules
    return {
        "task": case.task.to_data(),
        "ended": case.ended,
        "error": case.error,
        "initial": case.initial,
        "spent": round(case.spent, 3),
        "made": dict(case.made or {}),
        "x": [list(trial.x.array) for trial in trials],
        "y": [None if trial.y is None else list(trial.y.values()) for trial in trials],
        "failed": {str(trial.number): trial.reason for trial in trials if trial.state is State.FAILED},
        "aims": [trial.why.aim for trial in trials],
        "seconds": [round(trial.why.seconds, 4) for trial in trials],
        "lower": [list(trial.why.lower) for trial in trials] if bounded else [],
        "margins": {str(trial.number): trial.why.margin for trial in trials if trial.why.margin is not None},
        "rungs": {str(trial.number): trial.why.rung for trial in trials if trial.why.rung != "plain"},
        "memory": dict(trials[-1].why.memory) if trials else {},
    }


def from_data(data: Mapping[str, Any]) -> Case:
    """Read a performed task from plain data."""
    task = Task.from_data(data["task"])
    problem = benchmark_for(task).problem
    trials = tuple(_trial(problem, data, place) for place in range(len(data["x"])))
    return Case(task, trials, data["ended"], data["error"], data["initial"], data["spent"], data["made"])


def _trial(problem: Problem, data: Mapping[str, Any], place: int) -> Trial:
    number, y = str(place + 1), data["y"][place]
    why = Why(
        data["aims"][place],
        lower=tuple(data["lower"][place]) if data["lower"] else (),
        margin=data["margins"].get(number),
        rung=data["rungs"].get(number, "plain"),
        seconds=data["seconds"][place],
        memory=data["memory"] if place + 1 == len(data["x"]) else {},
    )
    return Trial(
        place + 1,
        Named(list(problem.variables), tuple(map(float, data["x"][place]))),
        State.FAILED if number in data["failed"] else State.TOLD,
        y=None if y is None else Named(list(problem.outputs), tuple(map(float, y))),
        reason=data["failed"].get(number, ""),
        why=why,
        worker=WORKER,
    )


def keep(case: Case, store: str) -> int:
    """Write a task that was performed elsewhere into a store; return how many of its trials were new."""
    task = case.task
    problem = benchmark_for(task).problem
    solver, _ = solver_of(task.solver)
    record, _, revision = opened(
        problem, name=task.name, store=store, read_only=False, solver=solver, seed=task.seed, initial=case.initial
    )
    new = 0
    try:
        _, rows = record.changes(0)
        for trial in case.trials[len(rows) :]:
            why = trial.why.to_dict()
            row = record.take(trial.number, dict(trial.x), why=why, revision=revision, worker=WORKER)
            if row is None:
                raise StoreError(f"'{task.name}' is being written by another process: try again")
            if trial.state is State.FAILED:
                record.fail(trial.number, trial.reason)
            elif trial.y is not None:
                record.tell(trial.number, dict(trial.y), worker=WORKER)
            new += 1
    finally:
        record.close()
    return new


def kept(task: Task, store: str) -> Case:
    """Read a performed task from a store."""
    problem = benchmark_for(task).problem
    with Study(problem, name=task.name, store=store, read_only=True) as study:
        return Case(task, study.trials, "", initial=study.initial)
