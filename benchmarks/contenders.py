"""Other libraries on any of our problems, each in its own words.

A contender is told the space and every evaluation, and suggests the next point, by name. A mixture loses its last part,
which the others determine; where a library cannot state that this part stays within its bounds, that is one more
constraint, and the point is evaluated all the same. BoTorch's loop (`composite`) is given the outputs and g, the others
the objective and the constraints. Needs the extra `peers`.
"""

import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib.util import find_spec
from typing import Any

from composite import botorch_loop
from spaces import Point, Space, Told

from pied.suite import Benchmark

STARTUP = 0
"""Random points that a library would add to the initial design, which all have in common."""


# --- Optuna -----------------------------------------------------------------------------------------------------------


def optuna_loop(
    benchmark: Benchmark, told: Sequence[Told], seed: int, *, sampler: str, startup: int = STARTUP
) -> Point:
    """Return what Optuna suggests: 'tpe' or 'gp'; constraints by `constraints_func`; at random while little is told."""
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
            seed=seed, n_startup_trials=startup, multivariate=True, constraints_func=_violations
        )
    else:
        made = optuna.samplers.GPSampler(
            seed=seed,
            n_startup_trials=startup,
            deterministic_objective=not benchmark.noise,
            constraints_func=_violations,
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
        values = [value if benchmark.noise else (value, 0.0) for value in each.f]
        client.complete_trial(index, dict(zip(functions, values, strict=True)))
    (found,) = client.get_next_trials(1).values()
    return space.completed({name: found[words[name]] for name in space.axes})


# --- All of them ------------------------------------------------------------------------------------------------------

CONTENDERS: dict[str, Callable[..., Point]] = {
    "optuna-tpe": partial(optuna_loop, sampler="tpe"),
    "optuna-gp": partial(optuna_loop, sampler="gp"),
    "ax": ax_loop,
    "botorch": botorch_loop,
}
"""By name: from a benchmark, what was told and a seed to the next point."""
NEEDS = {"botorch": ("botorch",), "ax": ("ax",), "optuna-gp": ("optuna", "torch"), "optuna-tpe": ("optuna",)}
"""Libraries of each."""
LONGEST = ("botorch", "ax", "optuna-gp", "pied", "optuna-tpe", "random")
"""Loops by the time of a suggestion."""


def present(loops: Sequence[str]) -> list[str]:
    """Return the loops whose libraries are installed, the longest first; say which are left out."""
    absent = [loop for loop in loops if any(find_spec(name) is None for name in NEEDS.get(loop, ()))]
    if absent:
        print(f"left out, because not installed: {', '.join(absent)}", file=sys.stderr, flush=True)
    return sorted((loop for loop in loops if loop not in absent), key=LONGEST.index)
