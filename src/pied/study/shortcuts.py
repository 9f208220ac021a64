"""Solve a problem in one call, without naming a study."""

from concurrent.futures import Executor
from typing import Any

from pied.problem import Problem
from pied.study.result import Result
from pied.study.study import Observer, Study

STUDY_WORDS = (
    "name", "store", "solver", "seed", "on_tell", "patience", "initial", "stop_at_gap", "settings", "worker", "lease",
    "executor", "workers", "timeout", "retries", "progress", "start",
)  # fmt: skip
"""Arguments of `maximize` and `minimize` that go to the study; all others go to the problem."""


def solve(
    problem: Problem,
    budget: int,
    *,
    on_tell: Observer | None = None,
    executor: Executor | str | None = None,
    workers: int | None = None,
    timeout: float | None = None,
    retries: int = 0,
    progress: bool | None = None,
    **study: Any,
) -> Result:
    """Solve a problem with a budget of evaluations; takes the arguments of `Study` and of `Study.run`.

    Example: `docs/guide-simulator.md`.
    """
    with Study(problem, **study) as made:
        return made.run(budget, on_tell=on_tell, executor=executor, workers=workers, timeout=timeout, retries=retries)


def maximize(objective: Any, *, budget: int, **words: Any) -> Result:
    """Maximize an objective: `solve(Problem(maximize=objective, **words), budget)` in one call.

    Example: `docs/index.md`.
    """
    own = {name: words.pop(name) for name in STUDY_WORDS if name in words}
    return solve(Problem(maximize=objective, **words), budget, **own)


def minimize(objective: Any, *, budget: int, **words: Any) -> Result:
    """Minimize an objective: `solve(Problem(minimize=objective, **words), budget)` in one call.

    Example: `docs/guide-calibration.md`.
    """
    own = {name: words.pop(name) for name in STUDY_WORDS if name in words}
    return solve(Problem(minimize=objective, **words), budget, **own)
