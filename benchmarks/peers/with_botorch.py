"""The six problems in BoTorch: one model per output, a Monte Carlo objective, and a loop.

Outputs are modelled; the objective uses samples of them and x. Constraints may use samples only: what combines
outputs and x is given as one more output. qLogNEI, and qLogPF until a point is feasible.
"""

from typing import Any

import torch
from botorch.acquisition.factory import get_acquisition_function
from botorch.acquisition.objective import GenericMCObjective
from botorch.exceptions.errors import CandidateGenerationError
from botorch.fit import fit_gpytorch_mll
from botorch.models import MixedSingleTaskGP, ModelListGP, SingleTaskGP
from botorch.models.transforms import Normalize, Standardize
from botorch.optim import optimize_acqf, optimize_acqf_mixed_alternating
from botorch.utils.sampling import draw_sobol_samples, get_polytope_samples
from gpytorch.mlls import SumMarginalLogLikelihood
from problems import (
    FLOWS,
    MEASURED,
    PARTS,
    RATES,
    SOLVENTS,
    TASKS,
    composite_limits,
    composite_value,
    margin,
    misfit,
    profit,
    worth,
)

PACKAGE = "botorch"


def optimize(evaluate, initial, budget, seed, *, bounds, objective, constraints=None, noise=None, cat=None, **search):
    """Evaluate initial points, then fit and maximize the acquisition function until the budget is spent."""
    torch.manual_seed(seed)
    X = initial
    Y = torch.stack([evaluate(x) for x in X])
    while len(X) < budget:
        models = []
        for y in Y.T.unsqueeze(-1):
            variance = torch.full_like(y, noise**2 if noise else 1e-6 * float(y.var().clamp_min(1e-12)))
            words = {"outcome_transform": Standardize(1), "train_Yvar": variance}
            if cat is None:
                models.append(SingleTaskGP(X, y, input_transform=Normalize(X.shape[-1], bounds=bounds), **words))
            else:
                numbers = [i for i in range(X.shape[-1]) if i not in cat]
                scaled = Normalize(X.shape[-1], indices=numbers, bounds=bounds[:, numbers])
                models.append(MixedSingleTaskGP(X, y, cat_dims=cat, input_transform=scaled, **words))
        model = ModelListGP(*models)
        fit_gpytorch_mll(SumMarginalLogLikelihood(model.likelihood, model))
        met = not constraints or bool(torch.stack([each(Y) <= 0 for each in constraints]).all(0).any())
        acquisition = get_acquisition_function(
            "qLogNEI" if met else "qLogPF", model, GenericMCObjective(objective), X, constraints=constraints, seed=seed
        )
        search_of = optimize_acqf if cat is None else optimize_acqf_mixed_alternating
        try:
            point, _ = search_of(acquisition, bounds, q=1, num_restarts=10, raw_samples=256, **search)
        except CandidateGenerationError:  # all searches ended outside of known limits: the best of many starts
            generate = search["ic_generator"]
            starts = generate(q=1, num_restarts=256)
            point = starts[acquisition(starts).argmax()]
        X, Y = torch.cat([X, point]), torch.cat([Y, evaluate(point[0]).unsqueeze(0)])


def tensor(values) -> torch.Tensor:
    """Return values in double precision, as BoTorch recommends."""
    return torch.tensor(list(values), dtype=torch.double)


def reactor(plant: Any, budget: int, seed: int, limits: tuple[float, float] = (0.12, 0.08)) -> None:
    """Maximize the profit under two limits."""
    bounds = tensor(FLOWS.values()).T

    def evaluate(x):
        y = plant(dict(zip(FLOWS, x.tolist(), strict=True)))
        return tensor([y["X_A"], y["X_G"], y["X_P"], y["X_E"]])

    optimize(
        evaluate,
        draw_sobol_samples(bounds, n=5, q=1, seed=seed).squeeze(1),
        budget,
        seed,
        bounds=bounds,
        objective=lambda Y, X: profit(X[..., 0], Y[..., 2], Y[..., 3]),
        constraints=[lambda Y: Y[..., 0] - limits[0], lambda Y: Y[..., 1] - limits[1]],
    )


def composite(plant: Any, budget: int, seed: int) -> None:
    """Minimize; the limits that need no output are given to the search, the other one is an output."""
    bounds = tensor([(-2.0, 2.0)] * 4).T

    def evaluate(x):
        x1, x2, x3, x4 = x.tolist()
        y = plant({"x1": x1, "x2": x2, "x3": x3, "x4": x4})
        return tensor([y["y1"], composite_limits(x1, x2, x3, x4, y["y2"])[1]])

    def known(place):  # the first and the third limit need no output
        return lambda x: composite_limits(*x.unbind(-1), 0.0)[place]

    def is_inside(x):
        return (known(0)(x) > 0) & (known(2)(x) > 0)

    def starts(*, q, num_restarts, **_):  # where the search begins: known limits are met
        draws = draw_sobol_samples(bounds, n=512, q=q)
        return draws[is_inside(draws).squeeze(-1)][:num_restarts]

    draws = draw_sobol_samples(bounds, n=64, q=1, seed=seed).squeeze(1)
    optimize(
        evaluate,
        draws[is_inside(draws)][:9],
        budget,
        seed,
        bounds=bounds,
        objective=lambda Y, X: -composite_value(X[..., 0], X[..., 1], X[..., 3], Y[..., 0]),
        constraints=[lambda Y: -Y[..., 1]],
        nonlinear_inequality_constraints=[(known(0), True), (known(2), True)],
        ic_generator=starts,
        options={"batch_limit": 1, "maxiter": 200},
    )


def mixed(plant: Any, budget: int, seed: int) -> None:
    """Choose a solvent with a known price, a number of stages and a temperature."""
    bounds = tensor([(0, len(SOLVENTS) - 1), (1, 8), (40.0, 90.0)]).T
    names, prices = list(SOLVENTS), tensor(price for _, price in SOLVENTS.values())

    def evaluate(x):
        y = plant({"solvent": names[int(x[0])], "stages": int(x[1]), "temperature": float(x[2])})
        return tensor([y["yield"], y["impurity"]])

    initial = draw_sobol_samples(bounds, n=7, q=1, seed=seed).squeeze(1)
    initial[:, :2] = initial[:, :2].round()
    optimize(
        evaluate,
        initial,
        budget,
        seed,
        bounds=bounds,
        objective=lambda Y, X: margin(X[..., 1], prices[X[..., 0].round().long()], Y[..., 0]),
        constraints=[lambda Y: Y[..., 1] - 0.05],
        cat=[0],
        cat_dims={0: list(range(len(names)))},
        discrete_dims={1: list(range(1, 9))},
    )


def blend(plant: Any, budget: int, seed: int) -> None:
    """Mix four parts that sum to one."""
    bounds = tensor(PARTS.values()).T
    total = (torch.arange(4), torch.ones(4, dtype=torch.double), 1.0)

    def evaluate(x):
        y = plant(dict(zip(PARTS, x.tolist(), strict=True)))
        return tensor([y["strength"], y["viscosity"]])

    optimize(
        evaluate,
        get_polytope_samples(9, bounds, equality_constraints=[total], seed=seed),
        budget,
        seed,
        bounds=bounds,
        objective=lambda Y, X: worth(dict(zip(PARTS, X.unbind(-1), strict=True)), Y[..., 0]),
        constraints=[lambda Y: Y[..., 1] - 1.5],
        equality_constraints=[total],
    )


def infeasible(plant: Any, budget: int, seed: int) -> None:
    """Search for a feasible point until the budget is spent: BoTorch has no verdict."""
    reactor(plant, budget, seed, limits=(0.075, 0.035))


def calibration(plant: Any, budget: int, seed: int) -> None:
    """Minimize the sum of squares of eight outputs with noise."""
    bounds = tensor(RATES.values()).T

    def evaluate(x):
        y = plant(dict(zip(RATES, x.tolist(), strict=True)))
        return tensor(y[name] for name in MEASURED)

    optimize(
        evaluate,
        draw_sobol_samples(bounds, n=5, q=1, seed=seed).squeeze(1),
        budget,
        seed,
        bounds=bounds,
        objective=lambda Y, X: -misfit(dict(zip(MEASURED, Y.unbind(-1), strict=True))),
        noise=TASKS["calibration"].noise["A1"],
    )
