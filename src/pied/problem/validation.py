"""Read the words of a statement (variables, ranges, noise ...) and the values users hand over, or say what is wrong."""

import copy
import hashlib
import inspect
import math
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float64
from torch import Tensor

from pied.errors import PiedError, StatementError, UnknownName, WhiteBoxError, did_you_mean
from pied.problem.candidates import Listing
from pied.problem.formula import Formula, Scope
from pied.problem.named import Named, canonical

NARROWEST = 1e-9
"""Smallest width of a variable relative to its size: below it, the unit cube cannot tell its points apart."""

Function = Callable[[Named, Named], Any]


@dataclass(frozen=True)
class Variable:
    """One decision and its box, lo <= x <= hi."""

    lo: float | int
    """Lower end, natural units."""
    hi: float | int
    """Upper end, natural units."""
    log: bool = field(default=False, kw_only=True)
    """Whether to search on a logarithmic scale: for quantities that range over powers of ten."""
    unit: str = field(default="", kw_only=True)
    """For the reader's eye only."""

    def __post_init__(self) -> None:
        for end in ("lo", "hi"):
            object.__setattr__(self, end, number(getattr(self, end), f"the bound {end}", StatementError))
        if not self.lo < self.hi:
            raise StatementError(f"The lower bound {self.lo:g} must be below the upper bound {self.hi:g}.")
        if not self.hi - self.lo > NARROWEST * max(abs(self.lo), abs(self.hi)):
            raise StatementError(
                f"The box from {self.lo!r} to {self.hi!r} is too narrow to search: make the variable a constant, "
                "or let it be the distance from its lower end."
            )
        if not math.isfinite(self.hi - self.lo):
            raise StatementError(f"The box from {self.lo!r} to {self.hi!r} is too wide for a computer's numbers.")
        if self.log and self.lo <= 0:
            raise StatementError(f"A logarithmic scale needs a lower bound above 0, got {self.lo:g}.")


def number(value: Any, what: str, error: type[PiedError]) -> float:
    """Read one finite real number, or say what came instead."""
    if isinstance(value, Tensor):
        value = value.detach().cpu().numpy()
    if isinstance(value, np.ndarray) and value.size == 1:
        value = value.reshape(-1)[0]
    kind = type(value).__name__
    if value is None or isinstance(value, str | bytes | bool | np.bool_ | complex | np.complexfloating):
        raise error(f"{what[0].upper()}{what[1:]} should be a number, got {kind} {value!r}.")
    try:
        made = float(value)
    except (TypeError, ValueError, OverflowError):
        raise error(f"{what[0].upper()}{what[1:]} should be a number, got {kind}.") from None
    if not math.isfinite(made):
        raise error(f"{what[0].upper()}{what[1:]} should be a finite number, got {made}.")
    return made


def numbers(
    given: Any, places: Mapping[str, int], kind: str, error: type[PiedError], *, partial: bool = False
) -> list[float]:
    """Read one number for each name, from a mapping, a sequence in order, or a number when there is one name.

    Args:
        given: What the user gave or the black box returned.
        places: The names wanted, in order.
        kind: What they name, for messages: "variable" or "output".
        error: The error to raise.
        partial: Whether names may be missing from a mapping; they become NaN.
    """
    names = list(places)
    if given is None:
        raise error(f"Nothing came (None) instead of the {kind}s {_listed(names)}: is a 'return' missing?")
    if isinstance(given, str | bytes | set | frozenset):
        raise error(f"The {kind}s {_listed(names)} should be a mapping by name or a sequence, got {given!r}.")
    if hasattr(given, "keys") and hasattr(given, "__getitem__"):
        return _by_name(given, places, kind, error, partial)
    if isinstance(given, Tensor):
        given = given.detach().cpu().numpy()
    if isinstance(given, np.ndarray) and given.ndim == 1:
        given = list(given)
    if isinstance(given, np.ndarray) and given.ndim > 1 and not given.size == len(names) == 1:
        raise error(f"The {kind}s should be {len(names)} numbers in one row, got an array of shape {given.shape}.")
    if isinstance(given, Sequence):
        if len(given) != len(names):
            raise error(f"{len(names)} {kind}s are expected ({_listed(names)}), got {len(given)} values.")
        return [number(each, f"{kind} '{name}'", error) for name, each in zip(names, given, strict=True)]
    if len(names) > 1:
        raise error(f"{len(names)} {kind}s are expected ({_listed(names)}), got one {type(given).__name__}.")
    return [number(given, f"{kind} '{names[0]}'", error)]


def _by_name(given: Any, places: Mapping[str, int], kind: str, error: type[PiedError], partial: bool) -> list[float]:
    found = dict.fromkeys(places, math.nan)
    for name in given.keys():  # noqa: SIM118 - things with keys need not iterate over them
        if name not in found:
            raise error(f"'{name}' is no {kind}.{did_you_mean(str(name), places)}")
        found[name] = number(given[name], f"{kind} '{name}'", error)
    missing = [name for name, value in found.items() if math.isnan(value)]
    if missing and not partial:
        raise error(f"The {kind} {_listed(missing)} is missing: give all of {_listed(list(places))}.")
    if len(missing) == len(places):
        raise error(f"None of the {kind}s {_listed(missing)} is given.")
    return list(found.values())


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(f"'{name}'" for name in names[:6])
    return shown + (", ..." if len(names) > 6 else "")


def described(name: str, function: Any) -> dict[str, Any]:
    """Describe a function for storage: a formula whole, other code as its source text (never run) and a hash."""
    if isinstance(function, Formula):
        return {"name": name, "formula": function.text, "part": function.part}
    try:
        source = textwrap.dedent(inspect.getsource(function))
    except (OSError, TypeError):
        source = None
    code = getattr(function, "__code__", None)
    told = source or (_code_text(code) if code else type(function).__qualname__)
    return {"name": name, "source": source, "hash": hashlib.sha256(told.encode()).hexdigest()[:16]}


def _code_text(code: CodeType) -> str:
    """Return a text that is the same for the same compiled code, whatever its place in memory."""
    parts = [_code_text(each) if isinstance(each, CodeType) else repr(each) for each in code.co_consts]
    return repr((code.co_code.hex(), parts, code.co_names, code.co_varnames))


def _check_names(names: Sequence[Any], kind: str, taken: Mapping[str, str]) -> None:
    """Refuse names that are empty, not text, given twice, or taken by something else."""
    seen = {canonical(name): word for name, word in taken.items()}
    for name in names:
        if not isinstance(name, str) or not name.strip():
            raise StatementError(f"The name of {kind} must be text that is not empty, got {name!r}.")
        other = seen.get(canonical(name))
        if other == kind:
            raise StatementError(f"The name '{name}' is given twice: every {kind.split()[-1]} needs a name of its own.")
        if other is not None:
            raise StatementError(f"'{name}' is both {other} and {kind}: give one of them another name.")
        seen[canonical(name)] = kind


def read_variables(given: Any) -> dict[str, Variable]:
    """Read the variables, each a pair, a `Variable` or a dictionary of its fields."""
    if not isinstance(given, Mapping) or not given:
        raise StatementError("variables should be a dictionary with at least one entry, {'x1': (0.0, 1.0)}.")
    _check_names(list(given), "a variable", {})
    made = {}
    for name, box in given.items():
        try:
            if isinstance(box, Variable):
                made[name] = box
            elif isinstance(box, Mapping):
                made[name] = Variable(**box)
            else:
                lo, hi = box
                ends = (("lo", lo), ("hi", hi))
                made[name] = Variable(*(number(end, f"the bound {end_name}", StatementError) for end_name, end in ends))
        except StatementError as error:
            raise StatementError(f"Variable '{name}': {error}") from None
        except (TypeError, ValueError):
            raise StatementError(f"Variable '{name}' should be (lo, hi) or Variable(lo, hi), got {box!r}.") from None
    return made


def read_candidates(variables: Any, given: Any) -> tuple[dict[str, Variable], Float64[Tensor, "c d"]]:
    """Read a list of candidates and the variables it is about.

    Args:
        variables: Names of the columns to use, boxes that hold all candidates (for units and logarithmic scales), or
            None for all columns of a table that names them.
        given: A table with named columns (a data frame, a dictionary of columns, a list of dictionaries), or an array
            with a column for each variable.
    """
    names = [variables] if isinstance(variables, str) else list(variables) if variables is not None else None
    X = _table(given.X if isinstance(given, Listing) else given, names)
    for name, column in X.items():
        bad = np.flatnonzero(~np.isfinite(column))
        if len(bad):
            raise StatementError(f"Candidate {bad[0] + 1} has no finite number for '{name}', got {column[bad[0]]}.")
        if column.min() == column.max():
            raise StatementError(f"'{name}' is {column[0]:g} in every candidate: make it a constant.")
    ends = {name: (float(column.min()), float(column.max())) for name, column in X.items()}
    made = read_variables(variables if isinstance(variables, Mapping) else ends)
    for name, (low, high) in ends.items():
        if low < made[name].lo or high > made[name].hi:
            box = f"from {made[name].lo:g} to {made[name].hi:g}"
            raise StatementError(f"The candidates have '{name}' from {low:g} to {high:g}, outside its box {box}.")
    return made, torch.from_numpy(np.stack(list(X.values()), 1))


def _table(given: Any, names: list[Any] | None) -> dict[str, Float64[np.ndarray, "c"]]:
    """Return the columns of a table of candidates, by name and in order."""
    if hasattr(given, "columns") and hasattr(given, "to_numpy"):
        columns: dict[Any, Any] = {name: given[name].to_numpy() for name in given.columns}
    elif isinstance(given, Mapping):
        columns = dict(given)
    elif isinstance(given, Sequence) and len(given) and isinstance(given[0], Mapping):
        columns = {name: [row.get(name) for row in given] for name in given[0]}
    else:
        if names is None:
            raise StatementError("These candidates have no names: name their columns, variables=['x1', 'x2'].")
        array = np.asarray(given.detach().cpu() if isinstance(given, Tensor) else given)
        array = array[:, None] if array.ndim == 1 and len(names) == 1 else array
        if array.ndim != 2 or array.shape[1] != len(names):
            shape = f"an array of shape {array.shape}"
            raise StatementError(f"The candidates should have a column for each of {_listed(names)}, got {shape}.")
        columns = dict(zip(names, array.T, strict=True))
    for name in names if names is not None else ():
        _known(name, columns, "variables", "column of the candidates")
    made = {name: _column(name, columns[name]) for name in (names if names is not None else columns)}
    if not made or len(next(iter(made.values()))) < 2:
        raise StatementError("candidates should be at least two points to choose from.")
    if len({len(column) for column in made.values()}) > 1:
        raise StatementError("The columns of the candidates differ in length.")
    return made


def _column(name: Any, given: Any) -> Float64[np.ndarray, "c"]:
    """Read one column of numbers."""
    column = np.asarray(given)
    if column.ndim == 1 and column.dtype.kind in "iuf":
        return column.astype(np.float64)
    return np.array([number(each, f"'{name}' of candidate {row}", StatementError) for row, each in enumerate(given, 1)])


def read_blackbox(given: Any) -> Callable[[Named], Any] | None:
    """Check that the black box is a function of one argument."""
    if given is None:
        return None
    if not callable(given):
        raise StatementError(f"blackbox should be a function of x, got {type(given).__name__}.")
    try:
        inspect.signature(given).bind(None)
    except TypeError:
        name = getattr(given, "__name__", "function")
        raise StatementError(
            f"blackbox should be a function of one argument x: write blackbox=lambda x: {name}(**x) to pass "
            "the variables by name."
        ) from None
    except ValueError:  # built in, without a signature: the first call will tell
        pass
    return given


def read_function(name: str, given: Any) -> Function:
    """Check that a function of the white box can be called with (x, y)."""
    if not callable(given):
        raise WhiteBoxError(f"'{name}' should be a function of (x, y) or a formula, got {type(given).__name__}.")
    try:
        inspect.signature(given).bind(None, None)
    except TypeError:
        raise WhiteBoxError(f"'{name}' should be a function of two arguments (x, y).") from None
    except ValueError:  # built in, without a signature: the first call will tell
        pass
    return given


def kept(value: Any) -> Any:
    """Copy a list or dictionary, so that changing it later does not change the problem."""
    return copy.copy(value) if isinstance(value, list | dict) else value


def read_outputs(given: Any, variables: Mapping[str, Any]) -> tuple[str, ...]:
    """Read the names of the outputs."""
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise StatementError(f"outputs should be a list of names, ['y1', 'y2'], got {given!r}.")
    if not given:
        raise StatementError("outputs is empty: name at least one thing the black box returns, outputs=['y1'].")
    _check_names(given, "an output", dict.fromkeys(variables, "a variable"))
    return tuple(given)


def read_constants(given: Any, taken: Sequence[str]) -> dict[str, float | tuple[float, ...]]:
    """Read the constants, numbers or lists of numbers."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise StatementError(f"constants should be a dictionary, {{'price': 2.5}}, got {type(given).__name__}.")
    _check_names(list(given), "a constant", dict.fromkeys(taken, "a variable or output"))
    made: dict[str, float | tuple[float, ...]] = {}
    for name, value in given.items():
        if isinstance(value, str) or np.ndim(value) == 0:
            made[name] = number(value, f"constant '{name}'", StatementError)
        else:
            made[name] = tuple(number(each, f"constant '{name}'", StatementError) for each in value)
            if not made[name]:
                raise StatementError(f"Constant '{name}' is an empty list: give at least one number.")
    return made


def read_active(given: Any, variables: Mapping[str, int], outputs: Mapping[str, int]) -> Bool[Tensor, "m d"]:
    """Read which variables each output depends on."""
    active = torch.ones(len(outputs), len(variables), dtype=torch.bool)
    if given is None:
        return active
    rows = given if isinstance(given, Mapping) else dict.fromkeys(outputs, given)
    for output, seen in rows.items():
        _known(output, outputs, "inputs", "output")
        if isinstance(seen, str) or not isinstance(seen, Sequence) or not seen:
            raise StatementError(f"inputs of '{output}' should be a list of variables, ['x1', 'x2'], got {seen!r}.")
        active[outputs[output]] = False
        for name in seen:
            _known(name, variables, "inputs", "variable")
            active[outputs[output], variables[name]] = True
    return active


def _known(name: Any, names: Mapping[str, Any] | Sequence[str], word: str, kind: str) -> None:
    if name not in names:
        raise UnknownName(f"{word} speaks of '{name}', which is no {kind}.{did_you_mean(str(name), names)}", name)


def read_per_name(given: Any, names: Sequence[str], word: str, kind: str, default: Any) -> tuple[float | None, ...]:
    """Read a word that is one number for all names, or a dictionary; missing ones get the default."""
    values = given if isinstance(given, Mapping) else dict.fromkeys(names, given)
    for name, value in values.items():
        _known(name, names, word, kind)
        if value is not None and number(value, f"{word} of '{name}'", StatementError) < 0:
            raise StatementError(f"{word} of '{name}' must not be negative, got {value!r}.")
    return tuple(default if values.get(name) is None else float(values[name]) for name in names)


def read_ranges(given: Any, outputs: Mapping[str, int]) -> Float64[Tensor, "m 2"]:
    """Read what each output can be; an end that is None is open."""
    ranges = torch.tensor([[-math.inf, math.inf]] * len(outputs), dtype=torch.float64)
    if given is not None and not isinstance(given, Mapping):
        raise StatementError("ranges should be a dictionary, {'y1': (0, 1)}, with None for an open end.")
    for name, ends in (given or {}).items():
        _known(name, outputs, "ranges", "output")
        if isinstance(ends, str) or not isinstance(ends, Sequence) or len(ends) != 2:
            raise StatementError(f"The range of '{name}' should be (lo, hi), with None for an open end, got {ends!r}.")
        for side, end in enumerate(ends):
            if end is not None and end not in (-math.inf, math.inf):
                ranges[outputs[name], side] = number(end, f"the range of '{name}'", StatementError)
        lo, hi = ranges[outputs[name]].tolist()
        if not lo < hi:
            raise StatementError(f"The range of '{name}' must have its lower end {lo:g} below its upper end {hi:g}.")
    return ranges


def read_constraints(given: Any, scope: Scope) -> dict[str, list[tuple[str, Function]]]:
    """Read the constraints: for each name the user gave, its parts with their own names."""
    if given is None:
        return {}
    if isinstance(given, str) or not isinstance(given, Mapping | Sequence):
        raise StatementError("subject_to should be {'name': function or formula}, or a list of formulas.")
    if not isinstance(given, Mapping):
        for each in given:
            if not isinstance(each, str):
                raise StatementError(
                    "subject_to has a function without a name: use a dictionary, {'name': function}, or formulas."
                )
        if len(set(given)) < len(given):
            raise StatementError("subject_to has the same formula twice: leave one out.")
        given = {each: each for each in given}
    groups: dict[str, list[tuple[str, Function]]] = {}
    for name, each in given.items():
        if not isinstance(name, str) or not name.strip():
            raise StatementError(f"The name of a constraint must be text that is not empty, got {name!r}.")
        if isinstance(each, str):
            parts = Formula.constraints(each, scope)
            names = [name] if len(parts) == 1 else [f"{name} ({place + 1})" for place in range(len(parts))]
            groups[name] = list(zip(names, parts, strict=True))
        else:
            groups[name] = [(name, read_function(name, each))]
    return groups


def read_tolerance(given: Any, groups: Mapping[str, list[tuple[str, Function]]]) -> tuple[float | None, ...]:
    """Read the tolerances; one given for a chain of comparisons holds for each of its parts."""
    parts = [part for group in groups.values() for part, _ in group]
    if isinstance(given, Mapping):
        spread = {part: given[name] for name in groups if name in given for part, _ in groups[name]}
        given = spread | {name: value for name, value in given.items() if name not in groups}
    return read_per_name(given, parts, "tolerance", "constraint", None)
