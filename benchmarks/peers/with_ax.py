"""The six problems in Ax: a client, metrics, and outcome constraints that are linear in them.

Objectives and outcome constraints are linear in metrics, so a profit is computed and modelled as a metric; a part
that follows from the others is left out. Its default generation strategy.
"""

from typing import Any

from ax import ChoiceParameterConfig, Client, RangeParameterConfig
from problems import FLOWS, PARTS, RATES, SOLVENTS, composite_limits, composite_value, margin, misfit, profit, worth

PACKAGE = "ax-platform"


def optimize(parameters, evaluate, budget, seed, *, objective, outcomes=None, sums=None):
    """Configure a client, then complete one trial after another."""
    client = Client(random_seed=seed)
    client.configure_experiment(parameters=parameters, parameter_constraints=sums)
    client.configure_optimization(objective=objective, outcome_constraints=outcomes)
    for _ in range(budget):
        ((index, x),) = client.get_next_trials(max_trials=1).items()
        client.complete_trial(index, raw_data=evaluate(x))


def ranges(bounds) -> list[RangeParameterConfig]:
    """Return real parameters."""
    return [RangeParameterConfig(name=name, parameter_type="float", bounds=each) for name, each in bounds.items()]


def reactor(plant: Any, budget: int, seed: int, limits: tuple[float, float] = (0.12, 0.08)) -> None:
    """Maximize the profit under two limits."""

    def evaluate(x):
        y = plant(x)
        return {"profit": profit(x["F_B"], y["X_P"], y["X_E"]), "X_A": y["X_A"], "X_G": y["X_G"]}

    outcomes = [f"X_A <= {limits[0]}", f"X_G <= {limits[1]}"]
    optimize(ranges(FLOWS), evaluate, budget, seed, objective="profit", outcomes=outcomes)


def composite(plant: Any, budget: int, seed: int) -> None:
    """Minimize; objective and limits are metrics."""

    def evaluate(x):
        y = plant(x)
        limits = composite_limits(**x, y2=y["y2"])
        value = composite_value(x["x1"], x["x2"], x["x4"], y["y1"])
        return {"value": value, "first": limits[0], "second": limits[1], "third": limits[2]}

    parameters = ranges(dict.fromkeys(("x1", "x2", "x3", "x4"), (-2.0, 2.0)))
    outcomes = ["first >= 0", "second >= 0", "third >= 0"]
    optimize(parameters, evaluate, budget, seed, objective="-value", outcomes=outcomes)


def mixed(plant: Any, budget: int, seed: int) -> None:
    """Choose a solvent, a number of stages and a temperature."""
    parameters = [
        ChoiceParameterConfig(name="solvent", parameter_type="str", values=list(SOLVENTS), is_ordered=False),
        RangeParameterConfig(name="stages", parameter_type="int", bounds=(1, 8)),
        RangeParameterConfig(name="temperature", parameter_type="float", bounds=(40.0, 90.0)),
    ]

    def evaluate(x):
        y = plant(x)
        return {"margin": margin(x["stages"], SOLVENTS[x["solvent"]][1], y["yield"]), "impurity": y["impurity"]}

    optimize(parameters, evaluate, budget, seed, objective="margin", outcomes=["impurity <= 0.05"])


def blend(plant: Any, budget: int, seed: int) -> None:
    """Mix four parts that sum to one: the resin is what the others leave."""
    low, high = PARTS["resin"]
    others = {name: each for name, each in PARTS.items() if name != "resin"}
    total = " + ".join(others)

    def evaluate(x):
        whole = {"resin": 1 - sum(x.values()), **x}
        y = plant(whole)
        return {"worth": worth(whole, y["strength"]), "viscosity": y["viscosity"]}

    sums = [f"{total} <= {1 - low}", f"{total} >= {1 - high}"]
    optimize(ranges(others), evaluate, budget, seed, objective="worth", outcomes=["viscosity <= 1.5"], sums=sums)


def infeasible(plant: Any, budget: int, seed: int) -> None:
    """Search for a feasible point until the budget is spent: Ax has no verdict."""
    reactor(plant, budget, seed, limits=(0.075, 0.035))


def calibration(plant: Any, budget: int, seed: int) -> None:
    """Minimize the misfit, which is the metric; its noise is learned."""
    optimize(ranges(RATES), lambda x: {"misfit": misfit(plant(x))}, budget, seed, objective="-misfit")
