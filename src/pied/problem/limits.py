"""A constraint as people say it: a quantity and its limit, `impurity <= 0.06`."""

from dataclasses import dataclass

from pied.problem.formula import Formula, sides_of
from pied.problem.parser import side_texts


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
