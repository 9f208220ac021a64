"""Plans in TOML, their tasks, and the problems and solvers that their texts denote."""

import ast
import re
import tempfile
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from pied import suite
from pied.bench import origin
from pied.errors import PiedError, SettingError, did_you_mean
from pied.solvers import make
from pied.solvers.base import Solver
from pied.solvers.cuqb import CUQB
from pied.suite import Benchmark
from pied.suite.benchmark import KNOWS
from pied.suite.twins import rescaled

RULES = ("naive", "observed", "lower", "asked", "anywhere")
"""Rules of recommendation: "naive" is the best penalized value told, the others are those of `recommend`."""
RESCALING = {"x": 1e3, "y": 1e-4, "g": 1e5}
"""Factors of the rescaled twins: different powers of ten for variables, outputs and functions."""
CENTRED = ("rastrigin", "environmental")
"""Problems whose optimum is the centre of their box, which is DIRECT's first point."""
PROBLEM_COST = {"environmental": 4.0, "ex724": 4.0, "g09": 3.0, "spring": 3.0, "styblinski-tang": 2.0, "powell": 2.0}
"""Rough time of a task by problem, relative to an easy problem."""
SOLVER_COST = {"random": 0.01, "sobol": 0.01, "snobfit": 0.05, "direct": 0.02, "bobyqa": 0.02, "cma-es": 0.02}
"""Rough time of a task by solver, relative to a solver with a belief."""


# --- One run ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Task:
    """One run of a solver, as data; the same code gives the same trials."""

    problem: str
    """A name of the suite, or 'draw:SEED', 'draw:SEED:KIND', 'infeasible:NAME', 'jointly:NAME', 'rescaled:NAME'."""
    solver: str = "cuqb"
    """A solver as text, see `solver_of`."""
    seed: int = 0
    """Of the study, and of the noise."""
    budget: int = 100
    structure: str = "full"
    """What the solver is given: 'full', 'paper' or 'black'."""
    knows: str = "white"
    """What it knows of constraints that need no output: 'white' or 'nothing'."""
    noise: float = 0.0
    """Standard deviation on every output; the solver has to learn it."""
    initial: str = "2d+1"
    """Size of the initial design: a number, or a formula with d."""
    patience: int | None = 3
    """Tests in a row before a problem is called infeasible, which ends the task; None: never."""
    rules: tuple[str, ...] = ("naive",)
    """Rules whose recommendation after each evaluation is stored."""
    shifted: bool = False
    """Whether a problem whose optimum is the centre of its box gets another box (`CENTRED`)."""
    stop: float | None = None
    """End when the regret of a strictly feasible evaluation is below this, both normalized and relative to
    max(0.01, |f*|); None: always spend the budget."""
    label: str = ""
    """Name of the solver in tables; by default its text."""

    @property
    def solver_name(self) -> str:
        """Name of the solver in tables."""
        return self.label or self.solver

    @property
    def title(self) -> str:
        """Name of the problem in tables."""
        return f"{self.problem}, noise {self.noise:g}" if self.noise else self.problem

    @property
    def name(self) -> str:
        """Name of its study, without the budget: a larger budget continues it."""
        return f"{self.title} | {self.solver_name} | {self.seed}"

    @property
    def cost(self) -> float:
        """Rough time, in an arbitrary unit."""
        return cost_of(self.problem, self.solver, self.budget)

    def to_data(self) -> dict[str, Any]:
        """Return the task as plain data."""
        return {**vars(self), "rules": list(self.rules)}

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> "Task":
        """Read a task from plain data."""
        return cls(**{**data, "rules": tuple(data["rules"])})


def hardness(problem: str) -> float:
    """Return how long a run on a problem takes relative to an easy one."""
    return PROBLEM_COST.get(problem.rpartition(":")[2], 1.5 if problem.startswith("draw:") else 1.0)


def cost_of(problem: str, solver: str = "", budget: int = 1) -> float:
    """Return the rough time of a run, in an arbitrary unit."""
    return hardness(problem) * SOLVER_COST.get(re.sub(r"-paper$", "", solver.partition(":")[0]), 1.0) * budget


def size_of(initial: str, d: int) -> int:
    """Return the size of an initial design: '7', 'd+1', '2d+1', ..."""
    found = re.fullmatch(r"(?:(\d*)d)?\s*\+?\s*(\d+)?", initial.strip())
    if not found or not initial.strip() or (not any(found.groups()) and "d" not in initial):
        raise SettingError(f"initial is a size such as '7', 'd+1' or '2d+1', got '{initial}'")
    slope = 0 if "d" not in initial else int(found[1] or 1)
    return slope * d + int(found[2] or 0)


@lru_cache(maxsize=64)
def benchmark_of(
    problem: str,
    structure: str = "full",
    noise: float = 0.0,
    seed: int = 0,
    shifted: bool = False,
    knows: str = "white",
) -> Benchmark:
    """Return the benchmark that a task names; cached, because optima of random problems are searched."""
    form, colon, rest = problem.partition(":")
    if shifted and problem in CENTRED:
        made = suite.twin(problem, shift=0)
    elif not colon:
        made = suite.get(problem)
    elif form == "draw":
        number, _, kind = rest.partition(":")
        made = suite.random(int(number), kind or None, cache_in=_optima())
    elif form in ("infeasible", "jointly"):
        made = suite.twin(rest, infeasible=True if form == "infeasible" else "jointly")
    elif form == "rescaled":
        made = rescaled(rest, **RESCALING)
    else:
        raise SettingError(f"a problem is a name, draw:, infeasible:, jointly: or rescaled:, got '{problem}'")
    if noise and structure == "black":
        raise SettingError(
            "noise is put on the outputs of h, which structure = 'black' folds away: use 'full' or 'paper'"
        )
    return made.told(structure, noise, seed=seed, knows=knows)


@lru_cache(maxsize=1)
def _optima() -> Path:
    """Return the folder in which processes share the optima of random problems; it depends on the code."""
    return Path(tempfile.gettempdir()) / f"pied-optima-{origin.code()}"


def solver_of(text: str) -> tuple[Solver, dict[str, Any]]:
    """Return a solver from text, and settings of its study.

    The text is a name, or a name with changed settings: 'cuqb:level=0.9,model.finalists=6,search.starts=12'. A dot
    denotes nested settings (`model` and `estimator` belong to the believer), `study.` a setting of the study; the value
    'paper' is the setting of `CUQB.paper()`. 'without=probe+widen' leaves out moves.
    """
    name, _, changes = text.partition(":")
    solver, of_study = make(name), {}
    for change in re.split(r",(?=[\w.]+=)", changes) if changes else ():
        where, equals, value = change.partition("=")
        if not equals:
            raise SettingError(f"a changed setting reads name=value, got '{change}' in '{text}'")
        path = where.strip().split(".")
        if path[0] == "study":
            of_study[path[1]] = ast.literal_eval(value)
            continue
        if path == ["without"] and hasattr(solver, "without"):
            solver = solver.without(*value.strip().split("+"))
            continue
        if path[0] in ("model", "estimator") and hasattr(solver, "believer"):
            path = ["believer", *path]
        solver = _changed(solver, path, value.strip(), text)
    return solver, of_study


def _changed(settings: Any, path: Sequence[str], value: str, text: str, paper: Any = None) -> Any:
    """Replace one setting in nested frozen settings."""
    name, *deeper = path
    if not is_dataclass(settings) or name not in {each.name for each in fields(settings)}:
        raise SettingError(f"there is no setting '{name}' in {type(settings).__name__}, as asked for in '{text}'")
    paper = paper or CUQB.paper()
    if deeper:
        new = _changed(getattr(settings, name), deeper, value, text, getattr(paper, name, None))
    else:
        try:
            new = getattr(paper, name) if value == "paper" else ast.literal_eval(value)
        except (ValueError, SyntaxError) as error:
            raise SettingError(f"the value of '{name}' in '{text}' cannot be read: {value}") from error
    return replace(settings, **{name: new})  # type: ignore[type-var]


# --- Many runs --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PlannedSolver:
    """A solver of a plan, with settings that differ from those of the plan."""

    label: str
    solver: str
    """As text, see `solver_of`."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Fields of `Task` that differ, see `SOLVER_KEYS`."""


SOLVER_KEYS = ("structure", "knows", "initial", "patience", "rules", "shifted")
"""Keys of a plan that a solver's table may also have."""
PLAN_KEYS = ("problems", "solvers", "seeds", "budget", "noise", "stop", *SOLVER_KEYS)
"""Keys of a plan and of its parts."""


@dataclass(frozen=True)
class Part:
    """Problems x solvers x seeds under one name."""

    name: str
    problems: tuple[str, ...]
    entries: tuple[PlannedSolver, ...]
    seeds: tuple[int, ...]
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Fields of `Task` that all of its tasks share."""

    def tasks(self) -> list[Task]:
        """Return its tasks, ordered by seed so that a time limit leaves complete seeds, then the longest first."""
        made = [
            Task(problem, entry.solver, seed, label=entry.label, **{**self.settings, **entry.settings})
            for seed in self.seeds for problem in self.problems for entry in self.entries
        ]  # fmt: skip
        return sorted(made, key=lambda task: (task.seed, -task.cost))


@dataclass(frozen=True)
class Plan:
    """One part or several."""

    parts: tuple[Part, ...]

    def tasks(self) -> list[Task]:
        """Return the distinct tasks of all parts, ordered by seed."""
        once = {task.name: task for part in self.parts for task in part.tasks()}
        return sorted(once.values(), key=lambda task: (task.seed, -task.cost))

    def part(self, name: str) -> Part:
        """Return a part by name."""
        for part in self.parts:
            if part.name == name:
                return part
        raise SettingError(f"the plan has no part '{name}'.{did_you_mean(name, [part.name for part in self.parts])}")

    def narrowed(
        self,
        only: Iterable[str] = (),
        seeds: int | None = None,
        budget: int | None = None,
        parts: Iterable[str] = (),
    ) -> "Plan":
        """Return a smaller plan.

        Args:
            only: Problems, sets of problems, or solvers to keep; a kind of which none is named is kept whole.
            seeds: Number of seeds, from 0.
            budget: Evaluations of each task.
            parts: These parts only.
        """
        wanted, chosen = set(only), [self.part(name) for name in parts] or list(self.parts)
        problems = {name for part in self.parts for name in part.problems}
        labels = {entry.label for part in self.parts for entry in part.entries}
        for given in sorted(wanted - problems - labels - set(suite.sets)):
            raise SettingError(
                f"the plan has no problem or solver '{given}'.{did_you_mean(given, [*problems, *labels])}"
            )
        problems &= {name for given in wanted for name in suite.sets.get(given, (given,))}
        made = [
            replace(
                part,
                problems=tuple(each for each in part.problems if not problems or each in problems),
                entries=tuple(each for each in part.entries if not labels & wanted or each.label in wanted),
                seeds=part.seeds if seeds is None else tuple(range(seeds)),
                settings={**part.settings, **({} if budget is None else {"budget": budget})},
            )
            for part in chosen
        ]
        return Plan(tuple(part for part in made if part.problems and part.entries))

    @classmethod
    def read(cls, file: str | Path) -> "Plan":
        """Read a plan from a TOML file."""
        path = Path(file)
        try:
            data = tomllib.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise SettingError(f"the plan '{path}' cannot be read: {error.strerror}") from error
        except tomllib.TOMLDecodeError as error:
            raise SettingError(f"the plan '{path}' is not valid TOML: {error}") from error
        return cls.of(data)

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> "Plan":
        """Make a plan from the data of a TOML file; all names are checked before anything runs."""
        settings = {name: value for name, value in data.items() if name not in ("solver", "part")}
        tables, parts = data.get("solver", {}), data.get("part") or [{"name": "all"}]
        for name, table in tables.items():
            if not isinstance(table, Mapping):
                raise SettingError(f"[solver.{name}] is a table of settings, got {table!r}")
        made = [_part({**settings, **part}, tables) for part in parts]
        names = [part.name for part in made]
        if len(set(names)) < len(names):
            raise SettingError(f"each [[part]] needs a name of its own, got {names}")
        return cls(tuple(made))


def _part(settings: Mapping[str, Any], tables: Mapping[str, Mapping[str, Any]]) -> Part:
    """Read one part."""
    for key in settings:
        if key not in (*PLAN_KEYS, "name"):
            raise SettingError(f"a plan has no key '{key}'.{did_you_mean(key, PLAN_KEYS)}")
    if "problems" not in settings:
        raise SettingError("a plan needs problems, by set or by name: problems = ['unconstrained', 'g09']")
    problems = dict.fromkeys(name for given in _texts(settings, "problems") for name in suite.sets.get(given, (given,)))
    for name in problems:
        if ":" not in name:
            suite.get(name)  # raises for an unknown name and suggests a similar one
    shared: dict[str, Any] = {"budget": _count(settings.get("budget", 100), "budget"), **_own(settings)}
    if "noise" in settings:
        shared["noise"] = float(settings["noise"])
    if "stop" in settings:
        shared["stop"] = float(settings["stop"])
    entries = tuple(_planned_solver(name, tables.get(name, {})) for name in _texts(settings, "solvers", ["cuqb"]))
    seeds = settings.get("seeds", 10)
    chosen = tuple(int(each) for each in seeds) if isinstance(seeds, list) else tuple(range(_count(seeds, "seeds")))
    return Part(str(settings.get("name", "all")), tuple(problems), entries, chosen, shared)


def _planned_solver(label: str, table: Mapping[str, Any]) -> PlannedSolver:
    """Read a solver: its text, or its table of settings."""
    changes = _flat({name: value for name, value in table.items() if name not in ("is", *SOLVER_KEYS)})
    solver = str(table.get("is", label))
    if changes:
        solver += (":" if ":" not in solver else ",") + ",".join(f"{path}={value!r}" for path, value in changes.items())
    try:
        solver_of(solver)
    except PiedError as error:
        raise SettingError(f"solver '{label}' of the plan: {error}") from error
    return PlannedSolver(label, solver, _own(table))


def _flat(table: Mapping[str, Any], path: str = "") -> dict[str, Any]:
    """Flatten nested tables to dotted names; lists become tuples, as in settings."""
    flat: dict[str, Any] = {}
    for name, value in table.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{path}{name}.")
        else:
            flat[path + name] = tuple(value) if isinstance(value, list) else value
    return flat


def _own(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Read the keys in `SOLVER_KEYS`."""
    chosen: dict[str, Any] = {}
    if "structure" in settings:
        chosen["structure"] = str(settings["structure"])
    if "knows" in settings:
        chosen["knows"] = str(settings["knows"])
        if chosen["knows"] not in KNOWS:
            raise SettingError(f"knows is 'white' or 'nothing', got '{chosen['knows']}'")
    if "initial" in settings:
        chosen["initial"] = str(settings["initial"])
        size_of(chosen["initial"], 2)
    if "patience" in settings:  # TOML has no None: 0 means never
        chosen["patience"] = int(settings["patience"]) or None
    if "shifted" in settings:
        chosen["shifted"] = bool(settings["shifted"])
    if "rules" in settings:
        chosen["rules"] = tuple(_texts(settings, "rules"))
        for rule in chosen["rules"]:
            if rule not in RULES:
                raise SettingError(f"there is no rule '{rule}' of recommendation.{did_you_mean(rule, RULES)}")
    return chosen


def _texts(settings: Mapping[str, Any], name: str, otherwise: Sequence[str] = ()) -> list[str]:
    given = settings.get(name, list(otherwise))
    if not isinstance(given, list) or not given or not all(isinstance(each, str) for each in given):
        raise SettingError(f"{name} is a list of names, got {given!r}")
    return given


def _count(given: Any, name: str) -> int:
    if not isinstance(given, int) or isinstance(given, bool) or given < 1:
        raise SettingError(f"{name} is a count from 1, got {given!r}")
    return given
