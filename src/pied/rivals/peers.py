"""Two widely used libraries on the folded problem: Optuna's GP sampler, and Ax (extra `peers`).

Both are given the objective and the constraints at points of the unit cube, never the outputs or g. A run keeps no
state: each `ask` hands over all data, so a continued study equals one that was never stopped.
"""

import logging
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import ClassVar

import numpy as np
from numpy import ndarray

from pied.errors import MissingExtra, SettingError
from pied.problem import Problem
from pied.records import Dataset, Why
from pied.rng import Stream
from pied.shapes import Float64
from pied.solvers.base import Proposal, Run, Solver


@dataclass(frozen=True)
class Optuna(Solver):
    """Optuna's GP sampler with constraints (log expected improvement). Needs the extra `peers`."""

    name: ClassVar[str] = "optuna"

    def start(self, problem: Problem, stream: Stream) -> "PeerRun":
        """Begin a run."""
        try:
            import optuna
        except ImportError as error:
            raise MissingExtra("solver 'optuna'", "optuna", "peers") from error
        if find_spec("torch") is None:  # which Optuna's sampler computes with, but does not install
            raise MissingExtra("solver 'optuna'", "torch", "peers")

        def suggest(data: PeerData) -> list[float]:
            names = [f"x{i}" for i in range(data.U.shape[1])]
            cube = {name: optuna.distributions.FloatDistribution(0.0, 1.0) for name in names}
            sampler = optuna.samplers.GPSampler(
                seed=data.seed, n_startup_trials=0, deterministic_objective=data.is_exact
            )
            before = optuna.logging.get_verbosity()
            optuna.logging.set_verbosity(optuna.logging.ERROR)
            try:
                study = optuna.create_study(direction="maximize", sampler=sampler)
                for u, f in zip(data.U.tolist(), data.f.tolist(), strict=True):
                    limits = {str(i): -value for i, value in enumerate(f[1:], 1)}  # met at 0 and below
                    params = dict(zip(names, u, strict=True))
                    study.add_trial(
                        optuna.trial.create_trial(
                            params=params, distributions=cube, value=f[0], constraints=limits or None
                        )
                    )
                for u in data.imagined.tolist():
                    params = dict(zip(names, u, strict=True))
                    running = optuna.trial.TrialState.RUNNING
                    study.add_trial(optuna.trial.create_trial(state=running, params=params, distributions=cube))
                trial = study.ask(cube)
            finally:
                optuna.logging.set_verbosity(before)
            return [trial.params[name] for name in names]

        return PeerRun(self.name, problem, stream, suggest)


@dataclass(frozen=True)
class Ax(Solver):
    """Ax's default Bayesian optimization with outcome constraints. Needs the extra `peers`."""

    name: ClassVar[str] = "ax"

    method: str = "fast"
    """"fast": a standard GP; "quality": a fully Bayesian one, slower."""

    def __post_init__(self) -> None:
        if self.method not in ("fast", "quality"):
            raise SettingError(f"method is 'fast' or 'quality', got '{self.method}'")

    def start(self, problem: Problem, stream: Stream) -> "PeerRun":
        """Begin a run."""
        try:
            import ax
        except ImportError as error:
            raise MissingExtra("solver 'ax'", "ax-platform", "peers") from error

        def suggest(data: PeerData) -> list[float]:
            names = [f"x{i}" for i in range(data.U.shape[1])]
            functions = [f"f{i}" for i in range(data.f.shape[1])]
            client = ax.Client(random_seed=data.seed)
            client.configure_experiment(
                [ax.RangeParameterConfig(name=name, parameter_type="float", bounds=(0.0, 1.0)) for name in names]
            )
            client.configure_optimization(functions[0], [f"{name} >= 0" for name in functions[1:]] or None)
            client.configure_generation_strategy(
                method=self.method, initialization_budget=0, initialize_with_center=False
            )
            for u, f in zip(data.U.tolist(), data.f.tolist(), strict=True):
                index = client.attach_trial(dict(zip(names, u, strict=True)))
                values = {name: (each, 0.0) if data.is_exact else each for name, each in zip(functions, f, strict=True)}
                client.complete_trial(index, values)
            for u in data.imagined.tolist():
                client.attach_trial(dict(zip(names, u, strict=True)))
            (parameters,) = client.get_next_trials(1).values()
            return [float(parameters[name]) for name in names]

        return PeerRun(self.name, problem, stream, suggest)


@dataclass(frozen=True, eq=False)
class PeerData:
    """The data that a library is given."""

    U: Float64[ndarray, "N d"]
    f: Float64[ndarray, "N k"]
    """Objective, to be maximized, and constraints, met when >= 0."""
    imagined: Float64[ndarray, "p d"]
    """Pending and failed points, and those whose functions are unknown."""
    is_exact: bool
    seed: int


class PeerRun(Run):
    """One run of another library: translates the data and the answer, keeps no state."""

    def __init__(
        self, solver: str, problem: Problem, stream: Stream, suggest: Callable[[PeerData], list[float]]
    ) -> None:
        self._solver, self._problem, self._stream, self._suggest = solver, problem, stream, suggest

    def ask(self, number: int, data: Dataset) -> Proposal:
        """Propose what the library suggests, given the data."""
        f = data.functions(self._problem)
        fine = np.isfinite(f).all(1)
        given = PeerData(
            data.U[fine],
            f[fine],
            np.concatenate([data.imagined, data.U[~fine]]),
            is_exact=self._problem.is_exact,
            seed=int(self._stream.at("trial", number).generator().integers(2**31)),
        )
        with _quiet():
            u = self._suggest(given)
        return Proposal(np.clip(np.array(u, dtype=np.float64), 0.0, 1.0), Why(self._solver))


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the library's warnings and messages, and restore torch's global generator if torch is in use."""
    ax, torch = logging.getLogger("ax.api.client"), sys.modules.get("torch")
    level, state = ax.level, torch.get_rng_state() if torch else None
    ax.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        ax.setLevel(level)
        if torch:
            torch.set_rng_state(state)
