"""What to run: plans in TOML, their tasks, and the problems and solvers that texts stand for."""

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
from pied.suite.twins import rescaled

RULES = ("naive", "observed", "lower", "asked", "anywhere")
"""Rules of recommendation: "naive" is the best penalized value as observed, the others are those of `recommend`."""
RESCALED = {"x": 1e3, "y": 1e-4, "g": 1e5}
"""Units of the rescaled twins: powers of ten, another one on each floor."""
CENTRED = ("rastrigin", "environmental")
"""Problems whose optimum is the centre of their box, which is where DIRECT begins."""
COST = {"environmental": 4.0, "ex724": 4.0, "g09": 3.0, "spring": 3.0, "styblinski-tang": 2.0, "powell": 2.0}
"""Rough time of a run by problem, relative to an easy one."""
PACE = {"random": 0.01, "sobol": 0.01, "snobfit": 0.05, "direct": 0.02, "bobyqa": 0.02, "cma-es": 0.02}
"""Rough time of a run by solver, relative to one with a belief."""


# --- One run ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Task:
    """One run, as data: with the same code it gives the same record."""

    problem: str
    """A name of the suite, or 'draw:SEED', 'draw:SEED:KIND', 'infeasible:NAME', 'jointly:NAME', 'rescaled:NAME'."""
    solver: str = "cuqb"
    """A solver as text, see `solver_of`."""
    seed: int = 0
    """Of the study, and of the noise."""
    budget: int = 100
    structure: str = "full"
    """What the solver is told: 'full', 'paper' or 'black'."""
    noise: float = 0.0
    """Standard deviation on every output; the solver has to learn it."""
    initial: str = "2d+1"
    """Size of the initial design: a number, or one with d in it."""
    patience: int | None = 3
    """Tests in a row before a problem is called infeasible, which ends the run; None: never."""
    rules: tuple[str, ...] = ("naive",)
    """Rules whose recommendation after each evaluation is kept."""
    shifted: bool = False
    """Whether a problem whose optimum is the centre of its box is given in a box that was cut so that it is not."""
    stop: float | None = None
    """End a run when the regret of a strictly feasible sample falls below this, both normalized and relative to
    max(0.01, |f*|); None always spends the budget."""
    label: str = ""
    """How the solver is called in tables; its text by default."""

    @property
    def solver_name(self) -> str:
        """The solver in tables."""
        return self.label or self.solver

    @property
    def title(self) -> str:
        """The problem in tables."""
        return f"{self.problem}, noise {self.noise:g}" if self.noise else self.problem

    @property
    def name(self) -> str:
        """Name of its study: one per problem, solver and seed; a larger budget continues it."""
        return f"{self.title} | {self.solver_name} | {self.seed}"

    @property
    def cost(self) -> float:
        """About how long it takes, in any unit."""
        name = re.sub(r"-paper$", "", self.solver.partition(":")[0])
        return COST.get(self.problem.rpartition(":")[2], 1.0) * PACE.get(name, 1.0) * self.budget

    def to_data(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {**vars(self), "rules": list(self.rules)}

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> "Task":
        """Read it from plain data."""
        return cls(**{**data, "rules": tuple(data["rules"])})


def size_of(initial: str, d: int) -> int:
    """Return the size of an initial design: '7', 'd+1', '2d+1', ..."""
    found = re.fullmatch(r"(?:(\d*)d)?\s*\+?\s*(\d+)?", initial.strip())
    if not found or not initial.strip() or (not any(found.groups()) and "d" not in initial):
        raise SettingError(f"initial is a size such as '7', 'd+1' or '2d+1', got '{initial}'")
    slope = 0 if "d" not in initial else int(found[1] or 1)
    return slope * d + int(found[2] or 0)


@lru_cache(maxsize=64)
def benchmark_of(
    problem: str, structure: str = "full", noise: float = 0.0, seed: int = 0, shifted: bool = False
) -> Benchmark:
    """Return the benchmark that a task names; found once in each process, because optima of draws are searched."""
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
        made = rescaled(rest, **RESCALED)
    else:
        raise SettingError(f"a problem is a name, draw:, infeasible:, jointly: or rescaled:, got '{problem}'")
    if noise and structure == "black":
        raise SettingError(
            "noise is put on the outputs of h, which structure = 'black' folds away: use 'full' or 'paper'"
        )
    return made.told(structure, noise, seed=seed)


@lru_cache(maxsize=1)
def _optima() -> Path:
    """The folder in which processes share the optima of draws; another one for other code."""
    return Path(tempfile.gettempdir()) / f"pied-optima-{origin.code()}"


def solver_of(text: str) -> tuple[Solver, dict[str, Any]]:
    """Return a solver from text, and words for its study.

    'cuqb', 'random', or a name with changed settings: 'cuqb:level=0.9,model.finalists=6,search.starts=12'. A dot goes
    into nested settings (`model` and `estimator` lie in the believer), `study.` into the words of the study; the value
    'paper' stands for what `CUQB.paper()` has there.
    """
    name, _, changes = text.partition(":")
    solver, words = make(name), {}
    for change in re.split(r",(?=[\w.]+=)", changes) if changes else ():
        where, equals, value = change.partition("=")
        if not equals:
            raise SettingError(f"a changed setting reads name=value, got '{change}' in '{text}'")
        path = where.strip().split(".")
        if path[0] == "study":
            words[path[1]] = ast.literal_eval(value)
            continue
        if path[0] in ("model", "estimator") and hasattr(solver, "believer"):
            path = ["believer", *path]
        solver = _changed(solver, path, value.strip(), text)
    return solver, words


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
class Entry:
    """A solver of a plan, with what differs from the plan for it alone."""

    label: str
    solver: str
    """As text, see `solver_of`."""
    words: Mapping[str, Any] = field(default_factory=dict)
    """Those of `Task` that differ: structure, initial, patience, rules, shifted."""


OWN = ("structure", "initial", "patience", "rules", "shifted")
"""Words that a solver's table may set for itself."""
WORDS = ("problems", "solvers", "seeds", "budget", "noise", "stop", *OWN)
"""Words of a plan and of its parts."""


@dataclass(frozen=True)
class Part:
    """Problems x solvers x seeds under one name."""

    name: str
    problems: tuple[str, ...]
    entries: tuple[Entry, ...]
    seeds: tuple[int, ...]
    words: Mapping[str, Any] = field(default_factory=dict)
    """Those of `Task` that all of its runs share."""

    def tasks(self) -> list[Task]:
        """Return its runs: seed by seed, the longest first, so that a time limit leaves whole seeds."""
        made = [
            Task(problem, entry.solver, seed, label=entry.label, **{**self.words, **entry.words})
            for seed in self.seeds for problem in self.problems for entry in self.entries
        ]  # fmt: skip
        return sorted(made, key=lambda task: (task.seed, -task.cost))


@dataclass(frozen=True)
class Plan:
    """What to run: one part or several."""

    parts: tuple[Part, ...]

    def tasks(self) -> list[Task]:
        """Return the runs of all parts, each once, seed by seed."""
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
            only: Problems, sets of problems or solvers; of each kind that is named, the others are left out.
            seeds: How many, from 0.
            budget: Evaluations of each run.
            parts: These parts only.
        """
        wanted, chosen = set(only), [self.part(name) for name in parts] or list(self.parts)
        problems = {name for part in self.parts for name in part.problems}
        labels = {entry.label for part in self.parts for entry in part.entries}
        for word in sorted(wanted - problems - labels - set(suite.sets)):
            raise SettingError(f"the plan has no problem or solver '{word}'.{did_you_mean(word, [*problems, *labels])}")
        problems &= {name for word in wanted for name in suite.sets.get(word, (word,))}
        made = [
            replace(
                part,
                problems=tuple(each for each in part.problems if not problems or each in problems),
                entries=tuple(each for each in part.entries if not labels & wanted or each.label in wanted),
                seeds=part.seeds if seeds is None else tuple(range(seeds)),
                words={**part.words, **({} if budget is None else {"budget": budget})},
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
            raise SettingError(f"the plan '{path}' is no TOML: {error}") from error
        return cls.of(data)

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> "Plan":
        """Make a plan from the words of a TOML file, trying every name before anything runs."""
        words = {name: value for name, value in data.items() if name not in ("solver", "part")}
        tables, parts = data.get("solver", {}), data.get("part") or [{"name": "all"}]
        for name, table in tables.items():
            if not isinstance(table, Mapping):
                raise SettingError(f"[solver.{name}] is a table of settings, got {table!r}")
        made = [_part({**words, **part}, tables) for part in parts]
        names = [part.name for part in made]
        if len(set(names)) < len(names):
            raise SettingError(f"each [[part]] needs a name of its own, got {names}")
        return cls(tuple(made))


def _part(words: Mapping[str, Any], tables: Mapping[str, Mapping[str, Any]]) -> Part:
    """Read one part."""
    for word in words:
        if word not in (*WORDS, "name"):
            raise SettingError(f"a plan has no word '{word}'.{did_you_mean(word, WORDS)}")
    if "problems" not in words:
        raise SettingError("a plan names its problems: problems = ['unconstrained', 'g09'], sets or single names")
    problems = dict.fromkeys(name for word in _texts(words, "problems") for name in suite.sets.get(word, (word,)))
    for name in problems:
        if ":" not in name:
            suite.get(name)  # an unknown name shows here, with the one probably meant
    shared: dict[str, Any] = {"budget": _count(words.get("budget", 100), "budget"), **_own(words)}
    if "noise" in words:
        shared["noise"] = float(words["noise"])
    if "stop" in words:
        shared["stop"] = float(words["stop"])
    entries = tuple(_entry(name, tables.get(name, {})) for name in _texts(words, "solvers", ["cuqb"]))
    seeds = words.get("seeds", 10)
    chosen = tuple(int(each) for each in seeds) if isinstance(seeds, list) else tuple(range(_count(seeds, "seeds")))
    return Part(str(words.get("name", "all")), tuple(problems), entries, chosen, shared)


def _entry(label: str, table: Mapping[str, Any]) -> Entry:
    """Read a solver: its text, or its table of settings."""
    changes = _flat({name: value for name, value in table.items() if name not in ("is", *OWN)})
    solver = str(table.get("is", label))
    if changes:
        solver += (":" if ":" not in solver else ",") + ",".join(f"{path}={value!r}" for path, value in changes.items())
    try:
        solver_of(solver)
    except PiedError as error:
        raise SettingError(f"solver '{label}' of the plan: {error}") from error
    return Entry(label, solver, _own(table))


def _flat(table: Mapping[str, Any], path: str = "") -> dict[str, Any]:
    """Write nested tables as dotted names; a list becomes a tuple, as settings have it."""
    flat: dict[str, Any] = {}
    for name, value in table.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{path}{name}.")
        else:
            flat[path + name] = tuple(value) if isinstance(value, list) else value
    return flat


def _own(words: Mapping[str, Any]) -> dict[str, Any]:
    """Read the words that a solver may have for itself."""
    own: dict[str, Any] = {}
    if "structure" in words:
        own["structure"] = str(words["structure"])
    if "initial" in words:
        own["initial"] = str(words["initial"])
        size_of(own["initial"], 2)
    if "patience" in words:  # TOML has no word for nothing: 0 is never
        own["patience"] = int(words["patience"]) or None
    if "shifted" in words:
        own["shifted"] = bool(words["shifted"])
    if "rules" in words:
        own["rules"] = tuple(_texts(words, "rules"))
        for rule in own["rules"]:
            if rule not in RULES:
                raise SettingError(f"there is no rule '{rule}' of recommendation.{did_you_mean(rule, RULES)}")
    return own


def _texts(words: Mapping[str, Any], name: str, otherwise: Sequence[str] = ()) -> list[str]:
    given = words.get(name, list(otherwise))
    if not isinstance(given, list) or not given or not all(isinstance(each, str) for each in given):
        raise SettingError(f"{name} is a list of names, got {given!r}")
    return given


def _count(given: Any, name: str) -> int:
    if not isinstance(given, int) or isinstance(given, bool) or given < 1:
        raise SettingError(f"{name} is a count from 1, got {given!r}")
    return given
