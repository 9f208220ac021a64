"""A constraint as people say it: a quantity and its limit, `impurity <= 0.06`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pied.problem.formula import Formula, sides_of
from pied.problem.parser import side_spans, side_texts


@dataclass(frozen=True)
class Limit:
    """A quantity that a constraint compares with a number."""

    quantity: str
    """What is limited: a name or a formula."""
    value: float
    """The limit."""
    is_upper: bool
    """Whether the quantity must not exceed the limit; else it must reach it."""

    def quantity_at(self, slack: float) -> float:
        """Return the quantity where the constraint has this value."""
        return self.value - slack if self.is_upper else self.value + slack

    @property
    def sign(self) -> str:
        """The comparison."""
        return "<=" if self.is_upper else ">="


def limit_of(formula: Formula) -> Limit | None:
    """Return the quantity and the limit of a formula with a comparison; None when neither side is a number."""
    if formula.part is None:
        return None
    low, high, is_up = sides_of(formula)
    if (low is None) == (high is None):
        return None
    texts = side_texts(formula.text)
    first = 0 if formula.is_equality else formula.part
    left, right = (text.strip("`") if text.count("`") == 2 else text for text in texts[first : first + 2])
    small, large = (left, right) if is_up else (right, left)
    return Limit(large, low, False) if low is not None else Limit(small, high or 0.0, True)


def _number_side(formula: Formula) -> int | None:
    """Return which side of a formula is the limit, if it is written as a number and not as a constant's name."""
    if formula.part is None or formula.is_equality or limit_of(formula) is None:
        return None
    low, _, is_up = sides_of(formula)
    side = formula.part + int((low is None) == is_up)
    try:
        float(side_texts(formula.text)[side])
    except ValueError:
        return None
    return side


def is_movable(formula: Formula) -> bool:
    """Tell whether the limit of a formula is a plain number, which can be replaced."""
    return _number_side(formula) is not None


def with_limit(formula: Formula, text: str, value: float) -> str:
    """Return a formula's text with another number as its limit; `text` may have other numbers already."""
    side = _number_side(formula)
    assert side is not None
    start, end = side_spans(text)[side]
    old = text[start:end]
    lead, tail = old[: len(old) - len(old.lstrip())], old[len(old.rstrip()) :]
    return f"{text[:start]}{lead}{value!r}{tail}{text[end:]}"


def moved_limits(given: Any, formulas: Mapping[str, Formula], values: Mapping[str, float]) -> Any:
    """Return constraints, as they were given, with other limits.

    Args:
        given: A dictionary or a list of constraints.
        formulas: Formulas by the names of constraints.
        values: The new limits by the names of constraints.
    """
    texts: dict[str, str] = {}
    for name, value in values.items():
        formula = formulas[name]
        texts[formula.text] = with_limit(formula, texts.get(formula.text, formula.text), value)
    if isinstance(given, Mapping):
        return {name: texts.get(each, each) if isinstance(each, str) else each for name, each in given.items()}
    given = [given] if isinstance(given, str) else given
    return [texts.get(each, each) if isinstance(each, str) else each for each in given]
