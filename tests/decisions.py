"""A cheap problem with prices and limits, its study, and its true optimum by brute force."""

import numpy as np
from scipy.optimize import minimize

from pied import Choice, Integer, Problem, Study
from pied.rng import Stream

SIDE = np.linspace(0.0, 1.0, 101)
FIRST, SECOND = (each.ravel() for each in np.meshgrid(SIDE, SIDE))
PRICE, COST, LIMIT = 2.0, 0.5, 0.8


def outputs(a, b):
    """The black box: yield and waste."""
    return {"product": np.sin(2 * a) + b - 0.3 * b**2, "waste": a**2 + 0.8 * b + 0.1 * a * b}


def problem(**words) -> Problem:
    """Sell the product, pay for a, and keep the waste below its limit."""
    stated = {
        "maximize": {"profit": "price*product - cost*a"},
        "subject_to": {"waste limit": f"waste <= {LIMIT}"},
        "constants": {"price": PRICE, "cost": COST},
        "noise": 0,
    }
    return Problem({"a": (0.0, 1.0), "b": (0.0, 1.0)}, ["product", "waste"], blackbox=outputs, **(stated | words))


def study(budget=8, older=12, **words) -> Study:
    """A study of it that has converged, with some old data all over the ranges."""
    made = Study(problem(**words), seed=3)
    for a, b in Stream(1).sobol(older, 2).tolist():
        made.add([a, b], outputs(a, b))
    made.run(budget, progress=False)
    return made


def best(price=PRICE, cost=COST, limit=LIMIT) -> tuple[float, float, float]:
    """The true optimum, value and settings: the best of a grid, refined."""
    y = outputs(FIRST, SECOND)
    row = int(np.where(y["waste"] <= limit, price * y["product"] - cost * FIRST, -np.inf).argmax())
    found = minimize(
        lambda x: cost * x[0] - price * outputs(*x)["product"],
        [FIRST[row], SECOND[row]],
        bounds=[(0, 1), (0, 1)],
        constraints={"type": "ineq", "fun": lambda x: limit - outputs(*x)["waste"]},
        method="SLSQP",
        options={"ftol": 1e-12},
    )
    return -float(found.fun), *map(float, found.x)


def mixed() -> Study:
    """A study with an integer and a choice: tanks and solvents, all combinations of few settings."""
    stated = Problem(
        {"tanks": Integer(1, 4), "solvent": Choice("water", "oil"), "T": (0.0, 1.0)},
        ["yield"],
        blackbox=lambda tanks, solvent, T: tanks**0.5 * (1.3 if solvent == "oil" else 1.0) - (T - 0.4) ** 2,
        maximize={"worth": "price*yield - 0.8*tanks"},
        subject_to={"least": "yield >= 0.5"},
        constants={"price": 2.0},
        noise=0,
    )
    made = Study(stated, seed=0)
    made.run(14, progress=False)
    return made
