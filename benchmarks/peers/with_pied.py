"""The six problems in pied: variables, outputs, and formulas for what is known.

Outputs are modelled, formulas are used as they are.
"""

from typing import Any

from problems import FEED_A, FLOWS, MEASURED, PARTS, PRICES, RATES, SOLVENTS, TARGET, TASKS

import pied

PACKAGE = "pied"
PROFIT = f"(1043.38*X_P + 20.92*X_E)*({FEED_A} + F_B) - {79.23 * FEED_A} - 118.34*F_B"


def reactor(plant: Any, budget: int, seed: int) -> None:
    """Maximize the profit under two limits."""
    pied.maximize(
        PROFIT,
        blackbox=plant,
        variables=FLOWS,
        outputs=["X_A", "X_G", "X_P", "X_E"],
        subject_to=["X_A <= 0.12", "X_G <= 0.08"],
        noise=0,
        budget=budget,
        seed=seed,
    )


def composite(plant: Any, budget: int, seed: int) -> None:
    """Minimize; only y1 and y2 have to be learned, and only from x3 and x4."""
    pied.minimize(
        "x1**2 + x2**2 + x4**2 - 5*x1 - 5*x2 + y1",
        blackbox=plant,
        variables=dict.fromkeys(("x1", "x2", "x3", "x4"), (-2.0, 2.0)),
        outputs=["y1", "y2"],
        inputs={"y1": ["x3", "x4"], "y2": ["x3", "x4"]},
        subject_to=[
            "x1**2 + x2**2 + x3**2 + x4**2 + x1 - x2 + x3 - x4 <= 8",
            "x1**2 + 2*x2**2 + y2 - x1 - x4 <= 10",
            "2*x1**2 + x2**2 + x3**2 + 2*x1 - x2 - x4 <= 5",
        ],
        noise=0,
        budget=budget,
        seed=seed,
    )


def mixed(plant: Any, budget: int, seed: int) -> None:
    """Choose a solvent with a known price, a number of stages and a temperature."""
    pied.maximize(
        "100*produced - 2*stages - solvent.price",
        blackbox=lambda x: {"produced": (y := plant(dict(x)))["yield"], "impurity": y["impurity"]},
        variables={
            "solvent": pied.Choice(*SOLVENTS, properties={"price": [price for _, price in SOLVENTS.values()]}),
            "stages": pied.Integer(1, 8),
            "temperature": (40.0, 90.0),
        },
        outputs=["produced", "impurity"],
        subject_to=["impurity <= 0.05"],
        noise=0,
        budget=budget,
        seed=seed,
    )


def blend(plant: Any, budget: int, seed: int) -> None:
    """Mix four parts that sum to one."""
    pied.maximize(
        "2*strength - " + " - ".join(f"{price}*{name}" for name, price in PRICES.items()),
        blackbox=plant,
        variables=PARTS,
        outputs=["strength", "viscosity"],
        subject_to=["resin + filler + solvent + additive == 1", "viscosity <= 1.5"],
        noise=0,
        budget=budget,
        seed=seed,
    )


def infeasible(plant: Any, budget: int, seed: int) -> str | None:
    """Maximize the profit under limits that cannot be met together."""
    result = pied.maximize(
        PROFIT,
        blackbox=plant,
        variables=FLOWS,
        outputs=["X_A", "X_G", "X_P", "X_E"],
        subject_to={"residual A": "X_A <= 0.075", "byproduct G": "X_G <= 0.035"},
        noise=0,
        budget=budget,
        seed=seed,
    )
    return result.message if result.status is pied.Status.INFEASIBLE else None


def calibration(plant: Any, budget: int, seed: int) -> None:
    """Minimize the sum of squares of eight outputs with noise."""
    pied.minimize(
        " + ".join(f"({name} - {TARGET[name]})**2" for name in MEASURED),
        blackbox=plant,
        variables=RATES,
        outputs=list(MEASURED),
        noise=TASKS["calibration"].noise,
        budget=budget,
        seed=seed,
    )
