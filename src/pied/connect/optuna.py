"""A sampler for Optuna that knows the formula around what a trial measures.

In the form of OptunaHub: the class takes all it needs as arguments, and the record is that of Optuna's study.
"""

import threading
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pied.errors import MissingExtra, StatementError, TellError
from pied.problem import Choice, Integer, Problem, Variable
from pied.records import State
from pied.study import Result, Study

try:
    import optuna
    from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
    from optuna.samplers import BaseSampler, RandomSampler
    from optuna.trial import FrozenTrial, TrialState
except ImportError as error:
    raise MissingExtra("the sampler for Optuna", "optuna", "optuna") from error

OUTPUTS = "outputs"
"""User attribute of a trial with its outputs."""
PLAIN = "value"
"""The only output of a study without a formula."""


class PiedSampler(BaseSampler):  # type: ignore[misc]
    """Suggest settings from a formula and its named outputs; without a formula, from the value alone.

    Example: `docs/connect.md`.

    Args:
        outputs: What a trial measures, as in `Problem`; names or more.
        maximize: The objective as a formula of settings and outputs; Optuna's direction has to be the same.
        minimize: The same, to be minimized.
        subject_to: Limits as formulas, by name or as a list.
        constants: Numbers that the formulas name.
        noise: Standard deviation of the outputs; 0: exact, None: learned.
        search_space: Optuna's distributions by name; None: those of the finished trials, so the first trial is random.
        solver: As in `Study`.
        seed: Of everything random.
    """

    def __init__(
        self,
        outputs: Any = (PLAIN,),
        *,
        maximize: str | None = None,
        minimize: str | None = None,
        subject_to: Any = (),
        constants: Mapping[str, float] | None = None,
        noise: Any = None,
        search_space: Mapping[str, BaseDistribution] | None = None,
        solver: Any = None,
        seed: int | None = None,
    ) -> None:
        if maximize is not None and minimize is not None:
            raise StatementError("a sampler has one objective: give maximize or minimize")
        self._outputs, self._space = outputs, None if search_space is None else dict(search_space)
        self._words = {"subject_to": subject_to, "constants": constants or {}, "noise": noise}
        self._objective = {"maximize": maximize} if minimize is None else {"minimize": minimize}
        self._has_formula = maximize is not None or minimize is not None
        self._solver, self._seed = solver, seed
        self._first = RandomSampler(seed)
        self._lock = threading.RLock()
        self._study: Study | None = None
        self._of: dict[str, BaseDistribution] = {}
        self._numbers: dict[int, int] = {}
        """Our trials by the numbers of Optuna's."""

    def value(self, trial: "optuna.Trial", outputs: Mapping[str, float]) -> float:
        """Keep what a trial measured, and return the value of the objective, for the end of an objective function."""
        problem = self._stated(trial.distributions, self._direction(trial.study))
        trial.set_user_attr(OUTPUTS, {name: float(each) for name, each in outputs.items()})
        x = problem.point(_ours(trial.params, trial.distributions), anywhere=True)
        f = [float(np.ravel(each)[0]) for each in problem.g(x[None], problem.output(outputs)[None, None])]
        for name, each in zip(problem.constraints, f[1:], strict=True):
            trial.set_constraint(name, -each)
        return problem.user_value(f[0])

    def result(self, study: "optuna.Study") -> Result:
        """Return what is known: the recommended settings, how much better is possible, what limits cost."""
        with self._lock:
            self._follow(study, self._space or optuna.search_space.intersection_search_space(study.trials))
            assert self._study is not None
            return self._study.result()

    # ---------------------------------------------------------------------------------------------- Optuna's interface

    def infer_relative_search_space(self, study: "optuna.Study", trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """Return the search space."""
        if self._space is not None:
            return self._space
        return optuna.search_space.intersection_search_space(study.get_trials(deepcopy=False))

    def sample_relative(
        self, study: "optuna.Study", trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Propose a point."""
        if not search_space:
            return {}
        with self._lock:
            self._follow(study, search_space)
            assert self._study is not None
            made = self._study.ask()
            self._numbers[trial.number] = made.number
            return _theirs(dict(made.x), search_space)

    def sample_independent(
        self, study: "optuna.Study", trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """Draw a setting that is not in the search space, or of the first trial."""
        return self._first.sample_independent(study, trial, param_name, param_distribution)

    def reseed_rng(self) -> None:
        """Draw other numbers, in a process of its own."""
        self._first.reseed_rng()

    # -------------------------------------------------------------------------------------------------------- our study

    def _direction(self, study: "optuna.Study") -> str:
        """Return Optuna's direction, and refuse another one than that of the formula."""
        if len(study.directions) > 1:
            raise StatementError("this sampler is for one objective")
        direction = "minimize" if study.direction == optuna.study.StudyDirection.MINIMIZE else "maximize"
        if self._has_formula and direction not in self._objective:
            raise StatementError(f"the study's direction is {direction}: create_study(direction=...) has the other one")
        return direction

    def _stated(self, space: Mapping[str, BaseDistribution], direction: str) -> Problem:
        objective: dict[str, Any] = dict(self._objective) if self._has_formula else {direction: PLAIN}
        variables = {name: _variable(each) for name, each in space.items()}
        return Problem(variables, self._outputs, **objective, **self._words)

    def _follow(self, study: "optuna.Study", space: Mapping[str, BaseDistribution]) -> None:
        """Bring our study to where Optuna's stands; another search space begins a new one from the same trials."""
        if self._study is None or dict(space) != self._of:
            problem = self._stated(space, self._direction(study))
            words = {} if self._solver is None else {"solver": self._solver}
            self._study, self._of, self._numbers = Study(problem, seed=self._seed, **words), dict(space), {}
        for trial in study.get_trials(deepcopy=False):
            if set(space) <= set(trial.params):
                self._take(trial, _ours({name: trial.params[name] for name in space}, space))

    def _take(self, trial: FrozenTrial, x: dict[str, Any]) -> None:
        """Take in one trial of Optuna's."""
        assert self._study is not None
        number = self._numbers.get(trial.number)
        if number is not None and self._study.trials[number - 1].state is not State.ASKED:
            return
        if trial.state is TrialState.COMPLETE:
            y = trial.user_attrs.get(OUTPUTS) if self._has_formula else {PLAIN: trial.value}
            if y is None:
                raise TellError(f"trial {trial.number} has no outputs: the objective returns sampler.value(trial, ...)")
            if number is None:
                self._numbers[trial.number] = self._study.add(x, y, again=True).number
            else:
                self._study.tell(number, y, at=x)
        elif trial.state is not TrialState.WAITING:
            if number is None:
                number = self._numbers[trial.number] = self._study.enqueue(x, take=True).number
            if trial.state.is_finished():
                self._study.fail(number, "it failed or was pruned")


def _variable(distribution: BaseDistribution) -> Variable:
    """Return the variable of a distribution."""
    if isinstance(distribution, CategoricalDistribution):
        return Choice(*map(str, distribution.choices))
    if isinstance(distribution, IntDistribution) and distribution.step == 1:
        return Integer(distribution.low, distribution.high, log=distribution.log)
    if isinstance(distribution, FloatDistribution | IntDistribution):
        return Variable(distribution.low, distribution.high, log=distribution.log, step=distribution.step)
    raise StatementError(f"a distribution of the kind {type(distribution).__name__} is not known here")


def _ours(params: Mapping[str, Any], space: Mapping[str, BaseDistribution]) -> dict[str, Any]:
    """Return settings as the problem names them."""
    return {n: str(each) if isinstance(space[n], CategoricalDistribution) else each for n, each in params.items()}


def _theirs(x: Mapping[str, Any], space: Mapping[str, BaseDistribution]) -> dict[str, Any]:
    """Return settings as Optuna names them."""
    made: dict[str, Any] = {}
    for name, each in x.items():
        distribution = space[name]
        if isinstance(distribution, CategoricalDistribution):
            choices: Sequence[Any] = distribution.choices
            made[name] = next(choice for choice in choices if str(choice) == each)
        else:
            made[name] = round(each) if isinstance(distribution, IntDistribution) else float(each)
    return made
