"""Where to evaluate next: the method, CUQB, and every solver by its name."""

from importlib import import_module
from inspect import signature
from typing import Any

from pied.errors import SettingError, did_you_mean
from pied.solvers.base import Solver

registry: dict[str, str] = {
    "cuqb": "pied.solvers.cuqb:CUQB",
    "cuqb-paper": "pied.solvers.cuqb:paper",
    "epbo": "pied.rivals.optimism:EPBO",
    "epbo-paper": "pied.rivals.optimism:epbo_paper",
    "eic": "pied.rivals.improvement:EIC",
    "eic-paper": "pied.rivals.improvement:eic_paper",
    "eic-cf": "pied.rivals.improvement:EICCF",
    "eic-cf-paper": "pied.rivals.improvement:eic_cf_paper",
    "logei-cf": "pied.rivals.improvement:LogEICF",
    "cobalt": "pied.rivals.linearized:COBALT",
    "bois": "pied.rivals.linearized:BOIS",
    "box": "pied.rivals.optimism:Box",
    "merit-quantile": "pied.rivals.optimism:MeritQuantile",
    "merit-quantile-paper": "pied.rivals.optimism:merit_quantile_paper",
    "scbo": "pied.rivals.scbo:SCBO",
    "snobfit": "pied.rivals.snobfit:Snobfit",
    "snobfit-paper": "pied.rivals.snobfit:snobfit_paper",
    "direct": "pied.rivals.derivative_free:Direct",
    "direct-paper": "pied.rivals.derivative_free:direct_paper",
    "bobyqa": "pied.rivals.derivative_free:Bobyqa",
    "bobyqa-paper": "pied.rivals.derivative_free:bobyqa_paper",
    "cma-es": "pied.rivals.derivative_free:CMAES",
    "cma-es-paper": "pied.rivals.derivative_free:cma_es_paper",
    "optuna": "pied.rivals.peers:Optuna",
    "ax": "pied.rivals.peers:Ax",
    "random": "pied.rivals.derivative_free:Random",
    "sobol": "pied.rivals.derivative_free:Sobol",
}
"""Where each solver's settings are made."""


def check_name(solver: str) -> None:
    """Refuse the name of a solver that there is not; nothing is loaded.

    Raises:
        SettingError: With the name probably meant.
    """
    if solver not in registry:
        raise SettingError(f"unknown solver '{solver}'.{did_you_mean(str(solver), registry)}")


def make(solver: "str | Solver", **settings: Any) -> Solver:
    """Return a solver from its name and settings, or the solver itself.

    Raises:
        SettingError: For an unknown name or setting, with the one probably meant; for a value of another kind.
    """
    if isinstance(solver, Solver):
        if settings:
            raise SettingError("settings go with a solver's name; a solver object already has its own")
        return solver
    check_name(solver)
    module, name = registry[solver].split(":")
    maker = getattr(import_module(module), name)
    known = {each.name: each.default for each in signature(maker).parameters.values()}
    for setting, value in settings.items():
        if setting not in known:
            raise SettingError(f"solver '{solver}' has no setting '{setting}'.{did_you_mean(setting, known)}")
        if isinstance(known[setting], bool) and not isinstance(value, bool):
            raise SettingError(f"{setting} of solver '{solver}' is true or false, got {value!r}")
        if isinstance(known[setting], int | float) and isinstance(value, str):
            raise SettingError(f"{setting} of solver '{solver}' is a number, got {value!r}")
        if isinstance(known[setting], tuple) and isinstance(value, str):  # a file has no lists of settings
            settings[setting] = tuple(each.strip() for each in value.split(","))
    return maker(**settings)
