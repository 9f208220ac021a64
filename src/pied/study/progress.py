"""Where a study stands, cheaply: from told values alone, without fitting a belief."""

import os
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pied.errors import Status
from pied.records import State, Trial, feasible, met, ranges
from pied.study.front import told_rows
from pied.study.gaps import gap, tops
from pied.study.snapshot import Snapshot
from pied.study.words import Margin, Words, counted, failed, figure, titled

NARROWEST = 40
"""Columns that a line of progress takes at least, however narrow the terminal says it is."""


@dataclass(frozen=True)
class Best:
    """The best told point that meets all limits, by its values and by the mean of all measurements there."""

    trial: Trial
    value: float
    """Its objective, with the user's sign."""
    slack: dict[str, float]
    """Its constraints."""
    gap: float | None
    """How much better any point could be at most; None where that is not known without a belief."""

    @property
    def margins(self) -> list[Margin]:
        """What is known about its constraints."""
        return [Margin(name, slack, is_near=slack < 0) for name, slack in self.slack.items()]


def best(snapshot: Snapshot) -> Best | None:
    """Return the best told point that meets all limits, if there is one."""
    problem, data = snapshot.problem, snapshot.data
    f = data.functions(problem)
    rows = np.flatnonzero(met(problem, data) & feasible(problem, f))
    if not len(rows):
        return None
    row = int(rows[np.argmax(f[rows, 0])])
    number = data.numbers[row]
    stated = tops(trial for trial in snapshot.current if trial.revision == snapshot.revision)
    told = f[np.isfinite(f[:, 0]), 0]
    width = gap(stated, float(f[row, 0]), float(ranges(told[:, None])[0]))
    width = 0.0 if snapshot.is_exhausted else width
    return Best(
        next(trial for trial in snapshot.trials if trial.number == number),
        problem.user_value(float(f[row, 0])),
        {name: float(f[row, place]) for place, name in enumerate(problem.constraints, 1)},
        width if problem.is_exact and np.isfinite(width) else None,
    )


def standing(snapshot: Snapshot, status: Status) -> str:
    """Return where a study stands, in a few lines."""
    words, found = Words.of(snapshot.problem), best(snapshot)
    if snapshot.problem.has_front and found is not None:
        return "\n".join(
            [
                snapshot.message(status),
                *(f"  {line}" for line in front_lines(snapshot)),
                f"  {counted(snapshot.trials)}; seed {snapshot.seed}",
                *(f"    {line}" for line in failed(snapshot.trials)),
            ]
        )
    has_objective = words.objective != "any feasible point"
    lines = [snapshot.message(status)]
    if found is not None:
        measured = "" if words.is_exact else " measured"
        worth = f"{titled(words.objective)} {_value(words, found.value)}{measured}"
        lines.append(f"  best so far, trial {found.trial.number}{f': {worth}' if has_objective else ''}")
        lines += [f"    {name} = {words.setting(name, value)}" for name, value in found.trial.x.items()]
        lines += [f"  {each.text}" for each in words.limit_lines(found.margins)]
        lines += [f"  {words.still(0.0)}"] if has_objective and snapshot.is_exhausted else []
    elif any(trial.state is State.TOLD for trial in snapshot.trials) and status is not Status.INFEASIBLE:
        lines.append(f"  no settings are known to meet all limits{snapshot.doubt}")
    lines.append(f"  {counted(snapshot.trials)}; seed {snapshot.seed}")
    return "\n".join(lines + [f"    {line}" for line in failed(snapshot.trials) if status is not Status.BROKEN])


def front_lines(snapshot: Snapshot) -> list[str]:
    """Return how many told points are on the front, and between which values they lie."""
    problem = snapshot.problem
    rows, values = told_rows(problem, snapshot.data)
    lines = [f"{len(rows)} best trade-off{'s' * (len(rows) != 1)} so far"]
    for place, (name, unit) in enumerate(zip(problem.objectives, problem.goal_units, strict=True)):
        low, high = values[rows, place].min(), values[rows, place].max()
        lines.append(f"  {name} from {figure(low)} to {figure(high)}{f' {unit}' if unit else ''}")
    return lines


def _value(words: Words, value: float) -> str:
    """Return the objective with its unit."""
    return figure(value) + (f" {words.unit}" if words.unit else "")


class Line:
    """One line on a terminal or in a notebook that says how far a run is."""

    def __init__(self, snapshot: Callable[[], Snapshot], budget: int, *, progress: bool | None = None) -> None:
        """Begin the line.

        Args:
            snapshot: Returns the study at this moment.
            budget: Evaluations of the run.
            progress: Whether to show the line; None: where someone looks on, not in a log.
        """
        self._snapshot, self._budget, self._done = snapshot, budget, 0
        self._began, self._shown = time.monotonic(), 0
        self._stream = _stream(progress)
        self._show()

    def step(self) -> None:
        """Count one more evaluation."""
        self._done += 1
        self._show()

    def over(self) -> None:
        """Say of a run that is over how much better is possible, as its result does."""
        self._show(is_over=True)

    def end(self) -> None:
        """Leave the line as it is, and go to the next."""
        if self._stream is not None and self._shown:
            self._write("\n")

    def _show(self, *, is_over: bool = False) -> None:
        if self._stream is None:
            return
        columns = max(NARROWEST, shutil.get_terminal_size().columns - 1)
        text = self.text(is_over=is_over)
        text = text if len(text) <= columns else f"{text[: columns - 3]}..."
        self._write(f"\r{text.ljust(self._shown)}")
        self._shown = len(text)

    def text(self, *, is_over: bool = False) -> str:
        """Return the line: how many, the best value, what is still possible, and the seconds.

        Args:
            is_over: Whether what is still possible is what the result says, which takes a belief.
        """
        snapshot = self._snapshot()
        words, found = Words.of(snapshot.problem), best(snapshot)
        parts = [f"{self._done} of {self._budget}"]
        if found is not None and snapshot.problem.has_front:
            parts.append(front_lines(snapshot)[0])
        elif found is not None and words.objective != "any feasible point":
            still = words.still(snapshot.told_still.width if is_over else found.gap)
            parts += [f"best {titled(words.objective)} {_value(words, found.value)}", *([still] if still else [])]
        elif found is not None:
            parts.append("all limits are met")
        elif any(trial.state is State.TOLD for trial in snapshot.trials):
            parts.append("no settings are known to meet all limits")
        lost = sum(trial.state is State.FAILED for trial in snapshot.trials)
        parts += [f"{lost} failed"] if lost else []
        return "  |  ".join([*parts, f"{time.monotonic() - self._began:.0f} s"])

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError, UnicodeError):  # the terminal is gone or cannot show it; the run goes on
            self._stream = None


def _stream(progress: bool | None) -> Any:
    """Return where a line of progress is shown; None: nowhere."""
    if progress is False:
        return None
    if _is_notebook():
        return sys.stdout  # standard error is red there
    stream = sys.stderr
    is_watched = stream is not None and stream.isatty() and not os.environ.get("CI")
    return stream if progress or is_watched else None


def _is_notebook() -> bool:
    """Tell whether this runs in a Jupyter notebook; IPython is not loaded for it."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return type(shell).__name__ == "ZMQInteractiveShell"
