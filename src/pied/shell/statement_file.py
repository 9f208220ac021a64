"""A problem from a file: TOML, which is only read, or a Python module, which runs because the user named it."""

import importlib.util
import math
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from pied.errors import FormulaError, PiedError, SettingError, StatementError, did_you_mean
from pied.evaluation import Command
from pied.problem import Formula, Problem, Scope, Variable
from pied.shell.tables import Table, text_of
from pied.solvers import make

LARGEST = 1_000_000
"""Bytes of a statement at most."""
LONGEST = 1000
"""Parts of a vector of outputs at most: each is modelled by itself."""

TOP = (
    "variables", "outputs", "candidates", "maximize", "minimize", "subject_to", "constants", "inputs", "noise",
    "tolerance", "solver", "study", "run",
)  # fmt: skip
"""Words at the top of a file."""
STUDY = ("name", "seed", "initial", "patience", "stop_at_gap", "lease_hours")
RUN = ("command", "timeout", "retries", "workers")

_KEY = r"""(?:[\w-]+|"[^"]*"|'[^']*')"""
_KEYS = re.compile(_KEY)
_HEADING = re.compile(rf"\s*\[+\s*({_KEY}(?:\s*\.\s*{_KEY})*)\s*\]+\s*(?:#.*)?$")
_ENTRY = re.compile(rf"\s*({_KEY}(?:\s*\.\s*{_KEY})*)\s*=")


@dataclass(frozen=True)
class Stated:
    """What a file says: the problem, and how its study is made and run."""

    problem: Problem
    file: Path
    name: str
    """Of the study."""
    study: Mapping[str, Any] = field(default_factory=dict)
    """Words for `Study`."""
    command: Command | None = None
    """What evaluates a point, when someone runs it."""
    workers: int | None = None

    @property
    def store(self) -> Path:
        """Where the record is kept by default: beside the file."""
        return self.file.with_suffix(".db")


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
        raise StatementError(f"'{given}' is neither a statement (reactor.toml) nor a Python problem (plant.py:problem)")
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
    """Read a statement; nothing in it is ever run here."""
    page = _Page(file, text_of(file, "statement", LARGEST))
    data = page.data
    page.check_words((), data, TOP)
    for word in ("variables", "outputs"):
        if word not in data and not (word == "variables" and "candidates" in data):
            page.fail((), f"[{word}] is missing: {_EXAMPLES[word]}")
    variables, candidates = _decisions(page)
    outputs = _Outputs.read(page)
    constants = {name: page.constant(("constants", name), each) for name, each in page.table("constants").items()}
    scope = Scope(tuple(variables), tuple(outputs.names), constants)
    functions = _functions(page, scope)
    inputs = page.names(("inputs",), data["inputs"]) if "inputs" in data else None
    noise = page.number(("noise",), data["noise"]) if "noise" in data else None
    with page.at():
        problem = Problem(
            variables,
            outputs.names,
            **functions,
            inputs=inputs if not outputs.inputs else {**_all(outputs.names, inputs), **outputs.inputs},
            noise=noise if not outputs.noise else {**_all(outputs.names, noise), **outputs.noise},
            ranges=outputs.ranges or None,
            constants=constants or None,
            candidates=candidates,
        )
    study = _study_words(page)
    run = page.table("run")
    page.check_words(("run",), run, RUN)
    count = {
        name: page.whole(("run", name), run[name], least)
        for name, least in (("retries", 0), ("workers", 1))
        if name in run
    }
    timeout = page.number(("run", "timeout"), run["timeout"]) if "timeout" in run else None
    command = None
    if "command" in run:
        with page.at("run", "command"):
            command = Command.read(
                page.command(run["command"]), tuple(variables), timeout=timeout, retries=count.get("retries", 0),
                folder=file.resolve().parent,
            )  # fmt: skip
    name = study.pop("name", file.stem)
    return Stated(problem, file, name, study, command, count.get("workers"))


def _decisions(page: "_Page") -> tuple[dict[str, Variable] | list[str], dict[str, list[float]] | None]:
    """Read what can be set: boxes, or the columns of a table of candidates."""
    data = page.data
    if "candidates" not in data:
        return {name: page.variable(("variables", name), each) for name, each in page.table("variables").items()}, None
    table = page.beside(("candidates",), data["candidates"])
    given = data.get("variables", list(table.columns))
    names: dict[str, Variable] | list[str]
    if isinstance(given, dict):
        names = {name: page.variable(("variables", name), each) for name, each in given.items()}
    else:
        names = page.names(("variables",), given)
    with page.at("candidates"):
        return names, {name: table.column(name) for name in names}


def _all(names: list[str], value: Any) -> dict[str, Any]:
    return {} if value is None else dict.fromkeys(names, value)


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

    @classmethod
    def read(cls, page: "_Page") -> "_Outputs":
        given = page.data["outputs"]
        if isinstance(given, list):
            return cls(names=page.names(("outputs",), given))
        made = cls()
        for name, each in page.table("outputs").items():
            path = ("outputs", name)
            page.check_place(path, each)
            if not isinstance(each, dict):
                page.fail(path, f"an output is described by {{ }}, for instance {{ range = [0, 1] }}, got {each!r}")
            page.check_words(path, each, ("range", "noise", "inputs", "length"))
            parts = [name]
            if "length" in each:
                length = page.whole((*path, "length"), each["length"], 1, LONGEST)
                parts = [f"{name}[{place}]" for place in range(1, length + 1)]
            made.names += parts
            if "range" in each:
                made.ranges |= dict.fromkeys(parts, page.ends((*path, "range"), each["range"]))
            if "noise" in each:
                made.noise |= dict.fromkeys(parts, page.number((*path, "noise"), each["noise"]))
            if "inputs" in each:
                made.inputs |= dict.fromkeys(parts, page.names((*path, "inputs"), each["inputs"]))
        return made


def _functions(page: "_Page", scope: Scope) -> dict[str, Any]:
    """Read objective, constraints and tolerances; formulas are tried here, so that a mistake has its place."""
    data = page.data
    if not data.keys() & {"maximize", "minimize", "subject_to"}:
        page.fail((), 'the goal is missing: write maximize = "a formula" (or minimize) at the top')
    words: dict[str, Any] = {}
    for sense in ("maximize", "minimize"):
        if sense in data:
            words[sense] = page.text((sense,), data[sense], "a formula")
            with page.at(sense):
                Formula(words[sense], scope)
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
            Formula.constraints(limits[name], scope)
    if "tolerance" in data:
        tolerance = {**dict.fromkeys(limits, page.number(("tolerance",), data["tolerance"])), **tolerance}
    return {**words, "subject_to": limits or None, "tolerance": tolerance or None}


def _study_words(page: "_Page") -> dict[str, Any]:
    """Read `[study]` and `solver`: the words of `Study`."""
    given = page.table("study")
    page.check_words(("study",), given, STUDY)
    words: dict[str, Any] = {}
    for name, least in (("seed", None), ("initial", 2), ("patience", 1)):
        if name in given:
            words[name] = page.whole(("study", name), given[name], least)
    for name in ("stop_at_gap", "lease_hours"):
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


class _Page:
    """The text of a statement, and how to say where in it something is wrong."""

    def __init__(self, file: Path, text: str) -> None:
        self.file, self.lines = file, text.splitlines()
        try:
            self.data: dict[str, Any] = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise StatementError(f"{file.name} is no TOML: {error}; texts stand in quotes, names = values") from None
        except RecursionError:
            raise StatementError(f"{file.name} is nested too deeply to be a statement") from None

    # ------------------------------------------------------------------------------------------------- where

    def fail(self, path: tuple[str, ...], reason: str) -> NoReturn:
        raise StatementError(f"{self.place(path)}: {reason}")

    @contextmanager
    def at(self, *path: str) -> Iterator[None]:
        """Give what is raised inside its place in the file, as one line."""
        try:
            yield
        except (StatementError, SettingError) as error:
            kind = FormulaError if isinstance(error, FormulaError) else StatementError
            sentence, *window = str(error).splitlines()
            shown = f" In: {window[0].strip()}" if window else ""
            raise kind(f"{self.place(path)}: {sentence}{shown}") from error

    def place(self, path: tuple[str, ...]) -> str:
        """Return the file, the line where it can be found, and the words that lead there."""
        found, line = 0, 0
        table: tuple[str, ...] = ()
        for number, text in enumerate(self.lines, 1):
            heading, entry = _HEADING.match(text), _ENTRY.match(text)
            if heading:
                here = table = _keys(heading[1])
            elif entry:
                here = table + _keys(entry[1])
            else:
                continue
            if path[: len(here)] == here and len(here) > found:
                found, line = len(here), number
        words = ".".join(word if re.fullmatch(r"[\w-]+", word) else f'"{word}"' for word in path)
        return ", ".join([self.file.name, *([f"line {line}"] if line else []), *([words] if words else [])])

    def check_words(self, path: tuple[str, ...], table: Mapping[str, Any], known: tuple[str, ...]) -> None:
        """Refuse words that mean nothing here."""
        for word in table:
            if word not in known:
                misplaced = path and word in TOP
                reason = f"there is no word '{word}' here.{did_you_mean(word, known)}"
                self.fail((*path, word), _MISPLACED.format(word) if misplaced else reason)

    def check_place(self, path: tuple[str, ...], value: Any) -> None:
        """Refuse an objective that slipped under a heading, where it would be taken for a name."""
        if path[-1] in ("maximize", "minimize") and isinstance(value, str):
            self.fail(path, _MISPLACED.format(path[-1]))

    # -------------------------------------------------------------------------------------------------- what

    def table(self, word: str) -> dict[str, Any]:
        given = self.data.get(word, {})
        if not isinstance(given, dict):
            self.fail((word,), f"this should be a heading, [{word}], with one name = value a line, got {given!r}")
        return given

    def number(self, path: tuple[str, ...], value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            self.fail(path, f"a number is expected, got {value!r}")
        try:
            made = float(value)
        except OverflowError:
            made = math.inf
        if not math.isfinite(made):
            self.fail(path, "a finite number is expected")
        return made

    def whole(self, path: tuple[str, ...], value: Any, least: int | None, most: int | None = None) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            self.fail(path, f"a whole number is expected, got {value!r}")
        if (least is not None and value < least) or (most is not None and value > most):
            self.fail(
                path, f"a whole number {f'from {least} to {most}' if most else f'of at least {least}'} is expected"
            )
        return value

    def text(self, path: tuple[str, ...], value: Any, what: str) -> str:
        if not isinstance(value, str) or not value.strip():
            self.fail(path, f"{what} in quotes is expected, got {value!r}")
        return value

    def names(self, path: tuple[str, ...], value: Any) -> list[str]:
        if not isinstance(value, list) or not value:
            self.fail(path, f'a list of names is expected, ["a", "b"], got {value!r}')
        return [self.text(path, each, "a name") for each in value]

    def ends(self, path: tuple[str, ...], value: Any) -> tuple[float | None, float | None]:
        """Read a range; inf is an open end."""
        if not isinstance(value, list) or len(value) != 2:
            self.fail(path, f"a range has two ends, [0, 1], with -inf or inf for an open one, got {value!r}")
        lo, hi = (None if each in (math.inf, -math.inf) else self.number(path, each) for each in value)
        if lo is not None and hi is not None and not lo < hi:
            self.fail(path, f"the lower end {lo:g} must be below the upper end {hi:g}")
        return lo, hi

    def command(self, value: Any) -> str | list[str]:
        if isinstance(value, list):
            return [self.text(("run", "command"), each, "every word of a command") for each in value]
        return self.text(("run", "command"), value, "a command")

    def variable(self, path: tuple[str, ...], value: Any) -> Variable:
        self.check_place(path, value)
        if isinstance(value, list) and len(value) == 2:
            value = {"lo": value[0], "hi": value[1]}
        if not isinstance(value, dict):
            self.fail(
                path, f'a variable has two bounds, [70, 100] or {{ lo = 70, hi = 100, unit = "degC" }}, got {value!r}'
            )
        self.check_words(path, value, ("lo", "hi", "log", "unit"))
        for end in ("lo", "hi"):
            if end not in value:
                self.fail(path, f"the bound '{end}' is missing: {{ lo = 70, hi = 100 }}")
        log, unit = value.get("log", False), value.get("unit", "")
        if not isinstance(log, bool) or not isinstance(unit, str):
            self.fail(path, "log is true or false, and unit is a text in quotes")
        lo, hi = (self.number((*path, end), value[end]) for end in ("lo", "hi"))
        with self.at(*path):
            return Variable(lo, hi, log=log, unit=unit)

    def constant(self, path: tuple[str, ...], value: Any) -> float | tuple[float, ...]:
        self.check_place(path, value)
        if isinstance(value, list):
            if not value:
                self.fail(path, "an empty list is no constant: give at least one number")
            return tuple(self.number(path, each) for each in value)
        if not isinstance(value, dict):
            return self.number(path, value)
        self.check_words(path, value, ("file", "column"))
        for word in ("file", "column"):
            if word not in value:
                self.fail(path, f'\'{word}\' is missing: {{ file = "measured.csv", column = "c" }}')
        table = self.beside((*path, "file"), value["file"])
        with self.at(*path):
            return tuple(table.column(self.text((*path, "column"), value["column"], "a column's name")))

    def beside(self, path: tuple[str, ...], value: Any) -> Table:
        """Read a table that lies beside the statement, or below: a stranger's file reads nothing else."""
        given = self.text(path, value, "a file's name")
        folder = self.file.resolve().parent
        try:
            file = (folder / given).resolve()
        except (OSError, ValueError, RuntimeError):
            self.fail(path, f"{given!r} is no file's name")
        if not file.is_relative_to(folder):
            self.fail(path, f"'{given}' lies outside of the folder of {self.file.name}: copy it there")
        with self.at(*path):
            return Table.read(file)


_MISPLACED = "'{}' belongs to the top of the file, above the first [heading]: move the line there"


def _keys(text: str) -> tuple[str, ...]:
    return tuple(key.strip("\"'") for key in _KEYS.findall(text))
