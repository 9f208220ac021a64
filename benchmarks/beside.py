"""The same problem by `pied` and by Optuna's GP sampler, which knows no structure, from the same initial points."""

import importlib
from collections.abc import Callable, Sequence
from typing import Any

from pied import Problem, Study

METHODS = ("pied", "Optuna GP")
Settings = tuple[float, ...]
Outputs = tuple[float, ...]
Evaluate = Callable[[Settings], Outputs | None]
"""Returns the outputs at some settings; None where the evaluation failed."""


def told_by(
    method: str,
    problem: Problem,
    evaluate: Evaluate,
    broken: Callable[[Outputs], Sequence[float]],
    seed: int,
    budget: int,
) -> list[tuple[Settings, Outputs | None]]:
    """Return what one method evaluated.

    Args:
        method: One of `METHODS`.
        problem: The statement; its objective is the first output, to be minimized.
        evaluate: The black box.
        broken: By how much outputs break each limit; negative: not at all.
        seed: Of the method and its initial points.
        budget: How many evaluations.
    """
    told: list[tuple[Settings, Outputs | None]] = []

    def tell(x: Settings) -> Outputs | None:
        told.append((x, evaluate(x)))
        return told[-1][1]

    if method == "pied":
        _by_pied(problem, tell, seed, budget)
    else:
        _by_optuna(problem, tell, broken, seed, budget)
    return told


def _by_pied(problem: Problem, tell: Evaluate, seed: int, budget: int) -> None:
    with Study(problem, seed=seed) as study:
        while study.used < budget:
            trial = study.ask()
            y = tell(tuple(float(value) for value in trial.x.values()))
            if y is None:
                study.fail(trial, "no solution was found")
            else:
                study.tell(trial, list(y))


def _by_optuna(
    problem: Problem, tell: Evaluate, broken: Callable[[Outputs], Sequence[float]], seed: int, budget: int
) -> None:
    optuna = importlib.import_module("optuna")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    with Study(problem, seed=seed) as first:
        design = [first.ask() for _ in range(first.initial)]

    def objective(trial: Any) -> float:
        x = tuple(trial.suggest_float(name, axis.lo, axis.hi) for name, axis in problem.variables.items())
        y = tell(x)
        if y is None:
            raise ArithmeticError
        trial.set_user_attr("broken", list(broken(y)))
        return y[0]

    sampler = optuna.samplers.GPSampler(
        seed=seed, n_startup_trials=len(design), constraints_func=lambda trial: trial.user_attrs["broken"]
    )
    study = optuna.create_study(sampler=sampler)
    for trial in design:
        study.enqueue_trial({name: float(value) for name, value in trial.x.items()})
    study.optimize(objective, n_trials=budget, catch=(ArithmeticError,))


def best(told: Sequence[tuple[Settings, Outputs | None]], broken: Callable[[Outputs], Sequence[float]]) -> float:
    """Return the smallest first output of evaluations that keep all limits; infinite if there is none."""
    fine = [y[0] for _, y in told if y is not None and max(broken(y)) <= 1e-6]
    return min(fine, default=float("inf"))
