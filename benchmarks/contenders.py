"""Other libraries on problems with integers, standard sizes, choices and mixtures, each in its own words.

A contender is told the space and every evaluation, and suggests the next point, by name. A mixture loses its last part,
which the others determine; where a library cannot state that this part stays within its bounds, that is one more
constraint, and the point is evaluated all the same. BoTorch's loop is given the outputs and g, the others the objective
and the constraints. Needs the extra `peers`.
"""

import ast
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial, reduce
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy import ndarray

from pied.problem import Problem
from pied.problem.variables import Box
from pied.records.trial import spread
from pied.suite import Benchmark

SAMPLES, RESTARTS, RAW = 128, 4, 128
"""Of BoTorch's mixed optimizer."""
OPTIONS = {"maxiter_init": 30, "maxiter_alternating": 16}
"""Fewer iterations than its defaults, 100 and 64: a suggestion takes minutes otherwise."""
STARTUP = 0
"""Random points that a library would add to the initial design, which all have in common."""

Point = dict[str, Any]


@dataclass(frozen=True)
class Told:
    """One evaluation."""

    x: Point
    """By name; choices by their labels."""
    y: list[float]
    """The outputs."""
    f: list[float]
    """Objective, to be maximized, and constraints, met when >= 0."""


@dataclass(frozen=True, eq=False)
class Space:
    """The coordinates of a problem, for a library with words of its own."""

    problem: Problem

    @property
    def axes(self) -> Mapping[str, Any]:
        """The variables that no equality determines."""
        return self.problem.axes

    def unit(self, told: Sequence[Told]) -> ndarray:
        """Return the coordinates of evaluated points in the unit cube."""
        rows = [[each.code(t.x[n]) if each.is_choice else t.x[n] for n, each in self.axes.items()] for t in told]
        return Box.of(self.axes.values()).to_unit(np.array(rows, dtype=float))

    def completed(self, given: Point) -> Point:
        """Return a whole point from the values of the coordinates: what an equality determines is computed."""
        return given | {
            name: offset + sum(weight * given[each] for each, weight in weights.items())
            for name, (weights, offset) in self.determined.items()
        }

    @cached_property
    def determined(self) -> dict[str, tuple[dict[str, float], float]]:
        """The other variables: weights by coordinate, natural units, and an offset."""
        names = list(self.axes)
        corners = np.concatenate([np.zeros((1, len(names))), np.eye(len(names))])
        at = dict(zip(self.problem.variables, self.problem.from_unit(corners).T, strict=True))
        made = {}
        for name in at.keys() - self.axes.keys():
            slopes = [(at[name][1 + i] - at[name][0]) / (v.hi - v.lo) for i, v in enumerate(self.axes.values())]
            weights = {n: float(s) for n, s in zip(names, slopes, strict=True) if abs(s) > 1e-12}
            made[name] = weights, float(at[name][0]) - sum(w * self.axes[n].lo for n, w in weights.items())
        return made

    @property
    def sums(self) -> list[tuple[dict[str, float], float]]:
        """What keeps the determined variables within their bounds: weights w by coordinate and c, with w x <= c."""
        rows = []
        for name, (weights, offset) in self.determined.items():
            variable = self.problem.variables[name]
            rows.append((weights, float(variable.hi) - offset))
            rows.append(({n: -w for n, w in weights.items()}, offset - float(variable.lo)))
        return rows


# --- Optuna -----------------------------------------------------------------------------------------------------------


def optuna_loop(benchmark: Benchmark, told: Sequence[Told], seed: int, *, sampler: str) -> Point:
    """Return what Optuna suggests: 'tpe' or 'gp'; constraints by `constraints_func`."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    space = Space(benchmark.whole)

    def distribution(each: Any) -> Any:
        if each.is_choice:
            return optuna.distributions.CategoricalDistribution(each.labels)
        if each.only is not None:  # sizes without a common step: their number is an integer
            return optuna.distributions.IntDistribution(0, len(each.only) - 1)
        if each.whole:
            return optuna.distributions.IntDistribution(int(each.lo), int(each.hi), log=each.log)
        return optuna.distributions.FloatDistribution(each.lo, each.hi, log=each.log, step=each.step)

    distributions = {name: distribution(each) for name, each in space.axes.items()}

    def inward(x: Point) -> Point:
        return {
            name: each.only.index(x[name]) if each.only else int(x[name]) if each.whole else x[name]
            for name, each in space.axes.items()
        }

    made: Any
    if sampler == "tpe":
        made = optuna.samplers.TPESampler(
            seed=seed, n_startup_trials=STARTUP, multivariate=True, constraints_func=_violations
        )
    else:
        made = optuna.samplers.GPSampler(
            seed=seed, n_startup_trials=STARTUP, deterministic_objective=True, constraints_func=_violations
        )
    study = optuna.create_study(direction="maximize", sampler=made)
    for each in told:
        limits = {str(i): -value for i, value in enumerate(each.f[1:], 1)}
        study.add_trial(
            optuna.trial.create_trial(
                params=inward(each.x), distributions=distributions, value=each.f[0], constraints=limits or None
            )
        )
    found = study.ask(distributions).params
    given = {name: each.only[found[name]] if each.only else found[name] for name, each in space.axes.items()}
    return space.completed(given)


def _violations(trial: Any) -> list[float]:
    """Return the violations of constraints that were told with a trial."""
    return list(trial.constraints.values())


# --- Ax ---------------------------------------------------------------------------------------------------------------


def ax_loop(benchmark: Benchmark, told: Sequence[Told], seed: int) -> Point:
    """Return what Ax suggests, with its default generation strategy."""
    import ax

    space = Space(benchmark.whole)
    words = {name: f"v{place}" for place, name in enumerate(space.axes)}

    def parameter(name: str, each: Any) -> Any:
        if each.is_choice:
            return ax.ChoiceParameterConfig(
                name=words[name], parameter_type="str", values=list(each.labels), is_ordered=False
            )
        if each.only is not None:
            return ax.ChoiceParameterConfig(
                name=words[name], parameter_type="float", values=list(each.only), is_ordered=True
            )
        kind = "int" if each.whole else "float"
        bounds = (int(each.lo), int(each.hi)) if each.whole else (float(each.lo), float(each.hi))
        scaling = "log" if each.log else None
        return ax.RangeParameterConfig(
            name=words[name], parameter_type=kind, bounds=bounds, scaling=scaling, step_size=each.step
        )

    functions = [f"f{i}" for i in range(benchmark.whole.k)]
    rows = [" + ".join(f"{w!r}*{words[n]}" for n, w in row.items()) + f" <= {most!r}" for row, most in space.sums]
    client = ax.Client(random_seed=seed)
    client.configure_experiment(
        [parameter(name, each) for name, each in space.axes.items()], parameter_constraints=rows or None
    )
    client.configure_optimization(functions[0], [f"{name} >= 0" for name in functions[1:]] or None)
    client.configure_generation_strategy(method="fast", initialization_budget=0, initialize_with_center=False)
    for each in told:
        given = {words[n]: int(each.x[n]) if v.whole else each.x[n] for n, v in space.axes.items()}
        index = client.attach_trial(given)
        client.complete_trial(index, {name: (value, 0.0) for name, value in zip(functions, each.f, strict=True)})
    (found,) = client.get_next_trials(1).values()
    return space.completed({name: found[words[name]] for name in space.axes})


# --- BoTorch ----------------------------------------------------------------------------------------------------------


def in_torch(problem: Problem) -> list[Callable[[Any, Any], Any]]:
    """Return the functions of a problem, stated as formulas, in torch: of x `... v` and y `S ... m`, to be >= 0.

    The formulas are Python; a choice is looked up by its code.
    """
    import torch

    told = problem.statement()
    words: dict[str, Any] = {name: getattr(torch, name) for name in ("exp", "log", "log10", "sqrt", "abs", "tanh")}
    words |= {"sin": torch.sin, "cos": torch.cos, "tan": torch.tan}
    words |= {"min": lambda *v: reduce(torch.minimum, v), "max": lambda *v: reduce(torch.maximum, v)}
    tables = {
        name: {
            key: torch.tensor([own[label] for label in each.labels], dtype=torch.float64)
            for key, own in each.properties.items()
        }
        for name, each in problem.variables.items()
        if each.is_choice
    }

    def names(X: Any, Y: Any) -> dict[str, Any]:
        known = dict(words)
        for place, name in enumerate(problem.variables):
            column = X[..., place]
            if name in tables:
                codes = column.round().long()
                column = SimpleNamespace(**{key: table[codes] for key, table in tables[name].items()})
            known[name] = column
        return known | {name: Y[..., place] for place, name in enumerate(problem.outputs)}

    def function(code: Any, sign: float) -> Callable[[Any, Any], Any]:
        return lambda X, Y: sign * eval(code, {"__builtins__": {}}, names(X, Y)).expand(Y.shape[:-1])

    objective = told["objective"]["formula"]
    made = [function(compile(objective, "objective", "eval"), -1.0 if problem.minimizes else 1.0)]
    for each in told["subject_to"]:
        made.append(function(_slacks(each["formula"])[each["part"]], 1.0))
    return made


def _slacks(formula: str) -> list[Any]:
    """Return the slack of each comparison of a formula as code: right minus left of <=, left minus right of >=."""
    body = ast.parse(formula.replace("`", ""), mode="eval").body
    if not isinstance(body, ast.Compare):
        raise ValueError(f"'{formula}' has no comparison")
    sides = [body.left, *body.comparators]
    made = []
    for left, comparison, right in zip(sides, body.ops, sides[1:], strict=False):
        is_up = isinstance(comparison, ast.LtE | ast.Lt)
        difference = ast.BinOp(right, ast.Sub(), left) if is_up else ast.BinOp(left, ast.Sub(), right)
        made.append(compile(ast.fix_missing_locations(ast.Expression(difference)), formula, "eval"))
    return made


def botorch_loop(benchmark: Benchmark, told: Sequence[Told], seed: int) -> Point:
    """Return what BoTorch suggests: composite qLogEI (qLogPF without a feasible point), its mixed optimizer.

    One GP for each output (with a kernel for categories where there are choices); `optimize_acqf_mixed_alternating`
    over the unit cube, choices as codes, sums by linear constraints.
    """
    import torch
    from botorch.acquisition.factory import get_acquisition_function
    from botorch.acquisition.objective import GenericMCObjective
    from botorch.fit import fit_gpytorch_mll
    from botorch.models import MixedSingleTaskGP, ModelListGP, SingleTaskGP
    from botorch.models.transforms.outcome import Standardize
    from botorch.optim import optimize_acqf, optimize_acqf_mixed_alternating
    from gpytorch.mlls import SumMarginalLogLikelihood

    torch.set_num_threads(1)
    torch.manual_seed(seed)
    problem, space = benchmark.whole, Space(benchmark.whole)
    names, axes = list(space.axes), list(space.axes.values())
    is_choice = [each.is_choice for each in axes]
    width = torch.tensor([each.hi if each.is_choice else 1.0 for each in axes], dtype=torch.float64)
    U = torch.tensor(space.unit(told)) * width  # choices keep their codes
    Y = torch.tensor([t.y for t in told], dtype=torch.float64)
    F = np.array([t.f for t in told])
    low, high = torch.tensor(np.array([[each.lo, each.hi] for each in axes], dtype=float)).T
    is_log = torch.tensor([each.log for each in axes])

    def natural(V: Any) -> Any:
        share = V / width
        line = low + share * (high - low)
        safe = torch.where(is_log, low, torch.ones_like(low))
        curve = safe * (torch.where(is_log, high, torch.ones_like(high)) / safe) ** share
        free = torch.where(is_log, curve, line)
        columns = {name: free[..., place] for place, name in enumerate(names)}
        for name, (weights, offset) in space.determined.items():
            columns[name] = offset + sum(weight * columns[each] for each, weight in weights.items())
        return torch.stack([columns[name] for name in problem.variables], -1)

    categories = [i for i, each in enumerate(is_choice) if each]
    models = []
    for y in Y.T[..., None]:
        variance = torch.full_like(y, 1e-6 * max(float(y.var()), 1e-12))
        kind = partial(MixedSingleTaskGP, cat_dims=categories) if categories else SingleTaskGP
        models.append(kind(U, y, train_Yvar=variance, outcome_transform=Standardize(1)))
    model = ModelListGP(*models)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit_gpytorch_mll(SumMarginalLogLikelihood(model.likelihood, model))
        scales, has_feasible = spread(F), bool((F[:, 1:] >= 0).all(1).any())
        inside = 1e-9 * spread(Y.numpy())[:, None] * [1, -1]
        limits = torch.tensor((problem.ranges + inside).T)
        functions = in_torch(problem)
        at: list[Any] = []  # x of the last call, because constraints are called without it

        def value(samples: Any, place: int, sign: float) -> Any:
            return functions[place](at[0], samples.clamp(*limits)) * (sign / scales[place])

        def objective(samples: Any, X: Any) -> Any:
            at[:] = [natural(X)]
            return value(samples, 0, 1.0)

        acquisition = get_acquisition_function(
            "qLogEI" if has_feasible else "qLogPF",
            model,
            GenericMCObjective(objective),
            U,
            constraints=[partial(value, place=i, sign=-1.0) for i in range(1, problem.k)] or None,
            mc_samples=SAMPLES,
            seed=seed,
        )
        # the probability of feasibility calls no objective
        acquisition.register_forward_pre_hook(lambda _, given: at.__setitem__(slice(None), [natural(given[0])]))
        box = torch.stack([torch.zeros_like(width), width])
        grid = problem.grid
        stepped = {} if grid is None else {i: each for i, each in enumerate(grid.places) if each is not None}
        discrete = {i: each.tolist() for i, each in stepped.items() if not is_choice[i]}
        chosen = {i: list(map(float, range(len(axes[i].labels)))) for i in categories}
        sums = _sums(space, torch, low, high)
        if stepped:
            found = optimize_acqf_mixed_alternating(
                acquisition,
                box,
                discrete_dims=discrete or None,
                cat_dims=chosen or None,
                options=OPTIONS,
                q=1,
                raw_samples=RAW,
                num_restarts=RESTARTS,
                inequality_constraints=sums or None,
            )[0][0]
        else:
            found = optimize_acqf(acquisition, box, 1, RESTARTS, RAW, inequality_constraints=sums or None)[0][0]
    free = np.clip((found / width).numpy(), 0.0, 1.0)
    X = problem.natural(free)
    return {
        name: each.labels[round(x)] if each.is_choice else x
        for (name, each), x in zip(problem.variables.items(), X.tolist(), strict=True)
    }


def _sums(space: Space, torch: Any, low: Any, high: Any) -> list[tuple[Any, Any, float]]:
    """Return the bounds of determined variables in BoTorch's form, w x >= c, over the unit cube."""
    names, made = list(space.axes), []
    for row, most in space.sums:
        places = [names.index(name) for name in row]
        weights = torch.tensor([-row[name] for name in row], dtype=torch.float64)
        offset = float((weights * low[places]).sum())
        made.append((torch.tensor(places), weights * (high - low)[places], -most - offset))
    return made


CONTENDERS: dict[str, Callable[..., Point]] = {
    "optuna-tpe": partial(optuna_loop, sampler="tpe"),
    "optuna-gp": partial(optuna_loop, sampler="gp"),
    "ax": ax_loop,
    "botorch": botorch_loop,
}
"""By name: from a benchmark, what was told and a seed to the next point."""
