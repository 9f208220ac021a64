"""Choices: variables whose values are labels, with properties that are known of each label.

Inside, a label is its place among the labels, 0, 1, 2, ... (its code), in all arrays of points. Functions and black
boxes see `Label`, a text with the properties as attributes, at one point, and `Chosen` at many points.
"""

import csv
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy import ndarray

from pied.errors import PiedError, StatementError, UnknownName, did_you_mean
from pied.problem.values import listed, number
from pied.problem.variables import MOST_SHOWN, Variable
from pied.shapes import Float64

MOST_LABELS = 1_000
"""Labels of a choice: each has an input of the belief of its own."""

Table = tuple[tuple[str, tuple[float, ...]], ...]
"""The properties by name, one number for each label."""


@dataclass(frozen=True, init=False)
class Choice(Variable):
    """One of several labels, such as a solvent or a catalyst: `Choice("MeCN", "DMF", "EtOH")`.

    Known properties are numbers that functions and formulas can use, `x.solvent.price` and `solvent.price`, and from
    which the belief may learn: `Choice("MeCN", "DMF", properties={"price": {"MeCN": 3.1, "DMF": 2.4}})`.

    Example: `docs/guide-spaces.md`.
    """

    labels: tuple[str, ...] = field(default=(), kw_only=True)
    """In the given order."""
    table: Table = field(default=(), kw_only=True)
    """The properties."""

    def __init__(self, *labels: Any, properties: Any = None, observed: bool = False) -> None:
        """State a choice.

        Args:
            labels: What there is to choose from; may be left out if a file of properties lists them.
            properties: Known numbers: `{"price": {"MeCN": 3.1, ...}}`, `{"price": [3.1, ...]}` in the order of the
                labels, or the path of a CSV file with the labels in its first column and a property in each other one.
            observed: Whether it is found, not chosen, such as the supplier of today's feed.
        """
        if isinstance(properties, str | Path):
            labels, properties = _read_file(Path(properties), labels)
        read = _read_labels(labels)
        object.__setattr__(self, "labels", read)
        object.__setattr__(self, "table", _read_properties(read, properties))
        for word, value in (("lo", 0.0), ("hi", len(read) - 1.0), ("log", False), ("unit", ""), ("whole", False)):
            object.__setattr__(self, word, value)
        for word in ("step", "round", "only"):
            object.__setattr__(self, word, None)
        object.__setattr__(self, "observed", observed)

    def __repr__(self) -> str:
        return f"Choice({', '.join(map(repr, self.labels))})"

    @property
    def span(self) -> str:
        """The labels, for messages."""
        more = ", ..." if len(self.labels) > MOST_SHOWN else ""
        return f"{{{', '.join(self.labels[:MOST_SHOWN])}{more}}}"

    @property
    def is_choice(self) -> bool:
        """Always."""
        return True

    @property
    def is_listed(self) -> bool:
        """Always."""
        return True

    @property
    def is_plain(self) -> bool:
        """Never: functions see a label."""
        return False

    @property
    def is_stepped(self) -> bool:
        """Always: there is nothing between two labels."""
        return True

    @property
    def properties(self) -> dict[str, dict[str, float]]:
        """The known numbers of each label, by property."""
        return {name: dict(zip(self.labels, values, strict=True)) for name, values in self.table}

    def levels(self) -> list[float]:
        """Return the codes."""
        return [float(code) for code in range(len(self.labels))]

    def stated(self) -> dict[str, Any]:
        """Return the fields for storage."""
        table = {name: list(values) for name, values in self.table}
        plain = {"lo": self.lo, "hi": self.hi, "log": False, "unit": "", "choices": list(self.labels)}
        return plain | ({"properties": table} if table else {}) | ({"observed": True} if self.observed else {})

    def read(self, value: Any, what: str, error: type[PiedError]) -> float:
        """Read a label, and return its code."""
        if not isinstance(value, str):
            raise error(f"{what[0].upper()}{what[1:]} should be one of {listed(self.labels)}, got {value!r}.")
        try:
            return self.code(value.strip())
        except UnknownName as unknown:
            raise error(f"{what[0].upper()}{what[1:]}: {unknown}") from None

    def recorded(self, value: Any) -> "Label":
        """Return a label as it is recorded."""
        return self.at(self.code(value))

    def code(self, label: Any) -> float:
        """Return the code of a label, or say which labels there are."""
        if label in self.labels:
            return float(self.labels.index(label))
        near = did_you_mean(str(label), self.labels)
        raise UnknownName(f"{label!r} is not among {listed(self.labels)}.{near}", label)

    def column(self, name: str) -> Float64[ndarray, "n"]:
        """Return a property, one number for each label; spaces in its name may be written as underscores."""
        for known, values in self.table:
            if name in (known, known.replace(" ", "_")):
                return np.array(values)
        known_names = [each for each, _ in self.table]
        said = f"{did_you_mean(name, known_names)}" if known_names else " It has none."
        raise UnknownName(f"This choice has no property '{name}'.{said}", name)

    def at(self, code: float) -> "Label":
        """Return the label at one point."""
        return Label(self, code)

    def over(self, codes: Any) -> "Chosen":
        """Return the labels at many points."""
        return Chosen(self, codes)


def choices_of(variables: Mapping[str, Variable]) -> tuple[tuple[str, Choice], ...]:
    """Return the choices among some variables, whose names and properties formulas can use."""
    return tuple((name, each) for name, each in variables.items() if isinstance(each, Choice))


class Label(str):
    """A label, a text whose attributes are its properties: `x.solvent == "DMF"`, `x.solvent.price`."""

    _choice: Choice
    _place: int

    def __new__(cls, choice: Choice, code: float) -> "Label":
        place = min(max(round(float(code)), 0), len(choice.labels) - 1)
        made = super().__new__(cls, choice.labels[place])
        made._choice, made._place = choice, place
        return made

    def __getattr__(self, name: str) -> float:
        if name.startswith("_"):
            raise AttributeError(name)
        return float(self._choice.column(name)[self._place])

    def __getitem__(self, name: Any) -> Any:
        return getattr(self, name) if isinstance(name, str) else super().__getitem__(name)

    def __format__(self, spec: str) -> str:
        """Return the text; formats of numbers leave it as it is, so that points are printed in one way."""
        return str(self) if spec[-1:] in "gfeG" and spec else super().__format__(spec)

    def __reduce__(self) -> tuple[Any, ...]:
        return Label, (self._choice, self._place)


class Chosen:
    """The labels at many points: a property is an array, a comparison with a label too."""

    __slots__ = ("_choice", "_codes")
    __hash__ = None  # type: ignore[assignment]  # a table looked up by label needs one point at a time

    def __init__(self, choice: Choice, codes: Any) -> None:
        self._choice, self._codes = choice, codes

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return self[name]

    def __getitem__(self, name: str) -> Any:
        values = self._choice.column(name)
        if hasattr(type(self._codes), "new_tensor"):  # of torch, which has no interpolation
            return self._codes.new_tensor(values)[self._codes.round().long()]
        return np.interp(self._codes, np.arange(float(len(values))), values)

    def __eq__(self, label: object) -> Any:
        return self._codes == self._choice.code(label)

    def __ne__(self, label: object) -> Any:
        return self._codes != self._choice.code(label)


def _read_labels(given: Iterable[Any]) -> tuple[str, ...]:
    """Read the labels."""
    labels = list(given)
    if len(labels) == 1 and isinstance(labels[0], list | tuple):
        raise StatementError("The labels stand one after the other, Choice('a', 'b'), not in a list.")
    for label in labels:
        if not isinstance(label, str) or not label.strip():
            raise StatementError(f"A label must be text that is not empty, got {label!r}; numbers are Levels(10, 15).")
    if len(labels) < 2:
        said = f"'{labels[0]}' is the only label" if labels else "No labels are given"
        raise StatementError(f"{said}: a choice needs at least two of them.")
    if len(labels) > MOST_LABELS:
        raise StatementError(f"{len(labels):,} labels are too many, at most {MOST_LABELS:,} are possible.")
    if len({label.strip() for label in labels}) < len(labels):
        twice = next(each for each in labels if [other.strip() for other in labels].count(each.strip()) > 1)
        raise StatementError(f"The label '{twice.strip()}' is given twice: leave one out.")
    return tuple(str(label).strip() for label in labels)


def _read_properties(labels: tuple[str, ...], given: Any) -> Table:
    """Read the properties: each has a number for every label."""
    if given is None:
        return ()
    if not isinstance(given, Mapping):
        raise StatementError("properties should be a dictionary, {'price': {'MeCN': 3.1, ...}}, or the path of a CSV.")
    made = []
    for name, values in given.items():
        if not isinstance(name, str) or not name.strip():
            raise StatementError(f"The name of a property must be text that is not empty, got {name!r}.")
        if isinstance(values, Mapping):
            for label in values:
                if label not in labels:
                    near = did_you_mean(str(label), labels)
                    raise StatementError(f"Property '{name}' is given for '{label}', which is no label.{near}")
            missing = [label for label in labels if label not in values]
            if missing:
                raise StatementError(f"Property '{name}' is missing for {listed(missing)}.")
            values = [values[label] for label in labels]
        elif isinstance(values, str) or not hasattr(values, "__len__") or len(values) != len(labels):
            raise StatementError(f"Property '{name}' needs {len(labels)} numbers, one for each label, got {values!r}.")
        pairs = zip(labels, values, strict=True)
        read = (number(each, f"property '{name}' of '{label}'", StatementError) for label, each in pairs)
        made.append((name.strip(), tuple(read)))
    return tuple(made)


def _read_file(path: Path, labels: tuple[str, ...]) -> tuple[tuple[str, ...], dict[str, Any]]:
    """Read a CSV file of properties: labels in the first column; all of them are the choice unless some are given."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise StatementError(f"The properties cannot be read from {path}: {error}") from None
    separator = ";" if text.partition("\n")[0].count(";") else ","
    rows = [row for row in csv.reader(text.splitlines(), delimiter=separator) if any(cell.strip() for cell in row)]
    if len(rows) < 2 or len(rows[0]) < 2:
        raise StatementError(f"{path} should have the labels in its first column and a property in each other one.")
    names, body = [cell.strip() for cell in rows[0][1:]], rows[1:]
    found = {row[0].strip(): row[1:] for row in body}
    for label in labels:
        if label not in found:
            raise StatementError(f"{path} has no row for '{label}'.{did_you_mean(str(label), found)}")
    chosen = labels or tuple(found)
    table: dict[str, Any] = {}
    for place, name in enumerate(names):
        cells = {label: (found[label] + [""] * len(names))[place].strip() for label in chosen}
        for label, cell in cells.items():
            try:
                cells[label] = float(cell.replace(",", ".") if separator == ";" else cell)  # type: ignore[assignment]
            except ValueError:
                raise StatementError(f"{path}: '{name}' of '{label}' should be a number, got {cell!r}.") from None
        table[name] = cells
    return chosen, table
