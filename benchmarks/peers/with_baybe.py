"""The six problems in BayBE: a search space, an objective, and a campaign that recommends and is told.

Limits on outputs are desirabilities: one where met, zero a little beyond, multiplied with a desirability of the
objective, whose range has to be given. Formulas of outputs and inputs are given as targets.
"""

from typing import Any

import pandas as pd
from baybe import Campaign
from baybe.constraints import ContinuousLinearConstraint
from baybe.objectives import DesirabilityObjective
from baybe.parameters import CategoricalParameter, NumericalContinuousParameter, NumericalDiscreteParameter
from baybe.searchspace import SearchSpace
from baybe.settings import Settings
from baybe.targets import NumericalTarget
from problems import (
    FLOWS,
    MEASURED,
    PARTS,
    RATES,
    SOLVENTS,
    TARGET,
    composite_limits,
    composite_value,
    margin,
    profit,
    worth,
)

PACKAGE = "baybe"


def optimize(space, objective, evaluate, budget, seed):
    """Recommend, measure and add, one point after another."""
    Settings(random_seed=seed).activate()
    campaign = Campaign(searchspace=space, objective=objective)
    for _ in range(budget):
        points = campaign.recommend(batch_size=1)
        measured = [evaluate(x) for x in points.to_dict("records")]
        campaign.add_measurements(points.assign(**pd.DataFrame(measured, index=points.index)))


def ranges(bounds) -> list[NumericalContinuousParameter]:
    """Return real parameters."""
    return [NumericalContinuousParameter(name=name, bounds=each) for name, each in bounds.items()]


def at_most(name: str, limit: float, beyond: float) -> NumericalTarget:
    """Return the desirability of a limit: it falls to zero within what is beyond."""
    return NumericalTarget.normalized_ramp(name, cutoffs=(limit, limit + beyond), descending=True)


def reactor(plant: Any, budget: int, seed: int, limits: tuple[float, float] = (0.12, 0.08)) -> None:
    """Maximize the profit under two limits."""

    def evaluate(x):
        y = plant(x)
        return {"profit": profit(x["F_B"], y["X_P"], y["X_E"]), "X_A": y["X_A"], "X_G": y["X_G"]}

    targets = [
        NumericalTarget.normalized_ramp("profit", cutoffs=(-200.0, 200.0)),
        at_most("X_A", limits[0], 0.01),
        at_most("X_G", limits[1], 0.01),
    ]
    optimize(SearchSpace.from_product(ranges(FLOWS)), DesirabilityObjective(targets), evaluate, budget, seed)


def composite(plant: Any, budget: int, seed: int) -> None:
    """Minimize; objective and limits are targets."""

    def evaluate(x):
        y = plant(x)
        limits = composite_limits(**x, y2=y["y2"])
        value = composite_value(x["x1"], x["x2"], x["x4"], y["y1"])
        return {"value": value, "first": -limits[0], "second": -limits[1], "third": -limits[2]}

    targets = [
        NumericalTarget.normalized_ramp("value", cutoffs=(-100.0, 100.0), descending=True),
        *(at_most(name, 0.0, 0.5) for name in ("first", "second", "third")),
    ]
    space = SearchSpace.from_product(ranges(dict.fromkeys(("x1", "x2", "x3", "x4"), (-2.0, 2.0))))
    optimize(space, DesirabilityObjective(targets), evaluate, budget, seed)


def mixed(plant: Any, budget: int, seed: int) -> None:
    """Choose a solvent, a number of stages and a temperature."""
    parameters = [
        CategoricalParameter("solvent", values=list(SOLVENTS)),
        NumericalDiscreteParameter("stages", values=range(1, 9)),
        NumericalContinuousParameter("temperature", bounds=(40.0, 90.0)),
    ]

    def evaluate(x):
        y = plant(x)
        return {"margin": margin(x["stages"], SOLVENTS[x["solvent"]][1], y["yield"]), "impurity": y["impurity"]}

    targets = [NumericalTarget.normalized_ramp("margin", cutoffs=(-20.0, 100.0)), at_most("impurity", 0.05, 0.01)]
    optimize(SearchSpace.from_product(parameters), DesirabilityObjective(targets), evaluate, budget, seed)


def blend(plant: Any, budget: int, seed: int) -> None:
    """Mix four parts that sum to one."""
    total = ContinuousLinearConstraint(list(PARTS), "=", [1.0] * len(PARTS), rhs=1.0)

    def evaluate(x):
        y = plant(x)
        return {"worth": worth(x, y["strength"]), "viscosity": y["viscosity"]}

    targets = [NumericalTarget.normalized_ramp("worth", cutoffs=(-10.0, 20.0)), at_most("viscosity", 1.5, 0.1)]
    space = SearchSpace.from_product(ranges(PARTS), constraints=[total])
    optimize(space, DesirabilityObjective(targets), evaluate, budget, seed)


def infeasible(plant: Any, budget: int, seed: int) -> None:
    """Search for a feasible point until the budget is spent: BayBE has no verdict."""
    reactor(plant, budget, seed, limits=(0.075, 0.035))


def calibration(plant: Any, budget: int, seed: int) -> None:
    """Match eight outputs with noise: the mean of squared differences."""
    targets = [NumericalTarget.match_quadratic(name, match_value=TARGET[name]) for name in MEASURED]
    objective = DesirabilityObjective(targets, scalarizer="MEAN", require_normalization=False)
    optimize(SearchSpace.from_product(ranges(RATES)), objective, plant, budget, seed)
