"""A routine that owns its loop, made to answer `ask`.

The routine (DIRECT, BOBYQA, ...) wants to call a function; a study wants to be asked. So the routine runs in a thread
of its own: what it wants evaluated comes out of one queue, the answer goes into another, one place each, and only one
side runs at a time. The record alone is the state: a fresh run gives the routine the recorded answers to the points
it asks for again, and goes on where the record ends.
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
import torch
from jaxtyping import Float64
from torch import Tensor

from pied.errors import SettingError, SolverDone, TellError
from pied.problem import Problem
from pied.records import Dataset, Why, spread
from pied.rng import Stream
from pied.solvers.base import Proposal, Run

logger = logging.getLogger(__name__)

SAME_POINT = 1e-9  # unit cube: a recorded point went to natural units and back, which costs a few last bits
SCALED_PENALTY = 10.0  # of the spread of the objective, for a violation of one spread of the constraint
PAPER_PENALTY = 1e5  # rho, natural units: paper, below equation (40)
PATIENCE_S = 5.0  # how long `close` waits for a routine to unwind; it is a daemon, so nothing hangs on it

Evaluate = Callable[[Float64[np.ndarray, "d"]], float]
"""What a routine calls: from a point of the unit cube to the number it minimizes."""


@dataclass(frozen=True, eq=False)
class Start:
    """What a routine begins with."""

    U: Float64[np.ndarray, "N d"]
    """Points known before it began, unit cube."""
    F: Float64[np.ndarray, "N"]
    """What it minimizes, there."""
    d: int
    is_exact: bool
    """Whether the black box has no noise."""
    generator: np.random.Generator
    """Its own randomness, the same again after a restart."""

    @property
    def best(self) -> Float64[np.ndarray, "d"]:
        """The best known point; the centre of the cube when none is known."""
        return self.U[int(np.argmin(self.F))] if len(self.F) else np.full(self.d, 0.5)

    def known(self, u: Float64[np.ndarray, "d"]) -> float | None:
        """Return the value at a point that an exact black box has answered already, else None."""
        if not self.is_exact or not len(self.F):
            return None
        away = np.abs(self.U - u).max(1)
        return float(self.F[int(np.argmin(away))]) if away.min() <= SAME_POINT else None


Routine = Callable[[Start, Evaluate], str]
"""Minimizes from a start by calling a function, and returns why it ended."""


@dataclass(frozen=True)
class Merit:
    """One number to minimize, from objective and constraints: minus the exact penalty function, equation (40)."""

    penalty: float
    """rho."""
    scaled: bool
    """Whether objective and constraints are divided by their spread over the initial data first, so that the weight
    does not depend on units."""

    def __post_init__(self) -> None:
        if not 0.0 < self.penalty < float("inf"):
            raise SettingError(f"penalty is a positive weight of violated constraints, got {self.penalty}")

    def of(
        self, problem: Problem, f: Float64[Tensor, "N k"], initial: Float64[Tensor, "M k"]
    ) -> Float64[np.ndarray, "N"]:
        """Return what is minimized at points with function values f, given those of the initial data."""
        fine = initial[torch.isfinite(initial).all(1)]
        scales = spread(fine) if self.scaled else torch.ones(problem.k, dtype=torch.float64)
        return -problem.penalized(f / scales, rho=self.penalty).numpy()


@dataclass(frozen=True)
class _Place:
    """Which trials of a record belong to the routine; stored with each trial as plain data."""

    solver: str
    first: int
    """Number of the routine's first trial; what came before is its start."""
    last: int
    """Number of its last trial."""
    foreign: tuple[int, ...]
    """Trials since then that someone added: not asked by the routine, which cannot use them."""
    without: tuple[int, ...]
    """Trials before the first that were incomplete when it began, and stay out of its start."""

    @classmethod
    def next(cls, solver: str, why: Why | None, number: int, usable: tuple[int, ...]) -> "_Place":
        """Return the place of trial `number`, given why the last trial was asked."""
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
        """Numbers of the routine's trials before the one to be asked now."""
        foreign = set(self.foreign)
        return [number for number in range(self.first, self.last) if number not in foreign]


class _Unwound(BaseException):
    """Ends a routine from inside of its own call; no `except Exception` of a library stops it."""


@dataclass(frozen=True)
class _Ended:
    """The routine has nothing more to ask: why, or what it raised."""

    why: str
    error: BaseException | None = None


class _Channel:
    """Two queues of one place each, between the routine's thread and the one that asks."""

    def __init__(self) -> None:
        self.points: Queue[Float64[np.ndarray, "d"] | _Ended] = Queue(1)
        self.answers: Queue[float] = Queue(1)
        self.is_closed = False

    def evaluate(self, u: Any) -> float:
        """Ask for a point and wait for its value: called by the routine, in its thread."""
        if not self.is_closed:
            self.points.put(np.array(u, dtype=np.float64).reshape(-1))
            answer = self.answers.get()
            if not self.is_closed:
                return answer
        raise _Unwound

    def close(self) -> None:
        """Make the routine's present or next call raise; never blocks."""
        self.is_closed = True
        try:
            self.answers.put_nowait(0.0)
        except Full:  # an answer is still on its way: the routine takes it and meets the closed channel after it
            logger.debug("a routine is unwound with an answer on its way")


def _work(routine: Routine, start: Start, channel: _Channel) -> None:
    """Run a routine to its end; the body of its thread, which holds nothing of the run."""

    def evaluate(u: Any) -> float:
        known = start.known(np.asarray(u, dtype=np.float64).reshape(-1))
        return channel.evaluate(u) if known is None else known

    try:
        ended = _Ended(routine(start, evaluate))
    except _Unwound:
        return
    except BaseException as error:  # handed to the thread that asks, which raises it
        ended = _Ended(f"{type(error).__name__}: {error}", error)
    channel.points.put(ended)


class LoopRun(Run):
    """One run of a routine that owns its loop: the routine's thread, and what it has been answered.

    Args:
        solver: The solver's name.
        problem: What is optimized.
        stream: Randomness of the study.
        routine: What to run.
        merit: What it minimizes.
        legacy: Whether the routine draws from NumPy's global generator: it is then lent a state of its own while the
            routine runs, and gets its own back each time.
    """

    def __init__(
        self, solver: str, problem: Problem, stream: Stream, routine: Routine, merit: Merit, *, legacy: bool = False
    ) -> None:
        self._solver, self._problem, self._stream = solver, problem, stream
        self._routine, self._merit, self._legacy = routine, merit, legacy
        self._channel: _Channel | None = None
        self._thread: threading.Thread | None = None
        self._point: Float64[np.ndarray, "d"] | _Ended | None = None
        self._fed: list[float] = []
        self._began: int | None = None
        self._state: Any = None

    def ask(self, number: int, data: Dataset) -> Proposal:
        """Give the routine what was told since, and return what it wants evaluated next.

        Raises:
            SolverDone: When the routine has ended.
            TellError: When a trial of its own is told in part only: it needs one number.
            SettingError: When the record is not one of this routine.
        """
        f = data.functions(self._problem)
        usable = tuple(n for n, row in zip(data.numbers, f, strict=True) if bool(torch.isfinite(row).all()))
        place = _Place.next(self._solver, data.last, number, usable)
        rows = {n: row for row, n in enumerate(data.numbers)}
        kept = [rows[n] for n in rows if n < place.first and n not in place.without]
        self._check_complete(place, rows, data)
        F = self._merit.of(self._problem, f, f[kept])
        answers = self._answers(place, rows, F, F[kept])
        if self._fed != answers[: len(self._fed)] or self._began != place.first:
            self.close()
        if self._thread is None:
            self._begin(place, data.U[kept].numpy(), F[kept])
        try:
            for n, answer in list(zip(place.own, answers, strict=True))[len(self._fed) :]:
                self._check_same(n, place, rows, data)
                self._feed(answer)
        except BaseException:
            self.close()
            raise
        if isinstance(self._point, _Ended):
            if self._point.error is not None:
                raise self._point.error
            raise SolverDone(f"solver '{self._solver}' has nothing more to propose: {self._point.why}")
        assert self._point is not None
        u = torch.from_numpy(np.clip(self._point, 0.0, 1.0))
        return Proposal(u, Why(self._solver, memory=place.memory))

    def close(self) -> None:
        """Unwind the routine and end its thread."""
        if self._channel is not None:
            self._channel.close()
        if self._thread is not None:
            self._thread.join(PATIENCE_S)
        self._channel = self._thread = self._point = self._began = None
        self._fed = []

    # ------------------------------------------------------------------------------------------------ the record

    def _check_complete(self, place: _Place, rows: dict[int, int], data: Dataset) -> None:
        """Refuse to go on while the function values of an own trial cannot be computed."""
        for n in place.own:
            missing = [] if n not in rows else torch.isnan(data.Y[rows[n]]).nonzero().flatten().tolist()
            if missing:
                names = ", ".join(f"'{self._problem.outputs[j]}'" for j in missing)
                raise TellError(
                    f"solver '{self._solver}' needs every output of a trial before it can go on: "
                    f"tell {names} of trial {n}, or use a solver with a model, which can wait"
                )

    def _answers(
        self,
        place: _Place,
        rows: dict[int, int],
        F: Float64[np.ndarray, "N"],
        initial: Float64[np.ndarray, "M"],
    ) -> list[float]:
        """Return the answer to each trial of the routine; where it failed, the worst value known by then."""
        worst = float(initial.max()) if len(initial) else 0.0
        answers = []
        for n in place.own:
            value = float(F[rows[n]]) if n in rows else worst
            value = value if np.isfinite(value) else worst
            worst = max(worst, value)
            answers.append(value)
        return answers

    def _check_same(self, n: int, place: _Place, rows: dict[int, int], data: Dataset) -> None:
        """Refuse a record whose trial n is not what the routine asks for now."""
        gone = [number for number in range(1, place.last) if number not in rows]
        recorded = data.U[rows[n]] if n in rows else data.imagined[gone.index(n)]
        wanted = self._point
        if isinstance(wanted, np.ndarray) and np.abs(np.clip(wanted, 0, 1) - recorded.numpy()).max() <= SAME_POINT:
            return
        asked = "has ended" if isinstance(wanted, _Ended) else f"asks for {np.round(np.asarray(wanted), 6).tolist()}"
        raise SettingError(
            f"the record cannot be continued by solver '{self._solver}': trial {n} is at "
            f"{np.round(recorded.numpy(), 6).tolist()} of the unit cube, where the routine, given the same answers, "
            f"{asked}. Were problem, settings or seed others then? Start a new study and add these trials to it"
        )

    # ------------------------------------------------------------------------------------------------ the routine

    def _begin(self, place: _Place, U: Float64[np.ndarray, "N d"], F: Float64[np.ndarray, "N"]) -> None:
        """Start the routine and wait for its first point."""
        is_exact = all(noise == 0 for noise in self._problem.noise)
        generator = self._stream.at("loop", place.first).generator()
        if self._legacy:
            self._state = np.random.RandomState(generator.integers(2**32, dtype=np.uint32)).get_state()
        start = Start(U, F, self._problem.d, is_exact, generator)
        channel = _Channel()
        name = f"pied {self._solver}"
        thread = threading.Thread(target=_work, args=(self._routine, start, channel), name=name, daemon=True)
        self._channel, self._thread, self._began = channel, thread, place.first
        weakref.finalize(self, channel.close)
        try:
            with self._lent():
                thread.start()
                self._point = channel.points.get()
        except BaseException:
            self.close()
            raise

    def _feed(self, answer: float) -> None:
        """Answer the routine and wait for its next point."""
        assert self._channel is not None
        with self._lent():
            self._channel.answers.put(answer)
            self._point = self._channel.points.get()
        self._fed.append(answer)

    @contextmanager
    def _lent(self) -> Iterator[None]:
        """Lend NumPy's global generator to a routine that insists on it, and put everything back after."""
        if not self._legacy:
            yield
            return
        theirs = np.random.get_state()
        np.random.set_state(self._state)
        try:
            yield
        finally:
            self._state = np.random.get_state()
            np.random.set_state(theirs)
