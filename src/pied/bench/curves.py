"""Performed tasks as arrays: the truth at every evaluation, and at each rule's recommendation after it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy import ndarray

from pied import suite
from pied.bench import measures
from pied.bench.drive import each
from pied.bench.ledger import Entry, Ledger
from pied.bench.plan import Task, solver_of
from pied.bench.runs import Case, benchmark_for, kept, truth_for
from pied.bounds import Believer, from_memory
from pied.errors import SettingError, StoreError
from pied.problem import Problem
from pied.records import Dataset, State, Trial
from pied.rng import Stream
from pied.shapes import Bool, Float64, Int64
from pied.solvers.cuqb import CUQB
from pied.study import observed_row, recommend

CHEAP_RULES = frozenset({"naive", "observed"})
"""Rules without a belief: computed in this process, because starting another takes longer."""


@dataclass(frozen=True, eq=False)
class Curve:
    """One performed task as arrays, in the paper's form."""

    task: Task
    f: Float64[ndarray, "t k"]
    """The truth at each evaluation; NaN if it failed."""
    is_feasible: Bool[ndarray, "t"]
    """Whether it is strictly feasible."""
    seconds: Float64[ndarray, "t"]
    """Time of the proposal."""
    recommended: dict[str, Float64[ndarray, "t k"]] = field(default_factory=dict)
    """The truth at each rule's recommendation after each evaluation."""
    initial: int = 0
    ended: str = ""
    error: str = ""

    def penalized(self, rule: str = "naive") -> Float64[ndarray, "t"]:
        """Return the penalized value of the recommendation after each evaluation."""
        if rule not in self.recommended:
            raise SettingError(f"'{self.task.name}' has no recommendations of the rule '{rule}': name it in the plan")
        return measures.penalized(self.recommended[rule])

    def strict(self) -> Float64[ndarray, "t"]:
        """Return the normalized regret of the best strictly feasible evaluation; infinite while there is none."""
        benchmark = truth_for(self.task)
        best = measures.best_feasible(self.f[:, 0], self.is_feasible)
        return (benchmark.best - best) / abs(benchmark.best - benchmark.median)


# --- What a rule recommends -------------------------------------------------------------------------------------------


def recommendations(case: Case, rule: str) -> Float64[ndarray, "t d"]:
    """Return the points that a rule recommends after each evaluation, in natural units.

    "naive" is the best penalized value told, with which the paper compares its own rule. "asked" is the paper's rule,
    equation (14), with the solver's own bounds if it has some and those of a belief otherwise.
    """
    problem = benchmark_for(case.task).problem
    X = _points(case, problem.d)
    if rule in ("lower", "anywhere"):
        return _believed(case, problem, rule, X)
    if rule == "asked":
        scores = problem.penalized(_lower_when_proposed(case, problem), measures.PENALTY)
    else:
        f = observed(problem, case.trials)
        if rule == "observed":
            return X[[observed_row(problem, f[: t + 1]) for t in range(len(f))]]
        scores = measures.penalized(f)
    return X[measures.running_argmax(scores)]


def _points(case: Case, d: int) -> Float64[ndarray, "t d"]:
    """Return where a task evaluated, in natural units."""
    return np.array([list(trial.x.array) for trial in case.trials], dtype=np.float64).reshape(-1, d)


def observed(problem: Problem, trials: Sequence[Trial]) -> Float64[ndarray, "t k"]:
    """Return objective and constraints as told; NaN where a trial failed."""
    f = np.full((len(trials), problem.k), np.nan)
    data = Dataset.of(problem, trials)
    if data.numbers:
        f[[number - 1 for number in data.numbers]] = data.functions(problem)
    return f


def _believer(task: Task) -> Believer:
    """Return the models for recommendations: the paper's for solvers in the paper's form, ours for the others."""
    return CUQB.paper().believer if task.solver.partition(":")[0].endswith("-paper") else CUQB().believer


def _believed(case: Case, problem: Problem, rule: str, X: Float64[ndarray, "t d"]) -> Float64[ndarray, "t d"]:
    """Recommend after each evaluation with the belief at that time; before the first belief, by told values."""
    found, f = [], observed(problem, case.trials)
    for t in range(1, len(case.trials) + 1):
        data = Dataset.of(problem, case.trials[:t])
        if len(data.numbers) < max(2, min(case.initial, len(case.trials))):
            found.append(X[observed_row(problem, f[:t])])
            continue
        previous = from_memory(data.last.memory) if data.last is not None else None
        made = recommend(
            problem, data, rule, believer=_believer(case.task), previous=previous, stream=Stream(case.task.seed)
        )
        found.append(X[t - 1] if made is None else problem.from_unit(made.u))
    return np.stack(found) if found else X


def _lower_when_proposed(case: Case, problem: Problem) -> Float64[ndarray, "t k"]:
    """Return lower bounds at each point when it was proposed; for the initial design, by the first belief."""
    lower = np.full((len(case.trials), problem.k), np.nan)
    solver, _ = solver_of(case.task.solver)
    level, believer = getattr(solver, "level", 0.95), _believer(case.task)
    for place, trial in enumerate(case.trials):
        if trial.state is not State.TOLD:
            continue
        if trial.why.lower:
            lower[place] = trial.why.lower
            continue
        data = Dataset.of(problem, case.trials[: max(place, min(case.initial, len(case.trials)))])
        if len(data.numbers) < 2:
            continue
        composite = believer.bound(
            problem, data, believer.fit(problem, data), Stream(case.task.seed).at("asked", place)
        )
        point = problem.to_unit(problem.point(dict(trial.x)))[None]
        lower[place] = composite.bounds(point, level)[0][0]
    return lower


# --- Curves -----------------------------------------------------------------------------------------------------------


def arrays_of(case: Case, points: dict[str, ndarray] | None = None) -> dict[str, ndarray]:
    """Return the arrays of a performed task: the truth at its evaluations and recommendations.

    Args:
        case: The performed task.
        points: Recommended points by rule, if they are known already.
    """
    benchmark = truth_for(case.task)
    k, d = benchmark.whole.k, benchmark.whole.d
    X = _points(case, d)
    is_told = np.array([trial.state is State.TOLD for trial in case.trials], dtype=bool)
    f = np.full((len(X), k), np.nan)
    is_feasible = np.zeros(len(X), dtype=bool)
    if is_told.any():
        f[is_told] = benchmark.truth(X[is_told])
        is_feasible[is_told] = benchmark.is_strictly_feasible(X[is_told])
    arrays = {
        "f": f,
        "is_feasible": is_feasible,
        "seconds": np.array([trial.why.seconds for trial in case.trials], dtype=np.float64),
    }
    for rule in case.task.rules:
        at = (points or {}).get(rule)
        at = recommendations(case, rule) if at is None else at
        arrays[f"rule {rule}"] = benchmark.truth(at) if len(at) else np.zeros((0, k))
    return arrays


def _computed(entry: Entry, store: str) -> dict[str, ndarray]:
    return arrays_of(kept(entry.task, store))


def _what(task: Task) -> str:
    """Return the settings that the curves of a task depend on, in addition to its trials."""
    return " ".join(task.rules)


def load(
    store: str | Path,
    tasks: Iterable[Task] | None = None,
    *,
    workers: int = 1,
    executor: Any = None,
) -> list[Curve]:
    """Return the curves of performed tasks; missing ones are computed in parallel and stored.

    Args:
        store: The SQLite file.
        tasks: By default all in the store. Tasks that are missing there are left out.
        workers: Processes, if something has to be computed.
        executor: Replaces these processes; see `drive.run`.
    """
    with Ledger(store) as ledger:
        entries = ledger.entries()
        wanted = list(entries.values()) if tasks is None else _asked_for(entries, tasks)
        found: dict[str, dict[str, Any]] = {}
        todo = []
        for entry in wanted:
            arrays = ledger.curves(entry.task.name, _what(entry.task), entry.evaluations)
            if arrays is not None:
                found[entry.task.name] = arrays
            elif entry.evaluations:
                todo.append(entry)
        costly = [entry for entry in todo if not CHEAP_RULES.issuperset(entry.task.rules)]
        cheap = [entry for entry in todo if CHEAP_RULES.issuperset(entry.task.rules)]
        place = str(ledger.file.absolute())
        several = min(workers, max(len(costly), 1))
        for entry, arrays, error in chain(
            each(cheap, _computed, place, 1), each(costly, _computed, place, several, executor)
        ):
            if arrays is None:
                raise StoreError(f"the curves of '{entry.task.name}' cannot be computed: {error}")
            keep(ledger, entry.task, arrays)
            found[entry.task.name] = arrays
        return [_curve(entry, found.get(entry.task.name)) for entry in wanted]


def _asked_for(entries: dict[str, Entry], tasks: Iterable[Task]) -> list[Entry]:
    """Return the entries of these tasks, with their present budget and rules."""
    found = []
    for task in tasks:
        entry = entries.get(task.name)
        if entry is not None:
            found.append(Entry(**{**vars(entry), "task": task}))
    return found


def keep(ledger: Ledger, task: Task, arrays: dict[str, ndarray]) -> None:
    """Store the arrays of a performed task."""
    ledger.keep_curves(task.name, _what(task), len(arrays["f"]), arrays)


def _curve(entry: Entry, arrays: dict[str, Any] | None) -> Curve:
    """Return a performed task, cut at the budget of its task."""
    task, k = entry.task, truth_for(entry.task).whole.k
    if arrays is None:
        nothing = {"f": np.zeros((0, k)), "is_feasible": np.zeros(0, dtype=bool), "seconds": np.zeros(0)}
        arrays = nothing | {f"rule {rule}": np.zeros((0, k)) for rule in task.rules}
    cut = {name: array[: task.budget] for name, array in arrays.items()}
    rules = {name.removeprefix("rule "): array for name, array in cut.items() if name.startswith("rule ")}
    return Curve(
        task, cut["f"], cut["is_feasible"], cut["seconds"], rules, entry.initial, entry.ended, entry.error
    )  # fmt: skip


# --- Side by side -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Grid:
    """Curves of several solvers on several problems with the same seeds, as arrays."""

    solvers: tuple[str, ...]
    problems: tuple[str, ...]
    seeds: tuple[int, ...]
    """Seeds that all solvers and problems have."""
    dropped: tuple[int, ...]
    """Seeds that some solver or problem lacks."""
    curves: dict[tuple[str, str, int], Curve]
    """By solver, problem and seed."""

    @property
    def budget(self) -> int:
        """The largest budget."""
        return max(curve.task.budget for curve in self.curves.values())

    @property
    def dimensions(self) -> Float64[ndarray, "p"]:
        """Number of variables of each problem."""
        first = [self.curves[self.solvers[0], problem, self.seeds[0]].task for problem in self.problems]
        return np.array([float(truth_for(task).whole.d) for task in first])

    def _gathered(self, of: Any, empty: float) -> Float64[ndarray, "w p s t"]:
        length = self.budget
        return np.array([
            [[measures.carried(of(self.curves[w, p, s]), length, empty) for s in self.seeds] for p in self.problems]
            for w in self.solvers
        ])  # fmt: skip

    def values(self, rule: str = "naive") -> Float64[ndarray, "w p s t"]:
        """Return the penalized value of the recommendation, the last one carried forward."""
        return self._gathered(lambda curve: curve.penalized(rule), -np.inf)

    def starts(self) -> Float64[ndarray, "p s"]:
        """Return the penalized value of the first initial point; the worst where some solvers know more."""
        first = self._gathered(lambda curve: measures.penalized(curve.f[:1]), np.inf)[..., 0]
        return first.min(axis=0)  # a solver that failed at once has none

    def strict(self) -> Float64[ndarray, "w p s t"]:
        """Return the normalized regret of the best strictly feasible evaluation."""
        return self._gathered(lambda curve: curve.strict(), np.inf)

    def simple(self, rule: str | None = None) -> Float64[ndarray, "w p s t"]:
        """Return the simple penalized regret of the evaluations, or the regret of a rule's recommendation."""

        def of(curve: Curve) -> Float64[ndarray, "t"]:
            best = truth_for(curve.task).best
            if rule is None:
                return measures.simple_regret(measures.penalized(curve.f), best)
            return best - curve.penalized(rule)

        return self._gathered(of, np.inf)

    def cumulative(self) -> Float64[ndarray, "w p s t"]:
        """Return the cumulative regret R_T of the evaluations."""
        return self._summed(lambda curve: measures.regret(curve.f, truth_for(curve.task).best))

    def positive(self) -> Float64[ndarray, "w p s t"]:
        """Return the cumulative positive regret."""
        return self._summed(lambda curve: measures.positive_regret(curve.f, truth_for(curve.task).best))

    def violation(self) -> Float64[ndarray, "w p s t"]:
        """Return the cumulative violation, summed over constraints."""
        return self._summed(lambda curve: measures.violation(curve.f).sum(-1))

    def _summed(self, of: Any) -> Float64[ndarray, "w p s t"]:
        """Sum over evaluations; failed ones count as zero."""
        return self._gathered(lambda curve: measures.cumulative(np.nan_to_num(of(curve), nan=0.0)), np.nan)

    def seconds(self) -> dict[str, float]:
        """Return the median time of a proposal after the initial design, by solver."""
        found = {}
        for solver in self.solvers:
            times = [c.seconds[c.initial :] for (w, _, _), c in self.curves.items() if w == solver]
            joined = np.concatenate(times) if times else np.zeros(0)
            found[solver] = float(np.median(joined)) if len(joined) else float("nan")
        return found


def grid(curves: Sequence[Curve], solvers: Sequence[str] = (), problems: Sequence[str] = ()) -> Grid:
    """Arrange curves by solver, problem and seed; only seeds that every solver and problem has are compared.

    Args:
        curves: Of performed tasks.
        solvers: These first, in this order.
        problems: These first, in this order.
    """
    if not curves:
        raise SettingError("there are no runs to compare")
    solvers = _in_order(solvers, [curve.task.solver_name for curve in curves])
    problems = _in_order(problems or suite.sets["paper"], [curve.task.title for curve in curves])
    by = {(curve.task.solver_name, curve.task.title, curve.task.seed): curve for curve in curves}
    seeds = sorted({curve.task.seed for curve in curves})
    whole = [seed for seed in seeds if all((w, p, seed) in by for w in solvers for p in problems)]
    if not whole:
        missing = next((w, p) for w in solvers for p in problems if not all((w, p, s) in by for s in seeds))
        raise SettingError(f"no seed has been run by all solvers on all problems: '{missing[0]}' lacks '{missing[1]}'")
    dropped = tuple(seed for seed in seeds if seed not in whole)
    return Grid(solvers, problems, tuple(whole), dropped, {key: by[key] for key in by if key[2] in whole})


def _in_order(first: Sequence[str], names: Sequence[str]) -> tuple[str, ...]:
    """Return distinct names: those of a list first, in its order."""
    return (*(name for name in first if name in names), *dict.fromkeys(name for name in names if name not in first))


def rows_of(points: Float64[ndarray, "t d"], X: Float64[ndarray, "t d"]) -> Int64[ndarray, "t"] | None:
    """Return which evaluations the recommended points are; None if some point was not evaluated."""
    same = (points[:, None, :] == X[None, :, :]).all(-1)
    return same.argmax(1) if same.any(1).all() else None
