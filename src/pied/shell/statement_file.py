"""Read a problem from a file: TOML, which is only parsed, or a Python module, which runs because the user named it."""

import importlib.util
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pied.errors import PiedError, SettingError, StatementError, did_you_mean
from pied.problem import Choice, Formula, Mixture, Problem, Scope, Variable, choices_of
from pied.shell.tables import near_file, text_of
from pied.shell.toml_page import TOP, Page, shown
from pied.shell.toml_variables import read_mixtures, read_variable
from pied.solvers import make

if TYPE_CHECKING:
    from pied.evaluation import Command

LARGEST = 1_000_000
"""Largest size of a problem file, in bytes."""
LONGEST = 1000
"""Largest length of a vector of outputs; each element has its own model."""
STUDY = ("name", "seed", "initial", "patience", "stop_at_gap", "stop_at_growth", "lease_hours")
RUN = ("command", "fmu", "timeout", "retries", "workers")


@dataclass(frozen=True)
class Simulator:
    """An FMU that a problem file names. Only `pied run` opens it: a status can be had where the model is not."""

    file: Path
    place: str
    """File, line and key of the statement, for messages."""
    timeout: float | None = None
    retries: int = 0

    def __str__(self) -> str:
        return self.file.name

    def check_file(self) -> None:
        """Refuse a name under which there is no file.

        Raises:
            StatementError: With the place of the name.
        """
        if not self.file.is_file():
            raise StatementError(
                f"{self.place}: there is no file '{self.file}'. Copy the FMU there, or give its path from the folder "
                "of this file"
            )

    def command(self, problem: Problem, *, timeout: float | None = None, retries: int | None = None) -> "Command":
        """Return the FMU as a program for the problem; settings of the command line count before those of the file.

        Raises:
            StatementError: If there is no such file, it is no FMU for this machine, or its names do not fit.
            MissingExtra: If FMPy is not installed.
        """
        from pied.evaluation import simulation

        self.check_file()
        try:
            return simulation(
                self.file,
                tuple(problem.variables),
                tuple(problem.outputs),
                timeout=self.timeout if timeout is None else timeout,
                retries=self.retries if retries is None else retries,
            )
        except SettingError as error:
            raise StatementError(f"{self.place}: {error}") from error


@dataclass(frozen=True)
class Stated:
    """The content of a file: the problem, and how its study is created and run."""

    problem: Problem
    file: Path
    name: str
    """Of the study."""
    study: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of `Study`."""
    command: "Command | None" = None
    """The program that evaluates a point, used by `pied run` only."""
    workers: int | None = None
    fmu: Simulator | None = None
    """Or the FMU that evaluates it."""
    campaigns: Mapping[str, Path] = field(default_factory=dict)
    """Tables of earlier campaigns by their names, which `pied add` reads."""

    @property
    def store(self) -> Path:
        """The default place of the record: next to the file."""
        return self.file.with_suffix(".db")


def store_of(given: str) -> str:
    """Return the place of the store of a problem file, which is not read, or of a store that is named itself."""
    module, _, _ = given.rpartition(":")
    file = Path(module if module.endswith(".py") else given)
    return str(file.with_suffix(".db")) if file.suffix.lower() in (".toml", ".py") else given


def read(given: str) -> Stated:
    """Read a problem: `reactor.toml`, or `plant.py:problem`.

    Raises:
        StatementError: One sentence with the file, the place and the remedy.
    """
    if "\0" in given:
        raise StatementError("the name of a file contains a NUL character, which no file has")
    module, colon, name = given.rpartition(":")
    if colon and module.endswith(".py"):
        return _from_python(Path(module), name)
    if given.endswith(".py"):
        raise StatementError(f"name the problem in {given} too: {given}:problem, an object or a function that makes it")
    if Path(given).suffix.lower() != ".toml":
        if meant := near_file(Path(given), ".toml"):
            raise StatementError(f"there is no problem file '{given}'.{meant}")
        raise StatementError(
            f"'{given}' is neither a problem file (reactor.toml) nor a Python problem (plant.py:problem)"
        )
    return from_toml(Path(given))


# --------------------------------------------------------------------------------------------------------- Python


def load(file: Path, name: str) -> Any:
    """Run a Python file and return what is called `name` in it."""
    if not file.is_file():
        raise StatementError(f"there is no Python file '{file}'")
    place, key = file.resolve(), file.stem
    known = sys.modules.get(key)
    if known is None or Path(getattr(known, "__file__", None) or "").resolve() != place:
        spec = importlib.util.spec_from_file_location(key, place)
        if known is not None or spec is None or spec.loader is None:
            raise StatementError(f"there is another Python module called '{key}': give {file.name} another name")
        module = importlib.util.module_from_spec(spec)
        if str(place.parent) not in sys.path:
            sys.path.insert(0, str(place.parent))  # it may import its neighbours, and worker processes may import it
        sys.modules[key] = module
        try:
            spec.loader.exec_module(module)
        except BaseException as error:
            del sys.modules[key]
            if not isinstance(error, Exception):
                raise
            raise StatementError(f"{file} raised {type(error).__name__}: {error}") from error
    found = vars(sys.modules[key])
    if name not in found:
        public = [each for each in found if not each.startswith("_")]
        raise StatementError(f"{file} has no '{name}'.{did_you_mean(name, public)}")
    return found[name]


def _from_python(file: Path, name: str) -> Stated:
    found = load(file, name)
    if callable(found) and not isinstance(found, Problem):
        try:
            found = found()
        except PiedError:
            raise
        except Exception as error:
            raise StatementError(f"{file}: '{name}' raised {type(error).__name__}: {error}") from error
    if not isinstance(found, Problem):
        raise StatementError(f"{file}: '{name}' should be a pied.Problem or a function that returns one")
    return Stated(found, file, name)


# ----------------------------------------------------------------------------------------------------------- TOML


def from_toml(file: Path) -> Stated:
    """Read a problem file; nothing in it is executed here."""
    return from_text(file, text_of(file, "problem file", LARGEST))


def from_text(file: Path, text: str) -> Stated:
    """Read the text of a problem file, which may not have been written yet."""
    page = Page(file, text)
    page.check_words((), page.data, TOP)
    for word in ("variables", "outputs"):
        instead = {"candidates", "mixtures"} & page.data.keys() if word == "variables" else None
        if word not in page.data and not instead:
            page.fail((), f"[{word}] is missing: {_EXAMPLES[word]}")
    problem = _problem(page)
    study = _study_words(page)
    tables = {
        name: file.parent / page.text(("campaigns", name), each, "the name of a table")
        for name, each in page.table("campaigns").items()
    }
    words = _run_words(page, tuple(problem.variables))
    return Stated(problem, file, study.pop("name", file.stem), study, **words, campaigns=tables)


def _problem(page: Page) -> Problem:
    """Read variables, outputs, constants, objective and constraints."""
    data = page.data
    decisions = _decisions(page)
    outputs = _Outputs.read(page)
    constants = {name: page.constant(("constants", name), each) for name, each in page.table("constants").items()}
    unknowns = {name: page.ends(("unknowns", name), each) for name, each in page.table("unknowns").items()}
    scope = Scope(decisions.names, tuple(outputs.names), constants, decisions.choices, tuple(unknowns))
    equations = [page.text(("equations",), each, 'a formula, "a == b"') for each in data.get("equations", ())]
    functions = _functions(page, scope)
    for output, text in outputs.models.items():
        with page.at("outputs", output, "model"):
            Formula(text, replace(scope, unknowns=()))
    inputs = page.names(("inputs",), data["inputs"]) if "inputs" in data else None
    noise = page.number(("noise",), data["noise"]) if "noise" in data else None
    with page.at():
        return Problem(
            decisions.variables,
            outputs.described(),
            **functions,
            name=page.text(("name",), data["name"], "a name") if "name" in data else None,
            unit=_unit(page),
            inputs=inputs if not outputs.inputs else {**_all(outputs.names, inputs), **outputs.inputs},
            noise=noise if not outputs.noise else {**_all(outputs.names, noise), **outputs.noise},
            ranges=outputs.ranges or None,
            constants=constants or None,
            candidates=decisions.candidates,
            models=outputs.models or None,
            unknowns=unknowns or None,
            equations=equations or None,
        )


def _run_words(page: Page, variables: tuple[str, ...]) -> dict[str, Any]:
    """Read `[run]`: the command or the FMU, which is not started here, and the number of workers."""
    run = page.table("run")
    page.check_words(("run",), run, RUN)
    count = {
        name: page.whole(("run", name), run[name], least)
        for name, least in (("retries", 0), ("workers", 1))
        if name in run
    }
    timeout = page.number(("run", "timeout"), run["timeout"]) if "timeout" in run else None
    if {"command", "fmu"} <= run.keys():
        page.fail(("run", "fmu"), "one thing evaluates a point: keep 'command' or 'fmu', and remove the other")
    found: dict[str, Any] = {"workers": count.get("workers")}
    if "fmu" in run:
        given = page.text(("run", "fmu"), run["fmu"], "the name of an FMU")
        if "\0" in given:
            page.fail(("run", "fmu"), f"{shown(given)} is not a file name")
        if timeout is not None and not timeout > 0:
            page.fail(("run", "timeout"), "a number of seconds above 0 is expected")
        place = page.place(("run", "fmu"))
        found["fmu"] = Simulator(page.file.resolve().parent / given, place, timeout, count.get("retries", 0))
    if "command" in run:
        from pied.evaluation import Command

        with page.at("run", "command"):
            found["command"] = Command.read(
                page.command(run["command"]), variables, timeout=timeout, retries=count.get("retries", 0),
                folder=page.file.resolve().parent,
            )  # fmt: skip
    return found


@dataclass(frozen=True)
class _Decisions:
    """What can be set: variables and mixtures, or the columns of a table of candidates."""

    variables: dict[str, Variable | Mixture] | list[str]
    """As `Problem` takes them."""
    choices: tuple[tuple[str, Choice], ...]
    """The variables that are labels."""
    candidates: dict[str, list[Any]] | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """All variables, with the parts of mixtures."""
        if not isinstance(self.variables, dict):
            return tuple(self.variables)
        pairs = self.variables.items()
        return tuple(part for name, each in pairs for part in (each.parts if isinstance(each, Mixture) else [name]))


def _decisions(page: Page) -> _Decisions:
    data = page.data
    if "candidates" not in data:
        read = {name: read_variable(page, ("variables", name), each) for name, each in page.table("variables").items()}
        return _Decisions({**read, **read_mixtures(page, read)}, choices_of(read))
    if "mixtures" in data:
        page.fail(("mixtures",), "the candidates list all points that can be set: leave the mixtures out")
    table = page.beside(("candidates",), data["candidates"])
    given = data.get("variables", list(table.columns))
    if isinstance(given, dict):
        stated = {name: read_variable(page, ("variables", name), each) for name, each in given.items()}
        with page.at("candidates"):
            columns = {name: table.labels(name) if each.is_choice else table.column(name)
                       for name, each in stated.items()}  # fmt: skip
        return _Decisions({**stated}, choices_of(stated), columns)
    names = page.names(("variables",), given)
    with page.at("candidates"):
        columns = {name: table.labels(name) if table.is_text(name) else table.column(name) for name in names}
        labelled = {name: Choice(*dict.fromkeys(columns[name])) for name in names if table.is_text(name)}
    return _Decisions(names, choices_of(labelled), columns)


def _all(names: list[str], value: Any) -> dict[str, Any]:
    return {} if value is None else dict.fromkeys(names, value)


READINGS = ("lod", "resolution")
"""What is said of the readings of an output."""
_EXAMPLES = {
    "variables": "name what can be set, for instance T_r = [70, 100]",
    "outputs": "name what is measured, for instance yield = { range = [0, 1] }",
}


@dataclass
class _Outputs:
    """The outputs of a file; a vector `c` of length 3 becomes c[1], c[2], c[3]."""

    names: list[str] = field(default_factory=list)
    ranges: dict[str, tuple[float | None, float | None]] = field(default_factory=dict)
    noise: dict[str, float] = field(default_factory=dict)
    inputs: dict[str, list[str]] = field(default_factory=dict)
    units: dict[str, str] = field(default_factory=dict)
    readings: dict[str, dict[str, float]] = field(default_factory=dict)
    """Limits of detection and resolutions."""
    models: dict[str, str] = field(default_factory=dict)
    """What is known of outputs, as formulas."""

    def described(self) -> Any:
        """Return the names, or with more said of them a dictionary (names given twice are refused later)."""
        if not (self.units or self.readings) or len(set(self.names)) < len(self.names):
            return self.names
        return {name: {"unit": self.units.get(name, ""), **self.readings.get(name, {})} for name in self.names}

    @classmethod
    def read(cls, page: Page) -> "_Outputs":
        given = page.data["outputs"]
        if isinstance(given, list):
            return cls(names=page.names(("outputs",), given))
        made = cls()
        for name, each in page.table("outputs").items():
            path = ("outputs", name)
            page.check_place(path, each)
            if not isinstance(each, dict):
                page.fail(
                    path, f"an output is described by {{ }}, for instance {{ range = [0, 1] }}, got {shown(each)}"
                )
            page.check_words(path, each, ("range", "noise", "inputs", "length", "unit", "model", *READINGS))
            parts = [name]
            if "length" in each:
                length = page.whole((*path, "length"), each["length"], 1, LONGEST)
                parts = [f"{name}[{place}]" for place in range(1, length + 1)]
            made.names += parts
            if "unit" in each:
                made.units |= dict.fromkeys(parts, page.text((*path, "unit"), each["unit"], "a unit"))
            for word in READINGS:
                if word in each:
                    value = page.number((*path, word), each[word])
                    for part in parts:
                        made.readings.setdefault(part, {})[word] = value
            if "model" in each:
                if "length" in each:
                    page.fail((*path, "model"), "a model is that of one output: name the elements of a vector singly")
                made.models[name] = page.text((*path, "model"), each["model"], "a formula")
            if "range" in each:
                made.ranges |= dict.fromkeys(parts, page.ends((*path, "range"), each["range"]))
            if "noise" in each:
                made.noise |= dict.fromkeys(parts, page.number((*path, "noise"), each["noise"]))
            if "inputs" in each:
                made.inputs |= dict.fromkeys(parts, page.names((*path, "inputs"), each["inputs"]))
        return made


def _functions(page: Page, scope: Scope) -> dict[str, Any]:
    """Read objective, constraints and tolerances; formulas are parsed here, so that errors have a place in the file."""
    data = page.data
    if not data.keys() & {"maximize", "minimize", "subject_to"}:
        page.fail((), 'the goal is missing: write maximize = "a formula" (or minimize) at the top')
    words: dict[str, Any] = {}
    for sense in ("maximize", "minimize"):
        if sense in data:
            words[sense] = _goals(page, sense, scope)
    given = data.get("subject_to", {})
    limits: dict[str, str] = {}
    tolerance: dict[str, float] = {}
    if isinstance(given, list):
        given = {page.text(("subject_to",), each, "a formula"): each for each in given}
    for name, each in (given if isinstance(given, dict) else page.table("subject_to")).items():
        path = ("subject_to", name)
        page.check_place(path, each)
        if isinstance(each, dict):
            page.check_words(path, each, ("formula", "tolerance"))
            if "formula" not in each:
                page.fail(path, 'the formula is missing: { formula = "a <= b", tolerance = 0.01 }')
            if "tolerance" in each:
                tolerance[name] = page.number((*path, "tolerance"), each["tolerance"])
            each = each["formula"]
        limits[name] = page.text(path, each, 'a formula with a comparison, "a <= b"')
        with page.at(*path):
            first = Formula.constraints(limits[name], scope)[0]
        if first.is_equality and first.uses_outputs and not tolerance.get(name, data.get("tolerance")):
            page.fail(path, _NEAR.format(name, limits[name]))
    if "tolerance" in data:
        tolerance = {**dict.fromkeys(limits, page.number(("tolerance",), data["tolerance"])), **tolerance}
    return {**words, "subject_to": limits or None, "tolerance": tolerance or None}


def _goals(page: Page, sense: str, scope: Scope) -> Any:
    """Read one objective, a formula, or several by their names, `[maximize]`."""
    given = page.data[sense]
    if not isinstance(given, dict):
        return _goal(page, (sense,), given, scope)
    for name, each in given.items():
        page.check_place((sense, name), each)
    return {name: _goal(page, (sense, name), each, scope) for name, each in given.items()}


def _goal(page: Page, path: tuple[str, ...], given: Any, scope: Scope) -> str:
    text = page.text(path, given, "a formula")
    with page.at(*path):
        Formula(text, scope)
    return text


def _unit(page: Page) -> Any:
    """Read the unit of the objective, or `[unit]`, that of each of several."""
    given = page.data.get("unit", "")
    if not isinstance(given, dict):
        return page.text(("unit",), given, "a unit") if "unit" in page.data else ""
    return {name: page.text(("unit", name), each, "a unit") for name, each in given.items()}


_NEAR = (
    "'{0}' asks an output for one value, which no measurement meets exactly: say how near is near enough, "
    '{{ formula = "{1}", tolerance = 0.01 }}'
)


def _study_words(page: Page) -> dict[str, Any]:
    """Read `[study]` and `solver`: the arguments of `Study`."""
    given = page.table("study")
    page.check_words(("study",), given, STUDY)
    words: dict[str, Any] = {}
    for name, least in (("seed", None), ("initial", 2), ("patience", 1)):
        if name in given:
            words[name] = page.whole(("study", name), given[name], least)
    for name in ("stop_at_gap", "stop_at_growth", "lease_hours"):
        if name in given:
            value = page.number(("study", name), given[name])
            words |= {"lease": 3600 * value} if name == "lease_hours" else {name: value}
    if "name" in given:
        words["name"] = page.text(("study", "name"), given["name"], "a name")
    if "solver" in page.data:
        solver = page.data["solver"]
        solver = {"name": solver} if isinstance(solver, str) else dict(page.table("solver"))
        name = page.text(("solver", "name"), solver.pop("name", "cuqb"), "a solver's name")
        for setting, value in solver.items():
            if isinstance(value, dict | list):
                page.fail(
                    ("solver", setting), "a setting in a file is one number, text or true/false; use Python for more"
                )
        with page.at("solver"):
            make(name, **solver)
        words |= {"solver": name, "settings": solver or None}
    return words
