"""BoTorch's composite loop, for continuous and mixed spaces, with at least BoTorch's own defaults.

One `SingleTaskGP` for each output with its default priors and standardization; qLogEI (with noise: qLogNEI; while
nothing feasible is told: qLogPF, as BoTorch advises) of g(x, h(x)) with constraints. BoTorch is told what the problem
states: g, on which inputs an output depends, the ranges of outputs, whether evaluations are exact, and the logarithms.
Spaces: `optimize_acqf`; with few settings of the discrete variables `optimize_acqf_mixed` over all of them, else
`optimize_acqf_mixed_alternating`. Choices are codes under the kernel of BoTorch's `MixedSingleTaskGP`.
"""

import itertools
import math
import warnings
from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import Any

import numpy as np
from numpy import ndarray
from spaces import Point, Space, Told

from pied.problem import Problem
from pied.problem.program import Program, Step
from pied.records.trial import spread
from pied.suite import Benchmark

SAMPLES, RESTARTS, RAW = 128, 10, 512
"""Monte Carlo samples, restarts of each optimization, and points from which these are chosen."""
ENUMERATED = 32
"""Settings of the discrete variables up to which each is optimized by itself; BoTorch's own limit is 10."""


def in_torch(problem: Problem, place: int) -> Callable[[Any, Any], Any]:
    """Return a function of the white box in torch, of x `b q d` and y `S b q m`: its program, step by step."""
    import torch

    program, sign = problem._white_box.doors[place], problem._white_box.sign(place)
    assert isinstance(program, Program), f"'{problem.functions[place]}' could not be traced"

    def joined(a: Any, b: tuple[Any, bool], kind: str) -> Any:
        if kind == "sum":
            return a - b[0] if b[1] else a + b[0]
        return a / b[0] if b[1] else a * b[0]

    def table(place: Any, knots: ndarray, heights: ndarray) -> Any:
        """Return straight lines between knots, as `numpy.interp`; a choice is a knot."""
        ends, values = torch.as_tensor(knots), torch.as_tensor(heights)
        right = torch.searchsorted(ends, place.detach().contiguous()).clamp(1, len(ends) - 1)
        share = ((place - ends[right - 1]) / (ends[right] - ends[right - 1])).clamp(0.0, 1.0)
        return values[right - 1] + share * (values[right] - values[right - 1])

    def value_of(step: Step, parts: list[Any], X: Any, Y: Any) -> Any:
        match step.kind:
            case "constant":
                return torch.as_tensor(step.value) if isinstance(step.value, np.ndarray) else step.value
            case "x" | "y":
                return (X if step.kind == "x" else Y)[..., step.value]
            case "sum" | "product":  # some parts are subtracted or divided by
                return reduce(partial(joined, kind=step.kind), zip(parts[1:], step.value[1:], strict=True), parts[0])
            case "minus":
                return -parts[0]
            case "power":
                return parts[0] ** parts[1]
            case "total":
                return parts[0].sum(step.value)
            case "dot":
                return parts[0] @ torch.as_tensor(step.value)
            case "table":
                return table(parts[0], *step.value)
            case "abs":
                return abs(parts[0])
            case "min" | "max":
                return reduce(torch.minimum if step.kind == "min" else torch.maximum, parts)
            case _:
                return getattr(torch, step.kind)(*map(torch.as_tensor, parts))

    def function(X: Any, Y: Any) -> Any:
        values: list[Any] = []
        for step in program.steps:
            values.append(value_of(step, [values[i] for i in step.parts], X, Y))
        return torch.as_tensor(-values[-1] if sign < 0 else values[-1]).expand(Y.shape[:-1])

    return function


def kernel(numbers: list[int], choices: list[int]) -> Any:
    """Return BoTorch's default kernel of some inputs; with choices, that of its `MixedSingleTaskGP`."""
    from botorch.models.kernels import CategoricalKernel
    from botorch.models.utils.gpytorch_modules import get_covar_module_with_dim_scaled_prior
    from gpytorch.constraints import GreaterThan
    from gpytorch.kernels import ScaleKernel

    def of_numbers() -> Any:
        return get_covar_module_with_dim_scaled_prior(ard_num_dims=len(numbers), active_dims=numbers)

    def of_choices() -> Any:
        least = GreaterThan(1e-6)
        return CategoricalKernel(ard_num_dims=len(choices), active_dims=choices, lengthscale_constraint=least)

    if not choices:
        return of_numbers()
    if not numbers:
        return ScaleKernel(of_choices())
    return ScaleKernel(of_numbers() + ScaleKernel(of_choices())) + ScaleKernel(of_numbers() * of_choices())


def fitted(U: Any, Y: Any, active: ndarray, is_choice: Sequence[bool], *, is_exact: bool) -> Any:
    """Return one fitted model for each output, of the inputs on which it depends."""
    import torch
    from botorch.fit import fit_gpytorch_mll
    from botorch.models import ModelListGP, SingleTaskGP
    from botorch.models.transforms.outcome import Standardize
    from gpytorch.mlls import SumMarginalLogLikelihood

    models = []
    for y, seen in zip(Y.T[..., None], active, strict=True):
        used = np.flatnonzero(seen).tolist() or list(range(len(seen)))
        inputs = kernel([i for i in used if not is_choice[i]], [i for i in used if is_choice[i]])
        variance = torch.full_like(y, 1e-6 * max(float(y.var()), 1e-12)) if is_exact else None
        models.append(SingleTaskGP(U, y, variance, covar_module=inputs, outcome_transform=Standardize(1)))
    model = ModelListGP(*models)
    fit_gpytorch_mll(SumMarginalLogLikelihood(model.likelihood, model))
    return model


class Cube:
    """The coordinates that BoTorch sees: the unit cube, choices as codes."""

    def __init__(self, problem: Problem) -> None:
        import torch

        self.problem, self.space = problem, Space(problem)
        self.axes = list(self.space.axes.values())
        self.is_choice = [each.is_choice for each in self.axes]
        ends = np.array([[each.lo, each.hi] for each in self.axes], dtype=float)
        self.low, self.high = torch.tensor(ends).T
        self.is_log = torch.tensor([each.log for each in self.axes])
        self.width = torch.tensor([each.hi if each.is_choice else 1.0 for each in self.axes], dtype=torch.float64)
        self.box = torch.stack([torch.zeros_like(self.width), self.width])
        places = [None] * len(self.axes) if problem.grid is None else problem.grid.places
        self.levels = {
            i: (torch.tensor(each) * self.width[i]).tolist() for i, each in enumerate(places) if each is not None
        }

    def natural(self, V: Any) -> Any:
        """Return all variables in natural units."""
        import torch

        share, ones = V / self.width, torch.ones_like(self.low)
        low, high = torch.where(self.is_log, self.low, ones), torch.where(self.is_log, self.high, ones)
        free = torch.where(self.is_log, low * (high / low) ** share, self.low + share * (self.high - self.low))
        columns = {name: free[..., place] for place, name in enumerate(self.space.axes)}
        for name, (weights, offset) in self.space.determined.items():
            columns[name] = offset + sum(weight * columns[each] for each, weight in weights.items())
        return torch.stack([columns[name] for name in self.problem.variables], -1)

    def best(self, acquisition: Any, **more: Any) -> Any:
        """Return the point with the largest acquisition that was found; more: further words of `optimize_acqf`."""
        from botorch.optim import optimize_acqf, optimize_acqf_mixed, optimize_acqf_mixed_alternating

        words = {"q": 1, "num_restarts": RESTARTS, "raw_samples": RAW, "inequality_constraints": self.sums() or None}
        if not self.levels:
            return optimize_acqf(acquisition, self.box, **words, **more)[0][0]
        if math.prod(len(each) for each in self.levels.values()) <= ENUMERATED:
            settings = itertools.product(*self.levels.values())
            fixed = [dict(zip(self.levels, each, strict=True)) for each in settings]
            return optimize_acqf_mixed(acquisition, self.box, fixed_features_list=fixed, **words)[0][0]
        numbers = {i: each for i, each in self.levels.items() if not self.is_choice[i]}
        choices = {i: each for i, each in self.levels.items() if self.is_choice[i]}
        return optimize_acqf_mixed_alternating(
            acquisition, self.box, discrete_dims=numbers or None, cat_dims=choices or None, **words
        )[0][0]

    def sums(self) -> list[tuple[Any, Any, float]]:
        """Return the bounds of determined variables in BoTorch's form, w x >= c."""
        import torch

        names, made = list(self.space.axes), []
        for row, most in self.space.sums:
            places = [names.index(name) for name in row]
            weights = torch.tensor([-row[name] for name in row], dtype=torch.float64)
            offset = float((weights * self.low[places]).sum())
            made.append((torch.tensor(places), weights * (self.high - self.low)[places], -most - offset))
        return made


def _limits(problem: Problem, Y: Any) -> Any:
    """Return the ends of the outputs' ranges, slightly inside, so that the logarithm of a sample at 0 is finite."""
    import torch

    return torch.tensor((problem.ranges + 1e-9 * spread(Y.numpy())[:, None] * [1, -1]).T)


def recommended(benchmark: Benchmark, told: Sequence[Told], seed: int) -> Point:
    """Return the evaluated point with the best objective among those that meet all limits, at the model's mean outputs.

    If there is none, the one that breaks them least.
    """
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(seed)
    problem, cube = benchmark.problem, Cube(benchmark.problem)
    known = torch.tensor(cube.space.unit(told)) * cube.width
    Y = torch.tensor([t.y for t in told], dtype=torch.float64)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        with torch.enable_grad():
            model = fitted(known, Y, problem.active, cube.is_choice, is_exact=not benchmark.noise)
        mean = model.posterior(known).mean.clamp(*_limits(problem, Y))
        F = torch.stack([in_torch(problem, i)(cube.natural(known), mean) for i in range(problem.k)], -1).numpy()
    broken = np.maximum(-F[:, 1:] / spread(F)[1:], 0.0).sum(1)
    best = np.lexsort((-F[:, 0], broken))[0]
    return told[int(best)].x


def botorch_loop(benchmark: Benchmark, told: Sequence[Told], seed: int) -> Point:
    """Return what BoTorch suggests; everything is fitted anew."""
    import torch
    from botorch.acquisition.factory import get_acquisition_function
    from botorch.acquisition.objective import GenericMCObjective

    torch.set_num_threads(1)
    torch.manual_seed(seed)
    problem, is_exact = benchmark.problem, not benchmark.noise
    cube, functions = Cube(problem), [in_torch(problem, place) for place in range(problem.k)]
    known = torch.tensor(cube.space.unit(told)) * cube.width
    Y, F = torch.tensor([t.y for t in told], dtype=torch.float64), np.array([t.f for t in told])
    scales, has_feasible = spread(F), bool((F[:, 1:] >= 0).all(1).any())
    limits = _limits(problem, Y)
    at: list[Any] = []  # x of the last call of the objective, because constraints are called without it

    def value(samples: Any, place: int, sign: float) -> Any:
        assert at[0].shape[-2] == samples.shape[-2]
        return functions[place](at[0], samples.clamp(*limits)) * (sign / scales[place])

    def objective(samples: Any, X: Any) -> Any:
        at[:] = [cube.natural(X)]
        return value(samples, 0, 1.0)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        acquisition = get_acquisition_function(
            ("qLogEI" if is_exact else "qLogNEI") if has_feasible else "qLogPF",
            fitted(known, Y, problem.active, cube.is_choice, is_exact=is_exact),
            GenericMCObjective(objective),
            known,
            constraints=[partial(value, place=i, sign=-1.0) for i in range(1, problem.k)] or None,
            mc_samples=SAMPLES,
            seed=seed,
        )
        # the probability of feasibility calls no objective
        acquisition.register_forward_pre_hook(lambda _, given: at.__setitem__(slice(None), [cube.natural(given[0])]))
        found = cube.best(acquisition)
    X = problem.natural(np.clip((found / cube.width).detach().numpy(), 0.0, 1.0))
    return {
        name: each.labels[round(x)] if each.is_choice else x
        for (name, each), x in zip(problem.variables.items(), X.tolist(), strict=True)
    }
