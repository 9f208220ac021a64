"""Routines that own their loop (DIRECT, BOBYQA, ...), turned into runs that answer `ask`.

Such a routine calls a function, whereas a study asks for points. The routine therefore runs in its own thread: its
points come out of one queue, the values go into another, and only one side runs at a time. The data are the only state:
a fresh run replays the routine with the recorded values and continues where they end.
"""

import logging
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from queue import Full, Queue
from typing import Any

import numpy as np
from numpy import ndarray

from pied.errors import SettingError, SolverDone, TellError
from pied.problem import Problem
from pied.records import Dataset, Why, spread
from pied.rng import Stream
from pied.shapes import Float64
from pied.solvers.base import Proposal, Run

logger = logging.getLogger(__name__)

SAME_POINT = 1e-9  # unit cube: conversion to natural units and back changes the last bits of a recorded point
SCALED_PENALTY = 10.0  # in spreads of the objective, for a violation of one spread of the constraint
PAPER_PENALTY = 1e5  # rho, natural units: paper, below equation (40)
UNWIND_SECONDS = 5.0  # how long `close` waits for a routine to end; its thread is a daemon and blocks nothing

Evaluate = Callable[[Float64[ndarray, "d"]], float]
"""The function a routine calls: from a point of the unit cube to the number it minimizes."""


@dataclass(frozen=True, eq=False)
class Start:
    """What a routine begins with."""

    U: Float64[ndarray, "N d"]
    """Points known before it starts, unit cube."""
    F: Float64[ndarray, "N"]
    """The values to minimize at these points."""
    d: int
    is_exact: bool
    """Whether the black box has no noise."""
    generator: np.random.Generator
    """Its randomness, the same after a restart."""

    @property
    def best(self) -> Float64[ndarray, "d"]:
        """The best known point; the centre of the cube if none is known."""
        return self.U[int(np.argmin(self.F))] if len(self.F) else np.full(self.d, 0.5)

    def known(self, u: Float64[ndarray, "d"]) -> float | None:
        """Return the value at a point where an exact black box was evaluated already, else None."""
        if not self.is_exact or not len(self.F):
            return None
        away = np.abs(self.U - u).max(1)
        return float(self.F[int(np.argmin(away))]) if away.min() <= SAME_POINT else None


Routine = Callable[[Start, Evaluate], str]
"""Minimizes by calling a function, and returns why it ended."""


@dataclass(frozen=True)
class Merit:
    """One number to minimize, from objective and constraints: minus the exact penalty function, equation (40)."""

    penalty: float
    """rho."""
    scaled: bool
    """Whether objective and constraints are first divided by their spread over the initial data, so that the weight
    does not depend on units."""

    def __post_init__(self) -> None:
        if not 0.0 < self.penalty < float("inf"):
            raise SettingError(f"penalty is a positive weight of violated constraints, got {self.penalty}")

    def of(
        self, problem: Problem, f: Float64[ndarray, "N k"], initial: Float64[ndarray, "M k"]
    ) -> Float64[ndarray, "N"]:
        """Return the values to minimize at points with function values f, given those of the initial data."""
        fine = initial[np.isfinite(initial).all(1)]
        scales = spread(fine) if self.scaled else np.ones(problem.k)
        return -problem.penalized(f / scales, rho=self.penalty)


@dataclass(frozen=True)
class _Span:
    """Which trials belong to the routine; stored with each trial as plain data."""

    solver: str
    first: int
    """Number of the routine's first trial; earlier trials are its start."""
    last: int
    """Number of its last trial."""
    foreign: tuple[int, ...]
    """Later trials that were added: the routine did not propose them and cannot use them."""
    without: tuple[int, ...]
    """Trials before the first that were incomplete when it started, and are left out of its start."""

    @classmethod
    def next(cls, solver: str, why: Why | None, number: int, usable: tuple[int, ...]) -> "_Span":
        """Return the span up to trial `number`, given why the last trial was proposed."""
        memory = why.memory if why is not None else {}
        if memory.get("loop") != solver:
            without = tuple(sorted(set(range(1, number)) - set(usable)))
            return cls(solver, first=number, last=number, foreign=(), without=without)
        foreign = (*memory["foreign"], *range(memory["last"] + 1, number))
        return cls(solver, memory["first"], number, tuple(foreign), tuple(memory["without"]))

    @property
    def memory(self) -> dict[str, Any]:
        return {
            "loop": self.solver,
            "first": self.first,
            "last": self.last,
            "foreign": list(self.foreign),
            "without": list(self.without),
        }

    @property
    def own(self) -> list[int]:
        """Numbers of the routine's trials before the one to be proposed now."""
        foreign = set(self.foreign)
        return [number for number in range(self.first, self.last) if number not in foreign]


class _Unwound(BaseException):
    """Ends a routine from inside its call; a library's `except Exception` does not catch it."""


@dataclass(frozen=True)
class _Ended:
    """The routine has ended: why, or what it raised."""

    why: str
    error: BaseException | None = None


class _Channel:
    """Two queues of length one, between the routine's thread and the study's."""

    def __init__(self) -> None:
        self.points: Queue[Float64[ndarray, "d"] | _Ended] = Queue(1)
        self.answers: Queue[float] = Queue(1)
        self.is_closed = False

    def evaluate(self, u: Any) -> float:
        """Request the value at a point and wait for it; called by the routine, in its thread."""
        if not self.is_closed:
            self.points.put(np.array(u, dtype=np.float64).reshape(-1))
            answer = self.answers.get()
            if not self.is_closed:
                return answer
        raise _Unwound

    def close(self) -> None:
        """Make the routine's current or next call raise; never blocks."""
        self.is_closed = True
        try:
            self.answers.put_nowait(0.0)
        except Full:  # an answer is still queued: the routine takes it, then finds the channel closed
            logger.debug("a routine is ended with an answer still queued")


def _work(routine: Routine, start: Start, channel: _Channel) -> None:
    """Run a routine to its end: the body of its thread, which holds no reference to the run."""

    def evaluate(u: Any) -> float:
        known = start.known(np.asarray(u, dtype=np.float64).reshape(-1))
        return channel.evaluate(u) if known is None else known

    try:
        ended = _Ended(routine(start, evaluate))
    except _Unwound:
        return
    except BaseException as error:  # raised again in the study's thread
        ended = _Ended(f"{type(error).__name__}: {error}", error)
    channel.points.put(ended)


class DrivenRun(Run):
    """One run of a routine that owns its loop: the routine's thread, and the values it has been given.

    Args:
        solver: The solver's name.
        problem: The statement.
        stream: Randomness of the study.
        routine: The function to run.
        merit: What it minimizes.
        legacy: Whether the routine draws from NumPy's global generator, which then gets a state of our own while the
            routine runs and is restored afterwards.
    """

    def __init__(
        self, solver: str, problem: Problem, stream: Stream, routine: Routine, merit: Merit, *, legacy: bool = False
    ) -> None:
        self._solver, self._problem, self._stream = solver, problem, stream
        self._routine, self._merit, self._legacy = routine, merit, legacy
        self._channel: _Channel | None = None
        self._thread: threading.Thread | None = None
        self._point: Float64[ndarray, "d"] | _Ended | None = None
        self._fed: list[float] = []
        self._began: int | None = None
        self._state: Any = None

    def ask(self, number: int, data: Dataset) -> Proposal:
        """Give the routine the values told since the last call, and return the next point it requests.

        Raises:
            SolverDone: If the routine has ended.
            TellError: If one of its trials is told in part only.
            SettingError: If the data are not those of this routine.
        """
        f = data.functions(self._problem)
        usable = tuple(n for n, row in zip(data.numbers, f, strict=True) if np.isfinite(row).all())
        span = _Span.next(self._solver, data.last, number, usable)
        rows = {n: row for row, n in enumerate(data.numbers)}
        kept = [rows[n] for n in rows if n < span.first and n not in span.without]
        self._check_complete(span, rows, data)
        F = self._merit.of(self._problem, f, f[kept])
        answers = self._answers(span, rows, F, F[kept])
        if self._fed != answers[: len(self._fed)] or self._began != span.first:
            self.close()
        if self._thread is None:
            self._begin(span, data.U[kept], F[kept])
        try:
            for n, answer in list(zip(span.own, answers, strict=True))[len(self._fed) :]:
                self._check_same(n, span, rows, data)
                self._feed(answer)
        except BaseException:
            self.close()
            raise
        if isinstance(self._point, _Ended):
            if self._point.error is not None:
                raise self._point.error
            raise SolverDone(f"solver '{self._solver}' has nothing more to propose: {self._point.why}")
        assert self._point is not None
        return Proposal(np.clip(self._point, 0.0, 1.0), Why(self._solver, memory=span.memory))

    def close(self) -> None:
        """End the routine and its thread."""
        if self._channel is not None:
            self._channel.close()
        if self._thread is not None:
            self._thread.join(UNWIND_SECONDS)
        self._channel = self._thread = self._point = self._began = None
        self._fed = []

    # ------------------------------------------------------------------------------------------------ the record

    def _check_complete(self, span: _Span, rows: dict[int, int], data: Dataset) -> None:
        """Refuse to continue while the function values of one of its trials cannot be computed."""
        for n in span.own:
            missing = [] if n not in rows else np.isnan(data.Y[rows[n]]).nonzero()[0].tolist()
            if missing:
                names = ", ".join(f"'{self._problem.outputs[j]}'" for j in missing)
                raise TellError(
                    f"solver '{self._solver}' needs every output of a trial before it can continue: "
                    f"tell {names} of trial {n}, or use a solver with a model, which accepts incomplete trials"
                )

    def _answers(
        self,
        span: _Span,
        rows: dict[int, int],
        F: Float64[ndarray, "N"],
        initial: Float64[ndarray, "M"],
    ) -> list[float]:
        """Return the value of each of the routine's trials; for a failed one the worst value known at that time."""
        worst = float(initial.max()) if len(initial) else 0.0
        answers = []
        for n in span.own:
            value = float(F[rows[n]]) if n in rows else worst
            value = value if np.isfinite(value) else worst
            worst = max(worst, value)
            answers.append(value)
        return answers

    def _check_same(self, n: int, span: _Span, rows: dict[int, int], data: Dataset) -> None:
        """Refuse data whose trial n is not the point that the routine requests now."""
        if n in data.moved:  # its value is taken for that of the point that was requested
            return
        gone = data.away or [number for number in range(1, span.last) if number not in rows]
        recorded = data.U[rows[n]] if n in rows else data.imagined[list(gone).index(n)]
        wanted = self._point
        if isinstance(wanted, ndarray) and np.abs(np.clip(wanted, 0, 1) - recorded).max() <= SAME_POINT:
            return
        now = "has ended" if isinstance(wanted, _Ended) else f"asks for {np.round(np.asarray(wanted), 6).tolist()}"
        raise SettingError(
            f"the record cannot be continued by solver '{self._solver}': trial {n} is at "
            f"{np.round(recorded, 6).tolist()} of the unit cube, but the routine, given the same values, "
            f"{now}. Problem, settings or seed may have changed. Start a new study and add these trials to it"
        )

    # ------------------------------------------------------------------------------------------------ the routine

    def _begin(self, span: _Span, U: Float64[ndarray, "N d"], F: Float64[ndarray, "N"]) -> None:
        """Start the routine and wait for its first point."""
        generator = self._stream.at("loop", span.first).generator()
        if self._legacy:
            self._state = np.random.RandomState(generator.integers(2**32, dtype=np.uint32)).get_state()
        start = Start(U, F, self._problem.d, self._problem.is_exact, generator)
        channel = _Channel()
        name = f"pied {self._solver}"
        thread = threading.Thread(target=_work, args=(self._routine, start, channel), name=name, daemon=True)
        self._channel, self._thread, self._began = channel, thread, span.first
        weakref.finalize(self, channel.close)
        try:
            with self._own_global_state():
                thread.start()
                self._point = channel.points.get()
        except BaseException:
            self.close()
            raise

    def _feed(self, answer: float) -> None:
        """Answer the routine and wait for its next point."""
        assert self._channel is not None
        with self._own_global_state():
            self._channel.answers.put(answer)
            self._point = self._channel.points.get()
        self._fed.append(answer)

    @contextmanager
    def _own_global_state(self) -> Iterator[None]:
        """Give NumPy's global generator our own state while a routine that needs it runs, then restore it."""
        if not self._legacy:
            yield
            return
        users = np.random.get_state()
        np.random.set_state(self._state)
        try:
            yield
        finally:
            self._state = np.random.get_state()
            np.random.set_state(users)
