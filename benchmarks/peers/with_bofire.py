"""The six problems in BoFire: a domain of inputs, outputs and constraints, and a strategy that asks and tells.

Sigmoid objectives are limits on outputs; a custom strategy takes a formula of samples and inputs. What combines
outputs and inputs in a limit, or needs a property of a category, is given as one more output.
"""

from typing import Any

import bofire.strategies.api as strategies
import pandas as pd
from bofire.data_models.constraints.api import LinearEqualityConstraint
from bofire.data_models.domain.api import Constraints, Domain, Inputs, Outputs
from bofire.data_models.features.api import CategoricalInput, ContinuousInput, ContinuousOutput, DiscreteInput
from bofire.data_models.objectives.api import (
    CloseToTargetObjective,
    MaximizeObjective,
    MaximizeSigmoidObjective,
    MinimizeSigmoidObjective,
)
from bofire.data_models.strategies.api import (
    AdditiveSoboStrategy,
    CustomSoboStrategy,
    RandomStrategy,
    SoboStrategy,
)
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

PACKAGE = "bofire"
STEEP = 500.0
"""Of the sigmoids: the limits are sharp."""


def optimize(domain, evaluate, budget, seed, *, initial, model=SoboStrategy, formula=None):
    """Ask a random strategy for the first points, then a Bayesian one for the others."""
    random = strategies.map(RandomStrategy(domain=domain, seed=seed))
    told = measured(random.ask(initial), evaluate)
    while len(told) < budget:
        strategy = strategies.map(model(domain=domain, seed=seed))
        if formula is not None:
            strategy.f = formula
        strategy.tell(told)
        told = pd.concat([told, measured(strategy.ask(1)[domain.inputs.get_keys()], evaluate)], ignore_index=True)


def measured(points, evaluate):
    """Return candidates with what was measured at each of them."""
    rows = [x | evaluate(x) for x in points.to_dict("records")]
    table = pd.DataFrame(rows)
    return table.assign(**{f"valid_{name}": 1 for name in table.columns if name not in points.columns})


def ranges(bounds) -> list[ContinuousInput]:
    """Return real inputs."""
    return [ContinuousInput(key=name, bounds=each) for name, each in bounds.items()]


def reactor(plant: Any, budget: int, seed: int, limits: tuple[float, float] = (0.12, 0.08)) -> None:
    """Maximize the profit under two limits."""
    outputs = [
        ContinuousOutput(key="X_A", objective=MinimizeSigmoidObjective(tp=limits[0], steepness=STEEP)),
        ContinuousOutput(key="X_G", objective=MinimizeSigmoidObjective(tp=limits[1], steepness=STEEP)),
        ContinuousOutput(key="X_P", objective=MaximizeObjective()),
        ContinuousOutput(key="X_E", objective=MaximizeObjective()),
    ]
    domain = Domain(inputs=Inputs(features=ranges(FLOWS)), outputs=Outputs(features=outputs))
    place = {name: i for i, name in enumerate(domain.outputs.get_keys())}
    feed = domain.inputs.get_keys().index("F_B")

    def formula(samples, callables, weights, X):
        return profit(X[..., feed], samples[..., place["X_P"]], samples[..., place["X_E"]])

    optimize(domain, plant, budget, seed, initial=5, model=CustomSoboStrategy, formula=formula)


def composite(plant: Any, budget: int, seed: int) -> None:
    """Minimize; the objective is a formula, limits that are not linear are outputs."""
    limit = MaximizeSigmoidObjective(tp=0.0, steepness=STEEP)
    outputs = [
        ContinuousOutput(key="y1", objective=MaximizeObjective()),
        *(ContinuousOutput(key=name, objective=limit) for name in ("first", "second", "third")),
    ]
    inputs = ranges(dict.fromkeys(("x1", "x2", "x3", "x4"), (-2.0, 2.0)))
    domain = Domain(inputs=Inputs(features=inputs), outputs=Outputs(features=outputs))
    place = domain.outputs.get_keys().index("y1")

    def evaluate(x):
        y = plant(x)
        limits = composite_limits(**x, y2=y["y2"])
        return {"y1": y["y1"], "first": limits[0], "second": limits[1], "third": limits[2]}

    def formula(samples, callables, weights, X):
        return -composite_value(X[..., 0], X[..., 1], X[..., 3], samples[..., place])

    optimize(domain, evaluate, budget, seed, initial=9, model=CustomSoboStrategy, formula=formula)


def mixed(plant: Any, budget: int, seed: int) -> None:
    """Choose a solvent, a number of stages and a temperature."""
    inputs = [
        CategoricalInput(key="solvent", categories=list(SOLVENTS)),
        DiscreteInput(key="stages", values=list(range(1, 9))),
        ContinuousInput(key="temperature", bounds=(40.0, 90.0)),
    ]
    outputs = [
        ContinuousOutput(key="margin", objective=MaximizeObjective()),
        ContinuousOutput(key="impurity", objective=MinimizeSigmoidObjective(tp=0.05, steepness=STEEP)),
    ]
    domain = Domain(inputs=Inputs(features=inputs), outputs=Outputs(features=outputs))

    def evaluate(x):
        y = plant(x)
        return {"margin": margin(x["stages"], SOLVENTS[x["solvent"]][1], y["yield"]), "impurity": y["impurity"]}

    optimize(domain, evaluate, budget, seed, initial=7)


def blend(plant: Any, budget: int, seed: int) -> None:
    """Mix four parts that sum to one."""
    outputs = [
        ContinuousOutput(key="strength", objective=MaximizeObjective()),
        ContinuousOutput(key="viscosity", objective=MinimizeSigmoidObjective(tp=1.5, steepness=STEEP)),
    ]
    total = LinearEqualityConstraint(features=list(PARTS), coefficients=[1.0] * len(PARTS), rhs=1.0)
    domain = Domain(
        inputs=Inputs(features=ranges(PARTS)),
        outputs=Outputs(features=outputs),
        constraints=Constraints(constraints=[total]),
    )
    parts, place = domain.inputs.get_keys(), domain.outputs.get_keys().index("strength")

    def formula(samples, callables, weights, X):
        return worth(dict(zip(parts, X.unbind(-1), strict=True)), samples[..., place])

    optimize(domain, plant, budget, seed, initial=9, model=CustomSoboStrategy, formula=formula)


def infeasible(plant: Any, budget: int, seed: int) -> None:
    """Search for a feasible point until the budget is spent: BoFire has no verdict."""
    reactor(plant, budget, seed, limits=(0.075, 0.035))


def calibration(plant: Any, budget: int, seed: int) -> None:
    """Minimize the sum of squares of eight outputs with noise."""
    outputs = [
        ContinuousOutput(key=name, objective=CloseToTargetObjective(target_value=TARGET[name], exponent=2))
        for name in MEASURED
    ]
    domain = Domain(inputs=Inputs(features=ranges(RATES)), outputs=Outputs(features=outputs))
    optimize(domain, plant, budget, seed, initial=5, model=AdditiveSoboStrategy)
