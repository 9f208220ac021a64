"""Read the arguments of a problem (variables, ranges, noise ...), or say what is wrong with them."""

import copy
import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy import ndarray

from pied.errors import StatementError, UnknownName, WhiteBoxError, did_you_mean
from pied.problem import casadi_door, sympy_door
from pied.problem.candidates import Listing
from pied.problem.choices import Choice
from pied.problem.equalities import Mixture
from pied.problem.formula import Formula, Scope
from pied.problem.named import Function, Named, canonical
from pied.problem.signatures import of_point
from pied.problem.tensors import dense, is_tensor
from pied.problem.unknowns import read_unknowns
from pied.problem.values import listed, number, with_article
from pied.problem.variables import Variable
from pied.shapes import Bool, Float64

MOST_VARIABLES = 1_000
"""Variables of a problem: the initial design alone takes 2d + 1 evaluations, and each has length scales to fit."""
MOST_OUTPUTS = 2_000
"""Outputs of a problem, with vectors counted by their elements: each has a model, and closed forms that move each
output separately take memory that grows with the square of their number."""
MOST_PAIRS = 1_000_000
"""Variables times outputs: every pair has an entry that says whether the output depends on the variable."""
MOST_CONSTRAINTS = 1_000
"""Constraints of a problem, with chains counted by their comparisons: each is tried at thousands of outputs."""
LONGEST_VECTOR = 10_000
"""Numbers in one constant: a formula repeats them for each point and each of hundreds of samples."""


def _check_count(count: int, most: int, what: str, remedy: str) -> None:
    """Refuse more than can be handled, before any computation."""
    if count > most:
        raise StatementError(f"{count:,} {what} are too many, at most {most:,} are possible: {remedy}.")


def _check_names(names: Sequence[Any], kind: str, taken: Mapping[str, str]) -> None:
    """Refuse names that are empty, not text, given twice, or already used for something else."""
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
    _check_count(len(given), MOST_VARIABLES, "variables", "make those that matter least constants")
    _check_names(list(given), "a variable", {})
    made = {}
    for name, box in given.items():
        try:
            made[name] = _read_variable(box)
        except (StatementError, UnknownName) as error:
            raise StatementError(f"Variable '{name}': {error}") from None
        except (TypeError, ValueError):
            kinds = "(lo, hi), Variable(lo, hi), Integer(lo, hi), Levels(...) or Choice(...)"
            raise StatementError(f"Variable '{name}' should be {kinds}, got {box!r}.") from None
    return made


def read_mixtures(given: Any) -> tuple[Any, dict[str, str]]:
    """Take mixtures apart: return the variables with their parts, and the equality of each mixture by its name."""
    if not isinstance(given, Mapping) or not any(isinstance(each, Mixture) for each in given.values()):
        return given, {}
    flat: dict[str, Any] = {}
    formulas: dict[str, str] = {}
    for name, each in given.items():
        own = each.variables if isinstance(each, Mixture) else {name: each}
        for part in own:
            if part in flat:
                raise StatementError(f"The name '{part}' is given twice: every variable needs a name of its own.")
        flat |= own
        if isinstance(each, Mixture):
            formulas[name] = each.formula
    return flat, formulas


def _read_variable(box: Any) -> Variable:
    """Read one variable: a kind, a pair, or a dictionary of fields, as it is stored."""
    if isinstance(box, Variable):
        return box
    if isinstance(box, Mapping) and "choices" in box:
        return Choice(*box["choices"], properties=box.get("properties"), observed=box.get("observed", False))
    if isinstance(box, Mapping):
        words: dict[str, Any] = {word: tuple(each) if word == "only" else each for word, each in box.items()}
        return Variable(**words)
    lo, hi = box
    return Variable(number(lo, "the bound lo", StatementError), number(hi, "the bound hi", StatementError))


def read_candidates(variables: Any, given: Any) -> tuple[dict[str, Variable], Float64[ndarray, "c d"]]:
    """Read a list of candidates and its variables.

    Args:
        variables: Names of the columns to use, or boxes that contain all candidates (for units and logarithmic
            scales), or None for all columns of a table with named columns.
        given: A table with named columns (a data frame, a dictionary of columns, a list of dictionaries), or an array
            with a column for each variable.
    """
    names = [variables] if isinstance(variables, str) else list(variables) if variables is not None else None
    stated = variables if isinstance(variables, Mapping) else {}
    X, labelled = _table(given.X if isinstance(given, Listing) else given, names, stated)
    for name, column in X.items():
        bad = np.flatnonzero(~np.isfinite(column))
        if len(bad):
            raise StatementError(f"Candidate {bad[0] + 1} has no finite number for '{name}', got {column[bad[0]]}.")
        if column.min() == column.max():
            raise StatementError(f"'{name}' is {column[0]:g} in every candidate: make it a constant.")
    ends = {name: (float(column.min()), float(column.max())) for name, column in X.items()}
    made = read_variables(variables if isinstance(variables, Mapping) else {**ends, **labelled})
    for name, (low, high) in ends.items():
        if low < made[name].lo or high > made[name].hi:
            box = f"from {made[name].lo:g} to {made[name].hi:g}"
            raise StatementError(f"The candidates have '{name}' from {low:g} to {high:g}, outside its range {box}.")
    return made, np.stack(list(X.values()), 1)


def _table(
    given: Any, names: list[Any] | None, stated: Mapping[str, Any]
) -> tuple[dict[str, Float64[np.ndarray, "c"]], dict[str, Choice]]:
    """Return the columns of a table of candidates, by name and in order, and the choices among them."""
    if hasattr(given, "columns") and hasattr(given, "to_numpy"):
        columns: dict[Any, Any] = {name: given[name].to_numpy() for name in given.columns}
    elif isinstance(given, Mapping):
        columns = dict(given)
    elif isinstance(given, Sequence) and len(given) and isinstance(given[0], Mapping):
        columns = {name: [row.get(name) for row in given] for name in given[0]}
    else:
        if names is None:
            raise StatementError("These candidates have no names: name their columns, variables=['x1', 'x2'].")
        array = dense(given) if is_tensor(given) else np.asarray(given)
        array = array[:, None] if array.ndim == 1 and len(names) == 1 else array
        if array.ndim != 2 or array.shape[1] != len(names):
            shape = f"an array of shape {array.shape}"
            raise StatementError(f"The candidates should have a column for each of {listed(names)}, got {shape}.")
        columns = dict(zip(names, array.T, strict=True))
    for name in names if names is not None else ():
        _known(name, columns, "variables", "column of the candidates")
    wanted = names if names is not None else list(columns)
    _check_count(len(wanted), MOST_VARIABLES, "variables", "name the columns that can be set, variables=['x1', 'x2']")
    labelled = {name: _choice(name, columns[name], stated) for name in wanted if _is_text(columns[name], name, stated)}
    made = {name: _column(name, columns[name], labelled.get(name)) for name in wanted}
    if not made or len(next(iter(made.values()))) < 2:
        raise StatementError("candidates should be at least two points to choose from.")
    if len({len(column) for column in made.values()}) > 1:
        raise StatementError("The columns of the candidates differ in length.")
    return made, labelled


def _is_text(given: Any, name: str, stated: Mapping[str, Any]) -> bool:
    """Tell whether a column holds labels; codes of a choice, as in a list read before, are numbers."""
    if isinstance(stated.get(name), Choice):
        return True
    return len(given) > 0 and all(isinstance(each, str) for each in given)


def _choice(name: str, given: Any, stated: Mapping[str, Any]) -> Choice:
    """Return the choice of a column of labels: as stated, else of the labels that occur."""
    known = stated.get(name)
    if isinstance(known, Choice):
        return known
    try:
        return Choice(*dict.fromkeys(str(each).strip() for each in given))
    except StatementError as error:
        raise StatementError(f"Candidates, column '{name}': {error}") from None


def _column(name: Any, given: Any, choice: Choice | None) -> Float64[np.ndarray, "c"]:
    """Read one column of numbers, or of labels."""
    column = np.asarray(given)
    if choice is not None and column.dtype.kind not in "iuf":
        rows = enumerate(given, 1)
        return np.array([choice.read(each, f"'{name}' of candidate {row}", StatementError) for row, each in rows])
    if column.ndim == 1 and column.dtype.kind in "iuf":
        return column.astype(np.float64)
    return np.array([number(each, f"'{name}' of candidate {row}", StatementError) for row, each in enumerate(given, 1)])


def read_blackbox(given: Any, variables: Mapping[str, Variable]) -> Callable[..., Any] | None:
    """Read the black box: a function of the point, or of variables by their names."""
    if given is None:
        return None
    if not callable(given):
        raise StatementError(f"blackbox should be a function of x, got {type(given).__name__}.")
    return of_point(given, variables)


def read_function(name: str, given: Any, scope: Scope) -> Any:
    """Check that a function of the white box can be called with (x, y), or is one of CasADi or SymPy."""
    if casadi_door.is_casadi(given):
        return casadi_door.Given(given.serialize(), given)
    if sympy_door.is_sympy(given):
        return sympy_door.Given(str(given), scope.constants, given)
    if not callable(given):
        raise WhiteBoxError(f"'{name}' should be a function of (x, y) or a formula, got {type(given).__name__}.")
    try:
        inspect.signature(given).bind(None, None)
    except TypeError:
        raise WhiteBoxError(f"'{name}' should be a function of two arguments (x, y).") from None
    except ValueError:  # a built-in function without a signature: the first call will show
        pass
    return given


def named_objective(given: Any, name: Any) -> tuple[Any, Any]:
    """Return an objective and its name, which may come together as `{"profit": "..."}`."""
    if not isinstance(given, Mapping):
        return given, name
    if len(given) != 1:
        raise StatementError(f"There is one objective, {{'profit': 'price*y - cost'}}, got {len(given)} of them.")
    own, objective = next(iter(given.items()))
    if name not in (None, own):
        raise StatementError(f"The objective is called '{own}' and '{name}': leave out name=.")
    return objective, own


def read_objective(given: Any, scope: Scope) -> tuple[str, Function]:
    """Read the objective, and return its name and function."""
    if given is None:
        return "any feasible point", _nothing
    if isinstance(given, str):
        return given, Formula(given, scope)
    name = str(given) if sympy_door.is_sympy(given) else own_name(given, "objective")
    return name, read_function(name, given, scope)


def _nothing(x: Named, y: Named) -> float:
    """Return 0 everywhere: the objective when any feasible point will do."""
    return 0.0


_nothing.stored_as = "320f180d57ab2d84"  # type: ignore[attr-defined]  # by which stored studies recognize it


def own_name(function: Any, otherwise: str) -> str:
    """Return a function's own name, or another one if it has none."""
    name = getattr(function, "__name__", "")
    return name if name and name != "<lambda>" else otherwise


def kept(value: Any) -> Any:
    """Copy a list or dictionary, so that changing it later does not change the problem."""
    return copy.copy(value) if isinstance(value, list | dict) else value


def read_unit(given: Any, what: str) -> str:
    """Read a unit, a text."""
    if not isinstance(given, str):
        raise StatementError(f"{what} should be a text, unit='mol/L', got {given!r}.")
    return given.strip()


def read_name(given: Any, own: str, taken: Sequence[str]) -> str:
    """Read what the objective is called; by default its formula, or the name of its function."""
    if given is None:
        return own
    if given != own:
        _check_names([given], "the objective", dict.fromkeys(taken, "a variable, output or constant"))
    return str(given)


FEWER_OUTPUTS = "let the black box return what the functions need of them, sums or a few numbers"
OUTPUT_WORDS = ("unit", "lod", "resolution", "model")


def read_readings(given: Any) -> tuple[dict[str, float], dict[str, float]]:
    """Read limits of detection and resolutions of outputs, `{"y": {"lod": 0.02, "resolution": 0.01}}`."""
    found: tuple[dict[str, float], dict[str, float]] = {}, {}
    for name, words in given.items() if isinstance(given, Mapping) else ():
        for word, own in zip(OUTPUT_WORDS[1:3], found, strict=True):
            value = words.get(word) if isinstance(words, Mapping) else None
            if value is not None:
                own[name] = number(value, f"{word} of '{name}'", StatementError)
                if word == "resolution" and not own[name] > 0:
                    raise StatementError(f"The resolution of '{name}' must be above 0, got {own[name]:g}.")
    return found


def _with_units(given: Mapping[str, Any]) -> dict[str, str]:
    """Read the units of outputs given as `{"y": {"unit": "mol/L"}}`; `{"y": {}}` has none."""
    units = {}
    for name, words in given.items():
        said = words if isinstance(words, Mapping) else {"unit": words} if isinstance(words, str) else None
        if said is None or set(said) - {*OUTPUT_WORDS}:
            raise StatementError(
                f"Output '{name}' should be described as {{'unit': 'mol/L', 'lod': 0.02, 'resolution': 0.01, "
                f"'model': formula}}, got {words!r}; ranges=, noise= and inputs= are words of their own."
            )
        units[name] = read_unit(said.get("unit", ""), f"the unit of '{name}'")
    return {name: unit for name, unit in units.items() if unit}


def counted(given: Any) -> Any:
    """Write out outputs that are counted: 54 and {"y": 54} are the elements of a vector, y[1] to y[54]."""
    if isinstance(given, int) and not isinstance(given, bool):
        given = {"y": given}
    if not isinstance(given, Mapping):
        return given
    made: dict[str, Any] = {}
    for name, words in given.items():
        if not isinstance(words, int) or isinstance(words, bool):
            made[name] = words
            continue
        if words < 1:
            raise StatementError(f"'{name}' should have at least one element, got {words}.")
        _check_count(words, MOST_OUTPUTS, f"elements of '{name}'", FEWER_OUTPUTS)
        made |= {f"{name}[{place}]": {} for place in range(1, words + 1)}
    return made


def read_sought(given: Any, taken: Sequence[str]) -> dict[str, tuple[float, float]]:
    """Read unknowns, whose names are no others'."""
    made = read_unknowns(given)
    _check_names(list(made), "an unknown", dict.fromkeys(taken, "a variable, output or constant"))
    return made


def read_models(outputs: Any, models: Any) -> Any:
    """Return the models of outputs, which are given together or with each output; None if there are none."""
    rows = outputs.items() if isinstance(outputs, Mapping) else ()
    own = {name: words["model"] for name, words in rows if isinstance(words, Mapping) and "model" in words}
    if not own:
        return models
    if models is not None and not isinstance(models, Mapping):
        raise StatementError("models= gives a model of all outputs, and outputs= of some: leave one out.")
    twice = next((name for name in models or {} if name in own), None)
    if twice is not None:
        raise StatementError(f"'{twice}' has a model in outputs= and in models=: leave one out.")
    return {**own, **(models or {})}


def read_outputs(given: Any, variables: Mapping[str, Any]) -> tuple[tuple[str, ...], dict[str, str]]:
    """Read the names of the outputs, and the units of those that have one."""
    units = _with_units(given) if isinstance(given, Mapping) else {}
    given = list(given) if isinstance(given, Mapping) else given
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise StatementError(f"outputs should be their number or a list of names, ['y1', 'y2'], got {given!r}.")
    if not given:
        raise StatementError("outputs is empty: name at least one thing the black box returns, outputs=['y1'].")
    _check_count(len(given), MOST_OUTPUTS, "outputs", FEWER_OUTPUTS)
    if len(given) * len(variables) > MOST_PAIRS:
        pairs = f"{len(given)} outputs of {len(variables)} variables"
        raise StatementError(f"{pairs} are too many: at most {MOST_PAIRS:,} pairs of them are modelled.")
    _check_names(given, "an output", dict.fromkeys(variables, "a variable"))
    return tuple(given), units


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
            remedy = "take fewer of them, or let the black box compute with them"
            _check_count(len(value), LONGEST_VECTOR, f"numbers in constant '{name}'", remedy)
            made[name] = tuple(number(each, f"constant '{name}'", StatementError) for each in value)
            if not made[name]:
                raise StatementError(f"Constant '{name}' is an empty list: give at least one number.")
    return made


def read_active(given: Any, variables: Mapping[str, int], outputs: Mapping[str, int]) -> Bool[ndarray, "m d"]:
    """Read which variables each output depends on."""
    active = np.ones((len(outputs), len(variables)), dtype=bool)
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
    """Refuse a name that does not exist, and suggest the one that was probably meant."""
    if name not in names:
        raise UnknownName(
            f"{word} names '{name}', which is not {with_article(kind)}.{did_you_mean(str(name), names)}", name
        )


def read_per_name(given: Any, names: Sequence[str], word: str, kind: str) -> tuple[float | None, ...]:
    """Read an argument that is one number for all names, or a dictionary; None for names that are missing."""
    values, known = given if isinstance(given, Mapping) else dict.fromkeys(names, given), dict.fromkeys(names)
    for name, value in values.items():
        _known(name, known, word, kind)
        if value is not None and number(value, f"{word} of '{name}'", StatementError) < 0:
            raise StatementError(f"{word} of '{name}' must not be negative, got {value!r}.")
    return tuple(None if values.get(name) is None else float(values[name]) for name in names)


def read_ranges(given: Any, outputs: Mapping[str, int]) -> Float64[ndarray, "m 2"]:
    """Read the range of each output; an end that is None is open."""
    ranges = np.array([[-math.inf, math.inf]] * len(outputs), dtype=float)
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
    """Read the constraints: for each name that the user gave, its parts with their own names."""
    if given is None:
        return {}
    if isinstance(given, str) or not isinstance(given, Mapping | Sequence):
        raise StatementError("subject_to should be {'name': function or formula}, or a list of formulas.")
    if not isinstance(given, Mapping):
        for each in given:
            if not isinstance(each, str) and not sympy_door.is_sympy(each):
                raise StatementError(
                    "subject_to has a function without a name: use a dictionary, {'name': function}, or formulas."
                )
        if len(set(given)) < len(given):
            raise StatementError("subject_to has the same formula twice: leave one out.")
        given = {str(each): each for each in given}
    groups: dict[str, list[tuple[str, Function]]] = {}
    count, remedy = len(given), "join those that belong together, max(a, b, c) <= 1"
    _check_count(count, MOST_CONSTRAINTS, "constraints", remedy)
    for name, each in given.items():
        if not isinstance(name, str) or not name.strip():
            raise StatementError(f"The name of a constraint must be text that is not empty, got {name!r}.")
        if isinstance(each, str):
            parts = Formula.constraints(each, scope)
            count += len(parts) - 1
            _check_count(count, MOST_CONSTRAINTS, "constraints", remedy)
            names = [name] if len(parts) == 1 else [f"{name} ({place + 1})" for place in range(len(parts))]
            groups[name] = list(zip(names, parts, strict=True))
        else:
            groups[name] = [(name, read_function(name, each, scope))]
    return groups


def read_tolerance(given: Any, groups: Mapping[str, list[tuple[str, Function]]]) -> tuple[float | None, ...]:
    """Read the tolerances; the tolerance of a chain of comparisons applies to each of its parts."""
    parts = [part for group in groups.values() for part, _ in group]
    if isinstance(given, Mapping):
        by_part = {part: given[name] for name in groups if name in given for part, _ in groups[name]}
        given = by_part | {name: value for name, value in given.items() if name not in groups}
    return read_per_name(given, parts, "tolerance", "constraint")
