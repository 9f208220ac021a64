"""The six problems in Optuna: a trial suggests, the objective returns, constraints are set on the trial.

A trial returns numbers, so formulas are part of what is learned. Its Gaussian process sampler; parts of a blend by
the Dirichlet transform of Optuna's own FAQ, their bounds as constraints.
"""

import math
from typing import Any

import optuna
from optuna.samplers import GPSampler
from problems import FLOWS, PARTS, RATES, SOLVENTS, composite_limits, composite_value, margin, misfit, profit, worth

PACKAGE = "optuna"

optuna.logging.set_verbosity(optuna.logging.ERROR)


def optimize(objective, budget, seed, *, direction="maximize", is_exact=True):
    """Run a study with the Gaussian process sampler."""
    sampler = GPSampler(seed=seed, deterministic_objective=is_exact)
    study = optuna.create_study(direction=direction, sampler=sampler)
    study.optimize(objective, n_trials=budget)


def ranges(trial, bounds) -> dict[str, float]:
    """Suggest real numbers."""
    return {name: trial.suggest_float(name, *each) for name, each in bounds.items()}


def reactor(plant: Any, budget: int, seed: int, limits: tuple[float, float] = (0.12, 0.08)) -> None:
    """Maximize the profit under two limits."""

    def objective(trial):
        x = ranges(trial, FLOWS)
        y = plant(x)
        trial.set_constraint("X_A", y["X_A"] - limits[0])  # met when <= 0
        trial.set_constraint("X_G", y["X_G"] - limits[1])
        return profit(x["F_B"], y["X_P"], y["X_E"])

    optimize(objective, budget, seed)


def composite(plant: Any, budget: int, seed: int) -> None:
    """Minimize under three limits."""

    def objective(trial):
        x = ranges(trial, dict.fromkeys(("x1", "x2", "x3", "x4"), (-2.0, 2.0)))
        y = plant(x)
        for name, slack in zip(("first", "second", "third"), composite_limits(**x, y2=y["y2"]), strict=True):
            trial.set_constraint(name, -slack)
        return composite_value(x["x1"], x["x2"], x["x4"], y["y1"])

    optimize(objective, budget, seed, direction="minimize")


def mixed(plant: Any, budget: int, seed: int) -> None:
    """Choose a solvent, a number of stages and a temperature."""

    def objective(trial):
        x = {
            "solvent": trial.suggest_categorical("solvent", list(SOLVENTS)),
            "stages": trial.suggest_int("stages", 1, 8),
            "temperature": trial.suggest_float("temperature", 40.0, 90.0),
        }
        y = plant(x)
        trial.set_constraint("impurity", y["impurity"] - 0.05)
        return margin(x["stages"], SOLVENTS[x["solvent"]][1], y["yield"])

    optimize(objective, budget, seed)


def blend(plant: Any, budget: int, seed: int) -> None:
    """Mix four parts that sum to one: positive numbers, divided by their sum."""

    def objective(trial):
        draws = {name: -math.log(trial.suggest_float(name, 1e-6, 1.0 - 1e-9)) for name in PARTS}
        x = {name: each / sum(draws.values()) for name, each in draws.items()}
        y = plant(x)
        trial.set_constraint("viscosity", y["viscosity"] - 1.5)
        for name, (low, high) in PARTS.items():
            trial.set_constraint(f"least {name}", low - x[name])
            trial.set_constraint(f"most {name}", x[name] - high)
        return worth(x, y["strength"])

    optimize(objective, budget, seed)


def infeasible(plant: Any, budget: int, seed: int) -> None:
    """Search for a feasible point until the budget is spent: Optuna has no verdict."""
    reactor(plant, budget, seed, limits=(0.075, 0.035))


def calibration(plant: Any, budget: int, seed: int) -> None:
    """Minimize the misfit; its noise is learned."""
    objective = lambda trial: misfit(plant(ranges(trial, RATES)))  # noqa: E731
    optimize(objective, budget, seed, direction="minimize", is_exact=False)
