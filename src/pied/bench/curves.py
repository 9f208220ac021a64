"""From records to arrays: the truth at every evaluation, and at what each rule recommends after it; computed once."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float64, Int64
from numpy import ndarray
from torch import Tensor

from pied import suite
from pied.bench import measures
from pied.bench.drive import each
from pied.bench.ledger import Entry, Ledger
from pied.bench.plan import Task, solver_of
from pied.bench.runs import Run, benchmark_for, kept, one_thread, truth_for
from pied.bounds import Believer, from_memory
from pied.errors import SettingError, StoreError
from pied.problem import Problem
from pied.records import Dataset, State, Trial, feasible, spread
from pied.rng import Stream
from pied.solvers.cuqb import CUQB
from pied.study import recommend

CHEAP = frozenset({"naive", "observed"})
"""Rules that need no belief: computed here, because a process takes longer to start."""


@dataclass(frozen=True, eq=False)
class Curve:
    """One run as arrays; paper's form."""

    task: Task
    f: Float64[ndarray, "t k"]
    """The truth at each evaluation; NaN where it failed."""
    is_feasible: Bool[ndarray, "t"]
    """Whether it is strictly feasible."""
    seconds: Float64[ndarray, "t"]
    """Time of the suggestion."""
    recommended: dict[str, Float64[ndarray, "t k"]] = field(default_factory=dict)
    """The truth at what each rule recommends after each evaluation."""
    initial: int = 0
    ended: str = ""
    error: str = ""

    def penalized(self, rule: str = "naive") -> Float64[ndarray, "t"]:
        """Penalized value of the recommendation after each evaluation."""
        if rule not in self.recommended:
            raise SettingError(f"'{self.task.name}' has no recommendations of the rule '{rule}': name it in the plan")
        return measures.penalized(self.recommended[rule])

    def strict(self) -> Float64[ndarray, "t"]:
        """Normalized regret of the best strictly feasible sample; infinite while there is none."""
        benchmark = truth_for(self.task)
        best = measures.best_feasible(self.f[:, 0], self.is_feasible)
        return (benchmark.best - best) / abs(benchmark.best - benchmark.median)


# --- What a rule recommends -------------------------------------------------------------------------------------------


def recommendations(run: Run, rule: str) -> Float64[Tensor, "t d"]:
    """Return the points that a rule recommends after each evaluation, natural units.

    "naive" is the best penalized value as observed, what the paper compares with its own rule; "asked" is that rule,
    equation (14), with the solver's own bounds where it has some and those of a belief otherwise.
    """
    problem = benchmark_for(run.task).problem
    X = torch.tensor([list(trial.x.values()) for trial in run.trials], dtype=torch.float64).reshape(-1, problem.d)
    if rule in ("lower", "anywhere"):
        return _believed(run, problem, rule, X)
    if rule == "asked":
        scores = problem.penalized(_as_asked(run, problem), measures.PENALTY).numpy()
    else:
        f = observed(problem, run.trials)
        if rule == "observed":
            return X[[observed_row(problem, f[: t + 1]) for t in range(len(f))]]
        scores = measures.penalized(f.numpy())
    return X[torch.from_numpy(measures.running_argmax(scores))]


def observed(problem: Problem, trials: Sequence[Trial]) -> Float64[Tensor, "t k"]:
    """Return objective and constraints as observed; NaN where a trial failed."""
    f = torch.full((len(trials), problem.k), torch.nan, dtype=torch.float64)
    data = Dataset.of(problem, trials)
    if data.numbers:
        f[[number - 1 for number in data.numbers]] = data.functions(problem)
    return f


def observed_row(problem: Problem, f: Float64[Tensor, "N k"]) -> int:
    """Return the row that the rule "observed" recommends: the best feasible one, else the least violated.

    The study's own recommendation also fits a belief, for the bounds there; after every evaluation that is too slow.
    """
    fine = feasible(problem, f)
    if bool(fine.any()):
        return int(torch.where(fine, f[:, 0], -torch.inf).argmax())
    scale = spread(f[torch.isfinite(f).all(1)])
    score = -((-f[:, 1:] / scale[1:]).clamp_min(0.0).sum(1))
    return int(torch.nan_to_num(score, nan=-torch.inf).argmax())


def _believer(task: Task) -> Believer:
    """The belief that recommends: the paper's for solvers in the paper's form, ours for the others."""
    return CUQB.paper().believer if task.solver.partition(":")[0].endswith("-paper") else CUQB().believer


def _believed(run: Run, problem: Problem, rule: str, X: Float64[Tensor, "t d"]) -> Float64[Tensor, "t d"]:
    """Recommend after each evaluation with the belief of that moment; before there is one, as observed."""
    found, f = [], observed(problem, run.trials)
    for t in range(1, len(run.trials) + 1):
        data = Dataset.of(problem, run.trials[:t])
        if len(data.numbers) < max(2, min(run.initial, len(run.trials))):
            found.append(X[observed_row(problem, f[:t])])
            continue
        previous = from_memory(data.last.memory) if data.last is not None else None
        made = recommend(
            problem, data, rule, believer=_believer(run.task), previous=previous, stream=Stream(run.task.seed)
        )
        found.append(X[t - 1] if made is None else problem.from_unit(made.u))
    return torch.stack(found) if found else X


def _as_asked(run: Run, problem: Problem) -> Float64[Tensor, "t k"]:
    """Lower bounds at each point by the belief before it was evaluated; those of the design by the first belief."""
    lower = torch.full((len(run.trials), problem.k), torch.nan, dtype=torch.float64)
    solver, _ = solver_of(run.task.solver)
    level, believer = getattr(solver, "level", 0.95), _believer(run.task)
    for place, trial in enumerate(run.trials):
        if trial.state is not State.TOLD:
            continue
        if trial.why.lower:
            lower[place] = torch.tensor(trial.why.lower, dtype=torch.float64)
            continue
        data = Dataset.of(problem, run.trials[: max(place, min(run.initial, len(run.trials)))])
        if len(data.numbers) < 2:
            continue
        composite = believer.bound(problem, data, believer.fit(problem, data), Stream(run.task.seed).at("asked", place))
        point = problem.to_unit(problem.point(dict(trial.x)))[None]
        lower[place] = composite.bounds(point, level)[0][0]
    return lower


# --- Curves -----------------------------------------------------------------------------------------------------------


def arrays_of(run: Run, points: dict[str, Tensor] | None = None) -> dict[str, ndarray]:
    """Return all that is kept of a run: the truth at its evaluations and recommendations.

    Args:
        run: The record.
        points: Recommended points by rule, where they are known already.
    """
    benchmark = truth_for(run.task)
    k, d = benchmark.whole.k, benchmark.whole.d
    X = torch.tensor([list(trial.x.values()) for trial in run.trials], dtype=torch.float64).reshape(-1, d)
    is_told = torch.tensor([trial.state is State.TOLD for trial in run.trials], dtype=torch.bool)
    f = torch.full((len(X), k), torch.nan, dtype=torch.float64)
    is_feasible = torch.zeros(len(X), dtype=torch.bool)
    if bool(is_told.any()):
        f[is_told] = benchmark.truth(X[is_told])
        is_feasible[is_told] = benchmark.is_strictly_feasible(X[is_told])
    arrays = {
        "f": f.numpy(),
        "is_feasible": is_feasible.numpy(),
        "seconds": np.array([trial.why.seconds for trial in run.trials], dtype=np.float64),
    }
    for rule in run.task.rules:
        at = (points or {}).get(rule)
        at = recommendations(run, rule) if at is None else at
        arrays[f"rule {rule}"] = benchmark.truth(at).numpy() if len(at) else np.zeros((0, k))
    return arrays


def _computed(entry: Entry, store: str) -> dict[str, ndarray]:
    with one_thread():
        return arrays_of(kept(entry.task, store))


def _what(task: Task) -> str:
    """What the curves of a task depend on beside its trials."""
    return " ".join(task.rules)


def load(
    store: str | Path,
    tasks: Iterable[Task] | None = None,
    *,
    workers: int = 1,
    executor: Any = None,
) -> list[Curve]:
    """Return the curves of runs that have ended; what was not computed before is, in parallel, and kept.

    Args:
        store: The SQLite file.
        tasks: The runs; by default all there are. Runs that are missing are left out.
        workers: Processes, where something has to be computed.
        executor: Where; see `drive.run`.
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
        dear = [entry for entry in todo if not CHEAP.issuperset(entry.task.rules)]
        cheap = [entry for entry in todo if CHEAP.issuperset(entry.task.rules)]
        place = str(ledger.file.absolute())
        several = min(workers, max(len(dear), 1))
        for entry, arrays, error in chain(
            each(cheap, _computed, place, 1), each(dear, _computed, place, several, executor)
        ):
            if arrays is None:
                raise StoreError(f"the curves of '{entry.task.name}' cannot be computed: {error}")
            keep(ledger, entry.task, arrays)
            found[entry.task.name] = arrays
        return [_curve(entry, found.get(entry.task.name)) for entry in wanted]


def _asked_for(entries: dict[str, Entry], tasks: Iterable[Task]) -> list[Entry]:
    """The runs of these tasks, with the budget and the rules asked for now."""
    found = []
    for task in tasks:
        entry = entries.get(task.name)
        if entry is not None:
            found.append(Entry(**{**vars(entry), "task": task}))
    return found


def keep(ledger: Ledger, task: Task, arrays: dict[str, ndarray]) -> None:
    """Keep the arrays of a run."""
    ledger.keep_curves(task.name, _what(task), len(arrays["f"]), arrays)


def _curve(entry: Entry, arrays: dict[str, Any] | None) -> Curve:
    """A run as it stood when the budget of its task was spent."""
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
    """Runs of several solvers on several problems with the same seeds, as arrays."""

    solvers: tuple[str, ...]
    problems: tuple[str, ...]
    seeds: tuple[int, ...]
    """Those that all solvers and problems have."""
    dropped: tuple[int, ...]
    """Those that some run is missing of."""
    curves: dict[tuple[str, str, int], Curve]
    """By solver, problem and seed."""

    @property
    def budget(self) -> int:
        """Evaluations of the longest run."""
        return max(curve.task.budget for curve in self.curves.values())

    @property
    def dimensions(self) -> Float64[ndarray, "p"]:
        """Variables of each problem."""
        first = [self.curves[self.solvers[0], problem, self.seeds[0]].task for problem in self.problems]
        return np.array([float(truth_for(task).whole.d) for task in first])

    def _gathered(self, of: Any, empty: float) -> Float64[ndarray, "w p s t"]:
        length = self.budget
        return np.array([
            [[measures.carried(of(self.curves[w, p, s]), length, empty) for s in self.seeds] for p in self.problems]
            for w in self.solvers
        ])  # fmt: skip

    def values(self, rule: str = "naive") -> Float64[ndarray, "w p s t"]:
        """Penalized value of the recommendation, the last one carried forward."""
        return self._gathered(lambda curve: curve.penalized(rule), -np.inf)

    def starts(self) -> Float64[ndarray, "p s"]:
        """Penalized value of the first initial point, which solvers share: of the first one that has it."""
        first = self._gathered(lambda curve: measures.penalized(curve.f[:1]), -np.inf)[..., 0]
        has_one = np.isfinite(first).argmax(axis=0)  # a solver that failed at once has none
        return np.take_along_axis(first, has_one[None], 0)[0]

    def strict(self) -> Float64[ndarray, "w p s t"]:
        """Normalized regret of the best strictly feasible sample."""
        return self._gathered(lambda curve: curve.strict(), np.inf)

    def simple(self, rule: str | None = None) -> Float64[ndarray, "w p s t"]:
        """Simple penalized regret: of the samples, or of what a rule recommends (which may get worse again)."""

        def of(curve: Curve) -> Float64[ndarray, "t"]:
            best = truth_for(curve.task).best
            if rule is None:
                return measures.simple_regret(measures.penalized(curve.f), best)
            return best - curve.penalized(rule)

        return self._gathered(of, np.inf)

    def cumulative(self) -> Float64[ndarray, "w p s t"]:
        """Cumulative regret R_T of the evaluations."""
        return self._summed(lambda curve: measures.regret(curve.f, truth_for(curve.task).best))

    def positive(self) -> Float64[ndarray, "w p s t"]:
        """Cumulative positive regret."""
        return self._summed(lambda curve: measures.positive_regret(curve.f, truth_for(curve.task).best))

    def violation(self) -> Float64[ndarray, "w p s t"]:
        """Cumulative violation, added up over constraints."""
        return self._summed(lambda curve: measures.violation(curve.f).sum(-1))

    def _summed(self, of: Any) -> Float64[ndarray, "w p s t"]:
        """Sum over evaluations; failed ones add nothing."""
        return self._gathered(lambda curve: measures.cumulative(np.nan_to_num(of(curve), nan=0.0)), np.nan)

    def seconds(self) -> dict[str, float]:
        """Median time of a suggestion after the initial design, by solver."""
        found = {}
        for solver in self.solvers:
            times = [c.seconds[c.initial :] for (w, _, _), c in self.curves.items() if w == solver]
            joined = np.concatenate(times) if times else np.zeros(0)
            found[solver] = float(np.median(joined)) if len(joined) else float("nan")
        return found


def grid(curves: Sequence[Curve], solvers: Sequence[str] = (), problems: Sequence[str] = ()) -> Grid:
    """Put runs side by side; only seeds that every solver and problem has are compared.

    Args:
        curves: The runs.
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
    """Names once each: those of a list first, in its order."""
    return (*(name for name in first if name in names), *dict.fromkeys(name for name in names if name not in first))


def rows_of(points: Float64[Tensor, "t d"], X: Float64[Tensor, "t d"]) -> Int64[Tensor, "t"] | None:
    """Return which evaluations the recommended points are; None when some are none of them."""
    same = (points[:, None, :] == X[None, :, :]).all(-1)
    return same.int().argmax(1) if bool(same.any(1).all()) else None
